package catalog

import (
	"spoolwright/cli"
	"spoolwright/db"
	"spoolwright/transfer"
)

// Commands are the catalog's commands.
var Commands = []cli.Command{Export.Command("products")}

// Export writes all products with their bills of materials.
var Export = transfer.Export[Product](func(createdAt, id string) *db.Stmt {
	return db.SQL(selectProducts+`
		and num_nonnulls(p.hidden_at) <> 1 and (p.created_at, p.id) > ($1::text::timestamptz, $2::uuid)
		order by p.created_at, p.id limit 200`, createdAt, id)
})
