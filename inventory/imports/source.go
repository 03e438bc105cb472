package imports

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"spoolwright/auth/audit"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
	"spoolwright/value/language"
)

// itemColumns are the columns that an import of items sets, without the column of the parent.
var itemColumns = map[string][]string{
	"vendor": {"name", "notes", "empty_spool_weight_grams", "external_id", "extra"},
	"filament": {"name", "material_type", "material_name", "color", "color_hex", "color_hexes", "color_arrangement",
		"diameter_mm", "density_g_cm3", "net_weight_grams", "spool_weight_grams", "price", "extruder_temperature_c",
		"bed_temperature_c", "article_number", "external_id", "notes", "extra"},
	"spool": {"net_weight_grams", "remaining_weight_grams", "spool_weight_grams", "purchase_price", "location",
		"lot_number", "notes", "archived", "first_used_at", "last_used_at", "extra"},
}

// parentColumns are the columns for the id of an item's parent.
var parentColumns = map[string]string{"filament": "vendor_id", "spool": "filament_id"}

// itemTables has the table of each entity, in the order in which an import writes the entities.
var itemTables = []struct{ entity, table string }{
	{"vendor", "vendors"}, {"filament", "filaments"}, {"spool", "spools"},
}

// Importer imports the items of another system into the tenant of the context, in one transaction.
type Importer struct {
	DB      *db.DB
	Invalid func(where string, problems []server.FieldError) // called for each invalid item
}

// InvalidRows is the error of an import that created nothing because of invalid items. Its value is their number.
type InvalidRows int

func (n InvalidRows) Error() string {
	if n == 1 {
		return "1 row is invalid"
	}
	return fmt.Sprintf("%d rows are invalid", int(n))
}

// SourceOptions are the options of an import from another system.
type SourceOptions struct {
	SkipInvalid bool // imports the valid items if others are invalid
	DryRun      bool // imports everything, and rolls back
}

// SourceResult is the result of an import from another system.
type SourceResult struct {
	Fields []inventory.CustomField          // new definitions of custom fields
	Counts map[string]transfer.ImportCounts // by entity (vendor, filament or spool); skipped items are invalid
	Rows   []SourceRow

	importID *value.UUID // for undo
}

// SourceRow is the result for one item.
type SourceRow struct {
	Entity, ID string // vendor, filament or spool, and the id in the source
	Action     transfer.ImportAction
	Number     int64 // in the tenant; 0 for a skipped item
	Remark     string
}

// sourceItem is a vendor, filament or spool of another system.
type sourceItem struct {
	Entity, ID string
	Key        string // identifies it in all imports
	Where      string // for messages
	row        int    // the line of the file, or the place in the list
	Number     int64  // the wanted number, or 0 for any number
	Created    string // the time of its creation, or ""
	Parent     *sourceItem
	Values     map[string]any // by column
	Shortfall  string         // grams that were used although the spool did not have them, or ""
	Remarks    []string       // for the report
	Problems   []server.FieldError
}

// sourceFile holds the items of another system.
type sourceFile struct {
	Fields []inventory.CustomField  // definitions
	Items  map[string][]*sourceItem // by entity; parents come before their children
}

// invalid returns the items with problems: vendors, filaments and spools.
func (s *sourceFile) invalid() (all []*sourceItem) {
	for _, t := range itemTables {
		for _, item := range s.Items[t.entity] {
			if len(item.Problems) > 0 {
				all = append(all, item)
			}
		}
	}
	return all
}

// source imports the vendors, filaments and spools of another system, and the definitions of their custom fields. If
// the source has no definitions, it derives them from the values. An item keeps its number if the number is
// higher than all numbers that the tenant has used. If an earlier import created the item, it changes only the
// fields that have changed in the source since; it does not change removed items. If any item is invalid, the error
// is InvalidRows, unless the options skip invalid items.
func (i Importer) source(ctx context.Context, source *sourceFile, o SourceOptions) (result SourceResult, err error) {
	w := sourceWriter{d: i.DB, source: source, dryRun: o.DryRun}
	if err := w.prepareFields(ctx); err != nil {
		return result, err
	}
	invalid := source.invalid()
	for _, item := range invalid {
		i.Invalid(item.Where, item.Problems)
	}
	if len(invalid) > 0 && !o.SkipInvalid {
		return result, InvalidRows(len(invalid))
	}
	if err := w.reserve(ctx); err != nil {
		return result, err
	}
	err = i.DB.Bulk(ctx, func(ctx context.Context) (err error) {
		if result, err = w.write(ctx); err == nil && !o.DryRun {
			err = i.DB.Write(ctx, audit.Import("filaments and spools"))
		}
		return err
	})
	return result, err
}

type sourceWriter struct {
	d      *db.DB
	source *sourceFile
	dryRun bool
	fields []inventory.CustomField // definitions to create, or to which to add choices
	ids    map[*sourceItem]string  // the ids of the items that are written

	history History // of the items that are written

	// By entity, the lowest number that a new item keeps, and the first number for the others.
	first, next map[string]int64
}

// importedItem is an item that an earlier import created.
type importedItem struct {
	Key    string
	ID     string
	Number int64
	Gone   bool // removed or hidden
	Source map[string]json.RawMessage
}

// imported returns the items of an entity that earlier imports created, by key.
func (w *sourceWriter) imported(ctx context.Context, entity, table string) (map[string]*importedItem, error) {
	found := map[string]*importedItem{}
	for batch := range slices.Chunk(w.source.Items[entity], transfer.BatchRows) {
		keys := make([]string, len(batch))
		for i, item := range batch {
			keys[i] = item.Key
		}
		rows := db.SQL(`
			select i.key, i.item as id, i.source::text as source, coalesce(t.number, 0) as number,
				t.hidden_at is not null or t.id is null as gone
			from unnest($2::text[]) k (key) cross join lateral (
				select * from spoolman_items where entity = $1 and key = k.key
			) i left join lateral (
				select id, number, hidden_at from `+table+` where id = i.item
			) t on true`, entity, keys)
		if err := w.d.Read(ctx, rows); err != nil {
			return nil, err
		}
		var all []struct {
			importedItem
			Source string
		}
		if err := json.Unmarshal(rows.Array(), &all); err != nil {
			return nil, err
		}
		for i := range all {
			item := &all[i].importedItem
			if err := json.Unmarshal([]byte(all[i].Source), &item.Source); err != nil {
				return nil, err
			}
			found[item.Key] = item
		}
	}
	return found, nil
}

// reserve takes the numbers of new items. It runs before the long transaction of the import, because creates wait for
// a transaction that has taken numbers.
func (w *sourceWriter) reserve(ctx context.Context) error {
	w.first, w.next = map[string]int64{}, map[string]int64{}
	run := w.d.TxRepeatable
	if w.dryRun {
		run = w.d.DryRun
	}
	wanted := map[string][]int64{}
	for _, t := range itemTables {
		known, err := w.imported(ctx, t.entity, t.table)
		if err != nil {
			return err
		}
		for _, item := range w.source.Items[t.entity] {
			if old := known[item.Key]; len(item.Problems) == 0 && (old == nil || old.Number == 0) {
				wanted[t.entity] = append(wanted[t.entity], item.Number)
			}
		}
	}
	return run(ctx, func(ctx context.Context) error {
		for _, t := range itemTables {
			numbers := wanted[t.entity]
			if len(numbers) == 0 {
				continue
			}
			var first int64
			if err := w.d.Write(ctx, db.SQL(`select next_number($1, 0)`, t.table).Into(&first)); err != nil {
				return err
			}
			slices.Sort(numbers)
			next := max(first, numbers[len(numbers)-1]+1)
			kept, _ := slices.BinarySearch(numbers, first)
			others := len(numbers) - len(slices.Compact(slices.Clone(numbers[kept:])))
			w.first[t.entity], w.next[t.entity] = first, next
			err := w.d.Write(ctx, db.SQL(`select next_number($1, $2)`, t.table, next-first+int64(others)))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// write writes all items in the transaction of ctx; a dry run takes that back. Imports of a tenant that write wait for
// each other, because two that run at the same time would both create an item that neither of them knows.
func (w *sourceWriter) write(ctx context.Context) (result SourceResult, err error) {
	begin := db.Lock("bulk")
	if w.dryRun {
		begin = db.SQL("savepoint import")
	}
	if err := w.d.Write(ctx, begin); err != nil {
		return result, err
	}
	if result, err = w.writeItems(ctx); err == nil && w.dryRun {
		err = w.d.Write(ctx, db.SQL("rollback to savepoint import"))
	}
	return result, err
}

func (w *sourceWriter) writeItems(ctx context.Context) (result SourceResult, err error) {
	result.Counts = map[string]transfer.ImportCounts{}
	if result.Fields = w.fields; len(w.fields) > 0 || w.source.hasExtra() {
		if err := w.define(ctx); err != nil {
			return result, err
		}
	}
	w.ids, w.history = map[*sourceItem]string{}, History{}
	resources := ""
	var counted []*db.Stmt
	for _, t := range itemTables {
		items := &itemBatch{sourceWriter: w, entity: t.entity, table: t.table}
		if err := items.write(ctx); err != nil {
			return result, err
		}
		if len(w.source.Items[t.entity]) > 0 {
			resources = t.table
		}
		counts := transfer.ImportCounts{DryRun: w.dryRun}
		for _, row := range items.rows {
			counts.Count(row.Action)
		}
		result.Counts[t.entity] = counts
		result.Rows = append(result.Rows, items.rows...)
		counted = append(counted, db.SQL(`select count_rows($1, $2)`, t.table, items.counted))
	}
	if !w.dryRun {
		created, updated := int64(len(w.history.created)), int64(len(w.history.changes))
		if result.importID, err = w.history.Save(ctx, w.d, resources, created, updated); err != nil {
			return result, err
		}
	}
	return result, w.d.Write(ctx, counted...)
}

type itemBatch struct {
	*sourceWriter
	entity, table string
	rows          []SourceRow
	created       []map[string]any // rows to insert
	changed       []map[string]any // ids and changed columns
	shortfalls    map[string]string
	sources       []map[string]any // rows of spoolman_items
	counted       int64            // the change of the total
}

func (b *itemBatch) write(ctx context.Context) error {
	items := b.source.Items[b.entity]
	b.rows = make([]SourceRow, len(items))
	b.shortfalls = map[string]string{}
	known, err := b.imported(ctx, b.entity, b.table)
	if err != nil {
		return err
	}
	numbers := b.numbers()
	same, err := b.sameNames(ctx, known)
	if err != nil {
		return err
	}
	for i, item := range items {
		row := &b.rows[i]
		row.Entity, row.ID, row.Remark = b.entity, item.ID, ""
		remark := func(format language.Text, args ...any) {
			row.Remark = strings.TrimPrefix(row.Remark+"; "+language.Sprintf(format, args...), "; ")
		}
		if len(item.Problems) > 0 {
			row.Action = "skipped"
			continue
		}
		values := b.valuesOf(item)
		old := known[item.Key]
		if old != nil && old.Gone && old.Number > 0 { // hidden; a deleted vendor or filament is created again
			b.ids[item], row.Action, row.Number = old.ID, "unchanged", old.Number
			remark("was removed here")
			continue
		}
		if old != nil && !old.Gone {
			b.ids[item], row.Action, row.Number = old.ID, "unchanged", old.Number
			if same[item] != nil {
				values["name"] = old.Source["name"]
				remark("keeps its name, because another vendor has the new one")
			}
			if changes := differences(old.Source, values); len(changes) > 0 {
				row.Action = "updated"
				b.changed = append(b.changed, map[string]any{"id": old.ID, "changes": changes})
				b.remember(item, old.ID, values)
			}
			continue
		}
		if other := same[item]; other != nil {
			b.ids[item], row.Action, row.Number = other.id, "unchanged", other.number
			if other.item != nil {
				b.ids[item], row.Number = b.ids[other.item], b.numberOf(other.item)
			}
			remark("is the vendor %d, which has its name", row.Number)
			b.remember(item, b.ids[item], values)
			continue
		}
		id := value.NewID()
		b.ids[item], row.Action, row.Remark = id, "created", strings.Join(item.Remarks, "; ")
		row.Number = numbers(item)
		if row.Number != item.Number {
			remark("the number %s is taken", item.ID)
		}
		created := maps.Clone(values)
		created["id"], created["number"], created["created_at"] = id, row.Number, nil
		if item.Created != "" {
			created["created_at"] = item.Created
		}
		if item.Shortfall != "" {
			b.shortfalls[id] = item.Shortfall
		}
		b.created = append(b.created, created)
		b.history.Create(b.table, id)
		if transfer.ValueText(created["archived"]) != "true" {
			b.counted++
		}
		b.remember(item, id, values)
	}
	if err := b.update(ctx); err != nil {
		return err
	}
	if err := b.insert(ctx); err != nil {
		return err
	}
	return b.saveSources(ctx)
}

// valuesOf returns the column values of an item, with the column of its parent.
func (b *itemBatch) valuesOf(item *sourceItem) map[string]any {
	values := maps.Clone(item.Values)
	if column := parentColumns[b.entity]; column != "" {
		values[column] = nil
		if id := b.ids[item.Parent]; id != "" {
			values[column] = id
		}
	}
	maps.DeleteFunc(values, func(name string, _ any) bool { return !slices.Contains(b.columns(), name) })
	return values
}

// columns returns the columns that the import sets for the entity.
func (b *itemBatch) columns() []string {
	columns := slices.Clone(itemColumns[b.entity])
	if parent := parentColumns[b.entity]; parent != "" {
		columns = append(columns, parent)
	}
	return columns
}

// differences returns the values that differ from the values of the last import.
func differences(old map[string]json.RawMessage, values map[string]any) map[string]any {
	changes := map[string]any{}
	for name, value := range values {
		if text, err := json.Marshal(value); err != nil || string(text) != string(old[name]) {
			changes[name] = value
		}
	}
	return changes
}

// remember records the item's values, so that the next import can tell which values have changed in the source.
func (b *itemBatch) remember(item *sourceItem, id string, values map[string]any) {
	source, _ := json.Marshal(values)
	if len(source) > 100_000 {
		source = []byte("{}") // the next import changes all columns
	}
	b.sources = append(b.sources, map[string]any{"entity": b.entity, "key": item.Key, "item": id,
		"source": string(source)})
}

func (b *itemBatch) numberOf(item *sourceItem) int64 {
	for i, other := range b.source.Items[b.entity] {
		if other == item {
			return b.rows[i].Number
		}
	}
	return 0
}

// numbers returns a function that returns the number of a new item. An item keeps its number in the source if that
// number is higher than all numbers that were used before.
func (b *itemBatch) numbers() func(*sourceItem) int64 {
	first, next := b.first[b.entity], b.next[b.entity]
	used := map[int64]bool{}
	return func(item *sourceItem) int64 {
		if item.Number >= first && !used[item.Number] {
			used[item.Number] = true
			return item.Number
		}
		next++
		return next - 1
	}
}

// sameName is a vendor whose name a new or renamed vendor of the source wants. It is a vendor of the tenant or of
// the source.
type sameName struct {
	id     string
	number int64
	item   *sourceItem
}

// sameNames returns the vendors that already have the names of new or renamed items. It exists because names of
// vendors are unique without regard to case.
func (b *itemBatch) sameNames(
	ctx context.Context, known map[string]*importedItem,
) (map[*sourceItem]*sameName, error) {
	same := map[*sourceItem]*sameName{}
	if b.entity != "vendor" {
		return same, nil
	}
	var names []string
	var of []*sourceItem
	for _, item := range b.source.Items["vendor"] {
		if len(item.Problems) > 0 {
			continue
		}
		name, _ := json.Marshal(item.Values["name"])
		old := known[item.Key]
		if old == nil || old.Number == 0 || !old.Gone && string(old.Source["name"]) != string(name) {
			names, of = append(names, item.Values["name"].(string)), append(of, item)
		}
	}
	for start := 0; start < len(names); start += transfer.BatchRows {
		end := min(start+transfer.BatchRows, len(names))
		rows := db.SQL(`
			select n.key, v.id, v.number from (
				select n, lower(name collate "und-x-icu") collate "C" as key from unnest($1::text[]) with ordinality w (name, n)
			) n left join lateral (
				select id, number from vendors where name_key = n.key and hidden_at is null
			) v on true order by n.n`, names[start:end])
		if err := b.d.Read(ctx, rows); err != nil {
			return nil, err
		}
		var all []struct {
			Key    string
			ID     *string
			Number int64
		}
		if err := json.Unmarshal(rows.Array(), &all); err != nil {
			return nil, err
		}
		first := map[string]*sourceItem{}
		for i, row := range all {
			item := of[start+i]
			switch {
			case row.ID != nil && known[item.Key] != nil &&
				known[item.Key].ID == *row.ID: // the name differs only in case
				first[row.Key] = item
			case row.ID != nil:
				same[item] = &sameName{id: *row.ID, number: row.Number}
			case first[row.Key] != nil:
				same[item] = &sameName{item: first[row.Key]}
				if known[item.Key] == nil && known[first[row.Key].Key] == nil {
					fill(first[row.Key].Values, item.Values)
				}
			default:
				first[row.Key] = item
			}
		}
	}
	return same, nil
}

func fill(values, other map[string]any) {
	for name, value := range other {
		if values[name] == nil {
			values[name] = value
		}
	}
}

func (b *itemBatch) insert(ctx context.Context) error {
	if len(b.created) == 0 {
		return nil
	}
	slices.SortFunc(b.created, func(x, y map[string]any) int {
		return cmp.Compare(x["number"].(int64), y["number"].(int64))
	})
	if b.entity != "spool" {
		columns := append(b.columns(), "number")
		if b.entity == "filament" {
			columns = append(columns, "vendor_name")
			if err := b.nameVendors(ctx, b.created); err != nil {
				return err
			}
		}
		return insertRows(ctx, b.d, b.table, columns, b.created)
	}
	shortfalls, err := json.Marshal(b.shortfalls)
	if err != nil {
		return err
	}
	columns := strings.Join(itemColumns["spool"], ", ")
	return inventory.CostError(transfer.InBatches(b.created, func(list string, _ []string) error {
		return b.d.Write(ctx, inventory.InsertSpools(`
			insert into spools (id, number, created_at, updated_at, filament_id, `+inventory.Followed+`, `+columns+`)
			select r.id, r.number, coalesce(r.created_at, now()), now(), f.id, `+inventory.FollowedValues+`,
				r.`+strings.ReplaceAll(columns, ", ", ", r.")+`
			from json_populate_recordset(null::spools, $1::json) r cross join lateral (
				select * from filaments where id = r.filament_id
			) f order by r.number`, `($2::json ->> id::text)::numeric`, `select count(*) from spool`, list,
			string(shortfalls)))
	}))
}

func (b *itemBatch) nameVendors(ctx context.Context, filaments []map[string]any) error {
	var ids []string
	for _, f := range filaments {
		if id, ok := f["vendor_id"].(string); ok {
			ids = append(ids, id)
		}
	}
	rows := db.SQL(`
		select v.* from (select distinct unnest($1::uuid[]) as id order by id) n cross join lateral (
			select id, name from vendors where id = n.id for share
		) v`, ids)
	if err := b.d.Write(ctx, rows); err != nil {
		return err
	}
	all, err := transfer.StoredRows(rows)
	names := map[any]any{}
	for _, row := range all {
		names[row["id"]] = row["name"]
	}
	for _, f := range filaments {
		f["vendor_name"] = names[f["vendor_id"]]
	}
	return err
}

// update changes the items of earlier imports that have changed in the source.
func (b *itemBatch) update(ctx context.Context) error {
	if len(b.changed) == 0 {
		return nil
	}
	columns := b.columns()
	var ids []string
	var named []map[string]any // filaments with another vendor
	for _, row := range b.changed {
		ids = append(ids, row["id"].(string))
		if changes := row["changes"].(map[string]any); b.entity == "filament" {
			if _, ok := changes["vendor_id"]; ok {
				named = append(named, changes)
			}
		}
	}
	if b.entity == "filament" {
		columns = append(columns, "vendor_name")
		if err := b.nameVendors(ctx, named); err != nil {
			return err
		}
	}
	kept := map[string][]string{"vendors": vendorKind.columns, "filaments": filamentKind.columns,
		"spools": spoolKind.columns}[b.table]
	locked := server.LockRows(b.table, "id, "+storedColumns(kept), `select unnest($1::uuid[]) as id`, "true", ids)
	if err := b.d.Write(ctx, locked); err != nil {
		return err
	}
	before, err := transfer.StoredRows(locked)
	if err != nil {
		return err
	}
	list := strings.Join(columns, ", ")
	err = transfer.InBatches(b.changed, func(changes string, some []string) error {
		set := `update ` + b.table + ` t set (` + list + `) = (
				select p.` + strings.ReplaceAll(list, ", ", ", p.") + ` from json_populate_record(t, r.changes) p
			), updated_at = now()`
		from := ` from json_to_recordset($1::json) r (id uuid, changes json)`
		where := ` where t.id = r.id and t.id = any ($2::uuid[])`
		stmt, counted := db.SQL(set+from+where, changes, some), int64(0)
		if b.entity == "spool" {
			set = strings.NewReplacer(" t set", " set", "json_populate_record(t,", "json_populate_record(spools,").
				Replace(set)
			stmt = inventory.EditSpools(set+`, edited_at = now()
				from (select r.*, o.* from json_to_recordset($1::json) r (id uuid, changes json) cross join lateral (
					select remaining_weight_grams as before, case when hidden_at is null then archived end as was_archived
					from spools where id = r.id
				) o) r where spools.id = r.id and spools.id = any ($2::uuid[])
				returning spools.id, before, spools.remaining_weight_grams,
					was_archived::int - spools.archived::int as counted`,
				`select coalesce(sum(counted), 0) from spool`, changes, some).Into(&counted)
		}
		err := b.d.Write(ctx, stmt)
		b.counted += counted
		return err
	})
	if err != nil {
		return inventory.CostError(err)
	}
	if err := b.keep(ctx, kept, ids, before); err != nil {
		return err
	}
	switch b.entity {
	case "vendor":
		return inventory.SpreadVendors(ctx, b.d, ids)
	case "filament":
		return inventory.SpreadFilaments(ctx, b.d, ids)
	}
	return b.d.Write(ctx, db.SQL(`
		update spools s set (`+inventory.Followed+`) = row(`+inventory.FollowedValues+`), updated_at = now()
		from unnest($1::uuid[]) l (id) join filaments f on f.id = (select x.filament_id from spools x where x.id = l.id)
		where s.id = l.id and s.id = any ($1::uuid[]) and s.filament_id = f.id`, ids))
}

// keep adds to the history what update has changed in the rows with the ids, of the columns that undo can restore.
func (b *itemBatch) keep(ctx context.Context, columns, ids []string, before []transfer.Stored) error {
	now := server.LockRows(b.table, "id, "+storedColumns(columns), `select unnest($1::uuid[]) as id`, "true", ids)
	if err := b.d.Write(ctx, now); err != nil {
		return err
	}
	after, err := transfer.StoredRows(now)
	changed := map[string]map[string]any{}
	for _, row := range after {
		changed[row.Text("id")] = row
	}
	for _, old := range before {
		row := transfer.Stored(changed[old.Text("id")])
		b.history.Change(b.table, old, row, slices.DeleteFunc(slices.Clone(columns), func(name string) bool {
			return row.Text(name) == old.Text(name)
		})...)
	}
	return err
}

// saveSources stores the values that remember recorded.
func (b *itemBatch) saveSources(ctx context.Context) error {
	return transfer.InBatches(b.sources, func(list string, _ []string) error {
		return b.d.Write(ctx, db.SQL(`
			insert into spoolman_items as i (entity, key, item, source)
			select entity, key, item, source from json_populate_recordset(null::spoolman_items, $1::json)
			on conflict (tenant_id, entity, key) do update set item = excluded.item, source = excluded.source`,
			list))
	})
}
