// Package tables changes and transfers whole tables with rows of tenants: it archives tenants, copies databases, and
// makes changes for which the service's role lacks privileges. Only commands and archives use it.
package tables

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

// Owner makes changes for which the service's role lacks privileges, such as the removal of a tenant. It uses the
// login that owns the tables. Only commands use it.
type Owner struct{ URL string }

// Tx runs fn in one transaction, which row-level security binds to the tenant. If the login does not own the tables,
// the error names the setting MIGRATE_DATABASE_URL. After a deadlock or a serialization failure, Tx calls fn again, up
// to ten times, so fn must not have effects outside of the transaction.
func (o Owner) Tx(ctx context.Context, tenant string, fn func(*Tx) error) error {
	for n := 1; ; n++ {
		err := o.once(ctx, tenant, fn)
		pg, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || pg.Code != "40P01" && pg.Code != "40001" || n == 10 {
			return err
		}
	}
}

// once is Tx without repetition.
func (o Owner) once(ctx context.Context, tenant string, fn func(*Tx) error) error {
	return o.connect(ctx, func(conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(pgx.Tx) error {
			tx := &Tx{ctx: ctx, conn: conn}
			if err := tx.Bind(tenant); err != nil {
				return err
			}
			return fn(tx)
		})
	})
}

// Fill runs fn once in a transaction that fills the tables of a new tenant.
func (o Owner) Fill(ctx context.Context, tenant string, fn func(*Tx) error) error {
	return o.once(ctx, tenant, func(tx *Tx) error {
		if err := tx.prepare(); err != nil {
			return err
		}
		return fn(tx)
	})
}

func (o Owner) connect(ctx context.Context, fn func(*pgx.Conn) error) error {
	conn, err := dial.Connect(ctx, o.URL)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = fn(conn)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "42501" {
		err = fmt.Errorf("the database login does not own the tables: set MIGRATE_DATABASE_URL to the login of the "+
			"database's owner: %w", err)
	}
	return err
}

// RemoveTenant deletes all rows of a tenant in all tables. It first calls disable with the tenant in a transaction,
// which disables the tenant's users and API keys, and waits for the transactions that began before and can still add
// rows. After an error, the users and keys stay disabled, no row has been deleted, and RemoveTenant can be called
// again.
func (o Owner) RemoveTenant(ctx context.Context, tenant string, disable func(*Tx, string) error) error {
	err := o.Tx(ctx, tenant, func(tx *Tx) error { return disable(tx, tenant) })
	if err == nil {
		err = o.awaitUsers(ctx)
	}
	if err != nil {
		return err
	}
	var tables []string
	if err := o.connect(ctx, func(conn *pgx.Conn) error {
		tables, err = tenantTables(ctx, conn)
		return err
	}); err != nil {
		return err
	}
	return o.Tx(ctx, tenant, func(tx *Tx) error {
		// An import by a command does not lock users, but holds this lock.
		if _, err := tx.Exec(`select set_config('lock_timeout', '30s', true),
			pg_advisory_xact_lock(hashtextextended('bulk ' || $1::text, 0))`, tenant); err != nil {
			return err
		}
		for _, table := range tables {
			if _, err := tx.Exec(`delete from `+table+` where tenant_id = $1`, tenant); err != nil {
				return err
			}
		}
		return nil
	})
}

// awaitUsers waits until all transactions that have read users or API keys, of any tenant, have ended: a transaction
// that began before the users of a tenant were disabled can still insert rows. A transaction keeps its locks of tables
// until it ends, and PostgreSQL takes the snapshot of a statement after these locks, so a transaction that locks the
// tables later finds the users disabled. awaitUsers takes no lock for which a request would wait.
func (o Owner) awaitUsers(ctx context.Context) error {
	return o.connect(ctx, func(conn *pgx.Conn) error {
		const held = `
			select coalesce(array_agg(distinct virtualtransaction), '{}') from pg_locks
			where locktype = 'relation' and database = (select oid from pg_database where datname = current_database())
				and relation in ('users'::regclass, 'api_keys'::regclass) and mode = 'AccessShareLock'
				and pid <> pg_backend_pid() and ($1::text[] is null or virtualtransaction = any ($1))`
		var waiting []string // null reads all
		for end := time.Now().Add(30 * time.Second); ; {
			if err := conn.QueryRow(ctx, held, waiting).Scan(&waiting); err != nil || len(waiting) == 0 {
				return err
			}
			if time.Now().After(end) {
				return errors.New("a transaction, for example an import, runs for more than 30 seconds; " +
					"repeat the command when it has ended")
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
}

// tenantTables returns the quoted names of the tables with the column tenant_id, each before the tables that it
// references. The last tables are audit_log and deleted_rows, because triggers of other tables insert into them.
func tenantTables(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	rows, err := conn.Query(ctx, `
		select c.oid::regclass::text, array(
			select f.confrelid::regclass::text from pg_constraint f
			where f.conrelid = c.oid and f.contype = 'f' and f.confrelid <> c.oid)
		from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
		where c.relkind in ('r', 'p') and not c.relispartition
			and c.relnamespace = (select relnamespace from pg_class where oid = 'public.tenants'::regclass)
		order by c.relname`)
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
			last := t.Name == "audit_log" || t.Name == "deleted_rows"
			if !blocked && (!last || len(sorted) >= len(all)-2) {
				sorted = append(sorted, t.Name)
			}
		}
		if len(sorted) == before {
			return nil, errors.New("tables reference each other in a circle")
		}
	}
	return sorted, nil
}
