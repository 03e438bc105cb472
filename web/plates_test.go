package web_test

import (
	"net/url"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// The page of a product adds plates, removes them and takes that back.
func TestPlatesOfProduct(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	id := c.Post(t, "/api/v1/products", j{"name": hostile, "estimated_print_time_minutes": 60, "pieces_per_plate": 4,
		"materials": []j{{"material_type": "PLA", "color": "Black", "weight_grams": 12.5}}}).Want(201).ID()
	at, of := "/products/"+id, "/api/v1/products/"+id
	b.get(t, at).shows(t, "It is printed on one plate.").submit(t, at+"/plates", "name", "Wings", "weight_grams", "x",
		"material_type", "PLA", "color", "Red").want(t, 422)
	c.Get(t, of).Shows(map[string]string{"plates.#": "0", "materials.#": "1"})
	b.get(t, at).submit(t, at+"/plates", "name", hostile, "weight_grams", "3", "material_type", "PLA", "color", "Red",
		"estimated_print_time_minutes", "30", "pieces_per_plate", "2", "quantity", "2").to(t, at).
		says(t, "The plate is added.").shows(t, "plate 1", "2 h", "12.5 g PLA Black", "2 × "+hostile)
	made := c.Get(t, of)
	made.Shows(map[string]string{"plates.#": "2", "plates.0.materials.0.weight_grams": "12.5",
		"plates.0.pieces_per_plate": "4", "plates.1.name": hostile, "plates.1.quantity": "2", "materials.#": "0"})
	b.get(t, at).submit(t, at+"/plates", "name", "Third").to(t, at).says(t, "The plate is added.")
	c.Get(t, of).Shows(map[string]string{"plates.#": "3", "plates.0.id": made.Text("plates.0.id")})

	second := made.Text("plates.1.id")
	b.get(t, "/products/"+second).want(t, 200).shows(t, "The product of plate 2").hides(t, "Add the plate")
	b.get(t, "/products").hides(t, "plate 1")
	b.get(t, "/runs/new?items[0].product_id="+second).want(t, 200)
	p := b.get(t, at).submit(t, at+"/plates/"+second+"/remove").to(t, at).says(t, "The plate is removed.")
	c.Get(t, of).Shows(map[string]string{"plates.#": "2"})
	p.take(t).to(t, at).says(t, "The plate is back.")
	c.Get(t, of).Shows(map[string]string{"plates.#": "3"})
	b.do(t, "POST", at+"/plates/"+id+"/remove", url.Values{}).want(t, 404)

	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, at).want(t, 200).shows(t, "12.5 g PLA Black").hides(t, "Add the plate")
	viewer.do(t, "POST", at+"/plates", url.Values{"name": {"x"}}).want(t, 403)
	stranger := signIn(t, api.Operator(t))
	stranger.do(t, "POST", at+"/plates", url.Values{"name": {"x"}}).want(t, 404)
	stranger.do(t, "POST", at+"/plates/"+second+"/remove", url.Values{}).want(t, 404)
}

// A sliced project with two plates becomes a product with two.
func TestSlicedPlates(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	const save = "/products/files/save"
	p := b.upload(t, "/products/files", nil, "clips.gcode.3mf", sliced(t, "bambu.gcode.3mf")).want(t, 200).
		shows(t, "Plates of the product", "Plate 1, Clips", "Plate 2")
	saved := b.do(t, "POST", save, p.form(t, save)).want(t, 303).header.Get("Location")
	made := c.Get(t, "/api/v1"+saved).Want(200)
	made.Shows(map[string]string{"plates.#": "2", "plates.0.name": "Clips", "plates.0.estimated_print_time_minutes": "40",
		"plates.0.materials.#": "2", "plates.0.materials.0.weight_grams": "10.04", "plates.1.plate": "2",
		"plates.1.materials.0.weight_grams": "3.05", "plates.1.file_name": "clips.gcode.3mf", "materials.#": "0"})
	if made.Text("plates.0.picture_version") == "null" || made.Text("plates.1.picture_version") == "null" {
		t.Error("the plates have no pictures")
	}
	again := b.upload(t, "/products/files?product="+strings.TrimPrefix(saved, "/products/"), nil, "clips.gcode.3mf",
		sliced(t, "bambu.gcode.3mf"))
	again.want(t, 200).shows(t, "The file changes nothing.")
}
