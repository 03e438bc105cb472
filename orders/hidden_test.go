package orders_test

import "testing"

// A removed order is in the list of hidden orders and reserves nothing. Restore shows it again, and its status follows
// the runs that have ended meanwhile.
func TestHideAndRestoreOrder(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	product := c.NewProduct(t, "A", 10)
	c.Post(t, "/api/v1/spools", j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75,
		"net_weight_grams": 1000}).Want(201)
	level := "/api/v1/stock-levels/" + c.Post(t, "/api/v1/stock-levels",
		j{"material_type": "PLA", "minimum_grams": 985}).Want(201).ID()
	body := j{"source": "etsy", "reference": "1", "items": []j{{"product_id": product, "quantity": 2}}}
	created := c.Post(t, path, body).Want(201)
	order := path + "/" + created.ID()
	c.Get(t, level).Want(200).Shows(map[string]string{"reserved_grams": "20", "low": "true"})
	c.Post(t, order+"/restore", nil).Want(200).Shows(map[string]string{"updated_at": created.Text("updated_at")})
	c.Post(t, runs, j{"status": "completed", "items": []j{{"product_id": product, "quantity": 2,
		"order_item_id": created.Text("items.0.id")}}}).Want(201)
	c.Patch(t, order, j{"status": "received"}).Want(200)

	c.Delete(t, order).Want(204)
	c.Get(t, path).Want(200).Shows(map[string]string{"total": "0"})
	c.Get(t, path+"?hidden=true").Want(200).Shows(map[string]string{"total": "1", "items.0.id": created.ID()})
	api.Operator(t).Post(t, order+"/restore", nil).WantError(404, "NOT_FOUND")
	// Otherwise the other order takes the pieces.
	c.Post(t, "/api/v1/products/"+product+"/count", j{"counted": 0}).Want(200)
	other := path + "/" + c.Post(t, path, body).Want(201).ID()
	c.Get(t, level).Want(200).Shows(map[string]string{"reserved_grams": "20", "low": "true"})
	c.CheckLevels(t)
	c.Post(t, order+"/restore", nil).WantError(409, "ORDER_CONFLICT")
	c.Delete(t, other).Want(204)
	c.Get(t, level).Want(200).Shows(map[string]string{"reserved_grams": "0", "low": "true"}) // less than 110 %
	c.Post(t, order+"/restore", nil).Want(200).Shows(map[string]string{"status": "in_production", "hidden_at": "null"})
	c.Get(t, path).Want(200).Shows(map[string]string{"total": "1"})
	c.Get(t, path+"?hidden=true").Want(200).Shows(map[string]string{"total": "1", "items.0.status": "received"})

	plain, _ := c.NewOrder(t, product, 1) // without a reference
	at := c.Get(t, plain).Want(200).Text("updated_at")
	c.Post(t, plain+"/restore", nil).Want(200).Shows(map[string]string{"updated_at": at})
}

func TestCancelOrder(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	product := c.NewProduct(t, "A", 10)
	order := path + "/" + c.Post(t, path, j{"items": []j{{"product_id": product}}}).Want(201).ID()
	cancelled := c.Post(t, order+"/cancel", nil).Want(200).Shows(map[string]string{"status": "cancelled"})
	c.Post(t, order+"/cancel", nil).Want(200).Shows(map[string]string{"updated_at": cancelled.Text("updated_at")})
	c.Get(t, order+"/availability").Want(200).Shows(map[string]string{"material_count": "0"})
	c.Patch(t, order, j{"status": "done"}).Want(200)
	c.Post(t, order+"/cancel", nil).WantError(409, "ORDER_NOT_OPEN")
	c.Get(t, order).Want(200).Shows(map[string]string{"status": "done"})
	api.Operator(t).Post(t, order+"/cancel", nil).WantError(404, "NOT_FOUND")
	c.Delete(t, order).Want(204)
	c.Post(t, order+"/cancel", nil).WantError(404, "NOT_FOUND")

	// An order that another request makes done meanwhile is not cancelled.
	order, _ = c.NewOrder(t, product, 1)
	h := c.Hold(t, `update orders set status = 'done' where id = '`+order[len(path)+1:]+`'`)
	answered := h.Start(1, func() { c.Post(t, order+"/cancel", nil).WantError(409, "ORDER_NOT_OPEN") })
	h.Commit()
	<-answered
}

// Nothing changes an order while it is hidden, nor its items.
func TestHiddenStaysUnchanged(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	product := c.NewProduct(t, "A", 10)
	for _, status := range []string{"received", "done"} {
		created := c.Post(t, path, j{"status": status, "items": []j{{"product_id": product, "quantity": 2},
			{"product_id": product}}}).Want(201)
		order, item, withdrawn := path+"/"+created.ID(), created.Text("items.0.id"), created.Text("items.1.id")
		c.Delete(t, order+"/items/"+withdrawn).Want(204)
		statuses := []any{j{"status": "cancelled"}, j{"status": "done"}, j{"status": "received"}}
		c.WantHiddenUnchanged(t, order, j{"notes": "x", "due_date": "2030-01-01", "customer": "x", "reference": "x",
			"source": "x"}, map[string]any{
			"PATCH ":                                statuses,
			"POST /items":                           j{"product_id": product},
			"PATCH /items/" + item:                  j{"quantity": 3},
			"DELETE /items/" + item:                 nil,
			"POST /items/" + withdrawn + "/restore": nil,
			"POST /deliver":                         nil,
			"POST /complete":                        nil,
			"POST /return":                          j{},
		})
	}
	c.Get(t, "/api/v1/products/"+product).Want(200).Shows(map[string]string{"on_hand": "0"})
}

// An order of a removed product takes its components from stock once, also if they were removed, and one of them got
// more components afterwards.
func TestOrderOfRemovedComponents(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	const products = "/api/v1/products"
	insert, body := c.NewProduct(t, "INSERT", 1), c.NewProduct(t, "BODY", 1)
	lid, box := c.NewProduct(t, "LID", 1), c.NewProduct(t, "BOX", 1)
	contains := func(product, component string) {
		t.Helper()
		c.Post(t, products+"/"+product+"/components", j{"component_product_id": component}).Want(201)
	}
	contains(lid, body)
	contains(box, lid)
	contains(box, body)
	order, _ := c.NewOrder(t, box, 1)
	c.Delete(t, products+"/"+box).Want(204)
	c.Delete(t, products+"/"+lid).Want(204)
	// The body now has as many levels as the lid, which contains it, had when it was removed.
	contains(body, insert)
	contains(insert, c.NewProduct(t, "NUT", 1))
	c.Post(t, products+"/"+body+"/count", j{"counted": 2}).Want(200)
	c.Delete(t, products+"/"+body).Want(204)
	c.Get(t, order+"/availability").Want(200).Shows(map[string]string{"items.0.parts.#": "2",
		"materials.0.needed_grams": "2"}) // the box and the lid
}
