package db_test

import (
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// Claim returns neither signals nor items that another transaction has locked, and does not wait for it.
func TestClaimSkipsLocked(t *testing.T) {
	t.Parallel()
	u := migratedDatabase(t) // Claim looks at the items of all tenants
	d := open(t, db.Config{URL: u.app, MaxConns: 2})
	ctx := newTenant(t, d)
	add := func() (item string) {
		item = value.NewID()
		write(t, d, ctx, db.SQL(`select queue_add(array[$1]::uuid[], $2)::text`, item, db.Link))
		return item
	}
	wantClaimed := func(want string) {
		t.Helper()
		items, err := d.Claim(t.Context(), db.Link, value.NewID(), 10, time.Hour)
		testkit.Check(t, err)
		if len(items) != 1 || items[0].ID != want {
			t.Errorf("claimed %v, want %s", items, want)
		}
	}
	first := add()
	h := testkit.Hold(t, u.super, `select from queue_signals for update`)
	second := add()
	wantClaimed(second)
	h.Commit()
	wantClaimed(first)

	exec(t, connect(t, u.super), `update queue_items set leased_until = now() - interval '1 s'`)
	h = testkit.Hold(t, u.super, `select from queue_items where item_id = '`+first+`' for update`)
	wantClaimed(second)
	h.Commit()
	wantClaimed(first)
}

// Items of two kinds may have the same id: that of their tenant.
func TestClaimByKind(t *testing.T) {
	t.Parallel()
	d := open(t, db.Config{URL: migratedDatabase(t).app, MaxConns: 2})
	ctx := newTenant(t, d)
	item := value.NewID()
	kinds := []string{db.Stock, db.Watch}
	for _, kind := range kinds {
		write(t, d, ctx, db.SQL(`select queue_add(array[$1]::uuid[], $2)::text`, item, kind))
	}
	for _, kind := range kinds {
		items, err := d.Claim(t.Context(), kind, value.NewID(), 10, time.Hour)
		testkit.Check(t, err)
		if len(items) != 1 || items[0].ID != item {
			t.Errorf("claimed %v of the kind %s", items, kind)
		}
	}
}
