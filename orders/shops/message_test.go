package shops_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

// generic returns a message of a generic shop about an order, changed at a second of a day.
func generic(id, second int, lines ...j) j {
	if lines == nil {
		lines = []j{}
	}
	return j{"id": fmt.Sprint(id), "reference": fmt.Sprintf("A-%d", id), "lines": lines,
		"updated_at": fmt.Sprintf("2026-01-05T10:00:%02dZ", second)}
}

// An order without lines is an order.
func TestOrderWithoutLines(t *testing.T) {
	t.Parallel()
	for kind, bodies := range map[string][]string{
		"generic": {`{"id":1,"updated_at":"2026-01-05T10:00:00Z"}`,
			`{"id":2,"updated_at":"2026-01-05T10:00:00Z","lines":null}`,
			`{"id":3,"updated_at":"2026-01-05T10:00:00Z","lines":[]}`},
		"shopify": {`{"id":1,"name":"#1","updated_at":"2026-01-05T10:00:00Z","line_items":[]}`},
		"woocommerce": {`{"id":1,"status":"processing","date_modified_gmt":"2026-01-05T10:00:00","line_items":[]}`,
			`{"id":2,"status":"processing","date_modified_gmt":"2026-01-05T10:00:00","line_items":[],"billing":[]}`},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, kind)
			for _, body := range bodies {
				s.send(t, body)
			}
			s.c.Get(t, orders).Want(200).Shows(map[string]string{"total": fmt.Sprint(len(bodies)),
				"items.0.status": "received", "items.0.item_count": "0"})
		})
	}
}

// A connection takes 120 messages in a minute, whoever signs them. Messages to other connections, and with wrong
// signatures, are not counted there.
func TestLimitOfMessages(t *testing.T) {
	t.Parallel()
	now := time.Now()
	api := testkit.New(t, testkit.Options{PerMinute: 1000, Now: func() time.Time { return now }}, testkit.Features...)
	admin := api.Tenant(t).User(t, "admin")
	busy, other := connect(t, admin, "generic"), connectAs(t, admin, "generic", "other.example")
	message := func(i int) []byte { return []byte(fmt.Sprintf(`{"id":%d,"updated_at":"2026-01-05T10:00:00Z"}`, i)) }
	send := func(s *shop, i, want int) {
		t.Helper()
		if status, text := s.post(t, message(i), s.sign(message(i))); status != want {
			t.Fatalf("message %d to %s is answered %d %s, want %d", i, s.address, status, text, want)
		}
	}
	for i := range 10 {
		if status, _ := busy.post(t, message(i), other.sign(message(i))); status != 401 {
			t.Fatalf("a wrong signature is answered %d", status)
		}
	}
	for i := range 120 {
		send(busy, i, 200)
	}
	for range 3 {
		send(busy, 120, 429)
	}
	admin.Get(t, orders).Want(200).Shows(map[string]string{"total": "120"})
	r, err := http.NewRequest("POST", api.URL+busy.address, bytes.NewReader(message(120)))
	testkit.Check(t, err)
	r.Header = busy.sign(message(120))
	a, err := http.DefaultClient.Do(r)
	testkit.Check(t, err)
	a.Body.Close()
	testkit.Equal(t, a.Header.Get("Retry-After"), "1", "Retry-After")
	send(other, 1, 200)
	now = now.Add(time.Second)
	send(busy, 120, 200)
	send(busy, 121, 200)
	send(busy, 122, 429)
	admin.Get(t, orders).Want(200).Shows(map[string]string{"total": "123"})
}

// A message that cannot be an order is refused with the name of the value as the shop has sent it.
func TestProblemsOfMessages(t *testing.T) {
	t.Parallel()
	const at = `"updated_at":"2026-01-05T10:00:00Z"`
	for kind, all := range map[string][][3]string{
		"generic": {
			{`{`, "body", "must be valid JSON"},
			{`[]`, "body", "must be a JSON object"},
			{`{` + at + `}`, "id", "is required"},
			{`{"id":{},` + at + `}`, "id", "must be a text or a number"},
			{`{"id":"` + strings.Repeat("x", 101) + `",` + at + `}`, "id", "must have at most 100 characters"},
			{`{"id":1}`, "updated_at", "is required"},
			{`{"id":1,"updated_at":5}`, "updated_at", "must be an RFC 3339 timestamp such as 2024-01-15T10:00:00Z"},
			{`{"id":1,"updated_at":"1970-01-01T00:00:00Z"}`, "updated_at", "must be in the years 1990 to 9000"},
			{`{"id":1,` + at + `,"customer":5}`, "customer", "must be a text"},
			{`{"id":1,` + at + `,"cancelled":"no"}`, "cancelled", "must be true or false"},
			{`{"id":1,` + at + `,"lines":{}}`, "lines", "must be a list"},
			{`{"id":1,` + at + `,"lines":[null]}`, "lines[0]", "must be a JSON object"},
			{`{"id":1,` + at + `,"lines":[{},"x"]}`, "lines[1]", "must be a JSON object"},
			{`{"id":1,` + at + `,"lines":[{"quantity":"2"}]}`, "lines[0].quantity", "must be a whole number"},
			{`{"id":1,` + at + `,"lines":[{"quantity":2.5}]}`, "lines[0].quantity", "must be a whole number"},
			{`{"id":1,` + at + `,"lines":[{"quantity":-1}]}`, "lines[0].quantity", "must be from 0 to 1000000"},
			{`{"id":1,` + at + `,"lines":[{"shipped":-1}]}`, "lines[0].shipped", "must be from 0 to 1000000"},
			{`{"id":1,` + at + `,"lines":[{"shipped":"1"}]}`, "lines[0].shipped", "must be a whole number"},
			{`{"id":1,` + at + `,"lines":[{"id":1},{"id":"1"}]}`, "lines[1].id", "is also the id of an earlier line"},
			{`{"id":1,` + at + `,"lines":[{}` + strings.Repeat(",{}", 500) + `]}`, "lines",
				"must have at most 500 entries"},
		},
		"shopify": {
			{`{"id":1,"line_items":[]}`, "updated_at", "is required"},
			{`{"order_id":" ","refund_line_items":[]}`, "order_id", "is required"},
			{`{"id":1,` + at + `,"line_items":[{"current_quantity":"x"}]}`, "line_items[0].current_quantity",
				"must be a whole number"},
			{`{"id":1,` + at + `,"customer":"Ada","line_items":[]}`, "customer", "must be a JSON object"},
		},
		"woocommerce": {
			{`{"id":1,"status":"processing","line_items":[]}`, "date_modified_gmt", "is required"},
			{`{"id":1,"date_modified_gmt":"yesterday","line_items":[]}`, "date_modified_gmt",
				"must be an RFC 3339 timestamp such as 2024-01-15T10:00:00Z"},
			{`{"id":1,"line_items":[],"refunds":[{"line_items":[{"quantity":[]}]}]}`,
				"refunds[0].line_items[0].quantity", "must be a whole number"},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, kind)
			for _, one := range all {
				status, answer := s.post(t, []byte(one[0]), s.sign([]byte(one[0])))
				want := fmt.Sprintf(`"errors":[{"field":"%s","message":"%s"}]`, one[1], one[2])
				if status != 422 || !strings.Contains(answer, want) {
					t.Errorf("%.100s got %d %s, want %s", one[0], status, answer, want)
				}
			}
			s.c.Get(t, orders).Want(200).Shows(map[string]string{"total": "0"})
		})
	}
}

// Values that the database cannot store are left out or shortened, and harmless ones are read in all their forms.
func TestOddValuesOfMessages(t *testing.T) {
	t.Parallel()
	s := newShop(t, "generic")
	shows := func(reference string, want map[string]string) {
		t.Helper()
		s.c.Get(t, find(t, s.c, reference)).Want(200).Shows(want)
	}
	for i, date := range []string{"0000-01-01", "0001-01-01", "1899-12-31", "10000-01-01", "2026-02-30", "soon"} {
		id := fmt.Sprintf("date %d", i)
		s.send(t, j{"id": id, "updated_at": "2026-01-05T10:00:00Z", "due_date": date})
		shows(id, map[string]string{"due_date": "null"})
	}
	s.send(t, "\n{\"id\":\"bytes\",\"updated_at\":\"2026-01-05T10:00:00Z\",\"customer\":\"A\\u0000d\xff\\ud800a\","+
		"\"notes\":\"\\u0000\",\"lines\":[{\"id\":\"\\u0000\",\"title\":\"x\\u0000y\",\"sku\":\"\\u0000\","+
		"\"unit_price\":1e400}]} ")
	shows("bytes", map[string]string{"customer": "A da", "notes": "null", "unassigned_lines.0.title": "x y",
		"unassigned_lines.0.sku": "null", "unassigned_lines.0.unit_price": "null"})
	for i, at := range []string{"2026-01-05T10:00:00", "2026-01-05 10:00:00", "2026-01-05t10:00:00.123456789z"} {
		id := fmt.Sprintf("time %d", i)
		s.send(t, j{"id": id, "updated_at": at, "notes": "new"})
		s.send(t, j{"id": id, "updated_at": "2026-01-05T10:59:59+01:00", "notes": "older"})
		shows(id, map[string]string{"notes": "new"})
	}
	s.send(t, `{"id":"whole","updated_at":"2026-01-05T10:00:00Z","lines":[{"title":"x","quantity":2.0},
		{"title":"y","quantity":30e-1}]}`)
	shows("whole", map[string]string{"unassigned_lines.0.quantity": "2", "unassigned_lines.1.quantity": "3"})
	// Long ids and titles of characters of several bytes.
	random := rand.New(rand.NewPCG(1, 2))
	han := func(n int) string {
		text := make([]rune, n)
		for i := range text {
			text[i] = 0x4e00 + random.Int32N(20000)
		}
		return string(text)
	}
	id := han(100)
	s.send(t, j{"id": id, "updated_at": "2026-01-05T10:00:00Z", "customer": han(300), "notes": han(10_001),
		"lines": []j{{"id": han(200), "title": han(1100)}, {"id": han(200), "sku": han(300)}}})
	shows(id, map[string]string{"unassigned_lines.#": "2"})
}

// Two orders of shops are two orders here, also if their shops give them the same number and have the same name.
func TestSameReference(t *testing.T) {
	t.Parallel()
	s := newShop(t, "generic")
	one := func(id, reference string, second int) j {
		m := generic(1, second, j{"id": "1", "title": "Item of " + id, "quantity": second})
		m["id"], m["reference"] = id, reference
		return m
	}
	hand := s.c.Post(t, orders, j{"source": "generic.example", "reference": "A"}).Want(201).ID()
	for _, id := range []string{"1", "2", "3"} {
		for range 2 {
			s.send(t, one(id, "A", 1))
		}
	}
	testkit.Equal(t, find(t, s.c, "A"), orders+"/"+hand, "the first order")
	for reference, id := range map[string]string{"A": "1", "A (2)": "2", "A (3)": "3"} {
		s.send(t, one(id, "A", 2))
		s.c.Get(t, find(t, s.c, reference)).Want(200).Shows(map[string]string{"unassigned_lines.#": "1",
			"unassigned_lines.0.title": "Item of " + id, "unassigned_lines.0.quantity": "2"})
	}
	s.c.Get(t, orders).Want(200).Shows(map[string]string{"total": "3"})

	// A shop that has the name that another one had when its orders came.
	s.c.Patch(t, path+"/"+strings.Split(s.address, "/")[2], j{"name": "Old"}).Want(200)
	other := connect(t, s.c, "generic")
	long := strings.Repeat("x", 200)
	for _, id := range []string{"2", "3"} {
		other.send(t, one(id, "A", 1))
	}
	s.c.Get(t, find(t, s.c, "A (2, 2)")).Want(200)
	s.c.Get(t, find(t, s.c, "A (3, 2)")).Want(200)
	for _, id := range []string{"8", "9"} {
		other.send(t, one(id, long, 1))
	}
	s.c.Get(t, find(t, s.c, long[4:]+" (9)")).Want(200)

	// Concurrent messages about different orders with the same number, one of which takes over an order.
	s.c.Post(t, orders, j{"source": "generic.example", "reference": "B"}).Want(201)
	testkit.Concurrently(6, func(n int) { other.send(t, one(fmt.Sprint("b", n), "B", 1)) })
	s.c.Get(t, orders+"?search=B&source=generic.example").Want(200).Shows(map[string]string{"total": "6"})
}

// itemsOf returns the products, quantities and lines without a product of an order, in the sequence of the names.
func itemsOf(t testing.TB, c *testkit.Client, reference string) string {
	t.Helper()
	a := c.Get(t, find(t, c, reference)).Want(200)
	all := []string{}
	for i := range a.List("items") {
		all = append(all, a.Text(fmt.Sprintf("items.%d.sku", i))+" "+a.Text(fmt.Sprintf("items.%d.quantity", i)))
	}
	for i := range a.List("unassigned_lines") {
		all = append(all, a.Text(fmt.Sprintf("unassigned_lines.%d.title", i))+" "+
			a.Text(fmt.Sprintf("unassigned_lines.%d.quantity", i)))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// A line without an id is known by its SKU or its title, not by its place.
func TestLinesWithoutIDs(t *testing.T) {
	t.Parallel()
	s := newShop(t, "generic")
	s.c.NewProduct(t, "DRG-RED", 10)
	s.c.NewProduct(t, "VASE", 10)
	dragon, vase := j{"title": "D", "sku": "DRG-RED", "quantity": 2}, j{"title": "V", "sku": "vase", "quantity": 5}
	gift, card := j{"title": "Gift", "quantity": 1}, j{"title": "Card", "quantity": 3}
	wants := func(want string) {
		t.Helper()
		testkit.Equal(t, itemsOf(t, s.c, "A-1"), want, "the items")
	}
	s.send(t, generic(1, 1, dragon, vase, gift, card))
	s.c.Patch(t, find(t, s.c, "A-1")+"/items/"+s.c.Get(t, find(t, s.c, "A-1")).Text("items.0.id"),
		j{"quantity": 9}).Want(200)
	s.send(t, generic(1, 2, vase, card, dragon, gift))
	wants("Card 3, DRG-RED 9, Gift 1, VASE 5")
	s.send(t, generic(1, 3, vase, card))
	wants("Card 3, VASE 5")
	s.send(t, generic(1, 4, card, dragon, dragon, vase))
	wants("Card 3, DRG-RED 2, DRG-RED 2, VASE 5")
}

// A line that sells something else becomes another item, in whatever order the messages arrive.
func TestLineSellsSomethingElse(t *testing.T) {
	t.Parallel()
	s := newShop(t, "generic")
	c := s.c
	dragon := c.NewProduct(t, "DRG-RED", 10)
	c.NewProduct(t, "VASE", 10)
	line := func(title, sku string, quantity int) j {
		return j{"id": "1", "title": title, "sku": sku, "quantity": quantity, "unit_price": quantity}
	}
	wants := func(id int, want string) {
		t.Helper()
		testkit.Equal(t, itemsOf(t, c, fmt.Sprintf("A-%d", id)), want, "the items")
	}
	item := func(id, n int) (order, item string) {
		t.Helper()
		order = find(t, c, fmt.Sprintf("A-%d", id))
		return order, c.Get(t, order).Text(fmt.Sprintf("items.%d.id", n))
	}
	first, second := generic(1, 1, line("D", "DRG-RED", 2)), generic(1, 2, line("V", "VASE", 3))
	s.send(t, first)
	_, old := item(1, 0)
	run := c.NewRun(t, dragon, old, 1, nil)
	s.send(t, second)
	s.send(t, first)
	wants(1, "VASE 3")
	order, _ := item(1, 0)
	c.Get(t, order).Want(200).Shows(map[string]string{"items.0.unit_price": "3", "status": "received"})
	c.Get(t, run).Want(200).Shows(map[string]string{"status": "pending"})
	s.send(t, generic(1, 3, line("V", "unknown", 4)))
	wants(1, "V 4")
	s.send(t, generic(1, 4, line("V", "DRG-RED", 4)))
	wants(1, "DRG-RED 4")
	s.send(t, generic(1, 5, line("V", "VASE", 0)))
	wants(1, "")
	s.send(t, generic(1, 6, line("V", "VASE", 1)))
	wants(1, "VASE 1")

	// Another title of the same SKU, and another case of it, change nothing.
	s.send(t, generic(2, 1, line("D", "DRG-RED", 2)))
	order, old = item(2, 0)
	c.Patch(t, order+"/items/"+old, j{"quantity": 7}).Want(200)
	s.send(t, generic(2, 2, line("Dragon", "drg-red", 2)))
	wants(2, "DRG-RED 7")
	_, same := item(2, 0)
	testkit.Equal(t, same, old, "the item")

	// What a person has assigned is for the SKU or the title.
	s.send(t, generic(3, 1, line("Gift", "", 2)))
	order = find(t, c, "A-3")
	assign := func(body j) {
		t.Helper()
		c.Post(t, order+"/lines/"+c.Get(t, order).Text("unassigned_lines.0.id")+"/assign", body).Want(200)
	}
	assign(j{"sku": "VASE", "pieces": 2})
	wants(3, "VASE 4")
	s.send(t, generic(3, 2, line("GIFT", "", 3)))
	wants(3, "VASE 6")
	s.send(t, generic(3, 3, line("Card", "", 3)))
	wants(3, "Card 3")
	assign(j{"ignore": true})
	wants(3, "")
	s.send(t, generic(3, 4, line("Letter", "", 3)))
	wants(3, "Letter 3")
	s.send(t, generic(3, 5, line("Gift", "", 1)))
	wants(3, "VASE 2")

	// An item of which pieces were delivered stays.
	s.send(t, generic(4, 1, line("D", "DRG-RED", 2)))
	order, old = item(4, 0)
	c.Post(t, order+"/deliver", j{"items": []j{{"id": old, "quantity": 1}}}).Want(200)
	s.send(t, generic(4, 2, line("D", "DRAGON-R", 5)))
	wants(4, "DRG-RED 5")
}

// An order that loses all its lines is cancelled, in whatever order the messages arrive, and comes back with a line.
func TestOrderLosesItsLines(t *testing.T) {
	t.Parallel()
	s := newShop(t, "generic")
	line := j{"id": "1", "title": "D", "quantity": 2}
	wants := func(id int, status string, lines int) {
		t.Helper()
		s.c.Get(t, find(t, s.c, fmt.Sprintf("A-%d", id))).Want(200).Shows(map[string]string{"status": status,
			"unassigned_lines.#": fmt.Sprint(lines)})
	}
	s.send(t, generic(1, 1, line))
	wants(1, "received", 1)
	s.send(t, generic(1, 2))
	wants(1, "cancelled", 0)
	s.send(t, generic(1, 1, line))
	wants(1, "cancelled", 0)
	s.send(t, generic(1, 3, line))
	wants(1, "received", 1)
	s.send(t, generic(2, 2))
	wants(2, "received", 0)
	s.send(t, generic(2, 1, line))
	wants(2, "cancelled", 0)
}

// A message that an order was deleted does nothing when it is repeated, also after the order was restored.
func TestRepeatedDeletion(t *testing.T) {
	t.Parallel()
	s := newShop(t, "woocommerce")
	order := func(at time.Time) j {
		return j{"id": 55, "number": "55", "status": "processing", "line_items": []j{{"id": 1, "name": "D", "quantity": 1}},
			"date_modified_gmt": at.UTC().Format("2006-01-02T15:04:05")}
	}
	remove := func(delivery string) {
		t.Helper()
		body := []byte(`{"id":55}`)
		h := s.sign(body)
		if delivery != "" {
			h.Set("X-WC-Webhook-Delivery-ID", delivery)
		}
		if status, answer := s.post(t, body, h); status != 200 {
			t.Errorf("the deletion got %d %s", status, answer)
		}
	}
	wants := func(status string) {
		t.Helper()
		s.c.Get(t, find(t, s.c, "55")).Want(200).Shows(map[string]string{"status": status})
	}
	now := time.Now()
	for _, delivery := range []string{"", "a", "b"} {
		s.send(t, order(now.Add(-time.Minute)))
		remove(delivery)
		wants("cancelled")
		// The order is restored a moment later. Its time has whole seconds.
		restored := time.Now().Truncate(time.Second).Add(time.Second)
		s.send(t, order(restored))
		wants("received")
		time.Sleep(time.Until(restored.Add(10 * time.Millisecond)))
		remove(delivery)
		wants("received")
	}
}

// wooOrder returns an order of WooCommerce, changed at a second of a day. A line has an id, an SKU and a quantity.
func wooOrder(id, second int, status string, lines ...j) j {
	return j{"id": id, "number": fmt.Sprint(id), "status": status, "line_items": lines,
		"date_modified_gmt": fmt.Sprintf("2026-01-05T10:00:%02d", second)}
}

func wooLine(id int, sku string, quantity int) j {
	return j{"id": id, "name": "Name of " + sku, "sku": sku, "quantity": quantity, "price": 10}
}

// What the shop has shipped before the order was here is not printed again, in whatever order the messages arrive.
func TestShippedBefore(t *testing.T) {
	t.Parallel()
	shopify := func(id, second int, fulfilled any, lines ...j) j {
		o := shopifyOrder(id, second, 1)
		o["name"], o["fulfillment_status"], o["line_items"] = fmt.Sprint(id), fulfilled, lines
		return o
	}
	line := func(id int, sku string, fulfilled any) j {
		l := wooLine(id, sku, 2)
		l["fulfillment_status"] = fulfilled
		return l
	}
	partial := func(id, quantity int, left any, open int) j {
		l := wooLine(id, "A", quantity)
		l["fulfillment_status"], l["current_quantity"], l["fulfillable_quantity"] = "partial", left, open
		return l
	}
	sent := func(sku string, quantity int, shipped any) j {
		return j{"id": sku, "sku": sku, "title": sku, "quantity": quantity, "shipped": shipped}
	}
	partly := func(second int, lines ...j) j {
		o := generic(1, second, lines...)
		o["reference"] = "1"
		return o
	}
	refund := func(o j) j {
		o["refunds"] = []j{{"id": 5, "refund_line_items": []j{{"id": 6, "line_item_id": 1, "quantity": 1}}}}
		return o
	}
	for _, test := range []struct {
		kind, name string
		messages   []j
		want       string // the status and the lines, or "" if the order is not here
	}{
		{"woocommerce", "completed", []j{wooOrder(1, 1, "completed", wooLine(1, "A", 2))}, ""},
		{"woocommerce", "waiting, then completed", []j{wooOrder(1, 1, "pending", wooLine(1, "A", 2)),
			wooOrder(1, 2, "completed", wooLine(1, "A", 2))}, ""},
		{"woocommerce", "completed, then refunded", []j{wooOrder(1, 1, "completed", wooLine(1, "A", 2)),
			wooOrder(1, 2, "refunded", wooLine(1, "A", 2))}, ""},
		{"woocommerce", "paid, then completed", []j{wooOrder(1, 1, "processing", wooLine(1, "A", 2)),
			wooOrder(1, 2, "completed", wooLine(1, "A", 2))}, "received A 2"},
		{"woocommerce", "completed, then paid again", []j{wooOrder(1, 1, "completed", wooLine(1, "A", 2)),
			wooOrder(1, 2, "processing", wooLine(1, "A", 2))}, "received A 2"},
		{"generic", "a line shipped in part", []j{partly(1, sent("A", 5, 2), sent("B", 2, nil))}, "received A 3, B 2"},
		{"generic", "a line shipped in part, then more of it", []j{partly(1, sent("A", 5, 2)),
			partly(2, sent("A", 5, 4))}, "received A 3"},
		{"generic", "open, then shipped in part", []j{partly(1, sent("A", 5, 0)), partly(2, sent("A", 5, 4))},
			"received A 5"},
		{"generic", "shipped, also a line of which one was removed", []j{partly(1, sent("A", 5, 5), sent("B", 1, 2))}, ""},
		{"shopify", "fulfilled", []j{shopify(1, 1, "fulfilled", line(1, "A", nil))}, ""},
		{"shopify", "fulfilled, then refunded", []j{shopify(1, 1, "fulfilled", line(1, "A", "fulfilled")),
			refund(shopify(1, 2, "fulfilled", line(1, "A", "fulfilled")))}, ""},
		{"shopify", "fulfilled in part", []j{shopify(1, 1, "partial", line(1, "A", "fulfilled"), line(2, "B", nil))},
			"received B 2"},
		{"shopify", "a line fulfilled in part", []j{shopify(1, 1, "partial", partial(1, 2, nil, 1))}, "received A 1"},
		{"shopify", "a line fulfilled in part, then more of it", []j{shopify(1, 1, "partial", partial(1, 5, nil, 3)),
			shopify(1, 2, "partial", partial(1, 5, nil, 1))},
			"received A 3"},
		{"shopify", "a line fulfilled in part, a piece removed", []j{shopify(1, 1, "partial", partial(1, 5, 4, 2))},
			"received A 2"},
		{"shopify", "fulfilled in part, then all", []j{
			shopify(1, 1, "partial", line(1, "A", "fulfilled"), line(2, "B", "partial")),
			shopify(1, 2, "fulfilled", line(1, "A", "fulfilled"), line(2, "B", "fulfilled"))}, "received B 2"},
		{"shopify", "open, then fulfilled in part", []j{shopify(1, 1, nil, line(1, "A", nil), line(2, "B", nil)),
			shopify(1, 2, "partial", line(1, "A", "fulfilled"), line(2, "B", nil))}, "received A 2, B 2"},
		{"shopify", "fulfilled, then another line", []j{shopify(1, 1, "fulfilled", line(1, "A", "fulfilled")),
			shopify(1, 2, "partial", line(1, "A", "fulfilled"), line(2, "B", nil))}, "received B 2"},
	} {
		t.Run(test.kind+" "+test.name, func(t *testing.T) {
			t.Parallel()
			for range 2 {
				s := newShop(t, test.kind)
				s.c.NewProduct(t, "A", 10)
				s.c.NewProduct(t, "B", 10)
				for _, m := range test.messages {
					s.send(t, m)
				}
				slices.Reverse(test.messages)
				list := s.c.Get(t, orders).Want(200)
				got := ""
				if list.Text("total") != "0" {
					got = list.Text("items.0.status") + " " + itemsOf(t, s.c, "1")
				}
				testkit.Equal(t, got, test.want, "the order")
			}
		})
	}
}

// An order that is here already follows the first message about it, also if that says that it is cancelled or shipped.
func TestFirstMessageAboutKnownOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t, "woocommerce")
	s.c.NewProduct(t, "A", 10)
	for n, status := range map[int]string{1: "cancelled", 2: "completed", 3: "pending", 4: "processing"} {
		s.c.Post(t, orders, j{"source": "woocommerce.example", "reference": fmt.Sprint(n),
			"unassigned_lines": []j{{"title": "A", "sku": "A", "quantity": 2}}}).Want(201)
		s.send(t, wooOrder(n, 1, status, wooLine(1, "A", 2)))
	}
	for n, want := range map[string]string{"1": "cancelled", "2": "received", "3": "received", "4": "received"} {
		s.c.Get(t, find(t, s.c, n)).Want(200).Shows(map[string]string{"status": want, "items.#": "1",
			"items.0.quantity": "2"})
	}
	s.send(t, wooOrder(2, 2, "refunded", wooLine(1, "A", 2)))
	s.c.Get(t, find(t, s.c, "2")).Want(200).Shows(map[string]string{"status": "cancelled"})
	s.c.Get(t, orders).Want(200).Shows(map[string]string{"total": "4"})
}

// Of two messages with the same time, the one that came later counts, unless it is the first one again.
func TestMessagesOfTheSameTime(t *testing.T) {
	t.Parallel()
	s := newShop(t, "woocommerce")
	s.c.NewProduct(t, "A", 10)
	delivered := func(delivery string, order j) {
		t.Helper()
		body := encode(t, order)
		h := s.sign(body)
		if delivery != "" {
			h.Set("X-WC-Webhook-Delivery-ID", delivery)
		}
		if status, answer := s.post(t, body, h); status != 200 {
			t.Errorf("the message got %d %s", status, answer)
		}
	}
	for n, step := range []struct {
		delivery string
		quantity int
		want     string
	}{
		{"a", 3, "A 3"}, {"b", 2, "A 2"}, {"a", 3, "A 2"}, {"c", 5, "A 5"}, {"d", 3, "A 3"}, {"c", 5, "A 3"},
		{"", 4, "A 4"}, {"", 1, "A 1"}, {"", 4, "A 1"},
	} {
		delivered(step.delivery, wooOrder(1, 1, "processing", wooLine(1, "A", step.quantity)))
		testkit.Equal(t, itemsOf(t, s.c, "1"), step.want, "the items after message %d", n+1)
	}
	delivered("e", wooOrder(1, 1, "cancelled", wooLine(1, "A", 1)))
	delivered("f", wooOrder(1, 1, "processing", wooLine(1, "A", 7)))
	s.c.Get(t, find(t, s.c, "1")).Want(200).Shows(map[string]string{"status": "cancelled"})
}

// WooCommerce writes characters of titles as HTML. A line in a file has the same title.
func TestTitlesInHTML(t *testing.T) {
	t.Parallel()
	s := newShop(t, "woocommerce")
	line := wooLine(1, "", 1)
	line["name"] = "Vase &amp; Pot &#8211; Red"
	s.send(t, wooOrder(1, 1, "processing", line))
	testkit.Equal(t, itemsOf(t, s.c, "1"), "Vase & Pot \u2013 Red 1", "the line")
}

// What customers have chosen for a line is in the notes of the order, also if the line is a product.
func TestWhatCustomersHaveChosen(t *testing.T) {
	t.Parallel()
	for kind, test := range map[string]struct {
		order, line j
		want        string
	}{
		"shopify": {shopifyOrder(1, 1, 1), j{"name": "Sign - Red", "properties": []j{{"name": "Engraving", "value": "Bob"},
			{"name": "_id", "value": "x"}, {"name": "Size", "value": 5}, {"name": "Gift", "value": nil},
			{"name": "Parts", "value": []string{"a"}}}},
			"Ring twice\nSign - Red: Engraving: Bob\nSign - Red: Size: 5"},
		"shopify without properties":         {shopifyOrder(1, 1, 1), j{"properties": nil}, "Ring twice"},
		"shopify with properties of an app":  {shopifyOrder(1, 1, 1), j{"properties": j{"Engraving": "Bob"}}, "Ring twice"},
		"shopify with a property of the app": {shopifyOrder(1, 1, 1), j{"properties": []any{"Engraving"}}, "Ring twice"},
		"woocommerce": {wooOrder(1, 1, "processing"), j{"name": "Sign - Dark red, 20 cm", "meta_data": []j{
			{"key": "pa_color", "value": "dark-red", "display_key": "Color", "display_value": "Dark red"},
			{"key": "size", "value": "20 cm", "display_key": "Size", "display_value": "20 cm"},
			{"key": "pa_font", "value": "sans", "display_key": "Font", "display_value": "Sans"},
			{"key": "_reduced_stock", "value": "1"}, {"key": "list", "value": []string{"x"}},
			{"key": "Text", "value": "Bob &amp; Eve", "display_key": "Text", "display_value": "<p>Bob &amp; Eve</p>"}}},
			"Ring twice\nSign - Dark red, 20 cm: Font: Sans\nSign - Dark red, 20 cm: Text: Bob & Eve"},
		"woocommerce without metadata": {wooOrder(1, 1, "processing"), j{"meta_data": j{}}, "Ring twice"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, strings.Fields(kind)[0])
			s.c.NewProduct(t, "SIGN", 10)
			line := wooLine(1, "SIGN", 1)
			for name, value := range test.line {
				line[name] = value
			}
			test.order["note"], test.order["customer_note"], test.order["line_items"] = "Ring twice", "Ring twice", []j{line}
			s.send(t, test.order)
			id := s.c.Get(t, orders).Want(200).Text("items.0.id")
			s.c.Get(t, orders+"/"+id).Want(200).Shows(map[string]string{"notes": test.want, "items.#": "1"})
		})
	}
}

// WooCommerce sends bundles as lines, and their parts as lines too. If the bundle is a product here, its parts are not
// printed a second time.
func TestBundles(t *testing.T) {
	t.Parallel()
	s := newShop(t, "woocommerce")
	s.c.NewProduct(t, "KIT", 10)
	s.c.NewProduct(t, "CLIP", 10)
	bundled := func(l j, price any, more j) j {
		l["price"] = price
		for name, value := range more {
			l[name] = value
		}
		return l
	}
	for n, test := range []struct {
		lines []j
		want  string
		price string // of the first item
	}{
		{[]j{bundled(wooLine(1, "KIT", 2), 10, j{"bundled_by": "", "bundled_items": []int{2}}),
			bundled(wooLine(2, "CLIP", 6), 0, j{"bundled_by": "1"}), wooLine(3, "CLIP", 1)}, "CLIP 1, KIT 2", "10"},
		{[]j{bundled(wooLine(1, "KIT", 2), 0, nil), bundled(wooLine(2, "CLIP", 6), 1.5, j{"bundled_by": 1})},
			"KIT 2", "4.5"},
		{[]j{bundled(wooLine(1, "SET", 2), 10, nil), bundled(wooLine(2, "CLIP", 6), 0, j{"bundled_by": 1})},
			"CLIP 6, Name of SET 2", "0"},
		{[]j{bundled(wooLine(1, "KIT", 1), 7, nil), bundled(wooLine(2, "CLIP", 3), 0, j{"composite_parent": 1})},
			"KIT 1", "7"},
		{[]j{bundled(wooLine(1, "KIT", 1), 7, j{"product_id": 70}), bundled(wooLine(2, "CLIP", 3), 0, j{"product_id": 71,
			"meta_data": []j{{"key": "_woosb_parent_id", "value": "70"}}})}, "KIT 1", "7"},
		{[]j{bundled(wooLine(1, "CLIP", 1), 7, j{"bundled_by": 9, "composite_parent": []int{}}),
			bundled(wooLine(2, "KIT", 1), 7, j{"bundled_by": false,
				"meta_data": []j{{"key": "_woosb_parent_id", "value": "5"}}})},
			"CLIP 1, KIT 1", "7"},
	} {
		s.send(t, wooOrder(n+1, 1, "processing", test.lines...))
		testkit.Equal(t, itemsOf(t, s.c, fmt.Sprint(n+1)), test.want, "the items of order %d", n+1)
		s.c.Get(t, find(t, s.c, fmt.Sprint(n+1))).Want(200).Shows(map[string]string{"items.0.unit_price": test.price})
	}

	// Later messages and files agree.
	s.send(t, wooOrder(1, 2, "processing", bundled(wooLine(1, "KIT", 3), 10, nil),
		bundled(wooLine(2, "CLIP", 9), 0, j{"bundled_by": 1})))
	testkit.Equal(t, itemsOf(t, s.c, "1"), "KIT 3", "the items")
	wantCounts(t, post(t, s.c, "", "Order Number,Order Status,Item Name,SKU,Quantity,Modified Date\n"+
		"1,cancelled,Kit,KIT,3,2026-01-06T10:00:00Z\n").Want(200), "0/1/0/0/0")
	s.c.Get(t, find(t, s.c, "1")).Want(200).Shows(map[string]string{"status": "cancelled", "items.#": "1"})
}

// A shop replaces a product of which pieces are delivered: the order keeps it, and says so until both agree.
func TestReplacedAfterDelivery(t *testing.T) {
	t.Parallel()
	s := newShop(t, "shopify")
	a := s.c.NewProduct(t, "A", 10)
	s.c.NewProduct(t, "B", 10)
	second := 0
	send := func(sku string) {
		second++
		o := shopifyOrder(1, second, 1)
		o["name"], o["line_items"] = "1", []j{wooLine(1, sku, 3), wooLine(2, "B", 1)}
		s.send(t, o)
	}
	send("A")
	order := find(t, s.c, "1")
	warned := func(detail string) {
		t.Helper()
		if detail == "" {
			s.c.Get(t, order).Want(200).Shows(map[string]string{"warnings": "[]"})
			return
		}
		testkit.Equal(t, itemsOf(t, s.c, "1"), "A 3, B 1", "the items")
		s.c.Get(t, order).Want(200).Shows(map[string]string{"warnings.#": "1", "warnings.0.code": "DELIVERED_REPLACED", "warnings.0.pieces": "1",
			"warnings.0.product_id": a, "warnings.0.detail": detail})
	}
	send("B")
	send("A") // nothing is delivered
	warned("")
	var item string
	for i := range s.c.Get(t, order).List("items") {
		if at := fmt.Sprintf("items.%d.", i); s.c.Get(t, order).Text(at+"product_id") == a {
			item = s.c.Get(t, order).Text(at + "id")
		}
	}
	s.c.Post(t, order+"/deliver", j{"items": []j{{"id": item, "quantity": 1}}}).Want(200)
	warned("")
	for _, sku := range []string{"B", "UNKNOWN", "A", "B"} {
		send(sku)
		detail := "The customer has got 1 of Product A, but the shop has since replaced it by Name of " + sku + " (" + sku +
			"); the order keeps Product A"
		if sku == "A" {
			detail = ""
		}
		warned(detail)
	}
	s.c.Delete(t, order+"/items/"+item).Want(204)
	s.c.Get(t, order).Want(200).Shows(map[string]string{"warnings.#": "1", "warnings.0.code": "DELIVERED_NOT_EARNED"})
}

// A shop can order fewer pieces than are delivered: that is recorded, and the order says so.
func TestFewerThanDelivered(t *testing.T) {
	t.Parallel()
	s := newShop(t, "shopify")
	s.c.NewProduct(t, "A", 10)
	send := func(second, quantity int) {
		o := shopifyOrder(1, second, 1)
		o["name"], o["line_items"] = "1", []j{wooLine(1, "A", quantity)}
		s.send(t, o)
	}
	send(1, 3)
	order := find(t, s.c, "1")
	s.c.Post(t, order+"/deliver", nil).Want(200)
	send(2, 1)
	s.c.Get(t, order).Want(200).Shows(map[string]string{"items.0.quantity": "1", "items.0.delivered": "3",
		"status": "done", "warnings.#": "1", "warnings.0.code": "DELIVERED_MORE", "warnings.0.pieces": "2"})
	// It is closed with what the customer has got, and no more than that.
	closed := func(pieces int) *testkit.Response {
		items := []j{{"id": s.c.Get(t, order).Text("items.0.id"), "delivered": pieces}}
		return s.c.Post(t, order+"/complete", j{"items": items})
	}
	closed(4).Fields("items[0].delivered")
	closed(3).Want(200).Shows(map[string]string{"items.0.delivered": "3", "status": "done"})
	send(3, 0)
	s.c.Get(t, order).Want(200).Shows(map[string]string{"items": "[]", "warnings.#": "1",
		"warnings.0.code": "DELIVERED_NOT_EARNED", "warnings.0.pieces": "3"})
}

// A line whose SKU is that of a product with variants is the option that a person has assigned to its title, once; the
// SKU of a variant needs nobody. A shop may give its options no SKU, the SKU of the product, or one that nobody knows.
func TestOptions(t *testing.T) {
	t.Parallel()
	for kind, message := range map[string]func(id, second int, sku, option string) j{
		"generic": func(id, second int, sku, option string) j {
			return generic(id, second, j{"id": "1", "title": "Dragon - " + option, "sku": sku, "quantity": 2})
		},
		"shopify": func(id, second int, sku, option string) j {
			o := shopifyOrder(id, second, 2)
			o["line_items"] = []j{{"id": 1, "title": "Dragon", "variant_title": option, "sku": sku, "quantity": 2}}
			return o
		},
		"woocommerce": func(id, second int, sku, option string) j {
			line := wooLine(1, sku, 2)
			line["name"], line["variation_id"], line["meta_data"] = "Dragon", 7, []j{
				{"key": "color", "value": option, "display_key": "Color", "display_value": option},
				{"key": "Text", "value": "Bob", "display_key": "Text", "display_value": "Bob"}}
			return wooOrder(id, second, "processing", line)
		},
	} {
		for name, sku := range map[string]string{"none": "", "that of the product": "drg", "unknown": "SHOP-1"} {
			t.Run(kind+", SKU "+name, func(t *testing.T) {
				t.Parallel()
				s := newShop(t, kind)
				base := s.c.NewProduct(t, "DRG", 10)
				s.c.Post(t, "/api/v1/products/"+base+"/variants", j{"variants": []j{{"color": "Blue", "sku": "DRG-BLUE"},
					{"color": "Light red", "sku": "DRG-RED"}}}).Want(201)
				reference := map[string]string{"generic": "A-%d", "shopify": "#100%d", "woocommerce": "%d"}[kind]
				read := func(id int, want string) string {
					t.Helper()
					testkit.Equal(t, itemsOf(t, s.c, fmt.Sprintf(reference, id)), want, "order %d", id)
					return find(t, s.c, fmt.Sprintf(reference, id))
				}
				assign := func(order, sku string) {
					t.Helper()
					line := s.c.Get(t, order).Text("unassigned_lines.0.id")
					s.c.Post(t, order+"/lines/"+line+"/assign", j{"sku": sku}).Want(200)
				}
				s.send(t, message(1, 1, sku, "Light red"))
				s.send(t, message(2, 1, sku, "Light red"))
				s.send(t, message(3, 1, sku, "Blue"))
				s.send(t, message(4, 1, "DRG-BLUE", "Light red"))
				read(4, "DRG-BLUE 2")
				assign(read(1, "Dragon - Light red 2"), "DRG-RED")
				read(1, "DRG-RED 2")
				read(2, "DRG-RED 2")
				assign(read(3, "Dragon - Blue 2"), "DRG-BLUE")
				s.send(t, message(5, 1, sku, "BLUE"))
				read(5, "DRG-BLUE 2")
				// The customer changes the option.
				s.send(t, message(5, 2, sku, "Light red"))
				read(5, "DRG-RED 2")
				s.send(t, message(5, 3, sku, "Green"))
				read(5, "Dragon - Green 2")
				s.send(t, message(5, 4, sku, "Blue"))
				read(5, "DRG-BLUE 2")
				list := s.c.Get(t, "/api/v1/order-assignments")
				list.Shows(map[string]string{"total": "2", "items.0.with_title": fmt.Sprint(sku != "")})
			})
		}
	}
}

// Without variants, the SKU of a product is enough, and so is the SKU that a person has assigned.
func TestOptionsOfNoVariants(t *testing.T) {
	t.Parallel()
	s := newShop(t, "generic")
	base := s.c.NewProduct(t, "DRG", 10)
	s.c.NewProduct(t, "VASE", 10)
	line := func(id int, sku, title string) {
		s.send(t, generic(id, 1, j{"id": "1", "title": title, "sku": sku, "quantity": 1}))
	}
	line(1, "SHOP-1", "Dragon - Red")
	s.c.Post(t, find(t, s.c, "A-1")+"/lines/"+s.c.Get(t, find(t, s.c, "A-1")).Text("unassigned_lines.0.id")+"/assign",
		j{"product_id": base}).Want(200)
	line(2, "SHOP-1", "Dragon - Blue")
	line(3, "DRG", "Dragon - Blue")
	line(4, "VASE", "Vase - Blue")
	for id, want := range map[int]string{1: "DRG 1", 2: "DRG 1", 3: "DRG 1", 4: "VASE 1"} {
		testkit.Equal(t, itemsOf(t, s.c, fmt.Sprintf("A-%d", id)), want, "the items")
	}
	// With variants, both name several products. What orders have stays.
	variant := s.c.Post(t, "/api/v1/products/"+base+"/variants", j{"variants": []j{{"color": "Blue"}}}).Want(201)
	line(5, "SHOP-1", "Dragon - Blue")
	line(6, "DRG", "Dragon - Blue")
	line(7, "VASE", "Vase - Green")
	for id, want := range map[int]string{2: "DRG 1", 3: "DRG 1", 5: "Dragon - Blue 1", 6: "Dragon - Blue 1", 7: "VASE 1"} {
		testkit.Equal(t, itemsOf(t, s.c, fmt.Sprintf("A-%d", id)), want, "the items")
	}
	// Lines that are not printed are those of the title, too.
	s.c.Post(t, find(t, s.c, "A-6")+"/lines/"+s.c.Get(t, find(t, s.c, "A-6")).Text("unassigned_lines.0.id")+"/assign",
		j{"ignore": true}).Want(200)
	line(8, "DRG", "Dragon - blue")
	line(9, "DRG", "Dragon - Red")
	testkit.Equal(t, itemsOf(t, s.c, "A-8"), "", "the items")
	testkit.Equal(t, itemsOf(t, s.c, "A-9"), "Dragon - Red 1", "the items")
	s.c.Delete(t, "/api/v1/products/"+variant.Text("items.0.id")).Want(204)
	line(10, "DRG", "Dragon - blue")
	testkit.Equal(t, itemsOf(t, s.c, "A-10"), "DRG 1", "the items")
}
