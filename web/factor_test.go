package web_test

import (
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

var (
	secretText   = regexp.MustCompile(`<pre class="secret">(\w+)</pre>`)
	recoveryText = regexp.MustCompile(`\d{4}(-\d{4}){4}`)
)

const factorPath = "/account/second-factor"

// A person sets up a second factor with the QR code, signs in with a code and with a recovery code, and turns it off.
func TestSecondFactorPages(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	api := newAPI(t, testkit.Options{Now: now})
	user := api.Operator(t)
	b := signIn(t, user)
	b.get(t, "/account").shows(t, "Second factor", "Set up")
	p := b.get(t, factorPath).want(t, 200)
	p.submit(t, factorPath, "current_password", "wrong").want(t, 422).shows(t, "The current password is wrong")
	p = p.submit(t, factorPath, "current_password", testkit.Password).want(t, 200)
	found := secretText.FindStringSubmatch(p.text)
	if found == nil || !strings.Contains(p.text, `<svg class="qr-code"`) ||
		!strings.Contains(p.text, `inputmode="numeric" autocomplete="one-time-code"`) {
		t.Fatalf("the page has no secret or no QR code: %s", p.words())
	}
	wrong := p.submit(t, factorPath+"/confirm", "otp", "000000").want(t, 422)
	wrong.shows(t, "The code is wrong", found[1])
	code := func() string { return testkit.TOTP(found[1], now()) }
	on := wrong.submit(t, factorPath+"/confirm", "otp", code()).want(t, 200)
	codes := recoveryText.FindAllString(on.words(), -1)
	testkit.Equal(t, len(codes), 10, "recovery codes")
	testkit.Equal(t, on.header.Get("Cache-Control"), "no-store", "Cache-Control")
	b.get(t, factorPath).want(t, 200).shows(t, "10 of 10 are left").hides(t, codes[0])

	// The password alone leads to the second step, which does not have the password.
	ahead.Add(int64(2 * time.Minute))
	other := newBrowser(t, api.URL)
	step := other.get(t, "/sign-in?next=%2Fspools").
		submit(t, "/sign-in", "email", user.Email, "password", testkit.Password).want(t, 200)
	step.shows(t, "Enter your code")
	testkit.Equal(t, step.header.Get("Set-Cookie"), "", "the first step sets a cookie")
	testkit.Lacks(t, step.text, testkit.Password, "the page has the password")
	other.get(t, "/").want(t, 303)
	token := step.form(t, "/sign-in/code").Get("token")
	(&testkit.Client{API: api, Token: token}).Get(t, "/api/v1/spools").WantError(401, "INVALID_TOKEN")
	api.Anonymous().Post(t, "/api/v1/auth/refresh", j{"refresh_token": token}).WantError(401, "INVALID_TOKEN")
	step = step.submit(t, "/sign-in/code", "otp", "").want(t, 422).shows(t, "Is required.")
	step = step.submit(t, "/sign-in/code", "otp", "111111").want(t, 401).
		shows(t, "The code is wrong or was used already.")
	step.submit(t, "/sign-in/code", "otp", code()).to(t, "/spools")
	step.submit(t, "/sign-in/code", "otp", code()).want(t, 401)
	step.submit(t, "/sign-in/code", "otp", code(), "token", token+"x").want(t, 401).shows(t, "Sign in again", "Password")
	old := step.form(t, "/sign-in/code")
	ahead.Add(int64(11 * time.Minute))
	old.Set("otp", codes[0])
	newBrowser(t, api.URL).do(t, "POST", "/sign-in/code", old).want(t, 401).shows(t, "this took too long")

	// A recovery code works in the same input, and once.
	second := newBrowser(t, api.URL)
	step = second.get(t, "/sign-in").submit(t, "/sign-in", "email", user.Email, "password", testkit.Password)
	step.submit(t, "/sign-in/code", "otp", codes[0]).to(t, "/")
	step.submit(t, "/sign-in/code", "otp", codes[0]).want(t, 401)
	p = second.get(t, factorPath).shows(t, "9 of 10 are left")
	p.submit(t, factorPath+"/recovery-codes", "otp", codes[0]).want(t, 422).shows(t, "The code is wrong")
	renewed := recoveryText.FindAllString(
		p.submit(t, factorPath+"/recovery-codes", "otp", codes[1]).want(t, 200).words(), -1)
	testkit.Equal(t, len(renewed), 10, "new recovery codes")
	p.submit(t, factorPath+"/disable", "current_password", testkit.Password, "otp", codes[2]).want(t, 422)

	// The page for the code does not outlive the password that led to it.
	step = newBrowser(t, api.URL).get(t, "/sign-in").
		submit(t, "/sign-in", "email", user.Email, "password", testkit.Password)
	user.Hold(t, `update users set password_hash = password_hash || ' ' where id = '`+user.Actor.User+`'`).Commit()
	step.submit(t, "/sign-in/code", "otp", renewed[1]).want(t, 401).shows(t, "Sign in again")
	user.Hold(t, `update users set password_hash = trim(password_hash) where id = '`+user.Actor.User+`'`).Commit()
	p.submit(t, factorPath+"/disable", "current_password", testkit.Password, "otp", renewed[0]).to(t, factorPath).
		shows(t, "The second factor is turned off.")
	b.get(t, "/").want(t, 303) // the other sessions have ended
	signIn(t, user)
}

// Where the farm requires a second factor, a session without one leads to the set-up.
func TestRequiredFactorPages(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	admin, user := tenant.User(t, "admin"), tenant.User(t, "viewer")
	b, theirs := signIn(t, admin), signIn(t, user)
	b.get(t, "/settings").submit(t, "/settings", "second_factor", "all").want(t, 422).
		shows(t, "Set up your own second factor first")
	setUp := func(b *browser) *page {
		t.Helper()
		p := b.get(t, factorPath).submit(t, factorPath, "current_password", testkit.Password).want(t, 200)
		secret := secretText.FindStringSubmatch(p.text)[1]
		return p.submit(t, factorPath+"/confirm", "otp", testkit.TOTP(secret, time.Now())).want(t, 200)
	}
	setUp(b)
	b.get(t, "/settings").submit(t, "/settings", "second_factor", "all").to(t, "/settings")

	for _, path := range []string{"/", "/spools", "/account", "/settings"} {
		theirs.get(t, path).to(t, factorPath).shows(t, "The farm requires a second factor")
	}
	theirs.do(t, "POST", "/account/password", url.Values{"current_password": {testkit.Password},
		"new_password": {"another long phrase"}}).to(t, factorPath)
	theirs.get(t, factorPath).submit(t, "/sign-out").want(t, 303)
	theirs = signIn(t, user)
	theirs.get(t, "/").to(t, factorPath)
	setUp(theirs)
	theirs.get(t, "/spools").want(t, 200)

	// The page of the users shows who has one, and removes that of others.
	people := b.get(t, "/settings/users").shows(t, "Second factor")
	testkit.Lacks(t, people.text, admin.Actor.User+"/reset-otp", "an admin can remove the own one")
	people.submit(t, "/settings/users/"+user.Actor.User+"/reset-otp").to(t, "/settings/users").
		shows(t, "The second factor is removed.")
	theirs.get(t, "/").want(t, 303)
}
