package imports

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
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
	"is null. A row that names none is skipped. With `upsert`, such a row is a new %[1]s, and so is one that names an " +
	"unknown one. A row that already has " +
	"the values of its %[1]s changes nothing.\n\n"

var importVendorsDoc = &server.Doc{
	ID: "importVendors", Tag: vendorsTag, Summary: "Import vendors from CSV",
	Description: "Creates or changes all vendors of a CSV file, or none. The columns are those of `exportVendors`, of " +
		"which `name` is required.\n\n" +
		fmt.Sprintf(importKinds, "vendor", "`id`, `number` or else `name`") +
		"A name that no vendor has is a new one with `upsert`. A new name changes filaments and spools, as " +
		"`updateVendor` does.\n\n" + importedExtra + transfer.ImportRules(maxKinds),
}

var importFilamentsDoc = &server.Doc{
	ID: "importFilaments", Tag: filamentsTag, Summary: "Import filaments from CSV",
	Description: "Creates or changes all filaments of a CSV file, or none. The columns are those of " +
		"`exportFilaments`; `material_type`, `color` and `diameter_mm` are required. `vendor_id` or `vendor_name` " +
		"names the vendor; a name that no vendor has creates it. With `create`, `vendor_name` counts and not " +
		"`vendor_id`, so that the export of one tenant is the import of another.\n\n" +
		fmt.Sprintf(importKinds, "filament", "`id` or `number`") +
		"Spools change with their filaments, as with `updateFilament`: at most 10,000, and 2,000 in stock, for all " +
		"rows together.\n\n" + importedExtra + transfer.ImportRules(maxKinds),
}

const (
	importVendorsExample   = "name,empty_spool_weight_grams,notes\nPolymaker,140,Cardboard spools\nPrusament,193,\n"
	importFilamentsExample = "vendor_name,name,material_type,color,diameter_mm,net_weight_grams,price\n" +
		"Polymaker,PolyLite PLA Black,PLA,Black,1.75,1000,24.99\n"
)

// kindFile is a decoded file of vendors or filaments.
type kindFile[T any] struct {
	kind[T]
	mode   transfer.Mode
	fields []string // the columns that are imported
	rows   []transfer.Record[T]
}

// kind describes a resource for imports: vendors or filaments.
type kind[T any] struct {
	table, one       string
	keys             []string
	example, columns string // texts of the command's help
	write            func(context.Context, *db.DB, *kindFile[T], bool) (Imported, error)
	described        string // columns that same and differs read
	same             func(*T, transfer.Stored) bool
	differs          func(*T, transfer.Stored) string
	sheets           *Sheets
}

var (
	vendorKind = kind[vendorRow]{"vendors", "vendor", []string{"id", "number", "name"}, importVendorsExample,
		"The name is required.", writeVendors, "name", func(in *vendorRow, s transfer.Stored) bool {
			return transfer.EqualText(in.Name, s, "name")
		}, func(*vendorRow, transfer.Stored) string { return "" }, vendorSheets}
	filamentKind = kind[filamentRow]{"filaments", "filament", []string{"id", "number"}, importFilamentsExample,
		"material_type, color and\ndiameter_mm are required; vendor_name names the vendor.", writeFilaments,
		"material_type, color, name, vendor_name", func(in *filamentRow, s transfer.Stored) bool {
			return transfer.EqualText(in.MaterialType, s, "material_type") && transfer.EqualText(in.Color, s, "color") &&
				transfer.EqualText(in.Name, s, "name") && transfer.EqualText(in.VendorName, s, "vendor_name")
		}, func(in *filamentRow, s transfer.Stored) string {
			if transfer.EqualText(in.MaterialType, s, "material_type") || transfer.EqualText(in.Color, s, "color") {
				return ""
			}
			return s.Text("material_type") + " " + s.Text("color")
		}, filamentSheets}
)

// read decodes and validates up to most rows of a CSV file. The error is a 422.
func (k kind[T]) read(file transfer.File, how transfer.Reading, most int) (f kindFile[T], err error) {
	f.kind, f.mode = k, how.Mode
	f.rows, f.fields, err = transfer.ReadRows[T](file, how, most, checkKeys, k.keys...)
	return f, err
}

// imports returns the import as package transfer runs it.
func (k kind[T]) imports() transfer.Import[kindFile[T], Imported] {
	return transfer.Import[kindFile[T], Imported]{
		Resources: k.table, Most: maxKinds, Example: k.example, Read: k.read, Write: k.write, Error: kindError,
		Convert: k.sheets.Convert, Good: k.sheets.Good,
		Prepare: func(ctx context.Context, d *db.DB, f *kindFile[T], _ bool) error {
			if f.mode != transfer.Upsert {
				return nil
			}
			known, err := knownRows(ctx, d, f.table, f.described, f.rows)
			if err != nil {
				return err
			}
			return transfer.Resolve(f.rows, known, f.same, f.differs)
		},
		Help: "create or change " + k.table + " from a CSV file: all rows, or none\n\n" +
			"The first line names the columns, which are those of `export " + k.table + "`. " + k.columns + "\n" +
			"If any row is invalid, nothing is imported. FILE may be - for standard input.\n\n" +
			"With --mode update, each row changes the " + k.one + " that its " + strings.Join(k.keys, " or ") +
			" names: the columns of the\nfile, and no others. A row that names none is skipped. With --mode upsert, the " +
			"default, it is a new\n" + k.one + ", and so is one that names an unknown " + k.one + ". With --mode create, " +
			"all rows are new.",
	}
}

// kindError converts an error of the import's statements to an error of the import.
func kindError(err error) error {
	if db.Violates(err, "vendors_name") { // a concurrent change
		return server.Invalid("name", "of a row was given to another vendor meanwhile; try again").Because(err)
	}
	return err
}

// lock locks the resources that the rows name, and sets the ids and numbers of the report. It returns the resources
// in the order of the rows, with nil for a row that is new or skipped. names are the rows' values of the column
// name_key, if the resource has this column.
func (f *kindFile[T]) lock(
	ctx context.Context, d *db.DB, columns string, names []string, invalid transfer.RowProblems, report []ImportedRow,
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
	rows := make([]transfer.Stored, len(f.rows))
	first := map[string]int{} // the first line that names a resource
	for i, row := range f.rows {
		report[i].Row = int64(row.Line)
		var s transfer.Stored
		problem := func(field, message string, args ...any) { invalid.Add(row.Line, field, message, args...) }
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
	spreads          func(column string) bool
}

// add adds the values of a row to the changes, and sets the action of the row in the report. s is the stored row, or
// nil if the row is new.
func (c *kindChanges) add(values map[string]any, s transfer.Stored, changed []string, report *ImportedRow) {
	switch {
	case s == nil:
		id := value.UUID(value.NewID())
		values["id"], report.ID, report.Action = string(id), &id, "created"
		c.created = append(c.created, values)
	case len(changed) == 0:
		report.Action = "unchanged"
	default:
		values["id"], report.Action = s.Text("id"), "updated"
		c.updated = append(c.updated, values)
		if slices.ContainsFunc(changed, c.spreads) {
			c.spread = append(c.spread, s.Text("id"))
		}
	}
}

// write makes the changes, unless it is a dry run. It calls spread with the ids of the rows whose changes are copied
// to other tables. It completes the report.
func (c *kindChanges) write(
	ctx context.Context, d *db.DB, r *Imported, spread func(context.Context, *db.DB, []string) error,
) error {
	numbers := map[string]int64{}
	if !r.DryRun {
		if err := updateRows(ctx, d, c.table, c.columns, c.updated); err != nil {
			return err
		}
		if err := spread(ctx, d, c.spread); err != nil {
			return err
		}
		var err error
		if numbers, err = insertRows(ctx, d, c.table, c.columns, c.created); err != nil {
			return err
		}
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		r.Count(row.Action)
		switch {
		case row.Action != "created":
		case r.DryRun:
			row.ID, row.Number = nil, nil
		default:
			number := numbers[string(*row.ID)]
			row.Number = &number
		}
	}
	return nil
}

// updateRows updates rows of a table.
func updateRows(ctx context.Context, d *db.DB, table string, columns []string, rows []map[string]any) error {
	return transfer.InBatches(rows, func(list string, ids []string) error {
		return d.Write(ctx, db.SQL(`
			update `+table+` t set (`+strings.Join(columns, ", ")+`, updated_at) =
				row(r.`+strings.Join(columns, ", r.")+`, now())
			from json_populate_recordset(null::`+table+`, $1::json) r
			where t.id = r.id and t.id = any ($2::uuid[])`, list, ids))
	})
}

// insertRows inserts rows into a table in their order, and returns their numbers by their ids. A row without a
// number gets the next number. Unless the rows have created_at, insertRows sets it, one microsecond later for each
// row, so that lists keep the order.
func insertRows(
	ctx context.Context, d *db.DB, table string, columns []string, rows []map[string]any,
) (map[string]int64, error) {
	numbers := map[string]int64{}
	names := strings.Join(columns, ", ")
	done := 0
	err := transfer.InBatches(rows, func(list string, ids []string) error {
		added := db.SQL(`
			insert into `+table+` (id, `+names+`, created_at, updated_at)
			select r.id, r.`+strings.Join(columns, ", r.")+`, coalesce(r.created_at, t.at), t.at
			from json_array_elements($1::json) with ordinality e (row, n)
			cross join lateral json_populate_record(null::`+table+`, e.row) r
			cross join lateral (select now() - ($2::int - n) * interval '1 microsecond' as at) t
			order by n
			returning id, number`, list, len(rows)-done)
		done += len(ids)
		if err := d.Write(ctx, added); err != nil {
			return err
		}
		var created []struct {
			ID     string
			Number int64
		}
		err := json.Unmarshal(added.Array(), &created)
		for _, row := range created {
			numbers[row.ID] = row.Number
		}
		return err
	})
	return numbers, err
}

// vendorInputs are the columns that requests set.
var vendorInputs = server.SchemaOf[inventory.Vendor]().Writable()

// writeVendors creates and changes the vendors of a file in the transaction of ctx.
func writeVendors(ctx context.Context, d *db.DB, f *kindFile[vendorRow], dryRun bool) (result Imported, err error) {
	result.DryRun, result.Rows, result.CustomFields = dryRun, make([]ImportedRow, len(f.rows)), []ImportedField{}
	if len(f.rows) == 0 {
		return result, d.CheckActor(ctx)
	}
	names := make([]string, len(f.rows))
	for i, row := range f.rows {
		names[i] = row.In.Name.Or("")
	}
	var keys []string
	if err := d.Read(ctx, db.SQL(`select array_agg(lower(name collate "und-x-icu") collate "C" order by n)
		from unnest($1::text[]) with ordinality w (name, n)`, names).Into(&keys)); err != nil {
		return result, err
	}
	invalid := transfer.RowProblems{}
	extras := extrasOf(f.mode, f.rows, func(in *vendorRow) value.Extra { return in.Extra.Or(nil) })
	result.CustomFields, err = checkExtras(ctx, d, "vendor", extras, dryRun,
		func(i int, field, message string) { invalid.Add(f.rows[i].Line, field, "%s", message) })
	if err != nil {
		return result, err
	}
	rows, err := f.lock(ctx, d, "name_key, "+strings.Join(vendorInputs, ", "), keys, invalid, result.Rows)
	if err != nil {
		return result, err
	}
	owners := map[string]string{} // the ids of the vendors that have the names now
	taken := db.SQL(`select v.id, v.name_key from unnest($1::text[]) n (key) cross join lateral (
			select id, name_key from vendors where name_key = n.key and hidden_at is null
		) v`, keys)
	if err := d.Read(ctx, taken); err != nil {
		return result, err
	}
	all, err := transfer.StoredRows(taken)
	if err != nil {
		return result, err
	}
	for _, s := range all {
		owners[s.Text("name_key")] = s.Text("id")
	}
	changes := kindChanges{table: "vendors", columns: vendorInputs,
		spreads: func(column string) bool { return column == "name" }}
	lines := map[string]int{} // the line of each name
	for i := range f.rows {
		row, report, s := &f.rows[i], &result.Rows[i], rows[i]
		if s == nil && f.mode == transfer.Update {
			report.Action = "skipped"
			continue
		}
		values := server.Row(&row.In.Vendor)
		values["extra"] = extraJSON(row.In.Extra)
		changed := []string{}
		if s != nil {
			changed = compare(values, vendorInputs, f.fields, s)
		} else if row.In.Name.IsNull() {
			invalid.Add(row.Line, "name", "is required")
		}
		if key := keys[i]; key != "" && (s == nil || slices.Contains(changed, "name")) {
			if line := lines[key]; line > 0 {
				invalid.Add(row.Line, "name", "is that of line %d", line)
			} else if owner := owners[key]; owner != "" && (s == nil || owner != s.Text("id")) {
				invalid.Add(row.Line, "name", "is that of another vendor")
			}
			lines[key] = row.Line
		}
		changes.add(values, s, changed, report)
	}
	if err := invalid.Err(); err != nil {
		return result, err
	}
	return result, changes.write(ctx, d, &result, inventory.SpreadVendors)
}

// filamentValues are the columns that the import sets on new filaments.
var filamentValues = append(server.SchemaOf[inventory.Filament]().Writable(), "vendor_name")

// writeFilaments creates and changes the filaments of a file in the transaction of ctx.
func writeFilaments(
	ctx context.Context, d *db.DB, f *kindFile[filamentRow], dryRun bool,
) (result Imported, err error) {
	result.DryRun, result.Rows, result.CustomFields = dryRun, make([]ImportedRow, len(f.rows)), []ImportedField{}
	if len(f.rows) == 0 {
		return result, d.CheckActor(ctx)
	}
	invalid := transfer.RowProblems{}
	extras := extrasOf(f.mode, f.rows, func(in *filamentRow) value.Extra { return in.Extra.Or(nil) })
	result.CustomFields, err = checkExtras(ctx, d, "filament", extras, dryRun,
		func(i int, field, message string) { invalid.Add(f.rows[i].Line, field, "%s", message) })
	if err != nil {
		return result, err
	}
	// Vendors must be locked before filaments, as a change of a vendor locks them.
	vendors, err := vendorsOf(ctx, d, f, dryRun, invalid)
	if err != nil {
		return result, err
	}
	columns := filamentValues
	rows, err := f.lock(ctx, d, strings.Replace(strings.Join(columns, ", "), "color_hexes",
		"array_to_json(color_hexes) as color_hexes", 1), nil, invalid, result.Rows)
	if err != nil {
		return result, err
	}
	fields := slices.Clone(f.fields)
	if slices.ContainsFunc([]string{"vendor_id", "vendor_name", "vendor"},
		func(name string) bool { return slices.Contains(fields, name) }) {
		fields = append(fields, "vendor_id", "vendor_name")
	}
	changes := kindChanges{table: "filaments", columns: columns,
		spreads: func(column string) bool {
			return column == "vendor_name" || strings.Contains(inventory.Followed, column)
		}}
	for i := range f.rows {
		row, report, s := &f.rows[i], &result.Rows[i], rows[i]
		if s == nil && f.mode == transfer.Update {
			report.Action = "skipped"
			continue
		}
		values := server.Row(&row.In.Filament)
		values["extra"] = extraJSON(row.In.Extra)
		values["color_hexes"] = []string(row.In.ColorHexes.Or(value.Colors{}))
		values["vendor_id"], values["vendor_name"] = pointed(vendors[i].ID), pointed(vendors[i].Name)
		var changed []string
		if s != nil {
			changed = compare(values, columns, fields, s)
		}
		changes.add(values, s, changed, report)
	}
	if err := invalid.Err(); err != nil {
		return result, err
	}
	return result, changes.write(ctx, d, &result, inventory.SpreadFilaments)
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
	rows := slices.Clone(f.rows) // a retry must begin with the unchanged rows
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
	named, _, err := nameVendors(ctx, d, names, dryRun)
	for n, i := range of {
		if err == nil {
			vendors[i] = named[n]
		}
	}
	return vendors, err
}
