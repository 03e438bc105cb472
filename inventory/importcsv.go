package inventory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"spoolwright/server"
	"spoolwright/transfer"
)

// Imported is the result of an import through the API.
type Imported struct {
	Created int64 `json:"created" rule:"readOnly,notNull"`
}

// maxImportRows limits the time that the transaction of an import through the API takes.
const maxImportRows = 10_000

var importDoc = &server.Doc{
	ID: "importSpools", Tag: tag, Summary: "Import spools from CSV",
	Description: fmt.Sprintf("Creates all spools of a CSV file, or none. The first line names the columns, which are "+
		"fields of a spool; `material_type`, `color`, `diameter_mm` and `net_weight_grams` are required, and columns of "+
		"read-only fields are ignored. Each row must satisfy the rules of `POST /api/v1/spools`. Columns may be separated "+
		"by commas, semicolons or tabs, numbers may have a decimal comma, and the names of columns and the material types "+
		"may have any case.\n\nThe `errors` of a `422` name the first %d invalid rows by their lines, such as `line 3`. "+
		"A request can have 1 MiB and %d rows.", maxListed, maxImportRows),
}

const importExample = "material_type,brand,color,diameter_mm,net_weight_grams,purchase_price\n" +
	"PLA,Polymaker,Black,1.75,1000,24.99\nPETG,,Transparent,1.75,750,\n"

// readImport decodes and validates the rows of a CSV file. The error is a 422.
func readImport(body []byte) ([]importRow, error) {
	records, err := transfer.ReadRecords[Spool](bytes.NewReader(body))
	if err != nil {
		if where, problem, ok := strings.Cut(err.Error(), ": "); ok && strings.HasPrefix(where, "line ") {
			return nil, server.Invalid(where, "%s", problem)
		}
		return nil, server.Invalid("body", "cannot be imported: %s", err)
	}
	var rows []importRow
	var problems server.Problems
	invalid := 0
	for {
		var row importRow
		var line int
		row.Spool, line, row.problems, err = records.Next()
		where := fmt.Sprintf("line %d", line)
		switch {
		case errors.Is(err, io.EOF):
			if invalid > maxListed {
				problems.Add("rows", "%d other rows are invalid", invalid-maxListed)
			}
			return rows, problems.Err()
		case err != nil:
			return nil, server.Invalid(where, "%s", err)
		case len(row.problems) > 0:
			if invalid++; invalid <= maxListed {
				problems.Add(where, "%s", describe(row.problems))
			}
		case len(rows) == maxImportRows:
			return nil, server.Invalid("body", "must have at most %d rows", maxImportRows)
		default:
			rows = append(rows, row)
		}
	}
}

// describe joins the problems of a row.
func describe(problems []server.FieldError) string {
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.Field+" "+p.Message)
	}
	return strings.Join(texts, "; ")
}

// numberedRows are rows whose spools have consecutive numbers, the first of which is number.
type numberedRows struct {
	rows   []importRow
	number int
}

// prepareImport reads the rows and reserves their numbers. It does so before the transaction of the import, because
// creates wait for the transaction of a reservation. A response that is repeated for an Idempotency-Key leaves its
// numbers unused.
func (h handlers) prepareImport(ctx context.Context, body []byte) (numberedRows, error) {
	rows, err := readImport(body)
	if err != nil || len(rows) == 0 {
		return numberedRows{}, err
	}
	number, err := reserveNumbers(ctx, h.db, len(rows))
	return numberedRows{rows, number}, err
}

func (h handlers) importRows(ctx context.Context, prepared numberedRows) (server.OK[Imported], error) {
	rows, created := prepared.rows, 0
	err := h.db.Tx(ctx, func(ctx context.Context) error {
		created = 0
		for start := 0; start < len(rows); start += batchRows {
			var batch rowBatch
			for i := start; i < min(start+batchRows, len(rows)); i++ {
				row := rows[i]
				batch.add(i+1, &row)
			}
			n, err := batch.insert(ctx, h.db, len(rows), prepared.number+start)
			if err != nil {
				return err
			}
			created += n
		}
		if len(rows) == 0 {
			return h.db.CheckActor(ctx)
		}
		return nil
	})
	if err != nil {
		return nil, costError(err)
	}
	return server.Encode(Imported{int64(created)})
}

var exportDoc = &server.Doc{
	ID: "exportSpools", Tag: tag, Summary: "Export spools as CSV",
	Description: transfer.ExportDescription + "spool, oldest first. `POST /api/v1/spools/import` can read it.",
}
