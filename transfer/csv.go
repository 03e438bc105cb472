// Package transfer reads and writes files with resources, for imports and exports.
package transfer

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// Cell is a field of a CSV file. It is nil for null, which is an empty field without quotes.
type Cell = *string

// Row is a row of a file.
type Row struct {
	Line     int // on which the row starts, counted from 1
	Cells    []Cell
	Problems []server.FieldError // found before the cells are decoded
}

// Reader reads CSV (RFC 4180). Unlike encoding/csv, it distinguishes null from an empty text, which is quoted; it
// keeps \r\n in a quoted field; and it limits the length of a row.
type Reader struct {
	r         *bufio.Reader
	separator byte
	line      int    // lines read so far
	size      int    // bytes read of the row
	text      []byte // of the cell
}

// NewReader returns a reader that skips a byte order mark at the beginning.
func NewReader(r io.Reader) *Reader {
	c := &Reader{r: bufio.NewReaderSize(r, 64<<10), separator: ','}
	if mark, _ := c.r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		c.r.Discard(3)
	}
	return c
}

// separators are the separators that spreadsheet programs write, depending on the language of the system.
const separators = ",;\t"

// ErrSyntax is the error of a row with a syntax error. The reader can continue with the next row.
var ErrSyntax = language.Error("a quoted field does not end properly: " +
	"double the quotes inside it, and write a separator or a line break after its closing quote")

// maxRow is the maximum length of a row in bytes. It equals the maximum length of a request body.
const maxRow = 1 << 20

var errLongRow = language.Error("a row is longer than %d bytes; is a closing quote missing?", maxRow)

// Next returns the next row that is not blank, and the number of its first line, counted from 1. The error is io.EOF
// after the last row. After ErrSyntax the reader can continue; after any other error it cannot.
func (c *Reader) Next() (row []Cell, line int, err error) {
	for {
		row, line, err = c.next()
		if err != nil || len(row) > 1 || row[0] != nil {
			return row, line, err
		}
	}
}

func (c *Reader) next() (row []Cell, line int, err error) {
	if _, err := c.r.Peek(1); err != nil {
		return nil, 0, err
	}
	c.line++
	line, c.size = c.line, 0
	var invalid error
	for more := true; more; {
		var cell Cell
		cell, more, err = c.cell()
		if err == ErrSyntax {
			invalid = err
		} else if err != nil {
			return nil, line, err
		}
		row = append(row, cell)
	}
	if invalid != nil {
		return nil, line, invalid
	}
	return row, line, nil
}

// cell reads a cell and the separator or line break after it. It reports whether the row has more cells, also with
// ErrSyntax.
func (c *Reader) cell() (cell Cell, more bool, err error) {
	if !c.quote() {
		text, more, err := c.plain()
		if text == "" {
			return nil, more, err
		}
		return &text, more, err
	}
	text, err := c.quoted()
	if err != nil {
		return nil, false, err
	}
	after, more, err := c.plain()
	if err == nil && after != "" {
		err = ErrSyntax
	}
	return &text, more, err
}

// plain reads a cell without quotes, including the separator or line break after it.
func (c *Reader) plain() (text string, more bool, err error) {
	for c.text = c.text[:0]; ; {
		b, err := c.read()
		switch {
		case err == nil && b == c.separator:
			return string(c.text), true, nil
		case err == nil && b == '\n', err == io.EOF:
			return strings.TrimSuffix(string(c.text), "\r"), false, nil
		case err != nil:
			return "", false, err
		}
		c.text = append(c.text, b)
	}
}

// quoted reads the rest of a quoted text, including the closing quote.
func (c *Reader) quoted() (text string, err error) {
	for c.text = c.text[:0]; ; {
		b, err := c.read()
		switch {
		case err == io.EOF:
			return "", ErrSyntax
		case err != nil:
			return "", err
		case b == '"' && !c.quote():
			return string(c.text), nil
		case b == '\n':
			c.line++
		}
		c.text = append(c.text, b)
	}
}

// quote reports whether the next byte is a quote, and skips the quote.
func (c *Reader) quote() bool {
	if next, _ := c.r.Peek(1); string(next) != `"` {
		return false
	}
	c.read() // the next read also returns the error about a long row
	return true
}

func (c *Reader) read() (byte, error) {
	b, err := c.r.ReadByte()
	if c.size++; c.size > maxRow {
		return 0, errLongRow
	}
	return b, err
}

// AppendCell appends a cell so that Reader reads back the same cell. (encoding/csv does not quote an empty text.)
func AppendCell(to []byte, c Cell) []byte {
	if c == nil {
		return to
	}
	text := *c
	if text != "" && text == strings.TrimSpace(text) && !strings.ContainsAny(text, "\",\r\n\ufeff") {
		return append(to, text...)
	}
	to = append(to, '"')
	to = append(to, strings.ReplaceAll(text, `"`, `""`)...)
	return append(to, '"')
}

// Records reads a table whose columns are fields of T, the input type of a POST. The rules for values are the rules of
// the POST. Records also accepts the forms that spreadsheet programs and people write: numbers, dates and booleans in
// the forms of several countries; empty rows; and headers and values of enums in any case. An ambiguous value is a
// problem of its row.
type Records[T any] struct{ records }

// records is a Records of any type.
type records struct {
	table  *Table
	read   int // rows
	how    Reading
	names  []string
	fields []*server.Field // the fields with the names
	keys   []int           // the columns of the keys; -1 for a missing column
	farm   *string         // the currency of the farm; nil until it has been read
	first  string          // the first currency in the file
	sorted []int           // the columns of hash, by name; nil until the first row
}

// Mode determines what an import does with the rows of a file.
type Mode string

// The modes of imports.
const (
	Create Mode = "create" // creates a resource for each row
	Update Mode = "update" // changes the resources that rows name, and skips other rows
	Upsert Mode = "upsert" // changes the resources that rows name, and creates one for each other row
)

// Enum returns all modes.
func (Mode) Enum() []string { return []string{string(Create), string(Update), string(Upsert)} }

// Record is a row of a file.
type Record[T any] struct {
	In T
	record
}

// record is the part of a Record that does not depend on its type.
type record struct {
	Line     int      // on which the row starts
	Hash     int64    // of the fields with a value, in any order of the columns
	Keys     []string // the texts that name a resource, "" for a missing text; nil if the row names no resource
	Problems []server.FieldError
	Foreign  bool // whether the ids of the row are from another farm; see Resolve

	asNew func(in any) []server.FieldError // decodes the row as a new resource
}

// New returns the row decoded as a new resource, even if the row names a resource. The mode must be Upsert.
func (r Record[T]) New() Record[T] {
	if r.asNew != nil {
		r.In = *new(T)
		r.Problems = r.asNew(&r.In)
	}
	r.Keys, r.asNew, r.Foreign = nil, nil, true
	return r
}

// ReadRecords reads the header. It returns an error if a required field is missing or a column is unknown. It ignores
// columns of read-only fields, except the columns of the keys, which name resources unless the mode is Create. The
// argument how is the result of DetectFormats.
func ReadRecords[T any](file *Table, how Reading, keys ...string) (*Records[T], error) {
	records, err := readRecords(server.SchemaOf[T](), file, how, keys)
	if err != nil {
		return nil, err
	}
	return &Records[T]{*records}, nil
}

func readRecords(schema *server.Schema, file *Table, how Reading, keys []string) (*records, error) {
	records, err := open(schema, file)
	if err != nil {
		return nil, err
	}
	records.how = how
	missing := schema.Missing(func(name string) bool { return slices.Contains(records.names, name) })
	named := false
	if how.Mode != Create {
		for _, key := range keys {
			column := slices.Index(records.names, key)
			records.keys, named = append(records.keys, column), named || column >= 0
		}
	}
	switch {
	case named:
	case how.Mode == Update:
		err = language.Error("no column names the resources to change: add a column %s", strings.Join(keys, " or "))
	case len(missing) > 0:
		err = language.Error("the column %s is missing", missing[0])
	}
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", file.Header, err)
	}
	return records, nil
}

// open reads the header.
func open(schema *server.Schema, file *Table) (*records, error) {
	if file.Header == 0 {
		return nil, language.Error("the file is empty: its first line must name the columns")
	}
	problem := func(format language.Text, args ...any) (*records, error) {
		return nil, fmt.Errorf("line %d: %w", file.Header, language.Error(format, args...))
	}
	var writable []string
	known := map[string]*server.Field{}
	for _, f := range schema.Fields {
		if nested, _ := f.Nested(); nested != nil {
			continue
		}
		known[f.Name] = f
		if !f.ReadOnly {
			writable = append(writable, f.Name)
		}
	}
	found := &records{table: file}
	for _, shown := range file.Names {
		name := columnName(shown)
		switch {
		case known[name] == nil:
			return problem("unknown column %q; the columns are %s", shorten(shown), strings.Join(writable, ", "))
		case slices.Contains(found.names, name):
			return problem("the column %s appears twice", name)
		}
		found.names, found.fields = append(found.names, name), append(found.fields, known[name])
	}
	return found, nil
}

// columnName returns the field name for the title of a column.
func columnName(shown string) string {
	return strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(shown))
}

// textOf returns the text of a cell without the blanks around it, or "" for null.
func textOf(c Cell) string {
	if c == nil {
		return ""
	}
	return strings.TrimSpace(*c)
}

// trim removes blank cells from the end of a row.
func trim(row []Cell) []Cell {
	for len(row) > 0 && textOf(row[len(row)-1]) == "" {
		row = row[:len(row)-1]
	}
	return row
}

func shorten(text string) string { return value.Shorten(text, 40) }

// Fields returns the names of the columns that Next decodes.
func (r *records) Fields() (names []string) {
	for i, f := range r.fields {
		if !f.ReadOnly {
			names = append(names, r.names[i])
		}
	}
	return names
}

// Next decodes the next row that is not blank, with all its problems; the messages of the problems contain the values.
// Next decodes a row that names a resource as a PATCH. With the mode Update, it does not decode other rows. It returns
// false after the last row.
func (r *Records[T]) Next() (row Record[T], ok bool) {
	for ; r.read < len(r.table.Rows); r.read++ {
		if read := r.table.Rows[r.read]; len(trim(read.Cells)) > 0 || read.Problems != nil {
			r.read++
			row.record = r.decode(read, &row.In)
			return row, true
		}
	}
	return row, false
}

// decode decodes a row into in, a pointer to a new T.
func (r *records) decode(read Row, in any) (record record) {
	record.Line = read.Line
	if slices.ContainsFunc(read.Problems, func(p server.FieldError) bool { return p.Field == "row" }) {
		record.Problems = read.Problems
		return record
	}
	row := read.Cells
	if len(row) > len(r.names) { // a spreadsheet writes empty cells to the right of the table
		row = row[:max(len(r.names), len(trim(row)))]
	}
	if len(row) != len(r.names) {
		message := language.Sprintf("has %d fields, but the header has %d", len(row), len(r.names))
		record.Problems = []server.FieldError{{Field: "row", Message: message}}
		return record
	}
	names := false
	wrong := slices.Clone(read.Problems) // and ambiguous values
	for _, column := range r.keys {
		text := ""
		if column >= 0 {
			text = textOf(row[column])
			if f := r.fields[column]; f.IsNumber() && text != "" {
				var problem string
				if text, problem = r.number(f, text); problem != "" {
					wrong = append(wrong, server.FieldError{Field: f.Name, Message: problem})
				}
			}
		}
		names = names || text != ""
		record.Keys = append(record.Keys, text)
	}
	if !names {
		record.Keys = nil
		if r.how.Mode == Update {
			return record
		}
	}
	id := slices.Index(r.names, "id")
	cells := make([]Cell, len(row))
	for i, cell := range row {
		var problem string
		if cells[i], problem = r.cell(r.fields[i], cell, id >= 0 && textOf(row[id]) != ""); problem != "" {
			wrong = append(wrong, server.FieldError{Field: r.names[i], Message: problem})
		}
	}
	record.Hash = r.hash(cells)
	decode := func(in any, patch bool) []server.FieldError {
		problems := server.DecodeTexts(in, r.names, cells, patch)
		problems = slices.DeleteFunc(problems, func(p server.FieldError) bool {
			return slices.ContainsFunc(wrong, func(w server.FieldError) bool { return w.Field == p.Field })
		})
		r.explain(row, problems)
		return append(problems, wrong...)
	}
	record.Problems = decode(in, names)
	if names && r.how.Mode == Upsert {
		record.asNew = func(in any) []server.FieldError { return decode(in, false) }
	}
	return record
}

// hash returns the Hash of a row.
func (r *records) hash(cells []Cell) int64 {
	if r.sorted == nil {
		for i, f := range r.fields {
			if !f.ReadOnly {
				r.sorted = append(r.sorted, i)
			}
		}
		value.Sort(r.sorted, func(a, b int) int { return strings.Compare(r.names[a], r.names[b]) })
	}
	var row []byte
	for _, i := range r.sorted {
		if text := textOf(cells[i]); text != "" {
			row = append(append(append(append(row, r.names[i]...), 0), text...), 0)
		}
	}
	sum := sha256.Sum256(row)
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// explain adds the values of the row to the messages of the problems.
func (r *records) explain(row []Cell, problems []server.FieldError) {
	for i := range problems {
		p := &problems[i]
		if column := slices.Index(r.names, p.Field); column >= 0 && textOf(row[column]) != "" {
			p.Message += "; " + language.Sprintf("the value is %q", shorten(*row[column]))
		}
	}
}
