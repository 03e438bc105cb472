package catalog

import (
	"spoolwright/cli"
	"spoolwright/server"
	"spoolwright/transfer"
)

// Commands are the catalog's commands.
var Commands = []cli.Command{importCommand(), Export.Command("products")}

// Export writes all products with their bills of materials.
var Export = transfer.Export[Product]("products", 50,
	transfer.ListPage(ProductFilter.exported, selectProducts+`
		left join product_stock(null) k on k.product_id = p.id -- the same for all products: called once for a page
		where p.id = page.id`))

var exportDoc = &server.Doc{
	ID: "exportProducts", Tag: Tag, Summary: "Export products",
	Description: transfer.ExportDescription + "material and each component of a product, with the fields of the " +
		"product repeated, and a row for a product without either. Products are in the order of their creation.",
}
