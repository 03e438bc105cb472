package transfer

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// MaxColumns is the maximum number of columns of a sheet.
const MaxColumns = 200

// maxAbove is the maximum number of rows without values, such as the titles and the rows above them.
const maxAbove = 100

// Sheet is a table of a file with its titles and its texts, before the columns are recognized.
type Sheet struct {
	Separator  byte     // of a text file, or 0
	Rows       []Row    // all that are not blank
	Worksheet  string   // of a workbook: its name
	Worksheets []string // the names of all that the workbook shows
}

// Table is a file whose columns are fields.
type Table struct {
	Names     []string // of the columns
	Header    int      // the line of the header
	Rows      []Row
	Separator byte // of the file from which it was made

	firstRead []SheetRow // the first rows as ReadRows has read them, with a cell for each field that is not null
}

// without returns the table without the rows on some lines.
func (t *Table) without(lines RowProblems) *Table {
	left := *t
	left.Rows = slices.DeleteFunc(slices.Clone(t.Rows), func(r Row) bool { return lines[r.Line] != nil })
	return &left
}

// ReadSheet reads a file: CSV in UTF-8, in UTF-16 or in a code page of Windows, with any of the usual separators, or a
// workbook (.xlsx, .ods). good returns a score: how well a row matches titles of columns. The separator or the worksheet
// with the best row is used, unless name is the name of a worksheet. maximum is the maximum number of rows with values.
// The error is a sentence for people.
func ReadSheet(file []byte, name string, maximum int, good func(titles []string) int) (*Sheet, error) {
	switch {
	case bytes.HasPrefix(file, []byte(archiveStart)):
		return readWorkbook(file, name, maximum, good)
	case bytes.HasPrefix(file, []byte("\xd0\xcf\x11\xe0")):
		return nil, language.Error("the file is an old spreadsheet such as .xls, or has a password: open it in a " +
			"spreadsheet " +
			"program, save it as .xlsx without a password, and import that file")
	}
	text := value.WithoutDirections(decode(file))
	best, top := byte(','), -1
	if rest, ok := strings.CutPrefix(strings.ToLower(strings.TrimLeft(text[:min(len(text), 100)], "\r\n")), "sep="); ok &&
		len(rest) > 1 && (rest[1] == '\r' || rest[1] == '\n') {
		best = rest[0]
		text = text[strings.IndexByte(text, '=')+2:]
		// The line stays as an empty line, so that the others keep their numbers.
	} else {
		for _, s := range []byte(separators + "|") {
			if n := score(text, s, good); n > top {
				best, top = s, n
			}
		}
	}
	sheet := &Sheet{Separator: best}
	c := NewReader(strings.NewReader(text))
	c.separator = best
	for {
		cells, line, err := c.Next()
		row := Row{Line: line, Cells: cells}
		switch {
		case err == io.EOF:
			return sheet, nil
		case err == ErrSyntax:
			row.Problems = []server.FieldError{{Field: "row", Message: err.Error()}}
		case err != nil:
			return nil, err
		}
		width := len(trim(cells))
		if width > MaxColumns {
			return nil, language.Error("it must have at most %d columns, and line %d has %d", MaxColumns, line, width)
		}
		if row.Problems != nil || width > 0 {
			if sheet.Rows = append(sheet.Rows, row); len(sheet.Rows)-maxAbove > maximum {
				return nil, language.Error("it must have at most %d rows", maximum)
			}
		}
	}
}

// score returns how well a separator fits the first rows of a text: first by the best titles, and then by the number
// of rows with the same number of cells.
func score(text string, separator byte, good func([]string) int) int {
	c := NewReader(strings.NewReader(text[:min(len(text), 64<<10)]))
	c.separator = separator
	best, widths := 0, map[int]int{}
	for range 40 {
		cells, _, err := c.Next()
		if err != nil && err != ErrSyntax {
			break
		}
		if cells = trim(cells); len(cells) > 1 {
			if widths[len(cells)]++; len(cells) <= MaxColumns {
				best = max(best, good(Texts(cells)))
			}
		}
	}
	even := 0
	for width, n := range widths {
		even = max(even, n*(width-1))
	}
	return best*10_000 + min(even, 9_999)
}

// Texts returns the texts of cells, without the blanks around them.
func Texts(cells []Cell) []string {
	all := make([]string, len(cells))
	for i, c := range cells {
		all[i] = textOf(c)
	}
	return all
}

// decode returns the text of a file in UTF-8, without a byte order mark. A file that is neither UTF-8 nor UTF-16 is in
// the code page that Windows uses in Western or in Central Europe.
func decode(file []byte) string {
	if rest, ok := bytes.CutPrefix(file, []byte("\xef\xbb\xbf")); ok {
		file = rest
	}
	if rest, ok := bytes.CutPrefix(file, []byte("\xff\xfe")); ok {
		return decodeUTF16(rest, 0)
	}
	if rest, ok := bytes.CutPrefix(file, []byte("\xfe\xff")); ok {
		return decodeUTF16(rest, 1)
	}
	if n := min(len(file), 1000); n > 3 { // without a mark, every other byte of a Western text is 0
		for high := range 2 {
			zeros := 0
			for i := 1 - high; i < n; i += 2 {
				if file[i] == 0 {
					zeros++
				}
			}
			if zeros*10 > n*4 {
				return decodeUTF16(file, high)
			}
		}
	}
	if utf8.Valid(file) {
		return string(file)
	}
	page := &western
	if isCentral(file) {
		page = &central
	}
	var b strings.Builder
	for _, c := range file {
		if c < 0x80 {
			b.WriteByte(c)
		} else {
			b.WriteRune(page[c-0x80])
		}
	}
	return b.String()
}

// decodeUTF16 decodes UTF-16. High is the place of the high byte in each pair: 0 is big-endian if it is 1.
func decodeUTF16(file []byte, high int) string {
	units := make([]uint16, len(file)/2)
	for i := range units {
		a, b := uint16(file[2*i]), uint16(file[2*i+1])
		if high == 1 {
			units[i] = a<<8 | b
		} else {
			units[i] = b<<8 | a
		}
	}
	return string(utf16.Decode(units))
}

// The upper halves of the code pages 1252 and 1250 of Windows.
var (
	western = pageOf("€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ" + latin1)
	central = pageOf("€\u0081‚\u0083„…†‡\u0088‰Š‹ŚŤŽŹ\u0090‘’“”•–—\u0098™š›śťžź" +
		"\u00a0ˇ˘Ł¤Ą¦§¨©Ş«¬\u00ad®Ż°±˛ł´µ¶·¸ąş»Ľ˝ľż" +
		"ŔÁÂĂÄĹĆÇČÉĘËĚÍÎĎĐŃŇÓÔŐÖ×ŘŮÚŰÜÝŢß" +
		"ŕáâăäĺćçčéęëěíîďđńňóôőö÷řůúűüýţ˙")
)

const latin1 = "\u00a0¡¢£¤¥¦§¨©ª«¬\u00ad®¯°±²³´µ¶·¸¹º»¼½¾¿" +
	"ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞß" +
	"àáâãäåæçèéêëìíîïðñòóôõö÷øùúûüýþÿ"

func pageOf(letters string) (page [128]rune) {
	copy(page[:], []rune(letters))
	return page
}

// isCentral reports whether a text that is not UTF-8 is probably in the code page of Central Europe: it has Polish or
// Czech letters within words, where the Western page has signs, or letters that do not occur together.
func isCentral(file []byte) bool {
	letter := func(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0xc0 || c == 0xb3 }
	polish, czech, hooks := 0, 0, 0
	for i, c := range file {
		before, after := i > 0 && letter(file[i-1]), i+1 < len(file) && letter(file[i+1])
		switch c {
		case 0xb9, 0xb3, 0xbf, 0x9f, 0xa5, 0xa3, 0xaf: // ą ł ż ź Ą Ł Ż, which are ¹ ³ ¿ Ÿ ¥ £ ¯
			if before && after || after && (c == 0xa3 || c == 0xaf) {
				polish++
			}
		case 0xec, 0xf8: // ě ř, which are ì ø
			if after {
				czech++
			}
		case 0x9e, 0x8e, 0xe8, 0xef, 0xf9, 0xfd: // ž Ž č ď ů ý, which are ž Ž è ï ù ý
			hooks++
		}
	}
	return polish > 0 || czech > 0 && hooks > 0
}
