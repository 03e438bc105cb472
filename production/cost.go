package production

import (
	"context"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// CostPart is a part of a cost, or the revenue, or the currency of the revenue.
type CostPart string

// Enum returns all parts.
func (CostPart) Enum() []string {
	return []string{"filament", "waste", "machine", "energy", "labour", "stock", "failures", "revenue", "currency"}
}

// UnknownParts lists the parts whose amounts are not known.
type UnknownParts = value.Optional[value.Set[CostPart]]

// ProductCosts is the response with the costs of a product.
type ProductCosts struct {
	catalog.Costs
	FullCosts
}

// ProductCostListItem is a product with its costs in a list.
type ProductCostListItem struct {
	ID value.UUID `json:"id" rule:"notNull"`
	FullCosts
}

// ProductCostList is the response with the costs of several products.
type ProductCostList struct {
	Items []ProductCostListItem `json:"items" rule:"notNull"`
}

// FullCosts is the expected cost of a product, and what remains of its price.
type FullCosts struct {
	Full    value.Decimal    `json:"full_cost"`
	Parts   ProductCostParts `json:"full_cost_parts" rule:"notNull"`
	Unknown UnknownParts     `json:"unknown_parts" rule:"readOnly,notNull,empty"`
	Price   value.Decimal    `json:"selling_price"`
	Net     value.Decimal    `json:"net_price"`
	Margin  value.Decimal    `json:"margin"`
	Percent value.Decimal    `json:"margin_percent"`
}

// SelectedProducts is the query that selects the products of listProductCosts.
type SelectedProducts struct {
	IDs value.Optional[value.Several[value.UUID]] `query:"ids"`
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
	Description: "Returns the stored filament costs of the product, like `recalculateProduct`, and the full expected " +
		"cost of one good piece at the rates of `getSettings`.\n\n" +
		"The machine and the energy follow from the `estimated_print_time_minutes` of the product and its components, " +
		"and from `machine_hour_cost` and `machine_power_watts` of the settings. The labour follows from the " +
		"`labour_minutes` of the product and its components. If f % " +
		"of the pieces fail, each good piece also pays the filament, machine and energy of f / (100 - f) failed ones. " +
		"With `failure_rate_measured`, f comes from the runs of the product that `completeProductionRun` and " +
		"`failProductionRun` ended in the last 90 days, at most from the newest 1,000 items.\n\n" +
		"A part is null, and in `unknown_parts`, if a value that it depends on is unknown; `full_cost` and `margin` are " +
		"then computed from the other parts. A rate of 0 leaves a part out.\n\nThe margin is computed from `net_price`: " +
		"the `selling_price` without the `sales_tax_percent` of the settings, if `prices_include_tax`.",
}

// fullCosts lists the columns of FullCosts, for the table p of products and the row f of costsOf.
const fullCosts = `trim_scale(f.full_cost) as full_cost, json_build_object('filament', trim_scale(f.filament),
			'machine', trim_scale(f.machine), 'energy', trim_scale(f.energy), 'labour', trim_scale(f.labour),
			'failures', trim_scale(f.failures)) as full_cost_parts,
		to_json(unknown_parts('{filament,machine,energy,labour,failures}',
			array[f.filament, f.machine, f.energy, f.labour, f.failures])) as unknown_parts,
		trim_scale(p.selling_price) as selling_price, trim_scale(f.net_price) as net_price,
		trim_scale(f.net_price - f.full_cost) as margin,
		trim_scale(round((f.net_price - f.full_cost) * 100 / nullif(f.net_price, 0), 1)) as margin_percent`

// costsOf returns SQL for the rows f with the expected costs of products. The parameter is a SQL expression for their
// ids.
func costsOf(ids string) string {
	return `(
			select c.*, known_sum(array[c.filament, c.machine, c.energy, c.labour, c.failures]) as full_cost,
				rounded_quotient(p.selling_price * 100, 100 + t.percent) as net_price
			from product_costs(` + ids + `) c
			cross join lateral (select p.selling_price from products p where p.id = c.id offset 0) p
			cross join (select case when prices_include_tax then sales_tax_percent else 0 end as percent from tenants) t
		) f`
}

func (h handlers) productCosts(ctx context.Context, r *server.Request[struct{}]) (server.OK[ProductCosts], error) {
	costs := db.SQL(`
		select `+catalog.CostColumns+`, `+fullCosts+`
		from products p cross join lateral `+costsOf(`array[p.id]`)+`
		where p.id = $1 and p.hidden_at is null`, r.ID("id"))
	return server.One(costs, h.db.Read(ctx, costs))
}

var listCostsDoc = &server.Doc{
	ID: "listProductCosts", Tag: catalog.Tag, Summary: "Get the costs of several products",
	Description: "Returns the full expected cost of one good piece of each product in `ids`, and its margin, like " +
		"`getProductCostBreakdown`. The products are in the order of `ids`. Removed and unknown products are left out. " +
		"Without `ids`, there are no products.",
}

func (h handlers) listCosts(
	ctx context.Context, r *server.Request[SelectedProducts],
) (server.OK[ProductCostList], error) {
	costs := db.SQL(`
		select coalesce(json_agg(to_json(i) order by array_position($1::uuid[], i.id)), '[]') as items
		from (
			select p.id, `+fullCosts+`
			from `+costsOf(`array(select distinct s.id from unnest($1::uuid[]) s (id))`)+`
			cross join lateral (
				select p.id, p.selling_price from products p where p.id = f.id and p.hidden_at is null offset 0
			) p
		) i`, r.In.IDs.Arg())
	return server.One(costs, h.db.Read(ctx, costs))
}
