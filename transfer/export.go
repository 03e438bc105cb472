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
	"slices"
	"strings"
	"syscall"

	"spoolwright/auth/accounts"
	"spoolwright/auth/audit"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/server"
)

// Exporter writes the resources of one kind that the filter selects in the tenant of ctx, oldest first. It reads one
// page at a time and writes one row at a time, so that the memory that it needs does not grow with the number of
// resources. A resource that changes during the export is written as it was before or after the change.
//
// The format jsonl has one JSON object per line, equal to the response of the GET of the resource. In the format csv,
// a field of a nested object is a column with a name such as materials.color. A resource has a row for each entry of
// its nested lists, and each row repeats the fields of the resource. If the lists are empty, the resource has one row.
type Exporter[F any] func(ctx context.Context, d *db.DB, w io.Writer, format server.ExportFormat, filter F) error

// pageBytes limits the size of a page: when the resources of a page have this many bytes, further resources are in the
// next page. A resource with long nested lists has several megabytes. It is a part of the memory reserved for a file;
// see server.HandleExport.
const pageBytes = 1 << 20

// Page returns the statements that select the resources after a position. The last statement must have Keep(limit,
// "created_at").
type Page[F any] func(ctx context.Context, filter F, limit int, after *db.Position) []*db.Stmt

// ListPage returns the pages of an export of a list: see server.List.Export.
func ListPage[F any](list func(F) *server.List, resource string) Page[F] {
	return func(ctx context.Context, filter F, limit int, after *db.Position) []*db.Stmt {
		return list(filter).Export(ctx, resource, limit, after)
	}
}

// Export returns the exporter of resources of type T, and adds an entry to the audit log, with the first page. It
// reads pages of at most limit resources. The argument resources is their name in the log.
func Export[T, F any](resources string, limit int, page Page[F]) Exporter[F] {
	return func(ctx context.Context, d *db.DB, w io.Writer, format server.ExportFormat, filter F) error {
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
		var after *db.Position
		limit := limit
		for ctx.Err() == nil {
			statements := page(ctx, filter, limit, after)
			stmt := statements[len(statements)-1].KeepBytes(pageBytes)
			var err error
			if after == nil {
				err = d.WriteLocal(ctx, append([]*db.Stmt{audit.Export(resources)}, statements...)...)
			} else {
				err = d.Read(ctx, statements...)
			}
			if err != nil {
				return err
			}
			rows := json.NewDecoder(bytes.NewReader(stmt.Array()))
			if _, err := rows.Token(); err != nil {
				return err
			}
			var row json.RawMessage
			for rows.More() {
				if err := rows.Decode(&row); err != nil {
					return err
				}
				if err := write(w, row); err != nil {
					return err
				}
			}
			// The resources are large: read fewer that do not fit in the page.
			for limit > 1 && stmt.Rows() <= limit/2 {
				limit /= 2
			}
			if after = stmt.Next(); after == nil {
				return nil
			}
		}
		return ctx.Err()
	}
}

// exporting has the parameters of the endpoint of an Exporter.
type exporting[F any] struct {
	server.ExportQuery
	Filter F `query:"*"`
}

// Handle returns the endpoint that exports resources. The argument is the plural name of the resources.
func (e Exporter[F]) Handle(d *db.DB, resources string) server.Endpoint {
	return server.HandleExport(resources, func(
		ctx context.Context, r *server.Request[exporting[F]], w io.Writer, format server.ExportFormat,
	) error {
		return e(ctx, d, w, format, r.In.Filter)
	})
}

// ExportDescription begins the description of an endpoint of an Exporter.
const ExportDescription = "Returns what the filters select, in a file in UTF-8. A list and its export have the " +
	"same filters. `format=jsonl` has one JSON object per line, as returned by the GET of the resource. `format=csv` " +
	"(separated by commas) has a row for each "

// Command returns the command that exports resources. The argument is the plural name of the resources.
func (e Exporter[F]) Command(resources string) cli.Command {
	return cli.Command{
		Name: "export " + resources, Args: "[--tenant NAME] [--format csv|jsonl]", Needs: cli.Farm,
		Help: "write all " + resources + " to standard output, oldest first",
		Setup: func(flags *flag.FlagSet) cli.Run {
			format := server.ExportFormat("csv")
			flags.Func("format", "csv, or jsonl for one JSON object per line (default csv)", func(v string) error {
				if format = server.ExportFormat(v); server.ExportMedia[format] == "" {
					return errors.New("must be csv or jsonl")
				}
				return nil
			})
			return accounts.InTenant(flags, func(ctx context.Context, c *cli.Call) error {
				// With `| head`, writing must return an error: if SIGPIPE ended the program, a private PostgreSQL
				// would keep running.
				signal.Ignore(syscall.SIGPIPE)
				out := bufio.NewWriterSize(c.Out, 64<<10)
				var all F
				if err := e(ctx, c.DB, out, format, all); err != nil {
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

// column is a column of a CSV file. Its value is the field name of the resource, or of the object or list outer if
// outer is set.
type column struct {
	outer, name string
	isList      bool
}

func columnsOf(s *server.Schema) (all columns) {
	for _, f := range s.Fields {
		nested, isList := f.Nested()
		// This applies to the warnings of a run, and to the plates of a product, which have rows of their own.
		if isList && (f.ReadOnly || slices.ContainsFunc(nested.Fields, func(f *server.Field) bool { return f.List })) {
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

// writeRows writes the rows of a resource one by one: all rows together can have a hundred times the size of the
// resource, because each row repeats the fields of the resource.
func (c columns) writeRows(w io.Writer, resource []byte) (err error) {
	decode := func(from []byte, into any) {
		err = errors.Join(err, json.Unmarshal(from, into))
	}
	var own fields
	decode(resource, &own)
	objects := map[string]fields{"": own} // by the column's outer field; the objects of lists are set for each row
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
	case text[0] == '[':
		var entries []string
		err := json.Unmarshal(value, &entries)
		text = strings.Join(entries, ",")
		return &text, err
	case text == "{}":
		return nil, nil
	}
	return &text, nil
}
