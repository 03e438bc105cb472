package blackbox_test

import (
	"fmt"
	"testing"

	"spoolwright/tests/testkit"
)

// Several filaments, products and orders are created and changed in one request, all or none, and errors name the
// entry.
func TestSeveral(t *testing.T) {
	t.Parallel()
	type j = testkit.JSON
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	tenant := api.Tenant(t)
	c, viewer, other := tenant.User(t, "operator"), tenant.User(t, "viewer"), api.Operator(t)
	product := c.NewProduct(t, "SKU-1", 10)
	for _, test := range []struct {
		list, name, bad, code string
		status                int
		item                  func(n int) j
		wrong                 j // an entry that cannot be created
		change, wrongChange   j
		problem, changed      string
		again                 int
	}{
		{list: "filaments", name: "name", item: func(n int) j {
			return j{"name": fmt.Sprint(n), "material_type": "PLA", "color": "Red", "diameter_mm": 1.75, "vendor": "New"}
		}, wrong: j{"material_type": "PLA", "color": "Red", "diameter_mm": 1.75, "vendor_id": tenant.ID},
			bad: "items[1].vendor_id", code: "UNKNOWN_REFERENCE", status: 400,
			change: j{"notes": "changed"}, wrongChange: j{"vendor_id": tenant.ID}, problem: "items[1].changes.vendor_id",
			changed: "UNKNOWN_REFERENCE", again: 400},
		{list: "products", name: "name", item: func(n int) j {
			return j{"name": fmt.Sprint(n), "components": []j{{"sku": "SKU-1", "quantity": 1}}}
		}, wrong: j{"name": "x", "sku": "SKU-1"}, bad: "items[1].sku", code: "DUPLICATE_SKU", status: 409,
			change: j{"notes": "changed"}, wrongChange: j{"sku": "SKU-1"}, problem: "items[1].changes.sku",
			changed: "DUPLICATE_SKU", again: 409},
		{list: "orders", name: "reference", item: func(n int) j {
			return j{"reference": fmt.Sprint(n), "items": []j{{"product_id": product, "quantity": 1}}}
		}, wrong: j{"items": []j{{"sku": "none"}}}, bad: "items[1].items[0].sku", code: "UNKNOWN_REFERENCE", status: 400,
			change: j{"notes": "changed"}, wrongChange: j{"reference": "0"}, problem: "items[1].changes.reference",
			changed: "ORDER_CONFLICT", again: 409},
	} {
		path := "/api/v1/" + test.list
		total := func() string { return c.Get(t, path).Want(200).Text("total") }
		before := total()
		if a := c.Post(t, path+"/batch", j{"items": []j{test.item(0), test.wrong}}).WantError(test.status, test.code); a.
			Text("errors.0.field") != test.bad {
			t.Errorf("%s", a.Body)
		}
		testkit.Equal(t, total(), before, "%s after an error", test.list)
		var items []j
		for n := range 100 {
			items = append(items, test.item(n))
		}
		viewer.Post(t, path+"/batch", j{"items": items}).WantError(403, "FORBIDDEN")
		created := c.Post(t, path+"/batch", j{"items": items}).Want(201)
		testkit.Equal(t, created.Header.Get("Location"), path, "the location")
		created.WantLen(t, "items", 100)
		created.Shows(map[string]string{"items.0." + test.name: "0", "items.99." + test.name: "99"})
		c.Post(t, path+"/batch", j{"items": append(items, test.item(100))}).Fields("items")
		c.Post(t, path+"/batch", j{"items": []j{}}).Fields("items")
		c.Post(t, path+"/batch", j{"items": []j{{"x": 1}}}).Want(422)
		ids := []string{created.Text("items.0.id"), created.Text("items.1.id")}
		changes := func(second j) j {
			return j{"items": []j{{"id": ids[0], "changes": test.change}, {"id": ids[1], "changes": second}}}
		}
		if a := c.Patch(t, path, changes(test.wrongChange)).WantError(test.again, test.changed); a.
			Text("errors.0.field") != test.problem {
			t.Errorf("%s", a.Body)
		}
		c.Get(t, path+"/"+ids[0]).Want(200).Shows(map[string]string{"notes": "null"})
		other.Patch(t, path, changes(test.change)).WantError(400, "UNKNOWN_REFERENCE")
		c.Patch(t, path, j{"items": []j{{"id": tenant.ID, "changes": test.change}}}).WantError(400, "UNKNOWN_REFERENCE").
			Shows(map[string]string{"errors.0.field": "items[0].id"})
		c.Patch(t, path, j{"items": []j{}}).Fields("items")
		c.Patch(t, path, j{}).Fields("items")
		c.Patch(t, path, changes(test.change)).Want(200).Shows(map[string]string{"items.0.id": ids[0],
			"items.1.id": ids[1], "items.0.notes": "changed", "items.1.notes": "changed", "items.0." + test.name: "0"})
	}
}

// With expand=items, a list of orders or runs has the items as the GET of one.
func TestExpand(t *testing.T) {
	t.Parallel()
	type j = testkit.JSON
	c := testkit.New(t, testkit.Options{}, testkit.Features...).Operator(t)
	product := c.NewProduct(t, "SKU-1", 10)
	var items []j
	for n := range 5 {
		items = append(items, j{"product_id": product, "quantity": n + 1})
	}
	for _, list := range []string{"orders", "production-runs"} {
		path := "/api/v1/" + list
		c.Post(t, path, j{"items": items[:2]}).Want(201)
		one := c.Post(t, path, j{"items": items}).Want(201)
		c.Get(t, path).Want(200).Shows(map[string]string{"items.0.all_items": "[]"})
		page := c.Get(t, path+"?expand=items&limit=1").Want(200)
		page.WantLen(t, "items.0.all_items", 5)
		testkit.Equal(t, fmt.Sprint(page.Value("items.0.all_items")),
			fmt.Sprint(c.Get(t, path+"/"+one.ID()).Want(200).Value("items")), "the items of %s", list)
		c.Get(t, path+"?expand=x").Fields("expand")
	}
}
