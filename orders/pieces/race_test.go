package pieces_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"testing"

	"spoolwright/db"
	"spoolwright/tests/testkit"
)

// shelf is a farm of few products, orders and runs, which many clients change at the same time.
type shelf struct {
	*testkit.Client
	t *testing.T
	// A kit of three clips and a base, a lamp that is printed and has two clips, a box of a kit and a clip.
	clip, base, kit, lamp, box string
	products, orders, runs     []string
	spool                      string
}

// allowed sends a change, and returns the response, or nil if the change was refused in one of the ways that the
// documentation of the operation names.
func (s *shelf) allowed(kind, method, path string, body any, refusals ...string) *testkit.Response {
	s.t.Helper()
	a := s.Do(s.t, method, path, body)
	if a.Status < 300 {
		return a
	}
	if got := fmt.Sprint(a.Status, " ", a.Text("code")); !slices.Contains(refusals, got) {
		s.t.Errorf("%s: %s: %s", kind, got, a.Body)
	}
	return nil
}

// runRefusals are the answers to a request that the status of a run does not allow.
var runRefusals = []string{"400 RUN_NOT_OPEN", "400 RUN_ALREADY_COMPLETED", "400 RUN_NOT_ENDED"}

// each makes a change of each kind, which must be accepted: among random concurrent changes, that would be luck.
func (s *shelf) each() {
	s.t.Helper()
	made := map[string]bool{}
	must := func(kind, path string, body any) *testkit.Response {
		s.t.Helper()
		made[kind] = true
		method := "POST"
		if kind == "reopen order" {
			method = "PATCH"
		}
		a := s.allowed(kind, method, path, body)
		if a == nil {
			s.t.FailNow()
		}
		return a
	}
	item := func(of string) string { return s.Get(s.t, of).Want(200).Text("items.0.id") }
	base, kit := products+"/"+s.base, products+"/"+s.kit
	must("count", base+"/count", j{"counted": 25})
	must("adjust", base+"/adjust", j{"pieces": -1})
	must("assemble", kit+"/assemble", j{"quantity": 1})
	must("disassemble", kit+"/disassemble", j{"quantity": 1})
	must("scrap", base+"/scrap", j{"quantity": 1})
	newest := s.Get(s.t, base+"/piece-entries?limit=1").Want(200).Text("items.0.id")
	must("reverse", entries+"/"+newest+"/reverse", nil)
	must("deliver items", s.orders[0]+"/deliver", j{"items": []j{{"id": item(s.orders[0]), "quantity": 1}}})
	must("return", s.orders[0]+"/return", j{"items": []j{{"id": item(s.orders[0]), "quantity": 1, "to_stock": true}},
		"reopen": true})
	must("deliver", s.orders[1]+"/deliver", nil)
	must("complete order", s.orders[2]+"/complete", nil)
	must("reopen order", s.orders[2], j{"status": "in_production"})
	must("complete", s.runs[0]+"/complete", j{"items": []j{{"id": item(s.runs[0]), "failed_quantity": 1}}})
	must("correct", s.runs[0]+"/correct", j{"items": []j{{"id": item(s.runs[0]), "successful_quantity": 4,
		"failed_quantity": 0}}})
	must("reopen", s.runs[0]+"/reopen", nil)
	must("fail", s.runs[1]+"/fail", j{"reason": "clog"})
	must("cancel", s.runs[2]+"/cancel", nil)
	for kind := range shelfChanges {
		if !made[kind] {
			s.t.Errorf("each makes no change of the kind %s", kind)
		}
	}
}

// shelfChanges are what the clients do. Each has a random product, order and run.
var shelfChanges = map[string]func(s *shelf, r *rand.Rand, product, order, run string){
	"count": func(s *shelf, r *rand.Rand, product, _, _ string) {
		s.allowed("count", "POST", products+"/"+product+"/count", j{"counted": 10 + r.IntN(30)})
	},
	"scrap": func(s *shelf, r *rand.Rand, product, _, _ string) {
		s.allowed("scrap", "POST", products+"/"+product+"/scrap", j{"quantity": 1 + r.IntN(4)}, "409 NOT_ENOUGH_PIECES")
	},
	"adjust": func(s *shelf, r *rand.Rand, product, _, _ string) {
		s.allowed("adjust", "POST", products+"/"+product+"/adjust", j{"pieces": r.IntN(4) - 5}, "409 NOT_ENOUGH_PIECES")
	},
	"assemble": func(s *shelf, r *rand.Rand, _, _, _ string) {
		s.allowed("assemble", "POST", products+"/"+[]string{s.kit, s.lamp, s.box}[r.IntN(3)]+"/assemble",
			j{"quantity": 1 + r.IntN(2)}, "409 NOT_ENOUGH_PIECES")
	},
	"disassemble": func(s *shelf, r *rand.Rand, _, _, _ string) {
		s.allowed("disassemble", "POST", products+"/"+[]string{s.kit, s.box}[r.IntN(2)]+"/disassemble", j{"quantity": 1},
			"409 NOT_ENOUGH_PIECES")
	},
	"reverse": func(s *shelf, r *rand.Rand, product, _, _ string) {
		a := s.Get(s.t, products+"/"+product+"/piece-entries?limit=20").Want(200)
		if n := len(a.List("items")); n > 0 {
			s.allowed("reverse", "POST", entries+"/"+a.Text(fmt.Sprint("items.", r.IntN(n), ".id"))+"/reverse", nil,
				"409 NOT_ENOUGH_PIECES", "409 ENTRY_REVERSED", "409 ENTRY_NOT_REVERSIBLE", "409 ENTRY_OF_RUN",
				"409 DELIVERY_RETURNED", "409 DELIVERED_AGAIN")
		}
	},
	"deliver": func(s *shelf, _ *rand.Rand, _, order, _ string) {
		s.allowed("deliver", "POST", order+"/deliver", nil)
	},
	"deliver items": func(s *shelf, r *rand.Rand, _, order, _ string) {
		item := s.Get(s.t, order).Want(200).Text(fmt.Sprintf("items.%d.id", r.IntN(2)))
		// More than is ordered is refused.
		s.allowed("deliver items", "POST", order+"/deliver", j{"items": []j{{"id": item, "quantity": 1 + r.IntN(2)}},
			"assemble": r.IntN(2) == 0}, "422 VALIDATION_ERROR")
	},
	"return": func(s *shelf, r *rand.Rand, _, order, _ string) {
		item := s.Get(s.t, order).Want(200).Text(fmt.Sprintf("items.%d.id", r.IntN(2)))
		s.allowed("return", "POST", order+"/return", j{"items": []j{{"id": item, "quantity": 1,
			"to_stock": r.IntN(2) == 0}}, "reopen": r.IntN(2) == 0}, "422 VALIDATION_ERROR")
	},
	"complete order": func(s *shelf, r *rand.Rand, _, order, _ string) {
		item := s.Get(s.t, order).Want(200).Text(fmt.Sprintf("items.%d.id", r.IntN(2)))
		s.allowed("complete order", "POST", order+"/complete", j{"items": []j{{"id": item, "delivered": r.IntN(4)}}})
	},
	"reopen order": func(s *shelf, r *rand.Rand, _, order, _ string) {
		s.allowed("reopen order", "PATCH", order, j{"status": "in_production"})
	},
	"complete": func(s *shelf, r *rand.Rand, _, _, run string) {
		item := s.Get(s.t, run).Want(200).Text("items.0.id")
		// An item of a run that is open again has a count of good pieces, with which the failed ones may be too many.
		s.allowed("complete", "POST", run+"/complete", j{"items": []j{{"id": item, "failed_quantity": r.IntN(3)}}},
			append(runRefusals, "422 VALIDATION_ERROR")...)
	},
	"fail": func(s *shelf, _ *rand.Rand, _, _, run string) {
		s.allowed("fail", "POST", run+"/fail", j{"reason": "clog"}, runRefusals...)
	},
	"cancel": func(s *shelf, _ *rand.Rand, _, _, run string) {
		s.allowed("cancel", "POST", run+"/cancel", nil, runRefusals...)
	},
	"correct": func(s *shelf, r *rand.Rand, _, _, run string) {
		item, good := s.Get(s.t, run).Want(200).Text("items.0.id"), r.IntN(5)
		s.allowed("correct", "POST", run+"/correct", j{"items": []j{{"id": item, "successful_quantity": good,
			"failed_quantity": 4 - good}}}, runRefusals...)
	},
	"reopen": func(s *shelf, _ *rand.Rand, _, _, run string) {
		s.allowed("reopen", "POST", run+"/reopen", nil, runRefusals...)
	},
}

// The ledgers of few products add up while many clients change them in all ways, with kits that deliveries assemble
// and that they do not, and runs that take components from stock and that do not.
func TestLedgersUnderConcurrency(t *testing.T) {
	t.Parallel()
	tenant := newFarm(t).Tenant(t)
	c, admin := tenant.User(t, "operator"), tenant.User(t, "admin")
	// The cost of each run is known then.
	testkit.Check(t, c.API.DB.Write(db.As(t.Context(), c.Actor), db.SQL(`
		update tenants set machine_hour_cost = 0, energy_kwh_cost = 0, labour_hour_cost = 0`)))
	s := &shelf{Client: c, t: t, clip: c.NewProduct(t, "Clip", 1), base: c.NewProduct(t, "Base", 1),
		spool: c.NewSpool(t, 900, j{"purchase_price": 20})}
	kinds := slices.Sorted(maps.Keys(shelfChanges))
	contains := func(name string, fields j, parts ...j) string {
		body := j{"name": name, "components": parts}
		maps.Copy(body, fields)
		return c.Post(t, products, body).Want(201).ID()
	}
	s.kit = contains("Kit", nil, j{"component_product_id": s.clip, "quantity": 3}, j{"component_product_id": s.base})
	s.lamp = contains("Lamp", j{"materials": []j{{"material_type": "PLA", "color": "Black", "weight_grams": 1}}},
		j{"component_product_id": s.clip, "quantity": 2})
	s.box = contains("Box", nil, j{"component_product_id": s.kit}, j{"component_product_id": s.clip})
	s.products = []string{s.clip, s.base, s.kit, s.lamp, s.box}
	for _, p := range s.products {
		c.Post(t, products+"/"+p+"/count", j{"counted": 20}).Want(200)
	}
	for i := range 4 {
		items := []j{{"product_id": s.products[1+i], "quantity": 3}, {"product_id": s.products[i], "quantity": 3}}
		a := c.Post(t, orderURL, j{"items": items}).Want(201)
		s.orders = append(s.orders, orderURL+"/"+a.ID())
		for range 2 { // the lamp's runs take its clips from stock
			first, second := j{"product_id": s.products[1+i], "quantity": 4, "order_item_id": a.Text("items.0.id")},
				j{"product_id": s.lamp, "quantity": 2, "parts_from_stock": true}
			if i == 2 {
				first["parts_from_stock"] = true
			}
			run := c.Post(t, runs, j{"status": "in_progress", "items": []j{first, second},
				"materials": []j{{"spool_id": s.spool, "actual_weight_grams": 1}}}).Want(201)
			s.runs = append(s.runs, runs+"/"+run.ID())
		}
	}

	s.each()
	testkit.Concurrently(32, func(client int) {
		random := rand.New(rand.NewPCG(45, uint64(client)))
		for n := range testkit.InCI(testkit.InRigs(3, 6), 30) {
			if client == 0 {
				admin.Patch(t, "/api/v1/settings", j{"assemble_on_delivery": random.IntN(2) == 0}).Want(200)
			}
			kind := kinds[random.IntN(len(kinds))]
			if n == 0 {
				kind = kinds[client%len(kinds)]
			}
			shelfChanges[kind](s, random, s.products[random.IntN(5)], s.orders[random.IntN(4)], s.runs[random.IntN(8)])
		}
	})
	s.check()
}

// check fails the test unless the ledger explains the stock, the orders and the runs.
func (s *shelf) check() {
	s.t.Helper()
	for _, p := range s.products {
		balanced(s.t, s.Client, p)
	}
	type entry struct {
		ID          string
		ProductID   string `json:"product_id"`
		Kind        string
		Pieces      int
		Shortfall   int
		OnHand      int    `json:"on_hand"`
		RunItemID   string `json:"run_item_id"`
		OrderItemID string `json:"order_item_id"`
		AssemblyID  string `json:"assembly_id"`
		ReversesID  string `json:"reverses_id"`
		ReversedBy  string `json:"reversed_by_id"`
	}
	all := map[string]entry{}
	delivered, produced, used := map[string]int{}, map[string]int{}, map[string]int{} // by item
	assemblies := map[string]map[string]int{}                                         // pieces of each product
	total := 0
	for next := ""; next != "null"; {
		a := s.Get(s.t, entries+"?limit=100"+next).Want(200)
		total, _ = strconv.Atoi(a.Text("total"))
		var page struct{ Items []entry }
		testkit.Check(s.t, json.Unmarshal(a.Body, &page))
		for _, e := range page.Items {
			if _, twice := all[e.ID]; twice {
				s.t.Errorf("the entry %s is in the list twice", e.ID)
			}
			all[e.ID] = e
			switch e.Kind {
			case "delivered", "returned":
				delivered[e.OrderItemID] += e.Shortfall - e.Pieces
			case "produced", "corrected":
				produced[e.RunItemID] += e.Pieces - e.Shortfall
			case "used":
				used[e.RunItemID] -= e.Pieces
			case "assembled", "disassembled":
				if e.ReversesID == "" {
					if assemblies[e.AssemblyID] == nil {
						assemblies[e.AssemblyID] = map[string]int{}
					}
					assemblies[e.AssemblyID][e.ProductID] += e.Pieces
				}
			}
			// Only clips are used by runs, which is not refused.
			if e.OnHand < 0 && e.ProductID != s.clip {
				s.t.Errorf("%d pieces are in stock: %+v", e.OnHand, e)
			}
			// An order that is opened again takes its returns back, also of pieces that have left the stock since.
			if e.Shortfall != 0 && !slices.Contains([]string{"delivered", "corrected"}, e.Kind) &&
				(e.Kind != "returned" || e.ReversesID == "") {
				s.t.Errorf("a shortfall: %+v", e)
			}
		}
		if next = a.Text("next"); next != "null" {
			next = "&after=" + next
		}
	}
	testkit.Equal(s.t, len(all), total, "entries")
	for id, e := range all {
		of := all[e.ReversesID]
		if e.ReversesID != "" && (of.ReversedBy != id || of.Pieces-of.Shortfall != e.Shortfall-e.Pieces ||
			of.Kind != "returned" && of.Pieces != -e.Pieces || of.ProductID != e.ProductID || of.Kind != e.Kind) {
			s.t.Errorf("%+v takes %+v back", e, of)
		}
	}
	parts := map[string]map[string]int{s.kit: {s.clip: 3, s.base: 1}, s.lamp: {s.clip: 2}, s.box: {s.kit: 1, s.clip: 1}}
	for id, moved := range assemblies {
		made := []string{s.box, s.lamp, s.kit}[slices.IndexFunc([]string{s.box, s.lamp, s.kit}, func(p string) bool {
			return moved[p] != 0
		})]
		n := moved[made]
		want := map[string]int{made: n}
		for part, each := range parts[made] {
			want[part] = -n * each
		}
		if !maps.Equal(moved, want) {
			s.t.Errorf("assembly %s: %v, want %v", id, moved, want)
		}
	}
	for _, order := range s.orders {
		a := s.Get(s.t, order).Want(200)
		for i := range 2 {
			item := fmt.Sprintf("items.%d.", i)
			n, _ := strconv.Atoi(a.Text(item + "delivered")) // null is 0
			testkit.Equal(s.t, delivered[a.Text(item+"id")], n, "delivered pieces in the ledger")
		}
	}
	for _, run := range s.runs {
		a := s.Get(s.t, run).Want(200)
		for i, quantity := range []int{4, 2} {
			item := fmt.Sprintf("items.%d.", i)
			good := 0
			if a.Text("status") == "completed" {
				failed, _ := strconv.Atoi(a.Text(item + "failed_quantity")) // null is 0
				good = quantity - failed
				if text := a.Text(item + "successful_quantity"); text != "null" {
					good, _ = strconv.Atoi(text)
				}
			}
			id := a.Text(item + "id")
			testkit.Equal(s.t, produced[id], good, "good pieces in the ledger")
			if a.Text(item+"parts_from_stock") == "true" {
				testkit.Equal(s.t, used[id], 2*good, "used clips in the ledger")
			} else {
				testkit.Equal(s.t, used[id], 0, "used pieces in the ledger")
			}
		}
	}
}

// Requests that change the items of one run at the same time leave one number of pieces.
func TestRunItemsChangeConcurrently(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	p := c.NewProduct(t, "P", 1)
	path, item := run(t, c, p, 20, nil)
	testkit.Concurrently(8, func(i int) {
		if i == 3 {
			c.Post(t, path+"/complete", nil).Want(200)
			return
		}
		c.Patch(t, path+"/items/"+item, j{"successful_quantity": i + 1, "failed_quantity": 0}).Want(200)
	})
	good := c.Get(t, path).Text("items.0.successful_quantity")
	testkit.Equal(t, fmt.Sprint(balanced(t, c, p)), good, "pieces in stock")
}

// A change of the pieces in stock waits for another one, and takes no pieces that are gone then, also of a product
// that had no pieces before.
func TestChangeWaitsForStock(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	for held, counted := range map[string]bool{
		`update product_pieces set on_hand = 5, unvalued = 5 where product_id = '%s'`:    true,
		`insert into product_pieces (product_id, on_hand, unvalued) values ('%s', 5, 5)`: false,
	} {
		p := c.NewProduct(t, fmt.Sprint("P-", counted), 1)
		if counted {
			c.Post(t, products+"/"+p+"/count", j{"counted": 10}).Want(200)
		}
		h := c.Hold(t, fmt.Sprintf(held, p))
		var a *testkit.Response
		var err error
		done := h.StartWaiting(1, func() { a, err = c.Send("POST", products+"/"+p+"/scrap", j{"quantity": 7}) })
		h.Commit()
		<-done
		testkit.Check(t, err)
		testkit.Equal(t, a.Status, 409, "7 of 5 pieces: %s", a.Body)
		c.Get(t, products+"/"+p).Want(200).Shows(map[string]string{"on_hand": "5"})
	}
}

// A reversal of a delivery locks the order before the pieces, as deliveries do, so that both never wait for each other.
func TestReversalLocksOrderFirst(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	product := c.NewProduct(t, "A", 10)
	c.Post(t, products+"/"+product+"/count", j{"counted": 5}).Want(200)
	order, item := c.NewOrder(t, product, 2)
	c.Post(t, order+"/deliver", j{"items": []j{{"id": item, "quantity": 2}}}).Want(200)
	delivered := c.Get(t, products+"/"+product+"/piece-entries").Want(200).Text("items.0.id")
	h := c.Hold(t, `select from orders where id = '`+path.Base(order)+`' for no key update`)
	done := h.StartWaiting(1, func() { c.Post(t, entries+"/"+delivered+"/reverse", nil).Want(200) })
	h.Exec(`select from product_pieces where product_id = $1 for update nowait`, product)
	h.Commit()
	<-done
	onHand(t, c, product, 5)
}
