package pieces_test

import (
	"fmt"
	"testing"

	"spoolwright/tests/testkit"
)

// deliveries is an order with two items, of eight pieces of p and three of q.
type deliveries struct {
	*testkit.Client
	t             *testing.T
	p, q          string // products
	order         string // its path
	first, second string // its items
}

func newDeliveries(t *testing.T, c *testkit.Client) *deliveries {
	t.Helper()
	d := &deliveries{Client: c, t: t, p: c.NewProduct(t, "P", 10), q: c.NewProduct(t, "Q", 10)}
	a := c.Post(t, orderURL, j{"reference": "7", "items": []j{{"product_id": d.p, "quantity": 8, "unit_price": 10},
		{"product_id": d.q, "quantity": 3, "unit_price": 5}}}).Want(201)
	d.order, d.first, d.second = orderURL+"/"+a.ID(), a.Text("items.0.id"), a.Text("items.1.id")
	return d
}

func (d *deliveries) count(product string, n int) {
	d.t.Helper()
	d.Post(d.t, products+"/"+product+"/count", j{"counted": n}).Want(200)
}

// is fails the test unless the order has the status, and its items have these numbers of delivered pieces.
func (d *deliveries) is(status, first, second string) {
	d.t.Helper()
	d.Get(d.t, d.order).Want(200).Shows(map[string]string{"status": status, "items.0.delivered": first,
		"items.1.delivered": second})
}

func TestDeliver(t *testing.T) {
	t.Parallel()
	tenant := newFarm(t).Tenant(t)
	d := newDeliveries(t, tenant.User(t, "operator"))
	d.count(d.p, 10)
	d.count(d.q, 2)
	d.Post(t, d.order+"/deliver", j{"items": []j{{"id": d.first, "quantity": 3}}}).Want(200).
		Shows(map[string]string{"warnings": "[]", "status": "received", "items.0.delivered": "3"})
	d.is("received", "3", "null")
	onHand(t, d.Client, d.p, 7)
	d.Get(t, entries+"?order_id="+d.order[len(orderURL)+1:]).Shows(map[string]string{"total": "1",
		"items.0.kind": "delivered", "items.0.pieces": "-3", "items.0.order_item_id": d.first,
		"items.0.reference": "7", "items.0.user_id": d.Actor.User})

	d.Post(t, d.order+"/deliver", j{"items": []j{{"id": d.first, "quantity": 6}}}).Fields("items[0].quantity")
	d.Post(t, d.order+"/deliver", j{"items": []j{{"id": d.first, "quantity": 0}}}).Fields("items[0].quantity")
	d.Post(t, d.order+"/deliver", j{"items": []j{{"quantity": 1}}}).Fields("items[0].id")
	d.Post(t, d.order+"/deliver", j{"items": []j{{"id": d.first}, {"id": d.first}}}).Fields("items[1].id")
	d.Post(t, d.order+"/deliver", j{"items": []j{{"id": d.p}}}).WantError(400, "UNKNOWN_REFERENCE")
	tenant.User(t, "viewer").Post(t, d.order+"/deliver", nil).WantError(403, "FORBIDDEN")
	d.API.Operator(t).Post(t, d.order+"/deliver", nil).WantError(404, "NOT_FOUND")
	d.is("received", "3", "null")

	// The rest, of which one piece is not in stock.
	d.Post(t, d.order+"/deliver", nil).Want(200).Shows(map[string]string{"status": "done", "items.0.delivered": "8",
		"items.1.delivered": "3", "warnings.#": "1", "warnings.0.code": "PIECES_SHORTFALL", "warnings.0.pieces": "1",
		"warnings.0.order_item_id": d.second, "warnings.0.product_id": d.q, "revenue": "95"})
	onHand(t, d.Client, d.p, 2)
	onHand(t, d.Client, d.q, 0)
	kinds(t, d.Client, d.q, "delivered -2 short 1", "counted 2")
	d.Post(t, d.order+"/deliver", nil).Want(200).Shows(map[string]string{"warnings": "[]", "status": "done"})
	kinds(t, d.Client, d.q, "delivered -2 short 1", "counted 2")

	// An order that is opened again takes all of that back, once.
	d.Patch(t, d.order, j{"status": "in_production"}).Want(200)
	d.is("in_production", "null", "null")
	onHand(t, d.Client, d.p, 10)
	onHand(t, d.Client, d.q, 2)
	kinds(t, d.Client, d.q, "delivered 2 short -1", "delivered -2 short 1")
	d.Patch(t, d.order, j{"status": "received"}).Want(200)
	onHand(t, d.Client, d.p, 10)

	// A cancelled order cannot be delivered.
	d.Post(t, d.order+"/cancel", nil).Want(200)
	d.Post(t, d.order+"/deliver", nil).WantError(409, "ORDER_NOT_OPEN")
	d.Patch(t, d.order, j{"status": "received"}).Want(200)

	// Marked done with fewer pieces, then with other numbers.
	d.Post(t, d.order+"/complete", j{"items": []j{{"id": d.first, "delivered": 5}}}).Want(200).
		Shows(map[string]string{"status": "done", "warnings.0.pieces": "1", "revenue": "65"})
	onHand(t, d.Client, d.p, 5)
	d.Post(t, d.order+"/complete", j{"items": []j{{"id": d.first, "delivered": 4}}}).Want(200)
	d.is("done", "4", "3")
	onHand(t, d.Client, d.p, 6)
	kinds(t, d.Client, d.p, "returned 1", "delivered -5")
	d.Patch(t, d.order, j{"status": "received"}).Want(200)
	onHand(t, d.Client, d.p, 10)
	d.Patch(t, d.order, j{"status": "done"}).Want(200)
	d.is("done", "8", "3")
	onHand(t, d.Client, d.p, 2)

	// A new order that is done already takes its pieces out, too.
	d.Post(t, orderURL, j{"status": "done", "items": []j{{"product_id": d.p, "quantity": 2}}}).Want(201).
		Shows(map[string]string{"items.0.delivered": "2"})
	onHand(t, d.Client, d.p, 0)
}

func TestReturn(t *testing.T) {
	t.Parallel()
	tenant := newFarm(t).Tenant(t)
	d := newDeliveries(t, tenant.User(t, "operator"))
	d.count(d.p, 8)
	d.count(d.q, 3)
	d.Post(t, d.order+"/deliver", nil).Want(200)
	d.Post(t, d.order+"/return", j{"reason": "too many", "items": []j{{"id": d.first, "quantity": 2},
		{"id": d.second, "quantity": 1, "to_stock": false}}}).Want(200).
		Shows(map[string]string{"status": "done", "items.0.delivered": "6", "items.1.delivered": "2", "revenue": "70"})
	onHand(t, d.Client, d.p, 2)
	onHand(t, d.Client, d.q, 0)
	kinds(t, d.Client, d.p, "returned 2", "delivered -8")
	kinds(t, d.Client, d.q, "scrapped -1", "returned 1", "delivered -3")
	d.Post(t, d.order+"/return", j{"items": []j{{"id": d.second, "quantity": 3}}}).Fields("items[0].quantity")
	d.Post(t, d.order+"/return", j{"items": []j{{"id": d.p, "quantity": 1}}}).WantError(400, "UNKNOWN_REFERENCE")
	d.Post(t, d.order+"/return", j{"items": []j{{"id": d.first, "quantity": 1}, {"id": d.first, "quantity": 1}}}).
		Fields("items[1].id")
	back := j{"items": []j{{"id": d.first, "quantity": 1}}}
	tenant.User(t, "viewer").Post(t, d.order+"/return", back).WantError(403, "FORBIDDEN")
	d.API.Operator(t).Post(t, d.order+"/return", back).WantError(404, "NOT_FOUND")
	back["reopen"] = true
	d.Post(t, d.order+"/return", back).Want(200).Shows(map[string]string{"status": "in_production"})
	d.is("in_production", "5", "2")
	d.Post(t, d.order+"/deliver", nil).Want(200).Shows(map[string]string{"status": "done", "warnings.0.pieces": "1"})
	onHand(t, d.Client, d.p, 0)

	// All comes back, and is delivered again.
	d.Post(t, d.order+"/return", j{"reason": "wrong address"}).Want(200).Shows(map[string]string{"status": "done",
		"revenue": "0"})
	d.is("done", "0", "0")
	onHand(t, d.Client, d.p, 8)
	d.Post(t, d.order+"/deliver", nil).Want(200)

	// All of it is taken back; the scrapped piece stays scrapped.
	d.Patch(t, d.order, j{"status": "received"}).Want(200)
	onHand(t, d.Client, d.p, 8)
	onHand(t, d.Client, d.q, 2)
}

// Of many deliveries of one order at the same time, each piece is delivered once, and orders of two products in
// different sequence do not stop each other.
func TestDeliverConcurrently(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	p, q := c.NewProduct(t, "P", 10), c.NewProduct(t, "Q", 10)
	var all []string
	for i := range 4 {
		items := []j{{"product_id": p, "quantity": 8}, {"product_id": q, "quantity": 8}}
		if i%2 == 1 {
			items[0], items[1] = items[1], items[0]
		}
		all = append(all, orderURL+"/"+c.Post(t, orderURL, j{"items": items}).Want(201).ID())
	}
	c.Post(t, products+"/"+p+"/count", j{"counted": 40}).Want(200)
	c.Post(t, products+"/"+q+"/count", j{"counted": 40}).Want(200)
	testkit.Concurrently(32, func(i int) {
		order := all[i%4]
		switch {
		case i < 4:
			c.Post(t, order+"/deliver", nil).Want(200)
		case i < 8:
			c.Patch(t, order, j{"status": "done"}).Want(200)
		default:
			a := c.Get(t, order).Want(200)
			c.Post(t, order+"/deliver", j{"items": []j{{"id": a.Text("items.0.id")}}}).Want(200)
		}
	})
	for _, order := range all {
		c.Get(t, order).Shows(map[string]string{"status": "done", "items.0.delivered": "8", "items.1.delivered": "8"})
	}
	onHand(t, c, p, 8)
	onHand(t, c, q, 8)
	for i := range 2 {
		c.Get(t, fmt.Sprint(entries, "?order_id=", all[i][len(orderURL)+1:])).Shows(map[string]string{"total": "2"})
	}
}

// A broken piece that comes back changes no stock, also if runs have used more pieces than were counted.
func TestBrokenReturnOfUncountedPieces(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	clip := c.NewProduct(t, "Clip", 1)
	lamp := c.Post(t, products, j{"name": "Lamp", "materials": []j{{"material_type": "PLA", "color": "Black",
		"weight_grams": 1}}, "components": []j{{"component_product_id": clip, "quantity": 2}}}).Want(201).ID()
	c.Post(t, runs, j{"status": "completed", "items": []j{{"product_id": lamp, "parts_from_stock": true}}}).Want(201)
	onHand(t, c, clip, -2)
	order, item := c.NewOrder(t, clip, 1)
	c.Post(t, order+"/deliver", nil).Want(200)
	onHand(t, c, clip, -2)
	c.Post(t, order+"/return", j{"items": []j{{"id": item, "quantity": 1, "to_stock": false}}}).Want(200)
	onHand(t, c, clip, -2)
	balanced(t, c, clip)
}

// No way delivers more pieces than are ordered, also not the reversal of a return after another delivery.
func TestDeliveredOnce(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	p := c.NewProduct(t, "P", 10)
	order, item := c.NewOrder(t, p, 3)
	c.Post(t, products+"/"+p+"/count", j{"counted": 10}).Want(200)
	deliver := func() { c.Post(t, order+"/deliver", nil).Want(200) }
	back := func() string {
		c.Post(t, order+"/return", j{"reopen": true}).Want(200)
		return c.Get(t, entries+"?kind=returned").Want(200).Text("items.0.id")
	}
	reverse := func(entry string) *testkit.Response { return c.Post(t, entries+"/"+entry+"/reverse", nil) }
	is := func(delivered string, inStock int) {
		t.Helper()
		c.Get(t, order).Want(200).Shows(map[string]string{"items.0.delivered": delivered})
		onHand(t, c, p, inStock)
	}
	deliver()
	returned := back()
	is("0", 10)
	deliver()
	reverse(returned).WantError(409, "DELIVERED_AGAIN")
	is("3", 7)
	c.Patch(t, order, j{"status": "done"}).Want(200)
	is("3", 7)
	c.Post(t, order+"/deliver", j{"items": []j{{"id": item, "quantity": 1}}}).Fields("items[0].quantity")
	c.Post(t, order+"/complete", j{"items": []j{{"id": item, "delivered": 4}}}).Fields("items[0].delivered")

	// After a return of the second delivery, the first return can be taken back: the customer has three pieces.
	back()
	reverse(returned).Want(200).Shows(map[string]string{"kind": "returned", "pieces": "-3", "warnings": "[]"})
	is("3", 7)

	// An order of which a part is back takes as many pieces as are missing.
	c.Post(t, order+"/return", j{"items": []j{{"id": item, "quantity": 2}}, "reopen": true}).Want(200)
	returned = c.Get(t, entries+"?kind=returned").Want(200).Text("items.0.id")
	c.Post(t, order+"/deliver", j{"items": []j{{"id": item, "quantity": 1}}}).Want(200)
	reverse(returned).WantError(409, "DELIVERED_AGAIN")
	is("2", 8)
}

// A delivery, and the reversal of a return, at the same time deliver the pieces once.
func TestDeliveryWaitsForReversal(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	p := c.NewProduct(t, "P", 10)
	order, _ := c.NewOrder(t, p, 3)
	c.Post(t, products+"/"+p+"/count", j{"counted": 10}).Want(200)
	c.Post(t, order+"/deliver", nil).Want(200)
	c.Post(t, order+"/return", j{"reopen": true}).Want(200)
	returned := c.Get(t, entries+"?kind=returned").Want(200).Text("items.0.id")
	h := c.Hold(t, `select from orders where id = '`+order[len(orderURL)+1:]+`' for no key update`)
	done := h.StartWaiting(2, func() {
		testkit.Concurrently(2, func(i int) {
			if i == 0 {
				c.Post(t, order+"/deliver", nil).Want(200)
			} else if a := c.Post(t, entries+"/"+returned+"/reverse", nil); a.Status != 200 {
				a.WantError(409, "DELIVERED_AGAIN")
			}
		})
	})
	h.Commit()
	<-done
	c.Get(t, order).Want(200).Shows(map[string]string{"items.0.delivered": "3", "status": "done"})
	onHand(t, c, p, 7)
}
