package auth_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spoolwright/auth"
	"spoolwright/auth/accounts"
	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type j = testkit.JSON

const testRounds = 1000

// clock is a clock that tests advance.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// world is a service with a clock and a hasher that the test controls.
type world struct {
	*testkit.API
	clock  *clock
	hasher *secrets.Hasher
}

func newWorld(t *testing.T, features ...func(*db.DB) []server.Route) *world {
	t.Helper()
	return newWorldWith(t, testkit.Open(t), &clock{t: time.Date(2024, 1, 15, 10, 0, 0, 0, time.UTC)}, features...)
}

func newWorldWith(t *testing.T, d *db.DB, clock *clock, features ...func(*db.DB) []server.Route) *world {
	t.Helper()
	w := &world{clock: clock, hasher: secrets.NewHasher(testRounds)}
	tokens, err := auth.NewTokens([]string{testkit.Secret}, 30*time.Minute, 7*24*time.Hour, w.clock.now)
	testkit.Check(t, err)
	w.API = testkit.New(t, testkit.Options{DB: d, Now: w.clock.now, Change: func(c *server.Config) {
		service := auth.New(c.DB, tokens, w.hasher, w.clock.now)
		routes := service.Routes()
		c.Routes = append(routes, c.Routes[len(routes):]...)
		c.Authenticate = service.Authenticate
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	}}, features...)
	return w
}

func (w *world) accounts() accounts.Accounts {
	return accounts.Accounts{DB: w.DB, Hasher: secrets.NewHasher(testRounds)}
}

// from returns a client without a token whose requests come from the address.
func (w *world) from(address string) *testkit.Client {
	return w.Anonymous().With("X-Forwarded-For", address)
}

const (
	loginPath   = "/api/v1/auth/login"
	refreshPath = "/api/v1/auth/refresh"
	logoutPath  = "/api/v1/auth/logout"
	mePath      = "/api/v1/auth/me"
)

func credentials(email, password string) j { return j{"email": email, "password": password} }

type tokenSet struct {
	Access    string `json:"access_token"`
	Refresh   string `json:"refresh_token"`
	Type      string `json:"token_type"`
	ExpiresIn int    `json:"expires_in"`
}

// tokensOf decodes the response of a login or refresh and ends the test if it is not a valid token set.
func tokensOf(t *testing.T, a *testkit.Response) tokenSet {
	t.Helper()
	var s tokenSet
	d := json.NewDecoder(bytes.NewReader(a.Body))
	d.DisallowUnknownFields()
	err := d.Decode(&s)
	if a.Status != 200 || err != nil || s.Access == "" || s.Refresh == "" || s.Access == s.Refresh ||
		s.Type != "bearer" || s.ExpiresIn != 1800 {
		t.Fatalf("%s: %d %s: %v", a.What, a.Status, a.Body, err)
	}
	testkit.Equal(t, a.Header.Get("Cache-Control"), "no-store", "%s: Cache-Control", a.What)
	return s
}

func (w *world) login(t *testing.T, c *testkit.Client) tokenSet {
	t.Helper()
	return tokensOf(t, w.Anonymous().Post(t, loginPath, credentials(c.Email, testkit.Password)))
}

func (w *world) refresh(t *testing.T, token string) tokenSet {
	t.Helper()
	return tokensOf(t, w.Anonymous().Post(t, refreshPath, j{"refresh_token": token}))
}

// refreshFails sends a refresh token and ends the test unless the response is a 401 with the code.
func (w *world) refreshFails(t *testing.T, token, code string) {
	t.Helper()
	w.Anonymous().Post(t, refreshPath, j{"refresh_token": token}).WantError(401, code)
}

// as returns a copy of the client with another access token.
func as(c *testkit.Client, token string) *testkit.Client {
	copied := *c
	copied.Token = token
	return &copied
}

func TestLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	for _, email := range []string{user.Email, strings.ToUpper(user.Email), " " + user.Email + "\t"} {
		set := tokensOf(t, w.Anonymous().Post(t, loginPath, credentials(email, testkit.Password)))
		as(user, set.Access).Get(t, mePath).Want(200).Shows(map[string]string{
			"id": user.Actor.User, "email": user.Email, "tenant_id": user.Actor.Tenant,
		})
	}
	one, two := w.login(t, user), w.login(t, user)
	if one.Access == two.Access || one.Refresh == two.Refresh {
		t.Error("two logins returned the same token")
	}

	disabled := w.Operator(t)
	testkit.Check(t, w.accounts().SetDisabled(t.Context(), disabled.Email, true))
	var bodies []string
	for name, c := range map[string]j{
		"a wrong password":     credentials(user.Email, testkit.Password+"x"),
		"other case":           credentials(user.Email, strings.ToUpper(testkit.Password)),
		"a blank before":       credentials(user.Email, " "+testkit.Password),
		"another password":     credentials(user.Email, "the password of another user"),
		"an unknown e-mail":    credentials("unknown@test.example", testkit.Password),
		"an invalid e-mail":    credentials("x", testkit.Password),
		"a disabled user":      credentials(disabled.Email, testkit.Password),
		"a part of the e-mail": credentials(user.Email[1:], testkit.Password),
		"a LIKE pattern":       credentials("%@test.example", testkit.Password),
	} {
		a := w.from("198.51.100."+fmt.Sprint(len(bodies)+1)).Post(t, loginPath, c)
		a.WantError(401, "INVALID_CREDENTIALS")
		if a.Text("detail") != "Incorrect email or password" || a.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: %s", name, a.Body)
		}
		bodies = append(bodies, string(a.Body))
	}
	for _, body := range bodies {
		testkit.Equal(t, body, bodies[0], "two responses differ")
	}
	for _, c := range []struct {
		body   j
		fields string
	}{
		{j{}, "email password"},
		{j{"email": user.Email}, "password"},
		{credentials("", ""), "email password"},
		{credentials(user.Email, strings.Repeat("x", 1001)), "password"},
		{credentials(strings.Repeat("x", 321), "x"), "email"},
		{credentials(user.Email+"\x00", "x"), "email"},
		{j{"email": user.Email, "password": 1}, "password"},
		{j{"email": user.Email, "password": testkit.Password, "tenant_id": user.Actor.Tenant}, "tenant_id"},
	} {
		w.Anonymous().Post(t, loginPath, c.body).Fields(strings.Fields(c.fields)...)
	}
}

// A session that is always used ends 90 days after its login.
func TestLongestSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	set := w.login(t, user)
	for range 17 {
		w.clock.pass(5 * 24 * time.Hour)
		set = w.refresh(t, set.Refresh)
	}
	sessions := as(user, set.Access).Get(t, "/api/v1/auth/sessions").Want(200)
	longest := sessions.Time("items.0.expires_at").Sub(sessions.Time("items.0.created_at"))
	testkit.Equal(t, longest, 90*24*time.Hour, "the longest session")
	w.clock.pass(5*24*time.Hour - time.Second)
	set = w.refresh(t, set.Refresh)
	w.clock.pass(time.Second)
	w.refreshFails(t, set.Refresh, "INVALID_TOKEN")
	w.login(t, user)
}

// Tokens expire after the configured lifetimes; each refresh starts the lifetime of the session again.
func TestTokenLifetimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	set := w.login(t, user)
	mine := as(user, set.Access)
	w.clock.pass(30*time.Minute - time.Second)
	mine.Get(t, mePath).Want(200)
	w.clock.pass(time.Second)
	mine.Get(t, mePath).WantError(401, "TOKEN_EXPIRED")
	mine.Post(t, logoutPath, j{"refresh_token": set.Refresh}).WantError(401, "TOKEN_EXPIRED")

	// A refresh token expires 7 days after its own refresh.
	next := w.refresh(t, set.Refresh)
	as(user, next.Access).Get(t, mePath).Want(200)
	w.clock.pass(7*24*time.Hour - time.Second)
	w.refreshFails(t, set.Refresh, "TOKEN_EXPIRED")
	last := w.refresh(t, next.Refresh)
	w.clock.pass(7 * 24 * time.Hour)
	w.refreshFails(t, last.Refresh, "TOKEN_EXPIRED")
	w.refreshFails(t, next.Refresh, "TOKEN_EXPIRED")
	as(user, last.Access).Get(t, mePath).WantError(401, "TOKEN_EXPIRED")
	w.login(t, user)

	tokens, err := auth.NewTokens([]string{testkit.Secret}, 5*time.Minute, time.Hour, time.Now)
	testkit.Check(t, err)
	short := testkit.New(t, testkit.Options{Change: func(c *server.Config) {
		service := auth.New(c.DB, tokens, secrets.NewHasher(testRounds), time.Now)
		c.Routes, c.Authenticate = service.Routes(), service.Authenticate
	}})
	other := short.Operator(t)
	mustLogin(t, short, other.Email, testkit.Password).Shows(map[string]string{"expires_in": "300"})
}

func TestRefreshRotates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	seen := map[string]bool{}
	set := w.login(t, user)
	for range 10 {
		if seen[set.Refresh] || seen[set.Access] {
			t.Fatal("a refresh returned an earlier token")
		}
		seen[set.Refresh], seen[set.Access] = true, true
		as(user, set.Access).Get(t, mePath).Want(200)
		w.clock.pass(20 * time.Minute)
		set = w.refresh(t, set.Refresh)
	}
	unknown := auth.Refresh{
		TenantID: user.Actor.Tenant, UserID: user.Actor.User, SessionID: value.NewID(), Counter: 1,
		IssuedAt: w.clock.now(),
	}
	for name, token := range map[string]string{
		"garbage":            "garbage",
		"an access token":    set.Access,
		"a changed token":    set.Refresh[:len(set.Refresh)-5] + "AAAAA",
		"with a scheme":      "Bearer " + set.Refresh,
		"with a space":       set.Refresh + " ",
		"an unknown session": w.sign(t, unknown),
	} {
		a := w.Anonymous().Post(t, refreshPath, j{"refresh_token": token})
		if a.WantError(401, "INVALID_TOKEN"); a.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: %v", name, a.Header)
		}
	}
	w.Anonymous().Post(t, refreshPath, j{}).Fields("refresh_token")
	w.Anonymous().Post(t, refreshPath, j{"refresh_token": nil}).Fields("refresh_token")
	w.Anonymous().Post(t, refreshPath, j{"refresh_token": strings.Repeat("x", 5000)}).Fields("refresh_token")
	as(user, set.Refresh).Get(t, mePath).WantError(401, "INVALID_TOKEN")
	w.refresh(t, set.Refresh) // the session is unchanged
}

// sign signs a refresh token that the service did not issue.
func (w *world) sign(t *testing.T, r auth.Refresh) string {
	t.Helper()
	token, err := w.Tokens.Refresh(r)
	testkit.Check(t, err)
	return token
}

// A client that lost the response of a refresh sends the same token again and gets the same successor, for 30 seconds.
func TestRefreshIsRepeatable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	first := w.login(t, user)
	next := w.refresh(t, first.Refresh)
	for _, passed := range []time.Duration{0, time.Second, 28 * time.Second, time.Second} {
		w.clock.pass(passed)
		again := w.refresh(t, first.Refresh)
		testkit.Equal(t, again.Refresh, next.Refresh, "the successor differs")
		as(user, again.Access).Get(t, mePath).Want(200)
	}
	// The successor can be refreshed, also repeatedly.
	third := w.refresh(t, next.Refresh)
	testkit.Equal(t, w.refresh(t, next.Refresh).Refresh, third.Refresh, "the successor of the successor differs")
	w.refresh(t, third.Refresh)
}

// A reused token may have been stolen: it ends the session, so that the newest token becomes invalid too.
func TestRefreshReuseEndsTheSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	elsewhere := w.login(t, user)

	t.Run("after 30 seconds", func(t *testing.T) {
		first := w.login(t, user)
		next := w.refresh(t, first.Refresh)
		w.clock.pass(31 * time.Second)
		w.refreshFails(t, first.Refresh, "INVALID_TOKEN")
		w.refreshFails(t, next.Refresh, "INVALID_TOKEN")
		w.refreshFails(t, first.Refresh, "INVALID_TOKEN")
	})
	t.Run("a repeated refresh does not extend the grace", func(t *testing.T) {
		first := w.login(t, user)
		next := w.refresh(t, first.Refresh)
		w.clock.pass(20 * time.Second)
		w.refresh(t, first.Refresh)
		w.clock.pass(11 * time.Second)
		w.refreshFails(t, first.Refresh, "INVALID_TOKEN")
		w.refreshFails(t, next.Refresh, "INVALID_TOKEN")
	})
	t.Run("older than the previous token", func(t *testing.T) {
		first := w.login(t, user)
		next := w.refresh(t, first.Refresh)
		third := w.refresh(t, next.Refresh)
		w.refreshFails(t, first.Refresh, "INVALID_TOKEN")
		w.refreshFails(t, third.Refresh, "INVALID_TOKEN")
		w.refreshFails(t, next.Refresh, "INVALID_TOKEN")
	})
	t.Run("newer than the current token", func(t *testing.T) {
		// This happens after the database was restored from a backup.
		first := w.login(t, user)
		parsed, err := w.Tokens.ParseRefresh(first.Refresh)
		testkit.Check(t, err)
		parsed.Counter += 5
		w.refreshFails(t, w.sign(t, parsed), "INVALID_TOKEN")
		w.refreshFails(t, first.Refresh, "INVALID_TOKEN")
	})
	t.Run("with the id of another user", func(t *testing.T) {
		first, other := w.login(t, user), w.Operator(t)
		parsed, err := w.Tokens.ParseRefresh(first.Refresh)
		testkit.Check(t, err)
		forged := parsed
		forged.UserID, forged.TenantID = other.Actor.User, other.Actor.Tenant
		w.refreshFails(t, w.sign(t, forged), "INVALID_TOKEN")
		forged.UserID = user.Actor.User
		w.refreshFails(t, w.sign(t, forged), "INVALID_TOKEN")
		w.refresh(t, first.Refresh)
	})
	// Another session of the same user is not affected.
	w.refresh(t, elsewhere.Refresh)
}

// 100 concurrent refreshes of one token return the same successor.
func TestConcurrentRefreshes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	first := w.login(t, user)
	var mu sync.Mutex
	successors := map[string]int{}
	testkit.Concurrently(100, func(int) {
		a, err := w.Anonymous().Send("POST", refreshPath, j{"refresh_token": first.Refresh})
		var set tokenSet
		if err != nil || a.Status != 200 || json.Unmarshal(a.Body, &set) != nil {
			t.Errorf("%v, %+v", err, a)
			return
		}
		mu.Lock()
		successors[set.Refresh]++
		mu.Unlock()
	})
	if len(successors) != 1 {
		t.Fatalf("%d different successors: %v", len(successors), successors)
	}
	for token := range successors {
		next := w.refresh(t, token)
		w.clock.pass(31 * time.Second)
		w.refreshFails(t, first.Refresh, "INVALID_TOKEN")
		w.refreshFails(t, next.Refresh, "INVALID_TOKEN")
	}
	var sessions int
	err := w.DB.Read(db.As(t.Context(), db.Actor{Tenant: user.Actor.Tenant}),
		db.SQL(`select count(*) from sessions`).Into(&sessions))
	if err != nil || sessions != 0 {
		t.Errorf("%d sessions remain, %v", sessions, err)
	}
}

func TestLogout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	farm := w.Tenant(t)
	user, colleague, stranger := farm.User(t, "viewer"), farm.User(t, "operator"), w.Operator(t)
	set, other := w.login(t, user), w.login(t, user)
	logout := func(c *testkit.Client, token string) *testkit.Response {
		t.Helper()
		return c.Post(t, logoutPath, j{"refresh_token": token})
	}
	logout(w.Anonymous(), set.Refresh).WantError(401, "INVALID_TOKEN")
	// The token of another user: the session continues, and the response does not tell whether it exists.
	for _, c := range []*testkit.Client{colleague, stranger} {
		if a := logout(c, set.Refresh).Want(204); len(a.Body) != 0 {
			t.Errorf("%s", a.Body)
		}
	}
	set = w.refresh(t, set.Refresh)

	logout(user, set.Refresh).Want(204)
	w.refreshFails(t, set.Refresh, "INVALID_TOKEN")
	logout(user, set.Refresh).Want(204)
	w.refresh(t, other.Refresh) // another session of the user continues
	user.Get(t, mePath).Want(200)

	// A used refresh token ends the session too.
	third := w.login(t, user)
	next := w.refresh(t, third.Refresh)
	logout(user, third.Refresh).Want(204)
	w.refreshFails(t, next.Refresh, "INVALID_TOKEN")

	for _, token := range []string{"garbage", user.Token, set.Refresh + "x", "a.b.c"} {
		logout(user, token).Fields("refresh_token")
	}
	user.Post(t, logoutPath, j{}).Fields("refresh_token")

	expired := w.login(t, user)
	w.clock.pass(8 * 24 * time.Hour)
	now := w.login(t, user)
	logout(as(user, now.Access), expired.Refresh).Want(204)
	w.refresh(t, now.Refresh)
}

func TestMe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, role := range []string{"viewer", "operator", "admin"} {
		user := w.Tenant(t).User(t, role)
		a := user.Get(t, mePath).Want(200)
		a.Shows(map[string]string{
			"id": user.Actor.User, "email": user.Email, "name": "Test " + role, "role": role,
			"tenant_id": user.Actor.Tenant,
		})
		created := a.Text("created_at")
		if _, err := time.Parse(time.RFC3339, created); err != nil || !strings.HasSuffix(created, "Z") {
			t.Errorf("%s", a.Body)
		}
		testkit.Equal(t, len(a.Value("").(map[string]any)), 10, "%s", a.Body)
	}
	w.Anonymous().Get(t, mePath).WantError(401, "INVALID_TOKEN")
}

// A disabled user cannot refresh, also if the session still exists.
func TestRefreshOfDisabledUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	set := w.login(t, user)
	change := func(sql string) {
		t.Helper()
		testkit.Check(t, w.DB.Write(db.As(t.Context(), db.Actor{Tenant: user.Actor.Tenant}), db.SQL(sql)))
	}
	change(`update users set disabled_at = now()`)
	w.refreshFails(t, set.Refresh, "INVALID_TOKEN")
	change(`update users set disabled_at = null`)
	w.refreshFails(t, set.Refresh, "INVALID_TOKEN")
}

// hashes returns a counter of the hashes that the hasher computes.
func (w *world) hashes() *atomic.Int64 {
	var n atomic.Int64
	countHashes(w.hasher, func(int) { n.Add(1) })
	return &n
}

// tooMany ends the test unless the response is a 429 with the Retry-After.
func tooMany(t *testing.T, a *testkit.Response, seconds string) {
	t.Helper()
	a.WantError(429, "RATE_LIMIT_EXCEEDED")
	testkit.Equal(t, a.Header.Get("Retry-After"), seconds, "%s: Retry-After", a.What)
}

func TestFailedLoginsAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	hashes := w.hashes()
	attempt := func(address, email, password string) *testkit.Response {
		t.Helper()
		return w.from(address).Post(t, loginPath, credentials(email, password))
	}
	hashed := func(want int64) {
		t.Helper()
		testkit.Equal(t, hashes.Swap(0), want, "passwords that were hashed")
	}

	t.Run("5 for an account from one address", func(t *testing.T) {
		for range 4 {
			attempt("198.51.100.1", user.Email, "wrong").WantError(401, "INVALID_CREDENTIALS")
		}
		attempt("198.51.100.1", user.Email, testkit.Password).Want(200) // a success clears the failures
		for range 5 {
			attempt("198.51.100.1", strings.ToUpper(user.Email)+" ", "wrong").WantError(401, "INVALID_CREDENTIALS")
		}
		hashed(10)
		tooMany(t, attempt("198.51.100.1", user.Email, "wrong"), "900")
		w.clock.pass(time.Minute)
		tooMany(t, attempt("198.51.100.1", user.Email, testkit.Password), "840")
		hashed(0)
		attempt("198.51.100.2", user.Email, testkit.Password).Want(200)
		w.clock.pass(14 * time.Minute)
		attempt("198.51.100.1", user.Email, testkit.Password).Want(200)
		hashed(2)
	})
	t.Run("unknown account", func(t *testing.T) {
		for range 5 {
			attempt("198.51.100.3", "unknown@limits.example", "wrong").WantError(401, "INVALID_CREDENTIALS")
		}
		hashed(5)
		tooMany(t, attempt("198.51.100.3", "unknown@limits.example", "wrong"), "900")
		hashed(0)
	})
	t.Run("20 from an address", func(t *testing.T) {
		w.clock.pass(time.Hour)
		for i := range 20 {
			a := attempt("2001:db8::"+fmt.Sprint(i), fmt.Sprintf("unknown%d@test.example", i), "wrong")
			a.WantError(401, "INVALID_CREDENTIALS")
		}
		hashed(20)
		tooMany(t, attempt("2001:db8::ffff", user.Email, testkit.Password), "900")
		hashed(0)
		attempt("2001:db8:0:1::", user.Email, testkit.Password).Want(200)
		hashed(1)
	})
	t.Run("100 for an account", func(t *testing.T) {
		w.clock.pass(time.Hour)
		for i := range 100 {
			attempt(fmt.Sprintf("203.0.113.%d", i), user.Email, "wrong").WantError(401, "INVALID_CREDENTIALS")
		}
		hashed(100)
		tooMany(t, attempt("198.51.100.9", user.Email, testkit.Password), "900")
		hashed(0)
		other := w.Operator(t)
		attempt("203.0.113.1", other.Email, testkit.Password).Want(200)
	})
	t.Run("invalid requests do not count", func(t *testing.T) {
		w.clock.pass(time.Hour)
		hashes.Store(0)
		for range 30 {
			w.from("198.51.100.1").Post(t, loginPath, j{"email": user.Email}).Fields("password")
			w.from("198.51.100.1").Post(t, loginPath, `{`).WantError(400, "MALFORMED_JSON")
		}
		attempt("198.51.100.1", user.Email, testkit.Password).Want(200)
		hashed(1)
	})
}

// fillAccount makes 100 failed logins of the account, 5 from each of 20 addresses.
func (w *world) fillAccount(t *testing.T, email string) {
	t.Helper()
	for i := range 100 {
		a := w.from(fmt.Sprintf("203.0.113.%d", i%20)).Post(t, loginPath, credentials(email, "wrong"))
		a.WantError(401, "INVALID_CREDENTIALS")
	}
}

// Failed logins from elsewhere do not lock out a user who has logged in or refreshed a session from the address within
// 30 days. This survives a restart of the service.
func TestKnownAddressIsNotLockedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	login := func(address, password string) *testkit.Response {
		t.Helper()
		return w.from(address).Post(t, loginPath, credentials(user.Email, password))
	}
	const home, office, elsewhere = "198.51.100.1", "2001:db8:1::1", "198.51.100.2"
	w.clock.pass(-30*24*time.Hour + time.Hour)
	session := tokensOf(t, login(home, testkit.Password))
	w.from(office).Post(t, refreshPath, j{"refresh_token": session.Refresh}).Want(200)
	w.clock.pass(30*24*time.Hour - time.Hour)

	w.fillAccount(t, user.Email)
	tooMany(t, login(elsewhere, testkit.Password), "900")
	tooMany(t, login("203.0.113.1", testkit.Password), "900")
	login(home, testkit.Password).Want(200)
	login("2001:db8:1::ffff", testkit.Password).Want(200) // the same /64 network
	mine := as(user, session.Access)
	mine.Token = tokensOf(t, login(home, testkit.Password)).Access
	changePassword(t, mine, "wrong", newPhrase).WantError(400, "INVALID_CREDENTIALS")

	// The limit of the account and address still applies.
	for range 5 {
		login(home, "wrong").WantError(401, "INVALID_CREDENTIALS")
	}
	tooMany(t, login(home, testkit.Password), "900")

	// Another instance, or the service after a restart, knows the addresses.
	restarted := newWorldWith(t, w.DB, w.clock)
	restarted.fillAccount(t, user.Email)
	login = func(address, password string) *testkit.Response {
		t.Helper()
		return restarted.from(address).Post(t, loginPath, credentials(user.Email, password))
	}
	login(home, testkit.Password).Want(200)
	tooMany(t, login(elsewhere, testkit.Password), "900")

	// After 30 days without a login, the address is unknown.
	w.clock.pass(30 * 24 * time.Hour)
	restarted.fillAccount(t, user.Email)
	tooMany(t, login(office, testkit.Password), "900")
	tooMany(t, login(home, testkit.Password), "900")
}

// A user has at most 20 known addresses, those used last.
func TestKnownAddressesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	for i := range 25 {
		w.from(fmt.Sprintf("198.51.100.%d", i)).Post(t, loginPath, credentials(user.Email, testkit.Password)).Want(200)
		w.clock.pass(time.Minute)
	}
	var n int
	var oldest string
	err := w.DB.Read(db.As(t.Context(), db.Actor{Tenant: user.Actor.Tenant}), db.SQL(`
		select count(*), (array_agg(address order by used_at))[1] from login_addresses`).Into(&n, &oldest))
	if err != nil || n != 20 || oldest != "198.51.100.5" {
		t.Errorf("%d known addresses, the oldest is %s; %v", n, oldest, err)
	}
}

// Of 100 concurrent guesses the service hashes 5.
func TestConcurrentGuesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	hashes := w.hashes()
	testkit.Race(t, 100, func(int) (*testkit.Response, error) {
		return w.Anonymous().Send("POST", loginPath, credentials(user.Email, "wrong"))
	}).Want(t, map[string]int{"401 INVALID_CREDENTIALS": 5, "429 RATE_LIMIT_EXCEEDED": 95})
	testkit.Equal(t, hashes.Load(), 5, "passwords that were hashed")
}

// Concurrent logins with the right password all succeed, also if the first ones take longer than a login waits for the
// hasher.
func TestConcurrentSlowLogins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	gate := newGate(t, w.hasher, 2)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			a, err := w.Anonymous().Send("POST", loginPath, credentials(user.Email, testkit.Password))
			if err != nil || a.Status != 200 {
				t.Errorf("%v, %+v", err, a)
			}
		})
	}
	time.Sleep(2200 * time.Millisecond) // longer than a login waits
	gate.open()
	wg.Wait()
}

// Every failed login computes one hash, whatever the reason.
func TestFailedLoginsTakeTheSameTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user, disabled := w.Operator(t), w.Operator(t)
	testkit.Check(t, w.accounts().SetDisabled(t.Context(), disabled.Email, true))
	var rounds []int
	countHashes(w.hasher, func(n int) { rounds = append(rounds, n) })
	for _, email := range []string{user.Email, disabled.Email, "unknown@test.example", "x"} {
		rounds = nil
		w.Anonymous().Post(t, loginPath, credentials(email, "wrong")).WantError(401, "INVALID_CREDENTIALS")
		if len(rounds) != 1 || rounds[0] != testRounds {
			t.Errorf("%s: %v rounds, want one hash of %d", email, rounds, testRounds)
		}
	}
}

// A login that waits too long for the hasher gets a 503, which does not count as a failed login.
func TestHashingQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	free := fill(t, w.hasher, 10*time.Millisecond)
	emails := append(slices.Repeat([]string{user.Email}, 7), "unknown@test.example")
	for i, email := range emails {
		a := w.Anonymous().Post(t, loginPath, credentials(email, testkit.Password))
		if a.WantError(503, "UNAVAILABLE"); a.Header.Get("Retry-After") == "" {
			t.Errorf("%d: %v", i, a.Header)
		}
	}
	admin := w.Tenant(t).User(t, "admin")
	create := j{"email": email(), "name": "Bob", "role": "viewer", "password": phrase}
	changePassword(t, admin, testkit.Password, newPhrase).WantError(503, "UNAVAILABLE")
	admin.Post(t, usersPath, create).WantError(503, "UNAVAILABLE")
	admin.Patch(t, usersPath+"/"+admin.Actor.User, j{"password": newPhrase}).WantError(503, "UNAVAILABLE")
	free()
	admin.Post(t, usersPath, create).Want(201)
	changePassword(t, admin, testkit.Password, newPhrase).Want(204)
	w.login(t, user)
	for range 5 {
		w.Anonymous().Post(t, loginPath, credentials(user.Email, "wrong")).WantError(401, "INVALID_CREDENTIALS")
	}
	// The 429 of too many failures does not wait for the hasher.
	defer fill(t, w.hasher, time.Hour)()
	tooMany(t, w.Anonymous().Post(t, loginPath, credentials(user.Email, "wrong")), "900")
}

// Logins with the known passwords of two accounts wait for the hasher, 4 of each account. A login of a third account
// is next.
func TestLoginsOfOneAccountDelayNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	attackers, victim := []*testkit.Client{w.Operator(t), w.Operator(t)}, w.Operator(t)
	const secret = "the victim's password"
	testkit.Check(t, w.accounts().SetPassword(t.Context(), victim.Email, secret))
	gate := newGate(t, w.hasher, 2)
	var wg sync.WaitGroup
	login := func(c *testkit.Client, password string) {
		wg.Go(func() {
			a, err := w.Anonymous().Send("POST", loginPath, credentials(c.Email, password))
			if err != nil || a.Status != 200 {
				t.Errorf("%v, %+v", err, a)
			}
		})
	}
	for _, c := range attackers {
		login(c, testkit.Password)
		<-gate.started
	}
	for range 9 {
		login(attackers[0], testkit.Password)
		login(attackers[1], testkit.Password)
	}
	gate.waitFor(t, 6)
	login(victim, secret)
	gate.waitFor(t, 7)
	gate.pass()
	testkit.Equal(t, <-gate.started, secret, "the hasher continues with")
	gate.open()
	wg.Wait()
}

// An account can log in 300 times within 15 minutes; more logins are not hashed. Password changes count too.
func TestLoginsAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	hashes := w.hashes()
	changePassword(t, user, testkit.Password, testkit.Password).Want(204)
	testkit.Concurrently(13, func(i int) {
		for range 23 {
			c := w.from(fmt.Sprintf("198.51.100.%d", i))
			a, err := c.Send("POST", loginPath, credentials(user.Email, testkit.Password))
			if err != nil || a.Status != 200 {
				t.Errorf("%v, %+v", err, a)
			}
		}
	})
	hashes.Store(0)
	for _, address := range []string{"198.51.100.1", "203.0.113.1"} {
		a := w.from(address).Post(t, loginPath, credentials(user.Email, testkit.Password))
		tooMany(t, a, "900")
		if detail := a.Text("detail"); detail != "Too many logins of this account; try again later" {
			t.Errorf("the detail is %q", detail)
		}
	}
	testkit.Equal(t, hashes.Load(), 0, "passwords that were hashed")
	w.login(t, w.Operator(t))
	w.clock.pass(15 * time.Minute)
	w.login(t, user)
}

// While many password changes of one tenant wait for the hasher, a change of another tenant is next.
func TestPasswordChangesOfOneTenantDelayNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin, other := w.Tenant(t).User(t, "admin"), w.Tenant(t).User(t, "admin")
	gate := newGate(t, w.hasher, 2)
	var wg sync.WaitGroup
	send := func(c *testkit.Client, method, path string, body j, want int) {
		wg.Go(func() {
			a, err := c.Send(method, path, body)
			if err != nil || a.Status != want {
				t.Errorf("%v, %+v", err, a)
			}
		})
	}
	for range 6 {
		send(admin, "POST", usersPath, j{"email": email(), "name": "x", "role": "viewer", "password": phrase}, 201)
	}
	<-gate.started
	<-gate.started
	gate.waitFor(t, 4)
	send(other, "PATCH", usersPath+"/"+other.Actor.User, j{"password": newPhrase}, 200)
	gate.waitFor(t, 5)
	gate.pass()
	testkit.Equal(t, <-gate.started, newPhrase, "the hasher continues with")
	gate.open()
	wg.Wait()
}

// A login deletes the user's expired sessions.
func TestExpiredSessionsAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	for range 3 {
		w.login(t, user)
	}
	w.clock.pass(8 * 24 * time.Hour)
	w.login(t, user)
	var n int
	err := w.DB.Read(db.As(t.Context(), db.Actor{Tenant: user.Actor.Tenant}),
		db.SQL(`select count(*) from sessions`).Into(&n))
	if err != nil || n != 1 {
		t.Errorf("%d sessions, %v", n, err)
	}
}

// Instances whose clocks differ accept each other's tokens, and a refresh that is repeated at another one: their time
// is that of PostgreSQL.
func TestInstancesWithOtherClocks(t *testing.T) {
	t.Parallel()
	var instances []*testkit.API
	for _, ahead := range []time.Duration{0, 90 * time.Second, -90 * time.Second} {
		d, err := db.Open(t.Context(), db.Config{URL: testkit.Private().AppURL(), MaxConns: 2,
			Now: func() time.Time { return time.Now().Add(ahead) }})
		testkit.Check(t, err)
		t.Cleanup(d.Close)
		instances = append(instances, testkit.New(t, testkit.Options{DB: d, Now: d.Now}))
	}
	user := instances[0].Tenant(t).User(t, "viewer")
	for i, from := range instances {
		login := from.Anonymous().Post(t, "/api/v1/auth/login", j{"email": user.Email, "password": testkit.Password})
		first := j{"refresh_token": login.Want(200).Text("refresh_token")}
		next := from.Anonymous().Post(t, "/api/v1/auth/refresh", first).Want(200)
		for k, to := range instances {
			other := &testkit.Client{API: to, Token: next.Text("access_token")}
			if a := other.Get(t, "/api/v1/auth/me"); a.Status != 200 {
				t.Errorf("instance %d rejects a token of instance %d: %s", k, i, a.Body)
			}
			a := to.Anonymous().Post(t, "/api/v1/auth/refresh", first)
			if a.Status != 200 || a.Text("refresh_token") != next.Text("refresh_token") {
				t.Errorf("instance %d answers a repeated refresh of instance %d with %d %s", k, i, a.Status, a.Body)
			}
		}
	}
}
