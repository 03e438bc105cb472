package stock_test

import (
	"fmt"
	"testing"

	"spoolwright/catalog"
	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/orders"
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
	return testkit.New(t, testkit.Options{PerMinute: 1_000_000, PerHour: 10_000_000}, inventory.Routes, imports.Routes,
		catalog.Routes, production.Routes(orders.Runs), orders.Routes, stock.Routes)
}

// reserved checks what is reserved of PLA Black, as the availability of a product shows it.
func reserved(t testing.TB, c *testkit.Client, product, want string) {
	t.Helper()
	c.Get(t, products+"/"+product+"/availability").Want(200).
		Shows(map[string]string{"materials.0.reserved_grams": want})
}

func TestReservations(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c, foreign := api.Operator(t), api.Operator(t)
	foreign.NewOrder(t, foreign.NewProduct(t, "A", 10), 100)
	product, spool := c.NewProduct(t, "A", 10), c.NewSpool(t, 1000, nil)
	orange := c.NewSpool(t, 1000, j{"color": "Orange"})
	reserved(t, c, product, "0")
	order, item := c.NewOrder(t, product, 10)
	reserved(t, c, product, "100")
	c.NewOrder(t, c.NewProduct(t, "B", 1.5), 2)
	reserved(t, c, product, "103")

	// A run without weights plans the bill of materials of its items, also of those that no order has.
	run := c.NewRun(t, product, item, 4, nil)
	reserved(t, c, product, "103")
	// Those are for the order, too, which needs fewer pieces then.
	c.Post(t, run+"/items", j{"product_id": product, "quantity": 2}).Want(201)
	reserved(t, c, product, "103")
	// With a weight, it plans the weights: the actual one, or else the estimate.
	material := run + "/materials/" + c.Post(t, run+"/materials", j{"spool_id": spool}).Want(201).ID()
	reserved(t, c, product, "103")
	c.Patch(t, material, j{"estimated_weight_grams": 55.5}).Want(200)
	reserved(t, c, product, "98.5")
	c.Post(t, run+"/materials", j{"spool_id": orange, "estimated_weight_grams": 7}).Want(201)
	reserved(t, c, product, "98.5")
	c.Patch(t, material, j{"actual_weight_grams": 50}).Want(200)
	reserved(t, c, product, "93")
	for _, status := range []string{"in_progress", "paused", "pending"} {
		c.Patch(t, run, j{"status": status}).Want(200)
		reserved(t, c, product, "93")
	}
	c.Patch(t, material, j{"actual_weight_grams": nil, "estimated_weight_grams": 0}).Want(200)
	reserved(t, c, product, "43")
	for status, want := range map[string]string{"failed": "103", "cancelled": "103", "completed": "43"} {
		c.Patch(t, run, j{"status": status}).Want(200)
		reserved(t, c, product, want)
	}
	c.Patch(t, run, j{"status": "pending"}).Want(200)

	// If a run prints more pieces than the order needs, they are for other orders.
	other, _ := c.NewOrder(t, product, 1)
	reserved(t, c, product, "53")
	more := c.NewRun(t, product, item, 100, j{"materials": []j{{"spool_id": spool, "estimated_weight_grams": 1}}})
	reserved(t, c, product, "4")
	c.Delete(t, more).Want(204)
	reserved(t, c, product, "53")
	c.Delete(t, other).Want(204)
	reserved(t, c, product, "43")
	for status, want := range map[string]string{"done": "3", "cancelled": "3", "in_production": "43",
		"received": "43"} {
		c.Patch(t, order, j{"status": status}).Want(200)
		reserved(t, c, product, want)
	}
	c.Delete(t, order).Want(204)
	reserved(t, c, product, "3")
	// Hidden and archived spools of a run do not matter for what it reserves.
	c.Patch(t, material, j{"estimated_weight_grams": 5}).Want(200)
	reserved(t, c, product, "8")
	c.Delete(t, "/api/v1/spools/"+spool).Want(204)
	reserved(t, c, product, "8")
}

// Components that a run takes from stock, and that are not there, are reserved, with or without orders.
func TestReservedComponents(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	part := c.NewProduct(t, "Part", 10) // of PLA Black
	lamp := c.Post(t, products, j{"name": "Lamp", "components": []j{{"component_product_id": part, "quantity": 2}},
		"materials": []j{{"material_type": "PLA", "color": "White", "weight_grams": 5}}}).Want(201).ID()
	c.NewSpool(t, 1000, nil)
	c.Post(t, runs, j{"items": []j{{"product_id": lamp, "quantity": 3, "parts_from_stock": true}}}).Want(201)
	reserved(t, c, part, "60")
	c.NewOrder(t, c.NewProduct(t, "Other", 1), 1)
	reserved(t, c, part, "61")
}

func TestAvailability(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	wing := c.Post(t, products, j{"name": "Wing", "materials": []j{
		{"material_type": "PLA", "color": "red", "weight_grams": 2.5},
		{"material_type": "PETG", "color": "Clear", "weight_grams": 1, "is_required": false}}}).Want(201).ID()
	head := c.Post(t, products, j{"name": "Head", "components": []j{{"component_product_id": wing, "quantity": 3}},
		"materials": []j{{"material_type": "TPU", "color": "Black", "weight_grams": 4}}}).Want(201).ID()
	dragon := c.Post(t, products, j{"name": "Dragon", "materials": []j{
		{"material_type": "PLA", "color": "Red", "weight_grams": 10}},
		"components": []j{{"component_product_id": wing, "quantity": 2},
			{"component_product_id": head}}}).Want(201).ID()
	available := func(path string) *testkit.Response { return c.Get(t, path).Want(200) }
	empty := c.Post(t, products, j{"name": "Empty"}).Want(201).ID()
	available(products + "/" + empty +
		"/availability").Shows(map[string]string{"can_print": "true", "material_count": "0",
		"quantity": "1"})

	// 22.5 g of PLA Red, 4 g of TPU Black a piece.
	available(products + "/" + dragon + "/availability?quantity=4").Shows(map[string]string{"can_print": "false",
		"product_id": dragon, "product_name": "Dragon", "quantity": "4", "material_count": "2",
		"materials.0.material_type": "PLA", "materials.0.needed_grams": "90", "materials.0.remaining_grams": "0",
		"materials.0.reserved_grams": "0", "materials.0.available_grams": "0", "materials.0.missing_grams": "90",
		"materials.1.material_type": "TPU", "materials.1.color": "Black", "materials.1.needed_grams": "16"})
	var red []string
	for _, grams := range []float64{100, 90, 89.999999, 500} {
		red = append(red, c.NewSpool(t, grams, j{"color": "RED", "location": "Shelf"}))
	}
	c.NewSpool(t, 1000, j{"color": "Red", "archived": true})
	c.Delete(t, "/api/v1/spools/"+c.NewSpool(t, 1000, j{"color": "Red"})).Want(204)
	c.NewSpool(t, 1000, j{"color": "Red", "material_type": "PETG"})
	c.NewSpool(t, 15, j{"color": "Black", "material_type": "TPU"})
	answer := available(products + "/" + dragon + "/availability?quantity=4")
	answer.Shows(map[string]string{"can_print": "false", "materials.0.material_type": "TPU",
		"materials.0.missing_grams": "1", "materials.1.remaining_grams": "779.999999",
		"materials.1.available_grams": "779.999999", "materials.1.missing_grams": "0",
		"materials.1.spools.0.id": red[1], "materials.1.spools.1.id": red[0],
		"materials.1.spools.2.id": red[3], "materials.1.spools.0.location": "Shelf",
		"materials.1.spools.0.remaining_weight_grams": "90", "materials.1.spools.0.name": "PLA RED"})
	answer.WantLen(t, "materials.0.spools", 0)
	answer.WantLen(t, "materials.1.spools", 3)
	c.NewSpool(t, 1, j{"color": "Black", "material_type": "TPU"})
	available(products + "/" + dragon + "/availability?quantity=4").Shows(map[string]string{"can_print": "true"})

	// The order's own reservation does not count against it; its runs and other orders do.
	order, item := c.NewOrder(t, dragon, 4)
	answer = available(order + "/availability").Shows(map[string]string{"order_id": order[len(path)+1:],
		"status": "received", "can_print": "true", "materials.0.needed_grams": "90", "materials.0.reserved_grams": "0",
		"materials.0.available_grams": "779.999999", "materials.1.needed_grams": "16",
		"materials.1.missing_grams": "0"})
	answer.WantLen(t, "materials.1.spools", 0)
	available(products + "/" + dragon + "/availability").Shows(map[string]string{"can_print": "false",
		"materials.0.material_type": "TPU", "materials.0.reserved_grams": "16", "materials.0.available_grams": "0",
		"materials.0.missing_grams": "4", "materials.1.reserved_grams": "90"})
	other, _ := c.NewOrder(t, head, 1)
	available(order + "/availability").Shows(map[string]string{"can_print": "false",
		"materials.0.material_type":  "TPU",
		"materials.0.reserved_grams": "4", "materials.0.available_grams": "12", "materials.0.missing_grams": "4",
		"materials.1.reserved_grams": "7.5"})
	c.Patch(t, other, j{"status": "cancelled"}).Want(200)
	run := c.NewRun(t, dragon, item, 3, nil)
	available(order + "/availability").Shows(map[string]string{"can_print": "true", "materials.0.needed_grams": "22.5",
		"materials.0.reserved_grams": "67.5", "materials.1.needed_grams": "4", "materials.1.reserved_grams": "12",
		"materials.1.available_grams": "4"})
	c.Patch(t, run+"/items/"+c.Get(t, run).Want(200).Text("items.0.id"), j{"quantity": 4}).Want(200)
	answer = available(order + "/availability").Shows(map[string]string{"can_print": "true", "material_count": "2",
		"materials.0.needed_grams": "0", "materials.0.reserved_grams": "90"})
	answer.WantLen(t, "materials.0.spools", 0)
	// Its runs cannot be printed from what is left.
	c.Post(t, "/api/v1/spools/"+red[3]+"/deduct", j{"weight_grams": 500}).Want(200)
	c.Post(t, "/api/v1/spools/"+red[0]+"/deduct", j{"weight_grams": 100}).Want(200)
	c.Post(t, "/api/v1/spools/"+red[1]+"/deduct", j{"weight_grams": 90}).Want(200)
	available(order + "/availability").Shows(map[string]string{"can_print": "false",
		"materials.0.available_grams": "-0.000001", "materials.0.missing_grams": "0.000001"})
	c.Patch(t, run, j{"status": "completed"}).Want(200)
	available(order + "/availability").Shows(map[string]string{"can_print": "true", "status": "in_production",
		"material_count": "0"})
}

// A product that many paths of components lead to is read once, and no number is too large for a client.
func TestAvailabilityOfDeepTree(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	below := []string{c.NewProduct(t, "left", 1000), c.NewProduct(t, "right", 1000)}
	for level := range 50 {
		quantity := 1_000_000
		if level < 2 {
			quantity = 2
		}
		components := []j{{"component_product_id": below[0], "quantity": quantity},
			{"component_product_id": below[1], "quantity": quantity}}
		for i := range below {
			below[i] = c.Post(t, products,
				j{"name": fmt.Sprint(level, " ", i), "components": components}).Want(201).ID()
		}
		if level == 1 {
			c.Get(t, products+"/"+below[0]+"/availability?quantity=3").Want(200).
				Shows(map[string]string{"materials.0.needed_grams": "48000", "material_count": "1"})
		}
	}
	c.NewSpool(t, 1000, nil)
	c.NewOrder(t, below[0], 1_000_000)
	c.Get(t, products+"/"+below[1]+"/availability?quantity=1000000").Want(200).
		Shows(map[string]string{"materials.0.needed_grams": "999999999", "materials.0.reserved_grams": "999999999",
			"materials.0.available_grams": "-999999999", "materials.0.missing_grams": "999999999",
			"can_print": "false"})
}

// The lists of the response have a maximum length, and the verdict is about all materials.
func TestAvailabilityIsBounded(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	var components []j
	for part := range 2 {
		materials := make([]j, 300)
		for i := range materials {
			materials[i] = j{"material_type": "PLA", "color": fmt.Sprint("Color ", part, " ", i), "weight_grams": 1}
		}
		components = append(components, j{"component_product_id": c.Post(t, products,
			j{"name": "Part", "materials": materials}).Want(201).ID()})
	}
	product := c.Post(t, products, j{"name": "Rainbow", "components": components, "materials": []j{
		{"material_type": "ABS", "color": "Black", "weight_grams": 1}}}).Want(201).ID()
	c.Post(t, "/api/v1/spools/batch", j{"material_type": "ABS", "color": "black", "diameter_mm": 1.75,
		"net_weight_grams": 5, "quantity": 11}).Want(201)
	answer := c.Get(t, products+"/"+product+"/availability").Want(200).Shows(map[string]string{"can_print": "false",
		"material_count": "601", "materials.0.material_type": "PLA"})
	answer.WantLen(t, "materials", 500)
	part := c.Post(t, products, j{"name": "Part", "materials": []j{
		{"material_type": "ABS", "color": "Black", "weight_grams": 1}}}).Want(201).ID()
	answer = c.Get(t, products+"/"+part+"/availability").Want(200).Shows(map[string]string{"can_print": "true"})
	answer.WantLen(t, "materials.0.spools", 10)
}

// The open orders that are due first say what the availability of each of them does.
func TestOpenOrders(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c, foreign := api.Operator(t), api.Operator(t)
	c.Get(t, path+"/availability").Want(200).Shows(map[string]string{"items": "[]"})
	foreign.NewOrder(t, foreign.NewProduct(t, "A", 10), 100)
	product := c.NewProduct(t, "A", 10)
	c.NewSpool(t, 150, nil)
	last, _ := c.NewOrder(t, product, 3)
	done, _ := c.NewOrder(t, product, 1)
	c.Post(t, done+"/cancel", nil).Want(200)
	due := func(date string, pieces int) string {
		return path + "/" + c.Post(t, path, j{"due_date": date,
			"items": []j{{"product_id": product, "quantity": pieces}}}).Want(201).ID()
	}
	second, first := due("2024-02-02", 11), due("2024-02-01", 4)
	empty := path + "/" + c.Post(t, path, j{"due_date": "2024-02-03"}).Want(201).ID()
	got := c.Get(t, path+"/availability").Want(200)
	for i, id := range []string{first, second, empty, last} {
		one := c.Get(t, id+"/availability").Want(200)
		missing := "0"
		if id != empty {
			missing = one.Text("materials.0.missing_grams")
		}
		at := fmt.Sprintf("items.%d.", i)
		got.Shows(map[string]string{at + "order_id": one.Text("order_id"), at + "status": "received",
			at + "missing_grams": missing,
			at + "can_print":     one.Text("can_print")})
	}
	got.Shows(map[string]string{"items.1.can_print": "false", "items.1.missing_grams": "30", "items.2.can_print": "true",
		"items.3.can_print": "false"})
	c.Get(t, path+"/availability").WantLen(t, "items", 4)
	for range 10 {
		due("2024-01-01", 1)
	}
	c.Get(t, path+"/availability").Want(200).WantLen(t, "items", 10)
}
