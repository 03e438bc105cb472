package webhooks_test

import (
	"net/http"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
	"spoolwright/webhooks"
)

// TestEvents causes each event through the API, receives it, checks it, finds it in the list of deliveries, and has it
// delivered again.
func TestEvents(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	for _, kind := range append([]string{"webhook.test"}, webhooks.EventType("").Enum()...) {
		ok := t.Run(kind, func(t *testing.T) {
			s := receive(t, func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("Danke schön")) })
			tenant := f.Tenant(t)
			admin := tenant.User(t, "admin")
			hook := f.webhook(t, admin, s.URL+"/hooks?token=1")
			path := hooksPath + hook.ID()
			if kind != "webhook.test" {
				admin.Patch(t, path, testkit.JSON{"events": []string{kind}}).Want(200)
			}
			var data map[string]string
			switch kind {
			case "webhook.test":
				admin.Post(t, path+"/test", nil).Want(200).Shows(map[string]string{"status": "pending", "type": kind})
				data = map[string]string{"webhook_id": hook.ID()}
			case "production_run.completed":
				run := complete(t, tenant.User(t, "operator"))
				data = map[string]string{"id": run, "printer_name": `Printer "1" 100%s`,
					"actual_print_time_hours":     "1.5",
					"actual_total_filament_grams": "12.5", "completed_at": "2024-01-15T11:30:00Z"}
			case "production_run.failed":
				operator := tenant.User(t, "operator")
				product := operator.Post(t, "/api/v1/products", testkit.JSON{"name": "Vase"}).Want(201).ID()
				item := testkit.JSON{"product_id": product}
				order := operator.Post(t, "/api/v1/orders", testkit.JSON{"items": []any{item, item}}).Want(201)
				run := operator.Post(t, "/api/v1/production-runs", testkit.JSON{"printer_name": "Printer 2",
					"items": []any{testkit.JSON{"product_id": product, "order_item_id": order.Text("items.0.id")},
						testkit.JSON{"product_id": product, "order_item_id": order.Text("items.1.id")}}}).Want(201).ID()
				operator.Post(t, "/api/v1/production-runs/"+run+"/fail", testkit.JSON{"reason": "clog"}).Want(200)
				data = map[string]string{"id": run, "failure_reason": "clog", "actual_total_filament_grams": "0",
					"orders": "[map[id:" + order.ID() + "]]"}
			case "production_run.corrected":
				run := complete(t, tenant.User(t, "operator"))
				operator := tenant.User(t, "operator")
				operator.Post(t, "/api/v1/production-runs/"+run+"/correct",
					testkit.JSON{"actual_print_time_hours": 2}).Want(200)
				data = map[string]string{"id": run, "status": "completed", "actual_print_time_hours": "2",
					"actual_total_filament_grams": "12.5", "failure_reason": "null"}
			case "production_run.reopened":
				run := complete(t, tenant.User(t, "operator"))
				operator := tenant.User(t, "operator")
				operator.Post(t, "/api/v1/production-runs/"+run+"/reopen", nil).Want(200)
				data = map[string]string{"id": run, "status": "in_progress", "orders": "[]"}
			case "inventory.low_stock":
				operator := tenant.User(t, "operator")
				level := operator.Post(t, "/api/v1/stock-levels", testkit.JSON{"material_type": "PLA",
					"brand": "A \"B\"", "minimum_grams": 10}).Want(201).ID()
				operator.CheckLevels(t)
				data = map[string]string{"id": level, "material_type": "PLA", "color": "null", "brand": "A \"B\"",
					"minimum_grams": "10", "available_grams": "0", "missing_grams": "11"}
			case "product.low_stock", "order.ready":
				operator := tenant.User(t, "operator")
				product := operator.Post(t, "/api/v1/products", testkit.JSON{"name": "Vase", "sku": "VASE",
					"minimum_pieces": 10}).Want(201).ID()
				order := operator.Post(t, "/api/v1/orders", testkit.JSON{
					"items": []any{testkit.JSON{"product_id": product, "quantity": 2}}}).Want(201).ID()
				data = map[string]string{"id": product, "name": "Vase", "sku": "VASE", "minimum_pieces": "10",
					"on_hand": "5", "reserved": "2", "available": "3"}
				if kind == "order.ready" {
					data = map[string]string{"id": order, "status": "received", "items.0.quantity": "2"}
				}
				operator.Post(t, "/api/v1/products/"+product+"/count", testkit.JSON{"counted": 5}).Want(200)
				operator.CheckLevels(t)
				operator.CheckLevels(t) // sends no second event
			case "order.received":
				catalog := tenant.User(t, "operator")
				product := catalog.Post(t, "/api/v1/products", testkit.JSON{"name": "Vase", "sku": "VASE"}).Want(201).
					ID()
				order := testkit.JSON{"source": "etsy", "reference": "7", "customer": "Zoë \"Z\"",
					"due_date": "2030-02-01",
					"items":    []any{testkit.JSON{"product_id": product, "quantity": 2}}}
				id := catalog.Post(t, "/api/v1/orders", order).Want(201).ID()
				catalog.Post(t, "/api/v1/orders", order).Want(200)
				catalog.Patch(t, "/api/v1/orders/"+id, testkit.JSON{"notes": "Blue"}).Want(200)
				data = map[string]string{"id": id, "reference": "7", "customer": "Zoë \"Z\"", "due_date": "2030-02-01",
					"status": "received", "item_count": "1", "items.0.product_id": product, "items.0.sku": "VASE",
					"items.0.quantity": "2"}
			case "order.in_production", "order.done", "order.cancelled":
				status := strings.TrimPrefix(kind, "order.")
				id := tenant.User(t, "operator").Post(t, "/api/v1/orders", testkit.JSON{"reference": "8"}).Want(201).
					ID()
				for range 2 {
					tenant.User(t, "operator").Patch(t, "/api/v1/orders/"+id, testkit.JSON{"status": status}).Want(200)
				}
				data = map[string]string{"id": id, "reference": "8", "status": status, "item_count": "0"}
			case "production_run.planned":
				operator := tenant.User(t, "operator")
				printer := operator.Post(t, "/api/v1/printers", testkit.JSON{"name": "P"}).Want(201).ID()
				product := operator.Post(t, "/api/v1/products", testkit.JSON{"name": "Vase",
					"estimated_print_time_minutes": 90}).Want(201).ID()
				run := operator.Post(t, "/api/v1/plan", testkit.JSON{"create": true, "items": []any{
					testkit.JSON{"product_id": product}}}).Want(200).Text("runs.0.id")
				data = map[string]string{"id": run, "printer_id": printer, "printer_name": "P",
					"estimated_print_time_hours": "1.5", "estimated_total_filament_grams": "0"}
			case "production_run.started":
				operator := tenant.User(t, "operator")
				run := "/api/v1/production-runs/" + operator.Post(t, "/api/v1/production-runs",
					testkit.JSON{"printer_name": "P"}).Want(201).ID()
				for _, status := range []string{"in_progress", "in_progress", "paused", "in_progress"} {
					operator.Patch(t, run, testkit.JSON{"status": status, "started_at": "2024-01-15T10:00:00Z"}).
						Want(200)
				}
				data = map[string]string{"printer_name": "P", "started_at": "2024-01-15T10:00:00Z"}
			case "printer.attention", "printer.offline":
				operator := tenant.User(t, "operator")
				printer := operator.Post(t, "/api/v1/printers", testkit.JSON{"name": "P"}).Want(201).ID()
				for n := range 2 {
					operator.Post(t, "/api/v1/printer-states", testkit.JSON{"states": []any{testkit.JSON{"printer_id": printer,
						"sequence": 1 + n, "state": strings.TrimPrefix(kind, "printer."), "message": "Help"}}}).Want(200)
				}
				data = map[string]string{"id": printer, "printer_name": "P", "message": "Help", "file": "null"}
			case "spool.empty":
				operator := tenant.User(t, "operator")
				spool := operator.Post(t, "/api/v1/spools", testkit.JSON{"material_type": "PLA", "color": "Red",
					"diameter_mm": 1.75, "net_weight_grams": 10}).Want(201).ID()
				operator.Post(t, "/api/v1/spools/"+spool+"/deduct", testkit.JSON{"weight_grams": 9}).Want(200)
				operator.Post(t, "/api/v1/spools/"+spool+"/deduct", testkit.JSON{"weight_grams": 1}).Want(200)
				operator.Patch(t, "/api/v1/spools/"+spool, testkit.JSON{"remaining_weight_grams": 0}).Want(200)
				data = map[string]string{"id": spool, "number": "1", "color": "Red", "brand": "null"}
			case "product.cost_changed":
				operator := tenant.User(t, "operator")
				operator.Post(t, "/api/v1/spools", testkit.JSON{"material_type": "PLA", "color": "Red",
					"diameter_mm": 1.75, "net_weight_grams": 1000, "purchase_price": 20}).Want(201)
				product := operator.Post(t, "/api/v1/products", testkit.JSON{"name": "Vase", "materials": []any{
					testkit.JSON{"material_type": "PLA", "color": "Red", "weight_grams": 100}}}).Want(201)
				operator.Post(t, "/api/v1/products/"+product.ID()+"/recalculate", nil).Want(200)
				operator.Patch(t, "/api/v1/products/"+product.ID()+"/materials/"+product.Text("materials.0.id"),
					testkit.JSON{"weight_grams": 50}).Want(200)
				data = map[string]string{"id": product.ID(), "total_cost": "1", "previous_total_cost": "2",
					"name": "Vase"}
			default:
				t.Fatal("the test does not cause the event")
			}
			got := s.wait(t)
			testkit.Check(t, got.verify(hook.Text("secret")))
			if err := f.CheckEvent(kind, got.body); err != nil {
				t.Errorf("%v: %s", err, got.body)
			}
			body := testkit.NewResponse(t, got.body)
			body.Shows(map[string]string{"type": kind})
			for field, want := range data {
				body.Shows(map[string]string{"data." + field: want})
			}
			if got.method != "POST" || got.header.Get("Content-Type") != "application/json" ||
				!strings.HasPrefix(got.header.Get("User-Agent"), "Spoolwright") {
				t.Errorf("the request is %s with %v", got.method, got.header)
			}
			all := eventually(t, admin, path+"/deliveries?status=delivered", map[string]string{"total": "1"})
			all.Shows(map[string]string{
				"items.0.type": kind, "items.0.status": "delivered", "items.0.tries": "1",
				"items.0.event_id":        got.id(),
				"items.0.response_status": "200", "items.0.response": "Danke schön", "items.0.error": "null",
				"items.0.next_try_at": "null",
			})
			delivery := path + "/deliveries/" + all.Text("items.0.id")
			if text := admin.Get(t, delivery).Want(200).Text("body"); text != string(got.body) {
				t.Errorf("the delivery has the body %s, the receiver got %s", text, got.body)
			}
			admin.Post(t, delivery+"/redeliver",
				nil).Want(200).Shows(map[string]string{"status": "pending", "tries": "0"})
			again := s.wait(t)
			if again.id() != got.id() || string(again.body) != string(got.body) {
				t.Errorf("the event is delivered again as %s %s, first it was %s %s", again.id(), again.body, got.id(),
					got.body)
			}
			testkit.Check(t, again.verify(hook.Text("secret")))
			eventually(t, admin, delivery, map[string]string{"status": "delivered", "tries": "1"})
		})
		if !ok {
			break // each kind would wait for minutes
		}
	}
}
