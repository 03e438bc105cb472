package db

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"spoolwright/value"
)

// claimPause is the minimum pause between two polls of the queue.
const claimPause = 20 * time.Millisecond

// Worker handles the due items of one kind of the queue, each in a goroutine that holds the item's lease. Several
// instances may run one each: the lease keeps an item with one of them.
type Worker struct {
	DB     *DB
	Log    *slog.Logger
	Kind   string
	Active int           // the maximum number of items at a time
	Poll   time.Duration // the longest pause between two polls of the queue
	Lease  time.Duration // of an item, in whole seconds; renewed after a third of this time

	// Handle does the due work of an item, and returns the seconds until more is due, or nil if no work is left. It
	// runs again if queue_add was called for the item meanwhile, and a second after an error of the database. After
	// ctx has ended, it begins no work.
	Handle func(ctx context.Context, l *Lease) (next *float64, err error)

	// Room returns the maximum number of items to claim beside the active ones, and the tenants whose items must not be
	// claimed. Without it, the limit is Active alone.
	Room func(active int) (n int, except []string)

	holder string        // identifies this instance in leases
	slots  chan struct{} // limits concurrent transactions, which leaves connections to requests
	freed  chan struct{} // receives a value when there is room for another item

	mu     sync.Mutex
	leases map[QueueItem]*Lease // by item, with Fresh unset
	warned time.Time
}

// Lease is the exclusive right to handle an item of the queue.
type Lease struct {
	Tenant, ID string
	More       chan struct{} // receives a value after queue_add was called for the item
	Began      time.Time

	w     *Worker
	bound context.Context // ends only with the program
	timer *time.Timer     // of the next renewal

	again   time.Time // when the item was leased again; set under the mutex of the Worker
	mu      sync.Mutex
	renewed time.Time
	lost    bool // another instance has the lease
	ended   bool
}

// Run handles items until ctx ends, and then waits for the active ones. It claims items at intervals of Poll and, if
// the kind is Webhook, after each transaction of this instance that added some.
func (w *Worker) Run(ctx context.Context) {
	w.holder, w.leases, w.freed = value.NewID(), map[QueueItem]*Lease{}, make(chan struct{}, 1)
	w.slots = make(chan struct{}, w.DB.BackgroundSlots())
	var queued <-chan struct{}
	if w.Kind == Webhook {
		queued = w.DB.queued
	}
	var handling sync.WaitGroup
	defer handling.Wait()
	for ctx.Err() == nil {
		claimed := time.Now()
		n, except := w.room()
		items, err := w.DB.Claim(ctx, w.Kind, w.holder, n, w.Lease, except...)
		if err != nil {
			w.warn(ctx, "cannot look for due work; trying again", err)
		}
		added := 0
		for _, item := range items {
			if l := w.admit(ctx, item, claimed); l != nil {
				added++
				handling.Go(func() {
					for l != nil {
						l.handle(ctx)
						l = w.end(ctx, l)
					}
				})
			}
		}
		if added == 0 || added < n {
			pause := time.NewTimer(w.Poll - time.Duration(rand.Int64N(int64(w.Poll)/4)))
			select {
			case <-ctx.Done():
			case <-pause.C:
			case <-queued:
			case <-w.freed:
			}
			pause.Stop()
		}
		select {
		case <-ctx.Done():
		case <-time.After(claimPause):
		}
	}
}

// BackgroundSlots returns how many transactions a Worker may run at a time.
func (d *DB) BackgroundSlots() int { return int(max(1, min(4, d.Stats().Max/4))) }

func (w *Worker) room() (n int, except []string) {
	w.mu.Lock()
	active := len(w.leases)
	w.mu.Unlock()
	n = w.Active - active
	if w.Room != nil {
		var allowed int
		allowed, except = w.Room(active)
		n = min(n, allowed)
	}
	return max(n, 0), except
}

// admit returns a Lease for an item that was just leased, or nil if there is one.
func (w *Worker) admit(ctx context.Context, item QueueItem, claimed time.Time) *Lease {
	key := QueueItem{Tenant: item.Tenant, ID: item.ID}
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.leases[key]
	switch {
	case l != nil:
		if item.Fresh { // the lease was released or has expired, and its goroutine is about to end
			l.again = claimed
		}
		select {
		case l.More <- struct{}{}:
		default:
		}
		return nil
	case !item.Fresh:
		return nil
	}
	return w.begin(ctx, key, claimed)
}

// begin returns a new Lease. The caller holds the mutex.
func (w *Worker) begin(ctx context.Context, key QueueItem, claimed time.Time) *Lease {
	l := &Lease{Tenant: key.Tenant, ID: key.ID, More: make(chan struct{}, 1), Began: claimed, w: w, renewed: claimed,
		bound: As(context.WithoutCancel(ctx), Actor{Tenant: key.Tenant})}
	w.leases[key] = l
	return l
}

// end removes a Lease. If the item was leased again meanwhile, end returns the new Lease. If all places or exactly
// half of them were in use, end wakes Run, because there can be more room now.
func (w *Worker) end(ctx context.Context, l *Lease) *Lease {
	key := QueueItem{Tenant: l.Tenant, ID: l.ID}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !l.again.IsZero() {
		return w.begin(ctx, key, l.again)
	}
	if n := len(w.leases); n == w.Active || n == w.Active/2 {
		select {
		case w.freed <- struct{}{}:
		default:
		}
	}
	delete(w.leases, key)
	return nil
}

// handle handles the item until the lease is released or lost. After an error, it tries again while the lease is
// valid.
func (l *Lease) handle(ctx context.Context) {
	l.mu.Lock()
	l.timer = time.AfterFunc(l.w.Lease/3, l.renew)
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ended = true
		l.timer.Stop()
	}()
	for {
		next, err := l.w.Handle(ctx, l)
		if l.Lost() {
			return
		}
		released := false
		if err == nil {
			err = l.Write(SQL(`select queue_release($1, $2, $3::float8)`, l.ID, l.w.holder, next).Into(&released))
		}
		switch {
		case err == nil && released:
			return
		case err != nil:
			l.w.warn(ctx, "cannot do work of the queue; trying again", err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			if ctx.Err() != nil || !l.Valid() {
				return // the lease ends by itself
			}
		}
	}
}

// Write runs a transaction of the item's tenant, which only the end of the program cancels. The number of concurrent
// transactions of all leases is limited.
func (l *Lease) Write(stmts ...*Stmt) error {
	l.w.slots <- struct{}{}
	defer func() { <-l.w.slots }()
	return l.w.DB.Write(l.bound, stmts...)
}

// Valid reports whether the lease is neither lost nor about to end.
func (l *Lease) Valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.lost && time.Since(l.renewed) <= l.w.Lease*5/6
}

// Lost reports whether another instance has the lease.
func (l *Lease) Lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// renew extends the lease. After an error, the lease ends by itself unless the next renewal succeeds.
func (l *Lease) renew() {
	var held bool
	now := time.Now()
	err := l.Write(SQL(`select queue_renew($1, $2, $3)`, l.ID, l.w.holder, int(l.w.Lease.Seconds())).Into(&held))
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return
	case err == nil && held:
		l.renewed = now
	case err == nil:
		l.lost = true
	}
	l.timer.Reset(l.w.Lease / 3)
}

// warn logs an error, at most once a minute.
func (w *Worker) warn(ctx context.Context, message string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() == nil && time.Since(w.warned) >= time.Minute {
		w.warned = time.Now()
		w.Log.Warn(message, "kind", w.Kind, "error", err)
	}
}
