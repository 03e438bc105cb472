package web_test

import (
	"net/url"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// The pages of an editor create, change and remove a resource, and keep what the API refuses.
func TestFilaments(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	b.get(t, "/filaments").want(t, 200).shows(t, "There are no filaments yet.")
	refused := b.get(t, "/filaments/new").want(t, 200).
		submit(t, "/filaments/new", "color", "Sea", "color_hex", "blue", "price", "x").want(t, 422)
	refused.shows(t, "Must be", "Must be a number")
	form := refused.form(t, "/filaments/new")
	if form.Get("color") != "Sea" || form.Get("price") != "x" {
		t.Errorf("what was typed is lost: %v", form)
	}
	form.Set("color_hex", "#0000FF")
	form.Set("price", "18,9")
	form.Set("net_weight_grams", "750")
	first := b.do(t, "POST", "/filaments/new", form).want(t, 303).header.Get("Location")
	testkit.Equal(t, b.do(t, "POST", "/filaments/new", form).want(t, 303).header.Get("Location"), first,
		"a form that was sent twice leads to")
	b.get(t, first).want(t, 200).shows(t, "PLA Sea", "18.9", "750 g", "on 0 spools", "No spools.")
	edit := b.get(t, first+"/edit").want(t, 200)
	edit.submit(t, first+"/edit", "color", "").want(t, 422).shows(t, "Is required.")
	edit.submit(t, first+"/edit", "color", "Deep Sea", "notes", "Dry it", "vendor", "Zed").
		to(t, first).shows(t, "PLA Deep Sea", "Dry it", "Zed")
	b.get(t, first+"/edit").submit(t, first+"/edit", "vendor", "").to(t, first).hides(t, "Zed")
	b.get(t, "/spools/new?filament_id="+strings.TrimPrefix(first, "/filaments/")).
		submit(t, "/spools/new", "quantity", "2").want(t, 303)
	b.get(t, first).want(t, 200).shows(t, "on 2 spools", "Lasts –").
		submit(t, "/stock/new", "minimum_grams", "2 kg").to(t, "/stock").shows(t, "PLA Deep Sea 1.75", "2 kg")
	b.get(t, first).submit(t, "/stock/new", "minimum_grams", "3000").want(t, 422).shows(t, "There is a stock level")
	b.get(t, "/filaments?search=deep").want(t, 200).shows(t, "PLA Deep Sea", "1 filament")
	b.get(t, "/filaments?material=Wood").want(t, 422).shows(t, "Material must be one of")
	b.get(t, first+"/edit").submit(t, first+"/remove").to(t, "/filaments").hides(t, "Deep Sea")

	b.get(t, "/vendors").want(t, 200).shows(t, "Zed", "1 vendor")
	b.get(t, "/vendors/new").submit(t, "/vendors/new", "name", "Acme", "notes", "Next door").
		to(t, "/vendors").shows(t, "Acme", "Next door", "2 vendors")
	b.get(t, "/vendors/new").submit(t, "/vendors/new", "name", "acme").want(t, 422).shows(t,
		"Another vendor has the name")
}

// A new price of a filament offers to change its spools in stock, and no others.
func TestNewPriceOfFilament(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	id := c.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75,
		"net_weight_grams": 1000, "price": 20}).Want(201).ID()
	c.Post(t, "/api/v1/spools/batch", j{"filament_id": id, "quantity": 3}).Want(201)
	empty := "/api/v1/spools/" + c.Get(t, "/api/v1/spools?number=1").Text("items.0.id")
	c.Patch(t, empty, j{"remaining_weight_grams": 0}).Want(200)
	foreign := "/api/v1/spools/" + c.NewSpool(t, 500, j{"purchase_price": 9})
	edit := "/filaments/" + id + "/edit"
	const offer = "Change the price of its spools"
	b.get(t, edit).submit(t, edit, "notes", "New").to(t, "/filaments/"+id).hides(t, offer)
	saved := b.get(t, edit).submit(t, edit, "price", "25.50").to(t, "/filaments/"+id).shows(t, offer)
	c.Get(t, "/api/v1/spools?number=2").Shows(map[string]string{"items.0.purchase_price": "20"})
	prices := "/filaments/" + id + "/spool-prices"
	saved.submit(t, prices).to(t, "/filaments/"+id).says(t, "The price of 2 spools in stock is 25.50.")
	for _, number := range []string{"2", "3"} {
		c.Get(t, "/api/v1/spools?number="+number).Shows(map[string]string{"items.0.purchase_price": "25.5"})
	}
	c.Get(t, empty).Shows(map[string]string{"purchase_price": "20"})
	c.Get(t, foreign).Shows(map[string]string{"purchase_price": "9"})
	b.do(t, "POST", prices, url.Values{"price": {"much"}}).to(t, "/filaments/"+id).shows(t, "No price was changed.")
	c.Get(t, "/api/v1/spools?number=2").Shows(map[string]string{"items.0.purchase_price": "25.5"})
	signIn(t, tenant.User(t, "viewer")).do(t, "POST", prices, url.Values{"price": {"1"}}).want(t, 403)
	signIn(t, api.Operator(t)).do(t, "POST", prices, url.Values{"price": {"1"}})
	c.Get(t, "/api/v1/spools?number=2").Shows(map[string]string{"items.0.purchase_price": "25.5"})
}

// Spools without a filament get theirs from a button, which shows first what it will do.
func TestFilamentsFromSpools(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	const path = "/filaments/from-spools"
	b.get(t, path).want(t, 200).shows(t, "All spools have a filament.")
	for range 2 {
		c.NewSpool(t, 500, nil)
	}
	c.NewSpool(t, 500, j{"color": "Teal", "brand": "Acme"})
	other := api.Operator(t)
	other.NewSpool(t, 500, nil)
	b.get(t, "/filaments").shows(t, "From spools")
	page := b.get(t, path).want(t, 200).shows(t, "PLA Black", "2 spools, a new filament", "PLA Teal · Acme",
		"1 spool, a new filament")
	c.Get(t, "/api/v1/filaments").Shows(map[string]string{"total": "0"})
	page.submit(t, path).to(t, "/filaments").says(t, "Spools with a filament now: 3. New filaments: 2.")
	c.Get(t, "/api/v1/filaments").Shows(map[string]string{"total": "2"})
	b.get(t, path).shows(t, "All spools have a filament.")
	other.Get(t, "/api/v1/filaments").Shows(map[string]string{"total": "0"})
	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, "/filaments").hides(t, "From spools")
	viewer.get(t, path).want(t, 403)
	viewer.do(t, "POST", path, nil).want(t, 403)
}

// A filament has several colors. A new spool shows what it gets from its filament, where the form is empty.
func TestFilamentForms(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	b.get(t, "/filaments/new").submit(t, "/filaments/new", "color", "Dawn", "color_hexes", "#FA6831, red").want(t, 422).
		shows(t, "Several colors :")
	at := b.get(t, "/filaments/new").submit(t, "/filaments/new", "color", "Dawn", "color_hexes", "#FA6831, #1122AA",
		"net_weight_grams", "750", "price", "31.5").want(t, 303).header.Get("Location")
	c.Get(t, "/api/v1"+at).Shows(map[string]string{"color_hexes": "[#FA6831 #1122AA]"})
	b.get(t, at+"/edit").submit(t, at+"/edit", "color_hexes", "").to(t, at)
	c.Get(t, "/api/v1"+at).Shows(map[string]string{"color_hexes": "[]"})

	id := strings.TrimPrefix(at, "/filaments/")
	p := b.get(t, "/spools/new?filament_id="+id).want(t, 200)
	for name, want := range map[string]string{"net_weight_grams": "750", "remaining_weight_grams": "750",
		"purchase_price": "31.5"} {
		in := `name="` + name + `" value="" inputmode="decimal" autocomplete="off" placeholder="` + want + `"`
		testkit.Contains(t, p.text, in, "the page has no %s", in)
	}
	b.get(t, "/spools/new?filament_id=x").want(t, 200)
	spool := p.submit(t, "/spools/new").want(t, 303).header.Get("Location")
	c.Get(t, "/api/v1"+spool).Shows(map[string]string{"net_weight_grams": "750", "purchase_price": "31.5"})
}
