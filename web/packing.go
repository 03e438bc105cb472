package web

import (
	"cmp"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"spoolwright/server"
	"spoolwright/value"
)

// maxPacked is the maximum number of orders that are packed together.
const maxPacked = 50

// packingPage is the page that prints what people need to pack orders: a sheet of all pieces to take from stock, and a
// slip for each order. Without orders in the address, the page offers orders.
type packingPage struct {
	Offered []offeredOrders
	pickList
}

// Offers reports whether the page has orders to choose from.
func (p *packingPage) Offers() bool {
	return slices.ContainsFunc(p.Offered, func(o offeredOrders) bool { return o.Total > 0 })
}

type offeredOrders struct {
	Title string
	Items []order `json:"items"`
	Total int     `json:"total"`
	All   bool    // whether the page offers all of them together
}

// pickList lists the pieces to take from stock, as the API returns it.
type pickList struct {
	Picks  []pickedProduct
	Orders []pickedOrder
	Total  int
}

// pickedProduct is a row of the sheet to pick: a product with its pieces for all orders.
type pickedProduct struct {
	pickedName
	Pieces int
	Orders []struct {
		ID     string `json:"order_id"`
		Pieces int
		IsPart bool `json:"is_part"`
	}
	Share string `json:"-"` // the orders with their pieces, such as "1001: 2, 1002: 1"
}

// pickedName is a product of a pick list.
type pickedName struct {
	ID       string `json:"product_id"`
	Name     string `json:"product_name"`
	SKU      string
	Location string
	Picture  string `json:"picture_version"`
}

// Thumb returns the small picture of the product.
func (p pickedName) Thumb() template.HTML { return thumb(p.ID, p.Picture) }

// pickedOrder is an order with what to pack.
type pickedOrder struct {
	ID        string
	Source    string
	Reference string
	Customer  string
	DueDate   string `json:"due_date"`
	Notes     string
	Items     []pickedItem
	Lines     []orderLine `json:"unassigned_lines"`
}

// Name returns the name of the order for people.
func (o pickedOrder) Name(v translator) string { return cmp.Or(o.Reference, o.Customer, v.t("Order")) }

type pickedItem struct {
	pickedName
	Quantity  int
	Delivered int
	Take      int
	Assemble  int
	Missing   int
	Parts     []struct {
		pickedName
		Take    int
		Missing int
	}
}

// Pieces returns the pieces to pack, or all pieces if the customer has them already.
func (i pickedItem) Pieces() int {
	if i.Delivered < i.Quantity {
		return i.Quantity - i.Delivered
	}
	return i.Quantity
}

// share sets the Share of the products.
func (l *pickList) share(v *visit) {
	names := map[string]string{}
	for _, o := range l.Orders {
		names[o.ID] = o.Name(v)
	}
	for i := range l.Picks {
		var all []string
		p, pieces := &l.Picks[i], map[string]int{}
		for _, o := range p.Orders {
			if pieces[o.ID] == 0 {
				all = append(all, o.ID)
			}
			pieces[o.ID] += o.Pieces
		}
		for n, id := range all {
			all[n] = names[id] + ": " + strconv.Itoa(pieces[id])
		}
		p.Share = commas(v, all)
	}
}

// showPacking shows the slips of the orders that the address names by their ids, or of all orders that are ready to
// pack, in the language of the farm. Otherwise it offers the ready orders and the other open orders, in the order of
// their due dates.
func showPacking(v *visit) error {
	p := &packingPage{}
	asked, ready := v.r.URL.Query()["id"], v.r.URL.Query().Get("ready") != ""
	if len(asked) > maxPacked {
		return server.Invalid("id", "must be given at most %d times", maxPacked)
	}
	var ids []string
	for _, text := range asked {
		id, ok := value.ParseID(text)
		if !ok {
			return server.ErrNotFound
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	list := read{path: "/api/v1/orders/pick-list", into: &p.pickList, query: url.Values{"ready": {"true"}}}
	if !ready {
		list.query = url.Values{"ids": {strings.Join(ids, ",")}}
	}
	reads := []read{list}
	if !ready && len(ids) == 0 {
		p.Offered = []offeredOrders{{Title: v.t("Ready to pack"), All: true}, {Title: v.t("Open|orders")}}
		limit := strconv.Itoa(maxPacked / 2)
		reads = []read{
			{path: "/api/v1/orders", into: &p.Offered[0], query: url.Values{"ready": {"true"}, "sort_by": {"due_date"},
				"sort_order": {"asc"}, "limit": {limit}}},
			{path: "/api/v1/orders", into: &p.Offered[1], query: url.Values{"status": {"received,in_production"},
				"ready": {"false"}, "sort_by": {"due_date"}, "sort_order": {"asc"}, "limit": {limit}}},
		}
	}
	if err := v.fetch(reads...); err != nil {
		return err
	}
	if !ready && len(p.Orders) < len(ids) { // the list leaves out removed orders and those of other farms
		return server.ErrNotFound
	}
	if p.Offered == nil {
		v = v.forFarm()
	}
	p.share(v)
	return v.show(200, "packing", v.t("Pick and pack"), p)
}
