package imports_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/tests/testkit"
)

// An exported file with custom fields can be imported by a farm that has no definitions of them: the import creates
// the definitions and says so, and the export of that farm is the same.
func TestImportDefinesCustomFields(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	c := api.Operator(t)
	fields := map[string]j{
		"tag": {"type": "text"}, "rating": {"type": "integer"}, "humidity": {"type": "float"}, "dry": {"type": "boolean"},
		"opened": {"type": "datetime"}, "range": {"type": "integer_range"}, "span": {"type": "float_range"},
		"uses": {"type": "choice", "choices": []string{"a", "b"}, "multiple": true},
	}
	for _, entity := range []string{"spool", "filament", "vendor"} {
		for key, f := range fields {
			body := j{"entity": entity, "key": key, "name": key}
			for name, value := range f {
				body[name] = value
			}
			c.Post(t, customFields, body).Want(201)
		}
	}
	extra := j{"tag": "04:A3", "rating": 5, "humidity": 12.5, "dry": true, "opened": "2024-01-02T03:04:05Z",
		"range": []any{1, nil}, "span": []any{0.5, 2}, "uses": []string{"b"}}
	c.Post(t, vendors, j{"name": "Prusa", "extra": extra}).Want(201)
	c.Post(t, filaments, filament(j{"vendor": "Prusa", "extra": extra})).Want(201)
	c.Post(t, spools, spool(j{"extra": extra})).Want(201)
	c.Post(t, spools, spool(j{"color": "Red", "extra": j{"rating": 4}})).Want(201)

	types := map[string]string{"tag": "text", "rating": "integer", "humidity": "float", "dry": "boolean",
		"opened": "datetime", "range": "integer_range", "span": "float_range", "uses": "choice"}
	said := func(a *testkit.Response) {
		t.Helper()
		got := map[string]string{}
		for i := range a.Want(200).List("custom_fields") {
			got[a.Text(fmt.Sprintf("custom_fields.%d.key", i))] = a.Text(fmt.Sprintf("custom_fields.%d.type", i))
		}
		testkit.Equal(t, fmt.Sprint(got), fmt.Sprint(types), "the custom fields of the import")
	}
	for _, mode := range []string{"create", "upsert"} {
		other := api.Operator(t)
		csv := other.With("Content-Type", "text/csv")
		for i, path := range []string{vendors, filaments, spools} {
			file := string(c.Get(t, path+"/export").Want(200).Body)
			said(csv.Post(t, path+"/import?dry_run=true&mode="+mode, file))
			other.Get(t, customFields).Want(200).Shows(map[string]string{"total": fmt.Sprint(i * len(types))})
			said(csv.Post(t, path+"/import?mode="+mode, file))
			csv.Post(t, path+"/import?mode=upsert", other.Get(t, path+"/export").Want(200).Body).Want(200).
				Shows(map[string]string{"custom_fields": "[]", "created": "0", "updated": "0"})
			if path != spools {
				testkit.Equal(t, withoutIDs(t, other, path), withoutIDs(t, c, path), "%s", path)
				continue
			}
			for i := range 2 {
				at := fmt.Sprintf("items.%d.extra", i)
				testkit.Equal(t, other.Get(t, spools).Text(at), c.Get(t, spools).Text(at), "the values")
			}
		}
	}

	// The command prints them.
	other := api.Operator(t)
	stdout, stderr, err := command(t.Context(), other, string(c.Get(t, spools+"/export").Body), "import", "spools")
	testkit.Check(t, err)
	if stderr != "" || !strings.HasPrefix(stdout, fmt.Sprintf("custom fields created: %d\n", len(types))) {
		t.Errorf("the command prints %s%s", stdout, stderr)
	}
	testkit.Equal(t, other.Get(t, spools).Text("items.1.extra"), c.Get(t, spools).Text("items.1.extra"), "the values")
}

// Values that have no common type become texts, a null defines nothing, skipped rows do not count, and there is a
// limit.
func TestImportGuessesCustomFields(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	const header = "material_type,color,diameter_mm,net_weight_grams,extra\n"
	row := func(extra string) string {
		return `PLA,Black,1.75,1000,"` + strings.ReplaceAll(extra, `"`, `""`) + "\"\n"
	}
	postMode(t, c, "mode=create", header+row(`{"mixed": 1, "none": null}`)+row(`{"mixed": "x"}`)+row(`{"mixed": []}`)).
		Want(200).Shows(map[string]string{"custom_fields.0.key": "mixed", "custom_fields.0.type": "text"})
	c.Get(t, customFields).Want(200).Shows(map[string]string{"total": "1"})
	c.Get(t, spools+"?sort_order=asc").Want(200).Shows(map[string]string{"items.0.extra.mixed": "1",
		"items.2.extra.mixed": "[]"})
	postMode(t, c, "mode=update", "number,extra\n1,\"{\"\"level\"\": 2}\"\n,\"{\"\"skipped\"\": 2}\"\n").Want(200).
		Shows(map[string]string{"updated": "1", "custom_fields.0.key": "level", "custom_fields.0.type": "integer"})
	c.Get(t, customFields).Want(200).Shows(map[string]string{"total": "2"})
	a := postMode(t, c, "mode=create", header+row(`{"level": "high"}`)).WantError(422, "VALIDATION_ERROR")
	if text := a.Text("errors.0.message"); !strings.Contains(text, "extra.level must be a number") {
		t.Errorf("the message is %q", text)
	}
	var many []string
	for i := range 99 {
		many = append(many, fmt.Sprintf(`"f%d": true`, i))
	}
	postMode(t, c, "mode=create", header+row("{"+strings.Join(many, ", ")+"}")).Fields("extra")
	postMode(t, c, "mode=create", header+row("{"+strings.Join(many[1:], ", ")+"}")).Want(200)
}

// A custom text that a spreadsheet has rounded is refused with its row, whether its field is known or not. Other texts
// are not codes, and a number may have an exponent.
func TestRoundedCustomTexts(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	c.Post(t, customFields, j{"entity": "spool", "key": "tag", "name": "Tag", "type": "text"}).Want(201)
	c.Post(t, customFields, j{"entity": "spool", "key": "size", "name": "Size", "type": "float"}).Want(201)
	const header = "material_type,color,diameter_mm,net_weight_grams,extra\n"
	row := func(extra string) string {
		return `PLA,Black,1.75,1000,"` + strings.ReplaceAll(extra, `"`, `""`) + "\"\n"
	}
	for _, extra := range []string{`{"tag": "3.10427E+09"}`, `{"new": "3,10427E+09"}`} {
		a := postMode(t, c, "mode=create", header+row(`{"tag": "a"}`)+row(extra)).WantError(422, "VALIDATION_ERROR")
		if text := a.Text("errors.0.message"); !strings.Contains(text, "a spreadsheet rounded: in the spreadsheet") {
			t.Errorf("the message about %s is %q", extra, text)
		}
		if text := a.Text("errors.0.field"); !strings.Contains(text, "3") {
			t.Errorf("the row of %s is %q", extra, text)
		}
	}
	postMode(t, c, "mode=create", header+row(`{"tag": "00125", "size": 3.1E+2}`)+row(`{"tag": "02-Jan"}`)+
		row(`{"tag": "5E10"}`)).Want(200)
}
