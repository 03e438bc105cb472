package archive

import (
	"context"
	"io"
	"time"

	"spoolwright/db"
	"spoolwright/server"
)

// Tag is the group of the operations in the documentation.
var Tag = &server.Tag{Name: "tenant", Description: "All data of the farm in one file, for admins."}

// maxDownload limits the time for a client to read the file. The transaction with the snapshot stays open during this
// time.
const maxDownload = 15 * time.Minute

// Routes returns the routes of the package.
func Routes(d *db.DB) []server.Route {
	export := server.HandleFile("application/gzip", "farm.gz", func(ctx context.Context, to io.Writer) error {
		ctx, cancel := context.WithTimeout(ctx, maxDownload)
		defer cancel()
		return Export(ctx, d, to, Parts{})
	})
	return []server.Route{
		server.Op("GET /api/v1/tenant/export", server.Admin, export, exportDoc).ForUsers(),
	}
}

var exportDoc = &server.Doc{
	ID: "exportTenant", Tag: Tag, Summary: "Export the farm",
	Description: "Returns one file with all data of the farm, of which `spoolwright tenant import` makes the same " +
		"farm, with the same ids and numbers, in any installation. The file has the state of one moment. It has no " +
		"secrets: of users and API keys it has the names, which the usage ledger shows, and of webhooks nothing. A farm " +
		"has one export at a time, and an instance of the service two; others get a 503. The client must have read the " +
		"file within 15 minutes.",
}
