package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Move moves a tenant to another database. Its writes get ErrUnavailable meanwhile, and its reads continue in the old
// database.
//
// All rows are copied in one transaction of the new database, and compared. Then the tenant leaves a row in
// tenant_departures of the old one: from then on, instances look up where it is at home, and reject its writes until
// tenant_homes names the new database. At last, the rows in the old one are deleted. If the program ends at any point,
// tenant_homes says where the tenant is, and there it is complete. Run again finishes the move, or undoes it if To is
// the old database.
type Move struct {
	Owner    Owner
	Tenant   string // the id
	To       int    // the number of the new database
	Progress func(line string)

	// Step, if not nil, is called between the steps. Its error ends Run as if the program had ended. For tests.
	Step func(name string) error

	home, moves int               // where the tenant is at home
	copied      map[string]string // the checksums of the tables in the old database, when they were copied
}

const maxMoveWait = 30 * time.Second // for transactions of the tenant that began before

// Run moves the tenant.
func (m Move) Run(ctx context.Context) error {
	if m.To < 0 || m.To > len(m.Owner.Further) {
		return fmt.Errorf("there is no database %d", m.To)
	}
	from := m.To
	err := m.exclusively(ctx, func(first *movingTx) error {
		if m.home == m.To {
			return m.cancel(ctx)
		}
		from = m.home
		return m.copyTo(ctx, first)
	})
	if err != nil {
		return err
	}
	if err := m.step("moved"); err != nil {
		return err
	}
	return m.exclusively(ctx, func(first *movingTx) error {
		if m.home != m.To {
			return errors.New("another command moved the tenant again")
		}
		for home := range len(m.Owner.Further) + 1 {
			if home == m.home {
				continue
			}
			if err := m.empty(ctx, first, home, home == from); err != nil {
				return fmt.Errorf("the tenant is in database %d, but database %d may still have its rows; "+
					"repeat the command to delete them: %w", m.home, home, err)
			}
		}
		return nil
	})
}

func (m *Move) step(name string) error {
	if m.Step == nil {
		return nil
	}
	return m.Step(name)
}

// movingTx is a transaction of a Move.
type movingTx struct {
	ctx  context.Context
	conn *pgx.Conn
}

func (t *movingTx) exec(sql string, args ...any) (int64, error) {
	tag, err := t.conn.Exec(t.ctx, sql, args...)
	return tag.RowsAffected(), err
}

// alive returns an error if the transaction, and its locks, ended.
func (t *movingTx) alive() error {
	_, err := t.exec(`select 1`)
	return err
}

// exclusively runs fn in a transaction of home 0 that no other Move of the tenant has at the same time.
func (m *Move) exclusively(ctx context.Context, fn func(first *movingTx) error) error {
	return m.in(ctx, 0, func(first *movingTx) error {
		var locked bool
		err := first.conn.QueryRow(ctx, `select pg_try_advisory_xact_lock(hashtextextended('move ' || $1::text, 0))`,
			m.Tenant).Scan(&locked)
		if err != nil {
			return err
		}
		if !locked {
			return errors.New("another command moves the tenant")
		}
		m.home, m.moves = 0, 0
		err = first.conn.QueryRow(ctx, `select home, moves from tenant_homes where tenant_id = $1`, m.Tenant).
			Scan(&m.home, &m.moves)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		return fn(first)
	})
}

// in runs fn in a transaction of the database's owner that is bound to the tenant.
func (m *Move) in(ctx context.Context, home int, fn func(*movingTx) error) error {
	return m.Owner.connect(ctx, home, func(conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(pgx.Tx) error {
			t := &movingTx{ctx, conn}
			// Rows are copied and compared as texts. Stock levels are copied, and do not change.
			_, err := t.exec(`select set_config('search_path', 'public, pg_temp', true),
				set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO', true),
				set_config('bytea_output', 'hex', true),
				set_config('app.tenant_id', $1, true), set_config('app.stock_refreshed', 'all', true),
				set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true),
				set_config('lock_timeout', $2, true)`, m.Tenant, fmt.Sprint(maxMoveWait.Milliseconds()))
			if err != nil {
				return err
			}
			return fn(t)
		})
	})
}

// lock waits until no transaction of the tenant writes, and lets none begin.
func (m *Move) lock(t *movingTx) error {
	_, err := t.exec(`select pg_advisory_xact_lock(`+homeLock+`)`, m.Tenant)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "55P03" {
		err = fmt.Errorf("a transaction of the tenant, for example an import, runs for more than %v; "+
			"repeat the command when it has ended: %w", maxMoveWait, err)
	}
	return err
}

// cancel makes a tenant whose move was interrupted writable again.
func (m *Move) cancel(ctx context.Context) error {
	return m.in(ctx, m.home, func(t *movingTx) error {
		_, err := t.exec(`delete from tenant_departures where tenant_id = $1 and moves > $2`, m.Tenant, m.moves)
		return err
	})
}

// copyTo copies the tenant and makes the new database its home.
func (m *Move) copyTo(ctx context.Context, first *movingTx) error {
	// Instances without FURTHER_DATABASE_URLS are not ready from now on.
	err := m.in(ctx, 0, func(t *movingTx) error {
		_, err := t.exec(`update further_databases set used = true where home = $1 and not used`, m.To)
		return err
	})
	if err != nil {
		return err
	}
	if err := m.in(ctx, m.home, func(source *movingTx) error { return m.depart(first, source) }); err != nil {
		return err
	}
	if err := m.step("departed"); err != nil {
		return err
	}
	_, err = first.exec(`
		insert into tenant_homes (tenant_id, home, moves) values ($1, $2, $3)
		on conflict (tenant_id) do update set home = excluded.home, moves = excluded.moves`, m.Tenant, m.To, m.moves+1)
	return err
}

// depart copies the tenant, unless an earlier command did, and then rejects transactions that use the old database.
func (m *Move) depart(first, source *movingTx) error {
	if err := m.lock(source); err != nil {
		return err
	}
	if err := m.step("locked"); err != nil {
		return err
	}
	var pending *int // the database of an interrupted move that had copied the tenant
	if err := source.conn.QueryRow(source.ctx,
		`select min(home) from tenant_departures where tenant_id = $1 and moves > $2`,
		m.Tenant, m.moves).Scan(&pending); err != nil {
		return err
	}
	if pending != nil && *pending != m.To {
		return fmt.Errorf("a move of the tenant to database %d was interrupted: "+
			"finish it with --to %d, or undo it with --to %d", *pending, *pending, m.home)
	}
	err := m.in(source.ctx, m.To, func(target *movingTx) error { return m.fill(first, source, target, pending != nil) })
	if err != nil {
		return err
	}
	if err := m.step("committed"); err != nil {
		return err
	}
	if _, err := source.exec(`
		insert into tenant_departures (tenant_id, moves, home) values ($1, $2, $3)
		on conflict (tenant_id) do update set moves = excluded.moves, home = excluded.home`,
		m.Tenant, m.moves+1, m.To); err != nil {
		return err
	}
	return first.alive()
}

// fill copies the rows, unless that is done already, and compares them.
func (m *Move) fill(first, source, target *movingTx, copied bool) error {
	if err := m.lock(target); err != nil {
		return err
	}
	tables, err := movedTables(source.ctx, source.conn)
	if err != nil {
		return err
	}
	if !copied {
		if err := m.copyTables(source, target, tables); err != nil {
			return err
		}
	}
	if err := m.step("copied"); err != nil {
		return err
	}
	for _, t := range tables {
		if err := m.compare(source, target, t); err != nil {
			return fmt.Errorf("compare the table %s: %w", t.Name, err)
		}
	}
	if err := m.step("compared"); err != nil {
		return err
	}
	return errors.Join(first.alive(), source.alive())
}

// copyTables replaces the tenant's rows in the new database, and fills the queue.
func (m *Move) copyTables(source, target *movingTx, tables []copiedTable) error {
	if err := m.delete(target); err != nil {
		return err
	}
	for _, t := range tables {
		if err := m.copyTable(source, target, t); err != nil {
			return fmt.Errorf("copy the table %s: %w", t.Name, err)
		}
	}
	_, err := target.exec(`select queue_add(array_agg(distinct webhook_id)) from webhook_deliveries
		where tenant_id = $1 and status = 'pending' having count(*) > 0`, m.Tenant)
	return err
}

// empty deletes the tenant's rows from a database that is not its home. If they were copied from there, they must not
// have changed since.
func (m *Move) empty(ctx context.Context, first *movingTx, home int, copied bool) error {
	return m.in(ctx, home, func(t *movingTx) error {
		if err := m.lock(t); err != nil {
			return err
		}
		if copied {
			if err := m.unchanged(t); err != nil {
				return err
			}
		}
		if err := m.delete(t); err != nil {
			return err
		}
		if err := m.step("emptied"); err != nil {
			return err
		}
		return first.alive() // so that no other Move has copied the tenant to this database meanwhile
	})
}

// directoryTables say where tenants are. A move neither copies nor deletes their rows.
var directoryTables = []string{"login_directory", "tenant_homes", "tenant_departures"}

// queueTables are not copied: copyTables fills the queue of the new database.
var queueTables = []string{"queue_signals", "queue_items"}

// delete deletes the tenant's rows.
func (m *Move) delete(t *movingTx) error {
	tables, err := tenantTables(t.ctx, t.conn)
	if err != nil {
		return err
	}
	for _, table := range tables {
		if slices.Contains(directoryTables, table) {
			continue
		}
		if _, err := t.exec(`delete from `+table+` where tenant_id = $1`, m.Tenant); err != nil {
			return fmt.Errorf("delete from %s: %w", table, err)
		}
	}
	return nil
}

// movedTables returns the tables that are copied, each after the tables that it references.
func movedTables(ctx context.Context, conn *pgx.Conn) ([]copiedTable, error) {
	order, err := tenantTables(ctx, conn)
	if err != nil {
		return nil, err
	}
	// Triggers of the others insert into row_counts, the last table in both orders.
	slices.Reverse(order[:len(order)-1])
	all, err := copiedTables(ctx, conn)
	if err != nil {
		return nil, err
	}
	var tables []copiedTable
	for _, name := range order {
		if i := slices.IndexFunc(all, func(t copiedTable) bool { return t.Name == name }); i >= 0 &&
			!slices.Contains(directoryTables, name) && !slices.Contains(queueTables, name) {
			tables = append(tables, all[i])
		}
	}
	return tables, nil
}

// insertPages is the number of pages that one statement inserts, so that there is progress to report.
const insertPages = 5_000

// copyTable copies the tenant's rows of a table. PostgreSQL does not allow COPY into a table with row-level security,
// so that the rows go through a temporary table.
func (m *Move) copyTable(source, target *movingTx, t copiedTable) error {
	const temporary = `pg_temp.moved_rows`
	if _, err := target.exec(`create temp table moved_rows on commit drop as select ` + t.Columns + ` from ` + t.Name +
		` with no data`); err != nil {
		return err
	}
	r, w := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		// The id is a UUID.
		_, err := source.conn.PgConn().CopyTo(source.ctx, w,
			`copy (select `+t.Columns+` from `+t.Name+` where tenant_id = '`+m.Tenant+`') to stdout`)
		w.CloseWithError(err)
		sent <- err
	}()
	tag, err := target.conn.PgConn().CopyFrom(target.ctx, r, `copy `+temporary+` (`+t.Columns+`) from stdin`)
	r.CloseWithError(err)
	if err := errors.Join(<-sent, err); err != nil {
		return err
	}
	if t.Name == "row_counts" {
		if _, err := target.exec(`delete from row_counts where tenant_id = $1`, m.Tenant); err != nil {
			return err
		}
	}
	var pages int
	err = target.conn.QueryRow(target.ctx,
		`select (pg_relation_size('`+temporary+`') / current_setting('block_size')::int)::int`).Scan(&pages)
	if err != nil {
		return err
	}
	rows := int64(0)
	for page := 0; page < pages; page += insertPages {
		n, err := target.exec(fmt.Sprintf(`insert into %s (%s) select %[2]s from %s
			where ctid >= '(%d,0)' and ctid < '(%d,0)'`, t.Name, t.Columns, temporary, page, page+insertPages))
		if err != nil {
			return err
		}
		rows += n
		if rows < tag.RowsAffected() {
			m.report("%s: %d of %d rows", t.Name, rows, tag.RowsAffected())
		}
	}
	if rows > 0 {
		m.report("%s: %d rows copied", t.Name, rows)
	}
	if _, err := target.exec(`drop table ` + temporary); err != nil {
		return err
	}
	return m.step("copied " + t.Name)
}

// compare compares the rows in both databases.
func (m *Move) compare(source, target *movingTx, t copiedTable) error {
	var sums [2]string
	for i, tx := range []*movingTx{source, target} {
		if err := tx.conn.QueryRow(tx.ctx, t.sumSQL()+` where tenant_id = $1`, m.Tenant).Scan(&sums[i]); err != nil {
			return err
		}
	}
	if sums[0] != sums[1] {
		return fmt.Errorf("the rows differ: %s, and %s in the copy", sums[0], sums[1])
	}
	if m.copied == nil {
		m.copied = map[string]string{}
	}
	m.copied[t.Name] = sums[0]
	return nil
}

// unchanged returns an error if rows have changed since they were copied: an instance wrote that does not know of the
// other databases.
func (m *Move) unchanged(t *movingTx) error {
	tables, err := movedTables(t.ctx, t.conn)
	if err != nil {
		return err
	}
	for _, table := range tables {
		var sum string
		if err := t.conn.QueryRow(t.ctx, table.sumSQL()+` where tenant_id = $1`, m.Tenant).Scan(&sum); err != nil {
			return err
		}
		if sum != m.copied[table.Name] {
			return fmt.Errorf("the table %s has changed since it was copied: do all instances have FURTHER_DATABASE_URLS?",
				table.Name)
		}
	}
	return nil
}

func (m *Move) report(format string, args ...any) {
	if m.Progress != nil {
		m.Progress(fmt.Sprintf(format, args...))
	}
}
