package production_test

import (
	"fmt"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/production"
	"spoolwright/tests/testkit"
)

// other creates a spool of 1 kg with the same filament as that of w, and loads it into a slot unless slot is 0.
func (w *watched) other(t *testing.T, slot int) string {
	t.Helper()
	spool := w.Post(t, "/api/v1/spools", j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75,
		"density_g_cm3": 1.25, "net_weight_grams": 1000}).Want(201).ID()
	if slot > 0 {
		w.Patch(t, "/api/v1/printers/"+w.printer, j{"slots": 4}).Want(200)
		w.Do(t, "PUT", fmt.Sprintf("/api/v1/printers/%s/slots/%d", w.printer, slot), j{"spool_id": spool}).Want(200)
	}
	return spool
}

// report sends grams of a spool, by its number, as the printer does by Spoolman's API.
func (w *watched) report(t *testing.T, spool int, grams float64) {
	t.Helper()
	key := w.Post(t, "/api/v1/api-keys", j{"name": "P", "role": "printer", "printer_id": w.printer}).Want(201).Text("key")
	printer := (&testkit.Client{API: w.API}).With("X-API-Key", key)
	a, err := printer.Send("PUT", fmt.Sprintf("/spoolman/api/v1/spool/%d/use", spool), j{"use_weight": grams})
	testkit.Check(t, err)
	testkit.Equal(t, a.Status, 200, "the report: %s", a.Body)
}

// What is not plausible, or not known, waits for a person and deducts nothing.
func TestDoubtfulEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before  func(t *testing.T, w *watched)
		job     j
		planned bool
	}{
		"grams of no estimate that exceed the spool": {nil,
			j{"file": "x.gcode", "outcome": "completed", "used": []j{{"millimetres": 999_999_999}}}, false},
		"a print of 100,000 hours":       {nil, j{"outcome": "completed", "elapsed_seconds": 360_000_000}, true},
		"less than half of the estimate": {nil, j{"outcome": "completed", "used": []j{{"grams": 49}}}, true},
		"one gram was reported": {func(t *testing.T, w *watched) { w.report(t, 1, 1) },
			j{"outcome": "completed", "used": []j{{"grams": 90}}}, true},
		"far more was reported than estimated": {func(t *testing.T, w *watched) { w.report(t, 1, 900) },
			j{"outcome": "completed"}, true},
		"the filament ran out, and the printer went on with that of another slot": {func(t *testing.T, w *watched) {
			w.other(t, 2)
		}, j{"outcome": "completed", "used": []j{{"slot": "A1"}, {"slot": "A2"}}}, true},
		"cancelled without progress":    {nil, j{"outcome": "cancelled"}, true},
		"cancelled without an estimate": {nil, j{"file": "x.gcode", "outcome": "cancelled", "progress": 0.4}, false},
		"another spool was loaded": {func(t *testing.T, w *watched) { w.other(t, 1) },
			j{"outcome": "completed", "used": []j{{"grams": 95}}}, true},
		"the filament came from another slot": {func(t *testing.T, w *watched) { w.other(t, 2) },
			j{"outcome": "completed", "used": []j{{"slot": "A2", "grams": 95}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWatched(t)
			if c.planned {
				w.plan(t)
			}
			run := w.send(t, "printing", with(j{"file": orElse(c.job["file"], "dragon.gcode")}))
			if c.before != nil {
				c.before(t, w)
			}
			before := w.remaining(t)
			w.send(t, "idle", with(c.job))
			w.run(t, run).Shows(map[string]string{"status": "in_progress", "inventory_updated": "false"})
			testkit.Equal(t, w.remaining(t), before, "the spool")
			w.Get(t, "/api/v1/production-runs?needs=confirmation").Want(200).Shows(map[string]string{"items.0.id": run})
		})
	}
}

func orElse(v any, other string) any {
	if v == nil {
		return other
	}
	return v
}

// A run of two materials gets its estimates if the printer has one number for both, and a job that reports less at its
// end than before keeps what it has used.
func TestUseOfJobs(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	second := w.other(t, 0)
	run := w.Post(t, "/api/v1/production-runs", j{"printer_id": w.printer, "items": []j{{"product_id": w.product}},
		"materials": []j{{"spool_id": w.spool, "estimated_weight_grams": 80}, {"spool_id": second,
			"estimated_weight_grams": 20}}}).Want(201).ID()
	testkit.Equal(t, w.send(t, "printing", with(nil)), run, "the run")
	w.send(t, "idle", with(j{"outcome": "completed", "used": []j{{"tool": 0, "millimetres": 33000}}}))
	w.run(t, run).Shows(map[string]string{"status": "completed", "materials.0.actual_weight_grams": "80",
		"materials.1.actual_weight_grams": "20", "usage_source": "estimate"})

	next := w.plan(t)
	testkit.Equal(t, w.send(t, "printing", with(j{"id": "2", "progress": 0.6, "elapsed_seconds": 3600,
		"used": []j{{"grams": 60}}})), next, "the next run")
	w.send(t, "idle", with(j{"id": "2", "outcome": "cancelled", "elapsed_seconds": 0, "used": []j{{"grams": 0}}}))
	w.run(t, next).Shows(map[string]string{"status": "cancelled", "actual_total_filament_grams": "60",
		"actual_print_time_hours": "1"})
	testkit.Equal(t, w.send(t, "printing", with(j{"id": "3", "progress": 0})) != "null", true, "a run")
	w.send(t, "idle", with(j{"id": "3", "outcome": "cancelled"}))
	testkit.Equal(t, w.remaining(t), "860", "the spool after a job that used nothing")
}

// If the filament runs out and the printer goes on with that of another slot, both spools share the estimate, for a
// person to confirm.
func TestFilamentRanOut(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	run, twin := w.plan(t), w.other(t, 2)
	first, second := j{"tool": 0, "slot": "A1"}, j{"tool": 0, "slot": "A2"}
	w.send(t, "printing", with(j{"progress": 0.1, "used": []j{first}}))
	w.send(t, "printing", with(j{"progress": 0.6, "used": []j{first, second}}))
	w.send(t, "idle", with(j{"progress": 0.9, "outcome": "cancelled", "used": []j{first, second}}))
	w.Get(t, states).Want(200).Shows(map[string]string{"items.0.job.used.0.from_progress": "null",
		"items.0.job.used.1.from_progress": "0.6"})
	w.Get(t, "/api/v1/production-runs?needs=confirmation").Want(200).Shows(map[string]string{"items.0.id": run})
	w.run(t, run).Shows(map[string]string{"usage_source": "estimate", "materials.#": "2",
		"materials.0.spool_id": w.spool, "materials.0.actual_weight_grams": "60",
		"materials.1.spool_id": twin, "materials.1.actual_weight_grams": "30"})
	testkit.Equal(t, w.remaining(t), "1000", "the spool")
	w.Post(t, "/api/v1/production-runs/"+run+"/cancel", nil).Want(200)
	testkit.Equal(t, w.remaining(t), "940", "the spool")
	w.Get(t, "/api/v1/spools/"+twin).Want(200).Shows(map[string]string{"remaining_weight_grams": "970"})
}

// A question stays until a person answers it: after the end of the job, and while the printer prints the next one.
func TestQuestionStays(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	run := w.plan(t)
	at := "/api/v1/printers/" + w.printer + "/answer"
	testkit.Equal(t, w.send(t, "printing", with(j{"adopted": true})), "null", "the run")
	end := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	w.sequence++
	w.watcher.Post(t, states, j{"states": []j{{"printer_id": w.printer, "sequence": w.sequence, "state": "idle",
		"observed_at": end.Format(time.RFC3339), "job": with(j{"outcome": "completed"})}}}).Want(200)
	w.send(t, "idle", nil)
	other := w.send(t, "printing", j{"id": "2", "file": "other.gcode"})
	w.Get(t, states+"?question=true").Want(200).Shows(map[string]string{"total": "1", "items.0.asked.id": "1",
		"items.0.asked.file": "dragon.gcode", "items.0.job.id": "2", "items.0.needs_person": "true"})
	w.Get(t, states+"?needs_person=true").Want(200).Shows(map[string]string{"total": "1"})
	w.Get(t, states+"?needs_person=false").Want(200).Shows(map[string]string{"total": "0"})
	w.Post(t, at, j{"job": "1", "answer": "run", "run_id": other}).WantError(400, "UNKNOWN_REFERENCE")
	w.Post(t, at, j{"job": "1", "answer": "run", "run_id": run}).Want(200)
	w.run(t, run).Shows(map[string]string{"status": "completed", "actual_total_filament_grams": "100"})
	w.run(t, other).Shows(map[string]string{"status": "in_progress"})
	w.Get(t, states+"?question=false").Want(200).Shows(map[string]string{"total": "1", "items.0.asked": "null"})
}

// A job whose end was not seen goes on, and ends as it ends.
func TestJobOutOfSight(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	run, next := w.plan(t), w.plan(t)
	w.send(t, "printing", with(nil))
	w.send(t, "idle", with(j{"outcome": "unknown"}))
	w.Get(t, "/api/v1/production-runs?needs=confirmation").Want(200).Shows(map[string]string{"items.0.id": run})
	testkit.Equal(t, w.send(t, "printing", with(nil)), run, "the run that goes on")
	w.Get(t, "/api/v1/production-runs?needs=confirmation").Want(200).Shows(map[string]string{"total": "0"})
	w.Get(t, states).Want(200).Shows(map[string]string{"items.0.job.outcome": "null"})
	w.Post(t, "/api/v1/production-runs/"+next+"/start", nil).WantError(409, "PRINTER_BUSY")
	w.send(t, "idle", with(j{"outcome": "completed"}))
	w.run(t, run).Shows(map[string]string{"status": "completed", "actual_total_filament_grams": "100"})
	testkit.Equal(t, w.remaining(t), "900", "the spool")
}

// A job without a name asks a person, until the printer says the name.
func TestLateName(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	run := w.plan(t)
	testkit.Equal(t, w.send(t, "printing", j{"id": "1"}), "null", "the run without a name")
	w.Get(t, states).Want(200).Shows(map[string]string{"items.0.question": "true"})
	testkit.Equal(t, w.send(t, "printing", with(nil)), run, "the run")
	w.Get(t, states).Want(200).Shows(map[string]string{"items.0.question": "false", "items.0.job.file": "dragon.gcode"})
	testkit.Equal(t, w.runs(t), "1", "runs")
}

// The names that printers and upload tools make of the name of a file find its run; a short one asks.
func TestNamesOfFiles(t *testing.T) {
	t.Parallel()
	for name, found := range map[string]bool{"Big%20Dragon%20%28v2%29.gcode": true, "big_dragon_(v2).bgcode": true,
		"/usb/Big Dragon (v2).gcode.3mf": true, "1712345678_Big Dragon (v2)_plate_2.gcode": true, "BIGDRA~1.GCO": false} {
		w := newWatched(t)
		w.Patch(t, "/api/v1/products/"+w.product, j{"file_name": "Big Dragon (v2).gcode"}).Want(200)
		run := w.plan(t)
		want := "null"
		if found {
			want = run
		}
		testkit.Equal(t, w.send(t, "printing", j{"id": "1", "file": name}), want, "%s", name)
	}
	w := newWatched(t)
	w.Patch(t, "/api/v1/products/"+w.product, j{"file_name": "_.gcode"}).Want(200)
	w.run(t, w.send(t, "printing", j{"id": "1", "file": "cache/.3mf"})).Shows(map[string]string{"items.#": "0"})
}

// A product that a person has given to the run of a file is that of the next print of the file.
func TestProductOfFileIsRemembered(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	run := w.send(t, "printing", j{"id": "1", "file": "holder.gcode"})
	w.Post(t, "/api/v1/production-runs/"+run+"/items", j{"product_id": w.product, "quantity": 4}).Want(201)
	w.send(t, "idle", j{"id": "1", "outcome": "completed", "used": []j{{"grams": 80}}})
	w.run(t, w.send(t, "printing", j{"id": "2", "file": "cache/Holder.gcode.3mf"})).Shows(map[string]string{
		"items.0.product_id": w.product, "items.0.quantity": "4"})
	w.send(t, "idle", j{"id": "2", "outcome": "unknown"})
	run = w.send(t, "printing", j{"id": "3", "file": "holder.gcode", "plate": 2})
	w.run(t, run).Shows(map[string]string{"items.#": "0"})
}

// A job that the printer no longer has ends, also if the printer is not well, and its run waits for a person.
func TestForgottenJob(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	run := w.plan(t)
	w.send(t, "printing", with(nil))
	w.send(t, "unknown", with(j{"id": "2", "file": "x.gcode"}))
	w.Get(t, "/api/v1/production-runs?needs=confirmation").Want(200).Shows(map[string]string{"items.0.id": run})
	run = w.send(t, "printing", with(j{"id": "2", "file": "x.gcode"}))
	w.run(t, run).Shows(map[string]string{"status": "in_progress"})
	testkit.Equal(t, w.runs(t), "2", "runs")

	// A run that somebody else has started keeps the printer: no run is made that cannot start.
	w = newWatched(t)
	w.Post(t, "/api/v1/production-runs", j{"printer_id": w.printer, "status": "in_progress"}).Want(201)
	testkit.Equal(t, w.send(t, "printing", with(nil)), "null", "the run")
	testkit.Equal(t, w.runs(t), "1", "runs")
}

// States of a printer that another watcher has leased are refused, and so are those that no later state can follow.
func TestRefusedStates(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.watcher.Post(t, states+"/lease", j{"watcher": "a", "printer_ids": []string{w.printer}}).Want(200)
	send := func(watcher string, sequence int64) *testkit.Response {
		return w.watcher.Post(t, states, j{"watcher": watcher, "states": []j{{"printer_id": w.printer, "sequence": sequence,
			"state": "printing", "job": with(nil)}}}).Want(200)
	}
	now := time.Now().UnixMicro()
	send("b", now).Shows(map[string]string{"results.0.outcome": "refused", "results.0.error.code": "LEASED"})
	send("a", 1<<53-1).Shows(map[string]string{"results.0.outcome": "refused", "results.0.error.code": "SEQUENCE_AHEAD"})
	send("a", now).Shows(map[string]string{"results.0.outcome": "accepted"})
	w.Hold(t, `update printer_leases set expires_at = now() where id = '`+w.printer+`'`).Commit()
	send("b", now+1).Shows(map[string]string{"results.0.outcome": "accepted"})
}

// People remove, move and end runs, load spools and remove printers, while jobs start and end and spools change places:
// nothing fails.
func TestJobsBesidePeople(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	second := w.Post(t, "/api/v1/printers", j{"name": "Second"}).Want(201).ID()
	spare := w.other(t, 0)
	w.trays(t, w.printer, j{"slot": "A1", "tag": "T"})
	w.load(t, w.printer, "1", w.spool) // whose tag changes between the printers
	sequence := 100
	for n := range 12 {
		run := w.plan(t)
		material := w.run(t, run).Text("materials.0.id")
		gone := w.Post(t, "/api/v1/printers", j{"name": fmt.Sprint("Gone ", n)}).Want(201).ID()
		sequence += 10
		state := func(printer string, ahead int, state string, job j) j {
			job["id"] = fmt.Sprint(n)
			tray := j{"slot": "A1", "tag": "T"}
			if (ahead+n)%2 == 0 {
				tray = j{"slot": "A1", "empty": true}
			}
			return j{"printer_id": printer, "sequence": sequence + ahead, "state": state, "job": with(job), "slots": []j{tray}}
		}
		calls := []func() (*testkit.Response, error){
			func() (*testkit.Response, error) {
				return w.watcher.Send("POST", states, j{"states": []j{state(w.printer, 1, "printing", j{}),
					state(w.printer, 2, "idle", j{"outcome": "completed"})}})
			},
			func() (*testkit.Response, error) {
				return w.watcher.Send("POST", states, j{"states": []j{state(second, 1, "printing", j{}),
					state(second, 2, "idle", j{"outcome": "completed"})}})
			},
			func() (*testkit.Response, error) {
				return w.watcher.Send("POST", states, j{"states": []j{state(gone, 1, "printing", j{})}})
			},
			func() (*testkit.Response, error) {
				return w.watcher.Send("POST", states+"/lease", j{"watcher": "a", "printer_ids": []string{gone, second}})
			},
			func() (*testkit.Response, error) { return w.Send("DELETE", "/api/v1/printers/"+gone, nil) },
			func() (*testkit.Response, error) {
				return w.Send("PUT", "/api/v1/printers/"+second+"/slots/1", j{"spool_id": spare})
			},
			func() (*testkit.Response, error) {
				return w.Send("POST", "/api/v1/production-runs/"+run+"/materials/"+material+"/exchange", j{"spool_id": spare})
			},
			func() (*testkit.Response, error) {
				if n%3 == 0 {
					return w.Send("PATCH", "/api/v1/production-runs/"+run, j{"printer_id": second})
				}
				if n%3 == 1 {
					return w.Send("POST", "/api/v1/production-runs/"+run+"/cancel", j{})
				}
				return w.Send("DELETE", "/api/v1/production-runs/"+run, nil)
			},
		}
		testkit.Concurrently(len(calls), func(i int) {
			if a, err := calls[i](); err != nil || a.Status >= 500 {
				t.Errorf("call %d: %v %v", i, a, err)
			}
		})
	}
}

// Progress alone is stored when it has grown by 1 %, and at most every 30 seconds.
func TestProgressIsStoredSeldom(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.send(t, "printing", with(j{"progress": 0.1}))
	shown := func(want string) {
		t.Helper()
		w.Get(t, states).Want(200).Shows(map[string]string{"items.0.job.progress": want})
	}
	w.send(t, "printing", with(j{"progress": 0.5}))
	shown("0.1")
	w.Hold(t, `update printer_states set received_at = now() - interval '31 seconds' where id = '`+w.printer+`'`).Commit()
	w.send(t, "printing", with(j{"progress": 0.109}))
	shown("0.1")
	w.send(t, "printing", with(j{"progress": 0.11}))
	shown("0.11")
	w.send(t, "printing", with(j{"progress": 0.9}))
	shown("0.11")
}

// Old changes and jobs without a run are deleted, however many there are.
func TestTrimStates(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.send(t, "idle", with(j{"outcome": "completed"}))
	w.Hold(t, `insert into printer_state_changes (id, printer_id, state, created_at)
		select uuid_v7(), id, 'idle', now() - interval '31 days' from printers, generate_series(1, 10100)
		where id = '`+w.printer+`'`).Commit()
	w.Hold(t, `insert into printer_jobs (printer_id, job, details, created_at)
		select id, 'old ' || n, '{}', now() - interval '91 days' from printers, generate_series(1, 3) n
		where id = '`+w.printer+`'`).Commit()
	testkit.Check(t, production.TrimStates(t.Context(), w.API.DB))
	w.Get(t, states+"/changes").Want(200).Shows(map[string]string{"total": "1"})
	var left int
	jobs := db.SQL(`select count(*) from printer_jobs where printer_id = $1`, w.printer).Into(&left)
	testkit.Check(t, w.API.DB.Read(db.As(t.Context(), w.Actor), jobs))
	testkit.Equal(t, left, 1, "jobs")
}
