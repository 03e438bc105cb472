package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"spoolwright/db/dial"
)

// Owner changes what the service's role has no privileges for, such as the removal of a tenant, with the login that
// owns the tables. Only commands use it.
type Owner struct {
	URL     string   // of the first database
	Further []string // of the further databases
	DB      *DB      // tells in which database a tenant is at home; needed only if there are several
}

// Bind binds the transaction of an Owner to a tenant. It may be called again for another tenant, which must be at home
// in the same database.
type Bind func(tenant string) error

// Exec runs a statement of the transaction and returns the number of rows that it changed or returned.
type Exec func(sql string, args ...any) (rows int64, err error)

// Tx runs fn in one transaction in the tenant's home, which row-level security binds to the tenant. The error of a
// login that does not own the tables names the setting MIGRATE_DATABASE_URL.
func (o Owner) Tx(ctx context.Context, tenant string, fn func(Bind, Exec) error) error {
	home := 0
	// pass rejects the transaction as its gate does, if there are several databases.
	pass := func(string, Exec) error { return nil }
	if len(o.Further) > 0 {
		at, err := o.DB.homes.lookUp(ctx, tenant)
		if err != nil {
			return err
		}
		home = at.home
		pass = func(tenant string, exec Exec) error {
			at, err := o.DB.homes.lookUp(ctx, tenant)
			if err != nil {
				return err
			}
			if at.home != home {
				return errMoved
			}
			for _, s := range gate(at.moves).statements(tenant, true) {
				if _, err := exec(s.SQL, s.Args...); err != nil {
					return classify(err)
				}
			}
			return nil
		}
	}
	return o.connect(ctx, home, func(conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			exec := func(sql string, args ...any) (int64, error) {
				tag, err := tx.Exec(ctx, sql, args...)
				return tag.RowsAffected(), err
			}
			bind := func(tenant string) error {
				_, err := exec(`select set_config('search_path', 'public, pg_temp', true),
					set_config('app.tenant_id', $1, true)`, tenant)
				if err != nil {
					return err
				}
				return pass(tenant, exec)
			}
			if err := bind(tenant); err != nil {
				return err
			}
			return fn(bind, exec)
		})
	})
}

func (o Owner) connect(ctx context.Context, home int, fn func(*pgx.Conn) error) error {
	url, setting := o.URL, "MIGRATE_DATABASE_URL"
	if home > 0 {
		url, setting = o.Further[home-1], "FURTHER_MIGRATE_DATABASE_URLS"
	}
	conn, err := dial.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = fn(conn)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "42501" {
		err = fmt.Errorf("the database login does not own the tables: set %s to the login of the database's owner: %w",
			setting, err)
	}
	return err
}

// RemoveTenant deletes all rows of a tenant, in all tables. It first disables the tenant's users, revokes its API
// keys, and waits until no transaction that began before can add rows. If it fails, the users stay disabled and the
// keys revoked, no row was deleted, and it can be called again.
func (o Owner) RemoveTenant(ctx context.Context, tenant string) error {
	err := o.Tx(ctx, tenant, func(_ Bind, exec Exec) error {
		_, err := exec(`update users set disabled_at = coalesce(disabled_at, now()) where tenant_id = $1`, tenant)
		if err == nil {
			_, err = exec(`update api_keys set revoked_at = coalesce(revoked_at, now()) where tenant_id = $1`, tenant)
		}
		return err
	})
	if err == nil {
		err = o.awaitUsers(ctx, tenant)
	}
	if err != nil {
		return err
	}
	var tables []string
	if err := o.connect(ctx, 0, func(conn *pgx.Conn) error {
		tables, err = tenantTables(ctx, conn)
		return err
	}); err != nil {
		return err
	}
	err = o.Tx(ctx, tenant, func(_ Bind, exec Exec) error {
		// An import by a command does not read users; it holds this lock.
		if _, err := exec(`select set_config('lock_timeout', '30s', true),
			pg_advisory_xact_lock(hashtextextended('bulk ' || $1::text, 0))`, tenant); err != nil {
			return err
		}
		for _, table := range tables {
			if _, err := exec(`delete from `+table+` where tenant_id = $1`, tenant); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || len(o.Further) == 0 {
		return err
	}
	return o.connect(ctx, 0, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `
			with forgotten as (delete from tenant_homes where tenant_id = $1)
			delete from login_directory where tenant_id = $1`, tenant)
		return err
	})
}

// awaitUsers waits until the transactions of all tenants that have checked a user or an API key have ended: a
// transaction that began before the users of a tenant were disabled can still insert rows. Each attempt waits a second
// at most, because other requests wait meanwhile.
func (o Owner) awaitUsers(ctx context.Context, tenant string) error {
	for try := 0; ; try++ {
		err := o.Tx(ctx, tenant, func(_ Bind, exec Exec) error {
			_, err := exec(`select set_config('lock_timeout', '1s', true)`)
			if err == nil {
				_, err = exec(`lock table users, api_keys in access exclusive mode`)
			}
			return err
		})
		pg, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || pg.Code != "55P03" {
			return err
		}
		if try == 30 {
			return fmt.Errorf("a transaction, for example an import, runs for more than 30 seconds; "+
				"repeat the command when it has ended: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// tenantTables returns the quoted names of the tables with the column tenant_id, each before the tables that it
// references. Triggers of other tables insert into row_counts, so that it is the last one.
func tenantTables(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	rows, err := conn.Query(ctx, `
		select c.oid::regclass::text, array(
			select f.confrelid::regclass::text from pg_constraint f
			where f.conrelid = c.oid and f.contype = 'f' and f.confrelid <> c.oid)
		from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
		where c.relkind in ('r', 'p') and not c.relispartition
			and c.relnamespace = (select relnamespace from pg_class where oid = 'public.tenants'::regclass)
		order by c.relname = 'row_counts', c.relname`)
	if err != nil {
		return nil, err
	}
	type table struct {
		Name       string
		References []string
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[table])
	if err != nil {
		return nil, err
	}
	var sorted []string
	for len(sorted) < len(all) {
		before := len(sorted)
		for _, t := range all {
			blocked := slices.Contains(sorted, t.Name) || slices.ContainsFunc(all, func(other table) bool {
				return !slices.Contains(sorted, other.Name) && slices.Contains(other.References, t.Name)
			})
			if !blocked && (t.Name != "row_counts" || len(sorted) == len(all)-1) {
				sorted = append(sorted, t.Name)
			}
		}
		if len(sorted) == before {
			return nil, errors.New("db: tables reference each other in a circle")
		}
	}
	return sorted, nil
}
