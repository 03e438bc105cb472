package production_test

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/orders"
	"spoolwright/orders/stock"
	"spoolwright/production"
	"spoolwright/production/printers"
	"spoolwright/server"
	"spoolwright/spoolman"
	"spoolwright/tests/testkit"
)

// newFarm is newAPI with all that reports read, and with the printers' API.
func newFarm(t *testing.T) *testkit.API {
	t.Helper()
	return testkit.New(t, testkit.Options{PerMinute: 1_000_000, PerHour: 10_000_000, Change: func(c *server.Config) {
		c.Surfaces = []server.Surface{spoolman.Surface(c.DB)}
	}}, inventory.Routes, printers.Routes, catalog.Routes, production.Routes(orders.Runs), orders.Routes, stock.Routes)
}

// The end and the hours of a run are those of the request, or else what is plausible.
func TestEndTimes(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	spool := createSpool(t, c, nil)
	now := time.Now().UTC().Truncate(time.Second)
	ago := func(d time.Duration) string { return now.Add(-d).Format(time.RFC3339) }
	start := ago(11 * time.Hour)
	ended := func(operation string, fields, body j) *testkit.Response {
		t.Helper()
		fields["materials"] = []j{{"spool_id": spool, "actual_weight_grams": 1}}
		if operation == "fail" {
			body["reason"] = "clog"
		}
		return c.Get(t, endRun(t, c, operation, fields, body))
	}
	for _, operation := range []string{"complete", "fail", "cancel"} {
		end := ago(7 * time.Hour)
		ended(operation, j{"started_at": start}, j{"completed_at": end}).
			Shows(map[string]string{"completed_at": end, "actual_print_time_hours": "4"})
		ended(operation, j{"started_at": start, "completed_at": ago(8 * time.Hour), "actual_print_time_hours": 9},
			j{"completed_at": end, "actual_print_time_hours": 3.5}).
			Shows(map[string]string{"completed_at": end, "actual_print_time_hours": "3.5"})
		ended(operation, j{"started_at": ago(time.Second)}, j{}).
			Shows(map[string]string{"actual_print_time_hours": "null"})
		ended(operation, j{"started_at": ago(time.Second)}, j{"actual_print_time_hours": 0.5}).
			Shows(map[string]string{"actual_print_time_hours": "0.5"})
	}
	// A failed run may have ended long before its estimate.
	quick := j{"started_at": start, "estimated_print_time_hours": 4}
	ended("complete", quick, j{"completed_at": ago(11*time.Hour - 20*time.Minute)}).
		Shows(map[string]string{"actual_print_time_hours": "null"})
	ended("complete", quick, j{"completed_at": ago(11*time.Hour - 24*time.Minute)}).
		Shows(map[string]string{"actual_print_time_hours": "0.4"})
	ended("fail", quick, j{"completed_at": ago(11*time.Hour - 3*time.Minute)}).
		Shows(map[string]string{"actual_print_time_hours": "0.05"})

	// People write minutes.
	minute := "2026-01-31T12:00:"
	ended("complete", j{"started_at": minute + "30Z"}, j{"completed_at": minute + "00Z", "actual_print_time_hours": 0}).
		Shows(map[string]string{"completed_at": minute + "30Z", "actual_print_time_hours": "0"})
	// An end that an update has set in the future is not one.
	a := ended("complete", j{"completed_at": "9999-01-01T00:00:00Z"}, j{})
	testkit.Equal(t, a.Text("completed_at"), a.Text("inventory_updated_at"), "an end in the future")

	open := runs + "/" + c.Post(t, runs, j{"started_at": start,
		"materials": []j{{"spool_id": spool, "actual_weight_grams": 1}}}).Want(201).ID()
	for _, operation := range []string{"complete", "fail", "cancel"} {
		for _, body := range []j{
			{"completed_at": ago(11*time.Hour + 2*time.Minute)},
			{"completed_at": ago(-time.Hour)},
			{"completed_at": "yesterday"},
			{"actual_print_time_hours": -1},
			{"actual_print_time_hours": 100001},
		} {
			var field string
			for field = range body {
			}
			if operation == "fail" {
				body["reason"] = "clog"
			}
			c.Post(t, open+"/"+operation, body).WantError(422, "VALIDATION_ERROR").
				Shows(map[string]string{"errors.0.field": field})
		}
	}
	c.Get(t, open).Shows(map[string]string{"inventory_updated": "false", "completed_at": "null"})
}

// Costs and reports treat unknown hours as unknown.
func TestUnknownHours(t *testing.T) {
	t.Parallel()
	tenant := newFarm(t).Tenant(t)
	c := tenant.User(t, "operator")
	testkit.Check(t, c.API.DB.Write(db.As(t.Context(), c.Actor), db.SQL(`update tenants set machine_hour_cost = 2,
		energy_kwh_cost = 0, labour_hour_cost = 0`)))
	spool := createSpool(t, c, j{"purchase_price": 20})
	printer := c.Post(t, "/api/v1/printers", j{"name": "MK4"}).Want(201).ID()
	run := func(hours any) string {
		return endRun(t, c, "complete", j{"printer_id": printer, "status": "in_progress",
			"materials": []j{{"spool_id": spool, "actual_weight_grams": 100}}}, j{"actual_print_time_hours": hours})
	}
	c.Get(t, run(nil)).Shows(map[string]string{"actual_print_time_hours": "null", "cost": "2",
		"cost_parts.machine": "null", "cost_parts.energy": "0", "unknown_parts": "[machine]"})
	c.Get(t, run(3)).Shows(map[string]string{"cost": "8", "cost_parts.machine": "6", "unknown_parts": "[]"})
	c.Get(t, "/api/v1/reports/printers").Shows(map[string]string{"items.0.hours": "3", "items.0.cost": "10",
		"items.0.runs_without_hours": "1", "items.0.cost_per_hour": "2.666667"})
	c.Get(t, "/api/v1/printers/"+printer).Shows(map[string]string{"printed_hours": "3"})
}

// All reports and exports date a run by its end: also what printers reported before it, and when the end changes.
func TestReportsDateRunsByEnd(t *testing.T) {
	t.Parallel()
	tenant := newFarm(t).Tenant(t)
	c := tenant.User(t, "operator")
	spool := createSpool(t, c, j{"purchase_price": 20})
	number := c.Get(t, "/api/v1/spools/"+spool).Text("number")
	product := c.Post(t, "/api/v1/products", j{"name": "Lamp"}).Want(201).ID()
	printer := c.Post(t, "/api/v1/printers", j{"name": "MK4"}).Want(201).ID()
	day := func(ago int) string { return time.Now().UTC().AddDate(0, 0, -ago).Format(time.DateOnly) }
	at := func(ago int) string { return day(ago) + "T23:59:59Z" }
	grams := func(ago int, want string) {
		t.Helper()
		period := "?from=" + day(ago) + "&to=" + day(ago)
		for _, by := range production.UsageGroup("").Enum() {
			c.Get(t, "/api/v1/reports/usage"+period+"&group_by="+by).Want(200).Shows(map[string]string{"grams": want})
		}
		c.Get(t, "/api/v1/reports/usage"+period+"&printer_id="+printer).Want(200).Shows(map[string]string{"grams": want})
		c.Get(t, "/api/v1/reports/waste"+period).Want(200).Shows(map[string]string{
			"grams": map[bool]string{true: "0", false: "25"}[want == "0"]})
		c.Get(t, "/api/v1/reports/printers"+period).Want(200).Shows(map[string]string{"items.0.grams": want})
		pieces := "0"
		if want != "0" {
			pieces = "1"
		}
		c.Get(t, "/api/v1/reports/margins"+period).Want(200).Shows(map[string]string{"groups": pieces})
		rows, err := csv.NewReader(strings.NewReader(
			string(c.Get(t, "/api/v1/reports/usage/export"+period).Want(200).Body))).
			ReadAll()
		testkit.Check(t, err)
		sum := 0
		for _, row := range rows[1:] {
			if row[slices.Index(rows[0], "kind")] == "created" {
				continue
			}
			var change int
			fmt.Sscan(row[slices.Index(rows[0], "change_grams")], &change)
			sum -= change
		}
		testkit.Equal(t, fmt.Sprint(sum), want, "grams in the export of %s", day(ago))
	}
	summarize := func() { c.SummarizeUsage(t) }

	run := c.Post(t, runs, j{"printer_id": printer, "status": "in_progress", "started_at": at(50),
		"items":     []j{{"product_id": product, "quantity": 4}},
		"materials": []j{{"spool_id": spool, "estimated_weight_grams": 100}}}).Want(201)
	path, item := runs+"/"+run.ID(), run.Text("items.0.id")
	c.Do(t, "PUT", "/spoolman/api/v1/spool/"+number+"/use", j{"use_weight": 60}).Want(200)
	c.Get(t, "/api/v1/reports/usage?from="+day(0)).Want(200).Shows(map[string]string{"grams": "60"})
	summarize()
	c.Post(t, path+"/complete", j{"completed_at": at(40),
		"materials": []j{{"spool_id": spool, "actual_weight_grams": 100}},
		"items":     []j{{"id": item, "successful_quantity": 3, "failed_quantity": 1}}}).Want(200)
	for _, summarized := range []bool{false, true} {
		if summarized {
			summarize()
		}
		grams(40, "100")
		grams(0, "0")
	}
	// The end is corrected, then how many pieces failed, then what the spool costs.
	c.Patch(t, path, j{"completed_at": at(45)}).Want(200)
	summarize()
	grams(45, "100")
	grams(40, "0")
	c.Get(t, "/api/v1/reports/usage?from="+day(45)).Shows(map[string]string{"wasted_grams": "25", "cost": "2"})
	c.Patch(t, path+"/items/"+item, j{"failed_quantity": 0, "successful_quantity": 4}).Want(200)
	summarize()
	c.Get(t, "/api/v1/reports/usage?from="+day(45)).Shows(map[string]string{"wasted_grams": "0"})
	c.Get(t, "/api/v1/reports/waste?from="+day(45)).Shows(map[string]string{"grams": "0"})
	c.Get(t, path).Shows(map[string]string{"cost_parts.waste": "0", "cost_parts.filament": "2"})
	c.Patch(t, path+"/items/"+item, j{"failed_quantity": 1, "successful_quantity": 3}).Want(200)
	c.Get(t, path).Shows(map[string]string{"cost_parts.waste": "0.5", "cost_parts.filament": "1.5"})

	// A late report has the day of the end as well.
	late := c.Post(t, runs, j{"printer_id": printer, "status": "in_progress", "started_at": at(30),
		"materials": []j{{"spool_id": spool}}}).Want(201).ID()
	c.Do(t, "PUT", "/spoolman/api/v1/spool/"+number+"/use", j{"use_weight": 7}).Want(200)
	c.Post(t, runs+"/"+late+"/cancel", j{"completed_at": at(20)}).Want(200)
	summarize()
	c.Get(t, "/api/v1/reports/usage?from="+day(20)+"&to="+day(20)).
		Shows(map[string]string{"grams": "7", "wasted_grams": "7"})
}

// Failed pieces of a completed run are waste in all reports, with the reason of their item.
func TestHalfFailedRun(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	spool := createSpool(t, c, j{"purchase_price": 20})
	petg := createSpool(t, c, j{"material_type": "PETG", "purchase_price": 10})
	lamp := c.Post(t, "/api/v1/products", j{"name": "Lamp"}).Want(201).ID()
	vase := c.Post(t, "/api/v1/products", j{"name": "Vase"}).Want(201).ID()
	run := c.Post(t, runs, j{"printer_name": "A", "items": []j{
		{"product_id": lamp, "quantity": 10, "estimated_material_cost": 6},
		{"product_id": vase, "quantity": 2, "estimated_material_cost": 2}},
		"materials": []j{{"spool_id": spool, "actual_weight_grams": 300}, {"spool_id": petg, "actual_weight_grams": 100}},
	}).Want(201)
	path := runs + "/" + run.ID()
	c.Post(t, path+"/complete", j{"items": []j{
		{"id": run.Text("items.0.id"), "successful_quantity": 6, "failed_quantity": 4, "failure_reason": "warping"},
		{"id": run.Text("items.1.id"), "successful_quantity": 1, "failed_quantity": 1}}}).Want(200)
	endRun(t, c, "complete", j{"printer_name": "A", "items": []j{{"product_id": lamp}},
		"materials": []j{{"spool_id": spool, "actual_weight_grams": 50}}}, nil)
	// Of the lamps, which are 3/4 of the run, 4/10 are waste; of the vases, 1/2 of 1/4.
	c.Get(t, path).Shows(map[string]string{"cost_parts.waste": "2.975", "cost_parts.filament": "4.025"})
	for by, rows := range map[string][]map[string]string{
		"reason": {
			{"reason": "warping", "grams": "120", "cost": "2.1", "runs": "1", "failed_runs": "0", "completed_runs": "2",
				"rate": "0"},
			{"reason": "null", "grams": "50", "cost": "0.875", "runs": "1"},
		},
		"product": {
			{"product_name": "Lamp", "grams": "120", "runs": "1", "completed_runs": "2"},
			{"product_name": "Vase", "grams": "50", "runs": "1", "completed_runs": "1"},
		},
		"material": {
			{"material_type": "PLA", "grams": "127.5", "cost": "2.55", "runs": "1", "completed_runs": "2"},
			{"material_type": "PETG", "grams": "42.5", "cost": "0.425", "runs": "1", "completed_runs": "1"},
		},
		"printer": {{"printer_name": "A", "grams": "170", "cost": "2.975", "runs": "1", "completed_runs": "2"}},
	} {
		report := c.Get(t, wasteURL+"?group_by="+by).Want(200).Shows(map[string]string{"grams": "170", "cost": "2.975",
			"runs": "1", "failed_runs": "0", "completed_runs": "2", "rate": "0", "groups": fmt.Sprint(len(rows))})
		for i, row := range rows {
			for field, want := range row {
				testkit.Equal(t, report.Text(fmt.Sprintf("items.%d.%s", i, field)), want, "%s, row %d: %s", by, i, field)
			}
		}
	}
	c.Get(t, "/api/v1/reports/usage").Shows(map[string]string{"grams": "450", "wasted_grams": "170",
		"corrected_grams": "0", "cost": "8"})
}

// What a scale found missing is no use, until a run counts it as its own.
func TestCountedCorrection(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	spool := createSpool(t, c, j{"spool_weight_grams": 200, "purchase_price": 20})
	start := func() string {
		return runs + "/" + c.Post(t, runs, j{"status": "in_progress", "materials": []j{{"spool_id": spool}}}).Want(201).ID()
	}
	path := start()
	c.Post(t, "/api/v1/spools/"+spool+"/measure", j{"gross_grams": 1160}).Want(200)
	c.Post(t, "/api/v1/spools/"+spool+"/deduct", j{"weight_grams": 10}).Want(200)
	usage := "/api/v1/reports/usage"
	c.Get(t, usage).Shows(map[string]string{"grams": "10", "corrected_grams": "40", "cost": "0.2"})
	c.Post(t, path+"/complete", j{"materials": []j{{"spool_id": spool, "count_outside_use": true}}}).Want(200)
	c.Get(t, usage).Shows(map[string]string{"grams": "50", "corrected_grams": "0", "cost": "1"})
	c.Get(t, path).Shows(map[string]string{"actual_total_filament_grams": "50", "cost_parts.filament": "1"})
	c.Get(t, "/api/v1/spools/"+spool).Shows(map[string]string{"remaining_weight_grams": "950"})

	// A run beyond what its spool had on record: the reports and its cost agree.
	path = start()
	c.Post(t, path+"/complete", j{"materials": []j{{"spool_id": spool, "actual_weight_grams": 1000}}}).Want(200)
	c.Get(t, usage).Shows(map[string]string{"grams": "1050", "cost": "21"})
	c.Get(t, path).Shows(map[string]string{"cost_parts.filament": "20"})
	c.Get(t, "/api/v1/reports/printers").Shows(map[string]string{"items.0.grams": "1050", "items.0.cost": "21"})
}

// What a spool loses after the end of a run is not use outside of the run.
func TestUseAfterTheEnd(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	spool := createSpool(t, c, nil)
	path, material := newRun(t, c, spool)
	now := time.Now().UTC()
	end := now.Add(-time.Hour).Format(time.RFC3339)
	c.Patch(t, path, j{"status": "in_progress", "started_at": now.Add(-4 * time.Hour).Format(time.RFC3339),
		"completed_at": end}).Want(200)
	c.Post(t, "/api/v1/spools/"+spool+"/deduct", j{"weight_grams": 5}).Want(200)
	c.Post(t, path+"/complete", j{"materials": []j{{"id": material, "actual_weight_grams": 10}}}).Want(200).
		Shows(map[string]string{"completed_at": end, "warnings": "[]"})
}
