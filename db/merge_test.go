package db_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/testkit"
)

// insertMergeable is a write that adds a row with the name $1, which must be unique in the tenant, and returns the id
// of its transaction.
const insertMergeable = `insert into row_counts (resource, shard, rows) values ($1, 0, 0)
	returning pg_current_xact_id()::text`

// merged is a write in another goroutine.
type merged struct {
	xact   string
	err    error
	cancel context.CancelFunc
}

// mergers start writes of an actor that has as many in progress as it may, which is two of eight connections.
type mergers struct {
	t     *testing.T
	d     *db.DB
	other *testkit.Holder // of one of the two
	group sync.WaitGroup
}

func newMergers(t *testing.T) *mergers {
	t.Helper()
	return &mergers{t: t, d: open(t, db.Config{URL: testkit.Private().AppURL(), MaxConns: 8})}
}

// hold starts the two writes. One ends when release is called, the other one with wait.
func (m *mergers) hold(ctx context.Context) (release func()) {
	m.t.Helper()
	start := func() *testkit.Holder {
		key := rand.Int32()
		h := testkit.Hold(m.t, testkit.Private().SuperURL(), fmt.Sprintf(`select pg_advisory_xact_lock(%d)`, key))
		m.group.Add(1)
		h.StartWaiting(1, func() {
			defer m.group.Done()
			forever := waitForever().Mergeable("")
			wait := db.SQL(`select pg_advisory_xact_lock_shared($1)::text`, key).Mergeable("")
			testkit.Check(m.t, m.d.Write(ctx, forever, wait))
		})
		return h
	}
	m.other = start()
	return start().Commit
}

// wait waits until all writes have ended. The first one to continue has sent the others by then.
func (m *mergers) wait() {
	m.t.Helper()
	testkit.Eventually(m.t, "no write waits", func() bool { return m.d.Waiting() == 0 })
	m.other.Commit()
	m.group.Wait()
}

func (m *mergers) start(ctx context.Context, row, sql string, args ...any) *merged {
	m.t.Helper()
	w := &merged{}
	ctx, w.cancel = context.WithCancel(ctx)
	waiting := m.d.Waiting()
	m.group.Go(func() { w.err = m.d.Write(ctx, db.SQL(sql, args...).Into(&w.xact).Mergeable(row)) })
	testkit.Eventually(m.t, "the write waits", func() bool { return m.d.Waiting() > waiting })
	return w
}

// Mergeable writes of one actor that wait are one transaction. Each fails on its own.
func TestMergedWrites(t *testing.T) {
	t.Parallel()
	m := newMergers(t)
	a, b := newTenant(t, m.d), newTenant(t, m.d)
	release := m.hold(a)
	var all []*merged
	for i := range 6 {
		all = append(all, m.start(a, "", insertMergeable, fmt.Sprint("a", i)))
	}
	gone := m.start(a, "", insertMergeable, "gone")
	gone.cancel()
	testkit.Eventually(t, "the client has gone", func() bool { return m.d.Waiting() == 6 })
	// Others do not wait for this actor.
	testkit.Check(t, m.d.Write(b, db.SQL(insertMergeable, "b").Mergeable("")))
	nobody := db.Actor{Tenant: db.ActorOf(a).Tenant, User: db.NewID(), Role: "admin"}
	err := m.d.Write(db.As(t.Context(), nobody), db.SQL(insertMergeable, "nobody").Mergeable(""))
	if !errors.Is(err, db.ErrRevoked) {
		t.Errorf("an unknown user: %v", err)
	}
	release()
	m.wait()
	for i, w := range all {
		if w.err != nil || w.xact != all[0].xact {
			t.Errorf("write %d: transaction %s, %v, want %s", i, w.xact, w.err, all[0].xact)
		}
	}
	if !errors.Is(gone.err, context.Canceled) {
		t.Errorf("a write whose client has gone: %v", gone.err)
	}
	wantRows(t, m.d, a, "a0", "a1", "a2", "a3", "a4", "a5")
	wantRows(t, m.d, b, "b")
	testkit.Equal(t, m.d.Stats().Merged, 5, "writes in the transaction of another")
	write(t, m.d, a) // no statement only checks the actor
}

// A write that PostgreSQL rejects does not change the outcome of the writes in the same transaction.
func TestMergedWriteFails(t *testing.T) {
	t.Parallel()
	m := newMergers(t)
	a := newTenant(t, m.d)
	write(t, m.d, a, addRow("twice"))
	release := m.hold(a)
	before := m.start(a, "", insertMergeable, "before")
	failing := m.start(a, "", insertMergeable, "twice")
	misused := m.start(a, "", `select $1::int::text`, "no number")
	after := m.start(a, "", insertMergeable, "after")
	release()
	m.wait()
	if before.err != nil || after.err != nil {
		t.Errorf("the writes before and after: %v, %v", before.err, after.err)
	}
	if !db.Violates(failing.err, "row_counts_pkey") {
		t.Errorf("a row that exists: %v", failing.err)
	}
	if misused.err == nil || errors.Is(misused.err, db.ErrUnavailable) {
		t.Errorf("a wrong argument: %v", misused.err)
	}
	wantRows(t, m.d, a, "after", "before", "twice")
}

// A row that another transaction has locked delays the other writes of a merged transaction only for a moment. While
// one transaction of an actor changes a row, no other one that merges writes does.
func TestMergedWritesOfLockedRow(t *testing.T) {
	t.Parallel()
	m := newMergers(t)
	a := newTenant(t, m.d)
	write(t, m.d, a, addRow("hot"))
	const count = `update row_counts set rows = rows + 1 where resource = 'hot' returning pg_current_xact_id()::text`
	release := m.hold(a)
	locked := testkit.Hold(t, testkit.Private().SuperURL(), `update row_counts set rows = rows + 1
		where resource = 'hot' and tenant_id = '`+db.ActorOf(a).Tenant+`'`)
	hot := []*merged{m.start(a, "hot", count), m.start(a, "hot", count)}
	other := m.start(a, "other", insertMergeable, "other")
	release()
	testkit.Eventually(t, "the other write has ended", func() bool { return len(rowNames(t, m.d, a)) == 2 })
	locked.Commit()
	m.wait()
	for _, w := range append(hot, other) {
		testkit.Check(t, w.err)
	}
	testkit.Equal(t, value[int](t, m.d, a, `select rows from row_counts where resource = 'hot'`), 3, "updates of the row")
}

// When the connection of a merged transaction breaks, no write is repeated, and each reports an unknown outcome.
func TestMergedWritesOnBrokenConnection(t *testing.T) {
	t.Parallel()
	m := newMergers(t)
	super := connect(t, testkit.Private().SuperURL())
	a := newTenant(t, m.d)
	release := m.hold(a)
	all := []*merged{
		m.start(a, "", insertMergeable, "first"),
		m.start(a, "", `select pg_sleep(10)::text || 'merged writes'`),
		m.start(a, "", insertMergeable, "last"),
	}
	release()
	testkit.Eventually(t, "the connection is broken", func() bool {
		var broken bool
		err := super.QueryRow(t.Context(), `select coalesce(bool_or(pg_terminate_backend(pid)), false)
			from pg_stat_activity where wait_event = 'PgSleep' and query like '%merged writes%'`).Scan(&broken)
		return err == nil && broken
	})
	m.wait()
	for i, w := range all {
		if !errors.Is(w.err, db.ErrOutcomeUnknown) {
			t.Errorf("write %d: %v", i, w.err)
		}
	}
	wantRows(t, m.d, a)
}

// A panic does not keep the requests waiting whose writes were in the same transaction.
func TestMergedWritesAfterPanic(t *testing.T) {
	t.Parallel()
	m := newMergers(t)
	a := newTenant(t, m.d)
	release := m.hold(a)
	m.group.Go(func() {
		defer func() {
			if recover() == nil {
				t.Error("a total without a second column is read")
			}
		}()
		var total int64
		m.d.Write(a, db.SQL(`select 1::bigint`).Total(&total).Mergeable(""))
	})
	testkit.Eventually(t, "the write waits", func() bool { return m.d.Waiting() == 1 })
	other := m.start(a, "", insertMergeable, "other")
	release()
	done := make(chan bool)
	go func() { m.wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(testkit.WaitTimeout):
		t.Fatal("the requests still wait")
	}
	if !errors.Is(other.err, db.ErrOutcomeUnknown) {
		t.Errorf("a write beside a panic: %v", other.err)
	}
	write(t, m.d, a, db.SQL(insertMergeable, "later").Mergeable("")) // the service still works
}
