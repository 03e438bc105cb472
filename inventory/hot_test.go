package inventory_test

import (
	"encoding/json"
	"testing"

	"spoolwright/db"
	"spoolwright/tests/testkit"
)

// A deduction changes no column that an index of spools has, so that PostgreSQL keeps the new version of the row on its
// page and adds nothing to an index (HOT).
func TestDeductionIsHOT(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, testkit.Features...).Operator(t)
	spool := c.NewSpool(t, 500, nil)
	ctx := db.As(t.Context(), c.Actor)
	row := func() (columns map[string]json.RawMessage) {
		t.Helper()
		var text []byte
		read := db.SQL(`select to_jsonb(s)::text from spools s where id = $1`, spool).Into(&text)
		testkit.Check(t, c.API.DB.Read(ctx, read))
		testkit.Check(t, json.Unmarshal(text, &columns))
		return columns
	}
	before := row()
	c.Post(t, spools+"/"+spool+"/deduct", j{"weight_grams": 1}).Want(200)
	var changed []string
	for name, now := range row() {
		if string(now) != string(before[name]) {
			changed = append(changed, name)
		}
	}
	if len(changed) < 2 {
		t.Fatalf("a deduction changes %q", changed)
	}
	var indexed int
	testkit.Check(t, c.API.DB.Read(ctx, db.SQL(`
		select count(*)::int from pg_index i cross join unnest($1::text[]) name
		where i.indrelid = 'spools'::regclass and pg_get_indexdef(i.indexrelid) ~ ('\m' || name || '\M')`,
		changed).Into(&indexed)))
	testkit.Equal(t, indexed, 0, "indexes of spools with one of %q", changed)
}
