// Package imports creates and changes many vendors, filaments and spools at once: from CSV files and from the items
// of another system. It also creates filaments from spools that have none.
package imports

import (
	_ "embed"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/transfer"
)

//go:embed fields.md
var ownFields string

var (
	vendorsTag   = withFields(inventory.VendorsTag)
	filamentsTag = withFields(inventory.FilamentsTag)
	spoolsTag    = withFields(inventory.SpoolsTag)
)

// withFields returns a tag that describes the fields of imports too.
func withFields(tag *server.Tag) *server.Tag {
	return &server.Tag{Name: tag.Name, Description: tag.Description, Fields: tag.Fields + ownFields + transfer.Fields}
}

// Routes are the operations that import vendors, filaments and spools.
func Routes(d *db.DB) []server.Route {
	h := handlers{d}
	return []server.Route{
		server.Op("POST /api/v1/vendors/import", server.Write, vendorKind.imports().Endpoint(d), importVendorsDoc),
		server.Op("POST /api/v1/filaments/from-spools", server.Write, server.Handle(h.filamentsFromSpools).OptionalBody(),
			filamentsFromSpoolsDoc),
		server.Op("POST /api/v1/filaments/import", server.Write, filamentKind.imports().Endpoint(d), importFilamentsDoc),
		server.Op("POST /api/v1/spools/import", server.Write, spoolImport.Endpoint(d), importDoc),
	}
}

type handlers struct{ db *db.DB }
