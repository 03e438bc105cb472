// Package db is the only access to the database. It does not export its connection pool. Every statement runs in a
// transaction that is bound to one tenant and has a role to which row-level security applies; the same round trip
// checks the caller. The only exceptions are the directories (directory.go) and the queue (queue.go), which have
// narrow functions instead.
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
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"spoolwright/db/dial"
	"spoolwright/db/fair"
	"spoolwright/db/schema"
	"spoolwright/value"
)

// Config configures Open.
type Config struct {
	URL      string       // of a login that is a member of spoolwright_app
	MaxConns int          // size of the pool; 0 means eight per core, at least 8 and at most 32
	Log      *slog.Logger // nil discards

	// Deadline limits the time of one call, including the wait for a connection; 0 means 10 seconds. If another call
	// sends a quick read in its pipeline, the pipeline has a new deadline. The timeouts of settingsSQL are shorter than
	// 10 seconds, so that PostgreSQL cancels a slow statement and the connection stays usable.
	Deadline time.Duration

	// Definitions are the features' definitions, as given to Migrate. Open and Ready fail while one is missing.
	Definitions []Definition

	// Now is the clock that Ready compares with PostgreSQL's; nil means time.Now.
	Now func() time.Time

	// RoundTrip, if not nil, is called for each round trip with its statements, by tests and benchmarks.
	RoundTrip func(statements []Statement)
}

// DB is a pool of connections to a migrated database. Its methods may be called concurrently.
type DB struct {
	pool      *pgxpool.Pool
	schema    schema.Schema
	shares    *fair.Shares // of the pool; a connection is used only with a share
	quick     quickReads
	log       *slog.Logger
	now       func() time.Time
	roundTrip func(statements []Statement)
	named     bool // whether statements are prepared by name
	deadline  time.Duration

	unprepared   atomic.Bool    // whether a session has lost its settings, for example behind an unrecognized pooler
	queued       chan struct{}  // receives a value after the commit of a transaction that queued webhooks
	reconnected  atomic.Int64   // when reconnect last closed the connections, in Unix nanoseconds
	snapshots    atomic.Int32   // how many snapshots run
	clocksWarned atomic.Int64   // when compareClocks last warned, in Unix nanoseconds
	ahead        atomic.Int64   // how much the clock of this machine is ahead of PostgreSQL's, in nanoseconds
	later        sync.WaitGroup // the writes of Later
	diskFailed   atomic.Int64   // when isDiskFailure was last true for a statement, in Unix nanoseconds; 0 after a write
}

// Statement is a statement that was sent to PostgreSQL.
type Statement struct {
	SQL  string
	Args []any
}

// Open connects to the database, and tests that row-level security applies to the transactions of the DB. The error
// has one line. It reports that the database is unreachable or not migrated, or that a tenant could see rows of
// another tenant.
func Open(ctx context.Context, c Config) (*DB, error) {
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
	// The encoding of text results (see appendRow) depends on these two parameters. Poolers accept both.
	maps.DeleteFunc(config.ConnConfig.RuntimeParams, func(name, _ string) bool {
		return strings.EqualFold(name, "timezone") || strings.EqualFold(name, "datestyle")
	})
	config.ConnConfig.RuntimeParams["timezone"] = "UTC"
	config.ConnConfig.RuntimeParams["datestyle"] = "ISO"
	// By default, pgx closes the connection when its context is cancelled. After a cancel request, the connection
	// stays open.
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
		log: c.Log, now: c.Now, roundTrip: c.RoundTrip,
		named: named, queued: make(chan struct{}, 1), deadline: cmp.Or(c.Deadline, 10*time.Second),
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if d.now == nil {
		d.now = time.Now
	}
	ctx, cancel := context.WithTimeout(ctx, d.deadline)
	defer cancel()
	if err = d.Ready(ctx); err == nil || errors.Is(err, errClocks) {
		err = d.selfTest(ctx)
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	return d, nil
}

// Close waits for the writes of Later and until no connection is in use, and closes all connections.
func (d *DB) Close() {
	d.later.Wait()
	d.pool.Close()
}

// Ready returns nil if the database accepts writes and has the migrations and definitions of this program, or later
// versions of them, and if the clock of this machine does not differ from PostgreSQL's by maxClockDifference. It takes
// one round trip, which reads two small tables.
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
	var version int
	var missing []string
	var readOnly bool
	var clock time.Time
	// A batch: in some exec modes, a statement outside of a batch takes two round trips, and a pooler in transaction
	// mode can send them to different servers.
	var b pgx.Batch
	b.Queue(`
		select (select coalesce(max(version), 0) from schema_migrations),
			array(
				select n.name || ' ' || n.version from unnest($1::text[], $2::int[]) n (name, version)
				where not exists (select from schema_definitions d where d.name = n.name and d.version >= n.version)
				order by 1),
			pg_is_in_recovery() or current_setting('transaction_read_only')::boolean, clock_timestamp()`, names, versions).
		QueryRow(func(row pgx.Row) error { return row.Scan(&version, &missing, &readOnly, &clock) })
	sent := d.now()
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
	}
	if at := d.diskFailed.Load(); at != 0 && time.Since(time.Unix(0, at)) < diskFailedFor {
		return errDiskFailed
	}
	return d.compareClocks(clock, sent, d.now())
}

const (
	maxClockDifference  = 30 * time.Second
	warnClockDifference = 2 * time.Second
)

var errClocks = errors.New("the clock of this machine differs from that of PostgreSQL")

// Now returns the time of PostgreSQL's clock: that of this machine, less the difference that Ready last found. Times
// that several instances compare, such as those of tokens and sessions, come from it.
func (d *DB) Now() time.Time { return d.now().Add(-time.Duration(d.ahead.Load())) }

// compareClocks compares the clock of this machine with PostgreSQL's, which was read between sent and answered.
func (d *DB) compareClocks(clock, sent, answered time.Time) error {
	least, most := sent.Sub(clock), answered.Sub(clock)
	ahead := min(max(time.Duration(d.ahead.Load()), least), most) // the last difference, if the times permit it
	d.ahead.Store(int64(ahead))
	difference := ahead.Abs()
	if difference >= warnClockDifference && time.Since(time.Unix(0, d.clocksWarned.Load())) >= time.Minute {
		d.clocksWarned.Store(time.Now().UnixNano())
		d.log.Warn(errClocks.Error()+": synchronize the clocks, for example with NTP", "seconds_ahead",
			ahead.Round(time.Millisecond).Seconds())
	}
	if difference >= maxClockDifference {
		return fmt.Errorf("%w by %s: synchronize the clocks", errClocks, difference.Round(time.Second))
	}
	return nil
}

// PoolStats are statistics of the connection pool.
type PoolStats struct {
	Max, Total, Idle, InUse int32
	Waiting                 int   // reads and writes that wait for a share of the connections
	Acquires, Waits         int64 // since the start; Waits counts acquires that waited for a share or an idle connection
	WaitTime                time.Duration
	Shared                  int64 // reads since the start that were sent in the pipeline of another request
}

// Stats returns the current statistics of the pool.
func (d *DB) Stats() PoolStats {
	s, shares := d.pool.Stat(), d.shares.Stats()
	return PoolStats{
		Max: s.MaxConns(), Total: s.TotalConns(), Idle: s.IdleConns(), InUse: s.AcquiredConns(),
		Waiting:  d.shares.Waiting(),
		Acquires: s.AcquireCount(), Waits: s.EmptyAcquireCount() + shares.Waits,
		WaitTime: s.EmptyAcquireWaitTime() + shares.WaitTime, Shared: d.quick.count(),
	}
}

// selfTest inserts a row as one tenant, and checks that another tenant cannot see the row. It rolls the transaction
// back.
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
	tenant, other := value.NewID(), value.NewID()
	// Test the binding as it works in a session without the settings.
	if _, err := tx.Exec(ctx, `select set_config('role', 'none', true)`); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	for _, s := range bindOf(Actor{Tenant: tenant}, "", false) {
		if _, err := tx.Exec(ctx, s.SQL, s.Args...); err != nil {
			return bindError(err, login)
		}
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
		where c.relkind in ('r', 'p') and c.relname not in ('login_directory', 'tenant_directory', 'key_directory',
			'shop_directory', 'queue_signals', 'queue_items')
			and c.relnamespace = (select relnamespace from pg_class where oid = 'tenants'::regclass)
			and not (c.relrowsecurity and c.relforcerowsecurity
				and exists (select from pg_policy p where p.polrelid = c.oid))`).Scan(&unprotected)
	if err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	if len(unprotected) > 0 {
		return fmt.Errorf("self-test: row-level security is not in force on %v; refusing to serve", unprotected)
	}
	if _, err := tx.Exec(ctx, `insert into counters (kind, last, total) values ('self-test', 0, 0)`); err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	count := func(tenant string) (n int, err error) {
		var b pgx.Batch
		d.queueBind(&b, tx.Conn(), Actor{Tenant: tenant}, "")
		b.Queue(`select count(*) from counters`).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
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

// bindError explains the error of settingsSQL for a login that is not a member of the role.
func bindError(err error, login string) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "42501" || pg.Code == "22023") {
		return fmt.Errorf("the database login %q is not a member of the role %s: run GRANT %s TO %s "+
			"as the login that created the role, or as a superuser",
			login, appRole, appRole, pgx.Identifier{login}.Sanitize())
	}
	return fmt.Errorf("database: %w", err)
}

// Analyze makes PostgreSQL analyze the tables that have grown by half since they were last analyzed, so that plans fit
// the size of the tables. The service calls Analyze every 15 seconds: autovacuum, by default, takes up to a minute to
// notice that a table has grown.
func (d *DB) Analyze(ctx context.Context) error {
	for range 100 { // there are fewer tables
		var table *string
		if _, err := d.directory(ctx, `select analyze_grown()`, nil, &table); err != nil || table == nil {
			return err
		}
	}
	return nil
}
