package orders

import (
	"context"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// OrderCompletion is the body of a request to complete an order.
type OrderCompletion struct {
	Items []DeliveredItem `json:"items"`
}

// DeliveredItem is the number of pieces of an item that the customer has got.
type DeliveredItem struct {
	ID        value.Optional[value.UUID] `json:"id" rule:"required"`
	Delivered value.Optional[int64]      `json:"delivered" rule:"required,maximum=1000000"`
}

// Check adds a problem for an empty list, and for each item that is in the list twice.
func (c *OrderCompletion) Check(problems *server.Problems) {
	checkNone(problems, c.Items)
	checkTwice(problems, c.Items, func(i DeliveredItem) value.Optional[value.UUID] { return i.ID })
}

var errUnknownItems = server.BadRequest("UNKNOWN_REFERENCE", "Not an item of the order: %s", "items[0].id").
	On("items[0].id")

var completeDoc = &server.Doc{
	ID: "completeOrder", Tag: Tag, Summary: "Mark an order done by hand",
	Description: "Makes an order `done`, even if the customer gets fewer pieces than were ordered. `items` has the " +
		"total number of pieces that the customer got of an item: at most the `quantity`, or what was delivered if " +
		"that is more. The customer gets all pieces of an item that is not in the list. A removed item with delivered " +
		"pieces is put back if it is in the list. The order earns the price of the `delivered` pieces. " +
		"`reportMargins` counts pieces that no run printed for the order on this day, at their cost in stock.\n\n" +
		deliveryRules +
		" If an item gets fewer pieces than were delivered before, a `returned` entry puts the others back into " +
		"stock.\n\nTo change the numbers, repeat the operation: an item that is not in the list keeps its number. " +
		"`updateOrder` with another `status` takes the deliveries back. The body may be empty.",
	Errors: []*server.Error{errUnknownItems},
}

func (h handlers) complete(ctx context.Context,
	r *server.Request[OrderCompletion]) (server.OK[Order], error) {
	id := r.ID("id")
	var done bool
	locked := db.SQL(`select status = 'done' from orders where id = $1 and hidden_at is null for no key update`, id).
		Into(&done)
	return h.delivered(ctx, id, locked, true, func(known map[value.UUID]orderedItem) ([]*db.Stmt, error) {
		err := checkItems(known, r.In.Items, func(i DeliveredItem) (value.UUID, string, int64) {
			return *i.ID.Value, "delivered", *i.Delivered.Value
		}, func(i orderedItem) (int64, string) {
			return max(i.Quantity, value.OrZero(i.Delivered)), language.Sprintf("the quantity")
		})
		if err != nil {
			return nil, err
		}
		sent := map[value.UUID]bool{}
		targets := []map[string]any{}
		for _, item := range r.In.Items {
			sent[*item.ID.Value] = true
			targets = append(targets, map[string]any{"id": item.ID.Arg(), "delivered": item.Delivered.Arg()})
		}
		for id, item := range known {
			if done && !sent[id] && item.Delivered != nil && !item.Removed {
				targets = append(targets, map[string]any{"id": string(id), "delivered": *item.Delivered})
			}
		}
		return []*db.Stmt{deliverPieces(id, targets, true, nil, done),
			db.SQL(`update orders set status = 'done', updated_at = now() where id = $1`, id)}, nil
	})
}

// deliverAll returns a statement that delivers all pieces of an order, unless it is done. The order must be locked.
func deliverAll(order string) *db.Stmt {
	return db.SQL(`select deliver_pieces(o.id, '[]', true, null)::text from orders o
		where o.id = $1 and o.status <> 'done' and o.hidden_at is null`, order)
}

// deliverNew is deliverAll for an order that the same transaction creates with the status done. It changes nothing if
// the order does not exist.
func deliverNew(order string) *db.Stmt {
	return db.SQL(`select deliver_pieces(o.id, '[]', true, null)::text from orders o where o.id = $1`, order)
}

// takeBack returns a statement that takes back the deliveries of an order if it is done. The order must be locked.
func takeBack(order string) *db.Stmt {
	return db.SQL(`select take_back_deliveries(o.id)::text from orders o
		where o.id = $1 and o.status = 'done' and o.hidden_at is null`, order)
}
