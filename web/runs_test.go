package web_test

import (
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// The pages of a run and of the queue say beside the button what has changed, and plan the run again.
func TestOutdatedRun(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	spool := c.NewSpool(t, 1000, nil)
	product := c.NewProduct(t, "Hook", 100)
	c.Patch(t, "/api/v1/products/"+product, j{"pieces_per_plate": 2}).Want(200)
	printer := c.Post(t, "/api/v1/printers", j{"name": "MK4"}).Want(201).ID()
	c.Do(t, "PUT", "/api/v1/printers/"+printer+"/slots/1", j{"spool_id": spool}).Want(200)
	order, item := c.NewOrder(t, product, 4)
	c.Patch(t, order, j{"reference": "1001"}).Want(200)
	plan := c.Post(t, order+"/plan", j{"create": true}).Want(200)
	first, second := "/runs/"+plan.Text("runs.0.id"), "/runs/"+plan.Text("runs.1.id")
	b.get(t, first).hides(t, "First", "Plan again")
	b.get(t, "/queue").hides(t, "Order 1001", "Wait until")

	// A printer prints one run at a time.
	b.get(t, first).submit(t, first+"/start").to(t, first).shows(t, "Printing").hides(t, "Warnings")
	b.get(t, second).shows(t, "Wait until the run in progress on MK4 has ended")
	b.get(t, "/queue").shows(t, "Wait until the run in progress on MK4 has ended").
		submit(t, second+"/start").want(t, 422).shows(t, "MK4 is printing another run.")
	c.Patch(t, "/api/v1/production-runs/"+first[len("/runs/"):], j{"status": "paused"}).Want(200)
	b.get(t, first).shows(t, "Continue").submit(t, first+"/start").to(t, first).shows(t, "Printing")
	c.Post(t, "/api/v1/production-runs/"+first[len("/runs/"):]+"/cancel", nil).Want(200)
	b.get(t, first).hides(t, "Warnings")

	// The order needs less.
	c.Patch(t, order+"/items/"+item, j{"quantity": 1}).Want(200)
	const reduced = "Order 1001 needs 1 of Product Hook, but its runs have made or will make 2"
	b.get(t, "/queue").shows(t, reduced+" Plan again")
	b.get(t, "/printers/"+printer).shows(t, reduced)
	page := b.get(t, second).shows(t, "First "+reduced)
	answer := page.submit(t, second+"/replan")
	again := answer.header.Get("Location")
	if !strings.HasPrefix(again, "/runs/") || again == second {
		t.Fatalf("a run that was planned again leads to %s", again)
	}
	answer.to(t, again).shows(t, "Planned", "Hook 1").hides(t, "First")
	b.get(t, second).want(t, 404)

	// What cannot be planned stays.
	products := c.Get(t, "/api/v1/products/"+product).Want(200)
	c.Patch(t, "/api/v1/products/"+product+"/materials/"+products.Text("materials.0.id"), j{"weight_grams": 5000}).
		Want(200)
	b.get(t, again).shows(t, "The bill of materials of Product Hook has changed", "5000 g PLA Black instead of 100 g").
		submit(t, again+"/replan").want(t, 422).shows(t, "The run was not changed", "too little filament")

	// The order needs nothing.
	c.Post(t, order+"/cancel", nil).Want(200)
	page = b.get(t, again).shows(t, "Order 1001 is cancelled")
	page.submit(t, again+"/start").to(t, again).shows(t, "Printing", "Warnings Order 1001 is cancelled").
		hides(t, "Plan again")
	bare := "/runs/" + c.Post(t, "/api/v1/production-runs", j{"items": []j{{"product_id": product,
		"quantity": 1}}}).Want(201).ID()
	b.get(t, bare).shows(t, "Choose a printer for the run", "Plan again")
}

// An item of an order is printed by one click. A run that fails is planned again by the form that records the failure.
func TestPrintItem(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	spool := c.NewSpool(t, 1000, nil)
	product := c.NewProduct(t, "Hook", 100)
	order, item := c.NewOrder(t, product, 3)
	path := "/orders/" + order[strings.LastIndexByte(order, '/')+1:]
	printed := path + "/items/" + item + "/print"

	// Without a printer, the plan says why.
	b.get(t, path).submit(t, printed).to(t, path+"/plan").says(t, "0 runs are planned.").shows(t, "Not planned")
	printer := c.Post(t, "/api/v1/printers", j{"name": "MK4"}).Want(201).ID()
	c.Do(t, "PUT", "/api/v1/printers/"+printer+"/slots/1", j{"spool_id": spool}).Want(200)
	form := b.get(t, path).form(t, printed)
	for range 2 {
		b.do(t, "POST", printed, form).to(t, path).says(t, "3 runs are planned.").hides(t, "Print 3")
	}
	c.Get(t, order).Want(200).Shows(map[string]string{"items.0.planned": "3"})
	runs := c.Get(t, "/api/v1/production-runs").Want(200)
	runs.WantLen(t, "items", 3)
	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, path).hides(t, "Change")
	viewer.do(t, "POST", printed, form).want(t, 403)
	signIn(t, c.API.Operator(t)).do(t, "POST", printed, form).want(t, 404)

	run := "/runs/" + runs.Text("items.0.id")
	b.get(t, run).submit(t, run+"/start").to(t, run)
	fail := b.get(t, run).form(t, run+"/fail")
	fail.Set("materials[0].wasted_grams", "much")
	b.do(t, "POST", run+"/fail-and-replan", fail).want(t, 422).shows(t, "Must be a number.")
	fail.Set("materials[0].wasted_grams", "12")
	for range 2 {
		b.do(t, "POST", run+"/fail-and-replan", fail).to(t, run).says(t, "The run has failed, and is planned again.").
			shows(t, "Failed", "12 g")
	}
	c.Get(t, order).Want(200).Shows(map[string]string{"items.0.planned": "3"})
	c.Get(t, "/api/v1/spools/"+spool).Shows(map[string]string{"remaining_weight_grams": "988"})

	// The page of a run without some of its pieces plans them, too.
	c.Delete(t, "/api/v1/production-runs/"+c.Get(t, "/api/v1/production-runs").Text("items.0.id")).Want(204)
	b.get(t, run).submit(t, run+"/replan").want(t, 303)
	c.Get(t, order).Want(200).Shows(map[string]string{"items.0.planned": "3"})

	// A failure is recorded, also if there is too little filament for another run.
	c.Patch(t, "/api/v1/spools/"+spool, j{"remaining_weight_grams": 50}).Want(200)
	last := "/runs/" + c.Get(t, "/api/v1/production-runs?status=pending").Text("items.0.id")
	b.get(t, last).submit(t, last+"/start").to(t, last)
	b.do(t, "POST", last+"/fail-and-replan", b.get(t, last).form(t, last+"/fail")).to(t, last).
		shows(t, "is not planned again. The run was not changed", "Failed")
}
