package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// These tests need no feature. The package blackbox tests keys with each POST of the service.

// superuser returns a connection of the superuser.
func superuser(tb testing.TB) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(context.Background(), testkit.Private().SuperURL())
	testkit.Check(tb, err)
	tb.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// keys returns the stored keys of the user, in order.
func keys(tb testing.TB, conn *pgx.Conn, user string) string {
	tb.Helper()
	var list string
	err := conn.QueryRow(context.Background(), `
		select coalesce(string_agg(key, ' ' order by key collate "C"), '')
		from idempotency_keys where user_id = $1`, user).Scan(&list)
	testkit.Check(tb, err)
	return list
}

// addKeys inserts n keys of the user with the age.
func addKeys(tb testing.TB, conn *pgx.Conn, c *testkit.Client, prefix string, n int, age string) {
	tb.Helper()
	_, err := conn.Exec(context.Background(), `
		insert into idempotency_keys (tenant_id, user_id, key, request, status, body, created_at)
		select $1, $2, $3 || i, '\x00', 200, '{}', now() - $4::text::interval from generate_series(1, $5::int) i`,
		c.Actor.Tenant, c.Actor.User, prefix, age, n)
	testkit.Check(tb, err)
}

// sweeping is held while Sweep runs, which deletes the expired keys of all tests, and by a test that needs its own.
var sweeping sync.Mutex

// Each write with a key deletes more expired keys than it adds, and Sweep deletes all of them.
func TestKeysExpire(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, things)
	conn := superuser(t)
	tenant := api.Tenant(t)
	c, idle := tenant.User(t, "operator"), api.Operator(t)
	body := `{"name":"x","weight":1}`

	addKeys(t, conn, c, "old", 45, "24 hours 1 second")
	addKeys(t, conn, c, "young", 3, "23 hours 59 minutes")
	for i, left := range []int{25, 5, 0, 0} {
		c.With("Idempotency-Key", fmt.Sprint("now", i)).Post(t, "/api/v1/things", body).Want(200)
		stored := keys(t, conn, c.Actor.User)
		testkit.Equal(t, strings.Count(stored, "old"), left, "expired keys after %d writes", i+1)
		if strings.Count(stored, "young") != 3 || strings.Count(stored, "now") != i+1 {
			t.Errorf("after %d writes the keys are %s", i+1, stored)
		}
	}

	addKeys(t, conn, c, "old", 1, "25 hours")
	addKeys(t, conn, idle, "old", 45, "2 days")
	addKeys(t, conn, idle, "young", 2, "1 hour")
	sweeping.Lock()
	err := server.Sweep(t.Context(), api.DB)
	sweeping.Unlock()
	testkit.Check(t, err)
	for user, want := range map[*testkit.Client]string{
		c: "now0 now1 now2 now3 young1 young2 young3", idle: "young1 young2",
	} {
		testkit.Equal(t, keys(t, conn, user.Actor.User), want, "after Sweep the keys")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := server.Sweep(ended, api.DB); err == nil {
		t.Error("Sweep ignored the end of its context")
	}
}

// A write with a key leaves the expired keys that another transaction deletes, and does not wait for it.
func TestExpiredKeysAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, things).Operator(t)
	conn := superuser(t)
	sweeping.Lock()
	defer sweeping.Unlock()
	addKeys(t, conn, c, "old", 2, "25 hours")
	h := c.Hold(t, `delete from idempotency_keys where user_id = '`+c.Actor.User+`' and key = 'old1'`)
	c.With("Idempotency-Key", "now").Post(t, "/api/v1/things", `{"name":"x","weight":1}`).Want(200)
	testkit.Equal(t, keys(t, conn, c.Actor.User), "now old1", "the keys")
	h.Commit()
}

// A body is validated before its key is looked up, and an invalid one does not reach the database.
func TestInvalidBodyWithUsedKey(t *testing.T) {
	t.Parallel()
	statements := 0
	d, err := db.Open(t.Context(), db.Config{
		URL: testkit.Private().AppURL(), MaxConns: 2, RoundTrip: func(s []db.Statement) { statements += len(s) },
	})
	testkit.Check(t, err)
	defer d.Close()
	c := testkit.New(t, testkit.Options{DB: d}, things).Operator(t).With("Idempotency-Key", "key")
	const path = "/api/v1/things"
	c.Post(t, path, `{"name":"x","weight":1}`).Want(200)
	statements = 0
	c.Post(t, path, `{"name":"x"`).WantError(400, "MALFORMED_JSON")
	c.Post(t, path, `{"name":"x","weight":0}`).Fields("weight")
	testkit.Equal(t, statements, 0, "statements of invalid bodies")
	c.Post(t, path, `{"name":"x","weight":2}`).WantError(409, "IDEMPOTENCY_CONFLICT")
	if statements == 0 {
		t.Error("the recorder does not see the statements of a valid body")
	}
}

// A handler may change its request. When its transaction is retried, it gets the original one.
func TestRetryGetsOriginalRequest(t *testing.T) {
	t.Parallel()
	tries := 0
	api := testkit.New(t, testkit.Options{}, func(d *db.DB) []server.Route {
		handle := func(ctx context.Context, r *server.Request[Thing]) (server.OK[Echo], error) {
			tries++
			name := r.In.Name.Or("no name")
			r.In.Name = value.Some("changed")
			if tries < 3 {
				return nil, d.Write(ctx, db.SQL(`do $$ begin raise exception 'not now' using errcode = '40001'; end $$`))
			}
			return server.Encode(Echo{name})
		}
		return []server.Route{server.Op("POST /api/v1/tries", server.Write, server.Handle(handle), doc("try"))}
	})
	api.Operator(t).With("Idempotency-Key", "key").Post(t, "/api/v1/tries", `{"name":"sent","weight":1}`).
		Want(200).Shows(map[string]string{"got": "sent"})
	testkit.Equal(t, tries, 3, "tries")
}

// No statement about keys scans the table.
func TestKeysAreFoundByIndex(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, things)
	conn := superuser(t)
	c := api.Operator(t)
	addKeys(t, conn, c, "young", 20_000, "1 hour")
	addKeys(t, conn, c, "old", 100, "25 hours")
	if _, err := conn.Exec(t.Context(), `analyze idempotency_keys`); err != nil {
		t.Fatal(err)
	}
	var recorded []db.Statement
	d, err := db.Open(t.Context(), db.Config{URL: testkit.Private().AppURL(), MaxConns: 2,
		RoundTrip: func(s []db.Statement) { recorded = append(recorded, s...) }})
	testkit.Check(t, err)
	defer d.Close()
	recording := *c
	recording.API = testkit.New(t, testkit.Options{DB: d}, things)
	recording.With("Idempotency-Key", "now").Post(t, "/api/v1/things", `{"name":"x","weight":1}`).Want(200)

	explained := 0
	for _, s := range recorded {
		if !strings.Contains(s.SQL, "idempotency_keys") {
			continue
		}
		explained++
		plan := db.SQL("explain (format text) "+s.SQL, s.Args...)
		testkit.Check(t, d.Read(db.As(t.Context(), c.Actor), plan))
		if text := string(plan.Array()); strings.Contains(text, "Seq Scan on idempotency_keys") {
			t.Errorf("%s\nscans the table: %s", s.SQL, text)
		}
	}
	testkit.Equal(t, explained, 4, "statements about keys")
}

// A transaction is retried after a deadlock or a serialization failure, with a key and without. If the retries fail
// too, the response is a 503.
func TestTransientFailures(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"40001", "40P01"} {
		for _, key := range []string{"", "key"} {
			for _, failures := range []int64{3, 1000} {
				t.Run(fmt.Sprint(code, key, failures), func(t *testing.T) {
					t.Parallel()
					var tries atomic.Int64
					api := testkit.New(t, testkit.Options{}, func(d *db.DB) []server.Route {
						handle := func(ctx context.Context, _ *server.Request[struct{}]) (server.OK[Echo], error) {
							err := d.Tx(ctx, func(ctx context.Context) error {
								if tries.Add(1) > failures {
									return d.Write(ctx, db.SQL(`select 1 as one`))
								}
								return d.Write(ctx, db.SQL(`do $$ begin raise exception 'not now' using errcode = '`+
									code+`'; end $$`))
							})
							if err != nil {
								return nil, err
							}
							return server.Encode(Echo{fmt.Sprint(tries.Load())})
						}
						return []server.Route{server.Op("POST /api/v1/tries", server.Write, server.Handle(handle),
							doc("try"))}
					})
					c := api.Operator(t)
					sender := c
					if key != "" {
						sender = c.With("Idempotency-Key", key)
					}
					a := sender.Post(t, "/api/v1/tries", nil)
					want := ""
					if failures < 10 {
						a.Want(200).Shows(map[string]string{"got": "4"})
						want = key
					} else {
						a.WantError(503, "UNAVAILABLE")
						if n := tries.Load(); n < 2 || n > 100 {
							t.Errorf("%d tries", n)
						}
					}
					if stored := keys(t, superuser(t), c.Actor.User); stored != want {
						t.Errorf("the stored keys are %q, want %q", stored, want)
					}
				})
			}
		}
	}
}

// An error of a handler whose text reads like an error of the driver causes no retry.
func TestErrorTextCausesNoRetry(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"conn closed", "deadlock detected", "unexpected EOF", "broken pipe",
		"context deadline exceeded", "closed pool"} {
		tries := 0
		api := testkit.New(t, testkit.Options{}, func(d *db.DB) []server.Route {
			handle := func(ctx context.Context, _ *server.Request[struct{}]) (server.NoContent, error) {
				tries++
				if err := d.Read(ctx, db.SQL(`select 1 as one`)); err != nil {
					return nil, err
				}
				return nil, server.BadRequest("PRODUCT_IN_USE", "The product is a component of %s", text)
			}
			route := server.Op("POST /api/v1/fails-always", server.Write, server.Handle(handle), doc("failAlways"))
			route.Doc.Errors = []*server.Error{server.BadRequest("PRODUCT_IN_USE", "The product is a component")}
			return []server.Route{route}
		})
		api.Operator(t).With("Idempotency-Key", "key").Post(t, "/api/v1/fails-always", nil).WantError(400,
			"PRODUCT_IN_USE")
		testkit.Equal(t, tries, 1, "%q: tries", text)
	}
}
