package web_test

import (
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// A product with its filament and a part, and an order with its products, are each made by one form.
func TestNestedLists(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	b.get(t, "/orders/new").hides(t, "More rows", "Pieces")
	vase := b.get(t, "/products/new").hides(t, "Other products").submit(t, "/products/new", "name", "Vase",
		"materials[0].material_type", "PETG", "materials[0].color", "Sea", "materials[0].weight_grams", "40").want(t, 303)
	c.Get(t, "/api/v1"+vase.header.Get("Location")).Shows(map[string]string{"materials.0.material_type": "PETG",
		"materials.0.color": "Sea", "materials.0.weight_grams": "40"})

	filament := func(color string) string {
		return c.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": color,
			"diameter_mm": 1.75, "net_weight_grams": 1000}).Want(201).Text("id")
	}
	black, red := filament("Black"), filament("Red")
	hook := c.NewProduct(t, "Hook", 10)
	c.Patch(t, "/api/v1/products/"+hook, j{"selling_price": 4.5}).Want(200)
	page := b.get(t, "/products/new").shows(t, "Filament of a piece", "Other products in a piece", "More rows")
	row := []string{"name", "Lamp", "materials[0].filament_id", black, "materials[0].weight_grams", "12,5",
		"materials[1].filament_id", red, "materials[1].weight_grams", "much", "components[0].component_product_id", hook}
	wrong := page.submit(t, "/products/new", row...).want(t, 422).shows(t, "Must be a number.")
	lamp := wrong.submit(t, "/products/new", "materials[1].weight_grams", "3").want(t, 303).header.Get("Location")
	c.Get(t, "/api/v1"+lamp).Shows(map[string]string{"materials.0.color": "Black", "materials.0.weight_grams": "12.5",
		"materials.1.color": "Red", "materials.1.weight_grams": "3", "components.0.component_name": "Product Hook",
		"components.0.quantity": "1"})
	// The second row is the first one of the request, and its error stands beside it.
	skipped := page.submit(t, "/products/new", "name", "Vase", "materials[1].filament_id", red,
		"materials[1].weight_grams", "0").want(t, 422)
	if at := strings.Index(skipped.text, `name="materials[1].weight_grams"`); at < 0 ||
		strings.LastIndex(skipped.text[:at], "field wrong") < strings.LastIndex(skipped.text[:at], `type="hidden"`) {
		t.Errorf("the error is not beside its row: %s", skipped.words())
	}

	page = b.get(t, "/orders/new").submit(t, "/orders/new", "customer", "Ada", "items[0].product_id", hook, "more", "1")
	if page.want(t, 200); strings.Count(page.text, `type="hidden" name="items[`) != 6 {
		t.Errorf("the form does not have three more rows: %s", page.words())
	}
	order := page.submit(t, "/orders/new", "items[1].product_id", strings.TrimPrefix(lamp, "/products/"),
		"items[1].quantity", "2", "items[5].product_id", hook, "items[5].quantity", "7", "items[5].unit_price", "3.95").
		want(t, 303).header.Get("Location")
	c.Get(t, "/api/v1"+order).Shows(map[string]string{"customer": "Ada", "items.0.quantity": "1",
		"items.0.unit_price": "4.5", "items.1.product_name": "Lamp", "items.1.quantity": "2", "items.2.quantity": "7",
		"items.2.unit_price": "3.95"})
	testkit.Equal(t, len(c.Get(t, "/api/v1/orders").List("items")), 1, "orders")
	form := page.form(t, "/orders/new")
	form.Set("rows.items", "999999999")
	form.Set("more", "1")
	if n := strings.Count(b.do(t, "POST", "/orders/new", form).want(t, 200).text, `type="hidden" name="items[`); n != 100 {
		t.Errorf("the form has %d rows, want 100", n)
	}
}
