package shops

import (
	"context"
	"strings"

	"spoolwright/db"
	"spoolwright/inventory/sheets"
	"spoolwright/server"
	"spoolwright/transfer"
)

// program describes the files of a program.
type program struct {
	name   string // the source of its orders, unless the farm has exactly one connection of this kind
	titles string // all of them are in the file, separated by commas
	any    string // if not "", the file must also have one of these
	fields []programField
	dates  transfer.DateOrder
	// Whether rows other than the first row of an order may lack its fields, even its number.
	firstRow bool
}

// programField has the possible titles of the column of a field. The first one that the file has is used.
type programField struct{ field, titles string }

var programs = []program{
	// The orders of eBay's Seller Hub: a row for each line and, for several lines, one more for the order.
	{name: "ebay", titles: "Order Number, Item Title, Quantity", any: "Sales Record Number, Buyer Username, Item Number",
		fields: ebayFields, dates: transfer.MonthFirst},
	{name: "ebay", titles: "Bestellnummer", any: "Verkaufsprotokollnummer, Nutzername des Käufers, " +
		"Mitgliedsname des Käufers", fields: ebayFields, dates: transfer.DayFirst},
	// The orders of TikTok Shop: a row for each line, and a row with descriptions below the titles. The platform pays
	// its own discounts to the seller.
	{name: "tiktok", titles: "Order ID, Seller SKU, Quantity",
		fields: []programField{{"reference", "Order ID"}, {"status", "Order Status"}, {"sku", "Seller SKU"},
			{"title", "Product Name"}, {"variation", "Variation"}, {"quantity", "Quantity"},
			{"refunded_quantity", "Sku Quantity of return"}, {"unit_price", "SKU Unit Original Price"},
			{"discount_price", "SKU Seller Discount"}, {"cancelled_at", "Cancelled Time"}, {"shipped_at", "Shipped Time"},
			{"notes", "Buyer Message"}, {"customer", "Recipient, Buyer Username"}, {"currency", "Currency"}}},
	{name: "squarespace", titles: "Order ID, Lineitem name, Lineitem quantity", firstRow: true,
		fields: []programField{{"reference", "Order ID"}, {"title", "Lineitem name"}, {"sku", "Lineitem sku"},
			{"variation", "Lineitem variant"}, {"quantity", "Lineitem quantity"}, {"unit_price", "Lineitem price"},
			{"line_status", "Lineitem fulfillment status"}, {"shipping_status", "Fulfillment Status"},
			{"payment_status", "Financial Status"}, {"cancelled_at", "Cancelled at"}, {"updated_at", "Created at"},
			{"notes", "Customer Note, Notes, Private Notes"}, {"customer", "Billing Name, Shipping Name"},
			{"currency", "Currency"}, {"taxable", "Lineitem taxable"}, {"order_discount_price", "Discount Amount"},
			{"order_lines_price", "Subtotal"}, {"order_shipping_price", "Shipping"}, {"order_tax_amount", "Taxes"},
			{"order_total_price", "Total"}}},
	// The orders of Square Online, and the items sold at a point of sale.
	{name: "square", titles: "Order, Item Name, Item Quantity", any: "Recipient Name, Fulfillment Type, Item Total Price",
		firstRow: true, fields: []programField{{"reference", "Order"}, {"customer", "Recipient Name"},
			{"shipping_status", "Fulfillment Status"}, {"notes", "Fulfillment Notes"}, {"title", "Item Name"},
			{"variation", "Item Variation"}, {"personalization", "Item Modifiers"}, {"sku", "Item SKU"},
			{"quantity", "Item Quantity"}, {"unit_price", "Item Price"}, {"line_price", "Item Total Price"},
			{"currency", "Currency"}}},
	{name: "square", titles: "Transaction ID, Item, Qty, Gross Sales",
		fields: []programField{{"reference", "Transaction ID"}, {"customer", "Customer Name"}, {"title", "Item"},
			{"variation", "Price Point Name"}, {"personalization", "Modifiers Applied"}, {"sku", "SKU"}, {"quantity", "Qty"},
			{"line_price", "Gross Sales"}, {"notes", "Notes"}}},
	// The export of BigCommerce with a row for each product.
	{name: "bigcommerce", titles: "Order ID, Product Name, Product Qty",
		fields: []programField{{"reference", "Order ID"}, {"status", "Order Status"}, {"customer", "Customer Name"},
			{"notes", "Customer Message, Order Notes"}, {"title", "Product Name"}, {"sku", "Product SKU"},
			{"variation", "Product Variation Details"}, {"quantity", "Product Qty"}, {"unit_price", "Product Unit Price"},
			{"line_price", "Product Total Price"}, {"shipped_at", "Date Shipped"},
			{"currency", "Order Currency Code, Currency Code"}}},
	// Magento and PrestaShop export no lines themselves. These are the names of their tables, which extensions use.
	{name: "magento", titles: "increment_id", any: "qty_ordered, Qty Ordered, product_name, item_sku",
		fields: []programField{{"reference", "increment_id"}, {"shop_order_id", "entity_id, order_id"},
			{"status", "status, state"}, {"customer", "customer_name, billing_name, shipping_name"},
			{"first_name", "customer_firstname, billing_firstname"}, {"last_name", "customer_lastname, billing_lastname"},
			{"notes", "customer_note"}, {"title", "product_name, item_name, name"}, {"sku", "sku, item_sku, product_sku"},
			{"variation", "product_options, options"}, {"quantity", "qty_ordered, qty"},
			{"refunded_quantity", "qty_refunded"}, {"unit_price", "price, item_price"}, {"line_price", "row_total"},
			{"line_id", "item_id"}, {"currency", "order_currency_code"}, {"updated_at", "updated_at"}}},
	{name: "prestashop", titles: "reference, product_name, product_quantity",
		fields: []programField{{"reference", "reference"}, {"shop_order_id", "id_order"},
			{"status", "order_state, state_name, status"}, {"customer", "customer, customer_name"},
			{"first_name", "firstname"}, {"last_name", "lastname"}, {"notes", "message, note"}, {"title", "product_name"},
			{"sku", "product_reference"}, {"quantity", "product_quantity"},
			{"refunded_quantity", "product_quantity_refunded"},
			{"unit_price", "unit_price_tax_incl, unit_price_tax_excl, product_price"}, {"line_id", "id_order_detail"},
			{"personalization", "customization, customized_data"}}},
	{name: "wix", titles: "Order number, Item, Payment status",
		fields: []programField{{"reference", "Order number"}, {"customer", "Billing name, Recipient name, Customer name"},
			{"title", "Item"}, {"variation", "Variant"}, {"personalization", "Item's custom text, Custom text"},
			{"sku", "SKU"}, {"quantity", "Qty, Quantity"}, {"unit_price", "Price"}, {"payment_status", "Payment status"},
			{"shipping_status", "Fulfillment status"}, {"notes", "Note from customer"}, {"currency", "Currency"}}},
	// "Sold order items" of Etsy: a row for each line, with the fields of the order repeated.
	{name: "etsy", titles: "Order ID, Transaction ID, Item Name, Quantity", dates: transfer.MonthFirst,
		fields: []programField{{"reference", "Order ID"}, {"line_id", "Transaction ID"}, {"title", "Item Name"},
			{"variation", "Variations"}, {"sku", "SKU"}, {"quantity", "Quantity"}, {"unit_price", "Price"},
			{"discount_price", "Discount Amount"}, {"shipped_at", "Date Shipped"}, {"customer", "Ship Name, Buyer"},
			{"currency", "Currency"}, {"tax_amount", "VAT Paid by Buyer"}, {"order_tax_amount", "Order Sales Tax"}}},
	// Only the first row of an order has the fields of the order.
	{name: "shopify", titles: "Name, Lineitem name, Lineitem quantity", firstRow: true,
		fields: []programField{{"reference", "Name"}, {"shop_order_id", "Id"}, {"title", "Lineitem name"},
			{"sku", "Lineitem sku"}, {"quantity", "Lineitem quantity"}, {"unit_price", "Lineitem price"},
			{"discount_price", "Lineitem discount"}, {"line_status", "Lineitem fulfillment status"},
			{"shipping_status", "Fulfillment Status"}, {"payment_status", "Financial Status"},
			{"cancelled_at", "Cancelled at"}, {"updated_at", "Created at"}, {"notes", "Notes"},
			{"customer", "Billing Name, Shipping Name"}, {"currency", "Currency"}, {"taxable", "Lineitem taxable"},
			{"order_discount_price", "Discount Amount"}, {"order_lines_price", "Subtotal"},
			{"order_shipping_price", "Shipping"}, {"order_tax_amount", "Taxes"}, {"order_total_price", "Total"}}},
	// The order reports of Amazon, also those of unshipped orders: a row for each line, with the price of all its pieces.
	{name: "amazon", titles: "order-id, order-item-id, quantity-purchased",
		fields: []programField{{"reference", "order-id"}, {"line_id", "order-item-id"}, {"title", "product-name"},
			{"sku", "sku"}, {"quantity", "quantity-purchased"}, {"line_price", "item-price"},
			{"due_date", "promise-date, latest-ship-date"}, {"customer", "recipient-name, buyer-name"},
			{"currency", "currency"}, {"tax_amount", "item-tax"}, {"discount_price", "item-promotion-discount"}}},
	// WooCommerce has no export of orders. These are the titles of the plugins Advanced Order Export, Customer/Order CSV
	// Export, and Order Export & Order Import, with a row for each line.
	{name: "woocommerce", titles: "Order Number", any: "Order Status, First Name (Billing), billing_first_name, " +
		"item_name, Item Cost, Quantity (- Refund)", fields: wooFields},
	{name: "woocommerce", titles: "order_id, status", any: "item_name, item_sku, billing_first_name", fields: wooFields},
}

var ebayFields = []programField{{"reference", "Order Number, Bestellnummer"}, {"customer", "Buyer Name, " +
	"Name des Käufers, Käufername, Ship To Name"}, {"title", "Item Title, Artikelbezeichnung, Artikeltitel, Angebotstitel"},
	{"sku", "Custom Label, Custom Label (SKU), Bestandseinheit, Bestandseinheit (SKU), Eigene Bezeichnung, " +
		"Individuelle Bezeichnung, Individuelle Bezeichnung (SKU)"},
	{"variation", "Variation Details, Variationsdetails, Variantendetails, Varianteninformationen"},
	{"quantity", "Quantity, Anzahl, Menge, Stückzahl"}, {"unit_price", "Sold For, Verkauft für, Verkaufspreis"},
	{"paid_at", "Paid On Date, Bezahlt am, Zahlungsdatum, Datum der Zahlung"},
	{"shipped_at", "Shipped On Date, Versandt am, Versendet am, Versanddatum, Verschickt am"},
	{"due_date", "Ship By Date, Versenden bis, Versand bis, Spätestes Versanddatum"},
	{"notes", "Buyer Note, Hinweis des Käufers, Nachricht des Käufers, Käufernotiz"},
	{"line_id", "Transaction ID, Transaktionsnummer, Transaktions-ID"}}

var wooFields = []programField{{"reference", "Order Number, order_number, Order ID"}, {"shop_order_id", "Order ID"},
	{"status", "Order Status, Status"}, {"notes", "Customer Note, Customer Notes"},
	{"customer", "Full Name (Billing), billing_full_name, Full Name (Shipping), shipping_full_name"},
	{"first_name", "First Name (Billing), billing_first_name, First Name (Shipping), shipping_first_name"},
	{"last_name", "Last Name (Billing), billing_last_name, Last Name (Shipping), shipping_last_name"},
	{"title", "Item Name, item_name, Product Name, Name"}, {"variation", "Product Variation, item_variation"},
	{"sku", "SKU, item_sku, Product SKU"}, {"quantity", "Quantity (- Refund), Quantity, item_quantity"},
	{"refunded_quantity", "item_refunded_qty"}, {"unit_price", "Item Cost, item_price"}, {"line_price",
		"item_total, Order Line Total"},
	{"currency", "Order Currency, order_currency, Currency"}, {"tax_amount", "item_total_tax, Order Line Tax, item_tax"},
	{"line_id", "item_id, Order Item ID"}, {"updated_at", "Modified Date, date_modified"}}

// maxTitleRows is the number of rows that are searched for the titles of a program.
const maxTitleRows = 30

// programOf returns the program with these titles, with the titles of its fields, or nil.
func programOf(titles []string) (*program, map[string]string) {
	known := map[string]string{}
	for _, title := range titles {
		if key := sheets.Key(title); key != "" && known[key] == "" {
			known[key] = title
		}
	}
	has := func(names string) (found []string, all bool) {
		all = true
		for name := range strings.SplitSeq(names, ",") {
			if title := known[sheets.Key(name)]; title != "" {
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

// fileProgram returns the program that wrote a file, or nil. If the farm has exactly one connection to a shop of the
// program, the orders belong to that connection.
func fileProgram(ctx context.Context, d *db.DB, sheet *transfer.Sheet) (*transfer.Program, error) {
	for _, row := range sheet.Rows[:min(len(sheet.Rows), maxTitleRows)] {
		titles := transfer.Texts(row.Cells)
		if isEtsyOrders(titles) {
			return nil, server.Invalid("body", "cannot be imported: this is Etsy's list of orders, without the ordered "+
				"products; download the order items of the same month")
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

// isEtsyOrders reports whether titles are those of Etsy's list of orders, which has no lines.
func isEtsyOrders(titles []string) bool {
	found := 0
	for _, title := range titles {
		switch sheets.Key(title) {
		case "orderid", "numberofitems", "ordernet":
			found++
		case "itemname":
			return false
		}
	}
	return found == 3
}
