package catalog

import (
	"context"

	"spoolwright/server"
	"spoolwright/value"
)

// ProductBatch is the body of a request that creates several products.
type ProductBatch struct {
	Items []Product `json:"items" rule:"required,maxItems=100"`
}

// ProductChanges are the changes of one of several products.
type ProductChanges struct {
	ID      value.Optional[value.UUID] `json:"id" rule:"required"`
	Changes *Product                   `json:"changes" rule:"required"`
}

// ProductUpdates is the body of a request that changes several products.
type ProductUpdates struct {
	Items []ProductChanges `json:"items" rule:"required,patched,maxItems=100"`
}

// SeveralProducts is the result of a request on several products.
type SeveralProducts struct {
	Items []Product `json:"items" rule:"readOnly,notNull"`
}

var errUnknownProducts = server.BadRequest("UNKNOWN_REFERENCE", "Not a product: %s", "items[1].id").On("items[1].id")

var createSeveralDoc = &server.Doc{
	ID: "createProductBatch", Tag: Tag, Summary: "Create several products",
	Description: "Creates products, as `createProduct` does. " + server.BulkRules +
		" The `Location` is the list of products.",
	Errors:  server.InEntries(createDoc.Errors, ""),
	Request: `{"items":[{"name":"Dragon","selling_price":12.5},{"name":"Hook"}]}`,
}

func (h handlers) createSeveral(
	ctx context.Context, r *server.Request[ProductBatch],
) (server.Created[SeveralProducts], error) {
	return server.Several(ctx, h.db, r.In.Items, "", nil, nil, func(ctx context.Context, in Product) ([]byte, error) {
		return h.create(ctx, server.NewRequest(in, ""))
	})
}

var updateSeveralDoc = &server.Doc{
	ID: "updateProducts", Tag: Tag, Summary: "Update several products",
	Description: "Changes each product by its `id`, as `updateProduct` does. " + server.BulkRules +
		" `If-Match` is not supported.",
	Errors:  append(server.InEntries(updateDoc.Errors, "changes."), errUnknownProducts),
	Request: `{"items":[{"id":"018d0c4f-7a00-7c3e-8b5a-1f2e3d4c5b6a","changes":{"selling_price":24.9}}]}`,
}

func (h handlers) updateSeveral(
	ctx context.Context, r *server.Request[ProductUpdates],
) (server.OK[SeveralProducts], error) {
	return server.Several(ctx, h.db, r.In.Items, "changes.", errUnknownProducts,
		func(in ProductChanges) string { return string(*in.ID.Value) },
		func(ctx context.Context, in ProductChanges) ([]byte, error) {
			return h.change(ctx, string(*in.ID.Value), in.Changes)
		})
}
