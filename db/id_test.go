package db_test

import (
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

func TestUUIDv7InSQL(t *testing.T) {
	t.Parallel()
	d := testkit.Open(t)
	ctx := newTenant(t, d)
	seen := map[string]bool{}
	for range 50 {
		before := time.Now().UnixMilli()
		id := single[string](t, d, ctx, `select uuid_v7()::text`)
		after := time.Now().UnixMilli()
		// PostgreSQL rounds to the millisecond.
		if ms := testkit.TimeOfID(t, id); ms < before || ms > after+1 || seen[id] {
			t.Fatalf("%s has the time %d, want a new one from %d to %d", id, ms, before, after)
		}
		seen[id] = true
	}
}
