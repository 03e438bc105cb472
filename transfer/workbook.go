package transfer

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"spoolwright/value"
	"spoolwright/value/language"
)

// WorkbookMedia is the media type of a workbook of Excel (.xlsx).
const WorkbookMedia = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"

// MediaOf returns the media type of a file that an import can read.
func MediaOf(file []byte) string {
	if bytes.HasPrefix(file, []byte(archiveStart)) {
		if bytes.Contains(file[:min(len(file), 200)], []byte(OpenDocumentMedia)) {
			return OpenDocumentMedia
		}
		return WorkbookMedia
	}
	return "text/csv"
}

// archiveStart begins a ZIP archive.
const archiveStart = "PK\x03\x04"

// The maximum sizes of a workbook with a bounded number of rows: of the XML that is read, of the texts of cells, of
// which several can refer to one text of the file, and the number of these. A workbook of a command can have
// maxCommand times as much.
const (
	maxXML      = 16 << 20
	maxCellText = 8 << 20
	maxStrings  = 1 << 20
	maxCommand  = 32
)

// The maximum numbers of worksheets and of styles. Programs write fewer styles.
const (
	maxWorksheets = 200
	maxStyles     = 1 << 16
)

var (
	errWorkbookSize = language.Error("its worksheets are too large: copy the rows to import to a new file")
	errNoWorkbook   = language.Error("it is not a spreadsheet of the kind .xlsx or .ods: save it as .xlsx or as CSV")
	errDamaged      = language.Error("it is damaged: open it in a spreadsheet program, and save it again")
)

// workbook reads a file of Excel or of another spreadsheet program in this format: a ZIP archive with a table of texts,
// the formats of cells, and the worksheets (ISO/IEC 29500-1, part SpreadsheetML). Formulas have stored values.
type workbook struct {
	files   map[string]*zip.File
	xml     int64 // bytes that may still be read
	text    int64 // bytes that cells may still have
	most    int   // maximum number of strings
	strings []string
	forms   []cellForm // by the numbers of styles
	is1904  bool       // whether days are counted from 1904
	sheets  []worksheet
}

type worksheet struct {
	name, part string
	hidden     bool
	rows       []Row // of an OpenDocument file
}

// cellForm tells how a program shows a number.
type cellForm struct {
	isDate, isTime, isElapsed, isPercent bool
	digits                               int    // minimum number of digits of a code such as 00123
	unit                                 string // that follows the number, such as "kg"
}

// readWorkbook reads the worksheet with the name, or else the visible one whose first rows match titles best. The error
// is a sentence for people.
func readWorkbook(file []byte, name string, maximum int, good func(titles []string) int) (*Sheet, error) {
	archive, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, errNoWorkbook
	}
	w := &workbook{files: map[string]*zip.File{}, xml: maxXML, text: maxCellText, most: maxStrings}
	if maximum == math.MaxInt {
		w.xml, w.text, w.most = maxXML*maxCommand, maxCellText*maxCommand, maxStrings*maxCommand
	}
	for _, f := range archive.File {
		w.files[partName(f.Name)] = f
	}
	if w.files[contentPart] != nil {
		err = w.openDocument(maximum)
	} else {
		err = w.open()
	}
	if err != nil {
		return nil, err
	}
	sheet := &Sheet{}
	for _, s := range w.sheets {
		if !s.hidden || strings.EqualFold(s.name, name) {
			sheet.Worksheets = append(sheet.Worksheets, s.name)
		}
	}
	at, err := w.choose(name, good)
	if err != nil {
		return nil, err
	}
	sheet.Worksheet = w.sheets[at].name
	width := 0
	err = w.rows(w.sheets[at], func(row Row) error {
		width = max(width, len(row.Cells))
		if sheet.Rows = append(sheet.Rows, row); len(sheet.Rows)-maxAbove > maximum {
			return language.Error("it must have at most %d rows", maximum)
		}
		return nil
	})
	for i := range sheet.Rows {
		row := &sheet.Rows[i]
		for _, c := range row.Cells {
			if c != nil {
				*c = value.WithoutDirections(*c)
			}
		}
		// Empty cells are not stored.
		row.Cells = append(row.Cells, make([]Cell, width-len(row.Cells))...)
	}
	return sheet, err
}

// choose returns the index of the worksheet to read.
func (w *workbook) choose(name string, good func(titles []string) int) (int, error) {
	best, top := -1, -1
	var visible []string
	for i, s := range w.sheets {
		if name != "" && strings.EqualFold(s.name, name) {
			return i, nil
		}
		if s.hidden {
			continue
		}
		visible = append(visible, s.name)
		score, n := -1, 0
		err := w.rows(s, func(row Row) error {
			if score = max(score, good(Texts(row.Cells))); n == 40 {
				return io.EOF
			}
			n++
			return nil
		})
		if err != nil && err != io.EOF {
			return 0, err
		}
		if best < 0 || score > top {
			best, top = i, score
		}
	}
	switch {
	case best < 0:
		return 0, errNoWorkbook
	case name != "":
		return 0, &unknownWorksheet{visible}
	}
	return best, nil
}

// unknownWorksheet is the error of a name that no worksheet has.
type unknownWorksheet struct{ names []string }

func (e *unknownWorksheet) Error() string {
	return language.Sprintf("must be the name of a worksheet of the file, which has %s", strings.Join(e.names, ", "))
}

// open reads all parts of the workbook but the worksheets.
func (w *workbook) open() error {
	book := ""
	err := w.relations("", func(_, kind, target string) {
		if kind == "officeDocument" {
			book = target
		}
	})
	if err != nil {
		return err
	}
	parts := map[string]string{}
	var texts, styles string
	err = w.relations(book, func(id, kind, target string) {
		switch parts[id] = target; kind {
		case "sharedStrings":
			texts = target
		case "styles":
			styles = target
		}
	})
	if err != nil {
		return err
	}
	err = w.read(book, func(e xml.StartElement, _ *xml.Decoder) error {
		switch e.Name.Local {
		case "workbookPr":
			w.is1904 = attr(e, "date1904") == "1" || attr(e, "date1904") == "true"
		case "sheet":
			if part := parts[attr(e, "id")]; w.files[partName(part)] != nil {
				state := attr(e, "state")
				if len(w.sheets) == maxWorksheets {
					return language.Error("it must have at most %d worksheets", maxWorksheets)
				}
				w.sheets = append(w.sheets, worksheet{attr(e, "name"), part, state == "hidden" || state == "veryHidden", nil})
			}
		}
		return nil
	})
	if err == nil && styles != "" {
		err = w.styles(styles)
	}
	if err == nil && texts != "" {
		err = w.read(texts, func(e xml.StartElement, d *xml.Decoder) error {
			if e.Name.Local != "si" {
				return nil
			}
			text, err := textIn(d, "si")
			if w.strings = append(w.strings, text); len(w.strings) > w.most {
				return errWorkbookSize
			}
			return err
		})
	}
	return err
}

// relations calls fn with each relation of a part: its id, the last word of its type, and the part to which it leads.
func (w *workbook) relations(part string, fn func(id, kind, target string)) error {
	folder, name := path.Split(part)
	return w.read(folder+"_rels/"+name+".rels", func(e xml.StartElement, _ *xml.Decoder) error {
		if e.Name.Local == "Relationship" && attr(e, "TargetMode") != "External" {
			target := attr(e, "Target")
			if !strings.HasPrefix(target, "/") {
				target = folder + target
			}
			fn(attr(e, "Id"), path.Base(attr(e, "Type")), strings.TrimPrefix(path.Clean("/"+target), "/"))
		}
		return nil
	})
}

// partName returns the compared form of the name of a part: case does not matter, and some programs write backslashes.
func partName(name string) string { return strings.ToLower(strings.ReplaceAll(name, `\`, "/")) }

// read calls fn with the start of each element of a part. fn may read the content of the element from the decoder.
func (w *workbook) read(part string, fn func(xml.StartElement, *xml.Decoder) error) error {
	file := w.files[partName(part)]
	if file == nil {
		return errNoWorkbook
	}
	r, err := file.Open()
	if err != nil {
		return errNoWorkbook
	}
	defer r.Close()
	limited := &io.LimitedReader{R: r, N: w.xml + 1}
	defer func() { w.xml = limited.N - 1 }()
	d := xml.NewDecoder(limited)
	for {
		token, err := d.RawToken()
		switch {
		case limited.N <= 0:
			return errWorkbookSize
		case err == io.EOF:
			return nil
		case err != nil:
			return errDamaged
		}
		if e, ok := token.(xml.StartElement); ok {
			if err := fn(e, d); limited.N <= 0 {
				return errWorkbookSize
			} else if err != nil {
				return err
			}
		}
	}
}

// attr returns the value of an attribute, or "".
func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// textIn returns the text in the rest of an element, without how it is pronounced (rPh).
func textIn(d *xml.Decoder, element string) (string, error) {
	var b []byte
	inText, sounds := false, 0
	for {
		token, err := d.RawToken()
		if err != nil {
			return "", errDamaged
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "rPh" {
				sounds++
			}
			inText = token.Name.Local == "t" && sounds == 0
		case xml.EndElement:
			switch inText = false; token.Name.Local {
			case "rPh":
				sounds--
			case element:
				return unescape(string(b)), nil
			}
		case xml.CharData:
			if inText || element == "v" {
				b = append(b, token...)
			}
		}
	}
}

var escape = regexp.MustCompile(`_x[0-9A-Fa-f]{4}_`)

// unescape replaces characters that XML cannot have, such as _x000D_, which is a carriage return.
func unescape(text string) string {
	return escape.ReplaceAllStringFunc(text, func(code string) string {
		n, _ := strconv.ParseUint(code[2:6], 16, 16)
		return string(rune(n))
	})
}

// styles reads how the styles of cells show numbers.
func (w *workbook) styles(part string) error {
	codes := map[string]string{"9": "0%", "10": "0.00%", "18": "h AM/PM", "19": "h AM/PM", "20": "h:mm", "21": "h:mm:ss",
		"22": "d/m/yy h:mm", "45": "mm:ss", "46": "[h]:mm:ss", "47": "mm:ss.0"}
	for _, days := range [][2]int{{14, 17}, {27, 36}, {50, 58}} {
		for n := days[0]; n <= days[1]; n++ {
			codes[strconv.Itoa(n)] = "d/m/yy"
		}
	}
	inCells := false
	forms := map[string]cellForm{} // by the numbers of formats
	return w.read(part, func(e xml.StartElement, _ *xml.Decoder) error {
		switch e.Name.Local {
		case "numFmt":
			codes[attr(e, "numFmtId")] = attr(e, "formatCode")
		case "cellXfs", "cellStyleXfs":
			inCells = e.Name.Local == "cellXfs"
		case "xf":
			if !inCells {
				return nil
			}
			id := attr(e, "numFmtId")
			form, known := forms[id]
			if !known {
				form = formOf(codes[id])
				forms[id] = form
			}
			if w.forms = append(w.forms, form); len(w.forms) > maxStyles {
				return errWorkbookSize
			}
		}
		return nil
	})
}

var (
	elapsed = regexp.MustCompile(`(?i)\[(h+|m+|s+)\]`)
	money   = regexp.MustCompile(`\[\$([^-\]]*)[^\]]*\]`)
	bracket = regexp.MustCompile(`\[[^\]]*\]`)
	literal = regexp.MustCompile(`"([^"]*)"|\\(.)|[_*].`)
	zeros   = regexp.MustCompile(`^0{2,15}$`)
)

// formOf reads the code of a format, such as 0.00" kg". Only its first section matters, which is for positive numbers.
func formOf(code string) (f cellForm) {
	code, _, _ = strings.Cut(money.ReplaceAllString(code, `"$1"`), ";")
	var texts strings.Builder
	rest := literal.ReplaceAllStringFunc(code, func(part string) string {
		m := literal.FindStringSubmatch(part)
		texts.WriteString(m[1] + m[2])
		return ""
	})
	f.isElapsed = elapsed.MatchString(rest)
	letters := strings.ToLower(bracket.ReplaceAllString(rest, ""))
	if letters == "general" {
		letters = ""
	}
	clock := f.isElapsed || strings.ContainsAny(letters, "hs")
	f.isDate = strings.ContainsAny(letters, "yd") || !clock && strings.Contains(letters, "m")
	f.isTime = clock
	f.isPercent = strings.Contains(letters, "%")
	if zeros.MatchString(letters) {
		f.digits = len(letters)
	}
	if !f.isDate && !f.isTime {
		f.unit = strings.TrimSpace(texts.String())
	}
	return f
}

// rows calls fn with each row of a worksheet that has a text.
func (w *workbook) rows(s worksheet, fn func(Row) error) error {
	if s.part == "" { // an OpenDocument file
		for _, row := range s.rows {
			if err := fn(row); err != nil {
				return err
			}
		}
		return nil
	}
	line, column, inRow := 0, 0, Row{}
	end := func() error {
		row := inRow
		if inRow = (Row{}); len(trim(row.Cells)) == 0 {
			return nil
		}
		return fn(row)
	}
	err := w.read(s.part, func(e xml.StartElement, d *xml.Decoder) error {
		switch e.Name.Local {
		case "row":
			if err := end(); err != nil {
				return err
			}
			line++
			if n, err := strconv.Atoi(attr(e, "r")); err == nil && n > line {
				line = n
			}
			column, inRow = 0, Row{Line: line}
		case "c":
			if line == 0 {
				return errDamaged
			}
			at := max(column, columnOf(attr(e, "r")))
			column = at + 1
			text, err := w.cell(e, d)
			if err != nil || text == "" {
				return err
			}
			if at >= MaxColumns {
				return language.Error("it must have at most %d columns, and row %d has more", MaxColumns, line)
			}
			for len(inRow.Cells) < at {
				inRow.Cells = append(inRow.Cells, nil)
			}
			inRow.Cells = append(inRow.Cells, &text)
			if w.text -= int64(len(text)); w.text < 0 {
				return errWorkbookSize
			}
		}
		return nil
	})
	if err == nil {
		err = end()
	}
	return err
}

// columnOf returns the index of the column of a reference such as C7, or -1.
func columnOf(reference string) int {
	n := 0
	for _, c := range []byte(reference) {
		if c < 'A' || c > 'Z' || n > MaxColumns {
			break
		}
		n = n*26 + int(c-'A') + 1
	}
	return n - 1
}

// cell reads the rest of a cell, and returns its text in a form that has one reading.
func (w *workbook) cell(e xml.StartElement, d *xml.Decoder) (text string, err error) {
	for {
		token, err := d.RawToken()
		if err != nil {
			return "", errDamaged
		}
		switch token := token.(type) {
		case xml.StartElement:
			if name := token.Name.Local; name == "v" || name == "is" {
				if text, err = textIn(d, name); err != nil {
					return "", err
				}
			}
		case xml.EndElement:
			if token.Name.Local != "c" {
				continue
			}
			switch n, err := strconv.Atoi(text); attr(e, "t") {
			case "s":
				if err != nil || n < 0 || n >= len(w.strings) {
					return "", nil
				}
				return w.strings[n], nil
			case "b":
				return strconv.FormatBool(text == "1"), nil
			case "", "n":
				var form cellForm
				if style, err := strconv.Atoi(attr(e, "s")); err == nil && style >= 0 && style < len(w.forms) {
					form = w.forms[style]
				}
				return form.text(text, w.is1904), nil
			}
			return text, nil
		}
	}
}

// text returns the text of a stored number: as a program shows it, but with all digits, a decimal point, and years
// first.
func (f cellForm) text(number string, is1904 bool) string {
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return number
	}
	if (f.isDate || f.isTime) && v >= 0 && v < 2958466 { // the year 10000
		return f.moment(v, is1904)
	}
	if f.isPercent {
		v *= 100
	}
	if math.Abs(v) >= 1e15 {
		return strconv.FormatFloat(v, 'E', -1, 64) // it has lost digits
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 15, 64), 64) // as programs show it: 0.3 for 0.1 + 0.2
	if math.Abs(v) < 1e-12 {
		v = 0
	}
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if whole, fraction, _ := strings.Cut(text, "."); len(fraction) == 3 && len(whole) < 5 {
		text += "0" // 1.125 could also be 1125
	} else if missing := f.digits - len(text); fraction == "" && missing > 0 && v >= 0 {
		text = strings.Repeat("0", missing) + text
	}
	switch {
	case f.isPercent:
		return text + "%"
	case f.unit != "":
		return text + " " + f.unit
	}
	return text
}

// moment returns the text of a number of days.
func (f cellForm) moment(days float64, is1904 bool) string {
	seconds := int64(math.Round(days * 86400))
	clock := fmt.Sprintf("%d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
	if f.isElapsed || !f.isDate && days < 1 {
		return clock
	}
	first := time.Date(1899, 12, 30, 0, 0, 0, 0, time.UTC)
	if is1904 {
		first = time.Date(1904, 1, 1, 0, 0, 0, 0, time.UTC)
	} else if days < 60 { // 1900 has a February 29 there
		first = first.AddDate(0, 0, 1)
	}
	t := first.AddDate(0, 0, int(seconds/86400)).Add(time.Duration(seconds%86400) * time.Second)
	if seconds%86400 == 0 {
		return t.Format(time.DateOnly)
	}
	return t.Format(time.DateTime)
}
