package orders

import (
	"context"
	"encoding/json"
	"fmt"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
)

// OrderCompletion is the body of a request to complete an order.
type OrderCompletion struct {
	Items []DeliveredItem `json:"items"`
}

// DeliveredItem is how many pieces of an item the customer got.
type DeliveredItem struct {
	ID        value.Optional[value.UUID] `json:"id" rule:"required"`
	Delivered value.Optional[int64]      `json:"delivered" rule:"required,maximum=1000000"`
}

// Check adds a problem for each item that is in the list twice.
func (c *OrderCompletion) Check(problems *server.Problems) {
	seen := map[value.UUID]bool{}
	for i, item := range c.Items {
		if !item.ID.IsNull() && seen[*item.ID.Value] {
			problems.Add(fmt.Sprintf("items[%d].id", i), "is in the list twice")
		} else if !item.ID.IsNull() {
			seen[*item.ID.Value] = true
		}
	}
}

var errUnknownItems = server.BadRequest("UNKNOWN_REFERENCE", "Not an item of the order: %s", "items[0].id").
	On("items[0].id")

var completeDoc = &server.Doc{
	ID: "completeOrder", Tag: Tag, Summary: "Mark an order done by hand",
	Description: "Makes an order `done` whose pieces no run of the order has printed, or not all of them: they were in " +
		"stock, for example, or the customer wants no more. `items` say how many pieces of them the customer got, at most " +
		"the `quantity`; it is all pieces of an item that is not in the list. The `delivered` pieces are what the order " +
		"earns. `reportMargins` counts pieces that no run printed for the order on this day, without a cost.\n\n" +
		"Such an order stays `done`, also if one of its runs is corrected or reopened. Repeat the operation to change the " +
		"numbers. When the order is open again (`updateOrder` sets the `status`, or an item needs more pieces), they are " +
		"`null`.",
	Errors: []*server.Error{errUnknownItems},
}

func (h handlers) complete(ctx context.Context, r *server.Request[OrderCompletion]) (server.OK[Order], error) {
	id := r.ID("id")
	order := selectOrder(id)
	locked := lockOrder(id)[0]
	known := db.SQL(`select id, quantity from order_items where order_id = $1 and withdrawn_at is null`, id)
	err := h.db.Decide(ctx, []*db.Stmt{locked, known}, func() ([]*db.Stmt, error) {
		if err := server.Found(locked, nil); err != nil {
			return nil, err
		}
		if err := checkDelivered(known.Array(), r.In.Items); err != nil {
			return nil, err
		}
		rows := make([]map[string]any, len(r.In.Items))
		for i, item := range r.In.Items {
			rows[i] = map[string]any{"id": item.ID.Arg(), "delivered": item.Delivered.Arg()}
		}
		return []*db.Stmt{
			db.SQL(`
				update order_items i set delivered = coalesce(s.delivered, i.delivered, i.quantity),
					delivered_at = coalesce(i.delivered_at, now())
				from order_items o left join json_to_recordset($2::json) s (id uuid, delivered int) on s.id = o.id
				where o.order_id = $1 and i.id = o.id and i.withdrawn_at is null`, id, db.Recordset(rows)),
			db.SQL(`update orders set status = 'done', updated_at = now() where id = $1`, id),
			order,
		}, nil
	})
	return server.One(order, err)
}

// checkDelivered returns an error if an item is not in the order, or if it has more pieces than the order.
func checkDelivered(known []byte, items []DeliveredItem) error {
	var all []struct {
		ID       value.UUID
		Quantity int64
	}
	if err := json.Unmarshal(known, &all); err != nil {
		return err
	}
	quantity := map[value.UUID]int64{}
	for _, item := range all {
		quantity[item.ID] = item.Quantity
	}
	var unknown []string
	var problems server.Problems
	for i, item := range items {
		switch q, ok := quantity[*item.ID.Value]; {
		case !ok:
			unknown = append(unknown, fmt.Sprintf("items[%d].id", i))
		case *item.Delivered.Value > q:
			problems.Add(fmt.Sprintf("items[%d].delivered", i), "must be at most %d, the quantity", q)
		}
	}
	if len(unknown) > 0 {
		return errUnknownItems.With(server.JoinFields(unknown)).On(unknown...)
	}
	return problems.Err()
}

// deliverAll returns a statement that records that the customer got all pieces of an order, unless it is done. The
// order must be locked.
func deliverAll(order string) *db.Stmt {
	return db.SQL(`
		update order_items i set delivered = i.quantity, delivered_at = now()
		where i.order_id = $1 and i.withdrawn_at is null
			and exists (select from orders o where o.id = $1 and o.status <> 'done' and o.hidden_at is null)`, order)
}

// deliverNew is deliverAll for an order that the same transaction creates. It changes nothing if the order does not
// exist.
func deliverNew(order string) *db.Stmt {
	return db.SQL(`update order_items set delivered = quantity, delivered_at = now() where order_id = $1`, order)
}
