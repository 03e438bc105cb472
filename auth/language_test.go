package auth_test

import (
	"testing"

	"spoolwright/auth"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// Every user chooses a language, admins choose those of all users of their tenant, and that of the farm.
func TestLanguages(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"users", "tenants"} {
		testkit.WantCheckedOrNull(t, table, "language", auth.Language("").Enum())
	}
	const me, settings = "/api/v1/auth/me", "/api/v1/settings"
	api := testkit.New(t, testkit.Options{})
	tenant := api.Tenant(t)
	admin, viewer, stranger := tenant.User(t, "admin"), tenant.User(t, "viewer"), api.Tenant(t).User(t, "admin")
	is := func(language string) map[string]string { return map[string]string{"language": language} }

	viewer.Get(t, me).Shows(is("null"))
	viewer.Patch(t, me, j{"language": "pt-BR", "name": "Else", "role": "admin"}).Fields("name", "role")
	viewer.Get(t, me).Shows(map[string]string{"language": "null", "name": "Test viewer", "role": "viewer"})
	viewer.Patch(t, me, j{"language": "pt-BR"}).Want(200).Shows(is("pt-BR"))
	viewer.Get(t, me).Shows(is("pt-BR"))
	viewer.Patch(t, me, j{}).Want(200).Shows(is("pt-BR"))
	admin.Get(t, me).Shows(is("null"))
	account := "/api/v1/users/" + viewer.Actor.User
	admin.Get(t, account).Shows(is("pt-BR"))
	for _, unknown := range []any{"", "DE", "de-AT", "pt", "xx", 1} {
		viewer.Patch(t, me, j{"language": unknown}).Fields("language")
		admin.Patch(t, account, j{"language": unknown}).Fields("language")
		admin.Patch(t, settings, j{"language": unknown}).Fields("language")
	}
	admin.Patch(t, account, j{"language": "ja"}).Want(200).Shows(is("ja"))
	admin.Patch(t, account, j{"name": "Ada"}).Want(200).Shows(is("ja"))
	viewer.Get(t, me).Shows(is("ja"))
	admin.Patch(t, account, j{"language": nil}).Want(200).Shows(is("null"))
	viewer.Patch(t, account, j{"language": "fr"}).WantError(403, "FORBIDDEN")
	stranger.Patch(t, account, j{"language": "fr"}).WantError(404, "NOT_FOUND")
	tenant.Key(t, "operator").Patch(t, me, j{"language": "fr"}).WantError(403, "FORBIDDEN")
	api.Anonymous().Patch(t, me, j{"language": "fr"}).WantError(401, "INVALID_TOKEN")
	viewer.Get(t, me).Shows(is("null"))
	admin.Post(t, "/api/v1/users", j{"email": value.NewID() + "@test.example", "name": "Zoé", "role": "viewer",
		"language": "fr"}).Want(201).Shows(is("fr"))

	viewer.Get(t, settings).Shows(is("null"))
	admin.Patch(t, settings, j{"language": "zh-CN"}).Want(200).Shows(is("zh-CN"))
	viewer.Patch(t, settings, j{"language": "de"}).WantError(403, "FORBIDDEN")
	viewer.Get(t, settings).Shows(is("zh-CN"))
	stranger.Get(t, settings).Shows(is("null"))
	admin.Patch(t, settings, j{"language": nil}).Want(200).Shows(is("null"))
}
