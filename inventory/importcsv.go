package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/transfer"
)

// Imported is the result of an import through the API.
type Imported struct {
	transfer.ImportCounts
	Rows []ImportedRow `json:"rows"`
}

// ImportedRow is what an import has done with a row.
type ImportedRow struct {
	Row    int64                 `json:"row" rule:"notNull"`
	ID     *server.UUID          `json:"id"`
	Number *int64                `json:"number"`
	Action transfer.ImportAction `json:"action" rule:"notNull"`
}

var importDoc = &server.Doc{
	ID: "importSpools", Tag: tag, Summary: "Import spools from CSV",
	Description: "Creates or changes all spools of a CSV file, or none. The first line names the columns, which are " +
		"fields of a spool; columns of other read-only fields than `id` and `number` are ignored.\n\n" +
		"With the `mode` `create`, each row is a new spool and must satisfy the rules of `POST /api/v1/spools`; " +
		"`material_type`, `color`, `diameter_mm` and `net_weight_grams` are required, and `id` and `number` are " +
		"ignored. With `update`, a row changes the spool that its `id` or `number` names as a `PATCH` does: only " +
		"the columns of the file change, and an empty cell is null. A row that names no spool is skipped. With " +
		"`upsert`, such a row is a new spool, and so is one whose `id` or `number` is unknown. The `id` decides: if no `id` " +
		"of the file is known, the numbers count if the spools with them are all of the material, colour, brand and net " +
		"weight of their rows. A row that already has the values of its spool changes nothing. A " +
		"changed `remaining_weight_grams` is an entry of the usage ledger; leave the column out to change other " +
		"fields while the spools are in use.\n\n" + transfer.ImportRules(maxRows),
}

const importExample = "material_type,brand,color,diameter_mm,net_weight_grams,purchase_price\n" +
	"PLA,Polymaker,Black,1.75,1000,24.99\nPETG,,Transparent,1.75,750,\n"

// importedFile are the rows of a file in the memory.
type importedFile struct {
	mode    transfer.Mode
	fields  []string // the columns that are imported
	rows    []transfer.Record[Spool]
	number  int // of the first new spool
	creates int
}

// readImport decodes and validates at most so many rows of a CSV file. The error is a 422.
func readImport(file io.ReadSeeker, how transfer.Reading, most int) (f importedFile, err error) {
	f.mode = how.Mode
	f.rows, f.fields, err = transfer.ReadRows[Spool](file, how, most, checkKeys, "id", "number")
	return f, err
}

// prepare finds out which rows are new, and reserves their numbers.
func (f *importedFile) prepare(ctx context.Context, d *db.DB, dryRun bool) (err error) {
	if f.mode == transfer.Upsert {
		known, err := knownRows(ctx, d, "spools", "material_type, color, brand, net_weight_grams", f.rows)
		if err == nil {
			err = transfer.Resolve(f.rows, known, func(in *Spool, s transfer.Stored) bool {
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

// differentSpool returns the name of a spool if a row has another material and another colour.
func differentSpool(in *Spool, s transfer.Stored) string {
	if transfer.EqualText(in.MaterialType, s, "material_type") || transfer.EqualText(in.Color, s, "color") {
		return ""
	}
	return s.Text("material_type") + " " + s.Text("color")
}

// knownRows returns the rows of a table that the rows of a file may name, with more columns.
func knownRows[T any](
	ctx context.Context, d *db.DB, table, columns string, rows []transfer.Record[T],
) (transfer.Known, error) {
	known := transfer.Known{}
	ids, numbers := transfer.Named(rows)
	if len(ids)+len(numbers) == 0 {
		return known, nil
	}
	indexed := "num_nonnulls(number) = 1"
	if table == "spools" {
		indexed = "number is not null"
	}
	found := db.SQL(`
		select k.* from (select distinct unnest($1::uuid[]) as id) n cross join lateral (
			select id, number, hidden_at, `+columns+` from `+table+` where id = n.id offset 0
		) k union all
		select k.* from (select distinct unnest($2::int[]) as number) n cross join lateral (
			select id, number, hidden_at, `+columns+` from `+table+` where number = n.number and `+indexed+` offset 0
		) k`, ids, numbers)
	if err := d.Read(ctx, found); err != nil {
		return nil, err
	}
	all, err := transfer.StoredRows(found)
	for _, s := range all {
		known[s.Text("id")], known[s.Text("number")] = s, s
	}
	return known, err
}

// checkKeys brings the id and the number in their usual form, and returns the problems with them.
func checkKeys(keys []string) (problems []server.FieldError) {
	if keys[0] != "" {
		id, ok := db.ParseID(keys[0])
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

// spoolImport imports spools. The numbers of new ones are reserved before the transaction, because creates wait for the
// transaction of a reservation. A response that is repeated for an Idempotency-Key leaves its numbers unused.
var spoolImport = transfer.Import[importedFile, Imported]{
	Resources: "spools", Most: maxRows, Example: importExample, Read: readImport, Error: costError,
	Prepare: func(ctx context.Context, d *db.DB, f *importedFile, dryRun bool) error {
		return f.prepare(ctx, d, dryRun)
	},
	Write: func(ctx context.Context, d *db.DB, f *importedFile, dryRun bool) (Imported, error) {
		return f.write(ctx, d, dryRun)
	},
}

// write writes the rows in the transaction of ctx. It locks all spools to change first, in the order of their ids.
func (f importedFile) write(ctx context.Context, d *db.DB, dryRun bool) (result Imported, err error) {
	result.DryRun, result.Rows = dryRun, make([]ImportedRow, len(f.rows))
	f.rows = slices.Clone(f.rows) // another attempt begins with the rows of the file
	if err := f.attach(ctx, d); err != nil {
		return result, err
	}
	var invalid transfer.Problems
	err = checkExtras(ctx, d, "spool", len(f.rows), func(i int) server.Extra { return f.rows[i].In.Extra.Or(nil) },
		func(i int, field, message string) {
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
	created := 0
	insert := func() error {
		if len(batch) == 0 || dryRun {
			return nil
		}
		_, err := batch.insert(ctx, d, f.creates, f.number+created-len(batch))
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
			created++
			if dryRun {
				continue
			}
			batch.add(created, &importRow{Spool: row.In})
			id, number := server.UUID(batch[len(batch)-1]["id"].(string)), int64(f.number+created-1)
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
	if len(f.rows) == 0 || dryRun || len(updates)+created == 0 {
		err = d.CheckActor(ctx)
	}
	return result, err
}

// attach locks the filaments that rows name, and gives these rows their fields.
func (f importedFile) attach(ctx context.Context, d *db.DB) error {
	var spools []*Spool
	for i := range f.rows {
		if in := &f.rows[i].In; in.namesFilament() {
			spools = append(spools, in)
		}
	}
	if spools == nil {
		return nil
	}
	locked := lockFilaments(spools...)
	if err := d.Write(ctx, locked); err != nil {
		return err
	}
	filaments, err := byName(locked)
	if err != nil {
		return err
	}
	var invalid transfer.Problems
	for i := range f.rows {
		row := &f.rows[i]
		if !row.In.namesFilament() {
			continue
		}
		e, ok := errors.AsType[*server.Error](filaments.attach(&row.In, row.Keys == nil))
		switch {
		case ok && row.Foreign && e.Code == errUnknownFilament.Code: // of the other farm; the row has its values
			row.In.FilamentID = server.Optional[server.UUID]{}
		case ok:
			invalid.Add(row.Line, e.Fields...)
		}
	}
	return invalid.Err()
}

// lock locks the spools that rows name, and returns these rows with the ids. It sets the ids and numbers of the
// report.
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
	locked := server.LockRows("spools", "id, number, filament_id, "+followed, `
		select unnest($1::uuid[]) as id union all
		select s.id from unnest($2::int[]) n (number) cross join lateral (
			select id from spools where number = n.number and hidden_at is null offset 0
		) s`, "hidden_at is null", ids, numbers)
	if err := d.Write(ctx, locked); err != nil {
		return nil, err
	}
	var spools []struct {
		ID server.UUID
		followedFields
	}
	if err := json.Unmarshal(locked.Array(), &spools); err != nil {
		return nil, err
	}
	known := map[string]int{} // by id and by number
	for i, s := range spools {
		known[string(s.ID)], known[strconv.FormatInt(s.Number, 10)] = i+1, i+1
	}
	var invalid transfer.Problems
	first := map[int]int{} // the line of each spool
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
			if e, ok := errors.AsType[*server.Error](row.In.stay(&s.followedFields)); ok && !row.In.FilamentID.Set {
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

// update changes locked spools and returns the ids of those that had other values. An empty cell does not change an
// empty text, because a spreadsheet does not tell it from null.
func (f importedFile) update(
	ctx context.Context, d *db.DB, rows []map[string]any, dryRun bool,
) (ids []string, err error) {
	if len(f.fields) == 0 {
		return nil, nil
	}
	attaches := slices.Contains(f.fields, "filament_id") || slices.Contains(f.fields, "filament_number")
	var set, old, now []string
	for _, field := range server.SchemaOf[Spool]().Fields {
		has := slices.Contains(f.fields, field.Name)
		follows := slices.Contains(strings.Split(followed, ", "), field.Name)
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
				select remaining_weight_grams as before from spools where id = r.id offset 0
			) o
		) r`
	where := ` where spools.id = r.id and spools.id = any ($2::uuid[])
			and row(` + strings.Join(old, ", ") + `) is distinct from row(` + strings.Join(now, ", ") + `)`
	const result = `select coalesce(array_agg(id::text), '{}') from `
	changed := weightChange{
		spools: `update spools set ` + strings.Join(set, ", ") + `, updated_at = now(), edited_at = now() from ` +
			from + where,
		before: "before", kind: "edited",
	}.statement(result+`spool`, string(text), all)
	if dryRun {
		changed = db.SQL(result+`(select spools.id from spools, `+from+where+`) changed`, string(text), all)
	}
	return ids, d.Write(ctx, changed.Into(&ids))
}

// ExportQuery are the parameters of the export of spools.
type ExportQuery struct {
	server.ExportQuery
	SpoolFilter
	Archived server.Optional[Archived] `query:"archived" rule:"default=any"`
}

func (h handlers) export(
	ctx context.Context, r *server.Request[ExportQuery], w io.Writer, format server.ExportFormat,
) error {
	filter := r.In.SpoolFilter
	filter.Archived = r.In.Archived
	return Export(ctx, h.db, w, format, filter)
}

var exportDoc = &server.Doc{
	ID: "exportSpools", Tag: tag, Summary: "Export spools",
	Description: transfer.ExportDescription + "spool, oldest first, which `POST /api/v1/spools/import` can read. " +
		"Without `archived`, it has archived spools too.",
}
