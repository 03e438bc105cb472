package auth_test

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"spoolwright/auth"
	"spoolwright/auth/accounts"
	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/db/tables"
	"spoolwright/server"
	"spoolwright/tests/testkit"
)

const (
	otpPath      = "/api/v1/auth/otp"
	settingsPath = "/api/v1/settings"
)

// app is an app that shows codes. It shows those of the next steps, too, so that tests need not wait.
type app struct {
	w        *world
	secret   string
	recovery []string
}

func (a *app) code(steps int) string {
	return testkit.TOTP(a.secret, a.w.clock.now().Add(time.Duration(steps)*30*time.Second))
}

// next lets time pass until no code that was used is valid, and returns a code.
func (a *app) next() string {
	a.w.clock.pass(90 * time.Second)
	return a.code(0)
}

// setUp turns on the second factor of a user.
func (w *world) setUp(t *testing.T, c *testkit.Client) *app {
	t.Helper()
	a := &app{w: w, secret: c.Post(t, otpPath, j{"current_password": testkit.Password}).Want(200).Text("secret")}
	r := c.Post(t, otpPath+"/confirm", j{"otp": a.code(0)}).Want(200)
	for i := range 10 {
		a.recovery = append(a.recovery, r.Text(fmt.Sprintf("recovery_codes.%d", i)))
	}
	w.clock.pass(90 * time.Second)
	return a
}

// about returns the field that an error concerns, for Shows.
func about(field string) map[string]string { return map[string]string{"errors.0.field": field} }

func withOTP(c *testkit.Client, otp string) j {
	return j{"email": c.Email, "password": testkit.Password, "otp": otp}
}

// signedIn returns the client with an access token of a new login.
func (w *world) signedIn(t *testing.T, c *testkit.Client, otp string) (*testkit.Client, tokenSet) {
	t.Helper()
	set := tokensOf(t, w.Anonymous().Post(t, loginPath, withOTP(c, otp)))
	return as(c, set.Access), set
}

func TestSecondFactor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	user.Get(t, mePath).Shows(map[string]string{"otp_enabled": "false", "otp_setup_required": "false",
		"recovery_codes_left": "null"})
	tokensOf(t, w.Anonymous().Post(t, loginPath, withOTP(user, "000000"))) // ignored

	// The set-up needs the password, and then a code of the secret.
	user.Post(t, otpPath, j{"current_password": "wrong"}).WantError(400, "INVALID_CREDENTIALS").
		Shows(about("current_password"))
	user.Post(t, otpPath+"/confirm", j{"otp": "000000"}).WantError(409, "OTP_NOT_BEGUN")
	user.Post(t, otpPath+"/disable", j{"current_password": testkit.Password, "otp": "000000"}).
		WantError(409, "OTP_NOT_ENABLED")
	user.Post(t, otpPath+"/recovery-codes", j{"otp": "000000"}).WantError(409, "OTP_NOT_ENABLED")
	first := user.Post(t, otpPath, j{"current_password": testkit.Password}).Want(200)
	if uri := first.Text("uri"); !strings.Contains(uri, "secret="+first.Text("secret")+"&") ||
		!strings.Contains(uri, user.Email) {
		t.Errorf("the address is %s", uri)
	}
	w.clock.pass(time.Hour)
	old := &app{w: w, secret: first.Text("secret")}
	user = as(user, w.login(t, user).Access)
	user.Post(t, otpPath+"/confirm", j{"otp": old.code(0)}).WantError(409, "OTP_NOT_BEGUN")
	a := &app{w: w, secret: user.Post(t, otpPath, j{"current_password": testkit.Password}).Want(200).Text("secret")}
	user.Post(t, otpPath+"/confirm", j{"otp": old.code(0)}).WantError(400, "INVALID_OTP").Shows(about("otp"))
	w.login(t, user) // nothing has changed

	// From the first code on, a login needs one, and the other sessions have ended.
	mine, set := user, w.login(t, user)
	other := w.login(t, user)
	mine = as(user, set.Access)
	confirmed := mine.Post(t, otpPath+"/confirm", j{"otp": a.code(0)}).Want(200)
	confirmed.WantLen(t, "recovery_codes", 10)
	a.recovery = []string{confirmed.Text("recovery_codes.0"), confirmed.Text("recovery_codes.1")}
	w.refresh(t, set.Refresh)
	w.refreshFails(t, other.Refresh, "INVALID_TOKEN")
	mine.Get(t, mePath).Shows(map[string]string{"otp_enabled": "true", "recovery_codes_left": "10"})
	mine.Post(t, otpPath, j{"current_password": testkit.Password}).WantError(409, "OTP_ENABLED")
	mine.Post(t, otpPath+"/confirm", j{"otp": a.code(1)}).WantError(409, "OTP_ENABLED")
	login := func(otp string) *testkit.Response { return w.Anonymous().Post(t, loginPath, withOTP(user, otp)) }
	w.Anonymous().Post(t, loginPath, credentials(user.Email, testkit.Password)).WantError(401, "OTP_REQUIRED")
	w.Anonymous().Post(t, loginPath, j{"email": user.Email, "password": "wrong", "otp": a.code(1)}).
		WantError(401, "INVALID_CREDENTIALS")
	login(a.code(0)).WantError(401, "INVALID_OTP").Shows(about("otp")) // used for the set-up

	// One step of drift either way, each code once, none of an earlier step than the last one.
	login(a.code(2)).WantError(401, "INVALID_OTP")
	tokensOf(t, login(" "+a.code(1)[:3]+" "+a.code(1)[3:]))
	login(a.code(1)).WantError(401, "INVALID_OTP")
	w.clock.pass(90 * time.Second)
	tokensOf(t, login(a.code(-1)))
	tokensOf(t, login(a.code(0)))
	login(a.code(-1)).WantError(401, "INVALID_OTP")
	w.clock.pass(60 * time.Second)
	login(a.code(-2)).WantError(401, "INVALID_OTP")
	tokensOf(t, login(a.code(-1)))

	// Recovery codes work once, as they are shown or without dashes.
	tokensOf(t, login(a.recovery[0]))
	login(a.recovery[0]).WantError(401, "INVALID_OTP")
	mine, _ = w.signedIn(t, user, strings.ReplaceAll(a.recovery[1], "-", " "))
	mine.Get(t, mePath).Shows(map[string]string{"recovery_codes_left": "8"})
	mine.Post(t, otpPath+"/recovery-codes", j{"otp": a.recovery[1]}).WantError(400, "INVALID_OTP").Shows(about("otp"))
	w.clock.pass(20 * time.Minute)
	renewed := mine.Post(t, otpPath+"/recovery-codes", j{"otp": a.code(0)}).Want(200)
	login(confirmed.Text("recovery_codes.2")).WantError(401, "INVALID_OTP")
	mine, set = w.signedIn(t, user, renewed.Text("recovery_codes.0"))

	// Turning it off needs the password and a code.
	for _, body := range []j{{"current_password": "wrong", "otp": renewed.Text("recovery_codes.1")},
		{"current_password": testkit.Password, "otp": "1"}} {
		if r := mine.Post(t, otpPath+"/disable", body); r.Status != 400 {
			t.Errorf("%v: %d %s", body, r.Status, r.Body)
		}
	}
	other = tokensOf(t, login(renewed.Text("recovery_codes.2")))
	mine.Post(t, otpPath+"/disable", j{"current_password": testkit.Password, "otp": renewed.Text("recovery_codes.1")}).
		Want(204)
	w.refresh(t, set.Refresh)
	w.refreshFails(t, other.Refresh, "INVALID_TOKEN")
	w.login(t, user)
}

// A code and a recovery code each start one session, however many logins send them at the same time.
func TestCodesWorkOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	a := w.setUp(t, user)
	for _, code := range []string{a.code(0), a.recovery[0]} {
		var started, refused sync.Map
		testkit.Concurrently(32, func(i int) {
			r := w.from(fmt.Sprintf("198.51.100.%d", i)).Post(t, loginPath, withOTP(user, code))
			switch {
			case r.Status == 200:
				started.Store(i, true)
			case r.Status == 401 && r.Text("code") == "INVALID_OTP" || r.Status == 429 || r.Status == 503:
				refused.Store(i, true)
			default:
				t.Errorf("%d %s", r.Status, r.Body)
			}
		})
		testkit.Equal(t, countOf(&started), 1, "sessions of %s", code)
		testkit.Equal(t, countOf(&refused), 31, "refused logins")
	}
	var sessions int
	testkit.Check(t, w.DB.Read(db.As(t.Context(), db.Actor{Tenant: user.Actor.Tenant}),
		db.SQL(`select count(*) from sessions where user_id = $1`, user.Actor.User).Into(&sessions)))
	testkit.Equal(t, sessions, 2, "sessions in the database")
}

func countOf(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

// Who has only the password gets nothing, and cannot lock out the user: neither at a known address, nor with a
// recovery code.
func TestGuessedCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	home := w.from("192.0.2.1")
	tokensOf(t, home.Post(t, loginPath, credentials(user.Email, testkit.Password)))
	a := w.setUp(t, user)
	tokensOf(t, home.Post(t, loginPath, withOTP(user, a.code(0))))

	// 5 from one address, then 20 from all unknown addresses within a day, also with the right code.
	thief := w.from("203.0.113.1")
	for range 5 {
		thief.Post(t, loginPath, withOTP(user, "abc")).WantError(401, "INVALID_OTP")
	}
	limited := thief.Post(t, loginPath, withOTP(user, a.next()))
	limited.WantError(429, "RATE_LIMIT_EXCEEDED")
	if limited.Header.Get("Retry-After") == "" || !strings.Contains(limited.Text("detail"), "recovery code") {
		t.Errorf("%s", limited.Body)
	}
	guess := func(i int) *testkit.Response {
		return w.from(fmt.Sprintf("203.0.113.%d", 2+i/5)).Post(t, loginPath, withOTP(user, "000000"))
	}
	for i := range 15 {
		guess(i).WantError(401, "INVALID_OTP")
	}
	guess(16).WantError(429, "RATE_LIMIT_EXCEEDED")
	hotel := w.from("203.0.113.200")
	hotel.Post(t, loginPath, withOTP(user, a.next())).WantError(429, "RATE_LIMIT_EXCEEDED")

	// The user is not locked out.
	tokensOf(t, home.Post(t, loginPath, withOTP(user, a.next())))
	tokensOf(t, hotel.Post(t, loginPath, withOTP(user, a.recovery[0])))
	tokensOf(t, hotel.Post(t, loginPath, withOTP(user, a.next()))) // the address is known now
	for range 5 {
		hotel.Post(t, loginPath, withOTP(user, "000000")).WantError(401, "INVALID_OTP")
	}
	hotel.Post(t, loginPath, withOTP(user, "000000")).WantError(429, "RATE_LIMIT_EXCEEDED")
	tokensOf(t, home.Post(t, loginPath, withOTP(user, a.next())))

	// A known address has its own 20.
	for i := 5; i < 20; i++ {
		w.clock.pass(16 * time.Minute)
		hotel.Post(t, loginPath, withOTP(user, "000000")).WantError(401, "INVALID_OTP")
	}
	w.clock.pass(16 * time.Minute)
	hotel.Post(t, loginPath, withOTP(user, a.next())).WantError(429, "RATE_LIMIT_EXCEEDED")
	tokensOf(t, home.Post(t, loginPath, withOTP(user, a.next())))

	// Another instance counts the same, and a day later codes count again.
	second := newWorldWith(t, w.DB, w.clock)
	second.from("203.0.113.77").Post(t, loginPath, withOTP(user, a.next())).WantError(429, "RATE_LIMIT_EXCEEDED")
	w.clock.pass(24 * time.Hour)
	tokensOf(t, thief.Post(t, loginPath, withOTP(user, a.next())))

	// The right password without a code is limited as guesses are, for unknown addresses only.
	w.clock.pass(16 * time.Minute)
	for i := range 100 {
		w.from(fmt.Sprintf("198.51.100.%d", i)).Post(t, loginPath, credentials(user.Email, testkit.Password)).
			WantError(401, "OTP_REQUIRED")
	}
	w.from("198.51.100.200").Post(t, loginPath, credentials(user.Email, testkit.Password)).
		WantError(429, "RATE_LIMIT_EXCEEDED")
	tokensOf(t, home.Post(t, loginPath, withOTP(user, a.next())))
}

// A user who is disabled between the password and the code, or before the session begins, does not get in.
func TestDisabledDuringLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user, plain := w.Operator(t), w.Operator(t)
	a := w.setUp(t, user)
	for c, body := range map[*testkit.Client]j{user: withOTP(user, a.code(0)),
		plain: credentials(plain.Email, testkit.Password)} {
		h := c.Hold(t, `update users set disabled_at = now() where id = '`+c.Actor.User+`'`)
		answered := h.StartWaiting(1, func() {
			w.Anonymous().Post(t, loginPath, body).WantError(401, "INVALID_CREDENTIALS")
		})
		h.Commit()
		<-answered
	}
}

// A password that is replaced before the code beside it is verified permits nothing, although the code is right.
func TestPasswordReplacedDuringLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user, plain := w.Operator(t), w.Operator(t)
	a := w.setUp(t, user)
	for _, login := range []struct {
		c    *testkit.Client
		body j
	}{{plain, credentials(plain.Email, testkit.Password)}, {user, withOTP(user, a.code(0))},
		{user, withOTP(user, a.recovery[0])}} {
		h := login.c.Hold(t, `update users set password_hash = password_hash || ' ' where id = '`+login.c.Actor.User+`'`)
		answered := h.StartWaiting(1, func() {
			w.Anonymous().Post(t, loginPath, login.body).WantError(401, "INVALID_CREDENTIALS")
		})
		h.Commit()
		<-answered
		login.c.Hold(t, `update users set password_hash = trim(password_hash) where id = '`+login.c.Actor.User+`'`).Commit()
	}
	h := user.Hold(t, `update users set password_hash = password_hash || ' ' where id = '`+user.Actor.User+`'`)
	answered := h.StartWaiting(1, func() {
		user.Post(t, otpPath+"/disable", j{"current_password": testkit.Password, "otp": a.recovery[1]}).
			WantError(409, "OTP_NOT_ENABLED")
	})
	h.Commit()
	<-answered
	user.Get(t, mePath).Shows(map[string]string{"otp_enabled": "true"})
}

// Two logins that have read the same code, one of which waits for the other, start one session.
func TestCodeOfTwoLogins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	a := w.setUp(t, user)
	for _, code := range []string{a.code(0), a.recovery[0]} {
		h := user.Hold(t, `select from users where id = '`+user.Actor.User+`' for no key update`)
		var statuses [2]int
		var all []chan struct{}
		for i := range statuses {
			all = append(all, h.StartWaiting(i+1, func() {
				statuses[i] = w.Anonymous().Post(t, loginPath, withOTP(user, code)).Status
			}))
		}
		h.Commit()
		for _, done := range all {
			<-done
		}
		if statuses != [2]int{200, 401} && statuses != [2]int{401, 200} {
			t.Errorf("the statuses are %v, want 200 and 401", statuses)
		}
	}
}

// Who begins or confirms a second factor while it is confirmed by another request changes nothing about it.
func TestConfirmedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{otpPath, otpPath + "/confirm"} {
		user := w.Operator(t)
		secret := user.Post(t, otpPath, j{"current_password": testkit.Password}).Want(200).Text("secret")
		body := j{"current_password": testkit.Password}
		if path != otpPath {
			body = j{"otp": testkit.TOTP(secret, w.clock.now())}
		}
		h := user.Hold(t, `update users set otp_at = now() where id = '`+user.Actor.User+`'`,
			`update user_otps set last_step = 1 where user_id = '`+user.Actor.User+`'`)
		answered := h.StartWaiting(1, func() { user.Post(t, path, body).WantError(409, "OTP_ENABLED") })
		h.Commit()
		<-answered
		tokensOf(t, w.Anonymous().Post(t, loginPath, withOTP(user, testkit.TOTP(secret, w.clock.now()))))
	}
}

// A reset changes nothing if the user turns off the second factor meanwhile.
func TestResetAfterTurningOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.Tenant(t)
	admin := tenant.User(t, "admin")
	for name, reset := range map[string]func(user *testkit.Client){
		"API": func(user *testkit.Client) { admin.Delete(t, usersPath+"/"+user.Actor.User+"/otp").Want(204) },
		"command": func(user *testkit.Client) {
			if err := w.accounts().ResetFactor(t.Context(), user.Email); err != accounts.ErrNoFactor {
				t.Errorf("the command returns %v, want ErrNoFactor", err)
			}
		},
	} {
		user := tenant.User(t, "operator")
		_, set := w.signedIn(t, user, w.setUp(t, user).code(0))
		h := admin.Hold(t, `update users set otp_at = null where id = '`+user.Actor.User+`'`,
			`delete from user_otps where user_id = '`+user.Actor.User+`'`)
		done := h.StartWaiting(1, func() { reset(user) })
		h.Commit()
		<-done
		if a := w.Anonymous().Post(t, refreshPath, j{"refresh_token": set.Refresh}); a.Status != 200 {
			t.Errorf("%s: the session has ended: %s", name, a.Body)
		}
	}
}

// Neither a new password, however it was set, nor a refresh replaces the code.
func TestPasswordsDoNotReplaceCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.Tenant(t)
	admin, user := tenant.User(t, "admin"), tenant.User(t, "operator")
	a := w.setUp(t, user)
	path := usersPath + "/" + user.Actor.User
	login := func(password string) *testkit.Response {
		return w.Anonymous().Post(t, loginPath, credentials(user.Email, password))
	}
	const second, third, fourth = "a second long phrase", "a third long phrase", "a fourth long phrase"
	admin.Patch(t, path, j{"password": second}).Want(200)
	login(second).WantError(401, "OTP_REQUIRED")
	token := admin.Post(t, path+"/password-link", nil).Want(200).Text("token")
	w.Anonymous().Post(t, "/api/v1/auth/password-link", j{"token": token, "new_password": third}).Want(204)
	login(third).WantError(401, "OTP_REQUIRED")
	set := tokensOf(t, w.Anonymous().Post(t, loginPath, j{"email": user.Email, "password": third, "otp": a.next()}))
	as(user, set.Access).Post(t, "/api/v1/auth/password", j{"current_password": third, "new_password": fourth}).Want(204)
	login(fourth).WantError(401, "OTP_REQUIRED")
	w.refreshFails(t, set.Refresh, "INVALID_TOKEN")
	testkit.Check(t, w.accounts().SetPassword(t.Context(), user.Email, second))
	login(second).WantError(401, "OTP_REQUIRED")

	// A disabled user has no code that counts.
	admin.Patch(t, path, j{"disabled": true}).Want(200)
	login(second).WantError(401, "INVALID_CREDENTIALS")
	w.Anonymous().Post(t, loginPath, j{"email": user.Email, "password": second, "otp": a.next()}).
		WantError(401, "INVALID_CREDENTIALS")
	admin.Patch(t, path, j{"disabled": false}).Want(200)
	login(second).WantError(401, "OTP_REQUIRED")
	tokensOf(t, w.Anonymous().Post(t, loginPath, j{"email": user.Email, "password": second, "otp": a.next()}))

	// The secret is not readable in the database.
	var stored string
	testkit.Check(t, w.DB.Read(db.As(t.Context(), db.Actor{Tenant: tenant.ID}),
		db.SQL(`select o::text from user_otps o where user_id = $1`, user.Actor.User).Into(&stored)))
	if strings.Contains(stored, a.secret) || strings.Contains(stored, strings.ReplaceAll(a.recovery[1], "-", "")) {
		t.Error("the secret or a recovery code is in the database")
	}
}

// Admins of the same tenant, and the command line, remove the second factor of a user; nobody else does.
func TestResetSecondFactor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.Tenant(t)
	admin, user, operator := tenant.User(t, "admin"), tenant.User(t, "viewer"), tenant.User(t, "operator")
	path := usersPath + "/" + user.Actor.User
	a := w.setUp(t, user)
	user, set := w.signedIn(t, user, a.next())
	operator.Delete(t, path+"/otp").WantError(403, "FORBIDDEN")
	user.Delete(t, path+"/otp").WantError(403, "FORBIDDEN")
	w.Tenant(t).User(t, "admin").Delete(t, path+"/otp").WantError(404, "NOT_FOUND")
	admin.Get(t, path).Shows(map[string]string{"otp_enabled": "true"})
	tag := admin.Get(t, path).Header.Get("ETag")
	admin.Delete(t, path+"/otp").Want(204)
	after := admin.Get(t, path)
	after.Shows(map[string]string{"otp_enabled": "false"})
	if after.Header.Get("ETag") == tag {
		t.Error("the reset does not change the ETag")
	}
	w.refreshFails(t, set.Refresh, "INVALID_TOKEN")
	set = w.login(t, user)
	admin.Delete(t, path+"/otp").Want(204) // nothing to remove
	w.refresh(t, set.Refresh)

	// An admin needs a code for the own one, so that a stolen session is not enough.
	mine := w.setUp(t, admin)
	admin, _ = w.signedIn(t, admin, mine.next())
	admin.Delete(t, usersPath+"/"+admin.Actor.User+"/otp").WantError(409, "OWN_OTP")
	_, set = w.signedIn(t, admin, mine.next())
	testkit.Check(t, w.accounts().ResetFactor(t.Context(), strings.ToUpper(admin.Email)))
	w.refreshFails(t, set.Refresh, "INVALID_TOKEN")
	w.login(t, admin)
	if err := w.accounts().ResetFactor(t.Context(), admin.Email); err != accounts.ErrNoFactor {
		t.Errorf("a second reset: %v", err)
	}

	// A removed user leaves nothing.
	user = as(user, w.login(t, user).Access)
	w.setUp(t, user)
	admin.Delete(t, path).Want(204)
}

// A user whom the farm's rule concerns and who has no second factor can only set it up.
func TestRequiredSecondFactor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.Features...)
	tenant := w.Tenant(t)
	admin, other, operator := tenant.User(t, "admin"), tenant.User(t, "admin"), tenant.User(t, "operator")
	key := tenant.Key(t, "operator")
	stranger := w.Tenant(t).User(t, "admin")
	set := func(c *testkit.Client, rule string) *testkit.Response {
		return c.Patch(t, settingsPath, j{"second_factor": rule})
	}
	set(admin, "everybody").Fields("second_factor")
	set(admin, "admins").WantError(409, "OTP_NOT_ENABLED").Shows(about("second_factor"))
	set(operator, "optional").WantError(403, "FORBIDDEN")
	w.setUp(t, admin)
	set(admin, "admins").Want(200).Shows(map[string]string{"second_factor": "admins"})

	const spools = "/api/v1/spools"
	operator.Get(t, spools).Want(200)
	key.Get(t, spools).Want(200)
	stranger.Get(t, spools).Want(200)
	limited := func(c *testkit.Client) {
		t.Helper()
		c.Get(t, spools).WantError(403, "OTP_SETUP_REQUIRED")
		c.Post(t, spools, j{"material_type": "PLA", "color": "Red", "diameter_mm": 1.75, "net_weight_grams": 1}).
			WantError(403, "OTP_SETUP_REQUIRED")
		c.Get(t, mePath).Want(200).Shows(map[string]string{"otp_setup_required": "true"})
	}
	limited(other)
	set(other, "optional").WantError(403, "OTP_SETUP_REQUIRED")
	other.Delete(t, usersPath+"/"+admin.Actor.User+"/otp").WantError(403, "OTP_SETUP_REQUIRED")

	// Logging in and out, refreshing, and setting up work. A new role counts at once.
	session := w.login(t, other)
	limited(as(other, session.Access))
	session = w.refresh(t, session.Refresh)
	other = as(other, session.Access)
	w.setUp(t, other)
	other.Get(t, spools).Want(200)
	other.Post(t, logoutPath, j{"refresh_token": session.Refresh}).Want(204)
	admin.Patch(t, usersPath+"/"+operator.Actor.User, j{"role": "admin"}).Want(200)
	operator = as(operator, w.login(t, operator).Access)
	limited(operator)
	admin.Patch(t, usersPath+"/"+operator.Actor.User, j{"role": "operator"}).Want(200)
	operator = as(operator, w.login(t, operator).Access)
	operator.Get(t, spools).Want(200)

	set(admin, "all").Want(200)
	limited(operator)
	created := admin.Post(t, usersPath, newUser(nil)).Want(201)
	fresh := w.Anonymous().Post(t, loginPath, credentials(created.Text("email"), phrase)).Want(200)
	limited(as(operator, fresh.Text("access_token")))
	key.Get(t, spools).Want(200)
	a := w.setUp(t, operator)
	operator.Get(t, spools).Want(200)

	// Turning it off leads back to the set-up.
	operator.Post(t, otpPath+"/disable", j{"current_password": testkit.Password, "otp": a.code(0)}).Want(204)
	limited(operator)
	set(admin, "optional").Want(200)
	operator.Get(t, spools).Want(200)
}

// A user who is created while the rule of the farm changes is subject to the new rule.
func TestUserCreatedDuringChangeOfRule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.Tenant(t).User(t, "admin")
	h := admin.Hold(t, `update tenants set second_factor = 'all' where tenant_id = '`+admin.Actor.Tenant+`'`)
	body := newUser(nil)
	done := h.StartWaiting(1, func() { admin.Post(t, usersPath, body).Want(201) })
	h.Commit()
	<-done
	login := w.Anonymous().Post(t, loginPath, credentials(body["email"].(string), phrase)).Want(200)
	as(admin, login.Text("access_token")).Get(t, mePath).Want(200).Shows(map[string]string{"otp_setup_required": "true"})
}

// Codes work after a change of JWT_SECRET as long as the earlier one is configured. Afterwards, recovery codes do.
func TestFactorAfterNewSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	a := w.setUp(t, user)
	const other, third = "another secret for tests of many bytes", "a third secret for tests of many bytes"
	with := func(configured ...string) *world {
		t.Helper()
		tokens, err := auth.NewTokens(configured, 30*time.Minute, 7*24*time.Hour, w.clock.now)
		testkit.Check(t, err)
		return &world{clock: w.clock, API: testkit.New(t, testkit.Options{DB: w.DB, Now: w.clock.now,
			Change: func(c *server.Config) {
				service := auth.New(c.DB, tokens, secrets.NewHasher(testRounds), w.clock.now)
				routes := service.Routes()
				c.Routes = append(routes, c.Routes[len(routes):]...)
				c.Authenticate = service.Authenticate
				c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
			}})}
	}
	third1 := with(third)
	third1.Anonymous().Post(t, loginPath, withOTP(user, a.next())).WantError(401, "INVALID_OTP")
	tokensOf(t, third1.Anonymous().Post(t, loginPath, withOTP(user, a.recovery[0])))
	tokensOf(t, with(other, testkit.Secret).Anonymous().Post(t, loginPath, withOTP(user, a.next())))
	// The login has encrypted the secret again.
	tokensOf(t, with(other).Anonymous().Post(t, loginPath, withOTP(user, a.next())))
	w.Anonymous().Post(t, loginPath, withOTP(user, a.next())).WantError(401, "INVALID_OTP")
}

// A code that was used does not work again after the clock was set back.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	a := w.setUp(t, user)
	tokensOf(t, w.Anonymous().Post(t, loginPath, withOTP(user, a.code(0))))
	used := a.code(0)
	w.clock.pass(-30 * time.Second)
	for _, code := range []string{used, a.code(0), a.code(-1)} {
		w.Anonymous().Post(t, loginPath, withOTP(user, code)).WantError(401, "INVALID_OTP")
	}
	w.clock.pass(60 * time.Second)
	tokensOf(t, w.Anonymous().Post(t, loginPath, withOTP(user, a.code(0))))
}

// A login that began without a second factor does not end after it is turned on.
func TestLoginWhileFactorIsTurnedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.Operator(t)
	secret := user.Post(t, otpPath, j{"current_password": testkit.Password}).Want(200).Text("secret")
	gate := newGate(t, w.hasher, 1)
	done := make(chan *testkit.Response)
	go func() { done <- w.Anonymous().Post(t, loginPath, credentials(user.Email, testkit.Password)) }()
	<-gate.started
	user.Post(t, otpPath+"/confirm", j{"otp": testkit.TOTP(secret, w.clock.now())}).Want(200)
	gate.open()
	(<-done).WantError(401, "INVALID_CREDENTIALS")
}

// A user who moves to another tenant keeps the second factor.
func TestMoveUserWithFactor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user, other := w.Operator(t), w.Tenant(t)
	a := w.setUp(t, user)
	owner := tables.Owner{URL: testkit.Private().OwnerURL()}
	_, _, err := w.accounts().MoveUser(t.Context(), owner, user.Email, "tenant "+other.ID)
	testkit.Check(t, err)
	w.Anonymous().Post(t, loginPath, credentials(user.Email, testkit.Password)).WantError(401, "OTP_REQUIRED")
	tokensOf(t, w.Anonymous().Post(t, loginPath, withOTP(user, a.next())))
	tokensOf(t, w.Anonymous().Post(t, loginPath, withOTP(user, a.recovery[0])))
	w.Anonymous().Post(t, loginPath, withOTP(user, a.recovery[0])).WantError(401, "INVALID_OTP")
}
