// Package db is the only access to the database. It does not export its connection pool. Every statement runs in a
// transaction that is bound to one tenant and has a role to which row-level security applies; the same round trip
// checks the caller. The only exceptions are the directories (directory.go, home.go) and the queue (queue.go), which
// have narrow functions instead.
package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"spoolwright/db/dial"
	"spoolwright/db/fair"
	"spoolwright/db/schema"
)

// Config configures Open.
type Config struct {
	URL      string       // of a login that is a member of spoolwright_app
	MaxConns int          // size of the pool; 0 means eight per core, at least 8 and at most 32
	Log      *slog.Logger // nil discards

	// Definitions are the features' definitions, as given to Migrate. Open and Ready fail while one is missing.
	Definitions []Definition

	// PlanAge is the time for which a connection keeps the plans of its statements. PostgreSQL itself keeps them until
	// it analyzes a table, which may be a minute after a small table became large. 0 means 15 seconds.
	PlanAge time.Duration

	// Further are the databases other than that of URL in which tenants are at home. Their order must never change.
	Further []Further

	// RoundTrip, if not nil, is called for each round trip with its statements, by tests and benchmarks.
	RoundTrip func(statements []Statement)
}

// DB is a pool of connections to a migrated database, and to the further ones if there are any. Its methods may be
// called concurrently.
type DB struct {
	homes     *homes // nil if there is one database
	pool      *pgxpool.Pool
	schema    schema.Schema
	shares    *fair.Shares // of the pool; every use of a connection has one
	lanes     lanes        // of mergeable writes
	log       *slog.Logger
	roundTrip func(statements []Statement)
	planAge   time.Duration
	named     bool // whether statements are prepared by name

	unprepared  atomic.Bool   // whether a session has lost its settings, as behind a pooler that was not recognized
	further     int           // the number of further databases
	queued      chan struct{} // see Queue
	reconnected atomic.Int64  // when reconnect last closed the connections, in Unix nanoseconds
	diskFailed  atomic.Int64  // when a statement last had isDiskFailure, in Unix nanoseconds; 0 after a write
}

// Statement is a statement that was sent.
type Statement struct {
	SQL  string
	Args []any
}

// deadline limits the time of one call, including the wait for a connection. A call that another one sends with its own
// has the time of that one from then on. The timeouts that bind_tenant sets in
// PostgreSQL are shorter, so that PostgreSQL cancels a slow statement and the connection stays usable.
const deadline = 10 * time.Second

// Open connects to the database, and proves with a self-test that row-level security applies to the transactions of
// the DB. The error, of one line, says that the database is unreachable, that it is not migrated, or that a tenant
// could see the rows of another one.
//
// Open also migrates and connects to the further databases. One that is out of reach is no error: until Open has
// connected to it in the background, everything that needs it fails with ErrUnavailable.
func Open(ctx context.Context, c Config) (*DB, error) {
	d, err := openOne(ctx, c)
	if err != nil || len(c.Further) == 0 {
		return d, err
	}
	if d.homes, err = openHomes(ctx, d, c); err != nil {
		d.pool.Close()
		return nil, err
	}
	return d, nil
}

// openOne is Open without the further databases.
func openOne(ctx context.Context, c Config) (*DB, error) {
	config, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, dial.ErrURL
	}
	config.MaxConns = int32(c.MaxConns)
	if c.MaxConns == 0 {
		config.MaxConns = int32(min(max(8, 8*runtime.GOMAXPROCS(0)), 32))
	}
	config.MaxConnLifetimeJitter = config.MaxConnLifetime / 10
	config.PingTimeout = 2 * time.Second
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = dial.ConnectTimeout
	}
	// The encoding of text results (see appendRow) depends on these. Poolers accept both parameters.
	maps.DeleteFunc(config.ConnConfig.RuntimeParams, func(name, _ string) bool {
		return strings.EqualFold(name, "timezone") || strings.EqualFold(name, "datestyle")
	})
	config.ConnConfig.RuntimeParams["timezone"] = "UTC"
	config.ConnConfig.RuntimeParams["datestyle"] = "ISO"
	// By default pgx closes the connection when its context is cancelled. A cancel request keeps it.
	config.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, CancelRequestDelay: 0,
			DeadlineDelay: time.Second}
	}
	config.ConnConfig.OnNotice = recordNotice
	named := dial.IsNamed(config.ConnConfig, c.URL)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error { return prepareSession(ctx, conn, named) }
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	d := &DB{
		pool: pool, schema: Schema(c.Definitions), shares: fair.New(int(config.MaxConns), runtime.GOMAXPROCS(0)),
		lanes: lanes{limit: max(2, int(config.MaxConns)/8), lanes: map[laneKey]*lane{}},
		log:   c.Log, roundTrip: c.RoundTrip,
		planAge: cmp.Or(c.PlanAge, 15*time.Second), named: named, queued: make(chan struct{}, 1),
		further: len(c.Further),
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err = d.Ready(ctx); err == nil {
		err = d.selfTest(ctx)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return d, nil
}

// Close waits until no connection is in use, and closes all of them.
func (d *DB) Close() {
	if d.homes != nil {
		d.homes.close()
	}
	d.pool.Close()
}

// Ready returns nil if the database accepts writes and has the migrations and definitions of this program, or later
// ones. It takes one round trip, which reads three small tables. It does not check the further databases.
func (d *DB) Ready(ctx context.Context) error {
	share, err := d.shares.Acquire(ctx, ctx, "", fair.Read)
	if err != nil {
		return fmt.Errorf("database: no connection is free: %w", err)
	}
	defer share.Release()
	names, versions := make([]string, len(d.schema.Definitions)), make([]int, len(d.schema.Definitions))
	for i, need := range d.schema.Definitions {
		names[i], versions[i] = need.Name, need.Version
	}
	var version, further int
	var missing []string
	var readOnly bool
	// A batch: in some exec modes, a statement outside of a batch takes two round trips, and a pooler in transaction
	// mode can send them to different servers.
	var b pgx.Batch
	b.Queue(`
		select (select coalesce(max(version), 0) from schema_migrations),
			array(
				select n.name || ' ' || n.version from unnest($1::text[], $2::int[]) n (name, version)
				where not exists (select from schema_definitions d where d.name = n.name and d.version >= n.version)
				order by 1),
			pg_is_in_recovery() or current_setting('transaction_read_only')::boolean,
			(select coalesce(max(home), 0) from further_databases where used)`, names, versions).
		QueryRow(func(row pgx.Row) error { return row.Scan(&version, &missing, &readOnly, &further) })
	err = d.pool.SendBatch(ctx, &b).Close()
	var pg *pgconn.PgError
	switch want := d.schema.Latest(); {
	case errors.As(err, &pg) && pg.Code == "42P01":
		return fmt.Errorf("the database is not migrated: %s", schema.HowToMigrate)
	case err != nil:
		return fmt.Errorf("database: %w", err)
	case readOnly:
		d.reconnect()
		return errReadOnly
	case version < want:
		return fmt.Errorf("the database is at migration %d, this program needs %d: %s", version, want,
			schema.HowToMigrate)
	case len(missing) > 0:
		return fmt.Errorf("the database lacks the definitions %s: %s", strings.Join(missing, ", "),
			schema.HowToMigrate)
	case further > d.further:
		return fmt.Errorf("tenants are at home in %d further databases, and %d are named: "+
			"set FURTHER_DATABASE_URLS as for the other instances", further, d.further)
	}
	if at := d.diskFailed.Load(); at != 0 && time.Since(time.Unix(0, at)) < diskFailedFor {
		return errDiskFailed
	}
	return nil
}

// PoolStats are statistics of the connection pool.
type PoolStats struct {
	Max, Total, Idle, InUse int32
	Acquires, Waits         int64 // since the start; Waits counts acquires that waited for a share or an idle connection
	WaitTime                time.Duration
	Shared                  int64 // reads since the start that another request sent with its own
	Merged                  int64 // writes since the start that another request sent with its own
}

// Stats returns the current statistics of the pools of all databases together.
func (d *DB) Stats() PoolStats {
	sum := d.stats()
	if d.homes == nil {
		return sum
	}
	for _, h := range d.homes.all[1:] {
		further := h.db.Load()
		if further == nil {
			continue
		}
		s := further.stats()
		sum.Max += s.Max
		sum.Total += s.Total
		sum.Idle += s.Idle
		sum.InUse += s.InUse
		sum.Acquires += s.Acquires
		sum.Waits += s.Waits
		sum.WaitTime += s.WaitTime
		sum.Shared += s.Shared
		sum.Merged += s.Merged
	}
	return sum
}

func (d *DB) stats() PoolStats {
	s, shares := d.pool.Stat(), d.shares.Stats()
	return PoolStats{
		Max: s.MaxConns(), Total: s.TotalConns(), Idle: s.IdleConns(), InUse: s.AcquiredConns(),
		Acquires: s.AcquireCount(), Waits: s.EmptyAcquireCount() + shares.Waits,
		WaitTime: s.EmptyAcquireWaitTime() + shares.WaitTime, Shared: shares.Shared,
		Merged: d.lanes.count(),
	}
}

// selfTest inserts a row as one tenant, in a transaction that it rolls back, and checks that another tenant cannot
// see it.
func (d *DB) selfTest(ctx context.Context) error {
	tx, err := d.pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))

	var login, messages string
	var super, owner bool
	err = tx.QueryRow(ctx, `select session_user, r.rolsuper or r.rolbypassrls,
		exists (select from pg_class c where c.relname = 'tenants' and c.relkind in ('r', 'p')
			and pg_has_role(r.oid, c.relowner, 'member')),
		current_setting('client_min_messages')
		from pg_roles r where r.rolname = session_user`).Scan(&login, &super, &owner, &messages)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	if messages == "error" {
		return fmt.Errorf("client_min_messages of the database login %q is error: PostgreSQL could not report a "+
			"commit without its synchronous standby; run ALTER ROLE %s SET client_min_messages = warning",
			login, pgx.Identifier{login}.Sanitize())
	}
	tenant, other := NewID(), NewID()
	// Test bind_tenant as it works in a session that is not prepared.
	if _, err := tx.Exec(ctx, `select set_config('role', 'none', true)`); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	if _, err := tx.Exec(ctx, bindSQL, tenant, nil, nil); err != nil {
		return bindError(err, login)
	}
	var plain bool
	err = tx.QueryRow(ctx, `select current_user = '`+appRole+`' and not r.rolsuper and not r.rolbypassrls
		from pg_roles r where r.rolname = current_user`).Scan(&plain)
	if err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	if !plain {
		return errors.New("self-test: the role " + appRole + " is not in force, or is a superuser or BYPASSRLS: " +
			"row-level security would not apply; refusing to serve")
	}
	var unprotected []string
	err = tx.QueryRow(ctx, `select coalesce(array_agg(c.relname::text), '{}') from pg_class c
		join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
		where c.relkind in ('r', 'p') and c.relname not in ('login_directory', 'key_directory', 'tenant_homes',
			'queue_signals', 'queue_items')
			and c.relnamespace = (select relnamespace from pg_class where oid = 'tenants'::regclass)
			and not (c.relrowsecurity and c.relforcerowsecurity
				and exists (select from pg_policy p where p.polrelid = c.oid))`).Scan(&unprotected)
	if err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	if len(unprotected) > 0 {
		return fmt.Errorf("self-test: row-level security is not in force on %v; refusing to serve", unprotected)
	}
	if _, err := tx.Exec(ctx, `insert into tenants (name) values ('self-test')`); err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	count := func(tenant string) (n int, err error) {
		var b pgx.Batch
		d.queueBind(&b, tx.Conn(), Actor{Tenant: tenant})
		b.Queue(`select count(*) from tenants`).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
		err = tx.SendBatch(ctx, &b).Close()
		return n, err
	}
	own, err := count(tenant)
	if err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	foreign, err := count(other)
	if err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	if own != 1 || foreign != 0 {
		return fmt.Errorf("self-test: a tenant sees %d of its 1 row, and %d rows of another tenant: "+
			"row-level security does not apply; refusing to serve", own, foreign)
	}
	if super || owner {
		d.log.Warn("the database login has privileges to bypass row-level security, which the service drops in each "+
			"transaction; a login that owns nothing and is only a member of "+appRole+" is safer",
			"login", login, "superuser", super, "owner", owner)
	}
	return nil
}

// bindError explains the error of bind_tenant where the login is not a member of the role.
func bindError(err error, login string) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "42501" || pg.Code == "22023") {
		return fmt.Errorf("the database login %q is not a member of the role %s: run GRANT %s TO %s "+
			"as the login that created the role, or as a superuser",
			login, appRole, appRole, pgx.Identifier{login}.Sanitize())
	}
	return fmt.Errorf("database: %w", err)
}
