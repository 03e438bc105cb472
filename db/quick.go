package db

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"spoolwright/db/fair"
)

// maxShared is the maximum number of quick reads in one round trip. Each of them delays the responses to the others by
// its own time in PostgreSQL.
const maxShared = 8

// quickRead is a Read whose statements are all Quick. While the connections for quick reads are busy (see package
// fair), others wait. The one that gets a connection sends the statements of others too, all of them in one pipeline.
// This saves switches between processes, which cost as much as the statements. The reads of one actor are one
// transaction, because binding it to the actor takes longer than most reads; if one of them fails, the others are
// sent again without it. Of equal reads of one actor, which all wait already, only one is sent, and all get its
// result: clients that poll the same page then cost PostgreSQL as much as one.
type quickRead struct {
	actor Actor
	gate  gate
	stmts []*Stmt

	others []*quickRead // which this one must send too
	copies []*quickRead // which get the result of this one

	sent chan struct{} // see Sent; nil before the request waits

	finished bool
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
	q.finished, q.err = true, err
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
	defer func() { // nothing is left, except after a panic
		for _, q := range reads {
			if !q.finished {
				q.finish(errAbandoned)
			}
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
			q.finish(err)
		}
		return
	}
	for left := reads; len(left) > 0; {
		groups := byActor(left)
		transactions := make([]*pipelined, len(groups))
		for i, group := range groups {
			transactions[i] = &pipelined{begin: group[0].begin()}
			for _, q := range group {
				transactions[i].requests = append(transactions[i].requests, q.stmts)
			}
		}
		d.sendPipelined(ctx, conn.Conn(), session, transactions...)
		left = nil
		for i, group := range groups {
			t := transactions[i]
			for n, q := range group {
				if t.err == nil || t.failed < 0 || t.failed == n {
					q.finish(t.err)
				} else {
					left = append(left, q)
				}
			}
		}
	}
}

// byActor returns the reads of each actor, in the order of their first ones.
func byActor(reads []*quickRead) (groups [][]*quickRead) {
	for _, q := range reads {
		i := slices.IndexFunc(groups, func(g []*quickRead) bool { return g[0].actor == q.actor && g[0].gate == q.gate })
		if i < 0 {
			groups = append(groups, []*quickRead{q})
		} else {
			groups[i] = append(groups[i], q)
		}
	}
	return groups
}

// begin returns the statements that begin the transaction.
func (q *quickRead) begin() []Statement {
	return append([]Statement{bindOf(q.actor, true)}, q.gate.statements(q.actor.Tenant, false)...)
}
