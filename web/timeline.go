package web

import (
	"html/template"
	"slices"
	"strconv"
	"time"
)

// timeBar is a run in a timeline.
type timeBar struct {
	Printer    string
	Key        string // equal runs that follow each other have the same one, and form one bar
	Pieces     int    // of the product with the name Title; 0 if Title says all
	Title      string
	At         string // the address of its page, or ""
	Sign       template.HTML
	Start, End *time.Time
	Orders     []order // that need the pieces
	isLate     bool    // whether a run of the bar ends after one of its orders is due
}

// longestTimeline is the time that a timeline shows at most: later runs are in the list below it.
const longestTimeline = 7 * 24 * time.Hour

// timeline returns the picture of runs over time, with a row for each printer, or "" without a run with a time. The
// runs of a printer follow each other, and marks show when their orders are due. People who do not see the picture use
// the list below it.
func (v *visit) timeline(bars []timeBar) template.HTML {
	now := v.Now()
	from, to := now, now.Add(time.Hour)
	var printers [][]timeBar
	places := map[string]int{}
	for _, b := range bars {
		if b.Start == nil || b.Printer == "" {
			continue
		}
		if b.Start.Before(from) && now.Sub(*b.Start) < longestTimeline/7 {
			from = *b.Start
		}
		if b.End != nil && b.End.After(to) {
			to = *b.End
		}
		i, known := places[b.Printer]
		if !known {
			i = len(printers)
			places[b.Printer], printers = i, append(printers, nil)
		}
		b.isLate = b.endsLate(v)
		row := printers[i]
		if n := len(row); n > 0 && b.Key != "" && row[n-1].Key == b.Key && row[n-1].End != nil {
			row[n-1].Pieces += b.Pieces
			row[n-1].End = b.End
			row[n-1].Orders = append(row[n-1].Orders, b.Orders...)
			row[n-1].isLate = row[n-1].isLate || b.isLate
			continue
		}
		printers[i] = append(row, b)
	}
	if len(printers) == 0 {
		return ""
	}
	until := to
	for _, due := range dueDates(v, bars) { // those that follow soon
		if at := v.dueAt(due.Value); at.Sub(now) < longestTimeline/7 || at.Sub(from) < until.Sub(from)*3/2 {
			to = later(to, at.Add(time.Hour))
		}
	}
	if to.Sub(from) > longestTimeline {
		to = from.Add(longestTimeline)
	}
	percent := func(t time.Time) float64 {
		return min(100, max(0, 100*t.Sub(from).Seconds()/to.Sub(from).Seconds()))
	}
	var list rows
	mark := func(t time.Time, class literal, title string) {
		if !t.Before(from) && !t.After(to) {
			at := coordinate(percent(t)) + "%"
			list.add(`<line class="`+class+`" x1="{}" x2="{}" y2="100%">`, at, at)
			list.some(`<title>{}</title>`, title)
			list.add(`</line>`)
		}
	}
	list.add(`<div class="timeline wide" aria-hidden="true"><span></span><svg>`)
	for i := range 4 {
		t := from.Add(to.Sub(from) * time.Duration(i) / 4)
		list.add(`<text x="{}%" y="60%">{}</text>`, strconv.Itoa(25*i), v.Clock(&t))
	}
	list.add(`</svg>`)
	for _, row := range printers {
		list.add("\n"+`<b>{}</b><svg>`, row[0].Printer)
		for _, b := range row {
			end := to // the end of a run without a print time is not known
			if b.End != nil {
				end = *b.End
			}
			if b.Start.After(to) {
				continue
			}
			x := percent(*b.Start)
			list.add(`<svg x="{}%" width="{}%"><rect width="100%" height="100%" rx="5"/>`+
				`<foreignObject width="100%" height="100%"><a tabindex="-1"`, coordinate(x),
				coordinate(max(1, percent(end)-x)))
			list.some(` href="/{}"`, b.At)
			title := b.name() + " · " + v.Clock(b.Start) + " – " + v.Clock(b.End)
			for _, due := range dueDates(v, []timeBar{b}) {
				title += " · " + due.Name
			}
			list.add(` title="{}">`, title)
			list.picture(b.Sign)
			list.add(`<span`)
			list.when(b.isLate, ` class="late"`)
			list.add(`>{}</span></a></foreignObject></svg>`, b.name())
		}
		mark(now, "now", "")
		for _, due := range dueDates(v, row) {
			mark(*v.dueAt(due.Value), "due", due.Name)
		}
		list.add(`</svg>`)
	}
	list.add(`</div>`)
	return list.html()
}

// endsLate reports whether the run ends after one of its orders is due.
func (b timeBar) endsLate(v *visit) bool {
	end := v.Now()
	if b.End != nil {
		end = later(end, *b.End)
	}
	return slices.ContainsFunc(b.Orders, func(o order) bool {
		due := v.dueAt(o.DueDate)
		return due != nil && due.Before(end)
	})
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// dueAt returns the end of a due date, or nil without one.
func (v *visit) dueAt(date string) *time.Time {
	day, err := time.ParseInLocation(time.DateOnly, date, v.zone)
	if err != nil {
		return nil
	}
	day = day.AddDate(0, 0, 1)
	return &day
}

// dueDates returns the due dates of the orders of bars, each with its text and the names of its orders.
func dueDates(v *visit, bars []timeBar) (dates []option) {
	known := map[string]bool{} // orders by id
	for _, b := range bars {
		for _, o := range b.Orders {
			if known[o.ID] || v.dueAt(o.DueDate) == nil {
				continue
			}
			known[o.ID] = true
			i := slices.IndexFunc(dates, func(d option) bool { return d.Value == o.DueDate })
			if i < 0 {
				i, dates = len(dates), append(dates, option{o.DueDate, v.t("due %s", v.OnDay(o.DueDate))})
			}
			dates[i].Name += " · " + o.Name(v)
		}
	}
	return dates
}

// name returns the pieces and the name of the bar.
func (b *timeBar) name() string {
	if b.Pieces == 0 {
		return b.Title
	}
	return strconv.Itoa(b.Pieces) + " × " + b.Title
}

// Timeline returns the picture of the queue over time.
func (q *queue) Timeline(v view) template.HTML {
	var bars []timeBar
	for _, r := range q.Runs {
		bar := timeBar{Printer: r.Printer, Title: r.Title(v), At: "runs/" + r.ID, Sign: r.Thumb() + r.Swatches(),
			Start: r.Start, End: r.ends(), Orders: r.Orders}
		if n, err := strconv.Atoi(string(r.firstQuantity())); err == nil && r.Status == "pending" {
			bar.Pieces, bar.Title = n, r.Items[0].Product
			bar.Key = r.Items[0].ProductID + string(r.Swatches())
		}
		bars = append(bars, bar)
	}
	return v.timeline(bars)
}

// firstQuantity returns the pieces of the run if it prints one product, or "".
func (r queuedRun) firstQuantity() num {
	if len(r.Items) != 1 {
		return ""
	}
	return r.Items[0].Quantity
}

// Timeline returns the picture of the plan over time.
func (p *planPage) Timeline(v view) template.HTML {
	var bars []timeBar
	for _, r := range p.Plan.Runs {
		sign := thumb(r.ProductID, r.Picture)
		for i, m := range r.Materials {
			if i < shownSwatches {
				sign += newSwatch(m.Color, false)
			}
		}
		bars = append(bars, timeBar{Printer: r.Printer, Title: r.Product, Pieces: r.Quantity, Sign: sign,
			Key: r.ProductID, Start: r.Start, End: r.End, Orders: []order{p.Order}})
	}
	return v.timeline(bars)
}
