package catalog

import (
	"context"
	_ "embed"
	"errors"

	"spoolwright/db"
	"spoolwright/server"
)

//go:embed costs.sql
var costsSQL string

// Definitions are the SQL functions of products: recompute_costs, which calls filament_prices of inventory.
var Definitions = []db.Definition{{Name: "catalog/costs", Version: 1, SQL: costsSQL}}

// lockCatalog goes first in every write that depends on the tree or on costs. It makes these writes of one tenant wait for
// each other, so that each sees the whole tree as the last one left it: no two can close a circle from both ends, and no
// cost is computed from another that is about to change. It is held to the end of the transaction.
func lockCatalog() *db.Stmt {
	return db.SQL(`select pg_advisory_xact_lock(hashtextextended('catalog ' || current_setting('app.tenant_id'), 0))::text`)
}

// tooLarge names the field that led to a cost which is out of range, here or in a product further up.
func tooLarge(err error, field string) error {
	if errors.Is(err, db.ErrOutOfRange) || db.Violates(err, "products_cost_range") || db.Violates(err, "product_materials_cost_range") {
		return server.Invalid(field, "makes a cost of this product, or of one that contains it, larger than 999,999,999").Because(err)
	}
	return err
}

// Costs is the answer to recalculate.
type Costs struct {
	ID            server.UUID    `json:"id" rule:"readOnly,notNull" doc:"The product's id." example:"\"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2b01\""`
	MaterialCost  server.Decimal `json:"material_cost" rule:"readOnly,notNull" doc:"The sum of the materials' costs." example:"1.125"`
	ComponentCost server.Decimal `json:"component_cost" rule:"readOnly,notNull" doc:"The sum of the components' costs." example:"0.5"`
	TotalCost     server.Decimal `json:"total_cost" rule:"readOnly,notNull" doc:"Both together." example:"1.625"`
	CostBreakdown CostBreakdown  `json:"cost_breakdown" rule:"readOnly,notNull" doc:"What the costs are made of."`
}

// CostBreakdown is what a product's costs are made of.
type CostBreakdown struct {
	Materials  []MaterialShare  `json:"materials" doc:"The product's own materials, oldest entry first."`
	Components []ComponentShare `json:"components" doc:"The product's components, oldest entry first."`
}

// MaterialShare is a material in a CostBreakdown.
type MaterialShare struct {
	Material string         `json:"material" rule:"readOnly,notNull" doc:"The material and its colour." example:"\"PLA Black\""`
	Weight   server.Decimal `json:"weight" rule:"readOnly,notNull" doc:"Grams of it." example:"45"`
	Cost     server.Decimal `json:"cost" rule:"readOnly" doc:"What they cost; null if no spool tells a price." example:"1.125"`
}

// ComponentShare is a component in a CostBreakdown.
type ComponentShare struct {
	Component string         `json:"component" rule:"readOnly,notNull" doc:"The component's name." example:"\"Wing\""`
	Quantity  int64          `json:"quantity" rule:"readOnly,notNull" doc:"How many." example:"2"`
	Cost      server.Decimal `json:"cost" rule:"readOnly,notNull" doc:"What these cost together." example:"0.5"`
}

var recalculateDoc = &server.Doc{
	ID: "recalculateProduct", Tag: tag, Summary: "Recalculate costs",
	Description: "Recomputes the costs from today's spool prices: of all products below this one, bottom up, of this one, and then of every product that contains any of these.\n\n" + priceDescription,
}

// priceDescription tells users the price rule, which is inventory's.
const priceDescription = "The price per gram of a material is the mean `cost_per_gram` of the priced spools in stock of that material and colour (without regard to case), weighted by what remains on them; " +
	"without any, the plain mean over all its priced spools of that material and colour; else the same two over that material in any colour. Removed spools never count. " +
	"The price is not rounded; a cost is rounded to six decimals. If no spool tells a price, `cost` is null and adds nothing."

func (h handlers) recalculate(ctx context.Context, r *server.Request[struct{}]) (server.OK[Costs], error) {
	recomputed := db.SQL(`select recompute_costs(id, true) from products where id = $1 and hidden_at is null`, r.ID("id"))
	costs := db.SQL(`
		select p.id, p.material_cost, p.component_cost, p.total_cost, json_build_object(
			'materials', (
				select coalesce(json_agg(json_build_object('material', m.material_type || ' ' || m.color, 'weight', trim_scale(m.weight_grams),
					'cost', trim_scale(m.cost)) order by m.created_at, m.id), '[]')
				from product_materials m where m.product_id = p.id),
			'components', (
				select coalesce(json_agg(json_build_object('component', s.name, 'quantity', c.quantity,
					'cost', trim_scale(c.quantity * s.total_cost)) order by c.created_at, c.id), '[]')
				from product_components c join products s on s.id = c.component_product_id where c.product_id = p.id)
			) as cost_breakdown
		from products p where p.id = $1 and p.hidden_at is null`, r.ID("id"))
	return server.One(costs, tooLarge(h.db.Write(ctx, lockCatalog(), recomputed, costs), "total_cost"))
}
