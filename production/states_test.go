package production_test

import (
	"fmt"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

const states = "/api/v1/printer-states"

// watched is a farm with a printer that a watcher watches: a product made from the file dragon.gcode with 100 g of PLA,
// and a loaded spool of 1 kg with a density of 1.25 g/cm3.
type watched struct {
	*testkit.Client
	tenant                  *testkit.Tenant
	watcher                 *testkit.Client
	printer, product, spool string
	sequence                int
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	tenant := newFarm(t).Tenant(t)
	w := &watched{Client: tenant.User(t, "admin"), tenant: tenant, watcher: tenant.Key(t, "watcher")}
	w.printer = w.Post(t, "/api/v1/printers", j{"name": "Voron"}).Want(201).ID()
	w.spool = w.Post(t, "/api/v1/spools", j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75,
		"density_g_cm3": 1.25, "net_weight_grams": 1000}).Want(201).ID()
	w.Do(t, "PUT", "/api/v1/printers/"+w.printer+"/slots/1", j{"spool_id": w.spool}).Want(200)
	w.product = w.Post(t, "/api/v1/products", j{"name": "Dragon", "file_name": "dragon.gcode",
		"estimated_print_time_minutes": 60,
		"materials":                    []j{{"material_type": "PLA", "color": "Black", "weight_grams": 100}}}).Want(201).ID()
	return w
}

// plan creates a pending run of the product on the printer, with the spool.
func (w *watched) plan(t *testing.T) string {
	t.Helper()
	return w.Post(t, "/api/v1/production-runs", j{"printer_id": w.printer, "items": []j{{"product_id": w.product}},
		"materials": []j{{"spool_id": w.spool, "estimated_weight_grams": 100}}}).Want(201).ID()
}

// send sends a state and returns its run, or "null".
func (w *watched) send(t *testing.T, state string, job j) string {
	t.Helper()
	w.sequence++
	a := w.watcher.Post(t, states, j{"states": []j{{"printer_id": w.printer, "sequence": w.sequence, "state": state,
		"job": job}}}).Want(200)
	a.Shows(map[string]string{"results.0.outcome": "accepted", "results.0.error": "null"})
	return a.Text("results.0.run_id")
}

func (w *watched) run(t *testing.T, id string) *testkit.Response {
	t.Helper()
	return w.Get(t, "/api/v1/production-runs/"+id).Want(200)
}

// runs returns the number of runs of the farm.
func (w *watched) runs(t *testing.T) string {
	t.Helper()
	return w.Get(t, "/api/v1/production-runs").Want(200).Text("total")
}

func (w *watched) remaining(t *testing.T) string {
	t.Helper()
	return w.Get(t, "/api/v1/spools/"+w.spool).Want(200).Text("remaining_weight_grams")
}

// with returns the job "1" of dragon.gcode with more fields.
func with(fields j) j {
	all := j{"id": "1", "file": "dragon.gcode"}
	for name, v := range fields {
		all[name] = v
	}
	return all
}

// A job starts the earliest planned run of its file, pauses and continues it, and completes it with the length that the
// printer used. A state that comes twice has one effect.
func TestJobMovesRun(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	first, second := w.plan(t), w.plan(t)
	testkit.Equal(t, w.send(t, "idle", nil), "null", "the run of an idle printer")
	testkit.Equal(t, w.send(t, "idle", with(nil)), "null", "the run of a job that waits")
	testkit.Equal(t, w.send(t, "printing", with(j{"file": "cache/1712345678_Dragon.GCODE.3mf"})), first, "the run")
	w.run(t, first).Shows(map[string]string{"status": "in_progress"})
	w.send(t, "paused", with(nil))
	w.run(t, first).Shows(map[string]string{"status": "paused"})
	w.send(t, "attention", with(nil))
	w.run(t, first).Shows(map[string]string{"status": "paused"})
	w.send(t, "printing", with(nil))
	w.run(t, first).Shows(map[string]string{"status": "in_progress"})
	w.send(t, "offline", nil)
	w.send(t, "printing", with(j{"progress": 0.9}))
	done := with(j{"progress": 1, "outcome": "completed", "elapsed_seconds": 5400,
		"used": []j{{"tool": 0, "millimetres": 20000}}})
	testkit.Equal(t, w.send(t, "idle", done), first, "the run at the end")
	// 20 m of 1.75 mm with 1.25 g/cm3.
	w.run(t, first).Shows(map[string]string{"status": "completed", "inventory_updated": "true",
		"actual_print_time_hours": "1.5", "actual_total_filament_grams": "60.132047", "usage_source": "length",
		"items.0.quantity": "1"})
	testkit.Equal(t, w.remaining(t), "939.867953", "the spool")
	again := w.watcher.Post(t, states, j{"states": []j{{"printer_id": w.printer, "sequence": w.sequence, "state": "idle",
		"job": done}}}).Want(200)
	again.Shows(map[string]string{"results.0.outcome": "duplicate", "results.0.run_id": first})
	w.send(t, "idle", done)
	w.send(t, "idle", nil)
	w.send(t, "idle", done)
	testkit.Equal(t, w.remaining(t), "939.867953", "the spool after the end came again")
	w.run(t, second).Shows(map[string]string{"status": "pending"})
	testkit.Equal(t, w.send(t, "printing", with(j{"id": "2"})), second, "the next job of the file")
	testkit.Equal(t, w.runs(t), "2", "runs")
}

// A print that was not planned becomes a run of the product that was made from its file, or one with its name.
func TestUnplannedJobs(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	run := w.send(t, "printing", with(nil))
	w.run(t, run).Shows(map[string]string{"status": "in_progress", "items.0.product_id": w.product,
		"materials.0.spool_id": w.spool, "estimated_total_filament_grams": "100"})
	w.send(t, "idle", with(j{"outcome": "completed"}))
	w.run(t, run).Shows(map[string]string{"status": "completed", "usage_source": "estimate",
		"actual_total_filament_grams": "100"})
	other := w.send(t, "printing", j{"id": "2", "file": "holder.gcode"})
	w.run(t, other).Shows(map[string]string{"status": "in_progress", "notes": "holder.gcode", "items.#": "0"})
	// Nobody knows what it used: a person must say it.
	w.send(t, "idle", j{"id": "2", "outcome": "completed"})
	w.run(t, other).Shows(map[string]string{"status": "in_progress", "inventory_updated": "false"})
	w.Get(t, "/api/v1/production-runs?needs=confirmation").Want(200).
		Shows(map[string]string{"total": "1", "items.0.id": other})
	// It does not keep the printer busy.
	testkit.Equal(t, w.send(t, "printing", with(j{"id": "3"})) != "null", true, "the next run")
	w.Delete(t, "/api/v1/production-runs/"+other).Want(204)
	testkit.Equal(t, w.send(t, "idle", j{"id": "2", "outcome": "completed"}), "null", "the job of a removed run")
}

// How a job ends decides what becomes of its run and its filament.
func TestJobEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		setting, state, outcome string
		job                     j
		want                    map[string]string
		remaining               string
	}{
		"cancelled": {"doubts", "idle", "cancelled", j{"progress": 0.25},
			map[string]string{"status": "cancelled", "usage_source": "estimate", "actual_total_filament_grams": "25"}, "975"},
		"cancelled with a length": {"doubts", "idle", "cancelled", j{"used": []j{{"millimetres": 1000}}, "progress": 0.25},
			map[string]string{"status": "cancelled", "usage_source": "length"}, "996.993398"},
		"completed with grams": {"doubts", "idle", "completed", j{"used": []j{{"grams": 90}}},
			map[string]string{"status": "completed", "usage_source": "grams"}, "910"},
		"failed": {"doubts", "attention", "failed", j{"progress": 0.5, "reason": "Filament runout"},
			map[string]string{"status": "in_progress", "failure_reason": "filament_runout", "usage_source": "estimate",
				"materials.0.actual_weight_grams": "50"}, "1000"},
		"unknown": {"doubts", "idle", "unknown", j{"progress": 0.5},
			map[string]string{"status": "in_progress", "usage_source": "null", "completed_at": "null"}, "1000"},
		"implausible": {"doubts", "idle", "completed", j{"used": []j{{"grams": 900}}},
			map[string]string{"status": "in_progress", "usage_source": "grams"}, "1000"},
		"all to a person": {"all", "idle", "completed", j{},
			map[string]string{"status": "in_progress", "usage_source": "estimate",
				"materials.0.actual_weight_grams": "100"}, "1000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWatched(t)
			w.Patch(t, "/api/v1/settings", j{"confirm_runs": c.setting}).Want(200)
			run := w.plan(t)
			w.send(t, "printing", with(nil))
			c.job["outcome"] = c.outcome
			w.send(t, c.state, with(c.job))
			w.run(t, run).Shows(c.want)
			testkit.Equal(t, w.remaining(t), c.remaining, "the spool")
			if c.want["status"] == "in_progress" {
				w.Get(t, "/api/v1/production-runs?needs=confirmation").Want(200).Shows(map[string]string{"items.0.id": run})
				w.Post(t, "/api/v1/production-runs/"+run+"/cancel", j{"wasted_grams": 7}).Want(200)
				w.run(t, run).Shows(map[string]string{"usage_source": "null", "actual_total_filament_grams": "7"})
			}
		})
	}
}

// What a printer reports by Spoolman's API while its job runs is never deducted again.
func TestReportsOfJob(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	run := w.plan(t)
	w.send(t, "printing", with(nil))
	key := w.Post(t, "/api/v1/api-keys", j{"name": "P", "role": "printer", "printer_id": w.printer}).Want(201).Text("key")
	printer := (&testkit.Client{API: w.API}).With("X-API-Key", key)
	a, err := printer.Send("PUT", "/spoolman/api/v1/spool/1/use", j{"use_weight": 95})
	testkit.Check(t, err)
	testkit.Equal(t, a.Status, 200, "the report: %s", a.Body)
	w.send(t, "idle", with(j{"outcome": "completed", "used": []j{{"millimetres": 30000}}}))
	w.run(t, run).Shows(map[string]string{"status": "completed", "usage_source": "reports",
		"actual_total_filament_grams": "95"})
	testkit.Equal(t, w.remaining(t), "905", "the spool")
}

// While a watched printer prints a run, its progress and time left count, and not the estimate.
func TestPrintOfRun(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	run := w.plan(t)
	confirm, one := "/api/v1/production-runs?needs=confirmation", "/api/v1/production-runs?id="+run
	w.send(t, "printing", with(j{"started_at": "2026-01-01T10:00:00Z", "progress": 0.4, "seconds_left": 5400}))
	w.Get(t, confirm).Want(200).Shows(map[string]string{"total": "1"})
	w.Get(t, one).Want(200).Shows(map[string]string{"items.0.print": "null"})
	w.watcher.Post(t, states+"/lease", j{"watcher": "w", "printer_ids": []string{w.printer}}).Want(200)
	w.Get(t, confirm).Want(200).Shows(map[string]string{"total": "0"})
	a := w.Get(t, one).Want(200)
	a.Shows(map[string]string{"items.0.print.progress": "0.4"})
	if left := time.Until(a.Time("items.0.print.ends_at")); left < time.Hour || left > 90*time.Minute {
		t.Errorf("%v left: %s", left, a.Body)
	}
	w.send(t, "offline", nil)
	w.Get(t, one).Want(200).Shows(map[string]string{"items.0.print": "null"})
	w.Get(t, confirm).Want(200).Shows(map[string]string{"total": "1"})
}

// What is not certain is asked, and takes no planned run by itself.
func TestJobQuestions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		job    j
		before func(t *testing.T, w *watched)
	}{
		"already printing": {j{"adopted": true}, nil},
		"a ghost":          {j{"certain": false}, nil},
		"another run prints": {j{}, func(t *testing.T, w *watched) {
			w.Post(t, "/api/v1/production-runs", j{"printer_id": w.printer, "status": "in_progress"}).Want(201)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWatched(t)
			if c.before != nil {
				c.before(t, w)
			}
			run := w.plan(t)
			before := w.runs(t)
			testkit.Equal(t, w.send(t, "printing", with(c.job)), "null", "the run")
			w.run(t, run).Shows(map[string]string{"status": "pending"})
			likely := "items.0.candidates.0"
			if c.before != nil { // after the run that prints
				likely = "items.0.candidates.1"
			}
			w.Get(t, states+"?question=true").Want(200).Shows(map[string]string{"total": "1", "items.0.job.id": "1",
				likely + ".run_id": run, likely + ".title": "1 × Dragon"})
			at := "/api/v1/printers/" + w.printer + "/answer"
			w.Post(t, at, j{"job": "2", "answer": "none"}).WantError(409, "NO_QUESTION")
			w.Post(t, at, j{"job": "1", "answer": "run"}).Fields("run_id")
			w.Post(t, at, j{"job": "1", "answer": "run", "run_id": w.product}).WantError(400, "UNKNOWN_REFERENCE")
			w.watcher.Post(t, at, j{"job": "1", "answer": "none"}).WantError(403, "FORBIDDEN")
			if c.before != nil {
				w.Post(t, at, j{"job": "1", "answer": "run", "run_id": run}).WantError(409, "PRINTER_BUSY")
				w.Post(t, at, j{"job": "1", "answer": "none"}).Want(200).Shows(map[string]string{"run_id": "null"})
				testkit.Equal(t, w.send(t, "idle", with(j{"outcome": "completed"})), "null", "the run of a test")
				w.run(t, run).Shows(map[string]string{"status": "pending"})
			} else {
				w.send(t, "idle", with(j{"outcome": "completed"}))
				w.Post(t, at, j{"job": "1", "answer": "run", "run_id": run}).Want(200).Shows(map[string]string{"run_id": run})
				w.run(t, run).Shows(map[string]string{"status": "completed"})
				testkit.Equal(t, w.remaining(t), "900", "the spool")
			}
			w.Post(t, at, j{"job": "1", "answer": "new_run"}).WantError(409, "NO_QUESTION")
			testkit.Equal(t, w.runs(t), before, "runs")
		})
	}
}

// A variant is made from the file of its product, and its plates from those of the product.
func TestJobsOfVariants(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	made := w.Post(t, "/api/v1/products/"+w.product+"/variants", j{"variants": []j{{"color": "Red"}, {"color": "Blue"}}}).
		Want(201)
	red, blue := made.Text("items.0.id"), made.Text("items.1.id")
	plan := func(product string) string {
		return w.Post(t, "/api/v1/production-runs", j{"printer_id": w.printer, "items": []j{{"product_id": product}}}).
			Want(201).ID()
	}
	run, second := plan(red), plan(red)
	testkit.Equal(t, w.send(t, "printing", with(nil)), run, "the run of the variant")
	w.send(t, "idle", with(j{"outcome": "cancelled", "progress": 0.1}))
	other := plan(blue)
	testkit.Equal(t, w.send(t, "printing", with(j{"id": "2"})), "null", "the run, with several variants")
	w.Get(t, states+"?question=true").Want(200).Shows(map[string]string{"items.0.candidates.#": "2",
		"items.0.candidates.0.run_id": second, "items.0.candidates.1.run_id": other})
	w.Post(t, "/api/v1/printers/"+w.printer+"/answer", j{"job": "2", "answer": "run", "run_id": other}).Want(200)
	w.run(t, other).Shows(map[string]string{"status": "in_progress"})
	w.send(t, "idle", with(j{"id": "2", "outcome": "cancelled", "progress": 0.1}))

	plate := func(grams float64) j {
		return j{"file_name": "kite.gcode.3mf", "estimated_print_time_minutes": 60,
			"materials": []j{{"material_type": "PLA", "color": "Black", "weight_grams": grams}}}
	}
	kite := w.Post(t, "/api/v1/products", j{"name": "Kite", "file_name": "kite.gcode.3mf",
		"plates": []j{plate(10), plate(20)}}).Want(201).ID()
	gold := w.Post(t, "/api/v1/products/"+kite+"/variants", j{"variants": []j{{"color": "Gold"}}}).Want(201).
		Text("items.0.id")
	plates := w.Get(t, "/api/v1/products/"+gold).Want(200)
	head, tail := plan(plates.Text("plates.0.id")), plan(plates.Text("plates.1.id"))
	testkit.Equal(t, w.send(t, "printing", j{"id": "3", "file": "Kite.gcode.3mf", "plate": 2}), tail, "the second plate")
	w.send(t, "idle", j{"id": "3", "outcome": "cancelled", "progress": 0.1})
	testkit.Equal(t, w.send(t, "printing", j{"id": "4", "file": "kite plate_1.gcode"}), head, "the first plate")
	w.send(t, "idle", j{"id": "4", "outcome": "cancelled", "progress": 0.1})
	plan(plates.Text("plates.0.id"))
	testkit.Equal(t, w.send(t, "printing", j{"id": "5", "file": "kite.3mf"}), "null", "an unknown plate")
}

// The pitfalls of watching that the service answers for.
func TestJobPitfalls(t *testing.T) {
	t.Parallel()
	t.Run("a job that ended before anybody watched", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t)
		run := w.plan(t)
		testkit.Equal(t, w.send(t, "idle", with(j{"outcome": "completed"})), "null", "the run")
		w.run(t, run).Shows(map[string]string{"status": "pending"})
	})
	t.Run("a job that failed before it printed", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t)
		run := w.plan(t)
		w.send(t, "idle", nil)
		testkit.Equal(t, w.send(t, "attention", with(j{"outcome": "failed"})), "null", "the run")
		w.run(t, run).Shows(map[string]string{"status": "pending"})
	})
	t.Run("a person has started the run", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t)
		run := w.plan(t)
		w.Post(t, "/api/v1/production-runs/"+run+"/start", nil).Want(200)
		testkit.Equal(t, w.send(t, "printing", with(j{"adopted": true, "progress": 0.4})), run, "the run")
		testkit.Equal(t, w.runs(t), "1", "runs")
	})
	t.Run("the end was missed", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t)
		run, next := w.plan(t), w.plan(t)
		w.send(t, "printing", with(j{"progress": 0.9}))
		w.send(t, "offline", nil)
		w.send(t, "unknown", nil)
		w.run(t, run).Shows(map[string]string{"status": "in_progress", "inventory_updated": "false"})
		w.Get(t, "/api/v1/production-runs?needs=confirmation").Want(200).Shows(map[string]string{"total": "0"})
		testkit.Equal(t, w.send(t, "printing", with(j{"id": "2", "progress": 0.1})), next, "the next run")
		w.run(t, run).Shows(map[string]string{"status": "in_progress", "inventory_updated": "false"})
		w.Get(t, "/api/v1/production-runs?needs=confirmation").Want(200).Shows(map[string]string{"items.0.id": run})
		w.send(t, "idle", nil)
		w.Get(t, "/api/v1/production-runs?needs=confirmation").Want(200).Shows(map[string]string{"total": "2"})
	})
	t.Run("a job that ended while nobody watched", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t)
		run := w.plan(t)
		w.send(t, "idle", nil)
		testkit.Equal(t, w.send(t, "idle", with(j{"outcome": "completed", "elapsed_seconds": 3600})), run, "the run")
		w.run(t, run).Shows(map[string]string{"status": "completed", "actual_print_time_hours": "1"})
		testkit.Equal(t, w.remaining(t), "900", "the spool")
	})
	t.Run("a start that fails", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t)
		run := w.plan(t)
		testkit.Equal(t, w.send(t, "printing", with(j{"progress": 0})), run, "the run")
		w.send(t, "attention", with(j{"outcome": "failed"}))
		w.run(t, run).Shows(map[string]string{"status": "in_progress", "materials.0.actual_weight_grams": "0"})
		w.Get(t, "/api/v1/production-runs?needs=confirmation").Want(200).Shows(map[string]string{"items.0.id": run})
		testkit.Equal(t, w.remaining(t), "1000", "the spool")
	})
	t.Run("the clocks of printer and watcher are wrong", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t)
		run, begin := w.plan(t), time.Now()
		send := func(at, state string, job j) {
			w.sequence++
			w.watcher.Post(t, states, j{"states": []j{{"printer_id": w.printer, "sequence": w.sequence, "state": state,
				"printer_at": at, "observed_at": at, "job": with(job)}}}).Want(200).Shows(map[string]string{
				"results.0.outcome": "accepted"})
		}
		send("2100-01-01T00:00:00Z", "printing", j{"started_at": "2100-01-01T00:00:00Z", "progress": 0.5})
		send("1970-01-01T00:00:00Z", "idle", j{"started_at": "1970-01-01T00:00:00Z", "outcome": "completed"})
		ended := w.run(t, run)
		ended.Shows(map[string]string{"status": "completed", "actual_print_time_hours": "null"})
		for _, field := range []string{"started_at", "completed_at"} {
			at := ended.Time(field)
			if at.Before(begin.Add(-time.Minute)) || at.After(time.Now().Add(time.Minute)) {
				t.Errorf("%s is %s", field, at)
			}
		}
		testkit.Equal(t, w.send(t, "printing", with(j{"id": "2"})) != run, true, "another run for the next job")
	})
	t.Run("a job without a name", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t)
		planned := w.plan(t)
		testkit.Equal(t, w.send(t, "printing", j{"id": "1"}), "null", "the run")
		run := w.Post(t, "/api/v1/printers/"+w.printer+"/answer", j{"job": "1", "answer": "new_run"}).Want(200).Text("run_id")
		w.run(t, run).Shows(map[string]string{"status": "in_progress", "items.#": "0", "materials.0.spool_id": w.spool})
		w.send(t, "idle", j{"id": "1", "outcome": "completed", "used": []j{{"grams": 30}}})
		w.run(t, run).Shows(map[string]string{"status": "completed", "actual_total_filament_grams": "30"})
		w.run(t, planned).Shows(map[string]string{"status": "pending"})
	})
	t.Run("one plate of a file with several", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t)
		plate := func(grams int) j {
			return j{"file_name": "kite.gcode.3mf", "estimated_print_time_minutes": 60,
				"materials": []j{{"material_type": "PLA", "color": "Black", "weight_grams": grams}}}
		}
		w.Post(t, "/api/v1/products", j{"name": "Kite", "file_name": "kite.gcode.3mf",
			"plates": []j{plate(10), plate(20)}}).Want(201)
		job := j{"id": "1", "file": "kite.gcode.3mf", "plate": 2}
		run := w.send(t, "printing", job)
		job["outcome"] = "completed"
		w.send(t, "idle", job)
		w.run(t, run).Shows(map[string]string{"status": "completed", "actual_total_filament_grams": "20"})
		testkit.Equal(t, w.remaining(t), "980", "the spool")
	})
	t.Run("plates of one file", func(t *testing.T) {
		t.Parallel()
		w := newWatched(t)
		w.Post(t, "/api/v1/production-runs", j{"printer_id": w.printer, "notes": "other.gcode"}).Want(201)
		testkit.Equal(t, w.send(t, "printing", with(j{"plate": 1})) != "null", true, "the run of a file with one plate")
	})
}

// A request has results for all its states: of other farms and removed printers, too. Progress alone writes nothing.
func TestSendStates(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	other := newWatched(t)
	state := func(printer string, sequence int) j {
		return j{"printer_id": printer, "sequence": sequence, "state": "printing",
			"job": j{"id": "1", "progress": float64(sequence%10) / 10}}
	}
	a := w.watcher.Post(t, states, j{"states": []j{state(w.printer, 5), state(other.printer, 1), state(w.printer, 5),
		state(w.printer, 4), state(w.printer, 6)}}).Want(200)
	for i, want := range []string{"accepted", "refused", "duplicate", "duplicate", "accepted"} {
		a.Shows(map[string]string{fmt.Sprintf("results.%d.outcome", i): want})
	}
	a.Shows(map[string]string{"results.1.error.code": "UNKNOWN_REFERENCE"})
	other.Get(t, states).Want(200).Shows(map[string]string{"total": "1", "items.0.sequence": "0",
		"items.0.state": "unknown", "items.0.received_at": "null", "items.0.id": other.printer})
	w.Get(t, states).Want(200).Shows(map[string]string{"total": "1", "items.0.sequence": "6", "items.0.state": "printing",
		"items.0.watched": "false"})
	w.Get(t, states+"/changes").Want(200).Shows(map[string]string{"total": "1", "items.0.state": "printing"})
	for field, s := range map[string]j{
		"states[0].sequence":     {"printer_id": w.printer, "sequence": 0, "state": "idle"},
		"states[0].state":        {"printer_id": w.printer, "sequence": 1, "state": "x"},
		"states[0].job.id":       {"printer_id": w.printer, "sequence": 1, "state": "idle", "job": j{}},
		"states[0].job.progress": {"printer_id": w.printer, "sequence": 1, "state": "idle", "job": j{"id": "1", "progress": 2}},
		"states[0].job.used[0].x": {"printer_id": w.printer, "sequence": 1, "state": "idle", "job": j{"id": "1",
			"used": []j{{"x": 1}}}},
		"states[0].slots[0].slot": {"printer_id": w.printer, "sequence": 1, "state": "idle", "slots": []j{{}}},
	} {
		w.watcher.Post(t, states, j{"states": []j{s}}).Fields(field)
	}
	w.tenant.User(t, "viewer").Post(t, states, j{"states": []j{state(w.printer, 9)}}).WantError(403, "FORBIDDEN")
	w.watcher.Get(t, states).WantError(403, "FORBIDDEN")
}

// The same states at once have one effect: one run, which ends once.
func TestConcurrentStates(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.send(t, "idle", nil)
	state := func(sequence int, state string, job j) j {
		return j{"printer_id": w.printer, "sequence": sequence, "state": state, "job": job}
	}
	all := []j{state(2, "printing", with(nil)), state(3, "idle", with(j{"outcome": "completed"}))}
	testkit.Concurrently(8, func(i int) {
		sent := all
		if i%2 > 0 {
			sent = all[:1]
		}
		if a, err := w.watcher.Send("POST", states, j{"states": sent}); err != nil || a.Status != 200 {
			t.Errorf("%v %v", a, err)
		}
	})
	w.Get(t, "/api/v1/production-runs").Want(200).Shows(map[string]string{"total": "1", "items.0.status": "completed"})
	testkit.Equal(t, w.remaining(t), "900", "the spool")
}

// A printer has one watcher at a time.
func TestLease(t *testing.T) {
	t.Parallel()
	w, other := newWatched(t), newWatched(t)
	lease := func(watcher string) *testkit.Response {
		return w.watcher.Post(t, states+"/lease", j{"watcher": watcher, "printer_ids": []string{w.printer, other.printer}}).
			Want(200)
	}
	lease("a").Shows(map[string]string{"printer_ids.#": "1", "printer_ids.0": w.printer})
	lease("b").Shows(map[string]string{"printer_ids.#": "0"})
	lease("a").Shows(map[string]string{"printer_ids.#": "1"})
	w.send(t, "idle", nil)
	w.Get(t, states).Want(200).Shows(map[string]string{"items.0.watched": "true"})
	w.Hold(t, `update printer_leases set expires_at = now() where id = '`+w.printer+`'`).Commit()
	w.Get(t, states).Want(200).Shows(map[string]string{"items.0.watched": "false"})
	lease("b").Shows(map[string]string{"printer_ids.#": "1", "states.#": "0"})
	lease("a").Shows(map[string]string{"printer_ids.#": "0"})

	// A watcher that begins knows the last job, also after a state without one.
	w.send(t, "printing", with(nil))
	w.send(t, "idle", with(j{"outcome": "completed", "progress": 1}))
	w.send(t, "idle", nil)
	begin := func(watcher string) *testkit.Response {
		return w.watcher.Post(t, states+"/lease", j{"watcher": watcher, "printer_ids": []string{w.printer, other.printer},
			"with_states": true}).Want(200)
	}
	begin("b").Shows(map[string]string{"states.#": "1", "states.0.sequence": fmt.Sprint(w.sequence),
		"states.0.state": "idle", "states.0.job.id": "1", "states.0.job.outcome": "completed"})
	begin("a").Shows(map[string]string{"states.#": "0"})
}
