package printers_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/production/printers"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type j = testkit.JSON

const (
	path   = "/api/v1/printers"
	spools = "/api/v1/spools"
)

func newAPI(t *testing.T) *testkit.API {
	t.Helper()
	return testkit.New(t, testkit.Options{}, inventory.Routes, printers.Routes)
}

func addSpool(t *testing.T, c *testkit.Client, location any) string {
	t.Helper()
	return c.Post(t, spools, j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1000,
		"location": location}).Want(201).ID()
}

func TestPrinters(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	made := c.Post(t, path, j{"name": " Ärmel ", "model": "MK4", "slots": 4, "materials": []string{"PLA", "PETG"},
		"hour_cost": 0.35, "power_watts": 120, "nozzle_mm": 0.4, "maintenance_interval_hours": 100}).Want(201)
	made.Shows(map[string]string{"number": "1", "name": "Ärmel", "slots": "4", "materials.1": "PETG",
		"hour_cost": "0.35", "power_watts": "120", "status": "available", "printed_hours": "0",
		"maintenance_due": "false", "maintained_at": "null", "loaded": "[]", "hidden_at": "null"})
	one := path + "/" + made.ID()
	testkit.Equal(t, string(c.Get(t, one).Want(200).Body), string(made.Body), "the response of GET")
	c.Patch(t, one, j{"materials": []string{}, "status": "maintenance"}).Want(200).
		Shows(map[string]string{"materials": "[]", "status": "maintenance"})
	c.Post(t, one+"/maintained", nil).Want(200).Shows(map[string]string{"status": "available"})

	c.Post(t, path, j{"name": "äRMEL"}).WantError(409, "DUPLICATE_PRINTER")
	other := path + "/" + c.Post(t, path, j{"name": "Other"}).Want(201).ID()
	c.Get(t, other).Want(200).Shows(map[string]string{"slots": "1", "materials": "[]", "number": "2"})
	c.Patch(t, other, j{"name": "ÄRMEL"}).WantError(409, "DUPLICATE_PRINTER")
	c.Delete(t, other).Want(204)
	c.Get(t, other).WantError(404, "NOT_FOUND")
	c.Post(t, path, j{"name": "Other"}).Want(201).Shows(map[string]string{"number": "3"})
	c.Get(t, path+"?search=mk4").Want(200).Shows(map[string]string{"total": "1", "items.0.name": "Ärmel"})

	c.Post(t, path, j{"name": "", "slots": 65, "materials": []string{"Wood"}, "status": "broken", "nozzle_mm": 0}).
		Fields("name", "slots", "materials", "status", "nozzle_mm")
	tenant.User(t, "viewer").Post(t, path, j{"name": "x"}).WantError(403, "FORBIDDEN")
	api.Operator(t).Get(t, one).WantError(404, "NOT_FOUND")
}

// A spool is in one slot at most, and its location follows.
func TestSlots(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	add := func(name string) string { return c.Post(t, path, j{"name": name, "slots": 2}).Want(201).ID() }
	a, b := add("A"), add("B")
	shelf, nowhere := addSpool(t, c, "Shelf"), addSpool(t, c, nil)
	slot := func(printer string, n int) string { return fmt.Sprintf("%s/%s/slots/%d", path, printer, n) }
	load := func(to string, body j) *testkit.Response { t.Helper(); return c.Do(t, "PUT", to, body) }
	location := func(spool, want string) {
		t.Helper()
		c.Get(t, spools+"/"+spool).Want(200).Shows(map[string]string{"location": want})
	}

	old := c.Get(t, path+"/"+a).Want(200)
	load(slot(a, 2), j{"spool_id": shelf}).Want(200).Shows(map[string]string{"loaded.0.slot": "2",
		"loaded.0.spool_id": shelf, "loaded.0.spool_number": "1", "loaded.0.name": "PLA Black",
		"loaded.0.remaining_grams": "1000"})
	location(shelf, "A")
	c.With("If-Match", old.Header.Get("ETag")).Patch(t, path+"/"+a, j{"notes": "x"}).
		WantError(412, "PRECONDITION_FAILED")
	again := load(slot(a, 2), j{"spool_number": 1}).Want(200)
	if !again.Time("updated_at").After(old.Time("updated_at")) {
		t.Error("the printer's updated_at has not changed")
	} else if twice := load(slot(a, 2), j{"spool_number": 1}).Want(200); string(twice.Body) != string(again.Body) {
		t.Errorf("a repeated request changes\n%s to\n%s", again.Body, twice.Body)
	}
	c.Patch(t, path+"/"+a, j{"slots": 1}).WantError(409, "SLOT_IN_USE")
	c.Patch(t, path+"/"+a, j{"name": "A1"}).Want(200)
	location(shelf, "A1")

	// Loading it elsewhere unloads it.
	load(slot(b, 1), j{"spool_id": shelf}).Want(200)
	location(shelf, "B")
	c.Get(t, path+"/"+a).Want(200).Shows(map[string]string{"loaded": "[]"})
	c.Get(t, path+"?spool_id="+shelf).Want(200).Shows(map[string]string{"total": "1", "items.0.name": "B"})
	// Another spool takes its place.
	load(slot(b, 1), j{"spool_id": nowhere}).Want(200).Shows(map[string]string{"loaded.0.spool_id": nowhere})
	location(shelf, "Shelf")
	location(nowhere, "B")
	load(slot(b, 1), j{"spool_id": nil}).Want(200).Shows(map[string]string{"loaded": "[]"})
	location(nowhere, "null")
	// Someone has moved it meanwhile.
	load(slot(b, 2), j{"spool_id": shelf}).Want(200)
	c.Patch(t, spools+"/"+shelf, j{"location": "Dryer"}).Want(200)
	load(slot(b, 2), j{"spool_id": nil}).Want(200)
	location(shelf, "Dryer")
	// A removed printer unloads its spools, and a removed spool is not loaded.
	load(slot(b, 2), j{"spool_id": shelf}).Want(200)
	c.Delete(t, path+"/"+b).Want(204)
	location(shelf, "Dryer")
	load(slot(a, 1), j{"spool_id": nowhere}).Want(200)
	c.Delete(t, spools+"/"+nowhere).Want(204)
	c.Get(t, path+"/"+a).Want(200).Shows(map[string]string{"loaded": "[]"})

	load(slot(a, 3), j{"spool_id": shelf}).Fields("number")
	load(slot(a, 0), j{"spool_id": shelf}).Fields("number")
	load(slot(a, 1), j{}).Fields("spool_id")
	load(slot(a, 1), j{"spool_id": shelf, "spool_number": 1}).Fields("spool_number")
	load(slot(a, 1), j{"spool_number": 99}).WantError(400, "UNKNOWN_REFERENCE").
		Shows(map[string]string{"errors.0.field": "spool_number"})
	foreign := addSpool(t, api.Operator(t), nil)
	load(slot(a, 1), j{"spool_id": foreign}).WantError(400, "UNKNOWN_REFERENCE")
	api.Operator(t).Do(t, "PUT", slot(a, 1), j{"spool_id": nil}).WantError(404, "NOT_FOUND")
}

// No request finds or changes a printer that is hidden until it is restored. A removed spool is not loaded.
func TestRemovedPrinter(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	printer := path + "/" + c.Post(t, path, j{"name": "A", "diameter_mm": 2.85}).Want(201).ID()
	gone := addSpool(t, c, nil)
	c.Delete(t, spools+"/"+gone).Want(204)
	c.Do(t, "PUT", printer+"/slots/1", j{"spool_id": gone}).WantError(400, "UNKNOWN_REFERENCE")
	c.Do(t, "PUT", printer+"/slots/1", j{"spool_number": 1}).WantError(400, "UNKNOWN_REFERENCE")

	addSpool(t, c, nil)
	hidden := db.SQL(`update printers set hidden_at = now() where id = $1`, printer[len(path)+1:])
	testkit.Check(t, c.API.DB.Write(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}), hidden))
	c.Get(t, printer).WantError(404, "NOT_FOUND")
	c.Patch(t, printer, j{"notes": "x"}).WantError(404, "NOT_FOUND")
	c.Patch(t, printer, j{}).WantError(404, "NOT_FOUND")
	c.Post(t, printer+"/maintained", nil).WantError(404, "NOT_FOUND")
	c.Delete(t, printer).WantError(404, "NOT_FOUND")
	c.Do(t, "PUT", printer+"/slots/1", j{"spool_number": 2}).WantError(404, "NOT_FOUND")
	diameter := ""
	testkit.Check(t, c.API.DB.Read(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}),
		db.SQL(`select trim_scale(usual_diameter())::text`).Into(&diameter)))
	testkit.Equal(t, diameter, "1.75", "the usual diameter of a farm without printers")
	c.Post(t, printer+"/restore", nil).Want(200)
	c.Get(t, printer).Want(200).Shows(map[string]string{"notes": "null", "loaded": "[]", "maintained_at": "null"})
}

// Printers that load the same two spools at once leave each spool in one slot, and no request fails.
func TestConcurrentLoads(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	two := []string{addSpool(t, c, "Shelf"), addSpool(t, c, "Shelf")}
	var all []string
	for i := range 3 {
		all = append(all, c.Post(t, path, j{"name": fmt.Sprint("P", i), "slots": 2}).Want(201).ID())
	}
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			slot := fmt.Sprintf("%s/%s/slots/%d", path, all[i%3], 1+i/3%2)
			if a, err := c.Send("PUT", slot, j{"spool_id": two[i%2]}); err != nil || a.Status != 200 {
				t.Errorf("PUT %s: %v %v", slot, a, err)
			}
		})
		wg.Go(func() {
			if a, err := c.Send("PATCH", path+"/"+all[i%3], j{"name": fmt.Sprint("P", i%3, "-", i)}); err != nil ||
				a.Status != 200 {
				t.Errorf("PATCH: %v %v", a, err)
			}
		})
	}
	wg.Wait()
	for _, spool := range two {
		in := c.Get(t, path+"?spool_id="+spool).Want(200)
		in.Shows(map[string]string{"total": "1"})
		c.Get(t, spools+"/"+spool).Want(200).Shows(map[string]string{"location": in.Text("items.0.name")})
	}
}

// A printer that loses a slot while a spool is loaded into it keeps the slot, or the spool is not loaded.
func TestLoadWhileSlotsChange(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	spool := addSpool(t, c, nil)
	printer := path + "/" + c.Post(t, path, j{"name": "P"}).Want(201).ID()
	for range 40 {
		c.Do(t, "PUT", printer+"/slots/1", j{"spool_id": spool}).Want(200)
		c.Patch(t, printer, j{"slots": 2}).Want(200)
		var wg sync.WaitGroup
		for _, r := range []struct {
			method, path string
			body         j
			refused      int
		}{{"PUT", printer + "/slots/2", j{"spool_id": spool}, 422}, {"PATCH", printer, j{"slots": 1}, 409}} {
			wg.Go(func() {
				if a, err := c.Send(r.method, r.path, r.body); err != nil || a.Status != 200 && a.Status != r.refused {
					t.Errorf("%s: %v %v", r.method, a, err)
				}
			})
		}
		wg.Wait()
		now := c.Get(t, printer).Want(200)
		if slots, at := now.Text("slots"), now.Text("loaded.0.slot"); at > slots {
			t.Fatalf("the printer has %s slots, and a spool in slot %s", slots, at)
		}
	}
}

// Named finds a printer by its id or its name, and never a removed one, also if it is removed while a transaction
// waits for it.
func TestNamedPrinter(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	id := c.Post(t, path, j{"name": "Prusa"}).Want(201).ID()
	named := func(id, name any) (found string) {
		testkit.Check(t, c.API.DB.Read(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}), db.SQL(
			`select coalesce(max(p.id::text), '') from `+printers.Named("$1::uuid", "$2::text")+` p`, id, name).Into(&found)))
		return found
	}
	testkit.Equal(t, named(id, nil), id, "by id")
	testkit.Equal(t, named(nil, "PRUSA"), id, "by name")
	h := c.Hold(t, `select from printers where id = '`+id+`' for update`,
		`update printers set hidden_at = now() where id = '`+id+`'`)
	found := ""
	done := h.StartWaiting(1, func() { found = named(id, nil) })
	h.Commit()
	<-done
	testkit.Equal(t, found, "", "by id, while it is removed")
	testkit.Equal(t, named(id, nil)+named(nil, "Prusa"), "", "after it was removed")
}

// A change of a printer goes on with what the transaction left for which it waited: the spools follow the newest name,
// and If-Match compares with the newest printer.
func TestChangeWaitsForPrinter(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	id := c.Post(t, path, j{"name": "A"}).Want(201).ID()
	spool := addSpool(t, c, nil)
	c.Do(t, "PUT", path+"/"+id+"/slots/1", j{"spool_id": spool}).Want(200)
	patch := func(header http.Header, held []string, body j) *testkit.Response {
		h := c.Hold(t, held...)
		sender := *c
		sender.Header = header
		var a *testkit.Response
		var err error
		done := h.StartWaiting(1, func() { a, err = sender.Send("PATCH", path+"/"+id, body) })
		h.Commit()
		<-done
		testkit.Check(t, err)
		return a
	}
	a := patch(nil, []string{`update printers set name = 'B' where id = '` + id + `'`,
		`update spools set location = 'B' where id = '` + spool + `'`}, j{"name": "C"})
	testkit.Equal(t, a.Status, 200, "the new name: %s", a.Body)
	c.Get(t, spools+"/"+spool).Want(200).Shows(map[string]string{"location": "C"})

	etag := c.Get(t, path+"/"+id).Want(200).Header.Get("ETag")
	a = patch(http.Header{"If-Match": {etag}}, []string{`update printers set notes = 'x', updated_at = now()
		where id = '` + id + `'`}, j{"name": "D"})
	testkit.Equal(t, a.Status, 412, "with an ETag of before: %s", a.Body)
}

// A spool whose location changes while it is loaded comes back to the new location.
func TestLoadWaitsForSpool(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	slot := path + "/" + c.Post(t, path, j{"name": "A"}).Want(201).ID() + "/slots/1"
	spool := addSpool(t, c, "Shelf 1")
	h := c.Hold(t, `update spools set location = 'Shelf 2' where id = '`+spool+`'`)
	var a *testkit.Response
	var err error
	done := h.StartWaiting(1, func() { a, err = c.Send("PUT", slot, j{"spool_id": spool}) })
	h.Commit()
	<-done
	testkit.Check(t, err)
	testkit.Equal(t, a.Status, 200, "the load: %s", a.Body)
	c.Get(t, spools+"/"+spool).Want(200).Shows(map[string]string{"location": "A"})
	c.Do(t, "PUT", slot, j{"spool_id": nil}).Want(200)
	c.Get(t, spools+"/"+spool).Want(200).Shows(map[string]string{"location": "Shelf 2"})
}

// The report of a printer's key loads the spool, but neither a removed spool nor into a removed printer: they come
// back as they went.
func TestReportLoadsNothingRemoved(t *testing.T) {
	t.Parallel()
	for name, removed := range map[string]string{"nothing": "", "spool": "spools", "printer": "printers"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newAPI(t).Operator(t)
			printer := c.Post(t, path, j{"name": "A"}).Want(201).ID()
			spool := addSpool(t, c, nil)
			key := value.NewID()
			hide := `select`
			if removed != "" {
				hide = `update ` + removed + ` set hidden_at = now() where tenant_id = '` + c.Actor.Tenant + `'`
			}
			c.Hold(t, hide, `insert into api_keys (id, name, role, hint, hash, printer_id)
				values ('`+key+`', 'P', 'printer', 'x', decode(repeat('00', 32), 'hex'), '`+printer+`')`,
				`select set_config('app.api_key_id', '`+key+`', true)`, `select load_reported(1)`).Commit()
			c.Hold(t, `update spools set hidden_at = null where tenant_id = '`+c.Actor.Tenant+`'`,
				`update printers set hidden_at = null where tenant_id = '`+c.Actor.Tenant+`'`).Commit()
			loaded := "[]"
			if removed == "" {
				loaded = spool
			}
			testkit.Contains(t, c.Get(t, path+"/"+printer).Want(200).Text("loaded"), loaded, "what is loaded")
		})
	}
}

// Nothing changes a printer while it is hidden, nor what is loaded.
func TestHiddenStaysUnchanged(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, testkit.Features...).Operator(t)
	spool := addSpool(t, c, nil)
	printer := path + "/" + c.Post(t, path, j{"name": "Alpha", "slots": 2}).Want(201).ID()
	c.Post(t, "/api/v1/production-runs", j{"printer_name": "Alpha"}).Want(201)
	c.WantHiddenUnchanged(t, printer, j{"name": "Beta", "notes": "x", "slots": 3, "status": "maintenance", "hour_cost": 1,
		"materials": []string{"PLA"}, "diameter_mm": 2.85}, map[string]any{"PUT /slots/1": j{"spool_id": spool}})
}
