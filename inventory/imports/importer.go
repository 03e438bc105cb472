package imports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"spoolwright/auth/audit"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// Importer imports spools into the tenant of the context, in one transaction. Each new spool gets the first entry of
// its ledger.
type Importer struct {
	DB       *db.DB
	Reading  transfer.Reading                                 // of a CSV file
	Invalid  func(where string, problems []server.FieldError) // called for each invalid row
	Size     int64                                            // of the file in bytes; only for Progress
	Progress func(percent int)                                // called after each batch of rows; may be nil
}

// Result counts the rows of an import.
type Result struct {
	Created      int
	Invalid      int
	CustomFields []ImportedField // new definitions
}

// InvalidRows is the error of an import that created nothing because of invalid rows. Its value is their number.
type InvalidRows int

func (n InvalidRows) Error() string {
	if n == 1 {
		return "1 row is invalid"
	}
	return fmt.Sprintf("%d rows are invalid", int(n))
}

// CSV imports a CSV file. The header names fields of a spool; CSV ignores columns of read-only fields. A row must
// satisfy the rules of POST /api/v1/spools. If any row is invalid, the error is InvalidRows.
func (i Importer) CSV(ctx context.Context, file io.ReadSeeker) (Result, error) {
	definitions := inventory.SelectCustomFields("spool")
	if err := i.DB.Read(ctx, definitions); err != nil {
		return Result{}, err
	}
	defined, err := inventory.CustomFields(definitions)
	if err != nil {
		return Result{}, err
	}
	var created []inventory.CustomField // set before the second reading
	guesses, known := fieldGuesses{}, false
	define := func(ctx context.Context) error {
		locked := inventory.LockCustomFields("spool")
		err := i.DB.Write(ctx, locked)
		if err == nil {
			defined, err = inventory.CustomFields(locked)
		}
		for key := range guesses {
			if err == nil && inventory.FieldWithKey(defined, key) != nil {
				err = errFieldsChanged
			}
		}
		if err == nil {
			created, err = guesses.define(ctx, i.DB, "spool", len(defined), false)
		}
		defined, known = append(defined, created...), true
		return err
	}
	how := i.Reading.In(ctx, i.DB)
	how.Mode = transfer.Create
	how = transfer.Survey[inventory.Spool](transfer.CSV(file), how)
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return Result{}, err
	}
	result, err := i.importFile(ctx, file, define, func(file io.Reader) (rowReader, error) {
		records, err := transfer.ReadRecords[inventory.Spool](transfer.CSV(file), how)
		return func() (row importRow, err error) {
			record, err := records.Next()
			row = importRow{Spool: record.In, problems: record.Problems, where: fmt.Sprintf("line %d", record.Line)}
			if row.NamesFilament() {
				row.problems = append(row.problems, server.FieldError{Field: "filament_id",
					Message: "is imported with --mode upsert only"})
			}
			extra := row.Extra.Or(nil)
			if known {
				conform(defined, created, extra)
			} else {
				extra = guesses.add(defined, extra)
			}
			row.problems = append(row.problems, inventory.ExtraProblems(defined, extra)...)
			if err != nil && err != io.EOF {
				err = fmt.Errorf("%s: %w", row.where, err)
			}
			return row, err
		}, err
	})
	if err == nil && created != nil {
		result.CustomFields = importedFields(created)
	}
	return result, err
}

// importRow is a row of a file.
type importRow struct {
	inventory.Spool
	where    string // the position of the row, for messages
	problems []server.FieldError
}

// rowReader returns the next row. After the last row, the error is io.EOF. Any other error ends the reading.
type rowReader func() (importRow, error)

// importFile reads the file twice: first it validates all rows, then it inserts them in a transaction. The
// transaction begins with define.
func (i Importer) importFile(
	ctx context.Context, file io.ReadSeeker, define func(context.Context) error,
	open func(io.Reader) (rowReader, error),
) (result Result, err error) {
	rows := 0
	err = i.read(ctx, file, 0, open, func(row *importRow) error {
		rows++
		if len(row.problems) > 0 {
			result.Invalid++
			i.Invalid(row.where, row.problems)
			return nil
		}
		return nil
	})
	if err == nil && result.Invalid > 0 {
		err = InvalidRows(result.Invalid)
	}
	if err != nil {
		return result, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return result, err
	}
	number := 0
	if rows > 0 {
		if number, err = reserveNumbers(ctx, i.DB, rows); err != nil {
			return result, err
		}
	}
	err = i.DB.Bulk(ctx, func(ctx context.Context) error {
		if err := i.DB.Write(ctx, audit.Import("spools")); err != nil {
			return err
		}
		var batch rowBatch
		insert := func() error {
			created, err := batch.insert(ctx, i.DB, rows, number+result.Created)
			result.Created += created
			batch = nil
			return err
		}
		n := 0
		if err := define(ctx); err != nil {
			return err
		}
		err := i.read(ctx, file, 50, open, func(row *importRow) error {
			n++
			if len(row.problems) > 0 {
				return errFileChanged
			}
			if batch.add(n, row); len(batch) < transfer.BatchRows {
				return nil
			}
			return insert()
		})
		if err == nil && len(batch) > 0 {
			err = insert()
		}
		if err == nil && n != rows {
			err = errFileChanged
		}
		return err
	})
	if err != nil {
		result.Created = 0
	}
	return result, err
}

var errFileChanged = errors.New("the file changed during the import")

// read calls use for each row, until an error occurs or ctx ends. It reports progress from percent to percent + 50.
func (i Importer) read(ctx context.Context, file io.Reader, percent int, open func(io.Reader) (rowReader, error),
	use func(*importRow) error) error {
	counted := &countingReader{r: file}
	next, err := open(counted)
	if err != nil {
		return err
	}
	for rows := 0; ; {
		row, err := next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = use(&row)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if rows++; i.Progress != nil && rows%transfer.BatchRows == 0 {
			i.Progress(percent + int(50*min(counted.n, i.Size)/max(i.Size, 1)))
		}
	}
}

// countingReader counts the bytes that were read.
type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// reserveNumbers reserves consecutive numbers of spools and returns the first number; see reserve_spool_numbers. It
// tries again after a broken connection. If the first reservation was committed, its numbers remain unused.
func reserveNumbers(ctx context.Context, d *db.DB, count int) (number int, err error) {
	err = d.TxRepeatable(ctx, func(ctx context.Context) error {
		return d.Write(ctx, db.SQL(`select reserve_spool_numbers($1)`, count).Into(&number))
	})
	return number, err
}

// spoolInputs are the columns of new spools.
var spoolInputs = strings.Join(server.SchemaOf[inventory.Spool]().Writable(), ", ")

// rowBatch holds the rows of one INSERT. Each row maps the names of columns to values.
type rowBatch []map[string]any

// add adds row n, counted from 1.
func (b *rowBatch) add(n int, r *importRow) {
	row := r.NewRow()
	row["id"], row["number"] = value.NewID(), n // insert replaces n by a reserved number
	*b = append(*b, row)
}

// insert inserts the spools with consecutive numbers and the first entries of their ledgers, and returns how many
// spools it inserted. The created_at of consecutive rows of the import differ by a microsecond, so that lists keep
// the order of the rows.
func (b rowBatch) insert(ctx context.Context, d *db.DB, rows, number int) (created int, err error) {
	text, err := json.Marshal(b)
	if err != nil {
		return 0, err
	}
	err = d.Write(ctx, inventory.InsertSpools(`
			insert into spools (id, number, created_at, updated_at, `+spoolInputs+`)
			select id, $3::int - 1 + row_number() over (order by number),
				now() - ($1::int - number) * interval '1 microsecond', now() - ($1::int - number) * interval '1 microsecond',
				`+spoolInputs+`
			from json_populate_recordset(null::spools, $2::json)`,
		"", `select count(*) from spool`, rows, string(text), number).Into(&created))
	return created, err
}
