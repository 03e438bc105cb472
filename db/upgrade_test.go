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
	"spoolwright/tests/testkit"
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
			sum.Completed += applied.Completed
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
	all := schema.Applied{Migrations: 1, Definitions: len(next), Completed: latestMigration(t) + 1}
	if sum != all {
		t.Errorf("%+v were applied, want %+v", sum, all)
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

// A database whose migrations had other texts, as programs before the first release made, is rejected, and stays as it
// is. The first of them stored no hash.
func TestDatabaseBeforeFirstRelease(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(db.Schema(nil).Migrations, "migrations/*.sql")
	testkit.Check(t, err)
	list := func(names []string, hash string) string {
		var rows []string
		for i, name := range names {
			name = strings.TrimSuffix(strings.TrimPrefix(name, "migrations/"), ".sql")
			rows = append(rows, fmt.Sprintf("(%d, '%s'%s)", i+1, name, hash))
		}
		return "insert into schema_migrations values " + strings.Join(rows, ", ")
	}
	for name, sql := range map[string]string{
		"the names of another time": list([]string{"0001_accounts", "0002_spools"}, ""),
		"these names":               list(names, ""),
		"more migrations":           list(append(names, "0008_pieces", "0009_shops", "0010_plates"), ""),
		"other texts":               `alter table schema_migrations add sha256 text; ` + list(names, ", 'the hash'"),
		"one other text": `alter table schema_migrations add sha256 text; ` + list(names, ", 'the hash'") +
			strings.Join(hashUpdates(t, names[:len(names)-1]), ""),
	} {
		u := emptyDatabase(t)
		owner := connect(t, u.owner)
		exec(t, owner, `
			create table schema_migrations (version int primary key, name text not null);
			create table tenants (name text);
			insert into tenants values ('farm');`+sql)
		state := func() []string {
			return queryStrings(t, owner, `
				select oid::regclass || ' ' || xmin from pg_class where relnamespace = 'public'::regnamespace
				union all select proname::text from pg_proc where pronamespace = 'public'::regnamespace
				union all select m::text from schema_migrations m union all select name from tenants order by 1`)
		}
		before := state()
		applied, err := db.Migrate(t.Context(), u.owner, u.app, app.Definitions)
		if applied != (schema.Applied{}) || err == nil || strings.Contains(err.Error(), "\n") ||
			!strings.Contains(err.Error(), "before 1.0.0") || !strings.Contains(err.Error(), "a new DATA_DIR, or drop") {
			t.Errorf("%s: %+v, %v", name, applied, err)
		}
		testkit.EqualSlices(t, state(), before, "%s: the database", name)
	}
}

// hashUpdates returns statements that store the hashes of the first migrations.
func hashUpdates(t *testing.T, names []string) (all []string) {
	t.Helper()
	for i, name := range names {
		sql, err := fs.ReadFile(db.Schema(nil).Migrations, name)
		testkit.Check(t, err)
		all = append(all, fmt.Sprintf("; update schema_migrations set sha256 = '%s' where version = %d",
			db.Definition{SQL: string(sql)}.Hash(), i+1))
	}
	return all
}
