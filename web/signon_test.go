package web_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"spoolwright/auth"
	"spoolwright/auth/accounts"
	"spoolwright/db"
	"spoolwright/tests/testkit"
	"spoolwright/web"
)

const (
	signOnAPI  = "/api/v1/sign-on"
	signOnPath = "/settings/sign-on"

	// publicURL is not the address of the test's service: no address may come from a request.
	publicURL = "https://farm.example"
)

// rsaKeys are slow to make.
var rsaKeys = sync.OnceValue(func() (keys [2]*rsa.PrivateKey) {
	for i := range keys {
		var err error
		if keys[i], err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			panic(err)
		}
	}
	return keys
})

// idp is a provider of OpenID Connect. It has no page to sign in: test code calls authorize.
type idp struct {
	t      *testing.T
	now    func() time.Time
	issuer string

	mu       sync.Mutex
	keys     map[string]crypto.Signer // the published ones, by id
	kid      string                   // of the key that signs
	method   jwt.SigningMethod
	claims   jwt.MapClaims               // of the person
	edit     func(claims jwt.MapClaims)  // of ID tokens; may be nil
	sign     func(t *jwt.Token) string   // replaces the signature; may be nil
	info     map[string]any              // user information
	config   func(config map[string]any) // edits the configuration; may be nil
	codes    map[string]url.Values       // the requests of the codes that were not used
	lax      bool                        // whether codes work more than once
	secret   string
	keyReads int
	wrap     func(http.Handler) http.Handler // replaces the responses; may be nil
}

func newIDP(t *testing.T, now func() time.Time) *idp {
	t.Helper()
	p := &idp{t: t, now: now, keys: map[string]crypto.Signer{"1": rsaKeys()[0]}, kid: "1", method: jwt.SigningMethodRS256,
		codes: map[string]url.Values{}, secret: "the secret: of+the client"}
	s := httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(s.Close)
	p.issuer = s.URL
	return p
}

func (p *idp) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	wrap := p.wrap
	p.mu.Unlock()
	if wrap != nil {
		wrap(http.HandlerFunc(p.answer)).ServeHTTP(w, r)
		return
	}
	p.answer(w, r)
}

func (p *idp) answer(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var answer any
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		config := map[string]any{"issuer": p.issuer, "authorization_endpoint": p.issuer + "/authorize?tenant=7",
			"token_endpoint": p.issuer + "/token", "jwks_uri": p.issuer + "/keys", "userinfo_endpoint": p.issuer + "/me",
			"scopes_supported": []string{"openid", "groups"}}
		if p.config != nil {
			p.config(config)
		}
		answer = config
	case "/keys":
		p.keyReads++
		keys := []any{map[string]any{"kty": "oct", "kid": "1", "k": "c2VjcmV0"}, map[string]any{"kty": "RSA", "use": "enc"}}
		for kid, key := range p.keys {
			keys = append(keys, publicKey(kid, key.Public()))
		}
		answer = map[string]any{"keys": keys}
	case "/token":
		answer = p.token(w, r)
	case "/me":
		if r.Header.Get("Authorization") != "Bearer access" {
			w.WriteHeader(401)
		}
		answer = p.info
	default:
		w.WriteHeader(404)
	}
	json.NewEncoder(w).Encode(answer)
}

// publicKey returns a JSON Web Key.
func publicKey(kid string, public crypto.PublicKey) map[string]any {
	b64 := base64.RawURLEncoding.EncodeToString
	switch k := public.(type) {
	case *rsa.PublicKey:
		return map[string]any{"kty": "RSA", "kid": kid, "use": "sig", "n": b64(k.N.Bytes()),
			"e": b64(big.NewInt(int64(k.E)).Bytes())}
	case *ecdsa.PublicKey:
		point, err := k.Bytes()
		if err != nil {
			panic(err)
		}
		return map[string]any{"kty": "EC", "kid": kid, "crv": "P-256", "alg": "ES256", "x": b64(point[1:33]),
			"y": b64(point[33:])}
	}
	return map[string]any{"kty": "OKP", "kid": kid, "crv": "Ed25519", "x": b64(public.(ed25519.PublicKey))}
}

func (p *idp) token(w http.ResponseWriter, r *http.Request) map[string]any {
	refuse := func(code string) map[string]any {
		w.WriteHeader(400)
		return map[string]any{"error": code}
	}
	id, secret, _ := r.BasicAuth()
	if secret != url.QueryEscape(p.secret) || id != "farm" {
		return refuse("invalid_client")
	}
	code := r.PostFormValue("code")
	q, ok := p.codes[code]
	if !p.lax {
		delete(p.codes, code)
	}
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") ||
		r.PostFormValue("redirect_uri") != q.Get("redirect_uri") || r.PostFormValue("grant_type") != "authorization_code" {
		return refuse("invalid_grant")
	}
	claims := jwt.MapClaims{"iss": p.issuer, "aud": "farm", "iat": p.now().Unix(), "exp": p.now().Unix() + 300,
		"nonce": q.Get("nonce")}
	maps.Copy(claims, p.claims)
	if p.edit != nil {
		p.edit(claims)
	}
	token := jwt.NewWithClaims(p.method, claims)
	token.Header["kid"] = p.kid
	if p.sign != nil {
		return map[string]any{"id_token": p.sign(token), "token_type": "Bearer"}
	}
	signed, err := token.SignedString(p.keys[p.kid])
	if err != nil {
		p.t.Error(err)
	}
	return map[string]any{"id_token": signed, "access_token": "access", "token_type": "bearer"}
}

// authorize returns the parameters of the answer to a browser that a service has sent to the address.
func (p *idp) authorize(t *testing.T, address string) url.Values {
	t.Helper()
	u, err := url.Parse(address)
	testkit.Check(t, err)
	q := u.Query()
	if !strings.HasPrefix(address, p.issuer+"/authorize?") || q.Get("code_challenge_method") != "S256" ||
		q.Get("response_type") != "code" || q.Get("client_id") != "farm" || q.Get("tenant") != "7" {
		t.Fatalf("the address of the provider is %s", address)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	code := rand.Text()
	p.codes[code] = q
	return url.Values{"code": {code}, "state": {q.Get("state")}}
}

// set changes the provider.
func (p *idp) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// person sets who signs in at the provider.
func (p *idp) person(subject, email string, more jwt.MapClaims) {
	p.set(func() {
		p.claims = jwt.MapClaims{"sub": subject, "email": email, "email_verified": true, "name": "Ada Smith"}
		maps.Copy(p.claims, more)
		p.info = map[string]any{"sub": subject}
	})
}

// signOnWorld is a farm with a provider, and a clock that tests advance.
type signOnWorld struct {
	*idp
	api    *testkit.API
	tenant *testkit.Tenant
	admin  *testkit.Client
	ahead  atomic.Int64
}

func (w *signOnWorld) time() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// pass lets time pass. The admin gets a new access token.
func (w *signOnWorld) pass(d time.Duration) {
	w.ahead.Add(int64(d))
	a := w.admin.Actor
	token, err := w.api.Tokens.Access(auth.Principal{TenantID: a.Tenant, UserID: a.User, Role: a.Role})
	if err != nil {
		panic(err)
	}
	w.admin.Token = token
}

func newSignOn(t *testing.T, o testkit.Options) *signOnWorld {
	t.Helper()
	w := &signOnWorld{}
	o.Now = w.time
	if o.Networks == nil {
		o.Networks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	o.Pages = func(c *web.Config) { c.PublicURL = publicURL }
	w.api = newAPI(t, o)
	if o.DB == nil {
		w.api.Tenant(t) // the installation has more than one farm
	}
	w.tenant = w.api.Tenant(t)
	w.admin = w.tenant.User(t, "admin")
	w.idp = newIDP(t, w.time)
	w.put(t, nil).Want(200)
	return w
}

// put sets the provider of the farm.
func (w *signOnWorld) put(t *testing.T, more j) *testkit.Response {
	t.Helper()
	body := j{"issuer": w.issuer, "client_id": "farm", "client_secret": w.secret}
	maps.Copy(body, more)
	return w.admin.Do(t, "PUT", signOnAPI, body)
}

func (w *signOnWorld) path() string { return "/sign-on/" + w.tenant.ID }

// begin leads the browser to the provider, and returns the address there.
func (w *signOnWorld) begin(t *testing.T, b *browser) string {
	t.Helper()
	return b.get(t, w.path()+"?next=%2Fspools%3Fq%3Dx").want(t, 303).header.Get("Location")
}

// finish leads the browser back with the answer.
func (w *signOnWorld) finish(t *testing.T, b *browser, answer url.Values) *page {
	t.Helper()
	return b.get(t, w.path()+"/callback?"+answer.Encode())
}

// signOn signs on with a new browser.
func (w *signOnWorld) signOn(t *testing.T) *page {
	t.Helper()
	b := newBrowser(t, w.api.URL)
	return w.finish(t, b, w.authorize(t, w.begin(t, b)))
}

// in ends the test unless the page of the answer has signed the user in, and returns the browser.
func (p *page) in(t *testing.T, email string) *browser {
	t.Helper()
	p.to(t, "/spools?q=x")
	p.b.get(t, "/account").want(t, 200).shows(t, email)
	return p.b
}

// out ends the test unless the page refuses the sign-on with the status and the text.
func (p *page) out(t *testing.T, status int, text string) {
	t.Helper()
	p.want(t, status).shows(t, text)
	p.b.get(t, "/account").want(t, 303)
}

// A user of the farm signs on by the verified address the first time, and then by issuer and subject.
func TestSignOn(t *testing.T) {
	t.Parallel()
	w := newSignOn(t, testkit.Options{})
	user := w.tenant.User(t, "operator")
	w.person("ada-1", strings.ToUpper(user.Email), nil)
	b := newBrowser(t, w.api.URL)
	b.get(t, "/sign-in").want(t, 200).hides(t, "Sign in at your provider")
	start := b.get(t, w.path()+"?next=%2Fspools%3Fq%3Dx").want(t, 303)
	cookie := start.header.Get("Set-Cookie")
	if !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Lax") ||
		!strings.Contains(cookie, "Max-Age=600") {
		t.Errorf("the cookie is %s", cookie)
	}
	address := start.header.Get("Location")
	u, err := url.Parse(address)
	testkit.Check(t, err)
	testkit.Equal(t, u.Query().Get("redirect_uri"), publicURL+w.path()+"/callback", "the redirect URI")
	testkit.Equal(t, u.Query().Get("scope"), "openid email profile", "the scope")
	w.finish(t, b, w.authorize(t, address)).in(t, user.Email)
	w.admin.Get(t, "/api/v1/users/"+user.Actor.User).Want(200).Shows(map[string]string{"sign_on": "true"})

	// From then on, only the subject counts.
	w.person("ada-1", "another@elsewhere.example", jwt.MapClaims{"email_verified": false})
	b = w.signOn(t).in(t, user.Email)

	// A page of another site cannot begin a session: the person must press the button.
	elsewhere := newBrowser(t, w.api.URL)
	for _, from := range []string{"cross-site", "same-site"} {
		elsewhere.header.Set("Sec-Fetch-Site", from)
		p := elsewhere.get(t, w.path()+"?next=%2Forders").want(t, 200)
		if !strings.Contains(p.text, `href="`+publicURL+w.path()+`?next=%2Forders"`) || p.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %q %s", from, p.header.Get("Set-Cookie"), p.text)
		}
	}
	elsewhere.header.Set("Sec-Fetch-Site", "same-origin")
	elsewhere.get(t, w.path()).want(t, 303)

	// Signing out ends the session here, and the page has the way back.
	b.get(t, "/account").submit(t, "/sign-out").want(t, 303)
	b.get(t, "/account").want(t, 303)
	if p := b.get(t, "/sign-in?next=%2Forders").shows(t, "Sign in at your provider"); !strings.Contains(p.text,
		`href="`+publicURL+w.path()+`?next=%2Forders"`) {
		t.Errorf("the page has no link to the sign-on: %s", p.text)
	}

	// A session lasts a day, however much it is used.
	b = w.signOn(t).in(t, user.Email)
	w.pass(13 * time.Hour)
	b.get(t, "/account").want(t, 200)
	w.pass(10 * time.Hour)
	b.get(t, "/account").want(t, 200)
	w.pass(time.Hour + time.Minute)
	b.get(t, "/account").want(t, 303)

	log := w.admin.Get(t, "/api/v1/audit-log?actor_id="+user.Actor.User+"&action=sign_in").Want(200)
	log.Shows(map[string]string{"total": "3", "items.0.object_id": user.Actor.User})
	w.admin.Get(t, "/api/v1/audit-log?action=user.changed").
		Shows(map[string]string{"total": "1", "items.0.fields.0": "sign_on"})

	// Addresses of no farm and of a farm without a provider are alike.
	for _, path := range []string{w.api.Tenant(t).ID, "0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41"} {
		b.get(t, "/sign-on/"+path).want(t, 404).shows(t, "There is no sign-on at this address.")
	}
	b.get(t, "/sign-on/north-farm").want(t, 404)
}

// TestSignOnTokens sends ID tokens of which one thing is wrong.
func TestSignOnTokens(t *testing.T) {
	t.Parallel()
	w := newSignOn(t, testkit.Options{})
	user := w.tenant.User(t, "viewer")
	w.person("ada", user.Email, nil)
	at := func(d time.Duration) int64 { return w.time().Add(d).Unix() }
	try := func(edit func(jwt.MapClaims)) *page {
		t.Helper()
		w.set(func() { w.edit = edit })
		p := w.signOn(t)
		w.pass(16 * time.Minute) // wrong tokens count as failed logins
		return p
	}
	for name, x := range map[string]struct {
		text string
		edit func(jwt.MapClaims)
	}{
		"another issuer":     {"issuer", func(c jwt.MapClaims) { c["iss"] = "https://login.example" }},
		"a similar issuer":   {"issuer", func(c jwt.MapClaims) { c["iss"] = w.issuer + "/" }},
		"no issuer":          {"issuer", func(c jwt.MapClaims) { delete(c, "iss") }},
		"another audience":   {"audience", func(c jwt.MapClaims) { c["aud"] = "farm2" }},
		"no audience":        {"audience", func(c jwt.MapClaims) { delete(c, "aud") }},
		"an odd audience":    {"audience", func(c jwt.MapClaims) { c["aud"] = 7 }},
		"two audiences":      {"audience", func(c jwt.MapClaims) { c["aud"] = []string{"farm", "other"} }},
		"another party":      {"audience", func(c jwt.MapClaims) { c["aud"] = []string{"farm"}; c["azp"] = "other" }},
		"another nonce":      {"nonce", func(c jwt.MapClaims) { c["nonce"] = "x" }},
		"no nonce":           {"nonce", func(c jwt.MapClaims) { delete(c, "nonce") }},
		"expired":            {"expired", func(c jwt.MapClaims) { c["exp"] = at(-61 * time.Second) }},
		"no expiry":          {"expired", func(c jwt.MapClaims) { delete(c, "exp") }},
		"expiry as a text":   {"expired", func(c jwt.MapClaims) { c["exp"] = "2099" }},
		"from the future":    {"future", func(c jwt.MapClaims) { c["iat"] = at(90 * time.Second) }},
		"no time":            {"future", func(c jwt.MapClaims) { delete(c, "iat") }},
		"not valid yet":      {"future", func(c jwt.MapClaims) { c["nbf"] = at(90 * time.Second) }},
		"older than the try": {"older", func(c jwt.MapClaims) { c["iat"] = at(-2 * time.Minute) }},
		"no subject":         {"subject", func(c jwt.MapClaims) { delete(c, "sub") }},
		"an empty subject":   {"subject", func(c jwt.MapClaims) { c["sub"] = "" }},
		"a subject with NUL": {"subject", func(c jwt.MapClaims) { c["sub"] = "a\x00b" }},
		"a long subject":     {"subject", func(c jwt.MapClaims) { c["sub"] = strings.Repeat("a", 256) }},
	} {
		p := try(x.edit)
		if p.status != 400 || !strings.Contains(p.words(), x.text) {
			t.Errorf("%s: %d %s", name, p.status, p.words())
		}
		p.b.get(t, "/account").want(t, 303)
	}
	// The clocks of the provider and the service may differ by a minute.
	for _, edit := range []func(jwt.MapClaims){nil,
		func(c jwt.MapClaims) { c["exp"] = at(-50 * time.Second) },
		func(c jwt.MapClaims) { c["iat"] = at(50 * time.Second) },
		func(c jwt.MapClaims) { c["iat"] = at(-50 * time.Second) },
		func(c jwt.MapClaims) { c["aud"] = []string{"other", "farm"}; c["azp"] = "farm" },
	} {
		try(edit).in(t, user.Email)
	}
}

// TestSignOnSignatures sends ID tokens with wrong signatures, and rotates the keys.
func TestSignOnSignatures(t *testing.T) {
	t.Parallel()
	w := newSignOn(t, testkit.Options{})
	user := w.tenant.User(t, "viewer")
	w.person("ada", user.Email, nil)
	signed := func(token *jwt.Token, key any) string {
		text, err := token.SignedString(key)
		testkit.Check(t, err)
		return text
	}
	public := rsaKeys()[0].PublicKey
	der, err := x509.MarshalPKIXPublicKey(&public)
	testkit.Check(t, err)
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	with := func(token *jwt.Token, method jwt.SigningMethod) *jwt.Token {
		token.Method, token.Header["alg"] = method, method.Alg()
		return token
	}
	valid := func(token *jwt.Token) string { return signed(token, rsaKeys()[0]) }
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Check(t, err)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	testkit.Check(t, err)
	for name, sign := range map[string]func(*jwt.Token) string{
		"none": func(token *jwt.Token) string {
			return signed(with(token, jwt.SigningMethodNone), jwt.UnsafeAllowNoneSignatureType)
		},
		"HS256 with the public key": func(token *jwt.Token) string { return signed(with(token, jwt.SigningMethodHS256), text) },
		"HS256 with its modulus": func(token *jwt.Token) string {
			return signed(with(token, jwt.SigningMethodHS256), public.N.Bytes())
		},
		"HS256 with the secret of the client": func(token *jwt.Token) string {
			return signed(with(token, jwt.SigningMethodHS256), []byte(w.secret))
		},
		"RS384":                 func(token *jwt.Token) string { return signed(with(token, jwt.SigningMethodRS384), rsaKeys()[0]) },
		"PS256":                 func(token *jwt.Token) string { return signed(with(token, jwt.SigningMethodPS256), rsaKeys()[0]) },
		"another key":           func(token *jwt.Token) string { return signed(token, rsaKeys()[1]) },
		"a key of another kind": func(token *jwt.Token) string { return signed(with(token, jwt.SigningMethodES256), curve) },
		"no signature":          func(token *jwt.Token) string { s := valid(token); return s[:strings.LastIndex(s, ".")+1] },
		"a changed content": func(token *jwt.Token) string {
			s := strings.Split(valid(token), ".")
			return s[0] + "." + s[1][1:] + "." + s[2]
		},
		"a line break":         func(token *jwt.Token) string { return valid(token) + "\n" },
		"two tokens":           func(token *jwt.Token) string { return valid(token) + "." + valid(token) },
		"an unknown extension": func(token *jwt.Token) string { token.Header["crit"] = []string{"b64"}; return valid(token) },
		"an own key in the header": func(token *jwt.Token) string {
			token.Header["jwk"] = publicKey("1", rsaKeys()[1].Public())
			return signed(token, rsaKeys()[1])
		},
		"a huge one": func(token *jwt.Token) string { token.Header["x"] = strings.Repeat("x", 30_000); return valid(token) },
		"null":       func(*jwt.Token) string { return "null" },
	} {
		w.set(func() { w.sign = sign })
		p := w.signOn(t)
		if p.status != 400 || !strings.Contains(p.words(), "its signature") && !strings.Contains(p.words(), "its form") {
			t.Errorf("%s: %d %s", name, p.status, p.words())
		}
		p.b.get(t, "/account").want(t, 303)
		w.pass(16 * time.Minute)
	}
	w.set(func() { w.sign = nil })
	w.signOn(t).in(t, user.Email)

	// New keys, of all three kinds, count at once; a token that names an unknown key makes the service read the keys at
	// most every 10 seconds.
	for kid, key := range map[string]struct {
		key    crypto.Signer
		method jwt.SigningMethod
	}{"2": {rsaKeys()[1], jwt.SigningMethodRS256}, "3": {curve, jwt.SigningMethodES256},
		"4": {edwards, jwt.SigningMethodEdDSA}} {
		w.pass(16 * time.Minute)
		w.set(func() { w.keys, w.kid, w.method = map[string]crypto.Signer{kid: key.key}, kid, key.method })
		w.signOn(t).in(t, user.Email)
		w.set(func() {
			w.sign = func(token *jwt.Token) string { delete(token.Header, "kid"); return signed(token, key.key) }
		})
		w.signOn(t).in(t, user.Email)
		w.set(func() { w.sign = nil })
	}
	reads := w.keyReads
	w.pass(11 * time.Second)
	w.set(func() {
		w.sign = func(token *jwt.Token) string { token.Header["kid"] = "99"; return signed(token, w.keys[w.kid]) }
	})
	for range 3 {
		w.signOn(t).out(t, 400, "its signature")
	}
	testkit.Equal(t, w.keyReads-reads, 1, "reads of the keys because of unknown ones")
	// A key that was removed is refused after an hour.
	w.set(func() {
		w.sign, w.keys["4"], w.keys["2"] = nil, edwards, rsaKeys()[1]
		w.kid, w.method = "2", jwt.SigningMethodRS256
	})
	w.pass(time.Hour)
	w.signOn(t).in(t, user.Email)
	w.set(func() {
		delete(w.keys, "2")
		w.sign = func(token *jwt.Token) string { return signed(token, rsaKeys()[1]) }
	})
	w.pass(time.Hour)
	w.signOn(t).out(t, 400, "its signature")
}

// An answer of the provider counts once, in the browser that has begun, for the provider to which it was sent.
func TestSignOnAnswers(t *testing.T) {
	t.Parallel()
	w := newSignOn(t, testkit.Options{})
	user := w.tenant.User(t, "viewer")
	w.person("ada", user.Email, nil)
	b := newBrowser(t, w.api.URL)
	answer := w.authorize(t, w.begin(t, b))
	jar := b.client.Jar
	kept := jar.Cookies(b.url(t, ""))
	again := func() *browser {
		b := newBrowser(t, w.api.URL)
		b.client.Jar.SetCookies(b.url(t, ""), kept)
		return b
	}
	newBrowser(t, w.api.URL).get(t, w.path()+"/callback?"+answer.Encode()).out(t, 400, "begun in another browser")
	w.finish(t, again(), url.Values{"code": answer["code"], "state": {"x"}}).out(t, 400, "Sign in again")
	w.finish(t, again(), url.Values{"code": answer["code"]}).out(t, 400, "Sign in again")
	w.finish(t, again(), url.Values{"state": answer["state"], "error": {"access_denied<script>"}}).
		out(t, 400, "it did not sign you in")
	w.finish(t, again(), answer).in(t, user.Email)
	w.finish(t, again(), answer).out(t, 400, "refuses the code")
	// Not even if the provider accepts the code again.
	w.set(func() { w.lax = true; w.codes["x"] = w.codes[""] })
	b = newBrowser(t, w.api.URL)
	answer = w.authorize(t, w.begin(t, b))
	kept = b.client.Jar.Cookies(b.url(t, ""))
	w.finish(t, b, answer).in(t, user.Email)
	w.finish(t, b, answer).want(t, 400)
	w.finish(t, again(), answer).out(t, 400, "was done already")
	b = newBrowser(t, w.api.URL)
	answer = w.authorize(t, w.begin(t, b))
	kept = b.client.Jar.Cookies(b.url(t, ""))
	var in atomic.Int32
	testkit.Concurrently(8, func(int) {
		if w.finish(t, again(), answer).status == 303 {
			in.Add(1)
		}
	})
	testkit.Equal(t, in.Load(), 1, "sign-ins of one answer")
	w.set(func() { w.lax = false })

	// A code of one attempt does not work in another one (PKCE), nor an answer after ten minutes.
	w.pass(16 * time.Minute)
	first, second := newBrowser(t, w.api.URL), newBrowser(t, w.api.URL)
	stolen, own := w.authorize(t, w.begin(t, first)), w.authorize(t, w.begin(t, second))
	w.finish(t, second, url.Values{"code": stolen["code"], "state": own["state"]}).out(t, 400, "refuses the code")
	late := w.authorize(t, w.begin(t, first))
	w.pass(10*time.Minute + time.Second)
	w.finish(t, first, late).out(t, 400, "this took too long")

	// Mixed-up answers: of another provider, or another farm.
	w.pass(16 * time.Minute)
	answer = w.authorize(t, w.begin(t, first))
	answer.Set("iss", "https://attacker.example")
	w.finish(t, first, answer).out(t, 400, "another issuer")
	answer = w.authorize(t, w.begin(t, first))
	answer.Set("iss", w.issuer)
	w.finish(t, first, answer).in(t, user.Email)
	w.set(func() {
		w.config = func(c map[string]any) { c["authorization_response_iss_parameter_supported"] = true }
	})
	w.pass(time.Hour)
	first = newBrowser(t, w.api.URL)
	w.finish(t, first, w.authorize(t, w.begin(t, first))).out(t, 400, "another issuer")
	w.set(func() { w.config = nil })
	w.pass(time.Hour)
	other := w.api.Tenant(t)
	other.User(t, "admin").Do(t, "PUT", signOnAPI, j{"issuer": w.issuer, "client_id": "farm",
		"client_secret": w.secret}).Want(200)
	answer = w.authorize(t, w.begin(t, first))
	first.get(t, "/sign-on/"+other.ID+"/callback?"+answer.Encode()).out(t, 400, "Sign in again")

	// The admin has changed the provider in the meantime.
	second = newBrowser(t, w.api.URL)
	answer = w.authorize(t, w.begin(t, second))
	w.put(t, j{"issuer": "https://login.farm.example"}).Want(200)
	w.finish(t, second, answer).out(t, 400, "Sign in again")
}

// Who may sign on: a provider signs in users of its farm only.
func TestSignOnUsers(t *testing.T) {
	t.Parallel()
	w := newSignOn(t, testkit.Options{})
	user, other := w.tenant.User(t, "operator"), w.tenant.User(t, "viewer")
	stranger := w.api.Tenant(t).User(t, "admin")
	try := func(subject, email string, more jwt.MapClaims) *page {
		t.Helper()
		w.person(subject, email, more)
		return w.signOn(t)
	}
	const no = "you have no access to this farm"
	try("ada", user.Email, jwt.MapClaims{"email_verified": false}).out(t, 403, "has not verified your e-mail")
	try("ada", user.Email, jwt.MapClaims{"email_verified": nil}).out(t, 403, "has not verified your e-mail")
	try("ada", user.Email, jwt.MapClaims{"email_verified": "false"}).out(t, 403, "has not verified your e-mail")
	for _, email := range []string{"", "a\x00@farm.example", "a\nb@farm.example", strings.Repeat("a", 320) + "@x"} {
		try("ada", email, nil).out(t, 403, "has not verified your e-mail")
	}
	try("eve", stranger.Email, nil).out(t, 403, no)
	try("eve", "nobody@farm.example", nil).out(t, 403, no)
	try("ada", user.Email, nil).in(t, user.Email)
	try("eve", user.Email, nil).out(t, 403, no) // another account with the same address
	try("Ada", user.Email, nil).out(t, 403, no)
	try("ada", other.Email, nil).in(t, user.Email)
	try("bob", other.Email, jwt.MapClaims{"email_verified": "true"}).in(t, other.Email)
	testkit.Eventually(t, "both failures are in the audit log", func() bool { // they are written after the response
		return w.admin.Get(t, "/api/v1/audit-log?action=sign_in.failed").Want(200).Text("total") == "2"
	})

	// Disabled users cannot sign on; an account can be forgotten.
	at := "/api/v1/users/" + user.Actor.User
	session := try("ada", "", nil).in(t, user.Email)
	w.admin.Patch(t, at, j{"disabled": true}).Want(200)
	session.get(t, "/account").want(t, 303)
	try("ada", user.Email, nil).out(t, 403, no)
	w.admin.Patch(t, at, j{"disabled": false}).Want(200)
	session = try("ada", "", nil).in(t, user.Email)
	stranger.Delete(t, at+"/sign-on").WantError(404, "NOT_FOUND")
	people := signIn(t, w.admin)
	people.get(t, "/settings/users").submit(t, "/settings/users/"+user.Actor.User+"/forget-sign-on").
		to(t, "/settings/users").shows(t, "The account is forgotten.")
	session.get(t, "/account").want(t, 303)
	w.admin.Get(t, at).Shows(map[string]string{"sign_on": "false", "invited": "false"})
	try("eve", user.Email, nil).in(t, user.Email)
	try("ada", user.Email, nil).out(t, 403, no)

	// Another issuer is another provider: its accounts are bound by the address again.
	next := newIDP(t, w.time)
	first := w.idp
	session = try("eve", "", nil).in(t, user.Email)
	w.idp = next
	w.put(t, nil).Want(200)
	session.get(t, "/account").want(t, 303)
	try("ada", user.Email, nil).in(t, user.Email)
	try("eve", user.Email, nil).out(t, 403, no)
	w.idp = first

	// A provider may describe the person only at the endpoint of user information.
	w.put(t, nil).Want(200)
	w.set(func() {
		w.claims = jwt.MapClaims{"sub": "carl"}
		w.info = map[string]any{"sub": "carl", "email": user.Email, "email_verified": true, "amr": "mfa"}
	})
	w.signOn(t).in(t, user.Email)
	w.admin.Delete(t, at+"/sign-on").Want(204)
	w.set(func() { w.info["sub"] = "dora" })
	w.signOn(t).out(t, 400, "of another person")
}

// Persons of the domain become users, with a role by the claim.
func TestSignOnCreatesUsers(t *testing.T) {
	t.Parallel()
	w := newSignOn(t, testkit.Options{})
	stranger := w.api.Tenant(t).User(t, "admin") // its address has the domain test.example
	domain := strings.ToLower(rand.Text()) + ".example"
	const no = "you have no access to this farm"
	try := func(subject, email string, groups any, more jwt.MapClaims) *page {
		t.Helper()
		claims := jwt.MapClaims{"groups": groups}
		maps.Copy(claims, more)
		w.person(subject, email, claims)
		return w.signOn(t)
	}
	role := func(email, want string) {
		t.Helper()
		w.admin.Get(t, "/api/v1/users?email="+url.QueryEscape(email)).Want(200).
			Shows(map[string]string{"total": "1", "items.0.role": want, "items.0.invited": "false", "items.0.sign_on": "true"})
	}
	with := func(more j) {
		t.Helper()
		body := j{"email_domain": domain, "role_claim": "groups", "admin_value": "bosses", "operator_value": "printing"}
		maps.Copy(body, more)
		w.put(t, body).Want(200)
	}
	with(nil)
	b := newBrowser(t, w.api.URL)
	testkit.Contains(t, w.begin(t, b), "scope=openid+email+profile+groups&", "the scope is not asked for")
	try("1", "ada@"+domain, []string{"staff", "printing", "bosses"}, nil).in(t, "ada@"+domain)
	role("ada@"+domain, "admin")
	try("1", "ada@"+domain, "nothing", nil).in(t, "ada@"+domain)
	role("ada@"+domain, "admin")
	try("2", "bob@"+strings.ToUpper(domain), "printing", jwt.MapClaims{"name": "Bob\nBcc: x\u202e"}).want(t, 303)
	role("bob@"+domain, "operator")
	for _, groups := range []any{nil, "", []any{}, "Printing", "printing2", []any{1, true}, j{"printing": 1}} {
		try("3", "carl@"+domain, groups, nil).out(t, 403, no)
	}
	try("3", "carl@"+domain, "printing", jwt.MapClaims{"email_verified": false}).out(t, 403, "has not verified")
	try("3", "carl@sub."+domain, "printing", nil).out(t, 403, no)
	try("3", "carl@evil"+domain, "printing", nil).out(t, 403, no)
	try("3", "carl@"+domain+"@evil.example", "printing", nil).out(t, 403, no)
	try("3", domain, "printing", nil).out(t, 403, no)
	w.admin.Get(t, "/api/v1/users?email=carl").Shows(map[string]string{"total": "0"})
	with(j{"role_claim": nil})
	try("4", "dora@"+domain, "bosses", jwt.MapClaims{"name": ""}).in(t, "dora@"+domain)
	role("dora@"+domain, "viewer")

	// A provider may send the claim only at the endpoint of user information.
	with(nil)
	w.person("8", "greta@"+domain, nil)
	w.set(func() { w.info["groups"] = "printing" })
	w.signOn(t).in(t, "greta@"+domain)
	role("greta@"+domain, "operator")
	w.person("9", "hugo@"+domain, jwt.MapClaims{"email_verified": nil})
	w.set(func() { w.info["groups"], w.info["email_verified"] = "printing", true })
	w.signOn(t).out(t, 403, "has not verified") // not the address of the ID token
	with(j{"email_domain": nil})
	try("5", "emil@"+domain, "printing", nil).out(t, 403, no)

	// A user of another farm stays there, also if the farm names the domain.
	with(j{"email_domain": "test.example"})
	try("6", stranger.Email, "bosses", nil).out(t, 403, no)
	stranger.Get(t, "/api/v1/auth/me").Want(200)

	// At the limit, nobody becomes a user.
	with(nil)
	w.admin.Hold(t, `insert into users (id, email, name, role, password_hash)
		select gen_random_uuid(), n || '@x', 'x', 'viewer', '' from generate_series(1, 200) n`).Commit()
	try("7", "fred@"+domain, "printing", nil).out(t, 403, no)
}

// Where the sign-on is required, a password opens nothing.
func TestSignOnRequired(t *testing.T) {
	t.Parallel()
	w := newSignOn(t, testkit.Options{})
	user := w.tenant.User(t, "operator")
	login := func(c *testkit.Client) *testkit.Response {
		return w.api.Anonymous().Post(t, "/api/v1/auth/login", j{"email": c.Email, "password": testkit.Password})
	}
	w.put(t, j{"required": true}).WantError(409, "SIGN_ON_NOT_TRIED").
		Shows(map[string]string{"errors.0.field": "required"})
	w.person("admin", w.admin.Email, nil)
	admin := w.signOn(t).in(t, w.admin.Email)
	refresh := login(user).Want(200).Text("refresh_token")
	theirs, own := signIn(t, user), signIn(t, w.admin)
	w.person("user", user.Email, nil)
	signedOn := w.signOn(t).in(t, user.Email)
	admin.get(t, signOnPath).submit(t, signOnPath, "required", "true").to(t, signOnPath).shows(t, "The sign-on is saved.")

	theirs.get(t, "/account").want(t, 303)
	own.get(t, "/account").want(t, 303)
	admin.get(t, "/account").want(t, 200)
	signedOn.get(t, "/account").want(t, 200)
	w.api.Anonymous().Post(t, "/api/v1/auth/refresh", j{"refresh_token": refresh}).WantError(401, "INVALID_TOKEN")
	login(user).WantError(401, "SIGN_ON_REQUIRED")
	login(w.admin).WantError(401, "SIGN_ON_REQUIRED")
	w.api.Anonymous().Post(t, "/api/v1/auth/login", j{"email": user.Email, "password": "wrong"}).
		WantError(401, "INVALID_CREDENTIALS")
	newBrowser(t, w.api.URL).get(t, "/sign-in").
		submit(t, "/sign-in", "email", user.Email, "password", testkit.Password).
		out(t, 401, "Your farm signs in only at its provider.")
	w.signOn(t).in(t, user.Email)
	w.tenant.Key(t, "operator").Get(t, "/api/v1/spools").Want(200)
	login(w.api.Operator(t)).Want(200) // of another farm

	// A password link sets a password, which opens nothing either.
	link := w.admin.Post(t, "/api/v1/users/"+user.Actor.User+"/password-link", nil).Want(200).Text("token")
	w.api.Anonymous().Post(t, "/api/v1/auth/password-link", j{"token": link, "new_password": testkit.Password}).Want(204)
	login(user).WantError(401, "SIGN_ON_REQUIRED")

	// The command line opens the way back.
	all := accounts.Accounts{DB: w.api.DB}
	tenant, changed, err := all.AllowPasswords(t.Context(), "tenant "+w.tenant.ID)
	testkit.Check(t, err)
	testkit.Equal(t, changed && tenant.ID == w.tenant.ID, true, "the command changes the tenant")
	_, changed, err = all.AllowPasswords(t.Context(), "tenant "+w.tenant.ID)
	testkit.Check(t, err)
	testkit.Equal(t, changed, false, "it changes it again")
	login(user).Want(200)
	w.admin.Get(t, signOnAPI).Shows(map[string]string{"required": "false"})
}

// A login that has begun before the farm requires the sign-on starts no session afterwards.
func TestSignOnRequiredMeanwhile(t *testing.T) {
	t.Parallel()
	w := newSignOn(t, testkit.Options{})
	user := w.tenant.User(t, "operator")
	held := w.admin.Hold(t, `update sign_on_providers set required = true where tenant_id = '`+w.tenant.ID+`'`)
	var a *testkit.Response
	done := held.StartWaiting(1, func() {
		a, _ = w.api.Anonymous().Send("POST", "/api/v1/auth/login", j{"email": user.Email, "password": testkit.Password})
	})
	held.Commit()
	<-done
	testkit.Equal(t, a.Status, 401, "the status of the login")
}

// A sign-on starts no session if the farm has another issuer in the meantime.
func TestSignOnIssuerMeanwhile(t *testing.T) {
	t.Parallel()
	w := newSignOn(t, testkit.Options{})
	user := w.tenant.User(t, "operator")
	w.person("ada", user.Email, nil)
	w.signOn(t).in(t, user.Email)
	b := newBrowser(t, w.api.URL)
	answer := w.authorize(t, w.begin(t, b))
	held := w.admin.Hold(t, `update sign_on_providers set issuer = 'https://login.farm.example'
		where tenant_id = '`+w.tenant.ID+`'`)
	var p *page
	done := held.StartWaiting(1, func() { p = w.finish(t, b, answer) })
	held.Commit()
	<-done
	p.out(t, 403, "you have no access to this farm")
}

// Of admins who set the first provider at the same time, the last one's secret is there.
func TestSignOnFirstProvider(t *testing.T) {
	t.Parallel()
	w := newSignOn(t, testkit.Options{})
	for range 5 {
		w.admin.Delete(t, signOnAPI).Want(204)
		testkit.Concurrently(8, func(int) {
			w.admin.Send("PUT", signOnAPI, j{"issuer": w.issuer, "client_id": "farm", "client_secret": w.secret})
		})
		newBrowser(t, w.api.URL).get(t, w.path()).want(t, 303)
	}
}

// The last admin who can sign in stays so: accounts at another issuer than the farm's do not count.
func TestSignOnLastAdmin(t *testing.T) {
	t.Parallel()
	w := newSignOn(t, testkit.Options{})
	colleague := w.tenant.User(t, "admin")
	for _, c := range []*testkit.Client{w.admin, colleague} {
		w.person(c.Actor.User, c.Email, nil)
		w.signOn(t).in(t, c.Email)
	}
	at := "/api/v1/users/" + w.admin.Actor.User
	w.admin.Hold(t, `update users set password_hash = '' where tenant_id = '`+w.tenant.ID+`'`).Commit()
	w.admin.Delete(t, signOnAPI).WantError(409, "LAST_ADMIN")
	w.put(t, j{"issuer": "https://login.farm.example"}).WantError(409, "LAST_ADMIN").
		Shows(map[string]string{"errors.0.field": "issuer"})
	w.put(t, j{"client_id": "farm2"}).Want(200)
	w.admin.Delete(t, "/api/v1/users/"+colleague.Actor.User+"/sign-on").Want(204)
	w.admin.Delete(t, at+"/sign-on").WantError(409, "LAST_ADMIN")
	w.admin.Patch(t, at, j{"disabled": true}).WantError(409, "LAST_ADMIN")

	// An account at an earlier issuer opens nothing.
	w.admin.Hold(t, `update users set sign_on_issuer = 'https://earlier.example', sign_on_subject = 'x'
		where id = '`+colleague.Actor.User+`'`).Commit()
	w.admin.Patch(t, at, j{"disabled": true}).WantError(409, "LAST_ADMIN")
	w.admin.Patch(t, at, j{"role": "viewer"}).WantError(409, "LAST_ADMIN")
	w.admin.Delete(t, at).WantError(409, "LAST_ADMIN")
	w.admin.Patch(t, "/api/v1/users/"+colleague.Actor.User, j{"password": testkit.Password + "2"}).Want(200)
	w.admin.Delete(t, at+"/sign-on").Want(204)
	w.admin.Delete(t, signOnAPI).Want(204)
}

// The provider can confirm a second factor; otherwise the rules of the farm and of the user hold.
func TestSignOnFactor(t *testing.T) {
	t.Parallel()
	w := newSignOn(t, testkit.Options{})
	user := w.tenant.User(t, "operator")
	w.put(t, j{"factors": []string{"mfa", "gold"}}).Want(200)
	w.person("admin", w.admin.Email, jwt.MapClaims{"acr": "gold"})
	admin := w.signOn(t).in(t, w.admin.Email)

	// An admin whose provider has confirmed one can require it.
	admin.get(t, "/settings").submit(t, "/settings", "second_factor", "all").to(t, "/settings")
	admin.get(t, "/spools").want(t, 200)
	admin.get(t, "/account").want(t, 200).hides(t, "The farm requires a second factor")
	w.admin.Get(t, "/api/v1/users").WantError(403, "OTP_SETUP_REQUIRED") // with the password alone
	for amr, met := range map[string]bool{"mfa": true, "pwd": false, "MFA": false} {
		w.person("user", user.Email, jwt.MapClaims{"amr": []string{amr, "x"}})
		p := w.signOn(t).want(t, 303)
		if met {
			p.in(t, user.Email)
		} else {
			p.b.get(t, "/spools").to(t, factorPath)
		}
	}

	// A user with a second factor enters a code, unless the provider has confirmed one.
	w.person("user", user.Email, nil)
	b := w.signOn(t).want(t, 303).b
	p := b.get(t, factorPath).submit(t, factorPath, "current_password", testkit.Password).want(t, 200)
	secret := secretText.FindStringSubmatch(p.text)[1]
	p.submit(t, factorPath+"/confirm", "otp", testkit.TOTP(secret, w.time())).want(t, 200)
	w.pass(2 * time.Minute)
	step := w.signOn(t).want(t, 200).shows(t, "Enter your code")
	step.b.get(t, "/account").want(t, 303)
	step.submit(t, "/sign-in/code", "otp", "000000").want(t, 401)
	token := step.form(t, "/sign-in/code").Get("token")
	step.submit(t, "/sign-in/code", "otp", testkit.TOTP(secret, w.time())).to(t, "/spools?q=x")
	w.person("user", user.Email, jwt.MapClaims{"amr": "mfa"})
	w.signOn(t).in(t, user.Email)

	// The step for the code does not outlive the account.
	w.pass(2 * time.Minute)
	w.person("admin", w.admin.Email, jwt.MapClaims{"acr": "gold"})
	admin = w.signOn(t).in(t, w.admin.Email)
	admin.get(t, "/settings/users").submit(t, "/settings/users/"+user.Actor.User+"/forget-sign-on").want(t, 303)
	step.submit(t, "/sign-in/code", "otp", testkit.TOTP(secret, w.time()), "token", token).want(t, 401)
	step.b.get(t, "/sign-out")
}

// A provider that answers slowly, much, wrongly or from the network of the service harms nothing.
func TestSignOnFaults(t *testing.T) {
	t.Parallel()
	w := newSignOn(t, testkit.Options{})
	user := w.tenant.User(t, "viewer")
	w.person("ada", user.Email, nil)
	try := func(wrap func(http.Handler) http.Handler) *page {
		t.Helper()
		w.set(func() { w.wrap = wrap })
		w.pass(time.Hour)
		b := newBrowser(t, w.api.URL)
		p := b.get(t, w.path()+"?next=%2Fspools%3Fq%3Dx")
		if p.status != 303 {
			return p
		}
		return w.finish(t, b, w.authorize(t, p.header.Get("Location")))
	}
	at := func(path string, f http.HandlerFunc) func(http.Handler) http.Handler {
		return func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, path) {
					f(w, r)
					return
				}
				h.ServeHTTP(w, r)
			})
		}
	}
	try(nil).in(t, user.Email)
	huge := bytes.Repeat([]byte(" "), 300<<10)
	elsewhere := newIDP(t, w.time)
	for _, path := range []string{"/.well-known/", "/keys", "/token"} {
		for name, f := range map[string]http.HandlerFunc{
			"huge":     func(w http.ResponseWriter, _ *http.Request) { w.Write(huge); w.Write([]byte("{}")) },
			"empty":    func(http.ResponseWriter, *http.Request) {},
			"no JSON":  func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) },
			"null":     func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("null")) },
			"a list":   func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("[]")) },
			"an error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
			"moved": func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, elsewhere.issuer+r.URL.Path, http.StatusTemporaryRedirect)
			},
			"closed": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		} {
			p := try(at(path, f))
			if p.status != 400 || !strings.Contains(p.words(), "The sign-in at the provider failed") {
				t.Errorf("%s %s: %d %s", path, name, p.status, p.words())
			}
			p.b.get(t, "/account").want(t, 303)
		}
	}
	testkit.Equal(t, elsewhere.keyReads, 0, "redirects are followed")
	for _, path := range []string{"/.well-known/", "/keys", "/token"} { // the right answer, after many blanks
		try(func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, path) {
					w.Write(huge)
				}
				h.ServeHTTP(w, r)
			})
		}).out(t, 400, "a response is too large")
	}
	for name, config := range map[string]func(map[string]any){
		"another issuer": func(c map[string]any) { c["issuer"] = "https://login.example" },
		"no keys":        func(c map[string]any) { delete(c, "jwks_uri") },
		"a script":       func(c map[string]any) { c["authorization_endpoint"] = "javascript:alert(1)" },
		"a file":         func(c map[string]any) { c["jwks_uri"] = "file:///etc/passwd" },
		"many keys":      func(c map[string]any) { c["jwks_uri"] = w.issuer + "/many" },
	} {
		w.set(func() { w.config = config })
		p := try(at("/many", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"keys":[%s{}]}`, strings.Repeat("{},", 200))
		}))
		if p.status != 400 || !strings.Contains(p.words(), "The sign-in at the provider failed") {
			t.Errorf("%s: %d %s", name, p.status, p.words())
		}
	}
	w.set(func() { w.config = nil })
	try(nil).in(t, user.Email)
	w.put(t, j{"client_secret": "wrong"}).Want(200)
	try(nil).out(t, 400, "refuses the client or its secret")
}

// A provider may not be in the network of the service, and one that dribbles is given up after ten seconds.
func TestSignOnNetworks(t *testing.T) {
	t.Parallel()
	w := newSignOn(t, testkit.Options{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
	b := newBrowser(t, w.api.URL)
	b.get(t, w.path()).want(t, 400).shows(t, "no connection")
	slow := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("was reached") }))
	t.Cleanup(slow.Close)
	w.put(t, j{"issuer": slow.URL}).Want(200)
	b.get(t, w.path()).want(t, 400).shows(t, "no connection")
	testkit.Equal(t, w.keyReads, 0, "reads of the keys")

	w = newSignOn(t, testkit.Options{})
	w.set(func() {
		w.wrap = func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for range 600 {
					fmt.Fprint(w, " ")
					w.(http.Flusher).Flush()
					select {
					case <-r.Context().Done():
						return
					case <-time.After(100 * time.Millisecond):
					}
				}
			})
		}
	})
	newBrowser(t, w.api.URL).get(t, w.path()).want(t, 400).shows(t, "no response in time") // not after the minute
}

// Only admins manage the provider, on the page and by the API. Its secret does not come out.
func TestSignOnSettings(t *testing.T) {
	t.Parallel()
	w := newSignOn(t, testkit.Options{})
	other := w.api.Tenant(t).User(t, "admin")
	other.Get(t, signOnAPI).WantError(404, "NOT_FOUND")
	other.Delete(t, signOnAPI).WantError(404, "NOT_FOUND")
	for _, role := range []string{"viewer", "operator"} {
		w.tenant.User(t, role).Get(t, signOnAPI).WantError(403, "FORBIDDEN")
	}
	w.tenant.Key(t, "operator").Get(t, signOnAPI).WantError(403, "FORBIDDEN")
	secret := func() (text string, sealed []byte) {
		t.Helper()
		read := db.SQL(`select coalesce(secret, '') from sign_on_providers`).Into(&sealed)
		testkit.Check(t, w.api.DB.Read(db.As(t.Context(), db.Actor{Tenant: w.tenant.ID}), read))
		a := w.admin.Get(t, signOnAPI).Want(200)
		if strings.Contains(string(a.Body), w.secret) || bytes.Contains(sealed, []byte(w.secret)) {
			t.Errorf("the secret is in %s or in the database", a.Body)
		}
		return fmt.Sprint(a.Value("has_client_secret")), sealed
	}
	has, first := secret()
	testkit.Equal(t, has, "true", "the secret")
	body := j{"issuer": w.issuer, "client_id": "farm"}
	w.admin.Do(t, "PUT", signOnAPI, body).Want(200)
	if _, same := secret(); !bytes.Equal(first, same) {
		t.Error("a PUT without the secret replaces it")
	}
	for _, more := range []j{{"client_id": "farm2"}, {"issuer": "https://login.farm.example"}, {"client_secret": nil}} {
		w.put(t, nil).Want(200)
		changed := maps.Clone(body)
		maps.Copy(changed, more)
		w.admin.Do(t, "PUT", signOnAPI, changed).Want(200)
		if has, _ := secret(); has != "false" {
			t.Errorf("%v keeps the secret", more)
		}
	}
	w.put(t, j{"client_secret": strings.Repeat("\U0001f511", 1000)}).Want(200)
	for field, values := range map[string][]any{
		"issuer": {"login.farm.example", "ftp://login.farm.example", "https://login.farm.example/?x=1",
			"https://login.farm.example/#", "https://u:p@login.farm.example", "https://", "", "https://a b"},
		"email_domain": {"ada@farm.example", "farm", "https://farm.example"},
		"factors":      {"mfa", []any{1}},
	} {
		for _, value := range values {
			w.put(t, j{field: value}).Fields(field)
		}
	}

	b := signIn(t, w.admin)
	p := b.get(t, signOnPath).want(t, 200)
	p.submit(t, signOnPath, "issuer", "x").want(t, 422).shows(t, "Must be the URL of an issuer")
	p = p.submit(t, signOnPath, "issuer", w.issuer, "client_secret", w.secret, "factors", "mfa, gold", "email_domain",
		"farm.example").to(t, signOnPath).shows(t, "The sign-on is saved.")
	if strings.Contains(p.text, w.secret) || !strings.Contains(p.text, publicURL+w.path()+"/callback") {
		t.Errorf("the page has the secret, or no redirect URI: %s", p.words())
	}
	testkit.Equal(t, p.form(t, signOnPath).Get("factors"), "mfa, gold", "the factors")
	w.admin.Get(t, signOnAPI).Shows(map[string]string{"factors.1": "gold", "email_domain": "farm.example",
		"has_client_secret": "true", "sign_on_url": publicURL + w.path()})
	p.submit(t, signOnPath, "factors", "").to(t, signOnPath)
	w.admin.Get(t, signOnAPI).Shows(map[string]string{"has_client_secret": "true"}).WantLen(t, "factors", 0)
	w.admin.Get(t, "/api/v1/audit-log?action=sign_on.rotated,sign_on.changed,sign_on.created").Want(200).
		Shows(map[string]string{"items.0.fields.0": "factors", "items.0.object_name": w.issuer})

	// After the removal, nobody signs on, and sessions of those who did end.
	w.person("ada", w.admin.Email, nil)
	session := w.signOn(t).in(t, w.admin.Email)
	b.get(t, signOnPath).submit(t, signOnPath+"/remove").to(t, signOnPath).shows(t, "The sign-on is removed.")
	session.get(t, "/account").want(t, 303)
	w.admin.Get(t, signOnAPI).WantError(404, "NOT_FOUND")
	testkit.Contains(t, session.get(t, w.path()).want(t, 404).header.Get("Set-Cookie"), "-farm=; ",
		"the browser keeps the farm")
	session.get(t, "/sign-in").hides(t, "Sign in at your provider")

	// Without PUBLIC_URL, there is no address for the provider.
	plain := newAPI(t, testkit.Options{})
	admin := plain.Tenant(t).User(t, "admin")
	admin.Do(t, "PUT", signOnAPI, body).Want(200).Shows(map[string]string{"redirect_uri": "null"})
	newBrowser(t, plain.URL).get(t, "/sign-on/"+admin.Actor.Tenant).want(t, 404)
	signIn(t, admin).get(t, signOnPath).shows(t, "This needs the setting PUBLIC_URL")
}

// The page to sign in of an installation with one farm has the button; with more farms, it reveals nothing.
func TestOnlyFarmSignsOn(t *testing.T) {
	t.Parallel()
	w := newSignOn(t, testkit.Options{DB: testkit.Database(t, db.Config{})})
	const button = "Sign in at your provider"
	newBrowser(t, w.api.URL).get(t, "/sign-in").shows(t, button)
	w.admin.Delete(t, signOnAPI).Want(204)
	newBrowser(t, w.api.URL).get(t, "/sign-in").hides(t, button)
	w.put(t, nil).Want(200)
	newBrowser(t, w.api.URL).get(t, "/sign-in").shows(t, button)
	w.api.Tenant(t)
	w.pass(2 * time.Minute)
	newBrowser(t, w.api.URL).get(t, "/sign-in").hides(t, button)
}
