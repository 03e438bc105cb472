package inventory

import (
	"context"

	"spoolwright/server"
	"spoolwright/value"
)

// FilamentBatch is the body of a request that creates several filaments.
type FilamentBatch struct {
	Items []Filament `json:"items" rule:"required,maxItems=100"`
}

// FilamentChanges are the changes of one of several filaments.
type FilamentChanges struct {
	ID      value.Optional[value.UUID] `json:"id" rule:"required"`
	Changes *Filament                  `json:"changes" rule:"required"`
}

// FilamentUpdates is the body of a request that changes several filaments.
type FilamentUpdates struct {
	Items []FilamentChanges `json:"items" rule:"required,patched,maxItems=100"`
}

// SeveralFilaments is the result of a request on several filaments.
type SeveralFilaments struct {
	Items []Filament `json:"items" rule:"readOnly,notNull"`
}

var errUnknownFilaments = server.BadRequest("UNKNOWN_REFERENCE", "Not a filament: %s", "items[1].id").On("items[1].id")

var createSeveralFilamentsDoc = &server.Doc{
	ID: "createFilamentBatch", Tag: FilamentsTag, Summary: "Create several filaments",
	Description: "Creates filaments, as `createFilament` does. " + server.BulkRules +
		" The `Location` is the list of filaments.",
	Errors: server.InEntries(createFilamentDoc.Errors, ""),
	Request: `{"items":[{"material_type":"PLA","color":"Black","diameter_mm":1.75},` +
		`{"material_type":"PETG","color":"Red","diameter_mm":1.75}]}`,
}

func (h handlers) createSeveralFilaments(
	ctx context.Context, r *server.Request[FilamentBatch],
) (server.Created[SeveralFilaments], error) {
	return server.Several(ctx, h.db, r.In.Items, "", nil, nil, func(ctx context.Context, in Filament) ([]byte, error) {
		return h.createFilament(ctx, server.NewRequest(in, ""))
	})
}

var updateSeveralFilamentsDoc = &server.Doc{
	ID: "updateFilaments", Tag: FilamentsTag, Summary: "Update several filaments",
	Description: "Changes each filament by its `id`, as `updateFilament` does. " + server.BulkRules +
		" `If-Match` is not supported.",
	Errors:  append(server.InEntries(updateFilamentDoc.Errors, "changes."), errUnknownFilaments),
	Request: `{"items":[{"id":"018d0c4f-7a00-7c3e-8b5a-1f2e3d4c5b6a","changes":{"price":24.9}}]}`,
}

func (h handlers) updateSeveralFilaments(
	ctx context.Context, r *server.Request[FilamentUpdates],
) (server.OK[SeveralFilaments], error) {
	return server.Several(ctx, h.db, r.In.Items, "changes.", errUnknownFilaments,
		func(in FilamentChanges) string { return string(*in.ID.Value) },
		func(ctx context.Context, in FilamentChanges) ([]byte, error) {
			return h.updateFilament(ctx, server.NewRequest(*in.Changes, string(*in.ID.Value)))
		})
}
