package web

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"

	"spoolwright/server"
)

// piecesReport is the page with the pieces in stock and their value at the end of a day.
type piecesReport struct {
	To, By  string // as the address of the page has them
	Page    int    // from 1
	Problem string
	visit   *visit
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

// Previous, Next and Range are those of a listing.
func (p *piecesReport) Previous() string { return p.at(p.Page - 1) }
func (p *piecesReport) Next() string     { return p.at(p.Page + 1) }
func (p *piecesReport) Range() string {
	return (&listing{Page: p.Page, Total: p.Stock.Groups, Noun: productNoun, visit: p.visit}).Range()
}

// at returns the address of a page of the report, or "" if there is no such page.
func (p *piecesReport) at(page int) string {
	if page < 1 || (page-1)*perPage >= p.Stock.Groups {
		return ""
	}
	return "/reports/pieces?page=" + strconv.Itoa(page) + p.query("by")
}

// CSV returns the address of the report as a file.
func (p *piecesReport) CSV() string { return "/reports/pieces.csv?" + p.query("by") }

// query returns the part of an address for what the report shows. by is the name of the grouping in the address.
func (p *piecesReport) query(by string) (query string) {
	if p.To != "" {
		query = "&to=" + url.QueryEscape(p.To)
	}
	if p.By != "" {
		query += "&" + by + "=" + url.QueryEscape(p.By)
	}
	return query
}

// Group returns the choice of what the rows add up.
func (p *piecesReport) Group() pick {
	return pick{"by", p.visit.t("By|grouped by"), cmp.Or(p.By, "variant"),
		p.visit.options([]word{{"variant", "Variant"}, {"product", "Product"}})}
}

// Days returns the links to the report of usual days.
func (p *piecesReport) Days(v view) []option { return usualDays(v, "/reports/pieces") }

func (p *piecesReport) read(v *visit, page string) read {
	p.To, p.By = v.r.URL.Query().Get("to"), v.r.URL.Query().Get("by")
	return get("/api/v1/reports/pieces?"+page+p.query("group_by"), &p.Stock)
}

func showPiecesReport(v *visit) error {
	p := &piecesReport{Page: 1, visit: v}
	if n, err := strconv.Atoi(v.r.URL.Query().Get("page")); err == nil && n > 1 && n < 1_000_000 {
		p.Page = n
	}
	status := 200
	err := v.fetch(p.read(v, fmt.Sprintf("skip=%d&limit=%d", (p.Page-1)*perPage, perPage)))
	if e := server.AsError(err); err != nil && e.Status == 422 {
		p.Problem, status, err = v.message(e.Detail), 422, nil
	}
	if err != nil {
		return err
	}
	return v.show(status, "pieces-report", v.t("Pieces in stock"), p)
}

func piecesFile(v *visit) error {
	p := &piecesReport{}
	file, err := v.csvFile("pieces-report", v.fetch(p.read(v, "")))
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
