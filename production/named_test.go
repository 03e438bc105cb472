package production_test

import (
	"testing"

	"spoolwright/tests/testkit"
)

// Items name their product by its id or its SKU, and materials their spool by its id or its number.
func TestNamedProductsAndSpools(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c, other := api.Operator(t), api.Operator(t)
	one := createSpool(t, c, nil)
	two := createSpool(t, c, nil)
	product := func(sku string) string {
		return c.Post(t, "/api/v1/products", j{"name": "Lamp " + sku, "sku": sku}).Want(201).ID()
	}
	lamp, shade := product("LAMP"), product("SHADE")
	other.Post(t, "/api/v1/products", j{"name": "x", "sku": "OTHER"}).Want(201)
	c.Delete(t, "/api/v1/spools/"+createSpool(t, c, nil)).Want(204) // the number 3

	run := runs + "/" + c.Post(t, runs, j{
		"items":     []j{{"sku": "SHADE"}, {"product_id": lamp}},
		"materials": []j{{"spool_number": 2}, {"spool_id": one}},
	}).Want(201).Shows(map[string]string{"items.0.product_id": shade, "items.1.product_id": lamp,
		"materials.0.spool_id": two, "materials.1.spool_id": one}).ID()
	item := run + "/items/" + c.Post(t, run+"/items", j{"sku": "LAMP"}).Want(201).
		Shows(map[string]string{"product_id": lamp}).ID()
	material := run + "/materials/" + c.Post(t, run+"/materials", j{"spool_number": 1}).Want(201).
		Shows(map[string]string{"spool_id": one}).ID()
	c.Patch(t, item, j{"sku": "SHADE", "quantity": 3}).Want(200).
		Shows(map[string]string{"product_id": shade, "quantity": "3"})
	c.Patch(t, item, j{"sku": "LAMP"}).Want(200).Shows(map[string]string{"product_id": lamp, "quantity": "3"})
	c.Patch(t, material, j{"spool_number": 2, "estimated_weight_grams": 5}).Want(200).
		Shows(map[string]string{"spool_id": two, "estimated_weight_grams": "5"})
	c.Patch(t, material, j{"spool_number": 1}).Want(200).Shows(map[string]string{"spool_id": one})

	unknown := map[string]string{"code": "UNKNOWN_REFERENCE", "errors.0.field": "sku"}
	for _, sku := range []string{"OTHER", "lamp"} {
		c.Post(t, run+"/items", j{"sku": sku}).Want(400).Shows(unknown)
		c.Patch(t, item, j{"sku": sku}).Want(400).Shows(unknown)
	}
	c.Patch(t, item, j{"sku": ""}).Want(400).Shows(unknown)
	unknown["errors.0.field"] = "spool_number"
	for _, number := range []int{3, 4} {
		c.Post(t, run+"/materials", j{"spool_number": number}).Want(400).Shows(unknown)
		c.Patch(t, material, j{"spool_number": number}).Want(400).Shows(unknown)
	}
	c.Post(t, runs, j{"items": []j{{"sku": "SHADE"}, {"sku": "OTHER"}}, "materials": []j{{"spool_number": 9}}}).
		Want(400).
		Shows(map[string]string{"code": "UNKNOWN_REFERENCE", "errors.0.field": "items[1].sku",
			"errors.1.field": "materials[0].spool_number"})

	c.Post(t, run+"/items", j{"sku": ""}).Fields("product_id")
	c.Post(t, run+"/items", j{"sku": nil, "product_id": nil}).Fields("product_id")
	c.Post(t, run+"/items", j{"sku": "LAMP", "product_id": lamp}).Fields("sku")
	c.Patch(t, item, j{"sku": "LAMP", "product_id": lamp}).Fields("sku")
	c.Patch(t, item, j{"sku": nil}).Fields("sku")
	c.Patch(t, item, j{"product_id": nil}).Fields("product_id")
	c.Post(t, run+"/materials", j{}).Fields("spool_id")
	c.Post(t, run+"/materials", j{"spool_number": 1, "spool_id": one}).Fields("spool_number")
	c.Patch(t, material, j{"spool_number": 0}).Fields("spool_number")
	c.Post(t, runs, j{"items": []j{{}}, "materials": []j{{"spool_number": 1, "spool_id": one}}}).
		Fields("items[0].product_id", "materials[0].spool_number")

	// After complete, the current spool may be sent.
	for _, id := range []string{"0", "1", "2"} {
		c.Patch(t, run+"/materials/"+c.Get(t, run).Want(200).Text("materials."+id+".id"), j{"actual_weight_grams": 1}).
			Want(200)
	}
	c.Post(t, run+"/complete", nil).Want(200)
	c.Patch(t, material, j{"spool_number": 1}).Want(200)
	c.Patch(t, material, j{"spool_number": 2}).WantError(400, "RUN_ALREADY_COMPLETED")
}

// A script of a printer knows the name of a file, or its sum: the product that was made from it is the item.
func TestProductsOfFiles(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c, other := api.Operator(t), api.Operator(t)
	made := func(c *testkit.Client, name, file, sum string) string {
		return c.Post(t, "/api/v1/products", j{"name": name, "file_name": file, "file_sha256": sum}).Want(201).ID()
	}
	made(c, "Old hook", "hook.gcode", "aa")
	hook, clip := made(c, "Hook", "hook.gcode", "ab"), made(c, "Clip", "clip.gcode", "ac")
	removed := made(c, "Removed hook", "hook.gcode", "ad")
	c.Delete(t, "/api/v1/products/"+removed).Want(204)
	made(other, "Theirs", "theirs.gcode", "ae")

	run := runs + "/" + c.Post(t, runs, j{"status": "in_progress", "items": []j{{"file_name": "hook.gcode"},
		{"file_sha256": "ac", "quantity": 2}, {"product_id": hook}, {"file_name": "parts/small/clip.gcode"}}}).Want(201).
		Shows(map[string]string{"items.0.product_id": hook, "items.1.product_id": clip, "items.1.quantity": "2",
			"items.2.product_id": hook, "items.3.product_id": clip}).ID()
	item := run + "/items/" + c.Post(t, run+"/items", j{"file_name": `C:\a\hook.gcode`}).Want(201).
		Shows(map[string]string{"product_id": hook, "product_name": "Hook"}).ID()
	c.Patch(t, item, j{"file_sha256": "ac"}).Want(200).Shows(map[string]string{"product_id": clip})
	c.Patch(t, item, j{"file_name": "hook.gcode", "quantity": 4}).Want(200).
		Shows(map[string]string{"product_id": hook, "quantity": "4"})

	for field, texts := range map[string][]string{"file_name": {"theirs.gcode", "Hook.gcode", "hook"},
		"file_sha256": {"ae", "ad", "AB"}} {
		for _, text := range texts {
			unknown := map[string]string{"code": "UNKNOWN_REFERENCE", "errors.0.field": field}
			c.Post(t, run+"/items", j{field: text}).Want(400).Shows(unknown)
			c.Patch(t, item, j{field: text}).Want(400).Shows(unknown)
			unknown["errors.0.field"] = "items[1]." + field
			c.Post(t, runs, j{"items": []j{{"product_id": hook}, {field: text}}}).Want(400).Shows(unknown)
		}
	}
	c.Get(t, item[:len(run)]).Want(200).Shows(map[string]string{"items.4.product_id": hook})

	c.Post(t, run+"/items", j{"file_name": ""}).Fields("product_id")
	c.Post(t, run+"/items", j{"file_name": "hook.gcode", "file_sha256": "ab"}).Fields("file_sha256")
	c.Patch(t, item, j{"file_name": "hook.gcode", "product_id": hook}).Fields("file_name")
	c.Patch(t, item, j{"file_sha256": nil}).Fields("file_sha256")
}

// Each unknown reference of a new run has a message of its own.
func TestUnknownReferencesOfRun(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	unknown := "0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41"
	product := c.Post(t, "/api/v1/products", j{"name": "Lamp"}).Want(201).ID()
	c.Post(t, runs, j{"printer_id": unknown, "items": []j{{"file_name": "none.gcode"}, {"file_sha256": "ab"},
		{"product_id": product, "order_item_id": unknown}}, "materials": []j{{"spool_id": unknown}}}).
		WantError(400, "UNKNOWN_REFERENCE").Shows(map[string]string{
		"detail": "Not a printer: printer_id; not a product: items[0].file_name, items[1].file_sha256; " +
			"not an item of an order: items[2].order_item_id; not a spool: materials[0].spool_id",
		"errors.#":         "5",
		"errors.0.field":   "printer_id",
		"errors.0.message": "Not a printer: printer_id",
		"errors.1.field":   "items[0].file_name",
		"errors.1.message": "Not a product: items[0].file_name",
		"errors.2.message": "Not a product: items[1].file_sha256",
		"errors.3.message": "Not an item of an order: items[2].order_item_id",
		"errors.4.message": "Not a spool: materials[0].spool_id",
	})
}
