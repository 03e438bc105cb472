package db_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// openForSharing returns a DB with one connection for reads, so that a second read waits.
func openForSharing(t *testing.T) *db.DB {
	t.Helper()
	return open(t, db.Config{URL: testkit.Private().AppURL(), MaxConns: 2, Deadline: time.Hour})
}

// holdReads occupies the connection for reads until release is called.
func holdReads(t *testing.T, d *db.DB, ctx context.Context) (release func()) {
	t.Helper()
	super := connect(t, testkit.Private().SuperURL())
	if _, err := super.Exec(t.Context(), `select pg_advisory_lock(16001)`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- d.Read(ctx, waitForever(), db.SQL(`select pg_advisory_xact_lock_shared(16001)::text`))
	}()
	testkit.Eventually(t, "a connection is in use", func() bool { return d.Stats().InUse > 0 })
	return func() {
		if _, err := super.Exec(t.Context(), `select pg_advisory_unlock(16001)`); err != nil {
			t.Error(err)
		}
		testkit.Check(t, <-done)
	}
}

// quick is a read of one text in another goroutine.
type quick struct {
	got    string
	err    error
	cancel context.CancelFunc
}

func startQuick(t *testing.T, d *db.DB, group *sync.WaitGroup, ctx context.Context, sql string, args ...any) *quick {
	q := &quick{}
	ctx, q.cancel = context.WithCancel(ctx)
	waiting := d.Stats().Waiting
	group.Go(func() { q.err = d.Read(ctx, db.SQL(sql, args...).Into(&q.got).Quick()) })
	testkit.Eventually(t, "the reads wait", func() bool { return d.Stats().Waiting > waiting })
	return q
}

// Quick reads that wait share one round trip. Each is bound to its own actor and fails on its own.
func TestSharedReads(t *testing.T) {
	const seen = `select concat_ws(' ', $1::text, (select string_agg(kind, ',') from counters),
		pg_current_xact_id_if_assigned()) as seen`
	d := openForSharing(t)
	a, b := newTenant(t, d), newTenant(t, d)
	write(t, d, a, addRow("of a"))
	write(t, d, b, addRow("of b"))
	release := holdReads(t, d, a)
	var group sync.WaitGroup
	first := startQuick(t, d, &group, a, seen, "1")
	of := db.ActorOf(a)
	of.User, of.Role = value.NewID(), "admin"
	revoked := startQuick(t, d, &group, db.As(t.Context(), of), seen, "2")
	failing := startQuick(t, d, &group, a, `select (1 / ($1::int - 1))::text`, 1)
	misused := startQuick(t, d, &group, a, `select $1::int::text`, "no number")
	gone := startQuick(t, d, &group, a, seen, "3")
	other := startQuick(t, d, &group, b, seen, "4")
	last := startQuick(t, d, &group, a, seen, "5")
	gone.cancel()
	testkit.Eventually(t, "the reads wait", func() bool { return d.Stats().Waiting == 6 })
	release()
	group.Wait()
	for i, c := range []struct {
		q    *quick
		want string
	}{{first, "1 of a"}, {other, "4 of b"}, {last, "5 of a"}} {
		if c.q.err != nil || c.q.got != c.want {
			t.Errorf("read %d: %q, %v, want %q", i, c.q.got, c.q.err, c.want)
		}
	}
	if !errors.Is(revoked.err, db.ErrRevoked) {
		t.Errorf("an unknown user: %v", revoked.err)
	}
	if failing.err == nil || misused.err == nil || errors.Is(failing.err, db.ErrUnavailable) {
		t.Errorf("a failing statement: %v; a wrong argument: %v", failing.err, misused.err)
	}
	if !errors.Is(gone.err, context.Canceled) {
		t.Errorf("a read whose client has gone: %v", gone.err)
	}
	testkit.Equal(t, d.Stats().Shared, 5, "reads that shared the round trip of the first")
	wantRows(t, d, a, "of a") // the connection still works
}

// The results of reads are complete and correct after reads of the same round trip that fail.
func TestSharedReadsAfterFailures(t *testing.T) {
	const one = `select 7::bigint as total, $1::int as n, true as yes, 1.50::numeric as grams`
	d := openForSharing(t)
	a := newTenant(t, d)
	of := db.ActorOf(a)
	of.User, of.Role = value.NewID(), "admin"
	revoked := db.As(t.Context(), of)
	release := holdReads(t, d, a)
	var group sync.WaitGroup
	for n, c := range []struct {
		ctx   context.Context
		sql   string
		fails bool
	}{{a, one, false}, {revoked, one, true}, {a, one, false}, {a, `select 1::bigint, 1 / ($1::int - $1)`, true},
		{a, one, false}, {revoked, one, true}, {a, one, false}} {
		var total int64
		s := db.SQL(c.sql, n).Total(&total).Quick()
		group.Go(func() {
			err := d.Read(c.ctx, s)
			want := fmt.Sprintf(`[{"n":%d,"yes":true,"grams":1.5}]`, n)
			if c.fails != (err != nil) || err == nil && (string(s.Array()) != want || total != 7) {
				t.Errorf("read %d: %s of %d, %v", n, s.Array(), total, err)
			}
		})
		testkit.Eventually(t, "the reads wait", func() bool { return d.Stats().Waiting == n+1 })
	}
	release()
	group.Wait()
}

// A read whose statements fail returns the error of the first one.
func TestSharedReadsReturnFirstError(t *testing.T) {
	t.Parallel()
	d := open(t, db.Config{URL: testkit.Private().AppURL(), MaxConns: 2})
	a := newTenant(t, d)
	var number int
	for range 3 { // until the connection has prepared the statements
		err := d.Read(a, db.SQL(`select 'no number'::text`).Into(&number).Quick(),
			db.SQL(`select (1 / $1::int)::text`, 0).Quick())
		if err == nil || strings.Contains(err.Error(), "division") {
			t.Errorf("got %v, want the error of the first statement", err)
		}
	}
}

// A panic does not keep the requests waiting whose reads were in the same round trip.
func TestSharedReadsAfterPanic(t *testing.T) {
	d := openForSharing(t)
	a := newTenant(t, d)
	release := holdReads(t, d, a)
	var group sync.WaitGroup
	group.Go(func() {
		defer func() {
			if recover() == nil {
				t.Error("a total without a second column is read")
			}
		}()
		d.Read(a, db.SQL(`select 'sender'`).Quick())
	})
	testkit.Eventually(t, "the reads wait", func() bool { return d.Stats().Waiting == 1 })
	var total int64
	var errs [3]error
	for i, s := range []*db.Stmt{
		db.SQL(`select 1::bigint`).Total(&total).Quick(), db.SQL(`select 'other'`).Quick(),
		db.SQL(`select 'other'`).Quick(),
	} {
		group.Go(func() { errs[i] = d.Read(a, s) })
		testkit.Eventually(t, "the reads wait", func() bool { return d.Stats().Waiting == i+2 })
	}
	release()
	done := make(chan bool)
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(testkit.WaitTimeout):
		t.Fatal("the requests still wait")
	}
	for i, err := range errs {
		if !errors.Is(err, db.ErrUnavailable) {
			t.Errorf("read %d beside a panic: %v", i, err)
		}
	}
	wantRows(t, d, a) // the service still works
}

// When the connection of a shared round trip breaks, all of its reads are repeated.
func TestSharedReadsAreRepeated(t *testing.T) {
	d := openForSharing(t)
	super := connect(t, testkit.Private().SuperURL())
	ctx := newTenant(t, d)
	release := holdReads(t, d, ctx)
	var group sync.WaitGroup
	var all []*quick
	for i := range 12 { // more than one round trip
		all = append(all, startQuick(t, d, &group, ctx,
			`select $1::text || pg_advisory_xact_lock_shared(16002)::text`, fmt.Sprint(i)))
	}
	unblock := blockAll(t, 16002)
	release()
	testkit.Eventually(t, "a connection is broken", func() bool {
		broken, err := super.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity
			where wait_event = 'advisory' and query like '%(16002)%'`)
		testkit.Check(t, err)
		return broken.RowsAffected() > 0
	})
	unblock()
	group.Wait()
	for i, q := range all {
		if q.err != nil || q.got != fmt.Sprint(i) {
			t.Errorf("read %d: %q, %v", i, q.got, q.err)
		}
	}
}

// A read has its own time, also if the time of the request that sends it ends earlier.
func TestSharedReadsHaveTheirOwnTime(t *testing.T) {
	t.Parallel()
	const deadline, waits, takes = 8 * time.Second, 4 * time.Second, 4500 * time.Millisecond
	d := open(t, db.Config{URL: testkit.Private().AppURL(), MaxConns: 2, Deadline: deadline})
	ctx := newTenant(t, d)
	release := holdReads(t, d, ctx)
	var group sync.WaitGroup
	sender := startQuick(t, d, &group, ctx, `select 'sender'`)
	time.Sleep(waits)
	other := startQuick(t, d, &group, ctx, `select 'other' || pg_sleep($1)::text`, takes.Seconds())
	release()
	group.Wait()
	if sender.err != nil || other.err != nil || other.got != "other" || d.Stats().Shared != 1 {
		t.Errorf("of %d shared reads, the first: %v; one that ends after the time of the first: %q, %v", d.Stats().Shared,
			sender.err, other.got, other.err)
	}
}

// A migration can change the type of a column of a prepared statement.
func TestQuickReadAfterMigration(t *testing.T) {
	t.Parallel()
	url := testkit.Private().SuperURL()
	d := openForSharing(t)
	ctx := newBinding(t)
	testkit.ExecURL(t, url, `create schema quick`, `create view quick.v as select 1::int as v`,
		`grant usage on schema quick to spoolwright_app`, `grant select on quick.v to spoolwright_app`)
	t.Cleanup(func() { testkit.ExecURL(t, url, `drop schema quick cascade`) })
	for _, change := range []string{`select`, `drop view quick.v; create view quick.v as select 'text'::text as v;
		grant select on quick.v to spoolwright_app`} {
		testkit.ExecURL(t, url, change)
		s := db.SQL(`select v from quick.v`).Quick()
		if err := d.Read(ctx, s); err != nil || s.Rows() != 1 {
			t.Errorf("after %q: %d rows, %v", change, s.Rows(), err)
		}
	}
}

// A connection keeps a limited number of prepared statements. It forgets none that it is about to use.
func TestQuickReadsOfManyTexts(t *testing.T) {
	t.Parallel()
	d := openSingle(t)
	ctx := newBinding(t)
	for i := range 1500 {
		var got int
		if err := d.Read(ctx, db.SQL(fmt.Sprintf(`select %d`, i)).Into(&got).Quick()); err != nil || got != i {
			t.Fatalf("read %d: %d, %v", i, got, err)
		}
	}
	if n := single[int](t, d, ctx, `select count(*) from pg_prepared_statements`); n > 215 {
		t.Errorf("%d prepared statements", n)
	}
}
