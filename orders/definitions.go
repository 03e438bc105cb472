package orders

import (
	_ "embed"

	"spoolwright/db"
	"spoolwright/production"
)

var (
	//go:embed orders.sql
	ordersSQL string
	//go:embed costs.sql
	costsSQL string
)

// Definitions are the SQL functions of orders. Package stock calls order_item_pieces in its own statements.
var Definitions = []db.Definition{
	{Name: "orders/orders", Version: 1, SQL: ordersSQL},
	{Name: "orders/costs", Version: 1, SQL: costsSQL},
}

// Runs is what package production needs of this one.
var Runs = production.Orders{
	Follow: func(run string) *db.Stmt {
		return db.SQL(`
			select settle_orders(array(
				select o.order_id
				from run_items i
				cross join lateral (select o.order_id from order_items o where o.id = i.order_item_id offset 0) o
				where i.run_id = $1 and i.order_item_id is not null))::text`, run)
	},
	// In the order of the orders' ids, as settle_orders locks them.
	Lock: func(run string, items ...string) *db.Stmt {
		return db.SQL(`
			select o.id from (
				select distinct o.order_id as id
				from (
					select i.order_item_id as id from run_items i where i.run_id = $1 and i.order_item_id is not null
					union all
					select unnest($2::uuid[])
				) i
				cross join lateral (select o.order_id from order_items o where o.id = i.id offset 0) o
				order by o.order_id
			) u
			cross join lateral (select o.id from orders o where o.id = u.id for no key update) o`, run, items)
	},
	Printed: func(run string) string {
		return `(select coalesce(json_agg(json_build_object('id', o.order_id)), '[]') from (
			select distinct o.order_id from run_items i
			cross join lateral (select o.order_id from order_items o where o.id = i.order_item_id offset 0) o
			where i.run_id = ` + run + ` order by o.order_id limit 100) o)`
	},
	Problem: func(item, product string) string { return "order_item_problem(" + item + ", " + product + ")" },
}
