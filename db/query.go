package db

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"spoolwright/db/fair"
)

const appRole = "spoolwright_app"

// Actor is the tenant and the user or API key on whose behalf statements run. Every transaction is bound to Tenant. If
// User is not empty, the same round trip checks that the user exists, is enabled, has Role, and does not lack the
// second factor that the tenant requires. If APIKey is not empty, it checks that the key exists and has a secret with
// KeyHash, and that the key and the secret are valid.
type Actor struct {
	Tenant, User, Role string
	APIKey             string // the id of an API key; User is then empty
	KeyHash            string // the SHA-256 of the key's secret, as 32 bytes
	Session            string // the id of the user's session, or ""; statements do not check it

	// SettingUp permits a user who lacks the second factor that the tenant requires: to set it up, or because the provider
	// with which the user signed on has confirmed one.
	SettingUp bool
}

// ID returns the id of the user or API key, or "" if the actor is only a tenant.
func (a Actor) ID() string { return cmp.Or(a.User, a.APIKey) }

type actorKey struct{}

// As returns a context whose reads and writes are bound to the actor.
func As(ctx context.Context, a Actor) context.Context { return context.WithValue(ctx, actorKey{}, a) }

// ActorOf returns the context's actor, or the zero Actor.
func ActorOf(ctx context.Context) Actor {
	a, _ := ctx.Value(actorKey{}).(Actor)
	return a
}

// Stmt is a SQL statement and, after it has run, its result.
type Stmt struct {
	sql  string
	args []any
	into []any
	head string // precedes the array in json
	json []byte // the rows, as a JSON array
	rows int
	one  int // the end of the first row in json

	expect    int
	keep      int    // the maximum number of rows to keep; 0 means all
	by        string // the column of the rows' order
	keepBytes int    // the size of the JSON after which no further row is kept; 0 means all
	next      *Position
	lock      bool // whether the statement is a Lock
	sparse    bool // see Sparse
	bare      bool // see Bare
	quick     bool
	total     *int64
}

// SQL returns a statement that keeps its rows as JSON.
func SQL(sql string, args ...any) *Stmt { return &Stmt{sql: sql, args: args} }

// Recordset returns rows as an argument for json_to_recordset. The values of rows must be strings, numbers, bools,
// nil, or structs of these. Recordset adds the number of each row, counted from 0, as n. Without rows, it returns an
// empty list, because json_to_recordset rejects null.
func Recordset(rows []map[string]any) string {
	if len(rows) == 0 {
		return "[]"
	}
	for i, row := range rows {
		row["n"] = i
	}
	text, err := json.Marshal(rows)
	if err != nil {
		panic(err) // not for such values
	}
	return string(text)
}

// Quick marks a statement that reads few rows by an index, whatever the size of the tenant. Under load, a Read whose
// statements are all Quick can share its round trip with other reads.
func (s *Stmt) Quick() *Stmt { s.quick = true; return s }

// Sparse omits null columns from the JSON of the rows. A column whose name has a dot, such as vendor.name, becomes a
// member of a nested object. The columns of an object must follow each other, and one of them must not be null.
func (s *Stmt) Sparse() *Stmt { s.sparse = true; return s }

// Bare makes the last column of each row, a JSON text, the row's JSON.
func (s *Stmt) Bare() *Stmt { s.bare = true; return s }

// Into makes the statement scan its first row into dest instead of keeping JSON.
func (s *Stmt) Into(dest ...any) *Stmt { s.into = dest; return s }

// Expect sets the expected number of rows, so that the memory for their JSON is allocated at once.
func (s *Stmt) Expect(rows int) *Stmt { s.expect = rows; return s }

// Head makes Array begin with the text, and leave capacity for a short text after the array, so that a response that
// contains the array needs no copy of it.
func (s *Stmt) Head(text string) *Stmt { s.head = text; return s }

// Total makes the statement store the first column of its rows in dest and omit the column from the JSON. The column
// must be a bigint with the same value in all rows. A row whose second column is null does not count as a row: the
// statement returns such a row to report the total when it selects nothing.
func (s *Stmt) Total(dest *int64) *Stmt { s.total = dest; return s }

// Position is the position of a row in an order by a column and then by id. Value is the text of the column as in
// JSON.
type Position struct{ Value, ID string }

// Keep makes the statement keep at most n rows. The rows must be in the order of the column by, and then of id.
// Afterwards, Next reports whether there are more rows.
func (s *Stmt) Keep(n int, by string) *Stmt { s.keep, s.by = n, by; return s }

// KeepBytes makes a statement with Keep stop keeping rows when their JSON has n bytes.
func (s *Stmt) KeepBytes(n int) *Stmt { s.keepBytes = n; return s }

// Next returns the position of the last row that was kept, if the statement returned more rows than Keep or KeepBytes
// allows, and nil otherwise. The rows must have the column id and the column of the order, which must not be null.
func (s *Stmt) Next() *Position { return s.next }

// Rows returns the number of rows that the statement returned or, with Keep, kept.
func (s *Stmt) Rows() int { return s.rows }

// Object returns the first row as a JSON object. The statement must have returned a row, and have no Head.
func (s *Stmt) Object() []byte { return s.json[1:s.one:s.one] }

// Array returns all rows as a JSON array.
func (s *Stmt) Array() []byte {
	switch {
	case s.rows == 0:
		return []byte(s.head + "[]")
	case s.head == "":
		return slices.Clip(s.json)
	}
	return s.json
}

const (
	rowSize  = 1 << 10 // the initial capacity for the JSON of a row; most rows have fewer bytes
	tailSize = 300     // the capacity for a text after the rows
)

func (s *Stmt) read(rows pgx.Rows) error {
	s.rows, s.one, s.json, s.next = 0, 0, nil, nil // of an earlier run
	var columns []pgconn.FieldDescription
	var last Position // if full
	full := false
	for rows.Next() {
		values := rows.RawValues()
		if s.total != nil {
			total, err := appendValue(nil, rows.FieldDescriptions()[0], values[0])
			if err == nil {
				*s.total, err = strconv.ParseInt(string(total), 10, 64)
			}
			if err != nil {
				return fmt.Errorf("total: %w", err)
			}
			if values = values[1:]; values[0] == nil {
				continue
			}
		}
		if full {
			s.next = &last
			continue
		}
		s.rows++
		if s.into != nil {
			if s.rows == 1 {
				if err := rows.Scan(s.into...); err != nil {
					return err
				}
			}
			continue
		}
		if columns == nil {
			columns = rows.FieldDescriptions()
			columns = columns[len(columns)-len(values):]
			s.json = append(slices.Grow(s.json, rowSize), s.head...)
			s.json = append(s.json, '[')
		} else {
			if s.rows == 2 {
				// Estimate the size of the other rows from the first one.
				row := s.one - len(s.head)
				s.json = slices.Grow(s.json, max(0, min((s.expect-1)*(row+row/8)+tailSize, 1<<20)))
			}
			s.json = append(s.json, ',')
		}
		var err error
		switch {
		case s.bare:
			s.json = append(s.json, values[len(values)-1]...)
		case s.sparse:
			s.json, err = appendSparse(s.json, columns, values)
		default:
			s.json, err = appendRow(s.json, columns, values)
		}
		if err != nil {
			return err
		}
		if s.rows == 1 {
			s.one = len(s.json)
		}
		if full = s.rows == s.keep || s.keepBytes > 0 && len(s.json) >= s.keepBytes; full {
			if last, err = positionOf(columns, values, s.by); err != nil {
				return err
			}
		}
	}
	if s.json != nil && s.rows > 0 {
		s.json = append(s.json, ']')
	}
	return rows.Err()
}

// positionOf returns the position of a row in an order by the column named by and then by id.
func positionOf(columns []pgconn.FieldDescription, values [][]byte, by string) (p Position, err error) {
	for i, column := range columns {
		if column.Name != by && column.Name != "id" || values[i] == nil {
			continue
		}
		text, err := appendValue(nil, column, values[i])
		if err != nil {
			return p, err
		}
		value := strings.Trim(string(text), `"`)
		if column.Name == by {
			p.Value = value
		}
		if column.Name == "id" {
			p.ID = value
		}
	}
	if p.Value == "" || p.ID == "" {
		return p, errors.New("db: a row without id or " + by + " has no position")
	}
	return p, nil
}

// Lock returns a statement that acquires the tenant's lock with the name until the transaction ends. At most two
// transactions of a tenant that use a Lock hold a connection; others wait without a connection.
func Lock(name string) *Stmt {
	return &Stmt{lock: true, sql: `select pg_advisory_xact_lock(` + lockKey(name) + `)::text`}
}

func lockKey(name string) string {
	return `hashtextextended('` + name + ` ' || current_setting('app.tenant_id'), 0)`
}

func isLock(s *Stmt) bool { return s.lock }

// Read runs the statements in one round trip, as one transaction that is bound to the context's actor. It retries
// after a broken connection and after transient failures. The error may wrap ErrUnavailable, ErrRevoked, ErrSetUp,
// ErrKeyRevoked or ErrOutOfRange.
func (d *DB) Read(ctx context.Context, stmts ...*Stmt) error {
	return d.send(ctx, true, stmts)
}

// CheckActor checks that the context's actor still exists, is enabled, and has its role. Otherwise it returns
// ErrRevoked, ErrSetUp or ErrKeyRevoked.
func (d *DB) CheckActor(ctx context.Context) error { return d.Read(ctx) }

// Write is like Read for statements that change data: either all of them take effect or none. It retries transient
// failures, but not a broken connection: the transaction may have been committed, and the error is ErrUnavailable.
func (d *DB) Write(ctx context.Context, stmts ...*Stmt) error {
	return d.send(ctx, false, stmts)
}

// Later writes the statements after Later has returned, so that the time of a response does not depend on them. It
// logs an error. Close waits for them.
func (d *DB) Later(ctx context.Context, stmts ...*Stmt) {
	d.later.Go(func() {
		if err := d.Write(context.WithoutCancel(ctx), stmts...); err != nil {
			d.log.Warn("cannot write what follows a response", "error", err)
		}
	})
}

// WriteLocal is like Write, but the commit does not wait for a synchronous standby, so that a failover can lose the
// transaction. It takes a connection for reads, because writes that wait for the standby can hold all others. It is
// for reads that leave a record. In a transaction, it is Write.
func (d *DB) WriteLocal(ctx context.Context, stmts ...*Stmt) error {
	if _, ok := ctx.Value(txKey{}).(*transaction); ok {
		return d.Write(ctx, stmts...)
	}
	local := SQL(`select set_config('synchronous_commit', 'local', true)`)
	stmts = append([]*Stmt{local}, stmts...)
	client := ctx
	ctx, cancel := d.detach(ctx)
	defer cancel()
	return d.retry(ctx, false, func() error { return d.sendOnce(ctx, client, fair.Read, false, stmts) })
}

func (d *DB) send(ctx context.Context, readOnly bool, stmts []*Stmt) error {
	if tx, ok := ctx.Value(txKey{}).(*transaction); ok {
		return tx.send(stmts, false)
	}
	if readOnly && d.shareable(stmts) {
		return d.readQuick(ctx, stmts)
	}
	class := fair.Write
	switch {
	case readOnly:
		class = fair.Read
	case slices.ContainsFunc(stmts, isLock):
		class = fair.Serialized
	}
	client := ctx
	ctx, cancel := d.detach(ctx)
	defer cancel()
	return d.retry(ctx, readOnly, func() error { return d.sendOnce(ctx, client, class, readOnly, stmts) })
}

// sendOnce sends the statements once. It first waits until the tenant may use a connection for the class.
func (d *DB) sendOnce(
	ctx, client context.Context, c fair.Class, readOnly bool, stmts []*Stmt,
) (err error) {
	share, err := d.shares.Acquire(ctx, client, ActorOf(ctx).Tenant, c)
	if err != nil {
		return err
	}
	defer share.Release()
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { release(ctx, conn, err) }()
	return d.sendOn(ctx, conn, readOnly, stmts)
}

// sendOn sends the statements on a connection.
func (d *DB) sendOn(ctx context.Context, conn *pgxpool.Conn, readOnly bool, stmts []*Stmt) error {
	var b pgx.Batch
	if err := d.queue(ctx, &b, stmts, conn.Conn()); err != nil {
		return err
	}
	if readOnly {
		return conn.SendBatch(ctx, &b).Close()
	}
	beginWrite(conn)
	return d.endWrite(conn, conn.SendBatch(ctx, &b).Close())
}

// detach returns a context for statements. The context ends at the deadline, but not when the client disconnects:
// cancelling a statement would break a connection or leave the outcome of a write unknown, and statements are short.
func (d *DB) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d.deadline)
}

var errNoTenant = errors.New("db: the context has no tenant")

// queue adds the statements to b. If bind is not nil, the transaction begins with b on the connection bind, and queue
// first adds the statements that bind the transaction to the context's actor.
func (d *DB) queue(ctx context.Context, b *pgx.Batch, stmts []*Stmt, bind *pgx.Conn) error {
	if bind != nil {
		a := ActorOf(ctx)
		if a.Tenant == "" {
			return errNoTenant
		}
		d.queueBind(b, bind, a, originOf(ctx))
	}
	for _, s := range stmts {
		b.Queue(s.sql, s.args...).Query(s.read)
	}
	if d.roundTrip != nil {
		var all []Statement
		for _, q := range b.QueuedQueries {
			all = append(all, Statement{q.SQL, q.Arguments})
		}
		d.roundTrip(all)
	}
	return nil
}

// retry calls attempt up to ten times, with random pauses. It retries transient failures (deadlock, serialization),
// statements that never reached PostgreSQL, and, if repeatable is set, any broken connection. It retries once if
// PostgreSQL is read-only, because a new connection may lead to the new primary.
func (d *DB) retry(ctx context.Context, repeatable bool, attempt func() error) error {
	for n := 0; ; n++ {
		err := attempt()
		if err == nil {
			return nil
		}
		broken := isBroken(err)
		unknown := broken || errors.Is(err, errUnreplicated)
		again := isTransient(err) || broken && neverSent(err) || unknown && repeatable
		if broken {
			// After a restart of PostgreSQL, all idle connections are broken. Close them, so that other requests do
			// not fail first.
			d.pool.Reset()
		}
		if isUnprepared(err) {
			d.log.Warn("a database session lost its settings: each transaction sets them from now on")
			d.unprepared.Store(true)
			again = true
		}
		if isReadOnly(err) {
			d.reconnect()
			again = again || n == 0
		}
		if pg := internalError(err); pg != nil {
			d.log.Warn("PostgreSQL rolled back after an internal error", "error", err, "where", pg.Where, "try", n+1)
		}
		if isDiskFailure(err) {
			d.diskFailed.Store(time.Now().UnixNano())
		}
		if !again || n == 9 {
			return classify(err)
		}
		pause := time.NewTimer(time.Duration(rand.Int64N(int64(5*time.Millisecond) << min(n, 6))))
		select {
		case <-ctx.Done():
			pause.Stop()
			return classify(err)
		case <-pause.C:
		}
	}
}

type txKey struct{}

// transaction is an explicit transaction. BEGIN and the binding to the actor are sent with its first statements, in
// the same round trip.
type transaction struct {
	d     *DB
	ctx   context.Context
	conn  *pgxpool.Conn
	tx    pgx.Tx
	share fair.Share
	busy  bool // see errBusy
	ended bool // whether the transaction is committed
}

// errBusy rolls back a transaction that needs a Lock while the tenant has maxSerialized connections for such
// transactions. The transaction runs again as a serialized transaction, which waits without a connection.
var errBusy = fmt.Errorf("%w: too many transactions of the tenant wait for a lock", ErrUnavailable)

// send sends the statements. If last is set, it commits in the same round trip.
func (t *transaction) send(stmts []*Stmt, last bool) error {
	if slices.ContainsFunc(stmts, isLock) && !t.share.Serialize() {
		t.busy = true
		return errBusy
	}
	if last {
		stmts = append(slices.Clip(stmts), SQL("commit"))
	}
	var b pgx.Batch
	first := t.tx == nil
	var bind *pgx.Conn
	if first {
		b.BeginTx(pgx.TxOptions{})
		bind = t.conn.Conn()
	}
	if err := t.d.queue(t.ctx, &b, stmts, bind); err != nil {
		return err
	}
	results := t.conn.SendBatch(t.ctx, &b)
	if first {
		t.tx = results.Tx()
	}
	err := results.Close()
	if last {
		t.ended = t.conn.Conn().PgConn().TxStatus() == 'I'
		err = t.d.endWrite(t.conn, err)
	}
	if err != nil {
		return classify(err)
	}
	return nil
}

// Decide runs reads, calls decide, runs the statements that decide returns, and commits: one transaction in two round
// trips. If decide returns an error, Decide rolls the transaction back and returns that error. Decide may call decide
// several times, as Tx calls fn. Within a Tx, the statements are part of the transaction of the Tx.
func (d *DB) Decide(ctx context.Context, reads []*Stmt, decide func() ([]*Stmt, error)) error {
	_, within := ctx.Value(txKey{}).(*transaction)
	return d.Tx(ctx, func(ctx context.Context) error {
		if err := d.Write(ctx, reads...); err != nil {
			return err
		}
		writes, err := decide()
		if err != nil {
			return err
		}
		return ctx.Value(txKey{}).(*transaction).send(writes, !within)
	})
}

// Tx runs fn in one transaction: all reads and writes with the context that fn receives are part of it. If fn returns
// an error, the transaction is rolled back. Tx may call fn several times to retry transient failures, so fn must not
// have effects outside of the transaction. Within another Tx, fn is part of the outer transaction.
func (d *DB) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	return d.transact(ctx, false, fn)
}

var errDryRun = errors.New("dry run")

// DryRun runs fn in a transaction as Tx does, and then rolls the transaction back. It returns the error of fn. It must
// not run within another transaction.
func (d *DB) DryRun(ctx context.Context, fn func(ctx context.Context) error) error {
	err := d.Tx(ctx, func(ctx context.Context) error {
		if err := fn(ctx); err != nil {
			return err
		}
		return errDryRun
	})
	if errors.Is(err, errDryRun) {
		return nil
	}
	return err
}

// InTx reports whether ctx is the context that Tx passes to its function.
func InTx(ctx context.Context) bool {
	_, ok := ctx.Value(txKey{}).(*transaction)
	return ok
}

// TxRepeatable is like Tx, but also retries when the connection breaks, even during COMMIT. The function fn must
// itself detect whether an earlier attempt was committed.
func (d *DB) TxRepeatable(ctx context.Context, fn func(ctx context.Context) error) error {
	return d.transact(ctx, true, fn)
}

func (d *DB) transact(ctx context.Context, repeatable bool, fn func(ctx context.Context) error) error {
	if _, ok := ctx.Value(txKey{}).(*transaction); ok {
		return fn(ctx)
	}
	client := ctx
	ctx, cancel := d.detach(ctx)
	defer cancel()
	class := fair.Write
	return d.retry(ctx, repeatable, func() error {
		busy, err := d.tryTx(ctx, client, class, fn)
		if busy {
			class = fair.Serialized
			_, err = d.tryTx(ctx, client, class, fn)
		}
		return err
	})
}

// tryTx runs a transaction once. If busy is set, the transaction was rolled back with errBusy.
func (d *DB) tryTx(ctx, client context.Context, c fair.Class, fn func(ctx context.Context) error,
) (busy bool, err error) {
	share, err := d.shares.Acquire(ctx, client, ActorOf(ctx).Tenant, c)
	if err != nil {
		return false, err
	}
	t := &transaction{d: d, share: share}
	defer func() { t.share.Release() }()
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer func() { release(ctx, conn, err) }()
	beginWrite(conn)
	t.conn = conn
	t.ctx = context.WithValue(ctx, txKey{}, t)
	if err = fn(t.ctx); err == nil && t.busy {
		err = errBusy
	}
	if err != nil {
		if t.tx != nil && !t.ended {
			t.tx.Rollback(ctx)
		}
		return t.busy, err
	}
	if t.tx == nil || t.ended {
		return false, nil
	}
	if d.roundTrip != nil {
		d.roundTrip([]Statement{{SQL: "commit"}})
	}
	return false, d.endWrite(conn, t.tx.Commit(ctx))
}
