package planning_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"spoolwright/tests/testkit"
)

// runsOf returns the runs of a plan, to change them and send them again.
func runsOf(t *testing.T, plan *testkit.Response) []j {
	t.Helper()
	var body struct{ Runs []j }
	testkit.Check(t, json.Unmarshal(plan.Want(200).Body, &body))
	return body.Runs
}

// The runs of a plan are created as a person has changed them: printers, spools, pieces and their order.
func TestPlanByHand(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	f := farm{api.Operator(t), t}
	first, second := f.printer(j{"name": "A"}), f.printer(j{"name": "B"})
	small, large := f.spool("Black", 250, 1000), f.spool("Black", 1000, 1000)
	order := f.order(f.product("Black", 100, 120, 2), 5)
	plan := f.Post(t, order+"/plan", nil)
	runs := runsOf(t, plan)
	again := f.Post(t, order+"/plan", j{"runs": runs}).Want(200)
	again.Shows(map[string]string{"created": "false", "unplanned": "[]"})
	testkit.Equal(t, len(runsOf(t, again)), 3, "runs of the plan as it is")
	f.Get(t, runsURL).Want(200).Shows(map[string]string{"total": "0"})

	runs[0]["printer_id"] = second
	runs[0]["materials"] = []j{{"spool_id": large}}
	runs[1]["quantity"] = 1
	delete(runs[1], "printer_id")
	delete(runs[1], "materials")
	created := f.Post(t, order+"/plan", j{"create": true, "runs": []j{runs[1], runs[0]}}).Want(200)
	created.Shows(map[string]string{"created": "true", "finished_at": "null", "missing": "[]", "runs.#": "2",
		"runs.0.quantity": "1", "runs.0.printer_id": first, "runs.0.materials.0.spool_id": small,
		"runs.0.materials.0.grams": "100", "runs.0.estimated_print_time_hours": "2", "runs.1.quantity": "2",
		"runs.1.printer_id": second, "runs.1.materials.0.spool_id": large, "unplanned.0.quantity": "2",
		"unplanned.0.reason": "LEFT_OUT"})
	f.Get(t, runsURL+"/"+created.Text("runs.1.id")).Want(200).Shows(map[string]string{"printer_name": "B",
		"items.0.quantity": "2", "materials.0.spool_id": large, "materials.0.estimated_weight_grams": "200"})
	f.Get(t, order).Want(200).Shows(map[string]string{"items.0.planned": "3"})
	f.Post(t, order+"/plan", nil).Want(200).Shows(map[string]string{"runs.#": "1", "runs.0.quantity": "2"})
}

// A run that breaks a rule of plans is a 422 that names the field, and no run is created. Things of others are
// unknown.
func TestPlanByHandRefused(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	f, other := farm{api.Operator(t), t}, farm{api.Operator(t), t}
	one, abs := f.printer(j{"name": "A"}), f.printer(j{"name": "B", "materials": []string{"ABS"}})
	retired := f.printer(j{"name": "C", "status": "maintenance"})
	black, red, little := f.spool("Black", 1000, 1000), f.spool("Red", 1000, 1000), f.spool("Black", 50, 1000)
	product := f.product("Black", 100, 120, 2)
	order := f.order(product, 3)
	item := f.Get(t, order).Want(200).Text("items.0.id")
	foreign := other.Get(t, other.order(other.product("Black", 1, 1, 1), 1)).Want(200).Text("items.0.id")
	good := func() j {
		return j{"order_item_id": item, "product_id": product, "printer_id": one, "quantity": 1,
			"materials": []j{{"spool_id": black}}}
	}
	for i, test := range []struct {
		change j
		field  string
	}{
		{j{"printer_id": abs}, "printer_id"},
		{j{"printer_id": retired}, "printer_id"},
		{j{"printer_id": other.printer(j{"name": "X"})}, "printer_id"},
		{j{"quantity": 0}, "quantity"},
		{j{"quantity": 3}, "quantity"}, // more than fit on a plate
		{j{"quantity": nil}, "quantity"},
		{j{"order_item_id": foreign}, "order_item_id"},
		{j{"order_item_id": nil}, "product_id"},
		{j{"product_id": f.product("Black", 1, 1, 1)}, "order_item_id"},
		{j{"materials": []j{{"spool_id": red}}}, "materials[0].spool_id"},
		{j{"materials": []j{{"spool_id": black}, {"spool_id": other.spool("Black", 9, 10)}}}, "materials[1].spool_id"},
		{j{"materials": []j{{"spool_id": little}}}, "materials[0].spool_id"},
		{j{"materials": []j{{}}}, "materials[0].spool_id"},
		{j{"colour": "Red"}, "colour"},
	} {
		bad := good()
		for name, v := range test.change {
			bad[name] = v
		}
		a := f.Post(t, order+"/plan", j{"create": true, "runs": []j{good(), bad}})
		if field := fmt.Sprintf("runs[1].%s", test.field); a.Status != 422 || a.Text("errors.0.field") != field {
			t.Errorf("%d: %d %s, want a 422 for %s", i, a.Status, a.Body, field)
		}
	}
	full := good()
	full["quantity"] = 2
	for _, runs := range [][]j{{full, full}, {full, good(), good()}} { // together more than are missing
		last := fmt.Sprintf("runs[%d].quantity", len(runs)-1)
		f.Post(t, order+"/plan", j{"runs": runs}).WantError(422, "VALIDATION_ERROR").
			Shows(map[string]string{"errors.0.field": last})
	}
	// Other orders reserve filament also of a spool that a person chooses.
	f.order(product, 6)
	for _, body := range []j{{"runs": []j{}}, {"runs": make([]j, 501)}} {
		f.Post(t, order+"/plan", body).WantError(422, "VALIDATION_ERROR").
			Shows(map[string]string{"errors.0.field": "runs"})
	}
	rest := good()
	rest["order_item_id"], rest["quantity"] = nil, 2
	f.Post(t, planURL, j{"items": []j{{"product_id": product, "quantity": 2}}, "runs": []j{rest}}).
		WantError(422, "VALIDATION_ERROR").Shows(map[string]string{"errors.0.field": "runs[0].materials[0].spool_id"})
	many, fine := []j{}, f.product("Red", 0.0001, 1, nil) // more pieces than a run can have
	for range 2 {
		many = append(many, j{"product_id": fine, "quantity": 1_000_000})
	}
	f.Post(t, planURL, j{"create": true, "items": many, "runs": []j{{"product_id": fine, "quantity": 1_000_001}}}).
		WantError(422, "VALIDATION_ERROR").Shows(map[string]string{"errors.0.field": "runs[0].quantity"})
	f.Get(t, runsURL).Want(200).Shows(map[string]string{"total": "0"})
	f.Post(t, order+"/plan", j{"create": true, "runs": []j{full, good()}}).Want(200).Shows(map[string]string{
		"unplanned": "[]", "runs.#": "2"})
}

// A product without pieces_per_plate may have several pieces on a plate, and a plate may take several spools.
func TestPlanByHandOfSeveral(t *testing.T) {
	t.Parallel()
	f := farm{newAPI(t).Operator(t), t}
	f.printer(j{"name": "A"})
	one, two := f.spool("Black", 60, 1000), f.spool("Black", 500, 1000)
	product := f.product("Black", 40, 60, nil)
	run := j{"product_id": product, "quantity": 4,
		"materials": []j{{"spool_id": one}, {"spool_id": two}, {"spool_id": one}}}
	items := []j{{"product_id": product, "quantity": 3}, {"product_id": product, "quantity": 1}}
	f.Post(t, planURL, j{"items": items, "runs": []j{run}, "create": true}).Want(200).Shows(map[string]string{
		"runs.0.materials.#": "2", "runs.0.materials.0.grams": "60", "runs.0.materials.1.grams": "100",
		"runs.0.estimated_print_time_hours": "4", "unplanned": "[]"})
}
