package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/tests/testkit"
)

// chained returns a server with a handler at the end of each chain. The handlers send the tenant of their context, and
// the errors name the chain whose form they have. Callers and addresses have two requests each.
func chained(t *testing.T, log io.Writer) *server.Server {
	body := func(w http.ResponseWriter, r *http.Request) error {
		if _, err := io.ReadAll(r.Body); err != nil {
			return server.ErrTooLarge.Because(err)
		}
		_, err := io.WriteString(w, "the tenant "+db.ActorOf(r.Context()).Tenant)
		return err
	}
	return newServer(t, func(c *server.Config) {
		now := time.Now()
		c.PerMinute, c.PerHour, c.Now = 2, 100, func() time.Time { return now }
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")} // the peer of httptest
		c.CORSOrigins = []string{"https://shop.example"}
		if log != nil {
			c.Log = log.(*logbook).logger()
		}
		show := func(ctx context.Context, _ *server.Request[struct{}]) (server.OK[Echo], error) {
			return server.Encode(Echo{"the tenant " + db.ActorOf(ctx).Tenant})
		}
		c.Routes = append(c.Routes, server.Op("GET /api/v1/shown", server.Write, server.Handle(show), doc("shown")),
			server.Op("GET /api/v1/file", server.Admin, server.HandleFile("text/plain", "file.txt",
				func(ctx context.Context, w io.Writer) error {
					_, err := io.WriteString(w, "the tenant "+db.ActorOf(ctx).Tenant)
					return err
				}), doc("file")))
		stream := server.HandleStream("text/plain", "x", 1<<30,
			func(context.Context, *server.Request[struct{}], io.Reader) (none struct{}, sum []byte, err error) {
				return none, nil, server.ErrNotFound
			}, func(context.Context, *server.Request[struct{}], struct{}) (server.NoContent, error) { return nil, nil })
		c.Routes = append(c.Routes, server.Op("POST /api/v1/streamed", server.Write, stream, doc("streamed")))
		c.Surfaces = []server.Surface{{
			Prefix: "/own/", KeyPrefix: "/keyed/{key}/",
			Serve: func(w http.ResponseWriter, r *http.Request, _ server.Caller) error { return body(w, r) },
			Fail:  func(e *server.Error) []byte { return []byte("own " + e.Code) },
		}}
		c.Receivers = []server.Receiver{{Pattern: "POST /messages/{id}",
			Serve: func(context.Context, server.Message) error { return server.ErrSignature }}}
		c.Site = func(s *server.Server) *server.Site {
			page := func(w http.ResponseWriter, r *http.Request) error {
				return errors.Join(s.CountVisit(w, r, nil), body(w, r))
			}
			return &server.Site{
				Pages: []server.SitePage{{Pattern: "GET /page", Serve: page}, {Pattern: "POST /page", Serve: page}},
				Assets: []server.SitePage{{Pattern: "GET /asset", Serve: func(w http.ResponseWriter, _ *http.Request) error {
					_, err := io.WriteString(w, "asset")
					return err
				}}},
				Identify: func(r *http.Request) (server.Caller, bool) {
					user := r.Header.Get("X-User")
					return server.Caller{Actor: db.Actor{Tenant: "tenant", User: user}}, user != ""
				},
				Fail: func(w http.ResponseWriter, r *http.Request, e *server.Error) {
					status, _ := e.Page(w, r)
					w.WriteHeader(status)
					io.WriteString(w, "page "+e.Code)
				},
			}
		}
	})
}

// TestChains has a row for each function of each chain in middleware.go, which fails without the function. Other tests
// show what the functions do.
func TestChains(t *testing.T) {
	t.Parallel()
	book := &logbook{}
	s := chained(t, book)
	const html = "Accept: text/html"
	large := strings.Repeat(" ", 1<<20+1)
	for i, c := range []struct {
		function, method, target, who, header, body string
		times                                       int // how often the request is sent, if not once
		status                                      int
		want                                        string // a part of the headers and the body of the last response
	}{
		{"every: requestID", "GET", "/healthz", "", "X-Request-Id: mine", "", 1, 200, "X-Request-Id: mine"},
		{"every: logged", "GET", "/healthz", "", "", "", 1, 200, ""}, // see below
		{"every: recovered", "GET", "/api/v1/panics", "admin", "", "", 1, 500, "INTERNAL_ERROR"},
		{"every: securityHeaders", "GET", "/healthz", "", "", "", 1, 200, "X-Content-Type-Options: nosniff"},
		{"every: cors", "GET", "/healthz", "", "Origin: https://shop.example", "", 1, 200,
			"Access-Control-Allow-Origin: https://shop.example"},
		{"every: cleanPath", "GET", "/api/v1//things", "admin", "", "", 1, 404, "NOT_FOUND"},

		{"api: noStore", "GET", "/api/v1/shown", "admin", "", "", 1, 200, "Cache-Control: no-store"},
		{"api: authenticate", "GET", "/api/v1/shown", "admin", "", "", 1, 200, ""},
		{"api: rateLimit", "GET", "/api/v1/shown", "admin", "", "", 3, 429, "X-RateLimit-Remaining: 0"},
		{"api: role", "GET", "/api/v1/shown", "viewer", "", "", 1, 403, "FORBIDDEN"},
		{"api: role", "GET", "/api/v1/shown", "", "", "", 1, 401, "INVALID_TOKEN"},
		{"api: tenant", "GET", "/api/v1/shown", "admin", "", "", 1, 200, "the tenant tenant"},

		{"files: noStore", "GET", "/api/v1/file", "admin", "", "", 1, 200, "Cache-Control: no-store"},
		{"files: authenticate", "GET", "/api/v1/file", "admin", "", "", 1, 200, ""},
		{"files: rateLimit", "GET", "/api/v1/file", "admin", "", "", 3, 429, "X-RateLimit-Remaining: 0"},
		{"files: role", "GET", "/api/v1/file", "operator", "", "", 1, 403, "FORBIDDEN"},
		{"files: tenant", "GET", "/api/v1/file", "admin", "", "", 1, 200, "the tenant tenant"},

		{"surface: named", "GET", "/own/x", "", "", "", 1, 401, ""}, // see below
		{"surface: noStore", "GET", "/own/x", "admin", "", "", 1, 200, "Cache-Control: no-store"},
		{"surface: errorsAs", "GET", "/own/x", "", "", "", 1, 401, "own INVALID_TOKEN"},
		{"surface: authenticate", "GET", "/own/x", "admin", "", "", 1, 200, ""},
		{"surface: rateLimit", "GET", "/own/x", "admin", "", "", 3, 429, "own RATE_LIMIT_EXCEEDED"},
		{"surface: role", "GET", "/own/x", "", "", "", 1, 401, "own INVALID_TOKEN"},
		{"surface: tenant", "GET", "/own/x", "admin", "", "", 1, 200, "the tenant tenant"},
		{"surface: limitBody", "POST", "/own/x", "admin", "", large, 1, 413, "own PAYLOAD_TOO_LARGE"},
		{"surface: keyInPath", "GET", "/keyed/key/x", "admin", "", "", 1, 200, "the tenant tenant"},

		{"page: noStore", "GET", "/page", "", "", "", 1, 200, "Cache-Control: no-store"},
		{"page: errorsAs", "POST", "/page", "", "", large, 1, 413, "page PAYLOAD_TOO_LARGE"},
		{"page: identify", "GET", "/page", "", "X-User: ada", "", 1, 200, "X-RateLimit-Remaining: 1"},
		{"page: rateLimit", "POST", "/page", "", "", "", 3, 429, "page RATE_LIMIT_EXCEEDED"},
		{"page: limitBody", "POST", "/page", "", "", large, 1, 413, "page PAYLOAD_TOO_LARGE"},

		{"asset: errorsAs", "GET", "/asset", "", "", "", 601, 429, "page RATE_LIMIT_EXCEEDED"},
		{"asset: rateLimit", "GET", "/asset", "", "", "", 601, 429, ""},

		{"receiver: noStore", "POST", "/messages/x", "", "", "", 1, 401, "Cache-Control: no-store"},
		{"receiver: errorsAs", "POST", "/messages/x", "", html, "", 1, 401, `"code":"INVALID_SIGNATURE"`},

		{"document: errorsAs", "GET", "/docs", "", html, "", 601, 429, `"code":"RATE_LIMIT_EXCEEDED"`},
		{"document: rateLimit", "GET", "/docs", "", "", "", 601, 429, ""},

		{"unknown: noStore", "GET", "/api/v1/none", "admin", "", "", 1, 404, "Cache-Control: no-store"},
		{"unknown: rateLimit", "GET", "/api/v1/none", "admin", "", "", 3, 429, "X-RateLimit-Remaining: 0"},
		{"unknown: rateLimit", "GET", "/none", "", "", "", 601, 429, `"code":"RATE_LIMIT_EXCEEDED"`},
	} {
		headers := []string{"X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i), "Authorization", ""}
		if c.who != "" {
			headers[3] = fmt.Sprintf("Bearer %s.%d", c.who, i)
		}
		if name, value, ok := strings.Cut(c.header, ": "); ok {
			headers = append(headers, name, value)
		}
		var got strings.Builder
		status := 0
		for range max(1, c.times) {
			r := send(t, s, c.method, c.target, c.body, headers...)
			got.Reset()
			for name, values := range r.Header {
				fmt.Fprintf(&got, "%s: %s\n", name, strings.Join(values, ", "))
			}
			got.WriteString(text(t, r))
			status = r.StatusCode
		}
		if status != c.status || !strings.Contains(got.String(), c.want) {
			t.Errorf("%s: %d %.600s, want %d with %s", c.function, status, got.String(), c.status, c.want)
		}
	}
	routes := map[any]bool{}
	for _, line := range book.lines(t) {
		routes[line["route"]] = true
	}
	for _, route := range []string{"GET /healthz", "* /own/"} {
		testkit.Equal(t, routes[route], true, "the log has the route %s", route)
	}
}

// patientRecorder is a ResponseRecorder that accepts deadlines, as a connection does.
type patientRecorder struct{ *httptest.ResponseRecorder }

func (patientRecorder) SetReadDeadline(time.Time) error { return nil }

// TestUnreadStream shows that a client may send the rest of a large body that is rejected: it then reads the response.
func TestUnreadStream(t *testing.T) {
	t.Parallel()
	body := strings.NewReader(strings.Repeat("x", 5<<20))
	r := httptest.NewRequest("POST", "/api/v1/streamed", body)
	r.Header.Set("Authorization", "Bearer viewer")
	w := patientRecorder{httptest.NewRecorder()}
	chained(t, nil).ServeHTTP(w, r)
	testkit.Equal(t, w.Code, 403, "the status")
	testkit.Equal(t, body.Len(), 0, "bytes that were not read")
}

// TestOrderOfChecks sends requests that several functions of a chain reject. The first function answers.
func TestOrderOfChecks(t *testing.T) {
	t.Parallel()
	for chain, target := range map[string]string{"api": "POST /api/v1/things?page=1", "files": "GET /api/v1/file?page=1",
		"surface": "GET /own/x", "unknown": "GET /api/v1/none"} {
		method, target, _ := strings.Cut(target, " ")
		s, body := chained(t, nil), ""
		if method == "POST" {
			body = `{`
		}
		try := func(who string, status int, what string) {
			t.Helper()
			r := send(t, s, method, target, body, "Authorization", "Bearer "+who)
			testkit.Equal(t, r.StatusCode, status, "%s: %s", chain, what)
		}
		denied, forbidden, invalid := 401, 403, 422
		switch chain {
		case "surface":
			forbidden, invalid = 200, 200 // the surface checks roles itself
		case "unknown":
			denied, forbidden, invalid = 404, 404, 404
		}
		for range 2 {
			try("forged", denied, "the token before the role and the request")
			try("viewer", forbidden, "the role before the request")
			try("admin", invalid, "the request")
		}
		try("forged", 429, "the limit of the address before the token")
		try("viewer", 429, "the limit of the caller before the role")
		try("admin", 429, "the limit of the caller before the request")
	}

	s, large := chained(t, nil), strings.Repeat(" ", 1<<20+1)
	for i, c := range []struct {
		target, body string
		want         int
	}{
		{"/page", "", 200}, {"/page", large, 413},
		{"/page", large, 429}, // the limit before the body
		{"/messages/00000000-0000-4000-8000-000000000000", large, 429},
	} {
		r := send(t, s, "POST", c.target, c.body)
		testkit.Equal(t, r.StatusCode, c.want, "POST %s, request %d", c.target, i+1)
	}
}
