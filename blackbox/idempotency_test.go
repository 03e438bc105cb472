package blackbox_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"spoolwright/auth"
	"spoolwright/auth/authtest"
	"spoolwright/db"
	"spoolwright/db/dbtest"
	"spoolwright/server"
)

// takesKey is true for every POST outside of /auth.
func acceptsKey(op *operation) bool {
	return op.Method() == "POST" && !strings.HasPrefix(op.Path(), "/api/v1/auth/")
}

func withKey(c *authtest.Client, key string) *authtest.Client { return c.With("Idempotency-Key", key) }

func isReplay(a *authtest.Response) bool { return a.Header.Get("Idempotency-Replayed") != "" }

// wantSame fails the test unless the second answer is the first one again, and says so.
func wantReplay(t *testing.T, first, second *authtest.Response) {
	t.Helper()
	if first.Status >= 300 || first.Status != second.Status || !bytes.Equal(first.Body, second.Body) || first.Header.Get("Location") != second.Header.Get("Location") {
		t.Errorf("%s: %d %s %s, and with the same key: %d %s %s", first.What, first.Status, first.Header.Get("Location"), first.Body, second.Status, second.Header.Get("Location"), second.Body)
	}
	if isReplay(first) || second.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%s: Idempotency-Replayed is %q, then %q", first.What, first.Header.Get("Idempotency-Replayed"), second.Header.Get("Idempotency-Replayed"))
	}
}

func connectSuper(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dbtest.Private().SuperURL())
	check(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// rows counts the tenant's rows in each table, kept keys apart.
func (f *fixture) countRows(t *testing.T, conn *pgx.Conn) map[string]int {
	t.Helper()
	found, err := conn.Query(t.Context(), `select table_name::text from information_schema.columns where table_schema = 'public' and column_name = 'tenant_id' and table_name not in ('idempotency_keys', 'row_counts')`)
	check(t, err)
	tables, err := pgx.CollectRows(found, pgx.RowTo[string])
	check(t, err)
	n := map[string]int{}
	for _, table := range tables {
		var count int
		check(t, conn.QueryRow(t.Context(), `select count(*) from `+table+` where tenant_id = $1`, f.tenant.ID).Scan(&count))
		n[table] = count
	}
	return n
}

// added says how many rows of each table have come since.
func addedRows(before, after map[string]int) string {
	var all []string
	for _, table := range slices.Sorted(maps.Keys(after)) {
		if n := after[table] - before[table]; n != 0 {
			all = append(all, fmt.Sprint(table, " ", n))
		}
	}
	return strings.Join(all, ", ")
}

func countKeys(t *testing.T, conn *pgx.Conn, c *authtest.Client) (n int) {
	t.Helper()
	check(t, conn.QueryRow(t.Context(), `select count(*) from idempotency_keys where user_id = $1`, c.Actor.User).Scan(&n))
	return n
}

// narrow is the API over a single connection: whatever needs a second one waits for itself.
func newSingleConnAPI(t *testing.T) *testAPI {
	t.Helper()
	d, err := db.Open(t.Context(), db.Config{URL: dbtest.Private().AppURL(), MaxConns: 1})
	check(t, err)
	t.Cleanup(d.Close)
	return newTestAPI(t, authtest.Options{DB: d})
}

// What a key does, on every route that takes one: the same request is done once, whenever and however often it comes.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	w, one, strict := newUnlimitedAPI(t), newSingleConnAPI(t), newTestAPI(t, authtest.Options{PerHour: 3})
	conn := connectSuper(t)
	w.forEach(t, acceptsKey, func(t *testing.T, op *operation) {
		plain, f := w.newFullFixture(t).prepareBodies(t), w.newFullFixture(t).prepareBodies(t)
		before := plain.countRows(t, conn)
		if a := plain.do(t, plain.admin, op, plain.path(t, op.Path()), plain.body(t, op)); a.Status >= 300 {
			t.Fatalf("%s: %d %s", a.What, a.Status, a.Body)
		}
		effect := addedRows(before, plain.countRows(t, conn))

		r := keyTest{f: f, op: op, path: f.path(t, op.Path()), body: f.body(t, op), conn: conn}
		r.c, r.viewer = withKey(f.tenant.User(t, "admin"), "key"), withKey(f.tenant.User(t, "viewer"), "key")
		r.testInvalid(t)
		r.testConcurrent(t, effect)
		if t.Failed() {
			return
		}
		after, rows := f.snapshot(t), f.countRows(t, conn)
		r.testReplay(t, one)
		r.testConflicts(t, w)
		r.testAuthorization(t, strict)
		f.wantUnchanged(t, after)
		if got := addedRows(rows, f.countRows(t, conn)); got != "" {
			t.Errorf("repeating made rows: %s", got)
		}
		r.testOtherUsers(t)
		r.testExpiry(t)
	})
}

// repeated is a request of an admin, with a key.
type keyTest struct {
	f         *fixture
	op        *operation
	path      string
	body      map[string]any
	c, viewer *authtest.Client
	conn      *pgx.Conn
	first     *authtest.Response
}

func (r *keyTest) do(t *testing.T, c *authtest.Client) *authtest.Response {
	t.Helper()
	return r.f.do(t, c, r.op, r.path, r.body)
}

func (r *keyTest) wantReplay(t *testing.T, c *authtest.Client) {
	t.Helper()
	wantReplay(t, r.first, r.do(t, c))
}

// What is wrong with a key or a body is said before anything happens, and takes up no key.
func (r *keyTest) testInvalid(t *testing.T) {
	t.Helper()
	before := r.f.snapshot(t)
	for _, bad := range []string{"", strings.Repeat("k", 256), "tab\tkey", "é", "k\x80", "\xff", "日本"} {
		r.do(t, withKey(r.c, bad)).Fields("Idempotency-Key")
	}
	two := withKey(r.c, "key")
	two.Header["Idempotency-Key"] = []string{"key", "key"}
	r.do(t, two).Fields("Idempotency-Key")
	if r.op.example != nil {
		r.c.Post(t, r.path, "{").WantError(400, "MALFORMED_JSON")
		r.c.Post(t, r.path, `{"surprise":1}`).WantError(422, "VALIDATION_ERROR")
		r.c.With("Content-Type", "text/plain").Post(t, r.path, "{}").WantError(415, "UNSUPPORTED_MEDIA_TYPE")
		r.c.Post(t, r.path, strings.Repeat(" ", 1<<20+1)).WantError(413, "PAYLOAD_TOO_LARGE")
	}
	r.f.wantUnchanged(t, before)
	if n := countKeys(t, r.conn, r.c); n != 0 {
		t.Errorf("%d keys of refused requests are kept", n)
	}
}

// Twins in flight are one.
func (r *keyTest) testConcurrent(t *testing.T, effect string) {
	t.Helper()
	before := r.f.countRows(t, r.conn)
	var body any
	if r.op.example != nil {
		body = r.body
	}
	answers := make([]*authtest.Response, 20)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			var err error
			if answers[i], err = r.c.Send("POST", r.path, body); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for _, a := range answers {
		if !isReplay(a) {
			if r.first != nil {
				t.Error("two twins say that they did it")
			}
			r.first = a
		}
	}
	if r.first == nil {
		t.Fatalf("no twin says that it did it: %d %s", answers[0].Status, answers[0].Body)
	}
	for _, a := range answers {
		if a != r.first {
			wantReplay(t, r.first, a)
		}
	}
	if got := addedRows(before, r.f.countRows(t, r.conn)); got != effect {
		t.Errorf("20 twins made %s, one request makes %s", got, effect)
	}
}

// One connection is enough for it, and any instance will do.
func (r *keyTest) testReplay(t *testing.T, one *testAPI) {
	t.Helper()
	c := *r.c
	c.API = one.api
	r.wantReplay(t, &c)
	r.wantReplay(t, r.c)
	if !hasID(r.op) {
		return
	}
	parts := strings.Split(r.path, "/")
	for i, part := range strings.Split(r.op.Path(), "/") {
		if strings.HasPrefix(part, "{") {
			parts[i] = strings.ToUpper(parts[i])
		}
	}
	wantReplay(t, r.first, r.f.do(t, r.c, r.op, strings.Join(parts, "/"), r.body))
}

// Another body or path with the key is a conflict.
func (r *keyTest) testConflicts(t *testing.T, w *testAPI) {
	t.Helper()
	if r.op.example != nil {
		r.c.Post(t, r.path, r.otherBody(t)).WantError(409, "IDEMPOTENCY_CONFLICT")
	}
	for _, other := range w.operations {
		if acceptsKey(other) && other != r.op {
			r.f.do(t, r.c, other, r.f.path(t, other.Path()), r.f.body(t, other)).WantError(409, "IDEMPOTENCY_CONFLICT")
		}
	}
	if hasID(r.op) {
		parts := strings.Split(r.path, "/")
		parts[slices.IndexFunc(strings.Split(r.op.Path(), "/"), func(p string) bool { return strings.HasPrefix(p, "{") })] = db.NewID()
		r.f.do(t, r.c, r.op, strings.Join(parts, "/"), r.body).WantError(409, "IDEMPOTENCY_CONFLICT")
	}
}

// otherBody is as good as the request's and says something else.
func (r *keyTest) otherBody(t *testing.T) map[string]any {
	t.Helper()
	body := maps.Clone(r.body)
	for _, name := range slices.Sorted(maps.Keys(body)) {
		is := r.op.fields[name]
		switch v := body[name].(type) {
		case string:
			if is.Type == nil || is.Format != "" || is.Enum != nil || name == "email" {
				continue
			}
			body[name] = v + " too"
		case float64:
			if is.Enum != nil {
				continue
			}
			body[name] = v + 1
		default:
			continue
		}
		return body
	}
	t.Fatalf("%s: these tests do not know how to change %v", r.op.Pattern, r.body)
	return nil
}

// A replay is for those who could still send the request: token, limits and role come first.
func (r *keyTest) testAuthorization(t *testing.T, strict *testAPI) {
	t.Helper()
	api := r.c.API
	role := func(role string) *authtest.Client {
		_, err := r.conn.Exec(t.Context(), `update users set role = $2 where id = $1`, r.c.Actor.User, role)
		check(t, err)
		now := *r.c
		now.Token, err = api.Tokens.Access(auth.Principal{TenantID: r.c.Actor.Tenant, UserID: r.c.Actor.User, Role: role})
		check(t, err)
		return &now
	}
	refused := func(c *authtest.Client, status int, code string) {
		t.Helper()
		if a := r.do(t, c).WantError(status, code); isReplay(a) {
			t.Errorf("a %d says that it is a replay", status)
		}
	}
	refused(r.viewer, 403, "FORBIDDEN")
	refused(role("viewer"), 403, "FORBIDDEN")
	refused(r.c, 401, "INVALID_TOKEN")
	if r.op.Access <= server.Write {
		r.wantReplay(t, role("operator"))
	}
	r.wantReplay(t, role("admin"))
	accounts := auth.Accounts{DB: api.DB, Hasher: auth.NewHasher(1000)}
	check(t, accounts.SetDisabled(t.Context(), r.c.Email, true))
	refused(r.c, 401, "INVALID_TOKEN")
	check(t, accounts.SetDisabled(t.Context(), r.c.Email, false))
	refused(withKey(api.Anonymous(), "key"), 401, "INVALID_TOKEN")

	limited := *r.c
	limited.API = strict.api
	for left := 2; left >= 0; left-- {
		a := r.do(t, &limited)
		wantReplay(t, r.first, a)
		if got := a.Header.Get("X-RateLimit-Remaining"); got != fmt.Sprint(left) {
			t.Errorf("X-RateLimit-Remaining of a replay is %s, want %d", got, left)
		}
	}
	refused(&limited, 429, "RATE_LIMIT_EXCEEDED")
}

// The key is the user's own: the request of somebody else is a request of its own, whatever becomes of it.
func (r *keyTest) testOtherUsers(t *testing.T) {
	t.Helper()
	for name, c := range map[string]*authtest.Client{"another user": r.f.tenant.User(t, "admin"), "a user of another tenant": r.c.API.Tenant(t).User(t, "admin")} {
		a := r.do(t, withKey(c, "key"))
		if isReplay(a) || a.Status == 409 || a.Status >= 500 || c.Actor.Tenant != r.c.Actor.Tenant && hasID(r.op) && a.Status != 404 {
			t.Errorf("%s: %d %v %s", name, a.Status, a.Header, a.Body)
		}
	}
	r.wantReplay(t, r.c)
}

// After a day a key is as good as new, for any request.
func (r *keyTest) testExpiry(t *testing.T) {
	t.Helper()
	age := func(by string) {
		t.Helper()
		done, err := r.conn.Exec(t.Context(), `update idempotency_keys set created_at = created_at - $2::text::interval where user_id = $1`, r.c.Actor.User, by)
		check(t, err)
		if done.RowsAffected() != 1 {
			t.Fatalf("%d keys are kept", done.RowsAffected())
		}
	}
	age("23 hours 30 minutes")
	r.wantReplay(t, r.c)
	age("31 minutes")
	again := r.do(t, r.c)
	if isReplay(again) || again.Status >= 500 {
		t.Errorf("a day later: %d %v %s", again.Status, again.Header, again.Body)
	}
	if again.Status < 300 {
		if r.op.creates && again.Header.Get("Location") == r.first.Header.Get("Location") {
			t.Error("nothing new was made")
		}
		wantReplay(t, again, r.do(t, r.c))
		age("25 hours")
	}
	spool := authtest.JSON{"material_type": "PLA", "color": "Red", "diameter_mm": 1.75, "net_weight_grams": 1}
	other := r.c.Post(t, "/api/v1/spools", spool).Want(201)
	wantReplay(t, other, r.c.Post(t, "/api/v1/spools", spool))
}

func TestValidKeys(t *testing.T) {
	t.Parallel()
	c := newUnlimitedAPI(t).api.Operator(t)
	for _, good := range []string{"k", strings.Repeat("k", 255), `a "key" with ~ and {}, of 1 + 2 \ 3; 100%`} {
		first := withKey(c, good).Post(t, runsURL, authtest.JSON{"notes": "x"})
		wantReplay(t, first, withKey(c, good).Post(t, runsURL, authtest.JSON{"notes": "x"}))
	}
	if total := c.Get(t, runsURL).Text("total"); total != "3" {
		t.Errorf("%s runs, want 3", total)
	}
}

// A new token secret does not make a repeated request another one. What is kept of a request tells nobody who has no secret what its
// body was: it may have had a password in it.
func TestKeysAndSecrets(t *testing.T) {
	t.Parallel()
	before := newUnlimitedAPI(t)
	after := newTestAPI(t, authtest.Options{Change: func(c *server.Config) { c.Secrets = []string{"a newer secret, of more than 32 bytes", authtest.Secret} }})
	stranger := newTestAPI(t, authtest.Options{Change: func(c *server.Config) { c.Secrets = []string{"another secret, of more than 32 bytes"} }})
	c := withKey(before.api.Tenant(t).User(t, "admin"), "key")
	body := []byte(`{"email":"` + db.NewID() + `@farm.example","name":"Bob","role":"viewer","password":"a long and secret phrase"}`)
	first := c.Do(t, "POST", "/api/v1/users", body).Want(201)
	elsewhere := *c
	elsewhere.API = after.api
	wantReplay(t, first, elsewhere.Do(t, "POST", "/api/v1/users", body))
	elsewhere.API = stranger.api
	elsewhere.Do(t, "POST", "/api/v1/users", body).WantError(409, "IDEMPOTENCY_CONFLICT")

	var kept []byte
	check(t, connectSuper(t).QueryRow(t.Context(), `select request from idempotency_keys where user_id = $1`, c.Actor.User).Scan(&kept))
	for _, guess := range [][]byte{body, append([]byte("/api/v1/users\n"), body...), append([]byte("idempotency\n/api/v1/users\n"), body...)} {
		if sum := sha256.Sum256(guess); bytes.Equal(kept, sum[:]) {
			t.Errorf("what is kept of the request is a plain hash of %q", guess)
		}
	}
}

// Only a POST outside of /auth has to do with a key; everything else ignores it.
func TestIgnoredKeys(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	conn := connectSuper(t)
	f := w.newFullFixture(t).prepareBodies(t)
	w.forEach(t, func(op *operation) bool { return !acceptsKey(op) }, func(t *testing.T, op *operation) {
		path, body := f.path(t, op.Path()), f.body(t, op)
		for _, key := range []string{"key", "key", strings.Repeat("k", 256)} {
			a := f.do(t, withKey(f.admin, key), op, path, body)
			// Some of them work once, or no longer after a DELETE.
			if isReplay(a) || a.Status == 409 || a.Status == 422 || a.Status >= 500 {
				t.Errorf("%s: %d %v %s", a.What, a.Status, a.Header, a.Body)
			}
		}
	})
	if n := countKeys(t, conn, f.admin); n != 0 {
		t.Errorf("%d keys are kept", n)
	}
}

// refusal is a request that is refused for what it finds; after the cure it is not.
type errorCase struct {
	route  string
	status int
	code   string
	setUp  func(t *testing.T, c *authtest.Client) (path string, body any, cure func())
}

// odd is a name that reads like an error of the driver; an answer that quotes it is no such error.
const driverErrorText = "conn closed"

const (
	spoolsURL   = "/api/v1/spools"
	productsURL = "/api/v1/products"
	runsURL     = "/api/v1/production-runs"
)

func createSpool(t *testing.T, c *authtest.Client, more authtest.JSON) string {
	t.Helper()
	body := authtest.JSON{"material_type": "PLA", "color": "Black", "brand": driverErrorText, "diameter_mm": 1.75, "net_weight_grams": 10}
	maps.Copy(body, more)
	return spoolsURL + "/" + c.Post(t, spoolsURL, body).Want(201).ID()
}

// enterDearSpool makes filament so dear that much of it costs more than any column holds.
func createExpensiveSpool(t *testing.T, c *authtest.Client) string {
	t.Helper()
	return createSpool(t, c, authtest.JSON{"net_weight_grams": 0.001, "purchase_price": 999_999})
}

func createProduct(t *testing.T, c *authtest.Client, grams float64) string {
	t.Helper()
	product := productsURL + "/" + c.Post(t, productsURL, authtest.JSON{"name": driverErrorText}).Want(201).ID()
	if grams > 0 {
		c.Post(t, product+"/materials", authtest.JSON{"material_type": "PLA", "color": "Black", "weight_grams": grams}).Want(201)
	}
	return product
}

func idOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// enterRun makes a run that uses so much of a spool.
func createRun(t *testing.T, c *authtest.Client, spool string, grams any) (run, material string) {
	t.Helper()
	run = runsURL + "/" + c.Post(t, runsURL, authtest.JSON{}).Want(201).ID()
	if spool != "" {
		material = c.Post(t, run+"/materials", authtest.JSON{"spool_id": idOf(spool), "spool_weight_before_grams": grams, "spool_weight_after_grams": 0}).Want(201).Header.Get("Location")
	}
	return run, material
}

var errorCases = []errorCase{
	{"POST /api/v1/spools", 422, "VALIDATION_ERROR", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		return spoolsURL, authtest.JSON{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 0.000001, "purchase_price": 1_000_000}, nil
	}},
	{"POST /api/v1/spools/{id}/deduct", 400, "INSUFFICIENT_FILAMENT", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		spool := createSpool(t, c, nil)
		return spool + "/deduct", authtest.JSON{"weight_grams": 11}, func() { c.Patch(t, spool, authtest.JSON{"remaining_weight_grams": 12}).Want(200) }
	}},
	{"POST /api/v1/spools/{id}/deduct", 404, "NOT_FOUND", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		spool := createSpool(t, c, nil)
		c.Delete(t, spool).Want(204)
		return spool + "/deduct", authtest.JSON{"weight_grams": 1}, nil
	}},
	{"POST /api/v1/products", 400, "DUPLICATE_SKU", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		body := authtest.JSON{"name": "x", "sku": driverErrorText}
		product := c.Post(t, productsURL, body).Want(201).Header.Get("Location")
		return productsURL, body, func() { c.Delete(t, product).Want(204) }
	}},
	{"POST /api/v1/products/{id}/materials", 404, "NOT_FOUND", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		return productsURL + "/" + db.NewID() + "/materials", authtest.JSON{"material_type": "PLA", "color": "Black", "weight_grams": 1}, nil
	}},
	{"POST /api/v1/products/{id}/materials", 422, "VALIDATION_ERROR", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		spool := createExpensiveSpool(t, c)
		return createProduct(t, c, 0) + "/materials", authtest.JSON{"material_type": "PLA", "color": "Black", "weight_grams": 1_000_000}, func() { c.Delete(t, spool).Want(204) }
	}},
	{"POST /api/v1/products/{id}/components", 404, "NOT_FOUND", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		return productsURL + "/" + db.NewID() + "/components", authtest.JSON{"component_product_id": idOf(createProduct(t, c, 0))}, nil
	}},
	{"POST /api/v1/products/{id}/components", 400, "UNKNOWN_REFERENCE", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		return createProduct(t, c, 0) + "/components", authtest.JSON{"component_product_id": db.NewID()}, nil
	}},
	{"POST /api/v1/products/{id}/components", 400, "DUPLICATE_COMPONENT", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		path, body := createProduct(t, c, 0)+"/components", authtest.JSON{"component_product_id": idOf(createProduct(t, c, 0))}
		component := c.Post(t, path, body).Want(201).Header.Get("Location")
		return path, body, func() { c.Delete(t, component).Want(204) }
	}},
	{"POST /api/v1/products/{id}/components", 400, "COMPONENT_CYCLE", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		whole, part := createProduct(t, c, 0), createProduct(t, c, 0)
		component := c.Post(t, whole+"/components", authtest.JSON{"component_product_id": idOf(part)}).Want(201).Header.Get("Location")
		return part + "/components", authtest.JSON{"component_product_id": idOf(whole)}, func() { c.Delete(t, component).Want(204) }
	}},
	{"POST /api/v1/products/{id}/components", 422, "VALIDATION_ERROR", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		spool := createExpensiveSpool(t, c)
		part := createProduct(t, c, 1)
		return createProduct(t, c, 0) + "/components", authtest.JSON{"component_product_id": idOf(part), "quantity": 1_000_000}, func() {
			c.Delete(t, spool).Want(204)
			c.Post(t, part+"/recalculate", nil).Want(200)
		}
	}},
	{"POST /api/v1/products/{id}/recalculate", 404, "NOT_FOUND", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		return productsURL + "/" + db.NewID() + "/recalculate", nil, nil
	}},
	{"POST /api/v1/products/{id}/recalculate", 422, "VALIDATION_ERROR", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		product := createProduct(t, c, 1000)
		spool := createExpensiveSpool(t, c)
		return product + "/recalculate", nil, func() { c.Delete(t, spool).Want(204) }
	}},
	{"POST /api/v1/production-runs/{id}/items", 404, "NOT_FOUND", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		return runsURL + "/" + db.NewID() + "/items", authtest.JSON{"product_id": idOf(createProduct(t, c, 0))}, nil
	}},
	{"POST /api/v1/production-runs/{id}/items", 400, "UNKNOWN_REFERENCE", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		run, _ := createRun(t, c, "", 0)
		return run + "/items", authtest.JSON{"product_id": db.NewID()}, nil
	}},
	{"POST /api/v1/production-runs/{id}/items", 422, "VALIDATION_ERROR", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		run, _ := createRun(t, c, "", 0)
		return run + "/items", authtest.JSON{"product_id": idOf(createProduct(t, c, 0)), "successful_quantity": 2}, nil
	}},
	{"POST /api/v1/production-runs/{id}/items", 422, "VALIDATION_ERROR", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		spool := createExpensiveSpool(t, c)
		product := createProduct(t, c, 1)
		run, _ := createRun(t, c, "", 0)
		return run + "/items", authtest.JSON{"product_id": idOf(product), "quantity": 1_000_000}, func() {
			c.Delete(t, spool).Want(204)
			c.Post(t, product+"/recalculate", nil).Want(200)
		}
	}},
	{"POST /api/v1/production-runs/{id}/materials", 404, "NOT_FOUND", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		return runsURL + "/" + db.NewID() + "/materials", authtest.JSON{"spool_id": idOf(createSpool(t, c, nil))}, nil
	}},
	{"POST /api/v1/production-runs/{id}/materials", 400, "UNKNOWN_REFERENCE", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		run, _ := createRun(t, c, "", 0)
		return run + "/materials", authtest.JSON{"spool_id": db.NewID()}, nil
	}},
	{"POST /api/v1/production-runs/{id}/materials", 400, "RUN_ALREADY_COMPLETED", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		spool := createSpool(t, c, nil)
		run, _ := createRun(t, c, spool, 1)
		c.Post(t, run+"/complete", nil).Want(200)
		return run + "/materials", authtest.JSON{"spool_id": idOf(spool)}, nil
	}},
	{"POST /api/v1/users", 400, "EMAIL_TAKEN", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		return "/api/v1/users", authtest.JSON{"email": c.Email, "name": "x", "role": "viewer", "password": authtest.Password}, nil
	}},
	{"POST /api/v1/production-runs/{id}/complete", 404, "NOT_FOUND", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		return runsURL + "/" + db.NewID() + "/complete", nil, nil
	}},
	{"POST /api/v1/production-runs/{id}/complete", 400, "RUN_HAS_NO_MATERIALS", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		run, _ := createRun(t, c, "", 0)
		return run + "/complete", nil, func() {
			c.Post(t, run+"/materials", authtest.JSON{"spool_id": idOf(createSpool(t, c, nil)), "spool_weight_before_grams": 1, "spool_weight_after_grams": 0}).Want(201)
		}
	}},
	{"POST /api/v1/production-runs/{id}/complete", 400, "ACTUAL_USAGE_MISSING", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		run, material := createRun(t, c, createSpool(t, c, nil), nil)
		return run + "/complete", nil, func() { c.Patch(t, material, authtest.JSON{"spool_weight_before_grams": 3}).Want(200) }
	}},
	{"POST /api/v1/production-runs/{id}/complete", 400, "INSUFFICIENT_FILAMENT", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		spool := createSpool(t, c, nil)
		run, _ := createRun(t, c, spool, 11)
		return run + "/complete", nil, func() { c.Patch(t, spool, authtest.JSON{"remaining_weight_grams": 12}).Want(200) }
	}},
	{"POST /api/v1/production-runs/{id}/complete", 400, "RUN_ALREADY_COMPLETED", func(t *testing.T, c *authtest.Client) (string, any, func()) {
		run, _ := createRun(t, c, createSpool(t, c, nil), 1)
		c.Post(t, run+"/complete", nil).Want(200)
		return run + "/complete", nil, nil
	}},
}

// A refusal is the same with a key as without, though it then comes from within a transaction; it is not kept, so once its
// cause is gone the same key works.
func TestErrorsAreNotStored(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	covered := map[string]bool{}
	for _, r := range errorCases {
		covered[r.route+" "+r.code] = true
		t.Run(strings.TrimPrefix(r.route, "POST /api/v1/")+" "+r.code, func(t *testing.T) {
			t.Parallel()
			c := w.api.Tenant(t).User(t, "admin")
			path, body, cure := r.setUp(t, c)
			plain := c.Post(t, path, body).WantError(r.status, r.code)
			for range 2 {
				if a := withKey(c, "key").Post(t, path, body).WantError(r.status, r.code); !bytes.Equal(a.Body, plain.Body) || isReplay(a) {
					t.Errorf("with a key: %v %s, without: %s", a.Header, a.Body, plain.Body)
				}
			}
			if n := countKeys(t, connectSuper(t), c); n != 0 {
				t.Errorf("%d keys are kept", n)
			}
			if cure == nil {
				return
			}
			cure()
			first := withKey(c, "key").Post(t, path, body)
			wantReplay(t, first, withKey(c, "key").Post(t, path, body))
		})
	}
	w.forEach(t, acceptsKey, func(t *testing.T, op *operation) {
		for _, e := range op.Doc.Errors {
			if !covered[op.Pattern+" "+e.Code] {
				t.Errorf("no request causes %s", e.Code)
			}
		}
	})
}
