package auth_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/auth"
	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/production/printers"
	"spoolwright/server"
	"spoolwright/server/metrics"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

const (
	keysPath   = "/api/v1/api-keys"
	spoolsPath = "/api/v1/spools"
)

// withKey returns a client that sends the API key.
func withKey(api *testkit.API, key string) *testkit.Client {
	return api.Anonymous().With("X-API-Key", key)
}

// trips counts the round trips of a database, and those with an update of last_used_at.
type trips struct {
	mu        sync.Mutex
	all, uses int
}

func (c *trips) count(statements []db.Statement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all++
	for _, s := range statements {
		if strings.Contains(s.SQL, "set last_used_at") {
			c.uses++
		}
	}
}

func (c *trips) get() (all, uses int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all, c.uses
}

func openCounted(t *testing.T) (*db.DB, *trips) {
	t.Helper()
	c := &trips{}
	d, err := db.Open(t.Context(), db.Config{URL: testkit.Private().AppURL(), MaxConns: 4, RoundTrip: c.count})
	testkit.Check(t, err)
	t.Cleanup(d.Close)
	return d, c
}

// A program learns what its key may do, from any key and without one of a user.
func TestCurrentKey(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{PerMinute: 100, PerHour: 1000}, printers.Routes)
	farm := api.Tenant(t)
	admin := farm.User(t, "admin")
	printer := admin.Post(t, "/api/v1/printers", j{"name": "Left"}).Want(201).ID()
	for role, perMinute := range map[string]string{"viewer": "100", "operator": "100", "printer": "300"} {
		body := j{"name": "For " + role, "role": role, "expires_at": "2100-01-01T00:00:00Z"}
		want := map[string]string{"name": "For " + role, "role": role, "expires_at": "2100-01-01T00:00:00Z",
			"printer_id": "null", "printer_name": "null", "requests_per_minute": perMinute}
		if role == "printer" {
			body["printer_id"], want["printer_id"], want["printer_name"] = printer, printer, "Left"
		}
		created := admin.Post(t, keysPath, body).Want(201)
		want["id"], want["tenant_id"] = created.ID(), farm.ID
		key := withKey(api, created.Text("key"))
		current := key.Get(t, keysPath+"/current").Want(200)
		current.Shows(want)
		if strings.Contains(string(current.Body), created.Text("key")) {
			t.Error("the response has the secret")
		}
		key.Get(t, keysPath+"/"+created.ID()).WantError(403, "FORBIDDEN")
		admin.Delete(t, keysPath+"/"+created.ID()).Want(204)
		key.Get(t, keysPath+"/current").WantError(401, "INVALID_API_KEY")
	}
	admin.Get(t, keysPath+"/current").WantError(403, "FORBIDDEN")
	api.Anonymous().Get(t, keysPath+"/current").WantError(401, "INVALID_TOKEN")
}

// A key is created, read, changed, used and revoked. Only the response to its creation has the secret.
func TestKeyLifecycle(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	admin := api.Tenant(t).User(t, "admin")
	body := j{"name": "Label printer", "role": "viewer", "expires_at": "2100-01-01T00:00:00Z"}
	a := admin.Post(t, keysPath, body).Want(201)
	secret, path := a.Text("key"), keysPath+"/"+a.ID()
	a.Shows(map[string]string{
		"name": "Label printer", "role": "viewer", "hint": secret[:8] + "…", "created_by": admin.Actor.User,
		"expires_at": "2100-01-01T00:00:00Z", "last_used_at": "null", "revoked_at": "null",
	})
	if got := a.Header.Get("Location"); got != path || !secrets.IsKey(secret) {
		t.Errorf("Location is %s, the secret %s", got, secret)
	}
	key := withKey(api, secret)
	key.Get(t, spoolsPath).Want(200)
	for _, read := range []string{path, keysPath} {
		text := string(admin.Get(t, read).Want(200).Body)
		if strings.Contains(text, secret[8:]) || strings.Contains(text, `"key"`) {
			t.Errorf("%s has the secret: %s", read, text)
		}
	}
	admin.Get(t, keysPath+"?sort_by=name").Want(200).Shows(map[string]string{"total": "1", "items.0.id": a.ID()})

	admin.Patch(t, path, j{"name": "Scanner"}).Want(200).
		Shows(map[string]string{"name": "Scanner", "expires_at": "2100-01-01T00:00:00Z"})
	admin.Patch(t, path, j{}).Want(200).Shows(map[string]string{"name": "Scanner"})
	admin.Patch(t, path, j{"expires_at": nil,
		"role": "viewer"}).Want(200).Shows(map[string]string{"expires_at": "null"})
	admin.Patch(t, path, j{"role": "operator"}).Fields("role")
	key.Get(t, spoolsPath).Want(200)
	admin.Patch(t, path, j{"expires_at": "2020-01-01T00:00:00Z"}).Want(200)
	key.Get(t, spoolsPath).WantError(401, "INVALID_API_KEY")
	admin.Patch(t, path, j{"expires_at": nil}).Want(200)
	key.Get(t, spoolsPath).Want(200)

	admin.Get(t, keysPath+"?revoked=false").Want(200).Shows(map[string]string{"total": "1"})
	admin.Delete(t, path).Want(204)
	a = key.Get(t, spoolsPath).WantError(401, "INVALID_API_KEY")
	testkit.Equal(t, a.Header.Get("WWW-Authenticate"), "Bearer", "WWW-Authenticate")
	admin.Get(t, keysPath+"?revoked=false").Want(200).Shows(map[string]string{"total": "0"})
	revoked := admin.Get(t, path).Want(200)
	admin.Delete(t, path).Want(204)
	admin.Get(t, path).Want(200).Shows(map[string]string{"updated_at": revoked.Text("updated_at")})
	admin.Patch(t, path, j{"name": "Old scanner"}).Want(200).
		Shows(map[string]string{"revoked_at": revoked.Text("revoked_at")})
	admin.Post(t, path+"/rotate", j{}).WantError(409, "API_KEY_REVOKED")
	key.Get(t, spoolsPath).WantError(401, "INVALID_API_KEY")
	if _, found, err := api.DB.FindKey(t.Context(), secrets.KeyHash(secret)); found || err != nil {
		t.Errorf("the directory has the revoked key: %v", err)
	}
}

func TestKeyValidation(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{})
	admin := api.Tenant(t).User(t, "admin")
	admin.Post(t, keysPath, j{}).Fields("name", "role")
	admin.Post(t, keysPath, j{"name": " ", "role": "admin"}).Fields("name", "role")
	admin.Post(t, keysPath, j{"name": "x", "role": "viewer",
		"expires_at": "2020-01-01T00:00:00Z"}).Fields("expires_at")
	admin.Post(t, keysPath, j{"name": "x", "role": "viewer", "id": value.NewID(), "hint": "x"}).Want(201)
	path := keysPath + "/" + admin.Post(t, keysPath, j{"name": "x", "role": "printer"}).Want(201).ID()
	admin.Patch(t, path, j{"name": nil}).Fields("name")
	admin.Patch(t, path, j{"key": "x"}).Fields("key")
	admin.Post(t, path+"/rotate", j{"grace_hours": 169}).Fields("grace_hours")
	admin.Post(t, path+"/rotate", j{"grace_hours": -1}).Fields("grace_hours")
	admin.Post(t, path+"/rotate", nil).Want(200)
	admin.Get(t, keysPath+"/"+value.NewID()).WantError(404, "NOT_FOUND")
	admin.Delete(t, keysPath+"/"+value.NewID()).WantError(404, "NOT_FOUND")
	admin.Patch(t, keysPath+"/"+value.NewID(), j{"name": "x"}).WantError(404, "NOT_FOUND")
	admin.Post(t, keysPath+"/"+value.NewID()+"/rotate", nil).WantError(404, "NOT_FOUND")
}

// Requests with a wrong secret, or with other credentials beside it, are rejected: with a wrong checksum without a
// round trip, with an unknown secret after one.
func TestInvalidKeys(t *testing.T) {
	t.Parallel()
	d, trips := openCounted(t)
	api := testkit.New(t, testkit.Options{DB: d}, inventory.Routes)
	tenant := api.Tenant(t)
	user, valid := tenant.User(t, "operator"), tenant.Key(t, "operator").Header.Get("X-API-Key")
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+valid))
	for name, c := range map[string]struct {
		client *testkit.Client
		trips  int
		code   string
	}{
		"empty":               {withKey(api, ""), 0, "INVALID_API_KEY"},
		"truncated":           {withKey(api, valid[:39]), 0, "INVALID_API_KEY"},
		"longer":              {withKey(api, valid+"0"), 0, "INVALID_API_KEY"},
		"wrong checksum":      {withKey(api, valid[:39]+"!"), 0, "INVALID_API_KEY"},
		"access token":        {withKey(api, user.Token), 0, "INVALID_API_KEY"},
		"10 kB":               {withKey(api, strings.Repeat("swk_", 2500)), 0, "INVALID_API_KEY"},
		"unknown":             {withKey(api, secrets.NewKey()), 1, "INVALID_API_KEY"},
		"with a token":        {user.With("X-API-Key", valid), 0, "INVALID_API_KEY"},
		"wrong, with a token": {user.With("X-API-Key", "x"), 0, "INVALID_API_KEY"},
		"with empty token":    {withKey(api, valid).With("Authorization", ""), 0, "INVALID_API_KEY"},
		"as a bearer token":   {api.Anonymous().With("Authorization", "Bearer "+valid), 0, "INVALID_TOKEN"},
		"as Basic password":   {api.Anonymous().With("Authorization", basic), 0, "INVALID_TOKEN"},
		"nothing":             {api.Anonymous(), 0, "INVALID_TOKEN"},
	} {
		before, _ := trips.get()
		c.client.Get(t, spoolsPath).WantError(401, c.code)
		if after, _ := trips.get(); after-before != c.trips {
			t.Errorf("%s: %d round trips, want %d", name, after-before, c.trips)
		}
	}
	two := withKey(api, valid)
	two.Header["X-Api-Key"] = []string{valid, valid}
	two.Get(t, spoolsPath).WantError(401, "INVALID_API_KEY")
	for _, name := range []string{"X-API-Key", "x-api-key", "api_key", "key", "access_token"} {
		api.Anonymous().Get(t, spoolsPath+"?"+name+"="+valid).WantError(401, "INVALID_TOKEN")
		user.Get(t, spoolsPath+"?"+name+"="+valid).Fields(name)
	}
	// The login ignores access tokens, and rejects keys.
	body := credentials(user.Email, testkit.Password)
	withKey(api, valid).Post(t, loginPath, body).WantError(403, "FORBIDDEN")
	withKey(api, "x").Post(t, loginPath, body).WantError(403, "FORBIDDEN")
	user.Post(t, loginPath, body).Want(200)
}

// The first request with a key on an instance finds the key in two round trips. The others have the same round trips
// as those of a user.
func TestKeyRoundTrips(t *testing.T) {
	t.Parallel()
	d, trips := openCounted(t)
	api := testkit.New(t, testkit.Options{DB: d}, inventory.Routes)
	key := api.Tenant(t).Key(t, "operator")
	for _, want := range []int{3, 1, 1} {
		before, _ := trips.get()
		key.Get(t, spoolsPath).Want(200)
		after, _ := trips.get()
		if _, uses := trips.get(); uses == 0 && after-before != want {
			t.Errorf("%d round trips, want %d", after-before, want)
		}
	}
}

// After a rotation the previous secret is valid until the grace ends. A second rotation ends the first secret.
func TestRotateKey(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	tenant := api.Tenant(t)
	admin := tenant.User(t, "admin")
	a := admin.Post(t, keysPath, j{"name": "x", "role": "viewer"}).Want(201)
	path, first := keysPath+"/"+a.ID(), a.Text("key")
	rotate := func(body any) string {
		t.Helper()
		a := admin.Post(t, path+"/rotate", body).Want(200)
		secret := a.Text("key")
		a.Shows(map[string]string{"name": "x", "role": "viewer", "hint": secret[:8] + "…"})
		return secret
	}
	wantValid := func(valid bool, secret string) {
		t.Helper()
		if a := withKey(api, secret).Get(t, spoolsPath); valid != (a.Status == 200) {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	wantValid(true, first) // so that the instance knows the key
	second := rotate(nil)
	wantValid(true, first)
	wantValid(true, second)
	third := rotate(j{"grace_hours": 1})
	wantValid(false, first)
	wantValid(true, second)
	wantValid(true, third)
	err := api.DB.Write(db.As(context.Background(), db.Actor{Tenant: tenant.ID}),
		db.SQL(`update api_keys set previous_until = previous_until - interval '1 hour'`))
	testkit.Check(t, err)
	wantValid(false, second)
	fourth := rotate(j{"grace_hours": 0})
	wantValid(false, third)
	wantValid(true, fourth)
	for i, secret := range []string{first, second} {
		if _, found, err := api.DB.FindKey(t.Context(), secrets.KeyHash(secret)); found || err != nil {
			t.Errorf("the directory has secret %d: %v", i+1, err)
		}
	}
	admin.Delete(t, path).Want(204)
	for _, secret := range []string{first, second, third, fourth} {
		wantValid(false, secret)
		if _, found, err := api.DB.FindKey(t.Context(), secrets.KeyHash(secret)); found || err != nil {
			t.Errorf("the directory has a secret of the revoked key: %v", err)
		}
	}
}

// Of two rotations at the same time, the second one ends the secret before that of the first one.
func TestRotationsAtOnce(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	admin := api.Tenant(t).User(t, "admin")
	a := admin.Post(t, keysPath, j{"name": "x", "role": "viewer"}).Want(201)
	h := admin.Hold(t, `select from api_keys where id = '`+a.ID()+`' for update`)
	var all []chan struct{}
	var keys [2]string
	for i := range keys {
		all = append(all, h.StartWaiting(i+1, func() {
			keys[i] = admin.Post(t, keysPath+"/"+a.ID()+"/rotate", nil).Want(200).Text("key")
		}))
	}
	h.Commit()
	for _, done := range all {
		<-done
	}
	for _, secret := range keys {
		withKey(api, secret).Get(t, spoolsPath).Want(200)
	}
	withKey(api, a.Text("key")).Get(t, spoolsPath).WantError(401, "INVALID_API_KEY")
	if _, found, err := api.DB.FindKey(t.Context(), secrets.KeyHash(a.Text("key"))); found || err != nil {
		t.Errorf("the directory has the first secret: %v", err)
	}
}

// A key gets no printer that was removed, also if it is removed meanwhile.
func TestKeyOfRemovedPrinter(t *testing.T) {
	t.Parallel()
	admin := testkit.New(t, testkit.Options{}, printers.Routes).Tenant(t).User(t, "admin")
	key := keysPath + "/" + admin.Post(t, keysPath, j{"name": "x", "role": "printer"}).Want(201).ID()
	for method, path := range map[string]string{"POST": keysPath, "PATCH": key} {
		printer := admin.Post(t, "/api/v1/printers", j{"name": method}).Want(201).ID()
		body := j{"name": "y", "role": "printer", "printer_id": printer}
		h := admin.Hold(t, `select from printers where id = '`+printer+`' for update`,
			`update printers set hidden_at = now() where id = '`+printer+`'`)
		var a *testkit.Response
		done := h.StartWaiting(1, func() { a = admin.Do(t, method, path, body) })
		h.Commit()
		<-done
		a.WantError(400, "UNKNOWN_REFERENCE")
		admin.Do(t, method, path, body).WantError(400, "UNKNOWN_REFERENCE")
	}
	admin.Get(t, keysPath).Want(200).
		Shows(map[string]string{"total": "1", "items.0.name": "x", "items.0.printer_id": "null"})
}

// A response that is repeated for an Idempotency-Key has no secret, because the database does not have it.
func TestKeyIsNotStored(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{})
	tenant := api.Tenant(t)
	admin := tenant.User(t, "admin").With("Idempotency-Key", "1")
	// The name has what the secret is replaced by, and where.
	body := j{"name": `"key":"x","key":null`, "role": "viewer"}
	first := admin.Post(t, keysPath, body).Want(201)
	again := admin.Post(t, keysPath, body).Want(201)
	testkit.Equal(t, again.Header.Get("Idempotency-Replayed"), "true", "the response is not repeated")
	again.Shows(map[string]string{"id": first.ID(), "name": body["name"].(string), "key": ""})
	path := keysPath + "/" + first.ID() + "/rotate"
	rotated := admin.With("Idempotency-Key", "2").Post(t, path, j{}).Want(200)
	admin.With("Idempotency-Key", "2").Post(t, path, j{}).Want(200).
		Shows(map[string]string{"hint": rotated.Text("hint"), "key": ""})

	conn, err := pgx.Connect(t.Context(), testkit.Private().SuperURL())
	testkit.Check(t, err)
	defer conn.Close(context.Background())
	for _, secret := range []string{first.Text("key"), rotated.Text("key")} {
		var found int
		err := conn.QueryRow(t.Context(), `
			select (select count(*) from idempotency_keys k where strpos(encode(k.body, 'escape'), $1) > 0)
				+ (select count(*) from api_keys k where strpos(k::text, $1) > 0)
				+ (select count(*) from key_directory d where strpos(d::text, $1) > 0)`, secret[8:]).Scan(&found)
		if err != nil || found != 0 {
			t.Errorf("%d rows have the secret, %v", found, err)
		}
	}
}

// Idempotency keys belong to the API key that sends them.
func TestKeyIdempotency(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	tenant := api.Tenant(t)
	seen := map[string]bool{}
	first, second, user := tenant.Key(t, "operator"), tenant.Key(t, "operator"), tenant.User(t, "operator")
	for _, c := range []*testkit.Client{first, second, user} {
		c = c.With("Idempotency-Key", "same")
		id := c.Post(t, spoolsPath, spoolBody).Want(201).ID()
		if a := c.Post(t, spoolsPath, spoolBody).Want(201); a.ID() != id || seen[id] {
			t.Errorf("created %s and %s", id, a.ID())
		}
		c.Post(t, spoolsPath+"/"+id+"/deduct", j{"weight_grams": 1}).WantError(409, "IDEMPOTENCY_CONFLICT")
		seen[id] = true
	}
}

// The usage ledger names the key instead of a user.
func TestKeyInLedger(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	tenant := api.Tenant(t)
	key, user := tenant.Key(t, "operator"), tenant.User(t, "operator")
	path := spoolsPath + "/" + key.Post(t, spoolsPath, spoolBody).Want(201).ID()
	user.Post(t, path+"/deduct", j{"weight_grams": 1}).Want(200)
	key.With("Idempotency-Key", "1").Post(t, path+"/deduct", j{"weight_grams": 1}).Want(200)
	key.Get(t, path+"/usage").Want(200).Shows(map[string]string{
		"items.0.api_key_id": key.Actor.APIKey, "items.0.user_id": "null",
		"items.1.api_key_id": "null", "items.1.user_id": user.Actor.User,
		"items.2.api_key_id": key.Actor.APIKey, "items.2.user_id": "null",
	})
}

// A tenant can have a limited number of keys; revoked ones do not count.
func TestKeyLimit(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{})
	tenant := api.Tenant(t)
	admin := tenant.User(t, "admin")
	body := j{"name": "x", "role": "viewer"}
	path := keysPath + "/" + admin.Post(t, keysPath, body).Want(201).ID()
	err := api.DB.Write(db.As(context.Background(), db.Actor{Tenant: tenant.ID}), db.SQL(`
		insert into api_keys (id, name, role, hint, hash)
		select uuid_v7(), 'x', 'viewer', 'x', sha256(n::text::bytea) from generate_series(2, $1::int) n`,
		auth.MaxKeys))
	testkit.Check(t, err)
	admin.Post(t, keysPath, body).WantError(409, "API_KEY_LIMIT")
	admin.Delete(t, path).Want(204)
	admin.Post(t, keysPath, body).Want(201)
	admin.Post(t, keysPath, body).WantError(409, "API_KEY_LIMIT")
}

// Each key has its own rate limits, by role. Invalid keys count for the address; once its limit is used up, they cause
// no queries.
func TestKeyRateLimits(t *testing.T) {
	t.Parallel()
	d, trips := openCounted(t)
	clock := &clock{t: time.Now()} // stands still, so that no bucket refills
	api := testkit.New(t, testkit.Options{DB: d, Now: clock.now, PerMinute: 3, PerHour: 5,
		Change: func(c *server.Config) {
			printerSurface(c)
			c.TenantPerMinute = 8
		}}, inventory.Routes)
	tenant := api.Tenant(t)
	first, second := tenant.Key(t, "operator"), tenant.Key(t, "viewer") // two requests of two admins
	printer := tenant.Key(t, "printer")                                 // the third
	for range 2 {
		for _, c := range []*testkit.Client{first, second} {
			if a := c.Get(t, spoolsPath).Want(200); a.Header.Get("X-Ratelimit-Limit") != "3" {
				t.Errorf("%v", a.Header)
			}
		}
	}
	second.Get(t, spoolsPath).Want(200)
	second.Get(t, spoolsPath).WantError(429, "RATE_LIMIT_EXCEEDED")     // of the key
	a := first.Get(t, spoolsPath).WantError(429, "RATE_LIMIT_EXCEEDED") // of the tenant: 8 requests
	testkit.Equal(t, a.Header.Get("X-Ratelimit-Limit"), "8", "%v", a.Header)
	// Printers have limits of their own. The limit of all printers of a tenant is three times that of users.
	for i := range 24 {
		if a := printer.Post(t, printsPath, nil).Want(200); i == 0 && a.Header.Get("X-Ratelimit-Limit") != "24" {
			t.Errorf("%v", a.Header)
		}
	}
	printer.Post(t, printsPath, nil).WantError(429, "RATE_LIMIT_EXCEEDED")

	for range 3 {
		withKey(api, secrets.NewKey()).Get(t, spoolsPath).WantError(401, "INVALID_API_KEY")
	}
	others := func() int { all, uses := trips.get(); return all - uses } // uses are written a second later
	before := others()
	for range 3 {
		withKey(api, secrets.NewKey()).Get(t, spoolsPath).WantError(429, "RATE_LIMIT_EXCEEDED")
		withKey(api, secrets.NewKey()).Get(t, "/api/v1/nothing").WantError(429, "RATE_LIMIT_EXCEEDED")
	}
	if after := others(); after != before {
		t.Errorf("%d round trips for unknown keys of an address without requests left", after-before)
	}
}

// A printer's key has 300 requests a minute and 3,600 an hour, and no limits where users have none.
func TestPrinterRateLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		perMinute, perHour int
		want               string
	}{{100, 1000, "300"}, {0, 1000, "3600"}, {400, 5000, "400"}, {0, 0, ""}} {
		api := testkit.New(t, testkit.Options{PerMinute: c.perMinute, PerHour: c.perHour, Change: printerSurface})
		printer := api.Tenant(t).Key(t, "printer")
		if a := printer.Post(t, printsPath, nil).Want(200); a.Header.Get("X-Ratelimit-Limit") != c.want {
			t.Errorf("limits of users %v: %v", c, a.Header)
		}
	}
}

const printsPath = "/prints/"

// printerSurface adds a surface for printers, which returns the id of the caller.
func printerSurface(c *server.Config) {
	d := c.DB
	c.Surfaces = []server.Surface{{
		Prefix: printsPath,
		Serve: func(w http.ResponseWriter, r *http.Request, caller server.Caller) error {
			if r.Method != http.MethodGet && caller.Level < server.Write {
				return server.ErrForbidden
			}
			if err := d.CheckActor(r.Context()); err != nil {
				return err
			}
			return server.Respond(w, r, fmt.Appendf(nil, `{"id":%q}`, caller.Actor.ID()))
		},
		Fail:  func(e *server.Error) []byte { return fmt.Appendf(nil, `{"detail":%q,"code":%q}`, e.Detail, e.Code) },
		Run:   func(context.Context) {},
		Close: func() {},
	}}
}

// Only surfaces accept printers' keys and Basic authentication. The other roles have their access level there.
func TestPrinterKeys(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{Change: printerSurface}, inventory.Routes)
	tenant := api.Tenant(t)
	basic := func(user, password string) *testkit.Client {
		return api.Anonymous().With("Authorization",
			"bAsIc "+base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	}
	for role, writes := range map[string]bool{"printer": true, "operator": true, "viewer": false} {
		key := tenant.Key(t, role)
		secret := key.Header.Get("X-API-Key")
		for name, c := range map[string]*testkit.Client{
			"key": key, "basic": basic("any", secret), "basic without user": basic("", secret),
		} {
			c.Get(t, printsPath).Want(200).Shows(map[string]string{"id": key.Actor.APIKey})
			if a := c.Post(t, printsPath, nil); writes != (a.Status == 200) || !writes && a.Status != 403 {
				t.Errorf("%s, %s: %d %s", role, name, a.Status, a.Body)
			}
		}
		basic("x", secret).Get(t, spoolsPath).WantError(401, "INVALID_TOKEN")
		basic("x", secret).With("X-API-Key", secret).Get(t, printsPath).WantError(401, "INVALID_API_KEY")
	}
	tenant.Key(t, "watcher").Get(t, printsPath).WantError(403, "FORBIDDEN")
	printer := tenant.Key(t, "printer")
	printer.Get(t, spoolsPath).WantError(403, "FORBIDDEN")
	printer.Post(t, spoolsPath, spoolBody).WantError(403, "FORBIDDEN")
	tenant.User(t, "viewer").Get(t, printsPath).Want(200)
	tenant.User(t, "viewer").Post(t, printsPath, nil).WantError(403, "FORBIDDEN")
	tenant.User(t, "operator").Post(t, printsPath, nil).Want(200)
	for _, c := range []*testkit.Client{
		basic("x", "password"), basic("x", secrets.NewKey()), basic(printer.Header.Get("X-API-Key"), ""),
		api.Anonymous().With("Authorization", "Basic ???"), api.Anonymous().With("Authorization", "Basic"),
	} {
		a := c.Get(t, printsPath).WantError(401, "INVALID_API_KEY")
		if got := strings.Join(a.Header["Www-Authenticate"], ", "); !strings.Contains(got, "Basic realm=") ||
			!strings.Contains(got, "Bearer") {
			t.Errorf("WWW-Authenticate is %q", got)
		}
	}
	api.Anonymous().Get(t, printsPath).WantError(401, "INVALID_TOKEN")
}

// last_used_at is written soon after the first use, then no more often than every 10 minutes, and when the service
// stops. So after a crash it is at most 10 minutes and a second too early.
func TestKeyLastUsed(t *testing.T) {
	t.Parallel()
	d, trips := openCounted(t)
	start := time.Now().UTC().Truncate(time.Microsecond)
	clock := &clock{t: start}
	api := testkit.New(t, testkit.Options{DB: d, Now: clock.now}, inventory.Routes)
	tenant := api.Tenant(t)
	key, admin := tenant.Key(t, "viewer"), tenant.User(t, "admin")
	path := keysPath + "/" + key.Actor.APIKey
	lastUsed := func() string { t.Helper(); return admin.Get(t, path).Want(200).Text("last_used_at") }
	waitFor := func(writes int, want time.Time) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprintf("%d writes, last_used_at is %s", writes, want), func() bool {
			_, uses := trips.get()
			return uses == writes && lastUsed() == want.Format(time.RFC3339Nano)
		})
	}
	for range 50 {
		key.Get(t, spoolsPath).Want(200)
	}
	waitFor(1, start)
	clock.pass(9 * time.Minute)
	for range 50 {
		key.Get(t, spoolsPath).Want(200)
	}
	time.Sleep(1200 * time.Millisecond) // a use is written within a second; these are not
	waitFor(1, start)
	clock.pass(2 * time.Minute)
	key.Get(t, spoolsPath).Want(200)
	waitFor(2, start.Add(11*time.Minute))

	// Another instance knows when the key was last used, and writes what it knows when it stops.
	clock.pass(time.Minute)
	other := testkit.New(t, testkit.Options{DB: d, Now: clock.now}, inventory.Routes)
	withKey(other, key.Header.Get("X-API-Key")).Get(t, spoolsPath).Want(200)
	time.Sleep(1200 * time.Millisecond) // likewise
	waitFor(2, start.Add(11*time.Minute))
	for range 2 { // the second one has nothing to write
		testkit.Check(t, other.Auth.Stop(t.Context()))
		waitFor(3, start.Add(12*time.Minute))
	}
	// A request with a revoked or expired key is no use. An earlier time does not replace a later one.
	expired := tenant.Key(t, "viewer")
	expired.Get(t, spoolsPath).Want(200)
	expiredPath := keysPath + "/" + expired.Actor.APIKey
	testkit.Check(t, api.Auth.Stop(t.Context()))
	expiredUse := admin.Get(t, expiredPath).Want(200).Text("last_used_at")
	testkit.Check(t, api.DB.Write(db.As(t.Context(), db.Actor{Tenant: tenant.ID}), db.SQL(`
		update api_keys set expires_at = clock_timestamp() where id = $1`, expired.Actor.APIKey)))
	admin.Delete(t, path).Want(204)
	clock.pass(15 * time.Minute)
	key.Get(t, spoolsPath).WantError(401, "INVALID_API_KEY")
	expired.Get(t, spoolsPath).WantError(401, "INVALID_API_KEY")
	testkit.Check(t, api.Auth.Stop(t.Context()))
	if got, want := lastUsed(), start.Add(12*time.Minute).Format(time.RFC3339Nano); got != want {
		t.Errorf("last_used_at of the revoked key is %s, want %s", got, want)
	}
	testkit.Equal(t, admin.Get(t, expiredPath).Text("last_used_at"), expiredUse, "last_used_at of the expired key")
}

// Serve writes the last use of keys before it returns.
func TestServeWritesLastUse(t *testing.T) {
	t.Parallel()
	stopped := make(chan struct{})
	api := testkit.New(t, testkit.Options{Change: func(c *server.Config) {
		stop := c.Stopped
		c.Stopped = func(ctx context.Context) error { defer close(stopped); return stop(ctx) }
	}}, inventory.Routes)
	tenant := api.Tenant(t)
	key := tenant.Key(t, "viewer")
	key.Get(t, spoolsPath).Want(200)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := httptest.NewUnstartedServer(nil).Listener
	testkit.Check(t, api.Server.Serve(ctx, l))
	select {
	case <-stopped:
	default:
		t.Fatal("Serve did not call Stopped")
	}
	if got := tenant.User(t, "admin").Get(t, keysPath+"/"+
		key.Actor.APIKey).Want(200).Text("last_used_at"); got == "null" {
		t.Error("last_used_at was not written")
	}
}

// Stop waits for a write of last uses that has begun.
func TestStopWaitsForLastUse(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes)
	tenant := api.Tenant(t)
	admin, key := tenant.User(t, "admin"), tenant.Key(t, "viewer")
	h := admin.Hold(t, `select from api_keys where id = '`+key.Actor.APIKey+`' for update`)
	waits, stopped := make(chan struct{}), make(chan error, 1)
	h.Start(1, func() {
		key.Get(t, spoolsPath).Want(200)
		<-waits
	})
	close(waits)
	go func() { stopped <- api.Auth.Stop(t.Context()) }()
	select {
	case err := <-stopped:
		t.Fatal("Stop returned before the write of last_used_at had ended", err)
	case <-time.After(50 * time.Millisecond): // nothing shows that Stop waits
	}
	h.Commit()
	testkit.Check(t, <-stopped)
	if admin.Get(t, keysPath+"/"+key.Actor.APIKey).Want(200).Text("last_used_at") == "null" {
		t.Error("last_used_at was not written")
	}
}

// Neither the log nor /metrics contains a secret.
func TestKeysAreNotLogged(t *testing.T) {
	t.Parallel()
	var log testkit.Log
	m := metrics.New("test", nil)
	api := testkit.New(t, testkit.Options{Change: func(c *server.Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Metrics = m
		printerSurface(c)
	}}, inventory.Routes)
	tenant := api.Tenant(t)
	key := tenant.Key(t, "operator")
	secret, unknown := key.Header.Get("X-API-Key"), secrets.NewKey()
	admin := tenant.User(t, "admin")
	rotated := admin.Post(t, keysPath+"/"+key.Actor.APIKey+"/rotate", nil).Want(200).Text("key")
	for _, s := range []string{secret, unknown, rotated, secret[:39]} {
		c := withKey(api, s)
		for _, path := range []string{spoolsPath, "/api/v1/nothing", "/docs", "/nothing", keysPath} {
			c.Get(t, path)
		}
		c.Post(t, spoolsPath, spoolBody)
		basic := base64.StdEncoding.EncodeToString([]byte("x:" + s))
		api.Anonymous().With("Authorization", "Basic "+basic).Get(t, printsPath)
		api.Anonymous().With("Authorization", "Basic "+basic).Get(t, spoolsPath)
	}
	admin.Delete(t, keysPath+"/"+key.Actor.APIKey).Want(204)
	a := key.Get(t, spoolsPath).WantError(401, "INVALID_API_KEY")
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text := log.String() + w.Body.String() + string(a.Body)
	for _, s := range []string{secret, unknown, rotated} {
		if hash := secrets.KeyHash(s); strings.Contains(text, s[8:34]) || strings.Contains(text, hash) {
			t.Errorf("the log, /metrics or an error has %s", s)
		}
	}
	if !strings.Contains(log.String(), "api_key="+key.Actor.APIKey) {
		t.Errorf("the log does not name the key: %s", log.String())
	}
}

// The role of a key and the checks of the columns allow the same values.
func TestKeyRoles(t *testing.T) {
	t.Parallel()
	testkit.WantChecked(t, "api_keys", "role", auth.KeyRole("").Enum())
}
