package blackbox_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"spoolwright/db"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

const (
	// plansRows is the number of rows that TestPlans adds to each large table, in two parts or, in CI, in three.
	plansRows = 20_000

	// plansExported is the first part. An export reads all rows, so a table that is read again for each row costs the
	// square of their number.
	plansExported = 6_000

	// plansExportBlocks is the maximum number of blocks that an export may read for each row: the parts of a row are
	// found by index. Then a table has more than 90 blocks.
	plansExportBlocks = 90

	// plansBlocks is the maximum number of blocks that a request may read. With all rows, an index that is read from
	// the tenant's first row to its last one has more than 160 blocks, a table more than 300.
	plansBlocks = 160

	// plansWriteBlocks is plansBlocks for a write, which reads up to 30 blocks besides.
	plansWriteBlocks = 190

	// plansRunBlocks is the number of blocks that a list of runs or orders may read for each of its 20 rows: the first
	// products, spools and orders of a run, and the pieces of an order, are found by index.
	plansRunBlocks = 24

	// plansEndBlocks is plansBlocks for a request that ends a run or takes its end back, or that moves pieces. Such a
	// request reads more than 160 blocks without an index that is read from end to end, and more than this with one.
	plansEndBlocks = 380

	// plansFirstBlocks is plansBlocks for a list of tables that have just grown. Most rows of products are not in its list:
	// they are plates, and variants of them.
	plansFirstBlocks = 8 * plansRows

	// plansOneBlocks is plansBlocks for a GET of one resource. An index has more blocks with half of the rows.
	plansOneBlocks = 50

	// plansFirstOneBlocks is plansOneBlocks for tables that have just grown, and that the service has not analyzed since.
	// PostgreSQL then reads a table that had one block when it was analyzed. In a table that was never analyzed, all
	// indexes of a row cost the same, so that it may choose one of another order.
	plansFirstOneBlocks = 500
)

// planFilters are queries of lists, by operation, that few of the rows match. (The total of a list with filters counts
// all rows that match them.)
var planFilters = map[string][]string{
	"listSpools": {"filament_id=018d0c4f-7a00-7c3e-8b5a-1f2e3d4c5b6a",
		"material_type=ABS,TPU", "location=x", "supplier=x", "lot_number=x",
		"created_from=2100-01-01", "created_from=2100-01-01&archived=any&material_type=PLA,PETG", "number=1",
		"archived=true",
		"brand=x", "color=x", "archived=true&in_stock=false", "archived=any&material_type=PC",
		"updated_from=2100-01-01T00:00:00Z", "updated_from=2100-01-01T00:00:00Z&hidden=any&sort_by=updated_at"},
	"listPrinters": {"name=x", "number=1", "status=retired", "created_from=2100-01-01",
		"spool_id=018d0c4f-7a00-7c3e-8b5a-1f2e3d4c5b6a",
		"updated_from=2100-01-01T00:00:00Z", "updated_from=2100-01-01T00:00:00Z&hidden=any&sort_by=updated_at"},
	"listVendors": {"name=x", "number=1", "external_id=x", "created_from=2100-01-01",
		"updated_from=2100-01-01T00:00:00Z", "updated_from=2100-01-01T00:00:00Z&hidden=any&sort_by=updated_at"},
	"listFilaments": {"vendor=x", "vendor_id=018d0c4f-7a00-7c3e-8b5a-1f2e3d4c5b6a", "material_type=ABS,TPU",
		"color=x", "number=1", "article_number=x", "external_id=x", "created_from=2100-01-01",
		"updated_from=2100-01-01T00:00:00Z", "updated_from=2100-01-01T00:00:00Z&hidden=any&sort_by=updated_at"},
	"listProducts": {"sku=x", "category=x", "location=x", "component_product_id=018d0c4f-7a00-7c3e-8b5a-1f2e3d4c5b6a",
		"created_from=2100-01-01"},
	"listOrders": {"status=received,cancelled", "status=cancelled", "reference=x", "customer=x", "source=x",
		"due_from=2100-01-01",
		"sort_by=due_date&sort_order=asc&due_from=2000-01-01", "product_id=018d0c4f-7a00-7c3e-8b5a-1f2e3d4c5b6a",
		"created_from=2100-01-01&status=done,cancelled", "unassigned=true",
		"updated_from=2100-01-01T00:00:00Z", "updated_from=2100-01-01T00:00:00Z&hidden=any&sort_by=updated_at"},
	"listProductionRuns": {"status=paused,cancelled", "status=paused", "printer_name=x", "started_from=2100-01-01",
		"completed_from=2100-01-01&completed_to=2100-02-01", "sort_by=started_at&started_from=2100-01-01",
		"order_id=018d0c4f-7a00-7c3e-8b5a-1f2e3d4c5b6a", "product_id=018d0c4f-7a00-7c3e-8b5a-1f2e3d4c5b6a",
		"spool_id=018d0c4f-7a00-7c3e-8b5a-1f2e3d4c5b6a&status=failed", "created_from=2100-01-01", "needs=start",
		"updated_from=2100-01-01T00:00:00Z", "updated_from=2100-01-01T00:00:00Z&hidden=any&sort_by=updated_at"},
	"listSpoolUsage": {"kind=deducted,measured&created_from=2100-01-01"},
}

func isGet(op *operation) bool   { return op.Method() == "GET" }
func isWrite(op *operation) bool { return op.Method() != "GET" }

// isOne reports whether the operation reads one resource.
func isOne(op *operation) bool { return op.Method() == "GET" && strings.HasSuffix(op.Path(), "}") }

// isList reports whether the operation reads some rows of several resources.
func isList(op *operation) bool { return isGet(op) && !isOne(op) && !isExport(op) }

// isExport reports whether the operation reads all rows.
func isExport(op *operation) bool { return strings.HasSuffix(op.Path(), "/export") }

// plansOfRows returns the number of blocks that a list may read besides, for parts of its rows.
func plansOfRows(op *operation) int {
	if op.Doc.ID == "listProductionRuns" || op.Doc.ID == "listOrders" {
		return 20 * plansRunBlocks
	}
	return 0
}

// TestPlans checks that statements read few blocks although the tables grow. All operations run while the tables are
// small, until PostgreSQL makes plans that it keeps for all parameters. Then the tables grow, first in a moment in
// which the service has not analyzed them yet, and then after it has, as it does every 15 seconds. In CI, they grow
// once more, and the same is done with tables that were analyzed while they were small. Unless rigs run, only the
// operations on spools and vendors run.
func TestPlans(t *testing.T) {
	t.Parallel()
	for _, analyzed := range []bool{false, true}[:testkit.InCI(1, 2)] {
		t.Run(fmt.Sprintf("analyzed when small: %t", analyzed), func(t *testing.T) {
			t.Parallel()
			testPlans(t, analyzed)
		})
	}
}

// needRareFilament makes the product or order of a path to its availability or plan need filament of which there is
// one spool. They read all spools of a filament, all open orders and all unfinished runs.
func (f *fixture) needRareFilament(t *testing.T, path string) {
	t.Helper()
	owner := path[:strings.LastIndexByte(path, '/')]
	if strings.Contains(owner, "/products/") {
		f.admin.Post(t, owner+"/materials", testkit.JSON{"material_type": "ABS", "color": "Rare", "weight_grams": 1}).
			Want(201)
		return
	}
	product := f.admin.Post(t, "/api/v1/products", testkit.JSON{"name": "Rare", "materials": []testkit.JSON{
		{"material_type": "ABS", "color": "Rare", "weight_grams": 1}}}).Want(201).ID()
	f.admin.Post(t, owner+"/items", testkit.JSON{"product_id": product}).Want(201)
	f.admin.Patch(t, owner, testkit.JSON{"status": "received"}).Want(200)
}

func testPlans(t *testing.T, analyzed bool) {
	cluster := testkit.Cluster(t, nil)
	d, err := db.Open(t.Context(), db.Config{URL: cluster.AppURL(), MaxConns: 1})
	check(t, err)
	t.Cleanup(d.Close)
	w := newTestAPI(t, testkit.Options{DB: d, PerMinute: 1_000_000, PerHour: 10_000_000})
	super, err := pgx.Connect(t.Context(), cluster.SuperURL())
	check(t, err)
	t.Cleanup(func() { super.Close(context.Background()) })
	exec := func(sql string) {
		t.Helper()
		check(t, super.PgConn().Exec(t.Context(), sql).Close())
	}

	large := w.newFixture(t)
	bound := db.As(t.Context(), db.Actor{Tenant: large.admin.Actor.Tenant})
	var operations []*operation
	resources := []string{"spools", "vendors", "printers", "filaments", "products", "production-runs", "orders"}
	for _, op := range w.operations {
		name, _, _ := strings.Cut(strings.TrimPrefix(op.Path(), "/api/v1/"), "/")
		if slices.Contains(resources[:testkit.InRigs(2, len(resources))], name) {
			operations = append(operations, op)
		}
	}
	// each runs the wanted operations with resources of their own. Of a list, it also reads the second page with a
	// cursor.
	each := func(wanted func(op *operation) bool, run func(op *operation, do func())) {
		t.Helper()
		for _, op := range operations {
			if !wanted(op) {
				continue
			}
			f := &fixture{testAPI: w, tenant: large.tenant, admin: large.admin,
				ids: map[string]string{}, created: map[string]int{}, bodies: map[*operation]map[string]any{}}
			path := f.path(t, op.Path())
			if endsRun(path) {
				f.path(t, "/api/v1/production-runs/{id}/materials/{material_id}")
			}
			if strings.HasSuffix(op.Path(), "}/availability") || op.Doc.ID == "planOrder" {
				f.needRareFilament(t, path)
			}
			if op.Doc.ID == "listProductCosts" {
				path += "?ids=" + idOf(f.path(t, "/api/v1/products/{id}"))
			}
			if op.Doc.ID == "getPickList" {
				order := f.path(t, "/api/v1/orders/{id}")
				f.needRareFilament(t, order+"/availability")
				path += "?ids=" + idOf(order)
			}
			if op.Doc.ID == "importVendors" {
				path += "?mode=upsert" // names are unique
			}
			body := f.body(t, op)
			for _, name := range []string{"sku", "reference"} {
				if body[name] != nil {
					body[name] = value.NewID() // unique
				}
			}
			// The price of filament is the average of its spools, and this test has many spools of the usual one.
			if op.Doc.ID == "importProducts" {
				rare := *op
				rare.file = strings.ReplaceAll(op.file, "PLA,Black", "ABS,Rare")
				op = &rare
			}
			if op.Doc.ID == "createProduct" {
				body["materials"] = []testkit.JSON{{"material_type": "ABS", "color": "Rare", "weight_grams": 1}}
			}
			next := ""
			run(op, func() {
				t.Helper()
				a := f.do(t, f.admin, op, path, body)
				if a.Status >= 300 {
					t.Fatalf("%s: %d %s", a.What, a.Status, a.Body)
				}
				if slices.Contains(op.query, "after") {
					next, _ = a.Value("next").(string)
				}
			})
			if next != "" {
				run(op, func() { t.Helper(); f.admin.Get(t, path+"?after="+next).Want(200) })
			}
		}
	}
	filters := func(run func(op *operation, do func())) {
		t.Helper()
		for _, op := range operations {
			path := large.path(t, op.Path())
			for _, query := range planFilters[op.Doc.ID] {
				if plansOfRows(op) > 0 {
					query += "&limit=2" // so that the parts of the rows do not hide the blocks of the filter
				}
				run(op, func() { t.Helper(); t.Log(query); large.admin.Get(t, path+"?"+query).Want(200) })
			}
		}
	}
	warm := func() {
		const times = 6 // from the sixth execution on, PostgreSQL keeps a plan
		each(isGet, func(_ *operation, do func()) {
			for range times {
				do()
			}
		})
		for range times {
			each(isWrite, func(_ *operation, do func()) { do() })
		}
	}
	warm()
	if analyzed {
		exec(`analyze`)
		warm()
	}
	fill := func(rows int) {
		t.Helper()
		exec(fmt.Sprintf(`
			select set_config('app.tenant_id', (select tenant_id::text from spools limit 1), false);
			set session_replication_role = replica; -- no triggers
			insert into spools (id, number, material_type, color, brand, diameter_mm, net_weight_grams,
					remaining_weight_grams)
				select gen_random_uuid(), last + n, 'PLA', 'Black', 'Brand', 1.75, 1000, 1000
				from generate_series(1, %[1]d) n, (select max(number) as last from spools) numbered;
			insert into spool_usage (spool_id, kind, before_grams, after_grams)
				select id, 'created', 0, 1000 from spools;
			insert into vendors (id, number, name) select gen_random_uuid(), last + n, 'Name ' || last + n
				from generate_series(1, %[1]d) n, (select coalesce(max(number), 0) as last from vendors) numbered;
			insert into printers (id, number, name) select gen_random_uuid(), last + n, 'Name ' || last + n
				from generate_series(1, %[1]d) n, (select coalesce(max(number), 0) as last from printers) numbered;
			insert into filaments (id, number, material_type, color, diameter_mm)
				select gen_random_uuid(), last + n, 'PLA', 'Black', 1.75
				from generate_series(1, %[1]d) n, (select coalesce(max(number), 0) as last from filaments) numbered;
			insert into counters (kind, last, total)
				select 'spools', max(number), count(*) from spools
				union all select 'vendors', max(number), count(*) from vendors
				union all select 'filaments', max(number), count(*) from filaments
				union all select 'printers', max(number), count(*) from printers
				on conflict (tenant_id, kind) do update set last = excluded.last, total = excluded.total;
			insert into products (id, name) select gen_random_uuid(), 'Name' from generate_series(1, %[1]d);
			insert into product_materials (id, product_id, material_type, color, weight_grams)
				select gen_random_uuid(), id, 'PLA', 'Black', 1 from products;
			insert into product_components (id, product_id, component_product_id)
				select gen_random_uuid(), id, lag(id) over (order by id) from products where name = 'Name' offset 1
				on conflict do nothing;
			insert into production_runs (id, status, failure_reason)
				select gen_random_uuid(), 'completed', case when n %% 100 = 1 then 'other' end
				from generate_series(1, %[1]d) n;
			insert into orders (id, status, content)
				select gen_random_uuid(), 'done', sha256('') from generate_series(1, %[1]d);
			insert into order_items (id, order_id, product_id, quantity)
				select gen_random_uuid(), o.id, p.id, 1
				from orders o cross join (select id from products where name = 'Name' limit 1) p where o.status = 'done';
			insert into run_items (id, run_id, product_id, quantity, failure_reason)
				select gen_random_uuid(), r.id, p.id, 1, r.failure_reason
				from production_runs r cross join (select id from products where name = 'Name' limit 1) p
				where r.status = 'completed';
			insert into run_materials (id, run_id, spool_id)
				select gen_random_uuid(), r.id, s.id from production_runs r cross join (select id from spools limit 1) s
				where r.status = 'completed' on conflict do nothing;
			-- PostgreSQL reads the first block of an index that is empty for each statement that it plans, and remembers
			-- that of another one.
			insert into spool_usage (spool_id, kind, run_id, printer_id, before_grams, after_grams, used_at, weighing_id,
					reverses_id, moves_id)
				select s.id, kind, run, p.id, 0, 0, now(), gen_random_uuid(), run, case when run is null then s.id end
				from (select id from spools order by random() limit 1) s, (select id from printers limit 1) p,
					(values ('printed', null), ('run', gen_random_uuid())) entry (kind, run);
			insert into production_runs (id, status, printer_id, deducted_at, hidden_at)
				select gen_random_uuid(), 'completed', id, now(), now() from printers limit 1`, rows))
	}

	// read returns the number of blocks that have been read of each table and index.
	read := func() map[string]int {
		t.Helper()
		check(t, d.Read(bound, db.SQL(`select pg_stat_force_next_flush()::text`)))
		all := map[string]int{}
		rows, err := super.Query(t.Context(), `
			select relname, heap_blks_hit + heap_blks_read from pg_statio_user_tables union all
			select indexrelname, idx_blks_hit + idx_blks_read from pg_statio_user_indexes`)
		check(t, err)
		var name string
		var blocks int
		_, err = pgx.ForEachRow(rows, []any{&name, &blocks}, func() error { all[name] = blocks; return nil })
		check(t, err)
		return all
	}
	// vacuums returns how often autovacuum has worked, after it has finished.
	vacuums := func() (n int) {
		t.Helper()
		testkit.Eventually(t, "autovacuum has finished", func() bool {
			var running bool
			check(t, super.QueryRow(t.Context(), `select pg_stat_force_next_flush()::text,
				exists (select from pg_stat_activity where backend_type = 'autovacuum worker')`).Scan(nil, &running))
			return !running
		})
		check(t, super.QueryRow(t.Context(), `
			select sum(vacuum_count + autovacuum_count + autoanalyze_count)::int from pg_stat_all_tables`).Scan(&n))
		return n
	}
	measure := func(op *operation, do func(), most int) {
		t.Helper()
		if isExport(op) {
			most = plansExportBlocks * plansExported
		}
		if strings.HasSuffix(op.Path(), "/availability") || op.Doc.ID == "planOrder" ||
			op.Doc.ID == "replanProductionRun" || op.Doc.ID == "moveProductionRun" || op.Doc.ID == "getPickList" {
			most = max(most, plansRows) // it reads all open orders and unfinished runs of this test, or all printers
		}
		if op.Doc.ID == "assignOrderLine" {
			most = max(most, plansEndBlocks) // it changes an order, and finds others
		}
		if op.Doc.ID == "addProductVariants" {
			most = max(most, 2*plansEndBlocks) // it copies a product with its bill and plates, and computes their costs
		}
		if (changesEnd(op.Path()) || strings.HasSuffix(op.Path(), "/complete") ||
			op.Doc.ID == "failProductionRun" || op.Doc.ID == "cancelProductionRun" || op.Doc.ID == "deliverOrder") &&
			most > 0 {
			most = max(most, plansEndBlocks)
		}
		if op.Doc.ID == "getOrder" && most == plansFirstOneBlocks {
			most *= 2 // until the tables are analyzed, it finds the pieces that wait for it among those of all open orders
		}
		if op.Doc.ID == "listOrderAvailability" {
			most = max(most, 3*plansRows) // it reads the spools of the usual filament
		}
		if slices.Contains([]string{"getProduct", "getProductByNumber", "createProduct", "updateProduct",
			"restoreProduct"}, op.Doc.ID) {
			analyzed := most != plansFirstOneBlocks
			most = plansRows // it reads the items of all open orders and unfinished runs
			if !analyzed {
				most *= 2 // and those of others, until the tables are analyzed
			}
		}
		if op.Doc.ID == "createProductBatch" || op.Doc.ID == "updateProducts" {
			most = plansRows // it does so for each product
		}
		if op.Doc.ID == "createProductFromFile" {
			most = plansRows // it also compares 1,000 filaments and 1,000 spools
		}
		if op.Doc.ID == "createProductionRunFromFile" {
			most = 5000 // it also reads what unfinished runs reserve of these spools
		}
		if op.Doc.ID == "createFilamentsFromSpools" {
			most = 100 * 2000 // it changes 2,000 spools
		}
		vacuumed := vacuums()
		before := read()
		do()
		if vacuums() != vacuumed {
			return // the blocks that autovacuum has read are not those of the request
		}
		total, detail := 0, ""
		for name, blocks := range read() {
			if n := blocks - before[name]; n > 0 {
				total += n
				detail += fmt.Sprintf(" %s %d", name, n)
			}
		}
		t.Logf("%s reads %d blocks", op.Pattern, total)
		if total > most {
			t.Errorf("%s reads %d blocks, want at most %d:%s", op.Pattern, total, most, detail)
		}
	}
	growths := []int{plansExported, plansRows - plansExported}
	if testkit.InCI(0, 1) == 1 {
		growths = []int{plansExported, plansRows/2 - plansExported, plansRows / 2}
	}
	for _, rows := range growths {
		fill(rows)
		// Until the service has analyzed the tables, a resource reads a table or an index at most once, and a list reads
		// each row a few times.
		each(isOne, func(op *operation, do func()) { measure(op, do, plansFirstOneBlocks) })
		each(isList, func(op *operation, do func()) { measure(op, do, plansFirstBlocks) })
		check(t, d.Analyze(t.Context()))
		if rows == plansExported {
			each(isExport, func(op *operation, do func()) { measure(op, do, 0) })
			continue
		}
		each(isOne, func(op *operation, do func()) { measure(op, do, plansOneBlocks) })
		each(isList, func(op *operation, do func()) { measure(op, do, plansBlocks+plansOfRows(op)) })
		filters(func(op *operation, do func()) { measure(op, do, plansBlocks) })
	}
	check(t, d.Analyze(t.Context()))
	each(func(op *operation) bool { return !isExport(op) },
		func(op *operation, do func()) { measure(op, do, plansWriteBlocks+plansOfRows(op)) })
}
