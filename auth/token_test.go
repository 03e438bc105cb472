package auth_test

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"hash"
	"maps"
	"strings"
	"testing"
	"time"

	"spoolwright/auth"
)

const (
	testTenant  = "0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a42"
	testUser    = "0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41"
	testSession = "0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a43"
)

var (
	testSecret  = strings.Repeat("s", 32)
	testTime    = time.Date(2024, 1, 15, 10, 0, 0, 0, time.UTC)
	testCaller  = auth.Principal{TenantID: testTenant, UserID: testUser, Role: "operator"}
	testRefresh = auth.Refresh{TenantID: testTenant, UserID: testUser, SessionID: testSession, Counter: 7,
		IssuedAt: testTime}
)

// tokensAt returns Tokens with lifetimes of 30 minutes and 7 days and a clock that always returns now.
func tokensAt(t testing.TB, now time.Time, secrets ...string) *auth.Tokens {
	t.Helper()
	if len(secrets) == 0 {
		secrets = []string{testSecret}
	}
	tokens, err := auth.NewTokens(secrets, 30*time.Minute, 7*24*time.Hour, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

type claimsMap = map[string]any

// accessMap returns the claims of an access token of testCaller, written without the code under test. A change to nil
// removes the claim.
func accessMap(changes claimsMap) claimsMap {
	c := claimsMap{
		"iss": "spoolwright", "aud": "spoolwright:access", "sub": testUser, "jti": "1", "tenant": testTenant,
		"role": "operator", "iat": testTime.Unix(), "exp": testTime.Add(30 * time.Minute).Unix(),
	}
	return changed(c, changes)
}

func refreshMap(changes claimsMap) claimsMap {
	c := claimsMap{
		"iss": "spoolwright", "aud": "spoolwright:refresh", "sub": testUser, "jti": testSession + ".7",
		"tenant":  testTenant,
		"session": testSession, "counter": 7, "iat": testTime.Unix(), "exp": testTime.Add(7 * 24 * time.Hour).Unix(),
	}
	return changed(c, changes)
}

func changed(c, changes claimsMap) claimsMap {
	maps.Copy(c, changes)
	for name, value := range c {
		if value == nil {
			delete(c, name)
		}
	}
	return c
}

func segment(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func signed(header, claims any, newHash func() hash.Hash, key string) string {
	return signText(segment(header)+"."+segment(claims), newHash, key)
}

func signText(text string, newHash func() hash.Hash, key string) string {
	mac := hmac.New(newHash, []byte(key))
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func hs256(claims any) string {
	return signed(claimsMap{"alg": "HS256", "typ": "JWT"}, claims, sha256.New, testSecret)
}

func TestNewTokens(t *testing.T) {
	for _, c := range []struct {
		secrets         []string
		access, refresh time.Duration
		want            string
	}{
		{nil, time.Minute, time.Hour, "no token secret is set"},
		{[]string{""}, time.Minute, time.Hour, "token secret 1 has 0 bytes"},
		{[]string{testSecret, "shortshortshort"}, time.Minute, time.Hour, "token secret 2 has 15 bytes"},
		{[]string{testSecret}, 0, time.Hour, "at least 1 second"},
		{[]string{testSecret}, time.Minute, -time.Hour, "at least 1 second"},
	} {
		_, err := auth.NewTokens(c.secrets, c.access, c.refresh, time.Now)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewTokens(%q, %v, %v): %v, want %q", c.secrets, c.access, c.refresh, err, c.want)
		} else if strings.Contains(err.Error(), "shortshort") {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
	tokens := tokensAt(t, testTime)
	if tokens.AccessTTL() != 30*time.Minute || tokens.RefreshTTL() != 7*24*time.Hour {
		t.Errorf("lifetimes are %v and %v", tokens.AccessTTL(), tokens.RefreshTTL())
	}
}

func TestAccessToken(t *testing.T) {
	tokens := tokensAt(t, testTime.Add(999*time.Millisecond))
	for _, role := range []string{"admin", "operator", "viewer"} {
		want := auth.Principal{testTenant, testUser, role, ""}
		raw, err := tokens.Access(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tokens.ParseAccess(raw); got != want || err != nil {
			t.Errorf("ParseAccess = %+v, %v", got, err)
		}
	}
	one, _ := tokens.Access(testCaller)
	two, _ := tokens.Access(testCaller)
	if one == two {
		t.Error("two tokens are the same")
	}
	payload, _ := base64.RawURLEncoding.DecodeString(strings.Split(one, ".")[1])
	var got claimsMap
	json.Unmarshal(payload, &got)
	delete(got, "jti")
	want := `{"aud":["spoolwright:access"],"exp":1705314600,"iat":1705312800,"iss":"spoolwright","role":"operator",` +
		`"sub":"` + testUser + `","tenant":"` + testTenant + `"}`
	if b, _ := json.Marshal(got); string(b) != want {
		t.Errorf("the claims are %s, want %s", b, want)
	}
	for _, p := range []auth.Principal{
		{}, {testTenant, testUser, "owner", ""}, {testTenant, testUser, "", ""}, {testTenant, "", "admin", ""},
		{"", testUser, "admin", ""},
		{testTenant, strings.ToUpper(testUser), "admin", ""},
		{testTenant, strings.ReplaceAll(testUser, "-", ""), "admin", ""},
		{testTenant, "{" + testUser[1:35] + "}", "admin", ""},
		{testTenant, testUser[:35] + "g", "admin", ""},
		{testTenant, testUser + "\n", "admin", ""},
		{testTenant, strings.Replace(testUser, "-", "0", 1), "admin", ""},
		{testTenant, testUser, "admin", "x"},
	} {
		if raw, err := tokens.Access(p); err == nil || raw != "" {
			t.Errorf("Access(%+v) = %q, %v", p, raw, err)
		}
	}
}

func TestRefreshToken(t *testing.T) {
	tokens := tokensAt(t, testTime)
	raw, err := tokens.Refresh(testRefresh)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tokens.ParseRefresh(raw); got != testRefresh || err != nil {
		t.Errorf("ParseRefresh = %+v, %v", got, err)
	}

	// The same content gives the same token: later, with another time zone, with a fraction of a second.
	same := testRefresh
	same.IssuedAt = testTime.In(time.FixedZone("", 3600)).Add(123456 * time.Microsecond)
	if again, _ := tokensAt(t, testTime.Add(time.Hour)).Refresh(same); again != raw {
		t.Errorf("the same session and counter give two tokens:\n%s\n%s", raw, again)
	}
	other := testRefresh
	other.Counter++
	if next, _ := tokens.Refresh(other); next == raw {
		t.Error("two counters give the same token")
	}
	big := testRefresh
	big.Counter = 1<<63 - 1
	raw, _ = tokens.Refresh(big)
	if got, err := tokens.ParseRefresh(raw); got != big || err != nil {
		t.Errorf("ParseRefresh = %+v, %v", got, err)
	}
	for _, r := range []auth.Refresh{
		{}, {"", testUser, testSession, 1, testTime}, {testTenant, "", testSession, 1, testTime},
		{testTenant, testUser, "", 1, testTime}, {testTenant, testUser, testSession, -1, testTime},
		{testTenant, testUser, strings.ToUpper(testSession), 1, testTime},
	} {
		if raw, err := tokens.Refresh(r); err == nil || raw != "" {
			t.Errorf("Refresh(%+v) = %q, %v", r, raw, err)
		}
	}
}

func TestTokenLifetime(t *testing.T) {
	issued := tokensAt(t, testTime)
	access, _ := issued.Access(testCaller)
	refresh, _ := issued.Refresh(testRefresh)
	for _, c := range []struct {
		after           time.Duration
		access, refresh error
	}{
		{-time.Hour, auth.ErrTokenInvalid, auth.ErrTokenInvalid},
		{-5*time.Second - 1, auth.ErrTokenInvalid, auth.ErrTokenInvalid},
		{-5 * time.Second, nil, nil},
		{0, nil, nil},
		{30*time.Minute - 1, nil, nil},
		{30 * time.Minute, auth.ErrTokenExpired, nil},
		{7*24*time.Hour - 1, auth.ErrTokenExpired, nil},
		{7 * 24 * time.Hour, auth.ErrTokenExpired, auth.ErrTokenExpired},
		{100 * 365 * 24 * time.Hour, auth.ErrTokenExpired, auth.ErrTokenExpired},
	} {
		tokens := tokensAt(t, testTime.Add(c.after))
		p, err := tokens.ParseAccess(access)
		if err != c.access || (p == testCaller) != (err == nil) || err != nil && p != (auth.Principal{}) {
			t.Errorf("after %v: ParseAccess = %+v, %v; want %v", c.after, p, err, c.access)
		}
		r, err := tokens.ParseRefresh(refresh)
		if err != c.refresh || (r == testRefresh) != (err == nil) || err != nil && r != (auth.Refresh{}) {
			t.Errorf("after %v: ParseRefresh = %+v, %v; want %v", c.after, r, err, c.refresh)
		}
	}
}

// ParseAccess treats a cached token as it treats a new one: the token expires, any changed character makes it invalid,
// and only Tokens with its secret accept it.
func TestTokenCache(t *testing.T) {
	now := testTime
	tokens, err := auth.NewTokens([]string{testSecret}, 30*time.Minute, time.Hour, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := tokens.Access(testCaller)
	for range 3 {
		if p, err := tokens.ParseAccess(raw); err != nil || p != testCaller {
			t.Fatalf("%+v, %v", p, err)
		}
	}
	for i := range raw {
		if _, err := tokens.ParseAccess(raw[:i] + "A" + raw[i+1:]); raw[i] != 'A' && err != auth.ErrTokenInvalid {
			t.Fatalf("with another character at %d: %v", i, err)
		}
	}
	if _, err := tokens.ParseRefresh(raw); err != auth.ErrTokenInvalid {
		t.Errorf("as a refresh token: %v", err)
	}
	if _, err := tokensAt(t, testTime, strings.Repeat("o", 32)).ParseAccess(raw); err != auth.ErrTokenInvalid {
		t.Errorf("with another secret: %v", err)
	}
	now = testTime.Add(30*time.Minute - 1)
	if p, err := tokens.ParseAccess(raw); err != nil || p != testCaller {
		t.Errorf("just before it expires: %+v, %v", p, err)
	}
	now = testTime.Add(30 * time.Minute)
	if p, err := tokens.ParseAccess(raw); err != auth.ErrTokenExpired || p != (auth.Principal{}) {
		t.Errorf("expired: %+v, %v", p, err)
	}
}

// The cookie of a browser is remembered like an access token, and is neither one nor a refresh token.
func TestCookieCache(t *testing.T) {
	now := testTime
	tokens, err := auth.NewTokens([]string{testSecret}, 30*time.Minute, time.Hour, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	raw, err := tokens.Cookie(testRefresh)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if r, err := tokens.ParseCookie(raw); err != nil || r != testRefresh {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if _, err := tokens.ParseAccess(raw); err != auth.ErrTokenInvalid {
		t.Errorf("as an access token: %v", err)
	}
	if _, err := tokens.ParseRefresh(raw); err != auth.ErrTokenInvalid {
		t.Errorf("as a refresh token: %v", err)
	}
	for name, other := range map[string]func() (string, error){
		"an access token": func() (string, error) { return tokens.Access(testCaller) },
		"a refresh token": func() (string, error) { return tokens.Refresh(testRefresh) },
	} {
		raw, err := other()
		if err != nil {
			t.Fatal(err)
		}
		tokens.ParseAccess(raw) // is remembered as what it is
		if _, err := tokens.ParseCookie(raw); err != auth.ErrTokenInvalid {
			t.Errorf("%s as a cookie: %v", name, err)
		}
	}
	now = testTime.Add(time.Hour)
	if _, err := tokens.ParseCookie(raw); err != auth.ErrTokenExpired {
		t.Errorf("expired: %v", err)
	}
}

// An invalid claim gives ErrTokenInvalid, also in an expired token.
func TestTokenInvalidClaims(t *testing.T) {
	future := testTime.Add(6 * time.Second).Unix()
	both := []claimsMap{
		{"iss": nil}, {"iss": ""}, {"iss": "Spoolwright"}, {"iss": "evil"}, {"iss": 1},
		{"iss": []string{"spoolwright"}},
		{"aud": nil}, {"aud": ""}, {"aud": []string{}}, {"aud": "spoolwright"}, {"aud": 1},
		{"aud": []string{"spoolwright:access", "spoolwright:refresh"}},
		{"sub": nil}, {"sub": ""}, {"sub": "1"}, {"sub": strings.ToUpper(testUser)}, {"sub": 1},
		{"jti": nil}, {"jti": ""}, {"jti": 1},
		{"tenant": nil}, {"tenant": ""}, {"tenant": "x"}, {"tenant": strings.ToUpper(testTenant)},
		{"tenant": testTenant + " "}, {"tenant": []string{testTenant}},
		{"exp": nil}, {"exp": "soon"}, {"exp": true}, {"exp": testTime.Unix(), "iat": testTime.Unix()},
		{"exp": testTime.Unix() - 20, "iat": testTime.Unix() - 10},
		{"iat": nil}, {"iat": "now"}, {"iat": future, "exp": future + 1800},
		{"nbf": future}, {"nbf": testTime.Unix() + 1}, {"nbf": "now"},
	}
	invalidAccess := append([]claimsMap{
		{"role": nil}, {"role": ""}, {"role": "Admin"}, {"role": "root"}, {"role": 1}, {"role": []string{"admin"}},
		{"aud": "spoolwright:refresh"},
	}, both...)
	invalidRefresh := append([]claimsMap{
		{"session": nil}, {"session": ""}, {"session": strings.ToUpper(testSession)}, {"session": testUser},
		{"counter": nil}, {"counter": -1, "jti": testSession + ".-1"}, {"counter": 7.5}, {"counter": "7"},
		{"counter": 8},
		{"counter": 1e300}, {"jti": testSession + ".8"}, {"jti": testSession}, {"aud": "spoolwright:access"},
	}, both...)

	tokens := tokensAt(t, testTime)
	expired := claimsMap{"iat": testTime.Add(-30 * 24 * time.Hour).Unix(), "exp": testTime.Add(-time.Second).Unix()}
	if _, err := tokens.ParseAccess(hs256(accessMap(nil))); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.ParseRefresh(hs256(refreshMap(nil))); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.ParseAccess(hs256(accessMap(expired))); err != auth.ErrTokenExpired {
		t.Fatal(err)
	}
	if _, err := tokens.ParseRefresh(hs256(refreshMap(expired))); err != auth.ErrTokenExpired {
		t.Fatal(err)
	}
	for _, base := range []claimsMap{{}, expired} {
		for _, change := range invalidAccess {
			c := accessMap(changed(maps.Clone(base), nil))
			if _, err := tokens.ParseAccess(hs256(changed(c, change))); err != auth.ErrTokenInvalid {
				t.Errorf("access token with %v and %v: %v", base, change, err)
			}
		}
		for _, change := range invalidRefresh {
			c := refreshMap(changed(maps.Clone(base), nil))
			if _, err := tokens.ParseRefresh(hs256(changed(c, change))); err != auth.ErrTokenInvalid {
				t.Errorf("refresh token with %v and %v: %v", base, change, err)
			}
		}
	}

	for _, valid := range []claimsMap{
		{"aud": []string{"spoolwright:access"}}, {"nbf": testTime.Unix()}, {"unknown": 1},
		{"iat": testTime.Add(5 * time.Second).Unix()},
	} {
		if p, err := tokens.ParseAccess(hs256(accessMap(valid))); err != nil || p != testCaller {
			t.Errorf("access token with %v: %+v, %v", valid, p, err)
		}
	}
}

func TestTokenTypes(t *testing.T) {
	tokens := tokensAt(t, testTime)
	access, _ := tokens.Access(testCaller)
	refresh, _ := tokens.Refresh(testRefresh)
	if _, err := tokens.ParseRefresh(access); err != auth.ErrTokenInvalid {
		t.Errorf("an access token as a refresh token: %v", err)
	}
	if _, err := tokens.ParseAccess(refresh); err != auth.ErrTokenInvalid {
		t.Errorf("a refresh token as an access token: %v", err)
	}
	// The audience alone tells the types apart: the token has all claims of an access token.
	if _, err := tokens.ParseAccess(hs256(refreshMap(claimsMap{"role": "admin"}))); err != auth.ErrTokenInvalid {
		t.Errorf("a refresh token with a role as an access token: %v", err)
	}
}

func TestTokenRotation(t *testing.T) {
	const next, last = "a secret of at least 32 bytes, the next", "a secret of at least 32 bytes, the last"
	old := tokensAt(t, testTime, last)
	both := tokensAt(t, testTime, next, last)
	rotated := tokensAt(t, testTime, next)
	byOld, _ := old.Access(testCaller)
	byBoth, _ := both.Access(testCaller)
	for _, c := range []struct {
		name   string
		tokens *auth.Tokens
		raw    string
		want   error
	}{
		{"old secret, before", old, byOld, nil},
		{"old secret, during", both, byOld, nil},
		{"old secret, after", rotated, byOld, auth.ErrTokenInvalid},
		{"new secret, before", old, byBoth, auth.ErrTokenInvalid},
		{"new secret, during", both, byBoth, nil},
		{"new secret, after", rotated, byBoth, nil},
	} {
		if _, err := c.tokens.ParseAccess(c.raw); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestTokenForgeries(t *testing.T) {
	tokens := tokensAt(t, testTime)
	good, err := tokens.Access(testCaller)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	claims := accessMap(claimsMap{"role": "admin"})
	body := segment(claims)
	header := func(alg any) claimsMap { return claimsMap{"alg": alg, "typ": "JWT"} }

	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public := string(pem.EncodeToMemory(&pem.Block{
		Type: "PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&rsaKey.PublicKey),
	}))

	// The last two bits of the last character of a 32-byte signature are padding, which strict decoding rejects.
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	tail := strings.IndexByte(alphabet, good[len(good)-1])
	sameSignature := good[:len(good)-1] + string(alphabet[tail|1])

	encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	standard := base64.RawStdEncoding.EncodeToString([]byte(`{"x":"???>>>"}`))

	forgeries := map[string]string{
		"empty":                        "",
		"dots":                         "..",
		"two parts":                    parts[0] + "." + parts[1],
		"four parts":                   good + ".",
		"five parts":                   good + "." + good,
		"no signature":                 parts[0] + "." + parts[1] + ".",
		"alg none":                     segment(header("none")) + "." + body + ".",
		"alg None":                     segment(header("None")) + "." + body + ".",
		"alg none, signed":             signed(header("none"), claims, sha256.New, testSecret),
		"alg missing":                  signed(claimsMap{"typ": "JWT"}, claims, sha256.New, testSecret),
		"alg null":                     signed(header(nil), claims, sha256.New, testSecret),
		"alg empty":                    signed(header(""), claims, sha256.New, testSecret),
		"alg in lower case":            signed(header("hs256"), claims, sha256.New, testSecret),
		"alg as a list":                signed(header([]string{"HS256"}), claims, sha256.New, testSecret),
		"HS384":                        signed(header("HS384"), claims, sha512.New384, testSecret),
		"HS512":                        signed(header("HS512"), claims, sha512.New, testSecret),
		"HS512 label only":             signed(header("HS512"), claims, sha256.New, testSecret),
		"RS256 label":                  signed(header("RS256"), claims, sha256.New, testSecret),
		"RS256 label, public key":      signed(header("RS256"), claims, sha256.New, public),
		"HS256, public key":            signed(header("HS256"), claims, sha256.New, public),
		"empty key":                    signed(header("HS256"), claims, sha256.New, ""),
		"another key":                  signed(header("HS256"), claims, sha256.New, strings.Repeat("t", 32)),
		"part of the key":              signed(header("HS256"), claims, sha256.New, testSecret[:31]),
		"changed payload":              parts[0] + "." + body + "." + parts[2],
		"changed header":               segment(claimsMap{"alg": "HS256"}) + "." + parts[1] + "." + parts[2],
		"signature cut":                good[:len(good)-4],
		"signature of zeros":           parts[0] + "." + parts[1] + "." + encode(strings.Repeat("\x00", 32)),
		"tail bits of the signature":   sameSignature,
		"padding":                      good + "=",
		"line break at the end":        good + "\n",
		"line break in the signature":  good[:len(good)-8] + "\r\n" + good[len(good)-8:],
		"line break in the payload":    signText(parts[0]+"."+parts[1][:8]+"\n"+parts[1][8:], sha256.New, testSecret),
		"standard base64":              signText(parts[0]+"."+standard, sha256.New, testSecret),
		"space at the end":             good + " ",
		"NUL at the end":               good + "\x00",
		"too long":                     hs256(accessMap(claimsMap{"more": strings.Repeat("x", 4096)})),
		"payload null":                 hs256(nil),
		"payload a list":               hs256([]int{}),
		"payload a string":             hs256("x"),
		"payload not JSON":             signText(parts[0]+"."+encode("{"), sha256.New, testSecret),
		"payload of two objects":       signText(parts[0]+"."+encode("{}{}"), sha256.New, testSecret),
		"header null":                  signed(nil, claims, sha256.New, testSecret),
		"header a list":                signed([]string{"HS256"}, claims, sha256.New, testSecret),
		"not UTF-8":                    "\xff.\xfe.\xfd",
		"a token inside a JSON string": `"` + good + `"`,
	}
	for name, raw := range forgeries {
		if p, err := tokens.ParseAccess(raw); err != auth.ErrTokenInvalid || p != (auth.Principal{}) {
			t.Errorf("%s: ParseAccess = %+v, %v", name, p, err)
		}
		if r, err := tokens.ParseRefresh(raw); err != auth.ErrTokenInvalid || r != (auth.Refresh{}) {
			t.Errorf("%s: ParseRefresh = %+v, %v", name, r, err)
		}
	}
	if _, err := tokens.ParseAccess(good); err != nil {
		t.Errorf("the valid token: %v", err)
	}
	// An expired forgery gives ErrTokenInvalid, not ErrTokenExpired.
	late := tokensAt(t, testTime.Add(time.Hour))
	if _, err := late.ParseAccess(forgeries["changed payload"]); err != auth.ErrTokenInvalid {
		t.Errorf("an expired forgery: %v", err)
	}
}

// FuzzToken parses each input as a token, and as the payload of a token with a valid signature.
func FuzzToken(f *testing.F) {
	tokens := tokensAt(f, testTime)
	access := hs256(accessMap(nil))
	refresh, _ := tokens.Refresh(testRefresh)
	for _, c := range []claimsMap{
		accessMap(nil), refreshMap(nil), accessMap(claimsMap{"exp": 1e300}),
		accessMap(claimsMap{"exp": -1e300, "iat": 1e18}), refreshMap(claimsMap{"iat": 1.5}),
	} {
		b, _ := json.Marshal(c)
		f.Add(string(b))
	}
	for _, s := range []string{
		access, refresh, "", "..", "null", "[]", `{"exp":1e309}`, `{"aud":[null]}`, `{"iss":"spoolwright","ISS":null}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		payload := base64.RawURLEncoding.EncodeToString([]byte(s))
		for _, raw := range []string{s,
			signText(segment(claimsMap{"alg": "HS256"})+"."+payload, sha256.New, testSecret)} {
			p, err := tokens.ParseAccess(raw)
			_, invalid := tokens.Access(p)
			if err == nil && invalid != nil || err != nil && p != (auth.Principal{}) || !isTokenError(err) {
				t.Errorf("ParseAccess(%q) = %+v, %v", raw, p, err)
			}
			if raw == s && err != auth.ErrTokenInvalid && s != access {
				t.Errorf("the unsigned token %q is accepted", s)
			}
			r, err := tokens.ParseRefresh(raw)
			_, invalid = tokens.Refresh(r)
			if err == nil && invalid != nil || err != nil && r != (auth.Refresh{}) || !isTokenError(err) {
				t.Errorf("ParseRefresh(%q) = %+v, %v", raw, r, err)
			}
			if raw == s && err != auth.ErrTokenInvalid && s != refresh {
				t.Errorf("the unsigned token %q is accepted", s)
			}
		}
	})
}

func isTokenError(err error) bool {
	return err == nil || err == auth.ErrTokenExpired || err == auth.ErrTokenInvalid
}
