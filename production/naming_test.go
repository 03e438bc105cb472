package production_test

import (
	"testing"

	"spoolwright/tests/testkit"
)

// Complete, fail and cancel name a material by its id or its spool, and a run of one material needs no name.
func TestNamesOfMaterials(t *testing.T) {
	t.Parallel()
	type j = testkit.JSON
	c := newAPI(t).Operator(t)
	spool := func() string {
		return c.Post(t, "/api/v1/spools", j{"material_type": "PLA", "color": "Red", "diameter_mm": 1.75,
			"net_weight_grams": 1000}).Want(201).ID()
	}
	one, two := spool(), spool()
	other := spool()
	newRun := func(spools ...string) string {
		var materials []any
		for _, id := range spools {
			materials = append(materials, j{"spool_id": id})
		}
		return "/api/v1/production-runs/" + c.Post(t, "/api/v1/production-runs", j{"materials": materials}).Want(201).
			ID()
	}
	run := newRun(one, two)
	complete := func(run string, materials ...any) *testkit.Response {
		return c.Post(t, run+"/complete", j{"materials": materials})
	}
	complete(run, j{"actual_weight_grams": 1}).Fields("materials[0].id")
	complete(run, j{"spool_id": one, "spool_number": 1, "actual_weight_grams": 1}).Fields("materials[0].spool_number")
	complete(run, j{"spool_id": one, "actual_weight_grams": 1}, j{"spool_id": one, "actual_weight_grams": 1}).
		Fields("materials[1].spool_id")
	complete(run, j{"spool_id": one, "actual_weight_grams": 1}, j{"spool_number": 1, "actual_weight_grams": 1}).
		Fields("materials[1].spool_number")
	complete(run, j{"spool_id": other, "actual_weight_grams": 1}).WantError(400, "UNKNOWN_REFERENCE").
		Shows(map[string]string{"errors.0.field": "materials[0].spool_id"})
	complete(run, j{"spool_id": one}).Fields("materials[0].actual_weight_grams")
	complete(run, j{"spool_number": 2, "actual_weight_grams": 20}, j{"spool_id": one, "actual_weight_grams": 10}).
		Want(200)
	c.Get(t, "/api/v1/spools/"+one).Want(200).Shows(map[string]string{"remaining_weight_grams": "990"})
	c.Get(t, "/api/v1/spools/"+two).Want(200).Shows(map[string]string{"remaining_weight_grams": "980"})

	for _, end := range []string{"/fail", "/cancel"} {
		twice := newRun(one, one)
		body := func(fields j) j { fields["reason"] = "clog"; return fields }
		c.Post(t, twice+end, body(j{"materials": []any{j{"spool_id": one, "wasted_grams": 1}}})).
			Fields("materials[0].spool_id")
		c.Post(t, twice+end, body(j{"wasted_grams": 1})).Fields("wasted_grams")
		c.Post(t, newRun()+end, body(j{"wasted_grams": 1})).Fields("wasted_grams")
		single := newRun(other)
		c.Post(t, single+end, body(j{"wasted_grams": 1, "materials": []any{j{"spool_id": other, "wasted_grams": 1}}})).
			Fields("wasted_grams")
		c.Post(t, single+end, body(j{"wasted_grams": 5})).Want(200).
			Shows(map[string]string{"spools_updated.0.deducted": "5", "spools_updated.0.spool_id": other})
	}
}
