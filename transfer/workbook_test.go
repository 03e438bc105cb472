package transfer_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
	"spoolwright/transfer"
)

// archiveOf returns a ZIP archive with the parts.
func archiveOf(parts map[string]string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, text := range parts {
		part, _ := w.Create(name)
		part.Write([]byte(text))
	}
	w.Close()
	return b.Bytes()
}

// workbookOf returns the parts of a workbook with the rows of its worksheets. A name that ends with * is hidden.
func workbookOf(settings, texts, styles string, names []string, rows ...string) map[string]string {
	parts := map[string]string{
		"[Content_Types].xml": `<Types/>`,
		"_rels/.rels": `<Relationships><Relationship Id="r1" Type="http://purl.oclc.org/ooxml/officeDocument` +
			`/relationships/officeDocument" Target="/xl/workbook.xml"/></Relationships>`,
		"xl/styles.xml":        `<styleSheet>` + styles + `</styleSheet>`,
		"xl/sharedStrings.xml": `<sst>` + texts + `</sst>`,
	}
	sheets, relations := "", `<Relationship Id="s" Type="x/styles" Target="styles.xml"/>`+
		`<Relationship Id="t" Type="x/sharedStrings" Target="sharedStrings.xml"/>`
	for i, name := range names {
		visible, hidden := strings.CutSuffix(name, "*")
		state := map[bool]string{false: "visible", true: "hidden"}[hidden]
		sheets += fmt.Sprintf(`<sheet name="%s" sheetId="%d" state="%s" r:id="n%d"/>`, visible, i+1, state, i)
		relations += fmt.Sprintf(`<Relationship Id="n%d" Type="x/worksheet" Target="worksheets/sheet%d.xml"/>`, i, i)
		parts[fmt.Sprintf("xl/worksheets/sheet%d.xml", i)] = `<x:worksheet xmlns:x="x"><x:sheetData>` + rows[i] +
			`</x:sheetData></x:worksheet>`
	}
	parts["xl/workbook.xml"] = `<workbook>` + settings + `<sheets>` + sheets + `</sheets></workbook>`
	parts["xl/_rels/workbook.xml.rels"] = `<Relationships>` + relations + `</Relationships>`
	return parts
}

// width prefers the row with the most texts.
func width(titles []string) int { return len(titles) }

func readCells(t *testing.T, file []byte) (cells []string) {
	t.Helper()
	sheet, err := transfer.ReadSheet(file, "", 1000, width)
	testkit.Check(t, err)
	for _, row := range sheet.Rows {
		for i, text := range transfer.Texts(row.Cells) {
			if text != "" {
				cells = append(cells, fmt.Sprintf("%c%d %s", 'A'+i, row.Line, text))
			}
		}
	}
	return cells
}

// Each kind of cell has the text that a spreadsheet program shows, in a form with one reading.
func TestWorkbookCells(t *testing.T) {
	t.Parallel()
	const texts = `<si><t>PLA</t></si><si><r><t>Ga</t></r><r><rPr/><t xml:space="preserve">laxy </t></r><rPh><t>x</t></rPh>` +
		`</si><si><t>two_x000A_lines &amp; _x</t></si>`
	codes := []string{"", "yyyy\\-mm\\-dd", "dd/mm/yyyy hh:mm", "[h]:mm", "h:mm AM/PM", "00000", "0.0%", `0.00" kg"`,
		"[$€-407] #,##0.00", "[Red]#,##0.00;[Blue]-0", `"day" 0`, "mmm yy", "General", "@", "0.00E+00"}
	styles := "<numFmts>"
	formats := `<cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs><xf numFmtId="0"/>`
	for i, code := range codes[1:] {
		styles += fmt.Sprintf(`<numFmt numFmtId="%d" formatCode="%s"/>`, 164+i, strings.ReplaceAll(code, `"`, "&quot;"))
		formats += fmt.Sprintf(`<xf numFmtId="%d"/>`, 164+i)
	}
	styles += "</numFmts>" + formats + `<xf numFmtId="14"/><xf numFmtId="46"/><xf numFmtId="9"/></cellXfs>`
	style := func(code string) int { return slices.Index(codes, code) }
	builtin := len(codes)
	for _, test := range []struct {
		kind  string
		style int
		value string
		want  string
	}{
		{"s", 0, "0", "PLA"}, {"s", 0, "1", "Galaxy"}, {"s", 0, "2", "two\nlines & _x"}, {"s", 0, "3", ""}, {"s", 0, "x", ""},
		{"str", 0, "of a \u202eformula", "of a formula"},
		{"b", 0, "1", "true"}, {"b", 0, "0", "false"}, {"e", 0, "#N/A", "#N/A"},
		{"d", 0, "2026-07-28T00:00:00", "2026-07-28T00:00:00"},
		{"n", 0, "1.75", "1.75"}, {"", 0, "1000", "1000"}, {"", 0, "0.30000000000000004", "0.3"}, {"", 0, "-2.5", "-2.5"},
		{"", 0, "1.125", "1.1250"}, {"", 0, "0.125", "0.1250"}, {"", 0, "12345.125", "12345.125"}, {"", 0, "1E3", "1000"},
		{"", 0, "3104270000", "3104270000"}, {"", 0, "3.1042700001234567E+19", "3.1042700001234567E+19"},
		{"", 0, "1E-20", "0"}, {"", 0, "text", "text"}, {"", 99, "5", "5"}, {"", 0, "NaN", "NaN"},
		{"", style(codes[1]), "46231", "2026-07-28"}, {"", style(codes[2]), "46231.6041666667", "2026-07-28 14:30:00"},
		{"", style(codes[1]), "1", "1900-01-01"}, {"", style(codes[1]), "60", "1900-02-28"},
		{"", style(codes[1]), "61", "1900-03-01"}, {"", style(codes[1]), "-1", "-1"},
		{"", style(codes[3]), "1.5", "36:00:00"}, {"", style(codes[4]), "0.5", "12:00:00"},
		{"", style("00000"), "123", "00123"}, {"", style("00000"), "1234567", "1234567"}, {"", style("0.0%"), "0.755", "75.5%"},
		{"", style(codes[7]), "1", "1 kg"}, {"", style(codes[8]), "29.99", "29.99 €"}, {"", style(codes[9]), "29.9", "29.9"},
		{"", style("mmm yy"), "46204", "2026-07-01"}, {"", style("General"), "46204", "46204"}, {"", style("@"), "7", "7"},
		{"", style("0.00E+00"), "1234.5", "1234.5"},
		{"", builtin, "46231", "2026-07-28"}, {"", builtin + 1, "2.25", "54:00:00"}, {"", builtin + 2, "0.5", "50%"},
	} {
		cell := fmt.Sprintf(`<x:row r="7"><x:c r="C7" s="%d" t="%s"><x:f>1+1</x:f><x:v>%s</x:v></x:c></x:row>`, test.style,
			test.kind, test.value)
		got := readCells(t, archiveOf(workbookOf("", texts, styles, []string{"A"}, cell)))
		if want := "C7 " + test.want; len(got) > 1 || strings.Join(got, "") != want && len(got)+len(test.want) > 0 {
			t.Errorf("%s of type %q and style %d: %q, want %q", test.value, test.kind, test.style, got, want)
		}
	}
	// Without references, and with texts in the cells.
	got := readCells(t, archiveOf(workbookOf(`<workbookPr date1904="1"/>`, texts, styles, []string{"A"},
		`<x:row><x:c t="inlineStr"><x:is><x:t>Brand</x:t></x:is></x:c><x:c/><x:c s="1"><x:v>0</x:v></x:c></x:row>`+
			`<x:row r="2"/><x:row r="9"><x:c r="XFD9" s="3"/></x:row><x:row><x:c r="B10"><x:v>2</x:v></x:c></x:row>`)))
	testkit.Equal(t, strings.Join(got, "|"), "A1 Brand|C1 1904-01-01|B10 2", "cells")
}

// A workbook has several worksheets: the titles decide, or the name does. What is hidden is read only by its name.
func TestWorksheets(t *testing.T) {
	t.Parallel()
	row := func(cells ...string) string {
		b := "<x:row>"
		for _, c := range cells {
			b += `<x:c t="inlineStr"><x:is><x:t>` + c + `</x:t></x:is></x:c>`
		}
		return b + "</x:row>"
	}
	file := archiveOf(workbookOf("", "", "", []string{"Notes", "Old*", "Spools", "More"}, row("a", "b"), row("1", "2", "3", "4"),
		row("x")+row("a", "b", "c"), row("a", "b", "c")))
	for name, want := range map[string]string{"": "Spools", "notes": "Notes", "Old": "Old", "More": "More"} {
		sheet, err := transfer.ReadSheet(file, name, 10, width)
		testkit.Check(t, err)
		testkit.Equal(t, sheet.Worksheet, want, "worksheet %q", name)
		all := "Notes Spools More"
		if name == "Old" {
			all = "Notes Old Spools More"
		}
		testkit.Equal(t, strings.Join(sheet.Worksheets, " "), all, "worksheets")
	}
	for _, test := range []struct {
		file []byte
		name string
		most int
		want string
	}{
		{file, "Nothing", 10, "must be the name of a worksheet of the file, which has Notes, Spools, More"},
		{archiveOf(workbookOf("", "", "", []string{"A"}, strings.Repeat(row("a"), 102))), "", 1, "at most 1 rows"},
		{archiveOf(workbookOf("", "", "", []string{"A"}, row(make([]string, 200)...)+`<x:row><x:c r="GS1"><x:v>1</x:v></x:c>`)),
			"", 10, "at most 200 columns, and row 2"},
		{archiveOf(map[string]string{"model.3mf": ""}), "", 10, "not a spreadsheet of the kind .xlsx"},
		{archiveOf(workbookOf("", "", "", []string{"A*"}, row("a"))), "", 10, "not a spreadsheet"},
		{[]byte("PK\x03\x04"), "", 10, "not a spreadsheet"},
		{archiveOf(workbookOf("", "", "", []string{"A"}, "<x:row><x:c><x:v>1</x:w>&nothing;")), "", 10, "is damaged"},
		{archiveOf(workbookOf("", "<si><t>x", "", []string{"A"}, "")), "", 10, "is damaged"},
		// Too large: the XML, and texts that many cells share.
		{archiveOf(workbookOf("", "", "", []string{"A"}, strings.Repeat(" ", 16<<20))), "", 10, "too large"},
		{archiveOf(workbookOf("", "<si><t>"+strings.Repeat("x", 1<<20)+"</t></si>", "", []string{"A"},
			strings.Repeat(`<x:row><x:c t="s"><x:v>0</x:v></x:c></x:row>`, 9))), "", 10, "too large"},
		{archiveOf(workbookOf("", strings.Repeat("<si/>", 1<<20+1), "", []string{"A"}, "")), "", 10, "too large"},
		{archiveOf(workbookOf("", "", "<cellXfs>"+strings.Repeat("<xf/>", 1<<16+1), []string{"A"}, "")), "", 10, "too large"},
		{archiveOf(workbookOf("", "", "", slices.Repeat([]string{"A"}, 201), slices.Repeat([]string{""}, 201)...)), "", 10,
			"at most 200 worksheets"},
		{[]byte("\xd0\xcf\x11\xe0"), "", 10, "an old spreadsheet such as .xls, or has a password"},
	} {
		_, err := transfer.ReadSheet(test.file, test.name, test.most, width)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
	// The names of parts have any case, and backslashes.
	parts := map[string]string{}
	for name, text := range workbookOf("", "", "", []string{"A"}, row("a")) {
		parts[strings.ReplaceAll(strings.ToUpper(name), "/", `\`)] = text
	}
	sheet, err := transfer.ReadSheet(archiveOf(parts), "", 10, width)
	testkit.Check(t, err)
	testkit.Equal(t, len(sheet.Rows), 1, "rows")
	// A command has no limit of rows, and reads larger files.
	sheet, err = transfer.ReadSheet(archiveOf(workbookOf("", "", "", []string{"A"}, strings.Repeat(" ", 16<<20)+row("a"))),
		"", math.MaxInt, width)
	testkit.Check(t, err)
	testkit.Equal(t, sheet.Rows[0].Line, 1, "the row")
}

func FuzzWorkbook(f *testing.F) {
	f.Add("<si><t>PLA</t></si>", `<cellXfs><xf numFmtId="14"/></cellXfs>`,
		`<x:row r="2"><x:c r="B2" t="s"><x:v>0</x:v></x:c><x:c s="0"><x:v>46231.5</x:v></x:c></x:row>`)
	f.Fuzz(func(t *testing.T, texts, styles, rows string) {
		sheet, err := transfer.ReadSheet(archiveOf(workbookOf("", texts, styles, []string{"A", "B"}, rows, rows)), "", 100, width)
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
