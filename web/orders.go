package web

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"spoolwright/server"
	"spoolwright/value"
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
	ReadyAt   *time.Time `json:"ready_at"` // nil, unless all pieces are in stock
	CreatedAt *time.Time `json:"created_at"`
	Items     []orderItem
	Lines     []orderLine `json:"unassigned_lines"`
	Waiting   int         `json:"unassigned_count"`
	Runs      []run
	costs

	// A list has these instead of all items.
	ItemCount int `json:"item_count"`
	Pieces    int
	Produced  int
	Value     num
}

// listed returns the items as lists of runs have them.
func (o order) listed() (items []listedItem) {
	for _, i := range o.Items {
		items = append(items, listedItem{i.ProductID, i.Product, i.Picture, num(strconv.Itoa(i.Quantity))})
	}
	return items
}

// Wanted returns the products of an order in a list, such as "2 × Phone stand".
func (o order) Wanted() string { return runTitle(o.listed(), o.ItemCount) }

// Progress returns the produced pieces of an order in a list in words, or "" if there are no pieces.
func (o order) Progress() string {
	if o.Pieces == 0 {
		return ""
	}
	return strconv.Itoa(o.Produced) + " of " + strconv.Itoa(o.Pieces)
}

// Bar returns the picture of the progress, or "".
func (o order) Bar() template.HTML {
	if o.Produced == 0 || o.Pieces == 0 {
		return ""
	}
	return progressBar(o.Produced*100/o.Pieces, o.Progress()+" pieces printed")
}

// orderItem is a product in an order.
type orderItem struct {
	ID        string
	ProductID string `json:"product_id"`
	Product   string `json:"product_name"`
	Picture   string `json:"picture_version"`
	Quantity  int
	Price     num `json:"unit_price"`
	Produced  int
	Planned   int
	Delivered *int // nil, unless something was delivered
}

// Thumb returns the picture of the product, or "".
func (i orderItem) Thumb() template.HTML { return thumb(i.ProductID, i.Picture) }

// Name returns the name of the order for people.
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

// IsDone reports whether the order is delivered, or was marked done by hand.
func (o order) IsDone() bool { return o.Status == "done" }

// IsByHand reports whether something was delivered, or the order was marked done by hand.
func (o order) IsByHand() bool {
	return slices.ContainsFunc(o.Items, func(i orderItem) bool { return i.Delivered != nil })
}

// late returns the additional HTML class of the due date if the order is open and late, and "" otherwise.
func (o order) late(v *visit) string {
	if o.IsOpen() && v.IsPast(o.DueDate) {
		return " late"
	}
	return ""
}

var orderList = &listOf[order]{editor: orders, Title: "Orders", Class: "fixed", Add: "Add an order",
	Empty: "There are no open orders.", Other: option{"/packing", "Pick and pack"},
	Also: option{"/files?what=orders", "Import"},
	filters: []filter{searchFilter, {"status", "status", "Status", []option{{"", "Open"},
		{"received,in_production,done,cancelled", "All"}, {"received", "Received"},
		{"in_production", "In production"}, {"done", "Done"}, {"cancelled", "Cancelled"}}},
		{"ready", "ready", "Pieces", []option{{"", "Ready or not"}, {"true", "Ready to pack"}, {"false", "Not ready"}}},
		{"unassigned", "unassigned", "Lines", []option{{"", "All"}, {"true", "Without a product"}}}},
	orders: []listOrder{{"", "Due first", "due_date", "asc"}, {"newest", "Newest first", "created_at", "desc"},
		{"customer", "Customer", "customer", "asc"}},
	query: func(l *listing, query url.Values) {
		if l.Filter.Get("status") == "" {
			query.Set("status", "received,in_production")
		}
	},
	row: func(v *visit, r *rows, o *order) {
		state := o.State()
		if o.ReadyAt != nil {
			state = "Ready to pack"
		}
		r.add(`<tr><td><a class="title" href="/orders/{}"><b>{}</b></a> <small><span class="narrow-only">`, o.ID, o.Name())
		r.picture(newMark(o.Status))
		r.add(`{}`, state)
		who := strings.Trim(o.Customer+" · "+o.Source, " ·")
		if o.Reference == "" {
			who = o.Source
		}
		if text := o.Unassigned(); text != "" {
			who = strings.Trim(who+" · "+text, " ·")
		}
		r.when(who != "", ` · `)
		r.add(`</span>{}</small></td><td class="wide">`, who)
		r.picture(thumbOf(o.listed()))
		r.add(`<span class="clamp">{}</span></td><td class="wide short">`, o.Wanted())
		r.picture(newMark(o.Status))
		r.add(`{} <small>{}</small>`, state, o.Progress())
		r.picture(o.Bar())
		r.add(`</td><td class="amount wide">{}</td><td class="amount{}">{}</td></tr>`+"\n", v.Money(o.Value), o.late(v),
			v.Day(o.DueDate))
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
	},
	lists: []nestedList{{name: "items", title: "Products", count: 3, choices: chooseProduct,
		hint: "Empty pieces are one piece. An empty price is that of the product.", fields: []editorField{
			{field{"product_id", text}, "Product", "", nil}, {field{"quantity", number}, "Pieces", "type=number", nil},
			{field{"unit_price", number}, "Price of a piece", "type=number;unit=$currency", nil}}}}}

// orderPage is the page of an order.
type orderPage struct {
	forms
	Order    order
	Stock    availability
	Products struct{ Items []product }
	Options  []option
	part     string // the id of the item whose form was sent, or ""
}

// Of returns the form that changes the item.
func (p *orderPage) Of(i orderItem) *form {
	f := newForm(p.read)
	if p.IsRefused(i) {
		f = p.sent
	}
	for name, value := range map[string]string{"quantity": strconv.Itoa(i.Quantity), "unit_price": p.read.text(i.Price)} {
		f.Was.Set(name, value)
		if f != p.sent {
			f.Values.Set(name, value)
		}
	}
	return f
}

// IsRefused reports whether the API has refused the form that changes the item.
func (p *orderPage) IsRefused(i orderItem) bool { return p.Open == "item" && i.ID == p.part }

// Delivered returns the input for the number of pieces that the customer got of the item with the index.
func (p *orderPage) Delivered(f *form, index int) input {
	i := p.Order.Items[index]
	n := i.Quantity
	if i.Delivered != nil {
		n = *i.Delivered
	}
	return newInput(f, fmt.Sprintf("items[%d].delivered", index), i.Product, "type=number", "required",
		"value="+strconv.Itoa(n))
}

// available returns where the pieces of the item come from that are not delivered, or nil if the order is not open.
func (p *orderPage) available(i orderItem) *availableItem {
	for at := range p.Stock.Items {
		if p.Stock.Items[at].ID == i.ID {
			return &p.Stock.Items[at]
		}
	}
	return nil
}

// Lacks returns the number of pieces of the item that are neither in stock nor in an unfinished run.
func (p *orderPage) Lacks(i orderItem) int {
	if a := p.available(i); a != nil {
		return a.Missing
	}
	return 0
}

// Pieces returns in words where the pieces of the item are, or "".
func (p *orderPage) Pieces(v view, i orderItem) string {
	var words []string
	if i.Delivered != nil {
		words = append(words, v.Count(*i.Delivered)+" of "+v.Count(i.Quantity)+" delivered")
	}
	if a := p.available(i); a != nil {
		words = append(words, a.words(v.visit)...)
	}
	return strings.Join(words, ", ")
}

// Deliver returns the input for the number of pieces of the item with the index that the customer gets now. Its value
// is the number of those in stock.
func (p *orderPage) Deliver(f *form, index int) input {
	i, n := p.Order.Items[index], 0
	if a := p.available(i); a != nil && p.Order.ReadyAt != nil {
		n = a.Needed
	} else if a != nil {
		n = a.Reserved
	}
	return newInput(f, fmt.Sprintf("items[%d].quantity", index), i.Product+" to deliver", "type=number",
		"value="+strconv.Itoa(n))
}

func showOrder(v *visit) error { return v.orderPage(200, "", nil) }

func (v *visit) orderPage(status int, name string, f *form) error {
	p := &orderPage{forms: v.forms(name, f), part: v.r.PathValue("part")}
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

// RunOf returns the address of the form of a new run, which prints the pieces of an item that are neither printed nor
// planned.
func (o order) RunOf(product, item string, quantity, produced, planned int) string {
	return "/runs/new?" + url.Values{"product": {product}, "order_item": {item},
		"quantity": {fmt.Sprint(max(1, quantity-produced-planned))}}.Encode()
}

// orderState returns the handler of a form that ends the order by an operation. The form contains the previous status,
// and the notice has a form that sets this status again.
func orderState(name, operation, text string, body func(*form) map[string]any) func(*visit) error {
	return oneOrder.action(name, "POST", operation, body, func(v *visit, f *form, answer json.RawMessage) *notice {
		was := f.Values.Get("status")
		if was != "received" && was != "in_production" {
			return &notice{Text: text}
		}
		return undone(text, "Undo", "/open", url.Values{"status": {was}})(v, f, answer)
	})
}

// delivered makes the body of the operation that marks an order done by hand.
func delivered(f *form) map[string]any {
	body := map[string]any{}
	f.putRows(body, "items", field{"id", text}, field{"delivered", number})
	return body
}

// delivery makes the body of the operation that delivers pieces. Items with 0 pieces or none are left out.
func delivery(f *form) map[string]any {
	body := map[string]any{}
	for name, values := range f.Values {
		if strings.HasSuffix(name, "].quantity") && strings.TrimSpace(values[0]) == "0" {
			f.Values.Set(name, "")
		}
	}
	f.putRows(body, "items", field{"id", text}, field{"quantity", number})
	if body["items"] == nil {
		f.Problem = "Type the pieces of at least one product."
	}
	return body
}

// shipped returns the notice of a delivery. Its form takes the delivery back: it opens the order again if this was the
// only delivery of a done order, and otherwise reverses the entries of the ledger.
func shipped(v *visit, f *form, answer json.RawMessage) *notice {
	var o struct {
		order
		Warnings []struct{ Detail string }
	}
	json.Unmarshal(answer, &o) // an answer of the API is valid
	n := &notice{Text: "The pieces are delivered."}
	if o.IsDone() {
		n.Text = "The order is delivered."
	}
	for _, w := range o.Warnings {
		n.Text += " " + sentence(w.Detail)
	}
	sent := map[string]string{}
	for row := 0; f.Values.Has(fmt.Sprintf("items[%d].id", row)); row++ {
		if n := fmt.Sprint(f.value(field{fmt.Sprintf("items[%d].quantity", row), number})); n != "<nil>" {
			sent[f.Values.Get(fmt.Sprintf("items[%d].id", row))] = n
		}
	}
	only := o.IsDone()
	for _, i := range o.Items {
		only = only && i.Delivered != nil && sent[i.ID] == strconv.Itoa(*i.Delivered)
	}
	if was := f.Values.Get("status"); only && (was == "received" || was == "in_production") {
		return undone(n.Text, "Undo", "/open", url.Values{"status": {was}})(v, f, answer)
	}
	if entries := v.deliveries(sent); len(entries) > 0 {
		n.Undo = &undo{"Undo", "/orders/" + v.r.PathValue("id") + "/deliveries/back" + v.query(),
			url.Values{"entry": entries}}
	}
	return n
}

// deliveries returns the ids of the newest entries of the ledger that deliver so many pieces of items of the order, by
// their ids. It returns nil if one of them is not the visitor's, or was taken back.
func (v *visit) deliveries(sent map[string]string) (ids []string) {
	var ledger found[pieceEntry]
	if v.fetch(get("/api/v1/piece-entries?order_id={id}&kind=delivered&limit=100", &ledger)) != nil {
		return nil // the notice then has no undo
	}
	seen := map[string]bool{}
	for _, e := range ledger.Items {
		n, ok := sent[e.OrderItemID]
		if !ok || seen[e.OrderItemID] {
			continue
		}
		if e.UserID != v.Actor.User || !e.CanReverse() || strconv.Itoa(e.Shortfall-e.Pieces) != n {
			return nil
		}
		seen[e.OrderItemID] = true
		ids = append(ids, e.ID)
	}
	if len(ids) < len(sent) {
		return nil
	}
	return ids
}

// takeDeliveriesBack reverses entries of the ledger of pieces that have delivered pieces of the order.
func takeDeliveriesBack(v *visit) error {
	f := v.sent()
	for _, text := range f.Values["entry"] {
		id, valid := value.ParseID(text)
		if !valid {
			return server.ErrNotFound
		}
		f.Key = v.newForm().Key
		ok, err := v.send(f, "POST", "/api/v1/piece-entries/"+id+"/reverse", nil, nil)
		if err != nil || !ok {
			return v.then(ok, err, "", func() error { return v.orderPage(422, "deliveries", f) })
		}
	}
	v.tell(&notice{Text: "The delivery is taken back."})
	return v.redirect(v.here("/orders"))
}

// itemFields are the fields of an item that a visitor can change.
var itemFields = []field{{"quantity", number}, {"unit_price", number}}

// editItem changes an item of an order. The notice has a form with the previous values.
func editItem(v *visit) error {
	f := v.sent()
	f.needs("quantity")
	again := func() error { return v.orderPage(422, "item", f) }
	if len(f.Errors) > 0 {
		return again()
	}
	ok, err := v.send(f, http.MethodPatch, "/api/v1/orders/{id}/items/{part}", f.changed(itemFields...), nil)
	back := url.Values{}
	for _, in := range itemFields {
		if now, was := f.Values.Get(in.name), f.Was.Get(in.name); f.Was.Has(in.name) {
			back[in.name], back["was."+in.name] = []string{was}, []string{now}
		}
	}
	n := &notice{Text: "The item is changed."}
	if f.Was.Has("quantity") {
		n.Undo = &undo{"Undo", v.r.URL.Path + v.query(), back}
	}
	v.tell(n)
	return v.then(ok, err, v.here("/orders"), again)
}

// itemAdded returns the notice of a new item, with a form that removes the item.
func itemAdded(v *visit, f *form, answer json.RawMessage) *notice {
	var item orderItem
	if err := json.Unmarshal(answer, &item); err != nil || item.ID == "" {
		return &notice{Text: "The item is added."}
	}
	return undone("The item is added.", "Undo", "/items/"+item.ID+"/remove", nil)(v, f, answer)
}
