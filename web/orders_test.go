package web_test

import (
	"net/url"
	"strings"
	"testing"

	"spoolwright/testkit"
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
	page.shows(t, "Done", "12.00", "3.00", "is open again").hides(t, "46.00")
	page = page.submit(t, order+"/items", "quantity", "3", "product_id", product).to(t, order).shows(t, "In production")
	page.submit(t, order+"/cancel").to(t, order).shows(t, "Cancelled", "Revenue 0.00", "3.00").hides(t, "is open again")
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
		if !strings.Contains(p.text, "<details open>") || !strings.Contains(p.text, `class="error"`) {
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
	b.get(t, at).submit(t, at+"/complete", "items[0].delivered", "0").to(t, at).says(t, "The order is done.").hides(t, "Undo")
	has(map[string]string{"items.0.delivered": "0", "items.1.delivered": "1"})
	b.get(t, at).submit(t, at+"/open").to(t, at).says(t, "The order is open again.")
	has(map[string]string{"status": "in_production", "items.0.delivered": "null"})
	b.get(t, at).submit(t, at+"/cancel").to(t, at).says(t, "The order is cancelled.").take(t).to(t, at)
	has(map[string]string{"status": "in_production"})
}
