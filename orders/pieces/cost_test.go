package pieces_test

import (
	"testing"

	"spoolwright/db"
	"spoolwright/tests/testkit"
)

// Pieces come in at what their run cost, go out at the average, and follow corrections of the cost.
func TestCostOfPieces(t *testing.T) {
	t.Parallel()
	c := newFarm(t).Operator(t)
	testkit.Check(t, c.API.DB.Write(db.As(t.Context(), c.Actor), db.SQL(`
		update tenants set machine_hour_cost = 0, energy_kwh_cost = 0, labour_hour_cost = 0`)))
	p := c.NewProduct(t, "P", 10)
	spool := c.NewSpool(t, 1000, j{"purchase_price": 20})
	end := func(pieces, grams int) (path, item string) {
		t.Helper()
		a := c.Post(t, runs, j{"status": "in_progress", "items": []j{{"product_id": p, "quantity": pieces}},
			"materials": []j{{"spool_id": spool, "actual_weight_grams": grams}}}).Want(201)
		c.Post(t, runs+"/"+a.ID()+"/complete", nil).Want(200)
		return runs + "/" + a.ID(), a.Text("items.0.id")
	}
	is := func(onHand, cost, value string) {
		t.Helper()
		c.Get(t, products+"/"+p).Want(200).Shows(map[string]string{"on_hand": onHand, "piece_cost": cost,
			"piece_value": value})
	}
	is("0", "null", "0")
	first, item := end(4, 400)
	is("4", "2", "8")
	end(6, 300)
	is("10", "1.4", "14")
	c.Post(t, products+"/"+p+"/scrap", j{"quantity": 5}).Want(200).Shows(map[string]string{"cost": "-7"})
	is("5", "1.4", "7")

	// The first run used 600 g: its four pieces, which may all be there, cost four more.
	c.Post(t, first+"/correct", j{"materials": []j{{"spool_number": 1, "actual_weight_grams": 600}}}).Want(200)
	is("5", "2.2", "11")
	kinds(t, c, p, "corrected 0", "scrapped -5")

	// One of them was bad; the other three bear the cost of all.
	c.Post(t, first+"/correct", j{"items": []j{{"id": item, "successful_quantity": 3, "failed_quantity": 1}}}).Want(200)
	is("4", "2.75", "11")
	c.Post(t, first+"/reopen", nil).Want(200)
	is("1", "0", "0")
}
