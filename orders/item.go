package orders

import (
	"context"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/server"
)

// OrderItem is a product in an order.
type OrderItem struct {
	ID          server.UUID                     `json:"id" rule:"readOnly,notNull"`
	ProductID   server.Optional[server.UUID]    `json:"product_id" rule:"notNull"`
	SKU         server.Optional[string]         `json:"sku" rule:"insteadOf=product_id"`
	ProductName string                          `json:"product_name" rule:"readOnly,notNull"`
	Quantity    server.Optional[int64]          `json:"quantity" rule:"notNull,minimum=1,maximum=1000000"`
	UnitPrice   server.Optional[server.Decimal] `json:"unit_price" rule:"maximum=1000000"`
	Produced    int64                           `json:"produced" rule:"readOnly,notNull"`
	Planned     int64                           `json:"planned" rule:"readOnly,notNull"`
}

// OrderItemChange is the body of a PATCH of an item. The product cannot change, because runs may print it.
type OrderItemChange struct {
	ID          server.UUID                     `json:"id" rule:"readOnly,notNull"`
	ProductID   server.UUID                     `json:"product_id" rule:"readOnly,notNull"`
	SKU         string                          `json:"sku" rule:"readOnly"`
	ProductName string                          `json:"product_name" rule:"readOnly,notNull"`
	Quantity    server.Optional[int64]          `json:"quantity" rule:"notNull,minimum=1,maximum=1000000"`
	UnitPrice   server.Optional[server.Decimal] `json:"unit_price" rule:"maximum=1000000"`
	Produced    int64                           `json:"produced" rule:"readOnly,notNull"`
	Planned     int64                           `json:"planned" rule:"readOnly,notNull"`
}

// itemRows returns the items as an argument for json_to_recordset, with new ids.
func itemRows(items []OrderItem) string {
	rows := make([]map[string]any, len(items))
	for i, item := range items {
		rows[i] = map[string]any{"id": db.NewID(), "product_id": item.ProductID.Arg(), "sku": item.SKU.Arg(),
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
		select i.id, i.product_id, p.sku, p.name as product_name, i.quantity, i.unit_price, n.produced, n.planned
		from order_items i
		cross join lateral (select p.name, p.sku from products p where p.id = i.product_id offset 0) p
		cross join lateral order_item_pieces(i.id) n
		where i.id = $2 and i.order_id = $1
			and exists (select from orders o where o.id = $1 and o.hidden_at is null)`, order, id)
}

// settle returns a statement that makes an open order done if everything is produced. The order must be locked.
func settle(order string) *db.Stmt {
	return db.SQL(`select settle_orders(array[$1::uuid])::text`, order)
}

// touched is a CTE that sets updated_at of the order of the rows that the CTE "changed" returns.
const touched = `touched as (
			update orders o set updated_at = now() from changed c where o.id = c.order_id
		)`

var errUnknownProduct = server.BadRequest("UNKNOWN_REFERENCE", "%s does not name a product", "sku").On("sku")

var addItemDoc = &server.Doc{
	ID: "addOrderItem", Tag: Tag, Summary: "Add a product to an order",
	Description: "The item names the product by `product_id` or `sku`. The default of `unit_price` is the current " +
		"`selling_price` of the product, and does not change with it later. The status of the order does not " +
		"change.",
	Errors: []*server.Error{errUnknownProduct},
}

func (h handlers) addItem(ctx context.Context, r *server.Request[OrderItem]) (server.Created[OrderItem], error) {
	id, order, in := db.NewID(), r.ID("id"), &r.In
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
			returning order_id
		), `+touched+`
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
	Description: "Only the quantity and the price can change. If everything is produced then, an open order " +
		"becomes `done`.",
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
			update order_items set `+set+`
			where id = $2 and order_id = $1 and exists (select from orders o where o.id = $1 and o.hidden_at is null)
			returning order_id
		), `+touched+`
		select order_id from changed`, args...)
	return server.One(item, h.db.Write(ctx, lockOrder(order)[0], changed, settle(order), item))
}

var errItemInUse = server.Conflict("ORDER_ITEM_IN_USE", "A production run prints the item: %s",
	"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a51")

var deleteItemDoc = &server.Doc{
	ID: "removeOrderItem", Tag: Tag, Summary: "Remove an item from an order",
	Description: "An item that a production run prints cannot be removed (`ORDER_ITEM_IN_USE`). If everything else " +
		"is produced, an open order becomes `done`.",
	Errors: []*server.Error{errItemInUse},
}

func (h handlers) deleteItem(ctx context.Context, r *server.Request[struct{}]) (server.NoContent, error) {
	order, id := r.ID("id"), r.ID("item_id")
	var run *string
	deleted := db.SQL(`
		with item as (
			select i.id, (select r.run_id::text from run_items r where r.order_item_id = i.id limit 1) as run
			from order_items i
			where i.id = $2 and i.order_id = $1
				and exists (select from orders o where o.id = $1 and o.hidden_at is null)
		), changed as (
			delete from order_items i using item where i.id = item.id and item.run is null returning i.order_id
		), `+touched+`
		select run from item`, order, id).Into(&run)
	// A run that links the item has locked the order, too.
	if err := server.Found(deleted, h.db.Write(ctx, lockOrder(order)[0], deleted, settle(order))); err != nil {
		return nil, err
	}
	if run != nil {
		return nil, errItemInUse.With(*run)
	}
	return nil, nil
}
