package blackbox_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"spoolwright/auth"
	"spoolwright/auth/accounts"
	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// acceptsKey reports whether the operation accepts an Idempotency-Key: every POST outside /auth does, unless it changes
// nothing.
func acceptsKey(op *operation) bool {
	return op.Method() == "POST" && !strings.HasPrefix(op.Path(), "/api/v1/auth/") && op.Doc.ID != "testPrinterConnection"
}

func withKey(c *testkit.Client, key string) *testkit.Client { return c.With("Idempotency-Key", key) }

func isReplay(a *testkit.Response) bool { return a.Header.Get("Idempotency-Replayed") != "" }

// wantReplay fails the test unless the first response is an original success and the second its replay: the same
// status, Location and body, with Idempotency-Replayed.
// secretField is the secret of an API key, a webhook or a password link, which is not stored, and is empty in a
// replay.
var secretField = regexp.MustCompile(`"(key|secret|token)":"(swk_[^"]+|whsec_[^"]+|[\w-]{43})"`)

func wantReplay(t *testing.T, first, second *testkit.Response) {
	t.Helper()
	firstLocation, secondLocation := first.Header.Get("Location"), second.Header.Get("Location")
	body := secretField.ReplaceAll(first.Body, []byte(`"$1":""`))
	same := first.Status == second.Status && bytes.Equal(body, second.Body) && firstLocation == secondLocation
	if first.Status >= 300 || !same {
		t.Errorf("%s: %d %s %s, and with the same key: %d %s %s", first.What,
			first.Status, firstLocation, first.Body, second.Status, secondLocation, second.Body)
	}
	if isReplay(first) || second.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%s: Idempotency-Replayed is %q, then %q", first.What,
			first.Header.Get("Idempotency-Replayed"), second.Header.Get("Idempotency-Replayed"))
	}
}

// supers are connections that tests use one after the other: a new one reads the catalog for each table of countRows.
var supers = sync.OnceValues(func() (*pgxpool.Pool, error) {
	return pgxpool.New(context.Background(), testkit.Private().SuperURL()+"&pool_max_conns=32")
})

// connectSuper connects as superuser, whom row-level security does not restrict.
func connectSuper(t *testing.T) *pgx.Conn {
	t.Helper()
	pool, err := supers()
	check(t, err)
	conn, err := pool.Acquire(context.Background())
	check(t, err)
	t.Cleanup(conn.Release)
	return conn.Conn()
}

// tableRows is the number of a tenant's rows in a table, and a hash of them.
type tableRows struct {
	count int
	hash  string
}

// countRows returns the tenant's rows by table, without stored keys and counters.
func (f *fixture) countRows(t *testing.T, conn *pgx.Conn) map[string]tableRows {
	t.Helper()
	found, err := conn.Query(t.Context(), `
		select c.relname::text from pg_class c join pg_attribute a on a.attrelid = c.oid
		where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and a.attname = 'tenant_id'
			and c.relname not in ('idempotency_keys', 'counters')
		order by 1`)
	check(t, err)
	tables, err := pgx.CollectRows(found, pgx.RowTo[string])
	check(t, err)
	// One statement for all tables: some tests count rows hundreds of times.
	counts := make([]string, len(tables))
	for i, table := range tables {
		counts[i] = fmt.Sprintf(`select '%s', count(*)::int, coalesce(sum(hashtextextended(r::text, 0)), 0)::text
			from %[1]s r where tenant_id = $1`, table)
	}
	rows, err := conn.Query(t.Context(), strings.Join(counts, " union all "), f.tenant.ID)
	check(t, err)
	all, table, r := map[string]tableRows{}, "", tableRows{}
	_, err = pgx.ForEachRow(rows, []any{&table, &r.count, &r.hash}, func() error { all[table] = r; return nil })
	check(t, err)
	return all
}

// addedRows describes the difference of two results of countRows, such as "spool_usage 1, spools 1".
func addedRows(before, after map[string]tableRows) string {
	var all []string
	for _, table := range slices.Sorted(maps.Keys(after)) {
		if n := after[table].count - before[table].count; n != 0 {
			all = append(all, fmt.Sprint(table, " ", n))
		}
	}
	return strings.Join(all, ", ")
}

// wantSameRows fails the test if rows were added, changed or removed since before.
func (f *fixture) wantSameRows(t *testing.T, conn *pgx.Conn, before map[string]tableRows) {
	t.Helper()
	after := f.countRows(t, conn)
	for _, table := range slices.Sorted(maps.Keys(after)) {
		testkit.Equal(t, after[table], before[table],
			"rows of %s have changed: %d before, %d now", table, before[table].count, after[table].count)
	}
}

// countKeys returns the number of stored keys of the client's user.
func countKeys(t *testing.T, conn *pgx.Conn, c *testkit.Client) (n int) {
	t.Helper()
	const query = `select count(*) from idempotency_keys where user_id = $1`
	check(t, conn.QueryRow(t.Context(), query, c.Actor.User).Scan(&n))
	return n
}

// newSingleConnAPI starts the API with a pool of one database connection. A request that needs two at once would
// deadlock.
func newSingleConnAPI(t *testing.T) *testAPI {
	t.Helper()
	d, err := db.Open(t.Context(), db.Config{URL: testkit.Private().AppURL(), MaxConns: 1})
	check(t, err)
	t.Cleanup(d.Close)
	return newTestAPI(t, testkit.Options{DB: d})
}

// TestIdempotencyKeys sends the same request with the same key many times, to every operation that accepts a key: at
// once, later, to another instance, by other users, with other bodies, and after the key has expired.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	w, singleConn, limited := newUnlimitedAPI(t), newSingleConnAPI(t), newTestAPI(t, testkit.Options{PerHour: 3})
	conn := connectSuper(t)
	w.forSome(t, acceptsKey, func(t *testing.T, op *operation) {
		plain, path, body := w.newRequest(t, op)
		before := plain.countRows(t, conn)
		if a := plain.do(t, plain.admin, op, path, body); a.Status >= 300 {
			t.Fatalf("%s: %d %s", a.What, a.Status, a.Body)
		}
		effect := addedRows(before, plain.countRows(t, conn)) // of one request without a key

		f, path, body := w.newRequest(t, op)
		r := keyTest{f: f, op: op, path: path, body: body, conn: conn}
		r.c, r.viewer = withKey(f.tenant.User(t, "admin"), "key"), withKey(f.tenant.User(t, "viewer"), "key")
		r.testInvalid(t)
		r.testConcurrent(t, effect)
		if t.Failed() {
			return
		}
		others := r.conflicting(t)
		rows := f.countRows(t, conn)
		r.testReplay(t, singleConn)
		r.testConflicts(t, others)
		f.wantSameRows(t, conn, rows)
		r.testAuthorization(t, limited)
		rows["audit_log"] = f.countRows(t, conn)["audit_log"] // has the roles that testAuthorization gave the user
		f.wantSameRows(t, conn, rows)
		r.testOtherUsers(t)
		r.testExpiry(t)
	})
}

// keyTest tests one operation. Its methods run in the order in which TestIdempotencyKeys calls them.
type keyTest struct {
	f         *fixture
	op        *operation
	path      string
	body      map[string]any
	c, viewer *testkit.Client   // send the key "key"
	conn      *pgx.Conn         // as superuser
	first     *testkit.Response // the original response, set by testConcurrent
}

func (r *keyTest) do(t *testing.T, c *testkit.Client) *testkit.Response {
	t.Helper()
	return r.f.do(t, c, r.op, r.path, r.body)
}

func (r *keyTest) wantReplay(t *testing.T, c *testkit.Client) {
	t.Helper()
	wantReplay(t, r.first, r.do(t, c))
}

// testInvalid checks that a request with an invalid key or body is rejected without an effect, and does not use up
// the key.
func (r *keyTest) testInvalid(t *testing.T) {
	t.Helper()
	before := r.f.countRows(t, r.conn)
	for _, key := range []string{"", strings.Repeat("k", 256), "tab\tkey", "é", "k\x80", "\xff", "日本"} {
		r.do(t, withKey(r.c, key)).Fields("Idempotency-Key")
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
	r.f.wantSameRows(t, r.conn, before)
	testkit.Equal(t, countKeys(t, r.conn, r.c), 0, "stored keys of rejected requests")
}

// testConcurrent sends the request 20 times at once. One response is the original, the others are replays, and the
// effect is that of one request.
func (r *keyTest) testConcurrent(t *testing.T, effect string) {
	t.Helper()
	before := r.f.countRows(t, r.conn)
	c, body := r.op.request(r.c, r.body)
	responses := make([]*testkit.Response, 20)
	testkit.Concurrently(len(responses), func(i int) {
		var err error
		if responses[i], err = c.Send("POST", r.path, body); err != nil {
			t.Error(err)
		}
	})
	if t.Failed() {
		return
	}
	for _, a := range responses {
		if !isReplay(a) {
			if r.first != nil {
				t.Error("two responses lack Idempotency-Replayed, want one")
			}
			r.first = a
		}
	}
	if r.first == nil {
		t.Fatalf("all responses have Idempotency-Replayed: %d %s", responses[0].Status, responses[0].Body)
	}
	for _, a := range responses {
		if a != r.first {
			wantReplay(t, r.first, a)
		}
	}
	if got := addedRows(before, r.f.countRows(t, r.conn)); got != effect {
		t.Errorf("20 requests with one key added %s, one request without a key adds %s", got, effect)
	}
}

// testReplay repeats the request on another instance, which has a single database connection, on the first instance,
// and with ids in upper case.
func (r *keyTest) testReplay(t *testing.T, singleConn *testAPI) {
	t.Helper()
	c := *r.c
	c.API = singleConn.api
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

// conflicting returns other operations for requests with the same key: in CI all of them, else the next one. It
// creates what their requests need.
func (r *keyTest) conflicting(t *testing.T) []*operation {
	t.Helper()
	all := slices.DeleteFunc(slices.Clone(r.f.operations), func(op *operation) bool { return !acceptsKey(op) })
	i, n := slices.Index(all, r.op), len(all)
	others := slices.Concat(all[i+1:], all[:i])[:testkit.InCI(1, n-1)]
	for _, other := range others {
		r.f.path(t, other.Path())
		r.f.body(t, other)
	}
	return others
}

// testConflicts checks that another body, operation or id with the same key is a 409.
func (r *keyTest) testConflicts(t *testing.T, others []*operation) {
	t.Helper()
	if r.op.example != nil {
		r.c.Post(t, r.path, r.otherBody(t)).WantError(409, "IDEMPOTENCY_CONFLICT")
	}
	for _, other := range others {
		r.f.do(t, r.c, other, r.f.path(t, other.Path()), r.f.body(t, other)).WantError(409, "IDEMPOTENCY_CONFLICT")
	}
	if hasID(r.op) {
		parts := strings.Split(r.path, "/")
		isID := func(part string) bool { return strings.HasPrefix(part, "{") }
		parts[slices.IndexFunc(strings.Split(r.op.Path(), "/"), isID)] = value.NewID()
		r.f.do(t, r.c, r.op, strings.Join(parts, "/"), r.body).WantError(409, "IDEMPOTENCY_CONFLICT")
	}
}

// otherBody returns a valid body that differs from the request's.
func (r *keyTest) otherBody(t *testing.T) map[string]any {
	t.Helper()
	body := maps.Clone(r.body)
	for _, name := range slices.Sorted(maps.Keys(body)) {
		schema := r.op.fields[name]
		switch v := body[name].(type) {
		case string:
			if schema.Type == nil || schema.Format != "" || schema.Enum != nil || name == "email" || name == "currency" {
				continue
			}
			body[name] = v + " too"
		case float64:
			if schema.Enum != nil || name == "diameter_mm" { // of which there are two
				continue
			}
			body[name] = v + 1
		case bool:
			body[name] = !v
		case []any:
			if delete(body, name); name == "variants" || name == "printer_ids" || strings.HasSuffix(r.op.Path(), "/batch") { // which are required
				body[name] = slices.Concat(v, v)
			}
		default:
			continue
		}
		return body
	}
	t.Fatalf("%s: otherBody cannot change any field of %v", r.op.Pattern, r.body)
	return nil
}

// testAuthorization checks that the token, the role and the rate limit of a request are checked before it gets a
// replay.
func (r *keyTest) testAuthorization(t *testing.T, limited *testAPI) {
	t.Helper()
	api := r.c.API
	// withRole changes the user's role and returns a client with a token for it.
	withRole := func(role string) *testkit.Client {
		_, err := r.conn.Exec(t.Context(), `update users set role = $2 where id = $1`, r.c.Actor.User, role)
		check(t, err)
		c := *r.c
		c.Token, err = api.Tokens.Access(auth.Principal{TenantID: r.c.Actor.Tenant, UserID: r.c.Actor.User,
			Role: role})
		check(t, err)
		return &c
	}
	wantError := func(c *testkit.Client, status int, code string) {
		t.Helper()
		if a := r.do(t, c).WantError(status, code); isReplay(a) {
			t.Errorf("a %d has Idempotency-Replayed", status)
		}
	}
	wantError(r.viewer, 403, "FORBIDDEN")
	wantError(withRole("viewer"), 403, "FORBIDDEN")
	wantError(r.c, 401, "INVALID_TOKEN")
	if r.op.Access <= server.Write {
		r.wantReplay(t, withRole("operator"))
	}
	r.wantReplay(t, withRole("admin"))
	accounts := accounts.Accounts{DB: api.DB, Hasher: secrets.NewHasher(1000)}
	check(t, accounts.SetDisabled(t.Context(), r.c.Email, true))
	wantError(r.c, 401, "INVALID_TOKEN")
	check(t, accounts.SetDisabled(t.Context(), r.c.Email, false))
	// as before
	_, err := r.conn.Exec(t.Context(), `update users set updated_at = created_at where id = $1`, r.c.Actor.User)
	check(t, err)
	wantError(withKey(api.Anonymous(), "key"), 401, "INVALID_TOKEN")

	c := *r.c
	c.API = limited.api
	for remaining := 2; remaining >= 0; remaining-- {
		a := r.do(t, &c)
		wantReplay(t, r.first, a)
		testkit.Equal(t, a.Header.Get("X-RateLimit-Remaining"), fmt.Sprint(remaining),
			"X-RateLimit-Remaining of a replay")
	}
	wantError(&c, 429, "RATE_LIMIT_EXCEEDED")
}

// testOtherUsers checks that keys belong to a user: the same request of another user is never a replay or a conflict.
func (r *keyTest) testOtherUsers(t *testing.T) {
	t.Helper()
	for name, c := range map[string]*testkit.Client{
		"another user":             r.f.tenant.User(t, "admin"),
		"a user of another tenant": r.c.API.Tenant(t).User(t, "admin"),
	} {
		a := r.do(t, withKey(c, "key"))
		notFound := c.Actor.Tenant == r.c.Actor.Tenant || !hasID(r.op) || a.Status == 404
		if isReplay(a) || a.Status == 409 && a.Text("code") == "IDEMPOTENCY_CONFLICT" || a.Status >= 500 || !notFound {
			t.Errorf("%s: %d %v %s", name, a.Status, a.Header, a.Body)
		}
	}
	r.wantReplay(t, r.c)
}

// testExpiry checks that a key can be used for a new request 24 hours after its first use, and not before.
func (r *keyTest) testExpiry(t *testing.T) {
	t.Helper()
	age := func(by string) {
		t.Helper()
		done, err := r.conn.Exec(t.Context(), `
			update idempotency_keys set created_at = created_at - $2::text::interval where user_id = $1`,
			r.c.Actor.User, by)
		check(t, err)
		if done.RowsAffected() != 1 {
			t.Fatalf("%d keys are stored, want 1", done.RowsAffected())
		}
	}
	age("23 hours 30 minutes")
	r.wantReplay(t, r.c)
	age("31 minutes")
	again := r.do(t, r.c)
	if isReplay(again) || again.Status >= 500 {
		t.Errorf("after 24 hours: %d %v %s", again.Status, again.Header, again.Body)
	}
	if again.Status < 300 {
		// Location is that of the list, of the filament or of the product.
		several := strings.HasSuffix(r.path, "/batch") || r.op.Doc.ID == "addFilamentSpools" ||
			r.op.Doc.ID == "addProductVariants"
		if r.op.creates && !several && again.Header.Get("Location") == r.first.Header.Get("Location") {
			t.Error("after 24 hours the response has the Location of the first one")
		}
		wantReplay(t, again, r.do(t, r.c))
		age("25 hours")
	}
	spool := testkit.JSON{"material_type": "PLA", "color": "Red", "diameter_mm": 1.75, "net_weight_grams": 1}
	other := r.c.Post(t, "/api/v1/spools", spool).Want(201)
	wantReplay(t, other, r.c.Post(t, "/api/v1/spools", spool))
}

// TestValidKeys checks the shortest and the longest key, and a key of punctuation.
func TestValidKeys(t *testing.T) {
	t.Parallel()
	c := newUnlimitedAPI(t).api.Operator(t)
	for _, key := range []string{"k", strings.Repeat("k", 255), `a "key" with ~ and {}, of 1 + 2 \ 3; 100%`} {
		first := withKey(c, key).Post(t, runsURL, testkit.JSON{"notes": "x"})
		wantReplay(t, first, withKey(c, key).Post(t, runsURL, testkit.JSON{"notes": "x"}))
	}
	testkit.Equal(t, c.Get(t, runsURL).Text("total"), "3", "runs")
}

// TestKeysAndSecrets checks that the hash of a request that is stored with its key depends on JWT_SECRET, so that it
// does not reveal a password in the body to a reader of the database, and that a rotation of the secret does not
// invalidate it.
func TestKeysAndSecrets(t *testing.T) {
	t.Parallel()
	withSecrets := func(secrets ...string) *testAPI {
		return newTestAPI(t, testkit.Options{Change: func(c *server.Config) { c.Secrets = secrets }})
	}
	before := newUnlimitedAPI(t)
	rotated := withSecrets("a newer secret, of more than 32 bytes", testkit.Secret)
	replaced := withSecrets("another secret, of more than 32 bytes")
	c := withKey(before.api.Tenant(t).User(t, "admin"), "key")
	body := []byte(`{"email":"` + value.NewID() + `@farm.example","name":"Bob","role":"viewer",` +
		`"password":"a long and secret phrase"}`)
	first := c.Do(t, "POST", "/api/v1/users", body).Want(201)
	later := *c
	later.API = rotated.api
	wantReplay(t, first, later.Do(t, "POST", "/api/v1/users", body))
	later.API = replaced.api
	later.Do(t, "POST", "/api/v1/users", body).WantError(409, "IDEMPOTENCY_CONFLICT")

	var stored []byte
	const query = `select request from idempotency_keys where user_id = $1`
	check(t, connectSuper(t).QueryRow(t.Context(), query, c.Actor.User).Scan(&stored))
	for _, prefix := range []string{"", "/api/v1/users\n", "idempotency\n/api/v1/users\n"} {
		if sum := sha256.Sum256(append([]byte(prefix), body...)); bytes.Equal(stored, sum[:]) {
			t.Errorf("the stored request is the plain SHA-256 of %q and the body", prefix)
		}
	}
}

// TestIgnoredKeys checks that operations that do not accept a key ignore the header.
func TestIgnoredKeys(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	conn := connectSuper(t)
	f := w.newFullFixture(t).prepareBodies(t)
	w.forEach(t, func(op *operation) bool { return !acceptsKey(op) }, func(t *testing.T, op *operation) {
		path, body := f.path(t, op.Path()), f.body(t, op)
		for _, key := range []string{"key", "key", strings.Repeat("k", 256)} {
			a := f.do(t, withKey(f.admin, key), op, path, body)
			// Other errors are possible, such as 404 after a DELETE.
			conflict := a.Status == 409 && a.Text("code") == "IDEMPOTENCY_CONFLICT"
			if isReplay(a) || conflict || a.Status == 422 || a.Status >= 500 {
				t.Errorf("%s: %d %v %s", a.What, a.Status, a.Header, a.Body)
			}
		}
	})
	testkit.Equal(t, countKeys(t, conn, f.admin), 0, "stored keys")
}

// driverErrorText is the text of an error of the database driver. It is used as a name, because an error response
// that quotes it must not be mistaken for an error of the driver, which would be retried.
const driverErrorText = "conn closed"

const (
	spoolsURL   = "/api/v1/spools"
	printersURL = "/api/v1/printers"
	productsURL = "/api/v1/products"
	ordersURL   = "/api/v1/orders"
	runsURL     = "/api/v1/production-runs"
)

// createSpool creates a spool of 10 g, with other or additional fields from more, and returns its path.
func createSpool(t *testing.T, c *testkit.Client, more testkit.JSON) string {
	t.Helper()
	body := testkit.JSON{"material_type": "PLA", "color": "Black", "brand": driverErrorText, "diameter_mm": 1.75,
		"net_weight_grams": 10}
	maps.Copy(body, more)
	return spoolsURL + "/" + c.Post(t, spoolsURL, body).Want(201).ID()
}

// createProduct creates a product, with a material if grams is positive, and returns its path.
func createProduct(t *testing.T, c *testkit.Client, grams float64) string {
	t.Helper()
	product := productsURL + "/" + c.Post(t, productsURL, testkit.JSON{"name": driverErrorText}).Want(201).ID()
	if grams > 0 {
		material := testkit.JSON{"material_type": "PLA", "color": "Black", "weight_grams": grams}
		c.Post(t, product+"/materials", material).Want(201)
	}
	return product
}

func idOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// createRun creates a run and, unless spool is empty, a material that used the given grams of the spool. It returns
// their paths.
func createRun(t *testing.T, c *testkit.Client, spool string, grams any) (run, material string) {
	t.Helper()
	run = runsURL + "/" + c.Post(t, runsURL, testkit.JSON{}).Want(201).ID()
	if spool != "" {
		body := testkit.JSON{"spool_id": idOf(spool), "spool_weight_before_grams": grams,
			"spool_weight_after_grams": 0}
		material = c.Post(t, run+"/materials", body).Want(201).Header.Get("Location")
	}
	return run, material
}

// errorCases are valid requests that fail because of existing data. The line with > is the request with its status and
// code; the lines before it create the data, and those after it change the data so that the request succeeds. $x is
// the id in the response to "x = ...", $x.y another field of it, and $none an id of nothing. errorBodies replaces @
// words.
const errorCases = `
v = POST /vendors {"name": @text}
> POST /vendors {"name": @text}: 409 DUPLICATE_VENDOR
DELETE /vendors/$v

f = POST /custom-fields {"entity": "spool", "key": "tag", "name": @text, "type": "text"}
> POST /custom-fields {"entity": "spool", "key": "tag", "name": @text, "type": "text"}: 409 DUPLICATE_CUSTOM_FIELD
DELETE /custom-fields/$f

f = POST /filaments {@black, "vendor": @text}
DELETE /vendors/$f.vendor_id
other = POST /vendors {"name": @text}
> POST /vendors/$f.vendor_id/restore: 409 DUPLICATE_VENDOR
DELETE /vendors/$other

p = POST /printers {"name": @text}
> POST /printers {"name": @text}: 409 DUPLICATE_PRINTER
DELETE /printers/$p

p = POST /printers {"name": @text}
POST /production-runs {"printer_id": "$p"}
DELETE /printers/$p
other = POST /printers {"name": @text}
> POST /printers/$p/restore: 409 DUPLICATE_PRINTER
DELETE /printers/$other

p = POST /printers {"name": @text}
> POST /printers/$p/answer {"job": "1", "answer": "none"}: 409 NO_QUESTION
POST /production-runs {"printer_id": "$p", "status": "in_progress"}
POST /printer-states {"states": [{"printer_id": "$p", "sequence": 1, "state": "printing", "job": {"id": "1"}}]}

p = POST /printers {"name": @text}
POST /production-runs {"printer_id": "$p", "status": "in_progress"}
POST /printer-states {"states": [{"printer_id": "$p", "sequence": 1, "state": "printing", "job": {"id": "1"}}]}
> POST /printers/$p/answer {"job": "1", "answer": "run", "run_id": "$p"}: 400 UNKNOWN_REFERENCE

p = POST /printers {"name": @text}
r = POST /production-runs {"printer_id": "$p", "status": "in_progress"}
POST /printer-states {"states": [{"printer_id": "$p", "sequence": 1, "state": "printing", "job": {"id": "1"}}]}
> POST /printers/$p/answer {"job": "1", "answer": "new_run"}: 409 PRINTER_BUSY
PATCH /production-runs/$r {"status": "pending"}

> POST /plan {"items": [{"sku": "none"}]}: 400 UNKNOWN_REFERENCE

> POST /plan {"runs": [{"product_id": "$none", "quantity": 1}]}: 422 VALIDATION_ERROR

p = POST /products @product
> POST /plan {"items": [{"product_id": "$p", "quantity": 5001}]}: 409 PLAN_TOO_LARGE
PATCH /products/$p {"pieces_per_plate": 2}

p = POST /products @product
o = POST /orders {"items": [{"product_id": "$p", "quantity": 5001}]}
> POST /orders/$o/plan {}: 409 PLAN_TOO_LARGE
PATCH /products/$p {"pieces_per_plate": 2}

o = POST /orders {"status": "cancelled"}
> POST /orders/$o/plan {}: 409 ORDER_NOT_OPEN
PATCH /orders/$o {"status": "received"}

o = POST /orders {}
> POST /orders/$o/plan {"item_ids": ["$none"]}: 400 UNKNOWN_REFERENCE

p = POST /printers {"name": @text}
POST /production-runs {"printer_id": "$p", "status": "in_progress"}
r = POST /production-runs {"printer_id": "$p"}
> POST /production-runs/$r/start: 409 PRINTER_BUSY
PATCH /production-runs/$r {"printer_id": null}

r = POST /production-runs {"status": "in_progress"}
> POST /production-runs/$r/replan: 409 RUN_STARTED

r = POST /production-runs {}
> POST /production-runs/$r/replan: 409 RUN_HAS_NO_ITEMS

p = POST /products {"name": @text}
r = POST /production-runs {"items": [{"product_id": "$p"}]}
DELETE /products/$p
POST /printers {"name": @text}
> POST /production-runs/$r/replan: 409 PRODUCT_REMOVED
POST /products/$p/restore

p = POST /products {"name": @text}
r = POST /production-runs {"items": [{"product_id": "$p"}]}
> POST /production-runs/$r/replan: 409 PLAN_INCOMPLETE
POST /printers {"name": @text}

p = POST /products {"name": @text}
POST /printers {"name": @text}
r = POST /production-runs {"items": [{"product_id": "$p", "quantity": 5001}]}
> POST /production-runs/$r/replan: 409 PLAN_TOO_LARGE
PATCH /products/$p {"pieces_per_plate": 2}

> POST /filaments {@black, "vendor_id": "$none"}: 400 UNKNOWN_REFERENCE

> POST /spools {@black, "net_weight_grams": 0.000001, "purchase_price": 1000000}: 422 VALIDATION_ERROR

> POST /spools {"filament_id": "$none"}: 400 UNKNOWN_REFERENCE

f = POST /filaments {@black, "net_weight_grams": 1}
> POST /spools {"filament_id": "$f", "color": "Red"}: 409 FILAMENT_FIELD
PATCH /filaments/$f {"color": "Red"}

> POST /spools/batch {"quantity": 2, "filament_id": "$none"}: 400 UNKNOWN_REFERENCE

f = POST /filaments {@black, "net_weight_grams": 1}
> POST /spools/batch {"quantity": 2, "filament_id": "$f", "color": "Red"}: 409 FILAMENT_FIELD
PATCH /filaments/$f {"color": "Red"}

s = POST /spools @spool
> POST /spools/$s/deduct {"weight_grams": 11}: 400 INSUFFICIENT_FILAMENT
PATCH /spools/$s {"remaining_weight_grams": 12}

s = POST /spools @spool
DELETE /spools/$s
> POST /spools/$s/deduct {"weight_grams": 1}: 404 NOT_FOUND

s = POST /spools @spool
POST /spools/$s/deduct {"weight_grams": 1}
u = GET /spools/$s/usage?limit=1
POST /spools/$s/usage/$u.items.0.id/reverse
> POST /spools/$s/usage/$u.items.0.id/reverse {"reason": "x"}: 409 USAGE_ALREADY_REVERSED

s = POST /spools @spool
r = POST /production-runs @run
POST /production-runs/$r/complete
u = GET /spools/$s/usage?limit=1
> POST /spools/$s/usage/$u.items.0.id/reverse {"reason": "x"}: 409 USAGE_OF_RUN

s = POST /spools @spool
u = GET /spools/$s/usage?limit=1
> POST /spools/$s/usage/$u.items.0.id/reverse {"reason": "x"}: 409 USAGE_NOT_REVERSIBLE

o = POST /spools @spool
s = POST /spools @spool
POST /spools/$s/deduct {"weight_grams": 1}
u = GET /spools/$s/usage?limit=1
POST /spools/$s/usage/$u.items.0.id/reverse
> POST /spools/$s/usage/$u.items.0.id/move {"spool_id": "$o"}: 409 USAGE_ALREADY_REVERSED

o = POST /spools @spool
s = POST /spools @spool
r = POST /production-runs @run
POST /production-runs/$r/complete
u = GET /spools/$s/usage?limit=1
> POST /spools/$s/usage/$u.items.0.id/move {"spool_id": "$o"}: 409 USAGE_OF_RUN

o = POST /spools @spool
s = POST /spools @spool
u = GET /spools/$s/usage?limit=1
> POST /spools/$s/usage/$u.items.0.id/move {"spool_id": "$o"}: 409 USAGE_NOT_REVERSIBLE

o = POST /spools @spool
s = POST /spools @spool
PATCH /spools/$s {"remaining_weight_grams": 5}
u = GET /spools/$s/usage?limit=1
> POST /spools/$s/usage/$u.items.0.id/move {"spool_id": "$o"}: 409 USAGE_NOT_MOVABLE

s = POST /spools @spool
POST /spools/$s/deduct {"weight_grams": 1}
u = GET /spools/$s/usage?limit=1
> POST /spools/$s/usage/$u.items.0.id/move {"spool_id": "$s"}: 400 SAME_SPOOL

o = POST /spools @spool
s = POST /spools @spool
POST /spools/$s/deduct {"weight_grams": 1}
DELETE /spools/$o
u = GET /spools/$s/usage?limit=1
> POST /spools/$s/usage/$u.items.0.id/move {"spool_id": "$o"}: 400 UNKNOWN_REFERENCE
POST /spools/$o/restore

p = POST /products {"name": "x", "sku": @text}
> POST /products {"name": "x", "sku": @text}: 409 DUPLICATE_SKU
DELETE /products/$p

> POST /products {"name": "x", "components": [{"component_product_id": "$none"}]}: 400 UNKNOWN_REFERENCE

p = POST /products @empty
> POST /products {"name": "x", "components": [@part, @part]}: 409 DUPLICATE_COMPONENT

s = POST /spools @expensive
> POST /products {"name": "x", "materials": [@heavy]}: 422 VALIDATION_ERROR
DELETE /spools/$s

f = POST /filaments {@black, "net_weight_grams": 1}
> POST /products {"name": "x", "materials": [{"filament_id": "$f", "color": "Red", "weight_grams": 1}]}: 409 FILAMENT_FIELD
PATCH /filaments/$f {"color": "Red"}

p = POST /products {"name": "x", "materials": [{"material_type": "PLA", "color": "Black", "weight_grams": 1}]}
> POST /products {"variant_of": "$p", "category": "Toys", "variant_materials": [{"color": "Red"}]}: 409 VARIANT_FIELD
PATCH /products/$p {"category": "Toys"}

p = POST /products {"name": "x", "materials": [{"material_type": "PLA", "color": "Black", "weight_grams": 1}]}
v = POST /products {"variant_of": "$p", "variant_materials": [{"color": "Red"}]}
> POST /products/$v/materials @heavy: 409 VARIANT_FIELD

o = POST /products @empty
p = POST /products {"name": "x", "materials": [{"material_type": "PLA", "color": "Black", "weight_grams": 1}]}
v = POST /products {"variant_of": "$p", "variant_materials": [{"color": "Red"}]}
> POST /products/$v/components {"component_product_id": "$o", "quantity": 2}: 409 VARIANT_FIELD

p = POST /products {"name": "x", "materials": [{"material_type": "PLA", "color": "Black", "weight_grams": 1}]}
o = POST /products {"name": "x", "sku": @text}
> POST /products/$p/variants {"variants": [{"color": "Red", "sku": @text}]}: 409 DUPLICATE_SKU
DELETE /products/$o

p = POST /products {"name": "x", "materials": [{"material_type": "PLA", "color": "Black", "weight_grams": 1}]}
> POST /products/$p/variants {"variants": [{"variant_materials": [{"filament_id": "$none"}]}]}: 400 UNKNOWN_REFERENCE

f = POST /filaments {@black, "net_weight_grams": 1}
p = POST /products {"name": "x", "materials": [{"filament_id": "$f", "weight_grams": 1}]}
> POST /products/$p/variants {"variants": [{"variant_materials": [{"filament_id": "$f", "color": "Red"}]}]}: 409 FILAMENT_FIELD
PATCH /filaments/$f {"color": "Red"}

> POST /products/$none/materials @heavy: 404 NOT_FOUND

p = POST /products @empty
> POST /products/$p/materials {"filament_id": "$none", "weight_grams": 1}: 400 UNKNOWN_REFERENCE

f = POST /filaments {@black, "net_weight_grams": 1}
p = POST /products @empty
> POST /products/$p/materials {"filament_id": "$f", "color": "Red", "weight_grams": 1}: 409 FILAMENT_FIELD
PATCH /filaments/$f {"color": "Red"}

s = POST /spools @expensive
p = POST /products @empty
> POST /products/$p/materials @heavy: 422 VALIDATION_ERROR
DELETE /spools/$s

p = POST /products @empty
> POST /products/$none/components @part: 404 NOT_FOUND

p = POST /products @empty
> POST /products/$p/components {"component_product_id": "$none"}: 400 UNKNOWN_REFERENCE

whole = POST /products @empty
p = POST /products @empty
c = POST /products/$whole/components @part
> POST /products/$whole/components @part: 409 DUPLICATE_COMPONENT
DELETE /products/$whole/components/$c

whole = POST /products @empty
p = POST /products @empty
c = POST /products/$whole/components @part
> POST /products/$p/components {"component_product_id": "$whole"}: 400 COMPONENT_CYCLE
DELETE /products/$whole/components/$c

s = POST /spools @expensive
whole = POST /products @empty
p = POST /products @product
> POST /products/$whole/components {"component_product_id": "$p", "quantity": 1000000}: 422 VALIDATION_ERROR
DELETE /spools/$s
POST /products/$p/recalculate

> POST /products/$none/recalculate: 404 NOT_FOUND

p = POST /products {"name": "x", "materials": [{"material_type": "PLA", "color": "Black", "weight_grams": 1000}]}
s = POST /spools @expensive
> POST /products/$p/recalculate: 422 VALIDATION_ERROR
DELETE /spools/$s

p = POST /products @empty
> POST /production-runs {"items": [{"product_id": "$p"}], "materials": [{"spool_id": "$none"}]}: 400 UNKNOWN_REFERENCE

p = POST /products @empty
> POST /production-runs/$none/items {"product_id": "$p"}: 404 NOT_FOUND

r = POST /production-runs {}
> POST /production-runs/$r/items {"product_id": "$none"}: 400 UNKNOWN_REFERENCE

r = POST /production-runs {}
p = POST /products @empty
> POST /production-runs/$r/items {"product_id": "$p", "successful_quantity": 2}: 422 VALIDATION_ERROR

s = POST /spools @expensive
p = POST /products @product
r = POST /production-runs {}
> POST /production-runs/$r/items {"product_id": "$p", "quantity": 1000000}: 422 VALIDATION_ERROR
DELETE /spools/$s
POST /products/$p/recalculate

s = POST /spools @spool
> POST /production-runs/$none/materials {"spool_id": "$s"}: 404 NOT_FOUND

r = POST /production-runs {}
> POST /production-runs/$r/materials {"spool_id": "$none"}: 400 UNKNOWN_REFERENCE

s = POST /spools @spool
r = POST /production-runs @run
POST /production-runs/$r/complete
> POST /production-runs/$r/materials {"spool_id": "$s"}: 400 RUN_ALREADY_COMPLETED

u = POST /users {"email": "$none@test.example", "name": "x", "role": "viewer", "disabled": true}
> POST /users/$u/password-link: 409 USER_DISABLED
PATCH /users/$u {"disabled": false}

u = POST /users {"email": "$none@test.example", "name": "x", "role": "viewer"}
> POST /users/$u/password-link {"send": true}: 422 VALIDATION_ERROR

> POST /users {"email": "$none@test.example", "name": "x", "role": "viewer", "send": true}: 422 VALIDATION_ERROR

> POST /users {"email": "$email", "name": "x", "role": "viewer", "password": @password}: 409 EMAIL_TAKEN

insert into users (id, email, name, role, password_hash) select gen_random_uuid(), 'x', 'x', 'viewer', '' @199
> POST /users {"email": "x@test.example", "name": "x", "role": "viewer", "password": @password}: 409 USER_LIMIT

> POST /api-keys {"name": "K", "role": "printer", "printer_id": "$none"}: 400 UNKNOWN_REFERENCE

insert into api_keys (id, name, role, hint, hash) select gen_random_uuid(), 'x', 'viewer', '', @hash @500
> POST /api-keys {"name": "x", "role": "viewer"}: 409 API_KEY_LIMIT

k = POST /api-keys {"name": "x", "role": "viewer"}
DELETE /api-keys/$k
> POST /api-keys/$k/rotate: 409 API_KEY_REVOKED

> POST /production-runs/$none/complete: 404 NOT_FOUND

s = POST /spools @spool
r = POST /production-runs {}
> POST /production-runs/$r/complete: 400 RUN_HAS_NO_MATERIALS
POST /production-runs/$r/materials {"spool_id": "$s", "actual_weight_grams": 1}

s = POST /spools @spool
r = POST /production-runs @run
p = POST /products @empty
i = POST /production-runs/$r/items {"product_id": "$p"}
> POST /production-runs/$r/complete {"items": [{"id": "$i", "failed_quantity": 2}]}: 422 VALIDATION_ERROR
PATCH /production-runs/$r/items/$i {"quantity": 2}

s = POST /spools @spool
r = POST /production-runs {"materials": [{"spool_id": "$s", "spool_weight_after_grams": 0}]}
> POST /production-runs/$r/complete: 400 ACTUAL_USAGE_MISSING
PATCH /production-runs/$r/materials/$r.materials.0.id {"spool_weight_before_grams": 3}

> POST /production-runs/$none/fail {"reason": "clog"}: 404 NOT_FOUND

> POST /production-runs/$none/cancel: 404 NOT_FOUND

> POST /orders {"items": [{"sku": "cube"}]}: 400 UNKNOWN_REFERENCE
POST /products {"name": "x", "sku": "cube"}

o = POST /orders {}
> POST /orders/$o/complete {"items": [{"id": "$o", "delivered": 1}]}: 400 UNKNOWN_REFERENCE

p = POST /products @empty
o = POST /orders {"status": "cancelled", "items": [{"product_id": "$p"}]}
> POST /orders/$o/deliver: 409 ORDER_NOT_OPEN
PATCH /orders/$o {"status": "received"}

o = POST /orders {}
> POST /orders/$o/deliver {"items": [{"id": "$o"}]}: 400 UNKNOWN_REFERENCE

o = POST /orders {}
> POST /orders/$o/return {"items": [{"id": "$o", "quantity": 1}]}: 400 UNKNOWN_REFERENCE

p = POST /products @empty
> POST /products/$p/scrap {"quantity": 1}: 409 NOT_ENOUGH_PIECES
POST /products/$p/count {"counted": 1}

p = POST /products @empty
> POST /products/$p/adjust {"pieces": -1}: 409 NOT_ENOUGH_PIECES
POST /products/$p/count {"counted": 1}

whole = POST /products @empty
p = POST /products @empty
POST /products/$whole/components @part
> POST /products/$whole/assemble {"quantity": 2}: 409 NOT_ENOUGH_PIECES
POST /products/$p/count {"counted": 2}

whole = POST /products @empty
p = POST /products @empty
POST /products/$p/count {"counted": 2}
> POST /products/$whole/assemble {"quantity": 2}: 409 NO_COMPONENTS
POST /products/$whole/components @part

whole = POST /products @empty
p = POST /products @empty
POST /products/$whole/components @part
> POST /products/$whole/disassemble {"quantity": 2}: 409 NOT_ENOUGH_PIECES
POST /products/$whole/count {"counted": 2}

whole = POST /products @empty
p = POST /products @empty
POST /products/$whole/count {"counted": 2}
> POST /products/$whole/disassemble {"quantity": 2}: 409 NO_COMPONENTS
POST /products/$whole/components @part

p = POST /products @empty
e = POST /products/$p/count {"counted": 1}
POST /piece-entries/$e/reverse
> POST /piece-entries/$e/reverse {"reason": "x"}: 409 ENTRY_REVERSED

p = POST /products @empty
e = POST /products/$p/count {"counted": 1}
back = POST /piece-entries/$e/reverse
> POST /piece-entries/$back/reverse {"reason": "x"}: 409 ENTRY_NOT_REVERSIBLE

p = POST /products @empty
POST /production-runs {"status": "completed", "items": [{"product_id": "$p"}]}
e = GET /products/$p/piece-entries
> POST /piece-entries/$e.items.0.id/reverse {"reason": "x"}: 409 ENTRY_OF_RUN

p = POST /products @empty
POST /products/$p/count {"counted": 1}
o = POST /orders {"items": [{"product_id": "$p"}]}
POST /orders/$o/deliver
e = GET /products/$p/piece-entries?kind=delivered
POST /orders/$o/return {}
back = GET /products/$p/piece-entries?kind=returned
> POST /piece-entries/$e.items.0.id/reverse {"reason": "x"}: 409 DELIVERY_RETURNED
POST /piece-entries/$back.items.0.id/reverse

p = POST /products @empty
POST /products/$p/count {"counted": 2}
o = POST /orders {"items": [{"product_id": "$p"}]}
POST /orders/$o/deliver
POST /orders/$o/return {"reopen": true}
back = GET /products/$p/piece-entries?kind=returned
POST /orders/$o/deliver
> POST /piece-entries/$back.items.0.id/reverse {"reason": "x"}: 409 DELIVERED_AGAIN
POST /orders/$o/return {"reopen": true}

p = POST /products @empty
e = POST /products/$p/count {"counted": 1}
scrap = POST /products/$p/scrap {"quantity": 1}
> POST /piece-entries/$e/reverse {"reason": "x"}: 409 NOT_ENOUGH_PIECES
POST /piece-entries/$scrap/reverse

o = POST /orders {"source": "etsy", "reference": "1"}
> POST /orders {"source": "etsy", "reference": "1", "customer": "Ada"}: 409 ORDER_CONFLICT
DELETE /orders/$o

o = POST /orders {}
> POST /orders/$o/items {"sku": "cube"}: 400 UNKNOWN_REFERENCE
POST /products {"name": "x", "sku": "cube"}

o = POST /orders {"unassigned_lines": [{"title": @text}]}
> POST /orders/$o/lines/$o.unassigned_lines.0.id/assign {"sku": "cube"}: 400 UNKNOWN_REFERENCE
POST /products {"name": "x", "sku": "cube"}

o = POST /orders {"unassigned_lines": [{"title": @text}]}
POST /orders/$o/lines/$o.unassigned_lines.0.id/assign {"ignore": true}
> POST /orders/$o/lines/$o.unassigned_lines.0.id/assign {"ignore": true}: 409 ORDER_LINE_ASSIGNED

o = POST /orders {"status": "done"}
> POST /orders/$o/cancel: 409 ORDER_NOT_OPEN
PATCH /orders/$o {"status": "received"}

o = POST /orders {"source": "etsy", "reference": "1"}
DELETE /orders/$o
other = POST /orders {"source": "etsy", "reference": "1"}
> POST /orders/$o/restore: 409 ORDER_CONFLICT
DELETE /orders/$other

p = POST /products {"name": "x", "sku": @text}
DELETE /products/$p
other = POST /products {"name": "x", "sku": @text}
> POST /products/$p/restore: 409 DUPLICATE_SKU
DELETE /products/$other

whole = POST /products @empty
p = POST /products @empty
POST /products/$whole/components @part
DELETE /products/$whole
DELETE /products/$p
> POST /products/$whole/restore: 409 COMPONENT_HIDDEN
POST /products/$p/restore

d = POST /products {"name": @text, "plates": [{}]}
DELETE /products/$d
> POST /products/$d.plates.0.id/restore: 409 PRODUCT_HIDDEN
POST /products/$d/restore

r = POST /production-runs {"status": "failed"}
> POST /production-runs/$r/start: 400 RUN_NOT_OPEN
PATCH /production-runs/$r {"status": "paused"}

r = POST /production-runs {}
> POST /production-runs/$r/correct {}: 400 RUN_NOT_ENDED
POST /production-runs/$r/cancel

s = POST /spools @spool
r = POST /production-runs @run
POST /production-runs/$r/complete
> POST /production-runs/$r/correct {"materials": [{"id": "$none", "actual_weight_grams": 1}]}: 400 UNKNOWN_REFERENCE

s = POST /spools @spool
other = POST /spools @spool
r = POST /production-runs @run
POST /production-runs/$r/complete
DELETE /spools/$other
> POST /production-runs/$r/correct {"materials": [{"spool_id": "$s", "to_spool_id": "$other"}]}: 400 UNKNOWN_REFERENCE
POST /spools/$other/restore

> POST /production-runs/$none/correct {}: 404 NOT_FOUND

r = POST /production-runs {}
> POST /production-runs/$r/reopen: 400 RUN_NOT_ENDED
POST /production-runs/$r/cancel

p = POST /printers {"name": @text}
r = POST /production-runs {"printer_id": "$p", "status": "in_progress"}
POST /production-runs/$r/cancel
other = POST /production-runs {"printer_id": "$p", "status": "in_progress"}
> POST /production-runs/$r/reopen: 409 PRINTER_BUSY
POST /production-runs/$other/cancel

> POST /production-runs/$none/reopen: 404 NOT_FOUND

s = POST /spools @spool
other = POST /spools @spool
r = POST /production-runs @run
DELETE /spools/$other
> POST /production-runs/$r/materials/$r.materials.0.id/exchange {"spool_id": "$other"}: 400 UNKNOWN_REFERENCE
POST /spools/$other/restore

s = POST /spools @spool
other = POST /spools @spool
r = POST /production-runs @run
> POST /production-runs/$r/materials/$r.materials.0.id/exchange {"spool_id": "$s"}: 400 SAME_SPOOL
PATCH /production-runs/$r/materials/$r.materials.0.id {"spool_id": "$other"}

s = POST /spools @spool
other = POST /spools @spool
r = POST /production-runs @run
POST /production-runs/$r/materials/$r.materials.0.id/exchange {"spool_id": "$other"}
> POST /production-runs/$r/materials/$r.materials.0.id/exchange {"spool_id": "$other"}: 400 MATERIAL_EXCHANGED

s = POST /spools @spool
other = POST /spools @spool
r = POST /production-runs @run
POST /production-runs/$r/complete
> POST /production-runs/$r/materials/$r.materials.0.id/exchange {"spool_id": "$other"}: 400 RUN_NOT_OPEN
POST /production-runs/$r/reopen

> POST /production-runs/$none/materials/$none/exchange {"spool_id": "$none"}: 404 NOT_FOUND

r = POST /production-runs {"status": "failed"}
> POST /production-runs/$r/move {"place": 1}: 400 RUN_NOT_OPEN
PATCH /production-runs/$r {"status": "pending"}

insert into webhooks (id, url, events, secret) select gen_random_uuid(), 'https://x.example', '{"order.received"}', '' @10
> POST /webhooks @webhook: 409 WEBHOOK_LIMIT

s = POST /shops {"kind": "generic", "name": "twice"}
> POST /shops {"kind": "shopify", "name": "Twice"}: 409 DUPLICATE_SHOP
DELETE /shops/$s

insert into shops (id, kind, name, secret) select gen_random_uuid(), 'generic', 'x', '' from generate_series(1, 20) n
> POST /shops {"kind": "generic", "name": "x"}: 409 SHOP_LIMIT

w = POST /webhooks @webhook
PATCH /webhooks/$w {"disabled": true}
> POST /webhooks/$w/test: 409 WEBHOOK_DISABLED
PATCH /webhooks/$w {"disabled": false}

w = POST /webhooks @webhook
d = POST /webhooks/$w/test
PATCH /webhooks/$w {"disabled": true}
> POST /webhooks/$w/deliveries/$d/redeliver: 409 WEBHOOK_DISABLED
PATCH /webhooks/$w {"disabled": false}

w = POST /webhooks @ntfy
> POST /webhooks/$w/rotate: 409 WEBHOOK_UNSIGNED

l = POST /stock-levels {"material_type": "PLA", "minimum_grams": 1}
> POST /stock-levels {"material_type": "PLA", "minimum_grams": 1}: 409 STOCK_LEVEL_EXISTS
DELETE /stock-levels/$l

insert into stock_levels (id, material_type, color, minimum_grams) select gen_random_uuid(), 'PLA', n::text, 1 @500
> POST /stock-levels {"material_type": "PLA", "minimum_grams": 1}: 409 STOCK_LEVEL_LIMIT`

// endCases are errorCases of @end: complete, fail and cancel. @reason is what the body of fail has more.
const endCases = `
s = POST /spools @spool
r = POST /production-runs @run
PATCH /production-runs/$r {"status": "@other"}
> POST /production-runs/$r/@end {@reason}: 400 RUN_NOT_OPEN
PATCH /production-runs/$r {"status": "paused"}

s = POST /spools @spool
r = POST /production-runs @run
> POST /production-runs/$r/@end {@reason@comma"materials": [{"id": "$none", @grams: 1}]}: 400 UNKNOWN_REFERENCE

s = POST /spools @spool
r = POST /production-runs @run
POST /production-runs/$r/complete
> POST /production-runs/$r/@end {@reason}: 400 RUN_ALREADY_COMPLETED`

// errorBodies are what the @ words of errorCases stand for.
var errorBodies = strings.NewReplacer("@text", `"`+driverErrorText+`"`, "@password", `"`+testkit.Password+`"`,
	"@spool", `{"material_type": "PLA", "color": "Black", "brand": "`+driverErrorText+`", "diameter_mm": 1.75, `+
		`"net_weight_grams": 10}`,
	"@expensive", `{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1, `+
		`"purchase_price": 1000000}`,
	"@black", `"material_type": "PLA", "color": "Black", "diameter_mm": 1.75`,
	"@heavy", `{"material_type": "PLA", "color": "Black", "weight_grams": 1000000}`,
	"@empty", `{"name": "`+driverErrorText+`"}`,
	"@product", `{"name": "x", "materials": [{"material_type": "PLA", "color": "Black", "weight_grams": 1}]}`,
	"@part", `{"component_product_id": "$p"}`, "@run", `{"materials": [{"spool_id": "$s", "actual_weight_grams": 1}]}`,
	"@webhook", `{"url": "https://shop.example/hook", "events": ["order.received"]}`,
	"@ntfy", `{"url": "https://ntfy.example/farm", "events": ["order.received"], "format": "ntfy"}`,
	"@hash", "sha256(gen_random_uuid()::text::bytea)", "@10", "from generate_series(1, 10) n",
	"@199", "from generate_series(1, 199) n", "@500", "from generate_series(1, 500) n")

// errorScript runs the lines of a case.
type errorScript struct {
	c       *testkit.Client
	answers map[string]*testkit.Response
}

var errorVariable = regexp.MustCompile(`\$\w+(\.\w+)*`)

// fill replaces the variables of a line.
func (s *errorScript) fill(line string) string {
	return errorVariable.ReplaceAllStringFunc(line, func(name string) string {
		switch name {
		case "$none":
			return value.NewID()
		case "$email":
			return s.c.Email
		}
		name, field, found := strings.Cut(name[1:], ".")
		if !found {
			field = "id"
		}
		return s.answers[name].Text(field)
	})
}

// send sends a request such as POST /orders {}.
func (s *errorScript) send(t *testing.T, c *testkit.Client, request string) *testkit.Response {
	t.Helper()
	method, rest, _ := strings.Cut(request, " ")
	path, body, found := strings.Cut(rest, " ")
	if !found {
		return c.Do(t, method, "/api/v1"+path, nil)
	}
	return c.Do(t, method, "/api/v1"+path, body)
}

func (s *errorScript) run(t *testing.T, lines string) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		line = s.fill(strings.TrimSpace(line))
		if strings.HasPrefix(line, "insert ") {
			check(t, s.c.API.DB.Write(db.As(t.Context(), db.Actor{Tenant: s.c.Actor.Tenant}), db.SQL(line)))
			continue
		}
		name, request, found := strings.Cut(line, " = ")
		if !found {
			request = line
		}
		if s.answers[name] = s.send(t, s.c, request); s.answers[name].Status >= 300 {
			t.Fatalf("%s: %s", line, s.answers[name].Body)
		}
	}
}

var (
	errorRequest = regexp.MustCompile(`(?m)^> ((POST \S+).*): (\d+) (\w+)$`)
	errorID      = strings.NewReplacer("/products/$d.plates.0.id", "/products/{id}", "/deliveries/$d",
		"/deliveries/{delivery_id}", "/usage/$u.items.0.id",
		"/usage/{entry_id}", "/materials/$r.materials.0.id", "/materials/{material_id}", "/materials/$none",
		"/materials/{material_id}", "/lines/$o.unassigned_lines.0.id", "/lines/{line_id}")
)

// TestErrorsAreNotStored checks that an error response is the same with and without a key, and that the key is not
// stored: after the cause is fixed, the same request succeeds. Every error that the document describes for an
// operation with a key must be in errorCases.
func TestErrorsAreNotStored(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	covered := map[string]bool{}
	cases := errorCases
	for _, end := range []*strings.Replacer{
		strings.NewReplacer("@end", "complete", "@other", "failed", "@reason", "", "@comma", "", "@grams",
			`"actual_weight_grams"`),
		strings.NewReplacer("@end", "fail", "@other", "cancelled", "@reason", `"reason": "clog"`, "@comma", ", ",
			"@grams", `"wasted_grams"`),
		strings.NewReplacer("@end", "cancel", "@other", "failed", "@reason", "", "@comma", "", "@grams",
			`"wasted_grams"`),
	} {
		cases += "\n" + end.Replace(endCases)
	}
	// The same errors of several resources at once.
	single := regexp.MustCompile(`> POST /(filaments|products|orders) (.*): `)
	for text := range strings.SplitSeq(errorCases, "\n\n") {
		if single.MatchString(text) {
			cases += "\n\n" + single.ReplaceAllString(text, `> POST /$1/batch {"items": [$2]}: `)
		}
	}
	every := testkit.InRigs(4, 1)
	for i, text := range strings.Split(strings.TrimSpace(cases), "\n\n") {
		m := errorRequest.FindStringSubmatchIndex(text)
		if m == nil {
			t.Fatalf("no request: %s", text)
		}
		code := text[m[8]:m[9]]
		status, _ := strconv.Atoi(text[m[6]:m[7]])
		route := errorVariable.ReplaceAllString(errorID.Replace(text[m[4]:m[5]]), "{id}")
		route = strings.Replace(route, " ", " /api/v1", 1)
		covered[route+" "+code] = true
		if i%every > 0 {
			continue
		}
		t.Run(strings.TrimPrefix(route, "POST /api/v1/")+" "+code, func(t *testing.T) {
			t.Parallel()
			c := w.api.Tenant(t).User(t, "admin")
			s := errorScript{c, map[string]*testkit.Response{}}
			s.run(t, errorBodies.Replace(text[:m[0]]))
			request := s.fill(errorBodies.Replace(text[m[2]:m[3]]))
			plain := s.send(t, c, request).WantError(status, code)
			w.wantFields(t, route, plain)
			for range 2 {
				a := s.send(t, withKey(c, "key"), request).WantError(status, code)
				if !bytes.Equal(a.Body, plain.Body) || isReplay(a) {
					t.Errorf("with a key: %v %s, without: %s", a.Header, a.Body, plain.Body)
				}
			}
			testkit.Equal(t, countKeys(t, connectSuper(t), c), 0, "stored keys")
			if text[m[1]:] == "" {
				return
			}
			s.run(t, errorBodies.Replace(text[m[1]:]))
			first := s.send(t, withKey(c, "key"), request)
			wantReplay(t, first, s.send(t, withKey(c, "key"), request))
		})
	}
	w.forEach(t, acceptsKey, func(t *testing.T, op *operation) {
		for _, e := range op.Doc.Errors {
			// Only races cause PLAN_OUTDATED, only many rows VARIANT_LIMIT, and only a setting WATCH_OFF: see the tests of
			// catalog and of production/watchers. The body of an operation that reads a file is not JSON: see the tests of
			// catalog and, for the undo of an import, of imports.
			if !covered[op.Pattern+" "+e.Code] && e.Code != "PLAN_OUTDATED" && e.Code != "VARIANT_LIMIT" &&
				e.Code != "WATCH_OFF" &&
				op.Endpoint.Limit == 0 && op.Doc.ID != "undoImport" {
				t.Errorf("errorCases lacks %s", e.Code)
			}
		}
	})
}
