package orders

import (
	"strings"

	"spoolwright/cli"
	"spoolwright/server"
	"spoolwright/transfer"
)

// Commands are the commands for orders.
var Commands = []cli.Command{Export.Command("orders")}

// Export writes all orders with their items. It computes the pieces that wait for orders once per page.
var Export = transfer.Export[Order]("orders", 200,
	transfer.ListPage(OrderFilter.list, strings.Replace(selectOrders, "order_money(o.id)", `order_money(o.id, (
		select coalesce(jsonb_object_agg(w.order_item_id, w.pieces), '{}') from waiting_pieces(null) w))`, 1)+
		` where o.id = page.id`))

var exportDoc = &server.Doc{
	ID: "exportOrders", Tag: Tag, Summary: "Export orders",
	Description: transfer.ExportDescription +
		"item of an order, with the fields of the order repeated, and a row for " +
		"an order without items. Orders are in the order of their creation.",
}
