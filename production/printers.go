package production

import (
	"context"
	"strconv"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/value"
)

// PrinterReport is the activity of printers in a period.
type PrinterReport struct {
	From     value.Date         `json:"from" rule:"notNull"`
	To       value.Date         `json:"to" rule:"notNull"`
	Currency string             `json:"currency"`
	Groups   int64              `json:"groups" rule:"notNull"`
	Items    []PrinterReportRow `json:"items"`
}

// PrinterReportRow is a printer in the report of printers.
type PrinterReportRow struct {
	PrinterID   value.UUID    `json:"printer_id"`
	Printer     string        `json:"printer_name"`
	Hours       value.Decimal `json:"hours" rule:"notNull"`
	Unknown     int64         `json:"runs_without_hours" rule:"notNull"`
	Utilisation value.Decimal `json:"utilisation_percent"`
	Completed   int64         `json:"completed_runs" rule:"notNull"`
	Failed      int64         `json:"failed_runs" rule:"notNull"`
	Cancelled   int64         `json:"cancelled_runs" rule:"notNull"`
	Rate        value.Decimal `json:"rate"`
	Grams       value.Decimal `json:"grams" rule:"notNull"`
	Cost        value.Decimal `json:"cost"`
	PerHour     value.Decimal `json:"cost_per_hour"`
}

var printerReportDoc = &server.Doc{
	ID: "reportPrinters", Tag: inventory.ReportsTag, Summary: "Report what printers did",
	Description: "Adds up the runs that `completeProductionRun`, `failProductionRun` and `cancelProductionRun` " +
		"ended, by the day of their `completed_at`, also runs that were removed since, for each printer: their " +
		"`actual_print_time_hours`, `actual_total_filament_grams` and `cost`, as far as they are known. " +
		"`runs_without_hours` are those whose hours are unknown, except for cancelled ones that did not start. " +
		"`utilisation_percent` is `hours` of the hours of the period that have passed; a run counts on the day of " +
		"its end with all its hours. `rate` is `failed_runs` / (`failed_runs` + `completed_runs`). Printers " +
		"without runs in the period have 0 hours, unless they are retired or removed. Runs without a `printer_id` " +
		"count for their `printer_name`, and those without either for a printer whose name is null.\n\n" +
		"Printers with the most hours come first. A report has at most 1,000 printers.",
}

func (h handlers) reportPrinters(
	ctx context.Context, r *server.Request[inventory.Period],
) (server.OK[PrinterReport], error) {
	report := db.SQL(`
		with `+inventory.PeriodSQL+`, printer as materialized (
			select coalesce(u.key, n.id::text) as key, coalesce(u.printer_id, n.id) as id,
				coalesce(n.name, u.printer_name) as name, coalesce(u.hours, 0) as hours,
				coalesce(u.unknown_hours, 0) as unknown_hours,
					coalesce(u.completed, 0) as completed, coalesce(u.failed, 0) as failed,
				coalesce(u.cancelled, 0) as cancelled, coalesce(u.grams, 0) as grams, u.cost, u.cost_of_hours
			from (
				select coalesce(r.printer_id::text, r.printer_key) as key, min(r.printer_id::text)::uuid as printer_id,
					min(r.printer_name) as printer_name, sum(r.actual_print_time_hours) as hours,
					count(*) filter (where r.actual_print_time_hours is null
						and (r.started_at is not null or r.status <> 'cancelled')) as unknown_hours,
					count(*) filter (where r.status = 'completed') as completed,
					count(*) filter (where r.status = 'failed') as failed,
					count(*) filter (where r.status = 'cancelled') as cancelled,
					sum(r.actual_total_filament_grams) as grams,
					known_sum(array[sum(r.filament_cost), sum(r.waste_cost), sum(r.machine_cost), sum(r.energy_cost),
						sum(r.labour_cost)]) as cost,
					sum(known_sum(array[r.filament_cost, r.waste_cost, r.machine_cost, r.energy_cost, r.labour_cost]))
						filter (where r.actual_print_time_hours is not null) as cost_of_hours
				from period p cross join production_runs r
				where r.tenant_id = $1 and r.status in ('completed', 'failed', 'cancelled') and r.ended_at is not null
					and r.ended_at >= p.first::timestamp at time zone p.zone
					and r.ended_at < p.until::timestamp at time zone p.zone
				group by coalesce(r.printer_id::text, r.printer_key)
			) u
			full join (
				select n.id, n.name from printers n
				where n.tenant_id = $1 and n.hidden_at is null and n.status <> 'retired'
			) n on n.id = u.printer_id
		)
		select p.first as "from", p.until - 1 as "to", p.currency, (select count(*) from printer) as groups,
			(select coalesce(json_agg(json_build_object('printer_id', g.id, 'printer_name', g.name,
				'hours', trim_scale(g.hours), 'runs_without_hours', g.unknown_hours,
					'utilisation_percent', trim_scale(round(g.hours * 100 / nullif(p.hours, 0), 1)),
					'completed_runs', g.completed, 'failed_runs', g.failed, 'cancelled_runs', g.cancelled,
					'rate', trim_scale(round(g.failed / nullif(g.failed + g.completed, 0)::numeric, 4)),
					'grams', trim_scale(g.grams), 'cost', trim_scale(g.cost),
					'cost_per_hour', trim_scale(round(g.cost_of_hours / nullif(g.hours, 0), 6)))
					order by g.hours desc, g.key), '[]')
				from (select * from printer g order by g.hours desc, g.key limit `+strconv.Itoa(inventory.MaxGroups)+`) g) as items
		from (
			select p.*, greatest(extract(epoch from least(p.until::timestamp at time zone p.zone, now())
				- p.first::timestamp at time zone p.zone), 0) / 3600 as hours
			from period p
		) p`, r.In.Args(ctx)...)
	return server.One(report, h.db.Read(ctx, db.FreshPlan(), report))
}
