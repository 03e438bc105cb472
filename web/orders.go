package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// order is an order, as the API returns it.
type order struct {
	ID        string     `json:"id"`
	Source    string     `json:"source"`
	Reference string     `json:"reference"`
	Customer  string     `json:"customer"`
	DueDate   string     `json:"due_date"`
	Notes     string     `json:"notes"`
	Carrier   string     `json:"carrier"`
	Tracking  string     `json:"tracking_number"`
	Status    string     `json:"status"`
	ReadyAt   *time.Time `json:"ready_at"` // nil, unless all pieces are in stock
	CreatedAt *time.Time `json:"created_at"`
	Items     []orderItem
	Lines     []orderLine `json:"unassigned_lines"`
	Waiting   int         `json:"unassigned_count"`
	Runs      []run
	Currency  string
	Rate      num    `json:"exchange_rate"`
	RateDate  string `json:"exchange_date"`
	Included  bool   `json:"prices_include_tax"`
	Warnings  []struct {
		Code, Detail string
		Item         string `json:"order_item_id"`
		Pieces       int
	}
	costs

	// Lists have these instead of all items.
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
func (o order) Wanted(v translator) string { return runTitle(v, o.listed(), o.ItemCount) }

// Progress returns the produced pieces of an order in a list in words, or "" if there are no pieces.
func (o order) Progress(v translator) string {
	if o.Pieces == 0 {
		return ""
	}
	return v.t("%d of %d", o.Produced, o.Pieces)
}

// Bar returns the picture of the progress, or "".
func (o order) Bar(v translator) template.HTML {
	if o.Produced == 0 || o.Pieces == 0 {
		return ""
	}
	return progressBar(o.Produced*100/o.Pieces, v.t("Pieces printed: %d of %d", o.Produced, o.Pieces))
}

type orderItem struct {
	ID        string
	ProductID string `json:"product_id"`
	Product   string `json:"product_name"`
	Picture   string `json:"picture_version"`
	Quantity  int
	Price     num `json:"unit_price"`
	Tax       num `json:"tax_amount"`
	Produced  int
	Planned   int
	Delivered *int // nil, unless something was delivered
}

// Thumb returns the picture of the product, or "".
func (i orderItem) Thumb() template.HTML { return thumb(i.ProductID, i.Picture) }

// IsForeign reports whether the order is in another currency than that of the farm.
func (o order) IsForeign(v view) bool {
	return o.Currency != "" && v.Currency != "" && o.Currency != v.Currency
}

// Taxes returns in words whether the prices include tax, or "" if there is no tax.
func (o order) Taxes(v view) string {
	taxed := func(i orderItem) bool { return i.Tax != "" && float(i.Tax) != 0 }
	switch {
	case !slices.ContainsFunc(o.Items, taxed):
		return ""
	case o.Included:
		return v.t("Prices include tax; the revenue is without it.")
	}
	return v.t("Prices are without tax.")
}

// Name returns the name of the order for people.
func (o order) Name(v translator) string { return cmp.Or(o.Customer, o.Reference, v.t("Order")) }

// Number returns the number in the shop, or "" if it is the name.
func (o order) Number() string {
	if o.Customer == "" || o.Customer == o.Reference {
		return ""
	}
	return o.Reference
}

// orderStates are the states of orders in words.
var orderStates = map[string]language.Text{"received": "Received", "in_production": "In production",
	"done": "Done|an order", "cancelled": "Cancelled|an order"}

// State returns the state of the order in words.
func (o order) State(v view) string { return v.t(orderStates[o.Status]) }

// IsOpen reports whether something is left to print.
func (o order) IsOpen() bool { return o.Status == "received" || o.Status == "in_production" }

// IsDone reports whether the order is delivered, or was marked done by hand.
func (o order) IsDone() bool { return o.Status == "done" }

// IsByHand reports whether something was delivered, or the order was marked done by hand.
func (o order) IsByHand() bool {
	return slices.ContainsFunc(o.Items, func(i orderItem) bool { return i.Delivered != nil })
}

// IsPart reports whether the customer has got pieces of an order that is not done, or of an item that was removed.
func (o order) IsPart() bool {
	return len(o.removed()) > 0 || !o.IsDone() && slices.ContainsFunc(o.Items, isDelivered)
}

func isDelivered(i orderItem) bool { return i.Delivered != nil && *i.Delivered > 0 }

// removed returns the ids of removed items of which the customer has got pieces, with their number.
func (o order) removed() map[string]int {
	all := map[string]int{}
	for _, w := range o.Warnings {
		isItem := func(i orderItem) bool { return i.ID == w.Item }
		if w.Code == "DELIVERED_NOT_EARNED" && !slices.ContainsFunc(o.Items, isItem) {
			all[w.Item] = w.Pieces
		}
	}
	return all
}

// late returns the additional HTML class of the due date if the order is open and late, and "" otherwise.
func (o order) late(v *visit) string {
	if o.IsOpen() && v.IsPast(o.DueDate) {
		return " late"
	}
	return ""
}

var orderList = &listOf[order]{editor: orders, Title: "Orders", Class: "fixed", Add: "Add an order",
	Empty: "There are no open orders. An order says what a customer gets, and when; its plan prints what is missing.",
	First: "Add an order", More: word{"/orders?status=received,in_production,done,cancelled", "All|orders"},
	Other: word{"/packing", "Pick and pack"},
	Also:  word{"/files?what=orders", "Import"},
	filters: []filter{searchFilter, {"status", "status", "Status", []word{{"", "Open|orders"},
		{"received,in_production,done,cancelled", "All|orders"}, {"received", "Received"},
		{"in_production", "In production"}, {"done", "Done|an order"}, {"cancelled", "Cancelled|an order"}}},
		{"ready", "ready", "Pieces", []word{anything, {"true", "Ready to pack"}, {"false", "Not ready"}}},
		{"unassigned", "unassigned", "Lines", []word{anything, {"true", "Without a product"}}}},
	orders: []listOrder{{"", "Due first", "due_date", "asc"}, {"newest", "Newest first", "created_at", "desc"},
		{"customer", "Customer", "customer", "asc"}},
	columns: []column{{label: "Order", by: "customer"}, {label: "Items", class: "wide"},
		{label: "Progress", class: "wide short", by: "status", falls: true}, {label: "Value", class: "amount wide"},
		{label: "Due", class: "amount", by: "due_date"}},
	query: func(l *listing, query url.Values) {
		if l.Filter.Get("status") == "" {
			query.Set("status", "received,in_production")
		}
	},
	row: func(v *visit, r *rows, o *order) {
		state, mark := v.t(orderStates[o.Status]), newMark(o.Status)
		if o.ReadyAt != nil {
			state, mark = v.t("Ready to pack"), newMark("done")
		}
		r.add(`<tr><td><a class="title" href="/orders/{}"><b>{}</b></a> <small><span class="narrow-only">`, o.ID, o.Name(v))
		r.picture(mark)
		r.add(`{}`, state)
		who := strings.Trim(o.Number()+" · "+o.Source, " ·")
		if text := o.Unassigned(v); text != "" {
			who = strings.Trim(who+" · "+text, " ·")
		}
		r.when(who != "", ` · `)
		r.add(`</span>{}</small></td><td class="wide">`, who)
		r.picture(thumbOf(o.listed()))
		r.add(`<span class="clamp">{}</span></td><td class="wide short">`, o.Wanted(v))
		r.picture(mark)
		r.add(`{} <small>{}</small>`, state, o.Progress(v))
		r.picture(o.Bar(v))
		r.add(`</td><td class="amount wide">{}</td><td class="amount{}">{}</td></tr>`+"\n", v.Money(o.Value), o.late(v),
			v.Day(o.DueDate))
	}}

var orders = &editor{api: "/api/v1/orders", path: "/orders", noun: orderNoun,
	name: func(get func(string) string) string {
		return cmp.Or(get("customer"), get("reference"), "–")
	},
	fields: []editorField{
		{field{"customer", text}, "Customer", "", nil},
		{field{"source", text}, "Shop", "may", nil},
		{field{"reference", text}, "Number in the shop", "may", nil},
		{field{"due_date", text}, "Due on", "type=date", nil},
		{field{"currency", text}, "Currency of the prices", "may;hint=Such as USD. Empty for that of the farm.", nil},
		{field{"exchange_rate", number}, "Exchange rate", "may;type=number;unit=$currency", nil},
		{field{"exchange_date", text}, "Exchange rate of|a day", "may;type=date;hint=Today if it is empty.", nil},
		{field{"sales_tax_percent", number}, "Sales tax", "may;type=number;unit=%", nil},
		{field{"prices_include_tax", optionalFlag}, "Prices", "may", []word{{"", "As in the settings"},
			{"true", "Include tax"}, {"false", "Are without tax"}}},
		{field{"carrier", text}, "Carrier", "may", nil},
		{field{"tracking_number", text}, "Tracking number", "may", nil},
		{field{"notes", text}, "Notes", "may;rows=3", nil},
	},
	lists: []nestedList{{name: "items", title: "Products", count: 3, any: "/api/v1/products",
		hint: "Empty pieces are one piece. An empty price is that of the product.", fields: []editorField{
			{field{"product_id", text}, "Product", "find=products", nil},
			{field{"quantity", number}, "Pieces", "type=number", nil},
			{field{"unit_price", number}, "Price of a piece", "type=number;unit=$currency", nil}}}}}

type orderPage struct {
	forms
	Order order
	Stock availability
	Alike map[string]*choice // by the id of a line, the product of the same name
	tag   string             // the ETag of the order
}

// Form returns the form of the page with the name.
func (p *orderPage) Form(name string) *form {
	f := p.forms.Form(name)
	if f != p.sent && (name == "item" || name == "complete") {
		f.Tag = p.tag
	}
	return f
}

// Of returns the form that changes the item.
func (p *orderPage) Of(i orderItem) *form {
	if p.IsRefused("item", i.ID) {
		return p.sent
	}
	f := newForm(p.read)
	f.Tag = p.tag
	f.show("quantity", strconv.Itoa(i.Quantity))
	f.show("unit_price", p.read.text(i.Price))
	return f
}

// Delivered returns the input for the number of pieces that the customer got of the item with the index.
func (p *orderPage) Delivered(f *form, index int) input {
	i := p.Order.Items[index]
	n := i.Quantity
	if i.Delivered != nil {
		n = *i.Delivered
	}
	f.show(fmt.Sprintf("items[%d].id", index), i.ID)
	return newInput(f, fmt.Sprintf("items[%d].delivered", index), "", "label="+i.Product, "type=number", "required",
		"value="+strconv.Itoa(n))
}

// available returns the sources of the undelivered pieces of the item, or nil if the order is not open.
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
		words = append(words, v.t("%d of %d delivered|%d of %d delivered", *i.Delivered, i.Quantity))
	}
	if a := p.available(i); a != nil {
		words = append(words, a.words(v.visit)...)
	}
	return commas(v, words)
}

// Deliver returns the input for the number of pieces of the item with the index that the customer gets now. Its value
// is the number of those in stock.
func (p *orderPage) Deliver(f *form, index int) input {
	v := f.read.visit
	i, n := p.Order.Items[index], 0
	if a := p.available(i); a != nil && p.Order.ReadyAt != nil {
		n = a.Needed
	} else if a != nil {
		n = a.Reserved
	}
	return newInput(f, fmt.Sprintf("items[%d].quantity", index), "", "label="+v.t("%s to deliver", i.Product),
		"type=number", "value="+strconv.Itoa(n))
}

func showOrder(v *visit) error { return v.orderPage(200, "", nil) }

// orderForm returns the form with the name of the order of the page, with the present values.
func orderForm(name string) func(*visit) (*form, error) {
	return func(v *visit) (*form, error) {
		p := &orderPage{forms: v.forms("", nil)}
		err := v.fetch(read{path: "/api/v1/orders/{id}", into: &p.Order, tag: &p.tag})
		f := p.Form(name)
		for i, item := range p.Order.Items {
			if name == "complete" {
				p.Delivered(f, i)
			} else if item.ID == v.r.PathValue("part") {
				f = p.Of(item)
			}
		}
		return f, err
	}
}

func (v *visit) orderPage(status int, name string, f *form) error {
	p := &orderPage{forms: v.forms(name, f)}
	if err := v.fetch(
		read{path: "/api/v1/orders/{id}", into: &p.Order, tag: &p.tag},
		get("/api/v1/orders/{id}/availability", &p.Stock),
	); err != nil {
		return err
	}
	if err := p.propose(v); err != nil {
		return err
	}
	return v.show(status, "order", p.Order.Name(v), p)
}

var oneOrder = resource{"/api/v1/orders", "/orders", (*visit).orderPage}

// RunOf returns the address of the form of a new run, which prints the pieces of an item that are neither printed nor
// planned.
func (o order) RunOf(product, item string, quantity, produced, planned int) string {
	return "/runs/new?" + url.Values{"product": {product}, "order_item": {item},
		"quantity": {fmt.Sprint(max(1, quantity-produced-planned))}}.Encode()
}

// orderEnded returns the notice with the text of a form that ends the order. The form contains the previous status, and
// the notice has a form that sets this status again.
func orderEnded(text language.Text) makeNotice {
	return func(v *visit, f *form, answer json.RawMessage) *notice {
		was := f.Values.Get("status")
		if was != "received" && was != "in_production" {
			return &notice{Text: v.t(text)}
		}
		return withUndo(text, "Undo", "/open", url.Values{"status": {was}})(v, f, answer)
	}
}

// delivered makes the body of the operation that marks an order done by hand. It has all items, also those that the
// visitor did not change.
func delivered(f *form) map[string]any {
	body, all := map[string]any{}, *f
	all.Was = url.Values{}
	all.putRows(body, "items", field{"id", text}, field{"delivered", number})
	return body
}

// closeOrder makes an order done with what was delivered of it.
func closeOrder(v *visit) error {
	var o order
	if err := v.fetch(get("/api/v1/orders/{id}", &o)); err != nil {
		return err
	}
	var items []map[string]any
	for _, i := range o.Items {
		n := 0
		if i.Delivered != nil {
			n = *i.Delivered
		}
		items = append(items, map[string]any{"id": i.ID, "delivered": n})
	}
	for id, n := range o.removed() {
		items = append(items, map[string]any{"id": id, "delivered": n})
	}
	return oneOrder.action("close", "POST", "/complete", func(*form) map[string]any {
		return map[string]any{"items": items}
	}, withWarnings(showText("The order is done, with what was delivered."), "COUNTED_SINCE"))(v)
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
		f.Problem = f.read.visit.t("Type the pieces of at least one product.")
	}
	return body
}

// shipped returns the notice of a delivery. Its form undoes the delivery: it reopens the order if this was the only
// delivery of a done order, and otherwise reverses the entries of the ledger.
func shipped(v *visit, f *form, answer json.RawMessage) *notice {
	var o order
	json.Unmarshal(answer, &o) // an answer of the API is valid
	n := &notice{Text: v.t("The pieces are delivered.")}
	if o.IsDone() {
		n.Text = v.t("The order is delivered.")
	}
	n.warn(v, answer, "COUNTED_SINCE", "PIECES_SHORTFALL") // the page has the others
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
		return v.undoable(n.Text, "Undo", "/open", url.Values{"status": {was}})
	}
	if entries := v.deliveries(sent); len(entries) > 0 {
		n.Undo = &undo{v.t("Undo"), "/orders/" + v.r.PathValue("id") + "/deliveries/back" + v.query(),
			url.Values{"entry": entries}}
	}
	return n
}

// deliveries returns the ids of the newest entries of the ledger that deliver pieces of items of the order. sent maps
// the ids of the items to the numbers of pieces. It returns nil if an entry is not the visitor's, or was reversed.
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

// takeDeliveriesBack reverses entries of the ledger of pieces that deliver pieces of the order.
func takeDeliveriesBack(v *visit) error {
	f, n := v.sent(), &notice{Text: v.t("The delivery is taken back.")}
	for _, text := range f.Values["entry"] {
		id, valid := value.ParseID(text)
		if !valid {
			return server.ErrNotFound
		}
		f.Key = v.newForm().Key
		var answer json.RawMessage
		ok, err := v.send(f, "POST", "/api/v1/piece-entries/"+id+"/reverse", nil, &answer)
		if err != nil || !ok {
			return v.then(ok, err, "", func() error { return v.orderPage(422, "deliveries", f) })
		}
		n.warn(v, answer)
	}
	v.tell(n)
	return v.redirect(v.here("/orders"))
}

// itemFields are the fields of an item that a visitor can change.
var itemFields = []field{{"quantity", number}, {"unit_price", number}}

func itemEdit(f *form) map[string]any {
	f.needs("quantity")
	return f.changed(itemFields...)
}

// itemAdded returns the notice of a new item, with a form that removes the item.
func itemAdded(v *visit, f *form, answer json.RawMessage) *notice {
	var item orderItem
	if err := json.Unmarshal(answer, &item); err != nil || item.ID == "" {
		return &notice{Text: v.t("The item is added.")}
	}
	return withUndo("The item is added.", "Undo", "/items/"+item.ID+"/remove", nil)(v, f, answer)
}
