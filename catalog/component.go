package catalog

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// ProductComponent is a component of a product: another product that one piece of it contains.
type ProductComponent struct {
	ID        value.UUID                 `json:"id" rule:"readOnly,notNull"`
	ProductID value.Optional[value.UUID] `json:"component_product_id" rule:"notNull"`
	SKU       value.Optional[string]     `json:"sku" rule:"writeOnly,notNull,insteadOf=component_product_id"`
	Name      string                     `json:"component_name" rule:"readOnly,notNull"`
	Quantity  value.Optional[int64]      `json:"quantity" rule:"notNull,minimum=1,maximum=1000000"`
	Notes     value.Optional[string]     `json:"notes" rule:"maxLength=2000"`
	UnitCost  value.Decimal              `json:"unit_cost" rule:"readOnly,notNull"`
	Cost      value.Decimal              `json:"cost" rule:"readOnly,notNull"`
}

// productField returns the field in which the request names the contained product.
func (c *ProductComponent) productField() string {
	if c.SKU.IsNull() {
		return "component_product_id"
	}
	return "sku"
}

// costField returns the field to report if the request makes a cost too large.
func (c *ProductComponent) costField() string {
	switch {
	case c.Quantity.Set:
		return "quantity"
	case c.ProductID.Set || c.SKU.Set:
		return c.productField()
	}
	return "total_cost" // because of the current prices
}

func getComponent(product, id string) *db.Stmt {
	return db.SQL(`
		select c.id, c.component_product_id, s.name as component_name, c.quantity, c.notes,
			s.total_cost as unit_cost, c.quantity * s.total_cost as cost
		from product_components c join products s on s.id = c.component_product_id
		where c.product_id = $1 and c.id = $2
			and exists (select from products p where p.id = $1 and p.hidden_at is null)`, product, id)
}

// checkComponent returns the beginning of a statement that adds or changes component $2 of product $1. $3 is the id,
// or $4 the SKU, of the contained product. If both are null, the component keeps its contained product. The CTE
// "named" has the id of the contained product. The CTE "checked" has one row with the column problem: the code of an
// error, or null if the change is allowed. target is a query that returns a row if the product, or the component to
// change, exists.
func checkComponent(target string) string {
	return `
	with recursive named as materialized (
		select p.id from (select) always left join lateral ` + Named("$3::uuid", "$4::text") + ` p on true
	), below (id) as (
		select n.id from named n union
		select c.component_product_id from below b join product_components c on c.product_id = b.id
	), checked as materialized (
		select case
			when not exists (` + target + `) then 'NOT_FOUND'
			when $3::uuid is null and $4::text is null then null
			when exists (select from product_components o
				join products s on s.id = o.component_product_id and s.plate_of = $1
				where o.product_id = $1 and o.id = $2 and o.component_product_id is distinct from n.id) then 'COMPONENT_IS_PLATE'
			when n.id is null or exists (select from products s where s.id = n.id and s.plate_of <> $1)
				then 'UNKNOWN_REFERENCE'
			when exists (select from below b join products v on v.id = b.id where $1 in (v.id, v.variant_of))
				then 'COMPONENT_CYCLE'
			when exists (select from product_components o
				where o.product_id = $1 and o.component_product_id = n.id and o.id <> $2) then 'DUPLICATE_COMPONENT'
			when not exists (select from product_components o where o.id = $2)
				and (select count(*) from product_components o where o.product_id = $1) >= ` +
		strconv.Itoa(server.MaxEntries) + ` then 'TOO_MANY_COMPONENTS'
		end as problem
		from named n
	)`
}

// componentErrors are the errors whose codes checkComponent returns, except NOT_FOUND.
var componentErrors = []*server.Error{
	server.BadRequest("UNKNOWN_REFERENCE", "%s does not name a product", "component_product_id").
		On("component_product_id"),
	server.BadRequest("COMPONENT_CYCLE",
		"The product would contain itself: %s names this product or one that contains it", "component_product_id").
		On("component_product_id"),
	server.Conflict("DUPLICATE_COMPONENT",
		"The product already has the component that %s names; change its quantity instead", "component_product_id").
		On("component_product_id"),
	errIsPlate.On("component_product_id"),
}

// tooManyLevels is the message of the error if recompute_costs rejects components because they nest too deep.
const tooManyLevels = "nests components more than 50 levels deep"

// write runs the statement change and then the statement component, which reads the component. change begins with
// checkComponent and returns the problem and the id of the recomputed product.
func (h handlers) write(ctx context.Context, product string, in *ProductComponent, change, component *db.Stmt) error {
	var problem, recomputed *string
	err := h.db.Write(ctx, lockCatalog(), notVariant(product, "components"), change.Into(&problem, &recomputed),
		deriveVariants(product), component)
	switch {
	case db.Violates(err, "products_levels_range"):
		return server.Invalid(in.productField(), tooManyLevels).Because(err)
	case err != nil:
		return costError(err, in.costField())
	case problem == nil:
		return nil
	case *problem == "TOO_MANY_COMPONENTS":
		return server.TooManyEntries("components")
	}
	for _, e := range componentErrors {
		if e.Code == *problem {
			return e.With(server.WithValue(in.productField(), in.SKU)).On(in.productField())
		}
	}
	return server.ErrNotFound
}

var addComponentDoc = &server.Doc{
	ID: "addProductComponent", Tag: Tag, Summary: "Add a component to a product",
	Description: "A component is another product, named by `component_product_id` or `sku`. A product must not " +
		"contain itself, directly or through other products (`COMPONENT_CYCLE`), and can have a component only once " +
		"(`DUPLICATE_COMPONENT`). A plate is a component of its product only. Components nest at most 50 levels deep. " +
		costsFollow,
	Errors: append(slices.Clone(componentErrors[:3]), errComponents, errVariantLimit),
}

func (h handlers) addComponent(
	ctx context.Context, r *server.Request[ProductComponent],
) (server.Created[ProductComponent], error) {
	product, id, in := r.ID("id"), value.NewID(), &r.In
	component := getComponent(product, id)
	added := db.SQL(checkComponent(`select from products p where p.id = $1 and p.hidden_at is null`)+`, component as (
			insert into product_components (id, product_id, component_product_id, quantity, notes)
			select $2::uuid, $1::uuid, n.id, $5::int, $6::text from checked, named n where problem is null
			returning product_id
		)
		select problem, (select recompute_costs(array[product_id], false)::text from component) from checked`,
		product, id, in.ProductID.Arg(), in.SKU.Arg(), in.Quantity.Or(1), in.Notes.Arg())
	if err := h.write(ctx, product, in, added, component); err != nil {
		return nil, err
	}
	return component.Object(), nil
}

// componentRows returns the components as an argument for json_to_recordset, with new ids.
func componentRows(components []ProductComponent) string {
	rows := make([]map[string]any, len(components))
	for i, c := range components {
		rows[i] = map[string]any{"id": value.NewID(), "component_product_id": c.ProductID.Arg(), "sku": c.SKU.Arg(),
			"quantity": c.Quantity.Or(1), "notes": c.Notes.Arg()}
	}
	return db.Recordset(rows)
}

var updateComponentDoc = &server.Doc{
	ID: "updateProductComponent", Tag: Tag, Summary: "Update a component of a product",
	Description: "A new `component_product_id` or `sku` must meet the same conditions as when a component is added. " +
		costsFollow,
	Errors: append(slices.Clone(componentErrors), errComponents),
}

func (h handlers) updateComponent(
	ctx context.Context, r *server.Request[ProductComponent],
) (server.OK[ProductComponent], error) {
	product, id := r.ID("id"), r.ID("component_id")
	component := getComponent(product, id)
	var err error
	set, args := server.Assignments(&r.In, []any{product, id, r.In.ProductID.Arg(), r.In.SKU.Arg()})
	if r.In.SKU.Set {
		set = strings.TrimPrefix(set+", component_product_id = (select n.id from named n)", ", ")
	}
	if set == "" {
		err = h.db.Read(ctx, component)
	} else {
		change := db.SQL(checkComponent(`
				select from product_components c join products p on p.id = c.product_id
				where c.product_id = $1 and c.id = $2 and p.hidden_at is null`)+`, component as (
				update product_components set `+set+`
				from checked where problem is null and product_id = $1 and id = $2
				returning product_id
			)
			select problem, (select recompute_costs(array[product_id], false)::text from component) from checked`,
			args...)
		err = h.write(ctx, product, &r.In, change, component)
	}
	return server.One(component, err)
}

var deleteComponentDoc = &server.Doc{
	ID: "removeProductComponent", Tag: Tag, Summary: "Remove a component from a product",
	Description: costsFollow + " If the component is a plate of the product, it is hidden; `restoreProduct` makes it " +
		"one of the product's plates again.",
	Errors: []*server.Error{errComponents},
}

func (h handlers) deleteComponent(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	removed := db.SQL(`
		with component as (
			delete from product_components
			where product_id = $1 and id = $2
				and exists (select from products p where p.id = $1 and p.hidden_at is null)
			returning product_id, component_product_id, quantity
		), plate as (
			update products p set hidden_at = now(), updated_at = now(), plate_quantity = c.quantity from component c
			where p.id = c.component_product_id and p.plate_of = c.product_id
		)
		select recompute_costs(array[product_id], false) from component`, r.ID("id"), r.ID("component_id"))
	err := h.db.Write(ctx, lockCatalog(), notVariant(r.ID("id"), "components"), removed, deriveVariants(r.ID("id")))
	return nil, server.Found(removed, costError(err, "total_cost"))
}

// ComponentTree has the components of a product through all levels.
type ComponentTree struct {
	ProductID value.UUID           `json:"product_id" rule:"readOnly,notNull"`
	TotalCost value.Decimal        `json:"total_cost" rule:"readOnly,notNull"`
	Entries   []ComponentTreeEntry `json:"entries" rule:"readOnly,notNull"`
	Complete  bool                 `json:"entries_complete" rule:"readOnly,notNull"`
}

// ComponentTreeEntry is a component in a ComponentTree.
type ComponentTreeEntry struct {
	ID            value.UUID    `json:"id" rule:"readOnly,notNull"`
	Level         int64         `json:"level" rule:"readOnly,notNull"`
	ProductID     value.UUID    `json:"component_product_id" rule:"readOnly,notNull"`
	Name          string        `json:"component_name" rule:"readOnly,notNull"`
	Quantity      int64         `json:"quantity" rule:"readOnly,notNull"`
	TotalQuantity value.Decimal `json:"total_quantity" rule:"readOnly"`
	MaterialCost  value.Decimal `json:"material_cost" rule:"readOnly,notNull"`
	Cost          value.Decimal `json:"cost" rule:"readOnly,notNull"`
	CostsComplete bool          `json:"costs_complete" rule:"readOnly,notNull"`
}

// TreeQuery is the query of a ComponentTree.
type TreeQuery struct {
	Limit value.Optional[int64] `query:"limit" rule:"minimum=1,maximum=500,default=500"`
}

var componentTreeDoc = &server.Doc{
	ID: "getProductComponentTree", Tag: Tag, Summary: "Get the components of a product through all levels",
	Description: "`entries` are in the order of the tree: each component is followed by its own components, whose " +
		"`level` is one higher. A product that occurs several times has an entry each time. The quantities and costs of " +
		"an entry are those in one piece of the product at `id`.\n\n" +
		"If there are more than `limit` entries, the tree has those of the highest levels, and " +
		"`entries_complete` is false. Request the tree of a component to see its other entries.",
}

func (h handlers) componentTree(
	ctx context.Context, r *server.Request[TreeQuery],
) (server.OK[ComponentTree], error) {
	// PostgreSQL computes one level after another, and stops when it has enough rows for the limit.
	tree := db.SQL(`
		with recursive tree (id, component_product_id, quantity, created_at, level, pieces) as (
			(select c.id, c.component_product_id, c.quantity, c.created_at, 1, c.quantity::numeric
			from product_components c where c.product_id = $1 order by c.created_at, c.id)
			union all
			select c.id, c.component_product_id, c.quantity, c.created_at, t.level + 1, t.pieces * c.quantity
			from tree t cross join lateral (
				select * from product_components c where c.product_id = t.component_product_id
				order by c.created_at, c.id offset 0
			) c
		) search depth first by created_at, id set place,
		numbered as materialized (
			select t.*, t.place, row_number() over () as n from tree t limit $2::int + 1
		)
		select p.id as product_id, p.total_cost, (
				select coalesce(json_agg(json_build_object('id', e.id, 'level', e.level,
					'component_product_id', e.component_product_id, 'component_name', s.name, 'quantity', e.quantity,
					'total_quantity', case when e.pieces <= 999999999 then e.pieces end,
					'material_cost', trim_scale(e.pieces * s.material_cost),
					'cost', trim_scale(e.pieces * s.total_cost), 'costs_complete', s.costs_complete)
					order by e.place), '[]')
				from numbered e
				cross join lateral (select * from products s where s.id = e.component_product_id offset 0) s
				where e.n <= $2
			) as entries, (select count(*) from numbered) <= $2 as entries_complete
		from products p where p.id = $1 and p.hidden_at is null`, r.ID("id"), r.In.Limit.Or(500))
	return server.One(tree, h.db.Read(ctx, tree))
}
