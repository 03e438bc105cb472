package web_test

import (
	"io"
	"mime/quotedprintable"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/server/mail"
	"spoolwright/tests/testkit"
	"spoolwright/web"
)

const farmAddress = "https://farm.example"

// withMail returns a function that configures the pages for e-mails by the server.
func withMail(t *testing.T, s *testkit.SMTP) func(*web.Config) {
	t.Helper()
	server, err := mail.ParseURL("smtp://" + s.Address)
	testkit.Check(t, err)
	from, err := mail.ParseFrom("Farm <farm@farm.example>")
	testkit.Check(t, err)
	return func(c *web.Config) { c.Mail, c.PublicURL = mail.New(server, from, nil), farmAddress }
}

var linkPattern = regexp.MustCompile(farmAddress + `(/password-link/[\w-]+)`)

// linkIn returns the path of the password link in the next e-mail, which must be for the address.
func linkIn(t *testing.T, s *testkit.SMTP, to string) string {
	t.Helper()
	select {
	case e := <-s.Got:
		text, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(e.Data)))
		link := linkPattern.FindStringSubmatch(string(text))
		if err != nil || link == nil || e.To != "TO:<"+to+">" {
			t.Fatalf("the e-mail is %+v, %v", e, err)
		}
		return link[1]
	case <-time.After(testkit.WaitTimeout):
		t.Fatal("no e-mail arrives")
	}
	panic("unreachable")
}

// A person who forgot the password gets a link by e-mail, once an hour. The page is the same for unknown addresses and
// disabled users, who get none.
func TestForgottenPassword(t *testing.T) {
	t.Parallel()
	s := testkit.ServeSMTP(t, testkit.SMTPOptions{})
	var ahead atomic.Int64
	api := newAPI(t, testkit.Options{DB: testkit.Database(t, db.Config{}), Pages: withMail(t, s),
		Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	api.MailLinks(t)
	tenant := api.Tenant(t)
	admin, user, disabled := tenant.User(t, "admin"), tenant.User(t, "viewer"), tenant.User(t, "viewer")
	admin.Patch(t, "/api/v1/users/"+disabled.Actor.User, j{"disabled": true}).Want(200)
	b := newBrowser(t, api.URL)
	const at = "/forgotten-password"
	b.get(t, "/sign-in").want(t, 200).shows(t, "Forgot your password?")
	form := b.get(t, at).want(t, 200)
	form.submit(t, at, "email", "").want(t, 422)
	form.submit(t, at, "email", "a@b.example\r\nBcc: x@y.example").want(t, 422)
	var pages []string
	for _, email := range []string{"nobody@farm.example", disabled.Email, strings.ToUpper(user.Email), user.Email} {
		pages = append(pages, form.submit(t, at, "email", email).want(t, 200).shows(t, "is on its way").text)
	}
	for _, text := range pages {
		testkit.Equal(t, text, pages[0], "the page for another address")
	}
	link := linkIn(t, s, user.Email)
	b.get(t, link).want(t, 200).submit(t, link, "new_password", "another long phrase").want(t, 200)
	b.get(t, "/sign-in").submit(t, "/sign-in", "email", user.Email, "password", "another long phrase").want(t, 303)

	// A fresh link of an admin stays for an hour.
	token := admin.Post(t, "/api/v1/users/"+user.Actor.User+"/password-link", nil).Want(200).Text("token")
	form.submit(t, at, "email", user.Email).want(t, 200)
	ahead.Store(int64(59 * time.Minute))
	form.submit(t, at, "email", user.Email).want(t, 200)
	b.get(t, "/password-link/"+token).submit(t, "/password-link/"+token, "new_password", "short").want(t, 422)
	ahead.Store(int64(61 * time.Minute))
	form.submit(t, at, "email", user.Email).want(t, 200)
	link = linkIn(t, s, user.Email)
	b.get(t, "/password-link/"+token).submit(t, "/password-link/"+token, "new_password", "a third long phrase").
		want(t, 400)
	b.get(t, link).submit(t, link, "new_password", "a third long phrase").want(t, 200)
	if len(s.Got) > 0 {
		t.Errorf("there is another e-mail: %+v", <-s.Got)
	}
}

// Requests for links are limited for each client address, whether or not a user has the e-mail.
func TestForgottenPasswordLimit(t *testing.T) {
	t.Parallel()
	s := testkit.ServeSMTP(t, testkit.SMTPOptions{})
	api := newAPI(t, testkit.Options{Pages: withMail(t, s)})
	b := newBrowser(t, api.URL)
	form := b.get(t, "/forgotten-password")
	for range 5 {
		form.submit(t, "/forgotten-password", "email", "nobody@farm.example").want(t, 200)
	}
	form.submit(t, "/forgotten-password", "email", "nobody@farm.example").want(t, 429).shows(t, "Too many")
	form.submit(t, "/forgotten-password", "email", "other@farm.example").want(t, 200)
}

// An invitation and a new link are sent. The page says what has become of the e-mail, and does not show the link.
func TestInvitationByMail(t *testing.T) {
	t.Parallel()
	s := testkit.ServeSMTP(t, testkit.SMTPOptions{Judge: func(e testkit.Email) string {
		if strings.Contains(e.To, "unknown") {
			return "550 5.1.1 no such user"
		}
		return ""
	}})
	api := newAPI(t, testkit.Options{DB: testkit.Database(t, db.Config{}), Pages: withMail(t, s)})
	admin := api.Tenant(t).User(t, "admin")
	b := signIn(t, admin)
	const at = "/settings/users"
	b.get(t, at).submit(t, at, "email", "bob@farm.example", "name", "Bob").to(t, at)
	b.get(t, at).shows(t, "The e-mail with the password link waits since").
		submit(t, at, "email", "unknown@farm.example", "name", "Eve").to(t, at)
	api.MailLinks(t)
	link := linkIn(t, s, "bob@farm.example")
	var page *page
	testkit.Eventually(t, "both e-mails end", func() bool {
		page = b.get(t, at)
		return !strings.Contains(page.text, "waits since")
	})
	page.shows(t, "A password link was sent at", "was not sent", "5.1.1 no such user")
	testkit.Lacks(t, page.text, "/password-link/A", "the page shows a link")
	bob := "/settings/users/" + admin.Get(t, "/api/v1/users?email=bob@farm.example").Text("items.0.id")
	page.submit(t, bob+"/password-email").to(t, at)
	if again := linkIn(t, s, "bob@farm.example"); again == link {
		t.Errorf("the link %s is sent twice", link)
	}
	b.get(t, at).submit(t, bob+"/password-link").want(t, 200).shows(t, "Send it to Bob.")
}

// Without a mail server, or without the address of the farm, there is no such page.
func TestNoForgottenPassword(t *testing.T) {
	t.Parallel()
	s := testkit.ServeSMTP(t, testkit.SMTPOptions{})
	for _, change := range []func(*web.Config){
		func(c *web.Config) { c.PublicURL = farmAddress },
		func(c *web.Config) { withMail(t, s)(c); c.PublicURL = "" },
	} {
		api := newAPI(t, testkit.Options{Pages: change})
		b := newBrowser(t, api.URL)
		b.get(t, "/sign-in").want(t, 200).hides(t, "Forgot your password?")
		b.get(t, "/forgotten-password").want(t, 404)
		b.do(t, "POST", "/forgotten-password", map[string][]string{"email": {"a@b.example"}}).want(t, 404)
	}
}
