package web_test

import (
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
