package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
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
	Runs       []queuedRun   `json:"-"` // the runs in the queue of the printer
	Watched    *printerState `json:"-"` // what the printer does, or nil if nobody has watched it
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
func (p printer) State(v translator) string {
	if p.Status == "available" {
		return ""
	}
	return v.t(language.Text(label(p.Status)))
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

// slot is a slot of a printer. Spool is the spool that is loaded into the slot, or nil. Says is what a watched printer
// says is loaded, or nil.
type slot struct {
	Number int
	Spool  *loaded
	Says   *loadedSlot
}

// loadedSlot is what a watched printer says is loaded into a slot.
type loadedSlot struct {
	Slot, Material, Color string
	Number                int // 0 if the service has no such slot
	Remaining             num `json:"remaining_percent"`
	Empty, Unknown        bool
}

// Swatch returns the picture of the color.
func (s *loadedSlot) Swatch() template.HTML { return newSwatch("", false, s.Color) }

// Differs reports whether the printer says another material than the spool in the slot has.
func (s slot) Differs() bool {
	return s.Spool != nil && s.Says != nil && s.Says.Material != "" &&
		!strings.Contains(strings.ToUpper(s.Spool.Name), strings.ToUpper(s.Says.Material))
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
	if p.Watched != nil {
		for i, says := range p.Watched.Slots {
			if n := says.Number; n >= 1 && n <= len(slots) && !says.Empty && (says.Material != "" || says.Unknown) {
				slots[n-1].Says = &p.Watched.Slots[i]
			}
		}
	}
	return slots
}

var printerStates = []word{{"available", "Available"}, {"maintenance", "In maintenance"}, {"retired", "Retired"}}

var printerList = &listOf[printer]{editor: printers, Title: "Printers", Class: "wall", Add: "Add a printer",
	Empty: "There are no printers yet. A printer has slots for spools and a queue of runs.",
	First: "Add the first printer", Other: word{"/queue", "Queue"},
	filters: []filter{searchFilter,
		{"status", "status", "Status", append([]word{anything}, printerStates...)}},
	orders:  []listOrder{{"", "Name", "name", "asc"}, {"newest", "Newest first", "created_at", "desc"}},
	columns: []column{{label: "Prints"}, {label: "Printer"}},
	fetch: func(v *visit, entries read, printers *[]printer) error {
		var q queue
		if err := v.fetch(entries, get("/api/v1/queue", &q)); err != nil || len(*printers) == 0 {
			return err
		}
		var ids []string
		for i, p := range *printers {
			(*printers)[i].Runs = q.of(p.ID)
			ids = append(ids, p.ID)
		}
		var states found[printerState]
		err := v.fetch(get("/api/v1/printer-states?limit=100&ids="+strings.Join(ids, ","), &states))
		for i := range states.Items {
			(*printers)[slices.Index(ids, states.Items[i].ID)].watch(&states.Items[i])
		}
		value.Sort(*printers, func(a, b printer) int { return cmp.Compare(b.needs(), a.needs()) })
		return err
	},
	row: func(v *visit, r *rows, p *printer) {
		w, run := p.Watched, p.Now()
		r.add(`<tr><td class="short">`)
		r.picture(p.Ring(view{visit: v}))
		r.add(`</td><td><a class="title" href="/printers/{}"><b>{}</b></a>`, p.ID, p.Name)
		if state := p.State(v); state != "" {
			r.add(` <span class="tag">`)
			r.picture(newMark(p.Status))
			r.add(`{}</span>`, state)
		} else if w != nil {
			r.add(` <span class="tag">`)
			r.picture(newMark(w.Mark()))
			r.add(`{}</span>`, w.Words(v))
		}
		r.when(p.Due, ` <span class="tag late">{}</span>`, v.t("Maintenance due"))
		if run != nil {
			r.add(`<p>`)
			r.picture(run.Swatches())
			r.add(` <a href="/runs/{}">{}</a></p>`, run.ID, run.Title(v))
		}
		if w != nil {
			r.some(` <small class="says">{}</small>`, v.Message(w.Message))
		}
		r.some(` <small><b>{}</b></small>`, p.Left(view{visit: v}))
		for _, l := range p.Loaded {
			r.add(` <small><a href="/spools/{}">#{}</a> {}, {}</small>`, l.ID, strconv.FormatInt(l.Number, 10), l.Name,
				v.Grams(l.Remaining))
		}
		words := []string{v.t("%s h|hours", v.Number(p.Hours, 0))}
		if kind := p.Kind(); kind != "" {
			words = append([]string{kind}, words...)
		}
		r.add(` <small>{}</small></td></tr>`+"\n", strings.Join(words, " · "))
	}}

var printers = &editor{api: "/api/v1/printers", path: "/printers", noun: printerNoun,
	name: func(get func(string) string) string { return get("name") },
	fields: []editorField{
		{field{"name", text}, "Name", "required", nil},
		{field{"model", text}, "Model", "", nil},
		{field{"location", text}, "Location", "may", nil},
		{field{"status", text}, "Status", "", printerStates},
		{field{"slots", number}, "Slots for spools", "type=number;hint=1 if empty", nil},
		{field{"materials", set}, "Materials", "hint=Such as PLA, PETG. Empty: all", nil},
		{field{"diameter_mm", number}, "Filament", "", widths},
		{field{"nozzle_mm", number}, "Nozzle", "type=number;unit=mm", nil},
		{field{"maintenance_interval_hours", number}, "Maintenance after", "may;type=number;unit=hours", nil},
		{field{"hour_cost", number}, "Cost of an hour", "may;type=number;unit=$currency", nil},
		{field{"power_watts", number}, "Power", "may;type=number;unit=W", nil},
		{field{"notes", text}, "Notes", "may;rows=3", nil},
	}}

// printerState is what a watched printer does. Question means that a person must say which run its job is.
type printerState struct {
	ID, State, Message string
	Printer            string `json:"printer_name"`
	Status             string `json:"printer_status"`
	Due                bool   `json:"maintenance_due"`
	Sequence           int64  // 0 if nobody has watched the printer
	Question, Watched  bool
	Candidates         []struct {
		RunID string `json:"run_id"`
		Title string
	}
	Needs      bool       `json:"needs_person"`
	ChangedAt  *time.Time `json:"changed_at"`
	ReceivedAt *time.Time `json:"received_at"`
	Slots      []loadedSlot
	Job, Asked *printerJob // what it prints, and what the question is about
}

type printerJob struct {
	ID, File, Outcome string
	Progress          num
	Left              num `json:"seconds_left"`
}

// Words returns the state in words.
func (s *printerState) Words(v translator) string {
	switch {
	case s.State == "attention":
		return v.t("Needs you")
	case s.Question:
		return v.t("Which run?")
	case !s.Watched:
		return v.t("Not watched")
	}
	return v.t(language.Text(label(s.State)))
}

// Mark returns the state that determines the mark of Words.
func (s *printerState) Mark() string {
	switch {
	case s.Needs:
		return "failed"
	case !s.Watched:
		return ""
	}
	return map[string]string{"printing": "in_progress", "paused": "paused", "idle": "completed",
		"offline": "cancelled"}[s.State]
}

// Percent returns the progress of the job that runs, or -1.
func (s *printerState) Percent() int {
	if s == nil || s.Job == nil || s.Job.Outcome != "" || s.Job.Progress == "" {
		return -1
	}
	return percent(s.Job.Progress, "1")
}

// Ring returns the picture of what the printer prints, in the ring of its progress.
func (s *printerState) Ring(v translator, picture template.HTML) template.HTML {
	return ring(s.Percent(), s.Mark(), v.t(byPrinter, inPercent(s.Percent())), picture)
}

// End returns when the job that runs ends, as the printer expects it, or nil.
func (s *printerState) End() *time.Time {
	if s == nil || !s.Watched || s.Job == nil || s.Job.Outcome != "" || s.Job.Left == "" || s.ReceivedAt == nil {
		return nil
	}
	return new(s.ReceivedAt.Add(time.Duration(float(s.Job.Left) * float64(time.Second))))
}

// watch sets the state of the printer, if anybody has watched it.
func (p *printer) watch(s *printerState) {
	if s.Sequence > 0 {
		p.Watched = s
	}
}

// needs returns 1 for a printer that needs a person, and otherwise 0.
func (p printer) needs() int {
	if p.Watched != nil && p.Watched.Needs {
		return 1
	}
	return 0
}

// Ring returns the picture of what the printer prints, in the ring of its progress: by the printer, or else by the
// estimate.
func (p printer) Ring(v view) template.HTML {
	now := p.Now()
	switch {
	case now == nil && p.Watched == nil:
		return ring(-1, "", "", "")
	case now == nil:
		return p.Watched.Ring(v, "")
	case p.Watched != nil:
		return p.Watched.Ring(v, now.Thumb())
	}
	clock := run{Status: now.Status, StartedAt: now.Start, Hours: now.Hours}
	return clock.ring(v, now.Thumb())
}

// Left returns how much of the print is done, and when it ends: by the printer, or else by the estimate.
func (p printer) Left(v view) string {
	var words []string
	if percent := p.Watched.Percent(); percent >= 0 {
		words = append(words, inPercent(percent))
	}
	now := p.Now()
	switch end := p.Watched.End(); {
	case end != nil && end.After(v.Now()):
		left := num(trimFloat(end.Sub(v.Now()).Minutes()))
		words = append(words, v.t("%s left|of a print", v.Minutes(left)), v.Until("", nil, end))
	case now != nil && p.Watched == nil:
		words = append(words, v.Until(now.Status, now.Start, now.PrintsUntil()))
	}
	return strings.Join(words, " · ")
}

// answerQuestion says which run the job of a printer is: the form has the id of a run, or what the job is instead.
func answerQuestion(v *visit) error {
	f := v.sent()
	answer := f.Values.Get("answer")
	body := map[string]any{"job": f.Values.Get("job"), "answer": answer}
	if answer != "new_run" && answer != "none" {
		body["answer"], body["run_id"] = "run", answer
	}
	ok, err := v.send(f, http.MethodPost, "/api/v1/printers/{id}/answer", body, nil)
	v.tell(&notice{Text: v.t("The print has its answer.")})
	return v.then(ok, err, v.from(v.here("/printers")), func() error { return v.printerPage(422, "answer", f) })
}

type printerPage struct {
	forms   // the forms of slots, named by the numbers of the slots
	Printer printer
	Tag     string // the ETag of the printer
	Queue   queue
	Ended   struct{ Items []run }
	States  found[printerState] // its state
	Changes struct{ Items []stateChange }
	Keys    found[apiKey]    // the keys of the printer, for admins
	New     *connection      // the key that was just created, or nil
	likely  map[string]*hits // by material, spools that may be what the printer says is in an empty slot
	At      *watchedAt       // where the printer is watched, for admins, or nil
}

type stateChange struct {
	printerState
	File, Outcome string
	CreatedAt     *time.Time `json:"created_at"`
}

// Mark returns the state that determines the mark of the change.
func (c stateChange) Mark() string {
	c.Needs, c.Watched = c.State == "attention" || c.Outcome == "failed", true
	return c.printerState.Mark()
}

// maxLikely is the maximum number of materials whose spools the page of a printer proposes.
const maxLikely = 2

// Load returns the input for the spool of a slot.
func (p *printerPage) Load(number int) input {
	f := p.Form(strconv.Itoa(number))
	if f != p.sent {
		f.Tag = p.Tag
		if says := p.Printer.All()[number-1].Says; says != nil && p.likely[says.Material] != nil {
			f.hits["spool_number"] = p.likely[says.Material]
		}
	}
	return newInput(f, "spool_number", "Spool", "find=spools", "value=")
}

func showPrinter(v *visit) error { return v.printerPage(200, "", nil) }

func (v *visit) printerPage(status int, name string, f *form) error {
	return v.showPrinterWith(status, name, f, nil)
}

// showPrinterWith shows the page of a printer, with the key that was just created if c is not nil.
func (v *visit) showPrinterWith(status int, name string, f *form, c *connection) error {
	p := &printerPage{forms: v.forms(name, f), New: c}
	reads := []read{
		read{path: "/api/v1/printers/{id}", into: &p.Printer, tag: &p.Tag},
		get("/api/v1/queue?printer_id={id}", &p.Queue),
		get("/api/v1/printer-states?ids={id}", &p.States),
		get("/api/v1/printer-states/changes?printer_id={id}&limit=10", &p.Changes),
		get("/api/v1/production-runs?printer_id={id}&status=completed,failed,cancelled&limit=10", &p.Ended),
	}
	if v.IsAdmin() {
		reads = append(reads, get("/api/v1/api-keys?printer_id={id}&revoked=false&limit=20", &p.Keys))
		answer := v.call(http.MethodGet, "/api/v1/printers/{id}/connection", nil, nil)
		if answer.Status == 200 {
			p.At = &watchedAt{}
			if err := json.Unmarshal(answer.Body, p.At); err != nil {
				return err
			}
		}
	}
	if err := v.fetch(reads...); err != nil {
		return err
	}
	p.Printer.Runs = p.Queue.of(p.Printer.ID)
	for i := range p.Ended.Items {
		p.Ended.Items[i].PrinterName = "" // the title of the page
	}
	for i := range p.States.Items {
		p.Printer.watch(&p.States.Items[i])
	}
	p.likely = map[string]*hits{}
	for _, s := range p.Printer.All() {
		if s.Spool != nil || s.Says == nil || s.Says.Material == "" || p.likely[s.Says.Material] != nil ||
			!v.CanWrite() || len(p.likely) == maxLikely {
			continue
		}
		h, err := pickers["spools"].search(v, s.Says.Material, 1)
		if err != nil {
			return err
		}
		h.Items, h.More = h.Items[:min(len(h.Items), 5)], false
		p.likely[s.Says.Material] = h
	}
	return v.show(status, "printer", p.Printer.Name, p)
}

// load loads a spool into a slot of a printer, or unloads the slot if the spool is nil. Name is the field of the
// request for the spool. The function now returns the present values of the form.
func (v *visit) load(f *form, printer, slot, name string, spool any, now func() (*form, error)) (bool, error) {
	if n, err := strconv.Atoi(slot); err != nil || n < 1 || n > 64 || strconv.Itoa(n) != slot {
		return false, server.ErrNotFound
	}
	return v.change(f, editing{http.MethodPut, "/api/v1/printers/" + printer + "/slots/" + slot,
		func(*form) map[string]any { return map[string]any{name: spool} }, now, nil})
}

// tellLoaded sets the notice after a spool was loaded, or a slot was unloaded.
func (v *visit) tellLoaded(slot string, loaded bool) {
	text := v.t("Slot %s is empty.", slot)
	if loaded {
		text = v.t("The spool is loaded into slot %s.", slot)
	}
	v.tell(&notice{Text: text})
}

// loadSlot loads a spool into a slot. The form has the number of the spool, typed or scanned from the label. If the
// form has the field unload and no number, loadSlot unloads the slot.
func loadSlot(v *visit) error {
	f := v.sent()
	spool := f.value(field{"spool_number", scanned})
	slot := v.r.PathValue("number")
	if _, unload := f.Values["unload"]; spool == nil && !unload && !f.picking {
		f.Errors["spool_number"] = v.t("Is required.")
		return v.printerPage(422, slot, f)
	}
	ok, err := v.load(f, "{id}", slot, "spool_number", spool, func() (*form, error) {
		f := v.newForm()
		var p printer
		err := v.fetch(read{path: "/api/v1/printers/{id}", into: &p, tag: &f.Tag})
		for _, l := range p.Loaded {
			if strconv.Itoa(l.Slot) == slot {
				f.Values.Set("spool_number", strconv.FormatInt(l.Number, 10))
			}
		}
		return f, err
	})
	if number := f.Theirs.Get("spool_number"); number != "" { // the page then has no input for the slot
		f.Problem = v.t("Somebody else has loaded spool %s into slot %s in the meantime. It stays there.", number, slot)
		if spool != nil {
			f.Problem += " " + v.t("Unload it to load spool %s.", fmt.Sprint(spool))
		}
	}
	v.tellLoaded(slot, spool != nil)
	return v.then(ok, err, v.here("/printers"), func() error { return v.printerPage(422, slot, f) })
}

// loadSpool loads the spool of the page into the slot that the form has chosen. If the form has chosen no slot, it
// unloads the slot that the form has shown.
func loadSpool(v *visit) error {
	f := v.sent()
	var spool any = v.r.PathValue("id")
	if f.Values.Get("slot") == "" {
		spool = nil
	}
	if f.picking {
		return v.then(false, f.failed, "", func() error { return v.spoolPage(422, "load", f) })
	}
	at, slot, _ := strings.Cut(cmp.Or(f.Values.Get("slot"), f.Was.Get("slot")), " ")
	id, known := value.ParseID(at)
	if !known {
		f.Errors["slot"] = v.t("Choose a printer.")
		return v.spoolPage(422, "load", f)
	}
	// The ETag is that of the printer, so that the spool can still move from another printer before the request.
	ok, err := v.load(f, id, slot, "spool_id", spool, func() (*form, error) {
		f := v.newForm()
		var p printer
		here, err := v.slotOf(v.r.PathValue("id"))
		if err == nil {
			err = v.fetch(read{path: "/api/v1/printers/" + id, into: &p, tag: &f.Tag})
		}
		f.Values.Set("slot", here.Value)
		return f, err
	})
	v.tellLoaded(slot, spool != nil)
	return v.then(ok, err, v.here("/spools"), func() error { return v.spoolPage(422, "load", f) })
}

// choices returns the slots of the printer to choose from.
func (p *printer) choices(v *visit) (all []choice) {
	for _, s := range p.All() {
		c := choice{Value: p.ID + " " + strconv.Itoa(s.Number), Name: p.Name, Key: p.Name, About: v.t("empty")}
		if p.Slots > 1 {
			c.Name = v.t("%s, slot %s|a printer", p.Name, strconv.Itoa(s.Number))
		}
		if s.Spool != nil {
			c.About = "#" + strconv.FormatInt(s.Spool.Number, 10) + " " + s.Spool.Name
		}
		all = append(all, c)
	}
	return all
}

// slotOf returns the slot with the spool, or an empty choice.
func (v *visit) slotOf(spool string) (here choice, err error) {
	var all struct{ Items []printer }
	err = v.fetch(get("/api/v1/printers?limit=1&spool_id="+spool, &all))
	for i := range all.Items {
		for j, s := range all.Items[i].All() {
			if s.Spool != nil && s.Spool.ID == spool {
				here = all.Items[i].choices(v)[j]
			}
		}
	}
	return here, err
}

var onePrinter = resource{"/api/v1/printers", "/printers", (*visit).printerPage}
