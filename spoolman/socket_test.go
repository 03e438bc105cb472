package spoolman_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/db"
	"spoolwright/tests/testkit"
)

// socket is the client's side of a WebSocket.
type socket struct {
	net.Conn
	r *bufio.Reader
}

// dial opens a socket and returns the status of the response; the socket is nil unless it is 101.
func (p *printer) dial(t testing.TB, path string, header ...string) (*socket, int) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	testkit.Check(t, err)
	t.Cleanup(func() { conn.Close() })
	authorization := "Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+p.key))
	if p.key == "" {
		authorization = "Bearer " + p.operator.Token
	}
	fmt.Fprintf(conn, "GET %s%s HTTP/1.1\r\nHost: farm.example\r\nConnection: keep-alive, Upgrade\r\n"+
		"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"+
		"Authorization: %s\r\n%s\r\n",
		surface, path, authorization, strings.Join(append(header, ""), "\r\n"))
	s := &socket{conn, bufio.NewReader(conn)}
	conn.SetReadDeadline(time.Now().Add(testkit.WaitTimeout))
	a, err := http.ReadResponse(s.r, nil)
	testkit.Check(t, err)
	if a.StatusCode != 101 {
		return nil, a.StatusCode
	}
	// The example of RFC 6455.
	testkit.Equal(t, a.Header.Get("Sec-WebSocket-Accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "Sec-WebSocket-Accept")
	return s, 101
}

// raw writes a masked frame with any first byte.
func (s *socket) raw(first byte, payload []byte) {
	f := []byte{first}
	if len(payload) < 126 {
		f = append(f, 0x80|byte(len(payload)))
	} else {
		f = binary.BigEndian.AppendUint16(append(f, 0x80|126), uint16(len(payload)))
	}
	mask := []byte{1, 2, 3, 4}
	f = append(f, mask...)
	for i, b := range payload {
		f = append(f, b^mask[i%4])
	}
	s.Write(f)
}

// next returns the opcode and the payload of the next frame.
func (s *socket) next() (byte, []byte, error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(s.r, head); err != nil {
		return 0, nil, err
	}
	n := int(head[1])
	switch n {
	case 126:
		size := make([]byte, 2)
		io.ReadFull(s.r, size)
		n = int(binary.BigEndian.Uint16(size))
	case 127:
		size := make([]byte, 8)
		io.ReadFull(s.r, size)
		n = int(binary.BigEndian.Uint64(size))
	}
	payload := make([]byte, n)
	_, err := io.ReadFull(s.r, payload)
	return head[0] & 15, payload, err
}

// afterPings answers pings, and returns the next other message. The service closes a socket whose client answers none.
func (s *socket) afterPings() (op byte, payload []byte, err error) {
	for {
		if op, payload, err = s.next(); err != nil || op != 9 {
			return op, payload, err
		}
		s.raw(0x8a, payload)
	}
}

// event returns the type and the spool of the next message.
func (s *socket) event(t *testing.T) string {
	t.Helper()
	op, payload, err := s.afterPings()
	if err != nil || op != 1 {
		t.Fatalf("opcode %d, %q, %v", op, payload, err)
	}
	var e struct {
		Type, Resource, Date string
		Payload              struct {
			ID        int
			Remaining json.Number `json:"remaining_weight"`
			Filament  struct{ ID int }
		}
	}
	if err := json.Unmarshal(payload, &e); err != nil || e.Resource != "spool" || e.Payload.Filament.ID == 0 {
		t.Fatalf("%s: %v", payload, err)
	}
	return fmt.Sprint(e.Type, " ", e.Payload.ID, " ", e.Payload.Remaining)
}

func (s *socket) wantEvents(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := s.event(t); got != w {
			t.Fatalf("the message is %q, want %q", got, w)
		}
	}
}

// Sockets get the changes of their tenant's spools, also those of other instances.
func TestSocketEvents(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "printer")
	first, second := p.add(t, nil), p.add(t, nil)
	all, _ := p.dial(t, "spool")
	one, _ := p.dial(t, "spool/2")
	root, _ := p.dial(t, "")
	foreign := newPrinter(t, start(t), "printer")
	none, _ := foreign.dial(t, "")
	// The handlers of the API do not know the sockets, so this is like a change by another instance.
	p.operator.Post(t, first+"/deduct", j{"weight_grams": 1}).Want(200)
	all.wantEvents(t, "updated 1 999")
	p.operator.Patch(t, second, j{"location": "x"}).Want(200)
	all.wantEvents(t, "updated 2 1000")
	p.want(t, "PUT", "spool/2/use", `{"use_weight": 5}`, 200)
	all.wantEvents(t, "updated 2 995")
	third := p.add(t, nil)
	all.wantEvents(t, "added 3 1000")
	p.operator.Delete(t, second).Want(204)
	all.wantEvents(t, "deleted 2 995")
	p.operator.Post(t, second+"/restore", nil).Want(200)
	all.wantEvents(t, "added 2 995")
	p.operator.Delete(t, third).Want(204)
	all.wantEvents(t, "deleted 3 1000")
	one.wantEvents(t, "updated 2 1000", "updated 2 995", "deleted 2 995", "added 2 995")
	root.wantEvents(t, "updated 1 999")
	none.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if op, payload, err := none.afterPings(); err == nil {
		t.Errorf("the socket of another tenant got %d %s", op, payload)
	}
}

// The surface sends the removal of a filament at once, and once. After the filament was restored, its next removal is
// sent too.
func TestSocketOfRestoredFilament(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "operator")
	s, _ := p.dial(t, "filament")
	want := func(event string) {
		t.Helper()
		op, payload, err := s.afterPings()
		var e struct {
			Type    string
			Payload struct{ Name string }
		}
		if err != nil || op != 1 || json.Unmarshal(payload, &e) != nil || e.Type+" "+e.Payload.Name != event {
			t.Fatalf("opcode %d, %s, %v, want %s", op, payload, err, event)
		}
	}
	filament := func(name string) j {
		return j{"name": name, "material_type": "PLA", "color": name, "diameter_mm": 1.75}
	}
	id := p.operator.Post(t, "/api/v1/filaments", filament("A")).Want(201).ID()
	path := "/api/v1/filaments/" + id
	want("added A")
	spool := p.operator.Post(t, "/api/v1/spools", j{"filament_id": id, "net_weight_grams": 1000}).Want(201).ID()
	p.operator.Delete(t, "/api/v1/spools/"+spool).Want(204) // a filament with a removed spool is hidden, not deleted
	for range 2 {
		p.want(t, "DELETE", "filament/1", "", 200)
		want("deleted A")
		p.operator.Post(t, path+"/restore", nil).Want(200)
		want("added A")
	}
	p.operator.Delete(t, path).Want(204)
	want("deleted A")
	p.operator.Post(t, "/api/v1/filaments", filament("B")).Want(201)
	want("added B")
}

// Watching a tenant costs as much as its spools change, not as many as it has. After too many changes at once, sockets
// are closed, so that clients read the lists again.
func TestSocketsOfManySpools(t *testing.T) {
	t.Parallel()
	cluster := testkit.Cluster(t, map[string]string{"autovacuum": "off"})
	d, err := db.Open(t.Context(), db.Config{URL: cluster.AppURL()})
	testkit.Check(t, err)
	t.Cleanup(d.Close)
	p := newPrinter(t, startOn(t, d), "printer")
	super, err := pgx.Connect(t.Context(), cluster.SuperURL())
	testkit.Check(t, err)
	defer super.Close(context.Background())
	fill := func(rows, ledger int) {
		t.Helper()
		if _, err := super.Exec(t.Context(), `
			with added as (
				insert into spools (tenant_id, id, number, material_type, color, diameter_mm, net_weight_grams,
					remaining_weight_grams)
				select $1, uuid_v7(), last + i, 'PLA', 'Black', 1.75, 1000, 1000
				from generate_series(1, $2::int) i, (select coalesce(max(number), 0) as last from spools) numbered
				returning id, number
			)
			insert into spool_usage (tenant_id, spool_id, kind, before_grams, after_grams)
			select $1, id, 'created', 0, 1000 from added order by number limit $3`,
			p.operator.Actor.Tenant, rows, ledger); err != nil {
			t.Fatal(err)
		}
	}
	blocks := func() (n int) {
		t.Helper()
		testkit.Check(t, super.QueryRow(t.Context(), `
			select sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::int
			from pg_statio_user_tables where relname in ('spools', 'spool_usage')`).Scan(&n))
		return n
	}
	path := p.add(t, nil)
	fill(10_000, 0)
	s, _ := p.dial(t, "")
	s.SetReadDeadline(time.Now().Add(testkit.WaitTimeout))
	p.operator.Post(t, path+"/deduct", j{"weight_grams": 1}).Want(200)
	s.wantEvents(t, "updated 1 999")
	// PostgreSQL's statistics are late: a connection writes those of what it has read when it ends.
	_, err = super.Exec(t.Context(), `select pg_stat_force_next_flush()`)
	testkit.Check(t, err)
	_, err = super.Exec(t.Context(), `select pg_terminate_backend(pid, 180000) from pg_stat_activity
		where backend_type = 'client backend' and pid <> pg_backend_pid()`)
	testkit.Check(t, err)
	begin, before, read := time.Now(), blocks(), 0
	testkit.Eventually(t, "polls read blocks for 3 seconds", func() bool { // nothing shows that a poll found no change
		read = blocks() - before
		return read > 0 && time.Since(begin) > 3*time.Second
	})
	perPoll := read / (int(time.Since(begin).Seconds()) + 1) // a poll begins each second
	t.Logf("%d blocks a poll", perPoll)
	if perPoll > 60 {
		t.Errorf("a poll reads %d blocks of a tenant with 10,000 spools, want at most 60", perPoll)
	}

	fill(1000, 1000) // most of them are sent before the socket reads
	for range 1000 {
		if got := s.event(t); !strings.HasPrefix(got, "added ") {
			t.Fatalf("the message is %q", got)
		}
	}
	left := 999
	// The sockets are closed 20 seconds after more than 10,000 changes.
	for _, changes := range []int{1001, 20_000}[:testkit.InCI(1, 2)] {
		fill(changes, changes)
		op, payload, err := s.afterPings()
		if err != nil || op != 8 || binary.BigEndian.Uint16(payload) != 1013 {
			t.Fatalf("after %d changes: opcode %d, %v, %v; want a close with 1013", changes, op, payload, err)
		}
		s, _ = p.dial(t, "")
		s.SetReadDeadline(time.Now().Add(testkit.WaitTimeout))
		p.want(t, "PUT", "spool/1/use", `{"use_weight": 1}`, 200)
		left--
		// The second report extends an entry that is older than the changes that a poll looks for.
		s.wantEvents(t, fmt.Sprint("updated 1 ", left))
	}
	// The creation of these spools is older than that, too.
	old := func(number string) string {
		return spools + "/" + p.operator.Get(t, spools+"?number="+number).Want(200).Text("items.0.id")
	}
	s.SetReadDeadline(time.Now().Add(testkit.WaitTimeout))
	p.operator.Patch(t, old("5"), j{"location": "x"}).Want(200)
	s.wantEvents(t, "updated 5 1000")
	p.operator.Delete(t, old("6")).Want(204)
	s.wantEvents(t, "deleted 6 1000")
}

// While the requests of one tenant have all its connections, so that its polls wait, sockets of other tenants get
// their messages in time.
func TestSocketsBesideBusyTenant(t *testing.T) {
	t.Parallel()
	api := startOn(t, testkit.Database(t, db.Config{MaxConns: 8}))
	// tenant returns a tenant with a socket, and a function that changes a spool of it and waits for the message.
	tenant := func() (client *testkit.Client, change func()) {
		tenant := api.Tenant(t)
		p := &printer{api.URL, keyOf(t, tenant, "printer"), tenant.User(t, "operator")}
		path := p.add(t, nil)
		s, _ := p.dial(t, "")
		left := 1000
		return p.operator, func() {
			t.Helper()
			p.operator.Post(t, path+"/deduct", j{"weight_grams": 1}).Want(200)
			left--
			s.wantEvents(t, fmt.Sprint("updated 1 ", left))
		}
	}
	_, change := tenant()
	busy, changeBusy := tenant()
	for begin := time.Now(); time.Since(begin) < testkit.WaitTimeout; { // a slow machine may delay some attempts
		lock := busy.Hold(t, `select pg_advisory_xact_lock(1)`)
		var reads sync.WaitGroup
		var ended atomic.Int64
		for range 8 { // each ends after lock_timeout, 5 seconds
			reads.Go(func() {
				api.DB.Read(db.As(t.Context(), db.Actor{Tenant: busy.Actor.Tenant}),
					db.SQL(`select pg_advisory_xact_lock_shared(1)::text`))
				ended.Add(1)
			})
		}
		for range 3 { // by the second message, watch has visited the busy tenant
			change()
		}
		waited := ended.Load() > 0
		lock.Commit()
		reads.Wait()
		if !waited {
			return
		}
		// The service waits only for polls of tenants whose last poll was quick, as that of the second change is.
		changeBusy()
		changeBusy()
	}
	t.Error("in each attempt, messages waited for the poll of another tenant")
}

// The path of a socket names a spool that exists, or the response is an error before the connection is a socket.
func TestSocketOfSpool(t *testing.T) {
	t.Parallel()
	api := start(t)
	p := newPrinter(t, api, "printer")
	p.add(t, nil)
	hidden := p.add(t, nil)
	p.operator.Delete(t, hidden).Want(204)
	other := newPrinter(t, api, "printer")
	for path, want := range map[string]int{
		"spool/1": 101, "spool/1/": 101, "spool/2": 404, "spool/3": 404, "spool/0": 404, "spool/-1": 404,
		"spool/abc": 422, "spool/1.0": 422, "spool/2147483648": 422, "spool/%31%32%00": 422,
	} {
		if _, got := p.dial(t, path); got != want {
			t.Errorf("a socket for %s: %d, want %d", path, got, want)
		}
	}
	if _, got := other.dial(t, "spool/1"); got != 404 {
		t.Errorf("a socket for another tenant's spool: %d, want 404", got)
	}
}

// The server answers messages and pings, and closes sockets that violate the protocol.
func TestSocketProtocol(t *testing.T) {
	t.Parallel()
	p := newPrinter(t, start(t), "viewer")
	s, _ := p.dial(t, "")
	for name, test := range map[string]struct {
		send func(*socket)
		op   byte
		want string
	}{
		"text": {func(s *socket) { s.raw(0x81, []byte("hello")) }, 1, `{"status": "healthy"}`},
		"ping": {func(s *socket) { s.raw(0x89, []byte("p")) }, 10, "p"},
		"fragmented": {func(s *socket) { s.raw(0x01, []byte("a")); s.raw(0x89, nil); s.raw(0x80, []byte("b")) }, 10,
			""},
	} {
		test.send(s)
		if op, payload, err := s.next(); err != nil || op != test.op || string(payload) != test.want {
			t.Errorf("%s: opcode %d, %q, %v", name, op, payload, err)
		}
		if name == "fragmented" {
			if op, payload, err := s.next(); err != nil || op != 1 || len(payload) == 0 {
				t.Errorf("%s: opcode %d, %q, %v", name, op, payload, err)
			}
		}
	}
	for name, test := range map[string]struct {
		send func(*socket)
		code uint16
	}{
		"close":              {func(s *socket) { s.raw(0x88, []byte{0x03, 0xe8}) }, 1000},
		"close without code": {func(s *socket) { s.raw(0x88, nil) }, 0},
		"too large":          {func(s *socket) { s.raw(0x81, make([]byte, 5000)) }, 1009},
		"large in fragments": {func(s *socket) { s.raw(0x01, make([]byte, 3000)); s.raw(0x80, make([]byte, 3000)) },
			1009},
		"huge length": {func(s *socket) {
			s.Write(append([]byte{0x81, 0xff, 127, 255, 255, 255, 255, 255, 255, 255}, make([]byte, 5000)...))
		}, 1009},
		"length with the first bit": {func(s *socket) {
			s.Write([]byte{0x81, 0xff, 255, 255, 255, 255, 255, 255, 255, 255})
		}, 1002},
		"not masked":        {func(s *socket) { s.Write([]byte{0x81, 1, 'x'}) }, 1002},
		"reserved bit":      {func(s *socket) { s.raw(0xc1, nil) }, 1002},
		"unknown opcode":    {func(s *socket) { s.raw(0x83, nil) }, 1002},
		"large ping":        {func(s *socket) { s.raw(0x89, make([]byte, 126)) }, 1002},
		"ping in fragments": {func(s *socket) { s.raw(0x09, nil) }, 1002},
		"no first fragment": {func(s *socket) { s.raw(0x80, nil) }, 1002},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the server waits for the close frame of the client, which this one does not send
			s, _ := p.dial(t, "spool")
			test.send(s)
			op, payload, err := s.next()
			code := uint16(0)
			if len(payload) >= 2 { // the reason follows
				code = binary.BigEndian.Uint16(payload)
			}
			if err != nil || op != 8 || code != test.code {
				t.Errorf("opcode %d, %v, %v; want a close with %d", op, payload, err, test.code)
			}
			if _, _, err := s.next(); err != io.EOF && !strings.Contains(fmt.Sprint(err), "reset") {
				t.Errorf("the connection is open: %v", err)
			}
		})
	}
	if _, status := p.dial(t, "", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="); status != 400 {
		t.Errorf("a handshake with two keys: %d", status)
	}
	if _, status := (&printer{url: p.url, key: "swk_x"}).dial(t, ""); status != 401 {
		t.Errorf("a socket with an invalid key: %d", status)
	}
	for _, origin := range []string{"https://evil.example", "https://evilfarm.example",
		"https://farm.example.evil.example"} {
		if _, status := p.dial(t, "", "Origin: "+origin); status != 403 {
			t.Errorf("a socket of the origin %s: %d", origin, status)
		}
	}
	if _, status := p.dial(t, "", "Origin: https://farm.example"); status != 101 {
		t.Errorf("a socket of the same origin: %d", status)
	}
	if _, status := p.dial(t, "location"); status == 101 {
		t.Error("a socket for locations")
	}
}

// A socket that never reads is closed, and delays neither the other sockets nor the requests.
func TestSocketThatNeverReads(t *testing.T) {
	t.Parallel()
	api := start(t)
	p := newPrinter(t, api, "printer")
	p.add(t, nil)
	slow, _ := p.dial(t, "")
	slow.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	go func() { // each ping makes the server write an answer
		ping := append([]byte{0x89, 0x80 | 125, 0, 0, 0, 0}, make([]byte, 125)...)
		for err := error(nil); err == nil; {
			_, err = slow.Write(bytes.Repeat(ping, 20))
		}
	}()
	testkit.Eventually(t, "the server closes a socket that never reads", func() bool {
		w := httptest.NewRecorder()
		api.Server.Metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return strings.Contains(w.Body.String(), `http_connections{state="websocket"} 0`)
	})
	fast, _ := p.dial(t, "")
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 1}`, 200)
	fast.wantEvents(t, "updated 1 999")
}

// A thousand sockets get a message. A key can have 100.
func TestManySockets(t *testing.T) {
	t.Parallel()
	api := start(t)
	tenant := api.Tenant(t)
	p := &printer{url: api.URL, operator: tenant.User(t, "operator")}
	path := p.add(t, nil)
	var readers sync.WaitGroup // answer pings from the start: to dial all sockets may take long
	t.Cleanup(readers.Wait)
	sockets := 0
	for range 10 {
		key := &printer{url: api.URL, key: keyOf(t, tenant, "printer")}
		var last *socket
		for n := range 100 {
			s, status := key.dial(t, "")
			if status != 101 {
				t.Fatalf("socket %d: status %d", sockets+n, status)
			}
			if last = s; n == 99 {
				break
			}
			readers.Go(func() {
				op, payload, err := s.afterPings()
				if err != nil || op != 1 || !bytes.Contains(payload, []byte(`"updated"`)) {
					t.Errorf("opcode %d, %q, %v", op, payload, err)
				}
			})
		}
		if _, status := key.dial(t, ""); status != 429 {
			t.Errorf("one socket too many: status %d", status)
		}
		last.Close()
		sockets += 99
	}
	begin := time.Now()
	p.operator.Post(t, path+"/deduct", testkit.JSON{"weight_grams": 1}).Want(200)
	readers.Wait()
	t.Logf("%d sockets in %v, %d goroutines", sockets, time.Since(begin), runtime.NumGoroutine())
}

// Large messages are sent to many sockets at a bounded rate, so that requests get processor time meanwhile. Small
// ones, also of other tenants, do not wait for them.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	api := start(t)
	tenant := api.Tenant(t)
	p := &printer{url: api.URL, operator: tenant.User(t, "operator"), key: keyOf(t, tenant, "printer")}
	p.want(t, "POST", "filament", `{"density": 1.24, "diameter": 1.75}`, 200)
	p.want(t, "POST", "spool", `{"filament_id": 1}`, 200)
	text := strings.Repeat("x", 48_000)
	for _, path := range []string{"spool/1", "filament/1"} { // both are in the message
		for _, field := range []string{"a", "b"} {
			p.want(t, "POST", "field/"+strings.Trim(path, "/1")+"/"+field, `{"name": "x", "field_type": "text"}`, 200)
			p.want(t, "PATCH", path, `{"extra": {"`+field+`": "\"`+text+`\""}}`, 200)
		}
	}
	var bytes atomic.Int64
	var readers sync.WaitGroup // answer pings from the start: to dial all sockets may take long
	t.Cleanup(readers.Wait)
	for n := range 4 {
		key := &printer{url: api.URL, key: keyOf(t, tenant, "printer")}
		for i := range 100 {
			s, status := key.dial(t, "")
			if status != 101 {
				t.Fatalf("socket %d: status %d", 100*n+i, status)
			}
			readers.Go(func() {
				op, payload, err := s.afterPings()
				if err != nil || op != 1 || !strings.Contains(string(payload), `"updated"`) {
					t.Errorf("opcode %d, %.100q, %v", op, payload, err)
				}
				bytes.Add(int64(len(payload)))
			})
		}
	}
	begin := time.Now()
	p.want(t, "PUT", "spool/1/use", `{"use_weight": 1}`, 200)
	other := newPrinter(t, api, "printer")
	other.add(t, nil)
	small, _ := other.dial(t, "")
	other.want(t, "PUT", "spool/1/use", `{"use_weight": 1}`, 200)
	small.wantEvents(t, "updated 1 999")
	readers.Wait()
	took := time.Since(begin)
	if most := 128<<20*took.Seconds() + 1<<20; float64(bytes.Load()) > most || bytes.Load() < 400*192_000 {
		t.Errorf("%d bytes were sent in %v, want at most %.0f", bytes.Load(), took, most)
	}
	t.Logf("%d bytes in %v", bytes.Load(), took)
}

// The sockets of a revoked key are closed, and all sockets when the service stops.
func TestSocketsEnd(t *testing.T) {
	t.Parallel()
	api := start(t)
	tenant := api.Tenant(t)
	admin := tenant.User(t, "admin")
	created := admin.Post(t, "/api/v1/api-keys", j{"name": "x", "role": "printer"}).Want(201)
	p := &printer{url: api.URL, key: created.Text("key")}
	s, _ := p.dial(t, "")
	other := &printer{url: api.URL, key: keyOf(t, tenant, "printer")}
	remaining, _ := other.dial(t, "")
	admin.Delete(t, "/api/v1/api-keys/"+created.ID()).Want(204)
	if _, status := p.dial(t, ""); status != 401 {
		t.Errorf("a new socket of a revoked key: %d", status)
	}
	s.wantClose(t)
	for _, f := range api.Server.Surfaces {
		f.Close()
	}
	op, payload, err := remaining.afterPings()
	if err != nil || op != 8 || binary.BigEndian.Uint16(payload) != 1001 {
		t.Errorf("opcode %d, %v, %v; want a close with 1001", op, payload, err)
	}
	if _, status := other.dial(t, ""); status == 101 {
		t.Error("a new socket after the stop")
	}
}

// wantClose fails the test unless the next message closes the socket with the code 1008.
func (s *socket) wantClose(t *testing.T) {
	t.Helper()
	op, payload, err := s.afterPings()
	if err != nil || op != 8 || binary.BigEndian.Uint16(payload) != 1008 {
		t.Errorf("opcode %d, %s, %v; want a close with 1008", op, payload, err)
	}
}

// A caller whose access has ended gets no message about a later change, whatever has ended it. Others do.
func TestSocketsAfterAccess(t *testing.T) {
	t.Parallel()
	type ending func(t *testing.T, admin *testkit.Client, user, key string)
	for name, end := range map[string]ending{
		"disabled": func(t *testing.T, admin *testkit.Client, user, _ string) {
			admin.Patch(t, user, j{"disabled": true}).Want(200)
		},
		"other role": func(t *testing.T, admin *testkit.Client, user, _ string) {
			admin.Patch(t, user, j{"role": "viewer"}).Want(200)
		},
		"second factor": func(t *testing.T, admin *testkit.Client, _, _ string) {
			// Through the database, because an admin who demands a second factor needs one.
			testkit.Check(t, admin.API.DB.Write(db.As(t.Context(), db.Actor{Tenant: admin.Actor.Tenant}),
				db.SQL(`update tenants set second_factor = 'all'`)))
		},
		"revoked": func(t *testing.T, admin *testkit.Client, _, key string) { admin.Delete(t, key).Want(204) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := start(t)
			tenant := api.Tenant(t)
			admin, operator := tenant.User(t, "admin"), tenant.User(t, "operator")
			other := &printer{api.URL, keyOf(t, tenant, "operator"), operator}
			created := admin.Post(t, "/api/v1/api-keys", j{"name": "x", "role": "printer"}).Want(201)
			p := &printer{url: api.URL, operator: operator}
			if name == "revoked" {
				p.key = created.Text("key")
			}
			other.add(t, nil)
			ended, _ := p.dial(t, "spool")
			others, _ := other.dial(t, "spool")
			end(t, admin, "/api/v1/users/"+operator.Actor.User, "/api/v1/api-keys/"+created.ID())
			other.want(t, "PUT", "spool/1/use", `{"use_weight": 5}`, 200)
			others.wantEvents(t, "updated 1 995")
			ended.wantClose(t)
		})
	}
}

// Settings and removed filaments are sent without a poll, but only to clients that may read.
func TestSocketsAfterAccessWithoutPoll(t *testing.T) {
	t.Parallel()
	for _, topic := range []string{"setting", "filament"} {
		t.Run(topic, func(t *testing.T) {
			t.Parallel()
			p := newPrinter(t, start(t), "operator")
			p.operator.Post(t, "/api/v1/filaments", j{"material_type": "PLA", "color": "Red", "diameter_mm": 1.75}).Want(201)
			ended, _ := (&printer{url: p.url, operator: p.operator}).dial(t, topic)
			others, _ := p.dial(t, topic)
			testkit.Check(t, p.operator.API.DB.Write(db.As(t.Context(), db.Actor{Tenant: p.operator.Actor.Tenant}),
				db.SQL(`update users set disabled_at = now() where id = $1`, p.operator.Actor.User)))
			if topic == "filament" {
				p.want(t, "DELETE", "filament/1", "", 200)
			} else {
				r, _ := http.NewRequest("POST", p.url+surface+"setting/currency", strings.NewReader(`"\"SEK\""`))
				r.SetBasicAuth("x", p.key)
				r.Header.Set("Content-Type", "application/json")
				a, err := http.DefaultClient.Do(r)
				testkit.Check(t, err)
				a.Body.Close()
			}
			ended.wantClose(t)
			if op, payload, err := others.afterPings(); err != nil || op != 1 {
				t.Errorf("another socket: opcode %d, %s, %v", op, payload, err)
			}
		})
	}
}
