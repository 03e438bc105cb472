package blackbox_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"spoolwright/db"
	"spoolwright/tests/testkit"
)

// faultProxy is a proxy for PostgreSQL's protocol. It closes connections at points where the client cannot know
// whether its transaction was committed.
type faultProxy struct {
	listener net.Listener
	to       string // PostgreSQL's socket

	mu   sync.Mutex
	plan []breakPoint // the next messages that may break a connection, in this order
	seen []byte       // the messages so far that could break one
}

// breakPoint is a message from the client at which the connection may break: 'Q' is COMMIT, 'S' is the end of a batch
// that executes statements. A batch without BEGIN is a transaction.
type breakPoint struct {
	at   byte
	when breakTime
}

type breakTime int

const (
	before breakTime = iota // PostgreSQL does not receive the message or the batch
	after                   // PostgreSQL executes it, but its response is lost
	never
)

// newFaultProxy starts a proxy and returns the URL of PostgreSQL through it.
func newFaultProxy(t *testing.T) (*faultProxy, string) {
	t.Helper()
	u, err := url.Parse(testkit.Private().AppURL())
	check(t, err)
	query := u.Query()
	socket := "/.s.PGSQL." + query.Get("port")
	dir := tempDir(t)
	c := &faultProxy{to: query.Get("host") + socket}
	c.listener, err = net.Listen("unix", dir+socket)
	check(t, err)
	t.Cleanup(func() { c.listener.Close() })
	go func() {
		for {
			conn, err := c.listener.Accept()
			if err != nil {
				return
			}
			go c.serve(conn)
		}
	}()
	query.Set("host", dir)
	u.RawQuery = query.Encode()
	return c, u.String()
}

// breakAt sets the plan for the next messages.
func (c *faultProxy) breakAt(plan ...breakPoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plan = plan
}

// next records a message and returns whether and when it breaks the connection.
func (c *faultProxy) next(at byte) breakTime {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, at)
	if len(c.plan) == 0 || c.plan[0].at != at {
		return never
	}
	when := c.plan[0].when
	c.plan = c.plan[1:]
	return when
}

// record returns the messages that could break a connection while fn runs.
func (c *faultProxy) record(fn func()) []byte {
	c.mu.Lock()
	c.seen = nil
	c.mu.Unlock()
	fn()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

// readMessage reads one message of the protocol. The first message of a client has no type.
func readMessage(from io.Reader, typed bool) (whole []byte, err error) {
	head := make([]byte, 4, 5)
	if typed {
		head = head[:5]
	}
	if _, err = io.ReadFull(from, head); err != nil {
		return nil, err
	}
	rest := make([]byte, binary.BigEndian.Uint32(head[len(head)-4:])-4)
	_, err = io.ReadFull(from, rest)
	return append(head, rest...), err
}

// serve forwards a connection until it breaks or a side closes it.
func (c *faultProxy) serve(client net.Conn) {
	defer client.Close()
	postgres, err := net.Dial("unix", c.to)
	if err != nil {
		return
	}
	defer postgres.Close()
	var muted atomic.Bool // responses are no longer forwarded
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer client.Close()
		for {
			m, err := readMessage(postgres, true)
			if err != nil || muted.Load() && m[0] == 'Z' {
				return
			}
			if !muted.Load() {
				client.Write(m)
			}
		}
	}()
	executed, setup := false, false
	var batch []byte // the messages before 'S'; PostgreSQL would execute a COMMIT among them without it
	for typed := false; ; typed = true {
		m, err := readMessage(client, typed)
		if err != nil {
			return
		}
		executed = executed || typed && m[0] == 'E' // a batch without Execute only prepares statements
		setup = setup || typed && m[0] == 'P' && bytes.Contains(m, []byte("pg_backend_pid()"))
		if setup && executed && m[0] == 'S' { // a new connection applies the settings of its session
			setup, executed = false, false
		} else if typed && (m[0] == 'S' && executed || m[0] == 'Q' && string(m[5:]) == "commit\x00") {
			executed = false
			switch c.next(m[0]) {
			case before:
				return
			case after:
				muted.Store(true)
				postgres.Write(append(batch, m...))
				<-done
				return
			}
		}
		batch = append(batch, m...)
		if !typed || !strings.ContainsRune("PBDE", rune(m[0])) {
			postgres.Write(batch)
			batch = nil
		}
	}
}

// TestUnknownCommit breaks the database connection at the end of a transaction, for every operation that accepts a
// key. Without a key the response is a 503. With a key the service repeats the transaction, or the client the
// request, and the effect is that of one request.
func TestUnknownCommit(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	writes := func(op *operation) bool {
		return acceptsKey(op) && !strings.HasSuffix(op.Path(), "/check")
	}
	w.forSome(t, writes, func(t *testing.T, op *operation) {
		t.Parallel()
		conn := connectSuper(t)
		proxy, url := newFaultProxy(t)
		d, err := db.Open(t.Context(), db.Config{URL: url, MaxConns: 1})
		check(t, err)
		defer d.Close()
		proxied := testkit.New(t, testkit.Options{DB: d}, testkit.Features...)
		start := func() (f *fixture, path string, body map[string]any, effect func() string) {
			f, path, body = w.newRequest(t, op)
			rows := f.countRows(t, conn)
			return f, path, body, func() string { return addedRows(rows, f.countRows(t, conn)) }
		}
		viaProxy := func(c *testkit.Client) *testkit.Client {
			copied := *c
			copied.API = proxied
			return &copied
		}
		wantUnavailable := func(a *testkit.Response) {
			t.Helper()
			a.WantError(503, "UNAVAILABLE")
			if a.Header.Get("Retry-After") == "" || isReplay(a) {
				t.Errorf("the 503 has the headers %v, want Retry-After and no Idempotency-Replayed", a.Header)
			}
		}

		f, path, body, effect := start()
		var plain *testkit.Response
		messages := proxy.record(func() { plain = f.do(t, viaProxy(f.admin), op, path, body) })
		if plain.Status >= 300 || len(messages) == 0 {
			t.Fatalf("%s: %d %s", plain.What, plain.Status, plain.Body)
		}
		want := effect()

		// Without a key: the connection breaks at the last message, which commits.
		f, path, body, effect = start()
		for _, when := range []breakTime{before, after} {
			var plan []breakPoint
			for _, m := range messages {
				plan = append(plan, breakPoint{m, never})
			}
			plan[len(plan)-1].when = when
			proxy.breakAt(plan...)
			wantUnavailable(f.do(t, viaProxy(f.admin), op, path, body))
			if got := effect(); when == before && got != "" || when == after && got != want {
				t.Errorf("the connection broke %s the commit, and the effect is %q; a whole request has %q",
					[]string{"before", "after"}[when], got, want)
			}
		}

		if slices.Index(w.operations, op)%testkit.InCI(8, 1) != 0 {
			return
		}
		// With a key: the connection breaks four times, and the client gets one success.
		f, path, body, effect = start()
		c := withKey(viaProxy(f.admin), "key")
		proxy.breakAt(breakPoint{'S', before}, breakPoint{'S', after}, breakPoint{'Q', before}, breakPoint{'Q', after})
		first := f.do(t, c, op, path, body)
		if first.Status >= 300 {
			t.Errorf("%s: %d %s", first.What, first.Status, first.Body)
		}
		testkit.Equal(t, effect(), want, "the request added")

		// The connection breaks until the service gives up. Then it works, and the client gets the replay.
		proxy.breakAt(slices.Repeat([]breakPoint{{'Q', after}}, 100)...)
		wantUnavailable(f.do(t, c, op, path, body))
		proxy.breakAt()
		again := f.do(t, c, op, path, body)
		same := again.Status == first.Status && bytes.Equal(again.Body, first.Body)
		if !isReplay(again) || !same || again.Header.Get("Location") != first.Header.Get("Location") {
			t.Errorf("with a working connection: %d %v %s, want a replay of %s",
				again.Status, again.Header, again.Body, first.Body)
		}
		if s := d.Stats(); s.InUse != 0 || s.Total > 1 {
			t.Errorf("the pool has %+v, want at most one connection and none in use", s)
		}
	})
}
