package tables

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"

	"spoolwright/db/dial"
)

// CopyAll copies all rows of a migrated database to another database with the same migrations and definitions, and
// replaces the rows of that database. Both URLs must have the login of a superuser, and nothing else may change the
// databases meanwhile. CopyAll calls progress after each table, and compares checksums of the rows. After an error,
// the target database is unchanged.
func CopyAll(ctx context.Context, fromURL, toURL string, progress func(table string, rows int64)) error {
	from, err := dial.Connect(ctx, fromURL)
	if err != nil {
		return err
	}
	defer from.Close(context.WithoutCancel(ctx))
	to, err := dial.Connect(ctx, toURL)
	if err != nil {
		return err
	}
	defer to.Close(context.WithoutCancel(ctx))

	read := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, from, read, func(pgx.Tx) error {
		return pgx.BeginFunc(ctx, to, func(pgx.Tx) error {
			tables, err := copiedTables(ctx, to)
			if err != nil {
				return err
			}
			var names []string
			for _, t := range tables {
				names = append(names, t.Name)
			}
			// In the role replica, PostgreSQL runs only the triggers that compute columns, and does not check foreign
			// keys.
			for _, sql := range []string{`set local session_replication_role = replica`,
				`truncate ` + strings.Join(names, ", ")} {
				if _, err := to.Exec(ctx, sql); err != nil {
					return fmt.Errorf("database: %w", err)
				}
			}
			for _, t := range tables {
				rows, err := t.copy(ctx, from, to)
				if err != nil {
					return fmt.Errorf("copy the table %s: %w", t.Name, err)
				}
				progress(t.Name, rows)
			}
			return nil
		})
	})
}

// copiedTable is a table and a quoted list of its columns, without generated columns and without columns that a
// trigger sets. Such a column has the comment "computed".
type copiedTable struct{ Name, Columns string }

// copiedTables returns all tables except the tables that Migrate fills.
func copiedTables(ctx context.Context, conn *pgx.Conn) ([]copiedTable, error) {
	rows, err := conn.Query(ctx, `
		select c.oid::regclass::text, string_agg(quote_ident(a.attname), ', ' order by a.attnum)
		from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
		where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace
			and not a.attisdropped and a.attgenerated = ''
			and col_description(c.oid, a.attnum) is distinct from 'computed'
			and c.relname not in ('schema_migrations', 'schema_definitions')
		group by c.oid order by c.relname`)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[copiedTable])
}

func (t copiedTable) copy(ctx context.Context, from, to *pgx.Conn) (int64, error) {
	r, w := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		_, err := from.PgConn().CopyTo(ctx, w, `copy `+t.Name+` (`+t.Columns+`) to stdout`)
		w.CloseWithError(err)
		sent <- err
	}()
	tag, err := to.PgConn().CopyFrom(ctx, r, `copy `+t.Name+` (`+t.Columns+`) from stdin`)
	r.CloseWithError(err)
	if err := errors.Join(<-sent, err); err != nil {
		return 0, err
	}
	sent1, err1 := t.sum(ctx, from)
	sent2, err2 := t.sum(ctx, to)
	if err := errors.Join(err1, err2); err != nil {
		return 0, err
	}
	if sent1 != sent2 {
		return 0, fmt.Errorf("the rows differ: %s, and %s in the copy", sent1, sent2)
	}
	return tag.RowsAffected(), nil
}

// sum returns the number of rows and the sum of their hashes.
func (t copiedTable) sum(ctx context.Context, conn *pgx.Conn) (sum string, err error) {
	err = conn.QueryRow(ctx, t.sumSQL()).Scan(&sum)
	return sum, err
}

// sumSQL returns a query for the number of rows and the sum of their hashes. Computed columns are left out: their
// values may depend on the version of PostgreSQL.
func (t copiedTable) sumSQL() string {
	return `select count(*) || ' rows with the checksum ' ||
			coalesce(sum(hashtextextended(row(` + t.Columns + `)::text, 0)), 0)
		from ` + t.Name
}
