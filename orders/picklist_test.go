package orders_test

import (
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// A pick list says what to take from which place, for which order, and which kits are assembled from which parts.
func TestPickList(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	const list = "/api/v1/orders/pick-list"
	c.Get(t, list).Want(200).Shows(map[string]string{"picks.#": "0", "orders.#": "0", "total": "0"})
	clip, hook := c.NewProduct(t, "CLIP", 5), c.NewProduct(t, "HOOK", 5)
	kit := c.Post(t, "/api/v1/products", j{"name": "Kit", "sku": "KIT", "location": "Shelf A",
		"components": []j{{"component_product_id": clip, "quantity": 3}}}).Want(201).ID()
	c.Patch(t, "/api/v1/products/"+clip, j{"location": "shelf b"}).Want(200)
	stock := func(product string, pieces int) {
		c.Post(t, "/api/v1/products/"+product+"/count", j{"counted": pieces}).Want(200)
	}
	order := func(due string, items ...j) (id string) {
		return c.Post(t, "/api/v1/orders", j{"due_date": due, "customer": "Ada", "items": items}).Want(201).ID()
	}
	later := order("2099-02-01", j{"product_id": hook, "quantity": 2}, j{"product_id": kit, "quantity": 2})
	sooner := order("2099-01-01", j{"product_id": kit, "quantity": 2})
	stock(kit, 3)
	stock(clip, 4)
	stock(hook, 1)

	a := c.Get(t, list+"?ids="+later+","+sooner).Want(200).Shows(map[string]string{"total": "2", "picks.#": "3",
		"picks.0.product_id": kit, "picks.0.location": "Shelf A", "picks.0.pieces": "3", "picks.0.sku": "KIT",
		"picks.0.orders.#": "2", "picks.0.orders.0.order_id": sooner, "picks.0.orders.0.pieces": "2",
		"picks.0.orders.1.order_id": later, "picks.0.orders.1.pieces": "1", "picks.0.orders.1.is_part": "false",
		"picks.1.product_id": clip, "picks.1.location": "shelf b", "picks.1.pieces": "3", "picks.1.orders.#": "1",
		"picks.1.orders.0.order_id": later, "picks.1.orders.0.is_part": "true", "picks.1.product_number": "1",
		"picks.2.product_id": hook, "picks.2.location": "null", "picks.2.pieces": "1",
		"orders.0.id": later, "orders.0.customer": "Ada", "orders.1.id": sooner, "orders.1.items.0.take": "2",
		"orders.0.items.0.take": "1", "orders.0.items.0.missing": "1", "orders.0.items.0.parts.#": "0",
		"orders.0.items.1.take": "1", "orders.0.items.1.assemble": "1", "orders.0.items.1.missing": "0",
		"orders.0.items.1.parts.0.product_id": clip, "orders.0.items.1.parts.0.take": "3",
		"orders.0.items.1.parts.0.missing": "0", "orders.0.items.1.parts.0.location": "shelf b"})
	// The later order alone gets no more.
	c.Get(t, list+"?ids="+later).Shows(map[string]string{"picks.0.pieces": "1", "orders.#": "1",
		"picks.0.orders.0.order_item_id": a.Text("orders.0.items.1.id")})
	c.Post(t, "/api/v1/orders/"+sooner+"/deliver", nil).Want(200)
	c.Get(t, list+"?ids="+sooner).Shows(map[string]string{"picks.#": "0", "orders.0.items.0.delivered": "2",
		"orders.0.items.0.take": "0"})

	testkit.ExecURL(t, testkit.Private().SuperURL(), `update orders set ready_at = now() where id = '`+later+`'`)
	c.Get(t, list+"?ready=true").Shows(map[string]string{"orders.#": "1", "orders.0.id": later, "total": "1"})
	c.Get(t, list+"?ready=true&ids="+sooner).Shows(map[string]string{"orders.#": "1", "orders.0.id": later})

	tenant.User(t, "viewer").Get(t, list+"?ids="+later).Want(200)
	api.Operator(t).Get(t, list+"?ids="+later).Want(200).Shows(map[string]string{"orders.#": "0", "picks.#": "0"})
	c.Get(t, list+"?ids=x").Fields("ids")
	c.Get(t, list+"?ids="+strings.Repeat(later+",", 100)+later).Fields("ids")
	c.Delete(t, "/api/v1/orders/"+later).Want(204)
	c.Get(t, list+"?ids="+later).Shows(map[string]string{"orders.#": "0"})
}
