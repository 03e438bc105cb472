package production_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// codes returns the codes of a list of steps or warnings, and their details.
func codes(a *testkit.Response, list string) (codes, details string) {
	var all, texts []string
	for i := range a.List(list) {
		all = append(all, a.Text(fmt.Sprintf("%s.%d.code", list, i)))
		texts = append(texts, a.Text(fmt.Sprintf("%s.%d.detail", list, i)))
	}
	return strings.Join(all, " "), strings.Join(texts, "; ")
}

// outdated is a farm with a planned run that can start at once: 2 lamps of 100 g for an order of 4, on a printer with
// the spool in it.
type outdated struct {
	t testing.TB
	*testkit.Client
	printer, spool, product, order, item, run string
}

func newOutdated(t *testing.T) *outdated {
	t.Helper()
	c := testkit.New(t, testkit.Options{}, testkit.Features...).Operator(t)
	o := &outdated{t: t, Client: c, spool: c.NewSpool(t, 900, nil), product: c.NewProduct(t, "LAMP", 100),
		printer: printersURL + "/" + c.Post(t, printersURL, j{"name": "MK4"}).Want(201).ID()}
	order := c.Post(t, "/api/v1/orders", j{"reference": "1001", "items": []j{{"product_id": o.product, "quantity": 4}}}).
		Want(201)
	o.order, o.item = "/api/v1/orders/"+order.ID(), order.Text("items.0.id")
	o.run = o.planned()
	c.Do(t, "PUT", o.printer+"/slots/1", j{"spool_id": o.spool}).Want(200)
	o.want(o.run, "")
	return o
}

// planned returns the path of another run like the first one.
func (o *outdated) planned() string {
	o.t.Helper()
	return o.NewRun(o.t, o.product, o.item, 2, j{"printer_id": o.printer[len(printersURL)+1:],
		"materials": []j{{"spool_id": o.spool, "estimated_weight_grams": 200}}})
}

// want reports an error unless the check of the run and the queue name the steps, and their details have the texts.
func (o *outdated) want(run, want string, texts ...string) {
	o.t.Helper()
	check := o.Get(o.t, run+"/check").Want(200)
	got, details := codes(check, "steps")
	if got != want || (check.Text("ready") == "true") != (want == "") {
		o.t.Errorf("check: %s, want %q", check.Body, want)
	}
	for _, text := range texts {
		if !strings.Contains(details, text) {
			o.t.Errorf("check does not say %q: %s", text, details)
		}
	}
	queue := o.Get(o.t, "/api/v1/queue").Want(200)
	for i := range queue.List("runs") {
		if at := fmt.Sprintf("runs.%d.", i); runs+"/"+queue.Text(at+"id") == run {
			if _, queued := codes(queue, at+"steps"); queued != details {
				o.t.Errorf("the queue says %q, the check %q", queued, details)
			}
		}
	}
}

// starts starts the run, and reports an error unless the response has the warnings.
func (o *outdated) starts(run, want string) {
	o.t.Helper()
	a := o.Post(o.t, run+"/start", nil).Want(200).Shows(map[string]string{"status": "in_progress"})
	if got, _ := codes(a, "warnings"); got != want {
		o.t.Errorf("start: %s, want %q", a.Body, want)
	}
}

// A check names what has happened to the order of a planned run, and start returns it.
func TestOutdatedOrder(t *testing.T) {
	t.Parallel()
	o := newOutdated(t)
	other := o.planned()
	item := o.order + "/items/" + o.item
	o.Patch(t, item, j{"quantity": 3}).Want(200)
	for _, run := range []string{o.run, other} {
		o.want(run, "ORDER_REDUCED", "Order 1001 needs 3 of Product LAMP, but its runs have made or will make 4")
	}
	o.Get(t, o.run+"/check").Shows(map[string]string{"steps.0.order_id": o.order[len("/api/v1/orders/"):],
		"steps.0.product_id": o.product, "steps.0.spool_id": "null"})
	o.Patch(t, item, j{"quantity": 4}).Want(200)
	o.want(o.run, "")
	o.Delete(t, other).Want(204)

	o.Patch(t, o.order, j{"status": "cancelled"}).Want(200)
	o.want(o.run, "ORDER_CANCELLED", "Order 1001 is cancelled")
	o.Patch(t, o.order, j{"status": "done"}).Want(200)
	o.want(o.run, "ORDER_REDUCED", "Order 1001 is done; it needs no more pieces of Product LAMP")
	o.Patch(t, o.order, j{"status": "received"}).Want(200)
	o.want(o.run, "")
	o.Delete(t, o.order).Want(204)
	o.want(o.run, "ORDER_CANCELLED", "Order 1001 was removed")
	o.starts(o.run, "ORDER_CANCELLED")
	o.starts(o.run, "ORDER_CANCELLED") // again
	o.Post(t, o.run+"/complete", j{"materials": []j{{"spool_id": o.spool, "actual_weight_grams": 200}}}).Want(200)
	o.want(o.run, "RUN_ENDED")
}

// Pieces that a run has made count, and an order that has delivered them all needs no more.
func TestOutdatedByPiecesMade(t *testing.T) {
	t.Parallel()
	o := newOutdated(t)
	done := o.planned()
	o.Post(t, done+"/complete", j{"materials": []j{{"spool_id": o.spool, "actual_weight_grams": 200}}}).Want(200)
	o.want(o.run, "")
	o.Patch(t, o.order+"/items/"+o.item, j{"quantity": 3}).Want(200)
	o.want(o.run, "ORDER_REDUCED", "needs 3 of")
	o.Patch(t, o.order+"/items/"+o.item, j{"quantity": 2}).Want(200)
	o.want(o.run, "ORDER_REDUCED", "needs 2 of")
	o.Post(t, o.order+"/deliver", nil).Want(200)
	o.want(o.run, "ORDER_REDUCED", "is done")
}

// A check compares the bill of materials with that from which a run was planned, through all components, and not with
// what the run takes.
func TestOutdatedBillOfMaterials(t *testing.T) {
	t.Parallel()
	o := newOutdated(t)
	lamp := "/api/v1/products/" + o.product
	material := lamp + "/materials/" + o.Get(t, lamp).Want(200).Text("materials.0.id")
	shade := o.NewProduct(t, "SHADE", 20)
	const changed = "BILL_OF_MATERIALS_CHANGED"

	o.Patch(t, material, j{"weight_grams": 120}).Want(200)
	o.want(o.run, changed, "The bill of materials of Product LAMP has changed", "120 g PLA Black instead of 100 g")
	o.Patch(t, material, j{"weight_grams": 100, "color": "BLACK", "notes": "matt"}).Want(200)
	o.want(o.run, "")
	o.Patch(t, material, j{"color": "Black"}).Want(200)
	white := lamp + "/materials/" + o.Post(t, lamp+"/materials", j{"material_type": "PETG", "color": "White",
		"weight_grams": 5.5}).Want(201).ID()
	o.want(o.run, changed, "also 5.5 g PETG White")
	o.Patch(t, white, j{"is_required": false}).Want(200)
	o.want(o.run, "")
	o.Patch(t, lamp, j{"selling_price": 9, "pieces_per_plate": 3, "name": "Lamp"}).Want(200)
	o.Post(t, lamp+"/recalculate", nil).Want(200)
	o.want(o.run, "")

	component := lamp + "/components/" + o.Post(t, lamp+"/components", j{"component_product_id": shade}).Want(201).ID()
	o.want(o.run, changed, "120 g PLA Black instead of 100 g", "also 1 × Product SHADE")
	later := o.planned()
	o.want(later, "")
	shades := "/api/v1/products/" + shade
	o.Patch(t, shades+"/materials/"+o.Get(t, shades).Want(200).Text("materials.0.id"), j{"weight_grams": 25}).Want(200)
	o.want(later, changed, "125 g PLA Black instead of 120 g")
	o.Delete(t, component).Want(204)
	o.want(later, changed, "100 g PLA Black instead of 120 g", "no longer 1 × Product SHADE")
	o.want(o.run, "")
	o.Delete(t, later).Want(204)

	// Own materials are no change, and who sets how much a run takes has seen the bill of materials.
	o.Patch(t, material, j{"weight_grams": 90}).Want(200)
	o.want(o.run, changed)
	own := o.Get(t, o.run).Want(200).Text("materials.0.id")
	other := o.NewSpool(t, 1000, nil)
	o.Patch(t, o.run+"/materials/"+own, j{"spool_id": other}).Want(200)
	o.want(o.run, changed+" LOAD_SPOOL")
	o.Patch(t, o.run+"/materials/"+own, j{"spool_id": o.spool, "estimated_weight_grams": 180}).Want(200)
	o.want(o.run, "")
	o.Patch(t, o.run+"/materials/"+own, j{"estimated_weight_grams": 250}).Want(200)
	o.want(o.run, "")
	o.Delete(t, o.run+"/materials/"+own).Want(204)
	o.Patch(t, material, j{"weight_grams": 80}).Want(200)
	o.want(o.run, changed+" NO_MATERIALS")
	o.Post(t, o.run+"/materials", j{"spool_id": o.spool, "estimated_weight_grams": 1}).Want(201)
	o.want(o.run, "")

	// An item with another product is planned from that one.
	item := o.run + "/items/" + o.Get(t, o.run).Want(200).Text("items.0.id")
	o.Patch(t, material, j{"weight_grams": 70}).Want(200)
	o.Patch(t, item, j{"quantity": 1, "product_id": o.product}).Want(200)
	o.want(o.run, changed)
	o.Patch(t, item, j{"order_item_id": nil, "sku": "SHADE"}).Want(200)
	o.want(o.run, "")
	o.Post(t, o.run+"/items", j{"product_id": o.product}).Want(201)
	o.Patch(t, material, j{"weight_grams": 60}).Want(200)
	o.want(o.run, changed, "60 g PLA Black instead of 70 g")
	o.Delete(t, lamp).Want(204)
	o.want(o.run, "PRODUCT_REMOVED "+changed)
	o.starts(o.run, "PRODUCT_REMOVED "+changed)
}

// A check names at most three differences of a bill of materials.
func TestOutdatedBillHasMuch(t *testing.T) {
	t.Parallel()
	o := newOutdated(t)
	for _, color := range []string{"Yellow", "Green", "Blue", "Red", "Grey"} {
		o.Post(t, "/api/v1/products/"+o.product+"/materials", j{"material_type": "PLA", "color": color,
			"weight_grams": 1}).Want(201)
	}
	o.want(o.run, "BILL_OF_MATERIALS_CHANGED", "also 1 g PLA Blue, also 1 g PLA Green, also 1 g PLA Grey, 2 more")
}

// What has changed about the printer and the spools is said before the start and with it, and does not prevent it.
func TestOutdatedPrinterAndSpools(t *testing.T) {
	t.Parallel()
	o := newOutdated(t)
	o.Patch(t, "/api/v1/spools/"+o.spool, j{"remaining_weight_grams": 199}).Want(200)
	o.want(o.run, "TOO_LITTLE_FILAMENT")
	o.Patch(t, o.printer, j{"materials": []string{"PETG"}}).Want(200)
	o.want(o.run, "MATERIAL_NOT_PRINTED TOO_LITTLE_FILAMENT")
	o.Patch(t, "/api/v1/spools/"+o.spool, j{"material_type": "ABS", "color": "White"}).Want(200)
	o.want(o.run, "SPOOL_CHANGED MATERIAL_NOT_PRINTED TOO_LITTLE_FILAMENT",
		"Spool 1 was PLA Black when it became a material of the run; now it is ABS White")
	o.Patch(t, o.printer, j{"materials": []string{}}).Want(200)
	own := o.run + "/materials/" + o.Get(t, o.run).Want(200).Text("materials.0.id")
	o.Patch(t, own, j{"spool_id": o.spool}).Want(200)
	o.want(o.run, "TOO_LITTLE_FILAMENT")
	o.Patch(t, "/api/v1/spools/"+o.spool, j{"color": "Red"}).Want(200)
	o.want(o.run, "SPOOL_CHANGED TOO_LITTLE_FILAMENT")
	o.Patch(t, own, j{"spool_number": 1}).Want(200)
	o.Patch(t, "/api/v1/spools/"+o.spool, j{"color": "RED", "brand": "Prusament"}).Want(200)
	o.want(o.run, "TOO_LITTLE_FILAMENT")
	o.Patch(t, "/api/v1/spools/"+o.spool, j{"diameter_mm": 2.85, "material_name": "ABS-CF"}).Want(200)
	o.want(o.run, "SPOOL_CHANGED MATERIAL_NOT_PRINTED TOO_LITTLE_FILAMENT",
		"now it is ABS-CF RED 2.85 mm", "MK4 prints 1.75 mm filament, but spool 1, ABS-CF RED (Prusament), has 2.85 mm")
	o.Patch(t, "/api/v1/spools/"+o.spool, j{"diameter_mm": 1.75, "material_name": nil}).Want(200)
	o.want(o.run, "TOO_LITTLE_FILAMENT")
	o.Do(t, "PUT", o.printer+"/slots/1", j{"spool_id": nil}).Want(200)
	o.Patch(t, o.printer, j{"status": "retired"}).Want(200)
	o.want(o.run, "PRINTER_NOT_AVAILABLE TOO_LITTLE_FILAMENT LOAD_SPOOL", "its status is retired")
	o.Patch(t, "/api/v1/spools/"+o.spool, j{"archived": true}).Want(200)
	o.want(o.run, "PRINTER_NOT_AVAILABLE SPOOL_REMOVED")
	o.starts(o.run, "PRINTER_NOT_AVAILABLE SPOOL_REMOVED")

	// The printer of a run was removed.
	removed := newOutdated(t)
	removed.Delete(t, removed.printer).Want(204)
	removed.want(removed.run, "PRINTER_NOT_AVAILABLE", "The printer was removed")

	// A run without anything starts, too.
	bare := runs + "/" + o.Post(t, runs, j{}).Want(201).ID()
	o.want(bare, "NO_PRINTER NO_MATERIALS")
	o.starts(bare, "NO_PRINTER NO_MATERIALS")
	o.starts(runs+"/"+o.Post(t, runs, j{"printer_name": "Elsewhere"}).Want(201).ID(), "NO_PRINTER NO_MATERIALS")
	o.starts(runs+"/"+o.Post(t, runs, j{"printer_name": "Elsewhere"}).Want(201).ID(), "NO_PRINTER NO_MATERIALS")
}

// A printer prints one run at a time. What a PATCH records is said, and not refused.
func TestBusyPrinter(t *testing.T) {
	t.Parallel()
	o := newOutdated(t)
	second, third := o.planned(), o.planned()
	o.Patch(t, o.order+"/items/"+o.item, j{"quantity": 6}).Want(200)
	o.starts(o.run, "")
	busy := func(run string) {
		t.Helper()
		before := o.Get(t, run).Want(200)
		o.want(run, "PRINTER_BUSY")
		o.Post(t, run+"/start", nil).WantError(409, "PRINTER_BUSY")
		testkit.Equal(t, string(o.Get(t, run).Want(200).Body), string(before.Body),
			"a refused start changes the run")
	}
	busy(second)
	o.starts(o.run, "") // it prints
	o.Patch(t, o.run, j{"status": "paused"}).Want(200)
	busy(second)
	o.starts(o.run, "")
	o.Patch(t, o.run, j{"status": "paused"}).Want(200)

	// Of two paused runs any can continue, and then the other one cannot.
	o.Patch(t, second, j{"status": "paused"}).Want(200)
	o.want(o.run, "")
	o.want(second, "")
	o.starts(second, "")
	busy(o.run)

	// On another printer, or after the end of the other run.
	o.Patch(t, o.run, j{"printer_id": nil}).Want(200)
	o.starts(o.run, "NO_PRINTER")
	busy(third)
	o.Delete(t, second).Want(204)
	o.starts(third, "")

	a := o.Patch(t, o.run, j{"printer_id": o.printer[len(printersURL)+1:]}).Want(200)
	a.Shows(map[string]string{"status": "in_progress", "warnings.0.code": "PRINTER_BUSY"})
	o.Get(t, third).Want(200).Shows(map[string]string{"warnings.0.code": "PRINTER_BUSY"})
	o.want(third, "PRINTER_BUSY", "Another run is also in progress on MK4")
	o.starts(third, "PRINTER_BUSY") // it prints
	o.Post(t, o.run+"/cancel", nil).Want(200)
	o.want(third, "")
	o.Post(t, runs, j{"printer_name": "mk4", "status": "in_progress"}).Want(201).
		Shows(map[string]string{"warnings.0.code": "PRINTER_BUSY"})
}

// Of several starts on one printer at the same time, one succeeds.
func TestStartsAtOnce(t *testing.T) {
	t.Parallel()
	o := newOutdated(t)
	first, second := o.planned(), o.planned()
	h := o.Hold(t, `select from production_runs where id = '`+o.run[len(runs)+1:]+`' for update`)
	var answers [3]*testkit.Response
	start := func(i int, run string) func() {
		return func() {
			var err error
			if answers[i], err = o.Send("POST", run+"/start", nil); err != nil {
				t.Errorf("start: %v", err)
			}
		}
	}
	h2 := o.Hold(t, `select from orders where id = '`+o.order[len("/api/v1/orders/"):]+`' for update`)
	one := h2.StartWaiting(1, start(0, first))    // waits for its order, as the printer's only run
	two := h.StartWaiting(1, start(1, o.run))     // waits for its run
	three := h2.StartWaiting(2, start(2, second)) // waits for the first one
	h2.Commit()
	<-one
	<-three
	h.Commit()
	<-two
	testkit.Equal(t, answers[0].Status, 200, "the first start: %s", answers[0].Body)
	for _, a := range answers[1:] {
		if a.Status != 409 || !strings.Contains(string(a.Body), "PRINTER_BUSY") {
			t.Errorf("a start beside another one: %d %s", a.Status, a.Body)
		}
	}
	var printing int
	for _, run := range []string{o.run, first, second} {
		if o.Get(t, run).Want(200).Text("status") == "in_progress" {
			printing++
		}
	}
	testkit.Equal(t, printing, 1, "runs in progress")
}
