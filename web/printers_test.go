package web_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// A printer is added, loaded by number, by the scanned label and from the page of the spool, maintained and removed.
// Its queue shows what it prints, and a run moves forward in it.
func TestPrinterPages(t *testing.T) {
	t.Parallel()
	testkit.AwayFromMidnight(t)
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	b := signIn(t, c)
	b.get(t, "/printers").want(t, 200).shows(t, "There are no printers yet.")
	b.get(t, "/queue").want(t, 200).shows(t, "No run waits for a printer.")
	refused := b.get(t, "/printers/new").submit(t, "/printers/new", "name", "MK4", "materials", "PLA, Wood").want(t, 422)
	refused.shows(t, "Must have entries of PLA")
	at := refused.submit(t, "/printers/new", "materials", "PLA, PETG", "slots", "2", "model", "Prusa",
		"maintenance_interval_hours", "100").want(t, 303).header.Get("Location")
	id := strings.TrimPrefix(at, "/printers/")
	b.get(t, at).want(t, 200).shows(t, "MK4", "Prusa", "PLA, PETG", "No run waits for this printer.")
	b.get(t, at+"/edit").submit(t, at+"/edit", "materials", "").to(t, at).shows(t, "Materials All")

	red := c.NewSpool(t, 500, j{"color": "Red", "location": "Shelf"})
	blue := c.NewSpool(t, 600, j{"color": "Blue"})
	number := c.Get(t, "/api/v1/spools/"+red).Text("number")
	for _, wrong := range []string{"", "999", "x"} {
		b.get(t, at).submit(t, at+"/slots/1", "spool_number", wrong).want(t, 422).
			form(t, at+"/slots/1")
	}
	b.get(t, at).submit(t, at+"/slots/1", "spool_number", "#"+number).to(t, at).shows(t, "#"+number+" PLA Red 500 g")
	b.get(t, at).submit(t, at+"/slots/2", "spool_number", "http://farm.example/s/"+number).to(t, at).
		shows(t, "2 #"+number+" PLA Red 500 g")
	b.get(t, "/spools/"+red).shows(t, "Location MK4", "Loaded into MK4, slot 2")
	b.get(t, at).submit(t, at+"/slots/2").to(t, at).hides(t, "#"+number+" PLA Red")
	b.do(t, "POST", at+"/slots/x%2Fy", url.Values{"spool_number": {number}}).want(t, 404)

	load := "/spools/" + blue + "/load"
	b.get(t, "/spools/"+blue).submit(t, load, "slot", id+" 2").to(t, "/spools/"+blue).shows(t, "Loaded into MK4, slot 2")
	b.get(t, "/spools/"+red).submit(t, "/spools/"+red+"/load", "slot", "").want(t, 422).shows(t, "Choose a printer.")
	b.get(t, "/spools/"+red).submit(t, "/spools/"+red+"/load", "find", "slot").want(t, 200).
		shows(t, "MK4, slot 2 #2 PLA Blue", "MK4, slot 1 empty")
	b.get(t, "/").shows(t, "Free: MK4")
	b.get(t, "/spools/"+blue).submit(t, load, "slot", "").to(t, "/spools/"+blue).hides(t, "Loaded into")

	product := c.NewProduct(t, "Hook", 10)
	var runs []string
	for _, pieces := range []int{1, 2, 3} {
		runs = append(runs, c.Post(t, "/api/v1/production-runs", j{"printer_id": id, "estimated_print_time_hours": 2,
			"items": []j{{"product_id": product, "quantity": pieces}}}).Want(201).ID())
	}
	order := func(want string) {
		t.Helper()
		b.get(t, "/queue").shows(t, "MK4")
		got, queue := "", c.Get(t, "/api/v1/queue?printer_id="+id).Want(200)
		for i := range 3 {
			got += queue.Text(fmt.Sprintf("runs.%d.items.0.quantity", i))
		}
		testkit.Equal(t, got, want, "the order")
	}
	order("123")
	queue := b.get(t, "/queue").shows(t, "1 × Product Hook", "3 × Product Hook")
	for range 2 { // a form that is sent twice moves the run once
		queue.submit(t, "/runs/"+runs[2]+"/earlier").to(t, "/queue")
		order("132")
	}
	queue = b.get(t, "/queue")
	queue.submit(t, "/runs/"+runs[2]+"/earlier").to(t, "/queue")
	order("312")
	first := "/runs/" + runs[2] + "/earlier"
	testkit.Lacks(t, b.get(t, "/queue").text, first, "the first run has a button that would not move it")
	queue.submit(t, "/runs/"+runs[2]+"/start").to(t, "/runs/"+runs[2]).shows(t, "Printing")
	testkit.Lacks(t, queue.submit(t, first).to(t, "/queue").text, "/runs/"+runs[0]+"/earlier",
		"the run after the one that prints has a button that would not move it")
	order("312")
	ended := "/runs/" + c.Post(t, "/api/v1/production-runs", j{"printer_id": id}).Want(201).ID()
	queue = b.get(t, "/queue")
	c.Post(t, "/api/v1/production-runs"+strings.TrimPrefix(ended, "/runs")+"/cancel", nil).Want(200)
	queue.submit(t, ended+"/earlier").want(t, 422).shows(t, "MK4", "3 × Product Hook", "cannot be moved")
	b.get(t, "/printers").shows(t, "MK4", "3 × Product Hook", "until")
	b.get(t, at).shows(t, "3 × Product Hook until", "Confirm")
	b.get(t, "/").shows(t, "Hook MK4 until").hides(t, "Free")

	b.get(t, at+"/edit").submit(t, at+"/edit", "status", "maintenance").to(t, at).shows(t, "Maintenance")
	form := b.get(t, at).form(t, at+"/maintained")
	for range 2 {
		b.do(t, "POST", at+"/maintained", form).to(t, at).shows(t, "Maintained today").hides(t, "In maintenance")
	}
	b.get(t, at+"/edit").submit(t, at+"/remove").to(t, "/printers").hides(t, "MK4")
	b.get(t, at).want(t, 404)
}

// The page of a watched printer shows what it does, and asks which run its print is.
func TestWatchedPrinterPage(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	id := c.Post(t, "/api/v1/printers", j{"name": "MK4"}).Want(201).ID()
	at := "/printers/" + id
	b.get(t, at).hides(t, "Which run is")
	run := c.Post(t, "/api/v1/production-runs", j{"printer_id": id, "notes": "hook.gcode"}).Want(201).ID()
	c.Post(t, "/api/v1/printer-states", j{"states": []j{{"printer_id": id, "sequence": 1, "state": "printing",
		"message": "Layer <3>", "job": j{"id": "1", "file": "hook.gcode", "adopted": true}}}}).Want(200)
	b.get(t, at).shows(t, "Which run?", "hook.gcode", "Layer <3>", "Which run is hook.gcode?", "What happened Printing")
	today := b.get(t, "/").shows(t, "MK4 Which run?",
		"Layer <3> Which run is hook.gcode? hook.gcode A new run None: a test").
		hides(t, "No run waits for you.", "Free")
	for n := range 60 {
		c.Post(t, "/api/v1/printers", j{"name": fmt.Sprint("Before ", n)}).Want(201)
	}
	b.get(t, "/printers").shows(t, "MK4 Which run? Layer <3>", "Before")
	today.submit(t, at+"/answer", "answer", run).to(t, "/").shows(t, "The print has its answer.")
	b.get(t, at).hides(t, "Which run is")
	today.submit(t, at+"/answer", "answer", run).want(t, 422).shows(t, "No question about this job is open")
	c.Get(t, "/api/v1/production-runs/"+run).Want(200).Shows(map[string]string{"status": "in_progress"})
	b.get(t, "/").shows(t, "No run waits for you.")
	c.Post(t, "/api/v1/printer-states", j{"states": []j{{"printer_id": id, "sequence": 2, "state": "attention",
		"message": "The filament ran out.", "job": j{"id": "1", "progress": 0.42}}}}).Want(200)
	b.get(t, "/").shows(t, "MK4 Needs you", "The filament ran out.")
	text := b.get(t, "/printers").shows(t, "MK4 Needs you Without a product The filament ran out. 42 %").text
	b.get(t, "/runs/"+run).hides(t, "42 % by the printer")
	c.Post(t, "/api/v1/printer-states/lease", j{"watcher": "w", "printer_ids": []string{id}}).Want(200)
	for _, page := range []string{"/", "/runs", "/runs/" + run, at} {
		if p := b.get(t, page); !strings.Contains(p.text, "42 % by the printer") {
			t.Errorf("%s does not show the progress: %s", page, p.words())
		}
	}
	if !strings.Contains(text, "42 % by the printer") || strings.Index(text, "MK4") > strings.Index(text, ">Before 0<") {
		t.Errorf("the list is %s", text)
	}
	c.Post(t, "/api/v1/printer-states", j{"states": []j{{"printer_id": id, "sequence": 3, "state": "attention",
		"job": j{"id": "1", "outcome": "failed", "reason": "Power loss", "elapsed_seconds": 600}}}}).Want(200)
	b.get(t, "/").submit(t, "/runs/"+run+"/confirm").to(t, "/runs/"+run+"?open=fail").
		shows(t, "The printer says that the run has failed: confirm it here.")
	c.Get(t, "/api/v1/production-runs/"+run).Want(200).Shows(map[string]string{"status": "in_progress"})
}

// The page of a watched printer shows what the printer says is in its slots, and proposes the spools that this may be.
func TestSlotsOfWatchedPrinter(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Operator(t)
	b := signIn(t, c)
	id := c.Post(t, "/api/v1/printers", j{"name": "X1C", "slots": 4}).Want(201).ID()
	at := "/printers/" + id
	first := c.NewSpool(t, 900, j{"material_type": "PLA", "color": "Black"})
	c.NewSpool(t, 800, j{"material_type": "PETG", "color": "Green"})
	c.Do(t, "PUT", "/api/v1"+at+"/slots/1", j{"spool_id": first}).Want(200)
	c.Post(t, "/api/v1/printer-states", j{"states": []j{{"printer_id": id, "sequence": 1, "state": "idle", "slots": []j{
		{"slot": "A1", "material": "ASA", "color": "#112233"}, {"slot": "A2", "material": "PETG", "remaining_percent": 80},
		{"slot": "A3", "material": "PLA", "empty": true}, {"slot": "HT1", "material": "TPU"}}}}}).Want(200)
	page := b.get(t, at).shows(t, "1 ASA by the printer #1 PLA Black The printer says ASA", "2 PETG 80 % by the printer",
		"#2 PETG Green").hides(t, "TPU")
	testkit.Equal(t, strings.Count(page.text, "Which spool is it?"), 1, "questions")
	b.get(t, "/").shows(t, "Unknown spools in: X1C (A2)")
	page.submit(t, at+"/slots/2", "spool_number", "2").to(t, at).shows(t, "The spool is loaded into slot 2.").
		hides(t, "Which spool is it?")
	b.get(t, "/").hides(t, "Unknown spools")
	c.Get(t, "/api/v1"+at).Want(200).Shows(map[string]string{"loaded.1.slot": "2", "loaded.1.spool_number": "2"})
}
