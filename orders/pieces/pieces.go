// Package pieces implements the pieces of products in stock: their ledger, and the operations that change it. The
// tables, and move_pieces, the function that changes them, are in package catalog.
package pieces

import (
	"embed"

	"spoolwright/db"
	"spoolwright/server"
)

// Tag is the tag of the operations on the ledger. Those of a product have the tag of products.
var Tag = &server.Tag{
	Name: "piece-entries", Fields: fields,
	Description: "The pieces of products in stock. Production runs add pieces, orders take them, and people count, " +
		"scrap and assemble them. Each change is an entry of a ledger, and the stock is the sum of the entries. " +
		"`docs/pieces.md` has the rules.",
}

// fields describes the fields of the requests and responses.
//
//go:embed fields.md
var fields string

//go:embed *.sql
var functions embed.FS

// Definitions are the SQL functions of pieces. Package orders has those for the pieces that runs produce.
var Definitions = db.Definitions("pieces", functions, "pieces")

// Routes are the operations of pieces.
func Routes(d *db.DB) []server.Route {
	h := handlers{d}
	return []server.Route{
		server.Op("GET /api/v1/piece-entries", server.Read, server.HandleList[Entry](h.db, EntryFilter.list), listDoc),
		server.Op("GET /api/v1/products/{id}/piece-entries", server.Read,
			// also of a hidden product
			server.HandleListOf[Entry](h.db, `select id from products where id = $1`, ProductEntryFilter.list),
			listOfProductDoc),
		server.Op("POST /api/v1/products/{id}/count", server.Write, server.Handle(h.count), countDoc),
		server.Op("POST /api/v1/products/{id}/scrap", server.Write, server.Handle(h.scrap), scrapDoc),
		server.Op("POST /api/v1/products/{id}/adjust", server.Write, server.Handle(h.adjust), adjustDoc),
		server.Op("POST /api/v1/products/{id}/assemble", server.Write, server.Handle(h.assemble), assembleDoc),
		server.Op("POST /api/v1/products/{id}/disassemble", server.Write, server.Handle(h.disassemble), disassembleDoc),
		server.Op("POST /api/v1/piece-entries/{id}/reverse", server.Write, server.Handle(h.reverse).OptionalBody(),
			reverseDoc),
		server.Op("GET /api/v1/reports/pieces", server.Read, server.Handle(h.reportPieces), piecesReportDoc),
	}
}

type handlers struct{ db *db.DB }
