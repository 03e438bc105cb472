package imports_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/transfer"
)

// newImporter returns an importer for the client's tenant that collects the invalid rows, as "where: fields".
func newImporter(t *testing.T, c *testkit.Client) (_ imports.Importer, ctx context.Context, invalid *[]string) {
	t.Helper()
	invalid = new([]string)
	return imports.Importer{DB: c.API.DB, Invalid: func(where string, problems []server.FieldError) {
		var fields []string
		for _, p := range problems {
			fields = append(fields, p.Field)
		}
		slices.Sort(fields)
		*invalid = append(*invalid, where+": "+strings.Join(fields, " "))
	}}, db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}), invalid
}

// command runs a command of the package in the client's tenant, with a file on standard input.
func command(ctx context.Context, c *testkit.Client, file string, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	call := &cli.Call{In: strings.NewReader(file), Out: &out, Err: &errs, DB: c.API.DB}
	_, run, err := cli.Parse(imports.Commands, append(args, "-", "--tenant", "tenant "+c.Actor.Tenant), call)
	if err == nil {
		err = run(ctx, call)
	}
	return out.String(), errs.String(), err
}

// invalidRows returns the invalid rows of a file, as "line: fields".
func invalidRows(t *testing.T, c *testkit.Client, file string) (all []string) {
	t.Helper()
	a := postMode(t, c, "skip_invalid=true&dry_run=true", file).Want(200)
	for i, row := range a.List("invalid_rows") {
		var fields []string
		for _, e := range row.(map[string]any)["errors"].([]any) {
			fields = append(fields, e.(map[string]any)["field"].(string))
		}
		slices.Sort(fields)
		all = append(all, "line "+a.Text(fmt.Sprintf("invalid_rows.%d.row", i))+": "+strings.Join(fields, " "))
	}
	return all
}

// export returns the export of the client's spools.
func export(t *testing.T, c *testkit.Client, format string) string {
	t.Helper()
	var b bytes.Buffer
	ctx := db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant})
	testkit.Check(t, inventory.Export(ctx, c.API.DB, &b, server.ExportFormat(format), inventory.SpoolFilter{}))
	return b.String()
}

// withoutServerFields parses a CSV export and removes the columns that the service sets. It quotes texts, but not
// null.
func withoutServerFields(t *testing.T, text string) (rows [][]string) {
	t.Helper()
	r := transfer.NewReader(strings.NewReader(text))
	var keep []int
	for {
		row, _, err := r.Next()
		if err == io.EOF {
			return rows
		}
		testkit.Check(t, err)
		if rows == nil {
			for i, name := range row {
				if !slices.Contains([]string{"id", "number", "created_at", "updated_at"}, *name) {
					keep = append(keep, i)
				}
			}
		}
		var kept []string
		for _, i := range keep {
			text := "null"
			if row[i] != nil {
				text = strconv.Quote(*row[i])
			}
			kept = append(kept, text)
		}
		rows = append(rows, kept)
	}
}

// An import of an export creates equal spools.
func TestExportAndImport(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	from, to := api.Operator(t), api.Operator(t)
	base := testkit.JSON{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1000}
	var ids []string
	for _, changes := range []testkit.JSON{
		{},
		{"brand": "", "finish": "", "supplier": "", "notes": ""},
		{"brand": "a, b", "color": `say "black"`, "notes": "one\r\ntwo\nthree\rfour\n\n", "finish": " silk ",
			"supplier": `"`},
		{"color": "=1+1", "brand": "Größe №5 \U0001f9f5", "notes": "\ufeffmark", "supplier": "null"},
		{"net_weight_grams": 0.000001, "remaining_weight_grams": 999999.999999, "spool_weight_grams": 0,
			"purchase_price": 12.345678, "purchase_date": "2024-02-29", "color_hex": "#a0B1c2"},
		{"material_type": "Custom", "diameter_mm": 2.85, "remaining_weight_grams": 0},
	} {
		body := maps.Clone(base)
		maps.Copy(body, changes)
		ids = append(ids, from.Post(t, "/api/v1/spools", body).Want(201).ID())
	}
	deleted := from.Post(t, "/api/v1/spools", base).Want(201).ID()
	from.Delete(t, "/api/v1/spools/"+deleted).Want(204)

	text := export(t, from, "csv")
	stdout, stderr, err := command(t.Context(), to, text, "import", "spools")
	if err != nil || stderr != "" ||
		stdout != fmt.Sprintf("spools created: %d; updated: 0; unchanged: 0; skipped rows: 0\n", len(ids)) {
		t.Fatalf("%s%s%v", stdout, stderr, err)
	}
	want, got := withoutServerFields(t, text), withoutServerFields(t, export(t, to, "csv"))
	if !slices.EqualFunc(want, got, slices.Equal) {
		t.Errorf("exported\n%v\nimported\n%v", want, got)
	}

	// The JSON lines equal the responses of the API.
	lines := strings.Split(strings.TrimSuffix(export(t, from, "jsonl"), "\n"), "\n")
	if len(lines) != len(ids) {
		t.Fatalf("%d lines", len(lines))
	}
	for n, id := range ids {
		testkit.Equal(t, string(from.Get(t, "/api/v1/spools/"+id).Want(200).Body), lines[n], "line %d", n)
	}

	// Imported spools are in lists, have a ledger, and belong to the tenant only.
	list := to.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{
		"total": fmt.Sprint(len(ids)), "items.0.material_type": "Custom",
	})
	usage := to.Get(t, "/api/v1/spools/"+list.Text("items.1.id")+"/usage").Want(200)
	usage.Shows(map[string]string{
		"total": "1", "items.0.kind": "created", "items.0.before_grams": "0", "items.0.after_grams": "999999.999999",
		"items.0.user_id": "null",
	})
	from.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": fmt.Sprint(len(ids))})
	to.Post(t, "/api/v1/spools/"+list.Text("items.1.id")+"/deduct", testkit.JSON{"weight_grams": 1}).Want(200)
}

// An export of several pages has all rows of an import of several batches, in the same order.
func TestExportPages(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	var b strings.Builder
	b.WriteString("material_type,color,diameter_mm,net_weight_grams\n")
	for n := range 1203 {
		fmt.Fprintf(&b, "PLA,%04d,1.75,1000\n", n)
	}
	postCSV(t, c, b.String()).Want(200).Shows(map[string]string{"created": "1203"})
	rows := withoutServerFields(t, export(t, c, "csv"))[1:]
	for n, row := range rows {
		if row[3] != fmt.Sprintf(`"%04d"`, n) {
			t.Fatalf("row %d is %v", n, row)
		}
	}
	testkit.Equal(t, len(rows), 1203, "rows")
}

const header = "material_type,color,diameter_mm,net_weight_grams"

func TestImportReportsInvalidRows(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	file := "\ufeffnotes," + header +
		",brand,remaining_weight_grams,color_hex,purchase_price,purchase_date,id,cost_per_gram\r\n" +
		"\"two\r\nlines\",PLA,Black,1.75,1000,,,,,,x,y\r\n" + // 2 and 3
		",PLO,,2,x,,-1,red,1e400,2024-02-30,,\n" + // 4
		"\n" +
		",PLA,Black,1.75,1000\n" + // 6
		"\"a\" b,PLA,Black,1.75,1000,,,,,,,\n" + // 7
		",PLA,\"\",1.75,0,,,,,,,\n" + // 8
		",PLA,Black,1.75,0.000001,,,,1000000,,,\n" + // 9
		"\"three\n\n\",PLA,Black,1.75,1000,,,,,,,,x\n" + // 10 to 12
		",PLA,Black, 1.75 ,1000,,,,,,," // 13
	want := []string{
		"line 4: color color_hex diameter_mm material_type net_weight_grams purchase_date purchase_price " +
			"remaining_weight_grams",
		"line 6: row", "line 7: row", "line 8: color net_weight_grams", "line 9: purchase_price", "line 10: row",
	}
	testkit.EqualSlices(t, invalidRows(t, c, file), want, "the invalid rows")
	stdout, stderr, err := command(t.Context(), c, file, "import", "spools", "--mode", "create")
	if fmt.Sprint(err) != "nothing was imported: 6 rows are invalid" || stdout != "" || strings.Count(stderr, "\n") != 6 ||
		!strings.Contains(stderr, "line 8: color must not be blank; net_weight_grams must be greater than 0") {
		t.Errorf("the command: %s%s%v", stdout, stderr, err)
	}
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "0"})
}

func TestImportRejectsInvalidFiles(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	for file, want := range map[string]string{
		"":                           "empty",
		"\n\n":                       "empty",
		header + ",Colour\n":         `unknown column "Colour"`,
		header + ",Color\n":          `unknown column "Color"`,
		"material_type,color\n":      "diameter_mm is missing",
		"material_type;color\nPLA;x": "line 1: the column diameter_mm is missing",
		"PK\x03\x04\x14\x00":         "save it as .xlsx or as CSV",
		"\xd0\xcf\x11\xe0\xa1\xb1":   "save it as .xlsx without a password",
		"\xff\xfem\x00a\x00":         `unknown column "ma"`,
	} {
		a := postCSV(t, c, file)
		if a.Status != 422 {
			t.Errorf("%q: %s", file, a.Body)
			continue
		}
		if got := a.Text("errors.0.field") + ": " + a.Text("errors.0.message"); !strings.Contains(got, want) {
			t.Errorf("%.60q: %s, want %q", file, got, want)
		}
	}
	testkit.EqualSlices(t, invalidRows(t, c, header+"\nPLA,Black,1.75,1000\nPLA,\"Bl"), []string{"line 3: row"},
		"with a missing closing quote")
	postCSV(t, c, header).Want(200).Shows(map[string]string{"created": "0"})
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "0"})
}

// An import accepts what spreadsheet programs write.
func TestImportFromSpreadsheets(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	for name, file := range map[string]string{
		"semicolons": "\ufeffMaterial_Type;COLOR;Diameter mm;net-weight-grams;purchase_price\r\n" +
			"petg;Black, matt;1,75;1000;29,99\r\n",
		"tabs": strings.ReplaceAll(header, ",", "\t") + "\tpurchase_price\n" +
			"PETG\t\"Black, matt\"\t1.75\t1000\t29,99\n",
		"quoted":      header + ",purchase_price\nPetg,\"Black, matt\",\"1,75\",\"1.000,00\",\"29,990000\"\n",
		"empty cells": header + ",purchase_price,,\nPETG,\"Black, matt\",1.75,1000,29.99,,\n,,,,,,\n\n,,,,\n\"\",,,,,\n",
		"named": "sep=;\r\n" + strings.ReplaceAll(header, ",", ";") + ";purchase_price\r\n" +
			"PETG;Black, matt;1.75;1000;29.99",
		"blank lines": "\r\n\r\n" + header + ",purchase_price\r\n\r\nPETG,\"Black, matt\",1.75,1000,29.99\r\n\r\n",
		"pipes": "sep=|\n" + strings.ReplaceAll(header, ",", "|") + "|purchase_price\n" +
			"PETG|Black, matt|1.75|1000|29.99",
		"quoted names": `"material_type";"color";"diameter_mm";"net_weight_grams";"purchase_price"` +
			"\nPETG;\"Black, matt\";1,75;1000;29,99",
	} {
		if a := postCSV(t, c, file); a.Status != 200 || a.Text("created") != "1" {
			t.Errorf("%s: %s", name, a.Body)
			continue
		}
		c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{
			"items.0.material_type": "PETG", "items.0.color": "Black, matt", "items.0.diameter_mm": "1.75",
			"items.0.net_weight_grams": "1000", "items.0.purchase_price": "29.99",
		})
	}
}

// The messages about invalid rows contain the values.
func TestImportShowsInvalidValues(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	for row, want := range map[string]string{
		"PLO,x,1.75,1000":       `must be one of PLA, PETG, ABS, TPU, ASA, Nylon, PC, HIPS, PVA, Custom; the value is "PLO"`,
		`PLA,x,1.75,"1,25,5"`:   `must be a number between 0 and 1000000; the value is "1,25,5"`,
		`PLA,x,1.75,"1,00,000"`: `must be a number between 0 and 1000000; the value is "1,00,000"`,
		`PLA,x,1.75,1000 t`:     `must be a number between 0 and 1000000; the value is "1000 t"`,
		"PLA,x,1.000,1.000":     `must be one of 1.75, 2.85; the value is "1.000"`,
		"PLA,x,1.75,0":          `must be greater than 0; the value is "0"`,
		"PLA,x,1.75,":           "is required",
		"PLA," + strings.Repeat("é", 201) + ",1.75,1": `must have at most 200 characters; the value is "` +
			strings.Repeat("é", 60) + `…"`,
	} {
		a := postCSV(t, c, header+"\n"+row).WantError(422, "VALIDATION_ERROR")
		_, got, _ := strings.Cut(a.Text("errors.0.message"), " ")
		testkit.Equal(t, got, want, "%s", row)
	}
}

// An import and the API accept and reject the same values.
func TestImportAgreesWithAPI(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	valid := map[string]string{
		"material_type": `"PLA"`, "color": `"Black"`, "diameter_mm": "1.75", "net_weight_grams": "1000",
		"purchase_price": "20",
	}
	for field, values := range map[string][]string{
		"material_type":          {`"PETG"`, `"X"`},
		"color":                  {`"x"`, `"   "`, quotedOf("é", 200), quotedOf("é", 201)},
		"brand":                  {`""`, quotedOf("x", 201)},
		"color_hex":              {`"#00ff00"`, `"#00ff0"`},
		"diameter_mm":            {"1.750", "2.85", "2.850001", "1.7", "0"},
		"net_weight_grams":       {"0", "0.0000004", "0.0000005", "1000000", "1000000.1", "-1", "1e3", "1E400", "01"},
		"remaining_weight_grams": {"0", "-0", "-0.1", "1000000"},
		"purchase_price":         {"0", "1000000", "1000000.000001"},
		"purchase_date":          {`"2024-02-29"`, `"2023-02-29"`, `"24-01-01"`},
		"notes":                  {quotedOf("x", 10_000), quotedOf("x", 10_001)},
	} {
		for _, value := range values {
			row := maps.Clone(valid)
			row[field] = value
			agree(t, c, row)
		}
	}
	// Prices around the maximum of cost_per_gram.
	for _, price := range []string{"999.999999", "999.9999990000005", "1000", "1000.000001"} {
		row := maps.Clone(valid)
		row["net_weight_grams"], row["purchase_price"] = "0.000001", price
		agree(t, c, row)
	}
}

// quotedOf is a text of n times s, in quotes.
func quotedOf(s string, n int) string { return `"` + strings.Repeat(s, n) + `"` }

// agree sends a row, whose values are JSON, to the importer and to the API, and compares the results.
func agree(t *testing.T, c *testkit.Client, row map[string]string) {
	t.Helper()
	names := slices.Sorted(maps.Keys(row))
	var members, cells []string
	for _, name := range names {
		members = append(members, `"`+name+`":`+row[name])
		cells = append(cells, row[name])
	}
	file := strings.Join(names, ",") + "\n" + strings.Join(cells, ",") + "\n"
	a, imported := c.Post(t, "/api/v1/spools", "{"+strings.Join(members, ",")+"}"), postCSV(t, c, file)
	switch invalid := invalidRows(t, c, file); {
	case (imported.Status == 200) != (a.Status == 201) || (len(invalid) == 0) != (a.Status == 201):
		t.Errorf("%v: the API returns %d %s; the import %d %s", row, a.Status, a.Body, imported.Status, imported.Body)
	case a.Status == 422 && !strings.Contains(string(a.Body), `"field":"`+strings.Fields(invalid[0])[2]+`"`):
		t.Errorf("%v: %s, and %v", row, a.Body, invalid)
	}
}

// An import does not block requests that create spools while its rows are written and not committed, and the total is
// correct afterwards.
func TestImportDoesNotBlockRequests(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	const rows = 2500
	file := strings.Replace(header, "color", "tint", 1) + "\n" + strings.Repeat("PLA,Black,1.75,1000\n", rows)
	query := url.Values{"mapping": {`{"tint": "color"}`}}.Encode()
	postMode(t, c, query, strings.Join(strings.SplitAfter(file, "\n")[:2], "")).Want(200)
	// What the columns are is remembered after the rows have been written.
	h := c.Hold(t, `update import_columns set mapping = '{}' where resources = 'spools'`)
	done := h.StartWaiting(1, func() { postMode(t, c, query, file).Want(200) })
	const creates = 40
	testkit.Concurrently(creates, func(int) {
		c.Post(t, "/api/v1/spools", spool(j{"material_type": "PETG"})).Want(201)
	})
	h.Commit()
	<-done
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": fmt.Sprint(rows + 1 + creates)})
	c.Get(t, "/api/v1/spools?material_type=PLA").Want(200).Shows(map[string]string{"total": fmt.Sprint(rows + 1)})
}

// A tenant can run one import at a time. Another tenant can run one at the same time.
func TestOneImportPerTenant(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	c, other := api.Operator(t), api.Operator(t)
	const file = header + "\nPLA,Red,1.75,1000\n"
	err := api.DB.Bulk(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}), func(context.Context) error {
		if stdout, _, err := command(t.Context(), c, file, "import", "spools"); !errors.Is(err, db.ErrBulk) || stdout != "" {
			t.Errorf("a second import: %s%v", stdout, err)
		}
		if _, _, err := command(t.Context(), other, file, "import", "spools"); err != nil {
			t.Errorf("an import of another tenant: %v", err)
		}
		return nil
	})
	testkit.Check(t, err)
	for _, client := range []*testkit.Client{c, other} {
		_, _, err := command(t.Context(), client, file, "import", "spools")
		testkit.Check(t, err)
	}
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "1"})
	other.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "2"})
}

// An import that is interrupted after it has written rows creates nothing.
func TestImportIsAtomic(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	file := strings.Replace(header, "color", "tint", 1) + "\n" + strings.Repeat("PLA,Black,1.75,1000\n", 1500)
	ctx, cancel := context.WithCancel(t.Context())
	args := []string{"import", "spools", "--map", "tint=color"}
	_, _, err := command(ctx, c, file[:strings.Index(file, "1000\n")+5], args...)
	testkit.Check(t, err)
	h := c.Hold(t, `update import_columns set mapping = '{}' where resources = 'spools'`)
	done := h.StartWaiting(1, func() {
		if _, _, err := command(ctx, c, file, args...); err == nil {
			t.Error("an interrupted import does not fail")
		}
	})
	cancel()
	<-done
	h.Commit()
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "1"})
	c.Get(t, "/api/v1/spools?material_type=PLA").Want(200).Shows(map[string]string{"total": "1"})
}
