package blackbox_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"hash"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"spoolwright/auth"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/testkit"
)

// TestInvalidTokens checks that every route with authentication rejects every invalid access token, without an
// effect, and that public routes ignore the token.
func TestInvalidTokens(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	f, other := w.newFullFixture(t).prepareBodies(t), w.newFixture(t)
	before := f.snapshot(t)
	tokens := invalidTokens(t, f.admin, other.admin)

	// sign makes valid tokens, so that each token below is rejected for the one thing that is wrong in it.
	valid := f.admin.With("Authorization", "Bearer "+sign(t, testkit.Secret, "HS256", claims(f.admin)))
	valid.Get(t, "/api/v1/auth/me").Want(200)

	w.forEach(t, everyRoute, func(t *testing.T, op *operation) {
		path, body := f.path(t, op.Path()), f.body(t, op)
		for _, token := range tokens {
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
				t.Errorf("%s: %s: %d %q %s, want 401 %s", token.name, a.What, a.Status, challenge, a.Body, token.code)
			}
		}
	})
	f.wantUnchanged(t, before)
}

// invalidToken is an Authorization header that must be rejected with the error code.
type invalidToken struct {
	name, header, code string
}

// claims returns the claims of a valid access token of the client's user.
func claims(c *testkit.Client) map[string]any {
	return map[string]any{
		"iss": "spoolwright", "aud": []string{"spoolwright:access"},
		"sub": c.Actor.User, "tenant": c.Actor.Tenant, "role": c.Actor.Role,
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(), "jti": db.NewID(),
	}
}

// sign returns a JWT with an HMAC signature. alg is written into the header; for HS384 and HS512 the signature uses
// that hash, for all other values, also such as none or RS256, SHA-256.
func sign(t *testing.T, key, alg string, claims map[string]any) string {
	t.Helper()
	encode := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	text := encode(map[string]string{"alg": alg, "typ": "JWT"}) + "." + encode(claims)
	newHash, ok := map[string]func() hash.Hash{"HS384": sha512.New384, "HS512": sha512.New}[alg]
	if !ok {
		newHash = sha256.New
	}
	mac := hmac.New(newHash, []byte(key))
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// invalidTokens returns headers that differ from a valid header of the user in one respect each. Their author knows
// the ids of the user and of another tenant's user and the format of tokens, and for some of them also the secret.
func invalidTokens(t *testing.T, user, other *testkit.Client) []invalidToken {
	t.Helper()
	const secret = testkit.Secret
	var all []invalidToken
	add := func(name, header, code string) { all = append(all, invalidToken{name, header, code}) }
	invalid := func(name, token string) { add(name, "Bearer "+token, "INVALID_TOKEN") }
	// with returns valid claims with one claim replaced or, if the value is nil, removed.
	with := func(name string, value any) map[string]any {
		c := claims(user)
		if c[name] = value; value == nil {
			delete(c, name)
		}
		return c
	}
	signed := func(claims map[string]any) string { return sign(t, secret, "HS256", claims) }
	// tampered returns a valid token in which the claims were replaced and the signature was not.
	tampered := func(claims map[string]any) string {
		valid, payload := strings.Split(user.Token, "."), strings.Split(sign(t, "x", "HS256", claims), ".")[1]
		return valid[0] + "." + payload + "." + valid[2]
	}
	refresh, err := user.API.Tokens.Refresh(auth.Refresh{
		TenantID: user.Actor.Tenant, UserID: user.Actor.User, SessionID: db.NewID(), Counter: 1, IssuedAt: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	algNone := sign(t, secret, "none", claims(user))
	expired := maps.Clone(claims(user))
	expired["iat"], expired["exp"] = time.Now().Add(-2*time.Hour).Unix(), time.Now().Add(-time.Hour).Unix()

	add("no header", "", "INVALID_TOKEN")
	add("scheme without token", "Bearer", "INVALID_TOKEN")
	add("scheme Basic", "Basic "+user.Token, "INVALID_TOKEN")
	add("token without scheme", user.Token, "INVALID_TOKEN")
	invalid("not a JWT", "garbage")
	invalid("two tokens", user.Token+" "+user.Token)

	invalid("alg none, signed", algNone)
	invalid("alg none, not signed", algNone[:strings.LastIndexByte(algNone, '.')+1])
	invalid("alg NONE", sign(t, secret, "NONE", claims(user)))
	invalid("signature removed", user.Token[:strings.LastIndexByte(user.Token, '.')+1])
	invalid("alg HS384", sign(t, secret, "HS384", claims(user)))
	invalid("alg HS512", sign(t, secret, "HS512", claims(user)))
	invalid("alg RS256 with an HMAC signature", sign(t, secret, "RS256", claims(user)))
	invalid("alg ES256 with an HMAC signature", sign(t, secret, "ES256", claims(user)))
	invalid("empty key", sign(t, "", "HS256", claims(user)))
	invalid("other key", sign(t, secret+"x", "HS256", claims(user)))
	invalid("role replaced", tampered(with("role", "operator")))
	invalid("tenant replaced", tampered(with("tenant", other.Actor.Tenant)))
	invalid("user replaced", tampered(with("sub", other.Actor.User)))

	invalid("other issuer", signed(with("iss", "other")))
	invalid("no issuer", signed(with("iss", nil)))
	invalid("other audience", signed(with("aud", []string{"other"})))
	invalid("no audience", signed(with("aud", nil)))
	invalid("two audiences", signed(with("aud", []string{"spoolwright:access", "spoolwright:refresh"})))
	invalid("no expiry", signed(with("exp", nil)))
	invalid("expiry is not a time", signed(with("exp", "never")))
	invalid("issued in the future", signed(with("iat", time.Now().Add(30*time.Minute).Unix())))
	invalid("not valid yet", signed(with("nbf", time.Now().Add(30*time.Minute).Unix())))
	invalid("unknown role", signed(with("role", "root")))
	invalid("no role", signed(with("role", nil)))
	invalid("no tenant", signed(with("tenant", nil)))
	invalid("empty user", signed(with("sub", "")))
	invalid("refresh token", refresh)
	invalid("expired, other key", sign(t, secret+"x", "HS256", expired))
	add("expired", "Bearer "+signed(expired), "TOKEN_EXPIRED")
	return all
}
