package orders

import (
	"context"

	"spoolwright/server"
	"spoolwright/value"
)

// OrderBatch is the body of a request that creates several orders.
type OrderBatch struct {
	Items []Order `json:"items" rule:"required,maxItems=100"`
}

// OrderChanges are the changes of one of several orders.
type OrderChanges struct {
	ID      value.Optional[value.UUID] `json:"id" rule:"required"`
	Changes *Order                     `json:"changes" rule:"required"`
}

// OrderUpdates is the body of a request that changes several orders.
type OrderUpdates struct {
	Items []OrderChanges `json:"items" rule:"required,patched,maxItems=100"`
}

// SeveralOrders is the result of a request on several orders.
type SeveralOrders struct {
	Items []Order `json:"items" rule:"readOnly,notNull"`
}

var errUnknownOrders = server.BadRequest("UNKNOWN_REFERENCE", "Not an order: %s", "items[1].id").On("items[1].id")

var createSeveralDoc = &server.Doc{
	ID: "createOrderBatch", Tag: Tag, Summary: "Create several orders",
	Description: "Creates orders, as `createOrder` does. " + server.BulkRules +
		" The `Location` is the list of orders.",
	Errors:  server.InEntries(createDoc.Errors, ""),
	Request: `{"items":[{"customer":"Ada Lovelace"},{"customer":"Alan Turing","notes":"Gift wrap"}]}`,
}

func (h handlers) createSeveral(
	ctx context.Context, r *server.Request[OrderBatch],
) (server.Created[SeveralOrders], error) {
	return server.Several(ctx, h.db, r.In.Items, "", nil, nil, func(ctx context.Context, in Order) ([]byte, error) {
		return h.create(ctx, server.NewRequest(in, ""))
	})
}

var updateSeveralDoc = &server.Doc{
	ID: "updateOrders", Tag: Tag, Summary: "Update several orders",
	Description: "Changes each order by its `id`, as `updateOrder` does. " + server.BulkRules +
		" `If-Match` is not supported.",
	Errors:  append(server.InEntries(updateDoc.Errors, "changes."), errUnknownOrders),
	Request: `{"items":[{"id":"018d0c4f-7a00-7c3e-8b5a-1f2e3d4c5b6a","changes":{"notes":"Gift"}}]}`,
}

func (h handlers) updateSeveral(
	ctx context.Context, r *server.Request[OrderUpdates],
) (server.OK[SeveralOrders], error) {
	return server.Several(ctx, h.db, r.In.Items, "changes.", errUnknownOrders,
		func(in OrderChanges) string { return string(*in.ID.Value) },
		func(ctx context.Context, in OrderChanges) ([]byte, error) {
			return h.update(ctx, server.NewRequest(*in.Changes, string(*in.ID.Value)))
		})
}
