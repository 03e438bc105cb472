package web_test

import (
	"net/url"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// The page of a product makes variants of filaments in stock and of colors, and lists show them below their product.
func TestVariantsOfProduct(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	filament := c.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": hostile, "diameter_mm": 1.75}).Want(201)
	c.Post(t, "/api/v1/spools", j{"filament_id": filament.ID(), "net_weight_grams": 1000}).Want(201)
	c.Post(t, "/api/v1/filaments", j{"material_type": "PETG", "color": "Sky", "diameter_mm": 1.75}).Want(201)
	made := c.Post(t, "/api/v1/products", j{"name": "Dragon", "category": "Toys", "sku": "DRG", "materials": []j{
		{"material_type": "PLA", "color": "Black", "weight_grams": 12.5},
		{"material_type": "PLA", "color": "White", "weight_grams": 2}}}).Want(201)
	at, of := "/products/"+made.ID(), "/api/v1/products?sort_order=asc&variant_of="+made.ID()
	form := at + "?open=variants"
	b.get(t, at).shows(t, "It has one color.", "In several colors")
	b.get(t, form).shows(t, "PLA "+hostile).hides(t, "PETG Sky").submit(t, at+"/variants").
		want(t, 422).shows(t, "Choose filaments, or type colors.")
	b.get(t, form).submit(t, at+"/variants", "filament", filament.Text("number")+" Sky", "colors", "Red, Light gray",
		"sku", "D-{color}", "replaces_color", "Black").to(t, at).says(t, "The variants are added.").
		shows(t, "D-LIGHT-GRAY", "D-SKY", "Light gray")
	list := c.Get(t, of)
	list.Shows(map[string]string{"total": "3", "items.0.sku": "D-SKY", "items.1.sku": "D-RED",
		"items.1.name": "Dragon, Red"})
	red := list.Text("items.1.id")
	c.Get(t, "/api/v1/products/"+red).Shows(map[string]string{"materials.0.color": "Red", "materials.1.color": "White"})
	b.get(t, form).submit(t, at+"/variants", "colors", "Red", "sku", "D-{color}").want(t, 422)

	// A list has the product once, with its variants below; a search finds variants.
	p := b.get(t, "/products").shows(t, "1 product", "D-RED", "Light gray", hostile)
	testkit.Equal(t, strings.Count(p.text, `<tr><td>`), 1, "rows")
	b.get(t, "/products?search=dragon+red").shows(t, "1 product", "Dragon, Red")
	// What follows cannot be changed.
	page := b.get(t, "/products/"+red).shows(t, "The product of this variant", "PLA Red", "Colors of the variant").
		hides(t, "Add the plate", "In several colors", "Update from a file", "Remove PLA Red")
	page.want(t, 200)
	b.get(t, "/products/"+red+"/edit").hides(t, `name="category"`).submit(t, "/products/"+red+"/edit",
		"selling_price", "20", "sku", "RED").to(t, "/products/"+red).says(t, "The product is saved.")
	c.Get(t, "/api/v1/products/"+red).Shows(map[string]string{"selling_price": "20", "sku": "RED", "category": "Toys",
		"name": "Dragon, Red"})
	// Its colors can change: of one material, to a filament, and back.
	b.get(t, "/products/"+red).submit(t, "/products/"+red+"/colors", "variant_materials[0].color", "Tan",
		"variant_materials[1].color", "Gold", "variant_materials[1].replaces_color", "White").to(t, "/products/"+red).
		says(t, "The colors are saved.").shows(t, "Dragon, Tan / Gold")
	b.get(t, "/products/"+red).submit(t, "/products/"+red+"/colors", "variant_materials[0].filament_id", filament.ID(),
		"variant_materials[1].color", "", "variant_materials[1].replaces_color", "").to(t, "/products/"+red)
	c.Get(t, "/api/v1/products/"+red).Shows(map[string]string{"variant_materials.#": "1",
		"materials.0.filament_id": filament.ID(), "materials.1.color": "White"})
	b.get(t, "/products/"+red).submit(t, "/products/"+red+"/colors", "variant_materials[0].replaces_color", "Mauve").
		want(t, 422).shows(t, "replaces no material of the product")
	b.get(t, at+"/edit").submit(t, at+"/remove").want(t, 422).shows(t, "The product has variants")

	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, at).want(t, 200).shows(t, "D-SKY").hides(t, "In several colors")
	viewer.do(t, "POST", at+"/variants", url.Values{"colors": {"Tan"}}).want(t, 403)
	signIn(t, api.Operator(t)).do(t, "POST", at+"/variants", url.Values{"colors": {"Tan"}}).want(t, 404)
}
