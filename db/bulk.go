package db

import (
	"context"

	"spoolwright/db/fair"
)

// Bulk runs fn in one transaction, as Tx does, for commands with many statements such as an import. The transaction
// may take as long as ctx allows, ends when ctx is cancelled, and is never repeated. A tenant can run one Bulk at a time:
// a second Bulk returns ErrBulk. A transaction with Lock("bulk") waits for it. At the end, Bulk calls Analyze.
func (d *DB) Bulk(ctx context.Context, fn func(ctx context.Context) error) error {
	_, err := d.tryTx(ctx, ctx, fair.Write, func(ctx context.Context) error {
		var locked bool
		err := d.Write(ctx,
			SQL(`select set_config('statement_timeout', '30min', true), set_config('lock_timeout', '1min', true),
				set_config('idle_in_transaction_session_timeout', '10min', true)`),
			SQL(`select pg_try_advisory_xact_lock(`+lockKey("bulk")+`)`).Into(&locked))
		if err != nil {
			return err
		}
		if !locked {
			return ErrBulk
		}
		return fn(ctx)
	})
	if err != nil {
		return classify(err)
	}
	if err := d.Analyze(ctx); err != nil {
		d.log.Warn("cannot analyze the tables that have grown", "error", err)
	}
	return nil
}
