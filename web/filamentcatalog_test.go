package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"spoolwright/inventory"
	"spoolwright/tests/testkit"
	"spoolwright/web"
	"spoolwright/webhooks"
)

// A filament of the catalog is found and added on the page of a new filament, and on that of new spools: without
// JavaScript, and with all that the catalog knows.
func TestFilamentFromCatalog(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	b.get(t, "/filaments/new").want(t, 200).shows(t, "Fill the catalog of filaments")
	b.get(t, "/spools/new").want(t, 200).hides(t, "catalog")
	lines := `{"id":"prusament_pla_galaxyblack_1000_175","manufacturer":"Prusament","name":"Galaxy Black",` +
		`"material":"PLA","density":1.24,"weight":1000,"spool_weight":201.5,"diameter":1.75,"color_hex":"3d3e3d",` +
		`"extruder_temp":215,` +
		`"bed_temp":60}` + "\n" +
		`{"id":"acme_petgcf_night_750_285","manufacturer":"Acme <b>&","name":"Night \"x\"","material":"PETG-CF",` +
		`"density":1.3,"weight":750,"diameter":2.85,"color_hexes":["112233","44556677"],` +
		`"multi_color_direction":"coaxial"}` + "\n" +
		`{"id":"odd","manufacturer":"Odd","name":"Thick","material":"PLA","density":1.2,"weight":1000,"diameter":3}` + "\n"
	for i := range 25 {
		lines += fmt.Sprintf(`{"id":"many_%d","manufacturer":"Many","name":"Shade %d","material":"PLA","density":1.2,`+
			`"weight":1000,"diameter":1.75}`+"\n", i, i)
	}
	c.With("Content-Type", "application/jsonl").Post(t, "/api/v1/filament-catalog/import", lines).Want(200)

	// Type, choose, done.
	const add = "/filaments/from-catalog?catalog="
	page := b.get(t, "/filaments/new").want(t, 200).hides(t, "Prusament")
	if !strings.Contains(page.text, `name="catalog"`) {
		t.Fatalf("the page has no search: %s", page.text)
	}
	hits := b.get(t, "/filaments/new?catalog=galaxy+pla").want(t, 200).
		shows(t, "PLA Galaxy Black", "Prusament · 1", "g · 1.75 mm").hides(t, "Thick", "more words")
	at := hits.submit(t, add+"galaxy%20pla").want(t, 303).header.Get("Location")
	b.get(t, at).want(t, 200).says(t, "The filament was added from the catalog.").
		shows(t, "PLA Galaxy Black", "Prusament", "202 g", "215 °C", "60 °C", "1.24 g/cm³", "Add spools")
	c.Get(t, "/api/v1"+at).Shows(map[string]string{"material_type": "PLA", "color": "Galaxy Black",
		"name": "Galaxy Black", "color_hex": "#3D3E3D", "vendor_name": "Prusament", "density_g_cm3": "1.24",
		"spool_weight_grams": "201.5", "net_weight_grams": "1000", "extruder_temperature_c": "215",
		"bed_temperature_c": "60", "diameter_mm": "1.75", "external_id": "prusament_pla_galaxyblack_1000_175"})

	// The farm has each filament once, also after a form that was sent twice.
	hits.submit(t, add+"galaxy%20pla").to(t, at).says(t, "The farm already has this filament.")
	c.Get(t, "/api/v1/filaments").Shows(map[string]string{"total": "1"})

	// On the page of new spools, the filament is chosen.
	hits = b.get(t, "/spools/new?catalog=night").want(t, 200).shows(t, `PETG-CF Night "x"`, "Acme <b>& · 750 g · 2.85 mm")
	to := hits.submit(t, add+"night").want(t, 303).header.Get("Location")
	night := strings.TrimPrefix(to, "/spools/new?filament_id=")
	if chosen := b.get(t, to).want(t, 200); !strings.Contains(chosen.text, `value="`+night+`" data-name="PETG-CF Night &#34;x&#34;" checked>`) {
		t.Errorf("the filament is not chosen: %s", chosen.text)
	}
	c.Get(t, "/api/v1/filaments/"+night).Shows(map[string]string{"material_type": "PETG", "material_name": "PETG-CF",
		"color_hexes": "[#112233 #44556677]", "color_arrangement": "coaxial"})

	// What cannot be found or added says so.
	b.get(t, "/filaments/new?catalog=shade").shows(t, "and 5 more in the catalog: type more words.")
	b.get(t, "/filaments/new?catalog=nothing").want(t, 200).shows(t, "Nothing in the catalog matches.")
	b.get(t, "/filaments/new?catalog=a+b+c+d+e+f+g+h+i+j+k").want(t, 200).shows(t, "at most 10 words")
	b.get(t, "/filaments/new?catalog=thick").submit(t, add+"thick").want(t, 422).shows(t, "Diameter", "2.85", "PLA Thick")
	page.b.do(t, "POST", "/filaments/from-catalog", map[string][]string{"external_id": {"gone"}}).want(t, 422).
		shows(t, "no longer has this filament")
	page.b.do(t, "POST", "/filaments/from-catalog", map[string][]string{}).want(t, 422)

	// The catalog is that of the farm, and viewers add nothing.
	signIn(t, api.Operator(t)).get(t, "/filaments/new?catalog=galaxy").shows(t, "Nothing in the catalog matches.")
	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, "/filaments/new?catalog=galaxy").want(t, 403)
	viewer.do(t, "POST", "/filaments/from-catalog", map[string][]string{"external_id": {"odd"}}).want(t, 403)
}

// People fill the catalog with a file. The notice leads to the search.
func TestCatalogFromFile(t *testing.T) {
	t.Parallel()
	const entry = `{"id":"acme_pla_teal","manufacturer":"Acme","name":"Teal","material":"PLA","density":1.24,` +
		`"weight":1000,"diameter":1.75}`
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	const path = "/filaments/catalog"
	b.get(t, "/filaments/new").hides(t, "Fetch the catalog")
	for file, want := range map[string]string{
		"not json": "The file must have objects of SpoolmanDB",
		"[]":       "The file has no filaments.",
		`[` + entry + `,{"id":"x","manufacturer":"","name":"x","material":"PLA","density":1,"weight":1,"diameter":1}]`: "Object 2",
		"": "The file has no filaments.",
	} {
		b.upload(t, path, nil, "filaments.json", file).want(t, 422).shows(t, "Nothing was added to the catalog.", want).
			hides(t, "Body")
	}
	b.upload(t, path, nil).want(t, 422).shows(t, "The file is missing: choose one.")
	b.do(t, "POST", path, nil).want(t, 404) // the operator has set no address
	c.Get(t, "/api/v1/filament-catalog").Shows(map[string]string{"total": "0"})
	b.upload(t, path, nil, "filaments.json", "["+entry+"]").to(t, "/filaments/new").
		says(t, "The catalog is filled: 1 new, 0 changed. Search for your filament.").shows(t, "Update the catalog")
	b.get(t, "/filaments/new?catalog=teal").shows(t, "PLA Teal")
	api.Operator(t).Get(t, "/api/v1/filament-catalog").Shows(map[string]string{"total": "0"})
	signIn(t, tenant.User(t, "viewer")).upload(t, path, nil, "filaments.json", "["+entry+"]").want(t, 403)
	tenant.User(t, "admin").Get(t, "/api/v1/audit-log?action=data.imported").Want(200).
		Shows(map[string]string{"total": "1", "items.0.actor_id": c.Actor.User})
}

// A button fetches the catalog from the address of the operator. What does not answer, is too large, or is no catalog,
// changes nothing, and a private address is not asked.
func TestCatalogFromAddress(t *testing.T) {
	t.Parallel()
	const entry = `{"id":"acme_%s","manufacturer":"Acme","name":"Shade","material":"PLA","density":1.24,` +
		`"weight":1000,"diameter":1.75}`
	answers := map[string]func(w http.ResponseWriter){
		"/good":  func(w http.ResponseWriter) { fmt.Fprintf(w, "["+entry+","+entry+"]", "1", "2") },
		"/none":  func(w http.ResponseWriter) { w.WriteHeader(404) },
		"/moved": func(w http.ResponseWriter) { w.Header().Set("Location", "/good"); w.WriteHeader(302) },
		"/page":  func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") },
		"/large": func(w http.ResponseWriter) { w.Write(make([]byte, inventory.MaxCatalogUpload+1)) },
	}
	asked := make(chan string, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		answers[r.URL.Path](w)
	}))
	defer s.Close()
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for _, test := range []struct {
		path    string
		allowed []netip.Prefix
		want    string
	}{
		{"/good", loopback, ""}, {"/none", loopback, "the response is 404"}, {"/moved", loopback, "the response is 302"},
		{"/page", loopback, "must have objects of SpoolmanDB"}, {"/large", loopback, "it has more than 12 MB"},
		{"/good", nil, "the address is not public"},
	} {
		api := newAPI(t, testkit.Options{Pages: func(c *web.Config) {
			c.Catalog.URL = s.URL + test.path
			c.Catalog.Client = webhooks.NewClient(webhooks.Config{AllowedNetworks: test.allowed}, false)
		}})
		c := api.Operator(t)
		b := signIn(t, c)
		page := b.get(t, "/filaments/new").want(t, 200).shows(t, "Fetch the catalog", "From "+s.URL+test.path)
		if test.want != "" {
			page.submit(t, "/filaments/catalog").want(t, 422).shows(t, "Nothing was added to the catalog.", test.want)
			c.Get(t, "/api/v1/filament-catalog").Shows(map[string]string{"total": "0"})
		} else {
			page.submit(t, "/filaments/catalog").to(t, "/filaments/new").shows(t, "2 new, 0 changed")
			c.Get(t, "/api/v1/filament-catalog").Shows(map[string]string{"total": "2"})
			page.submit(t, "/filaments/catalog").to(t, "/filaments/new").shows(t, "0 new, 0 changed")
			<-asked
		}
		if test.allowed != nil {
			testkit.Equal(t, <-asked, test.path, "the path that was asked for")
		} else if len(asked) > 0 {
			t.Error("a private address was asked")
		}
	}
}
