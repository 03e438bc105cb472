package transfer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/signal"
	"strconv"
	"syscall"

	"spoolwright/auth/accounts"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/server"
)

// Exporter writes all resources of a kind in the tenant of ctx, oldest first. It reads one page at a time, and writes
// one row at a time, so the memory it needs does not grow with their number; a resource that changes meanwhile is
// written as it was before or after the change.
//
// The format jsonl is one JSON object per line, as the GET of the resource returns it. In the format csv, a field of a
// nested object is a column with a name such as materials.color. A resource has a row for each entry of its nested
// lists, with its own fields repeated, or one row if the lists are empty.
type Exporter func(ctx context.Context, d *db.DB, w io.Writer, format string) error

// pageBytes is the size of a page, in bytes, after which its further resources are left for the next one. A resource
// with long nested lists has several megabytes.
const pageBytes = 4 << 20

// Export returns the exporter of resources with the type T. Page returns the statement for the resources that come
// after the one with that created_at and id, with the limit as a number in its text: a plan for any limit can be
// slower.
func Export[T any](limit int, page func(createdAt, id, limit string) *db.Stmt) Exporter {
	return func(ctx context.Context, d *db.DB, w io.Writer, format string) error {
		write := writeLine
		switch format {
		case "jsonl":
		case "csv":
			all := columnsOf(server.SchemaOf[T]())
			write = all.writeRows
			if _, err := w.Write(all.appendHeader(nil)); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unknown format %q", format)
		}
		createdAt, id := "-infinity", "00000000-0000-0000-0000-000000000000"
		for ctx.Err() == nil {
			stmt := page(createdAt, id, strconv.Itoa(limit+1)).Keep(limit, "created_at").KeepBytes(pageBytes)
			if err := d.Read(ctx, db.FreshPlan(), stmt); err != nil {
				return err
			}
			var rows []json.RawMessage
			if err := json.Unmarshal(stmt.Array(), &rows); err != nil {
				return err
			}
			for _, row := range rows {
				if err := write(w, row); err != nil {
					return err
				}
			}
			next := stmt.Next()
			if next == nil {
				return nil
			}
			createdAt, id = next.Value, next.ID
		}
		return ctx.Err()
	}
}

// Endpoint returns the endpoint that exports resources as CSV, with their name in the plural.
func (e Exporter) Endpoint(d *db.DB, resources string) server.Endpoint {
	return server.HandleFile("text/csv", resources+".csv",
		func(ctx context.Context, _ *server.Request[struct{}], w io.Writer) error { return e(ctx, d, w, "csv") })
}

// ExportDescription describes what an endpoint of an Exporter returns.
const ExportDescription = "Returns a CSV file (UTF-8, separated by commas) with a row for each "

// Command returns the command that exports resources, with their name in the plural.
func (e Exporter) Command(resources string) cli.Command {
	return cli.Command{
		Name: "export " + resources, Args: "[--tenant NAME] [--format csv|jsonl]", Needs: cli.Farm,
		Help: "write all " + resources + " to standard output, oldest first",
		Setup: func(flags *flag.FlagSet) cli.Run {
			format := "csv"
			flags.Func("format", "csv, or jsonl for one JSON object per line (default csv)", func(v string) error {
				if format = v; v != "csv" && v != "jsonl" {
					return errors.New("must be csv or jsonl")
				}
				return nil
			})
			return accounts.InTenant(flags, func(ctx context.Context, c *cli.Call) error {
				// With `| head`, writing must return an error: the signal would leave a private PostgreSQL running.
				signal.Ignore(syscall.SIGPIPE)
				out := bufio.NewWriterSize(c.Out, 64<<10)
				if err := e(ctx, c.DB, out, format); err != nil {
					return err
				}
				return out.Flush()
			})
		},
	}
}

func writeLine(w io.Writer, row []byte) error {
	var b bytes.Buffer
	if err := json.Compact(&b, row); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(w)
	return err
}

type columns []column

// column is a column of a CSV file. Its value is the field name, or the field name of the object or list outer.
type column struct {
	outer, name string
	isList      bool
}

func columnsOf(s *server.Schema) (all columns) {
	for _, f := range s.Fields {
		nested, isList := f.Nested()
		if isList && f.ReadOnly { // such as the warnings of a run
			continue
		}
		switch {
		case f.WriteOnly:
		case nested == nil:
			all = append(all, column{name: f.Name})
		default:
			for _, inner := range nested.Fields {
				if !inner.WriteOnly {
					all = append(all, column{f.Name, inner.Name, isList})
				}
			}
		}
	}
	return all
}

func (c columns) appendHeader(to []byte) []byte {
	for i, column := range c {
		if i > 0 {
			to = append(to, ',')
		}
		if column.outer != "" {
			to = append(to, column.outer+"."...)
		}
		to = append(to, column.name...)
	}
	return append(to, '\n')
}

// fields are the members of a JSON object.
type fields map[string]json.RawMessage

// writeRows writes the rows of a resource one by one: together they can have a hundred times the size of the resource,
// because its own fields are in each of them.
func (c columns) writeRows(w io.Writer, resource []byte) (err error) {
	decode := func(from []byte, into any) {
		err = errors.Join(err, json.Unmarshal(from, into))
	}
	var own fields
	decode(resource, &own)
	objects := map[string]fields{"": own} // by the column's outer field; those of lists are set for each row
	var lists []string
	entries := map[string][]fields{}
	for i, column := range c {
		if column.outer == "" || i > 0 && c[i-1].outer == column.outer {
			continue
		}
		if column.isList {
			var list []fields
			decode(own[column.outer], &list)
			lists, entries[column.outer] = append(lists, column.outer), list
		} else {
			var object fields
			decode(own[column.outer], &object)
			objects[column.outer] = object
		}
	}
	var text []byte
	writeRow := func() {
		text = text[:0]
		for i, column := range c {
			if i > 0 {
				text = append(text, ',')
			}
			cell, cellErr := cellOf(objects[column.outer][column.name])
			err = errors.Join(err, cellErr)
			text = AppendCell(text, cell)
		}
		if err == nil {
			_, err = w.Write(append(text, '\n'))
		}
	}
	rows := 0
	for _, name := range lists {
		for _, objects[name] = range entries[name] {
			if err != nil {
				return err
			}
			rows++
			writeRow()
		}
		delete(objects, name)
	}
	if rows == 0 {
		writeRow()
	}
	return err
}

func cellOf(value json.RawMessage) (Cell, error) {
	text := string(value)
	switch {
	case text == "" || text == "null":
		return nil, nil
	case text[0] == '"':
		err := json.Unmarshal(value, &text)
		return &text, err
	case text[0] == '{' || text[0] == '[':
		return nil, errors.New("transfer: a column holds a nested value")
	}
	return &text, nil
}
