package planning_test

import (
	"testing"

	"spoolwright/tests/testkit"
)

// A run that is outdated is replaced by what a plan of its pieces has now.
func TestReplan(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	f := farm{api.Operator(t), t}
	f.printer(j{"name": "MK4"})
	f.spool("Black", 1000, 1000)
	lamp := f.product("Black", 100, 60, 2)
	order := f.order(lamp, 5)
	item := order + "/items/" + f.Get(t, order).Want(200).Text("items.0.id")
	created := f.Post(t, order+"/plan", j{"create": true}).Want(200)
	created.WantLen(t, "runs", 3)
	run := func(i string) string { return runsURL + "/" + created.Text("runs."+i+".id") }
	replan := func(run string, runs int) *testkit.Response {
		t.Helper()
		plan := f.Post(t, run+"/replan", nil).Want(200).Shows(map[string]string{"created": "true"})
		plan.WantLen(t, "runs", runs)
		f.Get(t, run).WantError(404, "NOT_FOUND")
		return plan
	}

	// The other runs print all that the order needs now, and then as much as it lacks.
	f.Patch(t, item, j{"quantity": 3}).Want(200)
	f.Get(t, run("0")+"/check").Want(200).Shows(map[string]string{"steps.0.code": "ORDER_REDUCED"})
	replan(run("0"), 0)
	f.Get(t, run("1")+"/check").Want(200).Shows(map[string]string{"steps.0.code": "LOAD_SPOOL"})
	f.Patch(t, item, j{"quantity": 2}).Want(200)
	one := replan(run("1"), 1).Shows(map[string]string{"runs.0.quantity": "1"})
	f.Get(t, order).Want(200).Shows(map[string]string{"items.0.planned": "2"})
	f.Delete(t, runsURL+"/"+one.Text("runs.0.id")).Want(204)

	// The pieces are those of the run, although the order needs more.
	f.Patch(t, item, j{"quantity": 9}).Want(200)
	f.Patch(t, "/api/v1/products/"+lamp, j{"pieces_per_plate": 1}).Want(200)
	two := f.Post(t, runsURL, j{"items": []j{{"product_id": lamp, "order_item_id": f.Get(t, order).Text("items.0.id"),
		"quantity": 2}}}).Want(201).ID()
	again := replan(runsURL+"/"+two, 2)
	again.Shows(map[string]string{"runs.0.quantity": "1", "runs.0.materials.0.grams": "100",
		"runs.0.order_id": order[len(ordersURL)+1:]})
	f.Get(t, order).Want(200).Shows(map[string]string{"items.0.planned": "3"})

	// Another bill of materials.
	products := "/api/v1/products/" + lamp
	material := products + "/materials/" + f.Get(t, products).Want(200).Text("materials.0.id")
	f.Patch(t, material, j{"weight_grams": 150}).Want(200)
	outdated := runsURL + "/" + again.Text("runs.0.id")
	f.Get(t, outdated+"/check").Want(200).Shows(map[string]string{"steps.0.code": "BILL_OF_MATERIALS_CHANGED"})
	fresh := runsURL + "/" + replan(outdated, 1).Shows(map[string]string{"runs.0.materials.0.grams": "150"}).
		Text("runs.0.id")
	f.Get(t, fresh+"/check").Want(200).Shows(map[string]string{"steps.0.code": "LOAD_SPOOL"})

	// What cannot be planned stays.
	f.Patch(t, material, j{"weight_grams": 950}).Want(200)
	before := f.Get(t, fresh).Want(200)
	f.Post(t, fresh+"/replan", nil).WantError(409, "PLAN_INCOMPLETE")
	f.With("Idempotency-Key", "replan").Post(t, fresh+"/replan", nil).WantError(409, "PLAN_INCOMPLETE")
	testkit.Equal(t, string(f.Get(t, fresh).Want(200).Body), string(before.Body), "the run after a refused plan")

	f.Post(t, order+"/cancel", nil).Want(200)
	replan(fresh, 0)

	// Pieces without an order are planned as they are, and a run that is not pending is not planned again.
	free := runsURL + "/" + f.Post(t, runsURL, j{"items": []j{{"product_id": lamp}}}).Want(201).ID()
	f.Patch(t, material, j{"weight_grams": 10}).Want(200)
	free = runsURL + "/" + replan(free, 1).Shows(map[string]string{"runs.0.order_id": "null"}).Text("runs.0.id")
	api.Operator(t).Post(t, free+"/replan", nil).WantError(404, "NOT_FOUND")
	f.Delete(t, products).Want(204)
	f.Post(t, free+"/replan", nil).WantError(409, "PRODUCT_REMOVED")
	f.Post(t, free+"/start", nil).Want(200)
	f.Post(t, free+"/replan", nil).WantError(409, "RUN_STARTED")
	f.Patch(t, free, j{"status": "paused"}).Want(200)
	f.Post(t, free+"/replan", nil).WantError(409, "RUN_STARTED")
	f.Post(t, free+"/cancel", nil).Want(200)
	f.Post(t, free+"/replan", nil).WantError(409, "PRODUCT_REMOVED")
	f.Get(t, free).Want(200)
	f.Post(t, runsURL+"/"+f.Post(t, runsURL, j{}).Want(201).ID()+"/replan", nil).WantError(409, "RUN_HAS_NO_ITEMS")
}

// A run is replaced once, also by requests at the same time, and not while it starts.
func TestReplansAtOnce(t *testing.T) {
	t.Parallel()
	f := farm{newAPI(t).Operator(t), t}
	f.printer(j{"name": "MK4"})
	f.spool("Black", 1000, 1000)
	order := f.order(f.product("Black", 100, 60, 5), 5)
	for _, path := range []string{"/replan", "/start"} {
		plan := f.Post(t, order+"/plan", j{"create": true}).Want(200)
		plan.WantLen(t, "runs", 1)
		id := plan.Text("runs.0.id")
		h := f.Hold(t, `select from production_runs where id = '`+id+`' for update`)
		status := make([]int, 2)
		send := func(i int, path string) func() {
			return func() {
				if a, err := f.Send("POST", runsURL+"/"+id+path, nil); err != nil {
					t.Errorf("%s: %v", path, err)
				} else {
					status[i] = a.Status
				}
			}
		}
		first := h.StartWaiting(1, send(0, path))
		second := h.StartWaiting(2, send(1, "/replan"))
		h.Commit()
		<-first
		<-second
		want := 404
		if path == "/start" {
			want = 409
		}
		testkit.Equal(t, status[0], 200, "%s", path)
		testkit.Equal(t, status[1], want, "after %s", path)
		testkit.Equal(t, f.Get(t, order).Want(200).Text("items.0.planned"), "5", "the pieces")
		if path == "/replan" {
			queue := f.Get(t, "/api/v1/queue").Want(200)
			queue.WantLen(t, "runs", 1)
			f.Delete(t, runsURL+"/"+queue.Text("runs.0.id")).Want(204)
		}
	}
}

// Of printers that are free at the same time, a plan prefers one that prints nothing: the run on the other one should
// have ended, but it has not, and no other run can start there.
func TestPlanAvoidsBusyPrinter(t *testing.T) {
	t.Parallel()
	f := farm{newAPI(t).Operator(t), t}
	first, second := f.printer(j{"name": "MK4"}), f.printer(j{"name": "XL"})
	f.spool("Black", 1000, 1000)
	order := f.order(f.product("Black", 10, 60, 1), 1)
	plan := func(printer string) {
		t.Helper()
		f.Post(t, order+"/plan", nil).Want(200).Shows(map[string]string{"runs.0.printer_id": printer})
	}
	plan(first)
	run := f.Post(t, runsURL, j{"printer_id": first, "status": "in_progress", "started_at": "2024-01-15T10:00:00Z",
		"estimated_print_time_hours": 1}).Want(201).ID()
	plan(second)
	f.Patch(t, runsURL+"/"+run, j{"status": "paused"}).Want(200)
	plan(second)
	f.Post(t, runsURL+"/"+run+"/cancel", nil).Want(200)
	plan(first)
}

// The pieces that a run lacks at its end are planned again, and the run stays.
func TestReplanEnded(t *testing.T) {
	t.Parallel()
	f := farm{newAPI(t).Operator(t), t}
	f.printer(j{"name": "MK4"})
	f.spool("Black", 1000, 1000)
	lamp := f.product("Black", 50, 60, 5)
	order := f.order(lamp, 5)
	run := runsURL + "/" + f.Post(t, order+"/plan", j{"create": true}).Want(200).Text("runs.0.id")
	f.Post(t, run+"/start", nil).Want(200)
	f.Post(t, run+"/fail", j{"reason": "spaghetti"}).Want(200)
	failed := f.Get(t, run).Want(200)
	again := f.Post(t, run+"/replan", nil).Want(200).Shows(map[string]string{"runs.0.quantity": "5",
		"runs.0.order_id": order[len(ordersURL)+1:]})
	again.WantLen(t, "runs", 1)
	testkit.Equal(t, string(f.Get(t, run).Want(200).Body), string(failed.Body), "the failed run")
	f.Post(t, run+"/replan", nil).Want(200).WantLen(t, "runs", 0) // the order lacks nothing

	second := runsURL + "/" + again.Text("runs.0.id")
	item := f.Get(t, second).Want(200).Text("items.0.id")
	f.Post(t, second+"/complete", j{"materials": []j{{"id": f.Get(t, second).Text("materials.0.id"),
		"actual_weight_grams": 250}}, "items": []j{{"id": item, "successful_quantity": 3, "failed_quantity": 2}}}).
		Want(200)
	f.Post(t, second+"/replan", nil).Want(200).Shows(map[string]string{"runs.0.quantity": "2"})

	free := runsURL + "/" + f.Post(t, runsURL, j{"items": []j{{"product_id": lamp, "quantity": 2}}}).Want(201).ID()
	f.Post(t, free+"/cancel", nil).Want(200)
	f.Post(t, free+"/replan", nil).Want(200).Shows(map[string]string{"runs.0.quantity": "2", "runs.0.order_id": "null"})
	done := runsURL + "/" + f.Post(t, runsURL, j{"status": "completed", "items": []j{{"product_id": lamp}}}).
		Want(201).ID()
	f.Post(t, done+"/replan", nil).WantError(409, "RUN_HAS_NO_ITEMS")
}

// A plan of an order can be one of some items only.
func TestPlanItems(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	f := farm{api.Operator(t), t}
	f.printer(j{"name": "MK4"})
	f.spool("Black", 1000, 1000)
	lamp, hook := f.product("Black", 50, 60, 1), f.product("Black", 10, 20, 1)
	path := ordersURL + "/" + f.Post(t, ordersURL, j{"items": []j{{"product_id": lamp, "quantity": 2},
		{"product_id": hook}}}).Want(201).ID()
	other := f.order(hook, 1)
	first, second := f.Get(t, path).Text("items.0.id"), f.Get(t, path).Text("items.1.id")
	foreign := f.Get(t, other).Text("items.0.id")
	f.Post(t, path+"/plan", j{"item_ids": []string{second}}).Want(200).WantLen(t, "runs", 1)
	f.Post(t, path+"/plan", j{"item_ids": []string{second, first}}).Want(200).WantLen(t, "runs", 3)
	f.Post(t, path+"/plan", j{"item_ids": []string{first, foreign}}).WantError(400, "UNKNOWN_REFERENCE").
		Shows(map[string]string{"detail": "Not an item of the order: item_ids[1]"})
	f.Post(t, path+"/plan", j{"item_ids": []string{}}).WantError(422, "VALIDATION_ERROR")
	f.Post(t, path+"/plan", j{"item_ids": nil}).Want(200).WantLen(t, "runs", 3)
	api.Operator(t).Post(t, path+"/plan", j{"item_ids": []string{first}}).WantError(404, "NOT_FOUND")
	f.Post(t, path+"/plan", j{"create": true, "item_ids": []string{first}}).Want(200).WantLen(t, "runs", 2)
	f.Get(t, path).Want(200).Shows(map[string]string{"items.0.planned": "2", "items.1.planned": "0"})
}
