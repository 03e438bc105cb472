package orders

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// OrderDelivery is the body of a request to deliver pieces of an order.
type OrderDelivery struct {
	Items    []OrderDeliveryItem  `json:"items"`
	Assemble value.Optional[bool] `json:"assemble"`
}

// OrderDeliveryItem is the number of additional pieces of an item that the customer gets.
type OrderDeliveryItem struct {
	ID       value.Optional[value.UUID] `json:"id" rule:"required"`
	Quantity value.Optional[int64]      `json:"quantity" rule:"minimum=1,maximum=1000000"`
}

// Check adds a problem for an empty list, and for each item that is in the list twice.
func (d *OrderDelivery) Check(problems *server.Problems) {
	checkNone(problems, d.Items)
	checkTwice(problems, d.Items, func(i OrderDeliveryItem) value.Optional[value.UUID] { return i.ID })
}

// OrderReturn is the body of a request that records pieces that a customer sent back.
type OrderReturn struct {
	Items  []OrderReturnItem      `json:"items"`
	Reason value.Optional[string] `json:"reason" rule:"maxLength=2000"`
	Reopen value.Optional[bool]   `json:"reopen" rule:"default=false"`
}

// OrderReturnItem is the number of pieces of an item that come back.
type OrderReturnItem struct {
	ID       value.Optional[value.UUID] `json:"id" rule:"required"`
	Quantity value.Optional[int64]      `json:"quantity" rule:"required,minimum=1,maximum=1000000"`
	ToStock  value.Optional[bool]       `json:"to_stock" rule:"default=true"`
}

// Check adds a problem for an empty list, and for each item that is in the list twice.
func (r *OrderReturn) Check(problems *server.Problems) {
	checkNone(problems, r.Items)
	checkTwice(problems, r.Items, func(i OrderReturnItem) value.Optional[value.UUID] { return i.ID })
}

// checkNone adds a problem if a list is empty, but not if it is missing. Without a list, an operation applies to all
// items; a program that has selected nothing must not deliver everything.
func checkNone[T any](problems *server.Problems, items []T) {
	if items != nil && len(items) == 0 {
		problems.Add("items", "must have an entry; omit items to select all")
	}
}

// checkTwice adds a problem for each item that is in a list twice.
func checkTwice[T any](problems *server.Problems, items []T, id func(T) value.Optional[value.UUID]) {
	seen := map[value.UUID]bool{}
	for i, item := range items {
		if id := id(item); !id.IsNull() && seen[*id.Value] {
			problems.Add(fmt.Sprintf("items[%d].id", i), "is in the list twice")
		} else if !id.IsNull() {
			seen[*id.Value] = true
		}
	}
}

var errCancelled = server.Conflict("ORDER_NOT_OPEN", "The order is cancelled; set its status to received first")

const deliveryRules = "The ledger of pieces gets a `delivered` entry for each item. A delivery records what has " +
	"happened, so pieces that are not in stock are delivered, too: the `shortfall` of the entry counts them, and " +
	"`warnings` has `PIECES_SHORTFALL`. Missing pieces of kits (products with components and without materials of " +
	"their own) are assembled first, at all levels, as far as there are parts, unless the farm has turned off " +
	"`assemble_on_delivery`. Plates become their product in any case."

var deliverDoc = &server.Doc{
	ID: "deliverOrder", Tag: Tag, Summary: "Deliver an order, or a part of it",
	Description: "The customer gets pieces: they leave the stock, and `delivered` of the items grows. `items` has " +
		"the number of additional pieces of each item, by default all missing pieces; without `items`, all missing " +
		"pieces of all items are delivered. More pieces than were ordered, or an empty `items`, return `422`. An open " +
		"order becomes `done` when all items are delivered and each line has a product.\n\n" + deliveryRules +
		"\n\nThe body may be empty. A " +
		"`cancelled` order cannot be delivered (`ORDER_NOT_OPEN`). `updateOrder` with another `status` takes the " +
		"deliveries of a `done` order back.",
	Errors: []*server.Error{errCancelled, errUnknownItems},
}

type orderedItem struct {
	ID        value.UUID
	Quantity  int64
	Delivered *int64
	Removed   bool
}

// orderedItems returns a statement that reads the items of a locked order, and a function that decodes them. With
// delivered, removed items with delivered pieces are included.
func orderedItems(order string, delivered bool) (*db.Stmt, func() (map[value.UUID]orderedItem, error)) {
	items := db.SQL(`
		select i.id, i.quantity, i.delivered, i.withdrawn_at is not null as removed from order_items i
		where i.order_id = $1 and (i.withdrawn_at is null or $2 and i.delivered > 0)`, order, delivered)
	return items, func() (map[value.UUID]orderedItem, error) {
		var all []orderedItem
		if err := json.Unmarshal(items.Array(), &all); err != nil {
			return nil, err
		}
		known := make(map[value.UUID]orderedItem, len(all))
		for _, item := range all {
			known[item.ID] = item
		}
		return known, nil
	}
}

// checkItems checks the entries of a request for items of an order. entry returns the id of an entry, the name of its
// number and the number; limit returns the maximum of the number, and a description of the maximum.
func checkItems[T any](known map[value.UUID]orderedItem, items []T,
	entry func(T) (id value.UUID, field string, sent int64), limit func(orderedItem) (most int64, what string),
) error {
	var unknown []string
	var problems server.Problems
	for i, item := range items {
		id, field, sent := entry(item)
		of, ok := known[id]
		if !ok {
			unknown = append(unknown, fmt.Sprintf("items[%d].id", i))
			continue
		}
		if most, what := limit(of); sent > most {
			problems.Add(fmt.Sprintf("items[%d].%s", i, field), "must be at most %d, %s", most, what)
		}
	}
	if len(unknown) > 0 {
		return errUnknownItems.With(server.JoinFields(unknown)).On(unknown...)
	}
	return problems.Err()
}

func (h handlers) deliver(ctx context.Context, r *server.Request[OrderDelivery]) (server.OK[Order], error) {
	id := r.ID("id")
	var cancelled bool
	locked := db.SQL(`select status = 'cancelled' from orders where id = $1 and hidden_at is null for no key update`,
		id).Into(&cancelled)
	return h.delivered(ctx, id, locked, false, func(known map[value.UUID]orderedItem) ([]*db.Stmt, error) {
		if cancelled {
			return nil, errCancelled
		}
		err := checkItems(known, r.In.Items, func(i OrderDeliveryItem) (value.UUID, string, int64) {
			return *i.ID.Value, "quantity", i.Quantity.Or(0)
		}, func(i orderedItem) (int64, string) {
			return max(i.Quantity-value.OrZero(i.Delivered), 0), language.Sprintf("the pieces that are not delivered")
		})
		if err != nil {
			return nil, err
		}
		targets := []map[string]any{}
		for _, item := range r.In.Items {
			of := known[*item.ID.Value]
			had := value.OrZero(of.Delivered)
			targets = append(targets, map[string]any{"id": item.ID.Arg(),
				"delivered": had + item.Quantity.Or(max(of.Quantity-had, 0))})
		}
		return []*db.Stmt{deliverPieces(id, targets, len(r.In.Items) == 0, r.In.Assemble.Arg(), false), settle(id)}, nil
	})
}

// delivered locks an order, reads its items, and runs the statements that decide returns, all in one transaction. The
// first of these statements must be one of deliverPieces. It returns the order with the warnings of the delivery.
func (h handlers) delivered(ctx context.Context, id string, locked *db.Stmt, removed bool,
	decide func(known map[value.UUID]orderedItem) ([]*db.Stmt, error),
) (server.OK[Order], error) {
	items, decode := orderedItems(id, removed)
	order, counted := selectOrder(id), newCountedSince(id)
	var short string
	err := h.db.Decide(ctx, []*db.Stmt{locked, items}, func() ([]*db.Stmt, error) {
		if err := server.Found(locked, nil); err != nil {
			return nil, err
		}
		known, err := decode()
		if err != nil {
			return nil, err
		}
		writes, err := decide(known)
		if err != nil {
			return nil, err
		}
		writes[0].Into(&short)
		return append(writes, counted.stmt, order), nil
	})
	if err != nil {
		return nil, err
	}
	var missing []OrderWarning
	if err := json.Unmarshal([]byte(short), &missing); err != nil {
		return nil, err
	}
	for i := range missing {
		w := &missing[i]
		w.Code = "PIECES_SHORTFALL"
		w.Detail = language.Sprintf("Delivered pieces of %s that were not in stock: %d", w.Product, w.Pieces)
	}
	return answer(order, nil, append(missing, counted.warnings()...)...)
}

// deliverPieces returns a statement that delivers pieces of a locked order; see the SQL function. It returns the
// shortfalls.
func deliverPieces(order string, targets []map[string]any, rest bool, assemble any, again bool) *db.Stmt {
	return db.SQL(`select deliver_pieces($1, $2::json, $3, $4, $5)::text`, order, db.Recordset(targets), rest, assemble,
		again)
}

var returnDoc = &server.Doc{
	ID: "returnOrder", Tag: Tag, Summary: "Record pieces that a customer has sent back",
	Description: "Lowers `delivered` of the items, also of removed ones; without `items`, the customer has sent " +
		"everything back. The ledger of pieces gets a `returned` entry for each item, which puts the pieces back into " +
		"stock at their cost when they were delivered. With `to_stock` false, a `scrapped` entry takes them out at " +
		"once. More pieces than were delivered, or an empty `items`, return `422`.\n\nA `done` order stays `done`, " +
		"and earns only what the customer keeps. With `reopen`, it becomes `in_production`, and needs the pieces again.",
	Errors: []*server.Error{errUnknownItems},
}

func (h handlers) takeReturn(ctx context.Context, r *server.Request[OrderReturn]) (server.OK[Order], error) {
	id := r.ID("id")
	order := selectOrder(id)
	locked := lockOrder(id)[0]
	items, decode := orderedItems(id, true)
	err := h.db.Decide(ctx, []*db.Stmt{locked, items}, func() ([]*db.Stmt, error) {
		if err := server.Found(locked, nil); err != nil {
			return nil, err
		}
		known, err := decode()
		if err != nil {
			return nil, err
		}
		err = checkItems(known, r.In.Items, func(i OrderReturnItem) (value.UUID, string, int64) {
			return *i.ID.Value, "quantity", *i.Quantity.Value
		}, func(i orderedItem) (int64, string) {
			return value.OrZero(i.Delivered), language.Sprintf("the delivered pieces")
		})
		if err != nil {
			return nil, err
		}
		rows := []map[string]any{}
		for _, item := range r.In.Items {
			rows = append(rows, map[string]any{"id": item.ID.Arg(), "quantity": item.Quantity.Arg(),
				"to_stock": item.ToStock.Or(true)})
		}
		if len(r.In.Items) == 0 {
			for _, id := range slices.Sorted(maps.Keys(known)) { // in the order of their creation
				if n := value.OrZero(known[id].Delivered); n > 0 {
					rows = append(rows, map[string]any{"id": string(id), "quantity": n, "to_stock": true})
				}
			}
		}
		return []*db.Stmt{
			db.SQL(`select return_pieces($1, $2::json, $3)::text`, id, db.Recordset(rows), r.In.Reason.Arg()),
			db.SQL(`update orders set updated_at = now(),
				status = case when $2 and status = 'done' then 'in_production' else status end where id = $1`,
				id, r.In.Reopen.Or(false)), order}, nil
	})
	return answer(order, err)
}
