package spoolman_test

import (
	"fmt"
	"testing"

	"spoolwright/auth/archive"
	"spoolwright/db"
	"spoolwright/tests/testkit"
)

const productionRuns = "/api/v1/production-runs"

// farm is a tenant with two printers whose keys report.
type farm struct {
	*printer // an operator, and a key without a printer
	printers []string
	keys     []*printer
}

func newFarm(t *testing.T) *farm {
	t.Helper()
	api := start(t)
	tenant := api.Tenant(t)
	admin := tenant.User(t, "admin")
	f := &farm{printer: &printer{api.URL, keyOf(t, tenant, "printer"), tenant.User(t, "operator")}}
	for i := range 2 {
		id := admin.Post(t, "/api/v1/printers", j{"name": fmt.Sprint("P", i), "slots": 4}).Want(201).ID()
		key := admin.Post(t, "/api/v1/api-keys", j{"name": "k", "role": "printer", "printer_id": id}).Want(201).Text("key")
		f.printers = append(f.printers, id)
		f.keys = append(f.keys, &printer{api.URL, key, f.operator})
	}
	return f
}

// spool adds a spool with the remaining weight and a price of 0.02 for each gram, and returns its id.
func (f *farm) spool(t *testing.T, remaining any) string {
	t.Helper()
	return f.operator.Post(t, spools, j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75,
		"net_weight_grams": 1000, "purchase_price": 20, "remaining_weight_grams": remaining}).Want(201).ID()
}

// run starts a run on a printer, or on none if it is -1, with the grams of each spool, and returns its path.
func (f *farm) run(t *testing.T, printer int, materials ...any) string {
	t.Helper()
	body := j{"status": "in_progress"}
	if printer >= 0 {
		body["printer_id"] = f.printers[printer]
	}
	var list []j
	for i := 0; i < len(materials); i += 2 {
		list = append(list, j{"spool_id": materials[i], "estimated_weight_grams": materials[i+1]})
	}
	body["materials"] = list
	return productionRuns + "/" + f.operator.Post(t, productionRuns, body).Want(201).ID()
}

// uses reports grams of the spool with the number.
func (p *printer) uses(t *testing.T, number int, grams any) {
	t.Helper()
	p.want(t, "PUT", fmt.Sprintf("spool/%d/use", number), fmt.Sprintf(`{"use_weight":%v}`, grams), 200)
}

func (f *farm) shows(t *testing.T, path string, want map[string]string) {
	t.Helper()
	f.operator.Get(t, path).Want(200).Shows(want)
}

// What printers report while a run prints is the run's, and its end takes the difference.
func TestReportsOfRun(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	c := f.operator
	a := f.spool(t, nil)
	run := f.run(t, 0, a, 100)
	f.keys[0].uses(t, 1, 60)
	f.keys[0].uses(t, 1, 40)
	f.shows(t, run, map[string]string{"materials.0.reported_grams": "100", "materials.0.actual_weight_grams": "null",
		"materials.0.actual_reported": "false"})
	c.Post(t, run+"/complete", j{"materials": []j{{"spool_id": a, "actual_weight_grams": 100}}}).Want(200).
		Shows(map[string]string{"spools_updated.0.deducted": "0", "spools_updated.0.previous_weight": "900",
			"spools_updated.0.new_weight": "900", "spools_updated.0.reported_grams": "100", "warnings": "[]"})
	f.shows(t, spools+"/"+a, map[string]string{"remaining_weight_grams": "900"})
	f.shows(t, spools+"/"+a+"/usage", map[string]string{"total": "2", "items.0.kind": "printed",
		"items.0.change_grams": "-100", "items.0.run_id": run[len(productionRuns)+1:], "items.0.printer_id": f.printers[0]})
	f.shows(t, run, map[string]string{"actual_total_filament_grams": "100", "cost_parts.filament": "2"})
	f.shows(t, "/api/v1/reports/usage", map[string]string{"grams": "100"})

	// A person stated more, and then less.
	run = f.run(t, 0, a, 100)
	f.keys[0].uses(t, 1, 100)
	c.Post(t, run+"/complete", j{"materials": []j{{"spool_id": a, "actual_weight_grams": 110}}}).Want(200).
		Shows(map[string]string{"spools_updated.0.deducted": "10", "spools_updated.0.previous_weight": "800",
			"spools_updated.0.new_weight": "790"})
	run = f.run(t, 0, a, 100)
	f.keys[0].uses(t, 1, 90)
	c.Post(t, run+"/complete", j{"materials": []j{{"spool_id": a, "actual_weight_grams": 85}}}).Want(200).
		Shows(map[string]string{"spools_updated.0.deducted": "-5", "spools_updated.0.previous_weight": "700",
			"spools_updated.0.new_weight": "705"})
	f.shows(t, run, map[string]string{"actual_total_filament_grams": "85", "cost": "1.7"})

	// Nothing given: what was reported, also of a spool that the run did not name.
	f.spool(t, nil)
	run = f.run(t, 0, a, 100)
	f.keys[0].uses(t, 1, 55)
	f.keys[0].uses(t, 2, 45)
	f.keys[1].uses(t, 2, 7) // of another printer
	f.shows(t, run, map[string]string{"materials.1.reported_grams": "45", "materials.1.estimated_weight_grams": "null"})
	c.Post(t, run+"/complete", nil).Want(200).Shows(map[string]string{"spools_updated.0.new_weight": "650",
		"spools_updated.1.new_weight": "948", "spools_updated.1.deducted": "0", "warnings.0.code": "USE_OUTSIDE_RUN",
		"warnings.0.grams": "7"})
	f.shows(t, run, map[string]string{"actual_total_filament_grams": "100", "materials.0.actual_reported": "true",
		"materials.1.actual_weight_grams": "45", "cost": "2"})

	// A run that failed wasted at least what was reported.
	run = f.run(t, 1, a, 100)
	f.keys[1].uses(t, 1, 30)
	c.Post(t, run+"/fail", j{"reason": "clog"}).Want(200).Shows(map[string]string{"spools_updated.0.deducted": "0"})
	f.shows(t, run, map[string]string{"actual_total_filament_grams": "30", "cost_parts.waste": "0.6"})
	run = f.run(t, 1, a, 100)
	c.Post(t, run+"/cancel", nil).Want(200).Shows(map[string]string{"spools_updated": "[]"})
}

// Concurrent reports of a run are one entry of the ledger, and all are use of the run.
func TestConcurrentReportsOfRun(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	a := f.spool(t, nil)
	run := f.run(t, 0, a, 100)
	testkit.Concurrently(2, func(n int) {
		for range 20 {
			f.keys[0].uses(t, 1, n+1)
		}
	})
	f.shows(t, run, map[string]string{"materials.0.reported_grams": "60"})
	f.shows(t, spools+"/"+a, map[string]string{"remaining_weight_grams": "940"})
	f.wantLedger(t, spools+"/"+a, "created 0 1000", "printed 1000 940 0")
}

// The run of a report is that on the printer of the key, or else of the slot, or else the only one with the spool.
func TestRunOfReport(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	a, b := f.spool(t, nil), f.spool(t, nil)
	first, second := f.run(t, 0, a, 100), f.run(t, 1, a, 100)
	f.uses(t, 1, 1) // which run?
	f.shows(t, first, map[string]string{"materials.0.reported_grams": "null"})
	f.operator.Do(t, "PUT", "/api/v1/printers/"+f.printers[1]+"/slots/1", j{"spool_id": a}).Want(200)
	f.uses(t, 1, 2)
	f.shows(t, second, map[string]string{"materials.0.reported_grams": "2"})
	f.keys[0].uses(t, 1, 4)
	f.shows(t, first, map[string]string{"materials.0.reported_grams": "4"})
	loose := f.run(t, -1, b, 100)
	f.uses(t, 2, 8)
	f.shows(t, loose, map[string]string{"materials.0.reported_grams": "8"})
	f.operator.Patch(t, loose, j{"status": "paused"}).Want(200)
	f.uses(t, 2, 8)
	f.shows(t, loose, map[string]string{"materials.0.reported_grams": "16"})
	f.operator.Patch(t, loose, j{"status": "pending"}).Want(200)
	f.uses(t, 2, 8)
	f.shows(t, loose, map[string]string{"materials.0.reported_grams": "16"})
	// A negative report of more than the run has used is of something else.
	f.keys[0].uses(t, 1, -3)
	f.keys[0].uses(t, 1, -3)
	f.shows(t, first, map[string]string{"materials.0.reported_grams": "1"})
	f.shows(t, spools+"/"+a, map[string]string{"remaining_weight_grams": "999"})
}

// A report after the end belongs to the run: it is taken if the use came from reports, and else recorded only.
func TestLateReports(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	a, b := f.spool(t, nil), f.spool(t, nil)
	run := f.run(t, 0, a, 100)
	f.keys[0].uses(t, 1, 60)
	f.operator.Post(t, run+"/complete", nil).Want(200)
	f.operator.Patch(t, spools+"/"+a, j{"purchase_price": 90}).Want(200)
	f.keys[0].uses(t, 1, 40)
	f.shows(t, run, map[string]string{"actual_total_filament_grams": "100", "materials.0.actual_weight_grams": "100",
		"materials.0.reported_grams": "100", "cost_parts.filament": "2"})
	f.keys[0].uses(t, 2, 10)
	f.shows(t, run, map[string]string{"actual_total_filament_grams": "110", "materials.1.actual_weight_grams": "10",
		"cost_parts.filament": "2.2"})
	f.shows(t, spools+"/"+a, map[string]string{"remaining_weight_grams": "900"})

	run = f.run(t, 0, a, 100)
	f.keys[0].uses(t, 1, 60)
	f.operator.Post(t, run+"/complete", j{"materials": []j{{"spool_id": a, "actual_weight_grams": 105}}}).Want(200)
	f.keys[0].uses(t, 1, 30)
	f.keys[0].uses(t, 1, 10)
	f.shows(t, spools+"/"+a, map[string]string{"remaining_weight_grams": "795"})
	f.shows(t, spools+"/"+a+"/usage", map[string]string{"items.0.kind": "printed", "items.0.change_grams": "0",
		"items.0.covered_grams": "40", "items.0.run_id": run[len(productionRuns)+1:]})
	f.shows(t, run, map[string]string{"actual_total_filament_grams": "105", "materials.0.reported_grams": "100"})

	// A run that was cancelled before it started has not printed.
	pending := productionRuns + "/" + f.operator.Post(t, productionRuns, j{"printer_id": f.printers[0],
		"materials": []j{{"spool_id": b}}}).Want(201).ID()
	f.operator.Post(t, pending+"/cancel", nil).Want(200)
	f.keys[0].uses(t, 1, 10)
	f.shows(t, run, map[string]string{"materials.0.reported_grams": "110"})
	f.shows(t, spools+"/"+a, map[string]string{"remaining_weight_grams": "795"})

	// A correction may be more than the last of several materials of the spool has used.
	twice := f.run(t, 0, b, 3, b, 40)
	f.keys[0].uses(t, 2, 12)
	f.operator.Post(t, twice+"/complete", nil).Want(200)
	f.keys[0].uses(t, 2, -10)
	f.shows(t, twice, map[string]string{"actual_total_filament_grams": "2", "materials.0.actual_weight_grams": "2",
		"materials.1.actual_weight_grams": "0", "cost_parts.filament": "0.04"})
	f.keys[0].uses(t, 2, -3) // of something else
	f.shows(t, twice, map[string]string{"actual_total_filament_grams": "2", "materials.0.reported_grams": "2"})

	// A run that prints now comes first.
	next := f.run(t, 0, b, 100)
	f.keys[0].uses(t, 1, 5)
	f.shows(t, next, map[string]string{"materials.1.reported_grams": "5"})
	f.shows(t, spools+"/"+a, map[string]string{"remaining_weight_grams": "790"})
}

// A run takes what was used also from a spool that had less on record, or that is archived or removed.
func TestUseBeyondSpool(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	c := f.operator
	a := f.spool(t, 30)
	run := f.run(t, 0, a, 50)
	c.Post(t, run+"/complete", j{"materials": []j{{"spool_id": a, "actual_weight_grams": 45.5}}}).Want(200).
		Shows(map[string]string{"spools_updated.0.new_weight": "0", "spools_updated.0.deducted": "30",
			"spools_updated.0.shortfall_grams": "15.5", "warnings.0.code": "FILAMENT_SHORTFALL", "warnings.0.grams": "15.5"})
	f.shows(t, run, map[string]string{"actual_total_filament_grams": "45.5", "cost": "0.91"})

	// The printer reported beyond; then a person states less.
	b := f.spool(t, 30)
	run = f.run(t, 0, b, 50)
	f.keys[0].uses(t, 2, 50)
	c.Post(t, run+"/complete", j{"materials": []j{{"spool_id": b, "actual_weight_grams": 40}}}).Want(200).
		Shows(map[string]string{"spools_updated.0.new_weight": "0", "spools_updated.0.deducted": "0",
			"spools_updated.0.shortfall_grams": "-10", "warnings": "[]"})
	f.shows(t, run, map[string]string{"actual_total_filament_grams": "40"})

	c.Patch(t, spools+"/"+a, j{"remaining_weight_grams": 500, "archived": true}).Want(200)
	c.Patch(t, spools+"/"+b, j{"remaining_weight_grams": 500}).Want(200)
	run = f.run(t, 0, a, 50, b, 50)
	c.Delete(t, spools+"/"+b).Want(204)
	c.Post(t, run+"/complete", j{"materials": []j{{"spool_id": a, "actual_weight_grams": 10},
		{"spool_id": b, "actual_weight_grams": 20}}}).Want(200).
		Shows(map[string]string{"warnings.0.code": "SPOOL_ARCHIVED", "warnings.1.code": "SPOOL_REMOVED"})

	d := f.spool(t, 30)
	deduct := spools + "/" + d + "/deduct"
	c.Post(t, deduct, j{"weight_grams": 45.5}).WantError(400, "INSUFFICIENT_FILAMENT")
	c.Post(t, deduct, j{"weight_grams": 45.5, "allow_shortfall": true}).Want(200).Shows(map[string]string{
		"remaining_weight_grams": "0", "deducted": "30", "shortfall_grams": "15.5"})
	f.shows(t, spools+"/"+d+"/usage", map[string]string{"items.0.shortfall_grams": "15.5", "items.0.kind": "deducted"})
}

// Use without a run since the run started is named, and counts if the request says so.
func TestUseOutsideRun(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	c := f.operator
	a := f.spool(t, nil)
	c.Post(t, spools+"/"+a+"/deduct", j{"weight_grams": 50}).Want(200) // before the run
	run := f.run(t, 0, a, 100)
	c.Post(t, spools+"/"+a+"/deduct", j{"weight_grams": 80}).Want(200)
	f.shows(t, run, map[string]string{"materials.0.outside_grams": "80"})
	c.Post(t, run+"/complete", nil).WantError(400, "ACTUAL_USAGE_MISSING")
	c.Post(t, run+"/complete", j{"materials": []j{{"spool_id": a, "actual_weight_grams": 100,
		"count_outside_use": true}}}).Want(200).Shows(map[string]string{"spools_updated.0.deducted": "20",
		"spools_updated.0.new_weight": "850", "warnings": "[]"})
	f.shows(t, run, map[string]string{"actual_total_filament_grams": "100", "materials.0.outside_grams": "null"})
	f.shows(t, spools+"/"+a+"/usage", map[string]string{"items.0.kind": "run", "items.0.change_grams": "-100",
		"items.1.kind": "deducted", "items.1.change_grams": "80"})
	f.shows(t, "/api/v1/reports/usage", map[string]string{"grams": "150"})

	run = f.run(t, 0, a, 100)
	f.keys[0].uses(t, 1, 30)
	f.keys[1].uses(t, 1, 20)
	c.Post(t, run+"/fail", j{"reason": "clog", "materials": []j{{"spool_id": a, "count_outside_use": true}}}).Want(200).
		Shows(map[string]string{"spools_updated.0.deducted": "0", "spools_updated.0.new_weight": "800"})
	f.shows(t, run, map[string]string{"actual_total_filament_grams": "50"})

	// Reports without a run before and after a start are two entries, so that only the later use may be the run's.
	f.keys[1].uses(t, 1, 5)
	run = f.run(t, 0, a, 100)
	f.keys[1].uses(t, 1, 7)
	f.keys[1].uses(t, 1, 1)
	f.shows(t, run, map[string]string{"materials.0.outside_grams": "8"})
	c.Patch(t, run, j{"status": "completed"}).Want(200)
	f.keys[1].uses(t, 1, 2)
	f.shows(t, run, map[string]string{"materials.0.outside_grams": "8"})
	c.Patch(t, run, j{"status": "in_progress"}).Want(200) // completed by mistake
	f.shows(t, run, map[string]string{"materials.0.outside_grams": "10"})
}

// A run reserves its estimate less what was reported, and one with reports is hidden when it is removed.
func TestReservedLessReported(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	c := f.operator
	a := f.spool(t, 1000)
	f.spool(t, 1000)
	product := c.Post(t, "/api/v1/products", j{"name": "Lamp", "materials": []j{{"material_type": "PLA",
		"color": "Black", "weight_grams": 600}}}).Want(201).ID()
	available := func(reserved, left string) {
		t.Helper()
		f.shows(t, "/api/v1/products/"+product+"/availability", map[string]string{"materials.0.reserved_grams": reserved,
			"materials.0.available_grams": left})
	}
	run := f.run(t, 0, a, 600)
	available("600", "1400")
	f.keys[0].uses(t, 1, 200)
	available("400", "1400")
	f.keys[0].uses(t, 2, 300) // changed in the middle
	available("100", "1400")
	f.keys[0].uses(t, 2, 150)
	available("0", "1350")
	material := c.Get(t, run).Want(200).Text("materials.1.id")
	c.Delete(t, run+"/materials/"+material).WantError(409, "MATERIAL_REPORTED")
	c.Patch(t, run+"/materials/"+material, j{"spool_id": a}).WantError(409, "MATERIAL_REPORTED")
	c.Delete(t, run).Want(204)
	c.Get(t, run).WantError(404, "NOT_FOUND")
	available("0", "1350")
	c.Post(t, run+"/restore", nil).Want(200)
	c.Post(t, run+"/complete", nil).Want(200)
	f.shows(t, run, map[string]string{"actual_total_filament_grams": "650", "cost": "13"})

	// A run with items only.
	run = productionRuns + "/" + c.Post(t, productionRuns, j{"status": "in_progress", "printer_id": f.printers[1],
		"items": []j{{"product_id": product}}}).Want(201).ID()
	available("600", "750")
	f.keys[1].uses(t, 1, 500)
	available("100", "750")
	c.Patch(t, run, j{"status": "pending"}).Want(200) // it waits again
	available("100", "750")
	c.Post(t, run+"/complete", nil).Want(200)
	available("0", "850")
}

// The check of a run that has started asks for what printers have not reported yet.
func TestCheckOfReportedRun(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	c := f.operator
	a := f.spool(t, 250)
	c.Do(t, "PUT", "/api/v1/printers/"+f.printers[0]+"/slots/1", j{"spool_id": a}).Want(200)
	run := f.run(t, 0, a, 200)
	f.keys[0].uses(t, 1, 150)
	f.shows(t, run+"/check", map[string]string{"ready": "true"})
	c.Patch(t, run, j{"status": "paused"}).Want(200)
	c.Patch(t, "/api/v1/spools/"+a, j{"remaining_weight_grams": 40}).Want(200)
	check := c.Get(t, run+"/check").Want(200)
	check.Shows(map[string]string{"steps.0.code": "TOO_LITTLE_FILAMENT", "steps.0.spool_id": a})
	if got := check.Text("steps.0.detail"); got != "Spool 1, PLA Black, has 40 g of the 50 g needed" {
		t.Error(got)
	}
}

// A run whose reports are more than the maximum of a material can be in an archive.
func TestReportsBeyondMaximum(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	run := f.run(t, 0, f.spool(t, 1000), 10)
	f.keys[0].uses(t, 1, 600_000)
	f.keys[0].uses(t, 1, 600_000)
	f.operator.Post(t, run+"/complete", nil).Want(200)
	f.operator.Get(t, run).Want(200).Shows(map[string]string{"materials.0.actual_weight_grams": "1000000"})
	var broken string
	err := f.operator.API.DB.Read(db.As(t.Context(), f.operator.Actor), db.SQL(archive.BrokenRule).Into(&broken))
	if err != nil || broken != "" {
		t.Errorf("%v, %s", err, broken)
	}
}
