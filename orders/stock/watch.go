package stock

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"spoolwright/db"
)

// Watcher checks the stock levels, the pieces of products and the orders of the tenants whose stock has changed, one
// tenant after the other. Several instances may run one each.
type Watcher struct {
	DB   *db.DB
	Log  *slog.Logger
	Poll time.Duration // the interval between polls of the queue, and the minimum between two checks of a tenant

	turn    chan struct{} // holds a value while a tenant is checked
	waiting atomic.Int64  // tenants that wait for a check or are being checked
}

const (
	maxWatched = 1000 // tenants of one Watcher
	maxWaiting = 100  // tenants of one Watcher that wait for a check; other instances take further ones
	leaseFor   = 30 * time.Second
	// The checks of a farm whose stock changes continuously take at most a tenth of the time.
	pauseFactor = 10
	maxPause    = time.Minute
)

// Run checks levels until ctx ends, and then returns its tenants to the queue.
func (w *Watcher) Run(ctx context.Context) {
	w.turn = make(chan struct{}, 1)
	queue := db.Worker{DB: w.DB, Log: w.Log, Kind: db.Stock, Active: maxWatched, Poll: w.Poll, Lease: leaseFor,
		Handle: w.check,
		Room:   func(int) (int, []string) { return maxWaiting - int(w.waiting.Load()), nil }}
	queue.Run(ctx)
}

// check checks a tenant, and keeps the lease during the pause until the next check.
//
// A transaction that runs while the first level of a tenant is committed may change the stock without queuing a check,
// because it does not see the level. So the item of a new level stays in the queue until a check begins after the end
// of all transactions that began before the first check.
func (w *Watcher) check(ctx context.Context, l *db.Lease) (next *float64, err error) {
	now, first := new(0.0), int64(0)
	for least := w.Poll; ; least = min(2*least, maxPause) {
		var oldest, end int64 // the oldest transaction in progress, and the next one
		w.waiting.Add(1)
		w.turn <- struct{}{}
		begin := time.Now()
		if ctx.Err() == nil {
			err = w.DB.Write(db.As(ctx, db.Actor{Tenant: l.Tenant}), db.SQL(`
				select pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint from pg_current_snapshot() s`).
				Into(&oldest, &end), db.FreshPlan(), db.SQL(`select check_levels()::text`),
				db.SQL(`select check_pieces()::text`))
		}
		<-w.turn
		w.waiting.Add(-1)
		if ctx.Err() != nil {
			return now, nil
		}
		pause := time.NewTimer(min(max(least, pauseFactor*time.Since(begin)), maxPause))
		select {
		case <-ctx.Done():
			pause.Stop()
			return now, err
		case <-pause.C:
		}
		if first == 0 {
			first = end
		}
		if err != nil || l.ID == l.Tenant || oldest >= first {
			return nil, err
		}
	}
}
