package auth_test

import (
	"testing"

	"spoolwright/tests/testkit"
)

// A user sees and ends the own sessions, and no others.
func TestSessions(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{})
	tenant := api.Tenant(t)
	c, other := tenant.User(t, "viewer"), tenant.User(t, "admin")
	login := func(c *testkit.Client) string {
		t.Helper()
		return c.Post(t, "/api/v1/auth/login", testkit.JSON{"email": c.Email, "password": testkit.Password}).Want(200).
			Text("refresh_token")
	}
	const path = "/api/v1/auth/sessions"
	first := login(c)
	login(other)
	before := c.Get(t, path).Want(200)
	before.Shows(map[string]string{"total": "1"})
	if before.Text("items.0.created_at") != before.Text("items.0.last_used_at") ||
		!before.Time("items.0.expires_at").After(before.Time("items.0.created_at")) {
		t.Errorf("the session is %s", before.Body)
	}
	login(c)
	id := before.Text("items.0.id")
	other.Delete(t, path+"/"+id).WantError(404, "NOT_FOUND")
	api.Operator(t).Delete(t, path+"/"+id).WantError(404, "NOT_FOUND")
	c.Delete(t, path+"/"+id).Want(204)
	c.Delete(t, path+"/"+id).WantError(404, "NOT_FOUND")
	c.Post(t, "/api/v1/auth/refresh", testkit.JSON{"refresh_token": first}).Want(401)
	c.Get(t, path).Want(200).Shows(map[string]string{"total": "1"})
	other.Get(t, path).Want(200).Shows(map[string]string{"total": "1"})
}
