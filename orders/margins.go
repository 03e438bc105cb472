package orders

import (
	"context"
	"strconv"
	"strings"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/production"
	"spoolwright/server"
)

// MarginGroup is what a group of the margins report has in common.
type MarginGroup string

// Enum returns all groups.
func (MarginGroup) Enum() []string {
	return []string{"product", "order", "customer", "month", "printer"}
}

// MarginQuery are the parameters of the margins report.
type MarginQuery struct {
	GroupBy server.Optional[MarginGroup] `query:"group_by" rule:"default=product"`
	inventory.Period
}

// MarginReport is what the runs that ended in a period cost, and the revenue of their pieces.
type MarginReport struct {
	From     server.Date `json:"from" rule:"notNull"`
	To       server.Date `json:"to" rule:"notNull"`
	GroupBy  MarginGroup `json:"group_by" rule:"notNull"`
	Currency string      `json:"currency"`
	Money
	Groups int64             `json:"groups" rule:"notNull"`
	Items  []MarginReportRow `json:"items"`
}

// MarginReportRow is a group of the margins report.
type MarginReportRow struct {
	ProductID server.UUID `json:"product_id"`
	Product   string      `json:"product_name"`
	OrderID   server.UUID `json:"order_id"`
	Reference string      `json:"reference"`
	Customer  string      `json:"customer"`
	Start     server.Date `json:"start"`
	PrinterID server.UUID `json:"printer_id"`
	Printer   string      `json:"printer_name"`
	Money
}

// Money is the revenue and the cost of pieces.
type Money struct {
	Revenue server.Decimal          `json:"revenue"`
	Cost    server.Decimal          `json:"cost"`
	Parts   production.RunCostParts `json:"cost_parts" rule:"notNull"`
	Margin  server.Decimal          `json:"margin"`
	Percent server.Decimal          `json:"margin_percent"`
	Unknown production.UnknownParts `json:"unknown_parts" rule:"readOnly,notNull,empty"`
	Runs    int64                   `json:"runs" rule:"notNull"`
	Pieces  int64                   `json:"pieces" rule:"notNull"`
	Failed  int64                   `json:"failed_pieces" rule:"notNull"`
}

var marginReportDoc = &server.Doc{
	ID: "reportMargins", Tag: inventory.ReportsTag, Summary: "Report revenue, costs and margins",
	Description: "Adds up what the runs cost that `completeProductionRun`, `failProductionRun` and " +
		"`cancelProductionRun` ended, by the day of that, also of runs that were removed since, and the revenue of " +
		"their good pieces. A good piece of a completed run has the `unit_price` of the order's item that it was " +
		"printed for, unless the order is cancelled, or has as many pieces already. Other pieces have no revenue: they " +
		"are in stock.\n\n" +
		"The items of a run share its cost as `getOrder` says. A group whose field is null has the runs without a " +
		"product, order, customer or printer. `month` returns the first day of each, oldest first; the other groups " +
		"have the largest revenue first. `pieces` are good ones.\n\n" +
		"Each amount is the sum of what is known, and null if nothing is. `unknown_parts` names the parts that are " +
		"unknown for some run, and revenue if an item of an order has no price. A report has at most 1,000 groups; the " +
		"other fields are totals of all runs.",
}

// marginGroups are, for each group, the grouping key and the fields that it fills.
var marginGroups = map[MarginGroup]struct{ key, fields string }{
	"product":  {"product_id", "product_id"},
	"order":    {"order_id", "order_id reference customer"},
	"customer": {"customer_key", "customer"},
	"month":    {"start", "start"},
	"printer":  {"coalesce(printer_id::text, printer_key)", "printer_id printer_name"},
}

func (h handlers) reportMargins(ctx context.Context, r *server.Request[MarginQuery]) (server.OK[MarginReport], error) {
	by := r.In.GroupBy.Or("product")
	group := marginGroups[by]
	var row strings.Builder
	for _, f := range []struct{ name, sql string }{
		{"product_id", "product_id"},
		{"product_name", "(select p.name from products p where p.tenant_id = $1 and p.id = g.product_id)"},
		{"order_id", "order_id"}, {"reference", "reference"}, {"customer", "customer"}, {"start", "start"},
		{"printer_id", "printer_id"}, {"printer_name", "printer_name"},
	} {
		value := "null"
		if strings.Contains(" "+group.fields+" ", " "+f.name+" ") || f.name == "product_name" && by == "product" {
			value = f.sql
		}
		row.WriteString("'" + f.name + "', " + value + ", ")
	}
	order := "g.revenue desc nulls last, g.cost desc nulls last, g.key"
	if by == "month" {
		order = "g.start"
	}
	report := db.SQL(`
		with `+inventory.PeriodSQL+`, line as materialized (
			select r.id, share_of(r.filament_cost, s.low, s.high, s.total) as filament,
				share_of(r.waste_cost, s.low, s.high, s.total) as waste,
				share_of(r.machine_cost, s.low, s.high, s.total) as machine,
				share_of(r.energy_cost, s.low, s.high, s.total) as energy,
				share_of(r.labour_cost, s.low, s.high, s.total) as labour,
				r.printer_id, r.printer_key, r.printer_name, s.item, s.product_id,
				date_trunc('month', r.deducted_at at time zone p.zone)::date as start,
				o.id as order_id, o.reference, o.customer, o.customer_key, o.item_id as order_item_id, o.quantity, o.unit_price,
				o.status <> 'cancelled' as sells, n.good, n.failed
			from period p cross join production_runs r
			cross join lateral (
				select s.id as item, s.product_id, s.order_item_id, coalesce(s.low, 0) as low,
					coalesce(s.high, 1) as high, coalesce(s.total, 1) as total, s.quantity,
					s.successful_quantity, s.failed_quantity
				from (select) always left join run_shares(r.id) s on true
			) s
			cross join lateral run_item_pieces(r.status, s.quantity, s.successful_quantity, s.failed_quantity) n
			left join lateral (
				select i.id as item_id, i.quantity, i.unit_price, o.*
				from (select * from order_items i where i.tenant_id = $1 and i.id = s.order_item_id offset 0) i
				cross join lateral (
					select o.id, o.reference, o.customer, o.customer_key, o.status from orders o
					where o.tenant_id = $1 and o.id = i.order_id offset 0
				) o
			) o on true
			where r.tenant_id = $1 and r.status in ('completed', 'failed', 'cancelled') and r.deducted_at is not null
				and r.deducted_at >= p.first::timestamp at time zone p.zone
				and r.deducted_at < p.until::timestamp at time zone p.zone
		), sold as materialized (
			select n.item, least(n.good, greatest(u.quantity - coalesce(n.before, 0), 0)) as pieces
			from (select distinct l.order_item_id, l.quantity from line l where l.sells and l.good > 0) u
			cross join lateral (
				select i.id as item, n.good, sum(n.good) over (order by r.deducted_at, i.run_id, i.id
					rows between unbounded preceding and 1 preceding) as before
				from run_items i
				cross join lateral (
					select r.status, r.deducted_at from production_runs r
					where r.tenant_id = $1 and r.id = i.run_id and r.deducted_at is not null offset 0
				) r
				cross join lateral run_item_pieces(r.status, i.quantity, i.successful_quantity, i.failed_quantity) n
				where i.tenant_id = $1 and i.order_item_id = u.order_item_id
			) n
		), priced as (
			select l.*, nullif(s.pieces, 0) * l.unit_price as revenue, s.pieces > 0 and l.unit_price is null as unpriced
			from line l left join sold s on s.item = l.item
		), grouped as materialized (
			select g.*, g.revenue - g.cost as margin,
				round((g.revenue - g.cost) * 100 / nullif(g.revenue, 0), 1) as margin_percent
			from (
				select grouping(`+group.key+`) = 1 as is_total, `+group.key+`::text as key,
					min(product_id::text)::uuid as product_id, min(order_id::text)::uuid as order_id,
					min(reference) as reference, min(customer) as customer, min(start) as start,
					min(printer_id::text)::uuid as printer_id, min(printer_name) as printer_name,
					case when sum(revenue) is null and bool_or(unpriced) then null
						else coalesce(sum(revenue), 0) end as revenue,
					case when count(*) = 0 then 0 else known_sum(array[sum(filament), sum(waste), sum(machine),
						sum(energy), sum(labour)]) end as cost,
					json_build_object('filament', trim_scale(sum(filament)), 'waste', trim_scale(sum(waste)),
						'machine', trim_scale(sum(machine)), 'energy', trim_scale(sum(energy)),
						'labour', trim_scale(sum(labour))) as cost_parts,
					incomplete_parts('{filament,waste,machine,energy,labour}', array[count(filament), count(waste),
						count(machine), count(energy), count(labour)], count(*)) ||
						case when bool_or(unpriced) then '{revenue}'::text[] else '{}' end as unknown,
					count(distinct id) as runs, coalesce(sum(good), 0) as pieces, coalesce(sum(failed), 0) as failed
				from priced group by grouping sets ((`+group.key+`), ())
			) g
		)
		select p.first as "from", p.until - 1 as "to", '`+string(by)+`' as group_by, p.currency, t.revenue, t.cost,
			t.cost_parts, t.margin, t.margin_percent, to_json(t.unknown) as unknown_parts, t.runs, t.pieces,
			t.failed as failed_pieces, (select count(*) from grouped g where not g.is_total) as groups,
			(select coalesce(json_agg(json_build_object(`+row.String()+`
					'revenue', trim_scale(g.revenue), 'cost', trim_scale(g.cost), 'cost_parts', g.cost_parts,
					'margin', trim_scale(g.margin), 'margin_percent', trim_scale(g.margin_percent),
					'unknown_parts', g.unknown, 'runs', g.runs, 'pieces', g.pieces, 'failed_pieces', g.failed)
					order by `+order+`), '[]')
				from (select * from grouped g where not g.is_total order by `+order+` limit `+
		strconv.Itoa(inventory.MaxGroups)+`) g) as items
		from period p, grouped t where t.is_total`, r.In.Args(ctx)...)
	return server.One(report, h.db.Read(ctx, db.AllowScans(), report))
}
