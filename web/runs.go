package web

import (
	"cmp"
	"fmt"
	"html/template"
	"strings"

	"spoolwright/production"
)

// runDetails is a production run, as the API returns it.
type runDetails struct {
	run
	costs
	Notes        string `json:"notes"`
	FailureNotes string `json:"failure_notes"`
	ActualHours  num    `json:"actual_print_time_hours"`
	Items        []struct {
		ID         string
		ProductID  string `json:"product_id"`
		Product    string `json:"product_name"`
		Quantity   num
		Successful num `json:"successful_quantity"`
		Failed     num `json:"failed_quantity"`
	}
	Materials []struct {
		ID       string
		SpoolID  string `json:"spool_id"`
		Spool    string `json:"spool_name"`
		Estimate num    `json:"estimated_weight_grams"`
		Actual   num    `json:"actual_weight_grams"`
		Reported num    `json:"reported_grams"`
		Outside  num    `json:"outside_grams"`
	}
	Warnings []struct{ Detail string }
}

// Name returns what a person calls the run.
func (r run) Name() string {
	if r.PrinterName == "" {
		return "Without a printer"
	}
	return r.PrinterName
}

// IsOpen reports whether the run can be completed.
func (r run) IsOpen() bool {
	return !r.Deducted && r.Status != "failed" && r.Status != "cancelled"
}

// runColumn is a column of the board of runs.
type runColumn struct {
	Name  string `json:"-"`
	Empty string `json:"-"` // what the column says without runs
	Items []run
	Total int
}

// Cards returns the runs of the column.
func (c runColumn) Cards(v view) template.HTML {
	var cards rows
	for _, r := range c.Items {
		var words []string
		if r.Status == "failed" || r.Status == "cancelled" {
			words = append(words, r.State())
		}
		if grams := cmp.Or(r.Grams, r.Estimate); grams != "" {
			words = append(words, v.Grams(grams))
		}
		if r.Status == "in_progress" || r.Status == "paused" {
			words = append(words, v.Until(r.Status, r.StartedAt, r.End()))
		} else {
			words = append(words, v.Date(r.When()))
		}
		cards.add(`<li><a class="card" href="/runs/{}"><b>{}</b><small>{}</small></a></li>`+"\n", r.ID, r.Name(),
			strings.Join(words, " · "))
	}
	return cards.html()
}

// runsThatPrint are the runs that print or are paused.
const runsThatPrint = "/api/v1/production-runs?status=in_progress,paused&limit=100"

// board shows the runs by what has to be done with them.
func board(v *visit) error {
	planned := runColumn{Name: "Planned", Empty: "Nothing is planned."}
	printing := runColumn{Name: "Printing", Empty: "Nothing prints."}
	waiting := runColumn{Name: "To be confirmed", Empty: "No run waits for you."}
	done := runColumn{Name: "Done", Empty: "Nothing was printed yet."}
	var active, completed, failed struct{ Items []run }
	if err := v.fetch(
		get("/api/v1/production-runs?status=pending&limit=30", &planned),
		get(runsThatPrint, &active),
		get("/api/v1/production-runs?status=completed&limit=50", &completed),
		get("/api/v1/production-runs?status=failed,cancelled&limit=20", &failed),
	); err != nil {
		return err
	}
	for _, r := range active.Items {
		if r.hasEnded(v.Now()) {
			waiting.Items = append(waiting.Items, r)
		} else {
			printing.Items = append(printing.Items, r)
		}
	}
	for _, r := range append(completed.Items, failed.Items...) {
		if r.Status == "completed" && !r.Deducted {
			waiting.Items = append(waiting.Items, r)
		} else if len(done.Items) < 20 {
			done.Items = append(done.Items, r)
		}
	}
	return v.show(200, "runs", "Runs", []runColumn{planned, printing, waiting, done})
}

// runPage is the page of a run.
type runPage struct {
	forms
	Run   runDetails
	Check struct {
		Steps []struct {
			Detail  string
			SpoolID string `json:"spool_id"`
		}
	}
	Reasons  []option
	Outcome  []runOutcome
	Weights  []runWeight
	Complete *form
	Fail     *form
}

// runOutcome is the inputs of an item of a run, and runWeight those of a material.
type runOutcome struct {
	ID, Product  string
	Good, Failed input
}

type runWeight struct {
	ID             string
	Actual, Wasted input
	Outside        string // asks whether what left the spool without a run is the run's, or ""
}

func showRun(v *visit) error { return v.runPage(200, "", nil) }

// runPage shows a run. If f is not nil, it is the form with the name, which the API has refused.
func (v *visit) runPage(status int, name string, f *form) error {
	p := &runPage{forms: v.forms(strings.Replace(name, "cancel", "fail", 1), f), Reasons: failureReasons}
	p.Complete, p.Fail = p.Form("complete"), p.Form("fail")
	if err := v.fetch(get("/api/v1/production-runs/{id}", &p.Run),
		get("/api/v1/production-runs/{id}/check", &p.Check)); err != nil {
		return err
	}
	for i, m := range p.Run.Materials {
		hint := "hint="
		if m.Reported != "" {
			hint += "Printers reported " + v.Grams(m.Reported) + "."
		}
		w := runWeight{ID: m.ID,
			Actual: p.Complete.rowInput("materials", i, "actual_weight_grams", m.Spool,
				cmp.Or(m.Actual, m.Reported, m.Estimate), "unit=g", hint),
			Wasted: p.Fail.rowInput("materials", i, "wasted_grams", m.Spool, m.Reported, "unit=g", hint)}
		if m.Outside != "" {
			w.Outside = "The weight contains " + v.Grams(m.Outside) + " that left this spool without a run since the start"
		}
		p.Weights = append(p.Weights, w)
	}
	for i, item := range p.Run.Items {
		p.Outcome = append(p.Outcome, runOutcome{item.ID, item.Product,
			p.Complete.rowInput("items", i, "successful_quantity", "Good", cmp.Or(item.Successful, item.Quantity)),
			p.Complete.rowInput("items", i, "failed_quantity", "Failed", cmp.Or(item.Failed, "0"))})
	}
	return v.show(status, "run", p.Run.Name(), p)
}

// failureReasons are the reasons of the API.
var failureReasons = labeled(production.FailureReason("").Enum())

// rowInput returns the input of a number in a row of a nested list.
func (f *form) rowInput(list string, row int, name, label string, value num, more ...string) input {
	return newInput(f, fmt.Sprintf("%s[%d].%s", list, row, name), label,
		append(more, "type=number", "value="+f.read.text(value))...)
}

// putRows sets the objects of a nested list of a body: inputs such as items[0].sku. Those whose fields are all empty,
// except for the id, are left out, and so is a list without objects.
func (f *form) putRows(body map[string]any, list string, fields ...field) {
	var all []map[string]any
	for i := 0; ; i++ {
		row, here, filled := map[string]any{}, false, false
		for _, in := range fields {
			name := fmt.Sprintf("%s[%d].%s", list, i, in.name)
			if _, ok := f.Values[name]; !ok {
				continue
			}
			here = true
			if value := f.value(field{name, in.kind}); value != nil {
				row[in.name] = value
				filled = filled || in.name != "id"
			}
		}
		if filled {
			all = append(all, row)
			body[list] = all
		}
		if !here {
			return
		}
	}
}

var oneRun = resource{"/api/v1/production-runs", "/runs", (*visit).runPage}

func completion(f *form) map[string]any {
	body := map[string]any{}
	f.putRows(body, "materials", field{"id", text}, field{"actual_weight_grams", number},
		field{"count_outside_use", perhaps})
	f.putRows(body, "items", field{"id", text}, field{"successful_quantity", number}, field{"failed_quantity", number})
	return body
}

func failure(f *form) map[string]any {
	body := f.body(field{"reason", text}, field{"notes", text})
	f.putRows(body, "materials", field{"id", text}, field{"wasted_grams", number},
		field{"count_outside_use", perhaps})
	return body
}

// newRun is the page of a new run.
type newRun struct {
	Form      *form
	Items     [][2]input // product and pieces
	Materials [][2]input // spool and weight
	Spools    []option
	OrderItem string
	More      bool // the form was sent, so that all its rows are shown
}

func showNewRun(v *visit) error {
	f := v.newForm()
	query := v.r.URL.Query()
	f.Values.Set("items[0].product_id", query.Get("product"))
	f.Values.Set("items[0].order_item_id", query.Get("order_item"))
	f.Values.Set("items[0].quantity", query.Get("quantity"))
	return v.newRun(200, f)
}

func (v *visit) newRun(status int, f *form) error {
	var all struct{ Items []product }
	var stock struct{ Items []spool }
	if err := v.fetch(
		get(productsByName, &all),
		get(spoolsInStock, &stock),
	); err != nil {
		return err
	}
	p := &newRun{Form: f, More: status != 200, OrderItem: f.Values.Get("items[0].order_item_id")}
	options := productOptions(all.Items, "")
	for i := range 4 {
		product := newInput(f, fmt.Sprintf("items[%d].product_id", i), "Product")
		product.Options = options
		p.Items = append(p.Items, [2]input{product, f.rowInput("items", i, "quantity", "Pieces", "")})
		p.Materials = append(p.Materials, [2]input{
			f.rowInput("materials", i, "spool_number", "Spool number", "", "list=spools"),
			f.rowInput("materials", i, "estimated_weight_grams", "Estimate", "", "unit=g")})
	}
	p.Spools = v.spoolOptions(stock.Items)
	return v.show(status, "run-new", "New run", p)
}

func createRun(v *visit) error {
	f := v.sent()
	body := f.body(field{"printer_name", text}, field{"estimated_print_time_hours", number}, field{"notes", text})
	f.putRows(body, "items", field{"product_id", text}, field{"quantity", number}, field{"order_item_id", text})
	f.putRows(body, "materials", field{"spool_number", number}, field{"estimated_weight_grams", number})
	var created struct{ ID string }
	ok, err := v.send(f, "POST", "/api/v1/production-runs", body, &created)
	return v.then(ok, err, "/runs/"+created.ID, func() error { return v.newRun(422, f) })
}
