package db_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"

	"spoolwright/db"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// newKey inserts an API key of the context's tenant with the columns, and returns an actor for its current secret and
// one for its previous secret.
func newKey(t *testing.T, d *db.DB, ctx context.Context, columns string) (current, previous db.Actor) {
	t.Helper()
	actor := func(secret, id string) db.Actor {
		hash := sha256.Sum256([]byte(secret))
		return db.Actor{Tenant: db.ActorOf(ctx).Tenant, APIKey: id, KeyHash: string(hash[:])}
	}
	id := value.NewID()
	current, previous = actor(id, id), actor("previous "+id, id)
	write(t, d, ctx,
		db.SQL(`insert into api_keys (id, name, role, hint, hash, previous_hash) values ($1, 'x', 'viewer', 'x', $2, $3)`,
			id, []byte(current.KeyHash), []byte(previous.KeyHash)),
		db.SQL(`update api_keys set `+columns+` where id = $1`, id),
		db.SQL(`select key_claim($2, $1)::text, key_claim($3, $1)::text as previous`,
			id, []byte(current.KeyHash), []byte(previous.KeyHash)))
	return current, previous
}

// A transaction on behalf of an API key is rejected unless the key and its secret are valid in the tenant.
func TestBindKey(t *testing.T) {
	t.Parallel()
	t.Run("prepared", func(t *testing.T) {
		t.Parallel()
		testBindKey(t, openSingle(t))
	})
	t.Run("not prepared", func(t *testing.T) {
		t.Parallel()
		d := openSingle(t)
		unprepare(t, d)
		testBindKey(t, d)
	})
}

func testBindKey(t *testing.T, d *db.DB) {
	ctx, other := newTenant(t, d), newTenant(t, d)
	for _, test := range []struct {
		columns           string
		current, previous bool
	}{
		{`name = 'y'`, true, false},
		{`previous_until = now() + interval '1 hour'`, true, true},
		{`previous_until = now() - interval '1 second'`, true, false},
		{`expires_at = now() + interval '1 hour'`, true, false},
		{`expires_at = now() - interval '1 second', previous_until = now() + interval '1 hour'`, false, false},
		{`revoked_at = now(), previous_until = now() + interval '1 hour'`, false, false},
	} {
		current, previous := newKey(t, d, ctx, test.columns)
		foreign := current
		foreign.Tenant = db.ActorOf(other).Tenant
		wrong := current
		wrong.KeyHash = strings.Repeat("x", 32)
		for name, c := range map[string]struct {
			actor db.Actor
			valid bool
		}{
			"current": {current, test.current}, "previous": {previous, test.previous}, "foreign": {foreign, false},
			"wrong": {wrong, false},
		} {
			err := d.CheckActor(db.As(t.Context(), c.actor))
			if (err == nil) != c.valid || err != nil && !errors.Is(err, db.ErrKeyRevoked) {
				t.Errorf("%s: %s: %v", test.columns, name, err)
			}
		}
	}
}

// The ledger records the API key of a transaction in the column api_key_id, and no user.
func TestBindKeyNamesTheKey(t *testing.T) {
	t.Parallel()
	d := openSingle(t)
	for range 2 {
		tenant := newTenant(t, d)
		key, _ := newKey(t, d, tenant, `name = 'y'`)
		const bound = `select coalesce(current_setting('app.api_key_id', true), '') || ' ' ||
			coalesce(current_setting('app.user_id', true), '')`
		testkit.Equal(t, single[string](t, d, db.As(t.Context(), key), bound), key.APIKey+" ",
			"the transaction of %s has the key and the user", key.APIKey)
		testkit.Equal(t, single[string](t, d, tenant, bound), " ", "the transaction after it has the key and the user")
		unprepare(t, d)
	}
}

// Only the key functions can access the key directory, and they cannot change an entry of another tenant.
func TestKeyDirectory(t *testing.T) {
	t.Parallel()
	d := testkit.Open(t)
	ctxA, ctxB := newTenant(t, d), newTenant(t, d)
	key, previous := newKey(t, d, ctxA, `name = 'y'`)
	for _, want := range []db.Actor{key, previous} {
		if got, found, err := d.FindKey(t.Context(), want.KeyHash); !found || err != nil || got != want {
			t.Errorf("%+v, %v, %v", got, found, err)
		}
	}
	if _, found, err := d.FindKey(t.Context(), strings.Repeat("x", 32)); found || err != nil {
		t.Errorf("an unknown hash: %v, %v", found, err)
	}
	err := d.Write(ctxB, db.SQL(`select key_claim($1, $2)::text`, []byte(key.KeyHash), value.NewID()))
	if !db.Violates(err, "key_directory_pkey") {
		t.Errorf("another tenant claims the hash: %v", err)
	}
	drop := db.SQL(`select key_drop($1)::text`, []byte(key.KeyHash))
	write(t, d, ctxB, drop)
	if _, found, err := d.FindKey(t.Context(), key.KeyHash); !found || err != nil {
		t.Errorf("another tenant dropped the hash: %v", err)
	}
	write(t, d, ctxA, drop)
	if _, found, err := d.FindKey(t.Context(), key.KeyHash); found || err != nil {
		t.Errorf("the hash is found after key_drop: %v", err)
	}
	for _, sql := range []string{`select * from key_directory`, `update key_directory set key_id = key_id`,
		`insert into key_directory select '', tenant_id, tenant_id from tenants`, `delete from key_directory`} {
		if err := d.Write(ctxA, db.SQL(sql)); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}
