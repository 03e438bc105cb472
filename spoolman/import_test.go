package spoolman_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"spoolwright/db"
	"spoolwright/inventory/imports"
	"spoolwright/server"
	"spoolwright/tests/testkit"
)

// extraFile is a file of Spoolman, which has the values of custom fields and not their definitions.
const extraFile = `[{"id": 1, "registered": "2024-01-01T10:00:00Z", "initial_weight": 1000, "used_weight": 0,
	"extra": {"tag": "\"04A1\"", "opened": "true", "rank": "3", "dry": "2.5", "at": "\"2024-02-03T04:05:06Z\"",
		"range": "[1, 2.5]", "uses": "[\"toy\", \"box\"]", "mixed": "12", "object": "{\"a\": [1]}", "plain": "not JSON",
		"quote": "\"a \\\"b\\\", ;'c\\n\"", "none": "null"},
	"filament": {"id": 1, "registered": "2024-01-01T10:00:00Z", "name": "Black", "material": "PLA", "diameter": 1.75,
		"density": 1.24, "extra": {"cheap": "false"},
		"vendor": {"id": 1, "registered": "2024-01-01T10:00:00Z", "name": "Acme", "extra": {"country": "\"DE\""}}}},
	{"id": 2, "registered": "2024-01-01T10:00:00Z", "initial_weight": 1000, "used_weight": 0,
	"extra": {"dry": "4", "mixed": "\"x\"", "uses": "[\"lid\"]", "at": "\"2024-02-03T04:05:06Z\""},
	"filament": {"id": 1, "registered": "2024-01-01T10:00:00Z", "name": "Black", "material": "PLA", "diameter": 1.75,
		"density": 1.24, "extra": {"cheap": "false"},
		"vendor": {"id": 1, "registered": "2024-01-01T10:00:00Z", "name": "Acme", "extra": {"country": "\"DE\""}}}}]`

// imports imports a file of Spoolman, and returns the new definitions, the counts of spools and the invalid items.
func (p *printer) imports(t *testing.T, api *testkit.API, file string, o imports.SourceOptions) (
	fields string, spools [3]int64, invalid string, err error,
) {
	t.Helper()
	importer := imports.Importer{DB: api.DB, Invalid: func(where string, problems []server.FieldError) {
		for _, problem := range problems {
			invalid += where + ": " + problem.Field + " " + problem.Message + "\n"
		}
	}}
	ctx := db.As(t.Context(), db.Actor{Tenant: p.operator.Actor.Tenant})
	result, err := importer.Spoolman(ctx, strings.NewReader(file), o)
	for _, f := range result.Fields {
		fields += fmt.Sprintf("%s %s %s\n", *f.Entity.Value, *f.Key.Value, *f.Type.Value)
	}
	counts := result.Counts["spool"]
	return fields, [3]int64{counts.Created, counts.Updated, counts.Unchanged}, invalid, err
}

// An import creates the definitions of custom fields that a file lacks. Afterwards its items can be sent back by all
// ways, as any others.
func TestImportedExtras(t *testing.T) {
	t.Parallel()
	api := start(t)
	p := newPrinter(t, api, "operator")
	c := p.operator
	const want = "vendor country text\nfilament cheap boolean\nspool at datetime\nspool dry float\nspool mixed text\n" +
		"spool object text\nspool opened boolean\nspool plain text\nspool quote text\nspool range float_range\n" +
		"spool rank integer\nspool tag text\nspool uses choice\n"
	for _, dry := range []bool{true, false} {
		fields, spools, invalid, err := p.imports(t, api, extraFile, imports.SourceOptions{DryRun: dry})
		if fields != want || spools != [3]int64{2} || err != nil {
			t.Fatalf("dry run %v: %v, %s, spools %v, new fields\n%swant\n%s", dry, err, invalid, spools, fields, want)
		}
		total := map[bool]string{true: "0", false: "13"}[dry]
		c.Get(t, "/api/v1/custom-fields").Want(200).Shows(map[string]string{"total": total})
	}
	c.Get(t, spools+"?sort_order=asc").Want(200).Shows(map[string]string{"items.0.extra.tag": "04A1",
		"items.0.extra.mixed": "12", "items.1.extra.mixed": "x", "items.0.extra.object": `{"a":[1]}`,
		"items.0.extra.uses.1": "box", "items.0.extra.range.1": "2.5"})

	// The same again changes nothing.
	fields, counts, invalid, err := p.imports(t, api, extraFile, imports.SourceOptions{})
	if fields != "" || counts != [3]int64{0, 0, 2} || err != nil {
		t.Errorf("again: %v %s, spools %v, new fields %s", err, invalid, counts, fields)
	}

	// GET, edit, PATCH; export, import; the surface; its own exports.
	for _, list := range []string{"vendors", "filaments", "spools"} {
		path := "/api/v1/" + list
		csv := c.With("Content-Type", "text/csv")
		file := string(c.Get(t, path+"/export?format=csv").Want(200).Body)
		for _, mode := range []string{"upsert", "update"} {
			csv.Post(t, path+"/import?mode="+mode, file).Want(200).
				Shows(map[string]string{"created": "0", "updated": "0", "skipped": "0"})
		}
		for _, item := range c.Get(t, path).Want(200).List("items") {
			at := path + "/" + item.(map[string]any)["id"].(string)
			c.Patch(t, at, string(c.Get(t, at).Want(200).Body)).Want(200)
		}
	}
	p.want(t, "PATCH", "spool/1", `{"extra":{"tag":"\"04A2\""}}`, 200, `"tag":"\"04A2\""`)
	for _, entity := range []string{"vendor", "filament", "spool"} {
		var item struct{ Extra map[string]string }
		testkit.Check(t, json.Unmarshal([]byte(p.want(t, "GET", entity+"/1", "", 200).body), &item))
		body, err := json.Marshal(item)
		testkit.Check(t, err)
		p.want(t, "PATCH", entity+"/1", strings.Replace(string(body), `"Extra"`, `"extra"`, 1), 200)
	}
	for _, format := range []string{"json", "csv"} {
		to := newPrinter(t, api, "operator")
		file := p.do(t, "GET", "export/spools?fmt="+format, "").body
		fields, counts, invalid, err := to.imports(t, api, file, imports.SourceOptions{})
		if counts != [3]int64{2} || err != nil || !strings.Contains(fields, "spool tag text\n") {
			t.Errorf("the export in %s: %v %s, spools %v, new fields %s", format, err, invalid, counts, fields)
		}
		to.want(t, "PATCH", "spool/1", `{"extra":{"tag":"\"x\""}}`, 200)
		for _, spool := range to.operator.Get(t, spools).Want(200).List("items") {
			at := spools + "/" + spool.(map[string]any)["id"].(string)
			to.operator.Patch(t, at, string(to.operator.Get(t, at).Want(200).Body)).Want(200)
		}
	}
}

// Values that do not conform to a definition are problems of their items, which name the field.
func TestImportedExtrasThatDoNotFit(t *testing.T) {
	t.Parallel()
	api := start(t)
	p := newPrinter(t, api, "operator")
	define := func(key, kind string, more j) {
		t.Helper()
		body := j{"entity": "spool", "key": key, "name": key, "type": kind}
		maps.Copy(body, more)
		p.operator.Post(t, "/api/v1/custom-fields", body).Want(201)
	}
	define("rank", "boolean", nil)
	define("tag", "integer", nil)
	define("uses", "choice", j{"choices": []string{"toy"}, "multiple": true})
	fields, _, invalid, err := p.imports(t, api, extraFile, imports.SourceOptions{})
	if err == nil || fields != "" {
		t.Errorf("the import: %v, new fields %s", err, fields)
	}
	for _, text := range []string{"Spoolman's spool 1: extra.rank must be true or false; the value is 3",
		`extra.tag must be a number of the type integer; the value is "04A1"`,
		"spool 2: extra.uses must be a list of choices of the field"} {
		if !strings.Contains(invalid, text) {
			t.Errorf("%s: want %s", invalid, text)
		}
	}
	p.operator.Get(t, "/api/v1/custom-fields").Want(200).Shows(map[string]string{"total": "3"})
	p.operator.Get(t, spools).Want(200).Shows(map[string]string{"total": "0"})

	// At most 100 fields of an entity.
	extra := ""
	for i := range 101 {
		extra += fmt.Sprintf(`,"k%d": "1"`, i)
	}
	q := newPrinter(t, api, "operator")
	_, _, _, err = q.imports(t, api, `[{"id":1,"initial_weight":1,"extra":{`+extra[1:]+
		`},"filament":{"id":1,"diameter":1.75,"density":1}}]`, imports.SourceOptions{})
	if err == nil || !strings.Contains(err.Error(), "at most 100") {
		t.Errorf("101 custom fields: %v", err)
	}

	// Imports at once, while somebody defines one of the fields, create each field once.
	r := newPrinter(t, api, "operator")
	errs := make([]error, 4)
	testkit.Concurrently(4, func(n int) {
		if n == 3 {
			r.operator.Post(t, "/api/v1/custom-fields", j{"entity": "spool", "key": "tag", "name": "t", "type": "text"})
			return
		}
		_, _, _, errs[n] = r.imports(t, api, extraFile, imports.SourceOptions{})
	})
	for _, err := range errs {
		if err != nil && !strings.Contains(err.Error(), "try again") {
			t.Errorf("an import at once with others: %v", err)
		}
	}
	if _, _, invalid, err := r.imports(t, api, extraFile, imports.SourceOptions{}); err != nil {
		t.Errorf("an import after others: %v %s", err, invalid)
	}
	r.operator.Get(t, "/api/v1/custom-fields").Want(200).Shows(map[string]string{"total": "13"})
	var keys []string
	for _, f := range r.operator.Get(t, "/api/v1/custom-fields?limit=100").List("items") {
		keys = append(keys, f.(map[string]any)["key"].(string))
	}
	slices.Sort(keys)
	testkit.Equal(t, len(slices.Compact(keys)), 13, "keys %v", keys)
}
