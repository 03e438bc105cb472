package web_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// The page Today and the board start and confirm a run with one click. A run of which something is not known is
// confirmed on its page.
func TestOneClick(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "operator")
	b, viewer := signIn(t, c), signIn(t, tenant.User(t, "viewer"))
	spool := c.NewSpool(t, 1000, nil)
	product := c.NewProduct(t, "Stand", 20)
	printer := c.Post(t, "/api/v1/printers", j{"name": "MK4"}).Want(201).ID()
	add := func(fields j) string {
		t.Helper()
		body := j{"printer_id": printer, "estimated_print_time_hours": 2,
			"items":     []j{{"product_id": product, "quantity": 2}},
			"materials": []j{{"spool_id": spool, "estimated_weight_grams": 40}}}
		for name, value := range fields {
			body[name] = value
		}
		return "/runs/" + c.Post(t, "/api/v1/production-runs", body).Want(201).ID()
	}
	api := func(run string) string { return "/api/v1/production-runs" + strings.TrimPrefix(run, "/runs") }
	const title = "2 × Product Stand MK4"

	first := add(nil)
	b.get(t, "/").shows(t, "To confirm No run waits for you.",
		"Ready to start "+title+" · #1 PLA Black Start 2 × Product Stand on MK4",
		"Printing Nothing prints. Free: MK4")
	viewer.get(t, "/").shows(t, "Ready to start "+title).hides(t, "Start 2 ×")
	viewer.do(t, "POST", first+"/confirm", nil).want(t, 403)
	b.get(t, "/").submit(t, first+"/start").to(t, "/").
		shows(t, "The run is printing.", "No run can start now.", "Printing "+title+" until",
			"Low stock There are no stock levels yet.").hides(t, "Free")
	second := add(nil)
	b.get(t, "/").shows(t, "No run can start now.") // its printer is busy
	b.get(t, "/runs").shows(t, "Planned "+title).hides(t, "Start 2 ×")

	// The estimate is what was used, until somebody corrects it.
	c.Patch(t, api(first), j{"started_at": "2024-01-15T10:00:00Z"}).Want(200)
	today := b.get(t, "/").shows(t, "To confirm "+title+" · ended", "Confirm 2 × Product Stand on MK4")
	for range 2 { // also with a double click
		today.submit(t, first+"/confirm").to(t, "/").shows(t, "No run waits for you.")
	}
	c.Get(t, api(first)).Want(200).Shows(map[string]string{"status": "completed", "actual_total_filament_grams": "40",
		"items.0.successful_quantity": "2"})
	c.Get(t, "/api/v1/spools/"+spool).Want(200).Shows(map[string]string{"remaining_weight_grams": "960"})

	// The board, too.
	b.get(t, "/runs").submit(t, second+"/start").to(t, "/runs").shows(t, "Printing "+title)
	c.Patch(t, api(second), j{"started_at": "2024-01-15T10:00:00Z"}).Want(200)
	b.get(t, "/runs").submit(t, second+"/confirm").to(t, "/runs").
		shows(t, "Confirmed: 40 g used.", "No run waits for you.").
		submit(t, second+"/reopen").want(t, 303)

	// Nobody knows what the spool has lost.
	c.Patch(t, api(second), j{"status": "paused"}).Want(200)
	unknown := add(j{"status": "in_progress", "started_at": "2024-01-15T10:00:00Z",
		"materials": []j{{"spool_id": spool}}})
	form := b.get(t, "/").submit(t, unknown+"/confirm").to(t, unknown+"?open=complete")
	if !regexp.MustCompile(`<details name="action" open>\s*<summary class="button[^>]*>Confirm`).MatchString(form.text) {
		t.Errorf("the form is not open: %s", form.text)
	}
	c.Get(t, api(unknown)).Want(200).Shows(map[string]string{"status": "in_progress"})
	form.submit(t, unknown+"/complete", "materials[0].actual_weight_grams", "12").to(t, unknown).
		shows(t, "Completed", "12 g")

	// The address of a page that the form does not come from is not used.
	c.Post(t, api(second)+"/start", nil).Want(200)
	b.do(t, "POST", second+"/confirm", map[string][]string{"from": {"https://x.example/"}}).to(t, second)
	signIn(t, newAPI(t, testkit.Options{}).Operator(t)).do(t, "POST", second+"/confirm", nil).want(t, 404)
}

// Each part of Today has at most eight rows, and a link to all.
func TestTodayLinks(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	product := c.NewProduct(t, "Stand", 20)
	for i := range 9 {
		c.NewOrder(t, product, 1)
		run := func(fields j) {
			fields["items"] = []j{{"product_id": product}}
			c.Post(t, "/api/v1/production-runs", fields).Want(201)
		}
		run(j{"status": "in_progress", "estimated_print_time_hours": 900 + i, "printer_name": fmt.Sprint("P", i)})
		run(j{"status": "in_progress", "estimated_print_time_hours": 1, "started_at": "2024-01-15T10:00:00Z"})
		run(j{})
	}
	today := b.get(t, "/")
	for _, link := range []string{"/runs/all?status=confirm", "/runs/all?status=ready",
		"/runs/all?status=printing", "/orders"} {
		testkit.Contains(t, today.text, `<p><a href="`+link+`">all 9</a></p>`, "no link to %s", link)
		if p := b.get(t, link).want(t, 200); link != "/runs/all?status=printing" && strings.Count(p.text, "<tr>") != 10 {
			t.Errorf("%s: %s", link, p.words())
		}
	}
	testkit.Equal(t, strings.Count(today.text, `<li class="run">`), 24, "rows of runs")
	today.shows(t, "Printing 1 × Product Stand P0 until").hides(t, "P8")
}

// The list of all runs has filters by product, printer, order, spool, month and state, and pages.
func TestAllRuns(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	c := api.Operator(t)
	b := signIn(t, c)
	spool := c.NewSpool(t, 1000, nil)
	archived := c.NewSpool(t, 1000, j{"archived": true})
	stand, lamp := c.NewProduct(t, "Stand", 20), c.NewProduct(t, "Lamp", 20)
	printer := c.Post(t, "/api/v1/printers", j{"name": "MK4"}).Want(201).ID()
	order, item := c.NewOrder(t, stand, 1)
	c.Patch(t, order, j{"reference": "1042"}).Want(200)
	c.NewRun(t, stand, item, 1, j{"printer_id": printer, "materials": []j{{"spool_id": spool}}})
	failed := c.Post(t, "/api/v1/production-runs", j{"items": []j{{"product_id": lamp, "quantity": 3}},
		"status": "in_progress", "started_at": "2024-02-27T07:00:00Z",
		"materials": []j{{"spool_id": archived, "estimated_weight_grams": 60}}}).Want(201).ID()
	c.Post(t, "/api/v1/production-runs/"+failed+"/fail", j{"reason": "clog", "wasted_grams": 1200,
		"completed_at": "2024-02-29T10:00:00Z", "actual_print_time_hours": 51.01}).Want(200)
	const one, two = "1 × Product Stand MK4 · 1042 Planned", "3 × Product Lamp Failed: clog 1.2 kg 2 d 3 h 2024-02-29"
	for query, found := range map[string]string{"": "both", "?product=" + stand: one, "?product=" + lamp: two,
		"?printer=" + printer: one, "?order=" + strings.TrimPrefix(order, "/api/v1/orders/"): one, "?spool=1": one,
		"?spool=%232": two, "?spool=" + archived: two, "?month=2024-02": two, "?month=2024-01": "", "?status=planned": one,
		"?status=failed": two, "?status=ended": two, "?status=ready": one, "?status=confirm": "", "?search=stand": one,
		"?product=" + stand + "&status=failed": "", "?page=2": ""} {
		p := b.get(t, "/runs/all"+query).want(t, 200)
		for _, text := range []string{one, two} {
			if strings.Contains(p.words(), text) != (found == "both" || found == text) {
				t.Errorf("%s: %s", query, p.words())
			}
		}
	}
	for query, problem := range map[string]string{"?month=2024": "The month must be", "?spool=many": "The spool must be",
		"?spool=99": "No spool has this number.", "?status=asleep": "Status must be one of",
		"?product=x": "Product must be"} {
		b.get(t, "/runs/all"+query).want(t, 422).shows(t, problem)
	}
	// A choice shows what the address selects, also if it is not among the first.
	c.Delete(t, "/api/v1/products/"+lamp).Want(204)
	testkit.Contains(t, b.get(t, "/runs/all?product="+lamp).text, ` checked><span><b>Removed</b>`,
		"the choice has nothing selected")
	other := signIn(t, api.Operator(t))
	other.get(t, "/runs/all?product="+stand+"&spool="+spool).want(t, 200).hides(t, "Stand", "1 × ", "2 × ")
}

// The head of Today counts the orders with all pieces in stock, also if others are due before them, and its list has a
// mark.
func TestReadyToPack(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	c := api.Operator(t)
	b := signIn(t, c)
	product := c.NewProduct(t, "Stand", 20)
	ready := c.Post(t, "/api/v1/orders", j{"reference": "R-1", "items": []j{{"product_id": product}}}).Want(201).ID()
	c.Post(t, "/api/v1/orders", j{"reference": "O-1", "items": []j{{"product_id": product}}}).Want(201)
	b.get(t, "/").shows(t, "0 Ready to pack").hides(t, "Stand Ready")
	testkit.ExecURL(t, testkit.Private().SuperURL(), `update orders set ready_at = now() where id = '`+ready+`'`)
	b.get(t, "/").shows(t, "R-1 1 × Product Stand Ready to pack –", "O-1 1 × Product Stand")
	for range 2 {
		b.get(t, "/").shows(t, "1 Ready to pack")
		b.get(t, "/orders?ready=true").shows(t, "1 order", "R-1", "Ready to pack 0 of 1").hides(t, "O-1")
		b.get(t, "/orders?ready=false").shows(t, "O-1").hides(t, "R-1")
		for range 9 { // that are due first
			c.Patch(t, first(c.NewOrder(t, product, 1)), j{"due_date": "2024-01-01"}).Want(200)
		}
	}
	testkit.ExecURL(t, testkit.Private().SuperURL(), `update orders set ready_at = now() where tenant_id = '`+
		c.Actor.Tenant+`'`)
	b.get(t, "/").shows(t, "15+ Due or late 20 Ready to pack")
	signIn(t, api.Operator(t)).get(t, "/").hides(t, "Ready to pack", "Waste this week")
}

func first(order, _ string) string { return order }

// A long name of a printer is shortened where it stands in a sentence.
func TestLongPrinterName(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	c.Post(t, "/api/v1/printers", j{"name": strings.Repeat("x", 100)}).Want(201)
	signIn(t, c).get(t, "/").shows(t, "Free: "+strings.Repeat("x", 40)+"…")
}

// Today says how many stock levels are low, or that the farm has none.
func TestTodayLevels(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	c.NewSpool(t, 1000, nil)
	level := func(color string, grams int) {
		c.Post(t, "/api/v1/stock-levels", j{"material_type": "PLA", "color": color, "minimum_grams": grams}).Want(201)
	}
	b.get(t, "/").want(t, 200).shows(t, "Low stock There are no stock levels yet.").hides(t, "No stock level is low.")
	level("Black", 100)
	b.get(t, "/").want(t, 200).shows(t, "0 Low stock", "No stock level is low.").hides(t, "There are no stock levels")
	for i := range 4 {
		level("Red "+strconv.Itoa(i), 1000*(i+1))
	}
	b.get(t, "/").want(t, 200).shows(t, "4 Low stock", "Low stock 4 PLA Red 3 0 g of 4 kg PLA Red 2", "PLA Red 1").
		hides(t, "PLA Red 0", "PLA Black")
	for i := 4; i < 10; i++ {
		level("Red "+strconv.Itoa(i), 1000)
	}
	b.get(t, "/").want(t, 200).shows(t, "10+ Low stock", "Low stock 10+ PLA Red 3") // another one could be low, too
}

// Of the printers of a large farm, Today reads only some. It does not count those as all that are free.
func TestTodayFreePrinters(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	for i := range 51 {
		if i == 50 {
			b.get(t, "/").shows(t, "and 42 more")
		}
		c.Post(t, "/api/v1/printers", j{"name": "P" + strconv.Itoa(i)}).Want(201)
	}
	b.get(t, "/").shows(t, "and more").hides(t, "and 4")
}
