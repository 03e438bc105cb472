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
// and at least two, its further ones wait. The next one that gets a connection sends others that still wait in its
// transaction: together they are bound to the actor once, and wait for the disk once. All of them are committed, or
// none. If PostgreSQL rolls the transaction back, for whatever reason, each of the writes is repeated on its own, so
// that it has its own outcome. The same happens to a single one that waits for a row for long, so that others go on.
type mergedWrite struct {
	stmts []*Stmt
	row   string

	ready chan struct{} // closed when the write may continue, or was taken
	taken bool          // whether another write sends this one
	done  chan struct{} // closed when it has done so
	err   error
}

// lanes are the mergeable writes in progress, by actor. Two transactions of one actor never change the same row,
// although each may lock several, in no particular order. Whatever else makes them wait, such as a transaction of
// another actor, ends after mergedLockTimeout.
type lanes struct {
	limit  int // of the transactions of one actor at a time
	mu     sync.Mutex
	lanes  map[laneKey]*lane
	merged int64 // writes that another one has sent
}

type laneKey struct {
	actor Actor
	gate  gate
}

type lane struct {
	running int                     // transactions
	rows    map[string]*mergedWrite // which a transaction changes: the write that sends it
	waiting []*mergedWrite
}

// mergedLockTimeout is a column of the statement that binds a merged transaction. It limits how long a row that another
// transaction has locked delays other writes of the actor.
const mergedLockTimeout = `, set_config('lock_timeout', '100ms', true)`

// commitLockTimeout is the last statement of a transaction of several writes. The locks that their triggers take at
// commit are passed on from one transaction to the next, which takes longer where commits do.
const commitLockTimeout = `select set_config('lock_timeout', '5s', true)`

// errSeparate means that PostgreSQL rolled a merged transaction back, so that its writes must be repeated separately.
var errSeparate = fmt.Errorf("%w: the transaction of several writes was rolled back", ErrUnavailable)

// mergeable reports whether a Write of the statements can be merged with others. This requires prepared statements.
func (d *DB) mergeable(stmts []*Stmt) bool {
	return len(stmts) > 0 && d.named && !d.unprepared.Load() &&
		!slices.ContainsFunc(stmts, func(s *Stmt) bool { return !s.mergeable })
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
		if ActorOf(ctx).Tenant == "" {
			return errNoTenant
		}
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
	for _, o := range append(others, w) {
		t.requests = append(t.requests, o.stmts)
	}
	sending := ctx
	if len(others) > 0 {
		t.requests = append(t.requests, []*Stmt{SQL(commitLockTimeout)})
		var cancel context.CancelFunc
		sending, cancel = detach(ctx) // the others may have more time left than this one
		defer cancel()
	}
	beginWrite(conn)
	d.sendPipelined(sending, conn.Conn(), session, t)
	err = d.endWrite(conn, t.err)
	switch {
	case isReadOnly(err): // retry sends each of them once more, to the new primary
	case !t.sent, t.rolledBack() && (len(others) > 0 || isLockTimeout(err)):
		if isBroken(err) {
			d.pool.Reset()
		}
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

// rolledBack reports whether PostgreSQL has certainly rolled the transaction back.
func (t *pipelined) rolledBack() bool {
	_, rejected := errors.AsType[*pgconn.PgError](t.err)
	return rejected && !isBroken(t.err)
}

// enter waits until the write may continue, or until another one has sent it. It returns the error of ctx, or of
// client, the context of the HTTP request, if that ends first.
func (l *lanes) enter(ctx, client context.Context, key laneKey, w *mergedWrite) (sent bool, err error) {
	w.ready, w.done = make(chan struct{}), make(chan struct{})
	l.mu.Lock()
	a := l.lanes[key]
	if a == nil {
		a = &lane{rows: map[string]*mergedWrite{}}
		l.lanes[key] = a
	}
	a.waiting = append(a.waiting, w)
	a.next(l.limit)
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
func (a *lane) next(limit int) {
	for i := 0; i < len(a.waiting) && a.running < limit; {
		w := a.waiting[i]
		if a.rows[w.row] != nil {
			i++
			continue
		}
		a.waiting = slices.Delete(a.waiting, i, i+1)
		a.claim(w, w)
		a.running++
		close(w.ready)
	}
}

// claim records that the write by sends w, and so changes its row.
func (a *lane) claim(w, by *mergedWrite) {
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
		a.claim(o, w)
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
	a.next(l.limit)
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
