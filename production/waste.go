package production

import (
	"context"
	"strconv"
	"strings"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/value"
)

// WasteGroup is the field by which the waste report groups its rows.
type WasteGroup string

// Enum returns all groups.
func (WasteGroup) Enum() []string {
	return []string{"reason", "printer", "material", "product", "variant"}
}

// WasteQuery are the parameters of the waste report.
type WasteQuery struct {
	GroupBy   value.Optional[WasteGroup] `query:"group_by" rule:"default=reason"`
	PrinterID value.Optional[value.UUID] `query:"printer_id"`
	Period
}

// WasteReport is the filament that runs wasted in a period.
type WasteReport struct {
	From      value.Date    `json:"from" rule:"notNull"`
	To        value.Date    `json:"to" rule:"notNull"`
	GroupBy   WasteGroup    `json:"group_by" rule:"notNull"`
	Grams     value.Decimal `json:"grams" rule:"notNull"`
	Cost      value.Decimal `json:"cost"`
	Unpriced  value.Decimal `json:"unpriced_grams" rule:"notNull"`
	Currency  string        `json:"currency"`
	Runs      int64         `json:"runs" rule:"notNull"`
	Failed    int64         `json:"failed_runs" rule:"notNull"`
	Completed int64         `json:"completed_runs" rule:"notNull"`
	Rate      value.Decimal `json:"rate"`
	WastedPieces
	Purge
	Groups int64            `json:"groups" rule:"notNull"`
	Items  []WasteReportRow `json:"items"`
}

// WastedPieces are the good and the failed pieces of runs.
type WastedPieces struct {
	Pieces       int64         `json:"pieces" rule:"notNull"`
	FailedPieces int64         `json:"failed_pieces" rule:"notNull"`
	PieceRate    value.Decimal `json:"piece_rate"`
}

// Purge is the filament that runs purged.
type Purge struct {
	PurgeGrams value.Decimal `json:"purge_grams" rule:"notNull"`
	PurgeCost  value.Decimal `json:"purge_cost"`
}

// WasteReportRow is a group of the waste report.
type WasteReportRow struct {
	Reason    FailureReason          `json:"reason"`
	PrinterID value.UUID             `json:"printer_id"`
	Printer   string                 `json:"printer_name"`
	Material  inventory.MaterialType `json:"material_type"`
	ProductID value.UUID             `json:"product_id"`
	Product   string                 `json:"product_name"`
	Grams     value.Decimal          `json:"grams" rule:"notNull"`
	Cost      value.Decimal          `json:"cost"`
	Unpriced  value.Decimal          `json:"unpriced_grams" rule:"notNull"`
	Runs      int64                  `json:"runs" rule:"notNull"`
	Failed    int64                  `json:"failed_runs" rule:"notNull"`
	Completed int64                  `json:"completed_runs" rule:"notNull"`
	Rate      value.Decimal          `json:"rate"`
	WastedPieces
	Purge
}

var wasteReportDoc = &server.Doc{
	ID: "reportWaste", Tag: inventory.ReportsTag, Summary: "Report the filament that was wasted",
	Description: "Adds up the filament that failed and cancelled runs used, and the share of the failed pieces of " +
		"completed runs, by the day of their end (`completed_at`). Runs that were removed since also count. `cost` is at " +
		"the prices of the runs' materials, which the runs froze at their end; materials without a price add nothing to " +
		"it, and 0 g cost 0. `unpriced_grams` are the grams without a price. `runs` failed, were cancelled, or have " +
		"failed pieces. `rate` is `failed_runs` / (`failed_runs` + `completed_runs`); cancelled runs, and runs that an " +
		"update alone set to a status, do not count for it. `piece_rate` is `failed_pieces` / (`failed_pieces` + " +
		"`pieces`), where `pieces` are good pieces. A completed run has the numbers that were counted; all pieces of a " +
		"failed run count as failed.\n\n" +
		"`purge_grams` are the `actual_purge_grams` of all these runs, and `purge_cost` is their cost. The use of a run " +
		"includes its purge, so this is another view of the same filament: do not add it to `grams`, which includes the " +
		"purge of failed runs.\n\n" +
		"`group_by=reason` has the rates of each reason among all runs and pieces. The reason is that of the run, or of " +
		"the item; failed pieces of a completed run have the reason of their item, or else that of the run. A run of " +
		"several reasons, materials or products is in the group of each: products share the waste in proportion to " +
		"their `estimated_total_cost`, or `estimated_material_cost` if that is more, or to their quantities if no item " +
		"has one. The shares add up exactly. A group whose field is null has the runs without a reason, printer, " +
		"material or product. A product's group includes its variants, except by `variant`. A printer has " +
		"its current name; runs without a `printer_id` count for their " +
		"`printer_name`. The groups with the most grams come first. A report has at most 1,000 groups; the other " +
		"fields are totals of all runs.",
}

// wasteGroups has the grouping key of each group, and the report fields that the key fills.
var wasteGroups = map[WasteGroup]wasteGroup{
	"reason": {"failure_reason", "failure_reason as reason"},
	"printer": {"coalesce(printer_id::text, printer_key)",
		"min(printer_id::text)::uuid as printer_id, min(printer_name) as printer_name"},
	"material": {"material_type", "material_type as material_type"},
	"product":  wasteProduct,
	"variant":  wasteProduct,
}

var wasteProduct = wasteGroup{"product_id", "product_id as product_id, " +
	"(select p.name from products p where p.tenant_id = $1 and p.id = product_id) as product_name"}

type wasteGroup struct{ key, fields string }

// field returns the name of a report field, and its value of the group g, for json_build_object.
func (w wasteGroup) field(name string) string {
	if strings.Contains(w.fields, " as "+name) {
		return "'" + name + "', g." + name
	}
	return "'" + name + "', null"
}

func (h handlers) reportWaste(ctx context.Context, r *server.Request[WasteQuery]) (server.OK[WasteReport], error) {
	by := r.In.GroupBy.Or("reason")
	group := wasteGroups[by]
	field := group.field
	completed, pieces := "count(distinct id) filter (where status = 'completed')", "sum(good)"
	having := ""
	if by == "reason" {
		completed = "(select count(*) from runs where status = 'completed')"
		pieces = "(select sum(good) from counted)"
		having = " having bool_or(is_waste) or sum(purge) > 0"
	}
	failedOf := "count(distinct id) filter (where status = 'failed')"
	rate := func(failed, completed, all string) string {
		if by == "reason" {
			return failed + " / nullif(" + all + ", 0)::numeric"
		}
		return failed + " / nullif(" + failed + " + " + completed + ", 0)::numeric"
	}
	report := db.SQL(`
		with period as materialized (select * from report_period($1, $2, $3)), runs as materialized (
			select r.id, r.status, r.failure_reason, r.printer_id, r.printer_key, coalesce(n.name, r.printer_name)
				as printer_name
			from production_runs r left join printers n on n.tenant_id = $1 and n.id = r.printer_id
			where r.tenant_id = $1 and r.status in ('completed', 'failed', 'cancelled')
				and r.ended_at is not null and ($4::uuid is null or r.printer_id = $4)
				and r.ended_at >= (select first::timestamp at time zone zone from period)
				and r.ended_at < (select until::timestamp at time zone zone from period)
		), counted as materialized (
			select r.id, r.status, case when r.status = 'completed' then coalesce(i.failure_reason, r.failure_reason)
					else coalesce(r.failure_reason, i.failure_reason) end as failure_reason,
				r.printer_id, r.printer_key, r.printer_name, coalesce(v.variant_of, i.product_id) as product_id,
				coalesce(i.low, 0) as low,
				coalesce(i.high, 1) as high, coalesce(i.total, 1) as total, coalesce(i.quantity, 1) as quantity,
					coalesce(n.good, 0) as good, coalesce(n.failed, 0) as failed,
				r.status <> 'completed' or n.failed > 0 and i.high > i.low as is_waste
			from runs r
			left join lateral run_shares(r.id) i on true
			left join products v on v.tenant_id = $1 and v.id = i.product_id and `+strconv.FormatBool(by == "product")+`
			left join lateral run_item_pieces(r.status, i.quantity, i.successful_quantity, i.failed_quantity) n
				on i.id is not null
		), wasted as materialized (
			select i.*, w.material_type, u.grams, case when u.grams > 0 then u.cost end as cost,
				rounded_quotient(u.grams * w.unpriced, nullif(w.own_grams, 0)) as unpriced,
				share_of(w.purge, i.low, i.high, i.total) as purge, share_of(w.purge_cost, i.low, i.high, i.total) as purge_cost
			from counted i
			left join lateral run_filament(i.id, `+strconv.FormatBool(by == "material")+`) w on true
			cross join lateral (
				select coalesce(share_of(waste_of(w.all_grams, i.status, i.low, i.high, i.total, i.failed, i.quantity),
						w.grams - w.own_grams, w.grams, nullif(w.all_grams, 0)), 0) as grams,
					coalesce(share_of(waste_of(w.all_cost, i.status, i.low, i.high, i.total, i.failed, i.quantity),
						w.cost - w.own_cost, w.cost, nullif(w.all_cost, 0)), case when w.all_cost = 0 then 0 end) as cost
			) u
		), grouped as materialized (
			select `+group.key+`::text as key, `+group.fields+`, sum(grams) as grams,
				coalesce(sum(cost), case when sum(grams) = 0 then 0 end) as cost, coalesce(sum(unpriced), 0) as unpriced,
				count(distinct id) filter (where is_waste) as runs,
				`+failedOf+` as failed, `+completed+` as completed, `+rate(failedOf, completed,
		"(select count(*) from runs where status <> 'cancelled')")+` as rate,
				`+pieces+` as pieces, sum(failed) as failed_pieces, `+rate("sum(failed)", pieces,
		"(select sum(good) + sum(failed) from counted)")+` as piece_rate,
				coalesce(sum(purge), 0) as purge,
				coalesce(sum(purge_cost), case when coalesce(sum(purge), 0) = 0 then 0 end) as purge_cost
			from wasted
			group by `+group.key+having+`
		)
		select p.first as "from", p.until - 1 as "to", '`+string(by)+`' as group_by,
			w.grams, w.cost, w.unpriced_grams, p.currency, t.runs, t.failed as failed_runs, t.completed as completed_runs,
			round(t.failed / nullif(t.failed + t.completed, 0)::numeric, 4) as rate,
			c.pieces, c.failed_pieces, round(c.failed_pieces / nullif(c.failed_pieces + c.pieces, 0)::numeric, 4) as piece_rate,
			w.purge_grams, w.purge_cost, (select count(*) from grouped) as groups,
			(select coalesce(json_agg(json_build_object(`+field("reason")+`, `+field("printer_id")+`, `+field("printer_name")+`,
					`+field("material_type")+`, `+field("product_id")+`, `+field("product_name")+`,
					'grams', trim_scale(g.grams), 'cost', trim_scale(g.cost),
					'unpriced_grams', trim_scale(g.unpriced), 'runs', g.runs,
					'failed_runs', g.failed, 'completed_runs', g.completed, 'rate', trim_scale(round(g.rate, 4)),
					'pieces', g.pieces, 'failed_pieces', g.failed_pieces,
					'piece_rate', trim_scale(round(g.piece_rate, 4)),
					'purge_grams', trim_scale(g.purge), 'purge_cost', trim_scale(g.purge_cost))
					order by g.grams desc, g.runs desc, g.key), '[]')
				from (select * from grouped g order by g.grams desc, g.runs desc, g.key limit `+
		strconv.Itoa(inventory.MaxGroups)+`) g
			) as items
		from (
			select count(*) filter (where status = 'failed') as failed,
				count(*) filter (where status = 'completed') as completed,
				(select count(distinct id) from counted where is_waste) as runs
			from runs
		) t, (
			select coalesce(sum(good), 0) as pieces, coalesce(sum(failed), 0) as failed_pieces from counted
		) c, (
			select coalesce(sum(grams), 0) as grams,
				coalesce(sum(cost), case when coalesce(sum(grams), 0) = 0 then 0 end) as cost,
				coalesce(sum(unpriced), 0) as unpriced_grams, coalesce(sum(purge), 0) as purge_grams,
				coalesce(sum(purge_cost), case when coalesce(sum(purge), 0) = 0 then 0 end) as purge_cost
			from wasted
		) w, period p`, append(r.In.Args(ctx), r.In.PrinterID.Arg())...)
	return server.One(report, h.db.Read(ctx, db.FreshPlan(), report))
}
