package web

import (
	"html/template"
	"slices"
	"time"
)

// todayPage is the page Today, which is the first page.
type todayPage struct {
	Machines          found[printer]
	Printing, Waiting []run // Printing: runs that no printer in Machines shows; Waiting: runs that should have ended
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

// Runs returns the HTML of the rows of runs, with the end of each run. With a template, the page was 33 % slower for
// 50 runs.
func (p *todayPage) Runs(v view, runs []run) template.HTML {
	var list rows
	for _, r := range runs {
		list.add(`<li><b><a href="/runs/{}">{}</a></b> <span class="amount">{}</span></li>`, r.ID,
			r.Title(), v.Until(r.Status, r.StartedAt, r.End()))
	}
	return list.html()
}

// bar is a bar of the picture of the last 30 days. The highest bar has a height of 100 units.
type bar struct {
	X         int
	Y, Height string
	Day       string
	Grams     num
}

// Bars returns the bars of the days on which filament was used.
func (p *todayPage) Bars(v view) (bars []bar) {
	grams, most := map[string]num{}, 0.0
	for _, item := range p.Usage.Items {
		grams[item.Start] = item.Grams
		most = max(most, float(item.Grams))
	}
	for i := range 30 {
		day := v.Now().AddDate(0, 0, i-29).Format(time.DateOnly)
		if height := float(grams[day]) / most * 100; height > 0 {
			bars = append(bars, bar{10 * i, coordinate(100 - height), coordinate(height), day, grams[day]})
		}
	}
	return bars
}

// Verdict returns whether the open order with the id can be printed, or how much filament is missing, in words.
func (p *todayPage) Verdict(v view, id string) string {
	for _, o := range p.Open.Items {
		switch {
		case o.ID == id && o.CanPrint:
			return "Can be printed"
		case o.ID == id:
			return v.Kilos(o.Missing) + " missing"
		}
	}
	return ""
}

// today shows the page Today.
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
