package blackbox_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
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

	h := c.Hold(t, `update spools set remaining_weight_grams = 500 where id = '`+first+`'`, `
		insert into spool_usage (spool_id, kind, before_grams, after_grams) values ('`+first+`', 'edited', 1000, 500)`)
	var answer *httptest.ResponseRecorder
	done := h.StartWaiting(1, func() { answer = callHandler(c, "POST", run+"/complete", nil) })
	// This fails if complete, which waits for the first spool, has locked the second.
	c.Hold(t, `select from spools where id = '`+second+`' for no key update nowait`).Commit()
	h.Commit()
	if <-done; answer.Code != 200 {
		t.Fatalf("complete: %d %s", answer.Code, answer.Body)
	}
	// complete deducts from the weight that the other transaction committed.
	c.Get(t, "/api/v1/spools/"+first+"/usage").Shows(map[string]string{
		"items.0.kind": "run", "items.0.before_grams": "500", "items.0.after_grams": "490",
	})
}

// TestMaterialChangesWaitForComplete checks that adding, changing and removing a material of a run wait until a
// running complete has ended, and then get an error. Otherwise complete would deduct other weights than the materials
// show. Removing the run waits too, and then hides it instead of deleting it.
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

			// complete locks the run and waits for the spool. The change waits for complete, or gets a response.
			h := c.Hold(t, `select from spools where id = '`+idOf(spool)+`' for update`)
			var completed, a *httptest.ResponseRecorder
			complete := h.StartWaiting(1, func() { completed = callHandler(c, "POST", run+"/complete", nil) })
			change := h.Start(2, func() { a = callHandler(c, test.method, path, body) })
			h.Commit()
			<-complete
			<-change
			testkit.Equal(t, completed.Code, 200, "complete")
			if test.name == "RemoveRun" {
				testkit.Equal(t, a.Code, 204, "%s %s: %s", test.method, path, a.Body)
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
				h := c.Hold(t, `select from production_runs where id = '`+idOf(run)+`' for no key update`)
				var a *httptest.ResponseRecorder
				change := h.StartWaiting(1, func() { a = callHandler(c, method, path, body) })
				h.Commit()
				if <-change; a.Code > 204 {
					t.Errorf("%s %s: %d %s", method, path, a.Code, a.Body)
				}
			})
		}
	}
}

// TestDeductionWaitsForLock checks what docs/limits.md promises of locks: a request waits for a lock that another
// transaction holds, and then goes on with what that transaction left. If the lock is held for longer, the request
// gets 503 and changes nothing, and the same request works later.
func TestDeductionWaitsForLock(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	for name, gaveUp := range map[string]bool{"Released": false, "Held": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := w.api.Operator(t)
			spool := "/api/v1/spools/" + idOf(createSpool(t, c, testkit.JSON{"net_weight_grams": 1000}))
			h := c.Hold(t, `update spools set remaining_weight_grams = 500 where id = '`+idOf(spool)+`'`, `
				insert into spool_usage (spool_id, kind, before_grams, after_grams)
				values ('`+idOf(spool)+`', 'edited', 1000, 500)`)
			deduct := func() *httptest.ResponseRecorder {
				return callHandler(c, "POST", spool+"/deduct", testkit.JSON{"weight_grams": 100})
			}
			var a *httptest.ResponseRecorder
			done := h.StartWaiting(1, func() { a = deduct() })
			if gaveUp {
				<-done // while the lock is held
			}
			h.Commit()
			if <-done; gaveUp {
				if a.Code != 503 || a.Header().Get("Retry-After") == "" || !strings.Contains(a.Body.String(), `"UNAVAILABLE"`) {
					t.Fatalf("while the lock was held: %d %s", a.Code, a.Body)
				}
				c.Get(t, spool).Shows(map[string]string{"remaining_weight_grams": "500"})
				a = deduct()
			}
			testkit.Equal(t, a.Code, 200, "the deduction: %s", a.Body)
			c.Get(t, spool).Shows(map[string]string{"remaining_weight_grams": "400"})
			c.Get(t, spool+"/usage").Shows(map[string]string{"total": "3", "items.0.kind": "deducted",
				"items.0.before_grams": "500", "items.0.after_grams": "400"})
		})
	}
}
