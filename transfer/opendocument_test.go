package transfer_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
	"spoolwright/transfer"
)

// openDocumentOf returns a spreadsheet in the format OpenDocument with the rows of its worksheets. A name that ends with
// * is hidden.
func openDocumentOf(names []string, rows ...string) []byte {
	text := `<office:document-content xmlns:office="o" xmlns:table="t" xmlns:text="x" xmlns:style="s">` +
		`<style:style style:name="ta0"><style:table-properties table:display="true"/></style:style>` +
		`<style:style style:name="ta1"><style:table-properties table:display="false"/></style:style>`
	for i, name := range names {
		visible, hidden := strings.CutSuffix(name, "*")
		text += fmt.Sprintf(`<table:table table:name="%s" table:style-name="ta%d">%s</table:table>`, visible,
			map[bool]int{true: 1}[hidden], rows[i])
	}
	return archiveOf(map[string]string{"mimetype": transfer.OpenDocumentMedia, "content.xml": text +
		`</office:document-content>`})
}

// cellOf returns a cell with attributes and what the program shows.
func cellOf(attributes, shown string) string {
	return `<table:table-cell ` + attributes + `>` + shown + `</table:table-cell>`
}

// Cells of OpenDocument have one reading, and repeated cells and rows are read as often as they stand there.
func TestOpenDocumentCells(t *testing.T) {
	t.Parallel()
	value := func(kind, value string) string {
		return fmt.Sprintf(`office:value-type="%s" office:value="%s"`, kind, value)
	}
	for _, test := range []struct{ attributes, shown, want string }{
		{`office:value-type="string"`, `<text:p>Galaxy<text:s text:c="2"/><text:span>Black</text:span></text:p>`, "Galaxy Black"},
		{`office:value-type="string"`, `<office:annotation><text:p>a note</text:p></office:annotation><text:p>two</text:p>` +
			`<text:p>lines &amp; more</text:p>`, "two\nlines & more"},
		{value("float", "1.75"), `<text:p>1,75</text:p>`, "1.75"}, {value("float", "1.125"), `<text:p>1,13</text:p>`, "1.1250"},
		{value("float", "1000"), `<text:p>1.000</text:p>`, "1000"}, {value("float", "1"), `<text:p>1,00 kg</text:p>`, "1 kg"},
		{value("float", "123"), `<text:p>00123</text:p>`, "00123"}, {value("float", "x"), `<text:p>y</text:p>`, "x"},
		{value("percentage", "0.755"), `<text:p>76 %</text:p>`, "75.5%"},
		{value("currency", "29.99") + ` office:currency="EUR"`, `<text:p>29,99 €</text:p>`, "29.99 EUR"},
		{`office:value-type="date" office:date-value="2026-07-28"`, `<text:p>28.07.26</text:p>`, "2026-07-28"},
		{`office:value-type="date" office:date-value="2026-07-28T14:30:00"`, `<text:p>x</text:p>`, "2026-07-28 14:30:00"},
		{`office:value-type="boolean" office:boolean-value="true"`, `<text:p>WAHR</text:p>`, "true"},
		{`office:value-type="time" office:time-value="PT14H30M00S"`, `<text:p>14:30:00</text:p>`, "14:30:00"},
	} {
		got := readCells(t, openDocumentOf([]string{"A"}, `<table:table-row>`+cellOf("", "")+cellOf(test.attributes, test.shown)+
			`</table:table-row>`))
		testkit.Equal(t, strings.Join(got, "|"), "B1 "+test.want, "%s %s", test.attributes, test.shown)
	}
	got := readCells(t, openDocumentOf([]string{"A"}, `<table:table-row table:number-rows-repeated="2"/>`+
		`<table:table-row table:number-rows-repeated="2">`+cellOf(`table:number-columns-repeated="2"`, `<text:p>a</text:p>`)+
		`<table:covered-table-cell/>`+cellOf("", `<text:p>b</text:p>`)+cellOf(`table:number-columns-repeated="16380"`, "")+
		`</table:table-row><table:table-row table:number-rows-repeated="1048570">`+
		cellOf(`table:number-columns-repeated="16384"`, "")+`</table:table-row><table:table-row>`+cellOf("", `<text:p>c</text:p>`)+
		`</table:table-row>`))
	testkit.Equal(t, strings.Join(got, "|"), "A3 a|B3 a|D3 b|A4 a|B4 a|D4 b|A1048575 c", "cells")
}

// The worksheets of OpenDocument are chosen as those of .xlsx, and sizes are limited.
func TestOpenDocumentWorksheets(t *testing.T) {
	t.Parallel()
	row := func(attributes, cell string) string {
		return `<table:table-row ` + attributes + `>` + cell + `</table:table-row>`
	}
	one := cellOf("", "<text:p>a</text:p>")
	file := openDocumentOf([]string{"Notes", "Old*", "Spools"}, row("", one), row("", one+one+one), row("", one+one))
	for name, want := range map[string]string{"": "Spools", "old": "Old", "Notes": "Notes"} {
		sheet, err := transfer.ReadSheet(file, name, 10, width)
		testkit.Check(t, err)
		testkit.Equal(t, sheet.Worksheet, want, "worksheet %q", name)
		testkit.Equal(t, len(sheet.Rows), 1, "rows")
	}
	const many = `table:number-rows-repeated="1048576"`
	long := cellOf("", "<text:p>"+strings.Repeat("x", 1<<20)+"</text:p>")
	for want, file := range map[string][]byte{
		"at most 10 rows":                     openDocumentOf([]string{"A"}, row(`table:number-rows-repeated="1000"`, one)),
		"worksheets are too large":            openDocumentOf([]string{"A"}, row(many, one)),
		"are too large: copy":                 openDocumentOf([]string{"A"}, strings.Repeat(row("", long), 9)),
		"at most 200 columns, and row 1":      openDocumentOf([]string{"A"}, row("", cellOf(`table:number-columns-repeated="201"`, "a"))),
		"at most 200 columns, and row 2":      openDocumentOf([]string{"A"}, row("", "")+row("", strings.Repeat(one, 201))),
		"at most 200 worksheets":              openDocumentOf(make([]string, 201), make([]string, 201)...),
		"it is damaged":                       openDocumentOf([]string{"A"}, row("", `<table:table-cell><text:p>`)),
		"is damaged: open":                    archiveOf(map[string]string{"content.xml": row("", one)}),
		"must be the name of a worksheet":     file,
		"it is not a spreadsheet of the kind": openDocumentOf(nil),
	} {
		name := map[bool]string{true: "Nope"}[strings.Contains(want, "name of a worksheet")]
		if _, err := transfer.ReadSheet(file, name, 10, width); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	testkit.Equal(t, transfer.MediaOf([]byte("PK\x03\x04"+strings.Repeat("\x00", 26)+"mimetype"+transfer.OpenDocumentMedia)),
		transfer.OpenDocumentMedia, "media type")
}

func FuzzOpenDocument(f *testing.F) {
	f.Add(`<table:table-row table:number-rows-repeated="3">` + cellOf(`table:number-columns-repeated="2"`, "<text:p>a</text:p>") +
		cellOf(`office:value-type="float" office:value="1"`, "<text:p>1 kg</text:p>") + `</table:table-row>`)
	f.Fuzz(func(t *testing.T, rows string) {
		sheet, err := transfer.ReadSheet(openDocumentOf([]string{"A", "B*"}, rows, rows), "", 100, width)
		if err != nil {
			return
		}
		line := 0
		for _, row := range sheet.Rows {
			if row.Line <= line || len(row.Cells) > transfer.MaxColumns {
				t.Errorf("row %d after %d has %d cells", row.Line, line, len(row.Cells))
			}
			line = row.Line
		}
	})
}
