package web

import (
	"fmt"
	"net/url"
	"time"
)

// order is an order, as the API returns it.
type order struct {
	ID        string     `json:"id"`
	Source    string     `json:"source"`
	Reference string     `json:"reference"`
	Customer  string     `json:"customer"`
	DueDate   string     `json:"due_date"`
	Notes     string     `json:"notes"`
	Status    string     `json:"status"`
	CreatedAt *time.Time `json:"created_at"`
	Items     []struct {
		ID        string
		ProductID string `json:"product_id"`
		Product   string `json:"product_name"`
		Quantity  int
		Produced  int
		Planned   int
	}
	Runs []run
	costs
}

// Name returns what a person calls the order.
func (o order) Name() string {
	switch {
	case o.Reference != "":
		return o.Reference
	case o.Customer != "":
		return o.Customer
	}
	return "Order"
}

// State returns the status in words.
func (o order) State() string { return label(o.Status) }

// IsOpen reports whether something is left to print.
func (o order) IsOpen() bool { return o.Status == "received" || o.Status == "in_production" }

// late returns the further class of the due date of an open order that is late.
func (o order) late(v *visit) string {
	if o.IsOpen() && v.IsPast(o.DueDate) {
		return " late"
	}
	return ""
}

var orderList = &listOf[order]{editor: orders, Title: "Orders", Class: "fixed", Add: "Add an order",
	Empty: "There are no open orders.",
	filters: []filter{searchFilter, {"status", "status", "Status", []option{{"", "Open"},
		{"received,in_production,done,cancelled", "All"}, {"received", "Received"},
		{"in_production", "In production"}, {"done", "Done"}, {"cancelled", "Cancelled"}}}},
	orders: []listOrder{{"", "Due first", "due_date", "asc"}, {"newest", "Newest first", "created_at", "desc"},
		{"customer", "Customer", "customer", "asc"}},
	query: func(l *listing, query url.Values) {
		if l.Filter.Get("status") == "" {
			query.Set("status", "received,in_production")
		}
	},
	Head: `<th>Order</th><th class="wide">Customer</th><th class="wide">State</th><th class="amount">Due</th>`,
	row: func(v *visit, r *rows, o *order) {
		state := o.State()
		r.add(`<tr><td><a class="title" href="/orders/{}"><b>{}</b></a><small><span class="narrow-only">{}`, o.ID,
			o.Name(), state)
		r.when(o.Source != "", ` · `)
		r.add(`</span>{}</small></td><td class="wide"><span class="clamp">{}</span></td><td class="wide short">{}</td>`,
			o.Source, o.Customer, state)
		r.add(`<td class="amount{}">{}</td></tr>`+"\n", o.late(v), v.Day(o.DueDate))
	}}

var orders = &editor{api: "/api/v1/orders", path: "/orders", noun: "order",
	name: func(get func(string) string) string {
		return order{Reference: get("reference"), Customer: get("customer")}.Name()
	},
	fields: []editorField{
		{field{"customer", text}, "Customer", "", nil},
		{field{"source", text}, "Shop", "", nil},
		{field{"reference", text}, "Number in the shop", "", nil},
		{field{"due_date", text}, "Due on", "type=date", nil},
		{field{"notes", text}, "Notes", "rows=3", nil},
	}}

// orderPage is the page of an order.
type orderPage struct {
	forms
	Order    order
	Stock    availability
	Products struct{ Items []product }
	Options  []option
}

func showOrder(v *visit) error { return v.orderPage(200, "", nil) }

func (v *visit) orderPage(status int, name string, f *form) error {
	p := &orderPage{forms: v.forms(name, f)}
	if err := v.fetch(
		get("/api/v1/orders/{id}", &p.Order),
		get("/api/v1/orders/{id}/availability", &p.Stock),
		get(productsByName, &p.Products),
	); err != nil {
		return err
	}
	p.Options = productOptions(p.Products.Items, "")
	return v.show(status, "order", p.Order.Name(), p)
}

var oneOrder = resource{"/api/v1/orders", "/orders", (*visit).orderPage}

// RunOf returns the address of a new run of an item, for the pieces that are neither printed nor planned.
func (o order) RunOf(product, item string, quantity, produced, planned int) string {
	return "/runs/new?" + url.Values{"product": {product}, "order_item": {item},
		"quantity": {fmt.Sprint(max(1, quantity-produced-planned))}}.Encode()
}
