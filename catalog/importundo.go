package catalog

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"spoolwright/db"
	"spoolwright/inventory/imports"
	"spoolwright/server"
	"spoolwright/transfer"
)

// Undo describes how the import of products is undone. uses is a query of what names the product $1, besides products.
func Undo(uses string) imports.Undoable {
	return imports.Undoable{Table: "products", Lock: lockCatalog(), Restore: restoreImported,
		Uses: `select from product_components where component_product_id = $1 union all ` + uses}
}

// materialColumn and the id of a material are the name of the column that an import keeps of it. Its value is a text of
// materialText, or null if the product does not have the material.
const materialColumn = "materials."

// materialText returns the columns of a material as a text.
func materialText(values map[string]any) string {
	all := map[string]string{}
	for _, column := range materialColumns {
		all[column] = transfer.ValueText(values[column])
	}
	text, _ := json.Marshal(all)
	return string(text)
}

// restoreImported gives products the columns and the materials that they had before an import, unless they were changed
// since.
func restoreImported(
	ctx context.Context, d *db.DB, changes []*imports.Change,
) (done imports.Undone, last *db.Stmt, err error) {
	ids, skus := []string{}, []string{}
	var f productFile
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
	var taken []string
	others := db.SQL(`select coalesce(array_agg(p.sku), '{}') from unnest($1::text[]) n (sku) cross join lateral (
			select sku from products where sku = n.sku and sku <> '' and hidden_at is null and not id = any ($2::uuid[])
		) p`, skus, ids).Into(&taken)
	if err := d.Write(ctx, lockCatalog(), locked, others); err != nil {
		return done, nil, err
	}
	products, err := transfer.StoredRows(locked)
	if err == nil {
		err = f.lockFilaments(ctx, d, []transfer.Stored{named})
	}
	if err != nil {
		return done, nil, err
	}
	byID := map[string]transfer.Stored{}
	for _, s := range products {
		byID[s.Text("id")] = s
	}
	var w productChanges
	for _, c := range changes {
		s := byID[c.Item]
		if s == nil {
			done.Leave(c, nil, "it was removed since")
			continue
		}
		var problems []string
		for _, m := range s["materials"].([]any) {
			m := transfer.Stored(m.(map[string]any))
			s[materialColumn+m.Text("id")] = materialText(m)
		}
		restored := false
		values := map[string]any{"id": c.Item}
		for _, column := range productColumns {
			values[column] = s[column]
		}
		for _, name := range c.Unchanged(s) {
			id, isMaterial := strings.CutPrefix(name, materialColumn)
			m, had := materialOf(c.Before, name)
			filament := f.filaments[transfer.ValueText(m["filament_id"])]
			switch {
			case had && m["filament_id"] != nil && (filament == nil || filament.Text("hidden") == "true"):
				problems = append(problems, "the filament of a material was removed")
				continue
			case name == "sku" && slices.Contains(taken, c.Before.Text(name)):
				problems = append(problems, "sku is that of another product")
				continue
			case !isMaterial:
				values[name] = c.Before[name]
				if name == "sku" {
					w.renamed = append(w.renamed, c.Item)
				}
			case !had:
				w.removed = append(w.removed, id)
			default:
				for _, column := range []string{"material_type", "material_name", "color", "diameter_mm"} {
					if filament != nil {
						m[column] = filament[column]
					}
				}
				if m["id"], m["product_id"] = id, c.Item; c.After.Text(name) == "" {
					w.addedMaterials = append(w.addedMaterials, m)
				} else {
					w.materials = append(w.materials, m)
				}
			}
			restored = true
			if isMaterial && !slices.Contains(w.computed, c.Item) {
				w.computed = append(w.computed, c.Item)
			}
		}
		if restored {
			done.Restored++
			w.updated = append(w.updated, values)
		}
		if len(c.Left)+len(problems) > 0 || len(c.After) == 0 {
			for i, name := range c.Left {
				if strings.HasPrefix(name, materialColumn) {
					c.Left[i] = "materials"
				}
			}
			done.LeaveChanged(c, s, problems...)
		}
	}
	return done, nil, importError(w.write(ctx, d))
}

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
