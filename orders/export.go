package orders

import (
	"spoolwright/cli"
	"spoolwright/server"
	"spoolwright/transfer"
)

// Commands are the commands for orders.
var Commands = []cli.Command{Export.Command("orders")}

// Export writes all orders with their items.
var Export = transfer.Export[Order]("orders", 200,
	transfer.ListPage(OrderFilter.list, selectOrders+` where o.id = page.id`))

var exportDoc = &server.Doc{
	ID: "exportOrders", Tag: Tag, Summary: "Export orders",
	Description: transfer.ExportDescription +
		"item of an order, with the fields of the order repeated, and a row for " +
		"an order without items. Orders are in the order of their creation.",
}
