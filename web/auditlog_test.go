package web_test

import (
	"regexp"
	"strings"
	"testing"

	"spoolwright/auth/audit"
	"spoolwright/tests/testkit"
)

// Admins read who did what, and choose a person, an action and days.
func TestAuditLog(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	admin := tenant.User(t, "admin")
	b := signIn(t, admin)
	admin.Patch(t, "/api/v1/settings", testkit.JSON{"currency": "EUR"}).Want(200)
	p := b.get(t, "/settings/audit").want(t, 200)
	p.shows(t, "Sign-in Test admin 127.0.0.1")
	p.shows(t, "Settings changed: tenant "+tenant.ID+" Currency Test admin 127.0.0.1")
	b.get(t, "/settings/audit?action=sign_in&person="+admin.Actor.User).hides(t, "Settings changed:")
	b.get(t, "/settings/audit?to=2020-01-01").shows(t, "No entry matches")
	b.get(t, "/settings/audit?from=x").want(t, 200).shows(t, "From ")
	signIn(t, tenant.User(t, "operator")).get(t, "/settings/audit").want(t, 403)
	for _, action := range audit.Action("").Enum() { // one without a name would be shown as it is, with a dot
		if name := regexp.MustCompile(`<option value="` + action + `">([^<]+)<`).FindStringSubmatch(p.text); name == nil ||
			strings.Contains(name[1], ".") || strings.EqualFold(name[1], action) {
			t.Errorf("the name of the action %s is %q", action, name)
		}
	}
}
