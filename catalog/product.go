// Package catalog implements products: their bills of materials and their costs.
package catalog

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"spoolwright/auth"
	"spoolwright/catalog/picture"
	"spoolwright/catalog/slicer"
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
	"spoolwright/value/language"
)

// Tag is the tag of the operations.
var Tag = &server.Tag{
	Name: "products", Leads: true, Fields: fields + transfer.Fields,
	Description: "Products, their bills of materials, and their costs.",
}

// fields describes the fields of the requests and responses.
//
//go:embed fields.md
var fields string

// Routes are the operations of /api/v1/products.
func Routes(d *db.DB) []server.Route {
	h := handlers{d}
	return []server.Route{
		server.Op("GET /api/v1/products", server.Read,
			server.HandleList[ProductListItem](h.db, ProductFilter.list), listDoc),
		server.Op("GET /api/v1/products/export", server.Read, Export.Handle(h.db, "products"), exportDoc),
		server.Op("POST /api/v1/products", server.Write, server.Handle(h.create), createDoc),
		server.Op("PATCH /api/v1/products", server.Write,
			server.HandleUpdates[SeveralProducts](d, errUnknownProducts, h.update), updateSeveralDoc),
		server.Op("POST /api/v1/products/batch", server.Write, server.HandleBatch[SeveralProducts](d, h.create),
			createSeveralDoc),
		server.Op("POST /api/v1/products/import", server.Write,
			productImport.Endpoint(h.db), importDoc),
		server.Op("POST /api/v1/products/import/check", server.Write, productImport.CheckEndpoint(d), checkDoc),
		server.Op("GET /api/v1/products/{id}", server.Read, server.Handle(h.get), getDoc).Versioned(lockProduct),
		server.Op("GET /api/v1/products/by-number/{number}", server.Read, server.Handle(h.getByNumber), getByNumberDoc).
			Versioned(server.NoLock),
		server.Op("PATCH /api/v1/products/{id}", server.Write, server.Handle(h.update), updateDoc),
		server.Op("DELETE /api/v1/products/{id}", server.Write, server.Handle(h.delete), deleteDoc),
		server.Op("POST /api/v1/products/{id}/restore", server.Write, server.Handle(h.restore), restoreDoc),
		server.Op("POST /api/v1/products/from-file", server.Write,
			server.HandleStream(FileMedia, FileExample, slicer.MaxSize, h.readProduct, h.fromFile), fromFileDoc),
		server.Op("GET /api/v1/products/{id}/picture", server.Read, server.HandlePicture(h.getPicture), getPictureDoc),
		server.Op("PUT /api/v1/products/{id}/picture", server.Write,
			server.HandleStream(FileMedia, "", picture.MaxBytes, h.readPicture, h.setPicture), setPictureDoc),
		server.Op("DELETE /api/v1/products/{id}/picture", server.Write, server.Handle(h.deletePicture),
			deletePictureDoc),
		server.Op("POST /api/v1/products/{id}/materials", server.Write, server.Handle(h.addMaterial), addMaterialDoc),
		server.Op("PATCH /api/v1/products/{id}/materials/{material_id}", server.Write, server.Handle(h.updateMaterial),
			updateMaterialDoc),
		server.Op("DELETE /api/v1/products/{id}/materials/{material_id}", server.Write,
			server.Handle(h.deleteMaterial), deleteMaterialDoc),
		server.Op("POST /api/v1/products/{id}/components", server.Write, server.Handle(h.addComponent),
			addComponentDoc),
		server.Op("PATCH /api/v1/products/{id}/components/{component_id}", server.Write,
			server.Handle(h.updateComponent), updateComponentDoc),
		server.Op("DELETE /api/v1/products/{id}/components/{component_id}", server.Write,
			server.Handle(h.deleteComponent), deleteComponentDoc),
		server.Op("GET /api/v1/products/{id}/component-tree", server.Read, server.Handle(h.componentTree),
			componentTreeDoc),
		server.Op("POST /api/v1/products/{id}/variants", server.Write, server.Handle(h.addVariants), addVariantsDoc),
		server.Op("POST /api/v1/products/{id}/recalculate", server.Write, server.Handle(h.recalculate),
			recalculateDoc),
	}
}

type handlers struct{ db *db.DB }

// Product is a product in requests and in responses, except lists.
type Product struct {
	ID               value.UUID                    `json:"id" rule:"readOnly,notNull"`
	Name             value.Optional[string]        `json:"name" rule:"required,unless=variant_of"`
	Description      value.Optional[string]        `json:"description" rule:"maxLength=10000"`
	SKU              value.Optional[string]        `json:"sku"`
	Category         value.Optional[string]        `json:"category"`
	PrintMinutes     value.Optional[int64]         `json:"estimated_print_time_minutes" rule:"maximum=1000000"`
	Labour           value.Optional[value.Decimal] `json:"labour_minutes" rule:"maximum=1000000"`
	PerPlate         value.Optional[int64]         `json:"pieces_per_plate" rule:"minimum=1,maximum=1000000"`
	SellingPrice     value.Optional[value.Decimal] `json:"selling_price" rule:"maximum=1000000"`
	Notes            value.Optional[string]        `json:"notes" rule:"maxLength=10000"`
	Materials        []ProductMaterial             `json:"materials"`
	Components       []ProductComponent            `json:"components"`
	Plates           []ProductPlate                `json:"plates" rule:"patched,maxItems=100"` // as a sliced file
	FileName         value.Optional[string]        `json:"file_name"`
	FileSHA256       value.Optional[string]        `json:"file_sha256" rule:"maxLength=64"`
	SlicedBy         value.Optional[string]        `json:"sliced_by"`
	PrinterModel     value.Optional[string]        `json:"printer_model"`
	NozzleMM         value.Optional[value.Decimal] `json:"nozzle_mm" rule:"maximum=10"`
	LayerHeightMM    value.Optional[value.Decimal] `json:"layer_height_mm" rule:"maximum=10"`
	Minimum          value.Optional[int64]         `json:"minimum_pieces" rule:"minimum=1,maximum=1000000"`
	Location         value.Optional[string]        `json:"location"`
	MaterialCost     value.Decimal                 `json:"material_cost" rule:"readOnly,notNull"`
	ComponentCost    value.Decimal                 `json:"component_cost" rule:"readOnly,notNull"`
	TotalCost        value.Decimal                 `json:"total_cost" rule:"readOnly,notNull"`
	CostsComplete    bool                          `json:"costs_complete" rule:"readOnly,notNull"`
	OnHand           int64                         `json:"on_hand" rule:"readOnly,notNull"`
	Reserved         int64                         `json:"reserved" rule:"readOnly,notNull"`
	Available        int64                         `json:"available" rule:"readOnly,notNull"`
	Incoming         int64                         `json:"incoming" rule:"readOnly,notNull"`
	Missing          int64                         `json:"missing" rule:"readOnly,notNull"`
	PieceCost        value.Decimal                 `json:"piece_cost" rule:"readOnly"`
	PieceValue       value.Decimal                 `json:"piece_value" rule:"readOnly,notNull"`
	Number           int64                         `json:"number" rule:"readOnly,notNull"`
	PictureVersion   string                        `json:"picture_version" rule:"readOnly"`
	CreatedAt        value.Timestamp               `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt        value.Timestamp               `json:"updated_at" rule:"readOnly,notNull"`
	VariantOf        value.Optional[value.UUID]    `json:"variant_of"`
	VariantOfSKU     value.Optional[string]        `json:"variant_of_sku" rule:"writeOnly,notNull,insteadOf=variant_of,optional"`
	VariantMaterials []VariantMaterial             `json:"variant_materials" rule:"patched,maxItems=100"`
	PlateOf          value.UUID                    `json:"plate_of" rule:"readOnly"`
	Plate            int64                         `json:"plate" rule:"readOnly"`
	HiddenAt         value.Timestamp               `json:"hidden_at" rule:"readOnly"`
	HiddenBy         value.UUID                    `json:"hidden_by" rule:"readOnly"`
	Hider            string                        `json:"hidden_by_name" rule:"readOnly,unsorted"`
}

// ProductListItem is a product in lists.
type ProductListItem struct {
	ID             value.UUID      `json:"id" rule:"readOnly,notNull"`
	Number         int64           `json:"number" rule:"readOnly,notNull"`
	Name           string          `json:"name" rule:"readOnly,notNull"`
	Description    string          `json:"description" rule:"readOnly"`
	SKU            string          `json:"sku" rule:"readOnly"`
	Category       string          `json:"category" rule:"readOnly"`
	PrintMinutes   int64           `json:"estimated_print_time_minutes" rule:"readOnly"`
	Labour         value.Decimal   `json:"labour_minutes" rule:"readOnly"`
	PerPlate       int64           `json:"pieces_per_plate" rule:"readOnly"`
	SellingPrice   value.Decimal   `json:"selling_price" rule:"readOnly"`
	Minimum        int64           `json:"minimum_pieces" rule:"readOnly"`
	Location       string          `json:"location" rule:"readOnly"`
	MaterialCost   value.Decimal   `json:"material_cost" rule:"readOnly,notNull"`
	TotalCost      value.Decimal   `json:"total_cost" rule:"readOnly,notNull"`
	Complete       bool            `json:"costs_complete" rule:"readOnly,notNull"`
	OnHand         int64           `json:"on_hand" rule:"readOnly,notNull,unsorted"`
	FileName       string          `json:"file_name" rule:"readOnly"`
	FileSHA256     string          `json:"file_sha256" rule:"readOnly"`
	PrinterModel   string          `json:"printer_model" rule:"readOnly"`
	PictureVersion string          `json:"picture_version" rule:"readOnly"`
	CreatedAt      value.Timestamp `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt      value.Timestamp `json:"updated_at" rule:"readOnly,notNull"`
	VariantOf      value.UUID      `json:"variant_of" rule:"readOnly"`
	VariantCount   int64           `json:"variant_count" rule:"readOnly,notNull,unsorted"`
	PlateOf        value.UUID      `json:"plate_of" rule:"readOnly"`
	Plate          int64           `json:"plate" rule:"readOnly"`
	HiddenAt       value.Timestamp `json:"hidden_at" rule:"readOnly"`
	HiddenBy       value.UUID      `json:"hidden_by" rule:"readOnly"`
	Hider          string          `json:"hidden_by_name" rule:"readOnly,unsorted"`
}

// ProductFilter selects products.
type ProductFilter struct {
	Category           value.Optional[string]                    `query:"category"`
	SKU                value.Optional[string]                    `query:"sku"`
	Location           value.Optional[string]                    `query:"location"`
	ComponentProductID value.Optional[value.UUID]                `query:"component_product_id"`
	FileName           value.Optional[string]                    `query:"file_name"`
	FileSHA256         value.Optional[string]                    `query:"file_sha256"`
	PlateOf            value.Optional[value.UUID]                `query:"plate_of"`
	VariantOf          value.Optional[value.Several[value.UUID]] `query:"variant_of"`
	Plates             value.Optional[bool]                      `query:"plates"`
	Variants           value.Optional[bool]                      `query:"variants"`
	CreatedFrom        value.Optional[value.Moment]              `query:"created_from"`
	CreatedTo          value.Optional[value.Moment]              `query:"created_to"`
	Search             value.Optional[string]                    `query:"search" rule:"search"`
	server.Hiding
}

var listDoc = &server.Doc{
	ID: "listProducts", Tag: Tag, Summary: "List products",
	Description: "All filters but `search` and `updated_from` use an index. These, and a `sort_by` without an index, " +
		"read all matching products. A list leaves out plates unless the request has `plates`, `plate_of` or `id`. " +
		"`variants=false` leaves out variants.",
}

func (f ProductFilter) list() *server.List {
	counted := "products"
	if f.Plates.Or(false) || !f.Variants.Or(true) {
		counted = ""
	}
	l := server.NewHidingList("products", `id, number, name, description, sku, category, estimated_print_time_minutes,
		labour_minutes, pieces_per_plate, selling_price, minimum_pieces, location,
		coalesce((select s.on_hand from product_pieces s where s.product_id = products.id), 0) as on_hand,
		material_cost, total_cost, costs_complete, file_name, file_sha256, printer_model, picture_version, created_at,
		updated_at, variant_of, (
			select count(*) from products v
			where v.variant_of = products.id and v.plate_of is null and v.hidden_at is null) as variant_count,
		plate_of, plate, hidden_at, `+auth.HiddenBy, counted, server.Hiding{ID: f.ID, Hidden: f.Hidden})
	l.Since(f.UpdatedFrom, nil)
	if !f.Plates.Or(!f.ID.IsNull() || !f.PlateOf.IsNull()) {
		l.And("plate_of is null")
	}
	if !f.Variants.Or(true) {
		l.And("variant_of is null")
	}
	l.WhereEqual("plate_of", f.PlateOf)
	if of := f.VariantOf.Or(nil); len(of) == 1 { // an order by time can use the index
		l.Where("variant_of = ?::uuid", of[0])
	} else if len(of) > 1 {
		l.Where("variant_of = any (?::uuid[])", f.VariantOf.Arg())
	}
	l.WhereText("category_key", f.Category)
	l.WhereText("sku_key", f.SKU)
	l.WhereText("location_key", f.Location)
	l.Among(`select product_id as id from product_components where component_product_id = ?`, f.ComponentProductID)
	l.WhereEqual("file_name", f.FileName)
	l.WhereEqual("file_sha256", f.FileSHA256)
	l.Between("created_at", f.CreatedFrom, f.CreatedTo)
	l.Search(f.Search)
	return l
}

// exported is list for an export, which has plates by default, but not those of variants, which follow.
func (f ProductFilter) exported() *server.List {
	f.Plates = value.Some(f.Plates.Or(true))
	l := f.list()
	l.And("(plate_of is null or variant_of is null)")
	return l
}

// getProduct and getProductByNumber are one statement, so that the lists and the costs come from one snapshot.
var (
	getProduct = selectProducts + stockOfProduct + `
	where p.hidden_at is null and p.id = $1`
	getProductByNumber = selectProducts + stockOfProduct + `
	where p.hidden_at is null and p.id = (select n.id from products n where n.number = $1)`
)

// materialsOf returns a SQL expression for the materials of a product. id is a SQL expression for its id.
func materialsOf(id string) string {
	return `(select coalesce(json_agg(json_build_object(
				'id', m.id, 'filament_id', m.filament_id, 'material_type', m.material_type,
				'material_name', m.material_name, 'color', m.color, 'diameter_mm', trim_scale(m.diameter_mm),
				'brand', (select f.vendor_name from filaments f where f.id = m.filament_id),
				'weight_grams', trim_scale(m.weight_grams), 'is_required', m.is_required,
				'notes', m.notes, 'cost', trim_scale(m.cost), 'cost_basis', m.cost_basis) order by m.created_at, m.id), '[]')
			from product_materials m where m.product_id = ` + id + `)`
}

// stockOfProduct is a join for selectProducts with the pieces of its product, and stockOfAll one for many products:
// the same for all of them, it is called once for a page. The function is in orders/stock/pieces.sql.
const (
	stockOfProduct = ` left join lateral product_stock(array[p.id]) k on true`
	stockOfAll     = ` left join product_stock(null) k on k.product_id = p.id`
)

// selectProducts must be followed by stockOfProduct or stockOfAll.
var selectProducts = `
	select p.id, p.number, p.name, p.description, p.sku, p.category, p.estimated_print_time_minutes, p.labour_minutes,
		p.pieces_per_plate, p.selling_price, p.notes,
		` + materialsOf("p.id") + ` as materials,
		(select coalesce(json_agg(json_build_object(
				'id', c.id, 'component_product_id', c.component_product_id, 'component_name', s.name,
				'quantity', c.quantity, 'notes', c.notes, 'unit_cost', trim_scale(s.total_cost),
				'cost', trim_scale(c.quantity * s.total_cost)) order by c.created_at, c.id), '[]')
			from product_components c join products s on s.id = c.component_product_id
			where c.product_id = p.id) as components,
		` + selectPlates + ` as plates,
		p.file_name, p.file_sha256, p.sliced_by, p.printer_model,
		trim_scale(p.nozzle_mm) as nozzle_mm, trim_scale(p.layer_height_mm) as layer_height_mm,
		p.minimum_pieces, p.location,
		p.material_cost, p.component_cost, p.total_cost, p.costs_complete,
		coalesce(s.on_hand, 0) as on_hand, coalesce(k.reserved, 0) as reserved,
		coalesce(s.on_hand, 0) - coalesce(k.reserved, 0) as available, coalesce(k.incoming, 0) as incoming,
		least(coalesce(k.missing, 0), 999999999) as missing,
		round(s.value / nullif(greatest(s.on_hand, 0) - s.unvalued, 0), 6) as piece_cost,
		coalesce(s.value, 0) as piece_value,
		p.picture_version, p.created_at, p.updated_at, p.variant_of,
		` + variantMaterials + ` as variant_materials, p.plate_of, p.plate, p.hidden_at, ` + auth.HiddenBy + `
	from products p
	left join product_pieces s on s.product_id = p.id`

var getDoc = &server.Doc{
	ID: "getProduct", Tag: Tag, Summary: "Get a product",
	Description: "Returns the product with its materials, its components and its costs.",
}

func (h handlers) get(ctx context.Context, r *server.Request[struct{}]) (server.OK[Product], error) {
	return h.read(ctx, r.ID("id"))
}

func (h handlers) read(ctx context.Context, id string) (server.OK[Product], error) {
	product := db.SQL(getProduct, id)
	return server.One(product, h.db.Read(ctx, product))
}

var getByNumberDoc = &server.Doc{
	ID: "getProductByNumber", Tag: Tag, Summary: "Get the product with a number",
	Description: "Returns the same as `getProduct` for the number on the label of a box of pieces.",
}

func (h handlers) getByNumber(ctx context.Context, r *server.Request[struct{}]) (server.OK[Product], error) {
	product := db.SQL(getProductByNumber, r.Number())
	return server.One(product, h.db.Read(ctx, product))
}

// Named returns a subquery that finds the product with the id or, if the id is null, with the SKU. It does not find a
// hidden product.
func Named(id, sku string) string {
	return `(
				(select * from products p where p.id = ` + id + ` and p.hidden_at is null)
				union all
				(select * from products p where ` + id + ` is null and p.sku = ` + sku + ` and p.sku <> ''
					and p.hidden_at is null)
			)`
}

var (
	errDuplicateSKU = server.Conflict("DUPLICATE_SKU", "Another product has the SKU %s", "DRG-001").On("sku")
	errInUse        = server.BadRequest("PRODUCT_IN_USE", "The product is a component of %s", "Dragon")
	errHiddenPart   = server.Conflict("COMPONENT_HIDDEN", "The component %s was removed; restore it first", "Wing")
)

var (
	errUnknownComponents = server.BadRequest("UNKNOWN_REFERENCE", "Not a product: %s", "components[1].sku").
				On("components[1].sku")
	errDuplicateEntry = server.Conflict("DUPLICATE_COMPONENT", "%s is the same product as %s", "components[1].sku",
		"components[0].component_product_id").On("components[1].sku")
)

var createDoc = &server.Doc{
	ID: "createProduct", Tag: Tag, Summary: "Create a product",
	Description: "The request may contain the product's materials and components, all or nothing. Errors name the " +
		"entry, such as `components[1].sku`. The costs are computed from the current spool prices. " +
		"A `sku` that is not empty must be unique.\n\n" + plateRules + "\n\n" + variantRules,
	Errors: []*server.Error{errDuplicateSKU, errUnknownComponents, errDuplicateEntry, errUnknownFilament,
		errFilamentField, errUnknownPlates, errUnknownBase, errVariantField, errVariantLimit},
	// The example has no SKU, so that users can send it more than once.
	Request: `{"name":"Dragon","description":"Articulated dragon","category":"Toys","estimated_print_time_minutes":180,` +
		`"notes":"0.2 mm layers, no supports"}`,
}

func (h handlers) create(ctx context.Context, r *server.Request[Product]) (server.Created[Product], error) {
	if !r.In.VariantOf.IsNull() || r.In.VariantOfSKU.Or("") != "" {
		return h.createVariant(ctx, &r.In)
	}
	if len(r.In.VariantMaterials) > 0 {
		return nil, server.Invalid("variant_materials", "must be empty without variant_of")
	}
	return h.insert(ctx, value.NewID(), &r.In)
}

// skuError converts the error that another product has the SKU of the request.
func skuError(err error, in *Product) error {
	if db.Violates(err, "products_sku") {
		return errDuplicateSKU.With(in.SKU.Or(language.Sprintf("of the request"))).Because(err)
	}
	return err
}

func (h handlers) insert(ctx context.Context, id string, in *Product) (server.Created[Product], error) {
	var added, expensive bool // expensive: the components together cost too much
	var unknown []int32       // the indexes of unknown components
	var twice []int32         // the indexes of the first repeated component and of the component that it repeats
	statements := []*db.Stmt{db.SQL(`
		with component as materialized (
			select c.*, p.id as product, c.quantity * p.total_cost as cost,
				first_value(c.n) over (partition by p.id order by c.n) as first
			from json_to_recordset($8::json) c (n int, id uuid, component_product_id uuid, sku text, quantity int,
				notes text)
			left join lateral `+Named("c.component_product_id", "c.sku")+` p on p.plate_of is null
		), checked as materialized (
			select array(select n from component where product is null order by n) as unknown,
				coalesce((select array[n, first] from component where product is not null and first < n
					order by n limit 1), '{}') as twice,
				(select coalesce(sum(cost), 0) > 999999999 from component) as expensive
		), added as (
			insert into products (id, number, name, description, sku, category, estimated_print_time_minutes, notes,
				labour_minutes, pieces_per_plate, selling_price, file_name, file_sha256, sliced_by, printer_model, nozzle_mm,
				layer_height_mm, minimum_pieces, location)
			select $1::uuid, next_number('products', 1, 1), $2, $3, $4, $5, $6::int, $7, $9::numeric, $10::int,
				$11::numeric, $12, $13, $14, $15, $16::numeric, $17::numeric, $18::int, $19 from checked
			where cardinality(unknown || twice) = 0 and not expensive
				and not exists (select from products o where o.sku = $4 and o.sku <> '' and o.hidden_at is null)
			returning id
		), parts as (
			insert into product_components (id, product_id, component_product_id, quantity, notes)
			select c.id, a.id, c.product, c.quantity, c.notes from added a, component c order by c.n
		)
		select exists (select from added), unknown, twice, expensive from checked`,
		id, in.Name.Arg(), in.Description.Arg(), in.SKU.Arg(), in.Category.Arg(), in.PrintMinutes.Arg(),
		in.Notes.Arg(), componentRows(in.Components), in.Labour.Arg(), in.PerPlate.Arg(),
		in.SellingPrice.Arg(), in.FileName.Arg(), in.FileSHA256.Arg(), in.SlicedBy.Arg(), in.PrinterModel.Arg(),
		in.NozzleMM.Arg(), in.LayerHeightMM.Arg(), in.Minimum.Arg(), in.Location.Arg()).
		Into(&added, &unknown, &twice, &expensive)}
	ids := make([]string, len(in.Materials))
	for i := range ids {
		ids[i] = value.NewID()
	}
	if len(in.Materials)+len(in.Components) > 0 {
		statements = slices.Concat([]*db.Stmt{lockCatalog()}, statements, []*db.Stmt{
			addMaterials(id, in.Materials, ids),
			db.SQL(`select recompute_costs(array[id], false) from products where id = $1`, id)})
	}
	var plates *plateWrite
	if len(in.Plates) > 0 {
		plates = setPlates(id, in.Plates)
		if len(in.Components) == 0 {
			statements = append([]*db.Stmt{lockCatalog()}, statements...)
		}
		statements = append(statements, plates.set)
	}
	product := db.SQL(getProduct, id)
	err := h.db.Write(ctx, append(statements, product)...)
	field := func(i int32) string { return fmt.Sprintf("components[%d].%s", i, in.Components[i].productField()) }
	switch {
	case db.Violates(err, "products_sku"): // a concurrent create
		return nil, errDuplicateSKU.With(in.SKU.Or(""))
	case plates != nil && err != nil:
		return nil, plates.err(err)
	case db.Violates(err, "products_levels_range"):
		return nil, server.Invalid("components", tooManyLevels).Because(err)
	case err != nil:
		return nil, costError(in.filamentError(err, ids), "materials")
	case expensive:
		return nil, server.Invalid("components", costTooLarge)
	case len(unknown) > 0:
		var fields, shown []string
		for _, i := range unknown {
			fields, shown = append(fields, field(i)), append(shown, server.WithValue(field(i), in.Components[i].SKU))
		}
		return nil, errUnknownComponents.With(server.JoinFields(shown)).On(fields...)
	case len(twice) > 0:
		return nil, errDuplicateEntry.With(field(twice[0]), field(twice[1])).On(field(twice[0]))
	case !added:
		return nil, errDuplicateSKU.With(in.SKU.Or(""))
	}
	return product.Object(), nil
}

// filamentError calls ProductMaterial.filamentError for the material whose id is in the error.
func (p *Product) filamentError(err error, ids []string) error {
	if i := slices.Index(ids, db.Detail(err)); i >= 0 {
		return p.Materials[i].filamentError(err, fmt.Sprintf("materials[%d].", i))
	}
	return err
}

var updateDoc = &server.Doc{
	ID: "updateProduct", Tag: Tag, Summary: "Update a product",
	Description: "Materials and components have their own operations. This operation ignores `materials`, " +
		"`components` and the costs.\n\n" + plateRules + "\n\nA plate with the `id` of an existing plate keeps the fields " +
		"that the request omits; its `materials`, if present, replace those of the plate. A plate without `id` is a new " +
		"one. A plate that is not in the list is hidden and no longer belongs to the product.\n\n" + variantRules,
	Errors: []*server.Error{errDuplicateSKU, errUnknownPlates, errPlateOfPlate, errUnknownFilament, errFilamentField,
		errVariantField, errVariantLimit},
}

const plateRules = "`plates` are the plates of a product that is printed on several plates. The request sets all of " +
	"them or none; errors name the field, such as `plates[1].materials[0].color`. Each plate is a product of its own " +
	"and a component of the product; like every product, it has the print time and the filament of one piece. A " +
	"product with plates has no print time, `pieces_per_plate` or required materials of its own. `docs/pieces.md` has " +
	"the rules."

func (h handlers) update(ctx context.Context, r *server.Request[Product]) (server.OK[Product], error) {
	return h.change(ctx, r.ID("id"), &r.In)
}

// change updates the fields of a product that are set.
func (h handlers) change(ctx context.Context, id string, in *Product) (server.OK[Product], error) {
	if in.VariantOfSKU.Set {
		return nil, errVariantField.With("variant_of_sku").On("variant_of_sku")
	}
	own := *in // but variant_of, which never changes
	own.VariantOf = value.Optional[value.UUID]{}
	set, args := server.Assignments(&own, []any{id, in.SKU.Arg()})
	if set == "" && in.Plates == nil && in.VariantMaterials == nil && !in.VariantOf.Set {
		return h.read(ctx, id)
	}
	changed := db.SQL(`
		update products set `+strings.TrimPrefix(set+", updated_at = now()", ", ")+`
		where id = $1 and hidden_at is null and variant_of is null
			and not exists (select from products other
				where other.sku = $2::text and other.sku <> '' and other.id <> $1 and other.hidden_at is null)
		returning id`, args...)
	variant := in.writeVariant(id)
	statements := []*db.Stmt{lockCatalog(), changed, variant}
	var plates *plateWrite
	if in.Plates != nil {
		plates = setPlates(id, in.Plates)
		statements = []*db.Stmt{lockCatalog(), notVariant(id, "plates"), changed, variant, plates.set}
	}
	product := db.SQL(getProduct, id)
	err := h.db.Write(ctx, append(statements, deriveVariants(id), product)...)
	switch {
	case db.Violates(err, "products_sku"): // of a variant
		return nil, skuError(err, in)
	case err != nil:
		return nil, plates.err(costError(variantError(err, "", in.VariantMaterials), "variant_materials"))
	case product.Rows() == 0:
		return nil, server.ErrNotFound
	case changed.Rows()+variant.Rows() == 0:
		return nil, errDuplicateSKU.With(in.SKU.Or(""))
	}
	return product.Object(), nil
}

var deleteDoc = &server.Doc{
	ID: "deleteProduct", Tag: Tag, Summary: "Remove a product",
	Description: "Hides the product: lists no longer contain it, and requests with its id return 404. Orders and " +
		"production runs keep its name. Another product can use its SKU. A component of another product cannot be " +
		"removed. `GET /api/v1/products?hidden=true` lists hidden products, and `restoreProduct` shows one again. The " +
		"plates of the product are hidden and restored with it; `removeProductComponent` removes a single plate. A product " +
		"with variants cannot be removed.",
	Errors: []*server.Error{errInUse, errHasVariants},
}

func (h handlers) delete(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	var parent, variant *string
	product := db.SQL(`
		with product as (
			select p.id, (
				select u.name from product_components c join products u on u.id = c.product_id
				where c.component_product_id = p.id and u.hidden_at is null limit 1
			) as parent, (
				select v.name from products v
				where v.variant_of = p.id and v.hidden_at is null order by v.created_at, v.id limit 1
			) as variant
			from products p where p.id = $1 and p.hidden_at is null
		), hidden as (
			update products p set hidden_at = now(), updated_at = now() from product
			where product.parent is null and product.variant is null
				and (p.id = product.id or p.plate_of = product.id and p.hidden_at is null)
			returning p.plate_of
		)
		select parent, variant, count_rows('products', -(select count(*) from hidden where plate_of is null))
		from product`, r.ID("id")).Into(&parent, &variant, nil)
	if err := server.Found(product, h.db.Write(ctx, lockCatalog(), product)); err != nil {
		return nil, err
	}
	if parent != nil {
		return nil, errInUse.With(*parent)
	}
	if variant != nil {
		return nil, errHasVariants.With(*variant)
	}
	return nil, nil
}

var restoreDoc = &server.Doc{
	ID: "restoreProduct", Tag: Tag, Summary: "Restore a removed product",
	Description: "Restores a removed product with its materials and components. Its costs are computed again from the " +
		"current spool prices. It cannot be restored while another product has its SKU (`DUPLICATE_SKU`), or while one of " +
		"its components is hidden (`COMPONENT_HIDDEN`). For a product that is not hidden, the operation changes nothing " +
		"and returns the product.\n\nA restored plate is again one of its product's plates, with the next free number if " +
		"another plate has its number. Its product must not be hidden (`PRODUCT_HIDDEN`). A restored variant is " +
		"again as its product, which must not be hidden either.",
	Errors: []*server.Error{errDuplicateSKU.On(), errHiddenPart, errPlateHidden, errVariantLimit},
}

func (h handlers) restore(ctx context.Context, r *server.Request[struct{}]) (server.OK[Product], error) {
	// The SKU if another product has it, and the names of a hidden component and of the hidden product of a plate.
	var sku, part, owner *string
	checked := db.SQL(`
		with product as (
			select p.id, (
				select o.sku from products o
				where o.sku = p.sku and o.sku <> '' and o.id <> p.id and o.hidden_at is null limit 1
			) as sku, (
				select s.name from product_components c
				join products s on s.id = c.component_product_id
				where c.product_id = p.id and p.variant_of is null and s.hidden_at is not null
					and s.plate_of is distinct from p.id limit 1
			) as part, (
				select o.name from products o where o.id in (p.plate_of, p.variant_of) and o.hidden_at is not null limit 1
			) as owner
			from products p where p.id = $1 and p.hidden_at is not null
		), restored as (
			update products p set hidden_at = null, updated_at = now() from product
			where product.sku is null and product.part is null and product.owner is null and (p.id = product.id
				or p.plate_of = product.id and exists (
					select from product_components c where c.product_id = product.id and c.component_product_id = p.id))
			returning p.plate_of
		)
		select sku, part, owner, count_rows('products', (select count(*) from restored where plate_of is null))
		from product`, r.ID("id")).Into(&sku, &part, &owner, nil)
	recomputed := db.SQL(`select restore_plates(id) from products
		where id = $1 and updated_at = now()`, r.ID("id"))
	product := db.SQL(getProduct, r.ID("id"))
	err := h.db.Write(ctx, lockCatalog(), checked, recomputed, deriveVariants(r.ID("id")), product)
	switch {
	case db.Violates(err, "products_sku"): // a concurrent change
		return nil, errDuplicateSKU.With(language.Sprintf("of this one")).On().Because(err)
	case db.Violates(err, "products_levels_range"):
		return nil, server.Invalid("components", tooManyLevels).Because(err)
	case err != nil:
		return nil, costError(err, "total_cost")
	case part != nil:
		return nil, errHiddenPart.With(*part)
	case owner != nil:
		return nil, errPlateHidden.With(*owner)
	case sku != nil:
		return nil, errDuplicateSKU.With(*sku).On()
	}
	return server.One(product, nil)
}

// SeveralProducts is the result of a request on several products.
type SeveralProducts struct {
	Items []Product `json:"items" rule:"readOnly,notNull"`
}

var errUnknownProducts = server.BadRequest("UNKNOWN_REFERENCE", "Not a product: %s", "items[1].id").On("items[1].id")

var (
	createSeveralDoc = server.BatchDoc(createDoc, "products",
		`{"items":[{"name":"Dragon","selling_price":12.5},{"name":"Hook"}]}`)
	updateSeveralDoc = server.UpdatesDoc(updateDoc, "product", errUnknownProducts,
		`{"items":[{"id":"018d0c4f-7a00-7c3e-8b5a-1f2e3d4c5b6a","changes":{"selling_price":24.9}}]}`)
)

// Commands are the catalog's commands.
var Commands = []cli.Command{importCommand(), Export.Command("products")}

// Export writes all products with their bills of materials.
var Export = transfer.Export[Product]("products", 50,
	transfer.ListPage(ProductFilter.exported, strings.Replace(selectProducts, materialsOf("p.id"),
		materialsOf("case when p.variant_of is null then p.id end"), 1)+stockOfAll+`
		where p.id = page.id`))

var exportDoc = &server.Doc{
	ID: "exportProducts", Tag: Tag, Summary: "Export products",
	Description: transfer.ExportDescription + "material and each component of a product, with the fields of the " +
		"product repeated, and one row for a product that has neither. The materials and plates of variants, which follow, " +
		"are left out. Products are in the order of their creation.",
}
