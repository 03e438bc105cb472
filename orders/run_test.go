package orders_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"spoolwright/tests/testkit"
)

func shows(t testing.TB, c *testkit.Client, order, status, produced, planned string) {
	t.Helper()
	c.Get(t, order).Want(200).Shows(map[string]string{"status": status, "items.0.produced": produced,
		"items.0.planned": planned})
}

// An order shows the runs that print its items, newest first, and no others.
func TestRunsOfOrder(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	product := c.NewProduct(t, "A", 10)
	order, item := c.NewOrder(t, product, 10)
	other, otherItem := c.NewOrder(t, product, 1)
	c.Get(t, order).Want(200).Shows(map[string]string{"runs": "[]"})
	first := c.NewRun(t, product, item, 1,
		j{"printer_name": "P", "status": "in_progress", "started_at": "2024-01-15T10:00:00Z"})
	second := c.NewRun(t, product, item, 1, nil)
	c.Post(t, second+"/items", j{"product_id": product, "order_item_id": item}).Want(201)
	c.NewRun(t, product, otherItem, 1, nil)
	c.Get(t, order).Want(200).Shows(map[string]string{"runs.0.id": second[len(runs)+1:],
		"runs.1.id": first[len(runs)+1:], "runs.1.status": "in_progress", "runs.1.printer_name": "P",
		"runs.1.started_at":   "2024-01-15T10:00:00Z",
		"runs.1.completed_at": "null"})
	testkit.Equal(t, len(c.Get(t, order).List("runs"))+len(c.Get(t, other).List("runs")), 3, "runs of the orders")
	c.Delete(t, second).Want(204)
	c.Get(t, order).Want(200).Shows(map[string]string{"runs.0.id": first[len(runs)+1:]})
}

// An order follows the runs that print its items.
func TestOrderFollowsRuns(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	product, spool := c.NewProduct(t, "A", 10), c.NewSpool(t, 1000, nil)
	order, item := c.NewOrder(t, product, 10)
	material := []j{{"spool_id": spool, "actual_weight_grams": 1}}

	first := c.NewRun(t, product, item, 4, j{"materials": material})
	shows(t, c, order, "received", "0", "4")
	c.Get(t, first).Want(200).Shows(map[string]string{"items.0.order_item_id": item})
	c.Patch(t, first, j{"status": "paused"}).Want(200)
	shows(t, c, order, "in_production", "0", "4")
	itemPath := first + "/items/" + c.Get(t, first).Want(200).Text("items.0.id")
	c.Patch(t, itemPath, j{"successful_quantity": 3}).Want(200)
	c.Patch(t, first, j{"status": "in_progress"}).Want(200)
	shows(t, c, order, "in_production", "0", "4")
	c.Post(t, first+"/complete", j{}).Want(200)
	shows(t, c, order, "in_production", "3", "0")
	c.Delete(t, first).Want(204) // hides it
	shows(t, c, order, "in_production", "3", "0")

	// Failed and cancelled runs do not count. An item with only failed pieces has produced the others.
	failed := c.NewRun(t, product, item, 5, j{"status": "in_progress", "materials": material})
	shows(t, c, order, "in_production", "3", "5")
	c.Post(t, failed+"/fail", j{"reason": "adhesion"}).Want(200)
	c.Post(t, c.NewRun(t, product, item, 5, nil)+"/cancel", nil).Want(200)
	shows(t, c, order, "in_production", "3", "0")
	third := c.NewRun(t, product, item, 5, j{"status": "completed"})
	shows(t, c, order, "in_production", "8", "0")
	itemPath = third + "/items/" + c.Get(t, third).Want(200).Text("items.0.id")
	c.Patch(t, itemPath, j{"failed_quantity": 2}).Want(200)
	shows(t, c, order, "in_production", "6", "0")

	last := c.NewRun(t, product, item, 4, j{"materials": material})
	c.Post(t, last+"/complete", nil).Want(200)
	shows(t, c, order, "in_production", "10", "0")
	c.Post(t, order+"/deliver", nil).Want(200).Shows(map[string]string{"status": "done", "warnings": "[]"})
	shows(t, c, order, "done", "10", "0")
	c.Delete(t, third).Want(204) // deletes it
	shows(t, c, order, "done", "7", "0")

	// An order that is opened again follows its runs again.
	c.Patch(t, order, j{"status": "received"}).Want(200)
	c.Post(t, runs+"/"+c.Post(t, runs, j{"status": "in_progress"}).Want(201).ID()+"/items",
		j{"product_id": product, "order_item_id": item, "quantity": 3}).Want(201)
	shows(t, c, order, "in_production", "7", "3")
	c.Post(t, order+"/deliver", j{"items": []j{{"id": item, "quantity": 7}}}).Want(200)
	c.Patch(t, order+"/items/"+item, j{"quantity": 7}).Want(200)
	shows(t, c, order, "done", "7", "3")
}

// A cancelled order no longer follows its runs, and no further run can print its items.
func TestCancelledOrder(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	product := c.NewProduct(t, "A", 10)
	order, item := c.NewOrder(t, product, 2)
	run := c.NewRun(t, product, item, 2, nil)
	c.Patch(t, order, j{"status": "cancelled"}).Want(200)
	c.Patch(t, run, j{"status": "in_progress"}).Want(200)
	shows(t, c, order, "cancelled", "0", "2")
	c.Patch(t, run, j{"status": "completed"}).Want(200)
	shows(t, c, order, "cancelled", "2", "0")
	runItem := run + "/items/" + c.Get(t, run).Want(200).Text("items.0.id")
	c.Patch(t, runItem, j{"quantity": 3, "order_item_id": item}).Want(200) // it was so before

	link := j{"product_id": product, "order_item_id": item}
	c.Post(t, runs, j{"items": []j{link}}).Fields("items[0].order_item_id")
	c.Post(t, run+"/items", link).Fields("order_item_id")
	other := run + "/items/" + c.Post(t, run+"/items", j{"product_id": product}).Want(201).ID()
	c.Patch(t, other, j{"order_item_id": item}).Fields("order_item_id")
	c.Patch(t, order, j{"status": "received"}).Want(200)
	c.Patch(t, other, j{"order_item_id": item}).Want(200)
	shows(t, c, order, "in_production", "4", "0")
}

func TestOrderItemsOfRuns(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c, other := api.Operator(t), api.Operator(t)
	product, second := c.NewProduct(t, "A", 10), c.NewProduct(t, "B", 10)
	order, item := c.NewOrder(t, product, 2)
	_, theirs := other.NewOrder(t, other.NewProduct(t, "A", 10), 2)
	removed, gone := c.NewOrder(t, product, 2)
	c.Delete(t, removed).Want(204)
	missing := "0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a52"
	run := runs + "/" + c.Post(t, runs, j{}).Want(201).ID()
	runItem := run + "/items/" + c.Post(t, run+"/items", j{"product_id": product}).Want(201).ID()
	for _, id := range []string{theirs, gone, missing} {
		link := j{"product_id": product, "order_item_id": id}
		a := c.Post(t, runs, j{"items": []j{{"product_id": product}, link}}).WantError(400, "UNKNOWN_REFERENCE")
		if got, want := a.Text("detail"), "Not an item of an order: items[1].order_item_id"; got != want {
			t.Errorf("the detail is %s, want %s", got, want)
		}
		c.Post(t, run+"/items", link).WantError(400, "UNKNOWN_REFERENCE")
		c.Patch(t, runItem, j{"order_item_id": id}).WantError(400, "UNKNOWN_REFERENCE")
	}
	wrong := j{"product_id": second, "order_item_id": item}
	c.Post(t, runs, j{"items": []j{wrong}}).Fields("items[0].order_item_id")
	c.Post(t, run+"/items", wrong).Fields("order_item_id")
	c.Patch(t, runItem, wrong).Fields("order_item_id")
	c.Patch(t, runItem, j{"order_item_id": "x"}).Fields("order_item_id")
	c.Get(t, runs).Want(200).Shows(map[string]string{"total": "1"})

	c.Patch(t, runItem, j{"order_item_id": item}).Want(200).Shows(map[string]string{"order_item_id": item})
	c.Patch(t, runItem, j{"product_id": second}).Fields("product_id")
	c.Patch(t, runItem, j{"product_id": second, "order_item_id": item}).Fields("product_id")
	c.Delete(t, order+"/items/"+item).WantError(409, "ORDER_ITEM_IN_USE")
	c.Patch(t, runItem, j{"product_id": second, "order_item_id": nil}).Want(200).
		Shows(map[string]string{"order_item_id": "null", "product_id": second})
	shows(t, c, order, "received", "0", "0")
	c.Delete(t, order+"/items/"+item).Want(204)
}

// Runs that print items of one order end at the same time.
func TestConcurrentRunsOfOrder(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	product := c.NewProduct(t, "A", 10)
	var spools []string // one for each run, because complete locks them
	for range 8 {
		spools = append(spools, c.NewSpool(t, 1000, nil))
	}
	for range 12 {
		order, item := c.NewOrder(t, product, 8)
		second, other := c.NewOrder(t, product, 8)
		var all sync.WaitGroup
		for i := range 8 {
			items := []j{{"product_id": product, "order_item_id": item},
				{"product_id": product, "order_item_id": other}}
			if i%2 == 0 {
				items[0], items[1] = items[1], items[0]
			}
			body := j{"items": items, "materials": []j{{"spool_id": spools[i], "actual_weight_grams": 1}}}
			run := runs + "/" + c.Post(t, runs, body).Want(201).ID()
			all.Go(func() {
				method, path, body := "POST", run+"/complete", any(nil)
				if i < 2 {
					method, path, body = "PATCH", run, j{"status": "completed"}
				}
				if a, err := c.Send(method, path, body); err != nil || a.Status != 200 {
					t.Errorf("%v %+v", err, a)
				}
			})
		}
		all.Wait()
		shows(t, c, order, "in_production", "8", "0")
		shows(t, c, second, "in_production", "8", "0")
	}
}

// Two deliveries of one order at once. The lock of the order stops both, so the second one must see the first one
// although it began before the first one was committed.
func TestLastDeliveriesOfOrder(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	product := c.NewProduct(t, "A", 10)
	order, item := c.NewOrder(t, product, 2)
	h := c.Hold(t, `select from orders where id = '`+order[strings.LastIndexByte(order, '/')+1:]+`' for no key update`)
	var ended []chan struct{}
	for i := range 2 {
		ended = append(ended, h.Start(i+1, func() {
			a, err := c.Send("POST", order+"/deliver", j{"items": []j{{"id": item, "quantity": 1}}})
			if err != nil || a.Status != 200 {
				t.Errorf("%v %+v", err, a)
			}
		}))
	}
	h.Commit()
	for _, end := range ended {
		<-end
	}
	c.Get(t, order).Want(200).Shows(map[string]string{"status": "done", "items.0.delivered": "2"})
}

// An item of an order cannot be removed while a run is about to print it: neither request fails, and the second one
// sees the effect of the first. The lock of the product stops the run between its check of the item and its end.
func TestRemoveItemWhileRunLinksIt(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	product := c.NewProduct(t, "A", 10)
	empty := runs + "/" + c.Post(t, runs, j{}).Want(201).ID() + "/items"
	unlinked := c.Post(t, empty, j{"product_id": product}).Want(201).ID()
	for name, link := range map[string]func(item j) (*testkit.Response, error){
		"POST of a run": func(item j) (*testkit.Response, error) {
			return c.Send("POST", runs, j{"items": []j{item}})
		},
		"POST of an item": func(item j) (*testkit.Response, error) { return c.Send("POST", empty, item) },
		"PATCH of an item": func(item j) (*testkit.Response, error) {
			return c.Send("PATCH", empty+"/"+unlinked, item)
		},
	} {
		order, item := c.NewOrder(t, product, 1)
		h := c.Hold(t, `select from products where id = '`+product+`' for update`)
		var answers [2]*testkit.Response
		var errs [2]error
		linked := h.Start(1, func() {
			answers[0], errs[0] = link(j{"product_id": product, "order_item_id": item})
		})
		removed := h.Start(2, func() { answers[1], errs[1] = c.Send("DELETE", order+"/items/"+item, nil) })
		h.Commit()
		<-linked
		<-removed
		if err := errors.Join(errs[:]...); err != nil || answers[0].Status/100 != 2 || answers[1].Status != 409 {
			t.Errorf("%s: %v, %+v; want success, and 409 for the removal", name, err, answers)
		}
		c.Delete(t, order+"/items/"+item).WantError(409, "ORDER_ITEM_IN_USE")
	}
}

// An order in a list has its first products, the numbers of its pieces, and its value.
func TestListedOrders(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	var items []j
	for i, price := range []any{10, nil, 2.5, 1} {
		items = append(items, j{"product_id": c.NewProduct(t, fmt.Sprint("P-", i), 1), "quantity": 2 + i,
			"unit_price": price})
	}
	empty := c.Post(t, path, j{"customer": "Bob"}).Want(201).ID()
	order := c.Post(t, path, j{"customer": "Ada", "items": items}).Want(201)
	c.Delete(t, path+"/"+order.ID()+"/items/"+order.Text("items.3.id")).Want(204)
	c.Post(t, runs, j{"status": "completed", "items": []j{{"product_id": items[0]["product_id"],
		"order_item_id": order.Text("items.0.id"), "quantity": 9}}}).Want(201)
	want := map[string]string{"items.0.id": order.ID(), "items.0.item_count": "3", "items.0.pieces": "9",
		"items.0.produced": "2", "items.0.value": "30", "items.0.items.0.product_name": "Product P-0",
		"items.0.items.2.quantity": "4", "items.1.id": empty, "items.1.items": "[]", "items.1.item_count": "0",
		"items.1.pieces": "0", "items.1.produced": "0", "items.1.value": "null"}
	c.Get(t, path).Want(200).Shows(want)
	c.Get(t, path+"?status=received,in_production,done").Want(200).Shows(want)
	c.Get(t, path+"?skip=1").Want(200).Shows(map[string]string{"items.0.id": empty, "items.0.pieces": "0"})
}

// A run that was removed while it printed plans nothing for an order any more. It is hidden if it has used filament.
func TestRemovedRunOfOrder(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	product := c.NewProduct(t, "A", 10)
	order, item := c.NewOrder(t, product, 3)
	run := c.NewRun(t, product, item, 2, j{"status": "in_progress"})
	wants := func(planned, incoming, runs string) {
		t.Helper()
		c.Get(t, order).Want(200).Shows(map[string]string{"items.0.planned": planned, "runs.#": runs})
		c.Get(t, order+"/availability").Want(200).Shows(map[string]string{"items.0.incoming": incoming})
	}
	wants("2", "2", "1")
	c.Hold(t, `update production_runs set hidden_at = now() where id = '`+run[len(runs)+1:]+`'`).Commit()
	wants("0", "0", "0")
	c.Delete(t, order+"/items/"+item).Want(204)
}

// A change of an order goes on with what the transaction left for which it waited.
func TestChangeWaitsForOrder(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	product := c.NewProduct(t, "A", 10)
	// during sends a request while a transaction that has locked the order makes a change. It wants the status 200.
	during := func(order, change, method, path string, body any) {
		t.Helper()
		id := order[strings.LastIndexByte(order, '/')+1:]
		h := c.Hold(t, `select from orders where id = '`+id+`' for no key update`,
			strings.ReplaceAll(change, "ORDER", id))
		var a *testkit.Response
		var err error
		done := h.StartWaiting(1, func() { a, err = c.Send(method, path, body) })
		h.Commit()
		<-done
		testkit.Check(t, err)
		testkit.Equal(t, a.Status, 200, "%s: %s", a.What, a.Body)
	}
	// More is ordered than before, so that more can be delivered.
	order, item := c.NewOrder(t, product, 2)
	during(order, `update order_items set quantity = 5 where order_id = 'ORDER'`, "POST", order+"/complete",
		j{"items": []j{{"id": item, "delivered": 3}}})
	c.Get(t, order).Want(200).Shows(map[string]string{"status": "done", "items.0.delivered": "3"})

	// It is restored already, which is no conflict with another order.
	c.Delete(t, order).Want(204)
	during(order, `update orders set hidden_at = null where id = 'ORDER'`, "POST", order+"/restore", nil)

	// The shop sells more, so that the item of the line has more pieces.
	order = path + "/" + c.Post(t, path, j{"unassigned_lines": []j{{"title": "x", "quantity": 2}}}).Want(201).ID()
	during(order, `update order_lines set quantity = 5 where order_id = 'ORDER'`, "POST",
		order+"/lines/"+c.Get(t, order).Text("unassigned_lines.0.id")+"/assign", j{"product_id": product})
	c.Get(t, order).Want(200).Shows(map[string]string{"items.0.quantity": "5"})

	// All is delivered, and then there is another item: a run that starts does not make the order done.
	order, item = c.NewOrder(t, product, 1)
	run := c.NewRun(t, product, item, 1, nil)
	c.Hold(t, `update order_items set delivered = 1, delivered_at = now() where id = '`+item+`'`).Commit()
	during(order, `insert into order_items (id, order_id, product_id, quantity)
		values (gen_random_uuid(), 'ORDER', '`+product+`', 1)`, "POST", run+"/start", nil)
	c.Get(t, order).Want(200).Shows(map[string]string{"status": "in_production", "items.#": "2"})
}
