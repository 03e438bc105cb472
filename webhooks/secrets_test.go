package webhooks_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/tests/testkit"
	"spoolwright/webhooks"
)

const newerSecret = "a newer secret for tests, of more than 32 bytes"

// stored returns all columns of the tenant's webhooks, deliveries and idempotency keys as text.
func (f *farm) stored(t *testing.T, c *testkit.Client) string {
	t.Helper()
	text := ""
	for _, table := range []string{"webhooks", "webhook_deliveries", "idempotency_keys"} {
		var all *string
		f.sql(t, c, `select string_agg(x::text, chr(10)) from `+table+` x`).Into(&all)
		s := db.SQL(`select string_agg(x::text, chr(10)) from ` + table + ` x`).Into(&all)
		testkit.Check(t, f.DB.Read(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}), s))
		if all != nil {
			text += *all
		}
	}
	return text
}

// TestSecrets checks that a secret is in one response only, that the database has it encrypted, and that both secrets
// sign for 24 hours after a rotation.
func TestSecrets(t *testing.T) {
	t.Parallel()
	var log testkit.Log
	f := start(t, func(c *webhooks.Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	s := receive(t, nil)
	admin := f.Tenant(t).User(t, "admin")
	body := testkit.JSON{"url": s.URL, "events": []string{"production_run.completed"}}
	with := admin.With("Idempotency-Key", "once")
	created := with.Post(t, "/api/v1/webhooks", body).Want(201)
	with.Post(t, "/api/v1/webhooks", body).Want(201).Shows(map[string]string{"id": created.ID(), "secret": ""})
	path := hooksPath + created.ID()
	first := created.Text("secret")
	admin.Post(t, path+"/test", nil).Want(200)
	if err := s.wait(t).verify(first); err != nil {
		t.Error(err)
	}
	rotated := admin.With("Idempotency-Key", "again").Post(t, path+"/rotate", nil).Want(200)
	admin.With("Idempotency-Key", "again").Post(t, path+"/rotate", nil).Want(200).
		Shows(map[string]string{"secret": ""})
	second := rotated.Text("secret")
	if first == second {
		t.Error("the rotation returns the previous secret")
	}
	admin.Post(t, path+"/test", nil).Want(200)
	r := s.wait(t)
	for _, secret := range []string{first, second} {
		if err := r.verify(secret); err != nil {
			t.Error(err)
		}
	}
	testkit.Equal(t, len(strings.Split(r.header.Get("webhook-signature"), " ")), 2, "signatures")
	f.sql(t, admin, `update webhooks set previous_until = previous_until - interval '24 hours'`)
	admin.Post(t, path+"/test", nil).Want(200)
	r = s.wait(t)
	if err := r.verify(second); err != nil {
		t.Error(err)
	}
	if r.verify(first) == nil {
		t.Error("the previous secret signs for more than 24 hours")
	}

	where := map[string]string{
		"the log": log.String(), "the database": f.stored(t, admin),
		"a response": string(admin.Get(t, path).Body) + string(admin.Get(t, "/api/v1/webhooks").Body) +
			string(admin.Patch(t, path, testkit.JSON{"description": "x"}).Body) +
			string(admin.Get(t, path+"/deliveries").Body),
	}
	for _, secret := range []string{first, second} {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		testkit.Check(t, err)
		for name, text := range where {
			for _, form := range []string{secret[6:], fmt.Sprintf("%x", raw), string(raw)} {
				if strings.Contains(text, form) {
					t.Errorf("%s contains a secret", name)
				}
			}
		}
	}
	if !strings.Contains(where["the database"], created.ID()) {
		t.Error("the test has not read the database")
	}
}

// TestKeyRotation changes JWT_SECRET: all configured secrets decrypt, Maintain encrypts with the first one, and
// without the right one a delivery fails with a reason. An encrypted secret of another webhook does not decrypt
// either.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	f := startWithout(t, testkit.Database(t, db.Config{}), nil)
	s := receive(t, nil)
	admin := f.Tenant(t).User(t, "admin")
	hook, other := f.webhook(t, admin, s.URL), f.webhook(t, admin, s.URL)
	path := hooksPath + hook.ID()
	admin.Post(t, path+"/rotate", nil).Want(200) // the secret of hook is now the previous one, which signs, too
	secrets := func() (text string) {
		stmt := db.SQL(`select string_agg(encode(secret, 'hex'), ' ' order by id) from webhooks`).Into(&text)
		testkit.Check(t, f.DB.Read(db.As(t.Context(), db.Actor{Tenant: admin.Actor.Tenant}), stmt))
		return text
	}
	before := secrets()
	with := func(all ...string) *webhooks.Service {
		c := f.config
		c.Secrets = all
		return webhooks.New(c)
	}
	if err := with(testkit.Secret, newerSecret).Maintain(t.Context()); err != nil || secrets() != before {
		t.Errorf("Maintain encrypts secrets again that have the first key: %v", err)
	}
	if err := with(newerSecret).Maintain(t.Context()); err != nil || secrets() != before {
		t.Errorf("Maintain changes secrets that it cannot decrypt: %v", err)
	}
	try := func(wants string, all ...string) {
		t.Helper()
		c := f.config
		c.Secrets, c.Schedule = all, []time.Duration{}
		f.run(t, c)
		defer f.stop()
		delivery := path + "/deliveries/" + admin.Post(t, path+"/test", nil).Want(200).ID()
		if wants != "" {
			a := eventually(t, admin, delivery, map[string]string{"status": "failed"})
			if !strings.Contains(a.Text("error"), wants) {
				t.Errorf("the error is %s, want %q", a.Text("error"), wants)
			}
			s.wantNone(t, 50*time.Millisecond)
		} else if err := s.wait(t).verify(hook.Text("secret")); err != nil {
			t.Error(err)
		} else {
			eventually(t, admin, delivery, map[string]string{"status": "delivered"})
		}
	}
	try("JWT_SECRET", newerSecret)
	try("", newerSecret, testkit.Secret)
	if err := with(newerSecret, testkit.Secret).Maintain(t.Context()); err != nil { // Run calls it too, in the background
		t.Fatal(err)
	}
	if after := secrets(); after == before {
		t.Error("the secrets are not encrypted with the new key")
	}
	try("", newerSecret)
	try("JWT_SECRET", testkit.Secret)
	f.sql(t, admin, `update webhooks w set secret = o.secret from webhooks o where w.id = $1 and o.id = $2`,
		hook.ID(), other.ID())
	try("JWT_SECRET", newerSecret)
}

// TestURLs checks which URLs a webhook can have.
func TestURLs(t *testing.T) {
	t.Parallel()
	d := testkit.Open(t)
	strict := startWithout(t, d, func(c *webhooks.Config) { c.AllowedNetworks = nil })
	open := startWithout(t, d, func(c *webhooks.Config) {
		c.AllowedNetworks = []netip.Prefix{netip.MustParsePrefix("192.168.1.0/24"), netip.MustParsePrefix("fd00::/8")}
	})
	for url, valid := range map[string]struct{ strict, open bool }{
		"https://hooks.example/a?b=c":                       {true, true},
		"https://hooks.example:8443":                        {true, true},
		"https://8.8.8.8/":                                  {true, true},
		"https://[2606:4700::1111]/":                        {true, true},
		"http://hooks.example/":                             {false, true}, // the address decides when it is known
		"http://192.168.1.7:5678/webhook":                   {false, true},
		"https://192.168.1.7/":                              {false, true},
		"https://[::ffff:192.168.1.7]/":                     {false, true},
		"https://[fd00::1]/":                                {false, true},
		"http://8.8.8.8/":                                   {false, false},
		"https://192.168.2.7/":                              {false, false},
		"https://127.0.0.1/":                                {false, false},
		"https://[::1]/":                                    {false, false},
		"https://[::ffff:127.0.0.1]/":                       {false, false},
		"https://[fe80::1%25eth0]/":                         {false, false},
		"https://169.254.169.254/latest":                    {false, false},
		"https://100.100.100.200/":                          {false, false},
		"https://168.63.129.16/":                            {false, false},
		"https://[64:ff9b::a9fe:a9fe]/":                     {false, false},
		"https://[2002:7f00:1::]/":                          {false, false},
		"https://user:secret@farm.example":                  {false, false},
		"https://user@farm.example":                         {false, false},
		"https://farm.example/#fragment":                    {false, false},
		"ftp://farm.example/":                               {false, false},
		"file:///etc/passwd":                                {false, false},
		"//farm.example/":                                   {false, false},
		"farm.example":                                      {false, false},
		"https://":                                          {false, false},
		"https://:443/":                                     {false, false},
		"https:farm.example":                                {false, false},
		"https://farm.example/ x":                           {false, false},
		"https://farm.example:port/":                        {false, false},
		"https://farm.example/\r\nX: y":                     {false, false},
		"javascript:alert(1)":                               {false, false},
		"":                                                  {false, false},
		"https://farm.example/" + strings.Repeat("a", 2000): {false, false},
	} {
		for name, f := range map[string]*farm{"strict": strict, "open": open} {
			admin := f.Tenant(t).User(t, "admin")
			want := valid.strict && name == "strict" || valid.open && name == "open"
			body := testkit.JSON{"url": url, "events": []string{"production_run.completed"}}
			a := admin.Post(t, "/api/v1/webhooks", body)
			if !want {
				a.Fields("url")
				continue
			}
			if a.Status != 201 {
				t.Errorf("%s: %s: %d %s", name, url, a.Status, a.Body)
				continue
			}
			admin.Patch(t, hooksPath+a.ID(), testkit.JSON{"url": "https://127.0.0.1/"}).Fields("url")
			admin.Patch(t, hooksPath+a.ID(), testkit.JSON{"url": url}).Want(200).Shows(map[string]string{"url": url})
		}
	}
}

// TestEventsAndLimitOfWebhooks checks the events of a webhook and the limit of webhooks.
func TestEventsAndLimitOfWebhooks(t *testing.T) {
	t.Parallel()
	f := startWithout(t, testkit.Open(t), nil)
	tenant := f.Tenant(t)
	admin := tenant.User(t, "admin")
	const url = "https://hooks.example/"
	for name, invalid := range map[string]any{
		"text": "production_run.completed", "empty": []string{}, "unknown": []string{"production_run.deleted"},
		"null":   nil,
		"number": []int{1}, "object": testkit.JSON{}, "nested": []any{[]string{"production_run.completed"}},
		"case": []string{"PRODUCTION_RUN.COMPLETED"}, "test": []string{"webhook.test"},
		"twice": []string{"production_run.completed", "production_run.completed"},
	} {
		if a := admin.Post(t, "/api/v1/webhooks", testkit.JSON{"url": url, "events": invalid}); a.Status != 422 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		} else {
			a.Fields("events")
		}
	}
	admin.Post(t, "/api/v1/webhooks", testkit.JSON{}).Fields("url", "events")
	admin.Get(t, "/api/v1/webhooks?sort_by=events").Fields("sort_by")
	testkit.Race(t, 25, func(int) (*testkit.Response, error) {
		return admin.Send("POST", "/api/v1/webhooks", testkit.JSON{"url": url, "events": []string{"production_run.failed"}})
	}).Want(t, map[string]int{"201": 10, "409 WEBHOOK_LIMIT": 15})
	admin.Post(t, "/api/v1/webhooks", testkit.JSON{"url": url, "events": []string{"production_run.failed"}}).
		WantError(409, "WEBHOOK_LIMIT")
	one := admin.Get(t, "/api/v1/webhooks?sort_by=disabled&skip=1").Want(200).Text("items.0.id")
	admin.Get(t, "/api/v1/webhooks?sort_by=url&skip=1000").Want(200)
	admin.Delete(t, hooksPath+one).Want(204)
	admin.Get(t, hooksPath+one).WantError(404, "NOT_FOUND")
	admin.Get(t, hooksPath+one+"/deliveries").WantError(404, "NOT_FOUND")
	a := admin.Post(t, "/api/v1/webhooks", testkit.JSON{"url": url, "disabled": true, "description": "x",
		"events": []string{"production_run.failed", "production_run.completed"}}).Want(201)
	a.Shows(map[string]string{"disabled": "true", "disabled_reason": "null", "events.1": "production_run.completed"})
	admin.Patch(t, hooksPath+a.ID(), testkit.JSON{"events": nil}).Fields("events")
	admin.Patch(t, hooksPath+a.ID(), testkit.JSON{"events": []string{"webhook.*"}}).Fields("events")
	admin.Patch(t, hooksPath+a.ID(), testkit.JSON{"events": []string{"order.*", "order.done", "*"}}).Want(200).
		Shows(map[string]string{"events.0": "order.*", "events.2": "*"})
	admin.Patch(t, hooksPath+a.ID(), testkit.JSON{"events": []string{"production_run.failed"}, "description": nil}).
		Want(200).Shows(map[string]string{"events.0": "production_run.failed", "description": "null",
		"disabled": "true"})
	etag := admin.Get(t, hooksPath+a.ID()).Header.Get("ETag")
	admin.With("If-Match", `"x"`).Patch(t, hooksPath+a.ID(), testkit.JSON{}).WantError(412, "PRECONDITION_FAILED")
	admin.With("If-Match", etag).Patch(t, hooksPath+a.ID(), testkit.JSON{}).Want(200)
	tenant.Key(t, "operator").Get(t, "/api/v1/webhooks").WantError(403, "FORBIDDEN")
	tenant.User(t, "operator").Get(t, "/api/v1/webhooks").WantError(403, "FORBIDDEN")
	f.Tenant(t).User(t, "admin").Get(t, hooksPath+a.ID()+"/deliveries").WantError(404, "NOT_FOUND")
}

// The signatures that these tests want are those of testdata/webhooks.json, which the tests of client libraries verify.
func TestSignatures(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../testdata/webhooks.json")
	testkit.Check(t, err)
	var vectors []struct {
		Name, Body string
		Valid      bool
		Secrets    []string
		Headers    map[string]string
	}
	testkit.Check(t, json.Unmarshal(b, &vectors))
	valid := 0
	for _, v := range vectors {
		if !v.Valid {
			continue
		}
		valid++
		r := received{header: http.Header{}, body: []byte(v.Body)}
		for name, value := range v.Headers {
			r.header.Set(name, value)
		}
		sent, err := strconv.ParseInt(v.Headers["webhook-timestamp"], 10, 64)
		testkit.Check(t, err)
		r.at = time.Unix(sent, 0)
		if !slices.ContainsFunc(v.Secrets, func(secret string) bool {
			key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
			testkit.Check(t, err)
			return r.signedWith(key) == nil
		}) {
			t.Errorf("%s: no secret has made the signatures %q", v.Name, v.Headers["webhook-signature"])
		}
	}
	if valid == 0 {
		t.Error("no vector is valid")
	}
}
