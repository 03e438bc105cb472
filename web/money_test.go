package web_test

import (
	"testing"

	"spoolwright/tests/testkit"
)

// The settings have the tax and exchange rates, and the page of an order converts its currency.
func TestTaxAndCurrencies(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Tenant(t).User(t, "admin")
	b := signIn(t, c)
	settings := func(values ...string) *page {
		t.Helper()
		return b.get(t, "/settings").want(t, 200).submit(t, "/settings", values...)
	}
	settings("currency", "EUR", "prices_include_tax", "true", "sales_tax_percent", "19", "exchange_rates",
		"usd 0.92; GBP 1.17").to(t, "/settings")
	c.Get(t, "/api/v1/settings").Want(200).Shows(map[string]string{"prices_include_tax": "true",
		"sales_tax_percent": "19", "exchange_rates.0.currency": "USD", "exchange_rates.0.rate": "0.92",
		"exchange_rates.1.rate": "1.17"})
	testkit.Equal(t, b.get(t, "/settings").form(t, "/settings").Get("exchange_rates"), "USD 0.92; GBP 1.17",
		"the rates are shown as")
	settings("exchange_rates", "USD").want(t, 422)
	settings("exchange_rates", "").to(t, "/settings")
	c.Get(t, "/api/v1/settings").Want(200).Shows(map[string]string{"exchange_rates.#": "0"})

	product := c.Post(t, "/api/v1/products", j{"name": "Hook", "selling_price": 11.9}).Want(201).ID()
	b.get(t, "/products/"+product).shows(t, "Selling price 11.90 EUR", "Price without tax 10.00 EUR")
	at := "/orders/" + c.Post(t, "/api/v1/orders", j{"currency": "USD", "items": []j{{"product_id": product,
		"quantity": 2, "unit_price": 11.9}}}).Want(201).ID()
	p := b.get(t, at).shows(t, "11.90 USD", "Revenue unknown", "revenue, currency", "Prices include tax")
	check(t, p)
	b.get(t, at+"/edit").submit(t, at+"/edit", "exchange_rate", "much").want(t, 422).shows(t, "Must be a number.")
	b.get(t, at+"/edit").submit(t, at+"/edit", "exchange_rate", "0.5", "exchange_date", "2026-01-05").to(t, at).
		shows(t, "Revenue 10.00 EUR", "1 USD is 0.5 EUR").hides(t, "revenue, currency")
	b.get(t, at+"/edit").submit(t, at+"/edit", "prices_include_tax", "false").to(t, at).
		shows(t, "Revenue 11.90 EUR", "Prices are without tax.")
	// A price of all pieces stays as it is if only the number of pieces changes.
	item := c.Get(t, "/api/v1"+at).Text("items.0.id")
	c.Patch(t, "/api/v1"+at+"/items/"+item, j{"quantity": 3, "line_price": 10}).Want(200)
	b.get(t, at).shows(t, "3.33 USD").submit(t, at+"/items/"+item, "quantity", "6").to(t, at)
	c.Get(t, "/api/v1"+at).Want(200).Shows(map[string]string{"items.0.line_price": "20", "revenue": "10"})
}
