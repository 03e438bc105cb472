// Package orders implements the orders of customers, and reports whether a farm has the filament to print them.
package orders

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"spoolwright/auth"
	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/production"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/webhooks"
)

// Events are the events of orders, for the OpenAPI document.
var Events = webhooks.Declare(
	event("order.received", "An order was received",
		"Sent when `createOrder` creates an order with the status `received`, but not when a shop sends the order "+
			"again."),
	event("order.in_production", "An order went into production", became("in_production")+
		" A `done` order becomes `in_production` again when something is added to it."),
	event("order.ready", "An order can be packed",
		"Sent when all pieces of an open order that are not delivered are in stock for it, about a second after the "+
			"change that caused it. Pieces that are assembled from components, at all levels, count if the components are "+
			"in stock, unless the farm has turned `assemble_on_delivery` off."),
	event("order.done", "An order is done", became("done")),
	event("order.cancelled", "An order was cancelled", became("cancelled")),
)

func event(name, summary, description string) server.Event {
	return server.Event{Type: name, Tag: Tag, Summary: summary, Description: description,
		Data: reflect.TypeFor[OrderEvent]()}
}

func became(status string) string {
	return "Sent when the status of an order becomes `" + status + "`, by a request or, for `in_production`, by a run, " +
		"and when an order is created with it."
}

// OrderEvent is the data of the events of orders.
type OrderEvent struct {
	ID        value.UUID       `json:"id" rule:"notNull"`
	Source    string           `json:"source"`
	Reference string           `json:"reference"`
	Customer  string           `json:"customer"`
	DueDate   value.Date       `json:"due_date"`
	Status    OrderStatus      `json:"status" rule:"notNull"`
	Items     []OrderEventItem `json:"items" rule:"notNull"`
	ItemCount int64            `json:"item_count" rule:"notNull"`
}

// OrderEventItem is an item of an order in an event.
type OrderEventItem struct {
	ID        value.UUID `json:"id" rule:"notNull"`
	ProductID value.UUID `json:"product_id" rule:"notNull"`
	SKU       string     `json:"sku"`
	Quantity  int64      `json:"quantity" rule:"notNull"`
}

// Tag is the tag of the operations.
var Tag = &server.Tag{
	Name: "orders", Leads: true, Fields: fields,
	Description: "Orders of customers, the pieces that they still need, and whether there is filament to print them.",
}

// fields describes the fields of the requests and responses.
//
//go:embed fields.md
var fields string

// Routes are the operations of /api/v1/orders.
func Routes(d *db.DB) []server.Route {
	h := handlers{d}
	return []server.Route{
		server.Op("GET /api/v1/orders", server.Read,
			server.HandleList[OrderListItem](h.db, OrderFilter.list), listDoc),
		server.Op("GET /api/v1/orders/export", server.Read, Export.Handle(h.db, "orders"), exportDoc),
		server.Op("GET /api/v1/orders/pick-list", server.Read, server.Handle(h.pickList), pickListDoc),
		server.Op("POST /api/v1/orders", server.Write, server.Handle(h.create), createDoc),
		server.Op("PATCH /api/v1/orders", server.Write, server.HandleUpdates[SeveralOrders](d, errUnknownOrders, h.update),
			updateSeveralDoc),
		server.Op("POST /api/v1/orders/batch", server.Write, server.HandleBatch[SeveralOrders](d, h.create),
			createSeveralDoc),
		server.Op("GET /api/v1/orders/{id}", server.Read, server.Handle(h.get), getDoc).Versioned(lockOrder),
		server.Op("PATCH /api/v1/orders/{id}", server.Write, server.Handle(h.update), updateDoc),
		server.Op("DELETE /api/v1/orders/{id}", server.Write, server.Handle(h.delete), deleteDoc),
		server.Op("POST /api/v1/orders/{id}/restore", server.Write, server.Handle(h.restore), restoreDoc),
		server.Op("POST /api/v1/orders/{id}/cancel", server.Write, server.Handle(h.cancel), cancelDoc),
		server.Op("POST /api/v1/orders/{id}/complete", server.Write, server.Handle(h.complete).OptionalBody(), completeDoc),
		server.Op("POST /api/v1/orders/{id}/deliver", server.Write, server.Handle(h.deliver).OptionalBody(), deliverDoc),
		server.Op("POST /api/v1/orders/{id}/return", server.Write, server.Handle(h.takeReturn), returnDoc),
		server.Op("POST /api/v1/orders/{id}/items", server.Write, server.Handle(h.addItem), addItemDoc),
		server.Op("PATCH /api/v1/orders/{id}/items/{item_id}", server.Write, server.Handle(h.updateItem),
			updateItemDoc),
		server.Op("GET /api/v1/reports/lot", server.Read, server.Handle(h.reportLot), lotReportDoc),
		server.Op("GET /api/v1/reports/margins", server.Read, server.Handle(h.reportMargins), marginReportDoc),
		server.Op("DELETE /api/v1/orders/{id}/items/{item_id}", server.Write, server.Handle(h.deleteItem),
			deleteItemDoc),
		server.Op("POST /api/v1/orders/{id}/items/{item_id}/restore", server.Write, server.Handle(h.restoreItem),
			restoreItemDoc),
		server.Op("POST /api/v1/orders/{id}/lines/{line_id}/assign", server.Write, server.Handle(h.assign), assignDoc),
		server.Op("GET /api/v1/order-assignments", server.Read,
			server.HandleList[OrderAssignment](h.db, AssignmentFilter.list), listAssignmentsDoc),
		server.Op("DELETE /api/v1/order-assignments/{id}", server.Write, server.Handle(h.deleteAssignment),
			deleteAssignmentDoc),
	}
}

type handlers struct{ db *db.DB }

// OrderStatus is the state of an order.
type OrderStatus string

// Enum returns all states. The first two are the states of open orders.
func (OrderStatus) Enum() []string { return []string{"received", "in_production", "done", "cancelled"} }

// Order is an order in requests and in responses, except lists.
type Order struct {
	ID        value.UUID                  `json:"id" rule:"readOnly,notNull"`
	Source    value.Optional[string]      `json:"source"`
	Reference value.Optional[string]      `json:"reference"`
	Customer  value.Optional[string]      `json:"customer"`
	DueDate   value.Optional[value.Date]  `json:"due_date"`
	Notes     value.Optional[string]      `json:"notes" rule:"maxLength=10000"`
	Carrier   value.Optional[string]      `json:"carrier" rule:"minLength=1,maxLength=100"`
	Tracking  value.Optional[string]      `json:"tracking_number" rule:"minLength=1,maxLength=100"`
	Status    value.Optional[OrderStatus] `json:"status" rule:"notNull"`
	OrderTerms
	ReadyAt   value.Timestamp         `json:"ready_at" rule:"readOnly"`
	Items     []OrderItem             `json:"items"`
	Lines     []OrderLine             `json:"unassigned_lines"`
	CreatedAt value.Timestamp         `json:"created_at" rule:"readOnly,notNull"`
	UpdatedAt value.Timestamp         `json:"updated_at" rule:"readOnly,notNull"`
	HiddenAt  value.Timestamp         `json:"hidden_at" rule:"readOnly"`
	HiddenBy  value.UUID              `json:"hidden_by" rule:"readOnly"`
	Hider     string                  `json:"hidden_by_name" rule:"readOnly,unsorted"`
	Revenue   value.Decimal           `json:"revenue" rule:"readOnly"`
	Cost      value.Decimal           `json:"cost" rule:"readOnly"`
	Parts     OrderCostParts          `json:"cost_parts" rule:"readOnly,notNull"`
	Expected  value.Decimal           `json:"expected_cost" rule:"readOnly"`
	Margin    value.Decimal           `json:"margin" rule:"readOnly"`
	Percent   value.Decimal           `json:"margin_percent" rule:"readOnly"`
	Unknown   production.UnknownParts `json:"unknown_parts" rule:"readOnly,notNull,empty"`
	Runs      []OrderRun              `json:"runs" rule:"readOnly"`
	Warnings  []OrderWarning          `json:"warnings" rule:"readOnly"` // not in exports
}

// OrderTerms are the currency and the tax of the prices of an order. The settings of the farm are the defaults.
type OrderTerms struct {
	Currency   value.Optional[string]        `json:"currency"`
	Rate       value.Optional[value.Decimal] `json:"exchange_rate" rule:"exclusiveMinimum=0,maximum=1000000"`
	RateDate   value.Optional[value.Date]    `json:"exchange_date"`
	TaxPercent value.Optional[value.Decimal] `json:"sales_tax_percent" rule:"notNull,maximum=100"`
	Included   value.Optional[bool]          `json:"prices_include_tax" rule:"notNull"`
}

// Check reports a currency that does not exist.
func (t *OrderTerms) Check(problems *server.Problems) {
	if !t.Currency.IsNull() && !auth.IsCurrency(*t.Currency.Value) {
		problems.Add("currency", auth.NoCurrency)
	}
}

const orderTerms = `currency, exchange_rate, exchange_date, sales_tax_percent, prices_include_tax`

// OrderCostParts are the parts of the cost of orders.
type OrderCostParts struct {
	production.RunCostParts
	Stock value.Decimal `json:"stock"`
}

// OrderRun is a production run that prints an item of an order.
type OrderRun struct {
	ID          value.UUID           `json:"id" rule:"notNull"`
	Status      production.RunStatus `json:"status" rule:"notNull"`
	PrinterName string               `json:"printer_name"`
	StartedAt   value.Timestamp      `json:"started_at"`
	CompletedAt value.Timestamp      `json:"completed_at"`

	Hours     value.Decimal              `json:"estimated_print_time_hours"`
	Items     []production.ListedProduct `json:"items" rule:"notNull"`
	ItemCount int64                      `json:"item_count" rule:"notNull"`
	Materials []production.ListedSpool   `json:"materials" rule:"notNull"`
}

// OrderListItem is an order in lists.
type OrderListItem struct {
	ID        value.UUID      `json:"id" rule:"notNull"`
	Source    string          `json:"source"`
	Reference string          `json:"reference"`
	Customer  string          `json:"customer"`
	DueDate   value.Date      `json:"due_date"`
	Status    OrderStatus     `json:"status" rule:"notNull"`
	ReadyAt   value.Timestamp `json:"ready_at" rule:"unsorted"`
	Lines     int64           `json:"unassigned_count" rule:"notNull,unsorted"`
	CreatedAt value.Timestamp `json:"created_at" rule:"notNull"`
	UpdatedAt value.Timestamp `json:"updated_at" rule:"notNull"`
	HiddenAt  value.Timestamp `json:"hidden_at"`
	HiddenBy  value.UUID      `json:"hidden_by"`
	Hider     string          `json:"hidden_by_name" rule:"unsorted"`

	Items     []production.ListedProduct `json:"items" rule:"notNull"`
	ItemCount int64                      `json:"item_count" rule:"notNull,unsorted"`
	AllItems  []OrderItem                `json:"all_items" rule:"notNull"`
	Pieces    int64                      `json:"pieces" rule:"notNull,unsorted"`
	Produced  int64                      `json:"produced" rule:"notNull,unsorted"`
	Value     value.Decimal              `json:"value" rule:"unsorted"`
}

// OrderFilter selects orders.
type OrderFilter struct {
	Status      value.Optional[value.Set[OrderStatus]] `query:"status"`
	Source      value.Optional[string]                 `query:"source"`
	Reference   value.Optional[string]                 `query:"reference"`
	Customer    value.Optional[string]                 `query:"customer"`
	ProductID   value.Optional[value.UUID]             `query:"product_id"`
	DueFrom     value.Optional[value.Date]             `query:"due_from"`
	DueTo       value.Optional[value.Date]             `query:"due_to"`
	CreatedFrom value.Optional[value.Moment]           `query:"created_from"`
	CreatedTo   value.Optional[value.Moment]           `query:"created_to"`
	LotNumber   value.Optional[string]                 `query:"lot_number"`
	Unassigned  value.Optional[bool]                   `query:"unassigned"`
	Ready       value.Optional[bool]                   `query:"ready"`
	Search      value.Optional[string]                 `query:"search" rule:"search"`
	Expand      value.Optional[server.Expand]          `query:"expand"`
	server.Hiding
}

var listDoc = &server.Doc{
	ID: "listOrders", Tag: Tag, Summary: "List orders",
	Description: "Each order has its first items, and the numbers of its pieces. " + server.ExpandRules +
		" All filters but `search` use an index. `search` and a `sort_by` without an index read all matching orders.",
}

func (f OrderFilter) list() *server.List {
	const items = ` from order_items i where i.order_id = orders.id and i.withdrawn_at is null`
	all := `'[]'::json`
	if !f.Expand.IsNull() {
		all = allItems
	}
	l := server.NewHidingList("orders", `id, source, reference, customer, due_date, status,
		case when is_open then ready_at end as ready_at, unassigned_count, created_at,
		updated_at, hidden_at, `+auth.HiddenBy+`,
		(select coalesce(json_agg(json_build_object('product_id', i.product_id, 'product_name', p.name,
				'picture_version', p.picture_version, 'quantity', i.quantity) order by i.created_at, i.id), '[]')
			from (select i.*`+items+` order by i.created_at, i.id limit 3) i
			cross join lateral (select name, picture_version from products where id = i.product_id offset 0) p)
			as items,
		(select count(*)`+items+`) as item_count, `+all+` as all_items,
		(select coalesce(sum(i.quantity), 0)`+items+`) as pieces,
		(select coalesce(sum(least(n.produced, i.quantity)), 0) from (select i.*`+items+`) i
			cross join lateral order_item_pieces(i.id) n) as produced,
		(select sum(line_share(p.net, 0, i.quantity, p.net_pieces)) from (select i.*`+items+`) i
			cross join lateral item_price(i.unit_price, i.line_price, i.line_pieces, i.tax_amount, orders.prices_include_tax,
				orders.sales_tax_percent, order_rate(orders.currency, orders.exchange_rate)) p) as value`, "orders", f.Hiding)
	l.Computed()
	if !f.Expand.IsNull() {
		l.Large()
	}
	l.WhereEach("status", f.Status)
	l.WhereText("source_key", f.Source)
	l.WhereText("reference_key", f.Reference)
	l.WhereText("customer_key", f.Customer)
	l.Among(`select order_id as id from order_items where product_id = ?
		and withdrawn_at is null`, f.ProductID)
	l.Among(`select order_id as id from pieces_of_lot(?) where order_id is not null`, f.LotNumber)
	switch {
	case f.Unassigned.IsNull():
	case *f.Unassigned.Value:
		l.Where("unassigned_count > 0 and ?::boolean", true) // the condition of the index orders_unassigned
	default:
		l.Where("unassigned_count = 0 and ?::boolean", true)
	}
	switch {
	case f.Ready.IsNull():
	case *f.Ready.Value:
		l.Where("ready_at is not null and is_open and ?::boolean", true) // the condition of the index orders_ready
	default:
		l.Where("not (ready_at is not null and is_open) and ?::boolean", true)
	}
	l.Between("due_date", f.DueFrom, f.DueTo)
	l.Between("created_at", f.CreatedFrom, f.CreatedTo)
	l.Search(f.Search, server.Place{Column: "id", Key: `p.search_key`, Texts: `concat_ws(E'\n', p.name, p.sku)`,
		Rows: `select i.order_id from products p
			join order_items i on i.product_id = p.id and i.withdrawn_at is null
			where true`},
		server.Place{Column: "id", Key: `s.search_key`, Texts: `s.lot_number`,
			Rows: `select i.order_id ` + production.FromLots + `
				join run_items x on x.run_id = m.run_id
				join order_items i on i.id = x.order_item_id
				where true`})
	return l
}

// runItems and runItemCount are SQL expressions of the items of the run r.
var runItems, runItemCount = production.ListedItems("r.id")

// selectOrders is one statement, so that the items and their pieces come from one snapshot.
var selectOrders = `
	select o.id, o.source, o.reference, o.customer, o.due_date, o.notes, o.carrier, o.tracking_number,
		o.status, o.currency, o.exchange_rate,
		o.exchange_date, o.sales_tax_percent, o.prices_include_tax, case when o.is_open then o.ready_at end as ready_at,
		it.items,
		case when o.unassigned_count = 0 then '[]' else ` + unassignedLines + ` end as unassigned_lines,
		o.created_at, o.updated_at, o.hidden_at, ` + auth.HiddenBy + `,
		(select coalesce(json_agg(json_build_object('id', r.id, 'status', r.status, 'printer_name', r.printer_name,
				'started_at', event_time(r.started_at), 'completed_at', event_time(r.completed_at),
				'estimated_print_time_hours', trim_scale(r.estimated_print_time_hours),
				'items', ` + runItems + `, 'item_count', ` + runItemCount + `,
				'materials', ` + production.ListedSpools("r.id") + `)
				order by r.created_at desc, r.id desc), '[]')
			from (
				select r.* from (
					select distinct x.run_id from order_items i join run_items x on x.order_item_id = i.id
					where i.order_id = o.id
				) u
				cross join lateral (
					select * from production_runs r where r.id = u.run_id and r.hidden_at is null
					offset 0 -- finds each run by its id, also before PostgreSQL has statistics of the runs
				) r
				order by r.created_at desc, r.id desc limit 100
			) r) as runs,
		m.revenue, m.cost, m.cost_parts, m.expected_cost, m.revenue - m.cost - m.expected_cost as margin,
		round((m.revenue - m.cost - m.expected_cost) * 100 / nullif(m.revenue, 0), 1) as margin_percent,
		to_json(m.unknown) as unknown_parts
	from orders o
	cross join lateral order_money(o.id) m
	cross join lateral (
		select ` + itemsJSON + ` as items,
			coalesce(json_agg(json_build_object('id', i.id, 'product_id', i.product_id, 'product_name', p.name,
				'quantity', i.quantity, 'produced', n.produced, 'planned', n.planned, 'delivered', i.delivered,
				'open', o.is_open and i.withdrawn_at is null,
				'revenue', trim_scale(line_share(a.net, 0, least(i.delivered, i.quantity), a.net_pieces)),
				'earns', order_item_earns(o.status, o.hidden_at, i.withdrawn_at), 'replaced', l.named)
				order by i.created_at, i.id) filter (where n.planned > 0 or i.delivered > i.quantity or i.delivered > 0
					and not order_item_earns(o.status, o.hidden_at, i.withdrawn_at) or l.named is not null), '[]') as warned
		from order_items i
		join products p on p.id = i.product_id
		cross join lateral order_item_pieces(i.id) n
		left join lateral (
			select concat_ws(' ', l.title, '(' || nullif(l.sku, '') || ')') as named from order_lines l
			where i.delivered > 0 and l.item_id = i.id and l.replaced and not exists (
				select from order_line_match(l.title, l.sku) m where m.product_id = i.product_id and m.pieces = l.pieces)
			limit 1
		) l on true
		cross join lateral ` + itemPrice + ` a
		cross join lateral (select ` + shownPrice + `) s
		where i.order_id = o.id
	) it`

// itemsJSON is a SQL expression for the JSON of the items i, their products p, pieces n and shown prices s.
const itemsJSON = `coalesce(json_agg(json_build_object('id', i.id, 'product_id', i.product_id, 'sku', p.sku,
				'product_name', p.name, 'quantity', i.quantity, 'unit_price', trim_scale(i.unit_price),
				'line_price', s.line_price, 'tax_amount', s.tax_amount, 'produced', n.produced, 'planned', n.planned,
				'delivered', i.delivered, 'picture_version', p.picture_version) order by i.created_at, i.id)
				filter (where i.withdrawn_at is null), '[]')`

// allItems is a SQL expression for the JSON of all items of an order in a list.
var allItems = `(select ` + itemsJSON + `
		from orders o join order_items i on i.order_id = o.id join products p on p.id = i.product_id
		cross join lateral order_item_pieces(i.id) n
		cross join lateral ` + itemPrice + ` a
		cross join lateral (select ` + shownPrice + `) s
		where o.id = orders.id)`

// selectWarned is selectOrders with the state of items that can need a warning, for answer.
var selectWarned = strings.Replace(selectOrders, "it.items", "it.items, it.warned as warnings", 1)

func selectOrder(id string) *db.Stmt {
	return db.SQL(selectWarned+` where o.hidden_at is null and o.id = $1`, id)
}

func (h handlers) get(ctx context.Context, r *server.Request[struct{}]) (server.OK[Order], error) {
	order := selectOrder(r.ID("id"))
	return answer(order, h.db.Read(ctx, order))
}

func lockOrder(ids ...string) []*db.Stmt {
	return []*db.Stmt{db.SQL(`select id from orders where id = $1 and hidden_at is null for no key update`, ids[0])}
}

var getDoc = &server.Doc{
	ID: "getOrder", Tag: Tag, Summary: "Get an order",
	Description: "Returns the order with its items. `produced` counts the good pieces of completed production " +
		"runs whose items have the `order_item_id`; items without counts have only good pieces. `planned` counts the " +
		"pieces of such runs that are `pending`, `in_progress` or `paused`. `runs` has the newest 100 of all these " +
		"runs.\n\n`revenue` is what all items earn, without tax and in the currency of the farm: an order that is " +
		"`cancelled`, or was removed while it was open, earns nothing, and its `revenue` is 0. `warnings` lists what " +
		"needs a decision: delivered pieces that earn nothing because the order was cancelled or the item removed " +
		"(`DELIVERED_NOT_EARNED`; `completeOrder` closes the order with what was delivered), items with more " +
		"delivered pieces than the shop has ordered since (`DELIVERED_MORE`), items that the shop has replaced by " +
		"something else (`DELIVERED_REPLACED`), and runs that print more pieces than the order needs " +
		"(`PLANNED_MORE`).\n\n`cost` is the sum of `cost_parts`. `filament`, `waste`, `machine`, `energy` and " +
		"`labour` are the share of the order in the cost of the ended runs that print its items, even if the order " +
		"was cancelled or the item was removed. The items of a run share its cost in proportion to their " +
		"`estimated_total_cost`, or `estimated_material_cost` if that is more, or to their quantities if no item has " +
		"a cost. `stock` is the cost of the pieces that the order took from stock, less the cost of good pieces of " +
		"its runs that it does not need, which are in stock. Delivered pieces have the average cost of the pieces in " +
		"stock at the delivery, by the ledger of pieces; later changes of the cost of a run do not change it. Pieces " +
		"that the customer sends back are no longer in the cost, unless they are scrapped.\n\n`expected_cost` is the " +
		"cost of the pieces that an open order still needs, except those that runs printed for it and that wait in " +
		"stock. Other pieces in stock, and components in stock of pieces that are assembled, count at their average " +
		"cost, even if other orders get them. Pieces that must still be printed count at their `full_cost`. Parts in " +
		"`unknown_parts` add nothing to the sums.\n\nAn order is open while it is `received` or `in_production`. An " +
		"open order becomes `in_production` when a run that prints one of its items starts, and `done` when all its " +
		"items are delivered, in the same transaction. `addOrderItem` and `updateOrderItem` reopen a `done` order " +
		"that then needs more pieces, and so does the reversal of a delivery; otherwise the service never changes a " +
		"status back.",
}

var (
	errConflict = server.Conflict("ORDER_CONFLICT", "Another order has this source and reference: %s %s",
		"etsy", "1042").On("reference")
	errUnknownProducts = server.BadRequest("UNKNOWN_REFERENCE", "Not a product: %s", "items[1].sku").On("items[1].sku")
)

var createDoc = &server.Doc{
	ID: "createOrder", Tag: Tag, Summary: "Create an order",
	Description: "`source` and `reference` together identify an order that has a `reference`. Shops may therefore send " +
		"an order twice, even at the same time and without an `Idempotency-Key`: if the order exists, and was created " +
		"by an equal request, the response is 200 with the current order. If the request was different, the response " +
		"is 409 `ORDER_CONFLICT`. The same applies to a cancelled order. After an order was removed, another order " +
		"can have its reference.\n\nThe request may contain the order's items, all or nothing. Each names a product " +
		"by `product_id` or `sku`. Errors name the entry, such as `items[1].sku`.\n\nInstead of items, a request can " +
		"have the lines of the shop in `unassigned_lines`. An unknown SKU is not an error there: a line becomes an " +
		"item if its `sku` is that of a product, or has an assignment from `assignOrderLine`, ignoring case. The " +
		"other lines stay in `unassigned_lines` until a person assigns them. A delivery does not make an order with " +
		"such lines `done`.",
	Errors: []*server.Error{errUnknownProducts, errConflict},
}

func (h handlers) create(
	ctx context.Context, r *server.Request[Order],
) (server.CreatedOrExisting[Order], error) {
	id, in := value.NewID(), &r.In
	content, err := contentOf(in)
	if err != nil {
		return nil, err
	}
	var unknown []int32 // the indexes of items without a product
	created := db.SQL(`
		with terms as materialized (
			select $11::text as currency, x.rate_now as exchange_rate, x.since as exchange_date,
				coalesce($14::numeric, t.sales_tax_percent) as sales_tax_percent,
				coalesce($15::boolean, t.prices_include_tax) as prices_include_tax
			from tenants t cross join lateral order_exchange($11, $12::numeric, $13::date) x
		), item as materialized (
			select i.n, i.id, p.id as product_id, i.quantity, coalesce(round(i.line_price / i.line_pieces, 6), (
					select price_in_order(p.selling_price, t.prices_include_tax, t.sales_tax_percent,
						order_rate(t.currency, t.exchange_rate)) from terms t)) as unit_price,
				i.line_price, i.line_pieces, i.tax_amount
			from json_to_recordset($9::json) i (n int, id uuid, product_id uuid, sku text, quantity int,
				line_price numeric, line_pieces bigint, tax_amount numeric)
			left join lateral `+catalog.Named("i.product_id", "i.sku")+` p on true
		), line as materialized (`+matchedLines("$10")+`), added as (
			insert into orders (id, source, reference, customer, due_date, notes, status, content, unassigned_count,
				carrier, tracking_number, `+orderTerms+`)
			select $1::uuid, $2, $3, $4, $5::date, $6, $7, $8::bytea,
				(select count(*) from line l where l.item_id is null and not l.ignored), $16, $17, t.*
			from terms t
			where not exists (select from item i where i.product_id is null)
				and not exists (select from orders o where coalesce(o.source, '') = coalesce($2, '')
					and o.reference = $3 and o.reference <> '' and o.hidden_at is null)
			on conflict (tenant_id, coalesce(source, ''), reference) where hidden_at is null and reference <> '' do nothing
			returning id, `+orderTerms+`
		), items as (
			insert into order_items (id, order_id, product_id, quantity, unit_price, line_price, line_pieces, tax_amount)
			select i.id, a.id, i.product_id, i.quantity, i.unit_price, i.line_price, i.line_pieces, i.tax_amount
			from added a, item i order by i.n
		), `+newLines+`
		select array(select i.n from item i where i.product_id is null order by i.n)`,
		id, in.Source.Arg(), in.Reference.Arg(), in.Customer.Arg(), in.DueDate.Arg(), in.Notes.Arg(),
		string(in.Status.Or("received")), content, itemRows(in.Items), lineRows(id, in.Lines), in.Currency.Arg(),
		in.Rate.Arg(), in.RateDate.Arg(), in.TaxPercent.Arg(), in.Included.Arg(), in.Carrier.Arg(),
		in.Tracking.Arg()).Into(&unknown)
	// If the insert waits for a concurrent request with the same reference, the next statements see the order of that
	// request.
	const found = `(
		select coalesce((
			select o.id from orders o where coalesce(o.source, '') = coalesce($2::text, '') and o.reference = $3::text
				and o.reference <> '' and o.hidden_at is null
		), $1::uuid))`
	var existing, equal bool
	known := db.SQL(`select o.id <> $1::uuid, o.content = $4::bytea from orders o where o.id = `+found,
		id, in.Source.Arg(), in.Reference.Arg(), content).Into(&existing, &equal)
	order := db.SQL(selectWarned+` where o.id = `+found, id, in.Source.Arg(), in.Reference.Arg())
	stmts := []*db.Stmt{created, known, order, countOrder(id)}
	if in.Status.Or("") == "done" {
		stmts = []*db.Stmt{created, deliverNew(id), known, order, countOrder(id)}
	}
	err = h.db.Write(ctx, stmts...)
	switch {
	case err != nil:
		return nil, rateError(err)
	case existing && !equal:
		return nil, errConflict.With(in.Source.Or(""), in.Reference.Or(""))
	case existing:
		r.Existing()
	case len(unknown) > 0:
		var fields, shown []string
		for _, i := range unknown {
			fields = append(fields, fmt.Sprintf("items[%d].%s", i, in.Items[i].productField()))
			shown = append(shown, server.WithValue(fields[len(fields)-1], in.Items[i].SKU))
		}
		return nil, errUnknownProducts.With(server.JoinFields(shown)).On(fields...)
	}
	return answer(order, nil)
}

// contentOf returns the SHA-256 of the order in a request. A shop that repeats a request sends the same content,
// whatever has changed in the order since.
func contentOf(o *Order) ([]byte, error) {
	content := []any{o.Source.Arg(), o.Reference.Arg(), o.Customer.Arg(), o.DueDate.Arg(), o.Notes.Arg(),
		o.Status.Arg(), o.Currency.Arg(), o.Rate.Arg(), o.RateDate.Arg(), o.TaxPercent.Arg(), o.Included.Arg(),
		o.Carrier.Arg(), o.Tracking.Arg()}
	for _, i := range o.Items {
		content = append(content, []any{i.ProductID.Arg(), i.SKU.Arg(), i.Quantity.Or(1), i.UnitPrice.Arg(),
			i.LinePrice.Arg(), i.TaxAmount.Arg()})
	}
	for _, l := range o.Lines {
		content = append(content, []any{"line", l.Title.Arg(), l.SKU.Arg(), l.Quantity.Or(1), l.UnitPrice.Arg(),
			l.LinePrice.Arg(), l.TaxAmount.Arg()})
	}
	text, err := json.Marshal(content)
	sum := sha256.Sum256(text)
	return sum[:], err
}

var updateDoc = &server.Doc{
	ID: "updateOrder", Tag: Tag, Summary: "Update an order",
	Description: "Any `status` may be set. A `done` or `cancelled` order reserves no filament, and its status no " +
		"longer follows its production runs; set it to `received` or `in_production` to open it again. Setting `done` " +
		"marks the order done by hand, as with `completeOrder`: the customer got all pieces. Another status takes " +
		"back the deliveries of a `done` order: its pieces are in stock again, and `delivered` is null. The runs of a " +
		"cancelled order continue, and reserve filament until they end, but no other run can print its " +
		"items.\n\nItems have their own operations; this one ignores `items`.",
	Errors: []*server.Error{errConflict},
}

func (h handlers) update(ctx context.Context, r *server.Request[Order]) (server.OK[Order], error) {
	order := selectOrder(r.ID("id"))
	// The rate and its date depend on the currency, and on each other.
	currency, rate, day := r.In.Currency, r.In.Rate, r.In.RateDate
	r.In.Rate, r.In.RateDate = value.Optional[value.Decimal]{}, value.Optional[value.Date]{}
	set, args := server.Assignments(&r.In, []any{r.ID("id"), currency.Set, currency.Arg(), rate.Set, rate.Arg(), day.Set,
		day.Arg()})
	if currency.Set || rate.Set || day.Set {
		if set != "" {
			set += ", "
		}
		set += `(exchange_rate, exchange_date) = (
				select x.rate_now, x.since
				from (select case when $2::boolean then $3::text else o.currency end as currency) n
				cross join lateral order_exchange(n.currency,
					case when $4::boolean then $5::numeric when n.currency = o.currency then o.exchange_rate end,
					case when $6::boolean then $7::date when n.currency = o.currency and not $4 then o.exchange_date end) x)`
	} else {
		set, args = server.Assignments(&r.In, []any{r.ID("id")})
	}
	if set == "" {
		return answer(order, h.db.Read(ctx, order))
	}
	changed := db.SQL(`update orders o set `+set+`, updated_at = now() where id = $1 and hidden_at is null returning id`,
		args...)
	counted := newCountedSince(r.ID("id"))
	stmts := []*db.Stmt{changed, counted.stmt, order}
	switch r.In.Status.Or("") {
	case "":
	case "done":
		stmts = append([]*db.Stmt{lockOrder(r.ID("id"))[0], deliverAll(r.ID("id"))}, stmts...)
	default:
		stmts = append([]*db.Stmt{lockOrder(r.ID("id"))[0], takeBack(r.ID("id"))}, stmts...)
	}
	err := h.db.Write(ctx, stmts...)
	if db.Violates(err, "orders_reference") {
		return nil, errConflict.With(r.In.Source.Or(""), r.In.Reference.Or(""))
	}
	return answer(order, rateError(err), counted.warnings()...)
}

// rateError returns a 422 if err reports that an order has a rate and no currency.
func rateError(err error) error {
	if db.Violates(err, "orders_exchange") {
		return server.Invalid("exchange_rate", "needs the currency of the order").Because(err)
	}
	return err
}

var deleteDoc = &server.Doc{
	ID: "deleteOrder", Tag: Tag, Summary: "Remove an order",
	Description: "Hides the order: lists no longer contain it, requests with its id return 404, and it reserves no " +
		"filament. If it was open, it earns nothing. Another order can have its `reference`. Production " +
		"runs that print its items continue. `GET /api/v1/orders?hidden=true` lists hidden orders, and `restoreOrder` " +
		"shows one again. To cancel an order and keep it in the lists, use `cancelOrder`.",
}

func (h handlers) delete(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	hidden := db.SQL(`
		with hidden as (
			update orders set hidden_at = now(), updated_at = now() where id = $1 and hidden_at is null returning id
		)
		select count_rows('orders', -1) from hidden`, r.ID("id"))
	return nil, server.Found(hidden, h.db.Write(ctx, hidden))
}

var restoreDoc = &server.Doc{
	ID: "restoreOrder", Tag: Tag, Summary: "Restore a removed order",
	Description: "Shows a removed order again, with its items. An open order reserves filament again, and its status " +
		"follows what its production runs have done in the meantime. It cannot be restored while another order has " +
		"its `source` and `reference` (`ORDER_CONFLICT`). For an order that is not hidden, the operation changes " +
		"nothing and returns the order.",
	Errors: []*server.Error{errConflict.On()},
}

func (h handlers) restore(ctx context.Context, r *server.Request[struct{}]) (server.OK[Order], error) {
	var source, reference string
	var hidden bool
	locked := db.SQL(`select coalesce(source, ''), coalesce(reference, ''), hidden_at is not null from orders
		where id = $1 for no key update`, r.ID("id")).Into(&source, &reference, &hidden)
	restored := db.SQL(`
		update orders o set hidden_at = null, updated_at = now()
		where o.id = $1 and o.hidden_at is not null and not exists (
			select from orders other where coalesce(other.source, '') = coalesce(o.source, '')
				and other.reference = o.reference and other.reference <> '' and other.hidden_at is null)
		returning o.id`, r.ID("id"))
	order := selectOrder(r.ID("id"))
	err := h.db.Decide(ctx, []*db.Stmt{locked}, func() ([]*db.Stmt, error) {
		if !hidden {
			return []*db.Stmt{order}, nil
		}
		return []*db.Stmt{restored, settle(r.ID("id")), order, countOrder(r.ID("id"))}, nil
	})
	if db.Violates(err, "orders_reference") || err == nil && hidden && restored.Rows() == 0 {
		return nil, errConflict.With(source, reference).On().Because(err)
	}
	return answer(order, err)
}

// countOrder returns a statement that counts an order that lists have not shown before, if they show it now.
func countOrder(id string) *db.Stmt {
	return db.SQL(`select count_rows('orders', 1) from orders where id = $1 and hidden_at is null`, id)
}

var errOrderDone = server.Conflict("ORDER_NOT_OPEN", "The order is done, and cannot be cancelled")

var cancelDoc = &server.Doc{
	ID: "cancelOrder", Tag: Tag, Summary: "Cancel an order",
	Description: "Sets the `status` to `cancelled`: the order reserves no filament, and no other run can print its " +
		"items. Its runs continue, and reserve filament until they end. The order earns nothing; its `cost` is that " +
		"of failed and delivered pieces, and its other pieces are in stock. An order that is `done` cannot be " +
		"cancelled (`ORDER_NOT_OPEN`). For a cancelled order, the operation changes nothing and returns the order.",
	Errors: []*server.Error{errOrderDone},
}

func (h handlers) cancel(ctx context.Context, r *server.Request[struct{}]) (server.OK[Order], error) {
	var done bool
	locked := db.SQL(`select status = 'done' from orders where id = $1 and hidden_at is null for no key update`,
		r.ID("id")).Into(&done)
	cancelled := db.SQL(`update orders set status = 'cancelled', updated_at = now() where id = $1 and is_open`,
		r.ID("id"))
	order := selectOrder(r.ID("id"))
	err := h.db.Write(ctx, locked, cancelled, order)
	if err == nil && done {
		return nil, errOrderDone
	}
	return answer(order, err)
}

// SeveralOrders is the result of a request on several orders.
type SeveralOrders struct {
	Items []Order `json:"items" rule:"readOnly,notNull"`
}

var errUnknownOrders = server.BadRequest("UNKNOWN_REFERENCE", "Not an order: %s", "items[1].id").On("items[1].id")

var (
	createSeveralDoc = server.BatchDoc(createDoc, "orders",
		`{"items":[{"customer":"Ada Lovelace"},{"customer":"Alan Turing","notes":"Gift wrap"}]}`)
	updateSeveralDoc = server.UpdatesDoc(updateDoc, "order", errUnknownOrders,
		`{"items":[{"id":"018d0c4f-7a00-7c3e-8b5a-1f2e3d4c5b6a","changes":{"notes":"Gift"}}]}`)
)
