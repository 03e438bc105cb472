package inventory

import "spoolwright/cli"

// Commands are the commands for spools, and for the filament catalog.
var Commands = []cli.Command{
	importCatalogCommand,
	Export.Command("spools"),
	ExportUsage.Command("usage"),
	ExportVendors.Command("vendors"),
	ExportFilaments.Command("filaments"),
}
