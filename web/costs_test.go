package web_test

import (
	"strings"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/spoolman"
	"spoolwright/tests/testkit"
)

// An order is planned, printed and paid: the pages show the plan, what to do before a run starts, and what all costs.
func TestPlanAndCosts(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "admin")
	b := signIn(t, c)
	spool := c.NewSpool(t, 500, j{"purchase_price": 20})
	product := c.NewProduct(t, "Hook", 100)
	c.Patch(t, "/api/v1/products/"+product, j{"estimated_print_time_minutes": 60, "pieces_per_plate": 2,
		"selling_price": 15, "labour_minutes": 6}).Want(200)
	order := "/orders/" + c.Post(t, "/api/v1/orders", j{"customer": "Ada",
		"items": []j{{"product_id": product, "quantity": 3}}}).Want(201).ID()

	// Unknown parts are named.
	b.get(t, "/products/"+product).shows(t, "Filament 2.00", "Machine unknown",
		"Unknown, and not in the sums: machine, energy, work, failures. Set the rates",
		"One good piece 2.00 of what is known")
	wrong := b.get(t, "/settings").submit(t, "/settings", "labour_hour_cost", "much").want(t, 422)
	wrong.shows(t, "Must be a number.").submit(t, "/settings", "labour_hour_cost", "30", "machine_hour_cost", "0,5",
		"energy_kwh_cost", "0", "machine_power_watts", "100", "failure_rate_percent", "0", "currency", "EUR").
		to(t, "/settings")
	b.get(t, "/products/"+product).shows(t, "Machine 0.50 EUR", "Work 3.00 EUR", "One good piece 5.50 EUR",
		"Selling price 15.00 EUR", "Margin, 63.3 % 9.50 EUR").hides(t, "nknown")

	plan := b.get(t, order+"/plan").want(t, 200)
	plan.shows(t, "Not planned", "No available printer", "3 × Product Hook").hides(t, "Create 1")
	printer := c.Post(t, "/api/v1/printers", j{"name": "MK4"}).Want(201).ID()
	form := b.get(t, order+"/plan").shows(t, "2 runs", "2 × Product Hook", "MK4", "1 × Product Hook", "Create 2 runs").
		form(t, order+"/plan")
	for range 2 {
		b.do(t, "POST", order+"/plan", form).to(t, order)
	}
	runs := c.Get(t, "/api/v1/queue").Want(200)
	if n := len(runs.List("runs")); n != 2 {
		t.Fatalf("%d runs are planned", n)
	}
	b.get(t, order+"/plan").shows(t, "Nothing is left to plan.")
	b.get(t, order).shows(t, "Revenue 45.00 EUR", "Cost until now 0.00 EUR", "Expected for the rest 16.50 EUR",
		"Margin, 63.3 % 28.50 EUR")

	run := "/runs/" + runs.Text("runs.0.id")
	b.get(t, run).shows(t, "First Load spool").hides(t, "Cost")
	b.get(t, "/printers/"+printer).submit(t, "/printers/"+printer+"/slots/1", "spool_number", "1").want(t, 303)
	b.get(t, run).hides(t, "First Load spool").submit(t, run+"/start").to(t, run)
	b.get(t, run).submit(t, run+"/complete", "actual_print_time_hours", "1").to(t, run).
		shows(t, "Filament 4.00 EUR", "Machine 0.50 EUR", "Work 6.00 EUR").hides(t, "Unknown")
	b.get(t, "/reports/margins").shows(t, "Product Hook 2 0 30.00 EUR", "MK4").hides(t, "No run ended")
	b.get(t, "/reports/margins?by=customer").shows(t, "Ada 2 0 30.00 EUR")
	b.get(t, "/reports/margins?by=nothing").want(t, 422).shows(t, "must be one of")

	b.get(t, order).submit(t, order+"/cancel").to(t, order)
	b.get(t, order+"/plan").want(t, 409).shows(t, "order")
	b.do(t, "POST", order+"/plan", form).want(t, 303) // the stored answer
	form.Set("once", strings.Repeat("x", 20))
	b.do(t, "POST", order+"/plan", form).want(t, 409)
	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, "/spools/"+spool).want(t, 200).hides(t, "Load into")
}

// The form that completes a run has what printers reported, and asks about what left the spool without a run.
func TestCompleteReportedRun(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{Change: func(c *server.Config) {
		c.Surfaces = []server.Surface{spoolman.Surface(c.DB)}
	}}).Operator(t)
	b := signIn(t, c)
	id := c.NewSpool(t, 1000, nil)
	number := c.Get(t, "/api/v1/spools/"+id).Text("number")
	run := c.Post(t, "/api/v1/production-runs", j{"status": "in_progress",
		"materials": []j{{"spool_id": id, "estimated_weight_grams": 100}}}).Want(201).ID()
	at := "/runs/" + run
	b.get(t, at).hides(t, "Printers reported", "without a run")
	c.Do(t, "PUT", "/spoolman/api/v1/spool/"+number+"/use", j{"use_weight": 60}).Want(200)
	c.Post(t, "/api/v1/spools/"+id+"/deduct", j{"weight_grams": 30}).Want(200)
	page := b.get(t, at).shows(t, "Printers reported 60 g.",
		"The weight contains 30 g that left this spool without a run")
	if got := page.form(t, at+"/complete").Get("materials[0].actual_weight_grams"); got != "60" {
		t.Errorf("the form has %q g", got)
	}
	page.submit(t, at+"/complete", "materials[0].actual_weight_grams", "95",
		"materials[0].count_outside_use", "true").to(t, at)
	c.Get(t, "/api/v1/spools/"+id).Shows(map[string]string{"remaining_weight_grams": "905"})
	c.Get(t, "/api/v1/production-runs/"+run).Shows(map[string]string{"actual_total_filament_grams": "95"})

	// One click confirms what printers reported, and not the estimate. It does not answer the question.
	run = c.Post(t, "/api/v1/production-runs", j{"status": "in_progress",
		"materials": []j{{"spool_id": id, "estimated_weight_grams": 100}}}).Want(201).ID()
	at = "/runs/" + run
	c.Do(t, "PUT", "/spoolman/api/v1/spool/"+number+"/use", j{"use_weight": 40}).Want(200)
	deducted := c.Post(t, "/api/v1/spools/"+id+"/deduct", j{"weight_grams": 30}).Want(200)
	b.do(t, "POST", at+"/confirm", nil).to(t, at+"?open=complete").shows(t, "Enter the missing values")
	entry := c.Get(t, "/api/v1/spools/"+id+"/usage?kind=deducted&limit=1").Want(200).Text("items.0.id")
	c.Post(t, "/api/v1/spools/"+id+"/usage/"+entry+"/reverse", nil).Want(200)
	b.do(t, "POST", at+"/confirm", nil).to(t, at).shows(t, "Confirmed: 40 g used.")
	c.Get(t, "/api/v1/production-runs/"+run).Shows(map[string]string{"actual_total_filament_grams": "40"})
	testkit.Equal(t, deducted.Text("remaining_weight_grams"), "835", "the spool after the deduction")
	c.Get(t, "/api/v1/spools/"+id).Shows(map[string]string{"remaining_weight_grams": "865"})
}

// The forms that end a run have its most likely end, in the time zone of the farm, and take another one.
func TestEndOfRun(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	zone, err := time.LoadLocation("Pacific/Auckland")
	if err != nil {
		t.Skip(err)
	}
	testkit.Check(t, c.API.DB.Write(db.As(t.Context(), c.Actor),
		db.SQL(`update tenants set time_zone = $1`, zone.String())))
	spool := c.NewSpool(t, 1000, nil)
	start := time.Now().Add(-11 * time.Hour).Truncate(time.Minute)
	local := func(after time.Duration) string { return start.Add(after).In(zone).Format("2006-01-02T15:04") }
	newRun := func(fields j) string {
		fields["status"] = "in_progress"
		fields["started_at"] = start
		fields["materials"] = []j{{"spool_id": spool, "estimated_weight_grams": 10}}
		return "/runs/" + c.Post(t, "/api/v1/production-runs", fields).Want(201).ID()
	}
	hours := func(run, want string) {
		t.Helper()
		c.Get(t, "/api/v1/production-runs"+strings.TrimPrefix(run, "/runs")).
			Shows(map[string]string{"actual_print_time_hours": want})
	}
	run := newRun(j{"estimated_print_time_hours": 4})
	page := b.get(t, run)
	for _, form := range []string{"/complete", "/fail"} {
		testkit.Equal(t, page.form(t, run+form).Get("completed_at"), local(4*time.Hour), "the end in the form %s", form)
	}
	page.submit(t, run+"/complete").to(t, run)
	hours(run, "4")

	run = newRun(j{"estimated_print_time_hours": 4})
	b.get(t, run).submit(t, run+"/complete", "completed_at", local(-time.Hour)).want(t, 422).
		shows(t, "Must not be before started_at")
	b.get(t, run).submit(t, run+"/complete", "completed_at", local(5*time.Hour), "actual_print_time_hours", "4.5").
		to(t, run)
	hours(run, "4.5")

	run = newRun(j{"estimated_print_time_hours": 4})
	b.get(t, run).submit(t, run+"/fail", "reason", "clog", "completed_at", local(90*time.Minute)).to(t, run)
	hours(run, "1.5")

	// A run that would end in the future ends now at the latest. Of one without an estimate, nothing is known. The form
	// has no time for now, so that a weighing of the same minute is before the end.
	for _, estimate := range []any{20, nil} {
		run = newRun(j{"estimated_print_time_hours": estimate})
		c.Patch(t, "/api/v1/spools/"+spool, j{"remaining_weight_grams": 500}).Want(200)
		page := b.get(t, run)
		testkit.Equal(t, page.form(t, run+"/complete").Get("completed_at"), "", "the end in the form")
		page.submit(t, run+"/complete", "materials[0].actual_weight_grams", "10").to(t, run)
		c.Get(t, "/api/v1/spools/"+spool).Shows(map[string]string{"remaining_weight_grams": "490"})
	}
}

// The page of a product says that nothing in stock is what it needs, and sets what there is.
func TestProductWithoutStock(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	c.NewSpool(t, 900, j{"color": "Graphit", "purchase_price": 20})
	c.NewSpool(t, 500, j{"color": "Graphit", "material_name": "PLA-CF"})
	made := c.Post(t, "/api/v1/products", j{"name": "Lamp", "materials": []j{
		{"material_type": "PLA", "color": "Graphite", "weight_grams": 100}}}).Want(201)
	page := "/products/" + made.ID()
	set := page + "/materials/" + made.Text("materials.0.id") + "/set"
	shown := b.get(t, page).shows(t, "PLA Graphite is not in stock.", "PLA Graphit (900 g)",
		"PLA-CF Graphit (500 g)", "Use PLA Graphit", "price of other colors", "partly at the price of other colors")
	viewer := signIn(t, tenant.User(t, "viewer"))
	viewer.get(t, page).shows(t, "PLA Graphite is not in stock.").hides(t, "Use PLA Graphit")
	order, _ := c.NewOrder(t, made.ID(), 1)
	b.get(t, "/orders/"+order[strings.LastIndex(order, "/")+1:]).shows(t, "Nothing in stock matches.")
	shown.submit(t, set).to(t, page)
	b.get(t, page).hides(t, "Nothing in stock", "other colors")
	c.Get(t, "/api/v1/products/"+made.ID()).Want(200).
		Shows(map[string]string{"materials.0.color": "Graphit", "materials.0.material_name": "null"})

	// The form adds a material with a name and a diameter, and one of a single filament.
	number := c.Post(t, "/api/v1/filaments", j{"material_type": "PETG", "material_name": "PETG-CF", "color": "Black",
		"vendor": "Acme", "diameter_mm": 1.75}).Want(201).Text("number")
	add := page + "/materials"
	b.get(t, page).submit(t, add, "material_type", "PLA", "material_name", "PLA-CF", "color", "Graphit",
		"diameter_mm", "2.85", "weight_grams", "10").to(t, page)
	b.get(t, page).shows(t, "PLA-CF Graphit 2.85 mm is not in stock.").
		submit(t, add, "filament_number", number, "weight_grams", "10").to(t, page)
	b.get(t, page).shows(t, "PETG-CF Black (Acme)")
	plan := b.get(t, "/orders/"+order[strings.LastIndex(order, "/")+1:]+"/plan")
	plan.shows(t, "Not planned")
}
