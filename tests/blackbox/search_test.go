package blackbox_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// TestSearchWords checks that a search of each list finds the rows in which all words occur that a row shows, in any
// order, and no others.
func TestSearchWords(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	c := w.newFixture(t).admin
	type j = testkit.JSON
	names := map[string]string{} // of the ids
	create := func(name, path string, body j) string {
		t.Helper()
		id := c.Post(t, "/api/v1/"+path, body).Want(201).ID()
		names[id] = name
		return id
	}
	spool := func(name string, fields j) string {
		t.Helper()
		body := j{"material_type": "PLA", "color": "Red", "diameter_mm": 1.75, "net_weight_grams": 1000}
		for key, value := range fields {
			body[key] = value
		}
		if body["filament_id"] != nil {
			for _, key := range []string{"material_type", "color", "diameter_mm"} {
				delete(body, key)
			}
		}
		return create(name, "spools", body)
	}
	acme := create("v1", "vendors", j{"name": "Acme", "notes": "Zürich"})
	create("v2", "vendors", j{"name": "Polymaker 100%"})
	f1 := create("f1", "filaments", j{"vendor_id": acme, "name": "Galaxy", "material_type": "PETG",
		"material_name": "PETG-CF", "color": "Black", "diameter_mm": 1.75, "article_number": "ACM-1"})
	create("f2", "filaments", j{"material_type": "PLA", "color": "Red", "diameter_mm": 1.75, "notes": "number 1"})
	s1 := spool("s1", j{"brand": "Acme", "color": "Galaxy Black", "location": "Shelf A", "lot_number": "L-2_3",
		"finish": "Matte", "supplier": "3DJake", "notes": "Türkis\nlike 1200"})
	spool("s2", j{"filament_id": f1, "location": "Shelf B"})
	spool("s3", j{"brand": "Te\u0301le\u0301", "color": "GRU\u0308N", "location": "Box 12"})
	for n := 4; n <= 12; n++ {
		spool(fmt.Sprintf("s%d", n), j{"color": "White"})
	}
	box := create("p1", "products", j{"name": "Gear Box", "sku": "GB-1", "category": "Drives",
		"description": "with 12 teeth"})
	lid := create("p2", "products", j{"name": "Lid", "sku": "GB_1", "notes": "hidden words"})
	create("o1", "orders", j{"source": "Etsy", "reference": "#1012", "customer": "Ada Byron", "notes": "gift",
		"items": []j{{"product_id": box, "quantity": 1}}})
	create("o2", "orders", j{"source": "Shop", "reference": "R-77", "customer": "Grace",
		"items": []j{{"product_id": lid, "quantity": 1}}})
	create("m1", "printers", j{"name": "Voron", "model": "2.4", "location": "Cellar"})
	create("m2", "printers", j{"name": "Prusa", "model": "MK4", "location": "Cellar"})
	create("r1", "production-runs", j{"printer_name": "Voron", "notes": "night shift",
		"items": []j{{"product_id": box, "quantity": 1}}, "materials": []j{{"spool_id": s1}}})
	create("r2", "production-runs", j{"printer_name": "Prusa", "items": []j{{"product_id": lid, "quantity": 1}}})
	c.With("Content-Type", "application/jsonl").Post(t, "/api/v1/filament-catalog/import", `[
		{"id":"polymaker_pla","manufacturer":"Polymaker","name":"PolyLite Teal","material":"PLA","density":1.24,
			"weight":1000,"diameter":1.75,"finish":"matte"},
		{"id":"polymaker_petg","manufacturer":"Polymaker","name":"Teal","material":"PETG","density":1.24,
			"weight":1000,"diameter":1.75}]`).Want(200)

	for _, list := range []struct{ path, queries string }{
		{"spools", `PLA Galaxy Black: s1; black galaxy pla: s1; Acme Galaxy: s1 s2; Shelf A: s1; shelf   b: s2; a shelf b: 
			#1: s1; 1: s1; 2: s1 s2; 3: s1 s3; 12: s1 s3 s12; #12: s12; #12 White: s12; #12 Red: ; 11: s11; 12 White: s12
			#1 #2: ; #13: ; 00: s1; 0: ; #0: ; #99999999999: ; PETG-CF: s2; Galaxy: s1 s2; l-2_3: s1; L_2: ; _: s1; %:
			matte: s1; 3djake matte: s1; turkis: s1; TÜRKIS: s1; türkis: s1; Télé: s3; tele grun: s3; ACM-1:
			PLA Galaxy Black (Acme): s1; Acme · Matte: s1; acme matte, shelf a: s1; BlackAcme: ; Galaxy Blue:
			Black Shelf: s1 s2; pla galaxy　black: s1`},
		{"filaments", `PETG-CF Black: f1; acme galaxy: f1; 1: f1 f2; #1: f1; #2 red: f2; Galaxy PETG: f1; red galaxy: `},
		{"vendors", `acme: v1; zurich acme: v1; #2: v2; 100%: v2; 2: v2; polymaker acme: `},
		{"filament-catalog", `Polymaker PLA: polymaker_pla; teal polymaker: polymaker_pla polymaker_petg
			polylite matte: polymaker_pla; petg matte: ; #1: `},
		{"products", `box gear: p1; GB-1 drives: p1; teeth 12: p1; gb_1: p2; words: ; #12: p1`},
		{"orders", `1012: o1; #1012: o1; ada etsy: o1; byron ada gift: o1; gear: o1; GB_1 shop: o2; r-77: o2; ada grace: `},
		{"printers", `cellar: m1 m2; voron cellar: m1; #2: m2; 2.4: m1`},
		{"production-runs", `voron: r1; night voron: r1; gear box: r1; gb_1: r2; prusa gear: ; lid prusa: r2; teeth: `},
	} {
		for query := range strings.FieldsFuncSeq(list.queries, func(r rune) bool { return r == ';' || r == '\n' }) {
			query, want, _ := strings.Cut(strings.TrimSpace(query)+" ", ": ")
			a := c.Get(t, "/api/v1/"+list.path+"?limit=100&search="+url.QueryEscape(query)).Want(200)
			var got []string
			for i := range a.List("items") {
				item := fmt.Sprintf("items.%d.", i)
				if name := names[a.Text(item+"id")]; name != "" {
					got = append(got, name)
				} else {
					got = append(got, a.Text(item+"external_id"))
				}
			}
			slices.Sort(got)
			all := strings.Fields(want)
			slices.Sort(all)
			if !slices.Equal(got, all) || a.Text("total") != fmt.Sprint(len(all)) {
				t.Errorf("%s, search %q: %v of %s, want %v", list.path, query, got, a.Text("total"), all)
			}
		}
		c.Get(t, "/api/v1/"+list.path+"?search="+strings.Repeat("a+b+c+", 3)).Want(200) // three different words
		c.Get(t, "/api/v1/"+list.path+"?search=a+b+c+d+e+f+g+h+i+j+k").Fields("search")
	}

	// The export and a change of several spools select what the list does.
	export := string(c.Get(t, "/api/v1/spools/export?format=csv&search=acme+%231").Want(200).Body)
	if strings.Count(export, "\n") != 3 || !strings.Contains(export, s1) {
		t.Errorf("the export of a search: %s", export)
	}
	c.Patch(t, "/api/v1/spools", j{"filter": j{"search": "#12 white"}, "changes": j{"location": "Window"}}).Want(200)
	c.Get(t, "/api/v1/spools?search=window").Want(200).Shows(map[string]string{"total": "1", "items.0.number": "12"})
}
