package inventory

import (
	"embed"

	"spoolwright/db"
)

//go:embed *.sql
var functions embed.FS

// Definitions are the SQL functions of spools. Other packages call spool_name, move_spool,
// filament_prices, report_use, run_use and use_outside_runs in their own statements, and so within their own
// transactions.
var Definitions = db.Definitions("inventory", functions, "number", "prices", "report", "ledger", "rows")
