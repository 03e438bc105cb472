package web_test

import (
	"strings"
	"testing"

	"spoolwright/app"
	"spoolwright/tests/testkit"
)

// The form of webhooks has a box for each event, and a name for each kind of receiver.
func TestWebhookForm(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	page := signIn(t, api.Tenant(t).User(t, "admin")).get(t, "/settings/webhooks").want(t, 200)
	for _, e := range app.Events {
		if e.Type != "webhook.test" && !strings.Contains(page.text, `name="events" value="`+e.Type+`"`) {
			t.Errorf("the form lacks %s", e.Type)
		}
	}
	page.shows(t, "Tell me when", "filament runs low", "Messages have no links").hides(t, "E-mail")
	for _, format := range []string{"standard", "discord", "slack", "teams", "ntfy", "gotify"} {
		testkit.Contains(t, page.text, `<option value="`+format+`"`, "the form lacks %s", format)
	}
}

// A chat is added by its kind, and its page has the test. Its address and token are not shown.
func TestChatWebhook(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	c := api.Tenant(t).User(t, "admin")
	b := signIn(t, c)
	const list = "/settings/webhooks"
	b.get(t, list).submit(t, list, "url", "https://chat.example/x", "format", "discord", "events", "order.received").
		want(t, 422).shows(t, "webhook URL of a Discord channel")
	refused := b.get(t, list).submit(t, list, "url", "https://ntfy.example/farm", "format", "ntfy", "token", "tk secret",
		"events", "order.received", "description", "Shop").want(t, 422).hides(t, "tk secret")
	form := refused.form(t, list)
	form.Set("token", "tk_secret")
	sent := b.do(t, "POST", list, form).want(t, 303)
	id := c.Get(t, "/api/v1/webhooks").Want(200).Text("items.0.id")
	page := sent.to(t, list+"/"+id).shows(t, "The receiver is added", "ntfy: Shop", "an order arrives").
		hides(t, "tk_secret", "ntfy.example")
	page.submit(t, list+"/"+id+"/test").to(t, list+"/"+id).shows(t, "webhook.test")
	b.get(t, list).shows(t, "ntfy: Shop").hides(t, "ntfy.example")
	b.do(t, "POST", list, form).to(t, list+"/"+id)
	testkit.Equal(t, c.Get(t, "/api/v1/webhooks").Want(200).Text("total"), "1", "webhooks after a double click")
}

// An e-mail is added by the address of a user, and the form says who may get it.
func TestEmailWebhook(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{Pages: withMail(t, testkit.ServeSMTP(t, testkit.SMTPOptions{}))})
	tenant := api.Tenant(t)
	c := tenant.User(t, "admin")
	b := signIn(t, c)
	const list = "/settings/webhooks"
	add := func(values ...string) *page {
		return b.get(t, list).submit(t, list, append([]string{"events", "production_run.failed"}, values...)...)
	}
	add("url", "nobody@farm.example", "format", "email", "daily", "true").want(t, 422).
		shows(t, "Must have the address of a user of the farm")
	add("url", "https://hooks.farm.example/x", "format", "standard", "daily", "true").want(t, 422).
		shows(t, "only webhooks of the format email can be daily", "E-mail")
	sent := add("url", " "+c.Email, "format", "email", "daily", "true", "description", "Night shift").want(t, 303)
	hook := c.Get(t, "/api/v1/webhooks").Want(200)
	hook.Shows(map[string]string{"total": "1", "items.0.url": "mailto:" + c.Email, "items.0.daily": "true"})
	id := hook.Text("items.0.id")
	sent.to(t, list+"/"+id).shows(t, "E-mail to "+c.Email, "Night shift", "a run fails, once a day").
		submit(t, list+"/"+id+"/test").to(t, list+"/"+id).shows(t, "webhook.test")
	add("url", "mailto:"+c.Email, "format", "email").want(t, 303)
	b.get(t, list).shows(t, "E-mail to "+c.Email)
}
