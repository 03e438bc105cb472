package production_test

import (
	"testing"
)

// A client may send the actual weight of a material, until both weights of the spool are recorded.
func TestActualWeight(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	a := createSpool(t, c, nil)
	path := runs + "/" + c.Post(t, runs, j{}).Want(201).ID()
	created := c.Post(t, path+"/materials", j{"spool_id": a, "actual_weight_grams": 12.5}).Want(201)
	created.Shows(map[string]string{"actual_weight_grams": "12.5"})
	material := path + "/materials/" + created.ID()
	for _, step := range []struct {
		send j
		want string
	}{
		{j{"actual_weight_grams": 251.3}, "251.3"},
		{j{"actual_purge_grams": 4}, "251.3"},
		{j{"actual_weight_grams": nil}, "null"},
		{j{"actual_weight_grams": 0}, "0"},
		{j{"actual_weight_grams": 251.3, "spool_weight_before_grams": 900}, "251.3"}, // one weight says nothing
		{j{"spool_weight_after_grams": 700}, "200"},
		{j{"actual_weight_grams": 1}, "200"}, // both weights take precedence
		{j{"spool_weight_after_grams": 650, "actual_weight_grams": 2}, "250"},
		{j{"spool_weight_after_grams": nil}, "2"},
		{j{"spool_weight_before_grams": nil, "actual_weight_grams": 33.333333}, "33.333333"},
	} {
		c.Patch(t, material, step.send).Want(200).Shows(map[string]string{"actual_weight_grams": step.want})
		c.Get(t, path).Want(200).Shows(map[string]string{"materials.0.actual_weight_grams": step.want})
	}
	c.Patch(t, material, j{"actual_weight_grams": 1_000_000.000001}).Fields("actual_weight_grams")
	c.Patch(t, material, j{"actual_weight_grams": -1}).Fields("actual_weight_grams")
	c.Post(t, path+"/materials", j{"spool_id": a, "actual_weight_grams": "5"}).Fields("actual_weight_grams")

	// The whole material can be sent back.
	whole := c.Get(t, path).Value("materials.0").(map[string]any)
	c.Patch(t, material, whole).Want(200).Shows(map[string]string{"actual_weight_grams": "33.333333"})

	c.Post(t, path+"/complete", nil).Want(200).Shows(map[string]string{"spools_updated.0.deducted": "33.333333"})
	c.Get(t, path).Want(200).Shows(map[string]string{"actual_total_filament_grams": "33.333333"})
	if got := remaining(t, c, a); got != "966.666667" {
		t.Errorf("%s g remain, want 966.666667", got)
	}
	// Now the material is fixed; its current values are accepted.
	whole = c.Get(t, path).Value("materials.0").(map[string]any)
	c.Patch(t, material, whole).Want(200)
	c.Patch(t, material, j{"actual_weight_grams": 33.333333}).Want(200)
	c.Patch(t, material, j{"actual_weight_grams": 33}).WantError(400, "RUN_ALREADY_COMPLETED")
	c.Patch(t, material, j{"actual_weight_grams": nil}).WantError(400, "RUN_ALREADY_COMPLETED")
	c.Get(t, path).Want(200).Shows(map[string]string{"materials.0.actual_weight_grams": "33.333333"})
}
