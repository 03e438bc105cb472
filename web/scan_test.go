package web_test

import (
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

func TestScan(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	spool := c.NewSpool(t, 500, nil)
	b := signIn(t, tenant.User(t, "viewer"))
	page := b.get(t, "/scan").want(t, 200).shows(t, "Number of the spool", "the camera app of the phone", "such as /s/12")
	if got := page.header.Get("Permissions-Policy"); !strings.Contains(got, "camera=(self)") {
		t.Errorf("the page may not use the camera: %s", got)
	}
	if got := b.get(t, "/spools").header.Get("Permissions-Policy"); !strings.Contains(got, "camera=()") {
		t.Errorf("another page may use the camera: %s", got)
	}
	if !strings.Contains(page.text, `inputmode="numeric"`) || !strings.Contains(page.text, `action="/scan"`) {
		t.Error("the field has no keyboard of digits")
	}
	for _, code := range []string{"1", "%231", "%20%231%20"} {
		if to := b.get(t, "/scan?q="+code).want(t, 303).header.Get("Location"); to != "/s/1" {
			t.Errorf("%s leads to %s", code, to)
		}
	}
	for _, code := range []string{"WEB%2BSPOOLMAN%3AS-1", "http%3A%2F%2Ffarm.example%2Fspool%2Fshow%2F1"} {
		found := b.get(t, "/scan?q="+code).want(t, 303)
		if to := found.header.Get("Location"); to != "/search?q="+code {
			t.Errorf("the code %s leads to %s", code, to)
		}
		b.get(t, "/search?q="+code).want(t, 303)
	}
	b.get(t, "/scan?q=999").want(t, 303)
	b.get(t, "/s/999").want(t, 404)
	b.get(t, "/scan?q=%2F%2Fevil.example").to(t, "/search?q=%2F%2Fevil.example")
	if to := b.get(t, "/s/1").want(t, 303).header.Get("Location"); to != "/spools/"+spool {
		t.Errorf("the number leads to %s", to)
	}
	newBrowser(t, api.URL).get(t, "/scan").want(t, 303)

	// The bar of phones marks the page.
	if text := b.get(t, "/spools/"+spool).text; strings.Count(text, `href="/spools" aria-current="page"`) != 2 {
		t.Error("the bar does not mark the section of the page")
	}
}
