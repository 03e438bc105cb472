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
	"testing"

	"spoolwright/auth"
	"spoolwright/auth/authtest"
	"spoolwright/db"
	"spoolwright/db/dbtest"
	"spoolwright/server"
)

const usersPath = "/api/v1/users"

// newcomer is a good body of POST /users.
func newcomer(changes authtest.JSON) authtest.JSON {
	body := authtest.JSON{"email": db.NewID() + "@test.example", "name": "Bob", "role": "operator", "password": "a long and secret phrase"}
	maps.Copy(body, changes)
	return body
}

func loggedIn(t *testing.T, api *authtest.API, email, password string) *authtest.Response {
	t.Helper()
	return api.Anonymous().Post(t, "/api/v1/auth/login", authtest.JSON{"email": email, "password": password}).Want(200)
}

// bearer is the client of whom the tokens are.
func bearer(api *authtest.API, tokens *authtest.Response) *authtest.Client {
	return &authtest.Client{API: api, Token: tokens.Text("access_token")}
}

func refreshes(t *testing.T, api *authtest.API, tokens *authtest.Response) *authtest.Response {
	t.Helper()
	return api.Anonymous().Post(t, "/api/v1/auth/refresh", authtest.JSON{"refresh_token": tokens.Text("refresh_token")})
}

// A user's way through the hands of an admin.
func TestUserStory(t *testing.T) {
	t.Parallel()
	api := authtest.New(t, authtest.Options{})
	admin := api.Tenant(t).User(t, "admin")
	body := newcomer(authtest.JSON{"email": "Bob." + db.NewID() + "@Test.Example"})
	email := body["email"].(string)

	made := admin.Post(t, usersPath, body).Want(201).Shows(map[string]string{"email": email, "name": "Bob", "role": "operator", "disabled": "false"})
	path := made.Header.Get("Location")
	if path != usersPath+"/"+made.ID() {
		t.Errorf("the location is %q", path)
	}
	admin.Get(t, path).Want(200).Shows(map[string]string{"email": email})
	admin.Post(t, usersPath, newcomer(authtest.JSON{"email": strings.ToUpper(email)})).WantError(400, "EMAIL_TAKEN")

	// Bob logs in. Being renamed does not disturb him.
	first := loggedIn(t, api, strings.ToLower(email), "a long and secret phrase")
	bearer(api, first).Get(t, "/api/v1/auth/me").Want(200).Shows(map[string]string{"id": made.ID(), "name": "Bob"})
	admin.Patch(t, path, authtest.JSON{"name": "Robert", "email": strings.ToUpper(email), "disabled": false, "role": "operator", "id": db.NewID(), "created_at": "x"}).
		Want(200).Shows(map[string]string{"name": "Robert", "id": made.ID(), "email": email})
	bearer(api, first).Get(t, "/api/v1/auth/me").Want(200).Shows(map[string]string{"name": "Robert"})
	second := refreshes(t, api, first).Want(200)

	// Another role ends his access token; a refresh brings one for the new role.
	admin.Patch(t, path, authtest.JSON{"role": "viewer"}).Want(200).Shows(map[string]string{"role": "viewer"})
	bearer(api, second).Get(t, "/api/v1/auth/me").WantError(401, "INVALID_TOKEN")
	bearer(api, refreshes(t, api, second).Want(200)).Get(t, "/api/v1/auth/me").Want(200)

	// Being disabled ends his sessions too; a change of nothing does not enable him again.
	third := loggedIn(t, api, email, "a long and secret phrase")
	idle := loggedIn(t, api, email, "a long and secret phrase")
	admin.Patch(t, path, authtest.JSON{"disabled": true}).Want(200).Shows(map[string]string{"disabled": "true"})
	bearer(api, third).Get(t, "/api/v1/auth/me").WantError(401, "INVALID_TOKEN")
	refreshes(t, api, third).WantError(401, "INVALID_TOKEN")
	api.Anonymous().Post(t, "/api/v1/auth/login", authtest.JSON{"email": email, "password": "a long and secret phrase"}).WantError(401, "INVALID_CREDENTIALS")
	admin.Patch(t, path, authtest.JSON{}).Want(200).Shows(map[string]string{"disabled": "true"})
	admin.Patch(t, path, authtest.JSON{"disabled": false}).Want(200).Shows(map[string]string{"disabled": "false"})
	refreshes(t, api, third).WantError(401, "INVALID_TOKEN")
	refreshes(t, api, idle).WantError(401, "INVALID_TOKEN")

	// And so does a new password, though the access token stays good until it expires.
	fourth := loggedIn(t, api, email, "a long and secret phrase")
	admin.Patch(t, path, authtest.JSON{"password": "another long phrase"}).Want(200)
	bearer(api, fourth).Get(t, "/api/v1/auth/me").Want(200)
	refreshes(t, api, fourth).WantError(401, "INVALID_TOKEN")
	api.Anonymous().Post(t, "/api/v1/auth/login", authtest.JSON{"email": email, "password": "a long and secret phrase"}).WantError(401, "INVALID_CREDENTIALS")
	loggedIn(t, api, email, "another long phrase")
}

func TestUserCreatedDisabled(t *testing.T) {
	t.Parallel()
	api := authtest.New(t, authtest.Options{})
	body := newcomer(authtest.JSON{"disabled": true})
	api.Tenant(t).User(t, "admin").Post(t, usersPath, body).Want(201).Shows(map[string]string{"disabled": "true"})
	api.Anonymous().Post(t, "/api/v1/auth/login", authtest.JSON{"email": body["email"], "password": body["password"]}).WantError(401, "INVALID_CREDENTIALS")
}

func TestUserBadBodies(t *testing.T) {
	t.Parallel()
	api := authtest.New(t, authtest.Options{})
	admin := api.Tenant(t).User(t, "admin")
	path := admin.Post(t, usersPath, newcomer(nil)).Want(201).Header.Get("Location")
	before := string(admin.Get(t, usersPath).Body)

	admin.Post(t, usersPath, authtest.JSON{}).Fields("email", "name", "role", "password")
	for field, values := range map[string][]any{
		"email":    {nil, "", "bob", "bob@", "@farm.example", "a b@farm.example", "a@b@c", "a\n@farm.example", "a\u00a0@farm.example", strings.Repeat("x", 320) + "@x", 1},
		"name":     {nil, "", "  ", strings.Repeat("x", 201), "\x00", true},
		"role":     {nil, "", "Admin", "owner", 1},
		"disabled": {nil, "yes", 0},
		"password": {nil, "", "123456789", strings.Repeat("x", 201), strings.Repeat("é", 9), strings.Repeat(" ", 12), "with a NUL \x00 in it", 1},
	} {
		for _, value := range values {
			if field != "disabled" || value != nil {
				admin.Post(t, usersPath, newcomer(authtest.JSON{field: value})).Fields(field)
			}
			admin.Patch(t, path, authtest.JSON{field: value}).Fields(field)
		}
	}
	admin.Patch(t, path, newcomer(nil)).Fields("email") // which cannot be changed
	admin.Post(t, usersPath, newcomer(authtest.JSON{"password_hash": "x"})).Fields("password_hash")
	if after := string(admin.Get(t, usersPath).Body); after != before {
		t.Errorf("the users were\n%s\nand are\n%s", before, after)
	}
}

func TestUserList(t *testing.T) {
	t.Parallel()
	api := authtest.New(t, authtest.Options{})
	tenant := api.Tenant(t)
	admin := tenant.User(t, "admin")
	api.Tenant(t).User(t, "admin").Post(t, usersPath, newcomer(nil)).Want(201) // somebody else's
	var names []string
	for i := range 4 {
		name := fmt.Sprintf("user %d", i)
		admin.Post(t, usersPath, newcomer(authtest.JSON{"name": name, "disabled": i == 2})).Want(201)
		names = append(names, name)
	}
	list := admin.Get(t, usersPath+"?sort_by=name&sort_order=asc&skip=1&limit=3").Want(200).Shows(map[string]string{"total": "5", "skip": "1", "limit": "3"})
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

// No answer, stored or not, has a password or its hash in it.
func TestUserAnswersHoldNoSecret(t *testing.T) {
	t.Parallel()
	api := authtest.New(t, authtest.Options{})
	admin := api.Tenant(t).User(t, "admin")
	keyed := admin.With("Idempotency-Key", "k1")
	body := newcomer(nil)
	first := keyed.Post(t, usersPath, body).Want(201)
	again := keyed.Post(t, usersPath, body).Want(201)
	if again.Header.Get("Idempotency-Replayed") != "true" || string(again.Body) != string(first.Body) || again.Header.Get("Location") != first.Header.Get("Location") {
		t.Errorf("the replay differs: %v %s", again.Header, again.Body)
	}
	keyed.Post(t, usersPath, newcomer(nil)).WantError(409, "IDEMPOTENCY_CONFLICT")
	var stored, hash string
	err := api.DB.Read(db.As(t.Context(), db.Actor{Tenant: admin.Actor.Tenant}),
		db.SQL(`select convert_from(body, 'UTF8') || coalesce(location, '') from idempotency_keys where key = 'k1'`).Into(&stored),
		db.SQL(`select password_hash from users where id = $1`, first.ID()).Into(&hash))
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{"stored": stored, "created": string(first.Body), "listed": string(admin.Get(t, usersPath).Body), "shown": string(admin.Get(t, usersPath+"/"+first.ID()).Body),
		"changed": string(admin.Patch(t, usersPath+"/"+first.ID(), authtest.JSON{"password": "a long and secret phrase"}).Body)}
	for name, text := range answers {
		for _, secret := range []string{"secret phrase", "pbkdf2", "password", hash} {
			if text == "" || strings.Contains(text, secret) {
				t.Errorf("%s: %q has %q in it", name, text, secret)
			}
		}
	}
}

func TestUsersAreForAdmins(t *testing.T) {
	t.Parallel()
	api := authtest.New(t, authtest.Options{})
	tenant := api.Tenant(t)
	admin := tenant.User(t, "admin")
	path := usersPath + "/" + admin.Actor.User
	for _, role := range []string{"viewer", "operator"} {
		c := tenant.User(t, role)
		c.Get(t, usersPath).WantError(403, "FORBIDDEN")
		c.Get(t, path).WantError(403, "FORBIDDEN")
		c.Post(t, usersPath, newcomer(nil)).WantError(403, "FORBIDDEN")
		c.Patch(t, usersPath+"/"+c.Actor.User, authtest.JSON{"role": "admin"}).WantError(403, "FORBIDDEN")
	}
	stranger := api.Tenant(t).User(t, "admin")
	stranger.Get(t, path).WantError(404, "NOT_FOUND")
	stranger.Patch(t, path, authtest.JSON{"disabled": true}).WantError(404, "NOT_FOUND")
	stranger.Patch(t, path, authtest.JSON{"password": "another long phrase"}).WantError(404, "NOT_FOUND")
	stranger.Patch(t, path, authtest.JSON{"email": admin.Email}).WantError(404, "NOT_FOUND")
	stranger.Post(t, usersPath, newcomer(authtest.JSON{"email": admin.Email})).WantError(400, "EMAIL_TAKEN")
	loggedIn(t, api, admin.Email, authtest.Password)
}

func TestLastAdmin(t *testing.T) {
	t.Parallel()
	api := authtest.New(t, authtest.Options{})
	tenant := api.Tenant(t)
	admin := tenant.User(t, "admin")
	self := usersPath + "/" + admin.Actor.User
	disabled := tenant.User(t, "admin")
	admin.Patch(t, usersPath+"/"+disabled.Actor.User, authtest.JSON{"disabled": true}).Want(200)
	tenant.User(t, "operator")

	for _, body := range []authtest.JSON{{"role": "viewer"}, {"disabled": true}, {"role": "operator", "disabled": true, "name": "New", "password": "another long phrase"}} {
		admin.Patch(t, self, body).WantError(400, "LAST_ADMIN")
	}
	admin.Get(t, self).Want(200).Shows(map[string]string{"role": "admin", "disabled": "false", "name": "Test admin"})
	loggedIn(t, api, admin.Email, authtest.Password)

	admin.Patch(t, self, authtest.JSON{"name": "Ada", "role": "admin", "disabled": false}).Want(200)
	admin.Patch(t, usersPath+"/"+disabled.Actor.User, authtest.JSON{"disabled": false}).Want(200)
	admin.Patch(t, self, authtest.JSON{"role": "viewer"}).Want(200).Shows(map[string]string{"role": "viewer"})
	admin.Get(t, self).WantError(401, "INVALID_TOKEN")
}

// Admins that lock each other out at the same moment: one stays, and whoever was first wins.
func TestLastAdminRace(t *testing.T) {
	t.Parallel()
	api := authtest.New(t, authtest.Options{})
	for _, change := range []authtest.JSON{{"role": "viewer"}, {"disabled": true}} {
		for range 10 {
			tenant := api.Tenant(t)
			admins := []*authtest.Client{tenant.User(t, "admin"), tenant.User(t, "admin"), tenant.User(t, "admin")}
			var wg sync.WaitGroup
			statuses := make([]int, len(admins))
			for i, c := range admins {
				wg.Go(func() {
					a, err := c.Send("PATCH", usersPath+"/"+admins[(i+1)%len(admins)].Actor.User, change)
					if err == nil {
						statuses[i] = a.Status
					}
				})
			}
			wg.Wait()
			var left int
			err := api.DB.Read(db.As(t.Context(), db.Actor{Tenant: tenant.ID}), db.SQL(`select count(*) from users where role = 'admin' and disabled_at is null`).Into(&left))
			if err != nil {
				t.Fatal(err)
			}
			done := 0
			for _, status := range statuses {
				if status == 200 {
					done++
				} else if status != 400 && status != 401 {
					t.Errorf("statuses %v", statuses)
				}
			}
			if left < 1 || left != len(admins)-done {
				t.Errorf("%v: %d admins are left, statuses %v", change, left, statuses)
			}
		}
	}
}

func TestChangePassword(t *testing.T) {
	t.Parallel()
	const path = "/api/v1/auth/password"
	api := authtest.New(t, authtest.Options{})
	tenant := api.Tenant(t)
	c, colleague := tenant.User(t, "viewer"), tenant.User(t, "admin")
	mine, other, theirs := loggedIn(t, api, c.Email, authtest.Password), loggedIn(t, api, c.Email, authtest.Password), loggedIn(t, api, colleague.Email, authtest.Password)

	c.Post(t, path, authtest.JSON{"current_password": authtest.Password}).Fields("new_password")
	c.Post(t, path, authtest.JSON{"new_password": "another long phrase"}).Fields("current_password")
	c.Post(t, path, authtest.JSON{"current_password": authtest.Password, "new_password": "short"}).Fields("new_password")
	c.Post(t, path, authtest.JSON{"current_password": "wrong", "new_password": "another long phrase"}).WantError(400, "INVALID_CREDENTIALS")
	refreshed := refreshes(t, api, mine).Want(200)

	c.Post(t, path, authtest.JSON{"current_password": authtest.Password, "new_password": "another long phrase"}).Want(204)
	refreshes(t, api, refreshed).WantError(401, "INVALID_TOKEN")
	refreshes(t, api, other).WantError(401, "INVALID_TOKEN")
	refreshes(t, api, theirs).Want(200)
	c.Post(t, path, authtest.JSON{"current_password": authtest.Password, "new_password": "another long phrase"}).WantError(400, "INVALID_CREDENTIALS")
	api.Anonymous().Post(t, "/api/v1/auth/login", authtest.JSON{"email": c.Email, "password": authtest.Password}).WantError(401, "INVALID_CREDENTIALS")
	loggedIn(t, api, c.Email, "another long phrase")
	loggedIn(t, api, colleague.Email, authtest.Password)
}

// Whoever has got hold of an access token cannot try passwords with it, and the tries count together with logins.
func TestChangePasswordIsThrottled(t *testing.T) {
	t.Parallel()
	api := authtest.New(t, authtest.Options{})
	c := api.Tenant(t).User(t, "operator")
	for i := range 5 {
		if i%2 == 0 {
			c.Post(t, "/api/v1/auth/password", authtest.JSON{"current_password": "wrong", "new_password": "another long phrase"}).WantError(400, "INVALID_CREDENTIALS")
		} else {
			api.Anonymous().Post(t, "/api/v1/auth/login", authtest.JSON{"email": c.Email, "password": "wrong"}).WantError(401, "INVALID_CREDENTIALS")
		}
	}
	a := c.Post(t, "/api/v1/auth/password", authtest.JSON{"current_password": authtest.Password, "new_password": "another long phrase"}).WantError(429, "RATE_LIMIT_EXCEEDED")
	if a.Header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After: %v", a.Header)
	}
	api.Anonymous().Post(t, "/api/v1/auth/login", authtest.JSON{"email": c.Email, "password": authtest.Password}).WantError(429, "RATE_LIMIT_EXCEEDED")
}

// Two changes of one password at once: one of them is told that its current password is no longer right.
func TestChangePasswordRace(t *testing.T) {
	t.Parallel()
	api := authtest.New(t, authtest.Options{Change: func(c *server.Config) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}})
	c := api.Tenant(t).User(t, "operator")
	var wg sync.WaitGroup
	statuses := make([]int, 4)
	for i := range statuses {
		wg.Go(func() {
			from := *c
			from.Header = http.Header{"X-Forwarded-For": {fmt.Sprintf("192.0.2.%d", i)}} // apart for the throttle
			a, err := from.Send("POST", "/api/v1/auth/password", authtest.JSON{"current_password": authtest.Password, "new_password": fmt.Sprintf("a new password, number %d", i)})
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
	loggedIn(t, api, c.Email, fmt.Sprintf("a new password, number %d", won))
}

// A login that has looked at the old password before it is changed, and opens its session after, opens none.
func TestLoginLosesAgainstNewPassword(t *testing.T) {
	t.Parallel()
	api := authtest.New(t, authtest.Options{})
	tenant := api.Tenant(t)
	admin := tenant.User(t, "admin")
	ctx := context.Background()
	for range 20 {
		c := tenant.User(t, "operator")
		var wg sync.WaitGroup
		var logins [4]*authtest.Response
		for i := range logins {
			wg.Go(func() {
				logins[i], _ = api.Anonymous().Send("POST", "/api/v1/auth/login", authtest.JSON{"email": c.Email, "password": authtest.Password})
			})
		}
		wg.Go(func() {
			admin.Send("PATCH", usersPath+"/"+c.Actor.User, authtest.JSON{"password": "another long phrase"})
		})
		wg.Wait()
		var sessions int
		if err := api.DB.Read(db.As(ctx, db.Actor{Tenant: tenant.ID}), db.SQL(`select count(*) from sessions where user_id = $1`, c.Actor.User).Into(&sessions)); err != nil || sessions != 0 {
			t.Fatalf("%d sessions of the old password are open, %v", sessions, err)
		}
	}
}

// The commands and the API agree on what a password is.
func TestPasswordRulesAgree(t *testing.T) {
	t.Parallel()
	api := authtest.New(t, authtest.Options{})
	admin := api.Tenant(t).User(t, "admin")
	for n := range 15 {
		password := strings.Repeat("é", n)
		a := admin.Post(t, usersPath, newcomer(authtest.JSON{"password": password}))
		if taken := a.Status == 201; taken != (auth.CheckPassword(password) == nil) {
			t.Errorf("%d characters: %d, by the commands: %v", n, a.Status, auth.CheckPassword(password))
		}
	}
}

// The checks of the tables allow the values that the API accepts.
func TestEnumsMatchTables(t *testing.T) {
	t.Parallel()
	dbtest.WantChecked(t, "users", "role", auth.Role("").Enum())
}
