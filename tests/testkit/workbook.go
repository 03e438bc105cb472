package testkit

import (
	"archive/zip"
	"bytes"
	"fmt"
	"html"
	"strings"
	"testing"
	"time"
)

// Worksheet is a worksheet of a Workbook. A cell is a text, a number, a time or nil.
type Worksheet struct {
	Name string
	Rows [][]any
}

// Workbook returns a file as spreadsheet programs write it (.xlsx).
func Workbook(tb testing.TB, sheets ...Worksheet) string {
	tb.Helper()
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	add := func(name, text string) {
		part, err := archive.Create(name)
		Check(tb, err)
		_, err = part.Write([]byte(text))
		Check(tb, err)
	}
	const kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
	add("_rels/.rels", `<Relationships><Relationship Id="r" Type="`+kind+`officeDocument" Target="xl/workbook.xml"/>`+
		`</Relationships>`)
	var list, relations, texts strings.Builder
	n := 0
	for i, sheet := range sheets {
		fmt.Fprintf(&list, `<sheet name="%s" sheetId="%d" r:id="s%d"/>`, html.EscapeString(sheet.Name), i+1, i)
		fmt.Fprintf(&relations, `<Relationship Id="s%d" Type="%sworksheet" Target="worksheets/%d.xml"/>`, i, kind, i)
		var rows strings.Builder
		for line, row := range sheet.Rows {
			fmt.Fprintf(&rows, `<row r="%d">`, line+1)
			for column, cell := range row {
				at := fmt.Sprintf("%c%d", 'A'+column, line+1)
				switch cell := cell.(type) {
				case nil:
				case string:
					fmt.Fprintf(&texts, `<si><t>%s</t></si>`, html.EscapeString(cell))
					fmt.Fprintf(&rows, `<c r="%s" t="s"><v>%d</v></c>`, at, n)
					n++
				case time.Time:
					days := cell.Sub(time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)).Hours() / 24
					fmt.Fprintf(&rows, `<c r="%s" s="1"><v>%v</v></c>`, at, days)
				default:
					fmt.Fprintf(&rows, `<c r="%s"><v>%v</v></c>`, at, cell)
				}
			}
			rows.WriteString(`</row>`)
		}
		add(fmt.Sprintf("xl/worksheets/%d.xml", i), `<worksheet><sheetData>`+rows.String()+`</sheetData></worksheet>`)
	}
	add("xl/workbook.xml", `<workbook xmlns:r="r"><sheets>`+list.String()+`</sheets></workbook>`)
	add("xl/sharedStrings.xml", `<sst>`+texts.String()+`</sst>`)
	add("xl/styles.xml", `<styleSheet><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>`)
	add("xl/_rels/workbook.xml.rels", `<Relationships>`+relations.String()+
		`<Relationship Id="t" Type="`+kind+`sharedStrings" Target="sharedStrings.xml"/>`+
		`<Relationship Id="f" Type="`+kind+`styles" Target="styles.xml"/></Relationships>`)
	Check(tb, archive.Close())
	return b.String()
}
