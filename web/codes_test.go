package web_test

import (
	"net/url"
	"testing"

	"spoolwright/tests/testkit"
)

// Each field for a spool, the search and the list of spools understand the codes of labels.
func TestCodesOfLabels(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	printer := "/printers/" + c.Post(t, "/api/v1/printers", j{"name": "MK4"}).Want(201).ID()
	first, second := c.NewSpool(t, 500, nil), c.NewSpool(t, 500, j{"color": "Red"})
	spool := "/spools/" + second

	codes := []string{"WEB+SPOOLMAN:S-2", "web+spoolman:s-2", " Web+Spoolman:S-2 ", "/spool/show/2", "/SPOOL/SHOW/2",
		"https://spoolman.local:7912/spool/show/2", "http://farm.example/spoolman/spool/show/2/?from=label#top", "/s/2",
		"http://farm.example/s/2", "HTTPS://FARM.EXAMPLE/S/2"}
	slot := printer + "/slots/1"
	for _, code := range append(codes, "#2", "2", " #2 ") {
		b.get(t, printer).submit(t, slot, "spool_number", code).to(t, printer).shows(t, "#2 PLA Red 500 g")
		b.get(t, printer).submit(t, slot).to(t, printer).hides(t, "#2 PLA Red")
		b.get(t, "/search?q="+url.QueryEscape(code)).want(t, 303)
	}
	for _, code := range codes {
		for _, search := range []string{"/search?q=", "/spools?search="} {
			to := b.get(t, search+url.QueryEscape(code)).want(t, 303).header.Get("Location")
			testkit.Equal(t, to, "/s/2", "%s%s", search, code)
		}
	}
	b.get(t, "/s/2").to(t, spool)
	b.get(t, "/search?q=%232").to(t, spool)
	b.get(t, "/search?q=2").to(t, spool)

	// Codes of other things are not taken for a spool.
	for _, wrong := range []string{"web+spoolman:f-2", "web+spoolman:s-02", "web+spoolman:s-", "/filament/show/2",
		"/s/2/x", "/s/0", "http://farm.example/2", "##2", "/s/9999999999", "http://[/s/2"} {
		b.get(t, printer).submit(t, slot, "spool_number", wrong).want(t, 422)
		b.get(t, "/search?q="+url.QueryEscape(wrong)).want(t, 200)
	}

	// The other fields for a spool.
	b.get(t, "/runs/new").submit(t, "/runs/new", "materials[0].spool_number", codes[0],
		"materials[0].estimated_weight_grams", "5").want(t, 303)
	run, path := newRun(t, c, j{})
	b.get(t, run).submit(t, run+"/materials", "spool_number", "web+spoolman:s-1", "estimated_weight_grams", "80").
		to(t, run).shows(t, "#1 PLA Black")
	c.Post(t, path+"/start", nil).Want(200)
	exchange := run + "/materials/" + c.Get(t, path).Text("materials.0.id") + "/exchange"
	b.get(t, run).submit(t, exchange, "spool_number", codes[5], "used_grams", "30").to(t, run).shows(t, "#2 PLA Red")
	b.get(t, run).submit(t, run+"/complete").to(t, run)
	b.get(t, run).submit(t, run+"/correct", "materials[0].to_spool_number", "/spool/show/2").to(t, run)
	c.Get(t, path).Shows(map[string]string{"materials.0.spool_id": second})
	c.Post(t, "/api/v1/spools/"+first+"/deduct", j{"weight_grams": 40}).Want(200)
	entry := c.Get(t, "/api/v1/spools/"+first+"/usage?limit=1").Text("items.0.id")
	move := "/spools/" + first + "/usage/" + entry + "/move"
	b.get(t, "/spools/"+first+"?move="+entry).submit(t, move, "spool_number", "WEB+SPOOLMAN:S-2").
		to(t, "/spools/"+first).says(t, "Moved to spool 2: −40 g.")

	// The label of a removed spool leads to its page, that of another farm nowhere.
	c.Delete(t, "/api/v1/spools/"+first).Want(204)
	b.get(t, "/search?q=/spool/show/1").want(t, 303)
	b.get(t, "/s/1").want(t, 404).shows(t, "removed")
	signIn(t, api.Operator(t)).get(t, "/s/2").want(t, 404)
}
