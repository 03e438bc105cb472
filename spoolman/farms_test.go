package spoolman_test

import (
	"bytes"
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
	"time"

	"spoolwright/auth/archive"
	"spoolwright/db"
	"spoolwright/tests/testkit"
)

var (
	farmCount = flag.Int("farms", 0, "number of random farms of TestGramsOfFarms; 0 chooses it")
	farmFirst = flag.Uint64("farms.first", 1, "the seed of the first farm of TestGramsOfFarms; 0 chooses a random one")
	farmSeed  = flag.Uint64("farms.seed", 0, "the seed of the only farm of TestGramsOfFarms")
)

// TestGramsOfFarms holds the program to docs/where-grams-go.md in random farms, each a tenant with two printers, some
// spools, and some runs. Printers report before, during, between and after runs, twice, late or never; spools are
// changed in the middle of a print; people deduct, weigh, reverse and move what was recorded, end runs with figures or
// without, correct and reopen them, and let another spool go on. Two oracles tell where each gram must be:
//
//   - A model in Go, which follows the documented rules with integers.
//   - In every second farm, the scale: what the printers really used. There, everybody tells the truth, and what a
//     printer does not report, a person states at the end of the run. Then the weights, the use and the costs of runs,
//     and the usage report are those of the prints, by whatever rule.
//
// The farms are always the same ones, so that the test fails only after a change. A failure names the seed of the
// farm, and -farms.seed runs only that one. A long run of other farms is:
//
//	go test ./spoolman -run TestGramsOfFarms -timeout 0 -farms.first 0 -farms 10000
func TestGramsOfFarms(t *testing.T) {
	t.Parallel()
	api := start(t)
	first, count := *farmFirst, cmp.Or(*farmCount, testkit.InCI(testkit.InRigs(20, 60), 500))
	if first == 0 {
		first = rand.Uint64()
	}
	if *farmSeed != 0 {
		first, count = *farmSeed, 1
	}
	var next, failures atomic.Int64
	testkit.Concurrently(min(4, count), func(int) {
		for n := next.Add(1) - 1; n < int64(count) && failures.Load() < 3; n = next.Add(1) - 1 {
			f := &gramFarm{Rand: rand.New(rand.NewPCG(first+uint64(n), 0)), api: api, at: map[string]int{}}
			if err := f.run(t); err != nil {
				failures.Add(1)
				t.Errorf("-farms.seed %d: %v\n%s", first+uint64(n), err, strings.Join(f.log, "\n"))
			}
		}
	})
	t.Logf("%d farms", min(next.Load(), int64(count)))
}

// micro is an amount in millionths: of a gram, or of a gram's price.
type micro int64

const gram micro = 1_000_000

func (m micro) String() string {
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	s := strings.TrimRight(fmt.Sprintf("%d.%06d", m/gram, m%gram), "0")
	return sign + strings.TrimSuffix(s, ".")
}

// number returns the amount in JSON.
func (m micro) number() json.Number { return json.Number(m.String()) }

func parseMicro(s string) micro {
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	n, err := strconv.ParseInt(whole+(fraction + "000000")[:6], 10, 64)
	if err != nil || len(fraction) > 6 {
		panic(farmError(fmt.Sprintf("%q is no amount", s)))
	}
	if strings.HasPrefix(s, "-") {
		n = -n
	}
	return micro(n)
}

// farmError is what a method of gramFarm panics with when the program and an oracle disagree.
type farmError string

// gramFarm is a random farm and what the oracles know of it.
type gramFarm struct {
	*rand.Rand
	api     *testkit.API
	user    *testkit.Client
	keys    [3]*testkit.Client // of the printers, and of none
	printer [2]string
	product string
	bill    [2]micro       // what a piece of the product takes of each filament
	honest  bool           // whether the scale is an oracle
	clock   int            // counts what happens
	ticks   []time.Time    // when the clock had a value
	at      map[string]int // the clock at the use that an entry reverses or moves, by the id of the entry
	spools  []*gramSpool
	runs    []*gramRun
	log     []string
	reports int // sent with an Idempotency-Key
}

// gramSpool is a spool in the model.
type gramSpool struct {
	id          string
	number      int
	filament    int // 0 or 1, an index of gramFarm.bill
	net, left   micro
	price       micro // of a gram; -1 is unknown
	used        micro // in the usage report
	corrected   micro // in the usage report, beside used
	printer     int   // in whose slot it is, or -1
	entry       gramEntry
	begun       int   // when the entry began
	start, grew micro // of the entry: the weight before it, and what it has taken
	outside     []outsideUse
	weighings   []*weighing
	scale       micro // what is really left
}

// weighing sets the grams of a spool, by the scale or an edit. Later changes of an earlier time are balanced at it.
type weighing struct {
	at         int
	expected   micro // what the spool should have had
	balanced   micro // by entries at the weighing
	isReversed bool
}

// since returns the first weighing of the spool after a time that was not reversed, or nil.
func (s *gramSpool) since(at int) *weighing {
	for _, w := range s.weighings {
		if w.at > at && !w.isReversed {
			return w
		}
	}
	return nil
}

// balance adds grams to the spool at the weighing, because of an entry of the run, which may be nil.
func (s *gramSpool) balance(w *weighing, grams micro, r *gramRun) {
	w.balanced += grams
	w.expected -= grams
	s.corrected -= grams
	s.outside = append(s.outside, outsideUse{w.at, -grams, true})
	if r != nil {
		b := r.balances[w]
		if b == nil {
			b = &runBalance{spool: s}
			r.balances[w] = b
		}
		b.total += grams
		b.most = max(b.most, b.total)
		last := &r.uses[len(r.uses)-1]
		last.kept, last.at = grams, w
	}
}

// before lets do change the spool at a time. If the spool was weighed since, it keeps its weight.
func (s *gramSpool) before(at int, r *gramRun, do func()) {
	w, left := s.since(at), s.left
	if w == nil {
		do()
		return
	}
	s.left = w.expected
	do()
	change := s.left - w.expected
	s.left = left
	if change != 0 {
		s.balance(w, -change, r)
	}
}

// runBalance is what entries of a run have changed at a weighing.
type runBalance struct {
	spool       *gramSpool
	total, most micro
}

// runUse is what a run took from a spool, without use that others had recorded. The run has a balance of kept grams
// at a weighing.
type runUse struct {
	spool       *gramSpool
	clock       int
	grams, kept micro
	at          *weighing // or nil
	printed     bool
}

// use adds a use of the run at the time of the farm.
func (f *gramFarm) use(r *gramRun, s *gramSpool, grams micro, printed bool) {
	r.uses = append(r.uses, runUse{spool: s, clock: f.clock, grams: grams, printed: printed})
}

// gramEntry tells which reports are one entry of the ledger: those of a caller, printer and run. It is the zero value
// after any other change of the spool.
type gramEntry struct {
	caller, printer int
	run             *gramRun
	covered, open   bool
}

// outsideUse is use without a run. Reports have the time of the first one in the entry of the ledger, which ends when
// a run with the spool starts.
type outsideUse struct {
	at        int
	grams     micro
	corrected bool // by weighing or an edit, which is no use in reports
}

// gramRun is a production run in the model.
type gramRun struct {
	path, status   string
	printer        int // or -1
	started, ended int // by the clock of the farm, or 0
	completed      int // when an update set the status to completed, or 0
	firstReport    int // or 0
	deducted, aged bool
	hidden, gone   bool
	pieces         int // of the product
	materials      []*gramMaterial
	used           map[*gramSpool]micro
	reported       map[*gramSpool]micro
	counted        map[*gramSpool]int   // when the end of the run has counted use outside of it
	short, covered map[*gramSpool]micro // what was not there, and what was reported after a person had stated the use
	total, cost    micro                // of the filament; a cost of -1 is unknown
	really, held   map[*gramSpool]micro // what was printed, and what of it the printer has not reported yet
	lost           map[*gramSpool]bool  // whether the printer never reports a part of it
	raced          bool                 // whether nobody knows which reports came after the end
	mended         bool                 // whether its end was corrected or taken back

	// What the end of the run has counted of the use outside of it.
	ofOutside map[*gramSpool]countedUse
	balances  map[*weighing]*runBalance
	uses      []runUse
}

// weighing returns the last weighing of the spool until the end of the run, at which use of the run was balanced or
// that was during the run, or nil. at is the weighing at which more is balanced. ends is what the ends of the run took
// before the last one, and since what the run took after it.
func (r *gramRun) weighing(s *gramSpool, end int) (at *weighing, missing, ends, since micro) {
	at, missing = r.own(s)
	last := at
	for _, w := range s.weighings {
		if r.started > 0 && w.at > r.started && w.at <= end && !w.isReversed && (last == nil || w.at > last.at) {
			last = w
		}
	}
	for _, u := range r.uses {
		kept := u.kept
		if u.at == nil || u.at.isReversed {
			kept = 0
		}
		switch {
		case u.spool != s || last == nil:
		case u.clock > last.at:
			since += u.grams - kept
			if !u.printed {
				ends += kept
			}
		case !u.printed:
			ends += u.grams
		}
	}
	return cmp.Or(at, last), missing, ends, since
}

// own returns the newest weighing of the spool at which the run has balanced something, and the grams of the run
// before it that the run no longer has. The weighing may be nil.
func (r *gramRun) own(s *gramSpool) (newest *weighing, missing micro) {
	for w, b := range r.balances {
		if b.spool == s && !w.isReversed && (newest == nil || w.at > newest.at) {
			newest, missing = w, b.most-b.total
		}
	}
	return newest, missing
}

// countedUse is use outside of a run that the run counts as its own: grams, of which weighing and edits found a part.
type countedUse struct{ grams, corrected micro }

type gramMaterial struct {
	id               string
	spool            *gramSpool
	estimate, actual micro // -1 is unknown
	weighed          bool
	price            micro
	reported         bool // whether printers reported actual
	exchanged        bool
	sent, scale      micro // what actual is without the weights of the spool, and by these
	given, was       micro // sent and price before the end of the run
}

// material returns a new material.
func material(s *gramSpool, estimate, price micro) *gramMaterial {
	return &gramMaterial{spool: s, estimate: estimate, actual: -1, price: price, sent: -1, given: -1, was: -1}
}

func (f *gramFarm) failf(format string, args ...any) { panic(farmError(fmt.Sprintf(format, args...))) }

// run lets the farm work and checks what has become of it.
func (f *gramFarm) run(t *testing.T) (err error) {
	defer func() {
		if failure := recover(); failure != nil {
			text, ok := failure.(farmError)
			if !ok {
				panic(failure)
			}
			err = fmt.Errorf("%s", text)
		}
	}()
	f.open(t)
	for range 10 + f.IntN(30) {
		f.tick()
		f.step()
	}
	if f.honest {
		f.finish()
	}
	f.check()
	return nil
}

// tick lets time pass.
func (f *gramFarm) tick() {
	f.clock++
	f.ticks = append(f.ticks, time.Now())
}

// open creates the farm.
func (f *gramFarm) open(t *testing.T) {
	tenant := f.api.Tenant(t)
	f.honest = f.IntN(2) == 0
	f.user = tenant.User(t, "admin")
	for i := range f.keys {
		body := j{"name": fmt.Sprint("key ", i), "role": "printer"}
		if i < 2 {
			// A report loads the spool into a printer with one slot.
			f.printer[i] = f.created("/api/v1/printers", j{"name": fmt.Sprint("printer ", i), "slots": 4 - 3*i})
			body["printer_id"] = f.printer[i]
		}
		a := f.want(f.user, "POST", "/api/v1/api-keys", body, 201)
		f.keys[i] = (&testkit.Client{API: f.api}).With("X-API-Key", a.text("key"))
	}
	for range 2 + f.IntN(3) {
		f.addSpool()
	}
	f.bill = [2]micro{f.grams(100), f.grams(100)}
	f.product = f.created("/api/v1/products", j{"name": "Lamp", "materials": []j{
		{"material_type": "PLA", "color": "Black", "weight_grams": f.bill[0].number()},
		{"material_type": "PLA", "color": "Red", "weight_grams": f.bill[1].number()}}})
}

// grams returns a random amount, at most the maximum and more than 0.
func (f *gramFarm) grams(most int) micro {
	switch f.IntN(8) {
	case 0:
		return 1 + micro(f.Int64N(int64(most)*int64(gram)))
	case 1:
		return gram / 2 * micro(1+f.IntN(2*most))
	}
	return gram * micro(1+f.IntN(most))
}

func (f *gramFarm) chance(percent int) bool { return f.IntN(100) < percent }

func (f *gramFarm) addSpool() {
	s := &gramSpool{number: len(f.spools) + 1, filament: f.IntN(2), net: 1000 * gram, price: -1, printer: -1}
	s.left = s.net
	switch f.IntN(4) {
	case 0:
		s.left = f.grams(1000)
	case 1:
		s.left = f.grams(40)
	}
	s.scale = s.left
	body := j{"material_type": "PLA", "color": []string{"Black", "Red"}[s.filament], "diameter_mm": 1.75,
		"net_weight_grams": s.net.number(), "remaining_weight_grams": s.left.number(), "spool_weight_grams": 200}
	if f.chance(85) {
		price := 1 + f.IntN(100)
		body["purchase_price"], s.price = price, micro(price)*gram/1000
	}
	s.id = f.created(spools, body)
	f.spools = append(f.spools, s)
}

// step does something at random.
func (f *gramFarm) step() {
	s := f.spools[f.IntN(len(f.spools))]
	open := f.runsThat(func(r *gramRun) bool { return r.isPrinting() })
	ended := f.runsThat(func(r *gramRun) bool { return !r.hidden && r.deducted })
	closed := f.runsThat(func(r *gramRun) bool { return !r.hidden && r.isClosed() })
	pending := f.runsThat(func(r *gramRun) bool { return !r.hidden && r.status == "pending" })
	var r *gramRun
	if len(open) > 0 {
		r = open[f.IntN(len(open))]
	}
	switch n := f.IntN(100); {
	case n < 14 || len(f.runs) == 0:
		f.addRun()
	case n < 20:
		if len(pending) > 0 {
			f.startRun(pending[f.IntN(len(pending))])
		}
	case n < 52:
		if f.honest {
			if r != nil {
				f.print(r)
			}
		} else {
			f.reportAnything(s)
		}
	case n < 57:
		f.deduct(s)
	case n < 60:
		f.correct(s)
	case n < 62:
		f.weigh(s)
	case n < 63 && !f.honest:
		f.edit(s)
	case n < 66:
		f.load(s)
	case n < 67:
		f.addSpool()
	case n < 69:
		f.setPrice(s)
	case n < 71:
		if r != nil {
			f.pause(r)
		}
	case n < 73 && r != nil && !f.honest:
		f.changeMaterials(r)
	case n < 74 && r != nil && !f.honest:
		f.movePrinter(r)
	case n < 76 && !f.honest:
		f.remove()
	case n < 79 && r != nil:
		f.race(r)
	case n < 80 && len(ended) > 0:
		f.endAgain(ended[f.IntN(len(ended))])
	case n < 83 && len(ended) > 0:
		f.correctEnd(ended[f.IntN(len(ended))])
	case n < 85 && len(ended) > 0:
		f.takeBackEnd(ended[f.IntN(len(ended))])
	case n < 86 && r != nil && len(r.materials) > 0 && !f.honest:
		f.exchange(r)
	case n < 88 && !f.honest && len(ended) > 0:
		f.age(ended[f.IntN(len(ended))])
	case n < 89 && !f.honest && len(pending) > 0:
		f.end(pending[f.IntN(len(pending))])
	case n < 91 && !f.honest && (r != nil || len(closed) > 0):
		if len(closed) == 0 || r != nil && f.chance(50) {
			f.close(r)
		} else if r := closed[f.IntN(len(closed))]; f.chance(60) {
			f.end(r)
		} else {
			f.reopen(r)
		}
	case n < 93:
		f.checkReserved()
		if r != nil {
			f.checkRun(r)
		}
	case r != nil:
		f.end(r)
	}
}

func (f *gramFarm) runsThat(are func(*gramRun) bool) (all []*gramRun) {
	for _, r := range f.runs {
		if !r.gone && are(r) {
			all = append(all, r)
		}
	}
	return all
}

func (r *gramRun) isPrinting() bool {
	return !r.hidden && (r.status == "in_progress" || r.status == "paused")
}

// isClosed returns whether an update has set a final status, so that no filament is deducted.
func (r *gramRun) isClosed() bool { return !r.deducted && r.status != "pending" && !r.isOpen() }

func (r *gramRun) of(s *gramSpool) (all []*gramMaterial) {
	for _, m := range r.materials {
		if m.spool == s {
			all = append(all, m)
		}
	}
	return all
}

func (f *gramFarm) addRun() {
	r := &gramRun{status: "pending", printer: f.IntN(5)%3 - 1, cost: -1,
		used: map[*gramSpool]micro{}, reported: map[*gramSpool]micro{}, short: map[*gramSpool]micro{},
		covered: map[*gramSpool]micro{}, really: map[*gramSpool]micro{},
		held: map[*gramSpool]micro{}, lost: map[*gramSpool]bool{}, counted: map[*gramSpool]int{},
		ofOutside: map[*gramSpool]countedUse{}, balances: map[*weighing]*runBalance{}}
	if f.honest {
		r.printer = f.IntN(2)
	}
	if f.chance(80) && f.isFree(r.printer) {
		r.status, r.started = "in_progress", f.clock
	}
	body := j{"status": r.status}
	if r.printer >= 0 {
		body["printer_id"] = f.printer[r.printer]
	}
	var list []j
	for _, s := range f.some() {
		m := material(s, -1, s.price)
		item := j{"spool_id": s.id}
		if f.chance(85) {
			m.estimate = f.grams(200)
			item["estimated_weight_grams"] = m.estimate.number()
		}
		r.materials, list = append(r.materials, m), append(list, item)
	}
	if len(list) == 0 || f.chance(20) {
		r.pieces = 1 + f.IntN(3)
		body["items"] = []j{{"product_id": f.product, "quantity": r.pieces}}
	}
	body["materials"] = list
	if r.status == "in_progress" {
		f.flush(r.printer)
	}
	r.path = productionRuns + "/" + f.created(productionRuns, body)
	f.runs = append(f.runs, r)
}

// some returns a few spools, seldom one twice.
func (f *gramFarm) some() (all []*gramSpool) {
	for range []int{0, 1, 1, 1, 2, 2, 3}[f.IntN(7)] {
		s := f.spools[f.IntN(len(f.spools))]
		if !slices.Contains(all, s) || !f.honest && f.chance(40) {
			all = append(all, s)
		}
	}
	return all
}

// isFree returns whether no run prints on the printer.
func (f *gramFarm) isFree(printer int) bool {
	return printer < 0 || len(f.runsThat(func(r *gramRun) bool {
		return (r.status == "in_progress" || r.status == "paused") && !r.deducted && r.printer == printer
	})) == 0
}

func (f *gramFarm) startRun(r *gramRun) {
	if !f.isFree(r.printer) {
		return
	}
	f.flush(r.printer)
	f.want(f.user, "POST", r.path+"/start", nil, 200)
	r.status, r.started = "in_progress", cmp.Or(r.started, f.clock)
}

// pause pauses a run, or goes on with it. Seldom, the run waits again.
func (f *gramFarm) pause(r *gramRun) {
	status := map[string]string{"in_progress": "paused", "paused": "in_progress"}[r.status]
	if f.chance(20) && !f.honest {
		status = "pending"
	}
	f.want(f.user, "PATCH", r.path, j{"status": status}, 200)
	r.status = status
}

// close sets a final status, which deducts nothing.
func (f *gramFarm) close(r *gramRun) {
	r.status = []string{"completed", "completed", "failed", "cancelled"}[f.IntN(4)]
	f.want(f.user, "PATCH", r.path, j{"status": r.status}, 200)
	if r.status == "completed" {
		r.completed = cmp.Or(r.completed, f.clock)
	}
}

// reopen sets the status back.
func (f *gramFarm) reopen(r *gramRun) {
	if f.isFree(r.printer) {
		r.status = "in_progress"
		f.want(f.user, "PATCH", r.path, j{"status": r.status}, 200)
		r.completed = 0
	}
}

func (f *gramFarm) movePrinter(r *gramRun) {
	if printer := f.IntN(2); r.printer != printer && f.isFree(printer) {
		f.want(f.user, "PATCH", r.path, j{"printer_id": f.printer[printer]}, 200)
		r.printer = printer
	}
}

// remove removes a run, or restores it. Only what used no filament is gone.
func (f *gramFarm) remove() {
	all := f.runsThat(func(*gramRun) bool { return true })
	if len(all) == 0 {
		return
	}
	r := all[f.IntN(len(all))]
	switch {
	case !r.hidden:
		f.want(f.user, "DELETE", r.path, nil, 204)
		r.hidden = true
		r.gone = !r.deducted && !f.isInLedger(r)
	case r.deducted || !r.isOpen() || f.isFree(r.printer):
		f.want(f.user, "POST", r.path+"/restore", nil, 200)
		r.hidden = false
	}
}

func (r *gramRun) isOpen() bool { return r.status == "in_progress" || r.status == "paused" }

// isInLedger returns whether an entry of the ledger names the run.
func (f *gramFarm) isInLedger(r *gramRun) bool { return len(r.reported) > 0 || len(r.used) > 0 }

// changeMaterials adds a material to a run, or records what a material used.
func (f *gramFarm) changeMaterials(r *gramRun) {
	if len(r.materials) == 0 || f.chance(40) {
		s := f.spools[f.IntN(len(f.spools))]
		m := material(s, f.grams(100), s.price)
		m.id = f.created(r.path+"/materials", j{"spool_id": s.id, "estimated_weight_grams": m.estimate.number()})
		r.materials = append(r.materials, m)
		return
	}
	f.checkRun(r)
	m := r.materials[f.IntN(len(r.materials))]
	path := r.path + "/materials/" + m.id
	if f.chance(50) {
		m.actual = f.grams(100)
		m.sent, m.weighed = m.actual, false
		f.want(f.user, "PATCH", path, j{"actual_weight_grams": m.actual.number(), "spool_weight_before_grams": nil,
			"spool_weight_after_grams": nil}, 200)
		return
	}
	m.actual, m.weighed = f.grams(100), true
	m.scale = m.actual
	f.want(f.user, "PATCH", path, j{"spool_weight_before_grams": (m.actual + 7*gram).number(),
		"spool_weight_after_grams": 7}, 200)
}

func (f *gramFarm) setPrice(s *gramSpool) {
	price := 1 + f.IntN(100)
	f.want(f.user, "PATCH", spools+"/"+s.id, j{"purchase_price": price}, 200)
	s.price, s.entry = micro(price)*gram/1000, gramEntry{}
}

func (f *gramFarm) load(s *gramSpool) {
	printer := f.IntN(2)
	if s.printer == printer {
		f.unload(s)
		return
	}
	// The first slot of the first printer is enough: what is in it is unloaded.
	f.want(f.user, "PUT", "/api/v1/printers/"+f.printer[printer]+"/slots/1", j{"spool_id": s.id}, 200)
	f.loaded(printer, s)
}

func (f *gramFarm) unload(s *gramSpool) {
	f.want(f.user, "PUT", "/api/v1/printers/"+f.printer[s.printer]+"/slots/1", j{"spool_id": nil}, 200)
	s.printer, s.entry = -1, gramEntry{}
}

// loaded records that the spool is in the first slot of the printer. That changes the locations of spools.
func (f *gramFarm) loaded(printer int, s *gramSpool) {
	for _, other := range f.spools {
		if other.printer == printer {
			other.printer, other.entry = -1, gramEntry{}
		}
	}
	s.printer, s.entry = printer, gramEntry{}
}

func (f *gramFarm) deduct(s *gramSpool) {
	grams := f.grams(60)
	body := j{"weight_grams": grams.number()}
	path := spools + "/" + s.id + "/deduct"
	short := max(grams-s.left, 0)
	if f.honest && grams > s.scale {
		return
	}
	if short > 0 {
		if f.chance(50) || f.honest {
			f.want(f.user, "POST", path, body, 400)
			return
		}
		body["allow_shortfall"] = true
	}
	f.want(f.user, "POST", path, body, 200)
	s.left -= grams - short
	s.scale -= grams
	f.changedOutside(s, grams, false)
}

// correct reverses an entry of the spool's ledger, or moves its use to another spool.
func (f *gramFarm) correct(s *gramSpool) {
	all := f.get(spools + "/" + s.id + "/usage?limit=100").list("items")
	e := all[f.IntN(len(all))]
	for range 3 { // rather one that can be corrected
		if e.text("run_id") == "" && e.text("reverses_id") == "" && e.text("reversed_by_id") == "" {
			break
		}
		e = all[f.IntN(len(all))]
	}
	path := spools + "/" + s.id + "/usage/" + e.text("id")
	kind, change := e.text("kind"), signed(e, "change_grams")
	use := signed(e, "shortfall_grams") - change
	other := f.spools[f.IntN(len(f.spools))]
	moves := f.chance(40) && other != s
	if f.honest && (kind != "deducted" || moves && other.scale < use) {
		return // the scale would no longer tell the truth
	}
	created := f.clockAt(e.text("created_at"))
	at, ok := f.at[e.text("id")]
	if !ok {
		at = created
	}
	code, perhaps := "", false
	switch counts, unclear := f.counts(s, at, created); {
	case e.text("reversed_by_id") != "":
		code = "USAGE_ALREADY_REVERSED"
	case e.text("reverses_id") != "", e.text("weighing_id") != "", kind == "created":
		code = "USAGE_NOT_REVERSIBLE"
	case e.text("run_id") != "", counts, strings.Contains(e.text("reason"), "ounted in production run"):
		code = "USAGE_OF_RUN"
	case moves && (kind != "deducted" && kind != "printed" || use <= 0):
		code, perhaps = "USAGE_NOT_MOVABLE", unclear
	default:
		perhaps = unclear
	}
	var body any
	path += "/reverse"
	if moves {
		path, body = strings.TrimSuffix(path, "reverse")+"move", j{"spool_number": other.number}
	}
	status, answer := f.send(f.user, "POST", path, body)
	if got := answer.text("code"); got != code && !(perhaps && got == "USAGE_OF_RUN") {
		f.failf("%s: the code is %q, want %q", path, got, code)
	}
	if status != 200 {
		return
	}
	changed := func(answer object, s *gramSpool, use, grams micro, corrected bool) {
		if s.since(at) == nil {
			s.scale -= use
		}
		s.before(at, nil, func() {
			if i := slices.IndexFunc(s.weighings, func(w *weighing) bool { return corrected && w.at == created }); i >= 0 {
				s.weighings[i].isReversed = true
				grams -= s.weighings[i].balanced
				s.balance(s.weighings[i], -s.weighings[i].balanced, nil)
			}
			s.left = min(max(s.left+grams, 0), 1_000_000*gram)
		})
		f.shows(answer, path, map[string]micro{"remaining_weight_grams": s.left})
		f.changedOutside(s, use, corrected)
		s.outside[len(s.outside)-1].at = at
		f.at[answer.text("id")] = at
	}
	reversed := answer
	if moves {
		reversed = answer["reversed"].(map[string]any)
	}
	changed(reversed, s, -use, -change, kind == "measured" || kind == "edited")
	if moves {
		changed(answer["recorded"].(map[string]any), other, use, -use, false)
	}
}

// clockAt returns what the farm's clock was at a time of the service.
func (f *gramFarm) clockAt(text string) int {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		f.failf("%v", err)
	}
	n, _ := slices.BinarySearchFunc(f.ticks, at, time.Time.Compare)
	return n
}

// counts returns whether a run counts use of a spool as its own, without being that of the entry; unclear means that
// the entry was made during the same tick as the end, or that the end was dated back.
func (f *gramFarm) counts(s *gramSpool, at, created int) (yes, unclear bool) {
	for _, r := range f.runs {
		counted, end := r.counted[s], cmp.Or(r.completed, r.counted[s])
		if counted == 0 || at <= r.started || at > end || created > counted {
			continue
		}
		if at == end || created == counted || r.aged && r.completed > 0 {
			unclear = true
		} else {
			yes = true
		}
	}
	return yes, unclear
}

// changedOutside records a change of a spool without a run, by the lost grams.
func (f *gramFarm) changedOutside(s *gramSpool, grams micro, corrected bool) {
	if corrected {
		s.corrected += grams
	} else {
		s.used += grams
	}
	s.outside = append(s.outside, outsideUse{f.clock, grams, corrected})
	s.entry = gramEntry{}
}

func (f *gramFarm) weigh(s *gramSpool) {
	left := f.grams(1000)
	if f.honest {
		for _, r := range f.runsThat(func(*gramRun) bool { return true }) {
			if r.held[s] > 0 || r.lost[s] && !r.deducted {
				return // its grams are not in the ledger yet
			}
		}
		left = s.scale
	}
	before := s.left
	f.want(f.user, "POST", spools+"/"+s.id+"/measure",
		j{"gross_grams": (left + 200*gram).number(), "confirmed": true}, 200)
	s.left = left
	s.weighings = append(s.weighings, &weighing{at: f.clock, expected: before})
	f.changedOutside(s, before-left, true)
}

func (f *gramFarm) edit(s *gramSpool) {
	left := f.grams(1200)
	before := s.left
	f.want(f.user, "PATCH", spools+"/"+s.id, j{"remaining_weight_grams": left.number()}, 200)
	if s.left = left; left != before {
		s.weighings = append(s.weighings, &weighing{at: f.clock, expected: before})
	}
	f.changedOutside(s, before-left, true)
}

// perMillimeter are the grams of a millimeter of PLA with a diameter of 1.75 mm and a density of 1.24 g/cm3.
var perMillimeter, _ = new(big.Rat).SetString("0.002982549525501809957225")

// reportAnything sends a report that may be of any spool, by any key.
func (f *gramFarm) reportAnything(s *gramSpool) {
	grams := f.grams(50)
	switch f.IntN(12) {
	case 0:
		grams = 0
	case 1, 2:
		grams = -grams / 2
	case 3:
		grams *= 5
	}
	caller := f.IntN(3)
	if f.chance(60) { // of a run that prints
		open := f.runsThat(func(r *gramRun) bool { return r.isPrinting() })
		if len(open) > 0 {
			r := open[f.IntN(len(open))]
			if r.printer >= 0 {
				caller = r.printer
			}
			if len(r.materials) > 0 {
				s = r.materials[f.IntN(len(r.materials))].spool
			}
		}
	}
	f.report(caller, s, grams)
}

// report sends a report, seldom as a length, or twice with the same key.
func (f *gramFarm) report(caller int, s *gramSpool, grams micro) {
	body := j{"use_weight": grams.number()}
	if !f.honest && f.chance(15) {
		mm := f.IntN(20000)
		used := new(big.Rat).Mul(perMillimeter, big.NewRat(int64(mm), 1))
		grams = parseMicro(used.FloatString(6))
		body = j{"use_length": mm}
	}
	c, times := f.keys[caller], 1
	if f.chance(25) {
		f.reports++
		c, times = c.With("Idempotency-Key", fmt.Sprint("report ", f.reports)), 1+f.IntN(3)
	}
	for range times {
		f.want(c, "PUT", fmt.Sprintf("/spoolman/api/v1/spool/%d/use", s.number), body, 200)
	}
	f.reported(caller, s, grams)
}

// reportingRun returns the run that a report belongs to, or nil. The printer is -1 if it is not known.
func (f *gramFarm) reportingRun(printer int, s *gramSpool) (found *gramRun) {
	for _, r := range f.runs { // there is at most one
		if printer >= 0 && r.printer == printer && r.isPrinting() {
			return r
		}
	}
	with := f.runsThat(func(r *gramRun) bool {
		return r.isPrinting() && len(r.of(s)) > 0 && (printer < 0 || r.printer < 0)
	})
	if len(with) == 1 {
		return with[0]
	} else if len(with) > 0 || printer < 0 {
		return nil
	}
	for _, r := range f.runs {
		printed := r.started > 0 || r.total > 0 || r.isClosed()
		late := r.deducted && !r.aged || r.isClosed() && !r.hidden && r.completed > 0
		if late && printed && r.printer == printer && (found == nil || r.endedAt() > found.endedAt()) {
			found = r
		}
	}
	return found
}

func (r *gramRun) endedAt() int {
	if r.aged {
		return -1
	}
	if r.deducted {
		return r.ended
	}
	return r.completed
}

// reported records a report in the model.
func (f *gramFarm) reported(caller int, s *gramSpool, grams micro) {
	printer := s.printer
	if caller < 2 {
		printer = caller
	}
	r := f.reportingRun(printer, s)
	if caller == 1 && s.printer != 1 {
		f.loaded(1, s)
	}
	if grams == 0 {
		s.entry = gramEntry{}
		return
	}
	if r != nil && printer < 0 {
		printer = r.printer
	}
	var own []*gramMaterial
	if r != nil {
		own = r.of(s)
	}
	covered := r != nil && r.deducted && len(own) > 0
	var fromReports micro
	for _, m := range own {
		if m.reported {
			covered = false
			fromReports += max(m.actual, 0)
		}
	}
	if r != nil && grams < 0 {
		used := r.used[s]
		if r.deducted && !covered {
			used = fromReports
		}
		if used+grams < 0 { // the run has not used so much
			r, covered = nil, false
		}
	}
	entry := gramEntry{caller, printer, r, covered, true}
	splits := r == nil && len(f.runsThat(func(r *gramRun) bool {
		return !r.deducted && len(r.of(s)) > 0 && max(r.started, r.completed) > s.begun
	})) > 0
	if s.entry != entry || splits {
		s.entry, s.begun, s.start, s.grew = entry, f.clock, s.left, 0
	}
	if r != nil {
		r.firstReport = cmp.Or(r.firstReport, f.clock)
	}
	if covered { // a person has stated the use
		r.reported[s] += grams
		r.covered[s] += grams
		return
	}
	if r != nil && r.deducted && s.since(r.endedAt()) != nil { // use before the weighing
		var short micro
		left := s.left
		s.before(r.endedAt(), r, func() {
			start := s.left
			s.left = min(max(start-grams, 0), max(start, s.net))
			short = max(grams-start, 0)
			grams = start - s.left + short
			f.use(r, s, grams, true)
			if s.left < start { // else the last entry is that of the balance
				s.begun, s.start, s.grew = f.clock, left+start-s.left, grams
			} else {
				s.entry = gramEntry{}
			}
		})
		f.reportedTo(r, s, grams, short)
		return
	}
	shortBefore, leftBefore := max(s.grew-s.start, 0), s.left
	s.grew += grams
	s.left = min(max(s.start-s.grew, 0), max(s.start, s.net))
	short := max(s.grew-s.start, 0)
	s.grew = s.start - s.left + short
	grams = leftBefore - s.left + short - shortBefore
	if r != nil {
		f.use(r, s, grams, true)
	}
	f.reportedTo(r, s, grams, short-shortBefore)
}

// reportedTo records a use that was reported for a run, or for none.
func (f *gramFarm) reportedTo(r *gramRun, s *gramSpool, grams, short micro) {
	s.used += grams
	if r == nil {
		s.outside = append(s.outside, outsideUse{s.begun, grams, false})
		return
	}
	r.used[s] += grams
	r.reported[s] += grams
	r.short[s] += short
	own := r.of(s)
	if len(own) == 0 {
		own = []*gramMaterial{material(s, -1, s.price)}
		own[0].reported = r.deducted
		r.materials = append(r.materials, own[0])
	}
	if r.deducted && grams != 0 {
		for _, m := range slices.Backward(own) {
			if m.reported && (grams > 0 || m.actual > 0) { // a correction may be more than the last material has
				more := max(grams, -max(m.actual, 0))
				m.actual = max(m.actual, 0) + more
				if grams -= more; grams == 0 {
					break
				}
			}
		}
		r.settle()
	}
}

// settle computes the use and the cost of a run that has ended.
func (r *gramRun) settle() {
	r.total, r.cost = 0, 0
	for _, m := range r.materials {
		if m.actual > 0 {
			r.total += m.actual
			if cost := m.cost(); cost < 0 {
				r.cost = -1
			} else if r.cost >= 0 {
				r.cost += cost
			}
		}
	}
}

// cost returns what a material of an ended run costs at its price, or else at that of its spool, or -1.
func (m *gramMaterial) cost() micro {
	if m.price < 0 && m.spool.price < 0 {
		return -1
	} else if m.price < 0 {
		return rounded(max(m.actual, 0) * m.spool.price)
	}
	return rounded(max(m.actual, 0) * m.price)
}

// reportedOf returns what was reported for a material, or -1. Reports fill the materials of a spool in order.
func (r *gramRun) reportedOf(m *gramMaterial) micro {
	rest, ok := r.reported[m.spool]
	if !ok {
		return -1
	}
	own := r.of(m.spool)
	for i, other := range own {
		share := min(max(rest, 0), max(other.estimate, 0))
		if i == len(own)-1 {
			share = max(rest, 0)
		}
		if other == m {
			return share
		}
		rest -= max(other.estimate, 0)
	}
	panic("not reached")
}

// outsideOf returns what has left the spool of a material without a run since the run started, and what of that are
// corrections.
func (r *gramRun) outsideOf(m *gramMaterial) (grams, corrected micro) {
	own := r.of(m.spool)
	if r.deducted || r.started == 0 || own[len(own)-1] != m {
		return 0, 0
	}
	for _, use := range m.spool.outside {
		if use.at > r.started && (r.completed == 0 || use.at < r.completed) {
			grams += use.grams
			if use.corrected {
				corrected += use.grams
			}
		}
	}
	_, back := r.own(m.spool)
	return max(grams-back, 0), max(corrected-back, 0)
}

// figure has the values of a material in the request that ends a run.
type figure struct {
	m       *gramMaterial
	grams   micro // or -1
	outside bool
}

// figures returns the values that a person sends for the materials of a run.
func (f *gramFarm) figures(r *gramRun, kind string) (all []figure) {
	if f.honest {
		for _, s := range f.spools {
			if r.lost[s] && len(r.of(s)) == 0 { // a spool of which nobody has heard
				m := material(s, -1, s.price)
				m.id = f.created(r.path+"/materials", j{"spool_id": s.id})
				r.materials = append(r.materials, m)
			}
		}
		knows := f.chance(30)
		for _, m := range r.materials {
			_, reported := r.reported[m.spool]
			if knows || r.lost[m.spool] || !reported && kind == "complete" {
				all = append(all, figure{m, r.really[m.spool], false})
			}
		}
		return all
	}
	how := f.IntN(4)
	for _, m := range r.materials {
		said := figure{m, -1, f.chance(20)}
		reported := max(r.reportedOf(m), 0)
		switch {
		case how == 0 || f.chance(15):
		case how == 1 && reported > 0:
			said.grams = f.part(reported) // less than what was reported
		case how == 2:
			said.grams = reported + f.grams(40)
		case f.chance(10):
			said.grams = 0
		default:
			said.grams = f.grams(150)
		}
		if said.grams >= 0 || said.outside {
			all = append(all, said)
		}
	}
	return all
}

// part returns a random part of an amount, in quarters of a gram.
func (f *gramFarm) part(most micro) micro {
	return micro(f.Int64N(int64(most))) / (gram / 4) * (gram / 4)
}

// taken is what the end of a run takes from a spool.
type taken struct {
	spool                          *gramSpool
	before, after, short, reported micro
}

// end ends a run in one of the ways.
func (f *gramFarm) end(r *gramRun) {
	kind := []string{"complete", "complete", "fail", "cancel"}[f.IntN(4)]
	if r.status == "pending" && f.chance(50) {
		kind = "cancel"
	}
	said := f.figures(r, kind)
	f.checkRun(r) // also learns the ids of materials
	path := r.path + "/" + kind
	status, answer := f.send(f.user, "POST", path, endBody(kind, said))
	all, want, ok := f.ended(r, kind, said)
	if !ok {
		if status != 400 {
			f.failf("%s: status %d, want 400", path, status)
		}
		return
	}
	if status != 200 {
		f.failf("%s: status %d, want 200", path, status)
	}
	slices.SortFunc(all, func(a, b taken) int { return strings.Compare(a.spool.id, b.spool.id) })
	list := answer.list("spools_updated")
	if len(list) != len(all) {
		f.failf("%s: spools_updated has %d spools, want %d", path, len(list), len(all))
	}
	for i, d := range all {
		f.shows(list[i], fmt.Sprint(path, " of spool ", d.spool.number), map[string]micro{"previous_weight": d.before,
			"new_weight": d.after, "deducted": d.before - d.after, "shortfall_grams": d.short,
			"reported_grams": d.reported})
	}
	var warned []string
	for _, w := range answer.list("warnings") {
		warned = append(warned, w.text("code")+" "+w.text("grams")+" "+w.text("spool_id"))
	}
	slices.Sort(warned)
	slices.Sort(want)
	if !slices.Equal(warned, want) {
		f.failf("%s: the warnings are %q, want %q", path, warned, want)
	}
	if f.chance(60) {
		f.flush(r.printer)
	}
}

// endBody returns the body of the request. A material is named by its spool, or else by its id.
func endBody(kind string, said []figure) any {
	if len(said) == 0 {
		return map[string]any{"complete": nil, "fail": j{"reason": "clog"}, "cancel": nil}[kind]
	}
	var list []j
	for _, s := range said {
		m := j{"spool_id": s.m.spool.id}
		if s.m.id != "" {
			m = j{"id": s.m.id}
		}
		if s.grams >= 0 && kind == "complete" {
			m["actual_weight_grams"] = s.grams.number()
		} else if s.grams >= 0 {
			m["wasted_grams"] = s.grams.number()
		}
		if s.outside {
			m["count_outside_use"] = true
		}
		list = append(list, m)
	}
	body := j{"materials": list}
	if kind == "fail" {
		body["reason"] = "clog"
	}
	return body
}

// ended ends a run in the model, and returns what it takes from spools, and the warnings. It returns false, and
// changes nothing, if nobody knows what a material of a completed run has used.
func (f *gramFarm) ended(r *gramRun, kind string, said []figure) (all []taken, warnings []string, ok bool) {
	status := map[string]string{"complete": "completed", "fail": "failed", "cancel": "cancelled"}[kind]
	if kind == "complete" && len(r.materials) == 0 || r.isClosed() && r.status != status {
		return nil, nil, false
	}
	used, from := map[*gramMaterial]micro{}, map[*gramMaterial]bool{} // from reports
	counts := map[*gramSpool]bool{}
	for _, m := range r.materials {
		u := figure{m, -1, false}
		if i := slices.IndexFunc(said, func(u figure) bool { return u.m == m }); i >= 0 {
			u = said[i]
		}
		counts[m.spool] = counts[m.spool] || u.outside
		reported := r.reportedOf(m)
		outside, _ := r.outsideOf(m)
		switch {
		case !m.weighed && u.grams >= 0:
			used[m] = u.grams
		case m.actual >= 0:
			used[m] = m.actual
		case reported < 0 && (!u.outside || outside == 0):
			if kind == "complete" {
				return nil, nil, false
			}
			used[m], from[m] = -1, true
		default:
			used[m], from[m] = max(reported, 0), true
			if u.outside {
				used[m] += outside
			}
		}
	}
	for i, m := range r.materials {
		s := m.spool
		if r.of(s)[0] != r.materials[i] {
			continue
		}
		var use, outside, corrected micro
		for _, m := range r.of(s) {
			use += max(used[m], 0)
			lost, weighed := r.outsideOf(m)
			outside, corrected = outside+lost, corrected+weighed
		}
		reported, known := r.reported[s]
		if use == 0 && !known && kind != "complete" {
			if outside > 0 {
				warnings = append(warnings, fmt.Sprint("USE_OUTSIDE_RUN ", outside, " ", s.id))
			}
			continue
		}
		d := taken{spool: s, before: s.left, reported: max(reported, 0)}
		rest, counted := use-r.used[s], micro(0)
		if counts[s] {
			counted = max(min(rest, outside), 0)
		}
		end := cmp.Or(r.completed, f.clock)
		weighed := s.since(end)
		if weighed != nil && rest != counted {
			warnings = append(warnings, fmt.Sprint("WEIGHED_SINCE ", rest, " ", s.id))
		}
		at, missing, _, since := r.weighing(s, end)
		f.use(r, s, rest-counted, false)
		if at != nil && weighed == nil {
			if kept := max(min(rest-counted, missing), 0); kept > 0 {
				s.balance(at, kept, r)
				s.left += kept
				warnings = append(warnings, fmt.Sprint("WEIGHED_SINCE ", kept, " ", s.id))
			}
		}
		s.before(end, r, func() {
			if counted > 0 { // out of the other entries, into that of the run
				s.left += counted
				r.counted[s] = f.clock
				corrected = min(corrected, counted)
				r.ofOutside[s] = countedUse{counted, corrected}
				f.changedOutside(s, -corrected, true)
				f.changedOutside(s, corrected-counted, false)
			}
			d.short = r.take(s, rest)
			if kept := max(rest+max(since, 0), -s.left); kept < 0 && at != nil && weighed == nil {
				s.balance(at, kept, r)
				s.left += kept
				warnings = append(warnings, fmt.Sprint("WEIGHED_DURING_RUN ", kept, " ", s.id))
			}
		})
		if d.short > 0 && weighed == nil {
			warnings = append(warnings, fmt.Sprint("FILAMENT_SHORTFALL ", d.short, " ", s.id))
		}
		if outside > counted {
			warnings = append(warnings, fmt.Sprint("USE_OUTSIDE_RUN ", outside-counted, " ", s.id))
		}
		if rest != 0 || !known {
			s.entry = gramEntry{}
		}
		d.after = s.left
		all = append(all, d)
	}
	for _, m := range r.materials {
		m.given, m.was = m.sent, m.price
		if i := slices.IndexFunc(said, func(u figure) bool { return u.m == m && u.grams >= 0 }); i >= 0 {
			m.sent = said[i].grams
		} else if !m.weighed && used[m] >= 0 {
			m.sent = used[m]
		}
		m.actual, m.reported = used[m], from[m]
	}
	r.freeze()
	r.status, r.deducted, r.ended = status, true, cmp.Or(r.completed, f.clock)
	r.settle()
	return all, warnings, true
}

// take lets a run take so much more from a spool, or less, and returns what the spool does not have of it.
func (r *gramRun) take(s *gramSpool, rest micro) (short micro) {
	if rest < 0 && s.left == 0 { // less was short
		short = -min(-rest, r.short[s])
	}
	start := s.left
	s.left -= rest - short
	if s.left < 0 {
		short, s.left = -s.left, 0
	}
	s.used += start - s.left + short
	r.used[s] += start - s.left + short
	r.short[s] += short
	return short
}

// freeze gives the materials the prices of their spools, unless they have others.
func (r *gramRun) freeze() {
	for _, m := range r.materials {
		if m.price < 0 {
			m.price = m.spool.price
		}
	}
}

// release lets a run count less of the use outside of it. That leaves the spool again without a run.
func (f *gramFarm) release(r *gramRun, s *gramSpool, keep micro) {
	had := r.ofOutside[s]
	keeps := countedUse{min(had.grams, keep), min(had.corrected, keep)}
	grams, corrected := had.grams-keeps.grams, had.corrected-keeps.corrected
	if r.ofOutside[s] = keeps; grams == 0 && corrected == 0 {
		return
	}
	s.left = max(s.left-grams, 0)
	f.changedOutside(s, corrected, true)
	f.changedOutside(s, grams-corrected, false)
	if keeps.grams == 0 {
		delete(r.counted, s)
	}
}

// correctEnd corrects what materials of a run that has ended have used.
func (f *gramFarm) correctEnd(r *gramRun) {
	f.checkRun(r)
	for _, m := range r.materials {
		if f.honest && r.held[m.spool] > 0 {
			return // the rest will be reported
		}
	}
	var list []j
	for _, m := range r.materials {
		if f.chance(40) {
			continue
		}
		grams := f.grams(150)
		if f.honest {
			grams = r.really[m.spool]
		}
		m.actual, m.sent, m.weighed, m.reported = grams, grams, false, false
		list = append(list, j{"id": m.id, "actual_weight_grams": grams.number()})
	}
	f.want(f.user, "POST", r.path+"/correct", j{"materials": list, "reason": "a typo"}, 200)
	r.mended = true
	r.freeze()
	for i, m := range r.materials {
		s := m.spool
		if r.of(s)[0] != r.materials[i] {
			continue
		}
		rest := r.actualOf(s) - r.used[s]
		byEnd := r.used[s] - r.reported[s] + r.covered[s]
		f.changeEnd(r, s, rest, max(byEnd+rest, 0), false)
	}
	r.settle()
	f.checkRun(r)
}

// takeBackEnd lets a run that has ended print again.
func (f *gramFarm) takeBackEnd(r *gramRun) {
	if !f.isFree(r.printer) {
		return
	}
	f.flush(r.printer) // before it prints again
	f.want(f.user, "POST", r.path+"/reopen", nil, 200)
	r.mended = true
	for i, m := range r.materials {
		if m.actual, m.price, m.reported = m.given, m.was, false; m.weighed {
			m.actual = m.scale
		}
		m.sent = m.given
		s := m.spool
		if r.of(s)[0] != r.materials[i] {
			continue
		}
		rest := max(r.reported[s], 0) - r.used[s] // covered reports can have returned more than there were
		f.changeEnd(r, s, rest, 0, true)
	}
	r.started = cmp.Or(r.started, r.firstReport)
	if r.status = "pending"; r.started > 0 {
		r.status = "in_progress"
	}
	r.aged, r.deducted, r.ended, r.completed = false, false, 0, 0
	f.checkRun(r)
}

// changeEnd changes what the end of a run has taken by rest grams, or takes it back, and keeps so much of what it has
// counted.
func (f *gramFarm) changeEnd(r *gramRun, s *gramSpool, rest, keep micro, back bool) {
	at, missing, ends, since := r.weighing(s, r.endedAt())
	released := max(r.ofOutside[s].grams-keep, 0)
	f.use(r, s, rest+released, false)
	weighed := s.since(r.endedAt())
	s.before(r.endedAt(), r, func() {
		if rest != 0 { // without a difference, the ledger gets no entry
			more, less := max(min(rest, missing), 0), min(rest+released+max(since, 0), 0)
			if back {
				more, less = max(-ends, 0), min(-ends, 0)
			}
			if at == nil || weighed != nil {
				more, less = 0, 0
			}
			s.left += more
			r.take(s, rest)
			less = max(less, min(released-s.left, 0))
			s.left += less
			if more+less != 0 {
				s.balance(at, more+less, r)
			}
			s.entry = gramEntry{}
		}
		f.release(r, s, keep)
	})
}

// exchange lets another spool take the place of a material.
func (f *gramFarm) exchange(r *gramRun) {
	f.checkRun(r)
	m := r.materials[f.IntN(len(r.materials))]
	next := f.spools[f.IntN(len(f.spools))]
	if m.exchanged || next == m.spool {
		return
	}
	body, reported := j{"spool_number": next.number}, r.reportedOf(m)
	stated := micro(-1)
	switch f.IntN(3) {
	case 0:
		stated = f.grams(100)
		body["used_grams"] = stated.number()
	case 1:
		stated = max(reported, 0) + m.spool.left
		body["until_empty"] = true
	default:
		if r.started == 0 && reported < 0 && m.actual < 0 {
			stated = 0
		}
	}
	f.want(f.user, "POST", r.path+"/materials/"+m.id+"/exchange", body, 200)
	used := max(reported, 0)
	if m.actual >= 0 {
		used = m.actual
	}
	if stated >= 0 {
		used, m.actual, m.sent, m.weighed = stated, stated, stated, false
	}
	other := material(next, -1, next.price)
	if m.estimate >= 0 {
		other.estimate, m.estimate = max(m.estimate-used, 0), min(m.estimate, used)
	}
	m.exchanged = true
	r.materials = append(r.materials, other)
	if at := m.spool.printer; at >= 0 && (r.printer < 0 || r.printer == at) {
		f.loaded(at, next)
	}
	f.checkRun(r)
}

// endAgain tries to end a run that has ended.
func (f *gramFarm) endAgain(r *gramRun) {
	for _, kind := range []string{"complete", "fail", "cancel"} {
		f.want(f.user, "POST", r.path+"/"+kind, endBody(kind, nil), 400)
	}
}

// age lets a run have ended so long ago that reports do not belong to it.
func (f *gramFarm) age(r *gramRun) {
	err := f.api.DB.Write(db.As(context.Background(), f.user.Actor), db.SQL(`
		update production_runs set deducted_at = deducted_at - interval '16 minutes',
			completed_at = completed_at - interval '16 minutes' where id = $1`, r.path[len(productionRuns)+1:]))
	if err != nil {
		f.failf("%v", err)
	}
	f.log = append(f.log, "16 minutes after the end of "+r.path)
	r.aged = true
}

// print uses filament for a run, in a farm where everybody tells the truth: of one of its spools, or of another one.
func (f *gramFarm) print(r *gramRun) {
	s := f.spools[f.IntN(len(f.spools))]
	if len(r.materials) > 0 && f.chance(80) {
		s = r.materials[f.IntN(len(r.materials))].spool
	}
	grams := f.grams(50)
	if grams > s.scale {
		return
	}
	s.scale -= grams
	r.really[s] += grams
	switch n := f.IntN(100); {
	case n < 15:
		r.held[s] += grams
	case n < 30:
		r.lost[s] = true
	default:
		f.report(r.printer, s, grams)
	}
}

// flush lets the printer report what it has kept since the end of its last run.
func (f *gramFarm) flush(printer int) {
	for _, r := range f.runs {
		if r.printer == printer && r.deducted {
			for _, s := range f.spools {
				if grams := r.held[s]; grams > 0 {
					f.report(printer, s, grams)
				}
			}
			clear(r.held)
		}
	}
}

// finish ends all runs, and lets all printers report what they have kept.
func (f *gramFarm) finish() {
	f.tick()
	for _, r := range f.runs {
		if r.isPrinting() && (len(r.materials) > 0 || len(r.really) > 0) {
			for !r.deducted {
				f.end(r)
			}
		}
		f.flush(r.printer)
	}
}

// race sends reports for a run at the same time, and perhaps its end. Whichever comes first, the result is the same.
func (f *gramFarm) race(r *gramRun) {
	var own []*gramSpool
	stated := f.chance(50)
	for _, m := range r.materials {
		_, known := r.reported[m.spool]
		others := f.runsThat(func(o *gramRun) bool { return o.isPrinting() && o.printer < 0 && len(o.of(m.spool)) > 0 })
		if m.spool.left < 300*gram || m.actual >= 0 || len(r.of(m.spool)) > 1 || !known && !stated || len(others) > 0 {
			return // after the end, the reports could be of others
		}
		own = append(own, m.spool)
	}
	if r.printer < 0 || r.status != "in_progress" || len(own) == 0 || len(r.lost) > 0 || len(r.held) > 0 {
		return
	}
	f.checkRun(r)
	type request struct {
		c            *testkit.Client
		method, path string
		body         any
		answer       *testkit.Response
		err          error
	}
	var all []*request
	used := map[*gramSpool]micro{}
	for range 1 + f.IntN(4) {
		s, grams := own[f.IntN(len(own))], gram*micro(1+f.IntN(20))
		if r.printer == 1 { // the last report would decide which spool is loaded
			s = own[0]
		}
		if s.scale < 300*gram && f.honest {
			return
		}
		used[s] += grams
		all = append(all, &request{c: f.keys[r.printer], method: "PUT",
			path: fmt.Sprintf("/spoolman/api/v1/spool/%d/use", s.number), body: j{"use_weight": grams.number()}})
	}
	var said []figure
	if stated {
		for _, m := range r.materials {
			grams := max(r.reported[m.spool]+used[m.spool]+micro(f.IntN(3)-1)*gram/2, 0)
			if f.honest {
				grams = r.really[m.spool] + used[m.spool]
			}
			said = append(said, figure{m, grams, false})
		}
	}
	ends := f.chance(60)
	if ends {
		all = append(all, &request{c: f.user, method: "POST", path: r.path + "/complete",
			body: endBody("complete", said)})
	}
	testkit.Concurrently(len(all), func(i int) {
		all[i].answer, all[i].err = all[i].c.Send(all[i].method, all[i].path, all[i].body)
	})
	for _, q := range all {
		if q.err != nil {
			f.failf("%s %s: %v", q.method, q.path, q.err)
		}
		f.log = append(f.log, fmt.Sprintf("at once: %s %s %s -> %d", q.method, q.path, text(q.body), q.answer.Status))
		if q.answer.Status != 200 {
			f.failf("%s: %s", q.path, q.answer.Body)
		}
	}
	for _, s := range own {
		if used[s] > 0 {
			s.scale -= used[s]
			r.really[s] += used[s]
			f.reported(r.printer, s, used[s])
		}
	}
	if ends {
		f.ended(r, "complete", said)
		r.raced = true
	}
	for _, s := range own { // nobody knows which reports are one entry
		f.setPrice(s)
	}
}

// object is JSON of the service.
type object map[string]any

func (o object) text(name string) string {
	if o[name] == nil {
		return ""
	}
	return fmt.Sprint(o[name])
}

func (o object) list(name string) (all []object) {
	list, _ := o[name].([]any)
	for _, v := range list {
		item, _ := v.(map[string]any)
		all = append(all, item)
	}
	return all
}

// amount returns an amount, or -1 for null.
func (o object) amount(name string) micro {
	if o.text(name) == "" {
		return -1
	}
	return parseMicro(o.text(name))
}

func text(body any) string {
	if body == nil {
		return ""
	}
	b, _ := json.Marshal(body)
	return string(b)
}

// send sends a request.
func (f *gramFarm) send(c *testkit.Client, method, path string, body any) (status int, answer object) {
	a, err := c.Send(method, path, body)
	if err != nil {
		f.failf("%s %s: %v", method, path, err)
	}
	who := ""
	if i := slices.IndexFunc(f.keys[:], func(k *testkit.Client) bool {
		return k != nil && k.Header.Get("X-API-Key") == c.Header.Get("X-API-Key")
	}); i >= 0 {
		who = fmt.Sprint("key ", i, " ", c.Header.Get("Idempotency-Key"), ": ")
	}
	if method != "GET" {
		f.log = append(f.log, fmt.Sprintf("%s%s %s %s -> %d", who, method, path, text(body), a.Status))
	}
	d := json.NewDecoder(bytes.NewReader(a.Body))
	d.UseNumber()
	if len(a.Body) > 0 {
		if err := d.Decode(&answer); err != nil {
			f.failf("%s %s: %v: %s", method, path, err, a.Body)
		}
	}
	if a.Status >= 400 {
		f.log = append(f.log, "    "+string(a.Body))
	}
	return a.Status, answer
}

// want sends a request whose answer must have the status.
func (f *gramFarm) want(c *testkit.Client, method, path string, body any, want int) object {
	status, answer := f.send(c, method, path, body)
	if status != want {
		f.failf("%s %s: status %d, want %d", method, path, status, want)
	}
	return answer
}

func (f *gramFarm) created(path string, body any) (id string) {
	return f.want(f.user, "POST", path, body, 201).text("id")
}

func (f *gramFarm) get(path string) object { return f.want(f.user, "GET", path, nil, 200) }

// shows checks amounts of an object; -1 is null.
func (f *gramFarm) shows(got object, what string, want map[string]micro) {
	for name, amount := range want {
		if got.text(name) == "" && amount == -1 {
			continue
		}
		if got.amount(name) != amount || got.text(name) == "" {
			f.failf("%s: %s is %q, want %s", what, name, got.text(name), amount)
		}
	}
}

// checkRun compares a run with the model, and sets the ids of its materials.
func (f *gramFarm) checkRun(r *gramRun) {
	got := f.get(r.path)
	materials := got.list("materials")
	if got.text("status") != r.status || len(materials) != len(r.materials) {
		f.failf("%s is %s with %d materials, want %s with %d", r.path, got.text("status"), len(materials), r.status,
			len(r.materials))
	}
	for i, m := range r.materials {
		outside, _ := r.outsideOf(m)
		if outside == 0 {
			outside = -1
		}
		what := fmt.Sprintf("%s: material %d of spool %d", r.path, i, m.spool.number)
		f.shows(materials[i], what, map[string]micro{"reported_grams": r.reportedOf(m), "outside_grams": outside,
			"actual_weight_grams": m.actual, "estimated_weight_grams": m.estimate, "cost_per_gram": m.price})
		if materials[i].text("spool_id") != m.spool.id ||
			materials[i].text("actual_reported") != fmt.Sprint(m.reported) {
			f.failf("%s: %v, want %+v", what, materials[i], *m)
		}
		m.id = materials[i].text("id")
	}
	if !r.deducted {
		return
	}
	f.shows(got, r.path, map[string]micro{"actual_total_filament_grams": r.total})
	parts := object(got["cost_parts"].(map[string]any))
	filament, waste := parts.amount("filament"), parts.amount("waste")
	if r.cost < 0 {
		f.shows(parts, r.path, map[string]micro{"filament": -1, "waste": -1})
	} else if filament < 0 || waste < 0 || filament+waste != r.cost {
		f.failf("%s: the filament costs %s, and the waste %s; want %s together", r.path, filament, waste, r.cost)
	} else if (r.status == "completed") != (waste == 0) && r.cost > 0 {
		f.failf("%s: the waste costs %s", r.path, waste)
	}
}

// rounded returns a product of two amounts, half away from zero.
func rounded(product micro) micro {
	if product < 0 {
		return (product - gram/2) / gram
	}
	return (product + gram/2) / gram
}

// checkReserved compares what is in stock and reserved of both filaments.
func (f *gramFarm) checkReserved() {
	var reserved, left [2]micro
	for _, r := range f.runsThat(func(r *gramRun) bool {
		return r.isPrinting() || !r.hidden && r.status == "pending"
	}) {
		for i, grams := range r.reserves(f.bill) {
			reserved[i] += grams
		}
	}
	for _, s := range f.spools {
		left[s.filament] += s.left
	}
	for _, m := range f.get("/api/v1/products/" + f.product + "/availability").list("materials") {
		i := 0
		if m.text("color") == "Red" {
			i = 1
		}
		f.shows(m, "availability of "+m.text("color"), map[string]micro{"reserved_grams": reserved[i],
			"remaining_grams": left[i], "available_grams": left[i] - reserved[i]})
	}
}

// reserves returns what an unfinished run still needs of both filaments: its estimates less what was reported.
func (r *gramRun) reserves(bill [2]micro) (needs [2]micro) {
	var spare [2]micro // reported of spools that have no estimate
	estimates, weighed := map[*gramSpool]micro{}, false
	for _, m := range r.materials {
		if m.actual >= 0 || m.estimate >= 0 {
			weighed = true
			grams := m.estimate
			if m.actual >= 0 {
				grams = m.actual
			}
			estimates[m.spool] += grams
		}
	}
	if !weighed {
		for i := range needs {
			needs[i] = bill[i] * micro(r.pieces)
			for s, grams := range r.reported {
				if s.filament == i {
					needs[i] -= grams
				}
			}
			needs[i] = max(needs[i], 0)
		}
		return needs
	}
	for s, grams := range estimates {
		if grams > 0 {
			needs[s.filament] += max(grams-r.reported[s], 0)
		}
	}
	for s, grams := range r.reported {
		if estimates[s] == 0 {
			spare[s.filament] += grams
		}
	}
	for i := range needs {
		needs[i], spare[i] = max(needs[i]-spare[i], 0), max(spare[i]-needs[i], 0)
	}
	for i := range needs { // another filament than planned
		needs[i] = max(needs[i]-spare[1-i], 0)
	}
	return needs
}

// check compares everything with the oracles.
func (f *gramFarm) check() {
	f.checkReserved()
	var use, corrected, cost micro
	named := map[string]*gramRun{}
	for _, r := range f.runs {
		if !r.gone && !r.hidden {
			f.checkRun(r)
		}
		named[r.path[len(productionRuns)+1:]] = r
		if r.deducted { // what it used costs what the run cost; other use has the price of its spool
			for _, m := range r.materials {
				if m.price >= 0 { // a price that came later is not that of the run
					cost += max(m.cost(), 0)
				}
			}
		}
	}
	for _, s := range f.spools {
		cost += f.checkSpool(s, named)
		use += s.used
		corrected += s.corrected
	}
	report := f.get("/api/v1/reports/usage")
	f.shows(report, "the usage report", map[string]micro{"grams": use, "corrected_grams": corrected})
	if signed(report, "cost") != cost {
		f.failf("the usage report: the cost is %s, want %s", report.text("cost"), cost)
	}
	if !f.honest {
		return
	}
	for _, r := range f.runs {
		var total micro
		for s, grams := range r.really {
			total += grams
			if r.deducted && r.used[s] != grams {
				f.failf("%s: used %s g of spool %d, and really %s g", r.path, r.used[s], s.number, grams)
			}
		}
		if r.deducted && r.total != total {
			f.failf("%s: used %s g, and really %s g", r.path, r.total, total)
		}
	}
	for _, s := range f.spools {
		if s.left != s.scale {
			f.failf("spool %d: %s g are left, and %s g on the scale", s.number, s.left, s.scale)
		}
	}
	var invalid int
	var broken string
	err := f.api.DB.Read(db.As(context.Background(), f.user.Actor),
		db.SQL(`select count(*) from spool_usage u where not valid_usage(u)`).Into(&invalid),
		db.SQL(archive.BrokenRule).Into(&broken))
	if err != nil || invalid > 0 || broken != "" {
		f.failf("%d entries of the ledger are not valid: %v, %s", invalid, err, broken)
	}
}

// checkSpool compares a spool and its ledger with the model. Each gram is in exactly one entry. It returns what the
// entries cost that are not of an ended run.
func (f *gramFarm) checkSpool(s *gramSpool, named map[string]*gramRun) (cost micro) {
	what := fmt.Sprint("spool ", s.number)
	f.shows(f.get(spools+"/"+s.id), what, map[string]micro{"remaining_weight_grams": s.left})
	var entries []object
	for {
		page := f.get(fmt.Sprintf("%s/%s/usage?limit=100&skip=%d", spools, s.id, len(entries)))
		entries = append(entries, page.list("items")...)
		if len(page.list("items")) < 100 {
			break
		}
	}
	var left, outside, modelOutside micro
	used, reported, covered := map[*gramRun]micro{}, map[*gramRun]micro{}, map[*gramRun]micro{}
	ends := map[*gramRun]int{}
	for _, e := range slices.Backward(entries) {
		change := signed(e, "change_grams")
		if signed(e, "before_grams") != left || signed(e, "after_grams") != left+change {
			f.failf("%s: entry %v does not follow %s g", what, e, left)
		}
		left += change
		grams, late := signed(e, "shortfall_grams")-change, signed(e, "covered_grams")
		id, kind := e.text("run_id"), e.text("kind")
		r := named[id]
		if (r == nil) != (id == "") || late != 0 && (kind != "printed" || r == nil || grams != 0) ||
			(kind == "run" || kind == "wasted") && r == nil ||
			r != nil && kind != "run" && kind != "wasted" && kind != "printed" {
			f.failf("%s: entry %v", what, e)
		}
		switch {
		case r == nil && kind != "created":
			outside += grams
			if kind != "measured" && kind != "edited" {
				cost += rounded(grams * max(s.price, 0))
			}
		case r != nil:
			used[r] += grams
			covered[r] += late
			if !r.deducted {
				cost += rounded(grams * max(s.price, 0))
			}
			if kind == "printed" {
				reported[r] += grams + late
			} else if ends[r]++; !r.mended && (ends[r] > 1 || kind == "run" != (r.status == "completed")) {
				f.failf("%s: entry %v of the end of a run that is %s", what, e, r.status)
			}
		}
	}
	for _, use := range s.outside {
		modelOutside += use.grams
	}
	if left != s.left || outside != modelOutside {
		f.failf("%s: the ledger ends with %s g, and has %s g without a run; want %s and %s", what, left, outside,
			s.left, modelOutside)
	}
	for _, r := range f.runs {
		if used[r] != r.used[s] || reported[r] != r.reported[s] || covered[r] != r.covered[s] && !r.raced {
			f.failf("%s: the ledger has %s g of %s, %s g of them reported, and %s g covered; want %s, %s and %s", what,
				used[r], r.path, reported[r], covered[r], r.used[s], r.reported[s], r.covered[s])
		}
		if actual := r.actualOf(s); r.deducted && used[r] != actual {
			f.failf("%s: the ledger has %s g of %s, which has used %s g", what, used[r], r.path, actual)
		}
	}
	return cost
}

// actualOf returns the use of a spool that a run reports.
func (r *gramRun) actualOf(s *gramSpool) (grams micro) {
	for _, m := range r.of(s) {
		grams += max(m.actual, 0)
	}
	return grams
}

// signed returns an amount that may be less than 0, or 0 for null.
func signed(o object, name string) micro {
	if o.text(name) == "" {
		return 0
	}
	return parseMicro(o.text(name))
}
