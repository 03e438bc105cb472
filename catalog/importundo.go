package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"spoolwright/db"
	"spoolwright/inventory/imports"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value/language"
)

// ProductsOfFilament selects the materials of products and of variants that name the filament $1, which an undo of an
// import then keeps.
const ProductsOfFilament = `select from product_materials where filament_id = $1
	union all select from variant_materials where filament_id = $1`

// Undo describes how the import of products is undone: first of variants, then of the products that they follow, if no
// variant remains. uses is a query of what names the product $1, besides products.
func Undo(uses string) []imports.Undoable {
	bases := imports.Undoable{Table: "products", Only: "t.variant_of is null", Lock: lockCatalog(), Restore: restoreImported,
		Uses: `select from product_components where component_product_id = $1 union all
			select from products v where v.variant_of = $1 and v.hidden_at is null union all ` + uses}
	variants := bases
	variants.Only, variants.Restore = "t.variant_of is not null", nil
	variants.Uses += ` union all select from products y where y.plate_of = $1 and exists (` +
		strings.ReplaceAll(uses, "$1", "y.id") + `)`
	variants.Forget = `update products set hidden_at = now(), updated_at = now()
		where plate_of = any ($1::uuid[]) and hidden_at is null`
	return []imports.Undoable{bases, variants}
}

// materialColumn and the id of a material are the name of the column that an import keeps of it. Its value is a text of
// materialText, or null if the product does not have the material.
const materialColumn = "materials."

func materialText(values map[string]any) string {
	all := map[string]string{}
	for _, column := range materialColumns {
		all[column] = transfer.ValueText(values[column])
	}
	text, _ := json.Marshal(all)
	return string(text)
}

// productRestore is an undo that gives products the columns and the materials that they had before an import.
type productRestore struct {
	file    productFile // with the filaments of the former materials
	taken   []string    // the former SKUs that other products have
	changes productChanges
	done    imports.Undone
}

// restoreImported gives products the columns and the materials that they had before an import, unless they were changed
// since.
func restoreImported(
	ctx context.Context, d *db.DB, changes []*imports.Change,
) (done imports.Undone, last *db.Stmt, err error) {
	var r productRestore
	products, err := r.read(ctx, d, changes)
	if err != nil {
		return done, nil, err
	}
	for _, c := range changes {
		switch s := products[c.Item]; {
		case s == nil:
			r.done.Leave(c, nil, "it was removed since")
		case s.Text("variant_of") != "":
			r.variant(c, s)
		default:
			r.product(c, s)
		}
	}
	err = importError(r.changes.write(ctx, d))
	if e, ok := errors.AsType[*server.Error](err); ok { // of a variant, such as of a removed filament
		err = server.Invalid("variant_materials", "%s", e.Detail).Because(err)
	}
	return r.done, nil, err
}

// read locks the products and the filaments of their former materials, and returns the products by their ids.
func (r *productRestore) read(
	ctx context.Context, d *db.DB, changes []*imports.Change,
) (map[string]transfer.Stored, error) {
	ids, skus := []string{}, []string{}
	named := transfer.Stored{"materials": []any{}}
	for _, c := range changes {
		ids, skus = append(ids, c.Item), append(skus, c.Before.Text("sku"))
		for name := range c.Before {
			if m, ok := materialOf(c.Before, name); ok {
				named["materials"] = append(named["materials"].([]any), m)
			}
		}
	}
	locked := server.LockRows("products", storedProduct+", number", `select unnest($1::uuid[]) as id`, "hidden_at is null",
		ids)
	others := db.SQL(`select coalesce(array_agg(p.sku), '{}') from unnest($1::text[]) n (sku) cross join lateral (
			select sku from products where sku = n.sku and sku <> '' and hidden_at is null and not id = any ($2::uuid[])
		) p`, skus, ids).Into(&r.taken)
	if err := d.Write(ctx, lockCatalog(), locked, others); err != nil {
		return nil, err
	}
	products, err := transfer.StoredRows(locked)
	if err != nil {
		return nil, err
	}
	byID := map[string]transfer.Stored{}
	for _, s := range products {
		byID[s.Text("id")] = s
	}
	return byID, r.file.lockFilaments(ctx, d, []transfer.Stored{named})
}

// variant restores the columns of the stored variant s.
func (r *productRestore) variant(c *imports.Change, s transfer.Stored) {
	var problems []string
	columns := c.Unchanged(s)
	if slices.Contains(columns, "sku") && slices.Contains(r.taken, c.Before.Text("sku")) {
		columns = slices.DeleteFunc(columns, func(name string) bool { return name == "sku" })
		problems = append(problems, language.Sprintf(skuTaken))
	}
	if slices.Contains(columns, "sku") {
		r.changes.renamed = append(r.changes.renamed, c.Item)
	}
	if len(columns) > 0 {
		r.done.Restored++
		r.changes.variants = append(r.changes.variants, restoredVariant(c.Item, c.Before, columns))
	}
	if len(c.Left)+len(problems) > 0 || len(c.After) == 0 {
		r.done.LeaveChanged(c, s, problems...)
	}
}

// product restores the columns and the materials of the stored product s, which is not a variant.
func (r *productRestore) product(c *imports.Change, s transfer.Stored) {
	for _, m := range s["materials"].([]any) {
		m := transfer.Stored(m.(map[string]any))
		s[materialColumn+m.Text("id")] = materialText(m)
	}
	values := map[string]any{"id": c.Item}
	for _, column := range productColumns {
		values[column] = s[column]
	}
	var problems []string
	restored, computed := false, false
	for _, name := range c.Unchanged(s) {
		switch {
		case strings.HasPrefix(name, materialColumn):
			if !r.material(c, name) {
				problems = append(problems, language.Sprintf("the filament of a material was removed"))
				continue
			}
			computed = true
		case name == "sku" && slices.Contains(r.taken, c.Before.Text(name)):
			problems = append(problems, language.Sprintf(skuTaken))
			continue
		default:
			if values[name] = c.Before[name]; name == "sku" {
				r.changes.renamed = append(r.changes.renamed, c.Item)
			}
		}
		restored = true
	}
	if computed {
		r.changes.computed = append(r.changes.computed, c.Item)
	}
	if restored {
		r.done.Restored++
		r.changes.updated = append(r.changes.updated, values)
	}
	if len(c.Left)+len(problems) > 0 || len(c.After) == 0 {
		for i, name := range c.Left {
			if strings.HasPrefix(name, materialColumn) {
				c.Left[i] = "materials"
			}
		}
		r.done.LeaveChanged(c, s, problems...)
	}
}

// material restores the material in a column, or removes it if the product did not have it. It reports false, and
// changes nothing, if the filament of the material was removed.
func (r *productRestore) material(c *imports.Change, name string) bool {
	id := strings.TrimPrefix(name, materialColumn)
	m, had := materialOf(c.Before, name)
	filament := r.file.filaments[transfer.ValueText(m["filament_id"])]
	switch {
	case !had:
		r.changes.removed = append(r.changes.removed, id)
		return true
	case m["filament_id"] != nil && (filament == nil || filament.Text("hidden") == "true"):
		return false
	}
	if filament != nil {
		for _, column := range []string{"material_type", "material_name", "color", "diameter_mm"} {
			m[column] = filament[column]
		}
	}
	if m["id"], m["product_id"] = id, c.Item; c.After.Text(name) == "" {
		r.changes.addedMaterials = append(r.changes.addedMaterials, m)
	} else {
		r.changes.materials = append(r.changes.materials, m)
	}
	return true
}

const skuTaken language.Text = "sku is that of another product"

// materialOf returns the material in a column, if there is one.
func materialOf(before transfer.Stored, name string) (m map[string]any, ok bool) {
	text := before.Text(name)
	if !strings.HasPrefix(name, materialColumn) || text == "" || json.Unmarshal([]byte(text), &m) != nil {
		return nil, false
	}
	for column, value := range m {
		if value == "" {
			m[column] = nil
		}
	}
	return m, true
}
