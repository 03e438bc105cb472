package imports_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/server"
	"spoolwright/testkit"
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
	importer, ctx, invalid := newImporter(t, to)
	result, err := importer.CSV(ctx, strings.NewReader(text))
	if err != nil || !reflect.DeepEqual(result, imports.Result{Created: len(ids)}) || len(*invalid) > 0 {
		t.Fatalf("%+v %v %v", result, err, *invalid)
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
	importer, ctx, _ := newImporter(t, c)
	if result, err := importer.CSV(ctx, strings.NewReader(b.String())); err != nil || result.Created != 1203 {
		t.Fatalf("%+v %v", result, err)
	}
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
	importer, ctx, invalid := newImporter(t, c)
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
	result, err := importer.CSV(ctx, strings.NewReader(file))
	want := []string{
		"line 4: color color_hex diameter_mm material_type net_weight_grams purchase_date purchase_price " +
			"remaining_weight_grams",
		"line 6: row", "line 7: row", "line 8: color net_weight_grams", "line 9: purchase_price", "line 10: row",
	}
	if err != imports.InvalidRows(len(want)) || !reflect.DeepEqual(result, imports.Result{Invalid: len(want)}) ||
		!slices.Equal(*invalid, want) {
		t.Errorf("%+v %v\n%s", result, err, strings.Join(*invalid, "\n"))
	}
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "0"})
}

func TestImportRejectsInvalidFiles(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	for file, want := range map[string]string{
		"":                           "empty",
		"\n\n":                       "empty",
		header + ",weight\n":         `unknown column "weight"`,
		header + ",Colour\n":         `unknown column "Colour"`,
		header + ",Color\n":          "the column color appears twice",
		"material_type,color\n":      "diameter_mm is missing",
		"material_type;color\nPLA;x": "line 1: the column diameter_mm is missing",
		"PK\x03\x04\x14\x00":         "save it as CSV in UTF-8",
		"\xd0\xcf\x11\xe0\xa1\xb1":   "save it as CSV in UTF-8",
		"\xff\xfem\x00a\x00":         "UTF-16",
		header + "\nPLA,\"" + strings.Repeat("x\n", 600_000): "line 2: a row is longer",
	} {
		importer, ctx, invalid := newImporter(t, c)
		_, err := importer.CSV(ctx, strings.NewReader(file))
		if err == nil || !strings.Contains(err.Error(), want) || len(*invalid) > 0 {
			t.Errorf("%.60q: %v %v, want %q", file, err, *invalid, want)
		}
	}
	importer, ctx, invalid := newImporter(t, c)
	_, err := importer.CSV(ctx, strings.NewReader(header+"\nPLA,Black,1.75,1000\nPLA,\"Bl"))
	if err != imports.InvalidRows(1) || !slices.Equal(*invalid, []string{"line 3: row"}) {
		t.Errorf("with a missing closing quote: %v %v", err, *invalid)
	}
	if result, err := importer.CSV(ctx, strings.NewReader(header)); err != nil ||
		!reflect.DeepEqual(result, imports.Result{}) {
		t.Errorf("without rows: %+v %v", result, err)
	}
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
		importer, ctx, invalid := newImporter(t, c)
		result, err := importer.CSV(ctx, strings.NewReader(file))
		if err != nil || !reflect.DeepEqual(result, imports.Result{Created: 1}) || len(*invalid) > 0 {
			t.Errorf("%s: %+v %v %v", name, result, err, *invalid)
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
			strings.Repeat("é", 40) + `…"`,
		"PLA,\xff,1.75,1": `must be valid Unicode text; the value is "\xff"`,
	} {
		importer, ctx, _ := newImporter(t, c)
		var got []string
		importer.Invalid = func(_ string, problems []server.FieldError) {
			for _, p := range problems {
				got = append(got, p.Message)
			}
		}
		importer.CSV(ctx, strings.NewReader(header+"\n"+row))
		testkit.EqualSlices(t, got, []string{want}, "%s", row)
	}
}

// The progress covers both times that the file is read, in one count from 0 to 100.
func TestImportProgress(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	importer, ctx, _ := newImporter(t, c)
	file := header + "\n" + strings.Repeat("PLA,Black,1.75,1000\n", 20_000)
	importer.Size = int64(len(file))
	var shown []int
	importer.Progress = func(percent int) { shown = append(shown, percent) }
	if _, err := importer.CSV(ctx, strings.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	if n := len(shown); n != 40 || !slices.IsSorted(shown) || shown[0] > 15 || shown[19] != 50 || shown[n-1] != 100 {
		t.Errorf("the progress is %v", shown)
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
		"color_hex":              {`"#00ff00"`, `"00ff00"`, `"#00ff0"`},
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
	importer, ctx, invalid := newImporter(t, c)
	result, err := importer.CSV(ctx, strings.NewReader(strings.Join(names, ",")+"\n"+strings.Join(cells, ",")+"\n"))
	a := c.Post(t, "/api/v1/spools", "{"+strings.Join(members, ",")+"}")
	if created := err == nil && result.Created == 1; created != (a.Status == 201) || !created && len(*invalid) != 1 {
		t.Errorf("%v: the API returns %d %s; the import %+v %v %v", row, a.Status, a.Body, result, err, *invalid)
	} else if a.Status == 422 && !strings.Contains(string(a.Body), `"field":"`+strings.Fields((*invalid)[0])[2]+`"`) {
		t.Errorf("%v: %s, and %v", row, a.Body, *invalid)
	}
}

// An import does not block requests that create spools, and the total is correct afterwards.
func TestImportDoesNotBlockRequests(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	importer, ctx, _ := newImporter(t, c)
	rows := 2500
	file := header + "\n" + strings.Repeat("PLA,Black,1.75,1000\n", rows)
	created, calls := 0, 0
	importer.Progress = func(int) {
		if calls++; calls%2 != 0 { // two batches are complete, each time that the file is read
			return
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		for range 40 { // more than the counter has shards
			wg.Go(func() {
				a, err := c.Send("POST", "/api/v1/spools", testkit.JSON{
					"material_type": "PETG", "color": "Red", "diameter_mm": 1.75, "net_weight_grams": 1,
				})
				mu.Lock()
				defer mu.Unlock()
				if err == nil && a.Status == 201 {
					created++
				}
			})
		}
		wg.Wait()
	}
	result, err := importer.CSV(ctx, strings.NewReader(file))
	if err != nil || result.Created != rows || created != 80 { // the importer reads the file twice
		t.Fatalf("%+v %v, and requests created %d spools", result, err, created)
	}
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": fmt.Sprint(rows + created)})
	c.Get(t, "/api/v1/spools?material_type=PLA").Want(200).Shows(map[string]string{"total": fmt.Sprint(rows)})
}

// A tenant can run one import at a time. Another tenant can run one at the same time.
func TestOneImportPerTenant(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	c, otherTenant := api.Operator(t), api.Operator(t)
	const file = "material_type,color,diameter_mm,net_weight_grams\nPLA,Red,1.75,1000\n"
	importer, ctx, _ := newImporter(t, c)
	other, otherCtx, _ := newImporter(t, otherTenant)
	err := api.DB.Bulk(ctx, func(context.Context) error {
		if result, err := importer.CSV(ctx, strings.NewReader(file)); !errors.Is(err, db.ErrBulk) ||
			result.Created != 0 {
			t.Errorf("a second import: %+v %v", result, err)
		}
		if result, err := other.CSV(otherCtx, strings.NewReader(file)); err != nil || result.Created != 1 {
			t.Errorf("an import of another tenant: %+v %v", result, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if result, err := importer.CSV(ctx, strings.NewReader(file)); err != nil || result.Created != 1 {
		t.Errorf("an import afterwards: %+v %v", result, err)
	}
}

// An import creates nothing if it is interrupted, or if the file changes between the two times that it is read.
func TestImportIsAtomic(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	file := header + "\n" + strings.Repeat("PLA,Black,1.75,1000\n", 3500)
	importer, ctx, _ := newImporter(t, c)
	ctx, cancel := context.WithCancel(ctx)
	seen := 0
	importer.Progress = func(int) {
		if seen++; seen == 6 { // three batches were validated, and the third was inserted
			cancel()
		}
	}
	result, err := importer.CSV(ctx, strings.NewReader(file))
	if !errors.Is(err, context.Canceled) || result.Created != 0 {
		t.Errorf("interrupted: %+v %v", result, err)
	}
	importer, ctx, _ = newImporter(t, c)
	changed := &changingFile{strings.NewReader(file), strings.NewReader(file + "PLA,White,1.75,1000\n")}
	if result, err := importer.CSV(ctx, changed); err == nil || result.Created != 0 {
		t.Errorf("with a changed file: %+v %v", result, err)
	}
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "0"})
	c.Get(t, "/api/v1/spools?material_type=PLA").Want(200).Shows(map[string]string{"total": "0"})
}

// changingFile has other content when it is read again.
type changingFile struct {
	*strings.Reader
	then *strings.Reader
}

func (c *changingFile) Seek(int64, int) (int64, error) {
	c.Reader = c.then
	return 0, nil
}
