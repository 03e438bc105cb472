package production_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"spoolwright/server"
	"spoolwright/spoolman"
	"spoolwright/tests/testkit"
)

// A run that has deducted filament is hidden when it is removed, and can be restored. Any other run is deleted.
func TestHideAndRestoreRun(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c, other := api.Operator(t), api.Operator(t)
	a := createSpool(t, c, nil)
	product := c.Post(t, "/api/v1/products", j{"name": "Lamp"}).Want(201).ID()
	create := func() string {
		return runs + "/" + c.Post(t, runs, j{"printer_name": "P", "items": []j{{"product_id": product}},
			"materials": []j{{"spool_id": a, "actual_weight_grams": 10}}}).Want(201).ID()
	}
	planned, path := create(), create()
	id := path[len(runs)+1:]
	c.Patch(t, planned, j{"status": "completed"}).Want(200)
	c.Post(t, path+"/complete", nil).Want(200)
	before := c.Get(t, path).Want(200).Shows(map[string]string{"hidden_at": "null"})

	c.Delete(t, planned).Want(204)
	c.Post(t, planned+"/restore", nil).WantError(404, "NOT_FOUND")
	c.Get(t, runs+"?hidden=true").Want(200).Shows(map[string]string{"total": "0"})
	c.Get(t, runs).Want(200).Shows(map[string]string{"total": "1"})

	c.Delete(t, path).Want(204)
	item, material := path+"/items/"+before.Text("items.0.id"), path+"/materials/"+before.Text("materials.0.id")
	for _, request := range []struct {
		method, path string
		body         any
	}{
		{"GET", path, nil}, {"DELETE", path, nil}, {"PATCH", path, j{}}, {"PATCH", path, j{"notes": "x"}},
		{"PATCH", path, j{"status": "completed"}}, {"POST", path + "/complete", nil},
		{"POST", path + "/items", j{"product_id": product}}, {"PATCH", item, j{}}, {"PATCH", item, j{"quantity": 2}},
		{"DELETE", item, nil}, {"POST", path + "/materials", j{"spool_id": a}}, {"PATCH", material, j{}},
		{"PATCH", material, j{"actual_weight_grams": 10}}, {"DELETE", material, nil},
	} {
		c.Do(t, request.method, request.path, request.body).WantError(404, "NOT_FOUND")
	}
	c.Get(t, "/api/v1/spools/"+a+"/usage").Want(200).Shows(map[string]string{"items.0.run_id": id})
	c.Get(t, runs).Want(200).Shows(map[string]string{"total": "0"})
	for query, total := range map[string]string{"": "1", "&status=completed": "1", "&status=failed": "0",
		"&printer_name=p": "1", "&sort_by=inventory_updated_at": "1", "&skip=1": "1"} {
		c.Get(t, runs+"?hidden=true"+query).Want(200).Shows(map[string]string{"total": total})
		c.Get(t, runs+"?hidden=false"+query).Want(200).Shows(map[string]string{"total": "0"})
	}
	hidden := c.Get(t, runs+"?hidden=true").Want(200).
		Shows(map[string]string{"items.0.id": id, "items.0.inventory_updated": "true"})
	if hidden.Text("items.0.hidden_at") == "null" {
		t.Errorf("hidden_at is null: %s", hidden.Body)
	}

	other.Post(t, path+"/restore", nil).WantError(404, "NOT_FOUND")
	body := func(a *testkit.Response) string { // without updated_at
		return strings.Replace(string(a.Body), `"updated_at":"`+a.Text("updated_at"), "", 1)
	}
	same := func(a *testkit.Response) bool { return body(a) == body(before) }
	for range 2 {
		if got := c.Post(t, path+"/restore", nil).Want(200); !same(got) {
			t.Errorf("restore returned %s, the run was %s", got.Body, before.Body)
		}
	}
	if got := c.Get(t, path).Want(200); !same(got) {
		t.Errorf("the run is %s, it was %s", got.Body, before.Body)
	}
	c.Get(t, runs).Want(200).Shows(map[string]string{"total": "1", "items.0.id": id, "items.0.hidden_at": "null"})
	c.Post(t, path+"/complete", nil).WantError(400, "RUN_ALREADY_COMPLETED")
	c.Delete(t, item).Want(204)
}

// A run is removed while it is completed: it is deleted and has deducted nothing, or it is hidden and its filament is
// deducted.
func TestRemoveWhileCompleting(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	a := createSpool(t, c, nil)
	completed := 0
	for range 12 {
		run := c.Post(t, runs, j{"materials": []j{{"spool_id": a, "actual_weight_grams": 1}}}).Want(201).ID()
		var all sync.WaitGroup
		for _, request := range [][2]string{{"POST", "/complete"}, {"DELETE", ""}, {"POST", "/complete"}} {
			all.Go(func() {
				if answer, err := c.Send(request[0], runs+"/"+run+request[1], nil); err != nil ||
					answer.Status >= 500 {
					t.Errorf("%v %+v", err, answer)
				}
			})
		}
		all.Wait()
		c.Get(t, runs+"/"+run).WantError(404, "NOT_FOUND")
		if c.Post(t, runs+"/"+run+"/restore", nil).Status == 200 {
			c.Get(t, runs+"/"+run).Want(200).Shows(map[string]string{"inventory_updated": "true"})
			completed++
		}
	}
	if got, want := remaining(t, c, a), fmt.Sprint(1000-completed); got != want {
		t.Errorf("%s g remain after %d completed runs, want %s", got, completed, want)
	}
	c.Get(t, runs).Want(200).Shows(map[string]string{"total": fmt.Sprint(completed)})
	c.Get(t, "/api/v1/spools/"+a+"/usage").Want(200).Shows(map[string]string{"total": fmt.Sprint(completed + 1)})
}

// Nothing changes a run while it is hidden, nor its items and materials.
func TestHiddenStaysUnchanged(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, testkit.Features...).Operator(t)
	spool, product := c.NewSpool(t, 500, nil), c.NewProduct(t, "A", 10)
	run := c.Post(t, runs, j{"status": "in_progress", "items": []j{{"product_id": product}},
		"materials": []j{{"spool_id": spool, "actual_weight_grams": 10}}}).Want(201)
	path := runs + "/" + run.ID()
	c.Post(t, path+"/complete", nil).Want(200)
	item, material := run.Text("items.0.id"), run.Text("materials.0.id")
	c.WantHiddenUnchanged(t, path, j{"notes": "x", "quality_rating": 1, "printer_name": "x", "queue_position": 2,
		"completed_at": "2024-01-15T10:00:00Z", "actual_print_time_hours": 1}, map[string]any{
		"POST /items":                   j{"product_id": product},
		"PATCH /items/" + item:          j{"quantity": 2, "successful_quantity": 2},
		"DELETE /items/" + item:         nil,
		"POST /materials":               j{"spool_id": spool},
		"PATCH /materials/" + material:  j{"actual_weight_grams": 20},
		"DELETE /materials/" + material: nil,
		"POST /complete":                nil,
		"POST /fail":                    j{"reason": "other"},
		"POST /cancel":                  nil,
		"POST /reopen":                  nil,
		"POST /correct":                 j{"materials": []j{{"id": material, "actual_weight_grams": 20}}},
		"POST /move":                    j{"place": 1},
	})
	c.Get(t, "/api/v1/spools/"+spool).Want(200).Shows(map[string]string{"remaining_weight_grams": "490"})
}

// Nothing changes a run while it is hidden that has not ended, nor the estimates and the plan that it had before its
// product changed.
func TestHiddenPlanStaysUnchanged(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{Change: func(c *server.Config) {
		c.Surfaces = []server.Surface{spoolman.Surface(c.DB)}
	}}, testkit.Features...).Operator(t)
	spool, second, product := c.NewSpool(t, 500, nil), c.NewSpool(t, 500, nil), c.NewProduct(t, "A", 10)
	run := c.Post(t, runs, j{"items": []j{{"product_id": product}}, "materials": []j{
		{"spool_id": spool, "estimated_weight_grams": 10}, {"spool_id": second}}}).Want(201)
	path, item, material := runs+"/"+run.ID(), "/items/"+run.Text("items.0.id"), "/materials/"+run.Text("materials.1.id")
	c.Post(t, path+"/start", nil).Want(200)
	c.Do(t, "PUT", "/spoolman/api/v1/spool/1/use", j{"use_weight": 5}).Want(200) // so that the run is hidden
	c.Patch(t, path, j{"status": "pending"}).Want(200)
	bill := "/api/v1/products/" + product
	c.Patch(t, bill+"/materials/"+c.Get(t, bill).Want(200).Text("materials.0.id"), j{"weight_grams": 20}).Want(200)
	before := c.Get(t, path+"/check").Want(200).Shows(map[string]string{"steps.0.code": "BILL_OF_MATERIALS_CHANGED"})
	c.WantHiddenUnchanged(t, path, j{"notes": "x", "status": "in_progress", "started_at": "2024-01-15T10:00:00Z",
		"estimated_print_time_hours": 3, "estimated_total_filament_grams": 3}, map[string]any{
		"POST /items":                    j{"product_id": product},
		"PATCH " + item:                  j{"quantity": 2},
		"DELETE " + item:                 nil,
		"POST /materials":                j{"spool_id": second, "estimated_weight_grams": 20},
		"PATCH " + material:              j{"estimated_weight_grams": 20},
		"POST " + material + "/exchange": j{"spool_id": spool},
		"DELETE " + material:             nil,
		"POST /start":                    nil,
		"POST /move":                     j{"place": 1},
		"POST /replan":                   nil,
		"POST /complete":                 nil,
		"POST /fail":                     j{"reason": "other"},
		"POST /cancel":                   nil,
	})
	testkit.Equal(t, string(c.Get(t, path+"/check").Want(200).Body), string(before.Body), "the check of the run")
}

// A removed run that has not ended waits in no queue and for no confirmation, reserves nothing, gets no reports, and
// keeps no printer busy.
func TestHiddenRunIsOver(t *testing.T) {
	t.Parallel()
	api := newFarm(t)
	for name, test := range map[string]struct {
		status     string
		hasPrinter bool
	}{
		"in progress":       {"in_progress", true},
		"without a printer": {"paused", false},
		"completed":         {"completed", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := api.Operator(t)
			spool, product := createSpool(t, c, nil), c.NewProduct(t, "LAMP", 50)
			printer := c.Post(t, printersURL, j{"name": "MK4"}).Want(201).ID()
			body := j{"status": "in_progress", "started_at": "2024-01-15T10:00:00Z", "estimated_print_time_hours": 1,
				"materials": []j{{"spool_id": spool, "estimated_weight_grams": 100}}}
			if test.hasPrinter {
				body["printer_id"] = printer
				c.Do(t, "PUT", printersURL+"/"+printer+"/slots/1", j{"spool_id": spool}).Want(200)
			}
			run := c.Post(t, runs, body).Want(201).ID()
			report := func(grams int, of string) {
				t.Helper()
				c.Do(t, "PUT", "/spoolman/api/v1/spool/1/use", j{"use_weight": grams}).Want(200)
				c.Get(t, "/api/v1/spools/"+spool+"/usage").Want(200).
					Shows(map[string]string{"items.0.kind": "printed", "items.0.run_id": of})
			}
			report(10, run)
			c.Patch(t, runs+"/"+run, j{"status": test.status}).Want(200)
			c.Delete(t, runs+"/"+run).Want(204)
			report(5, "null")
			c.Get(t, "/api/v1/queue").Want(200).Shows(map[string]string{"total": "0"})
			for _, hidden := range []string{"false", "true"} {
				c.Get(t, runs+"?needs=confirmation&hidden="+hidden).Want(200).Shows(map[string]string{"total": "0"})
			}
			c.Get(t, "/api/v1/products/"+product+"/availability").Want(200).
				Shows(map[string]string{"materials.0.reserved_grams": "0"})
			next := c.Post(t, runs, j{"printer_id": printer}).Want(201).ID()
			c.Post(t, runs+"/"+next+"/start", nil).Want(200)
		})
	}
}

// A report of a removed spool finds no spool, and changes nothing about the run that prints, whether or not it has the
// spool.
func TestReportOfRemovedSpool(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	printer := c.Post(t, printersURL, j{"name": "MK4", "slots": 2}).Want(201).ID()
	spools := []string{createSpool(t, c, nil), createSpool(t, c, nil)}
	run := runs + "/" + c.Post(t, runs, j{"printer_id": printer, "status": "in_progress",
		"materials": []j{{"spool_id": spools[0]}}}).Want(201).ID()
	for i, spool := range spools {
		c.Do(t, "PUT", fmt.Sprintf("%s/%s/slots/%d", printersURL, printer, i+1), j{"spool_id": spool}).Want(200)
		c.Delete(t, "/api/v1/spools/"+spool).Want(204)
	}
	before := c.Get(t, run).Want(200)
	for _, number := range []string{"1", "2"} {
		c.Do(t, "PUT", "/spoolman/api/v1/spool/"+number+"/use", j{"use_weight": 10}).Want(404)
	}
	testkit.Equal(t, string(c.Get(t, run).Want(200).Body), string(before.Body), "the run")
}
