package web

import (
	"cmp"
	"encoding/csv"
	"net/url"
	"strings"
	"time"

	"spoolwright/server"
)

// reportsPage is the reports of usage and of waste for the same days.
type reportsPage struct {
	From, To, By string
	Usage        usageReport
	Waste        wasteReport
	Rows         []reportRow
	Problem      string
}

type usageReport struct {
	From, To    string
	Grams, Cost num
	Items       []usageRow
}

type wasteReport struct {
	Grams, Cost num
	Items       []struct {
		Reason      string
		Grams, Cost num
		Runs        int
	}
}

type usageRow struct {
	Material  string `json:"material_type"`
	Color     string
	Printer   string `json:"printer_name"`
	Start     string
	Grams     num
	Cost      num
	Remaining num `json:"remaining_grams"`
	Days      num `json:"days_left"`
}

// reportRow is a row with the length of its bar in percent.
type reportRow struct {
	usageRow
	Name    string
	Percent int
}

var reportGroups = []option{{"color", "Filament"}, {"material", "Material"}, {"printer", "Printer"}, {"day", "Day"},
	{"week", "Week"}, {"month", "Month"}}

// Group returns the choice of what the rows have in common.
func (p *reportsPage) Group() pick { return pick{"by", "By", p.By, reportGroups} }

// HasStock reports whether the rows say what is left.
func (p *reportsPage) HasStock() bool { return p.By == "color" || p.By == "material" }

// CSV returns the address of the report of usage as a file.
func (p *reportsPage) CSV() string { return "/reports/usage.csv?" + p.query().Encode() }

func (p *reportsPage) query() url.Values {
	query := url.Values{}
	for name, value := range map[string]string{"from": p.From, "to": p.To, "by": p.By} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// apiQuery returns the query of the API for the address of the page, which by default groups by the name.
func (p *reportsPage) apiQuery(v *visit, by string) url.Values {
	asked := v.r.URL.Query()
	p.From, p.To, p.By = asked.Get("from"), asked.Get("to"), asked.Get("by")
	query := p.query()
	query.Del("by")
	p.By = cmp.Or(p.By, by)
	return query
}

// fetch runs the reads. It keeps what the API says about the days and the group, and returns the status of the page.
func (p *reportsPage) fetch(v *visit, reads ...read) (int, error) {
	err := v.fetch(reads...)
	if e := server.AsError(err); err != nil && e.Status == 422 {
		p.Problem = sentence(e.Detail)
		return 422, nil
	}
	return 200, err
}

func reports(v *visit) error {
	p := &reportsPage{}
	days := p.apiQuery(v, "color")
	usage, waste := url.Values{"group_by": {p.By}}, url.Values{"group_by": {"reason"}}
	for name, values := range days {
		usage[name], waste[name] = values, values
	}
	status, err := p.fetch(v, read{path: "/api/v1/reports/usage", query: usage, into: &p.Usage},
		read{path: "/api/v1/reports/waste", query: waste, into: &p.Waste})
	if err != nil {
		return err
	}
	most := 0.0
	for _, row := range p.Usage.Items {
		most = max(most, value(row.Grams))
	}
	for _, row := range p.Usage.Items {
		name := strings.TrimSpace(row.Material + " " + row.Color)
		switch {
		case row.Start != "":
			name = v.Day(row.Start)
			if t, err := time.Parse(time.DateOnly, row.Start); err == nil && p.By == "month" {
				name = t.Format("2006-01")
			}
		case row.Printer != "":
			name = row.Printer
		case name == "":
			name = "Without a printer"
		}
		shown := reportRow{usageRow: row, Name: name}
		if most > 0 {
			shown.Percent = max(0, int(value(row.Grams)/most*100))
		}
		p.Rows = append(p.Rows, shown)
	}
	return v.show(status, "reports", "Reports", p)
}

// usageFile sends the report of usage as CSV.
func usageFile(v *visit) error {
	p := &reportsPage{}
	query := p.apiQuery(v, "color")
	query.Set("group_by", p.By)
	if err := v.fetch(read{path: "/api/v1/reports/usage", query: query, into: &p.Usage}); err != nil {
		return err
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="usage.csv"`)
	file := csv.NewWriter(v.w)
	file.Write([]string{"material_type", "color", "printer_name", "start", "grams", "cost"})
	for _, row := range p.Usage.Items {
		file.Write([]string{row.Material, row.Color, row.Printer, row.Start, string(row.Grams), string(row.Cost)})
	}
	file.Flush() // an error means that the client has gone
	return nil
}
