package shops_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spoolwright/tests/testkit"
	"spoolwright/tests/testkit/seed"
)

// dayOrder is an order of a shop and how it changes in a day: the shop sends a message at each change.
type dayOrder struct {
	*rand.Rand
	kind, customer, note string
	n, second            int
	lines                []*dayLine
	waiting, cancelled   bool
	wanted, deleted      bool
	messages             []string
	total                int // refunded without lines, in WooCommerce
	made                 int // the number of lines, also those that were removed
}

type dayLine struct {
	id, product        int // product is 0 for a line that no product has
	quantity, refunded int
}

// skus are what the shop writes for its products: SKUs in another case, and one that a person has assigned as two
// pieces.
var skus = []string{"unknown", " drg-1", "DRG-2", "pack of two"}

// send adds a message with the state of the order to its messages.
func (o *dayOrder) send() {
	at := time.Date(2026, 1, 5, 8, 0, o.second/2, 0, time.UTC) // two changes can have the same time
	o.second += 1 + o.IntN(3)
	if !o.waiting && !o.cancelled {
		o.wanted = true
	}
	var lines, refunds []j
	for _, l := range o.lines {
		line := j{"id": l.id, "name": fmt.Sprintf("Line %d", l.product), "title": fmt.Sprintf("Line %d", l.product),
			"sku": skus[l.product], "quantity": l.quantity, "price": "10.00", "unit_price": 10}
		if o.kind == "shopify" {
			line["current_quantity"] = l.quantity - l.refunded
			if l.refunded > 0 {
				refunds = append(refunds, j{"refund_line_items": []j{{"id": 100*l.id + 1, "line_item_id": l.id,
					"quantity": l.refunded}}})
			}
		}
		if o.kind == "woocommerce" && l.refunded > 0 {
			refunds = append(refunds, j{"id": 100*l.id + 1, "total": "-10.00", "line_items": []j{{"id": 100*l.id + 2,
				"quantity": -l.refunded, "meta_data": []j{{"key": "_refunded_item_id", "value": fmt.Sprint(l.id)}}}}})
		}
		lines = append(lines, line)
	}
	body := j{"id": o.n, "customer": o.customer}
	switch o.kind {
	case "shopify":
		body["customer"] = j{"first_name": o.customer, "last_name": ""}
		body["name"], body["note"], body["updated_at"] = fmt.Sprintf("#%d", o.n), o.note, at.Format(time.RFC3339)
		body["line_items"], body["refunds"], body["cancelled_at"] = lines, refunds, nil
		if o.cancelled {
			body["cancelled_at"] = body["updated_at"]
		}
	case "woocommerce":
		body["number"], body["customer_note"] = fmt.Sprintf("#%d", o.n), o.note
		body["billing"] = j{"first_name": o.customer, "last_name": "", "address_1": "Secret Street 1"}
		body["date_modified_gmt"], body["line_items"] = at.Format("2006-01-02T15:04:05"), lines
		body["refunds"] = refunds
		if o.total > 0 {
			body["refunds"] = append(refunds, j{"id": 5, "total": fmt.Sprintf("-%d.00", o.total)})
		}
		body["status"] = map[bool]string{true: "cancelled", false: "processing"}[o.cancelled]
		if o.waiting {
			body["status"] = "pending"
		}
	default:
		body["reference"], body["notes"], body["cancelled"] = fmt.Sprintf("#%d", o.n), o.note, o.cancelled
		body["updated_at"], body["lines"] = at.Format(time.RFC3339), lines
	}
	text, _ := json.Marshal(body)
	if len(o.messages) == 0 || string(text) != o.messages[len(o.messages)-1] {
		o.messages = append(o.messages, string(text))
	}
}

// live makes the history of the order.
func (o *dayOrder) live() {
	add := func() {
		o.made++
		o.lines = append(o.lines, &dayLine{id: 1000*o.n + o.made, product: o.IntN(len(skus)),
			quantity: 1 + o.IntN(5)})
	}
	for range 1 + o.IntN(3) {
		add()
	}
	o.waiting = o.kind == "woocommerce" && o.IntN(3) > 0
	o.send()
	o.second += 2
	if o.waiting && o.IntN(6) > 0 {
		o.waiting = false
		o.send()
		o.second += 2
	}
	for range o.IntN(4) {
		l := o.lines[o.IntN(len(o.lines))]
		switch o.IntN(5) {
		case 0:
			add()
		case 1:
			l.quantity = l.refunded + 1 + o.IntN(6)
		case 2:
			o.note = fmt.Sprintf("note %d", o.IntN(100))
		case 3:
			if o.kind == "shopify" && l.refunded == 0 {
				l.refunded = 1 + o.IntN(l.quantity)
				refund, _ := json.Marshal(j{"id": 7, "order_id": o.n, "refund_line_items": []j{{"id": 100*l.id + 1,
					"line_item_id": l.id, "quantity": l.refunded}}})
				o.messages = append(o.messages, string(refund))
			} else if o.kind == "woocommerce" && o.IntN(3) == 0 {
				o.total = 1 + o.IntN(9)
			} else if o.kind == "woocommerce" && l.refunded == 0 {
				l.refunded = 1 + o.IntN(l.quantity)
			} else if o.kind == "generic" && len(o.lines) > 1 {
				o.lines = slices.DeleteFunc(o.lines, func(other *dayLine) bool { return other == l })
			}
		case 4:
			o.customer = fmt.Sprintf("Customer %d", o.IntN(100))
		}
		o.send()
		o.second += 2
	}
	switch {
	case o.IntN(6) == 0:
		o.cancelled, o.waiting = true, false
		o.send()
	case o.kind == "woocommerce" && o.IntN(8) == 0:
		o.deleted = true
		o.messages = append(o.messages, fmt.Sprintf(`{"id":%d}`, o.n))
	}
}

// state returns what the order is at the end of the day, in the form of stateOf, or "" if there is nothing to print.
func (o *dayOrder) state() string {
	if !o.wanted {
		return ""
	}
	var items, waiting []string
	left := 0
	for _, l := range o.lines {
		n := l.quantity - l.refunded
		left += n
		switch {
		case n == 0:
		case l.product == 0:
			waiting = append(waiting, fmt.Sprintf("%d Line 0", n))
		case l.product == 3:
			items = append(items, fmt.Sprintf("%d PACKED 5", 2*n))
		default:
			items = append(items, fmt.Sprintf("%d DRG-%d 10", n, l.product))
		}
	}
	slices.Sort(items)
	slices.Sort(waiting)
	status := "received"
	if o.cancelled || o.deleted || left == 0 {
		status = "cancelled"
	}
	note := o.note
	if o.total > 0 && !o.cancelled {
		note = strings.TrimSpace(fmt.Sprintf("%s\nPartial refund; the shop did not name the lines: %d", note,
			o.total))
	}
	return fmt.Sprint(status, o.customer, note, items, waiting)
}

// stateOf returns the state of an order here.
func stateOf(t *testing.T, text []byte) (reference, state string) {
	var o struct {
		Reference, Status, Customer, Notes string
		Items                              []struct {
			Quantity int
			SKU      string
			Price    json.Number `json:"unit_price"`
		}
		Lines []struct {
			Quantity int
			Title    string
		} `json:"unassigned_lines"`
	}
	testkit.Check(t, json.Unmarshal(text, &o))
	var items, waiting []string
	for _, i := range o.Items {
		items = append(items, fmt.Sprintf("%d %s %s", i.Quantity, i.SKU, i.Price))
	}
	for _, l := range o.Lines {
		waiting = append(waiting, fmt.Sprintf("%d %s", l.Quantity, l.Title))
	}
	slices.Sort(items)
	slices.Sort(waiting)
	return o.Reference, fmt.Sprint(o.Status, o.Customer, o.Notes, items, waiting)
}

// A day of three shops: orders with updates, cancellations and refunds, each message once or several times, in any
// order, by several deliverers at once. In the end, each order is what it is in its shop.
func TestDayOfShop(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(seed.New(t), 1))
	first := newShop(t, "shopify")
	c := first.c
	for _, sku := range []string{"DRG-1", "DRG-2", "PACKED"} {
		c.NewProduct(t, sku, 10)
	}
	teach := c.Post(t, orders, j{"unassigned_lines": []j{{"title": "x", "sku": "Pack Of Two"}}}).Want(201)
	c.Post(t, orders+"/"+teach.ID()+"/lines/"+teach.Text("unassigned_lines.0.id")+"/assign",
		j{"sku": "PACKED", "pieces": 2}).Want(200)
	connections := []*shop{first, connect(t, c, "woocommerce"), connect(t, c, "generic")}
	want := map[string]string{}
	type delivery struct {
		to   *shop
		body string
	}
	var all []delivery
	for n := range testkit.InRigs(100, 500) {
		s := connections[n%3]
		o := &dayOrder{Rand: random, kind: s.kind, n: 1001 + n, customer: "Ada"}
		o.live()
		want[fmt.Sprintf("#%d", o.n)] = o.state()
		for _, body := range o.messages {
			for range 1 + random.IntN(4)/3 {
				all = append(all, delivery{s, body})
			}
		}
	}
	random.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	var next atomic.Int64
	testkit.Concurrently(6, func(int) {
		for i := next.Add(1) - 1; i < int64(len(all)); i = next.Add(1) - 1 {
			all[i].to.send(t, all[i].body)
		}
	})
	got := map[string]string{}
	export := c.Get(t, orders+"/export?format=jsonl").Want(200)
	for line := range strings.Lines(string(export.Body)) {
		if reference, state := stateOf(t, []byte(line)); reference != "" {
			testkit.Equal(t, got[reference], "", "the order %s is there twice", reference)
			got[reference] = state
		}
	}
	testkit.Lacks(t, string(export.Body), "Secret Street", "an address is kept")
	for reference, state := range want {
		if got[reference] != state {
			t.Errorf("the order %s is\n%s, and in the shop\n%s", reference, got[reference], state)
		}
	}
	t.Logf("%d messages, %d orders", len(all), len(got))
}

// What people change stays until the shop changes it. Runs stay, whatever the shop sends.
func TestPeopleAndShop(t *testing.T) {
	t.Parallel()
	s := newShop(t, "generic")
	c := s.c
	product := c.NewProduct(t, "DRG", 10)
	message := func(second, quantity int, more j) j {
		body := j{"id": "7", "reference": "A-7", "updated_at": fmt.Sprintf("2026-01-05T10:00:%02dZ", second),
			"customer": "Ada",
			"lines":    []j{{"id": "1", "title": "Dragon", "sku": "drg", "quantity": quantity, "unit_price": 12.5}}}
		for name, value := range more {
			body[name] = value
		}
		return body
	}
	s.send(t, message(1, 4, nil))
	list := c.Get(t, orders).Want(200)
	order := orders + "/" + list.Text("items.0.id")
	shows := func(want map[string]string) {
		t.Helper()
		c.Get(t, order).Want(200).Shows(want)
	}
	shows(map[string]string{"source": "generic.example", "reference": "A-7", "customer": "Ada", "items.0.quantity": "4",
		"items.0.unit_price": "12.5", "items.0.product_id": product, "due_date": "null"})
	item := order + "/items/" + c.Get(t, order).Text("items.0.id")
	run := c.NewRun(t, product, c.Get(t, order).Text("items.0.id"), 3, nil)
	c.Patch(t, order, j{"customer": "Ada L.", "due_date": "2026-02-01"}).Want(200)
	c.Patch(t, item, j{"quantity": 5}).Want(200)
	s.send(t, message(2, 4, j{"notes": "Gift"}))
	shows(map[string]string{"customer": "Ada L.", "due_date": "2026-02-01", "items.0.quantity": "5", "notes": "Gift"})
	s.send(t, message(3, 2, j{"due_date": "2026-03-01", "notes": "Gift"})) // less than the run prints
	shows(map[string]string{"due_date": "2026-03-01", "items.0.quantity": "2", "items.0.planned": "3", "runs.#": "1"})
	s.send(t, message(1, 9, nil)) // late
	shows(map[string]string{"items.0.quantity": "2"})
	s.send(t, message(4, 0, nil)) // removed while a run prints it
	shows(map[string]string{"items.#": "0", "runs.#": "1", "status": "cancelled"})
	c.Get(t, run).Want(200).Shows(map[string]string{"status": "pending"})
	s.send(t, message(5, 3, nil)) // and back
	shows(map[string]string{"items.#": "1", "items.0.quantity": "3", "status": "received"})
	c.Patch(t, run, j{"status": "completed"}).Want(200)
	c.Post(t, order+"/deliver", nil).Want(200)
	shows(map[string]string{"status": "done"})
	s.send(t, message(6, 3, j{"cancelled": true})) // as the operation: what is done stays done
	shows(map[string]string{"status": "done"})
	s.send(t, message(7, 6, nil))
	shows(map[string]string{"status": "in_production", "items.0.quantity": "6"})
	s.send(t, message(8, 6, j{"cancelled": true}))
	shows(map[string]string{"status": "cancelled"})
	c.Patch(t, order, j{"status": "in_production"}).Want(200) // a person knows better
	s.send(t, message(9, 6, j{"cancelled": true, "notes": "x"}))
	shows(map[string]string{"status": "in_production", "notes": "x"})

	// An order that came in another way is taken over, with its lines.
	file := c.Post(t, orders, j{"source": "generic.example", "reference": "A-8", "notes": "by hand",
		"unassigned_lines": []j{{"title": "Thing", "quantity": 2}, {"title": "Dragon", "sku": "DRG"}}}).Want(201)
	order = orders + "/" + file.ID()
	s.send(t, j{"id": "8", "reference": "A-8", "updated_at": "2026-01-05T10:00:00Z", "notes": "n", "customer": "Eve",
		"lines": []j{
			{"id": "1", "title": "Dragon", "sku": "drg", "quantity": 3}, {"id": "2", "title": "thing", "quantity": 2}}})
	shows(map[string]string{"items.#": "1", "items.0.quantity": "3", "unassigned_lines.#": "1", "customer": "Eve",
		"notes": "by hand"})
	typed := c.Post(t, orders, j{"source": "generic.example", "reference": "A-9", "customer": "Bob",
		"due_date": "2026-04-01"}).Want(201)
	order = orders + "/" + typed.ID()
	s.send(t, j{"id": "9", "reference": "A-9", "updated_at": "2026-01-05T10:00:00Z", "notes": "n", "customer": "Eve",
		"due_date": "2026-05-01", "lines": []j{{"id": "1", "title": "Dragon", "sku": "drg", "quantity": 1}}})
	shows(map[string]string{"customer": "Bob", "due_date": "2026-04-01", "notes": "n", "items.0.quantity": "1"})
	c.Get(t, orders).Want(200).Shows(map[string]string{"total": "3"})
}
