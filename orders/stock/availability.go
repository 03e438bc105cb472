package stock

import (
	"context"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/orders"
	"spoolwright/server"
	"spoolwright/value"
)

// ProductAvailability reports whether the stock has enough filament for a number of pieces of a product.
type ProductAvailability struct {
	ProductID     value.UUID          `json:"product_id" rule:"notNull"`
	ProductName   string              `json:"product_name" rule:"notNull"`
	Quantity      int64               `json:"quantity" rule:"notNull"`
	CanPrint      bool                `json:"can_print" rule:"notNull"`
	MaterialCount int64               `json:"material_count" rule:"notNull"`
	Materials     []AvailableMaterial `json:"materials" rule:"notNull"`
}

// OrderAvailability reports whether the stock has enough filament for an order.
type OrderAvailability struct {
	OrderID       value.UUID          `json:"order_id" rule:"notNull"`
	Status        orders.OrderStatus  `json:"status" rule:"notNull"`
	CanPrint      bool                `json:"can_print" rule:"notNull"`
	MaterialCount int64               `json:"material_count" rule:"notNull"`
	Materials     []AvailableMaterial `json:"materials" rule:"notNull"`
	Items         []AvailableItem     `json:"items" rule:"notNull"`
}

// AvailableItem reports the sources of the undelivered pieces of an item of an open order.
type AvailableItem struct {
	ID value.UUID `json:"id" rule:"notNull"`
	AvailablePart
	EndAt value.Timestamp `json:"expected_end_at"`
	Parts []AvailablePart `json:"parts" rule:"notNull"`
}

// AvailablePart reports the sources of the pieces of a product that an item of an order needs.
type AvailablePart struct {
	ProductID   value.UUID `json:"product_id" rule:"notNull"`
	ProductName string     `json:"product_name" rule:"notNull"`
	Needed      int64      `json:"needed" rule:"notNull"`
	Reserved    int64      `json:"reserved" rule:"notNull"`
	Incoming    int64      `json:"incoming" rule:"notNull"`
	Missing     int64      `json:"missing" rule:"notNull"`
}

// OpenOrders reports for each open order whether the stock has enough filament.
type OpenOrders struct {
	Items []OpenOrder `json:"items" rule:"notNull"`
}

// OpenOrder reports whether the stock has enough filament for an order, in grams.
type OpenOrder struct {
	OrderID  value.UUID         `json:"order_id" rule:"notNull"`
	Status   orders.OrderStatus `json:"status" rule:"notNull"`
	CanPrint bool               `json:"can_print" rule:"notNull"`
	Missing  value.Decimal      `json:"missing_grams" rule:"notNull"`
}

// AvailableMaterial is a filament that pieces need, in grams.
type AvailableMaterial struct {
	MaterialType inventory.MaterialType `json:"material_type" rule:"notNull"`
	MaterialName string                 `json:"material_name"`
	Color        string                 `json:"color" rule:"notNull"`
	Brand        string                 `json:"brand"`
	DiameterMM   value.Decimal          `json:"diameter_mm" rule:"notNull"`
	FilamentID   *value.UUID            `json:"filament_id"`
	Needed       value.Decimal          `json:"needed_grams" rule:"notNull"`
	Remaining    value.Decimal          `json:"remaining_grams" rule:"notNull"`
	Reserved     value.Decimal          `json:"reserved_grams" rule:"notNull"`
	Available    value.Decimal          `json:"available_grams" rule:"notNull"`
	Missing      value.Decimal          `json:"missing_grams" rule:"notNull"`
	SpoolCount   int64                  `json:"spool_count" rule:"notNull"`
	Spools       []AvailableSpool       `json:"spools" rule:"notNull"`
	InStock      []StockedFilament      `json:"in_stock" rule:"notNull"`
}

// StockedFilament is a filament in stock that is similar to a missing filament.
type StockedFilament struct {
	MaterialType inventory.MaterialType `json:"material_type" rule:"notNull"`
	MaterialName string                 `json:"material_name"`
	Color        string                 `json:"color" rule:"notNull"`
	DiameterMM   value.Decimal          `json:"diameter_mm" rule:"notNull"`
	Remaining    value.Decimal          `json:"remaining_grams" rule:"notNull"`
}

// AvailableSpool is a spool that alone has enough of a filament.
type AvailableSpool struct {
	ID        value.UUID    `json:"id" rule:"notNull"`
	Number    int64         `json:"number" rule:"notNull"`
	Name      string        `json:"name" rule:"notNull"`
	Remaining value.Decimal `json:"remaining_weight_grams" rule:"notNull"`
	Location  string        `json:"location"`
}

// Quantity is the query parameter of the availability of a product.
type Quantity struct {
	Quantity value.Optional[int64] `query:"quantity" rule:"minimum=1,maximum=1000000,default=1"`
}

// summary is a part of a select list that summarizes the rows of available_materials, which have the alias a. It
// lists at most 500 materials, missing materials first.
const summary = `
	(select coalesce(bool_and(a.missing = 0), true) from a) as can_print,
	(select count(*) from a) as material_count,
	(select coalesce(json_agg(json_build_object(
			'material_type', m.material_type, 'material_name', m.material_name, 'color', m.color, 'brand', m.brand,
			'diameter_mm', trim_scale(m.diameter_mm), 'filament_id', m.filament_id,
			'needed_grams', trim_scale(m.needed), 'remaining_grams', trim_scale(m.remaining),
			'reserved_grams', trim_scale(m.reserved), 'available_grams', trim_scale(m.available),
			'missing_grams', trim_scale(m.missing), 'spool_count', m.spool_count, 'spools', m.spools,
			'in_stock', case when m.spool_count = 0 and m.n <= 20
				then similar_spools(m.tenant_id, m.material_type, m.material_key, m.color_key) else '[]' end)
			order by m.n), '[]')
		from (
			select *, nullif(current_setting('app.tenant_id', true), '')::uuid as tenant_id, row_number() over (
				order by missing = 0, material_type, material_key, color_key, filament_id nulls first) as n
			from a
		) m where m.n <= 500) as materials`

const availabilityRules = "Follows the bill of materials through all components. Materials that are not required do " +
	"not count. The weights are those of each material and color: of the spools with the same `material_type`, " +
	"`material_name`, `diameter_mm` and `color`, or of the filament that the material of the product names. " +
	"`docs/planning.md` has the rule. Archived and removed spools do not count. If no filament in stock matches, " +
	"`spool_count` is 0, and `in_stock` lists filament of the material type, the most similar first.\n\n" +
	"Open orders reserve the filament of their pieces that are neither in stock nor in an unfinished run (`pending`, " +
	"`in_progress`, `paused`). Unfinished runs reserve the weights of their materials, actual or else estimated; a " +
	"run without such weights reserves the bills of materials of its items. Reservations are computed at each " +
	"request, and never prevent a deduction, so that `available_grams` can be negative."

var productAvailabilityDoc = &server.Doc{
	ID: "getProductAvailability", Tag: catalog.Tag, Summary: "Check whether a product can be printed",
	Description: availabilityRules,
}

func (h handlers) productAvailability(
	ctx context.Context, r *server.Request[Quantity],
) (server.OK[ProductAvailability], error) {
	quantity := r.In.Quantity.Or(1)
	available := db.SQL(`
		with p as materialized (
			select p.id, p.name from products p where p.id = $1 and p.hidden_at is null
		), a as materialized (
			select a.* from p, available_materials($3, array[p.id], array[$2::numeric], null, null) a
		)
		select p.id as product_id, p.name as product_name, $2::bigint as quantity,`+summary+` from p`,
		r.ID("id"), quantity, db.ActorOf(ctx).Tenant)
	return server.One(available, h.db.Read(ctx, available))
}

var openOrdersDoc = &server.Doc{
	ID: "listOrderAvailability", Tag: orders.Tag, Summary: "Check which open orders can be printed",
	Description: "Returns the ten open orders that are due first, as `GET /api/v1/orders/{id}/availability` does, with " +
		"the sum of what is missing of their materials. Orders without a due date are last.",
}

func (h handlers) openOrders(ctx context.Context, _ *server.Request[struct{}]) (server.OK[OpenOrders], error) {
	// The needs of an order are its reservations. So the missing grams of a material are the excess of all
	// reservations over the stock, and one query of the stock is enough.
	found := db.SQL(`
		with o as materialized (
			select o.id, o.status, o.due_date from orders o where o.is_open order by o.due_date, o.id limit 10
		), n as materialized (
			select n.order_id as id, n.product_id, (n.incoming + n.missing)::numeric as pieces
			from net_pieces() n join o on o.id = n.order_id
			where n.printed and n.incoming + n.missing > 0
		), a as materialized (
			select a.material_key, a.color_key, a.filament_id, -a.available as missing
			from available_materials($1, array(select n.product_id from n), array(select n.pieces from n), null, null,
				array(select true from n)) a
			where a.available < 0
		)
		select coalesce(json_agg(json_build_object('order_id', o.id, 'status', o.status, 'can_print', m.missing = 0,
			'missing_grams', trim_scale(least(m.missing, 999999999))) order by o.due_date, o.id), '[]') as items
		from o cross join lateral (
			select coalesce(sum(a.missing), 0) as missing
			from explode_products(array(select n.product_id from n where n.id = o.id),
				array(select n.pieces from n where n.id = o.id), array(select true from n where n.id = o.id)) e
			join a on a.material_key = e.material_key and a.color_key = e.color_key
				and a.filament_id is not distinct from e.filament_id
		) m`, db.ActorOf(ctx).Tenant)
	return server.One(found, h.db.Read(ctx, found))
}

var orderAvailabilityDoc = &server.Doc{
	ID: "getOrderAvailability", Tag: orders.Tag, Summary: "Check whether an order can be printed",
	Description: availabilityRules + "\n\n" +
		"`needed_grams` is for the pieces of the order that are neither in stock nor in an unfinished run. " +
		"`reserved_grams` contains what those runs plan, and not what the order itself reserves. An order that is " +
		"`done` or `cancelled` needs nothing.\n\n" +
		"`items` tells where the pieces come from that are not delivered: those in stock (`reserved`) first, then those " +
		"of unfinished runs (`incoming`); orders that are due earlier come first. `missing` pieces must be printed or, " +
		"if the product is only put together from components, assembled; `parts` has the components that they need, at " +
		"all levels.",
}

// partFields are the fields of an AvailablePart, for the row n of net_pieces with the name of its product.
const partFields = `'product_id', n.product_id, 'product_name', n.name, 'needed', least(n.needed, 999999999),
	'reserved', n.reserved, 'incoming', n.incoming, 'missing', least(n.missing, 999999999)`

func (h handlers) orderAvailability(
	ctx context.Context, r *server.Request[struct{}],
) (server.OK[OrderAvailability], error) {
	available := db.SQL(`
		with o as materialized (
			select o.id, o.status, o.is_open from orders o where o.id = $1 and o.hidden_at is null
		), net as materialized (
			select n.*, p.name, p.levels, p.created_at
			from o join net_pieces(order_products($1)) n on n.order_id = o.id
			join products p on p.id = n.product_id
		), n as materialized (
			select n.product_id, (n.incoming + n.missing)::numeric as pieces, 0::numeric as waiting, false as alone
			from net n where n.of_item and n.incoming + n.missing > 0
			union all
			select n.product_id, 0, n.missing::numeric, true from net n where n.printed and n.missing > 0
		), a as materialized (
			select a.* from o, available_materials($2, array(select n.product_id from n), array(select n.pieces from n),
				array(select n.waiting from n), o.id, array(select n.alone from n)) a
		)
		select o.id as order_id, o.status,`+summary+`,
			(select coalesce(json_agg(json_build_object('id', n.order_item_id, `+partFields+`,
					'expected_end_at', event_time((select max(q.expected_end) from run_items i join run_queue() q on q.id = i.run_id
						where i.order_item_id = n.order_item_id)),
					'parts', (select coalesce(json_agg(json_build_object(`+partFields+`) order by n.levels desc, n.created_at,
						n.product_id), '[]') from net n where n.order_item_id = m.order_item_id and not n.of_item))
					order by n.place), '[]')
				from net n cross join lateral (select n.order_item_id) m where n.of_item) as items
		from o`, r.ID("id"), db.ActorOf(ctx).Tenant)
	return server.One(available, h.db.Read(ctx, available))
}
