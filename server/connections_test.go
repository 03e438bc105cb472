package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// client is a connection that keeps alive.
type client struct {
	net.Conn
	r *bufio.Reader
}

// connect opens a connection from the address.
func connect(t *testing.T, from, to string) *client {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Skipf("cannot connect from %s: %v", from, err) // not all systems have more loopback addresses than one
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute)) // less than the server waits for a further request
	return &client{conn, bufio.NewReader(conn)}
}

// get sends a request and returns the status, or 0 if the connection is closed.
func (c *client) get(t *testing.T, path string) int {
	t.Helper()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", path)
	r, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return 0
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		t.Fatal(err)
	}
	return r.StatusCode
}

// wantClosed waits until the server closes the connection.
func (c *client) wantClosed(t *testing.T) {
	t.Helper()
	if b, err := c.r.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the connection is open: %q, %v", b, err)
	}
}

// A client address has at most a quarter of the connections, unless it is that of a trusted proxy.
func TestConnectionsOfAddress(t *testing.T) {
	t.Parallel()
	var log logbook
	s := newServer(t, func(c *server.Config) {
		c.MaxConnections, c.Log = 40, log.logger()
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.3/32")}
	})
	address, _ := serving(t, s)
	var open []*client
	for range 10 {
		open = append(open, connect(t, "127.0.0.2", address))
	}
	for i, c := range open {
		testkit.Equal(t, c.get(t, "/healthz"), 200, "connection %d of an address", i)
	}
	for range 2 {
		connect(t, "127.0.0.2", address).wantClosed(t)
	}
	for range 20 {
		testkit.Equal(t, connect(t, "127.0.0.3", address).get(t, "/healthz"), 200, "a connection of a trusted proxy")
	}
	if n := strings.Count(log.String(), "a client address has too many connections"); n != 1 {
		t.Errorf("%d lines about the bound in the log, want 1:\n%s", n, &log)
	}
	m := scrape(t, s.Metrics)
	testkit.Equal(t, m[`http_connections_rejected_total{bound="address"}`], 2,
		"connections that were counted as rejected")
	open[0].Close()
	for { // until the server has noticed
		if connect(t, "127.0.0.2", address).get(t, "/healthz") == 200 {
			break
		}
	}
}

// At the bound of all connections, new ones replace those that are idle for the longest time. Requests continue, and
// when no connection is idle, an address without connections still gets one.
func TestAllConnections(t *testing.T) {
	t.Parallel()
	begun, end := make(chan bool), make(chan bool)
	var log logbook
	s := newServer(t, func(c *server.Config) {
		c.MaxConnections, c.Log = 8, log.logger()
		c.Routes = append(c.Routes, server.Op("GET /api/v1/slow", server.Read, slow(begun, end), doc("slow")))
	})
	address, _ := serving(t, s)
	from := func(i int) string { return fmt.Sprintf("127.0.1.%d", 1+i) }
	wantIdle := func(n float64) { // the server may notice the end of a request later than the client
		t.Helper()
		testkit.Eventually(t, fmt.Sprint(n, " connections are idle"), func() bool {
			return scrape(t, s.Metrics)[`http_connections{state="idle"}`] == n
		})
	}
	var idle []*client
	for i := range 8 {
		idle = append(idle, connect(t, from(i), address))
		if got := idle[i].get(t, "/healthz"); got != 200 {
			t.Fatalf("connection %d: %d", i, got)
		}
		wantIdle(float64(1 + i))
	}
	if got := idle[0].get(t, "/healthz"); got != 200 { // now the second one has been idle for the longest time
		t.Fatal(got)
	}
	wantIdle(8)
	added := connect(t, from(8), address)
	testkit.Equal(t, added.get(t, "/healthz"), 200, "a new connection")
	idle[1].wantClosed(t)
	for i, c := range idle {
		if i != 1 && c.get(t, "/healthz") != 200 {
			t.Errorf("connection %d is closed", i)
		}
	}
	if m := scrape(t, s.Metrics); m["http_connections_replaced_total"] != 1 || m["http_connections_max"] != 8 {
		t.Errorf("the metrics are %v", m)
	}

	wantIdle(8)
	// The next ones have requests.
	var busy []*client
	for i := range 8 {
		c := connect(t, from(20+i), address)
		fmt.Fprint(c, "GET /api/v1/slow HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer viewer\r\n\r\n")
		<-begun
		busy = append(busy, c)
	}
	connect(t, from(20), address).wantClosed(t)
	testkit.Equal(t, connect(t, from(30), address).get(t, "/healthz"), 200,
		"an address without connections, while no connection is idle")
	close(end)
	for i, c := range busy {
		if r, err := http.ReadResponse(c.r, nil); err != nil || r.StatusCode != 204 {
			t.Errorf("request %d: %v %v", i, r, err)
		}
	}
	for _, line := range []string{"closing those that are idle", "none is idle: closing new ones"} {
		if n := strings.Count(log.String(), line); n != 1 {
			t.Errorf("%d lines with %q in the log, want 1:\n%s", n, line, &log)
		}
	}
}

// slow returns an endpoint that waits for end after it has sent to begun.
func slow(begun chan<- bool, end <-chan bool) server.Endpoint {
	return server.Handle(func(context.Context, *server.Request[struct{}]) (server.NoContent, error) {
		begun <- true
		<-end
		return nil, nil
	})
}

// The errors of the HTTP server are warnings, one a minute.
func TestServerErrorsAreLogged(t *testing.T) {
	t.Parallel()
	var log logbook
	s := newServer(t, func(c *server.Config) { c.Log = log.logger() })
	l := &failingListener{pipeListener: pipeListener{make(chan net.Conn), make(chan struct{})}, failures: 3}
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan error)
	go func() { end <- s.Serve(ctx, l) }()
	testkit.Eventually(t, "the log has all failures", func() bool {
		return strings.Count(log.String(), "too many open files") >= 3
	})
	cancel()
	testkit.Check(t, <-end)
	levels := map[any]int{}
	for _, line := range log.lines(t) {
		if text, _ := line["error"].(string); strings.Contains(text, "too many open files") {
			levels[line["level"]]++
		}
	}
	if levels["WARN"] != 1 || levels["DEBUG"] != 2 {
		t.Errorf("the levels of the lines are %v", levels)
	}
}

type failingListener struct {
	pipeListener
	failures int
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.failures--; l.failures >= 0 {
		return nil, temporary{}
	}
	return l.pipeListener.Accept()
}

// temporary is the error of a listener when the process has too many open files.
type temporary struct{}

func (temporary) Error() string   { return "accept: too many open files" }
func (temporary) Timeout() bool   { return false }
func (temporary) Temporary() bool { return true }

// A chunked request is the last one of its connection, so that what follows is not read as another request, whatever
// its Content-Length says.
func TestFraming(t *testing.T) {
	t.Parallel()
	address, _ := serving(t, newServer(t))
	const thing = `{"name":"a", "weight": 5}`
	const chunked = "Transfer-Encoding: chunked\r\n"
	chunks := func(body string) string {
		half := len(body) / 2
		return fmt.Sprintf("\r\n%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", half, body[:half], len(body)-half, body[half:])
	}
	for name, test := range map[string]struct {
		request string
		want    int
	}{
		"both":             {"content-LENGTH: 4\r\n" + chunked + chunks(thing), 200},
		"in another order": {chunked + "Content-Length: 4\r\n" + chunks(thing), 200},
		"chunked":          {chunked + chunks(thing), 200},
		"in another field": {"X-Content-Length: 1\r\n" + chunked + chunks(thing), 200},
		"in the body":      {chunked + chunks("{\r\nContent-Length: 40\r\n}"), 400},
	} {
		const head = "POST /api/v1/things HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer admin\r\n" +
			"Content-Type: application/json\r\n"
		for _, before := range []string{"", "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n",
			head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(thing), thing)} {
			for _, split := range []int{-1, 0, 1, len(head) + 5} {
				c := connect(t, "127.0.0.1", address)
				if before != "" {
					io.WriteString(c, before)
					r, err := http.ReadResponse(c.r, nil)
					if err != nil || r.StatusCode != 200 {
						t.Fatalf("%s: the request before: %v %v", name, r, err)
					}
					io.Copy(io.Discard, r.Body)
				}
				request := head + test.request + "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
				if split < 0 { // net/http ignores line breaks between a POST and the next request
					if !strings.HasPrefix(before, "POST") {
						continue
					}
					request, split = "\r\n\n"+request, 0
				}
				io.WriteString(c, request[:split])
				io.WriteString(c, request[split:])
				r, err := http.ReadResponse(c.r, nil)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				body, _ := io.ReadAll(r.Body)
				if r.StatusCode != test.want || !r.Close {
					t.Errorf("%s, after %q: %d %s, close is %v", name, before, r.StatusCode, body, r.Close)
				}
				c.wantClosed(t)
			}
		}
	}
}

// sizeQuery asks for a text with the number of letters.
type sizeQuery struct {
	Count value.Optional[int64] `query:"count" rule:"minimum=1,maximum=100000"`
}

// Responses of all sizes arrive whole, one after the other on one connection.
func TestLargeResponses(t *testing.T) {
	t.Parallel()
	text := func(_ context.Context, r *server.Request[sizeQuery]) (server.OK[Echo], error) {
		return server.Encode(Echo{strings.Repeat("x", int(r.In.Count.Or(0)))})
	}
	address, _ := serving(t, newServer(t, func(c *server.Config) {
		c.Routes = []server.Route{server.Op("GET /api/v1/texts", server.Read, server.Handle(text), doc("text"))}
	}))
	get := func(c *client, method, target string) (*http.Response, string) {
		t.Helper()
		fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer admin\r\n\r\n", method, target)
		r, err := http.ReadResponse(c.r, &http.Request{Method: method})
		testkit.Check(t, err)
		body, err := io.ReadAll(r.Body)
		testkit.Check(t, err)
		return r, string(body)
	}
	c := connect(t, "127.0.0.1", address)
	for _, size := range []int{1, 3000, 3500, 3900, 4000, 4050, 4080, 4096, 4097, 5000, 8000, 8192, 9000, 30000} {
		for range 2 {
			r, body := get(c, "GET", fmt.Sprintf("/api/v1/texts?count=%d", size))
			if want := `{"got":"` + strings.Repeat("x", size) + `"}` + "\n"; r.StatusCode != 200 || body != want {
				t.Errorf("%d: %d with %d bytes", size, r.StatusCode, len(body))
			}
		}
	}
	address, _ = serving(t, newServer(t))
	c = connect(t, "127.0.0.1", address)
	_, document := get(c, "GET", "/openapi.json")
	head, none := get(c, "HEAD", "/openapi.json")
	_, again := get(c, "GET", "/openapi.json")
	if none != "" || head.ContentLength != int64(len(document)) || again != document {
		t.Errorf("the document has %d and %d bytes, and %d of HEAD", len(document), len(again), head.ContentLength)
	}
}

// What is no HTTP request is answered by Go's server, as about.md says.
func TestNoHTTP(t *testing.T) {
	t.Parallel()
	address, _ := serving(t, newServer(t))
	for request, want := range map[string]int{
		"GET /healthz HTTP/1.1\r\nHost: h\r\nX: \x01\r\n\r\n":                               400,
		"GET /healthz HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n": 431,
		"POST /healthz HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n":              501,
		"GET /healthz HTTP/3.9\r\nHost: h\r\n\r\n":                                          505,
	} {
		c := connect(t, "127.0.0.1", address)
		go io.WriteString(c, request)
		r, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Errorf("%.60q: %v", request, err)
			continue
		}
		text, _ := io.ReadAll(r.Body)
		if r.StatusCode != want || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain") || !r.Close ||
			r.Header.Get("X-Request-Id") != "" {
			t.Errorf("%.60q: %d %v %s", request, r.StatusCode, r.Header, text)
		}
	}
}
