package orders_test

import (
	"testing"

	"spoolwright/db"
	"spoolwright/tests/testkit"
)

// An order that is marked done by hand earns the price of the delivered pieces. Reports count these once, also those
// that no run printed for the order. Reopening the order restores everything.
func TestOrderDoneByHand(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	c.NewSpool(t, 1000, j{"purchase_price": 20})
	product := c.NewProduct(t, "Hook", 100)
	created := c.Post(t, path, j{"customer": "Ada", "items": []j{{"product_id": product, "quantity": 5, "unit_price": 12},
		{"product_id": product, "quantity": 2, "unit_price": 30}}}).Want(201)
	order, first, second := path+"/"+created.ID(), created.Text("items.0.id"), created.Text("items.1.id")
	run := c.NewRun(t, product, first, 2, j{"status": "in_progress"})
	spool := c.Get(t, "/api/v1/spools").Want(200).Text("items.0.id")
	c.Post(t, run+"/materials", j{"spool_id": spool, "actual_weight_grams": 200}).Want(201)
	c.Post(t, run+"/complete", nil).Want(200)

	wants := func(status, one, two, revenue, reported string) {
		t.Helper()
		c.Get(t, order).Want(200).Shows(map[string]string{"status": status, "items.0.delivered": one,
			"items.1.delivered": two, "revenue": revenue})
		for _, by := range []string{"product", "order", "customer", "month"} {
			groups := "1"
			if one == "1" && (by == "order" || by == "customer") {
				groups = "2" // one piece of the run is in stock
			}
			c.Get(t, "/api/v1/reports/margins?group_by="+by).Want(200).Shows(map[string]string{"revenue": reported,
				"cost": "4", "pieces": "2", "runs": "1", "groups": groups, "items.0.revenue": reported})
		}
	}
	complete := func(items ...j) { t.Helper(); c.Post(t, order+"/complete", j{"items": items}).Want(200) }
	wants("in_production", "null", "null", "120", "24")
	c.Patch(t, order, j{"status": "done"}).Want(200)
	wants("done", "5", "2", "120", "120")
	c.Patch(t, order, j{"status": "in_production"}).Want(200)
	wants("in_production", "null", "null", "120", "24")

	complete(j{"id": first, "delivered": 3})
	wants("done", "3", "2", "96", "96")
	complete(j{"id": second, "delivered": 0})
	wants("done", "3", "0", "36", "36")
	complete(j{"id": first, "delivered": 1})
	wants("done", "1", "0", "12", "12")
	c.Patch(t, order, j{"status": "done"}).Want(200) // which it is
	wants("done", "1", "0", "12", "12")
	complete(j{"id": first, "delivered": 4})

	// The pieces of the run are counted once, and the order stays done without them.
	c.Post(t, run+"/reopen", nil).Want(200)
	c.Get(t, order).Want(200).Shows(map[string]string{"status": "done", "items.0.delivered": "4"})
	c.Get(t, "/api/v1/reports/margins?group_by=printer").Want(200).Shows(map[string]string{"revenue": "48",
		"cost": "null", "runs": "0", "pieces": "0", "items.0.printer_id": "null", "unknown_parts": "[stock]",
		"cost_parts.filament": "0", "cost_parts.stock": "null"})
	c.Post(t, run+"/complete", nil).Want(200)
	wants("done", "4", "0", "48", "48")

	// A shop can lower the quantity.
	testkit.Check(t, api.DB.Write(db.As(t.Context(), c.Actor), db.SQL(`
		update order_items set quantity = 3 where id = $1`, first)))
	wants("done", "4", "0", "36", "36")
	c.Patch(t, order+"/items/"+second, j{"unit_price": 31}).Want(200).Shows(map[string]string{"delivered": "0"})
	for _, body := range []j{
		{"items": []j{{"id": first, "delivered": 5}}}, {"items": []j{{"id": first, "delivered": -1}}},
		{"items": []j{{"id": first}}}, {"items": []j{{"id": first, "delivered": nil}}},
	} {
		c.Post(t, order+"/complete", body).Fields("items[0].delivered")
	}
	c.Post(t, order+"/complete", j{"items": []j{{"delivered": 1}}}).Fields("items[0].id")
	c.Post(t, order+"/complete", j{"items": []j{{"id": first, "delivered": 1}, {"id": first, "delivered": 2}}}).
		Fields("items[1].id")
	c.Post(t, order+"/complete", j{"items": []j{{"id": product, "delivered": 1}}}).WantError(400, "UNKNOWN_REFERENCE")
	api.Operator(t).Post(t, order+"/complete", nil).WantError(404, "NOT_FOUND")
	wants("done", "4", "0", "36", "36")

	// It is removed with what it has earned; an item that is added or needs more opens it again.
	c.Delete(t, order).Want(204)
	c.Get(t, "/api/v1/reports/margins").Want(200).Shows(map[string]string{"revenue": "36"})
	c.Post(t, order+"/restore", nil).Want(200)
	c.Patch(t, order+"/items/"+first, j{"quantity": 9}).Want(200).Shows(map[string]string{"delivered": "4"})
	c.Get(t, order).Want(200).Shows(map[string]string{"status": "in_production", "items.1.delivered": "0"})

	c.Post(t, path, j{"status": "done", "items": []j{{"product_id": product, "quantity": 3}}}).Want(201).
		Shows(map[string]string{"items.0.delivered": "3"})
	c.Post(t, path, j{"status": "done", "reference": "1", "items": []j{{"product_id": product}}}).Want(201)
	c.Post(t, path, j{"status": "done", "reference": "1", "items": []j{{"product_id": product}}}).Want(200)
}

// An item that was removed from its order comes back as it was, printed or not.
func TestRestoreItem(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	product := c.NewProduct(t, "Hook", 100)
	created := c.Post(t, path, j{"items": []j{{"product_id": product, "quantity": 2, "unit_price": 12},
		{"product_id": product, "quantity": 3, "unit_price": 30}}}).Want(201)
	order, first, second := path+"/"+created.ID(), created.Text("items.0.id"), created.Text("items.1.id")
	restore := func(id string, want map[string]string) {
		t.Helper()
		c.Post(t, order+"/items/"+id+"/restore", nil).Want(200).Shows(want)
	}
	before := c.Get(t, order).Want(200)
	restore(first, map[string]string{"quantity": "2"})
	c.Get(t, order).Want(200).Shows(map[string]string{"updated_at": before.Text("updated_at")})
	c.Delete(t, order+"/items/"+first).Want(204)
	c.Delete(t, order+"/items/"+first).WantError(404, "NOT_FOUND")
	c.Get(t, order).Want(200).Shows(map[string]string{"items.0.id": second, "revenue": "90"})
	c.Patch(t, order+"/items/"+first, j{"quantity": 1}).WantError(404, "NOT_FOUND")
	restore(first, map[string]string{"id": first, "quantity": "2", "unit_price": "12"})
	c.Get(t, order).Want(200).Shows(map[string]string{"items.0.id": first, "items.1.id": second, "revenue": "114"})

	// The last open item is removed: the order is done, until it comes back.
	c.NewRun(t, product, first, 2, j{"status": "completed"})
	c.Post(t, order+"/deliver", j{"items": []j{{"id": first}}}).Want(200)
	c.Delete(t, order+"/items/"+second).Want(204)
	c.Get(t, order).Want(200).Shows(map[string]string{"status": "done"})
	restore(second, map[string]string{"produced": "0"})
	c.Get(t, order).Want(200).Shows(map[string]string{"status": "in_production"})
	c.Delete(t, order+"/items/"+first).Want(204)
	restore(first, map[string]string{"produced": "2"})

	// What was delivered stays, unless the order is open again.
	c.Post(t, order+"/complete", j{"items": []j{{"id": second, "delivered": 1}}}).Want(200)
	c.Delete(t, order+"/items/"+second).Want(204)
	restore(second, map[string]string{"delivered": "1"})
	c.Get(t, order).Want(200).Shows(map[string]string{"status": "done", "revenue": "54"})
	c.Delete(t, order+"/items/"+second).Want(204)
	c.Patch(t, order, j{"status": "received"}).Want(200)
	restore(second, map[string]string{"delivered": "null"})

	api.Operator(t).Post(t, order+"/items/"+first+"/restore", nil).WantError(404, "NOT_FOUND")
	other := path + "/" + c.Post(t, path, j{}).Want(201).ID()
	c.Post(t, other+"/items/"+first+"/restore", nil).WantError(404, "NOT_FOUND")
	c.Delete(t, order+"/items/"+first).Want(204)
	c.Delete(t, order).Want(204)
	c.Post(t, order+"/items/"+first+"/restore", nil).WantError(404, "NOT_FOUND")
}
