package planning_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"spoolwright/tests/testkit"
)

// netProduct is a product of a random farm.
type netProduct struct {
	id      string
	level   int
	printed bool
	parts   map[int]int64 // the index of a product, and the pieces
	onHand  int64
}

// netItem is an item of an order. Its order has one item.
type netItem struct {
	order, id string
	due       int // the day of the month; 99 without a date
	product   int
	quantity  int64
	delivered int64
	done      bool
}

// netRun is a run with one item. The run prints for the item of an order, or for the stock if item is -1.
type netRun struct {
	id, itemID    string
	product, item int
	status        string
	pieces        int64
	good          int64 // pieces of a completed run
	fromStock     bool
}

func (r *netRun) unfinished() bool {
	return r.status == "pending" || r.status == "in_progress" || r.status == "paused"
}

// netFarm is what a random farm has.
type netFarm struct {
	products []netProduct
	items    []netItem
	runs     []*netRun
}

// netKey is a product that an item needs. The item -1 stands for the runs without an item.
type netKey struct{ item, product int }

// netNeed is where the pieces of a need come from.
type netNeed struct{ needed, reserved, incoming, missing int64 }

// net computes what the items need, product by product and piece by piece, in another way than net_pieces does: each
// piece looks for the best source that is left.
func (f *netFarm) net() map[netKey]netNeed {
	order := make([]int, len(f.items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return f.items[a].due - f.items[b].due })
	order = append(order, -1)
	demand := map[netKey]int64{}
	for i, item := range f.items {
		if n := item.quantity - item.delivered; n > 0 && !item.done {
			demand[netKey{i, item.product}] += n
		}
	}
	for _, r := range f.runs {
		for part, n := range f.products[r.product].parts {
			if r.unfinished() && r.fromStock {
				item := r.item
				if item >= 0 && (f.items[item].done || f.items[item].quantity <= f.items[item].delivered) {
					item = -1
				}
				demand[netKey{item, part}] += n * r.pieces
			}
		}
	}
	all := map[netKey]netNeed{}
	byLevel := make([]int, len(f.products))
	for i := range byLevel {
		byLevel[i] = i
	}
	slices.SortStableFunc(byLevel, func(a, b int) int { return f.products[b].level - f.products[a].level })
	for _, p := range byLevel {
		shelf, pool := max(0, f.products[p].onHand), int64(0)
		made, own := map[int]int64{}, map[int]int64{} // pieces by the item that they were, or will be, printed for
		for _, r := range f.runs {
			switch {
			case r.product != p:
			case r.unfinished():
				own[r.item] += r.pieces
				pool += r.pieces
			case r.item >= 0:
				made[r.item] += r.good
			}
		}
		needs := map[int]*netNeed{}
		for _, i := range order {
			if n := demand[netKey{i, p}]; n > 0 {
				needs[i] = &netNeed{needed: n, missing: n}
			}
		}
		// take gives at most "most" pieces of a source with "left" pieces to the need.
		take := func(n *netNeed, kind *int64, most int64, left *int64) {
			for ; most > 0 && n.missing > 0 && *left > 0; most-- {
				n.missing, *kind, *left = n.missing-1, *kind+1, *left-1
			}
		}
		for _, i := range order {
			if n := needs[i]; n != nil && i >= 0 {
				has := made[i]
				if f.items[i].product == p {
					has -= f.items[i].delivered
				}
				take(n, &n.reserved, has, &shelf)
			}
		}
		for _, i := range order {
			if n := needs[i]; n != nil {
				take(n, &n.reserved, n.missing, &shelf)
			}
		}
		for _, i := range order {
			if n := needs[i]; n != nil && i >= 0 {
				take(n, &n.incoming, own[i], &pool)
			}
		}
		for _, i := range order {
			if n := needs[i]; n != nil {
				take(n, &n.incoming, n.missing, &pool)
				all[netKey{i, p}] = *n
				for part, each := range f.products[p].parts {
					demand[netKey{i, part}] += each * n.missing
				}
			}
		}
	}
	return all
}

// netChanges are the numbers of requests of each kind that change has made with success.
var netChanges [7]atomic.Int64

// change does one of the things that a farm does with pieces. The request may be rejected.
func (f *netFarm) change(t testing.TB, c *testkit.Client, r *rand.Rand) {
	i, run := f.items[r.IntN(len(f.items))], f.runs[r.IntN(len(f.runs))]
	product, few := "/api/v1/products/"+f.products[r.IntN(len(f.products))].id, 1+r.Int64N(3)
	method, path, body := "POST", ordersURL+"/"+i.order, j{"quantity": few}
	kind := min(r.IntN(9), len(netChanges)-1)
	switch kind {
	case 0:
		path, body = path+"/deliver", j{"items": []j{{"id": i.id, "quantity": few}}}
	case 1:
		path, body = path+"/return", j{"items": []j{{"id": i.id, "quantity": few, "to_stock": r.IntN(3) > 0}},
			"reopen": r.IntN(3) > 0}
	case 2:
		path = product + "/assemble"
	case 3:
		path, body = product+"/disassemble", j{"quantity": 1}
	case 4:
		path, body = product+"/count", j{"counted": r.Int64N(6)}
	case 5: // a run ends, or is open again
		method, path = "PATCH", runsURL+"/"+run.id
		body = j{"status": []string{"completed", "completed", "failed", "cancelled", "in_progress"}[r.IntN(5)]}
	default:
		good := r.Int64N(run.pieces + 1)
		method, path = "PATCH", runsURL+"/"+run.id+"/items/"+run.itemID
		body = j{"successful_quantity": good, "failed_quantity": run.pieces - good}
	}
	switch a := c.Do(t, method, path, body); {
	case a.Status >= 500:
		t.Fatalf("%s: %d %s", a.What, a.Status, a.Body)
	case a.Status < 300:
		netChanges[kind].Add(1)
	}
}

// read reads what has become of the farm.
func (f *netFarm) read(t testing.TB, c *testkit.Client) {
	number := func(a *testkit.Response, path string) int64 {
		n, _ := strconv.ParseInt(a.Text(path), 10, 64)
		return n
	}
	for n := range f.products {
		p := &f.products[n]
		p.onHand = number(c.Get(t, "/api/v1/products/"+p.id).Want(200), "on_hand")
	}
	for n := range f.items {
		i := &f.items[n]
		a := c.Get(t, ordersURL+"/"+i.order).Want(200)
		i.delivered, i.done = number(a, "items.0.delivered"), a.Text("status") == "done"
	}
	for _, r := range f.runs {
		a := c.Get(t, runsURL+"/"+r.id).Want(200)
		if r.status, r.good = a.Text("status"), 0; r.status == "completed" {
			r.good = r.pieces
			if a.Text("items.0.successful_quantity") != "null" {
				r.good = number(a, "items.0.successful_quantity")
			}
		}
	}
}

// randomNetFarm creates a farm with products at five levels, all with pieces in stock, open orders and runs in all
// states, and lets it deliver, take pieces back, assemble, take apart, count, scrap, and end and correct runs.
func randomNetFarm(t testing.TB, c *testkit.Client, r *rand.Rand) *netFarm {
	f := &netFarm{}
	for n := range 9 {
		p := netProduct{parts: map[int]int64{}}
		if n > 0 && n < 5 { // the first five products are the five levels
			p.parts[n-1], p.level = 1+r.Int64N(2), n
		} else if n >= 5 {
			for range r.IntN(3) {
				part := r.IntN(n)
				if level := f.products[part].level + 1; level < 5 {
					p.parts[part] = 1 + r.Int64N(3)
					p.level = max(p.level, level)
				}
			}
		}
		p.printed = len(p.parts) == 0 || r.IntN(3) == 0
		body := j{"name": fmt.Sprint("Product ", n)}
		if p.printed {
			body["materials"] = []j{{"material_type": "PLA", "color": "Black", "weight_grams": 1}}
		}
		var parts []j
		for part, each := range p.parts {
			parts = append(parts, j{"component_product_id": f.products[part].id, "quantity": each})
		}
		if parts != nil {
			body["components"] = parts
		}
		p.id = c.Post(t, "/api/v1/products", body).Want(201).ID()
		f.products = append(f.products, p)
	}
	for range 6 {
		i := netItem{due: 1 + r.IntN(28), product: r.IntN(len(f.products)), quantity: 1 + r.Int64N(6)}
		body := j{"items": []j{{"product_id": f.products[i.product].id, "quantity": i.quantity}}}
		if r.IntN(4) == 0 {
			i.due = 99
		} else {
			body["due_date"] = fmt.Sprintf("2030-01-%02d", i.due)
		}
		a := c.Post(t, ordersURL, body).Want(201)
		i.order, i.id = a.ID(), a.Text("items.0.id")
		f.items = append(f.items, i)
	}
	// within reports whether a product is another one or a part of it.
	var within func(part, product int) bool
	within = func(part, product int) bool {
		if part == product {
			return true
		}
		for p := range f.products[product].parts {
			if within(part, p) {
				return true
			}
		}
		return false
	}
	for range 8 {
		run := &netRun{product: r.IntN(len(f.products)), item: -1, pieces: 1 + r.Int64N(4)}
		item := j{"product_id": f.products[run.product].id, "quantity": run.pieces}
		for i := range f.items {
			if r.IntN(2) == 0 && within(run.product, f.items[i].product) {
				run.item = i
				item["order_item_id"] = f.items[i].id
			}
		}
		run.fromStock = r.IntN(2) == 0
		item["parts_from_stock"] = run.fromStock
		status := []string{"pending", "in_progress", "paused", "completed", "failed", "cancelled"}[r.IntN(6)]
		if status == "completed" {
			item["successful_quantity"] = r.Int64N(run.pieces + 1)
		}
		a := c.Post(t, runsURL, j{"status": status, "items": []j{item}}).Want(201)
		run.id, run.itemID = a.ID(), a.Text("items.0.id")
		f.runs = append(f.runs, run)
	}
	for _, p := range f.products {
		c.Post(t, "/api/v1/products/"+p.id+"/count", j{"counted": r.Int64N(6)}).Want(200)
	}
	for range 24 {
		f.change(t, c, r)
	}
	f.read(t, c)
	return f
}

// netPart is a product in the availability of an order, or in a plan.
type netPart struct {
	ProductID                                     string `json:"product_id"`
	Quantity, Needed, Reserved, Incoming, Missing int64
}

// TestPlansOfPieces compares plans of random farms, the availability of their orders and the pieces of their products
// with a model: no piece is promised twice, none is printed that lies in stock, and components are netted at all
// levels.
func TestPlansOfPieces(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	farms := uint64(testkit.InCI(12, 60))
	var ran atomic.Uint64
	t.Cleanup(func() { // after the farms
		for kind := range netChanges {
			if ran.Load() == farms && netChanges[kind].Load() == 0 {
				t.Errorf("no change of the kind %d succeeded", kind)
			}
		}
	})
	for seed := range farms {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			ran.Add(1)
			c := api.Operator(t)
			f := randomNetFarm(t, c, rand.New(rand.NewPCG(seed, 45)))
			want := f.net()
			index := map[string]int{}
			for n, p := range f.products {
				index[p.id] = n
			}
			itemOf := map[string]int{"": -1}
			for n, i := range f.items {
				itemOf[i.id] = n
			}

			var plan struct {
				Runs, Unplanned []struct {
					OrderItemID *string `json:"order_item_id"`
					ProductID   string  `json:"product_id"`
					Quantity    int64
				}
				FromStock  []netPart `json:"from_stock"`
				ToAssemble []netPart `json:"to_assemble"`
			}
			testkit.Check(t, json.Unmarshal(c.Post(t, planURL, nil).Want(200).Body, &plan))
			got := map[netKey]int64{}
			for _, r := range append(plan.Runs, plan.Unplanned...) {
				item := ""
				if r.OrderItemID != nil {
					item = *r.OrderItemID
				}
				got[netKey{itemOf[item], index[r.ProductID]}] += r.Quantity
			}
			print, stock, assemble := map[netKey]int64{}, map[int]int64{}, map[int]int64{}
			for k, n := range want {
				switch {
				case n.missing > 0 && f.products[k.product].printed:
					print[k] = n.missing
				case n.missing > 0:
					assemble[k.product] += n.missing
				}
				if n.reserved > 0 {
					stock[k.product] += n.reserved
				}
			}
			if !maps.Equal(got, print) {
				t.Errorf("the plan prints %v, want %v", got, print)
			}
			for name, l := range map[string]struct {
				got  []netPart
				want map[int]int64
			}{"from_stock": {plan.FromStock, stock}, "to_assemble": {plan.ToAssemble, assemble}} {
				got := map[int]int64{}
				for _, p := range l.got {
					got[index[p.ProductID]] += p.Quantity
				}
				if !maps.Equal(got, l.want) {
					t.Errorf("%s is %v, want %v", name, got, l.want)
				}
			}

			for n, i := range f.items {
				a := c.Get(t, ordersURL+"/"+i.order+"/availability").Want(200)
				shown := map[netKey]netNeed{}
				var items struct {
					Items []struct {
						netPart
						Parts []netPart
					}
				}
				testkit.Check(t, json.Unmarshal(a.Body, &items))
				for _, item := range items.Items {
					for _, p := range append(item.Parts, item.netPart) {
						shown[netKey{n, index[p.ProductID]}] = netNeed{p.Needed, p.Reserved, p.Incoming, p.Missing}
					}
				}
				for k, need := range want {
					if k.item == n && shown[k] != need {
						t.Errorf("item %d needs of product %d %v, want %v", n, k.product, shown[k], need)
					}
				}
			}
			for n, p := range f.products {
				var reserved, missing, incoming int64
				for k, need := range want {
					if k.product == n {
						reserved, missing = reserved+need.reserved, missing+need.missing
					}
				}
				for _, r := range f.runs {
					if r.product == n && r.unfinished() {
						incoming += r.pieces
					}
				}
				c.Get(t, "/api/v1/products/"+p.id).Want(200).Shows(map[string]string{
					"reserved": fmt.Sprint(reserved), "available": fmt.Sprint(p.onHand - reserved),
					"incoming": fmt.Sprint(incoming), "missing": fmt.Sprint(missing)})
			}
		})
	}
}
