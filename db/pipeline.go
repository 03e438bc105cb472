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

// pipelined is a transaction that a prepared session sends in a pipeline: the statements that bind it to an actor, and
// then those of one or several requests of this actor. If a statement fails, PostgreSQL skips those after it, and
// rolls the transaction back.
type pipelined struct {
	begin    []Statement
	requests [][]*Stmt

	slots  []slot
	sent   bool // whether PostgreSQL may have run it
	err    error
	failed int // the number of the request with the error, or -1 if it is of the whole transaction
}

// slot is a statement of a pipelined transaction.
type slot struct {
	*preparedStatement
	args    []any
	stmt    *Stmt // nil in begin
	request int   // -1 in begin
}

// preparedStatement is a statement that a session has prepared.
type preparedStatement struct {
	description *pgconn.StatementDescription
	fields      []pgconn.FieldDescription // with the format of the results
	formats     []int16                   // of the fields
}

// maxPrepared is the number of prepared statements from which a session forgets some before it prepares others.
const maxPrepared = 200

// sendPipelined sends the transactions in one round trip. Each ends with a Sync, so that it fails on its own.
func (d *DB) sendPipelined(ctx context.Context, conn *pgx.Conn, s *session, all ...*pipelined) {
	types := conn.TypeMap()
	s.trim(ctx, conn)
	if s.outdated(d.planAge) { // within a transaction, so that a failure of this is one of that
		all[0].begin = slices.Insert(all[0].begin, 0, Statement{SQL: discardSQL})
	}
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
			t.fail(-1, err)
		}
		stale = stale || isStale(t.err)
	}
	pipeline.Close()
	if stale {
		conn.Close(ctx) // with its prepared statements
	}
}

// fail records the first error.
func (t *pipelined) fail(request int, err error) {
	if t.err == nil {
		t.err, t.failed = err, request
	}
}

// prepare prepares the statements that the session has not prepared yet. Each takes a round trip, once.
func (t *pipelined) prepare(ctx context.Context, conn *pgx.Conn, s *session) {
	t.slots = make([]slot, 0, len(t.begin)+2*len(t.requests))
	add := func(request int, stmt *Stmt, sql string, args []any) {
		known := s.statements[sql]
		if known == nil && t.err == nil {
			var err error
			if known, err = s.prepare(ctx, conn, sql); err != nil {
				t.fail(request, err)
			}
		}
		t.slots = append(t.slots, slot{known, args, stmt, request})
	}
	for _, b := range t.begin {
		add(-1, nil, b.SQL, b.Args)
	}
	for n, stmts := range t.requests {
		for _, stmt := range stmts {
			add(n, stmt, stmt.sql, stmt.args)
		}
	}
}

// send sends the transaction, or nothing if a statement cannot be prepared or its arguments cannot be encoded.
func (t *pipelined) send(pipeline *pgconn.Pipeline, types *pgtype.Map, s *session) {
	for len(s.queries) < len(t.slots) {
		s.queries = append(s.queries, pgx.ExtendedQueryBuilder{})
	}
	for i := 0; i < len(t.slots) && t.err == nil; i++ {
		if err := s.queries[i].Build(types, t.slots[i].description, t.slots[i].args); err != nil {
			t.fail(t.slots[i].request, err)
		}
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
		request := -1
		if n < len(t.slots) {
			request = t.slots[n].request
		}
		results, err := pipeline.GetResults()
		switch r := results.(type) {
		case *pgconn.PipelineSync:
			return
		case *pgconn.ResultReader:
			if request < 0 {
				_, err = r.Close()
			} else {
				rows := quickRows{pgx.RowsFromResultReader(types, r), types, t.slots[n].fields}
				err = t.slots[n].stmt.read(rows)
				rows.Close()
			}
		default:
			err = cmp.Or(err, io.ErrUnexpectedEOF) // the latter if the connection ended
			if _, ok := errors.AsType[*pgconn.PgError](err); !ok {
				t.fail(-1, err)
				return
			}
		}
		if err != nil {
			t.fail(request, err)
		}
	}
}

// statements returns the statements for the RoundTrip hook.
func (t *pipelined) statements() []Statement {
	all := slices.DeleteFunc(slices.Clone(t.begin), func(s Statement) bool {
		return s.SQL == discardSQL // depends on the time
	})
	for _, stmts := range t.requests {
		for _, s := range stmts {
			all = append(all, Statement{s.sql, s.args})
		}
	}
	return all
}

// quickRows are rows with the fields of the statement that was prepared. Those that the pipeline gives them are wrong
// after a statement that failed: pgx keeps the fields of the statements that PostgreSQL then skips, and takes them for
// those of later ones.
type quickRows struct {
	pgx.Rows
	types  *pgtype.Map
	fields []pgconn.FieldDescription
}

func (r quickRows) FieldDescriptions() []pgconn.FieldDescription { return r.fields }

func (r quickRows) Scan(dest ...any) error {
	return pgx.ScanRow(r.types, r.fields, r.RawValues(), dest...)
}

// trim forgets statements if the session has many. It must not be called between prepare and the use of a statement.
func (s *session) trim(ctx context.Context, conn *pgx.Conn) {
	for sql, old := range s.statements {
		if len(s.statements) < maxPrepared {
			return
		}
		delete(s.statements, sql)
		if conn.PgConn().Deallocate(ctx, old.description.Name) != nil {
			return // the connection is broken, as the pipeline will find out
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
