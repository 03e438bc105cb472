package web

import (
	"time"

	"spoolwright/value/language"
)

// marginsPage is the page with the reports of margins and of printers for the same days.
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
			ID     string `json:"printer_id"`
			Name   string `json:"printer_name"`
			Hours  num
			Used   num `json:"utilisation_percent"`
			Done   int `json:"completed_runs"`
			Failed int `json:"failed_runs"`
			failedPieces
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

// unnamed are the names of rows without a name, by the grouping.
var unnamed = map[string]language.Text{"product": "Without a product", "variant": "Without a product",
	"order": "Without an order", "customer": "Without a customer", "printer": "Without a printer"}

// Name returns the product, printer, order, customer or month of the row, and Path returns the path of its page, or
// "".
func (r marginRow) Name(v view, by string) string {
	if t, err := time.Parse(time.DateOnly, r.Start); err == nil {
		return t.Format("2006-01")
	}
	for _, name := range []string{r.Product, r.Printer, r.Reference, r.Customer} {
		if name != "" {
			return name
		}
	}
	return v.t(unnamed[by])
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

var marginGroups = []word{{"product", "Product"}, {"variant", "Variant"}, {"order", "Order"}, {"customer", "Customer"},
	{"month", "Month"}, {"printer", "Printer"}}

// Group returns the choice of the field by which the report groups its rows.
func (p *marginsPage) Group(v view) pick {
	return pick{"by", v.t("By|grouped by"), p.By, v.options(marginGroups)}
}

func margins(v *visit) error {
	p := &marginsPage{}
	status, err := p.fetch(v, p.report(v, "margins", "product", &p.Margins),
		get("/api/v1/reports/printers?"+p.days(), &p.Printers))
	if err != nil {
		return err
	}
	return v.show(status, "margins", v.t("Margins"), p)
}
