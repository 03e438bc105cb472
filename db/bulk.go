package db

import (
	"context"

	"spoolwright/db/fair"
)

// Bulk runs fn in one transaction, as Tx does, for commands with many statements such as an import. The transaction
// may take as long as ctx allows, ends when ctx is cancelled, and is never repeated. It adds to a shard of row_counts
// of its own, so that other transactions of the tenant do not wait for it. A tenant has one Bulk at a time: while
// another one runs, the error is ErrBulk.
func (d *DB) Bulk(ctx context.Context, fn func(ctx context.Context) error) error {
	if d.homes == nil {
		return d.bulkOne(ctx, ungated, fn)
	}
	return d.homes.visit(ctx, true, func(d *DB, g gate) error { return d.bulkOne(ctx, g, fn) })
}

// bulkOne is Bulk for the tenants of this database.
func (d *DB) bulkOne(ctx context.Context, g gate, fn func(ctx context.Context) error) error {
	_, err := d.tryTx(ctx, ctx, g, fair.Write, func(ctx context.Context) error {
		var locked bool
		err := d.Write(ctx,
			SQL(`select set_config('statement_timeout', '30min', true), set_config('lock_timeout', '1min', true),
				set_config('idle_in_transaction_session_timeout', '10min', true),
				set_config('app.count_shard', '32', true)`),
			SQL(`select pg_try_advisory_xact_lock(hashtextextended('bulk ' || current_setting('app.tenant_id'), 0))`).
				Into(&locked))
		if err != nil {
			return err
		}
		if !locked {
			return ErrBulk
		}
		return fn(ctx)
	})
	if err == nil {
		return nil
	}
	return classify(err)
}
