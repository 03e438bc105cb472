package auth_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spoolwright/tests/testkit"
	"spoolwright/value"
)

const linkPath = "/api/v1/auth/password-link"

// A link sets the password of its user once, and ends the user's sessions.
func TestPasswordLink(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{})
	tenant := api.Tenant(t)
	admin := tenant.User(t, "admin")
	created := admin.Post(t, usersPath, newUser(nil)).Want(201)
	path := usersPath + "/" + created.ID() + "/password-link"
	session := mustLogin(t, api, created.Text("email"), phrase)

	replaced := admin.Post(t, path, nil).Want(200).Text("token")
	token := admin.Post(t, path, nil).Want(200).Text("token")
	set := func(token, password string) *testkit.Response {
		return api.Anonymous().Post(t, linkPath, j{"token": token, "new_password": password})
	}
	mustLogin(t, api, created.Text("email"), phrase)
	set(token, "short").WantError(422, "VALIDATION_ERROR")
	for _, wrong := range []string{replaced, token + "x", "x", session.Text("refresh_token"),
		session.Text("access_token")} {
		set(wrong, newPhrase).WantError(400, "INVALID_LINK")
	}
	set(token, newPhrase).Want(204)
	set(token, phrase).WantError(400, "INVALID_LINK")
	tryLogin(t, api, created.Text("email"), phrase).WantError(401, "INVALID_CREDENTIALS")
	tryRefresh(t, api, session).WantError(401, "INVALID_TOKEN")
	mustLogin(t, api, created.Text("email"), newPhrase)

	// A link is no other token, and only admins of the tenant create one.
	api.Anonymous().Post(t, refreshPath, j{"refresh_token": token}).WantError(401, "INVALID_TOKEN")
	(&testkit.Client{API: api, Token: token}).Get(t, "/api/v1/auth/me").WantError(401, "INVALID_TOKEN")
	for _, role := range []string{"viewer", "operator"} {
		tenant.User(t, role).Post(t, path, nil).WantError(403, "FORBIDDEN")
	}
	api.Tenant(t).User(t, "admin").Post(t, path, nil).WantError(404, "NOT_FOUND")
	admin.Post(t, usersPath+"/"+value.NewID()+"/password-link", nil).WantError(404, "NOT_FOUND")
}

// A link ends with its 24 hours, with a new password, and when the user is disabled.
func TestPasswordLinkEnds(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	api := testkit.New(t, testkit.Options{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	admin := api.Tenant(t).User(t, "admin")
	for name, end := range map[string]func(user *testkit.Response, path string){
		"new password": func(_ *testkit.Response, path string) {
			admin.Patch(t, path, j{"password": newPhrase}).Want(200)
		},
		"own new password": func(user *testkit.Response, _ string) {
			changePassword(t, bearer(api, mustLogin(t, api, user.Text("email"), phrase)), phrase, newPhrase).Want(204)
		},
		"disabled": func(_ *testkit.Response, path string) { admin.Patch(t, path, j{"disabled": true}).Want(200) },
		"disabled for a time": func(_ *testkit.Response, path string) {
			admin.Patch(t, path, j{"disabled": true}).Want(200)
			admin.Patch(t, path, j{"disabled": false}).Want(200)
		},
		"deleted": func(_ *testkit.Response, path string) { admin.Delete(t, path).Want(204) },
	} {
		user := admin.Post(t, usersPath, newUser(nil)).Want(201)
		path := usersPath + "/" + user.ID()
		token := admin.Post(t, path+"/password-link", nil).Want(200).Text("token")
		admin.Patch(t, path, j{"name": "Robert", "role": "viewer"}).Want(200) // changes nothing about the link
		end(user, path)
		r := api.Anonymous().Post(t, linkPath, j{"token": token, "new_password": "a third long phrase"})
		testkit.Equal(t, r.Status, 400, "%s", name)
	}
	user := admin.Post(t, usersPath, newUser(nil)).Want(201)
	path := usersPath + "/" + user.ID()
	token := admin.Post(t, path+"/password-link", nil).Want(200).Text("token")
	admin.Patch(t, path, j{"name": "Robert", "role": "viewer"}).Want(200)
	ahead.Store(int64(24*time.Hour + time.Minute))
	api.Anonymous().Post(t, linkPath, j{"token": token, "new_password": newPhrase}).WantError(400, "INVALID_LINK")
	ahead.Store(int64(24*time.Hour - time.Minute))
	api.Anonymous().Post(t, linkPath, j{"token": token, "new_password": newPhrase}).Want(204)
}

// A disabled user gets no link, also if the user is disabled meanwhile, and cannot use one.
func TestPasswordLinkOfDisabledUser(t *testing.T) {
	t.Parallel()
	admin := testkit.New(t, testkit.Options{}).Tenant(t).User(t, "admin")
	user := usersPath + "/" + admin.Post(t, usersPath, newUser(nil)).Want(201).ID()
	token := admin.Post(t, user+"/password-link", nil).Want(200).Text("token")
	id := strings.TrimPrefix(user, usersPath+"/")
	held := admin.Hold(t, `update users set disabled_at = now() where id = '`+id+`'`) // keeps the link
	var created *testkit.Response
	done := held.StartWaiting(1, func() { created = admin.Post(t, user+"/password-link", nil) })
	held.Commit()
	<-done
	created.WantError(409, "USER_DISABLED")
	admin.Post(t, user+"/password-link", nil).WantError(409, "USER_DISABLED")
	admin.API.Anonymous().Post(t, linkPath, j{"token": token, "new_password": newPhrase}).
		WantError(400, "INVALID_LINK")
	admin.Patch(t, user, j{"disabled": false}).Want(200)
	admin.Post(t, user+"/password-link", nil).Want(200)
}

// Of concurrent requests with a link, one sets the password.
func TestPasswordLinkOnce(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{})
	admin := api.Tenant(t).User(t, "admin")
	user := admin.Post(t, usersPath, newUser(nil)).Want(201)
	token := admin.Post(t, usersPath+"/"+user.ID()+"/password-link", nil).Want(200).Text("token")
	testkit.Race(t, 4, func(int) (*testkit.Response, error) {
		return api.Anonymous().Send("POST", linkPath, j{"token": token, "new_password": newPhrase})
	}).Want(t, map[string]int{"204": 1, "400 INVALID_LINK": 3})
}

// The token of a link is short. A token that the service has not made, or of which a character was changed, is
// rejected, and so is the token of another secret.
func TestPasswordLinkToken(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{})
	admin := api.Tenant(t).User(t, "admin")
	user := admin.Post(t, usersPath, newUser(nil)).Want(201)
	token := admin.Post(t, usersPath+"/"+user.ID()+"/password-link", nil).Want(200).Text("token")
	if len(token) > 43 {
		t.Errorf("the token %s has %d characters", token, len(token))
	}
	other := []byte(token)
	for i := range other {
		was := other[i]
		if other[i] = 'A'; was == 'A' {
			other[i] = 'Q'
		}
		api.Anonymous().Post(t, linkPath, j{"token": string(other), "new_password": newPhrase}).
			WantError(400, "INVALID_LINK")
		other[i] = was
	}
	api.Anonymous().Post(t, linkPath, j{"token": token, "new_password": newPhrase}).Want(204)
}

// A user who is created without a password cannot log in until a link sets it, and does not count as an admin who
// can.
func TestUserWithoutPassword(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{})
	tenant := api.Tenant(t)
	admin := tenant.User(t, "admin")
	body := newUser(j{"role": "admin"})
	delete(body, "password")
	user := admin.Post(t, usersPath, body).Want(201)
	user.Shows(map[string]string{"invited": "true"})
	path := usersPath + "/" + user.ID()
	admin.Patch(t, path, j{"password": nil}).WantError(422, "VALIDATION_ERROR")
	for _, password := range []string{"", phrase} {
		r := tryLogin(t, api, user.Text("email"), password)
		if r.Status != 401 && r.Status != 422 {
			t.Errorf("the password %q: %d", password, r.Status)
		}
	}
	own := usersPath + "/" + admin.Actor.User
	admin.Patch(t, own, j{"role": "viewer"}).WantError(409, "LAST_ADMIN")
	admin.Delete(t, own).WantError(409, "LAST_ADMIN")
	token := admin.Post(t, path+"/password-link", nil).Want(200).Text("token")
	api.Anonymous().Post(t, linkPath, j{"token": token, "new_password": newPhrase}).Want(204)
	admin.Get(t, path).Shows(map[string]string{"invited": "false"})
	mustLogin(t, api, user.Text("email"), newPhrase)
	admin.Patch(t, own, j{"role": "viewer"}).Want(200)
}
