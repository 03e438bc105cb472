package spoolman_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/spoolman"
	"spoolwright/tests/testkit"
)

// step is a request and the response that it must have.
type step struct {
	op, body string
	status   int
	contains []string
}

func (p *printer) run(t *testing.T, steps []step) {
	t.Helper()
	for _, s := range steps {
		method, path, _ := strings.Cut(s.op, " ")
		p.want(t, method, path, s.body, s.status, s.contains...)
	}
}

// Clients create, change and remove vendors, filaments and spools.
func TestResources(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	has := func(texts ...string) []string { return texts }
	p.run(t, []step{
		{"POST vendor", `{"name": "Polymaker", "comment": "c", "empty_spool_weight": 140, "external_id": "x"}`, 200,
			has(`{"id":1,"registered":"`,
				`"name":"Polymaker","comment":"c","empty_spool_weight":140,"external_id":"x","extra":{}}`)},
		// The name is unique: clients that create a vendor that is there get it, with what it did not have.
		{"POST vendor", `{"name": "polymaker", "comment": "d"}`, 200, has(`"id":1`, `"comment":"c"`)},
		{"POST vendor", `{"name": ""}`, 200, has(`"id":2`, `"name":""`)},
		{"POST vendor", `{}`, 422, nil},
		{"POST vendor", `{"name": null}`, 422, nil},
		{"POST vendor", `{"name": "x", "empty_spool_weight": -1}`, 422, has("empty_spool_weight")},
		{"PATCH vendor/2", `{"name": "Other", "comment": null}`, 200, has(`"name":"Other"`)},
		{"PATCH vendor/2", `{"name": "POLYMAKER"}`, 409, nil},
		{"PATCH vendor/2", `{"name": null}`, 422, nil},
		{"PATCH vendor/9", `{"name": "x"}`, 404, has("vendor", "9")},

		{"POST filament", `{"density": 1.27, "diameter": 1.75}`, 200,
			has(`{"id":1,`, `"density":1.27,"diameter":1.75,"extra":{},"vendor":{"id":1000000000,`,
				`"name":"Unknown","extra":{}}}`)},
		{"POST filament", `{"name": "Jet Black", "vendor_id": 1, "material": "PLA+", "price": "29.99", "density": "1.24",
			"diameter": 3, "weight": 750, "article_number": "A1", "comment": "n", "settings_extruder_temp": 209,
			"settings_bed_temp": 60, "color_hex": "#1a1A1acc", "external_id": "e"}`, 200,
			has(`"name":"Jet Black","material":"PLA+",`, `"vendor":{"id":1,`,
				`"material":"PLA+","price":29.99,"density":1.24,"diameter":2.85,"weight":750,`+
					`"spool_weight":140,"article_number":"A1","comment":"n","settings_extruder_temp":209,"settings_bed_temp":60,`+
					`"color_hex":"1A1A1ACC","external_id":"e","extra":{},"vendor"`)},
		{"POST filament", `{"diameter": 1.75}`, 422, has("density")},
		{"POST filament", `{"density": 1, "diameter": 0.4}`, 422, has("diameter")},
		{"POST filament", `{"density": 1, "diameter": 1.75, "vendor_id": 9}`, 404, has("vendor", "9")},
		{"POST filament", `{"density": 1, "diameter": 1.75, "color_hex": "red"}`, 422, nil},
		{"POST filament", `{"density": 1, "diameter": 1.75, "multi_color_hexes": "ff0000,00ff00"}`, 422, nil},
		{"POST filament", `{"density": 1, "diameter": 1.75, "multi_color_direction": "coaxial"}`, 422, nil},
		{"POST filament",
			`{"density": 1, "diameter": 1.75, "multi_color_hexes": "ff0000", "multi_color_direction": "coaxial"}`,
			422, nil},
		{"POST filament", `{"density": 1, "diameter": 1.75, "multi_color_hexes": "ff0000,00ff00", "color_hex": "0000ff",
			"multi_color_direction": "coaxial"}`, 422, nil},
		{"PATCH filament/1",
			`{"multi_color_hexes": "ff0000,#00FF00", "multi_color_direction": "longitudinal", "name": "Two"}`,
			200, has(`"multi_color_hexes":"FF0000,00FF00","multi_color_direction":"longitudinal"`)},
		{"PATCH filament/1", `{"color_hex": "00ff00", "density": 2}`, 200,
			has(`"color_hex":"00FF00"`, `"density":2,`)},
		{"PATCH filament/1", `{"density": null}`, 422, nil},
		{"PATCH filament/1", `{"vendor_id": 2, "name": null, "settings_bed_temp": null}`, 200, has(`"name":"Other"`)},
		{"PATCH filament/1", `{"vendor_id": null}`, 200, has(`"name":"Unknown"`)},
		{"PATCH filament/9", `{"density": 1}`, 404, has("filament", "9")},

		{"POST spool", `{"filament_id": 2}`, 200, has(`"id":1,`, `"filament":{"id":2,`, `"price":29.99`,
			`"remaining_weight":750,"initial_weight":750,"spool_weight":140,"used_weight":0`)},
		{"POST spool", `{"filament_id": 2, "used_weight": 800, "initial_weight": 1000, "spool_weight": 200, "price": 5,
			"first_used": "2023-01-02T12:00:00+01:00", "last_used": "2023-01-02 11:00:00", "lot_nr": "L", "location": "A",
			"comment": "c", "archived": true}`, 200,
			has(`"id":2,`, `"first_used":"2023-01-02T11:00:00Z","last_used":"2023-01-02T11:00:00Z"`,
				`"price":5,"remaining_weight":200,"initial_weight":1000,"spool_weight":200,"used_weight":800`,
				`"location":"A","lot_nr":"L","comment":"c","archived":true,"extra":{},"filament"`)},
		{"POST spool", `{"filament_id": 1, "used_weight": 300}`, 200, has(`"remaining_weight":700`)},
		{"POST spool", `{"filament_id": 1, "used_weight": 300, "remaining_weight": 300}`, 400, nil},
		{"POST spool", `{"filament_id": 9}`, 404, has("filament", "9")},
		{"POST spool", `{"filament_id": 1, "first_used": "then"}`, 422, has("first_used")},
		{"POST spool", `{"filament_id": 1, "first_used": 1e300}`, 422, has("first_used")},
		{"POST spool", `{"filament_id": 2, "first_used": 1700000000, "last_used": "1700000000123"}`, 200,
			has(`"first_used":"2023-11-14T22:13:20Z","last_used":"2023-11-14T22:13:20Z"`)},
		{"PATCH spool/1", `{"used_weight": 300, "remaining_weight": 300}`, 400, nil},
		{"PATCH spool/1", `{"filament_id": 1}`, 200, has(`"filament":{"id":1,`, `"remaining_weight":750`)},
		{"PATCH spool/1", `{"filament_id": 9}`, 404, has("filament")},
		{"PATCH spool/1", `{"filament_id": null}`, 422, nil},
		{"PATCH spool/9", `{"filament_id": 1}`, 404, has("spool")},
		{"PATCH spool/1", `{"last_used": null, "price": null}`, 200, nil},
		{"PATCH spool/1", `{"archived": "true"}`, 200, has(`"archived":true`)},
		{"PATCH spool/1", `{"archived": "off"}`, 200, has(`"archived":false`)},
		{"PATCH spool/1", `{"archived": 1}`, 200, has(`"archived":true`)},
		{"PATCH spool/1", `{"archived": 0}`, 200, has(`"archived":false`)},
		{"PATCH spool/1", `{"archived": "maybe"}`, 422, nil}, {"PATCH spool/1", `{"archived": null}`, 422, nil},

		{"PUT spool/1/measure", `{"weight": 640}`, 200,
			has(`"remaining_weight":500`, `"first_used":`, `"last_used":`)},
		{"PUT spool/1/measure", `{"weight": 1640}`, 200,
			has(`"remaining_weight":1500`, `"initial_weight":1500`, `"used_weight":0`)},
		{"PUT spool/1/measure", `{"weight": 100}`, 200, has(`"remaining_weight":0`)},
		{"PUT spool/1/measure", `{}`, 422, nil},
		{"PUT spool/3/use", `{"use_weight": 0}`, 200, has(`"last_used":`, `"remaining_weight":700`)},

		{"PATCH filament/2", `{"name": "Galaxy"}`, 200, has(`"name":"Galaxy"`)}, // and so the color of its spools
		{"DELETE filament/1", ``, 403, nil},
		{"DELETE vendor/1", ``, 200, nil},
		{"GET vendor/1", ``, 404, nil},
		{"GET filament/2", ``, 200, has(`"name":"Unknown"`)},
		{"DELETE spool/1", ``, 200, nil},
		{"DELETE spool/3", ``, 200, nil},
		{"DELETE filament/1", ``, 200, nil},
		{"GET filament/1", ``, 404, has("filament", "1")},
		{"DELETE filament/1", ``, 404, nil},
	})
	p.operator.Get(t, spools+"?archived=any&number=2").Want(200).Shows(map[string]string{
		"items.0.brand": "null", "items.0.color": "Galaxy", "items.0.color_hex": "#1A1A1A",
		"items.0.material_type": "PLA"})
	path := spools + "/" + p.operator.Get(t, spools+"?hidden=true&number=1").Want(200).Text("items.0.id")
	p.wantLedger(t, path, "created 0 750", "measured 750 500", "measured 500 1500", "measured 1500 0")
}

// A filament of the service's own API shows what clients need.
func TestOwnFilaments(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	p.operator.Post(t, "/api/v1/filaments",
		j{"vendor": "Prusa", "material_type": "Custom", "color": "Jet", "diameter_mm": 1.75,
			"net_weight_grams": 1000}).Want(201)
	p.operator.Post(t, "/api/v1/filaments", j{"material_type": "PETG", "color": "Red", "diameter_mm": 1.75}).Want(201)
	p.want(t, "GET", "filament/1", "", 200, `"name":"Jet"`, `"material":"Custom"`, `"density":1.24`, `"name":"Prusa"`,
		`"settings_extruder_temp":210`)
	if a := p.want(t, "GET", "filament/2", "", 200, `"material":"PETG"`); strings.Contains(a.body, "settings_") {
		t.Errorf("a filament without temperatures: %s", a.body)
	}
	p.want(t, "PATCH", "filament/1", `{"settings_extruder_temp": 300, "name": ""}`, 200,
		`"settings_extruder_temp":300`)
	p.operator.Get(t, "/api/v1/filaments?number=1").Want(200).Shows(map[string]string{"items.0.name": "null",
		"items.0.color": "Jet", "items.0.extruder_temperature_c": "300"})
}

// A vendor with the name of a brand is the vendor of the spools of this brand that have no filament.
func TestVendorOfBrand(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	p.add(t, j{"brand": "POLYMAKER", "color": "Teal"})
	vendors := func(want ...string) {
		t.Helper()
		p.want(t, "GET", "vendor", "", 200, want...)
	}
	vendors(`[{"id":1`, `"name":"POLYMAKER"`)
	p.want(t, "POST", "vendor", `{"name": "Poly\u202emaker"}`, 422, "direction")
	p.want(t, "POST", "vendor", `{"name": "Polymaker", "comment": "c"}`, 200, `"id":1,`)
	if all := p.want(t, "GET", "vendor", "", 200, `"id":1,`); strings.Count(all.body, `"id"`) != 1 {
		t.Errorf("the vendors are %s", all.body)
	}
	for path, want := range map[string]string{
		"spool/1": `"vendor":{"id":1,`, "spool": `"vendor":{"id":1,`, "spool?vendor_id=1": `"vendor":{"id":1,`,
		"filament": `"vendor":{"id":1,`, "filament?vendor_id=1&name=Teal": `"comment":"c"`,
		"filament?vendor.name=Polymaker": `"name":"Teal"`, "spool/group?group_by=vendor": `"key":"1"`,
		"spool?sort=filament.vendor.comment:asc": `"vendor":{"id":1,`,
	} {
		p.want(t, "GET", path, "", 200, want)
	}
	p.want(t, "DELETE", "vendor/1", "", 200)
	p.want(t, "GET", "vendor/1", "", 404)
	vendors(`[{"id":1`, `"name":"POLYMAKER"`)
}

// Clients that create a vendor at the same time get one.
func TestConcurrentVendors(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { p.want(t, "POST", "vendor", `{"name": "Bambu Lab", "empty_spool_weight": 250}`, 200, `"id":1`) })
	}
	wg.Wait()
	if got := ids(t, p.want(t, "GET", "vendor", "", 200).body); len(got) != 1 {
		t.Errorf("vendors %v", got)
	}
}

// Custom fields of clients: their definitions, values, filters, orders, groups and names.
func TestFields(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	steps := []step{{"POST vendor", `{"name": "V"}`, 200, nil},
		{"POST filament", `{"density": 1, "diameter": 1.75, "vendor_id": 1}`, 200, nil},
		{"GET field/spool", ``, 200, []string{"[]"}},
		{"POST field/spool/Bad", `{"name": "x", "field_type": "text"}`, 422, nil},
		{"POST field/spool/x", `{"name": "x"}`, 422, nil},
		{"POST field/spool/x", `{"name": "x", "field_type": "odd"}`, 422, nil},
		{"POST field/spool/x", `{"name": "x", "field_type": "choice", "multi_choice": true}`, 400, nil},
		{"POST field/spool/x", `{"name": "x", "field_type": "choice", "choices": ["a"]}`, 400, nil},
		{"POST field/spool/x", `{"name": "x", "field_type": "text", "choices": ["a"]}`, 400, nil},
		{"POST field/spool/x", `{"name": "x", "field_type": "text", "default_value": "1"}`, 400, nil},
		{"DELETE field/spool/x", ``, 404, []string{"x"}}, {"GET field/spool/x/values", ``, 404, []string{"x"}},
		{"POST spool", `{"filament_id": 1, "extra": {"tag": "\"A\""}}`, 400, []string{"tag"}},
		{"POST spool", `{"filament_id": 1, "extra": {"tag": 1}}`, 422, nil}}
	for key, field := range map[string]string{"tag": `"text", "default_value": "\"A\"", "order": 2, "unit": "u"`,
		"n": `"integer"`, "f": `"float"`, "nr": `"integer_range"`, "fr": `"float_range"`, "at": `"datetime"`,
		"on": `"boolean"`,
		"c":  `"choice", "choices": ["a", "b"], "multi_choice": false`,
		"m":  `"choice", "choices": ["a", "b"], "multi_choice": true`} {
		for _, entity := range []string{"spool", "filament", "vendor"} {
			steps = append(steps, step{"POST field/" + entity + "/" + key, `{"name": "` + key + `", "field_type": ` +
				field + `}`,
				200, []string{`"entity_type":"` + entity + `"`}})
		}
	}
	p.run(t, append(steps, []step{
		{"POST field/spool/tag", `{"name": "x", "field_type": "integer"}`, 400, nil},
		{"POST field/spool/c", `{"name": "x", "field_type": "choice", "choices": ["a"], "multi_choice": false}`, 400,
			nil},
		{"POST field/spool/c", `{"name": "x", "field_type": "choice", "choices": ["a", "b"], "multi_choice": true}`,
			400, nil},
		{"POST field/spool/c",
			`{"name": "C", "field_type": "choice", "choices": ["a", "b", "d"], "multi_choice": false}`, 200,
			[]string{`"choices":["a","b","d"],"multi_choice":false`}},
		{"POST spool", `{"filament_id": 1, "location": "A", "extra": {"tag": "\"Ä1\"", "n": "5", "f": "1.5", "nr": "[1, 9]",
			"fr": "[1.5, null]", "at": "\"2024-01-01T00:00:00.000Z\"", "on": "true", "c": "\"a\"",
			"m": "[\"a\", \"b\"]"}}`, 200,
			[]string{`"tag":"\"Ä1\""`, `"n":"5"`, `"nr":"[1, 9]"`, `"on":"true"`}},
		{"POST spool",
			`{"filament_id": 1, "extra": {"tag": "\"B2\"", "n": "10", "f": "2", "nr": "[5, 20]", "on": "false", "c": "\"b\"",
			"m": "[\"b\"]", "at": "\"2024-06-01T00:00:00.000Z\""}}`, 200, nil},
		{"POST spool", `{"filament_id": 1}`, 200, nil},
		{"PATCH filament/1", `{"extra": {"tag": "\"F\""}}`, 200, []string{`"extra":{"tag":`}},
		{"PATCH vendor/1", `{"extra": {"tag": "\"V\""}}`, 200, []string{`"extra":{"tag":`}},
		{"GET field/spool/tag/values", ``, 200, []string{`["B2", "Ä1"]`}},
		{"GET field/vendor/tag/values", ``, 200, []string{`["V"]`}},
		{"GET search?q=b2", ``, 200, []string{`"match_field":"extra.tag"`}},
	}...))
	for _, value := range []string{`"n": "1.5"`, `"n": "true"`, `"f": "\"1\""`, `"nr": "[1]"`, `"nr": "[1.5, 2]"`,
		`"on": "1"`,
		`"c": "\"z\""`, `"m": "\"a\""`, `"m": "[\"z\"]"`, `"tag": "1"`, `"tag": "{"`, `"at": "5"`, `"n": "1e999"`,
		`"tag": "\"\\u0000\""`} {
		p.want(t, "PATCH", "spool/1", `{"extra": {`+value+`}}`, 400)
	}
	for query, want := range map[string]string{
		"extra.tag=ä": "[1]", `extra.tag="ä"`: "[]", "extra.tag=ä,b2": "[1 2]", "extra.tag=": "[3]",
		"extra.n=5":  "[1]",
		"extra.n=6:": "[2]", "extra.n=:6": "[1]", "extra.f=2.0": "[2]", "extra.nr=2:": "[2]", "extra.nr=:10": "[1]",
		"extra.fr=1:": "[1]", "extra.on=true": "[1]", "extra.on=": "[2 3]", "extra.c=b": "[2]", "extra.m=a": "[1]",
		"extra.m=b":                          "[1 2]",
		"extra.at=2024-02-01T00:00:00.000Z|": "[2]", "extra.unknown=1": "[1 2 3]", "filament.extra.tag=f": "[1 2 3]",
		"filament.vendor.extra.tag=x": "[]", "sort=extra.n:desc": "[2 1 3]", "sort=extra.tag:asc": "[2 1 3]",
		"sort=extra.nr:asc": "[1 2 3]", "sort=extra.unknown:asc": "[1 2 3]",
	} {
		testkit.Equal(t, fmt.Sprint(ids(t, p.want(t, "GET", "spool?"+query, "", 200).body)), want, "spool?%s", query)
	}
	for _, query := range []string{"extra.n=x", "extra.n=:", "extra.f=x", "extra.nr=5", "extra.nr=x:", "extra.on=1",
		"extra.at=|"} {
		p.want(t, "GET", "spool?"+query, "", 400)
	}
	p.run(t, []step{
		{"GET spool/group?group_by=extra.c&sort=group.title:desc", ``, 200,
			[]string{`[{"group_by":"extra.c","key":"b","spool_count":1,"in_use_count":0,"total_remaining_weight":1000}`}},
		{"GET spool/group?group_by=extra.n", ``, 400, nil}, {"GET spool/group?group_by=extra.m", ``, 400, nil},
		{"GET spool/group?group_by=filament&limit=1", ``, 200,
			[]string{`"key":"1","spool_count":3`, `"filament":{"id":1,`}},
		{"GET spool/group?group_by=vendor", ``, 200, []string{`"vendor":{"id":1,`}},
		{"GET spool/group?group_by=location&offset=1&limit=1", ``, 200,
			[]string{`[{"group_by":"location","spool_count":2`}},
		{"PATCH spool/field/extra.tag", `{"value": "B2", "new_value": "C3"}`, 200, []string{`{"spools_updated":1}`}},
		{"PATCH spool/field/extra.c", `{"value": "b", "new_value": "z"}`, 400, nil},
		{"PATCH spool/field/extra.n", `{"value": "5", "new_value": "6"}`, 400, nil},
		{"PATCH spool/field/material", `{"value": "a", "new_value": "b"}`, 400, nil},
		{"PATCH spool/field/location", `{"value": "A", "new_value": ""}`, 422, nil},
		{"PATCH spool/field/location", `{"value": "A", "new_value": "B"}`, 200, []string{`{"spools_updated":1}`}},
		{"PATCH location/B", `{"name": "Shelf"}`, 200, []string{`"Shelf"`}},
		{"GET spool/1", ``, 200, []string{`"location":"Shelf"`}},
		{"PATCH spool/1", `{"extra": {"tag": null}}`, 200, nil},
		{"GET field/spool/tag/values", ``, 200, []string{`["C3"]`}},
		{"DELETE field/spool/tag", ``, 200, nil},
		{"PATCH spool/2", `{"extra": {"tag": "\"x\""}}`, 400, nil},
	})
	if a := p.want(t, "GET", "spool/2", "", 200); at(t, a.body, "extra.tag") != "<nil>" {
		t.Errorf("a value without a definition: %s", a.body)
	}
}

// Settings, search, exports and what else clients ask for.
func TestOtherOperations(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	p.want(t, "POST", "vendor", `{"name": "=Prusa"}`, 200)
	p.want(t, "POST", "filament",
		`{"name": "Jet Black", "vendor_id": 1, "material": "PETG", "density": 1.27, "diameter": 1.75,
		"color_hex": "000000"}`, 200)
	p.want(t, "POST", "filament", `{"name": "Bluish", "density": 1.27, "diameter": 1.75, "color_hex": "0000f0"}`, 200)
	p.want(t, "POST", "spool", `{"filament_id": 1, "comment": "dry it", "location": "Shelf 7"}`, 200)
	p.want(t, "POST", "spool", `{"filament_id": 1, "archived": true}`, 200)
	set := func(key, body, media string) (int, string) {
		r, err := http.NewRequest("POST", p.url+surface+"setting/"+key, strings.NewReader(body))
		testkit.Check(t, err)
		r.Header.Set("Content-Type", media)
		r.Header.Set("Authorization", "Bearer "+p.key) // clients that cannot put a key into an address
		a, err := http.DefaultClient.Do(r)
		testkit.Check(t, err)
		defer a.Body.Close()
		return a.StatusCode, p.do(t, "GET", "setting/"+key, "").body
	}
	for _, c := range []struct {
		key, body, media string
		status           int
		after            string
	}{
		{"currency", `"\"SEK\""`, "application/json; charset=utf-8", 200, `"value":"\"SEK\""`},
		{"currency", `"5"`, "application/json", 400, "SEK"}, {"currency", `5`, "application/json", 422, "SEK"},
		{"currency", `"\"SEK\""`, "text/plain", 415, "SEK"},
		{"currency", `""`, "application/json", 200, `"is_set":false`},
		{"print_presets", `"[1]"`, "application/json", 200, `"value":"[1]"`},
		{"nonsense", `""`, "application/json", 404, "nonsense"},
		{"extra_fields_spool", `"[{\"key\":\"a\"}]"`, "application/json", 400, `"value":"[]"`},
		{"extra_fields_spool", `"[{\"key\":\"a\",\"name\":\"A\",\"field_type\":\"text\",\"entity_type\":\"spool\"}]"`,
			"application/json", 200, `\"key\":\"a\"`},
		{"extra_fields_spool", `"[]"`, "application/json", 200, `"is_set":false`},
	} {
		if status, after := set(c.key, c.body, c.media); status != c.status || !strings.Contains(after, c.after) {
			t.Errorf("%s %s: %d %s", c.key, c.body, status, after)
		}
	}
	p.run(t, []step{
		{"GET setting/", ``, 200, []string{`"base_url":{`, `"dashboard_groups":{`}},
		{"GET search?q=jet%20prusa", ``, 200,
			[]string{`"filaments":[{"filament":{"id":1,`, `"match_field":"name"`, `"spools":[]`}},
		{"GET search?q=SHELF&limit=1", ``, 200, []string{`"spools":[{"match_field":"location","spool":{"id":1,`}},
		{"GET search?q=1", ``, 200, []string{`"match_field":"id"`}},
		{"GET search?q=2", ``, 200, []string{`"spools":[]`}},
		{"GET search?q=2&allow_archived=true", ``, 200, []string{`"match_field":"id"`}},
		{"GET search?q=blue", ``, 200,
			[]string{`"is_color_query":true`, `"filament":{"id":2,`, `"match_field":"color"`}},
		{"GET search?q=%23111", ``, 200, []string{`"is_color_query":true`, `"filament":{"id":1,`}},
		{"GET search?q=jet&spools_per_filament=1&allow_archived=true", ``, 200,
			[]string{`"spool_count":2`, `"spools":[{"archived":false,"id":1,`}},
		{"GET search?q=nothing", ``, 200,
			[]string{`{"filaments":[],"is_color_query":false,"spools":[],"vendors":[]}`}},
		{"GET search?q=x&limit=0", ``, 422, nil},
		{"GET external/filament", ``, 200, []string{"["}}, {"GET external/material", ``, 200, []string{"["}},
		{"GET external/filament/search?query=pla", ``, 200, []string{"["}},
		{"POST backup", ``, 200, []string{`"created":false`}},
	})
	for path, want := range map[string][]string{
		"export/spools?fmt=csv": {"archived,comment,", "filament.vendor.name", "'=Prusa",
			"dry it", "False"},
		"export/filaments?fmt=json":                  {`"vendor.name":"=Prusa"`, `"vendor_id":1`, `"vendor_id":null`},
		"export/vendors?fmt=json":                    {`"name":"=Prusa"`, `"empty_spool_weight":null`},
		"export/spools?fmt=json&allow_archived=true": {`"id":2`, `"filament_id":1`, `"filament.material":"PETG"`},
	} {
		a := p.do(t, "GET", path, "")
		for _, text := range want {
			if a.status != 200 || !strings.Contains(a.body, text) {
				t.Errorf("%s: %d %s, want %s", path, a.status, a.body, text)
			}
		}
		if name := a.header.Get("Content-Disposition"); !strings.Contains(name, "attachment") {
			t.Errorf("%s: Content-Disposition %q", path, name)
		}
	}
}

// Sockets get the changes of filaments, vendors and settings. Those of spools get no message if a filament changes.
func TestSocketsOfResources(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	p.want(t, "POST", "vendor", `{"name": "V"}`, 200)
	p.want(t, "POST", "filament", `{"density": 1, "diameter": 1.75, "vendor_id": 1}`, 200)
	p.want(t, "POST", "spool", `{"filament_id": 1}`, 200)
	dial := func(path string) *socket {
		s, status := p.dial(t, path)
		if status != 101 {
			t.Fatalf("%s: %d", path, status)
		}
		return s
	}
	vendors, filaments, one, all := dial("vendor"), dial("filament"), dial("filament/1"), dial("spool")
	setting, root := dial("setting"), dial("")
	for path, want := range map[string]int{"filament/2": 404, "vendor/2": 404, "setting/x": 404, "vendor/x": 422} {
		if _, got := p.dial(t, path); got != want {
			t.Errorf("%s: %d", path, got)
		}
	}
	next := func(s *socket, want ...string) {
		t.Helper()
		s.SetReadDeadline(time.Now().Add(time.Minute))
		_, payload, err := s.afterPings()
		for _, text := range want {
			if err != nil || !strings.Contains(strings.ReplaceAll(string(payload), `": `, `":`), text) {
				t.Errorf("the message is %s %v, want %s", payload, err, text)
			}
		}
	}
	p.want(t, "PATCH", "filament/1", `{"density": 2}`, 200)
	next(filaments, `"type":"updated","resource":"filament"`, `"density":2`)
	next(one, `"type":"updated"`)
	next(root, `"resource":"filament"`)
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 1}`, 200)
	next(all, `"type":"updated","resource":"spool"`, `"remaining_weight":999`)
	p.operator.Post(t, "/api/v1/vendors", j{"name": "W"}).Want(201)
	next(vendors, `"type":"added","resource":"vendor"`, `"name":"W"`)
	p.want(t, "DELETE", "vendor/1", ``, 200)
	next(vendors, `"type":"deleted"`, `"id":1,`)
	next(filaments, `"type":"updated"`, `"name":"Unknown"`)
	p.want(t, "DELETE", "spool/1", ``, 200)
	next(all, `"type":"deleted"`)
	p.want(t, "DELETE", "filament/1", ``, 200)
	next(filaments, `"type":"deleted"`)
	r, _ := http.NewRequest("POST", p.url+surface+"setting/currency", strings.NewReader(`"\"SEK\""`))
	r.SetBasicAuth("x", p.key)
	r.Header.Set("Content-Type", "application/json")
	if _, err := http.DefaultClient.Do(r); err != nil {
		t.Fatal(err)
	}
	next(setting, `"resource":"setting"`, `"key":"currency"`, `"is_set":true`)
}

// Keys are accepted as Bearer tokens, and in the path if the service allows it. Other addresses reveal nothing.
func TestKeysOfClients(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{Change: func(c *server.Config) {
		s := spoolman.Surface(c.DB)
		s.KeyPrefix = spoolman.KeyPrefix
		c.Surfaces = []server.Surface{s}
	}}, inventory.Routes)
	p := newPrinter(t, api, "printer")
	p.add(t, nil)
	off := newPrinter(t, start(t), "printer")
	for _, c := range []struct {
		url, bearer string
		status      int
	}{
		{p.url + surface + "spool/1", p.key, 200}, {p.url + surface + "spool/1", p.key[:len(p.key)-1] + "_", 401},
		{p.url + "/api/v1/spools", p.key, 401}, // only in this API
		{p.url + "/spoolman/k/" + p.key + "/api/v1/spool/1", "", 200},
		{p.url + "/spoolman/k/" + p.key + "/api/v1/spool/9", "", 404},
		{p.url + "/spoolman/k/" + p.key + "/api/v1/spool/1", p.key, 401}, // two credentials
		{p.url + "/spoolman/k/" + p.key + "_/api/v1/spool/1", "", 401},
		{p.url + "/spoolman/k/api/v1/spool/1", "", 404},
		{p.url + "/spoolman/k/" + p.key + "/api/v1/../../../spool", "", 404},
		{off.url + "/spoolman/k/" + off.key + "/api/v1/spool", "", 404},
	} {
		r, err := http.NewRequest("GET", c.url, nil)
		testkit.Check(t, err)
		if c.bearer != "" {
			r.Header.Set("Authorization", "Bearer "+c.bearer)
		}
		a, err := http.DefaultClient.Do(r)
		testkit.Check(t, err)
		a.Body.Close()
		testkit.Equal(t, a.StatusCode, c.status, "%s", c.url)
	}
}

// A page of all filaments, in either order of the ids, has the same filaments as that part of the whole list, whether
// filaments have numbers or are computed from spools, and none of them is hidden.
func TestPagesOfFilaments(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	for _, name := range []string{"Teal", "Sand", "Ruby"} {
		p.want(t, "POST", "filament", `{"name":"`+name+`","density":1.24,"diameter":1.75,"material":"PLA"}`, 200)
	}
	p.want(t, "DELETE", "filament/2", "", 200)
	for i, color := range []string{"Black", "Black", "White", "Green", "Blue", "Gone", "Black"} {
		spool := p.add(t, j{"color": color, "brand": "Prusament"})
		p.add(t, j{"color": color, "brand": "prusament", "notes": fmt.Sprint(i)})
		if color == "Gone" {
			p.operator.Delete(t, spool).Want(204)
		}
	}
	for range 2 {
		p.operator.Delete(t, p.add(t, j{"color": "Removed"})).Want(204)
	}
	p.want(t, "POST", "spool", `{"filament_id":1}`, 200)
	all := ids(t, p.want(t, "GET", "filament?sort=registered:asc", "", 200).body)
	slices.Sort(all)
	if len(all) != 7 || all[0] != 1 || all[1] != 3 || all[2] < 1_000_000_000 ||
		len(slices.Compact(slices.Clone(all))) != 7 {
		t.Fatalf("filaments %v, want 2 with a number and 5 computed ones", all)
	}
	for _, order := range []string{"", "&sort=id:desc"} {
		for limit := range 9 {
			for offset := range 9 {
				want := all[min(offset, 7):min(offset+limit, 7)]
				for _, far := range []string{"", "&name=,a,e,u,i,o"} { // all, and a filter that selects all
					path := fmt.Sprintf("filament?limit=%d&offset=%d%s%s", limit, offset, order, far)
					a := p.want(t, "GET", path, "", 200)
					if got := ids(t, a.body); fmt.Sprint(got) != fmt.Sprint(want) || a.header.Get("X-Total-Count") != "7" {
						t.Errorf("%s: %v of %s, want %v", path, got, a.header.Get("X-Total-Count"), want)
					}
				}
			}
		}
		a := p.want(t, "GET", "filament?limit=2000"+order, "", 200)
		if got := ids(t, a.body); fmt.Sprint(got) != fmt.Sprint(all) {
			t.Errorf("limit=2000%s: %v, want %v", order, got, all)
		}
		slices.Reverse(all)
	}
}

// A computed filament follows the fields of its spools: it changes with them, and ends with the last of them.
func TestComputedFilamentFollowsItsSpools(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	spool := p.add(t, j{"color": "Black"})
	was := ids(t, p.want(t, "GET", "filament", "", 200).body)
	for _, change := range []j{{"color": "White"}, {"color_hex": "#102030"}, {"brand": "Polymaker"},
		{"material_name": "PLA+"}, {"material_type": "PETG"}, {"diameter_mm": 2.85}} {
		p.operator.Patch(t, spool, change).Want(200)
		now := ids(t, p.want(t, "GET", "filament?limit=5", "", 200).body)
		if len(now) != 1 || slices.Contains(was, now[0]) {
			t.Errorf("%v: filaments %v, before %v", change, now, was)
		}
		p.want(t, "GET", "filament/"+fmt.Sprint(now[0]), "", 200)
		was = append(was, now...)
	}
	p.want(t, "POST", "filament", `{"name":"Teal","density":1.24,"diameter":1.75,"material":"PLA"}`, 200)
	p.want(t, "PATCH", "spool/1", `{"filament_id":1}`, 200)
	if now := ids(t, p.want(t, "GET", "filament?limit=5", "", 200).body); fmt.Sprint(now) != "[1]" {
		t.Errorf("after the spool got a filament: %v", now)
	}
}

// Groups with more than 4 MB of texts are asked for in parts. A search reads the newest items of each kind, up to
// 1 MiB.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	api := start(t)
	p := newPrinter(t, api, "printer")
	tag := j{"entity": "spool", "key": "tag", "name": "Tag", "type": "text"}
	p.operator.Post(t, "/api/v1/custom-fields", tag).Want(201)
	for n := range 90 {
		p.operator.Post(t, "/api/v1/vendors", j{"name": fmt.Sprint("Maker ", 1000+n),
			"notes": strings.Repeat("n", 10_000)}).Want(201)
	}
	for n := range 450 {
		p.operator.NewSpool(t, 1000, j{"extra": j{"tag": fmt.Sprint(1000+n, strings.Repeat("x", 10_000))}})
	}
	a := p.do(t, "GET", "spool/group?group_by=extra.tag", "")
	if a.status != 422 || !strings.Contains(a.body, "limit must select fewer groups") {
		t.Errorf("groups of 4.5 MB: %d %.200s", a.status, a.body)
	}
	a = p.want(t, "GET", "spool/group?group_by=extra.tag&limit=300", "", 200)
	if n := len(a.body); n < 3_000_000 || a.header.Get("X-Total-Count") != "450" {
		t.Errorf("300 of %s groups have %d bytes, want 450 groups", a.header.Get("X-Total-Count"), n)
	}
	a = p.want(t, "GET", "search?q=maker&limit=100", "", 200)
	if !strings.Contains(a.body, "Maker 1089") || strings.Contains(a.body, "Maker 1000") {
		t.Errorf("the search found %.200s...", a.body)
	}
}
