package production

import (
	"context"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// CostPart is a part of a cost, or the revenue from which it is subtracted.
type CostPart string

// Enum returns all parts.
func (CostPart) Enum() []string {
	return []string{"filament", "waste", "machine", "energy", "labour", "failures", "revenue"}
}

// UnknownParts lists the parts whose amounts are not known.
type UnknownParts = value.Optional[value.Set[CostPart]]

// ProductCosts is the expected cost of a product.
type ProductCosts struct {
	catalog.Costs
	Full    value.Decimal    `json:"full_cost"`
	Parts   ProductCostParts `json:"full_cost_parts" rule:"notNull"`
	Unknown UnknownParts     `json:"unknown_parts" rule:"readOnly,notNull,empty"`
	Price   value.Decimal    `json:"selling_price"`
	Margin  value.Decimal    `json:"margin"`
	Percent value.Decimal    `json:"margin_percent"`
}

// ProductCostParts are the parts of the full cost of a product.
type ProductCostParts struct {
	Filament value.Decimal `json:"filament"`
	Machine  value.Decimal `json:"machine"`
	Energy   value.Decimal `json:"energy"`
	Labour   value.Decimal `json:"labour"`
	Failures value.Decimal `json:"failures"`
}

var productCostsDoc = &server.Doc{
	ID: "getProductCostBreakdown", Tag: catalog.Tag, Summary: "Get the costs of a product",
	Description: "Returns the stored costs of the product, as `recalculateProduct` does, which are those of its " +
		"filament, and beside them what one good piece is expected to cost in full at the rates of `getSettings`.\n\n" +
		"The machine and the energy follow from the `estimated_print_time_minutes` of the product and its components, " +
		"and from `machine_hour_cost` and `machine_power_watts` of the settings. The labour follows from the " +
		"`labour_minutes` of the product and its components. If f % " +
		"of the pieces fail, each good piece also pays the filament, machine and energy of f / (100 - f) failed ones. " +
		"With `failure_rate_measured`, f comes from the runs of the product that `completeProductionRun` and " +
		"`failProductionRun` ended in the last 90 days, at most from the newest 1,000 items.\n\n" +
		"A part is null, and in `unknown_parts`, if something that it follows from is unknown; `full_cost` and " +
		"`margin` are then those of the other parts. A rate of 0 leaves a part out.",
}

func (h handlers) productCosts(ctx context.Context, r *server.Request[struct{}]) (server.OK[ProductCosts], error) {
	costs := db.SQL(`
		select `+catalog.CostColumns+`, f.full_cost, json_build_object('filament', trim_scale(f.filament),
				'machine', trim_scale(f.machine), 'energy', trim_scale(f.energy), 'labour', trim_scale(f.labour),
				'failures', trim_scale(f.failures)) as full_cost_parts,
			to_json(unknown_parts('{filament,machine,energy,labour,failures}',
				array[f.filament, f.machine, f.energy, f.labour, f.failures])) as unknown_parts,
			p.selling_price, p.selling_price - f.full_cost as margin,
			round((p.selling_price - f.full_cost) * 100 / nullif(p.selling_price, 0), 1) as margin_percent
		from products p
		cross join lateral (
			select c.*, known_sum(array[c.filament, c.machine, c.energy, c.labour, c.failures]) as full_cost
			from product_costs(array[p.id]) c
		) f
		where p.id = $1 and p.hidden_at is null`, r.ID("id"))
	return server.One(costs, h.db.Read(ctx, costs))
}
