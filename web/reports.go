package web

import (
	"cmp"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"spoolwright/production"
	"spoolwright/server"
	"spoolwright/value/language"
)

// reportsPage is the page with the reports of usage and of waste for the same days.
type reportsPage struct {
	From, To, By string
	Usage        usageReport
	Waste        wasteReport
	Rows         []reportRow
	Problem      string

	Before struct { // the period before, for comparison
		From, To string
		Usage    usageReport
		Waste    wasteReport
	}
	Chart *chart
	Unit  string // of the chart: day, week or month
}

// Axis names the weight at the upper edge of the chart.
func (p *reportsPage) Axis(v view) string {
	grams := v.Grams(p.Chart.Top)
	switch p.Unit {
	case "day":
		return v.t("%s in a day", grams)
	case "week":
		return v.t("%s in a week", grams)
	}
	return v.t("%s in a month", grams)
}

type usageReport struct {
	From, To    string
	Grams, Cost num
	Wasted      num `json:"wasted_grams"`    // a part of Grams
	Corrected   num `json:"corrected_grams"` // not a part of Grams
	Unpriced    num `json:"unpriced_grams"`  // a part of Grams
	Lost        num `json:"lost_grams"`      // not a part of Grams
	LostCost    num `json:"lost_cost"`
	Items       []usageRow
}

// Removed and Added return the grams by which weighing and edits have reduced or raised the stock, or "".
func (u usageReport) Removed() num {
	if float(u.Corrected) > 0 {
		return u.Corrected
	}
	return ""
}

func (u usageReport) Added() num {
	if float(u.Corrected) < 0 {
		return u.Corrected[1:]
	}
	return ""
}

// filledDays is the maximum number of days for which a report has a row for each day.
const filledDays = 100

// filled returns a row for each day, week or month of the report until today. The report has none for those without
// use.
func (u usageReport) filled(unit string, today time.Time) (all []usageRow) {
	part, err := time.Parse(time.DateOnly, u.From)
	if err != nil {
		return nil
	}
	months, days := 0, 1
	switch unit {
	case "week":
		part, days = monday(part), 7
	case "month":
		part, months, days = part.AddDate(0, 0, 1-part.Day()), 1, 0
	}
	used := map[string]usageRow{}
	for _, row := range u.Items {
		used[row.Start] = row
	}
	last := min(u.To, today.Format(time.DateOnly))
	for ; part.Format(time.DateOnly) <= last; part = part.AddDate(0, months, days) {
		row := usageRow{Start: part.Format(time.DateOnly), Grams: "0"}
		if found, ok := used[row.Start]; ok {
			row = found
		}
		all = append(all, row)
	}
	return all
}

type wasteReport struct {
	Grams, Cost num
	Unpriced    num `json:"unpriced_grams"`
	failedPieces
	Purge     num `json:"purge_grams"`
	PurgeCost num `json:"purge_cost"`
	Items     []wasteRow
}

type wasteRow struct {
	Reason      string
	Grams, Cost num
	Runs        int
}

// Percent returns the length of the bar of a row: its share of the largest row, which is the first.
func (w wasteReport) Percent(row wasteRow) int {
	if most := float(w.Items[0].Grams); most > 0 {
		return int(float(row.Grams) / most * 100)
	}
	return 0
}

// failedPieces are the good and the failed pieces of runs, with the share of the failed ones.
type failedPieces struct {
	Good      int `json:"pieces"`
	Bad       int `json:"failed_pieces"`
	PieceRate num `json:"piece_rate"`
}

// All returns the number of pieces, and BadPercent the failed ones in percent.
func (f failedPieces) All() int { return f.Good + f.Bad }
func (f failedPieces) BadPercent() num {
	return num(strconv.FormatFloat(float(f.PieceRate)*100, 'f', 2, 64))
}

type usageRow struct {
	Material  string `json:"material_type"`
	Color     string
	Printer   string `json:"printer_name"`
	Start     string
	Grams     num
	Wasted    num `json:"wasted_grams"`
	Corrected num `json:"corrected_grams"`
	Cost      num
	Unpriced  num `json:"unpriced_grams"`
	Lost      num `json:"lost_grams"`
	LostCost  num `json:"lost_cost"`
	Remaining num `json:"remaining_grams"`
	Days      num `json:"days_left"`
}

// reportRow is a row of the usage report. Percent is the length of its bar.
type reportRow struct {
	usageRow
	Name    string
	Percent int
}

var reportGroups = []word{{"color", "Filament"}, {"material", "Material"}, {"printer", "Printer"}, {"day", "Day"},
	{"week", "Week"}, {"month", "Month"}}

// Group returns the choice of the field by which the report groups its rows.
func (p *reportsPage) Group(v view) pick {
	return pick{"by", v.t("By|grouped by"), p.By, v.options(reportGroups)}
}

// HasStock reports whether the rows contain the remaining filament.
func (p *reportsPage) HasStock() bool { return p.By == "color" || p.By == "material" }

// CSV returns the address of the report of usage as a file.
func (p *reportsPage) CSV() string {
	return "/reports/usage.csv?by=" + url.QueryEscape(p.By) + p.days()
}

// days returns the part of a query that selects the days of the report.
func (p *reportsPage) days() (query string) {
	if p.From != "" {
		query += "&from=" + url.QueryEscape(p.From)
	}
	if p.To != "" {
		query += "&to=" + url.QueryEscape(p.To)
	}
	return query
}

var reportTabs = []word{{"/reports", "Filament used"}, {"/reports/margins", "Margins"},
	{"/reports/filament", "Filament in stock"}, {"/reports/pieces", "Pieces|in stock"}, {"/reports/lot", "Lots"}}

// Reports returns the pages of the reports.
func (v *visit) Reports() []option { return v.options(reportTabs) }

// Periods returns the links to the report of usual periods. They keep the grouping.
func (p *reportsPage) Periods(v view) []option {
	now := v.Now()
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	year := time.Date(now.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
	link := func(name language.Text, from, end time.Time) option {
		return option{v.Path() + "?" + url.Values{"by": {p.By}, "from": {from.Format(time.DateOnly)},
			"to": {end.AddDate(0, 0, -1).Format(time.DateOnly)}}.Encode(), v.t(name)}
	}
	return []option{link("This month", month, month.AddDate(0, 1, 0)), link("Last month", month.AddDate(0, -1, 0), month),
		link("This year", year, year.AddDate(1, 0, 0)), link("Last year", year.AddDate(-1, 0, 0), year)}
}

// report returns the read of a report. The address of the page determines the days and the grouping; by is the default
// of the grouping.
func (p *reportsPage) report(v *visit, name, by string, into any) read {
	asked := v.r.URL.Query()
	p.From, p.To, p.By = asked.Get("from"), asked.Get("to"), cmp.Or(asked.Get("by"), by)
	return get("/api/v1/reports/"+name+"?group_by="+url.QueryEscape(p.By)+p.days(), into)
}

// fetch runs the reads, and returns the status of the page. A 422 concerns the days or the grouping: fetch stores it
// in p.Problem instead of returning an error.
func (p *reportsPage) fetch(v *visit, reads ...read) (int, error) {
	err := v.fetch(reads...)
	if e := server.AsError(err); err != nil && e.Status == 422 {
		p.Problem = v.message(e.Detail)
		return 422, nil
	}
	return 200, err
}

// span returns the days of the report. They are those of the API if the address of the page has none. Ok is false if
// the address has no valid days.
func (p *reportsPage) span(now time.Time) (from, to time.Time, ok bool) {
	to, err := time.Parse(time.DateOnly, cmp.Or(p.To, now.Format(time.DateOnly)))
	from, failed := time.Parse(time.DateOnly, cmp.Or(p.From, to.AddDate(0, 0, 1-production.DefaultDays).Format(time.DateOnly)))
	return from, to, err == nil && failed == nil && !to.Before(from)
}

// daysBefore returns the first and the last day of the period before another one: as many months if the other one
// consists of months, as many days otherwise. Before a period that has not ended, it ends at the same point.
func daysBefore(from, to, now time.Time) (time.Time, time.Time) {
	today, _ := time.Parse(time.DateOnly, now.Format(time.DateOnly))
	next := to.AddDate(0, 0, 1)
	running := to.After(today) && !from.After(today)
	if from.Day() == 1 && next.Day() == 1 {
		months := (next.Year()-from.Year())*12 + int(next.Month()-from.Month())
		last := from.AddDate(0, 0, -1)
		if end := today.AddDate(0, -months, 0); running && end.Before(last) {
			last = end
		}
		return from.AddDate(0, -months, 0), last
	}
	if running {
		next = today.AddDate(0, 0, 1)
	}
	return from.Add(from.Sub(next)), from.AddDate(0, 0, -1)
}

// Compared returns how much an amount differs from that of the period before, or "" if one of them is 0.
func (p *reportsPage) Compared(v view, now, before num) string {
	if float(now) <= 0 || float(before) <= 0 {
		return ""
	}
	percent := math.Round((float(now)/float(before) - 1) * 100)
	share := v.Number(num(strconv.FormatFloat(math.Abs(percent), 'f', 0, 64)), 0) + " %"
	from, to := v.OnDay(p.Before.From), v.OnDay(p.Before.To)
	switch {
	case percent > 0:
		return v.t("%s more than from %s to %s|a percentage and two days", share, from, to)
	case percent < 0:
		return v.t("%s less than from %s to %s|a percentage and two days", share, from, to)
	}
	return v.t("As much as from %s to %s|two days", from, to)
}

// Runs returns the address of the list of the runs that wasted filament for a reason in the days of the report.
func (p *reportsPage) Runs(reason string) string {
	return "/runs/all?" + url.Values{"reason": {reason}, "from": {p.Usage.From}, "to": {p.Usage.To}}.Encode()
}

func reports(v *visit) error {
	p := &reportsPage{}
	reads := []read{p.report(v, "usage", "color", &p.Usage),
		get("/api/v1/reports/waste?group_by=reason"+p.days(), &p.Waste)}
	from, to, ok := p.span(v.Now())
	if p.Unit = timeUnit(from, to); ok {
		first, last := daysBefore(from, to, v.Now())
		p.Before.From, p.Before.To = first.Format(time.DateOnly), last.Format(time.DateOnly)
		days := "&from=" + p.Before.From + "&to=" + p.Before.To
		reads = append(reads, get("/api/v1/reports/usage?group_by=month"+days, &p.Before.Usage),
			get("/api/v1/reports/waste?group_by=reason"+days, &p.Before.Waste))
	}
	timeline := &p.Usage
	if ok && p.By != p.Unit {
		timeline = &usageReport{}
		reads = append(reads, get("/api/v1/reports/usage?group_by="+p.Unit+p.days(), timeline))
	}
	status, err := p.fetch(v, reads...)
	if err != nil {
		return err
	}
	p.Chart = usageChart(timeline.filled(p.Unit, v.Now()))
	if p.By == "day" && len(p.Usage.Items) > 0 {
		if all := p.Usage.filled("day", v.Now()); len(all) <= filledDays {
			p.Usage.Items = all
		}
	}
	most := 0.0
	for _, row := range p.Usage.Items {
		most = max(most, float(row.Grams))
	}
	for _, row := range p.Usage.Items {
		name := strings.TrimSpace(row.Material + " " + row.Color)
		switch {
		case row.Start != "":
			name = v.OnDay(row.Start)
			if t, err := time.Parse(time.DateOnly, row.Start); err == nil && p.By == "month" {
				name = t.Format("2006-01")
			}
		case row.Printer != "":
			name = row.Printer
		case name == "":
			name = v.t("Without a printer")
		}
		shown := reportRow{usageRow: row, Name: name}
		if most > 0 {
			shown.Percent = max(0, int(float(row.Grams)/most*100))
		}
		p.Rows = append(p.Rows, shown)
	}
	return v.show(status, "reports", v.t("Reports"), p)
}

func usageFile(v *visit) error {
	p := &reportsPage{}
	file, err := v.csvFile("usage-report", v.fetch(p.report(v, "usage", "color", &p.Usage)))
	if err != nil {
		return err
	}
	file.Write([]string{"material_type", "color", "printer_name", "start", "grams", "cost", "wasted_grams",
		"corrected_grams", "lost_grams", "lost_cost", "unpriced_grams"})
	for _, row := range p.Usage.Items {
		file.Write([]string{row.Material, row.Color, row.Printer, row.Start, string(row.Grams), string(row.Cost),
			string(row.Wasted), string(row.Corrected), string(row.Lost), string(row.LostCost), string(row.Unpriced)})
	}
	file.Flush() // an error means that the client has gone
	return nil
}
