package web

import (
	"cmp"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"
)

// todayPage is the first page.
type todayPage struct {
	Machines          found[printer]
	Printing, Waiting []run // Printing are the runs without one of the printers
	Orders            found[order]
	Low               found[stockLevel]
	Open              struct {
		Items []struct {
			ID       string `json:"order_id"`
			CanPrint bool   `json:"can_print"`
			Missing  num    `json:"missing_grams"`
		}
	}
	Usage usageReport
	Waste wasteReport
}

// Prints returns the printers, and the runs that print elsewhere.
func (p *todayPage) Prints(v view) template.HTML {
	var list rows
	for _, m := range p.Machines.Items {
		if m.Run != nil {
			list.add(`<li class="machine"><b><a href="/runs/{}">{}</a></b><span class="amount">`, m.Run.ID, m.Name)
			list.add(`{}`, v.Until(m.Run.Status, m.Run.StartedAt, m.Run.End()))
		} else {
			list.add(`<li class="machine"><b><a href="/printers/{}">{}</a></b><span class="amount">`, m.ID, m.Name)
			list.add(`<span class="muted">{}</span>`, cmp.Or(m.State(), "Free"))
		}
		list.when(m.Due, ` <span class="late">Maintenance</span>`)
		list.add(`</span>`)
		var spools []string
		for _, l := range m.Loaded {
			spools = append(spools, "#"+strconv.FormatInt(l.Number, 10)+" "+l.Name)
		}
		list.some(`<small>{}</small>`, strings.Join(spools, " · "))
		list.add(`</li>`)
	}
	return list.html() + p.Runs(v, p.Printing)
}

// Runs returns runs with until when they print.
func (p *todayPage) Runs(v view, runs []run) template.HTML {
	var list rows
	for _, r := range runs {
		list.add(`<li><b><a href="/runs/{}">{}</a></b><span class="amount">{}</span></li>`, r.ID,
			cmp.Or(r.PrinterName, "No printer"), v.Until(r.Status, r.StartedAt, r.End()))
	}
	return list.html()
}

// Due returns the open orders.
func (p *todayPage) Due(v view) template.HTML {
	var list rows
	for _, o := range p.Orders.Items {
		words := o.State()
		if o.Customer != "" {
			words = o.Customer + " · " + words
		}
		list.add(`<li><div><b><a href="/orders/{}">{}</a></b><small>{}</small><small>{}</small></div>`, o.ID, o.Name(),
			words, label(p.verdict(v, o.ID)))
		list.add(`<span class="amount{}">{}</span></li>`, o.late(v.visit), v.Day(o.DueDate))
	}
	return list.html()
}

// Bars returns the bars of the picture, one for each of the last 30 days, of which the highest has 100 units. It
// returns nothing if no filament was used.
func (p *todayPage) Bars(v view) template.HTML {
	grams, most := map[string]num{}, 0.0
	for _, item := range p.Usage.Items {
		grams[item.Start] = item.Grams
		most = max(most, value(item.Grams))
	}
	if most == 0 {
		return ""
	}
	var list rows
	for i := range 30 {
		day := v.Now().AddDate(0, 0, i-29).Format(time.DateOnly)
		height := max(0, value(grams[day])) / most * 100
		list.add(`<rect x="{}" y="{}" width="8" height="{}"><title>{}: {}</title></rect>`,
			strconv.Itoa(10*i), coordinate(100-height), coordinate(height), v.Day(day),
			v.Grams(cmp.Or(grams[day], "0")))
	}
	return list.html()
}

// verdict returns whether an open order can be printed, or what is missing.
func (p *todayPage) verdict(v view, id string) string {
	for _, o := range p.Open.Items {
		switch {
		case o.ID == id && o.CanPrint:
			return "can be printed"
		case o.ID == id:
			return v.Kilos(o.Missing) + " missing"
		}
	}
	return ""
}

// today shows what happens in the farm.
func today(v *visit) error {
	var p todayPage
	var runs struct{ Items []run }
	err := v.fetch(
		get(runsThatPrint, &runs),
		get("/api/v1/printers?status=available,maintenance&sort_by=name&sort_order=asc&limit=20", &p.Machines),
		get("/api/v1/stock-levels?low=true&limit=5&sort_by=missing_grams", &p.Low),
		get("/api/v1/orders?status=received,in_production&sort_by=due_date&sort_order=asc&limit=6", &p.Orders),
		get("/api/v1/orders/availability", &p.Open),
		get("/api/v1/reports/usage?group_by=day", &p.Usage),
		get("/api/v1/reports/waste?group_by=reason", &p.Waste),
	)
	if err != nil {
		return err
	}
	now := v.Now()
	for _, r := range runs.Items {
		i := slices.IndexFunc(p.Machines.Items, func(m printer) bool { return m.ID == r.PrinterID && m.Run == nil })
		switch {
		case r.hasEnded(now):
			p.Waiting = append(p.Waiting, r)
		case i >= 0:
			p.Machines.Items[i].Run = &r
		default:
			p.Printing = append(p.Printing, r)
		}
	}
	return v.show(200, "today", "Today", &p)
}
