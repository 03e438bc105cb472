package auth_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/quotedprintable"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"spoolwright/db"
	"spoolwright/server/mail"
	"spoolwright/tests/testkit"
	"spoolwright/value/language"
	"spoolwright/web"
)

// linkFarm is a service that sends e-mails to a server, with a database of its own.
type linkFarm struct {
	*testkit.API
	admin *testkit.Client
	smtp  *testkit.SMTP
	super *pgx.Conn
}

func newLinkFarm(t *testing.T, o testkit.SMTPOptions) *linkFarm {
	t.Helper()
	f := &linkFarm{smtp: testkit.ServeSMTP(t, o)}
	f.API = f.instance(t, testkit.Database(t, db.Config{}))
	f.admin = f.Tenant(t).User(t, "admin")
	var name string
	testkit.Check(t, f.DB.Read(f.as(t), db.SQL(`select current_database()::text`).Into(&name)))
	var err error
	f.super, err = pgx.Connect(t.Context(), testkit.WithDatabase(testkit.Private().SuperURL(), name))
	testkit.Check(t, err)
	t.Cleanup(func() { f.super.Close(context.Background()) })
	return f
}

// count returns the number that a query of the superuser selects.
func (f *linkFarm) count(t *testing.T, sql string) (n int) {
	t.Helper()
	testkit.Check(t, f.super.QueryRow(t.Context(), sql).Scan(&n))
	return n
}

// instance returns another instance of the service.
func (f *linkFarm) instance(t *testing.T, d *db.DB) *testkit.API {
	t.Helper()
	server, err := mail.ParseURL("smtp://" + f.smtp.Address)
	testkit.Check(t, err)
	from, err := mail.ParseFrom("Farm <farm@farm.example>")
	testkit.Check(t, err)
	return testkit.New(t, testkit.Options{DB: d, Pages: func(c *web.Config) {
		c.Mail, c.PublicURL = mail.New(server, from, nil), "https://farm.example"
	}})
}

// invite creates a user who gets an e-mail, and returns the user's path and e-mail address.
func (f *linkFarm) invite(t *testing.T) (path, email string) {
	t.Helper()
	body := newUser(j{"send": true})
	delete(body, "password")
	r := f.admin.Post(t, usersPath, body).Want(201).Shows(map[string]string{"link_email": "waiting", "invited": "true"})
	return usersPath + "/" + r.ID(), r.Text("email")
}

// wait waits until the e-mail of the user is in the state, after a number of tries.
func (f *linkFarm) wait(t *testing.T, path, state string, tries int) (r *testkit.Response) {
	t.Helper()
	testkit.Eventually(t, "the e-mail is "+state, func() bool {
		if f.tries(t, path) != tries {
			return false
		}
		r = f.admin.Get(t, path).Want(200)
		return r.Text("link_email") == state
	})
	return r
}

// tries returns the number of tries of the user's e-mail that have ended, or -1 if the last one has not.
func (f *linkFarm) tries(t *testing.T, path string) (n int) {
	t.Helper()
	testkit.Check(t, f.DB.Read(f.as(t), db.SQL(`select coalesce(max(case when error is null and ended_at is null
		and tries > 0 then -1 else tries end), 0) from link_emails where user_id = $1`, idOf(path)).Into(&n)))
	return n
}

func (f *linkFarm) as(t *testing.T) context.Context {
	return db.As(t.Context(), db.Actor{Tenant: f.admin.Actor.Tenant})
}

// makeDue makes the e-mail of a user that waits due now, as if time had passed.
func (f *linkFarm) makeDue(t *testing.T, path string) {
	t.Helper()
	testkit.Check(t, f.DB.Write(f.as(t),
		db.SQL(`update link_emails set next_try_at = now() where user_id = $1 and next_try_at is not null`, idOf(path)),
		db.SQL(`select queue_add(array[$1]::uuid[], 'link')::text`, idOf(path))))
}

func idOf(path string) string { return path[strings.LastIndex(path, "/")+1:] }

var linkInText = regexp.MustCompile(`https://farm\.example/password-link/([\w-]+)`)

// tokenIn returns the token of the link in an e-mail.
func tokenIn(t *testing.T, e testkit.Email) string {
	t.Helper()
	text, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(e.Data)))
	testkit.Check(t, err)
	link := linkInText.FindStringSubmatch(string(text))
	if link == nil {
		t.Fatalf("no link in %s", text)
	}
	return link[1]
}

// none reports an error if the server has got another e-mail.
func (f *linkFarm) none(t *testing.T) {
	t.Helper()
	if len(f.smtp.Got) > 0 {
		t.Errorf("there is another e-mail: %+v", <-f.smtp.Got)
	}
}

// A server that does not know the sender takes the e-mail later, also after a restart of the service. Each try has a
// link of its own, and the last one is valid. A user whose e-mail waits gets no second one, and no try before it is
// due.
func TestInvitationIsTriedAgain(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	var mu sync.Mutex
	var refused []testkit.Email
	f := newLinkFarm(t, testkit.SMTPOptions{Judge: func(e testkit.Email) string {
		if tries.Add(1) > 3 {
			return ""
		}
		mu.Lock()
		defer mu.Unlock()
		refused = append(refused, e)
		return "451 4.7.1 Greylisted, see " + strings.Join(strings.Fields(e.Data), "")
	}})
	path, email := f.invite(t)
	f.none(t)
	end := f.MailLinks(t)
	testkit.Equal(t, f.wait(t, path, "waiting", 1).Text("link_email_error")[:len("the mail server answered 451")],
		"the mail server answered 451", "the reason")
	var pause float64
	testkit.Check(t, f.DB.Read(f.as(t), db.SQL(`select extract(epoch from next_try_at - now())::float8 from link_emails
		where user_id = $1`, idOf(path)).Into(&pause)))
	if pause < 30 || pause > 60 {
		t.Errorf("the next try follows after %g s", pause)
	}
	f.admin.Post(t, path+"/password-link", j{"send": true}).Want(200).
		Shows(map[string]string{"token": "", "expires_at": "null"})
	testkit.Equal(t, f.count(t, `select count(*) from audit_log where action = 'user.password_link_created'
		and actor_id = '`+f.admin.Actor.User+`'`), 1, "entries of the audit log")
	f.API.Auth.Forgotten(t.Context(), email, slog.New(slog.DiscardHandler))
	testkit.Eventually(t, "the queue is empty", func() bool {
		return f.count(t, `select count(*) from queue_signals`) == 0
	})
	f.makeDue(t, path)
	f.wait(t, path, "waiting", 2)
	end()

	f.makeDue(t, path)
	testkit.Equal(t, f.tries(t, path), 2, "tries without a worker")
	f.MailLinks(t)
	f.wait(t, path, "waiting", 3)
	f.makeDue(t, path)
	e := f.smtp.Wait(t)
	testkit.Equal(t, e.To, "TO:<"+email+">", "the recipient")
	header, text := e.Read(t)
	if header.Get("Subject") != "Your invitation to Spoolwright" || !strings.Contains(text, "you are invited") {
		t.Errorf("the e-mail is %s", e.Data)
	}
	f.wait(t, path, "sent", 4).Shows(map[string]string{"link_email_error": "null"})
	set := func(e testkit.Email) *testkit.Response {
		return f.Anonymous().Post(t, linkPath, j{"token": tokenIn(t, e), "new_password": newPhrase})
	}
	mu.Lock()
	set(refused[0]).WantError(400, "INVALID_LINK")
	mu.Unlock()
	set(e).Want(204)
	mustLogin(t, f.API, email, newPhrase)
	f.none(t)
}

// A farm sends 100 of these e-mails in an hour. The next one waits, and other farms send theirs.
func TestLinksOfFarm(t *testing.T) {
	t.Parallel()
	f := newLinkFarm(t, testkit.SMTPOptions{})
	_, err := f.super.Exec(t.Context(), `
		with u as (
			insert into users (tenant_id, id, email, name, role, password_hash)
			select '`+f.admin.Actor.Tenant+`', gen_random_uuid(), n || '@many.example', 'User', 'viewer', 'none'
			from generate_series(1, 100) n returning tenant_id, id
		)
		insert into link_emails (tenant_id, user_id, kind, tries, ended_at)
			select tenant_id, id, 'password', 1, now() from u`)
	testkit.Check(t, err)
	path, _ := f.invite(t)
	other := &linkFarm{API: f.API, admin: f.Tenant(t).User(t, "admin"), smtp: f.smtp, super: f.super}
	theirs, email := other.invite(t)
	f.MailLinks(t)
	testkit.Equal(t, f.smtp.Wait(t).To, "TO:<"+email+">", "the recipient")
	other.wait(t, theirs, "sent", 1)
	testkit.Eventually(t, "the e-mail waits for the farm", func() bool {
		return f.admin.Get(t, path).Want(200).Text("link_email_error") ==
			"the farm sends at most 100 of these e-mails in an hour"
	})
	f.wait(t, path, "waiting", 0)
	f.none(t)
	_, err = f.super.Exec(t.Context(), `update link_emails set ended_at = now() - interval '1 hour'
		where user_id in (select id from users where email = '1@many.example')`)
	testkit.Check(t, err)
	f.makeDue(t, path)
	f.smtp.Wait(t)
	f.wait(t, path, "sent", 1).Shows(map[string]string{"link_email_error": "null"})
}

// The reason of a refusal has no link, even if the server repeats what it got.
func TestRefusalHasNoLink(t *testing.T) {
	t.Parallel()
	var got atomic.Value
	f := newLinkFarm(t, testkit.SMTPOptions{Judge: func(e testkit.Email) string {
		text, _ := io.ReadAll(quotedprintable.NewReader(strings.NewReader(e.Data)))
		got.Store(linkInText.FindStringSubmatch(string(text))[1])
		return "554 5.7.1 refused because of " + got.Load().(string)
	}})
	f.MailLinks(t)
	path, _ := f.invite(t)
	reason := f.wait(t, path, "refused", 1).Text("link_email_error")
	if token := got.Load().(string); strings.Contains(reason, token) || !strings.Contains(reason, "refused because of") {
		t.Errorf("the reason is %q", reason)
	}
	f.Anonymous().Post(t, linkPath, j{"token": got.Load(), "new_password": newPhrase}).WantError(400, "INVALID_LINK")
	f.makeDue(t, path)
	testkit.Equal(t, f.tries(t, path), 1, "tries after a refusal")
}

// The service gives up after a day. An admin can ask again.
func TestInvitationIsGivenUp(t *testing.T) {
	t.Parallel()
	f := newLinkFarm(t, testkit.SMTPOptions{Refuse: map[string]string{"MAIL": "550 5.7.1 not today"}})
	f.MailLinks(t)
	path, _ := f.invite(t)
	for n := 1; n < 10; n++ {
		f.wait(t, path, "waiting", n)
		f.makeDue(t, path)
	}
	f.wait(t, path, "refused", 10)
	f.admin.Post(t, path+"/password-link", j{"send": true}).Want(200)
	f.wait(t, path, "waiting", 1)
}

// Two instances send each e-mail once.
func TestTwoLinkMailers(t *testing.T) {
	t.Parallel()
	f := newLinkFarm(t, testkit.SMTPOptions{})
	f.MailLinks(t)
	f.instance(t, f.DB).MailLinks(t)
	const users = 20
	got := map[string]int{}
	for range users {
		f.invite(t)
	}
	for range users {
		got[f.smtp.Wait(t).To]++
	}
	testkit.Equal(t, len(got), users, "recipients")
	testkit.Eventually(t, "all e-mails are sent", func() bool {
		n := 0
		testkit.Check(t, f.DB.Read(f.as(t), db.SQL(`select count(*) from link_emails where next_try_at is not null`).
			Into(&n)))
		return n == 0
	})
	f.none(t)
}

// A worker that has lost its lease does not send an e-mail that another one sends.
func TestLinkMailerWithoutLease(t *testing.T) {
	t.Parallel()
	arrived, goOn := make(chan bool, 2), make(chan bool)
	f := newLinkFarm(t, testkit.SMTPOptions{Judge: func(testkit.Email) string {
		arrived <- true
		<-goOn
		return ""
	}})
	f.MailLinks(t)
	path, _ := f.invite(t)
	<-arrived
	f.instance(t, f.DB).MailLinks(t)
	testkit.Eventually(t, "the second worker has looked at the e-mail", func() bool {
		// The lease ends while the server is slow. Then either of the two can get it.
		_, err := f.super.Exec(t.Context(), `update queue_items set leased_until = now() - interval '1 s',
			due_at = now() where leased_until is not null`)
		testkit.Check(t, err)
		return len(arrived) > 0 ||
			f.count(t, `select count(*) from queue_items where leased_until is null and due_at > now()`) == 1
	})
	close(goOn)
	f.wait(t, path, "sent", 1)
	f.smtp.Wait(t)
	f.none(t)
}

// A user who was disabled or removed, or who has a password by now, gets no invitation. A link that an admin makes
// meanwhile ends the waiting, so that it stays valid.
func TestInvitationIsNotNeeded(t *testing.T) {
	t.Parallel()
	f := newLinkFarm(t, testkit.SMTPOptions{})
	var all []string
	var token string
	for _, end := range []func(path string){
		func(path string) { f.admin.Patch(t, path, j{"disabled": true}).Want(200) },
		func(path string) { f.admin.Delete(t, path).Want(204) },
		func(path string) { f.admin.Patch(t, path, j{"password": newPhrase}).Want(200) },
		func(path string) { token = f.admin.Post(t, path+"/password-link", nil).Want(200).Text("token") },
	} {
		path, _ := f.invite(t)
		end(path)
		all = append(all, path)
	}
	_, last := f.invite(t)
	f.MailLinks(t)
	testkit.Equal(t, f.smtp.Wait(t).To, "TO:<"+last+">", "the recipient")
	testkit.Eventually(t, "the queue is empty", func() bool {
		return f.count(t, `select (select count(*) from queue_signals) + (select count(*) from queue_items)`) == 0
	})
	f.none(t)
	for i, path := range all {
		if i != 1 {
			f.admin.Get(t, path).Want(200).Shows(map[string]string{"link_email": "null"})
		}
	}
	f.Anonymous().Post(t, linkPath, j{"token": token, "new_password": newPhrase}).Want(204)
}

// A user who is disabled before the e-mail is sent gets none.
func TestDisabledBeforeTheEmail(t *testing.T) {
	t.Parallel()
	f := newLinkFarm(t, testkit.SMTPOptions{})
	path, _ := f.invite(t)
	h := f.admin.Hold(t, `update users set disabled_at = now() where id = '`+idOf(path)+`'`)
	f.MailLinks(t)
	waits := make(chan struct{})
	done := h.StartWaiting(1, func() { <-waits })
	h.Commit()
	close(waits)
	<-done
	testkit.Eventually(t, "the queue is empty", func() bool {
		return f.count(t, `select (select count(*) from queue_signals) + (select count(*) from queue_items)`) == 0
	})
	f.admin.Get(t, path).Want(200).Shows(map[string]string{"link_email": "null"})
	f.none(t)
}

// A request for an e-mail that cannot be sent names the field send. A refused request is not in the audit log.
func TestSendIsRefused(t *testing.T) {
	t.Parallel()
	f := newLinkFarm(t, testkit.SMTPOptions{})
	tenant := f.TenantOf(f.admin.Actor.Tenant)
	viewer := tenant.User(t, "viewer")
	path := usersPath + "/" + viewer.Actor.User
	f.admin.Post(t, usersPath, newUser(j{"send": true})).Fields("send") // it has a password
	f.admin.Post(t, usersPath, j{"email": "a@b.example", "name": "A", "role": "viewer", "disabled": true, "send": true}).
		Fields("send")
	f.admin.Patch(t, path, j{"send": true}).Fields("send")
	f.admin.Post(t, path+"/password-link", j{"send": "yes"}).Fields("send")
	viewer.Post(t, path+"/password-link", j{"send": true}).WantError(403, "FORBIDDEN")
	f.Tenant(t).User(t, "admin").Post(t, path+"/password-link", j{"send": true}).WantError(404, "NOT_FOUND")
	held := f.admin.Hold(t, `update users set disabled_at = now() where id = '`+viewer.Actor.User+`'`)
	done := held.StartWaiting(1, func() {
		f.admin.Post(t, path+"/password-link", j{"send": true}).WantError(409, "USER_DISABLED")
	})
	held.Commit()
	<-done
	f.admin.Post(t, path+"/password-link", j{"send": true}).WantError(409, "USER_DISABLED")
	testkit.Equal(t, f.count(t, `select count(*) from audit_log where action = 'user.password_link_created'`), 0,
		"entries of the audit log")

	without := testkit.New(t, testkit.Options{}).Tenant(t).User(t, "admin")
	without.Post(t, usersPath, j{"email": fmt.Sprintf("x-%s@b.example", without.Actor.User), "name": "A",
		"role": "viewer", "send": true}).Fields("send")
	without.Post(t, usersPath+"/"+without.Actor.User+"/password-link", j{"send": true}).Fields("send")
}

// Names are one line: the text of an e-mail is the service's.
func TestNamesInEmails(t *testing.T) {
	t.Parallel()
	f := newLinkFarm(t, testkit.SMTPOptions{})
	for _, name := range []string{"Bob\r\nBcc: x@y.example", "Bob\u0085x", "Bob\u2028x", "Bob\u2029x"} {
		f.admin.Post(t, usersPath, newUser(j{"name": name})).Fields("name")
		f.admin.Patch(t, usersPath+"/"+f.admin.Actor.User, j{"name": name}).Fields("name")
	}
	f.admin.Post(t, usersPath, newUser(j{"name": "Zoë 李 \U0001f469\u200d\U0001f52c"})).Want(201)

	// Names from before the rule, and those of farms.
	path, _ := f.invite(t)
	_, err := f.super.Exec(t.Context(),
		`update users set name = e'Bob\r\n\r\nVisit evil.example' where id = '`+idOf(path)+`'`)
	testkit.Check(t, err)
	_, err = f.super.Exec(t.Context(),
		`update tenants set name = e'North\n\nFarm' where tenant_id = '`+f.admin.Actor.Tenant+`'`)
	testkit.Check(t, err)
	f.MailLinks(t)
	text, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(f.smtp.Wait(t).Data)))
	testkit.Check(t, err)
	for _, want := range []string{"Hello Bob Visit evil.example,", "the farm North Farm in"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
}

// An invitation is in the language of the user, else in that of the farm.
func TestLinkMailLanguages(t *testing.T) {
	t.Parallel()
	f := newLinkFarm(t, testkit.SMTPOptions{})
	f.MailLinks(t)
	invite := func(language any) (subject, text string) {
		t.Helper()
		body := newUser(j{"send": true, "language": language})
		delete(body, "password")
		f.admin.Post(t, usersPath, body).Want(201)
		header, text := f.smtp.Wait(t).Read(t)
		subject, err := new(mime.WordDecoder).DecodeHeader(header.Get("Subject"))
		testkit.Check(t, err)
		return subject, text
	}
	want := func(language any, subject, text string) {
		t.Helper()
		if s, all := invite(language); s != subject || !strings.Contains(all, text) || !linkInText.MatchString(all) {
			t.Errorf("language %v: %s: %s", language, s, all)
		}
	}
	in := func(code string) (subject, text string) {
		l := language.Of(code)
		text, _, _ = strings.Cut(l.Text("Hello %s,\n\nyou are invited to the farm %s in Spoolwright.\n"+
			"With this link you set your password. It works once, within 24 hours:\n\n%s\n\n"+
			"If you do not expect this e-mail, ignore it: nothing has changed.\n", "Bob", "|", ""), "|")
		return l.Text("Your invitation to Spoolwright"), text
	}
	english, englishText := in("en")
	german, germanText := in("de")
	want(nil, english, englishText)
	want("de", german, germanText)
	f.admin.Patch(t, "/api/v1/settings", j{"language": "de"}).Want(200)
	want(nil, german, germanText)
	want("en", english, englishText)
}
