package web_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// hostile is a text that would run a script if a page did not escape it.
const hostile = `"><script src=//x.example/></script><img src=x onerror=alert(1)>'` + "`${1}`{{.}}"

// newFarm fills a tenant whose every text is hostile, and returns the ids of its resources by name.
func newFarm(t *testing.T, c *testkit.Client) map[string]string {
	t.Helper()
	id := map[string]string{}
	id["vendor"] = c.Post(t, "/api/v1/vendors", j{"name": hostile, "notes": hostile}).Want(201).ID()
	id["filament"] = c.Post(t, "/api/v1/filaments",
		j{"vendor_id": id["vendor"], "name": hostile, "material_type": "PLA",
			"material_name": hostile, "color": hostile, "color_hex": "#336699", "diameter_mm": 1.75,
			"net_weight_grams": 1000,
			"notes":            hostile, "article_number": hostile}).Want(201).ID()
	for _, entity := range []string{"spool", "filament"} {
		c.Post(t, "/api/v1/custom-fields", j{"entity": entity, "key": "x", "name": hostile, "type": "choice",
			"unit": hostile, "choices": []string{hostile}}).Want(201)
	}
	c.Patch(t, "/api/v1/filaments/"+id["filament"], j{"extra": j{"x": hostile}}).Want(200)
	id["spool"] = c.NewSpool(t, 400, j{"extra": j{"x": hostile}, "brand": hostile, "color": hostile, "finish": hostile,
		"supplier": hostile,
		"notes":    hostile, "location": hostile, "lot_number": hostile, "spool_weight_grams": 200, "purchase_price": 20})
	c.Post(t, "/api/v1/spools", j{"filament_id": id["filament"]}).Want(201)
	c.Post(t, "/api/v1/spools/"+id["spool"]+"/deduct", j{"weight_grams": 10, "reason": hostile}).Want(200)
	id["product"] = c.Post(t, "/api/v1/products",
		j{"name": hostile, "sku": hostile, "category": hostile, "description": hostile,
			"materials": []j{{"material_type": "PLA", "color": hostile, "weight_grams": 10}}}).Want(201).ID()
	id["variant"] = c.Post(t, "/api/v1/products", j{"variant_of": id["product"], "variant_materials": []j{
		{"replaces_color": hostile, "color": hostile}}}).Want(201).ID()
	order := c.Post(t, "/api/v1/orders",
		j{"source": hostile, "reference": hostile, "customer": hostile, "notes": hostile,
			"due_date": "2024-02-01", "items": []j{{"product_id": id["product"], "quantity": 2}}}).Want(201)
	id["order"], id["order item"] = order.ID(), order.Text("items.0.id")
	c.Post(t, "/api/v1/products", j{"name": hostile,
		"components": []j{{"component_product_id": id["product"]}}}).Want(201)
	id["printer"] = c.Post(t, "/api/v1/printers", j{"name": hostile, "model": hostile, "notes": hostile,
		"location": hostile, "slots": 2}).Want(201).ID()
	c.Do(t, "PUT", "/api/v1/printers/"+id["printer"]+"/slots/2", j{"spool_id": id["spool"]}).Want(200)
	run := "/api/v1/production-runs/" +
		c.Post(t, "/api/v1/production-runs", j{"printer_name": hostile, "notes": hostile,
			"estimated_print_time_hours": 2,
			"items": []j{{"product_id": id["product"],
				"order_item_id": order.Text("items.0.id")}},
			"materials": []j{{"spool_id": id["spool"], "estimated_weight_grams": 10}}}).Want(201).ID()
	c.Post(t, run+"/start", nil).Want(200)
	id["run"] = strings.TrimPrefix(run, "/api/v1/production-runs/")
	failed := "/api/v1/production-runs/" + c.Post(t, "/api/v1/production-runs", j{"printer_name": hostile,
		"materials": []j{{"spool_id": id["spool"], "estimated_weight_grams": 10}}}).Want(201).ID()
	id["failed"] = strings.TrimPrefix(failed, "/api/v1/production-runs/")
	material := c.Get(t, failed).Want(200).Text("materials.0.id")
	c.Post(t, failed+"/fail", j{"reason": "other", "notes": hostile,
		"materials": []j{{"id": material, "wasted_grams": 5}}}).Want(200)
	id["level"] = c.Post(t, "/api/v1/stock-levels", j{"material_type": "PLA", "color": hostile, "brand": hostile,
		"minimum_grams": 5000}).Want(201).ID()
	return id
}

var (
	values  = regexp.MustCompile(`="[^"]*"`)
	unsafe  = regexp.MustCompile(`(?i)<[^>]*\s(?:on[a-z]+|style)\s*=|<style|<iframe|<object|<base`)
	scripts = regexp.MustCompile(`(?i)<script[^>]*>`)
	script  = regexp.MustCompile(`^<script src="/assets/script\.[0-9a-f]{12}\.js" defer>$`)
	foreign = regexp.MustCompile(`\s(?:src|href|action)="([^"]*)"`)
)

// check checks what all pages have in common.
func check(t *testing.T, p *page) {
	t.Helper()
	h := p.header
	if csp := h.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none';") ||
		strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") {
		t.Errorf("%s: the policy is %q", p.what, csp)
	}
	if h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") != "same-origin" ||
		h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("%s: the headers are %v", p.what, h)
	}
	testkit.Equal(t, unsafe.FindString(values.ReplaceAllString(p.text, `=""`)), "", "%s", p.what)
	for _, found := range scripts.FindAllString(p.text, -1) {
		if !script.MatchString(found) {
			t.Errorf("%s: has %s", p.what, found)
		}
	}
	for _, link := range foreign.FindAllStringSubmatch(p.text, -1) {
		if !strings.HasPrefix(link[1], "/") && !strings.HasPrefix(link[1], "#") || strings.HasPrefix(link[1], "//") {
			t.Errorf("%s: leads to %s", p.what, link[1])
		}
	}
	if len(p.text) > 60<<10 {
		t.Errorf("%s: has %d bytes", p.what, len(p.text))
	}
}

// Every page shows the texts of other people as text, takes at most ten round trips, and is there only for those who
// may see it.
func TestPages(t *testing.T) {
	t.Parallel()
	d, trips := testkit.CountTrips(t)
	api := newAPI(t, testkit.Options{DB: d})
	tenant, elsewhere := api.Tenant(t), api.Tenant(t)
	operator := tenant.User(t, "operator")
	id := newFarm(t, operator)
	admin := tenant.User(t, "admin")
	admin.Patch(t, "/api/v1/users/"+admin.Actor.User, j{"name": hostile}).Want(200)
	admin.Post(t, "/api/v1/api-keys", j{"name": hostile, "role": "viewer"}).Want(201)
	webhook := admin.Post(t, "/api/v1/webhooks", j{"url": "https://x.example/", "description": hostile,
		"events": []string{"*"}}).Want(201).ID()
	field := admin.Get(t, "/api/v1/custom-fields").Want(200).Text("items.0.id")
	visitors := map[string]*browser{"operator": signIn(t, operator), "viewer": signIn(t, tenant.User(t, "viewer")),
		"admin": signIn(t, admin), "other": signIn(t, elsewhere.User(t, "admin"))}
	signedOut := newBrowser(t, api.URL)

	for _, test := range []struct {
		path   string
		write  bool // for operators
		admin  bool // for admins
		ours   bool // another tenant has no such thing
		hidden bool // shows no hostile text
		status int  // other than 200
		typed  bool // shows it to everybody
	}{
		{path: "/"},
		{path: "/account", hidden: true},
		{path: "/search?q=script"},
		{path: "/search?q=" + strings.Repeat("x", 101), status: 422, hidden: true},
		{path: "/spools"},
		{path: "/spools?search=script&material=PLA&sort=least"},
		{path: "/spools?color=" + "x", hidden: true},
		{path: "/spools/new", write: true},
		{path: "/spools/" + id["spool"], ours: true},
		{path: "/spools/" + id["spool"] + "?search=script&page=1", ours: true},
		{path: "/spools/" + id["spool"] + "/edit", write: true, ours: true},
		{path: "/labels", hidden: true},
		{path: "/labels?size=a4&id=" + id["spool"], ours: true},
		{path: "/packing"},
		{path: "/packing?id=" + id["order"], ours: true},
		{path: "/filaments"},
		{path: "/filaments?search=script&material=PLA&sort=vendor"},
		{path: "/filaments/" + id["filament"], ours: true},
		{path: "/filaments/new?notes=" + url.QueryEscape(hostile), write: true, typed: true},
		{path: "/filaments/" + id["filament"] + "/edit", write: true, ours: true},
		{path: "/vendors"},
		{path: "/vendors/new", write: true, hidden: true},
		{path: "/vendors/" + id["vendor"] + "/edit", write: true, ours: true},
		{path: "/printers"},
		{path: "/printers?search=script&status=available&sort=newest"},
		{path: "/printers/new", write: true, hidden: true},
		{path: "/printers/" + id["printer"], ours: true},
		{path: "/printers/" + id["printer"] + "/edit", write: true, ours: true},
		{path: "/queue"},
		{path: "/products"},
		{path: "/products/new", write: true, hidden: true},
		{path: "/products/" + id["product"] + "?quantity=20", ours: true},
		{path: "/products/" + id["variant"], ours: true},
		{path: "/products/" + id["product"] + "/pieces", ours: true},
		{path: "/products/" + id["product"] + "/edit", write: true, ours: true},
		{path: "/runs"},
		{path: "/runs/all"},
		{path: "/runs/all?search=script&status=printing&spool=" + id["spool"] + "&product=" + id["product"] +
			"&order=" + id["order"]},
		{path: "/runs/new", write: true, hidden: true},
		{path: "/runs/new?product=" + id["product"], write: true},
		{path: "/runs/" + id["run"], ours: true},
		{path: "/runs/" + id["failed"], ours: true},
		{path: "/orders"},
		{path: "/orders?status=received,in_production,done,cancelled&search=script&sort=customer"},
		{path: "/orders/new", write: true, hidden: true},
		{path: "/orders/" + id["order"], ours: true},
		{path: "/orders/" + id["order"] + "/edit", write: true, ours: true},
		{path: "/orders/" + id["order"] + "/plan", write: true, ours: true},
		{path: "/stock"},
		{path: "/stock?low=true&material=PLA"},
		{path: "/stock/new", write: true, hidden: true},
		{path: "/filaments/from-spools", write: true, hidden: true},
		{path: "/stock/" + id["level"] + "/edit", write: true, ours: true},
		{path: "/reports"},
		{path: "/reports?by=material", hidden: true},
		{path: "/reports?by=printer"},
		{path: "/reports?by=day", hidden: true},
		{path: "/reports/margins"},
		{path: "/reports/margins?by=customer&from=2024-01-01&to=2024-02-01", hidden: true},
		{path: "/reports/filament", hidden: true},
		{path: "/reports/filament?by=material&to=2024-01-31", hidden: true},
		{path: "/reports/lot", hidden: true},
		{path: "/reports/lot?lot_number=none", hidden: true},
		{path: "/reports/pieces", hidden: true},
		{path: "/reports/pieces?to=2024-01-31", hidden: true},
		{path: "/samples", admin: true, hidden: true},
		{path: "/settings", admin: true},
		{path: "/settings/users", admin: true},
		{path: "/settings/keys", admin: true},
		{path: "/settings/fields", admin: true},
		{path: "/settings/backup", admin: true},
		{path: "/settings/audit", admin: true},
		{path: "/settings/fields/new", admin: true, hidden: true},
		{path: "/settings/fields/" + field + "/edit", admin: true, ours: true},
		{path: "/settings/shops", admin: true},
		{path: "/settings/webhooks", admin: true},
		{path: "/settings/webhooks/" + webhook, admin: true, ours: true},
		{path: "/files", hidden: true},
		{path: "/spools?sort=filament"},
		{path: "/settings/users/" + admin.Actor.User + "/edit", admin: true, ours: true},
	} {
		for name, b := range visitors {
			trips.Store(0)
			p := b.get(t, test.path)
			status := cmp.Or(test.status, 200)
			switch {
			case name == "viewer" && test.write, test.admin && (name == "viewer" || name == "operator"):
				status = 403
			case name == "other" && test.ours:
				status = 404
			}
			check(t, p.want(t, status))
			if n := trips.Load(); n > 10 {
				t.Errorf("%s: %d round trips", test.path, n)
			}
			shown := strings.Contains(p.text, "&lt;script src=//x.example/&gt;")
			if status == 200 && name != "other" && !test.hidden && !shown {
				t.Errorf("%s: does not show the hostile text: %s", test.path, p.words())
			} else if name == "other" && shown && !test.typed {
				t.Errorf("%s: shows the text of another tenant", test.path)
			}
			if name == "viewer" {
				for _, form := range formTag.FindAllStringSubmatch(p.text, -1) {
					action, _ := attribute(form[1], "action")
					if method, _ := attribute(form[1], "method"); method == "post" && action != "/sign-out" &&
						action != "/account/password" && action != "/account/language" && !strings.HasPrefix(action, "/account/sessions/") {
						t.Errorf("%s: a viewer sees the form for %s", test.path, action)
					}
				}
			}
		}
		if p := signedOut.get(t, test.path).want(t, 303); !strings.HasPrefix(p.header.Get("Location"), "/sign-in") {
			t.Errorf("%s: redirects to %s", test.path, p.header.Get("Location"))
		}
	}
	check(t, signedOut.get(t, "/sign-in?next=%22%3E%3Cscript%3E").want(t, 200))
	check(t, signedOut.get(t, "/nothing").want(t, 404))

	// Nobody else sends the forms.
	actions := []string{"/settings/fields/new", "/settings/webhooks", "/settings/webhooks/" + webhook + "/remove",
		"/settings/webhooks/" + webhook + "/test", "/files", "/products/new", "/runs/new", "/orders/new", "/stock/new",
		"/stock/" + id["level"] + "/edit",
		"/stock/" + id["level"] + "/remove", "/settings", "/settings/keys", "/settings/users",
		"/settings/users/" + admin.Actor.User + "/edit", "/settings/users/" + admin.Actor.User + "/remove"}
	for _, of := range []string{"product edit", "product remove", "product recalculate", "product materials",
		"product components", "printer edit", "printer remove", "printer maintained", "printer answer", "printer slots/1",
		"run earlier", "printer key", "printer key/" + id["run"] + "/revoke", "run start", "run confirm", "run complete", "run fail",
		"run cancel", "run correct", "run reopen", "run edit", "run items",
		"run items/" + id["run"], "run items/" + id["run"] + "/remove", "run materials",
		"run materials/" + id["run"] + "/exchange", "run materials/" + id["run"] + "/remove", "order edit", "order remove",
		"order cancel", "order items", "order items/" + id["order item"] + "/remove", "order plan",
		"order items/" + id["order item"], "order items/" + id["order item"] + "/restore", "order complete", "order deliver",
		"order open", "product materials/" + id["product"] + "/remove", "product components/" + id["product"] + "/remove",
		"product materials/back", "product count", "product scrap", "product adjust", "product assemble",
		"product disassemble", "product pieces/reverse", "product components/back", "run remove"} {
		kind, what, _ := strings.Cut(of, " ")
		actions = append(actions, "/"+kind+"s/"+id[kind]+"/"+what)
	}
	entry := operator.Get(t, "/api/v1/spools/"+id["spool"]+"/usage?kind=deducted").Want(200).Text("items.0.id")
	actions = append(actions, "/spools/removal", "/spools/back", "/spools/change",
		"/spools/"+id["spool"]+"/usage/reverse", "/spools/"+id["spool"]+"/usage/"+entry+"/move")
	for _, action := range append(actions, "/spools", "/spools/new", "/spools/"+id["spool"]+"/weigh",
		"/spools/"+id["spool"]+"/deduct", "/spools/"+id["spool"]+"/load", "/spools/"+id["spool"]+"/move",
		"/spools/"+id["spool"]+"/archive",
		"/vendors/new", "/vendors/"+id["vendor"]+"/edit", "/vendors/"+id["vendor"]+"/remove",
		"/filaments/new", "/filaments/"+id["filament"]+"/edit", "/filaments/"+id["filament"]+"/remove",
		"/spools/"+id["spool"]+"/edit", "/spools/"+id["spool"]+"/remove", "/spools/"+id["spool"]+"/restore") {
		before := operator.Get(t, "/api/v1/spools/"+id["spool"]).Want(200).Header.Get("ETag")
		form := map[string][]string{"weight_grams": {"1"}, "gross_grams": {"250"}, "location": {"x"},
			"archived": {"true"}, "notes": {"x"}, "numbers": {"1-1"}, "entry": {entry}, "spool_number": {"2"},
			"was.archived": {"false"}, "id": {id["spool"]}, "action": {"archive"}, "save": {"1"},
			"quantity": {"1"}, "place": {"1"},
			"material_type": {"PLA"},
			"color":         {"x"}, "name": {"x"}, "customer": {"x"}, "product_id": {id["product"]},
			"component_product_id": {id["product"]}, "diameter_mm": {"1.75"}, "net_weight_grams": {"1"},
			"tag": {before}}
		signedOut.do(t, "POST", action, form).want(t, 303)
		visitors["viewer"].do(t, "POST", action, form).want(t, 403)
		if p := visitors["other"].do(t, "POST", action, form); p.status != 404 && p.status != 422 &&
			strings.Count(action, "/") > 2 {
			t.Errorf("%s of another tenant: %d", action, p.status)
		}
		testkit.Equal(t, operator.Get(t, "/api/v1/spools/"+id["spool"]).Want(200).Header.Get("ETag"), before,
			"%s: has changed the spool", action)
	}
}

// The addresses of the assets change with their content, so that browsers may keep them.
func TestAssets(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	b := newBrowser(t, api.URL)
	sign := b.get(t, "/sign-in").want(t, 200)
	found := regexp.MustCompile(`/assets/[a-z]+\.[0-9a-f]{12}\.(?:css|js)`).FindAllString(sign.text, -1)
	if len(found) != 2 {
		t.Fatalf("the page has %v", found)
	}
	for i, most := range []int{36 << 10, 35 << 10} {
		p := b.get(t, found[i]).want(t, 200)
		if len(p.text) > most || !strings.Contains(p.header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d bytes, %v", found[i], len(p.text), p.header)
		}
	}
	b.get(t, "/assets/style.css").want(t, 404)
	for accepts, encoding := range map[string]string{"br, gzip;q=0.5": "gzip", "gzip;q=0": "", "identity": ""} {
		b.header.Set("Accept-Encoding", accepts)
		testkit.Equal(t, b.get(t, found[0]).header.Get("Content-Encoding"), encoding, "Accept-Encoding: %s", accepts)
	}
	b.header.Del("Accept-Encoding")
	testkit.Equal(t, b.do(t, http.MethodHead, found[0], nil).status, 200, "HEAD")
}

// An empty list says what it is for, with a picture and one primary button, and has no filters. A list with entries, or
// with a filter that none matches, has filters.
func TestEmptyLists(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "operator")
	b, viewer := signIn(t, c), signIn(t, tenant.User(t, "viewer"))
	counts := func(p *page) string {
		p.want(t, 200)
		return fmt.Sprint(strings.Count(p.text, `class="art"`), strings.Count(p.text, `class="filter"`),
			strings.Count(p.text, "primary"))
	}
	for path, filter := range map[string]string{"/spools": "?search=x", "/filaments": "?search=x", "/vendors": "?search=x",
		"/products": "?search=x", "/printers": "?search=x", "/orders": "?search=x", "/runs/all": "?search=x",
		"/stock": "?low=true"} {
		testkit.Equal(t, counts(b.get(t, path)), "1 0 1", "pictures, filters and primary buttons of %s", path)
		testkit.Equal(t, counts(viewer.get(t, path)), "1 0 0", "those of %s for a viewer", path)
		testkit.Equal(t, counts(b.get(t, path+filter)), "0 1 1", "those of %s with a filter", path)
	}
	testkit.Equal(t, counts(b.get(t, "/runs")), "1 0 1", "those of the board")
	testkit.Equal(t, counts(b.get(t, "/queue")), "1 0 1", "those of the queue")
	c.NewProduct(t, "Hook", 10)
	testkit.Equal(t, counts(b.get(t, "/products")), "0 1 1", "those of a product")
}
