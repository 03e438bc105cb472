package web_test

import (
	"html"
	"regexp"
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
