// Package schema creates and upgrades the tables and functions of a database, while programs of several releases may
// use it. Migrations are numbered SQL files with tables; each runs once. Definitions are SQL files with functions and
// triggers; they run again when their version rises. The tables schema_migrations and schema_definitions record what
// is installed.
package schema

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"spoolwright/db/dial"
)

// migrationLock is the advisory lock under which instances migrate, one after the other.
const migrationLock int64 = 0x53504f4f4c

// Schema is the schema of a program.
type Schema struct {
	Migrations  fs.FS        // the files migrations/0001_NAME.sql, 0002_NAME.sql, ...
	Definitions []Definition // each after the definitions whose functions it calls
	Role        string       // the role of the service's transactions, which a migration creates
}

type migration struct {
	version         int
	name, sql, hash string
}

func (s Schema) migrations() []migration {
	names, err := fs.Glob(s.Migrations, "migrations/*.sql")
	if err != nil {
		panic(err)
	}
	var all []migration
	for i, path := range names {
		sql, err := fs.ReadFile(s.Migrations, path)
		name := strings.TrimSuffix(strings.TrimPrefix(path, "migrations/"), ".sql")
		version, convErr := strconv.Atoi(name[:4])
		if err != nil || convErr != nil || version != i+1 {
			panic("migrations must be numbered 0001, 0002, ...: " + path)
		}
		all = append(all, migration{version, name, string(sql), hash(string(sql))})
	}
	return all
}

// Latest returns the number of the last migration.
func (s Schema) Latest() int { return len(s.migrations()) }

// querier is a connection or a transaction.
type querier interface {
	Query(context.Context, string, ...any) (pgx.Rows, error)
	QueryRow(context.Context, string, ...any) pgx.Row
}

// Applied is what a call of Migrate applied.
type Applied struct {
	Migrations, Definitions int // how many
	Completed               int // the version of the database if this call applied the last of them, otherwise 0
}

// Migrate migrates the database at ownerURL to the schema: first the migrations, each in a transaction, then the
// definitions, in one transaction. Any number of instances may call Migrate at the same time; one completes the
// schema. The login of memberURL, if it is another login, becomes a member of the Role if the owner may grant the
// membership.
//
// Migrate returns an error if the database has a higher migration than the program. It accepts higher versions of
// definitions and keeps them, so that an older program can start beside a newer one.
func (s Schema) Migrate(ctx context.Context, ownerURL, memberURL string) (applied Applied, err error) {
	conn, err := dial.Connect(ctx, ownerURL)
	if err != nil {
		return applied, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := checkEncoding(conn); err != nil {
		return applied, err
	}
	if dial.IsNamed(conn.Config(), ownerURL) {
		if err := dial.CheckPooler(ctx, conn); err != nil {
			return applied, err
		}
	}

	var member string
	if memberURL != "" && memberURL != ownerURL {
		if c, err := pgx.ParseConfig(memberURL); err == nil {
			member = c.User
		}
	}
	all := s.migrations()
	current, err := schemaVersion(ctx, conn, all)
	if err != nil {
		return applied, err
	}
	for retries := 0; current < len(all); {
		var done, complete bool
		current, done, complete, err = s.applyNext(ctx, conn, all)
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == "42704" && retries < 10 {
			// The migration of another database created the role at the same moment. This session sees the role in its
			// next transaction.
			retries++
			continue
		}
		if err != nil {
			return applied, explainPrivilege(err)
		}
		if done {
			applied.Migrations++
		}
		if complete {
			applied.Completed = current
		}
	}
	if current > len(all) {
		return applied, fmt.Errorf("the database is at migration %d, newer than this program, which knows %d: "+
			"use a newer program", current, len(all))
	}
	if applied.Definitions, err = installDefinitions(ctx, conn, s.Definitions); err != nil {
		return applied, explainPrivilege(err)
	}
	if applied.Definitions > 0 {
		applied.Completed = current
	}
	s.grantMembership(ctx, conn, conn.Config().User, member)
	return applied, nil
}

// checkEncoding returns an error if the database cannot store all texts. A pooler may not tell the encoding.
func checkEncoding(conn *pgx.Conn) error {
	encoding := conn.PgConn().ParameterStatus("server_encoding")
	if encoding == "" || encoding == "UTF8" {
		return nil
	}
	return fmt.Errorf("the database %q has the encoding %s instead of UTF8, and an encoding cannot be changed: create "+
		"another database with CREATE DATABASE farm ENCODING 'UTF8' TEMPLATE template0",
		conn.Config().Database, encoding)
}

// HowToMigrate is the advice for a database that lacks a part of the schema.
const HowToMigrate = "run `spoolwright migrate` with MIGRATE_DATABASE_URL set to the login of the database's owner"

// explainPrivilege adds advice to the error of a login that does not own the schema.
func explainPrivilege(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42501" {
		return fmt.Errorf("%w: %s", err, HowToMigrate)
	}
	return err
}

// applyNext applies the first migration that the database lacks, in a transaction. It returns the new version of the
// database, false if the database lacks no migration because another instance applied the last one, and whether the
// database then lacks nothing, also no definition.
func (s Schema) applyNext(ctx context.Context, conn *pgx.Conn, all []migration,
) (version int, done, complete bool, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := lockMigrations(ctx, tx); err != nil {
			return err
		}
		if err := execScript(ctx, tx, `
			create table if not exists schema_migrations (
				version int primary key, name text not null, sha256 text not null,
				applied_at timestamptz not null default now());
			grant select on schema_migrations to public`); err != nil {
			return err
		}
		if version, err = schemaVersion(ctx, tx, all); err != nil || version >= len(all) {
			return err
		}
		m := all[version]
		if err := execScript(ctx, tx, m.sql); err != nil {
			return fmt.Errorf("migration %s: %w", m.name, err)
		}
		_, err := tx.Exec(ctx, `insert into schema_migrations (version, name, sha256) values ($1, $2, $3)`,
			m.version, m.name, m.hash)
		version, done = m.version, true
		if err != nil || version < len(all) {
			return err
		}
		pending, err := pendingDefinitions(ctx, tx, s.Definitions)
		complete = len(pending) == 0
		return err
	})
	return version, done && err == nil, complete && err == nil, err
}

// lockMigrations waits until no other transaction migrates the database, and holds the lock until the end of the
// transaction.
func lockMigrations(ctx context.Context, tx pgx.Tx) error {
	return execScript(ctx, tx, fmt.Sprintf("select pg_advisory_xact_lock(%d)", migrationLock))
}

// execScript runs any number of statements with the simple protocol; the extended protocol allows only one statement.
func execScript(ctx context.Context, tx pgx.Tx, script string) error {
	return tx.Conn().PgConn().Exec(ctx, script).Close()
}

var errOtherTables = errors.New("the database was made by a program before 1.0.0 with other tables, and is not " +
	"changed: start with a new DATA_DIR, or drop the database and create an empty one; docs/backup.md shows how to copy " +
	"the data with `pg_dump --data-only`")

// schemaVersion returns the number of the last migration, or 0 for an empty database. The texts of migrations change
// until 1.0.0: it rejects a database that was made with other texts than those in all. The first programs stored no
// hash.
func schemaVersion(ctx context.Context, q querier, all []migration) (version int, err error) {
	var exists bool
	err = q.QueryRow(ctx, `select to_regclass('schema_migrations') is not null`).Scan(&exists)
	if err != nil || !exists {
		return 0, err
	}
	rows, err := q.Query(ctx, `
		select version, coalesce(to_jsonb(m) ->> 'sha256', '') from schema_migrations m order by version`)
	if err != nil {
		return 0, err
	}
	var hash string
	_, err = pgx.ForEachRow(rows, []any{&version, &hash}, func() error {
		if version <= len(all) && hash != all[version-1].hash {
			return errOtherTables
		}
		return nil
	})
	return version, err
}

// grantMembership makes the logins members of the role, if conn may grant the membership. It ignores errors: the
// self-test of Open reports what the deployer has to grant. Since PostgreSQL 16 the creator of a role is a member of
// the role, but cannot SET ROLE to it before this grant, and only the creator and superusers can make other logins
// members.
func (s Schema) grantMembership(ctx context.Context, conn *pgx.Conn, logins ...string) {
	for _, login := range logins {
		var missing bool
		err := conn.QueryRow(ctx, `
			select not pg_has_role(rolname, $2,
				case when current_setting('server_version_num')::int < 160000 then 'MEMBER' else 'SET' end)
			from pg_roles where rolname = $1`, login, s.Role).Scan(&missing)
		if err == nil && missing {
			conn.Exec(ctx, `grant `+pgx.Identifier{s.Role}.Sanitize()+` to `+pgx.Identifier{login}.Sanitize())
		}
	}
}
