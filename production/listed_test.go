package production_test

import (
	"fmt"
	"slices"
	"testing"

	"spoolwright/tests/testkit"
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
		"due_date": "2026-05-04", "items": []j{{"product_id": products[0], "quantity": 2}}}).Want(201)
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
		"orders.0.id": order.ID(), "orders.0.reference": "1042", "orders.0.customer": "Ada",
		"orders.0.due_date": "2026-05-04"}
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

// Lists find the runs that wait for a start and for a confirmation.
func TestNeedsOfRuns(t *testing.T) {
	t.Parallel()
	api := newFarm(t)
	c, other := api.Operator(t), api.Operator(t)
	spool := createSpool(t, c, nil)
	add := func(c *testkit.Client, fields j) string { return c.Post(t, runs, fields).Want(201).ID() }
	needs := func(c *testkit.Client, need string, want ...string) {
		t.Helper()
		list := c.Get(t, runs+"?sort_order=asc&needs="+need).Want(200)
		var got []string
		for i := range list.List("items") {
			got = append(got, list.Text(fmt.Sprint("items.", i, ".id")))
		}
		if !slices.Equal(got, want) || list.Text("total") != fmt.Sprint(len(want)) {
			t.Errorf("needs=%s: %s, want %v", need, list.Body, want)
		}
	}
	// A farm without printers starts any run.
	first, second := add(c, j{}), add(c, j{"printer_name": "On the desk"})
	needs(c, "start", first, second)
	needs(other, "start")
	third := api.Operator(t) // neither does a removed printer start one
	gone := third.Post(t, "/api/v1/printers", j{"name": "A"}).Want(201).ID()
	add(third, j{"printer_id": gone, "status": "failed"})
	third.Delete(t, "/api/v1/printers/"+gone).Want(204)
	needs(third, "start", add(third, j{}))
	busy := c.Post(t, "/api/v1/printers", j{"name": "A"}).Want(201).ID()
	free := c.Post(t, "/api/v1/printers", j{"name": "B"}).Want(201).ID()
	away := c.Post(t, "/api/v1/printers", j{"name": "C", "status": "maintenance"}).Want(201).ID()
	needs(c, "start")
	printing := add(c, j{"printer_id": busy, "status": "in_progress", "estimated_print_time_hours": 5})
	add(c, j{"printer_id": busy})
	next := add(c, j{"printer_id": free})
	add(c, j{"printer_id": free})
	add(c, j{"printer_id": away})
	needs(c, "start", next)
	needs(c, "confirmation")
	c.Get(t, runs+"?needs=start&status=paused").Want(200).Shows(map[string]string{"total": "0"})

	c.Patch(t, runs+"/"+printing, j{"started_at": "2024-01-15T10:00:00Z"}).Want(200)
	done := add(c, j{"status": "completed", "materials": []j{{"spool_id": spool, "actual_weight_grams": 5}}})
	removed := add(c, j{"status": "completed"})
	c.Delete(t, runs+"/"+removed).Want(204)
	add(c, j{"status": "failed"})
	needs(c, "confirmation", printing, done)
	needs(other, "confirmation")
	c.Post(t, runs+"/"+done+"/complete", nil).Want(200)
	c.Patch(t, runs+"/"+printing, j{"status": "paused"}).Want(200)
	needs(c, "confirmation")
	c.Get(t, runs+"?needs=sleep").Fields("needs")
}
