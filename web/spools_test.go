package web_test

import (
	"net/url"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

func TestSpoolList(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	b.get(t, "/spools").want(t, 200).shows(t, "There are no spools yet.", "Add the first spools")
	red := c.NewSpool(t, 120, j{"color": "Red", "location": "Shelf A", "brand": "Acme"})
	blue := c.NewSpool(t, 800, j{"color": "Blue", "material_type": "PETG"})
	c.NewSpool(t, 0, j{"color": "Grey"})

	b.get(t, "/spools").want(t, 200).shows(t, "PLA Red #1 · Acme", "120 g", "Shelf A", "PETG Blue", "3 spools")
	b.get(t, "/spools?material=PETG").want(t, 200).shows(t, "PETG Blue", "1 spool").hides(t, "PLA Red")
	b.get(t, "/spools?stock=false").want(t, 200).shows(t, "PLA Grey").hides(t, "PLA Red", "PETG Blue")
	b.get(t, "/spools?vendor=acme&location=shelf+a&color=red").want(t, 200).shows(t, "PLA Red", "1 spool")
	b.get(t, "/spools?search=nothing").want(t, 200).shows(t, "No spool matches.")
	b.get(t, "/spools?page=2").want(t, 200).hides(t, "PLA Red")
	b.get(t, "/spools?material=Wood").want(t, 422).shows(t, "Material must be one of")
	if words := b.get(t, "/spools?sort=least").want(t, 200).words(); strings.Index(words, "PLA Grey") >
		strings.Index(words, "PLA Red") || strings.Index(words, "PLA Red") > strings.Index(words, "PETG Blue") {
		t.Errorf("the order is wrong: %s", words)
	}

	// A list that is too long for the orders without an index does not offer them. Its total is a stored number.
	add := func(rows string) {
		testkit.ExecURL(t, testkit.Private().SuperURL(), `update counters set total = total + `+rows+`
			where kind = 'spools' and tenant_id = '`+c.Actor.Tenant+`'`)
	}
	b.get(t, "/spools").shows(t, "Newest first Number Least filament first")
	add("100000")
	b.get(t, "/spools").shows(t, "Newest first Number More filters")
	b.get(t, "/spools?vendor=acme").shows(t, "1 spool", "Newest first Number Least filament first")
	b.get(t, "/spools?sort=least").shows(t, "Newest first Number Least filament first More filters")
	add("-100000")

	// The search box of all pages.
	b.get(t, "/search?q=%231").want(t, 303)
	b.get(t, "/search?q=1").want(t, 303) // nothing else is found
	b.get(t, "/search?q=acme").want(t, 200).shows(t, "PLA Red", "120 g").hides(t, "PETG Blue")
	b.get(t, "/search?q=nothing").want(t, 200).shows(t, "Nothing was found.")
	b.get(t, "/search").want(t, 200).hides(t, "Nothing was found.")

	// Several spools at once.
	list := b.get(t, "/spools?sort=number")
	form := list.form(t, "/spools?sort=number")
	form["id"] = []string{red, blue}
	const change = "/spools/change?sort=number"
	edit := b.do(t, "POST", change, form).want(t, 200).shows(t, "Edit the chosen spools", "2 spools")
	testkit.Equal(t, len(edit.form(t, change)["id"]), 2, "the chosen spools are lost")
	edit.submit(t, change).want(t, 422).shows(t, "Fill in at least one field.")
	refused := edit.submit(t, change, "purchase_price", "cheap").want(t, 422).shows(t, "Must be a number")
	if got := refused.form(t, change); got.Get("purchase_price") != "cheap" || len(got["id"]) != 2 {
		t.Errorf("what was typed is lost: %v", got)
	}
	refused.submit(t, change, "purchase_price", "19,50", "location", "Box 7").to(t, "/spools?sort=number").
		says(t, "Changed 2 of 2 chosen spools.")
	c.Post(t, "/api/v1/custom-fields", j{"entity": "spool", "key": "dry", "name": "Dried", "type": "boolean"}).Want(201)
	b.do(t, "POST", change, form).want(t, 200).shows(t, "Dried").submit(t, change, "extra.dry", "true").
		to(t, "/spools?sort=number").hides(t, "Undo")
	c.Get(t, "/api/v1/spools/"+red).Shows(map[string]string{"extra.dry": "true"})
	for _, id := range []string{red, blue} {
		c.Get(t, "/api/v1/spools/"+id).Shows(map[string]string{"purchase_price": "19.5", "location": "Box 7"})
	}
	form.Set("action", "archive")
	b.do(t, "POST", "/spools?sort=number", form).to(t, "/spools?sort=number").hides(t, "PLA Red").shows(t, "1 spool")
	b.get(t, "/spools?archived=true").shows(t, "PLA Red", "Archived")
	form.Set("action", "unarchive")
	b.do(t, "POST", "/spools?archived=true", form).to(t, "/spools?archived=true").hides(t, "PLA Red")
	form["id"] = nil
	for _, path := range []string{"/spools?sort=number", change} {
		b.do(t, "POST", path, form).want(t, 422).shows(t, "Choose at least one spool.")
	}
	form["id"] = []string{"x"}
	b.do(t, "POST", "/spools", form).want(t, 422)
}

func TestSpool(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	id := c.NewSpool(t, 500, j{"spool_weight_grams": 200, "location": "A"})
	path, at := "/api/v1/spools/"+id, "/spools/"+id
	number := c.Get(t, path).Text("number")
	b.get(t, "/s/"+number).to(t, at).shows(t, "PLA Black", "500 g", "Added", "Weigh", "Deduct", "Move")
	for _, wrong := range []string{"/s/999", "/s/x", "/s/0", "/s/1234567890", "/spools/x", "/spools/x/edit"} {
		b.get(t, wrong).want(t, 404)
	}

	// A refused form keeps what was typed.
	page := b.get(t, at)
	refused := page.submit(t, at+"/deduct", "weight_grams", "900", "reason", "Calibration").want(t, 422)
	refused.shows(t, "less than the 900 g to deduct")
	if !strings.Contains(page.text, " data-live") || strings.Contains(refused.text, " data-live") {
		t.Error("only the answer to a GET may update by itself")
	}
	if got := refused.form(t, at+"/deduct"); got.Get("weight_grams") != "900" || got.Get("reason") != "Calibration" {
		t.Errorf("what was typed is lost: %v", got)
	}
	for _, wrong := range []string{"", "x", "-1", "1e3", "1,2,3", "0"} {
		refused.submit(t, at+"/deduct", "weight_grams", wrong).want(t, 422)
	}

	// A form that is sent twice has one effect. Other values after "back" are a new one.
	form := refused.form(t, at+"/deduct")
	form.Set("weight_grams", "45,5")
	for range 2 {
		b.do(t, "POST", at+"/deduct", form).to(t, at).shows(t, "Calibration", "−45.5 g")
	}
	c.Get(t, path).Shows(map[string]string{"remaining_weight_grams": "454.5"})
	form.Set("weight_grams", "4.5")
	again := b.do(t, "POST", at+"/deduct", form).want(t, 422).shows(t, "already sent with other values")
	again.submit(t, at+"/deduct").to(t, at)
	c.Get(t, path).Shows(map[string]string{"remaining_weight_grams": "450"})

	page = b.get(t, at)
	page.submit(t, at+"/weigh", "gross_grams", "").want(t, 422)
	page.submit(t, at+"/weigh", "gross_grams", "1.1850").want(t, 422).
		shows(t, "Is 1.185 g, but the empty spool weighs 200 g", "The scale shows this weight")
	ambiguous := page.submit(t, at+"/weigh", "gross_grams", "1,185").want(t, 422).
		shows(t, "1,185 can be read as 1185 or as 1.185")
	c.Get(t, path).Shows(map[string]string{"remaining_weight_grams": "450"})
	ambiguous.submit(t, at+"/weigh", "gross_grams", "1185").to(t, at).shows(t, "985 g")
	b.get(t, at).submit(t, at+"/weigh", "gross_grams", "1.1850").
		submit(t, at+"/weigh", "confirmed", "true").to(t, at)
	c.Get(t, path).Shows(map[string]string{"remaining_weight_grams": "0"})
	b.get(t, at).submit(t, at+"/weigh", "gross_grams", "600").to(t, at).shows(t, "400 g", "Weighed")
	b.get(t, at).submit(t, at+"/move", "location", "Printer 3").to(t, at).shows(t, "Location Printer 3")
	b.get(t, at).submit(t, at+"/archive").to(t, at).shows(t, "Archived", "Take out of the archive")
	b.get(t, at).submit(t, at+"/archive").to(t, at).hides(t, "Take out of the archive")
	b.get(t, at).submit(t, at+"/remove").to(t, "/spools").shows(t, "There are no spools yet.")
	b.get(t, at).want(t, 404)
	b.do(t, "POST", at+"/restore", url.Values{}).to(t, at)
	unknown := c.NewSpool(t, 100, nil)
	b.get(t, "/spools/"+unknown).shows(t, "The weight of the empty spool is not known.")
}

// An edit changes what the visitor changed. If somebody else changed the same field meanwhile, both values are shown.
func TestSpoolEdit(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	id := c.NewSpool(t, 500, j{"location": "A", "notes": "one\ntwo", "purchase_price": 20})
	path, action := "/api/v1/spools/"+id, "/spools/"+id+"/edit"
	edit := b.get(t, action).want(t, 200)
	if got := edit.form(t, action); got.Get("location") != "A" || got.Get("notes") != "one\ntwo" ||
		got.Get("purchase_price") != "20" || got.Get("material_type") != "PLA" {
		t.Errorf("the form has %v", got)
	}
	edit.submit(t, action, "purchase_price", "dear", "color", "").want(t, 422).
		shows(t, "Must be a number", "Is required")

	// Other fields changed meanwhile, also by a printer.
	c.Post(t, path+"/deduct", j{"weight_grams": 5}).Want(200)
	c.Patch(t, path, j{"lot_number": "L1"}).Want(200)
	edit.submit(t, action, "location", "B", "purchase_price", "21,5").to(t, "/spools/"+id)
	c.Get(t, path).Shows(map[string]string{"location": "B", "purchase_price": "21.5", "lot_number": "L1",
		"remaining_weight_grams": "495", "notes": "one\ntwo"})

	// The same field.
	edit = b.get(t, action)
	c.Patch(t, path, j{"location": "Theirs", "supplier": "S"}).Want(200)
	both := edit.submit(t, action, "location", "Mine").want(t, 422).shows(t, "Saved in the meantime: Theirs")
	if got := both.form(t, action); got.Get("location") != "Mine" || got.Get("supplier") != "S" {
		t.Errorf("the form has %v", got)
	}
	c.Get(t, path).Shows(map[string]string{"location": "Theirs"})
	both.submit(t, action).to(t, "/spools/"+id)
	c.Get(t, path).Shows(map[string]string{"location": "Mine", "supplier": "S"})
	both.submit(t, action).to(t, "/spools/"+id) // again

	// Both to the same value is no conflict.
	edit = b.get(t, action)
	c.Patch(t, path, j{"location": "Same"}).Want(200)
	edit.submit(t, action, "location", "Same").to(t, "/spools/"+id)
}

// Forms show and read numbers in the language of the browser.
func TestNumbersOfForms(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	id := c.NewSpool(t, 500, j{"spool_weight_grams": 200, "purchase_price": 29.99, "density_g_cm3": 1.185})
	path, at := "/api/v1/spools/"+id, "/spools/"+id
	for _, test := range []struct{ language, gross, remaining, level, minimum, price, density string }{
		{"en-US", "1,185", "985", "5,000", "5000", "29.99", "1.185"},
		{"de-DE", "1.185", "985", "5.000", "5000", "29,99", "1,185"},
		{"fr-FR", "1\u202f185,5", "985.5", "5 000", "5000", "29,99", "1,185"},
		{"de-CH", "1’185", "985", "5’000", "5000", "29.99", "1.185"},
	} {
		b := signIn(t, c)
		b.header.Set("Accept-Language", test.language+",en;q=0.5")
		b.get(t, at).submit(t, at+"/weigh", "gross_grams", test.gross).to(t, at)
		c.Get(t, path).Shows(map[string]string{"remaining_weight_grams": test.remaining})
		edit := b.get(t, at+"/edit").want(t, 200)
		form := edit.form(t, at+"/edit")
		if form.Get("purchase_price") != test.price || form.Get("density_g_cm3") != test.density {
			t.Errorf("%s: the form shows %v", test.language, form)
		}
		edit.submit(t, at+"/edit", "notes", test.language).to(t, at)
		c.Get(t, path).Shows(map[string]string{"density_g_cm3": "1.185", "purchase_price": "29.99"})
		b.get(t, "/stock/new").submit(t, "/stock/new", "material_type", "PLA", "color", test.language,
			"minimum_grams", test.level).want(t, 303)
		c.Get(t, "/api/v1/stock-levels?limit=1").Shows(map[string]string{"items.0.minimum_grams": test.minimum})
	}
}

func TestNewSpools(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	const action = "/spools/new?own=1"
	own := b.get(t, "/spools/new").want(t, 200)
	refused := own.submit(t, action, "color", "Red", "quantity", "1000", "net_weight_grams", "").want(t, 422)
	refused.shows(t, "Must be", "Is required")
	if got := refused.form(t, action); got.Get("color") != "Red" || got.Get("quantity") != "1000" {
		t.Errorf("what was typed is lost: %v", got)
	}
	form := refused.form(t, action)
	form.Set("quantity", "3")
	form.Set("net_weight_grams", "1000")
	for range 2 {
		b.do(t, "POST", action, form).to(t, "/spools").shows(t, "3 spools", "PLA Red")
	}

	filament := c.Post(t, "/api/v1/filaments", j{"material_type": "PETG", "color": "Blue", "diameter_mm": 1.75,
		"net_weight_grams": 750, "price": 18}).Want(201).ID()
	of := b.get(t, "/spools/new").want(t, 200)
	one := of.submit(t, "/spools/new", "filament_id", filament, "location", "Box").want(t, 303)
	b.get(t, one.header.Get("Location")).want(t, 200).shows(t, "PETG Blue", "750 g", "Box", "18")
	of.submit(t, "/spools/new", "filament_id", "").want(t, 422)
}

// A change of several spools is taken back from the notice, if they had the same value, and nobody changed one since.
func TestUndoChangeOfSpools(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	ids := []string{c.NewSpool(t, 100, j{"location": "A"}), c.NewSpool(t, 100, j{"location": "A"}),
		c.NewSpool(t, 100, j{"location": "B", "purchase_price": 20})}
	has := func(name string, want ...string) {
		t.Helper()
		for i, id := range ids {
			c.Get(t, "/api/v1/spools/"+id).Want(200).Shows(map[string]string{name: want[i]})
		}
	}
	change := func(name, value string, ids ...string) *page {
		t.Helper()
		path := "/spools/change?sort=number"
		if name == "archived" {
			path = "/spools?sort=number"
		}
		return b.do(t, "POST", path, url.Values{"id": ids, "action": {"archive"}, "save": {"1"}, name: {value}}).
			to(t, "/spools?sort=number")
	}
	p := change("location", "C", ids[:2]...).says(t, "Changed 2 of 2 chosen spools.")
	has("location", "C", "C", "B")
	p.take(t).to(t, "/spools?sort=number").says(t, "The change of 2 spools is taken back.")
	has("location", "A", "A", "B")
	p = change("location", "B", ids...).says(t, "Changed 2 of 3 chosen spools.") // one of them is there
	p.take(t)
	has("location", "A", "A", "B")
	testkit.Lacks(t, change("location", "C", ids...).text, ">Undo<", "spools with different values have an Undo")
	change("archived", "", ids...).take(t)
	has("archived", "false", "false", "false")
	change("purchase_price", "5", ids[:2]...).take(t)
	has("purchase_price", "null", "null", "20")

	p = change("location", "D", ids...)
	c.Patch(t, "/api/v1/spools/"+ids[1], j{"notes": "x"}).Want(200)
	p.take(t).want(t, 422).shows(t, "These spools were changed since: 2.")
	has("location", "D", "D", "D")
	for _, wrong := range []string{"", "1", "x.1", "1.", "1.-"} {
		b.do(t, "POST", "/spools/back", url.Values{"numbers": {wrong}, "changes": {"{}"}}).want(t, 404)
	}
	b.do(t, "POST", "/spools/back", url.Values{"numbers": {"1.1"}, "changes": {"{}"}, "since": {"x"}}).want(t, 422)
}
