package catalog

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
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// VariantMaterial is the color or the filament that a variant has instead of materials of its product and of the
// product's plates.
type VariantMaterial struct {
	ReplacesType  value.Optional[inventory.MaterialType] `json:"replaces_material_type"`
	ReplacesColor value.Optional[string]                 `json:"replaces_color"`
	Color         value.Optional[string]                 `json:"color" rule:"required,unless=filament_id"`
	FilamentID    value.Optional[value.UUID]             `json:"filament_id"`
	FilamentNo    value.Optional[int64]                  `json:"filament_number" rule:"writeOnly,notNull,insteadOf=filament_id,optional,minimum=1,maximum=999999999"`
	Brand         string                                 `json:"brand" rule:"readOnly"`
}

// NewVariants are variants to add to a product.
type NewVariants struct {
	Variants []NewVariant `json:"variants" rule:"required,maxItems=100"`
}

// NewVariant is a variant to add to a product.
type NewVariant struct {
	SKU              value.Optional[string]        `json:"sku"`
	Name             value.Optional[string]        `json:"name"`
	SellingPrice     value.Optional[value.Decimal] `json:"selling_price" rule:"maximum=1000000"`
	Color            value.Optional[string]        `json:"color"`
	VariantMaterials []VariantMaterial             `json:"variant_materials" rule:"maxItems=100"`
}

// AddedVariants are the added variants.
type AddedVariants struct {
	Items []AddedVariant `json:"items" rule:"readOnly,notNull"`
}

// AddedVariant is an added variant. getProduct returns all its fields.
type AddedVariant struct {
	ID           value.UUID    `json:"id" rule:"readOnly,notNull"`
	Number       int64         `json:"number" rule:"readOnly,notNull"`
	Name         string        `json:"name" rule:"readOnly,notNull"`
	SKU          string        `json:"sku" rule:"readOnly"`
	SellingPrice value.Decimal `json:"selling_price" rule:"readOnly"`
	TotalCost    value.Decimal `json:"total_cost" rule:"readOnly,notNull"`
}

// Check adds problems for variants without a color, and with two.
func (v *NewVariants) Check(problems *server.Problems) {
	if v.Variants != nil && len(v.Variants) == 0 {
		problems.Add("variants", "must not be empty")
	}
	for i, one := range v.Variants {
		switch at := fmt.Sprintf("variants[%d].", i); {
		case one.Color.Or("") == "" && len(one.VariantMaterials) == 0:
			problems.Add(at+"color", "is required, or variant_materials")
		case one.Color.Or("") != "" && len(one.VariantMaterials) > 0:
			problems.Add(at+"color", "must not be sent together with variant_materials")
		}
	}
}

var (
	errVariantField = server.Conflict("VARIANT_FIELD", "These fields of a variant follow its product: %s. "+
		"Change the product", "category").On("category")
	errMaterials    = errVariantField.With("materials").On()
	errComponents   = errVariantField.With("components").On()
	errVariantLimit = server.Conflict("VARIANT_LIMIT", "A product has at most 100 variants, and these have at most "+
		"10,000 materials and components together, with those of their plates")
	errUnknownBase = server.BadRequest("UNKNOWN_REFERENCE", "Not a product: %s", "variant_of").On("variant_of")
	errHasVariants = server.Conflict("PRODUCT_IN_USE", "The product has variants, such as %s: remove them first",
		"Dragon, Blue")
)

const variantRules = "A product with `variant_of` is a variant of that product: it follows the product in all but " +
	"its `sku`, its picture, and what it has of its own: `name`, `selling_price` and `variant_materials`. A price " +
	"of null, and a name or a price that it would have without its own, follows the product. An entry of " +
	"`variant_materials` replaces the materials of `replaces_color` and `replaces_material_type` in the product and its " +
	"plates; null stands for all, but for no support (PVA, HIPS, BVOH), and a filament replaces only its own type unless " +
	"the entry names another one. Of several entries for a material, the one that names a color counts. What was replaced " +
	"stays replaced when the product gets other colors. All else that a request changes in a variant is a 409 " +
	"`VARIANT_FIELD`, and so are changes of its materials, components and plates. See `docs/variants.md`."

var addVariantsDoc = &server.Doc{
	ID: "addProductVariants", Tag: Tag, Summary: "Add variants to a product",
	Description: "Adds the product in other colors, all of them or none. `color` stands for `variant_materials` with " +
		"one entry, for all materials. A variant without `sku` gets the SKU of the product with its colors, such as " +
		"`DRG-001-BLUE`, if the product has one.\n\n" + variantRules,
	Errors:  []*server.Error{errDuplicateSKU, errUnknownFilament, errFilamentField, errVariantLimit},
	Request: `{"variants":[{"color":"Blue","selling_price":14.9}]}`,
}

func (h handlers) addVariants(
	ctx context.Context, r *server.Request[NewVariants],
) (server.Created[AddedVariants], error) {
	ids := make([]string, len(r.In.Variants))
	rows := make([]map[string]any, len(ids))
	for i := range ids {
		v := &r.In.Variants[i]
		if v.Color.Or("") != "" {
			v.VariantMaterials = []VariantMaterial{{Color: v.Color}}
		}
		ids[i] = value.NewID()
		fields := server.SetFields(v)
		delete(fields, "color")
		rows[i] = map[string]any{"id": ids[i], "variant_of": r.ID("id"), "fields": fields, "named": true,
			"variant_materials": variantRows(v.VariantMaterials)}
	}
	product := db.SQL(`select id from products where id = $1 and hidden_at is null`, r.ID("id"))
	items := db.SQL(`select id, number, name, sku, selling_price, total_cost from products
		where id = any ($1::uuid[]) order by id`, ids)
	// The condition leaves the error of a missing product to server.Found.
	added := db.SQL(`select write_variants($2::json)::text from products where id = $1 and hidden_at is null`,
		r.ID("id"), db.Recordset(rows))
	err := h.db.Write(ctx, lockCatalog(), product, added, items)
	if n, _ := variantDetail(err); n < len(rows) {
		err = variantError(err, fmt.Sprintf("variants[%d].", n), r.In.Variants[n].VariantMaterials)
	}
	if db.Violates(err, "products_sku") {
		return nil, errDuplicateSKU.With(language.Sprintf("of one of the variants")).On("variants").Because(err)
	}
	if err := server.Found(product, costError(err, "variants")); err != nil {
		return nil, err
	}
	return slices.Concat([]byte(`{"items":`), items.Array(), []byte(`}`)), nil
}

// createVariant creates a product with variant_of.
func (h handlers) createVariant(ctx context.Context, in *Product) (server.Created[Product], error) {
	if len(in.Materials)+len(in.Components)+len(in.Plates) > 0 {
		return nil, errVariantField.With("materials, components, plates").On("materials", "components", "plates")
	}
	if len(in.VariantMaterials) == 0 && in.Name.IsNull() {
		return nil, server.Invalid("variant_materials", "is required for a variant without a name of its own")
	}
	fields := server.Row(in)
	for name, v := range fields { // null is the same as no field
		if v == nil || name == "variant_of" {
			delete(fields, name)
		}
	}
	id := value.NewID()
	row := map[string]any{"id": id, "variant_of": in.VariantOf.Arg(), "variant_of_sku": in.VariantOfSKU.Arg(),
		"fields": fields, "named": true, "variant_materials": variantRows(in.VariantMaterials)}
	product := db.SQL(getProduct, id)
	err := h.db.Write(ctx, lockCatalog(), db.SQL(`select write_variants($1::json)::text`,
		db.Recordset([]map[string]any{row})), product)
	if db.Violates(err, "products_variant_unknown") && in.VariantOf.IsNull() {
		err = errUnknownBase.With("variant_of_sku").On("variant_of_sku").Because(err)
	}
	if err != nil {
		return nil, costError(skuError(variantError(err, "", in.VariantMaterials), in), "variant_of")
	}
	return product.Object(), nil
}

// writeVariant returns the statement that changes the product with the id as the request says, if it is a variant.
func (in *Product) writeVariant(id string) *db.Stmt {
	fields := server.SetFields(in)
	row := map[string]any{"id": id, "fields": fields}
	if in.VariantMaterials != nil {
		row["variant_materials"] = variantRows(in.VariantMaterials)
	}
	return db.SQL(`
		select write_variants($2::json)::text from products
		where id = $1 and hidden_at is null and (variant_of is not null or $3)`, id,
		db.Recordset([]map[string]any{row}), len(in.VariantMaterials) > 0 || !in.VariantOf.IsNull())
}

// lockBase returns the statement that locks the product of a variant. It comes before the first change of the variant,
// so that changes of the product and of filaments wait for each other in one order.
func lockBase(product string) *db.Stmt {
	return db.SQL(`select lock_bases(array[$1::uuid])::text`, product)
}

// deriveVariants returns the statement that ends each change of a product, of its materials, components or plates: the
// variants of the product follow. The catalog must be locked.
func deriveVariants(product string) *db.Stmt {
	return db.SQL(`select derive_variants(array[$1::uuid])::text`, product)
}

// notVariant returns a statement that refuses a change of a list of a variant: of its materials, components or plates.
func notVariant(product, list string) *db.Stmt {
	return db.SQL(`select raise_variant('list', '0 ' || $2)::text from products
		where id = $1 and variant_of is not null and hidden_at is null`, product, list)
}

// variantRows returns the rows of entries for write_variants.
func variantRows(entries []VariantMaterial) json.RawMessage {
	rows := make([]map[string]any, len(entries))
	for i, e := range entries {
		rows[i] = map[string]any{"replaces_material_type": e.ReplacesType.Arg(), "replaces_color": e.ReplacesColor.Arg(),
			"color": e.Color.Arg(), "filament_id": e.FilamentID.Arg(), "filament_number": e.FilamentNo.Arg()}
	}
	return json.RawMessage(db.Recordset(rows))
}

// variantMaterials is a SQL expression for the variant_materials of the product p.
var variantMaterials = `(select coalesce(json_agg(json_build_object(
				'replaces_material_type', e.replaces_material_type, 'replaces_color', e.replaces_color,
				'color', coalesce(f.color, e.color), 'filament_id', e.filament_id, 'brand', f.vendor_name) order by e.n), '[]')
			from variant_materials e left join filaments f on f.id = e.filament_id where e.variant_id = p.id)`

// variantDetail divides the detail of a violation of variants.sql. n is the maximum without such a violation.
func variantDetail(err error) (n int, rest string) {
	first, rest, _ := strings.Cut(db.Detail(err), " ")
	if n, e := strconv.Atoi(first); e == nil {
		return n, rest
	}
	return int(^uint(0) >> 1), ""
}

// variantError converts a violation of variants.sql. at is the path of the variant in the request, such as
// "variants[1].", or "", and entries are its variant_materials.
func variantError(err error, at string, entries []VariantMaterial) error {
	if _, ok := errors.AsType[*server.Error](err); ok { // it is converted already
		return err
	}
	_, rest := variantDetail(err)
	i, _ := strconv.Atoi(rest)
	entry := fmt.Sprintf("%svariant_materials[%s]", at, rest)
	switch {
	case db.Violates(err, "products_variant_list"):
		return errVariantField.With(rest).On().Because(err)
	case db.Violates(err, "products_variant_field"):
		fields := strings.Split(rest, ", ")
		return errVariantField.With(server.JoinFields(fields)).On(fields...).Because(err)
	case db.Violates(err, "products_variant_limit"):
		return errVariantLimit.Because(err)
	case db.Violates(err, "products_variant_unknown"):
		return errUnknownBase.Because(err)
	case db.Violates(err, "products_variant_nested"):
		return server.Invalid("variant_of", "is a variant or a plate itself").Because(err)
	case db.Violates(err, "products_variant_none"):
		return server.Invalid("variant_materials", "must be empty: the product is not a variant").Because(err)
	case db.Violates(err, "products_variant_filament"):
		field := entry + ".filament_id"
		if i < len(entries) && !entries[i].FilamentNo.IsNull() {
			field = entry + ".filament_number"
		}
		return errUnknownFilament.With(field).On(field).Because(err)
	case db.Violates(err, "products_variant_color"):
		return errFilamentField.With(entry + ".color").On(entry + ".color").Because(err)
	case db.Violates(err, "products_variant_twice"):
		return server.Invalid(entry, "replaces the same materials as another entry").Because(err)
	case db.Violates(err, "products_variant_nothing"):
		return server.Invalid(entry, "replaces no material of the product").Because(err)
	}
	return err
}
