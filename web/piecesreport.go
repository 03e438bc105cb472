package web

import (
	"net/url"
	"strconv"

	"spoolwright/server"
)

// piecesReport is the page with the pieces in stock and their value at the end of a day.
type piecesReport struct {
	To      string // as the address of the page has it
	Problem string
	Stock   struct {
		To       string
		OnHand   int `json:"on_hand"`
		Unvalued int `json:"unvalued_pieces"`
		Value    num `json:"piece_value"`
		Groups   int
		Items    []struct {
			ID       string `json:"product_id"`
			Name     string `json:"product_name"`
			SKU      string
			OnHand   int `json:"on_hand"`
			Unvalued int `json:"unvalued_pieces"`
			Cost     num `json:"piece_cost"`
			Value    num `json:"piece_value"`
		}
	}
}

// CSV returns the address of the report as a file.
func (p *piecesReport) CSV() string { return "/reports/pieces.csv" + p.query() }

func (p *piecesReport) query() string {
	if p.To == "" {
		return ""
	}
	return "?to=" + url.QueryEscape(p.To)
}

// Days returns the links to the report of usual days.
func (p *piecesReport) Days(v view) []option { return usualDays(v, "/reports/pieces") }

// read returns the read of the report.
func (p *piecesReport) read(v *visit) read {
	p.To = v.r.URL.Query().Get("to")
	return get("/api/v1/reports/pieces"+p.query(), &p.Stock)
}

func showPiecesReport(v *visit) error {
	p := &piecesReport{}
	status := 200
	err := v.fetch(p.read(v))
	if e := server.AsError(err); err != nil && e.Status == 422 {
		p.Problem, status, err = sentence(e.Detail), 422, nil
	}
	if err != nil {
		return err
	}
	return v.show(status, "pieces-report", "Pieces in stock", p)
}

// piecesFile sends the report as CSV.
func piecesFile(v *visit) error {
	p := &piecesReport{}
	file, err := v.csvFile("pieces-report", v.fetch(p.read(v)))
	if err != nil {
		return err
	}
	file.Write([]string{"product_name", "sku", "on_hand", "unvalued_pieces", "piece_cost", "piece_value"})
	for _, row := range p.Stock.Items {
		file.Write([]string{row.Name, row.SKU, strconv.Itoa(row.OnHand), strconv.Itoa(row.Unvalued), string(row.Cost),
			string(row.Value)})
	}
	file.Flush() // an error means that the client has gone
	return nil
}
