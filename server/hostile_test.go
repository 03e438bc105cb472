package server_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"spoolwright/server"

	"spoolwright/server/metrics"
	"spoolwright/tests/testkit"
)

// The users of a tenant share its limit, whatever their own limits leave.
func TestTenantRateLimit(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(c *server.Config) {
		c.PerMinute, c.TenantPerMinute = 4, 10
		c.Now = func() time.Time { return time.Unix(1_700_000_000, 0) }
	})
	status := func(token string) int {
		return send(t, s, "GET", "/api/v1/things", "", "Authorization", "Bearer "+token).StatusCode
	}
	for i := range 10 {
		if got := status(fmt.Sprintf("viewer.%d", i/4)); got != 200 {
			t.Fatalf("request %d: %d", i, got)
		}
	}
	testkit.Equal(t, status("viewer.3"), 429, "a fourth user of the tenant gets")
	r := send(t, s, "GET", "/api/v1/things", "", "Authorization", "Bearer viewer.4")
	wantError(t, r, 429, "RATE_LIMIT_EXCEEDED")
	testkit.Equal(t, r.Header.Get("Retry-After"), "6", "Retry-After: the tenant's bucket refills 10 tokens a minute")
}

// Pages and unknown paths outside the API are limited by address; the probes of load balancers are not.
func TestPageRateLimit(t *testing.T) {
	t.Parallel()
	now := func() time.Time { return time.Unix(1_700_000_000, 0) }
	paths := []string{"/openapi.json", "/docs", "/redoc", "/nowhere"}
	s := newServer(t, func(c *server.Config) { c.PerMinute, c.Now = 100, now })
	for i := range 600 {
		if r := send(t, s, "GET", paths[i%len(paths)], ""); r.StatusCode == 429 {
			t.Fatalf("request %d is answered 429", i)
		}
	}
	for _, path := range paths {
		wantError(t, send(t, s, "GET", path, ""), 429, "RATE_LIMIT_EXCEEDED")
	}
	for _, path := range []string{"/healthz", "/readyz", "/api/v1/things"} {
		testkit.Equal(t, send(t, s, "GET", path, "").StatusCode, 200, "%s", path)
	}
	off := newServer(t, func(c *server.Config) { c.Now = now })
	for i := range 700 {
		if r := send(t, off, "GET", "/openapi.json", ""); r.StatusCode != 200 {
			t.Fatalf("without limits, request %d is answered %d", i, r.StatusCode)
		}
	}
}

// No request makes a log line much longer than others, whatever the client sends.
func TestLogLinesAreBounded(t *testing.T) {
	t.Parallel()
	var log logbook
	s := newServer(t, func(c *server.Config) { c.Log = log.logger() })
	long := strings.Repeat("A", 30_000)
	for _, r := range []*http.Request{
		httptest.NewRequest(long, "/api/v1/things", nil),
		httptest.NewRequest(long, "/"+long, nil),
		httptest.NewRequest("GET", "/api/v1/things/"+long+"?"+long, strings.NewReader(long)),
	} {
		r.RemoteAddr = long
		for _, name := range []string{"X-Request-Id", "X-Forwarded-For", "Authorization", "Idempotency-Key",
			"Origin"} {
			r.Header.Set(name, long)
		}
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
	lines := log.lines(t)
	if len(lines) < 3 {
		t.Fatalf("%d lines", len(lines))
	}
	for line := range strings.Lines(log.String()) {
		if len(line) > 1000 {
			t.Errorf("a log line has %d bytes: %.200s", len(line), line)
		}
	}
	send(t, s, "GET", "/api/v1/panics", "")
	lines = log.lines(t)
	if text, _ := lines[len(lines)-1]["error"].(string); !strings.Contains(text, "server_test") || len(text) > 9000 {
		t.Errorf("the log line of a panic has an error of %d bytes: %.300s", len(text), text)
	}
}

// X-Forwarded-For from an address that is not trusted is reported once: the deployer forgot TRUSTED_PROXIES.
func TestWarningOfUntrustedProxy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		trusted string
		header  string
		want    int
	}{
		{"no trusted proxies", "", "198.51.100.7", 1},
		{"another trusted proxy", "10.0.0.0/8", "198.51.100.7", 1},
		{"the trusted proxy", "192.0.2.0/24", "198.51.100.7", 0},
		{"no header", "", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log logbook
			s := newServer(t, func(config *server.Config) {
				config.Log = log.logger()
				if c.trusted != "" {
					config.TrustedProxies = []netip.Prefix{netip.MustParsePrefix(c.trusted)}
				}
			})
			for range 3 {
				send(t, s, "GET", "/api/v1/things", "", "X-Forwarded-For", c.header)
			}
			testkit.Equal(t, strings.Count(log.String(), "TRUSTED_PROXIES"), c.want, "warnings")
		})
	}
}

// A page whose host name resolves to a loopback address must not read metrics and profiles.
func TestMetricsRejectOtherHosts(t *testing.T) {
	t.Parallel()
	handler := metrics.New("test", nil).Handler()
	for _, c := range []struct {
		local, host string
		want        int
	}{
		{"127.0.0.1:9090", "127.0.0.1:9090", 200},
		{"127.0.0.1:9090", "localhost:9090", 200},
		{"[::1]:9090", "[::1]:9090", 200},
		{"[::1]:9090", "[::1]", 200},
		{"127.0.0.1:9090", "evil.example:9090", 421},
		{"127.0.0.1:9090", "127.0.0.1.evil.example", 421},
		{"127.0.0.1:9090", "", 421},
		{"10.0.0.1:9090", "metrics.internal:9090", 200}, // a deployer who chose such an address may give it a name
	} {
		address, err := net.ResolveTCPAddr("tcp", c.local)
		testkit.Check(t, err)
		r := httptest.NewRequest("GET", "/metrics", nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(address)))
		r.Host = c.host
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		testkit.Equal(t, w.Code, c.want, "on %s for the host %q", c.local, c.host)
	}
}

// stuckWriter is a client that does not read its response until release is closed.
type stuckWriter struct {
	*httptest.ResponseRecorder
	writing chan<- struct{}
	release <-chan struct{}
}

func (w stuckWriter) Write(b []byte) (int, error) {
	w.writing <- struct{}{}
	<-w.release
	return w.ResponseRecorder.Write(b)
}

// Clients that request large responses and do not read them get 503 for further ones, so that they cannot occupy all
// memory. Other users still get large responses, and small responses are not limited.
func TestUnreadResponsesAreBounded(t *testing.T) {
	t.Parallel()
	size := 0
	large := server.Handle(func(context.Context, *server.Request[struct{}]) (server.OK[Echo], error) {
		return server.Encode(Echo{strings.Repeat("x", size)})
	})
	s := newServer(t, func(c *server.Config) {
		c.Routes = append(c.Routes, server.Op("GET /api/v1/large", server.Read, large, doc("large")),
			server.Op("POST /api/v1/large", server.Write, large, doc("writeLarge")))
	})
	const unread = 8
	size = 4 << 20
	writing, release, done := make(chan struct{}), make(chan struct{}), make(chan int)
	stuck := func(token string) {
		r := httptest.NewRequest("GET", "/api/v1/large", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := stuckWriter{httptest.NewRecorder(), writing, release}
		s.ServeHTTP(w, r)
		done <- w.Code
	}
	for range unread - 1 {
		go stuck("viewer.a")
		<-writing
	}
	status := func(method, path, token string) int {
		return send(t, s, method, path, "", "Authorization", "Bearer "+token).StatusCode
	}
	testkit.Equal(t, status("GET", "/api/v1/large", "viewer.a"), 503, "a further large response is answered")
	testkit.Equal(t, status("GET", "/api/v1/things", "viewer.a"), 200, "a small response is answered")
	testkit.Equal(t, status("POST", "/api/v1/large", "operator.a"), 200, "the response to a write is answered")
	testkit.Equal(t, status("GET", "/api/v1/large", "viewer.b"), 200, "another user's large response is answered")
	close(release)
	for range unread - 1 {
		testkit.Equal(t, <-done, 200, "a response that was read late has the status")
	}
	testkit.Equal(t, status("GET", "/api/v1/large", "viewer.a"), 200,
		"after all were read, a large response is answered")
}
