package db_test

import (
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"spoolwright/app"
	"spoolwright/db"
	"spoolwright/db/schema"
	"spoolwright/inventory"
	"spoolwright/testkit"
	"spoolwright/value"
)

// nextMigration is a migration of a release after this one.
const nextMigration = `
	alter table spools add column shelf text collate "C";
	create table shelves (
		tenant_id uuid,
		id uuid not null default uuid_v7(),
		name text collate "C" not null check (length(name) <= 200),
		primary key (tenant_id, id)
	);
	call tenant_table('shelves', 'select, insert');`

// nextDefinitions are those of a release after this one: all have changed, one checks a new column, and one is new.
func nextDefinitions(t *testing.T) []db.Definition {
	t.Helper()
	var next []db.Definition
	for _, d := range db.Schema(app.Definitions).Definitions {
		d.Version++
		d.SQL += "\n-- changed"
		if d.Name == "inventory/rows" {
			const checked = "return coalesce(s.number, 0) > 0"
			if strings.Count(d.SQL, checked) != 1 {
				t.Fatalf("inventory/rows does not contain %q", checked)
			}
			d.SQL = strings.Replace(d.SQL, checked, checked+" and length(s.shelf) <= 10", 1)
		}
		next = append(next, d)
	}
	return append(next, answer(1, 10)...)
}

// nextSchema is that of a release after this one, with the definitions.
func nextSchema(t *testing.T, definitions []db.Definition) schema.Schema {
	t.Helper()
	next, files := db.Schema(nil), fstest.MapFS{}
	next.Definitions = definitions
	names, err := fs.Glob(next.Migrations, "migrations/*.sql")
	testkit.Check(t, err)
	for _, name := range names {
		sql, err := fs.ReadFile(next.Migrations, name)
		testkit.Check(t, err)
		files[name] = &fstest.MapFile{Data: sql}
	}
	files[fmt.Sprintf("migrations/%04d_next.sql", len(names)+1)] = &fstest.MapFile{Data: []byte(nextMigration)}
	next.Migrations = files
	return next
}

// A release after this one migrates the database while programs of this release serve, and while others of both
// releases start. The running programs of this release continue to serve.
func TestNextRelease(t *testing.T) {
	t.Parallel()
	u := migratedDatabase(t)
	d := open(t, db.Config{URL: u.app, MaxConns: 4, Definitions: app.Definitions})
	c := testkit.New(t, testkit.Options{DB: d}, inventory.Routes).Operator(t)
	spool := testkit.JSON{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1000}
	id := c.Post(t, "/api/v1/spools", spool).Want(201).ID()
	var deductions atomic.Int64
	deduct := func() {
		c.Post(t, "/api/v1/spools/"+id+"/deduct", testkit.JSON{"weight_grams": 0.01}).Want(200)
		deductions.Add(1)
	}
	deduct()

	next := nextDefinitions(t)
	var migrating, serving sync.WaitGroup
	var mu sync.Mutex
	var sum schema.Applied
	stop := make(chan struct{})
	serving.Go(func() {
		for !t.Failed() {
			select {
			case <-stop:
				return
			default:
				deduct()
				c.Post(t, "/api/v1/spools", spool).Want(201)
			}
		}
	})
	for range 4 {
		migrating.Go(func() {
			applied, err := nextSchema(t, next).Migrate(t.Context(), u.owner, u.app)
			if err != nil {
				t.Errorf("the next release: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			sum.Migrations += applied.Migrations
			sum.Definitions += applied.Definitions
		})
		migrating.Go(func() {
			applied, err := db.Migrate(t.Context(), u.owner, u.app, app.Definitions)
			if applied != (schema.Applied{}) || err != nil && !strings.Contains(err.Error(), "newer than this program") {
				t.Errorf("this release: %+v, %v", applied, err)
			}
		})
	}
	migrating.Wait()
	close(stop)
	serving.Wait()
	if want := (schema.Applied{Migrations: 1, Definitions: len(next)}); sum != want {
		t.Errorf("%+v were applied, want %+v", sum, want)
	}

	if err := d.Ready(t.Context()); err != nil {
		t.Errorf("this release is not ready: %v", err)
	}
	deduct()
	want := fmt.Sprint(1000 - float64(deductions.Load())/100)
	c.Get(t, "/api/v1/spools/"+id).Want(200).Shows(map[string]string{"remaining_weight_grams": want})
	open(t, db.Config{URL: u.app, MaxConns: 1, Definitions: next})
	super := connect(t, u.super)
	exec(t, super, `update spools set shelf = 'A'`)
	wantRejected(t, super, "spools", tableRow{"tenant_id": "'" + value.NewID() + "'", "id": "'" + value.NewID() + "'",
		"number": "1", "material_type": "'PLA'", "color": "''", "diameter_mm": "1.75", "net_weight_grams": "1",
		"remaining_weight_grams": "1", "shelf": "repeat('x', 11)"}, "a shelf of 11 characters")
	if n := len(queryStrings(t, super,
		`select polname::text from pg_policy where polrelid = 'shelves'::regclass`)); n != 1 {
		t.Errorf("the new table has %d policies, want 1", n)
	}
}

// Migrations that change stored data change that of all tenants: migration 23 writes the values of pieces in stock
// into their ledger, and migration 24 corrects the levels of removed products. Products get numbers.
func TestMigratedData(t *testing.T) {
	t.Parallel()
	u := emptyDatabase(t)
	old, files := db.Schema(nil), fstest.MapFS{}
	names, err := fs.Glob(old.Migrations, "migrations/*.sql")
	testkit.Check(t, err)
	for _, name := range names[:22] {
		sql, err := fs.ReadFile(old.Migrations, name)
		testkit.Check(t, err)
		files[name] = &fstest.MapFile{Data: sql}
	}
	old.Migrations = files
	_, err = old.Migrate(t.Context(), u.owner, u.app)
	testkit.Check(t, err)
	super := connect(t, u.super)
	// Each tenant has a box of a lid and a body. The box and the lid were removed before the body got two levels more.
	// Of the lid, three pieces came for 6, two of unknown cost came after them, and one of these was scrapped.
	exec(t, super, `
		insert into tenants (tenant_id, name) select gen_random_uuid(), 'farm ' || n from generate_series(1, 2) n;
		insert into products (tenant_id, id, name, levels, hidden_at)
			select t.tenant_id, gen_random_uuid(), p.name, p.levels, case when p.removed then now() end
			from tenants t cross join (values ('Box', 2, true), ('Lid', 1, true), ('Body', 2, false), ('Insert', 1, false),
				('Nut', 0, false)) p (name, levels, removed);
		insert into product_components (tenant_id, id, product_id, component_product_id, quantity)
			select p.tenant_id, gen_random_uuid(), p.id, c.id, 1
			from (values ('Box', 'Lid'), ('Box', 'Body'), ('Lid', 'Body'), ('Body', 'Insert'), ('Insert', 'Nut')) x (a, b)
			join products p on p.name = x.a join products c on c.tenant_id = p.tenant_id and c.name = x.b;
		insert into piece_entries (tenant_id, id, product_id, kind, pieces, on_hand, cost, created_at)
			select p.tenant_id, gen_random_uuid(), p.id, e.kind, e.pieces, e.on_hand, e.cost,
				now() + e.on_hand * interval '1 second'
			from products p cross join (values ('produced', 3, 3, 6.0), ('counted', 2, 5, null), ('scrapped', -1, 4, null))
				e (kind, pieces, on_hand, cost)
			where p.name = 'Lid';
		update piece_entries set created_at = now() + interval '1 minute' where kind = 'scrapped';
		insert into product_pieces (tenant_id, product_id, on_hand, value, unvalued)
			select p.tenant_id, p.id, 4, 6, 1 from products p where p.name = 'Lid'`)
	_, err = db.Migrate(t.Context(), u.owner, u.app, app.Definitions)
	testkit.Check(t, err)
	testkit.EqualSlices(t, queryStrings(t, super, `
		select e.kind || ' ' || trim_scale(e.value) || ' ' || e.unvalued || ' ' || trim_scale(e.stock_value) || ' '
			|| e.stock_unvalued || ', ' || count(*)
		from piece_entries e group by e.kind, e.value, e.unvalued, e.stock_value, e.stock_unvalued, e.created_at
		order by e.created_at`),
		[]string{"produced 6 0 6 0, 2", "counted 0 2 6 2, 2", "scrapped 0 -1 6 1, 2"}, "the ledgers of pieces")
	testkit.EqualSlices(t, queryStrings(t, super, `
		select p.name || ' ' || p.levels || ', ' || count(*) from products p group by p.name, p.levels order by p.levels`),
		[]string{"Nut 0, 2", "Insert 1, 2", "Body 2, 2", "Lid 3, 2", "Box 4, 2"}, "the levels of products")
	testkit.EqualSlices(t, queryStrings(t, super, `
		select string_agg(p.number::text, ' ' order by p.number) from products p group by p.tenant_id`),
		[]string{"1 2 3 4 5", "1 2 3 4 5"}, "the numbers of products, by tenant")
}

// A database of the time before the first release is rejected, and stays as it is.
func TestDatabaseBeforeFirstRelease(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 33} {
		u := emptyDatabase(t)
		owner := connect(t, u.owner)
		exec(t, owner, fmt.Sprintf(`
			create table schema_migrations (
				version int primary key, name text not null, applied_at timestamptz not null default now());
			insert into schema_migrations (version, name)
				select n, case n when 1 then '0001_accounts' else 'other' end from generate_series(1, %d) n;
			create table tenants (name text);
			insert into tenants values ('farm')`, version))
		state := func() []string {
			return queryStrings(t, owner, `
				select oid::regclass || ' ' || xmin from pg_class where relnamespace = 'public'::regnamespace
				union all select proname::text from pg_proc where pronamespace = 'public'::regnamespace
				union all select m::text from schema_migrations m union all select name from tenants order by 1`)
		}
		before := state()
		applied, err := db.Migrate(t.Context(), u.owner, u.app, app.Definitions)
		if applied != (schema.Applied{}) || err == nil || strings.Contains(err.Error(), "\n") ||
			!strings.Contains(err.Error(), "before 1.0.0") || !strings.Contains(err.Error(), "pg_dump --data-only") {
			t.Errorf("at migration %d: %+v, %v", version, applied, err)
		}
		testkit.EqualSlices(t, state(), before, "at migration %d: the database", version)
	}
}
