package db

import "github.com/jackc/pgx/v5/pgxpool"

// Pool lets tests look at a connection as no request can: outside of any tenant.
func (d *DB) Pool() *pgxpool.Pool { return d.pool }

// WithOwn is withOwn.
var WithOwn = withOwn
