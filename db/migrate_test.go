package db_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/auth/authtest"
	"spoolwright/db"
	"spoolwright/db/dbtest"
	"spoolwright/db/local"
	"spoolwright/inventory"
)

func latest(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	return len(files)
}

// everything is what a migration of an empty database applies.
func everything(t *testing.T) db.Applied {
	t.Helper()
	return db.Applied{Migrations: latest(t), Definitions: len(db.WithOwn(dbtest.Definitions))}
}

// Eight instances start at once on a new database: each migration is applied once.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	u := emptyDatabase(t)
	applied := make([]db.Applied, 8)
	var wg sync.WaitGroup
	for i := range applied {
		wg.Go(func() {
			var err error
			if applied[i], err = db.Migrate(t.Context(), u.owner, u.app, dbtest.Definitions); err != nil {
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
	}
	wg.Wait()
	var sum db.Applied
	for _, a := range applied {
		sum.Migrations += a.Migrations
		sum.Definitions += a.Definitions
	}
	if sum != everything(t) {
		t.Errorf("%+v were applied, want %+v in total", applied, everything(t))
	}
	super := connect(t, u.super)
	if rows := texts(t, super, `select version || ' ' || name from schema_migrations order by version`); len(rows) != latest(t) || !strings.HasPrefix(rows[0], "1 0001_") {
		t.Errorf("schema_migrations has %v", rows)
	}
	if n, err := db.Migrate(t.Context(), u.owner, u.app, dbtest.Definitions); n != (db.Applied{}) || err != nil {
		t.Errorf("again: %+v, %v", n, err)
	}
}

func TestMigrateNewerDatabase(t *testing.T) {
	t.Parallel()
	u := migratedDatabase(t)
	super := connect(t, u.super)
	d := open(t, db.Config{URL: u.app, MaxConns: 1})
	if err := d.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	newer := latest(t) + 1
	exec(t, super, fmt.Sprintf(`insert into schema_migrations (version, name) values (%d, 'of tomorrow')`, newer))
	if n, err := db.Migrate(t.Context(), u.owner, u.app, dbtest.Definitions); n != (db.Applied{}) || err == nil || !strings.Contains(err.Error(), fmt.Sprintf("is at migration %d, newer than this program", newer)) {
		t.Errorf("%+v, %v", n, err)
	}
	// While instances are replaced one by one, the old ones serve on the new schema.
	if err := d.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	exec(t, super, fmt.Sprintf(`delete from schema_migrations where version >= %d`, latest(t)))
	if err := d.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("this program needs %d", latest(t))) {
		t.Errorf("ready with a migration missing: %v", err)
	}
}

// A migration that fails leaves nothing of itself, is named, and can be tried again.
func TestMigrationFails(t *testing.T) {
	t.Parallel()
	u := emptyDatabase(t)
	owner := connect(t, u.owner)
	exec(t, owner, `create table spool_usage (in_the_way int)`)
	n, err := db.Migrate(t.Context(), u.owner, u.app, dbtest.Definitions)
	if n.Migrations != 1 || err == nil || !strings.Contains(err.Error(), "migration 0002_spools") {
		t.Errorf("%+v, %v", n, err)
	}
	if got := texts(t, owner, `select concat_ws(' ', to_regclass('tenants'), to_regclass('spools'), (select max(version) from schema_migrations))`); got[0] != "tenants 1" {
		t.Errorf("what is there: %v", got)
	}
	exec(t, owner, `drop table spool_usage`)
	if n, err := db.Migrate(t.Context(), u.owner, u.app, dbtest.Definitions); n.Migrations != latest(t)-1 || err != nil {
		t.Errorf("again: %+v, %v", n, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	t.Run("not migrated", func(t *testing.T) {
		t.Parallel()
		u := emptyDatabase(t)
		if _, err := db.Open(t.Context(), db.Config{URL: u.app}); err == nil || !strings.Contains(err.Error(), "spoolwright migrate") {
			t.Error(err)
		}
	})
	t.Run("no URL", func(t *testing.T) {
		t.Parallel()
		const password = "the-password"
		bad := "postgres://login:" + password + "@host:port/x"
		_, err := db.Open(t.Context(), db.Config{URL: bad})
		_, migrateErr := db.Migrate(t.Context(), bad, bad, dbtest.Definitions)
		for _, err := range []error{err, migrateErr} {
			if err == nil || strings.Contains(err.Error(), password) {
				t.Errorf("%v", err)
			}
		}
	})
	t.Run("out of reach", func(t *testing.T) {
		t.Parallel()
		away := "postgres://login:the-password@/x?host=" + t.TempDir()
		_, err := db.Open(t.Context(), db.Config{URL: away})
		_, migrateErr := db.Migrate(t.Context(), away, away, dbtest.Definitions)
		for _, err := range []error{err, migrateErr} {
			if err == nil || strings.Contains(err.Error(), "the-password") || !strings.HasPrefix(err.Error(), "database: ") {
				t.Errorf("%v", err)
			}
		}
	})
	for name, c := range map[string]struct{ spoil, want string }{
		"no policy":              {`drop policy tenant on spools`, "[spools]"},
		"no policy for tenants":  {`drop policy tenant on tenants`, "[tenants]"},
		"not enabled":            {`alter table users disable row level security`, "[users]"},
		"not forced":             {`alter table sessions no force row level security`, "[sessions]"},
		"a new table without":    {`create table printers (tenant_id uuid not null, id uuid not null, primary key (tenant_id, id))`, "[printers]"},
		"a policy that lets all": {`alter policy tenant on tenants using (true) with check (true)`, "does not apply"},
		"a second, laxer policy": {`create policy more on tenants using (true)`, "does not apply"},
		"the role is not taken":  {`create or replace function bind_tenant(tenant uuid, caller uuid, caller_role text) returns void language sql as $$ select set_config('app.tenant_id', tenant::text, true) $$`, "not in force"},
		"the tenant is not set":  {`create or replace function bind_tenant(tenant uuid, caller uuid, caller_role text) returns void language sql as $$ select set_config('role', 'spoolwright_app', true) $$`, "self-test"},
		"no privilege":           {`revoke insert on tenants from spoolwright_app`, "self-test"},
		"no warnings": {`do $$ begin execute format('alter database %I set client_min_messages = error', current_database()); end $$`,
			"SET client_min_messages = warning"},
		"all rights for everybody": {`grant all on tenants to public`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := migratedDatabase(t)
			open(t, db.Config{URL: u.app, MaxConns: 1}).Close()
			exec(t, connect(t, u.super), c.spoil)
			d, err := db.Open(t.Context(), db.Config{URL: u.app, MaxConns: 1})
			if c.want == "" {
				if err != nil {
					t.Fatalf("row-level security binds, but: %v", err)
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

// The self-test leaves nothing behind.
func TestOpenLeavesNothing(t *testing.T) {
	t.Parallel()
	u := migratedDatabase(t)
	open(t, db.Config{URL: u.app, MaxConns: 1})
	if got := texts(t, connect(t, u.super), `select name from tenants`); len(got) != 0 {
		t.Errorf("tenants: %v", got)
	}
}

// cluster is a PostgreSQL of its own, for tests that change roles, which all databases of one share. It begins without the
// role spoolwright_app.
type cluster struct {
	*local.Server
	super *pgx.Conn
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	dir, err := dbtest.Dir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s, err := local.Start(t.Context(), local.Options{Dir: dir, Throwaway: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	c := &cluster{s, connect(t, s.SuperURL())}
	exec(t, c.super, `drop role spoolwright_app`)
	return c
}

// login makes a login, with a database that it owns if it owns one.
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

// removeRole takes the role and all that depends on it away, so that the next migration makes it again.
func (c *cluster) removeRole(t *testing.T, databases ...string) {
	t.Helper()
	for _, name := range databases {
		exec(t, c.super, `drop database `+name+` with (force)`)
	}
	exec(t, c.super, `drop role if exists spoolwright_app`)
}

// Roles as a deployer may set them up. The steps share a cluster, and each begins without the role.
func TestRoles(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ctx := t.Context()

	t.Run("an owner who may make no roles", func(t *testing.T) {
		c.login(t, "plain", "", true)
		url := c.url("plain", "plain")
		n, err := db.Migrate(ctx, url, url, dbtest.Definitions)
		if n != (db.Applied{}) || err == nil {
			t.Fatalf("%+v, %v", n, err)
		}
		for _, want := range []string{"spoolwright_app is missing", "plain may not create it", "CREATE ROLE spoolwright_app NOLOGIN; GRANT spoolwright_app TO plain"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in: %v", want, err)
			}
		}
		// What the message says helps.
		exec(t, c.super, `CREATE ROLE spoolwright_app NOLOGIN; GRANT spoolwright_app TO plain`)
		if n, err := db.Migrate(ctx, url, url, dbtest.Definitions); n != everything(t) || err != nil {
			t.Errorf("%+v, %v", n, err)
		}
		open(t, db.Config{URL: url, MaxConns: 1})

		// A login that is no member, beside an owner who cannot make it one.
		c.login(t, "stranger", "", false)
		stranger := c.url("stranger", "plain")
		if _, err := db.Migrate(ctx, url, stranger, dbtest.Definitions); err != nil {
			t.Errorf("a membership that cannot be granted ends the migration: %v", err)
		}
		_, err = db.Open(ctx, db.Config{URL: stranger, MaxConns: 1})
		want := `"stranger" is not a member of the role spoolwright_app: run GRANT spoolwright_app TO "stranger" as `
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a login that is not a member: %v", err)
		}
		exec(t, c.super, `GRANT spoolwright_app TO "stranger"`)
		open(t, db.Config{URL: stranger, MaxConns: 1})
		c.removeRole(t, "plain")
	})

	t.Run("an owner who may make roles, and a login of its own for the service", func(t *testing.T) {
		c.login(t, "deployer", "createrole", true)
		c.login(t, "farm", "", false)
		owner, farm := c.url("deployer", "deployer"), c.url("farm", "deployer")
		if n, err := db.Migrate(ctx, owner, farm, dbtest.Definitions); n != everything(t) || err != nil {
			t.Fatalf("%+v, %v", n, err)
		}
		if got := texts(t, c.super, `select concat_ws(' ', rolsuper, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls) from pg_roles where rolname = 'spoolwright_app'`); len(got) != 1 || got[0] != "f f f f f f" {
			t.Errorf("the role's attributes are %v", got)
		}
		c.login(t, "boss", "superuser", false)
		for login, warned := range map[string]bool{owner: true, c.url("boss", "deployer"): true, farm: false} {
			var log bytes.Buffer
			d := open(t, db.Config{URL: login, MaxConns: 2, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if got := strings.Contains(log.String(), "level=WARN"); got != warned {
				t.Errorf("warned is %v: %s", got, log.String())
			}
			// Whatever the login could do, a request cannot.
			api := authtest.New(t, authtest.Options{DB: d}, inventory.Routes)
			mine, other := api.Operator(t), api.Operator(t)
			logged := api.Anonymous().Post(t, "/api/v1/auth/login", authtest.JSON{"email": mine.Email, "password": authtest.Password}).Want(200)
			mine.Token = logged.Text("access_token")
			id := mine.Post(t, "/api/v1/spools", authtest.JSON{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1000}).Want(201).ID()
			mine.Post(t, "/api/v1/spools/"+id+"/deduct", authtest.JSON{"weight_grams": 1}).Want(200)
			mine.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "1"})
			other.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "0"})
			other.Get(t, "/api/v1/spools/"+id).WantError(404, "NOT_FOUND")
			d.Close()
		}
		none(t, c.super, "the service's login may do more than take the role", `
			select rolname::text from pg_roles where rolname = 'farm' and (rolsuper or rolbypassrls or rolcreaterole
			or exists (select from pg_class where relowner = pg_roles.oid) or not pg_has_role(oid, 'spoolwright_app', 'member'))`)

		exec(t, c.super, `alter role spoolwright_app bypassrls`)
		if _, err := db.Open(ctx, db.Config{URL: farm, MaxConns: 1}); err == nil || !strings.Contains(err.Error(), "BYPASSRLS") {
			t.Errorf("with BYPASSRLS: %v", err)
		}
		exec(t, c.super, `alter role spoolwright_app nobypassrls superuser`)
		if _, err := db.Open(ctx, db.Config{URL: farm, MaxConns: 1}); err == nil || !strings.Contains(err.Error(), "superuser") {
			t.Errorf("with a superuser's role: %v", err)
		}
		exec(t, c.super, `alter role spoolwright_app nosuperuser`)
		open(t, db.Config{URL: farm, MaxConns: 1})
		c.removeRole(t, "deployer")
	})

	// The databases share the role, and both owners try to create it. Before PostgreSQL 16, every login with CREATEROLE
	// can grant it. Since then only its creator can, so that the other owner needs one GRANT, which the error names.
	t.Run("two databases at once", func(t *testing.T) {
		creatorOnly := texts(t, c.super, `select (current_setting('server_version_num')::int >= 160000)::text`)[0] == "true"
		c.login(t, "one", "createrole", false)
		c.login(t, "two", "createrole", false)
		for range 3 {
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
						if _, err := db.Migrate(ctx, c.url(name, name), c.url(name, name), dbtest.Definitions); err != nil {
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
	})
}
