package planning_test

import (
	"fmt"
	"os"
	"testing"

	"spoolwright/tests/testkit"
)

// An order of a product on two plates in two colors: printers with one slot print the plates, runs of them are for the
// order's item, and the delivery takes the plates, which nobody assembles. What is left of a plate is for the next
// order.
func TestPlatesArePlannedAndDelivered(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t).Tenant(t)
	f := farm{tenant.User(t, "operator"), t}
	tenant.User(t, "admin").Patch(t, "/api/v1/settings", j{"assemble_on_delivery": false}).Want(200)
	f.printer(j{"name": "A", "slots": 1})
	f.printer(j{"name": "B", "slots": 1})
	f.spool("Black", 1000, 1000)
	f.spool("Red", 1000, 1000)
	made := f.Post(t, "/api/v1/products", j{"name": "Dragon", "plates": []j{
		{"name": "Body", "estimated_print_time_minutes": 240, "materials": []j{
			{"material_type": "PLA", "color": "Black", "weight_grams": 60}}},
		{"name": "Wings", "pieces_per_plate": 3, "quantity": 2, "estimated_print_time_minutes": 30, "materials": []j{
			{"material_type": "PLA", "color": "Red", "weight_grams": 10}}}}}).Want(201)
	dragon, body, wings := made.ID(), made.Text("plates.0.id"), made.Text("plates.1.id")
	onHand := func(dragons, bodies, sets int) {
		t.Helper()
		for id, n := range map[string]int{dragon: dragons, body: bodies, wings: sets} {
			testkit.Equal(t, f.Get(t, "/api/v1/products/"+id).Text("on_hand"), fmt.Sprint(n), "pieces of %s", id)
		}
	}
	f.Get(t, "/api/v1/products/"+dragon+"/availability?quantity=2").Shows(map[string]string{"can_print": "true",
		"materials.0.needed_grams": "120", "materials.1.needed_grams": "40"})

	// Together, the two colors need a printer with two slots; plates do not.
	both := f.Post(t, "/api/v1/products", j{"name": "Both", "materials": []j{
		{"material_type": "PLA", "color": "Black", "weight_grams": 60},
		{"material_type": "PLA", "color": "Red", "weight_grams": 10}}}).Want(201).ID()
	f.Post(t, planURL, j{"items": []j{{"product_id": both}}}).Want(200).Shows(map[string]string{
		"unplanned.0.reason": "NO_PRINTER"})
	order := f.order(dragon, 1)
	plan := f.Post(t, order+"/plan", j{"create": true}).Want(200)
	plan.Shows(map[string]string{"runs.#": "2", "unplanned.#": "0", "to_assemble.#": "0", "runs.0.product_id": body,
		"runs.0.quantity": "1", "runs.1.product_id": wings, "runs.1.quantity": "2", "runs.1.printer_name": "B",
		"runs.1.order_item_id": plan.Text("runs.0.order_item_id")})
	f.Post(t, order+"/plan", nil).Want(200).Shows(map[string]string{"runs.#": "0"})

	// The run of the wings prints a third one, which is left for the next order.
	run := runsURL + "/" + plan.Text("runs.1.id")
	item := f.Get(t, run).Text("items.0.id")
	f.Patch(t, run+"/items/"+item, j{"quantity": 3}).Want(200)
	for i := range 2 {
		id := runsURL + "/" + plan.Text(fmt.Sprintf("runs.%d.id", i))
		f.Post(t, id+"/start", nil).Want(200)
		material := f.Get(t, id).Text("materials.0.id")
		f.Patch(t, id+"/materials/"+material, j{"actual_weight_grams": 60 - 30*i}).Want(200)
		f.Post(t, id+"/complete", nil).Want(200)
	}
	onHand(0, 1, 3)
	f.Post(t, order+"/deliver", nil).Want(200).Shows(map[string]string{"status": "done", "warnings.#": "0"})
	onHand(0, 0, 1)
	f.Get(t, "/api/v1/products/"+dragon+"/piece-entries").Shows(map[string]string{"items.0.kind": "delivered",
		"items.0.shortfall": "0", "items.1.kind": "assembled", "items.1.pieces": "1"})

	// Within a kit, too: the next order needs one piece of the wings only, and a delivery that assembles the kit takes
	// the plates of the dragon.
	kit := f.Post(t, "/api/v1/products", j{"name": "Box", "components": []j{{"component_product_id": dragon}}}).
		Want(201).ID()
	next := f.order(kit, 1)
	f.Post(t, next+"/plan", nil).Want(200).Shows(map[string]string{"runs.#": "2", "runs.0.quantity": "1",
		"runs.1.product_id": wings, "runs.1.quantity": "1", "from_stock.0.product_id": wings, "to_assemble.#": "1",
		"to_assemble.0.product_id": kit})
	f.Post(t, "/api/v1/products/"+body+"/count", j{"counted": 2}).Want(200)
	f.Post(t, "/api/v1/products/"+wings+"/count", j{"counted": 5}).Want(200)
	f.Post(t, "/api/v1/products/"+kit+"/assemble", j{"quantity": 3}).WantError(409, "NOT_ENOUGH_PIECES")
	onHand(0, 2, 5)
	f.Post(t, "/api/v1/products/"+kit+"/assemble", j{"quantity": 1}).Want(200)
	onHand(0, 1, 3)
	f.Post(t, "/api/v1/products/"+kit+"/scrap", j{"quantity": 1}).Want(200)
	f.Post(t, next+"/deliver", j{"assemble": true}).Want(200).Shows(map[string]string{"warnings.#": "0"})
	onHand(0, 0, 1)
	last := f.order(dragon, 1)
	f.Post(t, last+"/deliver", nil).Want(200).Shows(map[string]string{"warnings.0.pieces": "1"})
	onHand(0, 0, 1)
}

// An order is ready when all plates are in stock, although the farm assembles nothing on delivery.
func TestOrderIsReadyWithPlates(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t).Tenant(t)
	f := farm{tenant.User(t, "operator"), t}
	tenant.User(t, "admin").Patch(t, "/api/v1/settings", j{"assemble_on_delivery": false}).Want(200)
	made := f.Post(t, "/api/v1/products", j{"name": "Dragon", "plates": []j{{}, {"quantity": 2}}}).Want(201)
	order := f.order(made.ID(), 2)
	f.Post(t, "/api/v1/products/"+made.Text("plates.0.id")+"/count", j{"counted": 2}).Want(200)
	f.Post(t, "/api/v1/products/"+made.Text("plates.1.id")+"/count", j{"counted": 4}).Want(200)
	f.CheckLevels(t)
	if f.Get(t, order).Text("ready_at") == "null" {
		t.Error("the order is not ready with all plates")
	}
	f.Post(t, "/api/v1/products/"+made.Text("plates.1.id")+"/scrap", j{"quantity": 1}).Want(200)
	f.CheckLevels(t)
	testkit.Equal(t, f.Get(t, order).Text("ready_at"), "null", "ready_at without a plate")
}

// A run of a file prints the product with all its plates, or one plate of it, also for an order of the product.
func TestRunOfPlateFromFile(t *testing.T) {
	t.Parallel()
	f := farm{newAPI(t).Operator(t), t}
	data, err := os.ReadFile("../../catalog/slicer/testdata/bambu.gcode.3mf")
	testkit.Check(t, err)
	file := f.With("Content-Type", "application/octet-stream")
	made := file.Post(t, "/api/v1/products/from-file?filename=clips.gcode.3mf&pieces=2", string(data)).Want(200)
	product := made.Text("product_id")
	plates := f.Get(t, "/api/v1/products/"+product).Want(200)
	order := f.order(product, 5)
	item := f.Get(t, order).Text("items.0.id")
	const path = runsURL + "/from-file?filename=clips.gcode.3mf"
	file.Post(t, path, string(data)).Want(200).Shows(map[string]string{"product_id": product, "quantity": "2",
		"estimated_print_time_hours": "0.831666"})
	for i, number := range []string{"1", "2"} {
		run := file.Post(t, path+"&plate="+number+"&order_id="+order[len(ordersURL)+1:], string(data)).Want(200)
		run.Shows(map[string]string{"product_id": plates.Text(fmt.Sprintf("plates.%d.id", i)), "quantity": "2",
			"order_item_id": item})
		f.Get(t, runsURL+"/"+run.Text("run_id")).Shows(map[string]string{"items.#": "1", "items.0.order_item_id": item})
	}
	file.Post(t, path+"&plate=2&pieces=1&dry_run=true", string(data)).Want(200).Shows(map[string]string{"quantity": "1"})
	file.Post(t, path+"&plate=3", string(data)).WantError(400, "UNKNOWN_REFERENCE")
	// Without the plate, the run prints the product, as it does without plates.
	f.Patch(t, "/api/v1/products/"+product, j{"plates": []j{{"id": plates.Text("plates.0.id")}}}).Want(200)
	file.Post(t, path+"&plate=2&dry_run=true", string(data)).Want(200).Shows(map[string]string{"product_id": product})
}
