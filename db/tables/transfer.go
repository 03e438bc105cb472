package tables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Tx is a transaction with a login other than the service's, or on a connection outside of the service's pool.
type Tx struct {
	Tables []Table // all tables with rows of tenants, each after the tables that it references; only for copies

	ctx     context.Context
	conn    *pgx.Conn
	explain func(error) error // converts the errors of WriteRows
}

// Table is a table with rows of tenants. Columns are the columns that a copy of a row needs: all except tenant_id,
// generated columns and columns that a trigger computes.
type Table struct {
	Name    string
	Columns []string
}

// Snapshot runs fn in the current transaction of conn, which must be read-only and bound to a tenant. WriteRows passes
// errors of the database to explain and returns the result.
func Snapshot(ctx context.Context, conn *pgx.Conn, explain func(error) error, fn func(*Tx) error) error {
	tx := &Tx{ctx: ctx, conn: conn, explain: explain}
	if err := tx.prepare(); err != nil {
		return err
	}
	return fn(tx)
}

// prepare applies settings with which values have the same text form in all databases, removes the timeouts, and reads
// the names of the tables.
func (t *Tx) prepare() error {
	_, err := t.Exec(`select set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO', true),
		set_config('intervalstyle', 'postgres', true), set_config('bytea_output', 'hex', true),
		set_config('statement_timeout', '0', true), set_config('lock_timeout', '30s', true),
		set_config('idle_in_transaction_session_timeout', '0', true)`)
	if err != nil {
		return err
	}
	names, err := tenantTables(t.ctx, t.conn)
	if err != nil {
		return err
	}
	all, err := copiedTables(t.ctx, t.conn)
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(names) {
		i := slices.IndexFunc(all, func(c copiedTable) bool { return c.Name == name })
		if i < 0 {
			return fmt.Errorf("tables: the rows of %s cannot be copied", name)
		}
		columns := strings.Split(all[i].Columns, ", ")
		columns = slices.DeleteFunc(columns, func(c string) bool { return c == "tenant_id" })
		t.Tables = append(t.Tables, Table{name, columns})
	}
	return nil
}

// Bind binds the transaction to another tenant.
func (t *Tx) Bind(tenant string) error {
	_, err := t.Exec(`select set_config('search_path', 'public, pg_temp', true), set_config('app.tenant_id', $1, true),
		set_config('app.origin', 'command line', true)`, tenant)
	return err
}

// Exec runs a statement and returns the number of rows that it changed or returned.
func (t *Tx) Exec(sql string, args ...any) (int64, error) {
	tag, err := t.conn.Exec(t.ctx, sql, args...)
	return tag.RowsAffected(), err
}

// Row reads the single row that a query returns.
func (t *Tx) Row(sql string, into ...any) error {
	return t.conn.QueryRow(t.ctx, sql).Scan(into...)
}

// WriteRows writes the rows of a query to w, in the text format of COPY, and returns their number. It returns an error
// of w unchanged.
func (t *Tx) WriteRows(w io.Writer, query string) (int64, error) {
	to := &failing{w: w}
	tag, err := t.conn.PgConn().CopyTo(t.ctx, to, `copy (`+query+`) to stdout`)
	if to.err != nil {
		return 0, to.err
	}
	if err != nil {
		return 0, t.explain(err)
	}
	return tag.RowsAffected(), nil
}

// failing records the error of a writer.
type failing struct {
	w   io.Writer
	err error
}

func (f *failing) Write(b []byte) (n int, err error) {
	n, f.err = f.w.Write(b)
	return n, f.err
}

// ReadRows replaces the tenant's rows of a table with the rows from r, in the text format of COPY, and returns their
// number. The columns of r are the columns of the table; the values to insert are expressions of these columns.
// PostgreSQL does not allow COPY into a table with row-level security, so ReadRows copies into a temporary table
// first.
func (t *Tx) ReadRows(table Table, values []string, r io.Reader) (rows int64, err error) {
	columns := strings.Join(table.Columns, ", ")
	if _, err := t.Exec(`create temp table transferred on commit drop as select ` + columns + ` from ` + table.Name +
		` with no data`); err != nil {
		return 0, err
	}
	_, err = t.conn.PgConn().CopyFrom(t.ctx, r, `copy pg_temp.transferred (`+columns+`) from stdin`)
	if err == nil {
		_, err = t.Exec(`delete from ` + table.Name +
			` where tenant_id = nullif(current_setting('app.tenant_id'), '')::uuid`)
	}
	if err == nil {
		rows, err = t.Exec(`insert into ` + table.Name + ` (` + columns + `) select ` + strings.Join(values, ", ") +
			` from pg_temp.transferred`)
	}
	if err == nil {
		_, err = t.Exec(`drop table pg_temp.transferred`)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && (pg.Code[:2] == "22" || pg.Code[:2] == "23") {
		err = fmt.Errorf("the database rejects the rows of the table %s: %w", table.Name, err)
	}
	return rows, err
}
