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
	form := b.get(t, at).want(t, 200).shows(t, "Reports", "Create a key").form(t, connect)
	shown := b.do(t, "POST", connect, form).want(t, 200).shows(t, "shown only now", "moonraker.conf", "OctoPrint",
		"SPOOLMAN_BASE_URL=http://x:swk_", "New key", "last used: never")
	key := secretKey.FindString(shown.text)
	lines := "[spoolman]\nserver: " + strings.Replace(api.URL, "://", "://x:"+key+"@", 1) + "/spoolman"
	testkit.Contains(t, shown.text, lines, "the lines for Moonraker are not %s", lines)
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
	b.get(t, at).submit(t, revoke).to(t, at).shows(t, "The key is revoked.", "Create a key").hides(t, "New key")
}

// The page of a new key for watchers shows the lines for the machine in the network of the printers.
func TestConnectWatcher(t *testing.T) {
	t.Parallel()
	c := newAPI(t, testkit.Options{}).Tenant(t).User(t, "admin")
	b := signIn(t, c)
	page := b.get(t, "/settings/keys")
	shown := page.submit(t, "/settings/keys", "name", "workshop", "role", "watcher").want(t, 200)
	shown.shows(t, "watch.json", `{"service": "`+c.API.URL+`", "key": "swk_`, "systemctl enable --now spoolwright-watch").
		hides(t, "/api/v1/spools")
}

// Admins say where the service watches a printer, on a page with what fits its kind, and test it. The key is never
// shown.
func TestWatchPrinter(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "admin")
	at := "/printers/" + c.Post(t, "/api/v1/printers", j{"name": "Voron"}).Want(201).ID()
	page := at + "/connection"
	b := signIn(t, c)
	b.get(t, at).shows(t, "Watching Connect")
	b.get(t, page).shows(t, "Moonraker", "Bambu Lab").hides(t, "Serial number")
	b.get(t, page+"?kind=bambu").shows(t, "Serial number", "Access code")
	b.get(t, page+"?kind=octoprint").hides(t, "Serial number").submit(t, page, "address", "ftp://x").want(t, 422).
		shows(t, "Must be an address such as")
	const key = "0123456789ABCDEF"
	saved := b.get(t, page+"?kind=octoprint").submit(t, page, "address", "http://127.0.0.1:1", "secret", key).to(t, page)
	saved.shows(t, "The connection is saved.", "OctoPrint", "Empty keeps the stored one")
	tested := saved.submit(t, page+"/test").want(t, 200).shows(t, "nothing answers at this port")
	testkit.Lacks(t, saved.text+tested.text, key, "a page shows the key")
	b.get(t, page).submit(t, page, "address", "http://127.0.0.1:1").to(t, page)
	c.Get(t, "/api/v1"+page).Want(200).Shows(map[string]string{"has_secret": "true"})
	b.get(t, at).shows(t, "http://127.0.0.1:1")
	b.get(t, page).submit(t, page+"/remove").to(t, at).shows(t, "The connection is removed with its key.")
	c.Get(t, "/api/v1"+page).WantError(404, "NOT_FOUND")
	signIn(t, tenant.User(t, "operator")).get(t, page).want(t, 403)
}
