package db

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"spoolwright/db/dial"
	"spoolwright/db/tables"
)

// maxSnapshots is the number of Snapshots that can run at the same time. Each has its own connection outside of the
// pool.
const maxSnapshots = 2

var errSnapshots = fmt.Errorf("%w: another export of the whole farm is running, or those of other farms",
	ErrUnavailable)

// Snapshot runs fn in a read-only transaction that sees the state of one moment. It may take as long as ctx allows,
// and delays no other transaction: it uses a connection outside of the pool. The error is an ErrUnavailable if another
// Snapshot of the tenant or maxSnapshots Snapshots are running.
func (d *DB) Snapshot(ctx context.Context, fn func(*tables.Tx) error) error {
	if d.snapshots.Add(1) > maxSnapshots {
		d.snapshots.Add(-1)
		return errSnapshots
	}
	defer d.snapshots.Add(-1)
	conn, err := pgx.ConnectConfig(ctx, d.pool.Config().ConnConfig)
	if err != nil {
		return classify(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	dial.RegisterTypes(conn.TypeMap())
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, conn, options, func(pgx.Tx) error {
		for _, s := range bindOf(ActorOf(ctx), "", false) {
			if _, err := conn.Exec(ctx, s.SQL, s.Args...); err != nil {
				return classify(err)
			}
		}
		var first bool
		err := conn.QueryRow(ctx, `select pg_try_advisory_xact_lock(
			hashtextextended('snapshot ' || current_setting('app.tenant_id'), 0))`).Scan(&first)
		if err != nil {
			return classify(err)
		}
		if !first {
			return errSnapshots
		}
		return tables.Snapshot(ctx, conn, classify, fn)
	})
}
