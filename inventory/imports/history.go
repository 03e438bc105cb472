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

// History is what an import creates and changes, for later imports and for undo.
type History struct {
	created []createdItem
	changes []*Change
	equal   map[int64]int64 // by the hash of a row: how many rows have it
}

// createdItem is a resource that an import creates. line and hash are those of its row; they are 0 if no row of the
// file is the resource, such as a vendor that was created for a filament.
type createdItem struct {
	table, id string
	hash      int64
	line      int
}

// Change is what an import changed in a resource, by column. Both maps are empty if the import cannot be undone there.
type Change struct {
	Table, Item   string
	Before, After transfer.Stored

	Left []string // after Unchanged: the columns that were changed since
}

// CreateRow adds a new resource with its row. Equal rows get different hashes, so that a file with more of them than an
// earlier one repeats only as many.
func (h *History) CreateRow(table, id string, line int, hash int64) {
	if h.equal == nil {
		h.equal = map[int64]int64{}
	}
	own := hash + h.equal[hash]
	h.equal[hash]++
	h.created = append(h.created, createdItem{table, id, own, line})
}

// Create adds new resources without rows.
func (h *History) Create(table string, ids ...string) {
	for _, id := range ids {
		h.created = append(h.created, createdItem{table: table, id: id})
	}
}

// Change adds the changed columns of a stored row. Without columns, the change cannot be undone.
func (h *History) Change(table string, before transfer.Stored, after map[string]any, changed ...string) {
	c := &Change{Table: table, Item: before.Text("id"), Before: transfer.Stored{}, After: transfer.Stored{}}
	for _, name := range changed {
		c.Before[name], c.After[name] = before[name], after[name]
	}
	h.changes = append(h.changes, c)
}

// FindRepeated sets RepeatedRows and RepeatedAt of the result of an import of a table.
func (h *History) FindRepeated(ctx context.Context, d *db.DB, table string, result *transfer.ImportCounts) error {
	var hashes []int64
	var lines []int
	for _, c := range h.created {
		if c.line > 0 {
			hashes, lines = append(hashes, c.hash), append(lines, c.line)
		}
	}
	if len(hashes) == 0 {
		return nil
	}
	found := db.SQL(`
		select count(distinct n.line) as repeated_rows, max(i.created_at) as repeated_at
		from unnest($1::bigint[], $2::int[]) n (digest, line) cross join lateral (
			select import_id from import_rows where digest = n.digest and resources = $3 order by import_id desc limit 1
		) r join imports i on i.id = r.import_id`, hashes, lines, table)
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

// Save stores the history of an import of resources, and returns the id of the import. It returns nil if there is
// nothing to undo. The counts are those of the list of imports.
func (h *History) Save(
	ctx context.Context, d *db.DB, resources string, created, updated int64,
) (saved *value.UUID, err error) {
	if len(h.created)+len(h.changes) == 0 {
		return nil, nil
	}
	id := value.NewID()
	all := []*db.Stmt{db.SQL(`insert into imports (id, resources, created, updated) values ($1, $2, $3, $4)`,
		id, resources, created, updated)}
	for some := range slices.Chunk(h.created, transfer.BatchRows) {
		var tables, ids []string
		var hashes []int64
		var lines []int
		for _, c := range some {
			tables, ids = append(tables, c.table), append(ids, c.id)
			hashes, lines = append(hashes, c.hash), append(lines, c.line)
		}
		all = append(all, db.SQL(`insert into import_rows (import_id, resources, item, digest)
			select $1, resources, item, case when line > 0 then digest end
			from unnest($2::text[], $3::uuid[], $4::bigint[], $5::int[]) r (resources, item, digest, line)`,
			id, tables, ids, hashes, lines))
	}
	for some := range slices.Chunk(h.changes, transfer.BatchRows) {
		var tables, ids, before, after []string
		for _, c := range some {
			was, is := jsonOf(c.Before), jsonOf(c.After)
			if max(len(was), len(is)) > maxStored {
				was, is = "{}", "{}"
			}
			tables, ids, before, after = append(tables, c.Table), append(ids, c.Item), append(before, was), append(after, is)
		}
		all = append(all, db.SQL(`insert into import_rows (import_id, resources, item, before, after)
			select $1, r.* from unnest($2::text[], $3::uuid[], $4::text[], $5::text[]) r`, id, tables, ids, before, after))
	}
	saved = (*value.UUID)(&id)
	return saved, d.Write(ctx, all...)
}

// maxStored is the maximum length of the former or the new values of a resource, as in the table import_rows.
const maxStored = 1_000_000

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
