package web

import (
	"net/url"
	"slices"
	"time"
)

// todayPage is the first page.
type todayPage struct {
	Machines          []machine
	Printing, Waiting []printing // Printing are the runs without one of the printers
	Orders            struct {
		Items []order
		Total int
	}
	Low struct {
		Items []stockLevel
		Total int
	}
	Open struct {
		Items []struct {
			ID       string `json:"order_id"`
			CanPrint bool   `json:"can_print"`
			Missing  num    `json:"missing_grams"`
		}
	}
	Usage usageReport
	Waste wasteReport
	Days  []bar
}

// printing is a run that prints, or did until now.
type printing struct {
	run
	Until *time.Time // when it ends, or nil if that is not known
}

// machine is a printer with the run that it prints, or nil.
type machine struct {
	printer
	Run *printing
}

// Printer returns the name of the printer.
func (p printing) Printer() string {
	if p.PrinterName == "" {
		return "No printer"
	}
	return p.PrinterName
}

// Verdict returns whether an open order can be printed, or what is missing.
func (p *todayPage) Verdict(v view, id string) string {
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

type usageReport struct {
	Grams num
	Cost  num
	Items []struct {
		Start string
		Grams num
	}
}

type wasteReport struct {
	Grams num
	Cost  num
	Rate  num
	Items []struct {
		Reason string
		Grams  num
		Runs   int
	}
}

// bar is a bar of a picture: its place from left to right and its height, in units of which the picture has 100 high,
// and what it says.
type bar struct {
	X, Y, Height float64
	Day          string
	Grams        num
}

// today shows what happens in the farm.
func today(v *visit) error {
	var p todayPage
	var runs struct{ Items []run }
	var all struct{ Items []printer }
	err := v.fetch(
		read{path: "/api/v1/production-runs", into: &runs,
			query: url.Values{"status": {"in_progress,paused"}, "limit": {"100"}}},
		read{path: "/api/v1/printers", into: &all, query: url.Values{"status": {"available,maintenance"},
			"sort_by": {"name"}, "sort_order": {"asc"}, "limit": {"20"}}},
		read{path: "/api/v1/stock-levels", into: &p.Low,
			query: url.Values{"low": {"true"}, "limit": {"5"}, "sort_by": {"missing_grams"}}},
		read{path: "/api/v1/orders", into: &p.Orders, query: url.Values{"status": {"received,in_production"},
			"sort_by": {"due_date"}, "sort_order": {"asc"}, "limit": {"6"}}},
		read{path: "/api/v1/orders/availability", into: &p.Open},
		read{path: "/api/v1/reports/usage", query: url.Values{"group_by": {"day"}}, into: &p.Usage},
		read{path: "/api/v1/reports/waste", query: url.Values{"group_by": {"reason"}}, into: &p.Waste},
	)
	if err != nil {
		return err
	}
	now := v.Now()
	for _, one := range all.Items {
		p.Machines = append(p.Machines, machine{printer: one})
	}
	for _, r := range runs.Items {
		at := printing{r, r.End()}
		i := slices.IndexFunc(p.Machines, func(m machine) bool { return m.ID == r.PrinterID && m.Run == nil })
		switch {
		case at.Until != nil && at.Until.Before(now) && r.Status == "in_progress":
			p.Waiting = append(p.Waiting, at)
		case i >= 0:
			p.Machines[i].Run = &at
		default:
			p.Printing = append(p.Printing, at)
		}
	}
	p.Days = dayBars(&p.Usage, now)
	return v.show(200, "today", "Today", &p)
}

// dayBars returns a bar for each of the 30 days until now.
func dayBars(report *usageReport, now time.Time) []bar {
	grams := map[string]num{}
	most := 0.0
	for _, item := range report.Items {
		grams[item.Start] = item.Grams
		most = max(most, value(item.Grams))
	}
	if most == 0 {
		return nil
	}
	bars := make([]bar, 30)
	for i := range bars {
		day := now.AddDate(0, 0, i-len(bars)+1).Format(time.DateOnly)
		height := max(0, value(grams[day])) / most * 100
		bars[i] = bar{X: float64(i * 10), Y: 100 - height, Height: height, Day: day, Grams: grams[day]}
		if bars[i].Grams == "" {
			bars[i].Grams = "0"
		}
	}
	return bars
}
