package production_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"spoolwright/inventory"
	"spoolwright/orders"
	"spoolwright/production"
	"spoolwright/tests/testkit"
	"spoolwright/tests/testkit/seed"
)

const (
	usageURL   = "/api/v1/reports/usage"
	printerURL = "/api/v1/reports/printers"
)

// Failed pieces of completed runs count for the rate of pieces, by each group; the rate of runs stays that of runs.
func TestRateOfPieces(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Tenant(t).User(t, "admin")
	black := createSpool(t, c, j{"net_weight_grams": 10_000, "purchase_price": 200})
	product := c.Post(t, "/api/v1/products", j{"name": "Lamp"}).Want(201).ID()
	printer := c.Post(t, printersURL, j{"name": "P"}).Want(201).ID()
	run := func(operation string, good int, body any) {
		t.Helper()
		path := runs + "/" + c.Post(t, runs, j{"printer_id": printer, "items": []j{{"product_id": product, "quantity": 10}},
			"materials": []j{{"spool_id": black, "actual_weight_grams": 100}}}).Want(201).ID()
		if operation == "complete" {
			item := c.Get(t, path).Text("items.0.id")
			c.Patch(t, path+"/items/"+item, j{"successful_quantity": good, "failed_quantity": 10 - good}).Want(200)
		}
		c.Post(t, path+"/"+operation, body).Want(200)
	}
	check := func(want map[string]string) {
		t.Helper()
		for _, by := range production.WasteGroup("").Enum() {
			report := c.Get(t, wasteURL+"?group_by="+by).Want(200).Shows(want)
			if report.Text("groups") == "1" {
				for field, value := range want {
					report.Shows(map[string]string{"items.0." + field: value})
				}
			}
		}
		c.Get(t, printerURL).Want(200).Shows(map[string]string{"items.0.rate": want["rate"],
			"items.0.piece_rate": want["piece_rate"], "items.0.failed_pieces": want["failed_pieces"]})
	}
	run("complete", 0, nil)
	check(map[string]string{"rate": "0", "piece_rate": "1", "failed_pieces": "10", "pieces": "0", "grams": "100",
		"cost": "2", "completed_runs": "1", "failed_runs": "0"})
	run("complete", 10, nil)
	check(map[string]string{"rate": "0", "piece_rate": "0.5", "failed_pieces": "10", "pieces": "10"})
	run("fail", 0, j{"reason": "clog"})
	check(map[string]string{"rate": "0.3333", "piece_rate": "0.6667", "failed_pieces": "20", "pieces": "10"})
	run("cancel", 0, nil)
	check(map[string]string{"rate": "0.3333", "piece_rate": "0.6667", "failed_pieces": "20", "pieces": "10"})
	c.Get(t, wasteURL+"?group_by=reason").Shows(map[string]string{"items.0.reason": "null", "items.0.piece_rate": "0.3333",
		"items.0.runs": "2", "items.1.reason": "clog", "items.1.piece_rate": "0.3333", "items.1.pieces": "10"})
}

// Purge is named apart, of all ended runs; the grams of the runs and of the spools stay.
func TestPurgeInReport(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Tenant(t).User(t, "admin")
	black := createSpool(t, c, j{"purchase_price": 20})
	free := createSpool(t, c, j{"material_type": "PETG", "purchase_price": nil})
	lamp := c.Post(t, "/api/v1/products", j{"name": "Lamp"}).Want(201).ID()
	vase := c.Post(t, "/api/v1/products", j{"name": "Vase"}).Want(201).ID()
	endRun(t, c, "complete", j{"items": []j{{"product_id": lamp}, {"product_id": vase, "quantity": 2}}, "materials": []j{
		{"spool_id": black, "spool_weight_before_grams": 500, "spool_weight_after_grams": 400, "actual_purge_grams": 10},
		{"spool_id": free, "actual_weight_grams": 5, "actual_purge_grams": 4}}}, nil)
	c.Get(t, "/api/v1/spools/"+black).Shows(map[string]string{"remaining_weight_grams": "900"})
	total := map[string]string{"grams": "0", "cost": "0", "purge_grams": "14", "purge_cost": "0.2"}
	for by, rows := range map[string][]map[string]string{
		"reason":   {{"reason": "null", "purge_grams": "14", "purge_cost": "0.2", "runs": "0"}},
		"printer":  {{"printer_name": "null", "purge_grams": "14", "purge_cost": "0.2"}},
		"material": {{"purge_grams": "4", "purge_cost": "null"}, {"purge_grams": "10", "purge_cost": "0.2"}},
		"product":  {{"purge_grams": "4.666667"}, {"purge_grams": "9.333333"}},
	} {
		report := c.Get(t, wasteURL+"?group_by="+by).Want(200).Shows(total)
		testkit.Equal(t, report.Text("groups"), fmt.Sprint(len(rows)), "%s: groups", by)
		for i, row := range rows {
			if by == "product" && report.Text(fmt.Sprintf("items.%d.product_name", i)) == "Vase" {
				row = rows[1]
			} else if by == "product" {
				row = rows[0]
			}
			for field, want := range row {
				testkit.Equal(t, report.Text(fmt.Sprintf("items.%d.%s", i, field)), want, "%s, row %d: %s", by, i, field)
			}
		}
	}
	failed := endRun(t, c, "fail", j{"materials": []j{{"spool_id": black, "actual_weight_grams": 100,
		"actual_purge_grams": 20}}}, j{"reason": "clog"})
	c.Get(t, wasteURL).Want(200).Shows(map[string]string{"grams": "100", "cost": "2", "purge_grams": "34",
		"purge_cost": "0.6", "items.0.reason": "clog", "items.0.purge_grams": "20"})
	c.Get(t, failed).Shows(map[string]string{"actual_total_filament_grams": "100"})
}

// A renamed printer has one group with its current name in all reports, whatever its runs were called, also when it is
// retired or removed. A run of a mere name stays apart.
func TestRenamedPrinterInReports(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Tenant(t).User(t, "admin")
	black := createSpool(t, c, j{"net_weight_grams": 10_000, "purchase_price": 200})
	product := c.Post(t, "/api/v1/products", j{"name": "Lamp"}).Want(201).ID()
	printer := printersURL + "/" + c.Post(t, printersURL, j{"name": "Middle"}).Want(201).ID()
	print := func(fields j) {
		t.Helper()
		fields["items"] = []j{{"product_id": product}}
		fields["materials"] = []j{{"spool_id": black, "actual_weight_grams": 100}}
		endRun(t, c, "fail", fields, j{"reason": "clog"})
	}
	id := printer[len(printersURL)+1:]
	for _, name := range []string{"Middle", "Alpha", "Zulu", "Nova"} {
		c.Patch(t, printer, j{"name": name}).Want(200)
		print(j{"printer_id": id})
	}
	print(j{"printer_name": "Elsewhere"})
	check := func() {
		t.Helper()
		for url, groups := range map[string]string{usageURL + "?group_by=printer": "2", wasteURL + "?group_by=printer": "2",
			"/api/v1/reports/margins?group_by=printer": "2", printerURL: "2"} {
			report := c.Get(t, url).Want(200).Shows(map[string]string{"groups": groups})
			names := map[string]string{}
			for i := range report.List("items") {
				names[report.Text(fmt.Sprintf("items.%d.printer_name", i))] = report.Text(fmt.Sprintf("items.%d.printer_id", i))
			}
			if names["Nova"] != id || names["Elsewhere"] != "null" || len(names) != 2 {
				t.Errorf("%s: the groups are %v", url, names)
			}
		}
	}
	check()
	c.Patch(t, printer, j{"status": "retired"}).Want(200)
	check()
	c.Delete(t, printer).Want(204)
	check()
	c.Get(t, wasteURL+"?group_by=printer&printer_id="+id).Want(200).
		Shows(map[string]string{"groups": "1", "items.0.printer_name": "Nova", "items.0.grams": "400"})
}

// The hours of a printer belong to the days on which they passed; grams and costs stay on the day of the end.
func TestHoursOfDays(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Tenant(t).User(t, "admin")
	black := createSpool(t, c, j{"purchase_price": 20})
	printer := c.Post(t, printersURL, j{"name": "P", "hour_cost": 1}).Want(201).ID()
	end := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -3).Add(6 * time.Hour) // at 06:00
	path := runs + "/" + c.Post(t, runs, j{"printer_id": printer, "started_at": end.Add(-60 * time.Hour),
		"materials": []j{{"spool_id": black, "actual_weight_grams": 100}}}).Want(201).ID()
	c.Post(t, path+"/complete", j{"completed_at": end}).Want(200)
	c.Get(t, path).Shows(map[string]string{"actual_print_time_hours": "60"})
	day := func(n int) string { return end.AddDate(0, 0, n).Format(time.DateOnly) }
	for _, test := range []struct {
		first, last                     int
		hours, percent, completed, cost string
	}{
		{-4, -4, "0", "0", "0", "null"},
		{-3, -3, "6", "25", "0", "null"}, // from 18:00
		{-2, -2, "24", "100", "0", "null"},
		{-1, -1, "24", "100", "0", "null"},
		{0, 0, "6", "25", "1", "62"},
		{1, 1, "0", "0", "0", "null"},
		{-3, 0, "60", "62.5", "1", "62"},
		{-2, 0, "54", "75", "1", "62"},
		{-10, -2, "30", "13.9", "0", "null"},
	} {
		c.Get(t, printerURL+"?from="+day(test.first)+"&to="+day(test.last)).Want(200).Shows(map[string]string{
			"items.0.hours": test.hours, "items.0.utilisation_percent": test.percent,
			"items.0.completed_runs": test.completed, "items.0.cost": test.cost,
			"items.0.cost_per_hour": map[string]string{"null": "null", "62": "1.033333"}[test.cost],
			"items.0.grams":         map[string]string{"null": "0", "62": "100"}[test.cost]})
	}
	c.Get(t, usageURL+"?group_by=day&from="+day(-3)+"&to="+day(1)).Want(200).
		Shows(map[string]string{"groups": "1", "items.0.start": day(0), "items.0.grams": "100"})

	// Hours of thirds add up to those of the run.
	c.Post(t, path+"/correct", j{"actual_print_time_hours": 33.333333}).Want(200)
	sum := new(big.Rat)
	for n := -3; n <= 0; n++ {
		report := c.Get(t, printerURL+"?from="+day(n)+"&to="+day(n)).Want(200)
		sum.Add(sum, amountOf(t, report.Text("items.0.hours")))
	}
	testkit.Equal(t, sum.FloatString(6), "33.333333", "hours")
}

func amountOf(t *testing.T, text string) *big.Rat {
	t.Helper()
	if text == "null" {
		return new(big.Rat)
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("%q is not a number", text)
	}
	return r
}

// In every report, the amounts of the groups add up to the totals exactly, and the same totals follow by each group:
// what runs used costs what the runs cost.
func TestReportsAddUp(t *testing.T) {
	t.Parallel()
	testkit.AwayFromMidnight(t)
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	c := newFarm(t).Tenant(t).User(t, "admin")
	c.Patch(t, "/api/v1/settings", j{"machine_hour_cost": 0.7, "machine_power_watts": 130, "energy_kwh_cost": 0.31,
		"labour_hour_cost": 0})
	var all, products, printers []string
	for i, material := range []string{"PLA", "PLA", "PETG", "ABS", "TPU"} {
		all = append(all, createSpool(t, c, j{"material_type": material, "net_weight_grams": 700 + 13*i,
			"remaining_weight_grams": 100_000, "purchase_price": []any{19.99, 23.37, 31.01, 17.77, nil}[i]}))
	}
	for _, name := range []string{"A", "B", "C"} {
		products = append(products, c.Post(t, "/api/v1/products", j{"name": name}).Want(201).ID())
		printers = append(printers, c.Post(t, printersURL, j{"name": name}).Want(201).ID())
	}
	grams := func() float64 { return float64(1+random.IntN(100_000_000)) / 1_000_000 }
	add := func(n int, spools []string) {
		fields := j{"actual_print_time_hours": grams() / 10}
		if n%4 > 0 {
			fields["printer_id"] = printers[random.IntN(3)]
		} else if n%8 == 0 {
			fields["printer_name"] = "Elsewhere"
		}
		var items, materials []j
		for _, i := range random.Perm(3)[:random.IntN(4)] {
			quantity := 1 + random.IntN(7)
			good := random.IntN(quantity + 1)
			items = append(items, j{"product_id": products[i], "quantity": quantity, "successful_quantity": good,
				"failed_quantity": random.IntN(quantity - good + 1), "estimated_material_cost": random.IntN(3)})
		}
		for _, i := range random.Perm(len(spools))[:1+random.IntN(4)] {
			materials = append(materials, j{"spool_id": spools[i], "actual_weight_grams": grams(),
				"actual_purge_grams": grams() / 7})
		}
		fields["items"], fields["materials"] = items, materials
		operation := []string{"complete", "complete", "complete", "fail", "cancel"}[random.IntN(5)]
		var body any
		if operation == "fail" {
			body = j{"reason": []string{"clog", "warping"}[random.IntN(2)]}
		}
		path := endRun(t, c, operation, fields, body)
		if n%5 == 0 {
			material := c.Get(t, path).Text("materials.0.id")
			c.Post(t, path+"/correct", j{"materials": []j{{"id": material, "actual_weight_grams": grams()}}}).Want(200)
		}
	}
	var reports []string
	for _, by := range production.UsageGroup("").Enum() {
		reports = append(reports, usageURL+"?group_by="+by)
	}
	for _, by := range production.WasteGroup("").Enum() {
		reports = append(reports, wasteURL+"?group_by="+by)
	}
	for _, by := range orders.MarginGroup("").Enum() {
		reports = append(reports, "/api/v1/reports/margins?group_by="+by)
	}
	for _, by := range inventory.FilamentGroup("").Enum() {
		reports = append(reports, "/api/v1/reports/filament?group_by="+by)
	}
	check := func() map[string]string {
		totals := map[string]string{}
		for _, url := range reports {
			report := c.Get(t, url).Want(200)
			fields := []string{"grams", "cost", "wasted_grams", "corrected_grams", "lost_grams", "lost_cost"}
			switch {
			case strings.HasPrefix(url, wasteURL):
				fields = []string{"grams", "cost", "purge_grams", "purge_cost"}
			case strings.Contains(url, "margins"):
				fields = []string{"revenue", "cost", "margin", "pieces", "failed_pieces"}
			case strings.Contains(url, "filament"):
				fields = []string{"grams", "filament_value", "unpriced_grams", "archived_value", "spools"}
			}
			for _, field := range fields {
				total := report.Text(field)
				sum := new(big.Rat)
				for i := range report.List("items") {
					sum.Add(sum, amountOf(t, report.Text(fmt.Sprintf("items.%d.%s", i, field))))
				}
				testkit.Equal(t, sum.FloatString(9), amountOf(t, total).FloatString(9), "%s: sum of %s", url, field)
				key := url[:len("/api/v1/reports/usage")] + " " + field
				if before, ok := totals[key]; ok {
					testkit.Equal(t, total, before, "%s: %s", url, field)
				}
				totals[key] = total
			}
		}
		return totals
	}
	for n := range 30 {
		add(n, all[:4])
	}
	totals := check()
	// spent returns what the runs used and wasted. A run with a material without a price has no cost, but the report of
	// usage has the cost of its other materials.
	spent := func() (used, waste *big.Rat) {
		used, waste = new(big.Rat), new(big.Rat)
		list := c.Get(t, runs+"?limit=100").Want(200)
		for i := range list.List("items") {
			run := c.Get(t, runs+"/"+list.Text(fmt.Sprintf("items.%d.id", i)))
			all := new(big.Rat)
			for m := range run.List("materials") {
				material := fmt.Sprintf("materials.%d.", m)
				cost := new(big.Rat).Mul(amountOf(t, run.Text(material+"actual_weight_grams")),
					amountOf(t, run.Text(material+"cost_per_gram")))
				all.Add(all, amountOf(t, cost.FloatString(6)))
			}
			used.Add(used, all)
			filament, wasted := run.Text("cost_parts.filament"), run.Text("cost_parts.waste")
			waste.Add(waste, amountOf(t, wasted))
			if filament != "null" {
				sum := new(big.Rat).Add(amountOf(t, filament), amountOf(t, wasted))
				testkit.Equal(t, sum.FloatString(9), all.FloatString(9), "cost_parts of run %s", run.Text("id"))
			}
		}
		return used, waste
	}
	used, waste := spent()
	testkit.Equal(t, amountOf(t, totals["/api/v1/reports/usage cost"]).FloatString(9), used.FloatString(9), "cost of use")
	testkit.Equal(t, amountOf(t, totals["/api/v1/reports/waste cost"]).FloatString(9), waste.FloatString(9),
		"cost of waste")
	for n := range 10 {
		add(n, all) // some costs are unknown
	}
	used, _ = spent()
	testkit.Equal(t, amountOf(t, check()["/api/v1/reports/usage cost"]).FloatString(9), used.FloatString(9),
		"cost of use, of which some is unknown")
	c.Delete(t, "/api/v1/spools/"+all[4]).Want(204)
	testkit.Equal(t, check()["/api/v1/reports/usage lost_cost"], "null", "cost of a loss without a price")
}

// What an ended run used costs in the report of usage what the run cost, whatever the spool costs today: after a
// correction of the price, a new price of the spool, and a refill. A run that has not started gets the price of the
// new contents.
func TestUseCostsWhatItCost(t *testing.T) {
	t.Parallel()
	testkit.AwayFromMidnight(t)
	c := newFarm(t).Tenant(t).User(t, "admin")
	black := createSpool(t, c, j{"purchase_price": 300})
	check := func(cost string) {
		t.Helper()
		for _, by := range production.UsageGroup("").Enum() {
			c.Get(t, usageURL+"?group_by="+by).Want(200).Shows(map[string]string{"cost": cost, "items.0.cost": cost})
		}
	}
	run := func(fields j) string {
		t.Helper()
		fields["spool_id"] = black
		return runs + "/" + c.Post(t, runs, j{"materials": []j{fields}}).Want(201).ID()
	}
	first := run(j{"actual_weight_grams": 949.683333})
	c.Post(t, first+"/complete", nil).Want(200)
	check("284.905")
	material := c.Get(t, first).Text("materials.0.id")
	c.Post(t, first+"/correct", j{"materials": []j{{"id": material, "cost_per_gram": 0.003}}}).Want(200).
		Shows(map[string]string{"cost": "2.84905"})
	check("2.84905")
	c.Patch(t, "/api/v1/spools/"+black, j{"purchase_price": 100}).Want(200)
	check("2.84905")

	pending, given := run(j{}), run(j{"cost_per_gram": 0.5})
	started := run(j{})
	c.Post(t, started+"/start", nil).Want(200)
	c.Post(t, "/api/v1/spools/"+black+"/refill", j{"purchase_price": 50}).Want(200)
	check("2.84905")
	for path, price := range map[string]string{pending: "0.05", given: "0.5", started: "0.1", first: "0.003"} {
		c.Get(t, path).Shows(map[string]string{"materials.0.cost_per_gram": price})
	}
	c.Post(t, pending+"/complete", j{"materials": []j{{"spool_number": 1, "actual_weight_grams": 100}}}).Want(200).
		Shows(map[string]string{"inventory_updated": "true"})
	check("7.84905")
	c.Post(t, first+"/correct", j{"materials": []j{{"id": material, "cost_per_gram": nil}}}).Want(200).
		Shows(map[string]string{"cost": "94.968333"}) // the price of the contents that the run used
	check("99.968333")
}
