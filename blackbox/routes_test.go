package blackbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"spoolwright/auth"
	"spoolwright/auth/authtest"
	"spoolwright/db"
	"spoolwright/db/dbtest"
	"spoolwright/server"
)

// The tests in this file go through every route that the program has, whatever those are. What they send comes from the
// examples of the OpenAPI document, with ids put in of resources that are made on the way through the same API.

// newAPI starts the API of the program, with limits that nobody reaches.
func newUnlimitedAPI(t *testing.T) *testAPI {
	t.Helper()
	return newTestAPI(t, authtest.Options{PerMinute: 1_000_000, PerHour: 10_000_000})
}

func TestRoutesGolden(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range programRoutes(t) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Method(), r.Path(), []string{"public", "read", "write", "admin"}[r.Access], r.Doc.ID)
	}
	w.Flush()
	compareGolden(t, "testdata/routes.golden", b.Bytes())
}

// The document is the program's own, so it also proves that features lists what the program serves.
func TestOpenAPIGolden(t *testing.T) {
	t.Parallel()
	p := buildProgram(t)
	url, _ := newDatabase(t, dbtest.Private().OwnerURL)
	c := p.start(t, []string{"DATABASE_URL=" + url, secretEnv})
	r, err := c.client.Get(c.url + "/openapi.json")
	check(t, err)
	defer r.Body.Close()
	served, err := io.ReadAll(r.Body)
	check(t, err)
	if !bytes.Equal(served, server.OpenAPI(programRoutes(t), p.version(t))) {
		t.Error("the program does not serve the features that are listed in main_test.go")
	}
	var b bytes.Buffer
	check(t, json.Indent(&b, served, "", "  "))
	b.WriteByte('\n')
	compareGolden(t, "testdata/openapi.json", b.Bytes())
}

func TestOperationIDs(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, r := range programRoutes(t) {
		if other := seen[r.Doc.ID]; other != "" || r.Doc.ID == "" {
			t.Errorf("%s and %s: the operationId %q must be there, and unique", r.Pattern, other, r.Doc.ID)
		}
		seen[r.Doc.ID] = r.Pattern
		if r.Doc.Summary == "" || r.Doc.Tag == nil || r.Doc.Tag.Description == "" {
			t.Errorf("%s needs a summary and a tag with a description", r.Pattern)
		}
	}
}

// world is the API with what its document says of each route.
type testAPI struct {
	api        *authtest.API
	operations []*operation
}

// operation is a route with its part of the OpenAPI document.
type operation struct {
	server.Route
	example map[string]any // of the request body; nil if the route reads none
	fields  map[string]field
	creates bool // a 201
}

type field struct {
	Type            any
	Ref             string `json:"$ref"`
	Format, Pattern string
	Enum, AnyOf     []any
}

// isFreeText reports whether the field takes any text, but for what no text may hold.
func (f field) isFreeText() bool {
	return f.Ref == "" && f.Format == "" && !strings.HasPrefix(f.Pattern, "^#") && !strings.Contains(f.Pattern, "@") && f.Enum == nil && f.AnyOf == nil
}

func newTestAPI(t *testing.T, o authtest.Options) *testAPI {
	t.Helper()
	w := &testAPI{api: authtest.New(t, o, features...)}
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Schemas map[string]struct{ Properties map[string]field }
		}
	}
	if err := json.Unmarshal(server.OpenAPI(w.api.Routes, "test"), &doc); err != nil {
		t.Fatal(err)
	}
	for _, r := range w.api.Routes {
		var described struct {
			RequestBody *struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
					Example map[string]any
				}
			}
			Responses map[string]any
		}
		if err := json.Unmarshal(doc.Paths[r.Path()][strings.ToLower(r.Method())], &described); err != nil {
			t.Fatal(err)
		}
		op := &operation{Route: r, creates: described.Responses["201"] != nil}
		if described.RequestBody != nil {
			content := described.RequestBody.Content["application/json"]
			op.example = content.Example
			op.fields = doc.Components.Schemas[strings.TrimPrefix(content.Schema.Ref, "#/components/schemas/")].Properties
			if len(op.example) == 0 || len(op.fields) == 0 {
				t.Fatalf("%s: the document has no example of its body, or no schema", r.Pattern)
			}
		}
		w.operations = append(w.operations, op)
	}
	return w
}

// each runs fn as a subtest for every route that want takes.
func (w *testAPI) forEach(t *testing.T, want func(*operation) bool, fn func(*testing.T, *operation)) {
	t.Helper()
	n := 0
	for _, op := range w.operations {
		if want(op) {
			n++
			t.Run(op.Doc.ID, func(t *testing.T) { fn(t, op) })
		}
	}
	if n == 0 {
		t.Error("no route was tested")
	}
}

func everyRoute(*operation) bool     { return true }
func isProtected(op *operation) bool { return op.Access > server.Public }
func readsBody(op *operation) bool   { return op.example != nil }
func hasID(op *operation) bool       { return strings.Contains(op.Path(), "{") }

// farm is a tenant with one resource of every kind, made through the API when something first needs it.
type fixture struct {
	*testAPI
	tenant  *authtest.Tenant
	admin   *authtest.Client
	ids     map[string]string             // path of a collection, ids filled in -> the id of the resource made there
	created map[string]int                // path pattern of a collection -> how many were made
	bodies  map[*operation]map[string]any // see body
}

func (w *testAPI) newFixture(t *testing.T) *fixture {
	t.Helper()
	tenant := w.api.Tenant(t)
	return &fixture{w, tenant, tenant.User(t, "admin"), map[string]string{}, map[string]int{}, map[*operation]map[string]any{}}
}

// furnished is a farm that has one of everything, and every example of a change applied to it.
func (w *testAPI) newFullFixture(t *testing.T) *fixture {
	t.Helper()
	f := w.newFixture(t)
	for _, op := range w.operations {
		f.path(t, op.Path())
	}
	for _, op := range w.operations {
		if op.Method() == "PATCH" {
			f.admin.Patch(t, f.path(t, op.Path()), f.newBody(t, op)).Want(200)
		}
	}
	return f
}

// prepare makes what the bodies of all requests refer to, so that none of it comes later.
func (f *fixture) prepareBodies(t *testing.T) *fixture {
	t.Helper()
	for _, op := range f.operations {
		f.body(t, op)
	}
	return f
}

// path fills in the pattern with ids of the farm's resources.
func (f *fixture) path(t *testing.T, pattern string) string {
	t.Helper()
	filled, path := "", strings.Builder{}
	for _, part := range strings.Split(pattern, "/")[1:] {
		if strings.HasPrefix(part, "{") {
			collection := path.String()
			if f.ids[collection] == "" {
				f.ids[collection] = f.create(t, filled, collection)
			}
			filled += "/" + part
			path.WriteString("/" + f.ids[collection])
			continue
		}
		filled += "/" + part
		path.WriteString("/" + part)
	}
	return path.String()
}

// make makes one more resource in a collection, and returns its id.
func (f *fixture) create(t *testing.T, pattern, path string) string {
	t.Helper()
	op := f.createOperation(pattern)
	if op == nil {
		t.Fatalf("nothing makes what %s/{id} names: these tests need a route POST %s that answers 201", pattern, pattern)
	}
	f.created[pattern]++
	body := f.newBody(t, op)
	if n := f.created[pattern]; n > 1 { // names that must be unique are
		for name, value := range body {
			text, ok := value.(string)
			if is := op.fields[name]; ok && is.isFreeText() {
				body[name] = text + " " + strconv.Itoa(n)
			}
		}
	}
	return f.admin.Post(t, path, body).Want(201).ID()
}

func (w *testAPI) createOperation(pattern string) *operation {
	for _, op := range w.operations {
		if op.creates && op.Pattern == "POST "+pattern {
			return op
		}
	}
	return nil
}

// body is a good body for the operation, the same each time.
func (f *fixture) body(t *testing.T, op *operation) map[string]any {
	t.Helper()
	if f.bodies[op] == nil && op.example != nil {
		f.bodies[op] = f.newBody(t, op)
	}
	return f.bodies[op]
}

// newBody is the example of a request with the ids in it replaced: component_product_id by that of a new product, and so on.
func (f *fixture) newBody(t *testing.T, op *operation) map[string]any {
	t.Helper()
	body := maps.Clone(op.example)
	for _, name := range slices.Sorted(maps.Keys(body)) {
		switch {
		case name == "email" && op.creates:
			body[name] = db.NewID() + "@test.example" // nobody else may have it
		case name == "email":
			body[name] = f.admin.Email
		case name == "password", name == "current_password":
			body[name] = authtest.Password
		case name == "refresh_token":
			body[name] = f.admin.Post(t, "/api/v1/auth/login", authtest.JSON{"email": f.admin.Email, "password": authtest.Password}).Want(200).Text("refresh_token")
		case op.fields[name].Format == "uuid" && body[name] != nil:
			pattern := f.collectionOf(t, op, name)
			body[name] = f.create(t, pattern, pattern)
		}
	}
	return body
}

// collectionOf finds what an id in a body refers to: the collection at the top of the API that is named like the field.
func (w *testAPI) collectionOf(t *testing.T, op *operation, name string) string {
	t.Helper()
	noun := strings.TrimSuffix(name, "_id")
	noun = noun[strings.LastIndexByte(noun, '_')+1:]
	for _, other := range w.operations {
		if other.creates && !hasID(other) && strings.HasSuffix(other.Path(), noun+"s") {
			return other.Path()
		}
	}
	t.Fatalf("%s: these tests do not know what %s refers to: no route makes a resource of that name", op.Pattern, name)
	return ""
}

// do sends the request of an operation; one that reads no body gets none.
func (f *fixture) do(t *testing.T, c *authtest.Client, op *operation, path string, body any) *authtest.Response {
	t.Helper()
	if op.example == nil {
		body = nil
	}
	return c.Do(t, op.Method(), path, body)
}

// snapshot is everything that can be read in the farm.
func (f *fixture) snapshot(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, op := range f.operations {
		if op.Method() == "GET" {
			path := f.path(t, op.Path())
			all[path] = string(f.admin.Get(t, path).Want(200).Body)
		}
	}
	return all
}

func (f *fixture) wantUnchanged(t *testing.T, before map[string]string) {
	t.Helper()
	after := f.snapshot(t)
	for path, body := range before {
		if after[path] != body {
			at := 0
			for at < min(len(body), len(after[path])) && body[at] == after[path][at] {
				at++
			}
			at = max(at-100, 0)
			t.Errorf("GET %s shows a change:\nbefore: ...%.300s\nafter:  ...%.300s", path, body[at:], after[path][min(at, len(after[path])):])
		}
	}
}

// Each example of the document works as it stands, so what the other tests see refused is refused for their reason.
func TestExamplesWork(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	w.forEach(t, everyRoute, func(t *testing.T, op *operation) {
		t.Parallel()
		f := w.newFullFixture(t)
		a := f.do(t, f.admin, op, f.path(t, op.Path()), f.body(t, op))
		if a.Status >= 300 {
			t.Errorf("%s: %d %s", a.What, a.Status, a.Body)
		}
		if location := a.Header.Get("Location"); op.creates {
			f.admin.Get(t, readablePath(w, op, location)).Want(200)
		}
	})
}

// readable is where what stands at a location can be read: the location itself or, if nothing reads it, its parent.
func readablePath(w *testAPI, op *operation, location string) string {
	for _, other := range w.operations {
		if other.Method() == "GET" && strings.HasPrefix(other.Path(), op.Path()+"/{") {
			return location
		}
	}
	parts := strings.Split(location, "/")
	return strings.Join(parts[:len(parts)-2], "/")
}

func TestRoles(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	w.forEach(t, isProtected, func(t *testing.T, op *operation) {
		t.Parallel()
		f := w.newFullFixture(t)
		path, body := f.path(t, op.Path()), f.body(t, op)
		users := map[string]*authtest.Client{"viewer": f.tenant.User(t, "viewer"), "operator": f.tenant.User(t, "operator"), "admin": f.admin}
		before := f.snapshot(t)
		for role, level := range map[string]server.Access{"viewer": server.Read, "operator": server.Write} {
			if op.Access > level {
				f.do(t, users[role], op, path, body).WantError(403, "FORBIDDEN")
			}
		}
		f.wantUnchanged(t, before)
		role := map[server.Access]string{server.Read: "viewer", server.Write: "operator", server.Admin: "admin"}[op.Access]
		if a := f.do(t, users[role], op, path, body); a.Status >= 300 {
			t.Errorf("%s as %s: %d %s", a.What, role, a.Status, a.Body)
		}
	})
}

// A token outlives what it says of its user by no request.
func TestDisabledAndDemotedUsers(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	f := w.newFullFixture(t).prepareBodies(t)
	accounts := auth.Accounts{DB: w.api.DB, Hasher: auth.NewHasher(1000)}
	ctx := context.Background()

	disabled := f.tenant.User(t, "admin")
	if err := accounts.SetDisabled(ctx, disabled.Email, true); err != nil {
		t.Fatal(err)
	}
	demoted := f.tenant.User(t, "admin")
	err := w.api.DB.Write(db.As(ctx, db.Actor{Tenant: f.tenant.ID}), db.SQL(`update users set role = 'viewer' where id = $1`, demoted.Actor.User))
	if err != nil {
		t.Fatal(err)
	}
	stray := *f.admin // the same user, said to belong to another tenant
	stray.Token, err = w.api.Tokens.Access(auth.Principal{TenantID: w.api.Tenant(t).ID, UserID: f.admin.Actor.User, Role: "admin"})
	if err != nil {
		t.Fatal(err)
	}

	before := f.snapshot(t)
	w.forEach(t, isProtected, func(t *testing.T, op *operation) {
		path, body := f.path(t, op.Path()), f.body(t, op)
		for name, c := range map[string]*authtest.Client{"disabled": disabled, "demoted": demoted, "stray": &stray} {
			a := f.do(t, c, op, path, body)
			if a.Status != 401 || a.Text("code") != "INVALID_TOKEN" || a.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s: %s: %d %s", name, a.What, a.Status, a.Body)
			}
		}
	})
	f.wantUnchanged(t, before)
}

func TestInvalidIDs(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	f := w.newFullFixture(t)
	w.forEach(t, hasID, func(t *testing.T, op *operation) {
		body := f.body(t, op)
		path := strings.Split(f.path(t, op.Path()), "/")
		for i, part := range strings.Split(op.Path(), "/") {
			if !strings.HasPrefix(part, "{") {
				continue
			}
			for _, bad := range []string{"1", "null", "%00", "%F0%9F", "%20" + path[i], path[i] + "0", strings.ReplaceAll(path[i], "-", ""), "%7B" + path[i] + "%7D"} {
				target := slices.Clone(path)
				target[i] = bad
				f.do(t, f.admin, op, strings.Join(target, "/"), body).Fields(strings.Trim(part, "{}"))
			}
		}
	})
}

// Another tenant's resource cannot be told from one that does not exist, in a path or in a body, and stays as it is.
func TestOtherTenants(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	theirs := w.newFullFixture(t)
	before := theirs.snapshot(t)
	w.forEach(t, func(op *operation) bool { return hasID(op) || referenceFields(op) != nil }, func(t *testing.T, op *operation) {
		mine, more := w.newFullFixture(t), w.newFixture(t)
		more.admin = mine.admin // other resources of the same tenant
		more.created = mine.created
		own, foreign, others := pathParts(mine.path(t, op.Path())), pathParts(theirs.path(t, op.Path())), pathParts(more.path(t, op.Path()))
		pattern := pathParts(op.Path())
		var ids []int // where the path has ids
		for i, part := range pattern {
			if strings.HasPrefix(part, "{") {
				ids = append(ids, i)
			}
		}
		body := mine.body(t, op)
		mineBefore := mine.snapshot(t)
		for n := range ids {
			// The first n ids are of the caller's own, the rest are not.
			missing, strange, mixed := slices.Clone(own), slices.Clone(own), slices.Clone(own)
			for _, i := range ids[n:] {
				missing[i], strange[i], mixed[i] = db.NewID(), foreign[i], others[i]
			}
			want := mine.do(t, mine.admin, op, "/"+strings.Join(missing, "/"), body).WantError(404, "NOT_FOUND")
			wantSameResponse(t, want, mine.do(t, mine.admin, op, "/"+strings.Join(strange, "/"), body))
			if n > 0 { // a part of another resource of the same tenant
				wantSameResponse(t, want, mine.do(t, mine.admin, op, "/"+strings.Join(mixed, "/"), body))
			}
		}
		for _, name := range referenceFields(op) {
			collection := w.collectionOf(t, op, name)
			theirs.path(t, collection+"/{id}")
			missing, strange := maps.Clone(body), maps.Clone(body)
			missing[name], strange[name] = db.NewID(), theirs.ids[collection]
			want := mine.do(t, mine.admin, op, "/"+strings.Join(own, "/"), missing).WantError(400, "UNKNOWN_REFERENCE")
			got := mine.do(t, mine.admin, op, "/"+strings.Join(own, "/"), strange)
			want.Body = bytes.ReplaceAll(want.Body, []byte(missing[name].(string)), []byte("ID"))
			got.Body = bytes.ReplaceAll(got.Body, []byte(strange[name].(string)), []byte("ID"))
			wantSameResponse(t, want, got)
		}
		mine.wantUnchanged(t, mineBefore)
	})
	theirs.wantUnchanged(t, before)
}

func pathParts(path string) []string { return strings.Split(strings.TrimPrefix(path, "/"), "/") }

// references are the fields of a body that name other resources.
func referenceFields(op *operation) (names []string) {
	for name, value := range op.example {
		if op.fields[name].Format == "uuid" && value != nil {
			names = append(names, name)
		}
	}
	return names
}

// same fails the test unless the answers are the same but for what names the request.
func wantSameResponse(t *testing.T, want, got *authtest.Response) {
	t.Helper()
	for _, a := range []*authtest.Response{want, got} {
		for _, name := range []string{"Date", "X-Request-Id", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"} {
			a.Header.Del(name)
		}
	}
	if want.Status != got.Status || !bytes.Equal(want.Body, got.Body) || !maps.EqualFunc(want.Header, got.Header, slices.Equal) {
		t.Errorf("two answers differ:\n%s: %d %v %s\n%s: %d %v %s", want.What, want.Status, want.Header, want.Body, got.What, got.Status, got.Header, got.Body)
	}
}

func TestInvalidBodies(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	f := w.newFullFixture(t).prepareBodies(t)
	before := f.snapshot(t)
	w.forEach(t, readsBody, func(t *testing.T, op *operation) {
		path := f.path(t, op.Path())
		good, err := json.Marshal(f.body(t, op))
		if err != nil {
			t.Fatal(err)
		}
		name := slices.Sorted(maps.Keys(op.example))[0]
		object := string(good)
		with := func(member string) string { return object[:len(object)-1] + "," + member + "}" }
		send := func(body string) *authtest.Response { return f.admin.Do(t, op.Method(), path, body) }

		for _, media := range []string{"", "text/plain", "application/xml", "application/x-www-form-urlencoded", "application/jsonx", "application/json; charset=latin1"} {
			f.admin.With("Content-Type", media).Do(t, op.Method(), path, object).WantError(415, "UNSUPPORTED_MEDIA_TYPE")
		}
		f.admin.With("Content-Encoding", "gzip").Do(t, op.Method(), path, object).WantError(415, "UNSUPPORTED_MEDIA_TYPE")

		for _, broken := range []string{"", " ", "{", object[:len(object)-1], object + "x", object + object, `{"` + name + `"}`, `{'a':1}`, "\xef\xbb\xbf" + object,
			with(`"x":"` + "\xff" + `"`), with(`"` + name + `":1`), with(`"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40))} {
			if a := send(broken); a.Status != 400 || a.Text("code") != "MALFORMED_JSON" {
				t.Errorf("%s with %.80q: %d %s", a.What, broken, a.Status, a.Body)
			}
		}
		for _, other := range []string{"[]", "[" + object + "]", `"text"`, "1", "true", "null"} {
			send(other).Fields("body")
		}
		send(with(`"surprise":1`)).Fields("surprise")
		send(with(`"tenant_id":"` + db.NewID() + `"`)).Fields("tenant_id")
		upper := strings.ToUpper(name)
		send(with(`"` + upper + `":1`)).Fields(upper)
		send(with(`"surprise":"`+strings.Repeat("x", 1<<20)+`"`)).WantError(413, "PAYLOAD_TOO_LARGE")
	})
	f.wantUnchanged(t, before)
}

// checkHeaders looks at what every answer below /api/v1 carries.
func checkHeaders(t *testing.T, a *authtest.Response) {
	t.Helper()
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
		if n, err := strconv.ParseInt(a.Header.Get(name), 10, 64); err != nil || n < 0 {
			t.Errorf("%s: %d: %s is %q", a.What, a.Status, name, a.Header.Get(name))
		}
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s: %d: %s is %q, want %q", a.What, a.Status, name, got, want)
		}
	}
	if a.Header.Get("X-Request-Id") == "" {
		t.Errorf("%s: %d: no X-Request-Id", a.What, a.Status)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	w.forEach(t, everyRoute, func(t *testing.T, op *operation) {
		f := w.newFullFixture(t)
		path := f.path(t, op.Path())
		checkHeaders(t, f.do(t, w.api.Anonymous(), op, path, "{}"))
		checkHeaders(t, f.do(t, f.admin, op, path, "["))
		checkHeaders(t, f.do(t, f.admin, op, path, f.body(t, op)))
		checkHeaders(t, f.admin.Get(t, path+"/nothing/is/here").WantError(404, "NOT_FOUND"))
		wrong := f.admin.Do(t, "PUT", path, "{}").WantError(405, "METHOD_NOT_ALLOWED")
		checkHeaders(t, wrong)
		if !strings.Contains(wrong.Header.Get("Allow"), op.Method()) {
			t.Errorf("%s: Allow is %q, without %s", wrong.What, wrong.Header.Get("Allow"), op.Method())
		}
	})
}

// Whoever has used up the limit gets a 429 on every route, and nothing happens.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	w, strict := newUnlimitedAPI(t), newTestAPI(t, authtest.Options{PerHour: 1})
	w.forEach(t, everyRoute, func(t *testing.T, op *operation) {
		f := w.newFullFixture(t)
		path, body := f.path(t, op.Path()), f.body(t, op)
		before := f.snapshot(t)
		c := *f.admin
		c.API = strict.api
		if op.Access == server.Public {
			c.Token = ""
		}
		c.Get(t, "/api/v1/nothing") // the one that is free
		a := f.do(t, &c, op, path, body).WantError(429, "RATE_LIMIT_EXCEEDED")
		checkHeaders(t, a)
		if wait, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || wait < 1 || a.Header.Get("X-RateLimit-Remaining") != "0" {
			t.Errorf("%s: %v", a.What, a.Header)
		}
		f.wantUnchanged(t, before)
	})
}
