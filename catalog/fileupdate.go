package catalog

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"spoolwright/catalog/slicer"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/value"
)

// knownProduct is the state of a product before a file changes it.
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
	Plates    []knownPlate    `json:"plates"`
	PlateOf   *string         `json:"plate_of"`
}

// knownPlate is the state of a plate before a file changes it.
type knownPlate struct {
	ID        string          `json:"id"`
	Plate     int64           `json:"plate"`
	Name      string          `json:"name"`
	Minutes   json.RawMessage `json:"estimated_print_time_minutes"`
	PerPlate  *int64          `json:"pieces_per_plate"`
	FileName  json.RawMessage `json:"file_name"`
	SHA256    json.RawMessage `json:"file_sha256"`
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
	DiameterMM   *value.Decimal         `json:"diameter_mm"`
	Notes        *string                `json:"notes"`
	taken        bool
}

func (m *knownMaterial) title() string { return materialTitle(m.MaterialType, m.MaterialName, m.Color) }

func materialTitle(kind inventory.MaterialType, name *string, color string) string {
	return inventory.MaterialLabel(string(kind), value.OrZero(name)) + " " + color
}

// updateFromFile compares the product with the file, and changes it.
func (h handlers) updateFromFile(ctx context.Context, p *fileProduct, id string) error {
	product := db.SQL(getProduct, id)
	err := h.db.Write(ctx, lockCatalog(), notVariant(id, "materials"), product)
	if err := server.Found(product, variantError(err, "", nil)); err != nil {
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
	if p.several && known.PlateOf != nil {
		return server.Invalid("plate", "is required: the product is a plate, and the file has several")
	}
	in := p.fields()
	in.Name = value.Some(r.Name)
	p.compare("name", jsonText(known.Name), jsonText(r.Name))
	if p.several || len(known.Plates) > 0 {
		return h.updatePlates(ctx, p, id, &known, &in)
	}
	if in.PrintMinutes.Set {
		p.compare("estimated_print_time_minutes", known.Minutes, jsonText(r.PrintMinutes))
		p.compare("pieces_per_plate", known.PerPlate, jsonText(r.PerPlate))
	}
	p.compareFacts(&known)
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
	changes = append(changes, db.SQL(`select recompute_costs(array[id], false) from products where id = $1`, id),
		deriveVariants(id))
	return costError(h.db.Write(ctx, changes...), "body")
}

// compareFacts records where the facts about the file differ between the product and the file.
func (p *fileProduct) compareFacts(known *knownProduct) {
	r := &p.result
	p.compare("file_name", known.FileName, jsonText(r.FileName))
	p.compare("file_sha256", known.SHA256, jsonText(r.FileSHA256))
	p.compare("sliced_by", known.SlicedBy, jsonText(r.SlicedBy))
	p.compare("printer_model", known.Printer, jsonText(r.PrinterModel))
	p.compare("nozzle_mm", known.Nozzle, jsonText(r.NozzleMM))
	p.compare("layer_height_mm", known.Layer, jsonText(r.LayerHeight))
}

// updatePlates compares the plates of the product with those of the file, and changes them. A file with several plates
// describes the whole product; a file with one plate describes only that plate.
func (h handlers) updatePlates(ctx context.Context, p *fileProduct, id string, known *knownProduct,
	in *Product) error {
	r := &p.result
	in.PrintMinutes, in.PerPlate = value.Optional[int64]{}, value.Optional[int64]{}
	if p.several {
		p.compareFacts(known)
	} else {
		*in = Product{Name: in.Name}
	}
	if len(known.Plates) == 0 { // the product becomes one with plates
		p.compare("estimated_print_time_minutes", known.Minutes, jsonText(nil))
		p.compare("pieces_per_plate", known.PerPlate, jsonText(nil))
		for _, k := range known.Materials {
			if old := k.Weight.String(); k.Required {
				p.change("materials."+k.title(), &old, nil)
			}
		}
	}
	in.Plates = []ProductPlate{}
	for i := range known.Plates {
		k := &known.Plates[i]
		at := slices.IndexFunc(p.plates, func(of slicer.Plate) bool { return int64(of.Number) == k.Plate })
		switch {
		case at >= 0:
			in.Plates = append(in.Plates, p.changePlate(at, k))
		case p.several:
			p.change(plateField(k.Plate), &k.Name, nil)
		default:
			in.Plates = append(in.Plates, ProductPlate{ID: value.Some(value.UUID(k.ID))})
		}
	}
	for i := range p.plates {
		number := int64(p.plates[i].Number)
		if slices.ContainsFunc(known.Plates, func(k knownPlate) bool { return k.Plate == number }) {
			continue
		}
		plate := p.newPlate(i)
		name := plate.Name.Or("plate " + strconv.FormatInt(number, 10))
		p.change(plateField(number), nil, &name)
		in.Plates = append(in.Plates, plate)
	}
	if p.several && p.picture != nil && known.Picture == nil {
		p.change("picture_version", nil, &p.picture.Version)
	}
	if r.Action = "updated"; len(r.Changes) == 0 {
		r.Action = "unchanged"
	}
	if r.DryRun || len(r.Changes) == 0 {
		return nil
	}
	made, err := h.change(ctx, id, in)
	if err != nil {
		return err
	}
	pictures, err := p.platePictures(made)
	if err != nil {
		return err
	}
	if p.several && p.picture != nil && known.Picture == nil {
		pictures = append(pictures, storePicture(id, p.picture))
	}
	if len(pictures) == 0 {
		return nil
	}
	return h.db.Write(ctx, append(pictures, deriveVariants(id))...)
}

// plateField returns the name of a plate in the changes.
func plateField(number int64) string { return "plates." + strconv.FormatInt(number, 10) }

// changePlate records the differences of a plate, and returns the changed plate. The number of pieces stays if neither
// the file nor the request has it.
func (p *fileProduct) changePlate(i int, k *knownPlate) ProductPlate {
	pieces := p.pieces
	if p.query.Pieces.IsNull() && (p.several || p.plates[i].Pieces == 0) && k.PerPlate != nil {
		pieces = *k.PerPlate
	}
	plate, at := p.plate(i, pieces), plateField(k.Plate)+"."
	plate.ID = value.Some(value.UUID(k.ID))
	if plate.Name.Set {
		p.compare(at+"name", jsonText(k.Name), jsonText(plate.Name.Value))
	}
	if plate.PrintMinutes.Set {
		p.compare(at+"estimated_print_time_minutes", k.Minutes, jsonText(plate.PrintMinutes.Value))
	}
	p.compare(at+"pieces_per_plate", jsonText(k.PerPlate), jsonText(pieces))
	if !p.several {
		p.compare(at+"file_name", k.FileName, jsonText(p.result.FileName))
		p.compare(at+"file_sha256", k.SHA256, jsonText(p.result.FileSHA256))
	}
	plate.Materials = nil // without filaments in the file, those of the plate stay
	if len(p.uses[i]) > 0 {
		plate.Materials = p.platesMaterials(at, p.plateMaterials(i, pieces), k.Materials)
	}
	return plate
}

// platesMaterials records the differences of the materials of a plate, and returns the changed materials. A material
// keeps its other fields, as in changeMaterials.
func (p *fileProduct) platesMaterials(at string, file []FileMaterial, known []knownMaterial) []ProductMaterial {
	all := []ProductMaterial{}
	for i := range file {
		m := &file[i]
		weight, title := m.Weight.String(), at+"materials."+materialTitle(m.MaterialType, m.MaterialName, m.Color)
		k := findMaterial(known, m)
		if k == nil {
			p.change(title, nil, &weight)
			all = append(all, m.material())
			continue
		}
		k.taken = true
		if old := k.Weight.String(); old != weight {
			p.change(title, &old, &weight)
		}
		k.Weight = m.Weight
	}
	for i := range known {
		k := &known[i]
		if !k.taken && k.Required {
			old := k.Weight.String()
			p.change(at+"materials."+k.title(), &old, nil)
			continue
		}
		one := ProductMaterial{Weight: value.Some(k.Weight), IsRequired: value.Some(k.Required), Notes: optional(k.Notes)}
		if k.FilamentID != nil {
			one.FilamentID = value.Some(value.UUID(*k.FilamentID))
		} else {
			one.MaterialType, one.MaterialName = value.Some(k.MaterialType), optional(k.MaterialName)
			one.Color, one.DiameterMM = value.Some(k.Color), optional(k.DiameterMM)
		}
		all = append(all, one)
	}
	return all
}

// findMaterial returns the material of a product that is equal to that of a file and is not matched yet, or nil.
func findMaterial(known []knownMaterial, m *FileMaterial) *knownMaterial {
	for i := range known {
		if k := &known[i]; !k.taken && k.MaterialType == m.MaterialType && strings.EqualFold(k.Color, m.Color) &&
			inventory.SameMaterial(string(m.MaterialType), value.OrZero(k.MaterialName), value.OrZero(m.MaterialName)) {
			return k
		}
	}
	return nil
}

// changeMaterials records the differences of the materials, and returns the statements that make them equal. A
// material keeps its other fields, such as its filament.
func (p *fileProduct) changeMaterials(id string, known []knownMaterial) (changes []*db.Stmt) {
	var added []ProductMaterial
	var ids []string
	for i := range p.result.Materials {
		m := &p.result.Materials[i]
		k := findMaterial(known, m)
		title := "materials." + materialTitle(m.MaterialType, m.MaterialName, m.Color)
		weight := m.Weight.String()
		switch {
		case weight == "0":
		case k == nil:
			p.change(title, nil, &weight)
			added, ids = append(added, m.material()), append(ids, value.NewID())
		default:
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

// compare records the difference of two values in JSON, if there is one.
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
