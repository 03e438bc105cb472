package pieces

import (
	"context"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/value"
)

// PiecesQuery are the parameters of the report of the pieces in stock.
type PiecesQuery struct {
	To      value.Optional[value.Date] `query:"to"`
	GroupBy value.Optional[string]     `query:"group_by" rule:"default=variant,enum=variant|product,named=PiecesGroup"`
	Skip    value.Optional[int64]      `query:"skip" rule:"maximum=999999999,default=0"`
	Limit   value.Optional[int64]      `query:"limit" rule:"minimum=1,maximum=1000,default=1000"`
}

const maxReported = 1000 // products in a response

// PiecesReport lists the pieces that were in stock at the end of a day.
type PiecesReport struct {
	To       value.Date        `json:"to" rule:"notNull"`
	Currency string            `json:"currency"`
	OnHand   int64             `json:"on_hand" rule:"notNull"`
	Unvalued int64             `json:"unvalued_pieces" rule:"notNull"`
	Value    value.Decimal     `json:"piece_value"`
	Groups   int64             `json:"groups" rule:"notNull"`
	Items    []PiecesReportRow `json:"items"`
}

// PiecesReportRow is a product in a PiecesReport.
type PiecesReportRow struct {
	ProductID value.UUID    `json:"product_id" rule:"notNull"`
	Product   string        `json:"product_name" rule:"notNull"`
	SKU       string        `json:"sku"`
	OnHand    int64         `json:"on_hand" rule:"notNull"`
	Unvalued  int64         `json:"unvalued_pieces" rule:"notNull"`
	Cost      value.Decimal `json:"piece_cost"`
	Value     value.Decimal `json:"piece_value"`
}

var piecesReportDoc = &server.Doc{
	ID: "reportPieces", Tag: inventory.ReportsTag, Summary: "Report the pieces in stock and their value",
	Description: "Returns the pieces of each product that were in stock at the end of the day `to` (by default now), " +
		"with their cost, from the ledger of pieces. For the stock at the end of a month, set `to` to its last day. " +
		"Later entries do not change the report of a past day: a correction counts on the day on which it is " +
		"made.\n\n`piece_value` is the value of the pieces with a known cost, or null if there are none; " +
		"`unvalued_pieces` counts the others. The products with the largest value come first. With " +
		"`group_by=product`, a row has " +
		"the pieces of a product and of its variants. Removed products are " +
		"included. A response has at most 1,000 products, and `skip` leads to the others; the other fields are totals of all " +
		"`groups`.",
}

func (h handlers) reportPieces(ctx context.Context, r *server.Request[PiecesQuery]) (server.OK[PiecesReport], error) {
	report := db.SQL(`
		with day as materialized (
			select coalesce($2::date, t.today) as last, $2::date < t.today as past,
				($2::date + 1)::timestamp at time zone t.zone as until, t.currency
			from (
				select (now() at time zone s.time_zone)::date as today, s.time_zone as zone, s.currency
				from tenants s where s.tenant_id = $1
			) t
		), stock as materialized (
			select coalesce(v.variant_of, s.product_id) as product_id, sum(s.on_hand) as on_hand, sum(s.unvalued) as unvalued,
				sum(s.value) filter (where s.on_hand > s.unvalued) as value,
				sum(s.on_hand - s.unvalued) filter (where s.on_hand > s.unvalued) as valued
			from (
				select p.product_id, p.on_hand, p.unvalued, p.value
				from day d join product_pieces p on p.tenant_id = $1 where d.past is not true
				union all
				select p.product_id, e.on_hand, e.stock_unvalued, e.stock_value
				from day d
				join product_pieces p on p.tenant_id = $1
				cross join lateral (
					select e.on_hand, e.stock_unvalued, e.stock_value from piece_entries e
					where e.tenant_id = $1 and e.product_id = p.product_id and e.created_at < d.until
					order by e.created_at desc, e.id desc limit 1
				) e
				where d.past
			) s
			left join products v on v.tenant_id = $1 and v.id = s.product_id and $5
			where s.on_hand <> 0
			group by coalesce(v.variant_of, s.product_id)
		)
		select d.last as "to", d.currency, t.on_hand, t.unvalued as unvalued_pieces, t.value as piece_value, t.groups,
			(select coalesce(json_agg(json_build_object('product_id', s.product_id, 'product_name', p.name, 'sku', p.sku,
					'on_hand', s.on_hand, 'unvalued_pieces', s.unvalued,
					'piece_cost', trim_scale(round(s.value / s.valued, 6)),
					'piece_value', trim_scale(s.value)) order by s.value desc nulls last, p.name, p.id), '[]')
				from (
					select * from stock s order by s.value desc nulls last, s.product_id limit $4 offset $3
				) s
				join products p on p.tenant_id = $1 and p.id = s.product_id) as items
		from day d, (
			select coalesce(sum(s.on_hand), 0) as on_hand, coalesce(sum(s.unvalued), 0) as unvalued,
				case when count(*) = 0 then 0 else sum(s.value) end as value, count(*) as groups
			from stock s
		) t`, db.ActorOf(ctx).Tenant, r.In.To.Arg(),
		r.In.Skip.Or(0), r.In.Limit.Or(maxReported), r.In.GroupBy.Or("variant") == "product")
	return server.One(report, h.db.Read(ctx, db.FreshPlan(), report))
}
