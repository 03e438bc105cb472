package web

import (
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

// packingPage is the page that prints what people need to pack orders: with several orders, a sheet of all pieces to
// pick, and a slip for each order. Without orders in the address, the page offers orders.
type packingPage struct {
	Offered []offeredOrders
	Orders  []order
	Picks   []pickedProduct
}

// offeredOrders are orders that the page offers.
type offeredOrders struct {
	Title string
	Items []order `json:"items"`
	Total int     `json:"total"`
}

// pickedProduct is a row of the sheet to pick: a product with its pieces of all orders.
type pickedProduct struct {
	Name    string
	Thumb   template.HTML
	Pieces  int
	Printed int
	Orders  []pickedOrder
}

// pickedOrder is the part of the pieces that belongs to an order.
type pickedOrder struct {
	ID, Name string
	Pieces   int
}

// Share returns the orders with their pieces, such as "1001: 2, 1002: 1".
func (p pickedProduct) Share() string {
	var all []string
	for _, o := range p.Orders {
		all = append(all, o.Name+": "+strconv.Itoa(o.Pieces))
	}
	return strings.Join(all, ", ")
}

// Missing returns the number of pieces that are not printed yet.
func (p pickedProduct) Missing() int { return max(0, p.Pieces-p.Printed) }

// Missing returns the number of pieces of the item that are not printed yet.
func (i orderItem) Missing() int { return max(0, i.Quantity-i.Produced) }

// picked returns the sheet to pick for orders, by the names of the products.
func picked(orders []order) (all []pickedProduct) {
	at := map[string]int{}
	for _, o := range orders {
		for _, item := range o.Items {
			i, ok := at[item.ProductID]
			if !ok {
				i = len(all)
				at[item.ProductID] = i
				all = append(all, pickedProduct{Name: item.Product, Thumb: item.Thumb()})
			}
			p := &all[i]
			p.Pieces += item.Quantity
			p.Printed += min(item.Produced, item.Quantity)
			if last := len(p.Orders) - 1; last >= 0 && p.Orders[last].ID == o.ID {
				p.Orders[last].Pieces += item.Quantity
			} else {
				p.Orders = append(p.Orders, pickedOrder{o.ID, o.Name(), item.Quantity})
			}
		}
	}
	value.Sort(all, func(a, b pickedProduct) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// showPacking shows the slips of the orders that the address names by their ids, or offers the orders
// that are ready to pack and the other open orders, those first that are due first.
func showPacking(v *visit) error {
	p := &packingPage{}
	asked := v.r.URL.Query()["id"]
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
	p.Orders = make([]order, len(ids))
	var reads []read
	for i, id := range ids {
		reads = append(reads, get("/api/v1/orders/"+id, &p.Orders[i]))
	}
	if len(asked) == 0 {
		p.Offered = []offeredOrders{{Title: "Ready to pack"}, {Title: "Open"}}
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
	p.Picks = picked(p.Orders)
	return v.show(200, "packing", "Pick and pack", p)
}
