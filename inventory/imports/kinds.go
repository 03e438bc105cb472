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
	"spoolwright/inventory/sheets"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
	"spoolwright/value/language"
)

// maxKinds is the maximum number of rows of vendors or filaments in an import through the API. It is low because
// each row can change spools.
const maxKinds = 1_000

// vendorRow and filamentRow are rows of files, with the columns of an export.
type vendorRow struct{ inventory.Vendor }

type filamentRow struct {
	inventory.Filament
	VendorName value.Optional[string] `json:"vendor_name"`
}

const importKinds = "With the `mode` `create`, each row is a new %[1]s; `id` and `number` are ignored. With " +
	"`update`, a row changes the %[1]s that its %[2]s names: only the columns of the file change, and an empty cell " +
	"is null. A row that names no %[1]s is skipped. With `upsert`, such a row is a new %[1]s, and so is a row that " +
	"names an unknown %[1]s. A row with the current values of its %[1]s changes nothing.\n\n"

var importVendorsDoc = &server.Doc{
	ID: "importVendors", Tag: vendorsTag, Summary: "Import vendors from CSV",
	Description: "Creates or changes all vendors of a CSV file, or none. The columns are those of `exportVendors`, of " +
		"which `name` is required.\n\n" +
		fmt.Sprintf(importKinds, "vendor", "`id`, `number` or else `name`") +
		"With `upsert`, an unknown name creates a vendor. A new name changes filaments and spools, as `updateVendor` " +
		"does.\n\n" + importedExtra + spoolmanDescription + transfer.ImportRules(maxKinds),
}

var importFilamentsDoc = &server.Doc{
	ID: "importFilaments", Tag: filamentsTag, Summary: "Import filaments from CSV",
	Description: "Creates or changes all filaments of a CSV file, or none. The columns are those of " +
		"`exportFilaments`; `material_type`, `color` and `diameter_mm` are required. `vendor_id` or `vendor_name` " +
		"names the vendor; an unknown name creates a vendor. With `create`, `vendor_name` is used and not " +
		"`vendor_id`, so that the export of a tenant can be imported into another.\n\n" +
		fmt.Sprintf(importKinds, "filament", "`id` or `number`") +
		"Spools change with their filaments, as with `updateFilament`: at most 10,000, and 2,000 in stock, for all " +
		"rows together.\n\n" + importedExtra + spoolmanDescription + transfer.ImportRules(maxKinds),
}

const (
	importVendorsExample   = "name,empty_spool_weight_grams,notes\nPolymaker,140,Cardboard spools\nPrusament,193,\n"
	importFilamentsExample = "vendor_name,name,material_type,color,diameter_mm,net_weight_grams,price\n" +
		"Polymaker,PolyLite PLA Black,PLA,Black,1.75,1000,24.99\n"
)

// kind describes a resource for imports: vendors, filaments or spools.
type kind[T any] struct {
	table, one string
	keys       []string
	most       int      // the maximum number of rows of a request
	example    string   // of a file, for the API
	help       string   // a text of the command's help
	columns    []string // that an import writes
	described  string   // columns that same and differs read
	same       func(*T, transfer.Stored) bool
	differs    func(*T, transfer.Stored) string
	sheets     *sheets.Reader
	// reserve reserves the numbers of new rows before the transaction. It may be nil.
	reserve func(ctx context.Context, d *db.DB, count int) (first int, err error)
	values  func(in *T, isNew bool) map[string]any // the columns of a row, without those that relate adds
	extra   func(*T) value.Optional[value.Extra]
	relate  func(context.Context, *db.DB, *kindFile[T], bool, transfer.RowProblems) (relation, error)
	spreads []string // columns that are copied to other tables
	spread  func(context.Context, *db.DB, []string) error
	error   func(error) error
}

// relation has the effects of other resources on the rows of a file, which are counted from 0. Each function may be
// nil.
type relation struct {
	names  []string                                           // the compared forms of the names that name resources, or nil
	fields func(row int) []string                             // further columns that the row changes
	set    func(row int, values map[string]any)               // sets columns of the row
	check  func(row int, s transfer.Stored, changed []string) // adds problems; s is nil for a new resource
}

type kindFile[T any] struct {
	kind[T]
	mode   transfer.Mode
	fields []string // the columns that are imported
	rows   []transfer.Record[T]
	number int           // the number of the first new row, if numbers are reserved
	whole  *spoolmanFile // a file of Spoolman, which has no rows; or nil
	// The ids of the vendors that relate has created for the rows.
	vendors []string
	undo    []*Change // what an import that is undone changed in the rows; nil for an import
}

var (
	vendorKind = kind[vendorRow]{table: "vendors", one: "vendor", keys: []string{"id", "number", "name"}, most: maxKinds,
		example: importVendorsExample, help: "The name is required.", columns: server.SchemaOf[inventory.Vendor]().Writable(),
		described: "name", same: func(in *vendorRow, s transfer.Stored) bool { return transfer.EqualText(in.Name, s, "name") },
		differs: func(*vendorRow, transfer.Stored) string { return "" }, sheets: vendorSheets,
		values: func(in *vendorRow, _ bool) map[string]any { return server.Row(&in.Vendor) },
		extra:  func(in *vendorRow) value.Optional[value.Extra] { return in.Extra },
		relate: relateVendors, spreads: []string{"name"}, spread: inventory.SpreadVendors, error: kindError}
	filamentKind = kind[filamentRow]{table: "filaments", one: "filament", keys: []string{"id", "number"}, most: maxKinds,
		example:   importFilamentsExample,
		help:      "material_type, color and\ndiameter_mm are required; vendor_name names the vendor.",
		columns:   append(server.SchemaOf[inventory.Filament]().Writable(), "vendor_name"),
		described: "material_type, color, name, vendor_name", same: func(in *filamentRow, s transfer.Stored) bool {
			return transfer.EqualText(in.MaterialType, s, "material_type") && transfer.EqualText(in.Color, s, "color") &&
				transfer.EqualText(in.Name, s, "name") && transfer.EqualText(in.VendorName, s, "vendor_name")
		}, differs: func(in *filamentRow, s transfer.Stored) string { return otherFilament(in.MaterialType, in.Color, s) },
		sheets: filamentSheets, values: func(in *filamentRow, _ bool) map[string]any {
			values := server.Row(&in.Filament)
			values["color_hexes"] = []string(in.ColorHexes.Or(value.Colors{}))
			return values
		}, extra: func(in *filamentRow) value.Optional[value.Extra] { return in.Extra }, relate: relateFilaments,
		spreads: append(strings.Split(inventory.Followed, ", "), "vendor_name"), spread: inventory.SpreadFilaments,
		error: kindError}
	spoolKind = kind[inventory.Spool]{table: "spools", one: "spool", keys: []string{"id", "number"}, most: maxRows,
		example: importExample,
		help:    "material_type, color,\ndiameter_mm and net_weight_grams are required. The rules for a row are those of the API.",
		columns: server.SchemaOf[inventory.Spool]().Writable(), described: "material_type, color, brand, net_weight_grams",
		same: func(in *inventory.Spool, s transfer.Stored) bool {
			return transfer.EqualText(in.MaterialType, s, "material_type") && transfer.EqualText(in.Color, s, "color") &&
				transfer.EqualText(in.Brand, s, "brand") &&
				(!in.NetWeight.Set || transfer.ValueText(in.NetWeight.Arg()) == s.Text("net_weight_grams"))
		}, differs: func(in *inventory.Spool, s transfer.Stored) string {
			return otherFilament(in.MaterialType, in.Color, s)
		},
		sheets: SpoolSheets, reserve: reserveNumbers, values: func(in *inventory.Spool, isNew bool) map[string]any {
			if isNew {
				return in.NewRow()
			}
			return server.Row(in)
		}, extra: func(in *inventory.Spool) value.Optional[value.Extra] { return in.Extra }, relate: relateSpools,
		error: inventory.CostError}
)

// otherFilament returns the material and the color of a stored row if those of the file both differ, or "".
func otherFilament(
	material value.Optional[inventory.MaterialType], color value.Optional[string], s transfer.Stored,
) string {
	if transfer.EqualText(material, s, "material_type") || transfer.EqualText(color, s, "color") {
		return ""
	}
	return s.Text("material_type") + " " + s.Text("color")
}

// read decodes and validates up to most rows of a CSV file. The error is a 422.
func (k kind[T]) read(file *transfer.Table, how transfer.Reading, most int) (f kindFile[T], err error) {
	f.kind, f.mode = k, how.Mode
	f.rows, f.fields, err = transfer.ReadRows[T](file, how, most, k.checkKeys, k.keys...)
	return f, err
}

// checkKeys normalizes the id and the number, and returns the problems with them.
func (k kind[T]) checkKeys(keys []string) (problems []server.FieldError) {
	if keys[0] != "" {
		id, ok := value.ParseID(keys[0])
		if !ok {
			problems = append(problems, server.FieldError{Field: "id", Message: language.Sprintf("must be a UUID")})
		}
		keys[0] = id
	}
	if keys[1] != "" {
		number, err := strconv.ParseInt(keys[1], 10, 32)
		if err != nil || number < 1 {
			problems = append(problems, server.FieldError{Field: "number", Message: language.Sprintf(
				"must be the number of a %s", k.one)})
		}
		keys[1] = strconv.FormatInt(number, 10)
	}
	return problems
}

// imports returns the import as package transfer runs it.
func (k kind[T]) imports() transfer.Import[kindFile[T], Imported] {
	return transfer.Import[kindFile[T], Imported]{
		Resources: k.table, Most: k.most, Example: k.example, Read: k.read, Error: k.error,
		Convert: k.sheets.Convert, Good: k.sheets.Good,
		Whole: func(file []byte, how transfer.Reading, most int) (f kindFile[T], program string, err error) {
			f.kind = k
			if f.whole, err = readSpoolmanFile(file, how, most); f.whole != nil {
				program = "Spoolman"
			}
			return f, program, err
		},
		Prepare: func(ctx context.Context, d *db.DB, f *kindFile[T], dryRun bool) error {
			return f.prepare(ctx, d, dryRun)
		},
		Write: func(ctx context.Context, d *db.DB, f *kindFile[T], dryRun bool) (Imported, error) {
			return f.write(ctx, d, dryRun)
		},
		Help: "create or change " + k.table + " from a CSV file: all rows, or none\n\n" +
			"The first line names the columns, which are those of `export " + k.table + "`, or of your own list in ten\n" +
			"languages; --map sets the field of a column that is not recognized, and --default a missing value. " + k.help + "\n" +
			"Columns may be separated by commas, semicolons, tabs or |. The whole file shows whether its numbers have a\n" +
			"decimal comma, and the order of its dates; --decimal and --date-order do where the file does not. If any row\n" +
			"is invalid, nothing is imported, except with --skip-invalid. FILE may be - for standard input.\n\n" +
			"With --mode update, each row changes the " + k.one + " that its " + strings.Join(k.keys, " or ") +
			" names: the columns of the\nfile, and no others. A row that names none is skipped. With --mode upsert, the " +
			"default, it is a new\n" + k.one + ", and so is one that names an unknown " + k.one + ". With --mode create, " +
			"all rows are new.",
	}
}

// kindError converts an error of the import's statements to an error of the import.
func kindError(err error) error {
	if db.Violates(err, "vendors_name") { // a concurrent change
		return server.Invalid("name", "of a row was given to another vendor in the meantime; try again").Because(err)
	}
	return inventory.FilamentError(err, "color")
}

// prepare determines the new rows. It reserves the numbers of new spools before the transaction, because creates wait
// for a transaction that reserves numbers. If the response is repeated for an Idempotency-Key, the reserved numbers
// remain unused.
func (f *kindFile[T]) prepare(ctx context.Context, d *db.DB, dryRun bool) error {
	if f.whole != nil {
		return f.whole.prepare(ctx, d, dryRun)
	}
	if f.mode == transfer.Upsert {
		known, err := knownRows(ctx, d, f.table, f.described, f.rows)
		if err == nil {
			err = transfer.Resolve(f.rows, known, f.same, f.differs)
		}
		if err != nil {
			return err
		}
	}
	creates := 0
	for _, row := range f.rows {
		if f.mode != transfer.Update && row.Keys == nil {
			creates++
		}
	}
	if creates == 0 || dryRun || f.reserve == nil {
		return nil
	}
	var err error
	f.number, err = f.reserve(ctx, d, creates)
	return err
}

// reserveNumbers takes consecutive numbers of spools and returns the first number. It is a transaction of its own, so
// that other transactions do not wait for the import. It tries again after a broken connection. If the first attempt
// was committed, its numbers remain unused, and so do the numbers of an import that fails.
func reserveNumbers(ctx context.Context, d *db.DB, count int) (number int, err error) {
	err = d.TxRepeatable(ctx, func(ctx context.Context) error {
		return d.Write(ctx, db.SQL(`select next_number('spools', $1)`, count).Into(&number))
	})
	return number, err
}

// write creates and changes the resources of a file in the transaction of ctx. It locks the resources to change in the
// order of their ids.
func (f kindFile[T]) write(ctx context.Context, d *db.DB, dryRun bool) (result Imported, err error) {
	if f.whole != nil {
		return f.whole.write(ctx)
	}
	result.DryRun, result.Rows, result.CustomFields = dryRun, make([]ImportedRow, len(f.rows)), []ImportedField{}
	if len(f.rows) == 0 {
		return result, d.CheckActor(ctx)
	}
	f.rows = slices.Clone(f.rows) // a retry must begin with the unchanged rows
	invalid := transfer.RowProblems{}
	extras := extrasOf(f.mode, f.rows, func(in *T) value.Extra { return f.extra(in).Or(nil) })
	result.CustomFields, err = checkExtras(ctx, d, f.one, extras, f.undo == nil, dryRun,
		func(i int, field, message string) { invalid.Add(f.rows[i].Line, field, "%s", message) })
	if err != nil {
		return result, err
	}
	// Resources that the rows refer to are locked before the rows, in the same order as when these resources change.
	related, err := f.relate(ctx, d, &f, dryRun, invalid)
	if err == nil {
		err = invalid.Err()
	}
	if err != nil {
		return result, err
	}
	rows, err := f.lock(ctx, d, dryRun, related.names, invalid, result.Rows)
	if err != nil {
		return result, err
	}
	history := History{}
	changes := kindChanges{table: f.table, columns: f.columns, spreads: f.spreads}
	if f.number > 0 {
		changes.columns = append(slices.Clip(changes.columns), "number")
	}
	for i := range f.rows {
		row, report, s := &f.rows[i], &result.Rows[i], rows[i]
		if s == nil && f.mode == transfer.Update {
			report.Action = "skipped"
			continue
		}
		values, changed := f.values(&row.In, s == nil), []string(nil)
		values["extra"] = json.RawMessage(f.extra(&row.In).Or(nil).Values())
		if related.set != nil {
			related.set(i, values)
		}
		if s != nil {
			fields := f.fields
			if f.undo != nil {
				fields = f.undo[i].Unchanged(s)
			}
			if related.fields != nil && (f.undo == nil || slices.Contains(fields, "filament_id")) {
				fields = append(slices.Clip(fields), related.fields(i)...)
			}
			changed = compare(values, f.columns, fields, s)
			values["number"] = s["number"] // the columns have it if the import also creates spools
			if len(changed) > 0 {
				history.Change(f.table, s, values, changed...)
			}
		} else if f.number > 0 {
			values["number"] = f.number + len(changes.created)
		}
		if related.check != nil {
			related.check(i, s, changed)
		}
		changes.add(values, s, changed, report)
	}
	if err := invalid.Err(); err != nil {
		return result, err
	}
	for i, row := range f.rows {
		if result.Rows[i].Action == "created" {
			history.CreateRow(f.table, string(*result.Rows[i].ID), row.Line, row.Hash)
		}
	}
	history.Create("vendors", f.vendors...)
	if err := history.FindRepeated(ctx, d, f.table, &result.ImportCounts); err != nil {
		return result, err
	}
	if err := changes.write(ctx, d, &result, f.spread); err != nil || dryRun || f.undo != nil {
		return result, err
	}
	result.ImportID, err = history.Save(ctx, d, f.table, result.Created, result.Updated)
	return result, err
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

// lock locks the resources that the rows name, and sets the ids and numbers of the report. It returns the resources
// in the order of the rows, with nil for a row that is new or skipped. names are the rows' values of the column
// name_key, if the resource has this column.
func (f *kindFile[T]) lock(
	ctx context.Context, d *db.DB, dryRun bool, names []string, invalid transfer.RowProblems, report []ImportedRow,
) ([]transfer.Stored, error) {
	var ids, numbers, wanted []string
	for i, row := range f.rows {
		switch {
		case row.Keys == nil:
		case row.Keys[0] != "":
			ids = append(ids, row.Keys[0])
		case row.Keys[1] != "":
			numbers = append(numbers, row.Keys[1])
		}
		if names != nil {
			wanted = append(wanted, names[i])
		}
	}
	rows := make([]transfer.Stored, len(f.rows))
	if len(ids)+len(numbers)+len(wanted) == 0 {
		for i, row := range f.rows {
			report[i].Row = int64(row.Line)
		}
		if dryRun || f.mode == transfer.Update { // nothing is written
			return rows, d.CheckActor(ctx)
		}
		return rows, nil
	}
	query, args := `
		select unnest($1::uuid[]) as id union all
		select k.id from unnest($2::int[]) n (number) cross join lateral (
			select id from `+f.table+` where number = n.number
		) k`, []any{ids, numbers}
	if wanted != nil {
		query, args = query+` union all
		select k.id from unnest($3::text[]) n (key) cross join lateral (
			select id from `+f.table+` where name_key = n.key and hidden_at is null
		) k`, append(args, wanted)
	}
	columns := storedColumns(f.columns)
	if names != nil {
		columns += ", name_key"
	}
	locked := server.LockRows(f.table, "id, number, "+columns, query, "hidden_at is null", args...)
	if err := d.Write(ctx, locked); err != nil {
		return nil, err
	}
	all, err := transfer.StoredRows(locked)
	if err != nil {
		return nil, err
	}
	known := map[string]transfer.Stored{} // by id, number and name
	for _, s := range all {
		known[s.Text("id")], known[s.Text("number")], known["name "+s.Text("name_key")] = s, s, s
	}
	first := map[string]int{} // the first line that names a resource
	for i, row := range f.rows {
		report[i].Row = int64(row.Line)
		var s transfer.Stored
		problem := func(field string, message language.Text, args ...any) {
			invalid.Add(row.Line, field, message,
				args...)
		}
		switch keys := row.Keys; {
		case keys == nil:
		case keys[0] != "":
			if s = known[keys[0]]; s == nil {
				problem("id", "is not the id of a %s", f.one)
			} else if keys[1] != "" && s.Text("number") != keys[1] {
				problem("number", "is not the number of this %s", f.one)
			}
		case keys[1] != "":
			if s = known[keys[1]]; s == nil {
				problem("number", "is not the number of a %s", f.one)
			}
		default:
			if s = known["name "+names[i]]; s == nil && f.mode == transfer.Update {
				problem("name", "is not the name of a %s", f.one)
			}
		}
		if s == nil {
			continue
		}
		if line := first[s.Text("id")]; line > 0 {
			problem("row", "names the %s of line %d", f.one, line)
		}
		id := value.UUID(s.Text("id"))
		number, err := s["number"].(json.Number).Int64()
		if err != nil {
			return nil, err
		}
		rows[i], report[i].ID, report[i].Number, first[string(id)] = s, &id, &number, row.Line
	}
	return rows, nil
}

// storedColumns returns a list of columns to select, for StoredRows.
func storedColumns(columns []string) string {
	return strings.Replace(strings.Join(columns, ", "), "color_hexes", "array_to_json(color_hexes) as color_hexes", 1)
}

// compare returns the columns that the row changes. It sets the other columns of values to their stored values.
func compare(values map[string]any, columns, fields []string, s transfer.Stored) (changed []string) {
	for _, column := range columns {
		if !slices.Contains(fields, column) || transfer.ValueText(values[column]) == s.Text(column) {
			values[column] = s[column]
		} else {
			changed = append(changed, column)
		}
	}
	return changed
}

// kindChanges are the changes that the rows of a file make to a table.
type kindChanges struct {
	table            string
	columns          []string
	created, updated []map[string]any
	spread           []string // ids of rows whose changed columns are copied to other tables
	spreads          []string // the columns that are copied
	counted          int      // the change of the total of spools
}

// add adds the values of a row to the changes, and sets the action of the row in the report. s is the stored row, or
// nil if the row is new.
func (c *kindChanges) add(values map[string]any, s transfer.Stored, changed []string, report *ImportedRow) {
	switch {
	case s == nil:
		id := value.UUID(value.NewID())
		values["id"], report.ID, report.Action = string(id), &id, "created"
		c.created = append(c.created, values)
		c.count(values, 1)
	case len(changed) == 0:
		report.Action = "unchanged"
	default:
		values["id"], report.Action = s.Text("id"), "updated"
		c.updated = append(c.updated, values)
		if slices.ContainsFunc(changed, func(name string) bool { return slices.Contains(c.spreads, name) }) {
			c.spread = append(c.spread, s.Text("id"))
		}
		if slices.Contains(changed, "archived") {
			c.count(s, -1)
			c.count(values, 1)
		}
	}
}

// count adds n to the total, unless the row is an archived spool.
func (c *kindChanges) count(row transfer.Stored, n int) {
	if row.Text("archived") != "true" {
		c.counted += n
	}
}

// write makes the changes, unless it is a dry run. It calls spread with the ids of the rows whose changes are copied
// to other tables. It completes the report.
func (c *kindChanges) write(
	ctx context.Context, d *db.DB, r *Imported, spread func(context.Context, *db.DB, []string) error,
) error {
	if !r.DryRun {
		if err := updateRows(ctx, d, c.table, c.columns, c.updated); err != nil {
			return err
		}
		if spread != nil {
			if err := spread(ctx, d, c.spread); err != nil {
				return err
			}
		}
		if err := insertRows(ctx, d, c.table, c.columns, c.created); err != nil {
			return err
		}
		if c.table == "spools" { // insertRows has counted the others
			r.Last = db.SQL(`select count_rows('spools', $1)`, c.counted)
		}
	}
	created := c.created
	for i := range r.Rows {
		row := &r.Rows[i]
		r.Count(row.Action)
		switch {
		case row.Action != "created":
		case r.DryRun:
			row.ID, row.Number = nil, nil
		default:
			number := int64(created[0]["number"].(int))
			row.Number, created = &number, created[1:]
		}
	}
	return nil
}

// updateRows updates rows of a table. The remaining weights of spools that change are entries of their ledgers.
func updateRows(ctx context.Context, d *db.DB, table string, columns []string, rows []map[string]any) error {
	names := strings.Join(columns, ", ")
	values := "r." + strings.Join(columns, ", r.")
	return transfer.InBatches(rows, func(list string, ids []string) error {
		if table == "spools" {
			return d.Write(ctx, inventory.EditSpools(`
				update spools set (`+names+`, updated_at, edited_at) = row(`+values+`, now(), now())
				from (
					select r.*, o.before from json_populate_recordset(null::spools, $1::json) r cross join lateral (
						select remaining_weight_grams as before from spools where id = r.id
					) o
				) r
				where spools.id = r.id and spools.id = any ($2::uuid[])
				returning spools.id, before, spools.remaining_weight_grams`, `select count(*) from spool`, list, ids))
		}
		return d.Write(ctx, db.SQL(`
			update `+table+` t set (`+names+`, updated_at) = row(`+values+`, now())
			from json_populate_recordset(null::`+table+`, $1::json) r
			where t.id = r.id and t.id = any ($2::uuid[])`, list, ids))
	})
}

// insertRows inserts rows into a table in their order; spools get the first entries of their ledgers. Unless the columns
// contain the number, insertRows sets the numbers of the rows, and counts them. Unless the rows have created_at,
// insertRows sets it, one microsecond later for each row, so that lists keep the order.
func insertRows(ctx context.Context, d *db.DB, table string, columns []string, rows []map[string]any) error {
	if len(rows) > 0 && !slices.Contains(columns, "number") {
		var first int
		taken := db.SQL(`select next_number($1, $2, $2)`, table, len(rows)).Into(&first)
		if err := d.Write(ctx, taken); err != nil {
			return err
		}
		columns = append(slices.Clip(columns), "number")
		for i, row := range rows {
			row["number"] = first + i
		}
	}
	left := len(rows)
	return transfer.InBatches(rows, func(list string, ids []string) error {
		insert := `
			insert into ` + table + ` (id, ` + strings.Join(columns, ", ") + `, created_at, updated_at)
			select r.id, r.` + strings.Join(columns, ", r.") + `, coalesce(r.created_at, t.at), now()
			from json_populate_recordset(null::` + table + `, $1::json) with ordinality r
			cross join lateral (select now() - ($2::int - ordinality) * interval '1 microsecond' as at) t
			order by ordinality`
		added := db.SQL(insert, list, left)
		if table == "spools" {
			added = inventory.InsertSpools(insert, "null", `select count(*) from spool`, list, left)
		}
		left -= len(ids)
		return d.Write(ctx, added)
	})
}

// relateVendors finds the compared forms of the names of the rows, and the vendors that have these names now.
func relateVendors(
	ctx context.Context, d *db.DB, f *kindFile[vendorRow], _ bool, invalid transfer.RowProblems,
) (r relation, err error) {
	names := make([]string, len(f.rows))
	for i, row := range f.rows {
		names[i] = row.In.Name.Or("")
	}
	if err := d.Read(ctx, db.SQL(`select array_agg(lower(name collate "und-x-icu") collate "C" order by n)
		from unnest($1::text[]) with ordinality w (name, n)`, names).Into(&r.names)); err != nil {
		return r, err
	}
	taken := db.SQL(`select v.id, v.name_key from unnest($1::text[]) n (key) cross join lateral (
			select id, name_key from vendors where name_key = n.key and hidden_at is null
		) v`, r.names)
	if err := d.Read(ctx, taken); err != nil {
		return r, err
	}
	all, err := transfer.StoredRows(taken)
	owners := map[string]string{} // the ids of the vendors that have the names now
	for _, s := range all {
		owners[s.Text("name_key")] = s.Text("id")
	}
	lines := map[string]int{} // the line of each name
	r.check = func(i int, s transfer.Stored, changed []string) {
		row, key := &f.rows[i], r.names[i]
		if s == nil && row.In.Name.IsNull() {
			invalid.Add(row.Line, "name", "is required")
		}
		if key != "" && (s == nil || slices.Contains(changed, "name")) {
			if line := lines[key]; line > 0 {
				invalid.Add(row.Line, "name", "is that of line %d", line)
			} else if owner := owners[key]; owner != "" && (s == nil || owner != s.Text("id")) {
				invalid.Add(row.Line, "name", "is that of another vendor")
			}
			lines[key] = row.Line
		}
	}
	return r, err
}

// relateFilaments locks the vendors that the rows name, and creates missing vendors unless it is a dry run.
func relateFilaments(
	ctx context.Context, d *db.DB, f *kindFile[filamentRow], dryRun bool, invalid transfer.RowProblems,
) (r relation, err error) {
	vendors, err := vendorsOf(ctx, d, f, dryRun, invalid)
	named := slices.ContainsFunc([]string{"vendor_id", "vendor_name", "vendor"},
		func(name string) bool { return slices.Contains(f.fields, name) })
	r.fields = func(int) []string {
		if named {
			return []string{"vendor_id", "vendor_name"}
		}
		return nil
	}
	r.set = func(i int, values map[string]any) {
		values["vendor_id"], values["vendor_name"] = pointed(vendors[i].ID), pointed(vendors[i].Name)
	}
	return r, err
}

// relateSpools locks the filaments that the rows name, and copies their fields to the rows.
func relateSpools(
	ctx context.Context, d *db.DB, f *kindFile[inventory.Spool], _ bool, invalid transfer.RowProblems,
) (r relation, err error) {
	var rows []*transfer.Record[inventory.Spool]
	var spools []*inventory.Spool
	for i := range f.rows {
		if row := &f.rows[i]; row.In.NamesFilament() {
			rows, spools = append(rows, row), append(spools, &row.In)
		}
	}
	problems := func(line int, e *server.Error) {
		for _, p := range e.Fields {
			invalid.Add(line, p.Field, "%s", p.Message)
		}
	}
	if spools != nil {
		errs, err := inventory.AttachAll(ctx, d, spools, func(i int) bool { return rows[i].Keys == nil })
		if err != nil {
			return r, err
		}
		for i, row := range rows {
			e, ok := errors.AsType[*server.Error](errs[i])
			switch {
			case ok && row.Foreign && e.Code == inventory.ErrUnknownFilament.Code:
				// The id is of another farm. The row itself has the values of the filament.
				row.In.FilamentID = value.Optional[value.UUID]{}
			case ok:
				problems(row.Line, e)
			}
		}
	}
	followed := strings.Split(inventory.Followed, ", ")
	r.fields = func(i int) (fields []string) {
		if slices.Contains(f.fields, "filament_id") || slices.Contains(f.fields, "filament_number") {
			fields = append(fields, "filament_id")
		}
		if !f.rows[i].In.FilamentID.IsNull() {
			fields = append(fields, followed...)
		}
		return fields
	}
	r.check = func(i int, s transfer.Stored, changed []string) {
		row := &f.rows[i]
		if s == nil || s["filament_id"] == nil || row.In.FilamentID.Set ||
			!slices.ContainsFunc(changed, func(name string) bool { return slices.Contains(followed, name) }) {
			return
		}
		var of inventory.FollowedFields
		if text, err := json.Marshal(s); err == nil && json.Unmarshal(text, &of) == nil {
			if e, ok := errors.AsType[*server.Error](row.In.CheckFollowed(&of)); ok {
				problems(row.Line, e)
			}
		}
	}
	return r, nil
}

func pointed(s *string) any {
	if s == nil {
		return nil
	}
	return *s
}

// vendorsOf locks the vendors that the rows name, and creates missing vendors unless it is a dry run. It returns the
// vendors in the order of the rows.
func vendorsOf(
	ctx context.Context, d *db.DB, f *kindFile[filamentRow], dryRun bool, invalid transfer.RowProblems,
) ([]vendorName, error) {
	rows := f.rows
	byName := f.mode == transfer.Create && slices.Contains(f.fields, "vendor_name")
	var ids, names []string
	for i := range rows {
		in := &rows[i].In
		if byName {
			in.VendorID = value.Optional[value.UUID]{}
		}
		if in.VendorName.IsNull() {
			in.VendorName = in.Vendor
		}
		if !in.VendorID.IsNull() {
			ids = append(ids, string(*in.VendorID.Value))
		}
	}
	locked := db.SQL(`
		select v.* from (select distinct unnest($1::uuid[]) as id order by id) n cross join lateral (
			select id, name, name_key from vendors where id = n.id and hidden_at is null for share
		) v`, ids)
	if err := d.Write(ctx, locked); err != nil {
		return nil, err
	}
	all, err := transfer.StoredRows(locked)
	if err != nil {
		return nil, err
	}
	known := map[string]transfer.Stored{}
	for _, s := range all {
		known[s.Text("id")] = s
	}
	vendors := make([]vendorName, len(rows))
	var of []int
	for i := range rows {
		row := &rows[i]
		in := &row.In
		switch {
		case f.mode == transfer.Update && row.Keys == nil:
		case !in.VendorID.IsNull():
			id := string(*in.VendorID.Value)
			s := known[id]
			if s == nil && row.Foreign && !in.VendorName.IsNull() {
				names, of = append(names, *in.VendorName.Value), append(of, i)
				continue
			}
			if s == nil {
				invalid.Add(row.Line, "vendor_id", "is not the id of a vendor")
				continue
			}
			name := s.Text("name")
			if !in.VendorName.IsNull() && !strings.EqualFold(*in.VendorName.Value, name) {
				invalid.Add(row.Line, "vendor_name",
					"is not the name of the vendor with the vendor_id; empty one of them")
			}
			vendors[i] = vendorName{&id, &name}
		case strings.TrimSpace(in.VendorName.Or("")) != "":
			names, of = append(names, *in.VendorName.Value), append(of, i)
		}
	}
	if err := invalid.Err(); err != nil {
		return nil, err
	}
	named, created, err := nameVendors(ctx, d, names, dryRun)
	f.vendors = created
	for n, i := range of {
		if err == nil {
			vendors[i] = named[n]
		}
	}
	return vendors, err
}
