package production_test

import (
	"fmt"
	"testing"

	"spoolwright/testkit"
)

// A run in a list has its first products, spools and orders, so that people know what it prints.
func TestListedRuns(t *testing.T) {
	t.Parallel()
	api := newFarm(t)
	c := api.Operator(t)
	black := createSpool(t, c, j{"color_hex": "#101010"})
	red := createSpool(t, c, j{"color": "Red", "color_hex": nil})
	var products []string
	for i := range 5 {
		products = append(products, c.Post(t, "/api/v1/products", j{"name": fmt.Sprint("Part ", i)}).Want(201).ID())
	}
	order := c.Post(t, "/api/v1/orders", j{"reference": "1042", "customer": "Ada",
		"items": []j{{"product_id": products[0], "quantity": 2}}}).Want(201)
	bare := c.Post(t, runs, j{}).Want(201).ID()
	var items, materials []j
	for i, p := range products {
		items = append(items, j{"product_id": p, "quantity": i + 1})
	}
	items[0]["order_item_id"] = order.Text("items.0.id")
	for range 5 {
		materials = append(materials, j{"spool_id": red}, j{"spool_id": black})
	}
	run := c.Post(t, runs, j{"items": items, "materials": materials}).Want(201).ID()
	c.Delete(t, "/api/v1/spools/"+red).Want(204)

	full := map[string]string{"id": run, "item_count": "5", "items.0.product_name": "Part 0",
		"items.0.quantity": "1", "items.2.product_id": products[2], "materials.0.spool_id": red,
		"materials.0.spool_number": "2", "materials.0.spool_name": "PLA Red (Polymaker)",
		"materials.0.color_hex": "null", "materials.1.color_hex": "#101010",
		"orders.0.id": order.ID(), "orders.0.reference": "1042", "orders.0.customer": "Ada"}
	for _, query := range []string{"", "?status=pending,paused", "?limit=1", "?product_id=" + products[4],
		"?order_id=" + order.ID(), "?spool_id=" + black, "?search=part", "?sort_by=status&sort_order=desc&limit=1"} {
		list := c.Get(t, runs+query).Want(200)
		for name, want := range full {
			testkit.Equal(t, list.Text("items.0."+name), want, "%s: %s", query, name)
		}
		for name, want := range map[string]int{"items": 3, "materials": 8, "orders": 1} {
			testkit.Equal(t, len(list.List("items.0."+name)), want, "%s: %s", query, name)
		}
	}
	c.Get(t, runs+"?skip=1").Want(200).Shows(map[string]string{"items.0.id": bare, "items.0.items": "[]",
		"items.0.item_count": "0", "items.0.materials": "[]", "items.0.orders": "[]"})
	testkit.Equal(t, len(c.Get(t, "/api/v1/queue").Want(200).List("runs.1.materials")), 8, "spools in the queue")
	c.Get(t, "/api/v1/orders/"+order.ID()).Want(200).Shows(map[string]string{"runs.0.item_count": "5",
		"runs.0.items.2.product_name": "Part 2"})
}
