package db_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"spoolwright/db"
	"spoolwright/db/dbtest"
)

// The tests in this file read pg_catalog, so they hold for every table that there is and for those to come.

// outsideTenancy are the only tables without tenants.
var outsideTenancy = map[string]string{
	"schema_migrations":  "lists the applied migrations; has no tenant's data",
	"schema_definitions": "lists the installed definitions; has no tenant's data",
	"login_directory":    "maps an e-mail address to its tenant; only its owner has privileges on it",
}

// privileges are what the service's role may do with a table at most. Whoever adds a table adds it here: with what the
// code does to it, and no more.
var privileges = map[string]string{
	"tenants":            "SELECT INSERT",
	"users":              "SELECT INSERT UPDATE",
	"sessions":           "SELECT INSERT UPDATE DELETE",
	"login_addresses":    "SELECT INSERT UPDATE DELETE",
	"row_counts":         "SELECT INSERT UPDATE",
	"spools":             "SELECT INSERT UPDATE",
	"spool_usage":        "SELECT INSERT", // the ledger is only added to
	"products":           "SELECT INSERT UPDATE",
	"product_materials":  "SELECT INSERT UPDATE DELETE",
	"product_components": "SELECT INSERT UPDATE DELETE",
	"production_runs":    "SELECT INSERT UPDATE DELETE",
	"run_items":          "SELECT INSERT UPDATE DELETE",
	"run_materials":      "SELECT INSERT UPDATE DELETE",
	"idempotency_keys":   "SELECT INSERT UPDATE DELETE",
	"schema_migrations":  "SELECT",
	"schema_definitions": "SELECT",
	"login_directory":    "",
}

const (
	tenantExpression = `(NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid`
	tenantPolicy     = `(tenant_id = ( SELECT (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid AS "nullif"))`
)

// query returns rows as T, whose fields are the columns.
func query[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) []T {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return all
}

func texts(t *testing.T, conn *pgx.Conn, sql string, args ...any) []string {
	t.Helper()
	var all []string
	for _, row := range query[struct{ Text string }](t, conn, sql, args...) {
		all = append(all, row.Text)
	}
	return all
}

// tenantTables returns the tables of tenants, which are all but two.
func tenantTables(t *testing.T, super *pgx.Conn) []string {
	t.Helper()
	all := texts(t, super, `select relname::text from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') order by 1`)
	tables := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return outsideTenancy[name] != "" })
	if len(all) != len(tables)+len(outsideTenancy) || !slices.Contains(tables, "spools") {
		t.Fatalf("the tables are %v", all)
	}
	return tables
}

// none fails the test for each row that a query returns: what must not be.
func none(t *testing.T, super *pgx.Conn, what, sql string, args ...any) {
	t.Helper()
	for _, name := range texts(t, super, sql, args...) {
		t.Errorf("%s: %s", name, what)
	}
}

func TestCatalogTenantKeys(t *testing.T) {
	t.Parallel()
	super := connect(t, dbtest.Private().SuperURL())
	tables := tenantTables(t, super)

	none(t, super, "tenant_id is not a uuid that is not null and has the transaction's tenant as its default", `
		select c.relname::text from pg_class c
		left join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
		left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
		where c.relname = any ($1) and c.relnamespace = 'public'::regnamespace
		and (a.attnotnull and a.atttypid = 'uuid'::regtype and a.attgenerated = '' and pg_get_expr(d.adbin, d.adrelid) = $2) is not true`, tables, tenantExpression)

	none(t, super, "there is no primary key that starts with tenant_id", `
		select c.relname::text from pg_class c
		where c.relname = any ($1) and c.relnamespace = 'public'::regnamespace
		and not exists (
			select from pg_index i join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
			where i.indrelid = c.oid and i.indisprimary and a.attname = 'tenant_id')`, tables)

	// This covers unique indexes too: another tenant's values must not be found out by a collision.
	none(t, super, "the index does not start with tenant_id", `
		select i.indexrelid::regclass::text from pg_index i join pg_class c on c.oid = i.indrelid
		where c.relname = any ($1) and c.relnamespace = 'public'::regnamespace
		and coalesce((select a.attname from pg_attribute a where a.attrelid = c.oid and a.attnum = i.indkey[0]), '') <> 'tenant_id'`, tables)

	// A foreign key's own check goes past row-level security.
	none(t, super, "the foreign key does not start with tenant_id on both sides", `
		select f.conrelid::regclass::text || ' ' || f.conname from pg_constraint f
		join pg_attribute a on a.attrelid = f.conrelid and a.attnum = f.conkey[1]
		join pg_attribute b on b.attrelid = f.confrelid and b.attnum = f.confkey[1]
		where f.contype = 'f' and not (a.attname = 'tenant_id' and b.attname = 'tenant_id')`)

	// But for the ledger, which outlives what it names, and for keys, which end by themselves.
	none(t, super, "the column names something else, and no foreign key holds it", `
		select c.relname || '.' || a.attname from pg_class c
		join pg_attribute a on a.attrelid = c.oid and not a.attisdropped and a.attname ~ '_id$' and a.attname <> 'tenant_id' and a.atttypid = 'uuid'::regtype
		where c.relname = any ($1) and c.relnamespace = 'public'::regnamespace
		and not exists (select from pg_constraint f where f.conrelid = c.oid and f.contype = 'f' and a.attnum = any (f.conkey))
		and c.relname || '.' || a.attname <> all ('{spool_usage.run_id,spool_usage.user_id,idempotency_keys.user_id}')`, tables)

	none(t, super, "an exclusion constraint is no thing that these tests know", `select conname::text from pg_constraint where contype = 'x'`)

	none(t, super, "what deductions change is in the index, and that ends HOT updates", `
		select i.indexrelid::regclass::text from pg_index i join pg_class c on c.oid = i.indrelid
		where c.relnamespace = 'public'::regnamespace and pg_get_indexdef(i.indexrelid) ~ '\m(remaining_weight_grams|updated_at)\M'`)
}

func TestCatalogPolicies(t *testing.T) {
	t.Parallel()
	super := connect(t, dbtest.Private().SuperURL())
	tables := tenantTables(t, super)
	none(t, super, "row-level security is not enabled and forced", `
		select relname::text from pg_class where relname = any ($1) and relnamespace = 'public'::regnamespace and not (relrowsecurity and relforcerowsecurity)`, tables)
	type policy struct {
		Table, Name, Using, Check string
		Plain                     bool
	}
	seen := map[string]int{}
	for _, p := range query[policy](t, super, `
		select polrelid::regclass::text, polname::text, coalesce(pg_get_expr(polqual, polrelid), ''), coalesce(pg_get_expr(polwithcheck, polrelid), ''),
			polpermissive and polcmd = '*' and polroles = '{0}' from pg_policy`) {
		seen[p.Table]++
		if p.Using != tenantPolicy || p.Check != tenantPolicy || !p.Plain {
			t.Errorf("policy %s of %s: using %s with check %s; permissive, for all commands and roles: %v", p.Name, p.Table, p.Using, p.Check, p.Plain)
		}
	}
	for _, table := range tables {
		if seen[table] != 1 {
			t.Errorf("%s has %d policies, want 1", table, seen[table])
		}
	}
	// A view reads with its owner's rights, and rules rewrite what a policy sees.
	none(t, super, "neither a table nor an index nor a sequence", `
		select relname::text from pg_class where relnamespace = 'public'::regnamespace and relkind not in ('r', 'p', 'i', 'I', 'S')`)
	none(t, super, "a rewrite rule", `select rulename::text from pg_rules where schemaname = 'public'`)
	none(t, super, "a schema that these tests do not look at", `
		select nspname::text from pg_namespace where nspname not in ('public', 'pg_catalog', 'information_schema', 'pg_toast') and nspname !~ '^pg_(toast_)?temp_'`)
}

func TestCatalogPrivileges(t *testing.T) {
	t.Parallel()
	super := connect(t, dbtest.Private().SuperURL())
	for _, table := range append(tenantTables(t, super), slices.Sorted(maps.Keys(outsideTenancy))...) {
		allowed, ok := privileges[table]
		if !ok {
			t.Errorf("%s is not in the table of privileges of this test", table)
		}
		for _, role := range []string{"spoolwright_app", "spoolwright_login"} {
			for _, verb := range texts(t, super, `
				select p from unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']) p
				where case when p in ('DELETE', 'TRUNCATE', 'TRIGGER') then has_table_privilege($1, 'public.' || $2::text, p) else has_any_column_privilege($1, 'public.' || $2::text, p) end`, role, table) {
				if !slices.Contains(strings.Fields(allowed), verb) {
					t.Errorf("%s may %s %s", role, verb, table)
				}
			}
		}
	}
	for table := range privileges {
		if len(texts(t, super, `select relname::text from pg_class where relname = $1`, table)) != 1 {
			t.Errorf("there is no table %s", table)
		}
	}
	none(t, super, "everybody has a privilege, or somebody but the owner can hand one on", `
		select c.relname::text from pg_class c cross join lateral aclexplode(c.relacl) a
		where c.relnamespace = 'public'::regnamespace and c.relname not in ('schema_migrations', 'schema_definitions') and (a.grantee = 0 or a.is_grantable and a.grantee <> c.relowner)`)
	none(t, super, "a privileged role", `
		select rolname::text from pg_roles where rolname in ('spoolwright_app', 'spoolwright_login')
		and (rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolreplication or rolname = 'spoolwright_app' and rolcanlogin)`)
	none(t, super, "is a member of another role", `
		select m.member::regrole::text from pg_auth_members m
		where m.member = 'spoolwright_app'::regrole or m.member = 'spoolwright_login'::regrole and m.roleid <> 'spoolwright_app'::regrole`)
	none(t, super, "owns something", `
		select r.rolname::text from pg_roles r where r.rolname in ('spoolwright_app', 'spoolwright_login') and (
			exists (select from pg_shdepend d where d.refobjid = r.oid and d.deptype = 'o') or exists (select from pg_class c where c.relowner = r.oid)
			or exists (select from pg_proc p where p.proowner = r.oid))`)
	none(t, super, "may make objects in the schema", `
		select r.rolname::text from pg_roles r where r.rolname in ('spoolwright_app', 'spoolwright_login') and has_schema_privilege(r.rolname, 'public', 'create')`)
}

func TestCatalogFunctions(t *testing.T) {
	t.Parallel()
	super := connect(t, dbtest.Private().SuperURL())
	definers := texts(t, super, `select proname::text from pg_proc where pronamespace = 'public'::regnamespace and prosecdef order by 1`)
	if want := []string{"login_claim", "login_find", "login_tenants"}; !slices.Equal(definers, want) {
		t.Errorf("the functions with their owner's rights are %v, want %v", definers, want)
	}
	none(t, super, "runs with its owner's rights, and its search_path is not fixed", `
		select proname::text from pg_proc where pronamespace = 'public'::regnamespace and prosecdef
		and not exists (select from unnest(proconfig) c where c like 'search_path=%public%')`)
	none(t, super, "runs with its owner's rights, and anybody may call it", `
		select p.proname::text from pg_proc p where p.pronamespace = 'public'::regnamespace and p.prosecdef
		and (p.proacl is null or exists (select from aclexplode(p.proacl) a where a.grantee = 0))`)
	none(t, super, "runs with its owner's rights, and reaches tables of tenants", `
		select proname::text from pg_proc where pronamespace = 'public'::regnamespace and prosecdef
		and prosrc !~ 'login_directory' and prosrc ~ any (array(select '\m' || relname || '\M' from pg_class where relname = any ($1)))`, tenantTables(t, super))
}

type column struct {
	Name, Type         string
	Required, Computed bool
	Check              string // its own check
}

func columnsOf(t *testing.T, super *pgx.Conn, table string) []column {
	t.Helper()
	return query[column](t, super, `
		select a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated <> '',
			coalesce((select string_agg(pg_get_constraintdef(k.oid), ' ') from pg_constraint k where k.conrelid = a.attrelid and k.contype = 'c' and k.conkey = array[a.attnum]), '')
		from pg_attribute a where a.attrelid = ('public.' || $1::text)::regclass and a.attnum > 0 and not a.attisdropped order by a.attnum`, table)
}

// Numbers that people see are exact decimals, and no column takes in what is not a number or too large.
func TestCatalogNumbers(t *testing.T) {
	t.Parallel()
	super := connect(t, dbtest.Private().SuperURL())
	exec(t, super, `set session_replication_role = replica`)
	numbers := 0
	for _, table := range tenantTables(t, super) {
		for _, c := range columnsOf(t, super, table) {
			if regexp.MustCompile(`^(real|double|money|numeric)`).MatchString(c.Type) && c.Type != "numeric(15,6)" || strings.Contains(c.Type, "json") {
				t.Errorf("%s.%s is %s", table, c.Name, c.Type)
			}
			if regexp.MustCompile(`gram|weight|price|cost|hours|diameter`).MatchString(c.Name) && c.Type != "numeric(15,6)" {
				t.Errorf("%s.%s is %s, want numeric(15,6)", table, c.Name, c.Type)
			}
			if c.Type != "numeric(15,6)" || c.Computed {
				continue
			}
			numbers++
			if table == "spool_usage" {
				continue // copies of spools.remaining_weight_grams, which is checked there, in the same statement
			}
			for _, value := range []string{"'NaN'", "'Infinity'", "999999999.000001"} {
				row := someRow(t, super, table, db.NewID())
				row[c.Name] = value
				_, err := super.Exec(t.Context(), row.insert(table))
				var pg *pgconn.PgError
				if !errors.As(err, &pg) || pg.Code != "23514" && pg.Code != "22003" {
					t.Errorf("%s.%s takes %s: %v", table, c.Name, value, err)
				}
			}
		}
	}
	if numbers < 10 {
		t.Errorf("%d columns of numbers were tried", numbers)
	}
}

// tableRow is a row of any table: SQL expressions by column.
type tableRow map[string]string

func (r tableRow) insert(table string) string {
	names := slices.Sorted(maps.Keys(r))
	var values []string
	for _, name := range names {
		values = append(values, r[name])
	}
	return `insert into ` + table + ` (` + strings.Join(names, ", ") + `) values (` + strings.Join(values, ", ") + `)`
}

var firstAllowed = regexp.MustCompile(`ARRAY\[\(?'?([^',\]:)]+)`)

// someRow makes a row that the table's own checks let in, with a value for each column that needs one.
func someRow(t *testing.T, super *pgx.Conn, table, tenant string) tableRow {
	t.Helper()
	row := tableRow{}
	for _, c := range columnsOf(t, super, table) {
		if c.Name == "tenant_id" {
			row[c.Name] = `'` + tenant + `'`
			continue
		}
		if c.Computed || !c.Required {
			continue
		}
		value := map[string]string{"uuid": `'` + db.NewID() + `'`, "text": `'x'`, "boolean": `true`, "timestamp with time zone": `now()`, "date": `'2024-01-15'`, "bytea": `''`}[c.Type]
		if value == "" {
			value = "1" // some number
		}
		if m := firstAllowed.FindStringSubmatch(c.Check); m != nil {
			value = `'` + m[1] + `'`
		}
		row[c.Name] = value
	}
	return row
}

// A row of tenant A, in each table: B cannot see it, change it, remove it, or make another one, and nor can whoever is bound
// to no tenant; A cannot give it away.
func TestNoTableLetsTenantsMeet(t *testing.T) {
	t.Parallel()
	super := connect(t, dbtest.Private().SuperURL())
	exec(t, super, `set session_replication_role = replica`) // rows without what they refer to
	d := dbtest.Open(t)
	ctxA, ctxB := newTenant(t, d), newTenant(t, d)
	a, b := db.ActorOf(ctxA).Tenant, db.ActorOf(ctxB).Tenant

	code := func(err error) string {
		var pg *pgconn.PgError
		if errors.As(err, &pg) {
			return pg.Code
		}
		return fmt.Sprint(err)
	}
	const denied = "42501" // by a policy, or for want of the privilege
	for _, table := range tenantTables(t, super) {
		if table != "tenants" {
			if _, err := super.Exec(t.Context(), someRow(t, super, table, a).insert(table)); err != nil {
				t.Errorf("%s: this test could not make a row: %v", table, err)
				continue
			}
		}
		count := `select count(*) from ` + table
		of := func(tenant string) string { return ` where tenant_id = '` + tenant + `'` }
		if n := value[int](t, d, ctxA, count); n != 1 {
			t.Errorf("%s: A sees %d rows of its own 1", table, n)
		}
		if n := value[int](t, d, ctxB, count+of(a)); n != 0 {
			t.Errorf("%s: B sees %d rows of A", table, n)
		}
		own := 0
		if table == "tenants" {
			own = 1
		}
		if n := value[int](t, d, ctxB, count); n != own {
			t.Errorf("%s: B sees %d rows, of its own %d", table, n, own)
		}

		for verb, sql := range map[string]string{
			"update": `update ` + table + ` set tenant_id = tenant_id` + of(a),
			"take":   `update ` + table + ` set tenant_id = '` + b + `'` + of(a),
			"delete": `delete from ` + table + of(a),
		} {
			var n int
			err := d.Write(ctxB, db.SQL(`with changed as (`+sql+` returning 1) select count(*) from changed`).Into(&n))
			if n != 0 || err != nil && code(err) != denied {
				t.Errorf("%s: B can %s %d rows of A: %v", table, verb, n, err)
			}
		}
		if err := d.Write(ctxB, db.SQL(someRow(t, super, table, a).insert(table))); code(err) != denied {
			t.Errorf("%s: B inserts a row for A: %v", table, err)
		}
		// That is not for want of what the row refers to, which is checked later: A gets as far as there.
		fresh := newBinding(t)
		if err := d.Write(fresh, db.SQL(someRow(t, super, table, db.ActorOf(fresh).Tenant).insert(table))); err != nil && code(err) != "23503" {
			t.Errorf("%s: a tenant inserts a row of its own: %v", table, err)
		}
		if err := d.Write(ctxA, db.SQL(`update `+table+` set tenant_id = '`+b+`'`)); code(err) != denied {
			t.Errorf("%s: A gives its row to B: %v", table, err)
		}

		for name, bind := range map[string]string{"bound to no tenant": `select bind_tenant(null, null, null)`, "not bound": `select 1`, "with an empty tenant": `select set_config('app.tenant_id', '', true)`} {
			err := pgx.BeginFunc(t.Context(), d.Pool(), func(tx pgx.Tx) error {
				if _, err := tx.Exec(t.Context(), bind); err != nil {
					return err
				}
				var n int
				err := tx.QueryRow(t.Context(), count).Scan(&n)
				if n != 0 {
					t.Errorf("%s: %s, %d rows are seen", table, name, n)
				}
				return err
			})
			if err != nil && code(err) != denied {
				t.Errorf("%s: %s: %v", table, name, err)
			}
		}
		if n := value[int](t, d, ctxA, count+of(a)); n != 1 {
			t.Errorf("%s: after all that A has %d rows", table, n)
		}
		if table != "tenants" && value[int](t, d, ctxB, count) != 0 {
			t.Errorf("%s: after all that B has a row", table)
		}
	}
}

// The login directory is reached by its functions only, and those cannot enter anything for another tenant.
func TestLoginDirectory(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t)
	ctxA, ctxB := newTenant(t, d), newTenant(t, d)
	a, b := db.ActorOf(ctxA).Tenant, db.ActorOf(ctxB).Tenant
	user := db.NewID()
	email := user + "@test.example"
	if _, found, err := d.FindLogin(t.Context(), email); found || err != nil {
		t.Errorf("before: %v, %v", found, err)
	}
	claim := func() *db.Stmt { return db.SQL(`select login_claim($1, $2)::text`, email, user) }
	write(t, d, ctxA, claim())
	if actor, found, err := d.FindLogin(t.Context(), email); !found || err != nil || actor != (db.Actor{Tenant: a, User: user}) {
		t.Errorf("%+v, %v, %v", actor, found, err)
	}
	if err := d.Write(ctxB, claim()); !db.Violates(err, "login_directory_pkey") {
		t.Errorf("another tenant takes the e-mail: %v", err)
	}
	for _, other := range []string{strings.ToUpper(email), email + " ", "%", "' or true --"} {
		if _, found, err := d.FindLogin(t.Context(), other); found || err != nil {
			t.Errorf("%q is found: %v", other, err)
		}
	}
	tenants, err := d.Tenants(t.Context())
	if err != nil || !slices.Contains(tenants, a) || slices.Contains(tenants, b) {
		t.Errorf("the tenants with users are %v, %v; A is %s, B is %s", tenants, err, a, b)
	}
	for _, sql := range []string{`select * from login_directory`, `insert into login_directory values ('x', $1, $1)`, `update login_directory set tenant_id = $1`, `delete from login_directory where tenant_id = $1`} {
		args := []any{}
		if strings.Contains(sql, "$1") {
			args = append(args, a)
		}
		if err := d.Write(ctxA, db.SQL(sql, args...)); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}
