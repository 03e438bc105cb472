package production_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

var (
	modelSteps = flag.Int("corrections", 0, "number of steps of TestCorrectionModel; 0 chooses it")
	modelSeed  = flag.Uint64("corrections.seed", 1, "the seed of TestCorrectionModel; 0 is a random one")
)

// modelRun is a production run in the model. Grams are whole numbers, and so are prices of a gram.
type modelRun struct {
	path, item string
	status     string
	orderItem  int // an index of the items of the order
	quantity   int
	good       int // -1 is unknown
	hours      int // -1 is unknown
	materials  []*modelMaterial
	entries    map[int]int // by spool: what the ledger has of the run
	reported   map[int]int // by spool
	rate       int         // of an hour, when the run ended
	ended      int         // m.clock at the end
	balances   map[int]*modelBalance
	taken      map[int][]modelUse // by spool
}

// modelUse is what a run took from a spool at a time, and the part of it that it balanced at a weighing before.
type modelUse struct {
	at, grams, kept int
	printed         bool
}

// usedSince returns what the run took from a spool after a time.
func (r *modelRun) usedSince(spool, at int) (grams int) {
	for _, u := range r.taken[spool] {
		if u.at > at {
			grams += u.grams - u.kept
		}
	}
	return grams
}

// endsBefore returns what ends of the run took from a spool before a time.
func (r *modelRun) endsBefore(spool, at int) (grams int) {
	for _, u := range r.taken[spool] {
		switch {
		case u.printed:
		case u.at > at:
			grams += u.kept
		default:
			grams += u.grams
		}
	}
	return grams
}

// modelBalance is what a run has balanced at the newest weighing of a spool at which it has balanced something.
type modelBalance struct{ weighing, total, most int }

// balance adds grams at the weighing.
func (r *modelRun) balance(spool, weighing, grams int) {
	b := r.balances[spool]
	if b == nil || b.weighing < weighing {
		b = &modelBalance{weighing: weighing}
		r.balances[spool] = b
	}
	b.total += grams
	b.most = max(b.most, b.total)
}

type modelMaterial struct {
	id         string
	spool      int
	price      int // -1 until the end
	actual     int // -1 is unknown
	given      int // actual before the end
	exchanged  bool
	givenPrice int
}

// TestCorrectionModel does at random what ends, corrects, reopens and exchanges a few runs, and compares spools, costs
// and the order with a model after each step.
func TestCorrectionModel(t *testing.T) {
	t.Parallel()
	seed := *modelSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	m := &correctionModel{Rand: rand.New(rand.NewPCG(seed, 0)), t: t, c: newFarm(t).Operator(t)}
	defer func() {
		if t.Failed() {
			t.Logf("-corrections.seed %d:\n%s", seed, strings.Join(m.log, "\n"))
		}
	}()
	m.open()
	for range cmp.Or(*modelSteps, testkit.InCI(testkit.InRigs(30, 60), 120)) {
		m.step()
		m.check()
		if t.Failed() {
			return
		}
	}
}

type correctionModel struct {
	*rand.Rand
	t      *testing.T
	c      *testkit.Client
	ids    []string // of the spools
	left   []int
	scales [][]int // by spool: m.clock at each weighing
	clock  int
	prices []int
	order  string
	items  []string // of the order
	runs   []*modelRun
	rate   int // of an hour
	log    []string
}

func (m *correctionModel) open() {
	product := m.c.NewProduct(m.t, "LAMP", 1)
	a := m.c.Post(m.t, "/api/v1/orders", j{"items": []j{{"product_id": product, "quantity": 6},
		{"product_id": product, "quantity": 3}}}).Want(201)
	m.order, m.items = "/api/v1/orders/"+a.ID(), []string{a.Text("items.0.id"), a.Text("items.1.id")}
	for range 4 {
		price := 1 + m.IntN(9)
		m.ids = append(m.ids, createSpool(m.t, m.c, j{"net_weight_grams": 100_000, "purchase_price": price * 100_000}))
		m.scales = append(m.scales, nil)
		m.left, m.prices = append(m.left, 100_000), append(m.prices, price)
	}
	m.setRate()
	for i := range 3 {
		r := &modelRun{status: "in_progress", orderItem: i % 2, quantity: 2 + m.IntN(4), good: -1, hours: -1,
			entries: map[int]int{}, reported: map[int]int{}, balances: map[int]*modelBalance{}, taken: map[int][]modelUse{}}
		var list []j
		for _, spool := range []int{i, i + 1} {
			r.materials = append(r.materials, &modelMaterial{spool: spool, price: m.prices[spool], givenPrice: m.prices[spool],
				actual: -1, given: -1})
			list = append(list, j{"spool_id": m.ids[spool], "estimated_weight_grams": 100})
		}
		a := m.c.Post(m.t, runs, j{"status": "in_progress", "printer_name": fmt.Sprint("P", i), "materials": list,
			"items": []j{{"product_id": product, "order_item_id": m.items[r.orderItem], "quantity": r.quantity}}}).Want(201)
		r.path, r.item = runs+"/"+a.ID(), a.Text("items.0.id")
		for n, material := range r.materials {
			material.id = a.Text(fmt.Sprintf("materials.%d.id", n))
		}
		m.runs = append(m.runs, r)
	}
}

func (m *correctionModel) setRate() {
	m.rate = 1 + m.IntN(9)
	prices(m.t, m.c, fmt.Sprint(m.rate), "0", "0")
}

func (m *correctionModel) post(path string, body j) *testkit.Response {
	m.log = append(m.log, fmt.Sprintf("%s %v", path, body))
	return m.c.Post(m.t, path, body).Want(200)
}

func (m *correctionModel) step() {
	r := m.runs[m.IntN(len(m.runs))]
	isOpen := r.status == "in_progress"
	m.clock++
	switch n := m.IntN(11); {
	case n == 10:
		m.weigh(m.IntN(len(m.ids)))
	case n == 0:
		m.setRate()
	case n == 1: // the price of a spool changes nothing of runs that have it
		spool := m.IntN(len(m.ids))
		m.prices[spool] = 1 + m.IntN(9)
		m.c.Patch(m.t, "/api/v1/spools/"+m.ids[spool], j{"purchase_price": m.prices[spool] * 100_000}).Want(200)
	case isOpen && n < 4:
		m.exchange(r)
	case isOpen && n < 6:
		m.report(r)
	case isOpen:
		m.end(r)
	case n < 5:
		m.reopen(r)
	default:
		m.correct(r)
	}
}

// report lets a printer report a spool that only this run has in progress.
func (m *correctionModel) report(r *modelRun) {
	material := r.materials[m.IntN(len(r.materials))]
	for _, o := range m.runs {
		if o != r && o.status == "in_progress" && slices.ContainsFunc(o.materials,
			func(x *modelMaterial) bool { return x.spool == material.spool }) {
			return
		}
	}
	grams := 1 + m.IntN(50)
	path := "/spoolman/api/v1/spool/" + fmt.Sprint(material.spool+1) + "/use"
	m.log = append(m.log, fmt.Sprint(path, " ", grams))
	m.c.Do(m.t, "PUT", path, j{"use_weight": grams}).Want(200)
	r.reported[material.spool] += grams
	r.entries[material.spool] += grams
	m.take(r, material.spool, modelUse{grams: grams, printed: true})
}

// weigh sets the weight of a spool, by the scale or by an edit.
func (m *correctionModel) weigh(spool int) {
	m.left[spool] = 50_000 + m.IntN(50_000)
	m.log = append(m.log, fmt.Sprint("weigh spool ", spool+1, ": ", m.left[spool]))
	path := "/api/v1/spools/" + m.ids[spool]
	if m.IntN(2) == 0 {
		m.c.Patch(m.t, path, j{"spool_weight_grams": 200, "remaining_weight_grams": m.left[spool]}).Want(200)
	} else {
		m.c.Patch(m.t, path, j{"spool_weight_grams": 200}).Want(200)
		m.c.Post(m.t, path+"/measure", j{"gross_grams": 200 + m.left[spool]}).Want(200)
	}
	m.scales[spool] = append(m.scales[spool], m.clock)
}

// take takes grams from a spool, except those that are balanced at a weighing.
func (m *correctionModel) take(r *modelRun, spool int, use modelUse) {
	use.at = m.clock
	m.left[spool] -= use.grams - use.kept
	r.taken[spool] = append(r.taken[spool], use)
}

// settle takes from each spool what the run has used and the ledger does not have. A spool that was weighed after the
// end keeps its weight. What had left the spool before it was weighed during the run comes and goes without a change
// of the spool: more is first what an earlier end or report had said of that time, less is first what the run took
// after it. Opening the run again undoes what its ends took, before a weighing and after it.
func (m *correctionModel) settle(r *modelRun, used map[int]int, how string) {
	again := how != "end"
	for spool := range m.ids {
		rest := used[spool] - r.entries[spool]
		r.entries[spool] = used[spool]
		if rest == 0 {
			continue
		}
		scales := m.scales[spool]
		weighed := slices.IndexFunc(scales, func(at int) bool { return at > r.ended })
		if weighed >= 0 && again {
			r.balance(spool, weighed, rest)
			m.take(r, spool, modelUse{grams: rest, kept: rest})
			continue
		}
		kept, last := 0, len(scales)-1
		at, missing := last, 0
		if b := r.balances[spool]; b != nil {
			at, missing = b.weighing, b.most-b.total
		}
		switch {
		case last < 0:
		case how == "reopen":
			kept = -r.endsBefore(spool, scales[last])
		case rest > 0:
			kept = min(rest, missing)
		default:
			kept = min(0, rest+max(0, r.usedSince(spool, scales[last])))
		}
		if kept != 0 {
			r.balance(spool, at, kept)
		}
		m.take(r, spool, modelUse{grams: rest, kept: kept})
	}
}

func (r *modelRun) used() map[int]int {
	used := map[int]int{}
	for _, material := range r.materials {
		used[material.spool] += max(material.actual, 0)
	}
	return used
}

// end ends a run, with a figure for each material.
func (m *correctionModel) end(r *modelRun) {
	operation := []string{"complete", "complete", "fail", "cancel"}[m.IntN(4)]
	field := "wasted_grams"
	body := j{}
	if operation == "complete" {
		field = "actual_weight_grams"
	}
	var list []j
	for _, material := range r.materials {
		material.given, material.givenPrice = material.actual, material.price
		if material.actual < 0 || m.IntN(2) == 0 {
			material.actual = m.IntN(200)
			list = append(list, j{"id": material.id, field: material.actual})
		}
	}
	body["materials"] = list
	// Always sent: on a busy machine, the run takes more than a minute, which would be its hours.
	r.hours = m.IntN(10)
	body["actual_print_time_hours"] = r.hours
	switch operation {
	case "fail":
		body["reason"] = "clog"
	case "complete":
		r.good = m.IntN(r.quantity + 1)
		body["items"] = []j{{"id": r.item, "successful_quantity": r.good, "failed_quantity": r.quantity - r.good}}
	}
	m.post(r.path+"/"+operation, body)
	r.status = map[string]string{"complete": "completed", "fail": "failed", "cancel": "cancelled"}[operation]
	r.rate = m.rate
	m.settle(r, r.used(), "end")
	r.ended = m.clock
}

// correct changes some of what the end has recorded.
func (m *correctionModel) correct(r *modelRun) {
	body := j{}
	var list []j
	for _, material := range slices.Clone(r.materials) {
		change := j{"id": material.id}
		if m.IntN(2) == 0 {
			material.actual = m.IntN(300)
			change["actual_weight_grams"] = material.actual
		}
		to := m.IntN(len(m.ids))
		if m.IntN(3) == 0 && to != material.spool {
			change["to_spool_id"] = m.ids[to]
			from := material.spool
			material.spool, material.price, material.givenPrice = to, m.prices[to], m.prices[to]
			if r.reported[from] > 0 && !slices.ContainsFunc(r.materials,
				func(x *modelMaterial) bool { return x.spool == from }) {
				r.materials = append(r.materials, &modelMaterial{spool: from, price: m.prices[from],
					givenPrice: -1, actual: 0, given: -1})
			}
		}
		if m.IntN(4) == 0 {
			material.price = 1 + m.IntN(9)
			change["cost_per_gram"] = material.price
		}
		if len(change) > 1 {
			list = append(list, change)
		}
	}
	body["materials"] = list
	if m.IntN(3) == 0 {
		r.hours = m.IntN(20)
		body["actual_print_time_hours"] = r.hours
	}
	if m.IntN(2) == 0 {
		r.good = m.IntN(r.quantity + 1)
		body["items"] = []j{{"id": r.item, "successful_quantity": r.good, "failed_quantity": r.quantity - r.good}}
	}
	a := m.post(r.path+"/correct", body)
	for n := range r.materials { // also new ones, in another order
		id, spool := a.Text(fmt.Sprintf("materials.%d.id", n)), a.Text(fmt.Sprintf("materials.%d.spool_id", n))
		if !slices.ContainsFunc(r.materials, func(x *modelMaterial) bool { return x.id == id }) {
			i := slices.IndexFunc(r.materials, func(x *modelMaterial) bool { return x.id == "" && m.ids[x.spool] == spool })
			r.materials[i].id = id
		}
	}
	m.settle(r, r.used(), "correct")
}

func (m *correctionModel) reopen(r *modelRun) {
	m.post(r.path+"/reopen", j{})
	r.status, r.hours = "in_progress", -1
	for _, material := range r.materials {
		material.actual, material.price = material.given, material.givenPrice
		material.given = -1
	}
	m.settle(r, r.reported, "reopen")
}

// exchange lets another spool take the place of a material, which has used a stated weight.
func (m *correctionModel) exchange(r *modelRun) {
	material := r.materials[m.IntN(len(r.materials))]
	to := m.IntN(len(m.ids))
	if material.exchanged || to == material.spool || len(r.materials) > 8 {
		return
	}
	material.actual, material.exchanged = m.IntN(100), true
	a := m.post(r.path+"/materials/"+material.id+"/exchange", j{"spool_id": m.ids[to], "used_grams": material.actual})
	r.materials = append(r.materials, &modelMaterial{id: a.Text(fmt.Sprintf("materials.%d.id", len(r.materials))),
		spool: to, price: m.prices[to], givenPrice: m.prices[to], actual: -1, given: -1})
}

// check compares all with the model.
func (m *correctionModel) check() {
	t := m.t
	for spool, id := range m.ids {
		testkit.Equal(t, remaining(t, m.c, id), fmt.Sprint(m.left[spool]), "grams of spool %d", spool+1)
		balanced(t, m.c, id)
	}
	produced := make([]int, len(m.items))
	for _, r := range m.runs {
		want := map[string]string{"status": r.status, "actual_total_filament_grams": "null", "cost": "null"}
		if r.status != "in_progress" {
			grams, cost := 0, 0
			for _, material := range r.materials {
				grams += material.actual
				if material.price < 0 {
					material.price = m.prices[material.spool] // frozen at the end
				}
				cost += material.actual * material.price
			}
			want["actual_total_filament_grams"] = fmt.Sprint(grams)
			want["cost_parts.machine"] = "null"
			wasted := big.NewRat(int64(cost), 1)
			if r.status == "completed" {
				wasted = big.NewRat(int64(cost*(r.quantity-r.good)), int64(r.quantity))
				produced[r.orderItem] += r.good
			}
			want["cost_parts.waste"] = decimal(wasted)
			if r.hours >= 0 {
				want["cost_parts.machine"] = fmt.Sprint(r.hours * r.rate)
				cost += r.hours * r.rate
			}
			want["cost"] = fmt.Sprint(cost)
		}
		m.c.Get(t, r.path).Want(200).Shows(want)
	}
	a := m.c.Get(t, m.order).Want(200)
	for i, n := range produced {
		testkit.Equal(t, a.Text(fmt.Sprintf("items.%d.produced", i)), fmt.Sprint(n), "pieces of item %d", i)
	}
	testkit.Equal(t, a.Text("status"), "in_production", "status of the order")
}

// decimal returns the number as the API shows it: with at most six decimals, half away from zero.
func decimal(n *big.Rat) string {
	text := strings.TrimRight(n.FloatString(6), "0")
	return strings.TrimSuffix(text, ".")
}
