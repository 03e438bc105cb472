package web_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// Custom fields have inputs of their type in the edit of a spool, a filament and a vendor, and their values are shown.
func TestCustomFields(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Tenant(t).User(t, "admin")
	b := signIn(t, c)
	add := func(entity, key, kind string, more ...string) *page {
		t.Helper()
		return b.get(t, "/settings/fields/new").submit(t, "/settings/fields/new", append([]string{"name", "Its " + key,
			"entity", entity, "key", key, "type", kind}, more...)...)
	}
	fields := []struct{ key, kind, more, value, shown, wrong string }{
		{"words", "text", "", "a <b> c", "a <b> c", ""},
		{"count", "integer", "pcs", "3", "3 pcs", "many"},
		{"flow", "float", "%", "98,5", "98.5 %", "x"},
		{"nozzle", "integer_range", "°C", "190–220", "190–220 °C", "hot"},
		{"bed", "float_range", "", "50 - 60,5", "50–60.5", "1–x"},
		{"opened", "datetime", "", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z", ""},
		{"dry", "boolean", "", "true", "Yes", "perhaps"},
		{"grade", "choice", "", "B", "B", "C"},
	}
	paths := map[string]string{
		"spool": "/spools/" + c.NewSpool(t, 500, nil),
		"filament": "/filaments/" + c.Post(t, "/api/v1/filaments", j{"color": "Red", "material_type": "PLA",
			"diameter_mm": 1.75}).Want(201).ID(),
		"vendor": "/vendors/" + c.Post(t, "/api/v1/vendors", j{"name": "Acme"}).Want(201).ID(),
	}
	add("spool", "Bad Key", "text").want(t, 422).shows(t, "Must have only lower-case letters")
	for entity, path := range paths {
		for _, f := range fields {
			more := []string{"unit", f.more}
			if f.kind == "choice" {
				more = []string{"choices", "A, B"}
			}
			add(entity, f.key, f.kind, more...).to(t, "/settings/fields").shows(t, "Its "+f.key)
		}
		shown := path
		if entity == "vendor" {
			shown += "/edit"
		}
		for _, f := range fields {
			edit := b.get(t, path+"/edit").want(t, 200).shows(t, "Its "+f.key)
			if f.wrong != "" {
				form := edit.submit(t, path+"/edit", "extra."+f.key, f.wrong).want(t, 422).form(t, path+"/edit")
				if f.kind != "boolean" && f.kind != "choice" && form.Get("extra."+f.key) != f.wrong {
					t.Errorf("%s of a %s: what was typed is lost: %v", f.key, entity, form)
				}
			}
			edit.submit(t, path+"/edit", "extra."+f.key, f.value).want(t, 303)
			if entity != "vendor" {
				b.get(t, shown).want(t, 200).shows(t, f.shown)
			}
		}
		form := b.get(t, path+"/edit").form(t, path+"/edit")
		if form.Get("extra.words") != "a <b> c" || form.Get("extra.bed") != "50–60.5" || form.Get("extra.dry") != "true" {
			t.Errorf("the form of a %s has %v", entity, form)
		}
		b.get(t, path+"/edit").submit(t, path+"/edit", "extra.count", "").want(t, 303)
		testkit.Equal(t, b.get(t, path+"/edit").form(t, path+"/edit").Get("extra.count"), "",
			"the value of a %s was not removed", entity)
	}

	// A default is in the form of a new resource, and several choices are separated by commas.
	c.Post(t, "/api/v1/custom-fields", j{"entity": "filament", "key": "tags", "name": "Tags", "type": "choice",
		"choices": []string{"silk", "matte", "new"}, "multiple": true, "default_value": `["new"]`}).Want(201)
	b.get(t, "/filaments/new").shows(t, "Separated by commas: silk, matte, new").submit(t, "/filaments/new",
		"color", "Blue", "extra.tags", "silk,new").want(t, 303)
	b.get(t, "/filaments/new").submit(t, "/filaments/new", "color", "Green").want(t, 303)
	list := c.Get(t, "/api/v1/filaments").Want(200)
	if list.Text("items.0.extra.tags.0") != "new" || list.Text("items.1.extra.tags.1") != "new" {
		t.Errorf("the filaments have %s", list.Body)
	}
}

// A list that is grouped by filament has a heading for each of them.
func TestGroupedSpools(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	for _, color := range []string{"Red", "Blue"} {
		id := c.Post(t, "/api/v1/filaments", j{"color": color, "material_type": "PLA", "net_weight_grams": 1000,
			"diameter_mm": 1.75}).Want(201).ID()
		c.Post(t, "/api/v1/filaments/"+id+"/spools", j{"quantity": 2}).Want(201)
	}
	c.NewSpool(t, 500, nil)
	p := b.get(t, "/spools?sort=filament").want(t, 200)
	testkit.Equal(t, strings.Count(p.text, `scope="rowgroup"`), 3, "headings: %s", p.words())
	p.shows(t, "Without a filament")
	if b.get(t, "/spools").hides(t, "Without a filament"); strings.Contains(p.text, "sort=filament&amp;sort") {
		t.Errorf("the addresses repeat the order")
	}
}

// The settings show the fields of spools, filaments and vendors, of each of which there can be a hundred.
func TestManyCustomFields(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Tenant(t).User(t, "admin")
	add := func(entity, key string) {
		c.Post(t, "/api/v1/custom-fields", testkit.JSON{"entity": entity, "key": key, "name": "Its " + key,
			"type": "text"}).Want(201)
	}
	add("vendor", "of_vendor")
	for n := range 100 {
		add("spool", fmt.Sprintf("field_%d", n))
	}
	signIn(t, c).get(t, "/settings/fields").want(t, 200).shows(t, "Its field_0").shows(t, "Its field_99").
		shows(t, "Its of_vendor")
}
