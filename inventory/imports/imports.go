// Package imports creates and changes many vendors, filaments and spools at once: from CSV files and from the items
// of another system. It also creates filaments from spools that have none.
package imports

import (
	_ "embed"
	"strings"

	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/inventory/sheets"
	"spoolwright/server"
	"spoolwright/transfer"
)

//go:embed fields.md
var ownFields string

var (
	vendorsTag   = inventory.VendorsTag.With(ownFields, transfer.Fields)
	filamentsTag = inventory.FilamentsTag.With(ownFields, transfer.Fields)
	spoolsTag    = inventory.SpoolsTag.With(ownFields, transfer.Fields)
)

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
		server.Op("GET /api/v1/imports", server.Read, server.HandleList[PastImport](d, pastFilter.list), listDoc),
		server.Op("POST /api/v1/spools/import", server.Write, spoolKind.imports().Endpoint(d), importDoc),
		server.Op("POST /api/v1/spools/import/check", server.Write, spoolKind.imports().CheckEndpoint(d), checkDoc),
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
	"`gross_weight_grams` (with the empty spool), which give the `remaining_weight_grams`; `full_weight_grams` (of a new " +
	"spool, with the empty spool), which gives the missing weight; `state` and `used_up`, which report that nothing " +
	"is left; `filler`, such as carbon fiber, which is a part of the material; `price_per_kg` or `total_price` (of " +
	"all spools of the row), which give the `purchase_price`; `filament_name`, such as \"Prusament PLA Galaxy " +
	"Black\", which has the brand, material and color if no other column has them; and `extra.KEY`, a custom field."

// SpoolSheets reads the files of spools.
var SpoolSheets = sheets.New[inventory.Spool]("spool", same(sheets.Made+` brand supplier material_type color color_hex
		finish diameter_mm net_weight_grams remaining_weight_grams spool_weight_grams purchase_price purchase_date notes
		location lot_number density_g_cm3 material_name archived`), "id", "number", "filament_id", "filament_number")

var (
	filamentSheets = sheets.New[filamentRow]("filament", with(same(`material_type color color_hex diameter_mm
		net_weight_grams spool_weight_grams notes density_g_cm3 material_name article_number external_id
		extruder_temperature_c bed_temperature_c filler`), "brand", "vendor_name", "purchase_price", "price",
		"filament_name", "name"),
		"id", "number")
	vendorSheets = sheets.New[vendorRow]("vendor", with(same(`notes external_id`), "brand", "name",
		"filament_name", "name", "supplier", "name", "spool_weight_grams", "empty_spool_weight_grams"), "id", "number")
)

// same returns a map from names to themselves.
func same(names string) map[string]string {
	all := map[string]string{}
	for name := range strings.FieldsSeq(names) {
		all[name] = name
	}
	return all
}

// with adds pairs of a concept and a field.
func with(concepts map[string]string, pairs ...string) map[string]string {
	for i := 0; i < len(pairs); i += 2 {
		concepts[pairs[i]] = pairs[i+1]
	}
	return concepts
}

type handlers struct{ db *db.DB }

// Commands are the commands that import vendors, filaments and spools from files.
var Commands = []cli.Command{
	spoolKind.imports().Command(), vendorKind.imports().Command(), filamentKind.imports().Command(),
}
