package production_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"spoolwright/testkit"
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
