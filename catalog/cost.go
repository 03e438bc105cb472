package catalog

import (
	"context"
	"embed"
	"errors"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

//go:embed *.sql
var functions embed.FS

// Definitions are the SQL functions of products: recompute_costs, which calls filament_prices of inventory, and
// explode_products, product_bom, the default of a product's number, and the functions of plates, of variants and of
// pieces in stock, which other packages call in their own statements.
var Definitions = db.Definitions("catalog", functions, "costs", "explode", "bom", "number", "plates", "variants",
	"pieces")

// lockCatalog locks the tenant's catalog until the end of the transaction. It must be the first statement of every
// write that depends on the tree of components or on costs. Otherwise two concurrent writes together could close a
// cycle, or one write could compute a cost from a cost that the other write is about to change.
func lockCatalog() *db.Stmt { return db.Lock("catalog") }

// lockProduct is the server.Lock of a product. All changes of a bill of materials or of costs lock the catalog.
func lockProduct(ids ...string) []*db.Stmt {
	return []*db.Stmt{lockCatalog(), lockBase(ids[0]),
		db.SQL(`select id from products where id = $1 for no key update`, ids[0])}
}

const costTooLarge = "makes a cost of this product, or of a product that contains it, larger than 999,999,999"

// costError returns an error of the field if err reports that the cost of a product is too large. The product may be
// the changed product or a product that contains the changed product. It also converts the errors of variants.
func costError(err error, field string) error {
	if errors.Is(err, db.ErrOutOfRange) || db.Violates(err, "products_cost_range") ||
		db.Violates(err, "product_materials_cost_range") {
		return server.Invalid(field, costTooLarge).Because(err)
	}
	return variantError(err, "", nil)
}

// Costs is the response to recalculate.
type Costs struct {
	ID            value.UUID    `json:"id" rule:"readOnly,notNull"`
	MaterialCost  value.Decimal `json:"material_cost" rule:"readOnly,notNull"`
	ComponentCost value.Decimal `json:"component_cost" rule:"readOnly,notNull"`
	TotalCost     value.Decimal `json:"total_cost" rule:"readOnly,notNull"`
	CostsComplete bool          `json:"costs_complete" rule:"readOnly,notNull"`
	Currency      string        `json:"currency" rule:"readOnly"`
	CostBreakdown CostBreakdown `json:"cost_breakdown" rule:"readOnly,notNull"`
}

// CostBreakdown lists the parts of a product's costs.
type CostBreakdown struct {
	Materials  []MaterialShare  `json:"materials"`
	Components []ComponentShare `json:"components"`
}

// MaterialShare is a material in a CostBreakdown.
type MaterialShare struct {
	Material string        `json:"material" rule:"readOnly,notNull"`
	Weight   value.Decimal `json:"weight" rule:"readOnly,notNull"`
	Cost     value.Decimal `json:"cost" rule:"readOnly"`
}

// ComponentShare is a component in a CostBreakdown.
type ComponentShare struct {
	Component string        `json:"component" rule:"readOnly,notNull"`
	Quantity  int64         `json:"quantity" rule:"readOnly,notNull"`
	Cost      value.Decimal `json:"cost" rule:"readOnly,notNull"`
}

var recalculateDoc = &server.Doc{
	ID: "recalculateProduct", Tag: Tag, Summary: "Recalculate costs",
	// filament_prices (inventory/prices.sql) has the rule for prices. This text describes the rule for clients.
	Description: "Recomputes the costs of this product and of all products that it contains, directly or through " +
		"others, from the current spool prices. Then it recomputes the costs of all products that contain any of " +
		"these. The same is done for its variants.\n\n" +
		"The price per gram of a material is the mean `cost_per_gram` of the spools of that material and color " +
		"(as in `addProductMaterial`), weighted by their remaining weight. If they are all empty, it is the plain " +
		"mean. If no spool of that color has a price, the same applies to the spools of that material in any " +
		"color. A material that names a filament has the price of that filament's spools; if they have none, it has the " +
		"price of the material and color. Filament with a different `material_name` or diameter is a different material. " +
		"Spools without a price and removed spools do not count. The price is not rounded; a cost is rounded to six " +
		"decimal places. Without any price, `cost` is null, and the sums do not include the material. If such a material " +
		"is required, `costs_complete` is false, also in all products that contain this one.",
}

func (h handlers) recalculate(ctx context.Context, r *server.Request[struct{}]) (server.OK[Costs], error) {
	recomputed := db.SQL(`
		select recompute_costs(id || array(select v.id from products v where v.variant_of = p.id and v.hidden_at is null),
			true) from products p where id = $1 and hidden_at is null`, r.ID("id"))
	costs := db.SQL(`
		select `+CostColumns+`
		from products p where p.id = $1 and p.hidden_at is null`, r.ID("id"))
	return server.One(costs, costError(h.db.Write(ctx, lockCatalog(), recomputed, costs), "total_cost"))
}

// CostColumns are the columns of Costs for the table p of products.
const CostColumns = `p.id, p.material_cost, p.component_cost, p.total_cost, p.costs_complete,
			(select t.currency from tenants t where t.tenant_id = p.tenant_id) as currency, json_build_object(
			'materials', (
				select coalesce(json_agg(json_build_object(
					'material', material_label(m.material_type, m.material_name) || ' ' || m.color,
					'weight', trim_scale(m.weight_grams), 'cost', trim_scale(m.cost))
					order by m.created_at, m.id), '[]')
				from product_materials m where m.product_id = p.id),
			'components', (
				select coalesce(json_agg(json_build_object('component', s.name, 'quantity', c.quantity,
					'cost', trim_scale(c.quantity * s.total_cost)) order by c.created_at, c.id), '[]')
				from product_components c join products s on s.id = c.component_product_id where c.product_id = p.id)
			) as cost_breakdown`
