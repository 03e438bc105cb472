package watch

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// Bounds of a Watcher.
const (
	leaseEvery = 20 * time.Second
	leaseRetry = 5 * time.Second
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

// ErrTooLarge is the error of Sink.Send if it refuses the States because they are too many.
var ErrTooLarge = errors.New("the service refuses so many states")

// Sink takes States: the service itself, or a client of its API.
type Sink interface {
	// Lease returns those of the printers that the watcher with the name may watch during the next 60 seconds, with the
	// last State that the service has of each, whose Job is the last one of the printer, also if an earlier State ended
	// it; nil if there is none. With it, a watcher that starts again knows a job that it has reported. Unless last is
	// true, the States may be nil.
	Lease(ctx context.Context, name string, printers []string, last bool) (map[string]*State, error)
	// Send sends 1 to 1,000 States of the watcher with the name. It returns why it refuses some for ever, by their
	// indexes. After an error, the others are sent again.
	Send(ctx context.Context, name string, states []State) (refused map[int]string, err error)
}

// Watcher watches printers and sends their States to Sink, those of a printer in order, until Sink has them. Set the
// fields before Set and Run.
type Watcher struct {
	Name   string
	Sink   Sink
	Dial   Dial // nil for all networks
	Log    *slog.Logger
	Pinned func(p Printer, fingerprint string) // the certificate of a printer that has no fingerprint; may be nil

	mu      sync.Mutex // of the fields below, and of their trackers
	wanted  map[string]Printer
	watched map[string]*watched
	failed  bool   // the last request for leases; nothing is sent meanwhile
	changed signal // Set was called
	queue   queue
	dials   chan struct{}
}

// watched is a printer with the goroutine that watches it.
type watched struct {
	Printer
	tracker *tracker
	cancel  context.CancelFunc // nil if no goroutine watches it
}

// signal wakes a goroutine that waits for it.
type signal chan struct{}

func (s signal) send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// New returns a Watcher without printers.
func New(name string, sink Sink, dial Dial, log *slog.Logger) *Watcher {
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return &Watcher{Name: name, Sink: sink, Dial: dial, Log: log, watched: map[string]*watched{},
		changed: make(signal, 1), queue: queue{wake: make(signal, 1), counts: map[string]int{}},
		dials: make(chan struct{}, maxDials)}
}

// Set says which printers to watch from now on.
func (w *Watcher) Set(printers []Printer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = map[string]Printer{}
	for _, p := range printers {
		w.wanted[p.ID] = p
	}
	w.changed.send()
}

// Run watches until ctx ends, and then sends what is left, for a few seconds.
func (w *Watcher) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { w.deliver(ctx) })
	wg.Go(func() {
		for ctx.Err() == nil {
			wait := leaseEvery
			if !w.lease(ctx, &wg) {
				wait = leaseRetry
			}
			select {
			case <-w.changed:
			case <-time.After(wait):
			case <-ctx.Done():
			}
		}
	})
	for pause(ctx, tickEvery) == nil {
		w.mu.Lock()
		for _, p := range w.watched {
			if p.cancel != nil && !w.queue.full(p.ID) {
				p.tracker.tick(time.Now())
			}
		}
		w.mu.Unlock()
	}
}

// lease renews the leases, and begins and ends watching accordingly. Without an answer, it reports false, and watching
// goes on: the States wait until it is known that no other watcher has the printers.
func (w *Watcher) lease(ctx context.Context, wg *sync.WaitGroup) bool {
	w.mu.Lock()
	ids := slices.Sorted(maps.Keys(w.wanted))
	w.mu.Unlock()
	held, failed := map[string]*State{}, false
	for batch := range slices.Chunk(ids, maxBatch) {
		limited, cancel := context.WithTimeout(ctx, answerWithin)
		last := slices.ContainsFunc(batch, func(id string) bool {
			p := w.watched[id] // which only this goroutine changes
			return p == nil || p.cancel == nil
		})
		states, err := w.Sink.Lease(limited, w.Name, batch, last)
		cancel()
		if failed = failed || err != nil; err != nil {
			w.Log.Warn("Cannot lease printers", "error", err)
		}
		maps.Copy(held, states)
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = failed
	for id, p := range w.watched {
		wanted, ok := w.wanted[id]
		_, may := held[id]
		if p.cancel != nil && (wanted != p.Printer || !may && !failed) {
			p.cancel()
			p.tracker.suspend(now)
			p.cancel = nil
		}
		if !ok {
			delete(w.watched, id)
		}
	}
	for id, last := range held {
		wanted, ok := w.wanted[id]
		p := w.watched[id]
		if !ok || p != nil && p.cancel != nil {
			continue
		}
		// Otherwise the tracker goes on, unless another watcher has done so.
		if p == nil || last != nil && last.Sequence > p.tracker.sent.Sequence {
			p = &watched{tracker: newTracker(id, last, now, w.queue.put)}
			w.watched[id] = p
		}
		p.Printer = wanted
		var watching context.Context
		watching, p.cancel = context.WithCancel(ctx)
		wg.Go(func() { w.follow(watching, p, wanted) })
	}
	return !failed
}

// limited opens a connection when fewer than maxDials are being made.
func (w *Watcher) limited(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	select {
	case w.dials <- struct{}{}:
		defer func() { <-w.dials }()
		return w.Dial(ctx, network, address)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// follow connects to a printer again and again until ctx ends.
func (w *Watcher) follow(ctx context.Context, p *watched, printer Printer) {
	k, invalid := newKind(printer.Connection, w.limited)
	said, pinned, wait := "", printer.Fingerprint, firstRetry
	update := func(f func()) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if ctx.Err() == nil { // otherwise another goroutine watches it, or nobody
			f()
		}
	}
	for ctx.Err() == nil {
		err := invalid
		if err == nil {
			begun := time.Now()
			err = k.watch(ctx, func(o Observation) {
				if time.Since(begun) > lastRetry { // a connection that breaks again and again waits longer and longer
					wait = firstRetry
				}
				if o.Fingerprint != "" && o.Fingerprint != pinned && w.Pinned != nil {
					pinned = o.Fingerprint
					w.Pinned(printer, pinned)
				}
				update(func() {
					if !w.queue.full(printer.ID) { // otherwise as if the printer were not watched for a while
						p.tracker.see(time.Now(), o)
					}
				})
			})
		}
		why := problemOf(err, printer.Address)
		update(func() { p.tracker.lost(time.Now(), why) })
		most := lastRetry
		if why.answers() {
			most = keyRetry
		}
		if ctx.Err() == nil && said != why.Text {
			said = why.Text
			w.Log.Info("Cannot watch a printer", "printer", printer.ID, "problem", why.Code, "text", said)
		}
		pause(ctx, wait/2+rand.N(wait))
		wait = min(2*wait, most)
	}
}
