package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/transfer"
)

// Export writes spools. Importer.CSV reads its CSV format. Without the filter Archived, it writes archived spools too.
var Export = transfer.Export[Spool](500, transfer.ListPage(func(f SpoolFilter) *server.List {
	if f.Archived.IsNull() {
		f.Archived = server.Some(Archived("any"))
	}
	return f.list()
}, `select `+spoolColumns+` from spools where id = page.id`))

// Importer creates spools from a file in the tenant of the context, with the first entries of their ledgers. An import
// is one transaction.
type Importer struct {
	DB       *db.DB
	Reading  transfer.Reading                                 // of a CSV file
	Invalid  func(where string, problems []server.FieldError) // called for each invalid row
	Size     int64                                            // of the file in bytes; only for Progress
	Progress func(percent int)                                // called after each batch of rows; may be nil
}

// ImportResult counts the rows of an import.
type ImportResult struct {
	Created int
	Invalid int
}

// InvalidRows is the error of an import that created nothing because of so many invalid rows.
type InvalidRows int

func (n InvalidRows) Error() string {
	if n == 1 {
		return "1 row is invalid"
	}
	return fmt.Sprintf("%d rows are invalid", int(n))
}

// CSV imports a CSV file whose header names fields of a spool. The rules for a row are those of POST /api/v1/spools;
// columns of read-only fields are ignored. If any row is invalid, the error is InvalidRows.
func (i Importer) CSV(ctx context.Context, file io.ReadSeeker) (ImportResult, error) {
	definitions := SelectCustomFields("spool")
	if err := i.DB.Read(ctx, definitions); err != nil {
		return ImportResult{}, err
	}
	defined, err := CustomFields(definitions)
	if err != nil {
		return ImportResult{}, err
	}
	how := i.Reading.In(ctx, i.DB)
	how.Mode = transfer.Create
	how = transfer.Survey[Spool](file, how)
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return ImportResult{}, err
	}
	return i.importFile(ctx, file, func(file io.Reader) (rowReader, error) {
		records, err := transfer.ReadRecords[Spool](file, how)
		return func() (row importRow, err error) {
			record, err := records.Next()
			row = importRow{Spool: record.In, problems: record.Problems, where: fmt.Sprintf("line %d", record.Line)}
			if row.namesFilament() {
				row.problems = append(row.problems, server.FieldError{Field: "filament_id",
					Message: "is imported with --mode upsert only"})
			}
			row.problems = append(row.problems, extraProblems(defined, row.Extra.Or(nil))...)
			if err != nil && err != io.EOF {
				err = fmt.Errorf("%s: %w", row.where, err)
			}
			return row, err
		}, err
	})
}

// importRow is a row of a file.
type importRow struct {
	Spool
	where    string // the position of the row, for messages
	problems []server.FieldError
}

// rowReader returns the next row. The error is io.EOF after the last one, or final.
type rowReader func() (importRow, error)

// importFile reads the file twice: first to validate all rows, then to insert them.
func (i Importer) importFile(
	ctx context.Context, file io.ReadSeeker, open func(io.Reader) (rowReader, error),
) (result ImportResult, err error) {
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
		var batch rowBatch
		insert := func() error {
			created, err := batch.insert(ctx, i.DB, rows, number+result.Created)
			result.Created += created
			batch = nil
			return err
		}
		n := 0
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

// read calls use for each row, until an error or the end of ctx. It is half of the progress, which begins at percent.
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

// reserveNumbers reserves consecutive numbers of spools and returns the first one. See reserve_spool_numbers. It tries
// again after a broken connection: if the reservation was committed, its numbers remain unused.
func reserveNumbers(ctx context.Context, d *db.DB, count int) (number int, err error) {
	err = d.TxRepeatable(ctx, func(ctx context.Context) error {
		return d.Write(ctx, db.SQL(`select reserve_spool_numbers($1)`, count).Into(&number))
	})
	return number, err
}

// rowBatch holds rows of one INSERT, as they are named in the statement.
type rowBatch []map[string]any

// add adds the row with the number n, counted from 1.
func (b *rowBatch) add(n int, r *importRow) {
	row := map[string]any{"id": db.NewID(), "number": n} // insert replaces the number
	for i, value := range r.values() {
		row[inputNames[i]] = value
	}
	row["extra"] = extraJSON(r.Extra)
	*b = append(*b, row)
}

// insert inserts the spools, with consecutive numbers, and the first entries of their ledgers, and returns how many it
// inserted. The spools' created_at differ by a microsecond in the order of all rows of the import, so that lists keep
// that order.
func (b rowBatch) insert(ctx context.Context, d *db.DB, rows, number int) (created int, err error) {
	text, err := json.Marshal(b)
	if err != nil {
		return 0, err
	}
	err = d.Write(ctx, newSpools(`
			insert into spools (id, number, created_at, updated_at, `+inputColumns+`)
			select id, $3::int - 1 + row_number() over (order by number),
				now() - ($1::int - number) * interval '1 microsecond', now() - ($1::int - number) * interval '1 microsecond',
				`+inputColumns+`
			from json_populate_recordset(null::spools, $2::json)`).
		statement(`select count(*) from spool`, rows, string(text), number).Into(&created))
	return created, err
}
