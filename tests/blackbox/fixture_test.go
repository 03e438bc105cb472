package blackbox_test

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/transfer"
	"spoolwright/value"
)

// The helpers in this file let a test go through all routes without naming them. They build request bodies from the
// examples of the OpenAPI document, and fill in the ids of resources that they create through the same API.

// testAPI is a running service with the operations that its OpenAPI document describes.
type testAPI struct {
	api        *testkit.API
	operations []*operation
}

// newUnlimitedAPI starts the whole API with rate limits that no test reaches.
func newUnlimitedAPI(t *testing.T) *testAPI {
	t.Helper()
	return newTestAPI(t, testkit.Options{PerMinute: 1_000_000, PerHour: 10_000_000})
}

// newTestAPI starts the whole API. It fails the test if an operation with a request body has no example or schema.
func newTestAPI(t *testing.T, o testkit.Options) *testAPI {
	t.Helper()
	watch(t)
	w := &testAPI{api: testkit.New(t, o, testkit.Features...)}
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Schemas map[string]struct{ Properties map[string]field }
		}
	}
	check(t, json.Unmarshal(w.api.Document(), &doc))
	for _, r := range w.api.Routes {
		var described struct {
			RequestBody *struct {
				Required bool
				Content  map[string]struct {
					Schema   ref
					Example  any
					Examples map[string]struct{ Value map[string]any }
				}
			}
			Responses  map[string]any
			Parameters []struct{ Name, In string }
		}
		check(t, json.Unmarshal(doc.Paths[r.Path()][strings.ToLower(r.Method())], &described))
		op := &operation{Route: r, creates: described.Responses["201"] != nil}
		for _, p := range described.Parameters {
			if p.In == "query" {
				op.query = append(op.query, p.Name)
			}
		}
		if described.RequestBody != nil && described.RequestBody.Content["application/json"].Example == nil &&
			described.RequestBody.Content["application/json"].Examples == nil {
			for media, content := range described.RequestBody.Content {
				if media == transfer.WorkbookMedia || media == transfer.OpenDocumentMedia { // beside CSV
					continue
				}
				op.media, op.file = media, content.Example.(string)
				if op.file == "" { // a picture, which no text can show
					op.file = onePixel()
				}
			}
		} else if described.RequestBody != nil {
			content := described.RequestBody.Content["application/json"]
			op.example, _ = content.Example.(map[string]any)
			op.plain, op.optional = op.example, !described.RequestBody.Required
			if with, ok := content.Examples["lists"]; ok {
				op.example, op.plain = with.Value, content.Examples["plain"].Value
				delete(op.example, "runs") // the runs of a plan are those of its response
			}
			op.fields = doc.Components.Schemas[content.Schema.name()].Properties
			op.entries = map[string]map[string]field{}
			for name, f := range op.fields {
				if f.Type == "array" {
					op.entries[name] = doc.Components.Schemas[f.Items.name()].Properties
				}
			}
			if len(op.example) == 0 || len(op.fields) == 0 {
				t.Fatalf("%s: the document has no example or no schema for the request body", r.Pattern)
			}
		}
		// TestCurrentKey: users of the tests, who send all requests, get a 403. TestFollow: a stream does not end.
		if !op.KeysOnly && op.Endpoint.File != server.EventMedia {
			w.operations = append(w.operations, op)
		}
	}
	return w
}

// operation is a route with its part of the OpenAPI document.
type operation struct {
	server.Route
	example     map[string]any              // the request body, with lists; nil if the operation has none
	plain       map[string]any              // the request body without lists
	fields      map[string]field            // the schema of the request body
	entries     map[string]map[string]field // the schemas of the entries of its lists
	media, file string                      // of a body that is a file
	optional    bool                        // the body may be missing
	creates     bool                        // a success is 201
	query       []string                    // the names of the query's parameters
}

// ref is a reference to a schema of the document.
type ref struct {
	Ref string `json:"$ref"`
}

func (r ref) name() string { return strings.TrimPrefix(r.Ref, "#/components/schemas/") }

// field is the schema of a property of a request body.
type field struct {
	ref
	Type            any
	Items           ref
	Format, Pattern string
	Enum, AnyOf     []any
}

// isFreeText reports whether the field accepts any text.
func (f field) isFreeText() bool {
	special := strings.HasPrefix(f.Pattern, "^#") || strings.Contains(f.Pattern, "@") // a color or an e-mail address
	return !special && f.Ref == "" && f.Format == "" && f.Enum == nil && f.AnyOf == nil
}

// forEach runs fn in a subtest for every operation that filter selects. It fails the test if there is none.
func (w *testAPI) forEach(t *testing.T, filter func(*operation) bool, fn func(*testing.T, *operation)) {
	t.Helper()
	n := 0
	for _, op := range w.operations {
		if filter(op) {
			n++
			t.Run(op.Doc.ID, func(t *testing.T) { fn(t, op) })
		}
	}
	if n == 0 {
		t.Error("the filter selects no operation")
	}
}

// forSome is forEach for every fourth operation, or for all operations if rigs run. It is for tests that cost much for
// each operation, and check what the operations share.
func (w *testAPI) forSome(t *testing.T, filter func(*operation) bool, fn func(*testing.T, *operation)) {
	t.Helper()
	n, every := 0, testkit.InRigs(4, 1)
	w.forEach(t, func(op *operation) bool {
		if !filter(op) {
			return false
		}
		n++
		return n%every == 0
	}, fn)
}

// Filters for forEach.
func everyRoute(*operation) bool     { return true }
func isProtected(op *operation) bool { return op.Access > server.Public }
func readsBody(op *operation) bool   { return op.example != nil }
func hasID(op *operation) bool       { return strings.Contains(op.Path(), "id}") }

// endsRun reports whether the path is that of an operation that ends a production run.
func endsRun(path string) bool {
	return strings.HasSuffix(path, "/complete") || strings.HasSuffix(path, "/fail") ||
		strings.HasSuffix(path, "/cancel")
}

// changesEnd reports whether the path is that of an operation on a production run that has ended.
func changesEnd(path string) bool {
	return strings.HasSuffix(path, "/correct") || strings.HasSuffix(path, "/reopen")
}

// createOperation returns the operation that creates resources in the collection, or nil.
func (w *testAPI) createOperation(collection string) *operation {
	for _, op := range w.operations {
		if op.creates && op.Pattern == "POST "+collection {
			return op
		}
	}
	return nil
}

// collectionOf returns the path pattern of the collection whose resources the field refers to: /api/v1/products for
// component_product_id or items[0].product_id, and the materials of a run for materials[0].id of its complete.
func (w *testAPI) collectionOf(t *testing.T, op *operation, name string) string {
	t.Helper()
	list, entryField, ok := strings.Cut(name, "[0].")
	if ok && entryField == "id" && !strings.Contains(op.Path(), "{") { // of several resources
		return op.Path()
	}
	if ok && entryField == "id" {
		return op.Path()[:strings.LastIndexByte(op.Path(), '/')+1] + list
	}
	noun := strings.TrimSuffix(name, "_id")
	noun = noun[strings.LastIndexAny(noun, "_.")+1:]
	for _, other := range w.operations {
		if other.creates && !hasID(other) && strings.HasSuffix(other.Path(), noun+"s") {
			return other.Path()
		}
	}
	t.Fatalf("%s: no collection is named like the reference %s", op.Pattern, name)
	return ""
}

// referenceFields returns the names of the fields in a body that refer to other resources, such as product_id or
// items[0].product_id.
func referenceFields(op *operation, body map[string]any) (names []string) {
	for name, value := range body {
		if op.fields[name].Format == "uuid" && value != nil {
			names = append(names, name)
		}
		for entryField, schema := range op.entries[name] {
			if schema.Format == "uuid" && hasEntryField(value, entryField) {
				names = append(names, name+"[0]."+entryField)
			}
		}
	}
	slices.Sort(names)
	return names
}

// hasEntryField reports whether the first entry of a list has the field, and it is not null.
func hasEntryField(list any, field string) bool {
	entries, _ := list.([]any)
	if len(entries) == 0 {
		return false
	}
	entry, _ := entries[0].(map[string]any)
	return entry[field] != nil
}

// withReference returns a copy of a body in which the field that referenceFields names is an id.
func withReference(body map[string]any, name, id string) map[string]any {
	body = clone(body)
	if list, entryField, ok := strings.Cut(name, "[0]."); ok {
		body[list].([]any)[0].(map[string]any)[entryField] = id
	} else {
		body[name] = id
	}
	return body
}

// clone returns a deep copy of a JSON object.
func clone(o map[string]any) map[string]any {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var copied map[string]any
	if err := json.Unmarshal(b, &copied); err != nil {
		panic(err)
	}
	return copied
}

func pathParts(path string) []string { return strings.Split(strings.TrimPrefix(path, "/"), "/") }

// fixture is a tenant with one resource of every kind. It creates each resource when a test first needs it.
type fixture struct {
	*testAPI
	tenant  *testkit.Tenant
	admin   *testkit.Client
	ids     map[string]string             // path of a collection, with ids filled in -> id of the resource created in it
	created map[string]int                // path pattern of a collection -> number of resources created
	bodies  map[*operation]map[string]any // see body
	secret  string                        // see setUpCode
	period  string                        // the query for reports, because today may become another day
}

// newFixture creates a tenant without resources.
func (w *testAPI) newFixture(t *testing.T) *fixture {
	t.Helper()
	tenant := w.api.Tenant(t)
	return &fixture{
		testAPI: w, tenant: tenant, admin: tenant.User(t, "admin"),
		ids: map[string]string{}, created: map[string]int{}, bodies: map[*operation]map[string]any{},
		period: time.Now().UTC().AddDate(0, 0, -29).Format("?from=2006-01-02") +
			time.Now().UTC().AddDate(0, 0, 2).Format("&to=2006-01-02"),
	}
}

// newRequest creates a tenant with a webhook and what a request of the operation needs. It returns the request's path
// and body.
func (w *testAPI) newRequest(t *testing.T, op *operation) (f *fixture, path string, body map[string]any) {
	t.Helper()
	f = w.newFixture(t)
	f.path(t, "/api/v1/webhooks/{id}")
	path, body = f.path(t, op.Path()), f.body(t, op)
	f.secret = setUpCode(t, f.admin, op, body)
	return f, path, body
}

// setUpCode makes the user of the client ready for an operation that needs a code of a second factor, and sets the
// code in the body. It returns the secret of the second factor, with which a test that sends the body later makes the
// code again.
func setUpCode(t *testing.T, c *testkit.Client, op *operation, body map[string]any) (secret string) {
	t.Helper()
	const otp = "/api/v1/auth/otp"
	if !strings.HasPrefix(op.Path(), otp+"/") {
		return ""
	}
	secret = c.Post(t, otp, testkit.JSON{"current_password": testkit.Password}).Want(200).Text("secret")
	body["otp"] = testkit.TOTP(secret, time.Now())
	if op.Path() != otp+"/confirm" {
		body["otp"] = c.Post(t, otp+"/confirm", testkit.JSON{"otp": body["otp"]}).Want(200).Text("recovery_codes.0")
	}
	return secret
}

// newFullFixture creates a tenant with a resource of every kind, and applies the example of every PATCH to it.
func (w *testAPI) newFullFixture(t *testing.T) *fixture {
	t.Helper()
	f := w.newFixture(t)
	for _, op := range w.operations {
		f.path(t, op.Path())
	}
	for _, op := range w.operations {
		if op.Method() == "PATCH" {
			f.admin.Patch(t, f.path(t, op.Path()), f.newBody(t, op, op.example)).Want(200)
		}
	}
	return f
}

// prepareBodies builds the body of every operation, so that later calls of body create no resource.
func (f *fixture) prepareBodies(t *testing.T) *fixture {
	t.Helper()
	for _, op := range f.operations {
		f.body(t, op)
	}
	return f
}

// path returns the path pattern with the ids and numbers of the fixture's resources filled in.
func (f *fixture) path(t *testing.T, pattern string) string {
	t.Helper()
	if run, ok := strings.CutSuffix(pattern, "/{id}/replan"); ok { // of a pending run that can be planned
		if f.ids[pattern] == "" {
			f.create(t, "/api/v1/printers", "/api/v1/printers")
			product := f.admin.Post(t, "/api/v1/products", testkit.JSON{"name": "Planned"}).Want(201).ID()
			f.ids[pattern] = f.admin.Post(t, run, testkit.JSON{"items": []testkit.JSON{{"product_id": product}}}).
				Want(201).ID()
		}
		return run + "/" + f.ids[pattern] + "/replan"
	}
	if products, ok := strings.CutSuffix(pattern, "/{id}/picture"); ok { // of a product that has one
		path := products + "/" + f.ids[pattern]
		if f.ids[pattern] == "" || f.admin.Get(t, path).Status == 404 {
			f.ids[pattern] = f.admin.Post(t, products, testkit.JSON{"name": "Pictured"}).Want(201).ID()
			path = products + "/" + f.ids[pattern]
		}
		if path += "/picture"; f.admin.Get(t, path).Status == 404 {
			f.admin.With("Content-Type", "application/octet-stream").Do(t, "PUT", path, onePixel()).Want(204)
		}
		return path
	}
	if pattern == "/api/v1/sign-on" && f.admin.Get(t, pattern).Status == 404 {
		f.admin.Do(t, "PUT", pattern, testkit.JSON{"issuer": "https://127.0.0.1:1", "client_id": "farm"}).Want(200)
	}
	if printers, rest, ok := strings.Cut(pattern, "/{id}/connection"); ok { // of a printer that has one
		const own = "/connection"
		if f.ids[own] == "" || f.admin.Get(t, printers+"/"+f.ids[own]).Status == 404 {
			f.ids[own] = f.create(t, printers, printers)
		}
		path := printers + "/" + f.ids[own] + own
		if f.admin.Get(t, path).Status == 404 { // nothing answers there
			f.admin.Do(t, "PUT", path, testkit.JSON{"kind": "moonraker", "address": "127.0.0.1:1"}).Want(200)
		}
		return path + rest
	}
	if pattern == "/api/v1/printers/{id}/answer" { // of a printer with an open question
		id := f.ids[pattern]
		if id == "" || f.admin.Get(t, "/api/v1/printer-states?question=true&ids="+id).Text("total") == "0" {
			f.ids[pattern] = f.create(t, "/api/v1/printers", "/api/v1/printers")
			f.admin.Post(t, "/api/v1/production-runs", testkit.JSON{"printer_id": f.ids[pattern], "status": "in_progress"}).
				Want(201)
			f.printerState(t, f.ids[pattern], testkit.JSON{"id": "0000BF-1705309200"})
		}
		return strings.Replace(pattern, "{id}", f.ids[pattern], 1)
	}
	if changesEnd(pattern) { // of a run that has ended
		collection, operation, _ := strings.Cut(pattern, "/{id}")
		return f.endedRun(t, collection) + operation
	}
	if pattern == "/api/v1/products/{id}/variants" { // of a product with a material
		if f.ids[pattern] == "" {
			f.ids[pattern] = f.admin.Post(t, "/api/v1/products", testkit.JSON{"name": "In colors", "materials": []testkit.JSON{
				{"material_type": "PLA", "color": "Black", "weight_grams": 1}}}).Want(201).ID()
		}
		return "/api/v1/products/" + f.ids[pattern] + "/variants"
	}
	if pattern == "/api/v1/products/{id}/scrap" { // of a product with pieces in stock
		if f.ids[pattern] == "" {
			f.ids[pattern] = f.admin.Post(t, "/api/v1/products", testkit.JSON{"name": "On the shelf"}).Want(201).ID()
			f.admin.Post(t, "/api/v1/products/"+f.ids[pattern]+"/count", testkit.JSON{"counted": 1000}).Want(200)
		}
		return "/api/v1/products/" + f.ids[pattern] + "/scrap"
	}
	if pattern == "/api/v1/products/{id}/assemble" || pattern == "/api/v1/products/{id}/disassemble" { // with stock
		if f.ids[pattern] == "" {
			part := f.admin.Post(t, "/api/v1/products", testkit.JSON{"name": "Part"}).Want(201).ID()
			f.ids[pattern] = f.admin.Post(t, "/api/v1/products", testkit.JSON{"name": "Kit", "components": []testkit.JSON{
				{"component_product_id": part}}}).Want(201).ID()
			for _, id := range []string{part, f.ids[pattern]} {
				f.admin.Post(t, "/api/v1/products/"+id+"/count", testkit.JSON{"counted": 1000}).Want(200)
			}
		}
		return strings.Replace(pattern, "{id}", f.ids[pattern], 1)
	}
	if orders, ok := strings.CutSuffix(pattern, "/{id}/return"); ok { // of an order that is delivered
		order, _, _ := strings.Cut(f.path(t, orders+"/{id}/items/{item_id}"), "/items/")
		if f.ids[pattern] == "" {
			f.ids[pattern] = idOf(order)
			f.admin.Patch(t, order, testkit.JSON{"status": "received"}).Want(200) // another request may have cancelled it
			f.admin.Post(t, order+"/deliver", nil).Want(200)
		}
		return order + "/return"
	}
	if before, after, ok := strings.Cut(pattern, "/{id}/lines/{line_id}"); ok {
		// It is the line of an order that has a line without a product.
		if f.ids["line"] == "" {
			order := f.admin.Post(t, before, testkit.JSON{"unassigned_lines": []testkit.JSON{{"title": value.NewID()}}}).
				Want(201)
			f.ids["line"] = order.ID() + "/lines/" + order.Text("unassigned_lines.0.id")
		}
		return before + "/" + f.ids["line"] + after
	}
	prefix, path := "", strings.Builder{}
	for _, part := range strings.Split(pattern, "/")[1:] {
		if strings.HasPrefix(part, "{") {
			collection := path.String()
			if part == "{number}" && strings.HasSuffix(prefix, "/slots") {
				f.ids[collection] = "1"
			} else if f.ids[collection] == "" && part == "{number}" {
				resource := f.path(t, strings.TrimSuffix(prefix, "/by-number")+"/{id}")
				f.ids[collection] = f.admin.Get(t, resource).Want(200).Text("number")
			} else if f.ids[collection] == "" {
				f.ids[collection] = f.create(t, prefix, collection)
			}
			prefix += "/" + part
			path.WriteString("/" + f.ids[collection])
			continue
		}
		prefix += "/" + part
		path.WriteString("/" + part)
	}
	return path.String()
}

// endedRun returns the path of a completed run with an item and a material.
func (f *fixture) endedRun(t *testing.T, collection string) string {
	t.Helper()
	if f.ids["ended run"] == "" {
		product := f.create(t, "/api/v1/products", "/api/v1/products")
		spool := f.create(t, "/api/v1/spools", "/api/v1/spools")
		f.ids["ended run"] = f.admin.Post(t, collection, testkit.JSON{
			"items":     []testkit.JSON{{"product_id": product, "quantity": 2}},
			"materials": []testkit.JSON{{"spool_id": spool, "actual_weight_grams": 1}}}).Want(201).ID()
		f.admin.Post(t, collection+"/"+f.ids["ended run"]+"/complete", nil).Want(200)
	}
	return collection + "/" + f.ids["ended run"]
}

// create creates one more resource in a collection and returns its id. Pattern is the collection's path pattern, path
// the same with ids filled in.
func (f *fixture) create(t *testing.T, pattern, path string) string {
	t.Helper()
	if webhook, ok := strings.CutSuffix(path, "/deliveries"); ok { // no POST creates deliveries of webhooks
		return f.admin.Post(t, webhook+"/test", nil).Want(200).ID()
	}
	if pattern == "/api/v1/auth/sessions" { // a login creates one
		return newSession(t, f.admin)
	}
	if spool, ok := strings.CutSuffix(path, "/usage"); ok { // a deduction creates an entry
		f.admin.Post(t, spool+"/deduct", testkit.JSON{"weight_grams": 1}).Want(200)
		return f.admin.Get(t, path+"?limit=1").Want(200).Text("items.0.id")
	}
	if pattern == "/api/v1/piece-entries" { // a count creates one
		product := f.admin.Post(t, "/api/v1/products", testkit.JSON{"name": "Counted"}).Want(201).ID()
		return f.admin.Post(t, "/api/v1/products/"+product+"/count", testkit.JSON{"counted": 3}).Want(200).ID()
	}
	if product, ok := strings.CutSuffix(path, "/piece-entries"); ok && pattern != path { // of a product
		return f.admin.Post(t, product+"/count", testkit.JSON{"counted": 3}).Want(200).ID()
	}
	if pattern == auditPath { // a new user leaves one
		f.create(t, "/api/v1/users", "/api/v1/users")
		return f.admin.Get(t, path+"?limit=1").Want(200).Text("items.0.id")
	}
	if pattern == "/api/v1/order-assignments" { // an assignment of a line creates one
		order := f.admin.Post(t, "/api/v1/orders", testkit.JSON{"unassigned_lines": []testkit.JSON{
			{"title": value.NewID()}}}).Want(201)
		f.admin.Post(t, "/api/v1/orders/"+order.ID()+"/lines/"+order.Text("unassigned_lines.0.id")+"/assign",
			testkit.JSON{"ignore": true}).Want(200)
		return f.admin.Get(t, pattern+"?limit=1").Want(200).Text("items.0.id")
	}
	if pattern == "/api/v1/printers/names" || strings.HasPrefix(pattern, "/api/v1/printer-states") {
		printer := f.create(t, "/api/v1/printers", "/api/v1/printers")
		f.printerState(t, printer, nil)
		if strings.HasSuffix(pattern, "/changes") {
			return f.admin.Get(t, pattern+"?limit=1").Want(200).Text("items.0.id")
		}
		return printer
	}
	if pattern == "/api/v1/imports" { // an import of a list creates one
		return f.admin.With("Content-Type", "text/csv").Post(t, "/api/v1/vendors/import", "name\n"+value.NewID()+"\n").
			Want(200).Text("import_id")
	}
	op := f.createOperation(pattern)
	if op == nil {
		t.Fatalf("%s/{id} exists, but no route POST %s with status 201", pattern, pattern)
	}
	f.created[pattern]++
	body := f.newBody(t, op, op.plain)
	if n := f.created[pattern]; n > 1 { // texts may have to be unique
		for name, value := range body {
			text, ok := value.(string)
			if schema := op.fields[name]; ok && name != "key" && name != "currency" && schema.isFreeText() { // keys are unique
				body[name] = text + " " + strconv.Itoa(n)
			}
		}
	}
	return f.admin.Post(t, path, body).Want(201).ID()
}

// printerState sends the first state of a printer.
func (f *fixture) printerState(t *testing.T, printer string, job testkit.JSON) {
	t.Helper()
	f.admin.Post(t, "/api/v1/printer-states", testkit.JSON{"states": []testkit.JSON{{"printer_id": printer,
		"sequence": 1, "state": "printing", "job": job}}}).Want(200)
}

// newSession returns the id of a new session of the client's user.
func newSession(t *testing.T, c *testkit.Client) string {
	t.Helper()
	c.Post(t, "/api/v1/auth/login", testkit.JSON{"email": c.Email, "password": testkit.Password}).Want(200)
	return c.Get(t, "/api/v1/auth/sessions").Want(200).Text("items.0.id")
}

// body returns a valid body for the operation, the same at each call, or nil if the operation has none.
func (f *fixture) body(t *testing.T, op *operation) map[string]any {
	t.Helper()
	if f.bodies[op] == nil && op.example != nil {
		f.bodies[op] = f.newBody(t, op, op.example)
	}
	return f.bodies[op]
}

// newBody returns an example of the operation's body with new values for what the example cannot know: ids of
// resources, which it creates, e-mail addresses, passwords and refresh tokens.
func (f *fixture) newBody(t *testing.T, op *operation, example map[string]any) map[string]any {
	t.Helper()
	body := clone(example)
	for _, name := range referenceFields(op, example) {
		collection, id := f.collectionOf(t, op, name), ""
		if list, _, ok := strings.Cut(name, "[0].id"); ok && changesEnd(op.Path()) {
			id = f.admin.Get(t, strings.TrimSuffix(f.path(t, op.Path()), "/correct")).Want(200).Text(list + ".0.id")
		} else if hasParent := strings.Contains(collection, "{"); hasParent {
			id = idOf(f.path(t, collection+"/{id}"))
		} else {
			id = f.create(t, collection, collection)
		}
		body = withReference(body, name, id)
	}
	for _, name := range slices.Sorted(maps.Keys(body)) {
		switch {
		case name == "email" && op.creates:
			body[name] = value.NewID() + "@test.example" // addresses are unique across tenants
		case name == "reference" && op.creates:
			body[name] = value.NewID() // unique
		case name == "color" && op.Pattern == "POST /api/v1/stock-levels":
			body[name] = value.NewID() // the combination is unique
		case name == "key" && op.creates:
			body[name] = strings.ReplaceAll(value.NewID(), "-", "_") // unique
		case name == "name" && (strings.HasPrefix(op.Path(), "/api/v1/vendors") ||
			strings.HasPrefix(op.Path(), "/api/v1/printers") || strings.HasPrefix(op.Path(), "/api/v1/shops")):
			body[name] = value.NewID() // unique
		case name == "create": // of a plan, which needs a printer
			f.create(t, "/api/v1/printers", "/api/v1/printers")
			body[name] = true
		case name == "email":
			body[name] = f.admin.Email
		case name == "password", name == "current_password":
			body[name] = testkit.Password
		case name == "token":
			user := f.create(t, "/api/v1/users", "/api/v1/users")
			body[name] = f.admin.Post(t, "/api/v1/users/"+user+"/password-link", nil).Want(200).Text("token")
		case name == "refresh_token":
			login := testkit.JSON{"email": f.admin.Email, "password": testkit.Password}
			body[name] = f.admin.Post(t, "/api/v1/auth/login", login).Want(200).Text("refresh_token")
		}
	}
	return body
}

// do sends the request of an operation: without a body if the operation has none, and with the example if it is a
// file.
func (f *fixture) do(t *testing.T, c *testkit.Client, op *operation, path string, body any) *testkit.Response {
	t.Helper()
	c, body = op.request(c, body)
	return c.Do(t, op.Method(), path, body)
}

// request returns the client and the body for do.
func (op *operation) request(c *testkit.Client, body any) (*testkit.Client, any) {
	switch {
	case op.media != "":
		return c.With("Content-Type", op.media), op.file
	case op.example == nil:
		return c, nil
	}
	return c, body
}

// snapshot returns the response of every GET, by path. It leaves out the audit log, to which snapshot itself adds
// entries with its exports, and a failed sign-in adds one after the response; TestAuditLog checks all entries, and
// that no other farm sees them.
func (f *fixture) snapshot(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, op := range f.operations {
		// A file with a name has the time of the request.
		if op.Method() == "GET" && op.Endpoint.File == "" && op.Path() != auditPath {
			path := f.path(t, op.Path())
			if slices.Contains(op.query, "from") {
				path += f.period
			}
			all[path] = string(f.admin.Get(t, path).Want(200).Body)
		}
	}
	return all
}

// wantUnchanged fails the test if a response differs from the snapshot.
func (f *fixture) wantUnchanged(t *testing.T, before map[string]string) {
	t.Helper()
	after := f.snapshot(t)
	for path, old := range before {
		now := after[path]
		if now == old {
			continue
		}
		at := 0
		for at < min(len(old), len(now)) && old[at] == now[at] {
			at++
		}
		at = max(at-100, 0)
		t.Errorf("GET %s has changed:\nbefore: ...%.300s\nafter:  ...%.300s", path, old[at:], now[min(at, len(now)):])
	}
}

// wantSameResponse fails the test if the responses differ in more than the time, the request id and the rate limit.
func wantSameResponse(t *testing.T, want, got *testkit.Response) {
	t.Helper()
	for _, a := range []*testkit.Response{want, got} {
		for _, name := range []string{"Date", "X-Request-Id", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"} {
			a.Header.Del(name)
		}
	}
	same := want.Status == got.Status && bytes.Equal(want.Body, got.Body)
	if !same || !maps.EqualFunc(want.Header, got.Header, slices.Equal) {
		t.Errorf("the responses differ:\n%s: %d %v %s\n%s: %d %v %s",
			want.What, want.Status, want.Header, want.Body, got.What, got.Status, got.Header, got.Body)
	}
}

// onePixel is a PNG file.
var onePixel = sync.OnceValue(func() string {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewNRGBA(image.Rect(0, 0, 1, 1))); err != nil {
		panic(err)
	}
	return b.String()
})
