package db

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Migrations are append-only: a file that was released is never edited.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrationLock is the advisory lock that makes any number of instances migrate one after the other.
const migrationLock = 0x53504f4f4c

type migration struct {
	version   int
	name, sql string
}

func migrations() []migration {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		panic(err)
	}
	var all []migration
	for i, path := range names {
		sql, err := fs.ReadFile(migrationFiles, path)
		name := strings.TrimSuffix(strings.TrimPrefix(path, "migrations/"), ".sql")
		version, convErr := strconv.Atoi(name[:4])
		if err != nil || convErr != nil || version != i+1 {
			panic("migrations must be numbered 0001, 0002, ...: " + path)
		}
		all = append(all, migration{version, name, string(sql)})
	}
	return all
}

func latestMigration() int { return len(migrations()) }

// Migrate brings the database at ownerURL up to this program's schema, each migration in a transaction of its own, and
// returns how many were applied. Any number of instances may do so at once. The login named in memberURL, if that is
// another one, is made a member of spoolwright_app where the owner may do so. A database that is newer than the
// program is an error.
func Migrate(ctx context.Context, ownerURL, memberURL string) (applied int, err error) {
	config, err := pgx.ParseConfig(ownerURL)
	if err != nil {
		return 0, errors.New("the database URL is not understood (its text is not shown, for it may hold a password)")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 5 * time.Second
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return 0, fmt.Errorf("database: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))

	var member string
	if memberURL != "" && memberURL != ownerURL {
		if c, err := pgx.ParseConfig(memberURL); err == nil {
			member = c.User
		}
	}
	all := migrations()
	current, err := schemaVersion(ctx, conn)
	if err != nil {
		return 0, err
	}
	for races := 0; current < len(all); {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			// Simple protocol: a migration file holds many statements.
			exec := func(sql string) error { return tx.Conn().PgConn().Exec(ctx, sql).Close() }
			if err := exec(fmt.Sprintf("select pg_advisory_xact_lock(%d)", migrationLock)); err != nil {
				return err
			}
			if err := exec(`create table if not exists schema_migrations (
				version int primary key, name text not null, applied_at timestamptz not null default now());
				grant select on schema_migrations to public`); err != nil {
				return err
			}
			if current, err = schemaVersion(ctx, tx); err != nil || current >= len(all) {
				return err
			}
			m := all[current]
			if err := exec(m.sql); err != nil {
				return fmt.Errorf("migration %s: %w", m.name, err)
			}
			if _, err := tx.Exec(ctx, `insert into schema_migrations (version, name) values ($1, $2)`, m.version, m.name); err != nil {
				return err
			}
			current, applied = m.version, applied+1
			return nil
		})
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == "42704" && races < 10 {
			// Another database's migration made the role at the same moment, and this session does not see it before its next transaction.
			races++
			continue
		}
		if err != nil {
			return applied, err
		}
	}
	if current > len(all) {
		return applied, fmt.Errorf("the database is at migration %d, newer than this program, which knows %d: use a newer program", current, len(all))
	}
	grantMembership(ctx, conn, config.User, member)
	return applied, nil
}

func schemaVersion(ctx context.Context, q interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}) (version int, err error) {
	var exists bool
	if err := q.QueryRow(ctx, `select to_regclass('schema_migrations') is not null`).Scan(&exists); err != nil || !exists {
		return 0, err
	}
	err = q.QueryRow(ctx, `select coalesce(max(version), 0) from schema_migrations`).Scan(&version)
	return version, err
}

// grantMembership is a courtesy: where it is refused, the self-test of Open says what the deployer has to grant. Since
// PostgreSQL 16 whoever makes a role is a member of it, but may not take it without being granted that.
func grantMembership(ctx context.Context, conn *pgx.Conn, logins ...string) {
	for _, login := range logins {
		var missing bool
		err := conn.QueryRow(ctx, `select not pg_has_role(rolname, '`+appRole+`', case when current_setting('server_version_num')::int < 160000 then 'MEMBER' else 'SET' end)
			from pg_roles where rolname = $1`, login).Scan(&missing)
		if err == nil && missing {
			conn.Exec(ctx, `grant `+appRole+` to `+pgx.Identifier{login}.Sanitize()) // may lose a race against the same grant
		}
	}
}
