// Package db is the only way to the database. Its pool is not exported: every statement runs in a transaction that is
// bound to one tenant, as a role that row-level security binds, on behalf of a caller who is checked in the same round
// trip. The exception is the login directory (directory.go), which is reached by its own narrow functions.
package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config says which database to use, and how.
type Config struct {
	URL      string // of a login that may take the role spoolwright_app
	MaxConns int    // size of the pool; 0 means eight per core, 8 to 32
	Log      *slog.Logger

	// Definitions are those that the features need, as given to Migrate. Open and Ready fail while one is missing.
	Definitions []Definition

	// RoundTrip, if set, is told of each round trip and the statements that it carried (for tests and benchmarks).
	RoundTrip func(statements []Statement)
}

// DB is a pool of connections to a migrated database. It is safe for concurrent use.
type DB struct {
	pool      *pgxpool.Pool
	needs     []Definition
	reads     chan struct{} // holds one for each read that runs
	log       *slog.Logger
	roundTrip func(statements []Statement)
}

// Statement is a statement as it was sent.
type Statement struct {
	SQL  string
	Args []any
}

// deadline bounds one request's work in the database, waiting for a connection included. The server-side timeouts
// (set by bind_tenant) are shorter, so that a slow statement is ended by PostgreSQL and the connection stays usable.
const deadline = 10 * time.Second

// Open connects and proves by a self-test that row-level security binds what this DB will do. An error says what
// is wrong in a line: the database is out of reach, not migrated, or its roles would let one tenant see another.
func Open(ctx context.Context, c Config) (*DB, error) {
	config, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, errInvalidURL
	}
	config.MaxConns = int32(c.MaxConns)
	if c.MaxConns == 0 {
		config.MaxConns = int32(min(max(8, 8*runtime.GOMAXPROCS(0)), 32))
	}
	config.MaxConnLifetimeJitter = config.MaxConnLifetime / 10
	config.PingTimeout = 2 * time.Second
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	// Results that come as text (see appendRow) depend on these. Poolers know both.
	maps.DeleteFunc(config.ConnConfig.RuntimeParams, func(name, _ string) bool {
		return strings.EqualFold(name, "timezone") || strings.EqualFold(name, "datestyle")
	})
	config.ConnConfig.RuntimeParams["timezone"] = "UTC"
	config.ConnConfig.RuntimeParams["datestyle"] = "ISO"
	// By default pgx closes the connection of a cancelled request; asking PostgreSQL to cancel keeps it.
	config.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, CancelRequestDelay: 0, DeadlineDelay: time.Second}
	}
	config.ConnConfig.OnNotice = recordNotice
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	// Writes mostly wait for the disk, and many that wait together share a flush; reads mostly use a core, and more of them
	// at once only wait for each other. So reads get half of the pool, and slow ones never keep writes out.
	d := &DB{pool: pool, needs: withOwn(c.Definitions), reads: make(chan struct{}, max(1, config.MaxConns/2)),
		log: c.Log, roundTrip: c.RoundTrip}
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

// Close waits for the connections in use and closes all.
func (d *DB) Close() { d.pool.Close() }

// Ready returns nil if the database answers and has the migrations and definitions of this program, or later ones. It
// is one statement, which reads two small tables.
func (d *DB) Ready(ctx context.Context) error {
	names, versions := make([]string, len(d.needs)), make([]int, len(d.needs))
	for i, need := range d.needs {
		names[i], versions[i] = need.Name, need.Version
	}
	var version int
	var missing []string
	err := d.pool.QueryRow(ctx, `
		select (select coalesce(max(version), 0) from schema_migrations),
			array(
				select n.name || ' ' || n.version from unnest($1::text[], $2::int[]) n (name, version)
				where not exists (select from schema_definitions d where d.name = n.name and d.version >= n.version)
				order by 1)`, names, versions).Scan(&version, &missing)
	var pg *pgconn.PgError
	switch want := latestMigration(); {
	case errors.As(err, &pg) && pg.Code == "42P01":
		return fmt.Errorf("the database is not migrated: %s", howToMigrate)
	case err != nil:
		return fmt.Errorf("database: %w", err)
	case version < want:
		return fmt.Errorf("the database is at migration %d, this program needs %d: %s", version, want, howToMigrate)
	case len(missing) > 0:
		return fmt.Errorf("the database lacks the definitions %s: %s", strings.Join(missing, ", "), howToMigrate)
	}
	return nil
}

const howToMigrate = "run `spoolwright migrate` with MIGRATE_DATABASE_URL set to the login of the database's owner"

// PoolStats are the pool's figures at a moment.
type PoolStats struct {
	Max, Total, Idle, InUse int32
	Acquires, Waits         int64 // since the start; waits are acquires that found no idle connection
	WaitTime                time.Duration
}

// Stats returns the pool's figures.
func (d *DB) Stats() PoolStats {
	s := d.pool.Stat()
	return PoolStats{
		Max: s.MaxConns(), Total: s.TotalConns(), Idle: s.IdleConns(), InUse: s.AcquiredConns(),
		Acquires: s.AcquireCount(), Waits: s.EmptyAcquireCount(), WaitTime: s.EmptyAcquireWaitTime(),
	}
}

// selfTest writes a row as one tenant, in a transaction that is rolled back, and looks for it as another.
func (d *DB) selfTest(ctx context.Context) error {
	tx, err := d.pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))

	var login, messages string
	var super, owner bool
	err = tx.QueryRow(ctx, `select session_user, r.rolsuper or r.rolbypassrls,
		exists (select from pg_class c where c.relname = 'tenants' and c.relkind in ('r', 'p') and pg_has_role(r.oid, c.relowner, 'member')),
		current_setting('client_min_messages')
		from pg_roles r where r.rolname = session_user`).Scan(&login, &super, &owner, &messages)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	if messages == "error" {
		return fmt.Errorf("client_min_messages of the database login %q is error: PostgreSQL could not report a commit without its "+
			"synchronous standby; run ALTER ROLE %s SET client_min_messages = warning", login, pgx.Identifier{login}.Sanitize())
	}
	mine, other := NewID(), NewID()
	if _, err := tx.Exec(ctx, bindSQL, mine, nil, nil); err != nil {
		return bindProblem(err, login)
	}
	var plain bool
	err = tx.QueryRow(ctx, `select current_user = '`+appRole+`' and not r.rolsuper and not r.rolbypassrls
		from pg_roles r where r.rolname = current_user`).Scan(&plain)
	if err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	if !plain {
		return errors.New("self-test: the role " + appRole + " is not in force, or is a superuser or BYPASSRLS: row-level security would not bind; refusing to serve")
	}
	var loose []string
	err = tx.QueryRow(ctx, `select coalesce(array_agg(c.relname::text), '{}') from pg_class c
		join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
		where c.relkind in ('r', 'p') and c.relnamespace = (select relnamespace from pg_class where oid = 'tenants'::regclass)
		and c.relname <> 'login_directory'
		and not (c.relrowsecurity and c.relforcerowsecurity and exists (select from pg_policy p where p.polrelid = c.oid))`).Scan(&loose)
	if err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	if len(loose) > 0 {
		return fmt.Errorf("self-test: row-level security is not in force on %v; refusing to serve", loose)
	}
	if _, err := tx.Exec(ctx, `insert into tenants (name) values ('self-test')`); err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	count := func(tenant string) (n int, err error) {
		if _, err = tx.Exec(ctx, bindSQL, tenant, nil, nil); err == nil {
			err = tx.QueryRow(ctx, `select count(*) from tenants`).Scan(&n)
		}
		return n, err
	}
	own, err := count(mine)
	if err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	foreign, err := count(other)
	if err != nil {
		return fmt.Errorf("self-test: %w", err)
	}
	if own != 1 || foreign != 0 {
		return fmt.Errorf("self-test: a tenant sees %d of its own 1 row and %d of another's; row-level security does not bind; refusing to serve", own, foreign)
	}
	if super || owner {
		d.log.Warn("the database login could bypass row-level security if the service did not give up its rights in each transaction; "+
			"a login that owns nothing and is only a member of "+appRole+" is safer", "login", login, "superuser", super, "owner", owner)
	}
	return nil
}

func bindProblem(err error, login string) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "42501" || pg.Code == "22023") {
		return fmt.Errorf("the database login %q is not a member of the role %s: run GRANT %s TO %s "+
			"as the login that created the role, or as a superuser",
			login, appRole, appRole, pgx.Identifier{login}.Sanitize())
	}
	return fmt.Errorf("database: %w", err)
}
