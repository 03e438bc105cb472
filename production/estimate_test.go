package production_test

import (
	"testing"

	"spoolwright/tests/testkit"
)

// The estimates of a run follow its items until a client gives them, and again after null.
func TestEstimatesFollowItems(t *testing.T) {
	t.Parallel()
	type j = testkit.JSON
	api := newAPI(t)
	c := api.Operator(t)
	product := func(fields j) string {
		fields["name"] = "P"
		return c.Post(t, "/api/v1/products", fields).Want(201).ID()
	}
	material := func(grams float64, required bool) j {
		return j{"material_type": "PLA", "color": "Red", "weight_grams": grams, "is_required": required}
	}
	part := product(j{"estimated_print_time_minutes": 30, "materials": []any{material(10, true), material(5, false)}})
	untimed := product(j{"materials": []any{material(1, true)}})
	kit := product(j{"components": []any{j{"component_product_id": part, "quantity": 3}}}) // only put together
	box := product(j{"estimated_print_time_minutes": 10, "materials": []any{material(2, true)},
		"components": []any{j{"component_product_id": kit, "quantity": 2}}})
	plain := product(j{}) // neither time nor materials
	shows := func(run, grams, hours string) {
		t.Helper()
		c.Get(t, run).Want(200).Shows(map[string]string{"estimated_total_filament_grams": grams,
			"estimated_print_time_hours": hours})
	}
	create := func(fields j) string {
		return "/api/v1/production-runs/" + c.Post(t, "/api/v1/production-runs", fields).Want(201).ID()
	}
	items := func(id string, quantity int) []any { return []any{j{"product_id": id, "quantity": quantity}} }
	shows(create(j{}), "null", "null")
	shows(create(j{"items": items(plain, 1)}), "null", "null")
	shows(create(j{"items": items(untimed, 2)}), "2", "null")
	shows(create(j{"items": items(kit, 2)}), "60", "3")
	shows(create(j{"items": items(box, 2)}), "124", "6.333333")
	shows(create(j{"items": items(part, 1_000_000)}), "null", "null") // too large
	shows(create(j{"items": items(part, 1), "estimated_print_time_hours": 9}), "10", "9")

	run := create(j{"items": items(part, 1)})
	shows(run, "10", "0.5")
	added := run + "/items/" + c.Post(t, run+"/items", j{"product_id": kit}).Want(201).ID()
	shows(run, "40", "2")
	c.Patch(t, added, j{"quantity": 2}).Want(200)
	shows(run, "70", "3.5")
	c.Patch(t, added, j{"product_id": untimed}).Want(200)
	shows(run, "12", "null")
	c.Patch(t, run, j{"estimated_total_filament_grams": 50}).Want(200)
	c.Delete(t, added).Want(204)
	shows(run, "50", "0.5")
	c.Patch(t, run, j{"estimated_total_filament_grams": nil, "notes": "x"}).Want(200).
		Shows(map[string]string{"estimated_total_filament_grams": "10", "estimated_print_time_hours": "0.5"})

	spool := c.Post(t, "/api/v1/spools", j{"material_type": "PLA", "color": "Red", "diameter_mm": 1.75,
		"net_weight_grams": 1000}).Want(201).ID()
	c.Post(t, run+"/materials", j{"spool_id": spool, "actual_weight_grams": 12}).Want(201)
	c.Post(t, run+"/complete", nil).Want(200)
	c.Post(t, run+"/items", j{"product_id": kit}).Want(201)
	shows(run, "10", "0.5")
	c.Get(t, run).Want(200).Shows(map[string]string{"variance_analysis.material_variance_grams": "2"})
}
