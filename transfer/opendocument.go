package transfer

import (
	"encoding/xml"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"spoolwright/value/language"
)

// OpenDocumentMedia is the media type of a spreadsheet in the format OpenDocument (.ods).
const OpenDocumentMedia = "application/vnd.oasis.opendocument.spreadsheet"

const (
	contentPart = "content.xml" // the part of an OpenDocument file with all worksheets (ISO/IEC 26300)
	maxRepeat   = 1 << 20       // the maximum number of times that a row or a cell is repeated: the rows of a worksheet
)

// openDocument reads all worksheets, each up to a number of rows that is more than a Sheet can have. A place for a cell
// counts as 8 bytes of text, and a row as 64.
func (w *workbook) openDocument(maximum int) error {
	hidden, style := map[string]bool{}, ""
	row, repeat, line := []Cell(nil), 0, 0
	end := func() error {
		cells := trim(row)
		for n := 0; n < repeat && len(cells) > 0; n++ {
			s := &w.sheets[len(w.sheets)-1]
			if w.text -= int64(8*len(cells) + 64); w.text < 0 {
				return errWorkbookSize
			}
			if len(s.rows)-maxAbove <= maximum {
				s.rows = append(s.rows, Row{Line: line + n + 1, Cells: slices.Clone(cells)})
			}
		}
		line, row, repeat = line+repeat, nil, 0
		return nil
	}
	err := w.read(contentPart, func(e xml.StartElement, d *xml.Decoder) (err error) {
		switch e.Name.Local {
		case "style":
			style = attr(e, "name")
		case "table-properties":
			hidden[style] = attr(e, "display") == "false"
		case "table":
			if err = end(); len(w.sheets) == maxWorksheets {
				err = language.Error("it must have at most %d worksheets", maxWorksheets)
			}
			line = 0
			w.sheets = append(w.sheets, worksheet{name: attr(e, "name"), hidden: hidden[attr(e, "style-name")]})
		case "table-row":
			if len(w.sheets) == 0 {
				return errDamaged
			}
			err = end()
			repeat = repeated(e, "number-rows-repeated")
		case "table-cell", "covered-table-cell":
			text, err := openCell(e, d)
			if err != nil {
				return err
			}
			var cell Cell
			n := repeated(e, "number-columns-repeated")
			if text != "" {
				if cell = &text; len(row)+n > MaxColumns {
					return language.Error("it must have at most %d columns, and row %d has more", MaxColumns, line+1)
				}
			}
			row = append(row, slices.Repeat([]Cell{cell}, min(n, MaxColumns-min(len(row), MaxColumns)))...)
			if w.text -= int64(len(text)); w.text < 0 {
				return errWorkbookSize
			}
		}
		return err
	})
	if err == nil {
		err = end()
	}
	return err
}

// repeated returns how often a row or a cell stands in a worksheet.
func repeated(e xml.StartElement, name string) int {
	n, _ := strconv.Atoi(attr(e, name))
	return min(max(n, 1), maxRepeat)
}

var (
	padded     = regexp.MustCompile(`^0\d+$`)
	unitBehind = regexp.MustCompile(`^[-\d\s.,'’]*\d\s*([^\d\s.,%-]{1,10})$`)
)

// openCell reads the rest of a cell, and returns its text in a form that has one reading.
func openCell(e xml.StartElement, d *xml.Decoder) (string, error) {
	shown, err := paragraphs(d, e.Name.Local)
	switch kind := attr(e, "value-type"); kind {
	case "float", "percentage", "currency":
		form := cellForm{isPercent: kind == "percentage", unit: attr(e, "currency")}
		if m := unitBehind.FindStringSubmatch(shown); m != nil && kind == "float" {
			form.unit = m[1]
		} else if padded.MatchString(shown) {
			form.digits = len(shown)
		}
		return form.text(attr(e, "value"), false), err
	case "date":
		return strings.TrimSuffix(strings.Replace(attr(e, "date-value"), "T", " ", 1), " 00:00:00"), err
	case "boolean":
		return attr(e, "boolean-value"), err
	}
	return shown, err
}

// paragraphs returns the paragraphs in the rest of an element, without comments.
func paragraphs(d *xml.Decoder, element string) (string, error) {
	var b []byte
	for notes := 0; ; {
		token, err := d.RawToken()
		if err != nil {
			return "", errDamaged
		}
		text := []byte(nil)
		switch token := token.(type) {
		case xml.StartElement:
			switch token.Name.Local {
			case "annotation":
				notes++
			case "s", "tab":
				text = []byte(" ")
			}
		case xml.EndElement:
			switch token.Name.Local {
			case element:
				return strings.TrimSpace(string(b)), nil
			case "annotation":
				notes--
			case "p", "line-break":
				text = []byte("\n")
			}
		case xml.CharData:
			text = token
		}
		if notes == 0 {
			b = append(b, text...)
		}
	}
}
