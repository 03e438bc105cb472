package inventory

import (
	"context"
	"io"

	"spoolwright/server"
	"spoolwright/transfer"
	"spoolwright/value"
)

// Export writes spools. The CSV format is one that imports read. Without the filter Archived, it
// writes archived spools too.
var Export = transfer.Export[Spool]("spools", 500, transfer.ListPage(func(f SpoolFilter) *server.List {
	if f.Archived.IsNull() {
		f.Archived = value.Some(Archived("any"))
	}
	return f.list()
}, `select `+spoolColumns+` from spools where id = page.id`))

type exportQuery struct {
	server.ExportQuery
	SpoolFilter
	Archived value.Optional[Archived] `query:"archived" rule:"default=any"`
}

func (h handlers) export(
	ctx context.Context, r *server.Request[exportQuery], w io.Writer, format server.ExportFormat,
) error {
	filter := r.In.SpoolFilter
	filter.Archived = r.In.Archived
	return Export(ctx, h.db, w, format, filter)
}

var exportDoc = &server.Doc{
	ID: "exportSpools", Tag: SpoolsTag, Summary: "Export spools",
	Description: transfer.ExportDescription + "spool, oldest first, which `POST /api/v1/spools/import` can read. " +
		"Without `archived`, it has archived spools too.",
}
