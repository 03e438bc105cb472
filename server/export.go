package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"spoolwright/db"
)

// Export writes all resources of a kind, oldest first, and returns how many: as JSON lines, each one as its single GET shows it, or
// as CSV. In CSV, a field of a nested object is a column named like materials.color; a resource has a row for each entry of its nested
// lists, with its own fields repeated, and one row if it has none.
//
// Page returns the statement for the resources that come after one with that created_at and id. What is read at once is one
// page, so that an export needs no more memory than that; a resource that changes meanwhile is shown before or after.
func Export[T any](ctx context.Context, d *db.DB, w io.Writer, format string, page func(createdAt, id string) *db.Stmt) (n int, err error) {
	columns := columnsOf(reflect.TypeFor[T]())
	var write func(to []byte, row []byte) ([]byte, error)
	var out []byte
	switch format {
	case "jsonl":
		write = func(to []byte, row []byte) ([]byte, error) {
			b := bytes.NewBuffer(to)
			err := json.Compact(b, row)
			b.WriteByte('\n')
			return b.Bytes(), err
		}
	case "csv":
		write = columns.appendRows
		out = columns.appendHeader(nil)
	default:
		return 0, fmt.Errorf("the format %q is none of csv, jsonl", format)
	}
	createdAt, id := "-infinity", "00000000-0000-0000-0000-000000000000"
	for {
		stmt := page(createdAt, id)
		if err := d.Read(ctx, stmt); err != nil {
			return n, err
		}
		var rows []json.RawMessage
		if err := json.Unmarshal(stmt.Array(), &rows); err != nil {
			return n, err
		}
		for _, row := range rows {
			if out, err = write(out, row); err != nil {
				return n, err
			}
		}
		if _, err := w.Write(out); err != nil {
			return n, err
		}
		if len(rows) == 0 {
			return n, nil
		}
		n += len(rows)
		var last struct {
			ID        string
			CreatedAt string `json:"created_at"`
		}
		if err := json.Unmarshal(rows[len(rows)-1], &last); err != nil {
			return n, err
		}
		if ctx.Err() != nil {
			return n, ctx.Err()
		}
		createdAt, id, out = last.CreatedAt, last.ID, out[:0]
	}
}

// exportColumns are the columns of a CSV file: the path of names that leads to each, and the list that it belongs to, if any.
type exportColumns []exportColumn

type exportColumn struct {
	path []string
	list bool
}

func columnsOf(t reflect.Type) (all exportColumns) {
	for _, f := range schemaOf(t).Fields {
		switch {
		case f.WriteOnly:
		case f.list || f.nests():
			for _, inner := range schemaOf(f.kind).Fields {
				all = append(all, exportColumn{[]string{f.Name, inner.Name}, f.list})
			}
		default:
			all = append(all, exportColumn{[]string{f.Name}, false})
		}
	}
	return all
}

func (c exportColumns) appendHeader(to []byte) []byte {
	for i, column := range c {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(to, strings.Join(column.path, ".")...)
	}
	return append(to, '\n')
}

func (c exportColumns) appendRows(to []byte, row []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(row, &fields); err != nil {
		return nil, err
	}
	nested := map[string]map[string]json.RawMessage{}
	lists := map[string][]map[string]json.RawMessage{}
	var order []string
	for _, column := range c {
		name := column.path[0]
		var err error
		switch {
		case len(column.path) == 1 || nested[name] != nil || lists[name] != nil:
		case column.list:
			entries := []map[string]json.RawMessage{}
			err = json.Unmarshal(fields[name], &entries)
			lists[name], order = entries, append(order, name)
		default:
			var object map[string]json.RawMessage
			err = json.Unmarshal(fields[name], &object)
			nested[name] = object
		}
		if err != nil {
			return nil, err
		}
	}
	line := func(list string, entry map[string]json.RawMessage) error {
		for i, column := range c {
			if i > 0 {
				to = append(to, ',')
			}
			value := fields[column.path[0]]
			if len(column.path) == 2 {
				value = nested[column.path[0]][column.path[1]]
				if column.list {
					value = nil
					if column.path[0] == list {
						value = entry[column.path[1]]
					}
				}
			}
			cell, err := cellOf(value)
			if err != nil {
				return err
			}
			to = AppendCell(to, cell)
		}
		to = append(to, '\n')
		return nil
	}
	lines := 0
	for _, name := range order {
		for _, entry := range lists[name] {
			lines++
			if err := line(name, entry); err != nil {
				return nil, err
			}
		}
	}
	if lines == 0 {
		return to, line("", nil)
	}
	return to, nil
}

func cellOf(value json.RawMessage) (Cell, error) {
	switch {
	case len(value) == 0 || string(value) == "null":
		return Cell{Null: true}, nil
	case value[0] == '"':
		var c Cell
		err := json.Unmarshal(value, &c.Text)
		return c, err
	case value[0] == '{' || value[0] == '[':
		return Cell{}, errors.New("server: a nested value where a column was expected")
	}
	return Cell{Text: string(value)}, nil
}
