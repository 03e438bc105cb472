package imports_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/server"
	"spoolwright/tests/testkit"
)

// spoolmanCSV returns the CSV export of a list of spools: a column for each path of the objects.
func spoolmanCSV(t *testing.T, list []byte) []byte {
	t.Helper()
	var spools []map[string]any
	testkit.Check(t, json.Unmarshal(list, &spools))
	var rows []map[string]string
	columns := map[string]bool{}
	for _, spool := range spools {
		row := map[string]string{}
		var flatten func(prefix string, object map[string]any)
		flatten = func(prefix string, object map[string]any) {
			for name, v := range object {
				if inner, ok := v.(map[string]any); ok {
					flatten(prefix+name+".", inner)
				} else if columns[prefix+name] = true; v != nil {
					row[prefix+name] = fmt.Sprint(v)
				}
			}
		}
		flatten("", spool)
		rows = append(rows, row)
	}
	names := slices.Sorted(maps.Keys(columns))
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.Write(names)
	for _, row := range rows {
		var cells []string
		for _, name := range names {
			cells = append(cells, row[name])
		}
		w.Write(cells)
	}
	w.Flush()
	return b.Bytes()
}

// A file of Spoolman that is sent as a file of spools is imported with its vendors, filaments, weights and custom
// fields, as the command import spoolman does, whatever the file is named.
func TestSpoolmanFileAsSpools(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	files := map[string][]byte{"JSON": readFixture(t), "CSV": spoolmanCSV(t, readFixture(t))}
	for name, file := range files {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := api.Operator(t).With("Content-Type", "text/csv")
			c.Post(t, spools+"/import/check", file).Want(200).Shows(map[string]string{"program": "Spoolman",
				"created": "5", "invalid": "0", "columns": "[]", "errors": "[]", "header_row": "0", "dry_run": "true"})
			c.Post(t, spools+"/import?dry_run=true", file).Want(200).Shows(map[string]string{"created": "5",
				"rows.0.id": "null", "rows.0.action": "created"})
			for _, list := range []string{vendors, filaments, spools, "/api/v1/custom-fields"} {
				c.Get(t, list).Want(200).Shows(map[string]string{"total": "0"})
			}
			row := map[string]string{"JSON": "1", "CSV": "2"}[name]
			a := c.Post(t, spools+"/import", file).Want(200).Shows(map[string]string{"created": "5", "updated": "0",
				"rows.#": "5", "rows.0.row": row, "rows.0.number": "1", "changes": "[]", "invalid_rows": "[]"})
			c.Get(t, spools+"/"+a.Text("rows.0.id")).Want(200).Shows(map[string]string{"number": "1",
				"brand": "Northline", "remaining_weight_grams": "812.4"})
			c.Get(t, vendors).Want(200).Shows(map[string]string{"total": "2"})
			c.Get(t, filaments).Want(200).Shows(map[string]string{"total": "5"})

			// The same again changes nothing, and what has changed in Spoolman changes here.
			c.Post(t, spools+"/import", file).Want(200).Shows(map[string]string{"created": "0", "unchanged": "5"})
			changed := bytes.Replace(file, []byte("Shelf"), []byte("Drawer"), 1)
			if bytes.Equal(changed, file) {
				t.Fatal("no location in the file")
			}
			c.Post(t, spools+"/import/check", changed).Want(200).Shows(map[string]string{"updated": "1", "unchanged": "4"})
			c.Post(t, spools+"/import", changed).Want(200).Shows(map[string]string{"updated": "1", "unchanged": "4"})
			api.Operator(t).Get(t, spools).Want(200).Shows(map[string]string{"total": "0"})
			api.Tenant(t).User(t, "viewer").With("Content-Type", "text/csv").Post(t, spools+"/import", file).Want(403)
		})
	}
}

// The lists of filaments and vendors are files too, and each of the imports takes each file.
func TestSpoolmanListsOfFilamentsAndVendors(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	for _, test := range []struct{ file, to, vendors, filaments string }{
		{`[{"id": 2, "registered": "2024-02-03T09:00:00Z", "name": "Northline", "extra": {}}]`, spools, "1", "0"},
		{"id,registered,name,comment\n2,2024-02-03T09:00:00Z,Northline,\n", vendors, "1", "0"},
		{`[{"id": 4, "registered": "2024-02-03T09:00:00Z", "density": 1.24, "diameter": 1.75, "name": "Grey",
			"vendor": {"id": 2, "registered": "2024-02-03T09:00:00Z", "name": "Northline"}}]`, filaments, "1", "1"},
		{"id,registered,name,vendor.id,vendor.name,density,diameter\n4,2024-02-03T09:00:00Z,Grey,2,Northline,1.24,1.75\n",
			vendors, "1", "1"},
	} {
		c := api.Operator(t).With("Content-Type", "text/csv")
		c.Post(t, test.to+"/import/check", []byte(test.file)).Want(200).Shows(map[string]string{"program": "Spoolman"})
		c.Post(t, test.to+"/import", []byte(test.file)).Want(200).Shows(map[string]string{"created": "1", "rows.#": "1"})
		c.Get(t, vendors).Want(200).Shows(map[string]string{"total": test.vendors, "items.0.number": "2"})
		c.Get(t, filaments).Want(200).Shows(map[string]string{"total": test.filaments})
	}
	// A list of another program is not one of Spoolman, also if it has some of its names.
	c := api.Operator(t).With("Content-Type", "text/csv")
	const other = "id,name,registered,material,weight\n1,Grey,2024-01-01,PLA,1000\n"
	c.Post(t, spools+"/import/check", []byte(other)).Want(200).Shows(map[string]string{"program": "null"})
}

// spoolsOf returns spools with the ids from 1 to n, as JSON.
func spoolsOf(n int) string {
	var all []string
	for id := range n {
		all = append(all, fmt.Sprintf(`{"id": %d, "filament": {"id": 1}}`, id+1))
	}
	return strings.Join(all, ",")
}

// Of two imports of one file at the same time, one creates its items, and the other one finds them.
func TestConcurrentSpoolmanFiles(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t).With("Content-Type", "text/csv")
	file := readFixture(t)
	h := c.Hold(t, `select pg_advisory_xact_lock(hashtextextended('bulk ' || current_setting('app.tenant_id'), 0))`)
	done := h.StartWaiting(2, func() {
		testkit.Concurrently(2, func(int) { c.Post(t, spools+"/import", file).Want(200) })
	})
	h.Commit()
	<-done
	c.Get(t, spools+"?archived=any").Want(200).Shows(map[string]string{"total": "5"})
	c.Get(t, filaments).Want(200).Shows(map[string]string{"total": "5"})
}

// A vendor that somebody else creates while a file of Spoolman is imported is an error of the request.
func TestVendorCreatedBesideSpoolmanFile(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t).With("Content-Type", "text/csv")
	h := c.Hold(t, `insert into vendors (id, number, name) values (uuid_v7(), 999, 'Northline')`)
	done := h.StartWaiting(1, func() { c.Post(t, spools+"/import", readFixture(t)).Fields("name") })
	h.Commit()
	<-done
	c.Get(t, spools).Want(200).Shows(map[string]string{"total": "0"})
}

// Invalid spools of a file of Spoolman are named, and are left out on request.
func TestInvalidSpoolmanFile(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t).With("Content-Type", "text/csv")
	const file = `[{"id": 7, "filament": {"id": 1, "material": "PLA", "diameter": 1.75, "weight": 1000}},
		{"id": 8, "filament": {"id": 2, "material": "PLA", "diameter": 1.2, "weight": 1000}}]`
	c.Post(t, spools+"/import", []byte(file)).Want(422).Shows(map[string]string{"code": "VALIDATION_ERROR",
		"errors.0.field": "Spoolman's filament 2", "errors.1.field": "Spoolman's spool 8"})
	c.Post(t, spools+"/import/check", []byte(file)).Want(200).Shows(map[string]string{"created": "1", "invalid": "1",
		"errors.0.field": "diameter", "invalid_rows.#": "2"})
	c.Get(t, spools).Want(200).Shows(map[string]string{"total": "0"})
	c.Post(t, spools+"/import?skip_invalid=true", []byte(file)).Want(200).Shows(map[string]string{"created": "1",
		"invalid": "1", "rows.1.action": "skipped", "rows.1.id": "null"})
	for _, file := range []string{`{"items": [{"id": 1}]}`, `[{"id": 1, "name": "A", "diameter": 1.75}]`, `[]x`} {
		if a := c.Post(t, spools+"/import", []byte(file)); a.Status != 422 {
			t.Errorf("%s: %s", file, a.Body)
		}
	}
	a := c.Post(t, spools+"/import", []byte("["+spoolsOf(10_001)+"]"))
	a.Want(422)
	if !strings.Contains(string(a.Body), "must have at most 10000 spools") {
		t.Errorf("%s", a.Body)
	}
}

// FuzzSource imports any file as an export of Spoolman. It must not panic.
func FuzzSource(f *testing.F) {
	f.Add([]byte(`{"vendor": [{"id": 1, "name": "A"}], "filament": [{"id": 2, "vendor": {"id": 1}, "density": 1.24,
		"diameter": 1.75}], "spool": [{"id": 3, "filament": {"id": 2}, "used_weight": 10, "extra": {"tag": "\"x\""}}]}`))
	f.Add([]byte(`[{"id": 1, "filament": {"id": 2, "color_hex": "ff0000", "material": "PLA"}}]`))
	c := testkit.New(f, testkit.Options{}, inventory.Routes, imports.Routes).Operator(f)
	ctx := db.As(context.Background(), db.Actor{Tenant: c.Actor.Tenant})
	i := imports.Importer{DB: c.API.DB, Invalid: func(string, []server.FieldError) {}}
	f.Fuzz(func(_ *testing.T, file []byte) {
		i.Spoolman(ctx, bytes.NewReader(file), imports.SourceOptions{SkipInvalid: true, DryRun: true})
	})
}
