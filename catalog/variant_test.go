package catalog_test

import (
	"fmt"
	"image/color"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/tests/testkit"
)

func pla(color string, grams float64) j {
	return j{"material_type": "PLA", "color": color, "weight_grams": grams}
}

// addVariants adds a variant in each color, and returns their ids.
func addVariants(t *testing.T, c *testkit.Client, product string, colors ...string) (ids []string) {
	t.Helper()
	var all []j
	for _, color := range colors {
		all = append(all, j{"color": color})
	}
	made := c.Post(t, products+"/"+product+"/variants", j{"variants": all}).Want(201)
	for i := range colors {
		ids = append(ids, made.Text(fmt.Sprintf("items.%d.id", i)))
	}
	return ids
}

// One request makes variants in ten colors, which follow their product in all but what they have of their own.
func TestVariants(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Tenant(t).User(t, "operator")
	addSpool(t, c, "Blue", 20)
	p := c.Post(t, products, j{"name": "Dragon", "sku": "DRG", "category": "Toys", "selling_price": 12.5,
		"estimated_print_time_minutes": 180, "materials": []j{pla("Black", 45), pla("White", 5)}}).Want(201)
	path := products + "/" + p.ID()
	var variants []j
	for _, color := range strings.Split("Blue Red Green Gold Silver Pink Tan Teal Mauve", " ") {
		variants = append(variants, j{"color": color})
	}
	variants = append(variants, j{"sku": "D-2", "name": "Two tone", "selling_price": 14,
		"variant_materials": []j{{"replaces_color": "black", "color": "Blue"}, {"replaces_color": "White", "color": "Gold"}}})
	made := c.Post(t, path+"/variants", j{"variants": variants}).Want(201).Shows(texts(j{"items.#": 10,
		"items.0.name": "Dragon, Blue", "items.0.sku": "DRG-BLUE", "items.0.selling_price": 12.5, "items.0.total_cost": 1,
		"items.9.name": "Two tone", "items.9.sku": "D-2", "items.9.selling_price": 14}))
	blue, two := products+"/"+made.Text("items.0.id"), products+"/"+made.Text("items.9.id")
	c.Get(t, blue).Shows(texts(j{"variant_of": p.ID(), "category": "Toys", "estimated_print_time_minutes": 180,
		"materials.#": 2, "materials.0.color": "Blue", "materials.0.weight_grams": 45, "materials.1.color": "Blue",
		"total_cost": 1, "variant_materials.#": 1, "variant_materials.0.color": "Blue",
		"variant_materials.0.replaces_color": nil}))
	c.Get(t, two).Shows(texts(j{"materials.0.color": "Blue", "materials.1.color": "Gold"}))
	c.Get(t, products).Shows(texts(j{"total": 11}))
	c.Get(t, products+"?variant_of="+p.ID()).Shows(texts(j{"total": 10, "items.0.variant_of": p.ID()}))
	c.Get(t, products+"?variants=false").Shows(texts(j{"total": 1, "items.0.variant_of": nil}))

	// What changes in the product changes in its variants, in the same request.
	c.Patch(t, path, j{"name": "Wyvern", "category": "Gifts", "selling_price": 13, "labour_minutes": 3}).Want(200)
	screw := createProduct(t, c, "Screw")
	addComponent(t, c, path, screw, 4)
	c.Patch(t, path+"/materials/"+p.Text("materials.0.id"), j{"weight_grams": 95}).Want(200)
	addMaterial(t, c, path, "TPU", "Clear", 7)
	addMaterial(t, c, path, "PVA", "Natural", 1) // a support
	c.Get(t, blue).Shows(texts(j{"name": "Wyvern, Blue", "category": "Gifts", "selling_price": 13, "labour_minutes": 3,
		"components.#": 1, "components.0.quantity": 4, "materials.0.weight_grams": 95, "materials.2.material_type": "TPU",
		"materials.2.color": "Blue", "materials.3.color": "Natural", "material_cost": 2}))
	c.Get(t, two).Shows(texts(j{"name": "Two tone", "selling_price": 14, "materials.2.color": "Clear"}))
	c.Delete(t, path+"/materials/"+p.Text("materials.1.id")).Want(204)
	c.Delete(t, path+"/components/"+c.Get(t, path).Text("components.0.id")).Want(204)
	c.Get(t, two).Shows(texts(j{"materials.#": 3, "components.#": 0, "variant_materials.#": 2}))

	// A name and a price of its own end with null, or with those of the product.
	c.Patch(t, two, j{"selling_price": nil, "name": "Wyvern, Blue / Gold"}).Want(200)
	c.Patch(t, path, j{"name": "Drake", "selling_price": 15}).Want(200)
	c.Get(t, two).Shows(texts(j{"name": "Drake, Blue / Gold", "selling_price": 15, "sku": "D-2"}))
	c.Patch(t, two, j{"variant_materials": []j{{"color": "Navy"}}}).Want(200).Shows(texts(j{"name": "Drake, Navy",
		"materials.0.color": "Navy", "variant_materials.#": 1}))
	c.Patch(t, two, j{"variant_materials": []j{}}).Want(200).Shows(texts(j{"materials.0.color": "Black"}))
}

// A variant of a product with plates has plates of its own, in its colors.
func TestVariantsOfPlates(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Tenant(t).User(t, "operator")
	addSpool(t, c, "Blue", 20)
	p := c.Post(t, products, onPlates).Want(201)
	path := products + "/" + p.ID()
	v := products + "/" + c.Post(t, products, j{"variant_of": p.ID(), "variant_materials": []j{
		{"replaces_color": "Red", "color": "Blue"}}}).Want(201).Shows(texts(j{"name": "Dragon, Blue", "plates.#": 2,
		"plates.0.materials.0.color": "Black", "plates.1.materials.0.color": "Blue", "plates.1.name": "Wings",
		"components.#": 2, "total_cost": 1.4, "variant_materials.#": 1})).ID()
	wings := c.Get(t, v).Text("plates.1.id")
	c.Get(t, products+"/"+wings).Shows(texts(j{"name": "Dragon, Blue, Wings", "plate_of": idOf(v),
		"variant_of": p.Text("plates.1.id"), "pieces_per_plate": 2, "variant_materials.#": 0}))
	c.Get(t, products).Shows(texts(j{"total": 2}))
	c.Get(t, products+"?plates=true").Shows(texts(j{"total": 6}))
	// The plate changes, gets a material and a name, and goes.
	base := products + "/" + p.Text("plates.1.id")
	c.Patch(t, base+"/materials/"+p.Text("plates.1.materials.0.id"), j{"weight_grams": 20}).Want(200)
	c.Patch(t, base, j{"name": "Dragon, Tail", "estimated_print_time_minutes": 31}).Want(200)
	addMaterial(t, c, base, "PLA", "Red", 30)
	c.Get(t, v).Shows(texts(j{"total_cost": 2.2, "plates.1.id": wings, "plates.1.name": "Tail",
		"plates.1.materials.#": 2, "plates.1.estimated_print_time_minutes": 31}))
	c.Delete(t, path+"/components/"+p.Text("components.1.id")).Want(204)
	c.Get(t, v).Shows(texts(j{"plates.#": 1, "components.#": 1, "total_cost": 1.2, "variant_materials.#": 1}))
	c.Get(t, products+"/"+wings).Want(404)
	c.Get(t, products+"?plate_of="+idOf(v)).Shows(texts(j{"total": 1}))
	c.Post(t, products+"/"+wings+"/restore", nil).Want(409)
	c.Post(t, base+"/restore", nil).Want(200)
	c.Get(t, v).Shows(texts(j{"plates.#": 2, "plates.1.id": wings, "plates.1.materials.0.color": "Blue",
		"total_cost": 2.2}))
	c.Patch(t, path, j{"plates": []j{{"id": p.Text("plates.1.id"), "quantity": 3}, {"name": "Egg", "materials": []j{
		pla("Red", 100)}}}}).Want(200)
	c.Get(t, v).Shows(texts(j{"plates.#": 2, "plates.0.quantity": 3, "plates.1.name": "Egg", "total_cost": 5}))
	c.Get(t, products+"?plates=true").Shows(texts(j{"total": 6}))
	// With the variant go its plates, and come back as the product is then.
	c.Delete(t, v).Want(204)
	c.Patch(t, path, j{"plates": []j{{"id": p.Text("plates.1.id")}}}).Want(200)
	c.Get(t, products+"?plates=true").Shows(texts(j{"total": 2}))
	c.Post(t, v+"/restore", nil).Want(200).Shows(texts(j{"plates.#": 1, "plates.0.quantity": 3, "total_cost": 3}))
	c.Get(t, products+"?plates=true").Shows(texts(j{"total": 4}))
}

// No variant loses its colors when its product becomes one with plates, or when its materials get other colors.
func TestVariantsKeepColors(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Tenant(t).User(t, "operator")
	p := c.Post(t, products, j{"name": "Dragon", "sku": "DRG", "materials": []j{pla("Black", 45), pla("White", 5)}}).
		Want(201)
	path := products + "/" + p.ID()
	blue := products + "/" + addVariants(t, c, p.ID(), "Blue")[0]
	two := products + "/" + c.Post(t, products, j{"variant_of_sku": "DRG", "variant_materials": []j{
		{"replaces_color": "Black", "color": "Red"}, {"replaces_color": "White", "color": "Gold"}}}).Want(201).ID()
	c.Patch(t, path+"/materials/"+p.Text("materials.0.id"), j{"color": "Graphite"}).Want(200)
	c.Get(t, two).Shows(texts(j{"materials.0.color": "Red", "variant_materials.0.replaces_color": "Graphite"}))
	c.Patch(t, path, j{"plates": []j{{"materials": []j{pla("Graphite", 45)}}, {"materials": []j{pla("White", 5)}},
		{"materials": []j{pla("Pink", 1)}}}}).Want(200)
	c.Get(t, blue).Shows(texts(j{"name": "Dragon, Blue", "sku": "DRG-BLUE", "materials.#": 0,
		"plates.0.materials.0.color": "Blue", "plates.1.materials.0.color": "Blue", "plates.2.materials.0.color": "Blue"}))
	c.Get(t, two).Shows(texts(j{"name": "Dragon, Red / Gold", "plates.0.materials.0.color": "Red",
		"plates.1.materials.0.color": "Gold", "plates.2.materials.0.color": "Pink"}))
	c.Patch(t, path, j{"plates": []j{}}).Want(200)
	c.Get(t, two).Shows(texts(j{"plates.#": 0, "components.#": 0, "variant_materials.#": 2}))
	addMaterial(t, c, path, "PLA", "white", 3)
	c.Get(t, two).Shows(texts(j{"materials.#": 1, "materials.0.color": "Gold"}))
}

// A material of a variant keeps its color, whatever the product has instead of the material that it replaced.
func TestVariantsKeepReplaced(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Tenant(t).User(t, "operator")
	filament := func(color string) string {
		return c.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": color, "diameter_mm": 1.75}).Want(201).ID()
	}
	variant := func(of string, entries ...j) string {
		return products + "/" + c.Post(t, products, j{"variant_of": of, "variant_materials": entries}).Want(201).ID()
	}
	// Plates with other materials.
	p := c.Post(t, products, onPlates).Want(201)
	path, v := products+"/"+p.ID(), variant(p.ID(), j{"replaces_color": "Red", "color": "Blue"})
	c.Patch(t, path, j{"plates": []j{{"id": p.Text("plates.0.id")}, {"id": p.Text("plates.1.id"),
		"materials": []j{pla("Crimson", 10)}}}}).Want(200)
	c.Get(t, v).Shows(texts(j{"plates.0.materials.0.color": "Black", "plates.1.materials.0.color": "Blue",
		"variant_materials.0.replaces_color": "Crimson"}))
	c.Patch(t, path, j{"plates": []j{{"materials": []j{pla("Black", 1)}}, {"materials": []j{pla("Pink", 1),
		{"material_type": "PETG", "color": "Rose", "weight_grams": 1}}}}}).Want(200)
	c.Get(t, v).Shows(texts(j{"plates.0.materials.0.color": "Black", "plates.1.materials.0.color": "Blue",
		"plates.1.materials.1.color": "Rose", "variant_materials.#": 1}))
	c.Patch(t, path, j{"plates": []j{}}).Want(200)
	addMaterial(t, c, path, "PLA", "Tan", 3)
	c.Get(t, v).Shows(texts(j{"materials.0.color": "Tan", "variant_materials.0.replaces_color": "Pink"}))
	// Two materials, in their order; and colors that they exchange.
	p = c.Post(t, products, j{"name": "Two", "plates": []j{{"materials": []j{pla("Black", 5), pla("White", 1)}}}}).Want(201)
	path, v = products+"/"+p.ID(), variant(p.ID(), j{"replaces_color": "White", "color": "Gold"},
		j{"replaces_color": "Black", "color": "Red"})
	plate := func(materials ...j) {
		t.Helper()
		c.Patch(t, path, j{"plates": []j{{"id": p.Text("plates.0.id"), "materials": materials}}}).Want(200)
	}
	plate(pla("Ink", 5), pla("Snow", 1))
	c.Get(t, v).Shows(texts(j{"name": "Two, Gold / Red", "plates.0.materials.0.color": "Red",
		"plates.0.materials.1.color": "Gold"}))
	plate(pla("Snow", 5), pla("Ink", 1))
	c.Get(t, v).Shows(texts(j{"variant_materials.#": 2, "plates.0.total_cost": 0}))
	plate(pla("Snow", 5), pla("Rust", 1))
	colors := c.Get(t, v)
	colors.Shows(texts(j{"variant_materials.0.replaces_color": "Snow", "variant_materials.1.replaces_color": "Rust"}))
	// New entries are not those that replaced the materials before.
	c.Patch(t, v, j{"variant_materials": []j{{"replaces_color": "Rust", "color": "Lime"}}}).Want(200).Shows(texts(j{
		"plates.0.materials.0.color": "Snow", "plates.0.materials.1.color": "Lime", "variant_materials.#": 1}))
	// One of two materials of a color gets another one, by its filament and by itself.
	f, sky := filament("Black"), filament("Sky")
	p = c.Post(t, products, j{"name": "Mug", "materials": []j{{"filament_id": f, "weight_grams": 5}, pla("Black", 1),
		pla("White", 1)}}).Want(201)
	path, v = products+"/"+p.ID(), variant(p.ID(), j{"replaces_color": "Black", "color": "Blue"})
	same := variant(p.ID(), j{"filament_id": sky})
	before := c.Get(t, same).Text("updated_at")
	c.Patch(t, "/api/v1/filaments/"+f, j{"color": "Jet"}).Want(200)
	c.Get(t, v).Shows(texts(j{"name": "Mug, Blue", "materials.0.color": "Blue", "materials.1.color": "Blue",
		"materials.2.color": "White", "variant_materials.#": 2, "variant_materials.1.replaces_color": "Jet"}))
	if c.Get(t, same).Text("updated_at") != before { // of many variants, only what differs is written
		t.Error("a variant without a difference was changed")
	}
	// With another type, a material has the color of the filament, but not the filament.
	c.Patch(t, path+"/materials/"+p.Text("materials.1.id"), j{"material_type": "ASA"}).Want(200)
	c.Get(t, same).Shows(texts(j{"materials.0.filament_id": sky, "materials.1.material_type": "ASA",
		"materials.1.color": "Sky", "materials.1.filament_id": nil, "materials.2.filament_id": sky}))
	// The costs of variants are computed with those of the product.
	addSpool(t, c, "Blue", 1000)
	c.Post(t, path+"/recalculate", nil).Want(200)
	c.Get(t, v).Shows(texts(j{"materials.0.cost": 5, "total_cost": 6}))
}

// What changes variants locks their product first, as a change of the product and of its filaments does.
func TestVariantLocks(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Tenant(t).User(t, "operator")
	filament := func(color string) string {
		return c.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": color, "diameter_mm": 1.75}).Want(201).ID()
	}
	own, f := filament("Sky"), filament("Ink")
	p := c.Post(t, products, j{"name": "R", "materials": []j{{"filament_id": f, "weight_grams": 1}}}).Want(201)
	id := c.Post(t, products, j{"variant_of": p.ID(), "sku": "V", "variant_materials": []j{{"filament_id": own}}}).
		Want(201).ID()
	variant := products + "/" + id
	tag := c.Get(t, variant).Header.Get("ETag")
	picture := pngFile(t, 8, 8, color.NRGBA{1, 0, 0, 255})
	for name, do := range map[string]func() *testkit.Response{
		"picture": func() *testkit.Response {
			return c.With("Content-Type", catalog.FileMedia).Do(t, "PUT", variant+"/picture", picture)
		},
		"no picture": func() *testkit.Response { return c.Do(t, "DELETE", variant+"/picture", nil) },
		"patch":      func() *testkit.Response { return c.With("If-Match", tag).Do(t, "PATCH", variant, j{"sku": "W"}) },
		"colors":     func() *testkit.Response { return c.Patch(t, variant, j{"selling_price": 3}) },
		"import":     func() *testkit.Response { return importProducts(t, c, "mode=update", "id,selling_price\n"+id+",4\n") },
		"filament":   func() *testkit.Response { return c.Patch(t, "/api/v1/filaments/"+f, j{"color": "Jet"}) },
		"own":        func() *testkit.Response { return c.Patch(t, "/api/v1/filaments/"+own, j{"color": "Sea"}) },
	} {
		h := c.Hold(t, `select from products where id = '`+p.ID()+`' for update`)
		var a *testkit.Response
		done := h.StartWaiting(1, func() { a = do() })
		// This fails if the request, which waits for the product, has locked the variant.
		c.Hold(t, `select from products where id = '`+id+`' for no key update nowait`).Commit()
		h.Commit()
		if <-done; a.Status >= 500 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}

	// A color of a filament that changes meanwhile is not there any more.
	h := c.Hold(t, `update filaments set color = 'Soot' where id = '`+f+`'`)
	var a *testkit.Response
	done := h.StartWaiting(1, func() {
		a = c.Do(t, "POST", products, j{"variant_of": p.ID(), "variant_materials": []j{
			{"replaces_color": "Jet", "color": "Blue"}}})
	})
	h.Commit()
	<-done
	a.WantError(422, "VALIDATION_ERROR")
}

// Copies are made by few statements, whatever their number.
func TestVariantsAreQuick(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Tenant(t).User(t, "operator")
	plates := []j{}
	for range 6 {
		plates = append(plates, j{"materials": []j{pla("Black", 1), pla("White", 2), pla("Red", 3)}})
	}
	p := c.Post(t, products, j{"name": "Big", "plates": plates}).Want(201)
	all := []j{}
	for i := range 100 {
		all = append(all, j{"color": fmt.Sprintf("C%d", i)})
	}
	c.Post(t, products+"/"+p.ID()+"/variants", j{"variants": all}).Want(201) // in less than the 8 s of a request
	c.Patch(t, products+"/"+p.Text("plates.3.id")+"/materials/"+p.Text("plates.3.materials.1.id"),
		j{"weight_grams": 9}).Want(200)
	c.Patch(t, products+"/"+p.ID(), j{"name": "Bigger"}).Want(200)
}

// A file can have a product with its variants. An export that comes back changes nothing.
func TestVariantsInFiles(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Tenant(t).User(t, "operator")
	importProducts(t, c, "mode=create", "name,sku,variant_of_sku,selling_price,category,materials.material_type,"+
		"materials.color,materials.weight_grams,variant_materials.replaces_color,variant_materials.color\n"+
		"Dragon,DRG,,10,Toys,PLA,Black,45,,\nDragon,DRG,,10,Toys,PLA,White,5,,\n,DRG-B,DRG,,,,,,,Blue\n"+
		",DRG-2,DRG,14,Toys,,,,Black,Red\n,DRG-2,DRG,14,Toys,,,,White,Gold\n").Want(200)
	p := c.Get(t, products+"?sku=DRG").Text("items.0.id")
	blue := products + "/" + c.Get(t, products+"?sku=DRG-B").Text("items.0.id")
	two := products + "/" + c.Get(t, products+"?sku=DRG-2").Text("items.0.id")
	c.Get(t, blue).Shows(texts(j{"name": "Dragon, Blue", "variant_of": p, "selling_price": 10, "materials.#": 2,
		"category": "Toys"}))
	c.Get(t, two).Shows(texts(j{"name": "Dragon, Red / Gold", "selling_price": 14, "materials.1.color": "Gold"}))
	export := string(c.Get(t, products+"/export?format=csv").Want(200).Body)
	before := c.Get(t, two).Text("updated_at")
	importProducts(t, c, "mode=update", export).Want(200).Shows(texts(j{"unchanged": 3, "updated": 0}))
	testkit.Equal(t, c.Get(t, two).Text("updated_at"), before, "the import of an export changed a variant")

	// The price of a variant follows, before and after a round trip to another farm.
	other := api.Tenant(t).User(t, "operator")
	importProducts(t, other, "mode=create", export).Want(200).Shows(texts(j{"created": 3}))
	base := products + "/" + other.Get(t, products+"?sku=DRG").Text("items.0.id")
	other.Patch(t, base, j{"selling_price": 99, "name": "Wyvern"}).Want(200)
	other.Get(t, products+"?sku=DRG-B").Shows(texts(j{"items.0.selling_price": 99, "items.0.name": "Wyvern, Blue",
		"items.0.variant_of": idOf(base)}))
	other.Get(t, products+"?sku=DRG-2").Shows(texts(j{"items.0.selling_price": 14, "items.0.name": "Wyvern, Red / Gold"}))

	// A file changes a product alone, or with its variants, in any order.
	importProducts(t, c, "mode=update", strings.Replace(export, ",Toys,", ",Gifts,", 2)).Want(200)
	c.Get(t, two).Shows(texts(j{"category": "Gifts"}))
	edited := strings.ReplaceAll(strings.ReplaceAll(export, ",Toys,", ",New,"), ",45,", ",46,")
	if strings.Contains(export, "Blue") && strings.Count(export, ",45,") != 1 {
		t.Errorf("the export has materials of variants:\n%s", export)
	}
	importProducts(t, c, "mode=update", edited).Want(200).Shows(texts(j{"updated": 3}))
	c.Get(t, blue).Shows(texts(j{"category": "New", "materials.0.weight_grams": 46}))
	lines := strings.SplitAfter(strings.ReplaceAll(edited, ",New,", ",Newer,"), "\n")
	importProducts(t, c, "mode=update", lines[0]+strings.Join(lines[3:], "")+lines[1]+lines[2]).Want(200)
	c.Get(t, two).Shows(texts(j{"category": "Newer"}))
	importProducts(t, c, "mode=update", "sku,selling_price,variant_materials.color\nDRG,12,\nDRG-B,,Navy\n").Want(200)
	c.Get(t, blue).Shows(texts(j{"name": "Dragon, Navy", "selling_price": 12}))

	// A row without a SKU and a name is a variant on its own.
	importProducts(t, other, "mode=create", "variant_of_sku,variant_materials.replaces_color,variant_materials.color\n"+
		"DRG,Black,Rose\nDRG,White,Rust\n").Want(200).Shows(texts(j{"created": 2}))
	other.Get(t, products+"?sort_by=name&sort_order=asc&variant_of="+idOf(base)).Shows(texts(j{"total": 4,
		"items.2.name": "Wyvern, Rose", "items.3.name": "Wyvern, Rust"}))

	// What a variant cannot have is an error of its row, and nothing is imported. So says the check.
	f := c.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": "Sky", "diameter_mm": 1.75}).Want(201)
	for _, test := range []struct{ file, field string }{
		{"sku,category\nDRG-B,Other\n", "line 2 category"},
		{"sku,category\nDRG,Other\nDRG-B,Third\n", "line 3 category"},
		{"sku,variant_of_sku,variant_materials.color\nX,NONE,Tan\n", "line 2 variant_of"},
		{"sku,variant_of_sku,variant_materials.color\nX,DRG-B,Tan\n", "line 2 variant_of"},
		{"sku,variant_of_sku,variant_materials.color\nX,DRG,\n", "line 2 variant_materials.color"},
		{"sku,variant_of_sku,variant_materials.color\nDRG,DRG-B,Tan\n", "line 2 variant_of"},
		{"sku,variant_of_sku,variant_materials.color\nDRG-B,X,Tan\n", "line 2 variant_of"},
		{"sku,variant_of_sku,variant_materials.color\nDRG-B,DRG,Tan\nDRG-2,DRG-B,Tan\n", "line 3 variant_of"},
		{"sku,variant_materials.color\nDRG,Tan\n", "line 2 variant_materials.color"},
		{"sku,variant_materials.color\nDRG-B,Tan\nDRG-B,Pink\n", "line 3 variant_materials.replaces_color"},
		{"sku,variant_materials.replaces_color,variant_materials.color\nDRG-B,Mauve,Tan\n",
			"line 2 variant_materials.replaces_color"},
		{"sku,variant_materials.filament_number\nDRG-B,77\n", "line 2 variant_materials.filament_id"},
		{"sku,variant_materials.filament_id,variant_materials.color\nDRG-B," + f.ID() + ",Tan\n",
			"line 2 variant_materials.color"},
		{"sku,materials.material_type,materials.color,materials.weight_grams\nDRG-B,PLA,Black,45\n",
			"line 2 materials"},
	} {
		for _, path := range []string{"?mode=upsert", "?mode=upsert&dry_run=true"} {
			r := c.With("Content-Type", "text/csv").Do(t, "POST", products+"/import"+path, test.file)
			want := test.field + " "
			if r.Status != 422 || !strings.HasPrefix(r.Text("detail"), want) {
				t.Errorf("%s %q: %d %s, want %s", path, test.file, r.Status, r.Body, test.field)
			}
		}
	}
	c.Get(t, products).Shows(texts(j{"total": 3}))
}

// What a variant does not have of its own, no request changes.
func TestVariantFields(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Tenant(t).User(t, "operator")
	part := createProduct(t, c, "Screw")
	p := c.Post(t, products, j{"name": "Dragon", "sku": "DRG", "description": "x", "materials": []j{pla("Black", 45)},
		"components": []j{{"component_product_id": idOf(part)}}}).Want(201)
	path := products + "/" + p.ID()
	id := addVariants(t, c, p.ID(), "Blue")[0]
	variant := products + "/" + id
	now := c.Get(t, variant)
	plated := c.Post(t, products, onPlates).Want(201)
	ofPlates := c.Get(t, products+"/"+addVariants(t, c, plated.ID(), "Blue")[0])
	plate := products + "/" + ofPlates.Text("plates.0.id")
	f := c.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": "Sky", "diameter_mm": 1.75}).Want(201).ID()
	material := variant + "/materials/" + now.Text("materials.0.id")
	component := variant + "/components/" + now.Text("components.0.id")
	for field, value := range map[string]any{"description": "y", "category": "y", "estimated_print_time_minutes": 1,
		"labour_minutes": 1.5, "pieces_per_plate": 2, "minimum_pieces": 3, "location": "y", "notes": "y", "file_name": "y",
		"file_sha256": "y", "sliced_by": "y", "printer_model": "y", "nozzle_mm": 0.6, "layer_height_mm": 0.3} {
		c.Do(t, "PATCH", variant, j{field: value}).Want(409).Shows(texts(j{"code": "VARIANT_FIELD",
			"errors.0.field": field}))
		c.Patch(t, path, j{field: value}).Want(200)
		c.Get(t, variant).Shows(texts(j{field: value}))
		c.Patch(t, variant, j{field: value}).Want(200) // the same value is no change
	}
	long := strings.Repeat("n", 200)
	for _, test := range []struct {
		method, path string
		body         any
		status       int
		code, field  string
	}{
		{"PATCH", variant, j{"description": nil, "notes": "z"}, 409, "VARIANT_FIELD", "description"},
		{"PATCH", variant, j{"variant_of": nil}, 409, "VARIANT_FIELD", "variant_of"},
		{"PATCH", variant, j{"variant_of": plated.ID()}, 409, "VARIANT_FIELD", "variant_of"},
		{"PATCH", path, j{"variant_of": plated.ID()}, 409, "VARIANT_FIELD", "variant_of"},
		{"PATCH", path, j{"variant_of_sku": "DRG"}, 409, "VARIANT_FIELD", "variant_of_sku"},
		{"PATCH", variant, j{"variant_of_sku": "NONE"}, 409, "VARIANT_FIELD", "variant_of_sku"},
		{"PATCH", variant, j{"plates": []j{}}, 409, "VARIANT_FIELD", ""},
		{"PATCH", variant, j{"plates": []j{{"name": "x"}}}, 409, "VARIANT_FIELD", ""},
		{"PATCH", variant, j{"sku": "DRG"}, 409, "DUPLICATE_SKU", "sku"},
		{"POST", variant + "/materials", pla("Red", 1), 409, "VARIANT_FIELD", ""},
		{"PATCH", material, j{"weight_grams": 1}, 409, "VARIANT_FIELD", ""},
		{"DELETE", material, nil, 409, "VARIANT_FIELD", ""},
		{"POST", variant + "/components", j{"component_product_id": plated.ID()}, 409, "VARIANT_FIELD", ""},
		{"PATCH", component, j{"quantity": 2}, 409, "VARIANT_FIELD", ""},
		{"DELETE", component, nil, 409, "VARIANT_FIELD", ""},
		{"POST", plate + "/materials", pla("Red", 1), 409, "VARIANT_FIELD", ""},
		{"PATCH", plate, j{"category": "x"}, 409, "VARIANT_FIELD", "category"},
		{"PATCH", plate, j{"variant_materials": []j{{"color": "Red"}}}, 422, "VALIDATION_ERROR", "variant_materials"},
		{"PATCH", path, j{"variant_materials": []j{{"color": "Red"}}}, 422, "VALIDATION_ERROR", "variant_materials"},
		{"DELETE", path, nil, 409, "PRODUCT_IN_USE", ""},
		{"DELETE", plate, nil, 400, "PRODUCT_IN_USE", ""},
		{"POST", path + "/components", j{"component_product_id": id}, 400, "COMPONENT_CYCLE", "component_product_id"},
		{"POST", products + "/" + plated.Text("plates.0.id") + "/components", j{"component_product_id": ofPlates.ID()}, 400,
			"COMPONENT_CYCLE", "component_product_id"},
		{"POST", variant + "/variants", j{"variants": []j{{"color": "Red"}}}, 422, "VALIDATION_ERROR", "variant_of"},
		{"POST", plate + "/variants", j{"variants": []j{{"color": "Red"}}}, 422, "VALIDATION_ERROR", "variant_of"},
		{"POST", path + "/variants", j{"variants": []j{}}, 422, "VALIDATION_ERROR", "variants"},
		{"POST", path + "/variants", j{"variants": []j{{"color": "A"}, {}}}, 422, "VALIDATION_ERROR", "variants[1].color"},
		{"POST", path + "/variants", j{"variants": []j{{"color": "A"}, {"color": "B", "sku": "DRG"}}}, 409,
			"DUPLICATE_SKU", "variants"},
		{"POST", path + "/variants", j{"variants": []j{{"color": "A"}, {"variant_materials": []j{{"filament_number": 77}}}}},
			400, "UNKNOWN_REFERENCE", "variants[1].variant_materials[0].filament_number"},
		{"POST", products + "/" + idOf(part) + "/variants", j{"variants": []j{{"color": "A"}}}, 422, "VALIDATION_ERROR",
			"variants[0].variant_materials[0]"},
		{"POST", products, j{"variant_of": id, "name": "x"}, 422, "VALIDATION_ERROR", "variant_of"},
		{"POST", products, j{"variant_of": f, "name": "x"}, 400, "UNKNOWN_REFERENCE", "variant_of"},
		{"POST", products, j{"variant_of_sku": "NONE", "name": "x"}, 400, "UNKNOWN_REFERENCE", "variant_of_sku"},
		{"POST", products, j{"variant_of": p.ID()}, 422, "VALIDATION_ERROR", "variant_materials"},
		{"POST", products, j{"variant_of": p.ID(), "name": "x", "category": "z"}, 409, "VARIANT_FIELD", "category"},
		{"POST", products, j{"variant_of": p.ID(), "name": "x", "materials": []j{pla("Red", 1)}}, 409, "VARIANT_FIELD",
			"materials"},
		{"POST", products, j{"name": "x", "variant_materials": []j{{"color": "Red"}}}, 422, "VALIDATION_ERROR",
			"variant_materials"},
		{"POST", products, j{"variant_materials": []j{{"color": "Red"}}}, 422, "VALIDATION_ERROR", "name"},
		{"PATCH", variant, j{"variant_materials": []j{{"color": "A"}, {"filament_id": f, "color": "Red"}}}, 409,
			"FILAMENT_FIELD", "variant_materials[1].color"},
		{"PATCH", variant, j{"variant_materials": []j{{"replaces_color": "Mauve", "color": "Red"}}}, 422,
			"VALIDATION_ERROR", "variant_materials[0]"},
		{"PATCH", variant, j{"variant_materials": []j{{"replaces_color": "Black", "color": "A"},
			{"replaces_color": "BLACK", "color": "B"}}}, 422, "VALIDATION_ERROR", "variant_materials[1]"},
		{"PATCH", variant, j{"variant_materials": []j{{}}}, 422, "VALIDATION_ERROR", "variant_materials[0].color"},
		{"PATCH", variant, j{"variant_materials": []j{{"color": long + "n"}}}, 422, "VALIDATION_ERROR",
			"variant_materials[0].color"},
	} {
		r := c.Do(t, test.method, test.path, test.body)
		if r.Status != test.status || r.Text("code") != test.code ||
			test.field != "" && r.Text("errors.0.field") != test.field {
			t.Errorf("%s %s %v: %d %s, want %d %s %s", test.method, test.path, test.body, r.Status, r.Body, test.status,
				test.code, test.field)
		}
	}
	c.Get(t, variant).Shows(texts(j{"name": "Dragon, Blue", "sku": "DRG-BLUE", "materials.0.color": "Blue",
		"variant_materials.#": 1}))
	c.Get(t, products+"?variant_of="+p.ID()).Shows(texts(j{"total": 1}))
	// A name too long keeps the colors.
	c.Patch(t, path, j{"name": long}).Want(200)
	c.Get(t, variant).Shows(texts(j{"name": long[:194] + ", Blue"}))
	api.Tenant(t).User(t, "operator").Post(t, path+"/variants", j{"variants": []j{{"color": "A"}}}).Want(404)
}

// The filament of a variant is of the type that it replaces, changes with its filament, and can be hidden.
func TestVariantsOfFilament(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Tenant(t).User(t, "operator")
	filament := func(kind, color string) *testkit.Response {
		return c.Post(t, "/api/v1/filaments", j{"material_type": kind, "color": color, "diameter_mm": 1.75}).Want(201)
	}
	sky, ink, petg := filament("PLA", "Sky"), filament("PLA", "Ink"), filament("PETG", "Sea")
	number, _ := strconv.Atoi(sky.Text("number"))
	p := c.Post(t, products, j{"name": "Mug", "sku": "MUG", "materials": []j{{"filament_id": ink.ID(), "weight_grams": 30},
		{"material_type": "PVA", "color": "Natural", "weight_grams": 4}, pla("Black", 1)}}).Want(201)
	path := products + "/" + p.ID()
	made := c.Post(t, path+"/variants", j{"variants": []j{{"variant_materials": []j{{"filament_number": number}}},
		{"variant_materials": []j{{"filament_id": sky.ID()}}}, {"color": "Tan"}, {"variant_materials": []j{
			{"replaces_material_type": "PLA", "replaces_color": "Ink", "filament_id": petg.ID()}}},
		{"variant_materials": []j{{"replaces_material_type": "PLA", "color": "Lime"},
			{"replaces_color": "Ink", "color": "Rose"}}},
	}}).Want(201)
	at := func(i int) string { return products + "/" + made.Text(fmt.Sprintf("items.%d.id", i)) }
	if a, b := made.Text("items.0.sku"), made.Text("items.1.sku"); a == b || !strings.HasPrefix(b, "MUG-SKY-") {
		t.Errorf("the SKUs are %s and %s", a, b)
	}
	c.Get(t, at(0)).Shows(texts(j{"name": "Mug, Sky", "materials.0.filament_id": sky.ID(), "materials.0.color": "Sky",
		"materials.1.material_type": "PVA", "materials.1.color": "Natural", "materials.2.color": "Sky",
		"materials.2.filament_id": sky.ID(), "variant_materials.0.replaces_material_type": "PLA"}))
	c.Get(t, at(2)).Shows(texts(j{"materials.0.filament_id": nil, "materials.0.color": "Tan",
		"materials.0.diameter_mm": 1.75, "materials.1.material_type": "PVA", "materials.1.color": "Natural"}))
	c.Get(t, at(3)).Shows(texts(j{"materials.0.material_type": "PETG", "materials.2.color": "Black"}))
	c.Get(t, at(4)).Shows(texts(j{"materials.0.color": "Rose", "materials.1.color": "Natural",
		"materials.2.color": "Lime"}))

	// Names, colors and types follow filaments, also on plates and without a use.
	plated := c.Post(t, products, onPlates).Want(201)
	wings := products + "/" + c.Post(t, products, j{"variant_of": plated.ID(), "variant_materials": []j{
		{"replaces_color": "Red", "filament_id": sky.ID()}}}).Want(201).ID()
	before := c.Get(t, at(2)).Text("updated_at")
	c.Patch(t, "/api/v1/filaments/"+sky.ID(), j{"color": "Azure"}).Want(200)
	c.Patch(t, "/api/v1/filaments/"+ink.ID(), j{"color": "Soot", "material_type": "ASA"}).Want(200)
	c.Get(t, wings).Shows(texts(j{"name": "Dragon, Azure", "plates.1.materials.0.color": "Azure",
		"variant_materials.0.color": "Azure"}))
	tan := c.Get(t, at(2)).Shows(texts(j{"materials.0.material_type": "ASA", "materials.0.color": "Tan"}))
	if tan.Text("updated_at") == before {
		t.Error("the changed variant has its old version")
	}
	// With another type, a material has the color of the filament, but not the filament.
	c.Get(t, at(0)).Shows(texts(j{"name": "Mug, Azure", "materials.0.color": "Azure", "materials.0.filament_id": nil,
		"materials.0.material_type": "ASA", "materials.2.color": "Azure", "materials.2.filament_id": sky.ID(),
		"variant_materials.#": 2, "variant_materials.1.replaces_material_type": "ASA"}))
	c.Get(t, at(3)).Shows(texts(j{"materials.0.material_type": "ASA", "materials.0.color": "Sea",
		"variant_materials.0.replaces_material_type": "ASA", "variant_materials.0.replaces_color": "Soot",
		"variant_materials.0.filament_id": nil}))

	// A hidden filament stays; a request cannot choose it. A filament that only an entry names is hidden, too.
	c.Delete(t, wings).Want(204)
	lone := filament("PLA", "Lone")
	c.Patch(t, at(2), j{"variant_materials": []j{{"replaces_color": "Black", "filament_id": lone.ID()}}}).Want(200)
	c.Delete(t, path+"/materials/"+p.Text("materials.2.id")).Want(204)
	for _, id := range []string{sky.ID(), ink.ID(), lone.ID()} {
		c.Delete(t, "/api/v1/filaments/"+id).Want(204)
	}
	c.Patch(t, path, j{"plates": []j{{"materials": []j{pla("White", 5)}}}}).Want(200)
	c.Get(t, at(0)).Shows(texts(j{"plates.0.materials.0.filament_id": sky.ID()}))
	entries := c.Get(t, at(2)).Shows(texts(j{"name": "Mug, Lone", "variant_materials.0.filament_id": lone.ID()}))
	c.Patch(t, at(2), j{"variant_materials": []j{{"replaces_material_type": "PLA", "replaces_color": "Black",
		"color": entries.Text("variant_materials.0.color"), "filament_id": lone.ID()}}}).Want(200)
	c.Do(t, "PATCH", at(4), j{"variant_materials": []j{{"filament_id": lone.ID()}}}).Want(400)
	c.Post(t, wings+"/restore", nil).Want(200).Shows(texts(j{"plates.1.materials.0.filament_id": sky.ID()}))
}

// A variant has the picture of its product until it has its own.
func TestVariantPictures(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Tenant(t).User(t, "operator")
	p := c.Post(t, products, j{"name": "Dragon", "materials": []j{pla("Black", 1)}}).Want(201)
	base, variant := products+"/"+p.ID(), products+"/"+addVariants(t, c, p.ID(), "Blue")[0]
	put := func(path string, size int) string {
		c.With("Content-Type", catalog.FileMedia).Do(t, "PUT", path+"/picture",
			pngFile(t, size, size, color.NRGBA{uint8(size), 0, 0, 255})).Want(204)
		return c.Get(t, path).Text("picture_version")
	}
	first := put(base, 8)
	body := string(c.Get(t, variant+"/picture").Want(200).Body)
	c.Get(t, variant).Shows(texts(j{"picture_version": first}))
	own := put(variant, 16)
	c.Get(t, base).Shows(texts(j{"picture_version": first}))
	second := put(base, 24)
	c.Get(t, variant).Shows(texts(j{"picture_version": own}))
	if string(c.Get(t, variant+"/picture").Want(200).Body) == body {
		t.Error("the variant has the picture of its product")
	}
	c.Delete(t, variant+"/picture").Want(204)
	c.Get(t, variant).Shows(texts(j{"picture_version": second}))
	c.Delete(t, base+"/picture").Want(204)
	c.Get(t, variant).Shows(texts(j{"picture_version": nil}))
	c.Get(t, variant+"/picture").Want(404)
}

// A product has 100 variants, and these have 10,000 materials and components.
func TestVariantLimits(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Tenant(t).User(t, "operator")
	p := c.Post(t, products, j{"name": "Dragon", "sku": "D", "materials": []j{pla("Black", 1)}}).Want(201)
	path := products + "/" + p.ID()
	colors := func(n int, from string) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint(from, i))
		}
		return all
	}
	all := addVariants(t, c, p.ID(), colors(100, "C")...)
	limit := func(r *testkit.Response) {
		t.Helper()
		r.Want(409).Shows(texts(j{"code": "VARIANT_LIMIT"}))
	}
	limit(c.Do(t, "POST", path+"/variants", j{"variants": []j{{"color": "One more"}}}))
	c.Delete(t, products+"/"+all[0]).Want(204)
	addVariants(t, c, p.ID(), "One more")
	limit(c.Do(t, "POST", products+"/"+all[0]+"/restore", nil))
	materials := []j{}
	for range 100 {
		materials = append(materials, pla("Black", 1))
	}
	limit(c.Do(t, "PATCH", path, j{"plates": []j{{"materials": materials}}}))
	entries, many := []j{}, []j{}
	for i := range 100 {
		entries = append(entries, j{"replaces_color": fmt.Sprint("M", i), "color": "A"})
	}
	for range 21 {
		many = append(many, j{"variant_materials": entries})
	}
	limit(c.Do(t, "POST", path+"/variants", j{"variants": many}))
	c.Get(t, path).Shows(texts(j{"plates.#": 0, "materials.#": 1}))
}

// A filament of more than 5,000 variants and plates of variants keeps its color, by the API and a file. The rest of it
// can change, and so can its color if fewer need it.
func TestVariantsOfOneFilament(t *testing.T) {
	t.Parallel()
	testkit.Rig(t)
	c := testkit.New(t, testkit.Options{}, testkit.Features...).Tenant(t).User(t, "operator")
	f := c.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": "Ink", "diameter_mm": 1.75}).Want(201)
	filament := "/api/v1/filaments/" + f.ID()
	plates, all, made := []j{}, []j{}, []string{}
	for range 26 {
		plates = append(plates, j{"materials": []j{{"filament_id": f.ID(), "weight_grams": 1}, pla("White", 1)}})
	}
	for i := range 97 {
		all = append(all, j{"variant_materials": []j{{"replaces_color": "White", "color": fmt.Sprint("C", i)}}})
	}
	for i := range 2 {
		p := c.Post(t, products, j{"name": fmt.Sprint("Dragon ", i), "plates": plates}).Want(201)
		var first string
		for some := range slices.Chunk(all, 10) { // a request with all takes seconds
			first = c.Post(t, products+"/"+p.ID()+"/variants", j{"variants": some}).Want(201).Text("items.0.id")
		}
		made = append(made, p.ID(), first)
	}
	refused := c.Patch(t, filament, j{"color": "Jet", "notes": "x"})
	refused.Fields("color")
	if text := refused.Text("errors.0.message"); !strings.Contains(text, "more than 5,000 variants") {
		t.Error(text)
	}
	c.With("Content-Type", "text/csv").Post(t, "/api/v1/filaments/import?mode=upsert", "id,color\n"+f.ID()+",Jet\n").
		Fields("color")
	c.Get(t, filament).Shows(texts(j{"color": "Ink", "notes": "null"}))
	c.Get(t, products+"/"+made[3]).Shows(texts(j{"plates.25.materials.0.color": "Ink"}))
	c.Patch(t, filament, j{"notes": "x"}).Want(200)
	c.Delete(t, products+"/"+made[1]).Want(204)
	c.Delete(t, products+"/"+made[3]).Want(204)
	c.Patch(t, products+"/"+made[0], j{"plates": []j{}}).Want(200)
	c.Patch(t, filament, j{"color": "Jet"}).Want(200)
}

// A file updates the product, which its variants follow, and no variant.
func TestVariantsOfFiles(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Tenant(t).User(t, "operator")
	p := c.Post(t, products, j{"name": "Dragon", "file_name": "dragon.gcode", "materials": []j{pla("Black", 1)}}).Want(201)
	variant := addVariants(t, c, p.ID(), "Blue")[0]
	c.Get(t, products+"/"+variant).Shows(texts(j{"file_name": "dragon.gcode"}))
	name := "dragon.gcode"
	found, err := catalog.FindFileProduct(db.As(t.Context(), c.Actor), c.API.DB, &name, "")
	if err != nil || found == nil || found.ID != p.ID() {
		t.Errorf("the product of the file is %v, %v", found, err)
	}
	send, file := sent(c), sample(t, "prusaslicer.gcode")
	two := c.Post(t, products, j{"name": "Drake", "materials": []j{pla("Black", 3), pla("White", 4)}}).Want(201).ID()
	navy := c.Post(t, products, j{"variant_of": two, "variant_materials": []j{
		{"replaces_color": "Black", "color": "Navy"}}}).Want(201).ID()
	send.Do(t, "POST", fromFile+"d.gcode&name=Drake&product_id="+two, file).Want(200)
	c.Get(t, products+"/"+navy).Shows(texts(j{"name": "Drake, Navy", "materials.#": 1, "materials.0.color": "Navy",
		"variant_materials.0.replaces_color": c.Get(t, products+"/"+two).Text("materials.0.color")}))
	send.Do(t, "POST", fromFile+"d.gcode&product_id="+variant, file).Want(409).Shows(texts(j{"code": "VARIANT_FIELD"}))
	send.Do(t, "POST", fromFile+"d.gcode&name=Dragon&product_id="+p.ID(), file).Want(200)
	c.Get(t, products+"/"+variant).Shows(texts(j{"file_name": "d.gcode", "name": "Dragon, Blue",
		"estimated_print_time_minutes": 21,
		"materials.0.color":            "Blue"}))
}

// A variant comes back as its product is then, whatever it had when it was removed.
func TestVariantRestored(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Tenant(t).User(t, "operator")
	screw := createProduct(t, c, "Screw")
	p := c.Post(t, products, j{"name": "Dragon", "sku": "D", "materials": []j{pla("Black", 1)},
		"components": []j{{"component_product_id": idOf(screw)}}}).Want(201)
	path, variant := products+"/"+p.ID(), products+"/"+addVariants(t, c, p.ID(), "Blue")[0]
	c.Delete(t, variant).Want(204)
	c.Delete(t, path+"/components/"+p.Text("components.0.id")).Want(204)
	c.Delete(t, screw).Want(204)
	c.Patch(t, path, j{"name": "Wyvern"}).Want(200)
	c.Post(t, variant+"/restore", nil).Want(200).Shows(texts(j{"name": "Wyvern, Blue", "components.#": 0}))
	c.Delete(t, variant).Want(204)
	c.Delete(t, path).Want(204)
	c.Post(t, variant+"/restore", nil).Want(409).Shows(texts(j{"code": "PRODUCT_HIDDEN"}))
	c.Post(t, path+"/restore", nil).Want(200)
	c.Post(t, variant+"/restore", nil).Want(200)
}

// Concurrent changes of a filament, a product and its variants leave the variants equal to the product.
func TestVariantRace(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Tenant(t).User(t, "operator")
	f := c.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": "Sky", "diameter_mm": 1.75}).Want(201)
	p := c.Post(t, products, j{"name": "R", "materials": []j{{"filament_id": f.ID(), "weight_grams": 1},
		pla("White", 1)}}).Want(201)
	path, white := products+"/"+p.ID(), products+"/"+p.ID()+"/materials/"+p.Text("materials.1.id")
	for n := range 12 {
		for i, r := range testkit.Race(t, 4, func(i int) (*testkit.Response, error) {
			switch i {
			case 0:
				return c.Send("PATCH", "/api/v1/filaments/"+f.ID(), j{"color": fmt.Sprint("Sky", n)})
			case 1:
				return c.Send("POST", path+"/variants", j{"variants": []j{{"variant_materials": []j{
					{"replaces_color": "White", "color": fmt.Sprint("W", n)}}}}})
			case 2:
				return c.Send("PATCH", path, j{"name": fmt.Sprint("R", n)})
			}
			return c.Send("PATCH", white, j{"weight_grams": n + 2})
		}) {
			if r.Status >= 300 {
				t.Errorf("%d: %d %s", i, r.Status, r.Body)
			}
		}
	}
	of := c.Get(t, products+"?sort_order=asc&variant_of="+p.ID()).Shows(texts(j{"total": 12}))
	for i := range 12 {
		c.Get(t, products+"/"+of.Text(fmt.Sprintf("items.%d.id", i))).Shows(texts(j{"name": fmt.Sprintf("R11, W%d", i),
			"materials.0.color": "Sky11", "materials.0.filament_id": f.ID(), "materials.1.weight_grams": 13,
			"materials.1.color": fmt.Sprint("W", i)}))
	}
}
