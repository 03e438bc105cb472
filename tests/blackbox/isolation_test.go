package blackbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"spoolwright/db"
	"spoolwright/db/dial"
	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/tests/testkit/seed"
	"spoolwright/value"
)

// TestIsolation sends random requests of 50 tenants, concurrently, to every route. Each tenant writes its marker into
// every text field. No response body, header or log line may contain the marker of another tenant or an id of its
// resources, and the response to a request with another tenant's id must equal, byte by byte, the response for an id
// that does not exist.
func TestIsolation(t *testing.T) {
	t.Parallel()
	requests := testkit.InCI(testkit.InRigs(600, 2_000), 10_000)
	if *testkit.Long {
		requests = 1_000_000
	}
	runIsolation(t, testkit.Open(t), 50, requests)
}

// runIsolation is TestIsolation with a given pool and given numbers.
func runIsolation(t *testing.T, d *db.DB, tenants, requests int) {
	t.Helper()
	seed, begin := seed.New(t), time.Now()
	checker := &leakChecker{t: t}
	log := slog.New(slog.NewTextHandler(checker, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w := newTestAPI(t, testkit.Options{
		DB: d, PerMinute: 1_000_000_000, PerHour: 1_000_000_000, Change: func(c *server.Config) { c.Log = log },
	})
	var routes []*operation
	for _, op := range w.operations {
		changesSession := strings.HasPrefix(op.Path(), "/api/v1/auth/") && op.Path() != "/api/v1/auth/me"
		if isProtected(op) && op.Access <= server.Write && !changesSession {
			routes = append(routes, op)
		}
	}
	for i := range tenants {
		tenant := &isolationTenant{
			testAPI: w, checker: checker, n: i, routes: routes, Rand: rand.New(rand.NewPCG(seed, uint64(i))),
			own: map[string][]resource{}, counts: map[string]int{},
		}
		tenant.client = w.api.Tenant(t).User(t, "operator")
		checker.ids.Store(tenant.client.Actor.Tenant, i)
		checker.ids.Store(tenant.client.Actor.User, i)
		checker.tenants = append(checker.tenants, tenant)
	}
	// Each worker serves a part of the tenants in turn, so a tenant does not send two requests at once.
	const workers = 10
	testkit.Concurrently(workers, func(worker int) {
		for i := worker; i < requests && !t.Failed(); i += workers {
			tenant := checker.tenants[i%tenants]
			tenant.act(routes[tenant.IntN(len(routes))])
		}
	})

	outcomes := func(id string) (succeeded, notFound bool) {
		for _, tenant := range checker.tenants {
			succeeded = succeeded || tenant.counts[id+" 200"]+tenant.counts[id+" 201"]+tenant.counts[id+" 204"] > 0
			notFound = notFound || tenant.counts[id+" 404"] > 0
		}
		return succeeded, notFound
	}
	for _, op := range routes {
		if requests < 10_000 {
			break
		}
		// Some operations seldom succeed or seldom meet a foreign id. Further requests make sure of both outcomes: so
		// many that only an operation without one of them fails.
		succeeded, notFound := outcomes(op.Doc.ID)
		for more := 0; more < 20_000 && !(succeeded && (notFound || !hasID(op))); more++ {
			checker.tenants[more%tenants].act(op)
			succeeded, notFound = outcomes(op.Doc.ID)
		}
		if !succeeded || hasID(op) && !notFound {
			t.Errorf("%s: succeeded: %v, not found: %v, want both at least once", op.Doc.ID, succeeded, notFound)
		}
	}
	counts := map[string]int{} // by operation and status
	pairs := 0
	for _, tenant := range checker.tenants {
		pairs += tenant.pairs
		for outcome, n := range tenant.counts {
			counts[outcome] += n
		}
	}
	markers, ids, lines := checker.markersSeen.Load(), checker.idsSeen.Load(), checker.logLines.Load()
	t.Logf("%d requests of %d tenants in %v; compared %d responses for foreign and missing ids; "+
		"found %d own markers and %d own ids in responses, read %d log lines",
		requests, tenants, time.Since(begin).Round(time.Second), pairs, markers, ids, lines)
	if markers == 0 || ids == 0 || lines == 0 || pairs == 0 {
		t.Error("one of these numbers is 0, so the test has not checked everything")
	}
	for _, outcome := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%7d %s", counts[outcome], outcome)
	}
}

// leakChecker knows which tenant owns each id, and finds ids and markers of other tenants in responses and log lines.
// It is the writer of the service's log.
type leakChecker struct {
	t                              *testing.T
	tenants                        []*isolationTenant
	ids                            sync.Map // id -> number of the tenant
	markersSeen, idsSeen, logLines atomic.Int64
}

const marker = "canary" // followed by the tenant's number in four digits

var uuidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// check fails the test if the text, found in what, contains a marker or an id of another tenant.
func (m *leakChecker) check(what string, tenant int, text []byte) {
	for rest := text; ; {
		at := bytes.Index(rest, []byte(marker))
		if at < 0 {
			break
		}
		rest = rest[at+len(marker):]
		if n, err := strconv.Atoi(string(rest[:min(4, len(rest))])); err != nil || n != tenant {
			m.t.Errorf("tenant %d, %s: contains the marker of another tenant: %s", tenant, what, text)
		}
		m.markersSeen.Add(1)
	}
	for _, id := range uuidPattern.FindAll(text, -1) {
		if owner, ok := m.ids.Load(string(id)); ok {
			if m.idsSeen.Add(1); owner != tenant {
				m.t.Errorf("tenant %d, %s: contains the id %s of tenant %v: %s", tenant, what, id, owner, text)
			}
		}
	}
}

var loggedTenant = regexp.MustCompile(` tenant=(\S+)`)

// Write checks a log line: it must name its tenant, contain no text of any tenant, and not be an error.
func (m *leakChecker) Write(line []byte) (int, error) {
	m.logLines.Add(1)
	tenant := -1
	if found := loggedTenant.FindSubmatch(line); found != nil {
		if n, ok := m.ids.Load(string(found[1])); ok {
			tenant = n.(int)
		}
	}
	m.check("log", tenant, line)
	if bytes.Contains(line, []byte(marker)) || tenant < 0 || bytes.Contains(line, []byte("level=ERROR")) {
		m.t.Errorf("a log line contains a marker, lacks the tenant, or is an error: %s", line)
	}
	return len(line), nil
}

type resource struct{ path, id string }

// isolationTenant is a tenant. One worker calls its methods, except pick, which workers of other tenants call too.
type isolationTenant struct {
	*testAPI
	*rand.Rand
	checker *leakChecker
	n       int // the tenant's number
	routes  []*operation
	client  *testkit.Client
	texts   int            // number of texts written
	keys    int            // number of requests with an Idempotency-Key
	pairs   int            // number of calls of compare
	counts  map[string]int // responses by operation and status

	mu  sync.Mutex
	own map[string][]resource // by path pattern, such as /api/v1/spools/{id}
}

// pick returns a random resource of the tenant with the path pattern, chosen with r.
func (i *isolationTenant) pick(pattern string, r *rand.Rand) (resource, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := i.own[pattern]
	if len(all) == 0 {
		return resource{}, false
	}
	return all[r.IntN(len(all))], true
}

// text returns a new text with the tenant's marker.
func (i *isolationTenant) text() string {
	i.texts++
	return fmt.Sprintf("%s%04d text %d", marker, i.n, i.texts)
}

// target returns the resource of the tenant that op needs, its path pattern, and the rest of the path after the
// pattern. It returns false if the tenant has no such resource.
func (i *isolationTenant) target(op *operation) (r resource, pattern, rest string, ok bool) {
	path := strings.Replace(op.Path(), "{number}", strconv.Itoa(1+i.IntN(5)), 1) // tenants have the same numbers
	at := strings.LastIndexByte(path, '}') + 1
	if at == 0 {
		return resource{path: path}, "", "", true
	}
	pattern, rest = path[:at], path[at:]
	r, ok = i.pick(pattern, i.Rand)
	return r, pattern, rest, ok
}

// act sends a random request of the operation, or of one that creates what it needs. Some requests use an id of
// another tenant.
func (i *isolationTenant) act(op *operation) {
	target, pattern, rest, ok := i.target(op)
	for !ok { // create a resource of the kind that op needs, or first its parent
		if pattern == entryPattern {
			target = i.usageEntry()
			break
		}
		if pattern == pieceEntryPattern {
			target = i.pieceEntry()
			break
		}
		if pattern == linePattern {
			target = i.orderLine()
			break
		}
		if pattern == assignmentPattern {
			target = i.assignment()
			break
		}
		if pattern == importPattern {
			target = i.pastImport()
			break
		}
		if op = i.createOperation(pattern[:strings.LastIndexByte(pattern, '/')]); op == nil {
			i.checker.t.Errorf("no operation creates %s", pattern)
			return
		}
		target, pattern, rest, ok = i.target(op)
	}
	if i.IntN(2) == 0 { // of a resource that the operation changes; few random ones are like that
		switch op.Doc.ID {
		case "replanProductionRun":
			target = i.plannableRun()
		case "correctProductionRun", "reopenProductionRun":
			target = i.endedRun()
		case "reverseSpoolUsage", "moveSpoolUsage":
			target = i.usageEntry()
		case "getProductPicture", "deleteProductPicture":
			target = i.picturedProduct()
		case "assemblePieces", "disassemblePieces":
			target = i.stockedKit()
		}
	}
	body := i.randomBody(op, target)
	if op.Doc.ID == "answerPrinterQuestion" && i.IntN(2) == 0 {
		target, body["job"] = i.askedPrinter(), "1"
	}
	if other := i.checker.tenants[i.IntN(len(i.checker.tenants))]; other != i && i.IntN(4) == 0 {
		if pattern != "" {
			if foreign, ok := other.pick(pattern, i.Rand); ok {
				missing := uuidPattern.ReplaceAllStringFunc(foreign.path, func(string) string { return value.NewID() })
				i.compare(op, foreign.path+rest, missing+rest, body, body)
				return
			} else if pattern == assignmentPattern { // few tenants have one
				i.send(op, uuidPattern.ReplaceAllString(target.path, value.NewID())+rest, body)
				return
			}
		}
		for _, name := range referenceFields(op, body) {
			if resource, ok := other.pick(i.references(op, name), i.Rand); ok {
				foreign, missing := withReference(body, name, resource.id), withReference(body, name, value.NewID())
				i.compare(op, target.path+rest, target.path+rest, foreign, missing)
				return
			}
		}
	}
	path := target.path + rest
	if op.Doc.ID == "listProductCosts" { // of the tenant's products and of others'
		path += "?ids=" + i.productIDs()
	} else if op.Method() == "GET" && op.query != nil && rest == "" && pattern == "" {
		path += i.query()
	}
	a := i.send(op, path, body)
	switch a.Code {
	case 201:
		i.recordCreated(op, a)
	case 204:
		i.recordDeleted(pattern, target)
	}
}

// create creates a resource in a collection.
func (i *isolationTenant) create(collection string, body map[string]any) resource {
	op := i.createOperation(collection)
	a := i.send(op, collection, body)
	i.recordCreated(op, a)
	var created struct{ ID string }
	if err := json.Unmarshal(a.Body.Bytes(), &created); err != nil {
		i.checker.t.Error(err)
	}
	return resource{a.Header().Get("Location"), created.ID}
}

// plannableRun creates a run that can be planned again: of a product that every printer prints.
func (i *isolationTenant) plannableRun() resource {
	i.create("/api/v1/printers", map[string]any{"name": i.text()})
	product := i.create("/api/v1/products", map[string]any{"name": i.text()})
	return i.create("/api/v1/production-runs",
		map[string]any{"items": []any{map[string]any{"product_id": product.id}}})
}

// picturedProduct creates a product with a picture.
func (i *isolationTenant) picturedProduct() resource {
	product := i.create("/api/v1/products", map[string]any{"name": i.text()})
	i.send(i.operation("setProductPicture"), product.path+"/picture", nil)
	return product
}

// stockedKit creates a kit of one part. Pieces of both are in stock.
func (i *isolationTenant) stockedKit() resource {
	part := i.create("/api/v1/products", map[string]any{"name": i.text()})
	kit := i.create("/api/v1/products", map[string]any{
		"name": i.text(), "components": []any{map[string]any{"component_product_id": part.id}}})
	for _, product := range []resource{part, kit} {
		i.send(i.operation("countPieces"), product.path+"/count", map[string]any{"counted": 100})
	}
	return kit
}

// askedPrinter creates a printer that prints the job "1" while another run is in progress on it: a person is asked.
func (i *isolationTenant) askedPrinter() resource {
	printer := i.create("/api/v1/printers", map[string]any{"name": i.text()})
	i.create("/api/v1/production-runs", map[string]any{"printer_id": printer.id, "status": "in_progress"})
	i.send(i.operation("createPrinterStates"), "/api/v1/printer-states", map[string]any{"states": []any{map[string]any{
		"printer_id": printer.id, "sequence": 1, "state": "printing", "job": map[string]any{"id": "1"}}}})
	return printer
}

// newSpool creates a spool with the example's properties.
func (i *isolationTenant) newSpool() resource {
	op := i.createOperation("/api/v1/spools")
	return i.create("/api/v1/spools", i.randomBody(op, resource{}))
}

// endedRun creates a run with one material and completes it.
func (i *isolationTenant) endedRun() resource {
	run := i.create("/api/v1/production-runs", map[string]any{
		"materials": []any{map[string]any{"spool_id": i.newSpool().id, "actual_weight_grams": 1}}})
	i.send(i.operation("completeProductionRun"), run.path+"/complete", nil)
	return run
}

// entryPattern is the path pattern of an entry of the usage ledger, which has no POST and no GET of its own.
const entryPattern = "/api/v1/spools/{id}/usage/{entry_id}"

// usageEntry deducts from a new spool and returns the entry.
func (i *isolationTenant) usageEntry() resource {
	spool := i.newSpool()
	i.send(i.operation("deductSpool"), spool.path+"/deduct", map[string]any{"weight_grams": 1, "allow_shortfall": true})
	a := i.send(i.operation("listSpoolUsage"), spool.path+"/usage", nil)
	var list struct{ Items []struct{ ID string } }
	if err := json.Unmarshal(a.Body.Bytes(), &list); err != nil || len(list.Items) == 0 {
		i.checker.t.Errorf("no entry: %v %s", err, a.Body)
		return resource{}
	}
	return i.keep(entryPattern, resource{spool.path + "/usage/" + list.Items[0].ID, list.Items[0].ID})
}

// pieceEntryPattern is the path pattern of an entry of the ledger of pieces, which has no POST of its own.
const pieceEntryPattern = "/api/v1/piece-entries/{id}"

// pieceEntry creates an entry of the ledger of pieces.
func (i *isolationTenant) pieceEntry() resource {
	product := i.create("/api/v1/products", map[string]any{"name": i.text()})
	a := i.send(i.operation("countPieces"), product.path+"/count", map[string]any{"counted": 3, "reason": i.text()})
	var entry struct{ ID string }
	if err := json.Unmarshal(a.Body.Bytes(), &entry); err != nil || entry.ID == "" {
		i.checker.t.Errorf("no entry: %v %s", err, a.Body)
		return resource{}
	}
	return i.keep(pieceEntryPattern, resource{"/api/v1/piece-entries/" + entry.ID, entry.ID})
}

// keep remembers a resource that has no POST of its own, for the requests of other tenants.
func (i *isolationTenant) keep(pattern string, r resource) resource {
	i.checker.ids.LoadOrStore(r.id, i.n)
	i.mu.Lock()
	defer i.mu.Unlock()
	if all := i.own[pattern]; len(all) < 20 {
		i.own[pattern] = append(all, r)
	} else {
		all[i.IntN(len(all))] = r
	}
	return r
}

// The path patterns of a line of an order without a product, and of an assignment of such lines.
const (
	linePattern       = "/api/v1/orders/{id}/lines/{line_id}"
	assignmentPattern = "/api/v1/order-assignments/{id}"
	importPattern     = "/api/v1/imports/{id}"
)

// orderLine creates an order with a line that has no product, and returns the line.
func (i *isolationTenant) orderLine() resource {
	order := i.create("/api/v1/orders", map[string]any{"unassigned_lines": []any{map[string]any{"title": i.text()}}})
	a := i.send(i.operation("getOrder"), order.path, nil)
	var shown struct {
		Lines []struct{ ID string } `json:"unassigned_lines"`
	}
	if err := json.Unmarshal(a.Body.Bytes(), &shown); err != nil || len(shown.Lines) == 0 {
		i.checker.t.Errorf("no line: %v %s", err, a.Body)
		return resource{}
	}
	return i.keep(linePattern, resource{order.path + "/lines/" + shown.Lines[0].ID, shown.Lines[0].ID})
}

// assignment assigns a line and returns the assignment.
func (i *isolationTenant) assignment() resource {
	i.send(i.operation("assignOrderLine"), i.orderLine().path+"/assign", map[string]any{"ignore": true})
	a := i.send(i.operation("listOrderAssignments"), "/api/v1/order-assignments", nil)
	var list struct{ Items []struct{ ID string } }
	if err := json.Unmarshal(a.Body.Bytes(), &list); err != nil || len(list.Items) == 0 {
		i.checker.t.Errorf("no assignment: %v %s", err, a.Body)
		return resource{}
	}
	return i.keep(assignmentPattern, resource{"/api/v1/order-assignments/" + list.Items[0].ID, list.Items[0].ID})
}

// pastImport imports spools and returns the import.
func (i *isolationTenant) pastImport() resource {
	a := i.send(i.operation("importSpools"), "/api/v1/spools/import", nil)
	var done struct {
		ID string `json:"import_id"`
	}
	if err := json.Unmarshal(a.Body.Bytes(), &done); err != nil || done.ID == "" {
		i.checker.t.Errorf("no import: %v %s", err, a.Body)
		return resource{}
	}
	return i.keep(importPattern, resource{"/api/v1/imports/" + done.ID, done.ID})
}

// operation returns the operation with the id.
func (i *isolationTenant) operation(id string) *operation {
	return i.operations[slices.IndexFunc(i.operations, func(op *operation) bool { return op.Doc.ID == id })]
}

// query returns random query parameters for a list, or none.
func (i *isolationTenant) query() string {
	other := i.checker.tenants[i.IntN(len(i.checker.tenants))]
	switch i.IntN(5) {
	case 0:
		return "?limit=100&sort_by=id"
	case 1: // filters with another tenant's marker, which the response must not repeat
		v := url.Values{}
		for _, name := range []string{"search", "category", "brand", "color", "printer_name"} {
			v.Set(name, fmt.Sprintf("%s%04d", marker, other.n))
		}
		return "?" + v.Encode()
	case 2:
		return fmt.Sprintf("?search=%s%04d&limit=100", marker, i.n)
	case 3:
		return fmt.Sprint("?limit=7&skip=", i.IntN(20))
	}
	return ""
}

// productIDs returns ids of products of several tenants, separated by commas.
func (i *isolationTenant) productIDs() string {
	ids := []string{value.NewID()}
	for _, tenant := range slices.Concat(i.checker.tenants, []*isolationTenant{i}) {
		if product, ok := tenant.pick("/api/v1/products/{id}", i.Rand); ok {
			ids = append(ids, product.id)
		}
	}
	return strings.Join(ids[max(0, len(ids)-value.MaxQueried):], ",")
}

// references returns the path pattern of the resources that a field refers to.
func (i *isolationTenant) references(op *operation, name string) string {
	collection := i.collectionOf(i.checker.t, op, name)
	for _, other := range i.routes {
		p := other.Path()
		if strings.HasPrefix(p, collection+"/{") && strings.Count(p, "/") == strings.Count(collection, "/")+1 {
			return p
		}
	}
	return ""
}

// randomBody returns the example of the operation with a marker in every text, ids of the tenant's resources, and
// random weights. If the tenant has no resource for an entry of a list, the body lacks the list.
func (i *isolationTenant) randomBody(op *operation, target resource) map[string]any {
	if op.example == nil {
		return nil
	}
	body := clone(op.example)
	for _, name := range referenceFields(op, body) {
		r, ok := i.pick(i.references(op, name), i.Rand)
		list, entryField, nested := strings.Cut(name, "[0].")
		if belongs := entryField != "id" || strings.HasPrefix(r.path, target.path+"/"); ok && belongs {
			body = withReference(body, name, r.id)
		} else if nested {
			delete(body, list)
		}
	}
	i.randomize(body, op.fields)
	for list, schema := range op.entries {
		if entries, ok := body[list].([]any); ok && len(entries) > 0 {
			if entry, ok := entries[0].(map[string]any); ok { // not a text
				i.randomize(entry, schema)
			}
		}
	}
	return body
}

// randomize replaces texts, weights and statuses in an object of a body.
func (i *isolationTenant) randomize(body map[string]any, schema map[string]field) {
	for _, name := range slices.Sorted(maps.Keys(body)) {
		f := schema[name]
		_, isText := body[name].(string)
		switch {
		case f.Format == "uuid":
		case name == "currency":
		case name == "key": // of a custom field
			body[name] = strings.ReplaceAll(i.text(), " ", "_")
		case isText && f.isFreeText():
			body[name] = i.text()
		case strings.HasSuffix(name, "_grams") && body[name] != nil:
			body[name] = 1 + i.IntN(1000)
		case name == "status" && body[name] == "received": // of an order
			body[name] = []string{"received", "in_production", "done"}[i.IntN(3)]
		case name == "status" && body[name] == "available": // of a printer
			body[name] = []string{"available", "maintenance"}[i.IntN(2)]
		case name == "status":
			body[name] = []string{"pending", "paused"}[i.IntN(2)]
		}
	}
	if before, ok := body["spool_weight_before_grams"].(int); ok {
		body["spool_weight_after_grams"] = max(before-i.IntN(3), 0)
	}
}

// send sends a request and checks the response for data of other tenants.
func (i *isolationTenant) send(op *operation, path string, body map[string]any) *httptest.ResponseRecorder {
	c := i.client
	if op.Method() == "POST" && i.IntN(4) == 0 {
		i.keys++
		c = c.With("Idempotency-Key", fmt.Sprint("key ", i.keys)) // other tenants use the same keys
	}
	a := callOperation(c, op, path, body)
	i.counts[fmt.Sprint(op.Doc.ID, " ", a.Code)]++
	what := op.Method() + " " + path
	if a.Code >= 500 || a.Code == 401 || a.Code == 403 {
		i.checker.t.Errorf("tenant %d: %s: %d %s", i.n, what, a.Code, a.Body)
	}
	i.checker.check(what, i.n, a.Body.Bytes())
	for name, values := range a.Header() {
		for _, v := range values {
			i.checker.check(what+" "+name, i.n, []byte(v))
		}
	}
	return a
}

// callOperation calls the handler, without a body if the operation has none.
func callOperation(c *testkit.Client, op *operation, path string, body map[string]any) *httptest.ResponseRecorder {
	c, sent := op.request(c, body)
	return callHandler(c, op.Method(), path, sent)
}

// compare sends a request with ids of another tenant and the same request with ids that do not exist. Both must get
// the same error.
func (i *isolationTenant) compare(op *operation, foreign, missing string, foreignBody, missingBody map[string]any) {
	i.pairs++
	got, want := callOperation(i.client, op, foreign, foreignBody), callOperation(i.client, op, missing, missingBody)
	i.counts[fmt.Sprint(op.Doc.ID, " ", got.Code)]++
	for _, a := range []*httptest.ResponseRecorder{got, want} {
		for _, name := range []string{"X-Request-Id", "RateLimit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			delete(a.Header(), name)
		}
	}
	// The error need not be about the id: a completed or deleted run of the tenant itself is reported first.
	same := got.Code == want.Code && bytes.Equal(got.Body.Bytes(), want.Body.Bytes())
	sameHeaders := maps.EqualFunc(got.Header(), want.Header(), slices.Equal)
	if op.Doc.ID == "createPrinterStates" { // the results name the printers, which are refused
		a, b := uuidPattern.ReplaceAll(got.Body.Bytes(), nil), uuidPattern.ReplaceAll(want.Body.Bytes(), nil)
		if got.Code == 200 && want.Code == 200 && bytes.Equal(a, b) && bytes.Contains(a, []byte(`"refused"`)) {
			return
		}
	}
	if !same || !sameHeaders || got.Code < 400 || got.Code >= 500 {
		i.checker.t.Errorf("tenant %d: %s %s: foreign: %d %v %s\nmissing: %d %v %s", i.n, op.Method(), foreign,
			got.Code, got.Header(), got.Body, want.Code, want.Header(), want.Body)
	}
}

// recordCreated remembers the resource that the response describes. It remembers at most 20 resources of a kind;
// others remain in the database and in lists.
func (i *isolationTenant) recordCreated(op *operation, a *httptest.ResponseRecorder) {
	var created struct {
		ID                           string
		Items, Materials, Components []listEntry
	}
	collection, isBatch := strings.CutSuffix(op.Path(), "/batch")
	if op.Doc.ID == "addFilamentSpools" {
		collection, isBatch = "/api/v1/spools", true
	}
	if op.Doc.ID == "addProductVariants" {
		collection, isBatch = "/api/v1/products", true
	}
	if err := json.Unmarshal(a.Body.Bytes(), &created); err != nil || created.ID == "" && !isBatch {
		i.checker.t.Errorf("%s: the response has no id: %s", op.Doc.ID, a.Body)
	}
	for _, id := range uuidPattern.FindAllString(a.Body.String(), -1) { // with those of nested lists
		i.checker.ids.LoadOrStore(id, i.n)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if isBatch {
		for _, item := range created.Items {
			i.remember(collection, resource{collection + "/" + item.ID, item.ID})
		}
		return
	}
	location := a.Header().Get("Location")
	i.remember(op.Path(), resource{location, created.ID})
	for list, entries := range map[string][]listEntry{
		"items": created.Items, "materials": created.Materials, "components": created.Components,
	} {
		for _, entry := range entries {
			if entry.ID == "" {
				continue
			}
			i.remember(op.Path()+"/{id}/"+list, resource{location + "/" + list + "/" + entry.ID, entry.ID})
		}
	}
}

// remember adds a resource of the collection to i.own. The caller holds i.mu.
func (i *isolationTenant) remember(collection string, r resource) {
	pattern := ""
	for _, other := range i.routes {
		p := other.Path()
		child := strings.HasPrefix(p, collection+"/{") && strings.HasSuffix(p, "}")
		if child && len(pathParts(p)) == len(pathParts(collection))+1 {
			pattern = p
		}
	}
	if all := i.own[pattern]; len(all) < 20 {
		i.own[pattern] = append(all, r)
	} else {
		all[i.IntN(len(all))] = r
	}
}

func (i *isolationTenant) recordDeleted(pattern string, r resource) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.own[pattern] = slices.DeleteFunc(i.own[pattern], func(o resource) bool { return o == r })
}

// TestPgBouncer runs every operation, TestModel and TestIsolation through a PgBouncer in transaction mode, which
// assigns a server connection for each transaction.
func TestPgBouncer(t *testing.T) {
	testkit.Rig(t)
	t.Parallel()
	bouncer := startPgBouncer(t)
	modes := []string{"cache_describe", "exec"} // those that docs/database.md names
	if *testkit.Long {
		modes = append(modes, "describe_exec", "simple_protocol")
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			d, err := db.Open(t.Context(), db.Config{URL: bouncer + "&default_query_exec_mode=" + mode, MaxConns: 12})
			check(t, err)
			defer d.Close()
			w := newTestAPI(t, testkit.Options{DB: d, PerMinute: 1_000_000, PerHour: 10_000_000})
			common := w.newFullFixture(t)
			for _, op := range w.operations {
				f := common
				path := op.Path()
				if op.Method() == "DELETE" || endsRun(path) || strings.HasSuffix(path, "/logout") ||
					strings.Contains(path, "/usage/{entry_id}/") || strings.Contains(path, "/otp") {
					f = w.newFixture(t) // other operations would fail after these
				}
				body := f.body(t, op)
				setUpCode(t, f.admin, op, body)
				if a := f.do(t, f.admin, op, f.path(t, path), body); a.Status >= 300 {
					t.Errorf("%s: %d %s", a.What, a.Status, a.Body)
				}
			}
			// Each is a test of its own: runIsolation stops at a failure, which would hide that only the model failed.
			t.Run("model", func(t *testing.T) { runModel(t, w, 2, 3, 1, 150) })
			t.Run("isolation", func(t *testing.T) { runIsolation(t, d, 10, 600) })

			// The server connections of the pooler keep no setting.
			conn, err := pgx.Connect(t.Context(), bouncer+"&default_query_exec_mode="+mode)
			check(t, err)
			defer conn.Close(t.Context())
			for range 20 {
				var settings string
				check(t, conn.QueryRow(t.Context(), `select concat_ws(' ', current_user = session_user,
					current_setting('statement_timeout'), current_setting('search_path'))
					from pg_sleep(0.001)`).Scan(&settings))
				if settings != `t 0 "$user", public` {
					t.Fatalf("a server connection of the pooler has the settings %s", settings)
				}
			}
		})
	}
	t.Run("without a mode", func(t *testing.T) {
		if d, err := db.Open(t.Context(), db.Config{URL: bouncer}); !errors.Is(err, dial.ErrPooler) {
			t.Errorf("Open: %v, want ErrPooler", err)
			if err == nil {
				d.Close()
			}
		}
		if _, err := db.Migrate(t.Context(), bouncer, "", nil); !errors.Is(err, dial.ErrPooler) {
			t.Errorf("Migrate: %v, want ErrPooler", err)
		}
	})
	// docs/database.md forbids cache_statement, because a statement prepared on one server connection does not exist
	// on the connection of the next transaction. This test fails if a PgBouncer supports it.
	t.Run("cache_statement", func(t *testing.T) {
		version, err := exec.Command(bouncerBinary, "--version").Output()
		if err != nil || !strings.Contains(string(version), " 1.18.") {
			t.Skipf("needs PgBouncer 1.18, for which docs/database.md is written; installed is %s", version)
		}
		pool, err := pgxpool.New(t.Context(), bouncer+"&default_query_exec_mode=cache_statement&pool_max_conns=12")
		check(t, err)
		defer pool.Close()
		var failed atomic.Int64
		testkit.Concurrently(12, func(int) {
			for range 20 {
				var n int
				if err := pool.QueryRow(t.Context(), `select $1::int from pg_sleep(0.001)`,
					1).Scan(&n); err != nil {
					failed.Add(1)
				}
			}
		})
		if failed.Load() == 0 {
			t.Error("prepared statements work through this PgBouncer; docs/database.md says that they do not")
		}
	})
}

const bouncerBinary = "pgbouncer"

// startPgBouncer starts a PgBouncer with three server connections to the PostgreSQL of the tests. It returns the URL
// of the service's login through it.
func startPgBouncer(t *testing.T) string {
	t.Helper()
	binary := needTools(t, bouncerBinary)[0]
	direct, err := url.Parse(testkit.Private().AppURL())
	check(t, err)
	dir := tempDir(t)
	login := direct.User.Username()
	password, _ := direct.User.Password()
	check(t, os.WriteFile(filepath.Join(dir, "users"), fmt.Appendf(nil, "%q %q\n", login, password), 0o644))
	check(t, os.WriteFile(filepath.Join(dir, "pgbouncer.ini"), fmt.Appendf(nil, `
[databases]
* = host=%s port=%s
[pgbouncer]
pool_mode = transaction
default_pool_size = 3
unix_socket_dir = %s
listen_port = 6432
auth_type = scram-sha-256
auth_file = %s/users
`, direct.Query().Get("host"), direct.Query().Get("port"), dir, dir), 0o644))
	c := exec.Command(binary, "pgbouncer.ini")
	c.Dir = dir
	var output testkit.Log
	c.Stdout, c.Stderr = &output, &output
	c.SysProcAttr = bouncerAttributes(t, dir)
	check(t, c.Start())
	exited := make(chan struct{})
	go func() { c.Wait(); close(exited) }()
	t.Cleanup(func() {
		c.Process.Signal(syscall.SIGINT)
		select {
		case <-exited:
		case <-time.After(waitTimeout):
			c.Process.Kill()
			<-exited
		}
		if t.Failed() {
			log := output.String()
			t.Logf("output of PgBouncer: ...%s", log[max(0, len(log)-3000):])
		}
	})
	eventually(t, "PgBouncer listens", func() bool {
		select {
		case <-exited:
			t.Fatalf("PgBouncer exited: %s", &output)
		default:
		}
		_, err := os.Stat(filepath.Join(dir, ".s.PGSQL.6432"))
		return err == nil
	})
	q := url.Values{"host": {dir}, "port": {"6432"}, "sslmode": {"disable"}}
	return fmt.Sprintf("postgres://%s:%s@%s?%s", login, password, direct.Path, q.Encode())
}

// bouncerAttributes returns the account for PgBouncer, which does not run as root: the account of PostgreSQL, because
// only that account may enter the directory of PostgreSQL's socket.
func bouncerAttributes(t *testing.T, dir string) *syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(account.Uid)
		gid, _ := strconv.Atoi(account.Gid)
		check(t, os.Chown(dir, uid, gid))
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	t.Fatal("neither the account postgres nor nobody exists")
	return nil
}

// listEntry is an entry of a list of a resource. It has no id if it is a text, as the materials of a printer are.
type listEntry struct{ ID string }

func (e *listEntry) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		return nil
	}
	type plain listEntry
	return json.Unmarshal(text, (*plain)(e))
}
