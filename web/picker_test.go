package web_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// The script of a picker finds what the search of the list finds, page by page, and nothing of another farm.
func TestChoices(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	c := api.Operator(t)
	b, other := signIn(t, c), signIn(t, api.Operator(t))
	for i := range 25 {
		c.Post(t, "/api/v1/products", j{"name": fmt.Sprintf("Foot %02d", i), "sku": fmt.Sprintf("F-%02d", i)}).Want(201)
	}
	filament := c.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": "Red", "diameter_mm": 1.75}).Want(201)
	empty := c.NewSpool(t, 500, j{"color": "Gone"})
	c.Post(t, "/api/v1/spools/"+empty+"/deduct", j{"weight_grams": 500}).Want(200)
	c.NewSpool(t, 430, j{"color": "Teal", "location": "Box"})
	c.Post(t, "/api/v1/orders", j{"customer": "Ada", "reference": "S-1"}).Want(201)
	c.Post(t, "/api/v1/printers", j{"name": "MK4", "slots": 2}).Want(201)
	c.Post(t, "/api/v1/printers", j{"name": "Old", "status": "retired"}).Want(201)

	first := b.get(t, "/choices/products?search=foot").want(t, 200).shows(t, "Foot 00 F-00 · 0 in stock", "Foot 19").
		hides(t, "Foot 20")
	testkit.Contains(t, first.text, `<li hidden data-next="2">`, "there is no next page")
	last := b.get(t, "/choices/products?search=foot&page=2").shows(t, "Foot 20", "Foot 24")
	testkit.Lacks(t, last.text, "data-next", "the last page has a next one")
	for _, test := range []struct{ query, shows, hides string }{
		{"filaments?search=red", "PLA Red", ""}, {"filament-numbers?search=1", "PLA Red", ""},
		{"spools", "#2 PLA Teal 430 g · Box", "Gone"}, {"spools?search=1", "#1 PLA Gone 0 g", "Teal"},
		{"spools?search=" + url.QueryEscape("https://farm.example/s/2"), "#2 PLA Teal", "Gone"},
		{"any-spools?search=gone", "#1 PLA Gone", "Teal"}, {"orders?search=S-1", "Ada S-1", ""},
		{"printers", "MK4", "Old"}, {"any-printers", "Old", ""}, {"slots", "MK4, slot 2 empty", "Old"},
	} {
		p := b.get(t, "/choices/"+test.query).want(t, 200).shows(t, test.shows)
		if test.hides != "" {
			p.hides(t, test.hides)
		}
		other.get(t, "/choices/"+test.query).want(t, 200).hides(t, test.shows)
	}
	b.get(t, "/choices/users").want(t, 404)
	b.get(t, "/choices/products?page=0").want(t, 404)
	b.get(t, "/choices/products?page=99999").want(t, 404)
	b.get(t, "/choices/products?search="+strings.Repeat("x", 101)).want(t, 422)
	newBrowser(t, api.URL).get(t, "/choices/products").want(t, 303)
	if other.get(t, "/choices/filaments").want(t, 200); filament.ID() == "" {
		t.Error("no filament")
	}
}

// A typed number means the spool with this number, and never another one whose texts contain it.
func TestNumberOfRemovedSpool(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	printer := "/printers/" + c.Post(t, "/api/v1/printers", j{"name": "MK4"}).Want(201).ID()
	removed := c.NewSpool(t, 500, nil)
	c.NewSpool(t, 500, j{"location": "Shelf 1"})
	c.Delete(t, "/api/v1/spools/"+removed).Want(204)
	for _, text := range []string{"1", "#1", "9"} {
		b.get(t, printer).submit(t, printer+"/slots/1", "find.spools.spool_number", text).want(t, 422)
	}
	b.get(t, printer).submit(t, printer+"/slots/1", "find.spools.spool_number", "#2").to(t, printer).shows(t, "#2 PLA")
}

// Without JavaScript, a search brings the form back with what was typed and a page of choices. A text counts without a
// choice if it means one thing, and otherwise nothing is saved.
func TestPickerForm(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	c := api.Operator(t)
	b := signIn(t, c)
	ids := map[string]string{}
	for i := range 25 {
		name := fmt.Sprintf("Foot %02d", i)
		ids[name] = c.Post(t, "/api/v1/products", j{"name": name, "sku": fmt.Sprintf("F-%02d", i)}).Want(201).ID()
	}
	ids["Foot"] = c.Post(t, "/api/v1/products", j{"name": "Foot"}).Want(201).ID()
	const text, id = "find.products.items[1].product_id", "items[1].product_id"
	page := b.get(t, "/orders/new").submit(t, "/orders/new", "customer", "Ada", text, "foot", "find", id).want(t, 200)
	page.shows(t, "Foot 00 F-00", "Foot 18", "More").hides(t, "Is required.", "Foot 19")
	page = page.submit(t, "/orders/new", text, "foot", "find", id+" 2").want(t, 200).shows(t, "Foot 19", "Foot 24").
		hides(t, "Foot 18")
	if got := page.form(t, "/orders/new"); got.Get("customer") != "Ada" || got.Get(text) != "foot" {
		t.Errorf("the form has lost what was typed: %v", got)
	}
	if n := c.Get(t, "/api/v1/orders").Text("total"); n != "0" {
		t.Fatalf("a search has saved %s orders", n)
	}
	refused := page.submit(t, "/orders/new", text, "foo").want(t, 422).shows(t, "Choose one of these.", "Foot 10")
	refused.submit(t, "/orders/new", text, "vase").want(t, 422).shows(t, `Nothing matches "vase".`)
	if n := c.Get(t, "/api/v1/orders").Text("total"); n != "0" {
		t.Fatalf("a text without a meaning has saved %s orders", n)
	}
	for text, want := range map[string]string{"foot 24": "Foot 24", "f-07": "Foot 07", "FOOT": "Foot"} {
		at := b.get(t, "/orders/new").submit(t, "/orders/new", "find.products.items[0].product_id", text).want(t, 303).
			header.Get("Location")
		c.Get(t, "/api/v1"+at).Shows(map[string]string{"items.0.product_id": ids[want]})
	}
	chosen := page.submit(t, "/orders/new", text, "", id, ids["Foot 24"]).want(t, 303).header.Get("Location")
	c.Get(t, "/api/v1"+chosen).Shows(map[string]string{"customer": "Ada", "items.0.product_name": "Foot 24"})
	// A form that is shown again for another reason keeps the choice.
	kept := page.submit(t, "/orders/new", text, "", id, ids["Foot 24"], "items[1].quantity", "many").want(t, 422)
	testkit.Equal(t, kept.form(t, "/orders/new").Get(id), ids["Foot 24"], "the choice")
	// Another farm's things are not found, and a form has a bounded number of searches.
	other := signIn(t, api.Operator(t))
	other.do(t, "POST", "/orders/new", url.Values{"find.products.items[0].product_id": {"foot 24"}}).want(t, 422).
		shows(t, "Nothing matches")
	many := url.Values{}
	for i := range 30 {
		many.Set(fmt.Sprintf("find.products.items[%d].product_id", i), "foot 24")
	}
	b.do(t, "POST", "/orders/new", many).want(t, 422)
}

// A line of an order whose name is that of a product proposes it, and only assigning it changes the order.
func TestProposedProduct(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	c := api.Tenant(t).User(t, "admin")
	b := signIn(t, c)
	foot := c.Post(t, "/api/v1/products", j{"name": "Rubber foot", "sku": "RF"}).Want(201).ID()
	hook := c.Post(t, "/api/v1/products", j{"name": "Hook"}).Want(201).ID()
	c.Post(t, "/api/v1/products", j{"name": "Rubber foot, small"}).Want(201)
	api.Operator(t).Post(t, "/api/v1/products", j{"name": "Vase"}).Want(201)
	created := c.Post(t, "/api/v1/orders", j{"source": "shop", "reference": "#1", "unassigned_lines": []j{
		{"title": "rubber FOOT", "quantity": 1}, {"title": "Wall hook", "quantity": 1},
		{"title": "Vase", "quantity": 1}, {"title": "Rubber", "quantity": 1},
		{"title": strings.Repeat("long ", 30), "quantity": 1}}}).Want(201)
	at := "/orders/" + created.ID()
	p := b.get(t, at).want(t, 200)
	line := func(i int) string { return at + "/lines/" + created.Text(fmt.Sprintf("unassigned_lines.%d.id", i)) }
	for i, want := range []string{foot, "", "", "", ""} {
		testkit.Equal(t, p.form(t, line(i)).Get("product_id"), want, "line %d", i)
	}
	c.Get(t, "/api/v1"+at).Shows(map[string]string{"items": "[]"})
	p.submit(t, line(1), "product_id", hook).want(t, 303)
	b.get(t, at).submit(t, line(0)).want(t, 303)
	c.Get(t, "/api/v1"+at).Shows(map[string]string{"items.0.product_name": "Hook", "items.1.product_name": "Rubber foot"})
}

var (
	choosers   = regexp.MustCompile(`(?s)<(select|datalist)[^>]*>(.*?)</(?:select|datalist)>`)
	fromTheRow = regexp.MustCompile(`Bulk[ -]\d{3}`)
)

// No list of options on a page grows with the farm: such a list would end at a bound.
func TestNoUnboundedSelect(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Tenant(t).User(t, "admin")
	b := signIn(t, c)
	var product, filament, order, printer, run string
	spool := c.NewSpool(t, 400, j{"color": "Bulk 000"})
	for i := range 105 {
		name := fmt.Sprintf("Bulk %03d", i)
		product = c.Post(t, "/api/v1/products", j{"name": name}).Want(201).ID()
		filament = c.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": name, "diameter_mm": 1.75}).
			Want(201).ID()
		order = c.Post(t, "/api/v1/orders", j{"customer": name,
			"items": []j{{"product_id": product}}}).Want(201).ID()
		printer = c.Post(t, "/api/v1/printers", j{"name": name}).Want(201).ID()
		run = c.Post(t, "/api/v1/production-runs", j{"items": []j{{"product_id": product}}}).Want(201).ID()
	}
	c.Post(t, "/api/v1/spools/batch", j{"quantity": 100, "material_type": "PLA", "color": "Bulk 001",
		"diameter_mm": 1.75, "net_weight_grams": 1000}).Want(201)
	for _, path := range []string{"/", "/spools", "/spools/new", "/spools/" + spool, "/spools/" + spool + "/edit",
		"/filaments", "/filaments/new", "/filaments/" + filament, "/filaments/" + filament + "/edit", "/vendors",
		"/vendors/new", "/products", "/products/new", "/products/" + product, "/products/" + product + "/edit",
		"/products/files", "/printers", "/printers/new", "/printers/" + printer, "/printers/" + printer + "/edit",
		"/queue", "/orders", "/orders/new", "/orders/" + order, "/orders/" + order + "/edit",
		"/orders/" + order + "/plan", "/packing", "/runs", "/runs/all", "/runs/new", "/runs/" + run, "/stock",
		"/stock/new", "/reports", "/reports/margins", "/reports/filament", "/reports/pieces", "/labels", "/files",
		"/settings", "/settings/users", "/settings/keys", "/settings/shops", "/settings/webhooks", "/search?q=bulk"} {
		p := b.get(t, path).want(t, 200)
		for _, found := range choosers.FindAllStringSubmatch(p.text, -1) {
			if row := fromTheRow.FindString(found[2]); row != "" {
				t.Errorf("%s: a %s has %s", path, found[1], row)
			}
		}
	}
}
