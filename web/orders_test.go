package web_test

import (
	"net/url"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// The page of an order removes an item whose runs have ended, opens a done order again, and shows that a cancelled
// order earned nothing.
func TestItemsOfOrder(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	spool := c.NewSpool(t, 1000, j{"purchase_price": 20})
	product := c.NewProduct(t, "Hook", 100)
	created := c.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": product, "unit_price": 12},
		{"product_id": product, "unit_price": 34}}}).Want(201)
	order, kept, bad := "/orders/"+created.ID(), created.Text("items.0.id"), created.Text("items.1.id")
	use := j{"status": "in_progress", "materials": []j{{"spool_id": spool, "actual_weight_grams": 150}}}
	run := c.NewRun(t, product, bad, 1, use)
	page := b.get(t, order)
	if strings.Contains(page.text, "items/"+bad+"/remove") || !strings.Contains(page.text, "items/"+kept+"/remove") {
		t.Errorf("the page offers to remove an item that a run prints, or does not offer it: %s", page.text)
	}
	c.Post(t, run+"/fail", j{"reason": "clog"}).Want(200)
	c.NewRun(t, product, kept, 1, j{"status": "completed"})
	c.Post(t, "/api/v1"+order+"/deliver", j{"items": []j{{"id": kept}}}).Want(200)
	page = b.get(t, order).shows(t, "46.00")
	again := c.NewRun(t, product, bad, 1, nil) // meanwhile
	page.submit(t, order+"/items/"+bad+"/remove").want(t, 422).shows(t, "has not ended")
	c.Post(t, again+"/cancel", nil).Want(200)
	page = b.get(t, order).submit(t, order+"/items/"+bad+"/remove").to(t, order)
	page.shows(t, "Done", "12.00", "3.00", "Adding a product reopens").hides(t, "46.00")
	page = page.submit(t, order+"/items", "quantity", "3", "product_id", product).to(t, order).shows(t, "In production")
	page.submit(t, order+"/cancel").to(t, order).shows(t, "Cancelled", "Revenue 0.00", "3.00").
		hides(t, "Adding a product reopens")
}

// An item is changed in place, removed and added, each with Undo. What a row of an order shows is what the API has.
func TestMendItems(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	product := c.NewProduct(t, "Hook", 100)
	created := c.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": product, "quantity": 2, "unit_price": 1.5}}}).
		Want(201)
	at, item := "/orders/"+created.ID(), created.Text("items.0.id")
	has := func(want map[string]string) {
		t.Helper()
		c.Get(t, "/api/v1"+at).Want(200).Shows(want)
	}
	p := b.get(t, at).shows(t, "1.50", "Mark done by hand").hides(t, "Open again", "Delivered")
	check(t, p)
	p = p.submit(t, at+"/items/"+item, "quantity", "5", "unit_price", "").to(t, at).says(t, "The item is changed.")
	has(map[string]string{"items.0.quantity": "5", "items.0.unit_price": "null"})
	p.take(t).to(t, at).says(t, "The item is changed.").take(t).to(t, at).take(t).to(t, at)
	has(map[string]string{"items.0.quantity": "2", "items.0.unit_price": "1.5"})
	for _, wrong := range []string{"", "0", "x", "-1"} {
		p = b.get(t, at).submit(t, at+"/items/"+item, "quantity", wrong).want(t, 422)
		if !strings.Contains(p.text, `<details name="edit" open>`) || !strings.Contains(p.text, `class="error"`) {
			t.Errorf("quantity %q: the form is closed, or has no error: %s", wrong, p.words())
		}
	}
	b.do(t, "POST", at+"/items/"+product, url.Values{"quantity": {"1"}}).want(t, 404)

	b.get(t, at).submit(t, at+"/items/"+item+"/remove").to(t, at).says(t, "The item is removed.").
		shows(t, "The order has no items.").take(t).to(t, at).says(t, "The item is back.")
	has(map[string]string{"items.0.id": item, "items.0.quantity": "2"})
	b.get(t, at).submit(t, at+"/items", "product_id", product, "quantity", "3", "unit_price", "7").to(t, at).
		says(t, "The item is added.").shows(t, "7.00").take(t).to(t, at).says(t, "The item is removed.").hides(t, "7.00")
	has(map[string]string{"items.0.id": item, "revenue": "3"})

	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, at).want(t, 200).hides(t, "Change", "Mark done", "Undo")
	for _, form := range []string{"/items/" + item, "/items/" + item + "/restore", "/complete", "/open", "/cancel"} {
		viewer.do(t, "POST", at+form, url.Values{"quantity": {"1"}, "status": {"done"}}).want(t, 403)
	}
}

// An order is marked done by hand, with fewer pieces, and opened again: from the notice, and later.
func TestOrderDoneByHand(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	product := c.NewProduct(t, "Hook", 100)
	created := c.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": product, "quantity": 2, "unit_price": 10},
		{"product_id": product, "quantity": 1, "unit_price": 5}}}).Want(201)
	at := "/orders/" + created.ID()
	has := func(want map[string]string) {
		t.Helper()
		c.Get(t, "/api/v1"+at).Want(200).Shows(want)
	}
	p := b.get(t, at)
	for _, wrong := range []string{"3", "x", ""} {
		p.submit(t, at+"/complete", "items[0].delivered", wrong).want(t, map[bool]int{true: 303, false: 422}[wrong == ""])
		if wrong != "" {
			has(map[string]string{"status": "received"})
		}
	}
	p = b.get(t, at).says(t, "The order is done.") // an empty input is all pieces
	has(map[string]string{"status": "done", "items.0.delivered": "2"})
	check(t, p.shows(t, "Delivered", "Change what was delivered", "Open again").hides(t, "Mark done"))
	p.take(t).to(t, at).says(t, "The order is open again.")
	has(map[string]string{"status": "received", "items.0.delivered": "null"})

	b.get(t, at).submit(t, at+"/complete", "items[0].delivered", "1").to(t, at).says(t, "The order is done.")
	has(map[string]string{"items.0.delivered": "1", "items.1.delivered": "1", "revenue": "15"})
	b.get(t, at).submit(t, at+"/complete", "items[0].delivered", "0").to(t, at).says(t, "The order is done.").
		hides(t, "Undo")
	has(map[string]string{"items.0.delivered": "0", "items.1.delivered": "1"})
	b.get(t, at).submit(t, at+"/open").to(t, at).says(t, "The order is open again.")
	has(map[string]string{"status": "in_production", "items.0.delivered": "null"})
	b.get(t, at).submit(t, at+"/cancel").to(t, at).says(t, "The order is cancelled.").take(t).to(t, at)
	has(map[string]string{"status": "in_production"})
}

// The page of an order says where its pieces are, and delivers them in parts, each time with Undo.
func TestDeliverOrder(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	hook, clip := c.NewProduct(t, "Hook", 100), c.NewProduct(t, "Clip", 10)
	kit := c.Post(t, "/api/v1/products",
		j{"name": "Kit", "components": []j{{"component_product_id": clip, "quantity": 3}}}).
		Want(201).ID()
	count := func(product string, n int) {
		t.Helper()
		c.Post(t, "/api/v1/products/"+product+"/count", j{"counted": n}).Want(200)
	}
	count(hook, 2)
	count(clip, 4)
	created := c.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": hook, "quantity": 6}, {"product_id": kit,
		"quantity": 2}}}).Want(201)
	at, item := "/orders/"+created.ID(), created.Text("items.0.id")
	printer := c.Post(t, "/api/v1/printers", j{"name": "Prusa"}).Want(201).ID()
	c.NewRun(t, hook, item, 1, j{"printer_id": printer, "estimated_print_time_hours": 48})
	has := func(status, hooks, kits string) {
		t.Helper()
		c.Get(t, "/api/v1"+at).Want(200).Shows(map[string]string{"status": status, "items.0.delivered": hooks,
			"items.1.delivered": kits})
	}
	p := b.get(t, at).shows(t, "Product Hook 2 in stock, 1 on the way until ", ", 3 missing",
		"Kit 2 to make of Product Clip (4 in stock, 2 missing)").hides(t, "delivered", "Ready to pack")
	check(t, p)
	if form := p.form(t, at+"/deliver"); form.Get("items[0].quantity") != "2" || form.Get("items[1].quantity") != "0" {
		t.Errorf("the form has %v", form)
	}

	testkit.Contains(t, p.text, item+`/print"`, "the page does not print what is missing")
	enough, _ := c.NewOrder(t, clip, 1)
	c.Patch(t, enough, j{"due_date": "2024-01-01"}).Want(200) // before the others
	testkit.Lacks(t, b.get(t, strings.TrimPrefix(enough, "/api/v1")).shows(t, "1 in stock").text, `/print"`,
		"the page prints what is in stock")
	c.Delete(t, enough).Want(204)

	// What is in stock is delivered, and taken back.
	p = p.submit(t, at+"/deliver").to(t, at).says(t, "The pieces are delivered.").
		shows(t, "Product Hook 2 of 6 delivered, 1 on the way until ", ", 3 missing")
	has("received", "2", "null")
	p = p.take(t).to(t, at).says(t, "The delivery is taken back.").shows(t, "2 in stock")
	c.Get(t, "/api/v1/products/"+hook).Want(200).Shows(map[string]string{"on_hand": "2"})

	// Wrong numbers stay in the form, and nothing is delivered. In particular, an empty form is not the whole order.
	for _, wrong := range [][2]string{{"", "0"}, {"0", " "}, {"7", "0"}, {"x", "1"}, {"-1", "1"}} {
		refused := p.submit(t, at+"/deliver", "items[0].quantity", wrong[0], "items[1].quantity", wrong[1]).want(t, 422)
		testkit.Equal(t, refused.form(t, at+"/deliver").Get("items[0].quantity"), strings.TrimPrefix(wrong[0], "0"),
			"%v: the quantity in the form", wrong)
	}
	c.Get(t, "/api/v1/piece-entries?order_id="+created.ID()+"&kind=delivered").Want(200).Shows(
		map[string]string{"total": "2"}) // the first one, and the one that takes it back

	// Two deliveries make the order done. Undo takes only the last one back, also of several items.
	b.get(t, at).submit(t, at+"/deliver", "items[0].quantity", "1", "items[1].quantity", "1").to(t, at).
		says(t, "The pieces are delivered.")
	count(hook, 5)
	count(clip, 3)
	p = b.get(t, at).submit(t, at+"/deliver", "items[0].quantity", "5", "items[1].quantity", "1").to(t, at)
	p.says(t, "The order is delivered.").shows(t, "Done", "6 of 6 delivered", "2 of 2 delivered")
	p.take(t).to(t, at).says(t, "The delivery is taken back.")
	has("in_production", "1", "1")

	// A delivery that somebody else has taken back meanwhile is refused.
	p = b.get(t, at).submit(t, at+"/deliver", "items[0].quantity", "1", "items[1].quantity", "").to(t, at)
	entry := c.Get(t, "/api/v1/piece-entries?kind=delivered&limit=1").Want(200).Text("items.0.id")
	c.Post(t, "/api/v1/piece-entries/"+entry+"/reverse", nil).Want(200)
	p.take(t).want(t, 422).shows(t, "The entry was already reversed")

	// More than there is gets out, with a word about it. A whole order comes back at once.
	whole := c.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": clip, "quantity": 1}}}).Want(201).ID()
	count(clip, 0)
	testkit.ExecURL(t, testkit.Private().SuperURL(), `update orders set ready_at = now() where id = '`+whole+`'`)
	p = b.get(t, "/orders/"+whole).shows(t, "Received Ready to pack", "1 missing")
	p = p.submit(t, "/orders/"+whole+"/deliver").to(t, "/orders/"+whole).says(t,
		"The order is delivered. Delivered pieces of Product Clip that were not in stock: 1.").hides(t, "Ready")
	p.take(t).to(t, "/orders/"+whole).says(t, "The order is open again.")
	c.Get(t, "/api/v1/orders/"+whole).Want(200).
		Shows(map[string]string{"status": "received", "items.0.delivered": "null"})

	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, at).want(t, 200).shows(t, "1 of 6 delivered").hides(t, "Deliver these")
	for _, form := range []string{"/deliver", "/deliveries/back"} {
		viewer.do(t, "POST", at+form, url.Values{"entry": {entry}}).want(t, 403)
	}
	signIn(t, api.Operator(t)).do(t, "POST", at+"/deliveries/back", url.Values{"entry": {entry}}).want(t, 404)
	b.do(t, "POST", at+"/deliveries/back", url.Values{"entry": {"x"}}).want(t, 404)
}

// The page of a plan lists what is taken from stock and what is assembled, also if nothing is printed.
func TestPlanWithPieces(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	clip := c.NewProduct(t, "Clip", 10)
	kit := c.Post(t, "/api/v1/products",
		j{"name": hostile, "components": []j{{"component_product_id": clip, "quantity": 3}}}).
		Want(201).ID()
	order, _ := c.NewOrder(t, kit, 2)
	at := strings.TrimPrefix(order, "/api/v1") + "/plan"
	b.get(t, at).shows(t, "To assemble 2 × "+hostile).hides(t, "Taken from stock", "Nothing is left")
	c.Post(t, "/api/v1/products/"+clip+"/count", j{"counted": 6}).Want(200)
	p := b.get(t, at).shows(t, "Nothing is left to print.", "Taken from stock 6 × Product Clip",
		"To assemble 2 × "+hostile)
	check(t, p)
	c.Post(t, order+"/deliver", nil).Want(200)
	b.get(t, at).shows(t, "Nothing is left to plan.").hides(t, "Taken from stock", "To assemble")
}

// An order of which a part is delivered is closed with that part, also after it was cancelled, which the page warns of.
func TestCloseOrder(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	product := c.NewProduct(t, "Hook", 100)
	created := c.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": product, "quantity": 3, "unit_price": 20}}}).
		Want(201)
	at := "/orders/" + created.ID()
	b.get(t, at).hides(t, "Close with what was delivered")
	c.Post(t, "/api/v1"+at+"/deliver", j{"items": []j{{"id": created.Text("items.0.id"), "quantity": 2}}}).Want(200)
	b.get(t, at).shows(t, "Close with what was delivered").hides(t, "earn revenue").submit(t, at+"/cancel").to(t, at)
	p := b.get(t, at).shows(t, "The customer has got 2 of Product Hook", "no longer earn revenue (40 in all)")
	check(t, p)
	p.submit(t, at+"/close").to(t, at).says(t, "The order is done, with what was delivered.").hides(t, "earn revenue")
	c.Get(t, "/api/v1"+at).Want(200).Shows(map[string]string{"status": "done", "revenue": "40"})
	b.get(t, at).hides(t, "Close with what was delivered")

	// So is one with an item that was removed after a part of it was delivered.
	c.Delete(t, "/api/v1"+at+"/items/"+created.Text("items.0.id")).Want(204)
	b.get(t, at).shows(t, "no longer earn revenue (40 in all)").submit(t, at+"/close").to(t, at).hides(t, "earn revenue")
	c.Get(t, "/api/v1"+at).Want(200).Shows(map[string]string{"status": "done", "revenue": "40"})
}

// The page of an order has its carrier and its tracking number, to copy, and the list finds it by them.
func TestTracking(t *testing.T) {
	t.Parallel()
	b := signIn(t, newAPI(t, testkit.Options{}).Operator(t))
	at := b.get(t, "/orders/new").submit(t, "/orders/new", "customer", "Ada", "carrier", "DHL", "tracking_number",
		"0034 04").want(t, 303).header.Get("Location")
	p := b.get(t, at).shows(t, "DHL 0034 04 Copy")
	testkit.Contains(t, p.text, "<b>0034 04</b>\n<button type=\"button\" class=\"plain\" data-copy",
		"nothing copies the number")
	b.get(t, "/orders?search=dhl+04").shows(t, "Ada", "1 order")
	b.get(t, at+"/edit").submit(t, at+"/edit", "tracking_number", strings.Repeat("1", 101)).want(t, 422)
	b.get(t, at+"/edit").submit(t, at+"/edit", "tracking_number", "").to(t, at).shows(t, "DHL").hides(t, "Copy")
}
