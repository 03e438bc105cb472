package web_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

var secretKey = regexp.MustCompile(`swk_\w{36}`)

// One click on the page of a printer makes a key of this printer, and shows the lines for its software once. Only
// admins connect printers of their own farm.
func TestConnectPrinter(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "admin")
	id := c.Post(t, "/api/v1/printers", j{"name": "Voron 1"}).Want(201).ID()
	other := c.Post(t, "/api/v1/printers", j{"name": "Voron 2"}).Want(201).ID()
	at, connect := "/printers/"+id, "/printers/"+id+"/key"
	b := signIn(t, c)
	form := b.get(t, at).want(t, 200).shows(t, "Connection", "Connect").form(t, connect)
	shown := b.do(t, "POST", connect, form).want(t, 200).shows(t, "shown only now", "moonraker.conf", "OctoPrint",
		"SPOOLMAN_BASE_URL=http://x:swk_", "New key", "last used: never")
	key := secretKey.FindString(shown.text)
	lines := "[spoolman]\nserver: " + strings.Replace(api.URL, "://", "://x:"+key+"@", 1) + "/spoolman"
	if !strings.Contains(shown.text, lines) {
		t.Errorf("the lines for Moonraker are not %s", lines)
	}
	if again := b.do(t, "POST", connect, form).to(t, at); secretKey.MatchString(again.text) {
		t.Error("the key is shown again")
	}
	keys := c.Get(t, "/api/v1/api-keys?printer_id="+id).Want(200)
	keys.Shows(map[string]string{"total": "1", "items.0.name": "Voron 1", "items.0.role": "printer",
		"items.0.printer_id": id})
	c.Get(t, "/api/v1/api-keys?printer_id="+other).Want(200).Shows(map[string]string{"total": "0"})
	c.Get(t, "/api/v1/api-keys?printer_id=x").WantError(422, "VALIDATION_ERROR")

	b.get(t, "/printers/"+other).hides(t, "last used")

	revoke := connect + "/" + keys.Text("items.0.id") + "/revoke"
	for _, role := range []string{"viewer", "operator"} {
		visitor := signIn(t, tenant.User(t, role))
		visitor.get(t, at).want(t, 200).hides(t, "Connection")
		visitor.do(t, "POST", connect, url.Values{}).want(t, 403)
		visitor.do(t, "POST", revoke, url.Values{}).want(t, 403)
	}
	stranger := signIn(t, api.Tenant(t).User(t, "admin"))
	stranger.do(t, "POST", connect, url.Values{}).want(t, 404)
	stranger.do(t, "POST", revoke, url.Values{}).want(t, 404)
	b.get(t, at).submit(t, revoke).to(t, at).shows(t, "The key is revoked.", "Connect").hides(t, "New key")
}
