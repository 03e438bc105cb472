package web_test

import (
	"strings"
	"testing"

	"spoolwright/tests/testkit"
)

// The page of a thing that does not exist has the navigation, and leads to the list.
func TestMissingThings(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	b := signIn(t, tenant.User(t, "admin"))
	const none = "01890a5d-ac96-774b-bcce-b302099a8057"
	for list, paths := range map[string][]string{
		"/spools":    {"/spools/" + none, "/spools/x", "/s/999", "/s/x", "/spools/" + none + "/edit"},
		"/filaments": {"/filaments/" + none, "/vendors/" + none + "/edit"},
		"/products":  {"/products/" + none}, "/printers": {"/printers/" + none}, "/runs": {"/runs/" + none},
		"/orders": {"/orders/" + none, "/orders/" + none + "/plan"}, "/stock": {"/stock/" + none + "/edit"},
		"/settings": {"/settings/webhooks/" + none, "/settings/users/" + none + "/edit"},
	} {
		for _, path := range paths {
			page := b.get(t, path).want(t, 404)
			page.shows(t, "Not found", "Sign out")
			main := page.text[strings.Index(page.text, "<main"):]
			testkit.Contains(t, main, `href="`+list+`"`, "%s does not lead to %s", path, list)
		}
	}
	b.get(t, "/nowhere").want(t, 404).shows(t, "Not found", "Sign out")
	b.do(t, "POST", "/spools/"+none+"/weigh", nil).want(t, 404).shows(t, "Not found", "Sign out")
	newBrowser(t, api.URL).get(t, "/nowhere").want(t, 404).shows(t, "Not found").hides(t, "Sign out")
	signIn(t, tenant.User(t, "viewer")).get(t, "/settings").want(t, 403).shows(t, "Not permitted", "Sign out")
}
