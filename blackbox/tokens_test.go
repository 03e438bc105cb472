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
	"spoolwright/auth/authtest"
	"spoolwright/db"
	"spoolwright/server"
)

func TestInvalidTokens(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	f, stranger := w.newFullFixture(t).prepareBodies(t), w.newFixture(t)
	before := f.snapshot(t)
	bad := invalidTokens(t, f.admin, stranger.admin)

	me := f.admin.With("Authorization", "Bearer "+sign(t, authtest.Secret, "HS256", claims(f.admin)))
	me.Get(t, "/api/v1/auth/me").Want(200) // the forger's craft is sound

	w.forEach(t, everyRoute, func(t *testing.T, op *operation) {
		path, body := f.path(t, op.Path()), f.body(t, op)
		for _, forged := range bad {
			c := &authtest.Client{API: w.api, Header: http.Header{}}
			if forged.header != "" {
				c.Header.Set("Authorization", forged.header)
			}
			if op.Access == server.Public {
				f.do(t, c, op, path, "{}").WantError(422, "VALIDATION_ERROR") // as without any token
				continue
			}
			a := f.do(t, c, op, path, body)
			if a.Status != 401 || a.Text("code") != forged.code || a.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s: %s: %d %q %s, want 401 %s", forged.name, a.What, a.Status, a.Header.Get("WWW-Authenticate"), a.Body, forged.code)
			}
		}
	})
	f.wantUnchanged(t, before)
}

type invalidToken struct {
	name, header, code string
}

// claims are those of a good access token.
func claims(c *authtest.Client) map[string]any {
	return map[string]any{"iss": "spoolwright", "aud": []string{"spoolwright:access"}, "sub": c.Actor.User, "tenant": c.Actor.Tenant, "role": c.Actor.Role,
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(), "jti": db.NewID()}
}

// sign makes a token by hand: the label need not be true.
func sign(t *testing.T, key, label string, claims map[string]any) string {
	t.Helper()
	encode := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	text := encode(map[string]string{"alg": label, "typ": "JWT"}) + "." + encode(claims)
	hashes := map[string]func() hash.Hash{"HS384": sha512.New384, "HS512": sha512.New}
	made := hashes[label]
	if made == nil {
		made = sha256.New
	}
	mac := hmac.New(made, []byte(key))
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// forgeries are Authorization headers that nobody must get in with, made by somebody who knows much: the ids, the form of
// the tokens, and for some even the secret.
func invalidTokens(t *testing.T, user, stranger *authtest.Client) []invalidToken {
	t.Helper()
	const secret = authtest.Secret
	var all []invalidToken
	add := func(name, header, code string) { all = append(all, invalidToken{name, header, code}) }
	bad := func(name, token string) { add(name, "Bearer "+token, "INVALID_TOKEN") }
	changed := func(name string, value any) map[string]any {
		c := claims(user)
		if c[name] = value; value == nil {
			delete(c, name)
		}
		return c
	}
	// payload puts other claims under the signature of a good token.
	payload := func(other map[string]any) string {
		good, forged := strings.Split(user.Token, "."), strings.Split(sign(t, "x", "HS256", other), ".")
		return good[0] + "." + forged[1] + "." + good[2]
	}
	refresh, err := user.API.Tokens.Refresh(auth.Refresh{TenantID: user.Actor.Tenant, UserID: user.Actor.User, SessionID: db.NewID(), Counter: 1, IssuedAt: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	unsigned := sign(t, secret, "none", claims(user))
	expired := maps.Clone(claims(user))
	expired["iat"], expired["exp"] = time.Now().Add(-2*time.Hour).Unix(), time.Now().Add(-time.Hour).Unix()

	add("no header", "", "INVALID_TOKEN")
	add("no token", "Bearer", "INVALID_TOKEN")
	add("other scheme", "Basic "+user.Token, "INVALID_TOKEN")
	add("no scheme", user.Token, "INVALID_TOKEN")
	bad("no JWT", "garbage")
	bad("two tokens", user.Token+" "+user.Token)
	bad("alg none", unsigned)
	bad("alg none without signature", unsigned[:strings.LastIndexByte(unsigned, '.')+1])
	bad("alg NONE", sign(t, secret, "NONE", claims(user)))
	bad("no signature", user.Token[:strings.LastIndexByte(user.Token, '.')+1])
	bad("HS384", sign(t, secret, "HS384", claims(user)))
	bad("HS512", sign(t, secret, "HS512", claims(user)))
	bad("labelled RS256", sign(t, secret, "RS256", claims(user)))
	bad("labelled ES256", sign(t, secret, "ES256", claims(user)))
	bad("empty key", sign(t, "", "HS256", claims(user)))
	bad("other key", sign(t, secret+"x", "HS256", claims(user)))
	bad("payload changed: role", payload(changed("role", "operator")))
	bad("payload changed: tenant", payload(changed("tenant", stranger.Actor.Tenant)))
	bad("payload changed: user", payload(changed("sub", stranger.Actor.User)))
	bad("wrong issuer", sign(t, secret, "HS256", changed("iss", "somebody")))
	bad("no issuer", sign(t, secret, "HS256", changed("iss", nil)))
	bad("wrong audience", sign(t, secret, "HS256", changed("aud", []string{"somebody"})))
	bad("no audience", sign(t, secret, "HS256", changed("aud", nil)))
	bad("two audiences", sign(t, secret, "HS256", changed("aud", []string{"spoolwright:access", "spoolwright:refresh"})))
	bad("no expiry", sign(t, secret, "HS256", changed("exp", nil)))
	bad("expiry that is no time", sign(t, secret, "HS256", changed("exp", "never")))
	bad("issued tomorrow", sign(t, secret, "HS256", changed("iat", time.Now().Add(30*time.Minute).Unix())))
	bad("not valid yet", sign(t, secret, "HS256", changed("nbf", time.Now().Add(30*time.Minute).Unix())))
	bad("unknown role", sign(t, secret, "HS256", changed("role", "root")))
	bad("no role", sign(t, secret, "HS256", changed("role", nil)))
	bad("no tenant", sign(t, secret, "HS256", changed("tenant", nil)))
	bad("no user", sign(t, secret, "HS256", changed("sub", "")))
	bad("refresh token", refresh)
	bad("expired, other key", sign(t, secret+"x", "HS256", expired))
	add("expired", "Bearer "+sign(t, secret, "HS256", expired), "TOKEN_EXPIRED")
	return all
}
