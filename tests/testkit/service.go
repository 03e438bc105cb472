package testkit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	netmail "net/mail"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"spoolwright/app"
	"spoolwright/auth"
	"spoolwright/auth/oidc"
	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/orders/shops"
	"spoolwright/production/printers"
	"spoolwright/server"
	"spoolwright/server/mail"
	"spoolwright/server/openapi"
	"spoolwright/value"
	"spoolwright/web"
	"spoolwright/web/start"
	"spoolwright/webhooks"
)

// Password is the password of every user that Tenant.User creates.
const Password = "a password for tests"

// Secret signs the tokens in tests.
const Secret = "a secret for tests, of more than 32 bytes"

// API is a running service.
type API struct {
	URL    string
	DB     *db.DB
	Tokens *auth.Tokens
	Auth   *auth.Service
	Routes []server.Route
	Server *server.Server
	spec   *Document
	client *http.Client
}

// Options configure a service. The zero value means no rate limits and the wall clock.
type Options struct {
	PerMinute, PerHour int
	Now                func() time.Time
	DB                 *db.DB
	Networks           []netip.Prefix       // networks that are not public in which providers of sign-on may be
	Roots              *x509.CertPool       // certificate authorities of providers of sign-on; nil means the system's
	Pages              func(*web.Config)    // edits the configuration of the pages
	Change             func(*server.Config) // edits the configuration before the server is created
}

// noMail is a sender of e-mails whose server does not exist.
var noMail = func() *mail.Sender {
	server, err := mail.ParseURL("smtp://127.0.0.1:1")
	if err != nil {
		panic(err)
	}
	return mail.New(server, netmail.Address{Address: "farm@farm.example"}, nil)
}()

// Features are functions that return the routes of the whole API, except accounts. No dispatcher of webhooks runs.
var Features = append(slices.Clip(app.Features), func(d *db.DB) []server.Route {
	return slices.Concat(webhooks.New(webhooks.Config{DB: d, Secrets: []string{Secret}, Mail: noMail}).Routes(),
		shops.New(d, []string{Secret}, time.Now).Routes(),
		printers.NewConnections(d, []string{Secret}, (&net.Dialer{}).DialContext).Routes())
})

// Routes returns the routes of the whole API.
func Routes(d *db.DB, a *auth.Service) []server.Route {
	all := a.Routes()
	for _, feature := range Features {
		all = append(all, feature(d)...)
	}
	return all
}

// New starts a service with the routes of package auth and of the features. The service stops when the test ends.
func New(tb testing.TB, o Options, features ...func(*db.DB) []server.Route) *API {
	tb.Helper()
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.DB == nil {
		o.DB = Open(tb)
	}
	tokens, err := auth.NewTokens([]string{Secret}, 30*time.Minute, 7*24*time.Hour, o.Now)
	Check(tb, err)
	service := auth.New(o.DB, tokens, secrets.NewHasher(1000), o.Now)
	routes := service.Routes()
	for _, feature := range features {
		routes = append(routes, feature(o.DB)...)
	}
	pages := web.Config{Auth: service, Start: start.New(o.DB), Now: o.Now, Catalog: &inventory.Catalog{DB: o.DB}}
	if o.Pages != nil {
		o.Pages(&pages)
	}
	service.SendLinks(pages.Mail, pages.PublicURL)
	outside := webhooks.Config{AllowedNetworks: o.Networks, Roots: o.Roots}
	service.SignOnWith(oidc.New(webhooks.NewClient(outside, true), webhooks.NewClient(outside, false), o.Now),
		pages.PublicURL)
	config := server.Config{
		Routes: routes, Document: openapi.Document, Secrets: []string{Secret}, DB: o.DB,
		Authenticate: service.Authenticate, Ready: o.DB.Ready,
		Stopped:   service.Stop,
		Site:      web.New(pages),
		Receivers: []server.Receiver{shops.New(o.DB, []string{Secret}, o.Now).Receiver()},
		PerMinute: o.PerMinute, PerHour: o.PerHour, Now: o.Now, Version: "test",
	}
	if o.Change != nil {
		o.Change(&config)
	}
	s := server.New(config)
	h := httptest.NewServer(s)
	tb.Cleanup(h.Close)
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	tb.Cleanup(transport.CloseIdleConnections)
	return &API{
		URL: h.URL, DB: o.DB, Tokens: tokens, Auth: service, Routes: routes, Server: s,
		spec: specOf(tb, routes, config.Events),
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Document returns the service's OpenAPI document.
func (a *API) Document() []byte { return a.spec.Text }

// CheckEvent returns an error if the body of a request to a webhook does not match the schema of events of the type in
// the OpenAPI document.
func (a *API) CheckEvent(kind string, body []byte) error {
	path, ok := a.spec.Root["webhooks"].(map[string]any)[kind].(map[string]any)
	if !ok {
		return fmt.Errorf("the document does not describe %s", kind)
	}
	at := path["post"].(map[string]any)["requestBody"].(map[string]any)["content"].(map[string]any)
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return err
	}
	return a.spec.Match(at["application/json"].(map[string]any)["schema"].(map[string]any), v, "body")
}

// Tenant is a new tenant.
type Tenant struct {
	ID  string
	api *API
}

// Tenant creates a tenant.
func (a *API) Tenant(tb testing.TB) *Tenant {
	tb.Helper()
	t := &Tenant{ID: value.NewID(), api: a}
	err := a.DB.Write(db.As(context.Background(), db.Actor{Tenant: t.ID}),
		db.SQL(`insert into tenants (name) values ($1)`, "tenant "+t.ID))
	Check(tb, err)
	return t
}

// TenantOf returns the Tenant with the id, for a tenant that the test created in another way.
func (a *API) TenantOf(id string) *Tenant { return &Tenant{ID: id, api: a} }

var passwordHash = sync.OnceValues(func() (string, error) {
	return secrets.NewHasher(1000).Hash(context.Background(), Password)
})

// User creates a user with the role and returns a client with an access token of the user.
func (t *Tenant) User(tb testing.TB, role string) *Client {
	tb.Helper()
	hash, err := passwordHash()
	Check(tb, err)
	c := &Client{API: t.api, Actor: db.Actor{Tenant: t.ID, User: value.NewID(), Role: role}}
	c.Email = c.Actor.User + "@test.example"
	err = auth.WriteLogin(db.As(context.Background(), db.Actor{Tenant: t.ID}), t.api.DB, c.Email, c.Actor.User,
		db.SQL(`insert into users (id, email, name, role, password_hash) values ($1, $2, $3, $4, $5) returning id`,
			c.Actor.User, c.Email, "Test "+role, role, hash))
	if err == nil {
		c.Token, err = t.api.Tokens.Access(auth.Principal{TenantID: t.ID, UserID: c.Actor.User, Role: role})
	}
	Check(tb, err)
	return c
}

// Key creates an admin, who creates an API key with the role, and returns a client that sends the key.
func (t *Tenant) Key(tb testing.TB, role string) *Client {
	tb.Helper()
	a := t.User(tb, "admin").Post(tb, "/api/v1/api-keys", JSON{"name": "Test " + role, "role": role}).Want(201)
	c := (&Client{API: t.api}).With("X-API-Key", a.Text("key"))
	hash := sha256.Sum256([]byte(a.Text("key")))
	c.Actor = db.Actor{Tenant: t.ID, APIKey: a.ID(), KeyHash: string(hash[:])}
	return c
}

// Client calls the service: with an access token if Token is set, with an API key in Header, or anonymously.
type Client struct {
	API    *API
	Actor  db.Actor
	Email  string
	Token  string
	Header http.Header // sent with every request
}

// Operator creates a user with the role operator in a new tenant.
func (a *API) Operator(tb testing.TB) *Client { tb.Helper(); return a.Tenant(tb).User(tb, "operator") }

// Anonymous returns a client without a token.
func (a *API) Anonymous() *Client { return &Client{API: a} }

// With returns a copy of the client that also sends the header.
func (c *Client) With(name, value string) *Client {
	copied := *c
	copied.Header = c.Header.Clone()
	if copied.Header == nil {
		copied.Header = http.Header{}
	}
	copied.Header.Set(name, value)
	return &copied
}

// JSON is a JSON object in a request.
type JSON = map[string]any

// Response is a response of the service. Its methods that end the test must run on the test's goroutine.
type Response struct {
	tb     testing.TB
	What   string // method and path
	Status int
	Header http.Header
	Body   []byte // without the newline at the end of JSON

	decoded func() (any, error) // decodes the body once, for Text
}

// NewResponse returns a response with a body from another source, such as a request to a webhook.
func NewResponse(tb testing.TB, body []byte) *Response {
	return &Response{tb: tb, What: "body", Body: body, decoded: decodeOnce(body)}
}

// decodeOnce returns a function that decodes a body when it is called first. Its numbers are json.Number.
func decodeOnce(body []byte) func() (any, error) {
	return sync.OnceValues(func() (v any, err error) {
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		err = d.Decode(&v)
		return v, err
	})
}

// Do sends a request and checks the response against the OpenAPI document. It sends a body of type string or []byte
// unchanged, another value as JSON, and no body for nil.
func (c *Client) Do(tb testing.TB, method, path string, body any) *Response {
	tb.Helper()
	a, err := c.Send(method, path, body)
	if err != nil {
		tb.Fatalf("%s %s: %v", method, path, err)
	}
	a.tb = tb
	if err := c.API.spec.check(method, path, a); err != nil {
		tb.Errorf("%s: the response does not match the OpenAPI document: %v\n%d %s", a.What, err, a.Status, a.Body)
	}
	return a
}

// Send is Do for goroutines other than the test's: it neither fails the test nor checks the response.
func (c *Client) Send(method, path string, body any) (*Response, error) {
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	case []byte:
		reader = bytes.NewReader(b)
	default:
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(encoded)
	}
	r, err := http.NewRequest(method, c.API.URL+path, reader)
	if err != nil {
		return nil, err
	}
	if reader != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	for name, values := range c.Header {
		r.Header[name] = values
	}
	response, err := c.API.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if response.Header.Get("Content-Type") == "application/json" {
		text = bytes.TrimSuffix(text, []byte("\n"))
	}
	return &Response{What: method + " " + path, Status: response.StatusCode, Header: response.Header, Body: text,
		decoded: decodeOnce(text)}, err
}

// Get sends a GET request; the following methods send requests with other methods.
func (c *Client) Get(tb testing.TB, path string) *Response {
	tb.Helper()
	return c.Do(tb, "GET", path, nil)
}
func (c *Client) Post(tb testing.TB, path string, body any) *Response {
	tb.Helper()
	return c.Do(tb, "POST", path, body)
}
func (c *Client) Patch(tb testing.TB, path string, body any) *Response {
	tb.Helper()
	return c.Do(tb, "PATCH", path, body)
}
func (c *Client) Delete(tb testing.TB, path string) *Response {
	tb.Helper()
	return c.Do(tb, "DELETE", path, nil)
}

// Want ends the test unless the response has the status.
func (a *Response) Want(status int) *Response {
	a.tb.Helper()
	if a.Status != status {
		a.tb.Fatalf("%s: status %d, want %d: %s", a.What, a.Status, status, a.Body)
	}
	return a
}

// WantError ends the test unless the response is an error with the status and code.
func (a *Response) WantError(status int, code string) *Response {
	a.tb.Helper()
	if a.Status != status || a.Text("code") != code {
		a.tb.Fatalf("%s: %d %s, want %d %s", a.What, a.Status, a.Body, status, code)
	}
	return a
}

// Fields ends the test unless the response is a 422 that names exactly the fields, in any order.
func (a *Response) Fields(names ...string) *Response {
	a.tb.Helper()
	a.WantError(422, "VALIDATION_ERROR")
	var e struct{ Errors []server.FieldError }
	json.Unmarshal(a.Body, &e)
	got := map[string]bool{}
	for _, f := range e.Errors {
		got[f.Field] = true
		if f.Message == "" {
			a.tb.Errorf("%s: no message for %s", a.What, f.Field)
		}
	}
	for _, name := range names {
		if !got[name] {
			a.tb.Errorf("%s: the 422 does not name %s: %s", a.What, name, a.Body)
		}
		delete(got, name)
	}
	for name := range got {
		a.tb.Errorf("%s: the 422 names %s, which is valid: %s", a.What, name, a.Body)
	}
	return a
}

// Value returns the JSON value at a path such as "items.0.id", or the length of a list, "items.#". Numbers are
// json.Number. A missing value ends the test. The caller may change the value.
func (a *Response) Value(path string) any {
	a.tb.Helper()
	return a.at(path, decodeOnce(a.Body))
}

// at is Value with a function that decodes the body.
func (a *Response) at(path string, decoded func() (any, error)) any {
	a.tb.Helper()
	v, err := decoded()
	if err != nil {
		a.tb.Fatalf("%s: %v: %s", a.What, err, a.Body)
	}
	if path == "" {
		return v
	}
	for part := range strings.SplitSeq(path, ".") {
		ok := false
		switch at := v.(type) {
		case map[string]any:
			v, ok = at[part]
		case []any:
			var i int
			if part == "#" {
				v, ok = json.Number(fmt.Sprint(len(at))), true
			} else if _, err := fmt.Sscan(part, &i); err == nil && i < len(at) {
				v, ok = at[i], true
			}
		}
		if !ok {
			a.tb.Fatalf("%s: no %s in %s", a.What, path, a.Body)
		}
	}
	return v
}

// Text returns the value at a path as text: a string unquoted, a number as the service wrote it, null as "null".
func (a *Response) Text(path string) string {
	a.tb.Helper()
	switch v := a.at(path, a.decoded).(type) {
	case string:
		return v
	case nil:
		return "null"
	default:
		return fmt.Sprint(v)
	}
}

// Time returns the time at a path. Times do not compare as text: the service writes no zeros at the end of a second.
func (a *Response) Time(path string) time.Time {
	a.tb.Helper()
	t, err := time.Parse(time.RFC3339Nano, a.Text(path))
	if err != nil {
		a.tb.Fatalf("%s: %s is not a time: %v", a.What, path, err)
	}
	return t
}

// List returns the array at a path.
func (a *Response) List(path string) []any {
	a.tb.Helper()
	v, ok := a.Value(path).([]any)
	if !ok {
		a.tb.Fatalf("%s: %s is not an array: %s", a.What, path, a.Body)
	}
	return v
}

// ID returns the id of the resource in the response.
func (a *Response) ID() string { a.tb.Helper(); return a.Text("id") }

// Shows reports an error unless the response has the values at the paths, in the form of Text.
func (a *Response) Shows(want map[string]string) *Response {
	a.tb.Helper()
	for path, text := range want {
		if got := a.Text(path); got != text {
			a.tb.Errorf("%s: %s is %s, want %s", a.What, path, got, text)
		}
	}
	if a.tb.Failed() {
		a.tb.Fatalf("%s: %s", a.What, a.Body)
	}
	return a
}

// MailLinks runs an auth.LinkMailer of the service until the test ends or end is called. The service needs a database
// of its own: the LinkMailer sends the e-mails of all its tenants.
func (a *API) MailLinks(tb testing.TB) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	m := auth.LinkMailer{Service: a.Auth, Log: slog.New(slog.NewTextHandler(tb.Output(), nil)),
		Poll: 10 * time.Millisecond}
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	end = func() { cancel(); running.Wait() }
	tb.Cleanup(end)
	return end
}
