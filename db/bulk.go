package db

import "context"

// Bulk is Tx for a command's work of many statements, such as an import: it may take as long as ctx lets it, ends with ctx,
// and is run only once. What it adds to lists is counted apart, so that nobody has to wait for it. A tenant has one at a time: while
// another runs the error is ErrBulk.
func (d *DB) Bulk(ctx context.Context, fn func(ctx context.Context) error) error {
	err := d.tryTx(ctx, func(ctx context.Context) error {
		var mine bool
		err := d.Write(ctx, SQL(`select set_config('statement_timeout', '30min', true), set_config('lock_timeout', '1min', true),
			set_config('idle_in_transaction_session_timeout', '10min', true), set_config('app.count_shard', '32', true)`),
			SQL(`select pg_try_advisory_xact_lock(hashtextextended('bulk ' || current_setting('app.tenant_id'), 0))`).Into(&mine))
		if err != nil {
			return err
		}
		if !mine {
			return ErrBulk
		}
		return fn(ctx)
	})
	if err == nil {
		return nil
	}
	return classify(err)
}
