package web

import (
	"cmp"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// runStates are the options of the filter by state, with the parameters of the API.
var runStates = []struct {
	name             string
	label            language.Text
	parameter, value string
}{
	{"confirm", "To confirm", "needs", "confirmation"},
	{"ready", "Ready to start", "needs", "start"},
	{"planned", "Planned", "status", "pending"},
	{"printing", "Printing", "status", "in_progress,paused"},
	{"ended", "Ended|runs", "status", "completed,failed,cancelled"},
	{"completed", "Completed", "status", "completed"},
	{"failed", "Failed", "status", "failed"},
	{"cancelled", "Cancelled", "status", "cancelled"},
}

// runFilters are the filters of the list of all runs. Those without options have pickers, and the months depend on the
// day.
var runFilters = []filter{searchFilter, {"status", "status", "State", []word{anything}},
	{"month", "month", "Month", []word{anything}},
	{"reason", "failure_reason", "Reason", append([]word{anything}, failureReasons...)},
	{"product", "product_id", "Product", nil}, {"printer", "printer_id", "Printer", nil},
	{"order", "order_id", "Order", nil}, {"spool", "spool_id", "Spool", nil}}

type allRuns struct {
	listing
	Items []run
	Form  *form // the pickers of the filters
}

// months is the number of months that the page offers.
const months = 24

// showAllRuns shows the list of all runs. A month is that of the end of a run.
func showAllRuns(v *visit) error {
	p := &allRuns{Form: v.asked()}
	var query url.Values
	p.listing, query = v.listing("/runs/all", runNoun, slices.Clone(runFilters),
		[]listOrder{{"", "Newest first", "created_at", "desc"}}, column{label: "Run"},
		column{label: "State", by: "status", falls: true}, column{label: "Filament", class: "amount wide"},
		column{label: "Time|a duration", class: "amount wide"},
		column{label: "When", class: "amount"})
	if p.Form.failed != nil {
		return p.Form.failed
	}
	for _, f := range p.filters {
		if h := p.Form.hits[f.name]; p.Form.Errors[f.name] != "" && (h == nil || len(h.Items) == 0) {
			p.Problem = p.Form.Errors[f.name]
		}
		if f.options == nil && f.name != "search" {
			p.Filter.Del(f.name)
			query.Del(f.parameter)
			if chosen := p.Form.Values.Get(f.name); chosen != "" {
				p.Filter.Set(f.name, chosen)
				query.Set(f.parameter, chosen)
			}
		}
	}
	for i := range p.filters {
		f := &p.filters[i]
		f.options = slices.Clone(f.options)
		switch f.name {
		case "status":
			for _, s := range runStates {
				f.options = append(f.options, word{s.name, s.label})
			}
		case "month":
			first := v.Now().AddDate(0, 0, 1-v.Now().Day())
			for i := range months {
				month := first.AddDate(0, -i, 0)
				p.offer(f.name, option{month.Format("2006-01"), v.month(month)})
			}
		}
	}
	if err := p.narrow(v, query); err != nil {
		return err
	}
	for _, in := range p.Inputs() {
		if chosen := p.Filter.Get(in.Name); chosen != "" {
			p.offer(in.Name, option{chosen, in.chosen(in.Value()).Name})
		}
	}
	if p.Problem == "" {
		if err := p.refused(v.fetch(read{path: "/api/v1/production-runs", query: query, into: p})); err != nil {
			return err
		}
	}
	return v.show(p.status(), "runs-all", v.t("All runs"), p)
}

// narrow changes the parameters of the API that differ from the filters of the page. It adds selected values of the
// address to the choices that lack them.
func (p *allRuns) narrow(v *visit, query url.Values) error {
	if state := query.Get("status"); state != "" {
		for _, s := range runStates {
			if s.name == state {
				query.Del("status")
				query.Set(s.parameter, s.value)
			}
		}
	}
	if month := query.Get("month"); month != "" {
		query.Del("month")
		first, err := time.Parse("2006-01", month)
		if err != nil {
			p.Problem = v.t("The month must be such as %s.", "2026-01")
			return nil
		}
		query.Set("completed_from", first.Format(time.DateOnly))
		query.Set("completed_to", first.AddDate(0, 1, 0).Format(time.DateOnly))
		p.choose("month", v.month(first))
	}
	p.narrowDays(v, query)
	return p.findSpool(v, query)
}

// narrowDays selects the runs that ended in the days from and to of the address, to which reports lead. It ignores days
// that are not valid.
func (p *allRuns) narrowDays(v *visit, query url.Values) {
	from, to := v.r.URL.Query().Get("from"), v.r.URL.Query().Get("to")
	_, err := time.Parse(time.DateOnly, from)
	last, failed := time.Parse(time.DateOnly, to)
	if err == nil && failed == nil && from <= to && query.Get("completed_from") == "" {
		p.Filter.Set("from", from)
		p.Filter.Set("to", to)
		query.Set("completed_from", from)
		query.Set("completed_to", last.AddDate(0, 0, 1).Format(time.DateOnly))
	}
}

// Chips returns the filters that are set, with the days.
func (p *allRuns) Chips() []chip {
	chips := p.listing.Chips()
	if from, to := p.Filter.Get("from"), p.Filter.Get("to"); from != "" {
		days := p.visit.t("From %s to %s|two days", p.visit.OnDay(from), p.visit.OnDay(to))
		chips = append(chips, chip{"", days, p.without("from", "to")})
	}
	return chips
}

// Inputs returns the pickers of the filters, with the names of what was chosen.
func (p *allRuns) Inputs() []input {
	all := []input{newInput(p.Form, "product", "Product", "find=products", "none=Any product"),
		newInput(p.Form, "printer", "Printer", "find=any-printers", "none=Any printer"),
		newInput(p.Form, "order", "Order", "find=orders", "none=Any order"),
		newInput(p.Form, "spool", "Spool", "find=any-spools", "none=Any spool")}
	for i, in := range all {
		for _, o := range p.data[in.Name] {
			all[i].Named = o.Name
		}
	}
	return all
}

// findSpool replaces the number of a spool, which the address may have instead of the id, by the id.
func (p *allRuns) findSpool(v *visit, query url.Values) error {
	text := query.Get("spool_id")
	if text == "" {
		return nil
	}
	var all struct{ Items []spool }
	by := url.Values{"archived": {"any"}}
	if id, ok := value.ParseID(text); ok {
		by.Set("id", id)
	} else {
		f := v.newForm()
		f.Values.Set("spool", text)
		n, ok := f.value(field{"spool", scanned}).(num)
		if number, err := strconv.Atoi(string(n)); !ok || err != nil || number < 1 || number > server.MaxNumber {
			p.Problem = v.t("The spool must be the number of a spool, such as 12.")
			return nil
		}
		by.Set("number", string(n))
	}
	if err := v.fetch(read{path: "/api/v1/spools", query: by, into: &all}); err != nil {
		return err
	}
	if len(all.Items) == 0 {
		if by.Get("id") == "" {
			p.Problem = v.t("No spool has this number.")
		}
		return nil
	}
	query.Set("spool_id", all.Items[0].ID)
	p.Form.Values.Set("spool", strconv.FormatInt(all.Items[0].Number, 10))
	return nil
}

// offers reports whether the filter has an option with the value.
func (p *allRuns) offers(name, value string) bool {
	for _, f := range p.filters {
		if f.name == name && slices.ContainsFunc(f.options, func(w word) bool { return w.Value == value }) {
			return true
		}
	}
	return slices.ContainsFunc(p.data[name], func(o option) bool { return o.Value == value })
}

// choose adds the selected value of a filter to its options, unless they have it.
func (p *allRuns) choose(name, label string) {
	selected := p.Filter.Get(name)
	for i := range p.filters {
		if p.filters[i].name == name && p.filters[i].options != nil && !p.offers(name, selected) {
			p.offer(name, option{selected, label})
		}
	}
}

// Rows returns the HTML of the rows of the table.
func (p *allRuns) Rows(v view) template.HTML {
	var list rows
	for _, r := range p.Items {
		list.add(`<tr><td><div class="with-swatch">`)
		list.picture(thumbOf(r.Items))
		list.picture(r.Swatches())
		list.add(`<div><a class="title" href="/runs/{}"><b>{}</b></a> <small>{}</small>`, r.ID, r.Title(v), r.About())
		list.picture(r.Bar(v))
		// The reason is in the next line of a narrow column, also in languages that have no space before it.
		state, why, _ := strings.Cut(strings.Replace(r.State(v), "：", "： ", 1), " ")
		list.add(`</div></div></td><td class="words"><span class="short">`)
		list.picture(newMark(r.Status))
		list.add(`{}</span> {}</td><td class="amount wide">{}</td><td class="amount wide">{}</td>`, state, why,
			v.Grams(cmp.Or(r.Grams, r.Estimate)), v.Hours(cmp.Or(r.ActualHours, r.Hours)))
		list.add(`<td class="amount">{}</td></tr>`+"\n", v.Date(r.When()))
	}
	return list.html()
}
