// Package stock computes which filament is in stock, reserved and missing, for stock levels and for the availability
// of products and orders. docs/request.md lists the triggers that keep levels current.
package stock

import (
	"embed"

	"spoolwright/db"
	"spoolwright/server"
)

// fields describes the fields of the requests and responses.
//
//go:embed fields.md
var fields string

//go:embed *.sql
var functions embed.FS

// Definitions are the SQL functions that compute reserved and available filament and pieces, and the triggers that
// queue checks.
var Definitions = db.Definitions("stock", functions, "stock", "pieces")

// Routes are the operations of /api/v1/stock-levels, and the availability of products and orders.
func Routes(d *db.DB) []server.Route {
	h := handlers{d}
	return []server.Route{
		server.Op("GET /api/v1/products/{id}/availability", server.Read, server.Handle(h.productAvailability),
			productAvailabilityDoc),
		server.Op("GET /api/v1/orders/availability", server.Read, server.Handle(h.openOrders), openOrdersDoc),
		server.Op("GET /api/v1/orders/{id}/availability", server.Read, server.Handle(h.orderAvailability),
			orderAvailabilityDoc),
		server.Op("GET /api/v1/stock-levels", server.Read, server.Handle(h.listLevels), listLevelsDoc),
		server.Op("POST /api/v1/stock-levels", server.Write, server.Handle(h.createLevel), createLevelDoc),
		server.Op("GET /api/v1/stock-levels/{id}", server.Read,
			server.HandleGet[StockLevel](h.db, selectLevel), getLevelDoc).
			Versioned(server.LockRow("stock_levels")),
		server.Op("PATCH /api/v1/stock-levels/{id}", server.Write, server.Handle(h.updateLevel), updateLevelDoc),
		server.Op("DELETE /api/v1/stock-levels/{id}", server.Write, server.Handle(h.deleteLevel), deleteLevelDoc),
	}
}

type handlers struct{ db *db.DB }
