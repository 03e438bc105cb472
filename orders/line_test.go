package orders_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
	"spoolwright/value"
)

const assignments = "/api/v1/order-assignments"

// assign assigns the first line of the order that has no product.
func assign(t *testing.T, c *testkit.Client, order string, body j) *testkit.Response {
	t.Helper()
	return c.Post(t, order+"/lines/"+c.Get(t, order).Want(200).Text("unassigned_lines.0.id")+"/assign", body)
}

// A line whose SKU is a product's becomes an item at once, without regard to case and outer spaces. Another one waits
// for a person, once: the next line with its SKU, or with its title if it has no SKU, becomes an item by itself.
func TestLines(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t).Tenant(t)
	c, viewer := tenant.User(t, "operator"), tenant.User(t, "viewer")
	dragon, hook := c.NewProduct(t, "DRG-1", 10), c.NewProduct(t, "HOOK", 5)
	c.Patch(t, products+"/"+hook, j{"selling_price": 4}).Want(200)
	body := j{"source": "shop", "reference": "1", "unassigned_lines": []j{
		{"title": "Dragon", "sku": " drg-1 ", "quantity": 3, "unit_price": 12},
		{"title": "Hooks, pack of 4", "sku": "pack-4", "quantity": 2, "unit_price": 10},
		{"title": "Name tag", "quantity": 1}}}
	created := c.Post(t, path, body).Want(201)
	order := path + "/" + created.ID()
	created.Shows(map[string]string{"items.#": "1", "items.0.product_id": dragon, "items.0.quantity": "3",
		"items.0.unit_price": "12", "unassigned_lines.#": "2", "unassigned_lines.0.title": "Hooks, pack of 4",
		"unassigned_lines.0.sku": "pack-4", "unassigned_lines.0.quantity": "2", "unassigned_lines.0.unit_price": "10",
		"unassigned_lines.1.title": "Name tag", "unassigned_lines.1.sku": "null", "revenue": "36"})
	c.Post(t, path, body).Want(200) // delivered twice
	body["unassigned_lines"] = []j{{"title": "Dragon"}}
	c.Post(t, path, body).WantError(409, "ORDER_CONFLICT")
	viewer.Get(t, path).Want(200).Shows(map[string]string{"items.0.unassigned_count": "2"})
	viewer.Get(t, path+"?unassigned=true").Want(200).Shows(map[string]string{"total": "1"})
	viewer.Get(t, path+"?unassigned=false").Want(200).Shows(map[string]string{"total": "0"})

	// The order is not done while a line waits.
	c.NewRun(t, dragon, created.Text("items.0.id"), 3, j{"status": "completed"})
	c.Get(t, order).Want(200).Shows(map[string]string{"status": "in_production", "items.0.produced": "3"})

	line := order + "/lines/" + created.Text("unassigned_lines.0.id") + "/assign"
	viewer.Post(t, line, j{"product_id": hook}).WantError(403, "FORBIDDEN")
	other := newAPI(t).Operator(t)
	other.Post(t, line, j{"product_id": hook}).WantError(404, "NOT_FOUND")
	theirs := other.NewProduct(t, "THEIRS", 10)
	c.Post(t, line, j{"product_id": theirs}).WantError(400, "UNKNOWN_REFERENCE")
	c.Post(t, line, j{"sku": "THEIRS"}).WantError(400, "UNKNOWN_REFERENCE")
	c.Post(t, line, j{}).Fields("product_id")
	c.Post(t, line, j{"product_id": hook, "ignore": true}).Fields("ignore")
	c.Post(t, line, j{"product_id": hook, "pieces": 0}).Fields("pieces")
	c.Post(t, line, j{"product_id": hook, "pieces": 1001}).Fields("pieces")
	second := c.Post(t, path, j{"unassigned_lines": []j{{"title": "other", "sku": "PACK-4"}}}).Want(201).ID()

	c.Post(t, line, j{"sku": "HOOK", "pieces": 4}).Want(200).Shows(map[string]string{"items.#": "2",
		"items.1.product_id": hook, "items.1.quantity": "8", "items.1.unit_price": "2.5", "unassigned_lines.#": "1",
		"revenue": "56", "status": "in_production"})
	c.Post(t, line, j{"sku": "HOOK", "pieces": 4}).WantError(409, "ORDER_LINE_ASSIGNED")
	// What waited for the same reason has become an item.
	c.Get(t, path+"/"+second).Want(200).Shows(map[string]string{"items.0.quantity": "4", "items.0.unit_price": "4",
		"unassigned_lines.#": "0"})

	// A title is the name only of lines without a SKU.
	assign(t, c, order, j{"product_id": dragon}).Want(200).Shows(map[string]string{"unassigned_lines.#": "0"})
	c.Post(t, path, j{"unassigned_lines": []j{{"title": "NAME TAG"}, {"title": "Name tag", "sku": "TAG-RED"},
		{"title": "Name tags"}}}).Want(201).Shows(map[string]string{"items.#": "1", "items.0.product_id": dragon,
		"unassigned_lines.#": "2", "unassigned_lines.0.sku": "TAG-RED", "unassigned_lines.1.title": "Name tags"})

	// A line that is not printed is ignored, now and later.
	gift := path + "/" + c.Post(t, path, j{"unassigned_lines": []j{{"title": "Gift card"}}}).Want(201).ID()
	assign(t, c, gift, j{"ignore": true}).Want(200).Shows(map[string]string{"items.#": "0", "unassigned_lines.#": "0"})
	c.Post(t, path, j{"unassigned_lines": []j{{"title": "gift card"}}}).Want(201).
		Shows(map[string]string{"items.#": "0", "unassigned_lines.#": "0"})

	list := viewer.Get(t, assignments+"?sort_by=title&sort_order=asc").Want(200)
	list.Shows(map[string]string{"total": "3", "items.0.title": "Gift card", "items.0.product_id": "null",
		"items.1.sku": "pack-4", "items.1.pieces": "4", "items.1.product_name": "Product HOOK", "items.2.title": "Name tag"})
	pack := assignments + "/" + list.Text("items.1.id")
	other.Delete(t, pack).WantError(404, "NOT_FOUND")
	viewer.Delete(t, pack).WantError(403, "FORBIDDEN")
	c.Delete(t, pack).Want(204)
	c.Post(t, path, j{"unassigned_lines": []j{{"title": "x", "sku": "Pack-4"}}}).Want(201).
		Shows(map[string]string{"items.#": "0", "unassigned_lines.#": "1"})
	// A removed product is nobody's line.
	c.Delete(t, products+"/"+dragon).Want(204)
	c.Post(t, path, j{"unassigned_lines": []j{{"title": "Name tag"}, {"title": "x", "sku": "DRG-1"}}}).Want(201).
		Shows(map[string]string{"items.#": "0", "unassigned_lines.#": "2"})
}

// Two products may have SKUs that differ only in case; the line then names the one that it spells.
func TestLineSpellsSKU(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	lower := c.NewProduct(t, "tag", 10)
	upper := c.NewProduct(t, "TAG", 10)
	for sku, product := range map[string]string{"tag": lower, "TAG": upper, "Tag": lower} {
		c.Post(t, path, j{"unassigned_lines": []j{{"title": "x", "sku": sku}}}).Want(201).
			Shows(map[string]string{"items.0.product_id": product})
	}
}

func TestBadLines(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	product := c.NewProduct(t, "A", 10)
	c.Post(t, path, j{"unassigned_lines": []j{{}, {"title": " "}, {"title": "x", "quantity": 0},
		{"title": "x", "quantity": 1_000_001}, {"title": "x", "unit_price": -1}, {"title": strings.Repeat("x", 1001)},
		{"title": "x", "sku": strings.Repeat("x", 201)}, {"title": "x", "product_id": product}}}).
		Fields("unassigned_lines[0].title", "unassigned_lines[1].title", "unassigned_lines[2].quantity",
			"unassigned_lines[3].quantity", "unassigned_lines[4].unit_price", "unassigned_lines[5].title",
			"unassigned_lines[6].sku", "unassigned_lines[7].product_id")
	// An index has the titles: one of so many different characters cannot be compressed.
	var long strings.Builder
	for i := range rune(534) {
		long.WriteRune('一' + i*37%20_000)
	}
	c.Post(t, path, j{"unassigned_lines": []j{{"title": long.String()}}}).Fields("unassigned_lines[0].title")
	c.Post(t, path, j{"unassigned_lines": []j{{"title": long.String()[3:]}}}).Want(201)
	c.Post(t, path, j{"unassigned_lines": []j{{"title": strings.Repeat("İ", 800)}}}).Want(201)
	order := path + "/" + c.Post(t, path, j{"unassigned_lines": []j{{"title": "x", "quantity": 600_000}}}).Want(201).ID()
	assign(t, c, order, j{"product_id": product, "pieces": 2}).Fields("pieces")
	assign(t, c, order, j{"product_id": product}).Want(200).Shows(map[string]string{"items.0.quantity": "600000"})
	// What does not fit waits for a person.
	small := path + "/" + c.Post(t, path, j{"unassigned_lines": []j{{"title": "y"}}}).Want(201).ID()
	assign(t, c, small, j{"product_id": product, "pieces": 1000}).Want(200)
	c.Post(t, path, j{"unassigned_lines": []j{{"title": "Y", "quantity": 1001}}}).Want(201).
		Shows(map[string]string{"unassigned_lines.#": "1"})
}

// Of concurrent assignments of a line, one takes effect, and orders that come meanwhile have one item each.
func TestAssignConcurrently(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	product := c.NewProduct(t, "A", 10)
	for range 10 {
		title := "Thing " + value.NewID()
		create := func(n int) string {
			return path + "/" + c.Post(t, path, j{"reference": fmt.Sprint(title, n),
				"unassigned_lines": []j{{"title": title}}}).Want(201).ID()
		}
		first := create(0)
		line := first + "/lines/" + c.Get(t, first).Want(200).Text("unassigned_lines.0.id") + "/assign"
		testkit.Concurrently(6, func(i int) {
			if i < 3 {
				if a := c.Post(t, line, j{"product_id": product, "pieces": i + 1}); a.Status != 200 {
					a.WantError(409, "ORDER_LINE_ASSIGNED")
				}
				return
			}
			create(i)
		})
		c.Get(t, first).Want(200).Shows(map[string]string{"items.#": "1", "unassigned_lines.#": "0"})
	}
}
