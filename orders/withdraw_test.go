package orders_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// wantMoney checks what an order earned and cost, in the API and in the export.
func wantMoney(t *testing.T, c *testkit.Client, order, revenue, cost, expected, margin string, unknown ...string) {
	t.Helper()
	c.Get(t, order).Want(200).Shows(map[string]string{"revenue": revenue, "cost": cost, "expected_cost": expected,
		"margin": margin, "unknown_parts": fmt.Sprintf("%v", unknown)})
	for _, row := range c.Exported(t, path, "jsonl") {
		if a := testkit.NewResponse(t, []byte(row)); path+"/"+a.ID() == order {
			a.Shows(map[string]string{"revenue": revenue, "cost": cost, "expected_cost": expected, "margin": margin})
			return
		}
	}
	t.Error("the export has no row of the order")
}

func wantReport(t *testing.T, c *testkit.Client, revenue, cost, margin string, unknown ...string) {
	t.Helper()
	c.Get(t, margins+"?group_by=order").Want(200).Shows(map[string]string{"revenue": revenue, "cost": cost,
		"margin": margin, "unknown_parts": fmt.Sprintf("%v", unknown)})
}

// A cancelled order, and one that was removed while it was open, earn nothing. Their good pieces are in stock, and
// cost them nothing.
func TestCancelledOrderEarnsNothing(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t).Tenant(t)
	c := tenant.User(t, "operator")
	free(t, tenant.User(t, "admin"))
	spool := c.NewSpool(t, 1000, j{"purchase_price": 20})
	product := c.NewProduct(t, "A", 10)
	created := c.Post(t, path, j{"items": []j{{"product_id": product, "quantity": 3, "unit_price": 12}}}).Want(201)
	order, item := path+"/"+created.ID(), created.Text("items.0.id")
	run := c.NewRun(t, product, item, 1, j{"materials": []j{{"spool_id": spool, "actual_weight_grams": 10}}})
	c.Post(t, run+"/complete", nil).Want(200)
	wantMoney(t, c, order, "36", "0.2", "0.4", "35.4")
	wantReport(t, c, "12", "0.2", "11.8")

	c.Post(t, order+"/cancel", nil).Want(200)
	wantMoney(t, c, order, "0", "0", "0", "0")
	c.Get(t, order).Shows(map[string]string{"margin_percent": "null", "cost_parts.filament": "0.2",
		"cost_parts.stock": "-0.2"})
	wantReport(t, c, "0", "0", "0")

	c.Patch(t, order, j{"status": "done"}).Want(200) // with two pieces that nobody had counted
	wantMoney(t, c, order, "36", "0.2", "0", "35.8", "stock")
	c.Delete(t, order).Want(204) // keeps what it earned: all pieces, because it was marked done by hand
	wantReport(t, c, "36", "0.2", "35.8", "stock")
	c.Post(t, order+"/restore", nil).Want(200)
	c.Patch(t, order, j{"status": "received"}).Want(200)
	c.Delete(t, order).Want(204)
	wantReport(t, c, "0", "0", "0")
}

// An item whose runs have ended can leave its order, which becomes done with the rest. What failed runs have spent on
// it stays in the cost of the order, and its good pieces are in stock.
func TestWithdrawItem(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	free(t, tenant.User(t, "admin"))
	spool := c.NewSpool(t, 1000, j{"purchase_price": 20})
	product := ""
	used := func(grams int) j {
		return j{"status": "in_progress", "materials": []j{{"spool_id": spool, "actual_weight_grams": grams}}}
	}
	for name, end := range map[string]func(run string){
		"failed": func(run string) { c.Post(t, run+"/fail", j{"reason": "adhesion"}).Want(200) },
		"failed and removed": func(run string) {
			c.Post(t, run+"/fail", j{"reason": "adhesion"}).Want(200)
			c.Delete(t, run).Want(204)
		},
		"cancelled": func(run string) { c.Post(t, run+"/cancel", nil).Want(200) },
		"completed": func(run string) { c.Post(t, run+"/complete", nil).Want(200) },
	} {
		product = c.NewProduct(t, "A "+name, 10)
		created := c.Post(t, path, j{"items": []j{{"product_id": product, "quantity": 1, "unit_price": 12},
			{"product_id": product, "quantity": 2, "unit_price": 30}}}).Want(201)
		order, kept, bad := path+"/"+created.ID(), created.Text("items.0.id"), created.Text("items.1.id")
		run := c.NewRun(t, product, bad, 1, used(20))
		a := c.Delete(t, order+"/items/"+bad).WantError(409, "ORDER_ITEM_IN_USE")
		if !strings.Contains(a.Text("detail"), run[len(runs)+1:]) {
			t.Errorf("%s: the detail %q does not name the run", name, a.Text("detail"))
		}
		end(run)
		c.Post(t, c.NewRun(t, product, kept, 1, used(10))+"/complete", nil).Want(200)
		c.Post(t, order+"/deliver", j{"items": []j{{"id": kept}}}).Want(200)
		tenant.User(t, "viewer").Delete(t, order+"/items/"+bad).WantError(403, "FORBIDDEN")
		api.Operator(t).Delete(t, order+"/items/"+bad).WantError(404, "NOT_FOUND")
		c.Get(t, order).Want(200).Shows(map[string]string{"status": "in_production", "revenue": "72"})

		c.Delete(t, order+"/items/"+bad).Want(204)
		a = c.Get(t, order).Want(200)
		a.Shows(map[string]string{"status": "done", "items.0.id": kept})
		a.WantLen(t, "items", 1)
		cost, margin := "0.6", "11.4"
		if name == "completed" { // two pieces for 0.6 were in stock, and one of them was delivered
			cost, margin = "0.3", "11.7"
		}
		wantMoney(t, c, order, "12", cost, "0", margin)
		c.Get(t, order+"/availability").Want(200).Shows(map[string]string{"material_count": "0"})
		c.Delete(t, order+"/items/"+bad).WantError(404, "NOT_FOUND")
		c.Patch(t, order+"/items/"+bad, j{"quantity": 5}).WantError(404, "NOT_FOUND")
		c.Post(t, runs, j{"items": []j{{"product_id": product, "order_item_id": bad}}}).
			WantError(400, "UNKNOWN_REFERENCE")
		c.Get(t, runs+"?order_id="+created.ID()).Want(200).Shows(map[string]string{
			"total": map[bool]string{true: "1", false: "2"}[strings.HasSuffix(name, "removed")]})

		// The order is open again when something is added, and follows what is left.
		added := c.Post(t, order+"/items", j{"product_id": product, "quantity": 4}).Want(201).ID()
		c.Get(t, order).Want(200).Shows(map[string]string{"status": "in_production"})
		needed := "40"
		if name == "completed" { // the piece of the withdrawn item is in stock
			needed = "30"
		}
		c.Get(t, order+"/availability").Want(200).Shows(map[string]string{"materials.0.needed_grams": needed})
		c.Delete(t, order+"/items/"+added).Want(204)
		c.Get(t, order).Want(200).Shows(map[string]string{"status": "done"})
	}
	// No item earns twice: the good piece of the withdrawn item is in stock.
	wantReport(t, c, "48", "2.1", "45.9")
}

// A withdrawn item reserves nothing. An order without items stays as it is.
func TestWithdrawLastItem(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	product := c.NewProduct(t, "A", 10)
	c.NewSpool(t, 1000, nil)
	level := "/api/v1/stock-levels/" + c.Post(t, "/api/v1/stock-levels",
		j{"material_type": "PLA", "minimum_grams": 900}).Want(201).ID()
	order, item := c.NewOrder(t, product, 20)
	run := c.NewRun(t, product, item, 5, nil)
	c.Get(t, level).Want(200).Shows(map[string]string{"reserved_grams": "200", "low": "true"})
	c.Post(t, run+"/fail", j{"reason": "adhesion"}).Want(200)
	c.Delete(t, order+"/items/"+item).Want(204)
	c.Get(t, level).Want(200).Shows(map[string]string{"reserved_grams": "0", "low": "false"})
	c.Get(t, order).Want(200).Shows(map[string]string{"status": "received", "items": "[]", "revenue": "0"})
	c.Get(t, path+"?product_id="+product).Want(200).Shows(map[string]string{"total": "0"})
}

// A done order is open again when it needs more pieces than are delivered, and only then.
func TestOrderOpensAgain(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	product := c.NewProduct(t, "A", 10)
	order, item := c.NewOrder(t, product, 2)
	c.NewRun(t, product, item, 4, j{"status": "completed"})
	c.Post(t, order+"/deliver", nil).Want(200)
	shows(t, c, order, "done", "4", "0")
	for _, change := range []struct {
		body   j
		status string
	}{
		{j{"unit_price": 3}, "done"}, {j{"quantity": 2}, "done"},
		{j{"quantity": 5, "unit_price": 3}, "in_production"}, {j{"quantity": 6}, "in_production"},
		{j{"quantity": 2}, "done"},
	} {
		c.Patch(t, order+"/items/"+item, change.body).Want(200)
		shows(t, c, order, change.status, "4", "0")
	}
	c.Patch(t, order, j{"status": "cancelled"}).Want(200)
	c.Patch(t, order+"/items/"+item, j{"quantity": 9}).Want(200)
	c.Post(t, order+"/items", j{"product_id": product}).Want(201)
	shows(t, c, order, "cancelled", "4", "0")

	// One that was closed by hand, too.
	order, item = c.NewOrder(t, product, 2)
	c.Patch(t, order, j{"status": "done"}).Want(200)
	c.Patch(t, order+"/items/"+item, j{"quantity": 1}).Fields("quantity")
	c.Patch(t, order+"/items/"+item, j{"quantity": 2}).Want(200)
	shows(t, c, order, "done", "0", "0")
	c.Patch(t, order+"/items/"+item, j{"quantity": 3}).Want(200)
	shows(t, c, order, "in_production", "0", "0")
}

// Of a request that withdraws an item and one that makes a run print it, the second sees the effect of the first.
func TestWithdrawWhileRunLinksItem(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	product := c.NewProduct(t, "A", 10)
	order, item := c.NewOrder(t, product, 1)
	c.Post(t, c.NewRun(t, product, item, 1, nil)+"/fail", j{"reason": "adhesion"}).Want(200)
	h := c.Hold(t, `select from order_items where id = '`+item+`' for update`)
	var answers [2]*testkit.Response
	var errs [2]error
	removed := h.Start(1, func() { answers[0], errs[0] = c.Send("DELETE", order+"/items/"+item, nil) })
	linked := h.Start(2, func() {
		answers[1], errs[1] = c.Send("POST", runs, j{"items": []j{{"product_id": product, "order_item_id": item}}})
	})
	h.Commit()
	<-removed
	<-linked
	if err := errors.Join(errs[:]...); err != nil || answers[0].Status != 204 || answers[1].Status != 400 {
		t.Errorf("%v, %+v; want the item to be withdrawn, and no run", err, answers)
	}
}

// What an order cost includes the filament that a spool did not have on record.
func TestOrderPaysForShortfall(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t).Tenant(t)
	c := tenant.User(t, "operator")
	free(t, tenant.User(t, "admin"))
	product := c.NewProduct(t, "A", 10)
	order, item := c.NewOrder(t, product, 3)
	for end, body := range map[string]j{"complete": {}, "fail": {"reason": "clog"}, "cancel": {}} {
		spool := c.NewSpool(t, 100, j{"purchase_price": 20})
		run := c.NewRun(t, product, item, 1,
			j{"status": "in_progress", "materials": []j{{"spool_id": spool, "actual_weight_grams": 150}}})
		c.Post(t, run+"/"+end, body).Want(200).Shows(map[string]string{"spools_updated.0.shortfall_grams": "50"})
		c.Get(t, run).Want(200).Shows(map[string]string{"cost": "3"})
	}
	c.Get(t, order).Want(200).Shows(map[string]string{"cost": "9"})
}

// free makes hours and work cost nothing.
func free(t *testing.T, admin *testkit.Client) {
	t.Helper()
	admin.Patch(t, "/api/v1/settings", j{"labour_hour_cost": 0, "machine_hour_cost": 0, "energy_kwh_cost": 0,
		"failure_rate_percent": 0}).Want(200)
}
