package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"spoolwright/db/fair"
)

// maxMerged is the maximum number of writes in one transaction.
const maxMerged = 8

// mergedWrite is a Write whose statements are all Mergeable. While those of an actor use an eighth of the connections,
// its further ones wait. The next one that gets a connection sends others that still wait in its transaction, which
// together are bound to the actor once, and wait for the disk once. All of them are committed, or none. If PostgreSQL
// rolls the transaction back, for whatever reason, each of the writes is repeated on its own, so that it has its own
// outcome. The same happens to a single one that waits for a row for long: it does not keep others from continuing.
type mergedWrite struct {
	stmts []*Stmt
	row   string

	ready chan struct{} // closed when the write may continue, or was sent
	taken bool          // whether another write sends this one
	done  chan struct{} // closed when it has done so
	err   error
}

// lanes are the mergeable writes in progress. Transactions that merge writes lock several rows in no particular order.
// They cannot wait for each other because each row is locked by one of them only. Those of other instances of the
// service end such a wait after mergedLockTimeout.
type lanes struct {
	limit  int // of the transactions of one actor
	mu     sync.Mutex
	lanes  map[laneKey]*lane
	merged int64 // writes that another one has sent
}

type laneKey struct {
	actor Actor
	gate  gate
}

type lane struct {
	limit   int                     // of running
	running int                     // transactions
	rows    map[string]*mergedWrite // which a transaction changes: the write that sends it
	waiting []*mergedWrite
}

// mergedLockTimeout is a column of the statement that binds a merged transaction. It limits how long a row that another
// transaction has locked delays other writes of the actor.
const mergedLockTimeout = `, set_config('lock_timeout', '100ms', true)`

// errSeparate means that PostgreSQL rolled a merged transaction back, so that its writes must be repeated separately.
var errSeparate = fmt.Errorf("%w: the transaction of several writes was rolled back", ErrUnavailable)

// mergeable reports whether a Write of the statements can be merged with others. This requires prepared statements.
func (d *DB) mergeable(stmts []*Stmt) bool {
	return d.named && !d.unprepared.Load() && !slices.ContainsFunc(stmts, func(s *Stmt) bool { return !s.mergeable })
}

// writeMerged is sendOne for mergeable writes.
func (d *DB) writeMerged(ctx context.Context, g gate, stmts []*Stmt) error {
	client := ctx
	ctx, cancel := detach(ctx)
	defer cancel()
	first := true
	return d.retry(ctx, false, func() error {
		if !first {
			return d.sendOnce(ctx, client, g, fair.Write, stmts)
		}
		first = false
		w := &mergedWrite{stmts: stmts, row: stmts[0].row}
		key := laneKey{ActorOf(ctx), g}
		sent, err := d.lanes.enter(ctx, client, key, w)
		if err != nil || sent {
			return cmp.Or(err, w.err)
		}
		defer d.lanes.leave(key, w)
		return d.sendWaiting(ctx, client, key, w)
	})
}

// sendWaiting sends the write and, in the same transaction, those that wait when it has got a connection.
func (d *DB) sendWaiting(ctx, client context.Context, key laneKey, w *mergedWrite) (err error) {
	share, err := d.shares.Acquire(ctx, client, key.actor.Tenant, fair.Write)
	if err != nil {
		return err
	}
	defer share.Release()
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { release(ctx, conn, err) }()
	session := d.sessionOf(conn.Conn())
	if session == nil {
		return d.sendOn(ctx, conn, key.gate, false, w.stmts)
	}
	others := d.lanes.take(key, w)
	err = errAbandonedWrite // for the others, if this panics
	defer func() {
		for _, o := range others {
			o.err = err
			close(o.done)
		}
	}()
	bind := bindOf(key.actor, true)
	bind.SQL += mergedLockTimeout
	t := &pipelined{begin: append([]Statement{bind}, key.gate.statements(key.actor.Tenant, true)...)}
	if len(others) > 0 { // which may have more time left than this one
		var cancel context.CancelFunc
		ctx, cancel = detach(ctx)
		defer cancel()
	}
	for _, o := range append(others, w) {
		t.requests = append(t.requests, o.stmts)
	}
	beginWrite(conn)
	d.sendPipelined(ctx, conn.Conn(), session, t)
	err = d.endWrite(conn, t.err)
	if t.rolledBack() && (len(others) > 0 || isLockTimeout(err)) {
		err = errSeparate
	}
	return err
}

// errAbandonedWrite is the error of writes that wait for a request that panics.
var errAbandonedWrite = fmt.Errorf("%w: the request that sent the write failed", ErrOutcomeUnknown)

// isLockTimeout reports whether PostgreSQL cancelled a statement that waited for a lock.
func isLockTimeout(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "55P03"
}

// rolledBack reports whether the transaction certainly had no effect.
func (t *pipelined) rolledBack() bool {
	_, rejected := errors.AsType[*pgconn.PgError](t.err)
	return t.err != nil && (!t.sent || rejected && !isBroken(t.err))
}

// enter waits until the write may continue, or until another one has sent it. It returns the error of ctx, or of
// client, the context of the HTTP request, if that ends first.
func (l *lanes) enter(ctx, client context.Context, key laneKey, w *mergedWrite) (sent bool, err error) {
	w.ready, w.done = make(chan struct{}), make(chan struct{})
	l.mu.Lock()
	a := l.lanes[key]
	if a == nil {
		a = &lane{limit: l.limit, rows: map[string]*mergedWrite{}}
		l.lanes[key] = a
	}
	a.waiting = append(a.waiting, w)
	a.next()
	l.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
		err = ctx.Err()
	case <-client.Done():
		err = client.Err()
	}
	l.mu.Lock()
	taken, waiting := w.taken, slices.Index(a.waiting, w)
	if waiting >= 0 {
		a.waiting = slices.Delete(a.waiting, waiting, waiting+1)
	}
	l.mu.Unlock()
	switch {
	case taken:
		<-w.done
		return true, nil
	case waiting < 0: // it may continue, even if the context has ended meanwhile
		return false, nil
	}
	return false, err
}

// next lets those of the waiting writes continue that may.
func (a *lane) next() {
	for i := 0; i < len(a.waiting) && a.running < a.limit; {
		w := a.waiting[i]
		if a.rows[w.row] != nil {
			i++
			continue
		}
		a.waiting = slices.Delete(a.waiting, i, i+1)
		a.start(w, w)
		a.running++
		close(w.ready)
	}
}

// start records that the write by changes the row of w.
func (a *lane) start(w, by *mergedWrite) {
	if w.row != "" {
		a.rows[w.row] = by
	}
}

// take returns those of the waiting writes that w, which has entered, must send with its own.
func (l *lanes) take(key laneKey, w *mergedWrite) (taken []*mergedWrite) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.lanes[key]
	a.waiting = slices.DeleteFunc(a.waiting, func(o *mergedWrite) bool {
		by := a.rows[o.row]
		if by != nil && by != w || len(taken) == maxMerged-1 {
			return false
		}
		a.start(o, w)
		o.taken = true
		close(o.ready)
		taken = append(taken, o)
		return true
	})
	l.merged += int64(len(taken))
	return taken
}

// leave must be called when the transaction of w, which has entered, has ended.
func (l *lanes) leave(key laneKey, w *mergedWrite) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.lanes[key]
	maps.DeleteFunc(a.rows, func(_ string, by *mergedWrite) bool { return by == w })
	a.running--
	a.next()
	if a.running == 0 { // then nothing waits
		delete(l.lanes, key)
	}
}

// count returns how many writes others have sent.
func (l *lanes) count() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.merged
}
