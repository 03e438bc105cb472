package inventory

import (
	"context"
	"errors"
	"fmt"
	"io"

	"spoolwright/db"
	"spoolwright/server"
)

// Export writes all spools, oldest first; see server.Export. As CSV it is what Import.Spools takes.
func Export(ctx context.Context, d *db.DB, w io.Writer, format string) (int, error) {
	return server.Export[Spool](ctx, d, w, format, func(createdAt, id string) *db.Stmt {
		return db.SQL(`select `+spoolColumns+` from spools
			where hidden_at is null and (created_at, id) > ($1::text::timestamptz, $2::uuid) order by created_at, id limit 500`, createdAt, id)
	})
}

// Import enters spools from elsewhere into the tenant of the context, with the first entries of their ledgers: all of them in one
// transaction, or none.
type Import struct {
	DB       *db.DB
	Bad      func(where string, problems []server.FieldError) // told of each row that is not right
	Progress func(rows int)                                   // told now and then how many rows were read; may be nil
}

// Imported is what an import has done.
type Imported struct {
	Added    int // spools that were entered
	Existing int // spools that an earlier import had entered; they are left as they are
	Bad      int // rows that were told of and left out
}

// ErrBadRows means that some rows are not right, so nothing was imported.
var ErrBadRows = errors.New("some rows are not right")

// batchRows is how many rows go to the database at once.
const batchRows = 1000

// Spools imports a CSV file whose header names fields of a spool. Each row is held to the rules of POST /api/v1/spools; columns that only
// the service sets are ignored. If any row is not right the error is ErrBadRows, after all of them were told of.
func (i Import) Spools(ctx context.Context, file io.ReadSeeker) (Imported, error) {
	return i.run(ctx, file, false, func(file io.Reader) (nextRow, error) {
		rows, err := server.ReadRecords[Spool](file)
		return func(s *imported) (string, []server.FieldError, error) {
			line, problems, err := rows.Next(&s.Spool)
			where := fmt.Sprintf("line %d", line)
			if err != nil && err != io.EOF {
				err = fmt.Errorf("%s: %w", where, err)
			}
			return where, problems, err
		}, err
	})
}

// imported is a spool with what tells it from all others of its source; nothing does if that is "".
type imported struct {
	Spool
	key string
}

// nextRow reads a row, and returns where it stands and what is wrong with it. The error is io.EOF after the last one, or final.
type nextRow func(*imported) (where string, problems []server.FieldError, err error)

// run reads the file twice: once to look at all rows, and then, if they are right, to enter them.
func (i Import) run(ctx context.Context, file io.ReadSeeker, skipBad bool, open func(io.Reader) (nextRow, error)) (done Imported, err error) {
	rows := 0
	err = i.read(ctx, file, open, func(where string, _ *imported, problems []server.FieldError) error {
		if len(problems) > 0 {
			done.Bad++
			i.Bad(where, problems)
		}
		rows++
		return nil
	})
	if err == nil && done.Bad > 0 && !skipBad {
		err = ErrBadRows
	}
	if err != nil {
		return done, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return done, err
	}
	err = i.DB.Bulk(ctx, func(ctx context.Context) error {
		var batch rowBatch
		enter := func() error {
			var added int
			if err := i.DB.Write(ctx, batch.insert(rows).Into(&added)); err != nil {
				return err
			}
			done.Added += added
			done.Existing += len(batch.n) - added
			batch = rowBatch{}
			return nil
		}
		n, bad := 0, 0
		err := i.read(ctx, file, open, func(_ string, s *imported, problems []server.FieldError) error {
			n++
			if len(problems) > 0 {
				bad++
				return nil
			}
			if batch.add(n, s); len(batch.n) < batchRows {
				return nil
			}
			return enter()
		})
		if err == nil && len(batch.n) > 0 {
			err = enter()
		}
		if err == nil && (n != rows || bad != done.Bad) {
			err = errors.New("the file has changed while it was read")
		}
		return err
	})
	if err != nil {
		done.Added, done.Existing = 0, 0
	}
	return done, err
}

func (i Import) read(ctx context.Context, file io.Reader, open func(io.Reader) (nextRow, error), use func(where string, s *imported, problems []server.FieldError) error) error {
	next, err := open(file)
	if err != nil {
		return err
	}
	for rows := 0; ; {
		var s imported
		where, problems, err := next(&s)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = use(where, &s, problems)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if rows++; i.Progress != nil && rows%batchRows == 0 {
			i.Progress(rows)
		}
	}
}

// rowBatch is a number of rows, column by column, as arguments of one statement.
type rowBatch struct {
	n       []int32
	columns [15][]*string
}

func (b *rowBatch) add(n int, s *imported) {
	if s.Remaining.IsNull() {
		s.Remaining = s.NetWeight
	}
	b.n = append(b.n, int32(n))
	var key any
	if s.key != "" {
		key = s.key
	}
	for i, v := range []any{db.NewID(), key, s.MaterialType.Arg(), s.Brand.Arg(), s.Color.Arg(), s.ColorHex.Arg(), s.Finish.Arg(), s.DiameterMM.Arg(), s.NetWeight.Arg(),
		s.Remaining.Arg(), s.SpoolWeight.Arg(), s.PurchasePrice.Arg(), s.Supplier.Arg(), s.PurchaseDate.Arg(), s.Notes.Arg()} {
		var cell *string
		if text, ok := v.(string); ok {
			cell = &text
		}
		b.columns[i] = append(b.columns[i], cell)
	}
}

// insert makes the spools of which there are none with their keys, with the first entries of their ledgers, and returns how many. The
// times of creation keep the order of all the rows of the import.
func (b *rowBatch) insert(rows int) *db.Stmt {
	args := []any{rows, b.n}
	for _, column := range b.columns {
		args = append(args, column)
	}
	return db.SQL(`
		with added as (
			insert into spools (id, external_key, material_type, brand, color, color_hex, finish, diameter_mm, net_weight_grams, remaining_weight_grams,
				spool_weight_grams, purchase_price, supplier, purchase_date, notes, created_at, updated_at)
			select id::uuid, external_key, material_type, brand, color, color_hex, finish, diameter_mm::numeric, net_weight_grams::numeric, remaining_weight_grams::numeric,
				spool_weight_grams::numeric, purchase_price::numeric, supplier, purchase_date::date, notes,
				now() - ($1::int - n) * interval '1 microsecond', now() - ($1::int - n) * interval '1 microsecond'
			from unnest($2::int[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[],
				$12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[])
				as r (n, id, external_key, material_type, brand, color, color_hex, finish, diameter_mm, net_weight_grams, remaining_weight_grams,
					spool_weight_grams, purchase_price, supplier, purchase_date, notes)
			on conflict (tenant_id, external_key) where external_key is not null do nothing
			returning id, remaining_weight_grams
		), entry as (
			insert into spool_usage (spool_id, kind, before_grams, after_grams)
			select id, 'created', 0, remaining_weight_grams from added
		)
		select count(*) from added`, args...)
}
