package web_test

import (
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// The page of a spool refills it; the reports show what was left as a loss, and the value of the filament in stock.
func TestRefillOnPage(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	tenant.User(t, "admin").Patch(t, "/api/v1/settings", j{"currency": "EUR"}).Want(200)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	b.get(t, "/reports/filament").shows(t, "No filament was in stock.")
	id := c.NewSpool(t, 1000, j{"purchase_price": 20})
	c.Post(t, "/api/v1/spools/"+id+"/deduct", j{"weight_grams": 900}).Want(200)
	at := "/spools/" + id
	b.get(t, at).shows(t, "Refill", "The 100 g that are left count as a loss.")
	b.get(t, at).submit(t, at+"/refill", "net_weight_grams", "0").want(t, 422).shows(t, "Filament when full")
	b.get(t, at).submit(t, at+"/refill", "purchase_price", "25", "lot_number", "L2").to(t, at).
		says(t, "Refilled spool 1: 1 kg.")
	b.get(t, at).shows(t, "1 kg of 1 kg", "Refilled", "Rest before the refill", "Lot L2", "25.00 EUR")
	b.get(t, "/reports").shows(t, "18.00 EUR", "100 g were lost on removed and refilled spools (2.00 EUR).")
	b.get(t, "/reports/filament").shows(t, "25.00 EUR 1 kg on 1 spool", "PLA Black 1 1 kg 25.00 EUR", "End of last month")
	b.get(t, "/reports/filament?by=material&to=2024-01-31").shows(t, "No filament was in stock.")
	b.get(t, "/reports/filament?to=x").want(t, 422).shows(t, "date")
	file := b.get(t, "/reports/filament.csv?by=color").want(t, 200)
	want := "material_type,color,spools,grams,unpriced_grams,filament_value,archived_value\nPLA,Black,1,1000,0,25,0\n"
	if !strings.HasPrefix(file.header.Get("Content-Type"), "text/csv") || file.text != want {
		t.Errorf("the file is %v\n%s", file.header, file.text)
	}
	b.get(t, at).submit(t, at+"/refill", "net_weight_grams", "500", "remaining_weight_grams", "400", "purchase_price", "").
		to(t, at)
	b.get(t, "/reports/filament").shows(t, "400 g", "The price of 400 g of them is unknown.")
	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, at).hides(t, "Refill spool", "On the spool now")
	viewer.get(t, "/reports/filament").shows(t, "400 g")
}

// The report of waste shows the failed ones of all pieces, also of completed runs, and the purge.
func TestFailedPiecesOnPages(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	product, spool := c.NewProduct(t, "Hook", 10), c.NewSpool(t, 1000, nil)
	printer := c.Post(t, "/api/v1/printers", j{"name": "P"}).Want(201).ID()
	run := c.Post(t, "/api/v1/production-runs", j{"printer_id": printer, "items": []j{{"product_id": product,
		"quantity":            10,
		"successful_quantity": 7, "failed_quantity": 3}}, "materials": []j{{"spool_id": spool, "actual_weight_grams": 100,
		"actual_purge_grams": 5}}}).Want(201).ID()
	c.Post(t, "/api/v1/production-runs/"+run+"/complete", nil).Want(200)
	b.get(t, "/reports").shows(t, "3 of 10 pieces failed: 30 %.", "Runs purged 5 g")
	b.get(t, "/reports/margins").shows(t, "30 % of pieces")
}
