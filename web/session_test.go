package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spoolwright/auth"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/web"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	user := api.Operator(t)
	b := newBrowser(t, api.URL)
	b.get(t, "/spools?sort=number").want(t, 303)
	sign := b.get(t, "/spools?sort=number").to(t, "/sign-in?next=%2Fspools%3Fsort%3Dnumber")

	wrong := sign.submit(t, "/sign-in", "email", user.Email, "password", "not this one").want(t, 401)
	wrong.shows(t, "Incorrect email or password.")
	if got := wrong.form(t, "/sign-in"); got.Get("email") != user.Email || got.Get("next") != "/spools?sort=number" {
		t.Errorf("the form has lost what was typed: %v", got)
	}
	testkit.Equal(t, wrong.header.Get("Www-Authenticate"), "", "the browser would ask for a password")
	wrong.submit(t, "/sign-in", "email", "", "password", "").want(t, 422).shows(t, "Is required.")

	in := wrong.submit(t, "/sign-in", "password", testkit.Password)
	cookie := in.header.Get("Set-Cookie")
	for _, part := range []string{b.cookie(t) + "=", "; Path=/", "; HttpOnly", "; SameSite=Lax", "; Max-Age=604800"} {
		testkit.Contains(t, cookie, part, "the cookie")
	}
	in.to(t, "/spools?sort=number").shows(t, "Spools", "Sign out", "Test operator")
	b.get(t, "/sign-in").to(t, "/")

	// Another site cannot be the next page, or send forms.
	for _, next := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, "evil"} {
		out := newBrowser(t, api.URL)
		out.get(t, "/sign-in?next="+url.QueryEscape(next)).
			submit(t, "/sign-in", "email", user.Email, "password", testkit.Password, "next", next).to(t, "/")
	}
	b.header.Set("Sec-Fetch-Site", "cross-site")
	b.do(t, "POST", "/sign-out", url.Values{}).want(t, 403).shows(t, "another site")
	b.header.Set("Sec-Fetch-Site", "same-origin")
	b.get(t, "/").submit(t, "/sign-out").to(t, "/sign-in").hides(t, "Sign out")
	b.get(t, "/").want(t, 303)
}

// A session ends when that of a refresh token would, and its cookie is neither an access token nor a refresh token.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	api := newAPI(t, testkit.Options{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	tenant := api.Tenant(t)
	admin, user := tenant.User(t, "admin"), tenant.User(t, "operator")
	b := signIn(t, user)
	cookies := b.client.Jar.Cookies(&url.URL{Scheme: "http", Host: strings.TrimPrefix(api.URL, "http://"), Path: "/"})
	if len(cookies) != 1 {
		t.Fatalf("the cookies are %v", cookies)
	}
	value := cookies[0].Value
	(&testkit.Client{API: api, Token: value}).Get(t, "/api/v1/spools").WantError(401, "INVALID_TOKEN")
	api.Anonymous().With("Cookie", b.cookie(t)+"="+value).Get(t, "/api/v1/spools").WantError(401, "INVALID_TOKEN")
	api.Anonymous().Post(t, "/api/v1/auth/refresh", j{"refresh_token": value}).WantError(401, "INVALID_TOKEN")
	set := api.Anonymous().Post(t, "/api/v1/auth/login",
		j{"email": user.Email, "password": testkit.Password}).Want(200)
	for _, other := range []string{set.Text("access_token"), set.Text("refresh_token"), "x", ""} {
		stranger := newBrowser(t, api.URL)
		stranger.header.Set("Cookie", stranger.cookie(t)+"="+other)
		stranger.get(t, "/").want(t, 303)
	}

	// A request after more than an hour extends the session.
	week := 7 * 24 * time.Hour
	testkit.Equal(t, b.get(t, "/").want(t, 200).header.Get("Set-Cookie"), "", "each request has a new cookie")
	ahead.Add(int64(week - time.Minute))
	if b.get(t, "/").want(t, 200).header.Get("Set-Cookie") == "" {
		t.Error("the session is not extended")
	}
	ahead.Add(int64(week - time.Minute))
	b.get(t, "/").want(t, 200)
	ahead.Add(int64(week + time.Minute))
	b.get(t, "/").want(t, 303)
	ahead.Store(0)

	// A session that is always used ends 90 days after the sign-in.
	b = signIn(t, user)
	for range 15 {
		ahead.Add(int64(6 * 24 * time.Hour))
		if ahead.Load() < int64(90*24*time.Hour) {
			b.get(t, "/").want(t, 200)
		}
	}
	b.get(t, "/").want(t, 303)
	ahead.Store(0)

	// A sign-in ends the session that the browser had before.
	b = newBrowser(t, api.URL)
	form := b.get(t, "/sign-in").want(t, 200)
	form.submit(t, "/sign-in", "email", user.Email, "password", testkit.Password).to(t, "/")
	earlier := newBrowser(t, api.URL)
	earlier.client.Jar.SetCookies(b.url(t, "/"), b.client.Jar.Cookies(b.url(t, "/")))
	earlier.get(t, "/").want(t, 200)
	form.submit(t, "/sign-in", "email", user.Email, "password", testkit.Password).to(t, "/")
	b.get(t, "/").want(t, 200)
	earlier.get(t, "/").want(t, 303)

	// A new role applies at once, and a disabled user has no session.
	b = signIn(t, user)
	b.get(t, "/spools/new").want(t, 200)
	path := "/api/v1/users/" + user.Actor.User
	admin.Patch(t, path, j{"role": "viewer"}).Want(200)
	b.get(t, "/spools/new").want(t, 403).shows(t, "Your role does not permit this.")
	b.get(t, "/spools").want(t, 200).hides(t, "Add spools")
	admin.Patch(t, path, j{"disabled": true}).Want(200)
	b.get(t, "/spools").want(t, 303)
	admin.Patch(t, path, j{"disabled": false}).Want(200)
	b.get(t, "/spools").want(t, 303)
	b = signIn(t, user)
	testkit.Check(t, api.DB.Write(db.As(t.Context(), db.Actor{Tenant: tenant.ID}), // keeps the session
		db.SQL(`update users set disabled_at = now() where id = $1`, user.Actor.User)))
	b.get(t, "/spools").want(t, 303)

	// One sign-out ends one session, or all.
	first, second := signIn(t, admin), signIn(t, admin)
	first.get(t, "/").submit(t, "/sign-out").want(t, 303)
	second.get(t, "/").want(t, 200)
	third := signIn(t, admin)
	third.get(t, "/account").shows(t, "Admin", admin.Email)
	third.do(t, "POST", "/sign-out", url.Values{"everywhere": {"1"}}).want(t, 303)
	second.get(t, "/").want(t, 303)

	// A new password ends all sessions, a wrong one none.
	b = signIn(t, admin)
	refused := b.get(t, "/account").
		submit(t, "/account/password", "current_password", "wrong", "new_password", "a new password").want(t, 422)
	refused.shows(t, "The current password is wrong")
	refused.submit(t, "/account/password", "current_password", testkit.Password, "new_password", "short").
		want(t, 422).shows(t, "10 characters")
	refused.submit(t, "/account/password", "current_password", testkit.Password, "new_password", "qwerty123456").
		want(t, 422).shows(t, "Is one of the most common passwords")
	refused.submit(t, "/account/password", "current_password", testkit.Password, "new_password", "a new password").
		to(t, "/sign-in")
}

// Browsers send the cookies of a host to all its ports. Two services on one host keep their sessions nevertheless.
func TestTwoServicesOfAHost(t *testing.T) {
	t.Parallel()
	proxy := func(c *server.Config) { c.TrustedProxies, _ = server.ParsePrefixes("127.0.0.1") }
	one, two := newAPI(t, testkit.Options{Change: proxy}), newAPI(t, testkit.Options{Change: proxy})
	b := signIn(t, one.Operator(t))
	b.get(t, "/").shows(t, "Test operator")
	other := two.Tenant(t).User(t, "admin")
	second := &browser{two.URL, b.client, b.header}
	second.get(t, "/sign-in").submit(t, "/sign-in", "email", other.Email, "password", testkit.Password).to(t, "/").
		shows(t, "Test admin")
	b.get(t, "/").want(t, 200).shows(t, "Test operator")
	second.get(t, "/").submit(t, "/sign-out").to(t, "/sign-in")
	b.get(t, "/").want(t, 200).shows(t, "Test operator")

	// Behind a proxy, the name follows the address that the browser has.
	for host, want := range map[string]string{"farm.example": "__Host-spoolwright=", "[::1]": "__Host-spoolwright=",
		"farm.example:8443": "__Host-spoolwright-8443=", "[::1]:8443": "__Host-spoolwright-8443="} {
		r, err := http.NewRequest("POST", two.URL+"/sign-in", strings.NewReader(
			url.Values{"email": {other.Email}, "password": {testkit.Password}}.Encode()))
		testkit.Check(t, err)
		r.Host = host
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Forwarded-Proto", "https")
		cookie := newBrowser(t, two.URL).send(t, r).want(t, 303).header.Get("Set-Cookie")
		if !strings.HasPrefix(cookie, want) {
			t.Errorf("%s: the cookie is %s", host, cookie)
		}
	}
}

// Over HTTP from another machine, nobody signs in, unless the settings allow it.
func TestInsecure(t *testing.T) {
	t.Parallel()
	proxy := func(c *server.Config) { c.TrustedProxies, _ = server.ParsePrefixes("127.0.0.1") }
	api := newAPI(t, testkit.Options{Change: proxy})
	user := api.Operator(t)
	b := newBrowser(t, api.URL)
	b.header.Set("X-Forwarded-For", "192.0.2.1")
	b.get(t, "/sign-in").want(t, 200).shows(t, "not encrypted", "TLS_SELF_SIGNED=on", "WEB=insecure").hides(t, "Password")
	form := url.Values{"email": {user.Email}, "password": {testkit.Password}}
	b.do(t, "POST", "/sign-in", form).want(t, 403).shows(t, "not encrypted")

	b.header.Set("X-Forwarded-Proto", "https")
	cookie := b.do(t, "POST", "/sign-in", form).want(t, 303).header.Get("Set-Cookie")
	if !strings.HasPrefix(cookie, "__Host-"+b.cookie(t)+"=") || !strings.Contains(cookie, "; Secure") {
		t.Errorf("the cookie is %s", cookie)
	}
	value, _, _ := strings.Cut(cookie, ";")
	b.header.Set("Cookie", value)
	b.get(t, "/").want(t, 200)
	b.header.Del("X-Forwarded-Proto")
	b.get(t, "/").want(t, 303)

	allowed := newAPI(t, testkit.Options{Change: proxy, Pages: func(c *web.Config) { c.Insecure = true }})
	b = newBrowser(t, allowed.URL)
	b.header.Set("X-Forwarded-For", "192.0.2.1")
	b.get(t, "/sign-in").submit(t, "/sign-in", "email", user.Email, "password", testkit.Password).to(t, "/")
}

// The link of the first start signs in once, and only from the machine of the service.
func TestFirstLogin(t *testing.T) {
	t.Parallel()
	var once auth.OneLogin
	api := newAPI(t, testkit.Options{Pages: func(c *web.Config) { c.Once = &once }})
	user := api.Operator(t)
	b := newBrowser(t, api.URL)
	b.get(t, "/first-login?key=").want(t, 404)
	link := "/first-login?key=" + once.Offer(user.Email, testkit.Password)
	b.header.Set("X-Forwarded-For", "192.0.2.1")
	b.get(t, link).want(t, 404)
	b.header.Del("X-Forwarded-For")
	b.get(t, link[:len(link)-1]).want(t, 404)
	b.get(t, link).to(t, "/").shows(t, "Test operator")
	newBrowser(t, api.URL).get(t, link).want(t, 404).shows(t, "This link works once", "Password")
	newBrowser(t, newAPI(t, testkit.Options{}).URL).get(t, link).want(t, 404)
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	now := time.Now() // stands still, so that no request is allowed again meanwhile
	api := newAPI(t, testkit.Options{PerMinute: 3, PerHour: 100, Now: func() time.Time { return now }})
	user := api.Operator(t)
	b := signIn(t, user)
	for range 3 {
		b.get(t, "/spools").want(t, 200)
	}
	limited := b.get(t, "/spools").want(t, 429).shows(t, "Too many requests")
	if limited.header.Get("Retry-After") == "" || !strings.HasPrefix(limited.header.Get("Content-Type"), "text/html") {
		t.Errorf("the headers are %v", limited.header)
	}
	user.Get(t, "/api/v1/spools").WantError(429, "RATE_LIMIT_EXCEEDED") // pages count as other requests of the user
}

// Requests with the cookie of a session that has ended count for the address that sends them: who has the cookie of a
// former session takes no request from the person, nor from others at the same address who are signed in.
func TestRateLimitOfEndedSession(t *testing.T) {
	t.Parallel()
	now := time.Now()
	api := newAPI(t, testkit.Options{PerMinute: 3, PerHour: 100, Now: func() time.Time { return now }})
	user := api.Operator(t)
	ended := signIn(t, user)
	cookie := ended.client.Jar.Cookies(ended.url(t, "/"))[0]
	ended.do(t, "POST", "/sign-out", url.Values{}).want(t, 303)
	ended.header.Set("Cookie", cookie.Name+"="+cookie.Value)
	now = now.Add(time.Minute)
	statuses := map[int]int{}
	for range 7 {
		statuses[ended.get(t, "/spools").status]++
	}
	if statuses[303] != 3 || statuses[429] != 4 {
		t.Errorf("7 requests with a former cookie are answered %v, want 3 times 303 and 4 times 429", statuses)
	}
	user.Get(t, "/api/v1/spools").Want(200)
	now = now.Add(time.Minute)
	again := signIn(t, user)
	for range 2 {
		again.get(t, "/spools").want(t, 200)
		ended.get(t, "/spools")
	}
}

// A path that does not exist has a page for browsers, and JSON for other clients.
func TestUnknownPath(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	b := newBrowser(t, api.URL)
	b.get(t, "/nothing").want(t, 404).shows(t, "Not found")
	b.do(t, "POST", "/spools/new/x", url.Values{}).want(t, 404)
	b.get(t, "/sign-out").want(t, 405)
	for path, accept := range map[string]string{"/nothing": "*/*", "/api/v1/nothing": "text/html"} {
		r, err := http.NewRequest("GET", api.URL+path, nil)
		testkit.Check(t, err)
		r.Header.Set("Accept", accept)
		a, err := http.DefaultClient.Do(r)
		testkit.Check(t, err)
		a.Body.Close()
		testkit.Equal(t, a.Header.Get("Content-Type"), "application/json", "%s: %v", path, a.Header)
	}
}

// The page of the account lists the sessions of the visitor, and ends one of them.
func TestAccountSessions(t *testing.T) {
	t.Parallel()
	tenant := newAPI(t, testkit.Options{}).Tenant(t)
	c := tenant.User(t, "viewer")
	here, there := signIn(t, c), signIn(t, c)
	page := here.get(t, "/account").want(t, 200).shows(t, "This browser")
	var others []string
	for _, item := range formTag.FindAllStringSubmatch(page.text, -1) {
		if action, _ := attribute(item[1], "action"); strings.HasPrefix(action, "/account/sessions/") {
			others = append(others, action)
		}
	}
	if len(others) != 2 {
		t.Fatalf("the page has %v", others)
	}
	signIn(t, tenant.User(t, "admin")).do(t, "POST", others[0], url.Values{}).want(t, 303)
	there.get(t, "/account").want(t, 200)
	mine := regexp.MustCompile(`(?s)This browser.*?action="([^"]*)"`).FindStringSubmatch(page.text)[1]
	for _, action := range others {
		if action != mine {
			here.do(t, "POST", action, url.Values{}).to(t, "/account")
			here.do(t, "POST", action, url.Values{}).to(t, "/account")
		}
	}
	there.get(t, "/account").want(t, 303)
	here.do(t, "POST", mine, url.Values{}).want(t, 303)
	here.get(t, "/").want(t, 303)
}

// The sign-in says that a session has ended, and leads back to the page whose form was sent, and not to another site.
func TestFormAfterTheSession(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	user := api.Operator(t)
	newBrowser(t, api.URL).get(t, "/sign-in").hides(t, "Your session has ended")
	b := signIn(t, user)
	user.Post(t, "/api/v1/auth/password", j{"current_password": testkit.Password, "new_password": "another long phrase"}).
		Want(204)
	for referer, want := range map[string]string{
		api.URL + "/spools/new?filament_id=1": "/sign-in?next=%2Fspools%2Fnew%3Ffilament_id%3D1",
		api.URL + "/":                         "/sign-in", "": "/sign-in", "https://evil.example/spools": "/sign-in",
		api.URL + "//evil.example/": "/sign-in",
	} {
		r, err := http.NewRequest("POST", api.URL+"/spools/new", strings.NewReader("color=Teal"))
		testkit.Check(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Referer", referer)
		sent := b.send(t, r).want(t, 303)
		testkit.Equal(t, sent.header.Get("Location"), want, "where a form from %q leads", referer)
	}
	b.get(t, "/sign-in?next=/spools/new").want(t, 200).shows(t, "Your session has ended. Sign in to continue.").
		hides(t, "Teal")
}
