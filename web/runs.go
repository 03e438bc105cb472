package web

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"spoolwright/production"
	"spoolwright/value/language"
)

type run struct {
	ID          string     `json:"id"`
	Status      string     `json:"status"`
	PrinterID   string     `json:"printer_id"`
	PrinterName string     `json:"printer_name"`
	StartedAt   *time.Time `json:"started_at"`
	CompletedAt *time.Time `json:"completed_at"`
	Hours       num        `json:"estimated_print_time_hours"`
	ActualHours num        `json:"actual_print_time_hours"`
	Grams       num        `json:"actual_total_filament_grams"`
	Estimate    num        `json:"estimated_total_filament_grams"`
	Failure     string     `json:"failure_reason"`
	CreatedAt   *time.Time `json:"created_at"`
	Deducted    bool       `json:"inventory_updated"`

	Items     []listedItem  // the first items; ItemCount is the number of all
	ItemCount int           `json:"item_count"`
	Spools    []listedSpool `json:"materials"`
	Orders    []order

	Print *struct { // what a watched printer says, while it prints the run
		Progress num
		EndsAt   *time.Time `json:"ends_at"`
	}
}

// Name returns the name of the printer.
func (r run) Name(v translator) string {
	if r.PrinterName == "" {
		return v.t("Without a printer")
	}
	return r.PrinterName
}

// State returns the status in words, which are those of the board, and the reason of a failure.
func (r run) State(v translator) string {
	state := language.Text(label(r.Status))
	switch r.Status {
	case "pending":
		state = "Planned"
	case "in_progress":
		state = "Printing"
	}
	if r.Failure != "" {
		return v.t("%s: %s|a state of a run and its reason", v.t(state),
			v.t(language.Text(strings.ReplaceAll(r.Failure, "_", " "))))
	}
	return v.t(state)
}

// IsOpen reports whether the run can be completed.
func (r run) IsOpen() bool {
	return !r.Deducted && r.Status != "failed" && r.Status != "cancelled"
}

// HasEnded reports whether the run is completed, failed or cancelled.
func (r run) HasEnded() bool {
	return r.Status == "completed" || r.Status == "failed" || r.Status == "cancelled"
}

// End returns the time at which a printing run ends, by its watched printer or else by the estimate, or nil if the time
// is not known.
func (r run) End() *time.Time {
	if r.Print != nil && r.Print.EndsAt != nil {
		return r.Print.EndsAt
	}
	if r.StartedAt == nil || r.Hours == "" {
		return nil
	}
	end := r.StartedAt.Add(time.Duration(float(r.Hours) * float64(time.Hour)))
	return &end
}

// hasEnded reports whether a printing run should have ended, so that it waits for somebody to confirm its end.
func (r run) hasEnded(now time.Time) bool {
	end := r.End()
	return end != nil && end.Before(now) && r.Status == "in_progress" && r.Print == nil
}

// When returns the last known time of the run: its end, its start or its creation.
func (r run) When() *time.Time {
	switch {
	case r.CompletedAt != nil:
		return r.CompletedAt
	case r.StartedAt != nil:
		return r.StartedAt
	}
	return r.CreatedAt
}

// runDetails is a production run, as the API returns it.
type runDetails struct {
	run
	costs
	Notes        string        `json:"notes"`
	FailureNotes string        `json:"failure_notes"`
	Source       string        `json:"usage_source"`
	LikelyEnd    *time.Time    `json:"likely_completed_at"`
	Items        []runItem     `json:"items"`
	Materials    []runMaterial `json:"materials"`
	Warnings     []struct{ Detail string }
}

// By says where the used grams come from, if a watched printer's job has filled them in.
func (r runDetails) By(v translator) string {
	return v.t(cmp.Or(map[string]language.Text{"reports": "used, as the printer reported",
		"grams": "used, by the printer", "length": "used, by the length that the printer used",
		"estimate": "used, by the estimate"}[r.Source], "used"))
}

// runItem is a product that a run prints, with the pieces that were counted when the run was completed.
type runItem struct {
	listedItem
	ID         string
	Successful num `json:"successful_quantity"`
	Failed     num `json:"failed_quantity"`
}

// Good and Bad return the numbers of good and failed pieces, as reports and the stock count them. A run that failed
// after it was reopened still has the counts of its first end, but all its pieces have failed.
func (i runItem) Good(status string) num {
	switch {
	case status == "failed", status == "cancelled" && i.Successful != "":
		return "0"
	case status == "completed" && i.Failed == "":
		return cmp.Or(i.Successful, i.Quantity)
	}
	return i.Successful
}

func (i runItem) Bad(status string) num {
	switch {
	case status == "failed":
		return i.Quantity
	case status == "cancelled" && i.Failed != "":
		return "0"
	}
	return i.Failed
}

type runMaterial struct {
	ID       string
	SpoolID  string `json:"spool_id"`
	Spool    string `json:"spool_name"`
	Estimate num    `json:"estimated_weight_grams"`
	Actual   num    `json:"actual_weight_grams"`
	Reported num    `json:"reported_grams"`
	Outside  num    `json:"outside_grams"`
	Price    num    `json:"cost_per_gram"`

	ExchangedAt *time.Time `json:"exchanged_at"`
	WeighedAt   *time.Time `json:"weighed_at"`
	Number      int64      `json:"-"` // the number of the spool, or 0 if the number is not known
}

// Name returns the number and the name of the spool.
func (m runMaterial) Name() string { return numbered(m.Number, m.Spool) }

type runPage struct {
	forms
	Run      runDetails
	Check    struct{ Steps []step }
	Reasons  []option
	Outcome  []runOutcome
	Weights  []runWeight
	Complete *form
	Fail     *form
	Cancel   *form
	Times    map[string][2]input // by form, the inputs for the end and the hours of the run
	History  struct{ Items []runEvent }

	// Edit is the form that changes fields of the run. Correct is the form that corrects a run that has ended.
	Edit       *form
	Correct    *form
	Fields     []input          // the inputs of Edit
	Used, Made []runFigures     // the inputs of Correct for materials and items
	Span       []input          // the inputs of Correct for times
	tag        string           // the ETag of the run
	spools     map[string]spool // by id, spools of the run and of its history
}

// step is a step before the start of a run, or a change since the run was planned.
type step struct {
	Code, Detail string
	SpoolID      string `json:"spool_id"`
	OrderID      string `json:"order_id"`
	ProductID    string `json:"product_id"`
}

// Link returns the address of the spool, order or product that the step concerns, or "".
func (s step) Link() string {
	switch {
	case s.SpoolID != "":
		return "/spools/" + s.SpoolID
	case s.OrderID != "":
		return "/orders/" + s.OrderID
	case s.ProductID != "":
		return "/products/" + s.ProductID
	}
	return ""
}

// passing reports whether earlier runs in the queue of the printer can still make the step unnecessary.
func (s step) passing() bool { return s.Code == "PRINTER_BUSY" || s.Code == "LOAD_SPOOL" }

// IsOutdated reports whether the step is a change since the run was planned, and not a step before its start.
func (s step) IsOutdated() bool {
	return !s.passing() && s.Code != "NO_PRINTER" && s.Code != "NO_MATERIALS"
}

// canReplan reports whether a page offers to plan a run again. The run must be pending, have items, and have a step
// that a new plan can make unnecessary.
func canReplan(status string, items int, steps []step) bool {
	return status == "pending" && items > 0 && slices.ContainsFunc(steps, func(s step) bool {
		return s.Code != "PRODUCT_REMOVED" && !s.passing()
	})
}

// CanReplan reports whether the page offers to plan the run again.
func (p *runPage) CanReplan() bool { return canReplan(p.Run.Status, len(p.Run.Items), p.Check.Steps) }

// LacksPieces reports whether the run has ended without some of its pieces, so that they can be planned again.
func (p *runPage) LacksPieces() bool {
	return p.Run.HasEnded() && slices.ContainsFunc(p.Run.Items, func(i runItem) bool {
		return float(i.Good(p.Run.Status)) < float(i.Quantity)
	})
}

// Shown returns the steps that the page lists. It omits steps that ask for a printer or for spools if the run is
// already printing.
func (p *runPage) Shown() []step {
	return slices.DeleteFunc(slices.Clone(p.Check.Steps), func(s step) bool {
		return p.Run.Status == "in_progress" && (s.Code == "NO_PRINTER" || s.Code == "NO_MATERIALS")
	})
}

// runOutcome contains the inputs of an item in the forms that end a run, and runWeight contains the inputs of a
// material.
type runOutcome struct {
	ID, Product  string
	Good, Failed input
}

type runWeight struct {
	ID             string
	Actual, Wasted input
	Used           input  // the filament that a canceled run used
	Outside        string // the question whether filament that left the spool without a run counts for this run, or ""
}

// showRun shows a run. The address may name a form to open.
func showRun(v *visit) error {
	open := v.r.URL.Query().Get("open")
	if open != "complete" && open != "fail" {
		open = ""
	}
	return v.runPage(200, open, nil)
}

// Form returns the form of the page with the name.
func (p *runPage) Form(name string) *form {
	f := p.forms.Form(name)
	if f != p.sent && (name == "edit" || name == "correct" || name == "item") {
		f.Tag = p.tag
	}
	return f
}

// readRun reads the run of the page. If f is not nil, it is a form with the name that the API has refused.
func (v *visit) readRun(name string, f *form) (*runPage, error) {
	p := &runPage{forms: v.forms(name, f), Reasons: v.options(failureReasons)}
	var listed struct{ Items []run }
	if err := v.fetch(read{path: "/api/v1/production-runs/{id}", into: &p.Run, tag: &p.tag},
		get("/api/v1/production-runs?id={id}", &listed),
		get("/api/v1/production-runs/{id}/check", &p.Check),
		get("/api/v1/production-runs/{id}/history?limit=20", &p.History)); err != nil {
		return nil, err
	}
	for _, r := range listed.Items { // one, unless the run was removed meanwhile
		p.Run.run.Items, p.Run.ItemCount, p.Run.Spools, p.Run.Orders = r.Items, r.ItemCount, r.Spools, r.Orders
		p.Run.Print = r.Print
		for i := range p.Run.Items {
			for _, listed := range r.Items {
				if listed.ProductID == p.Run.Items[i].ProductID {
					p.Run.Items[i].Picture = listed.Picture
				}
			}
		}
	}
	if err := p.nameSpools(v); err != nil {
		return nil, err
	}
	if v.CanWrite() {
		p.change(v)
	}
	return p, nil
}

// runForm returns the form with the name of the run of the page, with the present values.
func runForm(name string) func(*visit) (*form, error) {
	return func(v *visit) (*form, error) {
		p, err := v.readRun("", nil)
		if err != nil {
			return nil, err
		}
		f := p.Form(name)
		switch {
		case name == "edit":
			f = p.Edit
		case name == "correct" && p.Correct != nil:
			f = p.Correct
		}
		for _, item := range p.Run.Items {
			if item.ID == v.r.PathValue("part") {
				p.Pieces(f, item.Quantity)
			}
		}
		return f, nil
	}
}

// runPage shows a run. If f is not nil, it is a form with the name that the API has refused.
func (v *visit) runPage(status int, name string, f *form) error {
	p, err := v.readRun(name, f)
	if err != nil {
		return err
	}
	p.Complete, p.Fail, p.Cancel = p.Form("complete"), p.Form("fail"), p.Form("cancel")
	// The form has no time for now: one without seconds could be before a weighing of the same minute.
	end, shown := v.Now(), ""
	if p.Run.LikelyEnd != nil && p.Run.LikelyEnd.Before(end) {
		end = p.Run.LikelyEnd.In(v.zone)
		shown = end.Format(momentLayout)
	}
	p.Times = map[string][2]input{}
	for name, f := range map[string]*form{"complete": p.Complete, "fail": p.Fail} {
		p.Times[name] = [2]input{
			newInput(f, "completed_at", "Ended|time", "type=datetime-local", "value="+shown, "hint=Now, if empty"),
			newInput(f, "actual_print_time_hours", "Print time", "type=number", "unit=h",
				"value="+f.read.text(p.Run.ActualHours), "hint=From start to end, if empty")}
	}
	for i, m := range p.Run.Materials {
		hint := "hint="
		if m.Reported != "" {
			hint += v.t("Printers reported %s.", v.Grams(m.Reported))
		}
		wasted, wastedHint := m.Reported, hint
		if share := p.Run.share(end); m.Reported == "" && m.Estimate != "" && share >= 0 {
			wasted = num(trimFloat(math.Round(float(m.Estimate)*share*10) / 10))
			wastedHint = "hint=" + v.t("%s of the estimated time has passed: about %s of %s may be used.",
				v.Number(num(trimFloat(share*100)), 0)+" %", v.Grams(wasted), v.Grams(m.Estimate))
		}
		w := runWeight{ID: m.ID,
			Actual: p.Complete.rowInput("materials", i, "actual_weight_grams", "",
				cmp.Or(m.Actual, m.Reported, m.Estimate), "unit=g", hint, "label="+m.Name()),
			Wasted: p.Fail.rowInput("materials", i, "wasted_grams", "", wasted, "unit=g", wastedHint, "label="+m.Name()),
			Used:   p.Cancel.rowInput("materials", i, "wasted_grams", "", wasted, "unit=g", wastedHint, "label="+m.Name())}
		if m.Outside != "" {
			w.Outside = v.t("The weight contains %s that left this spool without a run since the start", v.Grams(m.Outside))
		}
		p.Weights = append(p.Weights, w)
	}
	for i, item := range p.Run.Items {
		p.Outcome = append(p.Outcome, runOutcome{item.ID, item.Product,
			p.Complete.rowInput("items", i, "successful_quantity", "Good|pieces", cmp.Or(item.Successful, item.Quantity)),
			p.Complete.rowInput("items", i, "failed_quantity", "Failed|pieces", cmp.Or(item.Failed, "0"))})
	}
	return v.show(status, "run", p.Run.Title(v), p)
}

// failureReasons are the API's reasons of a failure, to choose from.
var failureReasons = labeled(production.FailureReason("").Enum())

// replanRun replaces a run by new runs for its pieces. It redirects to the new run or, if there is not exactly one, to
// the order of the runs or to the queue.
func replanRun(v *visit) error {
	f := v.sent()
	var plan struct {
		Runs []struct {
			ID      string
			OrderID string `json:"order_id"`
		}
	}
	ok, err := v.send(f, "POST", "/api/v1/production-runs/{id}/replan", nil, &plan)
	path := "/queue"
	v.tell(&notice{Text: v.t("The run is planned again."), Next: []option{{path, v.t("Queue")}}})
	if len(plan.Runs) == 1 {
		path = "/runs/" + plan.Runs[0].ID
	} else if len(plan.Runs) > 1 && plan.Runs[0].OrderID != "" {
		path = "/orders/" + plan.Runs[0].OrderID
	}
	return v.then(ok, err, path, func() error { return v.runPage(422, "replan", f) })
}

// failAndReplan records the failure of a run, and then plans its pieces again.
func failAndReplan(v *visit) error {
	f := v.sent()
	body := failure(f)
	again := func() error { return v.runPage(422, "fail", f) }
	if len(f.Errors) > 0 {
		return again()
	}
	ok, err := v.send(f, "POST", "/api/v1/production-runs/{id}/fail", body, nil)
	if err != nil || !ok {
		return v.then(ok, err, "", again)
	}
	n := &notice{Text: v.t("The run has failed, and is planned again."), Next: []option{{"/queue", v.t("Queue")}}}
	next := v.newForm()
	next.Key = f.Key + "p"
	if ok, err = v.send(next, "POST", "/api/v1/production-runs/{id}/replan", nil, nil); err == nil && !ok {
		n = &notice{Text: v.t("The run has failed, but is not planned again.") + " " + next.Problem}
	}
	v.tell(n)
	return v.then(true, err, v.here("/runs"), nil)
}

var oneRun = resource{"/api/v1/production-runs", "/runs", (*visit).runPage}

// endTime are the fields of the end and the hours of a run.
var endTime = []field{{"completed_at", moment}, {"actual_print_time_hours", number}}

func completion(f *form) map[string]any {
	body := f.body(endTime...)
	f.putRows(body, "materials", field{"id", text}, field{"actual_weight_grams", number},
		field{"count_outside_use", optionalFlag})
	f.putRows(body, "items", field{"id", text}, field{"successful_quantity", number}, field{"failed_quantity", number})
	return body
}

func failure(f *form) map[string]any {
	body := f.body(append([]field{{"reason", text}, {"notes", text}}, endTime...)...)
	f.putRows(body, "materials", field{"id", text}, field{"wasted_grams", number},
		field{"count_outside_use", optionalFlag})
	return body
}

type newRun struct {
	Form      *form
	Items     [][2]input // the inputs for product and pieces
	Materials [][2]input // the inputs for spool and weight
	OrderItem string
	More      bool // whether all rows are shown, because the form was sent
	Query     string
	Warnings  []struct{ Text string } // of the file that was read
}

func showNewRun(v *visit) error {
	return v.newRun(200, v.newRunForm(), nil)
}

func (v *visit) newRunForm() *form {
	f := v.newForm()
	query := v.r.URL.Query()
	f.Values.Set("items[0].product_id", query.Get("product"))
	f.Values.Set("items[0].order_item_id", query.Get("order_item"))
	f.Values.Set("items[0].quantity", query.Get("quantity"))
	return f
}

func (v *visit) newRun(status int, f *form, warnings []struct{ Text string }) error {
	p := &newRun{Form: f, More: status != 200 || f.picking || f.Values.Get("materials[1].spool_number") != "",
		OrderItem: f.Values.Get("items[0].order_item_id"), Query: v.r.URL.RawQuery, Warnings: warnings}
	rows := 4
	for rows < maxRows && f.Values.Has(fmt.Sprintf("materials[%d].spool_number", rows)) {
		rows++
	}
	for i := range rows {
		p.Items = append(p.Items, [2]input{
			newInput(f, fmt.Sprintf("items[%d].product_id", i), "Product", "find=products"),
			f.rowInput("items", i, "quantity", "Pieces", "")})
		p.Materials = append(p.Materials, [2]input{
			newInput(f, fmt.Sprintf("materials[%d].spool_number", i), "Spool", "find=spools"),
			f.rowInput("materials", i, "estimated_weight_grams", "Estimate", "", "unit=g")})
	}
	return v.show(status, "run-new", v.t("New run"), p)
}

func createRun(v *visit) error {
	f := v.sent()
	body := f.body(field{"printer_name", text}, field{"estimated_print_time_hours", number}, field{"notes", text})
	f.putRows(body, "items", field{"product_id", text}, field{"quantity", number}, field{"order_item_id", text})
	f.putRows(body, "materials", field{"spool_number", scanned}, field{"estimated_weight_grams", number})
	var created struct{ ID string }
	ok, err := v.send(f, "POST", "/api/v1/production-runs", body, &created)
	v.tell(&notice{Text: v.t("The run is planned."), Next: []option{{"/queue", v.t("Queue")}},
		Undo: &undo{Name: v.t("Undo"), Action: "/runs/" + created.ID + "/remove"}})
	return v.then(ok, err, "/runs/"+created.ID, func() error { return v.newRun(422, f, nil) })
}
