package imports_test

import (
	"strings"
	"testing"

	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/tests/testkit"
)

// A file is read as all its rows show, and what stays open is refused with both readings, also by the command. The
// sender can decide it.
func TestImportReadsTheWholeFile(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	c := api.Operator(t)
	const columns = "material_type\tcolor\tdiameter_mm\tnet_weight_grams\tspool_weight_grams\tpurchase_date\tarchived\n"
	const open = columns + "PLA\tRed\t1.75\t1.000\t200,5\t01/02/2024\tNEIN\n"
	for _, query := range []string{"mode=create", "mode=upsert", "dry_run=true"} {
		refused := postMode(t, c, query, open).Fields("line 2")
		for _, want := range []string{"net_weight_grams can be read as 1000 or as 1,",
			"purchase_date can be read as 2024-02-01 or as 2024-01-02,"} {
			if !strings.Contains(refused.Text("errors.0.message"), want) {
				t.Errorf("%s: %s, want %s", query, refused.Text("errors.0.message"), want)
			}
		}
	}
	postMode(t, c, "decimal=dot", open).Fields("decimal")
	postMode(t, c, "date_order=ymd", open).Fields("date_order")
	c.Get(t, spools).Shows(map[string]string{"total": "0"})

	postMode(t, c, "decimal=comma&date_order=mdy", open).Want(200).Shows(imported(1, 0, 0, 0))
	c.Get(t, spools).Shows(map[string]string{"items.0.net_weight_grams": "1000", "items.0.spool_weight_grams": "200.5",
		"items.0.purchase_date": "2024-01-02", "items.0.archived": "false"})
	shown := columns +
		"PLA\tBlue\t1,75\t1.000\t200,5\t01/02/2024\tNEIN\nPLA\tGreen\t1,75\t750 g\t1.000\t31/01/2024\tNEIN\n"
	postMode(t, c, "mode=create", shown).Want(200).Shows(imported(2, 0, 0, 0))
	c.Get(t, spools+"?color=Blue").Shows(map[string]string{"items.0.net_weight_grams": "1000",
		"items.0.purchase_date": "2024-02-01"})
	c.Get(t, spools+"?color=Green").Shows(map[string]string{"items.0.net_weight_grams": "750",
		"items.0.spool_weight_grams": "1000"})

	other := api.Operator(t)
	_, stderr, err := command(t.Context(), other, open, "import", "spools")
	if err == nil || !strings.HasPrefix(stderr, "line 2: net_weight_grams can be read as 1000 or as 1,") {
		t.Errorf("the command: %s%v", stderr, err)
	}
	_, _, err = command(t.Context(), other, open, "import", "spools", "--decimal", "comma", "--date-order", "dmy")
	testkit.Check(t, err)
	other.Get(t, spools).Shows(map[string]string{"items.0.net_weight_grams": "1000",
		"items.0.purchase_date": "2024-02-01"})
}

// The number of a spool is read as the other numbers of its file.
func TestImportReadsNumbersOfSpools(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	c.Post(t, spools, spool(j{}))
	postMode(t, c, "mode=update", "number\tnotes\n1.000\tx\n").Fields("line 2")
	postMode(t, c, "mode=update&decimal=point", "number\tnotes\n1.000\tx\n").Want(200).Shows(imported(0, 1, 0, 0))
}

// Vendors and filaments are read by the same rule.
func TestImportOfVendorsReadsTheWholeFile(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	vendors := c.With("Content-Type", "text/csv")
	const at = "/api/v1/vendors"
	vendors.Post(t, at+"/import", "name\tempty_spool_weight_grams\nA\t1.250\n").Fields("line 2")
	vendors.Post(t, at+"/import", "name\tempty_spool_weight_grams\nA\t1.250\nB\t0,5 kg\n").Want(200)
	c.Get(t, at+"?name=A").Shows(map[string]string{"items.0.empty_spool_weight_grams": "1250"})
	c.Get(t, at+"?name=B").Shows(map[string]string{"items.0.empty_spool_weight_grams": "500"})
	vendors.Post(t, at+"/import", "name;empty_spool_weight_grams\nC;1.250\n").Want(200)
	c.Get(t, at+"?name=C").Shows(map[string]string{"items.0.empty_spool_weight_grams": "1250"})
	const filaments = "/api/v1/filaments"
	vendors.Post(t, filaments+"/import", "material_type;color;diameter_mm;net_weight_grams;price;density_g_cm3\n"+
		"PLA;Red;1,75;1.000;€ 1.024,99;1,240\n").Want(200)
	c.Get(t, filaments).Shows(map[string]string{"items.0.net_weight_grams": "1000", "items.0.price": "1024.99",
		"items.0.density_g_cm3": "1.24"})
}
