package web_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// The page of a product counts, scraps and adjusts its pieces, each with Undo, and shows the ledger.
func TestPiecesOfProduct(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	b.get(t, "/products/new").submit(t, "/products/new", "name", "Hook", "minimum_pieces", "4", "location", "Shelf B").
		want(t, 303)
	product := c.Get(t, "/api/v1/products").Want(200).Text("items.0.id")
	at := "/products/" + product
	has := func(onHand int) {
		t.Helper()
		c.Get(t, "/api/v1"+at).Want(200).Shows(map[string]string{"on_hand": fmt.Sprint(onHand)})
	}
	p := b.get(t, at).shows(t, "On hand 0", "Available 0 low", "Keep at least 4", "Where Shelf B").
		hides(t, "Assemble", "Take apart", "Take back")
	check(t, p)
	b.get(t, "/products").shows(t, "In stock", "Hook Shelf B 0 low")

	p = p.submit(t, at+"/count", "counted", "10", "reason", hostile).to(t, at).says(t, "Counted: +10, 10 in stock.").
		shows(t, "On hand 10", "Available 10", "Counted "+hostile)
	check(t, p.hides(t, "low"))
	has(10)
	p.take(t).to(t, at).says(t, "Taken back: −10, 0 in stock.").shows(t, "Taken back", "Takes back an earlier entry")
	has(0)

	p = b.get(t, at).submit(t, at+"/adjust", "pieces", "6", "reason", "Bought").to(t, at).
		says(t, "Adjusted: +6, 6 in stock.")
	adjusted := p
	form := p.form(t, at+"/scrap")
	form.Set("quantity", "2")
	for range 2 { // also with a double click
		p = b.do(t, "POST", at+"/scrap", form).to(t, at).says(t, "Scrapped: −2, 4 in stock.")
	}
	has(4)
	b.get(t, "/products").shows(t, "Hook Shelf B 4").hides(t, "low")
	adjusted.take(t).want(t, 422).shows(t, "Not enough pieces in stock: 4 of Hook, 6 are needed")
	p.take(t).to(t, at).says(t, "Taken back: +2, 6 in stock.")
	p.take(t).want(t, 303) // again
	taken := c.Get(t, "/api/v1"+at+"/piece-entries?kind=scrapped&sort_order=asc&limit=1").Want(200).Text("items.0.id")
	b.do(t, "POST", at+"/pieces/reverse", url.Values{"entry": {taken}}).want(t, 422).
		shows(t, "The entry was already reversed")
	has(6)

	// What is wrong stays in the form.
	for _, wrong := range [][3]string{{"count", "counted", ""}, {"count", "counted", "-1"}, {"count", "counted", "x"},
		{"scrap", "quantity", "0"}, {"scrap", "quantity", "1.5"}, {"scrap", "quantity", "7"}, {"adjust", "pieces", "0"},
		{"adjust", "pieces", "-7"}, {"adjust", "pieces", "many"}} {
		refused := b.get(t, at).submit(t, at+"/"+wrong[0], wrong[1], wrong[2]).want(t, 422)
		if got := refused.form(t, at+"/"+wrong[0]).Get(wrong[1]); got != wrong[2] ||
			strings.Count(refused.text, `<details name="pieces" open>`) != 1 {
			t.Errorf("%v: the form has %q, or is closed", wrong, got)
		}
		has(6)
	}

	// The ledger has more entries than the page shows.
	b.get(t, at).hides(t, "All 5 entries")
	c.Post(t, "/api/v1"+at+"/count", j{"counted": 7}).Want(200)
	b.get(t, at).shows(t, "All 6 entries")
	all := b.get(t, at+"/pieces").want(t, 200).shows(t, "7 in stock", "6 entries", "Counted "+hostile)
	check(t, all)
	oldest := c.Get(t, "/api/v1"+at+"/piece-entries?kind=counted&limit=1").Want(200).Text("items.0.id")
	b.do(t, "POST", at+"/pieces/reverse", url.Values{"entry": {oldest}}).to(t, at).says(t, "Taken back: −1, 6 in stock.")
	for _, wrong := range []string{"", "x", product} {
		b.do(t, "POST", at+"/pieces/reverse", url.Values{"entry": {wrong}}).want(t, 404)
	}

	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, at).want(t, 200).shows(t, "On hand 6").hides(t, "Scrap them", "Take back")
	viewer.get(t, at+"/pieces").want(t, 200).shows(t, "6 in stock").hides(t, "Take back")
	other := signIn(t, api.Operator(t))
	other.get(t, at+"/pieces").want(t, 404)
	other.do(t, "POST", at+"/pieces/reverse", url.Values{"entry": {oldest}}).want(t, 404)
	other.do(t, "POST", at+"/count", url.Values{"counted": {"1"}}).want(t, 404)
	has(6)
}

// Kits are assembled and taken apart on their page. What runs have made leads to them.
func TestAssembleOnPage(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	clip := c.NewProduct(t, "Clip", 10)
	kit := c.Post(t, "/api/v1/products",
		j{"name": "Kit", "components": []j{{"component_product_id": clip, "quantity": 3}}}).
		Want(201).ID()
	at := "/products/" + kit
	run := c.NewRun(t, clip, "", 7, j{"status": "completed", "items": []j{{"product_id": clip, "quantity": 7}}})
	b.get(t, "/products/"+clip).shows(t, "On hand 7", "Printed").hides(t, "Take back")
	if p := b.get(t, "/products/"+clip); !strings.Contains(p.text,
		`"/runs/`+run[len("/api/v1/production-runs/"):]+`">Printed`) {
		t.Errorf("the entry does not lead to the run: %s", p.text)
	}

	b.get(t, at).submit(t, at+"/assemble", "quantity", "3").want(t, 422).
		shows(t, "Not enough pieces in stock: 7 of Product Clip, 9 are needed")
	p := b.get(t, at).submit(t, at+"/assemble", "quantity", "2").to(t, at).says(t, "Assembled: +2, 2 in stock.")
	check(t, p)
	b.get(t, "/products/"+clip).shows(t, "On hand 1", "Assembled", "−6")
	p.take(t).to(t, at).says(t, "Taken back: −2, 0 in stock.")
	b.get(t, "/products/"+clip).shows(t, "On hand 7")
	b.get(t, at).submit(t, at+"/disassemble", "quantity", "1").want(t, 422).shows(t, "Not enough pieces in stock")
	b.get(t, at).submit(t, at+"/assemble", "quantity", "1").to(t, at)
	b.get(t, at).submit(t, at+"/disassemble", "quantity", "1").to(t, at).says(t, "Taken apart: −1, 0 in stock.").
		take(t).to(t, at).says(t, "Taken back: +1, 1 in stock.")
	b.get(t, "/products/"+clip).shows(t, "On hand 4")
}

// The report of the pieces in stock has pages, the file all products.
func TestPagesOfPiecesReport(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	for i := range 51 {
		c.Post(t, "/api/v1/products/"+c.NewProduct(t, fmt.Sprintf("P-%02d", i), 10)+"/count", j{"counted": 1}).Want(200)
	}
	seen := map[string]bool{}
	page := b.get(t, "/reports/pieces").want(t, 200).shows(t, "1–50 of 51", "Next →")
	for range 2 {
		for _, m := range regexp.MustCompile(`P-\d\d`).FindAllString(page.text, -1) {
			seen[m] = true
		}
		page = b.get(t, "/reports/pieces?page=2").want(t, 200).shows(t, "51–51 of 51", "Previous").hides(t, "Next →")
	}
	testkit.Equal(t, len(seen), 51, "the products on two pages")
	testkit.Equal(t, strings.Count(b.get(t, "/reports/pieces.csv").text, "\n"), 52, "the lines of the file")
	b.get(t, "/reports/pieces?page=x").want(t, 200).shows(t, "1–50 of 51")
	c.Get(t, "/api/v1/reports/pieces?limit=0").Fields("limit")
	c.Get(t, "/api/v1/reports/pieces?limit=1001").Fields("limit")
	c.Get(t, "/api/v1/reports/pieces?skip=-1").Fields("skip")
}

// The report of the pieces in stock has their value, now and at the end of a day, and is a file, too.
func TestPiecesReport(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	tenant.User(t, "admin").Patch(t, "/api/v1/settings", j{"labour_hour_cost": 0, "machine_hour_cost": 0,
		"energy_kwh_cost": 0, "currency": "EUR"}).Want(200)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	b.get(t, "/reports/pieces").shows(t, "No pieces were in stock.")
	product := c.NewProduct(t, "Hook", 10)
	spool := c.NewSpool(t, 1000, j{"purchase_price": 20})
	run := c.Post(t, "/api/v1/production-runs", j{"status": "in_progress", "items": []j{{"product_id": product,
		"quantity": 4}}, "materials": []j{{"spool_id": spool, "actual_weight_grams": 300}}}).Want(201).ID()
	c.Post(t, "/api/v1/production-runs/"+run+"/complete", nil).Want(200)
	c.Post(t, "/api/v1/products/"+c.NewProduct(t, "Box", 10)+"/count", j{"counted": 2}).Want(200)

	b.get(t, "/reports/pieces").shows(t, "6.00 EUR 6 pieces", "The cost of 2 of them is unknown.",
		"Product Hook Hook 4 1.50 EUR 6.00 EUR", "Product Box Box 2", "End of last month")
	b.get(t, "/reports/pieces?to=2024-01-31").shows(t, "No pieces were in stock.")
	b.get(t, "/reports/pieces?to=x").want(t, 422).shows(t, "date")
	file := b.get(t, "/reports/pieces.csv").want(t, 200)
	want := "product_name,sku,on_hand,unvalued_pieces,piece_cost,piece_value\nProduct Hook,Hook,4,0,1.5,6\n" +
		"Product Box,Box,2,2,,\n"
	if !strings.HasPrefix(file.header.Get("Content-Type"), "text/csv") || file.text != want {
		t.Errorf("the file is %v\n%s", file.header, file.text)
	}
	b.get(t, "/reports/usage.csv").want(t, 200)
	tenant.User(t, "admin").Get(t, "/api/v1/audit-log?action=data.exported").Want(200).Shows(map[string]string{
		"total": "2", "items.0.object_kind": "usage-report", "items.1.object_kind": "pieces-report"})
	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, "/reports").shows(t, "Pieces")
	viewer.get(t, "/reports/pieces").shows(t, "6.00 EUR")
	viewer.get(t, "/reports/pieces?by=product").shows(t, "6.00 EUR")
	signIn(t, api.Operator(t)).get(t, "/reports/pieces").shows(t, "No pieces were in stock.")
}
