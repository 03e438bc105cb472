package production_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"spoolwright/tests/testkit"
)

// TestStatesModel sends random states of jobs, with duplicates, gaps and disorder, in random parts. Afterwards, each job
// that printed has one run at most and each run one job, no planned run was taken that the file does not name, and the
// spool lacks exactly the grams of the runs that have ended. A state that is not newer than the stored one is a
// duplicate, and the stored one never gets older.
func TestStatesModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(testkit.InRigs(6, 200)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 60))
			w := newWatched(t)
			planned := map[string]bool{}
			for range r.IntN(4) {
				planned[w.plan(t)] = true
			}
			foreign := w.Post(t, "/api/v1/production-runs", j{"printer_id": w.printer, "notes": "other.gcode"}).Want(201).ID()
			var all []j
			add := func(state string, job j) {
				all = append(all, j{"printer_id": w.printer, "sequence": len(all) + 1, "state": state, "job": job})
			}
			add("idle", nil)
			for n := range 1 + r.IntN(6) {
				job := with(j{"id": fmt.Sprint("job ", n), "certain": r.IntN(5) > 0})
				progress := 0.0
				for range r.IntN(6) {
					progress = min(progress+r.Float64()/3, 1)
					job["progress"] = progress
					add([]string{"printing", "printing", "paused", "attention"}[r.IntN(4)], clone(t, job))
					if r.IntN(5) == 0 {
						add([]string{"offline", "unknown"}[r.IntN(2)], nil)
					}
				}
				if r.IntN(5) == 0 {
					continue // the end is missed
				}
				job["outcome"] = []string{"completed", "completed", "completed", "cancelled", "failed"}[r.IntN(5)]
				if r.IntN(2) == 0 {
					job["used"] = []j{{"millimetres": 1000 * (1 + r.IntN(30))}}
				}
				for range 1 + r.IntN(3) {
					add("idle", clone(t, job))
				}
				if r.IntN(2) == 0 {
					add("idle", nil)
				}
			}
			runOf, jobOf := map[string]string{}, map[string]string{}
			for i := 0; i < len(all); {
				part := all[i:min(i+1+r.IntN(8), len(all))]
				if r.IntN(4) > 0 {
					i += len(part) // otherwise, the part comes again
				}
				if r.IntN(6) == 0 && i+1 < len(all) {
					i++ // a gap
				}
				sent := append([]j{}, part...)
				if r.IntN(4) == 0 {
					r.Shuffle(len(sent), func(a, b int) { sent[a], sent[b] = sent[b], sent[a] })
				}
				before := w.stored(t)
				a := w.watcher.Post(t, states, j{"states": sent}).Want(200)
				if now := w.stored(t); now < before {
					t.Errorf("after %d, the state %d is stored", before, now)
				}
				for n, s := range sent {
					if s["sequence"].(int) <= before {
						a.Shows(map[string]string{fmt.Sprintf("results.%d.outcome", n): "duplicate"})
					}
					job, _ := s["job"].(j)
					run := a.Text(fmt.Sprintf("results.%d.run_id", n))
					if a.Text(fmt.Sprintf("results.%d.outcome", n)) != "accepted" || job == nil || run == "null" {
						continue
					}
					id := job["id"].(string)
					if runOf[id] != "" && runOf[id] != run || jobOf[run] != "" && jobOf[run] != id {
						t.Fatalf("%s has the run %s; before, it had %q, and the run belonged to %q", id, run, runOf[id], jobOf[run])
					}
					runOf[id], jobOf[run] = run, id
				}
			}
			w.run(t, foreign).Shows(map[string]string{"status": "pending"})
			used := 0.0
			list := w.Get(t, "/api/v1/production-runs?limit=100").Want(200)
			active := 0
			for i := range list.List("items") {
				run := w.run(t, list.Text(fmt.Sprintf("items.%d.id", i)))
				switch status := run.Text("status"); {
				case run.Text("inventory_updated") == "true":
					grams, err := run.Value("actual_total_filament_grams").(json.Number).Float64()
					testkit.Check(t, err)
					used += grams
				case status != "pending" && jobOf[run.ID()] == "":
					t.Errorf("run %s is %s without a job", run.ID(), status)
				case status != "pending":
					active++
				}
			}
			left, err := w.Get(t, "/api/v1/spools/"+w.spool).Want(200).Value("remaining_weight_grams").(json.Number).Float64()
			testkit.Check(t, err)
			if d := 1000 - used - left; d > 1e-6 || d < -1e-6 {
				t.Errorf("the spool has %v g after runs of %v g", left, used)
			}
			waiting := w.Get(t, "/api/v1/production-runs?needs=confirmation&limit=100").Want(200)
			if n := len(waiting.List("items")); active-n > 1 {
				t.Errorf("%d runs are in progress, and %d of them wait for a person", active, n)
			}
		})
	}
}

// stored returns the sequence of the printer's stored state.
func (w *watched) stored(t *testing.T) int {
	t.Helper()
	n, err := w.Get(t, states+"?ids="+w.printer).Want(200).Value("items.0.sequence").(json.Number).Int64()
	testkit.Check(t, err)
	return int(n)
}

// clone returns a copy of a job.
func clone(t *testing.T, job j) (copied j) {
	t.Helper()
	text, err := json.Marshal(job)
	testkit.Check(t, err)
	testkit.Check(t, json.Unmarshal(text, &copied))
	return copied
}
