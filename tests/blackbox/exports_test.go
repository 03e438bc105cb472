package blackbox_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
	"spoolwright/transfer"
)

// Each list with an export beside it has a filter that selects one of two resources, and one that selects the hidden
// one. The export takes all filters of the list, selects the same resources, and rejects other parameters.
func TestExportFilters(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	c := w.api.Operator(t)
	type j = testkit.JSON
	spool := func(color, material string) j {
		return j{"material_type": material, "color": color, "diameter_mm": 1.75, "net_weight_grams": 1000}
	}
	filament := func(color, material string) j {
		return j{"material_type": material, "color": color, "diameter_mm": 1.75, "vendor": "V " + color}
	}
	pairs := map[string]struct {
		bodies  [3]j
		filters []string // each selects the first one
	}{
		"/api/v1/spools": {[3]j{spool("Red", "PLA"), spool("Blue", "ABS"), spool("Red", "PLA")},
			[]string{"material_type=PLA,PETG", "color=red", "search=red", "number=1",
				"material_type=PLA&archived=any"}},
		"/api/v1/printers": {[3]j{{"name": "A", "status": "retired"}, {"name": "B"}, {"name": "C"}},
			[]string{"name=a", "number=1", "status=retired", "search=a"}},
		"/api/v1/vendors": {[3]j{{"name": "A", "external_id": "1"}, {"name": "B"}, {"name": "C"}},
			[]string{"name=a", "number=1", "external_id=1", "search=a"}},
		"/api/v1/filaments": {[3]j{filament("Red", "PLA"), filament("Blue", "ABS"), filament("Green", "PC")},
			[]string{"material_type=PLA,PETG", "color=red", "search=red", "number=1", "vendor=v+red"}},
		"/api/v1/products": {[3]j{{"name": "A", "sku": "A", "category": "x"}, {"name": "B"}, {"name": "A"}},
			[]string{"sku=A", "category=X", "search=a"}},
		"/api/v1/orders": {[3]j{{"customer": "Ada", "due_date": "2024-01-01"}, {"status": "done"},
			{"customer": "Ada"}},
			[]string{"customer=ada", "status=received,cancelled", "due_to=2024-02-01", "search=ada"}},
		"/api/v1/production-runs": {[3]j{
			{"printer_name": "X", "status": "failed", "started_at": "2024-01-01T00:00:00Z"}, {},
			{"status": "completed"}},
			[]string{"printer_name=x", "status=failed,paused", "status=failed", "started_to=2024-02-01", "search=x"}},
	}
	for _, op := range w.operations {
		if !isExport(op) || op.Path() == "/api/v1/reports/usage/export" || op.Endpoint.File != "" {
			continue
		}
		path := strings.TrimSuffix(op.Path(), "/export")
		list := w.operations[slices.IndexFunc(w.operations,
			func(o *operation) bool { return o.Pattern == "GET "+path })]
		for _, name := range list.query {
			paging := slices.Contains([]string{"skip", "limit", "sort_by", "sort_order", "after"}, name)
			if slices.Contains(op.query, name) == paging {
				t.Errorf("%s: that it has the parameter %s of the list is %t", op.Pattern, name, paging)
			}
		}
		pair, ok := pairs[path]
		if !ok {
			t.Errorf("%s has no filters in this test", op.Pattern)
			continue
		}
		var ids []string
		for _, body := range pair.bodies {
			ids = append(ids, c.Post(t, path, body).Want(201).ID())
		}
		hidden := 1
		c.Delete(t, path+"/"+ids[2]).Want(204)
		if !slices.Contains([]string{"/api/v1/spools", "/api/v1/products", "/api/v1/orders"}, path) {
			hidden = 0 // nothing names it: it is deleted
		}
		for _, filter := range append(pair.filters, "hidden=true", "", "created_from=2000-01-01",
			"created_from=2100-01-01") {
			want := []string{}
			for _, item := range c.Get(t, path+"?sort_order=asc&"+filter).Want(200).List("items") {
				want = append(want, item.(map[string]any)["id"].(string))
			}
			if n := len(want); slices.Contains(pair.filters, filter) && (n != 1 || want[0] != ids[0]) ||
				filter == "hidden=true" && n != hidden {
				t.Errorf("%s?%s selects %v of %v", path, filter, want, ids)
			}
			got := []string{}
			lines := c.Get(t, op.Path()+"?format=jsonl&"+filter).Want(200)
			for line := range strings.Lines(string(lines.Body)) {
				var item struct{ ID string }
				check(t, json.Unmarshal([]byte(line), &item))
				got = append(got, item.ID)
			}
			rows := c.Get(t, op.Path()+"?"+filter).Want(200)
			n := 0
			for _, id := range ids {
				n += strings.Count("\n"+string(rows.Body), "\n"+id+",")
			}
			if !slices.Equal(got, want) || n != len(want) ||
				lines.Header.Get("Content-Type") != "application/jsonl; charset=utf-8" {
				t.Errorf("%s?%s exports %v and %d rows, the list has %v", path, filter, got, n, want)
			}
		}
		c.Get(t, op.Path()+"?format=json").Fields("format")
		c.Get(t, op.Path()+"?limit=1").Fields("limit")
	}
	// Removed spools are in the export of the ledger.
	for query, want := range map[string]int{"": 3, "kind=created": 3, "kind=created,run": 3, "kind=deducted": 0} {
		lines := c.Get(t, "/api/v1/reports/usage/export?format=jsonl&"+query).Want(200)
		testkit.Equal(t, strings.Count(string(lines.Body), "\n"), want, "entries in the export ?%s", query)
	}
	c.Get(t, "/api/v1/reports/usage/export?format=xml&kind=lost").Fields("format", "kind")
}

// testExportsOfAPI checks that the exports of the API are those of the commands.
func testExportsOfAPI(t *testing.T, p program) {
	testkit.Rig(t)
	url := ownerURL(testkit.MigratedDatabase(t))
	env := []string{"DATABASE_URL=" + url, secretEnv, "LOG_LEVEL=error"}
	p.addUser(t, env, "farm", "ada@farm.example", "admin")
	c := p.start(t, env[:2])
	token := c.login(t, "ada@farm.example", testPassword)
	post := func(path, body string) {
		t.Helper()
		c.create(t, token, path, json.RawMessage(body))
	}
	for _, more := range []string{"", `,"archived":true`} {
		post("/api/v1/spools", `{"material_type":"PLA","color":"Red","diameter_mm":1.75,"net_weight_grams":1000`+
			more+`}`)
	}
	post("/api/v1/products", `{"name":"A","sku":"A",
		"materials":[{"material_type":"PLA","color":"Red","weight_grams":1}]}`)
	post("/api/v1/orders", `{"customer":"Ada, \"B\"","items":[{"sku":"A"}]}`)
	post("/api/v1/production-runs", `{"printer_name":"MK4","notes":"two\nlines"}`)
	post("/api/v1/filaments", `{"vendor":"Polymaker","material_type":"PLA","color":"Red","diameter_mm":1.75,`+
		`"color_hexes":["#FF0000","#00FF00"]}`)
	for resources, path := range map[string]string{"spools": "spools", "vendors": "vendors", "filaments": "filaments",
		"products": "products", "orders": "orders", "production-runs": "production-runs", "usage": "reports/usage"} {
		for format, rows := range map[string]int{"csv": 2, "jsonl": 1} {
			want := p.succeeds(t, "", env, "export", resources, "--format", format)
			a := c.must(t, "GET", fmt.Sprintf("/api/v1/%s/export?format=%s", path, format), bearer(token), nil)
			if string(a.body) != want || strings.Count(want, "\n") < rows {
				t.Errorf("%s as %s: the API returns %d %s\nthe command %s", resources, format, a.status, a.body, want)
			}
		}
	}
}

// An exported file that comes back changes nothing, with or without what its check says about the columns: also texts
// that stand for an empty cell in the lists of other programs.
func TestExportsComeBack(t *testing.T) {
	t.Parallel()
	c := newUnlimitedAPI(t).api.Operator(t)
	type j = testkit.JSON
	csv := c.With("Content-Type", "text/csv")
	for _, text := range []string{"-", "unknown", "null", " n/a ", "\u00a0x\u200b", `="0012"`, "a\nb"} {
		vendor := c.Post(t, "/api/v1/vendors", j{"name": "V " + text, "notes": text, "external_id": text}).Want(201).ID()
		c.Post(t, "/api/v1/filaments", j{"vendor_id": vendor, "material_type": "PLA", "color": text, "diameter_mm": 1.75,
			"name": text, "notes": text, "article_number": text}).Want(201)
		c.Post(t, "/api/v1/spools", j{"material_type": "PLA", "color": text, "diameter_mm": 1.75, "net_weight_grams": 1000,
			"brand": text, "notes": text, "location": text, "lot_number": text, "supplier": text}).Want(201)
		c.Post(t, "/api/v1/products", j{"name": text, "description": text, "notes": text, "category": text,
			"location": text, "materials": []j{{"material_type": "PLA", "color": text, "weight_grams": 1,
				"notes": text}}}).Want(201)
	}
	for _, kind := range []string{"vendors", "filaments", "spools", "products"} {
		path := "/api/v1/" + kind
		file := string(c.Get(t, path+"/export").Want(200).Body)
		unchanged := map[string]string{"created": "0", "updated": "0", "unchanged": "7", "invalid": "0"}
		check := csv.Post(t, path+"/import/check?mode=upsert", file).Want(200).Shows(unchanged)
		mapping := map[string]any{}
		for i := range check.List("columns") {
			mapping[check.Text(fmt.Sprintf("columns.%d.title", i))] = check.Value(fmt.Sprintf("columns.%d.field", i))
		}
		encoded, err := json.Marshal(mapping)
		testkit.Check(t, err)
		for _, query := range []string{"mode=upsert", "mode=upsert&mapping=" + url.QueryEscape(string(encoded)),
			"mode=update"} {
			csv.Post(t, path+"/import?"+query, file).Want(200).Shows(unchanged)
		}
		testkit.Equal(t, string(c.Get(t, path+"/export").Want(200).Body), file, "the export of %s after its import", kind)
	}
}

// Each import takes a spreadsheet, and reads it as the file with the same cells.
func TestImportsTakeWorkbooks(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	f := w.newFixture(t)
	checked := 0
	for _, op := range w.operations {
		if op.media != "text/csv" || !strings.HasSuffix(op.Path(), "/check") {
			continue
		}
		checked++
		sheet, err := transfer.ReadSheet([]byte(op.file), "", 100, func(titles []string) int { return len(titles) })
		testkit.Check(t, err)
		var rows [][]any
		for _, row := range sheet.Rows {
			var cells []any
			for _, text := range transfer.Texts(row.Cells) {
				if number, err := strconv.ParseFloat(text, 64); err == nil {
					cells = append(cells, number)
				} else {
					cells = append(cells, text)
				}
			}
			rows = append(rows, cells)
		}
		file := testkit.Workbook(t, testkit.Worksheet{Name: "A", Rows: rows})
		want := f.admin.With("Content-Type", "text/csv").Post(t, op.Path(), op.file).Want(200)
		got := f.admin.With("Content-Type", transfer.WorkbookMedia).Post(t, op.Path(), file).Want(200)
		names := []string{"created", "invalid"}
		for i := range want.List("columns") {
			names = append(names, fmt.Sprintf("columns.%d.title", i), fmt.Sprintf("columns.%d.field", i))
		}
		for _, name := range names {
			testkit.Equal(t, got.Text(name), want.Text(name), "%s: %s", op.Path(), name)
		}
		testkit.Equal(t, want.Text("created") != "0", true, "%s creates something", op.Path())
		f.admin.With("Content-Type", transfer.WorkbookMedia).
			Post(t, strings.TrimSuffix(op.Path(), "/check")+"?dry_run=true", file).Want(200)
	}
	testkit.Equal(t, checked, 5, "imports")
}

// A file of all columns of orders, each with a value, makes the orders in another farm.
func TestExportOfOrdersIsImported(t *testing.T) {
	t.Parallel()
	api := newUnlimitedAPI(t).api
	type j = testkit.JSON
	c, other := api.Operator(t), api.Operator(t)
	product := c.NewProduct(t, "HOOK", 10)
	order := c.Post(t, "/api/v1/orders", j{"source": "shop", "reference": "1", "customer": "Ada",
		"due_date": "2030-01-01", "notes": "gift", "items": []j{{"product_id": product, "quantity": 3, "unit_price": 2}}}).
		Want(201)
	c.Post(t, "/api/v1/production-runs", j{"status": "completed", "items": []j{{"product_id": product, "quantity": 3,
		"order_item_id": order.Text("items.0.id")}}}).Want(201)
	c.Post(t, "/api/v1/orders/"+order.ID()+"/deliver", j{"items": []j{{"id": order.Text("items.0.id"), "quantity": 1}}}).
		Want(200)
	rows := strings.SplitN(string(c.Get(t, "/api/v1/orders/export").Want(200).Body), "\n", 2)
	// Columns that are empty in this order have a value, too.
	titles, cells := strings.Split(strings.TrimSpace(rows[0]), ","), strings.Split(strings.TrimSpace(rows[1]), ",")
	testkit.Equal(t, len(cells), len(titles), "cells of %q", rows[1])
	for i, title := range titles {
		if cells[i] == "" && !strings.HasPrefix(title, "unassigned_lines.") {
			cells[i] = "2"
		}
	}
	other.NewProduct(t, "HOOK", 10)
	file := strings.Join(titles, ",") + "\n" + strings.Join(cells, ",") + "\n"
	other.With("Content-Type", "text/csv").Post(t, "/api/v1/orders/import", file).Want(200).
		Shows(map[string]string{"created": "1"})
	other.Get(t, "/api/v1/orders").Want(200).Shows(map[string]string{"items.0.source": "shop", "items.0.reference": "1",
		"items.0.customer": "Ada", "items.0.due_date": "2030-01-01"})
}
