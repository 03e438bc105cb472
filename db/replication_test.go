package db_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/db"
	"spoolwright/db/local"
	"spoolwright/tests/testkit"
)

// A commit whose wait for the synchronous standby ends early is not a success, whatever ended the wait. Reads
// succeed.
func TestCommitWithoutStandby(t *testing.T) {
	t.Parallel()
	s := testkit.Cluster(t, testkit.Synchronous)
	d := open(t, db.Config{URL: s.AppURL(), MaxConns: 1})
	ctx := newTenant(t, d)
	testkit.LoseStandby(t, s)
	for _, function := range []string{"pg_cancel_backend", "pg_terminate_backend"} {
		stop := testkit.Interrupt(t, s, function)
		for name, run := range map[string]func(*db.Stmt) error{
			"Write": func(stmt *db.Stmt) error { return d.Write(ctx, stmt) },
			"Tx": func(stmt *db.Stmt) error {
				return d.Tx(ctx, func(ctx context.Context) error { return d.Write(ctx, stmt) })
			},
			"Bulk": func(stmt *db.Stmt) error {
				return d.Bulk(ctx, func(ctx context.Context) error { return d.Write(ctx, stmt) })
			},
		} {
			row := name + ", " + function
			if err := run(addRow(row)); !errors.Is(err, db.ErrOutcomeUnknown) || !errors.Is(err, db.ErrUnavailable) {
				t.Errorf("%s: %v", row, err)
			}
			if got := single[int](t, d, ctx, `select count(*)::int from counters where kind = $1`,
				row); got != 1 {
				t.Errorf("%s: %d rows, want the committed one", row, got)
			}
			if err := d.Tx(ctx,
				func(ctx context.Context) error { return d.Read(ctx, db.SQL(countTenants)) }); err != nil {
				t.Errorf("a transaction that only reads, after %s: %v", row, err)
			}
		}
		stop()
	}

	// A repeatable transaction is repeated until its own commit is confirmed.
	tries := 0
	stop := sync.OnceFunc(testkit.Interrupt(t, s, "pg_cancel_backend"))
	err := d.TxRepeatable(ctx, func(ctx context.Context) error {
		if tries++; tries == 3 {
			stop() // PostgreSQL needs a while to end the waits
			testkit.FindStandby(t, s)
		}
		return d.Write(ctx, db.SQL(`insert into counters (kind, last, total) values ('repeated', 0, 0)
			on conflict (tenant_id, kind) do update set total = counters.total + 1`))
	})
	stop()
	if err != nil || tries < 3 {
		t.Errorf("a repeatable transaction: %v after %d tries", err, tries)
	}
	write(t, d, ctx, addRow("after")) // no notice of an earlier transaction counts
}

// The service's own deadline ends the wait too.
func TestCommitWithoutStandbyUntilDeadline(t *testing.T) {
	t.Parallel()
	s := testkit.Cluster(t, testkit.Synchronous)
	d := open(t, db.Config{URL: s.AppURL()})
	ctx := newTenant(t, d)
	testkit.LoseStandby(t, s)
	begin := time.Now()
	if err := d.Write(ctx, addRow("alone")); !errors.Is(err, db.ErrOutcomeUnknown) {
		t.Errorf("a write without its standby: %v", err)
	}
	if took := time.Since(begin); took < 9*time.Second {
		t.Errorf("the write failed after %v", took)
	}
	wantRows(t, d, ctx, "alone")
}

// After a failover, connections to the demoted primary are closed at the first write that it rejects, and the write
// succeeds on the new primary.
func TestDemotedPrimary(t *testing.T) {
	t.Parallel()
	old, promoted := testkit.Cluster(t, nil), testkit.Cluster(t, nil)
	testkit.Exec(t, old, `alter role spoolwright_login password 'p'`)
	testkit.Exec(t, promoted, `alter role spoolwright_login password 'p'`)
	forwarder := testkit.NewForwarder(t, "127.0.0.1:0", old.SuperURL())
	u, err := url.Parse(forwarder.URL(t, old.AppURL()))
	testkit.Check(t, err)
	u.User = url.UserPassword("spoolwright_login", "p")
	d := open(t, db.Config{URL: u.String(), MaxConns: 8})
	ctx := newTenant(t, d)
	testkit.Exec(t, promoted, `insert into tenants (tenant_id, name) values ('`+db.ActorOf(ctx).Tenant+`', 'test')`)
	system := func() string {
		t.Helper()
		return single[string](t, d, ctx, `select pg_postmaster_start_time()::text`)
	}
	fill := func() { // opens several connections
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() { d.Write(ctx, db.SQL(`select pg_sleep(0.1)::text`)) })
		}
		wg.Wait()
	}
	fill()
	before := system()
	testkit.Check(t, d.Ready(t.Context()))

	testkit.Exec(t, old, `alter system set default_transaction_read_only = on`, `select pg_reload_conf()`)
	eventuallyReadOnly(t, old)
	if err := d.Write(ctx, addRow("rejected")); !errors.Is(err, db.ErrUnavailable) ||
		errors.Is(err, db.ErrOutcomeUnknown) {
		t.Errorf("a write while all PostgreSQL are read-only: %v", err)
	}
	if err := d.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "accepts only reads") {
		t.Errorf("ready while PostgreSQL is read-only: %v", err)
	}
	if system() != before { // reads go on
		t.Error("the forwarder has switched by itself")
	}

	fill()
	time.Sleep(time.Second) // the pool is not reset more often
	forwarder.Switch(t, promoted.SuperURL())
	for name, write := range map[string]func(string) error{
		"Write": func(row string) error { return d.Write(ctx, addRow(row)) },
		"Tx": func(row string) error {
			return d.Tx(ctx, func(ctx context.Context) error { return d.Write(ctx, addRow(row)) })
		},
	} {
		if err := write(name); err != nil {
			t.Errorf("%s after the failover: %v", name, err)
		}
	}
	for range 10 {
		if system() == before {
			t.Fatal("a read goes to the demoted primary")
		}
	}
	wantRows(t, d, ctx, "Tx", "Write")
	testkit.Check(t, d.Ready(t.Context()))
}

// eventuallyReadOnly waits until all connections are read-only. PostgreSQL opens no connection with the new setting
// before it has notified the others.
func eventuallyReadOnly(t *testing.T, s *local.Server) {
	t.Helper()
	testkit.Eventually(t, "PostgreSQL is read-only", func() bool {
		conn, err := pgx.Connect(t.Context(), s.SuperURL())
		testkit.Check(t, err)
		defer conn.Close(t.Context())
		var setting string
		testkit.Check(t, conn.QueryRow(t.Context(), `show default_transaction_read_only`).Scan(&setting))
		return setting == "on"
	})
}

// A check of readiness that finds a read-only PostgreSQL closes the connections too: an instance without writes
// recovers. So it does if that PostgreSQL lacks migrations.
func TestReadyClosesReadOnlyConnections(t *testing.T) {
	t.Parallel()
	for name, before := range map[string][]string{
		"migrated":                nil,
		"at an earlier migration": {`delete from schema_migrations where version > 3`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testReadyReadOnly(t, before)
		})
	}
}

func testReadyReadOnly(t *testing.T, before []string) {
	s := testkit.Cluster(t, nil)
	d := open(t, db.Config{URL: s.AppURL(), MaxConns: 1})
	ctx := newTenant(t, d)
	pid := single[int](t, d, ctx, `select pg_backend_pid()`)
	testkit.Exec(t, s, before...)
	testkit.Exec(t, s, `alter system set default_transaction_read_only = on`, `select pg_reload_conf()`)
	eventuallyReadOnly(t, s)
	begin := time.Now()
	if err := d.Ready(t.Context()); !errors.Is(err, db.ErrUnavailable) {
		t.Errorf("ready: %v", err)
	}
	next := single[int](t, d, ctx, `select pg_backend_pid()`)
	if next == pid {
		t.Error("the connection is the same as before")
	}
	for range 20 { // a second one is not replaced within a second
		if err := d.Ready(t.Context()); !errors.Is(err, db.ErrUnavailable) {
			t.Errorf("ready: %v", err)
		}
		if now := single[int](t, d, ctx, `select pg_backend_pid()`); now != next && time.Since(begin) < time.Second {
			t.Error("a check within a second replaced the connection again")
		}
	}
}
