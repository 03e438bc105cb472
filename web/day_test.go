package web_test

import (
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// A day of a farm: a product, an order, a run of it with a piece that failed, and a run that failed.
func TestDay(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	for path, text := range map[string]string{"/products": "There are no products yet.",
		"/orders": "There are no open orders.", "/runs": "A run is one print on a printer", "/": "No open orders."} {
		b.get(t, path).want(t, 200).shows(t, text)
	}
	spool := c.NewSpool(t, 500, j{"purchase_price": 20, "location": "Shelf A"})
	number := c.Get(t, "/api/v1/spools/"+spool).Text("number")

	refused := b.get(t, "/products/new").submit(t, "/products/new", "name", "", "sku", "H-1").want(t, 422)
	product := refused.submit(t, "/products/new", "name", "Hook", "estimated_print_time_minutes", "95").
		want(t, 303).header.Get("Location")
	page := b.get(t, product).want(t, 200).shows(t, "Hook", "H-1", "1 h 35 min", "It needs no filament of its own.")
	wrong := page.submit(t, product+"/materials", "color", "Black", "weight_grams", "much").want(t, 422)
	wrong.shows(t, "Must be a number.")
	if got := wrong.form(t, product+"/materials"); got.Get("color") != "Black" || got.Get("weight_grams") != "much" {
		t.Errorf("what was typed is lost: %v", got)
	}
	form := wrong.form(t, product+"/materials")
	form.Set("weight_grams", "30")
	for range 2 {
		b.do(t, "POST", product+"/materials", form).to(t, product).shows(t, "PLA Black", "30 g", "0.60")
	}
	testkit.Equal(t, len(c.Get(t, "/api/v1"+product).List("materials")), 1,
		"materials after a form was sent twice")
	b.get(t, product+"?quantity=10").shows(t, "There is enough filament.", "300 g", "Spools #"+number)
	b.get(t, product+"?quantity=20").shows(t, "Filament is missing.", "600 g", "100 g")
	b.get(t, product).submit(t, product+"/recalculate").to(t, product)
	b.get(t, product).submit(t, product+"/components", "component_product_id", "").want(t, 422)
	set := b.get(t, "/products/new").submit(t, "/products/new", "name", "Set").want(t, 303).header.Get("Location")
	b.get(t, set).submit(t, set+"/components", "component_product_id", strings.TrimPrefix(product, "/products/"),
		"quantity", "2").to(t, set).shows(t, "2 × Hook", "1.20")
	box := c.NewProduct(t, "Box", 10)
	c.Post(t, "/api/v1/products/"+box+"/components", j{"component_product_id": strings.TrimPrefix(set, "/products/"),
		"quantity": 3}).Want(201)
	tree := b.get(t, "/products/"+box).shows(t, "3 × Set 3.60 Change Set Pieces Save Set Remove Set 2 × Hook 6 in all 3.60")
	if strings.Count(tree.text, "/remove\"") != 2 { // of the set, and of the material
		t.Error("the page removes a component of another product")
	}
	b.get(t, product).shows(t, "Used in Set")
	b.get(t, product+"/edit").shows(t, "It is a component of Set", "Take it out of them before you remove it.")
	b.get(t, product+"/edit").submit(t, product+"/remove").want(t, 422).shows(t, "component")
	part := c.Get(t, "/api/v1"+set).Text("components.0.id")
	b.get(t, set).submit(t, set+"/components/"+part+"/remove").to(t, set).says(t, "The component is removed.").
		shows(t, "It contains no other product.").take(t).to(t, set).says(t, "The component is back.").shows(t, "2 × Hook")
	part = c.Get(t, "/api/v1"+set).Text("components.0.id")
	b.get(t, set).submit(t, set+"/components/"+part+"/remove").to(t, set).shows(t, "It contains no other product.")

	order := b.get(t, "/orders/new").submit(t, "/orders/new", "customer", "Ada", "reference", "A-7", "due_date",
		"2024-02-01").want(t, 303).header.Get("Location")
	b.get(t, order).submit(t, order+"/items", "product_id", "", "quantity", "3").want(t, 422)
	page = b.get(t, order).submit(t, order+"/items", "product_id", strings.TrimPrefix(product, "/products/"),
		"quantity", "3").to(t, order).shows(t, "Hook 3 missing 3 0 0", "There is enough filament.", "Ada")
	item := c.Get(t, "/api/v1"+order).Text("items.0.id")
	b.get(t, "/orders").shows(t, "A-7", "Received", "2024-02-01")
	b.get(t, "/").shows(t, "Ada A-7 · 3 × Hook Can be printed 2024-02-01")

	path := "/runs/new?order_item=" + item + "&product=" + strings.TrimPrefix(product, "/products/") + "&quantity=3"
	testkit.Contains(t, page.text, strings.ReplaceAll(path, "&", "&amp;"), "the order does not lead to %s", path)
	fresh := b.get(t, path).want(t, 200)
	fresh.submit(t, "/runs/new", "materials[0].spool_number", "99", "estimated_print_time_hours", "x").want(t, 422).
		shows(t, "Must be a number.")
	run := fresh.submit(t, "/runs/new", "printer_name", "MK4", "materials[0].spool_number", number,
		"materials[0].estimated_weight_grams", "90").want(t, 303).header.Get("Location")
	b.get(t, "/runs").shows(t, "Planned 3 × Hook MK4")
	b.get(t, run).shows(t, "MK4", "Planned", "Hook 3", "PLA Black").submit(t, run+"/start").
		to(t, run).shows(t, "Printing")
	b.get(t, "/").shows(t, "Printing 3 × Hook", "A-7")
	b.get(t, run).submit(t, run+"/complete", "materials[0].actual_weight_grams", "many").want(t, 422).
		shows(t, "Must be a number.").hides(t, "Completed")
	form = b.get(t, run).form(t, run+"/complete")
	form.Set("materials[0].actual_weight_grams", "92,5")
	form.Set("items[0].successful_quantity", "2")
	form.Set("items[0].failed_quantity", "1")
	for range 2 {
		b.do(t, "POST", run+"/complete", form).to(t, run).shows(t, "Completed", "92.5 g", "Hook 3 2 1")
	}
	c.Get(t, "/api/v1/spools/"+spool).Shows(map[string]string{"remaining_weight_grams": "407.5"})
	b.get(t, order).shows(t, "Hook 2 in stock, 1 missing 3 2", "In production")

	second := b.get(t, "/runs/new").submit(t, "/runs/new", "printer_name", "Voron", "materials[0].spool_number",
		number,
		"materials[0].estimated_weight_grams", "20").want(t, 303).header.Get("Location")
	b.get(t, second).submit(t, second+"/fail", "reason", "spaghetti", "notes", "Bed too cold",
		"materials[0].wasted_grams", "7.5").to(t, second).shows(t, "Failed: spaghetti", "Bed too cold")
	c.Get(t, "/api/v1/spools/"+spool).Shows(map[string]string{"remaining_weight_grams": "400"})
	third := b.get(t, "/runs/new").submit(t, "/runs/new").want(t, 303).header.Get("Location")
	cancel := b.get(t, third).form(t, third+"/fail")
	b.do(t, "POST", third+"/cancel", cancel).to(t, third).shows(t, "Cancelled")
	b.get(t, "/runs").shows(t, "Done")
	b.get(t, order).submit(t, order+"/cancel").to(t, order).shows(t, "Cancelled")
	b.get(t, "/orders").hides(t, "A-7")
	b.get(t, "/orders?status=cancelled").shows(t, "A-7")
}
