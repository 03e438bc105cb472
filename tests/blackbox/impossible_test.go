package blackbox_test

import (
	"net/url"
	"testing"

	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// TestImpossibleInput sends what can never work: each request is refused with the name of the field, and not when a
// printer, a shop or a receiver would need what it gave.
func TestImpossibleInput(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	c := w.api.Tenant(t).User(t, "admin")
	product := c.NewProduct(t, "A", 10)
	order, item := c.NewOrder(t, product, 2)
	run := c.NewRun(t, product, item, 1, nil)
	printer := c.Post(t, printersURL, testkit.JSON{"name": "Gone"}).Want(201).ID()
	c.Delete(t, printersURL+"/"+printer).Want(204)
	spool := c.NewSpool(t, 500, nil)
	used := c.Post(t, run+"/materials", testkit.JSON{"spool_id": spool}).Want(201).ID()
	webhook := func(url string) testkit.JSON { return testkit.JSON{"url": url, "events": []string{"*"}} }
	chat := func(format, url string) testkit.JSON {
		return testkit.JSON{"url": url, "format": format, "events": []string{"*"}}
	}
	shop := func(kind, secret string) testkit.JSON {
		return testkit.JSON{"kind": kind, "name": "shop", "signing_secret": secret}
	}
	user := func(email string) testkit.JSON { return testkit.JSON{"email": email, "name": "x", "role": "viewer"} }
	field := func(fields testkit.JSON) testkit.JSON {
		body := testkit.JSON{"entity": "spool", "key": "dried", "name": "Dried", "type": "text"}
		for name, v := range fields {
			body[name] = v
		}
		return body
	}
	const keys, hooks, shops, users = "/api/v1/api-keys", "/api/v1/webhooks", "/api/v1/shops", "/api/v1/users"
	const settings, fields, plan = "/api/v1/settings", "/api/v1/custom-fields", "/api/v1/plan"
	none := testkit.JSON{"items": []any{}}
	for _, r := range []struct {
		field, method, path string
		body                any
	}{
		{"expires_at", "POST", keys, testkit.JSON{"name": "k", "role": "viewer", "expires_at": "2020-01-01T00:00:00Z"}},
		{"printer_id", "POST", keys, testkit.JSON{"name": "k", "role": "printer", "printer_id": printer}},
		{"printer_id", "POST", keys, testkit.JSON{"name": "k", "role": "viewer", "printer_id": printer}},

		{"due_date", "POST", ordersURL, testkit.JSON{"due_date": "0202-05-01"}},
		{"due_date", "POST", ordersURL, testkit.JSON{"due_date": "2026-02-30"}},
		{"due_date", "PATCH", order, testkit.JSON{"due_date": "0001-01-01"}},
		{"items", "POST", order + "/deliver", none},
		{"items", "POST", order + "/return", none},
		{"items", "POST", order + "/complete", none},
		{"items[0].quantity", "POST", order + "/deliver",
			testkit.JSON{"items": []any{testkit.JSON{"id": item, "quantity": 3}}}},
		{"items[0].quantity", "POST", order + "/return",
			testkit.JSON{"items": []any{testkit.JSON{"id": item, "quantity": 1}}}},
		{"due_to", "GET", ordersURL + "?due_from=2026-02-01&due_to=2026-01-01", nil},
		{"created_to", "GET", spoolsURL + "?created_from=2026-02-01&created_to=2026-01-01", nil},
		{"completed_to", "GET", runsURL + "?completed_from=2026-01-01T10:00:00Z&completed_to=2026-01-01T09:59:59Z", nil},

		{"time_zone", "PATCH", settings, testkit.JSON{"time_zone": "Mars/Phobos"}},
		{"time_zone", "PATCH", settings, testkit.JSON{"time_zone": "localtime"}},
		{"currency", "PATCH", settings, testkit.JSON{"currency": "XXX"}},
		{"currency", "PATCH", settings, testkit.JSON{"currency": "euro"}},

		{"started_at", "POST", runsURL, testkit.JSON{"started_at": "0001-01-01T00:00:00Z"}},
		{"printer_id", "POST", runsURL, testkit.JSON{"printer_id": printer}},
		{"completed_at", "POST", run + "/complete", testkit.JSON{"completed_at": "0001-01-01T00:00:00Z"}},
		{"completed_at", "POST", run + "/complete", testkit.JSON{"completed_at": "2126-01-01T00:00:00Z"}},
		{"spool_id", "POST", run + "/materials/" + used + "/exchange", testkit.JSON{"spool_id": spool, "used_grams": 1}},
		{"items", "POST", plan, none},
		{"item_ids", "POST", order + "/plan", testkit.JSON{"item_ids": []string{}}},
		{"item_ids[0]", "POST", order + "/plan", testkit.JSON{"item_ids": []string{value.NewID()}}},

		{"diameter_mm", "POST", "/api/v1/stock-levels",
			testkit.JSON{"material_type": "PLA", "diameter_mm": 2, "minimum_grams": 1}},
		{"minimum_grams", "POST", "/api/v1/stock-levels", testkit.JSON{"material_type": "PLA", "minimum_grams": 0}},
		{"materials", "POST", printersURL, testkit.JSON{"name": "P", "materials": []string{"Wood"}}},
		{"nozzle_mm", "POST", printersURL, testkit.JSON{"name": "P", "nozzle_mm": 0}},

		{"url", "POST", hooks, webhook("https://farm.example:99999/")},
		{"url", "POST", hooks, webhook("https://farm.example:0/")},
		{"url", "POST", hooks, webhook("https://localhost/")},
		{"url", "POST", hooks, webhook("https://nas/")},
		{"url", "POST", hooks, webhook("https://Printer.LOCAL./")},
		{"url", "POST", hooks, webhook("https://hooks.invalid/")},
		{"url", "POST", hooks, webhook("https://farm..example/")},
		{"url", "POST", hooks, webhook("https://192.168.1.20/")},
		{"url", "POST", hooks, chat("discord", "https://farm.example/hook")},
		{"url", "POST", hooks, chat("ntfy", "https://ntfy.sh/")},
		{"url", "POST", hooks, chat("gotify", "https://gotify.farm.example/")},
		{"url", "POST", hooks, chat("slack", "https://hooks.internal/services/T/B/x")},
		{"url", "POST", hooks, chat("email", "mailto:nobody@farm.example")},
		{"token", "POST", hooks, testkit.JSON{"url": "https://farm.example/", "events": []string{"*"}, "token": "x"}},
		{"daily", "POST", hooks, testkit.JSON{"url": "https://farm.example/", "events": []string{"*"}, "daily": true}},
		{"events", "POST", hooks, testkit.JSON{"url": "https://farm.example/", "events": []string{}}},
		{"events", "POST", hooks, testkit.JSON{"url": "https://farm.example/", "events": []string{"webhook.test"}}},

		{"name", "POST", shops, testkit.JSON{"kind": "generic", "name": "  "}},
		{"kind", "POST", shops, testkit.JSON{"kind": "amazon", "name": "x"}},
		{"signing_secret", "POST", shops, shop("generic", "0123456789abcdef")},
		{"signing_secret", "POST", shops, shop("generic", "whsec_c2hvcnQ=")},
		{"signing_secret", "POST", shops, shop("woocommerce", "short")},
		{"signing_secret", "POST", shops, shop("shopify", "shpss_ with blanks in it")},

		{"email", "POST", users, user("ada@farm..example")},
		{"email", "POST", users, user("ada@.example")},
		{"email", "POST", users, user("ada@farm.example.")},
		{"email", "POST", users, user("ada@")},
		{"send", "POST", users + "/" + c.Actor.User + "/password-link", testkit.JSON{"send": true}},

		{"choices", "POST", fields, field(testkit.JSON{"type": "choice"})},
		{"choices", "POST", fields, field(testkit.JSON{"choices": []string{"yes"}})},
		{"multiple", "POST", fields, field(testkit.JSON{"multiple": true})},
		{"default_value", "POST", fields,
			field(testkit.JSON{"type": "choice", "choices": []string{"yes"}, "default_value": `"no"`})},
		{"default_value", "POST", fields, field(testkit.JSON{"type": "integer", "default_value": `"no"`})},
	} {
		a := c.Do(t, r.method, r.path, r.body)
		if a.Status != 422 && a.Status != 400 {
			t.Errorf("%s %s %v: %d %s", r.method, r.path, r.body, a.Status, a.Body)
			continue
		}
		a.Shows(map[string]string{"errors.0.field": r.field})
	}

	const list = "material_type,color,diameter_mm,net_weight_grams\nPLA,Black,1.75,1000\n"
	csv := c.With("Content-Type", "text/csv")
	for _, r := range []struct{ parameter, text string }{
		{"mapping", `{"Nothing":"color"}`}, {"mapping", `{"color":"nothing"}`}, {"mapping", `{"color`},
		{"defaults", `{"nothing":"1"}`},
		{"corrections", `{"99":{"color":"Red"}}`}, {"corrections", `{"0":null}`}, {"corrections", `{"2":{"nothing":"x"}}`},
	} {
		for _, operation := range []string{"/import", "/import/check"} {
			csv.Post(t, spoolsURL+operation+"?"+r.parameter+"="+url.QueryEscape(r.text), []byte(list)).
				WantError(422, "VALIDATION_ERROR").Shows(map[string]string{"errors.0.field": r.parameter})
		}
	}
	c.Get(t, spoolsURL).Shows(map[string]string{"total": "1"})
	c.Get(t, hooks).Shows(map[string]string{"total": "0"})
	c.Get(t, shops).Shows(map[string]string{"total": "0"})
	c.Get(t, order).Shows(map[string]string{"status": "received"})
}
