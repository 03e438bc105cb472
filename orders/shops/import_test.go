package shops_test

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"spoolwright/tests/testkit"
)

const importPath = orders + "/import"

// The files below have the titles that the programs write, with the orders of this test.
const (
	etsyTitles = "Sale Date,Item Name,Buyer,Quantity,Price,Coupon Code,Coupon Details,Discount Amount," +
		"Shipping Discount,Order Shipping,Order Sales Tax,Item Total,Currency,Transaction ID,Listing ID,Date Paid," +
		"Date Shipped,Ship Name," +
		"Ship Address1,Ship Address2,Ship City,Ship State,Ship Zipcode,Ship Country,Order ID,Variations,Order Type," +
		"Listings Type,Payment Type,InPerson Discount,InPerson Location,VAT Paid by Buyer,SKU\n"
	shopifyTitles = "Name,Email,Financial Status,Paid at,Fulfillment Status,Fulfilled at,Accepts Marketing,Currency," +
		"Subtotal,Shipping,Taxes,Total,Discount Code,Discount Amount,Shipping Method,Created at,Lineitem quantity," +
		"Lineitem name,Lineitem price,Lineitem compare at price,Lineitem sku,Lineitem requires shipping," +
		"Lineitem taxable,Lineitem fulfillment status,Billing Name,Billing Street,Shipping Name,Shipping Street,Notes," +
		"Note Attributes,Cancelled at,Payment Method,Refunded Amount,Vendor,Id,Tags,Source,Lineitem discount\n"
)

// etsyRow returns a row of Etsy's order items.
func etsyRow(order, line, title, variation, sku string, quantity int, price, off, shipped string) string {
	return fmt.Sprintf("01/05/26,\"%s\",ada42,%d,%s,,,%s,0,4.50,0,99,EUR,%s,9001,01/05/26,%s,Ada Lovelace,1 Main St,,"+
		"London,,N1,United Kingdom,%s,\"%s\",online,listing,online_cc,,,,%s\n", title, quantity, price, off, line, shipped,
		order, variation, sku)
}

// shopifyRow returns the first row of an order of Shopify, or with an empty status a later one.
func shopifyRow(order, status, fulfilled, cancelled, id string, quantity int, title, price, sku, note string) string {
	if status == "" {
		return fmt.Sprintf("%s,a@example.com,,,,,,,,,,,,,,2026-01-05 10:00:00 +0100,%d,\"%s\",%s,,%s,true,true,pending"+
			",,,,,,,,,,,,,,0.00\n",
			order, quantity, title, price, sku)
	}
	return fmt.Sprintf("%s,a@example.com,%s,,%s,,no,EUR,30,0,0,30,,0,Standard,2026-01-05 10:00:00 +0100,%d,"+
		"\"%s\",%s,,%s,true,true,pending,Ada Lovelace,\"1 Main St, Flat 2\",Ada Lovelace,1 Main St,"+
		"\"%s\",,%s,PayPal,0,Us,%s,,web,0.00\n",
		order, status, fulfilled, quantity, title, price, sku, note, cancelled, id)
}

func post(t testing.TB, c *testkit.Client, query, file string) *testkit.Response {
	t.Helper()
	return c.With("Content-Type", "text/csv").Post(t, importPath+query, file)
}

// wantCounts checks what an import did: created/updated/unchanged/skipped/invalid.
func wantCounts(t testing.TB, r *testkit.Response, want string) {
	t.Helper()
	r.Want(200)
	got := strings.Join([]string{r.Text("created"), r.Text("updated"), r.Text("unchanged"), r.Text("skipped"),
		r.Text("invalid")}, "/")
	testkit.Equal(t, got, want, "counts of %s", r.Body)
}

// find returns the path of the order with a reference.
func find(t testing.TB, c *testkit.Client, reference string) string {
	t.Helper()
	list := c.Get(t, orders+"?reference="+url.QueryEscape(reference)).Want(200)
	testkit.Equal(t, list.Text("total"), "1", "orders %s", reference)
	return orders + "/" + list.Text("items.0.id")
}

func farm(t testing.TB) (admin *testkit.Client, dragon, hook string) {
	t.Helper()
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	c := api.Tenant(t).User(t, "admin")
	return c, c.NewProduct(t, "DRG-RED", 10), c.NewProduct(t, "HOOK", 5)
}

// Etsy's order items: several lines, quotes and line breaks, discounts, an unknown SKU, a title without an SKU, and
// orders that are shipped.
func TestEtsyFile(t *testing.T) {
	t.Parallel()
	c, dragon, _ := farm(t)
	file := "\ufeff" + etsyTitles +
		etsyRow("3001", "71", "Dragon &quot;Smaug&quot;", "Color:Red,Size:20 cm", " drg-red ", 2, "12.50", "5.00", "") +
		etsyRow("3002", "72", "Name tag\nwith \"\"your\"\" text", "", "", 1, "4", "0", "") +
		etsyRow("3001", "73", "Planter", "", "PLANT-9", 3, "9.99", "", "") +
		etsyRow("3003", "74", "Dragon", "", "DRG-RED", 1, "12.50", "0", "01/06/26") +
		etsyRow("3004", "75", "Dragon", "", "DRG-RED", 4, "12.50", "0", "01/06/26") +
		etsyRow("3004", "76", "Dragon", "", "DRG-RED", 5, "12.50", "0", "")
	check := post(t, c, "/check", file).Want(200)
	wantCounts(t, check, "3/0/0/1/0")
	check.Shows(map[string]string{"defaults.0.field": "source", "defaults.0.value": "etsy"})
	dry := post(t, c, "?dry_run=true", file).Want(200)
	wantCounts(t, dry, "3/0/0/1/0")
	c.Get(t, orders).Want(200).Shows(map[string]string{"total": "0"})
	done := post(t, c, "", file).Want(200)
	wantCounts(t, done, "3/0/0/1/0")
	done.Shows(map[string]string{"rows.0.reference": "3001", "rows.0.action": "created", "rows.0.row": "2",
		"rows.0.source": "etsy", "rows.2.reference": "3003", "rows.2.action": "skipped", "rows.2.reason": "shipped",
		"rows.2.id": "null"})
	one := orders + "/" + done.Text("rows.0.id")
	c.Get(t, one).Want(200).Shows(map[string]string{"source": "etsy", "reference": "3001", "customer": "Ada Lovelace",
		"status": "received", "items.#": "1", "items.0.product_id": dragon, "items.0.quantity": "2",
		"items.0.unit_price": "10",
		"unassigned_lines.#": "1", "unassigned_lines.0.title": "Planter", "unassigned_lines.0.sku": "PLANT-9",
		"unassigned_lines.0.quantity": "3", "unassigned_lines.0.unit_price": "9.99"})
	c.Get(t, find(t, c, "3002")).Want(200).Shows(map[string]string{
		"unassigned_lines.0.title": `Name tag with "your" text`})
	// Of an order that is shipped in part, the rest is printed.
	c.Get(t, find(t, c, "3004")).Want(200).Shows(map[string]string{"items.#": "1", "items.0.quantity": "5",
		"unassigned_lines.#": "0"})
	if text := string(c.Get(t, one).Body); strings.Contains(text, "Main St") || strings.Contains(text, "London") {
		t.Errorf("the address is stored: %s", text)
	}
	wantCounts(t, post(t, c, "", file), "0/0/3/1/0")

	// Later it is shipped, and that changes nothing here. An order of a file that grew is a new one.
	later := strings.ReplaceAll(file, "01/05/26,,Ada", "01/05/26,01/07/26,Ada") +
		etsyRow("3005", "77", "Dragon", "", "DRG-RED", 1, "12.50", "0", "")
	wantCounts(t, post(t, c, "", later), "1/0/3/1/0")
	c.Get(t, find(t, c, "3004")).Want(200).Shows(map[string]string{"status": "received", "items.0.quantity": "5"})

	orders := "Sale Date,Order ID,Buyer User ID,Full Name,Number of Items,Order Value,Order Net\n" +
		"01/05/26,3001,a,Ada,2,9,8\n"
	post(t, c, "", orders).Fields("body")
	post(t, c, "/check", orders).Fields("body")
}

// What a customer wants on the product is in the notes of the order. Lines with different texts are assigned alike.
func TestEtsyPersonalization(t *testing.T) {
	t.Parallel()
	c, _, _ := farm(t)
	file := etsyTitles +
		etsyRow("3001", "71", "Dragon", "Color:Red,Personalization:For Bob &amp; Eve, with love", "DRG-RED", 2, "12.50",
			"", "") +
		etsyRow("3001", "72", "Sign", "Personalization:Bob", "", 1, "4", "0", "") +
		etsyRow("3002", "73", "Sign", "Personalization:Eve", "", 1, "4", "0", "") +
		etsyRow("3003", "74", "Sign", "Personalization:Not requested on this item.", "", 1, "4", "0", "")
	wantCounts(t, post(t, c, "", file).Want(200), "3/0/0/0/0")
	c.Get(t, find(t, c, "3001")).Want(200).Shows(map[string]string{"items.#": "1",
		"notes": "Dragon - Color:Red: Personalization: For Bob & Eve, with love\n" +
			"Sign: Personalization: Bob",
		"unassigned_lines.0.title": "Sign"})
	c.Get(t, find(t, c, "3002")).Want(200).Shows(map[string]string{"notes": "Sign: Personalization: Eve",
		"unassigned_lines.0.title": "Sign"})
	c.Get(t, find(t, c, "3003")).Want(200).Shows(map[string]string{"notes": "null", "unassigned_lines.0.title": "Sign"})
	wantCounts(t, post(t, c, "", file).Want(200), "0/0/3/0/0")
}

// The orders of Shopify: later rows of an order have only its line. A cancelled order is cancelled here, and comes
// back.
func TestShopifyFile(t *testing.T) {
	t.Parallel()
	c, dragon, hook := farm(t)
	file := func(quantity int, note, cancelled string) string {
		return shopifyTitles +
			shopifyRow("#1001", "paid", "unfulfilled", cancelled, "5501", quantity, "Dragon - Red", "12.50", "DRG-RED", note) +
			shopifyRow("#1001", "", "", "", "", 1, "Hook", "4.00", "hook", "") +
			shopifyRow("#1002", "paid", "fulfilled", "", "5502", 1, "Dragon - Red", "12.50", "DRG-RED", "") +
			shopifyRow("#1002", "", "", "", "", 1, "Hook", "4.00", "HOOK", "") +
			shopifyRow("#1003", "refunded", "", "", "5503", 1, "Hook", "4.00", "HOOK", "") +
			shopifyRow("#1004", "paid", "", "2026-01-06 10:00:00 +0100", "5504", 1, "Hook", "4.00", "HOOK", "") +
			shopifyRow("#1005", "authorized", "partial", "", "5505", 1, "Hook", "4.00", "HOOK", "")
	}
	done := post(t, c, "", file(2, "Please\nwrap", "")).Want(200)
	wantCounts(t, done, "2/0/0/3/0")
	done.Shows(map[string]string{"rows.1.reason": "shipped", "rows.2.reason": "cancelled", "rows.3.reason": "cancelled",
		"rows.4.action": "created", "rows.4.source": "shopify"})
	one := find(t, c, "#1001")
	c.Get(t, one).Want(200).Shows(map[string]string{"items.#": "2", "items.0.product_id": dragon,
		"items.1.product_id": hook, "items.1.quantity": "1", "customer": "Ada Lovelace", "notes": "Please\nwrap"})

	// What people have changed stays until the file changes the same thing.
	c.Patch(t, one, j{"notes": "Packed in red", "customer": "Ada L."}).Want(200)
	c.Patch(t, one+"/items/"+c.Get(t, one).Text("items.1.id"), j{"quantity": 9}).Want(200)
	wantCounts(t, post(t, c, "", file(2, "Please\nwrap", "")), "0/0/2/3/0")
	wantCounts(t, post(t, c, "", file(3, "Please\nwrap", "")), "0/1/1/3/0")
	c.Get(t, one).Want(200).Shows(map[string]string{"items.0.quantity": "3", "items.1.quantity": "9",
		"notes": "Packed in red", "customer": "Ada L."})
	post(t, c, "", file(3, "New note", "")).Want(200)
	c.Get(t, one).Want(200).Shows(map[string]string{"notes": "New note", "customer": "Ada L."})

	// A cancelled order stays cancelled for a file that was made before, and a person can open it again.
	post(t, c, "", file(3, "New note", "2026-01-07 09:00:00 +0100")).Want(200)
	c.Get(t, one).Want(200).Shows(map[string]string{"status": "cancelled"})
	wantCounts(t, post(t, c, "", file(3, "New note", "")), "0/0/2/3/0")
	c.Patch(t, one, j{"status": "received"}).Want(200)
	post(t, c, "", file(3, "New note", "2026-01-07 09:00:00 +0100")).Want(200)
	c.Get(t, one).Want(200).Shows(map[string]string{"status": "received"})

	// The same order twice in a file is one order.
	twice := shopifyTitles +
		shopifyRow("#1009", "paid", "", "", "5509", 1, "Hook", "4.00", "HOOK", "") +
		shopifyRow("#1009", "", "", "", "", 2, "Dragon", "4.00", "DRG-RED", "")
	twice += strings.TrimPrefix(twice, shopifyTitles)
	post(t, c, "", twice).Want(200)
	c.Get(t, find(t, c, "#1009")).Want(200).Shows(map[string]string{"items.#": "2"})
}

// Amazon writes tabs, and the price of all pieces of a line.
func TestAmazonFile(t *testing.T) {
	t.Parallel()
	c, dragon, _ := farm(t)
	file := "order-id\torder-item-id\tpurchase-date\tpayments-date\tbuyer-email\tbuyer-name\tsku\tproduct-name\t" +
		"quantity-purchased\tcurrency\titem-price\titem-tax\tship-service-level\trecipient-name\tship-address-1\t" +
		"promise-date\n" +
		"111-7\t55\t2026-11-20T10:00:00+00:00\t2026-11-20T10:00:00+00:00\ta@example.com\tBob\tDRG-RED\tDragon\t3\tUSD\t" +
		"37.50\t0.00\tStandard\tBob B\tMain St 1\t2026-11-24T07:59:59+00:00\n" +
		"111-7\t56\t2026-11-20T10:00:00+00:00\t2026-11-20T10:00:00+00:00\ta@example.com\tBob\t\tVase\t1\tUSD\t" +
		"9.00\t0.00\tStandard\tBob B\tMain St 1\t2026-11-24T07:59:59+00:00\n"
	wantCounts(t, post(t, c, "", file).Want(200), "1/0/0/0/0")
	c.Get(t, find(t, c, "111-7")).Want(200).Shows(map[string]string{"source": "amazon", "customer": "Bob B",
		"items.#": "1", "items.0.product_id": dragon, "items.0.quantity": "3", "items.0.unit_price": "12.5",
		"unassigned_lines.0.title": "Vase", "unassigned_lines.0.unit_price": "9", "due_date": "2026-11-24"})
	wantCounts(t, post(t, c, "", file).Want(200), "0/0/1/0/0")
}

// WooCommerce has plugins for its orders. Their refunded pieces are not printed.
func TestWooCommerceFiles(t *testing.T) {
	t.Parallel()
	c, dragon, _ := farm(t)
	done := post(t, c, "", "Order Number,Order Status,Order Date,Customer Note,First Name (Billing),Last Name (Billing),"+
		"Email (Billing),Order Total Amount,SKU,Item #,Item Name,Quantity (- Refund),Item Cost,Coupon Code\n"+
		"77,Processing,2026-01-05 10:00,Red please,Ada,Lovelace,a@example.com,20,DRG-RED,1,Dragon,2,12.5,\n"+
		"77,Processing,2026-01-05 10:00,Red please,Ada,Lovelace,a@example.com,20,XX,2,Vase,1,3,\n"+
		"78,Pending payment,2026-01-05 10:00,,Bob,,b@example.com,20,DRG-RED,1,Dragon,2,12.5,\n"+
		"79,Completed,2026-01-05 10:00,,Bob,,b@example.com,20,DRG-RED,1,Dragon,2,12.5,\n"+
		"80,Refunded,2026-01-05 10:00,,Bob,,b@example.com,20,DRG-RED,1,Dragon,0,12.5,\n"+
		"81,On hold,2026-01-05 10:00,,Bob,,b@example.com,20,DRG-RED,1,Dragon,0,12.5,\n").Want(200)
	wantCounts(t, done, "1/0/0/4/0")
	done.Shows(map[string]string{"rows.1.reason": "unpaid", "rows.2.reason": "shipped", "rows.3.reason": "cancelled",
		"rows.4.reason": "cancelled"})
	c.Get(t, find(t, c, "77")).Want(200).Shows(map[string]string{"customer": "Ada Lovelace", "notes": "Red please",
		"source": "woocommerce", "items.0.product_id": dragon, "items.0.unit_price": "12.5", "unassigned_lines.#": "1"})
	done = post(t, c, "", "order_id,order_number,date,status,billing_first_name,billing_last_name,customer_note,item_id,"+
		"item_name,item_sku,item_quantity,item_total,item_refunded_qty\n"+
		"90,A-90,2026-01-05,wc-processing,Ada,Lovelace,,501,Dragon,DRG-RED,3,30.00,1\n"+
		"91,A-91,2026-01-05,wc-pending,Ada,Lovelace,,502,Dragon,DRG-RED,3,30.00,\n").Want(200)
	wantCounts(t, done, "1/0/0/1/0")
	c.Get(t, find(t, c, "A-90")).Want(200).Shows(map[string]string{"items.0.quantity": "2", "items.0.unit_price": "10"})
}

// Any other table is read by the names of its columns, or by a mapping, which is remembered.
func TestOtherTables(t *testing.T) {
	t.Parallel()
	c, _, _ := farm(t)
	for name, file := range map[string]string{
		"German": "Bestellnummer;Kunde;Artikel;Artikelnummer;Menge;Einzelpreis;Liefertermin;Bemerkung;Status\n" +
			"D-1;Müller;Drache;drg-red;2;1.023,49 €;05.02.2026;\"rot; groß\";offen\nD-1;;Vase;;1;9,00 €;;;\n" +
			"D-2;Maier;Drache;DRG-RED;1;12,50 €;31.01.2026;;versendet\n",
		"French": "Numéro de commande,Client,Produit,SKU,Quantité,Prix unitaire,Échéance,Remarques,Statut\n" +
			"D-1,Müller,Dragon,drg-red,2,\"1 023,49 €\",2026-02-05,\"rot; groß\",payée\nD-1,,Vase,,1,\"9,00\",,,\n" +
			"D-2,Maier,Dragon,DRG-RED,1,\"12,50\",2026-01-31,,expédiée\n",
		"Polish": "Nr zamówienia\tKlient\tNazwa produktu\tKod\tIlość\tCena jednostkowa\tTermin realizacji\tUwagi\t" +
			"Stan\nD-1\tMüller\tSmok\tdrg-red\t2\t1023,49 zł\t5.02.2026\trot; groß\tnowe\nD-1\t\tVase\t\t1\t9,00 zł\t\t\t\n" +
			"D-2\tMaier\tSmok\tDRG-RED\t1\t12,50 zł\t31.01.2026\t\twysłane\n",
		"own": "source,reference,customer,due_date,notes,status,items.sku,items.quantity,items.unit_price,title\n" +
			"x,D-1,Müller,2026-02-05,rot; groß,received,DRG-RED,2,1023.49,Dragon\nx,D-1,,,,,,1,9,Vase\n" +
			"x,D-2,Maier,2026-01-31,,done,DRG-RED,1,12.5,Dragon\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := c.API.Tenant(t).User(t, "operator")
			product := c.NewProduct(t, "DRG-RED", 10)
			check := post(t, c, "/check", file).Want(200)
			wantCounts(t, check, "1/0/0/1/0")
			post(t, c, "", file).Want(200)
			c.Get(t, find(t, c, "D-1")).Want(200).Shows(map[string]string{"customer": "Müller", "due_date": "2026-02-05",
				"notes": "rot; groß", "items.0.product_id": product, "items.0.quantity": "2", "items.0.unit_price": "1023.49",
				"unassigned_lines.0.title": "Vase", "unassigned_lines.0.unit_price": "9"})
			wantCounts(t, post(t, c, "", file), "0/0/1/1/0")
		})
	}

	// Columns with names of nobody, in the code page of Windows.
	file := "Was;Wof\xfcr;Wieviel;Wer;Wie\nDrache;A1;2;J\xf6rg;Abholbereit\n"
	post(t, c, "", file).Fields("line 1")
	check := post(t, c, "/check", file).Want(200)
	check.Shows(map[string]string{"errors.0.field": "reference"})
	query := "?" + url.Values{"mapping": {`{"Was":"title","Wofür":"reference","Wieviel":"quantity","Wer":"customer",
		"Wie":"status"}`},
		"defaults": {`{"source":"market"}`}}.Encode()
	done := post(t, c, query, file).Want(200)
	wantCounts(t, done, "1/0/0/0/0")
	done.Shows(map[string]string{"changes.0.text": "Abholbereit", "changes.0.detail": "an order to print"})
	c.Get(t, find(t, c, "A1")).Want(200).Shows(map[string]string{"source": "market", "customer": "Jörg",
		"unassigned_lines.0.title": "Drache", "unassigned_lines.0.quantity": "2"})
	post(t, c, "/check", file).Want(200).Shows(map[string]string{"columns.1.why": "remembered",
		"columns.1.field": "reference"})

	// Problems name the line and the field; the others can be imported without them.
	file = "Order,Item,Quantity,Due\nB1,Vase,1,\n,Vase,1,\nB2,,3,\nB3,Vase,-1,\nB4,Vase,1,2026-02-31\nB5,Vase,1,\n"
	post(t, c, "", file).Fields("line 3", "line 5", "line 6")
	done = post(t, c, "?skip_invalid=true", file).Want(200)
	wantCounts(t, done, "2/0/0/0/4")
	post(t, c, "", "Order,Quantity\nB1,1\n").Fields("line 1")
	post(t, c, "", "Item,Quantity\nB1,1\n").Fields("line 1")
	post(t, c, "/check", "Order,Quantity\nB1,1\n").Want(200).Shows(map[string]string{"errors.0.field": "title"})
	post(t, c, "/check", "").Fields("body")
	post(t, c, "?mapping=[]", file).Fields("mapping")
	post(t, c, "?mode=upsert", file).WantError(422, "VALIDATION_ERROR")
	post(t, c, "", "Order,Item\n"+strings.Repeat("1,x\n", 501)).Fields("line 502")
	post(t, c, "", "Order,Item\n"+strings.Repeat("1,x\n", 10_001)).Fields("body")
}

// A line is assigned once, and then remembered for later files.
func TestFileAssignments(t *testing.T) {
	t.Parallel()
	c, _, hook := farm(t)
	post(t, c, "", "Order,Item,SKU,Qty\n1,Hooks of four,PACK-4,2\n2,Gift,,1\n").Want(200)
	one := find(t, c, "1")
	line := one + "/lines/" + c.Get(t, one).Text("unassigned_lines.0.id")
	c.Post(t, line+"/assign", j{"product_id": hook, "pieces": 4}).Want(200)
	post(t, c, "", "Order,Item,SKU,Qty\n1,Hooks of four,PACK-4,2\n2,Gift,,1\n3,Hooks, pack-4 ,5\n").Want(200)
	c.Get(t, one).Want(200).Shows(map[string]string{"items.0.quantity": "8", "unassigned_lines.#": "0"})
	c.Get(t, find(t, c, "3")).Want(200).Shows(map[string]string{"items.0.quantity": "20", "unassigned_lines.#": "0"})
	post(t, c, "", "Order,Item,SKU,Qty\n1,Hooks of four,PACK-4,3\n").Want(200)
	c.Get(t, one).Want(200).Shows(map[string]string{"items.#": "1", "items.0.quantity": "12"})
	// A removed order stays removed.
	c.Delete(t, one).Want(204)
	wantCounts(t, post(t, c, "", "Order,Item,SKU,Qty\n1,Hooks of four,PACK-4,3\n"), "0/0/1/0/0")
	c.Get(t, orders+"?reference=1").Want(200).Shows(map[string]string{"total": "0"})
}

// The options of a listing have one SKU. The text of the option chooses the variant, once, in files of all programs.
func TestFileOptions(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]func(order, option string) string{
		"etsy": func(order, option string) string {
			return etsyTitles + etsyRow(order, "7"+order, "Dragon", "Color:"+option, "DRG-RED", 2, "12", "", "")
		},
		"shopify": func(order, option string) string {
			return shopifyTitles + shopifyRow(order, "paid", "", "", "1"+order, 2, "Dragon - "+option, "12", "DRG-RED", "")
		},
		"table": func(order, option string) string {
			return "Order\tItem\tVariation\tSKU\tQty\n" + order + "\tDragon\t" + option + "\tDRG-RED\t2\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, dragon, _ := farm(t)
			c.Post(t, "/api/v1/products/"+dragon+"/variants", j{"variants": []j{{"color": "Blue", "sku": "DRG-BLUE"}}}).
				Want(201)
			post(t, c, "", file("5001", "Blue")).Want(200)
			one := find(t, c, "5001")
			line := c.Get(t, one).Text("unassigned_lines.0.id")
			c.Post(t, one+"/lines/"+line+"/assign", j{"sku": "DRG-BLUE"}).Want(200)
			post(t, c, "", file("5002", "Green")).Want(200)
			post(t, c, "", file("5003", "Blue")).Want(200)
			post(t, c, "", file("5001", "Blue")).Want(200)
			for order, want := range map[string]string{"5001": "DRG-BLUE 2", "5003": "DRG-BLUE 2"} {
				testkit.Equal(t, itemsOf(t, c, order), want, "order %s", order)
			}
			c.Get(t, find(t, c, "5002")).Shows(map[string]string{"items.#": "0", "unassigned_lines.#": "1"})
		})
	}
}

// The order of a file and that of a message are one order, whichever comes first, and messages know more.
func TestFilesAndMessages(t *testing.T) {
	t.Parallel()
	c, dragon, _ := farm(t)
	s := connect(t, c, "shopify")
	order := func(id, second, quantity int, cancelled any) j {
		o := shopifyOrder(id, second, quantity)
		o["cancelled_at"] = cancelled
		o["line_items"].([]j)[0]["sku"] = "DRG-RED"
		return o
	}
	row := func(id, quantity int, cancelled string) string {
		return shopifyRow(fmt.Sprintf("#%d", 1000+id), "paid", "", cancelled, fmt.Sprint(820982911946154000+int64(id)),
			quantity, "Dragon - Red", "12.50", "DRG-RED", "")
	}
	// First the file.
	done := post(t, c, "", shopifyTitles+row(1, 2, "")).Want(200)
	done.Shows(map[string]string{"rows.0.source": "shopify.example", "created": "1"})
	one := find(t, c, "#1001")
	c.NewRun(t, dragon, c.Get(t, one).Text("items.0.id"), 2, j{"status": "pending"})
	s.send(t, order(1, 10, 3, nil))
	c.Get(t, one).Want(200).Shows(map[string]string{"items.#": "1", "items.0.quantity": "3", "items.0.planned": "2"})
	// An export from before changes nothing, and neither does one after the message, which has no refunds.
	wantCounts(t, post(t, c, "", shopifyTitles+row(1, 2, "")), "0/0/1/0/0")
	c.Get(t, one).Want(200).Shows(map[string]string{"items.#": "1", "items.0.quantity": "3"})
	// A later cancellation of which the message was lost counts.
	wantCounts(t, post(t, c, "", shopifyTitles+row(1, 2, "2026-01-09 00:00:00 +0000")), "0/1/0/0/0")
	c.Get(t, one).Want(200).Shows(map[string]string{"status": "cancelled", "items.0.quantity": "3"})
	s.send(t, order(1, 11, 3, nil)) // older than the cancellation
	c.Get(t, one).Want(200).Shows(map[string]string{"status": "cancelled"})

	// First the message.
	s.send(t, order(2, 10, 3, nil))
	wantCounts(t, post(t, c, "", shopifyTitles+row(2, 9, "")), "0/0/1/0/0")
	c.Get(t, find(t, c, "#1002")).Want(200).Shows(map[string]string{"items.#": "1", "items.0.quantity": "3"})
	// Also if it was removed, and if the connection has another name now.
	c.Delete(t, find(t, c, "#1002")).Want(204)
	shopPath := path + "/" + strings.Split(s.address, "/")[2]
	c.Patch(t, shopPath, j{"name": "Other"}).Want(200)
	wantCounts(t, post(t, c, "", shopifyTitles+row(1, 2, "")+row(2, 9, "")), "0/0/2/0/0")
	c.Get(t, orders).Want(200).Shows(map[string]string{"total": "1"})

	// At the same time, in one file and many messages.
	file := shopifyTitles
	for id := 10; id < 40; id++ {
		file += row(id, 2, "")
	}
	var all sync.WaitGroup
	for _, id := range []int{0, 1} {
		all.Go(func() {
			for n := 10 + id; n < 40; n += 2 {
				s.send(t, order(n, 10, 3, nil))
			}
		})
		all.Go(func() { post(t, c, "", file).Want(200) })
	}
	all.Wait()
	post(t, c, "", file).Want(200)
	list := c.Get(t, orders+"?limit=100&source=other").Want(200)
	testkit.Equal(t, list.Text("total"), "30", "orders")
	for i := range list.List("items") {
		list.Shows(map[string]string{fmt.Sprintf("items.%d.pieces", i): "3", fmt.Sprintf("items.%d.item_count", i): "1"})
	}
}

// An order that was removed is not the order of a file or of a message with its reference: that is the one which is
// there now, or a new one.
func TestReferencesOfRemovedOrders(t *testing.T) {
	t.Parallel()
	c, _, _ := farm(t)
	s := connect(t, c, "generic")
	byHand := func(source, reference string) string {
		return orders + "/" + c.Post(t, orders, j{"source": source, "reference": reference}).Want(201).ID()
	}
	file := func(source, reference string, quantity int) *testkit.Response {
		return post(t, c, "", fmt.Sprintf("Source,Order,Item,Qty\n%s,%s,Vase,%d\n", source, reference, quantity))
	}
	// A file, and later another order with its reference, which the next file changes.
	c.Delete(t, byHand("market", "M-1")).Want(204)
	wantCounts(t, file("market", "M-1", 1), "1/0/0/0/0")
	testkit.Equal(t, itemsOf(t, c, "M-1"), "Vase 1", "the new order of the file")
	c.Delete(t, find(t, c, "M-1")).Want(204)
	byHand("market", "M-1")
	wantCounts(t, file("market", "M-1", 3), "0/1/0/0/0")
	testkit.Equal(t, itemsOf(t, c, "M-1"), "Vase 3", "the order of the second file")

	// A message, whose order the file does not name by its id.
	dragon := func(id int) j {
		m := generic(id, 1, j{"id": "1", "title": "Dragon", "quantity": id})
		m["reference"] = "A"
		return m
	}
	s.send(t, dragon(1))
	c.Delete(t, find(t, c, "A")).Want(204)
	wantCounts(t, file("generic.example", "A", 1), "1/0/0/0/0")
	c.Delete(t, find(t, c, "A")).Want(204)

	// A message takes over the order that is there.
	order := byHand("generic.example", "A")
	s.send(t, dragon(2))
	testkit.Equal(t, find(t, c, "A"), order, "the order of the message")
	testkit.Equal(t, itemsOf(t, c, "A"), "Dragon 2", "the order of the message")
}

// Viewers cannot import, and no farm reaches the orders of another one.
func TestFileRoles(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	tenant := api.Tenant(t)
	const file = "Source,Order,Item\netsy,1,Vase\n"
	for _, route := range []string{"", "/check"} {
		post(t, tenant.User(t, "viewer"), route, file).WantError(403, "FORBIDDEN")
	}
	post(t, tenant.Key(t, "operator"), "", file).Want(200).Shows(map[string]string{"created": "1"})
	other := api.Operator(t)
	post(t, other, "", file).Want(200).Shows(map[string]string{"created": "1"})
	other.Get(t, orders).Want(200).Shows(map[string]string{"total": "1"})
	post(t, other, "", "Source,Order,Item\nEtsy,2,Vase\netsy,2,Vase\n").Want(200).Shows(map[string]string{"created": "2"})
	c := tenant.User(t, "admin")
	connect(t, c, "woocommerce")
	post(t, c, "", "Source,Order,Item\nWOOCOMMERCE.example,2,Vase\nwoocommerce.example,2,Vase\n").Fields("line 3")
}

// A code that a spreadsheet has damaged is refused in every file, with the row and what to do: two orders whose numbers
// it has rounded alike would be one.
func TestDamagedCodesOfFiles(t *testing.T) {
	t.Parallel()
	c, _, _ := farm(t)
	etsy := etsyTitles + etsyRow("3.10427E+09", "71", "Dragon", "", "DRG-RED", 1, "12.50", "0", "") +
		etsyRow("3.10427E+09", "72", "Dragon", "", "DRG-RED", 1, "12.50", "0", "")
	for _, test := range []struct {
		what, file, problem string
		lines               []string
	}{
		{"orders", etsy, "reference may be a longer number that a spreadsheet rounded", []string{"line 2", "line 3"}},
		{"orders", "Order,SKU,Item,Quantity\n7,02-Jan,Dragon,1\n8,HOOK,Hook,1\n", "sku may be a code",
			[]string{"line 2"}},
		{"orders", "Order;SKU;Item;Quantity\n00123;A;Dragon;1\n125;B;Hook;1\n", "reference may have lost leading zeros",
			[]string{"line 3"}},
		{"products", "name,sku\nA,1/2/2024\nB,DRG-7\n", "sku may be a code", []string{"line 2"}},
		{"products", "name,sku,materials.filament_number,materials.weight_grams\nA,K-1,1.2E+05,1\n",
			"materials.filament_number may be a longer number", []string{"line 2"}},
		{"spools", "material_type,color,diameter_mm,net_weight_grams,lot_number\nPLA,Red,1.75,1000,4.1E+12\n",
			"lot_number may be a longer number", []string{"line 2"}},
		{"spools", "Material;Farbe;Durchmesser;Gewicht;Charge\nPLA;Rot;1,75;1000;1,2E+11\n",
			"lot_number may be a longer number",
			[]string{"line 2"}},
		{"filaments", "material_type,color,diameter_mm,article_number\nPLA,Red,1.75,4.00638E+12\n",
			"article_number may be a longer number", []string{"line 2"}},
		{"vendors", "name,external_id\nA,0042\nB,43\n", "external_id may have lost leading zeros", []string{"line 3"}},
	} {
		path := "/api/v1/" + test.what
		refused := c.With("Content-Type", "text/csv").Post(t, path+"/import", test.file).Fields(test.lines...)
		if m := refused.Text("errors.0.message"); !strings.Contains(m, test.problem) ||
			!strings.Contains(m, "format the column as text, enter the code again, and save the file") {
			t.Errorf("%s: the message is %s", test.what, m)
		}
		c.With("Content-Type", "text/csv").Post(t, path+"/import/check", test.file).Want(200)
	}
	c.Get(t, orders).Want(200).Shows(map[string]string{"total": "0"})
	c.Get(t, "/api/v1/spools").Want(200).Shows(map[string]string{"total": "0"})

	// The rest of the file is imported if the sender wants it, and a correction is taken.
	wantCounts(t, post(t, c, "?skip_invalid=true", etsy+
		etsyRow("3104270003", "73", "Dragon", "", "DRG-RED", 1, "12.50", "0", "")), "1/0/0/0/2")
	wantCounts(t, post(t, c, "?corrections="+
		url.QueryEscape(`{"2":{"Order ID":"3104270001"},"3":{"Order ID":"3104270002"}}`), etsy), "2/0/0/0/0")

	// A product with its id has any code, so that an exported file comes back.
	for _, sku := range []string{"00123", "125", "5E10", "2.0", "2024-01-02"} {
		c.Post(t, "/api/v1/products", j{"name": sku, "sku": sku}).Want(201)
	}
	exported := c.With("Accept", "text/csv").Get(t, "/api/v1/products/export").Want(200)
	c.With("Content-Type", "text/csv").Post(t, "/api/v1/products/import?mode=upsert", string(exported.Body)).Want(200).
		Shows(map[string]string{"created": "0", "updated": "0", "unchanged": "7"})
}

// The files of other shops are known by their titles, whatever else is in them.
func TestFilesOfShops(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, testkit.Features...)
	for name, test := range map[string]struct{ file, source, counts string }{
		"eBay": {"\nSales Record Number,Order Number,Buyer Username,Buyer Name,Buyer Note,Item Number,Item Title," +
			"Custom Label,Quantity,Sold For,Total Price,Sale Date,Paid On Date,Ship By Date,Shipped On Date," +
			"Variation Details,Transaction ID\n" +
			"101,11-1,ada42,Ada Lovelace,Please wrap,,,,2,,$29.00,Jul-28-26,Jul-28-26,Jul-30-26,,,\n" +
			"101,11-1,ada42,Ada Lovelace,,7001,Dragon,DRG-RED,2,$12.50,,Jul-28-26,Jul-28-26,Jul-30-26,,[Color:Red],T1\n" +
			"102,11-2,bob,Bob,,7001,Dragon,DRG-RED,1,$12.50,$12.50,Jul-28-26,,Jul-30-26,,,T2\n" +
			"103,11-3,cy,Cy,,7001,Dragon,DRG-RED,1,$12.50,$12.50,Jul-28-26,Jul-28-26,Jul-30-26,Jul-29-26,,T3\n\n" +
			"3, record(s) downloaded,,,,,,,,,,,,,,,\nSeller ID : farm\n", "ebay", "1/0/0/2/0"},
		"eBay in German": {"Verkaufsprotokollnummer;Bestellnummer;Nutzername des Käufers;Name des Käufers;" +
			"Hinweis des Käufers;Artikelbezeichnung;Bestandseinheit;Anzahl;Verkauft für;Bezahlt am;Versenden bis;" +
			"Versandt am\n" +
			"101;11-1;ada42;Ada Lovelace;Please wrap;Dragon;DRG-RED;2;12,50;28-Jul-26;30-Jul-26;\n" +
			"102;11-2;bob;Bob;;Dragon;DRG-RED;1;12,50;;30-Jul-26;\n", "ebay", "1/0/0/1/0"},
		"TikTok Shop": {"Order ID,Order Status,Seller SKU,Product Name,Variation,Quantity,Sku Quantity of return," +
			"SKU Unit Original Price,SKU Platform Discount,SKU Seller Discount,Shipped Time,Cancelled Time,Buyer Message," +
			"Recipient\nPlatform unique order ID.,The status.,SKU of the seller.,Name.,Variation.,Sold quantity.," +
			"Returned.,Price.,Discount.,Discount.,Time.,Time.,Message.,Name.\n" +
			"576461000000000001\t,To ship,DRG-RED,Dragon,Red,2,0,14.00,1.00,3.00,,,Please wrap,Ada Lovelace\n" +
			"576461000000000012\t,Shipped,DRG-RED,Dragon,Red,2,0,14.00,1.00,3.00,07/28/2026 10:00:00,,,Bob\n" +
			"576461000000000023\t,Unpaid,DRG-RED,Dragon,Red,2,0,14.00,1.00,3.00,,,,Bob\n", "tiktok", "1/0/0/2/0"},
		"Squarespace": {"Order ID,Email,Financial Status,Fulfillment Status,Currency,Subtotal,Shipping,Taxes,Total," +
			"Discount Amount,Created at,Lineitem quantity,Lineitem name,Lineitem price,Lineitem sku,Lineitem variant," +
			"Billing Name,Cancelled at,Notes\n" +
			"00011,a@example.com,PAID,PENDING,USD,25,0,0,25,0,2026-07-28 10:00:00 +0000,2,Dragon,12.50,DRG-RED,Red," +
			"Ada Lovelace,,Please wrap\n,,,,,,,,,,,1,Hook,4.00,HOOK,,,,\n" +
			"00012,a@example.com,PENDING,PENDING,USD,25,0,0,25,0,2026-07-28 10:00:00 +0000,2,Dragon,12.50,DRG-RED,Red," +
			"Bob,,\n", "squarespace", "1/0/0/1/0"},
		"Square": {"Order,Order Date,Currency,Order Total,Fulfillment Type,Fulfillment Status,Fulfillment Notes," +
			"Recipient Name,Item Quantity,Item Name,Item SKU,Item Variation,Item Modifiers,Item Price,Item Total Price\n" +
			"1001,2026-07-28,USD,25.00,Shipment,New,Please wrap,Ada Lovelace,2,Dragon,DRG-RED,Red,,12.50,25.00\n" +
			"1002,2026-07-28,USD,25.00,Shipment,Shipped,,Bob,2,Dragon,DRG-RED,Red,,12.50,25.00\n", "square", "1/0/0/1/0"},
		"BigCommerce": {"Order ID,Order Status,Customer Name,Customer Message,Product ID,Product Qty,Product SKU," +
			"Product Name,Product Variation Details,Product Unit Price,Product Total Price\n" +
			"501,Awaiting Fulfillment,Ada Lovelace,Please wrap,7,2,DRG-RED,Dragon,Color: Red,12.50,25.00\n" +
			"502,Awaiting Payment,Bob,,7,2,DRG-RED,Dragon,,12.50,25.00\n" +
			"503,Refunded,Bob,,7,2,DRG-RED,Dragon,,12.50,25.00\n", "bigcommerce", "1/0/0/2/0"},
		"Magento": {"increment_id,status,customer_firstname,customer_lastname,customer_note,name,sku,qty_ordered,price," +
			"row_total\n000000011,processing,Ada,Lovelace,Please wrap,Dragon,DRG-RED,2.0000,12.5000,25.0000\n" +
			"000000012,pending_payment,Bob,,,Dragon,DRG-RED,1.0000,12.5000,12.5000\n", "magento", "1/0/0/1/0"},
		"PrestaShop": {"id_order;reference;firstname;lastname;order_state;message;product_name;product_reference;" +
			"product_quantity;unit_price_tax_incl\n" +
			"9;XKBKNABJK;Ada;Lovelace;Payment accepted;Please wrap;Dragon;DRG-RED;2;12.500000\n" +
			"10;OHSATSERP;Bob;;Canceled;;Dragon;DRG-RED;2;12.500000\n", "prestashop", "1/0/0/1/0"},
		"Wix": {"Order number,Date created,Note from customer,Item,Variant,Item's custom text,Qty,SKU,Price," +
			"Payment status,Fulfillment status,Billing name\n" +
			"10001,2026-07-28,Please wrap,Dragon,Red,For Eve,2,DRG-RED,12.5,Paid,Not fulfilled,Ada Lovelace\n" +
			"10002,2026-07-28,,Dragon,Red,,2,DRG-RED,12.5,Unpaid,Not fulfilled,Bob\n" +
			"10003,2026-07-28,,Dragon,Red,,2,DRG-RED,12.5,Refunded,Not fulfilled,Bob\n", "wix", "1/0/0/2/0"},
		"another list": {"Order;Customer;Item;SKU;Qty;Price;Payment;Engraving;Notes\n" +
			"1;Ada Lovelace;Dragon;DRG-RED;2;12,50;paid;For Eve;Please wrap\n2;Bob;Dragon;DRG-RED;2;12,50;open;;\n" +
			"3;Cy;Dragon;DRG-RED;2;12,50;refunded;;\n", "null", "1/0/0/2/0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := api.Tenant(t).User(t, "admin")
			dragon := c.NewProduct(t, "DRG-RED", 10)
			c.NewProduct(t, "HOOK", 5)
			query := ""
			if test.source == "null" {
				query = "?defaults=" + url.QueryEscape(`{"source": ""}`)
			}
			done := post(t, c, query, test.file)
			wantCounts(t, done, test.counts)
			order := c.Get(t, orders+"/"+done.Text("rows.0.id")).Want(200).Shows(map[string]string{
				"customer": "Ada Lovelace", "items.0.product_id": dragon, "items.0.quantity": "2",
				"items.0.unit_price": "12.5", "source": test.source})
			want := "Please wrap"
			if strings.Contains(test.file, "For Eve") {
				want += "|For Eve"
			}
			for text := range strings.SplitSeq(want, "|") {
				testkit.Contains(t, order.Text("notes"), text, "the notes")
			}
			if name == "eBay" {
				order.Shows(map[string]string{"due_date": "2026-07-30", "reference": "11-1"})
			}
			if name == "Squarespace" {
				order.Shows(map[string]string{"items.#": "2"})
			}
		})
	}
}

// A tip is no line of an order, and a row of Shopify without a name belongs to the order above.
func TestShopifyContinuation(t *testing.T) {
	t.Parallel()
	c, dragon, hook := farm(t)
	file := shopifyTitles + shopifyRow("#1001", "paid", "", "", "5501", 1, "Dragon - Red", "12.50", "DRG-RED", "") +
		shopifyRow("", "", "", "", "", 3, "Hook", "4.00", "HOOK", "") +
		shopifyRow("", "", "", "", "", 1, "Tip", "2.00", "", "") +
		shopifyRow("#1002", "pending", "", "", "5502", 1, "Hook", "4.00", "HOOK", "") +
		shopifyRow("#1003", "refunded", "", "", "5503", 1, "Hook", "4.00", "HOOK", "") +
		shopifyRow("#1004", "partially_refunded", "", "", "5504", 1, "Hook", "4.00", "HOOK", "") +
		shopifyRow("#1004", "", "", "", "", 1, "Trinkgeld", "2.00", "", "")
	done := post(t, c, "", file).Want(200)
	wantCounts(t, done, "2/0/0/2/0")
	done.Shows(map[string]string{"rows.1.reason": "unpaid", "rows.2.reason": "cancelled"})
	c.Get(t, find(t, c, "#1001")).Want(200).Shows(map[string]string{"items.#": "2", "items.0.product_id": dragon,
		"items.1.product_id": hook, "items.1.quantity": "3", "unassigned_lines.#": "0"})
	c.Get(t, find(t, c, "#1004")).Want(200).Shows(map[string]string{"items.#": "1", "unassigned_lines.#": "0"})
}
