package db_test

import (
	"testing"

	"spoolwright/db"
	"spoolwright/tests/testkit"
)

// Analyze analyzes a table when it has grown by half, and no other one.
func TestAnalyze(t *testing.T) {
	t.Parallel()
	cluster := testkit.Cluster(t, map[string]string{"autovacuum": "off"})
	d := open(t, db.Config{URL: cluster.AppURL(), MaxConns: 1})
	ctx := newTenant(t, d)
	analyzed := func(want string) {
		t.Helper()
		testkit.Check(t, d.Analyze(t.Context()))
		got := single[string](t, d, ctx, `select coalesce(string_agg(relname || ' ' || reltuples, ',' order by relname), '')
			from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' and reltuples > 0`)
		testkit.Equal(t, got, want, "the tables that were analyzed, with their rows")
	}
	insert := func(from, to int) {
		t.Helper()
		write(t, d, ctx, db.SQL(`insert into counters (kind, last, total)
			select n::text, 0, 0 from generate_series($1::int, $2) n`, from, to))
	}
	insert(1, 100)
	analyzed("")
	insert(101, 3000)
	analyzed("counters 3000")
	insert(3001, 3500)
	analyzed("counters 3000")
	insert(3501, 8000)
	analyzed("counters 8000")
}
