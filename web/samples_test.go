package web_test

import (
	"net/url"
	"strings"
	"testing"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/spoolman"
	"spoolwright/tests/testkit"
)

// everything returns the answers of all reads of the API without parameters, except those about accounts
// and the audit log, which keeps what was done.
func everything(t *testing.T, c *testkit.Client) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, r := range c.API.Routes {
		method, path, _ := strings.Cut(r.Pattern, " ")
		if method != "GET" || strings.Contains(path, "{") || strings.HasPrefix(path, "/api/v1/auth") ||
			strings.HasPrefix(path, "/api/v1/users") || path == "/api/v1/settings" || path == "/api/v1/tenant/export" ||
			path == "/api/v1/audit-log" || path == "/api/v1/stream" {
			continue
		}
		answer, err := c.Send("GET", path, nil)
		testkit.Check(t, err)
		all[path] = string(answer.Body)
	}
	if len(all) < 20 {
		t.Fatalf("%d reads", len(all))
	}
	return all
}

// An empty farm is filled with sample data, with which each page has something to show. Its removal leaves what an
// empty farm has.
func TestSampleData(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	empty := everything(t, api.Tenant(t).User(t, "admin"))
	c := api.Tenant(t).User(t, "admin")
	b := signIn(t, c)
	b.get(t, "/samples").want(t, 200).shows(t, "The farm has no sample data.")
	b.get(t, "/").submit(t, "/samples").to(t, "/").shows(t, "The farm has sample data now.", "First steps").
		hides(t, "Fill with sample data", "Filament Done", "A printer Done", "A product Done")
	b.do(t, "POST", "/samples", url.Values{}).want(t, 409)
	for _, list := range []string{"spools", "printers", "products", "orders", "production-runs"} {
		if c.Get(t, "/api/v1/"+list).Want(200).Text("total") == "0" {
			t.Errorf("no %s", list)
		}
	}
	if list := c.Get(t, "/api/v1/products?limit=100").Want(200); strings.Contains(string(list.Body),
		`"picture_version":null`) {
		t.Errorf("a product has no picture: %s", list.Body)
	}
	if usage := c.Get(t, "/api/v1/reports/usage").Want(200); usage.Text("grams") == "0" {
		t.Errorf("no filament was used: %s", usage.Body)
	}
	b.get(t, "/settings/backup").shows(t, "Sample data")
	b.get(t, "/samples").want(t, 200).shows(t, "spools", "printers", "runs").hides(t, "Also removed", "Kept").
		submit(t, "/samples/remove").to(t, "/").shows(t, "The sample data is removed.", "Fill with sample data")
	for path, answer := range everything(t, c) {
		testkit.Equal(t, answer, empty[path], "GET %s", path)
	}
	b.get(t, "/settings/backup").hides(t, "Sample data")
	b.do(t, "POST", "/samples/remove", url.Values{}).to(t, "/")
	b.get(t, "/").submit(t, "/samples").to(t, "/").shows(t, "The farm has sample data now.")

	// The samples of one farm are not those of another one.
	other := signIn(t, api.Tenant(t).User(t, "admin"))
	other.do(t, "POST", "/samples/remove", url.Values{}).to(t, "/")
	if c.Get(t, "/api/v1/spools").Text("total") == "0" {
		t.Error("the removal has removed the samples of another farm")
	}
}

// Own data stays when the samples are removed, with the samples that it uses. A run and an order of samples only go
// with them.
func TestSampleDataInUse(t *testing.T) {
	testkit.Rig(t)
	t.Parallel()
	c := newAPI(t, testkit.Options{Change: func(c *server.Config) {
		c.Surfaces = []server.Surface{spoolman.Surface(c.DB)}
	}}).Tenant(t).User(t, "admin")
	b := signIn(t, c)
	b.get(t, "/").submit(t, "/samples").to(t, "/")
	id := func(list, name string) string {
		t.Helper()
		return c.Get(t, "/api/v1/"+list+"?limit=1&search="+url.QueryEscape(name)).Want(200).Text("items.0.id")
	}
	stand, lamp, base := id("products", "phone stand"), id("products", "LAMP-SET"), id("products", "LAMP-BASE")
	black, white := id("spools", "PLA Black Polymaker"), id("spools", "Cotton White")
	printer, other := id("printers", "Voron 2.4 #3"), id("printers", "Bambu X1C #8")
	keyed := id("printers", "Prusa MK4 #4")
	key := func(printer string) string {
		return c.Post(t, "/api/v1/api-keys", j{"name": "K", "role": "printer", "printer_id": printer}).Want(201).ID()
	}
	key(keyed)
	c.Delete(t, "/api/v1/api-keys/"+key(other)).Want(204)
	reporter, grey := id("printers", "Bambu X1C #7"), id("spools", "Forest Green")
	watched, leased := id("printers", "Prusa MK4 #5"), id("printers", "Prusa MK4 #6")
	c.Post(t, "/api/v1/printer-states/lease", j{"watcher": "w", "printer_ids": []string{watched, leased}}).Want(200)
	c.Post(t, "/api/v1/printer-states", j{"states": []j{{"printer_id": watched, "sequence": 1, "state": "printing",
		"job": j{"id": "1", "file": "own.gcode"}}}}).Want(200)

	// What consists of samples only.
	c.Post(t, "/api/v1/orders", j{"reference": "PLAY-1", "items": []j{{"product_id": stand, "quantity": 1}}}).Want(201)
	played := c.Post(t, "/api/v1/production-runs", j{"printer_id": other,
		"items":     []j{{"product_id": stand, "quantity": 1}},
		"materials": []j{{"spool_id": white, "actual_weight_grams": 20}}}).Want(201).ID()
	c.Post(t, "/api/v1/production-runs/"+played+"/complete", nil).Want(200)

	// What is the farm's own, with and without samples.
	own := c.NewSpool(t, 400, j{"color": "Own Red", "purchase_price": 20})
	c.Do(t, "PUT", "/api/v1/printers/"+other+"/slots/4", j{"spool_id": own}).Want(200)
	hook := c.NewProduct(t, "Own hook", 10)
	c.Post(t, "/api/v1/products", j{"name": "Own lamp", "components": []j{{"component_product_id": base}}}).Want(201)
	run := c.Post(t, "/api/v1/production-runs", j{"printer_id": printer,
		"items":     []j{{"product_id": hook, "quantity": 1}},
		"materials": []j{{"spool_id": black, "actual_weight_grams": 30}}}).Want(201).ID()
	c.Post(t, "/api/v1/production-runs/"+run+"/complete", nil).Want(200)
	left := c.Get(t, "/api/v1/spools/"+black).Want(200).Text("remaining_weight_grams")

	// An own run keeps what a printer reported for it before it was moved to none.
	reported := c.Post(t, "/api/v1/production-runs", j{"printer_id": reporter, "status": "in_progress",
		"items":     []j{{"product_id": hook, "quantity": 1}},
		"materials": []j{{"spool_id": grey, "estimated_weight_grams": 9}}}).Want(201).ID()
	c.Do(t, "PUT", "/api/v1/printers/"+reporter+"/slots/1", j{"spool_id": grey}).Want(200)
	made := c.Post(t, "/api/v1/api-keys", j{"name": "K", "role": "printer", "printer_id": reporter}).Want(201)
	(&testkit.Client{API: c.API}).With("X-API-Key", made.Text("key")).Do(t, "PUT", "/spoolman/api/v1/spool/"+
		c.Get(t, "/api/v1/spools/"+grey).Want(200).Text("number")+"/use", j{"use_weight": 5}).Want(200)
	c.Patch(t, "/api/v1/production-runs/"+reported, j{"printer_id": nil}).Want(200)
	c.Delete(t, "/api/v1/api-keys/"+made.ID()).Want(204)
	order := c.Post(t, "/api/v1/orders", j{"reference": "OWN-1", "items": []j{{"product_id": hook, "quantity": 2}}}).
		Want(201).ID()

	b.get(t, "/samples").shows(t, "Also removed", "Order PLAY-1", "Run 1 × Phone stand", "Kept",
		"Printer Voron 2.4 #3", "Printer Prusa MK4 #5",
		"Product Desk lamp base", "PLA Black (Polymaker)").submit(t, "/samples/remove").to(t, "/").
		shows(t, "The sample data is removed. Your own data uses these, so they stay:", "Desk lamp base")
	for path, want := range map[string]string{"spools": "3", "printers": "4", "products": "3", "orders": "1",
		"production-runs": "2"} {
		testkit.Equal(t, c.Get(t, "/api/v1/"+path).Want(200).Text("total"), want, "%s", path)
	}
	for _, path := range []string{"products/" + stand, "products/" + lamp, "spools/" + white, "printers/" + other,
		"production-runs/" + played} {
		c.Get(t, "/api/v1/"+path).WantError(404, "NOT_FOUND")
	}
	c.Get(t, "/api/v1/orders/"+order).Want(200)
	c.Post(t, "/api/v1/production-runs/"+reported+"/complete", nil).Want(200).
		Shows(map[string]string{"spools_updated.0.reported_grams": "5"})
	c.Get(t, "/api/v1/printers/"+keyed).Want(200) // its key is not revoked
	c.Get(t, "/api/v1/spools/"+own).Want(200).
		Shows(map[string]string{"remaining_weight_grams": "400", "location": "null"})
	// The spool begins with what the samples have left of it, and only own use is in its ledger and in the reports.
	c.Get(t, "/api/v1/spools/"+black).Want(200).Shows(map[string]string{"remaining_weight_grams": left})
	ledger := c.Get(t, "/api/v1/spools/"+black+"/usage").Want(200)
	ledger.Shows(map[string]string{"total": "2", "items.0.change_grams": "-30", "items.0.after_grams": left,
		"items.1.kind": "created", "items.1.after_grams": ledger.Text("items.0.before_grams")})
	c.Get(t, "/api/v1/reports/usage").Want(200).Shows(map[string]string{"grams": "35"})
	b.get(t, "/").shows(t, "First steps", "Filament Done", "A printer Done").hides(t, "sample data")
	b.get(t, "/samples").shows(t, "The farm has no sample data.")
	b.get(t, "/spools/"+black).want(t, 200)
}

// A farm that has removed all that it had can be filled with samples, and its first steps are to be done again.
func TestSampleDataAfterRemovals(t *testing.T) {
	testkit.Rig(t)
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Tenant(t).User(t, "admin")
	vendor := c.Post(t, "/api/v1/vendors", j{"name": "V"}).Want(201).ID()
	c.Post(t, "/api/v1/filaments", j{"vendor_id": vendor, "material_type": "PLA", "color": "Red", "diameter_mm": 1.75}).
		Want(201)
	c.NewSpool(t, 500, nil)
	product := c.NewProduct(t, "HOOK", 10)
	c.NewOrder(t, product, 1)
	printer := c.Post(t, "/api/v1/printers", j{"name": "P"}).Want(201).ID()
	c.Post(t, "/api/v1/production-runs", j{"printer_id": printer, "items": []j{{"product_id": product}}}).Want(201)
	tables := []string{"vendors", "filaments", "spools", "products", "orders", "printers", "production_runs"}
	b := signIn(t, c)
	b.get(t, "/").shows(t, "Filament Done", "A printer Done", "A product Done")
	for _, table := range tables {
		b.do(t, "POST", "/samples", url.Values{}).want(t, 409)
		testkit.Check(t, c.API.DB.Write(db.As(t.Context(), c.Actor), db.SQL(`update `+table+` set hidden_at = now()`)))
	}
	b.get(t, "/").hides(t, "Filament Done", "A printer Done", "A product Done").submit(t, "/samples").to(t, "/").
		shows(t, "The farm has sample data now.")
}
