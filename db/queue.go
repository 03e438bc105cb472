package db

import (
	"context"
	"time"
)

// QueueItem is an item of a tenant with due work.
type QueueItem struct {
	Tenant, ID string
	Fresh      bool // leased by this call; otherwise the holder had leased it, and queue_add was called since
}

// The kinds of items of the queue.
const (
	Webhook = "webhook" // a webhook with deliveries
	Stock   = "stock"   // a tenant whose stock changed; the item's id is the tenant's, or that of a new stock level
	Link    = "link"    // a user who gets an e-mail with a password link
	Watch   = "watch"   // a tenant whose connections of printers changed; the item's id is the tenant's
)

// Claim leases up to n due items of a kind to the holder, a UUID. It takes items of any tenant except those in
// except. No other holder gets the items until the lease ends. Transactions that are bound to a tenant add, renew and
// release items with the functions of queue.sql.
func (d *DB) Claim(
	ctx context.Context, kind, holder string, n int, lease time.Duration, except ...string,
) ([]QueueItem, error) {
	var tenants, ids []string
	var fresh []bool
	_, err := d.directory(ctx, `
		select coalesce(array_agg(tenant_id::text), '{}'), coalesce(array_agg(item_id::text), '{}'),
			coalesce(array_agg(fresh), '{}')
		from queue_claim($1, $2, $3, $4, coalesce($5::uuid[], '{}'))`,
		[]any{kind, holder, n, int(lease.Seconds()), except}, &tenants, &ids, &fresh)
	if err != nil {
		return nil, err
	}
	items := make([]QueueItem, len(ids))
	for i := range items {
		items[i] = QueueItem{tenants[i], ids[i], fresh[i]}
	}
	return items, nil
}

// QueueState is the state of the webhooks in the queue, of all tenants together.
type QueueState struct {
	Signals int           // not yet merged by Claim; counted up to 1,000
	Waiting int           // items that are due and not leased
	Leased  int           // items that were due when they were leased
	Oldest  time.Duration // time since the first of the waiting items became due
}

// QueueState returns the state of the queue, for monitoring.
func (d *DB) QueueState(ctx context.Context) (s QueueState, err error) {
	var seconds float64
	_, err = d.directory(ctx, `select signals, waiting, leased, oldest_seconds from queue_state()`, nil,
		&s.Signals, &s.Waiting, &s.Leased, &seconds)
	s.Oldest = time.Duration(seconds * float64(time.Second))
	return s, err
}

// queuedKey is the key in a connection's custom data that is set if the transaction added items to the queue. The
// notice of queue_add sets it, and beginWrite deletes it.
const queuedKey = "spoolwright.queued"
