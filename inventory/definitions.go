package inventory

import (
	_ "embed"

	"spoolwright/db"
)

var (
	//go:embed number.sql
	numberSQL string
	//go:embed prices.sql
	pricesSQL string
	//go:embed report.sql
	reportSQL string
	//go:embed rollup.sql
	rollupSQL string
	//go:embed rows.sql
	rowsSQL string
)

// Definitions are the SQL functions of spools. Other packages call spool_name, move_spool,
// filament_prices, report_use, run_use and use_outside_runs in their own statements, and so within their own
// transactions.
var Definitions = []db.Definition{
	{Name: "inventory/number", Version: 1, SQL: numberSQL},
	{Name: "inventory/prices", Version: 1, SQL: pricesSQL},
	{Name: "inventory/report", Version: 1, SQL: reportSQL},
	{Name: "inventory/rollup", Version: 1, SQL: rollupSQL},
	{Name: "inventory/rows", Version: 1, SQL: rowsSQL},
}
