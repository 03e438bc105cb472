package pieces_test

import (
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// newKit creates a kit of three clips and one base, without materials of its own.
func newKit(t *testing.T, c *testkit.Client) (kit, clip, base string) {
	t.Helper()
	clip, base = c.NewProduct(t, "Clip", 5), c.NewProduct(t, "Base", 5)
	kit = c.Post(t, products, j{"name": "Kit", "components": []j{{"component_product_id": clip, "quantity": 3},
		{"component_product_id": base}}}).Want(201).ID()
	return kit, clip, base
}

func TestAssemble(t *testing.T) {
	t.Parallel()
	tenant := newFarm(t).Tenant(t)
	c := tenant.User(t, "operator")
	kit, clip, base := newKit(t, c)
	c.Post(t, products+"/"+clip+"/count", j{"counted": 8}).Want(200)
	two := j{"quantity": 2}
	detail := c.Post(t, products+"/"+kit+"/assemble", j{"quantity": 3}).WantError(409, "NOT_ENOUGH_PIECES").Text("detail")
	testkit.Equal(t, detail,
		"Not enough pieces in stock: 0 of Product Base, 3 are needed; 8 of Product Clip, 9 are needed",
		"detail")
	onHand(t, c, clip, 8)
	c.Post(t, products+"/"+base+"/count", j{"counted": 2}).Want(200)
	a := c.Post(t, products+"/"+kit+"/assemble", two).Want(200)
	a.Shows(map[string]string{"entries.#": "3", "entries.2.product_id": kit, "entries.2.pieces": "2",
		"entries.2.kind": "assembled", "entries.0.assembly_id": a.Text("assembly_id")})
	onHand(t, c, kit, 2)
	onHand(t, c, clip, 2)
	onHand(t, c, base, 0)
	c.Post(t, products+"/"+kit+"/disassemble", j{"quantity": 1}).Want(200)
	onHand(t, c, kit, 1)
	onHand(t, c, clip, 5)
	onHand(t, c, base, 1)
	c.Post(t, products+"/"+kit+"/disassemble", two).WantError(409, "NOT_ENOUGH_PIECES")
	c.Post(t, products+"/"+clip+"/assemble", two).WantError(409, "NO_COMPONENTS")
	c.Post(t, products+"/"+kit+"/assemble", j{"quantity": 0}).Fields("quantity")
	tenant.User(t, "viewer").Post(t, products+"/"+kit+"/assemble", two).WantError(403, "FORBIDDEN")
	c.API.Operator(t).Post(t, products+"/"+kit+"/assemble", two).WantError(404, "NOT_FOUND")

	// The assembly of two cannot be taken back while one is apart.
	c.Post(t, entries+"/"+a.Text("entries.0.id")+"/reverse", nil).WantError(409, "NOT_ENOUGH_PIECES")
	again := c.Get(t, products+"/"+kit+"/piece-entries?kind=disassembled").Text("items.0.id")
	c.Post(t, entries+"/"+again+"/reverse", nil).Want(200)
	c.Post(t, entries+"/"+a.Text("entries.0.id")+"/reverse", nil).Want(200)
	c.Post(t, entries+"/"+a.Text("entries.1.id")+"/reverse", nil).WantError(409, "ENTRY_REVERSED")
	onHand(t, c, kit, 0)
	onHand(t, c, clip, 8)
	onHand(t, c, base, 2)
}

// A delivery assembles the kits that are missing, as far as there are parts.
func TestDeliveryAssembles(t *testing.T) {
	t.Parallel()
	tenant := newFarm(t).Tenant(t)
	c := tenant.User(t, "operator")
	kit, clip, base := newKit(t, c)
	c.Post(t, products+"/"+clip+"/count", j{"counted": 5}).Want(200)
	c.Post(t, products+"/"+base+"/count", j{"counted": 5}).Want(200)
	order, _ := c.NewOrder(t, kit, 2)
	c.Post(t, order+"/deliver", nil).Want(200).Shows(map[string]string{"status": "done", "warnings.0.pieces": "1"})
	onHand(t, c, kit, 0)
	onHand(t, c, clip, 2)
	onHand(t, c, base, 4)
	kinds(t, c, kit, "delivered -1 short 1", "assembled 1")
	c.Post(t, products+"/"+clip+"/count", j{"counted": 5}).Want(200)
	other, _ := c.NewOrder(t, kit, 1)
	c.Post(t, other+"/deliver", j{"assemble": false}).Want(200).Shows(map[string]string{"warnings.0.pieces": "1"})
	onHand(t, c, clip, 5)

	// The setting of the farm is the default, also for an order that is marked done.
	tenant.User(t, "admin").Patch(t, "/api/v1/settings", j{"assemble_on_delivery": false}).Want(200).
		Shows(map[string]string{"assemble_on_delivery": "false"})
	for _, deliver := range []func(order string){
		func(order string) { c.Post(t, order+"/deliver", nil).Want(200) },
		func(order string) { c.Post(t, order+"/complete", nil).Want(200) },
		func(order string) { c.Patch(t, order, j{"status": "done"}).Want(200) },
	} {
		order, _ := c.NewOrder(t, kit, 1)
		deliver(order)
		onHand(t, c, clip, 5)
	}
	// Optional materials need no print.
	c.Post(t, products+"/"+kit+"/materials", j{"material_type": "PLA", "color": "Black", "weight_grams": 1,
		"is_required": false}).Want(201)
	order, _ = c.NewOrder(t, kit, 1)
	c.Post(t, order+"/deliver", j{"assemble": true}).Want(200)
	onHand(t, c, clip, 2)
}

func TestReverse(t *testing.T) {
	t.Parallel()
	tenant := newFarm(t).Tenant(t)
	d := newDeliveries(t, tenant.User(t, "operator"))
	d.count(d.p, 10)
	d.count(d.q, 3)
	newest := func(product string) string {
		t.Helper()
		return entries + "/" + d.Get(t, products+"/"+product+"/piece-entries").Text("items.0.id") + "/reverse"
	}
	d.Post(t, products+"/"+d.p+"/scrap", j{"quantity": 4}).Want(200)
	scrapped := newest(d.p)
	tenant.User(t, "viewer").Post(t, scrapped, nil).WantError(403, "FORBIDDEN")
	d.API.Operator(t).Post(t, scrapped, nil).WantError(404, "NOT_FOUND")
	responses := testkit.Race(t, 8, func(int) (*testkit.Response, error) {
		return d.Send("POST", scrapped, j{"reason": "found"})
	})
	responses.Want(t, map[string]int{"200": 1, "409 ENTRY_REVERSED": 7})
	onHand(t, d.Client, d.p, 10)
	d.Post(t, newest(d.p), nil).WantError(409, "ENTRY_NOT_REVERSIBLE")
	first := strings.TrimSuffix(scrapped, "/reverse")[len(entries)+1:]
	d.Get(t, entries+"?kind=scrapped").Shows(map[string]string{"items.0.reverses_id": first, "items.0.reason": "found",
		"items.1.reversed_by_id": d.Get(t, entries+"?kind=scrapped").Text("items.0.id")})

	path, _ := run(t, d.Client, d.q, 2, nil)
	d.Post(t, path+"/complete", nil).Want(200)
	a := d.Post(t, newest(d.q), nil).WantError(409, "ENTRY_OF_RUN")
	testkit.Contains(t, a.Text("detail"), path[len(runs)+1:], "the detail does not name the run: %s", a.Body)

	// A delivery, which opens the order again, and a return.
	d.Post(t, d.order+"/deliver", nil).Want(200).Shows(map[string]string{"status": "done"})
	d.Post(t, newest(d.q), nil).Want(200).Shows(map[string]string{"kind": "delivered", "pieces": "3"})
	d.is("in_production", "8", "0")
	onHand(t, d.Client, d.q, 5)
	delivered := newest(d.p)
	d.Post(t, d.order+"/return", j{"items": []j{{"id": d.first, "quantity": 1}}}).Want(200)
	d.Post(t, delivered, nil).WantError(409, "DELIVERY_RETURNED")
	d.Post(t, newest(d.p), nil).Want(200)
	d.is("in_production", "8", "0")
	d.Post(t, delivered, nil).Want(200)
	d.is("in_production", "0", "0")
	onHand(t, d.Client, d.p, 10)
}

// A delivery assembles kits in kits, those of the lowest level first. The pick list and ready_at say so before.
func TestDeliveryAssemblesAllLevels(t *testing.T) {
	t.Parallel()
	tenant := newFarm(t).Tenant(t)
	c := tenant.User(t, "operator")
	contains := func(name string, parts ...j) string {
		return c.Post(t, products, j{"name": name, "components": parts}).Want(201).ID()
	}
	part := func(product string, pieces int) j { return j{"component_product_id": product, "quantity": pieces} }
	count := func(product string, pieces int) {
		c.Post(t, products+"/"+product+"/count", j{"counted": pieces}).Want(200)
	}
	isReady := func(order string, want bool) {
		t.Helper()
		c.CheckLevels(t)
		testkit.Equal(t, c.Get(t, order).Text("ready_at") != "null", want, "the order is ready")
	}
	deliver := func(order string, body any, short string) {
		t.Helper()
		c.Post(t, order+"/deliver", body).Want(200).Shows(map[string]string{"warnings.0.pieces": short})
	}
	leaf := c.NewProduct(t, "LEAF", 5)
	sub := contains("Sub", part(leaf, 2))
	top := contains("Top", part(sub, 2))

	count(leaf, 8)
	order, _ := c.NewOrder(t, top, 2)
	isReady(order, true)
	c.Get(t, orderURL+"/pick-list?ids="+order[len(orderURL)+1:]).Shows(map[string]string{"orders.0.items.0.take": "0",
		"orders.0.items.0.assemble": "2", "orders.0.items.0.missing": "0", "orders.0.items.0.parts.#": "1",
		"orders.0.items.0.parts.0.take": "8", "picks.#": "1", "picks.0.pieces": "8"})
	c.Post(t, order+"/deliver", nil).Want(200).Shows(map[string]string{"status": "done", "warnings.#": "0"})
	onHand(t, c, leaf, 0)
	kinds(t, c, sub, "assembled -4", "assembled 4")
	kinds(t, c, top, "delivered -2", "assembled 2")
	onHand(t, c, sub, 0)

	// As far as there are parts: there are three subs with those that can be made. One top needs two of them.
	count(leaf, 5)
	count(sub, 1)
	order, _ = c.NewOrder(t, top, 3)
	isReady(order, false)
	deliver(order, nil, "2")
	onHand(t, c, sub, 0)
	onHand(t, c, leaf, 3)

	// Two kits in a kit share their parts: each alone has enough.
	left, right := contains("Left", part(leaf, 2)), contains("Right", part(leaf, 2))
	pair := contains("Pair", part(left, 1), part(right, 1))
	order, _ = c.NewOrder(t, pair, 1)
	isReady(order, false)
	deliver(order, nil, "1")
	onHand(t, c, leaf, 3)
	onHand(t, c, left, 0)
	count(leaf, 4)
	order, _ = c.NewOrder(t, pair, 1)
	isReady(order, true)
	deliver(order, j{"assemble": false}, "1")
	order, _ = c.NewOrder(t, pair, 1)
	c.Post(t, order+"/deliver", nil).Want(200).Shows(map[string]string{"warnings.#": "0"})
	onHand(t, c, leaf, 0)

	// A sub that needs filament of its own is printed, but one in stock is taken.
	c.Post(t, products+"/"+sub+"/materials", j{"material_type": "PLA", "color": "Black", "weight_grams": 1}).Want(201)
	count(leaf, 8)
	count(sub, 3)
	order, _ = c.NewOrder(t, top, 2)
	isReady(order, false)
	deliver(order, nil, "1")
	onHand(t, c, leaf, 8)
	onHand(t, c, sub, 1)
	// Runs can print a kit with its parts, too. The pick list says that it is missing.
	count(leaf, 0)
	order, item := c.NewOrder(t, pair, 1)
	c.NewRun(t, left, item, 1, nil)
	count(right, 1)
	isReady(order, false)
	c.Get(t, orderURL+"/pick-list?ids="+order[len(orderURL)+1:]).Shows(map[string]string{
		"orders.0.items.0.parts.#": "2", "orders.0.items.0.parts.0.product_id": left,
		"orders.0.items.0.parts.0.missing": "1", "orders.0.items.0.parts.1.take": "1"})
	count(left, 1)
	isReady(order, true)
	tenant.User(t, "admin").Patch(t, "/api/v1/settings", j{"assemble_on_delivery": false}).Want(200)
	isReady(order, false)
}

// More parts than the stock of a product can have are a problem with the quantity.
func TestDisassembleTooMany(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Tenant(t).User(t, "operator")
	part := c.Post(t, products, j{"name": "Part"}).Want(201).ID()
	kit := c.Post(t, products,
		j{"name": "Kit", "components": []j{{"component_product_id": part, "quantity": 1_000_000}}}).
		Want(201).ID()
	c.Post(t, products+"/"+kit+"/count", j{"counted": 1_000_000}).Want(200)
	c.Post(t, products+"/"+kit+"/disassemble", j{"quantity": 1_000_000}).Fields("quantity")
	onHand(t, c, kit, 1_000_000)
	c.Post(t, products+"/"+kit+"/disassemble", j{"quantity": 1}).Want(200)
}

// Nobody waits for the pieces of a plate that was removed from its product.
func TestRemovedPlateIsNotAwaited(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	made := c.Post(t, products, j{"name": "Dragon", "plates": []j{{"name": "Body"}, {"name": "Wings"}}}).Want(201)
	dragon, body, wings := products+"/"+made.ID(), made.Text("plates.0.id"), made.Text("plates.1.id")
	for _, plate := range []string{body, wings} {
		c.Post(t, products+"/"+plate+"/count", j{"counted": 1}).Want(200)
	}
	c.Patch(t, dragon, j{"plates": []j{{"id": body}}}).Want(200)
	h := c.Hold(t, `select from product_pieces where product_id = '`+wings+`' for update`)
	c.Post(t, dragon+"/assemble", j{"quantity": 1}).Want(200)
	h.Commit()
}
