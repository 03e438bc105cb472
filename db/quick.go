package db

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"spoolwright/db/fair"
)

// maxShared is the maximum number of quick reads in one round trip. Each quick read delays the responses of the others
// by the time that PostgreSQL needs for it.
const maxShared = 8

// quickReads are the quick reads that wait for a connection.
//
// Few connections are used for quick reads (see package fair). The request that gets a connection sends its own read
// and other waiting reads in one pipeline. This saves switches between processes, which cost as much as the
// statements. Each read is a transaction of its own, with its own actor and outcome.
type quickReads struct {
	mu      sync.Mutex
	waiting []*quickRead // in order of arrival
	shared  int64        // the number of reads that another request has sent
}

// quickRead is a call of Read whose statements are all Quick.
type quickRead struct {
	pipelined
	actor Actor

	stop  context.CancelFunc // ends the wait for a connection
	taken bool               // whether another request sends the read
	done  chan struct{}      // closed when another request has sent the read, and err is set
}

// wait adds a read. The caller must then wait for a connection with the returned context.
func (w *quickReads) wait(ctx context.Context, q *quickRead) context.Context {
	ctx, q.stop = context.WithCancel(ctx)
	q.done = make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, q)
	return ctx
}

// leave removes a read whose wait for a connection has ended. If taken is set, another request sends the read.
// Otherwise, if sends is set, the caller must send the reads in others together with its own.
func (w *quickReads) leave(q *quickRead, sends bool) (others []*quickRead, taken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q.stop()
	if q.taken {
		return nil, true
	}
	i := slices.Index(w.waiting, q)
	w.waiting = slices.Delete(w.waiting, i, i+1)
	if !sends {
		return nil, false
	}
	others = slices.Clone(w.waiting[:min(maxShared-1, len(w.waiting))])
	w.waiting = slices.Delete(w.waiting, 0, len(others))
	for _, o := range others {
		o.taken = true
		o.stop()
	}
	w.shared += int64(len(others))
	return others, false
}

// count returns the number of reads that another request has sent.
func (w *quickReads) count() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shared
}

// shareable reports whether a Read of the statements can share a round trip. Sharing requires prepared statements.
func (d *DB) shareable(stmts []*Stmt) bool {
	return d.named && !d.unprepared.Load() && !slices.ContainsFunc(stmts, func(s *Stmt) bool { return !s.quick })
}

// readQuick is send for quick reads.
func (d *DB) readQuick(ctx context.Context, stmts []*Stmt) error {
	client := ctx
	ctx, cancel := d.detach(ctx)
	defer cancel()
	if ActorOf(ctx).Tenant == "" {
		return errNoTenant
	}
	return d.retry(ctx, true, func() error {
		q := &quickRead{actor: ActorOf(ctx), pipelined: pipelined{stmts: stmts}}
		share, err := d.shares.Acquire(d.quick.wait(ctx, q), client, q.actor.Tenant, fair.Quick)
		others, taken := d.quick.leave(q, err == nil)
		if taken {
			if err == nil {
				share.Release()
			}
			<-q.done
			return q.err
		}
		if err != nil {
			return err
		}
		defer share.Release()
		d.sendQuick(ctx, q, others)
		return q.err
	})
}

// errAbandoned is the error of a read if the request that sends it panics.
var errAbandoned = fmt.Errorf("%w: the request that sent the read failed", ErrUnavailable)

// sendQuick sends a read and the reads of other requests in one pipeline.
func (d *DB) sendQuick(ctx context.Context, q *quickRead, others []*quickRead) {
	finished := false
	defer func() {
		for _, o := range others {
			if !finished {
				o.err = errAbandoned
			}
			close(o.done)
		}
	}()
	if len(others) > 0 { // other reads may have more time left than q
		var cancel context.CancelFunc
		ctx, cancel = d.detach(ctx)
		defer cancel()
	}
	all := append([]*quickRead{q}, others...)
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		for _, q := range all {
			q.err = err
		}
	} else {
		defer conn.Release()
		d.pipeline(ctx, conn, all)
	}
	finished = true
}

// pipeline sends the reads on a connection, and sets their errors.
func (d *DB) pipeline(ctx context.Context, conn *pgxpool.Conn, reads []*quickRead) {
	session := d.sessionOf(conn.Conn())
	if session == nil { // the session lost its settings after the reads began to wait
		for _, q := range reads {
			var b pgx.Batch
			if q.err = d.queue(As(ctx, q.actor), &b, q.stmts, conn.Conn()); q.err == nil {
				q.err = conn.SendBatch(ctx, &b).Close()
			}
		}
		return
	}
	transactions := make([]*pipelined, len(reads))
	for i, q := range reads {
		q.begin = bindOf(q.actor, "", true)
		transactions[i] = &q.pipelined
	}
	d.sendPipelined(ctx, conn.Conn(), session, transactions)
}
