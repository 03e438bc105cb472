package testkit

import (
	"fmt"
	"testing"
	"time"

	"spoolwright/db"
)

// SummarizeUsage summarizes the past days of the tenant's usage ledger, as production.SummarizeUsage does for all
// tenants. Only one transaction at a time summarizes a tenant, and another one does nothing; so the method waits for
// transactions of other tests.
func (c *Client) SummarizeUsage(tb testing.TB) {
	tb.Helper()
	ctx := db.As(tb.Context(), db.Actor{Tenant: c.Actor.Tenant})
	for days := 1; days > 0; {
		Check(tb, c.API.DB.Write(ctx,
			db.SQL(`select pg_advisory_xact_lock(hashtextextended('usage days ' || $1, 0))::text`, c.Actor.Tenant),
			db.SQL(`select summarize_usage(31)`).Into(&days)))
	}
}

// Summarize summarizes up to `most` days of the tenant's usage ledger, and returns how many it summarized.
func (c *Client) Summarize(tb testing.TB, most int) (days int) {
	tb.Helper()
	Check(tb, c.API.DB.Write(db.As(tb.Context(), c.Actor), db.SQL(`select summarize_usage($1)`, most).Into(&days)))
	return days
}

// AddUsage adds an entry to the ledger of a spool at a time in the past. The spool's remaining weight stays. The order
// of ids is not that of times.
func (c *Client) AddUsage(tb testing.TB, spool, kind string, grams float64, at time.Time) {
	tb.Helper()
	Check(tb, c.API.DB.Write(db.As(tb.Context(), c.Actor), db.SQL(`
		insert into spool_usage (id, spool_id, kind, before_grams, after_grams, created_at)
		select gen_random_uuid(), $1, $2, 1000000, 1000000 - $3::text::numeric, $4::text::timestamptz`,
		spool, kind, fmt.Sprint(grams), at.UTC().Format(time.RFC3339Nano))))
}
