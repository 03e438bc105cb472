package web

import "fmt"

// orderLine is a line of an order that has no product yet.
type orderLine struct {
	ID, Title, SKU string
	Quantity       int
	Price          num `json:"unit_price"`
}

// Unassigned returns how many lines of an order in a list have no product, in words, or "".
func (o order) Unassigned() string {
	switch o.Waiting {
	case 0:
		return ""
	case 1:
		return "1 line without a product"
	}
	return fmt.Sprintf("%d lines without a product", o.Waiting)
}

// Line returns the form that assigns the line. Its choice begins with the products.
func (p *orderPage) Line(l orderLine) *form {
	if p.Open == "line" && l.ID == p.part {
		return p.sent
	}
	return newForm(p.read)
}

// assignLine assigns a line of an order to a product, or marks such lines as not printed.
func assignLine(v *visit) error {
	f := v.sent()
	body := f.body(field{"product_id", text}, field{"pieces", number})
	if f.Values.Get("ignore") == "" {
		f.needs("product_id")
	}
	n := &notice{Text: "The line is an item now. Further lines like it will be assigned automatically."}
	if f.Values.Get("ignore") != "" {
		body = map[string]any{"ignore": true}
		n.Text = "The line is left out. Further lines like it will be left out, too."
	}
	again := func() error { return v.orderPage(422, "line", f) }
	if f.Problem != "" || len(f.Errors) > 0 {
		return again()
	}
	ok, err := v.send(f, "POST", "/api/v1/orders/{id}/lines/{part}/assign", body, nil)
	v.tell(n)
	return v.then(ok, err, v.here("/orders"), again)
}
