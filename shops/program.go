package shops

import (
	"context"
	"strings"

	"spoolwright/db"
	"spoolwright/inventory/imports"
	"spoolwright/server"
	"spoolwright/transfer"
)

// program describes the files of a program.
type program struct {
	name   string // its orders have it as their source, unless there is one connection of this kind
	titles string // all of them are in the file, separated by commas
	any    string // and one of these, if there are some
	fields []programField
	dates  transfer.DateOrder
}

// programField has the titles of the columns that a field can have. The first one that is in the file is the field.
type programField struct{ field, titles string }

var programs = []program{
	// "Sold order items" of Etsy: a row for each line, with the fields of the order repeated.
	{name: "etsy", titles: "Order ID, Transaction ID, Item Name, Quantity", dates: transfer.MonthFirst,
		fields: []programField{{"reference", "Order ID"}, {"line_id", "Transaction ID"}, {"title", "Item Name"},
			{"variation", "Variations"}, {"sku", "SKU"}, {"quantity", "Quantity"}, {"unit_price", "Price"},
			{"discount_price", "Discount Amount"}, {"shipped_at", "Date Shipped"}, {"customer", "Ship Name, Buyer"}}},
	// Only the first row of an order has the fields of the order.
	{name: "shopify", titles: "Name, Lineitem name, Lineitem quantity",
		fields: []programField{{"reference", "Name"}, {"shop_order_id", "Id"}, {"title", "Lineitem name"},
			{"sku", "Lineitem sku"}, {"quantity", "Lineitem quantity"}, {"unit_price", "Lineitem price"},
			{"discount_price", "Lineitem discount"}, {"line_status", "Lineitem fulfillment status"},
			{"shipping_status", "Fulfillment Status"}, {"status", "Financial Status"},
			{"cancelled_at", "Cancelled at"}, {"updated_at", "Created at"}, {"notes", "Notes"},
			{"customer", "Billing Name, Shipping Name"}}},
	// The order reports of Amazon, also those of unshipped orders: a row for each line, with the price of all its pieces.
	{name: "amazon", titles: "order-id, order-item-id, quantity-purchased",
		fields: []programField{{"reference", "order-id"}, {"line_id", "order-item-id"}, {"title", "product-name"},
			{"sku", "sku"}, {"quantity", "quantity-purchased"}, {"line_price", "item-price"},
			{"due_date", "promise-date, latest-ship-date"}, {"customer", "recipient-name, buyer-name"}}},
	// WooCommerce has no export of orders. These are the titles of the plugins Advanced Order Export, Customer/Order CSV
	// Export, and Order Export & Order Import, with a row for each line.
	{name: "woocommerce", titles: "Order Number", any: "Order Status, First Name (Billing), billing_first_name, " +
		"item_name, Item Cost, Quantity (- Refund)", fields: wooFields},
	{name: "woocommerce", titles: "order_id, status", any: "item_name, item_sku, billing_first_name", fields: wooFields},
}

var wooFields = []programField{{"reference", "Order Number, order_number, Order ID"}, {"shop_order_id", "Order ID"},
	{"status", "Order Status, Status"}, {"notes", "Customer Note, Customer Notes"},
	{"customer", "Full Name (Billing), billing_full_name, Full Name (Shipping), shipping_full_name"},
	{"first_name", "First Name (Billing), billing_first_name, First Name (Shipping), shipping_first_name"},
	{"last_name", "Last Name (Billing), billing_last_name, Last Name (Shipping), shipping_last_name"},
	{"title", "Item Name, item_name, Product Name, Name"}, {"variation", "Product Variation, item_variation"},
	{"sku", "SKU, item_sku, Product SKU"}, {"quantity", "Quantity (- Refund), Quantity, item_quantity"},
	{"refunded_quantity", "item_refunded_qty"}, {"unit_price", "Item Cost, item_price"}, {"line_price", "item_total"},
	{"line_id", "item_id, Order Item ID"}, {"updated_at", "Modified Date, date_modified"}}

// maxTitleRows is the number of rows in which titles of a program are looked for.
const maxTitleRows = 30

// programOf returns the program whose titles these are, with the titles of its fields, or nil.
func programOf(titles []string) (*program, map[string]string) {
	known := map[string]string{}
	for _, title := range titles {
		if key := imports.Key(title); key != "" && known[key] == "" {
			known[key] = title
		}
	}
	has := func(names string) (found []string, all bool) {
		all = true
		for name := range strings.SplitSeq(names, ",") {
			if title := known[imports.Key(name)]; title != "" {
				found = append(found, title)
			} else {
				all = false
			}
		}
		return found, all
	}
	for i := range programs {
		p := &programs[i]
		_, all := has(p.titles)
		some, _ := has(p.any)
		if !all || p.any != "" && some == nil {
			continue
		}
		fields, taken := map[string]string{}, map[string]bool{}
		for _, f := range p.fields {
			if found, _ := has(f.titles); found != nil && !taken[found[0]] {
				fields[found[0]], taken[found[0]] = f.field, true
			}
		}
		return p, fields
	}
	return nil, nil
}

// fileProgram returns the program that has written a file, or nil. Its orders are those of the connection to a shop of
// the program, if the farm has one such connection.
func fileProgram(ctx context.Context, d *db.DB, sheet *transfer.Sheet) (*transfer.Program, error) {
	for _, row := range sheet.Rows[:min(len(sheet.Rows), maxTitleRows)] {
		titles := transfer.Texts(row.Cells)
		if isEtsyOrders(titles) {
			return nil, server.Invalid("body", "cannot be imported: this is Etsy's list of orders, which does not say what "+
				"was ordered; download the order items of the same month")
		}
		p, fields := programOf(titles)
		if p == nil {
			continue
		}
		source := p.name
		var name string
		shop := db.SQL(`select name from shops where kind = $1 and (select count(*) from shops where kind = $1) = 1`,
			p.name).Into(&name)
		if err := d.Read(ctx, shop); err != nil {
			return nil, err
		}
		if shop.Rows() > 0 {
			source = name
		}
		return &transfer.Program{Name: p.name, Fields: fields, Dates: p.dates,
			Defaults: map[string]string{"source": source}}, nil
	}
	return nil, nil
}

// isEtsyOrders reports whether titles are those of Etsy's list of orders without their lines.
func isEtsyOrders(titles []string) bool {
	found := 0
	for _, title := range titles {
		switch imports.Key(title) {
		case "orderid", "numberofitems", "ordernet":
			found++
		case "itemname":
			return false
		}
	}
	return found == 3
}
