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
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// The tests in this file read pg_catalog, and so cover all tables, including those that future migrations create.

// outsideTenancy has the tables that do not belong to tenants.
var outsideTenancy = map[string]string{
	"schema_migrations":  "lists the applied migrations; has no tenant's data",
	"schema_definitions": "lists the installed definitions; has no tenant's data",
	"login_directory":    "maps an e-mail address to its tenant; only its owner has privileges on it",
	"tenant_directory":   "has the ids of tenants; only its owner has privileges on it",
	"key_directory":      "maps the hash of an API key to its tenant; only its owner has privileges on it",
	"shop_directory":     "maps a connection to a shop to its tenant; only its owner has privileges on it",
	"queue_signals":      "has ids of items with due work; the service may only insert its tenant's",
	"queue_items":        "has ids of items with due work; only its owner has privileges on it",
}

// privileges has the maximum privileges of the service's role. A new table must be added here, with the privileges
// that the code needs.
var privileges = map[string]string{
	"tenants":               "SELECT INSERT UPDATE", // UPDATE of the settings only
	"users":                 "SELECT INSERT UPDATE DELETE",
	"former_users":          "SELECT INSERT",
	"sessions":              "SELECT INSERT UPDATE DELETE",
	"login_addresses":       "SELECT INSERT UPDATE DELETE",
	"api_keys":              "SELECT INSERT UPDATE",
	"counters":              "SELECT INSERT UPDATE",
	"spools":                "SELECT INSERT UPDATE",
	"spool_contents":        "SELECT INSERT",
	"vendors":               "SELECT INSERT UPDATE DELETE",
	"filaments":             "SELECT INSERT UPDATE DELETE",
	"printers":              "SELECT INSERT UPDATE DELETE",
	"printer_slots":         "SELECT INSERT UPDATE DELETE",
	"spool_tags":            "SELECT INSERT UPDATE DELETE",
	"printer_connections":   "SELECT INSERT UPDATE DELETE",
	"printer_jobs":          "SELECT INSERT UPDATE DELETE",
	"printer_leases":        "SELECT INSERT UPDATE DELETE",
	"printer_state_changes": "SELECT INSERT DELETE",
	"printer_states":        "SELECT INSERT UPDATE DELETE",
	"filament_catalog":      "SELECT INSERT UPDATE DELETE",
	"spoolman_items":        "SELECT INSERT UPDATE DELETE",
	"custom_fields":         "SELECT INSERT UPDATE DELETE",
	"printer_settings":      "SELECT INSERT UPDATE DELETE",
	"stock_levels":          "SELECT INSERT UPDATE DELETE",
	"usage_days":            "SELECT INSERT DELETE",
	"usage_summaries":       "SELECT INSERT UPDATE",
	"usage_changes":         "SELECT INSERT DELETE",
	"spool_usage":           "SELECT INSERT UPDATE", // TestLedgerIsAppendOnly has the exception for UPDATE
	"products":              "SELECT INSERT UPDATE",
	"product_pictures":      "SELECT INSERT UPDATE DELETE",
	"product_materials":     "SELECT INSERT UPDATE DELETE",
	"product_components":    "SELECT INSERT UPDATE DELETE",
	"variant_materials":     "SELECT INSERT UPDATE DELETE",
	"product_pieces":        "SELECT INSERT UPDATE",
	"piece_entries":         "SELECT INSERT",
	"production_runs":       "SELECT INSERT UPDATE DELETE",
	"run_items":             "SELECT INSERT UPDATE DELETE",
	"run_materials":         "SELECT INSERT UPDATE DELETE",
	"run_history":           "SELECT INSERT",
	"orders":                "SELECT INSERT UPDATE",
	"order_items":           "SELECT INSERT UPDATE DELETE",
	"order_lines":           "SELECT INSERT UPDATE",
	"order_assignments":     "SELECT INSERT UPDATE DELETE",
	"idempotency_keys":      "SELECT INSERT UPDATE DELETE",
	"schema_migrations":     "SELECT",
	"schema_definitions":    "SELECT",
	"webhooks":              "SELECT INSERT UPDATE DELETE",
	"webhook_deliveries":    "SELECT INSERT UPDATE DELETE",
	"login_directory":       "",
	"tenant_directory":      "",
	"key_directory":         "",
	"shop_directory":        "",
	"shops":                 "SELECT INSERT UPDATE DELETE",
	"shop_orders":           "SELECT INSERT UPDATE DELETE",
	"file_orders":           "SELECT INSERT UPDATE DELETE",
	"queue_signals":         "INSERT",
	"queue_items":           "",
	"first_steps":           "SELECT INSERT UPDATE",
	"deleted_rows":          "SELECT INSERT DELETE",
	"sample_rows":           "SELECT INSERT DELETE",
	"import_columns":        "SELECT INSERT UPDATE",
	"imports":               "SELECT INSERT UPDATE",
	"import_rows":           "SELECT INSERT DELETE",
	"webhook_emails":        "SELECT INSERT UPDATE",
	"audit_log":             "SELECT INSERT",
	"link_emails":           "SELECT INSERT UPDATE DELETE",
	"user_otps":             "SELECT INSERT UPDATE DELETE",
	"sign_on_providers":     "SELECT INSERT UPDATE DELETE",
	"sign_on_uses":          "SELECT INSERT DELETE",
}

const (
	tenantExpression = `(NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid`
	tenantPolicy     = `(tenant_id = ( SELECT ` + tenantExpression + ` AS "nullif"))`
	tenantCheck      = `(tenant_id = ` + tenantExpression + `)`
)

// query returns the rows as values of T, whose fields are the columns.
func query[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) []T {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, args...)
	testkit.Check(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return all
}

func queryStrings(t *testing.T, conn *pgx.Conn, sql string, args ...any) []string {
	t.Helper()
	var all []string
	for _, row := range query[struct{ Text string }](t, conn, sql, args...) {
		all = append(all, row.Text)
	}
	return all
}

// tenantTables returns all tables except those in outsideTenancy.
func tenantTables(t *testing.T, super *pgx.Conn) []string {
	t.Helper()
	all := queryStrings(t, super, `
		select relname::text from pg_class
		where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') order by 1`)
	tables := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return outsideTenancy[name] != "" })
	if len(all) != len(tables)+len(outsideTenancy) || !slices.Contains(tables, "spools") {
		t.Fatalf("the tables are %v", all)
	}
	return tables
}

// wantNoRows reports each row of a query as an error: the name that the row has, and what is wrong with it.
func wantNoRows(t *testing.T, super *pgx.Conn, what, sql string, args ...any) {
	t.Helper()
	for _, name := range queryStrings(t, super, sql, args...) {
		t.Errorf("%s: %s", name, what)
	}
}

func TestCatalogTenantKeys(t *testing.T) {
	t.Parallel()
	super := connect(t, testkit.Private().SuperURL())
	tables := tenantTables(t, super)

	wantNoRows(t, super, "tenant_id must be a uuid, not null, with the tenant of the transaction as its default", `
		select c.relname::text from pg_class c
		left join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
		left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
		where c.relname = any ($1) and c.relnamespace = 'public'::regnamespace
		and (a.attnotnull and a.atttypid = 'uuid'::regtype and a.attgenerated = ''
			and pg_get_expr(d.adbin, d.adrelid) = $2) is not true`, tables, tenantExpression)

	wantNoRows(t, super, "the primary key must start with tenant_id", `
		select c.relname::text from pg_class c
		where c.relname = any ($1) and c.relnamespace = 'public'::regnamespace
		and not exists (
			select from pg_index i join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
			where i.indrelid = c.oid and i.indisprimary and a.attname = 'tenant_id')`, tables)

	// This includes unique indexes: a violation would reveal a value of another tenant.
	wantNoRows(t, super, "the index must start with tenant_id", `
		select i.indexrelid::regclass::text from pg_index i join pg_class c on c.oid = i.indrelid
		where c.relname = any ($1) and c.relnamespace = 'public'::regnamespace
		and coalesce((
			select a.attname from pg_attribute a where a.attrelid = c.oid and a.attnum = i.indkey[0]), '') <> 'tenant_id'`,
		tables)

	// The checks of foreign keys bypass row-level security.
	wantNoRows(t, super, "the foreign key must start with tenant_id on both sides", `
		select f.conrelid::regclass::text || ' ' || f.conname from pg_constraint f
		join pg_attribute a on a.attrelid = f.conrelid and a.attnum = f.conkey[1]
		join pg_attribute b on b.attrelid = f.confrelid and b.attnum = f.confkey[1]
		where f.contype = 'f' and not (a.attname = 'tenant_id' and b.attname = 'tenant_id')`)

	// Exceptions are the ledgers, whose entries remain when a run is removed, and are never deleted themselves, and the
	// history of runs, which name users who may be deleted; the audit log, whose objects may be deleted, too;
	// idempotency keys, which expire; and deliveries, which
	// the dispatcher deletes after their webhook.
	wantNoRows(t, super, "the column refers to another table without a foreign key", `
		select c.relname || '.' || a.attname from pg_class c
		join pg_attribute a on a.attrelid = c.oid and not a.attisdropped
			and a.attname ~ '_id$' and a.attname <> 'tenant_id' and a.atttypid = 'uuid'::regtype
		where c.relname = any ($1) and c.relnamespace = 'public'::regnamespace
		and not exists (
			select from pg_constraint f where f.conrelid = c.oid and f.contype = 'f' and a.attnum = any (f.conkey))
		and c.relname || '.' || a.attname
			<> all (
			'{spool_usage.run_id,spool_usage.user_id,spool_usage.api_key_id,spool_usage.counted_run_id,'
			'piece_entries.run_id,piece_entries.run_item_id,piece_entries.assembly_id,piece_entries.user_id,'
			'piece_entries.api_key_id,spool_usage.reporter_id,spool_usage.reverses_id,spool_usage.moves_id,'
			'spool_usage.weighing_id,spool_usage.balances_id,run_history.user_id,'
			'run_history.api_key_id,idempotency_keys.user_id,audit_log.actor_id,audit_log.object_id,'
			'webhook_deliveries.webhook_id}')`, tables)

	wantNoRows(t, super, "these tests do not cover exclusion constraints",
		`select conname::text from pg_constraint where contype = 'x'`)

	wantNoRows(t, super, "the index has a column that deductions change, which prevents HOT updates", `
		select i.indexrelid::regclass::text from pg_index i join pg_class c on c.oid = i.indrelid
		where c.relnamespace = 'public'::regnamespace
			and c.relname <> all ('{filaments,vendors,printers,orders,production_runs}')
		and pg_get_indexdef(i.indexrelid) ~ '\m(remaining_weight_grams|updated_at)\M'`)
}

func TestCatalogPolicies(t *testing.T) {
	t.Parallel()
	super := connect(t, testkit.Private().SuperURL())
	tables := tenantTables(t, super)
	wantNoRows(t, super, "row-level security must be enabled and forced", `
		select relname::text from pg_class
		where relname = any ($1) and relnamespace = 'public'::regnamespace
		and not (relrowsecurity and relforcerowsecurity)`, tables)
	type policy struct {
		Table, Name, Using, Check string
		Plain                     bool
	}
	seen := map[string]int{}
	for _, p := range query[policy](t, super, `
		select polrelid::regclass::text, polname::text,
			coalesce(pg_get_expr(polqual, polrelid), ''), coalesce(pg_get_expr(polwithcheck, polrelid), ''),
			polpermissive and polcmd = '*' and polroles = '{0}' from pg_policy`) {
		if p.Table == "spool_usage" && p.Name == "printed" && !p.Plain &&
			p.Using == `((kind = 'printed'::text) OR (run_id IS NOT NULL))` {
			continue // a restriction of UPDATE
		}
		seen[p.Table]++
		if p.Using != tenantPolicy || p.Check != tenantCheck || !p.Plain {
			t.Errorf("policy %s of %s: using %s with check %s; permissive, for all commands and roles: %v", p.Name,
				p.Table, p.Using, p.Check, p.Plain)
		}
	}
	for _, table := range tables {
		testkit.Equal(t, seen[table], 1, "policies of %s", table)
	}
	// Views read with the privileges of their owner, and rules can bypass policies.
	wantNoRows(t, super, "not a table, an index or a sequence", `
		select relname::text from pg_class
		where relnamespace = 'public'::regnamespace and relkind not in ('r', 'p', 'i', 'I', 'S')`)
	wantNoRows(t, super, "a rewrite rule", `select rulename::text from pg_rules where schemaname = 'public'`)
	wantNoRows(t, super, "these tests do not cover the schema", `
		select nspname::text from pg_namespace
		where nspname not in ('public', 'pg_catalog', 'information_schema', 'pg_toast')
		and nspname !~ '^pg_(toast_)?temp_'`)
}

func TestCatalogPrivileges(t *testing.T) {
	t.Parallel()
	super := connect(t, testkit.Private().SuperURL())
	for _, table := range append(tenantTables(t, super), slices.Sorted(maps.Keys(outsideTenancy))...) {
		allowed, ok := privileges[table]
		if !ok {
			t.Errorf("add %s to privileges in this test", table)
		}
		for _, role := range []string{"spoolwright_app", "spoolwright_login"} {
			for _, verb := range queryStrings(t, super, `
				select p
				from unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) p
				where case when p in ('DELETE', 'TRUNCATE', 'TRIGGER')
					then has_table_privilege($1, 'public.' || $2::text, p)
					else has_any_column_privilege($1, 'public.' || $2::text, p) end`, role, table) {
				if !slices.Contains(strings.Fields(allowed), verb) {
					t.Errorf("%s has the privilege %s on %s", role, verb, table)
				}
			}
		}
	}
	// The service may change only these columns of a tenant and of an entry of the ledger, and other tables as a
	// whole.
	partly := queryStrings(t, super, `
		select c.relname || ' ' || string_agg(a.attname, ' ' order by a.attname)
			filter (where has_column_privilege('spoolwright_app', c.oid, a.attnum, 'UPDATE'))
		from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
		where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
			and not has_table_privilege('spoolwright_app', c.oid, 'UPDATE')
		group by c.oid, c.relname
		having bool_or(has_column_privilege('spoolwright_app', c.oid, a.attnum, 'UPDATE'))
		order by c.relname`)
	want := []string{"spool_usage after_grams covered_grams report_token shortfall_grams updated_at used_at",
		"tenants assemble_on_delivery confirm_runs currency energy_kwh_cost exchange_rates failure_rate_measured " +
			"failure_rate_percent farm_url labour_hour_cost language machine_hour_cost machine_power_watts " +
			"prices_include_tax " +
			"sales_tax_percent second_factor time_zone updated_at"}
	testkit.EqualSlices(t, partly, want, "tables and the columns of them that the service may change")
	for table := range privileges {
		if len(queryStrings(t, super, `select relname::text from pg_class where relname = $1`, table)) != 1 {
			t.Errorf("the table %s does not exist", table)
		}
	}
	wantNoRows(t, super, "PUBLIC has a privilege, or a role other than the owner has a grant option", `
		select c.relname::text from pg_class c cross join lateral aclexplode(c.relacl) a
		where c.relnamespace = 'public'::regnamespace
		and c.relname not in ('schema_migrations', 'schema_definitions')
		and (a.grantee = 0 or a.is_grantable and a.grantee <> c.relowner)`)
	wantNoRows(t, super, "the role has too many attributes", `
		select rolname::text from pg_roles where rolname in ('spoolwright_app', 'spoolwright_login')
		and (rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolreplication
			or rolname = 'spoolwright_app' and rolcanlogin)`)
	wantNoRows(t, super, "the role is a member of another role", `
		select m.member::regrole::text from pg_auth_members m
		where m.member = 'spoolwright_app'::regrole
		or m.member = 'spoolwright_login'::regrole and m.roleid <> 'spoolwright_app'::regrole`)
	wantNoRows(t, super, "the role owns an object", `
		select r.rolname::text from pg_roles r where r.rolname in ('spoolwright_app', 'spoolwright_login') and (
			exists (select from pg_shdepend d where d.refobjid = r.oid and d.deptype = 'o')
			or exists (select from pg_class c where c.relowner = r.oid)
			or exists (select from pg_proc p where p.proowner = r.oid))`)
	wantNoRows(t, super, "the role can create objects in the schema", `
		select r.rolname::text from pg_roles r
		where r.rolname in ('spoolwright_app', 'spoolwright_login')
		and has_schema_privilege(r.rolname, 'public', 'create')`)
}

func TestCatalogFunctions(t *testing.T) {
	t.Parallel()
	super := connect(t, testkit.Private().SuperURL())
	definers := queryStrings(t, super,
		`select proname::text from pg_proc where pronamespace = 'public'::regnamespace and prosecdef order by 1`)
	want := []string{"analyze_grown", "audit_trim", "date_sample_usage", "date_samples", "delete_samples", "key_claim",
		"key_drop", "key_find", "login_claim", "login_drop", "login_find", "login_tenants", "queue_claim", "queue_release",
		"queue_renew", "queue_state", "shop_claim", "shop_drop", "shop_find", "tenant_created"}
	testkit.EqualSlices(t, definers, want, "the security definer functions")
	wantNoRows(t, super, "the security definer function has no fixed search_path", `
		select proname::text from pg_proc where pronamespace = 'public'::regnamespace and prosecdef
		and not exists (select from unnest(proconfig) c where c like 'search_path=%public%')`)
	wantNoRows(t, super, "PUBLIC can execute the security definer function", `
		select p.proname::text from pg_proc p where p.pronamespace = 'public'::regnamespace and p.prosecdef
		and (p.proacl is null or exists (select from aclexplode(p.proacl) a where a.grantee = 0))`)
	wantNoRows(t, super, "the security definer function uses a table of tenants", `
		select proname::text from pg_proc where pronamespace = 'public'::regnamespace and prosecdef
		and prosrc !~ '(login|key|shop)_directory'
		and proname !~ '_sample' -- they change rows of the bound tenant that are marked as sample data
		and proname <> 'audit_trim' -- it deletes old entries of the bound tenant
		and prosrc ~ any (array(select '\m' || relname || '\M' from pg_class where relname = any ($1)))`,
		tenantTables(t, super))
}

// The removal of sample data knows each table whose rows can refer to samples.
func TestSamplesAreRemovedEverywhere(t *testing.T) {
	t.Parallel()
	wantNoRows(t, connect(t, testkit.Private().SuperURL()), "no function of samples knows the table", `
		select distinct c.conrelid::regclass::text from pg_constraint c
		where c.contype = 'f' and c.confrelid::regclass::text = any ('{vendors,filaments,spools,stock_levels,printers,
			products,orders,order_items,production_runs}')
		and not exists (select from pg_proc p where p.proname in ('sample_references', 'sample_plan', 'delete_samples')
			and p.prosrc ~ ('\m' || c.conrelid::regclass::text || '\M'))`)
}

type column struct {
	Name, Type         string
	Required, Computed bool
	Check              string // the check constraints of this column, or the texts that a check of the row allows
}

func columnsOf(t *testing.T, super *pgx.Conn, table string) []column {
	t.Helper()
	return query[column](t, super, `
		select a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull,
			a.attgenerated <> '' or col_description(a.attrelid, a.attnum) is not distinct from 'computed',
			coalesce((
				select string_agg(pg_get_constraintdef(k.oid), ' ') from pg_constraint k
				where k.conrelid = a.attrelid and k.contype = 'c' and k.conkey = array[a.attnum]), (
				select 'ARRAY[' || substring(p.prosrc from '\m' || a.attname || ' in \(([^)]*)\)')
				from pg_proc p where p.proargtypes = array[(
					select c.reltype from pg_class c where c.oid = a.attrelid)]::oidvector and p.proname like 'valid_%'), '')
		from pg_attribute a
		where a.attrelid = ('public.' || $1::text)::regclass and a.attnum > 0 and not a.attisdropped
		order by a.attnum`, table)
}

// Columns of decimal numbers are numeric(15,6). They reject NaN, infinity and numbers that are too large.
func TestCatalogNumbers(t *testing.T) {
	t.Parallel()
	super := connect(t, testkit.Private().SuperURL())
	exec(t, super, `set session_replication_role = replica`)
	numbers := 0
	for _, table := range tenantTables(t, super) {
		for _, c := range columnsOf(t, super, table) {
			if regexp.MustCompile(`^(real|double|money|numeric)`).MatchString(c.Type) && c.Type != "numeric(15,6)" ||
				strings.Contains(c.Type, "json") && c.Name != "extra" && c.Name != "exchange_rates" {
				t.Errorf("%s.%s is %s", table, c.Name, c.Type)
			}
			if regexp.MustCompile(`gram|weight|price|cost|hours|diameter`).MatchString(c.Name) &&
				c.Type != "numeric(15,6)" && c.Type != "boolean" && c.Name != "cost_basis" {
				t.Errorf("%s.%s is %s, want numeric(15,6)", table, c.Name, c.Type)
			}
			if c.Type != "numeric(15,6)" || c.Computed {
				continue
			}
			numbers++
			if table == "spool_usage" {
				continue // copies of spools.remaining_weight_grams, which has the checks
			}
			for _, text := range []string{"'NaN'", "'Infinity'", "999999999.000001"} {
				row := someRow(t, super, table, value.NewID())
				row[c.Name] = text
				_, err := super.Exec(t.Context(), row.insert(table))
				var pg *pgconn.PgError
				if !errors.As(err, &pg) || pg.Code != "23514" && pg.Code != "22003" {
					t.Errorf("%s.%s accepts %s: %v", table, c.Name, text, err)
				}
			}
		}
	}
	if numbers < 10 {
		t.Errorf("the test covers only %d columns", numbers)
	}
}

// Columns of texts have a maximum length, except those that no client can set.
func TestCatalogTexts(t *testing.T) {
	t.Parallel()
	super := connect(t, testkit.Private().SuperURL())
	exec(t, super, `set session_replication_role = replica`)
	set := []string{"users.password_hash", "idempotency_keys.location"}
	texts := 0
	for _, table := range tenantTables(t, super) {
		for _, c := range columnsOf(t, super, table) {
			if c.Type != "text" || c.Computed || slices.Contains(set, table+"."+c.Name) {
				continue
			}
			texts++
			row := someRow(t, super, table, value.NewID())
			row[c.Name] = "repeat('x', 100001)"
			wantRejected(t, super, table, row, c.Name+" of 100,001 characters")
		}
	}
	if texts < 20 {
		t.Errorf("the test covers only %d columns", texts)
	}
}

func wantRejected(t *testing.T, super *pgx.Conn, table string, row tableRow, what string) {
	t.Helper()
	_, err := super.Exec(t.Context(), row.checked(table))
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "23514" {
		t.Errorf("%s accepts a row with %s: %v", table, what, err)
	}
}

// The trigger that checks spools fires when any column changes that its functions read.
func TestSpoolTrigger(t *testing.T) {
	t.Parallel()
	super := connect(t, testkit.Private().SuperURL())
	wantNoRows(t, super, "a change of the column fires no spool_computed", `
		select distinct m[1] from pg_proc p
		cross join lateral regexp_matches(p.prosrc, '\m(?:s|new)\.(\w+)', 'g') m
		where p.proname in ('valid_spool', 'spool_computed') and m[1] not in (
			select a.attname from pg_trigger g
			join pg_attribute a on a.attrelid = g.tgrelid and a.attnum = any (g.tgattr::int2[])
			where g.tgname = 'spool_computed')`)
}

// The functions that check rows reject each value outside of its range, and accept the values at its ends.
func TestRowChecks(t *testing.T) {
	t.Parallel()
	super := connect(t, testkit.Private().SuperURL())
	exec(t, super, `set session_replication_role = replica`)
	spool := func() tableRow {
		row := someRow(t, super, "spools", value.NewID())
		row["diameter_mm"] = "1.75"
		return row
	}
	usage := func() tableRow { return someRow(t, super, "spool_usage", value.NewID()) }
	for _, c := range []struct {
		table, column string
		row           func() tableRow
		accept, deny  []string
	}{
		{"spools", "number", spool, []string{"1", "2147483647"}, []string{"0", "-1"}},
		{"spools", "material_type", spool, []string{"'Custom'"}, []string{"'pla'", "''", "'PLA '"}},
		{"spools", "diameter_mm", spool, []string{"2.85"}, []string{"1.76", "0", "'NaN'"}},
		{"spools", "net_weight_grams", spool, []string{"0.000001", "1000000"},
			[]string{"0", "-1", "1000000.000001", "'NaN'"}},
		{"spools", "remaining_weight_grams", spool, []string{"0", "1000000"},
			[]string{"-0.000001", "1000000.000001", "'NaN'"}},
		{"spools", "spool_weight_grams", spool, []string{"null", "0", "1000000"},
			[]string{"-0.000001", "1000000.000001", "'NaN'"}},
		{"spools", "purchase_price", spool, []string{"null", "0", "1000000"},
			[]string{"-0.000001", "1000000.000001", "'NaN'"}},
		{"spools", "density_g_cm3", spool, []string{"null", "0.000001", "100"}, []string{"0", "100.000001", "'NaN'"}},
		{"spools", "color_hex", spool, []string{"null", "'#09afAF'"},
			[]string{"'#09afA'", "'#09afAF0'", "'#09afAG'", "'09afAF'", "E'#09afAF\n'", "''"}},
		{"spools", "brand", spool, []string{"null", "repeat('é', 200)"}, []string{"repeat('x', 201)"}},
		{"spools", "color", spool, []string{"repeat('é', 200)"}, []string{"repeat('x', 201)"}},
		{"spools", "finish", spool, []string{"null", "repeat('é', 200)"}, []string{"repeat('x', 201)"}},
		{"spools", "supplier", spool, []string{"null", "repeat('é', 200)"}, []string{"repeat('x', 201)"}},
		{"spools", "location", spool, []string{"null", "repeat('é', 200)"}, []string{"repeat('x', 201)"}},
		{"spools", "lot_number", spool, []string{"null", "repeat('é', 200)"}, []string{"repeat('x', 201)"}},
		{"spools", "notes", spool, []string{"null", "repeat('é', 10000)"}, []string{"repeat('x', 10001)"}},
		{"spool_usage", "kind", usage, []string{"'printed'"}, []string{"'Printed'", "''"}},
		{"spool_usage", "shortfall_grams", usage, []string{"null", "0", "999999999"},
			[]string{"-0.000001", "999999999.000001", "'NaN'"}},
		{"spool_usage", "reason", usage, []string{"null", "repeat('é', 10000)"}, []string{"repeat('x', 10001)"}},
	} {
		for _, value := range c.accept {
			row := c.row()
			row[c.column] = value
			if _, err := super.Exec(t.Context(), row.checked(c.table)); err != nil {
				t.Errorf("%s.%s rejects %s: %v", c.table, c.column, value, err)
			}
		}
		for _, value := range c.deny {
			row := c.row()
			row[c.column] = value
			wantRejected(t, super, c.table, row, c.column+" "+value)
		}
	}
}

// Each index of the tables that a deduction and a create write, with the requests that need it. PostgreSQL opens all of
// them for each write. An index costs 4 to 7 thousand instructions of a write if it does not have the row, and 16 to 22
// if it has it: about 1 % of a create.
func TestIndexesOfWrites(t *testing.T) {
	t.Parallel()
	needed := map[string]string{
		"counters_pkey":            "the number of a new row, the total of a list",
		"spools_pkey":              "GET /spools/{id}, and all changes of one spool",
		"spools_number":            "GET /spools/by-number/{number}, reports of printers",
		"spools_newest":            "GET /spools",
		"spools_material":          "GET /spools?material_type",
		"spools_brand":             "GET /spools?brand",
		"spools_color":             "GET /spools?color",
		"spools_in_stock":          "GET /spools?in_stock",
		"spools_supplier":          "GET /spools?supplier",
		"spools_location":          "GET /spools?location",
		"spools_lot":               "GET /spools?lot_number, the recall of a lot",
		"spools_filament":          "GET /spools?filament_id",
		"spools_computed_filament": "spools without a filament: in Spoolman's API, for files and filaments from spools",
		"spools_filament_stock":    "quantities of GET /filaments, and changes of a filament, which its spools follow",
		"spools_hidden":            "GET /spools?hidden=true",
		"spools_price":             "prices of filament, for costs of products",
		"spools_edited":            "the changes that Spoolman's WebSocket sends",
		"spool_usage_pkey":         "reversing and moving an entry",
		"spool_usage_newest":       "GET /spools/{id}/usage, the entry that a report extends",
		"spool_usage_times":        "GET /reports/usage and its export",
		"spool_usage_printer":      "the reports of one printer, and deleting a printer",
		"spool_usage_run":          "what a run used: completing, correcting and reopening it",
		"spool_usage_printed":      "the changes that Spoolman's WebSocket sends",
		"spool_usage_reversed":     "an entry is reversed once",
		"spool_usage_moved":        "an entry is moved once",
		"spool_usage_corrected":    "use outside of runs, at the end of a run",
		"spool_usage_balanced":     "the balance of a weighing, when an earlier entry is corrected",
	}
	names := queryStrings(t, connect(t, testkit.Private().SuperURL()), `
		select indexname::text from pg_indexes where tablename in ('counters', 'spools', 'spool_usage')`)
	for _, name := range names {
		if needed[name] == "" {
			t.Errorf("no request needs the index %s", name)
		}
		delete(needed, name)
	}
	for name, request := range needed {
		t.Errorf("the index %s is missing: %s", name, request)
	}
}

// Constraints hold for all rows.
func TestCatalogConstraintsAreValidated(t *testing.T) {
	t.Parallel()
	wantNoRows(t, connect(t, testkit.Private().SuperURL()), "the constraint is not validated",
		`select conrelid::regclass || ' ' || conname from pg_constraint where not convalidated`)
}

// tableRow is a row of a table: SQL expressions by column.
type tableRow map[string]string

func (r tableRow) insert(table string) string {
	names := slices.Sorted(maps.Keys(r))
	var values []string
	for _, name := range names {
		values = append(values, r[name])
	}
	return `insert into ` + table + ` (` + strings.Join(names, ", ") + `) values (` + strings.Join(values, ", ") + `)`
}

// checked returns a statement that inserts the row, and raises a violation of a check if valid_usage rejects it.
func (r tableRow) checked(table string) string {
	if table != "spool_usage" {
		return r.insert(table)
	}
	return `with u as (` + r.insert(table) + ` returning spool_usage as row)
		select raise_code('23514', 'the entry is not valid') from u where not valid_usage(u.row)`
}

var firstAllowed = regexp.MustCompile(`ARRAY\[\(?'?([^',\]:)]+)`)

// someRow returns a row with a value for each required column that passes the checks of the table.
func someRow(t *testing.T, super *pgx.Conn, table, tenant string) tableRow {
	t.Helper()
	row := tableRow{}
	for _, c := range columnsOf(t, super, table) {
		if c.Name == "tenant_id" {
			row[c.Name] = `'` + tenant + `'`
			continue
		}
		// The defaults of these numbers need a tenant.
		required := c.Required || (table == "spools" || table == "products") && c.Name == "number"
		if c.Computed || !required || table == "webhook_deliveries" && c.Name == "status" { // which has a default
			continue
		}
		value := map[string]string{"uuid": `'` + value.NewID() + `'`, "text": `'x'`, "boolean": `true`,
			"timestamp with time zone": `now()`, "date": `'2024-01-15'`, "bytea": `sha256('')`, "text[]": `array['x']`,
			"jsonb": `'{}'`}[c.Type]
		if value == "" {
			value = "1" // a number
		}
		switch c.Name {
		case "materials": // types of material, or none
			value = `'{}'`
		case "recovery_hashes": // of unused codes, or none
			value = `'{}'`
		case "daily": // only webhooks of the format email
			value = `false`
		}
		if m := firstAllowed.FindStringSubmatch(c.Check); m != nil {
			value = `'` + m[1] + `'`
		}
		row[c.Name] = value
	}
	return row
}

// For each table: tenant B cannot read, change or delete a row of tenant A, or insert one for A. A transaction
// without a tenant cannot either. A cannot change the tenant of its row to B.
func TestTenantIsolation(t *testing.T) {
	t.Parallel()
	super := connect(t, testkit.Private().SuperURL())
	exec(t, super, `set session_replication_role = replica`) // allow rows that violate foreign keys
	login := connect(t, testkit.Private().AppURL())
	exec(t, login, `set role spoolwright_app`) // as the sessions of d
	d := testkit.Open(t)
	ctxA, ctxB := newTenant(t, d), newTenant(t, d)
	a, b := db.ActorOf(ctxA).Tenant, db.ActorOf(ctxB).Tenant

	code := func(err error) string {
		var pg *pgconn.PgError
		if errors.As(err, &pg) {
			return pg.Code
		}
		return fmt.Sprint(err)
	}
	const denied = "42501" // by a policy, or without the privilege
	for _, table := range tenantTables(t, super) {
		if table != "tenants" {
			if _, err := super.Exec(t.Context(), someRow(t, super, table, a).insert(table)); err != nil {
				t.Errorf("%s: the test cannot insert a row: %v", table, err)
				continue
			}
		}
		count := `select count(*) from ` + table
		of := func(tenant string) string { return ` where tenant_id = '` + tenant + `'` }
		testkit.Equal(t, single[int](t, d, ctxA, count), 1, "%s: rows of A that A sees", table)
		testkit.Equal(t, single[int](t, d, ctxB, count+of(a)), 0, "%s: rows of A that B sees", table)
		own := 0
		if table == "tenants" {
			own = 1
		}
		testkit.Equal(t, single[int](t, d, ctxB, count), own, "%s: rows that B sees", table)

		for verb, sql := range map[string]string{
			"update": `update ` + table + ` set tenant_id = tenant_id` + of(a),
			"move":   `update ` + table + ` set tenant_id = '` + b + `'` + of(a),
			"delete": `delete from ` + table + of(a),
		} {
			var n int
			err := d.Write(ctxB, db.SQL(`with changed as (`+sql+` returning 1) select count(*) from changed`).
				Into(&n))
			if n != 0 || err != nil && code(err) != denied {
				t.Errorf("%s: B can %s %d rows of A: %v", table, verb, n, err)
			}
		}
		if err := d.Write(ctxB, db.SQL(someRow(t, super, table, a).insert(table))); code(err) != denied {
			t.Errorf("%s: B inserts a row for A: %v", table, err)
		}
		// The reason is not a foreign key, which is checked later: with its own tenant_id the row passes the policy.
		fresh := newBinding(t)
		if err := d.Write(fresh, db.SQL(someRow(t, super, table, db.ActorOf(fresh).Tenant).
			insert(table))); err != nil && code(err) != "23503" {
			t.Errorf("%s: a tenant inserts its row: %v", table, err)
		}
		if err := d.Write(ctxA, db.SQL(`update `+table+` set tenant_id = '`+b+`'`)); code(err) != denied {
			t.Errorf("%s: A changes the tenant of its row: %v", table, err)
		}

		for name, bind := range map[string]string{"bound to no tenant": `set local role spoolwright_app`,
			"not bound": `select 1`, "with an empty tenant": `select set_config('app.tenant_id', '', true)`} {
			err := pgx.BeginFunc(t.Context(), login, func(tx pgx.Tx) error {
				if _, err := tx.Exec(t.Context(), bind); err != nil {
					return err
				}
				var n int
				err := tx.QueryRow(t.Context(), count).Scan(&n)
				testkit.Equal(t, n, 0, "%s: %s: visible rows", table, name)
				return err
			})
			if err != nil && code(err) != denied {
				t.Errorf("%s: %s: %v", table, name, err)
			}
		}
		testkit.Equal(t, single[int](t, d, ctxA, count+of(a)), 1, "%s: rows of A in the end", table)
		if table != "tenants" && single[int](t, d, ctxB, count) != 0 {
			t.Errorf("%s: in the end B has a row", table)
		}
	}
}

// Only the login functions can access the login directory, and they cannot add or delete an entry for another tenant.
func TestLoginDirectory(t *testing.T) {
	t.Parallel()
	d := testkit.Open(t)
	ctxA, ctxB := newTenant(t, d), newTenant(t, d)
	a, b := db.ActorOf(ctxA).Tenant, db.ActorOf(ctxB).Tenant
	user := value.NewID()
	email := user + "@test.example"
	if _, found, err := d.FindLogin(t.Context(), email); found || err != nil {
		t.Errorf("before: %v, %v", found, err)
	}
	claim := func() *db.Stmt { return db.SQL(`select login_claim($1, $2)::text`, email, user) }
	write(t, d, ctxA, claim())
	if actor, found, err := d.FindLogin(t.Context(), email); !found || err != nil ||
		actor != (db.Actor{Tenant: a, User: user}) {
		t.Errorf("%+v, %v, %v", actor, found, err)
	}
	if err := d.Write(ctxB, claim()); !db.Violates(err, "login_directory_pkey") {
		t.Errorf("another tenant claims the e-mail address: %v", err)
	}
	for _, other := range []string{strings.ToUpper(email), email + " ", "%", "' or true --"} {
		if _, found, err := d.FindLogin(t.Context(), other); found || err != nil {
			t.Errorf("%q is found: %v", other, err)
		}
	}
	tenants, err := d.Tenants(t.Context())
	if err != nil || !slices.Contains(tenants, a) || !slices.Contains(tenants, b) {
		t.Errorf("the tenants are %v, %v; A is %s, B, without a user, is %s", tenants, err, a, b)
	}
	for _, sql := range []string{`select * from login_directory`, `insert into login_directory values ('x', $1, $1)`,
		`update login_directory set tenant_id = $1`, `delete from login_directory where tenant_id = $1`} {
		args := []any{}
		if strings.Contains(sql, "$1") {
			args = append(args, a)
		}
		if err := d.Write(ctxA, db.SQL(sql, args...)); err == nil ||
			!strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	drop := db.SQL(`select login_drop($1, $2)::text`, email, user)
	write(t, d, ctxB, drop)
	if _, found, err := d.FindLogin(t.Context(), email); !found || err != nil {
		t.Errorf("another tenant dropped the e-mail address: %v", err)
	}
	write(t, d, ctxA, drop)
	if _, found, err := d.FindLogin(t.Context(), email); found || err != nil {
		t.Errorf("the e-mail address is found after login_drop: %v", err)
	}
}
