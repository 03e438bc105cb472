package db_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"spoolwright/app"
	"spoolwright/db"
	"spoolwright/db/local"
	"spoolwright/db/schema"
	"spoolwright/inventory"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

func latestMigration(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	return len(files)
}

// everything returns the counts of a migration of an empty database.
func everything(t *testing.T) schema.Applied {
	t.Helper()
	return schema.Applied{Migrations: latestMigration(t), Definitions: len(db.Schema(app.Definitions).Definitions),
		Completed: latestMigration(t)}
}

// Eight instances start at the same time on an empty database. Each migration and definition is applied once.
func TestMigrateConcurrently(t *testing.T) {
	t.Parallel()
	u := emptyDatabase(t)
	applied := make([]schema.Applied, 8)
	testkit.Concurrently(len(applied), func(i int) {
		var err error
		if applied[i], err = db.Migrate(t.Context(), u.owner, u.app, app.Definitions); err != nil {
			t.Errorf("instance %d: %v", i, err)
		}
		d, err := db.Open(t.Context(), db.Config{URL: u.app, MaxConns: 1})
		if err != nil {
			t.Errorf("instance %d: %v", i, err)
			return
		}
		defer d.Close()
		if err := d.Ready(t.Context()); err != nil {
			t.Errorf("instance %d: %v", i, err)
		}
	})
	var sum schema.Applied
	for _, a := range applied {
		sum.Migrations += a.Migrations
		sum.Definitions += a.Definitions
		sum.Completed += a.Completed // of one call, which logs that the database was migrated
	}
	if sum != everything(t) {
		t.Errorf("%+v were applied, want %+v in total", applied, everything(t))
	}
	super := connect(t, u.super)
	rows := queryStrings(t, super, `select version || ' ' || name from schema_migrations order by version`)
	if len(rows) != latestMigration(t) || !strings.HasPrefix(rows[0], "1 0001_") {
		t.Errorf("schema_migrations has %v", rows)
	}
	if n, err := db.Migrate(t.Context(), u.owner, u.app, app.Definitions); n != (schema.Applied{}) || err != nil {
		t.Errorf("again: %+v, %v", n, err)
	}
	// The next release changes only tables.
	next := nextSchema(t, db.Schema(app.Definitions).Definitions)
	want := schema.Applied{Migrations: 1, Completed: latestMigration(t) + 1}
	if n, err := next.Migrate(t.Context(), u.owner, u.app); n != want || err != nil {
		t.Errorf("the next release: %+v, %v, want %+v", n, err, want)
	}
}

// Until the first release, a change of a table edits the file that creates it.
func TestMigrationsAreFewAndWhole(t *testing.T) {
	t.Parallel()
	if n := latestMigration(t); n > 8 {
		t.Errorf("there are %d migrations, want at most 8: a change of a table edits the file that creates it", n)
	}
	files, err := filepath.Glob("migrations/*.sql")
	testkit.Check(t, err)
	later := regexp.MustCompile(`(?i)\b(add|drop|rename)\s+column\b|\bdrop\s+(constraint|trigger|function|index|table)\b`)
	for _, file := range files {
		sql, err := os.ReadFile(file)
		testkit.Check(t, err)
		if found := later.FindString(string(sql)); found != "" {
			t.Errorf("%s has %q: write what the table shall have where it is created", file, found)
		}
	}
}

func TestMigrateNewerDatabase(t *testing.T) {
	t.Parallel()
	u := migratedDatabase(t)
	super := connect(t, u.super)
	d := open(t, db.Config{URL: u.app, MaxConns: 1})
	testkit.Check(t, d.Ready(t.Context()))
	newer := latestMigration(t) + 1
	exec(t, super, fmt.Sprintf(`insert into schema_migrations (version, name, sha256) values (%d, 'of tomorrow', '')`, newer))
	if n, err := db.Migrate(t.Context(), u.owner, u.app, app.Definitions); n != (schema.Applied{}) || err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("is at migration %d, newer than this program", newer)) {
		t.Errorf("%+v, %v", n, err)
	}
	// During a rolling upgrade, instances of the previous release run on the new schema.
	testkit.Check(t, d.Ready(t.Context()))
	exec(t, super, fmt.Sprintf(`delete from schema_migrations where version >= %d`, latestMigration(t)))
	if err := d.Ready(t.Context()); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("this program needs %d", latestMigration(t))) {
		t.Errorf("ready with a migration missing: %v", err)
	}
}

// A migration that fails is rolled back, the error has its name, and it can be retried.
func TestMigrationFails(t *testing.T) {
	t.Parallel()
	u := emptyDatabase(t)
	owner := connect(t, u.owner)
	exec(t, owner, `create table spool_usage (in_the_way int)`)
	n, err := db.Migrate(t.Context(), u.owner, u.app, app.Definitions)
	if n.Migrations != 1 || err == nil || !strings.Contains(err.Error(), "migration 0002_inventory") {
		t.Errorf("%+v, %v", n, err)
	}
	got := queryStrings(t, owner, `
		select concat_ws(' ', to_regclass('tenants'), to_regclass('spools'), max(version)) from schema_migrations`)
	testkit.Equal(t, got[0], "tenants 1", "the tables and the version are %v", got)
	exec(t, owner, `drop table spool_usage`)
	if n, err := db.Migrate(t.Context(), u.owner, u.app, app.Definitions); n.Migrations != latestMigration(t)-1 ||
		err != nil {
		t.Errorf("again: %+v, %v", n, err)
	}
}

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	t.Run("not migrated", func(t *testing.T) {
		t.Parallel()
		u := emptyDatabase(t)
		if _, err := db.Open(t.Context(), db.Config{URL: u.app}); err == nil ||
			!strings.Contains(err.Error(), "spoolwright migrate") {
			t.Error(err)
		}
	})
	t.Run("invalid URL", func(t *testing.T) {
		t.Parallel()
		const password = "the-password"
		bad := "postgres://login:" + password + "@host:port/x"
		_, err := db.Open(t.Context(), db.Config{URL: bad})
		_, migrateErr := db.Migrate(t.Context(), bad, bad, app.Definitions)
		for _, err := range []error{err, migrateErr} {
			if err == nil || strings.Contains(err.Error(), password) {
				t.Errorf("%v", err)
			}
		}
	})
	t.Run("unreachable", func(t *testing.T) {
		t.Parallel()
		away := "postgres://login:the-password@/x?host=" + t.TempDir()
		_, err := db.Open(t.Context(), db.Config{URL: away})
		_, migrateErr := db.Migrate(t.Context(), away, away, app.Definitions)
		for _, err := range []error{err, migrateErr} {
			if err == nil || strings.Contains(err.Error(), "the-password") ||
				!strings.HasPrefix(err.Error(), "database: ") {
				t.Errorf("%v", err)
			}
		}
	})
	for name, c := range map[string]struct{ spoil, want string }{
		"no policy":             {`drop policy tenant on spools`, "[spools]"},
		"no policy for tenants": {`drop policy tenant on tenants`, "[tenants]"},
		"not enabled":           {`alter table users disable row level security`, "[users]"},
		"not forced":            {`alter table sessions no force row level security`, "[sessions]"},
		"a new table": {
			`create table machines (tenant_id uuid not null, id uuid not null, primary key (tenant_id, id))`,
			"[machines]"},
		"a policy for all rows": {`alter policy tenant on counters using (true) with check (true)`, "does not apply"},
		"a second policy":       {`create policy more on counters using (true)`, "does not apply"},
		"no privilege":          {`revoke insert on counters from spoolwright_app`, "self-test"},
		"no warnings": {
			`do $$ begin
				execute format('alter database %I set client_min_messages = error', current_database());
			end $$`, "SET client_min_messages = warning"},
		"all privileges for PUBLIC": {`grant all on tenants to public`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := migratedDatabase(t)
			open(t, db.Config{URL: u.app, MaxConns: 1}).Close()
			exec(t, connect(t, u.super), c.spoil)
			d, err := db.Open(t.Context(), db.Config{URL: u.app, MaxConns: 1})
			if c.want == "" {
				if err != nil {
					t.Fatalf("row-level security applies, but: %v", err)
				}
				d.Close()
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q in one line", err, c.want)
			}
			if err == nil {
				d.Close()
			}
		})
	}
}

// The self-test leaves no row in the database.
func TestOpenLeavesNoRows(t *testing.T) {
	t.Parallel()
	u := migratedDatabase(t)
	open(t, db.Config{URL: u.app, MaxConns: 1})
	if got := queryStrings(t, connect(t, u.super), `select name from tenants`); len(got) != 0 {
		t.Errorf("tenants: %v", got)
	}
}

// cluster is a PostgreSQL for tests that change roles, because all databases of a cluster share its roles. It starts
// without the role spoolwright_app.
type cluster struct {
	*local.Server
	super *pgx.Conn
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	dir, err := testkit.Dir()
	testkit.Check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	s, err := local.Start(t.Context(), local.Options{Dir: dir, Throwaway: true})
	testkit.Check(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.WaitTimeout)
		defer cancel()
		testkit.Check(t, s.Stop(ctx))
	})
	c := &cluster{s, connect(t, s.SuperURL())}
	exec(t, c.super, `drop role spoolwright_app`)
	return c
}

// login creates a login, and a database of the same name that it owns if owns is set.
func (c *cluster) login(t *testing.T, name, attributes string, owns bool) {
	t.Helper()
	exec(t, c.super, `create role `+name+` login password 'p' `+attributes)
	if owns {
		exec(t, c.super, `create database `+name+` owner `+name)
	}
}

// url is the connection string of a login to a database.
func (c *cluster) url(login, database string) string {
	_, query, _ := strings.Cut(c.SuperURL(), "?")
	return "postgres://" + login + ":p@/" + database + "?" + query
}

// removeRole drops the role spoolwright_app and the databases that depend on it, so that the next migration creates
// it.
func (c *cluster) removeRole(t *testing.T, databases ...string) {
	t.Helper()
	for _, name := range databases {
		exec(t, c.super, `drop database `+name+` with (force)`)
	}
	exec(t, c.super, `drop role if exists spoolwright_app`)
}

// An owner that may not create the role gets the statements that a superuser must run.
func TestOwnerWithoutCreateRole(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := t.Context()
	c.login(t, "plain", "", true)
	url := c.url("plain", "plain")
	n, err := db.Migrate(ctx, url, url, app.Definitions)
	if n != (schema.Applied{}) || err == nil {
		t.Fatalf("%+v, %v", n, err)
	}
	for _, want := range []string{"spoolwright_app is missing", "plain may not create it",
		"CREATE ROLE spoolwright_app NOLOGIN; GRANT spoolwright_app TO plain"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	// The statements in the message solve the problem.
	exec(t, c.super, `CREATE ROLE spoolwright_app NOLOGIN; GRANT spoolwright_app TO plain`)
	if n, err := db.Migrate(ctx, url, url, app.Definitions); n != everything(t) || err != nil {
		t.Errorf("%+v, %v", n, err)
	}
	open(t, db.Config{URL: url, MaxConns: 1})

	// A login that is not a member, and an owner that cannot grant the membership.
	c.login(t, "stranger", "", false)
	stranger := c.url("stranger", "plain")
	if _, err := db.Migrate(ctx, url, stranger, app.Definitions); err != nil {
		t.Errorf("the migration fails when it cannot grant the membership: %v", err)
	}
	_, err = db.Open(ctx, db.Config{URL: stranger, MaxConns: 1})
	want := `"stranger" is not a member of the role spoolwright_app: run GRANT spoolwright_app TO "stranger" as `
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a login that is not a member: %v", err)
	}
	exec(t, c.super, `GRANT spoolwright_app TO "stranger"`)
	open(t, db.Config{URL: stranger, MaxConns: 1})

	// A login needs no privileges of the role before its transactions have the role.
	exec(t, c.super, `alter role stranger noinherit`)
	d := open(t, db.Config{URL: stranger, MaxConns: 1})
	actor := db.As(ctx, db.Actor{Tenant: value.NewID(), User: value.NewID(), Role: "admin"})
	for _, session := range []string{"prepared", "not prepared"} {
		if err := d.CheckActor(actor); !errors.Is(err, db.ErrRevoked) {
			t.Errorf("%s: the user of a login without privileges is checked: %v", session, err)
		}
		unprepare(t, d)
	}

	for _, attribute := range []string{"bypassrls", "superuser"} {
		exec(t, c.super, `alter role spoolwright_app `+attribute)
		_, err = db.Open(ctx, db.Config{URL: stranger, MaxConns: 1})
		if err == nil || !strings.Contains(err.Error(), "not in force, or is a superuser or BYPASSRLS") {
			t.Errorf("the role is %s: %v", attribute, err)
		}
		exec(t, c.super, `alter role spoolwright_app no`+attribute)
	}
}

// An owner creates the role, and another login serves. Requests have the privileges of the role only.
func TestOwnerWithCreateRole(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := t.Context()
	c.login(t, "deployer", "createrole", true)
	c.login(t, "farm", "", false)
	owner, farm := c.url("deployer", "deployer"), c.url("farm", "deployer")
	if n, err := db.Migrate(ctx, owner, farm, app.Definitions); n != everything(t) || err != nil {
		t.Fatalf("%+v, %v", n, err)
	}
	got := queryStrings(t, c.super, `
		select concat_ws(' ', rolsuper, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls)
		from pg_roles where rolname = 'spoolwright_app'`)
	if len(got) != 1 || got[0] != "f f f f f f" {
		t.Errorf("the role's attributes are %v", got)
	}
	c.login(t, "boss", "superuser", false)
	for login, warned := range map[string]bool{owner: true, c.url("boss", "deployer"): true, farm: false} {
		var log bytes.Buffer
		d := open(t, db.Config{URL: login, MaxConns: 2, Log: slog.New(slog.NewTextHandler(&log, nil))})
		testkit.Equal(t, strings.Contains(log.String(), "level=WARN"), warned, "warned: %s", log.String())
		// Requests do not have the privileges of the login.
		api := testkit.New(t, testkit.Options{DB: d}, inventory.Routes)
		mine, other := api.Operator(t), api.Operator(t)
		logged := api.Anonymous().
			Post(t, "/api/v1/auth/login", testkit.JSON{"email": mine.Email, "password": testkit.Password}).
			Want(200)
		mine.Token = logged.Text("access_token")
		id := mine.Post(t, "/api/v1/spools", testkit.JSON{"material_type": "PLA", "color": "Black",
			"diameter_mm": 1.75, "net_weight_grams": 1000}).Want(201).ID()
		mine.Post(t, "/api/v1/spools/"+id+"/deduct", testkit.JSON{"weight_grams": 1}).Want(200)
		mine.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "1"})
		other.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "0"})
		other.Get(t, "/api/v1/spools/"+id).WantError(404, "NOT_FOUND")
		d.Close()
	}
	wantNoRows(t, c.super, "the login of the service has more privileges than the role", `
		select rolname::text from pg_roles where rolname = 'farm' and (rolsuper or rolbypassrls or rolcreaterole
			or exists (select from pg_class where relowner = pg_roles.oid)
			or not pg_has_role(oid, 'spoolwright_app', 'member'))`)

	exec(t, c.super, `alter role spoolwright_app bypassrls`)
	if _, err := db.Open(ctx, db.Config{URL: farm, MaxConns: 1}); err == nil ||
		!strings.Contains(err.Error(), "BYPASSRLS") {
		t.Errorf("with BYPASSRLS: %v", err)
	}
	exec(t, c.super, `alter role spoolwright_app nobypassrls superuser`)
	if _, err := db.Open(ctx, db.Config{URL: farm, MaxConns: 1}); err == nil ||
		!strings.Contains(err.Error(), "superuser") {
		t.Errorf("with a superuser's role: %v", err)
	}
	exec(t, c.super, `alter role spoolwright_app nosuperuser`)
	open(t, db.Config{URL: farm, MaxConns: 1})
}

// The databases share the role, and both owners try to create it. Before PostgreSQL 16, every login with
// CREATEROLE can grant it. Since then only its creator can, so that the other owner needs one GRANT, which the
// error names.
func TestTwoOwnersCreateTheRole(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := t.Context()
	creatorOnly := queryStrings(t, c.super,
		`select (current_setting('server_version_num')::int >= 160000)::text`)[0] == "true"
	c.login(t, "one", "createrole", false)
	c.login(t, "two", "createrole", false)
	for range testkit.InRigs(1, 3) {
		names := []string{"one", "two"}
		for _, name := range names {
			exec(t, c.super, `create database `+name+` owner `+name)
		}
		opens := func(name string) error {
			d, err := db.Open(ctx, db.Config{URL: c.url(name, name), MaxConns: 1})
			if err == nil {
				d.Close()
			}
			return err
		}
		var wg sync.WaitGroup
		for _, name := range names {
			for range 2 {
				wg.Go(func() {
					if _, err := db.Migrate(ctx, c.url(name, name), c.url(name, name),
						app.Definitions); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
		}
		wg.Wait()
		var missing []string // logins that are not members
		for _, name := range names {
			if err := opens(name); err != nil {
				missing = append(missing, name)
				want := `GRANT spoolwright_app TO "` + name + `" as the login that created the role`
				if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: %v, want %q in one line", name, err, want)
				}
			}
		}
		if !creatorOnly && len(missing) > 0 || creatorOnly && len(missing) != 1 {
			t.Fatalf("%v cannot open their databases", missing)
		}
		for _, name := range missing {
			creator := names[0]
			if name == creator {
				creator = names[1]
			}
			exec(t, connect(t, c.url(creator, creator)), `GRANT spoolwright_app TO "`+name+`"`)
			if err := opens(name); err != nil {
				t.Errorf("%s, after the GRANT: %v", name, err)
			}
		}
		c.removeRole(t, names...)
	}
}
