package db

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool returns the pool, for tests that use a connection without a tenant.
func (d *DB) Pool() *pgxpool.Pool { return d.pool }

// Notify delivers a notice as if PostgreSQL had sent it on the connection of the transaction of ctx.
func Notify(ctx context.Context, n *pgconn.Notice) {
	recordNotice(ctx.Value(txKey{}).(*transaction).conn.Conn().PgConn(), n)
}

// Waiting returns the number of reads and writes that wait for a connection.
func (d *DB) Waiting() int { return d.shares.Waiting() + d.lanes.wait() }

// wait returns the number of mergeable writes that wait.
func (l *lanes) wait() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.lanes {
		n += len(a.waiting)
	}
	return n
}
