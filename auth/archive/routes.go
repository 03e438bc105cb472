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
	Description: "Returns one file with all data of the farm. `spoolwright tenant import` creates the same farm from " +
		"it, with the same ids and numbers, in any installation. The file has the state of one moment and no secrets: it " +
		"has the names of users and API keys, which the usage ledger shows, and nothing of webhooks. At most one export " +
		"of a farm, and two of an instance of the service, run at a time; others get a 503. The client must read the file " +
		"within 15 minutes.",
}
