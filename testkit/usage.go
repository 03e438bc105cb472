package testkit

import (
	"testing"

	"spoolwright/db"
)

// SummariseUsage summarises the past days of the tenant's usage ledger, as inventory.SummariseUsage does for all
// tenants. Only one transaction at a time summarises a tenant, and another one does nothing; so the method waits for
// transactions of other tests.
func (c *Client) SummariseUsage(tb testing.TB) {
	tb.Helper()
	ctx := db.As(tb.Context(), db.Actor{Tenant: c.Actor.Tenant})
	for days := 1; days > 0; {
		Check(tb, c.API.DB.Write(ctx,
			db.SQL(`select pg_advisory_xact_lock(hashtextextended('usage days ' || $1, 0))::text`, c.Actor.Tenant),
			db.SQL(`select summarise_usage(31)`).Into(&days)))
	}
}
