package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"

	"spoolwright/auth/accounts"
	"spoolwright/auth/audit"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value/language"
)

// Import is an import of CSV files, as an operation of the API and as a command. It creates or changes all resources
// of a file or none. F contains the rows of a file, and R embeds ImportCounts. If R has the method Notes, the command
// prints the notes that it returns.
type Import[F any, R counted] struct {
	Resources string // in the plural
	Most      int    // maximum number of rows of a request; a command has no limit
	Example   string // of a file
	Help      string // of the command
	Read      func(file *Table, how Reading, maximum int) (F, error)
	Prepare   func(ctx context.Context, d *db.DB, file *F, dryRun bool) error      // before the transaction; or nil
	Write     func(ctx context.Context, d *db.DB, file *F, dryRun bool) (R, error) // in the transaction of ctx
	Error     func(error) error                                                    // converts the error of Write

	// Convert recognizes the columns of a sheet, and returns them as columns of fields.
	Convert func(sheet *Sheet, how Reading) (*Conversion, error)
	// Good returns a score: how well a row matches titles of columns that Convert knows.
	Good func(titles []string) int
	// Whole reads the file of a program whose parts are known without titles, such as an export of Spoolman, and
	// returns the name of the program, or "" for any other file. The function may be nil.
	Whole func(file []byte, how Reading, maximum int) (F, string, error)
	// Program returns the program that wrote a sheet, or nil. The function may be nil.
	Program func(ctx context.Context, d *db.DB, sheet *Sheet) (*Program, error)
}

// untyped is an Import of any types. An Import runs as an untyped, so that its code is compiled once and not for each
// Import.
type untyped Import[any, counted]

type counted interface{ counts() ImportCounts }

func (i Import[F, R]) untyped() *untyped {
	u := &untyped{
		Resources: i.Resources, Most: i.Most, Example: i.Example, Help: i.Help, Error: i.Error, Convert: i.Convert,
		Good: i.Good, Program: i.Program,
		Read: func(file *Table, how Reading, maximum int) (any, error) {
			f, err := i.Read(file, how, maximum)
			return &f, err
		},
		Write: func(ctx context.Context, d *db.DB, file *any, dryRun bool) (counted, error) {
			result, err := i.Write(ctx, d, (*file).(*F), dryRun)
			return any(&result).(counted), err
		},
	}
	if i.Whole != nil {
		u.Whole = func(file []byte, how Reading, maximum int) (any, string, error) {
			f, program, err := i.Whole(file, how, maximum)
			return &f, program, err
		}
	}
	if i.Prepare != nil {
		u.Prepare = func(ctx context.Context, d *db.DB, file *any, dryRun bool) error {
			return i.Prepare(ctx, d, (*file).(*F), dryRun)
		}
	}
	return u
}

// read reads a file and prepares its import.
func (i *untyped) read(ctx context.Context, d *db.DB, file *Table, how Reading, maximum int,
	dryRun bool) (f any, err error) {
	f, err = i.Read(file, how, maximum)
	if err == nil && i.Prepare != nil {
		err = i.Prepare(ctx, d, &f, dryRun)
	}
	return f, err
}

// whole reads a file with the function Whole, and prepares its import. program is "" for a file that Whole does not
// read, and for one whose columns the caller names.
func (i *untyped) whole(ctx context.Context, d *db.DB, file []byte, how Reading, maximum int,
	dryRun bool) (f any, program string, err error) {
	if i.Whole == nil || len(how.Mapping) > 0 {
		return nil, "", nil
	}
	f, program, err = i.Whole(file, how, maximum)
	if program != "" && err == nil && i.Prepare != nil {
		err = i.Prepare(ctx, d, &f, dryRun)
	}
	return f, program, err
}

// convert reads the sheet in a file, and recognizes its columns. The error is a 422.
func (i *untyped) convert(ctx context.Context, d *db.DB, file []byte, how Reading, maximum int) (*Conversion, error) {
	sheet, err := ReadSheet(file, how.Worksheet, maximum, i.Good)
	if _, ok := errors.AsType[*unknownWorksheet](err); ok {
		return nil, server.Invalid("worksheet", "%s", err)
	}
	if err != nil {
		return nil, server.Invalid("body", "cannot be imported: %s", err)
	}
	if i.Program != nil {
		if how.Program, err = i.Program(ctx, d, sheet); err != nil {
			return nil, err
		}
	}
	c, err := i.Convert(sheet, how)
	if c != nil {
		c.Program = how.Program
	}
	return c, err
}

// transaction runs a function in a transaction.
type transaction func(context.Context, func(context.Context) error) error

// sift reads and writes the rows of a table in dry runs, until all invalid rows are found. It returns the table
// without them, their problems, and the result of the last dry run. maximum is the maximum number of rows, and tx runs
// a transaction.
func (i *untyped) sift(
	ctx context.Context, d *db.DB, table *Table, how Reading, maximum int, tx transaction,
) (valid *Table, invalid RowProblems, result counted, err error) {
	invalid = RowProblems{}
	for range 10 { // each statement can find other problems
		valid = table.without(invalid)
		var f any
		if f, err = i.read(ctx, d, valid, how, maximum, true); err == nil {
			err = tx(ctx, func(ctx context.Context) (err error) {
				result, err = i.Write(ctx, d, &f, true)
				return err
			})
			if err != nil {
				err = i.Error(err)
			}
		}
		found, ok := errors.AsType[RowProblems](err)
		if !ok {
			break
		}
		for line, problems := range found {
			invalid[line] = append(invalid[line], problems...)
		}
	}
	return valid, invalid, result, err
}

func (c ImportCounts) counts() ImportCounts { return c }

// query has the parameters of a request.
type query interface {
	reading() (how Reading, dryRun bool, err error)
}

// Endpoint returns the endpoint of an import with modes.
func (i Import[F, R]) Endpoint(d *db.DB) server.Endpoint {
	e := endpoint[ImportQuery](i.untyped(), d)
	e.Out.Item = reflect.TypeFor[R]()
	return e
}

// FileEndpoint returns the endpoint of an import without modes.
func (i Import[F, R]) FileEndpoint(d *db.DB) server.Endpoint {
	e := endpoint[FileQuery](i.untyped(), d)
	e.Out.Item = reflect.TypeFor[R]()
	return e
}

func endpoint[Q query](i *untyped, d *db.DB) server.Endpoint {
	e := server.HandleText("text/csv", i.Example,
		func(ctx context.Context, r *server.Request[Q], body []byte) (p prepared, err error) {
			how, dryRun, err := r.In.reading()
			if err != nil {
				return p, err
			}
			return i.prepare(ctx, d, body, how, i.Most, dryRun, d.Tx)
		},
		func(ctx context.Context, r *server.Request[Q], p prepared) (server.OK[counted], error) {
			var result counted
			err := d.Tx(ctx, func(ctx context.Context) (err error) {
				result, err = i.store(ctx, d, &p, p.dryRun)
				return err
			})
			if err != nil {
				return nil, i.Error(err)
			}
			p.complete(result)
			return server.Encode(result)
		})
	e.Others = []string{WorkbookMedia, OpenDocumentMedia}
	return e
}

// prepared is a file that can be written, and the parts of the answer about rows that were left out or changed.
type prepared struct {
	file    any
	whole   bool // whether the function Whole has read the file, so that Write returns all parts of the answer
	invalid int
	changes []Change
	rows    []InvalidRow
	mapping string // of the request, to be remembered; or ""
	dryRun  bool
}

// prepare reads a file for the function Write. If the reading skips invalid rows, they are left out.
func (i *untyped) prepare(
	ctx context.Context, d *db.DB, text []byte, how Reading, maximum int, dryRun bool, tx transaction,
) (p prepared, err error) {
	how, p.dryRun = how.In(ctx, d), dryRun
	if file, program, err := i.whole(ctx, d, text, how, maximum, dryRun); program != "" || err != nil {
		p.file, p.whole = file, true
		return p, err
	}
	converted, err := i.convert(ctx, d, text, how, maximum)
	if err != nil {
		return p, err
	}
	table := converted.Table
	how.Program = converted.Program
	if how.SkipInvalid {
		var invalid RowProblems
		if table, invalid, _, err = i.sift(ctx, d, table, how, maximum, tx); err != nil {
			return p, err
		}
		p.invalid, p.rows = len(invalid), converted.rows(invalid)
	}
	p.changes, p.mapping = converted.changes(table), converted.given()
	p.file, err = i.read(ctx, d, table, how, maximum, dryRun)
	return p, err
}

// store writes a file in the transaction of ctx and, unless it is a dry run, remembers the fields of the columns.
func (i *untyped) store(ctx context.Context, d *db.DB, p *prepared, dryRun bool) (result counted, err error) {
	result, err = i.Write(ctx, d, &p.file, dryRun)
	if err == nil && !dryRun {
		err = d.Write(ctx, audit.Import(i.Resources))
	}
	if err == nil && !dryRun && p.mapping != "" {
		err = i.remember(ctx, d, p.mapping)
	}
	if err == nil && result.counts().Last != nil {
		err = d.Write(ctx, result.counts().Last)
	}
	return result, err
}

// complete adds the invalid rows and the changes to the result of Write, which embeds ImportCounts.
func (p prepared) complete(result counted) {
	if p.whole {
		return
	}
	result.(interface {
		add(int, []Change, []InvalidRow)
	}).add(p.invalid, p.changes, p.rows)
}

// add adds the invalid rows and the changes to the counts.
func (c *ImportCounts) add(invalid int, changes []Change, rows []InvalidRow) {
	c.Invalid, c.Changes, c.InvalidRows = int64(invalid), append([]Change{}, changes...), append([]InvalidRow{}, rows...)
}

// Command returns the command of the import.
func (i Import[F, R]) Command() cli.Command {
	return cli.Command{
		Name: "import " + i.Resources, Args: ImportArgs,
		Needs: cli.Farm, Help: i.Help,
		Setup: i.untyped().setUp,
	}
}

func (i *untyped) setUp(flags *flag.FlagSet) cli.Run {
	how, dryRun := ImportFlags(flags)
	return accounts.InTenant(flags, func(ctx context.Context, c *cli.Call) error {
		file, err := cli.OpenOperand(c, cli.OpenFile)
		if err != nil {
			return err
		}
		defer file.Close()
		return i.run(ctx, c, file, *how, *dryRun)
	})
}

// Run imports the file of a command.
func (i Import[F, R]) Run(ctx context.Context, c *cli.Call, file io.Reader, how Reading, dryRun bool) error {
	return i.untyped().run(ctx, c, file, how, dryRun)
}

func (i *untyped) run(ctx context.Context, c *cli.Call, file io.Reader, how Reading, dryRun bool) error {
	return runImport(c, i.Resources, func() (_ ImportCounts, notes []string, err error) {
		text, err := io.ReadAll(file)
		if err != nil {
			return ImportCounts{}, nil, err
		}
		p, err := i.prepare(ctx, c.DB, text, how, math.MaxInt, dryRun, c.DB.Bulk)
		if err != nil {
			return ImportCounts{}, nil, i.Error(err)
		}
		var result counted
		err = c.DB.Bulk(ctx, func(ctx context.Context) (err error) {
			result, err = i.store(ctx, c.DB, &p, dryRun)
			return err
		})
		if err != nil {
			return ImportCounts{}, nil, i.Error(err)
		}
		p.complete(result)
		if noted, ok := result.(interface{ Notes() []string }); ok {
			notes = noted.Notes()
		}
		return result.counts(), notes, nil
	})
}

// RowProblems collects the problems of the rows of a file, by line.
type RowProblems map[int][]server.FieldError

func (p RowProblems) Error() string {
	if len(p) == 1 {
		return "1 row is invalid"
	}
	return fmt.Sprintf("%d rows are invalid", len(p))
}

// Add adds a problem with a field of a row.
func (p RowProblems) Add(line int, field string, message language.Text, args ...any) {
	p[line] = append(p[line], server.FieldError{Field: field, Message: language.Sprintf(message, args...)})
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
// distinguish the two.
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
