package web_test

import (
	"html"
	"net/url"
	"testing"

	"spoolwright/tests/testkit"
)

// A new farm shows its first steps. Each is ticked off when it is done, and the last one takes the block away.
func TestFirstSteps(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "admin")
	b := signIn(t, c)
	c.Patch(t, "/api/v1/auth/me", j{"language": "en"}).Want(200)
	b.header.Set("Accept-Language", "de-AT,en;q=0.5")
	page := b.get(t, "/").want(t, 200).shows(t, "First steps", "Time zone and currency", "Import a file",
		"Fill with sample data", "Hide these steps")
	form := page.form(t, "/first-steps/place")
	if form.Get("time_zone") != "Europe/Vienna" || form.Get("currency") != "EUR" {
		t.Errorf("the guess is %v", form)
	}
	// The script replaces both if the time zone of the browser is another one.
	for _, want := range []string{`"America/Los_Angeles":"USD"`, `"Europe/London":"GBP"`} {
		testkit.Contains(t, html.UnescapeString(page.text), want, "the page has no %s: %s", want, page.text)
	}
	page.submit(t, "/first-steps/place", "time_zone", "Mars").want(t, 422).shows(t, "First steps", "IANA")
	page.submit(t, "/first-steps/place").to(t, "/").shows(t, "Time zone and currency Done").
		hides(t, "Filament Done", "A printer Done")
	c.Get(t, "/api/v1/settings").Shows(map[string]string{"time_zone": "Europe/Vienna", "currency": "EUR"})

	c.NewSpool(t, 500, nil)
	b.get(t, "/").shows(t, "Filament Done").hides(t, "Fill with sample data", "A printer Done")
	c.Post(t, "/api/v1/printers", j{"name": "Voron"}).Want(201)
	b.get(t, "/").shows(t, "A printer Done").hides(t, "A product Done")

	// A person sees only the steps that the role permits.
	operator := tenant.User(t, "operator")
	worker := signIn(t, operator)
	worker.get(t, "/").want(t, 200).shows(t, "First steps", "A product").
		hides(t, "Time zone", "Invite somebody", "Hide these steps", "sample data")
	signIn(t, tenant.User(t, "viewer")).get(t, "/").want(t, 200).hides(t, "First steps")
	b.get(t, "/").shows(t, "A colleague Done", "First steps")
	c.NewProduct(t, "Hook", 10)
	b.get(t, "/").hides(t, "First steps")
	worker.get(t, "/").hides(t, "First steps")
	for _, action := range []string{"/first-steps/place", "/first-steps/hide", "/samples", "/samples/remove"} {
		worker.do(t, "POST", action, url.Values{}).want(t, 403)
	}
	worker.get(t, "/samples").want(t, 403)

	// Another farm hides them.
	other := signIn(t, api.Tenant(t).User(t, "admin"))
	other.get(t, "/").shows(t, "First steps").submit(t, "/first-steps/hide").to(t, "/").hides(t, "First steps")
	other.do(t, "POST", "/first-steps/hide", url.Values{}).to(t, "/").hides(t, "First steps")
}

// The country of the first language that names one decides the guess.
func TestPlaceOfLanguages(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	b := signIn(t, api.Tenant(t).User(t, "admin"))
	for languages, want := range map[string]string{"": "UTC ", "en": "UTC ", "en-US,en;q=0.9": "America/New_York USD",
		"de": "Europe/Berlin EUR", "en, fr-CH": "Europe/Zurich CHF", "zh-Hans-CN": "Asia/Shanghai CNY",
		"xx-;;,,": "UTC ", "*": "UTC "} {
		b.header.Set("Accept-Language", languages)
		form := b.get(t, "/").want(t, 200).form(t, "/first-steps/place")
		testkit.Equal(t, form.Get("time_zone")+" "+form.Get("currency"), want, "%q", languages)
	}
}
