package production_test

import (
	"fmt"
	"math/big"
	"strconv"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// balanced reports an error unless the entries of the spool's ledger add up to what remains.
func balanced(t *testing.T, c *testkit.Client, spool string) {
	t.Helper()
	sum := new(big.Rat)
	for after, path := "", "/api/v1/spools/"+spool+"/usage?limit=100"; ; {
		a := c.Get(t, path+after).Want(200)
		for i := range a.List("items") {
			change, ok := new(big.Rat).SetString(a.Text(fmt.Sprintf("items.%d.change_grams", i)))
			if !ok {
				t.Fatalf("entry %d: %s", i, a.Body)
			}
			sum.Add(sum, change)
		}
		next := a.Text("next")
		if next == "null" {
			break
		}
		after = "&after=" + next
	}
	left, _ := new(big.Rat).SetString(remaining(t, c, spool))
	testkit.Equal(t, sum.FloatString(6), left.FloatString(6), "sum of the ledger")
}

// prices sets the rates of the tenant of c.
func prices(t *testing.T, c *testkit.Client, machine, kwh, labour any) {
	t.Helper()
	testkit.Check(t, c.API.DB.Write(db.As(t.Context(), c.Actor), db.SQL(`
		update tenants set machine_hour_cost = $1::numeric, machine_power_watts = 100,
			energy_kwh_cost = $2::numeric, labour_hour_cost = $3::numeric`, machine, kwh, labour)))
}

// A correction changes weights, pieces and hours of a run that has ended, at the prices of its end. The ledger, the
// order, the printer and the history follow.
func TestCorrect(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	prices(t, c, "2", "0.5", "30")
	spool := createSpool(t, c, j{"purchase_price": 20})
	printer := c.Post(t, printersURL, j{"name": "MK4"}).Want(201).ID()
	product := c.Post(t, "/api/v1/products", j{"name": "Lamp", "labour_minutes": 6}).Want(201).ID()
	order, item := c.NewOrder(t, product, 4)
	run := c.Post(t, runs, j{"printer_id": printer, "status": "in_progress", "started_at": "2024-01-15T10:00:00Z",
		"items":     []j{{"product_id": product, "order_item_id": item, "quantity": 4}},
		"materials": []j{{"spool_id": spool, "estimated_weight_grams": 100}}}).Want(201)
	path := runs + "/" + run.ID()
	c.Post(t, path+"/correct", j{}).WantError(400, "RUN_NOT_ENDED")
	c.Post(t, path+"/complete", j{"completed_at": "2024-01-15T14:00:00Z",
		"materials": []j{{"spool_id": spool, "actual_weight_grams": 100}}}).Want(200)
	c.Get(t, path).Shows(map[string]string{"cost_parts.filament": "2", "cost_parts.machine": "8",
		"cost_parts.energy": "0.2", "cost_parts.labour": "12", "cost": "22.2"})
	c.Get(t, order).Shows(map[string]string{"status": "in_production", "items.0.produced": "4"})

	// Prices that change later have no effect.
	prices(t, c, "7", "7", "70")
	c.Patch(t, "/api/v1/spools/"+spool, j{"purchase_price": 900}).Want(200)
	c.Patch(t, "/api/v1/products/"+product, j{"labour_minutes": 60}).Want(200)
	a := c.Post(t, path+"/correct", j{"reason": "counted again", "actual_print_time_hours": 5,
		"materials": []j{{"spool_id": spool, "actual_weight_grams": 120}},
		"items":     []j{{"id": run.Text("items.0.id"), "successful_quantity": 3, "failed_quantity": 1}}}).Want(200)
	a.Shows(map[string]string{"status": "completed", "actual_total_filament_grams": "120",
		"materials.0.actual_weight_grams": "120", "materials.0.cost_per_gram": "0.02", "cost_parts.filament": "1.8",
		"cost_parts.waste": "0.6", "cost_parts.machine": "10", "cost_parts.energy": "0.25", "cost_parts.labour": "9",
		"actual_print_time_hours": "5", "warnings": "[]", "items.0.successful_quantity": "3"})
	testkit.Equal(t, remaining(t, c, spool), "880", "grams that remain")
	balanced(t, c, spool)
	c.Get(t, "/api/v1/spools/"+spool+"/usage").Shows(map[string]string{"total": "3", "items.0.kind": "run",
		"items.0.change_grams": "-20", "items.0.run_id": run.ID(), "items.0.printer_id": printer})
	c.Get(t, order).Shows(map[string]string{"status": "in_production", "items.0.produced": "3"})
	c.Get(t, printersURL+"/"+printer).Shows(map[string]string{"printed_hours": "5"})

	// Back again.
	c.Post(t, path+"/correct", j{"items": []j{{"id": run.Text("items.0.id"), "successful_quantity": 4,
		"failed_quantity": 0}}, "materials": []j{{"spool_number": 1, "actual_weight_grams": 0.5, "cost_per_gram": 4}}}).
		Want(200).Shows(map[string]string{"cost_parts.filament": "2", "cost_parts.waste": "0"})
	testkit.Equal(t, remaining(t, c, spool), "999.5", "grams that remain")
	balanced(t, c, spool)
	c.Get(t, order).Shows(map[string]string{"status": "in_production", "items.0.produced": "4"})

	// An update of an item has the same effect.
	pieces := path + "/items/" + run.Text("items.0.id")
	c.Patch(t, pieces, j{"successful_quantity": 1}).Want(200)
	c.Get(t, path).Shows(map[string]string{"cost_parts.filament": "2", "cost_parts.labour": "3"})
	c.Patch(t, pieces, j{"successful_quantity": 2, "failed_quantity": 2}).Want(200)
	c.Get(t, path).Shows(map[string]string{"cost_parts.filament": "1", "cost_parts.waste": "1", "cost_parts.labour": "6",
		"cost_parts.machine": "10"})
	c.Patch(t, pieces, j{"successful_quantity": 4, "failed_quantity": 0}).Want(200)
	c.Get(t, path).Shows(map[string]string{"cost_parts.filament": "2", "cost_parts.labour": "12"})

	c.Get(t, path+"/history").Want(200).Shows(map[string]string{"total": "3", "items.0.action": "corrected",
		"items.0.user_id": c.Actor.User, "items.0.before.cost": "21.65",
		"items.0.before.materials.0.actual_weight_grams": "120", "items.1.reason": "counted again",
		"items.1.before.actual_print_time_hours": "4", "items.2.action": "completed",
		"items.2.before.status": "in_progress", "items.2.before.materials.0.actual_weight_grams": "null"})
	c.Get(t, path+"/history?action=completed").Want(200).Shows(map[string]string{"total": "1"})
}

// A price that was unknown when a run ended stays unknown when its pieces change.
func TestPiecesOfUnknownPrice(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	spool := createSpool(t, c, j{"purchase_price": nil})
	product := c.Post(t, "/api/v1/products", j{"name": "Lamp", "labour_minutes": 6}).Want(201).ID()
	run := c.Post(t, runs, j{"items": []j{{"product_id": product, "quantity": 4}},
		"materials": []j{{"spool_id": spool, "actual_weight_grams": 100}}}).Want(201)
	path := runs + "/" + run.ID()
	c.Post(t, path+"/complete", nil).Want(200)
	prices(t, c, "2", "0.5", "30")
	c.Patch(t, "/api/v1/spools/"+spool, j{"purchase_price": 20}).Want(200)
	c.Patch(t, path+"/items/"+run.Text("items.0.id"), j{"successful_quantity": 3, "failed_quantity": 1}).Want(200)
	c.Get(t, path).Shows(map[string]string{"cost_parts.filament": "null", "cost_parts.waste": "null",
		"cost_parts.labour": "null", "cost": "null"})
}

// The work of a completed run follows from its items: another product has its own work, which is then stored.
func TestWorkOfChangedItems(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	prices(t, c, "2", "0.5", "30")
	products := "/api/v1/products"
	lamp := c.Post(t, products, j{"name": "Lamp", "labour_minutes": 6}).Want(201).ID()
	ring := c.Post(t, products, j{"name": "Ring", "labour_minutes": 60}).Want(201).ID()
	run := c.Post(t, runs, j{"items": []j{{"product_id": lamp, "quantity": 2}},
		"materials": []j{{"spool_id": createSpool(t, c, nil), "actual_weight_grams": 10}}}).Want(201)
	path, item := runs+"/"+run.ID(), "/items/"+run.Text("items.0.id")
	labour := func(want string) {
		t.Helper()
		c.Get(t, path).Shows(map[string]string{"cost_parts.labour": want})
	}
	c.Post(t, path+"/complete", nil).Want(200)
	labour("6")
	c.Patch(t, path+item, j{"product_id": ring}).Want(200)
	labour("60")
	c.Patch(t, products+"/"+ring, j{"labour_minutes": 6}).Want(200)
	c.Patch(t, path+item, j{"product_id": ring, "successful_quantity": 1, "failed_quantity": 1}).Want(200)
	labour("30")
	c.Post(t, path+"/items", j{"product_id": lamp}).Want(201)
	labour("33")
	c.Patch(t, products+"/"+lamp, j{"labour_minutes": 60}).Want(200)
	c.Patch(t, path+item, j{"successful_quantity": 2, "failed_quantity": 0}).Want(200)
	labour("63")
	c.Post(t, path+"/correct", j{"actual_print_time_hours": 1}).Want(200)
	labour("63")
}

// A correction follows the rule of complete for spools that do not have what was used, and may fill a spool over its
// capacity.
func TestCorrectShortfall(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	for _, end := range []struct{ operation, field, kind string }{
		{"complete", "actual_weight_grams", "run"}, {"fail", "wasted_grams", "wasted"}, {"cancel", "wasted_grams", "wasted"},
	} {
		spool := createSpool(t, c, j{"remaining_weight_grams": 30})
		path := runs + "/" + c.Post(t, runs, j{"materials": []j{{"spool_id": spool}}}).Want(201).ID()
		body := j{"materials": []j{{"spool_id": spool, end.field: 10}}}
		if end.operation == "fail" {
			body["reason"] = "clog"
		}
		c.Post(t, path+"/"+end.operation, body).Want(200)
		used := func(grams, left string, more map[string]string) {
			t.Helper()
			weight, err := strconv.ParseFloat(grams, 64)
			testkit.Check(t, err)
			c.Post(t, path+"/correct", j{"materials": []j{{"spool_id": spool, "actual_weight_grams": weight}}}).Want(200).
				Shows(more)
			testkit.Equal(t, remaining(t, c, spool), left, "%s: grams that remain after a use of %s", end.operation, grams)
			balanced(t, c, spool)
			c.Get(t, path).Shows(map[string]string{"actual_total_filament_grams": grams})
		}
		used("42", "0", map[string]string{"warnings.0.code": "FILAMENT_SHORTFALL", "warnings.0.spool_id": spool})
		c.Get(t, "/api/v1/spools/"+spool+"/usage").Shows(map[string]string{"items.0.shortfall_grams": "12",
			"items.0.kind": end.kind})
		used("35", "0", map[string]string{"warnings": "[]"})
		used("20", "10", map[string]string{"warnings": "[]"})
		c.Patch(t, "/api/v1/spools/"+spool, j{"net_weight_grams": 15}).Want(200)
		used("1", "29", map[string]string{"warnings": "[]"})
		c.Patch(t, "/api/v1/spools/"+spool, j{"archived": true}).Want(200)
		used("2", "28", map[string]string{"warnings.0.code": "SPOOL_ARCHIVED"})
		c.Delete(t, "/api/v1/spools/"+spool).Want(204)
		c.Post(t, path+"/correct", j{"materials": []j{{"spool_id": spool, "actual_weight_grams": 3}}}).Want(200).
			Shows(map[string]string{"warnings.0.code": "SPOOL_REMOVED"})
		c.Post(t, path+"/correct", j{}).Want(200).Shows(map[string]string{"warnings": "[]"})
	}
}

// A correction moves the use of a material to another spool, at that spool's price.
func TestCorrectSpool(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	a := createSpool(t, c, j{"purchase_price": 20})
	b := createSpool(t, c, j{"purchase_price": 40, "color": "Red"})
	run := c.Post(t, runs, j{"status": "in_progress", "materials": []j{{"spool_id": a}}}).Want(201)
	path, material := runs+"/"+run.ID(), run.Text("materials.0.id")
	c.Do(t, "PUT", "/spoolman/api/v1/spool/1/use", j{"use_weight": 60}).Want(200)
	c.Post(t, path+"/complete", j{"materials": []j{{"id": material, "actual_weight_grams": 100}}}).Want(200)

	// Printers have reported the first spool, which stays with 0 g.
	c.Post(t, path+"/correct", j{"materials": []j{{"id": material, "to_spool_number": 2}}}).Want(200).
		Shows(map[string]string{"materials.0.spool_id": b, "materials.0.actual_weight_grams": "100",
			"materials.0.cost_per_gram": "0.04", "materials.1.spool_id": a, "materials.1.actual_weight_grams": "0",
			"materials.1.reported_grams": "60", "cost": "4", "actual_total_filament_grams": "100"})
	left := func(wantA, wantB string) {
		t.Helper()
		testkit.Equal(t, remaining(t, c, a), wantA, "grams of the first spool")
		testkit.Equal(t, remaining(t, c, b), wantB, "grams of the second spool")
		balanced(t, c, a)
		balanced(t, c, b)
	}
	left("1000", "900")
	c.Post(t, path+"/correct", j{"materials": []j{{"id": material, "to_spool_id": a, "actual_weight_grams": 90,
		"cost_per_gram": 1}}}).Want(200).Shows(map[string]string{"cost": "90"})
	left("910", "1000")
	c.Post(t, path+"/correct", j{"materials": []j{{"id": material, "cost_per_gram": nil}}}).Want(200).
		Shows(map[string]string{"cost": "1.8"})
	c.Post(t, path+"/correct", j{"materials": []j{{"id": material, "to_spool_id": b}}}).Want(200)
	left("1000", "910")

	// All of that is taken back: printers have reported 60 g of the first spool.
	c.Post(t, path+"/reopen", nil).Want(200).Shows(map[string]string{"status": "in_progress",
		"actual_total_filament_grams": "null", "materials.1.actual_weight_grams": "null"})
	left("940", "1000")
	c.Post(t, path+"/complete", j{"materials": []j{{"spool_id": b, "actual_weight_grams": 5}}}).Want(200)
	left("940", "995")
	c.Get(t, path).Shows(map[string]string{"actual_total_filament_grams": "65", "cost": "1.4"})

	removed := createSpool(t, c, nil)
	c.Delete(t, "/api/v1/spools/"+removed).Want(204)
	foreign := createSpool(t, c.API.Operator(t), nil)
	for _, bad := range []struct {
		status      int
		body        j
		code, field string
	}{
		{400, j{"id": material, "to_spool_id": removed}, "UNKNOWN_REFERENCE", "materials[0].to_spool_id"},
		{400, j{"id": material, "to_spool_id": foreign}, "UNKNOWN_REFERENCE", "materials[0].to_spool_id"},
		{400, j{"id": material, "to_spool_number": 99}, "UNKNOWN_REFERENCE", "materials[0].to_spool_number"},
		{400, j{"id": value.NewID(), "actual_weight_grams": 1}, "UNKNOWN_REFERENCE", "materials[0].id"},
		{422, j{"id": material}, "VALIDATION_ERROR", "materials[0].actual_weight_grams"},
		{422, j{"id": material, "actual_weight_grams": -1}, "VALIDATION_ERROR", "materials[0].actual_weight_grams"},
		{422, j{"actual_weight_grams": 1}, "VALIDATION_ERROR", "materials[0].id"},
		{422, j{"id": material, "to_spool_id": a, "to_spool_number": 1}, "VALIDATION_ERROR", "materials[0].to_spool_number"},
	} {
		c.Post(t, path+"/correct", j{"materials": []j{bad.body}}).WantError(bad.status, bad.code).
			Shows(map[string]string{"errors.0.field": bad.field})
	}
	left("940", "995")
}

// A correction of the times dates the ledger anew, also by an update of the run.
func TestCorrectTimes(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	prices(t, c, "2", "0", "0")
	spool := createSpool(t, c, nil)
	day := func(ago int) string { return time.Now().UTC().AddDate(0, 0, -ago).Format(time.DateOnly) }
	run := c.Post(t, runs, j{"status": "in_progress", "started_at": day(50) + "T10:00:00Z",
		"materials": []j{{"spool_id": spool}}}).Want(201)
	path := runs + "/" + run.ID()
	c.Do(t, "PUT", "/spoolman/api/v1/spool/1/use", j{"use_weight": 60}).Want(200)
	c.Post(t, path+"/complete", j{"completed_at": day(40) + "T12:00:00Z",
		"materials": []j{{"spool_id": spool, "actual_weight_grams": 100}}}).Want(200)
	grams := func(ago int, want string) {
		t.Helper()
		c.SummarizeUsage(t)
		c.Get(t, "/api/v1/reports/usage?from="+day(ago)+"&to="+day(ago)).Want(200).
			Shows(map[string]string{"grams": want})
	}
	grams(40, "100")
	shows := func(a *testkit.Response, hours, cost string) {
		t.Helper()
		a.Want(200).Shows(map[string]string{"actual_print_time_hours": hours, "cost_parts.machine": cost})
	}
	prices(t, c, "9", "9", "9")
	shows(c.Get(t, path), "242", "484")
	// A weight changes on a day that is summarized.
	c.Post(t, path+"/correct", j{"materials": []j{{"spool_id": spool, "actual_weight_grams": 90}}}).Want(200)
	grams(40, "90")
	grams(0, "0")
	shows(c.Post(t, path+"/correct", j{"completed_at": day(45) + "T12:00:00Z"}), "122", "244")
	grams(40, "0")
	grams(45, "90")
	shows(c.Patch(t, path, j{"started_at": day(45) + "T10:00:00Z"}), "2", "4")
	shows(c.Patch(t, path, j{"actual_print_time_hours": 3}), "3", "6")
	shows(c.Patch(t, path, j{"completed_at": day(44) + "T12:00:00Z", "notes": "given hours stay"}), "3", "6")
	grams(44, "90")
	shows(c.Patch(t, path, j{"actual_print_time_hours": nil}), "26", "52")
	shows(c.Patch(t, path, string(c.Get(t, path).Body)), "26", "52")
	c.Get(t, path+"/history").Shows(map[string]string{"total": "7", "items.0.action": "corrected"})

	for _, bad := range []struct {
		body  j
		field string
	}{
		{j{"completed_at": day(46) + "T12:00:00Z"}, "completed_at"},
		{j{"completed_at": day(-2) + "T12:00:00Z"}, "completed_at"},
		{j{"started_at": day(1) + "T12:00:00Z"}, "started_at"},
		{j{"started_at": day(1) + "T12:00:00Z", "completed_at": day(2) + "T12:00:00Z"}, "completed_at"},
	} {
		c.Post(t, path+"/correct", bad.body).WantError(422, "VALIDATION_ERROR").
			Shows(map[string]string{"errors.0.field": bad.field})
		c.Patch(t, path, bad.body).WantError(422, "VALIDATION_ERROR").
			Shows(map[string]string{"errors.0.field": bad.field})
	}
	// An update that fails corrects nothing.
	c.Patch(t, path, j{"actual_print_time_hours": 1, "printer_id": value.NewID()}).WantError(400, "UNKNOWN_REFERENCE")
	c.Patch(t, path, j{"actual_print_time_hours": 1, "status": "paused"}).WantError(400, "RUN_ALREADY_COMPLETED")
	shows(c.Get(t, path), "26", "52")
}

// A reopened run is as before its end, and ends again with exact sums.
func TestReopen(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	prices(t, c, "2", "0.5", "30")
	spool := createSpool(t, c, j{"purchase_price": 20, "remaining_weight_grams": 90})
	printer := c.Post(t, printersURL, j{"name": "MK4"}).Want(201).ID()
	product := c.NewProduct(t, "LAMP", 50)
	order, item := c.NewOrder(t, product, 2)
	run := c.Post(t, runs, j{"printer_id": printer, "status": "in_progress", "started_at": "2024-01-15T10:00:00Z",
		"items":     []j{{"product_id": product, "order_item_id": item, "quantity": 2}},
		"materials": []j{{"spool_id": spool, "estimated_weight_grams": 100}}}).Want(201)
	path := runs + "/" + run.ID()
	c.Post(t, path+"/reopen", nil).WantError(400, "RUN_NOT_ENDED")
	c.Do(t, "PUT", "/spoolman/api/v1/spool/1/use", j{"use_weight": 60}).Want(200)
	c.Post(t, "/api/v1/spools/"+spool+"/deduct", j{"weight_grams": 10}).Want(200)
	before := c.Get(t, path)
	reserved := func() string {
		return c.Get(t, "/api/v1/products/"+product+"/availability?quantity=1").Want(200).Text("materials.0.reserved_grams")
	}
	testkit.Equal(t, reserved(), "40", "reserved grams")
	for _, end := range []string{"complete", "fail", "cancel"} {
		material := j{"spool_id": spool, "count_outside_use": true, "actual_weight_grams": 100}
		body := j{"materials": []j{material}}
		if end != "complete" {
			delete(material, "actual_weight_grams")
			material["wasted_grams"], body["reason"], body["notes"] = 100, "clog", "hot end"
		}
		c.Post(t, path+"/"+end, body).Want(200)
		testkit.Equal(t, remaining(t, c, spool), "0", "%s: grams that remain", end)
		testkit.Equal(t, reserved(), map[bool]string{true: "0", false: "100"}[end == "complete"],
			"reserved grams after %s", end)
		c.Get(t, order).Shows(map[string]string{"status": "in_production"})

		for _, price := range []int{7, 8} { // the price before the end comes back
			c.Post(t, path+"/correct", j{"materials": []j{{"spool_id": spool, "cost_per_gram": price}}}).Want(200)
		}
		c.Post(t, path+"/reopen", j{"reason": "too early"}).Want(200)
		got := c.Get(t, path).Want(200)
		for _, field := range []string{"status", "completed_at", "actual_print_time_hours", "actual_total_filament_grams",
			"cost", "cost_parts", "unknown_parts", "inventory_updated", "failure_reason", "failure_notes", "materials",
			"items"} {
			testkit.Equal(t, got.Text(field), before.Text(field), "%s: %s", end, field)
		}
		testkit.Equal(t, remaining(t, c, spool), "20", "%s: grams that remain after reopen", end)
		testkit.Equal(t, reserved(), "40", "reserved grams")
		balanced(t, c, spool)
		c.Get(t, order).Shows(map[string]string{"status": "in_production", "items.0.produced": "0", "items.0.planned": "2"})
		c.Get(t, printersURL+"/"+printer).Shows(map[string]string{"printed_hours": "0"})
		c.Get(t, path+"/history").Shows(map[string]string{"items.0.action": "reopened", "items.0.reason": "too early"})
		c.SummarizeUsage(t)
		c.Get(t, "/api/v1/reports/usage").Shows(map[string]string{"grams": "70", "wasted_grams": "0"})
	}
	c.Do(t, "PUT", "/spoolman/api/v1/spool/1/use", j{"use_weight": 5}).Want(200)
	c.Post(t, path+"/complete", nil).Want(200).Shows(map[string]string{"spools_updated.0.deducted": "0"})
	c.Get(t, path).Shows(map[string]string{"actual_total_filament_grams": "65", "cost_parts.filament": "1.3"})
	testkit.Equal(t, remaining(t, c, spool), "15", "grams that remain")
	balanced(t, c, spool)

	// The printer prints something else meanwhile.
	other := runs + "/" + c.Post(t, runs, j{"printer_id": printer, "status": "in_progress"}).Want(201).ID()
	c.Post(t, path+"/reopen", nil).WantError(409, "PRINTER_BUSY")
	c.Patch(t, other, j{"status": "paused"}).Want(200)
	c.Post(t, path+"/reopen", nil).Want(200).Shows(map[string]string{"status": "in_progress"})

	// A run that never started is pending again, and one whose status was set only ends the status.
	never := endRun(t, c, "cancel", j{}, nil)
	c.Post(t, never+"/reopen", nil).Want(200).Shows(map[string]string{"status": "pending", "completed_at": "null",
		"warnings.0.code": "NO_PRINTER"})
	set := runs + "/" + c.Post(t, runs, j{"status": "completed", "started_at": "2024-01-15T10:00:00Z"}).Want(201).ID()
	c.Post(t, set+"/reopen", nil).Want(200).Shows(map[string]string{"status": "in_progress", "completed_at": "null"})
	c.Delete(t, set).Want(204)
	c.Post(t, set+"/reopen", nil).WantError(404, "NOT_FOUND")
}

// Reports after the end of a run show that it printed although nobody started it. Such a run has started if its end is
// taken back, and reserves only the rest.
func TestReopenUnstarted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end, back func(c *testkit.Client, path string) *testkit.Response
		status    string
	}{
		"cancel": {
			func(c *testkit.Client, path string) *testkit.Response {
				return c.Post(t, path+"/cancel", j{"materials": []j{{"spool_number": 1, "wasted_grams": 10}}})
			},
			func(c *testkit.Client, path string) *testkit.Response { return c.Post(t, path+"/reopen", nil) },
			"in_progress",
		},
		"status": {
			func(c *testkit.Client, path string) *testkit.Response {
				return c.Patch(t, path, j{"status": "completed"})
			},
			func(c *testkit.Client, path string) *testkit.Response {
				return c.Patch(t, path, j{"status": "pending"})
			},
			"pending",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFarm(t).Operator(t)
			spool, product := createSpool(t, c, nil), c.NewProduct(t, "LAMP", 50)
			printer := c.Post(t, printersURL, j{"name": "MK4"}).Want(201).ID()
			c.Do(t, "PUT", printersURL+"/"+printer+"/slots/1", j{"spool_id": spool}).Want(200)
			path := runs + "/" + c.Post(t, runs, j{"printer_id": printer, "status": "pending",
				"materials": []j{{"spool_id": spool, "estimated_weight_grams": 100}}}).Want(201).ID()
			test.end(c, path).Want(200)
			c.Do(t, "PUT", "/spoolman/api/v1/spool/1/use", j{"use_weight": 40}).Want(200)
			test.back(c, path).Want(200)
			got := c.Get(t, path).Shows(map[string]string{"status": test.status, "materials.0.reported_grams": "40"})
			if got.Text("started_at") == "null" {
				t.Error("the run has not started")
			}
			c.Get(t, "/api/v1/products/"+product+"/availability?quantity=1").Want(200).
				Shows(map[string]string{"materials.0.reserved_grams": "60", "materials.0.remaining_grams": "960"})
			balanced(t, c, spool)
		})
	}
}

// Corrections, reports and ends at the same time have one outcome each, and exact sums.
func TestCorrectionsRace(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	for range 8 {
		spool := createSpool(t, c, nil)
		number := c.Get(t, "/api/v1/spools/"+spool).Text("number")
		printer := c.Post(t, printersURL, j{"name": "P" + number}).Want(201).ID()
		c.Do(t, "PUT", printersURL+"/"+printer+"/slots/1", j{"spool_id": spool}).Want(200)
		path := runs + "/" + c.Post(t, runs, j{"printer_id": printer, "status": "in_progress",
			"materials": []j{{"spool_id": spool}}}).Want(201).ID()
		c.Do(t, "PUT", "/spoolman/api/v1/spool/"+number+"/use", j{"use_weight": 40}).Want(200)
		c.Post(t, path+"/complete", nil).Want(200)
		race := testkit.Race(t, 6, func(i int) (*testkit.Response, error) {
			switch i {
			case 0, 1:
				return c.Send("POST", path+"/correct",
					j{"materials": []j{{"spool_id": spool, "actual_weight_grams": 50 + i}}})
			case 2:
				return c.Send("PUT", "/spoolman/api/v1/spool/"+number+"/use", j{"use_weight": 7})
			case 3:
				return c.Send("POST", path+"/reopen", nil)
			case 4:
				return c.Send("POST", path+"/complete", j{"materials": []j{{"spool_id": spool, "actual_weight_grams": 60}}})
			}
			return c.Send("POST", path+"/reopen", nil)
		})
		for _, a := range race {
			if a.Status != 200 && a.Status != 400 {
				t.Errorf("%s: %d %s", a.What, a.Status, a.Body)
			}
		}
		balanced(t, c, spool)
		c.Post(t, path+"/reopen", nil)
		testkit.Equal(t, remaining(t, c, spool), "953", "grams that remain beside the reports")
		c.Post(t, path+"/complete", nil).Want(200)
		c.Get(t, path).Shows(map[string]string{"actual_total_filament_grams": "47"})
		balanced(t, c, spool)
	}
}
