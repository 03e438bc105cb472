package inventory

import (
	"spoolwright/db"
	"spoolwright/server"
)

// byNumber is the condition of statements that select the spool with the number $1, unless it is hidden. The subquery
// makes PostgreSQL use the index of numbers, and not one of those of the spools that are not hidden.
const byNumber = `id = (select n.id from spools n where n.number = $1) and hidden_at is null`

// Edit returns a statement that changes the fields of the spool with the number that in contains, and returns its id. A
// changed remaining weight is an entry of the ledger.
func Edit(number int64, in *Spool) *db.Stmt {
	set, args := server.Assignments(in, []any{number})
	if set == "" {
		set = "hidden_at = null" // its value
	}
	return edit(byNumber, "id", set, args)
}

// Hide returns a statement that hides the spool with the number and returns its id.
func Hide(number int64) *db.Stmt {
	return hide(byNumber, number)
}

// Copy returns a statement that creates a spool of the same filament as the spool with the number, which may be hidden,
// and returns the new number. Weights, price, location, lot, notes and archived come from in; a weight or a price that
// in does not contain is that of the other spool.
func Copy(number int64, in *Spool) *db.Stmt {
	return newSpools(`
			insert into spools (id, material_type, brand, color, color_hex, finish, diameter_mm, density_g_cm3,
				net_weight_grams, remaining_weight_grams, spool_weight_grams, purchase_price, location, lot_number, notes,
				archived)
			select $2, material_type, brand, color, color_hex, finish, diameter_mm, density_g_cm3,
				coalesce($3::numeric, net_weight_grams), coalesce($4::numeric, $3::numeric, net_weight_grams),
				coalesce($5::numeric, spool_weight_grams), coalesce($6::numeric, purchase_price), $7, $8, $9, $10::boolean
			from spools where number = $1`).statement(`select number from spool`,
		number, db.NewID(), in.NetWeight.Arg(), in.Remaining.Arg(), in.SpoolWeight.Arg(), in.PurchasePrice.Arg(),
		in.Location.Arg(), in.LotNumber.Arg(), in.Notes.Arg(), in.Archived.Or(false))
}
