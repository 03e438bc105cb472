package db

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool returns the pool, for tests that use a connection without a tenant.
func (d *DB) Pool() *pgxpool.Pool { return d.pool }

// Unprepare makes each transaction apply the settings of settingsSQL, as on connections through a pooler.
func (d *DB) Unprepare() { d.unprepared.Store(true) }

// Notify delivers a notice as if PostgreSQL had sent it on the connection of the transaction of ctx.
func Notify(ctx context.Context, n *pgconn.Notice) {
	recordNotice(ctx.Value(txKey{}).(*transaction).conn.Conn().PgConn(), n)
}
