package production_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/catalog"
	"spoolwright/inventory"
	"spoolwright/orders"
	"spoolwright/production"
	"spoolwright/production/printers"
	"spoolwright/tests/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type j = testkit.JSON

func newAPI(t *testing.T) *testkit.API {
	t.Helper()
	return testkit.New(t, testkit.Options{}, inventory.Routes, printers.Routes, catalog.Routes,
		production.Routes(orders.Runs))
}

const runs = "/api/v1/production-runs"

func createSpool(t *testing.T, c *testkit.Client, fields j) string {
	t.Helper()
	body := j{"material_type": "PLA", "color": "Black", "brand": "Polymaker", "diameter_mm": 1.75,
		"net_weight_grams": 1000, "purchase_price": 25}
	for name, value := range fields {
		body[name] = value
	}
	return c.Post(t, "/api/v1/spools", body).Want(201).ID()
}

func remaining(t *testing.T, c *testkit.Client, spool string) string {
	t.Helper()
	return c.Get(t, "/api/v1/spools/"+spool).Want(200).Text("remaining_weight_grams")
}

// addWeighed adds a material with the weights before and after to a run, and returns its id.
func addWeighed(t *testing.T, c *testkit.Client, run, spool string, before, after any) string {
	t.Helper()
	return c.Post(t, runs+"/"+run+"/materials", j{"spool_id": spool, "spool_weight_before_grams": before,
		"spool_weight_after_grams": after}).Want(201).ID()
}

func TestRunLifecycle(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	black := createSpool(t, c, j{"remaining_weight_grams": 850})
	run := c.Post(t, runs, j{"started_at": "2024-01-15T10:00:00Z", "estimated_print_time_hours": 4.0,
		"estimated_total_filament_grams": 150, "printer_name": "Printer 1", "status": "in_progress",
		"notes": "first"}).
		Want(201)
	run.Shows(map[string]string{"status": "in_progress", "started_at": "2024-01-15T10:00:00Z", "completed_at": "null",
		"variance_analysis.material_variance_grams": "null", "variance_analysis.time_variance_percent": "null"})
	path := runs + "/" + run.ID()
	testkit.Equal(t, run.Header.Get("Location"), path, "Location")
	material := c.Post(t, path+"/materials", j{"spool_id": black, "estimated_weight_grams": 150,
		"estimated_purge_grams": 5}).Want(201)
	material.Shows(map[string]string{"spool_name": "PLA Black (Polymaker)", "cost_per_gram": "0.025",
		"actual_weight_grams": "null"})
	c.Post(t, path+"/complete", nil).WantError(400, "ACTUAL_USAGE_MISSING")
	c.Patch(t, path+"/materials/"+material.ID(),
		j{"spool_weight_before_grams": 850, "spool_weight_after_grams": 695}).Want(200).
		Shows(map[string]string{"actual_weight_grams": "155", "spool_weight_before_grams": "850",
			"spool_weight_after_grams": "695"})
	c.Patch(t, path, j{"completed_at": "2024-01-15T14:30:00Z", "quality_rating": 5, "quality_notes": "Perfect"}).
		Want(200).Shows(map[string]string{"quality_rating": "5"})

	c.Post(t, path+"/complete", nil).Want(200).Shows(map[string]string{
		"id": run.ID(), "status": "completed", "completed_at": "2024-01-15T14:30:00Z", "inventory_updated": "true",
		"spools_updated.0.spool_id": black, "spools_updated.0.previous_weight": "850",
		"spools_updated.0.new_weight": "695", "spools_updated.0.deducted": "155",
	})
	c.Get(t, path).Want(200).Shows(map[string]string{
		"status": "completed", "actual_print_time_hours": "4.5", "actual_total_filament_grams": "155",
		"variance_analysis.material_variance_grams": "5", "variance_analysis.material_variance_percent": "3.3",
		"variance_analysis.time_variance_hours": "0.5", "variance_analysis.time_variance_percent": "12.5",
		"materials.0.actual_weight_grams": "155",
	})
	testkit.Equal(t, remaining(t, c, black), "695", "grams that remain")
	c.Get(t, "/api/v1/spools/"+black+"/usage").Want(200).Shows(map[string]string{
		"total": "2", "items.0.kind": "run", "items.0.run_id": run.ID(), "items.0.user_id": c.Actor.User,
		"items.0.change_grams": "-155",
	})
	c.Get(t, runs).Want(200).
		Shows(map[string]string{"total": "1", "items.0.id": run.ID(), "items.0.actual_print_time_hours": "4.5"})
}

func TestCompleteErrors(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	unchanged := func(t *testing.T, path string, spools map[string]string) {
		t.Helper()
		c.Get(t, path).Want(200).
			Shows(map[string]string{"status": "pending", "completed_at": "null",
				"actual_total_filament_grams": "null"})
		for id, want := range spools {
			answer := c.Get(t, "/api/v1/spools/"+id)
			if answer.Status == 200 {
				answer.Shows(map[string]string{"remaining_weight_grams": want})
				c.Get(t, "/api/v1/spools/"+id+"/usage").Want(200).Shows(map[string]string{"total": "1"})
			}
		}
	}
	newRun := func() string { return runs + "/" + c.Post(t, runs, j{}).Want(201).ID() }
	id := func(path string) string { return path[len(runs)+1:] }

	t.Run("no materials", func(t *testing.T) {
		path := newRun()
		c.Post(t, path+"/complete", nil).WantError(400, "RUN_HAS_NO_MATERIALS")
		unchanged(t, path, nil)
	})
	t.Run("a material without a weight", func(t *testing.T) {
		path, a, b := newRun(), createSpool(t, c, nil), createSpool(t, c, j{"color": "Red", "brand": nil})
		addWeighed(t, c, id(path), a, 100, 50)
		half := c.Post(t, path+"/materials", j{"spool_id": b, "spool_weight_before_grams": 10}).Want(201).ID()
		answer := c.Post(t, path+"/complete", nil).WantError(400, "ACTUAL_USAGE_MISSING")
		if want := "Record actual_weight_grams, or spool_weight_before_grams and spool_weight_after_grams, first for: " +
			"PLA Red (material " + half + ")"; answer.Text("detail") != want {
			t.Errorf("the detail is %s", answer.Text("detail"))
		}
		unchanged(t, path, map[string]string{a: "1000", b: "1000"})
	})
	t.Run("too little filament on one of two spools", func(t *testing.T) {
		path, a, b := newRun(), createSpool(t, c, nil), createSpool(t, c, j{"remaining_weight_grams": 49.999999})
		addWeighed(t, c, id(path), a, 100, 50)
		addWeighed(t, c, id(path), b, 100, 50)
		c.Post(t, path+"/complete", nil).Want(200).Shows(map[string]string{
			"spools_updated.1.new_weight": "0", "spools_updated.1.shortfall_grams": "0.000001", "warnings.0.spool_id": b,
			"warnings.0.code": "FILAMENT_SHORTFALL", "warnings.0.grams": "0.000001"})
		c.Get(t, path).Want(200).Shows(map[string]string{"actual_total_filament_grams": "100"})
	})
	t.Run("too little filament for two materials of a spool", func(t *testing.T) {
		path, a := newRun(), createSpool(t, c, j{"remaining_weight_grams": 100})
		addWeighed(t, c, id(path), a, 100, 40)
		addWeighed(t, c, id(path), a, 100, 50)
		c.Post(t, path+"/complete", nil).Want(200).Shows(map[string]string{"spools_updated.0.deducted": "100",
			"spools_updated.0.shortfall_grams": "10", "warnings.0.grams": "10"})
	})
	t.Run("a removed spool", func(t *testing.T) {
		path, a, b := newRun(), createSpool(t, c, nil), createSpool(t, c, nil)
		addWeighed(t, c, id(path), a, 100, 50)
		addWeighed(t, c, id(path), b, 100, 50)
		c.Delete(t, "/api/v1/spools/"+b).Want(204)
		c.Post(t, path+"/complete", nil).Want(200).Shows(map[string]string{"spools_updated.1.new_weight": "950",
			"warnings.0.code": "SPOOL_REMOVED", "warnings.0.spool_id": b})
	})
	t.Run("unknown run", func(t *testing.T) {
		c.Post(t, runs+"/0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41/complete", nil).WantError(404, "NOT_FOUND")
	})
}

func TestMaterialsOfOneSpool(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	a, b := createSpool(t, c, nil), createSpool(t, c, j{"remaining_weight_grams": 0.3})
	run := c.Post(t, runs, j{}).Want(201).ID()
	addWeighed(t, c, run, a, 500, 400)
	addWeighed(t, c, run, b, 0.3, 0)
	addWeighed(t, c, run, a, 400, 399.9)
	addWeighed(t, c, run, a, 7, 7) // nothing was used
	answer := c.Post(t, runs+"/"+run+"/complete", nil).Want(200)
	if n := len(answer.List("spools_updated")); n != 2 {
		t.Fatalf("%d spools updated, want 2: %s", n, answer.Body)
	}
	testkit.Equal(t, remaining(t, c, a), "899.9", "grams that remain")
	c.Get(t, "/api/v1/spools/"+b).Want(200).Shows(map[string]string{"remaining_weight_grams": "0"})
	c.Get(t, runs+"/"+run).Want(200).Shows(map[string]string{"actual_total_filament_grams": "100.4"})
	c.Get(t, "/api/v1/spools/"+a+"/usage?sort_order=asc").Want(200).Shows(map[string]string{
		"total": "2", "items.1.before_grams": "1000", "items.1.after_grams": "899.9", "items.1.change_grams": "-100.1",
		"items.1.run_id": run,
	})
}

// Five concurrent requests complete each of 12 runs, which use the same two spools in opposite order.
func TestConcurrentCompletes(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	a, b := createSpool(t, c, nil), createSpool(t, c, nil)
	var ids []string
	for n := range 12 {
		run := c.Post(t, runs, j{}).Want(201).ID()
		first, second := a, b
		if n%2 == 1 {
			first, second = b, a
		}
		addWeighed(t, c, run, first, 30, 0.5)
		addWeighed(t, c, run, second, 20, 0.25)
		ids = append(ids, run)
	}
	testkit.Race(t, 60, func(i int) (*testkit.Response, error) {
		return c.Send("POST", runs+"/"+ids[i%12]+"/complete", nil)
	}).Want(t, map[string]int{"200": 12, "400 RUN_ALREADY_COMPLETED": 48})
	// Six runs use 29.5 g of a and 19.75 g of b; the other six use 19.75 g of a and 29.5 g of b.
	for _, id := range []string{a, b} {
		testkit.Equal(t, remaining(t, c, id), "704.5", "grams that remain")
		c.Get(t, "/api/v1/spools/"+id+"/usage").Want(200).Shows(map[string]string{"total": "13"})
	}
}

func TestCompletedRunIsFixed(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	a := createSpool(t, c, nil)
	run := c.Post(t, runs, j{}).Want(201).ID()
	path := runs + "/" + run
	item := c.Post(t, path+"/items", j{"product_id": c.Post(t, "/api/v1/products", j{"name": "Lamp"}).Want(201).
		ID()}).Want(201).ID()

	// A PATCH of the status deducts nothing, and complete succeeds after it.
	c.Patch(t, path, j{"status": "completed"}).Want(200)
	material := addWeighed(t, c, run, a, 100, 90)
	if got := remaining(t, c, a); got != "1000" {
		t.Fatalf("%s g remain, want 1000", got)
	}
	c.Post(t, path+"/complete", nil).Want(200)

	c.Post(t, path+"/complete", nil).WantError(400, "RUN_ALREADY_COMPLETED")
	c.Patch(t, path, j{"status": "failed", "notes": "x"}).WantError(400, "RUN_ALREADY_COMPLETED")
	c.Post(t, path+"/materials", j{"spool_id": a}).WantError(400, "RUN_ALREADY_COMPLETED")
	c.Patch(t, path+"/materials/"+material, j{"spool_weight_after_grams": 80}).WantError(400, "RUN_ALREADY_COMPLETED")
	c.Patch(t, path+"/materials/"+material, j{"estimated_weight_grams": 80}).WantError(400, "RUN_ALREADY_COMPLETED")
	c.Delete(t, path+"/materials/"+material).WantError(400, "RUN_ALREADY_COMPLETED")
	c.Get(t, path).Want(200).
		Shows(map[string]string{"status": "completed", "notes": "null", "materials.0.spool_weight_after_grams": "90"})

	// A PATCH with the current values succeeds, and the other fields can change.
	c.Patch(t, path, j{"status": "completed", "notes": "kept"}).Want(200).Shows(map[string]string{"notes": "kept"})
	c.Patch(t, path+"/materials/"+material, j{"spool_weight_after_grams": 90, "spool_id": a,
		"estimated_weight_grams": nil}).Want(200)
	c.Patch(t, path+"/materials/"+material, j{}).Want(200)
	c.Patch(t, path, j{"quality_rating": 4, "printer_name": "B", "actual_print_time_hours": 3}).Want(200).
		Shows(map[string]string{"actual_print_time_hours": "3"})
	c.Patch(t, path+"/items/"+item, j{"successful_quantity": 1}).Want(200)
	c.Post(t, path+"/items", j{"product_id": c.Get(t, path).Text("items.0.product_id")}).Want(201)
	c.Delete(t, path+"/items/"+item).Want(204)

	// The whole resource can be fetched, edited and sent back.
	whole := c.Get(t, path).Value("").(map[string]any)
	whole["notes"] = "edited"
	c.Patch(t, path, whole).Want(200).Shows(map[string]string{"notes": "edited", "status": "completed"})

	c.Delete(t, path).Want(204)
	c.Get(t, path).WantError(404, "NOT_FOUND")
	c.Delete(t, path).WantError(404, "NOT_FOUND")
	testkit.Equal(t, remaining(t, c, a), "990", "grams that remain after the run was removed")
	c.Get(t, "/api/v1/spools/"+a+"/usage").Want(200).Shows(map[string]string{"total": "2", "items.0.run_id": run})
	c.Get(t, runs).Want(200).Shows(map[string]string{"total": "0"})
}

// Concurrent requests complete a run and add and change its materials. What is added or changed before complete is
// deducted; later requests fail.
func TestCompleteConcurrentWithMaterials(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	a := createSpool(t, c, j{"remaining_weight_grams": 100000, "net_weight_grams": 100000})
	for range 10 {
		run := c.Post(t, runs, j{}).Want(201).ID()
		material := addWeighed(t, c, run, a, 10, 9)
		testkit.Concurrently(6, func(n int) {
			switch n % 3 {
			case 0:
				c.Send("POST", runs+"/"+run+"/complete", nil)
			case 1:
				c.Send("POST", runs+"/"+run+"/materials", j{"spool_id": a, "spool_weight_before_grams": 10,
					"spool_weight_after_grams": 7})
			case 2:
				c.Send("PATCH", runs+"/"+run+"/materials/"+material, j{"spool_weight_after_grams": 5})
			}
		})
		c.Post(t, runs+"/"+run+"/complete", nil).WantError(400, "RUN_ALREADY_COMPLETED")
		got := c.Get(t, runs+"/"+run).Want(200)
		sum := 0.0
		for i := range got.List("materials") {
			var grams float64
			fmt.Sscan(got.Text(fmt.Sprintf("materials.%d.actual_weight_grams", i)), &grams)
			sum += grams
		}
		if total := got.Text("actual_total_filament_grams"); total != fmt.Sprint(sum) {
			t.Errorf("the run used %s g, and its materials %v g", total, sum)
		}
		usage := c.Get(t, "/api/v1/spools/"+a+"/usage?limit=100").Want(200)
		deducted := 0.0
		for i := range usage.List("items") {
			if usage.Text(fmt.Sprintf("items.%d.run_id", i)) == run {
				var grams float64
				fmt.Sscan(usage.Text(fmt.Sprintf("items.%d.change_grams", i)), &grams)
				deducted -= grams
			}
		}
		testkit.Equal(t, deducted, sum, "grams that were deducted, and those that the materials used")
	}
}

func TestStatusSetsTimes(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	set := func(a *testkit.Response, field string) bool { return a.Text(field) != "null" }
	c.Post(t, runs, j{}).Want(201).
		Shows(map[string]string{"status": "pending", "started_at": "null", "completed_at": "null", "items": "[]",
			"materials": "[]"})
	if a := c.Post(t, runs, j{"status": "in_progress"}).Want(201); !set(a, "started_at") || set(a, "completed_at") {
		t.Errorf("times after in_progress: %s", a.Body)
	}
	if a := c.Post(t, runs, j{"status": "completed"}).Want(201); set(a, "started_at") || !set(a, "completed_at") {
		t.Errorf("times after completed: %s", a.Body)
	}
	for _, status := range []string{"paused", "failed", "cancelled"} {
		if a := c.Post(t, runs, j{"status": status}).Want(201); set(a, "started_at") || set(a, "completed_at") {
			t.Errorf("times after %s: %s", status, a.Body)
		}
	}
	path := runs + "/" + c.Post(t, runs, j{}).Want(201).ID()
	c.Patch(t, path, j{"status": "in_progress", "started_at": "2024-01-15T12:00:00+02:00"}).Want(200).
		Shows(map[string]string{"started_at": "2024-01-15T10:00:00Z"})
	c.Patch(t, path, j{"status": "in_progress"}).Want(200).
		Shows(map[string]string{"started_at": "2024-01-15T10:00:00Z"})
	if a := c.Patch(t, path, j{"status": "in_progress", "started_at": nil}).Want(200); !set(a, "started_at") ||
		a.Text("started_at") == "2024-01-15T10:00:00Z" {
		t.Errorf("started_at after a clearing PATCH to in_progress: %s", a.Body)
	}
	if a := c.Patch(t, path, j{"status": "completed"}).Want(200); !set(a, "completed_at") {
		t.Errorf("no completed_at: %s", a.Body)
	}
	// A run that is open again has no end.
	c.Patch(t, path, j{"status": "paused"}).Want(200).Shows(map[string]string{"completed_at": "null"})
	const end = "2024-01-15T14:00:00Z"
	c.Patch(t, path, j{"completed_at": end}).Want(200).Shows(map[string]string{"completed_at": end})
	c.Patch(t, path, j{"status": "in_progress"}).Want(200).Shows(map[string]string{"completed_at": end})
	c.Patch(t, path, j{"status": "completed"}).Want(200).Shows(map[string]string{"completed_at": end})
	// Each status can follow each other one.
	for _, status := range []string{"pending", "cancelled", "in_progress", "failed", "paused", "completed",
		"pending"} {
		c.Patch(t, path, j{"status": status}).Want(200).Shows(map[string]string{"status": status})
	}
}

func TestVariance(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	for _, test := range []struct {
		name   string
		fields j
		want   [4]string
	}{
		{"nothing", j{}, [4]string{"null", "null", "null", "null"}},
		{"no actual", j{"estimated_print_time_hours": 4, "estimated_total_filament_grams": 150},
			[4]string{"null", "null", "null", "null"}},
		{"no estimate", j{"actual_print_time_hours": 4, "actual_total_filament_grams": 150},
			[4]string{"null", "null", "null", "null"}},
		{"zero estimate", j{"estimated_print_time_hours": 0, "estimated_total_filament_grams": 0,
			"actual_print_time_hours": 4, "actual_total_filament_grams": 150}, [4]string{"150", "null", "4", "null"}},
		{"less than estimated", j{"estimated_print_time_hours": 3, "estimated_total_filament_grams": 150,
			"actual_print_time_hours": 2, "actual_total_filament_grams": 149.9},
			[4]string{"-0.1", "-0.1", "-1", "-33.3"}},
		{"far more", j{"estimated_print_time_hours": 0.000001, "estimated_total_filament_grams": 0.000001,
			"actual_print_time_hours": 100000, "actual_total_filament_grams": 1000000},
			[4]string{"999999.999999", "99999999999900", "99999.999999", "9999999999900"}},
	} {
		c.Post(t, runs, test.fields).Want(201).Shows(map[string]string{
			"variance_analysis.material_variance_grams":   test.want[0],
			"variance_analysis.material_variance_percent": test.want[1],
			"variance_analysis.time_variance_hours":       test.want[2],
			"variance_analysis.time_variance_percent":     test.want[3],
		})
	}
}

func TestCompleteTimes(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	a := createSpool(t, c, nil)
	complete := func(fields j) *testkit.Response {
		run := c.Post(t, runs, fields).Want(201).ID()
		addWeighed(t, c, run, a, 2, 1)
		c.Post(t, runs+"/"+run+"/complete", nil).Want(200)
		return c.Get(t, runs+"/"+run).Want(200)
	}
	complete(j{"completed_at": "2024-01-15T14:30:00Z"}).
		Shows(map[string]string{"actual_print_time_hours": "null", "completed_at": "2024-01-15T14:30:00Z"})
	complete(j{"started_at": "2024-01-15T14:00:00Z", "completed_at": "2024-01-15T14:00:01Z"}).
		Shows(map[string]string{"actual_print_time_hours": "null"})
	complete(j{"started_at": "2024-01-15T14:00:00Z", "completed_at": "2024-01-15T15:00:00Z",
		"actual_print_time_hours": 7}).Shows(map[string]string{"actual_print_time_hours": "7"})
	complete(j{"started_at": "2024-01-15T14:00:00Z", "completed_at": "2024-01-15T13:00:00Z"}).
		Shows(map[string]string{"actual_print_time_hours": "null"})
	complete(j{"started_at": "1900-01-01T00:00:00Z", "completed_at": "9999-12-31T23:00:00Z"}).
		Shows(map[string]string{"actual_print_time_hours": "null"})
	complete(j{"actual_total_filament_grams": 12}).Shows(map[string]string{"actual_total_filament_grams": "1"})
}

// Times that a new run gets are PostgreSQL's, as those of its start and end are: the clocks of instances may differ.
func TestRunTimesAreThoseOfDatabase(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	for status, field := range map[string]string{"in_progress": "started_at", "completed": "completed_at"} {
		run := c.Post(t, runs, j{"status": status}).Want(201)
		testkit.Equal(t, run.Text(field), run.Text("created_at"), "%s", field) // one transaction has one time
	}
}

func TestRunBadInput(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	product := c.Post(t, "/api/v1/products", j{"name": "Lamp"}).Want(201).ID()
	a := createSpool(t, c, nil)
	path := runs + "/" + c.Post(t, runs, j{}).Want(201).ID()
	item := path + "/items/" + c.Post(t, path+"/items", j{"product_id": product, "quantity": 3}).Want(201).ID()
	material := path + "/materials/" + addWeighed(t, c, path[len(runs)+1:], a, 10, 5)
	unknown := "0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41"
	long := string(make([]rune, 0))
	for range 201 {
		long += "ä"
	}
	for _, test := range []struct {
		method, path string
		body         j
		fields       []string
	}{
		{"POST", runs, j{"status": "done", "printer_name": long, "started_at": "yesterday", "completed_at": 5,
			"estimated_print_time_hours": -1, "actual_print_time_hours": 100001,
			"estimated_total_filament_grams": "1", "actual_total_filament_grams": 1000001, "quality_rating": 6,
			"quality_notes": false, "notes": "\x00", "printer": "x"}, []string{"status", "printer_name", "started_at",
			"completed_at", "estimated_print_time_hours", "actual_print_time_hours", "estimated_total_filament_grams",
			"actual_total_filament_grams", "quality_rating", "quality_notes", "notes", "printer"}},
		{"POST", runs, j{"quality_rating": 0}, []string{"quality_rating"}},
		{"POST", runs, j{"quality_rating": 4.5}, []string{"quality_rating"}},
		{"POST", runs, j{"items": []j{{"product_id": product}, {"quantity": 0}, {"product_id": product,
			"successful_quantity": 1, "failed_quantity": 1}}, "materials": []j{{"spool_id": a,
			"spool_weight_before_grams": 1, "spool_weight_after_grams": 2}, {"actual_weight_grams": -1}}},
			[]string{"items[1].product_id", "items[1].quantity", "items[2].successful_quantity",
				"materials[0].spool_weight_after_grams", "materials[1].spool_id", "materials[1].actual_weight_grams"}},
		{"PATCH", path, j{"status": nil, "quality_rating": 9}, []string{"status", "quality_rating"}},
		{"POST", path + "/items", j{}, []string{"product_id"}},
		{"POST", path + "/items", j{"product_id": "x", "quantity": 0, "successful_quantity": -1,
			"estimated_total_cost": -1}, []string{"product_id", "quantity", "successful_quantity",
			"estimated_total_cost"}},
		{"POST", path + "/items", j{"product_id": product, "quantity": 2, "successful_quantity": 1,
			"failed_quantity": 2}, []string{"successful_quantity"}},
		{"POST", path + "/items", j{"product_id": product, "successful_quantity": 2},
			[]string{"successful_quantity"}},
		{"PATCH", item, j{"successful_quantity": 2, "failed_quantity": 2}, []string{"successful_quantity"}},
		{"PATCH", item, j{"quantity": nil, "product_id": nil}, []string{"quantity", "product_id"}},
		{"POST", path + "/materials", j{"estimated_weight_grams": -1},
			[]string{"spool_id", "estimated_weight_grams"}},
		{"POST", path + "/materials", j{"spool_id": a, "spool_weight_before_grams": 5,
			"spool_weight_after_grams": 5.000001}, []string{"spool_weight_after_grams"}},
		{"PATCH", material, j{"spool_weight_after_grams": 10.000001}, []string{"spool_weight_after_grams"}},
		{"PATCH", material, j{"spool_weight_before_grams": 4}, []string{"spool_weight_after_grams"}},
		{"PATCH", material, j{"spool_id": nil, "cost_per_gram": -1}, []string{"spool_id", "cost_per_gram"}},
	} {
		c.Do(t, test.method, test.path, test.body).Fields(test.fields...)
	}
	c.Post(t, path+"/items", j{"product_id": unknown}).WantError(400, "UNKNOWN_REFERENCE")
	c.Patch(t, item, j{"product_id": unknown}).WantError(400, "UNKNOWN_REFERENCE")
	c.Post(t, path+"/materials", j{"spool_id": unknown}).WantError(400, "UNKNOWN_REFERENCE")
	c.Patch(t, material, j{"spool_id": unknown}).WantError(400, "UNKNOWN_REFERENCE")
	other := runs + "/" + c.Post(t, runs, j{}).Want(201).ID()
	for _, wrong := range []string{runs + "/" + unknown, other} {
		c.Patch(t, wrong+item[len(path):], j{"quantity": 4}).WantError(404, "NOT_FOUND")
		c.Delete(t, wrong+item[len(path):]).WantError(404, "NOT_FOUND")
		c.Patch(t, wrong+material[len(path):], j{"estimated_weight_grams": 4}).WantError(404, "NOT_FOUND")
		c.Delete(t, wrong+material[len(path):]).WantError(404, "NOT_FOUND")
	}
	c.Post(t, runs+"/"+unknown+"/items", j{"product_id": product}).WantError(404, "NOT_FOUND")
	c.Post(t, runs+"/"+unknown+"/materials", j{"spool_id": a}).WantError(404, "NOT_FOUND")
	c.Patch(t, runs+"/"+unknown, j{"notes": "x"}).WantError(404, "NOT_FOUND")
	c.Patch(t, runs+"/"+unknown, j{}).WantError(404, "NOT_FOUND")
}

func TestItemsAndMaterials(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	a := createSpool(t, c, nil)
	// The lamp costs 1.25 for its material, and 0.5 for a component.
	product := c.Post(t, "/api/v1/products", j{"name": "Lamp"}).Want(201).ID()
	c.Post(t, "/api/v1/products/"+product+"/materials", j{"material_type": "PLA", "color": "black",
		"weight_grams": 50}).Want(201)
	foot := c.Post(t, "/api/v1/products", j{"name": "Foot"}).Want(201).ID()
	c.Post(t, "/api/v1/products/"+foot+"/materials", j{"material_type": "PLA", "color": "black",
		"weight_grams": 20}).Want(201)
	c.Post(t, "/api/v1/products/"+product+"/components", j{"component_product_id": foot}).Want(201)
	path := runs + "/" + c.Post(t, runs, j{}).Want(201).ID()

	item := c.Post(t, path+"/items", j{"product_id": product, "quantity": 3}).Want(201)
	item.Shows(map[string]string{"product_name": "Lamp", "quantity": "3", "estimated_material_cost": "3.75",
		"estimated_total_cost": "5.25", "successful_quantity": "null", "failed_quantity": "null"})
	testkit.Equal(t, item.Header.Get("Location"), path+"/items/"+item.ID(), "Location")
	c.Post(t, path+"/items", j{"product_id": product, "estimated_material_cost": 1, "estimated_total_cost": 0}).
		Want(201).
		Shows(map[string]string{"quantity": "1", "estimated_material_cost": "1", "estimated_total_cost": "0"})
	c.Patch(t, path+"/items/"+item.ID(), j{"successful_quantity": 2, "failed_quantity": 1}).Want(200).
		Shows(map[string]string{"successful_quantity": "2", "failed_quantity": "1"})
	c.Patch(t, path+"/items/"+item.ID(), j{"failed_quantity": nil}).Want(200).
		Shows(map[string]string{"failed_quantity": "null"})
	c.Patch(t, path+"/items/"+item.ID(), j{}).Want(200).Shows(map[string]string{"successful_quantity": "2"})

	material := c.Post(t, path+"/materials", j{"spool_id": a, "estimated_weight_grams": 150.1234567,
		"cost_per_gram": 0.03}).Want(201)
	material.Shows(map[string]string{"estimated_weight_grams": "150.123457", "cost_per_gram": "0.03"})
	plain := createSpool(t, c, j{"brand": nil, "purchase_price": nil, "color": "Sky Blue"})
	c.Post(t, path+"/materials", j{"spool_id": plain}).Want(201).
		Shows(map[string]string{"spool_name": "PLA Sky Blue", "cost_per_gram": "null"})

	// The names of a removed product and spool remain. New references to them fail; the current ones can be sent
	// again.
	c.Delete(t, "/api/v1/products/"+product).Want(204)
	c.Delete(t, "/api/v1/spools/"+a).Want(204)
	c.Get(t, path).Want(200).
		Shows(map[string]string{"items.0.product_name": "Lamp", "materials.0.spool_name": "PLA Black (Polymaker)",
			"materials.1.spool_name": "PLA Sky Blue"})
	c.Post(t, path+"/items", j{"product_id": product}).WantError(400, "UNKNOWN_REFERENCE")
	c.Post(t, path+"/materials", j{"spool_id": a}).WantError(400, "UNKNOWN_REFERENCE")
	c.Patch(t, path+"/items/"+item.ID(), j{"product_id": product, "quantity": 5}).Want(200).
		Shows(map[string]string{"quantity": "5"})
	c.Patch(t, path+"/materials/"+material.ID(), j{"spool_id": a, "actual_purge_grams": 2}).Want(200).
		Shows(map[string]string{"actual_purge_grams": "2"})

	// Products, spools and runs of another tenant do not exist for this one.
	d := api.Operator(t)
	c.Post(t, path+"/materials", j{"spool_id": createSpool(t, d, nil)}).WantError(400, "UNKNOWN_REFERENCE")
	c.Post(t, path+"/items", j{"product_id": d.Post(t, "/api/v1/products", j{"name": "Theirs"}).Want(201).ID()}).
		WantError(400, "UNKNOWN_REFERENCE")
	d.Get(t, path).WantError(404, "NOT_FOUND")
	d.Post(t, path+"/complete", nil).WantError(404, "NOT_FOUND")

	c.Delete(t, path+"/items/"+item.ID()).Want(204)
	c.Delete(t, path+"/items/"+item.ID()).WantError(404, "NOT_FOUND")
	c.Delete(t, path+"/materials/"+material.ID()).Want(204)
	c.Delete(t, path+"/materials/"+material.ID()).WantError(404, "NOT_FOUND")
	testkit.Equal(t, len(c.Get(t, path).Want(200).List("items")), 1, "items left")
}

// The checks of the tables allow exactly the values that the API accepts.
func TestEnumsMatchTables(t *testing.T) {
	t.Parallel()
	testkit.WantChecked(t, "production_runs", "status", production.RunStatus("").Enum())
}

// A search finds runs by a part of the printer's name or of the notes.
func TestSearch(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c, other := api.Operator(t), api.Operator(t)
	for _, r := range []j{{"printer_name": "Prusa MK4"}, {"printer_name": "Voron", "notes": "reprint of MK4 plate"},
		{"notes": "Ärger"}, {}} {
		c.Post(t, runs, r).Want(201)
		other.Post(t, runs, r).Want(201)
	}
	for search, total := range map[string]string{"mk4": "2", "voron": "1", "äRGER": "1", "": "4", "%": "0",
		"vorone":               "0",
		"mk4&status=completed": "0", "mk4&status=pending&sort_by=printer_name": "2"} {
		c.Get(t, runs+"?search="+strings.ReplaceAll(search, "%",
			"%25")).Want(200).Shows(map[string]string{"total": total})
	}
	c.Get(t, runs+"?search="+strings.Repeat("x", 101)).Fields("search")
}
