package blackbox_test

import (
	"net/url"
	"testing"

	"spoolwright/tests/testkit"
)

// A list from a moment on has what was changed, removed or restored since then, and nothing else. A spool changes with
// its remaining weight, and with its filament and vendor.
func TestUpdatedFrom(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	tenant := api.Tenant(t)
	c, other := tenant.User(t, "operator"), api.Operator(t)
	type j = testkit.JSON
	vendor := c.Post(t, "/api/v1/vendors", j{"name": "v"}).Want(201).ID()
	c.Post(t, "/api/v1/vendors", j{"name": "w"}).Want(201)
	filament := c.Post(t, "/api/v1/filaments", j{"vendor_id": vendor, "material_type": "PLA", "color": "Red",
		"diameter_mm": 1.75}).Want(201).ID()
	c.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": "Blue", "diameter_mm": 1.75}).Want(201)
	spool := c.Post(t, "/api/v1/spools", j{"filament_id": filament, "net_weight_grams": 1000}).Want(201).ID()
	black, product := c.NewSpool(t, 500, nil), c.NewProduct(t, "Hook", 10)
	c.NewProduct(t, "Other", 10)
	order, _ := c.NewOrder(t, product, 2)
	run := c.Post(t, "/api/v1/production-runs", j{"status": "in_progress",
		"materials": []j{{"spool_id": black, "actual_weight_grams": 10}}}).Want(201).ID()
	printer := c.Post(t, "/api/v1/printers", j{"name": "p"}).Want(201).ID()
	for range 2 {
		c.NewOrder(t, product, 1)
		c.Post(t, "/api/v1/production-runs", j{}).Want(201)
	}
	lists := map[string]string{"vendors": vendor, "filaments": filament, "spools": spool, "products": product,
		"orders": idOf(order), "production-runs": run, "printers": printer}
	super := connectSuper(t)
	// since calls change, and checks what has changed since then, by list.
	since := func(change func(), want map[string]string, hidden bool) {
		t.Helper()
		// The entries of the ledger become old: the list also looks at those of the last minute.
		check(t, super.PgConn().Exec(t.Context(), `begin; set local session_replication_role = replica;
			update spool_usage set id = ('00' || substr(id::text, 3))::uuid where tenant_id = '`+tenant.ID+`'; commit`).Close())
		moment := c.Post(t, "/api/v1/stock-levels", j{"material_type": "PC", "minimum_grams": 1}).Want(201)
		c.Delete(t, "/api/v1/stock-levels/"+moment.ID()).Want(204)
		change()
		query := "?updated_from=" + url.QueryEscape(moment.Text("updated_at")) + "&hidden=any"
		for list := range lists {
			id, page := want[list], c.Get(t, "/api/v1/"+list+query+"&sort_by=updated_at").Want(200)
			if id == "" {
				page.Shows(map[string]string{"total": "0"})
				continue
			}
			page.Shows(map[string]string{"total": "1", "items.0.id": id})
			testkit.Equal(t, page.Value("items.0.hidden_at") != nil, hidden, "%s: hidden", list)
			if hidden {
				c.Get(t, "/api/v1/"+list+"?"+query[1:len(query)-len("&hidden=any")]).Shows(map[string]string{"total": "0"})
			}
			other.Get(t, "/api/v1/"+list+query).Want(200).Shows(map[string]string{"total": "0"})
		}
	}
	since(func() {}, nil, false)
	since(func() { c.Post(t, "/api/v1/spools/"+black+"/deduct", j{"weight_grams": 5}).Want(200) },
		map[string]string{"spools": black}, false)
	since(func() { c.Patch(t, "/api/v1/vendors/"+vendor, j{"name": "V2"}).Want(200) },
		map[string]string{"vendors": vendor, "filaments": filament, "spools": spool}, false)
	since(func() { c.Patch(t, "/api/v1/filaments/"+filament, j{"color": "Green"}).Want(200) },
		map[string]string{"filaments": filament, "spools": spool}, false)
	since(func() { c.Post(t, "/api/v1/production-runs/"+run+"/complete", nil).Want(200) },
		map[string]string{"production-runs": run, "spools": black}, false)
	since(func() { c.Post(t, "/api/v1/spools/"+spool+"/refill", nil).Want(200) },
		map[string]string{"spools": spool}, false)
	since(func() { c.Post(t, "/api/v1/spools/"+spool+"/measure", j{"gross_grams": 900, "full": true}) },
		nil, false)
	// What is never removed for good.
	for _, list := range []string{"spools", "products", "orders", "production-runs", "filaments", "vendors"} {
		at, want := "/api/v1/"+list+"/"+lists[list], map[string]string{list: lists[list]}
		since(func() { c.Delete(t, at).Want(204) }, want, true)
		since(func() { c.Post(t, at+"/restore", nil).Want(200) }, want, false)
	}
	for _, list := range []string{"orders", "products", "production-runs", "printers"} {
		since(func() { c.Patch(t, "/api/v1/"+list+"/"+lists[list], j{"notes": "x"}).Want(200) },
			map[string]string{list: lists[list]}, false)
	}
}
