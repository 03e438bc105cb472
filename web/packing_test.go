package web_test

import (
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// Slips of orders are printed one by one, or together with a sheet of all pieces to pick.
func TestPacking(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	b.get(t, "/packing").shows(t, "No open orders.")
	hook, lamp := c.NewProduct(t, "HOOK", 100), c.NewProduct(t, "LAMP", 50)
	order := func(reference string, items ...j) string {
		return c.Post(t, "/api/v1/orders", j{"source": "shop", "reference": reference, "customer": "Ada",
			"notes": "Gift <wrap> " + reference, "items": items, "due_date": "2099-01-02", "status": "received",
			"unassigned_lines": []j{{"title": "Card of " + reference, "sku": "C-1", "quantity": 3}}}).Want(201).ID()
	}
	first := order("#1", j{"product_id": hook, "quantity": 2}, j{"product_id": lamp, "quantity": 1})
	second := order("#2", j{"product_id": lamp, "quantity": 4})
	done := c.Post(t, "/api/v1/orders", j{"reference": "#3", "status": "received",
		"items": []j{{"product_id": hook, "quantity": 1}}}).Want(201)
	c.Post(t, "/api/v1/orders/"+done.ID()+"/complete", j{"items": []j{{"id": done.Text("items.0.id"), "delivered": 1}}}).
		Want(200)
	testkit.ExecURL(t, testkit.Private().SuperURL(), `update orders set ready_at = now() where id = '`+second+`'`)

	choice := b.get(t, "/packing").want(t, 200).shows(t, "Ready to pack Order Items Printed Due Ada #2",
		"Open Order Items Printed Due Ada #1").hides(t, "#3")
	check(t, choice)
	b.get(t, "/orders").shows(t, "Pick and pack")
	b.get(t, "/orders/"+first).shows(t, "Packing slip")

	sheet := b.get(t, "/packing?id="+first+"&id="+second).want(t, 200).
		shows(t, "To pick", "Nothing is in stock for these orders", "Product HOOK 2 2", "Product LAMP 4 4",
			"Gift <wrap> #1", "Gift <wrap> #2", "Card of #1 SKU C-1 3", "Ada · shop · due 2099-01-02").hides(t, "#3")
	check(t, sheet)
	b.get(t, "/packing?id="+first+"&id="+first).want(t, 200).shows(t, "Product HOOK 2", "Gift <wrap> #1").hides(t, "#2")

	// Some of it is in stock, at places; a kit is assembled from its parts.
	kit := c.Post(t, "/api/v1/products",
		j{"name": "Kit", "components": []j{{"component_product_id": hook, "quantity": 2}}}).
		Want(201).ID()
	third := order("#4", j{"product_id": kit, "quantity": 2})
	for product, place := range map[string]string{hook: "Shelf B", lamp: "Shelf A"} {
		c.Patch(t, "/api/v1/products/"+product, j{"location": place}).Want(200)
		c.Post(t, "/api/v1/products/"+product+"/count", j{"counted": 5}).Want(200)
	}
	sheet = b.get(t, "/packing?id="+first+"&id="+second+"&id="+third).want(t, 200).shows(t,
		"Where Product Take Orders Shelf A Product LAMP LAMP 5 #1: 1, #2: 4 Shelf B Product HOOK HOOK 5 #1: 2, #4: 3",
		"Kit 2 to assemble 2 Part: Product HOOK Shelf B 3 1")
	check(t, sheet)
	b.get(t, "/packing?ready=true").want(t, 200).shows(t, "Shelf A Product LAMP LAMP 4 #2: 4").hides(t, "#1")
	b.get(t, "/packing").shows(t, "Show all that are ready")
	b.get(t, "/products/"+hook).shows(t, "Where Shelf B")
	b.get(t, "/products/"+hook).shows(t, "Label")
	b.get(t, "/products?location=shelf+b").shows(t, "Product HOOK").hides(t, "Product LAMP")

	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, "/packing?id="+first).want(t, 200).shows(t, "Shelf B Product HOOK HOOK 2 #1: 2")
	signIn(t, api.Operator(t)).get(t, "/packing?id="+first).want(t, 404)
	b.get(t, "/packing?id=x").want(t, 404)
	b.get(t, "/packing?id="+strings.Repeat(first+"&id=", 50)+first).want(t, 422).shows(t, "at most 50")
}
