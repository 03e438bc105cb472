package imports_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

const importPath = "/api/v1/spools/import"

func postCSV(t *testing.T, c *testkit.Client, file string) *testkit.Response {
	t.Helper()
	return c.With("Content-Type", "text/csv; charset=utf-8").Post(t, importPath, file)
}

// An import through the API creates all spools of a file, in its order, with the user in their ledgers. The export
// through the API is that of the command, also with several pages, and can be imported.
func TestImportAndExportThroughAPI(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes)
	c, other := api.Operator(t), api.Operator(t)
	var file strings.Builder
	file.WriteString("\ufeffMaterial type;COLOR;diameter_mm;net_weight_grams;brand\r\n")
	for n := range 1003 {
		fmt.Fprintf(&file, "petg;Farbe %04d;1,75;1000,5;\r\n", n)
	}
	file.WriteString(";;;;\r\n")
	postCSV(t, c, file.String()).Want(200).Shows(map[string]string{
		"created": "1003", "updated": "0", "rows.1002.row": "1004", "rows.1002.number": "1003",
		"rows.1002.action": "created",
	})
	list := c.Get(t, "/api/v1/spools?limit=1").Want(200).Shows(map[string]string{
		"total": "1003", "items.0.color": "Farbe 1002", "items.0.material_type": "PETG",
		"items.0.net_weight_grams": "1000.5",
	})
	c.Get(t, "/api/v1/spools/"+list.Text("items.0.id")+"/usage").Want(200).Shows(map[string]string{
		"total": "1", "items.0.kind": "created", "items.0.user_id": c.Actor.User,
	})

	exported := c.Get(t, "/api/v1/spools/export").Want(200)
	if string(exported.Body) != export(t, c, "csv") || strings.Count(string(exported.Body), "\n") != 1004 {
		t.Error("the export of the API is not that of the command")
	}
	for name, want := range map[string]string{
		"Content-Type": "text/csv; charset=utf-8", "Content-Disposition": `attachment; filename="spools.csv"`,
	} {
		testkit.Equal(t, exported.Header.Get(name), want, "%s", name)
	}
	if body := other.Get(t, "/api/v1/spools/export").Want(200).Body; strings.Count(string(body), "\n") != 1 {
		t.Errorf("the export of another tenant has rows: %.300s", body)
	}
	postCSV(t, other, string(exported.Body)).Want(200).Shows(map[string]string{"created": "1003"})
	postCSV(t, other, header).Want(200).Shows(map[string]string{"created": "0"})
}

// An import through the API with an invalid row or file creates nothing and names the lines.
func TestImportThroughAPIIsAtomic(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	const good = "PLA,Black,1.75,1000\n"
	invalid := postCSV(t, c, header+"\n"+good+"PLO,,1.75,1000\n"+good+"PLA,x,3,1000\n").Fields("line 3", "line 5")
	invalid.Shows(map[string]string{"errors.0.message": "material_type must be one of PLA, PETG, ABS, TPU, ASA, Nylon, " +
		"PC, HIPS, PVA, Custom; the value is \"PLO\"; color is required"})
	many := postCSV(t, c, header+"\n"+strings.Repeat("PLA,,1.75,1000\n", 70)).WantError(422, "VALIDATION_ERROR")
	many.Shows(map[string]string{"errors.49.field": "line 51", "errors.50.message": "20 other rows are invalid"})
	testkit.Equal(t, len(many.List("errors")), 51, "errors")
	for file, field := range map[string]string{
		"": "body", "PK\x03\x04": "body", "color,weight\n": "line 1", "\n\ncolor\n": "line 3",
		header + "\n" + strings.Repeat(good, 10_001): "body",
		header + "\nPLA,\"x":                         "line 2",
	} {
		postCSV(t, c, file).Fields(field)
	}
	postCSV(t, c, header+"\n"+strings.Repeat("x", 1<<20)).WantError(413, "PAYLOAD_TOO_LARGE")
	for _, media := range []string{"application/json", "", "text/plain", "text/csv; charset=latin1"} {
		c.With("Content-Type", media).Post(t, importPath, header).WantError(415, "UNSUPPORTED_MEDIA_TYPE")
	}
	c.With("Content-Type", "text/csv").With("Content-Encoding", "gzip").Post(t, importPath, header).
		WantError(415, "UNSUPPORTED_MEDIA_TYPE")
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "0"})
	// On a busy machine, the largest import can take longer than a request may: then nothing of it remains.
	largest := postCSV(t, c, header+"\n"+strings.Repeat(good, 10_000))
	for range 10 {
		if largest.Status == 503 {
			largest = postCSV(t, c, header+"\n"+strings.Repeat(good, 10_000))
		}
	}
	largest.Want(200).Shows(map[string]string{"created": "10000"})
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "10000"})
}

func TestImportSpoolsOfFilaments(t *testing.T) {
	t.Parallel()
	c := operator(t)
	id := c.Post(t, filaments, filament(j{"vendor": "V", "net_weight_grams": 500, "price": 5})).Want(201).ID()
	c.Post(t, filaments, filament(j{"color": "Red"})).Want(201)
	own := spools + "/" + c.Post(t, spools, spool(j{"brand": "Own", "color": "Blue"})).Want(201).ID()
	csv := c.With("Content-Type", "text/csv")
	csv.Post(t, spools+"/import", "filament_id,filament_number,notes,net_weight_grams\n"+id+",,a,\n,1,b,20\n").
		Want(200).Shows(map[string]string{"created": "2"})
	c.Get(t, spools+"?filament_id="+id+"&sort_order=asc").Want(200).Shows(map[string]string{"total": "2",
		"items.0.brand": "V", "items.0.net_weight_grams": "500", "items.0.purchase_price": "5",
		"items.1.net_weight_grams": "20", "items.1.notes": "b"})

	// Rows attach and detach spools, or are invalid.
	csv.Post(t, spools+"/import?mode=update", "number,filament_id,color\n1,"+id+",Black\n2,,Green\n").Want(200).
		Shows(map[string]string{"updated": "2"})
	c.Get(t, own).Want(200).Shows(map[string]string{"filament_id": id, "brand": "V", "color": "Black"})
	c.Get(t, spools+"?number=2").Want(200).
		Shows(map[string]string{"items.0.filament_id": "null", "items.0.color": "Green", "items.0.brand": "V"})
	csv.Post(t, spools+"/import?mode=update", "number,color,notes\n1,Black,n\n2,Grey,n\n").Want(200)
	csv.Post(t, spools+"/import?mode=update", "number,color\n1,Red\n2,Red\n").Fields("line 2")
	csv.Post(t, spools+"/import?mode=upsert",
		"number,filament_id,color\n1,"+id+",Red\n,"+id+",Red\n,"+value.NewID()+",\n").Fields("line 2", "line 3", "line 4")
	csv.Post(t, spools+"/import", "filament_number\n2\n").Fields("line 2")
	csv.Post(t, spools+"/import", "filament_number,notes\n,x\n").Fields("line 2")
	export := c.Get(t, spools+"/export").Want(200)
	csv.Post(t, spools+"/import?mode=update", string(export.Body)).Want(200).Shows(map[string]string{"unchanged": "3"})
}
