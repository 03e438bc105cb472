package production_test

import (
	"testing"

	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// Another spool takes the place of a material in the middle of a run: in the run, in the slot of the printer, and in
// what is reserved. The sums are exact.
func TestExchange(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	printer := c.Post(t, printersURL, j{"name": "MK4", "slots": 2}).Want(201).ID()
	product := c.NewProduct(t, "LAMP", 50)
	a := createSpool(t, c, j{"remaining_weight_grams": 80, "location": "Shelf"})
	b := createSpool(t, c, j{"purchase_price": 50})
	c.Do(t, "PUT", printersURL+"/"+printer+"/slots/2", j{"spool_id": a}).Want(200)
	run := c.Post(t, runs, j{"printer_id": printer, "status": "in_progress", "items": []j{{"product_id": product}},
		"materials": []j{{"spool_id": a, "estimated_weight_grams": 100}}}).Want(201)
	path, first := runs+"/"+run.ID(), run.Text("materials.0.id")
	exchange := path + "/materials/" + first + "/exchange"
	reserved := func(want string) {
		t.Helper()
		c.Get(t, "/api/v1/products/"+product+"/availability?quantity=1").Want(200).
			Shows(map[string]string{"materials.0.reserved_grams": want})
	}
	c.Do(t, "PUT", "/spoolman/api/v1/spool/1/use", j{"use_weight": 60}).Want(200)
	reserved("40")
	got := c.Post(t, exchange, j{"spool_number": 2}).Want(200)
	got.Shows(map[string]string{"materials.0.estimated_weight_grams": "60", "materials.0.actual_weight_grams": "null",
		"materials.1.spool_id": b, "materials.1.estimated_weight_grams": "40", "materials.1.cost_per_gram": "0.05",
		"materials.1.exchanged_at": "null"})
	reserved("40")
	c.Get(t, printersURL+"/"+printer).Shows(map[string]string{"loaded.0.slot": "2", "loaded.0.spool_id": b})
	c.Get(t, "/api/v1/spools/"+a).Shows(map[string]string{"location": "Shelf"})
	c.Get(t, path+"/check").Shows(map[string]string{"steps": "[]"})
	c.Do(t, "PUT", "/spoolman/api/v1/spool/2/use", j{"use_weight": 30}).Want(200)
	c.Do(t, "PUT", "/spoolman/api/v1/spool/1/use", j{"use_weight": 1}).Want(200) // late
	reserved("10")
	c.Post(t, exchange, j{"spool_number": 2}).WantError(400, "MATERIAL_EXCHANGED")

	// Back to the first spool: a person reports that the second one is empty.
	second := path + "/materials/" + got.Text("materials.1.id")
	for _, bad := range []struct {
		status      int
		body        j
		code, field string
	}{
		{400, j{"spool_id": b}, "SAME_SPOOL", "spool_id"},
		{400, j{"spool_number": 2}, "SAME_SPOOL", "spool_number"},
		{400, j{"spool_id": value.NewID()}, "UNKNOWN_REFERENCE", "spool_id"},
		{400, j{"spool_number": 99}, "UNKNOWN_REFERENCE", "spool_number"},
		{422, j{}, "VALIDATION_ERROR", "spool_id"},
		{422, j{"spool_id": a, "used_grams": -1}, "VALIDATION_ERROR", "used_grams"},
		{422, j{"spool_id": a, "used_grams": 1, "until_empty": true}, "VALIDATION_ERROR", "used_grams"},
	} {
		c.Post(t, second+"/exchange", bad.body).WantError(bad.status, bad.code).
			Shows(map[string]string{"errors.0.field": bad.field})
	}
	c.Patch(t, "/api/v1/spools/"+b, j{"remaining_weight_grams": 15}).Want(200)
	got = c.Post(t, second+"/exchange", j{"spool_id": a, "until_empty": true}).Want(200)
	got.Shows(map[string]string{"materials.1.actual_weight_grams": "45", "materials.1.estimated_weight_grams": "40",
		"materials.2.spool_id": a, "materials.2.estimated_weight_grams": "0"})
	c.Get(t, printersURL+"/"+printer).Shows(map[string]string{"loaded.0.spool_id": a})
	c.Do(t, "PUT", "/spoolman/api/v1/spool/1/use", j{"use_weight": 4}).Want(200)
	c.Post(t, path+"/complete", nil).Want(200)
	c.Get(t, path).Shows(map[string]string{"actual_total_filament_grams": "110", "materials.0.actual_weight_grams": "60",
		"materials.1.actual_weight_grams": "45", "materials.2.actual_weight_grams": "5"})
	testkit.Equal(t, remaining(t, c, a), "15", "grams of the first spool")
	testkit.Equal(t, remaining(t, c, b), "0", "grams of the second spool")
	balanced(t, c, a)
	balanced(t, c, b)
	c.Get(t, path+"/history").Shows(map[string]string{"total": "3", "items.0.action": "completed",
		"items.1.action": "exchanged", "items.1.before.materials.1.estimated_weight_grams": "40"})
	third := path + "/materials/" + got.Text("materials.2.id")
	c.Post(t, third+"/exchange", j{"spool_id": b}).WantError(400, "RUN_NOT_OPEN")

	// What a person states about the first spool holds also when printers report nothing, and after reopen.
	c.Post(t, path+"/reopen", nil).Want(200).Shows(map[string]string{"materials.1.actual_weight_grams": "45",
		"materials.2.actual_weight_grams": "null"})
	c.Post(t, third+"/exchange", j{"spool_id": b, "used_grams": 12}).Want(200)
	c.Post(t, path+"/complete", j{}).Want(200)
	testkit.Equal(t, remaining(t, c, a), "8", "grams of the first spool")
	balanced(t, c, a)

	// A planned run has used nothing.
	planned := c.Post(t, runs, j{"materials": []j{{"spool_id": a, "estimated_weight_grams": 100}}}).Want(201)
	plannedPath := runs + "/" + planned.ID()
	c.Post(t, plannedPath+"/materials/"+planned.Text("materials.0.id")+"/exchange", j{"spool_id": b}).Want(200).
		Shows(map[string]string{"materials.0.actual_weight_grams": "0", "materials.0.estimated_weight_grams": "0",
			"materials.1.estimated_weight_grams": "100", "status": "pending"})
	c.Post(t, plannedPath+"/complete", j{"materials": []j{{"spool_id": b, "actual_weight_grams": 3}}}).Want(200)
	c.Post(t, plannedPath+"/materials/"+value.NewID()+"/exchange", j{"spool_id": a}).WantError(404, "NOT_FOUND")
}

// While a run prints, all of it can change: printer, items, spools, notes and times.
func TestUnfinishedRunChanges(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	printer := c.Post(t, printersURL, j{"name": "MK4"}).Want(201).ID()
	a, b := createSpool(t, c, nil), createSpool(t, c, nil)
	product, other := c.NewProduct(t, "LAMP", 50), c.NewProduct(t, "VASE", 10)
	order, item := c.NewOrder(t, product, 4)
	for _, status := range []string{"pending", "in_progress", "paused"} {
		run := c.Post(t, runs, j{"status": status, "items": []j{{"product_id": other}},
			"materials": []j{{"spool_id": a}}}).Want(201)
		path := runs + "/" + run.ID()
		c.Patch(t, path, j{"printer_id": printer, "notes": "n", "started_at": "2024-01-15T10:00:00Z",
			"estimated_print_time_hours": 3, "actual_print_time_hours": 2}).Want(200).
			Shows(map[string]string{"printer_id": printer, "notes": "n", "started_at": "2024-01-15T10:00:00Z"})
		c.Patch(t, path+"/items/"+run.Text("items.0.id"), j{"product_id": product, "order_item_id": item, "quantity": 2}).
			Want(200)
		c.Get(t, order).Shows(map[string]string{"items.0.planned": "2"})
		added := c.Post(t, path+"/items", j{"product_id": other}).Want(201).ID()
		c.Delete(t, path+"/items/"+added).Want(204)
		c.Patch(t, path+"/materials/"+run.Text("materials.0.id"), j{"spool_id": b, "estimated_weight_grams": 5}).Want(200)
		more := c.Post(t, path+"/materials", j{"spool_id": a}).Want(201).ID()
		c.Delete(t, path+"/materials/"+more).Want(204)
		c.Patch(t, path+"/items/"+run.Text("items.0.id"), j{"order_item_id": nil}).Want(200)
		c.Get(t, order).Shows(map[string]string{"items.0.planned": "0"})
		c.Get(t, path).Shows(map[string]string{"status": status, "materials.0.spool_id": b, "items.0.quantity": "2"})
		c.Post(t, path+"/cancel", nil).Want(200)
	}
}
