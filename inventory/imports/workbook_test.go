package imports_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"spoolwright/inventory"
	"spoolwright/inventory/imports"
	"spoolwright/tests/testkit"
	"spoolwright/transfer"
)

// A spreadsheet is imported as it was saved: the worksheet with the spools is found among others, and its numbers and
// dates have one reading.
func TestImportWorkbook(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, inventory.Routes, imports.Routes).Operator(t)
	rows := [][]any{{"Our filament"}, nil, {"Hersteller", "Material", "Farbe", "Durchmesser", "Gewicht (g)", "Preis", "Gekauft am"},
		{"eSun", "PLA", "Rot", 1.75, 1.125e3, 1.125, time.Date(2026, 7, 28, 0, 0, 0, 0, time.UTC)},
		{"eSun", "PETG", "Blau", 2.85, "750", "19,99", nil},
		{"eSun", "PLO", "Blau", 2.85, 750, 20, "31/01/2026"}}
	file := testkit.Workbook(t, testkit.Worksheet{Name: "Notes", Rows: [][]any{{"call", "the shop"}}},
		testkit.Worksheet{Name: "Spulen", Rows: rows}, testkit.Worksheet{Name: "Old", Rows: rows[2:4]})
	workbook := c.With("Content-Type", transfer.WorkbookMedia)

	check := workbook.Post(t, importPath+"/check", file).Want(200).Shows(map[string]string{"header_row": "3",
		"created": "2", "invalid": "1", "invalid_rows.0.row": "6", "worksheets.0.name": "Notes", "worksheets.0.read": "false",
		"worksheets.1.name": "Spulen", "worksheets.1.read": "true", "worksheets.2.name": "Old", "rows.0.cells.5.text": "1.1250"})
	query := suggested(t, check)
	workbook.Post(t, importPath+"?"+query.Encode(), file).Fields("line 6")
	query.Set("skip_invalid", "true")
	workbook.Post(t, importPath+"?"+query.Encode(), file).Want(200).Shows(map[string]string{"created": "2", "invalid": "1"})
	wantSpools(t, c, "brand,material_type,diameter_mm,net_weight_grams,purchase_price,purchase_date\n"+
		"eSun,PLA,1.75,1125,1.125,2026-07-28\neSun,PETG,2.85,750,19.99,\n")

	// Another worksheet, also of a check and with corrections.
	query = url.Values{"worksheet": {"old"}, "corrections": {`{"2": {"Farbe": "Gelb"}}`}}
	check = workbook.Post(t, importPath+"/check?"+query.Encode(), file).Want(200).Shows(map[string]string{"header_row": "1",
		"created": "1", "worksheets.1.read": "false", "worksheets.2.read": "true"})
	query.Set("mapping", suggested(t, check).Get("mapping"))
	workbook.Post(t, importPath+"?"+query.Encode(), file).Want(200).Shows(map[string]string{"created": "1"})
	workbook.Post(t, importPath+"?worksheet=Nope", file).Fields("worksheet")
	workbook.Post(t, importPath+"/check?worksheet=Nope", file).Fields("worksheet")

	// CSV has no worksheets, and other archives have no rows.
	csv := c.With("Content-Type", "text/csv")
	csv.Post(t, importPath+"/check?worksheet=Nope", "brand,material_type\nx,PLA\n").Want(200).
		Shows(map[string]string{"worksheets": "[]"})
	workbook.Post(t, importPath, "PK\x03\x04").Fields("body")
	workbook.Post(t, importPath, file[:len(file)/2]).Fields("body")
	c.With("Content-Type", "application/zip").Post(t, importPath, file).WantError(415, "UNSUPPORTED_MEDIA_TYPE")
	// A file with the wrong media type is what it is.
	query.Set("dry_run", "true")
	csv.Post(t, importPath+"?"+query.Encode(), file).Want(200).Shows(map[string]string{"created": "1"})
	if got := csv.Post(t, importPath, strings.Replace(file, "PK", "QK", 1)).Status; got != 422 {
		t.Errorf("status %d", got)
	}
}

// Spools, products and orders come from spreadsheets in the format OpenDocument, too.
func TestImportOpenDocument(t *testing.T) {
	t.Parallel()
	c := testkit.New(t, testkit.Options{}, testkit.Features...).Operator(t)
	cell := func(text string) string { return "<table-cell><p>" + text + "</p></table-cell>" }
	for what, titles := range map[string]string{"spools": "Material,Farbe,Gewicht", "products": "name,Notizen,sku",
		"orders": "Bestellnummer,Artikel,Menge"} {
		var rows string
		for _, row := range []string{titles, "PLA,Rot,5"} {
			rows += "<table-row>"
			for text := range strings.SplitSeq(row, ",") {
				rows += cell(text)
			}
			rows += "</table-row>"
		}
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		content, err := w.Create("content.xml")
		testkit.Check(t, err)
		fmt.Fprint(content, `<x><table name="A">`+rows+`</table></x>`)
		testkit.Check(t, w.Close())
		path := "/api/v1/" + what
		ods := c.With("Content-Type", transfer.OpenDocumentMedia)
		check := ods.Post(t, path+"/import/check", b.String()).Want(200).Shows(map[string]string{"created": "1", "invalid": "0"})
		ods.Post(t, path+"/import?"+suggested(t, check).Encode(), b.String()).Want(200).Shows(map[string]string{"created": "1"})
		c.Get(t, path).Shows(map[string]string{"total": "1"})
	}
}
