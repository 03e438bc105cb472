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

// WasteGroup tells how the waste report groups its rows.
type WasteGroup string

// Enum returns all groups.
func (WasteGroup) Enum() []string { return []string{"reason", "printer", "material", "product"} }

// WasteQuery are the parameters of the waste report.
type WasteQuery struct {
	GroupBy   value.Optional[WasteGroup] `query:"group_by" rule:"default=reason"`
	PrinterID value.Optional[value.UUID] `query:"printer_id"`
	inventory.Period
}

// WasteReport is the filament that runs wasted in a period.
type WasteReport struct {
	From      value.Date       `json:"from" rule:"notNull"`
	To        value.Date       `json:"to" rule:"notNull"`
	GroupBy   WasteGroup       `json:"group_by" rule:"notNull"`
	Grams     value.Decimal    `json:"grams" rule:"notNull"`
	Cost      value.Decimal    `json:"cost"`
	Currency  string           `json:"currency"`
	Runs      int64            `json:"runs" rule:"notNull"`
	Failed    int64            `json:"failed_runs" rule:"notNull"`
	Completed int64            `json:"completed_runs" rule:"notNull"`
	Rate      value.Decimal    `json:"rate"`
	Groups    int64            `json:"groups" rule:"notNull"`
	Items     []WasteReportRow `json:"items"`
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
	Runs      int64                  `json:"runs" rule:"notNull"`
	Failed    int64                  `json:"failed_runs" rule:"notNull"`
	Completed int64                  `json:"completed_runs" rule:"notNull"`
	Rate      value.Decimal          `json:"rate"`
}

var wasteReportDoc = &server.Doc{
	ID: "reportWaste", Tag: inventory.ReportsTag, Summary: "Report the filament that was wasted",
	Description: "Adds up what failed and cancelled runs used, and the share of the failed pieces of completed runs, " +
		"by the day of their end (`completed_at`), also of runs that were removed since. `cost` is at the prices of the " +
		"runs' materials; materials without a price add nothing to it, and 0 g cost 0. `runs` failed, were cancelled, or " +
		"have failed pieces. `rate` is " +
		"`failed_runs` / (`failed_runs` + `completed_runs`); cancelled runs, and runs that an update alone set to " +
		"a status, do not count for it.\n\n" +
		"`group_by=reason` has the rate of each reason among all runs. The reason is that of the run, or of the item; " +
		"failed pieces of a completed run have the reason of their item, or else that of the run. A run of several " +
		"reasons, materials or products is " +
		"in the group of each: products share the waste in proportion to their `estimated_total_cost`, or " +
		"`estimated_material_cost` if that is more, or to their quantities if no item has one. A group whose field " +
		"is null has the runs without a reason, printer, material or product. The groups with the most grams come " +
		"first. A report has at most 1,000 groups; the other fields are totals of all runs.",
}

// wasteGroups has the grouping key of each group, and the report fields that the key fills.
var wasteGroups = map[WasteGroup]struct{ key, fields string }{
	"reason": {"failure_reason", "failure_reason as reason"},
	"printer": {"coalesce(printer_id::text, printer_key)",
		"min(printer_id::text)::uuid as printer_id, min(printer_name) as printer_name"},
	"material": {"material_type", "material_type as material_type"},
	"product": {"product_id", "product_id as product_id, " +
		"(select p.name from products p where p.tenant_id = $1 and p.id = product_id) as product_name"},
}

func (h handlers) reportWaste(ctx context.Context, r *server.Request[WasteQuery]) (server.OK[WasteReport], error) {
	by := r.In.GroupBy.Or("reason")
	group := wasteGroups[by]
	field := func(name string) string {
		if strings.Contains(group.fields, " as "+name) {
			return "'" + name + "', g." + name
		}
		return "'" + name + "', null"
	}
	// The rate by product needs the products of completed runs without waste, and the rate by material needs their
	// materials. The rate by reason uses the number of all completed runs.
	products, materials := "r.wasted_parts > 0", "r.wasted_parts > 0"
	switch by {
	case "product":
		products = "true"
	case "material":
		materials = "true"
	}
	completed := "count(distinct id) filter (where status = 'completed')"
	having := ""
	if by == "reason" {
		completed, having = "(select count(*) from runs where status = 'completed')",
			" having bool_or(status <> 'completed' or part > 0)"
	}
	failedOf := "count(distinct id) filter (where status = 'failed')"
	rate := func(failed, completed string) string {
		if by == "reason" {
			return failed + " / nullif((select count(*) from runs where status <> 'cancelled'), 0)::numeric"
		}
		return failed + " / nullif(" + failed + " + " + completed + ", 0)::numeric"
	}
	report := db.SQL(`
		with `+inventory.PeriodSQL+`, runs as materialized (
			select r.id, r.status, r.failure_reason, r.printer_id, r.printer_key, r.printer_name, r.wasted_parts
			from production_runs r
			where r.tenant_id = $1 and r.status in ('completed', 'failed', 'cancelled')
				and r.ended_at is not null and ($4::uuid is null or r.printer_id = $4)
				and r.ended_at >= (select first::timestamp at time zone zone from period)
				and r.ended_at < (select until::timestamp at time zone zone from period)
		), wasted as materialized (
			select r.id, r.status, case when r.status = 'completed' then coalesce(i.failure_reason, r.failure_reason)
					else coalesce(r.failure_reason, i.failure_reason) end as failure_reason,
				r.printer_id, r.printer_key, r.printer_name, i.product_id, w.material_type, coalesce(i.part, 0) as part,
				w.grams * coalesce(i.part, 0) as grams, case when i.part > 0 then w.cost * i.part end as cost
			from runs r
			left join lateral run_waste(r.id, r.status) i on `+products+`
			left join lateral (
				select s.material_type, sum(m.actual_weight_grams) as grams,
					sum(m.actual_weight_grams * coalesce(m.cost_per_gram, s.cost_per_gram)) as cost
				from run_materials m join spools s on s.tenant_id = m.tenant_id and s.id = m.spool_id
				where m.tenant_id = $1 and m.run_id = r.id and m.actual_weight_grams > 0
				group by s.material_type
			) w on `+materials+`
		), grouped as materialized (
			select `+group.key+`::text as key, `+group.fields+`, coalesce(sum(grams), 0) as grams,
				coalesce(sum(cost), case when coalesce(sum(grams), 0) = 0 then 0 end) as cost,
				count(distinct id) filter (where status <> 'completed' or part > 0) as runs,
				`+failedOf+` as failed, `+completed+` as completed, `+rate(failedOf, completed)+` as rate
			from wasted
			group by `+group.key+having+`
		)
		select p.first as "from", p.until - 1 as "to", '`+string(by)+`' as group_by,
			w.grams, w.cost, p.currency, t.runs, t.failed as failed_runs, t.completed as completed_runs,
			round(t.failed / nullif(t.failed + t.completed, 0)::numeric, 4) as rate,
			(select count(*) from grouped) as groups,
			(select coalesce(json_agg(json_build_object(`+field("reason")+`, `+field("printer_id")+`, `+field("printer_name")+`,
					`+field("material_type")+`, `+field("product_id")+`, `+field("product_name")+`,
					'grams', trim_scale(round(g.grams, 6)), 'cost', trim_scale(round(g.cost, 6)), 'runs', g.runs,
					'failed_runs', g.failed, 'completed_runs', g.completed, 'rate', trim_scale(round(g.rate, 4)))
					order by g.grams desc, g.runs desc, g.key), '[]')
				from (select * from grouped g order by g.grams desc, g.runs desc, g.key limit `+
		strconv.Itoa(inventory.MaxGroups)+`) g
			) as items
		from (
			select count(*) filter (where status <> 'completed' or wasted_parts > 0) as runs,
				count(*) filter (where status = 'failed') as failed,
				count(*) filter (where status = 'completed') as completed
			from runs
		) t, (
			select round(coalesce(sum(grams), 0), 6) as grams,
				round(coalesce(sum(cost), case when coalesce(sum(grams), 0) = 0 then 0 end), 6) as cost
			from wasted
		) w, period p`, append(r.In.Args(ctx), r.In.PrinterID.Arg())...)
	return server.One(report, h.db.Read(ctx, db.FreshPlan(), report))
}
