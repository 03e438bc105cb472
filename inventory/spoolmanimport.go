package inventory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/transfer"
)

// spoolmanColumns are the columns that an import from Spoolman sets, besides those of the parent.
var spoolmanColumns = map[string][]string{
	"vendor": {"name", "notes", "empty_spool_weight_grams", "external_id", "extra"},
	"filament": {"name", "material_type", "material_name", "color", "color_hex", "color_hexes", "color_arrangement",
		"diameter_mm", "density_g_cm3", "net_weight_grams", "spool_weight_grams", "price", "extruder_temperature_c",
		"bed_temperature_c", "article_number", "external_id", "notes", "extra"},
	"spool": {"net_weight_grams", "remaining_weight_grams", "spool_weight_grams", "purchase_price", "location",
		"lot_number", "notes", "archived", "first_used_at", "last_used_at", "extra"},
}

// parentColumns are the columns with the id of the parent.
var parentColumns = map[string]string{"filament": "vendor_id", "spool": "filament_id"}

// UnknownVendor is the id of the vendor that the surface shows for a filament without one, because clients need one.
const UnknownVendor = 1_000_000_000

// spoolmanTables are the tables of the items, in the order in which an import writes them.
var spoolmanTables = []struct{ entity, table string }{
	{"vendor", "vendors"}, {"filament", "filaments"}, {"spool", "spools"},
}

// SpoolmanOptions are those of an import from Spoolman.
type SpoolmanOptions struct {
	SkipInvalid bool // imports the valid items, instead of nothing
	DryRun      bool // does everything, and rolls it back
}

// SpoolmanResult is what an import from Spoolman has done.
type SpoolmanResult struct {
	Fields []CustomField                    // new definitions of custom fields
	Counts map[string]transfer.ImportCounts // by vendor, filament and spool; skipped are invalid
	Rows   []SpoolmanRow
}

// SpoolmanRow is what has become of an item of Spoolman.
type SpoolmanRow struct {
	Entity, ID string // vendor, filament or spool, and the id in Spoolman
	Action     transfer.ImportAction
	Number     int64 // in the tenant; 0 for a skipped item
	Remark     string
}

// spoolmanSource has all items of a source.
type spoolmanSource struct {
	fields []CustomField
	items  map[string][]*spoolmanItem          // by entity, in the order of the source
	known  map[string]map[string]*spoolmanItem // by entity and key
}

// Spoolman imports the vendors, filaments and spools of a Spoolman server, and the definitions of their custom fields,
// which follow from the values if the source does not have them.
// The source is what OpenSpoolman returns. An item keeps its id as number, if that is higher than all numbers that the
// tenant has used. An import changes of the items of an earlier one what has changed in Spoolman since, and nothing
// else; it does not change items that were removed. If any item is invalid, the error is InvalidRows, unless the
// options skip such items.
func (i Importer) Spoolman(
	ctx context.Context, file io.ReadSeeker, o SpoolmanOptions,
) (result SpoolmanResult, err error) {
	source, err := i.readSource(file)
	if err != nil {
		return result, err
	}
	w := spoolmanWriter{d: i.DB, source: source, dryRun: o.DryRun}
	if err := w.prepareFields(ctx); err != nil {
		return result, err
	}
	invalid := 0
	for _, t := range spoolmanTables {
		for _, item := range source.items[t.entity] {
			if len(item.problems) > 0 {
				invalid++
				i.Invalid(item.where, item.problems)
			}
		}
	}
	if invalid > 0 && !o.SkipInvalid {
		return result, InvalidRows(invalid)
	}
	if err := w.reserve(ctx); err != nil {
		return result, err
	}
	err = i.DB.Bulk(ctx, func(ctx context.Context) (err error) {
		result, err = w.write(ctx)
		if err == nil && o.DryRun {
			err = errDryRun
		}
		return err
	})
	if errors.Is(err, errDryRun) {
		err = nil
	}
	return result, err
}

// readSource reads all items.
func (i Importer) readSource(file io.Reader) (*spoolmanSource, error) {
	s := &spoolmanSource{items: map[string][]*spoolmanItem{}, known: map[string]map[string]*spoolmanItem{
		"vendor": {}, "filament": {}, "spool": {}}}
	// once adds an item, unless there is one with its key, which it returns.
	once := func(item *spoolmanItem) *spoolmanItem {
		if known := s.known[item.entity][item.key]; known != nil {
			return known
		}
		s.known[item.entity][item.key] = item
		s.items[item.entity] = append(s.items[item.entity], item)
		return item
	}
	vendorOf := func(n int, object spoolmanObject) *spoolmanItem {
		if len(object) == 0 || object["id"] == strconv.Itoa(UnknownVendor) {
			return nil
		}
		return once(convertVendor(n, object))
	}
	filamentOf := func(n int, object spoolmanObject) *spoolmanItem {
		return once(convertFilament(n, object, vendorOf(n, object.part("vendor"))))
	}
	err := readSpoolman(file, func(list string, n int, object spoolmanObject) {
		switch list {
		case "vendor":
			vendorOf(n, object)
		case "filament":
			filamentOf(n, object)
		case "spool":
			once(convertSpool(n, object, filamentOf(n, object.part("filament"))))
		case "field_vendor", "field_filament", "field_spool":
			if f, ok := convertField(strings.TrimPrefix(list, "field_"), object); ok {
				s.fields = append(s.fields, f)
			}
		}
	})
	return s, err
}

// convertField converts the definition of a custom field.
func convertField(entity string, s spoolmanObject) (f CustomField, ok bool) {
	body := map[string]any{"entity": entity, "key": s.text("key"), "name": s.text("name"),
		"type": s.text("field_type")}
	for name, field := range map[string]string{"unit": "unit", "default_value": "default_value"} {
		if s[field] != "" {
			body[name] = s[field]
		}
	}
	for name, field := range map[string]string{"position": "order", "multiple": "multi_choice", "choices": "choices"} {
		if s[field] != "" {
			body[name] = json.RawMessage(s[field])
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return f, false
	}
	f, err = server.DecodeBody[CustomField](text)
	return f, err == nil
}

// spoolmanWriter writes the items of a source.
type spoolmanWriter struct {
	d      *db.DB
	source *spoolmanSource
	dryRun bool
	fields []CustomField // definitions to create, or to give more choices
	last   int           // the highest number of a spool that was used before the import
	next   int           // the first number of the spools that do not keep theirs
}

// importedItem is an item of an earlier import.
type importedItem struct {
	Key    string
	ID     string
	Number int64
	Gone   bool // removed or hidden
	Source map[string]json.RawMessage
}

// imported returns the items of an entity that earlier imports have created, by key.
func (w *spoolmanWriter) imported(ctx context.Context, entity, table string) (map[string]*importedItem, error) {
	found := map[string]*importedItem{}
	for batch := range slices.Chunk(w.source.items[entity], transfer.BatchRows) {
		keys := make([]string, len(batch))
		for i, item := range batch {
			keys[i] = item.key
		}
		rows := db.SQL(`
			select i.key, i.item as id, i.source::text as source, coalesce(t.number, 0) as number,
				t.hidden_at is not null or t.id is null as gone
			from unnest($2::text[]) k (key) cross join lateral (
				select * from spoolman_items where entity = $1 and key = k.key offset 0
			) i left join lateral (
				select id, number, hidden_at from `+table+` where id = i.item offset 0
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

// reserve reserves the numbers of new spools, before the long transaction of the import, because creates wait for the
// transaction of a reservation.
func (w *spoolmanWriter) reserve(ctx context.Context) error {
	known, err := w.imported(ctx, "spool", "spools")
	if err != nil {
		return err
	}
	wanted := []int64{}
	for _, item := range w.source.items["spool"] {
		if len(item.problems) == 0 && known[item.key] == nil {
			wanted = append(wanted, item.number)
		}
	}
	reserve := w.d.TxRepeatable
	function := "reserve_wanted_numbers"
	if w.dryRun || len(wanted) == 0 {
		reserve, function = w.d.Tx, "last_spool_number"
	}
	err = reserve(ctx, func(ctx context.Context) error {
		if function == "last_spool_number" {
			return w.d.Read(ctx, db.SQL(`select last_spool_number()`).Into(&w.last))
		}
		return w.d.Write(ctx, db.SQL(`select reserve_wanted_numbers($1::int[])`, wanted).Into(&w.last))
	})
	w.next = w.last + 1
	for _, number := range wanted {
		w.next = max(w.next, int(number)+1)
	}
	return err
}

// write writes all items in the transaction of ctx.
func (w *spoolmanWriter) write(ctx context.Context) (result SpoolmanResult, err error) {
	result.Counts = map[string]transfer.ImportCounts{}
	if result.Fields = w.fields; len(w.fields) > 0 || w.source.hasExtra() {
		if err := w.define(ctx); err != nil {
			return result, err
		}
	}
	ids := map[*spoolmanItem]string{}
	for _, t := range spoolmanTables {
		items := &spoolmanBatch{spoolmanWriter: w, entity: t.entity, table: t.table, ids: ids}
		if err := items.write(ctx); err != nil {
			return result, err
		}
		counts := transfer.ImportCounts{DryRun: w.dryRun}
		for _, row := range items.rows {
			counts.Count(row.Action)
		}
		result.Counts[t.entity] = counts
		result.Rows = append(result.Rows, items.rows...)
	}
	return result, nil
}

// spoolmanBatch writes the items of an entity.
type spoolmanBatch struct {
	*spoolmanWriter
	entity, table string
	ids           map[*spoolmanItem]string // of vendors, filaments and spools that are written already
	rows          []SpoolmanRow
	created       []map[string]any // rows to insert
	changed       []map[string]any // ids and changes
	shortfalls    map[string]string
	sources       []map[string]any // rows of spoolman_items
}

func (b *spoolmanBatch) write(ctx context.Context) error {
	items := b.source.items[b.entity]
	b.rows = make([]SpoolmanRow, len(items))
	b.shortfalls = map[string]string{}
	known, err := b.imported(ctx, b.entity, b.table)
	if err != nil {
		return err
	}
	numbers, err := b.numbers(ctx)
	if err != nil {
		return err
	}
	same, err := b.sameNames(ctx, known)
	if err != nil {
		return err
	}
	for i, item := range items {
		row := &b.rows[i]
		row.Entity, row.ID, row.Remark = b.entity, item.id, ""
		remark := func(format string, args ...any) {
			row.Remark = strings.TrimPrefix(row.Remark+"; "+fmt.Sprintf(format, args...), "; ")
		}
		if len(item.problems) > 0 {
			row.Action = "skipped"
			continue
		}
		values := b.valuesOf(item)
		old := known[item.key]
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
		id := db.NewID()
		b.ids[item], row.Action, row.Remark = id, "created", strings.Join(item.remarks, "; ")
		row.Number = numbers(item)
		if row.Number != item.number {
			remark("the number %s is taken", item.id)
		}
		created := maps.Clone(values)
		created["id"], created["number"], created["created_at"] = id, row.Number, nil
		if item.created != "" {
			created["created_at"] = item.created
		}
		if item.shortfall != "" {
			b.shortfalls[id] = item.shortfall
		}
		b.created = append(b.created, created)
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

// valuesOf returns the columns of an item, with those of the parent.
func (b *spoolmanBatch) valuesOf(item *spoolmanItem) map[string]any {
	values := maps.Clone(item.values)
	if column := parentColumns[b.entity]; column != "" {
		values[column] = nil
		if id := b.ids[item.parent]; id != "" {
			values[column] = id
		}
	}
	maps.DeleteFunc(values, func(name string, _ any) bool { return !slices.Contains(b.columns(), name) })
	return values
}

// columns returns those that an import sets.
func (b *spoolmanBatch) columns() []string {
	columns := slices.Clone(spoolmanColumns[b.entity])
	if parent := parentColumns[b.entity]; parent != "" {
		columns = append(columns, parent)
	}
	return columns
}

// differences returns the values that differ from those of the last import.
func differences(old map[string]json.RawMessage, values map[string]any) map[string]any {
	changes := map[string]any{}
	for name, value := range values {
		if text, err := json.Marshal(value); err != nil || string(text) != string(old[name]) {
			changes[name] = value
		}
	}
	return changes
}

// remember stores the values, so that the next import knows what has changed in Spoolman.
func (b *spoolmanBatch) remember(item *spoolmanItem, id string, values map[string]any) {
	source, _ := json.Marshal(values)
	if len(source) > 100_000 {
		source = []byte("{}") // the next import changes all columns
	}
	b.sources = append(b.sources, map[string]any{"entity": b.entity, "key": item.key, "item": id,
		"source": string(source)})
}

func (b *spoolmanBatch) numberOf(item *spoolmanItem) int64 {
	for i, other := range b.source.items[b.entity] {
		if other == item {
			return b.rows[i].Number
		}
	}
	return 0
}

// numbers returns a function that returns the numbers of new items: their own if it is higher than all that were used
// before.
func (b *spoolmanBatch) numbers(ctx context.Context) (func(*spoolmanItem) int64, error) {
	last, next := int64(b.last), int64(b.next)
	if b.entity != "spool" {
		// The counter stays locked, so that no other transaction creates an item.
		counter := db.SQL(`
			insert into last_numbers as l (resource, last) values ($1, 1)
			on conflict (tenant_id, resource) do update set last = l.last
			returning case when xmax = 0 then 0 else last end`, b.table).Into(&last)
		if err := b.d.Write(ctx, counter); err != nil {
			return nil, err
		}
		next = last + 1
		for _, item := range b.source.items[b.entity] {
			next = max(next, item.number+1)
		}
	}
	used := map[int64]bool{}
	return func(item *spoolmanItem) int64 {
		if item.number > last && !used[item.number] {
			used[item.number] = true
			return item.number
		}
		next++
		return next - 1
	}, nil
}

// sameName is a vendor that has the name of an item: one of the tenant, or one of the source.
type sameName struct {
	id     string
	number int64
	item   *spoolmanItem
}

// sameNames returns the vendors whose names new or renamed items have, because names are unique without regard to
// case.
func (b *spoolmanBatch) sameNames(
	ctx context.Context, known map[string]*importedItem,
) (map[*spoolmanItem]*sameName, error) {
	same := map[*spoolmanItem]*sameName{}
	if b.entity != "vendor" {
		return same, nil
	}
	var names []string
	var of []*spoolmanItem
	for _, item := range b.source.items["vendor"] {
		if len(item.problems) > 0 {
			continue
		}
		name, _ := json.Marshal(item.values["name"])
		old := known[item.key]
		if old == nil || old.Number == 0 || !old.Gone && string(old.Source["name"]) != string(name) {
			names, of = append(names, item.values["name"].(string)), append(of, item)
		}
	}
	for start := 0; start < len(names); start += transfer.BatchRows {
		end := min(start+transfer.BatchRows, len(names))
		rows := db.SQL(`
			select n.key, v.id, v.number from (
				select n, lower(name collate "und-x-icu") collate "C" as key from unnest($1::text[]) with ordinality w (name, n)
			) n left join lateral (
				select id, number from vendors where name_key = n.key and hidden_at is null offset 0
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
		first := map[string]*spoolmanItem{}
		for i, row := range all {
			item := of[start+i]
			switch {
			case row.ID != nil && known[item.key] != nil &&
				known[item.key].ID == *row.ID: // another case of the letters
				first[row.Key] = item
			case row.ID != nil:
				same[item] = &sameName{id: *row.ID, number: row.Number}
			case first[row.Key] != nil:
				same[item] = &sameName{item: first[row.Key]}
				if known[item.key] == nil && known[first[row.Key].key] == nil {
					fill(first[row.Key].values, item.values)
				}
			default:
				first[row.Key] = item
			}
		}
	}
	return same, nil
}

// fill gives a vendor the values that it does not have.
func fill(values, other map[string]any) {
	for name, value := range other {
		if values[name] == nil {
			values[name] = value
		}
	}
}

// insert inserts the new items.
func (b *spoolmanBatch) insert(ctx context.Context) error {
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
		if _, err := insertRows(ctx, b.d, b.table, columns, b.created); err != nil {
			return err
		}
		last := b.created[len(b.created)-1]["number"]
		return b.d.Write(ctx, db.SQL(`update last_numbers set last = greatest(last, $2::int) where resource = $1`,
			b.table, last))
	}
	shortfalls, err := json.Marshal(b.shortfalls)
	if err != nil {
		return err
	}
	columns := strings.Join(spoolmanColumns["spool"], ", ")
	return costError(transfer.InBatches(b.created, func(list string, _ []string) error {
		change := newSpools(`
			insert into spools (id, number, created_at, updated_at, filament_id, ` + followed + `, ` + columns + `)
			select r.id, r.number, coalesce(r.created_at, now()), now(), f.id, ` + followedValues + `,
				r.` + strings.ReplaceAll(columns, ", ", ", r.") + `
			from json_populate_recordset(null::spools, $1::json) r cross join lateral (
				select * from filaments where id = r.filament_id offset 0
			) f order by r.number`)
		change.shortfall = `($2::json ->> id::text)::numeric`
		return b.d.Write(ctx, change.statement(`select count(*) from spool`, list, string(shortfalls)))
	}))
}

// nameVendors sets the names of the vendors of filaments.
func (b *spoolmanBatch) nameVendors(ctx context.Context, filaments []map[string]any) error {
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

// update changes the items of earlier imports that have changed in Spoolman.
func (b *spoolmanBatch) update(ctx context.Context) error {
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
	locked := server.LockRows(b.table, "id", `select unnest($1::uuid[]) as id`, "true", ids)
	if err := b.d.Write(ctx, locked); err != nil {
		return err
	}
	list := strings.Join(columns, ", ")
	err := transfer.InBatches(b.changed, func(changes string, some []string) error {
		set := `update ` + b.table + ` t set (` + list + `) = (
				select p.` + strings.ReplaceAll(list, ", ", ", p.") + ` from json_populate_record(t, r.changes) p
			), updated_at = now()`
		from := ` from json_to_recordset($1::json) r (id uuid, changes json)`
		where := ` where t.id = r.id and t.id = any ($2::uuid[])`
		stmt := db.SQL(set+from+where, changes, some)
		if b.entity == "spool" {
			change := weightChange{spools: strings.Replace(set, " t set", " set", 1) + `, edited_at = now()
				from (select r.*, o.before from json_to_recordset($1::json) r (id uuid, changes json) cross join lateral (
					select remaining_weight_grams as before from spools where id = r.id offset 0
				) o) r where spools.id = r.id and spools.id = any ($2::uuid[])`, before: "before", kind: "edited"}
			change.spools = strings.Replace(change.spools, "json_populate_record(t,", "json_populate_record(spools,",
				1)
			stmt = change.statement(`select count(*) from spool`, changes, some)
		}
		return b.d.Write(ctx, stmt)
	})
	switch {
	case err != nil:
		return costError(err)
	case b.entity == "vendor":
		return spreadNames(ctx, b.d, ids)
	case b.entity == "filament":
		return spreadFilaments(ctx, b.d, ids)
	}
	return b.d.Write(ctx, db.SQL(`
		update spools s set (`+followed+`) = row(`+followedValues+`), updated_at = now()
		from unnest($1::uuid[]) l (id) cross join lateral (
			select f.* from filaments f where f.id = (select x.filament_id from spools x where x.id = l.id) offset 0
		) f
		where s.id = l.id and s.id = any ($1::uuid[]) and s.filament_id = f.id`, ids))
}

// saveSources stores what remember has collected.
func (b *spoolmanBatch) saveSources(ctx context.Context) error {
	return transfer.InBatches(b.sources, func(list string, _ []string) error {
		return b.d.Write(ctx, db.SQL(`
			insert into spoolman_items as i (entity, key, item, source)
			select entity, key, item, source from json_populate_recordset(null::spoolman_items, $1::json)
			on conflict (tenant_id, entity, key) do update set item = excluded.item, source = excluded.source`,
			list))
	})
}
