package imports_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/tests/testkit"
)

func postMode(t *testing.T, c *testkit.Client, query, file string) *testkit.Response {
	t.Helper()
	return c.With("Content-Type", "text/csv").Post(t, importPath+"?"+query, file)
}

func imported(created, updated, unchanged, skipped int) map[string]string {
	return map[string]string{"created": fmt.Sprint(created), "updated": fmt.Sprint(updated),
		"unchanged": fmt.Sprint(unchanged), "skipped": fmt.Sprint(skipped)}
}

// semicolons returns a CSV file as a spreadsheet of a country with decimal commas saves it: without quoted empty
// texts.
func semicolons(file string) string {
	file = strings.NewReplacer(`""`, "").Replace(file)
	return strings.ReplaceAll(strings.ReplaceAll(file, ",", ";"), ".", ",")
}

// An export that is imported with the mode update changes nothing; edited cells change their spools, as a PATCH does.
func TestImportUpdates(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	c, other := api.Operator(t), api.Operator(t)
	one := c.Post(t, spools, spool(j{"brand": "", "notes": "old", "net_weight_grams": 1000.5,
		"purchase_date": "2024-01-10"})).
		Want(201)
	two := c.Post(t, spools, spool(j{"color": "Red", "archived": true})).Want(201)
	path := spools + "/" + one.ID()
	tag := one.Header.Get("ETag")
	for _, file := range []string{export(t, c, "csv"), semicolons(export(t, c, "csv"))} {
		for _, query := range []string{"mode=update", "mode=upsert", "mode=update&dry_run=true"} {
			postMode(t, c, query, file).Want(200).Shows(imported(0, 0, 2, 0)).
				Shows(map[string]string{"rows.1.row": "3", "rows.1.id": two.ID(), "rows.1.number": "2",
					"rows.1.action": "unchanged"})
		}
	}
	testkit.Equal(t, c.Get(t, path).Header.Get("ETag"), tag, "an import that changes nothing changes the ETag")
	edited := strings.Replace(semicolons(export(t, c, "csv")), ";old;", ";new;", 1)
	edited = strings.Replace(edited, ";1000,5;1000,5;", ";1000,5;900,25;", 1)
	postMode(t, c, "mode=update&dry_run=true", edited).Want(200).Shows(imported(0, 1, 1, 0)).
		Shows(map[string]string{"dry_run": "true", "rows.0.action": "updated"})
	testkit.Equal(t, c.Get(t, path).Header.Get("ETag"), tag, "a dry run changes the ETag")
	postMode(t, c, "mode=update", edited).Want(200).Shows(imported(0, 1, 1, 0))
	c.Get(t, path).Shows(map[string]string{"notes": "new", "brand": "", "remaining_weight_grams": "900.25"})
	c.Get(t, path+"/usage").Shows(map[string]string{"total": "2", "items.0.kind": "edited",
		"items.0.change_grams": "-100.25"})
	postMode(t, c, "mode=update", "number,notes\n1,\n").Want(200).Shows(imported(0, 1, 0, 0))
	c.Get(t, path).Shows(map[string]string{"notes": "null", "remaining_weight_grams": "900.25"})

	const rows = "number,material_type,color,diameter_mm,net_weight_grams,location\n" +
		"2,PLA,Red,1.75,1000,Box\n,PETG,Blue,1.75,750,Box\n"
	postMode(t, c, "mode=update", rows).Want(200).Shows(imported(0, 1, 0, 1)).
		Shows(map[string]string{"rows.1.action": "skipped", "rows.1.id": "null", "rows.1.number": "null"})
	postMode(t, c, "mode=upsert&dry_run=true", rows).Want(200).Shows(imported(1, 0, 1, 0)).
		Shows(map[string]string{"rows.1.id": "null"})
	created := postMode(t, c, "mode=upsert", rows).Want(200).Shows(imported(1, 0, 1, 0))
	c.Get(t, spools+"/"+created.Text("rows.1.id")).
		Shows(map[string]string{"color": "Blue", "number": fmt.Sprint(created.Value("rows.1.number"))})
	postMode(t, c, "dry_run=true", header+"\nPLA,x,1.75,1\n").Want(200).Shows(imported(1, 0, 0, 0))
	c.Get(t, spools+"?archived=any").Shows(map[string]string{"total": "3"})
	other.Get(t, spools).Shows(map[string]string{"total": "0"})
}

// Each import that changes a spool edits it.
func TestImportsEditSpools(t *testing.T) {
	t.Parallel()
	c := operator(t)
	list := func(notes string) *strings.Reader {
		return strings.NewReader(`[{"id": 1, "comment": "` + notes + `", "filament": {"id": 1, "material": "PLA",
			"diameter": 1.75, "weight": 1000}}]`)
	}
	importSpoolman(t, c, list("old"), imports.SourceOptions{})
	first := c.Get(t, spools).Want(200).Text("items.0.id")
	importSpoolman(t, c, list("new"), imports.SourceOptions{})
	c.Get(t, spools+"/"+first).Want(200).Shows(map[string]string{"notes": "new"})
	c.WantEdited(t, first)
	postMode(t, c, "mode=update", "number,notes\n1,newest\n").Want(200).Shows(imported(0, 1, 0, 0))
	c.WantEdited(t, first)
	second := c.Post(t, spools, spool(nil)).Want(201).ID()
	c.Post(t, filaments+"/from-spools", nil).Want(200).Shows(map[string]string{"spools_changed": "1"})
	c.WantEdited(t, second)
}

// An import with a row that names no spool, or whose values are invalid, changes nothing.
func TestImportUpdateErrors(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	ids, theirs := insertSpools(t, c, 3), insertSpools(t, api.Operator(t), 1)
	c.Delete(t, spools+"/"+ids[2]).Want(204)
	before := export(t, c, "csv")
	for file, want := range map[string]string{
		"number,notes\n1,x\n9,x\n":                        "line 3: number is not the number of a spool",
		"number,notes\n1,x\n3,x\n":                        "line 3: number is not",
		"id,notes\n" + ids[0] + ",x\n" + theirs[0] + ",x": "line 3: id is not the id of a spool",
		"id,notes\n" + ids[2] + ",x":                      "line 2: id is not",
		"id,number,notes\n" + ids[0] + ",2,x":             "line 2: number is not",
		"number,notes\n1,x\n1,y\n":                        "line 3: row names the spool of line 2",
		"id,notes\nx,x\n":                                 "line 2: id must be a UUID",
		"number,notes\n1.5,x\n":                           "line 2: number must be",
		"number,color\n1,x\n2,\n":                         "line 3: color must not be",
		"number,remaining_weight_grams\n1,\n":             "line 2: remaining_weight_grams must not be empty",
		"number,remaining_weight_grams\n1,-1\n":           "line 2: remaining_weight_grams must be at least 0",
		"number,color,colour\n1,x,y\n":                    "line 1: unknown column",
		"color\nx\n":                                      "line 1: no column names",
	} {
		a := postMode(t, c, "mode=update", file).WantError(422, "VALIDATION_ERROR")
		if got := a.Text("errors.0.field") + ": " + a.Text("errors.0.message"); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s", file, got, want)
		}
	}
	a := postMode(t, c, "mode=upsert", "number,color\n1,x\n,y\n").Fields("line 3")
	if !strings.Contains(a.Text("errors.0.message"), "material_type is required") {
		t.Errorf("got %s", a.Body)
	}
	postMode(t, c, "mode=replace", "number,color\n1,x\n").Fields("mode")
	postMode(t, c, "dry_run=maybe&x=1", "number,color\n1,x\n").Fields("dry_run", "x")
	postMode(t, tenant.User(t, "viewer"), "mode=update", "number,color\n1,x\n").WantError(403, "FORBIDDEN")
	testkit.Equal(t, export(t, c, "csv"), before, "the imports have changed")
	// Another mode with the same Idempotency-Key is another request.
	keyed := c.With("Idempotency-Key", "key-of-an-import")
	postMode(t, keyed, "mode=update&dry_run=true", "number,notes\n1,x\n").Want(200).Shows(imported(0, 1, 0, 0))
	postMode(t, keyed, "mode=update", "number,notes\n1,x\n").WantError(409, "IDEMPOTENCY_CONFLICT")
	c.Get(t, spools+"/"+ids[0]).Shows(map[string]string{"notes": "null"})
}

// Concurrent imports of the same spools in different orders and bulk updates do not deadlock.
func TestImportUpdateRaces(t *testing.T) {
	t.Parallel()
	c := operator(t)
	ids := insertSpools(t, c, 10)
	testkit.Concurrently(6, func(n int) {
		for i := range 4 {
			file := "number,remaining_weight_grams\n"
			for k := range ids {
				number := k + 1
				if n%2 == 0 {
					number = len(ids) - k
				}
				file += fmt.Sprintf("%d,%d\n", number, 100+10*n+i)
			}
			if n == 5 {
				c.Patch(t, spools, j{"ids": ids, "changes": j{"remaining_weight_grams": i}}).Want(200)
			} else {
				postMode(t, c, "mode=update", file).Want(200)
			}
		}
	})
	wantLedgers(t, c)
}

// One import changes a spool, which keeps its number, and creates others.
func TestUpsertChangesAndCreatesSpools(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	first := "/api/v1/spools/" + c.Post(t, "/api/v1/spools", testkit.JSON{"material_type": "PLA", "color": "Red",
		"diameter_mm": 1.75, "net_weight_grams": 1000}).Want(201).ID()
	c.With("Content-Type", "text/csv").Post(t, "/api/v1/spools/import?mode=upsert",
		"number,material_type,color,diameter_mm,net_weight_grams,archived\n1,PLA,Blue,1.75,1000,true\n"+
			",PLA,Green,1.75,1000,false\n").Want(200).
		Shows(map[string]string{"rows.0.number": "1", "rows.0.action": "updated", "rows.1.action": "created"})
	c.Get(t, first).Want(200).Shows(map[string]string{"number": "1", "color": "Blue", "archived": "true"})
}
