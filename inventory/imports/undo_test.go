package imports_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"spoolwright/db"
	"spoolwright/inventory/imports"
	"spoolwright/tests/testkit"
)

const past = "/api/v1/imports"

// importList imports a list, and returns the path of its undo and the ids of its rows.
func importList(t *testing.T, c *testkit.Client, what, list string) (undo string, ids []string) {
	t.Helper()
	a := c.With("Content-Type", "text/csv").Post(t, what+"/import?mode=upsert", list).Want(200)
	for i := range a.List("rows") {
		ids = append(ids, a.Text(fmt.Sprintf("rows.%d.id", i)))
	}
	return past + "/" + a.Text("import_id") + "/undo", ids
}

// wantUndone undoes an import, and checks the counts and what is left, as "number: reason".
func wantUndone(t *testing.T, c *testkit.Client, undo string, removed, restored int, left ...string) {
	t.Helper()
	a := c.Post(t, undo, nil).Want(200)
	a.Shows(map[string]string{"removed": fmt.Sprint(removed), "restored": fmt.Sprint(restored)})
	var got []string
	for i := range a.List("left") {
		got = append(got, a.Text(fmt.Sprintf("left.%d.number", i))+": "+a.Text(fmt.Sprintf("left.%d.reason", i)))
	}
	testkit.EqualSlices(t, got, left, "left")
	c.Post(t, undo, nil).WantError(409, "IMPORT_UNDONE")
}

// Undo removes the spools that an import created, and leaves those that were used or changed since. Only an operator of
// the farm can undo its import, and only once.
func TestUndoCreatedSpools(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	tenant := api.Tenant(t)
	c, viewer, other := tenant.User(t, "operator"), tenant.User(t, "viewer"), api.Operator(t)
	const list = header + "\nPLA,A,1.75,1000\nPLA,B,1.75,1000\nPLA,C,1.75,1000\nPLA,D,1.75,1000\nPLA,E,1.75,1000\n"
	undo, ids := importList(t, c, spools, list)
	c.Post(t, spools, spool(j{"color": "Own"})).Want(201)
	c.Post(t, spools+"/"+ids[1]+"/deduct", j{"weight_grams": 10}).Want(200)
	c.Post(t, "/api/v1/production-runs", j{"materials": []j{{"spool_id": ids[2], "estimated_weight_grams": 5}}}).Want(201)
	c.Patch(t, spools+"/"+ids[3], j{"location": "Shelf"}).Want(200)
	c.Delete(t, spools+"/"+ids[4]).Want(204)
	c.Get(t, past).Want(200).Shows(map[string]string{"total": "1", "items.0.resources": "spools", "items.0.created": "5",
		"items.0.updated": "0", "items.0.created_by": c.Actor.User, "items.0.undone_at": "null"})

	viewer.Post(t, undo, nil).WantError(403, "FORBIDDEN")
	other.Post(t, undo, nil).WantError(404, "NOT_FOUND")
	other.Get(t, past).Want(200).Shows(map[string]string{"total": "0"})
	wantUndone(t, c, undo, 1, 0, "2: it was used since", "3: it was used since", "4: it was changed since")

	c.Get(t, spools).Shows(map[string]string{"total": "4"})
	c.Get(t, spools+"/"+ids[0]).WantError(404, "NOT_FOUND")
	c.Get(t, spools+"/"+ids[0]+"/usage").Want(200).Shows(map[string]string{"total": "1", "items.0.kind": "created"})
	c.Get(t, past).Shows(map[string]string{"items.0.undo_ends_at": "null"})
	if c.Get(t, past).Text("items.0.undone_at") == "null" {
		t.Error("the list does not say that the import was undone")
	}
	c.Post(t, spools+"/"+ids[0]+"/restore", nil).Want(200)
	// What was removed does not repeat any more.
	c.With("Content-Type", "text/csv").Post(t, spools+"/import/check", list).Shows(map[string]string{"repeated_rows": "3"})
	wantLedgers(t, c)
}

// Undo restores the fields that an import changed, and that nobody changed since; also the grams, with an entry in the
// ledger, and the filament.
func TestUndoChangedSpools(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, testkit.Features...).Operator(t)
	f := c.Post(t, filaments, filament(j{"color": "Red", "vendor": "V"})).Want(201).ID()
	g := c.Post(t, filaments, filament(j{"color": "Blue"})).Want(201).ID()
	var ids []string
	for range 5 {
		ids = append(ids, c.Post(t, spools, spool(j{"color": "Old", "notes": "old", "extra": j{}})).Want(201).ID())
	}
	c.Patch(t, spools+"/"+ids[4], j{"filament_id": g}).Want(200)
	undo, _ := importList(t, c, spools, "number,remaining_weight_grams,notes,purchase_price,filament_id\n"+
		"1,900,new,20,\n2,900,new,20,\n3,900,new,20,"+f+"\n4,1000,new,20,"+f+"\n5,1000,old,,"+f+"\n")
	c.Patch(t, spools+"/"+ids[0], j{"notes": "mine"}).Want(200)
	c.Post(t, spools+"/"+ids[1]+"/deduct", j{"weight_grams": 10}).Want(200)
	c.Patch(t, filaments+"/"+f, j{"color": "Pink"}).Want(200) // the spools follow
	c.Patch(t, spools+"/"+ids[3], j{"filament_id": nil, "color": "Red"}).Want(200)
	wantUndone(t, c, undo, 0, 4, "1: it was changed since: notes", "2: it was changed since: remaining_weight_grams",
		"3: it was changed since: brand, color, filament_id", "4: it was changed since: brand, color, filament_id",
		"5: it was changed since: brand, color, filament_id")
	for i, want := range []string{"mine 1000", "old 890", "old 1000", "old 1000", "old 1000"} {
		a := c.Get(t, spools+"/"+ids[i]).Want(200)
		testkit.Equal(t, a.Text("notes")+" "+a.Text("remaining_weight_grams"), want, "notes and grams of spool %d", i+1)
	}
	c.Get(t, spools+"/"+ids[0]+"/usage").Shows(map[string]string{"total": "3", "items.0.kind": "edited",
		"items.0.change_grams": "100", "items.1.change_grams": "-100"})
	c.Get(t, spools+"/"+ids[2]).Shows(map[string]string{"filament_id": f, "color": "Pink", "purchase_price": "null"})

	// A spool follows its former filament again, as this is now; nothing else of the spool changes.
	undo, _ = importList(t, c, spools, "number,filament_id\n1,"+f+"\n5,"+g+"\n")
	again, _ := importList(t, c, spools, "number,filament_id,archived\n5,"+f+",true\n")
	c.Patch(t, filaments+"/"+g, j{"density_g_cm3": 1.3}).Want(200)
	wantUndone(t, c, again, 0, 1)
	c.Get(t, spools+"/"+ids[4]).Want(200).Shows(map[string]string{"filament_id": g, "color": "Blue", "brand": "null",
		"density_g_cm3": "1.3", "archived": "false"})
	c.Get(t, spools).Shows(map[string]string{"total": "5"})
	wantUndone(t, c, undo, 0, 2)
	c.Get(t, spools+"/"+ids[4]).Shows(map[string]string{"filament_id": f, "color": "Pink", "brand": "V"})
	c.Get(t, spools+"/"+ids[0]).Shows(map[string]string{"filament_id": "null", "color": "Old", "notes": "mine"})
	wantLedgers(t, c)

	// A filament that was removed since is not restored.
	undo, _ = importList(t, c, spools, "number,filament_id,notes\n5,"+g+",x\n")
	c.Delete(t, filaments+"/"+f).Want(204)
	wantUndone(t, c, undo, 0, 0, "5: its fields cannot be restored: filament_id Not a filament: filament_id")
	undo, _ = importList(t, c, spools, "number,notes\n1,x\n2,x\n")
	c.Delete(t, spools+"/"+ids[0]).Want(204)
	wantUndone(t, c, undo, 0, 1, "1: it was removed since")

	// A custom field that was deleted since stays deleted.
	const fields = "/api/v1/custom-fields"
	tag := c.Post(t, fields, j{"entity": "spool", "key": "tag", "name": "Tag", "type": "text"}).Want(201).ID()
	c.Patch(t, spools+"/"+ids[1], j{"extra": j{"tag": "old"}}).Want(200)
	undo, _ = importList(t, c, spools, "number,extra\n2,\"{\"\"tag\"\":\"\"new\"\"}\"\n")
	c.Delete(t, fields+"/"+tag).Want(204)
	c.Post(t, undo, nil).Want(200)
	c.Get(t, fields).Want(200).Shows(map[string]string{"total": "0"})
}

// Undo removes filaments and vendors that nothing names, restores others and what follows from them.
func TestUndoFilamentsAndVendors(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, testkit.Features...).Operator(t)
	const list = "vendor_name,material_type,color,diameter_mm\n"
	undo, ids := importList(t, c, filaments, list+"V,PLA,A,1.75\nW,PLA,B,1.75\nX,PLA,C,1.75\nX,PLA,D,1.75\n")
	c.Post(t, filaments+"/"+ids[1]+"/spools", j{"quantity": 1, "net_weight_grams": 1000}).Want(201)
	c.Post(t, "/api/v1/products", j{"name": "P", "materials": []j{{"filament_id": ids[2], "weight_grams": 1}}}).Want(201)
	change, _ := importList(t, c, filaments, "number,vendor_name,color,notes\n2,Y,Red,n\n")
	c.Get(t, spools).Shows(map[string]string{"items.0.color": "Red", "items.0.brand": "Y"})
	wantUndone(t, c, change, 1, 1)
	c.Get(t, spools).Shows(map[string]string{"items.0.color": "B", "items.0.brand": "W"})
	c.Get(t, filaments+"/"+ids[1]).Shows(map[string]string{"vendor_name": "W", "notes": "null"})
	wantUndone(t, c, undo, 3, 0, "2: it was used since", "3: it was used since", "2: it was used since",
		"3: it was used since")
	c.Get(t, filaments+"?hidden=true").Shows(map[string]string{"total": "0"})
	c.Get(t, filaments).Shows(map[string]string{"total": "2"})
	c.Get(t, vendors).Shows(map[string]string{"total": "2", "items.0.name": "X", "items.1.name": "W"})

	undo, _ = importList(t, c, vendors, "number,name\n2,Z\n3,Q\n,New\n,Newer\n")
	c.Post(t, vendors, j{"name": "x"}).Want(201)
	wantUndone(t, c, undo, 2, 1, "3: its fields cannot be restored: name is that of another vendor")
	c.Get(t, spools).Shows(map[string]string{"items.0.brand": "W"})
	c.Get(t, vendors).Shows(map[string]string{"total": "3"})
}

// An undo waits for what is about to use a spool. Of two undos at the same time, one works. After 30 days, there is no
// undo, and what the import changed is deleted, but its rows still repeat.
func TestUndoOnceAndInTime(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	c := api.Operator(t)
	const list = header + "\nPLA,A,1.75,1000\nPLA,B,1.75,1000\n"
	undo, ids := importList(t, c, spools, list)
	h := c.Hold(t, `update spools set remaining_weight_grams = 900 where id = '`+ids[0]+`'`,
		`insert into spool_usage (tenant_id, spool_id, kind, before_grams, after_grams)
			values ('`+c.Actor.Tenant+`', '`+ids[0]+`', 'deducted', 1000, 900)`)
	done := h.StartWaiting(1, func() {
		c.Post(t, undo, nil).Want(200).Shows(map[string]string{"removed": "1", "left.0.number": "1",
			"left.0.reason": "it was used since"})
	})
	h.Commit()
	<-done
	undo, _ = importList(t, c, spools, list)
	var undone atomic.Int32
	testkit.Concurrently(3, func(int) {
		if a := c.Post(t, undo, nil); a.Status == 200 {
			undone.Add(1)
			a.Shows(map[string]string{"removed": "2"})
		} else {
			a.WantError(409, "IMPORT_UNDONE")
		}
	})
	testkit.Equal(t, undone.Load(), 1, "undos")
	c.Get(t, spools).Shows(map[string]string{"total": "1"})

	undo, _ = importList(t, c, spools, "number,notes\n1,new\n")
	old, _ := importList(t, c, spools, list)
	bound := db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant})
	testkit.Check(t, api.DB.Write(bound, db.SQL(`update imports set created_at = created_at - interval '30 days'`)))
	for _, path := range []string{undo, old} {
		c.Post(t, path, nil).WantError(409, "IMPORT_NOT_UNDOABLE")
	}
	c.Get(t, past).Shows(map[string]string{"total": "4", "items.0.undo_ends_at": "null"})
	testkit.Check(t, imports.Trim(t.Context(), api.DB))
	var rows, changes int
	testkit.Check(t, api.DB.Read(bound, db.SQL(`select count(*), count(before) from import_rows`).Into(&rows, &changes)))
	testkit.Equal(t, fmt.Sprint(rows, changes), "3 0", "rows and changes")
	c.With("Content-Type", "text/csv").Post(t, spools+"/import/check", list).Shows(map[string]string{"repeated_rows": "2"})

	// An import of more rows than an undo may change is not undone.
	undo, _ = importList(t, c, spools, list)
	testkit.Check(t, api.DB.Write(bound, db.SQL(`update imports set created = 10001 where undone_at is null`)))
	c.Post(t, undo, nil).WantError(409, "IMPORT_NOT_UNDOABLE")
}

// Undo takes a file of Spoolman back, with its vendors and filaments. The next import of the file creates them again.
func TestUndoSpoolmanFile(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, testkit.Features...).Operator(t)
	file := readFixture(t)
	undo, ids := importList(t, c, spools, string(file))
	c.Get(t, past).Shows(map[string]string{"items.0.resources": "spools", "items.0.created": "12", "items.0.updated": "0"})
	exported := func() (rows string) {
		csv := string(c.Get(t, spools+"/export?format=csv").Want(200).Body)
		for line := range strings.Lines(csv[strings.Index(csv, "\n")+1:]) {
			rows += line[:strings.LastIndex(line, ",20")] + "\n" // without updated_at
		}
		return rows
	}
	before := exported()
	changed := strings.NewReplacer(`"Shelf`, `"Drawer`, `"Northline"`, `"Southline"`, `"name": "Galaxy`, `"name": "Big`).
		Replace(string(file))
	if n := strings.Count(changed, "Southline"); n == 0 {
		t.Fatal("no vendor in the file")
	}
	change, _ := importList(t, c, spools, changed)
	c.Get(t, past).Shows(map[string]string{"items.0.created": "0"})
	a := c.Post(t, change, nil).Want(200)
	a.Shows(map[string]string{"removed": "0", "left": "[]"})
	testkit.Equal(t, exported(), before, "the restored spools")

	c.Post(t, spools+"/"+ids[0]+"/deduct", j{"weight_grams": 1}).Want(200)
	wantUndone(t, c, undo, 8, 0, "2: it was used since", "4: it was used since", "5: it was changed since",
		"1: it was used since")
	for list, total := range map[string]string{vendors: "1", filaments: "2", spools: "1"} {
		c.Get(t, list).Shows(map[string]string{"total": total})
	}
	c.With("Content-Type", "text/csv").Post(t, spools+"/import", file).Want(200).Shows(map[string]string{"created": "4"})
	wantLedgers(t, c)
}
