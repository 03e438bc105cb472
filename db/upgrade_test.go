package db_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"spoolwright/db"
	"spoolwright/db/dbtest"
)

// applyFirstRelease creates the tables and functions of release 0.1.0, which had seven migrations and no definitions.
func applyFirstRelease(t *testing.T, u urls) {
	t.Helper()
	owner := connect(t, u.owner)
	exec(t, owner, `create table schema_migrations (
		version int primary key, name text not null, applied_at timestamptz not null default now())`)
	files, err := filepath.Glob("migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range files[:7] {
		sql, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, owner, string(sql))
		exec(t, owner, fmt.Sprintf(`insert into schema_migrations (version, name) values (%d, '%s')`, i+1, file))
	}
}

// Data of release 0.1.0 has the same meaning after the migrations.
func TestUpgradeFromFirstRelease(t *testing.T) {
	t.Parallel()
	u := emptyDatabase(t)
	applyFirstRelease(t, u)
	super := connect(t, u.super)
	exec(t, super, `
		insert into tenants (tenant_id, name) values ('00000000-0000-7000-8000-000000000001', 'farm');
		select set_config('app.tenant_id', '00000000-0000-7000-8000-000000000001', false);
		insert into spools (id, material_type, color, diameter_mm, net_weight_grams, remaining_weight_grams)
			values ('00000000-0000-7000-8000-00000000000a', 'PLA', 'Black', 1.75, 1000, 1000);
		insert into spools (tenant_id, id, material_type, color, diameter_mm, net_weight_grams, remaining_weight_grams,
				created_at)
			select '00000000-0000-7000-8000-000000000002', uuid_v7(), 'PLA', n, 1.75, 1000, 1000,
				timestamptz '2024-01-09' - n * interval '1 day' from generate_series(1, 3) n;
		insert into spool_usage (spool_id, kind, before_grams, after_grams, created_at) values
			('00000000-0000-7000-8000-00000000000a', 'created', 0, 1002, '2024-01-01'),
			('00000000-0000-7000-8000-00000000000a', 'deducted', 1002, 1001, '2024-01-02'),
			('00000000-0000-7000-8000-00000000000a', 'run', 1001, 1000, '2024-01-03');
		insert into production_runs (id, status) values ('00000000-0000-7000-8000-00000000000b', 'pending');
		insert into production_runs (id, status, actual_print_time_hours, actual_total_filament_grams)
			values (uuid_v7(), 'completed', 87649415, 1000000), (uuid_v7(), 'completed', 100000, 1000001);
		insert into run_materials (id, run_id, spool_id, spool_weight_before_grams, spool_weight_after_grams)
			values (uuid_v7(), '00000000-0000-7000-8000-00000000000b', '00000000-0000-7000-8000-00000000000a', 90, 60.5),
				(uuid_v7(), '00000000-0000-7000-8000-00000000000b', '00000000-0000-7000-8000-00000000000a', 90, null);
		insert into users (id, email, name, role, password_hash)
			values ('00000000-0000-7000-8000-00000000000c', 'ada@farm.example', 'Ada', 'admin', 'x');
		select login_claim('ada@farm.example', '00000000-0000-7000-8000-00000000000c');
		insert into products (id, name) values ('00000000-0000-7000-8000-000000000011', 'unpriced'),
			('00000000-0000-7000-8000-000000000012', 'contains it'), ('00000000-0000-7000-8000-000000000013', 'optional');
		insert into product_materials (id, product_id, material_type, color, weight_grams, is_required)
			values (uuid_v7(), '00000000-0000-7000-8000-000000000011', 'PLA', 'Red', 1, true),
				(uuid_v7(), '00000000-0000-7000-8000-000000000013', 'PLA', 'Red', 1, false);
		insert into product_components (id, product_id, component_product_id)
			values (uuid_v7(), '00000000-0000-7000-8000-000000000012', '00000000-0000-7000-8000-000000000011')`)
	if _, err := db.Migrate(t.Context(), u.owner, u.app, dbtest.Definitions); err != nil {
		t.Fatal(err)
	}
	got := queryStrings(t, super, `select coalesce(actual_weight_grams::text, 'null') from run_materials order by created_at, id`)
	if want := []string{"29.500000", "null"}; !slices.Equal(got, want) {
		t.Errorf("actual_weight_grams is %v, want %v", got, want)
	}
	got = queryStrings(t, super, `
		select concat_ws(' ', actual_print_time_hours::int, actual_total_filament_grams::int)
		from production_runs where status = 'completed' order by 1`)
	if want := []string{"100000", "1000000"}; !slices.Equal(got, want) {
		t.Errorf("the computed hours and grams are %v, want %v", got, want)
	}
	got = queryStrings(t, super, `select name from products where costs_complete order by 1`)
	if want := []string{"optional"}; !slices.Equal(got, want) {
		t.Errorf("the costs of %v are complete, want %v", got, want)
	}
	got = queryStrings(t, super, `
		select to_char(first_used_at, 'YYYY-MM-DD') || ' ' || to_char(last_used_at, 'YYYY-MM-DD')
		from spools where first_used_at is not null`)
	if want := []string{"2024-01-02 2024-01-03"}; !slices.Equal(got, want) {
		t.Errorf("the first and last use of the spool are %v, want %v", got, want)
	}
	// A tenant without users has spools too.
	got = queryStrings(t, super, `select color || ' ' || number from spools order by tenant_id, number`)
	if want := []string{"Black 1", "3 1", "2 2", "1 3"}; !slices.Equal(got, want) {
		t.Errorf("the colours and numbers of spools are %v, want %v", got, want)
	}
	// The checks of the first release still apply, also to its rows.
	for _, sql := range []string{
		`update spools set net_weight_grams = 0 where color = 'Black'`,
		`update spools set brand = repeat('x', 201) where color = 'Black'`,
		`update spools set material_type = 'Wood' where color = 'Black'`,
		`update spools set remaining_weight_grams = remaining_weight_grams - 1000.000001 where color = 'Black'`,
		`insert into spool_usage (spool_id, kind, before_grams, after_grams)
			values ('00000000-0000-7000-8000-00000000000a', 'stolen', 1, 0)`,
	} {
		_, err := super.Exec(t.Context(), sql)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "23514" {
			t.Errorf("%s: %v", sql, err)
		}
	}
}
