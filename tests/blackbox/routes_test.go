package blackbox_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spoolwright/app"
	"spoolwright/auth"
	"spoolwright/auth/accounts"
	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/server/openapi"
	"spoolwright/tests/testkit"
	"spoolwright/tools/sdkgen"
	"spoolwright/value"
)

// TestOperationsPageGolden compares the table of operations with docs/operations.md.
func TestOperationsPageGolden(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	b.WriteString(`# Operations

This page lists all operations of the API. An operation requires the role or a higher one; the roles are viewer,
operator and admin, in this order. [Users](users.md) and [API keys](api-keys.md) have the details. ` + "`/docs`" + ` and
` + "`/redoc`" + ` describe parameters, bodies and errors.

A test writes this table: ` + "`go test ./tests/blackbox -run Golden -update`" + `.

| Method | Path | Operation | Summary | Role | API keys |
|---|---|---|---|---|---|
`)
	roles := []string{"none", "viewer", "operator", "admin"}
	for _, r := range programRoutes(t) {
		keys := "yes"
		if r.UsersOnly {
			keys = "no"
		} else if r.KeysOnly {
			keys = "only"
		}
		fmt.Fprintf(&b, "| %s | `%s` | `%s` | %s | %s | %s |\n",
			r.Method(), r.Path(), r.Doc.ID, r.Doc.Summary, roles[r.Access], keys)
	}
	compareGolden(t, "docs/operations.md", b.Bytes())
}

// TestOpenAPIGolden compares the document that the built program serves with testdata/openapi.json, and with the
// document of the features that the other tests use. It also compares the client libraries that are generated from it.
func TestOpenAPIGolden(t *testing.T) {
	t.Parallel()
	p := buildProgram(t)
	url := ownerURL(testkit.NewDatabase(t))
	c := p.start(t, []string{"DATABASE_URL=" + url, secretEnv})
	r, err := c.client.Get(c.url + "/openapi.json")
	check(t, err)
	defer r.Body.Close()
	served, err := io.ReadAll(r.Body)
	check(t, err)
	served = bytes.TrimSuffix(served, []byte("\n"))
	testkit.Equal(t, string(served), string(openapi.Document(programRoutes(t), p.version(t), app.Events...)),
		"the program serves other routes than package app lists")
	var b bytes.Buffer
	check(t, json.Indent(&b, served, "", "  "))
	b.WriteByte('\n')
	compareGolden(t, "testdata/openapi.json", b.Bytes())
	files, err := sdkgen.Files(served)
	check(t, err)
	for path, text := range files {
		compareGolden(t, path, text)
	}
}

// TestExamplesWork sends the example of every operation. The tests below change one thing in these requests, so that
// an error response to them is due to that change.
func TestExamplesWork(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	shared := w.newFullFixture(t)
	w.forEach(t, everyRoute, func(t *testing.T, op *operation) {
		f := shared
		if op.Method() != "GET" {
			t.Parallel()
			f = w.newFixture(t)
		}
		body := f.body(t, op)
		setUpCode(t, f.admin, op, body)
		a := f.do(t, f.admin, op, f.path(t, op.Path()), body)
		if a.Status >= 300 {
			t.Errorf("%s: %d %s", a.What, a.Status, a.Body)
		}
		if location := a.Header.Get("Location"); op.creates {
			got := f.admin.Get(t, readablePath(w, op, location)).Want(200)
			// The created resource has the ETag of its GET, unless its response also has a secret.
			tag := a.Header.Get("ETag")
			want := got.Header.Get("ETag")
			if tag != want && (tag != "" || op.Path() != "/api/v1/webhooks" && op.Path() != "/api/v1/api-keys" &&
				op.Path() != "/api/v1/shops" && strings.HasPrefix(location, op.Path()+"/") &&
				readablePath(w, op, location) == location) {
				t.Errorf("%s: ETag %q, but GET has %q", a.What, tag, want)
			}
		}
	})
}

// readablePath returns the path at which GET shows the resource at the location: the location itself, or that of the
// parent resource if the resource has no GET.
func readablePath(w *testAPI, op *operation, location string) string {
	for _, other := range w.operations {
		parent := other.Path() == path.Dir(op.Path()) &&
			strings.Count(location, "/") == strings.Count(other.Path(), "/")
		if other.Method() == "GET" && (strings.HasPrefix(other.Path(), op.Path()+"/{") || other.Path() == location ||
			parent) {
			return location
		}
	}
	parts := strings.Split(location, "/")
	return strings.Join(parts[:len(parts)-2], "/")
}

// Each operation rejects users with a lower role, without an effect.
func TestLowerRolesAreRejected(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	f := w.newFullFixture(t).prepareBodies(t)
	users := map[string]*testkit.Client{}
	for _, role := range []string{"viewer", "operator"} {
		users[role] = f.tenant.User(t, role)
	}
	before := f.snapshot(t)
	for _, op := range w.operations {
		for role, level := range map[string]server.Access{"viewer": server.Read, "operator": server.Write} {
			if op.Access > level {
				f.do(t, users[role], op, f.path(t, op.Path()), f.body(t, op)).WantError(403, "FORBIDDEN")
			}
		}
	}
	f.wantUnchanged(t, before)
}

// Each operation accepts users with the lowest role that is allowed.
func TestLowestRoleIsAccepted(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	w.forEach(t, isProtected, func(t *testing.T, op *operation) {
		t.Parallel()
		f, path, body := w.newRequest(t, op)
		role := map[server.Access]string{server.Read: "viewer", server.Write: "operator",
			server.Admin: "admin"}[op.Access]
		c := f.tenant.User(t, role)
		if op.Doc.ID == "revokeSession" { // of the user
			path = "/api/v1/auth/sessions/" + newSession(t, c)
		}
		setUpCode(t, c, op, body)
		if a := f.do(t, c, op, path, body); a.Status >= 300 {
			t.Errorf("%s as %s: %d %s", a.What, role, a.Status, a.Body)
		}
	})
}

// TestDisabledAndDemotedUsers checks that an access token stops working at once when its user is disabled, or has
// another role or tenant than the token says.
func TestDisabledAndDemotedUsers(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	f := w.newFullFixture(t).prepareBodies(t)
	accounts := accounts.Accounts{DB: w.api.DB, Hasher: secrets.NewHasher(1000)}
	ctx := context.Background()

	disabled := f.tenant.User(t, "admin")
	check(t, accounts.SetDisabled(ctx, disabled.Email, true))
	demoted := f.tenant.User(t, "admin")
	err := w.api.DB.Write(db.As(ctx, db.Actor{Tenant: f.tenant.ID}),
		db.SQL(`update users set role = 'viewer' where id = $1`, demoted.Actor.User))
	check(t, err)
	moved := *f.admin // a token that names the same user in another tenant
	moved.Token, err = w.api.Tokens.Access(auth.Principal{
		TenantID: w.api.Tenant(t).ID, UserID: f.admin.Actor.User, Role: "admin",
	})
	check(t, err)

	before := f.snapshot(t)
	w.forEach(t, isProtected, func(t *testing.T, op *operation) {
		path, body := f.path(t, op.Path()), f.body(t, op)
		for name, c := range map[string]*testkit.Client{"disabled": disabled, "demoted": demoted, "moved": &moved} {
			a := f.do(t, c, op, path, body)
			if a.Status != 401 || a.Text("code") != "INVALID_TOKEN" || a.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s: %s: %d %s", name, a.What, a.Status, a.Body)
			}
		}
	})
	f.wantUnchanged(t, before)
}

// TestInvalidIDs checks that an id in a path that is not a UUID is a 422 that names the path parameter.
func TestInvalidIDs(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	f := w.newFullFixture(t)
	w.forEach(t, hasID, func(t *testing.T, op *operation) {
		body := f.body(t, op)
		path := strings.Split(f.path(t, op.Path()), "/")
		for i, part := range strings.Split(op.Path(), "/") {
			if !strings.HasSuffix(part, "id}") {
				continue
			}
			for _, invalid := range []string{
				"1", "null", "%00", "%F0%9F", "%20" + path[i], path[i] + "0", strings.ReplaceAll(path[i], "-", ""),
				"%7B" + path[i] + "%7D",
			} {
				target := slices.Clone(path)
				target[i] = invalid
				f.do(t, f.admin, op, strings.Join(target, "/"), body).Fields(strings.Trim(part, "{}"))
			}
		}
	})
}

// TestUnknownParameters checks that each operation rejects query parameters that it does not have, with the most
// similar one that it has, and those that are given twice, together with the other problems of the request.
func TestUnknownParameters(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	f := w.newFullFixture(t).prepareBodies(t)
	before := f.snapshot(t)
	all := func(*operation) bool { return true }
	w.forEach(t, all, func(t *testing.T, op *operation) {
		path, body := f.path(t, op.Path()), f.body(t, op)
		send := func(query string) *testkit.Response {
			t.Helper()
			return f.do(t, f.admin, op, path+"?"+query, body)
		}
		send("surprise=1").Fields("surprise")
		send("surprise").Fields("surprise")
		send("limits=1&=1&tenant_id="+value.NewID()).Fields("", "limits", "tenant_id")
		for _, name := range op.query {
			misspelled := name[:len(name)-1]
			a := send(misspelled + "=1").Fields(misspelled)
			for _, text := range append([]string{"did you mean "}, op.query...) {
				testkit.Contains(t, a.Text("errors.0.message"), text, "%s: %q is not in %s", a.What, text, a.Body)
			}
			send(strings.ToUpper(name) + "=1").Fields(strings.ToUpper(name))
			send(name + "=1&" + name + "=1").Fields(name)
		}
		if op.Endpoint.Out.List {
			send("sort_by=items&limit=0&limits=1").Fields("limit", "limits", "sort_by")
		}
		if hasID(op) {
			a := f.do(t, f.admin, op, regexp.MustCompile(`[^/]{36}|1$`).ReplaceAllString(path, "x")+"?surprise=1", body)
			a.Fields(slices.Sorted(slices.Values(append(wildcards(op), "surprise")))...)
		}
	})
	f.wantUnchanged(t, before)
}

// wildcards returns the names of the parameters of an operation's path.
func wildcards(op *operation) (names []string) {
	for _, part := range pathParts(op.Path()) {
		if strings.HasPrefix(part, "{") {
			names = append(names, strings.Trim(part, "{}"))
		}
	}
	return names
}

// TestOtherTenants checks that the response to a request with another tenant's id, in the path or in the body, equals
// the response to the same request with an id that does not exist, and that neither tenant's data changes.
func TestOtherTenants(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	theirs := w.newFullFixture(t)
	before := theirs.snapshot(t)
	mine, more := w.newFullFixture(t).prepareBodies(t), w.newFixture(t)
	more.admin = mine.admin // more creates other resources of the same tenant
	more.created = mine.created
	for _, op := range w.operations {
		more.path(t, op.Path())
	}
	mineBefore := mine.snapshot(t)
	namesIDs := func(op *operation) bool { return hasID(op) || referenceFields(op, op.example) != nil }
	w.forEach(t, namesIDs, func(t *testing.T, op *operation) {
		own := pathParts(mine.path(t, op.Path()))
		foreign, others := pathParts(theirs.path(t, op.Path())), pathParts(more.path(t, op.Path()))
		pattern := pathParts(op.Path())
		var ids []int // the indexes of the ids in the path
		for i, part := range pattern {
			if strings.HasSuffix(part, "id}") {
				ids = append(ids, i)
			}
		}
		body := mine.body(t, op)
		for n := range ids {
			// Replace all ids but the first n.
			missing, theirIDs, otherParent := slices.Clone(own), slices.Clone(own), slices.Clone(own)
			for _, i := range ids[n:] {
				missing[i], theirIDs[i], otherParent[i] = value.NewID(), foreign[i], others[i]
			}
			send := func(parts []string) *testkit.Response {
				t.Helper()
				return mine.do(t, mine.admin, op, "/"+strings.Join(parts, "/"), body)
			}
			want := send(missing).WantError(404, "NOT_FOUND")
			wantSameResponse(t, want, send(theirIDs))
			if n > 0 { // an existing child of another parent in the same tenant
				wantSameResponse(t, want, send(otherParent))
			}
		}
		for _, name := range referenceFields(op, body) {
			collection := w.collectionOf(t, op, name)
			missing, theirID := value.NewID(), idOf(theirs.path(t, collection+"/{id}"))
			send := func(id string) *testkit.Response {
				t.Helper()
				return mine.do(t, mine.admin, op, "/"+strings.Join(own, "/"), withReference(body, name, id))
			}
			want, got := send(missing), send(theirID)
			if op.Doc.ID == "createPrinterStates" { // each state has its own result
				want.Want(200).Shows(map[string]string{"results.0.error.code": "UNKNOWN_REFERENCE"})
			} else {
				want.WantError(400, "UNKNOWN_REFERENCE")
			}
			want.Body = bytes.ReplaceAll(want.Body, []byte(missing), []byte("ID"))
			got.Body = bytes.ReplaceAll(got.Body, []byte(theirID), []byte("ID"))
			wantSameResponse(t, want, got)
		}
	})
	mine.wantUnchanged(t, mineBefore)
	theirs.wantUnchanged(t, before)
}

// TestInvalidBodies checks that each operation with a body rejects other media types, malformed JSON, JSON that is
// not an object, unknown fields, and bodies over 1 MiB, without an effect.
func TestInvalidBodies(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	f := w.newFullFixture(t).prepareBodies(t)
	before := f.snapshot(t)
	w.forEach(t, readsBody, func(t *testing.T, op *operation) {
		path := f.path(t, op.Path())
		good, err := json.Marshal(f.body(t, op))
		check(t, err)
		name := slices.Sorted(maps.Keys(op.example))[0]
		object := string(good)
		with := func(member string) string { return object[:len(object)-1] + "," + member + "}" }
		send := func(body string) *testkit.Response { return f.admin.Do(t, op.Method(), path, body) }

		for _, media := range []string{
			"", "text/plain", "application/xml", "application/x-www-form-urlencoded", "application/jsonx",
			"application/json; charset=latin1",
		} {
			f.admin.With("Content-Type", media).Do(t, op.Method(), path, object).WantError(415,
				"UNSUPPORTED_MEDIA_TYPE")
		}
		f.admin.With("Content-Encoding", "gzip").Do(t, op.Method(), path, object).WantError(415,
			"UNSUPPORTED_MEDIA_TYPE")

		for _, malformed := range []string{
			" ", "{", object[:len(object)-1], object + "x", object + object, `{"` + name + `"}`, `{'a':1}`,
			"\xef\xbb\xbf" + object,      // a byte order mark
			with(`"x":"` + "\xff" + `"`), // invalid UTF-8
			with(`"` + name + `":1`),     // a repeated key
			with(`"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40)),
		} {
			if a := send(malformed); a.Status != 400 || a.Text("code") != "MALFORMED_JSON" {
				t.Errorf("%s with %.80q: %d %s", a.What, malformed, a.Status, a.Body)
			}
		}
		if !op.optional {
			send("").WantError(400, "MALFORMED_JSON")
		}
		for _, notObject := range []string{"[]", "[" + object + "]", `"text"`, "1", "true", "null"} {
			send(notObject).Fields("body")
		}
		send(with(`"surprise":1`)).Fields("surprise")
		send(with(`"tenant_id":"` + value.NewID() + `"`)).Fields("tenant_id")
		upper := strings.ToUpper(name)
		send(with(`"` + upper + `":1`)).Fields(upper)
		send(with(`"surprise":"`+strings.Repeat("x", 1<<20)+`"`)).WantError(413, "PAYLOAD_TOO_LARGE")
	})
	f.wantUnchanged(t, before)
}

// checkHeaders checks the headers that every response below /api/v1 must have.
func checkHeaders(t *testing.T, a *testkit.Response) {
	t.Helper()
	for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
		if n, err := strconv.ParseInt(a.Header.Get(name), 10, 64); err != nil || n < 0 {
			t.Errorf("%s: %d: %s is %q", a.What, a.Status, name, a.Header.Get(name))
		}
	}
	cache := "no-store"
	if strings.HasPrefix(a.Header.Get("Content-Type"), "image/") { // which a browser may keep, but must ask for
		cache = "private, no-cache"
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": cache} {
		testkit.Equal(t, a.Header.Get(name), want, "%s: %d: %s", a.What, a.Status, name)
	}
	testkit.Contains(t, a.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'",
		"%s: %d: Content-Security-Policy", a.What, a.Status)
	if a.Header.Get("X-Request-Id") == "" {
		t.Errorf("%s: %d: X-Request-Id is missing", a.What, a.Status)
	}
}

// TestHeaders checks the headers of each operation's success and error responses, and the Allow header of a 405.
func TestHeaders(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	w.forEach(t, everyRoute, func(t *testing.T, op *operation) {
		f, path, body := w.newRequest(t, op)
		checkHeaders(t, f.do(t, w.api.Anonymous(), op, path, "{}"))
		checkHeaders(t, f.do(t, f.admin, op, path, "["))
		checkHeaders(t, f.do(t, f.admin, op, path, body))
		checkHeaders(t, f.admin.Get(t, path+"/nothing/is/here").WantError(404, "NOT_FOUND"))
		other := f.admin.Do(t, "PROPFIND", path, "{}").WantError(405, "METHOD_NOT_ALLOWED")
		checkHeaders(t, other)
		if !strings.Contains(other.Header.Get("Allow"), op.Method()) {
			t.Errorf("%s: Allow is %q, without %s", other.What, other.Header.Get("Allow"), op.Method())
		}
	})
}

// TestRateLimit checks that every operation responds 429 once the caller's rate limit is used up, without an effect.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	w, strict := newUnlimitedAPI(t), newTestAPI(t, testkit.Options{PerHour: 1})
	f := w.newFullFixture(t).prepareBodies(t)
	user := *f.admin
	user.API = strict.api
	anonymous := strict.api.Anonymous()
	user.Get(t, "/api/v1/nothing") // uses up the limit of one request
	anonymous.Get(t, "/api/v1/nothing")
	before := f.snapshot(t)
	w.forEach(t, everyRoute, func(t *testing.T, op *operation) {
		c := &user
		if op.Access == server.Public {
			c = anonymous
		}
		a := f.do(t, c, op, f.path(t, op.Path()), f.body(t, op)).WantError(429, "RATE_LIMIT_EXCEEDED")
		checkHeaders(t, a)
		wait, err := strconv.Atoi(a.Header.Get("Retry-After"))
		if err != nil || wait < 1 || a.Header.Get("X-RateLimit-Remaining") != "0" {
			t.Errorf("%s: %v, want Retry-After of at least 1 and X-RateLimit-Remaining 0", a.What, a.Header)
		}
	})
	f.wantUnchanged(t, before)
}

// TestCursors reads every list page by page with the cursors in its responses, in each order that has them, and in one
// page. Both return the same items. A cursor of another tenant only selects a position among the own items.
func TestCursors(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	isList := func(op *operation) bool { return slices.Contains(op.query, "after") }
	w.forEach(t, isList, func(t *testing.T, op *operation) {
		t.Parallel()
		own, other := w.newFixture(t), w.newFixture(t)
		path := own.path(t, op.Path())
		if op.Doc.ID == "listProductionRunHistory" {
			path = own.endedRun(t, "/api/v1/production-runs") + "/history"
		}
		for n := range 5 {
			switch {
			case op.Doc.ID == "listProductionRunHistory":
				own.admin.Post(t, strings.TrimSuffix(path, "history")+"correct",
					map[string]any{"actual_print_time_hours": n + 1}).Want(200)
			case op.Doc.ID == "listFilamentCatalog":
				own.admin.With("Content-Type", "application/jsonl").Post(t, path+"/import", `{"id":"`+value.NewID()+
					`","manufacturer":"M","name":"N","material":"PLA","density":1.24,"weight":1000,"diameter":1.75}`).Want(200)
			case strings.HasSuffix(path, "/usage"):
				own.admin.Post(t, strings.TrimSuffix(path, "usage")+"deduct",
					map[string]any{"weight_grams": 1}).Want(200)
			default:
				own.create(t, op.Path(), path)
			}
		}
		ids := func(a *testkit.Response) (all []string) {
			for _, item := range a.Want(200).List("items") {
				all = append(all, item.(map[string]any)["id"].(string))
			}
			return all
		}
		orders := []string{"", "&sort_order=asc", "&sort_by=id", "&sort_by=id&sort_order=asc"}
		if op.Doc.ID == "listSpools" {
			orders = append(orders, "&sort_by=number", "&sort_by=number&sort_order=asc")
		}
		cursors := map[string]bool{}
		for _, order := range orders {
			want := ids(own.admin.Get(t, path+"?limit=100"+order))
			if len(want) < 5 {
				t.Fatalf("the list has only %d items", len(want))
			}
			foreign := ids(other.admin.Get(t, other.path(t, op.Path())+"?limit=100"))
			for _, limit := range []int{1, 2, len(want) - 1, len(want)} {
				query, got, count := "?limit="+strconv.Itoa(limit)+order, []string(nil), 0
				for after := ""; ; {
					count++
					a := own.admin.Get(t, path+query+after)
					got = append(got, ids(a)...)
					a.Shows(map[string]string{"total": strconv.Itoa(len(want)), "skip": "0"})
					if len(got) > len(want) || a.Value("next") == nil {
						break
					}
					after = "&after=" + a.Text("next")
					for _, id := range ids(other.admin.Get(t, other.path(t, op.Path())+query+after)) {
						if !slices.Contains(foreign, id) {
							t.Errorf("%s: the cursor of another tenant returns %s", query, id)
						}
					}
				}
				if pages := (len(want) + limit - 1) / limit; count != pages {
					t.Errorf("%s: there are %d pages, want %d", query, count, pages)
				}
				testkit.EqualSlices(t, got, want, "%s: the pages have the items", query)
			}
			last := own.admin.Get(t, path+"?limit=1"+order).Text("next")
			cursors[last] = true
			for _, text := range []string{"", "x", last[1:], last + "AAAA", last[:31] + "!", strings.Repeat("f", 32),
				"%00", base64.RawURLEncoding.EncodeToString([]byte("created_at desc now " + value.NewID()))} {
				own.admin.Get(t, path+"?after="+text+order).Fields("after")
			}
			for cursor := range cursors { // of the other orders
				if cursor != last {
					own.admin.Get(t, path+"?after="+cursor+order).Fields("after")
				}
			}
			own.admin.Get(t, path+"?after="+last+"&skip=1"+order).Fields("after")
			own.admin.Get(t, path+"?limit=0&after="+last[1:]+order).Fields("after", "limit")
			own.admin.Get(t, path+"?skip=0&limit=1&after="+last+order).Want(200).
				Shows(map[string]string{"items.0.id": want[1]})
		}
		for _, by := range server.SchemaOfType(op.Endpoint.Out.Item).Sortable() {
			if indexed := by == "created_at" || by == "id" || by == "number"; !indexed {
				if next := own.admin.Get(t, path+"?limit=1&sort_by="+by).Want(200).Value("next"); next != nil {
					t.Errorf("in the order by %s, next is %v, want null", by, next)
				}
			}
		}
	})
}
