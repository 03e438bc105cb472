package blackbox_test

import (
	"net/http"
	"testing"
	"time"

	"spoolwright/auth"
	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// TestInvalidTokens checks that every route with authentication rejects invalid access tokens, without an effect, and
// that public routes ignore the token. The tests of package auth have all kinds of invalid tokens.
func TestInvalidTokens(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	f := w.newFullFixture(t).prepareBodies(t)
	before := f.snapshot(t)
	user := f.admin.Actor
	// issue returns an access token of the admin, signed with the secret at another time.
	issue := func(secret string, since time.Duration) string {
		now := func() time.Time { return time.Now().Add(-since) }
		tokens, err := auth.NewTokens([]string{secret}, time.Minute, time.Hour, now)
		check(t, err)
		token, err := tokens.Access(auth.Principal{TenantID: user.Tenant, UserID: user.User, Role: user.Role})
		check(t, err)
		return "Bearer " + token
	}
	refresh, err := w.api.Tokens.Refresh(auth.Refresh{
		TenantID: user.Tenant, UserID: user.User, SessionID: value.NewID(), Counter: 1, IssuedAt: time.Now(),
	})
	check(t, err)
	f.admin.With("Authorization", issue(testkit.Secret, 0)).Get(t, "/api/v1/auth/me").Want(200)
	invalid := map[string]struct{ header, code string }{
		"no header":            {"", "INVALID_TOKEN"},
		"scheme without token": {"Bearer", "INVALID_TOKEN"},
		"scheme Basic":         {"Basic " + f.admin.Token, "INVALID_TOKEN"},
		"token without scheme": {f.admin.Token, "INVALID_TOKEN"},
		"two tokens":           {"Bearer " + f.admin.Token + " " + f.admin.Token, "INVALID_TOKEN"},
		"not a JWT":            {"Bearer garbage", "INVALID_TOKEN"},
		"refresh token":        {"Bearer " + refresh, "INVALID_TOKEN"},
		"other secret":         {issue(testkit.Secret+"x", 0), "INVALID_TOKEN"},
		"expired":              {issue(testkit.Secret, time.Hour), "TOKEN_EXPIRED"},
	}
	w.forEach(t, everyRoute, func(t *testing.T, op *operation) {
		path, body := f.path(t, op.Path()), f.body(t, op)
		for name, token := range invalid {
			c := &testkit.Client{API: w.api, Header: http.Header{}}
			if token.header != "" {
				c.Header.Set("Authorization", token.header)
			}
			if op.Access == server.Public {
				f.do(t, c, op, path, "{}").WantError(422, "VALIDATION_ERROR") // the same as without a token
				continue
			}
			a := f.do(t, c, op, path, body)
			challenge := a.Header.Get("WWW-Authenticate")
			if a.Status != 401 || a.Text("code") != token.code || challenge != "Bearer" {
				t.Errorf("%s: %s: %d %q %s, want 401 %s", name, a.What, a.Status, challenge, a.Body, token.code)
			}
		}
	})
	f.wantUnchanged(t, before)
}
