package production_test

import (
	"os"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// sliced sends a file of the tests of the slicers.
func sliced(t *testing.T, c *testkit.Client, path, file string) *testkit.Response {
	t.Helper()
	data, err := os.ReadFile("../catalog/slicer/testdata/" + file)
	testkit.Check(t, err)
	return c.With("Content-Type", "application/octet-stream").Post(t, path, string(data))
}

// The file of the test: 62 minutes, 11.97 g of PLA in #FF8000, three copies.
const slicedRun = runs + "/from-file?filename=hook.gcode"

func TestRunFromFile(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c := api.Operator(t)
	fire := j{"color": "Fire", "color_hex": "#ff8000"}
	createSpool(t, c, j{"color": "Sky", "color_hex": "#0080ff"})
	createSpool(t, c, fire)
	opened := createSpool(t, c, j{"color": "fire", "color_hex": "#ff8000", "remaining_weight_grams": 100})
	createSpool(t, c, j{"color": "Fire", "color_hex": "#ff8000", "remaining_weight_grams": 11})
	first := c.Post(t, "/api/v1/printers", j{"name": "First"}).Want(201).ID()
	second := c.Post(t, "/api/v1/printers", j{"name": "Second"}).Want(201).ID()

	// The opened spool with enough filament is proposed. No product was made from the file.
	dry := sliced(t, c, slicedRun+"&dry_run=true", "prusaslicer.gcode").Want(200)
	dry.Shows(map[string]string{"dry_run": "true", "run_id": "null", "product_id": "null", "quantity": "3",
		"estimated_total_filament_grams": "11.97", "materials.0.weight_grams": "11.97", "materials.0.match": "equal",
		"materials.0.spool_id": opened, "materials.0.spool_number": "3", "materials.0.enough": "true",
		"warnings.0.text": "No product was made from this file, so the run has no item."})
	c.Get(t, runs).Want(200).Shows(map[string]string{"total": "0"})

	made := sliced(t, c, slicedRun, "prusaslicer.gcode").Want(200)
	c.Get(t, runs+"/"+made.Text("run_id")).Want(200).Shows(map[string]string{"status": "pending", "notes": "hook.gcode",
		"estimated_total_filament_grams": "11.97", "estimated_print_time_hours": dry.Text("estimated_print_time_hours"),
		"items": "[]", "materials.0.spool_id": opened, "materials.0.estimated_weight_grams": "11.97"})
	if h := made.Text("estimated_print_time_hours"); !strings.HasPrefix(h, "1.03") {
		t.Errorf("the run takes %s hours", h)
	}

	// What other runs need is not there any more, a spool in another printer comes last, and one in the printer first.
	c.Patch(t, runs+"/"+made.Text("run_id"), j{"printer_id": first}).Want(200)
	c.Patch(t, runs+"/"+made.Text("run_id")+"/materials/"+c.Get(t, runs+"/"+made.Text("run_id")).Want(200).
		Text("materials.0.id"), j{"estimated_weight_grams": 95}).Want(200)
	sliced(t, c, slicedRun+"&dry_run=true", "prusaslicer.gcode").Want(200).
		Shows(map[string]string{"materials.0.spool_number": "2", "materials.0.enough": "true"})
	c.Do(t, "PUT", "/api/v1/printers/"+first+"/slots/1", j{"spool_number": 4}).Want(200)
	c.Do(t, "PUT", "/api/v1/printers/"+second+"/slots/1", j{"spool_number": 2}).Want(200)
	sliced(t, c, slicedRun+"&dry_run=true", "prusaslicer.gcode").Want(200).
		Shows(map[string]string{"materials.0.spool_number": "3", "materials.0.enough": "false"})
	loaded := sliced(t, c, slicedRun+"&printer_id="+first, "prusaslicer.gcode").Want(200)
	loaded.Shows(map[string]string{"materials.0.spool_number": "4", "materials.0.enough": "false"})
	c.Get(t, runs+"/"+loaded.Text("run_id")).Want(200).Shows(map[string]string{"printer_name": "First"})

	// Neither an archived nor a removed spool is proposed, although they are not loaded and have enough.
	few := j{"color": "Fire", "color_hex": "#ff8000", "remaining_weight_grams": 20}
	c.Patch(t, "/api/v1/spools/"+createSpool(t, c, few), j{"archived": true}).Want(200)
	c.Delete(t, "/api/v1/spools/"+createSpool(t, c, few)).Want(204)
	sliced(t, c, slicedRun+"&dry_run=true", "prusaslicer.gcode").Want(200).
		Shows(map[string]string{"materials.0.spool_number": "3"})

	// The product of the file is found by the sum, or else by the name, or else by its id.
	other := c.NewProduct(t, "Other", 1)
	hook := sliced(t, c, "/api/v1/products/from-file?filename=hook.gcode&name=Hook", "prusaslicer.gcode").Want(200).
		Text("product_id")
	sliced(t, c, runs+"/from-file?filename=renamed.gcode&dry_run=true", "prusaslicer.gcode").Want(200).
		Shows(map[string]string{"product_id": hook, "product_name": "Hook"})
	sliced(t, c, slicedRun+"&dry_run=true", "orcaslicer.gcode").Want(200).Shows(map[string]string{"product_id": hook,
		"warnings.0.text": "The product Hook was made from another file with this name."})
	sliced(t, c, slicedRun+"&dry_run=true&pieces=2&product_id="+other, "prusaslicer.gcode").Want(200).
		Shows(map[string]string{"product_id": other, "product_name": "Product Other", "quantity": "2"})

	// A plate that was removed is not chosen, but the product.
	const clips = "from-file?filename=clips.gcode.3mf"
	plated := sliced(t, c, "/api/v1/products/"+clips, "bambu.gcode.3mf").Want(200).Text("product_id")
	plate := c.Get(t, "/api/v1/products/"+plated).Want(200).Text("plates.0.id")
	c.Patch(t, "/api/v1/products/"+plated, j{"plates": []j{{"id": plate}}}).Want(200)
	sliced(t, c, runs+"/"+clips+"&plate=2&dry_run=true", "bambu.gcode.3mf").Want(200).
		Shows(map[string]string{"product_id": plated})

	// Nothing is made of bad requests, also not by a dry run.
	c.Delete(t, "/api/v1/products/"+other).Want(204)
	total := c.Get(t, runs).Want(200).Text("total")
	stranger := api.Operator(t)
	foreign := stranger.NewProduct(t, "Foreign", 1)
	for _, bad := range []struct{ query, file, code, field string }{
		{"&product_id=" + foreign, "prusaslicer.gcode", "UNKNOWN_REFERENCE", "product_id"},
		{"&product_id=" + other, "prusaslicer.gcode", "UNKNOWN_REFERENCE", "product_id"},
		{"&printer_id=" + hook, "prusaslicer.gcode", "UNKNOWN_REFERENCE", "printer_id"},
		{"&order_id=" + hook, "prusaslicer.gcode", "UNKNOWN_REFERENCE", "order_id"},
		{"&filaments=99", "prusaslicer.gcode", "UNKNOWN_REFERENCE", "filaments"},
		{"&plate=9", "prusaslicer.gcode", "UNKNOWN_REFERENCE", "plate"},
		{"", "files.golden", "UNREADABLE_FILE", "body"},
	} {
		for _, dry := range []string{"", "&dry_run=true"} {
			sliced(t, c, slicedRun+bad.query+dry, bad.file).WantError(400, bad.code).
				Shows(map[string]string{"errors.0.field": bad.field})
		}
	}
	sliced(t, stranger, slicedRun+"&dry_run=true", "prusaslicer.gcode").Want(200).
		Shows(map[string]string{"product_id": "null", "materials.0.spool_id": "null"})
	c.Get(t, runs).Want(200).Shows(map[string]string{"total": total})
}

// Two filaments of a file that are equal use the same spool: it has enough only if it has enough for both.
func TestRunFromFileWithEqualFilaments(t *testing.T) {
	t.Parallel()
	c := newAPI(t).Operator(t)
	spool := createSpool(t, c, j{"color": "Fire", "color_hex": "#ff8000", "remaining_weight_grams": 100})
	file := "; generated by PrusaSlicer 2.7.4 on 2024-05-01 at 10:11:12 UTC\nG28\nG1 X10 Y10 E1\n" +
		"; filament used [mm] = 20000, 20000\n; filament used [g] = 60, 60\n" +
		"; estimated printing time (normal mode) = 1h 2m 5s\n; filament_type = PLA;PLA\n" +
		"; filament_colour = #FF8000;#FF8000\n"
	send := func() *testkit.Response {
		return c.With("Content-Type", "application/octet-stream").Post(t, runs+"/from-file", file).Want(200)
	}
	made := send().Shows(map[string]string{"estimated_total_filament_grams": "120", "materials.0.spool_id": spool,
		"materials.0.enough": "false", "materials.1.spool_id": spool, "materials.1.enough": "false"})
	c.Delete(t, runs+"/"+made.Text("run_id")).Want(204)
	full := createSpool(t, c, j{"color": "Fire", "color_hex": "#ff8000", "remaining_weight_grams": 120})
	made = send().Shows(map[string]string{"materials.0.spool_id": full, "materials.0.enough": "true",
		"materials.1.spool_id": full, "materials.1.enough": "true"})
	c.Get(t, runs+"/"+made.Text("run_id")).Want(200).Shows(map[string]string{
		"materials.0.estimated_weight_grams": "60", "materials.1.estimated_weight_grams": "60"})
}
