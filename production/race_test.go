package production_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/orders"
	"spoolwright/production"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// What a request refers to may come back while the request is rejected because it was missing. The response is then
// the error that was right before, never a 503. The test locks a table that no write of the request reads, so that a
// read after it waits, and brings back what was missing before that read.
func TestMissingThingsComeBack(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t, db.Config{})
	c := testkit.New(t, testkit.Options{DB: d}, inventory.Routes, catalog.Routes, production.Routes(orders.Runs),
		orders.Routes).Operator(t)
	spool, known := createSpool(t, c, nil), createSpool(t, c, nil)
	product := c.Post(t, "/api/v1/products", j{"name": "Lamp"}).Want(201).ID()
	order := c.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": product}}}).Want(201)
	path := runs + "/" + c.Post(t, runs, j{}).Want(201).ID()
	material := path + "/materials/" + c.Post(t, path+"/materials", j{"spool_id": known}).Want(201).ID()
	item := path + "/items/" + c.Post(t, path+"/items", j{"product_id": product}).Want(201).ID()
	c.Delete(t, "/api/v1/spools/"+spool).Want(204)
	c.Patch(t, "/api/v1/orders/"+order.ID(), j{"status": "cancelled"}).Want(200)
	linked := j{"product_id": product, "order_item_id": order.Text("items.0.id")}

	ended := runs + "/" + c.Post(t, runs, j{"materials": []j{{"spool_id": known, "actual_weight_grams": 1}},
		"items": []j{{"product_id": product}}}).Want(201).ID()
	run := c.Post(t, ended+"/complete", nil).Want(200).ID()
	whole := c.Get(t, ended).Want(200)
	c.Delete(t, ended).Want(204)
	endedItem := ended + "/items/" + whole.Text("items.0.id")
	endedMaterial := ended + "/materials/" + whole.Text("materials.0.id")

	const spoolBack = `update spools set hidden_at = null where id = $1`
	const orderBack = `update orders set status = 'received' where id = $1`
	const runBack = `update production_runs set hidden_at = null where id = $1`
	for _, test := range []struct {
		method, path string
		body         any
		table        string
		back, id     string
		want         []int
	}{
		{"POST", path + "/materials", j{"spool_id": spool}, "products", spoolBack, spool, []int{400}},
		{"PATCH", material, j{"spool_id": spool}, "products", spoolBack, spool, []int{400}},
		{"POST", path + "/items", linked, "spools", orderBack, order.ID(), []int{422}},
		{"PATCH", item, linked, "spools", orderBack, order.ID(), []int{422}},
		{"PATCH", ended, j{"status": "completed"}, "run_items", runBack, run, []int{200, 404}},
		{"PATCH", endedItem, j{"quantity": 2}, "spools", runBack, run, []int{200, 404}},
		{"PATCH", endedMaterial, whole.Value("materials.0"), "products", runBack, run, []int{200, 404}},
		{"DELETE", endedMaterial, nil, "products", runBack, run, []int{400, 404}},
	} {
		for _, key := range []string{"", "key of " + test.method + test.path} {
			lock := "lock table " + test.table + " in access exclusive mode"
			got := during(t, c, lock, func() (*testkit.Response, error) {
				sender := c
				if key != "" && test.method == "POST" {
					sender = c.With("Idempotency-Key", key)
				}
				return sender.Send(test.method, test.path, test.body)
			}, test.back, test.id)
			if !slices.Contains(test.want, got.Status) {
				t.Errorf("%s %s: %d %s, want %v", test.method, test.path, got.Status, got.Body, test.want)
			}
			switch test.back { // hide it again
			case spoolBack:
				c.Delete(t, "/api/v1/spools/"+spool).Want(204)
			case orderBack:
				c.Patch(t, "/api/v1/orders/"+order.ID(), j{"status": "cancelled"}).Want(200)
			case runBack:
				c.Delete(t, ended).Want(204)
			}
		}
	}
}

// A restore waits for a delete that has begun, and shows what it hid. Otherwise it could answer 404.
func TestRestoreWhileRemoved(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t, db.Config{})
	c := testkit.New(t, testkit.Options{DB: d}, inventory.Routes, production.Routes(orders.Runs)).Operator(t)
	spool, run := createSpool(t, c, nil), c.Post(t, runs, j{}).Want(201).ID()
	for _, row := range [][3]string{{"spools", "/api/v1/spools/", spool}, {"production_runs", runs + "/", run}} {
		remove := "update " + row[0] + " set hidden_at = now() where id = '" + row[2] + "'"
		restored := during(t, c, remove, func() (*testkit.Response, error) {
			return c.Send("POST", row[1]+row[2]+"/restore", nil)
		}, `update spools set color = color where id = $1`, value.NewID())
		testkit.Equal(t, restored.Status, 200, "%s: %s", row[0], restored.Body)
		c.Get(t, row[1]+row[2]).Want(200)
	}
}

// A change of a run decides by what the transaction left for which it waited.
func TestChangesWaitForRun(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	const (
		started = `update production_runs set status = 'in_progress', started_at = now(), updated_at = now() where id = $1`
		ended   = `update production_runs set status = 'completed', completed_at = now(), deducted_at = now(),
			updated_at = now() where id = $1`
	)
	for _, test := range []struct {
		method, path, change string
		status               int
		code                 string
	}{
		{"POST", "/complete", ended, 400, "RUN_ALREADY_COMPLETED"},
		{"POST", "/materials", ended, 400, "RUN_ALREADY_COMPLETED"},
		{"POST", "/exchange", ended, 400, "RUN_NOT_OPEN"},
		{"POST", "/replan", started, 409, "RUN_STARTED"},
		{"DELETE", "", ended, 204, ""},
	} {
		t.Run(test.method+test.path, func(t *testing.T) {
			t.Parallel()
			c := api.Operator(t)
			spool, product := c.NewSpool(t, 500, nil), c.NewProduct(t, "A", 10)
			run := c.Post(t, runs, j{"items": []j{{"product_id": product}},
				"materials": []j{{"spool_id": spool, "actual_weight_grams": 1}}}).Want(201)
			path, body := runs+"/"+run.ID()+test.path, any(nil)
			switch test.path {
			case "/exchange":
				path = runs + "/" + run.ID() + "/materials/" + run.Text("materials.0.id") + test.path
				fallthrough
			case "/materials":
				body = j{"spool_id": c.NewSpool(t, 500, nil)}
			}
			got := during(t, c, `select from production_runs where id = '`+run.ID()+`' for no key update`,
				func() (*testkit.Response, error) { return c.Send(test.method, path, body) }, test.change, run.ID())
			if got.Status != test.status || !strings.Contains(string(got.Body), test.code) {
				t.Errorf("%d %s, want %d %s", got.Status, got.Body, test.status, test.code)
			}
			if test.method == "DELETE" { // hidden, because it had deducted filament
				c.Post(t, path+"/restore", nil).Want(200)
			}
		})
	}
}

// What a run takes from a spool leaves what the transaction left for which it waited.
func TestRunsWaitForSpools(t *testing.T) {
	t.Parallel()
	api := newFarm(t)
	for _, operation := range []string{"complete", "correct", "exchange"} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			c := api.Operator(t)
			spool, other := createSpool(t, c, nil), createSpool(t, c, nil)
			run := c.Post(t, runs, j{"materials": []j{{"spool_id": spool, "actual_weight_grams": 100}}}).Want(201)
			path, material := runs+"/"+run.ID(), run.Text("materials.0.id")
			request, body, locked := path+"/"+operation, any(nil), spool
			switch operation {
			case "correct":
				c.Post(t, path+"/complete", nil).Want(200)
				body, locked = j{"materials": []j{{"id": material, "to_spool_id": other}}}, other
			case "exchange":
				request, body = path+"/materials/"+material+"/exchange", j{"spool_id": other, "until_empty": true}
			}
			got := during(t, c, `select from spools where id = '`+locked+`' for no key update`,
				func() (*testkit.Response, error) { return c.Send("POST", request, body) },
				`update spools set remaining_weight_grams = 500, updated_at = now() where id = $1`, locked)
			testkit.Equal(t, got.Status, 200, "%s", got.Body)
			if operation == "exchange" {
				c.Get(t, path).Want(200).Shows(map[string]string{"materials.0.actual_weight_grams": "500"})
			} else {
				testkit.Equal(t, remaining(t, c, locked), "400", "grams that remain")
			}
		})
	}
}

// A report of a printer that waits for its run is not the run's if the run does not print then, whether or not the run
// had the spool.
func TestReportsWaitForRun(t *testing.T) {
	t.Parallel()
	api := newFarm(t)
	for _, number := range []string{"1", "2"} {
		t.Run(number, func(t *testing.T) {
			t.Parallel()
			c := api.Operator(t)
			printer := c.Post(t, printersURL, j{"name": "MK4", "slots": 2}).Want(201).ID()
			spools := []string{createSpool(t, c, nil), createSpool(t, c, nil)}
			for i, spool := range spools {
				c.Do(t, "PUT", fmt.Sprintf("%s/%s/slots/%d", printersURL, printer, i+1), j{"spool_id": spool}).Want(200)
			}
			run := c.Post(t, runs, j{"printer_id": printer, "status": "in_progress",
				"materials": []j{{"spool_id": spools[0]}}}).Want(201).ID()
			got := during(t, c, `select from production_runs where id = '`+run+`' for no key update`,
				func() (*testkit.Response, error) {
					return c.Send("PUT", "/spoolman/api/v1/spool/"+number+"/use", j{"use_weight": 10})
				}, `update production_runs set status = 'pending', updated_at = clock_timestamp() where id = $1`, run)
			testkit.Equal(t, got.Status, 200, "%s", got.Body)
			c.Get(t, runs+"/"+run).Want(200).Shows(map[string]string{"materials.#": "1",
				"materials.0.reported_grams": "null"})
		})
	}
}

// during takes a lock, sends the request, and waits until the request waits for that lock, or is answered. Then it
// commits a change with the id, in the transaction that has the lock, and returns the response.
func during(
	t *testing.T, c *testkit.Client, lock string, send func() (*testkit.Response, error), change, id string,
) (answer *testkit.Response) {
	t.Helper()
	var err error
	h := c.Hold(t, lock)
	done := h.Start(1, func() { answer, err = send() })
	h.Exec(change, id)
	h.Commit()
	if <-done; err != nil {
		t.Fatal(err)
	}
	return answer
}
