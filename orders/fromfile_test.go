package orders_test

import (
	"os"
	"testing"

	"spoolwright/tests/testkit"
)

// A run of a file prints the item of an order with the product of the file that needs pieces.
func TestRunFromFileForOrder(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	sliced := func(path, file string) *testkit.Response {
		t.Helper()
		data, err := os.ReadFile("../catalog/slicer/testdata/" + file)
		testkit.Check(t, err)
		return c.With("Content-Type", "application/octet-stream").Post(t, path, string(data))
	}
	const slicedRun = "/api/v1/production-runs/from-file?filename=hook.gcode"
	other := c.NewProduct(t, "Other", 1)
	hook := sliced("/api/v1/products/from-file?filename=hook.gcode&name=Hook", "prusaslicer.gcode").Want(200).
		Text("product_id")
	order := c.Post(t, "/api/v1/orders", j{"reference": "A", "items": []j{{"product_id": other}, {"product_id": hook,
		"quantity": 3}, {"product_id": hook, "quantity": 5}}}).Want(201)
	for n := range 2 {
		path := slicedRun + "&order_id=" + order.ID()
		item := order.Text([]string{"items.1.id", "items.2.id"}[n])
		sliced(path+"&dry_run=true", "prusaslicer.gcode").Want(200).Shows(map[string]string{"order_item_id": item})
		run := sliced(path, "prusaslicer.gcode").Want(200).Shows(map[string]string{"order_item_id": item})
		c.Get(t, "/api/v1/production-runs"+"/"+run.Text("run_id")).Want(200).Shows(map[string]string{
			"items.0.product_id": hook, "items.0.quantity": "3", "items.0.order_item_id": item,
			"estimated_total_filament_grams": "11.97"})
	}

	// An item of a run that a file names prints that of an order only if it has the product of the file.
	run := "/api/v1/production-runs/" + c.Post(t, "/api/v1/production-runs", j{}).Want(201).ID()
	wanted := j{"file_name": "hook.gcode", "order_item_id": order.Text("items.2.id")}
	item := run + "/items/" + c.Post(t, run+"/items", wanted).Want(201).Shows(map[string]string{"product_id": hook}).ID()
	c.Patch(t, item, wanted).Want(200)
	c.Post(t, "/api/v1/production-runs", j{"items": []j{wanted}}).Want(201)
	wanted["order_item_id"] = order.Text("items.0.id")
	c.Post(t, run+"/items", wanted).Fields("order_item_id")
	c.Patch(t, item, wanted).Fields("order_item_id")
	c.Post(t, "/api/v1/production-runs", j{"items": []j{wanted}}).Fields("items[0].order_item_id")
	c.Patch(t, "/api/v1/products/"+other, j{"file_name": "other.gcode"}).Want(200)
	c.Patch(t, item, j{"file_name": "other.gcode"}).Fields("file_name")

	refused := func(order, file string) {
		t.Helper()
		sliced(slicedRun+"&order_id="+order, file).WantError(400, "UNKNOWN_REFERENCE").
			Shows(map[string]string{"errors.0.field": "order_id"})
	}
	none := c.Post(t, "/api/v1/orders", j{"reference": "B", "items": []j{{"product_id": other}}}).Want(201).ID()
	refused(none, "prusaslicer.gcode")
	refused(hook, "prusaslicer.gcode")
	c.Patch(t, "/api/v1/orders/"+order.ID(), j{"status": "cancelled"}).Want(200)
	refused(order.ID(), "prusaslicer.gcode")
	gone := c.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": hook}}}).Want(201).ID()
	c.Delete(t, "/api/v1/orders/"+gone).Want(204)
	refused(gone, "prusaslicer.gcode")
}
