package orders

import (
	"embed"

	"spoolwright/db"
	"spoolwright/production"
	"spoolwright/server"
)

//go:embed *.sql
var functions embed.FS

// Definitions are the SQL functions of orders. Packages stock and planning call order_item_pieces and net_pieces in
// their statements.
var Definitions = db.Definitions("orders", functions, "orders", "lines", "costs", "lot", "net", "pieces")

// Runs are the functions of orders that package production calls.
var Runs = production.Orders{
	Follow: func(run string) *db.Stmt {
		return db.SQL(`
			select settle_orders(array(
				select o.order_id
				from run_items i
				join order_items o on o.id = i.order_item_id
				where i.run_id = $1 and i.order_item_id is not null))::text`, run)
	},
	Settle: func(run string) *db.Stmt { return db.SQL(`select settle_run_pieces($1)::text`, run) },
	// Lock locks orders in the order of their ids, like settle_orders.
	Lock: func(run string, items ...string) *db.Stmt {
		return db.SQL(`
			select o.id from (
				select distinct o.order_id as id
				from (
					select i.order_item_id as id from run_items i where i.run_id = $1 and i.order_item_id is not null
					union all
					select unnest($2::uuid[])
				) i
				join order_items o on o.id = i.id
				order by o.order_id
			) u
			cross join lateral (select o.id from orders o where o.id = u.id for no key update) o`, run, items)
	},
	Printed: func(run string) string { return "printed_orders(" + run + ")" },
	ItemOf: func(order, product string) string {
		return `(select i.id from order_items i join orders o on o.id = i.order_id
			cross join lateral order_item_pieces(i.id) c
			where i.order_id = ` + order + ` and i.withdrawn_at is null and o.hidden_at is null and o.status <> 'cancelled'
				and (i.product_id = ` + product + ` or is_part_of(` + product + `, i.product_id))
			order by i.product_id = ` + product + ` desc, i.quantity - c.produced - c.planned > 0 desc, i.created_at, i.id
			limit 1)`
	},
	Named: func(run string) string {
		return `(select coalesce(json_agg(json_build_object('id', o.id, 'reference', o.reference, 'customer', o.customer,
				'due_date', o.due) order by o.created_at, o.id), '[]')
			from (
				select o.* from (
					select distinct oi.order_id from run_items i join order_items oi on oi.id = i.order_item_id
					where i.run_id = ` + run + ` and i.order_item_id is not null
				) i
				cross join lateral (
					select o.*, case when o.is_open and o.hidden_at is null then o.due_date end as due
					from orders o where o.id = i.order_id offset 0
				) o
				order by o.due, o.id limit 3
			) o)`
	},
	Sought: server.Place{Column: "id", Key: `o.search_key`, Texts: `concat_ws(E'\n', o.reference, o.customer)`,
		Rows: `select i.run_id from orders o join order_items oi on oi.order_id = o.id
			join run_items i on i.order_item_id = oi.id where true`},
	State:   func(item string) string { return "order_item_state(" + item + ")" },
	Problem: func(item, product string) string { return "order_item_problem(" + item + ", " + product + ")" },
}
