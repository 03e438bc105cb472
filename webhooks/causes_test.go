package webhooks_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// TestCauses checks that everything that causes an event causes it once, and that groups of types select webhooks. The
// deliveries of a transaction exist when it has committed, so that no dispatcher is needed.
func TestCauses(t *testing.T) {
	t.Parallel()
	f := startWithout(t, testkit.Open(t), nil)
	type j = testkit.JSON
	const runs, orders, spools = "/api/v1/production-runs", "/api/v1/orders", "/api/v1/spools"
	for name, test := range map[string]struct {
		cause func(t *testing.T, c *testkit.Client, product, spool string)
		want  map[string]int // the events
	}{
		"created with a status": {func(t *testing.T, c *testkit.Client, _, _ string) {
			for _, status := range []string{"received", "in_production", "done", "cancelled"} {
				c.Post(t, orders, j{"status": status}).Want(201)
			}
			c.Post(t, runs, j{"status": "in_progress"}).Want(201)
			c.Post(t, runs, j{"status": "paused"}).Want(201)
		}, map[string]int{"order.received": 1, "order.in_production": 1, "order.done": 1, "order.cancelled": 1,
			"production_run.started": 1}},
		"changes of a status": {func(t *testing.T, c *testkit.Client, _, _ string) {
			order := orders + "/" + c.Post(t, orders, j{}).Want(201).ID()
			for _, status := range []string{"in_production", "in_production", "done", "received", "cancelled"} {
				c.Patch(t, order, j{"status": status}).Want(200)
			}
			run := runs + "/" + c.Post(t, runs, j{}).Want(201).ID()
			for _, status := range []string{"paused", "in_progress", "in_progress", "paused", "in_progress",
				"completed"} {
				c.Patch(t, run, j{"status": status}).Want(200)
			}
		}, map[string]int{"order.received": 1, "order.in_production": 1, "order.done": 1, "order.cancelled": 1,
			"production_run.started": 1}},
		"runs that orders follow": {func(t *testing.T, c *testkit.Client, product, spool string) {
			order := c.Post(t, orders, j{"items": []any{j{"product_id": product, "quantity": 2}}}).Want(201)
			run := runs + "/" + c.Post(t, runs, j{"status": "in_progress",
				"items":     []any{j{"product_id": product, "order_item_id": order.Text("items.0.id"), "quantity": 2}},
				"materials": []any{j{"spool_id": spool, "actual_weight_grams": 1000}}}).Want(201).ID()
			c.Post(t, run+"/complete", nil).Want(200)
			c.Post(t, run+"/complete", nil).WantError(400, "RUN_ALREADY_COMPLETED")
			c.Post(t, orders+"/"+order.ID()+"/deliver", nil).Want(200)
			c.Post(t, orders+"/"+order.ID()+"/deliver", nil).Want(200)
		}, map[string]int{"order.received": 1, "order.in_production": 1, "order.done": 1, "production_run.started": 1,
			"production_run.completed": 1, "spool.empty": 1}},
		"orders that open again": {func(t *testing.T, c *testkit.Client, product, _ string) {
			order := orders + "/"
			created := c.Post(t, orders, j{"items": []any{j{"product_id": product}, j{"product_id": product}}}).Want(201)
			order += created.ID()
			kept, bad := created.Text("items.0.id"), created.Text("items.1.id")
			print := func(item, status string) string {
				return runs + "/" + c.Post(t, runs, j{"status": status,
					"items": []any{j{"product_id": product, "order_item_id": item}}}).Want(201).ID()
			}
			c.Post(t, print(bad, "pending")+"/fail", j{"reason": "clog"}).Want(200)
			print(kept, "completed")
			c.Post(t, order+"/deliver", j{"items": []any{j{"id": kept}}}).Want(200)
			c.Delete(t, order+"/items/"+bad).Want(204)
			c.Post(t, order+"/items", j{"product_id": product}).Want(201)
			c.Post(t, order+"/items", j{"product_id": product}).Want(201)
			c.Patch(t, order, j{"status": "done"}).Want(200)
			c.Patch(t, order+"/items/"+kept, j{"quantity": 2}).Want(200)
			c.Patch(t, order+"/items/"+kept, j{"quantity": 3}).Want(200)
		}, map[string]int{"order.received": 1, "order.in_production": 3, "order.done": 2, "production_run.failed": 1}},
		"a run that fails": {func(t *testing.T, c *testkit.Client, _, spool string) {
			run := runs + "/" + c.Post(t, runs,
				j{"materials": []any{j{"spool_id": spool, "actual_weight_grams": 1000}}}).
				Want(201).ID()
			c.Post(t, run+"/fail", j{"reason": "clog"}).Want(200)
		}, map[string]int{"production_run.failed": 1, "spool.empty": 1}},
		"a spool that is used": {func(t *testing.T, c *testkit.Client, _, spool string) {
			one := spools + "/" + spool
			c.Post(t, one+"/deduct", j{"weight_grams": 1001}).WantError(400, "INSUFFICIENT_FILAMENT")
			c.Post(t, one+"/deduct", j{"weight_grams": 1000}).Want(200)
			c.Patch(t, one, j{"remaining_weight_grams": 500}).Want(200)
			c.Post(t, one+"/measure", j{"gross_grams": 250}).Want(200)
			c.Post(t, one+"/measure", j{"gross_grams": 251}).Want(200)
			c.Patch(t, one, j{"remaining_weight_grams": 0}).Want(200)
			c.Patch(t, one, j{"remaining_weight_grams": 0, "notes": "x"}).Want(200)
			c.Delete(t, one).Want(204)
		}, map[string]int{"spool.empty": 3}},
		"an import": {func(t *testing.T, c *testkit.Client, _, _ string) {
			c.Post(t, spools, j{"material_type": "PLA", "color": "Red", "diameter_mm": 1.75, "net_weight_grams": 1,
				"remaining_weight_grams": 0}).Want(201)
		}, map[string]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tenant := f.Tenant(t)
			admin, c := tenant.User(t, "admin"), tenant.User(t, "operator")
			product := c.Post(t, "/api/v1/products", j{"name": "A"}).Want(201).ID()
			spool := c.Post(t, spools, j{"material_type": "PLA", "color": "Red", "diameter_mm": 1.75,
				"net_weight_grams": 1000, "spool_weight_grams": 250}).Want(201).ID()
			hooks := map[string]string{} // by the group
			for _, group := range []string{"order", "production_run", "spool", ""} {
				hooks[group] = hooksPath + admin.Post(t, "/api/v1/webhooks", j{"url": "https://hooks.example",
					"events": []string{strings.TrimPrefix(group+".*", ".")}}).Want(201).ID()
			}
			test.cause(t, c, product, spool)
			for group, hook := range hooks {
				got, want := map[string]int{}, maps.Clone(test.want)
				maps.DeleteFunc(want, func(kind string, _ int) bool {
					return group != "" && !strings.HasPrefix(kind, group+".")
				})
				a := admin.Get(t, hook+"/deliveries?limit=100").Want(200)
				for i := range a.List("items") {
					got[a.Text(fmt.Sprintf("items.%d.type", i))]++
				}
				if !maps.Equal(got, want) {
					t.Errorf("the webhook of %q got %v, want %v", group, got, want)
				}
			}
		})
	}
}

// TestLongOrder checks that the event of an order with many items is valid, and has the first of the items.
func TestLongOrder(t *testing.T) {
	t.Parallel()
	f := startWithout(t, testkit.Open(t), nil)
	tenant := f.Tenant(t)
	admin, c := tenant.User(t, "admin"), tenant.User(t, "operator")
	hook := hooksPath + admin.Post(t, "/api/v1/webhooks",
		testkit.JSON{"url": "https://hooks.example", "events": []string{"*"}}).
		Want(201).ID()
	wide := strings.Repeat("\U0001F9F5", 200)
	product := c.Post(t, "/api/v1/products", testkit.JSON{"name": wide, "sku": wide}).Want(201).ID()
	items := slices.Repeat([]any{testkit.JSON{"product_id": product}}, 500)
	c.Post(t, "/api/v1/orders", testkit.JSON{"source": wide, "reference": wide, "customer": wide, "items": items}).
		Want(201)
	delivery := admin.Get(t, hook+"/deliveries").Want(200).Text("items.0.id")
	body := testkit.NewResponse(t, []byte(admin.Get(t, hook+"/deliveries/"+delivery).Want(200).Text("body")))
	body.Shows(map[string]string{"data.item_count": "500", "data.items.0.sku": wide,
		"data.items.12.product_id": product})
}
