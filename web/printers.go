package web

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"spoolwright/db"
	"spoolwright/server"
)

// printer is a printer, as the API returns it, with its unfinished runs.
type printer struct {
	ID, Name, Model, Location, Notes, Status string

	Number     int64
	Nozzle     num `json:"nozzle_mm"`
	Slots      int
	Materials  []string
	HourCost   num        `json:"hour_cost"`
	Power      num        `json:"power_watts"`
	Interval   num        `json:"maintenance_interval_hours"`
	Maintained *time.Time `json:"maintained_at"`
	Hours      num        `json:"printed_hours"`
	Due        bool       `json:"maintenance_due"`
	Loaded     []loaded
	Runs       []queuedRun `json:"-"` // in its queue
	Run        *run        `json:"-"` // that it prints, on Today
}

// loaded is a spool in a slot of a printer.
type loaded struct {
	Slot      int
	ID        string `json:"spool_id"`
	Number    int64  `json:"spool_number"`
	Name      string
	Remaining num `json:"remaining_grams"`
}

// State returns the status in words, unless the printer is ready.
func (p printer) State() string {
	if p.Status == "available" {
		return ""
	}
	return label(p.Status)
}

// Kind returns the model and the location.
func (p printer) Kind() string { return strings.Trim(p.Model+" · "+p.Location, " ·") }

// Now returns the run that the printer prints, or nil.
func (p printer) Now() *queuedRun {
	if len(p.Runs) > 0 && p.Runs[0].Status != "pending" {
		return &p.Runs[0]
	}
	return nil
}

// slot is a slot of a printer, with the spool that is loaded into it, or nil.
type slot struct {
	Number int
	Spool  *loaded
}

// All returns all slots.
func (p printer) All() []slot {
	slots := make([]slot, p.Slots)
	for i := range slots {
		slots[i].Number = i + 1
	}
	for i, l := range p.Loaded {
		slots[l.Slot-1].Spool = &p.Loaded[i]
	}
	return slots
}

var printerStates = []option{{"available", "Available"}, {"maintenance", "In maintenance"}, {"retired", "Retired"}}

var printerList = &listOf[printer]{editor: printers, Title: "Printers", Class: "fixed", Add: "Add a printer",
	Empty: "There are no printers yet. A printer has slots for spools and a queue of runs.",
	First: "Add the first printer", Other: option{"/queue", "Queue"},
	filters: []filter{searchFilter,
		{"status", "status", "Status", append([]option{{"", "Any status"}}, printerStates...)}},
	orders: []listOrder{{"", "Name", "name", "asc"}, {"newest", "Newest first", "created_at", "desc"}},
	fetch: func(v *visit, entries read, printers *[]printer) error {
		var q queue
		err := v.fetch(entries, get("/api/v1/queue", &q))
		for i, p := range *printers {
			(*printers)[i].Runs = q.of(p.ID)
		}
		return err
	},
	Head: `<th>Printer</th><th>Prints</th><th class="wide">Loaded</th><th class="amount wide">Hours</th>`,
	row: func(v *visit, r *rows, p *printer) {
		r.add(`<tr><td><a class="title" href="/printers/{}"><b>{}</b></a>`, p.ID, p.Name)
		r.some(`<small>{}</small>`, p.Kind())
		r.some(`<span class="tag">{}</span>`, p.State())
		r.when(p.Due, ` <span class="tag late">Maintenance due</span>`)
		if run := p.Now(); run != nil {
			r.add(`</td><td><a href="/runs/{}">{}</a><small>{}</small>`, run.ID, run.Name(),
				v.Until(run.Status, run.Start, run.PrintsUntil()))
		} else {
			r.add(`</td><td><span class="muted">–</span>`)
		}
		r.add(`</td><td class="wide">`)
		for _, l := range p.Loaded {
			r.add(`<small><a href="/spools/{}">#{}</a> {}, {}</small>`, l.ID, strconv.FormatInt(l.Number, 10), l.Name,
				v.Grams(l.Remaining))
		}
		r.when(len(p.Loaded) == 0, `<span class="muted">–</span>`)
		r.add(`</td><td class="amount wide">{}</td></tr>`+"\n", v.Number(p.Hours, 0))
	}}

var printers = &editor{api: "/api/v1/printers", path: "/printers", noun: "printer",
	name: func(get func(string) string) string { return get("name") },
	fields: []editorField{
		{field{"name", text}, "Name", "required", nil},
		{field{"model", text}, "Model", "", nil},
		{field{"location", text}, "Location", "", nil},
		{field{"status", text}, "Status", "", printerStates},
		{field{"slots", number}, "Slots for spools", "type=number;hint=1 if empty", nil},
		{field{"materials", set}, "Materials", "hint=Such as PLA, PETG. Empty: all", nil},
		{field{"nozzle_mm", number}, "Nozzle", "type=number;unit=mm", nil},
		{field{"maintenance_interval_hours", number}, "Maintenance after", "type=number;unit=hours", nil},
		{field{"hour_cost", number}, "Cost of an hour", "type=number;unit=$currency", nil},
		{field{"power_watts", number}, "Power", "type=number;unit=W", nil},
		{field{"notes", text}, "Notes", "rows=3", nil},
	}}

// printerPage is the page of a printer.
type printerPage struct {
	forms   // of slots, by their numbers
	Printer printer
	Queue   queue
	Ended   struct{ Items []run }
	Spools  []option // that can be loaded
}

// Load returns the input for the spool of a slot.
func (p *printerPage) Load(number int) input {
	return newInput(p.Form(strconv.Itoa(number)), "spool_number", "Spool", "list=spools")
}

func showPrinter(v *visit) error { return v.printerPage(200, "", nil) }

func (v *visit) printerPage(status int, name string, f *form) error {
	p := &printerPage{forms: v.forms(name, f)}
	var stock struct{ Items []spool }
	if err := v.fetch(
		get("/api/v1/printers/{id}", &p.Printer),
		get("/api/v1/queue?printer_id={id}", &p.Queue),
		get("/api/v1/production-runs?printer_id={id}&status=completed,failed,cancelled&limit=10", &p.Ended),
		get(spoolsInStock, &stock),
	); err != nil {
		return err
	}
	p.Printer.Runs = p.Queue.of(p.Printer.ID)
	p.Spools = v.spoolOptions(stock.Items)
	return v.show(status, "printer", p.Printer.Name, p)
}

// spoolOptions returns the numbers of spools to choose from.
func (v *visit) spoolOptions(items []spool) (options []option) {
	for _, s := range items {
		options = append(options, option{strconv.FormatInt(s.Number, 10),
			strings.Trim(s.Name()+", "+v.Grams(s.Remaining)+", "+s.Location, ", ")})
	}
	return options
}

// load loads a spool into a slot of a printer, or unloads the slot if the spool is nil.
func (v *visit) load(f *form, printer, slot, name string, spool any) (bool, error) {
	if n, err := strconv.Atoi(slot); err != nil || n < 1 || n > 64 || strconv.Itoa(n) != slot {
		return false, server.ErrNotFound
	}
	return v.send(f, http.MethodPut, "/api/v1/printers/"+printer+"/slots/"+slot, map[string]any{name: spool}, nil)
}

// loadSlot loads the spool whose number was typed, or whose label was scanned, into a slot. It unloads the slot if the
// form says so.
func loadSlot(v *visit) error {
	f := v.sent()
	text := strings.TrimSpace(f.Values.Get("spool_number"))
	text = strings.TrimPrefix(text[strings.LastIndexByte(text, '/')+1:], "#")
	slot := v.r.PathValue("number")
	if _, unload := f.Values["unload"]; text == "" && !unload {
		f.Errors["spool_number"] = "Is required."
		return v.printerPage(422, slot, f)
	}
	ok, err := v.load(f, "{id}", slot, "spool_number", f.number("spool_number", strings.TrimPrefix(text, "#")))
	return v.then(ok, err, v.here("/printers"), func() error { return v.printerPage(422, slot, f) })
}

// loadSpool loads the spool of the page into the slot that was chosen, or takes it out of the slot where it is.
func loadSpool(v *visit) error {
	f := v.sent()
	at, slot, ok := strings.Cut(f.Values.Get("slot"), " ")
	var spool any = v.r.PathValue("id")
	if !ok {
		at, slot, _ = strings.Cut(f.Values.Get("loaded"), " ")
		spool = nil
	}
	printer, known := db.ParseID(at)
	if !known {
		f.Errors["slot"] = "Choose a printer."
		return v.spoolPage(422, "load", f)
	}
	ok, err := v.load(f, printer, slot, "spool_id", spool)
	return v.then(ok, err, v.here("/spools"), func() error { return v.spoolPage(422, "load", f) })
}

// slotOptions returns the slots of printers to choose from, and the one with the spool as a value and in words.
func slotOptions(items []printer, spool string) (options []option, here option) {
	options = []option{{"", "Nowhere"}}
	for _, p := range items {
		for _, s := range p.All() {
			o := option{p.ID + " " + strconv.Itoa(s.Number), p.Name}
			if p.Slots > 1 {
				o.Name += ", slot " + strconv.Itoa(s.Number)
			}
			if s.Spool != nil && s.Spool.ID == spool {
				here = o
			} else if s.Spool != nil {
				o.Name += " (" + s.Spool.Name + ")"
			}
			if p.Status != "retired" {
				options = append(options, o)
			}
		}
	}
	return options, here
}

var onePrinter = resource{"/api/v1/printers", "/printers", (*visit).printerPage}

// queue is the unfinished runs by printer.
type queue struct {
	Total   int
	Runs    []queuedRun
	Problem string `json:"-"` // what the API has refused
}

type queuedRun struct {
	ID, Status string
	PrinterID  string `json:"printer_id"`
	Printer    string `json:"printer_name"`
	Place      int
	Earlier    int `json:"-"` // the place of the pending run before it, if there is one
	Items      []struct {
		Product  string `json:"product_name"`
		Quantity int
	}
	Hours num        `json:"estimated_print_time_hours"`
	Start *time.Time `json:"expected_start_at"`
	End   *time.Time `json:"expected_end_at"`
}

// PrintsUntil returns when a run that prints ends, or has ended, or nil if that is not known.
func (r queuedRun) PrintsUntil() *time.Time { return run{StartedAt: r.Start, Hours: r.Hours}.End() }

// Name returns what the run prints.
func (r queuedRun) Name() string {
	var names []string
	for _, item := range r.Items {
		names = append(names, strconv.Itoa(item.Quantity)+" × "+item.Product)
	}
	if names == nil {
		return "Without a product"
	}
	return strings.Join(names, ", ")
}

// of returns the runs of a printer.
func (q *queue) of(printer string) (runs []queuedRun) {
	for _, r := range q.Runs {
		if r.PrinterID == printer {
			if n := len(runs); n > 0 && runs[n-1].Status == "pending" && printer != "" {
				r.Earlier = r.Place - 1
			}
			runs = append(runs, r)
		}
	}
	return runs
}

// Printers returns the runs by printer, in their order.
func (q *queue) Printers() (all [][]queuedRun) {
	for i, r := range q.Runs {
		if i == 0 || r.PrinterID != q.Runs[i-1].PrinterID {
			all = append(all, q.of(r.PrinterID))
		}
	}
	return all
}

func showQueue(v *visit) error { return v.queuePage(200, "") }

// queuePage shows the queue, and what the API has refused.
func (v *visit) queuePage(status int, problem string) error {
	q := queue{Problem: problem}
	if err := v.fetch(get("/api/v1/queue", &q)); err != nil {
		return err
	}
	return v.show(status, "queue", "Queue", &q)
}

// moveRun moves a pending run to the place that the form names. A run that has started meanwhile stays where it is.
func moveRun(v *visit) error {
	f := v.sent()
	ok, err := v.send(f, "POST", "/api/v1/production-runs/{id}/move", f.body(field{"place", number}), nil)
	return v.then(ok, err, "/queue", func() error {
		return v.queuePage(422, cmp.Or(f.Problem, "The run was not moved. "+f.Errors["place"]))
	})
}
