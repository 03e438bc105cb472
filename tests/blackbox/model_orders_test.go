package blackbox_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"spoolwright/db"
	"spoolwright/tests/testkit"
)

// This file is the part of the model of TestModel with orders, and what they and unfinished runs reserve.

// modelOrder is an order. Only its owner changes it and links runs to it, but other users complete such runs.
type modelOrder struct {
	deletion
	id      string
	owner   *modelUser
	status  string // the last one that the owner has set
	patched bool   // whether the owner has set a status
	items   []*modelOrderItem
}

type modelOrderItem struct {
	id       string
	order    *modelOrder
	product  *modelProduct
	quantity int64

	delivered int64
}

// pickOrderItem returns a random item of an order that a new item of a run can print.
func (u *modelUser) pickOrderItem() *modelOrderItem {
	o, ok := pick(u, u.orders)
	if !ok || o.deleted.Load() || o.status == "cancelled" {
		return nil
	}
	i, _ := pick(u, o.items)
	return i
}

// changeOrder creates, edits or deletes an order or one of its items.
func (u *modelUser) changeOrder() {
	if len(u.products) == 0 {
		u.createProduct()
		return
	}
	o, ok := pick(u, u.orders)
	if !ok || u.chance(25) {
		u.createOrder()
		return
	}
	if o.deleted.Load() {
		out, a := u.call("get order", "GET", "/api/v1/orders/"+o.id, nil)
		u.wantOutcome("get order", out, a, "NOT_FOUND")
		return
	}
	path := "/api/v1/orders/" + o.id
	i, there := pick(u, o.items)
	switch n := u.IntN(100); {
	case n < 30:
		status, _ := pick(u, []string{"received", "in_production", "received", "in_production", "done", "cancelled"})
		out, a := u.call("patch order", "PATCH", path, object{"status": status})
		u.wantOutcome("patch order", out, a, "ok")
		for _, i := range o.items { // done delivers all, and another status takes that back
			switch {
			case status == "done" && o.status != "done":
				i.delivered = max(i.delivered, i.quantity)
			case status != "done" && o.status == "done":
				i.delivered = 0
			}
		}
		o.status, o.patched = status, true
	case n < 60 && there:
		quantity := 1 + u.Int64N(20)
		out, a := u.call("edit order item", "PATCH", path+"/items/"+i.id, object{"quantity": quantity})
		if quantity < i.delivered {
			u.wantOutcome("edit order item", out, a, "VALIDATION_ERROR")
			return
		}
		u.wantOutcome("edit order item", out, a, "ok")
		if o.status == "done" && quantity > max(i.quantity, i.delivered) {
			o.status = "in_production"
		}
		i.quantity = quantity
		o.settle()
	case n < 70 && there:
		want := []string{"ok"}
		for _, r := range u.modelUserRuns() {
			switch {
			case !r.prints(i) || !r.isUnfinished():
			case r.shared: // another user may complete it
				want = []string{"ok", "ORDER_ITEM_IN_USE"}
			default:
				want = []string{"ORDER_ITEM_IN_USE"}
			}
		}
		out, a := u.call("delete order item", "DELETE", path+"/items/"+i.id, nil)
		if u.wantOutcome("delete order item", out, a, want...); out == "ok" {
			o.items = slices.DeleteFunc(o.items, func(other *modelOrderItem) bool { return other == i })
			o.settle()
		}
	case n < 90:
		p, _ := pick(u, u.products)
		item := &modelOrderItem{order: o, product: p, quantity: 1 + u.Int64N(20)}
		out, a := u.call("add order item", "POST", path+"/items",
			object{"product_id": p.id, "quantity": item.quantity})
		if p.deleted.Load() {
			u.wantOutcome("add order item", out, a, "UNKNOWN_REFERENCE")
			return
		}
		u.wantOutcome("add order item", out, a, "ok")
		item.id = a.text("id")
		o.items = append(o.items, item)
		if o.status == "done" {
			o.status = "in_production"
		}
	default:
		out, a := u.call("delete order", "DELETE", path, nil)
		u.wantOutcome("delete order", out, a, "ok")
		o.deleted.Store(true)
	}
}

// settle makes an open order done if everything is delivered.
func (o *modelOrder) settle() {
	missing := func(i *modelOrderItem) bool { return i.delivered < i.quantity }
	if o.status != "cancelled" && len(o.items) > 0 && !slices.ContainsFunc(o.items, missing) {
		o.status = "done"
	}
}

// modelUserRuns returns the runs of the user that exist, also hidden ones.
func (u *modelUser) modelUserRuns() []*modelRun {
	return slices.DeleteFunc(slices.Clone(u.runs), func(r *modelRun) bool { return r.gone() })
}

// prints reports whether an item of the run prints the item of an order.
func (r *modelRun) prints(i *modelOrderItem) bool {
	return slices.ContainsFunc(r.items, func(item *modelItem) bool { return item.order == i })
}

func (u *modelUser) createOrder() {
	open := 0
	for _, o := range u.orders {
		if !o.deleted.Load() {
			open++
		}
	}
	if open > 5 {
		u.recreateOrder()
		return
	}
	o := &modelOrder{owner: u, status: "received"}
	body, want := u.orderBody(o, fmt.Sprintf("%d-%d", u.n, u.ops))
	out, a := u.call("create order", "POST", "/api/v1/orders", body)
	if u.wantOutcome("create order", out, a, want); out != "ok" {
		return
	}
	if o.id = a.text("id"); len(a.list("items")) != len(o.items) || a.text("status") != "received" {
		u.errorf("create order: %v, want %d items", a, len(o.items))
		return
	}
	for n, i := range o.items {
		i.id = a.list("items")[n].text("id")
	}
	u.orders = append(u.orders, o)
	u.mu.Lock()
	u.modelTenant.orders = append(u.modelTenant.orders, o)
	u.mu.Unlock()
	u.sent = body
	u.sentID = o.id
}

// recreateOrder sends the user's last order again.
func (u *modelUser) recreateOrder() {
	if u.sent == nil || slices.ContainsFunc(u.orders, func(o *modelOrder) bool {
		return o.id == u.sentID && o.deleted.Load()
	}) {
		return
	}
	body, want := u.sent, "ok"
	if u.chance(30) {
		body, want = object{"source": "model", "reference": u.sent["reference"], "notes": "other"}, "ORDER_CONFLICT"
	}
	out, a := u.call("create order again", "POST", "/api/v1/orders", body)
	if u.wantOutcome("create order again", out, a, want); out == "ok" && a.text("id") != u.sentID {
		u.errorf("create order again: %v, want the id %s", a, u.sentID)
	}
}

// orderBody returns a body that creates the order, whose items it adds, and its outcome.
func (u *modelUser) orderBody(o *modelOrder, reference string) (body object, want string) {
	want = "ok"
	items := []object{}
	for range u.IntN(4) {
		if p, ok := pick(u, u.products); ok {
			i := &modelOrderItem{order: o, product: p, quantity: 1 + u.Int64N(20)}
			o.items, items = append(o.items, i), append(items, object{"product_id": p.id, "quantity": i.quantity})
			if p.deleted.Load() {
				want = "UNKNOWN_REFERENCE"
			}
		}
	}
	return object{"source": "model", "reference": reference, "items": items}, want
}

// endRun fails or cancels a run that only the user changes.
func (u *modelUser) endRun() {
	r := u.ownRun()
	if r.shared || slices.ContainsFunc(r.materials, func(m *modelMaterial) bool { return m.spool.owner != u }) {
		u.changeOrder()
		return
	}
	operation, status := "fail", "failed"
	if u.chance(50) {
		operation, status = "cancel", "cancelled"
	}
	want, need := "ok", map[*modelSpool]micro{}
	for _, m := range r.materials {
		if m.actual() > 0 {
			need[m.spool] += m.actual()
		}
	}
	switch {
	case r.deleted.Load():
		want = "NOT_FOUND"
	case r.completeOK.Load() > 0:
		want = "RUN_ALREADY_COMPLETED"
	case r.ended, r.status != status && slices.Contains([]string{"completed", "failed", "cancelled"}, r.status):
		want = "RUN_NOT_OPEN"
	}
	out, a := u.call(operation, "POST", "/api/v1/production-runs/"+r.id+"/"+operation, object{"reason": "adhesion"})
	u.wantOutcome(operation, out, a, want)
	if out != "ok" {
		return
	}
	r.status, r.ended = status, true
	r.result = a.list("spools_updated")
	for s, grams := range need {
		if !s.shared {
			s.weight = max(s.weight-grams, 0)
		}
	}
}

// gone reports whether the run was deleted, and not hidden.
func (r *modelRun) gone() bool { return r.deleted.Load() && r.completeOK.Load() == 0 && !r.ended }

// state returns the status of the run while no requests are sent.
func (r *modelRun) state() string {
	if r.completeOK.Load() > 0 {
		return "completed"
	}
	return r.status
}

// isUnfinished reports whether the run reserves filament.
func (r *modelRun) isUnfinished() bool {
	return !r.gone() && slices.Contains([]string{"pending", "in_progress", "paused"}, r.state())
}

// pieces returns how many pieces of the item of an order the runs have produced, and plan to print.
func (f *modelTenant) pieces(i *modelOrderItem) (produced, planned int64, started bool) {
	for _, r := range f.runs {
		for _, item := range r.items {
			switch {
			case item.order != i || r.gone():
			case r.isUnfinished():
				planned += item.quantity
				started = started || r.state() != "pending"
			case r.state() == "completed" && item.success >= 0:
				produced += item.success
				started = true
			case r.state() == "completed":
				produced += item.quantity - max(item.fails, 0)
				started = true
			}
		}
	}
	return produced, planned, started
}

// filament is a material and a color.
type filament struct{ material, color string }

// explode adds the filament that pieces of the product need.
func (p *modelProduct) explode(pieces int64, into map[filament]micro) {
	for _, m := range p.materials {
		into[filament{m.text("material_type"), m.text("color")}] += m["weight_grams"].(micro) * micro(pieces)
	}
	for _, c := range p.components {
		c.product.explode(pieces*c.quantity, into)
	}
}

// addMaterials adds the filament that pieces of the product need without its components.
func (p *modelProduct) addMaterials(pieces int64, into map[filament]micro) {
	for _, m := range p.materials {
		into[filament{m.text("material_type"), m.text("color")}] += m["weight_grams"].(micro) * micro(pieces)
	}
}

// modelNeed is a product that an item of an open order needs.
type modelNeed struct {
	item              *modelOrderItem
	product           *modelProduct
	needed            int64
	incoming, missing int64
}

// net returns what the items need, and where it comes from. The items have the order in which they take pieces;
// delivered and onHand have what the API says. The pieces of the runs are those of the model.
func (f *modelTenant) net(
	items []*modelOrderItem, delivered map[*modelOrderItem]int64, onHand map[string]int64,
) (all []modelNeed) {
	demand := map[*modelProduct]map[*modelOrderItem]int64{}
	add := func(p *modelProduct, i *modelOrderItem, n int64) {
		if demand[p] == nil {
			demand[p] = map[*modelOrderItem]int64{}
		}
		demand[p][i] += n
	}
	for _, i := range items {
		if n := i.quantity - delivered[i]; n > 0 {
			add(i.product, i, n)
		}
	}
	// A product comes after all products that contain it.
	var sorted []*modelProduct
	seen := map[*modelProduct]bool{}
	var visit func(p *modelProduct)
	visit = func(p *modelProduct) {
		if !seen[p] {
			seen[p] = true
			for _, c := range p.components {
				visit(c.product)
			}
			sorted = append(sorted, p)
		}
	}
	for _, p := range f.products {
		visit(p)
	}
	slices.Reverse(sorted)
	for _, p := range sorted {
		needs := demand[p]
		shelf, pool := max(0, onHand[p.id]), int64(0)
		made, own := map[*modelOrderItem]int64{}, map[*modelOrderItem]int64{}
		for _, r := range f.runs {
			for _, item := range r.items {
				switch {
				case item.product != p || r.gone():
				case r.isUnfinished():
					own[item.order] += item.quantity
					pool += item.quantity
				case r.state() == "completed" && item.success >= 0:
					made[item.order] += item.success
				case r.state() == "completed":
					made[item.order] += item.quantity - max(item.fails, 0)
				}
			}
		}
		rest, incoming := map[*modelOrderItem]int64{}, map[*modelOrderItem]int64{}
		each := func(give func(i *modelOrderItem) int64) {
			for _, i := range items {
				if rest[i] > 0 {
					rest[i] -= give(i)
				}
			}
		}
		for i, n := range needs {
			rest[i] = n
		}
		take := func(from *int64, most ...int64) int64 {
			n := max(0, min(slices.Min(most), *from))
			*from -= n
			return n
		}
		each(func(i *modelOrderItem) int64 {
			mine := made[i]
			if i.product == p {
				mine -= delivered[i]
			}
			return take(&shelf, rest[i], mine)
		})
		each(func(i *modelOrderItem) int64 { return take(&shelf, rest[i]) })
		each(func(i *modelOrderItem) int64 {
			n := take(&pool, rest[i], own[i])
			incoming[i] += n
			return n
		})
		each(func(i *modelOrderItem) int64 {
			n := take(&pool, rest[i])
			incoming[i] += n
			return n
		})
		for _, i := range items {
			if needs[i] > 0 {
				all = append(all, modelNeed{i, p, needs[i], incoming[i], rest[i]})
				for _, c := range p.components {
					if rest[i] > 0 {
						add(c.product, i, rest[i]*c.quantity)
					}
				}
			}
		}
	}
	return all
}

// reserved returns what the open orders and the unfinished runs reserve. needs is what net returns.
func (f *modelTenant) reserved(needs []modelNeed, without *modelOrder) map[filament]micro {
	all := map[filament]micro{}
	for _, n := range needs {
		if n.item.order != without {
			n.product.addMaterials(n.missing, all)
		}
	}
	for _, r := range f.runs {
		if !r.isUnfinished() {
			continue
		}
		weighed := false
		for _, m := range r.materials {
			grams := m.actual()
			if grams < 0 {
				grams = m.estimated
			}
			if grams >= 0 {
				weighed = true
				all[filament{m.spool.material, m.spool.color}] += grams
			}
		}
		for _, i := range r.items {
			if !weighed {
				i.product.explode(i.quantity, all)
			}
		}
	}
	return all
}

// stockOfPieces returns the pieces in stock by the ids of the products.
func (f *modelTenant) stockOfPieces() map[string]int64 {
	onHand := map[string]int64{}
	rows := db.SQL(`select product_id::text as id, on_hand from product_pieces`)
	if err := f.api.DB.Read(db.As(f.t.Context(), db.Actor{Tenant: f.users[0].client.Actor.Tenant}), rows); err != nil {
		f.t.Error(err)
		return nil
	}
	var all []struct {
		ID     string
		OnHand int64 `json:"on_hand"`
	}
	if err := json.Unmarshal(rows.Array(), &all); err != nil {
		f.t.Error(err)
	}
	for _, p := range all {
		onHand[p.ID] = p.OnHand
	}
	return onHand
}

// checkOrders compares the orders, and the availability of some products and orders, with the model.
func (f *modelTenant) checkOrders() {
	u := f.users[0]
	listed := f.listAll("orders", false)
	open, live := map[*modelOrder]bool{}, 0
	delivered, created := map[*modelOrderItem]int64{}, map[*modelOrder]time.Time{}
	for _, o := range f.orders {
		out, a := u.call("get order", "GET", "/api/v1/orders/"+o.id, nil)
		if o.deleted.Load() {
			u.wantOutcome("get order", out, a, "NOT_FOUND")
			continue
		}
		live++
		status := a.text("status")
		open[o] = status == "received" || status == "in_production"
		if shown := listed[o.id]; shown.text("status") != status || len(a.list("items")) != len(o.items) {
			f.t.Errorf("order %s is %v, and listed as %v; want %d items", o.id, a, shown, len(o.items))
			continue
		}
		anyStarted := false
		created[o], _ = time.Parse(time.RFC3339Nano, a.text("created_at"))
		for n, i := range o.items {
			produced, planned, started := f.pieces(i)
			delivered[i], _ = strconv.ParseInt(fmt.Sprint(a.list("items")[n]["delivered"]), 10, 64) // null is 0
			anyStarted = anyStarted || started
			got := a.list("items")[n]
			for name, want := range map[string]int64{"quantity": i.quantity, "produced": produced,
				"planned": planned} {
				if fmt.Sprint(got[name]) != strconv.FormatInt(want, 10) {
					f.t.Errorf("order %s: item %v, want %s %d", o.id, got, name, want)
				}
			}
			if got.text("id") != i.id || got.text("product_id") != i.product.id {
				f.t.Errorf("order %s: item %v, want %s with product %s", o.id, got, i.id, i.product.id)
			}
		}
		// A status that the owner has set remains until a run changes.
		switch {
		case !o.patched && status == "received" && anyStarted:
			f.t.Errorf("order %s is %s although a run has started", o.id, status)
		case (status == "cancelled") != (o.status == "cancelled"), (status == "done") != (o.status == "done"):
			f.t.Errorf("order %s is %s, the owner set %s", o.id, status, o.status)
		}
	}
	if len(listed) != live {
		f.t.Errorf("%d orders are listed, the model has %d", len(listed), live)
	}

	var items []*modelOrderItem
	sorted := slices.SortedFunc(maps.Keys(created), func(a, b *modelOrder) int {
		return cmp.Or(created[a].Compare(created[b]), strings.Compare(a.id, b.id))
	})
	for _, o := range sorted {
		if open[o] {
			items = append(items, o.items...)
		}
	}
	needs := f.net(items, delivered, f.stockOfPieces())
	reserved := f.reserved(needs, nil)
	for range min(12, len(f.products)) {
		p, _ := pick(u, f.products)
		if p.deleted.Load() {
			continue
		}
		quantity, needed := 1+u.Int64N(50), map[filament]micro{}
		p.explode(quantity, needed)
		f.checkAvailability(u.client, fmt.Sprintf("/api/v1/products/%s/availability?quantity=%d", p.id, quantity),
			needed,
			needed, reserved)
	}
	for range min(12, len(f.orders)) {
		o, _ := pick(u, f.orders)
		if o.deleted.Load() {
			continue
		}
		rows, needed := map[filament]micro{}, map[filament]micro{}
		for _, n := range needs {
			if n.item.order == o {
				n.product.addMaterials(n.missing, needed)
			}
			if n.item.order == o && n.product == n.item.product && n.incoming+n.missing > 0 {
				n.product.explode(n.incoming+n.missing, rows)
			}
		}
		f.checkAvailability(u.client, "/api/v1/orders/"+o.id+"/availability", rows, needed, f.reserved(needs, o))
	}
}

// checkAvailability compares a response with the filament of rows, of which needed is needed.
func (f *modelTenant) checkAvailability(
	c *testkit.Client, path string, rows, needed, reserved map[filament]micro,
) {
	w := callHandler(c, "GET", path, nil)
	a, err := parseObject(w.Body.Bytes())
	if err != nil || w.Code != 200 {
		f.t.Errorf("%s: %d %s", path, w.Code, w.Body)
		return
	}
	f.users[0].counts["availability ok"]++
	const most = 999_999_999 * one
	printable, missing := true, 0
	shown := map[filament]object{}
	for _, m := range a.list("materials") {
		shown[filament{m.text("material_type"), m.text("color")}] = m
	}
	for which := range rows {
		var remaining micro
		candidates := []micro{}
		for _, s := range f.spools {
			if !s.deleted.Load() && s.material == which.material && s.color == which.color {
				remaining += s.weight
				if needed[which] > 0 && s.weight >= needed[which] {
					candidates = append(candidates, s.weight)
				}
			}
		}
		slices.Sort(candidates)
		candidates = candidates[:min(10, len(candidates))]
		m := shown[which]
		want := map[string]micro{"needed_grams": min(needed[which], most), "remaining_grams": remaining,
			"reserved_grams": min(reserved[which], most), "available_grams": max(remaining-reserved[which], -most),
			"missing_grams": min(max(needed[which]+reserved[which]-remaining, 0), most)}
		for name, grams := range want {
			if got := m.micro(name); m == nil || got != grams && fmt.Sprint(m[name]) != grams.String() {
				f.t.Errorf("%s: %s %s of %v, want %v: %v", path, which, name, m[name], grams, m)
			}
		}
		if want["missing_grams"] > 0 {
			printable = false
			missing++
		}
		var spools []micro
		for _, s := range m.list("spools") {
			spools = append(spools, s.micro("remaining_weight_grams"))
		}
		if !slices.Equal(spools, candidates) {
			f.t.Errorf("%s: spools of %s with %v, want %v", path, which, spools, candidates)
		}
	}
	if len(shown) != len(rows) || a["can_print"] != printable {
		f.t.Errorf("%s: %v, want %d materials of which %d are missing", path, a, len(rows), missing)
	}
}
