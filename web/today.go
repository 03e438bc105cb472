package web

import (
	"cmp"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"spoolwright/value"
	"spoolwright/value/language"
)

// todayPage is the page Today, the first page: tasks in the order of work.
type todayPage struct {
	Form                     *form
	Confirm, Ready, Printing found[run]
	Printers                 found[printerState] // first those that need a person
	Needs                    []*printerState     // those of them
	Free, Away, Due, Unknown []printerState      // free ones, in maintenance, those that need it, and with unknown spools
	Orders                   found[order]
	ToPack                   int               // the number of orders whose pieces are all in stock
	Levels                   found[stockLevel] // those that miss the most grams first
	Open                     struct {
		Items []struct {
			ID       string `json:"order_id"`
			CanPrint bool   `json:"can_print"`
			Missing  num    `json:"missing_grams"`
		}
	}
	Usage usageReport
	Waste wasteReport
	Steps *firstSteps // nil if the farm or the visitor needs none
}

// shownToday is the maximum number of rows of a part of the page, and longestPrinter the maximum length of the name of
// a printer in a sentence, so that it takes at most two lines.
const shownToday, longestPrinter = 8, 40

// Rows returns the HTML of rows of runs. If do is not nil, each row has the button for the work.
func (p *todayPage) Rows(v view, runs []run, do *work) template.HTML {
	var list rows
	for i, r := range runs[:min(len(runs), shownToday)] {
		list.add(`<li class="run">`)
		if r.Print != nil {
			list.picture(r.ring(v, thumbOf(r.Items)))
		} else {
			list.picture(thumbOf(r.Items))
		}
		words := r.about()
		if do == workStart {
			for _, s := range r.Spools[:min(len(r.Spools), shownSwatches)] {
				words = append(words, s.Name())
			}
		} else if do != nil && r.End() != nil {
			words = append(words, v.Until(r.Status, r.StartedAt, r.End()))
		}
		list.add(`<div><b><a href="/runs/{}">{}</a></b> <p><small>`, r.ID, r.Title(v))
		list.picture(r.Swatches())
		list.add(`{}</small>`, strings.Join(words, " · "))
		if do == nil {
			list.add(` <span class="amount">{}</span>`, v.Until(r.Status, r.StartedAt, r.End()))
		}
		list.add(`</p>`)
		if r.Print == nil {
			list.picture(r.Bar(v))
		}
		list.add(`</div>`)
		if do != nil && v.CanWrite() {
			do.button(v.visit, &list, r, p.Form.Key+strconv.Itoa(i), "/")
		}
		list.add("</li>\n")
	}
	return list.html()
}

// Ring returns the picture of what a printer prints, in the ring of its progress.
func (p *todayPage) Ring(v view, s *printerState) template.HTML {
	for _, r := range p.Printing.Items {
		if r.PrinterID == s.ID {
			return s.Ring(v, r.Thumb())
		}
	}
	return s.Ring(v, "")
}

// Soonest returns the orders that the page shows.
func (p *todayPage) Soonest() []order { return p.Orders.Items[:min(len(p.Orders.Items), shownToday)] }

// Low returns the levels that are low, of those that the page has read.
func (p *todayPage) Low() []stockLevel {
	levels := p.Levels.Items
	if n := slices.IndexFunc(levels, func(l stockLevel) bool { return !l.Low }); n >= 0 {
		return levels[:n]
	}
	return levels
}

// CountLow returns the number of levels that are low, with a plus if there can be more.
func (p *todayPage) CountLow(v view) string {
	low := len(p.Low())
	if low == len(p.Levels.Items) && low < p.Levels.Total {
		return v.Count(low) + "+"
	}
	return v.Count(low)
}

// Groups returns the groups of printers that the page names, with their names.
func (p *todayPage) Groups() []printerGroup {
	return []printerGroup{{"Free|printers", p.Free, false}, {"In maintenance", p.Away, false},
		{"Maintenance due", p.Due, true}, {"Unknown spools in|printers", p.Unknown, true}}
}

// More says how many printers of a group with n printers the page does not name. If the page has read only some of the
// printers, it does not know how many.
func (p *todayPage) More(v view, n int) string {
	if n > shownToday && len(p.Printers.Items) < p.Printers.Total {
		return v.t("and more|printers")
	}
	return v.More(n, shownToday)
}

type printerGroup struct {
	Name     language.Text
	Printers []printerState
	IsLate   bool
}

// ToConfirm, ToStart and Now return the HTML of the rows of the parts.
func (p *todayPage) ToConfirm(v view) template.HTML { return p.Rows(v, p.Confirm.Items, workConfirm) }
func (p *todayPage) ToStart(v view) template.HTML   { return p.Rows(v, p.Ready.Items, workStart) }
func (p *todayPage) Now(v view) template.HTML       { return p.Rows(v, p.Printing.Items, nil) }

// bar is a bar of the picture of the last 30 days. The highest bar has a height of 100 units, and that of a day
// without use a height of 1.
type bar struct {
	X         int
	Y, Height string
	Day       string
	Grams     num
	IsEmpty   bool
}

// Bars returns the bars of the last 30 days, or nil if no filament was used.
func (p *todayPage) Bars(v view) (bars []bar) {
	rows, most := p.Usage.filled("day", v.Now()), 0.0
	for _, row := range rows {
		most = max(most, float(row.Grams))
	}
	if most == 0 {
		return nil
	}
	for i, row := range rows {
		b := bar{X: 10 * i, Y: "99", Height: "1", Day: row.Start, Grams: row.Grams}
		if height := float(b.Grams) / most * 100; height > 0 {
			b.Y, b.Height = coordinate(100-height), coordinate(height)
		} else {
			b.IsEmpty = true
		}
		bars = append(bars, b)
	}
	return bars
}

// Verdict returns whether the open order with the id can be printed, or how much filament is missing, in words.
func (p *todayPage) Verdict(v view, id string) string {
	for _, o := range p.Open.Items {
		switch {
		case o.ID == id && o.CanPrint:
			return v.t("Can be printed")
		case o.ID == id:
			return v.t("%s missing|filament", v.Kilos(o.Missing))
		}
	}
	return ""
}

// today shows the page Today.
func today(v *visit) error { return v.today(200, nil) }

// today shows the page Today. If place is not nil, it is the form of the time zone that the API has refused.
func (v *visit) today(status int, place *form) error {
	p := todayPage{Form: v.newForm()}
	var err error
	if p.Steps, err = v.firstSteps(place); err != nil {
		return err
	}
	err = v.fetch(
		get(runsToConfirm+"&limit=8", &p.Confirm),
		get(runsToStart+"&limit=8", &p.Ready),
		get(runsThatPrint, &p.Printing),
		get("/api/v1/printer-states?printer_status=available,maintenance&sort_by=needs_person&limit=50", &p.Printers),
		get("/api/v1/stock-levels?limit=10&sort_by=missing_grams", &p.Levels),
		get("/api/v1/orders?status=received,in_production&sort_by=due_date&sort_order=asc&limit=15", &p.Orders),
		get("/api/v1/orders/availability", &p.Open),
		get("/api/v1/reports/usage?group_by=day", &p.Usage),
		get("/api/v1/reports/waste?group_by=reason", &p.Waste),
	)
	if err != nil {
		return err
	}
	if p.ToPack, err = v.toPack(p.Orders); err != nil {
		return err
	}
	busy := map[string]bool{}
	for _, r := range p.Printing.Items {
		busy[r.PrinterID] = true
	}
	value.Sort(p.Printers.Items, func(a, b printerState) int { return cmp.Compare(a.Printer, b.Printer) })
	for i, one := range p.Printers.Items {
		if one.Needs {
			p.Needs = append(p.Needs, &p.Printers.Items[i])
		}
		one.Printer = value.Shorten(one.Printer, longestPrinter)
		switch {
		case one.Status != "available":
			p.Away = append(p.Away, one)
		case !busy[one.ID] && !one.Question && (!one.Watched || one.State == "idle"):
			p.Free = append(p.Free, one)
		}
		if one.Due {
			p.Due = append(p.Due, one)
		}
		var unknown []string
		for _, s := range one.Slots {
			if s.Unknown {
				unknown = append(unknown, s.Slot)
			}
		}
		if unknown != nil {
			one.Printer += " (" + commas(v, unknown) + ")"
			p.Unknown = append(p.Unknown, one)
		}
	}
	p.Printing = stillPrinting(v, p.Printing)
	return v.show(status, "today", v.t("Today"), &p)
}

// toPack returns the number of orders that are ready to pack. It reads it if the page does not have all open orders.
func (v *visit) toPack(open found[order]) (int, error) {
	var ready found[order]
	if open.Total > len(open.Items) {
		err := v.fetch(get("/api/v1/orders?ready=true&limit=1", &ready))
		return ready.Total, err
	}
	for _, o := range open.Items {
		if o.ReadyAt != nil {
			ready.Total++
		}
	}
	return ready.Total, nil
}

// figure is a figure at the head of the page.
type figure struct {
	Value, Label, Path string
	IsLate             bool
}

// Figures returns the figures at the head of the page, or nil if there is nothing to count.
func (p *todayPage) Figures(v view) []figure {
	prints, due, isLate, wasted := 0, 0, false, 0.0
	for _, r := range p.Printing.Items {
		if r.Status == "in_progress" {
			prints++
		}
	}
	printing := v.Count(prints)
	if prints <= p.Printers.Total {
		printing = v.t("%d of %d", prints, p.Printers.Total)
	}
	now := v.Now()
	today, monday := now.Format(time.DateOnly), monday(now).Format(time.DateOnly)
	for _, o := range p.Orders.Items {
		if o.DueDate != "" && o.DueDate <= today {
			due++
			isLate = isLate || o.DueDate < today
		}
	}
	isDue, label := v.Count(due), v.t("Due today")
	if isLate {
		label = v.t("Due or late")
	}
	if due == len(p.Orders.Items) && due < p.Orders.Total {
		isDue += "+"
	}
	for _, day := range p.Usage.Items {
		if day.Start >= monday {
			wasted += float(day.Wasted)
		}
	}
	if p.Printing.Total+p.Printers.Total+p.Orders.Total+p.Levels.Total+len(p.Usage.Items) == 0 {
		return nil
	}
	return []figure{{printing, v.t("Printing"), "/printers", false}, {isDue, label, "/orders", isLate},
		{v.Count(p.ToPack), v.t("Ready to pack"), "/orders?ready=true", false},
		{p.CountLow(v), v.t("Low stock"), "/stock?low=true", len(p.Low()) > 0},
		{v.Grams(num(trimFloat(wasted))), v.t("Waste this week"), "/reports", false}}
}

// stillPrinting returns the runs that should not have ended yet, in the order of their ends. Runs without a known end
// come last.
func stillPrinting(v *visit, all found[run]) found[run] {
	now := v.Now()
	before := len(all.Items)
	all.Items = slices.DeleteFunc(all.Items, func(r run) bool { return r.hasEnded(now) })
	all.Total -= before - len(all.Items)
	value.Sort(all.Items, func(a, b run) int {
		x, y := a.End(), b.End()
		switch {
		case x == nil || y == nil || a.Status != b.Status:
			return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(rank(y), rank(x)))
		}
		return x.Compare(*y)
	})
	return all
}

// rank returns 1 for a known time and 0 for nil.
func rank(t *time.Time) int {
	if t == nil {
		return 0
	}
	return 1
}
