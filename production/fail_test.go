package production_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"spoolwright/production"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// newRun creates a run with a material of the spool, and returns its path and the id of the material.
func newRun(t *testing.T, c *testkit.Client, spool string) (path, material string) {
	t.Helper()
	path = runs + "/" + c.Post(t, runs,
		j{"started_at": "2024-01-15T10:00:00Z", "completed_at": "2024-01-15T11:30:00Z"}).
		Want(201).ID()
	return path, c.Post(t, path+"/materials", j{"spool_id": spool}).Want(201).ID()
}

// fail and cancel deduct the wasted filament, keep the reason, and fix the status and the materials.
func TestFailAndCancel(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	for outcome, status := range map[string]string{"fail": "failed", "cancel": "cancelled"} {
		a, b := createSpool(t, c, nil), createSpool(t, c, j{"color": "Red"})
		path, first := newRun(t, c, a)
		second := c.Post(t, path+"/materials", j{"spool_id": a}).Want(201).ID()
		addWeighed(t, c, path[len(runs)+1:], b, 500, 490.5) // the scale takes precedence over a sent weight
		weighed := c.Get(t, path).Text("materials.2.id")
		c.Post(t, path+"/materials", j{"spool_id": b}).Want(201) // wasted nothing
		end := c.Post(t, path+"/"+outcome, j{"reason": "layer_shift", "notes": "belt", "materials": []j{
			{"id": first, "wasted_grams": 12.5}, {"id": second, "wasted_grams": 0.25},
			{"id": weighed, "wasted_grams": 400}}}).
			Want(200)
		spools := []string{a, b}
		slices.Sort(spools)
		used := map[string][2]string{a: {"987.25", "12.75"}, b: {"990.5", "9.5"}}
		want := map[string]string{"id": path[len(runs)+1:], "status": status, "completed_at": "2024-01-15T11:30:00Z",
			"inventory_updated": "true"}
		for i, id := range spools {
			row := fmt.Sprintf("spools_updated.%d.", i)
			want[row+"spool_id"], want[row+"previous_weight"] = id, "1000"
			want[row+"new_weight"], want[row+"deducted"] = used[id][0], used[id][1]
		}
		end.Shows(want)
		testkit.Equal(t, len(end.List("spools_updated")), 2, "%s: spools in the response", outcome)
		c.Get(t, path).Want(200).Shows(map[string]string{"status": status, "failure_reason": "layer_shift",
			"failure_notes": "belt", "inventory_updated": "true", "actual_total_filament_grams": "22.25",
			"actual_print_time_hours": "1.5", "completed_at": "2024-01-15T11:30:00Z",
			"materials.0.actual_weight_grams": "12.5", "materials.2.actual_weight_grams": "9.5",
			"materials.3.actual_weight_grams": "null"})
		c.Get(t, "/api/v1/spools/"+a+"/usage").Want(200).Shows(map[string]string{"total": "2",
			"items.0.kind": "wasted", "items.0.change_grams": "-12.75", "items.0.run_id": path[len(runs)+1:]})
		c.Get(t, runs+"?status="+status).Want(200).Shows(map[string]string{"total": "1",
			"items.0.failure_reason": "layer_shift", "items.0.inventory_updated": "true"})

		// The end is final, for all three operations and for edits.
		for again, body := range map[string]any{"complete": nil, "fail": j{"reason": "other"}, "cancel": nil} {
			c.Post(t, path+"/"+again, body).WantError(400, "RUN_NOT_OPEN")
		}
		c.Patch(t, path, j{"status": "pending"}).WantError(400, "RUN_ALREADY_COMPLETED")
		c.Patch(t, path, j{"status": status, "failure_reason": "clog", "failure_notes": nil}).Want(200).
			Shows(map[string]string{"failure_reason": "clog", "failure_notes": "null"})
		c.Patch(t, path+"/materials/"+first, j{"actual_weight_grams": 1}).WantError(400, "RUN_ALREADY_COMPLETED")
		c.Delete(t, path+"/materials/"+first).WantError(400, "RUN_ALREADY_COMPLETED")
		c.Delete(t, path).Want(204) // hidden, because the ledger names it
		c.Post(t, path+"/restore", nil).Want(200).Shows(map[string]string{"status": status})
		for id, left := range used {
			testkit.Equal(t, remaining(t, c, id), left[0], "%s: grams that remain", outcome)
		}
	}
}

// A run without materials, or one that wasted nothing, ends without a deduction.
func TestFailWithoutWaste(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	run := c.Post(t, runs, j{}).Want(201).ID()
	c.Post(t, runs+"/"+run+"/cancel", nil).Want(200).
		Shows(map[string]string{"status": "cancelled", "spools_updated": "[]"})
	c.Get(t, runs+"/"+run).Want(200).Shows(map[string]string{"failure_reason": "null",
		"actual_total_filament_grams": "0", "actual_print_time_hours": "null"})

	spool := createSpool(t, c, nil)
	path, material := newRun(t, c, spool)
	c.Delete(t, "/api/v1/spools/"+spool).Want(204) // 0 g can be wasted even of a removed spool
	c.Post(t, path+"/fail", j{"reason": "adhesion", "materials": []j{{"id": material, "wasted_grams": 0}}}).Want(200).
		Shows(map[string]string{"status": "failed", "spools_updated": "[]"})
	c.Get(t, "/api/v1/spools/"+spool+"/usage").Want(200).Shows(map[string]string{"total": "1"})
}

func TestFailErrors(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	spool := createSpool(t, c, nil)
	path, material := newRun(t, c, spool)
	_, foreign := newRun(t, c, spool)
	for _, outcome := range []string{"fail", "cancel"} {
		post := func(materials ...j) *testkit.Response {
			t.Helper()
			return c.Post(t, path+"/"+outcome, j{"reason": "clog", "materials": materials})
		}
		post(j{"id": material, "wasted_grams": 5}, j{"id": foreign, "wasted_grams": 5}).
			WantError(400, "UNKNOWN_REFERENCE").Shows(map[string]string{"detail": "Not in the run: materials[1].id"})
		for _, bad := range []struct {
			body  any
			field string
		}{
			{j{"reason": "bad luck"}, "reason"},
			{j{"reason": "clog", "materials": []j{{"id": material}}}, "materials[0].wasted_grams"},
			{j{"reason": "clog", "materials": []j{{"id": material, "wasted_grams": -1}}}, "materials[0].wasted_grams"},
			{j{"reason": "clog", "materials": []j{{"id": material, "wasted_grams": 1},
				{"id": material, "wasted_grams": 1}}},
				"materials[1].id"},
			{j{"reason": "clog", "notes": strings.Repeat("x", 10_001)}, "notes"},
			{j{"reason": "clog", "items": []j{}}, "items"},
		} {
			c.Post(t, path+"/"+outcome, bad.body).WantError(422, "VALIDATION_ERROR").
				Shows(map[string]string{"errors.0.field": bad.field})
		}
		c.Post(t, runs+"/"+value.NewID()+"/"+outcome, j{"reason": "clog"}).WantError(404, "NOT_FOUND")
		tenant.User(t, "viewer").Post(t, path+"/"+outcome, j{"reason": "clog"}).WantError(403, "FORBIDDEN")
		api.Operator(t).Post(t, path+"/"+outcome, j{"reason": "clog"}).WantError(404, "NOT_FOUND") // another tenant
	}
	c.Post(t, path+"/fail", nil).WantError(415, "UNSUPPORTED_MEDIA_TYPE") // the reason is required
	c.Post(t, path+"/fail", j{}).WantError(422,
		"VALIDATION_ERROR").Shows(map[string]string{"errors.0.field": "reason"})
	c.Get(t, path).Want(200).Shows(map[string]string{"status": "pending", "failure_reason": "null",
		"materials.0.actual_weight_grams": "null", "inventory_updated": "false"})
	testkit.Equal(t, remaining(t, c, spool), "1000", "grams that remain")
}

// An operation accepts the status that it sets, if an update set it, but no other final status.
func TestFailAfterStatus(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	spool := createSpool(t, c, nil)
	for operation, own := range map[string]string{"fail": "failed", "cancel": "cancelled"} {
		for _, status := range production.RunStatus("").Enum() {
			path, material := newRun(t, c, spool)
			c.Patch(t, path, j{"status": status}).Want(200)
			answer := c.Post(t, path+"/"+operation,
				j{"reason": "other", "materials": []j{{"id": material, "wasted_grams": 1}}})
			if status == own || !slices.Contains([]string{"completed", "failed", "cancelled"}, status) {
				answer.Want(200).Shows(map[string]string{"status": own})
			} else {
				answer.WantError(400, "RUN_NOT_OPEN")
			}
		}
	}
	path, _ := newRun(t, c, spool)
	addWeighed(t, c, path[len(runs)+1:], spool, 10, 5)
	c.Patch(t, path+"/materials/"+c.Get(t, path).Text("materials.0.id"), j{"actual_weight_grams": 1}).Want(200)
	c.Post(t, path+"/complete", nil).Want(200)
	c.Post(t, path+"/fail", j{"reason": "other"}).WantError(400, "RUN_ALREADY_COMPLETED")
	c.Post(t, path+"/cancel", nil).WantError(400, "RUN_ALREADY_COMPLETED")
}

// Of 64 concurrent requests that complete, fail or cancel a run, exactly one succeeds, and the filament is deducted
// once.
func TestOneEnd(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	for range 3 {
		a, b := createSpool(t, c, nil), createSpool(t, c, nil)
		path, material := newRun(t, c, a)
		other := c.Post(t, path+"/materials", j{"spool_id": b, "actual_weight_grams": 3}).Want(201).ID()
		all := testkit.Race(t, 64, func(i int) (*testkit.Response, error) {
			operation := []string{"complete", "fail", "cancel"}[i%3]
			body := j{"materials": []j{{"id": material, "wasted_grams": 7}, {"id": other, "wasted_grams": 3}}}
			if operation == "complete" {
				body = j{"materials": []j{{"id": material, "actual_weight_grams": 7}}}
			} else if operation == "fail" {
				body["reason"] = "power_failure"
			}
			return c.Send("POST", path+"/"+operation, body)
		})
		status := c.Get(t, path).Want(200).Text("status")
		refused, kind := "400 RUN_NOT_OPEN", "wasted"
		if status == "completed" {
			refused, kind = "400 RUN_ALREADY_COMPLETED", "run"
		}
		all.Want(t, map[string]int{"200": 1, refused: 63})
		won := slices.IndexFunc(all, func(a *testkit.Response) bool { return a.Status == 200 })
		testkit.Equal(t, status, []string{"completed", "failed", "cancelled"}[won%3], "the status of the run")
		for id, left := range map[string]string{a: "993", b: "997"} {
			testkit.Equal(t, remaining(t, c, id), left, "grams that remain")
			c.Get(t, "/api/v1/spools/"+id+"/usage").Want(200).
				Shows(map[string]string{"total": "2", "items.0.kind": kind})
		}
	}
}

// Items keep why their pieces failed: in a new run, added to it, in an update, and in complete.
func TestItemFailureReason(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	spool := createSpool(t, c, nil)
	product := c.Post(t, "/api/v1/products", j{"name": "Lamp"}).Want(201).ID()
	path := runs + "/" + c.Post(t, runs, j{"items": []j{{"product_id": product, "failure_reason": "warping"}},
		"materials": []j{{"spool_id": spool, "actual_weight_grams": 1}}}).Want(201).
		Shows(map[string]string{"items.0.failure_reason": "warping"}).ID()
	item := c.Post(t, path+"/items", j{"product_id": product, "quantity": 2, "failure_reason": "clog"}).Want(201).
		Shows(map[string]string{"failure_reason": "clog"}).ID()
	c.Patch(t, path+"/items/"+item, j{"failure_reason": "bad"}).WantError(422, "VALIDATION_ERROR")
	c.Patch(t, path+"/items/"+item,
		j{"failure_reason": nil}).Want(200).Shows(map[string]string{"failure_reason": "null"})
	first := c.Get(t, path).Text("items.0.id")
	c.Post(t, path+"/complete", j{"items": []j{{"id": first, "successful_quantity": 1},
		{"id": item, "failed_quantity": 1, "failure_reason": "quality"}}}).Want(200)
	c.Get(t, path).Want(200).
		Shows(map[string]string{"items.0.failure_reason": "warping", "items.1.failure_reason": "quality"})
}

func TestFailureReasonsMatchTables(t *testing.T) {
	t.Parallel()
	testkit.WantCheckedOrNull(t, "production_runs", "failure_reason", production.FailureReason("").Enum())
	testkit.WantCheckedOrNull(t, "run_items", "failure_reason", production.FailureReason("").Enum())
}
