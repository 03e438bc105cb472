package db

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool returns the pool, for tests that use a connection without a tenant.
func (d *DB) Pool() *pgxpool.Pool { return d.pool }

// WithOwn is withOwn.
var WithOwn = withOwn

// Notify delivers a notice as if PostgreSQL had sent it on the connection of the transaction of ctx.
func Notify(ctx context.Context, n *pgconn.Notice) {
	recordNotice(ctx.Value(txKey{}).(*transaction).conn.Conn().PgConn(), n)
}

// Waiting returns the number of reads and writes that wait for a connection.
func (d *DB) Waiting() int { return d.shares.Waiting() }

// MigrateNext is Migrate of a program with one more migration.
func MigrateNext(ctx context.Context, ownerURL, memberURL string, features []Definition, sql string) (Applied, error) {
	all := migrations()
	all = append(all, migration{version: len(all) + 1, name: "next", sql: sql})
	return migrate(ctx, ownerURL, memberURL, all, features)
}
