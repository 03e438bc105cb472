package orders

import (
	_ "embed"

	"spoolwright/db"
)

var (
	//go:embed available.sql
	availableSQL string
	//go:embed follow.sql
	followSQL string
	//go:embed reserve.sql
	reserveSQL string
)

// Definitions are the SQL functions of orders: order_item_pieces, reserved_materials, which calls explode_products of
// catalog, available_materials, settle_orders, follow_run and lock_orders. Other packages call reserved_materials,
// order_item_problem and lock_orders in their own statements.
var Definitions = []db.Definition{
	{Name: "orders/reserve", Version: 1, SQL: reserveSQL},
	{Name: "orders/available", Version: 1, SQL: availableSQL},
	{Name: "orders/follow", Version: 1, SQL: followSQL},
}

// Follow returns a statement that changes the status of the orders that a run prints items of. It is the hook of
// production.Routes.
func Follow(run string) *db.Stmt { return db.SQL(`select follow_run($1)::text`, run) }
