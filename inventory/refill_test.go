package inventory_test

import (
	"strings"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/tests/testkit"
)

const filamentURL = "/api/v1/reports/filament"

// A refill keeps the spool and begins new contents. The ledger conserves grams, and what was used costs what the
// contents of its time cost.
func TestRefill(t *testing.T) {
	t.Parallel()
	testkit.AwayFromMidnight(t)
	tenant := testkit.New(t, testkit.Options{}, testkit.Features...).Tenant(t)
	c := tenant.User(t, "operator")
	id := c.Post(t, spools, spool(j{"purchase_price": 20, "lot_number": "L1", "supplier": "S", "spool_weight_grams": 200,
		"purchase_date": "2024-01-01", "archived": true})).Want(201).ID()
	path := spools + "/" + id
	c.Post(t, path+"/deduct", j{"weight_grams": 400}).Want(200)
	report := func(want map[string]string) {
		t.Helper()
		for _, by := range []string{"material", "color", "day", "printer"} {
			c.Get(t, reportURL+"?group_by="+by).Want(200).Shows(want)
		}
	}
	report(map[string]string{"grams": "400", "cost": "8", "lost_grams": "0", "lost_cost": "0"})
	refill := j{"net_weight_grams": 500, "purchase_price": 30, "lot_number": "L2"}
	keyed := c.With("Idempotency-Key", "refill")
	want := map[string]string{"id": id, "number": "1", "net_weight_grams": "500", "remaining_weight_grams": "500",
		"cost_per_gram": "0.06", "lot_number": "L2", "purchase_date": "null", "supplier": "S", "archived": "false",
		"spool_weight_grams": "200"}
	keyed.Post(t, path+"/refill", refill).Want(200).Shows(want)
	keyed.Post(t, path+"/refill", refill).Want(200).Shows(want)
	ledger := c.Get(t, path+"/usage").Want(200).Shows(map[string]string{"total": "4", "items.0.kind": "refilled",
		"items.0.before_grams": "0", "items.0.after_grams": "500", "items.1.kind": "discarded",
		"items.1.before_grams": "600", "items.1.after_grams": "0"})
	for _, i := range []string{"0", "1"} {
		c.Post(t, path+"/usage/"+ledger.Text("items."+i+".id")+"/reverse", nil).WantError(409, "USAGE_NOT_REVERSIBLE")
	}
	report(map[string]string{"grams": "400", "cost": "8", "lost_grams": "600", "lost_cost": "12", "items.0.cost": "8",
		"items.0.lost_grams": "600", "items.0.lost_cost": "12", "corrected_grams": "0"})
	c.Post(t, path+"/deduct", j{"weight_grams": 100}).Want(200)
	report(map[string]string{"grams": "500", "cost": "14"})

	// A typo in the price is mended for the present contents only.
	c.Patch(t, path, j{"purchase_price": 15}).Want(200)
	report(map[string]string{"cost": "11", "lost_cost": "12"})
	c.Patch(t, path, j{"net_weight_grams": 1000}).Want(200)
	report(map[string]string{"cost": "9.5", "lost_cost": "12"})
	prices := string(c.Get(t, reportURL+"/export?kind=deducted").Want(200).Body)
	if !strings.Contains(prices, ",0.02,") || !strings.Contains(prices, ",0.015,") {
		t.Errorf("the export has no price of each time: %s", prices)
	}

	// Defaults, a rest that stays on the spool, an unknown price, and an empty spool.
	c.Post(t, path+"/refill", j{}).Want(200).Shows(map[string]string{"remaining_weight_grams": "1000",
		"purchase_price": "15", "lot_number": "null"})
	c.Post(t, path+"/refill", j{"remaining_weight_grams": 1400, "purchase_price": nil, "spool_weight_grams": 0,
		"purchase_date": "2024-05-01", "reason": "Topped up"}).Want(200).Shows(map[string]string{
		"remaining_weight_grams": "1400", "cost_per_gram": "null", "spool_weight_grams": "0", "purchase_date": "2024-05-01"})
	c.Get(t, path+"/usage?kind=refilled").Shows(map[string]string{"items.0.reason": "Topped up",
		"items.0.after_grams": "1400"})
	c.Post(t, path+"/deduct", j{"weight_grams": 1400}).Want(200)
	c.Post(t, path+"/refill", j{"net_weight_grams": 100}).Want(200)
	report(map[string]string{"grams": "1900", "cost": "9.5", "lost_grams": "2000", "lost_cost": "33"})

	for field, body := range map[string]j{"net_weight_grams": {"net_weight_grams": 0}, "remaining_weight_grams": {
		"remaining_weight_grams": -1}, "purchase_price": {"purchase_price": 1_000_000, "net_weight_grams": 0.000001},
		"lot_number": {"lot_number": strings.Repeat("x", 201)}, "weight": {"weight": 1}} {
		c.Post(t, path+"/refill", body).Fields(field)
	}
	c.Get(t, path).Shows(map[string]string{"remaining_weight_grams": "100"})
	tenant.User(t, "viewer").Post(t, path+"/refill", j{}).WantError(403, "FORBIDDEN")
	c.Delete(t, path).Want(204)
	c.Post(t, path+"/refill", j{}).WantError(404, "NOT_FOUND")
	c.Get(t, path+"/usage").Shows(map[string]string{"total": "12"})
}

// What is left on a removed spool is a loss on the day of the removal, until the spool is restored. The value of the
// stock has it until then.
func TestValueOfFilament(t *testing.T) {
	t.Parallel()
	testkit.AwayFromMidnight(t)
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	c := api.Operator(t)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	day := func(n int) string { return today.AddDate(0, 0, n).Format(time.DateOnly) }
	c.Get(t, filamentURL).Want(200).Shows(map[string]string{"grams": "0", "spools": "0", "filament_value": "0",
		"groups": "0", "items": "[]", "to": day(0)})
	black := c.Post(t, spools, spool(j{"purchase_price": 20})).Want(201).ID()
	red := c.Post(t, spools, spool(j{"color": "Red", "purchase_price": 33.33, "net_weight_grams": 700,
		"remaining_weight_grams": 333.333333})).Want(201).ID()
	c.Post(t, spools, spool(j{"color": "black", "purchase_price": nil})).Want(201)
	c.Post(t, spools, spool(j{"color": "Red", "purchase_price": 10, "archived": true})).Want(201)
	c.Post(t, spools, spool(j{"material_type": "PETG", "remaining_weight_grams": 0})).Want(201)
	stock := map[string]string{"spools": "4", "grams": "3333.333333", "unpriced_grams": "1000",
		"filament_value": "45.871333",
		"archived_value": "10", "groups": "1", "items.0.material_type": "PLA", "items.0.color": "null",
		"items.0.filament_value": "45.871333"}
	c.Get(t, filamentURL).Want(200).Shows(stock)
	c.Get(t, filamentURL+"?group_by=color").Want(200).Shows(map[string]string{"filament_value": "45.871333",
		"items.0.color": "Red", "items.0.filament_value": "25.871333", "items.0.archived_value": "10",
		"items.1.color": "Black", "items.1.filament_value": "20", "items.1.unpriced_grams": "1000"})

	// What is left on removed and refilled spools is lost, until a spool is restored.
	c.Post(t, spools+"/"+black+"/deduct", j{"weight_grams": 400}).Want(200)
	c.Post(t, spools+"/"+black+"/refill", j{"purchase_price": 50}).Want(200)
	c.Delete(t, spools+"/"+red).Want(204)
	c.Get(t, filamentURL).Want(200).Shows(map[string]string{"filament_value": "60", "spools": "3"})
	c.Get(t, reportURL).Want(200).Shows(map[string]string{"lost_grams": "933.333333", "lost_cost": "27.871333",
		"grams": "400", "cost": "8"})
	c.Get(t, reportURL+"?group_by=color").Want(200).Shows(map[string]string{"items.1.color": "Red",
		"items.1.lost_grams": "333.333333", "items.1.lost_cost": "15.871333", "items.1.grams": "0"})
	c.Get(t, reportURL+"?group_by=day&to="+day(-1)).Want(200).Shows(map[string]string{"lost_grams": "0", "groups": "0"})
	c.Post(t, spools+"/"+red+"/restore", nil).Want(200)
	c.Get(t, reportURL).Want(200).Shows(map[string]string{"lost_grams": "600", "lost_cost": "12"})
	c.Get(t, filamentURL).Want(200).Shows(map[string]string{"filament_value": "75.871333"})
	c.Get(t, filamentURL+"?to=9999-99-99").Fields("to")
	c.Get(t, filamentURL+"?group_by=day").Fields("group_by")
	api.Operator(t).Get(t, filamentURL).Want(200).Shows(map[string]string{"grams": "0"}) // another tenant
}

// A past day has what the ledger had at its end, at the price of the contents of that time, and the spools that were
// removed later.
func TestValueOfFilamentInThePast(t *testing.T) {
	t.Parallel()
	testkit.AwayFromMidnight(t)
	c := operator(t)
	id := c.Post(t, spools, spool(j{"purchase_price": 60})).Want(201).ID()
	today := time.Now().UTC().Truncate(24 * time.Hour)
	noon := func(n int) string { return today.AddDate(0, 0, n).Add(12 * time.Hour).Format(time.RFC3339) }
	day := func(n int) string { return today.AddDate(0, 0, n).Format(time.DateOnly) }
	ctx := db.As(t.Context(), c.Actor)
	for i, e := range []struct {
		kind                string
		before, after, days int
	}{{"created", 0, 1000, -9}, {"deducted", 1000, 600, -7}, {"discarded", 600, 0, -5}, {"refilled", 0, 1000, -5},
		{"deducted", 1000, 800, -2}} {
		testkit.Check(t, c.API.DB.Write(ctx, db.SQL(`
			insert into spool_usage (spool_id, kind, before_grams, after_grams, created_at)
			values ($1, $2, $3, $4, $5::text::timestamptz + $6 * interval '1 second')`,
			id, e.kind, e.before, e.after, noon(e.days), i)))
	}
	testkit.Check(t, c.API.DB.Write(ctx, db.SQL(`
		insert into spool_contents (spool_id, closed_at, net_weight_grams, cost_per_gram)
		select spool_id, created_at, 1000, 0.02 from spool_usage where spool_id = $1 and kind = 'discarded'`, id)))
	check := func(values map[int]string) {
		t.Helper()
		for n, value := range values {
			c.Get(t, filamentURL+"?to="+day(n)).Want(200).Shows(map[string]string{"filament_value": value, "to": day(n)})
		}
	}
	check(map[int]string{-10: "0", -9: "20", -8: "20", -7: "12", -6: "12", -5: "60", -3: "60", -2: "48", -1: "48"})
	report := map[string]string{"grams": "600", "cost": "20", "lost_grams": "600", "lost_cost": "12"}
	for range 2 {
		c.Get(t, reportURL).Want(200).Shows(report)
		c.Get(t, reportURL+"?group_by=day").Want(200).Shows(report).Shows(map[string]string{"groups": "3",
			"items.0.start": day(-7), "items.0.cost": "8", "items.1.start": day(-5), "items.1.lost_cost": "12",
			"items.1.cost": "0", "items.2.cost": "12"})
		for c.Summarize(t, 31) > 0 {
		}
	}
	c.Patch(t, spools+"/"+id, j{"purchase_price": 30}).Want(200) // of the present contents
	check(map[int]string{-7: "12", -5: "30", -1: "24"})
	testkit.Check(t, c.API.DB.Write(ctx, db.SQL(`update spools set hidden_at = $2::text::timestamptz where id = $1`, id,
		noon(-3))))
	check(map[int]string{-7: "12", -4: "30", -3: "0", -1: "0", 0: "0"})
	c.Get(t, reportURL+"?group_by=day&from="+day(-3)+"&to="+day(-3)).Want(200).
		Shows(map[string]string{"groups": "1", "lost_grams": "1000", "lost_cost": "30", "grams": "0", "cost": "0"})
}
