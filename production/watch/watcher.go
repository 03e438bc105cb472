package watch

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// Bounds of a Watcher.
const (
	leaseEvery = 20 * time.Second
	leaseLasts = 60 * time.Second
	tickEvery  = 5 * time.Second
	sendEvery  = time.Second // at most one request to the Sink
	sendWithin = 30 * time.Second
	maxBatch   = 1000
	maxDials   = 16 // connections that are made at a time
	firstRetry = time.Second
	lastRetry  = time.Minute
	keyRetry   = 5 * time.Minute // after a wrong key, which printers may punish
	flushTime  = 5 * time.Second // for what is left at the end
)

// Printer is a printer to watch.
type Printer struct {
	ID string
	Connection
}

// Held is a printer that a Watcher may watch for 60 seconds. Last is the last State that the service has of it, whose
// Job is the last one of the printer, also if an earlier State ended it; nil if there is none, or unknown. With it, a
// watcher that starts again knows a job that it has reported.
type Held struct {
	PrinterID string
	Last      *State
}

// Result is the answer of the service to a State. Outcome is accepted, duplicate or refused.
type Result struct {
	PrinterID string       `json:"printer_id"`
	Sequence  int64        `json:"sequence"`
	Outcome   string       `json:"outcome"`
	RunID     string       `json:"run_id"`
	Error     *ResultError `json:"error"`
}

// ResultError is why a State was refused.
type ResultError struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// ErrRefused is wrapped by the error of Sink.Send if it refuses the States for ever, such as with the status 422. The
// Watcher then sends them one by one.
var ErrRefused = errors.New("the service refuses the states")

// Sink takes States: the service itself, or a client of its API.
type Sink interface {
	// Lease returns those of the printers that the watcher with the name may watch during the next 60 seconds.
	Lease(ctx context.Context, name string, printers []string) ([]Held, error)
	// Send sends 1 to 1,000 States. A State without a result is sent again.
	Send(ctx context.Context, states []State) ([]Result, error)
}

// Watcher watches printers and sends their States to Sink, those of a printer in order, until Sink has them. Set the
// fields before Run.
type Watcher struct {
	Name   string
	Sink   Sink
	Dial   Dial // nil for all networks
	Log    *slog.Logger
	Pinned func(printer, fingerprint string) // a certificate was seen first, with a connection without one; may be nil

	queue   queue
	mu      sync.Mutex
	wanted  []Printer
	watched map[string]*watched
	changed chan struct{}
	once    sync.Once
}

// watched is a printer with the goroutine that watches it.
type watched struct {
	Printer
	mu      sync.Mutex
	tracker *tracker
	until   time.Time // of the lease
	stop    func()    // and wait; nil if no goroutine watches it
}

func (w *Watcher) init() {
	w.once.Do(func() {
		w.watched, w.changed = map[string]*watched{}, make(chan struct{}, 1)
		w.queue.wake = make(chan struct{}, 1)
	})
}

// Set says which printers to watch from now on.
func (w *Watcher) Set(printers []Printer) {
	w.init()
	w.mu.Lock()
	w.wanted = slices.Clone(printers)
	w.mu.Unlock()
	signal(w.changed)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run watches until ctx ends, and then sends what is left, for a few seconds.
func (w *Watcher) Run(ctx context.Context) {
	w.init()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { w.deliver(ctx) })
	wg.Go(func() {
		for pause(ctx, tickEvery) == nil {
			w.each(func(p *watched) {
				p.mu.Lock()
				if !w.queue.full(p.ID) {
					p.tracker.tick(time.Now())
				}
				p.mu.Unlock()
			})
		}
	})
	leases := time.NewTicker(leaseEvery)
	defer leases.Stop()
	dials := make(chan struct{}, maxDials)
	for ctx.Err() == nil {
		w.lease(ctx, dials)
		select {
		case <-leases.C:
		case <-w.changed:
		case <-ctx.Done():
		}
	}
	w.each(func(p *watched) { p.end() })
}

func (w *Watcher) each(f func(*watched)) {
	w.mu.Lock()
	var all []*watched
	for _, p := range w.watched {
		all = append(all, p)
	}
	w.mu.Unlock()
	for _, p := range all {
		f(p)
	}
}

func (p *watched) end() {
	if p.stop != nil {
		p.stop()
		p.stop = nil
		p.mu.Lock()
		p.tracker.suspend(time.Now())
		p.mu.Unlock()
	}
}

// lease renews the leases, and begins and ends watching accordingly.
func (w *Watcher) lease(ctx context.Context, dials chan struct{}) {
	w.mu.Lock()
	wanted := map[string]Printer{}
	var ids []string
	for _, p := range w.wanted {
		wanted[p.ID] = p
		ids = append(ids, p.ID)
	}
	w.mu.Unlock()
	held := map[string]Held{}
	failed := false
	for batch := range slices.Chunk(ids, maxBatch) {
		limited, cancel := context.WithTimeout(ctx, answerWithin)
		list, err := w.Sink.Lease(limited, w.Name, batch)
		cancel()
		if err != nil {
			failed = true
			w.Log.Warn("Cannot lease printers", "error", err)
		}
		for _, h := range list {
			held[h.PrinterID] = h
		}
	}
	now := time.Now()
	w.each(func(p *watched) {
		_, may := held[p.ID]
		if q, ok := wanted[p.ID]; !ok || q != p.Printer || !may && !(failed && now.Before(p.until)) {
			p.end()
		}
		if _, ok := wanted[p.ID]; !ok {
			w.mu.Lock()
			delete(w.watched, p.ID)
			w.mu.Unlock()
		}
	})
	for id, h := range held {
		q, ok := wanted[id]
		w.mu.Lock()
		p := w.watched[id]
		if p == nil && ok {
			p = &watched{Printer: q, tracker: newTracker(id, h.Last, now, w.queue.put)}
			w.watched[id] = p
		}
		w.mu.Unlock()
		if !ok {
			continue
		}
		if p.until = now.Add(leaseLasts); p.stop == nil {
			p.mu.Lock()
			p.Printer = q
			if h.Last != nil && h.Last.Sequence > p.tracker.sent.Sequence { // another watcher has gone on
				p.tracker = newTracker(id, h.Last, now, w.queue.put)
			}
			p.mu.Unlock()
			w.begin(ctx, p, dials)
		}
	}
}

// begin starts the goroutine that watches a printer.
func (w *Watcher) begin(ctx context.Context, p *watched, dials chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	p.stop = func() {
		cancel()
		<-done
	}
	dial := w.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	go func() {
		defer close(done)
		w.follow(ctx, p, func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, answerWithin)
			defer cancel()
			select {
			case dials <- struct{}{}:
				defer func() { <-dials }()
				return dial(ctx, network, address)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
	}()
}

// follow connects to a printer again and again.
func (w *Watcher) follow(ctx context.Context, p *watched, dial Dial) {
	k, invalid := newKind(p.Connection, dial)
	said, pinned, wait := "", p.Fingerprint, firstRetry
	for ctx.Err() == nil {
		err := invalid
		if err == nil {
			err = k.watch(ctx, func(o Observation) {
				wait = firstRetry
				if o.Fingerprint != pinned && w.Pinned != nil {
					w.Pinned(p.ID, o.Fingerprint)
				}
				pinned = o.Fingerprint
				if !w.queue.full(p.ID) { // otherwise as if the printer were not watched for a while
					p.mu.Lock()
					p.tracker.see(time.Now(), o)
					p.mu.Unlock()
				}
			})
		}
		if ctx.Err() != nil {
			return
		}
		why := problemOf(err, p.Address)
		if said != why.Text {
			said = why.Text
			w.Log.Info("Cannot watch a printer", "printer", p.ID, "problem", why.Code, "text", why.Text)
		}
		p.mu.Lock()
		p.tracker.lost(time.Now(), why)
		p.mu.Unlock()
		most := lastRetry
		if why.answers() {
			most = keyRetry
		}
		if pause(ctx, wait/2+rand.N(wait)) != nil {
			return
		}
		wait = min(2*wait, most)
	}
}
