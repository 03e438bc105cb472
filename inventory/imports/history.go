package imports

import (
	"context"
	"encoding/json"
	"slices"

	"spoolwright/db"
	"spoolwright/transfer"
	"spoolwright/value"
)

// added are the resources that an import creates, with the hashes and the lines of their rows.
type added struct {
	ids    []string
	hashes []int64
	lines  []int
}

// added returns the rows of the file that are new resources. Equal rows get different hashes, so that a file with
// more of them than an earlier one repeats only as many.
func (f *kindFile[T]) added(report []ImportedRow) (a added) {
	equal := map[int64]int64{}
	for i, row := range f.rows {
		if report[i].Action == "created" {
			a.ids, a.lines = append(a.ids, string(*report[i].ID)), append(a.lines, row.Line)
			a.hashes = append(a.hashes, row.Hash+equal[row.Hash])
			equal[row.Hash]++
		}
	}
	return a
}

// findRepeated sets RepeatedRows and RepeatedAt of the result.
func (a added) findRepeated(ctx context.Context, d *db.DB, result *Imported) error {
	if len(a.ids) == 0 {
		return nil
	}
	found := db.SQL(`
		select count(distinct n.line) as repeated_rows, max(i.created_at) as repeated_at
		from unnest($1::bigint[], $2::int[]) n (hash, line) cross join lateral (
			select import_id from import_rows where hash = n.hash order by import_id desc limit 1
		) r join imports i on i.id = r.import_id`, a.hashes, a.lines)
	if err := d.Read(ctx, found); err != nil {
		return err
	}
	var repeated struct {
		Rows int64           `json:"repeated_rows"`
		At   value.Timestamp `json:"repeated_at"`
	}
	err := json.Unmarshal(found.Object(), &repeated)
	result.RepeatedRows, result.RepeatedAt = repeated.Rows, repeated.At
	return err
}

// save stores what an import of a table has created, for later imports.
func (a added) save(ctx context.Context, d *db.DB, table string) error {
	if len(a.ids) == 0 {
		return nil
	}
	id := value.NewID()
	all := []*db.Stmt{db.SQL(`insert into imports (id, resources) values ($1, $2)`, id, table)}
	for ids := range slices.Chunk(a.ids, transfer.BatchRows) {
		all = append(all, db.SQL(`insert into import_rows (import_id, item, hash)
			select $1, item, hash from unnest($2::uuid[], $3::bigint[]) r (item, hash)`, id, ids, a.hashes[:len(ids)]))
		a.hashes = a.hashes[len(ids):]
	}
	return d.Write(ctx, all...)
}
