package imports

import "spoolwright/cli"

// Commands are the commands that import vendors, filaments and spools from files.
var Commands = []cli.Command{
	spoolKind.imports().Command(), vendorKind.imports().Command(), filamentKind.imports().Command(),
}
