package blackbox_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"spoolwright/testkit"
)

// TestCompleteLocksSpoolsInOrder checks that complete locks all spools of a run before it reads their weights, in the
// order of their ids, so that two runs with the same spools cannot deadlock. A transaction of the test changes the
// spool with the lower id and holds its lock while complete runs.
func TestCompleteLocksSpoolsInOrder(t *testing.T) {
	t.Parallel()
	c := newUnlimitedAPI(t).api.Operator(t)
	first := idOf(createSpool(t, c, testkit.JSON{"net_weight_grams": 1000}))
	second := idOf(createSpool(t, c, testkit.JSON{"net_weight_grams": 1000})) // ids are ascending
	run, _ := createRun(t, c, "", 0)
	for _, id := range []string{second, first} {
		material := testkit.JSON{"spool_id": id, "spool_weight_before_grams": 100, "spool_weight_after_grams": 90}
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
	super := connectSuper(t)
	eventually(t, "complete waits for the first spool", func() bool {
		return blockedBy(t, super, holder.PgConn().PID()) != 0
	})
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

// TestMaterialChangesWaitForComplete checks that adding, changing and removing a material of a run wait until a running
// complete has ended, and then get an error. Otherwise complete would deduct other weights than the materials show.
// Removing the run waits too, and then hides it instead of deleting it.
func TestMaterialChangesWaitForComplete(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	for _, test := range []struct {
		name, method string
		body         any
	}{
		{"Add", "POST", testkit.JSON{}},
		{"Change", "PATCH", testkit.JSON{"spool_weight_after_grams": 1}},
		{"Remove", "DELETE", nil},
		{"RemoveRun", "DELETE", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := w.api.Operator(t)
			spool := createSpool(t, c, nil)
			run, material := createRun(t, c, spool, 2)
			path, body := material, test.body
			if test.method == "POST" {
				path, body = run+"/materials", testkit.JSON{"spool_id": idOf(spool)}
			}
			if test.name == "RemoveRun" {
				path = run
			}

			// A transaction locks the spool. complete locks the run and waits for the spool.
			holder, held := beginAs(t, c)
			_, err := held.Exec(t.Context(), `select from spools where id = $1 for update`, idOf(spool))
			check(t, err)
			complete, change := make(chan int, 1), make(chan *httptest.ResponseRecorder, 1)
			go func() { complete <- callHandler(c, "POST", run+"/complete", nil).Code }()
			super := connectSuper(t)
			var pid uint32
			eventually(t, "complete waits for the spool", func() bool {
				pid = blockedBy(t, super, holder.PgConn().PID())
				return pid != 0
			})
			go func() { change <- callHandler(c, test.method, path, body) }()
			eventually(t, "the change waits for complete, or gets a response", func() bool {
				return len(change) > 0 || blockedBy(t, super, pid) != 0
			})
			check(t, held.Rollback(t.Context()))

			if status := <-complete; status != 200 {
				t.Errorf("complete: %d, want 200", status)
			}
			if a := <-change; test.name == "RemoveRun" {
				if a.Code != 204 {
					t.Errorf("%s %s: %d %s, want 204", test.method, path, a.Code, a.Body)
				}
				c.Post(t, run+"/restore", nil).Want(200).Shows(map[string]string{"inventory_updated": "true"})
			} else if a.Code != 400 || !strings.Contains(a.Body.String(), "RUN_ALREADY_COMPLETED") {
				t.Errorf("%s %s: %d %s, want 400 RUN_ALREADY_COMPLETED", test.method, path, a.Code, a.Body)
			}
		})
	}
}

// TestNestedChangesWaitForRun checks that each change of a run's items and materials waits for a transaction that has
// locked the run. An edit with If-Match locks it and then compares the ETag, which covers the items and materials.
func TestNestedChangesWaitForRun(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	for _, list := range []string{"items", "materials"} {
		for _, method := range []string{"POST", "PATCH", "DELETE"} {
			t.Run(method+list, func(t *testing.T) {
				t.Parallel()
				c := w.api.Operator(t)
				spool := createSpool(t, c, nil)
				run, path := createRun(t, c, spool, 2)
				var body any = testkit.JSON{"spool_id": idOf(spool)}
				if list == "items" {
					body = testkit.JSON{"product_id": idOf(createProduct(t, c, 10))}
					path = c.Post(t, run+"/items", body).Want(201).Header.Get("Location")
				}
				switch method {
				case "POST":
					path = run + "/" + list
				case "DELETE":
					body = nil
				}
				holder, held := beginAs(t, c)
				_, err := held.Exec(t.Context(), `select from production_runs where id = $1 for no key update`, idOf(run))
				check(t, err)
				change := make(chan *httptest.ResponseRecorder, 1)
				go func() { change <- callHandler(c, method, path, body) }()
				super := connectSuper(t)
				eventually(t, "the change waits for the run, or gets a response", func() bool {
					return len(change) > 0 || blockedBy(t, super, holder.PgConn().PID()) != 0
				})
				if len(change) > 0 {
					t.Error("the change did not wait for the run")
				}
				check(t, held.Rollback(t.Context()))
				if a := <-change; a.Code > 204 {
					t.Errorf("%s %s: %d %s", method, path, a.Code, a.Body)
				}
			})
		}
	}
}

// beginAs begins a transaction of the service's login that is bound to the client's tenant.
func beginAs(t *testing.T, c *testkit.Client) (*pgx.Conn, pgx.Tx) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), testkit.Private().AppURL())
	check(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	tx, err := conn.Begin(t.Context())
	check(t, err)
	_, err = tx.Exec(t.Context(), `select bind_tenant($1, null, null)`, c.Actor.Tenant)
	check(t, err)
	return conn, tx
}

// blockedBy returns the process id of a backend that waits for a lock of the backend holder, or 0. Conn may be in a
// transaction, which does not see new processes in pg_stat_activity after it has read that once.
func blockedBy(t *testing.T, conn *pgx.Conn, holder uint32) (pid uint32) {
	t.Helper()
	const query = `select coalesce(min(pid), 0) from pg_locks
		where not granted and $1::int = any (pg_blocking_pids(pid))`
	check(t, conn.QueryRow(t.Context(), query, holder).Scan(&pid))
	return pid
}
