package db

import (
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool returns the pool, for tests that use a connection without a tenant.
func (d *DB) Pool() *pgxpool.Pool { return d.pool }

// Unprepare makes each transaction apply the settings of settingsSQL, as on connections through a pooler.
func (d *DB) Unprepare() { d.unprepared.Store(true) }
