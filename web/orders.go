package web

import (
	"fmt"
	"html/template"
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

// Rows returns what the order brings and costs.
func (o order) Rows(v view) []costRow { return o.ofOrder(v.visit) }

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

type orderList struct {
	listing
	Items []order `json:"items"`
}

// late returns the further class of the due date of an open order that is late.
func (o order) late(v view) string {
	if o.IsOpen() && v.IsPast(o.DueDate) {
		return " late"
	}
	return ""
}

// Rows returns the rows of the list.
func (l *orderList) Rows(v view) template.HTML {
	var list rows
	for _, o := range l.Items {
		state, source := o.State(), o.Source
		list.add(`<tr><td><a class="title" href="/orders/{}"><b>{}</b></a><small><span class="narrow-only">{}`, o.ID,
			o.Name(), state)
		if source != "" {
			list.add(` · `)
		}
		list.add(`</span>{}</small></td><td class="wide">{}</td><td class="wide short">{}</td>`, source, o.Customer, state)
		list.add(`<td class="amount{}">{}</td></tr>`+"\n", o.late(v), v.Day(o.DueDate))
	}
	return list.html()
}

var orderOrders = []listOrder{{"", "Due first", "due_date", "asc"}, {"newest", "Newest first", "created_at", "desc"},
	{"customer", "Customer", "customer", "asc"}}

func (l *orderList) Picks() []pick {
	return []pick{l.pick("status", "Status", option{"", "Open"},
		option{"received,in_production,done,cancelled", "All"},
		option{"received", "Received"}, option{"in_production", "In production"}, option{"done", "Done"},
		option{"cancelled", "Cancelled"}), l.orders(orderOrders)}
}

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

func listOrders(v *visit) error {
	base, query := v.listing("/orders", "order", map[string]string{"search": "search", "status": "status"},
		orderOrders...)
	l := &orderList{listing: base}
	if l.Filter.Get("status") == "" {
		query.Set("status", "received,in_production")
	}
	return v.showList("/api/v1/orders", "orders", "Orders", query, l)
}

// orderPage is the page of an order.
type orderPage struct {
	Order    order
	Stock    availability
	Products struct{ Items []product }
	Options  []option
	Item     *form
	Problem  string
}

func showOrder(v *visit) error { return v.orderPage(200, "", nil) }

func (v *visit) orderPage(status int, name string, f *form) error {
	path := v.apiPath("/api/v1/orders/{id}")
	p := &orderPage{Item: newForm()}
	p.Item.Values.Set("quantity", "1")
	if name == "items" {
		p.Item = f
	} else if f != nil {
		p.Problem = f.Problem
	}
	if err := v.fetch(
		read{path: path, into: &p.Order},
		read{path: path + "/availability", into: &p.Stock},
		read{path: "/api/v1/products", query: url.Values{"limit": {"100"}, "sort_by": {"name"}, "sort_order": {"asc"}},
			into: &p.Products},
	); err != nil {
		return err
	}
	p.Options = productOptions(p.Products.Items, "")
	return v.show(status, "order", p.Order.Name(), p)
}

// changeOrder runs an operation on the order of the page, with the fields of a form.
func changeOrder(name, method, operation string, fields ...field) func(*visit) error {
	return action("/api/v1/orders", "/orders", name, method, operation, (*visit).orderPage, fields...)
}

// Left returns how many pieces of an item are neither printed nor planned.
func (o order) Left(quantity, produced, planned int) int { return max(0, quantity-produced-planned) }

// RunOf returns the address of a new run of an item.
func (o order) RunOf(product, item string, pieces int) string {
	return "/runs/new?" + url.Values{"product": {product}, "order_item": {item},
		"quantity": {fmt.Sprint(max(1, pieces))}}.Encode()
}
