package catalog

import (
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/transfer"
)

// Commands are the catalog's commands.
var Commands = []cli.Command{Export.Command("products")}

// Export writes all products with their bills of materials.
var Export = transfer.Export[Product](50, func(createdAt, id, limit string) *db.Stmt {
	return db.SQL(selectProducts+`
		and p.hidden_at is null and p.`+server.Newest+` and (p.created_at, p.id) > ($1::text::timestamptz, $2::uuid)
		order by p.created_at, p.id limit `+limit, createdAt, id)
})

var exportDoc = &server.Doc{
	ID: "exportProducts", Tag: Tag, Summary: "Export products as CSV",
	Description: transfer.ExportDescription + "material and each component of a product, with the fields of the " +
		"product repeated, and a row for a product without either. Products are in the order of their creation.",
}
