package imports

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spoolwright/auth/audit"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
	"spoolwright/value/language"
)

var importsTag = &server.Tag{Name: "imports", Fields: ownFields,
	Description: "The imports of lists that created or changed something."}

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
func (Resources) Enum() []string {
	return []string{"vendors", "filaments", "spools", "products", "orders"}
}

// undoTime is an SQL expression: for how long an import can be undone. Trim keeps former values as long.
const undoTime = `interval '30 days'`

// maxUndone is the maximum number of resources that undo removes and restores in its transaction.
const maxUndone = maxRows

var listDoc = &server.Doc{
	ID: "listImports", Tag: importsTag, Summary: "List imports",
	Description: "Returns the imports of lists of vendors, filaments, spools, products and orders, and of files of " +
		"Spoolman, by pages, API and commands, that created or changed something.",
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
	Name      *string    `json:"name"`
	Reason    string     `json:"reason" rule:"notNull"`
}

var (
	errUndone      = server.Conflict("IMPORT_UNDONE", "The import was undone before")
	errNotUndoable = server.Conflict("IMPORT_NOT_UNDOABLE", "The import cannot be undone: %s",
		language.Sprintf("it is older than 30 days"))
)

// UndoDoc describes the operation of Undo.
var UndoDoc = &server.Doc{
	ID: "undoImport", Tag: importsTag, Summary: "Undo an import",
	Description: "Takes an import back, all at once: removes what it created, as `DELETE` does, also the vendors that it " +
		"created for filaments, and gives changed fields the values that they had before. What was used or changed since " +
		"stays, and `left` names it with the reason: a created spool with another entry in its ledger than the first, in a " +
		"run, or edited; a created filament or vendor that spools, filaments or products name, or that was changed; a " +
		"created product that another product contains, that a variant follows, that an order, a run or the ledger of " +
		"pieces names, or that was changed; a created order with a run or a delivery, that messages of a shop " +
		"changed, or that was changed; and " +
		"fields that have another value than the import gave them. A changed filament of a spool is restored together " +
		"with the fields that follow from it, or not at all, and so are the items of an order. Changes of orders that " +
		"were there before the first file, or that have messages of a shop, stay. Definitions of custom fields stay. The " +
		"usage ledger keeps the entries of the import and those of the undo. Removed spools, products and orders can be " +
		"restored. The same file, imported again, creates again what was removed.\n\nAn import can be undone once (`IMPORT_UNDONE`), for 30 days, and if it created and changed at most " +
		"10,000 resources (`IMPORT_NOT_UNDOABLE`).",
	Errors: []*server.Error{errUndone, errNotUndoable},
}

// Undoable is a table with the resources that imports create and change.
type Undoable struct {
	Table   string
	Only    string   // a condition: only the resources t of the table that satisfy it; or ""
	Uses    string   // a query of what uses the resource $1
	Named   string   // a query of what names the resource $1, which is deleted if there is nothing; "": it is hidden
	Set     string   // further assignments when resources are hidden
	Changed string   // a condition: whether the resource t was changed since its creation; "": updated_at says so
	Lock    *db.Stmt // before the resources; or nil
	Forget  string   // a statement about the resources $1 that were removed; or ""
	// Restore gives changed columns their former values, unless they were changed since. Last is nil, or must be the last
	// statement of the transaction. Restore is nil if another Undoable restores the table.
	Restore func(ctx context.Context, d *db.DB, changes []*Change) (done Undone, last *db.Stmt, err error)
}

// undoables returns the tables of this package, for Undo.
func undoables(runs, products string) []Undoable {
	return []Undoable{
		{Table: "vendors", Restore: vendorKind.restore, Named: `select from filaments where vendor_id = $1`,
			Uses: `select from filaments where vendor_id = $1 and hidden_at is null`},
		{Table: "filaments", Restore: filamentKind.restore,
			Named: `select from spools where filament_id = $1 union all ` + products,
			Uses:  `select from spools where filament_id = $1 and hidden_at is null union all ` + products},
		{Table: "spools", Restore: spoolKind.restore, Set: `, edited_at = now()`, Changed: `t.edited_at is not null`,
			Uses:   `select from spool_usage where spool_id = $1 and kind <> 'created' union all ` + runs,
			Forget: `delete from spoolman_items where entity = 'spool' and item = any ($1::uuid[])`},
	}
}

// Undo returns the endpoint that undoes an import. runs is a query of the runs that name the spool $1, products one of
// the products that name the filament $1, and more are the tables of other packages; a table comes after those that it
// names.
func Undo(d *db.DB, runs, products string, more ...Undoable) server.Endpoint {
	all := append(undoables(runs, products), more...)
	return server.Handle(func(ctx context.Context, r *server.Request[struct{}]) (server.OK[Undone], error) {
		var u undo
		err := d.Tx(ctx, func(ctx context.Context) error {
			u = undo{d: d, id: r.ID("id"), result: Undone{Left: []Left{}}}
			return u.run(ctx, all)
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

func (u *undo) run(ctx context.Context, tables []Undoable) error {
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
		return errNotUndoable.With(language.Sprintf("it created and changed more than 10,000 resources"))
	}
	created, changes := map[string][]string{}, map[string][]*Change{}
	for _, row := range all {
		if row.Before == nil {
			created[row.Resources] = append(created[row.Resources], row.Item)
			continue
		}
		c := &Change{Table: row.Resources, Item: row.Item}
		if err := errors.Join(decodeStored(*row.Before, &c.Before), decodeStored(*row.After, &c.After)); err != nil {
			return err
		}
		changes[row.Resources] = append(changes[row.Resources], c)
	}
	for _, t := range tables {
		if len(changes[t.Table]) == 0 || t.Restore == nil {
			continue
		}
		done, last, err := t.Restore(ctx, u.d, changes[t.Table])
		if err != nil {
			return err
		}
		u.result.Restored += done.Restored
		u.result.Left = append(u.result.Left, done.Left...)
		if last != nil {
			u.last = append(u.last, last)
		}
	}
	if err := u.remove(ctx, created, tables); err != nil {
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

// restore is Undoable.Restore. It changes the resources as an import with the mode Update does.
func (k kind[T]) restore(ctx context.Context, d *db.DB, changes []*Change) (done Undone, last *db.Stmt, err error) {
	f := kindFile[T]{kind: k, mode: transfer.Update}
	var ids []string
	for _, c := range changes {
		ids = append(ids, c.Item)
	}
	stored := db.SQL(`select id, number from `+k.table+` where id = any ($1::uuid[])`, ids)
	if err := d.Read(ctx, stored); err != nil {
		return done, nil, err
	}
	var all []struct {
		ID     string
		Number int64
	}
	if err := json.Unmarshal(stored.Array(), &all); err != nil {
		return done, nil, err
	}
	numbers := map[string]any{}
	for _, one := range all {
		numbers[one.ID] = one.Number
	}
	leave := func(c *Change, reason language.Text, args ...any) {
		done.Leave(c, transfer.Stored{"number": numbers[c.Item]}, reason, args...)
	}
	for i, c := range changes {
		in, err := server.DecodePatch[T]([]byte(jsonOf(c.Before)))
		if err != nil {
			leave(c, "its fields cannot be restored: %s", server.AsError(err).Detail)
			continue
		}
		row := transfer.Record[T]{In: in}
		row.Line, row.Keys = i+1, make([]string, len(k.keys))
		row.Keys[0] = c.Item
		f.rows, f.undo = append(f.rows, row), append(f.undo, c)
	}
	for len(f.rows) > 0 {
		report, err := f.write(ctx, d, true)
		invalid, ok := errors.AsType[transfer.RowProblems](err)
		if !ok {
			if err == nil {
				report, err = f.write(ctx, d, false)
			}
			for i, row := range report.Rows {
				if row.Action == "updated" {
					done.Restored++
				}
				if c := f.undo[i]; (c.Left != nil || len(c.After) == 0) && err == nil {
					done.LeaveChanged(c, transfer.Stored{"number": numbers[c.Item]})
				}
			}
			return done, report.Last, k.error(err)
		}
		valid := f
		valid.rows, valid.undo = nil, nil
		for i, row := range f.rows {
			if problems := invalid[row.Line]; problems == nil {
				valid.rows, valid.undo = append(valid.rows, row), append(valid.undo, f.undo[i])
			} else if problems[0].Field == "id" {
				leave(f.undo[i], "it was removed since")
			} else {
				leave(f.undo[i], "its fields cannot be restored: %s", transfer.Describe(problems))
			}
		}
		f = valid
	}
	return done, nil, nil
}

// Leave adds a resource that stays as it is, at least in part. s has its number, name and reference, if it has these.
func (u *Undone) Leave(c *Change, s transfer.Stored, reason language.Text, args ...any) {
	left := Left{Resources: Resources(c.Table), ID: value.UUID(c.Item), Reason: language.Sprintf(reason, args...)}
	if number, err := strconv.ParseInt(s.Text("number"), 10, 64); err == nil {
		left.Number = &number
	}
	if name := cmp.Or(s.Text("name"), s.Text("reference")); name != "" {
		left.Name = &name
	}
	u.Left = append(u.Left, left)
}

// LeaveChanged is Leave for the columns that were changed since, and for other problems.
func (u *Undone) LeaveChanged(c *Change, s transfer.Stored, problems ...string) {
	if len(c.After) == 0 {
		problems = append(problems, language.Sprintf("what it was before is not known"))
	}
	if len(c.Left) > 0 {
		problems = append(problems, language.Sprintf("it was changed since: %s", strings.Join(slices.Compact(c.Left),
			", ")))
	}
	u.Leave(c, s, "%s", strings.Join(problems, "; "))
}

// Unchanged returns the columns that still have the values of the import, and sets Left to the others.
func (c *Change) Unchanged(s transfer.Stored) (fields []string) {
	c.Left = nil
	for name := range c.After {
		if c.After.Text(name) == s.Text(name) {
			fields = append(fields, name)
		} else {
			c.Left = append(c.Left, name)
		}
	}
	for parent, columns := range linked {
		isLinked := func(name string) bool { return name == parent || slices.Contains(strings.Split(columns, ", "), name) }
		if _, ok := c.After[parent]; ok && slices.ContainsFunc(c.Left, isLinked) {
			for _, name := range fields {
				if isLinked(name) {
					c.Left = append(c.Left, name)
				}
			}
			fields = slices.DeleteFunc(fields, isLinked)
		}
	}
	slices.Sort(c.Left)
	return fields
}

// remove removes what was created, unless it was used or changed since. It locks all of it first, and so waits for
// transactions that are about to use it: the statements that remove it see what these have done.
func (u *undo) remove(ctx context.Context, created map[string][]string, tables []Undoable) error {
	tables = slices.DeleteFunc(slices.Clone(tables), func(t Undoable) bool { return len(created[t.Table]) == 0 })
	var locks, removes []*db.Stmt
	for _, t := range tables {
		ids := created[t.Table]
		if t.Lock != nil {
			locks = append(locks, t.Lock)
		}
		locks = append(locks, db.SQL(`
			select count(*) from (select unnest($1::uuid[]) as id order by id) ids cross join lateral (
				select id from `+t.Table+` where id = ids.id for update
			) locked`, ids))
		of := func(query string) string { return strings.ReplaceAll(query, "$1", "t.id") }
		hidden, deleted := "", ""
		if t.Named != "" {
			hidden = ` and exists (` + of(t.Named) + `)`
			deleted = `, deleted as (delete from ` + t.Table + ` t where id = any (array(select id from gone))
				and not exists (` + of(t.Named) + `))`
		}
		removes = append(removes, db.SQL(`
			with found as materialized (
				select t.id, o.object->>'number' as number, o.object->>'name' as name, o.object->>'reference' as reference,
					o.object->'archived' = 'true' as archived, case
					when exists (`+of(t.Uses)+`) then 'it was used since'
					when `+cmp.Or(t.Changed, `t.updated_at <> i.created_at`)+` then 'it was changed since' end as reason
				from `+t.Table+` t cross join lateral to_jsonb(t) o (object)
				join imports i on i.id = $2
				where t.id = any ($1::uuid[]) and t.hidden_at is null and `+cmp.Or(t.Only, "true")+`
			), gone as (select id from found where reason is null
			), hidden as (update `+t.Table+` t set hidden_at = now(), updated_at = now()`+t.Set+`
				where id = any (array(select id from gone))`+hidden+`)`+deleted+`
			select * from found order by number::int, reference`, ids, u.id))
	}
	last := slices.Clone(removes)
	slices.Reverse(last) // what names others is removed first
	if err := u.d.Write(ctx, append(locks, last...)...); err != nil {
		return err
	}
	left := map[string]bool{}
	for i, t := range tables {
		found, err := transfer.StoredRows(removes[i])
		if err != nil {
			return err
		}
		counted := 0
		for _, s := range found {
			if id := s.Text("id"); s["reason"] != nil {
				left[id] = true
				u.result.Leave(&Change{Table: t.Table, Item: id}, s, "%s", s.Text("reason"))
				continue
			}
			u.result.Removed++
			if s["archived"] != true {
				counted--
			}
		}
		if counted != 0 {
			u.last = append(u.last, db.SQL(`select count_rows($1, $2)`, t.Table, counted))
		}
	}
	for _, t := range tables {
		var gone []string
		for _, id := range created[t.Table] {
			if !left[id] {
				gone = append(gone, id)
			}
		}
		if u.gone = append(u.gone, gone...); t.Forget != "" {
			u.last = append(u.last, db.SQL(t.Forget, gone))
		}
	}
	return nil
}
