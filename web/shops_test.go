package web_test

import (
	"net/url"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// A shop is connected on a page of the settings, which shows the address and the secret once.
func TestShops(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "admin")
	b := signIn(t, c)
	const at = "/settings/shops"
	p := b.get(t, at).shows(t, "sends its orders automatically")
	check(t, p)
	p.submit(t, at, "kind", "shopify", "name", " ").want(t, 422).shows(t, "Name")
	p = p.submit(t, at, "kind", "woocommerce", "name", "dragons.example").want(t, 200).
		shows(t, "Connect dragons.example", "whsec_", "Delivery URL", "no message yet")
	check(t, p)
	shop := c.Get(t, "/api/v1/shops").Want(200)
	address := c.API.URL + shop.Text("items.0.address")
	p.shows(t, address)
	again := b.get(t, at).shows(t, "dragons.example", "WooCommerce", address).hides(t, "whsec_")
	one := at + "/" + shop.Text("items.0.id")
	again.submit(t, one+"/secret", "signing_secret", "short").want(t, 422).shows(t, "16 or more")
	again.submit(t, one+"/secret").want(t, 200).shows(t, "whsec_")
	b.get(t, at).submit(t, one+"/secret", "signing_secret", "0123456789abcdef").to(t, at).says(t, "The secret is saved.")

	order := c.Post(t, "/api/v1/orders", j{"unassigned_lines": []j{{"title": "Gift card"}}}).Want(201)
	c.Post(t, "/api/v1/orders/"+order.ID()+"/lines/"+order.Text("unassigned_lines.0.id")+"/assign", j{"ignore": true}).
		Want(200)
	p = b.get(t, at).shows(t, "Gift card is not printed")
	name := c.Get(t, "/api/v1/order-assignments").Want(200).Text("items.0.id")
	p.submit(t, at+"/names/"+name+"/forget").to(t, at).hides(t, "Gift card is")
	b.get(t, at).submit(t, one+"/remove").to(t, at).says(t, "The shop is disconnected. Its orders stay.").
		hides(t, "dragons.example")

	operator := signIn(t, tenant.User(t, "operator"))
	operator.get(t, at).want(t, 403)
	if a := operator.do(t, "POST", at, url.Values{"kind": {"generic"}, "name": {"x"}}); a.status != 403 ||
		strings.Contains(a.text, "whsec_") {
		t.Errorf("an operator gets %d", a.status)
	}
}
