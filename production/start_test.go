package production_test

import "testing"

func TestStartRun(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	run := runs + "/" + c.Post(t, runs, j{}).Want(201).ID()
	started := c.Post(t, run+"/start", nil).Want(200).Shows(map[string]string{"status": "in_progress"})
	at := started.Text("started_at")
	c.Post(t, run+"/start", nil).Want(200).Shows(map[string]string{"started_at": at})
	c.Patch(t, run, j{"status": "paused"}).Want(200)
	c.Post(t, run+"/start", nil).Want(200).Shows(map[string]string{"status": "in_progress", "started_at": at})
	api.Operator(t).Post(t, run+"/start", nil).WantError(404, "NOT_FOUND")
	for _, status := range []string{"completed", "failed", "cancelled"} {
		c.Patch(t, run, j{"status": status}).Want(200)
		c.Post(t, run+"/start", nil).WantError(400, "RUN_NOT_OPEN")
	}
	c.Delete(t, run).Want(204)
	c.Post(t, run+"/start", nil).WantError(404, "NOT_FOUND")
}

// A run that was set to completed and has materials has a warning until complete deducts its filament.
func TestRunWarnings(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	warned := func(path string, want bool) {
		t.Helper()
		a := c.Get(t, path).Want(200)
		if got := len(a.List("warnings")) == 1; got != want {
			t.Errorf("%s, want a warning: %v", a.Body, want)
		}
	}
	run := runs + "/" + c.Post(t, runs, j{}).Want(201).ID()
	c.Patch(t, run, j{"status": "completed"}).Want(200)
	warned(run, false) // without materials
	c.Post(t, run+"/materials", j{"spool_id": createSpool(t, c, nil), "actual_weight_grams": 10}).Want(201)
	warned(run, true)
	c.Patch(t, run, j{"status": "in_progress"}).Want(200)
	warned(run, false)
	c.Patch(t, run, j{"status": "completed"}).Want(200).
		Shows(map[string]string{"warnings.0.code": "INVENTORY_NOT_UPDATED"})
	c.Post(t, run+"/complete", nil).Want(200)
	warned(run, false)
}
