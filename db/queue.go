package db

import (
	"context"
	"time"
)

// QueueItem is an item of a tenant with due work.
type QueueItem struct {
	Tenant, ID string
	Fresh      bool // leased by this call; otherwise the holder had leased it, and queue_add was called for it since
}

// Queue is the queue of one database. Only transactions of tenants that are at home there add items to it.
type Queue struct {
	db    func() (*DB, error)
	added chan struct{}
}

// Queues returns the queues of all databases.
func (d *DB) Queues() []Queue {
	all := []Queue{{func() (*DB, error) { return d, nil }, d.queued}}
	if d.homes != nil {
		for _, h := range d.homes.all[1:] {
			all = append(all, Queue{h.open, h.queued})
		}
	}
	return all
}

// Claim leases up to most items that are due, of any tenant but the exceptions, to the holder, a UUID; none if most is
// negative. No other holder gets them until the lease ends. Transactions that are bound to a tenant add, renew and
// release items with the functions of queue.sql.
func (q Queue) Claim(
	ctx context.Context, holder string, most int, lease time.Duration, except ...string,
) ([]QueueItem, error) {
	d, err := q.db()
	if err != nil {
		return nil, err
	}
	var tenants, ids []string
	var fresh []bool
	_, err = d.directory(ctx, `
		select coalesce(array_agg(tenant_id::text), '{}'), coalesce(array_agg(item_id::text), '{}'),
			coalesce(array_agg(fresh), '{}')
		from queue_claim($1, $2, $3, coalesce($4::uuid[], '{}'))`,
		[]any{holder, max(most, 0), int(lease.Seconds()), except}, &tenants, &ids, &fresh)
	if err != nil {
		return nil, err
	}
	items := make([]QueueItem, len(ids))
	for i := range items {
		items[i] = QueueItem{tenants[i], ids[i], fresh[i]}
	}
	return items, nil
}

// Added receives a value after the DB has committed a transaction that added items to the queue, so that they need not
// wait for the next poll.
func (q Queue) Added() <-chan struct{} { return q.added }

// QueueState is the state of a queue, of all tenants.
type QueueState struct {
	Signals int           // that Claim has not seen yet, at most 1,000
	Waiting int           // items that are due and not leased
	Leased  int           // items that were due when they were leased
	Oldest  time.Duration // since the first of the waiting items became due
}

// State returns the state of the queue, for monitoring.
func (q Queue) State(ctx context.Context) (s QueueState, err error) {
	d, err := q.db()
	if err != nil {
		return s, err
	}
	var seconds float64
	_, err = d.directory(ctx, `select signals, waiting, leased, oldest_seconds from queue_state()`, nil,
		&s.Signals, &s.Waiting, &s.Leased, &seconds)
	s.Oldest = time.Duration(seconds * float64(time.Second))
	return s, err
}

// queuedKey is the key in a connection's custom data for items that were added to the queue since beginWrite, as a
// notice of queue_add says.
const queuedKey = "spoolwright.queued"
