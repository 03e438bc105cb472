package stock

import (
	"context"
	"log/slog"
	"time"

	"spoolwright/db"
	"spoolwright/value"
)

// Watcher checks the stock levels, the pieces of products and the orders of the tenants whose stock has changed, one
// tenant after the other. Several instances may run one each: a lease of the queue keeps a tenant with one of them.
type Watcher struct {
	DB   *db.DB
	Log  *slog.Logger
	Poll time.Duration // between two looks at the queue, and the least time between two checks of a tenant

	holder  string
	watched map[string]*watched // by tenant
	warned  time.Time
}

// watched is a tenant whose lease the Watcher has.
type watched struct {
	next   time.Time // of the next check
	failed bool      // whether the last check failed, so that the next one is needed
}

const (
	maxWatched = 1000 // tenants of one Watcher
	maxChecked = 100  // tenants that are leased at a time
	leaseAfter = 30 * time.Second
	// A check takes at most a tenth of the time of a farm whose stock changes all the time.
	pauseFactor = 10
	maxPause    = time.Minute
)

// Run checks levels until ctx ends. Then it gives its tenants back to the queue.
func (w *Watcher) Run(ctx context.Context) {
	w.holder, w.watched = value.NewID(), map[string]*watched{}
	tick := time.NewTicker(w.Poll)
	defer tick.Stop()
	for ctx.Err() == nil {
		w.again(ctx)
		items, err := w.DB.Claim(ctx, db.Stock, w.holder, min(maxChecked, maxWatched-len(w.watched)), leaseAfter)
		if err != nil {
			w.warn(ctx, "cannot look for farms whose stock changed; trying again", err)
		}
		for _, item := range items {
			if item.Fresh && ctx.Err() == nil {
				w.check(ctx, item.Tenant)
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	for tenant := range w.watched {
		w.release(context.WithoutCancel(ctx), tenant, 0.0)
		w.release(context.WithoutCancel(ctx), tenant, 0.0) // if the first call found a change of the stock
	}
}

// again checks the tenants whose stock has changed since their last check, if their pause is over. It ends the leases
// of the others.
func (w *Watcher) again(ctx context.Context) {
	for tenant, t := range w.watched {
		if ctx.Err() != nil {
			return
		}
		if time.Now().Before(t.next) {
			continue
		}
		if t.failed || !w.release(ctx, tenant, nil) {
			w.check(ctx, tenant)
		} else {
			delete(w.watched, tenant)
		}
	}
}

// check checks the levels of a tenant, and keeps its lease for the pause until the next check.
func (w *Watcher) check(ctx context.Context, tenant string) {
	begin := time.Now()
	err := w.DB.Write(db.As(ctx, db.Actor{Tenant: tenant}), db.FreshPlan(), db.SQL(`select check_levels()::text`),
		db.SQL(`select check_pieces()::text`))
	pause := min(max(w.Poll, pauseFactor*time.Since(begin)), maxPause)
	w.watched[tenant] = &watched{begin.Add(pause), err != nil}
	if err == nil {
		err = w.DB.Write(db.As(ctx, db.Actor{Tenant: tenant}), db.SQL(`select queue_renew($1, $2, $3)`, tenant, w.holder,
			int((pause+leaseAfter).Seconds())))
	}
	if err != nil {
		w.warn(ctx, "cannot check stock levels; trying again", err)
	}
}

// release ends the lease of a tenant, which becomes due after the seconds or, if they are nil, leaves the queue. It
// returns false if the stock has changed since the lease began or since release was last called.
func (w *Watcher) release(ctx context.Context, tenant string, seconds any) bool {
	released := false
	err := w.DB.Write(db.As(ctx, db.Actor{Tenant: tenant}),
		db.SQL(`select queue_release($1, $2, $3)`, tenant, w.holder, seconds).Into(&released))
	if err != nil {
		w.warn(ctx, "cannot release a tenant in the queue; checking its stock levels again", err)
	}
	return err == nil && released
}

// warn logs an error, at most once a minute.
func (w *Watcher) warn(ctx context.Context, message string, err error) {
	if ctx.Err() == nil && time.Since(w.warned) >= time.Minute {
		w.warned = time.Now()
		w.Log.Warn(message, "error", err)
	}
}
