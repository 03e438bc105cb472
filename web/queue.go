package web

import (
	"cmp"
	"html/template"
	"slices"
	"time"
)

// queue contains the unfinished runs, ordered by printer.
type queue struct {
	Total   int
	Runs    []queuedRun
	Problem string `json:"-"` // the problem with a form that the API has refused, or ""
}

// of returns the runs of the printer with the id, or the runs without a printer for "". It sets their Earlier.
func (q *queue) of(printer string) (runs []queuedRun) {
	for _, r := range q.Runs {
		if r.PrinterID == printer {
			if n := len(runs); n > 0 && runs[n-1].Status == "pending" && printer != "" {
				r.Earlier = r.Place - 1
			}
			runs = append(runs, r)
		}
	}
	return runs
}

// Printers returns the runs of each printer, in the order of the queue.
func (q *queue) Printers() (all [][]queuedRun) {
	for i, r := range q.Runs {
		if i == 0 || r.PrinterID != q.Runs[i-1].PrinterID {
			all = append(all, q.of(r.PrinterID))
		}
	}
	return all
}

type queuedRun struct {
	ID, Status string
	PrinterID  string `json:"printer_id"`
	Printer    string `json:"printer_name"`
	Place      int
	Earlier    int `json:"-"` // the place of the previous run of the printer if that is pending, or 0
	Items      []listedItem
	Spools     []listedSpool `json:"materials"`
	Orders     []order
	Hours      num        `json:"estimated_print_time_hours"`
	Start      *time.Time `json:"expected_start_at"`
	End        *time.Time `json:"expected_end_at"`
	Steps      []step
}

// Title returns the pieces and products that the run prints.
func (r queuedRun) Title(v translator) string {
	return cmp.Or(runTitle(v, r.Items, len(r.Items)), v.t("Without a product"))
}

// Swatches returns the pictures of the colors of the run's spools.
func (r queuedRun) Swatches() template.HTML { return swatches(r.Spools) }

// Thumb returns the picture of the first product that has one, or "".
func (r queuedRun) Thumb() template.HTML { return thumbOf(r.Items) }

// Bar returns the picture of the progress of the run if it is printing, or "".
func (r queuedRun) Bar(v view) template.HTML {
	return run{Status: r.Status, StartedAt: r.Start, Hours: r.Hours}.Bar(v)
}

// CanReplan reports whether the queue offers to plan the run again.
func (r queuedRun) CanReplan() bool { return canReplan(r.Status, len(r.Items), r.Steps) }

// Notes returns the steps of a pending run that the queue shows. For the next run of a printer, it returns all steps
// except NO_PRINTER. For later runs, it also omits steps that earlier runs of the printer can still make unnecessary.
func (r queuedRun) Notes() []step {
	if r.Status != "pending" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.Steps), func(s step) bool {
		return s.Code == "NO_PRINTER" || r.Earlier > 0 && s.passing()
	})
}

// Due returns the first due date of the orders of the run, or "".
func (r queuedRun) Due() (first string) {
	for _, o := range r.Orders {
		if first == "" || o.DueDate != "" && o.DueDate < first {
			first = o.DueDate
		}
	}
	return first
}

// IsLate reports whether the run is expected to end after its orders are due.
func (r queuedRun) IsLate(v view) bool {
	return timeBar{End: r.ends(), Orders: r.Orders}.endsLate(v.visit)
}

// ends returns when the run is expected to end, or nil if that is not known.
func (r queuedRun) ends() *time.Time {
	if r.End == nil && r.Status != "pending" {
		return r.PrintsUntil()
	}
	return r.End
}

// PrintsUntil returns the time at which a printing run ends or should have ended, or nil if the time is not known.
func (r queuedRun) PrintsUntil() *time.Time { return run{StartedAt: r.Start, Hours: r.Hours}.End() }

func showQueue(v *visit) error { return v.queuePage(200, "") }

// queuePage shows the queue, and the problem with a form that the API has refused, if it is not empty.
func (v *visit) queuePage(status int, problem string) error {
	q := queue{Problem: problem}
	if err := v.fetch(get("/api/v1/queue", &q)); err != nil {
		return err
	}
	return v.show(status, "queue", v.t("Queue"), &q)
}

// moveRun moves a pending run to the place in the form. It does not move a run that has started meanwhile.
func moveRun(v *visit) error {
	f := v.sent()
	ok, err := v.send(f, "POST", "/api/v1/production-runs/{id}/move", f.body(field{"place", number}), nil)
	v.tell(&notice{Text: v.t("The run was moved.")})
	return v.then(ok, err, "/queue", func() error {
		return v.queuePage(422, cmp.Or(f.Problem, v.t("The run was not moved.")+" "+f.Errors["place"]))
	})
}
