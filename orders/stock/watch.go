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
	Poll time.Duration // between two looks at the queue, and the least time between two checks of a tenant

	turn    chan struct{} // has a value while a tenant is checked
	waiting atomic.Int64  // tenants that wait for their turn, or have it
}

const (
	maxWatched = 1000 // tenants of one Watcher
	maxWaiting = 100  // of them, those that wait for their check; other instances take further ones
	leaseFor   = 30 * time.Second
	// A check takes at most a tenth of the time of a farm whose stock changes all the time.
	pauseFactor = 10
	maxPause    = time.Minute
)

// Run checks levels until ctx ends. Then it gives its tenants back to the queue.
func (w *Watcher) Run(ctx context.Context) {
	w.turn = make(chan struct{}, 1)
	queue := db.Worker{DB: w.DB, Log: w.Log, Kind: db.Stock, Active: maxWatched, Poll: w.Poll, Lease: leaseFor,
		Handle: w.check,
		Room:   func(int) (int, []string) { return maxWaiting - int(w.waiting.Load()), nil }}
	queue.Run(ctx)
}

// check checks a tenant, and keeps the lease for the pause until the next check.
//
// A transaction that is in progress when the first level of a tenant is committed may change the stock without asking
// for a check, because it did not see the level. So the item of a new level stays in the queue until a check begins
// after the end of all transactions that had begun before the first check.
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
