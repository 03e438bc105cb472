package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"spoolwright/auth/accounts"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/server"
)

// Import is an import of CSV files, as an operation of the API and as a command. It creates or changes all resources
// of a file or none. F contains the rows of a file, and R embeds ImportCounts. If R has the method Notes, the command
// prints the notes that it returns.
type Import[F any, R interface{ counts() ImportCounts }] struct {
	Resources string // in the plural
	Most      int    // maximum number of rows of a request; a command has no limit
	Example   string // of a file
	Help      string // of the command
	Read      func(file io.ReadSeeker, how Reading, most int) (F, error)
	Prepare   func(ctx context.Context, d *db.DB, file *F, dryRun bool) error      // before the transaction; or nil
	Write     func(ctx context.Context, d *db.DB, file *F, dryRun bool) (R, error) // in the transaction of ctx
	Error     func(error) error                                                    // converts the error of Write
}

// read reads a file and prepares its import.
func (i Import[F, R]) read(
	ctx context.Context, d *db.DB, file io.ReadSeeker, how Reading, most int, dryRun bool,
) (f F, err error) {
	f, err = i.Read(file, how.In(ctx, d), most)
	if err == nil && i.Prepare != nil {
		err = i.Prepare(ctx, d, &f, dryRun)
	}
	return f, err
}

func (c ImportCounts) counts() ImportCounts { return c }

// Endpoint returns the endpoint of the import.
func (i Import[F, R]) Endpoint(d *db.DB) server.Endpoint {
	return server.HandleText("text/csv", i.Example,
		func(ctx context.Context, r *server.Request[ImportQuery], body []byte) (F, error) {
			how := Reading{Mode: r.In.Mode.Or(Create), Decimal: r.In.Decimal.Or(""), Dates: r.In.DateOrder.Or("")}
			return i.read(ctx, d, bytes.NewReader(body), how, i.Most, r.In.DryRun.Or(false))
		},
		func(ctx context.Context, r *server.Request[ImportQuery], f F) (server.OK[R], error) {
			var result R
			err := d.Tx(ctx, func(ctx context.Context) (err error) {
				result, err = i.Write(ctx, d, &f, r.In.DryRun.Or(false))
				return err
			})
			if err != nil {
				return nil, i.Error(err)
			}
			return server.Encode(result)
		})
}

// Command returns the command of the import.
func (i Import[F, R]) Command() cli.Command {
	return cli.Command{
		Name: "import " + i.Resources, Args: ImportArgs,
		Needs: cli.Farm, Help: i.Help,
		Setup: func(flags *flag.FlagSet) cli.Run {
			how, dryRun := ImportFlags(flags)
			return accounts.InTenant(flags, func(ctx context.Context, c *cli.Call) error {
				file, err := OpenOperand(c, OpenFile)
				if err != nil {
					return err
				}
				defer file.Close()
				return i.Run(ctx, c, file, *how, *dryRun)
			})
		},
	}
}

// Run imports the file of a command.
func (i Import[F, R]) Run(ctx context.Context, c *cli.Call, file io.ReadSeeker, how Reading, dryRun bool) error {
	return runImport(c, i.Resources, func() (_ ImportCounts, notes []string, err error) {
		f, err := i.read(ctx, c.DB, file, how, math.MaxInt, dryRun)
		var result R
		if err == nil {
			err = c.DB.Bulk(ctx, func(ctx context.Context) (err error) {
				result, err = i.Write(ctx, c.DB, &f, dryRun)
				return err
			})
		}
		if noted, ok := any(result).(interface{ Notes() []string }); ok {
			notes = noted.Notes()
		}
		return result.counts(), notes, i.Error(err)
	})
}

// RowProblems collects the problems of the rows of a file, by line.
type RowProblems map[int][]server.FieldError

// Add adds a problem with a field of a row.
func (p RowProblems) Add(line int, field, message string, args ...any) {
	p[line] = append(p[line], server.FieldError{Field: field, Message: fmt.Sprintf(message, args...)})
}

// Err returns a 422 with the problems, or nil if there are none.
func (p RowProblems) Err() error {
	var all Problems
	for _, line := range slices.Sorted(maps.Keys(p)) {
		all.Add(line, p[line]...)
	}
	return all.Err()
}

// Stored is a row of the database.
type Stored map[string]any

// StoredRows returns the rows of a statement.
func StoredRows(s *db.Stmt) (rows []Stored, err error) {
	decoder := json.NewDecoder(bytes.NewReader(s.Array()))
	decoder.UseNumber()
	return rows, decoder.Decode(&rows)
}

// Text returns the value of a column as text. Null is "", like an empty text, because a spreadsheet does not
// distinguish them.
func (s Stored) Text(column string) string { return ValueText(s[column]) }

// ValueText returns the text of a value, as Text does.
func ValueText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case json.RawMessage: // an object, as stored rows have it
		var object map[string]any
		d := json.NewDecoder(bytes.NewReader(v))
		d.UseNumber()
		if d.Decode(&object) == nil {
			return fmt.Sprint(object)
		}
	}
	return fmt.Sprint(v)
}

// BatchRows is the maximum number of rows of one statement.
const BatchRows = 1000

// InBatches calls write for each batch of rows, with the rows as a JSON array and their ids.
func InBatches(rows []map[string]any, write func(list string, ids []string) error) error {
	for batch := range slices.Chunk(rows, BatchRows) {
		var ids []string
		for _, row := range batch {
			id, _ := row["id"].(string)
			ids = append(ids, id)
		}
		list, err := json.Marshal(batch)
		if err == nil {
			err = write(string(list), ids)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
