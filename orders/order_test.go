package orders_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"spoolwright/catalog"
	"spoolwright/inventory"
	"spoolwright/orders"
	piecesAPI "spoolwright/orders/pieces"
	"spoolwright/orders/stock"
	"spoolwright/production"
	"spoolwright/tests/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type j = testkit.JSON

const (
	path     = "/api/v1/orders"
	products = "/api/v1/products"
	runs     = "/api/v1/production-runs"
)

func newAPI(t testing.TB) *testkit.API {
	t.Helper()
	return testkit.New(t, testkit.Options{PerMinute: 1_000_000, PerHour: 10_000_000}, inventory.Routes, catalog.Routes,
		production.Routes(orders.Runs), orders.Routes, piecesAPI.Routes, stock.Routes)
}

// An order has its carrier and its tracking number, which the search finds.
func TestTracking(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	want := map[string]string{"carrier": "DHL", "tracking_number": "0034 0434"}
	order := path + "/" + c.Post(t, path, j{"carrier": "DHL", "tracking_number": "0034 0434"}).Want(201).Shows(want).ID()
	c.Post(t, path, j{"carrier": "UPS"}).Want(201)
	c.Get(t, order).Want(200).Shows(want)
	c.Get(t, path+"?search=dhl+0434").Want(200).Shows(map[string]string{"total": "1"})
	c.Patch(t, order, j{"carrier": nil}).Want(200).Shows(map[string]string{"carrier": "null",
		"tracking_number": "0034 0434"})
	c.Get(t, path+"?search=dhl").Want(200).Shows(map[string]string{"total": "0"})
	long := strings.Repeat("é", 101)
	c.Patch(t, order, j{"carrier": "", "tracking_number": long}).Want(422).Fields("carrier", "tracking_number")
	c.Post(t, path, j{"carrier": long, "tracking_number": ""}).Want(422).Fields("carrier", "tracking_number")
	c.Patch(t, order, j{"carrier": long[2:], "tracking_number": "1"}).Want(200)
}

func TestOrders(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t).Tenant(t)
	c, viewer := tenant.User(t, "operator"), tenant.User(t, "viewer")
	a, b := c.NewProduct(t, "A-1", 10), c.NewProduct(t, "B-1", 20)
	created := c.Post(t, path, j{"source": "etsy", "reference": "1", "customer": "Ada", "due_date": "2024-02-01",
		"notes": "Gift", "items": []j{{"sku": "A-1", "quantity": 3}, {"product_id": b}, {"product_id": a}}}).
		Want(201)
	order := path + "/" + created.ID()
	testkit.Equal(t, created.Header.Get("Location"), order, "the location")
	want := map[string]string{"source": "etsy", "reference": "1", "customer": "Ada", "due_date": "2024-02-01",
		"notes": "Gift", "status": "received", "items.0.product_id": a, "items.0.sku": "A-1", "items.0.quantity": "3",
		"items.0.product_name": "Product A-1", "items.0.produced": "0", "items.0.planned": "0",
		"items.1.product_id": b, "items.1.quantity": "1", "items.2.product_id": a}
	created.Shows(want)
	viewer.Get(t, order).Want(200).Shows(want)
	viewer.Post(t, path, j{}).WantError(403, "FORBIDDEN")
	viewer.Patch(t, order, j{}).WantError(403, "FORBIDDEN")
	viewer.Delete(t, order).WantError(403, "FORBIDDEN")

	// The response can be sent back, with changes.
	var shown j
	testkit.Check(t, json.Unmarshal(created.Body, &shown))
	shown["customer"], shown["due_date"] = "Bob", nil
	c.Patch(t, order, shown).Want(200).Shows(map[string]string{"customer": "Bob", "due_date": "null", "notes": "Gift",
		"items.0.quantity": "3"})
	c.Patch(t, order, j{}).Want(200).Shows(map[string]string{"customer": "Bob"})
	c.Patch(t, order, j{"status": nil}).Fields("status")

	second := c.Post(t, path, j{"source": "Shopify", "reference": "1", "customer": "Eve", "due_date": "2024-01-01",
		"status": "done"}).Want(201).ID()
	c.Post(t, path, j{"source": "shopify", "notes": "mk4 please"}).Want(201)
	for query, total := range map[string]string{"": "3", "?status=done": "1", "?source=SHOPIFY": "2",
		"?search=EVE": "1",
		"?search=MK4": "1", "?search=bob&source=etsy": "1", "?status=cancelled": "0", "?limit=1&skip=1": "3"} {
		viewer.Get(t, path+query).Want(200).Shows(map[string]string{"total": total})
	}
	viewer.Get(t, path+"?sort_by=due_date&sort_order=asc").Want(200).Shows(map[string]string{"items.0.id": second})
	viewer.Get(t, path+"?sort_by=notes").Fields("sort_by")
	viewer.Get(t, path+"?status=new").Fields("status")

	c.With("If-Match", `"x"`).Patch(t, order, j{"customer": "Eve"}).WantError(412, "PRECONDITION_FAILED")
	tag := c.Get(t, order).Want(200).Header.Get("ETag")
	c.With("If-Match", tag).Patch(t, order, j{"customer": "Eve"}).Want(200)

	c.Delete(t, products+"/"+b).Want(204)
	c.Get(t, order).Want(200).Shows(map[string]string{"items.1.product_name": "Product B-1"})
	c.Delete(t, order).Want(204)
	item := order + "/items/" + created.Text("items.0.id")
	for _, request := range []struct {
		method, path string
		body         any
	}{
		{"GET", order, nil}, {"PATCH", order, j{}}, {"PATCH", order, j{"notes": "x"}}, {"DELETE", order, nil},
		{"GET", order + "/availability", nil}, {"POST", order + "/items", j{"product_id": a}}, {"PATCH", item, j{}},
		{"PATCH", item, j{"quantity": 4}}, {"DELETE", item, nil},
	} {
		c.Do(t, request.method, request.path, request.body).WantError(404, "NOT_FOUND")
	}
	c.Get(t, path).Want(200).Shows(map[string]string{"total": "2"})
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c, other := api.Operator(t), api.Operator(t)
	a, theirs := c.NewProduct(t, "A-1", 10), other.NewProduct(t, "B-1", 10)
	gone := c.NewProduct(t, "G-1", 10)
	c.Delete(t, products+"/"+gone).Want(204)
	c.Post(t, path, j{"due_date": "soon", "status": "new", "source": strings.Repeat("x", 201), "items": []j{{},
		{"product_id": a, "quantity": 0}, {"sku": "", "quantity": 1.5}, {"product_id": "x"},
		{"sku": "A-1", "price": 1},
		{"sku": "A-1", "quantity": 1_000_001}, {"product_id": a, "sku": "A-1"}}}).
		Fields("due_date", "status", "source", "items[0].product_id", "items[1].quantity", "items[2].quantity",
			"items[2].product_id", "items[3].product_id", "items[4].price", "items[5].quantity", "items[6].sku")
	c.Post(t, path, j{"items": make([]j, 501)}).Fields("items")
	for want, items := range map[string][]j{
		`items[1].sku "B-1"`: {{"sku": "A-1"}, {"sku": "B-1"}},
		`items[0].sku "G-1"`: {{"sku": "G-1"}, {"sku": "A-1"}},
		`items[0].product_id, items[1].sku "a-1", items[2].product_id`: {{"product_id": gone}, {"sku": "a-1"},
			{"product_id": theirs}},
	} {
		a := c.Post(t, path, j{"reference": "7", "items": items}).WantError(400, "UNKNOWN_REFERENCE")
		testkit.Equal(t, a.Text("detail"), "Not a product: "+want, "the detail")
	}
	c.Get(t, path).Want(200).Shows(map[string]string{"total": "0"})

	order := path + "/" + c.Post(t, path, j{"items": []j{{"sku": "A-1"}}}).Want(201).ID()
	c.Post(t, order+"/items", j{}).Fields("product_id")
	c.Post(t, order+"/items", j{"product_id": theirs}).WantError(400, "UNKNOWN_REFERENCE")
	c.Post(t, order+"/items", j{"product_id": a, "sku": "A-1"}).Fields("sku")
	c.Post(t, order+"/items", j{"sku": "G-1"}).WantError(400, "UNKNOWN_REFERENCE").
		Shows(map[string]string{"errors.0.field": "sku"})
	c.Get(t, order).Want(200).WantLen(t, "items", 1)
	item := order + "/items/" + c.Post(t, order+"/items", j{"sku": "A-1", "quantity": 2}).Want(201).
		Shows(map[string]string{"quantity": "2", "product_id": a, "produced": "0"}).ID()
	c.Patch(t, item, j{"quantity": nil}).Fields("quantity")
	c.Patch(t, item, j{"quantity": 5, "product_id": theirs}).Fields("product_id")
	c.Patch(t, item, j{"quantity": 5, "product_id": a}).Want(200).
		Shows(map[string]string{"quantity": "5", "product_id": a})
	if updated := c.Get(t, order).Want(200); updated.Text("updated_at") == updated.Text("created_at") {
		t.Errorf("the order has the time of its creation: %s", updated.Body)
	}
	other.Patch(t, item, j{"quantity": 6}).WantError(404, "NOT_FOUND")
	other.Delete(t, item).WantError(404, "NOT_FOUND")
	c.Delete(t, item).Want(204)
	c.Delete(t, item).WantError(404, "NOT_FOUND")
	c.Get(t, products+"/"+gone+"/availability").WantError(404, "NOT_FOUND")
	c.Get(t, products+"/"+theirs+"/availability").WantError(404, "NOT_FOUND")
	other.Get(t, order+"/availability").WantError(404, "NOT_FOUND")
	c.Get(t, products+"/"+a+"/availability?quantity=0").Fields("quantity")
	c.Get(t, products+"/"+a+"/availability?quantity=1000001").Fields("quantity")
}

func TestItemLimit(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	c.NewProduct(t, "A-1", 10)
	items := make([]j, 500)
	for i := range items {
		items[i] = j{"sku": "A-1"}
	}
	order := path + "/" + c.Post(t, path, j{"items": items}).Want(201).ID()
	c.Post(t, order+"/items", j{"sku": "A-1"}).Fields("items")
}

// A shop sends an order twice.
func TestSameOrderTwice(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	tenant := api.Tenant(t)
	c, shop := tenant.User(t, "operator"), tenant.User(t, "operator")
	c.NewProduct(t, "A-1", 10)
	body := func(fields j) j {
		b := j{"source": "shopify", "reference": "1042", "customer": "Ada",
			"items": []j{{"sku": "A-1", "quantity": 2}}}
		for name, value := range fields {
			b[name] = value
		}
		return b
	}
	first := shop.Post(t, path, body(nil)).Want(201)
	order := path + "/" + first.ID()
	same := func() *testkit.Response {
		t.Helper()
		a := shop.Post(t, path, body(nil)).Want(200)
		if a.ID() != first.ID() || a.Header.Get("Location") != "" {
			t.Errorf("the same order again is %s, with the location %q", a.Body, a.Header.Get("Location"))
		}
		return a
	}
	testkit.Equal(t, string(same().Body), string(first.Body), "the same order again")
	for _, other := range []j{body(j{"customer": "Eve"}), body(j{"items": []j{}}), body(j{"notes": ""}),
		body(j{"items": []j{{"sku": "A-1", "quantity": 3}}}), body(j{"due_date": "2024-01-01"}),
		body(j{"status": "done"}),
		body(j{"items": []j{{"sku": "unknown"}}})} {
		a := shop.Post(t, path, other).WantError(409, "ORDER_CONFLICT")
		testkit.Contains(t, a.Text("detail"), "shopify 1042", "the detail")
	}
	for _, elsewhere := range []j{body(j{"source": "etsy"}), body(j{"source": nil}), body(j{"reference": "1043"}),
		body(j{"reference": nil}), body(j{"reference": nil}), body(j{"reference": ""}), body(j{"reference": ""})} {
		shop.Post(t, path, elsewhere).Want(201)
	}
	foreign := api.Operator(t)
	foreign.Post(t, path, j{"source": "shopify", "reference": "1042"}).Want(201)

	// With a key, the response is kept, also that of an order that existed.
	keyed := shop.With("Idempotency-Key", "k")
	keyed.Post(t, path, body(nil)).Want(200)
	if a := keyed.Post(t, path, body(nil)).Want(200); a.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the second response is no replay: %v", a.Header)
	}
	keyed.Post(t, path, body(j{"customer": "Eve"})).WantError(409, "IDEMPOTENCY_CONFLICT")

	// Changes of the order and of its product do not matter.
	c.Patch(t, order, j{"customer": "Ada Lovelace", "status": "cancelled"}).Want(200)
	c.Patch(t, order+"/items/"+first.Text("items.0.id"), j{"quantity": 9}).Want(200)
	same().Shows(map[string]string{"customer": "Ada Lovelace", "status": "cancelled", "items.0.quantity": "9"})
	c.Delete(t, products+"/"+first.Text("items.0.product_id")).Want(204)
	same()

	c.NewProduct(t, "A-1", 10)
	other := shop.Post(t, path, body(j{"reference": "2"})).Want(201).ID()
	c.Patch(t, path+"/"+other, j{"reference": "1042"}).WantError(409, "ORDER_CONFLICT")
	c.Delete(t, order).Want(204)
	if again := shop.Post(t, path, body(nil)).Want(201); again.ID() == first.ID() {
		t.Error("the removed order exists again")
	}
}

// Concurrent posts of the same order create one order.
func TestSameOrderConcurrently(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	c.NewProduct(t, "A-1", 10)
	for round := range 3 {
		var created, existing atomic.Int32
		var ids sync.Map
		testkit.Concurrently(64, func(i int) {
			sender := c
			if i%2 == 0 {
				sender = c.With("Idempotency-Key", fmt.Sprint(round, " ", i%8))
			}
			a, err := sender.Send("POST", path,
				j{"reference": fmt.Sprint(round), "items": []j{{"sku": "A-1", "quantity": 2}}})
			switch {
			case err != nil:
				t.Error(err)
			case a.Status == 201 && a.Header.Get("Idempotency-Replayed") == "":
				created.Add(1)
			case a.Status == 200 || a.Status == 201:
				existing.Add(1)
			default:
				t.Errorf("%d %s", a.Status, a.Body)
			}
			var order struct{ ID string }
			if err == nil && json.Unmarshal(a.Body, &order) == nil {
				ids.Store(order.ID, true)
			}
		})
		n := 0
		ids.Range(func(any, any) bool { n++; return true })
		if created.Load() != 1 || existing.Load() != 63 || n != 1 {
			t.Errorf("%d created, %d found, %d ids", created.Load(), existing.Load(), n)
		}
	}
	c.Get(t, path).Want(200).Shows(map[string]string{"total": "3"})
}

func TestExport(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	c.NewProduct(t, "A-1", 10)
	ids := []string{
		c.Post(t, path, j{"customer": "Ada, \"Countess\""}).Want(201).ID(),
		c.Post(t, path, j{"source": "etsy", "reference": "1",
			"items": []j{{"sku": "A-1", "quantity": 2}, {"sku": "A-1"}}}).
			Want(201).ID(),
	}
	gone := c.Post(t, path, j{}).Want(201).ID()
	c.Delete(t, path+"/"+gone).Want(204)
	api.Operator(t).Post(t, path, j{}).Want(201)
	c.WantExported(t, path, []string{"warnings"}, ids...)
	rows := c.Exported(t, path, "csv")
	if len(rows) != 4 {
		t.Fatalf("%d rows: %q", len(rows), rows)
	}
	for i, want := range []string{
		"id,source,reference,customer,due_date,notes,carrier,tracking_number,status," +
			"currency,exchange_rate,exchange_date,sales_tax_percent," +
			"prices_include_tax,ready_at,items.id,items.product_id,items.sku,",
		ids[0] + `,,,"Ada, ""Countess""",,,,,received,,,,0,false,,,,`, ids[1] + ",etsy,1,,,,,,received,", ids[1] +
			",etsy,1,,,,,,received,"} {
		if !strings.HasPrefix(rows[i], want) {
			t.Errorf("row %d is %s, want %s", i, rows[i], want)
		}
	}
	if !strings.Contains(rows[2], ",A-1,Product A-1,2,,,,0,0,") ||
		!strings.Contains(rows[3], ",A-1,Product A-1,1,,,,0,0,") {
		t.Errorf("the items are %s and %s", rows[2], rows[3])
	}
}

// The checks of the tables allow exactly the values that the API accepts.
func TestEnumsMatchTables(t *testing.T) {
	t.Parallel()
	testkit.WantChecked(t, "orders", "status", orders.OrderStatus("").Enum())
}

// A search of runs finds the reference and the customer of the orders that they print, in the list and in the export,
// as lists show them.
func TestRunsByOrder(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c, other := api.Operator(t), api.Operator(t)
	for _, c := range []*testkit.Client{c, other} {
		product := c.NewProduct(t, "A-1", 10)
		for _, reference := range []string{"Shop-4711", "Shop-4712"} {
			order := c.Post(t, path, j{"reference": reference, "customer": "Ada " + reference[5:], "notes": "secretly",
				"items": []j{{"product_id": product}}}).Want(201)
			c.NewRun(t, product, order.Text("items.0.id"), 1, nil)
		}
		c.Post(t, "/api/v1/production-runs", j{"items": []j{{"product_id": product}}}).Want(201)
	}
	for search, total := range map[string]string{"4711": "1", "shop-47": "2", "ada": "2", "ada+4712": "1",
		"4711+a-1": "1", "secretly": "0", "4713": "0"} {
		const runs = "/api/v1/production-runs"
		c.Get(t, runs+"?search="+search).Want(200).Shows(map[string]string{"total": total})
		lines := strings.Count(string(c.Get(t, runs+"/export?format=jsonl&search="+search).Want(200).Body), "\n")
		testkit.Equal(t, strconv.Itoa(lines), total, "exported runs of the search %s", search)
	}
}
