package db_test

import (
	"encoding/hex"
	"regexp"
	"strings"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

var uuidV7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// timeOf returns the Unix time of a UUIDv7 in milliseconds.
func timeOf(t *testing.T, id string) int64 {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(id, "-", "")[:12])
	testkit.Check(t, err)
	var ms int64
	for _, c := range b {
		ms = ms<<8 | int64(c)
	}
	return ms
}

func TestUUIDv7InSQL(t *testing.T) {
	t.Parallel()
	d := testkit.Open(t)
	ctx := newTenant(t, d)
	seen := map[string]bool{}
	for range 50 {
		before := time.Now().UnixMilli()
		id := single[string](t, d, ctx, `select uuid_v7()::text`)
		after := time.Now().UnixMilli()
		if !uuidV7.MatchString(id) || seen[id] {
			t.Fatalf("%s is not a new UUIDv7", id)
		}
		seen[id] = true
		// PostgreSQL rounds to the millisecond.
		if ms := timeOf(t, id); ms < before || ms > after+1 {
			t.Fatalf("%s has the time %d, want one from %d to %d", id, ms, before, after)
		}
	}
}
