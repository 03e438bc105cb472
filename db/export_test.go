package db

import (
	"context"
	"time"

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

// SetDeadline replaces the deadline of calls that begin afterwards. A test whose transactions wait for it sets a long
// one, so that its verdict does not depend on the speed of the machine.
func (d *DB) SetDeadline(after time.Duration) { d.deadline = after }

// Waiting returns the number of reads and writes that wait for a connection.
func (d *DB) Waiting() int { return d.shares.Waiting() }
