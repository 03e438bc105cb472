package web

import (
	"strings"

	"spoolwright/server"
)

// orderLine is a line of an order that has no product yet.
type orderLine struct {
	ID, Title, SKU string
	Quantity       int
	Price          num `json:"unit_price"`
}

// Unassigned returns how many lines of an order in a list have no product, in words, or "".
func (o order) Unassigned(v translator) string {
	if o.Waiting == 0 {
		return ""
	}
	return v.t("%d line without a product|%d lines without a product", o.Waiting)
}

// Line returns the form that assigns the line. Its choice begins with the products.
func (p *orderPage) Line(l orderLine) *form {
	if p.IsRefused("line", l.ID) {
		return p.sent
	}
	f := newForm(p.read)
	if same := p.Alike[l.ID]; same != nil {
		f.Values.Set("product_id", same.Value)
	}
	return f
}

// maxProposed is the maximum number of lines for which a page proposes products.
const maxProposed = 5

// propose finds the products that have the name of a line, such as "Dragon, Blue" for "Dragon - Blue". The API has
// assigned the lines with the SKU of a product.
func (p *orderPage) propose(v *visit) error {
	p.Alike = map[string]*choice{}
	for i, l := range p.Order.Lines {
		if i == maxProposed || !v.CanWrite() {
			return nil
		}
		h, err := pickers["products"].search(v, strings.Replace(l.Title, " - ", ", ", 1), 1)
		if err == nil && len(h.Items) == 0 {
			h, err = pickers["products"].search(v, l.Title, 1)
		}
		if err != nil && server.AsError(err).Status == 422 { // such as a text that is too long to search
			continue
		}
		if err != nil {
			return err
		}
		p.Alike[l.ID] = h.named()
	}
	return nil
}

// assignLine assigns a line of an order to a product, or marks such lines as not printed.
func assignLine(v *visit) error {
	f := v.sent()
	body := f.body(field{"product_id", text}, field{"pieces", number})
	if f.Values.Get("ignore") == "" {
		f.needs("product_id")
	}
	text := v.t("The line is an item now. Further lines like it will be assigned automatically.")
	if f.Values.Get("ignore") != "" {
		body = map[string]any{"ignore": true}
		text = v.t("The line is left out. Further lines like it will be left out, too.")
	}
	again := func() error { return v.orderPage(422, "line", f) }
	if f.Problem != "" || len(f.Errors) > 0 {
		return again()
	}
	ok, err := v.send(f, "POST", "/api/v1/orders/{id}/lines/{part}/assign", body, nil)
	v.tell(&notice{Text: text})
	return v.then(ok, err, v.here("/orders"), again)
}
