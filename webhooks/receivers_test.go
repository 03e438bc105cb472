package webhooks_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/tests/testkit"
	"spoolwright/webhooks"
)

// raw starts a TCP server that calls serve for each connection, and returns its URL.
func raw(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Check(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				// A response before the request would be one that the client did not ask for.
				if _, err := c.Read(make([]byte, 1)); err == nil {
					serve(c)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// TestReceivers delivers an event to receivers that misbehave.
func TestReceivers(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *webhooks.Config) { c.Schedule = []time.Duration{time.Hour} })
	const timeout = 2 * time.Second
	slow := start(t, func(c *webhooks.Config) {
		c.Schedule, c.Timeout = []time.Duration{time.Hour}, timeout
	})
	// A try can also end before it has the status, if the computer is slow.
	slowBody := start(t, func(c *webhooks.Config) {
		c.Schedule, c.Timeout = slices.Repeat([]time.Duration{100 * time.Millisecond}, 1000), timeout
	})
	limited := map[string]*farm{"hangs": slow, "drips": slow, "drips the body": slowBody}
	secret := receive(t, nil) // must never get a request that follows a redirect
	status := func(code int, header ...string) string {
		return receive(t, func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			fmt.Fprint(w, strings.Repeat("x", 3000))
		}).URL
	}
	answers := func(text string) string {
		return receive(t, func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(text)) }).URL
	}
	endless := func(w http.ResponseWriter, r *http.Request) {
		for part := []byte(strings.Repeat("y", 1<<20)); ; {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}
	// drips writes the text, and then one byte at a time until the client closes the connection.
	drips := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			for _, err := c.Write([]byte(text)); err == nil; _, err = c.Write([]byte("z")) {
				time.Sleep(100 * time.Millisecond) // far more often than timeout
			}
		}
	}
	says := func(text string) func(net.Conn) { return func(c net.Conn) { c.Write([]byte(text)) } }
	failed := func(reason string) map[string]string { return map[string]string{"status": "pending", "error": reason} }
	plainAsTLS := strings.Replace(raw(t, says("HTTP/1.0 200 OK\r\n\r\n")), "http", "https", 1)
	foreign := strings.Replace(status(204), "127.0.0.1", "localhost", 1) // the certificate is for another name
	for name, r := range map[string]struct {
		url   string
		want  map[string]string
		pause time.Duration // until the next try; 0 means that there is none
	}{
		"success":  {status(200), map[string]string{"status": "delivered", "response": strings.Repeat("x", 1024)}, 0},
		"created":  {status(201), map[string]string{"status": "delivered", "response_status": "201"}, 0},
		"failure":  {status(500), map[string]string{"status": "pending", "response_status": "500"}, time.Hour},
		"redirect": {status(307, "Location", secret.URL), map[string]string{"response_status": "307"}, time.Hour},
		"found": {status(302, "Location", "http://127.0.0.1/"), map[string]string{"response_status": "302"},
			time.Hour},
		"gone":   {status(410), map[string]string{"status": "failed", "response_status": "410"}, 0},
		"busy":   {status(429, "Retry-After", "7200"), map[string]string{"response_status": "429"}, 2 * time.Hour},
		"sooner": {status(503, "Retry-After", "1"), map[string]string{"response_status": "503"}, time.Hour},
		"date": {status(503, "Retry-After", time.Now().Add(5*time.Hour).UTC().Format(http.TimeFormat)),
			map[string]string{"status": "pending"}, 5 * time.Hour},
		"never": {status(429, "Retry-After", "99999999999"), map[string]string{"status": "pending"}, 24 * time.Hour},
		"beyond 64 bits": {status(429, "Retry-After", "99999999999999999999"), map[string]string{"status": "pending"},
			24 * time.Hour},
		"negative": {status(429, "Retry-After", "-10000000000"), map[string]string{"status": "pending"}, time.Hour},
		"negative beyond 64 bits": {status(429, "Retry-After", "-99999999999999999999"),
			map[string]string{"status": "pending"}, time.Hour},
		"hangs": {raw(t, func(c net.Conn) { io.Copy(io.Discard, c) /* until the client closes the connection */ }),
			failed("no response in time"), time.Hour},
		"drips": {raw(t, drips("HTTP/1.1 200 OK\r\nX-Filler: ")), failed("no response in time"), time.Hour},
		"drips the body": {raw(t, drips("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")),
			map[string]string{"status": "delivered", "response_status": "200"}, 0},
		"switches protocols": {raw(t, func(c net.Conn) {
			c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"))
			io.Copy(io.Discard, c) // until the client closes the connection
		}), map[string]string{"status": "pending", "response_status": "101"}, time.Hour},
		"endless":      {receive(t, endless).URL, map[string]string{"response": strings.Repeat("y", 1024)}, 0},
		"closes":       {raw(t, func(net.Conn) {}), failed("the connection was closed before a response"), time.Hour},
		"garbage":      {raw(t, says("hello\r\n\r\n")), failed("the response is not valid HTTP"), time.Hour},
		"huge header":  {raw(t, hugeHeader), failed("the response is not valid HTTP"), time.Hour},
		"not TLS":      {plainAsTLS, failed("the TLS handshake failed"), time.Hour},
		"refused":      {"https://127.0.0.1:1", failed("the connection was refused"), time.Hour},
		"unknown":      {"https://unknown.invalid", failed("the host name could not be resolved"), time.Hour},
		"another name": {foreign, map[string]string{"status": "pending", "response_status": "null"}, time.Hour},
		"at the end of time": {status(429, "Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"),
			map[string]string{"status": "pending"}, 24 * time.Hour},
		"not UTF-8":  {answers("\xff\x00a\xc3"), map[string]string{"response": "a"}, 0},
		"with a NUL": {answers("Danke \x00 schön"), map[string]string{"response": "Danke  schön"}, 0},
		"cut in a letter": {answers("x" + strings.Repeat("ö", 1024)),
			map[string]string{"response": "x" + strings.Repeat("ö", 511)}, 0},
		"informational": {receive(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(103)
			w.WriteHeader(404)
		}).URL, map[string]string{"response_status": "404"}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := cmp.Or(limited[name], f)
			admin := f.Tenant(t).User(t, "admin")
			path := hooksPath + f.webhook(t, admin, r.url).ID()
			began := time.Now()
			delivery := path + "/deliveries/" + admin.Post(t, path+"/test", nil).Want(200).ID()
			want := maps.Clone(r.want)
			if f != slowBody {
				want["tries"] = "1"
			}
			a := eventually(t, admin, delivery, want)
			if next := a.Text("next_try_at"); r.pause == 0 && next != "null" {
				t.Errorf("the next try is at %s, want none", next)
			} else if r.pause > 0 {
				at, err := time.Parse(time.RFC3339, next)
				if pause := at.Sub(began); err != nil || pause < r.pause*9/10 || pause > r.pause*11/10+time.Minute {
					t.Errorf("the next try is at %s, %v after the first, want %v", next, pause, r.pause)
				}
			}
			if took, err := strconv.Atoi(a.Text("duration_ms")); limited[name] != nil && (err != nil || took > 30_000) {
				t.Errorf("the try took %d ms, %v, want hardly more than %v", took, err, timeout)
			}
			if name == "gone" {
				eventually(t, admin, path, map[string]string{"disabled": "true", "disabled_reason": "gone"})
				admin.Post(t, path+"/test", nil).WantError(409, "WEBHOOK_DISABLED")
				admin.Post(t, delivery+"/redeliver", nil).WantError(409, "WEBHOOK_DISABLED")
				admin.Patch(t, path, testkit.JSON{"disabled": false}).Want(200).Shows(map[string]string{
					"disabled": "false", "disabled_reason": "null", "failing_since": "null", "disabled_at": "null"})
				admin.Post(t, path+"/test", nil).Want(200)
			} else if admin.Get(t, path).Want(200); r.pause > 0 {
				if admin.Get(t, path).Text("failing_since") == "null" {
					t.Error("failing_since is not set")
				}
			}
		})
	}
	t.Cleanup(func() {
		if n := len(secret.requests()); n > 0 {
			t.Errorf("%d requests followed a redirect", n)
		}
	})
}

func hugeHeader(c net.Conn) {
	c.Write([]byte("HTTP/1.1 200 OK\r\n"))
	for range 1000 {
		if _, err := c.Write([]byte("X-Filler: " + strings.Repeat("a", 1000) + "\r\n")); err != nil {
			return
		}
	}
}

// TestRetries checks that a receiver that fails gets the event again, with the same id and a new timestamp, until it
// accepts it or the schedule ends.
func TestRetries(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	admin := f.Tenant(t).User(t, "admin")
	var failures atomic.Int64
	s := receive(t, func(w http.ResponseWriter, r *http.Request) {
		if failures.Add(-1) >= 0 {
			w.WriteHeader(500)
		}
	})
	hook := f.webhook(t, admin, s.URL)
	path := hooksPath + hook.ID()
	failures.Store(2)
	delivery := path + "/deliveries/" + admin.Post(t, path+"/test", nil).Want(200).ID()
	first := s.wait(t)
	if next := s.wait(t); next.id() != first.id() || next.at.Sub(first.at) < 90*time.Millisecond {
		t.Errorf("the second try has the id %s and comes after %v, the first has %s", next.id(), next.at.Sub(first.at),
			first.id())
	}
	if last := s.wait(t); last.id() != first.id() || last.verify(hook.Text("secret")) != nil {
		t.Errorf("the third try has the id %s, %v", last.id(), last.verify(hook.Text("secret")))
	}
	eventually(t, admin, delivery, map[string]string{"status": "delivered", "tries": "3", "next_try_at": "null"})
	eventually(t, admin, path, map[string]string{"failing_since": "null"})

	failures.Store(100)
	delivery = path + "/deliveries/" + admin.Post(t, path+"/test", nil).Want(200).ID()
	eventually(t, admin, delivery, map[string]string{"status": "failed", "tries": "3", "next_try_at": "null"})
	for range 3 {
		s.wait(t)
	}
	s.wantNone(t, 500*time.Millisecond)
	if since := admin.Get(t, path).Text("failing_since"); since == "null" {
		t.Error("failing_since is null after failures")
	}

	// Five days of failures.
	f.sql(t, admin, `update webhooks set failing_since = now() - interval '4 days 23 hours'`)
	admin.Post(t, delivery+"/redeliver", nil).Want(200)
	eventually(t, admin, delivery, map[string]string{"status": "failed", "tries": "3"})
	admin.Get(t, path).Want(200).Shows(map[string]string{"disabled": "false"})
	f.sql(t, admin, `update webhooks set failing_since = now() - interval '5 days 1 second'`)
	admin.Post(t, delivery+"/redeliver", nil).Want(200)
	eventually(t, admin, path, map[string]string{"disabled": "true", "disabled_reason": "failing"})
	eventually(t, admin, delivery, map[string]string{"status": "failed", "error": "the webhook is disabled"})
}

// A webhook that accepts one of two events does not count as failing, also if both outcomes are recorded together.
func TestFailureBesideSuccess(t *testing.T) {
	t.Parallel()
	f := startWithout(t, testkit.Database(t, db.Config{}), func(c *webhooks.Config) {
		c.Schedule = []time.Duration{time.Hour}
	})
	admin := f.Tenant(t).User(t, "admin")
	var requests atomic.Int64
	release := make(chan bool)
	defer close(release)
	s := receive(t, func(w http.ResponseWriter, r *http.Request) {
		switch requests.Add(1) {
		case 1:
			w.WriteHeader(500)
		case 2, 3, 4:
			<-release
		}
	})
	path := hooksPath + f.webhook(t, admin, s.URL).ID()
	for range 5 { // the last one is sent when the first one has failed
		admin.Post(t, path+"/test", nil).Want(200)
	}
	f.run(t, f.config)
	eventually(t, admin, path+"/deliveries?status=delivered", map[string]string{"total": "1"})
	admin.Get(t, path).Want(200).Shows(map[string]string{"failing_since": "null"})
}

// An event that is redelivered while its last try runs is sent again, although that try fails.
func TestRedeliveryDuringTry(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *webhooks.Config) { c.Schedule = []time.Duration{100 * time.Millisecond} })
	admin := f.Tenant(t).User(t, "admin")
	var tries atomic.Int64
	redelivered := make(chan bool)
	s := receive(t, func(w http.ResponseWriter, r *http.Request) {
		switch tries.Add(1) {
		case 1:
			w.WriteHeader(500)
		case 2:
			<-redelivered
			w.WriteHeader(500)
		}
	})
	path := hooksPath + f.webhook(t, admin, s.URL).ID()
	delivery := path + "/deliveries/" + admin.Post(t, path+"/test", nil).Want(200).ID()
	s.wait(t)
	s.wait(t)
	admin.Post(t, delivery+"/redeliver", nil).Want(200)
	close(redelivered)
	s.wait(t)
	eventually(t, admin, delivery, map[string]string{"status": "delivered", "tries": "1"})
}

// sql runs a statement in the client's tenant.
func (f *farm) sql(t *testing.T, c *testkit.Client, sql string, args ...any) *db.Stmt {
	t.Helper()
	stmt := db.SQL(sql, args...)
	testkit.Check(t, f.DB.Write(db.As(t.Context(), db.Actor{Tenant: c.Actor.Tenant}), stmt))
	return stmt
}

// A dialer connects with TLS only to addresses of the public internet, and to the allowed networks also without TLS.
func TestIsPublic(t *testing.T) {
	t.Parallel()
	networks := []netip.Prefix{netip.MustParsePrefix("192.168.1.0/24")}
	connects := func(address string, tls bool, allowed []netip.Prefix) bool {
		dialer := webhooks.NewDialer(webhooks.Config{AllowedNetworks: allowed}, tls)
		err := dialer.Control("tcp", net.JoinHostPort(address, "443"), nil)
		if err != nil && !errors.Is(err, webhooks.ErrAddress) {
			t.Errorf("%s: %v", address, err)
		}
		return err == nil
	}
	for want, addresses := range map[bool][]string{
		true: {"8.8.8.8", "1.1.1.1", "172.32.0.1", "100.63.255.255", "100.128.0.0", "2606:4700:4700::1111", "2a00:1450::1",
			"::ffff:8.8.8.8", "198.20.0.0"},
		false: {"0.0.0.0", "0.1.2.3", "10.1.2.3", "127.0.0.1", "127.255.255.255", "169.254.169.254", "172.16.0.1",
			"172.31.255.255", "192.168.0.1", "100.64.0.0", "100.100.100.200", "100.127.255.255", "168.63.129.16",
			"192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1",
			"224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1",
			"fd00:ec2::254", "fec0::1", "ff02::1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "2001::1",
			"2001:0:a9fe:a9fe::", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::", "3fff::1",
			"5f00::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
			"::ffff:0:127.0.0.1", "2606:4700::1%eth0", "", "localhost"},
	} {
		for _, address := range addresses {
			if connects(address, true, nil) != want || connects(address, false, nil) {
				t.Errorf("a connection to %s: want %v with TLS, and none without", address, want)
			}
		}
	}
	for address, want := range map[string]struct{ tls, plain bool }{
		"192.168.1.7": {true, true}, "::ffff:192.168.1.7": {true, true}, "192.168.2.7": {false, false},
		"8.8.8.8": {true, false},
	} {
		if connects(address, true, networks) != want.tls || connects(address, false, networks) != want.plain {
			t.Errorf("a connection to %s with allowed networks: want %v", address, want)
		}
	}
}

// The address of each connection counts, not the one that the name had before.
func TestAddressOfEachConnectionIsChecked(t *testing.T) {
	t.Parallel()
	s := receive(t, nil)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	var lookups atomic.Int64
	f := start(t, func(c *webhooks.Config) {
		c.AllowedNetworks = nil
		c.Schedule = []time.Duration{50 * time.Millisecond, time.Hour}
		c.Resolver = dns(t, func(name string) netip.Addr {
			if lookups.Add(1) <= 2 { // of the types A and AAAA
				return netip.MustParseAddr("192.0.2.1") // fails: it is for documentation
			}
			return netip.MustParseAddr("127.0.0.1")
		})
	})
	admin := f.Tenant(t).User(t, "admin")
	path := hooksPath + f.webhook(t, admin, "https://example.com:"+port).ID()
	delivery := path + "/deliveries/" + admin.Post(t, path+"/test", nil).Want(200).ID()
	eventually(t, admin, delivery, map[string]string{
		"tries": "2", "status": "pending", "error": "the host has an address that is not public"})
	s.wantNone(t, 100*time.Millisecond)
	if lookups.Load() < 3 {
		t.Errorf("the name was resolved %d times", lookups.Load())
	}
}

// dns returns a resolver whose answers to queries for IPv4 addresses come from the function.
func dns(t *testing.T, resolve func(name string) netip.Addr) *net.Resolver {
	t.Helper()
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	testkit.Check(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := l.ReadFrom(b)
			if err != nil {
				return
			}
			end := 12
			for end < n && b[end] != 0 {
				end += int(b[end]) + 1
			}
			question := b[12 : end+5]
			answer := append([]byte{b[0], b[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
			addr := resolve(string(question)).As4()
			if question[len(question)-3] == 1 { // type A
				answer[7] = 1
				answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				answer = append(answer, addr[:]...)
			}
			l.WriteTo(answer, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", l.LocalAddr().String())
	}}
}

// TestSlowReceivers checks that receivers that hang delay neither other tenants nor each other, and that a webhook has
// at most four requests at a time, also with two instances.
func TestSlowReceivers(t *testing.T) {
	t.Parallel()
	f := startWithout(t, testkit.Database(t, db.Config{MaxConns: 16}), nil)
	f.run(t, f.config)
	f.run(t, f.config)
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	var now, most atomic.Int64
	hanging := receive(t, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-held
	})
	t.Cleanup(release) // or the receiver cannot close
	slow := f.Tenant(t)
	admin := slow.User(t, "admin")
	path := hooksPath + f.webhook(t, admin, hanging.URL).ID()
	for range 20 {
		admin.Post(t, path+"/test", nil).Want(200)
	}
	for range 4 {
		hanging.wait(t)
	}
	fast := receive(t, nil)
	for _, c := range []*testkit.Client{admin, f.Tenant(t).User(t, "admin")} { // of the same and of another tenant
		other := hooksPath + f.webhook(t, c, fast.URL).ID()
		for range 5 {
			c.Post(t, other+"/test", nil).Want(200)
			fast.wait(t) // shorter than the tries that hang
		}
	}
	time.Sleep(300 * time.Millisecond) // no fifth request must begin
	release()
	eventually(t, admin, path+"/deliveries?status=delivered", map[string]string{"total": "20"})
	testkit.Equal(t, most.Load(), 4, "requests to a webhook at a time")
	testkit.Equal(t, len(hanging.requests()), 20, "requests of 20 events")
}

// TestHangingReceivers checks that the receivers of a tenant that hang neither keep the events of other tenants
// waiting, nor take the time of another receiver that needs long.
func TestHangingReceivers(t *testing.T) {
	t.Parallel()
	var log testkit.Log
	// With fewer active ones, a receiver of another tenant that needs a second counts as one that hangs, and the
	// dispatcher can end its request: the tenant with the most could have only one besides it.
	const active = 6
	f := start(t, func(c *webhooks.Config) {
		c.Active, c.Schedule = active, []time.Duration{time.Hour}
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	release := make(chan struct{})
	hanging := receive(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(release) })
	patient, many, other := f.Tenant(t).User(t, "admin"), f.Tenant(t).User(t, "admin"), f.Tenant(t).User(t, "admin")
	path := hooksPath + f.webhook(t, patient, hanging.URL).ID()
	delivery := path + "/deliveries/" + patient.Post(t, path+"/test", nil).Want(200).ID()
	hanging.wait(t)
	for range 10 {
		f.webhook(t, many, hanging.URL)
	}
	f.sql(t, many, `select emit_event(event_webhooks('order.received'), 'order.received', '{}')::text`)
	hanging.wait(t)

	fast := receive(t, nil)
	quick := hooksPath + f.webhook(t, other, fast.URL).ID()
	other.Post(t, quick+"/test", nil).Want(200)
	fast.wait(t)
	eventually(t, other, quick+"/deliveries?status=delivered", map[string]string{"total": "1"})
	patient.Get(t, delivery).Want(200).Shows(map[string]string{"status": "pending", "tries": "0"})
	n := len(hanging.requests())
	if n > active {
		t.Errorf("receivers that hang got %d requests, want at most %d", n, active)
	}
	warnings := strings.Count(log.String(), `level=WARN msg="too many receivers of webhooks hang`)
	if warnings > 1 || warnings == 0 && n == active { // the last of them had to end
		t.Errorf("%d warnings: %s", warnings, log.String())
	}
}

// Two instances share the work, and without failures each event arrives once.
func TestInstancesShareWork(t *testing.T) {
	t.Parallel()
	f := startWithout(t, testkit.Database(t, db.Config{MaxConns: 16}), nil)
	f.run(t, f.config)
	f.run(t, f.config)
	s := receive(t, nil)
	want := map[string]bool{}
	var mu sync.Mutex
	var wait sync.WaitGroup
	for range 5 {
		admin := f.Tenant(t).User(t, "admin")
		path := hooksPath + f.webhook(t, admin, s.URL).ID()
		wait.Go(func() {
			for range 40 {
				a, err := admin.Send("POST", path+"/test", nil)
				if err != nil || a.Status != 200 {
					t.Errorf("%v %+v", err, a)
					return
				}
				mu.Lock()
				want[testkit.NewResponse(t, a.Body).Text("event_id")] = true
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	for range len(want) {
		delete(want, s.wait(t).id())
	}
	if len(want) > 0 {
		t.Errorf("%d events did not arrive", len(want))
	}
	s.wantNone(t, 300*time.Millisecond)
}
