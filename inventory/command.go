package inventory

import "spoolwright/cli"

// Commands are the commands for spools, and for the filament catalog.
var Commands = []cli.Command{
	importCatalogCommand,
	Export.Command("spools"),
	exportVendors.Command("vendors"),
	exportFilaments.Command("filaments"),
}
