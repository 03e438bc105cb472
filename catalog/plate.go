package catalog

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// ProductPlate is one of the plates on which a product is printed. It is a product of its own, and a component of the
// printed product.
type ProductPlate struct {
	ID             value.Optional[value.UUID]    `json:"id" rule:"notNull"`
	Plate          value.Optional[int64]         `json:"plate" rule:"notNull,minimum=1,maximum=1000000"`
	Name           value.Optional[string]        `json:"name" rule:"notNull"`
	Quantity       value.Optional[int64]         `json:"quantity" rule:"notNull,minimum=1,maximum=1000000"`
	PrintMinutes   value.Optional[int64]         `json:"estimated_print_time_minutes" rule:"maximum=1000000"`
	Labour         value.Optional[value.Decimal] `json:"labour_minutes" rule:"maximum=1000000"`
	PerPlate       value.Optional[int64]         `json:"pieces_per_plate" rule:"minimum=1,maximum=1000000"`
	Notes          value.Optional[string]        `json:"notes" rule:"maxLength=10000"`
	Materials      []ProductMaterial             `json:"materials"`
	FileName       value.Optional[string]        `json:"file_name"`
	FileSHA256     value.Optional[string]        `json:"file_sha256" rule:"maxLength=64"`
	SlicedBy       value.Optional[string]        `json:"sliced_by"`
	PrinterModel   value.Optional[string]        `json:"printer_model"`
	NozzleMM       value.Optional[value.Decimal] `json:"nozzle_mm" rule:"maximum=10"`
	LayerHeightMM  value.Optional[value.Decimal] `json:"layer_height_mm" rule:"maximum=10"`
	TotalCost      value.Decimal                 `json:"total_cost" rule:"readOnly,notNull"`
	CostsComplete  bool                          `json:"costs_complete" rule:"readOnly,notNull"`
	OnHand         int64                         `json:"on_hand" rule:"readOnly,notNull"`
	PictureVersion string                        `json:"picture_version" rule:"readOnly"`
}

// selectPlates is a SQL expression of the plates of the product p.
var selectPlates = `(select coalesce(json_agg(json_build_object(
				'id', s.id, 'plate', s.plate, 'name', plate_name(p.name, s.name), 'quantity', c.quantity,
				'estimated_print_time_minutes', s.estimated_print_time_minutes,
				'labour_minutes', trim_scale(s.labour_minutes), 'pieces_per_plate', s.pieces_per_plate,
				'notes', s.notes, 'materials', ` + materialsOf("s.id") + `,
				'file_name', s.file_name, 'file_sha256', s.file_sha256, 'sliced_by', s.sliced_by,
				'printer_model', s.printer_model, 'nozzle_mm', trim_scale(s.nozzle_mm),
				'layer_height_mm', trim_scale(s.layer_height_mm), 'total_cost', trim_scale(s.total_cost),
				'costs_complete', s.costs_complete,
				'on_hand', coalesce((select k.on_hand from product_pieces k where k.product_id = s.id), 0),
				'picture_version', s.picture_version) order by s.plate, s.id), '[]')
			from product_components c join products s on s.id = c.component_product_id
			where c.product_id = p.id and s.plate_of = p.id)`

var (
	errUnknownPlates = server.BadRequest("UNKNOWN_REFERENCE", "Not a plate of the product: %s", "plates[1].id").
				On("plates[1].id")
	errPlateOfPlate = server.Conflict("PLATE_OF_PLATE", "The product is a plate itself and cannot have plates").
			On("plates")
	errIsPlate = server.Conflict("COMPONENT_IS_PLATE",
		"The component is a plate of the product: you can only change its quantity or remove it")
	errPlateHidden = server.Conflict("PRODUCT_HIDDEN", "The product %s of the plate or variant was removed; restore it "+
		"first", "Dragon")
)

// Check adds problems for plates that contradict each other or the product.
func (p *Product) Check(problems *server.Problems) {
	if len(p.Plates) == 0 {
		return
	}
	if len(p.Materials) > 0 {
		problems.Add("materials", "must be those of the plates")
	}
	if !p.PrintMinutes.IsNull() {
		problems.Add("estimated_print_time_minutes", "must be that of the plates")
	}
	if !p.PerPlate.IsNull() {
		problems.Add("pieces_per_plate", "must be that of the plates")
	}
	numbers, ids := map[int64]bool{}, map[value.UUID]bool{}
	for i, plate := range p.Plates {
		if n := plate.Plate.Or(0); n > 0 && numbers[n] {
			problems.Add(fmt.Sprintf("plates[%d].plate", i), "is also the number of another plate")
		} else {
			numbers[n] = true
		}
		if id := plate.ID.Or(""); id != "" && ids[id] {
			problems.Add(fmt.Sprintf("plates[%d].id", i), "is in the list twice")
		} else {
			ids[id] = true
		}
	}
}

// plateWrite is a statement that gives a product its plates.
type plateWrite struct {
	plates    []ProductPlate
	materials [][]string // the ids of the materials of each plate, if they are new
	set       *db.Stmt
}

// setPlates returns the statement that gives a product these plates, and no others. The catalog must be locked.
func setPlates(product string, plates []ProductPlate) *plateWrite {
	w := &plateWrite{plates: plates}
	rows := make([]map[string]any, len(plates))
	for i, plate := range plates {
		row := map[string]any{"fields": plate.fields(), "quantity": plate.Quantity.Arg(), "id": plate.ID.Arg()}
		if plate.ID.IsNull() {
			row["new_id"] = value.NewID()
		}
		ids := make([]string, len(plate.Materials))
		if plate.Materials != nil {
			for k := range ids {
				ids[k] = value.NewID()
			}
			row["materials"] = json.RawMessage(db.Recordset(materialRows(plate.Materials, ids)))
		}
		rows[i], w.materials = row, append(w.materials, ids)
	}
	// A product that this transaction neither created nor changed has another error; leave it as it is.
	w.set = db.SQL(`select set_plates(p.id, $2::json) from products p where p.id = $1 and p.updated_at = now()`,
		product, db.Recordset(rows))
	return w
}

// fields returns the columns of the plate that the request sets.
func (p *ProductPlate) fields() map[string]any {
	fields := map[string]any{}
	for name, f := range map[string]interface {
		IsSet() bool
		IsNull() bool
		Arg() any
	}{"plate": &p.Plate, "name": &p.Name, "estimated_print_time_minutes": &p.PrintMinutes, "labour_minutes": &p.Labour,
		"pieces_per_plate": &p.PerPlate, "notes": &p.Notes, "file_name": &p.FileName, "file_sha256": &p.FileSHA256,
		"sliced_by": &p.SlicedBy, "printer_model": &p.PrinterModel, "nozzle_mm": &p.NozzleMM,
		"layer_height_mm": &p.LayerHeightMM} {
		if f.IsSet() && !(name == "plate" && f.IsNull()) {
			fields[name] = f.Arg()
		}
	}
	if name, ok := fields["name"].(string); ok && name == "" {
		fields["name"] = nil
	}
	return fields
}

// err converts an error of the statement to an error of the request.
func (w *plateWrite) err(err error) error {
	switch {
	case w == nil:
		return err
	case db.Violates(err, "products_plate_unknown"):
		if n, parsed := strconv.Atoi(db.Detail(err)); parsed == nil {
			field := fmt.Sprintf("plates[%d].id", n)
			return errUnknownPlates.With(field).On(field).Because(err)
		}
	case db.Violates(err, "products_plate_nested"):
		return errPlateOfPlate.Because(err)
	case db.Violates(err, "products_plate_twice"):
		return server.Invalid("plates", "has two plates with the number %s", db.Detail(err)).Because(err)
	case db.Violates(err, "products_levels_range"):
		return server.Invalid("plates", tooManyLevels).Because(err)
	}
	for i, ids := range w.materials {
		if k := slices.Index(ids, db.Detail(err)); k >= 0 {
			return w.plates[i].Materials[k].filamentError(err, fmt.Sprintf("plates[%d].materials[%d].", i, k))
		}
	}
	return costError(err, "plates")
}
