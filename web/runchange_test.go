package web_test

import (
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// newRun creates a run, and returns the path of its page and that of its operations.
func newRun(t *testing.T, c *testkit.Client, in j) (page, api string) {
	t.Helper()
	id := c.Post(t, "/api/v1/production-runs", in).Want(201).ID()
	return "/runs/" + id, "/api/v1/production-runs/" + id
}

// postForms returns the addresses of the forms on a page that change something, apart from signing out.
func (p *page) postForms() (actions []string) {
	for _, form := range formTag.FindAllStringSubmatch(p.text, -1) {
		action, _ := attribute(form[1], "action")
		if method, _ := attribute(form[1], "method"); method == "post" && action != "/sign-out" {
			actions = append(actions, action)
		}
	}
	return actions
}

// number returns the number of a spool.
func number(t *testing.T, c *testkit.Client, spool string) string {
	t.Helper()
	return c.Get(t, "/api/v1/spools/"+spool).Want(200).Text("number")
}

// near ends the test unless the page shows the problem beside the input.
func (p *page) near(t *testing.T, input, problem string) *page {
	t.Helper()
	p.want(t, 422)
	_, rest, _ := strings.Cut(p.text, ` name="`+input+`"`)
	for {
		field, next, more := strings.Cut(rest, `<div class="field`)
		if strings.Contains(field, `<p class="error"`) && strings.Contains(field, problem) {
			return p
		}
		if _, rest, _ = strings.Cut(next, ` name="`+input+`"`); !more || rest == "" {
			t.Fatalf("%s: %s has no problem %q: %s", p.what, input, problem, p.words())
		}
	}
}

// A run that has ended is corrected: the form has the figures as they are, and sends those that the visitor changed.
func TestCorrectRun(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	c.Patch(t, "/api/v1/auth/me", j{"language": "en"}).Want(200)
	b.header.Set("Accept-Language", "de") // numbers and dates follow the browser
	first := c.NewSpool(t, 1000, j{"purchase_price": 20})
	second := c.NewSpool(t, 1000, j{"purchase_price": 30, "color": "Red"})
	third := c.NewSpool(t, 1000, j{"purchase_price": 40, "color": "Blue"})
	at, api := newRun(t, c, j{"items": []j{{"product_id": c.NewProduct(t, "Hook", 10), "quantity": 4},
		{"product_id": c.NewProduct(t, "Nail", 10), "quantity": 2}},
		"materials": []j{{"spool_id": first, "estimated_weight_grams": 50},
			{"spool_id": second, "estimated_weight_grams": 60}}})
	c.Post(t, api+"/complete", j{"started_at": "2026-01-05T10:00:00Z"}).Want(422)
	c.Patch(t, api, j{"started_at": "2026-01-05T10:00:00Z"}).Want(200)
	run := c.Get(t, api).Want(200)
	c.Post(t, api+"/complete", j{"completed_at": "2026-01-05T12:00:30Z", "materials": []j{
		{"id": run.Text("materials.0.id"), "actual_weight_grams": 50.5},
		{"id": run.Text("materials.1.id"), "actual_weight_grams": 60}},
		"items": []j{{"id": run.Text("items.0.id"), "successful_quantity": 4, "failed_quantity": 0},
			{"id": run.Text("items.1.id"), "successful_quantity": 2, "failed_quantity": 0}}}).Want(200)

	page := b.get(t, at).want(t, 200).shows(t, "Correct", "Reopen", "History What Who When Completed Before: Planned")
	form := page.form(t, at+"/correct")
	for name, want := range map[string]string{"materials[0].actual_weight_grams": "50,5",
		"materials[0].cost_per_gram": "0,02", "materials[0].to_spool_number": number(t, c, first),
		"materials[1].actual_weight_grams": "60", "items[0].successful_quantity": "4", "items[1].failed_quantity": "0",
		"started_at": "2026-01-05T10:00", "completed_at": "2026-01-05T12:00", "actual_print_time_hours": "2,008333"} {
		testkit.Equal(t, form.Get(name), want, "%s", name)
	}
	page.submit(t, at+"/correct", "reason", "x").want(t, 422).shows(t, "Nothing is different.")
	page.submit(t, at+"/correct", "materials[1].actual_weight_grams", "").
		near(t, "materials[1].actual_weight_grams", "Is required.")
	page.submit(t, at+"/correct", "materials[1].actual_weight_grams", "many").
		near(t, "materials[1].actual_weight_grams", "Must be a number")
	page.submit(t, at+"/correct", "materials[1].to_spool_number", "999").
		near(t, "materials[1].to_spool_number", "does not name a spool")
	page.submit(t, at+"/correct", "items[1].failed_quantity", "9").
		near(t, "items[1].successful_quantity", "not be more than quantity")
	page.submit(t, at+"/correct", "completed_at", "2026-01-05T09:00").near(t, "completed_at", "before started_at")

	// What another one has corrected meanwhile stays.
	c.Post(t, api+"/correct", j{"materials": []j{{"id": run.Text("materials.0.id"), "actual_weight_grams": 40}}}).
		Want(200)
	answer := page.submit(t, at+"/correct", "materials[1].actual_weight_grams", "70,5", "reason", "Weighed again",
		"materials[1].to_spool_number", "http://farm.example/s/"+number(t, c, third),
		"materials[1].cost_per_gram", "0,05", "items[1].successful_quantity", "1", "items[1].failed_quantity", "1").
		to(t, at)
	answer.shows(t, "Corrected Weighed again Before: Completed · 100", "PLA Red 60 g at 0,03 per gram",
		"Nail 2 good, 0 failed")
	c.Get(t, api).Shows(map[string]string{"materials.0.actual_weight_grams": "40", "materials.1.cost_per_gram": "0.05",
		"materials.1.actual_weight_grams": "70.5", "materials.1.spool_id": third, "items.1.failed_quantity": "1",
		"completed_at": "2026-01-05T12:00:30Z"})
	for spool, left := range map[string]string{first: "960", second: "1000", third: "929.5"} {
		c.Get(t, "/api/v1/spools/"+spool).Shows(map[string]string{"remaining_weight_grams": left})
	}
	answer.says(t, "The run is corrected.").take(t).to(t, at).says(t, "The run is corrected.").shows(t, "Taken back")
	c.Get(t, api).Shows(map[string]string{"materials.0.actual_weight_grams": "40", "materials.1.cost_per_gram": "0.03",
		"materials.1.actual_weight_grams": "60", "materials.1.spool_id": second, "items.1.failed_quantity": "0",
		"items.1.successful_quantity": "2"})
	b.get(t, at).submit(t, at+"/correct", "completed_at", "2026-01-05T13:00", "actual_print_time_hours", "2:30").
		to(t, at).
		says(t, "The run is corrected.").hides(t, "Undo")
	c.Get(t, api).Shows(map[string]string{"completed_at": "2026-01-05T13:00:00Z", "actual_print_time_hours": "2.5"})

	viewer := signIn(t, tenant.User(t, "viewer"))
	if forms := viewer.get(t, at).shows(t, "History").postForms(); forms != nil {
		t.Errorf("a viewer sees the forms %v", forms)
	}
}

// A run that was completed, reopened and failed has no good pieces, and can be planned again.
func TestFailedAfterCompleted(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	run := c.Post(t, "/api/v1/production-runs", j{"status": "in_progress", "items": []j{{
		"product_id": c.NewProduct(t, "Hook", 10), "quantity": 4}}, "materials": []j{{
		"spool_id": c.NewSpool(t, 1000, nil), "actual_weight_grams": 40}}}).Want(201)
	at := "/api/v1/production-runs/" + run.ID()
	c.Post(t, at+"/complete", j{"items": []j{{"id": run.Text("items.0.id"), "successful_quantity": 4}}}).Want(200)
	b.get(t, "/runs/"+run.ID()).shows(t, "Product Hook 4 4").hides(t, "Product Hook 4 0 4")
	c.Post(t, at+"/reopen", j{"reason": "Not done"}).Want(200)
	c.Post(t, at+"/fail", j{"reason": "warping"}).Want(200)
	page := b.get(t, "/runs/"+run.ID()).shows(t, "Product Hook 4 0 4")
	if !strings.Contains(page.text, "/replan") {
		t.Errorf("the run cannot be planned again: %s", page.words())
	}
}

// A run that has ended is reopened, unless its printer prints something else.
func TestReopenRun(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	spool := c.NewSpool(t, 1000, nil)
	printer := c.Post(t, "/api/v1/printers", j{"name": "MK4"}).Want(201).ID()
	at, api := newRun(t, c, j{"printer_id": printer, "materials": []j{{"spool_id": spool,
		"estimated_weight_grams": 50}}})
	other, otherAPI := newRun(t, c, j{"printer_id": printer})
	c.Post(t, api+"/start", nil).Want(200)
	c.Post(t, api+"/fail", j{"reason": "other", "materials": []j{{"id": c.Get(t, api).Text("materials.0.id"),
		"wasted_grams": 20}}}).Want(200)
	c.Post(t, otherAPI+"/start", nil).Want(200)
	page := b.get(t, at).want(t, 200)
	page.submit(t, at+"/edit", "failure_reason", "power_failure", "notes", "Storm").to(t, at).
		shows(t, "Failed: power failure", "Storm")
	page.submit(t, at+"/edit", "notes", strings.Repeat("x", 10001)).near(t, "notes", "at most 10000 characters")
	refused := page.submit(t, at+"/reopen", "reason", "Still printing").want(t, 422).
		shows(t, "MK4 is printing another run.")
	c.Post(t, otherAPI+"/cancel", nil).Want(200)
	refused.submit(t, at+"/reopen").to(t, at).shows(t, "Printing", "Reopened Still printing Before: Failed",
		"20 g").hides(t, "Correct ")
	c.Get(t, "/api/v1/spools/"+spool).Shows(map[string]string{"remaining_weight_grams": "1000"})
	b.get(t, other).shows(t, "Cancelled")
}

// The page of a run that has not ended changes its printer, times, notes, items and spools.
func TestChangeRun(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	printer := c.Post(t, "/api/v1/printers", j{"name": "MK4"}).Want(201).ID()
	product := c.NewProduct(t, "Hook", 10)
	first, second := c.NewSpool(t, 100, nil), c.NewSpool(t, 1000, nil)
	at, api := newRun(t, c, j{})

	// What is to be done first can be done there.
	page := b.get(t, at).want(t, 200).shows(t, "First", "Choose a printer for the run")
	page.submit(t, at+"/materials", "spool_number", "").near(t, "spool_number", "Is required.")
	page.submit(t, at+"/materials", "spool_number", "999").near(t, "spool_number", "does not name a spool")
	page.submit(t, at+"/materials", "spool_number", number(t, c, first), "estimated_weight_grams", "x").
		near(t, "estimated_weight_grams", "Must be a number")
	page.submit(t, at+"/materials", "spool_number", "#"+number(t, c, first), "estimated_weight_grams", "80,5").
		to(t, at).shows(t, "#"+number(t, c, first)+" PLA Black", "80.5 g")
	page.submit(t, at+"/edit", "printer_id", printer, "estimated_print_time_hours", "1:30", "notes", "Slowly").to(t, at).
		shows(t, "MK4", "1 h 30 min estimated", "Slowly").hides(t, "Choose a printer")
	b.get(t, at).submit(t, at+"/edit", "estimated_print_time_hours", "long").
		near(t, "estimated_print_time_hours", "Must be a number")

	// Items.
	page = b.get(t, at)
	page.submit(t, at+"/items", "product_id", "").near(t, "product_id", "Is required.")
	page.submit(t, at+"/items", "product_id", product, "quantity", "2").to(t, at).shows(t, "Product Hook", "2")
	item := c.Get(t, api).Text("items.0.id")
	page = b.get(t, at)
	page.submit(t, at+"/items/"+item, "quantity", "0").near(t, "quantity", "Must be greater than 0")
	page.submit(t, at+"/items/"+item, "quantity", "").near(t, "quantity", "Is required.")
	page.submit(t, at+"/items/"+item, "quantity", "3").to(t, at)
	c.Get(t, api).Shows(map[string]string{"items.0.quantity": "3"})
	b.get(t, at).submit(t, at+"/items/"+item+"/remove").to(t, at).hides(t, "Change the pieces")

	// The next spool.
	c.Post(t, api+"/start", nil).Want(200)
	material := c.Get(t, api).Text("materials.0.id")
	exchange := at + "/materials/" + material + "/exchange"
	page = b.get(t, at)
	page.submit(t, exchange, "spool_number", number(t, c, first)).near(t, "spool_number", "is the spool of the material")
	page.submit(t, exchange, "spool_number", "").near(t, "spool_number", "Is required.")
	page.submit(t, exchange, "spool_number", number(t, c, second), "used_grams", "5", "until_empty", "true").
		near(t, "used_grams", "Leave it empty")
	page.submit(t, exchange, "spool_number", number(t, c, second), "used_grams", "30,5").to(t, at).
		shows(t, "30.5 g", "until", "Spool exchanged")
	c.Get(t, api).Shows(map[string]string{"materials.0.actual_weight_grams": "30.5", "materials.1.spool_id": second,
		"materials.1.estimated_weight_grams": "50"})
	next := c.Get(t, api).Text("materials.1.id")
	b.get(t, at).submit(t, at+"/materials/"+next+"/exchange", "spool_number", number(t, c, first), "until_empty", "true").
		to(t, at)
	c.Get(t, api).Shows(map[string]string{"materials.1.actual_weight_grams": "1000"})
	last := c.Get(t, api).Text("materials.2.id")
	b.get(t, at).submit(t, at+"/materials/"+last+"/remove").to(t, at)
	testkit.Lacks(t, string(c.Get(t, api).Want(200).Body), last, "the spool is still there")

	// An edit during the print: reports of printers change the run, but not its start.
	page = b.get(t, at)
	c.Patch(t, api, j{"estimated_total_filament_grams": 70}).Want(200)
	page.submit(t, at+"/edit", "started_at", "2026-01-05T10:00").to(t, at)
	c.Get(t, api).Shows(map[string]string{"started_at": "2026-01-05T10:00:00Z"})

	viewer := signIn(t, tenant.User(t, "viewer"))
	if forms := viewer.get(t, at).shows(t, "Spools").postForms(); forms != nil {
		t.Errorf("a viewer sees the forms %v", forms)
	}
}
