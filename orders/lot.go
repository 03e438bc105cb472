package orders

import (
	"context"
	"strconv"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/production"
	"spoolwright/server"
	"spoolwright/value"
)

// LotQuery are the parameters of the report of a lot.
type LotQuery struct {
	LotNumber value.Optional[string] `query:"lot_number"`
}

// LotReport shows where the filament of a lot went.
type LotReport struct {
	LotNumber string     `json:"lot_number"`
	Spools    []LotSpool `json:"spools" rule:"notNull"`
	Groups    int64      `json:"groups" rule:"notNull"`
	Items     []LotRow   `json:"items"`
}

// LotSpool is a spool with filament of the lot, now or before a refill.
type LotSpool struct {
	SpoolID     value.UUID      `json:"spool_id" rule:"notNull"`
	SpoolNumber int64           `json:"spool_number" rule:"notNull"`
	SpoolName   string          `json:"spool_name" rule:"notNull"`
	Remaining   value.Decimal   `json:"remaining_weight_grams"`
	RefilledAt  value.Timestamp `json:"refilled_at"`
	HiddenAt    value.Timestamp `json:"hidden_at"`
}

// LotRow is an item of a run that used the lot, or of an order that may have got pieces of it.
type LotRow struct {
	RunID       value.UUID           `json:"run_id"`
	Status      production.RunStatus `json:"run_status"`
	CompletedAt value.Timestamp      `json:"completed_at"`
	PrinterName string               `json:"printer_name"`
	Grams       value.Decimal        `json:"grams"`
	ProductID   value.UUID           `json:"product_id"`
	ProductName string               `json:"product_name"`
	SKU         string               `json:"sku"`
	Quantity    int64                `json:"quantity"`
	Good        int64                `json:"pieces"`
	OrderID     value.UUID           `json:"order_id"`
	Reference   string               `json:"reference"`
	Customer    string               `json:"customer"`
	Delivered   int64                `json:"delivered"`
}

var lotReportDoc = &server.Doc{
	ID: "reportLot", Tag: inventory.ReportsTag, Summary: "Report where a lot of filament went",
	Description: "Returns the spools that have filament of the lot, or had it before a refill, also removed ones, and a " +
		"row for each item of each run that used the lot. This includes runs that have not deducted their filament " +
		"yet.\n\nA row names the order that its pieces were printed for. The ledger does not tell the other pieces of " +
		"a product apart. Rows without a run are items of orders that may have got such pieces: they got pieces of " +
		"the product, or of a kit that contains it, after the first of the runs.\n\n`grams` is the filament of the " +
		"lot that the run used. The newest runs come first. A report has at most 1,000 spools and 1,000 rows; " +
		"`groups` is the number of all rows. The lists and exports of runs, orders and entries of pieces have the " +
		"filter `lot_number`, too. The filter of the list of spools applies to the current contents of spools.",
}

func (h handlers) reportLot(ctx context.Context, r *server.Request[LotQuery]) (server.OK[LotReport], error) {
	most := strconv.Itoa(inventory.MaxGroups)
	report := db.SQL(`
		with piece as materialized (select * from pieces_of_lot($1))
		select $1::text as lot_number, (
				select coalesce(json_agg(json_build_object('spool_id', s.id, 'spool_number', s.number,
					'spool_name', spool_name(s.material_type, s.material_name, s.color, s.brand),
					'remaining_weight_grams', case when l.until is null then trim_scale(s.remaining_weight_grams) end,
					'refilled_at', event_time(l.until), 'hidden_at', event_time(s.hidden_at)) order by s.number, l.until), '[]')
				from (select * from spools_of_lot($1) limit `+most+`) l join spools s on s.id = l.spool_id
			) as spools, (select count(*) from piece) as groups, (
				select coalesce(json_agg(json_build_object('run_id', n.run_id, 'run_status', n.status,
					'completed_at', event_time(n.completed_at), 'printer_name', n.printer_name,
					'grams', trim_scale(n.grams), 'product_id', n.product_id, 'product_name', n.product_name, 'sku', n.sku,
					'quantity', n.quantity, 'pieces', n.good, 'order_id', n.order_id, 'reference', n.reference,
					'customer', n.customer, 'delivered', n.delivered) order by n.run_created_at desc nulls last, n.run_id,
					n.order_created_at desc, n.order_id, n.product_name, n.product_id), '[]')
				from (
					select p.*, r.status, r.completed_at, r.printer_name, r.created_at as run_created_at, u.grams,
						d.name as product_name, d.sku, o.reference, o.customer, o.created_at as order_created_at, i.delivered
					from piece p
					left join production_runs r on r.id = p.run_id
					left join (
						select u.run_id, sum(u.grams) as grams from runs_of_lot($1) u group by u.run_id
					) u on u.run_id = p.run_id
					left join products d on d.id = p.product_id
					left join orders o on o.id = p.order_id
					left join order_items i on i.id = p.order_item_id
					order by r.created_at desc nulls last, p.run_id, o.created_at desc, o.id, d.name, d.id
					limit `+most+`
				) n
			) as items`, r.In.LotNumber.Arg())
	return server.One(report, h.db.Read(ctx, db.FreshPlan(), report))
}
