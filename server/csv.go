package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Cell is a field of a CSV file. An empty one is null unless it is quoted: so files keep the difference between no text and
// an empty one.
type Cell struct {
	Text string
	Null bool
}

// CSV reads a file of comma-separated values (RFC 4180). Unlike encoding/csv it keeps line breaks in quotes as they are, tells
// null from empty, and bounds the length of a row.
type CSV struct {
	r    *bufio.Reader
	line int // lines that were begun
}

// NewCSV makes a reader. A byte order mark at the beginning is skipped.
func NewCSV(r io.Reader) *CSV {
	c := &CSV{r: bufio.NewReaderSize(r, 64<<10)}
	if mark, _ := c.r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		c.r.Discard(3)
	}
	return c
}

// RowError is a row that is no CSV.
type RowError struct{ Line int }

func (e *RowError) Error() string { return "line " + strconv.Itoa(e.Line) + ": " + e.problem() }

func (e *RowError) problem() string {
	return "a quoted field does not end as it should: double the quotes inside, and write a comma or a new line after the last one"
}

// maxRow is the most bytes of a row: what a body of the API may have.
const maxRow = maxBody

var errLongRow = fmt.Errorf("a row is longer than %d bytes; is a quote not closed?", maxRow)

// Next returns the next row that is not blank and the line on which it begins, counted from 1. The error is io.EOF after the last one,
// a *RowError for one that is no CSV (the next may be), or final.
func (c *CSV) Next() (row []Cell, line int, err error) {
	for {
		row, line, err = c.next()
		if err != nil || len(row) > 1 || !row[0].Null {
			return row, line, err
		}
	}
}

func (c *CSV) next() (row []Cell, line int, err error) {
	var text []byte
	size := 0
	read := func() (byte, error) {
		b, err := c.r.ReadByte()
		if size++; size > maxRow {
			return 0, errLongRow
		}
		return b, err
	}
	if _, err := c.r.Peek(1); err != nil {
		return nil, 0, err
	}
	c.line++
	line = c.line
	bad := false
	for {
		text = text[:0]
		b, err := read()
		quoted := err == nil && b == '"'
		if quoted {
			for {
				if b, err = read(); err != nil {
					if err == io.EOF {
						return nil, line, &RowError{line}
					}
					return nil, line, err
				}
				if b == '"' {
					if b, err = read(); err != nil || b != '"' {
						break
					}
				}
				if b == '\n' {
					c.line++
				}
				text = append(text, b)
			}
			if err == nil && b == '\r' {
				b, err = read()
				bad = bad || err == nil && b != '\n'
			}
			for err == nil && b != ',' && b != '\n' {
				bad = true
				b, err = read()
			}
		} else {
			for err == nil && b != ',' && b != '\n' {
				text = append(text, b)
				b, err = read()
			}
			if (err != nil || b == '\n') && len(text) > 0 && text[len(text)-1] == '\r' {
				text = text[:len(text)-1]
			}
		}
		if err != nil && err != io.EOF {
			return nil, line, err
		}
		row = append(row, Cell{string(text), len(text) == 0 && !quoted})
		if err == io.EOF || b == '\n' {
			if bad {
				return nil, line, &RowError{line}
			}
			return row, line, nil
		}
	}
}

// Records reads a CSV file whose header names fields of T, an input type of the API. The values are held to the same rules as
// those in a request that creates one.
type Records[T any] struct {
	csv   *CSV
	names []string
}

// ReadRecords reads the header. The error says what is wrong with it: every field that a request must have is needed, those that
// only the service sets are ignored, and others are unknown.
func ReadRecords[T any](r io.Reader) (*Records[T], error) {
	c := NewCSV(r)
	header, _, err := c.Next()
	if err == io.EOF {
		return nil, errors.New("the file is empty: its first line must name the columns")
	}
	if err != nil {
		return nil, err
	}
	schema := SchemaOf[T]()
	var known, names []string
	for _, f := range schema.Fields {
		if !f.list && !f.ReadOnly {
			known = append(known, f.Name)
		}
	}
	for _, cell := range header {
		name := strings.TrimSpace(cell.Text)
		switch f := schema.byName[name]; {
		case f == nil || f.list:
			hint := ""
			if len(header) == 1 && strings.ContainsAny(name, ";\t") {
				hint = "; separate columns with commas"
			}
			return nil, fmt.Errorf("line 1: %q is no column; there are %s%s", shorten(name), strings.Join(known, ", "), hint)
		case slices.Contains(names, name):
			return nil, fmt.Errorf("line 1: the column %s is there twice", name)
		}
		names = append(names, name)
	}
	for _, f := range schema.Fields {
		if f.Required && !f.ReadOnly && !slices.Contains(names, f.Name) {
			return nil, fmt.Errorf("line 1: the column %s is missing", f.Name)
		}
	}
	return &Records[T]{c, names}, nil
}

// Next fills in from the next row, and returns the line on which that begins and what is wrong with it. The error is io.EOF after
// the last row, or final.
func (r *Records[T]) Next(in *T) (line int, problems []FieldError, err error) {
	row, line, err := r.csv.Next()
	var bad *RowError
	switch {
	case errors.As(err, &bad):
		return line, []FieldError{{"row", bad.problem()}}, nil
	case err != nil:
		return line, nil, err
	case len(row) != len(r.names):
		return line, []FieldError{{"row", fmt.Sprintf("has %d fields, not the %d of the header", len(row), len(r.names))}}, nil
	}
	return line, DecodeRecord(r.names, row, in), nil
}

// DecodeRecord fills in from a record, as from a JSON object in a request that creates one: names are those of fields, values are texts.
// It returns all that is wrong.
func DecodeRecord[T any](names []string, row []Cell, in *T) []FieldError {
	var zero T
	*in = zero
	v := reflect.ValueOf(in).Elem()
	schema := schemaOf(v.Type())
	var problems Problems
	given := make(map[string]bool, len(names))
	for i, name := range names {
		f := schema.byName[name]
		if f.ReadOnly {
			continue
		}
		value := f.ofText(row[i])
		if value == nil {
			continue
		}
		given[name] = true
		if problem := v.FieldByIndex(f.index).Addr().Interface().(settable).set(f, value); problem != "" {
			problems.Add(name, "%s", problem)
		}
	}
	for _, f := range schema.Fields {
		if f.Required && !f.ReadOnly && !given[f.Name] {
			problems.Add(f.Name, "is required")
		}
	}
	var e *Error
	if errors.As(check(in, problems), &e) {
		return e.Fields
	}
	return nil
}

// ofText is the scalar that a text stands for. Where an empty text is no value, it is null, however it is quoted.
func (f *Field) ofText(c Cell) any {
	plain := f.kind == reflect.TypeFor[string]() && len(f.Enum) == 0 && f.Format != "color"
	text := c.Text
	if !plain {
		text = strings.TrimSpace(text)
	}
	if c.Null || text == "" && !plain {
		return nil
	}
	switch f.kind {
	case reflect.TypeFor[int64](), reflect.TypeFor[Decimal]():
		return number(text)
	case reflect.TypeFor[bool]():
		switch strings.ToLower(text) {
		case "true":
			return true
		case "false":
			return false
		}
	}
	return text
}

// AppendCell appends a cell so that CSV reads it back as it was.
func AppendCell(to []byte, c Cell) []byte {
	switch {
	case c.Null:
		return to
	case c.Text != "" && !strings.ContainsAny(c.Text, "\",\r\n") && strings.TrimSpace(c.Text) == c.Text && !strings.HasPrefix(c.Text, "\ufeff"):
		return append(to, c.Text...)
	}
	to = append(to, '"')
	to = append(to, strings.ReplaceAll(c.Text, `"`, `""`)...)
	return append(to, '"')
}
