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
	WastedPieces
	Grams   value.Decimal `json:"grams" rule:"notNull"`
	Cost    value.Decimal `json:"cost"`
	PerHour value.Decimal `json:"cost_per_hour"`
}

var printerReportDoc = &server.Doc{
	ID: "reportPrinters", Tag: inventory.ReportsTag, Summary: "Report what printers did",
	Description: "Adds up the runs that `completeProductionRun`, `failProductionRun` and `cancelProductionRun` " +
		"ended, by the day of their `completed_at`, also runs that were removed since, for each printer: their " +
		"`actual_total_filament_grams`, their `cost`, as far as they are known, and their pieces. " +
		"`hours` are the `actual_print_time_hours` of runs, on the days on which they passed, backwards from the end of " +
		"the run: a run of 60 hours has at most 24 on its last day, and the report of a month has the hours in this " +
		"month, also of runs that ended after it. `utilisation_percent` is `hours` in percent of the hours of the period " +
		"that have passed. `cost_per_hour` is the cost of the runs that ended in the period, divided by all their " +
		"hours.\n\n" +
		"`runs_without_hours` counts runs whose hours are unknown, except cancelled runs that never started. `rate` is " +
		"`failed_runs` / (`failed_runs` + `completed_runs`), and `piece_rate` that of the pieces, as in `reportWaste`. " +
		"Printers have their current names. Printers without runs in the period have 0 hours; retired and removed " +
		"printers are then left out. Runs without a `printer_id` count for their `printer_name`, and runs with neither " +
		"for a printer whose name is null.\n\n" +
		"Printers with the most hours come first. A report has at most 1,000 printers.",
}

func (h handlers) reportPrinters(
	ctx context.Context, r *server.Request[Period],
) (server.OK[PrinterReport], error) {
	report := db.SQL(`
		with period as materialized (select * from report_period($1, $2, $3)), printer as materialized (
			select coalesce(u.key, n.id::text) as key, coalesce(u.printer_id, n.id) as id,
				coalesce(n.name, u.printer_name) as name, coalesce(u.hours, 0) as hours,
				coalesce(u.unknown_hours, 0) as unknown_hours,
				coalesce(u.completed, 0) as completed, coalesce(u.failed, 0) as failed,
				coalesce(u.cancelled, 0) as cancelled, coalesce(u.grams, 0) as grams, u.cost, u.cost_of_hours,
				coalesce(u.pieces, 0) as pieces, coalesce(u.failed_pieces, 0) as failed_pieces, u.all_hours
			from (
				select coalesce(r.printer_id::text, r.printer_key) as key, min(r.printer_id::text)::uuid as printer_id,
					min(r.printer_name) as printer_name,
					sum(run_hours(p.first_time, r.ended_at, r.actual_print_time_hours)
						- run_hours(p.until_time, r.ended_at, r.actual_print_time_hours)) as hours,
					sum(r.actual_print_time_hours) filter (where i.ended) as all_hours,
					count(*) filter (where i.ended and r.actual_print_time_hours is null
						and (r.started_at is not null or r.status <> 'cancelled')) as unknown_hours,
					count(*) filter (where i.ended and r.status = 'completed') as completed,
					count(*) filter (where i.ended and r.status = 'failed') as failed,
					count(*) filter (where i.ended and r.status = 'cancelled') as cancelled,
					sum(i.good) as pieces, sum(i.failed) as failed_pieces,
					sum(r.actual_total_filament_grams) filter (where i.ended) as grams,
					sum(i.cost) as cost, sum(i.cost) filter (where r.actual_print_time_hours is not null) as cost_of_hours
				from (
					select p.first::timestamp at time zone p.zone as first_time,
						p.until::timestamp at time zone p.zone as until_time
					from period p
				) p
				cross join production_runs r
				left join lateral (
					select true as ended, known_sum(array[r.filament_cost, r.waste_cost, r.machine_cost, r.energy_cost,
						r.labour_cost]) as cost, sum(n.good) as good, sum(n.failed) as failed
					from run_items i
					cross join lateral run_item_pieces(r.status, i.quantity, i.successful_quantity, i.failed_quantity) n
					where i.tenant_id = $1 and i.run_id = r.id and r.ended_at < p.until_time
				) i on r.ended_at < p.until_time
				where r.tenant_id = $1 and r.status in ('completed', 'failed', 'cancelled') and r.ended_at is not null
					and r.ended_at >= p.first_time and (r.ended_at < p.until_time
						or run_hours(p.until_time, r.ended_at, r.actual_print_time_hours) < r.actual_print_time_hours)
				group by coalesce(r.printer_id::text, r.printer_key)
			) u
			full join (
				select n.id, n.name, n.hidden_at is null and n.status <> 'retired' as shown from printers n
				where n.tenant_id = $1
			) n on n.id = u.printer_id
			where u.completed is not null or n.shown
		)
		select p.first as "from", p.until - 1 as "to", p.currency, (select count(*) from printer) as groups,
			(select coalesce(json_agg(json_build_object('printer_id', g.id, 'printer_name', g.name,
				'hours', trim_scale(g.hours), 'runs_without_hours', g.unknown_hours,
				'utilisation_percent', trim_scale(round(g.hours * 100 / nullif(p.hours, 0), 1)),
					'completed_runs', g.completed, 'failed_runs', g.failed, 'cancelled_runs', g.cancelled,
					'rate', trim_scale(round(g.failed / nullif(g.failed + g.completed, 0)::numeric, 4)),
					'pieces', g.pieces, 'failed_pieces', g.failed_pieces,
					'piece_rate', trim_scale(round(g.failed_pieces / nullif(g.failed_pieces + g.pieces, 0)::numeric, 4)),
					'grams', trim_scale(g.grams), 'cost', trim_scale(g.cost),
					'cost_per_hour', trim_scale(round(g.cost_of_hours / nullif(g.all_hours, 0), 6)))
					order by g.hours desc, g.key), '[]')
				from (select * from printer g order by g.hours desc, g.key limit `+strconv.Itoa(inventory.MaxGroups)+`) g) as items
		from (
			select p.*, greatest(extract(epoch from least(p.until::timestamp at time zone p.zone, now())
				- p.first::timestamp at time zone p.zone), 0) / 3600 as hours
			from period p
		) p`, r.In.Args(ctx)...)
	return server.One(report, h.db.Read(ctx, db.FreshPlan(), report))
}
