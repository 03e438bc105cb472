package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/server"
	"spoolwright/server/metrics"
	"spoolwright/tests/testkit"
)

// Requests that no route serves get a JSON error with the common headers.
func TestRouting(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, c := range []struct {
		method, target string
		status         int
		code, allow    string
	}{
		{"POST", "/favicon.ico", 405, "METHOD_NOT_ALLOWED", "GET, HEAD"},
		{"DELETE", "/", 405, "METHOD_NOT_ALLOWED", "GET, HEAD"},
		{"GET", "/api", 404, "NOT_FOUND", ""},
		{"GET", "/api/", 404, "NOT_FOUND", ""},
		{"GET", "/api/v1", 404, "NOT_FOUND", ""},
		{"GET", "/api/v1/", 404, "NOT_FOUND", ""},
		{"GET", "/api/v2/things", 404, "NOT_FOUND", ""},
		{"GET", "/api/v1/nothing", 404, "NOT_FOUND", ""},
		{"GET", "/api/v1/things/", 404, "NOT_FOUND", ""},
		{"POST", "/api/v1/things/", 404, "NOT_FOUND", ""},
		{"PATCH", thingPath + "/", 404, "NOT_FOUND", ""},
		{"PATCH", thingPath + "/more", 404, "NOT_FOUND", ""},
		{"GET", "//", 404, "NOT_FOUND", ""},
		{"GET", "//api/v1/things", 404, "NOT_FOUND", ""},
		{"GET", "/api//v1/things", 404, "NOT_FOUND", ""},
		{"GET", "/api/v1//things", 404, "NOT_FOUND", ""},
		{"GET", "/api/v1/./things", 404, "NOT_FOUND", ""},
		{"GET", "/api/v1/things/../things", 404, "NOT_FOUND", ""},
		{"GET", "/api/v1/x/%2e%2e/things", 404, "NOT_FOUND", ""},
		{"GET", "/%2e%2e/api/v1/things", 404, "NOT_FOUND", ""},
		{"GET", "/docs/../healthz", 404, "NOT_FOUND", ""},
		{"GET", "/API/V1/things", 404, "NOT_FOUND", ""},
		{"GET", "/api/v1/things%00", 404, "NOT_FOUND", ""},
		{"GET", "/api/v1/things%2f", 404, "NOT_FOUND", ""},
		{"GET", "/api%2fv1%2fthings", 404, "NOT_FOUND", ""},
		{"HEAD", "/api/v1/nothing", 404, "", ""},
		{"GET", "/metrics", 404, "NOT_FOUND", ""},
		{"GET", "/debug/pprof/", 404, "NOT_FOUND", ""},
		{"DELETE", "/healthz/", 404, "NOT_FOUND", ""},

		{"PUT", "/api/v1/things", 405, "METHOD_NOT_ALLOWED", "GET, HEAD, POST"},
		{"DELETE", "/api/v1/things", 405, "METHOD_NOT_ALLOWED", "GET, HEAD, POST"},
		{"OPTIONS", "/api/v1/things", 405, "METHOD_NOT_ALLOWED", "GET, HEAD, POST"},
		{"TRACE", "/api/v1/things", 405, "METHOD_NOT_ALLOWED", "GET, HEAD, POST"},
		{"get", "/api/v1/things", 405, "METHOD_NOT_ALLOWED", "GET, HEAD, POST"},
		{"BREW", "/api/v1/things", 405, "METHOD_NOT_ALLOWED", "GET, HEAD, POST"},
		{"GET", thingPath, 405, "METHOD_NOT_ALLOWED", "DELETE, PATCH"},
		{"HEAD", thingPath, 405, "", "DELETE, PATCH"},
		{"POST", thingPath, 405, "METHOD_NOT_ALLOWED", "DELETE, PATCH"},
		{"POST", "/api/v1/things/not-an-id", 405, "METHOD_NOT_ALLOWED", "DELETE, PATCH"},
		{"POST", "/healthz", 405, "METHOD_NOT_ALLOWED", "GET, HEAD"},
		{"DELETE", "/openapi.json", 405, "METHOD_NOT_ALLOWED", "GET, HEAD"},
		{"POST", "/docs", 405, "METHOD_NOT_ALLOWED", "GET, HEAD"},
	} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(c.method + " " + c.target +
			" HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer admin\r\n\r\n")))
		testkit.Check(t, err)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		res := w.Result()
		res.Request = r
		if c.method == "HEAD" {
			res.Body = http.NoBody // as net/http sends it
		}
		wantError(t, res, c.status, c.code)
		testkit.Equal(t, res.Header.Get("Allow"), c.allow, "%s %s: Allow", c.method, c.target)
	}
	// Unnecessary escapes do not change the path.
	testkit.Equal(t, send(t, s, "GET", "/api/v1/%74hings", "").StatusCode, 200, "path with an escaped letter: status")
}

// serving runs Serve until the test ends. It returns the address, and a function that stops Serve and returns its
// error.
func serving(t *testing.T, s *server.Server) (address string, stop func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { stop() })
	return listener.Addr().String(), stop
}

// raw sends the text of a request and returns the response.
func raw(t *testing.T, address, method, request string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	testkit.Check(t, err)
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	testkit.Check(t, err)
	return r
}

// The server handles request lines that net/http's client does not send.
func TestRawRequests(t *testing.T) {
	t.Parallel()
	address, _ := serving(t, newServer(t))
	const rest = " HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer admin\r\nConnection: close\r\n\r\n"
	for _, c := range []struct {
		method, target string
		status         int
		code           string
	}{
		{"OPTIONS", "*", 404, "NOT_FOUND"},
		{"CONNECT", "test:80", 404, "NOT_FOUND"},
		{"CONNECT", "/api/v1/things", 405, "METHOD_NOT_ALLOWED"},
		{"GET", "http://elsewhere.test/api/v1/nothing", 404, "NOT_FOUND"},
		{"GET", "//api/v1/things", 404, "NOT_FOUND"},
		{"GET", "/api/v1/things/..", 404, "NOT_FOUND"},
		{"BREW", "/api/v1/things", 405, "METHOD_NOT_ALLOWED"},
	} {
		res := raw(t, address, c.method, c.method+" "+c.target+rest)
		wantError(t, res, c.status, c.code)
	}
	res := raw(t, address, "HEAD", "HEAD /api/v1/things"+rest)
	if length := res.Header.Get("Content-Length"); res.StatusCode != 200 || length != "13" || text(t, res) != "" {
		t.Errorf("HEAD: %d, length %s, body %q", res.StatusCode, length, text(t, res))
	}
	wantHeaders(t, res)
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	var log logbook
	s := newServer(t, func(c *server.Config) { c.Log = log.logger() })
	own := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	for id, accepted := range map[string]bool{
		"a":                      true,
		"Req_1.2-3":              true,
		strings.Repeat("x", 128): true,
		strings.Repeat("x", 129): false,
		"":                       false,
		"a b":                    false,
		"a\tb":                   false,
		"é":                      false,
		"a\"b":                   false,
		"a/b":                    false,
		"a;b":                    false,
		"{}":                     false,
		"\xff":                   false,
	} {
		for _, target := range []string{"/api/v1/things", "/api/v1/nothing", "/healthz", "/nothing"} {
			got := send(t, s, "GET", target, "", "X-Request-Id", id).Header["X-Request-Id"]
			if len(got) != 1 || accepted && got[0] != id || !accepted && !own.MatchString(got[0]) {
				t.Errorf("%s with the id %q: %q", target, id, got)
			}
		}
	}
	// The body of a 500 contains the request id of the log line.
	r := send(t, s, "GET", "/api/v1/fails", "", "X-Request-Id", "find-me")
	if e := wantError(t, r, 500, "INTERNAL_ERROR"); !strings.Contains(e.Detail, "find-me") {
		t.Error(e.Detail)
	}
	lines := log.lines(t)
	if last := lines[len(lines)-1]; last["request_id"] != "find-me" || last["error"] != errSecret.Error() ||
		last["level"] != "ERROR" {
		t.Errorf("%v", last)
	}
}

// Each error of a handler has its status, and the response contains no internal text.
func TestHandlerErrors(t *testing.T) {
	t.Parallel()
	var log logbook
	s := newServer(t, func(c *server.Config) { c.Log = log.logger() })
	for path, want := range map[string]string{
		"fails": "500 INTERNAL_ERROR", "panics": "500 INTERNAL_ERROR", "away": "503 UNAVAILABLE",
		"revoked": "401 INVALID_TOKEN", "range": "422 VALIDATION_ERROR",
	} {
		r := send(t, s, "GET", "/api/v1/"+path, "", "X-Request-Id", "id-of-"+path)
		var status int
		var code string
		fmt.Sscan(want, &status, &code)
		e := wantError(t, r, status, code)
		if body := text(t, r); strings.Contains(body, "secret") || strings.Contains(body, "goroutine") ||
			strings.Contains(body, ".go:") {
			t.Errorf("%s: the body contains internal text: %s", path, body)
		}
		if status == 500 && !strings.Contains(e.Detail, "id-of-"+path) {
			t.Errorf("%s: no request id in %q", path, e.Detail)
		}
	}
	for _, line := range log.lines(t) {
		if message, _ := line["error"].(string); !strings.Contains(message, errSecret.Error()) {
			t.Errorf("log line without the cause: %v", line)
		}
		if line["route"] == "GET /api/v1/panics" && !strings.Contains(fmt.Sprint(line["error"]), "main_test.go") {
			t.Errorf("log line of a panic without its stack: %v", line)
		}
	}
	// The server still works.
	testkit.Equal(t, send(t, s, "GET", "/api/v1/things", "").StatusCode, 200, "after a panic")
}

// The server passes on a panic with http.ErrAbortHandler, which aborts a response.
func TestAbortHandler(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(c *server.Config) {
		c.Routes = append(c.Routes, server.Op("GET /api/v1/aborts", server.Public,
			server.Handle(func(context.Context, *server.Request[struct{}]) (server.NoContent, error) {
				panic(http.ErrAbortHandler)
			}), doc("aborts")))
	})
	defer func() {
		if recover() != http.ErrAbortHandler {
			t.Error("the panic did not reach the caller")
		}
	}()
	send(t, s, "GET", "/api/v1/aborts", "")
}

func TestAccess(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const none = ""
	for _, c := range []struct {
		method, target, body string
		want                 map[string]int // by role
	}{
		{"POST", "/api/v1/public", `{"name":"x","weight":1}`,
			map[string]int{none: 200, "viewer": 200, "operator": 200, "admin": 200}},
		{"GET", "/api/v1/things", "", map[string]int{none: 401, "viewer": 200, "operator": 200, "admin": 200}},
		{"HEAD", "/api/v1/things", "", map[string]int{none: 401, "viewer": 200, "operator": 200, "admin": 200}},
		{"POST", "/api/v1/things", `{"name":"x","weight":1}`,
			map[string]int{none: 401, "viewer": 403, "operator": 200, "admin": 200}},
		{"PATCH", thingPath, `{}`, map[string]int{none: 401, "viewer": 403, "operator": 200, "admin": 200}},
		{"DELETE", thingPath, "", map[string]int{none: 401, "viewer": 403, "operator": 403, "admin": 204}},
		// The role is checked before path and body.
		{"POST", "/api/v1/things", `{`, map[string]int{none: 401, "viewer": 403, "operator": 400}},
		{"PATCH", "/api/v1/things/x", `{`, map[string]int{none: 401, "viewer": 403, "operator": 422}},
	} {
		for role, want := range c.want {
			header := "Bearer " + role
			if role == none {
				header = ""
			}
			r := send(t, s, c.method, c.target, c.body, "Authorization", header)
			testkit.Equal(t, r.StatusCode, want, "%s %s as %q", c.method, c.target, role)
			wantHeaders(t, r)
			testkit.Equal(t, r.Header.Get("Cache-Control"), "no-store",
				"%s %s as %q: Cache-Control", c.method, c.target, role)
		}
	}
}

// limits returns the headers of rate limits. It looks them up by their exact spelling.
func limits(r *http.Response) [5]string {
	var all [5]string
	for i, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy",
		"RateLimit"} {
		if v := r.Header[name]; len(v) == 1 {
			all[i] = v[0]
		}
	}
	return all
}

func TestRateLimits(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 1, 15, 10, 0, 0, 0, time.UTC)
	limited := func(perMinute int) *server.Server {
		return newServer(t, func(c *server.Config) {
			c.PerMinute, c.PerHour, c.Now = perMinute, 1000, func() time.Time { return now }
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")} // the peer of httptest
		})
	}
	// Every response takes a token and has the headers.
	s := limited(100)
	left := map[string]int{}
	for _, c := range []struct {
		method, target, body, role string
		want                       int
	}{
		{"GET", "/api/v1/things", "", "admin", 200},
		{"HEAD", "/api/v1/things", "", "admin", 200},
		{"DELETE", thingPath, "", "admin", 204},
		{"POST", "/api/v1/things", "{", "admin", 400},
		{"GET", "/api/v1/things", "", "", 401},
		{"GET", "/api/v1/things", "", "forged", 401},
		{"GET", "/api/v1/revoked", "", "admin", 401},
		{"DELETE", thingPath, "", "viewer", 403},
		{"GET", "/api/v1/nothing", "", "admin", 404},
		{"GET", "/api/v1/nothing", "", "", 404},
		{"GET", "/api/v1//things", "", "admin", 404},
		{"GET", "/api/v1/things/", "", "", 404},
		{"GET", "/api/v1", "", "admin", 404},
		{"PUT", "/api/v1/things", "", "admin", 405},
		{"PUT", "/api/v1/things", "", "", 405},
		{"POST", "/api/v1/things", strings.Repeat(" ", 1<<20+1), "admin", 413},
		{"POST", "/api/v1/things", "{}", "admin", 422},
		{"PATCH", "/api/v1/things/x", "{}", "admin", 422},
		{"GET", "/api/v1/things?limit=0", "", "admin", 422},
		{"GET", "/api/v1/fails", "", "admin", 500},
		{"GET", "/api/v1/panics", "", "admin", 500},
		{"GET", "/api/v1/away", "", "admin", 503},
		{"POST", "/api/v1/public", "{}", "admin", 422}, // counts for the address also with a token
	} {
		r := send(t, s, c.method, c.target, c.body, "Authorization", "Bearer "+c.role)
		key := c.role
		if roles[c.role] == 0 || strings.HasSuffix(c.target, "/public") {
			key = "the address"
		}
		left[key]++
		want := [5]string{"100", strconv.Itoa(100 - left[key]),
			strconv.FormatInt(now.Add(time.Duration(left[key])*600*time.Millisecond+time.Second-1).Unix(), 10),
			`"minute";q=100;w=60`, fmt.Sprintf(`"minute";r=%d;t=1`, 100-left[key])}
		if got := limits(r); r.StatusCode != c.want || got != want {
			t.Errorf("%s %s as %q: %d with %v, want %d with %v", c.method, c.target, c.role, r.StatusCode, got, c.want,
				want)
		}
	}

	// Each user has a limit, from any address. Requests without a valid token share the limit of their address.
	s = limited(2)
	forwarded := func(role, address string) *http.Response {
		return send(t, s, "GET", "/api/v1/things", "", "Authorization", "Bearer "+role, "X-Forwarded-For", address)
	}
	for _, c := range []struct {
		role, address string
		want          []int
	}{
		{"viewer.a", "198.51.100.1", []int{200, 200, 429}},
		{"viewer.a", "198.51.100.2", []int{429}},
		{"viewer.b", "198.51.100.1", []int{200, 200, 429}},
		{"", "198.51.100.1", []int{401, 401, 429}},
		{"forged", "198.51.100.1", []int{429}},
		{"", "198.51.100.2", []int{401, 401, 429}},
		{"", "9.9.9.9, 198.51.100.2", []int{429}}, // only the last address counts
		{"", "2001:db8::1", []int{401, 401, 429}},
		{"", "2001:db8::2", []int{429}},
		{"", "2001:db8:0:1::", []int{401}},
	} {
		for i, want := range c.want {
			r := forwarded(c.role, c.address)
			testkit.Equal(t, r.StatusCode, want, "%q from %s, request %d", c.role, c.address, i+1)
			if want == 429 {
				wantError(t, r, 429, "RATE_LIMIT_EXCEEDED")
				if got := r.Header.Get("Retry-After"); got != "30" || limits(r)[1] != "0" ||
					limits(r)[4] != `"minute";r=0;t=30` {
					t.Errorf("Retry-After is %s, with %v", got, limits(r))
				}
			}
		}
	}
	// The limit is checked before method, path and body.
	for method, target := range map[string]string{
		"GET": "/api/v1/nothing", "PUT": "/api/v1/things", "POST": "/api/v1/things", "DELETE": "/api/v1/things/x",
	} {
		wantError(t, send(t, s, method, target, "{", "Authorization", "Bearer viewer.a"), 429, "RATE_LIMIT_EXCEEDED")
	}
	// Retry-After is rounded up: a client that waits so long must succeed.
	now = now.Add(29*time.Second + 500*time.Millisecond)
	r := forwarded("viewer.a", "")
	wantError(t, r, 429, "RATE_LIMIT_EXCEEDED")
	testkit.Equal(t, r.Header.Get("Retry-After"), "1", "half a second before the next token, Retry-After")
	now = now.Add(500 * time.Millisecond)
	for i, want := range []int{200, 429} {
		testkit.Equal(t, forwarded("viewer.a", "").StatusCode, want, "30 seconds later, request %d", i+1)
	}
	// The headers describe the limit with the fewest requests left, also that of an hour.
	s = newServer(t, func(c *server.Config) { c.PerHour, c.Now = 10, func() time.Time { return now } })
	r = send(t, s, "GET", "/api/v1/things", "")
	if got := limits(r); got[3] != `"hour";q=10;w=3600` || got[4] != `"hour";r=9;t=360` {
		t.Errorf("10 requests an hour: %v", got)
	}
	// Paths outside /api/v1 have no limit.
	for range 5 {
		for _, target := range []string{"/healthz", "/readyz", "/openapi.json", "/docs", "/redoc"} {
			if r := send(t, s, "GET", target, "", "Authorization", "Bearer viewer.a"); r.StatusCode != 200 ||
				limits(r) != [5]string{} {
				t.Errorf("%s: %d with %v", target, r.StatusCode, limits(r))
			}
		}
	}
	// Without limits there are no headers.
	s = newServer(t)
	for range 300 {
		if r := send(t, s, "GET", "/api/v1/things", ""); r.StatusCode != 200 || limits(r) != [5]string{} {
			t.Fatalf("%d with %v", r.StatusCode, limits(r))
		}
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	const origin, method = "https://farm.example", "Access-Control-Request-Method"
	on := newServer(t, func(c *server.Config) {
		c.CORSOrigins, c.PerMinute = []string{"https://other.example", origin}, 1000
	})
	off := newServer(t)
	for _, c := range []struct {
		name    string
		s       *server.Server
		method  string
		headers []string
		status  int
		allowed bool
		vary    string
	}{
		{"no origin", on, "GET", nil, 200, false, "Origin"},
		{"the origin", on, "GET", []string{"Origin", origin}, 200, true, "Origin"},
		{"another origin", on, "GET", []string{"Origin", "https://evil.example"}, 200, false, "Origin"},
		{"a prefix of the origin", on, "GET", []string{"Origin", "https://farm.exampl"}, 200, false, "Origin"},
		{"a domain with the origin as prefix", on, "GET", []string{"Origin", origin + ".evil.example"}, 200, false,
			"Origin"},
		{"another scheme", on, "GET", []string{"Origin", "http://farm.example"}, 200, false, "Origin"},
		{"another port", on, "GET", []string{"Origin", origin + ":8443"}, 200, false, "Origin"},
		{"null", on, "GET", []string{"Origin", "null"}, 200, false, "Origin"},
		{"an error", on, "PUT", []string{"Origin", origin}, 405, true, "Origin"},
		{"without a token", on, "GET", []string{"Origin", origin, "Authorization", ""}, 401, true, "Origin"},
		{"preflight", on, "OPTIONS", []string{"Origin", origin, method, "PATCH", "Authorization", ""}, 204, true,
			"Origin"},
		{"preflight of another origin", on, "OPTIONS", []string{"Origin", "https://evil.example", method, "PATCH"},
			405, false, "Origin"},
		{"preflight without an origin", on, "OPTIONS", []string{method, "PATCH"}, 405, false, "Origin"},
		{"OPTIONS without the preflight header", on, "OPTIONS", []string{"Origin", origin}, 405, true, "Origin"},
		{"off", off, "GET", []string{"Origin", origin}, 200, false, ""},
		{"off, preflight", off, "OPTIONS", []string{"Origin", origin, method, "PATCH"}, 405, false, ""},
	} {
		r := send(t, c.s, c.method, "/api/v1/things", "", c.headers...)
		wantHeaders(t, r)
		want := ""
		if c.allowed {
			want = origin
		}
		h := r.Header
		if r.StatusCode != c.status || h.Get("Access-Control-Allow-Origin") != want || h.Get("Vary") != c.vary ||
			h.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %d with %v", c.name, r.StatusCode, h)
		}
		preflight := c.status == 204
		if preflight != (h.Get("Access-Control-Allow-Methods") == "GET, POST, PUT, PATCH, DELETE") ||
			preflight != strings.Contains(h.Get("Access-Control-Allow-Headers"), "Authorization") ||
			preflight != (h.Get("Access-Control-Max-Age") != "") {
			t.Errorf("%s: %v", c.name, h)
		}
		if c.allowed {
			for _, name := range []string{"Location", "Retry-After", "X-Request-Id", "X-RateLimit-Remaining",
				"Idempotency-Replayed", "Warnings"} {
				if !strings.Contains(h.Get("Access-Control-Expose-Headers"), name) {
					t.Errorf("%s: %s is not exposed", c.name, name)
				}
			}
		}
	}
}

func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	for _, tls := range []bool{false, true} {
		s := newServer(t, func(c *server.Config) { c.HSTS = tls })
		for _, target := range []string{"/api/v1/things", "/api/v1/nothing", "/api/v1/panics", "/nothing", "/docs",
			"/docs/", "/docs/init.js", "/docs/nothing", "/redoc", "/openapi.json", "/healthz", "/readyz", "//"} {
			r := send(t, s, "GET", "http://test"+target, "")
			wantHeaders(t, r)
			if got := r.Header.Get("Strict-Transport-Security"); (got != "") != tls {
				t.Errorf("%s: HSTS is %q, TLS %v", target, got, tls)
			}
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
	}{{"ready", nil}, {"not ready", errSecret}} {
		var log logbook
		s := newServer(t, func(config *server.Config) {
			config.Log = log.logger()
			config.Ready = func(ctx context.Context) error {
				if _, ok := ctx.Deadline(); !ok {
					t.Error("the context of Ready has no deadline")
				}
				return c.err
			}
		})
		r := send(t, s, "GET", "/readyz", "", "Authorization", "")
		if c.err == nil {
			if r.StatusCode != 200 || text(t, r) != `{"status":"ready"}`+"\n" {
				t.Errorf("%d %s", r.StatusCode, text(t, r))
			}
		} else if wantError(t, r, 503, "UNAVAILABLE"); strings.Contains(text(t, r), "secret") {
			t.Error(text(t, r))
		}
		if r := send(t, s, "GET", "/healthz", "", "Authorization", ""); r.StatusCode != 200 ||
			text(t, r) != `{"status":"ok","version":"test"}`+"\n" {
			t.Errorf("%s: /healthz: %d %s", c.name, r.StatusCode, text(t, r))
		}
		lines := log.lines(t)
		if len(lines) != 2 || lines[0]["level"] != "DEBUG" || c.err != nil && lines[0]["error"] != errSecret.Error() {
			t.Errorf("%s: %v", c.name, lines)
		}
	}
}

// A request that fails because its client disconnected is no error of the service.
func TestDisconnectedClientIsNoError(t *testing.T) {
	t.Parallel()
	for _, disconnected := range []bool{false, true} {
		var log logbook
		s := newServer(t, func(c *server.Config) { c.Log = log.logger() })
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, "GET", "/api/v1/away", nil)
		r.Header.Set("Authorization", "Bearer admin")
		if disconnected {
			cancel()
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		cancel()
		want := "ERROR"
		if disconnected {
			want = "INFO"
		}
		if lines := log.lines(t); w.Code != 503 || len(lines) != 1 || lines[0]["level"] != want {
			t.Errorf("disconnected %v: status %d, log %v, want level %s", disconnected, w.Code, lines, want)
		}
	}
}

// A stopping server is not ready, closes its listener, and finishes running requests.
func TestGracefulStop(t *testing.T) {
	t.Parallel()
	began, finish := make(chan struct{}), make(chan struct{})
	s := newServer(t, func(c *server.Config) {
		c.Routes = append(c.Routes, server.Op("POST /api/v1/slow", server.Public,
			server.Handle(func(context.Context, *server.Request[struct{}]) (server.OK[Echo], error) {
				close(began)
				<-finish
				return server.Encode(Echo{"done"})
			}), doc("slow")))
	})
	address, stop := serving(t, s)
	answered := make(chan string)
	go func() {
		r, err := http.Post("http://"+address+"/api/v1/slow", "", nil)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		answered <- fmt.Sprint(r.StatusCode, string(b), err)
	}()
	<-began
	testkit.Equal(t, send(t, s, "GET", "/readyz", "").StatusCode, 200, "/readyz before the stop")
	stopped := make(chan error)
	go func() { stopped <- stop() }()
	testkit.Eventually(t, "the listener is closed", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	wantError(t, send(t, s, "GET", "/readyz", ""), 503, "UNAVAILABLE")
	testkit.Equal(t, send(t, s, "GET", "/healthz", "").StatusCode, 200, "/healthz of a stopping server")
	select {
	case err := <-stopped:
		t.Fatalf("Serve returned %v while a request was running", err)
	default:
	}
	close(finish)
	if got := <-answered; got != `200{"got":"done"}`+"\n<nil>" {
		t.Errorf("the running request got %s", got)
	}
	testkit.Check(t, <-stopped)
}

func TestServeFails(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Check(t, err)
	listener.Close()
	if err := newServer(t).Serve(t.Context(), listener); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// The log has one line for each request, without secrets.
func TestLog(t *testing.T) {
	t.Parallel()
	var log logbook
	api := testkit.New(t, testkit.Options{PerMinute: 1000, Change: func(c *server.Config) { c.Log = log.logger() }},
		things, inventory.Routes)
	user := api.Operator(t)
	anonymous := api.Anonymous()
	const wrong = "a wrong password, which is wrong"
	requests := 0
	do := func(c *testkit.Client, method, path string, body any, want int) *testkit.Response {
		t.Helper()
		requests++
		a, err := c.Send(method, path, body)
		testkit.Check(t, err)
		if a.Status != want {
			t.Errorf("%s: %d %s, want %d", a.What, a.Status, a.Body, want)
		}
		return a
	}
	var tokens struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	secrets := []string{wrong, testkit.Password, user.Token, testkit.Secret}
	keep := func(a *testkit.Response) {
		t.Helper()
		if err := json.Unmarshal(a.Body, &tokens); err != nil || tokens.Access == "" || tokens.Refresh == "" {
			t.Fatalf("%v: %s", err, a.Body)
		}
		secrets = append(secrets, tokens.Access, tokens.Refresh)
	}
	j := func(pairs ...string) testkit.JSON {
		object := testkit.JSON{}
		for i := 0; i < len(pairs); i += 2 {
			object[pairs[i]] = pairs[i+1]
		}
		return object
	}
	do(anonymous, "POST", "/api/v1/auth/login", j("email", user.Email, "password", wrong), 401)
	do(anonymous, "POST", "/api/v1/auth/login", j("email", "nobody@test.example", "password", wrong), 401)
	do(anonymous, "POST", "/api/v1/auth/login", j("email", wrong, "password", wrong, wrong, wrong), 422)
	do(anonymous, "POST", "/api/v1/auth/login", `{"password":"`+wrong+`"`, 400)
	keep(do(anonymous, "POST", "/api/v1/auth/login", j("email", user.Email, "password", testkit.Password), 200))
	first := tokens.Refresh
	keep(do(anonymous, "POST", "/api/v1/auth/refresh", j("refresh_token", first), 200))
	do(anonymous, "POST", "/api/v1/auth/refresh", j("refresh_token", first[:len(first)-2]), 401)
	do(anonymous, "POST", "/api/v1/auth/refresh", j("refresh_token", tokens.Access), 401)
	user.Token = tokens.Access
	do(user, "GET", "/api/v1/auth/me", nil, 200)
	do(user.With("Authorization", "Bearer "+tokens.Refresh), "GET", "/api/v1/auth/me", nil, 401)
	do(user.With("Authorization", "Basic "+wrong), "GET", "/api/v1/auth/me", nil, 401)
	do(user, "GET", "/api/v1/spools?access_token="+tokens.Access, nil, 422)
	do(user, "GET", "/api/v1/"+tokens.Access, nil, 404)
	do(user, "GET", "/api/v1/spools/"+tokens.Access, nil, 422)
	do(user, "GET", "/api/v1/panics", nil, 500)
	do(user, "POST", "/api/v1/auth/logout", j("refresh_token", tokens.Refresh), 204)
	do(anonymous, "POST", "/api/v1/auth/refresh", j("refresh_token", tokens.Refresh), 401)
	do(anonymous, "GET", "/healthz", nil, 200)
	do(anonymous, "GET", "/nothing", nil, 404)

	all := log.String()
	for _, secret := range secrets {
		parts := []string{secret}
		if payload := strings.Split(secret, "."); len(payload) == 3 {
			parts = append(parts, payload[1], payload[2])
		}
		for _, part := range parts {
			if strings.Contains(all, part) {
				t.Errorf("the log contains %q", part)
			}
		}
	}
	lines := log.lines(t)
	if len(lines) != requests {
		t.Errorf("%d lines for %d requests", len(lines), requests)
	}
	seen := map[string]bool{}
	for _, line := range lines {
		for _, name := range []string{"time", "level", "msg", "request_id", "method", "route", "status", "duration",
			"address"} {
			if _, ok := line[name]; !ok {
				t.Errorf("no %s in %v", name, line)
			}
		}
		if id := fmt.Sprint(line["request_id"]); seen[id] {
			t.Errorf("two lines for the request %s", id)
		} else {
			seen[id] = true
		}
		route := fmt.Sprint(line["route"])
		byUser := route == "GET /api/v1/auth/me" || strings.HasPrefix(route, "GET /api/v1/spools")
		if line["status"] == 200.0 && byUser &&
			(line["user"] != user.Actor.User || line["tenant"] != user.Actor.Tenant) {
			t.Errorf("wrong user or tenant: %v", line)
		}
		if line["address"] != "127.0.0.1" || strings.Contains(route, "?") {
			t.Errorf("%v", line)
		}
		level := map[bool]string{true: "ERROR", false: "INFO"}[line["status"].(float64) >= 500]
		if route == "GET /healthz" {
			level = "DEBUG"
		}
		if line["level"] != level {
			t.Errorf("level is not %s: %v", level, line)
		}
	}
}

var (
	sample = regexp.MustCompile(
		`^([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*)\})? (-?[0-9.]+(?:e[+-][0-9]+)?|\+Inf|NaN)$`)
	meta = regexp.MustCompile(`^# (HELP|TYPE) ([a-z_]+) (.+)$`)
)

// scrape parses the metrics as Prometheus does, and returns the value of each series.
func scrape(t *testing.T, m *metrics.Metrics) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	types, help := map[string]string{}, map[string]bool{}
	values := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		line = strings.TrimSuffix(line, "\n")
		if m := meta.FindStringSubmatch(line); m != nil {
			if m[1] == "TYPE" {
				if types[m[2]] != "" || !slices.Contains([]string{"counter", "gauge", "histogram"}, m[3]) {
					t.Errorf("%q", line)
				}
				types[m[2]] = m[3]
			} else {
				help[m[2]] = true
			}
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("invalid line: %q", line)
		}
		name := m[1]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, suffix); ok && types[base] == "histogram" {
				name = base
			}
		}
		if types[name] == "" || !help[name] {
			t.Errorf("%s has no TYPE or HELP before it", name)
		}
		if types[name] == "counter" && !strings.HasSuffix(name, "_total") {
			t.Errorf("the name of the counter %s does not end in _total", name)
		}
		key := m[1]
		if m[2] != "" {
			key += "{" + m[2] + "}"
		}
		if _, ok := values[key]; ok {
			t.Errorf("%s occurs twice", key)
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Errorf("%q: %v", line, err)
		}
		values[key] = v
	}
	return values
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	m := metrics.New(`1.0 "quoted" \n`, func() db.PoolStats {
		return db.PoolStats{Max: 8, Total: 3, Idle: 2, InUse: 1, Waiting: 5, Acquires: 100, Waits: 4,
			WaitTime: 1500 * time.Millisecond, Shared: 7}
	})
	now := time.Now() // stands still, so that nobody gets more requests
	s := newServer(t, func(c *server.Config) {
		c.Metrics, c.PerMinute = m, 20
		c.Now = func() time.Time { return now }
	})
	before := scrape(t, m)
	for range 3 {
		send(t, s, "GET", "/api/v1/things", "", "Authorization", "Bearer viewer.a")
	}
	send(t, s, "GET", "/api/v1/things?limit=0", "", "Authorization", "Bearer viewer.a")
	send(t, s, "GET", "/api/v1/things", "", "Authorization", "Bearer viewer.a")
	send(t, s, "PATCH", thingPath, "{}", "Authorization", "Bearer operator.a")
	send(t, s, "PATCH", strings.Replace(thingPath, "0", "1", 1), "{}", "Authorization", "Bearer operator.a")
	send(t, s, "GET", "/healthz", "")
	send(t, s, "GET", "/api/v1/panics", "")
	for i := range 15 {
		send(t, s, fmt.Sprintf("BREW%d", i), "/api/v1/things", "", "Authorization", "Bearer viewer.b")
		send(t, s, "GET", fmt.Sprintf("/api/v1/nothing/%d", i), "", "Authorization", "Bearer viewer.c")
	}
	for range 23 {
		send(t, s, "GET", "/api/v1/things", "", "Authorization", "Bearer viewer.d")
	}
	after := scrape(t, m)
	total := func(route, method string, status int) string {
		return fmt.Sprintf(`{route="%s",method="%s",status="%d"}`, route, method, status)
	}
	for labels, want := range map[string]float64{
		total("GET /api/v1/things", "GET", 200):          24,
		total("GET /api/v1/things", "GET", 422):          1,
		total("GET /api/v1/things", "GET", 429):          3,
		total("PATCH /api/v1/things/{id}", "PATCH", 200): 2,
		total("GET /healthz", "GET", 200):                1,
		total("GET /api/v1/panics", "GET", 500):          1,
		total("none", "other", 405):                      15,
		total("none", "GET", 404):                        15,
	} {
		testkit.Equal(t, after["http_requests_total"+labels], want, "%s: requests", labels)
		testkit.Equal(t, after["http_request_duration_seconds_count"+labels], want, "%s: durations", labels)
		if after["http_request_duration_seconds_sum"+labels] <= 0 {
			t.Errorf("%s: the sum of durations is 0", labels)
		}
		bucket := func(le string) float64 {
			v, ok := after["http_request_duration_seconds_bucket"+strings.TrimSuffix(labels, "}")+`,le="`+le+`"}`]
			if !ok {
				t.Errorf("%s has no bucket %s", labels, le)
			}
			return v
		}
		last := 0.0
		for _, le := range []string{"0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1",
			"2.5",
			"5", "10", "+Inf"} {
			if v := bucket(le); v < last {
				t.Errorf("%s: bucket %s has %v, the one before %v", labels, le, v, last)
			} else {
				last = v
			}
		}
		testkit.Equal(t, last, want, "%s: the last bucket", labels)
	}
	series := 0
	for name := range after {
		if strings.HasPrefix(name, "http_requests_total") {
			series++
		}
	}
	testkit.Equal(t, series, 8, "series of requests")
	for name, want := range map[string]float64{
		"http_requests_rate_limited_total": 3, "db_pool_max_connections": 8, "db_pool_connections": 3,
		"db_pool_idle_connections": 2, "db_pool_in_use_connections": 1, "db_pool_waiting": 5,
		"db_pool_acquires_total": 100, "db_pool_waits_total": 4, "db_pool_wait_seconds_total": 1.5,
		"db_pool_shared_reads_total": 7,
	} {
		testkit.Equal(t, after[name], want, "%s", name)
	}
	if before["http_requests_rate_limited_total"] != 0 || before["go_goroutines"] < 1 ||
		before["process_start_time_seconds"] < 1_700_000_000 {
		t.Errorf("%v", before)
	}
	if _, ok := scrape(t, metrics.New("x", nil))["db_pool_connections"]; ok {
		t.Error("metrics of a pool without a pool")
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/debug/pprof/", nil))
	if w.Code != 200 || !strings.Contains(w.Body.String(), "goroutine") {
		t.Errorf("pprof: %d", w.Code)
	}
}

// New panics if two routes have the same pattern.
func TestCollidingRoutes(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("New did not panic")
		}
	}()
	newServer(t, func(c *server.Config) { c.Routes = append(c.Routes, c.Routes[0]) })
}
