package web

import (
	"html/template"
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
}

// longestTimeline is the time that a timeline shows at most: later runs are in the list below it.
const longestTimeline = 7 * 24 * time.Hour

// timeline returns the picture of runs over time, with a row for each printer, or "" without a run with a time. The
// runs of a printer follow each other. Due is when the pieces must be ready, or nil. People who do not see the picture
// use the list below it.
func (v *visit) timeline(bars []timeBar, due *time.Time) template.HTML {
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
		row := printers[i]
		if n := len(row); n > 0 && b.Key != "" && row[n-1].Key == b.Key && row[n-1].End != nil {
			row[n-1].Pieces += b.Pieces
			row[n-1].End = b.End
			continue
		}
		printers[i] = append(row, b)
	}
	if len(printers) == 0 {
		return ""
	}
	if due != nil && due.After(to) && due.Sub(now) < longestTimeline/7 {
		to = *due
	}
	if to.Sub(from) > longestTimeline {
		to = from.Add(longestTimeline)
	}
	percent := func(t time.Time) float64 {
		return min(100, max(0, 100*t.Sub(from).Seconds()/to.Sub(from).Seconds()))
	}
	var list rows
	mark := func(t *time.Time, class literal) {
		if t != nil && !t.Before(from) && !t.After(to) {
			at := coordinate(percent(*t)) + "%"
			list.add(`<line class="`+class+`" x1="{}" x2="{}" y2="100%"/>`, at, at)
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
			list.add(` title="{}">`, b.name()+" · "+v.Clock(b.Start)+" – "+v.Clock(b.End))
			list.picture(b.Sign)
			list.add(`{}</a></foreignObject></svg>`, b.name())
		}
		mark(&now, "now")
		mark(due, "due")
		list.add(`</svg>`)
	}
	list.add(`</div>`)
	return list.html()
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
			Start: r.Start, End: r.End}
		if n, err := strconv.Atoi(string(r.firstQuantity())); err == nil && r.Status == "pending" {
			bar.Pieces, bar.Title = n, r.Items[0].Product
			bar.Key = r.Items[0].ProductID + string(r.Swatches())
		}
		if bar.End == nil && r.Status != "pending" {
			bar.End = r.PrintsUntil()
		}
		bars = append(bars, bar)
	}
	return v.timeline(bars, nil)
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
			Key: r.ProductID, Start: r.Start, End: r.End})
	}
	var due *time.Time
	if day, err := time.ParseInLocation(time.DateOnly, p.Order.DueDate, v.zone); err == nil {
		day = day.AddDate(0, 0, 1)
		due = &day
	}
	return v.timeline(bars, due)
}
