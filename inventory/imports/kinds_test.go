package imports_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/tests/testkit"
)

// An export of vendors and filaments that is imported changes nothing in its tenant, and gives another one the same
// rows; edited cells change their resources, and the spools that follow them.
func TestImportKinds(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	tenant := api.Tenant(t)
	c, other := tenant.User(t, "operator"), api.Operator(t)
	c.Post(t, vendors, j{"name": "Poly, maker", "notes": "a\nb", "empty_spool_weight_grams": 140.25,
		"external_id": "x"}).Want(201)
	c.Post(t, vendors, j{"name": "Prusa", "notes": ""}).Want(201)
	made := c.Post(t, filaments, filament(j{"vendor": "Prusa", "name": "Jet", "material_name": "PLA+",
		"color_hex": "#1A1A1A", "color_hexes": []string{"#1A1A1A", "#C0C0C0"}, "color_arrangement": "coaxial",
		"density_g_cm3": 1.24, "net_weight_grams": 1000, "spool_weight_grams": 140, "price": 24.99,
		"extruder_temperature_c": 215, "bed_temperature_c": 60, "article_number": "A1", "external_id": "x",
		"notes": "n"})).Want(201)
	c.Post(t, filaments, filament(j{"color": "Red", "notes": ""})).Want(201)
	spool := spools + "/" + c.Post(t, filaments+"/"+made.ID()+"/spools", j{"quantity": 1}).Want(201).Text("items.0.id")

	csv, csvOther := c.With("Content-Type", "text/csv"), other.With("Content-Type", "text/csv")
	for _, path := range []string{vendors, filaments} {
		file := string(c.Get(t, path+"/export").Want(200).Body)
		tag := c.Get(t, path).Header.Get("ETag")
		for _, text := range []string{file, strings.ReplaceAll(file, `""`, "")} { // as a spreadsheet saves it
			for _, mode := range []string{"update", "upsert", "update&dry_run=true"} {
				csv.Post(t, path+"/import?mode="+mode, text).Want(200).Shows(imported(0, 0, 2, 0)).
					Shows(map[string]string{"rows.1.number": "2", "rows.1.action": "unchanged"})
			}
		}
		testkit.Equal(t, c.Get(t, path).Header.Get("ETag"), tag,
			"%s: an import that changes nothing changes the list", path)
		csvOther.Post(t, path+"/import?dry_run=true", file).Want(200).Shows(imported(2, 0, 0, 0)).
			Shows(map[string]string{"rows.0.id": "null"})
		csvOther.Post(t, path+"/import", file).Want(200).Shows(imported(2, 0, 0, 0)).
			Shows(map[string]string{"rows.0.number": "1", "rows.1.number": "2"})
		if got, want := withoutIDs(t, other, path), withoutIDs(t, c, path); got != want {
			t.Errorf("%s: the other tenant has\n%s\nwant\n%s", path, got, want)
		}
	}
	other.Get(t, vendors).Want(200).Shows(map[string]string{"total": "2"})

	// Changes reach the spools.
	csv.Post(t, filaments+"/import?mode=update", "number,color,price,vendor_name\n1,Coal,9,New\n,x,1,\n").Want(200).
		Shows(imported(0, 1, 0, 1))
	c.Get(t, spool).Want(200).Shows(map[string]string{"color": "Coal", "brand": "New", "purchase_price": "24.99"})
	c.Get(t, filaments+"/"+made.ID()).Want(200).
		Shows(map[string]string{"price": "9", "vendor_name": "New", "name": "Jet", "color_hexes.1": "#C0C0C0"})
	csv.Post(t, vendors+"/import?mode=update&dry_run=true", "number,name\n3,Newer\n").Want(200)
	csv.Post(t, vendors+"/import?mode=update", "number,name\n3,Newer\n").Want(200).Shows(imported(0, 1, 0, 0))
	c.Get(t, spool).Want(200).Shows(map[string]string{"brand": "Newer"})
	csv.Post(t, filaments+"/import?mode=update", "number,vendor_id,color_hexes\n1,,\n").Want(200)
	c.Get(t, filaments+"/"+made.ID()).Want(200).Shows(map[string]string{"vendor_name": "null", "color_hexes": "[]"})
	c.Get(t, spool).Want(200).Shows(map[string]string{"brand": "null"})
	csv.Post(t, vendors+"/import?mode=upsert", "name,notes\nPRUSA,x\nThird,y\n").Want(200).
		Shows(imported(1, 1, 0, 0)).Shows(map[string]string{"rows.0.number": "2", "rows.1.number": "4"})
	c.Get(t, vendors+"?number=2").Want(200).Shows(map[string]string{"items.0.name": "PRUSA", "items.0.notes": "x"})
	csv.Post(t, filaments+"/import?mode=upsert", "number,material_type,color,diameter_mm,vendor_name\n"+
		"1,PETG,Coal,1.75,\n,PLA,Blue,1.75,prusa\n").Want(200).Shows(imported(1, 1, 0, 0))
	c.Get(t, filaments+"?color=blue").Want(200).Shows(map[string]string{"items.0.vendor_name": "PRUSA"})

	// Invalid rows change nothing.
	theirs := other.Get(t, vendors).Want(200).Text("items.0.id")
	for query, files := range map[string]map[string]string{
		vendors + "/import?mode=upsert": {
			"name\nA\na\n":                    "line 3: name is that of line 2",
			"number,name\n1,Third\n":          "line 2: name is that of another vendor",
			"number,name\n1,\n":               "line 2: name must not be empty",
			"number,name\n1,B\n1,C\n":         "line 3: row names the vendor of line 2",
			"name,empty_spool_weight_grams\n": "",
		},
		vendors + "/import?mode=update": {"name\nNobody\n": "line 2: name is not the name of a vendor",
			"number,name\n9,A\n":          "line 2: number is not the number of a vendor",
			"id,name\n" + theirs + ",x\n": "line 2: id is not the id of a vendor"},
		vendors + "/import": {"name\nTHIRD\n": "line 2: name is that of another vendor",
			"notes\nx\n": "line 1: the column name"},
		filaments + "/import?mode=upsert": {
			"number,color\n1,x\n,y\n":              "line 3: material_type is required",
			"number,vendor_id\n1," + theirs + "\n": "line 2: vendor_id is not the id of a vendor",
			"number,color_hexes\n1,red\n":          "line 2: color_hexes must have entries",
			"number,color,price\n1,x,-1\n":         "line 2: price must be",
			"number,color,x\n":                     "line 1: unknown column",
		},
	} {
		for file, want := range files {
			if want == "" {
				csv.Post(t, query, file).Want(200).Shows(imported(0, 0, 0, 0))
				continue
			}
			a := csv.Post(t, query, file).WantError(422, "VALIDATION_ERROR")
			if got := a.Text("errors.0.field") + ": " + a.Text("errors.0.message"); !strings.HasPrefix(got, want) {
				t.Errorf("%s %q: %s, want %s", query, file, got, want)
			}
		}
	}
	c.Get(t, vendors).Want(200).Shows(map[string]string{"total": "4"})
	rows := "name\n"
	for i := range 1001 {
		rows += fmt.Sprintf("V%d\n", i)
	}
	csv.Post(t, vendors+"/import", rows).Fields("body")
	tenant.User(t, "viewer").With("Content-Type", "text/csv").Post(t, vendors+"/import", "name\nx\n").
		WantError(403, "FORBIDDEN")
}

// No row names a vendor or a filament that was removed, and their names are free.
func TestImportBesideRemoved(t *testing.T) {
	t.Parallel()
	c := operator(t)
	csv := c.With("Content-Type", "text/csv")
	vendor := c.Post(t, vendors, j{"name": "Gone"}).Want(201).ID()
	red := c.Post(t, filaments, filament(j{"vendor_id": vendor, "color": "Red"})).Want(201).ID()
	c.Post(t, spools, spool(j{"filament_id": red, "color": "Red", "brand": "Gone"})).Want(201)
	for _, path := range []string{filaments + "/" + red, vendors + "/" + vendor} { // in use, so that they are hidden
		c.Delete(t, path).Want(204)
	}
	for _, test := range []struct{ path, file, want string }{
		{vendors + "/import?mode=update", "number,name\n1,Other\n", "number is not the number of a vendor"},
		{vendors + "/import?mode=update", "id,name\n" + vendor + ",Other\n", "id is not the id of a vendor"},
		{vendors + "/import?mode=update", "name,notes\nGone,x\n", "name is not the name of a vendor"},
		{filaments + "/import?mode=update", "number,color\n1,Blue\n", "number is not the number of a filament"},
		{filaments + "/import", "vendor_id,material_type,color,diameter_mm\n" + vendor + ",PLA,Blue,1.75\n",
			"vendor_id is not the id of a vendor"},
	} {
		csv.Post(t, test.path, test.file).Fields("line 2").Shows(map[string]string{"errors.0.message": test.want})
	}
	csv.Post(t, vendors+"/import?dry_run=true", "name\nGone\n").Want(200).Shows(imported(1, 0, 0, 0))
	csv.Post(t, filaments+"/import", "vendor_name,material_type,color,diameter_mm\nGone,PLA,Green,1.75\n").Want(200)
	c.Get(t, vendors).Want(200).Shows(map[string]string{"total": "1", "items.0.name": "Gone", "items.0.number": "2"})
	c.Post(t, spools, spool(j{"color": "Red", "brand": "Gone"})).Want(201)
	c.Post(t, filaments+"/from-spools", nil).Want(200).Shows(map[string]string{"filaments_created": "1",
		"vendors_created": "0", "spools_changed": "1", "items.0.number": "3"})
}

// A filament that an import creates has the name that its vendor gets meanwhile.
func TestImportOfRenamedVendor(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	list := func(colors ...string) *strings.Reader {
		var all []string
		for i, color := range colors {
			all = append(all, fmt.Sprintf(`{"id": %[1]d, "filament": {"id": %[1]d, "name": %[2]q, "material": "PLA",
				"diameter": 1.75, "weight": 1000, "vendor": {"id": 1, "name": "Prusa"}}}`, i+1, color))
		}
		return strings.NewReader("[" + strings.Join(all, ",") + "]")
	}
	for name, send := range map[string]func(c *testkit.Client, vendor string){
		"id": func(c *testkit.Client, vendor string) {
			c.With("Content-Type", "text/csv").Post(t, filaments+"/import",
				"vendor_id,material_type,color,diameter_mm\n"+vendor+",PLA,Blue,1.75\n")
		},
		"name": func(c *testkit.Client, _ string) {
			c.With("Content-Type", "text/csv").Post(t, filaments+"/import",
				"vendor_name,material_type,color,diameter_mm\nprusa,PLA,Blue,1.75\n")
		},
		"spools":   func(c *testkit.Client, _ string) { c.Post(t, filaments+"/from-spools", nil) },
		"Spoolman": func(c *testkit.Client, _ string) { importSpoolman(t, c, list("Red", "Blue"), imports.SourceOptions{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := api.Operator(t)
			importSpoolman(t, c, list("Red"), imports.SourceOptions{})
			if name == "spools" {
				c.Post(t, spools, spool(j{"color": "Blue", "brand": "prusa"})).Want(201)
			}
			vendor := c.Get(t, vendors).Want(200).Text("items.0.id")
			h := c.Hold(t, `update vendors set name = 'PRUSA' where id = '`+vendor+`'`)
			done := h.StartWaiting(1, func() { send(c, vendor) })
			h.Commit()
			<-done
			c.Get(t, filaments+"?color=blue").Want(200).Shows(map[string]string{"total": "1",
				"items.0.vendor_id": vendor, "items.0.vendor_name": "PRUSA"})
		})
	}
}

// withoutIDs returns the export without ids and times.
func withoutIDs(t *testing.T, c *testkit.Client, path string) string {
	t.Helper()
	text := ""
	for _, item := range c.Get(t, path+"?sort_order=asc").Want(200).List("items") {
		row := item.(map[string]any)
		for _, name := range []string{"id", "vendor_id", "created_at", "updated_at", "spool_count",
			"remaining_grams"} {
			delete(row, name)
		}
		text += fmt.Sprintln(row)
	}
	return text
}
