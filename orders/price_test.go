package orders_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

const margins = "/api/v1/reports/margins"

// farmWith returns an admin of a farm with these settings.
func farmWith(t *testing.T, settings j) *testkit.Client {
	t.Helper()
	c := testkit.New(t, testkit.Options{}, testkit.Features...).Tenant(t).User(t, "admin")
	if settings != nil {
		c.Patch(t, "/api/v1/settings", settings).Want(200)
	}
	return c
}

// A price is kept as it was given for its line, with its tax, and the revenue is without tax.
func TestPriceOfLine(t *testing.T) {
	t.Parallel()
	gross := j{"sales_tax_percent": 19, "prices_include_tax": true}
	for name, one := range map[string]struct {
		settings, order, item    j
		revenue, unit, line, tax string
	}{
		"per piece":       {nil, nil, j{"unit_price": 12.5, "quantity": 3}, "37.5", "12.5", "37.5", "0"},
		"line with cents": {nil, nil, j{"line_price": 36.5, "quantity": 3}, "36.5", "12.166667", "36.5", "0"},
		"line of ten":     {nil, nil, j{"line_price": 10, "quantity": 3}, "10", "3.333333", "10", "0"},
		"both":            {nil, nil, j{"line_price": 10, "unit_price": 3.33, "quantity": 3}, "10", "3.333333", "10", "0"},
		"tax in it": {nil, j{"prices_include_tax": true}, j{"unit_price": 11.9, "quantity": 2, "tax_amount": 3.8},
			"20", "11.9", "23.8", "3.8"},
		"tax on top":       {nil, nil, j{"unit_price": 10, "quantity": 2, "tax_amount": 3.8}, "20", "10", "20", "3.8"},
		"percent included": {gross, nil, j{"unit_price": 11.9, "quantity": 2}, "20", "11.9", "23.8", "3.8"},
		"percent on top":   {j{"sales_tax_percent": 19}, nil, j{"unit_price": 10, "quantity": 2}, "20", "10", "20", "3.8"},
		"own percent": {j{"sales_tax_percent": 19}, j{"sales_tax_percent": 7, "prices_include_tax": true},
			j{"line_price": 10.7}, "10", "10.7", "10.7", "0.7"},
		"no tax":      {gross, nil, j{"line_price": 10, "tax_amount": 0}, "10", "10", "10", "0"},
		"all of it":   {nil, j{"prices_include_tax": true}, j{"line_price": 10, "tax_amount": 12}, "0", "10", "10", "12"},
		"usual price": {gross, nil, j{"quantity": 2}, "20", "11.9", "23.8", "3.8"},
		"usual, net":  {gross, j{"prices_include_tax": false}, j{"quantity": 2}, "20", "10", "20", "3.8"},
		"usual, gross": {j{"sales_tax_percent": 19}, j{"prices_include_tax": true}, j{}, "11.9", "14.161", "14.161",
			"2.261"},
		"usual, abroad": {j{"currency": "EUR"}, j{"currency": "USD", "exchange_rate": 0.85}, j{}, "11.9", "14", "14", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := farmWith(t, one.settings)
			product := c.Post(t, "/api/v1/products", j{"name": "Hook", "selling_price": 11.9}).Want(201).ID()
			one.item["product_id"] = product
			body := j{"items": []j{one.item}}
			for key, value := range one.order {
				body[key] = value
			}
			order := path + "/" + c.Post(t, path, body).Want(201).ID()
			want := map[string]string{"revenue": one.revenue, "items.0.unit_price": one.unit,
				"items.0.line_price": one.line, "items.0.tax_amount": one.tax}
			c.Get(t, order).Want(200).Shows(want)
			c.Get(t, path).Want(200).Shows(map[string]string{"items.0.value": one.revenue})
			// The same for an item that is added, and for a line of a shop.
			delete(body, "items")
			added := path + "/" + c.Post(t, path, body).Want(201).ID()
			c.Post(t, added+"/items", one.item).Want(201)
			c.Get(t, added).Want(200).Shows(want)
			delete(one.item, "product_id")
			one.item["title"] = "A hook"
			body["unassigned_lines"] = []j{one.item}
			lines := c.Post(t, path, body).Want(201)
			at := path + "/" + lines.ID()
			if !strings.HasPrefix(name, "usual") {
				lines.Shows(map[string]string{"unassigned_lines.0.unit_price": one.unit,
					"unassigned_lines.0.line_price": one.line, "unassigned_lines.0.tax_amount": one.tax})
			}
			c.Post(t, at+"/lines/"+lines.Text("unassigned_lines.0.id")+"/assign", j{"product_id": product}).Want(200)
			c.Get(t, at).Want(200).Shows(want)
			c.Post(t, path, body).Want(201).Shows(want)
		})
	}
}

// A line that is several pieces has its price, and so have all pieces together.
func TestPriceOfPieces(t *testing.T) {
	t.Parallel()
	c := farmWith(t, nil)
	product := c.Post(t, "/api/v1/products", j{"name": "Hook", "selling_price": 9}).Want(201).ID()
	order := c.Post(t, path, j{"unassigned_lines": []j{{"title": "Pack of three", "unit_price": 10}}}).Want(201)
	at := path + "/" + order.ID()
	c.Post(t, at+"/lines/"+order.Text("unassigned_lines.0.id")+"/assign", j{"product_id": product, "pieces": 3}).Want(200).
		Shows(map[string]string{"items.0.unit_price": "3.333333", "items.0.line_price": "10", "revenue": "10"})
}

// The pieces of a line earn parts of its price that add up to it, in the order and in the report.
func TestRevenueAddsUp(t *testing.T) {
	t.Parallel()
	c := farmWith(t, j{"sales_tax_percent": 19, "prices_include_tax": true})
	spool := c.NewSpool(t, 1000, nil)
	product := c.Post(t, "/api/v1/products", j{"name": "Hook"}).Want(201).ID()
	order := c.Post(t, path, j{"items": []j{{"product_id": product, "quantity": 7, "line_price": 10}}}).Want(201)
	at, item := path+"/"+order.ID(), order.Text("items.0.id")
	run := func(pieces int, of any) {
		id := c.Post(t, "/api/v1/production-runs", j{"items": []j{{"product_id": product, "quantity": pieces,
			"order_item_id": of}}, "materials": []j{{"spool_id": spool, "actual_weight_grams": 1}}}).Want(201).ID()
		c.Post(t, "/api/v1/production-runs/"+id+"/complete", nil).Want(200)
	}
	run(2, item)
	run(1, item)
	run(4, nil)
	c.Post(t, at+"/deliver", nil).Want(200).Shows(map[string]string{"status": "done", "revenue": "8.403361"})
	for _, by := range []string{"product", "order", "customer", "month", "printer"} {
		report := c.Get(t, margins+"?group_by="+by).Want(200).Shows(map[string]string{"revenue": "8.403361"})
		sum := new(big.Rat)
		for i := range report.List("items") {
			if x, ok := new(big.Rat).SetString(report.Text(fmt.Sprintf("items.%d.revenue", i))); ok {
				sum.Add(sum, x)
			}
		}
		testkit.Equal(t, sum.FloatString(6), "8.403361", "the groups by %s", by)
	}
	// What was delivered of a line has its part of it.
	c.Post(t, at+"/complete", j{"items": []j{{"id": item, "delivered": 3}}}).Want(200).
		Shows(map[string]string{"revenue": "3.601441"})
	c.Get(t, margins).Want(200).Shows(map[string]string{"revenue": "3.601441"})
}

// Only what is changed of a price changes.
func TestChangePrice(t *testing.T) {
	t.Parallel()
	c := farmWith(t, nil)
	product := c.Post(t, "/api/v1/products", j{"name": "Hook"}).Want(201).ID()
	order := c.Post(t, path, j{"prices_include_tax": true, "items": []j{{"product_id": product, "quantity": 3,
		"line_price": 36.5, "tax_amount": 6.5}}}).Want(201)
	at := path + "/" + order.ID()
	item := at + "/items/" + order.Text("items.0.id")
	for _, step := range []struct {
		change                   j
		revenue, unit, line, tax string
	}{
		{j{"quantity": 4}, "40", "12.166667", "48.666667", "8.666667"},
		{j{"quantity": 3, "unit_price": 12.166667, "line_price": 48.666667, "tax_amount": 8.666667}, "30",
			"12.166667", "36.5", "6.5"},
		{j{"tax_amount": 5.5}, "31", "12.166667", "36.5", "5.5"},
		{j{"tax_amount": nil}, "36.5", "12.166667", "36.5", "0"},
		{j{"quantity": 2, "tax_amount": 4.333333}, "20", "12.166667", "24.333333", "4.333333"},
		{j{"line_price": 25}, "25", "12.5", "25", "0"},
		{j{"unit_price": 12.49}, "24.98", "12.49", "24.98", "0"},
		{j{"unit_price": 10, "tax_amount": 3}, "17", "10", "20", "3"},
		{j{"quantity": 4}, "34", "10", "40", "6"},
		{j{"unit_price": nil}, "null", "null", "null", "null"},
		{j{"line_price": 7, "tax_amount": 1}, "6", "1.75", "7", "1"},
		{j{"line_price": nil}, "null", "null", "null", "null"},
	} {
		c.Patch(t, item, step.change).Want(200).Shows(map[string]string{"unit_price": step.unit, "line_price": step.line,
			"tax_amount": step.tax})
		c.Get(t, at).Want(200).Shows(map[string]string{"revenue": step.revenue})
	}
	c.Patch(t, item, j{"tax_amount": 1}).Fields("tax_amount")
	c.Patch(t, item, j{"line_price": 4_000_001}).Fields("line_price")
	c.Patch(t, item, j{"line_price": 4_000_000}).Want(200)
	c.Post(t, at+"/items", j{"product_id": product, "line_price": 1_000_001}).Fields("line_price")
	c.Post(t, at+"/items", j{"product_id": product, "tax_amount": 1}).Fields("tax_amount")
	c.Post(t, path, j{"items": []j{{"product_id": product, "tax_amount": 1}}}).Fields("items[0].tax_amount")
	c.Post(t, path, j{"unassigned_lines": []j{{"title": "x", "line_price": 2_000_001, "quantity": 2}}}).
		Fields("unassigned_lines[0].line_price")
	// The terms of an order are those of its creation, until a person changes them.
	c.Patch(t, "/api/v1/settings", j{"sales_tax_percent": 25}).Want(200)
	c.Patch(t, item, j{"line_price": 10, "tax_amount": nil}).Want(200)
	c.Get(t, at).Want(200).Shows(map[string]string{"revenue": "10", "sales_tax_percent": "0"})
	c.Patch(t, at, j{"sales_tax_percent": 25}).Want(200).Shows(map[string]string{"revenue": "8"})
	c.Patch(t, at, j{"prices_include_tax": false}).Want(200).Shows(map[string]string{"revenue": "10"})
	c.Patch(t, at, j{"sales_tax_percent": nil, "prices_include_tax": nil}).
		Fields("prices_include_tax", "sales_tax_percent")
	c.Patch(t, at, j{"sales_tax_percent": 101}).Fields("sales_tax_percent")
}

// An order in another currency than the farm has earns an unknown amount, until it is converted.
func TestCurrencies(t *testing.T) {
	t.Parallel()
	c := farmWith(t, j{"currency": "EUR"})
	product := c.Post(t, "/api/v1/products", j{"name": "Hook", "selling_price": 3}).Want(201).ID()
	add := func(order j) *testkit.Response {
		t.Helper()
		order["status"] = "done"
		order["items"] = []j{{"product_id": product, "quantity": 2, "unit_price": 10}}
		return c.Post(t, path, order).Want(201)
	}
	own := add(j{"currency": "EUR"})
	own.Shows(map[string]string{"revenue": "20", "exchange_rate": "null", "currency": "EUR"})
	usd := add(j{"currency": "USD", "customer": "Ada"})
	usd.Shows(map[string]string{"revenue": "null", "margin": "null", "items.0.line_price": "20"})
	for _, part := range []string{"revenue", "currency"} {
		if !strings.Contains(string(usd.Body), `"`+part+`"`) || !strings.Contains(usd.Text("unknown_parts"), part) {
			t.Errorf("unknown_parts without %s: %s", part, usd.Text("unknown_parts"))
		}
	}
	report := c.Get(t, margins+"?group_by=order").Want(200).Shows(map[string]string{"revenue": "20"})
	testkit.Contains(t, report.Text("unknown_parts"), "currency", "unknown_parts of the report")
	c.Get(t, path+"?customer=Ada").Want(200).Shows(map[string]string{"items.0.value": "null"})
	// The usual price of a product is not one in an unknown currency.
	at := path + "/" + usd.ID()
	c.Post(t, at+"/items", j{"product_id": product}).Want(201).Shows(map[string]string{"unit_price": "null"})
	c.Delete(t, at+"/items/"+c.Get(t, at).Text("items.1.id")).Want(204)

	c.Patch(t, at, j{"exchange_rate": 0.9}).Want(200).Shows(map[string]string{"revenue": "18",
		"exchange_date": c.Get(t, margins).Text("to"), "unknown_parts.#": "1", "unknown_parts.0": "stock"})
	c.Patch(t, at, j{"exchange_date": "2026-01-05"}).Want(200).Shows(map[string]string{"exchange_rate": "0.9"})
	c.Patch(t, at, j{"currency": "USD", "notes": "x"}).Want(200).Shows(map[string]string{"exchange_rate": "0.9",
		"exchange_date": "2026-01-05"})

	// A rate in the settings converts what is not converted yet.
	gbp, other := add(j{"currency": "GBP"}), add(j{"currency": "CHF"})
	c.Patch(t, "/api/v1/settings", j{"exchange_rates": []j{{"currency": "USD", "rate": 0.8},
		{"currency": "GBP", "rate": 1.2},
		{"currency": "EUR", "rate": 5}}}).Want(200).Shows(map[string]string{"exchange_rates.1.rate": "1.2"})
	shows := func(order *testkit.Response, revenue string) {
		t.Helper()
		c.Get(t, path+"/"+order.ID()).Want(200).Shows(map[string]string{"revenue": revenue})
	}
	shows(own, "20")
	shows(usd, "18")
	shows(gbp, "24")
	shows(other, "null")
	add(j{"currency": "USD"}).Shows(map[string]string{"revenue": "16", "exchange_rate": "0.8"})
	add(j{"currency": "USD", "exchange_rate": 0.5, "exchange_date": "2025-01-01"}).Shows(map[string]string{"revenue": "10",
		"exchange_date": "2025-01-01"})
	c.Patch(t, "/api/v1/settings", j{"exchange_rates": []j{{"currency": "GBP", "rate": 2}}}).Want(200)
	shows(gbp, "24")
	c.Patch(t, path+"/"+gbp.ID(), j{"exchange_rate": nil}).Want(200).Shows(map[string]string{"revenue": "40"})
	c.Patch(t, at, j{"currency": "CHF"}).Want(200).Shows(map[string]string{"revenue": "null", "exchange_date": "null"})
	c.Patch(t, at, j{"currency": nil}).Want(200).Shows(map[string]string{"revenue": "20"})

	c.Patch(t, at, j{"exchange_rate": 1}).Fields("exchange_rate")
	c.Post(t, path, j{"exchange_rate": 1}).Fields("exchange_rate")
	c.Post(t, path, j{"currency": "EUX"}).Fields("currency")
	c.Patch(t, at, j{"exchange_rate": 0}).Fields("exchange_rate")
	c.Patch(t, "/api/v1/settings", j{"exchange_rates": []j{{"currency": "USD", "rate": 0},
		{"currency": "usd", "rate": 1}}}).
		Fields("exchange_rates[0].rate", "exchange_rates[1].currency")
	c.Patch(t, "/api/v1/settings", j{"exchange_rates": []j{{"currency": "USD", "rate": 1},
		{"currency": "USD", "rate": 2}}}).
		Fields("exchange_rates[1].currency")
}

// The margin of a product is that of its price without tax.
func TestNetPriceOfProduct(t *testing.T) {
	t.Parallel()
	c := farmWith(t, j{"sales_tax_percent": 19, "prices_include_tax": true})
	product := "/api/v1/products/" + c.Post(t, "/api/v1/products", j{"name": "Hook", "selling_price": 11.9}).Want(201).ID()
	c.Get(t, product+"/cost-breakdown").Want(200).Shows(map[string]string{"selling_price": "11.9", "net_price": "10",
		"margin": "10"})
	c.Patch(t, "/api/v1/settings", j{"prices_include_tax": false}).Want(200)
	c.Get(t, product+"/cost-breakdown").Want(200).Shows(map[string]string{"net_price": "11.9", "margin": "11.9"})
}

// An item of an order keeps the price that the product had, or that the request has.
func TestUnitPrice(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	c, other := api.Operator(t), api.Operator(t)
	product := c.Post(t, products, j{"name": "A", "selling_price": 12.5}).Want(201).ID()
	free := c.Post(t, products, j{"name": "B"}).Want(201).ID()
	order := path + "/" + c.Post(t, path, j{"items": []j{{"product_id": product, "quantity": 2},
		{"product_id": product, "unit_price": 9}, {"product_id": free}}}).Want(201).
		Shows(map[string]string{"items.0.unit_price": "12.5", "items.1.unit_price": "9", "items.2.unit_price": "null",
			"revenue": "34"}).ID()
	c.Patch(t, products+"/"+product, j{"selling_price": 20}).Want(200)
	added := c.Post(t, order+"/items", j{"product_id": product}).Want(201).
		Shows(map[string]string{"unit_price": "20"}).ID()
	c.Get(t, order).Want(200).Shows(map[string]string{"items.0.unit_price": "12.5", "revenue": "54"})
	item := order + "/items/" + added
	c.Patch(t, item, j{"unit_price": 18.25, "quantity": 2}).Want(200).
		Shows(map[string]string{"unit_price": "18.25", "quantity": "2"})
	c.Get(t, order).Shows(map[string]string{"revenue": "70.5"})
	c.Patch(t, item, j{"unit_price": nil}).Want(200).Shows(map[string]string{"unit_price": "null", "quantity": "2"})
	c.Patch(t, item, j{"unit_price": -1}).Fields("unit_price")
	c.Post(t, order+"/items", j{"product_id": product, "unit_price": 1_000_001}).Fields("unit_price")
	c.Post(t, path, j{"items": []j{{"product_id": product, "unit_price": "x"}}}).Fields("items[0].unit_price")

	shop := j{"source": "s", "reference": "1", "items": []j{{"product_id": product, "unit_price": 5}}}
	c.Post(t, path, shop).Want(201)
	c.Post(t, path, shop).Want(200).Shows(map[string]string{"items.0.unit_price": "5"})
	shop["items"].([]j)[0]["unit_price"] = 6
	c.Post(t, path, shop).WantError(409, "ORDER_CONFLICT")

	other.Get(t, products+"/"+product+"/cost-breakdown").WantError(404, "NOT_FOUND")
	other.Get(t, products+"/costs?ids="+product).Want(200).Shows(map[string]string{"items": "[]"})
	for _, report := range []string{margins, "/api/v1/reports/printers"} {
		other.Get(t, report).Want(200).Shows(map[string]string{"items": "[]", "groups": "0"})
		c.Get(t, report+"?from=2024-02-01&to=2024-01-31").Fields("from")
		c.Get(t, report+"?from=2024-01-01&to=2024-01-31").Want(200).Shows(map[string]string{"items": "[]"})
	}
	c.Get(t, margins+"?group_by=week").Fields("group_by")
}
