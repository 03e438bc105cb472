package web_test

import (
	"net/url"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// A material that was removed comes back as it was.
func TestUndoMaterial(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	c.Patch(t, "/api/v1/auth/me", j{"language": "en"}).Want(200)
	b.header.Set("Accept-Language", "de") // numbers and dates follow the browser
	filament := c.Post(t, "/api/v1/filaments", j{"material_type": "PETG", "color": "Red", "diameter_mm": 1.75}).
		Want(201).ID()
	created := c.Post(t, "/api/v1/products", j{"name": "Hook", "materials": []j{
		{"material_type": "PLA", "material_name": "PLA+", "color": hostile, "diameter_mm": 2.85, "weight_grams": 12.5,
			"is_required": false, "notes": hostile},
		{"filament_id": filament, "weight_grams": 7}}}).Want(201)
	at := "/products/" + created.ID()
	for i, want := range []map[string]string{
		{"material_type": "PLA", "material_name": "PLA+", "color": hostile, "diameter_mm": "2.85", "weight_grams": "12.5",
			"is_required": "false", "notes": hostile, "filament_id": "null"},
		{"material_type": "PETG", "color": "Red", "weight_grams": "7", "is_required": "true", "filament_id": filament},
	} {
		id := created.Text([]string{"materials.0.id", "materials.1.id"}[i])
		p := b.get(t, at).submit(t, at+"/materials/"+id+"/remove").to(t, at).says(t, "The material is removed.")
		c.Get(t, "/api/v1"+at+"/materials/"+id).WantError(405, "METHOD_NOT_ALLOWED")
		p.take(t).to(t, at).says(t, "The material is back.")
		back := map[string]string{}
		for name, value := range want {
			back["materials.1."+name] = value
		}
		c.Get(t, "/api/v1"+at).Want(200).Shows(back)
	}
	b.do(t, "POST", at+"/materials/"+filament+"/remove", url.Values{}).want(t, 404)
	b.do(t, "POST", at+"/materials/back", url.Values{"part": {"x"}}).want(t, 422).shows(t, "cannot be restored")
	b.do(t, "POST", at+"/materials/back", url.Values{"part": {"{}"}}).want(t, 422)
}

// Materials, components and plates are changed in place, with an undo. A refused form is open, with what was typed.
func TestChangeParts(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	hook := c.NewProduct(t, "Hook", 10)
	filament := c.Post(t, "/api/v1/filaments", j{"material_type": "PETG", "color": "Red", "diameter_mm": 1.75}).
		Want(201).ID()
	made := c.Post(t, "/api/v1/products", j{"name": "Lamp", "materials": []j{
		{"material_type": "PLA", "color": "Black", "weight_grams": 12.5}, {"filament_id": filament, "weight_grams": 7}},
		"components": []j{{"component_product_id": hook, "quantity": 2}}}).Want(201)
	plates := c.Post(t, "/api/v1/products", j{"name": "Box", "plates": []j{{"name": "Base", "pieces_per_plate": 2},
		{"name": "Lid"}}}).Want(201)
	for _, test := range []struct {
		product, part  string
		change, want   []string // names and values
		wrong, message string
	}{
		{made.ID(), "/materials/" + made.Text("materials.0.id"), []string{"weight_grams", "20", "color", hostile},
			[]string{"materials.0.weight_grams", "20", "materials.0.color", hostile, "materials.1.weight_grams", "7"},
			"weight_grams", "The material is changed."},
		{made.ID(), "/materials/" + made.Text("materials.1.id"), []string{"weight_grams", "8"},
			[]string{"materials.1.weight_grams", "8", "materials.1.filament_id", filament},
			"weight_grams", "The material is changed."},
		{made.ID(), "/components/" + made.Text("components.0.id"), []string{"quantity", "3"},
			[]string{"components.0.quantity", "3"}, "quantity", "The pieces are changed."},
		{plates.ID(), "/plates/" + plates.Text("plates.1.id"), []string{"name", "Cover", "quantity", "4"},
			[]string{"plates.#", "2", "plates.0.name", "Base", "plates.0.pieces_per_plate", "2", "plates.1.name", "Cover",
				"plates.1.quantity", "4"}, "quantity", "The plate is changed."},
	} {
		at, of := "/products/"+test.product, "/api/v1/products/"+test.product
		before, want := map[string]string{}, map[string]string{}
		for i := 0; i < len(test.want); i += 2 {
			before[test.want[i]], want[test.want[i]] = c.Get(t, of).Text(test.want[i]), test.want[i+1]
		}
		p := b.get(t, at).want(t, 200)
		testkit.Lacks(t, p.text, `name="edit" open`, "%s: a form is open", test.part)
		refused := p.submit(t, at+test.part, test.wrong, "x").want(t, 422)
		if refused.form(t, at+test.part).Get(test.wrong) != "x" || !strings.Contains(refused.text, `name="edit" open`) {
			t.Errorf("%s: the refused form is closed, or empty: %s", test.part, refused.words())
		}
		changed := p.submit(t, at+test.part, test.change...).to(t, at).says(t, test.message)
		c.Get(t, of).Want(200).Shows(want)
		changed.take(t).to(t, at).says(t, test.message)
		c.Get(t, of).Want(200).Shows(before)
		b.do(t, "POST", at+test.part[:strings.LastIndexByte(test.part, '/')+1]+hook, url.Values{
			test.wrong: {"2"}, "was." + test.wrong: {"1"}}).want(t, 404)
		stranger := signIn(t, api.Operator(t))
		stranger.do(t, "POST", at+test.part, url.Values{test.wrong: {"2"}}).want(t, 404)
		viewer := signIn(t, tenant.User(t, "viewer"))
		viewer.get(t, at).want(t, 200).hides(t, "Change")
		viewer.do(t, "POST", at+test.part, url.Values{test.wrong: {"2"}}).want(t, 403)
	}
}

// A run that was planned is removed from the notice.
func TestUndoRun(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	p := b.get(t, "/runs/new").submit(t, "/runs/new", "printer_name", "P").want(t, 303)
	at := p.header.Get("Location")
	b.get(t, at).says(t, "The run is planned.").shows(t, "Queue Undo").take(t).to(t, "/runs").
		says(t, "The run is removed.")
	c.Get(t, "/api/v1/production-runs"+at[len("/runs"):]).WantError(404, "NOT_FOUND")
}

// A start is taken back: the run is planned or paused as before. A run is paused on its page. Neither changes a run
// that has ended meanwhile.
func TestUndoStart(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	id := c.Post(t, "/api/v1/production-runs", j{"items": []j{{"product_id": c.NewProduct(t, "A", 10)}},
		"materials": []j{{"spool_id": c.NewSpool(t, 500, nil), "actual_weight_grams": 5}}}).Want(201).ID()
	at, run := "/runs/"+id, "/api/v1/production-runs/"+id
	shows := func(status, started string) {
		t.Helper()
		a := c.Get(t, run).Want(200).Shows(map[string]string{"status": status})
		testkit.Equal(t, a.Text("started_at"), started, "the start of the run")
	}
	shows("pending", "null")
	b.get(t, at).submit(t, at+"/start").to(t, at).says(t, "The run is printing.").take(t).to(t, at).
		says(t, "The run is planned as before.")
	shows("pending", "null")
	b.get(t, at).submit(t, at+"/start").to(t, at)
	started := c.Get(t, run).Text("started_at")
	b.get(t, at).submit(t, at+"/stop").to(t, at).says(t, "The run is paused.")
	shows("paused", started)
	b.get(t, at).submit(t, at+"/start").to(t, at).take(t).to(t, at).says(t, "The run is paused.")
	shows("paused", started)

	undo := b.get(t, at).submit(t, at+"/start").to(t, at)
	c.Post(t, run+"/complete", nil).Want(200)
	undo.take(t).to(t, at).says(t, "The run is not printing: nothing has changed.")
	shows("completed", started)

	// A planned run that has a start already keeps it.
	planned := c.Post(t, "/api/v1/production-runs", j{"started_at": "2026-01-05T08:00:00Z", "status": "pending"}).
		Want(201).ID()
	at, run = "/runs/"+planned, "/api/v1/production-runs/"+planned
	b.get(t, at).submit(t, at+"/start").to(t, at).take(t).to(t, at)
	shows("pending", "2026-01-05T08:00:00Z")
	viewer := signIn(t, c.API.TenantOf(c.Actor.Tenant).User(t, "viewer"))
	viewer.do(t, "POST", at+"/stop", url.Values{}).want(t, 403)
}
