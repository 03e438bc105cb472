package pieces_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
	"spoolwright/tests/testkit/seed"
)

// The model keeps amounts in millionths.

// pool is the stock of a product.
type pool struct {
	id                    string
	onHand, valued, value int64
	counts                []*found
}

// found is the difference that a count found, with the entries that balance other changes at it.
type found struct{ pieces, without, value int64 }

// balance brings n pieces into stock at a count, or takes them out if n is negative. If they leave the stock, valued
// of them have a known cost, in total cost. It returns the value.
func (s *pool) balance(f *found, n, valued, cost int64) int64 {
	was := *s
	sign, back := int64(1), int64(0)
	if n < 0 {
		sign = -1
	}
	if f.pieces*n < 0 {
		back = min(f.pieces*-sign, n*sign)
	}
	if back > 0 {
		all := max(0, min(f.pieces*-sign, f.without*-sign))
		without, value := min(all, back), int64(0)
		if all < f.pieces*-sign {
			value = rounded(-f.value*(back-without), f.pieces*-sign-all)
		}
		out := -value
		switch {
		case n > 0:
			s.put(back, without, value)
		case all == f.pieces:
			s.take(back, 0, nil, 0)
		default:
			s.take(back, 0, &out, without)
		}
	}
	switch rest := n - back*sign; {
	case rest > 0 && s.valued > valued && s.value >= cost:
		s.put(rest, 0, rounded((s.value-cost)*rest, s.valued-valued))
	case rest > 0:
		s.put(rest, rest, 0)
	case rest < 0:
		s.take(-rest, 0, nil, 0)
	}
	f.add(s, was)
	return s.value - was.value
}

// add adds the changes of the pool since was.
func (f *found) add(s *pool, was pool) {
	f.pieces += s.onHand - was.onHand
	f.without += s.onHand - s.valued - was.onHand + was.valued
	f.value += s.value - was.value
}

// rounded returns a / b, half away from zero.
func rounded(a, b int64) int64 {
	if a < 0 {
		return -rounded(-a, b)
	}
	return (2*a + b) / (2 * b)
}

// take takes n pieces out, as far as they are in stock; at least known of them have a known cost, if there are such
// pieces. If cost is not nil, it is the cost of the pieces with a known cost, and unknown is the number of the others.
func (s *pool) take(n, known int64, cost *int64, unknown int64) (gone, without, value int64) {
	gone = min(n, s.onHand)
	without = max(gone-min(known, s.valued), gone-s.valued, 0)
	if cost != nil {
		without = max(unknown, gone-s.valued, 0)
	}
	without = min(without, gone, s.onHand-s.valued)
	switch valued := gone - without; {
	case valued == s.valued:
		value = s.value
	case cost != nil:
		value = min(rounded(*cost*valued, n-unknown), s.value)
	default:
		value = min(rounded(s.value*valued, s.valued), s.value)
	}
	s.onHand, s.valued, s.value = s.onHand-gone, s.valued-gone+without, s.value-value
	return gone, without, value
}

// put brings pieces into stock. Their cost is less than nothing if a run became cheaper; the stock is never.
func (s *pool) put(n, without, value int64) {
	s.onHand, s.valued, s.value = s.onHand+n, s.valued+n-without, max(s.value+value, 0)
}

// average returns the cost of pieces at the average, and how many of them have none.
func (s *pool) average(n int64) (cost, without int64) {
	if s.valued == 0 {
		return 0, n
	}
	return rounded(s.value*n, s.valued), 0
}

// sale is an order of one item.
type sale struct {
	path, item          string
	product             *pool
	quantity, delivered int64
	done, cancelled     bool
	runs                []*job
	paid                int64 // the value that left the stock for it
	known, unknown      int64 // the delivered pieces with and without a known cost
	waits               int64 // its own pieces in stock
	scrapped            int64
}

// job is a run of one product.
type job struct {
	path, item, material string
	product              *pool
	of                   *sale
	quantity, good       int64
	cost, given          int64 // at the end, and with the grams before the end
	came                 int64 // the value that came into stock
	had, short, entered  int64 // the pieces and the cost in the ledger
	end                  int
	counts               int // the counts of the product before the end
}

// settle records in the ledger what the run has produced. It returns the change of the value that a count found.
func (r *job) settle(good int64) (found int64) {
	s := r.product
	counts := s.counts[r.counts:]
	cost := r.cost - r.entered
	if good == 0 {
		cost = -r.entered
	}
	if n := r.had - good; n > 0 && len(counts) > 0 {
		found = s.balance(counts[0], n, n, -cost)
	}
	before := s.value
	switch {
	case good > r.had:
		back := min(r.short, good-r.had)
		if n := good - r.had - back; n > 0 {
			s.put(n, 0, rounded(cost*n, good-r.had))
		}
		r.short -= back
		if n := good - r.had - back; n > 0 && len(counts) > 0 {
			brought := s.value
			found = s.balance(counts[0], -n, 0, 0)
			before += s.value - brought
		}
	case good < r.had:
		out := -cost
		gone, _, _ := s.take(r.had-good, 0, &out, 0)
		r.short += r.had - good - gone
	case cost != 0:
		_, delivered := r.shares()
		s.value = max(s.value+rounded(cost*min(s.valued, good-delivered), good), 0)
	}
	r.came += s.value - before
	r.entered, r.had, r.good = r.entered+cost, good, good
	return found
}

// shares returns how many pieces of the run are kept for its order, and how many are delivered.
func (r *job) shares() (kept, delivered int64) {
	o := r.of
	if o == nil {
		return 0, 0
	}
	keep := o.delivered + o.waits
	before := int64(0)
	for _, other := range o.runs {
		if other.end < r.end {
			before += other.good
		}
	}
	return min(max(keep-before, 0), r.good), min(max(o.delivered-before, 0), r.good)
}

// costs returns the parts of what the run brought into stock that are kept for the order and delivered to it.
func (r *job) costs() (kept, delivered int64) {
	k, d := r.shares()
	return rounded(r.came*k, max(r.good, 1)), rounded(r.came*d, max(r.good, 1))
}

func (o *sale) own() (pieces int64) {
	for _, r := range o.runs {
		pieces += r.good
	}
	return pieces
}

// cost returns what the order costs, and what pieces in stock cost that wait for it.
func (o *sale) cost() (total, waiting int64) {
	total = o.paid + o.scrapped
	for _, r := range o.runs {
		kept, delivered := r.costs()
		total += r.cost - r.came + kept - delivered
		waiting += kept - delivered
	}
	return total, waiting
}

// farm is a farm that sells a product and a kit of two of it.
type farm struct {
	*testkit.Client
	t         *testing.T
	spool     string
	part, kit *pool
	orders    []*sale
	runs      []*job
	ends      int
	lost      int64 // scrapped, counted and adjusted, and parts of kits whose cost is unknown because of other parts
}

func (f *farm) run(r *rand.Rand) {
	s := f.part
	n, grams := int64(1+r.IntN(9)), int64(1+r.IntN(400))
	job := &job{product: s, quantity: n, cost: grams * 20_000, given: grams * 20_000}
	var item any
	if open := f.pick(r, func(o *sale) bool { return o.product == s && !o.cancelled }); open != nil && r.IntN(3) > 0 {
		job.of, item = open, open.item
	}
	a := f.Post(f.t, runs, j{"status": "in_progress", "items": []j{{"product_id": s.id, "quantity": n,
		"order_item_id": item}}, "materials": []j{{"spool_id": f.spool, "actual_weight_grams": grams}}}).Want(201)
	job.path, job.item, job.material = runs+"/"+a.ID(), a.Text("items.0.id"), a.Text("materials.0.id")
	failed := int64(r.IntN(int(n) + 1))
	if r.IntN(2) == 0 {
		failed = 0
	}
	f.Post(f.t, job.path+"/complete", j{"items": []j{{"id": job.item, "successful_quantity": n - failed,
		"failed_quantity": failed}}}).Want(200)
	f.ends++
	job.end, job.counts = f.ends, len(s.counts)
	f.runs = append(f.runs, job)
	if job.of != nil {
		job.of.runs = append(job.of.runs, job)
	}
	f.lost -= job.settle(n - failed)
}

func (f *farm) pick(r *rand.Rand, ok func(*sale) bool) *sale {
	var all []*sale
	for _, o := range f.orders {
		if ok(o) {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[r.IntN(len(all))]
}

func (f *farm) deliver(r *rand.Rand) {
	o := f.pick(r, func(o *sale) bool { return !o.cancelled && o.delivered < o.quantity })
	if o == nil {
		return
	}
	n := 1 + r.Int64N(o.quantity-o.delivered)
	f.Post(f.t, o.path+"/deliver", j{"items": []j{{"id": o.item, "quantity": n}}}).Want(200)
	if o.product == f.kit {
		if kits := min(n-f.kit.onHand, f.part.onHand/2); kits > 0 {
			f.assemble(kits)
		}
	}
	own := o.own()
	gone, without, value := o.product.take(n, min(o.delivered+n, own)-min(o.delivered, own), nil, 0)
	o.delivered += n
	o.paid, o.known, o.unknown = o.paid+value, o.known+gone-without, o.unknown+n-gone+without
	o.done = o.done || o.delivered == o.quantity
}

func (f *farm) assemble(kits int64) {
	_, without, value := f.part.take(2*kits, 0, nil, 0)
	if without > 0 {
		f.lost += value
		f.kit.put(kits, kits, 0)
	} else {
		f.kit.put(kits, 0, value)
	}
}

func (f *farm) takeReturn(r *rand.Rand) {
	o := f.pick(r, func(o *sale) bool { return o.delivered > 0 })
	if o == nil {
		return
	}
	n, toStock := 1+r.Int64N(o.delivered), r.IntN(3) > 0
	f.Post(f.t, o.path+"/return", j{"items": []j{{"id": o.item, "quantity": n, "to_stock": toStock}}}).Want(200)
	without := n
	if o.known > 0 {
		without = min(n, max(o.unknown, n-o.known))
	}
	value := int64(0)
	if n > without {
		value = rounded(o.paid*(n-without), o.known)
	}
	o.product.put(n, without, value)
	o.paid, o.known, o.unknown, o.delivered = o.paid-value, o.known-n+without, o.unknown-without, o.delivered-n
	if !toStock {
		cost := &value
		if without == n {
			cost = nil
		}
		_, _, out := o.product.take(n, 0, cost, without)
		o.scrapped += out
	}
}

func (f *farm) change(r *rand.Rand) {
	s := []*pool{f.part, f.kit}[r.IntN(2)]
	path := products + "/" + s.id
	n := 1 + r.Int64N(5)
	was, counts := *s, false
	switch {
	case r.IntN(3) == 0:
		counts = true
		counted := r.Int64N(8)
		f.Post(f.t, path+"/count", j{"counted": counted}).Want(200)
		n = counted - s.onHand
	case r.IntN(2) == 0 || s.onHand < n:
		f.Post(f.t, path+"/adjust", j{"pieces": n}).Want(200)
	default:
		a := f.Post(f.t, path+"/scrap", j{"quantity": n}).Want(200)
		gone, without, value := s.take(n, 0, nil, 0)
		f.lost += value
		if r.IntN(2) == 0 {
			f.Post(f.t, entries+"/"+a.ID()+"/reverse", nil).Want(200)
			s.put(gone, without, value)
			f.lost -= value
		}
		return
	}
	if n > 0 {
		cost, without := s.average(n)
		s.put(n, without, cost)
		f.lost -= cost
	} else {
		_, _, value := s.take(-n, 0, nil, 0)
		f.lost += value
	}
	if counts {
		s.counts = append(s.counts, &found{})
		s.counts[len(s.counts)-1].add(s, was)
	}
}

func (f *farm) correct(r *rand.Rand) {
	if len(f.runs) == 0 {
		return
	}
	job := f.runs[r.IntN(len(f.runs))]
	switch r.IntN(3) {
	case 0:
		grams := int64(1 + r.IntN(400))
		f.Post(f.t, job.path+"/correct", j{"materials": []j{{"id": job.material, "actual_weight_grams": grams}}}).Want(200)
		job.cost = grams * 20_000
		if job.good > 0 {
			f.lost -= job.settle(job.good)
		}
	case 1:
		good := r.Int64N(job.quantity + 1)
		f.Post(f.t, job.path+"/correct", j{"items": []j{{"id": job.item, "successful_quantity": good,
			"failed_quantity": job.quantity - good}}}).Want(200)
		if good != job.good {
			f.lost -= job.settle(good)
		}
	default:
		f.Post(f.t, job.path+"/reopen", nil).Want(200)
		good := job.good
		if good > 0 {
			f.lost -= job.settle(0)
		}
		// The materials have the grams again that they had before the end.
		job.cost = job.given
		f.Post(f.t, job.path+"/complete", nil).Want(200)
		f.ends++
		job.end, job.counts = f.ends, len(job.product.counts)
		if good > 0 {
			f.lost -= job.settle(good)
		}
	}
}

func (f *farm) assembly(r *rand.Rand) {
	kits := 1 + r.Int64N(2)
	body := j{"quantity": kits}
	if r.IntN(2) == 0 && f.kit.onHand >= kits {
		f.Post(f.t, products+"/"+f.kit.id+"/disassemble", body).Want(200)
		_, without, value := f.kit.take(kits, 0, nil, 0)
		f.part.put(2*kits, 2*without, value)
	} else if f.part.onHand >= 2*kits {
		f.Post(f.t, products+"/"+f.kit.id+"/assemble", body).Want(200)
		f.assemble(kits)
	}
}

// decimal returns an amount in millionths as the API writes it.
func decimal(n int64) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprintf("%s%d.%06d", sign, n/1_000_000, n%1_000_000)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// check compares the farm with the model. What runs have cost is all there: in orders, in stock, or lost.
func (f *farm) check(what string) {
	t := f.t
	t.Helper()
	for _, s := range []*pool{f.part, f.kit} {
		f.Get(t, products+"/"+s.id).Want(200).Shows(map[string]string{"on_hand": strconv.FormatInt(s.onHand, 10),
			"piece_value": decimal(s.value)})
	}
	spent, reported, waits := int64(0), f.lost, int64(0)
	before := map[*pool]int64{} // the own pieces of the orders before
	for _, o := range f.orders {
		if o.waits = 0; !o.done && !o.cancelled {
			made := max(min(o.quantity, o.own())-o.delivered, 0)
			o.waits = max(min(made, o.product.onHand-before[o.product]), 0)
			before[o.product] += made
		}
	}
	for _, r := range f.runs {
		spent += r.cost
		if r.of == nil {
			reported += r.cost - r.came
		}
	}
	for _, o := range f.orders {
		cost, waiting := o.cost()
		reported += cost
		waits += waiting
		a := f.Get(t, o.path).Want(200)
		if got := strings.Replace(a.Text("cost"), "null", "0", 1); got != decimal(cost) {
			t.Errorf("%s: the cost is %s, want %s: %+v", what, got, decimal(cost), o)
		}
		if got := slices.Contains(a.List("unknown_parts"), any("stock")); got != (o.unknown > 0) {
			t.Errorf("%s: stock is unknown: %v, want %v: %+v", what, got, !got, o)
		}
	}
	a := f.Get(t, margins).Want(200).Shows(map[string]string{"waiting_cost": decimal(waits)})
	testkit.Equal(t, strings.Replace(a.Text("cost"), "null", "0", 1), decimal(reported),
		"%s: the report has a cost of", what)
	value := f.part.value + f.kit.value
	if got := reported - waits + value; got != spent {
		t.Errorf("%s: %s was spent, and %s is there", what, decimal(spent), decimal(got))
	}
	onHand := f.part.onHand + f.kit.onHand
	f.Get(t, stockReport).Want(200).Shows(map[string]string{"on_hand": strconv.FormatInt(onHand, 10),
		"unvalued_pieces": strconv.FormatInt(onHand-f.part.valued-f.kit.valued, 10)})
	if t.Failed() {
		t.FailNow()
	}
}

// What orders and pieces in stock cost equals the model after each of random operations, and nothing of what runs have
// cost is there twice or gets lost.
func TestCostsEqualModel(t *testing.T) {
	t.Parallel()
	seed := seed.New(t)
	for i := range testkit.InCI(1, 8) {
		t.Run(fmt.Sprint("farm ", i), func(t *testing.T) {
			t.Parallel()
			_, c, spool := newCostFarm(t)
			f := &farm{Client: c, t: t, spool: spool, part: &pool{id: c.NewProduct(t, "P", 10)}, kit: &pool{}}
			f.kit.id = c.Post(t, products, j{"name": "Kit", "components": []j{{"component_product_id": f.part.id,
				"quantity": 2}}}).Want(201).ID()
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for step := range 70 {
				op := r.IntN(14)
				switch {
				case op < 2:
					s, quantity := []*pool{f.part, f.part, f.kit}[r.IntN(3)], 1+r.Int64N(8)
					path, item := c.NewOrder(t, s.id, int(quantity))
					f.orders = append(f.orders, &sale{path: path, item: item, product: s, quantity: quantity})
				case op < 5:
					f.run(r)
				case op < 8:
					f.deliver(r)
				case op < 9:
					f.takeReturn(r)
				case op < 10:
					f.change(r)
				case op < 11:
					f.correct(r)
				case op < 12:
					f.assembly(r)
				case r.IntN(3) == 0:
					if o := f.pick(r, func(o *sale) bool { return !o.done && !o.cancelled }); o != nil {
						c.Post(t, o.path+"/cancel", nil).Want(200)
						o.cancelled = true
					}
				}
				f.check(fmt.Sprint("step ", step, ", operation ", op))
			}
		})
	}
}
