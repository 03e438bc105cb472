// Command spoolwright serves the Spoolwright API: filament spools, product catalog and production runs of 3D-print
// farms, with each tenant's data isolated from the others'.
package main

import (
	"os"

	"spoolwright/app"
)

func main() { os.Exit(app.Main(os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)) }
