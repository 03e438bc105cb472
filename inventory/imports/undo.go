package imports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"spoolwright/auth/audit"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

var importsTag = &server.Tag{Name: "imports", Fields: ownFields,
	Description: "The imports of lists of vendors, filaments and spools that created or changed something."}

// PastImport is an import in the list.
type PastImport struct {
	ID        value.UUID      `json:"id" rule:"notNull"`
	Resources Resources       `json:"resources" rule:"notNull,unsorted"`
	Created   int64           `json:"created" rule:"notNull,unsorted"`
	Updated   int64           `json:"updated" rule:"notNull,unsorted"`
	CreatedAt value.Timestamp `json:"created_at" rule:"notNull"`
	CreatedBy value.UUID      `json:"created_by" rule:"unsorted"`
	Creator   string          `json:"created_by_name" rule:"unsorted"`
	UndoEnds  value.Timestamp `json:"undo_ends_at" rule:"unsorted"`
	UndoneAt  value.Timestamp `json:"undone_at" rule:"unsorted"`
}

// Resources are the resources of an import.
type Resources string

// Enum returns all resources.
func (Resources) Enum() []string { return []string{"vendors", "filaments", "spools"} }

// undoTime is an SQL expression: for how long an import can be undone. Trim keeps former values as long.
const undoTime = `interval '30 days'`

// maxUndone is the maximum number of resources that undo removes and restores in its transaction.
const maxUndone = maxRows

var listDoc = &server.Doc{
	ID: "listImports", Tag: importsTag, Summary: "List imports",
	Description: "Returns the imports of lists of vendors, filaments and spools, by pages, API and commands, that " +
		"created or changed something. Imports of products, of orders and of files of Spoolman are not in the list, and " +
		"cannot be undone.",
}

// pastFilter selects all imports.
type pastFilter struct{}

func (pastFilter) list() *server.List {
	return server.NewList("imports", `id, resources, created, updated, created_at, created_by,
		case when created_by is not null then actor_name(created_by) end as created_by_name, case when undone_at is null
			and created + updated <= `+fmt.Sprint(maxUndone)+` and created_at > now() - `+undoTime+`
			then created_at + `+undoTime+` end as undo_ends_at, undone_at`, "", "")
}

// Undone is the result of the undo of an import.
type Undone struct {
	Removed  int64  `json:"removed" rule:"notNull"`
	Restored int64  `json:"restored" rule:"notNull"`
	Left     []Left `json:"left" rule:"notNull"`
}

// Left is a resource that an undo has left as it is, at least in part.
type Left struct {
	Resources Resources  `json:"resources" rule:"notNull"`
	ID        value.UUID `json:"id" rule:"notNull"`
	Number    *int64     `json:"number"`
	Reason    string     `json:"reason" rule:"notNull"`
}

var (
	errUndone      = server.Conflict("IMPORT_UNDONE", "The import was undone before")
	errNotUndoable = server.Conflict("IMPORT_NOT_UNDOABLE", "The import cannot be undone: %s", "it is older than 30 days")
)

// UndoDoc describes the operation of Undo.
var UndoDoc = &server.Doc{
	ID: "undoImport", Tag: importsTag, Summary: "Undo an import",
	Description: "Takes an import back, all at once: removes the spools, filaments and vendors that it created, as their " +
		"`DELETE` does, also the vendors that it created for filaments, and gives changed fields the values that they had " +
		"before. What was used or changed since stays, and `left` names it with the reason: a created spool with another " +
		"entry in its ledger than the first, in a run, or edited; a created filament or vendor that spools, filaments or " +
		"products name, or that was changed; and fields that have another value than the import gave them. A changed " +
		"filament of a spool is restored together with the fields that follow from it, or not at all. Definitions of " +
		"custom fields stay. The usage ledger keeps the entries of the import and those of the undo. Removed spools can be " +
		"restored.\n\nAn import can be undone once (`IMPORT_UNDONE`), for 30 days, and if it created and changed at most " +
		"10,000 resources (`IMPORT_NOT_UNDOABLE`).",
	Errors: []*server.Error{errUndone, errNotUndoable},
}

// Undo returns the endpoint that undoes an import. runs is a query of the runs that name the spool $1.
func Undo(d *db.DB, runs string) server.Endpoint {
	return server.Handle(func(ctx context.Context, r *server.Request[struct{}]) (server.OK[Undone], error) {
		var u undo
		err := d.Tx(ctx, func(ctx context.Context) error {
			u = undo{d: d, id: r.ID("id"), result: Undone{Left: []Left{}}}
			return u.run(ctx, runs)
		})
		if e, ok := errors.AsType[*server.Error](err); ok && e.Status == 422 { // of the changes of an import
			err = errNotUndoable.With(e.Detail).Because(err)
		}
		if err != nil {
			return nil, err
		}
		return server.Encode(u.result)
	})
}

// undo is the undo of an import in a transaction.
type undo struct {
	d      *db.DB
	id     string
	result Undone
	gone   []string   // the ids of what was removed
	last   []*db.Stmt // the counts, which others wait for
}

func (u *undo) run(ctx context.Context, runs string) error {
	var resources string
	var undone, late bool
	var changed int
	found := db.SQL(`
		select resources, undone_at is not null, created_at <= now() - `+undoTime+`, created + updated
		from imports where id = $1 for update`, u.id).Into(&resources, &undone, &late, &changed)
	rows := db.SQL(`select resources, item, before, after from import_rows where import_id = $1
		order by item limit $2`,
		u.id, 2*maxUndone) // a filament may have brought a vendor
	if err := u.d.Write(ctx, found, rows); err != nil {
		return err
	}
	var all []struct {
		Resources, Item string
		Before, After   *string
	}
	switch err := json.Unmarshal(rows.Array(), &all); {
	case err != nil:
		return err
	case found.Rows() == 0:
		return server.ErrNotFound
	case undone:
		return errUndone
	case late:
		return errNotUndoable
	case changed > maxUndone:
		return errNotUndoable.With("it created and changed more than 10,000 resources")
	}
	created := map[string][]string{}
	var changes []*change
	for _, row := range all {
		if row.Before == nil {
			created[row.Resources] = append(created[row.Resources], row.Item)
			continue
		}
		c := &change{Item: row.Item}
		if err := errors.Join(decodeStored(*row.Before, &c.Before), decodeStored(*row.After, &c.After)); err != nil {
			return err
		}
		changes = append(changes, c)
	}
	restore := map[string]func() error{
		"vendors":   func() error { return restore(ctx, u, vendorKind, changes) },
		"filaments": func() error { return restore(ctx, u, filamentKind, changes) },
		"spools":    func() error { return restore(ctx, u, spoolKind, changes) },
	}[resources]
	if err := restore(); err != nil {
		return err
	}
	if err := u.remove(ctx, created, runs); err != nil {
		return err
	}
	return u.d.Write(ctx, append([]*db.Stmt{
		db.SQL(`update imports set undone_at = now() where id = $1`, u.id),
		db.SQL(`delete from import_rows where import_id = $1 and (digest is null or item = any ($2::uuid[]))`, u.id, u.gone),
		audit.Undo(resources)}, u.last...)...)
}

// decodeStored decodes what jsonOf has encoded.
func decodeStored(text string, to *transfer.Stored) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return d.Decode(to)
}

// restore gives the changed columns of resources their former values, as an import with the mode Update does.
func restore[T any](ctx context.Context, u *undo, k kind[T], changes []*change) error {
	f := kindFile[T]{kind: k, mode: transfer.Update}
	var ids []string
	for _, c := range changes {
		ids = append(ids, c.Item)
	}
	stored := db.SQL(`select id, number from `+k.table+` where id = any ($1::uuid[])`, ids)
	if err := u.d.Read(ctx, stored); err != nil {
		return err
	}
	var all []struct {
		ID     string
		Number *int64
	}
	if err := json.Unmarshal(stored.Array(), &all); err != nil {
		return err
	}
	numbers := map[string]*int64{}
	for _, one := range all {
		numbers[one.ID] = one.Number
	}
	leave := func(c *change, reason string) { u.leave(k.table, c.Item, numbers[c.Item], reason) }
	for i, c := range changes {
		in, err := server.DecodePatch[T]([]byte(jsonOf(c.Before)))
		if err != nil {
			leave(c, "its fields cannot be restored: "+server.AsError(err).Detail)
			continue
		}
		row := transfer.Record[T]{In: in}
		row.Line, row.Keys = i+1, make([]string, len(k.keys))
		row.Keys[0] = c.Item
		f.rows, f.undo = append(f.rows, row), append(f.undo, c)
	}
	for len(f.rows) > 0 {
		report, err := f.write(ctx, u.d, true)
		invalid, ok := errors.AsType[transfer.RowProblems](err)
		if !ok {
			if err == nil {
				report, err = f.write(ctx, u.d, false)
			}
			for i, row := range report.Rows {
				if row.Action == "updated" {
					u.result.Restored++
				}
				if left := f.undo[i].left; left != nil && err == nil {
					leave(f.undo[i], "it was changed since: "+strings.Join(left, ", "))
				}
			}
			if report.Last != nil {
				u.last = append(u.last, report.Last)
			}
			return k.error(err)
		}
		valid := f
		valid.rows, valid.undo = nil, nil
		for i, row := range f.rows {
			if problems := invalid[row.Line]; problems == nil {
				valid.rows, valid.undo = append(valid.rows, row), append(valid.undo, f.undo[i])
			} else if problems[0].Field == "id" {
				leave(f.undo[i], "it was removed since")
			} else {
				leave(f.undo[i], "its fields cannot be restored: "+transfer.Describe(problems))
			}
		}
		f = valid
	}
	return nil
}

func (u *undo) leave(resources, id string, number *int64, reason string) {
	u.result.Left = append(u.result.Left, Left{Resources(resources), value.UUID(id), number, reason})
}

// unchanged returns the columns that still have the values of the import, and sets left to the others.
func (c *change) unchanged(s transfer.Stored) (fields []string) {
	c.left = nil
	for name := range c.After {
		if c.After.Text(name) == s.Text(name) {
			fields = append(fields, name)
		} else {
			c.left = append(c.left, name)
		}
	}
	for parent, columns := range linked {
		isLinked := func(name string) bool { return name == parent || slices.Contains(strings.Split(columns, ", "), name) }
		if _, ok := c.After[parent]; ok && slices.ContainsFunc(c.left, isLinked) {
			for _, name := range fields {
				if isLinked(name) {
					c.left = append(c.left, name)
				}
			}
			fields = slices.DeleteFunc(fields, isLinked)
		}
	}
	slices.Sort(c.left)
	return fields
}

// remove removes what was created, unless it was used or changed since. It locks all of it first, and so waits for
// transactions that are about to use it: the statements that remove it see what these have done.
func (u *undo) remove(ctx context.Context, created map[string][]string, runs string) error {
	kinds := []struct{ table, remove, uses, isChanged string }{
		{"vendors", `delete from vendors`, inventory.VendorUses, `t.updated_at <> t.created_at`},
		{"filaments", `delete from filaments`, inventory.FilamentUses, `t.updated_at <> t.created_at`},
		{"spools", `update spools set hidden_at = now(), updated_at = now(), edited_at = now()`,
			`select from spool_usage where spool_id = $1 and kind <> 'created' union all ` + runs, `t.edited_at is not null`},
	}
	all, removed := make([]*db.Stmt, 2*len(kinds)), make([]*db.Stmt, len(kinds))
	for i, k := range kinds {
		ids := created[k.table]
		all[i] = db.SQL(`
			select count(*) from (select unnest($1::uuid[]) as id order by id) ids cross join lateral (
				select id from `+k.table+` where id = ids.id for update
			) locked`, ids)
		removed[i] = db.SQL(`
			with found as materialized (
				select t.id, t.number, to_jsonb(t)->'archived' = 'true' as archived, case
					when exists (`+strings.ReplaceAll(k.uses, "$1", "t.id")+`) then 'it was used since'
					when `+k.isChanged+` then 'it was changed since' end as reason
				from `+k.table+` t where t.id = any ($1::uuid[]) and t.hidden_at is null
			), removed as (
				`+k.remove+` where id = any (array(select id from found where reason is null))
			)
			select * from found order by number`, ids)
		all[len(all)-1-i] = removed[i] // what names others is removed first
	}
	if err := u.d.Write(ctx, all...); err != nil {
		return err
	}
	for i, k := range kinds {
		var found []struct {
			ID       string
			Number   int64
			Archived bool
			Reason   *string
		}
		if err := json.Unmarshal(removed[i].Array(), &found); err != nil {
			return err
		}
		counted, left := 0, map[string]bool{}
		for _, f := range found {
			if f.Reason != nil {
				left[f.ID] = true
				u.leave(k.table, f.ID, &f.Number, *f.Reason)
				continue
			}
			u.result.Removed++
			if !f.Archived {
				counted--
			}
		}
		for _, id := range created[k.table] {
			if !left[id] {
				u.gone = append(u.gone, id)
			}
		}
		if counted != 0 {
			u.last = append(u.last, db.SQL(`select count_rows($1, $2)`, k.table, counted))
		}
	}
	return nil
}
