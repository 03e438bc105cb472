package production_test

import (
	"fmt"
	"testing"

	"spoolwright/tests/testkit"
)

// trays sends the state of an idle printer with the slots.
func (w *watched) trays(t *testing.T, printer string, slots ...j) {
	t.Helper()
	w.sequence++
	w.watcher.Post(t, states, j{"states": []j{{"printer_id": printer, "sequence": w.sequence, "state": "idle",
		"slots": slots}}}).Want(200).Shows(map[string]string{"results.0.outcome": "accepted"})
}

// loaded checks which spools are in the slots of a printer, and in which.
func (w *watched) loaded(t *testing.T, printer string, want ...string) {
	t.Helper()
	shown := map[string]string{"loaded.#": fmt.Sprint(len(want) / 2)}
	for i := 0; i < len(want); i += 2 {
		shown[fmt.Sprintf("loaded.%d.slot", i/2)] = want[i]
		shown[fmt.Sprintf("loaded.%d.spool_id", i/2)] = want[i+1]
	}
	w.Get(t, "/api/v1/printers/"+printer).Want(200).Shows(shown)
}

// load loads a spool into a slot of a printer as a person does.
func (w *watched) load(t *testing.T, printer, slot string, spool any) {
	t.Helper()
	w.Do(t, "PUT", "/api/v1/printers/"+printer+"/slots/"+slot, j{"spool_id": spool}).Want(200)
}

const zeros = "0000000000000000"

// A spool that a person has loaded once where its tag is follows the tag, to other printers, too.
func TestTagsOfSpools(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	w.Patch(t, "/api/v1/printers/"+w.printer, j{"slots": 4}).Want(200)
	second := w.Post(t, "/api/v1/printers", j{"name": "Second", "slots": 4}).Want(201).ID()
	spool := w.other(t, 0)
	tray := func(slot, tag string) j { return j{"slot": slot, "tag": tag, "material": "PLA"} }
	empty := func(slot string) j { return j{"slot": slot, "empty": true} }

	// An unknown tag loads nothing and is asked about; a spool that a person has loaded without a tag stays.
	w.trays(t, w.printer, empty("A1"), tray("A2", "T1"), tray("A3", zeros), tray("HT1", "T5"),
		tray("T99", "T6"))
	w.loaded(t, w.printer, "1", w.spool)
	w.Get(t, states+"?ids="+w.printer).Want(200).Shows(map[string]string{"items.0.slots.0.unknown": "false",
		"items.0.slots.1.unknown": "true", "items.0.slots.1.tag": "T1", "items.0.slots.2.unknown": "true",
		"items.0.slots.2.tag": "null", "items.0.slots.3.unknown": "false"})
	w.watcher.Post(t, states, j{"states": []j{{"printer_id": w.printer, "sequence": 99, "state": "idle",
		"slots": []j{{"slot": "A\x00", "material": "P\x00LA"}}}}}).Fields("states[0].slots[0].slot",
		"states[0].slots[0].material")
	w.load(t, w.printer, "2", spool)
	w.load(t, w.printer, "3", w.spool)
	w.Get(t, states+"?ids="+w.printer).Want(200).Shows(map[string]string{"items.0.slots.1.unknown": "false"})

	// The tag of another farm is another tag.
	other := newWatched(t)
	other.trays(t, other.printer, tray("A1", "T1"))
	other.loaded(t, other.printer, "1", other.spool)
	w.loaded(t, w.printer, "2", spool, "3", w.spool)

	// The spool follows its tag, out of a slot that the first printer has not said to be empty, and takes a place.
	third := w.other(t, 0)
	w.load(t, second, "4", third)
	w.trays(t, second, tray("D4", "T1"), tray("A4", "T1"), tray("A1", zeros))
	w.loaded(t, second, "4", spool)
	w.loaded(t, w.printer, "3", w.spool)
	w.Get(t, "/api/v1/spools/"+spool).Want(200).Shows(map[string]string{"location": "Second"})
	w.trays(t, w.printer, empty("A1"), empty("A2"), tray("A3", zeros))
	w.loaded(t, second, "4", spool)

	// What a person does counts until the tray changes.
	w.load(t, second, "4", nil)
	w.trays(t, second, tray("A4", "T1"), empty("A1"))
	w.loaded(t, second)
	w.trays(t, second, empty("A4"), tray("A1", "T1"))
	w.loaded(t, second, "1", spool)
	w.trays(t, second, empty("A4"), j{"slot": "A1", "tag": "T1", "empty": true})
	w.loaded(t, second)

	// Another tag in the slot is another spool. A newer assignment replaces an older one.
	w.trays(t, second, tray("A1", "T1"))
	w.trays(t, second, tray("A1", "T2"))
	w.loaded(t, second)
	w.load(t, second, "1", third)
	w.trays(t, second, tray("A1", "T1"))
	w.load(t, second, "1", third)
	w.trays(t, second, empty("A1"))
	w.trays(t, second, tray("A1", "T1"))
	w.loaded(t, second, "1", third)

	// A spool that is removed or archived is not loaded, and asked about.
	w.trays(t, second, empty("A1"))
	w.Patch(t, "/api/v1/spools/"+third, j{"archived": true}).Want(200)
	w.trays(t, second, tray("A1", "T1"))
	w.loaded(t, second)
	w.Get(t, states+"?ids="+second).Want(200).Shows(map[string]string{"items.0.slots.0.unknown": "true"})
	w.Patch(t, "/api/v1/spools/"+third, j{"archived": false}).Want(200)
	w.Do(t, "DELETE", "/api/v1/spools/"+third, nil).Want(204)
	w.trays(t, second, tray("A2", "T2"))
	w.Post(t, "/api/v1/spools/"+third+"/restore", nil).Want(200)
	w.loaded(t, second)
}

// The spool that the printer's software names is loaded into the only slot of the printer, warns if it is not the planned
// one, and is not deducted twice.
func TestNamedSpool(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	run, other := w.plan(t), w.other(t, 0)
	steps := func() *testkit.Response { return w.Get(t, "/api/v1/production-runs/"+run+"/check").Want(200) }
	names := func(number any) { t.Helper(); w.trays(t, w.printer, j{"slot": "T0", "spool_number": number}) }
	names(nil) // and a person has loaded one
	w.loaded(t, w.printer, "1", w.spool)
	names(2)
	w.loaded(t, w.printer, "1", other)
	w.Get(t, states).Want(200).Shows(map[string]string{"items.0.slots.0.spool_number": "2",
		"items.0.slots.0.unknown": "false"})
	steps().Shows(map[string]string{"steps.0.code": "LOAD_SPOOL", "steps.0.spool_id": w.spool})

	// What a person does counts until the name changes.
	w.load(t, w.printer, "1", w.spool)
	names(2)
	names(nil)
	w.loaded(t, w.printer, "1", w.spool)
	names(1)
	steps().Shows(map[string]string{"ready": "true"})
	names(nil)
	w.loaded(t, w.printer)

	// A spool that is archived or removed is not loaded, and neither is an unknown one. The one before is unloaded.
	for _, change := range []func(){
		func() { w.Patch(t, "/api/v1/spools/"+other, j{"archived": true}).Want(200) },
		func() {
			w.Patch(t, "/api/v1/spools/"+other, j{"archived": false}).Want(200)
			w.report(t, 2, 1) // which loads it
			w.load(t, w.printer, "1", nil)
			w.Delete(t, "/api/v1/spools/"+other).Want(204)
		},
	} {
		names(1)
		change()
		names(2)
		w.loaded(t, w.printer)
	}
	w.Post(t, "/api/v1/spools/"+other+"/restore", nil).Want(200)
	w.loaded(t, w.printer)
	names(1)
	names(999_999_999)
	w.loaded(t, w.printer)
	for _, number := range []any{0, 1_000_000_000, "x"} {
		w.watcher.Post(t, states, j{"states": []j{{"printer_id": w.printer, "sequence": 99, "state": "idle",
			"slots": []j{{"slot": "T0", "spool_number": number}}}}}).Fields("states[0].slots[0].spool_number")
	}

	// The software reports the use of another spool than the planned one: a person says what was used.
	names(2)
	testkit.Equal(t, w.send(t, "printing", with(nil)), run, "the run")
	w.report(t, 2, 95)
	w.send(t, "idle", with(j{"outcome": "completed", "used": []j{{"tool": 0, "millimetres": 30000}}}))
	w.Get(t, "/api/v1/production-runs?needs=confirmation").Want(200).Shows(map[string]string{"items.0.id": run})
	testkit.Equal(t, w.remaining(t), "1000", "the planned spool")
	w.Get(t, "/api/v1/spools/"+other).Want(200).Shows(map[string]string{"remaining_weight_grams": "904"})

	// It reports that of a print that nobody has planned: the run has the spool, and the report is its use.
	run = w.send(t, "printing", j{"id": "2", "file": "x.gcode"})
	w.run(t, run).Shows(map[string]string{"materials.0.spool_id": other})
	w.report(t, 2, 4)
	w.send(t, "idle", j{"id": "2", "outcome": "completed", "used": []j{{"tool": 0, "millimetres": 1300}}})
	w.run(t, run).Shows(map[string]string{"status": "completed", "usage_source": "reports"})
	w.Get(t, "/api/v1/spools/"+other).Want(200).Shows(map[string]string{"remaining_weight_grams": "900"})

	// Nobody knows which of several slots it is.
	w.Patch(t, "/api/v1/printers/"+w.printer, j{"slots": 2}).Want(200)
	names(1)
	w.loaded(t, w.printer, "1", other)
}

// A tray with another spool than the planned one warns before the print and while it runs.
func TestTrayOfOtherSpool(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	run, other := w.plan(t), w.other(t, 0)
	steps := func() *testkit.Response { return w.Get(t, "/api/v1/production-runs/"+run+"/check").Want(200) }
	w.trays(t, w.printer, j{"slot": "A1", "tag": "T1"})
	w.load(t, w.printer, "1", other)
	w.load(t, w.printer, "1", w.spool)
	w.trays(t, w.printer, j{"slot": "A1", "tag": "T2"})
	w.load(t, w.printer, "1", other)
	w.trays(t, w.printer, j{"slot": "A1", "tag": "T1"})
	steps().Shows(map[string]string{"ready": "true"})
	w.trays(t, w.printer, j{"slot": "A1", "tag": "T2"})
	steps().Shows(map[string]string{"steps.0.code": "LOAD_SPOOL", "steps.0.spool_id": w.spool})
	testkit.Equal(t, w.send(t, "printing", with(nil)), run, "the run")
	steps().Shows(map[string]string{"steps.0.code": "LOAD_SPOOL", "steps.0.spool_id": w.spool})
}
