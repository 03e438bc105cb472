package db_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/db"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

const countTenants = `select count(*) from tenants`

// addRow returns a statement that inserts a row with the name, which must be unique in the tenant.
func addRow(name string) *db.Stmt {
	return db.SQL(`insert into counters (kind, last, total) values ($1, 0, 0)`, name)
}

func rowNames(t *testing.T, d *db.DB, ctx context.Context) []string {
	t.Helper()
	return single[[]string](t, d, ctx,
		`select coalesce(array_agg(kind::text order by kind), '{}') from counters`)
}

func wantRows(t *testing.T, d *db.DB, ctx context.Context, want ...string) {
	t.Helper()
	if got := rowNames(t, d, ctx); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the rows are %v, want %v", got, want)
	}
}

func TestNoTenant(t *testing.T) {
	t.Parallel()
	d := testkit.Open(t)
	ran := false
	for name, run := range map[string]func(context.Context) error{
		"Read":  func(ctx context.Context) error { return d.Read(ctx, db.SQL(countTenants)) },
		"Write": func(ctx context.Context) error { return d.Write(ctx, addRow("x")) },
		"Tx": func(ctx context.Context) error {
			return d.Tx(ctx, func(ctx context.Context) error {
				ran = true
				return d.Read(ctx, db.SQL(countTenants))
			})
		},
	} {
		for _, ctx := range []context.Context{t.Context(), db.As(t.Context(), db.Actor{}),
			db.As(t.Context(), db.Actor{User: value.NewID(), Role: "admin"})} {
			if err := run(ctx); err == nil || errors.Is(err, db.ErrUnavailable) {
				t.Errorf("%s for %+v: %v", name, db.ActorOf(ctx), err)
			}
		}
	}
	if !ran {
		t.Error("Tx did not run its function")
	}
	for _, tenant := range []string{"x", "0191d5b4", "' or true --"} {
		if err := d.Read(db.As(t.Context(), db.Actor{Tenant: tenant}), db.SQL(countTenants)); err == nil {
			t.Errorf("a transaction is bound to the tenant %q", tenant)
		}
	}
}

// The actor's user must exist in the tenant, be enabled, and have the role.
func TestRevokedCaller(t *testing.T) {
	t.Parallel()
	t.Run("prepared", func(t *testing.T) {
		t.Parallel()
		testRevoked(t, openSingle(t))
	})
	t.Run("not prepared", func(t *testing.T) {
		t.Parallel()
		d := openSingle(t)
		unprepare(t, d)
		testRevoked(t, d)
	})
}

func testRevoked(t *testing.T, d *db.DB) {
	tenant, other := newTenant(t, d), newTenant(t, d)
	user, disabled := value.NewID(), value.NewID()
	insert := `insert into users (id, email, name, role, password_hash) values ($1, 'e', 'n', $2, 'h')`
	write(t, d, tenant, db.SQL(insert, user, "operator"), db.SQL(insert, disabled, "operator"),
		db.SQL(`update users set disabled_at = now() where id = $1`, disabled))
	here, there := db.ActorOf(tenant).Tenant, db.ActorOf(other).Tenant
	for _, c := range []struct {
		name  string
		actor db.Actor
		want  error
	}{
		{"the user", db.Actor{Tenant: here, User: user, Role: "operator"}, nil},
		{"another role", db.Actor{Tenant: here, User: user, Role: "admin"}, db.ErrRevoked},
		{"no role", db.Actor{Tenant: here, User: user}, db.ErrRevoked},
		{"disabled", db.Actor{Tenant: here, User: disabled, Role: "operator"}, db.ErrRevoked},
		{"unknown", db.Actor{Tenant: here, User: value.NewID(), Role: "operator"}, db.ErrRevoked},
		{"another tenant", db.Actor{Tenant: there, User: user, Role: "operator"}, db.ErrRevoked},
	} {
		ctx := db.As(t.Context(), c.actor)
		for name, err := range map[string]error{
			"Read":  d.Read(ctx, db.SQL(countTenants)),
			"Write": d.Write(ctx, addRow("Write by "+c.name)),
			"Tx":    d.Tx(ctx, func(ctx context.Context) error { return d.Write(ctx, addRow("Tx by "+c.name)) }),
		} {
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%s by %s: %v, want %v", name, c.name, err, c.want)
			}
		}
	}
	wantRows(t, d, tenant, "Tx by the user", "Write by the user")
	wantRows(t, d, other)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	d := testkit.Open(t)
	ctx := newTenant(t, d)
	if err := d.Read(ctx, db.SQL(`select 1000000000::numeric(15,6)`)); !errors.Is(err, db.ErrOutOfRange) ||
		errors.Is(err, db.ErrUnavailable) {
		t.Errorf("a number that is too large: %v", err)
	}
	write(t, d, ctx, addRow("twice"))
	err := d.Write(ctx, addRow("twice"))
	if !db.Violates(err, "counters_pkey") || db.Violates(err, "tenants_pkey") || errors.Is(err, db.ErrUnavailable) {
		t.Errorf("a duplicate row: %v", err)
	}
	if db.Violates(nil, "counters_pkey") || db.Violates(errors.New("counters_pkey"), "counters_pkey") {
		t.Error("Violates reports a violation for another error")
	}
	for _, sql := range []string{`select 1/0`, `select nonsense`, `selec`, `select 1; select 2`, `drop table tenants`,
		`alter table tenants disable row level security`, `select * from login_directory`} {
		err := d.Write(ctx, db.SQL(sql))
		if err == nil || errors.Is(err, db.ErrUnavailable) || errors.Is(err, db.ErrRevoked) ||
			errors.Is(err, db.ErrOutOfRange) {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// A batch is one transaction and one round trip. If one of its statements fails, none has an effect.
func TestBatchIsAtomic(t *testing.T) {
	t.Parallel()
	var trips atomic.Int64
	d := open(t, db.Config{URL: testkit.Private().AppURL(), MaxConns: 2,
		RoundTrip: func([]db.Statement) { trips.Add(1) }})
	ctx := newTenant(t, d)
	trip := func(want int64, name string) {
		t.Helper()
		testkit.Equal(t, trips.Swap(0), want, "%s: round trips", name)
	}
	trip(1, "a write")
	if err := d.Write(ctx, addRow("a"), addRow("b"), addRow("a")); !db.Violates(err, "counters_pkey") {
		t.Errorf("a duplicate row: %v", err)
	}
	trip(1, "a write that fails")
	wantRows(t, d, ctx)
	trip(1, "a read")
	write(t, d, ctx, addRow("a"), addRow("b"))
	read(t, d, ctx, db.SQL(countTenants), db.SQL(countTenants), db.SQL(countTenants))
	trip(2, "a write and a read")
	err := d.Tx(ctx, func(ctx context.Context) error {
		return errors.Join(d.Write(ctx, addRow("c")), d.Read(ctx, db.SQL(countTenants)))
	})
	if err != nil {
		t.Error(err)
	}
	trip(3, "a transaction of two batches: the first includes BEGIN and the binding, then COMMIT")
	if err := d.Tx(ctx, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	trip(0, "an empty transaction")
	wantRows(t, d, ctx, "a", "b", "c")
}

func TestTxRollsBack(t *testing.T) {
	t.Parallel()
	d := openSingle(t)
	ctx := newTenant(t, d)
	pid := single[int](t, d, ctx, `select pg_backend_pid()`)
	mine := errors.New("mine")
	if err := d.Tx(ctx, func(ctx context.Context) error {
		write(t, d, ctx, addRow("a"))
		wantRows(t, d, ctx, "a")
		// A Tx within a Tx joins it. Its error does not roll back the outer one.
		if err := d.Tx(ctx, func(ctx context.Context) error {
			write(t, d, ctx, addRow("b"))
			return mine
		}); err != mine {
			t.Errorf("the inner Tx: %v", err)
		}
		wantRows(t, d, ctx, "a", "b")
		return mine
	}); err != mine {
		t.Errorf("Tx: %v", err)
	}
	wantRows(t, d, ctx)

	// After a failed statement the transaction cannot be committed, even if fn ignores the error.
	if err := d.Tx(ctx, func(ctx context.Context) error {
		write(t, d, ctx, addRow("a"))
		d.Write(ctx, addRow("a"))
		return nil
	}); err == nil {
		t.Error("Tx with a failed statement returns no error")
	}
	wantRows(t, d, ctx)

	if err := d.Tx(ctx, func(ctx context.Context) error {
		return d.Tx(ctx, func(ctx context.Context) error { return d.Write(ctx, addRow("c")) })
	}); err != nil {
		t.Error(err)
	}
	wantRows(t, d, ctx, "c")
	testkit.Equal(t, single[int](t, d, ctx, `select pg_backend_pid()`), pid, "a rollback closed the connection")
}

// A panic in fn rolls the transaction back and releases the connection, the only one of the pool.
func TestTxPanics(t *testing.T) {
	t.Parallel()
	d := openSingle(t)
	ctx := newTenant(t, d)
	for i := range 5 {
		func() {
			defer func() {
				testkit.Equal(t, recover(), "oh", "recovered")
			}()
			d.Tx(ctx, func(ctx context.Context) error {
				if i > 0 {
					write(t, d, ctx, addRow("a"))
				}
				panic("oh")
			})
		}()
		wantRows(t, d, ctx)
	}
	if s := d.Stats(); s.InUse != 0 || s.Total > s.Max || s.Max != 1 {
		t.Errorf("%+v", s)
	}
}

func TestDeadlockIsRetried(t *testing.T) {
	t.Parallel()
	d := testkit.Open(t)
	ctx := newTenant(t, d)
	write(t, d, ctx, addRow("a"), addRow("b"))
	add := func(name string) *db.Stmt {
		return db.SQL(`update counters set total = total + 1 where kind = $1`, name)
	}
	var tries atomic.Int64
	var first sync.WaitGroup // both transactions lock one row before they lock the other one
	first.Add(2)
	var wg sync.WaitGroup
	for _, order := range [][2]string{{"a", "b"}, {"b", "a"}} {
		wg.Go(func() {
			once := sync.OnceFunc(first.Done)
			err := d.Tx(ctx, func(ctx context.Context) error {
				tries.Add(1)
				if err := d.Write(ctx, add(order[0])); err != nil {
					return err
				}
				once()
				first.Wait()
				return d.Write(ctx, add(order[1]))
			})
			if err != nil {
				t.Errorf("%v: %v", order, err)
			}
		})
	}
	wg.Wait()
	if tries.Load() < 3 {
		t.Errorf("%d attempts: there was no deadlock", tries.Load())
	}
	testkit.Equal(t, single[int](t, d, ctx, `select sum(total)::int from counters`), 4, "changes")
}

// Internal errors of PostgreSQL, which are mostly races, are retried. If they persist, the error is ErrUnavailable.
func TestInternalErrorIsRetried(t *testing.T) {
	t.Parallel()
	d := testkit.Open(t)
	ctx := newTenant(t, d)
	broken := db.SQL(
		`do $$ begin raise exception 'new multixact has more than one updating member' using errcode = 'XX000'; end $$`)
	tries := 0
	err := d.Tx(ctx, func(ctx context.Context) error {
		if err := d.Write(ctx, addRow("a")); err != nil {
			return err
		}
		if tries++; tries < 3 {
			return d.Write(ctx, broken)
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("%d attempts, %v", tries, err)
	}
	wantRows(t, d, ctx, "a")
	if err := d.Write(ctx, addRow("b"), broken); !errors.Is(err, db.ErrUnavailable) {
		t.Errorf("an error that persists: %v", err)
	}
	wantRows(t, d, ctx, "a")
}

// After a write that failed because of a full disk, Ready fails until a write succeeds. Reads do not change that.
func TestNotReadyWhileDiskIsFull(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t, db.Config{}) // not the shared one: a write of another test would clear the failure
	ctx := newTenant(t, d)
	full := db.SQL(`do $$ begin raise exception 'could not extend file' using errcode = '53100'; end $$`)
	for name, write := range map[string]func(...*db.Stmt) error{
		"Write": func(stmts ...*db.Stmt) error { return d.Write(ctx, stmts...) },
		"Tx": func(stmts ...*db.Stmt) error {
			return d.Tx(ctx, func(ctx context.Context) error { return d.Write(ctx, stmts...) })
		},
	} {
		if err := write(full); !errors.Is(err, db.ErrUnavailable) {
			t.Errorf("%s with a full disk: %v", name, err)
		}
		rowNames(t, d, ctx)
		if err := d.Ready(t.Context()); !errors.Is(err, db.ErrUnavailable) {
			t.Errorf("%s: Ready with a full disk: %v", name, err)
		}
		testkit.Check(t, write(addRow(name)))
		if err := d.Ready(t.Context()); err != nil {
			t.Errorf("%s: Ready after a write: %v", name, err)
		}
	}
}

// Where the service's login may create temporary tables, one of them must not replace a table.
func TestTemporaryTables(t *testing.T) {
	t.Parallel()
	u := migratedDatabase(t)
	exec(t, connect(t, u.super), `do $$ begin
		execute format('grant temporary on database %I to public', current_database());
	end $$`)
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		d := open(t, db.Config{URL: u.app + "&default_query_exec_mode=" + mode, MaxConns: 1})
		unprepare(t, d)
		actor := db.Actor{Tenant: value.NewID(), User: value.NewID(), Role: "admin"}
		write(t, d, newBinding(t), db.SQL(`set local role none`),
			db.SQL(fmt.Sprintf(`create temporary table users as select '%s'::uuid as tenant_id, '%s'::uuid as id,
				'admin' as role, null::timestamptz as disabled_at, false as otp_missing`, actor.Tenant, actor.User)),
			db.SQL(`grant select on pg_temp.users to spoolwright_app`))
		if err := d.CheckActor(db.As(t.Context(), actor)); !errors.Is(err, db.ErrRevoked) {
			t.Errorf("%s: a user of a temporary table is bound: %v", mode, err)
		}
		tenant := db.As(t.Context(), db.Actor{Tenant: actor.Tenant})
		testkit.Equal(t, single[int](t, d, tenant, `select count(*) from users`), 0,
			"%s: users of a temporary table that a bound transaction reads", mode)
	}
}

// The tenant and user of a transaction do not remain on the connection. Of a session that is not prepared, nothing
// remains: the role, the schemas and the timeouts are those of the login, as a pooler's other clients expect.
func TestSettingsAreLocal(t *testing.T) {
	t.Parallel()
	t.Run("prepared", func(t *testing.T) {
		t.Parallel()
		testSettings(t, openSingle(t), "spoolwright_app   8s 5s 4s public, pg_temp")
	})
	t.Run("not prepared", func(t *testing.T) {
		t.Parallel()
		d := openSingle(t)
		unprepare(t, d)
		testSettings(t, d, `spoolwright_login   0 0 0 "$user", public`)
	})
}

// unprepare resets the settings of the session, as if a pooler had assigned another one to the connection. From then
// on, each transaction of d applies the settings.
func unprepare(t *testing.T, d *db.DB) {
	t.Helper()
	write(t, d, newBinding(t), db.SQL(`reset role`), db.SQL(`reset all`))
	read(t, d, newBinding(t), db.SQL(countTenants)) // finds the session without settings
}

// testSettings checks that unbound has the settings of the session outside of transactions.
func testSettings(t *testing.T, d *db.DB, unbound string) {
	ctx := newTenant(t, d)
	tenant := db.ActorOf(ctx).Tenant
	const state = `select concat_ws(' ', current_user, current_setting('app.tenant_id', true),
		current_setting('app.user_id', true), current_setting('statement_timeout'), current_setting('lock_timeout'),
		current_setting('idle_in_transaction_session_timeout'), current_setting('search_path'))`
	outside := func() (text string, pid int) { // a rollback ends the transaction that Read has bound
		t.Helper()
		read(t, d, ctx, db.SQL(`rollback`), db.SQL(state).Into(&text), db.SQL(`select pg_backend_pid()`).Into(&pid))
		return text, pid
	}
	bound := "spoolwright_app " + tenant + "  8s 5s 4s public, pg_temp"
	before, pid := outside()
	testkit.Equal(t, before, unbound, "before")
	inside := func(ctx context.Context) error {
		testkit.Equal(t, single[string](t, d, ctx, state), bound, "inside")
		return nil
	}
	mine := errors.New("mine")
	for name, run := range map[string]func(){
		"Read":           func() { inside(ctx) },
		"Read, failing":  func() { d.Read(ctx, db.SQL(`select 1/0`)) },
		"Write":          func() { write(t, d, ctx, addRow(value.NewID())) },
		"Write, failing": func() { d.Write(ctx, addRow("a"), addRow("a")) },
		"revoked": func() {
			d.Write(db.As(ctx, db.Actor{Tenant: tenant, User: value.NewID(), Role: "admin"}),
				addRow("a"))
		},
		"Tx": func() { d.Tx(ctx, inside) },
		"Tx, failing": func() {
			d.Tx(ctx,
				func(ctx context.Context) error { return errors.Join(inside(ctx), mine) })
		},
		"Tx, broken": func() {
			d.Tx(ctx,
				func(ctx context.Context) error { return d.Read(ctx, db.SQL(`select 1/0`)) })
		},
		"directory": func() { d.FindLogin(ctx, "nobody@test.example") },
		"tenants":   func() { d.Tenants(ctx) },
	} {
		run()
		if after, now := outside(); after != unbound || now != pid {
			t.Errorf("after %s: %q on backend %d, want %q on %d", name, after, now, unbound, pid)
		}
	}
}

// A session that lost its role or its schemas serves no transaction: the transaction runs again, and sets them. This
// also applies to a transaction that changes data, because nothing of it has been executed.
func TestLostSettings(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]string{
		"role": `reset role`, "schemas": `set search_path = pg_temp, public`,
		"both": `select set_config('role', 'none', false), set_config('search_path', '"$user", public', false)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for run, do := range map[string]func(context.Context, *db.DB) error{
				"Read":  func(ctx context.Context, d *db.DB) error { return d.Read(ctx, db.SQL(`select 1`)) },
				"Write": func(ctx context.Context, d *db.DB) error { return d.Write(ctx, addRow(value.NewID())) },
				"Tx": func(ctx context.Context, d *db.DB) error {
					return d.Tx(ctx, func(ctx context.Context) error { return d.Write(ctx, addRow(value.NewID())) })
				},
				"directory": func(ctx context.Context, d *db.DB) error {
					_, err := d.Tenants(ctx)
					return err
				},
			} {
				var sent []string
				d := open(t, db.Config{URL: testkit.Private().SuperURL(), MaxConns: 1,
					RoundTrip: func(all []db.Statement) {
						for _, statement := range all {
							sent = append(sent, statement.SQL)
						}
					}})
				ctx := newTenant(t, d)
				write(t, d, ctx, db.SQL(lose))
				sent = nil
				if err := do(ctx, d); err != nil {
					t.Errorf("%s: %v", run, err)
				}
				if all := strings.Join(sent, "\n"); run != "directory" &&
					(strings.Count(all, "current_user <>") != 2 || strings.Count(all, "'search_path', 'public, pg_temp'") != 1) {
					t.Errorf("%s: the statements are %s", run, all)
				}
				role := single[string](t, d, ctx, `select current_user || ' ' || current_setting('search_path')`)
				testkit.Equal(t, role, "spoolwright_app public, pg_temp",
					"%s: afterwards, the role and the schemas", run)
			}
		})
	}
}

// PostgreSQL cancels slow statements, and the connection stays usable.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	d := openSingle(t)
	ctx := newTenant(t, d)
	write(t, d, ctx, addRow("locked"))
	set := func(name, value string) *db.Stmt { return db.SQL(`select set_config($1, $2, true)`, name, value) }

	locker := connect(t, testkit.Private().SuperURL())
	tx, err := locker.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `select from counters where tenant_id = $1 for update`,
			db.ActorOf(ctx).Tenant)
	}
	testkit.Check(t, err)
	defer tx.Rollback(t.Context())

	pid := single[int](t, d, ctx, `select pg_backend_pid()`)
	for name, stmts := range map[string][]*db.Stmt{
		"statement timeout": {addRow("lost"), set("statement_timeout", "20ms"), db.SQL(`select pg_sleep(60)::text`)},
		"lock timeout": {addRow("lost"), set("lock_timeout", "20ms"),
			db.SQL(`update counters set total = 1 where kind = 'locked'`)},
	} {
		if err := d.Write(ctx, stmts...); !errors.Is(err, db.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		if err := d.Tx(ctx, func(ctx context.Context) error { return d.Write(ctx, stmts...) }); !errors.Is(err,
			db.ErrUnavailable) {
			t.Errorf("%s in a Tx: %v", name, err)
		}
		wantRows(t, d, ctx, "locked")
	}
	testkit.Equal(t, single[int](t, d, ctx, `select pg_backend_pid()`), pid, "a timeout closed the connection")
}

// A process that stops in the middle of a transaction for longer than PostgreSQL waits, as a virtual machine that is
// moved, loses its session. The request can be repeated, and its transaction has no effect.
func TestIdleTransaction(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"idle_in_transaction_session_timeout", "transaction_timeout"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Over TCP, the next statement is sent, and its answer is PostgreSQL's reason.
			forwarder := testkit.NewForwarder(t, "127.0.0.1:0", testkit.Private().AppURL())
			d := open(t, db.Config{URL: forwarder.URL(t, testkit.Private().AppURL()), MaxConns: 1})
			ctx := newTenant(t, d)
			if single[int](t, d, ctx, `select count(*) from pg_settings where name = $1`, name) == 0 {
				return // transaction_timeout is a setting of PostgreSQL 17 and later
			}
			err := d.Tx(ctx, func(ctx context.Context) error {
				err := d.Write(ctx, addRow("lost"), db.SQL(`select set_config($1, '20ms', true)`, name))
				if err != nil {
					return err
				}
				time.Sleep(200 * time.Millisecond)
				return d.Write(ctx, addRow("lost too"))
			})
			if !errors.Is(err, db.ErrUnavailable) {
				t.Errorf("the error is %v", err)
			}
			write(t, d, ctx, addRow("kept"))
			wantRows(t, d, ctx, "kept")
		})
	}
}

// An instance that is frozen in the middle of a transaction holds its locks for less time than others wait for them, so
// that the writes of these succeed. Here, the other write waits longer, because a busy machine ends sessions late.
func TestFrozenInstance(t *testing.T) {
	t.Parallel()
	d := open(t, db.Config{URL: testkit.Private().AppURL(), MaxConns: 2})
	ctx := newTenant(t, d)
	write(t, d, ctx, addRow("spool"))
	const deduct = `update counters set total = total + 1 where kind = 'spool'`
	if !single[bool](t, d, ctx, `select current_setting('idle_in_transaction_session_timeout')::interval
		< current_setting('lock_timeout')::interval`) {
		t.Error("others wait for locks for less time than the instance may hold them")
	}
	tries := 0
	err := d.Tx(ctx, func(tx context.Context) error {
		if err := d.Write(tx, db.SQL(deduct)); err != nil {
			return err
		}
		if tries++; tries == 1 { // frozen meanwhile
			begin := time.Now()
			write(t, d, ctx, db.SQL(`select set_config('lock_timeout', '20s', true),
				set_config('statement_timeout', '20s', true)`), db.SQL(deduct))
			t.Logf("another instance waited for %v", time.Since(begin).Round(10*time.Millisecond))
		}
		return d.Write(tx, db.SQL(deduct))
	})
	want := 3
	if err != nil { // if the instance sees the end of its session only after it sent the next statement
		want = 1
	}
	if err != nil && !errors.Is(err, db.ErrUnavailable) || err == nil && tries != 2 {
		t.Errorf("the frozen instance tried %d times: %v", tries, err)
	}
	testkit.Equal(t, single[int](t, d, ctx, `select total::int from counters`), want, "the row has the wrong total")
}

// If a statement of the maintenance times out for a tenant with many rows, the other tenants are still maintained.
func TestEachTenantGoesOnAfterTimeout(t *testing.T) {
	t.Parallel()
	u := migratedDatabase(t)
	d := open(t, db.Config{URL: u.app})
	for range 3 {
		id := value.NewID()
		err := d.Write(newTenant(t, d), db.SQL(`select login_claim($1, $2)::text`, id+"@farm.example", id))
		testkit.Check(t, err)
	}
	calls := 0
	err := d.EachTenant(t.Context(), func(ctx context.Context, _ string) error {
		if calls++; calls == 1 {
			return d.Write(ctx, db.SQL(`select set_config('statement_timeout', '20ms', true)`),
				db.SQL(`select pg_sleep(60)::text`))
		}
		return d.Write(ctx, addRow("kept"))
	})
	if calls != 3 || !errors.Is(err, db.ErrTimeout) {
		t.Errorf("%d of 3 tenants were visited, with the error %v", calls, err)
	}
	failed := errors.New("failed")
	calls = 0
	err = d.EachTenant(t.Context(), func(context.Context, string) error { calls++; return failed })
	if calls != 1 || err != failed {
		t.Errorf("%d tenants were visited after an error, which became %v", calls, err)
	}
}

// While all connections are in use, other calls wait.
func TestPoolExhausted(t *testing.T) {
	t.Parallel()
	d := open(t, db.Config{URL: testkit.Private().AppURL(), MaxConns: 1, Deadline: time.Hour})
	ctx := newTenant(t, d)
	h := testkit.Hold(t, testkit.Private().SuperURL(), `select pg_advisory_xact_lock(1150)`)
	taken := h.StartWaiting(1, func() {
		read(t, d, ctx, waitForever(), db.SQL(`select pg_advisory_xact_lock_shared(1150)::text`))
	})
	done := make(chan error)
	go func() { done <- d.Write(ctx, addRow("waits")) }()
	testkit.Eventually(t, "the write waits", func() bool { return d.Stats().Waiting == 1 })
	h.Commit()
	<-taken
	testkit.Check(t, <-done)
	wantRows(t, d, ctx, "waits")
}

// When the context is cancelled, the connection stays usable and a write is completed.
func TestCancelledContext(t *testing.T) {
	t.Parallel()
	d := openSingle(t)
	tenant := newTenant(t, d)
	pid := single[int](t, d, tenant, `select pg_backend_pid()`)
	ended, cancel := context.WithCancel(tenant)
	cancel()
	write(t, d, ended, addRow("before"))
	testkit.Equal(t, single[int](t, d, ended, countTenants), 1, "tenants")
	ctx, cancel := context.WithCancel(tenant)
	h := testkit.Hold(t, testkit.Private().SuperURL(), `select pg_advisory_xact_lock(1200)`)
	done := h.StartWaiting(1, func() {
		write(t, d, ctx, db.SQL(`select pg_advisory_xact_lock_shared(1200)::text`), addRow("during"))
	})
	cancel()
	h.Commit()
	<-done
	if err := d.Tx(ended, func(ctx context.Context) error {
		return errors.Join(d.Write(ctx, addRow("tx")), ctx.Err())
	}); err != nil {
		t.Error(err)
	}
	wantRows(t, d, tenant, "before", "during", "tx")
	testkit.Equal(t, single[int](t, d, tenant, `select pg_backend_pid()`), pid, "backend")
}

// terminate terminates a backend; if sleeping is set, after it has started to sleep.
func terminate(t *testing.T, super *pgx.Conn, pid int, sleeping bool) {
	t.Helper()
	until := func(what, condition string, args ...any) {
		t.Helper()
		testkit.Eventually(t, what, func() (yes bool) {
			testkit.Check(t, super.QueryRow(t.Context(), condition, args...).Scan(&yes))
			return yes
		})
	}
	until("the backend is terminated", `select coalesce((select pg_terminate_backend(pid) from pg_stat_activity
		where pid = $1 and (not $2 or wait_event = 'PgSleep')), false)`, pid, sleeping)
	until("the backend is gone", `select not exists (select from pg_stat_activity where pid = $1)`, pid)
}

func TestBackendIsKilledWhileIdle(t *testing.T) {
	t.Parallel()
	super := connect(t, testkit.Private().SuperURL())
	d := openSingle(t)
	ctx := newTenant(t, d)
	for i := range 5 {
		pid := single[int](t, d, ctx, `select pg_backend_pid()`)
		terminate(t, super, pid, false)
		if n := single[int](t, d, ctx, countTenants); n != 1 { // fails the test if the read fails
			t.Errorf("%d tenants", n)
		}

		pid = single[int](t, d, ctx, `select pg_backend_pid()`)
		terminate(t, super, pid, false)
		name := fmt.Sprint(i)
		err := d.Write(ctx, addRow(name))
		if err != nil && !errors.Is(err, db.ErrUnavailable) {
			t.Errorf("Write: %v", err)
		}
		if n := single[int](t, d, ctx, `select count(*) from counters where kind = $1`, name); n > 1 ||
			err == nil && n == 0 {
			t.Errorf("the row exists %d times, and Write returned %v", n, err)
		}
		write(t, d, ctx, addRow(name+" again"))
	}
	if s := d.Stats(); s.InUse != 0 || s.Total > 1 {
		t.Errorf("%+v", s)
	}
}

// The connection breaks during a statement. Reads and repeatable transactions are retried; other calls return
// ErrUnavailable and have no effect.
func TestBackendIsKilledAtWork(t *testing.T) {
	t.Parallel()
	super := connect(t, testkit.Private().SuperURL())
	for _, c := range []struct {
		name string
		want error
		run  func(d *db.DB, ctx context.Context, stmts ...*db.Stmt) error
	}{
		{"Read", nil, func(d *db.DB, ctx context.Context, stmts ...*db.Stmt) error { return d.Read(ctx, stmts...) }},
		{"Write", db.ErrUnavailable,
			func(d *db.DB, ctx context.Context, stmts ...*db.Stmt) error { return d.Write(ctx, stmts...) }},
		{"Tx", db.ErrUnavailable, func(d *db.DB, ctx context.Context, stmts ...*db.Stmt) error {
			return d.Tx(ctx, func(ctx context.Context) error { return d.Write(ctx, stmts...) })
		}},
		{"Tx, in its second batch", db.ErrUnavailable, func(d *db.DB, ctx context.Context, stmts ...*db.Stmt) error {
			return d.Tx(ctx, func(ctx context.Context) error {
				return errors.Join(d.Write(ctx, stmts[0]), d.Write(ctx, stmts[1:]...))
			})
		}},
		{"TxRepeatable", nil, func(d *db.DB, ctx context.Context, stmts ...*db.Stmt) error {
			return d.TxRepeatable(ctx, func(ctx context.Context) error {
				return errors.Join(d.Write(ctx, stmts[0]), d.Write(ctx, stmts[1:]...))
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := openSingle(t)
			ctx := newTenant(t, d)
			pid := single[int](t, d, ctx, `select pg_backend_pid()`)
			done := make(chan error)
			go func() {
				done <- c.run(d, ctx, addRow("once"),
					db.SQL(`select pg_sleep(case when pg_backend_pid() = $1::int then 60 else 0 end)::text`, pid))
			}()
			terminate(t, super, pid, true)
			if err := <-done; !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%v, want %v", err, c.want)
			}
			if c.want == nil {
				wantRows(t, d, ctx, "once")
			} else {
				wantRows(t, d, ctx)
			}
			if s := d.Stats(); s.InUse != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	u := migratedDatabase(t)
	d := open(t, db.Config{URL: u.app, MaxConns: 2})
	ctx := newTenant(t, d)
	super := connect(t, testkit.Private().SuperURL())
	var name string
	testkit.Check(t, connect(t, u.super).QueryRow(t.Context(), `select current_database()`).Scan(&name))
	exec(t, super, `alter database `+name+` connection limit 0`)
	exec(t, super, `
		select pg_terminate_backend(pid) from pg_stat_activity
		where usename = 'spoolwright_login' and datname = '`+name+`'`)
	for name, err := range map[string]error{
		"Read":  d.Read(ctx, db.SQL(countTenants)),
		"Write": d.Write(ctx, addRow("a")),
		"Tx":    d.Tx(ctx, func(ctx context.Context) error { return d.Write(ctx, addRow("b")) }),
	} {
		if !errors.Is(err, db.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := d.Ready(t.Context()); err == nil {
		t.Error("Ready returns nil without a database")
	}
	exec(t, super, `alter database `+name+` connection limit -1`)
	write(t, d, ctx, addRow("c"))
	wantRows(t, d, ctx, "c")
	testkit.Check(t, d.Ready(t.Context()))
}

// blockAll locks a key that sleepers wait for, and returns the function that lets them go.
func blockAll(t *testing.T, key int) (unblock func()) {
	t.Helper()
	conn := connect(t, testkit.Private().SuperURL())
	exec(t, conn, fmt.Sprintf(`select pg_advisory_lock(%d)`, key))
	return func() { exec(t, conn, fmt.Sprintf(`select pg_advisory_unlock(%d)`, key)) }
}

// waitForever returns a statement after which those of the transaction wait for a lock until the deadline of the DB.
func waitForever() *db.Stmt {
	return db.SQL(`select set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true)`)
}

// waiters counts the backends that wait for an advisory lock on behalf of the tenants.
func waiters(t *testing.T, super *pgx.Conn, application string) (n int) {
	t.Helper()
	err := super.QueryRow(t.Context(), `select count(*) from pg_stat_activity
		where application_name = $1 and wait_event_type = 'Lock' and wait_event = 'advisory'`, application).Scan(&n)
	testkit.Check(t, err)
	return n
}

// steady returns what count returns when it has not changed for a while.
func steady(t *testing.T, count func() int) int {
	t.Helper()
	last, since := count(), time.Now()
	for time.Since(since) < time.Second {
		time.Sleep(10 * time.Millisecond) // nothing shows that the number is the last one
		if n := count(); n != last {
			last, since = n, time.Now()
		}
	}
	return last
}

// Reads that take long, of however many tenants, leave connections to writes, and the reverse.
func TestReadsAndWritesLeaveConnections(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		name        string
		slow, other func(*db.DB, context.Context, ...*db.Stmt) error
		want        int // of 8 connections
	}{
		{"reads", (*db.DB).Read, (*db.DB).Write, 4},
		{"writes", (*db.DB).Write, (*db.DB).Read, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			application := "leave-" + c.name
			d := open(t, db.Config{URL: testkit.Private().AppURL() + "&application_name=" + application, MaxConns: 8,
				Deadline: time.Hour})
			super := connect(t, testkit.Private().SuperURL())
			unblock := blockAll(t, 1000+i)
			var wg sync.WaitGroup
			for range 16 {
				ctx := newBinding(t)
				wg.Go(func() {
					wait := db.SQL(`select pg_advisory_xact_lock_shared($1)::text`, 1000+i)
					if err := c.slow(d, ctx, waitForever(), wait); err != nil {
						t.Error(err)
					}
				})
			}
			with := func() int { return waiters(t, super, application) }
			testkit.Eventually(t, "all that may have a connection have one", func() bool { return with() == c.want })
			testkit.Equal(t, steady(t, with), c.want, "slow %s with a connection", c.name)
			ctx, cancel := context.WithTimeout(newBinding(t), testkit.WaitTimeout) // ends if it has to wait for slow ones
			defer cancel()
			testkit.Check(t, c.other(d, ctx, db.SQL(countTenants)))
			testkit.Check(t, d.Ready(t.Context()))
			unblock()
			wg.Wait()
		})
	}
}

// Transactions that wait for a lock of their tenant hold no connections while they wait, whether the lock is all that
// they need or comes after other statements.
func TestLockWaitsWithoutConnection(t *testing.T) {
	t.Parallel()
	const application = "lock-waits"
	d := open(t, db.Config{URL: testkit.Private().AppURL() + "&application_name=" + application, MaxConns: 8,
		Deadline: time.Hour})
	ctx := newTenant(t, d)
	super := connect(t, testkit.Private().SuperURL())
	locker := connect(t, testkit.Private().SuperURL())
	exec(t, locker, `select pg_advisory_lock(hashtextextended('catalog `+db.ActorOf(ctx).Tenant+`', 0))`)
	var wg sync.WaitGroup
	var want []string
	for i := range 10 {
		a, b, c := fmt.Sprint("a", i), fmt.Sprint("b", i), fmt.Sprint("c", i)
		want = append(want, a, b, c)
		wg.Go(func() { write(t, d, ctx, waitForever(), db.Lock("catalog"), addRow(a)) })
		wg.Go(func() {
			err := d.Tx(ctx, func(ctx context.Context) error {
				if err := d.Write(ctx, addRow(b)); err != nil {
					return err
				}
				return d.Write(ctx, waitForever(), db.Lock("catalog"), db.SQL(countTenants))
			})
			if err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			err := d.Tx(ctx, func(ctx context.Context) error {
				return d.Write(ctx, waitForever(), db.Lock("catalog"), addRow(c))
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	// Those that must wait without a connection hold one until they have failed to get the lock, which takes a while on
	// a busy machine.
	waiting := func() [2]int { return [2]int{waiters(t, super, application), int(d.Stats().InUse)} }
	testkit.Eventually(t, "two transactions wait for the lock with a connection, and no other connection is in use",
		func() bool { return waiting() == [2]int{2, 2} })
	testkit.Equal(t, steady(t, func() int { return waiters(t, super, application) }), 2,
		"transactions that wait for the lock with a connection")
	write(t, d, ctx, addRow("another write of the tenant"))
	want = append(want, "another write of the tenant")
	exec(t, locker, `select pg_advisory_unlock_all()`)
	wg.Wait()
	slices.Sort(want)
	wantRows(t, d, ctx, want...)
}

// A request that waits for a connection ends when its client disconnects, and nothing of it happens.
func TestClientDisconnectsWhileItWaits(t *testing.T) {
	t.Parallel()
	d := open(t, db.Config{URL: testkit.Private().AppURL(), MaxConns: 1, Deadline: time.Hour})
	tenant := newTenant(t, d)
	unblock := blockAll(t, 1100)
	defer unblock()
	done := make(chan error)
	go func() {
		done <- d.Read(tenant, waitForever(), db.SQL(`select pg_advisory_xact_lock_shared(1100)::text`))
	}()
	testkit.Eventually(t, "the connection is in use", func() bool { return d.Stats().InUse > 0 })
	for name, run := range map[string]func(context.Context) error{
		"Read":  func(ctx context.Context) error { return d.Read(ctx, db.SQL(countTenants)) },
		"Write": func(ctx context.Context) error { return d.Write(ctx, addRow("x")) },
		"Tx": func(ctx context.Context) error {
			return d.Tx(ctx, func(ctx context.Context) error { return d.Write(ctx, addRow("x")) })
		},
		"FindLogin": func(ctx context.Context) error { _, _, err := d.FindLogin(ctx, "x"); return err },
	} {
		ctx, cancel := context.WithCancel(tenant)
		time.AfterFunc(20*time.Millisecond, cancel)
		if err := run(ctx); !errors.Is(err, db.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: %v", name, err)
		}
	}
	unblock()
	testkit.Check(t, <-done)
	wantRows(t, d, tenant)
}

// PostgreSQL does not compile plans in the service's sessions: compiling takes longer than any of its statements.
func TestNoJIT(t *testing.T) {
	t.Parallel()
	d := openSingle(t)
	ctx := newTenant(t, d)
	testkit.Equal(t, single[string](t, d, ctx, `select current_setting('jit')`), "off", "jit")
}

// Close waits for the writes of Later.
func TestCloseWaitsForLater(t *testing.T) {
	t.Parallel()
	config := db.Config{URL: testkit.Private().AppURL()}
	d := open(t, config)
	ctx := newTenant(t, d)
	d.Later(ctx, db.SQL(`select pg_sleep(0.3)::text`), db.SQL(`update tenants set currency = 'EUR'`))
	d.Close()
	got := single[string](t, open(t, config), ctx, `select coalesce(currency, '') from tenants`)
	testkit.Equal(t, got, "EUR", "what was written later")
}
