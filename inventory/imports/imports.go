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
		server.Op("POST /api/v1/vendors/import/check", server.Write, vendorKind.imports().CheckEndpoint(d), checkVendorsDoc),
		server.Op("POST /api/v1/filaments/from-spools", server.Write, server.Handle(h.filamentsFromSpools).OptionalBody(),
			filamentsFromSpoolsDoc),
		server.Op("POST /api/v1/filaments/import", server.Write, filamentKind.imports().Endpoint(d), importFilamentsDoc),
		server.Op("POST /api/v1/filaments/import/check", server.Write, filamentKind.imports().CheckEndpoint(d),
			checkFilamentsDoc),
		server.Op("POST /api/v1/spools/import", server.Write, spoolImport.Endpoint(d), importDoc),
		server.Op("POST /api/v1/spools/import/check", server.Write, spoolImport.CheckEndpoint(d), checkDoc),
	}
}

var (
	checkDoc = &server.Doc{ID: "checkSpoolImport", Tag: spoolsTag, Summary: "Check a file of spools",
		Description: transfer.CheckDescription + "\n\n" + madeDescription}
	checkFilamentsDoc = &server.Doc{ID: "checkFilamentImport", Tag: filamentsTag, Summary: "Check a file of filaments",
		Description: transfer.CheckDescription}
	checkVendorsDoc = &server.Doc{ID: "checkVendorImport", Tag: vendorsTag, Summary: "Check a file of vendors",
		Description: transfer.CheckDescription}
)

// madeDescription describes the fields of columns that are not fields of a spool.
const madeDescription = "A column can also be one of these, from which the import makes fields of new spools: " +
	"`quantity`, the number of equal spools of the row; `remaining_percent`, `used_weight_grams` or " +
	"`gross_weight_grams` (with the empty spool), which give the `remaining_weight_grams`; `price_per_kg` or " +
	"`total_price` (of all spools of the row), which give the `purchase_price`; `filament_name`, such as \"Prusament " +
	"PLA Galaxy Black\", which has the brand, material and colour if no other column has them; and `extra.KEY`, a " +
	"custom field."

type handlers struct{ db *db.DB }
