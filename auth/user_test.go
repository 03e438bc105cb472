package auth_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"spoolwright/auth"
	"spoolwright/auth/accounts"
	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

const (
	usersPath = "/api/v1/users"
	phrase    = "a long and secret phrase" // the password of newUser
	newPhrase = "another long phrase"      // what tests change a password to
)

// newUser returns a valid body of POST /users with the changes applied.
func newUser(changes j) j {
	body := j{"email": email(), "name": "Bob", "role": "operator", "password": phrase}
	maps.Copy(body, changes)
	return body
}

func tryLogin(t *testing.T, api *testkit.API, email, password string) *testkit.Response {
	t.Helper()
	return api.Anonymous().Post(t, loginPath, credentials(email, password))
}

func mustLogin(t *testing.T, api *testkit.API, email, password string) *testkit.Response {
	t.Helper()
	return tryLogin(t, api, email, password).Want(200)
}

func changePassword(t *testing.T, c *testkit.Client, current, next string) *testkit.Response {
	t.Helper()
	return c.Post(t, "/api/v1/auth/password", j{"current_password": current, "new_password": next})
}

// bearer returns a client with the access token of a login or refresh.
func bearer(api *testkit.API, tokens *testkit.Response) *testkit.Client {
	return &testkit.Client{API: api, Token: tokens.Text("access_token")}
}

// tryRefresh sends the refresh token of a login or refresh.
func tryRefresh(t *testing.T, api *testkit.API, tokens *testkit.Response) *testkit.Response {
	t.Helper()
	return api.Anonymous().Post(t, refreshPath, j{"refresh_token": tokens.Text("refresh_token")})
}

// An admin creates a user, then changes the name, the role, disabled, and the password; each change has the documented
// effect on the user's access tokens and sessions.
func TestUserLifecycle(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{})
	admin := api.Tenant(t).User(t, "admin")
	email := "Bob." + value.NewID() + "@Test.Example"

	created := admin.Post(t, usersPath, newUser(j{"email": email})).Want(201)
	created.Shows(map[string]string{"email": email, "name": "Bob", "role": "operator", "disabled": "false"})
	path := created.Header.Get("Location")
	testkit.Equal(t, path, usersPath+"/"+created.ID(), "Location")
	admin.Get(t, path).Want(200).Shows(map[string]string{"email": email})
	admin.Post(t, usersPath, newUser(j{"email": strings.ToUpper(email)})).WantError(409, "EMAIL_TAKEN")

	// The user logs in. A new name does not end the session.
	first := mustLogin(t, api, strings.ToLower(email), phrase)
	bearer(api, first).Get(t, "/api/v1/auth/me").Want(200).Shows(map[string]string{"id": created.ID(), "name": "Bob"})
	admin.Patch(t, path, j{
		"name": "Robert", "email": strings.ToUpper(email), "disabled": false, "role": "operator",
		"id": value.NewID(), "created_at": "x",
	}).Want(200).Shows(map[string]string{"name": "Robert", "id": created.ID(), "email": email})
	bearer(api, first).Get(t, "/api/v1/auth/me").Want(200).Shows(map[string]string{"name": "Robert"})
	second := tryRefresh(t, api, first).Want(200)

	// A new role invalidates the access token; a refresh returns a token for the new role.
	admin.Patch(t, path, j{"role": "viewer"}).Want(200).Shows(map[string]string{"role": "viewer"})
	bearer(api, second).Get(t, "/api/v1/auth/me").WantError(401, "INVALID_TOKEN")
	bearer(api, tryRefresh(t, api, second).Want(200)).Get(t, "/api/v1/auth/me").Want(200)

	// Disabling ends the sessions too. An empty PATCH does not enable the user again.
	third := mustLogin(t, api, email, phrase)
	idle := mustLogin(t, api, email, phrase)
	admin.Patch(t, path, j{"disabled": true}).Want(200).Shows(map[string]string{"disabled": "true"})
	bearer(api, third).Get(t, "/api/v1/auth/me").WantError(401, "INVALID_TOKEN")
	tryRefresh(t, api, third).WantError(401, "INVALID_TOKEN")
	tryLogin(t, api, email, phrase).WantError(401, "INVALID_CREDENTIALS")
	admin.Patch(t, path, j{}).Want(200).Shows(map[string]string{"disabled": "true"})
	admin.Patch(t, path, j{"disabled": false}).Want(200).Shows(map[string]string{"disabled": "false"})
	tryRefresh(t, api, third).WantError(401, "INVALID_TOKEN")
	tryRefresh(t, api, idle).WantError(401, "INVALID_TOKEN")

	// A new password ends the sessions; the access token stays valid until it expires.
	fourth := mustLogin(t, api, email, phrase)
	admin.Patch(t, path, j{"password": newPhrase}).Want(200)
	bearer(api, fourth).Get(t, "/api/v1/auth/me").Want(200)
	tryRefresh(t, api, fourth).WantError(401, "INVALID_TOKEN")
	tryLogin(t, api, email, phrase).WantError(401, "INVALID_CREDENTIALS")
	mustLogin(t, api, email, newPhrase)
}

func TestUserCreatedDisabled(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{})
	email := email()
	admin := api.Tenant(t).User(t, "admin")
	created := admin.Post(t, usersPath, newUser(j{"email": email, "disabled": true})).Want(201)
	created.Shows(map[string]string{"disabled": "true"})
	tryLogin(t, api, email, phrase).WantError(401, "INVALID_CREDENTIALS")
}

// A rejected body changes no user.
func TestInvalidUserBodies(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{})
	admin := api.Tenant(t).User(t, "admin")
	path := admin.Post(t, usersPath, newUser(nil)).Want(201).Header.Get("Location")
	before := string(admin.Get(t, usersPath).Body)

	admin.Post(t, usersPath, j{}).Fields("email", "name", "role")
	for field, values := range map[string][]any{
		"email": {nil, "", "bob", "bob@", "@farm.example", "a b@farm.example", "a@b@c", "a\n@farm.example",
			"v4@example.com>", "<ada@farm.example", "a,b@farm.example", "a\u00a0@farm.example",
			strings.Repeat("x", 320) + "@x", 1},
		"name":     {nil, "", "  ", strings.Repeat("x", 201), "\x00", true},
		"role":     {nil, "", "Admin", "owner", 1},
		"disabled": {nil, "yes", 0},
		"password": {nil, "", "123456789", strings.Repeat("x", 201), strings.Repeat("é", 9), strings.Repeat(" ", 12),
			"with a NUL \x00 in it", 1},
	} {
		for _, value := range values {
			if field != "disabled" && field != "password" || value != nil {
				admin.Post(t, usersPath, newUser(j{field: value})).Fields(field)
			}
			admin.Patch(t, path, j{field: value}).Fields(field)
		}
	}
	admin.Patch(t, path, newUser(nil)).Fields("email") // another e-mail
	admin.Post(t, usersPath, newUser(j{"password_hash": "x"})).Fields("password_hash")
	testkit.Equal(t, string(admin.Get(t, usersPath).Body), before, "the users")
}

func TestUserList(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{})
	tenant := api.Tenant(t)
	admin := tenant.User(t, "admin")
	api.Tenant(t).User(t, "admin").Post(t, usersPath, newUser(nil)).Want(201) // not listed: another tenant's
	var names []string
	for i := range 4 {
		name := fmt.Sprintf("user %d", i)
		admin.Post(t, usersPath, newUser(j{"name": name, "disabled": i == 2})).Want(201)
		names = append(names, name)
	}
	list := admin.Get(t, usersPath+"?sort_by=name&sort_order=asc&skip=1&limit=3").Want(200)
	list.Shows(map[string]string{"total": "5", "skip": "1", "limit": "3"})
	for i, user := range list.List("items") {
		if got := user.(map[string]any)["name"]; got != names[i] { // "Test admin" sorts before
			t.Errorf("user %d is %v, want %s", i, got, names[i])
		}
	}
	for _, field := range []string{"id", "email", "name", "role", "disabled", "created_at"} {
		for _, skip := range []int{0, 2000} {
			admin.Get(t, fmt.Sprintf("%s?sort_by=%s&skip=%d", usersPath, field, skip)).Want(200)
		}
	}
	admin.Get(t, usersPath+"?sort_by=disabled&limit=1").Want(200).Shows(map[string]string{"items.0.name": "user 2"})
	admin.Get(t, usersPath+"?sort_by=password").Fields("sort_by")
	admin.Get(t, usersPath+"?sort_by=password_hash").Fields("sort_by")
}

// A tenant can have 200 users, also if they are created concurrently, by the API or the command.
func TestUserLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.Tenant(t)
	admin := tenant.User(t, "admin")
	err := w.DB.Write(db.As(t.Context(), db.Actor{Tenant: tenant.ID}), db.SQL(`
		insert into users (id, email, name, role, password_hash, disabled_at)
		select gen_random_uuid(), n || '@' || $1 || '.example', 'x', 'viewer', '', now() from generate_series(1, 198) n`,
		tenant.ID))
	testkit.Check(t, err)
	h := holdUsers(t, admin)
	var created, limited atomic.Int64
	var all []chan struct{}
	for n := range 3 {
		all = append(all, h.StartWaiting(min(n+1, 2), func() { // the third waits without a connection
			a, err := admin.Send("POST", usersPath, newUser(nil))
			switch {
			case err != nil:
				t.Error(err)
			case a.Status == 201:
				created.Add(1)
			case a.Status == 409 && strings.Contains(string(a.Body), `"USER_LIMIT"`):
				limited.Add(1)
			default:
				t.Errorf("%d %s", a.Status, a.Body)
			}
		}))
	}
	h.Commit()
	for _, done := range all {
		<-done
	}
	if created.Load() != 1 || limited.Load() != 2 {
		t.Errorf("%d users created, %d responses USER_LIMIT; want 1 and 2", created.Load(), limited.Load())
	}
	email := email()
	response := admin.Post(t, usersPath, newUser(j{"email": email})).WantError(409, "USER_LIMIT")
	_, err = w.accounts().Add(t.Context(), accounts.NewUser{
		Tenant: "tenant " + tenant.ID, Email: email, Name: "x", Role: "viewer", Password: phrase,
	})
	if want := "A tenant can have 200 users, including disabled users"; err == nil || err.Error() != want ||
		response.Text("detail") != want {
		t.Errorf("the command returns %v, the API %s", err, response.Body)
	}
	// The rejected user did not claim the e-mail. Users can still be changed.
	w.Tenant(t).User(t, "admin").Post(t, usersPath, newUser(j{"email": email})).Want(201)
	admin.Patch(t, usersPath+"/"+admin.Actor.User, j{"name": "Ada"}).Want(200)
}

// No response, and no response stored for an Idempotency-Key, contains a password or its hash.
func TestUserResponsesHoldNoSecret(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{})
	admin := api.Tenant(t).User(t, "admin")
	keyed := admin.With("Idempotency-Key", "k1")
	body := newUser(nil)
	first := keyed.Post(t, usersPath, body).Want(201)
	again := keyed.Post(t, usersPath, body).Want(201)
	if again.Header.Get("Idempotency-Replayed") != "true" || string(again.Body) != string(first.Body) ||
		again.Header.Get("Location") != first.Header.Get("Location") {
		t.Errorf("the replay differs: %v %s", again.Header, again.Body)
	}
	keyed.Post(t, usersPath, newUser(nil)).WantError(409, "IDEMPOTENCY_CONFLICT")
	var stored, hash string
	err := api.DB.Read(db.As(t.Context(), db.Actor{Tenant: admin.Actor.Tenant}),
		db.SQL(`select convert_from(body, 'UTF8') || coalesce(location, '') from idempotency_keys where key = 'k1'`).
			Into(&stored),
		db.SQL(`select password_hash from users where id = $1`, first.ID()).Into(&hash))
	testkit.Check(t, err)
	path := usersPath + "/" + first.ID()
	for name, text := range map[string]string{
		"stored":  stored,
		"created": string(first.Body),
		"listed":  string(admin.Get(t, usersPath).Body),
		"read":    string(admin.Get(t, path).Body),
		"changed": string(admin.Patch(t, path, j{"password": phrase}).Body),
	} {
		for _, secret := range []string{"secret phrase", "pbkdf2", "password", hash} {
			if text == "" || strings.Contains(text, secret) {
				t.Errorf("%s: %q contains %q", name, text, secret)
			}
		}
	}
}

func TestLastAdmin(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{})
	tenant := api.Tenant(t)
	admin := tenant.User(t, "admin")
	self := usersPath + "/" + admin.Actor.User
	disabled := tenant.User(t, "admin")
	admin.Patch(t, usersPath+"/"+disabled.Actor.User, j{"disabled": true}).Want(200)
	tenant.User(t, "operator")

	for _, body := range []j{
		{"role": "viewer"}, {"disabled": true},
		{"role": "operator", "disabled": true, "name": "New", "password": newPhrase},
	} {
		admin.Patch(t, self, body).WantError(409, "LAST_ADMIN")
	}
	admin.Delete(t, self).WantError(409, "LAST_ADMIN")
	admin.Get(t, self).Want(200).Shows(map[string]string{"role": "admin", "disabled": "false", "name": "Test admin"})
	mustLogin(t, api, admin.Email, testkit.Password)

	admin.Patch(t, self, j{"name": "Ada", "role": "admin", "disabled": false}).Want(200)
	admin.Patch(t, usersPath+"/"+disabled.Actor.User, j{"disabled": false}).Want(200)
	admin.Patch(t, self, j{"role": "viewer"}).Want(200).Shows(map[string]string{"role": "viewer"})
	admin.Get(t, self).WantError(401, "INVALID_TOKEN")
}

// Concurrent changes of users in a tenant run one after the other, and a change fails if an earlier one revoked its
// caller. Without that, admins who demote each other could leave the tenant without an admin.
func TestLastAdminRace(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{})
	for _, change := range []j{{"role": "viewer"}, {"disabled": true}, nil} { // nil deletes the user
		tenant := api.Tenant(t)
		method := "PATCH"
		if change == nil {
			method = "DELETE"
		}
		ada, bob, eve := tenant.User(t, "admin"), tenant.User(t, "admin"), tenant.User(t, "admin")
		h := holdUsers(t, ada)
		statuses := make([]int, 2)
		call := func(i int, caller, target *testkit.Client) (done chan struct{}) {
			return h.StartWaiting(i+1, func() { // PostgreSQL grants the lock in this order
				if a, err := send(caller, method, target, change); err == nil {
					statuses[i] = a.Status
				}
			})
		}
		first, second := call(0, ada, bob), call(1, bob, eve)
		h.Commit()
		<-first
		<-second
		if statuses[0]/100 != 2 || statuses[1] != 401 {
			t.Errorf("%v: statuses %v, want 2xx for the first change and 401 for its target", change, statuses)
		}
		if a, err := send(ada, method, eve, change); err != nil || a.Status/100 != 2 {
			t.Errorf("%v: %v %v", change, a, err)
		}
		if a, err := send(ada, method, ada, change); err != nil || a.Status != 409 {
			t.Errorf("%v: %v %v", change, a, err)
		}
	}
}

// send sends a request of the caller that changes or deletes the user.
func send(caller *testkit.Client, method string, user *testkit.Client, change j) (*testkit.Response, error) {
	if method == "DELETE" {
		return caller.Send(method, usersPath+"/"+user.Actor.User, nil)
	}
	return caller.Send(method, usersPath+"/"+user.Actor.User, change)
}

// DELETE ends all access, frees the e-mail, and keeps what the user has done.
func TestDeleteUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.Features...)
	farm, other := w.Tenant(t), w.Tenant(t)
	admin, user := farm.User(t, "admin"), farm.User(t, "operator")
	set := w.login(t, user)
	user.With("Idempotency-Key", "k").Post(t, "/api/v1/spools", spoolBody).Want(201)
	spool := "/api/v1/spools/" + as(w.Anonymous(), set.Access).Post(t, "/api/v1/spools", spoolBody).Want(201).ID()
	path := usersPath + "/" + user.Actor.User
	user.Delete(t, path).WantError(403, "FORBIDDEN")
	other.User(t, "admin").Delete(t, path).WantError(404, "NOT_FOUND")
	admin.With("If-Match", `"x"`).Delete(t, path).WantError(412, "PRECONDITION_FAILED")
	admin.Delete(t, path).Want(204)
	admin.Delete(t, path).WantError(404, "NOT_FOUND")
	admin.Get(t, path).WantError(404, "NOT_FOUND")
	w.refreshFails(t, set.Refresh, "INVALID_TOKEN")
	as(w.Anonymous(), set.Access).Get(t, mePath).WantError(401, "INVALID_TOKEN")
	w.Anonymous().Post(t, loginPath, credentials(user.Email, testkit.Password)).WantError(401, "INVALID_CREDENTIALS")
	admin.Get(t, spool+"/usage").Want(200).
		Shows(map[string]string{"items.0.user_id": user.Actor.User, "items.0.user_name": "Test operator"})
	file := admin.Get(t, "/api/v1/reports/usage/export").Want(200)
	if !strings.Contains(string(file.Body), ",Test operator,") {
		t.Errorf("the export %s lacks the name of the user", file.Body)
	}
	other.User(t, "admin").Post(t, usersPath, j{"email": user.Email, "name": "x", "role": "viewer",
		"password": testkit.Password}).Want(201)
	mustLogin(t, w.API, user.Email, testkit.Password)
	// An admin can delete their own account while another one is enabled.
	second := farm.User(t, "admin")
	path = usersPath + "/" + second.Actor.User
	second.With("If-Match", second.Get(t, path).Header.Get("ETag")).Delete(t, path).Want(204)
	second.Get(t, path).WantError(401, "INVALID_TOKEN")
}

// A change or a deletion of a user waits for a login that has begun, and ends its session.
func TestSessionsBegunBefore(t *testing.T) {
	t.Parallel()
	tenant := testkit.New(t, testkit.Options{}).Tenant(t)
	admin := tenant.User(t, "admin")
	for method, change := range map[string]j{"PATCH": {"password": newPhrase}, "DELETE": nil} {
		user := tenant.User(t, "operator")
		h := admin.Hold(t, `select from users where id = '`+user.Actor.User+`' for share`,
			`insert into sessions (id, user_id, counter, created_at, refreshed_at, expires_at)
				values (gen_random_uuid(), '`+user.Actor.User+`', 1, now(), now(), now() + interval '1 day')`)
		var a *testkit.Response
		var err error
		done := h.StartWaiting(1, func() { a, err = send(admin, method, user, change) })
		h.Commit()
		<-done
		testkit.Check(t, err)
		var sessions int
		testkit.Check(t, admin.API.DB.Read(db.As(t.Context(), db.Actor{Tenant: tenant.ID}),
			db.SQL(`select count(*) from sessions where user_id = $1`, user.Actor.User).Into(&sessions)))
		if a.Status/100 != 2 || sessions != 0 {
			t.Errorf("%s: %d %s, and %d sessions remain", method, a.Status, a.Body, sessions)
		}
	}
}

// holdUsers locks the users of the client's tenant.
func holdUsers(t *testing.T, c *testkit.Client) *testkit.Holder {
	t.Helper()
	return c.Hold(t, `select pg_advisory_xact_lock(hashtextextended('users `+c.Actor.Tenant+`', 0))`)
}

// A change of the password ends all sessions of the user, and no other session.
func TestChangePassword(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{})
	tenant := api.Tenant(t)
	c, colleague := tenant.User(t, "viewer"), tenant.User(t, "admin")
	first, second := mustLogin(t, api, c.Email, testkit.Password), mustLogin(t, api, c.Email, testkit.Password)
	colleagues := mustLogin(t, api, colleague.Email, testkit.Password)

	const path = "/api/v1/auth/password"
	c.Post(t, path, j{"current_password": testkit.Password}).Fields("new_password")
	c.Post(t, path, j{"new_password": newPhrase}).Fields("current_password")
	changePassword(t, c, testkit.Password, "short").Fields("new_password")
	changePassword(t, c, "wrong", newPhrase).WantError(400, "INVALID_CREDENTIALS")
	refreshed := tryRefresh(t, api, first).Want(200)

	changePassword(t, c, testkit.Password, newPhrase).Want(204)
	tryRefresh(t, api, refreshed).WantError(401, "INVALID_TOKEN")
	tryRefresh(t, api, second).WantError(401, "INVALID_TOKEN")
	tryRefresh(t, api, colleagues).Want(200)
	changePassword(t, c, testkit.Password, newPhrase).WantError(400, "INVALID_CREDENTIALS")
	tryLogin(t, api, c.Email, testkit.Password).WantError(401, "INVALID_CREDENTIALS")
	mustLogin(t, api, c.Email, newPhrase)
	mustLogin(t, api, colleague.Email, testkit.Password)
}

// Wrong current passwords count as failed logins, so that a stolen access token does not help to guess the password.
func TestChangePasswordIsThrottled(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{})
	c := api.Tenant(t).User(t, "operator")
	for i := range 5 {
		if i%2 == 0 {
			changePassword(t, c, "wrong", newPhrase).WantError(400, "INVALID_CREDENTIALS")
		} else {
			tryLogin(t, api, c.Email, "wrong").WantError(401, "INVALID_CREDENTIALS")
		}
	}
	a := changePassword(t, c, testkit.Password, newPhrase).WantError(429, "RATE_LIMIT_EXCEEDED")
	if a.Header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After: %v", a.Header)
	}
	tryLogin(t, api, c.Email, testkit.Password).WantError(429, "RATE_LIMIT_EXCEEDED")
}

// Of several concurrent changes of one password, one succeeds and the others fail with INVALID_CREDENTIALS.
func TestConcurrentPasswordChanges(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{Change: func(c *server.Config) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}})
	c := api.Tenant(t).User(t, "operator")
	var wg sync.WaitGroup
	statuses := make([]int, 4)
	for i := range statuses {
		wg.Go(func() {
			from := *c
			// Each has its own address, so that the failures do not add up to a 429.
			from.Header = http.Header{"X-Forwarded-For": {fmt.Sprintf("192.0.2.%d", i)}}
			body := j{"current_password": testkit.Password,
				"new_password": fmt.Sprintf("a new password, number %d", i)}
			a, err := from.Send("POST", "/api/v1/auth/password", body)
			if err == nil {
				statuses[i] = a.Status
			}
		})
	}
	wg.Wait()
	won := slices.Index(statuses, 204)
	if won < 0 {
		t.Fatalf("statuses %v", statuses)
	}
	for i, status := range statuses {
		if i != won && status != 400 {
			t.Errorf("statuses %v", statuses)
		}
	}
	mustLogin(t, api, c.Email, fmt.Sprintf("a new password, number %d", won))
}

// A login that verifies the old password while it is being changed leaves no session behind.
func TestLoginRacesPasswordChange(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{})
	tenant := api.Tenant(t)
	admin := tenant.User(t, "admin")
	ctx := context.Background()
	for range 20 {
		c := tenant.User(t, "operator")
		var wg sync.WaitGroup
		var logins [4]*testkit.Response
		for i := range logins {
			wg.Go(func() {
				logins[i], _ = api.Anonymous().Send("POST", loginPath, credentials(c.Email, testkit.Password))
			})
		}
		wg.Go(func() {
			admin.Send("PATCH", usersPath+"/"+c.Actor.User, j{"password": newPhrase})
		})
		wg.Wait()
		var sessions int
		err := api.DB.Read(db.As(ctx, db.Actor{Tenant: tenant.ID}),
			db.SQL(`select count(*) from sessions where user_id = $1`, c.Actor.User).Into(&sessions))
		if err != nil || sessions != 0 {
			t.Fatalf("%d sessions of the old password remain, %v", sessions, err)
		}
	}
}

// The checks of the tables allow the values that the API accepts.
func TestEnumsMatchTables(t *testing.T) {
	t.Parallel()
	testkit.WantChecked(t, "users", "role", auth.Role("").Enum())
}

// commonPassword is in the list of common passwords. Another case does not help.
const commonPassword = "Qwerty123456"

// A common password is refused wherever a password is set, with the name of the field. A user who has one can log in.
func TestCommonPasswordsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tenant := w.Tenant(t)
	admin := tenant.User(t, "admin")
	user := admin.Post(t, usersPath, newUser(nil)).Want(201)
	path, address := usersPath+"/"+user.ID(), user.Text("email")
	token := admin.Post(t, path+"/password-link", nil).Want(200).Text("token")
	const refused = "is one of the most common passwords, which attackers try first: choose another one"
	for field, responses := range map[string][]*testkit.Response{
		"password": {
			admin.Post(t, usersPath, newUser(j{"password": commonPassword})),
			admin.Patch(t, path, j{"password": commonPassword}),
			admin.Patch(t, path, j{"password": " " + strings.ToUpper(commonPassword)}),
		},
		"new_password": {
			admin.Post(t, "/api/v1/auth/password",
				j{"current_password": testkit.Password, "new_password": commonPassword}),
			w.Anonymous().Post(t, linkPath, j{"token": token, "new_password": commonPassword}),
		},
	} {
		for _, r := range responses {
			r.WantError(422, "VALIDATION_ERROR").Fields(field)
			testkit.Equal(t, r.Text("detail"), field+" "+refused, "detail")
		}
	}
	if err := w.accounts().SetPassword(t.Context(), address, commonPassword); err == nil || err.Error() != refused {
		t.Errorf("the command: %v", err)
	}
	mustLogin(t, w.API, address, phrase)

	hash, err := secrets.NewHasher(1).Hash(t.Context(), commonPassword)
	testkit.Check(t, err)
	testkit.Check(t, w.DB.Write(db.As(t.Context(), db.Actor{Tenant: tenant.ID}),
		db.SQL(`update users set password_hash = $2 where id = $1`, user.ID(), hash)))
	mustLogin(t, w.API, address, commonPassword)
	w.Anonymous().Post(t, linkPath, j{"token": token, "new_password": newPhrase}).Want(204)
}
