package web_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// A filament of the catalog is found and added on the page of a new filament, and on that of new spools: without
// JavaScript, and with all that the catalog knows.
func TestFilamentFromCatalog(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	b.get(t, "/filaments/new").want(t, 200).shows(t, "catalog of filaments that can be bought is empty", "import catalog")
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
