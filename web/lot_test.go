package web_test

import (
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// The lot on the page of a spool leads to where its filament went.
func TestLotOnPages(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	product, spool := c.NewProduct(t, "Hook", 10), c.NewSpool(t, 1000, j{"lot_number": "A/7 &b"})
	order := c.Post(t, "/api/v1/orders", j{"customer": "Ada", "items": []j{{"product_id": product}}}).Want(201)
	run := c.Post(t, "/api/v1/production-runs", j{"printer_name": "MK4", "status": "in_progress",
		"items":     []j{{"product_id": product, "order_item_id": order.Text("items.0.id")}},
		"materials": []j{{"spool_id": spool, "actual_weight_grams": 100}}}).Want(201).ID()
	c.Post(t, "/api/v1/production-runs/"+run+"/complete", nil).Want(200)
	const page = "/reports/lot?lot_number=A%2f7%20%26b"
	testkit.Contains(t, b.get(t, "/spools/"+spool).text, `href="`+page+`"`,
		"the page of the spool does not lead to %s", page)
	b.get(t, page).shows(t, "1 PLA Black", "900 g", "Product Hook", "MK4", "100 g", "Ada")
	b.get(t, "/reports/lot").shows(t, "Type the lot number")
	b.get(t, "/reports/lot?lot_number=x").shows(t, "No spool has or had filament of this lot.")
	file := b.get(t, "/reports/lot.csv?lot_number=A%2F7%20%26b").want(t, 200).text
	if !strings.Contains(file, "A/7 &b,"+run+",completed,") ||
		!strings.Contains(file, ",MK4,100,Product Hook,Hook,1,1,,Ada,") {
		t.Errorf("the file is %s", file)
	}
}
