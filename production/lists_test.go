package production_test

import (
	"fmt"
	"testing"

	"spoolwright/tests/testkit"
)

func TestCreateRunWithLists(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	a, b := createSpool(t, c, nil), createSpool(t, c, j{"color": "Red", "purchase_price": nil})
	lamp := c.Post(t, "/api/v1/products", j{"name": "Lamp", "materials": []j{
		{"material_type": "PLA", "color": "Black", "weight_grams": 10}}}).Want(201).ID()
	vase := c.Post(t, "/api/v1/products", j{"name": "Vase"}).Want(201).ID()
	created := c.Post(t, runs, j{"printer_name": "Printer 1", "items": []j{
		{"product_id": lamp, "quantity": 3, "successful_quantity": 2, "failed_quantity": 1},
		{"product_id": vase, "estimated_total_cost": 7},
		{"product_id": lamp, "quantity": nil, "successful_quantity": 1},
	}, "materials": []j{
		{"spool_id": b, "estimated_weight_grams": 12, "estimated_purge_grams": 1, "cost_per_gram": 0.5},
		{"spool_id": a, "spool_weight_before_grams": 900, "spool_weight_after_grams": 850, "actual_purge_grams": 2},
		{"spool_id": a, "actual_weight_grams": 5},
	}}).Want(201).Shows(map[string]string{
		"status": "pending", "printer_name": "Printer 1",
		"items.0.product_name": "Lamp", "items.0.quantity": "3", "items.0.estimated_material_cost": "0.75",
		"items.0.estimated_total_cost": "0.75", "items.0.successful_quantity": "2", "items.0.failed_quantity": "1",
		"items.1.product_name": "Vase", "items.1.quantity": "1", "items.1.estimated_material_cost": "0",
		"items.1.estimated_total_cost": "7", "items.2.product_id": lamp, "items.2.estimated_total_cost": "0.25",
		"materials.0.spool_name": "PLA Red (Polymaker)", "materials.0.cost_per_gram": "0.5",
		"materials.0.estimated_weight_grams": "12", "materials.0.estimated_purge_grams": "1",
		"materials.0.actual_weight_grams": "null",
		"materials.1.spool_id":            a, "materials.1.cost_per_gram": "0.025",
		"materials.1.actual_weight_grams": "50",
		"materials.1.actual_purge_grams":  "2", "materials.2.actual_weight_grams": "5",
	})
	if got := c.Get(t, runs+"/"+created.ID()).Want(200); string(got.Body) != string(created.Body) {
		t.Errorf("the run is %s, and its creation returned %s", got.Body, created.Body)
	}
	c.Post(t, runs, j{"items": []j{}, "materials": nil}).Want(201).Shows(map[string]string{"items": "[]",
		"materials": "[]"})

	// An invalid entry creates nothing, and is named.
	hidden := createSpool(t, c, nil)
	c.Delete(t, "/api/v1/spools/"+hidden).Want(204)
	other := api.Operator(t)
	theirSpool := createSpool(t, other, nil)
	theirs := other.Post(t, "/api/v1/products", j{"name": "Theirs"}).Want(201).ID()
	unknown := "0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41"
	for _, test := range []struct {
		body   j
		detail string
	}{
		{j{"items": []j{{"product_id": lamp}, {"product_id": unknown}}}, "Not a product: items[1].product_id"},
		{j{"items": []j{{"product_id": theirs}, {"product_id": lamp}, {"product_id": a}},
			"materials": []j{{"spool_id": a}}},
			"Not a product: items[0].product_id, items[2].product_id"},
		{j{"items": []j{{"product_id": lamp}}, "materials": []j{{"spool_id": a}, {"spool_id": hidden}}},
			"Not a spool: materials[1].spool_id"},
		{j{"items": []j{{"product_id": unknown}}, "materials": []j{{"spool_id": theirSpool}, {"spool_id": a}}},
			"Not a product: items[0].product_id; not a spool: materials[0].spool_id"},
	} {
		testkit.Equal(t, c.Post(t, runs, test.body).WantError(400, "UNKNOWN_REFERENCE").Text("detail"), test.detail,
			"%v: the detail", test.body)
	}
	expensive := c.Post(t, "/api/v1/products", j{"name": "Boat", "materials": []j{
		{"material_type": "PLA", "color": "Black", "weight_grams": 1_000_000}}}).Want(201).ID()
	c.Post(t, runs, j{"items": []j{{"product_id": lamp}, {"product_id": expensive, "quantity": 50_000}}}).
		Fields("items[1].quantity")
	c.Post(t, runs, j{"items": []j{{"product_id": expensive, "quantity": 50_000, "estimated_material_cost": 1,
		"estimated_total_cost": 999_999_999}}}).Want(201)
	c.Get(t, runs).Want(200).Shows(map[string]string{"total": "3"})
}

func TestCompleteWithLists(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	a, b := createSpool(t, c, nil), createSpool(t, c, j{"remaining_weight_grams": 50})
	lamp := c.Post(t, "/api/v1/products", j{"name": "Lamp"}).Want(201).ID()
	create := func() *testkit.Response {
		return c.Post(t, runs, j{
			"items": []j{{"product_id": lamp, "quantity": 5, "successful_quantity": 1},
				{"product_id": lamp, "quantity": 2}},
			"materials": []j{{"spool_id": a}, {"spool_id": b, "actual_weight_grams": 1},
				{"spool_id": a, "spool_weight_before_grams": 20, "spool_weight_after_grams": 10}},
		}).Want(201)
	}
	run, otherRun := create(), create()
	path := runs + "/" + run.ID()
	id := func(at string) string { return run.Text(at + ".id") }
	material := func(at int, grams any) j {
		return j{"id": id(fmt.Sprint("materials.", at)), "actual_weight_grams": grams}
	}
	item := func(at int, good, failed any) j {
		return j{"id": id(fmt.Sprint("items.", at)), "successful_quantity": good, "failed_quantity": failed}
	}

	// These change nothing.
	c.Post(t, path+"/complete", j{"materials": []j{material(0, nil)}, "items": []j{{"id": "x"}}}).
		Fields("materials[0].actual_weight_grams", "items[0].id")
	c.Post(t, path+"/complete", j{"materials": []j{material(0, 1), material(1, 2), material(0, 3)},
		"items": []j{item(0, 1, 0), item(0, 1, 0)}}).Fields("materials[2].id", "items[1].id")
	c.Post(t, path+"/complete", j{"materials": []j{{"id": id("materials.0"), "actual_weight_grams": 1,
		"surprise": 1}}}).
		Fields("materials[0].surprise")
	answer := c.Post(t, path+"/complete", j{
		"materials": []j{material(0, 1), {"id": otherRun.Text("materials.0.id"), "actual_weight_grams": 1}},
		"items":     []j{{"id": otherRun.Text("items.1.id")}, item(0, 1, 1), {"id": lamp}},
	}).WantError(400, "UNKNOWN_REFERENCE")
	testkit.Equal(t, answer.Text("detail"), "Not in the run: materials[1].id, items[0].id, items[2].id", "the detail")
	c.Post(t, path+"/complete", j{"materials": []j{material(0, 1)},
		"items": []j{item(1, 2, 0), {"id": id("items.0"), "failed_quantity": 5}}}).
		Fields("items[1].successful_quantity")
	c.Post(t, path+"/complete", j{"items": []j{item(1, 2, 0)}}).WantError(400, "ACTUAL_USAGE_MISSING")
	testkit.Equal(t, string(c.Get(t, path).Want(200).Body), string(run.Body),
		"requests with errors changed the run")

	// Sent weights replace earlier ones, but not the difference of both weights of the spool.
	c.Post(t, path+"/complete", j{
		"materials": []j{material(2, 99), material(1, 50), material(0, 0.5)},
		"items":     []j{{"id": id("items.0"), "failed_quantity": 4}, item(1, nil, 0)},
	}).Want(200)
	c.Get(t, path).Want(200).Shows(map[string]string{
		"status": "completed", "actual_total_filament_grams": "60.5",
		"materials.0.actual_weight_grams": "0.5", "materials.1.actual_weight_grams": "50",
		"materials.2.actual_weight_grams": "10", "items.0.successful_quantity": "1", "items.0.failed_quantity": "4",
		"items.1.successful_quantity": "null", "items.1.failed_quantity": "0",
	})
	for spool, want := range map[string]string{a: "989.5", b: "0"} {
		testkit.Equal(t, remaining(t, c, spool), want, "grams that remain")
	}
	c.Post(t, path+"/complete", j{"items": []j{item(1, 2, 0)}}).WantError(400, "RUN_ALREADY_COMPLETED")
	c.Get(t, path).Want(200).Shows(map[string]string{"items.1.successful_quantity": "null"})
}

// Only complete deducts filament, and a run shows whether it has.
func TestInventoryUpdated(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	a := createSpool(t, c, nil)
	materials := []j{{"spool_id": a, "actual_weight_grams": 10}}
	deducted := func(path, inventoryUpdated string) {
		t.Helper()
		run := c.Get(t, path).Want(200).Shows(map[string]string{"inventory_updated": inventoryUpdated})
		list := c.Get(t, runs+"?sort_by=created_at&limit=1").Want(200).
			Shows(map[string]string{"items.0.id": run.ID(), "items.0.inventory_updated": inventoryUpdated,
				"items.0.inventory_updated_at": run.Text("inventory_updated_at")})
		testkit.Equal(t, list.Text("items.0.inventory_updated_at") == "null", inventoryUpdated == "false",
			"inventory_updated is %s: %s", inventoryUpdated, list.Body)
	}
	path := runs + "/" + c.Post(t, runs, j{"status": "completed", "materials": materials, "inventory_updated": true}).
		Want(201).Shows(map[string]string{"inventory_updated": "false", "inventory_updated_at": "null"}).ID()
	deducted(path, "false")
	c.Patch(t, path, j{"status": "in_progress"}).Want(200)
	c.Patch(t, path, j{"status": "completed", "inventory_updated": true}).Want(200).
		Shows(map[string]string{"inventory_updated": "false"})
	deducted(path, "false")
	testkit.Equal(t, remaining(t, c, a), "1000", "grams that remain before complete")
	c.Post(t, path+"/complete", nil).Want(200)
	deducted(path, "true")
	at := c.Get(t, path).Text("inventory_updated_at")
	c.Patch(t, path, j{"inventory_updated": false, "inventory_updated_at": nil, "notes": "x"}).Want(200).
		Shows(map[string]string{"inventory_updated": "true", "inventory_updated_at": at})

	for _, status := range []string{"failed", "cancelled"} {
		path := runs + "/" + c.Post(t, runs, j{"status": status, "materials": materials}).Want(201).ID()
		c.Post(t, path+"/complete", nil).WantError(400, "RUN_NOT_OPEN")
		c.Get(t, path).Want(200).Shows(map[string]string{"status": status, "inventory_updated": "false"})
		c.Patch(t, path, j{"status": "paused"}).Want(200)
		c.Post(t, path+"/complete", nil).Want(200)
	}
	testkit.Equal(t, remaining(t, c, a), "970", "grams that remain")
	unfinished := c.Post(t, runs, j{}).Want(201).ID()
	c.Get(t, runs+"?sort_by=inventory_updated&sort_order=asc").Want(200).
		Shows(map[string]string{"items.0.id": unfinished})
	c.Get(t, runs+"?sort_by=inventory_updated_at&sort_order=desc").Want(200).
		Shows(map[string]string{"items.3.id": unfinished})
}

// A run has at most 500 items and 500 materials, also when concurrent requests add them.
func TestFullLists(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	a := createSpool(t, c, nil)
	product := c.Post(t, "/api/v1/products", j{"name": "Lamp"}).Want(201).ID()
	item, material := j{"product_id": product}, j{"spool_id": a}
	list := func(n int, entry j) (all []j) {
		for range n {
			all = append(all, entry)
		}
		return all
	}
	c.Post(t, runs, j{"items": list(501, item), "materials": list(501, material)}).Fields("items", "materials")
	run := c.Post(t, runs, j{"items": list(498, item), "materials": list(498, material)}).Want(201)
	path := runs + "/" + run.ID()
	for name, body := range map[string]j{"items": item, "materials": material} {
		testkit.Race(t, 8, func(int) (*testkit.Response, error) {
			return c.Send("POST", path+"/"+name, body)
		}).Want(t, map[string]int{"201": 2, "422 VALIDATION_ERROR": 6})
		c.Post(t, path+"/"+name, body).Fields(name)
	}
	full := c.Get(t, path).Want(200)
	if i, m := len(full.List("items")), len(full.List("materials")); i != 500 || m != 500 {
		t.Errorf("the run has %d items and %d materials, want 500", i, m)
	}
	c.Delete(t, path+"/items/"+full.Text("items.0.id")).Want(204)
	c.Post(t, path+"/items", item).Want(201)
	c.Patch(t, path+"/materials/"+full.Text("materials.0.id"), j{"actual_weight_grams": 1}).Want(200)
	c.Post(t, runs+"/0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41/items", item).WantError(404, "NOT_FOUND")
}

// Computed hours and grams that a request could not contain are null.
func TestComputedBounds(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	a := createSpool(t, c, j{"net_weight_grams": 1_000_000, "remaining_weight_grams": 1_000_000})
	b := createSpool(t, c, j{"net_weight_grams": 1_000_000, "remaining_weight_grams": 1_000_000})
	complete := func(body j) *testkit.Response {
		t.Helper()
		path := runs + "/" + c.Post(t, runs, body).Want(201).ID()
		c.Post(t, path+"/complete", nil).Want(200)
		run := c.Get(t, path).Want(200)
		whole := run.Value("").(map[string]any)
		c.Patch(t, path, whole).Want(200) // it can be sent back
		return run
	}
	use := func(grams ...float64) (all []j) {
		for i, g := range grams {
			all = append(all, j{"spool_id": []string{a, b}[i], "actual_weight_grams": g})
		}
		return all
	}
	complete(j{"started_at": "2000-01-01T00:00:00Z", "completed_at": "2011-05-29T16:00:00Z", "materials": use(1)}).
		Shows(map[string]string{"actual_print_time_hours": "100000", "actual_total_filament_grams": "1"})
	complete(j{"started_at": "2000-01-01T00:00:00Z", "completed_at": "2011-05-29T16:00:01Z", "materials": use(1),
		"estimated_print_time_hours": 1}).
		Shows(map[string]string{"actual_print_time_hours": "null", "variance_analysis.time_variance_hours": "null"})
	complete(j{"materials": use(500_000, 500_000), "estimated_total_filament_grams": 1}).
		Shows(map[string]string{"actual_total_filament_grams": "1000000"})
	c.Patch(t, "/api/v1/spools/"+a, j{"remaining_weight_grams": 1_000_000}).Want(200)
	c.Patch(t, "/api/v1/spools/"+b, j{"remaining_weight_grams": 1_000_000}).Want(200)
	complete(j{"materials": use(500_000, 500_001), "estimated_total_filament_grams": 1}).
		Shows(map[string]string{"actual_total_filament_grams": "null",
			"variance_analysis.material_variance_grams": "null"})
	testkit.Equal(t, remaining(t, c, b), "499999", "grams that remain")
}
