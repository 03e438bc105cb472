package stock_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/orders/stock"
	"spoolwright/tests/testkit"
)

// watch runs a Watcher until end is called.
func watch(t *testing.T, d *db.DB, log *slog.Logger, poll time.Duration) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	w := stock.Watcher{DB: d, Log: log, Poll: poll}
	go func() {
		w.Run(ctx)
		close(ended)
	}()
	return func() { cancel(); <-ended }
}

// A Watcher sends the events of changes, also of those during a pause, after a failed check, and after another Watcher
// has ended.
func TestWatcher(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t, db.Config{})
	c := testkit.New(t, testkit.Options{DB: d}, inventory.Routes, stock.Routes).Operator(t)
	events := func() (n int) {
		testkit.Check(t, d.Read(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}), db.SQL(
			`select count(*) from webhook_deliveries where type = 'inventory.low_stock'`).Into(&n)))
		return n
	}
	countLowStock(t, c)
	var log testkit.Log
	logger := slog.New(slog.NewTextHandler(&log, nil))
	end := watch(t, d, logger, 10*time.Millisecond)
	level := c.Post(t, levels, j{"material_type": "PLA", "minimum_grams": 900}).Want(201).ID()
	testkit.Eventually(t, "the event of a new level", func() bool { return events() == 1 })
	spool := "/api/v1/spools/" + c.NewSpool(t, 1000, nil)
	isLow := func(want bool) func() bool {
		return func() bool {
			var low bool
			testkit.Check(t, d.Read(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}),
				db.SQL(`select low_since is not null from stock_levels where id = $1`, level).Into(&low)))
			return low == want
		}
	}
	remain := func(grams int) { c.Patch(t, spool, j{"remaining_weight_grams": grams}).Want(200) }
	testkit.Eventually(t, "the level is fine", isLow(false))
	remain(899)
	testkit.Eventually(t, "the event of a change during a pause", func() bool { return events() == 2 })
	remain(1000)
	testkit.Eventually(t, "the level is fine again", isLow(false))
	end()

	c.Post(t, spool+"/deduct", j{"weight_grams": 101}).Want(200)
	testkit.Equal(t, events(), 2, "events without a Watcher")
	end = watch(t, d, logger, 10*time.Millisecond)
	testkit.Eventually(t, "the event of the next Watcher", func() bool { return events() == 3 })
	remain(1000)
	testkit.Eventually(t, "the level is fine once more", isLow(false))

	h := c.Hold(t, `alter function check_levels() rename to check_levels_later`)
	h.Commit()
	remain(1)
	testkit.Eventually(t, "the warning", func() bool { return strings.Contains(log.String(), "check_levels") })
	c.Hold(t, `alter function check_levels_later() rename to check_levels`).Commit()
	testkit.Eventually(t, "the event after a failed check", func() bool { return events() == 4 })
	end()
}
