package web

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"spoolwright/value/language"
)

// runFigures contains the inputs of a material or an item in the form that corrects a run.
type runFigures struct {
	ID, Name string
	Inputs   []input
	Weighed  string // the question whether the difference was used before the spool was weighed during the run, or ""
}

type runEvent struct {
	Action    string
	Reason    string
	UserName  string     `json:"user_name"`
	APIKeyID  string     `json:"api_key_id"`
	CreatedAt *time.Time `json:"created_at"`
	Before    struct {
		run
		Cost      num
		Materials []runMaterial `json:"materials"`
		Items     []struct {
			ID         string
			Successful num `json:"successful_quantity"`
			Failed     num `json:"failed_quantity"`
		} `json:"items"`
	}
}

// What returns the action in words.
func (e runEvent) What(v translator) string {
	if e.Action == "exchanged" {
		return v.t("Spool exchanged")
	}
	return v.t(language.Text(label(e.Action)))
}

// Why returns the reason, or "" for an exchange, whose reason is the id of a material.
func (e runEvent) Why() string {
	if e.Action == "exchanged" {
		return ""
	}
	return e.Reason
}

// shownStates is the maximum number of materials, and of items, that the page shows for an entry of the history.
const shownStates = 8

// Was returns lines of text about the run before the entry e of its history.
func (p *runPage) Was(v view, e runEvent) []string {
	b := e.Before
	words := []string{b.State(v)}
	if b.Grams != "" {
		words = append(words, v.Grams(b.Grams))
	}
	if b.ActualHours != "" {
		words = append(words, v.Hours(b.ActualHours))
	}
	if b.Cost != "" {
		words = append(words, v.Money(b.Cost))
	}
	if b.StartedAt != nil {
		words = append(words, v.t("started %s", v.Time(b.StartedAt)))
	}
	if b.CompletedAt != nil {
		words = append(words, v.t("ended %s", v.Time(b.CompletedAt)))
	}
	lines := []string{v.t("Before: %s", strings.Join(words, " · "))}
	for i, m := range b.Materials {
		if i < shownStates && m.Actual != "" {
			line := p.spoolName(v, m.SpoolID) + " " + v.Grams(m.Actual)
			if m.Price != "" {
				line = v.t("%s at %s per gram", line, p.read.text(m.Price))
			}
			lines = append(lines, line)
		}
	}
	for i, item := range b.Items {
		if i < shownStates && item.Successful != "" {
			lines = append(lines, v.t("%s %s good, %s failed|a product and its pieces", p.productName(v, item.ID),
				v.Number(item.Successful, 0), v.Number(item.Failed, 0)))
		}
	}
	return lines
}

// spoolName returns the name of a spool that the run uses or has used.
func (p *runPage) spoolName(v view, id string) string {
	for _, m := range p.Run.Materials {
		if m.SpoolID == id {
			return m.Name()
		}
	}
	if s := p.spools[id]; s.Number != 0 {
		return numbered(s.Number, s.Name())
	}
	return v.t("Another spool")
}

func (p *runPage) productName(v view, id string) string {
	for _, item := range p.Run.Items {
		if item.ID == id {
			return item.Product
		}
	}
	return v.t("Another product")
}

// maxNamed is the maximum number of further spools of a run that its page names.
const maxNamed = 5

// nameSpools sets the numbers of the run's spools, and reads the spools that the run has used before.
func (p *runPage) nameSpools(v *visit) error {
	p.spools = map[string]spool{}
	numbers := map[string]int64{}
	for _, s := range p.Run.Spools {
		numbers[s.ID] = s.Number
	}
	var ids []string
	for _, m := range p.Run.Materials {
		ids = append(ids, m.SpoolID)
	}
	for _, e := range p.History.Items {
		for _, m := range e.Before.Materials {
			ids = append(ids, m.SpoolID)
		}
	}
	for _, id := range ids {
		if numbers[id] != 0 || len(p.spools) == maxNamed {
			continue
		}
		if _, ok := p.spools[id]; ok {
			continue
		}
		var one struct{ Items []spool }
		if err := v.fetch(get("/api/v1/spools?archived=any&id="+id, &one)); err != nil {
			return err
		}
		p.spools[id] = spool{} // so that a spool that is not found is read once
		for _, s := range one.Items {
			p.spools[id], numbers[id] = s, s.Number
		}
	}
	for i := range p.Run.Materials {
		p.Run.Materials[i].Number = numbers[p.Run.Materials[i].SpoolID]
	}
	return nil
}

// change makes the forms and inputs that change the run or, if the run has ended, correct it.
func (p *runPage) change(v *visit) {
	r := &p.Run
	p.Edit = p.Form("edit")
	if r.HasEnded() {
		p.correct(v)
	} else {
		p.planned(v)
	}
	p.Fields = append(p.Fields, newInput(p.Edit, "notes", "Notes", "rows=3", "value="+r.Notes))
	if r.Status == "failed" || r.Status == "cancelled" {
		reason := newInput(p.Edit, "failure_reason", "Reason", "value="+r.Failure)
		reason.Options = v.options(append([]word{{"", "Unknown"}}, failureReasons...))
		p.Fields = append(p.Fields, reason,
			newInput(p.Edit, "failure_notes", "What went wrong", "rows=3", "value="+r.FailureNotes))
	}
}

// planned makes the inputs of a run that has not ended.
func (p *runPage) planned(v *visit) {
	r := &p.Run
	none := v.t("Without a printer")
	if r.PrinterID == "" && r.PrinterName != "" {
		none = r.PrinterName
	}
	at := newInput(p.Edit, "printer_id", "Printer", "find=printers", "none="+none, "value="+r.PrinterID)
	if at.Value() == r.PrinterID {
		at.Named = r.PrinterName
	}
	p.Fields = []input{at}
	if r.StartedAt != nil {
		p.Fields = append(p.Fields,
			newInput(p.Edit, "started_at", "Started|time", "type=datetime-local", "value="+v.moment(r.StartedAt)))
	}
	p.Fields = append(p.Fields, newInput(p.Edit, "estimated_print_time_hours", "Estimated print time", "type=number",
		"unit=h", "value="+p.read.text(r.Hours), "hint=From the products, if empty"))
}

// correct makes the inputs of the form that corrects the run.
func (p *runPage) correct(v *visit) {
	r := &p.Run
	p.Correct = p.Form("correct")
	for i, m := range r.Materials {
		p.Correct.show(fmt.Sprintf("materials[%d].id", i), m.ID)
		number := ""
		if m.Number != 0 {
			number = strconv.FormatInt(m.Number, 10)
		}
		price := p.Correct.rowInput("materials", i, "cost_per_gram", "Price per gram", m.Price, "unit="+v.Currency)
		weighed := ""
		if m.WeighedAt != nil {
			weighed = v.t("The difference was used before the spool was weighed, at %s", v.Moment(m.WeighedAt))
		}
		p.Used = append(p.Used, runFigures{m.ID, m.Name(), []input{
			p.Correct.rowInput("materials", i, "actual_weight_grams", "Used", m.Actual, "unit=g"), price,
			newInput(p.Correct, fmt.Sprintf("materials[%d].to_spool_number", i), "Spool", "find=any-spools",
				"value="+number, "named="+m.Name())}, weighed})
	}
	for i, item := range r.Items {
		p.Correct.show(fmt.Sprintf("items[%d].id", i), item.ID)
		p.Made = append(p.Made, runFigures{item.ID, item.Product, []input{
			p.Correct.rowInput("items", i, "successful_quantity", "Good|pieces", item.Successful),
			p.Correct.rowInput("items", i, "failed_quantity", "Failed|pieces", item.Failed)}, ""})
	}
	p.Span = []input{
		newInput(p.Correct, "started_at", "Started|time", "type=datetime-local", "value="+v.moment(r.StartedAt)),
		newInput(p.Correct, "completed_at", "Ended|time", "type=datetime-local", "value="+v.moment(r.CompletedAt)),
		newInput(p.Correct, "actual_print_time_hours", "Print time", "type=number", "unit=h",
			"value="+p.read.text(r.ActualHours), "hint=From start to end, if empty")}
}

// Pieces returns the input for the number of pieces in the form f of an item.
func (p *runPage) Pieces(f *form, quantity num) input {
	return newInput(f, "quantity", "Pieces", "type=number", "required", "value="+p.read.text(quantity))
}

// Of returns the form with the name for the item or material with the id.
func (p *runPage) Of(name, id string) *form {
	if p.IsRefused(name, id) {
		return p.sent
	}
	other := *p
	other.sent = nil
	return other.Form(name)
}

// Lacks reports whether the page shows a step with the code.
func (p *runPage) Lacks(code string) bool {
	return slices.ContainsFunc(p.Shown(), func(s step) bool { return s.Code == code })
}

// correction makes the body of the operation that corrects a run. The body contains the figures that the visitor
// changed.
func correction(f *form) map[string]any {
	body := f.changed(field{"started_at", moment}, field{"completed_at", moment},
		field{"actual_print_time_hours", number})
	f.putRows(body, "materials", field{"id", text}, field{"actual_weight_grams", number},
		field{"cost_per_gram", number}, field{"to_spool_number", scanned}, field{"before_weighing", optionalFlag})
	f.putRows(body, "items", field{"id", text}, field{"successful_quantity", number}, field{"failed_quantity", number})
	if len(body) == 0 {
		f.Problem = f.read.visit.t("Nothing is different. Change a figure that is wrong.")
	}
	for name := range f.Was {
		if strings.Contains(name, "].") && !strings.HasSuffix(name, ".cost_per_gram") && f.Was.Get(name) != "" {
			f.needs(name)
		}
	}
	if reason := f.value(field{"reason", text}); reason != nil {
		body["reason"] = reason
	}
	return body
}

// corrected returns the notice of a corrected run. The notice has a form that restores the previous figures, unless a
// figure was unknown before, or a time of the run has changed: the page does not know the seconds of the previous
// time.
func corrected(v *visit, f *form, answer json.RawMessage) *notice {
	back := url.Values{"tag": {f.Tag}, "reason": {v.t("Taken back")}}
	for name := range f.Values {
		// Also the ids of rows without changes, so that there is no gap.
		if strings.HasSuffix(name, "].id") || strings.HasSuffix(name, "].before_weighing") {
			back.Set(name, f.Values.Get(name))
		}
	}
	show := withUndo("The run is corrected.", "Undo", "/correct", back)
	for name := range f.Was {
		was, now := f.Was.Get(name), f.Values.Get(name)
		row, key, nested := strings.Cut(name, "].")
		switch {
		case was == now || name == "reason":
			continue
		case !nested, was == "" && key != "cost_per_gram":
			show = showText("The run is corrected.")
		}
		back.Set(name, was)
		back.Set("was."+name, now)
		if price := row + "].cost_per_gram"; key == "to_spool_number" { // otherwise the spool's current price would apply
			back.Set(price, f.Was.Get(price))
		}
	}
	return show(v, f, answer)
}

// runEdit makes the body of the form edit of a run: the printer, the start, the estimated time, the notes, and the
// reason of a failure.
func runEdit(f *form) map[string]any {
	return f.changed(field{"printer_id", text}, field{"started_at", moment}, field{"estimated_print_time_hours", number},
		field{"notes", text}, field{"failure_reason", text}, field{"failure_notes", text})
}

func newItem(f *form) map[string]any {
	f.needs("product_id")
	return f.body(field{"product_id", text}, field{"quantity", number})
}

func pieces(f *form) map[string]any {
	f.needs("quantity")
	return f.changed(field{"quantity", number})
}

func newSpool(f *form) map[string]any {
	f.needs("spool_number")
	return f.body(field{"spool_number", scanned}, field{"estimated_weight_grams", number})
}

func exchange(f *form) map[string]any {
	f.needs("spool_number")
	body := f.body(field{"spool_number", scanned}, field{"used_grams", number}, field{"until_empty", optionalFlag})
	if body["used_grams"] != nil && body["until_empty"] == true {
		f.Errors["used_grams"] = f.read.visit.t("Leave it empty if the spool was used until it was empty.")
	}
	return body
}
