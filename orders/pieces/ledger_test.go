package pieces_test

import (
	"fmt"
	"strconv"
	"testing"

	"spoolwright/catalog"
	"spoolwright/inventory"
	"spoolwright/orders"
	"spoolwright/orders/pieces"
	"spoolwright/production"
	"spoolwright/production/printers"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type j = testkit.JSON

const (
	products = "/api/v1/products"
	orderURL = "/api/v1/orders"
	runs     = "/api/v1/production-runs"
	entries  = "/api/v1/piece-entries"
)

func newFarm(t testing.TB) *testkit.API {
	t.Helper()
	return testkit.New(t, testkit.Options{PerMinute: 1_000_000, PerHour: 10_000_000}, inventory.Routes, printers.Routes,
		catalog.Routes, production.Routes(orders.Runs), orders.Routes, pieces.Routes)
}

// onHand fails the test unless the product has the wanted pieces in stock, and its ledger, whose entries follow each
// other, adds up to them.
func onHand(t *testing.T, c *testkit.Client, product string, want int) {
	t.Helper()
	sum := balanced(t, c, product)
	testkit.Equal(t, sum, want, "pieces in stock")
}

// balanced returns the pieces of a product in stock. It fails the test unless the ledger adds up to them.
func balanced(t *testing.T, c *testkit.Client, product string) int {
	t.Helper()
	sum, newest := 0, true
	for path := products + "/" + product + "/piece-entries?limit=100"; path != ""; {
		a := c.Get(t, path).Want(200)
		expect := 0
		for i := range a.List("items") {
			item := fmt.Sprintf("items.%d.", i)
			pieces, _ := strconv.Atoi(a.Text(item + "pieces"))
			after, _ := strconv.Atoi(a.Text(item + "on_hand"))
			if i > 0 && after != expect {
				t.Fatalf("entry %d ends with %d, the next one begins with %d: %s", i, after, expect, a.Body)
			}
			expect, newest = after-pieces, false
			sum += pieces
		}
		next := a.Text("next")
		if path = ""; next != "null" {
			path = products + "/" + product + "/piece-entries?limit=100&after=" + next
		}
	}
	shown, _ := strconv.Atoi(c.Get(t, products+"/"+product).Want(200).Text("on_hand"))
	if shown != sum || newest && sum != 0 {
		t.Fatalf("the entries add up to %d, on_hand is %d", sum, shown)
	}
	return sum
}

// kinds fails the test unless the newest entries of the product have these kinds and pieces, such as "produced 4".
func kinds(t *testing.T, c *testkit.Client, product string, want ...string) {
	t.Helper()
	a := c.Get(t, products+"/"+product+"/piece-entries?limit=100").Want(200)
	var got []string
	for i := range min(len(want), len(a.List("items"))) {
		item := fmt.Sprintf("items.%d.", i)
		text := a.Text(item+"kind") + " " + a.Text(item+"pieces")
		if short := a.Text(item + "shortfall"); short != "0" {
			text += " short " + short
		}
		got = append(got, text)
	}
	testkit.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "newest entries")
}

// run creates a run of a product that is in progress, and returns its path and the id of its item.
func run(t *testing.T, c *testkit.Client, product string, pieces int, fields j) (path, item string) {
	t.Helper()
	spool := c.NewSpool(t, 900, nil)
	body := j{"status": "in_progress", "items": []j{{"product_id": product, "quantity": pieces}},
		"materials": []j{{"spool_id": spool, "actual_weight_grams": 10}}}
	for name, value := range fields {
		body[name] = value
	}
	a := c.Post(t, runs, body).Want(201)
	return runs + "/" + a.ID(), a.Text("items.0.id")
}

func TestRunsProduce(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	p, q := c.NewProduct(t, "P", 10), c.NewProduct(t, "Q", 10)
	onHand(t, c, p, 0)
	path, item := run(t, c, p, 4, nil)
	onHand(t, c, p, 0)
	c.Post(t, path+"/complete", nil).Want(200)
	onHand(t, c, p, 4)
	c.Get(t, entries).Want(200).Shows(map[string]string{"total": "1", "items.0.kind": "produced", "items.0.pieces": "4",
		"items.0.shortfall": "0", "items.0.on_hand": "4", "items.0.product_id": p, "items.0.product_name": "Product P",
		"items.0.run_id": path[len(runs)+1:], "items.0.run_item_id": item, "items.0.order_id": "null",
		"items.0.user_id": c.Actor.User, "items.0.reverses_id": "null", "items.0.reversed_by_id": "null"})
	c.Get(t, products).Shows(map[string]string{"items.1.on_hand": "4", "items.0.on_hand": "0"})

	// Nothing changes if the number of good pieces does not.
	c.Patch(t, path, j{"notes": "fine"}).Want(200)
	c.Patch(t, path+"/items/"+item, j{"failed_quantity": 0}).Want(200)
	c.Post(t, path+"/correct", j{"reason": "weight"}).Want(200)
	kinds(t, c, p, "produced 4")

	c.Post(t, path+"/correct", j{"items": []j{{"id": item, "successful_quantity": 3, "failed_quantity": 1}}}).Want(200)
	onHand(t, c, p, 3)
	c.Patch(t, path+"/items/"+item, j{"successful_quantity": 2, "failed_quantity": 2}).Want(200)
	onHand(t, c, p, 2)
	c.Post(t, path+"/reopen", nil).Want(200)
	onHand(t, c, p, 0)
	c.Patch(t, path+"/items/"+item, j{"successful_quantity": nil, "failed_quantity": nil}).Want(200)
	c.Post(t, path+"/complete", nil).Want(200)
	onHand(t, c, p, 4)
	kinds(t, c, p, "corrected 4", "corrected -2", "corrected -1", "corrected -1", "produced 4")

	// An item that is added to a run that has ended, and one that is removed from it.
	added := c.Post(t, path+"/items", j{"product_id": q, "quantity": 2}).Want(201).ID()
	onHand(t, c, q, 2)
	c.Delete(t, path+"/items/"+added).Want(204)
	onHand(t, c, q, 0)
	kinds(t, c, q, "corrected -2", "produced 2")

	// A run that is removed has printed its pieces.
	c.Delete(t, path).Want(204)
	onHand(t, c, p, 4)
	c.Post(t, path+"/restore", nil).Want(200)
	kinds(t, c, p, "corrected 4")

	// Failed and cancelled runs have not.
	failed, _ := run(t, c, p, 5, nil)
	c.Post(t, failed+"/fail", j{"reason": "clog"}).Want(200)
	cancelled, _ := run(t, c, p, 5, nil)
	c.Post(t, cancelled+"/cancel", nil).Want(200)
	onHand(t, c, p, 4)

	// Without deduction, the status alone counts; such a run is deleted with its pieces.
	other, _ := run(t, c, q, 3, j{"status": "completed"})
	onHand(t, c, q, 3)
	c.Delete(t, other).Want(204)
	onHand(t, c, q, 0)
	edited, _ := run(t, c, q, 3, nil)
	c.Patch(t, edited, j{"status": "completed"}).Want(200)
	onHand(t, c, q, 3)
	c.Patch(t, edited, j{"status": "paused"}).Want(200)
	onHand(t, c, q, 0)

	// Two items of one product.
	spool := c.NewSpool(t, 900, nil)
	a := c.Post(t, runs, j{"status": "in_progress", "items": []j{{"product_id": q, "quantity": 1},
		{"product_id": p, "quantity": 2}, {"product_id": q, "quantity": 4}},
		"materials": []j{{"spool_id": spool, "actual_weight_grams": 10}}}).Want(201)
	c.Post(t, runs+"/"+a.ID()+"/complete", j{"items": []j{{"id": a.Text("items.2.id"), "failed_quantity": 1}}}).Want(200)
	onHand(t, c, p, 6)
	onHand(t, c, q, 4)
	c.Get(t, entries+"?run_id="+a.ID()).Shows(map[string]string{"total": "3"})
	c.Get(t, entries+"?product_id="+q+"&kind=produced,counted").Shows(map[string]string{"total": "5"})
	c.Get(t, entries+"?order_id="+a.ID()).Shows(map[string]string{"total": "0"})
}

// Pieces that a correction takes away after they are gone are a shortfall, which comes back first.
func TestCorrectionAfterPiecesAreGone(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	p := c.NewProduct(t, "P", 10)
	path, item := run(t, c, p, 5, nil)
	c.Post(t, path+"/complete", nil).Want(200)
	c.Post(t, products+"/"+p+"/scrap", j{"quantity": 4}).Want(200)
	c.Patch(t, path+"/items/"+item, j{"successful_quantity": 2, "failed_quantity": 3}).Want(200)
	onHand(t, c, p, 0)
	kinds(t, c, p, "corrected -1 short 2", "scrapped -4", "produced 5")
	c.Patch(t, path+"/items/"+item, j{"successful_quantity": 3, "failed_quantity": 2}).Want(200)
	onHand(t, c, p, 0)
	c.Patch(t, path+"/items/"+item, j{"successful_quantity": 5, "failed_quantity": 0}).Want(200)
	onHand(t, c, p, 1)
	kinds(t, c, p, "corrected 1 short -1", "corrected 0 short -1", "corrected -1 short 2")
}

func TestCountScrapAndAdjust(t *testing.T) {
	t.Parallel()
	farm := newFarm(t)
	tenant := farm.Tenant(t)
	c, viewer, other := tenant.User(t, "operator"), tenant.User(t, "viewer"), farm.Operator(t)
	p := c.NewProduct(t, "P", 10)
	path := products + "/" + p
	first := c.Post(t, path+"/count", j{"counted": 7, "reason": "Stocktaking"}).Want(200)
	first.Shows(map[string]string{"kind": "counted", "pieces": "7", "on_hand": "7", "reason": "Stocktaking",
		"user_id": c.Actor.User, "cost": "null"})
	c.Post(t, path+"/count", j{"counted": 7}).Want(200).Shows(map[string]string{"pieces": "0", "on_hand": "7"})
	c.Post(t, path+"/scrap", j{"quantity": 2}).Want(200).Shows(map[string]string{"kind": "scrapped", "pieces": "-2"})
	c.Post(t, path+"/adjust", j{"pieces": 3}).Want(200).Shows(map[string]string{"kind": "corrected", "on_hand": "8"})
	c.Post(t, path+"/adjust", j{"pieces": -8}).Want(200).Shows(map[string]string{"on_hand": "0"})
	c.Post(t, path+"/count", j{"counted": 5}).Want(200)
	onHand(t, c, p, 5)

	c.Post(t, path+"/scrap", j{"quantity": 6}).WantError(409, "NOT_ENOUGH_PIECES")
	c.Post(t, path+"/adjust", j{"pieces": -6}).WantError(409, "NOT_ENOUGH_PIECES")
	for _, bad := range []struct {
		path string
		body j
	}{
		{"/count", j{}}, {"/count", j{"counted": -1}}, {"/count", j{"counted": 1_000_001}}, {"/count", j{"counted": 1.5}},
		{"/scrap", j{"quantity": 0}}, {"/scrap", j{"quantity": 1_000_001}}, {"/scrap", j{}}, {"/adjust", j{"pieces": 0}},
		{"/adjust", j{"pieces": -1_000_001}}, {"/adjust", j{}},
	} {
		c.Post(t, path+bad.path, bad.body).WantError(422, "VALIDATION_ERROR")
	}
	for _, op := range []string{"/count", "/scrap", "/adjust"} {
		body := j{"counted": 1, "quantity": 1, "pieces": 1}
		for name := range body {
			if name != map[string]string{"/count": "counted", "/scrap": "quantity", "/adjust": "pieces"}[op] {
				delete(body, name)
			}
		}
		viewer.Post(t, path+op, body).WantError(403, "FORBIDDEN")
		other.Post(t, path+op, body).WantError(404, "NOT_FOUND")
		c.Post(t, products+"/"+value.NewID()+op, body).WantError(404, "NOT_FOUND")
	}
	other.Get(t, path+"/piece-entries").WantError(404, "NOT_FOUND")
	other.Get(t, entries).Shows(map[string]string{"total": "0"})
	viewer.Get(t, entries+"?kind=scrapped").Shows(map[string]string{"total": "1"})
	viewer.Get(t, path+"/piece-entries?kind=counted&created_from=2000-01-01").Shows(map[string]string{"total": "3"})
	onHand(t, c, p, 5)

	c.Patch(t, path, j{"minimum_pieces": 20, "location": "B2", "on_hand": 5}).Want(200).Shows(map[string]string{
		"minimum_pieces": "20", "location": "B2", "on_hand": "5"})
	c.Patch(t, path, j{"minimum_pieces": 0}).WantError(422, "VALIDATION_ERROR")
	made := c.Post(t, products, j{"name": "Q", "minimum_pieces": 3, "location": "B3"}).Want(201)
	made.Shows(map[string]string{"minimum_pieces": "3", "location": "B3", "on_hand": "0", "piece_cost": "null"})

	c.Delete(t, path).Want(204)
	c.Post(t, path+"/count", j{"counted": 1}).WantError(404, "NOT_FOUND")
	c.Get(t, path+"/piece-entries").Want(200)
}
