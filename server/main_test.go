package server_test

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/server/openapi"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// Thing has a field of each type. Its routes return the decoded request.
type Thing struct {
	ID      value.UUID                      `json:"id" rule:"readOnly,notNull"`
	Name    value.Optional[string]          `json:"name" rule:"required"`
	Note    value.Optional[string]          `json:"note" rule:"maxLength=10"`
	Kind    value.Optional[string]          `json:"kind" rule:"enum=PLA|PETG"`
	Hex     value.Optional[string]          `json:"hex" rule:"format=color"`
	Weight  value.Optional[value.Decimal]   `json:"weight" rule:"required,exclusiveMinimum=0,maximum=1000000"`
	Price   value.Optional[value.Decimal]   `json:"price" rule:"maximum=1000000"`
	Size    value.Optional[value.Decimal]   `json:"size" rule:"enum=1.75|2.85"`
	Count   value.Optional[int64]           `json:"count" rule:"minimum=1,maximum=100"`
	Left    value.Optional[value.Decimal]   `json:"left" rule:"notNull,maximum=10"`
	Flag    value.Optional[bool]            `json:"flag"`
	At      value.Optional[value.Timestamp] `json:"at"`
	Day     value.Optional[value.Date]      `json:"day"`
	Ref     value.Optional[value.UUID]      `json:"ref"`
	Parts   []Part                          `json:"parts"`
	Created value.Timestamp                 `json:"created_at" rule:"readOnly,notNull"`
}

// Check implements the Check of inputs with a rule about two fields.
func (t *Thing) Check(problems *server.Problems) {
	if t.Price.Value != nil && t.Left.Value != nil && *t.Price.Value < *t.Left.Value {
		problems.Add("left", "must not be more than price")
	}
}

// Part is an element of a nested list.
type Part struct {
	ID value.UUID `json:"id" rule:"readOnly,notNull"`
}

// Echo is the response of the routes: the fields that the request contains, as JSON text.
type Echo struct {
	Got string `json:"got" rule:"notNull"`
}

// ThingQuery is the query of a list.
type ThingQuery struct {
	server.ListQuery
	Kind   value.Optional[string]        `query:"kind" rule:"enum=PLA|PETG"`
	Name   value.Optional[string]        `query:"name"`
	Flag   value.Optional[bool]          `query:"flag"`
	Weight value.Optional[value.Decimal] `query:"weight" rule:"maximum=1000"`
}

var thingTag = &server.Tag{Name: "things", Description: "For tests.", Fields: thingFields}

//go:embed testdata/things.md
var thingFields string

func doc(id string) *server.Doc { return &server.Doc{ID: id, Tag: thingTag, Summary: id} }

// echo returns the fields of a request as JSON.
func echo(fields map[string]any) string {
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func field[T any](fields map[string]any, name string, o value.Optional[T]) {
	if o.Set {
		fields[name] = o.Arg()
	}
}

func (t *Thing) echo() Echo {
	fields := map[string]any{}
	field(fields, "name", t.Name)
	field(fields, "note", t.Note)
	field(fields, "kind", t.Kind)
	field(fields, "hex", t.Hex)
	field(fields, "weight", t.Weight)
	field(fields, "price", t.Price)
	field(fields, "size", t.Size)
	field(fields, "count", t.Count)
	field(fields, "left", t.Left)
	field(fields, "flag", t.Flag)
	field(fields, "at", t.At)
	field(fields, "day", t.Day)
	field(fields, "ref", t.Ref)
	return Echo{echo(fields)}
}

var errSecret = errors.New("an internal secret")

// things are the routes for tests.
func things(*db.DB) []server.Route {
	body := func(_ context.Context, r *server.Request[Thing]) (server.OK[Echo], error) {
		return server.Encode(r.In.echo())
	}
	query := func(_ context.Context, r *server.Request[ThingQuery]) (server.OK[Echo], error) {
		fields := map[string]any{}
		field(fields, "skip", r.In.Skip)
		field(fields, "limit", r.In.Limit)
		field(fields, "sort_by", r.In.SortBy)
		field(fields, "sort_order", r.In.SortOrder)
		field(fields, "after", r.In.After)
		field(fields, "kind", r.In.Kind)
		field(fields, "name", r.In.Name)
		field(fields, "flag", r.In.Flag)
		field(fields, "weight", r.In.Weight)
		return server.Encode(Echo{echo(fields)})
	}
	answer := func(err error) server.Endpoint {
		return server.Handle(func(context.Context, *server.Request[struct{}]) (server.NoContent, error) {
			return nil, err
		})
	}
	panics := func(context.Context, *server.Request[struct{}]) (server.NoContent, error) { panic(errSecret) }
	return []server.Route{
		server.Op("POST /api/v1/things", server.Write, server.Handle(body), doc("createThing")),
		server.Op("GET /api/v1/things", server.Read, server.Handle(query), doc("listThings")),
		server.Op("PATCH /api/v1/things/{id}", server.Write, server.Handle(body), doc("changeThing")),
		server.Op("DELETE /api/v1/things/{id}", server.Admin, answer(nil), doc("deleteThing")),
		server.Op("POST /api/v1/public", server.Public, server.Handle(body), doc("public")),
		server.Op("GET /api/v1/fails", server.Read, answer(errSecret), doc("fails")),
		server.Op("GET /api/v1/away", server.Read, answer(fmt.Errorf("%w: %w", db.ErrUnavailable, errSecret)),
			doc("away")),
		server.Op("GET /api/v1/revoked", server.Read, answer(fmt.Errorf("%w: %w", db.ErrRevoked, errSecret)),
			doc("revoked")),
		server.Op("GET /api/v1/range", server.Read, answer(fmt.Errorf("%w: %w", db.ErrOutOfRange, errSecret)),
			doc("range")),
		server.Op("GET /api/v1/panics", server.Read, server.Handle(panics), doc("panics")),
	}
}

// roles maps the tokens of newServer to their access levels.
var roles = map[string]server.Access{"viewer": server.Read, "operator": server.Write, "admin": server.Admin}

// newServer returns a server with only the routes of things, and without a database. A bearer token is the name of a
// role; a suffix such as ".a" makes another user.
func newServer(tb testing.TB, change ...func(*server.Config)) *server.Server {
	tb.Helper()
	c := server.Config{
		Routes:   things(nil),
		Document: openapi.Document,
		Version:  "test",
		Ready:    func(context.Context) error { return nil },
		Authenticate: func(r *http.Request, _ bool, _ func() error) (server.Caller, error) {
			token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			role, _, _ := strings.Cut(token, ".")
			level, ok := roles[role]
			if !ok {
				return server.Caller{}, server.ErrInvalidToken
			}
			return server.Caller{Actor: db.Actor{Tenant: "tenant", User: token, Role: role}, Level: level}, nil
		},
	}
	for _, f := range change {
		f(&c)
	}
	return server.New(c)
}

// send passes a request to a handler and returns the response. Headers are pairs of name and value; "" deletes one.
func send(tb testing.TB, s http.Handler, method, target, body string, headers ...string) *http.Response {
	tb.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer admin")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func text(tb testing.TB, r *http.Response) string {
	tb.Helper()
	b, err := io.ReadAll(r.Body)
	testkit.Check(tb, err)
	r.Body = io.NopCloser(bytes.NewReader(b))
	return string(b)
}

type errorBody struct {
	Detail, Code string
	Errors       []server.FieldError
}

func (e errorBody) fields() []string {
	var names []string
	for _, f := range e.Errors {
		names = append(names, f.Field)
	}
	slices.Sort(names)
	return names
}

// wantError fails the test unless the response is a well-formed error with the status and code.
func wantError(tb testing.TB, r *http.Response, status int, code string) errorBody {
	tb.Helper()
	body := text(tb, r)
	what := ""
	if r.Request != nil {
		what = r.Request.Method + " " + r.Request.RequestURI + ": "
	}
	var e errorBody
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil && !(r.Request != nil && r.Request.Method == "HEAD") {
		tb.Errorf("%sthe body is not an error: %v: %q", what, err, body)
	} else if r.StatusCode != status || e.Code != code && body != "" || e.Detail == "" && body != "" ||
		(len(e.Errors) > 0) != (status == 422) && body != "" {
		tb.Errorf("%s%d %.300s, want %d %s", what, r.StatusCode, body, status, code)
	}
	wantHeaders(tb, r)
	for name, want := range map[string]bool{
		"WWW-Authenticate": status == 401, "Retry-After": status == 429 || status == 503, "Allow": status == 405,
	} {
		if got := r.Header.Get(name); (got != "") != want {
			tb.Errorf("%s%d has the header %s: %q", what, r.StatusCode, name, got)
		}
	}
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		tb.Errorf("%sContent-Type is %q", what, got)
	}
	return e
}

// wantHeaders fails the test unless the response has the common headers.
func wantHeaders(tb testing.TB, r *http.Response) {
	tb.Helper()
	if r.Header.Get("X-Request-Id") == "" || r.Header.Get("X-Content-Type-Options") != "nosniff" {
		tb.Errorf("%d with the headers %v", r.StatusCode, r.Header)
	}
}

// logbook collects log lines in JSON.
type logbook struct{ testkit.Log }

// lines returns the decoded log lines.
func (l *logbook) lines(tb testing.TB) []map[string]any {
	tb.Helper()
	var all []map[string]any
	for line := range strings.Lines(l.String()) {
		var event map[string]any
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			tb.Fatalf("%v: %s", err, line)
		}
		all = append(all, event)
	}
	return all
}

func (l *logbook) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
