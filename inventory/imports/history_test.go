package imports_test

import (
	"strings"
	"testing"

	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/tests/testkit"
)

// A check, an import and a command say how many rows of new resources came in with an earlier import of the farm.
func TestRepeatedRows(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	c, other := api.Operator(t), api.Operator(t)
	// wants checks the file, and then imports it if imported is set.
	wants := func(c *testkit.Client, what, query, file, want string, imported bool) {
		t.Helper()
		answers := []*testkit.Response{
			c.With("Content-Type", "text/csv").Post(t, what+"/import/check?"+query, file).Want(200)}
		if imported {
			answers = append(answers, c.With("Content-Type", "text/csv").Post(t, what+"/import?"+query, file).Want(200))
		}
		for _, a := range answers {
			a.Shows(map[string]string{"repeated_rows": want})
			if (a.Text("repeated_at") == "null") != (want == "0") {
				t.Errorf("%s repeated rows, last at %s", want, a.Text("repeated_at"))
			}
		}
	}
	const list = "material_type,color,diameter_mm,net_weight_grams,purchase_price\n" +
		"PLA,Red,1.75,1000,20.5\nPLA,Red,1.75,1000,20.5\nPETG,Blue,1.75,750,\n"
	c.With("Content-Type", "text/csv").Post(t, spools+"/import?dry_run=true", list).Want(200)
	wants(c, spools, "", list, "0", true)
	wants(other, spools, "", list, "0", true)
	// The same rows with other columns' order, numbers and separators; a third equal row is new.
	wants(c, spools, "mode=upsert", "color;material_type;diameter_mm;net_weight_grams;purchase_price\n"+
		"Red;pla;1,75;1000;20,5\nRed;PLA;1,75;1000;20,5\nRed;PLA;1,75;1000;20,5\nRed;PLA;1,75;999;20,5\n", "2", false)
	wants(c, spools, "", list, "3", true)
	wants(c, spools, "skip_invalid=true", list+"PLO,Red,1.75,1000,\n", "3", false)
	// Rows that change spools, and those that change nothing, repeat nothing.
	wants(c, spools, "mode=upsert", "number,material_type,color,diameter_mm,net_weight_grams,purchase_price\n"+
		"1,PLA,Red,1.75,1000,20.5\n2,PLA,Pink,1.75,1000,20.5\n", "0", true)
	// A row of several spools is one row.
	const several = "material_type,color,diameter_mm,net_weight_grams,quantity\nPLA,Green,1.75,1000,5\n"
	const mapped = `mapping={"quantity":"quantity"}`
	wants(c, spools, mapped, several, "0", true)
	wants(c, spools, mapped, strings.Replace(several, ",5", ",7", 1), "1", false)
	c.Get(t, spools).Shows(map[string]string{"total": "11"})

	const some = "material_type,color,diameter_mm\nPLA,Red,1.75\n"
	wants(c, filaments, "mode=upsert", some, "0", true)
	wants(c, filaments, "mode=upsert", some, "1", true)
	wants(c, vendors, "", "name\nV\n", "0", true)
	const both = "material_type,color,diameter_mm,net_weight_grams\nPLA,Mint,1.75,1000\n"
	wants(c, filaments, "", both, "0", true)
	wants(c, spools, "", both, "0", true)
	wants(c, vendors, "mode=upsert", "name\nV\nW\n", "0", true)

	out, _, err := command(t.Context(), c, list, "import", "spools", "--mode", "create", "--dry-run")
	if err != nil || !strings.Contains(out, "rows of new spools that came in before: 3; last at 2") {
		t.Errorf("the command: %v %s", err, out)
	}
}
