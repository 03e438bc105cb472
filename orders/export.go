package orders

import (
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/transfer"
)

// Commands are the commands for orders.
var Commands = []cli.Command{Export.Command("orders")}

// Export writes all orders with their items.
var Export = transfer.Export[Order](200, func(createdAt, id, limit string) *db.Stmt {
	return db.SQL(selectOrders+`
		and o.hidden_at is null and o.`+server.Newest+` and (o.created_at, o.id) > ($1::text::timestamptz, $2::uuid)
		order by o.created_at, o.id limit `+limit, createdAt, id)
})

var exportDoc = &server.Doc{
	ID: "exportOrders", Tag: Tag, Summary: "Export orders as CSV",
	Description: transfer.ExportDescription + "item of an order, with the fields of the order repeated, and a row for " +
		"an order without items. Orders are in the order of their creation.",
}
