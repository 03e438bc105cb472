package production_test

import (
	"testing"

	"spoolwright/tests/testkit"
)

const printersURL = "/api/v1/printers"

// A run has a printer by its id, or by its name.
func TestRunPrinter(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	first := c.Post(t, printersURL, j{"name": "Prusa 1", "maintenance_interval_hours": 3}).Want(201).ID()
	second := c.Post(t, printersURL, j{"name": "Prusa 2"}).Want(201).ID()
	run := func(body j) string { t.Helper(); return runs + "/" + c.Post(t, runs, body).Want(201).ID() }
	shows := func(a *testkit.Response, id, name string) {
		t.Helper()
		a.Want(200).Shows(map[string]string{"printer_id": id, "printer_name": name})
	}
	byName, other := run(j{"printer_name": "PRUSA 1"}), run(j{"printer_name": "Elsewhere"})
	both := run(j{"printer_id": second, "printer_name": "x"})
	shows(c.Get(t, byName), first, "Prusa 1")
	shows(c.Get(t, other), "null", "Elsewhere")
	shows(c.Get(t, both), second, "Prusa 2")
	shows(c.Patch(t, byName, j{"printer_id": second}), second, "Prusa 2")
	shows(c.Patch(t, byName, j{"printer_name": "prusa 1"}), first, "Prusa 1")
	shows(c.Patch(t, byName, j{"notes": "n"}), first, "Prusa 1")
	shows(c.Patch(t, byName, j{"printer_name": nil}), "null", "null")
	shows(c.Patch(t, byName, j{"printer_id": nil, "printer_name": "Prusa 2"}), second, "Prusa 2")
	shows(c.Patch(t, byName, j{"printer_id": nil}), "null", "null")
	shows(c.Patch(t, byName, j{"printer_id": first, "status": "in_progress"}), first, "Prusa 1")
	c.Get(t, runs+"?printer_id="+first).Want(200).Shows(map[string]string{"total": "1", "items.0.printer_id": first})

	// Hours of completed and failed runs count until the next maintenance.
	c.Patch(t, byName, j{"actual_print_time_hours": 2}).Want(200)
	c.Post(t, byName+"/fail", j{"reason": "clog"}).Want(200)
	failed := run(j{"printer_id": first, "actual_print_time_hours": 1.5})
	c.Post(t, failed+"/fail", j{"reason": "clog"}).Want(200)
	c.Post(t, run(j{"printer_id": first, "actual_print_time_hours": 9})+"/cancel", nil).Want(200)
	printer := printersURL + "/" + first
	c.Get(t, printer).Want(200).Shows(map[string]string{"printed_hours": "3.5", "maintenance_due": "true"})
	c.Post(t, printer+"/maintained", nil).Want(200).
		Shows(map[string]string{"printed_hours": "0", "maintenance_due": "false"})

	// A printer with runs is hidden, and its runs keep it.
	c.Delete(t, printer).Want(204)
	shows(c.Get(t, byName), first, "Prusa 1")
	shows(c.Patch(t, byName, string(c.Get(t, byName).Want(200).Body)), first, "Prusa 1")
	for _, id := range []string{first, api.Operator(t).Post(t, printersURL, j{"name": "x"}).Want(201).ID()} {
		c.Post(t, runs, j{"printer_id": id}).WantError(400, "UNKNOWN_REFERENCE").
			Shows(map[string]string{"errors.0.field": "printer_id"})
		c.Patch(t, other, j{"printer_id": id}).WantError(400, "UNKNOWN_REFERENCE")
	}
	shows(c.Get(t, other), "null", "Elsewhere")
	shows(c.Patch(t, other, j{"printer_name": "Prusa 1"}), "null", "Prusa 1")
	c.Post(t, printer+"/restore", nil).Want(200)
	shows(c.Patch(t, other, j{"printer_name": "Prusa 1"}), first, "Prusa 1")
}

// A run names a printer that is removed meanwhile or not, and is never left with one that does not exist.
func TestRunOfRemovedPrinter(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	for range 10 {
		printer := c.Post(t, printersURL, j{"name": "P"}).Want(201).ID()
		done := make(chan *testkit.Response)
		go func() {
			a, err := c.Send("POST", runs, j{"printer_name": "P"})
			if err != nil {
				a = &testkit.Response{}
			}
			done <- a
		}()
		c.Delete(t, printersURL+"/"+printer).Want(204)
		if a := <-done; a.Status != 201 {
			t.Fatalf("the run: %d %s", a.Status, a.Body)
		}
	}
}
