package web

import (
	"net/url"
	"time"
)

// lotReport is the page that shows where a lot of filament went.
type lotReport struct {
	Lot    string // as the address of the page has it
	Report struct {
		Spools []struct {
			ID         string     `json:"spool_id"`
			Number     int        `json:"spool_number"`
			Name       string     `json:"spool_name"`
			Remaining  num        `json:"remaining_weight_grams"`
			RefilledAt *time.Time `json:"refilled_at"`
			HiddenAt   *time.Time `json:"hidden_at"`
		}
		Groups int
		Items  []struct {
			RunID     string     `json:"run_id"`
			Status    string     `json:"run_status"`
			Completed *time.Time `json:"completed_at"`
			Printer   string     `json:"printer_name"`
			Grams     num
			ProductID string `json:"product_id"`
			Product   string `json:"product_name"`
			SKU       string
			Quantity  num
			Pieces    num
			OrderID   string `json:"order_id"`
			Reference string
			Customer  string
			Delivered num
		}
	}
}

// CSV returns the address of the report as a file.
func (p *lotReport) CSV() string { return "/reports/lot.csv?lot_number=" + url.QueryEscape(p.Lot) }

func (p *lotReport) read(v *visit) read {
	p.Lot = v.r.URL.Query().Get("lot_number")
	return get("/api/v1/reports/lot?lot_number="+url.QueryEscape(p.Lot), &p.Report)
}

func showLotReport(v *visit) error {
	p := &lotReport{}
	if err := v.fetch(p.read(v)); err != nil {
		return err
	}
	return v.show(200, "lot-report", v.t("Where a lot went"), p)
}

func lotFile(v *visit) error {
	p := &lotReport{}
	file, err := v.csvFile("lot-report", v.fetch(p.read(v)))
	if err != nil {
		return err
	}
	file.Write([]string{"lot_number", "run_id", "run_status", "completed_at", "printer_name", "grams", "product_name",
		"sku", "quantity", "pieces", "reference", "customer", "delivered"})
	for _, i := range p.Report.Items {
		completed := ""
		if i.Completed != nil {
			completed = i.Completed.Format(time.RFC3339)
		}
		file.Write([]string{p.Lot, i.RunID, i.Status, completed, i.Printer, string(i.Grams), i.Product, i.SKU,
			string(i.Quantity), string(i.Pieces), i.Reference, i.Customer, string(i.Delivered)})
	}
	file.Flush() // an error means that the client has gone
	return nil
}
