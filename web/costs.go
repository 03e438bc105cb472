package web

import (
	"slices"
	"strings"
	"time"

	"spoolwright/server"
)

// costs is what something costs, by part, and what remains of its price or revenue. Unknown amounts are "".
type costs struct {
	Cost     num            `json:"cost"` // of a run, or of an order so far
	Expected num            `json:"expected_cost"`
	Full     num            `json:"full_cost"` // of a product
	Parts    map[string]num `json:"cost_parts"`
	Piece    map[string]num `json:"full_cost_parts"`
	Price    num            `json:"selling_price"`
	Revenue  num            `json:"revenue"`
	Margin   num            `json:"margin"`
	Percent  num            `json:"margin_percent"`
	Unknown  []string       `json:"unknown_parts"`
}

// costRow is an amount with its name. A sum stands below the amounts that it adds up.
type costRow struct {
	Name   string
	Amount num
	Note   string
	IsSum  bool
}

// partRows returns the parts of a cost.
func (c costs) partRows(parts map[string]num) (rows []costRow) {
	for _, name := range []string{"filament", "waste", "machine", "energy", "labour", "failures"} {
		amount, known := parts[name]
		row := costRow{Name: label(strings.Replace(name, "labour", "work", 1)), Amount: amount}
		if slices.Contains(c.Unknown, name) {
			row.Note = "unknown"
		}
		if known {
			rows = append(rows, row)
		}
	}
	return rows
}

// sum returns a sum, which is not complete if a part is unknown.
func (c costs) sum(name string, amount num) costRow {
	row := costRow{Name: name, Amount: amount, IsSum: true}
	if len(c.Unknown) > 0 {
		row.Note = "of what is known"
	}
	return row
}

// OfPiece returns the rows of a product, OfRun of a run, and OfOrder of an order.
func (c costs) OfPiece(v view) []costRow {
	rows := append(c.partRows(c.Piece), c.sum("One good piece", c.Full))
	if c.Price != "" {
		rows = append(rows, costRow{Name: "Selling price", Amount: c.Price}, c.margin(v))
	}
	return rows
}

func (c costs) OfRun() []costRow {
	if c.Parts == nil || c.Cost == "" && len(c.Unknown) == 0 {
		return nil
	}
	return append(c.partRows(c.Parts), c.sum("Cost", c.Cost))
}

func (c costs) OfOrder(v view) []costRow {
	return []costRow{{Name: "Revenue", Amount: c.Revenue}, {Name: "Cost until now", Amount: c.Cost},
		{Name: "Expected for the rest", Amount: c.Expected}, c.margin(v)}
}

func (c costs) margin(v view) costRow {
	row := c.sum("Margin", c.Margin)
	if c.Percent != "" {
		row.Name += ", " + v.Number(c.Percent, 1) + "\u00a0%"
	}
	return row
}

// Missing returns the names of the unknown parts.
func (c costs) Missing() string {
	return strings.Replace(strings.Join(c.Unknown, ", "), "labour", "work", 1)
}

// marginsPage is the reports of margins and of printers for the same days.
type marginsPage struct {
	reportsPage
	Margins struct {
		From, To string
		costs
		Pieces int
		Failed int `json:"failed_pieces"`
		Runs   int
		Items  []marginRow
	}
	Printers struct {
		Items []struct {
			ID      string `json:"printer_id"`
			Name    string `json:"printer_name"`
			Hours   num
			Used    num `json:"utilisation_percent"`
			Done    int `json:"completed_runs"`
			Failed  int `json:"failed_runs"`
			Grams   num
			Cost    num
			PerHour num `json:"cost_per_hour"`
		}
	}
}

type marginRow struct {
	costs
	Product   string `json:"product_name"`
	ProductID string `json:"product_id"`
	OrderID   string `json:"order_id"`
	Reference string
	Customer  string
	Start     string
	Printer   string `json:"printer_name"`
	PrinterID string `json:"printer_id"`
	Runs      int
	Pieces    int
	Failed    int `json:"failed_pieces"`
}

// Name returns what the runs of the row have in common, and Path its page, or "".
func (r marginRow) Name(by string) string {
	if t, err := time.Parse(time.DateOnly, r.Start); err == nil {
		return t.Format("2006-01")
	}
	for _, name := range []string{r.Product, r.Printer, r.Reference, r.Customer} {
		if name != "" {
			return name
		}
	}
	return "Without a " + by
}

func (r marginRow) Path() string {
	switch {
	case r.ProductID != "":
		return "/products/" + r.ProductID
	case r.OrderID != "":
		return "/orders/" + r.OrderID
	case r.PrinterID != "":
		return "/printers/" + r.PrinterID
	}
	return ""
}

var marginGroups = []option{{"product", "Product"}, {"order", "Order"}, {"customer", "Customer"}, {"month", "Month"},
	{"printer", "Printer"}}

// Group returns the choice of what the rows have in common.
func (p *marginsPage) Group() pick { return pick{"by", "By", p.By, marginGroups} }

func margins(v *visit) error {
	p := &marginsPage{}
	status, err := p.fetch(v, p.report(v, "margins", "product", &p.Margins),
		get("/api/v1/reports/printers?"+p.days(), &p.Printers))
	if err != nil {
		return err
	}
	return v.show(status, "margins", "Margins", p)
}

// plan is which runs would print what an order still needs.
type plan struct {
	Finished *time.Time `json:"finished_at"`
	Runs     []struct {
		Printer   string `json:"printer_name"`
		PrinterID string `json:"printer_id"`
		Product   string `json:"product_name"`
		Quantity  int
		Grams     num        `json:"estimated_total_filament_grams"`
		Start     *time.Time `json:"expected_start_at"`
		End       *time.Time `json:"expected_end_at"`
		Materials []struct {
			Material string `json:"material_type"`
			Color    string
			SpoolID  string `json:"spool_id"`
			Number   int64  `json:"spool_number"`
			Grams    num
		}
	}
	Unplanned []struct {
		Product  string `json:"product_name"`
		Quantity int
		Reason   string
	}
	Missing []struct {
		Material string `json:"material_type"`
		Color    string
		Grams    num `json:"missing_grams"`
	}
}

// planPage is the page of an order's plan.
type planPage struct {
	Order order
	Plan  plan
	Form  *form
}

// shownPlates is the number of runs that the page of a plan lists.
const shownPlates = 100

// Reason returns why pieces are not planned, in words.
func (p *planPage) Reason(code string) string {
	return map[string]string{"NO_PRINTER": "no available printer prints their materials, with a slot for each",
		"NO_FILAMENT": "too little filament is left that is not reserved"}[code]
}

// Shown returns the runs to list.
func (p *planPage) Shown() any { return p.Plan.Runs[:min(shownPlates, len(p.Plan.Runs))] }

func showPlan(v *visit) error { return v.planPage(200, v.newForm()) }

// planPage shows the plan of an order. The form is the one that creates its runs.
func (v *visit) planPage(status int, f *form) error {
	p := &planPage{Form: f}
	err := v.fetch(get("/api/v1/orders/{id}", &p.Order),
		read{method: "POST", path: "/api/v1/orders/{id}/plan", into: &p.Plan})
	if e := server.AsError(err); err != nil && (e.Status != 409 || p.Order.ID == "") {
		return err
	} else if err != nil && f.Problem == "" {
		status, f.Problem = 409, sentence(e.Detail)
	}
	return v.show(status, "plan", "Plan of "+p.Order.Name(), p)
}

// createPlan creates the runs of the plan as it is now.
func createPlan(v *visit) error {
	f := v.sent()
	ok, err := v.send(f, "POST", "/api/v1/orders/{id}/plan", map[string]any{"create": true}, nil)
	return v.then(ok, err, v.here("/orders"), func() error {
		f.Key = v.newForm().Key
		return v.planPage(409, f)
	})
}
