package pieces_test

import (
	"testing"

	"spoolwright/db"
	"spoolwright/tests/testkit"
)

// newLamp creates a lamp that is printed around two clips and a base, and a completed run of four lamps that took
// these parts from stock.
func newLamp(t *testing.T, c *testkit.Client, clips, bases int) (lamp, clip, base, path, item string) {
	t.Helper()
	clip, base = c.NewProduct(t, "Clip", 5), c.NewProduct(t, "Base", 5)
	lamp = c.Post(t, products, j{"name": "Lamp",
		"materials": []j{{"material_type": "PLA", "color": "Black", "weight_grams": 10}},
		"components": []j{{"component_product_id": clip, "quantity": 2},
			{"component_product_id": base}}}).Want(201).ID()
	c.Post(t, products+"/"+clip+"/count", j{"counted": clips}).Want(200)
	c.Post(t, products+"/"+base+"/count", j{"counted": bases}).Want(200)
	a := c.Post(t, runs, j{"status": "in_progress", "items": []j{{"product_id": lamp, "quantity": 4,
		"parts_from_stock": true}}, "materials": []j{{"spool_id": c.NewSpool(t, 900, j{"purchase_price": 20}),
		"actual_weight_grams": 40}}}).Want(201)
	return lamp, clip, base, runs + "/" + a.ID(), a.Text("items.0.id")
}

// A run with parts_from_stock uses the components of its good pieces; later changes of the number follow.
func TestPartsFromStock(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	lamp, clip, base, path, item := newLamp(t, c, 10, 4)
	stock := func(lamps, clips, bases int) {
		t.Helper()
		onHand(t, c, lamp, lamps)
		onHand(t, c, clip, clips)
		onHand(t, c, base, bases)
	}
	reserved := func(clips string) {
		t.Helper()
		c.Get(t, products+"/"+clip).Want(200).Shows(map[string]string{"reserved": clips})
	}
	good := func(good, failed any) {
		t.Helper()
		c.Post(t, path+"/correct", j{"items": []j{{"id": item, "successful_quantity": good, "failed_quantity": failed}}}).
			Want(200)
	}
	stock(0, 10, 4)
	reserved("8")
	c.Post(t, path+"/complete", j{"items": []j{{"id": item, "failed_quantity": 1}}}).Want(200)
	stock(3, 4, 1)
	reserved("0")
	kinds(t, c, clip, "used -6", "counted 10")
	c.Get(t, products+"/"+clip+"/piece-entries").Shows(map[string]string{"items.0.run_id": path[len(runs)+1:],
		"items.0.run_item_id": item})
	good(3, 1) // nothing changes
	kinds(t, c, clip, "used -6", "counted 10")
	good(4, 0)
	stock(4, 2, 0)
	good(1, 3)
	stock(1, 8, 3)
	good(0, 4)
	stock(0, 10, 4)
	good(2, 2)
	stock(2, 6, 2)
	kinds(t, c, lamp, "corrected 2", "corrected -1", "corrected -3", "corrected 1", "produced 3")
	used := entries + "/" + c.Get(t, products+"/"+clip+"/piece-entries").Text("items.0.id") + "/reverse"
	c.Post(t, used, nil).WantError(409, "ENTRY_OF_RUN")

	// The used parts of a product that has other components now change in proportion.
	components := c.Get(t, products+"/"+lamp).Want(200)
	c.Patch(t, products+"/"+lamp+"/components/"+components.Text("components.0.id"), j{"quantity": 3}).Want(200)
	c.Delete(t, products+"/"+lamp+"/components/"+components.Text("components.1.id")).Want(204)
	good(4, 0)
	stock(4, 2, 0)
	good(1, 3)
	stock(1, 8, 3)

	// A run that is open again has used nothing. When it is completed again, it uses what the product has now.
	c.Post(t, path+"/reopen", nil).Want(200)
	stock(0, 10, 4)
	reserved("10") // and two are missing
	c.Patch(t, path+"/items/"+item, j{"successful_quantity": nil, "failed_quantity": nil}).Want(200)
	c.Post(t, path+"/complete", nil).Want(200)
	stock(4, -2, 4) // more than were recorded
	kinds(t, c, clip, "used -12", "used 2")
	c.Get(t, products+"/"+clip).Shows(map[string]string{"on_hand": "-2", "piece_value": "0", "piece_cost": "null"})
	c.Post(t, products+"/"+clip+"/scrap", j{"quantity": 1}).WantError(409, "NOT_ENOUGH_PIECES")
	good(3, 1)
	stock(3, 1, 4)
	c.Post(t, path+"/reopen", nil).Want(200)
	c.Post(t, path+"/fail", j{"reason": "clog"}).Want(200)
	stock(0, 10, 4)
}

// A deleted run and one without deduction, and a run whose item prints another product then.
func TestPartsOfChangedRuns(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	lamp, clip, base, path, item := newLamp(t, c, 10, 10)
	c.Post(t, path+"/complete", nil).Want(200)
	onHand(t, c, clip, 2)
	done := c.Post(t, runs, j{"status": "completed", "items": []j{{"product_id": lamp, "quantity": 1,
		"parts_from_stock": true}, {"product_id": lamp, "quantity": 1}}}).Want(201).ID()
	onHand(t, c, lamp, 6)
	onHand(t, c, clip, 0)
	onHand(t, c, base, 5)
	c.Delete(t, runs+"/"+done).Want(204)
	onHand(t, c, lamp, 4)
	onHand(t, c, clip, 2)
	onHand(t, c, base, 6)

	// A lamp of another kind has one base and no clip.
	other := c.Post(t, products, j{"name": "Other", "components": []j{{"component_product_id": base}}}).Want(201).ID()
	c.Patch(t, path+"/items/"+item, j{"product_id": other}).Want(200)
	onHand(t, c, lamp, 0)
	onHand(t, c, other, 4)
	onHand(t, c, clip, 10)
	onHand(t, c, base, 6)
	c.Delete(t, path).Want(204) // a removed run has used its filament and its parts
	onHand(t, c, base, 6)
}

// A run that has ended says that it took its components from stock, and then that it did not.
func TestPartsFromStockAfterTheEnd(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	lamp, clip, _, path, item := newLamp(t, c, 10, 10)
	c.Patch(t, path+"/items/"+item, j{"parts_from_stock": false}).Want(200)
	c.Post(t, path+"/complete", nil).Want(200)
	for _, takes := range []bool{false, true, true, false, true} {
		c.Patch(t, path+"/items/"+item, j{"parts_from_stock": takes}).Want(200)
		onHand(t, c, lamp, 4)
		onHand(t, c, clip, map[bool]int{false: 10, true: 2}[takes])
	}
	kinds(t, c, clip, "used -8", "used 8", "used -8", "counted 10")
}

// Printed pieces cost what their parts cost, too.
func TestCostOfPartsFromStock(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	testkit.Check(t, c.API.DB.Write(db.As(t.Context(), c.Actor), db.SQL(`
		update tenants set machine_hour_cost = 0, energy_kwh_cost = 0, labour_hour_cost = 0`)))
	lamp, clip, base, path, item := newLamp(t, c, 0, 0)
	for product, price := range map[string]int{clip: 25, base: 50} { // ten pieces for 1 and for 2
		a := c.Post(t, runs, j{"status": "in_progress", "items": []j{{"product_id": product, "quantity": 10}},
			"materials": []j{{"spool_id": c.NewSpool(t, 1000, j{"purchase_price": price}), "actual_weight_grams": 40}}})
		c.Post(t, runs+"/"+a.ID()+"/complete", nil).Want(200)
	}
	costs := func(product, onHand, cost, value string) {
		t.Helper()
		c.Get(t, products+"/"+product).Want(200).Shows(map[string]string{"on_hand": onHand, "piece_cost": cost,
			"piece_value": value})
	}
	costs(clip, "10", "0.1", "1")
	c.Post(t, path+"/complete", nil).Want(200) // filament for 0.8, eight clips for 0.8, four bases for 0.8
	costs(lamp, "4", "0.6", "2.4")
	costs(clip, "2", "0.1", "0.2")
	costs(base, "6", "0.2", "1.2")
	c.Post(t, path+"/correct", j{"items": []j{{"id": item, "successful_quantity": 2, "failed_quantity": 2}}}).Want(200)
	costs(lamp, "2", "0.8", "1.6") // the filament of four, the parts of two
	costs(clip, "6", "0.1", "0.6")
	c.Post(t, path+"/reopen", nil).Want(200)
	costs(lamp, "0", "null", "0")
	costs(clip, "10", "0.1", "1")
	costs(base, "10", "0.2", "2")
}

// If a run has used more parts than were in stock, those with a known cost come back with it.
func TestCostOfMissingParts(t *testing.T) {
	t.Parallel()
	_, c, spool := newCostFarm(t)
	clip := c.NewProduct(t, "Clip", 5)
	lamp := c.Post(t, products, j{"name": "Lamp",
		"materials":  []j{{"material_type": "PLA", "color": "Black", "weight_grams": 10}},
		"components": []j{{"component_product_id": clip, "quantity": 2}}}).Want(201).ID()
	costs := func(onHand, value string) {
		t.Helper()
		c.Get(t, products+"/"+clip).Want(200).Shows(map[string]string{"on_hand": onHand, "piece_value": value})
	}
	printed(t, c, spool, clip, nil, 3, 15) // for 0.3
	a := c.Post(t, runs, j{"status": "in_progress", "items": []j{{"product_id": lamp, "quantity": 3,
		"parts_from_stock": true}}, "materials": []j{{"spool_id": spool, "actual_weight_grams": 30}}}).Want(201)
	run := runs + "/" + a.ID()
	good := func(good int) {
		t.Helper()
		c.Post(t, run+"/correct", j{"items": []j{{"id": a.Text("items.0.id"), "successful_quantity": good,
			"failed_quantity": 3 - good}}}).Want(200)
	}
	c.Post(t, run+"/complete", nil).Want(200)
	costs("-3", "0")
	c.Post(t, run+"/reopen", nil).Want(200)
	costs("3", "0.3")
	c.Get(t, margins).Want(200).Shows(map[string]string{"cost": "0"})
	c.Post(t, run+"/complete", nil).Want(200)
	costs("-3", "0")
	good(1) // four of the six clips come back, three of which were missing
	costs("1", "0.1")
	good(2)
	costs("-1", "0")
	good(0)
	costs("3", "0.3")
	good(3)
	c.Post(t, products+"/"+clip+"/count", j{"counted": 0}).Want(200)
	good(0) // the count has not found six clips
	costs("0", "0")
	c.Get(t, margins).Want(200).Shows(map[string]string{"cost": "0.9"})
}
