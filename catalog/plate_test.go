package catalog_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// onPlates is a dragon of two plates: a black body of 60 g, and wings of 10 g in red, two sets of them on a plate.
var onPlates = j{"name": "Dragon", "plates": []j{
	{"estimated_print_time_minutes": 240, "materials": []j{
		{"material_type": "PLA", "color": "Black", "weight_grams": 60}}},
	{"name": "Wings", "pieces_per_plate": 2, "estimated_print_time_minutes": 30, "materials": []j{
		{"material_type": "PLA", "color": "Red", "weight_grams": 10}}}}}

func addSpool(t *testing.T, c *testkit.Client, color string, price float64) {
	t.Helper()
	c.Post(t, spools, j{"material_type": "PLA", "color": color, "diameter_mm": 1.75, "net_weight_grams": 1000,
		"purchase_price": price}).Want(201)
}

func TestPlates(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	addSpool(t, c, "Black", 20)
	addSpool(t, c, "Red", 30)
	made := c.Post(t, products, onPlates).Want(201)
	path, body, wings := products+"/"+made.ID(), made.Text("plates.0.id"), made.Text("plates.1.id")
	made.Shows(texts(j{"plates.#": 2, "plates.0.plate": 1, "plates.0.name": "plate 1", "plates.0.quantity": 1,
		"plates.1.name": "Wings", "plates.1.plate": 2, "plates.1.pieces_per_plate": 2, "plates.1.materials.0.color": "Red",
		"plates.1.total_cost": 0.3, "components.#": 2, "materials.#": 0, "component_cost": 1.5, "total_cost": 1.5,
		"estimated_print_time_minutes": nil, "plate_of": nil, "costs_complete": true}))
	// A plate is a product of its own, which lists leave out.
	c.Get(t, products+"/"+wings).Shows(texts(j{"name": "Dragon, Wings", "plate_of": idOf(path), "plate": 2,
		"total_cost": 0.3, "plates.#": 0}))
	c.Get(t, products).Shows(texts(j{"total": 1, "items.#": 1, "items.0.id": idOf(path)}))
	c.Get(t, products+"?plates=true").Shows(texts(j{"total": 3}))
	c.Get(t, products+"?plate_of="+idOf(path)).Shows(texts(j{"total": 2}))
	c.Get(t, products+"?id="+wings).Shows(texts(j{"total": 1, "items.0.plate": 2}))
	csv := c.Get(t, products+"/export?format=csv").Want(200)
	if text := string(csv.Body); strings.Count(text, "\n") != 5 || !strings.Contains(text, "Dragon, Wings") {
		t.Errorf("the export is %s", text)
	}
	// Names follow, and costs.
	c.Patch(t, path, j{"name": "Wyvern"}).Want(200).Shows(texts(j{"plates.1.name": "Wings"}))
	c.Get(t, products+"/"+body).Shows(texts(j{"name": "Wyvern, plate 1"}))
	c.Post(t, products+"/"+wings+"/materials", j{"material_type": "PLA", "color": "Black", "weight_grams": 5}).Want(201)
	c.Get(t, path).Shows(texts(j{"total_cost": 1.6}))

	// PATCH has the whole list: it changes, adds and removes.
	patched := c.Patch(t, path, j{"plates": []j{{"id": wings, "quantity": 2, "notes": "flat"},
		{"materials": []j{{"material_type": "PLA", "color": "Black", "weight_grams": 1}}}}}).Want(200)
	patched.Shows(texts(j{"plates.#": 2, "plates.0.id": wings, "plates.0.quantity": 2, "plates.0.notes": "flat",
		"plates.0.name": "Wings", "plates.0.materials.#": 2, "plates.1.plate": 3, "plates.1.name": "plate 3",
		"total_cost": 0.82}))
	c.Get(t, products+"/"+body).WantError(404, "NOT_FOUND")
	kept := patched.Text("plates.0.materials.0.id")
	c.Patch(t, path, j{"plates": []j{{"id": wings, "materials": []j{
		{"material_type": "PLA", "color": "Red", "weight_grams": 12}}}}}).Want(200).Shows(texts(j{"plates.#": 1,
		"plates.0.materials.#": 1, "plates.0.materials.0.id": kept, "plates.0.materials.0.weight_grams": 12,
		"total_cost": 0.72}))
	c.Patch(t, path, j{"description": "no plates named"}).Want(200).Shows(texts(j{"plates.#": 1}))

	// A removed plate comes back by its restoration, with another number if its own is taken.
	c.Patch(t, path, j{"plates": []j{{"id": wings, "plate": 1}}}).Want(200)
	c.Post(t, products+"/"+body+"/restore", nil).Want(200).Shows(texts(j{"plate": 2}))
	c.Get(t, path).Shows(texts(j{"plates.#": 2, "total_cost": 1.92}))
	component := c.Get(t, path).Text("components.1.id")
	c.Delete(t, path+"/components/"+component).Want(204)
	c.Get(t, products+"/"+body).WantError(404, "NOT_FOUND")

	// Plates are hidden and restored with their product.
	c.Delete(t, products+"/"+wings).WantError(400, "PRODUCT_IN_USE")
	c.Delete(t, path).Want(204)
	c.Get(t, products+"/"+wings).WantError(404, "NOT_FOUND")
	c.Get(t, products+"?hidden=true").Shows(texts(j{"total": 1}))
	c.Get(t, products).Shows(texts(j{"total": 0}))
	c.Post(t, products+"/"+wings+"/restore", nil).WantError(409, "PRODUCT_HIDDEN")
	c.Post(t, path+"/restore", nil).Want(200).Shows(texts(j{"plates.#": 1, "plates.0.id": wings, "total_cost": 0.72}))
	c.Get(t, products).Shows(texts(j{"total": 1}))

	// A product that is printed on one plate becomes one with plates, all or nothing.
	other := c.Post(t, products, j{"name": "Hook", "estimated_print_time_minutes": 60, "sku": "H-1", "materials": []j{
		{"material_type": "PLA", "color": "Black", "weight_grams": 5},
		{"material_type": "PLA", "color": "Red", "weight_grams": 1, "is_required": false}}}).Want(201)
	hook := products + "/" + other.ID()
	c.Patch(t, hook, j{"plates": []j{{}}}).Want(200).Shows(texts(j{"materials.#": 1, "materials.0.is_required": false,
		"estimated_print_time_minutes": nil, "plates.0.name": "plate 1"}))
	c.Patch(t, path, j{"sku": "H-1", "plates": []j{}}).WantError(409, "DUPLICATE_SKU")
	c.Get(t, path).Shows(texts(j{"plates.#": 1}))
	c.Patch(t, hook, j{"plates": []j{}}).Want(200).Shows(texts(j{"plates.#": 0, "components.#": 0}))
}

func TestPlatesRefused(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	made := c.Post(t, products, onPlates).Want(201)
	path, body, wings := products+"/"+made.ID(), made.Text("plates.0.id"), made.Text("plates.1.id")
	material := j{"material_type": "PLA", "color": "Black", "weight_grams": 1}
	for _, bad := range []struct {
		body  j
		field string
	}{
		{j{"plates": []j{{}, {"pieces_per_plate": 0}}}, "plates[1].pieces_per_plate"},
		{j{"plates": []j{{"quantity": 0}}}, "plates[0].quantity"},
		{j{"plates": []j{{"plate": 2}, {"plate": 2}}}, "plates[1].plate"},
		{j{"plates": []j{{}, {"materials": []j{{"material_type": "PLA", "color": "Red"}}}}},
			"plates[1].materials[0].weight_grams"},
		{j{"plates": []j{{"materials": []j{{"material_type": "Wood", "color": "Red", "weight_grams": 1}}}}},
			"plates[0].materials[0].material_type"},
		{j{"plates": []j{{"piece": 1}}}, "plates[0].piece"},
		{j{"plates": j{}}, "plates"},
		{j{"plates": slices.Repeat([]j{{}}, 101)}, "plates"},
		{j{"plates": []j{{}}, "pieces_per_plate": 2}, "pieces_per_plate"},
		{j{"plates": []j{{}}, "estimated_print_time_minutes": 2}, "estimated_print_time_minutes"},
	} {
		c.Patch(t, path, bad.body).Fields(bad.field)
		bad.body["name"] = "Bad"
		c.Post(t, products, bad.body).Fields(bad.field)
	}
	c.Post(t, products, j{"name": "Bad", "materials": []j{material}, "plates": []j{{}}}).Fields("materials")
	c.Patch(t, path, j{"plates": []j{{"id": wings}, {"id": wings}}}).Fields("plates[1].id")
	c.Patch(t, path, j{"plates": []j{{"id": wings}, {"plate": 2}}}).Fields("plates")
	unknown := j{"plates": []j{{}, {"id": "0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2b01"}}}
	c.Patch(t, path, unknown).WantError(400, "UNKNOWN_REFERENCE").Shows(texts(j{"errors.0.field": "plates[1].id"}))
	c.Patch(t, path, j{"plates": []j{{"materials": []j{{"filament_number": 77, "weight_grams": 1}}}}}).
		WantError(400, "UNKNOWN_REFERENCE").Shows(texts(j{"errors.0.field": "plates[0].materials[0].filament_number"}))
	// A plate of another product is unknown, also as a component.
	second := c.Post(t, products, onPlates).Want(201)
	c.Patch(t, path, j{"plates": []j{{"id": second.Text("plates.0.id")}}}).WantError(400, "UNKNOWN_REFERENCE")
	c.Post(t, path+"/components", j{"component_product_id": second.Text("plates.0.id")}).
		WantError(400, "UNKNOWN_REFERENCE")
	c.Post(t, products, j{"name": "Kit", "components": []j{{"component_product_id": wings}}}).
		WantError(400, "UNKNOWN_REFERENCE")
	// Plates have no plates, and no product contains itself through a plate.
	c.Patch(t, products+"/"+wings, j{"plates": []j{{}}}).WantError(409, "PLATE_OF_PLATE")
	c.Post(t, products+"/"+wings+"/components", j{"component_product_id": idOf(path)}).
		WantError(400, "COMPONENT_CYCLE")
	component := path + "/components/" + made.Text("components.0.id")
	c.Patch(t, component, j{"component_product_id": second.ID()}).WantError(409, "COMPONENT_IS_PLATE")
	c.Patch(t, component, j{"quantity": 3}).Want(200)
	c.Patch(t, component, j{"component_product_id": body, "quantity": 1}).Want(200)

	// Other farms and roles.
	stranger := api.Operator(t)
	stranger.Get(t, products+"/"+wings).WantError(404, "NOT_FOUND")
	stranger.Patch(t, path, j{"plates": []j{}}).WantError(404, "NOT_FOUND")
	own := stranger.Post(t, products, j{"name": "Own"}).Want(201)
	stranger.Patch(t, products+"/"+own.ID(), j{"plates": []j{{"id": wings}}}).WantError(400, "UNKNOWN_REFERENCE")
	stranger.Get(t, products+"?plates=true&plate_of="+idOf(path)).Shows(texts(j{"total": 0}))
	tenant.User(t, "viewer").Patch(t, path, j{"plates": []j{}}).WantError(403, "FORBIDDEN")

	c.Get(t, path).Shows(texts(j{"plates.#": 2, "plates.0.id": body, "plates.0.quantity": 1, "plates.1.id": wings}))
	c.Get(t, products).Shows(texts(j{"total": 2}))
}

// project returns a sliced project of the plates, each with the seconds, the grams of black and those of red.
func project(t *testing.T, plates map[int][3]float64) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(name, text string) {
		w, err := z.Create(name)
		testkit.Check(t, err)
		_, err = w.Write([]byte(text))
		testkit.Check(t, err)
	}
	var config strings.Builder
	for n := 1; n <= 9; n++ {
		plate, ok := plates[n]
		if !ok {
			continue
		}
		fmt.Fprintf(&config, `<plate><metadata key="index" value="%d"/><metadata key="prediction" value="%g"/>`, n, plate[0])
		for i, color := range []string{"#000000", "#FF0000"} {
			if plate[1+i] > 0 {
				fmt.Fprintf(&config, `<filament id="%d" type="PLA" color="%s" used_m="1" used_g="%g"/>`, i+1, color, plate[1+i])
			}
		}
		config.WriteString("</plate>")
		add(fmt.Sprintf("Metadata/plate_%d.gcode", n), "; HEADER_BLOCK_START\n; BambuStudio 01.09.05.51\nG28\n")
	}
	add("Metadata/slice_info.config", "<config>"+config.String()+"</config>")
	testkit.Check(t, z.Close())
	return b.String()
}

func TestPlatesFromFile(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	addFilament(t, c, j{"material_type": "PLA", "color": "Black", "color_hex": "#000000"})
	addFilament(t, c, j{"material_type": "PLA", "color": "Red", "color_hex": "#FF0000"})
	three := project(t, map[int][3]float64{1: {3600, 40, 0}, 2: {1800, 0, 10}, 3: {600, 2, 1}})
	path := fromFile + "dragon.gcode.3mf"
	sent(c).Post(t, path+"&dry_run=true", three).Want(200).Shows(texts(j{"action": "created", "product_id": nil,
		"estimated_print_time_minutes": 100, "plates.#": 3, "plates.2.minutes": 10, "plates.2.materials.1.filament": 2,
		"plates.2.materials.1.weight_grams": 1, "materials.0.weight_grams": 42}))
	c.Get(t, products).Shows(texts(j{"total": 0}))
	made := sent(c).Post(t, path, three).Want(200)
	id := made.Text("product_id")
	of := func() *testkit.Response { return c.Get(t, products+"/"+id).Want(200) }
	first := of()
	first.Shows(texts(j{"name": "dragon", "plates.#": 3, "plates.0.estimated_print_time_minutes": 60,
		"plates.0.pieces_per_plate": 1, "plates.1.materials.0.color": "Red", "plates.2.materials.#": 2,
		"plates.2.materials.1.weight_grams": 1, "estimated_print_time_minutes": nil, "materials.#": 0,
		"file_name": "dragon.gcode.3mf", "plates.0.file_name": "dragon.gcode.3mf"}))
	c.Get(t, products+"?file_sha256="+made.Text("file_sha256")).Shows(texts(j{"total": 1, "items.0.id": id}))
	sent(c).Post(t, path+"&product_id="+id, three).Want(200).Shows(texts(j{"action": "unchanged", "changes.#": 0}))

	// Another file has two plates: one is changed, one is gone.
	c.Patch(t, products+"/"+id, j{"plates": []j{{"id": first.Text("plates.0.id")}, {"id": first.Text("plates.1.id"),
		"pieces_per_plate": 2}, {"id": first.Text("plates.2.id")}}}).Want(200)
	two := project(t, map[int][3]float64{1: {3600, 50, 0}, 2: {1800, 0, 20}})
	dry := sent(c).Post(t, path+"&dry_run=true&product_id="+id, two).Want(200)
	dry.Shows(texts(j{"action": "updated", "changes.#": 4, "changes.0.field": "file_sha256",
		"changes.1.field": "plates.1.materials.PLA Black", "changes.1.old": 40, "changes.1.new": 50,
		"changes.2.field": "plates.2.estimated_print_time_minutes", "changes.2.new": 15,
		"changes.3.field": "plates.3", "changes.3.old": "plate 3", "changes.3.new": nil}))
	of().Shows(texts(j{"plates.#": 3}))
	sent(c).Post(t, path+"&product_id="+id, two).Want(200).Shows(texts(j{"action": "updated"}))
	of().Shows(texts(j{"plates.#": 2, "plates.0.id": first.Text("plates.0.id"), "plates.0.materials.0.weight_grams": 50,
		"plates.0.materials.0.id": first.Text("plates.0.materials.0.id"), "plates.1.materials.0.weight_grams": 10,
		"plates.1.pieces_per_plate": 2, "plates.1.estimated_print_time_minutes": 15}))
	sent(c).Post(t, path+"&product_id="+id, two).Want(200).Shows(texts(j{"action": "unchanged"}))

	// One plate of a file changes only that, or adds it.
	sent(c).Post(t, path+"&plate=3&product_id="+id, three).Want(200).Shows(texts(j{"changes.0.field": "plates.3"}))
	of().Shows(texts(j{"plates.#": 3, "plates.0.materials.0.weight_grams": 50, "plates.2.materials.#": 2}))
	again := project(t, map[int][3]float64{3: {1200, 3, 1}})
	sent(c).Post(t, path+"&product_id="+id, again).Want(200).Shows(texts(j{"action": "updated"}))
	of().Shows(texts(j{"plates.#": 3, "plates.2.estimated_print_time_minutes": 20,
		"plates.2.materials.0.weight_grams": 3}))
	plate := of().Text("plates.0.id")
	sent(c).Post(t, path+"&product_id="+plate, two).Fields("plate")
	sent(c).Post(t, path+"&plate=1&product_id="+plate, three).Want(200).Shows(texts(j{"action": "updated"}))
	of().Shows(texts(j{"plates.#": 3, "plates.0.materials.0.weight_grams": 40}))

	// A product of one plate gets the plates of the file, and two pieces of each.
	single := createProduct(t, c, "Old")
	c.Post(t, single+"/materials", j{"material_type": "PLA", "color": "Black", "weight_grams": 9}).Want(201)
	sent(c).Post(t, path+"&pieces=2&product_id="+idOf(single), two).Want(200)
	c.Get(t, single).Shows(texts(j{"name": "Old", "materials.#": 0, "plates.#": 2, "plates.0.pieces_per_plate": 2,
		"plates.0.materials.0.weight_grams": 25, "plates.0.estimated_print_time_minutes": 30}))
}

// A plate that was removed, in whatever way, comes back as often as its product needed it.
func TestRestoredPlateQuantity(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	made := c.Post(t, products, j{"name": "Dragon", "plates": []j{{"name": "Body"}, {"name": "Wings", "quantity": 4}}}).
		Want(201)
	path, body, wings := products+"/"+made.ID(), made.Text("plates.0.id"), made.Text("plates.1.id")
	for _, remove := range []func(){
		func() { c.Patch(t, path, j{"plates": []j{{"id": body}}}).Want(200) },
		func() { c.Patch(t, path, j{"plates": []j{}}).Want(200) },
		func() { c.Delete(t, path+"/components/"+c.Get(t, path).Text("components.1.id")).Want(204) },
	} {
		remove()
		c.Post(t, products+"/"+body+"/restore", nil).Want(200)
		c.Post(t, products+"/"+wings+"/restore", nil).Want(200)
		c.Get(t, path).Want(200).Shows(texts(j{"plates.#": 2, "plates.0.quantity": 1, "plates.1.quantity": 4,
			"plates.1.name": "Wings"}))
	}
}

// A new plate beside one with the highest number has a free one.
func TestHighestPlateNumber(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	made := c.Post(t, products, j{"name": "Dragon", "plates": []j{{"plate": 1_000_000}, {}}}).Want(201)
	made.Shows(texts(j{"plates.0.plate": 1, "plates.1.plate": 1_000_000}))
	path, first, last := products+"/"+made.ID(), made.Text("plates.0.id"), made.Text("plates.1.id")
	c.Patch(t, path, j{"plates": []j{{"id": last}, {}}}).Want(200).Shows(texts(j{"plates.#": 2, "plates.0.plate": 1}))
	c.Post(t, products+"/"+first+"/restore", nil).Want(200).Shows(texts(j{"plate": 2}))
	c.Post(t, products, j{"name": "D", "plates": []j{{"plate": 1_000_001}}}).Fields("plates[0].plate")
}

// A plate that was removed stays so when its product changes or is removed: its product has it no more, it keeps the
// time of its removal, and another plate can have its number.
func TestRemovedPlateStaysRemoved(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	made := c.Post(t, products, j{"name": "Dragon", "plates": []j{{"name": "Body"}, {"name": "Wings"},
		{"name": "Tail"}}}).Want(201)
	path := products + "/" + made.ID()
	body, wings, tail := made.Text("plates.0.id"), made.Text("plates.1.id"), made.Text("plates.2.id")
	plates := func(list ...j) *testkit.Response { return c.Patch(t, path, j{"plates": list}) }
	hiddenAt := func() string { return c.Get(t, products+"?hidden=true&id="+tail).Want(200).Text("items.0.hidden_at") }
	plates(j{"id": body}, j{"id": wings}).Want(200)
	removed := hiddenAt()
	plates(j{"id": body}, j{"id": wings}).Want(200)
	testkit.Equal(t, hiddenAt(), removed, "the time of the removal after a change of the product")
	plates(j{"id": body}, j{"id": tail}).WantError(400, "UNKNOWN_REFERENCE")
	c.Delete(t, path).Want(204)
	testkit.Equal(t, hiddenAt(), removed, "the time of the removal after that of the product")
	c.Post(t, path+"/restore", nil).Want(200).Shows(texts(j{"plates.#": 2}))

	// A new plate has the number of the body for a while; then it is free for the body again.
	plates(j{"id": wings}, j{"plate": 1}).Want(200)
	plates(j{"id": wings}).Want(200)
	c.Post(t, products+"/"+body+"/restore", nil).Want(200).Shows(texts(j{"plate": 1}))
}
