package blackbox_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/jackc/pgx/v5"

	"spoolwright/auth/authtest"
	"spoolwright/db/dbtest"
)

// TestCompleteLocksSpoolsInOrder checks that complete locks all spools of a run before it reads their weights, in the
// order of their ids, so that two runs with the same spools cannot deadlock. A transaction of the test changes the
// spool with the lower id and holds its lock while complete runs.
func TestCompleteLocksSpoolsInOrder(t *testing.T) {
	t.Parallel()
	c := newUnlimitedAPI(t).api.Operator(t)
	first := idOf(createSpool(t, c, authtest.JSON{"net_weight_grams": 1000}))
	second := idOf(createSpool(t, c, authtest.JSON{"net_weight_grams": 1000})) // ids are ascending
	run, _ := createRun(t, c, "", 0)
	for _, id := range []string{second, first} {
		material := authtest.JSON{"spool_id": id, "spool_weight_before_grams": 100, "spool_weight_after_grams": 90}
		c.Post(t, run+"/materials", material).Want(201)
	}

	holder, held := beginAs(t, c)
	_, err := held.Exec(t.Context(), `update spools set remaining_weight_grams = 500 where id = $1`, first)
	check(t, err)
	_, err = held.Exec(t.Context(), `
		insert into spool_usage (spool_id, kind, before_grams, after_grams) values ($1, 'edited', 1000, 500)`, first)
	check(t, err)

	done := make(chan *httptest.ResponseRecorder, 1)
	go func() { done <- callHandler(c, "POST", run+"/complete", nil) }()
	waitBlocked(t, holder)
	_, other := beginAs(t, c)
	const lock = `select from spools where id = $1 for no key update nowait`
	if _, err := other.Exec(t.Context(), lock, second); err != nil {
		t.Errorf("complete waits for the first spool, but has locked the second: %v", err)
	}
	check(t, other.Rollback(t.Context()))
	check(t, held.Commit(t.Context()))

	if a := <-done; a.Code != 200 {
		t.Fatalf("complete: %d %s", a.Code, a.Body)
	}
	// complete deducts from the weight that the other transaction committed.
	c.Get(t, "/api/v1/spools/"+first+"/usage").Shows(map[string]string{
		"items.0.kind": "run", "items.0.before_grams": "500", "items.0.after_grams": "490",
	})
}

// beginAs begins a transaction of the service's login that is bound to the client's tenant.
func beginAs(t *testing.T, c *authtest.Client) (*pgx.Conn, pgx.Tx) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dbtest.Private().AppURL())
	check(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	tx, err := conn.Begin(t.Context())
	check(t, err)
	_, err = tx.Exec(t.Context(), `select bind_tenant($1, null, null)`, c.Actor.Tenant)
	check(t, err)
	return conn, tx
}

// waitBlocked waits until another connection waits for a lock that holder has.
func waitBlocked(t *testing.T, holder *pgx.Conn) {
	t.Helper()
	conn := connectSuper(t)
	eventually(t, "a connection waits for the lock", func() bool {
		var waiting bool
		check(t, conn.QueryRow(t.Context(), `
			select exists (select from pg_stat_activity where $1::int = any (pg_blocking_pids(pid)))`,
			holder.PgConn().PID()).Scan(&waiting))
		return waiting
	})
}
