package pieces_test

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"spoolwright/auth/archive"
	"spoolwright/db"
	"spoolwright/tests/testkit"
)

var (
	lawCount = flag.Int("histories", 0, "number of random histories of TestLawOfMoney; 0 chooses it")
	lawFirst = flag.Uint64("histories.first", 1, "the seed of the first history of TestLawOfMoney; 0 chooses a random one")
	lawSeed  = flag.Uint64("histories.seed", 0, "the seed of the only history, which is checked after each operation")
	lawSteps = flag.Int("histories.steps", 70, "number of operations of a history of TestLawOfMoney")
)

// TestLawOfMoney holds the program to a law: what all ended runs have cost is in the margins report or in the value of
// the pieces in stock, once and exactly. Both are read as a user reads them:
//
//	cost of all ended runs = cost - waiting_cost of the margins report + piece_value of the report of pieces
//
// The ledger of pieces, and what products and orders cost, equal those of the model; see stockEqualsModel.
//
// Each history is a farm in which people do at random what the API lets them do: also to runs that have ended, and to
// orders that are done. A request may be refused, but never fails.
//
// The histories are always the same ones, so that the test fails only after a change. A failure names the seed of the
// history; -histories.seed runs only that one, and checks the law after each operation. A long run of others is:
//
//	go test ./orders/pieces -run TestLawOfMoney -timeout 0 -histories.first 0 -histories 10000
func TestLawOfMoney(t *testing.T) {
	t.Parallel()
	api := newFarm(t)
	first, count := *lawFirst, cmp.Or(*lawCount, testkit.InCI(testkit.InRigs(10, 30), 700))
	if first == 0 {
		first = rand.Uint64()
	}
	if *lawSeed != 0 {
		first, count = *lawSeed, 1
	}
	var next, failures atomic.Int64
	var accepted [40]atomic.Int64
	t.Run("histories", func(t *testing.T) { // returns after its parallel subtests
		for worker := range min(4, count) {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for n := next.Add(1) - 1; n < int64(count) && failures.Load() < 3; n = next.Add(1) - 1 {
					h := &history{Rand: rand.New(rand.NewPCG(first+uint64(n), 0)), t: t, accepted: accepted[:]}
					if err := h.run(api.Tenant(t)); err != nil {
						failures.Add(1)
						t.Errorf("-histories.seed %d: %v\n%s", first+uint64(n), err, strings.Join(h.log, "\n"))
					}
				}
			})
		}
	})
	for i, what := range lawOperations {
		t.Logf("%s: %d", what.name, accepted[i].Load())
		if n := accepted[i].Load(); n == 0 && count >= 30 {
			t.Errorf("no history has done: %s", what.name)
		}
	}
}

// history is a farm in which random things happen. It knows only ids.
type history struct {
	*rand.Rand
	t        *testing.T
	c, admin *testkit.Client
	parts    [2]string // products
	kit      string
	lamp     string    // a run prints it with a part from stock
	spools   [3]string // the last one has no price
	runs     []*lawRun
	orders   []*lawOrder
	accepted []atomic.Int64
	log      []string
}

// lawRun and lawOrder name their items, also removed ones.
type lawRun struct {
	path, material string
	items          []lawItem
	edited         bool // its items, since its end or last correction, which leaves costs that were unknown
}

type lawOrder struct {
	path  string
	items []lawItem
}

type lawItem struct{ id, product string }

// lawError is what a method of history panics with.
type lawError string

func (h *history) failf(format string, args ...any) { panic(lawError(fmt.Sprintf(format, args...))) }

// send sends a request and reports whether it was accepted.
func (h *history) send(c *testkit.Client, method, path string, body any) (a *testkit.Response, ok bool) {
	a, err := c.Send(method, path, body)
	if err != nil {
		h.failf("%s %s: %v", method, path, err)
	}
	text, _ := json.Marshal(body)
	if method != "GET" {
		h.log = append(h.log, fmt.Sprintf("%d %s %s %s", a.Status, method, path, text))
	}
	if a.Status >= 500 {
		h.failf("%s %s %s: %d %s", method, path, text, a.Status, a.Body)
	}
	return testkit.NewResponse(h.t, a.Body), a.Status < 300
}

func (h *history) post(path string, body any) (*testkit.Response, bool) {
	return h.send(h.c, "POST", path, body)
}

func (h *history) must(path string, body any) *testkit.Response {
	a, ok := h.post(path, body)
	if !ok {
		h.failf("%s %v: %s", path, body, a.Body)
	}
	return a
}

// run lets the history happen.
func (h *history) run(tenant *testkit.Tenant) (err error) {
	defer func() {
		if failure := recover(); failure != nil {
			text, ok := failure.(lawError)
			if !ok {
				panic(failure)
			}
			err = fmt.Errorf("%s", text)
		}
	}()
	h.admin, h.c = tenant.User(h.t, "admin"), tenant.User(h.t, "operator")
	h.rates()
	for i := range h.spools {
		body := j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1_000_000}
		if i < 2 {
			body["purchase_price"] = 10_000 + h.IntN(20_000)
		}
		h.spools[i] = h.must("/api/v1/spools", body).ID()
	}
	material := []j{{"material_type": "PLA", "color": "Black", "weight_grams": 10 + h.IntN(90)}}
	for i := range h.parts {
		h.parts[i] = h.must(products, j{"name": fmt.Sprint("Part ", i), "selling_price": 9, "labour_minutes": i,
			"estimated_print_time_minutes": 30, "materials": material}).ID()
	}
	h.kit = h.must(products, j{"name": "Kit", "selling_price": 30, "components": []j{
		{"component_product_id": h.parts[0], "quantity": 2}, {"component_product_id": h.parts[1]}}}).ID()
	h.lamp = h.must(products, j{"name": "Lamp", "selling_price": 20, "materials": material, "components": []j{
		{"component_product_id": h.parts[0], "quantity": 1 + h.IntN(2)}}}).ID()
	every := 35
	if *lawSeed != 0 {
		every = 1
	}
	total := 0
	for _, o := range lawOperations {
		total += o.weight
	}
	for step := range *lawSteps {
		n := h.IntN(total)
		i := 0
		for ; n >= lawOperations[i].weight; i++ {
			n -= lawOperations[i].weight
		}
		before := len(h.log)
		if lawOperations[i].do(h) {
			h.accepted[i].Add(1)
		}
		if (step+1)%every == 0 && len(h.log) > before || step == *lawSteps-1 {
			h.check()
		}
	}
	return nil
}

// rates sets what an hour of a machine and of work costs. The first one is sometimes unknown.
func (h *history) rates() bool {
	rates := j{"labour_hour_cost": h.IntN(40), "machine_hour_cost": h.IntN(3), "energy_kwh_cost": 0,
		"failure_rate_percent": 0}
	if h.IntN(4) == 0 {
		rates["machine_hour_cost"] = nil
	}
	_, ok := h.send(h.admin, "PATCH", settings, rates)
	return ok
}

func (h *history) product() string {
	return []string{h.parts[0], h.parts[0], h.parts[0], h.parts[1], h.kit, h.lamp}[h.IntN(6)]
}

func pick[T any](h *history, all []T) (one T) {
	if len(all) == 0 {
		return one
	}
	// The newest are the likeliest.
	return all[max(h.IntN(len(all)), h.IntN(len(all)))]
}

// anOrder calls do with an order, and aRun with a run, if there is one.
func anOrder(do func(*history, *lawOrder) bool) func(*history) bool {
	return func(h *history) bool { o := pick(h, h.orders); return o != nil && do(h, o) }
}

func aRun(do func(*history, *lawRun) bool) func(*history) bool {
	return func(h *history) bool { r := pick(h, h.runs); return r != nil && do(h, r) }
}

// to returns an operation that sends a request without a body to an order or a run.
func (o *lawOrder) to(h *history, method, operation string) bool {
	_, ok := h.send(h.c, method, o.path+operation, nil)
	return ok
}

func (r *lawRun) to(h *history, method, operation string) bool {
	_, ok := h.send(h.c, method, r.path+operation, nil)
	return ok
}

// item returns an item of a new run, for an item of an order, or for none.
func (h *history) item() (product string, body j) {
	product = h.product()
	body = j{"quantity": 1 + h.IntN(8)}
	if o := pick(h, h.orders); o != nil && h.IntN(4) > 0 {
		if i := pick(h, o.items); i.id != "" {
			product, body["order_item_id"] = i.product, i.id
			if product == h.kit { // a run prints parts for it
				product = h.parts[h.IntN(2)]
			}
		}
	}
	if product == h.lamp && h.IntN(3) > 0 {
		body["parts_from_stock"] = true
	}
	body["product_id"] = product
	return product, body
}

func (h *history) newRun() bool {
	var items []j
	var of []string
	for range 1 + h.IntN(3) {
		product, body := h.item()
		if h.IntN(4) == 0 {
			body["successful_quantity"] = h.IntN(body["quantity"].(int) + 1)
		}
		items, of = append(items, body), append(of, product)
	}
	body := j{"status": "in_progress", "items": items, "materials": []j{{
		"spool_id": h.spools[h.IntN(8)/3], "actual_weight_grams": 1 + h.IntN(400)}}}
	if h.IntN(20) == 0 { // never deducts
		body["status"] = "completed"
	}
	a, ok := h.post(runs, body)
	if !ok {
		return false
	}
	r := &lawRun{path: runs + "/" + a.ID(), material: a.Text("materials.0.id")}
	for i, product := range of {
		r.items = append(r.items, lawItem{a.Text(fmt.Sprintf("items.%d.id", i)), product})
	}
	h.runs = append(h.runs, r)
	if h.IntN(6) > 0 {
		h.complete(r)
	}
	return true
}

// hours are those of the end of a run: without them, the cost of the machine is unknown.
func (h *history) hours() any {
	if h.IntN(6) == 0 {
		return nil
	}
	return h.IntN(5)
}

func (h *history) counts(r *lawRun) (list []j) {
	for _, i := range r.items {
		if h.IntN(2) == 0 {
			list = append(list, j{"id": i.id, "successful_quantity": max(h.IntN(9)-3, 0), "failed_quantity": h.IntN(5) / 4})
		}
	}
	return list
}

func (h *history) complete(r *lawRun) bool {
	body := j{"actual_print_time_hours": h.hours()}
	if h.IntN(3) == 0 {
		body["items"] = h.counts(r)
	}
	_, ok := h.post(r.path+"/complete", body)
	r.edited = r.edited && !ok
	return ok
}

func (h *history) correct(r *lawRun) bool {
	body := j{}
	switch h.IntN(5) {
	case 0:
		body["items"] = h.counts(r)
	case 1:
		body["actual_print_time_hours"] = h.hours()
	case 2:
		body["materials"] = []j{{"id": r.material, "to_spool_id": h.spools[h.IntN(8)/3]}}
	case 3:
		var price any = h.IntN(50)
		if h.IntN(3) == 0 {
			price = nil
		}
		body["materials"] = []j{{"id": r.material, "cost_per_gram": price}}
	default:
		body["materials"] = []j{{"id": r.material, "actual_weight_grams": h.IntN(400)}}
	}
	_, ok := h.post(r.path+"/correct", body)
	r.edited = r.edited && !ok
	return ok
}

func (h *history) editItem(r *lawRun) bool {
	i := h.IntN(max(len(r.items), 1))
	if len(r.items) == 0 {
		return false
	}
	path := r.path + "/items/" + r.items[i].id
	product, fields := h.item()
	body := j{}
	switch h.IntN(4) {
	case 0:
		body["quantity"] = fields["quantity"]
	case 1:
		body["successful_quantity"] = h.IntN(6)
	case 2:
		body["order_item_id"] = fields["order_item_id"]
	default:
		body["product_id"], body["order_item_id"] = product, fields["order_item_id"]
	}
	_, ok := h.send(h.c, "PATCH", path, body)
	if r.edited = r.edited || ok; ok && body["product_id"] != nil {
		r.items[i].product = product
	}
	return ok
}

func (h *history) removeItem(r *lawRun) bool {
	if len(r.items) == 0 {
		return false
	}
	i := h.IntN(len(r.items))
	_, ok := h.send(h.c, "DELETE", r.path+"/items/"+r.items[i].id, nil)
	if ok {
		r.items, r.edited = append(r.items[:i:i], r.items[i+1:]...), true
	}
	return ok
}

func (h *history) addItem(r *lawRun) bool {
	product, body := h.item()
	a, ok := h.post(r.path+"/items", body)
	if ok {
		r.items, r.edited = append(r.items, lawItem{a.ID(), product}), true
	}
	return ok
}

func (h *history) newOrder() bool {
	var items []j
	o := &lawOrder{}
	for range 1 + h.IntN(3) {
		product := h.product()
		items = append(items, j{"product_id": product, "quantity": 1 + h.IntN(8)})
		o.items = append(o.items, lawItem{"", product})
	}
	a := h.must(orderURL, j{"items": items})
	o.path = orderURL + "/" + a.ID()
	for i := range o.items {
		o.items[i].id = a.Text(fmt.Sprintf("items.%d.id", i))
	}
	h.orders = append(h.orders, o)
	return true
}

// some returns quantities of an item of an order, or nil for all: mostly at most what left returns for the item.
func (h *history) some(o *lawOrder, left func(ordered, delivered int) int, fields j) j {
	a, ok := h.send(h.c, "GET", o.path, nil)
	if !ok || h.IntN(5) == 0 {
		return nil
	}
	most := 1 + 2*(h.IntN(10)/9)
	fields["id"] = o.items[h.IntN(len(o.items))].id
	for i := range a.List("items") {
		ordered, _ := strconv.Atoi(a.Text(fmt.Sprintf("items.%d.quantity", i)))
		delivered, _ := strconv.Atoi(a.Text(fmt.Sprintf("items.%d.delivered", i)))
		if n := left(ordered, delivered); n > 0 && (most == 1 || h.IntN(2) == 0) {
			fields["id"], most = a.Text(fmt.Sprintf("items.%d.id", i)), n
		}
	}
	fields["quantity"] = 1 + h.IntN(most)
	return j{"items": []j{fields}}
}

func (h *history) deliver(o *lawOrder) bool {
	_, ok := h.post(o.path+"/deliver", h.some(o, func(ordered, delivered int) int { return ordered - delivered }, j{}))
	return ok
}

func (h *history) sendBack(o *lawOrder) bool {
	body := h.some(o, func(_, delivered int) int { return delivered }, j{"to_stock": h.IntN(3) > 0})
	if body == nil {
		body = j{}
	}
	body["reopen"] = h.IntN(2) == 0
	_, ok := h.post(o.path+"/return", body)
	return ok
}

func (h *history) editOrder(o *lawOrder) bool {
	item := o.path + "/items/" + o.items[h.IntN(len(o.items))].id
	var ok bool
	switch h.IntN(6) {
	case 0:
		var a *testkit.Response
		product := h.product()
		if a, ok = h.post(o.path+"/items", j{"product_id": product, "quantity": 1 + h.IntN(5)}); ok {
			o.items = append(o.items, lawItem{a.ID(), product})
		}
	case 1:
		_, ok = h.send(h.c, "DELETE", item, nil)
	case 2:
		_, ok = h.post(item+"/restore", nil)
	case 3:
		_, ok = h.send(h.c, "PATCH", item, j{"quantity": 1 + h.IntN(8)})
	case 4:
		_, ok = h.post(o.path+"/complete", nil)
	default:
		_, ok = h.send(h.c, "PATCH", o.path, j{"status": []string{"received", "done", "in_production"}[h.IntN(3)]})
	}
	return ok
}

// change counts, scraps or adjusts pieces.
func (h *history) change() bool {
	path, n := products+"/"+h.product(), 1+h.IntN(5)
	var ok bool
	switch h.IntN(4) {
	case 0:
		_, ok = h.post(path+"/count", j{"counted": h.IntN(10)})
	case 1:
		_, ok = h.post(path+"/adjust", j{"pieces": n - 6*h.IntN(2)})
	default:
		_, ok = h.post(path+"/scrap", j{"quantity": n})
	}
	return ok
}

func (h *history) assembly() bool {
	_, ok := h.post(products+"/"+[]string{h.kit, h.kit, h.lamp}[h.IntN(3)]+
		[]string{"/assemble", "/disassemble"}[h.IntN(2)], j{"quantity": 1 + h.IntN(2)})
	return ok
}

// recipe changes what the kit is made of.
func (h *history) recipe() bool {
	path := products + "/" + h.kit
	a, _ := h.send(h.c, "GET", path, nil)
	component := path + "/components/" + a.Text(fmt.Sprintf("components.%d.id", h.IntN(len(a.List("components")))))
	_, ok := h.send(h.c, "PATCH", component, j{"quantity": 1 + h.IntN(4)})
	return ok
}

// reverse takes back an entry of the ledger, rarely one of a run, which is rejected.
func (h *history) reverse() bool {
	a, _ := h.send(h.c, "GET", entries+"?limit=30", nil)
	id := ""
	for i := range a.List("items") {
		if id == "" || h.IntN(4) == 0 || a.Text(fmt.Sprintf("items.%d.run_id", i)) == "null" && h.IntN(2) == 0 {
			id = a.Text(fmt.Sprintf("items.%d.id", i))
		}
	}
	if id == "" {
		return false
	}
	_, ok := h.post(entries+"/"+id+"/reverse", nil)
	return ok
}

// lawOperations are what happens in a history, and how often.
var lawOperations = []struct {
	name   string
	weight int
	do     func(*history) bool
}{
	{"new order", 9, (*history).newOrder},
	{"new run", 22, (*history).newRun},
	{"complete", 4, aRun((*history).complete)},
	{"fail", 2, aRun(func(h *history, r *lawRun) bool {
		_, ok := h.post(r.path+"/fail", j{"reason": "clog", "actual_print_time_hours": h.hours()})
		return ok
	})},
	{"cancel a run", 1, aRun(func(h *history, r *lawRun) bool { return r.to(h, "POST", "/cancel") })},
	{"correct", 12, aRun((*history).correct)},
	{"reopen", 6, aRun(func(h *history, r *lawRun) bool { return r.to(h, "POST", "/reopen") })},
	{"edit an item of a run", 9, aRun((*history).editItem)},
	{"remove an item of a run", 6, aRun((*history).removeItem)},
	{"add an item to a run", 5, aRun((*history).addItem)},
	{"remove a run", 2, aRun(func(h *history, r *lawRun) bool { return r.to(h, "DELETE", "") })},
	{"restore a run", 2, aRun(func(h *history, r *lawRun) bool { return r.to(h, "POST", "/restore") })},
	{"deliver", 20, anOrder((*history).deliver)},
	{"return", 12, anOrder((*history).sendBack)},
	{"edit an order", 9, anOrder((*history).editOrder)},
	{"cancel an order", 2, anOrder(func(h *history, o *lawOrder) bool { return o.to(h, "POST", "/cancel") })},
	{"remove an order", 2, anOrder(func(h *history, o *lawOrder) bool { return o.to(h, "DELETE", "") })},
	{"restore an order", 2, anOrder(func(h *history, o *lawOrder) bool { return o.to(h, "POST", "/restore") })},
	{"change pieces", 10, (*history).change},
	{"assemble", 8, (*history).assembly},
	{"change the recipe", 2, (*history).recipe},
	{"reverse", 10, (*history).reverse},
	{"change rates", 2, (*history).rates},
}

// amount returns an amount of a response. What is unknown adds nothing to sums.
func (h *history) amount(a *testkit.Response, path string) *big.Rat {
	text := a.Text(path)
	x, ok := new(big.Rat).SetString(text)
	if text == "null" {
		return new(big.Rat)
	} else if !ok {
		h.failf("%s: %s is no amount", path, text)
	}
	return x
}

// check adds up, and compares the farm with the model.
func (h *history) check() {
	spent := new(big.Rat)
	for _, list := range []string{"?limit=100", "?limit=100&hidden=true"} {
		a, _ := h.send(h.c, "GET", runs+list, nil)
		for i := range a.List("items") {
			spent = sum(spent, h.amount(a, fmt.Sprintf("items.%d.cost", i)))
		}
	}
	stock, _ := h.send(h.c, "GET", stockReport, nil)
	n := len(h.log) // not a random number: a check must not change what happens after it
	by := []string{"order", "product", "customer", "month", "printer"}[n%5*(n/5%2)]
	report, _ := h.send(h.c, "GET", margins+"?group_by="+by, nil)
	cost, waiting, value := h.amount(report, "cost"), h.amount(report, "waiting_cost"), h.amount(stock, "piece_value")
	if there := sum(minus(cost, waiting), value); there.Cmp(spent) != 0 {
		h.failf("%s was spent, and %s is in margins less what waits in stock, or in stock: %s\n%s", spent.FloatString(6),
			there.FloatString(6), report.Body, stock.Body)
	}
	costs, waits, of := new(big.Rat), new(big.Rat), map[string]*big.Rat{}
	for i := range report.List("items") {
		row := fmt.Sprintf("items.%d.", i)
		of[report.Text(row+"order_id")] = h.amount(report, row+"cost")
		costs, waits = sum(costs, h.amount(report, row+"cost")), sum(waits, h.amount(report, row+"waiting_cost"))
	}
	if costs.Cmp(cost) != 0 || waits.Cmp(waiting) != 0 {
		h.failf("the groups by %s do not add up to the totals: %s", by, report.Body)
	}
	var broken string
	err := h.c.API.DB.Read(db.As(context.Background(), h.c.Actor), db.SQL(archive.BrokenRule).Into(&broken))
	if err != nil || broken != "" {
		h.failf("an archive of the farm cannot be imported: %v, %s", err, broken)
	}
	h.equalsModel(waiting)
	if by != "order" {
		return
	}
	// The order and the report have one rule.
	a, _ := h.send(h.c, "GET", orderURL+"/export?format=jsonl", nil)
	for line := range strings.Lines(string(a.Body)) {
		var o struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			h.failf("%v: %s", err, line)
		}
		one := testkit.NewResponse(h.t, []byte(line))
		if got := h.amount(one, "cost"); got.Cmp(sum(new(big.Rat), of[o.ID])) != 0 {
			h.failf("an order has the cost %s, and the report another one: %s %s", got.FloatString(6), line, report.Body)
		}
	}
}

// unknownItem returns the id of an item of an ended run that has pieces without a known cost, although all costs of the
// run and of the parts that the item used are known, or nil.
func (l ledger) unknownItem(run row, stored parts) any {
	if slices.ContainsFunc(runParts, func(name string) bool { return stored[name] == nil }) {
		return nil
	}
	for _, item := range l.where("run_items", "run_id", run["id"]) {
		unknown, used := int64(0), true
		for _, e := range l.where("piece_entries", "run_item_id", item["id"]) {
			switch {
			case e["cost"] != nil:
			case e["kind"] == "used":
				used = false
			default:
				unknown += e.int("pieces") - e.int("shortfall")
			}
		}
		if used && unknown != 0 {
			return item["id"]
		}
	}
	return nil
}

// equalsModel compares the farm with the model.
func (h *history) equalsModel(waiting *big.Rat) {
	l := readLedger(h.t, h.c.API, h.c)
	totals := map[any]parts{}
	for _, run := range l["production_runs"] {
		used := map[any]*big.Rat{} // by spool: what the run used and the ledger of the spool does not have
		for _, m := range l.where("run_materials", "run_id", run["id"]) {
			if run["deducted_at"] != nil {
				used[m["spool_id"]] = sum(new(big.Rat), used[m["spool_id"]], m.rat("actual_weight_grams"))
			}
		}
		for _, u := range l.where("spool_usage", "run_id", run["id"]) {
			taken := minus(u.rat("before_grams"), u.rat("after_grams"))
			used[u["spool_id"]] = minus(sum(new(big.Rat), used[u["spool_id"]]), taken)
		}
		for _, grams := range used {
			if grams.Sign() != 0 {
				h.failf("a run used %s g that its spool has not lost: %v", grams.FloatString(6), run)
			}
		}
		if run["deducted_at"] == nil {
			continue
		}
		stored, cost := parts{}, l.cost(run)
		totals[run["id"]] = stored
		for _, name := range runParts {
			stored[name] = run.rat(name + "_cost")
		}
		if id := l.unknownItem(run, stored); id != nil {
			h.failf("all costs of a run are known, but not those of all pieces of its item %v: %v", id, run)
		}
		if slices.ContainsFunc(h.runs, func(r *lawRun) bool { return r.edited && r.path == runs+"/"+run["id"].(string) }) {
			continue
		}
		for _, name := range runParts {
			if got, want := stored[name], cost[name]; got == nil != (want == nil) || got != nil && got.Cmp(want) != 0 {
				h.failf("the part %s of the cost of a run is %v, want %v: %v", name, got, want, run)
			}
		}
	}
	l.stockEqualsModel(h.t, totals)
	productsEqualModel(h.t, h.c, l)
	lines := l.lines(totals)
	ordersEqualModel(h.t, h.c, l, lines)
	waits := new(big.Rat)
	for _, n := range lines {
		if n.valued {
			waits = sum(waits, minus(n.share(n.kept), n.share(n.delivered)))
		}
	}
	if waits.Cmp(waiting) != 0 || h.t.Failed() {
		h.failf("the farm is not what the model expects; pieces that cost %s wait, want %s", waiting.FloatString(6),
			waits.FloatString(6))
	}
}
