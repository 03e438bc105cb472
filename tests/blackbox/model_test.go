package blackbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"spoolwright/tests/testkit"
	"spoolwright/tests/testkit/seed"
)

// TestModel sends random requests of several users of several tenants concurrently. A model predicts the exact
// response for the spools, runs and products that only one user changes, and the possible responses for those that
// users of a tenant share. After each phase, while no requests are sent, all data that the API returns must follow
// from the responses so far. TestMoneyEqualsModel in package pieces has a model of costs.
func TestModel(t *testing.T) {
	t.Parallel()
	users, phases, operations := 4, 5, testkit.InCI(testkit.InRigs(12, 30), 250)
	if *testkit.Long {
		phases, operations = 20, 2500
	}
	runModel(t, newUnlimitedAPI(t), 4, users, phases, operations)
}

// runModel is TestModel with a given API and given numbers. Operations is the number of requests of a user in a
// phase.
func runModel(t *testing.T, w *testAPI, farms, users, phases, operations int) {
	t.Helper()
	seed := seed.New(t)
	var all []*modelTenant
	for i := range farms {
		f := &modelTenant{t: t, tenant: w.api.Tenant(t), api: w.api}
		for j := range users {
			n := i*users + j
			f.users = append(f.users, &modelUser{
				modelTenant: f, client: f.tenant.User(t, "operator"), n: n,
				Rand: rand.New(rand.NewPCG(seed, uint64(n))),
			})
		}
		all = append(all, f)
	}
	for _, f := range all {
		f.tenants = all
	}
	missing := func() []string { return nil }
	if farms*users*phases*operations >= 10_000 {
		missing = func() []string { return missingOutcomes(all) }
	}
	// An outcome is a matter of chance. Further phases, of which few or none are needed, make sure of all outcomes.
	for phase := 0; phase < phases || len(missing()) > 0 && phase < 20*phases; phase++ {
		var wait sync.WaitGroup
		for _, f := range all {
			for _, u := range f.users {
				wait.Go(func() {
					for range operations {
						u.act()
					}
				})
			}
		}
		wait.Wait()
		for _, f := range all {
			wait.Go(f.checkAll)
		}
		wait.Wait()
		if t.Failed() {
			break
		}
	}
	counts := map[string]int{}
	total, succeeded := 0, 0
	for _, f := range all {
		for _, u := range f.users {
			for outcome, n := range u.counts {
				counts[outcome] += n
				total += n
				if strings.HasSuffix(outcome, " ok") {
					succeeded += n
				}
			}
		}
	}
	t.Logf("%d requests: %d succeeded, %d got the error that the model expects", total, succeeded, total-succeeded)
	for _, outcome := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%7d %s", counts[outcome], outcome)
	}
	if left := missing(); len(left) > 0 && !t.Failed() {
		t.Errorf("the outcomes %q never occurred, so the test has not checked them", left)
	}
}

// missingOutcomes returns the outcomes that a test with many requests must have checked and that never occurred.
func missingOutcomes(all []*modelTenant) []string {
	left := []string{
		"deduct ok", "deduct INSUFFICIENT_FILAMENT", "deduct NOT_FOUND",
		"complete ok", "complete RUN_ALREADY_COMPLETED", "complete ACTUAL_USAGE_MISSING",
		"complete RUN_NOT_OPEN", "weigh RUN_ALREADY_COMPLETED",
		"add component COMPONENT_CYCLE",
		"delete product PRODUCT_IN_USE", "delete run ok", "delete spool ok",
		"restore run ok", "restore spool ok", "restore run NOT_FOUND",
		"fail ok", "cancel ok", "create order ok", "create order again ok",
		"create order again ORDER_CONFLICT", "delete order ok", "patch order ok", "edit order item ok",
		"delete order item ORDER_ITEM_IN_USE", "availability ok",
	}
	for _, f := range all {
		for _, u := range f.users {
			left = slices.DeleteFunc(left, func(outcome string) bool { return u.counts[outcome] > 0 })
		}
	}
	return left
}

// micro is a weight, price or cost in millionths, the precision of the service.
type micro int64

const one micro = 1_000_000

func (m micro) String() string {
	s := strings.TrimRight(fmt.Sprintf("%d.%06d", m/one, m%one), "0")
	return strings.TrimSuffix(s, ".")
}

func (m micro) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// object is a JSON object whose numbers are json.Number.
type object map[string]any

func (o object) text(name string) string { s, _ := o[name].(string); return s }

func (o object) list(name string) (items []object) {
	list, _ := o[name].([]any)
	for _, item := range list {
		m, _ := item.(map[string]any)
		items = append(items, m)
	}
	return items
}

// micro returns a number of at most six decimals, -1 for null, and -2 for any other value.
func (o object) micro(name string) micro {
	v, ok := o[name].(json.Number)
	if !ok {
		if _, there := o[name]; there && o[name] == nil {
			return -1
		}
		return -2
	}
	digits, negative := strings.CutPrefix(string(v), "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	if len(fraction) > 6 {
		return -2
	}
	n, err := strconv.ParseInt(whole+(fraction + "000000")[:6], 10, 64)
	if err != nil {
		return -2
	}
	if negative {
		n = -n
	}
	return micro(n)
}

func parseObject(b []byte) (o object, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return o, d.Decode(&o)
}

// deletion records that the DELETE of a resource was sent, and that its response was received. In between, concurrent
// requests may find the resource or not.
//
// restored is set before a request that restores the resource. From then on, users other than the owner cannot know
// whether it is deleted.
type deletion struct{ deleting, deleted, restored atomic.Bool }

// callHandler calls the handler directly, because random tests would spend most of their time in the network.
func callHandler(c *testkit.Client, method, path string, body any) *httptest.ResponseRecorder {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	switch text := body.(type) {
	case nil:
		b = nil
	case string:
		b = []byte(text)
	}
	r := httptest.NewRequest(method, path, bytes.NewReader(b))
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Authorization", "Bearer "+c.Token)
	for name, values := range c.Header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	c.API.Server.ServeHTTP(w, r)
	return w
}

// modelTenant is a tenant with its expected data.
type modelTenant struct {
	t       *testing.T
	tenant  *testkit.Tenant
	api     *testkit.API
	users   []*modelUser
	tenants []*modelTenant

	mu       sync.RWMutex
	spools   []*modelSpool
	runs     []*modelRun
	products []*modelProduct
	orders   []*modelOrder

	balanced map[string]micro // what stayed on a spool after a run, by the ids of the run and the spool; see checkLedger
}

type modelSpool struct {
	deletion
	id, material, color string
	owner               *modelUser // the only user who edits and deletes it
	shared              bool       // other users deduct from it
	initial             micro
	net, price          micro // price is -1 if unset
	weight              micro // remaining; during a phase only known if not shared
}

// effect is an acknowledged change of a spool's weight.
type effect struct {
	kind, user    string
	change, after micro
}

type modelRun struct {
	deletion
	id        string
	owner     *modelUser // the only user who edits and deletes it
	shared    bool       // other users complete it
	status    string
	ended     bool // by fail or cancel
	materials []*modelMaterial
	items     []*modelItem

	completeSent, completeOK atomic.Int64 // number of complete requests sent, and of successful ones
	mu                       sync.Mutex
	result                   []object // spools_updated of the successful response
}

type modelMaterial struct {
	id            string
	spool         *modelSpool
	before, after micro // -1 if unset
	sent          micro // actual_weight_grams of a request; -1 if unset
	estimated     micro // -1 if unset
}

// actual returns the grams to deduct, or -1 if they are unknown.
func (m *modelMaterial) actual() micro {
	if m.before >= 0 && m.after >= 0 {
		return m.before - m.after
	}
	return m.sent
}

type modelItem struct {
	id                       string
	product                  *modelProduct
	order                    *modelOrderItem // the item of an order that it prints, or nil
	quantity, success, fails int64           // -1 if unset
}

type modelProduct struct {
	deletion
	n          int // index in modelTenant.products
	id, name   string
	owner      *modelUser
	materials  map[string]object // request bodies, by id
	components []*modelComponent
}

type modelComponent struct {
	id       string
	product  *modelProduct
	quantity int64
}

// modelUser is a user. Its methods run in one goroutine.
type modelUser struct {
	*modelTenant
	*rand.Rand
	client   *testkit.Client
	n, ops   int
	spools   []*modelSpool
	runs     []*modelRun
	products []*modelProduct
	orders   []*modelOrder
	sent     object                            // the last body that created an order
	sentID   string                            // the id of that order
	effects  map[*modelSpool]map[string]effect // by the reason of a deduction, or the weight that an edit set
	counts   map[string]int                    // requests by kind and outcome
}

// statusOf has the HTTP status of every error code that may occur.
var statusOf = map[string]int{
	"NOT_FOUND": 404, "VALIDATION_ERROR": 422, "INSUFFICIENT_FILAMENT": 400, "ACTUAL_USAGE_MISSING": 400,
	"RUN_HAS_NO_MATERIALS": 400, "RUN_ALREADY_COMPLETED": 400, "COMPONENT_CYCLE": 400, "DUPLICATE_COMPONENT": 409,
	"PRODUCT_IN_USE": 400, "UNKNOWN_REFERENCE": 400, "RUN_NOT_OPEN": 400,
	"ORDER_ITEM_IN_USE": 409, "ORDER_CONFLICT": 409,
}

func (u *modelUser) errorf(format string, args ...any) {
	u.t.Errorf("user %d, operation %d: %s", u.n, u.ops, fmt.Sprintf(format, args...))
}

// call sends a request and counts its outcome: "ok" or the error code. It fails the test for an unexpected status.
func (u *modelUser) call(what, method, path string, body any) (outcome string, answer object) {
	a := callHandler(u.client, method, path, body)
	if a.Body.Len() > 0 {
		var err error
		if answer, err = parseObject(a.Body.Bytes()); err != nil {
			u.errorf("%s: %d %s: %v", what, a.Code, a.Body, err)
		}
	}
	outcome = "ok"
	if a.Code >= 300 {
		outcome = answer.text("code")
		if statusOf[outcome] != a.Code {
			u.errorf("%s: %s %s: %d %s", what, method, path, a.Code, a.Body)
		}
	}
	if u.counts == nil {
		u.counts = map[string]int{}
	}
	u.counts[what+" "+outcome]++
	return outcome, answer
}

// wantOutcome fails the test unless the outcome is one of the allowed ones.
func (u *modelUser) wantOutcome(what, outcome string, answer object, allowed ...string) {
	if !slices.Contains(allowed, outcome) {
		u.errorf("%s: %s (%v), want %s", what, outcome, answer, strings.Join(allowed, " or "))
	}
}

func (u *modelUser) chance(percent int) bool { return u.IntN(100) < percent }

func pick[T any](u *modelUser, from []T) (t T, ok bool) {
	if len(from) == 0 {
		return t, false
	}
	return from[u.IntN(len(from))], true
}

// amount returns a random amount between one millionth and most, usually less than a twentieth of most.
func (u *modelUser) amount(most micro) micro {
	switch u.IntN(6) {
	case 0:
		return 1 + micro(u.Int64N(int64(most))) // any digits
	case 1:
		return one * (1 + micro(u.Int64N(int64(most/one))))
	default:
		return 1 + micro(u.Int64N(int64(most/20)))
	}
}

// act sends one random request.
func (u *modelUser) act() {
	u.ops++
	switch n := u.IntN(100); {
	case n < 4 || len(u.spools) < 3:
		u.createSpool()
	case n < 22:
		u.deduct()
	case n < 28 && len(u.products) > 0:
		u.changeOrder()
	case n < 30:
		u.endRun()
	case n < 37:
		u.editSpool()
	case n < 38:
		u.deleteSpool()
	case n < 41 || len(u.runs) < 2:
		u.createRun()
	case n < 53:
		u.addMaterial()
	case n < 63:
		u.weighMaterial()
	case n < 65:
		u.deleteMaterial()
	case n < 76:
		u.complete()
	case n < 79:
		u.patchRun()
	case n < 80:
		u.deleteRun()
	case n < 84:
		u.changeItem()
	case n < 87 || len(u.products) < 2:
		u.createProduct()
	case n < 89:
		u.changeProductMaterial()
	case n < 94:
		u.changeComponent()
	case n < 95:
		u.deleteProduct()
	default:
		u.useForeignIDs()
	}
}

// anySpool returns a random spool that the user may deduct from. Rarely it is a deleted one.
func (u *modelUser) anySpool() *modelSpool {
	if u.chance(30) {
		return u.ownSpool()
	}
	u.mu.RLock()
	defer u.mu.RUnlock()
	for range 20 {
		if s, ok := pick(u, u.modelTenant.spools); ok && (s.shared || s.owner == u) &&
			(!s.deleted.Load() || u.chance(3)) {
			return s
		}
	}
	return u.spools[0]
}

// ownSpool returns a random spool of the user. Rarely it is a deleted one.
func (u *modelUser) ownSpool() *modelSpool {
	for range 20 {
		if s, _ := pick(u, u.spools); !s.deleted.Load() || u.chance(2) {
			return s
		}
	}
	return u.spools[0]
}

var (
	modelMaterials = []string{"PLA", "PETG", "Nylon"}
	modelColors    = []string{"Black", "Red", "Weiß"}
)

func (u *modelUser) createSpool() {
	live := 0
	for _, s := range u.spools {
		if !s.deleted.Load() {
			live++
		}
	}
	if live > 6 {
		u.deduct()
		return
	}
	material, _ := pick(u, modelMaterials)
	color, _ := pick(u, modelColors)
	s := &modelSpool{
		owner: u, shared: u.chance(60), material: material, color: color, net: u.amount(5000 * one), price: -1,
	}
	body := object{"material_type": material, "color": color, "diameter_mm": 1.75, "net_weight_grams": s.net}
	s.initial = s.net
	if u.chance(50) {
		s.initial = u.amount(10000 * one)
		body["remaining_weight_grams"] = s.initial
	}
	if u.chance(70) {
		s.price = u.amount(100 * one)
		body["purchase_price"] = s.price
	}
	s.weight = s.initial
	created, path := []*modelSpool{s}, "/api/v1/spools"
	if u.chance(20) { // several equal spools
		created = append(created, &modelSpool{})
		body["quantity"] = len(created)
		path += "/batch"
	}
	out, a := u.call("create spool", "POST", path, body)
	u.wantOutcome("create spool", out, a, "ok")
	responses := []object{a}
	if len(created) > 1 {
		if responses = a.list("items"); len(responses) != len(created) {
			u.errorf("create spool: %v, want %d spools", a, len(created))
			return
		}
	}
	for i, response := range responses {
		n := created[i]
		n.owner, n.shared, n.material, n.color = s.owner, s.shared, s.material, s.color
		n.initial, n.net, n.price, n.weight = s.initial, s.net, s.price, s.initial
		if n.id = response.text("id"); response.micro("remaining_weight_grams") != s.initial {
			u.errorf("create spool: %v, want the remaining weight %v", a, s.initial)
		}
		u.record(n, "created", effect{"created", u.client.Actor.User, s.initial, s.initial})
	}
	u.mu.Lock()
	u.modelTenant.spools = append(u.modelTenant.spools, created...)
	u.mu.Unlock()
	u.spools = append(u.spools, created...)
}

// record remembers an acknowledged change that the spool's ledger must contain.
func (u *modelUser) record(s *modelSpool, key string, e effect) {
	if u.effects == nil {
		u.effects = map[*modelSpool]map[string]effect{}
	}
	if u.effects[s] == nil {
		u.effects[s] = map[string]effect{}
	}
	u.effects[s][key] = e
}

// checkDeletion fails the test unless the outcome fits the deletion of a resource that the request named: if the
// resource was deleted before the request, the outcome must be missing; if no DELETE was sent, it must not.
func (u *modelUser) checkDeletion(
	what, outcome string, answer object, l *deletion, deletedBefore bool, missing string,
) {
	if l.restored.Load() {
		return
	}
	if deletedBefore && outcome != missing || outcome == missing && !l.deleting.Load() {
		u.errorf("%s: %s (%v), deleted before: %v, DELETE sent: %v",
			what, outcome, answer, deletedBefore, l.deleting.Load())
	}
}

func (u *modelUser) deduct() {
	s, amount := u.anySpool(), u.amount(1500*one)
	if u.chance(3) && !s.shared && s.weight > 0 {
		amount = s.weight + micro(u.IntN(2)) // the remaining weight, or a millionth more
	}
	reason, gone := fmt.Sprintf("%d-%d", u.n, u.ops), s.deleted.Load()
	body := object{"weight_grams": amount, "reason": reason}
	out, a := u.call("deduct", "POST", "/api/v1/spools/"+s.id+"/deduct", body)
	u.checkDeletion("deduct", out, a, &s.deletion, gone, "NOT_FOUND")
	if out == "ok" {
		if a.micro("deducted") != amount || a.text("id") != s.id {
			u.errorf("deduct %v: %v", amount, a)
		}
		u.record(s, reason, effect{"deducted", u.client.Actor.User, -amount, a.micro("remaining_weight_grams")})
	}
	switch {
	case gone:
	case s.shared:
		u.wantOutcome("deduct", out, a, "ok", "INSUFFICIENT_FILAMENT", "NOT_FOUND")
	case amount > s.weight:
		u.wantOutcome("deduct", out, a, "INSUFFICIENT_FILAMENT")
	default:
		u.wantOutcome("deduct", out, a, "ok")
		if s.weight -= amount; a.micro("remaining_weight_grams") != s.weight {
			u.errorf("deduct: %v, want the remaining weight %v", a, s.weight)
		}
	}
}

func (u *modelUser) editSpool() {
	s := u.ownSpool()
	body, want := object{}, "ok"
	weight, price := micro(-1), s.price
	if u.chance(60) {
		// A weight that no other edit of this spool sets, because the weight identifies the ledger entry.
		weight = u.amount(10000*one)/one*one + micro(u.n)*10_000 + micro(u.ops%10_000)
		body["remaining_weight_grams"] = weight
	}
	if u.chance(50) {
		price = u.amount(100 * one)
		body["purchase_price"] = price
	}
	if u.chance(30) {
		body["notes"] = fmt.Sprint("note ", u.ops)
	}
	if s.deleted.Load() {
		want = "NOT_FOUND"
	}
	out, a := u.call("edit spool", "PATCH", "/api/v1/spools/"+s.id, body)
	u.wantOutcome("edit spool", out, a, want)
	if want != "ok" {
		return
	}
	if s.price = price; a.micro("purchase_price") != price {
		u.errorf("edit spool: %v, want the price %v", a, price)
	}
	if weight >= 0 {
		if s.weight = weight; a.micro("remaining_weight_grams") != weight {
			u.errorf("edit spool: %v, want the remaining weight %v", a, weight)
		}
		u.record(s, "set "+weight.String(), effect{"edited", u.client.Actor.User, 0, weight})
	} else if !s.shared && a.micro("remaining_weight_grams") != s.weight {
		u.errorf("edit spool: %v, want the remaining weight %v as before", a, s.weight)
	}
}

func (u *modelUser) deleteSpool() {
	s, want := u.ownSpool(), "ok"
	for range 20 { // prefer a deleted one, to restore it
		if s.deleted.Load() {
			break
		}
		s, _ = pick(u, u.spools)
	}
	if s.deleted.Load() {
		want = "NOT_FOUND"
	}
	if u.chance(40) {
		s.restored.Store(true)
		out, a := u.call("restore spool", "POST", "/api/v1/spools/"+s.id+"/restore", nil)
		if u.wantOutcome("restore spool", out, a, "ok"); !s.shared && a.micro("remaining_weight_grams") != s.weight {
			u.errorf("restore spool: %v, want the remaining weight %v", a, s.weight)
		}
		s.deleting.Store(false)
		s.deleted.Store(false)
		return
	}
	s.deleting.Store(true)
	out, a := u.call("delete spool", "DELETE", "/api/v1/spools/"+s.id, nil)
	u.wantOutcome("delete spool", out, a, want)
	s.deleted.Store(true)
}

// ownRun returns a random run of the user. Rarely it is a deleted or completed one.
func (u *modelUser) ownRun() *modelRun {
	if len(u.runs) == 0 {
		u.createRun()
	}
	for range 20 {
		r, _ := pick(u, u.runs)
		if over := r.deleted.Load() || r.completeOK.Load() > 0 || r.ended; !over || u.chance(5) {
			return r
		}
	}
	return u.runs[len(u.runs)-1]
}

func (u *modelUser) createRun() {
	r := &modelRun{owner: u, shared: u.chance(60), status: "pending"}
	body := object{"printer_name": fmt.Sprint("Printer ", u.n)}
	if u.chance(50) {
		r.status = "in_progress"
		body["status"] = r.status
	}
	var materials, items []object
	var spools []*modelSpool
	gone, deleting := false, false
	for range u.IntN(3) * u.IntN(2) {
		m, entry := u.newMaterial(r)
		r.materials, materials, spools = append(r.materials, m), append(materials, entry), append(spools, m.spool)
		gone = gone || m.spool.deleted.Load()
	}
	for range u.IntN(3) * u.IntN(2) {
		if p, ok := pick(u, u.products); ok {
			i, entry := u.newItem(p)
			p = i.product
			r.items, items = append(r.items, i), append(items, entry)
			gone, deleting = gone || p.deleted.Load(), deleting || p.deleted.Load()
		}
	}
	if materials != nil || items != nil {
		body["materials"], body["items"] = materials, items // a nil slice is sent as null
	}
	out, a := u.call("create run", "POST", "/api/v1/production-runs", body)
	restored := false
	for _, s := range spools {
		deleting, restored = deleting || s.deleting.Load(), restored || s.restored.Load()
	}
	if !restored && gone && out != "UNKNOWN_REFERENCE" || out == "UNKNOWN_REFERENCE" && !deleting && !restored {
		u.errorf("create run: %s (%v), with something deleted before: %v, DELETE sent: %v", out, a, gone, deleting)
	}
	if u.wantOutcome("create run", out, a, "ok", "UNKNOWN_REFERENCE"); out != "ok" {
		return
	}
	if r.id = a.text("id"); a.text("status") != r.status || len(a.list("materials")) != len(r.materials) ||
		len(a.list("items")) != len(r.items) {
		u.errorf("create run: %v, want %s with %d materials and %d items", a, r.status, len(r.materials), len(r.items))
		return
	}
	for i, m := range r.materials {
		m.id = a.list("materials")[i].text("id")
		u.checkMaterial(a.list("materials")[i], m)
	}
	for i, item := range r.items {
		item.id = a.list("items")[i].text("id")
	}
	u.mu.Lock()
	u.modelTenant.runs = append(u.modelTenant.runs, r)
	u.mu.Unlock()
	u.runs = append(u.runs, r)
}

// checkCompleted fails the test unless the outcome of a change that a completed run does not allow fits the run's
// state.
func (u *modelUser) checkCompleted(what, outcome string, answer object, r *modelRun, completedBefore bool) {
	rejected, sent := outcome == "RUN_ALREADY_COMPLETED", r.completeSent.Load()
	if r.ended {
		completedBefore, sent = true, 1
	}
	if completedBefore && !rejected || rejected && sent == 0 {
		u.errorf("%s: %s (%v), completed before: %v, complete sent: %d", what, outcome, answer, completedBefore, sent)
	}
}

// newMaterial returns a random material for a run and the body to create it.
func (u *modelUser) newMaterial(r *modelRun) (m *modelMaterial, body object) {
	s := u.anySpool()
	for r.shared && !s.shared { // other users may complete the run, which deducts from the spool
		s = u.anySpool()
	}
	m = &modelMaterial{spool: s, before: -1, after: -1, sent: -1, estimated: -1}
	body = object{"spool_id": s.id}
	if u.chance(60) {
		m.estimated = u.amount(300 * one)
		body["estimated_weight_grams"] = m.estimated
	}
	if u.chance(75) {
		m.after = u.amount(500 * one)
		m.before = m.after + u.amount(300*one)
		body["spool_weight_before_grams"], body["spool_weight_after_grams"] = m.before, m.after
	}
	if u.chance(20) {
		m.sent = u.amount(300 * one)
		body["actual_weight_grams"] = m.sent
	}
	return m, body
}

func (u *modelUser) addMaterial() {
	r := u.ownRun()
	m, body := u.newMaterial(r)
	s := m.spool
	gone, completed := s.deleted.Load(), r.completeOK.Load() > 0
	out, a := u.call("add material", "POST", "/api/v1/production-runs/"+r.id+"/materials", body)
	if r.deleted.Load() {
		u.wantOutcome("add material", out, a, "NOT_FOUND")
		return
	}
	u.checkCompleted("add material", out, a, r, completed)
	if out != "RUN_ALREADY_COMPLETED" {
		u.checkDeletion("add material", out, a, &s.deletion, gone, "UNKNOWN_REFERENCE")
		u.wantOutcome("add material", out, a, "ok", "UNKNOWN_REFERENCE")
	}
	if out == "ok" {
		m.id = a.text("id")
		r.materials = append(r.materials, m)
		u.checkMaterial(a, m)
	}
}

// checkMaterial compares a material in a response with the model.
func (u *modelUser) checkMaterial(a object, m *modelMaterial) {
	if a.text("id") != m.id || a.text("spool_id") != m.spool.id || a.micro("spool_weight_before_grams") != m.before ||
		a.micro("spool_weight_after_grams") != m.after || a.micro("actual_weight_grams") != m.actual() ||
		a.micro("estimated_weight_grams") != m.estimated {
		u.errorf("material %v, want spool %s weighed %v before and %v after, and %v sent", a, m.spool.id, m.before,
			m.after, m.sent)
	}
}

func (u *modelUser) weighMaterial() {
	r := u.ownRun()
	m, ok := pick(u, r.materials)
	if !ok {
		u.addMaterial()
		return
	}
	next := *m
	body := object{}
	switch u.IntN(10) {
	case 0:
		next.sent = u.amount(300 * one)
		body["actual_weight_grams"] = next.sent
	case 1:
		next.sent = -1
		body["actual_weight_grams"] = nil
	}
	if u.chance(90) {
		next.after = u.amount(500 * one)
		body["spool_weight_after_grams"] = next.after
	}
	if next.before = max(next.after, 0) + u.amount(300*one); u.chance(4) {
		next.before = max(next.after-1, 0)
	}
	body["spool_weight_before_grams"] = next.before
	completed := r.completeOK.Load() > 0
	out, a := u.call("weigh", "PATCH", "/api/v1/production-runs/"+r.id+"/materials/"+m.id, body)
	switch {
	case next.before < next.after && body["spool_weight_after_grams"] != nil: // the request alone is invalid
		u.wantOutcome("weigh", out, a, "VALIDATION_ERROR")
	case r.deleted.Load():
		u.wantOutcome("weigh", out, a, "NOT_FOUND")
	case next.before < next.after:
		u.wantOutcome("weigh", out, a, "VALIDATION_ERROR", "RUN_ALREADY_COMPLETED")
	default:
		u.checkCompleted("weigh", out, a, r, completed)
		if out != "RUN_ALREADY_COMPLETED" {
			u.wantOutcome("weigh", out, a, "ok")
			*m = next
			u.checkMaterial(a, m)
		}
	}
}

func (u *modelUser) deleteMaterial() {
	r := u.ownRun()
	m, ok := pick(u, r.materials)
	if !ok {
		u.addMaterial()
		return
	}
	completed := r.completeOK.Load() > 0
	out, a := u.call("delete material", "DELETE", "/api/v1/production-runs/"+r.id+"/materials/"+m.id, nil)
	if r.deleted.Load() {
		u.wantOutcome("delete material", out, a, "NOT_FOUND")
		return
	}
	u.checkCompleted("delete material", out, a, r, completed)
	if out == "ok" {
		r.materials = slices.DeleteFunc(r.materials, func(o *modelMaterial) bool { return o == m })
	} else {
		u.wantOutcome("delete material", out, a, "RUN_ALREADY_COMPLETED")
	}
}

// completeOutcome returns the only possible outcome of complete, or "" if it depends on other users.
func (r *modelRun) completeOutcome(u *modelUser) string {
	if r.shared || r.owner != u {
		return ""
	}
	if r.deleted.Load() {
		return "NOT_FOUND"
	}
	if r.completeOK.Load() > 0 {
		return "RUN_ALREADY_COMPLETED"
	}
	if r.ended || r.status == "failed" || r.status == "cancelled" {
		return "RUN_NOT_OPEN"
	}
	if len(r.materials) == 0 {
		return "RUN_HAS_NO_MATERIALS"
	}
	if slices.ContainsFunc(r.materials, func(m *modelMaterial) bool { return m.actual() < 0 }) {
		return "ACTUAL_USAGE_MISSING"
	}
	return "ok" // whatever the spools have
}

func (u *modelUser) complete() {
	r := u.ownRun()
	if u.chance(60) {
		u.mu.RLock()
		// One of the newest runs, so that several users often complete the same run.
		if other, ok := pick(u, u.modelTenant.runs[max(0, len(u.modelTenant.runs)-8):]); ok && other.shared {
			r = other
		}
		u.mu.RUnlock()
	}
	body, undo := u.completeBody(r)
	gone, completed, want := r.deleted.Load(), r.completeOK.Load() > 0, r.completeOutcome(u)
	r.completeSent.Add(1)
	out, a := u.call("complete", "POST", "/api/v1/production-runs/"+r.id+"/complete", body)
	if out != "ok" {
		undo()
	}
	if want != "" {
		u.wantOutcome("complete", out, a, want)
	}
	u.checkDeletion("complete", out, a, &r.deletion, gone, "NOT_FOUND")
	if !gone && completed && !r.deleting.Load() && !r.restored.Load() {
		u.wantOutcome("complete", out, a, "RUN_ALREADY_COMPLETED")
	}
	switch out {
	case "ok":
		r.mu.Lock()
		r.result = a.list("spools_updated")
		r.mu.Unlock()
		if r.completeOK.Add(1) > 1 {
			u.errorf("run %s was completed twice", r.id)
		}
		if a.text("status") != "completed" || a["inventory_updated"] != true || a.text("completed_at") == "" {
			u.errorf("complete: %v", a)
		}
		if r.owner == u {
			for _, m := range r.materials {
				// The weight stays if it was set after the run had ended; checkLedger looks for the entries.
				stays := slices.ContainsFunc(r.result, func(s object) bool {
					return s.text("spool_id") == m.spool.id && s.micro("new_weight") == s.micro("previous_weight")
				})
				if !m.spool.shared && !stays {
					m.spool.weight = max(m.spool.weight-m.actual(), 0)
				}
			}
		}
	case "RUN_ALREADY_COMPLETED":
		if r.completeSent.Load() < 2 {
			u.errorf("complete: run %s is completed, but this is the first complete request", r.id)
		}
	case "NOT_FOUND", "RUN_NOT_OPEN", "RUN_HAS_NO_MATERIALS", "ACTUAL_USAGE_MISSING":
	default:
		u.errorf("complete: %s %v", out, a)
	}
}

// completeBody returns a body that completes a run of the user with other weights and numbers of pieces, or nil. It
// applies them to the model, until undo.
func (u *modelUser) completeBody(r *modelRun) (body any, undo func()) {
	if r.owner != u || u.chance(60) {
		return nil, func() {}
	}
	materials, items := []object{}, []object{}
	oldMaterials, oldItems := map[*modelMaterial]modelMaterial{}, map[*modelItem]modelItem{}
	for _, m := range r.materials {
		if u.chance(50) {
			oldMaterials[m] = *m
			m.sent = u.amount(300 * one)
			materials = append(materials, object{"id": m.id, "actual_weight_grams": m.sent})
		}
	}
	for _, i := range r.items {
		if u.chance(50) {
			oldItems[i] = *i
			i.success = u.Int64N(i.quantity + 1)
			i.fails = u.Int64N(i.quantity - i.success + 1)
			items = append(items, object{"id": i.id, "successful_quantity": i.success, "failed_quantity": i.fails})
		}
	}
	return object{"materials": materials, "items": items}, func() {
		for m, old := range oldMaterials {
			*m = old
		}
		for i, old := range oldItems {
			*i = old
		}
	}
}

func (u *modelUser) patchRun() {
	r := u.ownRun()
	statuses := []string{"pending", "in_progress", "paused", "completed", "failed", "cancelled"}
	status, _ := pick(u, statuses)
	if u.chance(50) {
		status = "in_progress" // of runs that failed or were cancelled, so that they can be completed
	}
	completed := r.completeOK.Load() > 0
	if r.ended && u.chance(50) {
		status = r.status // the only status that is allowed
	}
	body := object{"status": status, "quality_rating": 1 + u.IntN(5)}
	out, a := u.call("patch run", "PATCH", "/api/v1/production-runs/"+r.id, body)
	switch {
	case r.deleted.Load():
		u.wantOutcome("patch run", out, a, "NOT_FOUND")
	case r.ended && status == r.status:
		u.wantOutcome("patch run", out, a, "ok")
	case status == "completed" && !r.ended:
		u.wantOutcome("patch run", out, a, "ok")
		r.status = status
	default:
		u.checkCompleted("patch run", out, a, r, completed)
		if out == "ok" {
			r.status = status
		} else {
			u.wantOutcome("patch run", out, a, "RUN_ALREADY_COMPLETED")
		}
	}
}

func (u *modelUser) deleteRun() {
	r, ok := pick(u, u.runs)
	if !ok {
		return
	}
	if u.chance(40) {
		u.restoreRun(r)
		return
	}
	want := "ok"
	if r.deleted.Load() {
		want = "NOT_FOUND"
	}
	r.deleting.Store(true)
	out, a := u.call("delete run", "DELETE", "/api/v1/production-runs/"+r.id, nil)
	u.wantOutcome("delete run", out, a, want)
	r.deleted.Store(true)
	if u.chance(30) { // otherwise a run that is gone is hardly ever restored
		u.restoreRun(r)
	}
}

// restoreRun restores a run of the user. A deleted run exists only if it was completed.
func (u *modelUser) restoreRun(r *modelRun) {
	allowed := []string{"ok"}
	if r.gone() {
		allowed = []string{"NOT_FOUND"}
		if r.shared && r.completeSent.Load() > 0 { // another user may not have received the response yet
			allowed = append(allowed, "ok")
		}
	}
	r.restored.Store(true)
	out, a := u.call("restore run", "POST", "/api/v1/production-runs/"+r.id+"/restore", nil)
	if u.wantOutcome("restore run", out, a, allowed...); out == "ok" {
		r.deleting.Store(false)
		r.deleted.Store(false)
	}
}

// newItem returns an item for a run, of the product or of an order, and the body to create it.
func (u *modelUser) newItem(p *modelProduct) (*modelItem, object) {
	i := &modelItem{product: p, quantity: 1 + u.Int64N(20), success: -1, fails: -1}
	body := object{"quantity": i.quantity}
	if u.chance(60) {
		if i.order = u.pickOrderItem(); i.order != nil {
			i.product = i.order.product
			body["order_item_id"] = i.order.id
		}
	}
	body["product_id"] = i.product.id
	return i, body
}

// changeItem adds, edits or deletes an item of a run.
func (u *modelUser) changeItem() {
	r := u.ownRun()
	path := "/api/v1/production-runs/" + r.id + "/items"
	i, ok := pick(u, r.items)
	p, there := pick(u, u.products)
	switch {
	case !there:
		u.createProduct()
	case !ok || u.chance(30):
		var body object
		i, body = u.newItem(p)
		p = i.product
		out, a := u.call("add item", "POST", path, body)
		switch {
		case r.deleted.Load():
			u.wantOutcome("add item", out, a, "NOT_FOUND")
		case p.deleted.Load():
			u.wantOutcome("add item", out, a, "UNKNOWN_REFERENCE")
		default:
			u.wantOutcome("add item", out, a, "ok")
			i.id = a.text("id")
			r.items = append(r.items, i)
		}
	case u.chance(80):
		next := *i
		next.success, next.fails = u.Int64N(i.quantity+1), u.Int64N(i.quantity+1)
		body := object{"successful_quantity": next.success, "failed_quantity": next.fails}
		out, a := u.call("edit item", "PATCH", path+"/"+i.id, body)
		switch {
		case r.deleted.Load():
			u.wantOutcome("edit item", out, a, "NOT_FOUND")
		case next.success+next.fails > i.quantity:
			u.wantOutcome("edit item", out, a, "VALIDATION_ERROR")
		default:
			u.wantOutcome("edit item", out, a, "ok")
			*i = next
		}
	default:
		out, a := u.call("delete item", "DELETE", path+"/"+i.id, nil)
		if r.deleted.Load() {
			u.wantOutcome("delete item", out, a, "NOT_FOUND")
			return
		}
		u.wantOutcome("delete item", out, a, "ok")
		r.items = slices.DeleteFunc(r.items, func(o *modelItem) bool { return o == i })
	}
}

func (u *modelUser) createProduct() {
	if len(u.products) > 6 {
		u.changeProductMaterial()
		return
	}
	p := &modelProduct{owner: u, name: fmt.Sprintf("Product %d-%d", u.n, u.ops), materials: map[string]object{}}
	body := object{"name": p.name, "category": fmt.Sprint("of ", u.n)}
	materials := []object{}
	for range u.IntN(3) {
		material, _ := pick(u, modelMaterials)
		color, _ := pick(u, modelColors)
		materials = append(materials,
			object{"material_type": material, "color": color, "weight_grams": u.amount(500 * one)})
	}
	if len(materials) > 0 {
		body["materials"] = materials
	}
	out, a := u.call("create product", "POST", "/api/v1/products", body)
	u.wantOutcome("create product", out, a, "ok")
	if p.id = a.text("id"); len(a.list("materials")) != len(materials) {
		u.errorf("create product: %v, want %d materials", a, len(materials))
		return
	}
	for i, m := range materials {
		p.materials[a.list("materials")[i].text("id")] = m
	}
	u.mu.Lock()
	p.n = len(u.modelTenant.products)
	u.modelTenant.products = append(u.modelTenant.products, p)
	u.mu.Unlock()
	u.products = append(u.products, p)
}

// wantUnlessDeleted returns the outcome, or NOT_FOUND if the product was deleted.
func (p *modelProduct) wantUnlessDeleted(outcome string) string {
	if p.deleted.Load() {
		return "NOT_FOUND"
	}
	return outcome
}

// changeProductMaterial adds, edits or deletes a material of a product.
func (u *modelUser) changeProductMaterial() {
	p, _ := pick(u, u.products)
	path := "/api/v1/products/" + p.id + "/materials"
	if ids := slices.Sorted(maps.Keys(p.materials)); len(ids) > 0 && u.chance(50) {
		id, _ := pick(u, ids)
		if u.chance(30) {
			out, a := u.call("delete product material", "DELETE", path+"/"+id, nil)
			u.wantOutcome("delete product material", out, a, p.wantUnlessDeleted("ok"))
			if out == "ok" {
				delete(p.materials, id)
			}
			return
		}
		weight := u.amount(500 * one)
		out, a := u.call("edit product material", "PATCH", path+"/"+id, object{"weight_grams": weight})
		u.wantOutcome("edit product material", out, a, p.wantUnlessDeleted("ok"))
		if out == "ok" {
			p.materials[id]["weight_grams"] = weight
		}
		return
	}
	material, _ := pick(u, modelMaterials)
	color, _ := pick(u, modelColors)
	m := object{"material_type": material, "color": color, "weight_grams": u.amount(500 * one)}
	out, a := u.call("add product material", "POST", path, m)
	u.wantOutcome("add product material", out, a, p.wantUnlessDeleted("ok"))
	if out == "ok" {
		p.materials[a.text("id")] = m
	}
}

// changeComponent adds, edits or deletes a component of a product.
func (u *modelUser) changeComponent() {
	p, _ := pick(u, u.products)
	path := "/api/v1/products/" + p.id + "/components"
	if c, ok := pick(u, p.components); ok && u.chance(30) {
		if u.chance(50) {
			out, a := u.call("delete component", "DELETE", path+"/"+c.id, nil)
			u.wantOutcome("delete component", out, a, p.wantUnlessDeleted("ok"))
			if out == "ok" {
				p.components = slices.DeleteFunc(p.components, func(o *modelComponent) bool { return o == c })
			}
			return
		}
		quantity := 1 + u.Int64N(3)
		out, a := u.call("edit component", "PATCH", path+"/"+c.id, object{"quantity": quantity})
		u.wantOutcome("edit component", out, a, p.wantUnlessDeleted("ok"))
		if out == "ok" {
			c.quantity = quantity
		}
		return
	}
	u.mu.RLock()
	// Products contain only products of the same group of eight. Longer chains would exceed the maximum cost.
	group := p.n &^ 7
	other, _ := pick(u, u.modelTenant.products[group:min(group+8, len(u.modelTenant.products))])
	u.mu.RUnlock()
	gone, quantity := other.deleted.Load(), 1+u.Int64N(3)
	out, a := u.call("add component", "POST", path, object{"component_product_id": other.id, "quantity": quantity})
	switch {
	case p.deleted.Load():
		u.wantOutcome("add component", out, a, "NOT_FOUND")
	case gone:
		u.wantOutcome("add component", out, a, "UNKNOWN_REFERENCE")
	case other == p:
		u.wantOutcome("add component", out, a, "COMPONENT_CYCLE")
	case slices.ContainsFunc(p.components, func(c *modelComponent) bool { return c.product == other }):
		u.wantOutcome("add component", out, a, "DUPLICATE_COMPONENT")
	default:
		u.wantOutcome("add component", out, a, "ok", "COMPONENT_CYCLE", "UNKNOWN_REFERENCE")
		u.checkDeletion("add component", out, a, &other.deletion, false, "UNKNOWN_REFERENCE")
	}
	if out == "ok" {
		p.components = append(p.components, &modelComponent{a.text("id"), other, quantity})
	}
}

func (u *modelUser) deleteProduct() {
	p, _ := pick(u, u.products)
	gone, used := p.deleted.Load(), false
	isP := func(c *modelComponent) bool { return c.product == p }
	for _, parent := range u.products {
		used = used || !parent.deleted.Load() && slices.ContainsFunc(parent.components, isP)
	}
	p.deleting.Store(true)
	out, a := u.call("delete product", "DELETE", "/api/v1/products/"+p.id, nil)
	switch {
	case gone:
		u.wantOutcome("delete product", out, a, "NOT_FOUND")
	case used:
		u.wantOutcome("delete product", out, a, "PRODUCT_IN_USE")
	default:
		u.wantOutcome("delete product", out, a, "ok", "PRODUCT_IN_USE")
	}
	if out == "ok" {
		p.deleted.Store(true)
	}
}

// useForeignIDs sends a request with an id of another tenant.
func (u *modelUser) useForeignIDs() {
	other, _ := pick(u, u.tenants)
	if other == u.modelTenant {
		return
	}
	other.mu.RLock()
	spool, there := pick(u, other.spools)
	run, ok := pick(u, other.runs)
	other.mu.RUnlock()
	if !there || !ok {
		return
	}
	own := u.ownRun()
	for _, try := range []struct {
		method, path string
		body         any
		want         string
	}{
		{"GET", "/api/v1/spools/" + spool.id, nil, "NOT_FOUND"},
		{"GET", "/api/v1/spools/" + spool.id + "/usage", nil, "NOT_FOUND"},
		{"POST", "/api/v1/spools/" + spool.id + "/deduct", object{"weight_grams": 1}, "NOT_FOUND"},
		{"DELETE", "/api/v1/spools/" + spool.id, nil, "NOT_FOUND"},
		{"POST", "/api/v1/spools/" + spool.id + "/restore", nil, "NOT_FOUND"},
		{"POST", "/api/v1/production-runs/" + run.id + "/restore", nil, "NOT_FOUND"},
		{"GET", "/api/v1/production-runs/" + run.id, nil, "NOT_FOUND"},
		{"POST", "/api/v1/production-runs/" + run.id + "/complete", nil, "NOT_FOUND"},
		{"POST", "/api/v1/production-runs/" + run.id + "/materials", object{"spool_id": spool.id}, "NOT_FOUND"},
		{"POST", "/api/v1/production-runs/" + own.id + "/materials", object{"spool_id": spool.id},
			"UNKNOWN_REFERENCE"},
	}[u.IntN(10):][:1] {
		out, a := u.call("foreign id", try.method, try.path, try.body)
		if try.want == "UNKNOWN_REFERENCE" && (own.deleted.Load() || own.completeSent.Load() > 0 || own.ended) {
			u.wantOutcome("foreign id", out, a, "NOT_FOUND", "UNKNOWN_REFERENCE", "RUN_ALREADY_COMPLETED")
			continue
		}
		u.wantOutcome("foreign id", out, a, try.want)
	}
}

// checkAll compares all data that the API returns with the model, while no other requests are sent.
func (f *modelTenant) checkAll() {
	effects := map[*modelSpool]map[string]effect{}
	f.balanced = map[string]micro{}
	for _, s := range f.spools {
		effects[s] = map[string]effect{}
	}
	for _, user := range f.users {
		for s, own := range user.effects {
			maps.Copy(effects[s], own)
		}
	}

	listed, hidden := f.listAll("spools", false), f.listAll("spools", true)
	live := 0
	runRows := map[string][]string{} // the ledger entries of each run, as "spool grams"
	for _, s := range f.spools {
		left := f.checkLedger(s, effects[s], runRows)
		if !s.shared && left != s.weight {
			f.t.Errorf("spool %s: the last ledger entry has %v left, the model %v", s.id, left, s.weight)
		}
		s.weight = left
		shown, ok := listed[s.id]
		if s.deleted.Load() {
			if ok || hidden[s.id] == nil {
				f.t.Errorf("spool %s was deleted; listed: %v, listed as hidden: %v", s.id, ok, hidden[s.id])
			}
			continue
		}
		live++
		if !ok || shown.micro("remaining_weight_grams") != left {
			f.t.Errorf("spool %s is listed as %v; the last ledger entry has %v left", s.id, shown, left)
		}
	}
	if len(listed) != live || len(hidden) != len(f.spools)-live {
		f.t.Errorf("%d spools are listed, and %d as hidden; the model has %d and %d",
			len(listed), len(hidden), live, len(f.spools)-live)
	}

	listed, hidden = f.listAll("production-runs", false), f.listAll("production-runs", true)
	live = 0
	for _, r := range f.runs {
		f.checkRun(r, runRows[r.id])
		delete(runRows, r.id)
		shown, ok := listed[r.id]
		completed := r.completeOK.Load() > 0 || r.status == "completed"
		if ok == r.deleted.Load() || ok && (shown.text("status") == "completed") != completed {
			f.t.Errorf("run %s (completed %d times, status %s, deleted %v) is listed as %v",
				r.id, r.completeOK.Load(), r.status, r.deleted.Load(), shown)
		}
		if ok && shown["inventory_updated"] != (r.completeOK.Load() > 0 || r.ended) {
			f.t.Errorf("run %s (completed %d times) is listed as %v", r.id, r.completeOK.Load(), shown)
		}
		if wantHidden := r.deleted.Load() && !r.gone(); (hidden[r.id] != nil) != wantHidden {
			f.t.Errorf("run %s (completed %d times, deleted %v) is listed as hidden: %v",
				r.id, r.completeOK.Load(), r.deleted.Load(), hidden[r.id])
		}
		if !r.deleted.Load() {
			live++
		}
	}
	if len(listed) != live {
		f.t.Errorf("%d runs are listed, the model has %d", len(listed), live)
	}
	for id, rows := range runRows {
		f.t.Errorf("ledger entries name the run %s, which does not exist: %v", id, rows)
	}

	f.checkOrders()

	listed = f.listAll("products", false)
	live = 0
	for _, p := range f.products {
		if _, ok := listed[p.id]; ok == p.deleted.Load() {
			f.t.Errorf("product %s: listed: %v, deleted: %v", p.id, ok, p.deleted.Load())
		}
		if p.deleted.Load() {
			continue
		}
		live++
	}
	if len(listed) != live {
		f.t.Errorf("%d products are listed, the model has %d", len(listed), live)
	}
}

// listAll returns all items of a list by id, read page by page.
func (f *modelTenant) listAll(resource string, hidden bool) map[string]object {
	u, all := f.users[len(f.users)-1], map[string]object{}
	for skip := 0; ; skip += 100 {
		_, page := u.call("list", "GET", fmt.Sprintf("/api/v1/%s?limit=100&skip=%d&hidden=%v", resource, skip, hidden),
			nil)
		for _, item := range page.list("items") {
			all[item.text("id")] = item
		}
		if len(page.list("items")) < 100 {
			if fmt.Sprint(page["total"]) != strconv.Itoa(len(all)) {
				f.t.Errorf("%s: the total is %v, the pages have %d items", resource, page["total"], len(all))
			}
			return all
		}
	}
}

// ledger returns a spool's ledger, newest first.
func (f *modelTenant) ledger(s *modelSpool) (rows []object) {
	for {
		path := fmt.Sprintf("/api/v1/spools/%s/usage?limit=100&skip=%d", s.id, len(rows))
		_, page := f.users[0].call("ledger", "GET", path, nil)
		rows = append(rows, page.list("items")...)
		if items := len(page.list("items")); items < 100 {
			if fmt.Sprint(page["total"]) != strconv.Itoa(len(rows)) {
				f.t.Errorf("ledger of %s: the total is %v, the pages have %d entries", s.id, page["total"], len(rows))
			}
			return rows
		}
	}
}

// checkLedger checks that each ledger entry begins with the weight at which the previous one ended, and that the
// entries are the acknowledged effects. It adds the entries of runs to runRows and returns the last weight.
func (f *modelTenant) checkLedger(
	s *modelSpool, effects map[string]effect, runRows map[string][]string,
) (left micro) {
	rows := f.ledger(s)
	slices.Reverse(rows)
	sum := micro(0)
	for i := range rows {
		// Entries of the same microsecond are in no particular order.
		at := rows[i].text("created_at")
		for j := i; j < len(rows) && rows[i].micro("before_grams") != left && rows[j].text("created_at") == at; j++ {
			if rows[j].micro("before_grams") == left {
				rows[i], rows[j] = rows[j], rows[i]
			}
		}
		row := rows[i]
		before, after, change := row.micro("before_grams"), row.micro("after_grams"), row.micro("change_grams")
		if before != left || after < 0 || change != after-before || row.text("spool_id") != s.id {
			f.t.Errorf("ledger of %s: entry %d does not follow an entry that ends with %v: %v", s.id, i, left, row)
		}
		sum += change
		left = after
		if of := row.text("balances_id"); of != "" {
			// A run that ended before the weight was set has used filament before that: the weight stays.
			at := slices.IndexFunc(rows, func(r object) bool { return r.text("id") == of })
			if at < 0 || rows[at].text("run_id") == "" || rows[at].micro("change_grams") != -change {
				f.t.Errorf("ledger of %s: entry %d does not balance the entry of a run: %v", s.id, i, row)
				continue
			}
			f.balanced[rows[at].text("run_id")+" "+s.id] += change
			continue
		}
		key := row.text("kind")
		switch key {
		case "run", "wasted":
			runRows[row.text("run_id")] = append(runRows[row.text("run_id")],
				s.id+" "+(before-after+max(row.micro("shortfall_grams"), 0)).String())
			continue
		case "deducted":
			key = row.text("reason")
		case "edited":
			key = "set " + after.String()
		}
		e, ok := effects[key]
		delete(effects, key)
		sameChange := e.kind == "edited" || e.change == after-before
		if !ok || e.kind != row.text("kind") || e.user != row.text("user_id") || e.after != after || !sameChange {
			f.t.Errorf("ledger of %s: entry %d is not an acknowledged change (the nearest is %v): %v", s.id, i, e, row)
		}
	}
	if sum != left {
		f.t.Errorf("ledger of %s: the sum of changes is %v, want %v, the remaining weight", s.id, sum, left)
	}
	for key, e := range effects {
		f.t.Errorf("ledger of %s: the acknowledged change %s is missing: %v", s.id, key, e)
	}
	return left
}

// checkRun compares a run, and the ledger entries that name it, with the model.
func (f *modelTenant) checkRun(r *modelRun, rows []string) {
	var want []string
	used := map[string]micro{}
	for _, m := range r.materials {
		if r.completeOK.Load() > 0 || r.ended && m.actual() > 0 {
			used[m.spool.id] += m.actual()
		}
	}
	for spool, grams := range used { // one ledger entry per spool
		want = append(want, spool+" "+grams.String())
	}
	slices.Sort(want)
	slices.Sort(rows)
	if !slices.Equal(want, rows) {
		f.t.Errorf("run %s (completed %d times): the ledger entries are %v, want its materials %v",
			r.id, r.completeOK.Load(), rows, want)
	}
	for _, s := range r.result {
		d := s.micro("deducted")
		if used[s.text("spool_id")] != d+s.micro("shortfall_grams")+f.balanced[r.id+" "+s.text("spool_id")] ||
			s.micro("previous_weight")-s.micro("new_weight") != d {
			f.t.Errorf("run %s: complete returned %v, want its materials %v", r.id, s, want)
		}
		delete(used, s.text("spool_id"))
	}
	if len(used) > 0 {
		f.t.Errorf("run %s: spools_updated lacks %v", r.id, used)
	}

	u := f.users[0]
	out, a := u.call("get run", "GET", "/api/v1/production-runs/"+r.id, nil)
	if r.deleted.Load() {
		u.wantOutcome("get run", out, a, "NOT_FOUND")
		return
	}
	u.wantOutcome("get run", out, a, "ok")
	materials, items := a.list("materials"), a.list("items")
	if len(materials) != len(r.materials) || len(items) != len(r.items) {
		f.t.Errorf("run %s has %d materials and %d items, want %d and %d",
			r.id, len(materials), len(items), len(r.materials), len(r.items))
		return
	}
	sum := micro(0)
	for i, m := range r.materials {
		u.checkMaterial(materials[i], m)
		sum += m.actual()
	}
	for i, item := range r.items {
		f.checkItem(r, items[i], item)
	}
	if r.completeOK.Load() > 0 && a.micro("actual_total_filament_grams") != sum {
		f.t.Errorf("run %s: actual_total_filament_grams is %v, want %v", r.id, a["actual_total_filament_grams"], sum)
	}
}

// checkItem compares an item in a response with the model.
func (f *modelTenant) checkItem(r *modelRun, shown object, item *modelItem) {
	counts := map[string]int64{
		"quantity": item.quantity, "successful_quantity": item.success, "failed_quantity": item.fails,
	}
	for name, n := range counts {
		want := "<nil>"
		if n >= 0 {
			want = strconv.FormatInt(n, 10)
		}
		if fmt.Sprint(shown[name]) != want {
			f.t.Errorf("run %s: item %v: %s, want %s", r.id, shown, name, want)
		}
	}
	sameProduct := shown.text("product_id") == item.product.id && shown.text("product_name") == item.product.name
	if shown.text("id") != item.id || !sameProduct {
		f.t.Errorf("run %s: item %v, want %+v", r.id, shown, item)
	}
}
