package orders

import (
	_ "embed"

	"spoolwright/db"
	"spoolwright/production"
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

// Runs is what package production needs of this one.
var Runs = production.Orders{
	Follow: func(run string) *db.Stmt { return db.SQL(`select follow_run($1)::text`, run) },
	Lock: func(run string, items ...string) *db.Stmt {
		return db.SQL(`select lock_orders($1, $2::uuid[])::text`, run, items)
	},
	Problem: func(item, product string) string { return "order_item_problem(" + item + ", " + product + ")" },
}
