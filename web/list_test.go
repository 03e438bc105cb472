package web_test

import (
	"html"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

var (
	chipLinks   = regexp.MustCompile(`(?s)<p class="chips">(.*?)</p>`)
	chipLink    = regexp.MustCompile(`(?s)<a href="([^"]*)">(.*?)</a>`)
	namedSelect = regexp.MustCompile(`<label class="pick">[^<]+<select `)
)

// chips returns the links of the filters that are set: the text and the address of each, without the words for
// screen readers.
func (p *page) chips(t *testing.T) (all []string) {
	t.Helper()
	p.want(t, 200)
	for _, chip := range chipLink.FindAllStringSubmatch(chipLinks.FindString(p.text), -1) {
		words := strings.TrimSpace((&page{text: chip[2]}).words())
		all = append(all, strings.TrimPrefix(words, "Remove the filter ")+" "+html.UnescapeString(chip[1]))
	}
	return all
}

// Each filter that is set is a link to the first page of the list without it. Selects have labels.
func TestFilterChips(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "admin")
	b := signIn(t, c)
	hook := c.NewProduct(t, "Hook", 10)
	filament := c.Post(t, "/api/v1/filaments", j{"material_type": "PETG", "color": "Blue", "diameter_mm": 1.75,
		"net_weight_grams": 750}).Want(201).ID()
	c.Post(t, "/api/v1/spools", j{"filament_id": filament}).Want(201)
	for path, want := range map[string][]string{
		"/spools": nil,
		"/spools?sort=number&stock=true&search=blue&page=1": {
			"Search: blue /spools?sort=number&stock=true", "Stock: With filament /spools?search=blue&sort=number"},
		"/spools?filament=" + filament:  {"Filament: PETG Blue /spools"},
		"/filaments?vendor=Acme&page=3": {"Vendor: Acme /filaments"},
		"/products?category=Hooks":      {"Category: Hooks /products"},
		"/orders?status=received,in_production,done,cancelled&ready=true": {"Status: All /orders?ready=true",
			"Pieces: Ready to pack /orders?status=received%2Cin_production%2Cdone%2Ccancelled"},
		"/printers?status=retired": {"Status: Retired /printers"},
		"/stock?low=true":          {"Level: Low ones /stock"},
		"/runs/all?status=planned&product=" + hook: {"State: Planned /runs/all?product=" + hook,
			"Product: Product Hook /runs/all?status=planned"},
		"/runs/all?month=2026-01":                    {"Month: January 2026 /runs/all"},
		"/runs/all?from=2024-01-02&to=2024-01-05":    {"From 2024-01-02 to 2024-01-05 /runs/all"},
		"/settings/audit?from=2024-01-02&action=":    {"From: 2024-01-02 /settings/audit"},
		"/settings/audit?action=data.exported&page=": {"What: Data exported /settings/audit"},
	} {
		p := b.get(t, path)
		testkit.Equal(t, strings.Join(p.chips(t), "\n"), strings.Join(want, "\n"), "the chips of %s", path)
		if n := strings.Count(p.text, "<select "); n != len(namedSelect.FindAllString(p.text, -1)) {
			t.Errorf("%s: not all of the %d selects have labels", path, n)
		}
	}
	b.get(t, "/spools?stock=true&search=blue").shows(t, "Clear")
	webhook := c.Post(t, "/api/v1/webhooks", j{"url": "https://x.example/", "events": []string{"*"}}).Want(201).ID()
	p := b.get(t, "/settings/webhooks/"+webhook+"?status=failed")
	testkit.Equal(t, strings.Join(p.chips(t), ""), "Status: Failed /settings/webhooks/"+webhook, "of deliveries")
	p.hides(t, "Removed")
}

var headLink = regexp.MustCompile(`<th([^>]*)><a href="([^"]*)">([^<]*)</a>`)

// heads returns the heads of the table that sort: the label, the address, and the order that the list has, if it is
// sorted by the column.
func (p *page) heads(t *testing.T) (all []string) {
	t.Helper()
	p.want(t, 200)
	for _, head := range headLink.FindAllStringSubmatch(p.text, -1) {
		sorted, _ := attribute(head[1], "aria-sort")
		all = append(all, strings.TrimSpace(head[3]+" "+html.UnescapeString(head[2])+" "+sorted))
	}
	return all
}

// The heads of columns sort the list in both directions, and keep the filters. Orders that they add are in the choice
// of the order, so that the filters keep them.
func TestSortByHead(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	for _, location := range []string{"B", "C", "A"} {
		c.NewSpool(t, 500, j{"location": location})
	}
	for path, want := range map[string][]string{
		"/spools": {"No. /spools?sort=number", "Filament /spools?sort=material", "Remaining /spools?sort=least",
			"Location /spools?sort=location", "Last used /spools?sort=used"},
		"/spools?sort=location&material=PLA&page=1": {"No. /spools?material=PLA&sort=number",
			"Filament /spools?material=PLA&sort=material", "Remaining /spools?material=PLA&sort=least",
			"Location /spools?material=PLA&sort=-location ascending", "Last used /spools?material=PLA&sort=used"},
		"/spools?sort=-location": {"No. /spools?sort=number", "Filament /spools?sort=material",
			"Remaining /spools?sort=least", "Location /spools?sort=location descending", "Last used /spools?sort=used"},
	} {
		testkit.Equal(t, strings.Join(b.get(t, path).heads(t), "\n"), strings.Join(want, "\n"), "the heads of %s", path)
	}
	place := regexp.MustCompile(`<td class="location">(.)`)
	for sort, want := range map[string]string{"": "ACB", "location": "ABC", "-location": "CBA", "-no": "ACB"} {
		p, got := b.get(t, "/spools?sort="+sort), ""
		for _, found := range place.FindAllStringSubmatch(p.text, -1) {
			got += found[1]
		}
		testkit.Equal(t, got, want, "the order %q", sort)
		kept := strings.Replace(sort, "-no", "", 1)
		testkit.Equal(t, p.form(t, "/spools").Get("sort"), kept, "what the filters keep of %q", sort)
	}
	b.get(t, "/spools?sort=-location").shows(t, "Location ↓")

	// Every head of every list is an order of the API.
	product := c.NewProduct(t, "Hook", 10)
	c.Post(t, "/api/v1/filaments", j{"material_type": "PETG", "color": "Blue", "diameter_mm": 1.75,
		"net_weight_grams": 750}).Want(201)
	c.Post(t, "/api/v1/vendors", j{"name": "Acme"}).Want(201)
	c.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": product}}}).Want(201)
	c.Post(t, "/api/v1/production-runs", j{"items": []j{{"product_id": product}}}).Want(201)
	c.Post(t, "/api/v1/stock-levels", j{"material_type": "PLA", "minimum_grams": 500}).Want(201)
	for path, count := range map[string]int{"/spools": 5, "/filaments": 5, "/vendors": 3, "/products": 4, "/orders": 3,
		"/runs/all": 1, "/stock": 5} {
		heads := b.get(t, path).heads(t)
		testkit.Equal(t, len(heads), count, "the heads of %s that sort", path)
		for i, head := range heads {
			follow := func(head string) string {
				address := regexp.MustCompile(`/[^ ]*`).FindString(head)
				return b.get(t, address).heads(t)[i]
			}
			sorted := follow(head)
			other := follow(sorted)
			if !strings.HasSuffix(sorted, "ending") || !strings.HasSuffix(other, "ending") ||
				strings.HasSuffix(sorted, "ascending") == strings.HasSuffix(other, "ascending") {
				t.Errorf("%s of %s leads to %s and then to %s", head, path, sorted, other)
			}
		}
	}
}

// The box for all spools of a list chooses those that the filters select, also on other pages. All are changed, or
// none, and the change is taken back from the notice. The page says when there are too many.
func TestChooseAllOfList(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	batch := func(quantity int, location string) {
		t.Helper()
		c.Post(t, "/api/v1/spools/batch", j{"quantity": quantity, "material_type": "PLA", "color": "Black",
			"diameter_mm": 1.75, "net_weight_grams": 1000, "location": location}).Want(201)
	}
	are := func(location string, count int) {
		t.Helper()
		c.Get(t, "/api/v1/spools?archived=any&limit=1&location="+location).
			Shows(map[string]string{"total": strconv.Itoa(count)})
	}
	for range 2 {
		batch(100, "A")
		batch(1, "B")
	}
	b.get(t, "/spools?location=B").hides(t, "spools of this list")
	const list = "/spools?location=A"
	all := func(values ...string) *page {
		t.Helper()
		form := b.get(t, list).shows(t, "All 200 spools of this list").form(t, list)
		form.Set("every", "200")
		for i := 0; i < len(values); i += 2 {
			form.Set(values[i], values[i+1])
		}
		path := list
		if form.Get("action") == "" {
			path = strings.Replace(list, "?", "/change?", 1)
		}
		return b.do(t, "POST", path, form)
	}

	// The form for all of them, and Undo.
	edit := all().want(t, 200).shows(t, "200 spools", "Edit the chosen spools")
	at := strings.Replace(list, "?", "/change?", 1)
	edit.submit(t, at, "purchase_price", "dear").want(t, 422).shows(t, "200 spools", "Must be a number").
		submit(t, at, "purchase_price", "", "location", "C").to(t, list).says(t, "Changed 200 of 200 chosen spools.").
		take(t).to(t, list).says(t, "The change of 200 spools is taken back.")
	are("A", 200)
	all("action", "archive").to(t, list).says(t, "Changed 200 of 200 chosen spools.").take(t)
	are("B", 2)

	// Labels have another limit.
	all("action", "labels").want(t, 422).shows(t, "At most 100 labels are printed together.")
	one := b.get(t, list).form(t, list)
	one.Set("id", c.Get(t, "/api/v1/spools?location=B").Text("items.0.id"))
	one.Set("action", "labels")
	b.do(t, "POST", list, one).to(t, "/labels?id="+one.Get("id"))

	// A ticked spool has left the list meanwhile, and another one came.
	id := func(location string) string {
		return "/api/v1/spools/" + c.Get(t, "/api/v1/spools?limit=1&location="+location).Text("items.0.id")
	}
	goes, comes := id("A"), id("B")
	stale := all("id", strings.TrimPrefix(goes, "/api/v1/spools/")).want(t, 200)
	c.Patch(t, goes, j{"location": "B"}).Want(200)
	c.Patch(t, comes, j{"location": "A"}).Want(200)
	stale.submit(t, at, "location", "C").want(t, 422).shows(t, "The list has other spools now: choose again.")
	are("C", 0)

	// Another spool came meanwhile.
	open := all().want(t, 200)
	batch(1, "A")
	open.submit(t, at, "location", "C").want(t, 422).shows(t, "The list has other spools now: choose again.",
		"All 201 spools of this list")
	are("C", 0)

	// All have left the list meanwhile.
	gone := b.get(t, list).form(t, list)
	gone.Set("every", "201")
	gone.Set("action", "archive")
	b.do(t, "POST", "/spools?location=X", gone).want(t, 422).shows(t, "The list has other spools now: choose again.")

	// Too many.
	for range 8 {
		batch(100, "A")
	}
	b.get(t, list).shows(t, "spools are changed at once: a filter makes the list shorter.").
		hides(t, "spools of this list")
	form := b.get(t, list).form(t, list)
	form.Set("every", "1001")
	form.Set("action", "archive")
	b.do(t, "POST", list, form).want(t, 422)
	are("A", 1001)
}
