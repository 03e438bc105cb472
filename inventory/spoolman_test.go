package inventory_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"spoolwright/inventory"
	"spoolwright/testkit"
)

const spoolmanFixture = "../testdata/spoolman/spools.json"

func readFixture(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile(spoolmanFixture)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func openSpoolman(t *testing.T, source string) *os.File {
	t.Helper()
	f, err := inventory.OpenSpoolman(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// Repeated imports, from a server and from a file, create each spool once, and do not change it.
func TestSpoolman(t *testing.T) {
	t.Parallel()
	fixture := readFixture(t)
	var requests []string
	spoolman := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Method+" "+r.URL.String())
		w.Header().Set("Content-Type", "application/json")
		w.Write(fixture)
	}))
	defer spoolman.Close()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	c, otherTenant := api.Operator(t), api.Operator(t)
	importer, ctx, invalid := newImporter(t, c)
	result, err := importer.Spoolman(ctx, openSpoolman(t, spoolman.URL), false)
	if err != nil || result != (inventory.ImportResult{Created: 5}) {
		t.Fatalf("%+v %v %v", result, err, *invalid)
	}
	list := c.Get(t, "/api/v1/spools?sort_order=asc&archived=any").Want(200).Shows(map[string]string{"total": "5",
		"items.0.material_type": "PLA", "items.0.brand": "Northline", "items.0.color": "Harbour Grey",
		"items.0.color_hex": "#7A8288", "items.0.diameter_mm": "1.75", "items.0.net_weight_grams": "1000",
		"items.0.remaining_weight_grams": "812.4", "items.0.spool_weight_grams": "212.5",
		"items.0.purchase_price": "19.9", "items.0.supplier": "null", "items.0.purchase_date": "null",
		"items.0.notes": "Opened by Kim\nFilament: Prints well at 60 mm/s\nhumidity: 12\nowner: Workshop\n" +
			"drying: 50 °C, 6 h\nArticle number: NL-0042\nNozzle °C: 210\n" +
			"Bed °C: 60\nRegistered: 2024-02-03\nSpoolman: 1",
		"items.0.location": "Shelf B", "items.0.lot_number": "L-2024-11", "items.0.density_g_cm3": "1.24",
		"items.0.archived": "false", "items.0.first_used_at": "2024-02-10T18:00:00Z",
		"items.0.last_used_at": "2024-03-01T07:30:12.5Z", "items.2.archived": "true", "items.2.location": "null",
		"items.2.first_used_at": "null",

		"items.1.material_type": "PLA", "items.1.color": "Ember", "items.1.color_hex": "#FF4500",
		"items.1.net_weight_grams": "750", "items.1.remaining_weight_grams": "750",
		"items.1.spool_weight_grams": "190", "items.1.purchase_price": "23",
		"items.1.notes": "Material: PLA+\nColours: #FF4500, #FFD70080, #202020\n" +
			"Colour direction: coaxial\nRegistered: 2024-02-03\nSpoolman: 2",

		"items.2.material_type": "Nylon", "items.2.brand": "null", "items.2.color": "#101010",
		"items.2.color_hex": "#101010", "items.2.diameter_mm": "2.85", "items.2.net_weight_grams": "480",
		"items.2.remaining_weight_grams": "0", "items.2.spool_weight_grams": "150", "items.2.purchase_price": "64",
		"items.2.notes": "Material: pa-cf\nRegistered: 2024-02-04\nSpoolman: 3",

		"items.3.material_type": "Custom", "items.3.brand": "Kap & Son", "items.3.diameter_mm": "2.85",
		"items.3.remaining_weight_grams": "1040.25", "items.3.purchase_price": "null",
		"items.3.notes": "Vendor: Ships on Mondays\ncountry: Norway\nrating: 4\nMaterial: PVB\nDiameter: 3 mm\nRegistered: 2024-02-05\nSpoolman: 4",

		"items.4.material_type": "Custom", "items.4.color": "Fog", "items.4.color_hex": "null",
		"items.4.notes": "Registered: 2024-02-06\nSpoolman: 5",
	})
	if text := string(list.Body); strings.Contains(text, "external") {
		t.Errorf("the API returns the external key: %s", text)
	}

	// Deduct from a spool, change one and delete one; add two to Spoolman.
	path := func(item string) string { return "/api/v1/spools/" + list.Text("items."+item+".id") }
	used, edited, deleted := path("0"), path("1"), path("4")
	c.Post(t, used+"/deduct", testkit.JSON{"weight_grams": 12.4}).Want(200)
	c.Patch(t, edited, testkit.JSON{"color": "Fire"}).Want(200)
	c.Delete(t, deleted).Want(204)
	fixture = bytes.TrimRight(fixture, " \n]")
	fixture = append(fixture, `,
		{"id": 6, "registered": "2024-03-01T00:00:00", "initial_weight": 500, "used_weight": 125.5,
			"filament": {"material": "TPU 95A", "name": "Red", "diameter": 1.75}},
		{"id": 1, "registered": "2025-01-01T00:00:00Z", "used_weight": 3,
			"filament": {"material": "petg", "name": "Of another server", "diameter": 1.75, "weight": 1}}]`...)
	for _, path := range []string{"/", "/api/v1", "/api/v1/spool?limit=1#x"} {
		source := spoolman.URL + path
		importer, ctx, invalid = newImporter(t, c)
		result, err := importer.Spoolman(ctx, openSpoolman(t, source), false)
		want := inventory.ImportResult{Existing: 7}
		if path == "/" {
			want = inventory.ImportResult{Created: 2, Existing: 5}
		}
		if err != nil || result != want {
			t.Fatalf("%s: %+v %v %v", source, result, err, *invalid)
		}
	}
	result, err = importer.Spoolman(ctx, openSpoolman(t, spoolmanFixture), false)
	if err != nil || result != (inventory.ImportResult{Existing: 5}) {
		t.Fatalf("import of the file: %+v %v", result, err)
	}
	c.Get(t, used).Want(200).Shows(map[string]string{"remaining_weight_grams": "800"})
	c.Get(t, edited).Want(200).Shows(map[string]string{"color": "Fire"})
	c.Get(t, deleted).WantError(404, "NOT_FOUND")
	c.Get(t, "/api/v1/spools?sort_order=asc&archived=any").Want(200).Shows(map[string]string{"total": "6",
		"items.4.material_type": "TPU", "items.4.remaining_weight_grams": "374.5", "items.5.remaining_weight_grams": "0"})

	// Another tenant can import from the same server.
	importer, ctx, _ = newImporter(t, otherTenant)
	result, err = importer.Spoolman(ctx, openSpoolman(t, spoolmanFixture), false)
	if err != nil || result != (inventory.ImportResult{Created: 5}) {
		t.Errorf("import of another tenant: %+v %v", result, err)
	}
	slices.Sort(requests)
	if requests = slices.Compact(requests); !slices.Equal(requests, []string{"GET /api/v1/spool?allow_archived=true"}) {
		t.Errorf("the requests to Spoolman are %q", requests)
	}
}

// Imports of Spoolman's exports, JSON with flat names and CSV, create the same spools as imports from its API.
func TestSpoolmanExports(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	var spools []map[string]any
	if err := json.Unmarshal(readFixture(t), &spools); err != nil {
		t.Fatal(err)
	}
	var flat []map[string]any
	columns := map[string]bool{}
	for _, s := range spools {
		f := map[string]any{}
		flatten(f, "", s)
		for _, name := range []string{"remaining_weight", "remaining_length"} { // computed by the API
			delete(f, name)
		}
		for name, value := range f {
			columns[name] = true
			isTime := strings.HasSuffix(name, "registered") || strings.HasSuffix(name, "_used")
			if text, ok := value.(string); ok && isTime {
				f[name] = strings.TrimSuffix(strings.Replace(text, "T", " ", 1), "Z")
			}
		}
		flat = append(flat, f)
	}
	names := slices.Sorted(maps.Keys(columns))
	asCSV := strings.Join(names, ",") + "\r\n"
	for _, f := range flat {
		var cells []string
		for _, name := range names {
			text := ""
			switch v := f[name].(type) {
			case nil:
			case bool:
				text = map[bool]string{true: "True", false: "False"}[v]
			default:
				text = fmt.Sprint(v)
			}
			cells = append(cells, `"`+strings.ReplaceAll(text, `"`, `""`)+`"`)
		}
		asCSV += strings.Join(cells, ",") + "\r\n"
	}
	asJSON, err := json.Marshal(flat)
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"JSON": string(asJSON), "CSV": asCSV} {
		c := api.Operator(t)
		importer, ctx, invalid := newImporter(t, c)
		if result, err := importer.Spoolman(ctx, strings.NewReader(file), false); err != nil || result.Created != 5 {
			t.Fatalf("%s: %+v %v %v", name, result, err, *invalid)
		}
		text := export(t, c, "csv")
		result, err := importer.Spoolman(ctx, openSpoolman(t, spoolmanFixture), false)
		if err != nil || result != (inventory.ImportResult{Existing: 5}) {
			t.Errorf("%s: a second import, from the API: %+v %v", name, result, err)
		}
		other := api.Operator(t)
		importer, ctx, _ = newImporter(t, other)
		if _, err := importer.Spoolman(ctx, openSpoolman(t, spoolmanFixture), false); err != nil {
			t.Fatal(err)
		}
		got, want := withoutServerFields(t, text), withoutServerFields(t, export(t, other, "csv"))
		remaining := slices.IndexFunc(want[0], func(s string) bool { return s == `"remaining_weight_grams"` })
		if want[4][remaining] != `"1040.25"` { // an export lacks this field of the API
			t.Fatal(want[4])
		}
		want[4][remaining] = `"1000"`
		if !slices.EqualFunc(want, got, slices.Equal) {
			t.Errorf("%s:\n%v\nwant as from the API:\n%v", name, got, want)
		}
	}
}

func flatten(to map[string]any, prefix string, from map[string]any) {
	for name, value := range from {
		if nested, ok := value.(map[string]any); ok {
			flatten(to, prefix+name+".", nested)
		} else {
			to[prefix+name] = value
		}
	}
}

// The alpha of a colour goes to the notes, unless it is opaque.
func TestSpoolmanAlpha(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	for code, want := range map[string]string{
		"ff450080": "Colour with alpha: #FF450080\nSpoolman: 1", "#FF4500ff": "Spoolman: 1", "FF4500": "Spoolman: 1",
	} {
		c := api.Operator(t)
		file := `[{"id": 1, "filament": {"diameter": 1.75, "weight": 1, "material": "PLA", "color_hex": "` + code + `"}}]`
		importer, ctx, invalid := newImporter(t, c)
		if _, err := importer.Spoolman(ctx, strings.NewReader(file), false); err != nil {
			t.Fatal(err, *invalid)
		}
		c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{
			"items.0.color_hex": "#FF4500", "items.0.notes": want,
		})
	}
}

func TestSpoolmanMaterials(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes).Operator(t)
	want := map[string]string{
		"PLA": "PLA", "pla": "PLA", "PLA+": "PLA", "PLA-CF": "PLA", "Silk PLA": "PLA", "PLA (wood)": "PLA", "rPLA": "PLA",
		"LW-PLA": "PLA", "HTPLA": "PLA", "PLA/PHA": "PLA", "PLA2": "PLA", "ePLA-ST": "PLA",
		"PETG": "PETG", "PET-G": "PETG", "petg+": "PETG", "PETG-CF": "PETG", "rPETG": "PETG", "PETG HF": "PETG",
		"PCTG": "Custom", "PET": "Custom", "PET-CF": "Custom",
		"ABS": "ABS", "ABS+": "ABS", "ABS-GF": "ABS",
		"TPU": "TPU", "TPU 95A": "TPU", "TPU95A": "TPU", "TPU-85A": "TPU", "ASA": "ASA", "ASA-CF": "ASA",
		"Nylon": "Nylon", "PA": "Nylon", "PA6": "Nylon", "PA12-CF": "Nylon", "PA6-GF30": "Nylon", "PAHT-CF": "Nylon",
		"PACF": "Nylon", "Nylon 6/66": "Nylon", "PA-12": "Nylon",
		"PC": "PC", "PC-ABS": "PC", "PC Blend": "PC", "Polycarbonate": "PC", "HIPS": "HIPS", "PVA": "PVA", "PVA+": "PVA",
		"PVB": "Custom", "PP": "Custom", "PEEK": "Custom", "PLASTIC": "Custom", "PARTY": "Custom", "ABSOLUTE": "Custom",
		"№5": "Custom",
	}
	var spools []map[string]any
	for material := range want {
		filament := map[string]any{"name": material, "material": material, "diameter": 1.75, "weight": 1000}
		spools = append(spools, map[string]any{"id": len(spools) + 1, "filament": filament})
	}
	file, err := json.Marshal(spools)
	if err != nil {
		t.Fatal(err)
	}
	importer, ctx, invalid := newImporter(t, c)
	result, err := importer.Spoolman(ctx, bytes.NewReader(file), false)
	if err != nil || result.Created != len(want) {
		t.Fatalf("%+v %v %v", result, err, *invalid)
	}
	for _, item := range c.Get(t, "/api/v1/spools?limit=100").Want(200).List("items") {
		spool := item.(map[string]any)
		material := spool["color"].(string)
		if spool["material_type"] != want[material] {
			t.Errorf("%s is %v, want %s", material, spool["material_type"], want[material])
		}
		noted := strings.Contains(fmt.Sprint(spool["notes"]), "Material: "+material+"\n")
		if noted == strings.EqualFold(material, want[material]) {
			t.Errorf("%s: the notes are %q", material, spool["notes"])
		}
	}
}

// An import reports all invalid spools. It creates nothing, or the valid spools if it skips invalid ones.
func TestSpoolmanInvalidSpools(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes).Operator(t)
	file := `[{"id": 1, "filament": {"diameter": 1.75, "weight": 1000}},
		{"id": 2, "filament": {"diameter": 2.0, "weight": 1000}},
		{"id": 3, "filament": {"diameter": 1.75}, "used_weight": 10},
		{"filament": {"diameter": 1.75, "weight": 1000}},
		{"id": 5, "filament": {"weight": 0}, "initial_weight": 0},
		{"id": 6, "filament": {"diameter": 1.75, "weight": 1000,
			"vendor": {"name": "` + strings.Repeat("x", 201) + `"}}, "price": 1e9},
		{"id": 7, "filament": {"diameter": 1.75, "weight": 1000, "color_hex": "blue"}, "remaining_weight": -4,
			"comment": "` + strings.Repeat("ü", 20_000) + `", "lot_nr": "L7", "archived": true},
		{"id": 8, "filament": {"diameter": 1.75, "weight": 1000}, "used_weight": "812,4"},
		{"id": 9, "filament": {"diameter": 1.75, "weight": "1e400"}, "remaining_weight": "much"}]`
	want := []string{
		"Spoolman's spool 2: filament.diameter", "Spoolman's spool 3: filament.weight", "spool 4 of the list: id",
		"Spoolman's spool 5: filament.diameter filament.weight", "Spoolman's spool 6: brand purchase_price",
		"Spoolman's spool 8: used_weight", "Spoolman's spool 9: filament.weight remaining_weight",
	}
	importer, ctx, invalid := newImporter(t, c)
	result, err := importer.Spoolman(ctx, strings.NewReader(file), false)
	if err != inventory.InvalidRows(7) || result != (inventory.ImportResult{Invalid: 7}) || !slices.Equal(*invalid, want) {
		t.Errorf("%+v %v\n%s", result, err, strings.Join(*invalid, "\n"))
	}
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "0"})
	importer, ctx, invalid = newImporter(t, c)
	result, err = importer.Spoolman(ctx, strings.NewReader(file), true)
	if err != nil || result != (inventory.ImportResult{Created: 2, Invalid: 7}) || !slices.Equal(*invalid, want) {
		t.Errorf("%+v %v\n%s", result, err, strings.Join(*invalid, "\n"))
	}
	list := c.Get(t, "/api/v1/spools?sort_order=asc&archived=any").Want(200).Shows(map[string]string{"total": "2",
		"items.0.color": "Unknown", "items.1.color_hex": "null", "items.1.remaining_weight_grams": "0"})
	// A long comment is truncated, the facts are not.
	const facts = "ü …\nColour code: blue\nSpoolman: 7"
	notes := list.Text("items.1.notes")
	if utf8.RuneCountInString(notes) != 10_000 || !strings.HasSuffix(notes, facts) {
		t.Errorf("the notes have %d characters and end with %q", utf8.RuneCountInString(notes), notes[len(notes)-200:])
	}
}

func TestSpoolmanRejectsOtherSources(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	c := api.Operator(t)
	for file, want := range map[string]string{
		"":                       "not a list of spools",
		"  \n":                   "not a list of spools",
		"<html></html>":          "not a list of spools",
		`{"detail":"Not found"}`: "not a list of spools",
		"id,name\n1,x\n":         "not a list of spools",
		`[{"id":1,"filament":{"diameter":1.75,"weight":1}}`:  "incomplete",
		`[{"id":1,"filament":{"diameter":1.75,"weight":1}},`: "spool 2 of the list",
		`[1]`: "spool 1 of the list",
		`[{"id":1,"filament":{"diameter":1.75,"weight":1}}][]`: "one list at a time",
		`[] end`: "one list at a time",
	} {
		importer, ctx, invalid := newImporter(t, c)
		result, err := importer.Spoolman(ctx, strings.NewReader(file), true)
		if err == nil || !strings.Contains(err.Error(), want) || result.Created != 0 || len(*invalid) > 0 {
			t.Errorf("%q: %+v %v %v, want %q", file, result, err, *invalid, want)
		}
	}
	// However large an answer is, a spool of it is not: the memory for one is limited.
	zeros := strings.Repeat("0,", 32<<20)
	for name, file := range map[string]string{
		"a long list":   `[{"id":1,"extra":[` + zeros + `0]}]`,
		"a long text":   `[{"id":1,"comment":"` + zeros + `"}]`,
		"a long number": `[` + strings.Repeat("1", 64<<20),
		"many blanks":   `[` + strings.Repeat(" ", 64<<20),
	} {
		importer, ctx, _ := newImporter(t, c)
		_, err := importer.Spoolman(ctx, strings.NewReader(file), true)
		if err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "0"})

	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/file") {
			http.Redirect(w, r, "file:///etc/hostname", http.StatusFound)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/elsewhere") {
			http.Redirect(w, r, "http://localhost:1/api/v1/spool", http.StatusFound)
			return
		}
		http.NotFound(w, r)
	}))
	defer other.Close()
	for source, want := range map[string]string{
		other.URL:                "404",
		other.URL + "/file":      "redirects to another host",
		other.URL + "/elsewhere": "redirects to another host, localhost:1",
		"http://127.0.0.1:1":     "refused",
		"ftp://spoolman.example": "http://",
		"file:///etc/hostname":   "http://",
		"http://":                "http://",
		"/nothing/is/here.json":  "no such file",
		strings.Replace(other.URL, "http://", "http://user:hidden@", 1): "404",
	} {
		f, err := inventory.OpenSpoolman(t.Context(), source)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") || f != nil {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
}

// A response of a Spoolman server without end, here of white space, fails after 256 MiB.
func TestSpoolmanResponseWithoutEnd(t *testing.T) {
	t.Parallel()
	const limit = 256 << 20
	sent := make(chan int, 1)
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		block := bytes.Repeat([]byte(" "), 1<<20)
		n := 0
		for n < 2*limit {
			if _, err := w.Write(block); err != nil {
				break
			}
			n += len(block)
		}
		sent <- n
	}))
	defer endless.Close()
	f, err := inventory.OpenSpoolman(t.Context(), endless.URL)
	if err == nil || !strings.Contains(err.Error(), "256 MiB") || f != nil {
		t.Errorf("%v, want an error with the limit", err)
	}
	// The kernel buffers an amount that depends on the machine; the rest cannot be sent when the reader closes.
	if n := <-sent; n >= 2*limit {
		t.Errorf("the whole response of %d bytes was sent, want about %d", n, limit)
	}
}
