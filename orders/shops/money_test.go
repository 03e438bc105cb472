package shops_test

import (
	"fmt"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// moneyFarm returns an admin of a farm with euros and the products A and B, without costs.
func moneyFarm(t testing.TB, settings j) *testkit.Client {
	t.Helper()
	c := testkit.New(t, testkit.Options{}, testkit.Features...).Tenant(t).User(t, "admin")
	c.Patch(t, "/api/v1/settings", j{"currency": "EUR"}).Want(200)
	if settings != nil {
		c.Patch(t, "/api/v1/settings", settings).Want(200)
	}
	for _, sku := range []string{"A", "B"} {
		c.Post(t, "/api/v1/products", j{"name": sku, "sku": sku, "selling_price": 99}).Want(201)
	}
	return c
}

// What a shop says about prices, discounts, tax and currencies is the revenue, to the cent.
func TestMoneyOfMessages(t *testing.T) {
	t.Parallel()
	shopify := func(more string, lines ...string) string {
		return `{"id":1,"name":"#1","updated_at":"2026-01-05T10:00:00Z"` + more + `,"line_items":[` +
			strings.Join(lines, ",") + `]}`
	}
	woo := func(more string, lines ...string) string {
		return `{"id":1,"number":"1","status":"processing","date_modified_gmt":"2026-01-05T10:00:00"` + more +
			`,"line_items":[` + strings.Join(lines, ",") + `]}`
	}
	own := func(more string, lines ...string) string {
		return `{"id":"1","updated_at":"2026-01-05T10:00:00Z"` + more + `,"lines":[` + strings.Join(lines, ",") + `]}`
	}
	gross := j{"sales_tax_percent": 19, "prices_include_tax": true}
	for name, one := range map[string]struct {
		kind, body string
		settings   j
		want       map[string]string
	}{
		"taxes included": {"shopify", shopify(`,"taxes_included":true,"currency":"EUR"`,
			`{"id":1,"sku":"A","quantity":2,"price":"11.90","tax_lines":[{"price":"3.80","rate":0.19}]}`), nil,
			map[string]string{"revenue": "20", "items.0.line_price": "23.8", "items.0.tax_amount": "3.8"}},
		"taxes on top": {"shopify", shopify(`,"taxes_included":false`,
			`{"id":1,"sku":"A","quantity":2,"price":"10.00","tax_lines":[{"price":"1.00"},{"price":"0.65"}]}`), gross,
			map[string]string{"revenue": "20", "items.0.tax_amount": "1.65", "prices_include_tax": "false"}},
		"no taxes": {"shopify", shopify(`,"taxes_included":true`,
			`{"id":1,"sku":"A","quantity":2,"price":"11.90","tax_lines":[]}`), gross, map[string]string{"revenue": "23.8"}},
		"taxes unknown": {"shopify", shopify(``, `{"id":1,"sku":"A","quantity":2,"price":"11.90"}`), gross,
			map[string]string{"revenue": "20"}},
		"discounts": {"shopify", shopify(`,"taxes_included":true`,
			`{"id":1,"sku":"A","quantity":3,"price":"12.50","discount_allocations":[{"amount":"0.60"},{"amount":"0.40"}],
				"tax_lines":[{"price":"5.83"}]}`, `{"id":2,"sku":"B","quantity":1,"price":"4.00","tax_lines":[]}`), nil,
			map[string]string{"revenue": "34.67", "items.0.line_price": "36.5", "items.0.unit_price": "12.166667"}},
		"refunded in part": {"shopify", shopify(`,"taxes_included":true`,
			`{"id":1,"sku":"A","quantity":3,"current_quantity":2,"price":"10.00","discount_allocations":[{"amount":"1.00"}],
				"tax_lines":[{"price":"4.63"}]}`), nil, map[string]string{"revenue": "16.246667", "items.0.quantity": "2"}},
		"dollars": {"shopify", shopify(`,"currency":"USD"`, `{"id":1,"sku":"A","quantity":1,"price":"10.00"}`), nil,
			map[string]string{"revenue": "null", "currency": "USD", "items.0.line_price": "10"}},
		"converted": {"shopify", shopify(`,"currency":"usd"`, `{"id":1,"sku":"A","quantity":1,"price":"10.00"}`),
			j{"exchange_rates": []j{{"currency": "USD", "rate": 0.9}}},
			map[string]string{"revenue": "9", "exchange_rate": "0.9"}},
		"net": {"woocommerce", woo(`,"currency":"EUR","prices_include_tax":true`,
			`{"id":1,"sku":"A","quantity":1,"price":10,"subtotal":"10.00","total":"10.00","total_tax":"1.90"}`), gross,
			map[string]string{"revenue": "10", "items.0.tax_amount": "1.9", "prices_include_tax": "false"}},
		"thirds": {"woocommerce", woo(``,
			`{"id":1,"sku":"A","quantity":3,"price":3.333333333,"subtotal":"12.00","total":"10.00","total_tax":"0.00"}`), nil,
			map[string]string{"revenue": "10", "items.0.unit_price": "3.333333"}},
		"pounds": {"woocommerce", woo(`,"currency":"GBP"`, `{"id":1,"sku":"A","quantity":1,"price":10}`), nil,
			map[string]string{"revenue": "null"}},
		"own shop": {"generic", own(`,"currency":"EUR","prices_include_tax":true`,
			`{"id":"1","sku":"A","quantity":3,"line_price":"36.50","tax_amount":5.83}`,
			`{"id":"2","sku":"B","quantity":2,"unit_price":10}`), j{"sales_tax_percent": 25},
			map[string]string{"revenue": "46.67"}},
		"an unknown currency": {"generic", own(`,"currency":"XBT"`, `{"id":"1","sku":"A","unit_price":10}`), nil,
			map[string]string{"revenue": "null"}},
		"no price": {"generic", own(`,"currency":"USD"`, `{"id":"1","sku":"A","tax_amount":1}`),
			j{"exchange_rates": []j{{"currency": "USD", "rate": 0.5}}}, map[string]string{"revenue": "99",
				"items.0.unit_price": "198"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := moneyFarm(t, one.settings)
			s := connect(t, c, one.kind)
			for range 2 {
				s.send(t, one.body)
			}
			list := c.Get(t, orders).Want(200)
			testkit.Equal(t, list.Text("total"), "1", "orders")
			c.Get(t, orders+"/"+list.Text("items.0.id")).Want(200).Shows(one.want)
		})
	}
}

// A person's price stays until the shop changes it, and so does the currency.
func TestShopChangesPrice(t *testing.T) {
	t.Parallel()
	c := moneyFarm(t, nil)
	s := connect(t, c, "generic")
	send := func(second, quantity int, price, currency string) {
		m := generic(1, second, j{"id": "1", "sku": "A", "quantity": quantity, "unit_price": price})
		m["currency"], m["prices_include_tax"] = currency, true
		s.send(t, m)
	}
	send(1, 2, "12.50", "EUR")
	at := find(t, c, "A-1")
	item := at + "/items/" + c.Get(t, at).Text("items.0.id")
	c.Patch(t, item, j{"unit_price": 11}).Want(200)
	send(2, 3, "12.50", "EUR")
	c.Get(t, at).Want(200).Shows(map[string]string{"items.0.quantity": "3", "items.0.unit_price": "11", "revenue": "33"})
	send(3, 3, "12.60", "EUR")
	c.Get(t, at).Want(200).Shows(map[string]string{"items.0.unit_price": "12.6", "revenue": "37.8"})
	send(4, 3, "12.60", "USD")
	c.Get(t, at).Want(200).Shows(map[string]string{"revenue": "null"})
	c.Patch(t, at, j{"exchange_rate": 0.5}).Want(200).Shows(map[string]string{"revenue": "18.9"})
	send(5, 2, "12.60", "USD")
	c.Get(t, at).Want(200).Shows(map[string]string{"revenue": "12.6", "exchange_rate": "0.5"})
	c.Patch(t, at, j{"currency": "EUR"}).Want(200)
	send(6, 1, "12.60", "USD")
	c.Get(t, at).Want(200).Shows(map[string]string{"revenue": "12.6", "currency": "EUR"})
}

// The parts of a bundle are in its price, with their tax.
func TestMoneyOfBundle(t *testing.T) {
	t.Parallel()
	c := moneyFarm(t, nil)
	connect(t, c, "woocommerce").send(t, `{"id":1,"number":"1","status":"processing",
		"date_modified_gmt":"2026-01-05T10:00:00","line_items":[
		{"id":1,"sku":"A","quantity":3,"price":0,"total":"0.00","total_tax":"0.00"},
		{"id":2,"name":"Part","quantity":3,"price":3.33,"total":"10.00","total_tax":"1.90","bundled_by":1}]}`)
	c.Get(t, find(t, c, "1")).Want(200).Shows(map[string]string{"items.#": "1", "items.0.line_price": "10",
		"items.0.tax_amount": "1.9", "revenue": "10"})
}

// The discount of a whole order is divided among its lines, and the tax is that of the file.
func TestMoneyOfShopifyFile(t *testing.T) {
	t.Parallel()
	row := func(sums, lines string) string {
		f := strings.Split(sums, ",") // subtotal, shipping, taxes, total, discount, currency
		l := strings.Split(lines, ",")
		first := fmt.Sprintf("#1,a@example.com,paid,,,,no,%s,%s,%s,%s,%s,CODE,%s,Standard,2026-01-05 10:00:00 +0100", f[5],
			f[0], f[1], f[2], f[3], f[4])
		file := shopifyTitles
		for i := 0; i < len(l); i += 5 { // quantity, sku, price, taxable, discount
			file += fmt.Sprintf("%s,%s,%s,%s,,%s,true,%s,pending,Ada,,,,,,,,,,,,,%s\n", first, l[i], l[i+1], l[i+2], l[i+1],
				l[i+3], l[i+4])
			first = "#1,a@example.com,,,,,,,,,,,,,,2026-01-05 10:00:00 +0100"
		}
		return file
	}
	for name, one := range map[string]struct {
		sums, lines, revenue, first string
		settings                    j
	}{
		"no discount":      {"29.00,0,0,29.00,0,EUR", "2,A,12.50,true,0,1,B,4.00,true,0", "29", "25", nil},
		"discount":         {"24.00,0,0,24.00,5.00,EUR", "2,A,12.50,true,0,1,B,4.00,true,0", "24", "20.69", nil},
		"thirds":           {"8.00,0,0,8.00,2.00,EUR", "1,A,3.33,true,0,1,B,6.67,true,0", "8", "2.66", nil},
		"all of it":        {"0.00,0,0,0.00,29.00,EUR", "2,A,12.50,true,0,1,B,4.00,true,0", "0", "0", nil},
		"free shipping":    {"29.00,0,0,29.00,5.00,EUR", "2,A,12.50,true,0,1,B,4.00,true,0", "29", "25", nil},
		"in the line":      {"24.00,0,0,24.00,5.00,EUR", "2,A,12.50,true,5.00,1,B,4.00,true,0", "24", "20", nil},
		"also in the line": {"23.00,0,0,23.00,6.00,EUR", "2,A,12.50,true,5.00,1,B,4.00,true,0", "23", "19.17", nil},
		"tax included":     {"23.80,0,3.80,23.80,0,EUR", "2,A,11.90,true,0", "20", "23.8", nil},
		"with shipping":    {"23.80,5.95,4.75,29.75,0,EUR", "2,A,11.90,true,0", "20", "23.8", j{"sales_tax_percent": 7}},
		"not taxable":      {"15.90,0,1.90,15.90,0,EUR", "1,A,11.90,true,0,1,B,4.00,false,0", "14", "11.9", nil},
		"on top":           {"20.00,5.00,4.75,29.75,0,EUR", "2,A,10.00,true,0", "20", "20", j{"prices_include_tax": true}},
		"both":             {"20.00,0,3.19,20.00,3.80,EUR", "2,A,11.90,true,0", "16.81", "20", nil},
		"tip": {"23.80,0,3.80,25.00,0,EUR", "2,A,11.90,true,0", "20", "23.8",
			j{"sales_tax_percent": 19, "prices_include_tax": true}},
		"price of free shipping stays": {"23.80,4.90,3.80,23.80,4.90,EUR", "2,A,11.90,true,0", "20", "23.8", nil},
		"tip as a line":                {"10.00,0,1.60,12.00,0,EUR", "1,A,10.00,true,0,1,B,2.00,false,0", "10.4", "10", nil},
		"dollars":                      {"29.00,0,0,29.00,0,USD", "2,A,12.50,true,0,1,B,4.00,true,0", "null", "25", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := moneyFarm(t, one.settings)
			file := row(one.sums, one.lines)
			wantCounts(t, post(t, c, "", file), "1/0/0/0/0")
			wantCounts(t, post(t, c, "", file), "0/0/1/0/0")
			c.Get(t, find(t, c, "#1")).Want(200).Shows(map[string]string{"revenue": one.revenue,
				"items.0.line_price": one.first})
		})
	}
}

// What other files say about tax and currencies.
func TestMoneyOfFiles(t *testing.T) {
	t.Parallel()
	gross := j{"sales_tax_percent": 19, "prices_include_tax": true}
	etsy := func(tax, vat, currency string) string {
		row := etsyRow("1", "71", "Thing", "", "A", 2, "11.90", "0", "")
		row = strings.Replace(row, "0,4.50,0,99,EUR", "0,4.50,"+tax+",99,"+currency, 1)
		return etsyTitles + strings.Replace(row, ",online_cc,,,,A", ",online_cc,,,"+vat+",A", 1)
	}
	amazon := func(price, tax, currency, off string) string {
		return "order-id\torder-item-id\tsku\tproduct-name\tquantity-purchased\tcurrency\titem-price\titem-tax\t" +
			"item-promotion-discount\trecipient-name\n1\t5\tA\tThing\t2\t" + currency + "\t" + price + "\t" + tax + "\t" + off +
			"\tBob\n"
	}
	woo := "order_id,order_number,status,order_currency,billing_first_name,item_id,item_name,item_sku,item_quantity," +
		"item_total,item_total_tax\n1,1,processing,EUR,Ada,501,Thing,A,3,10.00,1.90\n"
	for name, one := range map[string]struct {
		file, revenue string
		settings      j
	}{
		"Etsy":                {etsy("0", "", "EUR"), "23.8", nil},
		"Etsy, with tax":      {etsy("0", "0", "EUR"), "20", gross},
		"Etsy, sales tax":     {etsy("1.90", "", "EUR"), "23.8", gross},
		"Etsy, VAT":           {etsy("0", "4.52", "EUR"), "23.8", gross},
		"Etsy, dollars":       {etsy("0", "", "USD"), "null", nil},
		"Amazon":              {amazon("23.80", "3.80", "EUR", "0"), "20", nil},
		"Amazon, off":         {amazon("23.80", "3.00", "EUR", "5.00"), "15.8", nil},
		"Amazon, unknown tax": {amazon("23.80", "0.00", "EUR", "0"), "20", gross},
		"Amazon, dollars": {amazon("20.00", "1.80", "USD", "0"), "10", j{"sales_tax_percent": 19, "prices_include_tax": true,
			"exchange_rates": []j{{"currency": "USD", "rate": 0.5}}}},
		"WooCommerce": {woo, "10", gross},
		"a table": {"Order,SKU,Item,Quantity,Line total,Line tax,Tax included,Currency\n1,A,Thing,3,36.50,5.83,yes,EUR\n",
			"30.67", nil},
		"a German table": {"Bestellnummer;Artikelnummer;Menge;Einzelpreis;Auftragsrabatt;Währung\n1;A;1;10,00;3,00;EUR\n" +
			"1;B;2;10,00;3,00;EUR\n", "27", nil},
		"euros":             {"Order,SKU,Quantity,Price,Currency\n1,A,3,12,eur \n", "36", nil},
		"a sign":            {"Order,SKU,Quantity,Price,Currency\n1,A,3,12,€\n", "36", nil},
		"pounds":            {"Order,SKU,Quantity,Price,Currency\n1,A,3,12,£\n", "null", nil},
		"a word":            {"Order,SKU,Quantity,Price,Currency\n1,A,3,12,Bitcoin\n", "null", nil},
		"francs":            {"Order,SKU,Quantity,Price,Currency\n1,A,3,12,CHF\n", "null", nil},
		"price of the line": {"Order,SKU,Quantity,Price,Line total\n1,A,3,3.33,10.00\n", "10", nil},
		"another total":     {"Order,SKU,Quantity,Price,Item total\n1,A,2,10,23.80\n", "20", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := moneyFarm(t, one.settings)
			wantCounts(t, post(t, c, "", one.file), "1/0/0/0/0")
			wantCounts(t, post(t, c, "", one.file), "0/0/1/0/0")
			at := find(t, c, "1")
			c.Get(t, at).Want(200).Shows(map[string]string{"revenue": one.revenue})
			// The farm's own export has the values of the file.
			text := string(c.Get(t, orders+"/export").Want(200).Body)
			c.Delete(t, at).Want(204)
			other := moneyFarm(t, one.settings)
			post(t, other, "", text).Want(200)
			other.Get(t, find(t, other, "1")).Want(200).Shows(map[string]string{"revenue": one.revenue})
		})
	}
}
