package production_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/production"
	"spoolwright/tests/testkit"
)

const wasteURL = "/api/v1/reports/waste"

// endRun creates a run, ends it, and returns its path. Fields are those of the run, body that of the operation.
func endRun(t *testing.T, c *testkit.Client, operation string, fields j, body any) string {
	t.Helper()
	path := runs + "/" + c.Post(t, runs, fields).Want(201).ID()
	if operation != "" {
		c.Post(t, path+"/"+operation, body).Want(200)
	}
	return path
}

// The report adds up grams and costs, and counts runs, by each group.
func TestWasteReport(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	black := createSpool(t, c, j{"net_weight_grams": 10_000, "purchase_price": 200}) // 0.02 per g
	free := createSpool(t, c, j{"material_type": "PETG", "purchase_price": nil})
	lamp := c.Post(t, "/api/v1/products", j{"name": "Lamp"}).Want(201).ID()
	vase := c.Post(t, "/api/v1/products", j{"name": "Vase"}).Want(201).ID()
	used := func(grams ...float64) (list []j) {
		for i, g := range grams {
			list = append(list, j{"spool_id": []string{black, free}[i], "actual_weight_grams": g})
		}
		return list
	}
	// A product that consists of components has a total cost, and no material cost.
	items := []j{{"product_id": lamp, "quantity": 2, "estimated_total_cost": 3, "estimated_material_cost": 0},
		{"product_id": vase, "quantity": 2, "estimated_material_cost": 1}}
	endRun(t, c, "fail", j{"printer_name": "A", "materials": used(100, 10), "items": items}, j{"reason": "clog"})
	removed := endRun(t, c, "fail", j{"printer_name": "a", "materials": used(50)}, j{"reason": "warping"})
	c.Delete(t, removed).Want(204) // its filament is gone anyway
	endRun(t, c, "fail", j{"printer_name": "B",
		"items":     []j{{"product_id": lamp}, {"product_id": vase, "quantity": 3}},
		"materials": used(8)}, j{"reason": "clog"})
	endRun(t, c, "cancel", j{"printer_name": "B", "materials": used(4)}, nil)
	for range 3 {
		endRun(t, c, "complete", j{"printer_name": "B", "materials": used(1), "items": []j{{"product_id": lamp}}}, nil)
	}
	endRun(t, c, "", j{"status": "failed", "materials": used(1000)}, nil) // nothing was deducted
	endRun(t, c, "", j{"status": "completed", "materials": used(1000)}, nil)

	total := map[string]string{"grams": "172", "cost": "3.24", "runs": "4", "failed_runs": "3", "completed_runs": "3",
		"rate": "0.5"}
	for by, rows := range map[string][]map[string]string{
		"reason": {
			{"reason": "clog", "grams": "118", "cost": "2.16", "runs": "2", "failed_runs": "2", "completed_runs": "3",
				"rate": "0.3333", "printer_name": "null"},
			{"reason": "warping", "grams": "50", "cost": "1", "runs": "1", "failed_runs": "1", "rate": "0.1667"},
			{"reason": "null", "grams": "4", "cost": "0.08", "runs": "1", "failed_runs": "0", "rate": "0"},
		},
		"printer": {
			{"printer_name": "A", "grams": "160", "cost": "3", "runs": "2", "failed_runs": "2", "completed_runs": "0",
				"rate": "1", "reason": "null"},
			{"printer_name": "B", "grams": "12", "cost": "0.24", "runs": "2", "failed_runs": "1",
				"completed_runs": "3",
				"rate":           "0.25"},
		},
		"material": {
			{"material_type": "PLA", "grams": "162", "cost": "3.24", "runs": "4", "failed_runs": "3",
				"completed_runs": "3", "rate": "0.5"},
			{"material_type": "PETG", "grams": "10", "cost": "null", "runs": "1", "failed_runs": "1",
				"completed_runs": "0", "rate": "1"},
		},
		"product": {
			{"product_id": lamp, "product_name": "Lamp", "grams": "84.5", "cost": "1.54", "runs": "2",
				"failed_runs":    "2",
				"completed_runs": "3", "rate": "0.4"},
			{"product_id": "null", "product_name": "null", "grams": "54", "cost": "1.08", "runs": "2",
				"failed_runs":    "1",
				"completed_runs": "0", "rate": "1"},
			{"product_id": vase, "product_name": "Vase", "grams": "33.5", "cost": "0.62", "runs": "2",
				"failed_runs": "2"},
		},
	} {
		report := c.Get(t, wasteURL+"?group_by="+by).Want(200).Shows(total).
			Shows(map[string]string{"group_by": by, "groups": fmt.Sprint(len(rows))})
		for i, row := range rows {
			for field, want := range row {
				testkit.Equal(t, report.Text(fmt.Sprintf("items.%d.%s", i, field)), want,
					"%s, row %d: %s", by, i, field)
			}
		}
	}

	// The day is that of the end, in UTC.
	today := time.Now().UTC().Truncate(24 * time.Hour)
	tx := db.As(t.Context(), c.Actor)
	for i, at := range []time.Time{today.AddDate(0, 0, -2), today.AddDate(0, 0, -1).Add(-time.Microsecond),
		today.AddDate(0, 0, -1)} {
		testkit.Check(t, api.DB.Write(tx, db.SQL(`update production_runs set completed_at = $1::text::timestamptz
			where failure_reason = 'warping'`, at.Format(time.RFC3339Nano))))
		day := today.AddDate(0, 0, -2).Format(time.DateOnly)
		if i == 2 { // the next day
			c.Get(t, wasteURL+"?from="+day+"&to="+day).Want(200).Shows(map[string]string{"grams": "0", "runs": "0"})
			break
		}
		c.Get(t, wasteURL+"?from="+day+"&to="+day).Want(200).
			Shows(map[string]string{"grams": "50", "groups": "1", "completed_runs": "0", "rate": "1", "from": day,
				"to": day})
		c.Get(t, wasteURL+"?from="+today.AddDate(0, 0, -1).Format(time.DateOnly)).Want(200).
			Shows(map[string]string{"grams": "122"})
	}
	tenant.User(t, "viewer").Get(t, wasteURL).Want(200)
	api.Operator(t).Get(t, wasteURL).Want(200). // another tenant
							Shows(map[string]string{"grams": "0", "cost": "0", "rate": "null", "items": "[]",
			"completed_runs": "0"})
	c.Get(t, wasteURL+"?group_by=month").WantError(422, "VALIDATION_ERROR")
	c.Get(t, wasteURL+"?from=2024-02-01&to=2024-01-31").WantError(422, "VALIDATION_ERROR").
		Shows(map[string]string{"errors.0.field": "from"})
}

// Nothing costs 0, also of filament without a price; more than nothing of it has no cost.
func TestCostOfNoWaste(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	free := createSpool(t, c, j{"purchase_price": nil})
	product := c.Post(t, "/api/v1/products", j{"name": "Lamp"}).Want(201).ID()
	for _, wasted := range []struct{ grams, cost string }{{"0", "0"}, {"2.5", "null"}} {
		materials := []j{{"spool_id": free, "actual_weight_grams": json.Number(wasted.grams)}}
		endRun(t, c, "fail", j{"printer_name": "A", "materials": materials, "items": []j{{"product_id": product}}},
			j{"reason": "clog"})
		for _, by := range (production.WasteGroup("")).Enum() {
			c.Get(t, wasteURL+"?group_by="+by).Want(200).Shows(map[string]string{"grams": wasted.grams,
				"cost": wasted.cost, "items.0.grams": wasted.grams, "items.0.cost": wasted.cost})
		}
	}
}

// The waste of a completed run has no cost if a spool has no price.
func TestCostOfFailedPiecesWithoutPrice(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	free := createSpool(t, c, j{"purchase_price": nil})
	product := c.Post(t, "/api/v1/products", j{"name": "Lamp"}).Want(201).ID()
	run := c.Post(t, runs, j{"materials": []j{{"spool_id": free, "actual_weight_grams": 10}},
		"items": []j{{"product_id": product, "quantity": 2}}}).Want(201)
	c.Patch(t, runs+"/"+run.ID()+"/items/"+run.Text("items.0.id"),
		j{"successful_quantity": 1, "failed_quantity": 1}).Want(200)
	c.Post(t, runs+"/"+run.ID()+"/complete", nil).Want(200)
	c.Get(t, wasteURL+"?group_by=material").Want(200).Shows(map[string]string{"grams": "5", "cost": "null"})
	c.Get(t, runs+"/"+run.ID()).Want(200).Shows(map[string]string{"cost_parts.waste": "null", "unknown_parts.1": "waste"})
}

// A run that has ended keeps the prices that it had then, also an unknown one: the reports of usage and of waste say
// what it does, and name the grams without a price, also after a day is summarized.
func TestPriceAfterRun(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	free, priced := createSpool(t, c, j{"purchase_price": nil}), createSpool(t, c, j{"purchase_price": 20})
	at := "2024-02-01T10:00:00Z"
	run := runs + "/" + c.Post(t, runs, j{"materials": []j{{"spool_id": free, "actual_weight_grams": 30},
		{"spool_id": priced, "actual_weight_grams": 10}}}).Want(201).ID()
	c.Post(t, run+"/fail", j{"reason": "clog", "completed_at": at}).Want(200)
	want := func(grams, cost, known, unpriced, price string) {
		t.Helper()
		c.Get(t, run).Want(200).Shows(map[string]string{"cost_parts.waste": cost})
		reported := map[string]string{"grams": grams, "cost": known, "unpriced_grams": unpriced}
		for _, by := range production.UsageGroup("").Enum() {
			c.Get(t, "/api/v1/reports/usage?from=2024-01-31&to=2024-02-02&group_by="+by).Want(200).Shows(reported).
				Shows(map[string]string{"items.0.cost": known, "items.0.unpriced_grams": unpriced})
		}
		for _, by := range production.WasteGroup("").Enum() {
			c.Get(t, wasteURL+"?from=2024-01-31&to=2024-02-02&group_by="+by).Want(200).Shows(reported).
				Shows(map[string]string{"items.0.cost": known, "items.0.unpriced_grams": unpriced})
		}
		file := string(c.Get(t, "/api/v1/reports/usage/export?format=jsonl&from=2024-02-01&to=2024-02-01").Want(200).Body)
		if n := strings.Count(file, `"cost_per_gram":`+price+"}"); n == 0 || strings.Count(file, `"cost_per_gram":0.02}`) != 1 {
			t.Errorf("the export has not the prices %s and 0.02: %s", price, file)
		}
	}
	want("40", "null", "0.2", "30", "null")
	c.Patch(t, "/api/v1/spools/"+free, j{"purchase_price": 50}).Want(200)
	want("40", "null", "0.2", "30", "null")
	c.SummarizeUsage(t)
	want("40", "null", "0.2", "30", "null")
	c.Post(t, run+"/correct", j{"materials": []j{{"spool_id": free, "actual_weight_grams": 20}}}).Want(200)
	c.Patch(t, "/api/v1/spools/"+free, j{"purchase_price": 100}).Want(200)
	c.SummarizeUsage(t)
	want("30", "1.2", "1.2", "0", "0.05")
}
