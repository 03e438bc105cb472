package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/value"
)

// ProductMaterial is a material of a product: an amount of filament that one piece of it needs.
type ProductMaterial struct {
	ID           value.UUID                             `json:"id" rule:"readOnly,notNull"`
	MaterialType value.Optional[inventory.MaterialType] `json:"material_type" rule:"required,unless=filament_id"`
	Color        value.Optional[string]                 `json:"color" rule:"required,unless=filament_id"`
	Weight       value.Optional[value.Decimal]          `json:"weight_grams" rule:"required,exclusiveMinimum=0,maximum=1000000"`
	IsRequired   value.Optional[bool]                   `json:"is_required" rule:"notNull"`
	Notes        value.Optional[string]                 `json:"notes" rule:"maxLength=2000"`
	MaterialName value.Optional[string]                 `json:"material_name"`
	DiameterMM   value.Optional[value.Decimal]          `json:"diameter_mm" rule:"enum=1.75|2.85"`
	FilamentID   value.Optional[value.UUID]             `json:"filament_id"`
	FilamentNo   value.Optional[int64]                  `json:"filament_number" rule:"writeOnly,notNull,insteadOf=filament_id,optional,minimum=1,maximum=999999999"`
	Brand        string                                 `json:"brand" rule:"readOnly"`
	Cost         value.Decimal                          `json:"cost" rule:"readOnly"`
	CostBasis    string                                 `json:"cost_basis" rule:"readOnly,enum=filament|color|material"`
}

// costField returns the field to report if the request makes a cost too large.
func (m *ProductMaterial) costField() string {
	switch {
	case m.Weight.Set:
		return "weight_grams"
	case !m.FilamentID.IsNull():
		return "filament_id"
	case !m.FilamentNo.IsNull():
		return "filament_number"
	case m.Color.Set:
		return "color"
	case m.MaterialType.Set:
		return "material_type"
	}
	return "total_cost" // because of the current prices
}

// filamentError returns the error for a filament in the request that does not exist or has different values. at is the
// path of the material in the request, such as "materials[1].", or "".
func (m *ProductMaterial) filamentError(err error, at string) error {
	field := at + "filament_id"
	if !m.FilamentNo.IsNull() {
		field = at + "filament_number"
	}
	switch {
	case db.Violates(err, "product_materials_filament"):
		return errUnknownFilament.With(field).On(field).Because(err)
	case db.Violates(err, "product_materials_filament_field"):
		var fields []string
		for name, set := range map[string]bool{"material_type": m.MaterialType.Set, "material_name": m.MaterialName.Set,
			"color": m.Color.Set, "diameter_mm": m.DiameterMM.Set} {
			if set {
				fields = append(fields, at+name)
			}
		}
		slices.Sort(fields)
		return errFilamentField.With(server.JoinFields(fields)).On(fields...).Because(err)
	}
	return err
}

var (
	errUnknownFilament = server.BadRequest("UNKNOWN_REFERENCE", "Not a filament: %s", "filament_id").On("filament_id")
	errFilamentField   = server.Conflict("FILAMENT_FIELD", "These fields of the material come from its filament: %s. "+
		"Omit them, or name no filament", "color").On("color")
)

// filamentOf returns a SQL expression for the id of the filament with the id or the number, which are parameters of
// the statement. An unknown id is returned unchanged.
func filamentOf(id, number string) string {
	return `coalesce(` + id + `, (select f.id from filaments f where f.number = ` + number + `
		and f.hidden_at is null),
		case when ` + number + ` is not null then '00000000-0000-0000-0000-000000000000'::uuid end)`
}

func getMaterial(product, id string) *db.Stmt {
	return db.SQL(`
		select id, filament_id, material_type, material_name, color, diameter_mm, `+materialBrand("product_materials")+`
			as brand, weight_grams, is_required, notes, cost, cost_basis
		from product_materials
		where product_id = $1 and id = $2
			and exists (select from products p where p.id = $1 and p.hidden_at is null)`, product, id)
}

// materialBrand returns a SQL expression for the brand of a material, which is the brand of its filament.
func materialBrand(table string) string {
	return `(select f.vendor_name from filaments f where f.id = ` + table + `.filament_id)`
}

const costsFollow = "Recomputes the costs of the product from the current spool prices, and the costs of all " +
	"products that contain it, in the same transaction."

const materialRules = "A spool matches the material if its `material_type`, `material_name`, `diameter_mm` and " +
	"`color` are the same, ignoring case. A material without `material_name` matches spools without a name or with the " +
	"name of their type; one without `diameter_mm` matches spools with the diameter of the farm's printers, or 1.75 mm " +
	"if these differ. A material with `filament_id` or `filament_number` matches only spools of that filament: its " +
	"type, name, diameter and color come from the filament and change with it, and other values in the request are a " +
	"`FILAMENT_FIELD`. Plans take only matching spools, and availability, reservations, stock levels and prices count " +
	"only these."

var addMaterialDoc = &server.Doc{
	ID: "addProductMaterial", Tag: Tag, Summary: "Add a material to a product",
	Description: costsFollow + " `recalculateProduct` describes how prices are computed.\n\n" + materialRules,
	Errors:      []*server.Error{errUnknownFilament, errFilamentField, errMaterials, errVariantLimit},
}

func (h handlers) addMaterial(
	ctx context.Context, r *server.Request[ProductMaterial],
) (server.Created[ProductMaterial], error) {
	product, id, in := r.ID("id"), value.NewID(), &r.In
	var full bool
	added := db.SQL(`
		with product as (
			select p.id, (select count(*) from product_materials m where m.product_id = p.id) >= $8 as is_full
			from products p where p.id = $1 and p.hidden_at is null
		), material as (
			insert into product_materials (id, product_id, material_type, color, weight_grams, is_required, notes,
				material_name, diameter_mm, filament_id)
			select $2::uuid, p.id, $3::text, $4::text, $5::numeric, $6::boolean, $7::text, $9::text, $10::numeric,
				`+filamentOf("$11::uuid", "$12::int")+`
			from product p where not is_full
			returning product_id
		)
		select is_full, (select recompute_costs(array[product_id], false) from material) from product`,
		product, id, in.MaterialType.Arg(), in.Color.Arg(), in.Weight.Arg(), in.IsRequired.Or(true), in.Notes.Arg(),
		server.MaxEntries, in.MaterialName.Arg(), in.DiameterMM.Arg(), in.FilamentID.Arg(), in.FilamentNo.Arg()).
		Into(&full, nil)
	material := getMaterial(product, id)
	err := h.db.Write(ctx, lockCatalog(), notVariant(product, "materials"), added, deriveVariants(product), material)
	if err == nil && full {
		return nil, server.TooManyEntries("materials")
	}
	return server.One(material, costError(in.filamentError(err, ""), in.costField()))
}

// addMaterials returns a statement that adds materials with these ids to a product, if the product exists.
func addMaterials(product string, materials []ProductMaterial, ids []string) *db.Stmt {
	return db.SQL(`
		insert into product_materials (id, product_id, material_type, color, weight_grams, is_required, notes,
			material_name, diameter_mm, filament_id)
		select m.id, p.id, m.material_type, m.color, m.weight_grams, m.is_required, m.notes, m.material_name,
			m.diameter_mm, `+filamentOf("m.filament_id", "m.filament_number")+`
		from products p, json_to_recordset($2::json) m (n int, id uuid, material_type text, color text,
			weight_grams numeric, is_required boolean, notes text, material_name text, diameter_mm numeric,
			filament_id uuid, filament_number int)
		where p.id = $1 order by m.n`, product, db.Recordset(materialRows(materials, ids)))
}

// materialRows returns the rows of materials, with their ids, for json_to_recordset.
func materialRows(materials []ProductMaterial, ids []string) []map[string]any {
	rows := make([]map[string]any, len(materials))
	for i, m := range materials {
		rows[i] = map[string]any{"id": ids[i], "material_type": m.MaterialType.Arg(), "color": m.Color.Arg(),
			"weight_grams": m.Weight.Arg(), "is_required": m.IsRequired.Or(true), "notes": m.Notes.Arg(),
			"material_name": m.MaterialName.Arg(), "diameter_mm": m.DiameterMM.Arg(), "filament_id": m.FilamentID.Arg(),
			"filament_number": m.FilamentNo.Arg()}
	}
	return rows
}

// assignments returns the assignments and the arguments of an update of the material.
func (m *ProductMaterial) assignments(args ...any) (string, []any) {
	set, args := server.Assignments(m, args)
	if m.FilamentNo.IsNull() {
		return set, args
	}
	args = append(args, m.FilamentNo.Arg())
	named := `filament_id = ` + filamentOf("null", fmt.Sprintf("$%d::int", len(args)))
	return strings.TrimPrefix(set+", "+named, ", "), args
}

var updateMaterialDoc = &server.Doc{
	ID: "updateProductMaterial", Tag: Tag, Summary: "Update a material of a product",
	Description: costsFollow + "\n\n" + materialRules + " A `filament_id` of null keeps the values.",
	Errors:      []*server.Error{errUnknownFilament, errFilamentField, errMaterials},
}

func (h handlers) updateMaterial(
	ctx context.Context, r *server.Request[ProductMaterial],
) (server.OK[ProductMaterial], error) {
	product, id := r.ID("id"), r.ID("material_id")
	material := getMaterial(product, id)
	var err error
	if set, args := r.In.assignments(product, id); set == "" {
		err = h.db.Read(ctx, material)
	} else {
		changed := db.SQL(`
			with material as (
				update product_materials set `+set+`
				where product_id = $1 and id = $2
					and exists (select from products p where p.id = $1 and p.hidden_at is null)
				returning product_id
			)
			select recompute_costs(array[product_id], false) from material`, args...)
		err = h.db.Write(ctx, lockCatalog(), notVariant(product, "materials"), changed, deriveVariants(product), material)
	}
	return server.One(material, costError(r.In.filamentError(err, ""), r.In.costField()))
}

var deleteMaterialDoc = &server.Doc{
	ID: "removeProductMaterial", Tag: Tag, Summary: "Remove a material from a product", Description: costsFollow,
	Errors: []*server.Error{errMaterials},
}

func (h handlers) deleteMaterial(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	removed := db.SQL(`
		with material as (
			delete from product_materials
			where product_id = $1 and id = $2
				and exists (select from products p where p.id = $1 and p.hidden_at is null)
			returning product_id
		)
		select recompute_costs(array[product_id], false) from material`, r.ID("id"), r.ID("material_id"))
	err := h.db.Write(ctx, lockCatalog(), notVariant(r.ID("id"), "materials"), removed, deriveVariants(r.ID("id")))
	return nil, server.Found(removed, costError(err, "total_cost"))
}
