package orders_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// ids returns the ids of a list, sorted, separated by spaces.
func ids(t *testing.T, c *testkit.Client, list string) string {
	t.Helper()
	a := c.Get(t, list).Want(200)
	var all []string
	for i := range a.List("items") {
		all = append(all, a.Text(fmt.Sprintf("items.%d.id", i)))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// A lot of filament was bad. The farm finds the spools that had it, the runs that used it, and the orders that got its
// pieces, or may have: directly, from stock, and in a kit. What was printed from other filament is not found, even on
// the same spool after a refill.
func TestRecall(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c, stranger := api.Operator(t), api.Operator(t)
	bad := c.NewSpool(t, 900, j{"lot_number": "PM-7"})
	good := c.NewSpool(t, 900, j{"lot_number": "PM-8"})
	hook, other := c.NewProduct(t, "HOOK", 10), c.NewProduct(t, "OTHER", 10)
	kit := c.Post(t, products, j{"name": "Kit", "components": []j{{"component_product_id": hook}}}).Want(201).ID()
	order := func(customer, product string) (id, item string) {
		a := c.Post(t, path, j{"customer": customer, "items": []j{{"product_id": product, "quantity": 1}}}).Want(201)
		return a.ID(), a.Text("items.0.id")
	}
	run := func(spool string, item j) string {
		a := c.Post(t, runs, j{"status": "in_progress", "items": []j{item},
			"materials": []j{{"spool_id": spool, "actual_weight_grams": 10}}}).Want(201)
		c.Post(t, runs+"/"+a.ID()+"/complete", nil).Want(200)
		return a.ID()
	}
	early, _ := order("Early", hook)
	c.Post(t, products+"/"+hook+"/count", j{"counted": 1}).Want(200)
	c.Post(t, path+"/"+early+"/deliver", nil).Want(200) // before the first run of the lot

	own, item := order("Own", hook)
	printed := run(bad, j{"product_id": hook, "order_item_id": item})
	shelf := run(bad, j{"product_id": hook, "quantity": 2})
	unrelated := run(good, j{"product_id": other})
	stock, _ := order("Stock", hook)
	c.Post(t, path+"/"+stock+"/deliver", nil).Want(200)
	kits, _ := order("Kits", kit)
	c.Post(t, products+"/"+kit+"/assemble", j{"quantity": 1}).Want(200)
	c.Post(t, path+"/"+kits+"/deliver", nil).Want(200)
	others, _ := order("Others", other)
	c.Post(t, path+"/"+others+"/deliver", nil).Want(200)
	waiting := c.Post(t, runs, j{"materials": []j{{"spool_id": bad}}}).Want(201).ID()

	runsOfLot, ordersOfLot := []string{printed, shelf, waiting}, []string{own, stock, kits}
	slices.Sort(runsOfLot)
	slices.Sort(ordersOfLot)
	check := func(want []string) {
		t.Helper()
		testkit.Equal(t, ids(t, c, runs+"?lot_number=pm-7"), strings.Join(want, " "), "runs of the lot")
		testkit.Equal(t, ids(t, c, path+"?lot_number=pm-7"), strings.Join(ordersOfLot, " "), "orders of the lot")
		testkit.Equal(t, len(strings.Fields(ids(t, c, "/api/v1/piece-entries?lot_number=PM-7"))), 2,
			"entries of runs of the lot")
		testkit.Equal(t, ids(t, stranger, runs+"?lot_number=PM-7"), "", "runs of another farm")
		testkit.Equal(t, ids(t, stranger, path+"?lot_number=PM-7"), "", "orders of another farm")
		stranger.Get(t, "/api/v1/reports/lot?lot_number=PM-7").Want(200).Shows(map[string]string{"groups": "0"})
	}
	check(runsOfLot)
	testkit.Equal(t, ids(t, c, runs+"?search=pm-7"), strings.Join(runsOfLot, " "), "runs found by the lot")
	testkit.Equal(t, ids(t, c, path+"?search=PM-7"), own, "orders found by the lot")
	report := c.Get(t, "/api/v1/reports/lot?lot_number=pm-7").Want(200)
	report.Shows(map[string]string{"lot_number": "pm-7", "groups": "5", "spools.0.spool_id": bad,
		"spools.0.remaining_weight_grams": "880", "spools.0.refilled_at": "null", "items.0.run_id": waiting,
		"items.0.product_id": "null", "items.0.grams": "0", "items.1.run_id": shelf, "items.1.pieces": "2",
		"items.1.grams": "10", "items.1.order_id": "null", "items.2.run_id": printed, "items.2.customer": "Own",
		"items.2.product_name": "Product HOOK", "items.3.run_id": "null", "items.4.run_id": "null"})
	for _, customer := range []string{"Stock", "Kits"} {
		testkit.Contains(t, string(report.Body), `"customer":"`+customer+`"`,
			"the report does not name the order of %s", customer)
	}

	// The run that waits will print from the new filament. What was printed before stays of the lot.
	c.Post(t, "/api/v1/spools/"+bad+"/refill", j{"lot_number": "PM-9"}).Want(200)
	later := run(bad, j{"product_id": other})
	runsOfLot = slices.DeleteFunc(runsOfLot, func(id string) bool { return id == waiting })
	check(runsOfLot)
	if all := ids(t, c, runs+"?lot_number=PM-9"); !strings.Contains(all, later) || strings.Contains(all, printed) {
		t.Errorf("the runs of the new lot are %v", all)
	}
	testkit.Equal(t, ids(t, c, runs+"?lot_number=PM-8"), unrelated, "runs of another lot")

	// A removed spool is still found.
	c.Delete(t, "/api/v1/spools/"+good).Want(204)
	c.Get(t, "/api/v1/reports/lot?lot_number=PM-8").Want(200).Shows(map[string]string{
		"spools.0.spool_id": good, "items.0.run_id": unrelated})
	c.Get(t, "/api/v1/reports/lot").Want(200).Shows(map[string]string{"lot_number": "null", "groups": "0"})
	c.Get(t, "/api/v1/reports/lot?lot_number="+strings.Repeat("x", 201)).WantError(422, "VALIDATION_ERROR")
}

// A run is of the lots that its spools had while it printed, and only if it used some of them: a correction of its
// spool or grams, also after a refill, takes it to the right lot.
func TestLotsOfRuns(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	hook := c.NewProduct(t, "HOOK", 10)
	a, b := c.NewSpool(t, 900, j{"lot_number": "A-1"}), c.NewSpool(t, 900, j{"lot_number": "B-1"})
	start := func(spool string, fields j) string {
		body := j{"status": "in_progress", "items": []j{{"product_id": hook}}, "materials": []j{{"spool_id": spool}}}
		maps.Copy(body, fields)
		return c.Post(t, runs, body).Want(201).ID()
	}
	grams := func(spool string, n int, fields j) j {
		fields["spool_id"], fields["actual_weight_grams"] = spool, n
		return j{"materials": []j{fields}}
	}
	check := func(when string, want map[string]string) {
		t.Helper()
		for lot, run := range want {
			testkit.Equal(t, ids(t, c, runs+"?lot_number="+lot), run, "%s: runs of %s", when, lot)
			testkit.Equal(t, ids(t, c, runs+"?search="+lot), run, "%s: runs found by %s", when, lot)
		}
	}
	run := start(a, nil)
	c.Post(t, runs+"/"+run+"/complete", grams(a, 10, j{})).Want(200)
	check("completed", map[string]string{"A-1": run, "B-1": ""})
	c.Post(t, runs+"/"+run+"/correct", grams(a, 10, j{"to_spool_id": b})).Want(200)
	check("corrected", map[string]string{"A-1": "", "B-1": run})
	order := c.Post(t, path, j{"items": []j{{"product_id": hook, "quantity": 1}}}).Want(201)
	c.Patch(t, runs+"/"+run+"/items/"+c.Get(t, runs+"/"+run).Text("items.0.id"),
		j{"order_item_id": order.Text("items.0.id")}).Want(200)

	// More use of the old contents is not one of the new ones. A run that prints during the refill is of both lots.
	during := start(b, nil)
	c.Post(t, "/api/v1/spools/"+b+"/refill", j{"lot_number": "B-2"}).Want(200)
	c.Post(t, runs+"/"+run+"/correct", grams(b, 30, j{})).Want(200)
	both := []string{run, during}
	slices.Sort(both)
	check("refilled", map[string]string{"A-1": "", "B-1": strings.Join(both, " "), "B-2": during})
	c.Post(t, runs+"/"+during+"/complete", grams(b, 10, j{})).Want(200)
	check("completed after the refill", map[string]string{"B-1": strings.Join(both, " "), "B-2": during})
	testkit.Equal(t, ids(t, c, path+"?search=b-1"), order.ID(), "orders found by a lot from before the refill")
	testkit.Equal(t, ids(t, c, path+"?search=b-2"), "", "orders found by the lot after it")
}
