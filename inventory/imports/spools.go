package imports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// Imported is the result of an import through the API.
type Imported struct {
	transfer.ImportCounts
	CustomFields []ImportedField `json:"custom_fields" rule:"notNull"`
	Rows         []ImportedRow   `json:"rows"`
}

// ImportedRow is the result of an import for one row.
type ImportedRow struct {
	Row    int64                 `json:"row" rule:"notNull"`
	ID     *value.UUID           `json:"id"`
	Number *int64                `json:"number"`
	Action transfer.ImportAction `json:"action" rule:"notNull"`
}

var importDoc = &server.Doc{
	ID: "importSpools", Tag: spoolsTag, Summary: "Import spools from CSV",
	Description: "Creates or changes all spools of a CSV file, or none. The first line names the columns, which are " +
		"fields of a spool; columns of other read-only fields than `id` and `number` are ignored.\n\n" +
		"With the `mode` `create`, each row is a new spool and must satisfy the rules of `POST /api/v1/spools`; " +
		"`material_type`, `color`, `diameter_mm` and `net_weight_grams` are required, and `id` and `number` are " +
		"ignored. With `update`, a row changes the spool that its `id` or `number` names as a `PATCH` does: only " +
		"the columns of the file change, and an empty cell is null. A row that names no spool is skipped. With " +
		"`upsert`, such a row is a new spool, and so is one whose `id` or `number` is unknown. The `id` decides: if no " +
		"`id` of the file is known, the numbers count if the spools with them are all of the material, colour, brand and " +
		"net weight of their rows. A row that already has the values of its spool changes nothing. A " +
		"changed `remaining_weight_grams` is an entry of the usage ledger; leave the column out to change other " +
		"fields while the spools are in use.\n\n" + importedExtra + madeDescription + "\n\n" + transfer.ImportRules(maxRows),
}

const importedExtra = "A custom field of the column `extra` that has no definition gets one, with the narrowest " +
	"type that fits all its values in the file; `custom_fields` names those.\n\n"

const importExample = "material_type,brand,color,diameter_mm,net_weight_grams,purchase_price\n" +
	"PLA,Polymaker,Black,1.75,1000,24.99\nPETG,,Transparent,1.75,750,\n"

// importedFile is a decoded file of spools.
type importedFile struct {
	mode    transfer.Mode
	fields  []string // the columns that are imported
	rows    []transfer.Record[inventory.Spool]
	number  int // the number of the first new spool
	creates int
}

// readImport decodes and validates up to most rows of a CSV file. The error is a 422.
func readImport(file transfer.File, how transfer.Reading, most int) (f importedFile, err error) {
	f.mode = how.Mode
	f.rows, f.fields, err = transfer.ReadRows[inventory.Spool](file, how, most, checkKeys, "id", "number")
	return f, err
}

// prepare finds out which rows are new, and reserves their numbers.
func (f *importedFile) prepare(ctx context.Context, d *db.DB, dryRun bool) (err error) {
	if f.mode == transfer.Upsert {
		known, err := knownRows(ctx, d, "spools", "material_type, color, brand, net_weight_grams", f.rows)
		if err == nil {
			err = transfer.Resolve(f.rows, known, func(in *inventory.Spool, s transfer.Stored) bool {
				return transfer.EqualText(in.MaterialType, s, "material_type") && transfer.EqualText(in.Color, s, "color") &&
					transfer.EqualText(in.Brand, s, "brand") &&
					(!in.NetWeight.Set || transfer.ValueText(in.NetWeight.Arg()) == s.Text("net_weight_grams"))
			}, differentSpool)
		}
		if err != nil {
			return err
		}
	}
	for _, row := range f.rows {
		if f.mode != transfer.Update && row.Keys == nil {
			f.creates++
		}
	}
	if f.creates > 0 && !dryRun {
		f.number, err = reserveNumbers(ctx, d, f.creates)
	}
	return err
}

// differentSpool returns the name of the stored spool if the row differs from it in both material and colour, or "".
func differentSpool(in *inventory.Spool, s transfer.Stored) string {
	if transfer.EqualText(in.MaterialType, s, "material_type") || transfer.EqualText(in.Color, s, "color") {
		return ""
	}
	return s.Text("material_type") + " " + s.Text("color")
}

// knownRows returns the stored rows that the rows of a file may name, with the given additional columns.
func knownRows[T any](
	ctx context.Context, d *db.DB, table, columns string, rows []transfer.Record[T],
) (transfer.Known, error) {
	known := transfer.Known{}
	ids, numbers := transfer.Named(rows)
	if len(ids)+len(numbers) == 0 {
		return known, nil
	}
	found := db.SQL(`
		select id, number, hidden_at, `+columns+` from `+table+` where id = any ($1::uuid[]) union all
		select id, number, hidden_at, `+columns+` from `+table+` where number = any ($2::int[])`, ids, numbers)
	if err := d.Read(ctx, found); err != nil {
		return nil, err
	}
	all, err := transfer.StoredRows(found)
	for _, s := range all {
		known[s.Text("id")], known[s.Text("number")] = s, s
	}
	return known, err
}

// checkKeys normalises the id and the number, and returns the problems with them.
func checkKeys(keys []string) (problems []server.FieldError) {
	if keys[0] != "" {
		id, ok := value.ParseID(keys[0])
		if !ok {
			problems = append(problems, server.FieldError{Field: "id", Message: "must be a UUID"})
		}
		keys[0] = id
	}
	if keys[1] != "" {
		number, err := strconv.ParseInt(keys[1], 10, 32)
		if err != nil || number < 1 {
			problems = append(problems, server.FieldError{Field: "number", Message: "must be the number of a spool"})
		}
		keys[1] = strconv.FormatInt(number, 10)
	}
	return problems
}

// maxRows limits the time that the transaction of an import through the API takes.
const maxRows = 10_000

// spoolImport imports spools. It reserves the numbers of new spools before the transaction, because creates wait for
// a transaction that reserves numbers. If the response is repeated for an Idempotency-Key, the reserved numbers
// remain unused.
var spoolImport = transfer.Import[importedFile, Imported]{
	Resources: "spools", Most: maxRows, Example: importExample, Read: readImport, Error: inventory.CostError,
	Convert: SpoolSheets.Convert, Good: SpoolSheets.Good,
	Prepare: func(ctx context.Context, d *db.DB, f *importedFile, dryRun bool) error {
		return f.prepare(ctx, d, dryRun)
	},
	Write: func(ctx context.Context, d *db.DB, f *importedFile, dryRun bool) (Imported, error) {
		return f.write(ctx, d, dryRun)
	},
}

// write creates and changes the spools of the file in the transaction of ctx. It first locks all spools to change,
// in the order of their ids.
func (f importedFile) write(ctx context.Context, d *db.DB, dryRun bool) (result Imported, err error) {
	result.DryRun, result.Rows = dryRun, make([]ImportedRow, len(f.rows))
	f.rows = slices.Clone(f.rows) // a retry must begin with the unchanged rows
	if err := f.attach(ctx, d); err != nil {
		return result, err
	}
	var invalid transfer.Problems
	extras := extrasOf(f.mode, f.rows, func(in *inventory.Spool) value.Extra { return in.Extra.Or(nil) })
	result.CustomFields, err = checkExtras(ctx, d, "spool", extras, dryRun, func(i int, field, message string) {
		invalid.Add(f.rows[i].Line, server.FieldError{Field: field, Message: message})
	})
	if err == nil {
		err = invalid.Err()
	}
	if err != nil {
		return result, err
	}
	updates, err := f.lock(ctx, d, result.Rows)
	if err != nil {
		return result, err
	}
	changed := map[string]bool{}
	for batch := range slices.Chunk(updates, transfer.BatchRows) {
		ids, err := f.update(ctx, d, batch, dryRun)
		if err != nil {
			return result, err
		}
		for _, id := range ids {
			changed[id] = true
		}
	}
	var batch rowBatch
	added := 0
	insert := func() error {
		if len(batch) == 0 || dryRun {
			return nil
		}
		_, err := batch.insert(ctx, d, f.creates, f.number+added-len(batch))
		batch = nil
		return err
	}
	for i := range f.rows {
		row, report := &f.rows[i], &result.Rows[i]
		report.Row = int64(row.Line)
		switch {
		case report.ID != nil && changed[string(*report.ID)]:
			report.Action = "updated"
		case report.ID != nil:
			report.Action = "unchanged"
		case f.creates == 0:
			report.Action = "skipped"
		default:
			report.Action = "created"
			added++
			if dryRun {
				continue
			}
			batch.add(added, &importRow{Spool: row.In})
			id, number := value.UUID(batch[len(batch)-1]["id"].(string)), int64(f.number+added-1)
			report.ID, report.Number = &id, &number
			if len(batch) == transfer.BatchRows {
				if err := insert(); err != nil {
					return result, err
				}
			}
		}
	}
	if err := insert(); err != nil {
		return result, err
	}
	for _, row := range result.Rows {
		result.Count(row.Action)
	}
	if len(f.rows) == 0 || dryRun || len(updates)+added == 0 {
		err = d.CheckActor(ctx)
	}
	return result, err
}

// attach locks the filaments that the rows name, and copies their fields to the rows.
func (f importedFile) attach(ctx context.Context, d *db.DB) error {
	var rows []*transfer.Record[inventory.Spool]
	var spools []*inventory.Spool
	for i := range f.rows {
		if row := &f.rows[i]; row.In.NamesFilament() {
			rows, spools = append(rows, row), append(spools, &row.In)
		}
	}
	if spools == nil {
		return nil
	}
	errs, err := inventory.AttachAll(ctx, d, spools, func(i int) bool { return rows[i].Keys == nil })
	if err != nil {
		return err
	}
	var invalid transfer.Problems
	for i, row := range rows {
		e, ok := errors.AsType[*server.Error](errs[i])
		switch {
		case ok && row.Foreign && e.Code == inventory.ErrUnknownFilament.Code:
			// The id is of another farm. The row itself has the values of the filament.
			row.In.FilamentID = value.Optional[value.UUID]{}
		case ok:
			invalid.Add(row.Line, e.Fields...)
		}
	}
	return invalid.Err()
}

// lock locks the spools that the rows name, and sets the ids and numbers of the report. It returns these rows with
// the ids of their spools.
func (f importedFile) lock(ctx context.Context, d *db.DB, report []ImportedRow) (updates []map[string]any, err error) {
	var ids, numbers []string
	for _, row := range f.rows {
		if row.Keys != nil && row.Keys[0] != "" {
			ids = append(ids, row.Keys[0])
		} else if row.Keys != nil {
			numbers = append(numbers, row.Keys[1])
		}
	}
	if len(ids)+len(numbers) == 0 {
		return nil, nil
	}
	locked := server.LockRows("spools", "id, number, filament_id, "+inventory.Followed, `
		select unnest($1::uuid[]) as id union all
		select s.id from unnest($2::int[]) n (number) cross join lateral (
			select id from spools where number = n.number
		) s`, "hidden_at is null", ids, numbers)
	if err := d.Write(ctx, locked); err != nil {
		return nil, err
	}
	var spools []struct {
		ID value.UUID
		inventory.FollowedFields
	}
	if err := json.Unmarshal(locked.Array(), &spools); err != nil {
		return nil, err
	}
	known := map[string]int{} // by id and by number
	for i, s := range spools {
		known[string(s.ID)], known[strconv.FormatInt(s.Number, 10)] = i+1, i+1
	}
	var invalid transfer.Problems
	first := map[int]int{} // the first line that names a spool
	for i, row := range f.rows {
		if row.Keys == nil {
			continue
		}
		id, number := row.Keys[0], row.Keys[1]
		n := known[id]
		if id == "" {
			n = known[number]
		}
		switch {
		case id != "" && known[id] == 0:
			invalid.Add(row.Line, server.FieldError{Field: "id", Message: "is not the id of a spool"})
		case number != "" && known[number] != n || n == 0:
			invalid.Add(row.Line, server.FieldError{Field: "number", Message: "is not the number of this spool"})
		case first[n] > 0:
			invalid.Add(row.Line, server.FieldError{Field: "row",
				Message: fmt.Sprintf("names the spool of line %d", first[n])})
		default:
			first[n] = row.Line
			s := &spools[n-1]
			if e, ok := errors.AsType[*server.Error](row.In.Stay(&s.FollowedFields)); ok && !row.In.FilamentID.Set {
				invalid.Add(row.Line, e.Fields...)
			}
			report[i].ID, report[i].Number = &s.ID, &s.Number
			values := server.Row(&row.In)
			values["extra"] = extraJSON(row.In.Extra)
			values["id"] = string(s.ID)
			updates = append(updates, values)
		}
	}
	return updates, invalid.Err()
}

// update changes locked spools and returns the ids of the spools whose values changed. An empty cell does not change
// an empty text, because a CSV file cannot distinguish an empty text from null.
func (f importedFile) update(
	ctx context.Context, d *db.DB, rows []map[string]any, dryRun bool,
) (ids []string, err error) {
	if len(f.fields) == 0 {
		return nil, nil
	}
	attaches := slices.Contains(f.fields, "filament_id") || slices.Contains(f.fields, "filament_number")
	var set, old, now []string
	for _, field := range server.SchemaOf[inventory.Spool]().Fields {
		has := slices.Contains(f.fields, field.Name)
		follows := slices.Contains(strings.Split(inventory.Followed, ", "), field.Name)
		value := "spools." + field.Name
		switch {
		case field.WriteOnly || !has && !(attaches && (follows || field.Name == "filament_id")):
			continue
		case has && field.IsFreeText():
			value = fmt.Sprintf("coalesce(r.%[1]s, case when spools.%[1]s = '' then '' end)", field.Name)
		case has || field.Name == "filament_id":
			value = "r." + field.Name
		}
		if attaches && follows {
			value = "case when r.filament_id is not null then r." + field.Name + " else " + value + " end"
		}
		set = append(set, field.Name+" = "+value)
		old, now = append(old, "spools."+field.Name), append(now, value)
	}
	all := make([]string, len(rows))
	for i, row := range rows {
		all[i] = row["id"].(string)
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return nil, err
	}
	from := `(
			select r.*, o.before from json_populate_recordset(null::spools, $1::json) r cross join lateral (
				select remaining_weight_grams as before from spools where id = r.id
			) o
		) r`
	where := ` where spools.id = r.id and spools.id = any ($2::uuid[])
			and row(` + strings.Join(old, ", ") + `) is distinct from row(` + strings.Join(now, ", ") + `)`
	const result = `select coalesce(array_agg(id::text), '{}') from `
	changed := inventory.EditSpools(`
			update spools set `+strings.Join(set, ", ")+`, updated_at = now(), edited_at = now() from `+from+where,
		result+`spool`, string(text), all)
	if dryRun {
		changed = db.SQL(result+`(select spools.id from spools, `+from+where+`) changed`, string(text), all)
	}
	return ids, d.Write(ctx, changed.Into(&ids))
}
