package imports

import (
	"context"
	"encoding/json"
	"slices"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/transfer"
	"spoolwright/value"
)

// history is what an import creates and changes. The hashes and the lines are those of the rows of the resources that
// it creates.
type history struct {
	created []string // ids
	hashes  []int64
	lines   []int
	vendors []string // the ids of vendors that were created for filaments
	changes []change
}

// change is what an import changed in a resource, by column.
type change struct {
	Item          string
	Before, After transfer.Stored

	left []string // after unchanged: the columns that were changed since
}

// created adds the rows of the file that are new resources. Equal rows get different hashes, so that a file with more
// of them than an earlier one repeats only as many.
func (f *kindFile[T]) created(h *history, report []ImportedRow) {
	equal := map[int64]int64{}
	for i, row := range f.rows {
		if report[i].Action == "created" {
			h.created, h.lines = append(h.created, string(*report[i].ID)), append(h.lines, row.Line)
			h.hashes = append(h.hashes, row.Hash+equal[row.Hash])
			equal[row.Hash]++
		}
	}
}

// change adds the changed columns of a stored row.
func (h *history) change(before transfer.Stored, after map[string]any, changed []string) {
	if len(changed) == 0 {
		return
	}
	c := change{before.Text("id"), transfer.Stored{}, transfer.Stored{}, nil}
	for _, name := range changed {
		c.Before[name], c.After[name] = before[name], after[name]
	}
	h.changes = append(h.changes, c)
}

// findRepeated sets RepeatedRows and RepeatedAt of the result.
func (h *history) findRepeated(ctx context.Context, d *db.DB, table string, result *Imported) error {
	if len(h.created) == 0 {
		return nil
	}
	found := db.SQL(`
		select count(distinct n.line) as repeated_rows, max(i.created_at) as repeated_at
		from unnest($1::bigint[], $2::int[]) n (digest, line) cross join lateral (
			select import_id from import_rows where digest = n.digest and resources = $3 order by import_id desc limit 1
		) r join imports i on i.id = r.import_id`, h.hashes, h.lines, table)
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

// save stores the history of an import of a table, for later imports and for undo, and sets ImportID of the result.
func (h *history) save(ctx context.Context, d *db.DB, table string, result *Imported) error {
	if len(h.created)+len(h.changes) == 0 {
		return nil
	}
	id := value.NewID()
	all := []*db.Stmt{db.SQL(`insert into imports (id, resources, created, updated) values ($1, $2, $3, $4)`,
		id, table, len(h.created), len(h.changes))}
	hashes := h.hashes
	for ids := range slices.Chunk(h.created, transfer.BatchRows) {
		all = append(all, db.SQL(`insert into import_rows (import_id, resources, item, digest)
			select $1, $2, item, digest from unnest($3::uuid[], $4::bigint[]) r (item, digest)`,
			id, table, ids, hashes[:len(ids)]))
		hashes = hashes[len(ids):]
	}
	if len(h.vendors) > 0 {
		all = append(all, db.SQL(`insert into import_rows (import_id, resources, item)
			select $1, 'vendors', unnest($2::uuid[])`, id, h.vendors))
	}
	for changes := range slices.Chunk(h.changes, transfer.BatchRows) {
		var ids, before, after []string
		for _, c := range changes {
			ids, before, after = append(ids, c.Item), append(before, jsonOf(c.Before)), append(after, jsonOf(c.After))
		}
		all = append(all, db.SQL(`insert into import_rows (import_id, resources, item, before, after)
			select $1, $2, item, before, after from unnest($3::uuid[], $4::text[], $5::text[]) r (item, before, after)`,
			id, table, ids, before, after))
	}
	saved := value.UUID(id)
	result.ImportID = &saved
	return d.Write(ctx, all...)
}

func jsonOf(s transfer.Stored) string {
	text, _ := json.Marshal(s) // values of rows cannot fail
	return string(text)
}

// Trim deletes what imports changed more than 30 days ago of all tenants. It keeps what they created, for the rows that
// come in again.
func Trim(ctx context.Context, d *db.DB) error {
	return d.EachTenant(ctx, func(ctx context.Context, _ string) error {
		for ctx.Err() == nil {
			deleted := db.SQL(`
				delete from import_rows where before is not null and (import_id, item) in (
					select r.import_id, r.item from import_rows r join imports i on i.id = r.import_id
					where r.before is not null and i.created_at < now() - ` + undoTime + ` limit 10000
				) returning item`)
			if err := d.Write(ctx, deleted); err != nil || deleted.Rows() == 0 {
				return err
			}
		}
		return ctx.Err()
	})
}

// linked are the columns that an import changes together with the column of the parent, and undo restores with it.
var linked = map[string]string{"filament_id": inventory.Followed, "vendor_id": "vendor_name"}
