package blackbox_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"spoolwright/db"
	"spoolwright/tests/testkit"
	"spoolwright/web/start"
)

// removable are the collections whose resources are hidden when they are removed, and can be restored.
var removable = []string{"/api/v1/vendors", "/api/v1/filaments", "/api/v1/spools", "/api/v1/printers",
	"/api/v1/products", "/api/v1/orders", "/api/v1/production-runs"}

// removableOf returns the collection of the resource that a path leads to, or through which it leads; "" if that
// cannot be removed.
func removableOf(path string) string {
	for _, collection := range removable {
		if strings.HasPrefix(path, collection+"/{") || strings.HasPrefix(path, collection+"/by-number/{") {
			return collection
		}
	}
	return ""
}

// ofRemoved are the operations on what was removed, beside its restoration: ledgers can be read, and corrected.
var ofRemoved = []string{"listSpoolUsage", "reverseSpoolUsage", "moveSpoolUsage", "listProductPieceEntries"}

// No other operation finds a resource that was removed, or what belongs to it, and none changes it.
func TestRemovedIsNotFound(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	w.forEach(t, func(op *operation) bool { return removableOf(op.Path()) != "" },
		func(t *testing.T, op *operation) {
			t.Parallel()
			collection := removableOf(op.Path())
			f, path, body := w.newRequest(t, op)
			id, _, _ := strings.Cut(strings.TrimPrefix(path, collection+"/"), "/")
			if number, ok := strings.CutPrefix(path, collection+"/by-number/"); ok {
				id = f.admin.Get(t, collection+"/by-number/"+number).Want(200).ID()
			}
			f.hide(t, collection, id)
			hidden := collection + "?hidden=true&id=" + id
			before := f.admin.Get(t, hidden).Want(200)
			before.Shows(map[string]string{"total": "1"})
			a := f.do(t, f.admin, op, path, body)
			if op.Path() == collection+"/{id}/restore" || slices.Contains(ofRemoved, op.Doc.ID) {
				a.Want(200)
				if op.Path() == collection+"/{id}/restore" { // what is not removed stays as it is
					a.Shows(map[string]string{"hidden_at": "null",
						"updated_at": f.do(t, f.admin, op, path, body).Want(200).Text("updated_at")})
				}
				return
			}
			if a.Status != 404 || a.Text("code") != "NOT_FOUND" {
				t.Errorf("%s: %d %s", op.Pattern, a.Status, a.Body)
			}
			testkit.Equal(t, string(f.admin.Get(t, hidden).Want(200).Body), string(before.Body), "the removed resource")
		})
}

// No operation accepts a reference to a resource that was removed.
func TestRemovedIsNoReference(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	w.forEach(t, func(op *operation) bool { return len(referenceFields(op, op.example)) > 0 },
		func(t *testing.T, op *operation) {
			t.Parallel()
			for _, name := range referenceFields(op, op.example) {
				f := w.newFixture(t)
				collection := f.collectionOf(t, op, name)
				if !slices.Contains(removable, collection) {
					continue
				}
				path, body := f.path(t, op.Path()), f.newBody(t, op, op.example)
				id := referenceOf(body, name)
				f.hide(t, collection, id)
				a := f.do(t, f.admin, op, path, body)
				if op.Doc.ID == "createPrinterStates" { // each state has its own result
					a.Want(200).Shows(map[string]string{"results.0.error.code": "UNKNOWN_REFERENCE"})
				} else if op.Doc.ID == "leasePrinters" {
					a.Want(200).Shows(map[string]string{"printer_ids": "[]"})
				} else if a.Status != 400 || a.Text("code") != "UNKNOWN_REFERENCE" {
					t.Errorf("%s with a removed %s: %d %s", op.Pattern, name, a.Status, a.Body)
				}
			}
		})
}

// hide removes a resource as if other data needed it: otherwise the service deletes some kinds of them.
func (f *fixture) hide(t *testing.T, collection, id string) {
	t.Helper()
	table := tableOf(collection)
	check(t, f.api.DB.Write(db.As(t.Context(), f.admin.Actor), db.SQL(`
		with hidden as (
			update `+table+` x set hidden_at = now() where id = $1 and hidden_at is null returning to_jsonb(x) as x
		)
		select count_rows('`+table+`', -count(*)) from hidden
		where x ->> 'plate_of' is null and (x ->> 'archived')::boolean is not true`, id)))
}

// tableOf returns the table of a collection.
func tableOf(collection string) string {
	return strings.ReplaceAll(strings.TrimPrefix(collection, "/api/v1/"), "-", "_")
}

// referenceOf returns the id in the field that referenceFields names.
func referenceOf(body map[string]any, name string) string {
	if list, entryField, ok := strings.Cut(name, "[0]."); ok {
		return body[list].([]any)[0].(map[string]any)[entryField].(string)
	}
	return body[name].(string)
}

// What was removed counts in no list, sum, report, plan or queue: all responses are as they were before it existed. But
// the filament that a removed spool contained was bought, and is not in stock: reports on use count it as lost.
func TestRemovedCountsNowhere(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	f := w.newFullFixture(t).prepareBodies(t)
	type j = testkit.JSON
	// Of kinds that are in use, so that what is removed would count beside them.
	id := func(collection string) string { return idOf(f.path(t, "/api/v1/"+collection+"/{id}")) }
	filament, printer, product := id("filaments"), id("printers"), id("products")
	spool := f.admin.Post(t, "/api/v1/spools", j{"filament_id": filament, "location": "Shelf A", "lot_number": "L"}).
		Want(201).ID()
	order := f.admin.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": product, "quantity": 3}}}).Want(201)
	run := j{"printer_id": printer, "estimated_print_time_hours": 2, "items": []j{{"product_id": product, "quantity": 2,
		"order_item_id": order.Text("items.0.id")}}, "materials": []j{{"spool_id": spool, "estimated_weight_grams": 5}}}
	f.admin.Post(t, "/api/v1/production-runs", run).Want(201)
	f.snapshot(t) // creates what it reads
	before := f.snapshot(t)
	for collection, body := range map[string]j{
		"vendors": {"name": "Removed"},
		"filaments": {"vendor_id": id("vendors"), "material_type": "PLA", "color": "Removed", "diameter_mm": 1.75,
			"article_number": "Removed"},
		"spools": {"filament_id": filament, "location": "Shelf A", "lot_number": "L", "net_weight_grams": 1000,
			"purchase_price": 20},
		"printers": {"name": "Removed", "location": "Room 2", "slots": 2},
		"products": {"name": "Removed", "sku": "REMOVED", "category": "Removed", "location": "Shelf A",
			"components": []j{{"component_product_id": product}}},
		"orders":          {"items": []j{{"product_id": product, "quantity": 2}}, "due_date": "2024-01-01"},
		"production-runs": run,
	} {
		path := "/api/v1/" + collection
		f.hide(t, path, f.admin.Post(t, path, body).Want(201).ID())
	}
	// The pending runs of a queue start at the time of the request.
	moving := regexp.MustCompile(`"expected_(start|end)_at":"[^"]*"`)
	for path, answer := range f.snapshot(t) {
		if strings.Contains(path, "/usage/export") {
			continue // the ledger of a removed spool remains
		}
		want := before[path]
		if strings.HasPrefix(path, "/api/v1/reports/usage") {
			want = strings.ReplaceAll(want, `"lost_grams":0,"lost_cost":0,`, `"lost_grams":1000,"lost_cost":20,`)
		}
		testkit.Equal(t, moving.ReplaceAllString(answer, ""), moving.ReplaceAllString(want, ""), "GET %s", path)
	}
}

// A removal waits for a transaction that is about to refer to the resource, and then hides it instead of deleting it.
func TestRemovedWhileReferredTo(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	for collection, refer := range map[string][2]string{
		"/api/v1/vendors":  {"/api/v1/filaments", `update filaments set vendor_id = `},
		"/api/v1/printers": {"/api/v1/production-runs", `update production_runs set printer_id = `},
	} {
		f := w.newFixture(t)
		id, other := f.create(t, collection, collection), f.create(t, refer[0], refer[0])
		h := f.admin.Hold(t, refer[1]+`'`+id+`' where id = '`+other+`'`)
		done := h.StartWaiting(1, func() { f.admin.Delete(t, collection+"/"+id).Want(204) })
		h.Commit()
		<-done
		f.admin.Get(t, collection+"?hidden=true&id="+id).Want(200).Shows(map[string]string{"total": "1"})
	}
}

// A restoration waits for a removal that has begun, and then shows the resource again.
func TestRemovedAndRestoredAtOnce(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	for _, collection := range removable {
		f := w.newFixture(t)
		path := collection + "/" + f.create(t, collection, collection)
		removal := []string{`update ` + tableOf(collection) + ` set hidden_at = now() where id = '` + idOf(path) + `'`}
		if collection == "/api/v1/products" { // their changes have one lock
			removal = append(removal, `select pg_advisory_xact_lock(hashtextextended('catalog `+f.tenant.ID+`', 0))`)
		}
		h := f.admin.Hold(t, removal...)
		done := h.StartWaiting(1, func() { f.admin.Post(t, path+"/restore", nil).Want(200) })
		h.Commit()
		<-done
		f.admin.Get(t, path).Want(200)
	}
}

// The total of each list without a filter, which is stored, is the number of its items, whatever is removed, archived
// and restored, in whatever order, and after sample data was removed.
func TestRemovedTotals(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	f := w.newFixture(t)
	checkTotal := func(collection string, changes int) {
		t.Helper()
		all := f.admin.Get(t, collection+"?limit=100").Want(200)
		if got := all.Text("total"); got != strconv.Itoa(len(all.List("items"))) {
			t.Errorf("%s: the total is %s after %d changes, want %d", collection, got, changes, len(all.List("items")))
		}
	}
	bound := db.As(t.Context(), f.admin.Actor)
	for _, collection := range removable {
		var ids []string
		for range 3 {
			ids = append(ids, f.create(t, collection, collection))
		}
		changes := 0
		check := func() {
			t.Helper()
			changes++
			checkTotal(collection, changes)
		}
		restore := func(id string) { f.admin.Post(t, collection+"/"+id+"/restore", nil).Want(200) }
		check()
		f.hide(t, collection, ids[0])
		check()
		f.hide(t, collection, ids[0]) // again
		check()
		f.hide(t, collection, ids[1])
		check()
		restore(ids[0])
		check()
		restore(ids[0])
		check()
		testkit.Check(t, f.api.DB.Write(bound, // as if nothing kept a restoration from changing it
			db.SQL(`update `+tableOf(collection)+` set hidden_at = null where id = $1`, ids[0])))
		check()
		f.admin.Delete(t, collection+"/"+ids[2]).Want(204)
		check()
		if collection != "/api/v1/spools" {
			continue
		}
		archive := func(id string, archived bool) {
			f.admin.Patch(t, collection+"/"+id, testkit.JSON{"archived": archived}).Want(200)
		}
		archive(ids[0], true)
		check()
		f.hide(t, collection, ids[0])
		check()
		restore(ids[0])
		check()
		archive(ids[0], false)
		check()
		archive(ids[0], false)
		check()
		archive(ids[0], true)
		archive(ids[0], true)
		check()
		f.hide(t, collection, ids[0])
		f.admin.Post(t, collection, testkit.JSON{"material_type": "PLA", "color": "Red", "diameter_mm": 1.75,
			"net_weight_grams": 1000, "archived": true}).Want(201)
		check()
	}
	var all []string
	for _, collection := range removable {
		all = append(all, `select id from `+tableOf(collection))
	}
	check(t, f.api.DB.Write(bound, db.SQL(`select mark_samples(array(`+strings.Join(all, " union all ")+`))::text`)))
	_, err := start.New(f.api.DB).Remove(bound)
	check(t, err)
	for _, collection := range removable {
		f.admin.Get(t, collection+"?hidden=true").Want(200).Shows(map[string]string{"total": "0"})
		f.create(t, collection, collection) // the total of an empty list is not read
		checkTotal(collection, 0)
	}
}

// After many clients of a farm have created, archived, removed and restored resources at the same time, all totals are
// right, no number occurs twice, and no request has failed.
func TestTotalsOfConcurrentRequests(t *testing.T) {
	t.Parallel()
	type j = testkit.JSON
	f := newUnlimitedAPI(t).newFixture(t)
	spool := func(archived bool) j {
		return j{"material_type": "PLA", "color": "Red", "diameter_mm": 1.75, "net_weight_grams": 1000, "archived": archived}
	}
	var mu sync.Mutex
	made := map[string][]string{} // the ids of each collection
	send := func(method, path string, body any, statuses ...int) *testkit.Response {
		a, err := f.admin.Send(method, path, body)
		if err != nil || !slices.Contains(statuses, a.Status) {
			t.Errorf("%s %s: %+v %v", method, path, a, err)
			return nil
		}
		return a
	}
	any := func(collection string, n int) string {
		mu.Lock()
		defer mu.Unlock()
		all := made[collection]
		return collection + "/" + all[n%len(all)]
	}
	create := func(collection string, n int) {
		body := map[string]j{
			"/api/v1/vendors": {"name": fmt.Sprint("Vendor ", n)}, "/api/v1/printers": {"name": fmt.Sprint("Printer ", n)},
			"/api/v1/filaments": {"material_type": "PLA", "color": "Red", "diameter_mm": 1.75,
				"vendor": fmt.Sprint("Maker ", n/8)},
			"/api/v1/spools": spool(n%3 == 0), "/api/v1/products": {"name": "Product", "plates": []j{{}, {}}},
			"/api/v1/orders": {"reference": fmt.Sprint(n / 2)}, "/api/v1/production-runs": {},
		}[collection]
		if a := send("POST", collection, body, 200, 201); a != nil {
			var resource struct{ ID string }
			if err := json.Unmarshal(a.Body, &resource); err != nil {
				t.Error(err)
			}
			mu.Lock()
			made[collection] = append(made[collection], resource.ID)
			mu.Unlock()
		}
	}
	for _, collection := range removable {
		create(collection, 0)
	}
	const clients, requests = 6, 70
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(client), 1))
			for i := range requests {
				n := 1 + i*clients + client
				collection := removable[random.IntN(len(removable))]
				one := any(collection, random.IntN(1000))
				switch random.IntN(8) {
				case 0, 1, 2:
					create(collection, n)
				case 3:
					send("DELETE", one, nil, 204, 404)
				case 4:
					send("POST", one+"/restore", nil, 200, 404, 409)
				case 5:
					send("PATCH", any("/api/v1/spools", n), j{"archived": n%2 == 0}, 200, 404)
				case 6:
					change := j{"archived": n%2 == 0}
					send("PATCH", "/api/v1/spools", j{"filter": j{"archived": "any", "number": 1 + n%50}, "changes": change}, 200)
					send("POST", any("/api/v1/spools", n)+"/refill", j{}, 200, 404)
				case 7:
					batch := spool(n%2 == 0)
					batch["quantity"] = 3
					send("POST", "/api/v1/spools/batch", batch, 201)
					imported := f.admin.With("Content-Type", "text/csv").Post(t, "/api/v1/spools/import?mode=upsert",
						"number,material_type,color,diameter_mm,net_weight_grams,archived\n"+
							"1,PLA,Red,1.75,1000,"+strconv.FormatBool(n%3 == 0)+"\n,PLA,Red,1.75,1000,true\n,PLA,Red,1.75,1000,\n")
					if imported.Status >= 500 {
						t.Errorf("%s: status %d", imported.What, imported.Status)
					}
				}
			}
		})
	}
	wg.Wait()
	for _, collection := range removable {
		table := tableOf(collection)
		shown, numbers := `hidden_at is null`, `count(*) = count(distinct number) and max(number) <= max(last)`
		switch table {
		case "spools":
			shown += ` and not archived`
		case "products":
			shown += ` and plate_of is null`
		case "orders", "production_runs":
			numbers = `max(last) = 0`
		}
		var total, rows int64
		var right bool
		check(t, f.api.DB.Read(db.As(t.Context(), f.admin.Actor), db.SQL(`
			select max(c.total), count(*) filter (where `+shown+`), `+numbers+`
			from counters c cross join `+table+` where kind = $1`, table).Into(&total, &rows, &right)))
		if total != rows || !right {
			t.Errorf("%s: the total is %d, want %d; the numbers are right: %t", table, total, rows, right)
		}
	}
}
