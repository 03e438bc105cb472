package blackbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

// TestFilters checks the filters of all lists. The items of each list have names in a text field; for each query, the
// names of the items that match it are given.
func TestFilters(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	c := w.newFixture(t).admin
	type j = testkit.JSON
	ids, begun := map[string]string{}, time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	create := func(name, path string, body j) {
		t.Helper()
		ids[name] = c.Post(t, "/api/v1/"+path, body).Want(201).ID()
	}
	spool := func(name string, fields j) {
		t.Helper()
		body := j{"notes": name, "material_type": "PLA", "color": "Red", "diameter_mm": 1.75, "net_weight_grams": 1000}
		for key, value := range fields {
			body[key] = value
		}
		create(name, "spools", body)
	}
	create("v1", "vendors", j{"name": "v1", "external_id": "ext", "notes": "made here"})
	create("v2", "vendors", j{"name": "v2"})
	filament := func(name string, fields j) {
		t.Helper()
		body := j{"name": name, "material_type": "PLA", "color": "Red", "diameter_mm": 1.75}
		for key, value := range fields {
			body[key] = value
		}
		create(name, "filaments", body)
	}
	filament("f1", j{"vendor": "V1", "article_number": "PA-1", "external_id": "e1"})
	filament("f2", j{"vendor": "v2", "material_type": "PETG", "color": "Blue", "notes": "dry"})
	filament("f3", j{"material_type": "ABS"})
	spool("s1", j{"location": "Shelf Ä", "supplier": "ACME", "lot_number": "L-1"})
	spool("s2", j{"material_type": "PETG", "location": "shelf ä", "remaining_weight_grams": 50})
	spool("s3", j{"material_type": "ABS", "location": "Shelf Ä 2", "archived": true,
		"filament_id": ids["f3"]})
	c.Post(t, "/api/v1/spools/"+ids["s1"]+"/deduct", j{"weight_grams": 1}).Want(200)
	c.Patch(t, "/api/v1/spools/"+ids["s1"], j{"remaining_weight_grams": 100}).Want(200)
	create("p1", "products", j{"name": "p1", "sku": "Box-1"})
	create("p2", "products", j{"name": "p2", "sku": "BOX-12", "components": []j{{"component_product_id": ids["p1"]}}})
	create("p3", "products", j{"name": "p3", "location": "Shelf Ä"})
	create("p4", "products", j{"name": "p4", "plates": []j{{"name": "x"}}})
	create("o1", "orders", j{"notes": "o1", "source": "Shop", "reference": "A1", "customer": "Ada",
		"due_date": "2026-03-01",
		"items":    []j{{"product_id": ids["p1"], "quantity": 1}, {"product_id": ids["p2"], "quantity": 1}}})
	create("o2", "orders", j{"notes": "o2", "source": "shop", "reference": "a1", "customer": "ada",
		"due_date": "2026-03-02",
		"items":    []j{{"product_id": ids["p1"], "quantity": 1}}})
	create("o3", "orders", j{"notes": "o3", "customer": "Ada L."})
	c.Patch(t, "/api/v1/orders/"+ids["o3"], j{"status": "cancelled"}).Want(200)
	item := c.Get(t, "/api/v1/orders/"+ids["o1"]).Want(200).Text("items.0.id")
	run := func(name string, body j) {
		t.Helper()
		body["notes"] = name
		create(name, "production-runs", body)
	}
	run("r1", j{"status": "in_progress", "printer_name": "One", "started_at": "2026-03-01T10:00:00Z",
		"items":     []j{{"product_id": ids["p1"], "order_item_id": item, "quantity": 1}},
		"materials": []j{{"spool_id": ids["s1"]}, {"spool_id": ids["s2"]}}})
	run("r2", j{"status": "paused", "started_at": "2026-03-02T00:00:00Z", "completed_at": "2026-03-02T12:00:00Z",
		"items": []j{{"product_id": ids["p1"], "quantity": 1}}, "materials": []j{{"spool_id": ids["s1"]}}})
	run("r3", j{"status": "pending"})
	create("k1", "api-keys", j{"name": "k1", "role": "viewer"})
	create("k2", "api-keys", j{"name": "k2", "role": "printer"})
	c.Delete(t, "/api/v1/api-keys/"+ids["k1"]).Want(204)
	create("w1", "webhooks", j{"description": "w1", "url": "https://example.com/",
		"events": []string{"order.received"}})
	create("p-1", "printers", j{"name": "p-1", "model": "MK4"})
	create("p-2", "printers", j{"name": "p-2", "status": "retired"})
	c.Do(t, "PUT", "/api/v1/printers/"+ids["p-1"]+"/slots/1", j{"spool_id": ids["s3"]}).Want(200)
	create("l1", "stock-levels", j{"material_type": "PLA", "minimum_grams": 1})
	create("l2", "stock-levels", j{"material_type": "TPU", "minimum_grams": 1})

	for _, list := range []struct{ path, name, queries string }{
		{"spools", "notes", `
			?archived=any: s3 s2 s1; location=SHELF%20%C3%84: s2 s1
			supplier=acme: s1; lot_number=l-1: s1; supplier=acm: ; filament_id=f3&archived=any: s3; filament_id=f3:
			material_type=PETG,PLA: s2 s1; material_type=PLA,PLA: s1; material_type=ABS,PLA,PETG&archived=any: s3 s2 s1
			material_type=ABS,PLA,PETG&archived=any&sort_order=asc: s1 s2 s3; material_type=ABS,PLA&archived=true: s3
			material_type=PETG,PLA&skip=1: s1; material_type=PETG,PLA&sort_by=number: s2 s1; archived=any&skip=2: s1
			remaining_below=100: s2; remaining_below=100.1: s2 s1
			remaining_below=1001&sort_by=number&sort_order=asc: s1 s2
			created_from=2000-01-01: s2 s1; created_to=2000-01-01T00:00:00%2B01:00: ; created_from=2100-01-01:
			updated_from=2000-01-01: s2 s1; updated_from=2000-01-01&hidden=any: s3 s2 s1; updated_from=NOW: s2 s1
			updated_from=NOW&hidden=any&sort_by=updated_at&sort_order=asc: s2 s1 s3; updated_from=2100-01-01:
			updated_from=2000-01-01&sort_by=updated_at: s1 s2; updated_from=NOW&archived=any&number=3: s3`},
		{"vendors", "name", `name=V1: v1; name=v: ; number=2: v2; external_id=EXT: v1; search=here: v1
			search=v: v2 v1
			created_from=2000-01-01&created_to=2100-01-01: v2 v1; hidden=true: ; updated_from=NOW&hidden=any: v2 v1`},
		{"printers", "name", `name=P-1: p-1; number=2: p-2; status=retired,maintenance: p-2; search=mk4: p-1
			spool_id=s3: p-1; created_from=2000-01-01&created_to=2100-01-01: p-2 p-1; hidden=true: ; updated_from=NOW: p-2 p-1`},
		{"filaments", "name", `vendor=V1: f1; vendor_id=v2: f2; vendor=v: ; number=3: f3; color=RED: f3 f1
			search=1: f1
			material_type=ABS,PETG: f3 f2; material_type=PLA: f1; article_number=pa-1: f1; external_id=E1: f1
			search=dry: f2
			created_from=2000-01-01: f3 f2 f1; hidden=true: ; vendor_id=v1&color=red: f1
			updated_from=NOW&sort_by=updated_at: f3 f2 f1; updated_from=NOW&color=red: f3 f1`},
		{"products", "name", `sku=box-1: p1; sku=BOX: ; search=ox-1: p2 p1; component_product_id=p1: p2
			location=SHELF%20%C3%84: p3; location=shelf: ; component_product_id=p3:
			created_from=2000-01-01&created_to=2100-01-01: p4 p3 p2 p1
			plates=true: p4,%20x p4 p3 p2 p1; plate_of=p4: p4,%20x; plate_of=p3: ; plate_of=p4&plates=false:
			updated_from=NOW&hidden=any: p4 p3 p2 p1; updated_from=NOW&sort_by=updated_at&sku=box-1: p1`},
		{"orders", "customer", `source=SHOP: ada Ada; reference=A1: ada Ada; customer=ADA: ada Ada
			status=received,cancelled: Ada%20L. ada; status=in_production,cancelled: Ada%20L. Ada
			product_id=p1: ada Ada; product_id=p2: Ada; product_id=p3: ; product_id=p1&customer=ada&skip=1: Ada
			due_from=2026-03-01: ada Ada; due_from=2026-03-02: ada; due_to=2026-03-02: Ada
			due_from=2026-03-01&sort_by=due_date&sort_order=asc: Ada ada
			due_to=2027-01-01&sort_by=due_date: ada Ada
			updated_from=NOW&hidden=any: Ada%20L. ada Ada; updated_from=NOW&status=cancelled: Ada%20L.`},
		{"production-runs", "status", `status=pending,paused: pending paused; order_id=o1: in_progress; order_id=o2:
			product_id=p1: paused in_progress; spool_id=s1: paused in_progress; spool_id=s2: in_progress
			spool_id=s1&order_id=o1: in_progress; spool_id=s1&status=paused: paused
			product_id=p1&sort_order=asc: in_progress paused
			started_from=2026-03-02: paused; started_to=2026-03-02: in_progress
			started_from=2026-03-01: paused in_progress
			started_from=2026-03-01&sort_by=started_at&sort_order=asc: in_progress paused
			completed_to=2026-03-03: paused
			completed_from=2026-03-02T12:00:00Z: paused; completed_from=2026-03-02T12:00:01Z:
			updated_from=NOW&sort_by=updated_at: pending paused in_progress; updated_from=NOW&status=paused: paused`},
		{"spools/s1/usage", "kind", `
			kind=deducted: deducted; kind=edited,created: edited created; created_to=2000-01-01:`},
		{"api-keys", "name", `
			role=viewer,operator: k1; role=viewer,printer: k2 k1; revoked=true: k1; revoked=false: k2; name=K1: k1`},
		{"webhooks", "description", `
			event=order.received: w1; event=production_run.failed: ; disabled=false: w1; disabled=true:`},
		{"stock-levels", "material_type", `material_type=TPU,PLA: TPU PLA; material_type=ABS,TPU: TPU; low=true: TPU`},
		{"users", "role", `role=viewer,operator: ; role=admin: admin; disabled=true: ; email=nobody: `},
	} {
		for query := range strings.FieldsFuncSeq(list.queries, func(r rune) bool { return r == ';' || r == '\n' }) {
			query, names, _ := strings.Cut(strings.TrimSpace(query), ":"+" ")
			query = strings.TrimSuffix(strings.TrimPrefix(query, "?"), ":")
			if query == "" {
				continue
			}
			path := list.path
			query = strings.ReplaceAll(query, "=NOW", "="+begun)
			for name, id := range ids {
				query = strings.ReplaceAll(query+"&", "="+name+"&", "="+id+"&")
				query = strings.TrimSuffix(query, "&")
				path = strings.ReplaceAll(path, "/"+name+"/", "/"+id+"/")
			}
			want := strings.Fields(names)
			for _, limit := range []int{20, 1} { // page by page, where the order has an index
				var got []string
				for after := ""; ; {
					a := c.Get(t, fmt.Sprintf("/api/v1/%s?%s&limit=%d%s", path, query, limit, after)).Want(200)
					for _, item := range a.List("items") {
						name := fmt.Sprint(item.(map[string]any)[list.name])
						got = append(got, strings.ReplaceAll(name, " ", "%20"))
					}
					if total := a.Text("total"); !strings.Contains(query, "skip=") && total != fmt.Sprint(len(want)) {
						t.Errorf("%s: the total is %s, want %d", a.What, total, len(want))
					}
					if a.Value("next") == nil || strings.Contains(query, "skip=") {
						break
					}
					after = "&after=" + a.Text("next")
				}
				testkit.EqualSlices(t, got, want, "%s?%s, limit %d", list.path, query, limit)
			}
		}
	}
	for query, field := range map[string]string{"orders?status=received,": "status", "orders?status=": "status",
		"orders?status=received,x": "status", "orders?due_from=2026-03-01T00:00:00Z": "due_from",
		"production-runs?started_from=yesterday": "started_from", "spools?hidden=any": "hidden",
		"vendors?hidden=any": "hidden", "orders?updated_from=x": "updated_from", "orders?hidden=all": "hidden", "production-runs?order_id=1": "order_id",
		"spools?remaining_below=x": "remaining_below", "webhooks?event=x": "event", "users?role=": "role"} {
		c.Get(t, "/api/v1/"+query).Fields(field)
	}
	// The order by due_date has a next only with a filter on it.
	after := c.Get(t, "/api/v1/orders?limit=1&sort_by=due_date&due_from=2026-01-01").Want(200).Text("next")
	c.Get(t, "/api/v1/orders?sort_by=due_date&after="+after).Fields("after")
}

// A date instead of a time is the beginning of that day in the time zone of the tenant, in every list and export.
func TestDatesInFilters(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	f := w.newFullFixture(t)
	// At each hour, the day of one of the zones is not that of UTC.
	for zone, hours := range map[string]int{"Etc/GMT-14": 14, "Etc/GMT+12": -12} {
		f.admin.Patch(t, "/api/v1/settings", testkit.JSON{"time_zone": zone}).Want(200)
		w.forEach(t, func(op *operation) bool { return slices.Contains(op.query, "created_from") },
			func(t *testing.T, op *operation) {
				path := f.path(t, op.Path()) + "?"
				if strings.HasSuffix(op.Path(), "/export") {
					path += "format=jsonl&"
				}
				first := func(query string) (item map[string]any) {
					body := f.admin.Get(t, path+query).Want(200).Body
					var page struct{ Items []map[string]any }
					if strings.HasSuffix(op.Path(), "/export") {
						line, _, _ := bytes.Cut(body, []byte("\n"))
						body = slices.Concat([]byte(`{"items":[`), line, []byte(`]}`))
					}
					check(t, json.Unmarshal(body, &page))
					if len(page.Items) == 0 {
						return nil
					}
					return page.Items[0]
				}
				for _, name := range op.query {
					field, ok := strings.CutSuffix(name, "_from")
					at, _ := first("")[field+"_at"].(string)
					if !ok || at == "" || !slices.Contains(op.query, field+"_to") {
						continue
					}
					created, err := time.Parse(time.RFC3339Nano, at)
					check(t, err)
					created = created.In(time.FixedZone(zone, hours*3600))
					day, next := created.Format(time.DateOnly), created.AddDate(0, 0, 1).Format(time.DateOnly)
					if first(field+"_from="+day+"&"+field+"_to="+next) == nil {
						t.Errorf("%s: nothing of %s is on %s", name, at, day)
					}
					// Others may be of another day if the test began before midnight.
					for query, later := range map[string]bool{field + "_from=" + next: true, field + "_to=" + day: false} {
						item := first(query)
						if item == nil {
							continue
						}
						at, err := time.Parse(time.RFC3339Nano, item[field+"_at"].(string))
						check(t, err)
						found := at.In(created.Location()).Format(time.DateOnly)
						if later && found < next || !later && found >= day {
							t.Errorf("%s: %s is %v", query, field, item[field+"_at"])
						}
					}
				}
			})
	}
}
