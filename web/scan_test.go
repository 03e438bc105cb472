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
	testkit.Contains(t, page.header.Get("Permissions-Policy"), "camera=(self)", "the page may not use the camera")
	testkit.Contains(t, b.get(t, "/spools").header.Get("Permissions-Policy"), "camera=()",
		"another page may use the camera")
	if !strings.Contains(page.text, `inputmode="numeric"`) || !strings.Contains(page.text, `action="/scan"`) {
		t.Error("the field has no keyboard of digits")
	}
	for _, code := range []string{"1", "%231", "%20%231%20"} {
		testkit.Equal(t, b.get(t, "/scan?q="+code).want(t, 303).header.Get("Location"), "/s/1", "%s leads to", code)
	}
	for _, code := range []string{"WEB%2BSPOOLMAN%3AS-1", "http%3A%2F%2Ffarm.example%2Fspool%2Fshow%2F1"} {
		found := b.get(t, "/scan?q="+code).want(t, 303)
		testkit.Equal(t, found.header.Get("Location"), "/search?q="+code, "the code %s leads to", code)
		b.get(t, "/search?q="+code).want(t, 303)
	}
	b.get(t, "/scan?q=999").want(t, 303)
	b.get(t, "/s/999").want(t, 404)
	b.get(t, "/scan?q=%2F%2Fevil.example").to(t, "/search?q=%2F%2Fevil.example")
	testkit.Equal(t, b.get(t, "/s/1").want(t, 303).header.Get("Location"), "/spools/"+spool, "the number leads to")
	newBrowser(t, api.URL).get(t, "/scan").want(t, 303)

	// The bar of phones marks the page.
	if text := b.get(t, "/spools/"+spool).text; strings.Count(text, `href="/spools" aria-current="page"`) != 2 {
		t.Error("the bar does not mark the section of the page")
	}
}
