package web_test

import (
	"net/url"
	"testing"

	"spoolwright/tests/testkit"
)

// The page of an order shows its lines without a product, and assigns them. Lists say that there are such lines.
func TestLinesOfOrder(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	product := c.NewProduct(t, "HOOK", 100)
	created := c.Post(t, "/api/v1/orders", j{"source": "shop", "reference": "#1", "unassigned_lines": []j{
		{"title": "Hooks <4>", "sku": "pack", "quantity": 2, "unit_price": 10}, {"title": "Gift card"}}}).Want(201)
	at := "/orders/" + created.ID()
	line := func(i string) string { return at + "/lines/" + created.Text("unassigned_lines."+i+".id") }
	b.get(t, "/orders").shows(t, "2 lines without a product")
	p := b.get(t, at).shows(t, "Without a product", "2 × Hooks <4>", "SKU pack", "1 × Gift card")
	check(t, p)
	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, at).shows(t, "2 × Hooks <4>").hides(t, "Assign")
	viewer.do(t, "POST", line("0"), url.Values{"product_id": {product}}).want(t, 403)

	p.submit(t, line("0")).want(t, 422).shows(t, "Product : ")
	p.submit(t, line("0"), "product_id", product, "pieces", "0").want(t, 422).shows(t, "Must be at least 1")
	p.submit(t, line("0"), "product_id", product, "pieces", "4").to(t, at).
		says(t, "The line is an item now. Further lines like it will be assigned automatically.").
		hides(t, "Hooks <4>").shows(t, "1 × Gift card", "Product HOOK")
	c.Get(t, "/api/v1"+at).Want(200).Shows(map[string]string{"items.0.quantity": "8", "items.0.unit_price": "2.5"})
	b.get(t, "/").shows(t, "1 line without a product")
	b.get(t, at).submit(t, line("1"), "ignore", "yes").to(t, at).
		says(t, "The line is left out. Further lines like it will be left out, too.").
		hides(t, "Without a product")
	b.get(t, "/").hides(t, "without a product")
}

// The page proposes the variant that a shop's option names.
func TestLineOfVariant(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	base := c.NewProduct(t, "DRG", 10)
	c.Patch(t, "/api/v1/products/"+base, j{"name": "Dragon"}).Want(200)
	made := c.Post(t, "/api/v1/products/"+base+"/variants", j{"variants": []j{{"color": "Blue", "sku": "BLUE"}}}).Want(201)
	order := c.Post(t, "/api/v1/orders", j{"reference": "1", "unassigned_lines": []j{{"title": "Dragon - Blue",
		"sku": "drg"}, {"title": "Dragon - Red"}}}).Want(201)
	at := "/orders/" + order.ID()
	b := signIn(t, c)
	b.get(t, at).shows(t, "1 × Dragon - Blue").submit(t, at+"/lines/"+order.Text("unassigned_lines.0.id")).to(t, at)
	c.Get(t, "/api/v1/orders/"+order.ID()).Shows(map[string]string{"items.0.product_id": made.Text("items.0.id"),
		"unassigned_lines.#": "1"})
	b.get(t, at).submit(t, at+"/lines/"+order.Text("unassigned_lines.1.id")).want(t, 422)
}
