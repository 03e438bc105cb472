package planning_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/spoolman"
	"spoolwright/tests/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type j = testkit.JSON

const (
	printersURL = "/api/v1/printers"
	ordersURL   = "/api/v1/orders"
	runsURL     = "/api/v1/production-runs"
	planURL     = "/api/v1/plan"
)

func newAPI(t testing.TB) *testkit.API {
	t.Helper()
	return testkit.New(t, testkit.Options{PerMinute: 1_000_000, PerHour: 10_000_000}, testkit.Features...)
}

type farm struct {
	*testkit.Client
	t testing.TB
}

func (f farm) printer(body j) string {
	f.t.Helper()
	return f.Post(f.t, printersURL, body).Want(201).ID()
}

func (f farm) spool(color string, grams, net float64) string {
	f.t.Helper()
	return f.Post(f.t, "/api/v1/spools", j{"material_type": "PLA", "color": color, "diameter_mm": 1.75,
		"net_weight_grams": net, "remaining_weight_grams": grams}).Want(201).ID()
}

func (f farm) product(color string, grams float64, minutes, perPlate any) string {
	f.t.Helper()
	return f.Post(f.t, "/api/v1/products", j{"name": "Lamp " + color, "estimated_print_time_minutes": minutes,
		"pieces_per_plate": perPlate, "materials": []j{{"material_type": "PLA", "color": color,
			"weight_grams": grams}}}).Want(201).ID()
}

func (f farm) order(product string, quantity int) string {
	f.t.Helper()
	return ordersURL + "/" + f.Post(f.t, ordersURL, j{"items": []j{{"product_id": product, "quantity": quantity}}}).
		Want(201).ID()
}

// The example of docs/planning.md, up to its end.
func TestPlanOrder(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	f := farm{api.Operator(t), t}
	first, second := f.printer(j{"name": "Prusa 1"}), f.printer(j{"name": "Prusa 2"})
	f.Post(t, runsURL, j{"printer_id": second, "estimated_print_time_hours": 1, "status": "in_progress"}).Want(201)
	opened, full := f.spool("Black", 250, 1000), f.spool("Black", 1000, 1000)
	lamp := f.product("Black", 100, 120, 2)
	order := f.order(lamp, 5)

	plan := f.Post(t, order+"/plan", nil).Want(200)
	plan.Shows(map[string]string{"created": "false", "runs.0.id": "null", "runs.0.quantity": "2",
		"runs.0.printer_id": first, "runs.0.materials.0.spool_id": opened, "runs.0.materials.0.grams": "200",
		"runs.0.estimated_print_time_hours": "4", "runs.1.printer_id": second, "runs.1.quantity": "2",
		"runs.1.materials.0.spool_id": full, "runs.2.quantity": "1", "runs.2.printer_id": first,
		"runs.2.estimated_total_filament_grams": "100", "unplanned": "[]", "missing": "[]"})
	plan.WantLen(t, "runs", 3)
	if plan.Text("finished_at") != plan.Text("runs.2.expected_end_at") &&
		plan.Text("finished_at") != plan.Text("runs.1.expected_end_at") {
		t.Errorf("finished_at: %s", plan.Body)
	}
	f.Get(t, runsURL).Want(200).Shows(map[string]string{"total": "1"})

	created := f.Post(t, order+"/plan", j{"create": true}).Want(200)
	created.WantLen(t, "runs", 3)
	run := runsURL + "/" + created.Text("runs.0.id")
	f.Get(t, run).Want(200).Shows(map[string]string{"status": "pending", "printer_name": "Prusa 1",
		"items.0.quantity": "2", "materials.0.spool_id": opened, "materials.0.estimated_weight_grams": "200",
		"estimated_print_time_hours": "4", "estimated_total_filament_grams": "200"})
	f.Get(t, order).Want(200).Shows(map[string]string{"items.0.planned": "5"})
	again := f.Post(t, order+"/plan", j{"create": true}).Want(200)
	again.WantLen(t, "runs", 0)
	if again.Text("finished_at") == "null" {
		t.Errorf("finished_at is null: %s", again.Body)
	}

	queue := f.Get(t, "/api/v1/queue?printer_id="+first).Want(200)
	queue.Shows(map[string]string{"total": "2", "runs.0.id": created.Text("runs.0.id"), "runs.0.place": "1"})
	f.Patch(t, runsURL+"/"+created.Text("runs.2.id"), j{"queue_position": 1}).Want(200)
	f.Get(t, "/api/v1/queue?printer_id="+first).Want(200).
		Shows(map[string]string{"runs.0.id": created.Text("runs.2.id"), "runs.1.id": created.Text("runs.0.id")})

	f.Get(t, run+"/check").Want(200).Shows(map[string]string{"ready": "false", "steps.0.code": "LOAD_SPOOL"})
	f.Do(t, "PUT", printersURL+"/"+first+"/slots/1", j{"spool_id": opened}).Want(200)
	f.Get(t, run+"/check").Want(200).Shows(map[string]string{"ready": "true", "steps": "[]"})
	f.Patch(t, printersURL+"/"+first, j{"status": "maintenance", "materials": []string{"ABS"}}).Want(200)
	f.Patch(t, "/api/v1/spools/"+opened, j{"remaining_weight_grams": 1}).Want(200)
	f.Post(t, runsURL, j{"printer_id": first, "status": "in_progress"}).Want(201)
	check := f.Get(t, run+"/check").Want(200)
	for i, code := range []string{"PRINTER_NOT_AVAILABLE", "PRINTER_BUSY", "MATERIAL_NOT_PRINTED",
		"TOO_LITTLE_FILAMENT"} {
		check.Shows(map[string]string{fmt.Sprintf("steps.%d.code", i): code})
	}
	f.Post(t, run+"/cancel", nil).Want(200)
	f.Get(t, run+"/check").Want(200).Shows(map[string]string{"steps.0.code": "RUN_ENDED"})

	f.Post(t, order+"/cancel", nil).Want(200)
	f.Post(t, order+"/plan", nil).WantError(409, "ORDER_NOT_OPEN")
	api.Operator(t).Post(t, order+"/plan", nil).WantError(404, "NOT_FOUND")
	api.Operator(t).Get(t, run+"/check").WantError(404, "NOT_FOUND")
}

// What is missing, and what others reserve.
func TestUnplanned(t *testing.T) {
	t.Parallel()
	f := farm{newAPI(t).Operator(t), t}
	lamp := f.product("Black", 100, nil, nil)
	items := func(n int) j { return j{"items": []j{{"product_id": lamp, "quantity": n}}} }
	f.Post(t, planURL, items(1)).Want(200).Shows(map[string]string{"unplanned.0.reason": "NO_PRINTER",
		"missing.0.missing_grams": "100"})
	printer := f.printer(j{"name": "P", "materials": []string{"ABS"}})
	f.Post(t, planURL, items(1)).Want(200).Shows(map[string]string{"unplanned.0.reason": "NO_PRINTER"})
	f.Patch(t, printersURL+"/"+printer, j{"materials": []string{}}).Want(200)
	f.spool("black", 250, 1000)
	f.Post(t, planURL, items(4)).Want(200).Shows(map[string]string{"runs.1.materials.0.grams": "100",
		"unplanned.0.reason": "NO_FILAMENT", "unplanned.0.quantity": "2", "missing.0.missing_grams": "150",
		"missing.0.color": "Black", "finished_at": "null"})
	// An order reserves 100 g, so that 150 g are left for others.
	order := f.order(lamp, 1)
	f.Post(t, planURL, items(2)).Want(200).Shows(map[string]string{"unplanned.0.quantity": "1",
		"missing.0.missing_grams": "50"})
	f.Post(t, order+"/plan", nil).Want(200).Shows(map[string]string{"unplanned": "[]"})
	// Two spools together suffice.
	f.spool("BLACK", 60, 1000)
	f.Post(t, planURL, j{}).Want(200).Shows(map[string]string{"runs.0.materials.0.spool_number": "1"})
	plate := f.product("Black", 260, 1, nil)
	f.Patch(t, order, j{"status": "cancelled"}).Want(200)
	f.Post(t, planURL, j{"items": []j{{"product_id": plate}}}).Want(200).Shows(map[string]string{
		"runs.0.materials.0.spool_number": "2", "runs.0.materials.0.grams": "60",
		"runs.0.materials.1.spool_number": "1", "runs.0.materials.1.grams": "200"})
	f.Post(t, planURL, items(5001)).WantError(409, "PLAN_TOO_LARGE")
	f.Post(t, planURL, j{"items": []j{{"sku": "none"}}}).WantError(400, "UNKNOWN_REFERENCE").
		Shows(map[string]string{"errors.0.field": "items[0].sku"})
}

// Plans that are created at once, while spools are used up and a printer is retired, plan each piece once, and take no
// more than there is.
func TestConcurrentPlans(t *testing.T) {
	t.Parallel()
	f := farm{newAPI(t).Operator(t), t}
	printer := f.printer(j{"name": "P0"})
	f.printer(j{"name": "P1"})
	lamp := f.product("Black", 10, 1, 2)
	var spools, orders []string
	for range 4 {
		spools = append(spools, f.spool("Black", 100, 100))
	}
	for range 4 {
		orders = append(orders, f.order(lamp, 6))
	}
	var wg sync.WaitGroup
	send := func(method, path string, body j, statuses ...int) {
		wg.Go(func() {
			switch a, err := f.Send(method, path, body); {
			case err != nil:
				t.Errorf("%s %s: %v", method, path, err)
			case !slices.Contains(statuses, a.Status):
				t.Errorf("%s %s: %d %s", method, path, a.Status, a.Body)
			}
		})
	}
	for i := range 4 {
		send("POST", orders[i]+"/plan", j{"create": true}, 200, 409)
		send("POST", orders[i]+"/plan", j{"create": true}, 200, 409)
		send("POST", planURL, j{"create": true}, 200, 409)
	}
	send("POST", "/api/v1/spools/"+spools[0]+"/deduct", j{"weight_grams": 1}, 200, 400)
	wg.Go(func() { f.Delete(t, "/api/v1/spools/"+spools[1]) })
	send("PATCH", printersURL+"/"+printer, j{"status": "retired"}, 200)
	wg.Wait()
	f.Post(t, planURL, j{"create": true}).Want(200).Shows(map[string]string{"unplanned": "[]"})
	for _, order := range orders {
		f.Get(t, order).Want(200).Shows(map[string]string{"items.0.planned": "6"})
	}
}

// A plan waits for another one that creates its runs, and does not take the filament of that.
func TestPlansWaitForEachOther(t *testing.T) {
	t.Parallel()
	f := farm{newAPI(t).Operator(t), t}
	f.printer(j{"name": "P0"})
	spool := f.spool("Black", 100, 100)
	body := j{"items": []j{{"product_id": f.product("Black", 60, 1, nil), "quantity": 1}}, "create": true}
	held := f.Hold(t, `select from spools where id = '`+spool+`' for update`)
	var plans [2]*testkit.Response
	one := held.StartWaiting(1, func() { plans[0] = f.Post(t, planURL, body) })
	two := held.StartWaiting(2, func() { plans[1] = f.Post(t, planURL, body) })
	held.Commit()
	<-one
	<-two
	plans[0].Want(200).Shows(map[string]string{"unplanned": "[]"})
	plans[1].Want(200).Shows(map[string]string{"runs": "[]", "unplanned.0.quantity": "1"})
}

// What has changed when a plan creates its runs is not planned as it was before: the service plans again. Reports of
// printers do not wait for a plan.
func TestPlanOfChangedFarm(t *testing.T) {
	t.Parallel()
	d := testkit.Database(t, db.Config{})
	api := testkit.New(t, testkit.Options{DB: d, Change: func(c *server.Config) {
		c.Surfaces = []server.Surface{spoolman.Surface(d)}
	}}, testkit.Features...)
	for _, test := range []struct {
		name   string
		change func(farm, string, string) // of the printer and the spool that the plan would take
	}{
		{"use", func(f farm, _, spool string) {
			number := f.Get(t, "/api/v1/spools/"+spool).Want(200).Text("number")
			f.Do(t, "PUT", "/spoolman/api/v1/spool/"+number+"/use", j{"use_weight": 60}).Want(200)
		}},
		{"deduct", func(f farm, _, spool string) {
			f.Post(t, "/api/v1/spools/"+spool+"/deduct", j{"weight_grams": 60}).Want(200)
		}},
		{"archive", func(f farm, _, spool string) { f.Patch(t, "/api/v1/spools/"+spool, j{"archived": true}).Want(200) }},
		{"color", func(f farm, _, spool string) { f.Patch(t, "/api/v1/spools/"+spool, j{"color": "Red"}).Want(200) }},
		{"bulk", func(f farm, _, spool string) {
			f.Patch(t, "/api/v1/spools", j{"ids": []string{spool}, "changes": j{"color": "Red"}}).Want(200)
		}},
		{"remove several", func(f farm, _, spool string) {
			f.Do(t, "DELETE", "/api/v1/spools", j{"ids": []string{spool}}).Want(200)
		}},
		{"import", func(f farm, _, spool string) {
			number := f.Get(t, "/api/v1/spools/"+spool).Want(200).Text("number")
			f.With("Content-Type", "text/csv").Post(t, "/api/v1/spools/import?mode=update",
				"number,color\n"+number+",Red\n").Want(200)
		}},
		{"move", func(f farm, _, spool string) {
			other := f.printer(j{"name": "Other", "materials": []string{"ABS"}})
			f.Do(t, "PUT", printersURL+"/"+other+"/slots/1", j{"spool_id": spool}).Want(200)
		}},
		{"retire", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := farm{api.Operator(t), t}
			printer, next := f.printer(j{"name": "First"}), f.printer(j{"name": "Second"})
			small, large := f.spool("Black", 100, 100), f.spool("Black", 1000, 1000)
			order := f.Post(t, ordersURL, j{"items": []j{{"product_id": f.product("Black", 50, 60, nil)}}}).Want(201)
			want := map[string]string{"runs.0.printer_id": printer, "runs.0.materials.0.spool_id": large}
			lock := `select from order_items where id = '` + order.Text("items.0.id") + `' for update`
			if test.change == nil {
				lock = `update printers set status = 'retired', updated_at = now() where id = '` + printer + `'`
				want = map[string]string{"runs.0.printer_id": next, "runs.0.materials.0.spool_id": small}
			}
			held := f.Hold(t, lock) // the plan has read the farm when it waits for this
			var plan *testkit.Response
			sender := f.Client
			if test.name == "deduct" || test.name == "retire" { // the request is part of a larger transaction
				sender = f.With("Idempotency-Key", "plan")
			}
			done := held.StartWaiting(1, func() {
				plan = sender.Post(t, ordersURL+"/"+order.ID()+"/plan", j{"create": true})
			})
			if test.change != nil {
				test.change(f, printer, small)
			}
			held.Commit()
			<-done
			plan.Want(200).Shows(want)
			f.Get(t, runsURL).Want(200).Shows(map[string]string{"total": "1"})
		})
	}
}

// A printer that was removed after it had printed gets no runs.
func TestPlanWithoutRemovedPrinter(t *testing.T) {
	t.Parallel()
	f := farm{newAPI(t).Operator(t), t}
	removed := f.printer(j{"name": "Removed"})
	run := f.Post(t, runsURL, j{"printer_id": removed}).Want(201).ID() // so that the printer is hidden
	f.Post(t, runsURL+"/"+run+"/cancel", nil).Want(200)
	f.Delete(t, printersURL+"/"+removed).Want(204)
	f.spool("Black", 1000, 1000)
	body := j{"items": []j{{"product_id": f.product("Black", 10, 60, nil), "quantity": 1}}}
	f.Post(t, planURL, body).Want(200).Shows(map[string]string{"runs": "[]", "unplanned.0.reason": "NO_PRINTER"})
	next := f.printer(j{"name": "Next"})
	f.Post(t, planURL, body).Want(200).Shows(map[string]string{"runs.0.printer_id": next})
}

// Times are in years of four digits, however long the queue is.
func TestPlanOfCenturies(t *testing.T) {
	t.Parallel()
	f := farm{newAPI(t).Operator(t), t}
	f.printer(j{"name": "P"})
	f.spool("Black", 1_000_000, 1_000_000)
	product := f.product("Black", 1, 1_000_000, 6) // a plate takes 100,000 hours
	body := j{"items": []j{{"product_id": product, "quantity": 5400}}, "create": true}
	const last = "9999-12-31T23:59:59Z"
	f.Post(t, planURL, body).Want(200).Shows(map[string]string{"finished_at": last})
	f.Get(t, "/api/v1/queue").Want(200).Shows(map[string]string{"runs.899.expected_end_at": last})
	body["create"] = false
	f.Post(t, planURL, body).Want(200).Shows(map[string]string{"finished_at": last, "runs.899.expected_start_at": last})
}

// A farm can have more than a billion grams of one filament.
func TestPlanOfHugeStock(t *testing.T) {
	t.Parallel()
	f := farm{newAPI(t).Operator(t), t}
	f.printer(j{"name": "P"})
	for range 11 {
		f.Post(t, "/api/v1/spools/batch", j{"quantity": 100, "material_type": "PLA", "color": "Black", "diameter_mm": 1.75,
			"net_weight_grams": 1_000_000}).Want(201)
	}
	product := f.product("Black", 1, 60, 1)
	f.Post(t, planURL, j{"items": []j{{"product_id": product, "quantity": 2}}}).Want(200).Shows(map[string]string{
		"runs.#": "2", "unplanned": "[]", "missing": "[]"})
	f.Get(t, "/api/v1/stock-levels").Want(200)
	f.Get(t, "/api/v1/queue").Want(200)
	f.Get(t, "/api/v1/filaments").Want(200)
}

// A removed run keeps no printer busy, and a removed order has no plan.
func TestPlansIgnoreRemovedRunsAndOrders(t *testing.T) {
	t.Parallel()
	f := farm{newAPI(t).Operator(t), t}
	first, second := f.printer(j{"name": "A"}), f.printer(j{"name": "B"})
	f.spool("Black", 1000, 1000)
	product := f.product("Black", 10, 60, 1)
	run := f.Post(t, runsURL, j{"printer_id": first, "status": "in_progress"}).Want(201).ID()
	plan := func() string {
		return f.Post(t, planURL, j{"items": []j{{"product_id": product}}}).Want(200).Text("runs.0.printer_id")
	}
	testkit.Equal(t, plan(), second, "the printer beside one whose run is late")
	f.Hold(t, `update production_runs set hidden_at = now() where id = '`+run+`'`).Commit()
	testkit.Equal(t, plan(), first, "the printer whose run was removed")
	order := f.order(product, 1)
	f.Delete(t, order).Want(204)
	f.Post(t, order+"/plan", j{}).WantError(404, "NOT_FOUND")
}

// A plan that creates runs waits for a transaction that has locked the order, even if it has no run to create.
func TestPlanWaitsForOrder(t *testing.T) {
	t.Parallel()
	f := farm{newAPI(t).Operator(t), t}
	f.printer(j{"name": "A"})
	order := f.order(f.product("Black", 10, 60, 1), 1) // there is no spool
	h := f.Hold(t, `select from orders where id = '`+order[len(ordersURL)+1:]+`' for share`)
	var a *testkit.Response
	var err error
	done := h.StartWaiting(1, func() { a, err = f.Send("POST", order+"/plan", j{"create": true}) })
	h.Commit()
	<-done
	testkit.Check(t, err)
	testkit.Equal(t, a.Status, 200, "the plan: %s", a.Body)
}
