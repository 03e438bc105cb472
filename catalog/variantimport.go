package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// entry returns the entry of variant_materials in a row, or the zero value.
func (r *importRow) entry() VariantMaterial {
	e := VariantMaterial{ReplacesType: r.ReplacesType, ReplacesColor: r.ReplacesColor, Color: r.VariantColor,
		FilamentID: r.VariantID, FilamentNo: r.VariantNo}
	if e.ReplacesType.IsNull() && e.ReplacesColor.IsNull() && e.Color.IsNull() && e.FilamentID.IsNull() &&
		e.FilamentNo.IsNull() {
		return VariantMaterial{}
	}
	return e
}

// changeVariant adds to c the changes that make the stored variant s equal to the rows of the file. s is nil for a new
// variant. What follows the product is compared with it after all other changes: see write_variants.
func (f *productFile) changeVariant(
	c *productChanges, p *importedProduct, s transfer.Stored, report *ImportedProduct, invalid transfer.RowProblems,
) {
	of, ofSKU := string(p.in.VariantOf.Or("")), p.in.VariantOfSKU.Or("")
	row := map[string]any{"n": p.line, "id": value.NewID(), "variant_of": p.in.VariantOf.Arg(), "variant_of_sku": ofSKU,
		"named": false}
	values, fields := server.Row(&p.in), map[string]any{}
	report.Action = "created"
	if s != nil {
		row["id"], report.Action = s.Text("id"), "unchanged"
		if of != "" && of != s.Text("variant_of") || ofSKU != "" && ofSKU != s.Text("variant_of_sku") {
			invalid.Add(p.line, "variant_of", "does not change: it must be empty, or the product of the variant")
		}
	}
	if of != "" && ofSKU != "" {
		invalid.Add(p.line, "variant_of_sku", "must be empty beside variant_of")
	}
	id := row["id"].(string)
	report.ID = (*value.UUID)(&id)
	for _, column := range productColumns {
		cell, own := transfer.ValueText(values[column]), slices.Contains(variantColumns, column)
		if slices.Contains(f.columns, column) && (cell != "" || own && s != nil) && (s == nil || cell != s.Text(column)) {
			fields[column] = values[column]
			if s != nil && column == "sku" {
				c.renamed = append(c.renamed, id)
			}
		}
	}
	if len(p.materials) > 0 {
		invalid.Add(p.materials[0].Line, "materials", "must be empty: the materials of a variant follow its product")
	}
	if len(p.entries) > 0 && (s == nil || !slices.EqualFunc(p.entries, s["variant_materials"].([]any), sameEntry)) {
		row["variant_materials"] = variantRows(p.entries)
	}
	if s == nil && len(p.entries) == 0 && p.in.Name.IsNull() {
		invalid.Add(p.line, "variant_materials.color", "is required for a new variant without a name of its own")
	}
	if s != nil && len(fields) == 0 && row["variant_materials"] == nil {
		return
	}
	if s != nil {
		report.Action = "updated"
		c.stored = append(c.stored, s)
	} else {
		c.history.CreateRow("products", id, p.line, p.hash)
	}
	row["fields"] = fields
	c.variants, c.written[p.line] = append(c.variants, row), p
}

// variantColumns are what a variant has of its own in a file, besides its entries.
var variantColumns = []string{"sku", "name", "selling_price"}

// changedVariants adds to the history how the import has changed variants.
func (c *productChanges) changedVariants(ctx context.Context, d *db.DB) error {
	if len(c.stored) == 0 {
		return nil
	}
	var ids []string
	for _, s := range c.stored {
		ids = append(ids, s.Text("id"))
	}
	read := db.SQL(`select `+storedProduct+` from products where id = any ($1::uuid[]) order by id`, ids)
	if err := d.Read(ctx, read); err != nil {
		return err
	}
	now, err := transfer.StoredRows(read)
	for _, s := range c.stored {
		i := slices.IndexFunc(now, func(n transfer.Stored) bool { return n.Text("id") == s.Text("id") })
		if changed := slices.DeleteFunc(append([]string{"variant_materials"}, variantColumns...),
			func(column string) bool { return s.Text(column) == now[i].Text(column) }); len(changed) > 0 {
			c.history.Change("products", s, now[i], changed...)
		}
	}
	return err
}

// restoredVariant returns the row of write_variants that gives a variant the columns as they were before an import.
func restoredVariant(id string, before transfer.Stored, columns []string) map[string]any {
	fields := map[string]any{}
	row := map[string]any{"id": id, "fields": fields}
	for _, column := range columns {
		if column != "variant_materials" {
			fields[column] = before[column]
			continue
		}
		entries := []map[string]any{}
		for _, e := range before[column].([]any) {
			e := e.(map[string]any)
			if entries = append(entries, e); e["filament_id"] != nil {
				e["color"] = nil
			}
		}
		row[column] = json.RawMessage(db.Recordset(entries))
	}
	return row
}

// sameEntry reports whether an entry of a file is the stored one.
func sameEntry(e VariantMaterial, stored any) bool {
	s := transfer.Stored(stored.(map[string]any))
	filament := string(e.FilamentID.Or(""))
	if !e.FilamentNo.IsNull() && strconv.FormatInt(*e.FilamentNo.Value, 10) == s.Text("number") {
		filament = s.Text("filament_id")
	}
	return transfer.ValueText(e.ReplacesType.Arg()) == s.Text("replaces_material_type") &&
		e.ReplacesColor.Or("") == s.Text("replaces_color") && filament == s.Text("filament_id") &&
		(e.Color.Or("") == s.Text("color") || e.Color.IsNull() && filament != "")
}

// rowError converts a violation of write_variants to an error of the row.
func (c *productChanges) rowError(err error) error {
	line, _ := variantDetail(err)
	p := c.written[line]
	e, ok := errors.AsType[*server.Error](variantError(err, "", nil))
	if p == nil || !ok || len(e.Fields) == 0 {
		return err
	}
	invalid := transfer.RowProblems{}
	for _, f := range e.Fields {
		at, field := line, f.Field
		if path, ok := strings.CutPrefix(field, "variant_materials["); ok {
			index, rest, _ := strings.Cut(path, "]")
			i, _ := strconv.Atoi(index)
			at, field = p.lines[i], "variant_materials"+cmp.Or(rest, ".replaces_color")
		}
		invalid.Add(at, field, "%s", f.Message)
	}
	return invalid.Err()
}
