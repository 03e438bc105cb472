package webhooks_test

import (
	"fmt"
	"mime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/server/mail"
	"spoolwright/tests/testkit"
	"spoolwright/value/language"
	"spoolwright/webhooks"
)

// withMail returns a function that configures a service for e-mails by a server at the address.
func withMail(t *testing.T, address string) func(*webhooks.Config) {
	t.Helper()
	server, err := mail.ParseURL("smtp://" + address)
	testkit.Check(t, err)
	from, err := mail.ParseFrom("Farm <farm@farm.example>")
	testkit.Check(t, err)
	return func(c *webhooks.Config) { c.Mail, c.PublicURL = mail.New(server, from, nil), farmURL }
}

// email creates a webhook that sends all events to the address. fields replaces or adds fields of the request.
func (f *farm) email(t *testing.T, admin *testkit.Client, address string, fields testkit.JSON) string {
	t.Helper()
	body := testkit.JSON{"url": "mailto:" + address, "format": "email", "events": []string{"*"}}
	for name, value := range fields {
		body[name] = value
	}
	return hooksPath + admin.Post(t, "/api/v1/webhooks", body).Want(201).ID()
}

// makeDue makes the pending deliveries of a webhook due now, as if time had passed.
func (f *farm) makeDue(t *testing.T, admin *testkit.Client, path string) {
	t.Helper()
	id := strings.TrimPrefix(path, hooksPath)
	testkit.Check(t, f.DB.Write(db.As(t.Context(), db.Actor{Tenant: admin.Actor.Tenant}),
		db.SQL(`update webhook_deliveries set next_try_at = now() where webhook_id = $1 and status = 'pending'`, id),
		db.SQL(`select queue_add(array[$1]::uuid[])::text`, id)))
}

// ended waits until no try of a delivery will follow, or it waits for a reason, and returns it.
func ended(t *testing.T, c *testkit.Client, delivery string) (r *testkit.Response) {
	t.Helper()
	testkit.Eventually(t, "the delivery ends", func() bool {
		r = c.Get(t, delivery).Want(200)
		return r.Text("status") != "pending" || strings.HasPrefix(r.Text("error"), "waits")
	})
	return r
}

// A message arrives by e-mail, as text that is no header, with a link and the reason why the person gets it.
func TestEmail(t *testing.T) {
	t.Parallel()
	s := testkit.ServeSMTP(t, testkit.SMTPOptions{})
	f := start(t, withMail(t, s.Address))
	tenant := f.Tenant(t)
	admin := tenant.User(t, "admin")
	f.sql(t, admin, `update tenants set time_zone = 'Asia/Kathmandu'`)
	path := f.email(t, admin, strings.ToUpper(admin.Email), nil)
	admin.Get(t, path).Want(200).Shows(map[string]string{"format": "email", "daily": "false"})

	delivery := path + "/deliveries/" + admin.Post(t, path+"/test", nil).Want(200).ID()
	e := s.Wait(t)
	testkit.Equal(t, e.To, "TO:<"+strings.ToUpper(admin.Email)+">", "the recipient")
	header, text := e.Read(t)
	testkit.Equal(t, header.Get("Subject"), "Test: This is a test.", "the subject")
	if !strings.Contains(text, farmURL+path[len("/api/v1"):len("/api/v1")+1]+"settings/webhooks/"+path[len(hooksPath):]) {
		t.Errorf("the text is %q", text)
	}
	eventually(t, admin, delivery, map[string]string{"status": "delivered", "response_status": "250", "tries": "1"})

	order := admin.Post(t, "/api/v1/orders",
		testkit.JSON{"reference": "A7\r\nBcc: eve@evil.example\r\n\r\n.\r\n", "customer": "Zoë"}).Want(201)
	e = s.Wait(t)
	header, text = e.Read(t)
	if header.Get("Bcc") != "" || strings.Count(e.Data, "eve@evil.example") != 2 {
		t.Errorf("the e-mail is %s", e.Data)
	}
	local := f.sql(t, admin, `select to_char(now() at time zone 'Asia/Kathmandu', 'YYYY-MM-DD') as day`)
	if !strings.HasPrefix(text, string(testkit.NewResponse(t, local.Object()).Text("day"))) ||
		!strings.Contains(text, "New order: A7") || !strings.Contains(text, "\n"+farmURL+"/orders/"+order.ID()+"\n") ||
		!strings.Contains(text, "for Zoë") || strings.Contains(text, "\n.\n") {
		t.Errorf("the text is %q", text)
	}
}

// The e-mails and messages of a farm are in its language.
func TestEmailInGerman(t *testing.T) {
	t.Parallel()
	s := testkit.ServeSMTP(t, testkit.SMTPOptions{})
	f := start(t, withMail(t, s.Address))
	admin := f.Tenant(t).User(t, "admin")
	admin.Patch(t, "/api/v1/settings", testkit.JSON{"language": "de"}).Want(200)
	path := f.email(t, admin, admin.Email, nil)
	admin.Post(t, path+"/test", nil).Want(200)
	header, text := s.Wait(t).Read(t)
	subject, err := new(mime.WordDecoder).DecodeHeader(header.Get("Subject"))
	testkit.Check(t, err)
	l := language.Of("de")
	testkit.Equal(t, subject, l.Text("Test")+": "+l.Text("This is a test."), "the subject")
	why, _, _ := strings.Cut(l.Text("You get this e-mail as a user of the farm %s. Its admins choose the events, and can "+
		"end the e-mails:", "|"), "|")
	if !strings.Contains(text, why) {
		t.Errorf("the text is %q", text)
	}
}

// A real SMTP server takes the e-mails of a webhook.
func TestEmailByOtherServer(t *testing.T) {
	t.Parallel()
	address, got := testkit.ServeAIOSMTPD(t)
	f := start(t, withMail(t, address))
	admin := f.Tenant(t).User(t, "admin")
	path := f.email(t, admin, admin.Email, nil)
	delivery := path + "/deliveries/" + admin.Post(t, path+"/test", nil).Want(200).ID()
	eventually(t, admin, delivery, map[string]string{"status": "delivered"})
	if text := got(); !strings.Contains(text, "To: <"+admin.Email+">") ||
		!strings.Contains(text, "Subject: Test: This is a test.") {
		t.Errorf("the server got %s", text)
	}
}

// Only users of the farm who have set a password and are not disabled get e-mails: when a webhook is created or
// changed, and for each e-mail.
func TestRecipients(t *testing.T) {
	t.Parallel()
	s := testkit.ServeSMTP(t, testkit.SMTPOptions{})
	f := start(t, withMail(t, s.Address))
	tenant := f.Tenant(t)
	admin, reader, disabled := tenant.User(t, "admin"), tenant.User(t, "viewer"), tenant.User(t, "viewer")
	stranger := f.Tenant(t).User(t, "viewer")
	invited := tenant.User(t, "viewer")
	f.sql(t, admin, `update users set password_hash = '' where id = $1`, invited.Actor.User)
	admin.Patch(t, "/api/v1/users/"+disabled.Actor.User, testkit.JSON{"disabled": true}).Want(200)
	path := f.email(t, admin, reader.Email, nil)
	for _, url := range []string{
		"mailto:nobody@farm.example", "mailto:" + stranger.Email, "mailto:" + disabled.Email, "mailto:" + invited.Email,
		"mailto:", "mailto:bob", admin.Email, "https://farm.example",
		"mailto:" + admin.Email + "?bcc=eve@evil.example", "mailto:" + admin.Email + ",eve@evil.example",
		"mailto:" + admin.Email + "%0d%0aBcc:eve@evil.example", "mailto:<" + admin.Email + ">"} {
		body := testkit.JSON{"url": url, "format": "email", "events": []string{"*"}}
		admin.Post(t, "/api/v1/webhooks", body).WantError(422, "VALIDATION_ERROR").
			Shows(map[string]string{"errors.0.field": "url"})
		admin.Patch(t, path, testkit.JSON{"url": url}).WantError(422, "VALIDATION_ERROR").
			Shows(map[string]string{"errors.0.field": "url"})
	}
	admin.Patch(t, path, testkit.JSON{"url": "mailto:" + admin.Email}).Want(200)
	admin.Patch(t, path, testkit.JSON{"url": "mailto:" + reader.Email, "daily": true}).Want(200).
		Shows(map[string]string{"daily": "true"})

	admin.Patch(t, "/api/v1/users/"+reader.Actor.User, testkit.JSON{"disabled": true}).Want(200)
	delivery := path + "/deliveries/" + admin.Post(t, path+"/test", nil).Want(200).ID()
	r := ended(t, admin, delivery)
	r.Shows(map[string]string{"status": "failed", "tries": "1"})
	if !strings.Contains(r.Text("error"), "no user of the farm") {
		t.Errorf("the error is %q", r.Text("error"))
	}
	admin.Patch(t, "/api/v1/users/"+reader.Actor.User, testkit.JSON{"disabled": false}).Want(200)
	admin.Post(t, delivery+"/redeliver", nil).Want(200)
	testkit.Equal(t, s.Wait(t).To, "TO:<"+reader.Email+">", "the recipient")

	// Other formats are never daily.
	body := testkit.JSON{"url": "https://h.example/x", "events": []string{"*"}, "daily": true}
	admin.Post(t, "/api/v1/webhooks", body).WantError(422, "VALIDATION_ERROR").
		Shows(map[string]string{"errors.0.field": "daily"})
	delete(body, "daily")
	signed := hooksPath + admin.Post(t, "/api/v1/webhooks", body).Want(201).ID()
	admin.Patch(t, signed, testkit.JSON{"daily": true}).WantError(422, "VALIDATION_ERROR")
	admin.Patch(t, signed, testkit.JSON{"url": "mailto:" + admin.Email}).WantError(422, "VALIDATION_ERROR")
}

// Without a mail server, no webhook sends e-mails, and the response says which setting is missing.
func TestEmailWithoutServer(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	admin := f.Tenant(t).User(t, "admin")
	r := admin.Post(t, "/api/v1/webhooks",
		testkit.JSON{"url": "mailto:" + admin.Email, "format": "email", "events": []string{"*"}}).
		WantError(422, "VALIDATION_ERROR").Shows(map[string]string{"errors.0.field": "format"})
	if !strings.Contains(r.Text("errors.0.message"), "SMTP_URL") {
		t.Errorf("the problem is %q", r.Text("errors.0.message"))
	}
	id := testkit.NewResponse(t, f.sql(t, admin, `insert into webhooks (id, url, events, secret, format)
		values (uuid_v7(), 'mailto:' || $1, '{*}', '', 'email') returning id`, admin.Email).Object()).ID()
	delivery := hooksPath + id + "/deliveries/" + admin.Post(t, hooksPath+id+"/test", nil).Want(200).ID()
	eventually(t, admin, delivery, map[string]string{"status": "failed", "tries": "3"})
}

// A temporary refusal is repeated with the same Message-ID, and a permanent one is not.
func TestEmailRefused(t *testing.T) {
	t.Parallel()
	var response atomic.Value
	ids := make(chan string, 10)
	s := testkit.ServeSMTP(t, testkit.SMTPOptions{Judge: func(e testkit.Email) string {
		header, _ := e.Read(t)
		ids <- header.Get("Message-Id")
		return response.Load().(string)
	}})
	f := start(t, withMail(t, s.Address))
	admin := f.Tenant(t).User(t, "admin")
	path := f.email(t, admin, admin.Email, nil)
	response.Store("451 4.7.1 greylisted, come back later")
	delivery := path + "/deliveries/" + admin.Post(t, path+"/test", nil).Want(200).ID()
	r := ended(t, admin, delivery)
	r.Shows(map[string]string{"status": "failed", "tries": "3", "response_status": "451"})
	if !strings.Contains(r.Text("response"), "greylisted") {
		t.Errorf("the response is %q", r.Text("response"))
	}
	if first, second, third := <-ids, <-ids, <-ids; first != second || first != third || first == "" {
		t.Errorf("the ids are %s, %s and %s", first, second, third)
	}
	response.Store("554 5.7.1 not wanted")
	admin.Post(t, delivery+"/redeliver", nil).Want(200)
	ended(t, admin, delivery).Shows(map[string]string{"status": "failed", "tries": "1", "response_status": "554"})
	response.Store("")
	admin.Post(t, delivery+"/redeliver", nil).Want(200)
	s.Wait(t)
	eventually(t, admin, delivery, map[string]string{"status": "delivered", "response_status": "250"})
}

// The webhooks of a farm send 60 e-mails in an hour. What happens then waits for the next hour, without a try, and
// goes into one e-mail.
func TestEmailLimit(t *testing.T) {
	t.Parallel()
	s := testkit.ServeSMTP(t, testkit.SMTPOptions{})
	f := start(t, withMail(t, s.Address))
	tenant := f.Tenant(t)
	admin, reader, other := tenant.User(t, "admin"), tenant.User(t, "viewer"), f.Tenant(t).User(t, "admin")
	paths := []string{f.email(t, admin, admin.Email, nil), f.email(t, admin, reader.Email, nil)}
	test := func(c *testkit.Client, path string) string {
		t.Helper()
		return path + "/deliveries/" + c.Post(t, path+"/test", nil).Want(200).ID()
	}
	eventually(t, admin, test(admin, paths[0]), map[string]string{"status": "delivered"})
	s.Wait(t)
	f.sql(t, admin, `update webhook_emails set sent = 59, hour = hour + interval '1 hour'`) // if the next hour begins now
	eventually(t, admin, test(admin, paths[0]), map[string]string{"status": "delivered"})
	s.Wait(t)
	var waiting []string
	for _, path := range []string{paths[0], paths[1], paths[1], paths[1]} {
		waiting = append(waiting, test(admin, path))
	}
	for _, delivery := range waiting {
		r := ended(t, admin, delivery)
		r.Shows(map[string]string{
			"status": "pending", "tries": "0", "error": "waits: the webhooks of a farm can send 60 e-mails in an hour"})
		if until := time.Until(r.Time("next_try_at")); until < time.Second/2 || until > 62*time.Minute {
			t.Errorf("the next try is in %s", until)
		}
	}
	admin.Get(t, paths[1]).Want(200).Shows(map[string]string{"failing_since": "null"})

	// Another farm has a limit of its own.
	eventually(t, other, test(other, f.email(t, other, other.Email, nil)), map[string]string{"status": "delivered"})
	s.Wait(t)

	f.sql(t, admin, `update webhook_emails set hour = hour - interval '2 hours'`)
	f.makeDue(t, admin, paths[1])
	header, text := s.Wait(t).Read(t)
	testkit.Equal(t, decode(t, header.Get("Subject")), "3 × Test", "the subject")
	testkit.Equal(t, strings.Count(text, "This is a test."), 3, "messages")
	for _, delivery := range waiting[1:] {
		eventually(t, admin, delivery, map[string]string{"status": "delivered", "tries": "1", "error": "null"})
	}
}

// A daily webhook waits for the end of the day in the farm's time zone. Then one e-mail has all events, although two
// instances run, and each event once.
func TestDailyEmail(t *testing.T) {
	t.Parallel()
	s := testkit.ServeSMTP(t, testkit.SMTPOptions{})
	f := start(t, withMail(t, s.Address))
	f.run(t, f.config)
	tenant := f.Tenant(t)
	admin := tenant.User(t, "admin")
	f.sql(t, admin, `update tenants set time_zone = 'Pacific/Chatham'`)
	path := f.email(t, admin, admin.Email, testkit.JSON{"daily": true, "events": []string{"order.*"}})
	now := f.email(t, admin, admin.Email, testkit.JSON{"events": []string{"order.cancelled"}})
	const events = 70 // more than are loaded at a time
	for n := range events {
		admin.Post(t, "/api/v1/orders", testkit.JSON{"reference": fmt.Sprintf("<%d>", n)}).Want(201)
	}
	order := admin.Get(t, "/api/v1/orders?limit=1").Want(200).Text("items.0.id")
	admin.Patch(t, "/api/v1/orders/"+order, testkit.JSON{"status": "cancelled"}).Want(200)
	header, _ := s.Wait(t).Read(t) // of the webhook that is not daily
	testkit.Equal(t, header.Get("Subject"), "Order cancelled: <69>", "the subject")
	eventually(t, admin, now+"/deliveries", map[string]string{"total": "1", "items.0.status": "delivered"})

	due := testkit.NewResponse(t, f.sql(t, admin, `
		select count(*), count(distinct next_try_at) as times, bool_and(
			next_try_at at time zone 'Pacific/Chatham'
				= (created_at at time zone 'Pacific/Chatham')::date + 1 + time '00:01') as ok
		from webhook_deliveries where webhook_id = $1 and status = 'pending' and tries = 0`, path[len(hooksPath):]).Object())
	due.Shows(map[string]string{"count": "71", "ok": "true"})
	testkit.Equal(t, len(s.Got), 0, "e-mails before the end of the day")

	f.makeDue(t, admin, path)
	header, text := s.Wait(t).Read(t)
	if subject := decode(t, header.Get("Subject")); subject != "70 × New order, 1 × Order cancelled" {
		t.Errorf("the subject is %q", subject)
	}
	last := -1
	for n := range events {
		at := strings.Index(text, fmt.Sprintf("New order: <%d>\n", n))
		if at <= last || strings.Count(text, fmt.Sprintf("New order: <%d>\n", n)) != 1 {
			t.Errorf("order %d is not once in its place", n)
		}
		last = at
	}
	eventually(t, admin, path+"/deliveries?status=delivered", map[string]string{"total": "71"})
	testkit.Equal(t, len(s.Got), 0, "further e-mails")

	// The test does not wait for the end of the day.
	delivery := path + "/deliveries/" + admin.Post(t, path+"/test", nil).Want(200).ID()
	eventually(t, admin, delivery, map[string]string{"status": "delivered"})
}

// An e-mail has at most 500 events. After a temporary refusal, its events stay together.
func TestLargeEmail(t *testing.T) {
	t.Parallel()
	var tries atomic.Int64
	s := testkit.ServeSMTP(t, testkit.SMTPOptions{Judge: func(testkit.Email) string {
		if tries.Add(1) == 1 {
			return "452 4.2.2 full"
		}
		return ""
	}})
	f := start(t, func(c *webhooks.Config) {
		withMail(t, s.Address)(c)
		c.Schedule = []time.Duration{3 * time.Second, 3 * time.Second}
	})
	admin := f.Tenant(t).User(t, "admin")
	path := f.email(t, admin, admin.Email, testkit.JSON{"daily": true})
	f.sql(t, admin, `
		insert into webhook_deliveries (id, webhook_id, event_id, type, body, next_try_at)
		select uuid_v7(), $1, 'msg_' || n, 'webhook.test',
			event_body('webhook.test', json_build_object('message', '<' || n || '>')), now() + interval '1 day'
		from generate_series(1, 530) n`, path[len(hooksPath):])
	f.makeDue(t, admin, path)
	text := ""
	for _, want := range []int{30, 500} {
		_, part := s.Wait(t).Read(t)
		testkit.Equal(t, strings.Count(part, "Test: <"), want, "messages")
		text += part
	}
	for n := 1; n <= 530; n++ {
		if strings.Count(text, fmt.Sprintf("Test: <%d>\n", n)) != 1 {
			t.Errorf("message %d is not once in the e-mails", n)
		}
	}
	eventually(t, admin, path+"/deliveries?status=delivered", map[string]string{"total": "530"})
}

// decode returns the text of a header field.
func decode(t *testing.T, field string) string {
	t.Helper()
	text, err := new(mime.WordDecoder).DecodeHeader(field)
	testkit.Check(t, err)
	return text
}
