package orders

import (
	"context"
	"encoding/json"

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
	LinePrice   value.Optional[value.Decimal] `json:"line_price" rule:"maximum=999999999"`
	TaxAmount   value.Optional[value.Decimal] `json:"tax_amount" rule:"maximum=999999999"`
	Produced    int64                         `json:"produced" rule:"readOnly,notNull"`
	Planned     int64                         `json:"planned" rule:"readOnly,notNull"`
	Delivered   value.Optional[int64]         `json:"delivered" rule:"readOnly"`
	Picture     string                        `json:"picture_version" rule:"readOnly"`
}

// OrderItemChange is the body of a PATCH of an item. The product cannot change, because runs may print it.
type OrderItemChange struct {
	ID          value.UUID                    `json:"id" rule:"readOnly,notNull"`
	ProductID   value.Optional[value.UUID]    `json:"product_id" rule:"fixed,notNull"`
	SKU         value.Optional[string]        `json:"sku" rule:"fixed"`
	ProductName string                        `json:"product_name" rule:"readOnly,notNull"`
	Quantity    value.Optional[int64]         `json:"quantity" rule:"notNull,minimum=1,maximum=1000000"`
	UnitPrice   value.Optional[value.Decimal] `json:"unit_price" rule:"maximum=1000000"`
	LinePrice   value.Optional[value.Decimal] `json:"line_price" rule:"maximum=999999999"`
	TaxAmount   value.Optional[value.Decimal] `json:"tax_amount" rule:"maximum=999999999"`
	Produced    int64                         `json:"produced" rule:"readOnly,notNull"`
	Planned     int64                         `json:"planned" rule:"readOnly,notNull"`
	Delivered   value.Optional[int64]         `json:"delivered" rule:"readOnly"`
	Picture     string                        `json:"picture_version" rule:"readOnly"`
}

// Check reports a price that is too high, and a tax without a price.
func (i *OrderItem) Check(problems *server.Problems) { i.price().check(problems) }

func (i *OrderItem) price() linePrice {
	return linePrice{i.UnitPrice, i.LinePrice, i.TaxAmount, i.Quantity.Or(1)}
}

// ChangedOrderItem is an item after a change.
type ChangedOrderItem struct {
	OrderItem
	Warnings []OrderWarning `json:"warnings" rule:"readOnly,notNull"`
}

// itemRows returns the items as an argument for json_to_recordset, with new ids.
func itemRows(items []OrderItem) string {
	rows := make([]map[string]any, len(items))
	for i, item := range items {
		rows[i] = item.price().put(map[string]any{"id": value.NewID(), "product_id": item.ProductID.Arg(),
			"sku": item.SKU.Arg(), "quantity": item.Quantity.Or(1)})
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
		select i.id, i.product_id, p.sku, p.name as product_name, i.quantity, i.unit_price, `+shownPrice+`,
			n.produced, n.planned, i.delivered, p.picture_version
		from order_items i
		join orders o on o.id = i.order_id
		cross join lateral `+itemPrice+` a
		join products p on p.id = i.product_id
		cross join lateral order_item_pieces(i.id) n
		where i.id = $2 and i.order_id = $1 and i.withdrawn_at is null
			and o.hidden_at is null`, order, id)
}

// itemPrice is SQL for the price of the item i of the order o. shownPrice selects its fields for responses from the
// alias a.
const (
	itemPrice = `item_price(i.unit_price, i.line_price, i.line_pieces, i.tax_amount, o.prices_include_tax,
				o.sales_tax_percent, order_rate(o.currency, o.exchange_rate))`
	shownPrice = `trim_scale(line_share(a.price, 0, i.quantity, a.pieces)) as line_price,
			trim_scale(line_share(a.tax, 0, i.quantity, a.tax_pieces)) as tax_amount`
)

// settle returns a statement that makes an open order done if everything is delivered. The order must be locked.
func settle(order string) *db.Stmt {
	return db.SQL(`select settle_orders(array[$1::uuid])::text`, order)
}

// touched is a CTE that sets updated_at of the orders whose rows the CTE "changed" returns.
const touched = `touched as (
			update orders o set updated_at = now() from changed c where o.id = c.order_id
		)`

// touchedOpen is touched for rows with the additional column "more", which reports whether the order needs more pieces
// than before. It reopens a done order that needs more pieces. A cancelled order stays cancelled.
const touchedOpen = `touched as (
			update orders o set updated_at = now(),
				status = case when c.more and o.status = 'done' then 'in_production' else o.status end
			from changed c where o.id = c.order_id
		)`

var errUnknownProduct = server.BadRequest("UNKNOWN_REFERENCE", "%s does not name a product", "sku").On("sku")

var addItemDoc = &server.Doc{
	ID: "addOrderItem", Tag: Tag, Summary: "Add a product to an order",
	Description: "The item names the product by `product_id` or `sku`. `unit_price` is the price of a piece, " +
		"`line_price` the price of all pieces. The default of `unit_price` is the current `selling_price` of the " +
		"product, in the currency of the order and with tax if its prices include it; later changes of the " +
		"`selling_price` do not change it. A `done` order becomes `in_production`. A `cancelled` order stays " +
		"cancelled; `updateOrder` reopens it.",
	Errors: []*server.Error{errUnknownProduct},
}

func (h handlers) addItem(ctx context.Context, r *server.Request[OrderItem]) (server.Created[OrderItem], error) {
	id, order, in := value.NewID(), r.ID("id"), &r.In
	var full bool
	locked := lockOrder(order)[0]
	added := db.SQL(`
		with changed as (
			insert into order_items (id, order_id, product_id, quantity, unit_price, line_price, line_pieces, tax_amount)
			select $1::uuid, o.id, p.id, $5::int, coalesce(round(l.line_price / l.line_pieces, 6),
				usual_price(o.id, p.id)), l.line_price, l.line_pieces, l.tax_amount
			from orders o
			cross join json_to_recordset($7::json) l (line_price numeric, line_pieces bigint, tax_amount numeric)
			cross join lateral `+catalog.Named("$3::uuid", "$4::text")+` p
			where o.id = $2 and o.hidden_at is null
				and (select count(*) from order_items i where i.order_id = $2) < $6
			returning order_id, true as more
		), `+touchedOpen+`
		select order_id from changed`,
		id, order, in.ProductID.Arg(), in.SKU.Arg(), in.Quantity.Or(1), server.MaxEntries,
		itemRows([]OrderItem{*in}))
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
		return nil, errUnknownProduct.With(server.WithValue(in.productField(), in.SKU)).On(in.productField())
	}
	return item.Object(), nil
}

var updateItemDoc = &server.Doc{
	ID: "updateOrderItem", Tag: Tag, Summary: "Update an item of an order",
	Description: "Only the quantity and the price can change: another product, or fewer pieces than are delivered, " +
		"return `422`. `unit_price` is the price of a piece; `line_price` and `tax_amount` are for all pieces, and a " +
		"null `tax_amount` computes it. A price that was given for all pieces changes in proportion to the quantity. " +
		"An open order becomes `done` if the change leaves nothing to deliver. A `done` order becomes `in_production` " +
		"if the quantity is raised above the delivered pieces; a `cancelled` order stays cancelled. `warnings` report " +
		"if runs plan more pieces than the order needs.",
}

func (h handlers) updateItem(ctx context.Context,
	r *server.Request[OrderItemChange]) (server.OK[ChangedOrderItem], error) {
	order, id := r.ID("id"), r.ID("item_id")
	item := selectItem(order, id)
	in := r.In
	set, _ := server.Assignments(&r.In, nil)
	var otherProduct, otherSKU, open bool
	var delivered int64
	current := db.SQL(`
		select coalesce(i.product_id <> $3::uuid, false), $4 and p.sku is distinct from $5::text,
			coalesce(i.delivered, 0)
		from order_items i join products p on p.id = i.product_id join orders o on o.id = i.order_id
		where i.id = $2 and i.order_id = $1 and i.withdrawn_at is null and o.hidden_at is null`,
		order, id, in.ProductID.Arg(), in.SKU.Set, in.SKU.Arg()).Into(&otherProduct, &otherSKU, &delivered)
	after := db.SQL(`select is_open from orders where id = $1`, order).Into(&open)
	// The order is locked, so that no concurrent delivery changes the item.
	err := h.db.Decide(ctx, []*db.Stmt{lockOrder(order)[0], current}, func() ([]*db.Stmt, error) {
		if err := server.Found(current, nil); err != nil {
			return nil, err
		}
		var problems server.Problems
		if otherProduct {
			problems.Add("product_id", "cannot change; remove the item, and add another one")
		}
		if otherSKU {
			problems.Add("sku", "cannot change; remove the item, and add another one")
		}
		if in.Quantity.Or(delivered) < delivered {
			problems.Add("quantity", "must be at least %d, the delivered pieces", delivered)
		}
		if err := problems.Err(); err != nil || set == "" {
			return []*db.Stmt{after, item}, err
		}
		// A field with its current value changes nothing: a price of all pieces must not become the price of another
		// quantity.
		return []*db.Stmt{db.SQL(`
			with changed as (
				update order_items i set quantity = n.quantity, unit_price = case when n.kept then i.unit_price
						when n.pieces = 1 then n.price else round(n.price / n.pieces, 6) end,
					line_price = case when n.kept then i.line_price when n.pieces > 1 or n.tax is not null then n.price end,
					line_pieces = case when n.kept then i.line_pieces
						when n.price is not null and (n.pieces > 1 or n.tax is not null) then n.pieces end,
					tax_amount = case when n.kept then i.tax_amount else n.tax end
				from (
					select c.id, c.old, c.quantity, not (c.line or c.unit or c.taxed) as kept,
						case when c.line then $5::numeric when c.unit and not c.taxed then $7 when c.unit then $7 * c.quantity
							else line_share(c.price, 0, c.quantity, c.price_pieces) end as price,
						case when c.unit and not c.line and not c.taxed then 1 else c.quantity end as pieces,
						case when c.taxed then $9::numeric end as tax
					from (
						select i.id, i.quantity as old, coalesce($3::int, i.quantity) as quantity, a.price,
							a.pieces as price_pieces, $4::boolean and $5 is distinct from s.line_price as line,
							$6::boolean and $7::numeric is distinct from i.unit_price as unit,
							$8::boolean and $9 is distinct from s.tax_amount as taxed
						from order_items i
						join orders o on o.id = i.order_id and o.hidden_at is null
						cross join lateral `+itemPrice+` a
						cross join lateral (select `+shownPrice+`) s
						where i.id = $2 and i.order_id = $1
					) c
				) n
				where i.id = $2 and i.order_id = $1 and n.id = i.id and i.withdrawn_at is null
				returning i.order_id, i.quantity > greatest(n.old, i.delivered) as more
			), `+touchedOpen+`
			select order_id from changed`, order, id, in.Quantity.Arg(), in.LinePrice.Set, in.LinePrice.Arg(),
			in.UnitPrice.Set, in.UnitPrice.Arg(), in.TaxAmount.Set, in.TaxAmount.Arg()), settle(order), after, item}, nil
	})
	switch {
	case db.Violates(err, "order_items_unit_price_check"):
		err = server.Invalid("line_price", tooDear).Because(err)
	case db.Violates(err, "order_items_line"):
		err = server.Invalid("tax_amount", needsPrice).Because(err)
	}
	if err != nil {
		return nil, err
	}
	b := item.Object()
	state := itemState{Open: open, Earns: true}
	if err := json.Unmarshal(b, &state); err != nil {
		return nil, err
	}
	return server.Extend(b, "warnings", append([]OrderWarning{}, state.warnings()...))
}

var errItemInUse = server.Conflict("ORDER_ITEM_IN_USE",
	"A production run that has not ended prints the item; complete, fail or cancel the run first: %s",
	"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a51")

var deleteItemDoc = &server.Doc{
	ID: "removeOrderItem", Tag: Tag, Summary: "Remove an item from an order",
	Description: "Removes an item whose runs have all ended or were removed. While a run that is `pending`, " +
		"`in_progress` or `paused` prints the item, the item cannot be removed (`ORDER_ITEM_IN_USE`). A removed item " +
		"earns nothing. The cost of its failed pieces stays in the `cost` of the order, and its runs stay in the " +
		"`runs`; its good pieces are in stock, at their cost. To keep pieces for the customer, lower the `quantity` " +
		"to their number instead.\n\nIf everything else is delivered, an open order becomes `done`. An order without " +
		"items stays as it is. `restoreOrderItem` puts the item back.",
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
	ID: "restoreOrderItem", Tag: Tag, Summary: "Put a removed item back into an order",
	Description: "Puts back an item that `removeOrderItem` has removed, with its quantity, its price and its runs. A " +
		"`done` order becomes `in_production` if nothing of the item was delivered. For an item that is in the order, " +
		"the operation changes nothing and returns the item.",
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
