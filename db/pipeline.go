package db

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// pipelined is a transaction that a prepared session sends in a pipeline: first the statements that bind the
// transaction to an actor, then the statements of a request. If a statement fails, PostgreSQL skips the statements
// after it and rolls the transaction back.
type pipelined struct {
	begin []Statement
	stmts []*Stmt

	slots []slot
	sent  bool // whether PostgreSQL may have run the transaction
	err   error
}

// slot is a statement of a pipelined transaction.
type slot struct {
	*preparedStatement
	args []any
	stmt *Stmt // nil for a statement of begin
}

type preparedStatement struct {
	description *pgconn.StatementDescription
	fields      []pgconn.FieldDescription // their format is the format of the results
	formats     []int16                   // of the fields
}

// maxPrepared limits the prepared statements of a session: the session deallocates some before it prepares more.
const maxPrepared = 200

// sendPipelined sends the transactions in one round trip. Each transaction ends with a Sync, so that it fails alone.
func (d *DB) sendPipelined(ctx context.Context, conn *pgx.Conn, s *session, all []*pipelined) {
	types := conn.TypeMap()
	s.trim(ctx, conn)
	for _, t := range all {
		t.prepare(ctx, conn, s)
	}
	pipeline := conn.PgConn().StartPipeline(ctx)
	for _, t := range all {
		t.send(pipeline, types, s)
		if d.roundTrip != nil {
			d.roundTrip(t.statements())
		}
	}
	err := pipeline.Flush()
	stale := false
	for _, t := range all {
		if err == nil {
			t.receive(pipeline, types)
		} else {
			t.fail(err)
		}
		stale = stale || isStale(t.err)
	}
	pipeline.Close()
	if stale {
		conn.Close(ctx) // with its prepared statements
	}
}

// fail records the first error.
func (t *pipelined) fail(err error) { t.err = cmp.Or(t.err, err) }

// prepare prepares the statements that the session has not prepared yet. Each statement takes a round trip, once.
func (t *pipelined) prepare(ctx context.Context, conn *pgx.Conn, s *session) {
	t.slots = make([]slot, 0, len(t.begin)+len(t.stmts))
	add := func(stmt *Stmt, sql string, args []any) {
		known := s.statements[sql]
		if known == nil && t.err == nil {
			known, t.err = s.prepare(ctx, conn, sql)
		}
		t.slots = append(t.slots, slot{known, args, stmt})
	}
	for _, b := range t.begin {
		add(nil, b.SQL, b.Args)
	}
	for _, stmt := range t.stmts {
		add(stmt, stmt.sql, stmt.args)
	}
}

// send sends the transaction, or nothing if a statement cannot be prepared or its arguments cannot be encoded.
func (t *pipelined) send(pipeline *pgconn.Pipeline, types *pgtype.Map, s *session) {
	for len(s.queries) < len(t.slots) {
		s.queries = append(s.queries, pgx.ExtendedQueryBuilder{})
	}
	for i := 0; i < len(t.slots) && t.err == nil; i++ {
		t.err = s.queries[i].Build(types, t.slots[i].description, t.slots[i].args)
	}
	if t.err != nil {
		return
	}
	for i, slot := range t.slots {
		pipeline.SendQueryStatement(slot.description, s.queries[i].ParamValues, s.queries[i].ParamFormats, slot.formats)
	}
	pipeline.SendPipelineSync()
	t.sent = true
}

// receive reads the results of a transaction that was sent.
func (t *pipelined) receive(pipeline *pgconn.Pipeline, types *pgtype.Map) {
	for n := 0; t.sent; n++ {
		results, err := pipeline.GetResults()
		switch r := results.(type) {
		case *pgconn.PipelineSync:
			return
		case *pgconn.ResultReader:
			if stmt := t.slots[n].stmt; stmt == nil {
				_, err = r.Close()
			} else {
				rows := quickRows{pgx.RowsFromResultReader(types, r), types, t.slots[n].fields}
				err = stmt.read(rows)
				rows.Close()
			}
		default:
			err = cmp.Or(err, io.ErrUnexpectedEOF) // io.ErrUnexpectedEOF if the connection ended
			if _, ok := errors.AsType[*pgconn.PgError](err); !ok {
				t.fail(err)
				return
			}
		}
		t.fail(err)
	}
}

// statements returns the statements for the RoundTrip hook.
func (t *pipelined) statements() []Statement {
	all := slices.Clone(t.begin)
	for _, s := range t.stmts {
		all = append(all, Statement{s.sql, s.args})
	}
	return all
}

// quickRows replaces the fields of rows from a pipeline with the fields of the prepared statement. After a failed
// statement, the fields from the pipeline are wrong: pgx keeps the fields of the statements that PostgreSQL skips, and
// uses them for later statements.
type quickRows struct {
	pgx.Rows
	types  *pgtype.Map
	fields []pgconn.FieldDescription
}

func (r quickRows) FieldDescriptions() []pgconn.FieldDescription { return r.fields }

func (r quickRows) Scan(dest ...any) error {
	return pgx.ScanRow(r.types, r.fields, r.RawValues(), dest...)
}

// trim deallocates statements if the session has too many. It must not be called between prepare and the use of a
// statement.
func (s *session) trim(ctx context.Context, conn *pgx.Conn) {
	for sql, old := range s.statements {
		if len(s.statements) < maxPrepared {
			return
		}
		delete(s.statements, sql)
		if conn.PgConn().Deallocate(ctx, old.description.Name) != nil {
			return // the connection is broken; the pipeline reports the error
		}
	}
}

// prepare prepares a statement on the session's connection.
func (s *session) prepare(ctx context.Context, conn *pgx.Conn, sql string) (*preparedStatement, error) {
	s.count++
	description, err := conn.PgConn().Prepare(ctx, "quick_"+strconv.Itoa(s.count), sql, nil)
	if err != nil {
		return nil, err
	}
	p := &preparedStatement{description: description}
	for _, f := range description.Fields {
		f.Format = conn.TypeMap().FormatCodeForOID(f.DataTypeOID)
		p.fields, p.formats = append(p.fields, f), append(p.formats, f.Format)
	}
	s.statements[sql] = p
	return p, nil
}
