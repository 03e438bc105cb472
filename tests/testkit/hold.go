package testkit

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/db"
)

// A Holder is a transaction of the superuser. The requests of a test wait for its locks.
type Holder struct {
	tb testing.TB
	tx pgx.Tx
}

// Hold begins a transaction in the database of the client, bound to the client's tenant, and executes the statements.
// The test must call Commit.
func (c *Client) Hold(tb testing.TB, statements ...string) *Holder {
	tb.Helper()
	var name string
	ctx := db.As(context.Background(), db.Actor{Tenant: c.Actor.Tenant})
	Check(tb, c.API.DB.Read(ctx, db.SQL(`select current_database()::text`).Into(&name)))
	url := strings.Replace(private.SuperURL(), "@/spoolwright?", "@/"+name+"?", 1)
	tenant := `select set_config('app.tenant_id', '` + c.Actor.Tenant + `', true)`
	return Hold(tb, url, append([]string{tenant}, statements...)...)
}

// Hold begins a transaction and executes the statements. The test must call Commit.
func Hold(tb testing.TB, url string, statements ...string) *Holder {
	tb.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	Check(tb, err)
	tb.Cleanup(func() { conn.Close(context.Background()) })
	h := &Holder{tb: tb}
	if h.tx, err = conn.Begin(context.Background()); err != nil {
		tb.Fatal(err)
	}
	for _, sql := range append([]string{`set local lock_timeout = '3min'`}, statements...) {
		h.Exec(sql)
	}
	return h
}

// Exec executes a statement in the transaction.
func (h *Holder) Exec(sql string, args ...any) {
	h.tb.Helper()
	if _, err := h.tx.Exec(context.Background(), sql, args...); err != nil {
		h.tb.Fatalf("%s: %v", sql, err)
	}
}

// Start calls do in another goroutine. It returns when n backends wait for the transaction or for each other, or when
// do has returned. The channel is closed when do returns. The test ends if neither happens within WaitTimeout.
func (h *Holder) Start(n int, do func()) (done chan struct{}) {
	h.tb.Helper()
	done = make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	// Within a transaction, pg_stat_activity shows no new processes after it has been read once.
	const query = `
		with recursive waits as (
			select pg_backend_pid() as pid
			union
			select l.pid from waits w, pg_locks l where not l.granted and w.pid = any (pg_blocking_pids(l.pid))
		)
		select count(*) - 1 from waits`
	begin := time.Now()
	for waiting := 0; waiting < n; {
		if time.Since(begin) > WaitTimeout {
			h.tb.Fatalf("%d backends wait for the transaction, want %d", waiting, n)
		}
		select {
		case <-done:
			return done
		case <-time.After(time.Millisecond):
		}
		if err := h.tx.QueryRow(context.Background(), query).Scan(&waiting); err != nil {
			h.tb.Fatal(err)
		}
	}
	return done
}

// StartWaiting is Start for a function that must wait: the test fails if do returns before it waits.
func (h *Holder) StartWaiting(n int, do func()) (done chan struct{}) {
	h.tb.Helper()
	done = h.Start(n, do)
	select {
	case <-done:
		h.tb.Error("the request did not wait for the lock")
	default:
	}
	return done
}

// Commit commits the transaction, so that waiting requests continue.
func (h *Holder) Commit() {
	h.tb.Helper()
	if err := h.tx.Commit(context.Background()); err != nil {
		h.tb.Fatal(err)
	}
}

// CheckLevels checks the stock levels, the pieces and the orders of the client's farm, as the service does after
// changes of its stock. It returns how many transactions have asked for that since the last call.
func (c *Client) CheckLevels(tb testing.TB) (signals int) {
	tb.Helper()
	h := c.Hold(tb)
	Check(tb, h.tx.QueryRow(context.Background(), `
		with gone as (delete from queue_signals where tenant_id = $1 and kind = 'stock' returning item_id)
		select count(*) from gone`, c.Actor.Tenant).Scan(&signals))
	h.Commit()
	Check(tb, c.API.DB.Write(db.As(context.Background(), db.Actor{Tenant: c.Actor.Tenant}),
		db.SQL(`select check_levels()::text`), db.SQL(`select check_pieces()::text`)))
	return signals
}
