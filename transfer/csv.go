// Package transfer reads and writes the files by which resources move in and out of the service.
package transfer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"spoolwright/server"
)

// A Cell is a field of a CSV file: nil for null, which is an empty field without quotes.
type Cell = *string

// Reader reads CSV (RFC 4180). It does three things that encoding/csv does not: it distinguishes null from an empty
// text, which is quoted; it keeps \r\n in a quoted field; and it limits the length of a row.
type Reader struct {
	r    *bufio.Reader
	line int // lines read so far
}

// NewReader returns a reader that skips a byte order mark at the start.
func NewReader(r io.Reader) *Reader {
	c := &Reader{r: bufio.NewReaderSize(r, 64<<10)}
	if mark, _ := c.r.Peek(3); string(mark) == "\xef\xbb\xbf" {
		c.r.Discard(3)
	}
	return c
}

// ErrSyntax is returned for a row with a syntax error. The reader can continue with the next row.
var ErrSyntax = errors.New("a quoted field does not end properly: " +
	"double the quotes inside it, and write a comma or a line break after its closing quote")

// maxRow is the maximum length of a row in bytes, the same as that of a request body.
const maxRow = 1 << 20

var errLongRow = fmt.Errorf("a row is longer than %d bytes; is a closing quote missing?", maxRow)

// Next returns the next row that is not blank and the line on which it starts, counted from 1. The error is io.EOF
// after the last row, ErrSyntax, or final.
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
	line = c.line
	size := 0
	read := func() (byte, error) {
		b, err := c.r.ReadByte()
		if size++; size > maxRow {
			return 0, errLongRow
		}
		return b, err
	}
	var text []byte
	valid := true
	for {
		text = text[:0]
		b, err := read()
		quoted := err == nil && b == '"'
		if quoted {
			for {
				if b, err = read(); err == io.EOF {
					return nil, line, ErrSyntax
				} else if err != nil {
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
				valid = valid && (err != nil || b == '\n')
			}
			for err == nil && b != ',' && b != '\n' {
				valid = false
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
		var cell Cell
		if len(text) > 0 || quoted {
			s := string(text)
			cell = &s
		}
		row = append(row, cell)
		switch {
		case err == nil && b == ',':
		case valid:
			return row, line, nil
		default:
			return nil, line, ErrSyntax
		}
	}
}

// AppendCell appends a cell in the form that Reader reads back unchanged. (encoding/csv does not quote an empty text.)
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

// Records reads a CSV file whose header names fields of T, the input type of a POST. The rules for values are those of
// the POST.
type Records[T any] struct {
	csv   *Reader
	names []string
}

// ReadRecords reads the header. It returns an error if a required field is missing or a column is unknown. Columns of
// read-only fields are ignored.
func ReadRecords[T any](r io.Reader) (*Records[T], error) {
	c := NewReader(r)
	header, _, err := c.Next()
	if err == io.EOF {
		return nil, errors.New("the file is empty: its first line must name the columns")
	}
	if err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	var known, writable, names []string
	schema := server.SchemaOf[T]()
	for _, f := range schema.Fields {
		if nested, _ := f.Nested(); nested != nil {
			continue
		}
		known = append(known, f.Name)
		if !f.ReadOnly {
			writable = append(writable, f.Name)
		}
	}
	for _, cell := range header {
		name := ""
		if cell != nil {
			name = strings.TrimSpace(*cell)
		}
		switch {
		case !slices.Contains(known, name):
			hint := ""
			if len(header) == 1 && strings.ContainsAny(name, ";\t") {
				hint = "; separate columns with commas"
			}
			return nil, fmt.Errorf("line 1: unknown column %.100q; the columns are %s%s",
				name, strings.Join(writable, ", "), hint)
		case slices.Contains(names, name):
			return nil, fmt.Errorf("line 1: the column %s appears twice", name)
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

// Next decodes the next row. It returns the line on which the row starts and all problems of the row. The error is
// io.EOF after the last row, or final.
func (r *Records[T]) Next() (in T, line int, problems []server.FieldError, err error) {
	row, line, err := r.csv.Next()
	switch {
	case err == ErrSyntax:
		return in, line, []server.FieldError{{Field: "row", Message: err.Error()}}, nil
	case err != nil:
		return in, line, nil, err
	case len(row) != len(r.names):
		message := fmt.Sprintf("has %d fields, but the header has %d", len(row), len(r.names))
		return in, line, []server.FieldError{{Field: "row", Message: message}}, nil
	}
	in, problems = server.DecodeTexts[T](r.names, row)
	return in, line, problems, nil
}
