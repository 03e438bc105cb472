package spoolman_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/server"
	"spoolwright/spoolman"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// recorded returns what an import reads from a Spoolman server with 300 spools: all that such a server can have, and
// gaps between its ids.
func recorded() j {
	r := rand.New(rand.NewPCG(1, 2))
	maybe := func(item j, name string, value any) {
		if r.IntN(2) == 0 {
			item[name] = value
		}
	}
	grams := func(most int) json.Number { return json.Number(fmt.Sprintf("%d.%d", 1+r.IntN(most), 1+r.IntN(9))) }
	at := func(n int) string { return fmt.Sprintf("2024-0%d-%02dT%02d:%02d:07Z", 1+n%9, 1+n%28, n%24, n%60) }
	list := func(n int, fill func(i int) j) []any {
		var items []any
		for i := range n {
			item := fill(i)
			item["id"], item["registered"] = 3*i/2+2, at(i)
			items = append(items, item)
		}
		return items
	}
	pick := func(items []any) any { return items[r.IntN(len(items))] }
	vendors := list(12, func(i int) j {
		v := j{"name": fmt.Sprintf("Vendor %d Ü", i), "extra": j{}}
		maybe(v, "comment", "one\ntwo, \"three\"")
		maybe(v, "empty_spool_weight", grams(300))
		maybe(v, "external_id", fmt.Sprint("v", i))
		maybe(v, "extra", j{"country": `"Spain"`})
		return v
	})
	materials := []any{"PLA", "PLA+", "pla", "PETG-CF", "TPU 95A", "PA6-GF30", "PEEK"}
	filaments := list(60, func(i int) j {
		f := j{"density": 1.04 + float64(i%30)/100, "diameter": []any{1.75, 2.85}[i%2], "extra": j{}}
		fields := j{"name": fmt.Sprint("Filament ", i), "vendor": pick(vendors), "material": pick(materials),
			"price": grams(60), "spool_weight": grams(300), "article_number": fmt.Sprint("A-", i), "comment": "c",
			"settings_extruder_temp": 180 + r.IntN(120), "settings_bed_temp": r.IntN(110),
			"external_id": fmt.Sprint("f", i),
			"extra":       j{"range": "[190, null]", "tags": `["a", "c"]`}, "weight": grams(1000)}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			maybe(f, name, fields[name])
		}
		switch i % 4 {
		case 0:
			f["color_hex"] = fmt.Sprintf("%06X", r.IntN(1<<24))
		case 1:
			f["color_hex"] = fmt.Sprintf("%08X", r.Uint32())
		case 2:
			f["multi_color_hexes"] = fmt.Sprintf("%06X,%08X,00FF00", r.IntN(1<<24), r.Uint32())
			f["multi_color_direction"] = []string{"coaxial", "longitudinal"}[r.IntN(2)]
		}
		return f
	})
	spools := list(300, func(i int) j {
		filament := pick(filaments).(j)
		initial, used := 500+r.IntN(500), r.IntN(1200)
		s := j{"filament": filament, "initial_weight": initial, "used_weight": used,
			"remaining_weight": max(initial-used, 0), "spool_weight": grams(300), "archived": i%7 == 0, "extra": j{}}
		fields := j{"price": grams(80), "location": fmt.Sprint("Shelf ", r.IntN(5)),
			"lot_nr": fmt.Sprint("L", i), "comment": "spool\nof Kim", "first_used": at(i + 1), "last_used": at(i + 2),
			"extra": j{"tag": fmt.Sprintf(`"04A2%06X"`, i), "humidity": "12.5", "dry": "true"}}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			maybe(s, name, fields[name])
		}
		return s
	})
	field := func(entity, key, kind string, more j) j {
		f := j{"key": key, "name": strings.ToUpper(key), "order": 1, "field_type": kind, "entity_type": entity}
		for name, value := range more {
			f[name] = value
		}
		return f
	}
	return j{
		"field_vendor": []any{field("vendor", "country", "choice",
			j{"choices": []string{"Norway", "Spain"}, "multi_choice": false, "default_value": `"Norway"`})},
		"field_filament": []any{field("filament", "range", "integer_range", j{"unit": "°C"}),
			field("filament", "tags", "choice", j{"choices": []string{"a", "b", "c"}, "multi_choice": true})},
		"field_spool": []any{field("spool", "tag", "text", nil), field("spool", "humidity", "float", j{"unit": "%"}),
			field("spool", "dry", "boolean", nil)},
		"vendor": vendors, "filament": filaments, "spool": spools,
	}
}

// flat returns the fields of all items by names such as "spool 7 filament.name", in the form in which Export writes
// them.
func flat(t *testing.T, text []byte) map[string]string {
	t.Helper()
	var lists map[string][]map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	testkit.Check(t, d.Decode(&lists))
	all := map[string]string{}
	var add func(prefix string, object map[string]any)
	add = func(prefix string, object map[string]any) {
		for name, v := range object {
			inner, isObject := v.(map[string]any)
			switch {
			case isObject:
				add(prefix+name+".", inner)
			case strings.HasSuffix(prefix, "extra."): // JSON in a text
				var inner any
				if json.Unmarshal([]byte(v.(string)), &inner) != nil {
					t.Errorf("%s%s is %v", prefix, name, v)
				}
				all[prefix+name] = fmt.Sprint(inner)
			case strings.HasSuffix(name, "_length"): // computed
			default:
				all[prefix+name] = fmt.Sprint(v)
				if n, ok := v.(json.Number); ok {
					decimal, _ := value.ParseDecimal(string(n))
					all[prefix+name] = decimal.String()
				}
			}
		}
	}
	for list, items := range lists {
		for _, item := range items {
			name := fmt.Sprint(item["id"])
			if strings.HasPrefix(list, "field_") {
				name = item["key"].(string)
			}
			add(list+" "+name+" ", item)
		}
	}
	return all
}

// Everything that a Spoolman server has comes back as it was: from our own file, and from a server to which it was
// loaded.
func TestRoundTripOfSpoolman(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{PerMinute: 1_000_000, PerHour: 10_000_000, Change: func(c *server.Config) {
		c.Surfaces = []server.Surface{spoolman.Surface(c.DB)}
	}}, inventory.Routes)
	inTenant := func(p *printer) context.Context {
		return db.As(t.Context(), db.Actor{Tenant: p.operator.Actor.Tenant})
	}
	importInto := func(p *printer, source []byte) {
		t.Helper()
		importer := imports.Importer{DB: api.DB, Invalid: func(where string, problems []server.FieldError) {
			t.Error(where, problems)
		}}
		_, err := importer.Spoolman(inTenant(p), bytes.NewReader(source), imports.SourceOptions{})
		testkit.Check(t, err)
	}
	export := func(p *printer) []byte {
		t.Helper()
		var b bytes.Buffer
		testkit.Check(t, spoolman.Export(inTenant(p), api.DB, &b))
		return b.Bytes()
	}
	address := func(p *printer) string {
		return strings.Replace(p.url, "http://", "http://x:"+p.key+"@", 1) + "/spoolman"
	}
	compare := func(what string, want, got map[string]string, except ...string) {
		t.Helper()
		differences := 0
		for name := range want {
			excepted := false
			for _, suffix := range except {
				excepted = excepted || strings.HasSuffix(name, suffix)
			}
			if want[name] != got[name] && !excepted {
				if differences++; differences < 10 {
					t.Errorf("%s: %s is %q, want %q", what, name, got[name], want[name])
				}
			}
		}
		for name, value := range got {
			if _, ok := want[name]; !ok {
				if differences++; differences < 10 {
					t.Errorf("%s: %s is %q, want none", what, name, value)
				}
			}
		}
	}
	first, second, third := newPrinter(t, api, "operator"), newPrinter(t, api, "operator"),
		newPrinter(t, api, "operator")
	source, err := json.Marshal(recorded())
	testkit.Check(t, err)
	want := flat(t, source)
	importInto(first, source)
	exported := export(first)
	compare("the export", want, flat(t, exported))
	importInto(second, exported)
	compare("the export of the import of the export", want, flat(t, export(second)))

	created, err := spoolman.Load(inTenant(first), api.DB, address(third))
	if err != nil || created != 372 {
		t.Fatalf("%d items were created: %v", created, err)
	}
	compare("the server", want, flat(t, export(third)), "registered", " used_weight")
	if _, err := spoolman.Load(inTenant(first), api.DB, address(third)); err == nil ||
		!strings.Contains(err.Error(), "not empty") {
		t.Errorf("a second load: %v", err)
	}

	// Our own API is also a server to import from.
	fourth := newPrinter(t, api, "operator")
	file, err := spoolman.Open(t.Context(), address(second))
	testkit.Check(t, err)
	defer file.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(file); err != nil {
		t.Fatal(err)
	}
	importInto(fourth, text.Bytes())
	compare("the import from a server", want, flat(t, export(fourth)), " used_weight")
}
