package orders

import (
	"context"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// OrderItem is a product in an order.
type OrderItem struct {
	ID          value.UUID                    `json:"id" rule:"readOnly,notNull"`
	ProductID   value.Optional[value.UUID]    `json:"product_id" rule:"notNull"`
	SKU         value.Optional[string]        `json:"sku" rule:"insteadOf=product_id"`
	ProductName string                        `json:"product_name" rule:"readOnly,notNull"`
	Quantity    value.Optional[int64]         `json:"quantity" rule:"notNull,minimum=1,maximum=1000000"`
	UnitPrice   value.Optional[value.Decimal] `json:"unit_price" rule:"maximum=1000000"`
	Produced    int64                         `json:"produced" rule:"readOnly,notNull"`
	Planned     int64                         `json:"planned" rule:"readOnly,notNull"`
	Delivered   value.Optional[int64]         `json:"delivered" rule:"readOnly"`
	Picture     string                        `json:"picture_version" rule:"readOnly"`
}

// OrderItemChange is the body of a PATCH of an item. The product cannot change, because runs may print it.
type OrderItemChange struct {
	ID          value.UUID                    `json:"id" rule:"readOnly,notNull"`
	ProductID   value.UUID                    `json:"product_id" rule:"readOnly,notNull"`
	SKU         string                        `json:"sku" rule:"readOnly"`
	ProductName string                        `json:"product_name" rule:"readOnly,notNull"`
	Quantity    value.Optional[int64]         `json:"quantity" rule:"notNull,minimum=1,maximum=1000000"`
	UnitPrice   value.Optional[value.Decimal] `json:"unit_price" rule:"maximum=1000000"`
	Produced    int64                         `json:"produced" rule:"readOnly,notNull"`
	Planned     int64                         `json:"planned" rule:"readOnly,notNull"`
	Delivered   value.Optional[int64]         `json:"delivered" rule:"readOnly"`
	Picture     string                        `json:"picture_version" rule:"readOnly"`
}

// itemRows returns the items as an argument for json_to_recordset, with new ids.
func itemRows(items []OrderItem) string {
	rows := make([]map[string]any, len(items))
	for i, item := range items {
		rows[i] = map[string]any{"id": value.NewID(), "product_id": item.ProductID.Arg(), "sku": item.SKU.Arg(),
			"quantity": item.Quantity.Or(1), "unit_price": item.UnitPrice.Arg()}
	}
	return db.Recordset(rows)
}

// productField returns the name of the field that names the product.
func (i *OrderItem) productField() string {
	if i.ProductID.IsNull() {
		return "sku"
	}
	return "product_id"
}

func selectItem(order, id string) *db.Stmt {
	return db.SQL(`
		select i.id, i.product_id, p.sku, p.name as product_name, i.quantity, i.unit_price, n.produced, n.planned,
			i.delivered, p.picture_version
		from order_items i
		join products p on p.id = i.product_id
		cross join lateral order_item_pieces(i.id) n
		where i.id = $2 and i.order_id = $1 and i.withdrawn_at is null
			and exists (select from orders o where o.id = $1 and o.hidden_at is null)`, order, id)
}

// settle returns a statement that makes an open order done if everything is delivered. The order must be locked.
func settle(order string) *db.Stmt {
	return db.SQL(`select settle_orders(array[$1::uuid])::text`, order)
}

// touched is a CTE that sets updated_at of the orders whose rows the CTE "changed" returns.
const touched = `touched as (
			update orders o set updated_at = now() from changed c where o.id = c.order_id
		)`

// touchedOpen is touched for rows with the additional column "more": whether the order needs more pieces than
// before. It reopens a done order that needs more pieces. A cancelled order stays cancelled.
const touchedOpen = `touched as (
			update orders o set updated_at = now(),
				status = case when c.more and o.status = 'done' then 'in_production' else o.status end
			from changed c where o.id = c.order_id
		)`

var errUnknownProduct = server.BadRequest("UNKNOWN_REFERENCE", "%s does not name a product", "sku").On("sku")

var addItemDoc = &server.Doc{
	ID: "addOrderItem", Tag: Tag, Summary: "Add a product to an order",
	Description: "The item names the product by `product_id` or `sku`. The default of `unit_price` is the current " +
		"`selling_price` of the product, and does not change with it later. A `done` order is open again " +
		"then: it becomes `in_production`. A `cancelled` order stays cancelled; `updateOrder` opens it.",
	Errors: []*server.Error{errUnknownProduct},
}

func (h handlers) addItem(ctx context.Context, r *server.Request[OrderItem]) (server.Created[OrderItem], error) {
	id, order, in := value.NewID(), r.ID("id"), &r.In
	var full bool
	locked := lockOrder(order)[0]
	added := db.SQL(`
		with changed as (
			insert into order_items (id, order_id, product_id, quantity, unit_price)
			select $1::uuid, o.id, p.id, $5::int, coalesce($7::numeric, p.selling_price)
			from orders o
			cross join lateral `+catalog.Named("$3::uuid", "$4::text")+` p
			where o.id = $2 and o.hidden_at is null
				and (select count(*) from order_items i where i.order_id = $2) < $6
			returning order_id, true as more
		), `+touchedOpen+`
		select order_id from changed`,
		id, order, in.ProductID.Arg(), in.SKU.Arg(), in.Quantity.Or(1), server.MaxEntries,
		in.UnitPrice.Arg())
	item := selectItem(order, id)
	err := h.db.Write(ctx, locked,
		db.SQL(`select count(*) >= $2 from order_items where order_id = $1`, order, server.MaxEntries).Into(&full),
		added, item)
	switch {
	case err != nil:
		return nil, err
	case locked.Rows() == 0:
		return nil, server.ErrNotFound
	case full:
		return nil, server.TooManyEntries("items")
	case added.Rows() == 0:
		return nil, errUnknownProduct.With(in.productField()).On(in.productField())
	}
	return item.Object(), nil
}

var updateItemDoc = &server.Doc{
	ID: "updateOrderItem", Tag: Tag, Summary: "Update an item of an order",
	Description: "Only the quantity and the price can change. If everything is delivered then, an open order becomes " +
		"`done`. A `done` order is open again (`in_production`) if the quantity is raised to more than is delivered; a " +
		"`cancelled` order stays cancelled. Pieces that the customer got beyond a lower quantity stay delivered, and earn " +
		"nothing; `returnOrder` brings them back.",
}

func (h handlers) updateItem(ctx context.Context, r *server.Request[OrderItemChange]) (server.OK[OrderItem], error) {
	order, id := r.ID("id"), r.ID("item_id")
	item := selectItem(order, id)
	set, args := server.Assignments(&r.In, []any{order, id})
	if set == "" {
		return server.One(item, h.db.Read(ctx, item))
	}
	changed := db.SQL(`
		with changed as (
			update order_items i set `+set+`
			from (select n.id, n.quantity from order_items n where n.id = $2 and n.order_id = $1) old
			where i.id = $2 and i.order_id = $1 and old.id = i.id and i.withdrawn_at is null
				and exists (select from orders o where o.id = $1 and o.hidden_at is null)
			returning i.order_id, i.quantity > greatest(old.quantity, i.delivered) as more
		), `+touchedOpen+`
		select order_id from changed`, args...)
	return server.One(item, h.db.Write(ctx, lockOrder(order)[0], changed, settle(order), item))
}

var errItemInUse = server.Conflict("ORDER_ITEM_IN_USE",
	"A production run that has not ended prints the item; complete, fail or cancel the run first: %s",
	"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a51")

var deleteItemDoc = &server.Doc{
	ID: "removeOrderItem", Tag: Tag, Summary: "Remove an item from an order",
	Description: "Removes an item whose runs have all ended or were removed; while a run that is `pending`, " +
		"`in_progress` or `paused` prints the item, it cannot be removed (`ORDER_ITEM_IN_USE`). The item earns " +
		"nothing then, but what its failed pieces cost stays in the `cost` of the order, and the runs in its " +
		"`runs`; good pieces that they have printed are in stock, with what they cost. To keep pieces for the " +
		"customer, lower the `quantity` to their number instead.\n\n" +
		"If everything else is delivered, an open order becomes `done`. An order without items stays as it is. " +
		"`restoreOrderItem` puts the item back.",
	Errors: []*server.Error{errItemInUse},
}

func (h handlers) deleteItem(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	order, id := r.ID("id"), r.ID("item_id")
	var run *string
	deleted := db.SQL(`
		with item as (
			select i.id, u.run
			from order_items i
			cross join lateral (
				select min(r.id::text) filter (
					where r.status in ('pending', 'in_progress', 'paused') and r.hidden_at is null) as run
				from run_items x
				join production_runs r on r.id = x.run_id
				where x.order_item_id = i.id
			) u
			where i.id = $2 and i.order_id = $1 and i.withdrawn_at is null
				and exists (select from orders o where o.id = $1 and o.hidden_at is null)
		), changed as (
			update order_items i set withdrawn_at = now() from item
			where i.id = item.id and item.run is null returning i.order_id
		), `+touched+`
		select run from item`, order, id).Into(&run)
	// A transaction that links a run to the item also locks the order first.
	if err := server.Found(deleted, h.db.Write(ctx, lockOrder(order)[0], deleted, settle(order))); err != nil {
		return nil, err
	}
	if run != nil {
		return nil, errItemInUse.With(*run)
	}
	return nil, nil
}

var restoreItemDoc = &server.Doc{
	ID: "restoreOrderItem", Tag: Tag, Summary: "Put an item back that was removed from an order",
	Description: "Puts an item back that `removeOrderItem` has removed, with its quantity, its price and its runs. A " +
		"`done` order is open again (`in_production`) if nothing of the item was delivered. For an item that is in the " +
		"order, the operation changes nothing and returns the item.",
}

func (h handlers) restoreItem(ctx context.Context, r *server.Request[struct{}]) (server.OK[OrderItem], error) {
	order, id := r.ID("id"), r.ID("item_id")
	restored := db.SQL(`
		with changed as (
			update order_items i set withdrawn_at = null
			where i.id = $2 and i.order_id = $1 and i.withdrawn_at is not null
				and exists (select from orders o where o.id = $1 and o.hidden_at is null)
			returning i.order_id, i.delivered is null as more
		), `+touchedOpen+`
		select order_id from changed`, order, id)
	item := selectItem(order, id)
	return server.One(item, h.db.Write(ctx, lockOrder(order)[0], restored, settle(order), item))
}
