package catalog

import (
	"strings"

	"spoolwright/cli"
	"spoolwright/server"
	"spoolwright/transfer"
)

// Commands are the catalog's commands.
var Commands = []cli.Command{importCommand(), Export.Command("products")}

// Export writes all products with their bills of materials.
var Export = transfer.Export[Product]("products", 50,
	transfer.ListPage(ProductFilter.exported, strings.Replace(selectProducts, materialsOf("p.id"),
		materialsOf("case when p.variant_of is null then p.id end"), 1)+stockOfAll+`
		where p.id = page.id`))

var exportDoc = &server.Doc{
	ID: "exportProducts", Tag: Tag, Summary: "Export products",
	Description: transfer.ExportDescription + "material and each component of a product, with the fields of the " +
		"product repeated, and one row for a product that has neither. The materials and plates of variants, which follow, " +
		"are left out. Products are in the order of their creation.",
}
