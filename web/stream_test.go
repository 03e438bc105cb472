package web_test

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/server"
	"spoolwright/tests/testkit"
)

// openStream opens a stream of changes in a connection of its own, which reads with little memory.
func openStream(t *testing.T, b *browser) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.base, "http://"))
	testkit.Check(t, err)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testkit.WaitTimeout))
	r, err := http.NewRequest("GET", b.base+"/changes", nil)
	testkit.Check(t, err)
	for _, c := range b.client.Jar.Cookies(r.URL) {
		r.AddCookie(c)
	}
	testkit.Check(t, r.Write(conn))
	return conn
}

// until reads a stream until it has the text, and returns what it has read, or "" if the stream ends before.
func until(conn net.Conn, text string) string {
	all, buffer := "", make([]byte, 512)
	for !strings.Contains(all, text) {
		n, err := conn.Read(buffer)
		all += string(buffer[:n])
		if err != nil {
			return ""
		}
	}
	return all
}

// A stream tells of the changes of its tenant, and ends with the session.
func TestStream(t *testing.T) {
	t.Parallel()
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	c := tenant.User(t, "operator")
	b, other := signIn(t, c), signIn(t, api.Operator(t))
	stream, elsewhere := openStream(t, b), openStream(t, other)
	for _, conn := range []net.Conn{stream, elsewhere} {
		if until(conn, ":\n\n") == "" {
			t.Fatal("the stream does not begin")
		}
	}
	spool := c.NewSpool(t, 500, nil)
	if until(stream, "data:\n\n") == "" {
		t.Fatal("the stream does not tell of a change")
	}
	// The watcher in the service sends states without a request. A lease changes nothing that a page shows.
	printer := c.Post(t, "/api/v1/printers", j{"name": "MK4"}).Want(201).ID()
	watcher, watched := tenant.Key(t, "watcher"), openStream(t, b)
	if until(watched, ":\n\n") == "" {
		t.Fatal("the stream does not begin")
	}
	watcher.Post(t, "/api/v1/printer-states/lease", j{"watcher": "w", "printer_ids": []string{printer}}).Want(200)
	watched.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	testkit.Equal(t, until(watched, "data:"), "", "a lease is a change")
	watched.SetReadDeadline(time.Now().Add(testkit.WaitTimeout))
	who := server.Caller{Actor: db.Actor{Tenant: c.Actor.Tenant}, Level: server.Write, Watcher: true}
	sent := api.Server.Call(httptest.NewRequest("POST", "/", nil), who, "POST", "/api/v1/printer-states", nil, []byte(
		`{"states":[{"printer_id":"`+printer+`","sequence":1,"state":"idle"}]}`))
	testkit.Equal(t, sent.Status, 200, "the states: %s", sent.Body)
	if until(watched, "data:\n\n") == "" {
		t.Fatal("the stream does not tell of a state")
	}
	if b.get(t, "/spools/"+spool).want(t, 200); newBrowser(t, api.URL).get(t, "/changes").status != 303 {
		t.Error("a stream without a session")
	}
	ended := openStream(t, b)
	if until(ended, ":\n\n") == "" {
		t.Fatal("the stream does not begin")
	}
	b.get(t, "/").submit(t, "/sign-out").want(t, 303)
	if text := until(ended, "0\r\n\r\n"); text == "" || strings.Contains(text, "data:") {
		t.Errorf("after the sign-out, the stream has %q", text)
	}
	elsewhere.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	testkit.Equal(t, until(elsewhere, "data:"), "", "a stream tells of the changes of another tenant")
}

// 500 open streams cost less than 50 MiB, with the clients' ends, and no connections to the database. A user has at
// most 50.
func TestManyStreams(t *testing.T) {
	api := newAPI(t, testkit.Options{})
	tenant := api.Tenant(t)
	var visitors []*browser
	for range 10 {
		visitors = append(visitors, signIn(t, tenant.User(t, "viewer")))
	}
	memory := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before := memory()
	var all []net.Conn
	for i := range 500 {
		all = append(all, openStream(t, visitors[i%10]))
		if until(all[i], ":\n\n") == "" {
			t.Fatalf("stream %d does not begin", i)
		}
	}
	used := int64(memory()) - int64(before)
	if t.Logf("500 streams: %d KiB", used>>10); used > 50<<20 {
		t.Errorf("500 streams take %d bytes", used)
	}
	testkit.Eventually(t, "the streams hold no connection to the database", func() bool {
		return api.DB.Stats().InUse == 0
	})
	response, err := http.ReadResponse(bufio.NewReader(openStream(t, visitors[0])), nil)
	if err != nil || response.StatusCode != 429 {
		t.Errorf("one more stream: %v %v", response, err)
	}
	admin := tenant.User(t, "admin")
	admin.Post(t, "/api/v1/vendors", j{"name": "x"}).Want(201)
	for i, conn := range all {
		if until(conn, "data:\n\n") == "" {
			t.Fatalf("stream %d gets no event", i)
		}
	}
}
