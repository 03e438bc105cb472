package catalog_test

import (
	"fmt"
	"testing"

	"spoolwright/tests/testkit"
)

// Undo removes the products that an import created, unless something names them or they were changed. Their rows came
// in before, as long as the products are there.
func TestUndoCreatedProducts(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	c := api.Operator(t)
	const file = "name,sku,materials.material_type,materials.color,materials.weight_grams\nA,A,PLA,Red,1\n" +
		"B,,PLA,Red,1\nC,,PLA,Red,1\nD,,PLA,Red,1\nE,,PLA,Red,1\nF,,,,\nG,,,,\n"
	done := importProducts(t, c, "", file)
	done.Want(200).Shows(imported(7, 0, 0, 0)).Shows(map[string]string{"repeated_rows": "0"})
	id := func(name string) string { return c.Get(t, products+"?search="+name).Text("items.0.id") }
	c.Post(t, products, j{"name": "Kit", "components": []j{{"component_product_id": id("B")}}}).Want(201)
	c.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": id("C"), "quantity": 1}}}).Want(201)
	c.Post(t, "/api/v1/production-runs", j{"items": []j{{"product_id": id("D"), "quantity": 1}}}).Want(201)
	c.Post(t, products+"/"+id("E")+"/materials", j{"material_type": "PLA", "color": "Blue", "weight_grams": 1}).Want(201)
	c.Post(t, products+"/"+id("F")+"/count", j{"counted": 3}).Want(200)
	api.Operator(t).Post(t, "/api/v1/imports/"+done.Text("import_id")+"/undo", nil).WantError(404, "NOT_FOUND")
	c.WantUndone(t, done, 2, 0, "B: it was used since", "C: it was used since", "D: it was used since",
		"E: it was changed since", "F: it was used since")
	c.Get(t, products).Shows(map[string]string{"total": "6"})
	again := importProducts(t, c, "dry_run=true", file)
	again.Want(200).Shows(map[string]string{"repeated_rows": "5", "import_id": "null"})
	again = importProducts(t, c, "mode=upsert", "name,sku\nA,A\n")
	again.Want(200).Shows(imported(1, 0, 0, 0))
	c.WantUndone(t, again, 1, 0)
}

// Undo gives products the fields and materials that they had before an import, unless they were changed since.
func TestUndoChangedProducts(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, testkit.Features...).Operator(t)
	createSpool(t, c, "PLA", "Black", 20)
	f := c.Post(t, "/api/v1/filaments", j{"material_type": "PETG", "color": "Sky", "diameter_mm": 1.75}).Want(201).ID()
	var ids []string
	for n := range 5 {
		ids = append(ids, c.Post(t, products, j{"name": fmt.Sprint("P", n), "sku": fmt.Sprint("S", n), "notes": "old",
			"materials": []j{{"material_type": "PLA", "color": "Black", "weight_grams": 10, "notes": "x"},
				{"filament_id": f, "weight_grams": 5, "is_required": false}}}).Want(201).ID())
	}
	const columns = "id,sku,notes,materials.material_type,materials.color,materials.weight_grams\n"
	file := columns
	for n, id := range ids {
		sku := fmt.Sprint("T", n)
		if n < 2 {
			sku = fmt.Sprint("S", 1-n) // they exchange their SKUs
		}
		for _, material := range []string{"PLA,Black,20", "PETG,Sky,0", "PLA,Red,3"} {
			file += id + "," + sku + ",new," + material + "\n"
		}
	}
	done := importProducts(t, c, "mode=update", file)
	done.Want(200).Shows(imported(0, 5, 0, 0))
	c.Get(t, products+"/"+ids[0]).Shows(map[string]string{"sku": "S1", "material_cost": "0.46", "materials.#": "2"})
	c.Patch(t, products+"/"+ids[2], j{"notes": "mine"}).Want(200)
	red := c.Get(t, products+"/"+ids[3]).Text("materials.1.id")
	c.Patch(t, products+"/"+ids[3]+"/materials/"+red, j{"weight_grams": 4}).Want(200)
	c.Post(t, products, j{"name": "Other", "sku": "S3"}).Want(201)
	c.Delete(t, products+"/"+ids[4]).Want(204)
	c.WantUndone(t, done, 0, 4, "P2: it was changed since: notes", "P3: sku is that of another product; "+
		"it was changed since: materials", "null: it was removed since")
	for n, want := range []string{"S0 old 0.2", "S1 old 0.2", "S2 mine 0.2", "T3 old 0.28"} {
		p := c.Get(t, products+"/"+ids[n]).Want(200)
		testkit.Equal(t, p.Text("sku")+" "+p.Text("notes")+" "+p.Text("material_cost"), want, "product %d", n)
	}
	c.Get(t, products+"/"+ids[0]).Shows(map[string]string{"materials.#": "2", "materials.0.weight_grams": "10",
		"materials.0.notes": "x", "materials.1.filament_id": f, "materials.1.color": "Sky", "materials.1.weight_grams": "5",
		"materials.1.is_required": "false"})
	c.Get(t, products+"/"+ids[3]).Shows(map[string]string{"materials.#": "3"})

	// A filament that was removed since does not come back.
	done = importProducts(t, c, "mode=update", "sku,materials.material_type,materials.color,materials.weight_grams\n"+
		"S0,PETG,Sky,0\nS0,PLA,Black,7\n")
	for _, id := range ids[1:] {
		p := c.Get(t, products+"/"+id)
		if p.Status == 200 {
			c.Delete(t, products+"/"+id+"/materials/"+p.Text("materials.1.id")).Want(204)
		}
	}
	if a := c.Delete(t, "/api/v1/filaments/"+f); a.Status != 204 {
		t.Log(string(a.Body))
	}
	c.WantUndone(t, done, 0, 1, "P0: the filament of a material was removed")
	c.Get(t, products+"/"+ids[0]).Shows(map[string]string{"materials.#": "1", "materials.0.weight_grams": "10"})
}

// Undo removes the variants that an import created before their products, and gives changed variants back what they had.
func TestUndoVariants(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, testkit.Features...).Operator(t)
	const file = "name,sku,variant_of_sku,variant_materials.color,materials.material_type,materials.color," +
		"materials.weight_grams\nDragon,D,,,PLA,Black,10\n,D-B,D,Blue,,,\n,D-R,D,Red,,,\nMug,M,,,PLA,Black,10\n,M-B,M,Blue,,,\n"
	done := importProducts(t, c, "", file)
	done.Want(200).Shows(imported(5, 0, 0, 0))
	c.WantUndone(t, done, 5, 0)
	c.Get(t, products).Shows(map[string]string{"total": "0"})
	// A product stays with a variant that was used, or that was added since.
	done = importProducts(t, c, "", file)
	id := func(sku string) string { return c.Get(t, products+"?sku="+sku).Want(200).Text("items.0.id") }
	c.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": id("D-B"), "quantity": 1}}}).Want(201)
	green := addVariants(t, c, id("M"), "Green")[0]
	c.WantUndone(t, done, 2, 0, "Dragon: it was used since", "Mug: it was used since",
		"Dragon, Blue: it was used since")
	c.Get(t, products).Shows(map[string]string{"total": "4"})
	// A variant of plates goes with its plates, unless one was used.
	c.Post(t, products, j{"name": "Kit", "sku": "K", "plates": []j{{"materials": []j{pla("Black", 1)}}}}).Want(201)
	done = importProducts(t, c, "", "variant_of_sku,sku,variant_materials.color\nK,K-B,Blue\nK,K-R,Red\n")
	plate := c.Get(t, products+"/"+id("K-R")).Text("plates.0.id")
	c.Post(t, products+"/"+plate+"/count", j{"counted": 3}).Want(200)
	c.WantUndone(t, done, 1, 0, "Kit, Red: it was used since")
	c.Get(t, products+"?plates=true").Shows(map[string]string{"total": "8"})
	// Changed variants.
	ids := []string{id("D-B"), green, id("K-R")}
	c.Patch(t, products+"/"+ids[1], j{"selling_price": 7}).Want(200)
	done = importProducts(t, c, "mode=update", "id,sku,name,selling_price,variant_materials.color\n"+
		ids[0]+",X,Own,3,Navy\n"+ids[1]+",Y,Other,4,Mint\n"+ids[2]+",Z,\"Kit, Rose\",,Rose\n")
	done.Want(200).Shows(imported(0, 3, 0, 0))
	c.Get(t, products+"/"+ids[0]).Shows(map[string]string{"sku": "X", "name": "Own", "materials.0.color": "Navy"})
	c.Patch(t, products+"/"+ids[1], j{"variant_materials": []j{{"color": "Moss"}}}).Want(200)
	c.Post(t, products, j{"name": "New", "sku": "K-R"}).Want(201)
	c.WantUndone(t, done, 0, 3, "Other: it was changed since: variant_materials",
		"Kit, Rose: sku is that of another product")
	c.Get(t, products+"/"+ids[0]).Shows(map[string]string{"sku": "D-B", "name": "Dragon, Blue", "selling_price": "null",
		"materials.0.color": "Blue"})
	c.Get(t, products+"/"+ids[1]).Shows(map[string]string{"sku": "M-GREEN", "name": "Mug, Green", "selling_price": "7",
		"materials.0.color": "Moss"})
	c.Get(t, products+"/"+ids[2]).Shows(map[string]string{"sku": "Z", "name": "Kit, Red", "plates.0.materials.0.color": "Red"})
	c.Patch(t, products+"/"+id("D"), j{"name": "Drake"}).Want(200)
	c.Get(t, products+"/"+ids[0]).Shows(map[string]string{"name": "Drake, Blue"})
}
