package inventory_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type j = testkit.JSON

// The checks of the tables allow the values that the API accepts.
func TestEnumsMatchTables(t *testing.T) {
	t.Parallel()
	testkit.WantChecked(t, "spools", "material_type", inventory.MaterialType("").Enum())
	testkit.WantChecked(t, "spool_usage", "kind", inventory.UsageKind("").Enum())
}

const (
	spools    = "/api/v1/spools"
	reportURL = "/api/v1/reports/usage"
)

// spool returns the body of a POST with the required fields and the given ones.
func spool(fields j) j {
	body := j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1000}
	maps.Copy(body, fields)
	return body
}

func operator(t *testing.T) *testkit.Client {
	t.Helper()
	return testkit.New(t, testkit.Options{}, testkit.Features...).Operator(t)
}

// is fails the test unless the value at the path of the response equals want: the same fields, types and digits. A
// *regexp.Regexp in want equals each string that it matches.
func is(t *testing.T, a *testkit.Response, path string, want any) {
	t.Helper()
	if problem := differs(a.Value(path), want); problem != "" {
		t.Errorf("%s: %s%s\n%s", a.What, path, problem, a.Body)
	}
}

func differs(got, want any) string {
	switch want := want.(type) {
	case *regexp.Regexp:
		if text, ok := got.(string); !ok || !want.MatchString(text) {
			return fmt.Sprintf(" is %#v, want a string like %s", got, want)
		}
		return ""
	case j:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf(" is %#v, want an object", got)
		}
		if names := slices.Sorted(maps.Keys(object)); !slices.Equal(names, slices.Sorted(maps.Keys(want))) {
			return fmt.Sprintf(" has the fields %v", names)
		}
		for name := range want {
			if problem := differs(object[name], want[name]); problem != "" {
				return "." + name + problem
			}
		}
		return ""
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Sprintf(" is %#v, want %#v", got, want)
	}
	return ""
}

var (
	uuid   = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	moment = regexp.MustCompile(`^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,5}[1-9])?Z$`)
)

// A user creates, reads, edits, deducts from and removes a spool.
func TestSpoolLifecycle(t *testing.T) {
	t.Parallel()
	c := operator(t)
	made := c.Post(t, spools, spool(j{"purchase_price": 25, "notes": "dry first"})).Want(201)
	made.Shows(map[string]string{"cost_per_gram": "0.025", "remaining_weight_grams": "1000"})
	path := made.Header.Get("Location")
	if path != spools+"/"+made.ID() {
		t.Fatalf("Location %q", path)
	}
	c.Get(t, spools).Want(200).Shows(map[string]string{"total": "1", "items.0.id": made.ID()})
	c.Post(t, path+"/deduct", j{"weight_grams": 45.5, "reason": "Benchy"}).
		Want(200).Shows(map[string]string{"remaining_weight_grams": "954.5", "deducted": "45.5"})

	// A PATCH with all fields of the GET response.
	var whole j
	testkit.Check(t, json.Unmarshal(c.Get(t, path).Want(200).Body, &whole))
	whole["notes"], whole["brand"] = nil, "Polymaker"
	edited := c.Patch(t, path, whole).Want(200).Shows(map[string]string{"notes": "null", "brand": "Polymaker",
		"remaining_weight_grams": "954.5"})
	if got := c.Get(t, path).Want(200); !bytes.Equal(got.Body, edited.Body) {
		t.Errorf("PATCH returned %s, GET %s", edited.Body, got.Body)
	}
	// The body contains the unchanged weight, so the ledger has no new entry.
	c.Get(t, path+"/usage").Want(200).Shows(map[string]string{"total": "2", "items.0.reason": "Benchy",
		"items.1.kind": "created"})

	if body := c.Delete(t, path).Want(204).Body; len(body) > 0 {
		t.Errorf("DELETE returned %s", body)
	}
	c.Get(t, path).WantError(404, "NOT_FOUND")
	c.Get(t, spools).Want(200).Shows(map[string]string{"total": "0"})
}

// All responses with a spool contain the same fields with the same values.
func TestSpoolFields(t *testing.T) {
	t.Parallel()
	c := operator(t)
	defaults := j{
		"id": uuid, "filament_id": nil, "material_type": "PLA", "material_name": nil, "brand": nil, "color": "Black",
		"color_hex": nil, "finish": nil, "diameter_mm": json.Number("1.75"), "net_weight_grams": json.Number("1000"),
		"remaining_weight_grams": json.Number("1000"),
		"spool_weight_grams":     nil, "purchase_price": nil, "cost_per_gram": nil, "supplier": nil,
		"purchase_date": nil,
		"notes":         nil, "location": nil, "lot_number": nil, "density_g_cm3": nil, "archived": false,
		"extra":         map[string]any{},
		"first_used_at": nil, "last_used_at": nil, "created_at": moment, "updated_at": moment, "hidden_at": nil,
		"hidden_by": nil, "hidden_by_name": nil,
	}
	all := j{
		"material_type": "Nylon", "material_name": "PA6-CF", "brand": "Fiberlogy", "color": "Türkis", "color_hex": "#1aB2c3",
		"finish": "Matte", "diameter_mm": json.Number("2.85"), "net_weight_grams": json.Number("750.5"),
		"remaining_weight_grams": json.Number("0"),
		"spool_weight_grams":     json.Number("200.123456"), "purchase_price": json.Number("52.99"),
		"supplier":      "3DJake",
		"purchase_date": "2024-02-29",
		"notes":         "line one\nline \"two\" \\ \t\u007f\u2028 🧵",
		"location":      "Shelf A3", "lot_number": "L-1 2/é", "density_g_cm3": json.Number("1.141"),
	}
	full := maps.Clone(defaults)
	maps.Copy(full, all)
	full["cost_per_gram"] = json.Number("0.070606")

	for name, test := range map[string]struct{ body, want j }{
		"required fields only": {spool(nil), defaults},
		"all fields":           {all, full},
		"null is the default": {
			spool(j{"remaining_weight_grams": nil, "brand": nil, "purchase_price": nil, "purchase_date": nil,
				"location":      nil,
				"density_g_cm3": nil, "archived": nil}), defaults,
		},
	} {
		t.Run(name, func(t *testing.T) {
			made := c.Post(t, spools, test.body).Want(201)
			test.want = maps.Clone(test.want)
			test.want["number"] = json.Number(made.Text("number"))
			is(t, made, "", test.want)
			testkit.Equal(t, made.Text("created_at"), made.Text("updated_at"),
				"created_at and updated_at of a new spool differ: %s", made.Body)
			got := c.Get(t, spools+"/"+made.ID()).Want(200)
			is(t, got, "", test.want)
			is(t, c.Get(t, spools+"?limit=1").Want(200), "items.0", test.want)
			is(t, c.Patch(t, spools+"/"+made.ID(), j{}).Want(200), "", test.want)
			changed := c.Patch(t, spools+"/"+made.ID(), j{"finish": "Silk"}).Want(200)
			want := maps.Clone(test.want)
			want["finish"] = "Silk"
			is(t, changed, "", want)
			if changed.Text("created_at") != made.Text("created_at") ||
				compare(changed.Text("updated_at"), made.Text("updated_at")) <= 0 {
				t.Errorf("created %s, updated %s after the change of %s", changed.Text("created_at"),
					changed.Text("updated_at"), made.Body)
			}
			if canonical := c.Get(t, spools+"/"+strings.ToUpper(made.ID())).Want(200); canonical.ID() != made.ID() {
				t.Errorf("GET with an id in capitals returned %s", canonical.Body)
			}
		})
	}
}

// The test sends each value in a POST and in a PATCH. An invalid one is a 422 that names the field. The values are the
// bounds of the fields; the tests of package server have all forms of values.
func TestFieldValues(t *testing.T) {
	t.Parallel()
	c := operator(t)
	long := func(n int, s string) string { return `"` + strings.Repeat(s, n) + `"` }
	type values map[string]string // from JSON to the text in responses
	const invalid = "invalid"
	text := func(limit int) values {
		return values{`""`: "", `null`: "null", `7`: invalid, `"a\u0000b"`: invalid,
			long(limit, "🧵"): strings.Repeat("🧵", limit), long(limit+1, "x"): invalid}
	}
	notes, shortText, requiredText := text(10000), text(200), text(200)
	notes[`" a "`], shortText[`" a "`] = " a ", "a" // without the blanks around it
	maps.Copy(requiredText, values{`" a "`: "a", `""`: invalid, `" "`: invalid, `null`: invalid})
	weight := values{`0`: "0", `0.0000004`: "0", `0.0000005`: "0.000001", `1000000`: "1000000",
		`1000000.0000004`: "1000000", `1000000.000001`: invalid, `-0.000001`: invalid, `1e400`: invalid,
		`"1"`: invalid}
	nullable, above := maps.Clone(weight), maps.Clone(weight)
	nullable["null"] = "null"
	maps.Copy(above, values{`0`: invalid, `0.0000004`: invalid, `null`: invalid})
	materials := values{`"pla"`: invalid, `"PLA "`: invalid, `""`: invalid, `"Wood"`: invalid, `null`: invalid}
	for _, material := range []string{"PLA", "PETG", "ABS", "TPU", "ASA", "Nylon", "PC", "HIPS", "PVA", "Custom"} {
		materials[`"`+material+`"`] = material
	}
	hex := values{`null`: "null", `"#000000"`: "#000000", `"#a1B2c3"`: "#a1B2c3", `""`: invalid, `"#FFF"`: invalid,
		`"FFFFFF"`: invalid, `"#FFFFFFF"`: invalid, `"#GGGGGG"`: invalid, `"#ffffff\n"`: invalid}
	dates := values{`null`: "null", `"1900-01-01"`: "1900-01-01", `"1899-12-31"`: invalid, `"9999-12-31"`: "9999-12-31",
		`"2024-02-29"`: "2024-02-29", `"2023-02-29"`: invalid, `"2024-01-15T10:00:00Z"`: invalid, `""`: invalid}
	diameters := values{`1.75`: "1.75", `1.7500004`: "1.75", `2.85`: "2.85", `1.76`: invalid, `2`: invalid,
		`0`:      invalid,
		`"1.75"`: invalid, `null`: invalid}

	for field, values := range map[string]values{
		"material_type": materials, "color": requiredText, "color_hex": hex, "purchase_date": dates,
		"brand": shortText, "finish": shortText, "supplier": shortText, "notes": notes,
		"diameter_mm": diameters, "net_weight_grams": above, "remaining_weight_grams": weight,
		"spool_weight_grams": nullable, "purchase_price": nullable,
	} {
		t.Run(field, func(t *testing.T) {
			made := c.Post(t, spools, spool(nil)).Want(201).ID()
			for in, out := range values {
				create := c.Post(t, spools, rawBody(t, spool(nil), field, in))
				change := c.Patch(t, spools+"/"+made, `{"`+field+`":`+in+`}`)
				if out == invalid {
					create.Fields(field)
					change.Fields(field)
					continue
				}
				create.Want(201).Shows(map[string]string{field: out})
				change.Want(200).Shows(map[string]string{field: out})
			}
		})
	}
}

// rawBody returns a body with a field whose value is a JSON text, for texts that json.Marshal does not write.
func rawBody(t *testing.T, body j, field, raw string) string {
	t.Helper()
	delete(body, field)
	b, err := json.Marshal(body)
	testkit.Check(t, err)
	return strings.TrimSuffix(string(b), "}") + `,"` + field + `":` + raw + `}`
}

func TestCostPerGram(t *testing.T) {
	t.Parallel()
	c := operator(t)
	for _, test := range []struct{ price, net, want string }{
		{"25", "1000", "0.025"},
		{"24.99", "1000", "0.02499"},
		{"0", "1000", "0"},
		{"1", "3", "0.333333"},
		{"2", "3", "0.666667"},
		{"0.0000005", "1", "0.000001"}, // the price is rounded before the division
		{"1", "2000", "0.0005"},
		{"0.001", "2000", "0.000001"}, // 0.0000005 is rounded away from zero
		{"0.000999", "2000", "0"},
		{"1000000", "1000000", "1"},
		{"1000000", "0.01", "100000000"},
		{"999999", "0.001", "999999000"},
		{"999999.999", "0.001", "999999999"}, // the maximum
		{"null", "1000", "null"},
	} {
		body := `{"material_type":"PLA","color":"x","diameter_mm":1.75,"net_weight_grams":` + test.net +
			`,"purchase_price":` + test.price + `}`
		made := c.Post(t, spools, body).Want(201).Shows(map[string]string{"cost_per_gram": test.want})
		c.Get(t, spools+"/"+made.ID()).Want(200).Shows(map[string]string{"cost_per_gram": test.want})
	}

	path := spools + "/" + c.Post(t, spools, spool(j{"purchase_price": 20})).Want(201).ID()
	c.Patch(t, path, j{"net_weight_grams": 500}).Want(200).Shows(map[string]string{"cost_per_gram": "0.04"})
	c.Patch(t, path, j{"purchase_price": 10}).Want(200).Shows(map[string]string{"cost_per_gram": "0.02"})
	c.Patch(t, path, j{"purchase_price": nil}).Want(200).Shows(map[string]string{"cost_per_gram": "null",
		"purchase_price": "null"})
	c.Patch(t, path, j{"purchase_price": 5, "remaining_weight_grams": 1}).
		Want(200).Shows(map[string]string{"cost_per_gram": "0.01"})
}

// A price per gram out of range is a 422 and changes nothing.
func TestCostPerGramOutOfRange(t *testing.T) {
	t.Parallel()
	c := operator(t)
	for _, test := range []struct{ price, net string }{
		{"1000000", "0.000001"},
		{"1000000", "0.001"},       // ten integer digits
		{"999999.9999", "0.001"},   // fits into the column, but exceeds 999,999,999
		{"999999.999001", "0.001"}, // the smallest excess
		{"1000", "0.000001"},
	} {
		const start = `{"material_type":"PLA","color":"x","diameter_mm":1.75,"net_weight_grams":`
		c.Post(t, spools, start+test.net+`,"purchase_price":`+test.price+`}`).Fields("purchase_price")

		expensive := c.Post(t, spools, start+`1000,"purchase_price":`+test.price+`}`).Want(201)
		light := c.Post(t, spools, start+test.net+`}`).Want(201)
		for made, change := range map[*testkit.Response]string{
			expensive: `"net_weight_grams":` + test.net, light: `"purchase_price":` + test.price,
		} {
			path := spools + "/" + made.ID()
			c.Patch(t, path, `{`+change+`}`).Fields("purchase_price")
			c.Patch(t, path, `{"remaining_weight_grams":5,`+change+`}`).Fields("purchase_price")
			testkit.Equal(t, string(c.Get(t, path).Want(200).Body), string(made.Body), "after a 422 the spool")
			c.Get(t, path+"/usage").Want(200).Shows(map[string]string{"total": "1"})
		}
	}
	c.Get(t, spools).Want(200).Shows(map[string]string{"total": "10"})
}

// The columns that follow from others do so whatever a statement sets, also while a copy of a database is filled.
func TestComputedColumns(t *testing.T) {
	t.Parallel()
	c := operator(t)
	ctx := db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant})
	const insert = `insert into spools (id, color, diameter_mm, net_weight_grams, remaining_weight_grams,
		material_type, brand, cost_per_gram, brand_key, color_key, material_key, supplier_key, location_key, lot_key,
		search_key)
		values ($1, 'RÖT', 1.75, 2, 1, 'PLA', 'BRAND', 5, 'x', 'x', 'x', 'x', 'x', 'x', 'x')`
	for _, set := range []string{"", "material_type = 'ABS'", "material_name = 'PLA-CF'",
		"diameter_mm = 2.85", "material_key = 'x'", "brand = 'ÄB'", "brand = null", "color = 'Blue'",
		"net_weight_grams = 4", "purchase_price = 3", "finish = 'Mätt'", "supplier = 'Shop'", "location = 'A'",
		"lot_number = 'L'",
		"notes = 'Note'", "cost_per_gram = 9", "brand_key = 'X'", "color_key = 'X'", "supplier_key = 'X'",
		"location_key = 'X'", "lot_key = 'X'", "search_key = 'X'", "color_hex = '#aabbcc'", "computed_filament = 7",
		"computed_filament = null"} {
		id := value.NewID()
		stmts := []*db.Stmt{db.SQL(insert, id)}
		if set != "" {
			stmts = append(stmts, db.SQL(`update spools set supplier = 'S', location = 'B', lot_number = 'M',
				notes = 'N', purchase_price = 10 where id = $1`, id), db.SQL(`update spools set `+set+` where id = $1`, id))
		}
		var computed bool
		stmts = append(stmts, db.SQL(`
			select row(cost_per_gram, brand_key, color_key, material_key, supplier_key, location_key, lot_key, search_key,
				computed_filament)
				is not distinct from row(round(purchase_price / net_weight_grams, 6),
				lower(brand collate "und-x-icu"), lower(color collate "und-x-icu"),
				material_type || '/' || case when material_name is null then '' else 'placf' end || '/' ||
					trim_scale(diameter_mm), lower(supplier collate "und-x-icu"),
					lower(location collate "und-x-icu"), lower(lot_number collate "und-x-icu"),
				`+server.Searchable(`concat_ws(E'\n', material_type, material_name, color, brand, finish, location, lot_number,
					supplier, notes)`)+`, 1000000001 + (('x' || left(md5(concat_ws('|', material_type, coalesce(lower(brand
					collate "und-x-icu"), ''), lower(color collate "und-x-icu"), coalesce(upper(color_hex), ''),
					diameter_mm::text, material_name)), 8))::bit(32)::int & 1073741823))
			from spools where id = $1`, id).Into(&computed))
		if err := c.API.DB.Write(ctx, stmts...); err != nil || !computed {
			t.Errorf("after set %s: computed %v, %v", set, computed, err)
		}
	}
	always := true
	if err := c.API.DB.Read(ctx, db.SQL(`select tgenabled = 'A' from pg_trigger where tgname = 'spool_computed'`).
		Into(&always)); err != nil || !always {
		t.Errorf("the trigger runs while a copy is filled: %v, %v", always, err)
	}
}

func TestPatch(t *testing.T) {
	t.Parallel()
	c := operator(t)
	optional := j{"brand": "B", "color_hex": "#123456", "finish": "F", "spool_weight_grams": 200, "purchase_price": 9,
		"supplier": "S", "purchase_date": "2024-01-01", "notes": "N"}
	made := c.Post(t, spools, spool(optional)).Want(201)
	path := spools + "/" + made.ID()

	testkit.Equal(t, string(c.Patch(t, path, j{}).Want(200).Body), string(made.Body),
		"after a PATCH with {} the spool")
	// Absent fields are not changed, and null clears a field. The test does this with each field.
	want := made.Value("").(map[string]any)
	want["updated_at"] = moment
	for field := range optional {
		want[field] = nil
		if field == "purchase_price" {
			want["cost_per_gram"] = nil
		}
		is(t, c.Patch(t, path, j{field: nil}).Want(200), "", want)
	}
	cleared := c.Get(t, path).Want(200)
	for _, field := range []string{"material_type", "color", "diameter_mm", "net_weight_grams",
		"remaining_weight_grams"} {
		c.Patch(t, path, j{field: nil}).Fields(field)
	}
	// If one field is invalid, the valid ones are not written.
	c.Patch(t, path, j{"brand": "New", "color": ""}).Fields("color")
	testkit.Equal(t, string(c.Get(t, path).Want(200).Body), string(cleared.Body), "after a 422 the spool")
	c.Patch(t, path, j{
		"material_type": "PETG", "color": "Red", "diameter_mm": 2.85, "net_weight_grams": 750,
		"remaining_weight_grams": 800,
	}).Want(200).Shows(map[string]string{
		"material_type": "PETG", "color": "Red", "diameter_mm": "2.85", "net_weight_grams": "750",
		"remaining_weight_grams": "800",
	})
}

func TestCreateSeveralSpools(t *testing.T) {
	t.Parallel()
	c := operator(t)
	fields := spool(j{"brand": "Prusament", "purchase_price": 29.99, "remaining_weight_grams": 950,
		"notes": "box of 10"})
	fields["quantity"] = 10
	const batch = spools + "/batch"
	created := c.Post(t, batch, fields).Want(201)
	testkit.Equal(t, created.Header.Get("Location"), spools, "the Location")
	seen, last := map[string]bool{}, ""
	for i := range created.List("items") {
		at := fmt.Sprintf("items.%d.", i)
		created.Shows(map[string]string{at + "brand": "Prusament", at + "remaining_weight_grams": "950",
			at + "cost_per_gram": "0.02999", at + "notes": "box of 10"})
		id := created.Text(at + "id")
		if seen[id] || id < last {
			t.Errorf("the ids are repeated or not in order: %s", created.Body)
		}
		seen[id], last = true, id
		one := c.Get(t, spools+"/"+id).Want(200)
		if !bytes.Contains(created.Body, one.Body) {
			t.Errorf("the spool is %s, its creation returned %s", one.Body, created.Body)
		}
		c.Get(t, spools+"/"+id+"/usage").Want(200).Shows(map[string]string{"total": "1", "items.0.kind": "created",
			"items.0.after_grams": "950"})
	}
	testkit.Equal(t, len(seen), 10, "spools that were created")
	c.Get(t, spools).Want(200).Shows(map[string]string{"total": "10"})

	c.Post(t, batch, spool(j{"quantity": 1})).Want(201).
		Shows(map[string]string{"items.0.remaining_weight_grams": "1000"})
	testkit.Equal(t, len(c.Post(t, batch, spool(j{"quantity": 100})).Want(201).List("items")), 100,
		"spools that were created")
	c.Get(t, spools).Want(200).Shows(map[string]string{"total": "111"})
	for _, quantity := range []any{0, 101, 2.5, "2", true, nil} {
		c.Post(t, batch, spool(j{"quantity": quantity})).Fields("quantity")
	}
	c.Post(t, batch, spool(nil)).Fields("quantity")
	c.Post(t, spools, spool(j{"quantity": 1})).Fields("quantity")
	c.Post(t, batch, spool(j{"quantity": 2, "net_weight_grams": 0.000001, "purchase_price": 1_000_000})).
		Fields("purchase_price")
	c.Patch(t, spools+"/"+last, j{"quantity": 3}).Fields("quantity")
	c.Get(t, spools).Want(200).Shows(map[string]string{"total": "111"})
}

// Each change of a spool other than a deduction or a new weight on a scale is an edit.
func TestEditsOfSpools(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, testkit.Features...).Operator(t)
	field := customFields + "/" + c.Post(t, customFields, j{"entity": "spool", "key": "tag", "name": "Tag",
		"type": "text"}).Want(201).ID()
	slot := "/api/v1/printers/" + c.Post(t, "/api/v1/printers", j{"name": "A"}).Want(201).ID() + "/slots/1"
	for name, edit := range map[string]func(id string){
		"a field":    func(id string) { c.Patch(t, spools+"/"+id, j{"notes": "x"}).Want(200) },
		"the weight": func(id string) { c.Patch(t, spools+"/"+id, j{"remaining_weight_grams": 1}).Want(200) },
		"several": func(id string) {
			c.Patch(t, spools, j{"ids": []string{id}, "changes": j{"notes": "x"}}).Want(200)
		},
		"remove":         func(id string) { c.Delete(t, spools+"/"+id).Want(204) },
		"remove several": func(id string) { c.Do(t, "DELETE", spools, j{"ids": []string{id}}).Want(200) },
		"restore": func(id string) {
			c.Delete(t, spools+"/"+id).Want(204)
			c.Post(t, spools+"/"+id+"/restore", nil).Want(200)
		},
		"load":                  func(id string) { c.Do(t, "PUT", slot, j{"spool_id": id}).Want(200) },
		"remove a custom field": func(string) { c.Delete(t, field).Want(204) },
	} {
		fields := j{}
		if name == "remove a custom field" {
			fields["extra"] = j{"tag": "x"}
		}
		id := c.NewSpool(t, 1000, fields)
		t.Run(name, func(t *testing.T) {
			edit(id)
			c.WantEdited(t, id)
		})
	}
}

func TestHideAndRestoreSpool(t *testing.T) {
	t.Parallel()
	c := operator(t)
	other := c.API.Operator(t)
	c.Post(t, spools, spool(j{"color": "White"})).Want(201)
	id := c.Post(t, spools, spool(j{"color": "Black", "purchase_price": 20})).Want(201).ID()
	path := spools + "/" + id
	c.Post(t, path+"/deduct", j{"weight_grams": 100}).Want(200)
	before := c.Get(t, path).Want(200).Shows(map[string]string{"hidden_at": "null"})
	c.Get(t, spools+"?hidden=true").Want(200).Shows(map[string]string{"total": "0"})

	c.Delete(t, path).Want(204)
	c.Delete(t, path).WantError(404, "NOT_FOUND")
	c.Get(t, path).WantError(404, "NOT_FOUND")
	c.Patch(t, path, j{"hidden_at": nil}).WantError(404, "NOT_FOUND")
	c.Patch(t, path, j{"notes": "x"}).WantError(404, "NOT_FOUND")
	c.Post(t, path+"/deduct", j{"weight_grams": 1}).WantError(404, "NOT_FOUND")
	c.Get(t, path+"/usage").Want(200).Shows(map[string]string{"total": "2", "items.0.kind": "deducted",
		"items.0.after_grams": "900", "items.1.kind": "created"})
	other.Get(t, path+"/usage").WantError(404, "NOT_FOUND")
	c.Get(t, spools).Want(200).Shows(map[string]string{"total": "1", "items.0.color": "White"})
	c.Get(t, spools+"?hidden=false").Want(200).Shows(map[string]string{"total": "1", "items.0.hidden_at": "null"})
	for query, total := range map[string]string{"": "1", "&color=BLACK": "1", "&color=White": "0",
		"&in_stock=true":     "1",
		"&sort_by=hidden_at": "1", "&sort_by=color&sort_order=asc": "1"} {
		c.Get(t, spools+"?hidden=true"+query).Want(200).Shows(map[string]string{"total": total})
	}
	hidden := c.Get(t, spools+"?hidden=true").Want(200).
		Shows(map[string]string{"items.0.id": id, "items.0.remaining_weight_grams": "900"})
	if at := hidden.Text("items.0.hidden_at"); at == "null" || at != hidden.Text("items.0.updated_at") {
		t.Errorf("hidden_at is not updated_at: %s", hidden.Body)
	}
	c.Get(t, spools+"?hidden=maybe").Fields("hidden")

	other.Post(t, path+"/restore", nil).WantError(404, "NOT_FOUND")
	c.Post(t, spools+"/"+value.NewID()+"/restore", nil).WantError(404, "NOT_FOUND")
	restored := c.Post(t, path+"/restore", nil).Want(200)
	if got := c.Get(t, path).Want(200); !bytes.Equal(got.Body, restored.Body) {
		t.Errorf("the spool is %s, and restore returned %s", got.Body, restored.Body)
	}
	for _, field := range []string{"created_at", "remaining_weight_grams", "cost_per_gram", "hidden_at", "color"} {
		restored.Shows(map[string]string{field: before.Text(field)})
	}
	c.Post(t, path+"/restore", nil).Want(200).Shows(map[string]string{"updated_at": restored.Text("updated_at")})
	c.Get(t, spools).Want(200).Shows(map[string]string{"total": "2"})
	c.Get(t, spools+"?hidden=true").Want(200).Shows(map[string]string{"total": "0"})
	c.Post(t, path+"/deduct", j{"weight_grams": 1}).Want(200).Shows(map[string]string{"remaining_weight_grams": "899"})
	c.Get(t, path+"/usage").Want(200).Shows(map[string]string{"total": "3"})
}

// Concurrent requests hide and restore the same spools. Each restore returns the spool, and the total of the list
// stays the number of spools in it.
func TestConcurrentHideAndRestore(t *testing.T) {
	t.Parallel()
	c := operator(t)
	created := c.Post(t, spools+"/batch", spool(j{"quantity": 3})).Want(201)
	testkit.Concurrently(6, func(n int) {
		for i := range 10 {
			path := spools + "/" + created.Text(fmt.Sprintf("items.%d.id", i%3))
			method, rest, want := "DELETE", "", []int{204, 404}
			if (n+i)%2 == 0 {
				method, rest, want = "POST", "/restore", []int{200}
			}
			a, err := c.Send(method, path+rest, nil)
			if err != nil || !slices.Contains(want, a.Status) {
				t.Errorf("%s: %v %+v", method, err, a)
			}
		}
	})
	list, hidden := c.Get(t, spools).Want(200), c.Get(t, spools+"?hidden=true").Want(200)
	if n := len(list.List("items")); list.Text("total") != fmt.Sprint(n) || n+len(hidden.List("items")) != 3 {
		t.Errorf("the lists are %s and %s", list.Body, hidden.Body)
	}
	for i := range 3 {
		c.Post(t, spools+"/"+created.Text(fmt.Sprintf("items.%d.id", i))+"/restore", nil).Want(200)
	}
	c.Get(t, spools).Want(200).Shows(map[string]string{"total": "3"})
}
