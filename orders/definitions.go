package orders

import (
	_ "embed"

	"spoolwright/db"
	"spoolwright/production"
)

var (
	//go:embed follow.sql
	followSQL string
	//go:embed items.sql
	itemsSQL string
)

// Definitions are the SQL functions of orders. Package stock calls order_item_pieces in its own statements.
var Definitions = []db.Definition{
	{Name: "orders/items", Version: 1, SQL: itemsSQL},
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
