package production

import (
	"spoolwright/cli"
	"spoolwright/server"
	"spoolwright/transfer"
)

// Commands are the commands for production runs and the usage ledger.
var Commands = []cli.Command{exporter(Orders{}).Command("production-runs"), ExportUsage.Command("usage")}

// exporter returns the export of production runs with their items and materials. A command has no search, and needs no
// orders.
func exporter(orders Orders) transfer.Exporter[RunFilter] {
	// The export names the columns itself.
	exported := func(f RunFilter) *server.List { return f.list(orders, listColumns) }
	return transfer.Export[Run]("production-runs", 200, transfer.ListPage(exported, `
		select `+runColumns+`,
			(select coalesce(json_agg(json_build_object(
					'id', i.id, 'product_id', i.product_id, 'product_name', p.name,
					'order_item_id', i.order_item_id, 'parts_from_stock', i.parts_from_stock, 'quantity', i.quantity,
					'successful_quantity', i.successful_quantity, 'failed_quantity', i.failed_quantity,
					'failure_reason', i.failure_reason, 'estimated_material_cost', trim_scale(i.estimated_material_cost),
					'estimated_total_cost', trim_scale(i.estimated_total_cost)) order by i.created_at, i.id), '[]')
				from run_items i join products p on p.id = i.product_id where i.run_id = production_runs.id) as items,
			(select coalesce(json_agg(json_build_object(
					'id', m.id, 'spool_id', m.spool_id, 'spool_name', spool_name(s.material_type, s.material_name, s.color, s.brand),
					'estimated_weight_grams', trim_scale(m.estimated_weight_grams),
					'actual_weight_grams', trim_scale(m.actual_weight_grams),
					'spool_weight_before_grams', trim_scale(m.spool_weight_before_grams),
					'spool_weight_after_grams', trim_scale(m.spool_weight_after_grams),
					'estimated_purge_grams', trim_scale(m.estimated_purge_grams),
					'actual_purge_grams', trim_scale(m.actual_purge_grams),
					'cost_per_gram', trim_scale(m.cost_per_gram),
					'reported_grams', trim_scale(material_reported(m.run_id, m.spool_id, m.id)),
					'outside_grams', trim_scale(material_outside(m.run_id, m.spool_id, m.id)),
					'actual_reported', m.actual_reported, 'exchanged_at', event_time(m.exchanged_at),
						'weighed_at', event_time(material_weighed(m.run_id, m.spool_id)))
					order by m.created_at, m.id), '[]')
				from run_materials m join spools s on s.id = m.spool_id
				where m.run_id = production_runs.id) as materials
		from `+runsTable+` where production_runs.id = page.id`))
}

var exportDoc = &server.Doc{
	ID: "exportProductionRuns", Tag: Tag, Summary: "Export production runs",
	Description: transfer.ExportDescription +
		"item and each material of a run, with the fields of the run repeated, " +
		"and one row for a run that has neither. Runs are in the order of their creation.",
}
