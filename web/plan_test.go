package web_test

import (
	"fmt"
	"html"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

// The printer, the spools and the pieces of each run of a plan can be changed before the plan is created, and runs are
// moved and left out. What does not fit is said beside the field, and what was typed stays.
func TestPlanChangedByHand(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	one := c.Post(t, "/api/v1/printers", j{"name": "Alpha"}).Want(201).ID()
	two := c.Post(t, "/api/v1/printers", j{"name": "Beta", "materials": []string{"ABS"}}).Want(201).ID()
	spool := func(color string) string {
		return c.Post(t, "/api/v1/spools", j{"material_type": "PLA", "color": color, "diameter_mm": 1.75,
			"net_weight_grams": 1000}).Want(201).Text("number")
	}
	_, second, red := spool("Black"), spool("Black"), spool("Red")
	product := c.Post(t, "/api/v1/products", j{"name": "Foot", "pieces_per_plate": 2, "estimated_print_time_minutes": 60,
		"materials": []j{{"material_type": "PLA", "color": "Black", "weight_grams": 10}}}).Want(201).ID()
	id := c.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": product, "quantity": 5}}}).Want(201).ID()
	at := "/orders/" + id + "/plan"
	runs := func() *testkit.Response {
		return c.Get(t, "/api/v1/production-runs?sort_by=created_at&sort_order=asc&expand=items").Want(200)
	}

	page := b.get(t, at).want(t, 200).shows(t, "3 runs", "2 × Foot", "Alpha", "#1", "5 × Foot")
	testkit.Equal(t, strings.Count(page.text, "<foreignObject"), 1, "bars of equal runs")
	form := page.form(t, at)
	form["runs[0].printer_id"], form["runs[1].materials[0].spool_id"] = []string{two}, []string{red}
	form["runs[2].quantity"] = []string{"9"}
	refused := b.do(t, "POST", at, form).want(t, 422).shows(t, "Must be an available printer", "Must be a spool in stock",
		"Must be at most 2")
	if kept := refused.form(t, at); kept.Get("runs[0].printer_id") != two || kept.Get("runs[2].quantity") != "9" {
		t.Errorf("the form lost what was typed: %v", kept)
	}
	testkit.Equal(t, runs().Text("total"), "0", "runs after refused changes")

	form = refused.form(t, at)
	form["runs[0].printer_id"], form["runs[1].materials[0].spool_id"] = []string{one}, []string{second}
	form["runs[0].quantity"], form["runs[2].quantity"] = []string{"0"}, []string{"1"}
	form["earlier"] = []string{"2"}
	moved := b.do(t, "POST", at, form).want(t, 200).shows(t, "2 runs", "Left out of this plan.", "#"+second)
	testkit.Equal(t, runs().Text("total"), "0", "runs after a move")
	form = moved.form(t, at)
	testkit.Equal(t, form.Get("runs[0].quantity")+form.Get("runs[1].quantity"), "12", "the pieces after the move")
	b.do(t, "POST", at, form).to(t, "/orders/"+id)
	runs().Shows(map[string]string{"total": "2", "items.0.items.0.quantity": "1", "items.1.items.0.quantity": "2"})
	b.get(t, "/queue").shows(t, "3 × Foot", "2 × Foot", "1 × Foot")

	form = b.get(t, at).shows(t, "1 run", "2 × Foot").form(t, at)
	form["runs[0].quantity"] = []string{"0"}
	b.do(t, "POST", at, form).want(t, 422).shows(t, "Every run is left out.")
	form["runs[0].quantity"] = []string{"2"}
	form["find.printers.runs[0].printer_id"], form["find"] = []string{"bet"}, []string{"runs[0].printer_id"}
	if found := b.do(t, "POST", at, form); !strings.Contains(found.text, two) {
		t.Errorf("the search for a printer does not find it: %s", found.words())
	}
}

// A plan with many runs of one piece asks how many pieces of the product fit on a plate, saves the number with the
// product, and plans again. Undo removes the number.
func TestPlanAsksForPlates(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	c.Post(t, "/api/v1/printers", j{"name": "Alpha"}).Want(201)
	c.Post(t, "/api/v1/spools", j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75,
		"net_weight_grams": 1000}).Want(201)
	product := func(name string, plate any) string {
		return c.Post(t, "/api/v1/products", j{"name": name, "pieces_per_plate": plate, "materials": []j{{
			"material_type": "PLA", "color": "Black", "weight_grams": 1}}}).Want(201).ID()
	}
	big, foot := product("Vase", 1), product("Foot "+hostile, nil)
	order := func(pieces int) string {
		return "/orders/" + c.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": big, "quantity": 4},
			{"product_id": foot, "quantity": pieces}}}).Want(201).ID() + "/plan"
	}
	const question = "How many pieces of"
	if p := b.get(t, order(3)).want(t, 200).shows(t, "7 runs"); strings.Contains(p.text, question) {
		t.Errorf("the page asks for the plates of few runs: %s", p.words())
	}
	at := order(14)
	plate := strings.Replace(at, "/plan", "/plates/"+foot, 1)
	page := b.get(t, at).want(t, 200).shows(t, "18 runs", question+" Foot "+hostile+" fit on a plate?")
	form := page.form(t, plate)
	form["pieces_per_plate"] = []string{"0"}
	form = b.do(t, "POST", plate, form).want(t, 422).shows(t, "18 runs", question, "Must be at least 1").form(t, plate)
	form["pieces_per_plate"] = []string{"7"}
	stale := maps.Clone(form)
	planned := b.do(t, "POST", plate, form).to(t, at).shows(t, "The plate is changed.", "6 runs", "7 × Foot")
	if strings.Contains(planned.text, question) {
		t.Errorf("the page asks for plates that it knows: %s", planned.words())
	}
	stale["pieces_per_plate"], stale["once"] = []string{"5"}, nil
	b.do(t, "POST", plate, stale).want(t, 422).shows(t, "Somebody else changed this in the meantime.")
	b.do(t, "POST", plate, planned.form(t, plate)).to(t, at).shows(t, "18 runs", question)

	// A variant has the number of its product.
	c.Post(t, "/api/v1/spools", j{"material_type": "PLA", "color": "Red", "diameter_mm": 1.75,
		"net_weight_grams": 1000}).Want(201)
	red := c.Post(t, "/api/v1/products/"+foot+"/variants", j{"variants": []j{{"color": "Red"}}}).Want(201).
		Text("items.0.id")
	at = "/orders/" + c.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": red, "quantity": 10}}}).Want(201).ID() +
		"/plan"
	plate = strings.Replace(at, "/plan", "/plates/"+foot, 1)
	form = b.get(t, at).want(t, 200).shows(t, "10 runs", question).form(t, plate)
	form["pieces_per_plate"] = []string{"5"}
	form = b.do(t, "POST", plate, form).to(t, at).shows(t, "2 runs").form(t, plate)
	b.do(t, "POST", plate, form).to(t, at).shows(t, "10 runs")
	c.Get(t, "/api/v1/products/"+foot).Want(200).Shows(map[string]string{"pieces_per_plate": "null"})
}

// The spools of a changed plan are numbers or codes of labels, and a problem stands beside the spool that has it, also
// after an emptied one. A form with many changes takes at most ten round trips, and goes on when it is sent again.
func TestPlanChangedSpools(t *testing.T) {
	t.Parallel()
	d, trips := testkit.CountTrips(t)
	c := newAPI(t, testkit.Options{DB: d}).Operator(t)
	b := signIn(t, c)
	for i := range 6 {
		c.Post(t, "/api/v1/printers", j{"name": fmt.Sprint("P", i), "slots": 2}).Want(201)
	}
	spare := c.Post(t, "/api/v1/printers", j{"name": "Spare", "materials": []string{"ABS"}}).Want(201).ID()
	var black []string
	for range 12 {
		black = append(black, c.Post(t, "/api/v1/spools", j{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75,
			"net_weight_grams": 1000}).Want(201).Text("number"))
	}
	colored := func(color string) string {
		return c.Post(t, "/api/v1/spools", j{"material_type": "PLA", "color": color, "diameter_mm": 1.75,
			"net_weight_grams": 1000}).Want(201).Text("number")
	}
	red, blue := colored("Red"), colored("Blue")
	product := c.Post(t, "/api/v1/products", j{"name": "Foot", "pieces_per_plate": 1, "estimated_print_time_minutes": 60,
		"materials": []j{{"material_type": "PLA", "color": "Black", "weight_grams": 10},
			{"material_type": "PLA", "color": "Red", "weight_grams": 10}}}).Want(201).ID()
	id := c.Post(t, "/api/v1/orders", j{"items": []j{{"product_id": product, "quantity": 6}}}).Want(201).ID()
	at := "/orders/" + id + "/plan"
	field := func(run, material int) string { return fmt.Sprintf("runs[%d].materials[%d].spool_id", run, material) }
	wrong := func(p *page, name string) bool { return strings.Contains(p.text, name+`" aria-invalid="true"`) }

	form := b.get(t, at).want(t, 200).shows(t, "6 runs").form(t, at)
	form[field(0, 0)], form[field(0, 1)] = []string{""}, []string{"99"}
	b.do(t, "POST", at, form).want(t, 422).shows(t, "Nothing matches")
	form[field(0, 1)] = []string{blue}
	form[field(1, 0)], form[field(1, 1)] = []string{""}, []string{"/s/" + red}
	form[field(2, 0)], form[field(3, 0)] = []string{black[6]}, []string{black[7]}
	printer := form["runs[4].printer_id"]
	form["runs[4].printer_id"] = []string{spare}
	trips.Store(0)
	refused := b.do(t, "POST", at, form).want(t, 422).shows(t, "Must be a spool in stock", "Spare")
	if n := trips.Load(); n > 10 {
		t.Errorf("a plan that the API refuses took %d round trips", n)
	}
	if wrong(refused, field(0, 0)) || !wrong(refused, field(0, 1)) || wrong(refused, field(1, 1)) {
		t.Errorf("the problem is not beside the spool that has it: %s", refused.words())
	}

	form = refused.form(t, at)
	form[field(0, 1)], form["runs[4].printer_id"] = []string{red}, printer
	for i := 2; i < 6; i++ {
		form[field(i, 0)] = []string{"#" + black[i+6]}
	}
	trips.Store(0)
	refused = b.do(t, "POST", at, form).want(t, 422).shows(t, "Search for it alone.")
	if n := trips.Load(); n > 10 {
		t.Errorf("a changed plan took %d round trips", n)
	}
	b.do(t, "POST", at, refused.form(t, at)).to(t, "/orders/"+id)
	c.Get(t, "/api/v1/production-runs").Want(200).Shows(map[string]string{"total": "6"})

	for i := range 501 {
		form[fmt.Sprintf("runs[%d].product_id", i)] = []string{product}
	}
	b.do(t, "POST", at, form).want(t, 422)
}

// The timeline of the queue marks the due dates of the orders of each printer's runs. It and the list say which runs
// end later.
func TestQueueShowsDueDates(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	product := c.NewProduct(t, "Hook", 10)
	printers := []string{c.Post(t, "/api/v1/printers", j{"name": "Alpha"}).Want(201).ID(),
		c.Post(t, "/api/v1/printers", j{"name": "Beta"}).Want(201).ID()}
	run := func(printer, hours int, customer string, due any) {
		order := c.Post(t, "/api/v1/orders", j{"customer": customer, "due_date": due,
			"items": []j{{"product_id": product, "quantity": 1}}}).Want(201)
		c.Post(t, "/api/v1/production-runs", j{"printer_id": printers[printer], "estimated_print_time_hours": hours,
			"items": []j{{"product_id": product, "quantity": 1, "order_item_id": order.Text("items.0.id")}}}).Want(201)
	}
	soon := time.Now().AddDate(0, 0, 1).UTC().Format(time.DateOnly)
	run(0, 1, "Ada", soon)
	run(0, 70, hostile, soon)
	run(0, 1, "None", nil)
	run(1, 1, "Late", "2020-01-02")
	run(1, 1, "Far", "2040-01-02")
	page := b.get(t, "/queue").want(t, 200)
	var marks []string
	for _, m := range regexp.MustCompile(`<line class="due"[^>]*><title>([^<]*)`).FindAllStringSubmatch(page.text, -1) {
		marks = append(marks, html.UnescapeString(m[1]))
	}
	testkit.Equal(t, strings.Join(marks, "\n"), "due "+soon+" · Ada · "+hostile, "the marks")
	for _, bar := range []string{"3 × Product Hook", "2 × Product Hook"} {
		if !strings.Contains(page.text, `<span class="late">`+bar) {
			t.Errorf("the bar of %s is not late", bar)
		}
	}
	testkit.Equal(t, strings.Count(page.text, `class="late">due`), 2, "late runs")
	page.shows(t, "due "+soon, "due 2020-01-02", "due 2040-01-02")

	// A bar is late only if one of its runs is: a run without a date may end later. Orders that have ended are not due.
	c.Post(t, "/api/v1/orders/"+c.Get(t, "/api/v1/orders?search=Late").Want(200).Text("items.0.id")+"/cancel", nil).
		Want(200)
	printers = append(printers, c.Post(t, "/api/v1/printers", j{"name": "Gamma"}).Want(201).ID())
	run(2, 1, "Eve", soon)
	run(2, 70, "None", nil)
	page = b.get(t, "/queue").want(t, 200).hides(t, "2020-01-02")
	testkit.Equal(t, strings.Count(page.text, `<span>2 × Product Hook`), 2, "bars of runs that end in time")

	// Of many orders, those that are due first are named, not the oldest ones.
	var items []j
	for _, due := range []string{"2043-01-02", "2042-01-02", "2041-01-02", "2039-01-02"} {
		order := c.Post(t, "/api/v1/orders", j{"due_date": due, "items": []j{{"product_id": product, "quantity": 1}}})
		items = append(items, j{"product_id": product, "quantity": 1, "order_item_id": order.Want(201).Text("items.0.id")})
	}
	c.Post(t, "/api/v1/production-runs", j{"printer_id": printers[2], "items": items}).Want(201)
	b.get(t, "/queue").shows(t, "due 2039-01-02")
}
