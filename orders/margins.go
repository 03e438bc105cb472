package orders

import (
	"context"
	"strconv"
	"strings"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/production"
	"spoolwright/server"
	"spoolwright/value"
)

// MarginGroup is the field by which the margins report groups its rows.
type MarginGroup string

// Enum returns all groups.
func (MarginGroup) Enum() []string {
	return []string{"product", "variant", "order", "customer", "month", "printer"}
}

// MarginQuery are the parameters of the margins report.
type MarginQuery struct {
	GroupBy value.Optional[MarginGroup] `query:"group_by" rule:"default=product"`
	production.Period
}

// MarginReport has the cost of the runs that ended in a period, and the revenue of their pieces.
type MarginReport struct {
	From     value.Date  `json:"from" rule:"notNull"`
	To       value.Date  `json:"to" rule:"notNull"`
	GroupBy  MarginGroup `json:"group_by" rule:"notNull"`
	Currency string      `json:"currency"`
	Money
	Losses MarginLosses      `json:"losses" rule:"notNull"`
	Groups int64             `json:"groups" rule:"notNull"`
	Items  []MarginReportRow `json:"items"`
}

// MarginLosses are the parts of the cost that belong to no order and to no piece in stock, by their cause.
type MarginLosses struct {
	Scrapped  value.Decimal `json:"scrapped" rule:"notNull"`
	Counted   value.Decimal `json:"counted" rule:"notNull"`
	Corrected value.Decimal `json:"corrected" rule:"notNull"`
	Assembled value.Decimal `json:"assembled" rule:"notNull"`
	Unsettled value.Decimal `json:"unsettled" rule:"notNull"`
}

// MarginReportRow is a group of the margins report.
type MarginReportRow struct {
	ProductID value.UUID `json:"product_id"`
	Product   string     `json:"product_name"`
	OrderID   value.UUID `json:"order_id"`
	Reference string     `json:"reference"`
	Customer  string     `json:"customer"`
	Start     value.Date `json:"start"`
	PrinterID value.UUID `json:"printer_id"`
	Printer   string     `json:"printer_name"`
	Money
}

// Money is the revenue and the cost of pieces.
type Money struct {
	Revenue value.Decimal           `json:"revenue"`
	Cost    value.Decimal           `json:"cost"`
	Parts   OrderCostParts          `json:"cost_parts" rule:"notNull"`
	Margin  value.Decimal           `json:"margin"`
	Percent value.Decimal           `json:"margin_percent"`
	Waiting value.Decimal           `json:"waiting_cost" rule:"notNull"`
	Unknown production.UnknownParts `json:"unknown_parts" rule:"readOnly,notNull,empty"`
	Runs    int64                   `json:"runs" rule:"notNull"`
	Pieces  int64                   `json:"pieces" rule:"notNull"`
	Failed  int64                   `json:"failed_pieces" rule:"notNull"`
}

var marginReportDoc = &server.Doc{
	ID: "reportMargins", Tag: inventory.ReportsTag, Summary: "Report revenue, costs and margins",
	Description: "Adds up the costs of runs that `completeProductionRun`, `failProductionRun` or " +
		"`cancelProductionRun` ended, by the day of their `completed_at`, also of runs that were removed since, and " +
		"the revenue of their good pieces, without tax and in the currency of the farm. A good piece of a completed " +
		"run has its share of the price of the order's item that it was printed for, unless the item already has all " +
		"its pieces, the order is cancelled or was removed while it was open, or the item was withdrawn. Other pieces " +
		"have no revenue: they are in stock.\n\nThe part `stock` is the cost of pieces taken from stock less the cost " +
		"of pieces brought into it. It is negative for a run that brings pieces into stock, so that the `cost` of the " +
		"run has only the pieces that its orders keep. Pieces that an order took from stock have their revenue and " +
		"their cost on the day of the last delivery. Pieces that were scrapped, or were missing at a count, are a " +
		"cost of that day; pieces that a count found lower the cost. Parts of a kit whose cost is unknown because of " +
		"other parts are a cost of the day of the assembly. `losses` adds these costs up by their cause. Each amount " +
		"that was spent is thus either in the report, once, or in the value of the stock that `reportPieces` returns. " +
		"Only `waiting_cost` is in both: the cost of pieces that were printed for open orders and wait in stock. " +
		"Pieces in stock without a completely known cost stay in the cost of their run.\n\nThe items of a run share " +
		"its cost as described at `getOrder`. The group whose field is null has everything without a product, order, " +
		"customer or printer; a printer has its current name. Groups by `month` have the first day of the month, and " +
		"the oldest comes first; of the other groups, the one with the largest revenue comes first. Groups by `product` " +
		"include its variants, and those by `variant` do not. `pieces` are the " +
		"good pieces of the runs.\n\nEach amount is the sum of the known amounts, or null if none is known. " +
		"`unknown_parts` names the parts that are unknown for some run or pieces, revenue if an item of an order has " +
		"no price, and currency if its order has another currency and no `exchange_rate`. A report has at most 1,000 " +
		"groups; the other fields are totals of all runs.",
}

// marginGroups has the grouping key of each group, and the report fields that the key fills.
var marginGroups = map[MarginGroup]struct{ key, fields string }{
	"product":  {marginProduct, "product_id product_name"},
	"variant":  {marginProduct, "product_id product_name"},
	"order":    {"order_id", "order_id reference customer"},
	"customer": {"customer_key", "customer"},
	"month":    {"start", "start"},
	"printer":  {"coalesce(printer_id::text, printer_key)", "printer_id printer_name"},
}

// marginProduct is the product of a row or, by product, the one that it is a variant of.
const marginProduct = "coalesce(variant_of, product_id)"

// marginLines is the first part of the WITH clause of reportMargins. Its relation priced has the revenue and the costs
// of the period: a row for each item of a run, and rows for what happened to pieces without a run. The column loss has
// the cause of a cost for which there is no order or run.
const marginLines = `
	period as materialized (select * from report_period($1, $2, $3)), line as materialized (
		select r.id, l.*, r.printer_id, r.printer_key, r.printer_name,
			date_trunc('month', r.ended_at at time zone p.zone)::date as start,
			o.id as order_id, o.reference, o.customer, o.customer_key,
			order_rate(o.currency, o.exchange_rate) is null as foreign_money
		from period p cross join production_runs r
		cross join lateral run_lines(r.id) l
		left join lateral (
			select o.*
			from (select i.order_id from order_items i where i.tenant_id = $1 and i.id = l.order_item_id) i
			join orders o on o.tenant_id = $1 and o.id = i.order_id
		) o on true
		where r.tenant_id = $1 and r.status in ('completed', 'failed', 'cancelled') and r.ended_at is not null
			and r.ended_at >= p.first::timestamp at time zone p.zone
			and r.ended_at < p.until::timestamp at time zone p.zone
	), own as materialized (
		select o.*
		from (select distinct l.order_item_id from line l where l.good > 0) u
		left join waiting_pieces(null) w on w.order_item_id = u.order_item_id
		cross join lateral order_item_own(u.order_item_id, w.pieces) o
	), shelved as materialized (
		select l.*, o.revenue, o.sold > 0 and o.revenue is null as unpriced, l.came - coalesce(o.kept_cost, 0) as shelf,
			case when l.valued then o.kept_cost - o.delivered_cost end as waiting
		from line l left join own o on o.item = l.item
	), day as (
		select p.first::timestamp at time zone p.zone as first, p.until::timestamp at time zone p.zone as until, p.zone
		from period p
	), priced as (
		select l.id, l.product_id, l.order_id, l.reference, l.customer, l.customer_key, l.start, l.printer_id,
			l.printer_key, l.printer_name, l.filament, l.waste, l.machine, l.energy, l.labour,
			nullif(l.used - l.shelf, 0) as stock, false as unknown, l.good, l.failed, l.revenue, l.unpriced,
			l.waiting, null as loss, l.unpriced and l.foreign_money as foreign_money
		from shelved l
		union all -- pieces in stock whose cost is not known stay in the cost of their run
		select null, l.product_id, null, null, null, null, l.start, l.printer_id, l.printer_key, l.printer_name,
			null, null, null, null, null, l.shelf - l.stocked, false, 0, 0, null, false, null, null, false
		from shelved l where not l.valued and l.shelf <> l.stocked
		union all
		select null, i.product_id, o.id, o.reference, o.customer, o.customer_key,
			date_trunc('month', i.delivered_at at time zone d.zone)::date, null, null, null, null, null, null, null,
			null, t.cost, coalesce(t.unknown, false), 0, 0,
			case when s.pieces > 0 then line_share(p.net, s.own, s.own + s.pieces, p.net_pieces) end,
			s.pieces > 0 and p.net is null, null, null,
			s.pieces > 0 and order_rate(o.currency, o.exchange_rate) is null
		from day d
		join order_items i on i.tenant_id = $1 and i.delivered_at >= d.first and i.delivered_at < d.until
		join orders o on o.tenant_id = $1 and o.id = i.order_id
		cross join lateral (
			select case when order_item_earns(o.status, o.hidden_at, i.withdrawn_at)
				then greatest(least(i.delivered, i.quantity) - coalesce(sum(s.sold), 0), 0) else 0 end as pieces,
				coalesce(sum(s.sold), 0) as own
			from order_item_own(i.id) s
		) s
		cross join lateral ` + itemPrice + ` p
		left join lateral order_item_taken(i.id) t on true
		where s.pieces > 0 or t.cost is not null or t.unknown
		union all
		select null, e.product_id, o.id, o.reference, o.customer, o.customer_key,
			date_trunc('month', e.created_at at time zone d.zone)::date, null, null, null, null, null, null, null,
			null, nullif(-e.value - v.value, 0), e.unvalued + v.unvalued < 0, 0, 0, null, false, null, e.kind,
			false
		from day d
		join piece_entries e on e.tenant_id = $1 and e.kind in ('counted', 'scrapped', 'corrected')
			and e.created_at >= d.first and e.created_at < d.until and e.run_id is null and e.reverses is null
			and e.at_count is null
		cross join lateral ( -- what takes the entry back, and what balances other changes at a count
			select coalesce(sum(v.value), 0) as value, coalesce(sum(v.unvalued), 0) as unvalued
			from (
				select v.value, v.unvalued from piece_entries v where v.tenant_id = $1 and v.reverses = e.id
				union all
				select v.value, v.unvalued from piece_entries v where v.tenant_id = $1 and v.at_count = e.id
			) v
		) v
		left join orders o on o.tenant_id = $1 and o.id = e.order_id
		where e.value + v.value <> 0 or e.unvalued + v.unvalued < 0
		union all
		select null, e.product_id, null, null, null, null, date_trunc('month', e.created_at at time zone d.zone)::date,
			null, null, null, null, null, null, null, null, a.work - a.value, false, 0, 0, null, false, null, 'assembled',
			false
		from day d
		join piece_entries e on e.tenant_id = $1 and e.kind in ('assembled', 'disassembled') and e.created_at >= d.first
			and e.created_at < d.until and e.reverses is null and (e.pieces > 0) = (e.kind = 'assembled')
		cross join lateral ( -- the work on assembled pieces comes into stock with them
			select sum(a.value) as value, case when count(*) = count(a.cost) and count(a.reverses) = 0 then sum(a.cost)
				else 0 end as work
			from piece_entries a where a.tenant_id = $1 and a.assembly_id = e.assembly_id
		) a
		where a.value <> a.work
		union all
		select null, u.product_id, o.id, o.reference, o.customer, o.customer_key,
			date_trunc('month', u.moment at time zone d.zone)::date, null, null, null, null, null, null, null,
			null, -u.value, false, 0, 0, null, false, null, 'unsettled', false
		from day d
		cross join lateral unsettled_pieces(d.first) u
		left join order_items i on i.tenant_id = $1 and i.id = u.order_item_id
		left join orders o on o.tenant_id = $1 and o.id = i.order_id
		where u.moment < d.until
	)`

func (h handlers) reportMargins(ctx context.Context, r *server.Request[MarginQuery]) (server.OK[MarginReport], error) {
	by := r.In.GroupBy.Or("product")
	group := marginGroups[by]
	var row strings.Builder
	for _, f := range []struct{ name, sql string }{
		{"product_id", "product_id"},
		{"product_name", "(select p.name from products p where p.tenant_id = $1 and p.id = g.product_id)"},
		{"order_id", "order_id"}, {"reference", "reference"}, {"customer", "customer"}, {"start", "start"},
		{"printer_id", "printer_id"}, {"printer_name", "coalesce((select n.name from printers n where n.tenant_id = $1 " +
			"and n.id = g.printer_id), g.printer_name)"},
	} {
		value := "null"
		if strings.Contains(" "+group.fields+" ", " "+f.name+" ") {
			value = f.sql
		}
		row.WriteString("'" + f.name + "', " + value + ", ")
	}
	order := "g.revenue desc nulls last, g.cost desc nulls last, g.key"
	if by == "month" {
		order = "g.start"
	}
	report := db.SQL(`
		with `+marginLines+`, grouped as materialized (
			select g.*, g.revenue - g.cost as margin,
				round((g.revenue - g.cost) * 100 / nullif(g.revenue, 0), 1) as margin_percent
			from (
				select grouping(`+group.key+`) = 1 as is_total, `+group.key+`::text as key,
					min(`+marginProduct+`::text)::uuid as product_id, min(order_id::text)::uuid as order_id,
					min(reference) as reference, min(customer) as customer, min(start) as start,
					min(printer_id::text)::uuid as printer_id, min(printer_name) as printer_name,
					case when sum(revenue) is null and bool_or(unpriced) then null
						else coalesce(sum(revenue), 0) end as revenue,
					case when count(*) = 0 then 0 else known_sum(array[sum(filament), sum(waste), sum(machine),
						sum(energy), sum(labour), sum(stock)]) end as cost,
					cost_parts(array[sum(filament), sum(waste), sum(machine), sum(energy), sum(labour)], count(id),
						sum(stock), bool_or(unknown)) as cost_parts,
					incomplete_parts('{filament,waste,machine,energy,labour}', array[count(filament), count(waste),
						count(machine), count(energy), count(labour)], count(id)) ||
						case when bool_or(unknown) then '{stock}'::text[] else '{}' end ||
						case when bool_or(unpriced) then '{revenue}'::text[] else '{}' end ||
						case when bool_or(foreign_money) then '{currency}'::text[] else '{}' end as unknown,
					coalesce(sum(waiting), 0) as waiting, count(distinct id) as runs, coalesce(sum(good), 0) as pieces,
						coalesce(sum(failed), 0) as failed
				from priced left join (
					select v.id as variant, v.variant_of from products v
					where v.tenant_id = $1 and v.variant_of is not null and `+strconv.FormatBool(by == "product")+`
				) v on v.variant = product_id
				group by grouping sets ((`+group.key+`), ())
			) g
		)
		select p.first as "from", p.until - 1 as "to", '`+string(by)+`' as group_by, p.currency, t.revenue, t.cost,
			t.cost_parts, t.margin, t.margin_percent, t.waiting as waiting_cost, to_json(t.unknown) as unknown_parts, t.runs,
			t.pieces, t.failed as failed_pieces, (
				select json_build_object('scrapped', trim_scale(coalesce(sum(l.stock) filter (where l.loss = 'scrapped'), 0)),
					'counted', trim_scale(coalesce(sum(l.stock) filter (where l.loss = 'counted'), 0)),
					'corrected', trim_scale(coalesce(sum(l.stock) filter (where l.loss = 'corrected'), 0)),
					'assembled', trim_scale(coalesce(sum(l.stock) filter (where l.loss = 'assembled'), 0)),
					'unsettled', trim_scale(coalesce(sum(l.stock) filter (where l.loss = 'unsettled'), 0)))
				from priced l) as losses, (select count(*) from grouped g where not g.is_total) as groups,
			(select coalesce(json_agg(json_build_object(`+row.String()+`
					'revenue', trim_scale(g.revenue), 'cost', trim_scale(g.cost), 'cost_parts', g.cost_parts,
					'margin', trim_scale(g.margin), 'margin_percent', trim_scale(g.margin_percent),
					'waiting_cost', trim_scale(g.waiting), 'unknown_parts', g.unknown, 'runs', g.runs, 'pieces', g.pieces,
						'failed_pieces', g.failed)
					order by `+order+`), '[]')
				from (select * from grouped g where not g.is_total order by `+order+` limit `+
		strconv.Itoa(inventory.MaxGroups)+`) g) as items
		from period p, grouped t where t.is_total`, r.In.Args(ctx)...)
	return server.One(report, h.db.Read(ctx, db.FreshPlan(), report))
}
