package orders

import (
	"context"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// maxPicked is the maximum number of orders of a PickList.
const maxPicked = value.MaxQueried

// PickListQuery are the parameters of a PickList.
type PickListQuery struct {
	IDs   value.Optional[value.Several[value.UUID]] `query:"ids"`
	Ready value.Optional[bool]                      `query:"ready" rule:"default=false"`
}

// PickList lists the pieces to take from each location for orders.
type PickList struct {
	Picks  []Pick        `json:"picks" rule:"notNull"`
	Orders []PickedOrder `json:"orders" rule:"notNull"`
	Total  int64         `json:"total" rule:"notNull"`
}

// Pick is a product with the number of pieces to take from its location.
type Pick struct {
	ProductID      value.UUID  `json:"product_id" rule:"notNull"`
	Number         int64       `json:"product_number" rule:"notNull"`
	Product        string      `json:"product_name" rule:"notNull"`
	SKU            string      `json:"sku"`
	Location       string      `json:"location"`
	PictureVersion string      `json:"picture_version"`
	Pieces         int64       `json:"pieces" rule:"notNull"`
	Orders         []PickShare `json:"orders" rule:"notNull"`
}

// PickShare is the number of pieces of a Pick that an item of an order gets.
type PickShare struct {
	OrderID     value.UUID `json:"order_id" rule:"notNull"`
	OrderItemID value.UUID `json:"order_item_id" rule:"notNull"`
	Pieces      int64      `json:"pieces" rule:"notNull"`
	IsPart      bool       `json:"is_part" rule:"notNull"`
}

// PickedOrder is an order of a PickList.
type PickedOrder struct {
	ID        value.UUID      `json:"id" rule:"notNull"`
	Source    string          `json:"source"`
	Reference string          `json:"reference"`
	Customer  string          `json:"customer"`
	DueDate   value.Date      `json:"due_date"`
	Notes     string          `json:"notes"`
	Status    OrderStatus     `json:"status" rule:"notNull"`
	ReadyAt   value.Timestamp `json:"ready_at"`
	Items     []PickedItem    `json:"items" rule:"notNull"`
	Lines     []OrderLine     `json:"unassigned_lines" rule:"notNull"`
}

// PickedItem is an item of an order of a PickList.
type PickedItem struct {
	ID             value.UUID   `json:"id" rule:"notNull"`
	ProductID      value.UUID   `json:"product_id" rule:"notNull"`
	Product        string       `json:"product_name" rule:"notNull"`
	SKU            string       `json:"sku"`
	Location       string       `json:"location"`
	PictureVersion string       `json:"picture_version"`
	Quantity       int64        `json:"quantity" rule:"notNull"`
	Delivered      int64        `json:"delivered" rule:"notNull"`
	Take           int64        `json:"take" rule:"notNull"`
	Assemble       int64        `json:"assemble" rule:"notNull"`
	Missing        int64        `json:"missing" rule:"notNull"`
	Parts          []PickedPart `json:"parts" rule:"notNull"`
}

// PickedPart is a component to take from stock for the kits of an item that are assembled.
type PickedPart struct {
	ProductID value.UUID `json:"product_id" rule:"notNull"`
	Product   string     `json:"product_name" rule:"notNull"`
	SKU       string     `json:"sku"`
	Location  string     `json:"location"`
	Take      int64      `json:"take" rule:"notNull"`
	Missing   int64      `json:"missing" rule:"notNull"`
}

var pickListDoc = &server.Doc{
	ID: "getPickList", Tag: Tag, Summary: "Get a pick list for orders",
	Description: "Returns which pieces to take from which `location` for the orders in `ids` (at most 100) or, with " +
		"`ready` true, for the orders that are ready to pack, in the order of their due dates; `total` counts all of " +
		"these. `picks` are sorted by location, those without one last. `orders` lists what to pack into each parcel. " +
		"The pieces are those that `getOrderAvailability` reports as reserved: pieces for an order that is due " +
		"earlier are not available to a later one.\n\nKits that are not in stock are assembled from `parts`, at all " +
		"levels; the parts are also in `picks`. Only open orders take pieces. Removed and unknown orders are left " +
		"out. Without `ids` and `ready`, the lists are empty.",
}

func (h handlers) pickList(ctx context.Context, r *server.Request[PickListQuery]) (server.OK[PickList], error) {
	list := db.SQL(`
		with asked as materialized (
			select o.*, count(*) over () as total from orders o
			where o.hidden_at is null and o.id = any ($1::uuid[]) and not $2
			union all
			select o.*, count(*) over () from orders o
			where o.is_open and o.ready_at is not null and $2
			order by due_date, created_at, id limit $3
		), net as materialized (
			select n.*, p.number, p.name, p.sku, p.location, p.location_key, p.picture_version
			from (
				select array(select distinct u.id from asked o cross join lateral unnest(order_products(o.id)) u (id)) as ids
			) x
			cross join lateral net_pieces(x.ids) n
			cross join lateral (select * from products p where p.id = n.product_id offset 0) p
			where n.order_id in (select o.id from asked o)
		)
		select
			(select coalesce(json_agg(json_build_object('product_id', k.product_id, 'product_number', k.number,
					'product_name', k.name, 'sku', k.sku, 'location', k.location, 'picture_version', k.picture_version,
					'pieces', k.pieces, 'orders', k.orders) order by k.location_key, k.name, k.product_id), '[]')
				from (
					select n.product_id, n.number, n.name, n.sku, n.location, n.location_key, n.picture_version,
						sum(n.reserved)::bigint as pieces, json_agg(json_build_object('order_id', n.order_id,
							'order_item_id', n.order_item_id, 'pieces', n.reserved::bigint, 'is_part', not n.of_item)
							order by n.place) as orders
					from net n where n.reserved > 0
					group by n.product_id, n.number, n.name, n.sku, n.location, n.location_key, n.picture_version
				) k) as picks,
			(select coalesce(json_agg(json_build_object('id', o.id, 'source', o.source, 'reference', o.reference,
					'customer', o.customer, 'due_date', o.due_date, 'notes', o.notes, 'status', o.status,
					'ready_at', case when o.is_open then event_time(o.ready_at) end,
					'items', (
						select coalesce(json_agg(json_build_object('id', i.id, 'product_id', i.product_id,
								'product_name', p.name, 'sku', p.sku, 'location', p.location,
								'picture_version', p.picture_version, 'quantity', i.quantity,
								'delivered', coalesce(i.delivered, 0), 'take', coalesce(n.take, 0)::bigint,
								'assemble', coalesce(n.assemble, 0)::bigint, 'missing', coalesce(n.missing, 0)::bigint,
								'parts', (
									select coalesce(json_agg(json_build_object('product_id', c.product_id, 'product_name', c.name,
										'sku', c.sku, 'location', c.location, 'take', c.reserved::bigint,
										'missing', (c.incoming + case when c.printed then c.missing else 0 end)::bigint)
										order by c.location_key, c.name, c.product_id), '[]')
									from net c where c.order_item_id = i.id and not c.of_item
										and (c.reserved > 0 or c.incoming > 0 or c.printed and c.missing > 0)))
							order by i.created_at, i.id), '[]')
						from order_items i
						join products p on p.id = i.product_id
						left join (
							select n.order_item_id, sum(n.reserved) as take,
								sum(n.missing) filter (where not n.printed) as assemble,
								sum(n.incoming + case when n.printed then n.missing else 0 end) as missing
							from net n where n.of_item group by n.order_item_id
						) n on n.order_item_id = i.id
						where i.order_id = o.id and i.withdrawn_at is null),
					'unassigned_lines', `+unassignedLines+`)
					order by case when $2 then 0 else array_position($1::uuid[], o.id) end, o.due_date, o.created_at, o.id),
					'[]')
				from asked o) as orders,
			coalesce((select o.total from asked o limit 1), 0) as total`,
		r.In.IDs.Arg(), r.In.Ready.Or(false), maxPicked)
	return server.One(list, h.db.Read(ctx, list))
}
