package catalog

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/value"
)

// knownProduct is what a product has before a file changes it.
type knownProduct struct {
	Name      string          `json:"name"`
	Minutes   json.RawMessage `json:"estimated_print_time_minutes"`
	PerPlate  json.RawMessage `json:"pieces_per_plate"`
	FileName  json.RawMessage `json:"file_name"`
	SHA256    json.RawMessage `json:"file_sha256"`
	SlicedBy  json.RawMessage `json:"sliced_by"`
	Printer   json.RawMessage `json:"printer_model"`
	Nozzle    json.RawMessage `json:"nozzle_mm"`
	Layer     json.RawMessage `json:"layer_height_mm"`
	Picture   *string         `json:"picture_version"`
	Materials []knownMaterial `json:"materials"`
}

type knownMaterial struct {
	ID           string                 `json:"id"`
	FilamentID   *string                `json:"filament_id"`
	MaterialType inventory.MaterialType `json:"material_type"`
	MaterialName *string                `json:"material_name"`
	Color        string                 `json:"color"`
	Weight       value.Decimal          `json:"weight_grams"`
	Required     bool                   `json:"is_required"`
	taken        bool
}

func (m *knownMaterial) title() string { return materialTitle(m.MaterialType, m.MaterialName, m.Color) }

func materialTitle(kind inventory.MaterialType, name *string, color string) string {
	return inventory.MaterialLabel(string(kind), orEmpty(name)) + " " + color
}

// updateFromFile compares the product with the file, and changes it.
func (h handlers) updateFromFile(ctx context.Context, p *fileProduct, id string) error {
	product := db.SQL(getProduct, id)
	if err := server.Found(product, h.db.Write(ctx, lockCatalog(), product)); err != nil {
		if err == server.ErrNotFound {
			return server.BadRequest("UNKNOWN_REFERENCE", "Not a product: %s", "product_id").On("product_id")
		}
		return err
	}
	var known knownProduct
	if err := json.Unmarshal(product.Object(), &known); err != nil {
		return err
	}
	r := &p.result
	uuid := value.UUID(id)
	r.ProductID = &uuid
	if r.Name = known.Name; !p.query.Name.IsNull() {
		r.Name = *p.query.Name.Value
	}
	in := p.fields()
	in.Name = value.Some(r.Name)
	p.compare("name", jsonText(known.Name), jsonText(r.Name))
	if in.PrintMinutes.Set {
		p.compare("estimated_print_time_minutes", known.Minutes, jsonText(r.PrintMinutes))
		p.compare("pieces_per_plate", known.PerPlate, jsonText(r.PerPlate))
	}
	p.compare("file_name", known.FileName, jsonText(r.FileName))
	p.compare("file_sha256", known.SHA256, jsonText(r.FileSHA256))
	p.compare("sliced_by", known.SlicedBy, jsonText(r.SlicedBy))
	p.compare("printer_model", known.Printer, jsonText(r.PrinterModel))
	p.compare("nozzle_mm", known.Nozzle, jsonText(r.NozzleMM))
	p.compare("layer_height_mm", known.Layer, jsonText(r.LayerHeight))
	var changes []*db.Stmt
	if len(r.Materials) > 0 {
		changes = p.changeMaterials(id, known.Materials)
	}
	if p.picture != nil && known.Picture == nil {
		p.change("picture_version", nil, &p.picture.Version)
		changes = append(changes, storePicture(id, p.picture))
	}
	if r.Action = "updated"; len(r.Changes) == 0 {
		r.Action = "unchanged"
	}
	if r.DryRun || len(r.Changes) == 0 {
		return nil
	}
	if _, err := h.change(ctx, id, &in); err != nil {
		return err
	}
	changes = append(changes, db.SQL(`select recompute_costs(array[id], false) from products where id = $1`, id))
	return costError(h.db.Write(ctx, changes...), "body")
}

// changeMaterials notes the differences of the materials, and returns the statements that make them equal. A material
// keeps its other fields, such as the only filament that will do.
func (p *fileProduct) changeMaterials(id string, known []knownMaterial) (changes []*db.Stmt) {
	var added []ProductMaterial
	var ids []string
	for i := range p.result.Materials {
		m := &p.result.Materials[i]
		at := slices.IndexFunc(known, func(k knownMaterial) bool {
			return !k.taken && k.MaterialType == m.MaterialType && strings.EqualFold(k.Color, m.Color) &&
				inventory.SameMaterial(string(m.MaterialType), orEmpty(k.MaterialName), orEmpty(m.MaterialName))
		})
		title := "materials." + materialTitle(m.MaterialType, m.MaterialName, m.Color)
		weight := m.Weight.String()
		switch {
		case weight == "0":
		case at < 0:
			p.change(title, nil, &weight)
			added, ids = append(added, m.material()), append(ids, value.NewID())
		default:
			k := &known[at]
			k.taken = true
			if old := k.Weight.String(); old != weight {
				p.change(title, &old, &weight)
				changes = append(changes,
					db.SQL(`update product_materials set weight_grams = $2::numeric where id = $1`, k.ID, weight))
			}
		}
	}
	for i := range known {
		if k := &known[i]; !k.taken && k.Required {
			old := k.Weight.String()
			p.change("materials."+k.title(), &old, nil)
			changes = append(changes, db.SQL(`delete from product_materials where id = $1`, k.ID))
		}
	}
	if len(added) > 0 {
		changes = append(changes, addMaterials(id, added, ids))
	}
	return changes
}

func (p *fileProduct) change(field string, old, new *string) {
	p.result.Changes = append(p.result.Changes, FileChange{field, old, new})
}

// compare notes a difference of two values in JSON.
func (p *fileProduct) compare(field string, old, new json.RawMessage) {
	if string(old) != string(new) {
		p.change(field, plain(old), plain(new))
	}
}

func jsonText(v any) json.RawMessage {
	text, _ := json.Marshal(v)
	return text
}

// plain returns the text of a value in JSON, or nil for null.
func plain(v json.RawMessage) *string {
	text := string(v)
	if text == "null" || text == "" {
		return nil
	}
	var unquoted string
	if json.Unmarshal(v, &unquoted) == nil {
		text = unquoted
	}
	return &text
}
