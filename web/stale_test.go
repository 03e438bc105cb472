package web_test

import (
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
	"spoolwright/web"
)

// others are the forms that show no values which they change, by the reason.
var others = map[string]string{
	"they sign in and out": `/sign-in /sign-in/code /sign-out /forgotten-password /password-link/{token}
		/account/sessions/{id}/end`,
	"they set one value of the visitor": `/account/language`,
	"they ask for the present password or a code, which a stale page does not have": `/account/password
		/account/second-factor /account/second-factor/confirm /account/second-factor/recovery-codes
		/account/second-factor/disable`,
	"they create something": `/spools/new /filaments/new /filaments/from-catalog /filaments/from-spools /vendors/new /printers/new /products/new
		/orders/new /stock/new /runs/new /settings/fields/new /settings/keys /settings/users /settings/webhooks
		/settings/shops /printers/{id}/key /products/{id}/materials /products/{id}/components /products/{id}/plates
		/products/{id}/variants /orders/{id}/items /orders/{id}/plan /orders/{id}/items/{part}/print /runs/{id}/items
		/runs/{id}/materials /orders/{id}/lines/{part} /samples
		/settings/users/{id}/password-link /settings/users/{id}/password-email`,
	"they remove something or bring it back": `/spools/{id}/remove /filaments/{id}/remove /vendors/{id}/remove
		/printers/{id}/remove /products/{id}/remove /orders/{id}/remove /stock/{id}/remove /settings/users/{id}/remove
		/settings/fields/{id}/remove /runs/{id}/remove /spools/removal /spools/{id}/restore /filaments/{id}/restore
		/vendors/{id}/restore /printers/{id}/restore /products/{id}/restore /orders/{id}/restore /runs/{id}/restore
		/products/{id}/materials/{part}/remove /products/{id}/materials/back /products/{id}/components/{part}/remove
		/products/{id}/components/back /products/{id}/plates/{part}/remove /products/{id}/plates/{part}/back
		/products/{id}/picture/remove /orders/{id}/items/{part}/remove /orders/{id}/items/{part}/restore
		/runs/{id}/items/{part}/remove /runs/{id}/materials/{part}/remove /settings/keys/{id}/revoke
		/printers/{id}/key/{part}/revoke /settings/shops/{id}/remove /settings/shops/names/{id}/forget
		/settings/webhooks/{id}/remove /settings/users/{id}/reset-otp /samples/remove
		/printers/{id}/connection/remove /settings/users/{id}/forget-sign-on /settings/sign-on/remove`,
	"they record an entry of a ledger, and each one counts": `/spools/{id}/weigh /spools/{id}/deduct
		/spools/{id}/refill /products/{id}/count /products/{id}/scrap /products/{id}/adjust /products/{id}/assemble
		/products/{id}/disassemble /orders/{id}/deliver /printers/{id}/maintained`,
	"they take back or move one entry of a ledger, once": `/spools/{id}/usage/reverse /spools/{id}/usage/{part}/move
		/products/{id}/pieces/reverse /orders/{id}/deliveries/back /spools/back
		/files/{id}/undo`,
	"they begin, end or repeat something, which is refused in another state": `/runs/{id}/start /runs/{id}/stop
		/runs/{id}/confirm /runs/{id}/complete /runs/{id}/fail /runs/{id}/fail-and-replan /runs/{id}/cancel /runs/{id}/reopen
		/runs/{id}/replan /printers/{id}/answer /runs/{id}/materials/{part}/exchange /orders/{id}/cancel /orders/{id}/open
		/orders/{id}/close`,
	"a button of which all pages send the same": `/first-steps/hide /runs/{id}/earlier /products/{id}/recalculate
		/printers/{id}/connection/test /printers/{id}/connection/trust
		/settings/webhooks/{id}/test /settings/webhooks/{id}/enable /settings/webhooks/{id}/disable
		/settings/webhooks/{id}/deliveries/{part}`,
	"they send a file, and show no values before": `/files /products/files /products/files/save /runs/file
		/products/{id}/picture /filaments/catalog`,
	"the page has it only without a value, and TestPlanAsksForPlates compares it": `/orders/{id}/plates/{part}`,
	"the secret is never shown":          `/settings/shops/{id}/secret`,
	"a button that compares by itself":   `/stock/{id}/ordered`,
	"they set what the visitor fills in": `/spools /spools/change /filaments/{id}/spool-prices`,
}

// notAlone are inputs that show values which cannot be changed alone, by the reason.
var notAlone = map[string]string{
	"/settings second_factor":              "the test would have to set up a second factor",
	"/orders/{id}/edit prices_include_tax": "it has two values, and is required",
	"/runs/{id}/correct reason":            "a reason is not a change",
	"/printers/{id}/connection secret":     "the secret is never shown",
	"/settings/sign-on client_secret":      "the secret is never shown",
	"/settings/fields/{id}/edit entity":    "the API keeps it",
	"/settings/fields/{id}/edit key":       "the API keeps it",
	"/settings/fields/{id}/edit type":      "the API keeps it",
	"/settings/users/{id}/edit email":      "the API keeps it",
	"/settings/fields/{id}/edit choices":   "only the type choice has them",

	"/products/{id}/colors variant_materials[0].replaces_material_type": "it must be that of a material",
	"/products/{id}/colors variant_materials[0].replaces_color":         "it must be that of a material",
	"/products/{id}/colors variant_materials[1].replaces_material_type": "the row is empty",
	"/products/{id}/colors variant_materials[1].replaces_color":         "the row is empty",
	"/products/{id}/colors variant_materials[1].color":                  "the row would replace the same as the first",
}

// formOnPage is a form of a page.
type formOnPage struct {
	page, action, pattern string
	values                url.Values
	choices               map[string][]string // by name, the values of a select
	hidden                map[string]bool
}

// kind names forms that are alike.
func (f formOnPage) kind() string {
	var was []string
	for name := range f.values {
		if value, ok := strings.CutPrefix(name, "was."); ok && !strings.HasSuffix(name, ".pick") {
			if !f.values.Has(value) || f.hidden[value] {
				name += " (button)"
			}
			was = append(was, name)
		}
	}
	slices.Sort(was)
	return f.pattern + " " + strings.Join(was, " ")
}

// isEdit reports whether the form shows values that it changes.
func (f formOnPage) isEdit() bool { return strings.Contains(f.kind(), " was.") }

var (
	wholeForm = regexp.MustCompile(`(?s)<form[^>]*>.*?</form>`)
	told      = regexp.MustCompile(`(?s)<div class="notice">.*?</div>`) // has a form that takes the change back
)

// forms returns the forms of a page that change something.
func (p *page) forms(t *testing.T, mux *http.ServeMux, at string) (all []formOnPage) {
	t.Helper()
	for _, text := range wholeForm.FindAllString(told.ReplaceAllString(p.text, ""), -1) {
		found := formTag.FindStringSubmatch(text)
		if method, _ := attribute(found[1], "method"); method != "post" {
			continue
		}
		action, _ := attribute(found[1], "action")
		r, err := http.NewRequest("POST", action, nil)
		testkit.Check(t, err)
		_, pattern := mux.Handler(r)
		f := formOnPage{at, action, strings.TrimPrefix(pattern, "POST "), (&page{text: text}).form(t, action),
			map[string][]string{}, map[string]bool{}}
		for _, in := range inputTag.FindAllStringSubmatch(found[2], -1) {
			name, _ := attribute(in[1]+in[2]+in[4], "name")
			if kind, _ := attribute(in[1], "type"); kind == "hidden" {
				f.hidden[name] = true
			}
			for _, o := range optionTag.FindAllStringSubmatch(in[5], -1) {
				value, _ := attribute(o[1], "value")
				f.choices[name] = append(f.choices[name], value)
			}
		}
		all = append(all, f)
	}
	return all
}

var (
	linkTag = regexp.MustCompile(`<a [^>]*href="(/[^"#]*)"`)
	anyID   = regexp.MustCompile(`[0-9a-f-]{36}|[0-9]+`)
	noPage  = regexp.MustCompile(`^/(docs|redoc|farm-ca|files/|changes|assets|settings/farm\.gz|reports/.*\.csv)`)
)

// crawl returns the forms of all pages that links lead to.
func crawl(t *testing.T, b *browser, mux *http.ServeMux) (all []formOnPage) {
	t.Helper()
	next, seen, like := []string{"/"}, map[string]bool{}, map[string]int{}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		if seen[at] || noPage.MatchString(at) || like[anyID.ReplaceAllString(at, "#")] > 12 {
			continue
		}
		seen[at] = true
		like[anyID.ReplaceAllString(at, "#")]++
		p := b.get(t, at)
		if p.status == 303 {
			next = append(next, p.header.Get("Location"))
			continue
		}
		all = append(all, p.want(t, 200).forms(t, mux, at)...)
		for _, link := range linkTag.FindAllStringSubmatch(p.text, -1) {
			next = append(next, html.UnescapeString(link[1]))
		}
	}
	return all
}

// staleFarm fills a farm so that its pages have all their forms.
func staleFarm(t *testing.T, c *testkit.Client) {
	t.Helper()
	for _, name := range []string{"Alpha", "Beta", "Gamma"} {
		c.Post(t, "/api/v1/vendors", j{"name": name}).Want(201)
	}
	for _, entity := range []string{"spool", "filament", "vendor"} {
		for _, kind := range []string{"text", "integer", "float_range", "datetime", "boolean"} {
			c.Post(t, "/api/v1/custom-fields", j{"entity": entity, "key": kind, "name": "Own " + kind, "type": kind}).Want(201)
		}
		c.Post(t, "/api/v1/custom-fields", j{"entity": entity, "key": "choice", "name": "Own choice", "type": "choice",
			"choices": []string{"One", "Two", "Three"}}).Want(201)
	}
	filament := c.Post(t, "/api/v1/filaments", j{"vendor_name": "Alpha", "name": "F", "material_type": "PLA",
		"color": "Red", "diameter_mm": 1.75, "net_weight_grams": 1000}).Want(201).ID()
	c.Post(t, "/api/v1/spools", j{"filament_id": filament}).Want(201)
	var spools []string
	for range 5 {
		spools = append(spools, c.NewSpool(t, 900, j{"color": "Black", "spool_weight_grams": 200, "location": "Shelf"}))
	}
	c.Post(t, "/api/v1/spools/"+spools[0]+"/deduct", j{"weight_grams": 5}).Want(200)
	printer := c.Post(t, "/api/v1/printers", j{"name": "One", "slots": 4}).Want(201).ID()
	watched := c.Post(t, "/api/v1/printers", j{"name": "Two", "slots": 4}).Want(201).ID()
	c.Do(t, "PUT", "/api/v1/printers/"+watched+"/connection", j{"kind": "bambu", "address": "10.0.0.9",
		"serial": "01P00A123"}).Want(200)
	c.Post(t, "/api/v1/printers", j{"name": "Three", "slots": 4}).Want(201)
	c.Do(t, "PUT", signOnAPI, j{"issuer": "https://login.farm.example", "client_id": "farm", "factors": []string{"mfa"},
		"email_domain": "farm.example"}).Want(200)
	c.Do(t, "PUT", "/api/v1/printers/"+printer+"/slots/1", j{"spool_id": spools[0]}).Want(200)
	hook := c.NewProduct(t, "Hook", 10)
	c.Post(t, "/api/v1/products", j{"name": "Kit", "components": []j{{"component_product_id": hook}},
		"materials": []j{{"material_type": "PETG", "color": "Pink", "weight_grams": 3}}}).Want(201)
	c.Post(t, "/api/v1/products", j{"name": "Two plates", "plates": []j{{"name": "Wings", "pieces_per_plate": 2},
		{"name": "Body", "quantity": 2, "estimated_print_time_minutes": 30}}}).Want(201)
	c.Post(t, "/api/v1/products", j{"variant_of": hook, "variant_materials": []j{{"color": "Blue"}}}).Want(201)
	c.NewSpool(t, 900, j{"material_type": "PETG", "color": "Green"})
	c.NewSpool(t, 900, j{"material_type": "PETG", "color": "White"})
	order := func(more j) string {
		more["items"] = []j{{"product_id": hook, "quantity": 5, "unit_price": 3}}
		more["currency"], more["exchange_rate"] = "CZK", 0.04
		return "/api/v1/orders/" + c.Post(t, "/api/v1/orders", more).Want(201).ID()
	}
	order(j{"customer": "Open"})
	done := order(j{"customer": "Done"})
	c.Post(t, done+"/complete", j{"items": []j{{"id": c.Get(t, done).Text("items.0.id"), "delivered": 4}}}).Want(200)
	run := func(spool string) string {
		_, at := newRun(t, c, j{"items": []j{{"product_id": hook, "quantity": 4}}, "notes": "N",
			"materials": []j{{"spool_id": spool, "estimated_weight_grams": 50}}})
		return at
	}
	run(spools[1])
	run(spools[1])
	c.Post(t, run(spools[2])+"/start", nil).Want(200)
	ended := run(spools[3])
	c.Patch(t, ended, j{"started_at": "2026-01-05T10:00:00Z"}).Want(200)
	c.Post(t, ended+"/complete", j{"completed_at": "2026-01-05T12:00:00Z", "materials": []j{
		{"id": c.Get(t, ended).Text("materials.0.id"), "actual_weight_grams": 40}}, "items": []j{
		{"id": c.Get(t, ended).Text("items.0.id"), "successful_quantity": 2, "failed_quantity": 1}}}).Want(200)
	_, failed := newRun(t, c, j{"materials": []j{{"spool_id": spools[4], "estimated_weight_grams": 50}}})
	c.Patch(t, failed, j{"started_at": "2026-01-06T10:00:00Z"}).Want(200)
	c.Post(t, failed+"/fail", j{"reason": "other", "completed_at": "2026-01-06T12:00:00Z"}).Want(200)
	c.Post(t, "/api/v1/stock-levels", j{"material_type": "PLA", "color": "Black", "minimum_grams": 5000}).Want(201)
}

// candidates are values for an input that shows another one.
func (f formOnPage) candidates(name string) (all []string) {
	was := f.values.Get(name)
	defer func() { all = slices.DeleteFunc(all, func(s string) bool { return s == was }) }()
	if choices := f.choices[name]; choices != nil {
		return slices.Clone(choices)
	}
	if n, err := strconv.ParseFloat(was, 64); err == nil {
		for _, add := range []float64{1, 2, -1, -2, 0.5} {
			all = append(all, strconv.FormatFloat(n+add, 'f', -1, 64))
		}
	}
	if at := strings.LastIndexByte(was, ':'); at > 0 { // a time
		all = append(all, was[:at+1]+"31", was[:at+1]+"32")
	}
	return append(all, "Alpha", "Beta", "Gamma", "2", "3", "#112233", "#223344", "EUR", "USD", "CHF", "Europe/Paris",
		"Europe/Rome", "Europe/Vienna", "PLA", "PETG", "2026-03-01", "2026-03-02", "190–220", "190–230",
		"2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z", "CZK 0.04", "SEK 0.09", "http://a.example",
		"http://b.example", "http://c.example", "a"+was, "b"+was)
}

// same returns the form of the page that is like f.
func (p *page) same(t *testing.T, mux *http.ServeMux, f formOnPage) (formOnPage, bool) {
	t.Helper()
	for _, other := range p.forms(t, mux, f.page) {
		if other.kind() == f.kind() && other.action == f.action {
			return other, true
		}
	}
	return f, false
}

// try sends the form with one of the values until the answer is not about the value itself. It returns the answer and
// the other values.
func (f formOnPage) try(t *testing.T, b *browser, name string, values []string) (*page, string, []string) {
	t.Helper()
	var p *page
	for i, value := range values {
		sent := maps.Clone(f.values)
		sent.Set(name, value)
		delete(sent, name+".pick")
		p = b.do(t, "POST", f.action, sent)
		if p.status == 303 || strings.Contains(p.text, " in the meantime. ") {
			return p, value, values[i+1:]
		}
	}
	if p == nil {
		t.Fatalf("%s %s: no value to try", f.kind(), name)
	}
	t.Errorf("%s: %s of %q cannot be changed: %s", f.page, name, f.values.Get(name), p.words())
	return nil, "", nil
}

// Two people open a form and change the same value. The second is shown both values, and the first one's is not
// overwritten, on every form of all pages.
func TestStaleForms(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "admin")
	tenant.User(t, "operator")
	staleFarm(t, c)
	c.Patch(t, "/api/v1/auth/me", j{"language": "en"}).Want(200) // a form changes the language of the farm
	a, b := signIn(t, c), signIn(t, c)
	mux, patterns := http.NewServeMux(), map[string]bool{}
	for _, p := range web.New(web.Config{})(nil).Pages {
		if pattern, ok := strings.CutPrefix(p.Pattern, "POST "); ok {
			patterns[pattern] = true
			mux.HandleFunc(p.Pattern, http.NotFound)
		}
	}
	known, kinds := map[string]bool{}, map[string][]formOnPage{}
	for reason, list := range others {
		for pattern := range strings.FieldsSeq(list) {
			if known[pattern] || !patterns[pattern] {
				t.Errorf("%s is not one form, listed because %s", pattern, reason)
			}
			known[pattern] = true
		}
	}
	for _, f := range crawl(t, a, mux) {
		// A form of another kind replaces the connection of a printer, and then that form has nothing to change.
		if f.isEdit() && !strings.Contains(f.page, c.Actor.User) && !strings.Contains(f.page, "/connection?kind=") {
			kinds[f.kind()] = append(kinds[f.kind()], f)
			if known[f.pattern] {
				t.Errorf("%s has values that it changes", f.pattern)
			}
		}
	}
	edits := map[string]bool{}
	for _, forms := range kinds {
		edits[forms[0].pattern] = true
	}
	for pattern := range patterns {
		if !edits[pattern] && !known[pattern] {
			t.Errorf("%s is a form without values to compare, and not listed", pattern)
		}
	}
	every := testkit.InRigs(4, 1)
	for i, kind := range slices.Sorted(maps.Keys(kinds)) {
		if !strings.HasSuffix(kind, " (button)") && i%every == 0 { // see TestStaleButtons
			staleForm(t, a, b, mux, kinds[kind])
		}
	}
}

// staleForm changes each value of one of the forms, which are alike, on two pages.
func staleForm(t *testing.T, a, b *browser, mux *http.ServeMux, forms []formOnPage) {
	t.Helper()
	i := slices.IndexFunc(forms, func(f formOnPage) bool { _, ok := a.get(t, f.page).same(t, mux, f); return ok })
	if i < 0 {
		t.Errorf("%s: the form is gone", forms[0].kind())
		return
	}
	f, tried := forms[i], 0
	// A day of exchange is not kept without a rate: the currency of an order, whose change may remove it, comes later.
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(f.values))) {
		_, shown := f.values["was."+name]
		if !shown || f.hidden[name] || strings.HasSuffix(name, ".pick") || notAlone[f.pattern+" "+name] != "" ||
			len(f.choices[name]) > 0 && len(f.candidates(name)) < 2 {
			continue
		}
		first, ok := a.get(t, f.page).same(t, mux, f)
		stale, _ := b.get(t, f.page).same(t, mux, f)
		if !ok {
			break // a form that is sent only once, such as that of an empty slot
		}
		answer, value, rest := first.try(t, a, name, first.candidates(name))
		if answer == nil {
			continue
		}
		a.get(t, f.page) // shows the notice
		saved := a.get(t, f.page)
		now, isThere := saved.same(t, mux, f)
		theirs := now.values.Get(name)
		if answer.status != 303 || isThere && theirs == first.values.Get(name) {
			t.Errorf("%s: %s is not saved: %s", f.page, name, answer.words())
			continue
		}
		answer, mine, rest := stale.try(t, b, name, rest)
		if answer == nil {
			continue
		}
		tried++
		answer.shows(t, "in the meantime")
		page := a.get(t, f.page) // the page of a printing run also changes with the time
		if after, _ := page.same(t, mux, f); answer.status != 422 || isThere && after.values.Get(name) != theirs ||
			!isThere && page.words() != saved.words() {
			t.Errorf("%s: %s: status %d, %q replaces %q: %s", f.page, name, answer.status, mine, theirs, page.words())
			continue
		}
		again, ok := answer.with(t, mux, name, mine)
		if !ok { // the answer says it in words
			answer.shows(t, value, mine)
		} else if p, _, _ := again.try(t, b, name, append([]string{mine}, rest...)); p != nil && p.status != 303 {
			t.Errorf("%s: %s: %q does not replace %q: %s", f.page, name, mine, theirs, p.words())
		}
	}
	if tried == 0 {
		t.Errorf("%s: no value was changed", f.kind())
	}
}

// with returns the form of the page with the value of an edit that was refused.
func (p *page) with(t *testing.T, mux *http.ServeMux, name, value string) (formOnPage, bool) {
	t.Helper()
	for _, f := range p.forms(t, mux, "") {
		if f.values.Has("was."+name) && f.values.Get(name) == value && f.values.Get("was."+name) != value {
			return f, true
		}
	}
	return formOnPage{}, false
}

// A button that changes what its page shows is refused if somebody else has changed that meanwhile.
func TestStaleButtons(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	var spools []string
	for range 3 {
		spools = append(spools, c.NewSpool(t, 900, nil))
	}
	printer := "/printers/" + c.Post(t, "/api/v1/printers", j{"name": "One"}).Want(201).ID()
	load := func(spool any) { c.Do(t, "PUT", "/api/v1"+printer+"/slots/1", j{"spool_id": spool}).Want(200) }
	load(spools[0])
	p := b.get(t, printer)
	load(spools[1])
	p.submit(t, printer+"/slots/1").want(t, 422).shows(t, "Somebody else has loaded spool 2 into slot 1 in the meantime.")
	c.Get(t, "/api/v1"+printer).Shows(map[string]string{"loaded.0.spool_number": "2"})
	c.Patch(t, "/api/v1"+printer, j{"notes": "N"}).Want(200) // nothing that the button shows
	b.get(t, printer).submit(t, printer+"/slots/1").to(t, printer)
	c.Get(t, "/api/v1"+printer).Shows(map[string]string{"loaded": "[]"})

	kit := c.Post(t, "/api/v1/products", j{"name": "Kit", "materials": []j{{"material_type": "PETG", "color": "Pink",
		"weight_grams": 3}}}).Want(201)
	product, set := "/products/"+kit.ID(), "/products/"+kit.ID()+"/materials/"+kit.Text("materials.0.id")
	c.NewSpool(t, 900, j{"material_type": "PETG", "color": "Green"})
	p = b.get(t, product)
	c.Patch(t, "/api/v1"+set, j{"color": "White"}).Want(200)
	p.submit(t, set+"/set").want(t, 422).
		shows(t, "changed the material to PETG White in the meantime. It was not replaced by PETG Green")
	c.Get(t, "/api/v1"+product).Shows(map[string]string{"materials.0.color": "White"})
	b.get(t, product).submit(t, set+"/set").to(t, product)
	c.Get(t, "/api/v1"+product).Shows(map[string]string{"materials.0.color": "Green"})

	// The form of a notice takes back its own change only.
	hook := c.NewProduct(t, "Hook", 10)
	made := c.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": hook, "quantity": 5}}}).Want(201)
	order := "/orders/" + made.ID()
	item := order + "/items/" + made.Text("items.0.id")
	undo := b.get(t, order).submit(t, item, "quantity", "6").to(t, order)
	c.Patch(t, "/api/v1"+item, j{"quantity": 7}).Want(200)
	undo.take(t).want(t, 422).shows(t, "Saved in the meantime: 7")
	c.Get(t, "/api/v1"+order).Shows(map[string]string{"items.0.quantity": "7"})

	// An order that got another item meanwhile is not marked done without asking.
	p = b.get(t, order)
	c.Post(t, "/api/v1"+order+"/items", j{"product_id": c.NewProduct(t, "Nail", 1), "quantity": 2}).Want(201)
	both := p.submit(t, order+"/complete", "items[0].delivered", "3").want(t, 422)
	c.Get(t, "/api/v1"+order).Shows(map[string]string{"status": "received"})
	both.submit(t, order+"/complete", "items[1].delivered", "1").to(t, order)
	c.Get(t, "/api/v1"+order).Shows(map[string]string{"status": "done", "items.0.delivered": "3",
		"items.1.delivered": "1"})
}
