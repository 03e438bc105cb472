package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"spoolwright/db/fair"
)

// maxShared is the maximum number of quick reads in one round trip. Each of them delays the responses to the others by
// its own time in PostgreSQL.
const maxShared = 8

// maxPrepared is the number of statements prepared for quick reads from which a connection forgets some before it
// prepares others.
const maxPrepared = 200

// quickRead is a Read whose statements are all Quick. While the connections for quick reads are busy (see package
// fair), others wait. The one that gets a connection sends the statements of others too: all of them in one pipeline,
// where each read ends with a Sync. So each is its own transaction, bound to its own actor, and fails on its own. This
// saves switches between processes, which cost as much as the statements. Of equal reads of one actor, which all wait
// already, only one is sent, and all get its result: clients that poll the same page then cost PostgreSQL as much as
// one.
type quickRead struct {
	actor Actor
	gate  gate
	stmts []*Stmt

	others []*quickRead // which this one must send too
	copies []*quickRead // which get the result of this one

	sent chan struct{} // see Sent; nil before the request waits

	prepared []quickStatement // those of begin, and stmts
	err      error
}

// Sent implements fair.QuickRead.
func (q *quickRead) Sent() <-chan struct{} {
	q.sent = make(chan struct{})
	return q.sent
}

// Take implements fair.QuickRead.
func (q *quickRead) Take(waiting fair.QuickRead) bool {
	other := waiting.(*quickRead)
	switch same := q.find(other); {
	case same != nil:
		same.copies = append(same.copies, other)
	case len(q.others) < maxShared-1:
		q.others = append(q.others, other)
	default:
		return false
	}
	return true
}

// find returns the read equal to other among those that q sends, or nil.
func (q *quickRead) find(other *quickRead) *quickRead {
	if q.equal(other) {
		return q
	}
	for _, o := range q.others {
		if o.equal(other) {
			return o
		}
	}
	return nil
}

// equal reports whether the reads have the same actor and the same statements.
func (q *quickRead) equal(other *quickRead) bool {
	return q.actor == other.actor && q.gate == other.gate && slices.EqualFunc(q.stmts, other.stmts, (*Stmt).equal)
}

// finish tells the request, and those of the copies, that its read has ended.
func (q *quickRead) finish(err error) {
	q.err = err
	for _, c := range q.copies {
		if err == nil {
			for i, s := range c.stmts {
				s.copyResult(q.stmts[i])
			}
		}
		c.finish(err)
	}
	if q.sent != nil {
		close(q.sent)
	}
}

// shareable reports whether a Read of the statements can share a round trip. This requires prepared statements.
func (d *DB) shareable(stmts []*Stmt) bool {
	if !d.named || d.unprepared.Load() {
		return false
	}
	for _, s := range stmts {
		if !s.quick {
			return false
		}
	}
	return true
}

// readQuick is sendOne for quick reads.
func (d *DB) readQuick(ctx context.Context, g gate, stmts []*Stmt) error {
	client := ctx
	ctx, cancel := detach(ctx)
	defer cancel()
	return d.retry(ctx, true, func() error {
		ctx := ctx
		q := &quickRead{actor: ActorOf(ctx), gate: g, stmts: stmts}
		if q.actor.Tenant == "" {
			return errNoTenant
		}
		share, sent, err := d.shares.AcquireQuick(ctx, client, q.actor.Tenant, q)
		switch {
		case err != nil:
			return err
		case sent:
			return q.err
		}
		defer share.Release()
		if len(q.others)+len(q.copies) > 0 { // which may have more time left than this one
			var cancel context.CancelFunc
			ctx, cancel = detach(ctx)
			defer cancel()
		}
		conn, err := d.pool.Acquire(ctx)
		if err != nil {
			for _, read := range append(q.others, q) {
				read.finish(err)
			}
			return err
		}
		defer conn.Release()
		d.sendQuick(ctx, conn, append(q.others, q))
		return q.err
	})
}

// errAbandoned is the error of reads that wait for a request that panics.
var errAbandoned = fmt.Errorf("%w: the request that sent the read failed", ErrUnavailable)

// sendQuick sends the reads in one pipeline and finishes all of them.
func (d *DB) sendQuick(ctx context.Context, conn *pgxpool.Conn, reads []*quickRead) {
	finished := 0
	finish := func(q *quickRead, err error) {
		finished++
		q.finish(err)
	}
	defer func() { // nothing is left, except after a panic
		for _, q := range reads[finished:] {
			q.finish(errAbandoned)
		}
	}()
	session := d.sessionOf(conn.Conn())
	if session == nil { // it has lost its settings since the reads were combined
		for _, q := range reads {
			var b pgx.Batch
			err := d.queue(As(ctx, q.actor), &b, q.stmts, conn.Conn(), q.gate, false)
			if err == nil {
				err = conn.SendBatch(ctx, &b).Close()
			}
			finish(q, err)
		}
		return
	}
	pg, types := conn.Conn().PgConn(), conn.Conn().TypeMap()
	session.trim(ctx, conn.Conn())
	for _, q := range reads {
		q.prepare(ctx, conn.Conn(), session)
	}
	pipeline := pg.StartPipeline(ctx)
	discards := session.outdated(d.planAge)
	if discards {
		pipeline.SendQueryParams(discardSQL, nil, nil, nil, nil)
		pipeline.SendPipelineSync()
	}
	query := &session.query
	for _, q := range reads {
		for i := range q.prepared {
			if q.err != nil {
				break
			}
			p := &q.prepared[i]
			if q.err = query.Build(types, p.description, p.args); q.err == nil {
				pipeline.SendQueryStatement(p.description, query.ParamValues, query.ParamFormats, p.formats)
			}
		}
		pipeline.SendPipelineSync()
		if d.roundTrip != nil {
			d.roundTrip(q.statements())
		}
	}
	err := pipeline.Flush()
	if discards && err == nil {
		err = (&quickRead{gate: ungated}).receive(pipeline, types)
	}
	stale := false
	for _, q := range reads {
		if err == nil {
			q.err = cmp.Or(q.receive(pipeline, types), q.err)
		}
		stale = stale || isStale(q.err)
		finish(q, cmp.Or(err, q.err))
	}
	pipeline.Close()
	if stale {
		conn.Conn().Close(ctx) // with its prepared statements
	}
}

// prepare prepares the statements of the read that the session has not prepared yet. Each takes a round trip, once.
func (q *quickRead) prepare(ctx context.Context, conn *pgx.Conn, s *session) {
	q.prepared = make([]quickStatement, 0, 1+len(q.stmts))
	add := func(sql string, args []any) {
		known := s.statements[sql]
		if known == nil && q.err == nil {
			known, q.err = s.prepare(ctx, conn, sql)
		}
		if q.err == nil {
			q.prepared = append(q.prepared, quickStatement{known, args})
		}
	}
	for _, stmt := range q.begin() {
		add(stmt.SQL, stmt.Args)
	}
	for _, stmt := range q.stmts {
		add(stmt.sql, stmt.args)
	}
}

// begin returns the statements that begin the transaction.
func (q *quickRead) begin() []Statement {
	return append([]Statement{bindOf(q.actor, true)}, q.gate.statements(q.actor.Tenant, false)...)
}

// receive reads the results of the read's statements.
func (q *quickRead) receive(pipeline *pgconn.Pipeline, types *pgtype.Map) (err error) {
	n := -1 // the statements of begin
	if q.gate != ungated {
		n--
	}
	for ; ; n++ {
		results, failure := pipeline.GetResults()
		switch r := results.(type) {
		case *pgconn.PipelineSync:
			return err
		case *pgconn.ResultReader:
			if n < 0 || n >= len(q.stmts) {
				_, failure = r.Close()
			} else {
				begun := len(q.prepared) - len(q.stmts)
				rows := quickRows{pgx.RowsFromResultReader(types, r), types, q.prepared[begun+n].fields}
				failure = q.stmts[n].read(rows)
				rows.Close()
			}
		default:
			if failure == nil { // the connection ended
				failure = io.ErrUnexpectedEOF
			}
			if _, ok := errors.AsType[*pgconn.PgError](failure); !ok {
				return failure
			}
		}
		err = cmp.Or(err, failure)
	}
}

// quickStatement is a statement that a session has prepared.
type quickStatement struct {
	*preparedStatement
	args []any
}

type preparedStatement struct {
	description *pgconn.StatementDescription
	fields      []pgconn.FieldDescription // with the format of the results
	formats     []int16                   // of the fields
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

// statements returns the statements for the RoundTrip hook.
func (q *quickRead) statements() []Statement {
	all := q.begin()
	for _, s := range q.stmts {
		all = append(all, Statement{s.sql, s.args})
	}
	return all
}
