package blackbox_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/db/local"
	"spoolwright/tests/testkit"
)

// TestOverload runs the built program under loads that it cannot handle. Every request must get a valid response, if
// with status 503, and after the load the service must work and have released its file descriptors and goroutines.
func TestOverload(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*testing.T){
		"SlowClients": testSlowClients, "LockedRow": testLockedRow, "HangingPostgres": testHangingPostgres,
		"FullDisk": testFullDisk, "FewDescriptors": testFewDescriptors,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t)
		})
	}
}

// overloadTest is a rig of one instance.
type overloadTest struct {
	*rig
	*process
	postgres   *local.Server
	spool      string // path of a spool with a million grams
	writes     []overloadWrite
	metrics    string // METRICS_ADDR
	fds        int    // file descriptors before the load
	goroutines int    // goroutines before the load
}

// overloadWrite is a write of one kind.
type overloadWrite struct {
	path string
	body any // of a file, its bytes
}

const overloadConns = 4 // database connections of the service

// newOverloadTest starts the service on a PostgreSQL.
func newOverloadTest(t *testing.T, postgres *local.Server) *overloadTest {
	t.Helper()
	s := &overloadTest{postgres: postgres, metrics: freeAddress(t)}
	env := append(databaseEnv(postgres), "METRICS_ADDR="+s.metrics, "DB_MAX_CONNS="+strconv.Itoa(overloadConns))
	at := &instance{env: env}
	s.rig = newRig(t, at)
	s.process = at.process.Load()
	s.spool = "/api/v1/spools/" + s.spools[0]
	s.writes = s.newWrites(t)
	var wg sync.WaitGroup
	for range 4 * overloadConns { // opens all database connections
		wg.Go(func() { s.request("GET", "/api/v1/spools", nil) })
	}
	wg.Wait()
	s.fds, s.goroutines = s.resources(t)
	return s
}

// newWrites returns writes of all kinds, after making what they need. Each of them can be repeated.
func (s *overloadTest) newWrites(t *testing.T) []overloadWrite {
	t.Helper()
	type object = map[string]any
	run := s.process.create(t, s.token, "/api/v1/production-runs", object{"materials": []object{
		{"spool_id": s.spools[2], "actual_weight_grams": 5}}})
	ended := "/api/v1/production-runs/" + run["id"].(string)
	s.process.create(t, s.token, ended+"/complete", nil)
	return []overloadWrite{
		{s.spool + "/deduct", object{"weight_grams": 1}},
		{"/api/v1/spools", rigSpool("")},
		{"/api/v1/products/" + s.product + "/adjust", object{"pieces": 1, "reason": "found"}},
		{"/api/v1/orders", object{"items": []object{{"sku": "PART"}}}},
		{ended + "/correct", object{"materials": []object{
			{"id": run["materials"].([]any)[0].(object)["id"], "actual_weight_grams": 6}}}},
		{"/api/v1/products/from-file", s.file},
		{s.shop, rigMessage("7", time.Now(), 1)},
	}
}

// resources returns the numbers of the service's file descriptors and goroutines, after closing idle client
// connections.
func (s *overloadTest) resources(t *testing.T) (fds, routines int) {
	t.Helper()
	s.client.CloseIdleConnections()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	check(t, err)
	return len(open), metric(t, s.metrics, "go_goroutines")
}

// metric returns the number that an address serves as the metric.
func metric(t *testing.T, address, name string) int {
	t.Helper()
	all := metrics(t, address)
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\d+)$`).FindStringSubmatch(all)
	if m == nil {
		t.Fatalf("no metric %s in %s", name, all)
	}
	n, err := strconv.Atoi(m[1])
	check(t, err)
	return n
}

// wantResourcesReleased waits until the service has as few file descriptors and goroutines as before the load.
func (s *overloadTest) wantResourcesReleased(t *testing.T) {
	t.Helper()
	const slack = 8 // the request for /metrics, and a database connection that opens or closes
	var fds, routines int
	eventually(t, "the service has released file descriptors and goroutines", func() bool {
		fds, routines = s.resources(t)
		return fds <= s.fds+slack && routines <= s.goroutines+slack
	})
	t.Logf("file descriptors: %d before, %d after; goroutines: %d before, %d after", s.fds, fds, s.goroutines,
		routines)
}

// request sends a request once. It returns an error unless the response is a success or a 503, before the timeout of
// the client.
func (s *overloadTest) request(method, path string, body any) (answer, error) {
	a, err := s.attempt(s.process, method, path, "", body)
	if err == nil {
		err = a.invalid()
	}
	if err == nil && a.status >= 300 && a.status != 503 {
		err = fmt.Errorf("%s %s: %d %s", method, path, a.status, a.body)
	}
	return a, err
}

// atOnce sends n requests of several kinds in turn, concurrently, and returns the number of responses by status.
func (s *overloadTest) atOnce(t *testing.T, n int, method string, kinds ...overloadWrite) map[int]int {
	t.Helper()
	statuses := map[int]int{}
	var mu sync.Mutex
	testkit.Concurrently(n, func(i int) {
		kind := kinds[i%len(kinds)]
		a, err := s.request(method, kind.path, kind.body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		statuses[a.status]++
	})
	return statuses
}

// wantWorking waits until writes succeed, and checks that a read succeeds and that all spools agree with their
// ledgers.
func (s *overloadTest) wantWorking(t *testing.T) {
	t.Helper()
	for _, w := range s.writes {
		eventually(t, "POST "+w.path+" succeeds", func() bool {
			a, err := s.request("POST", w.path, w.body)
			check(t, err)
			return a.status < 300
		})
	}
	if a, err := s.request("GET", "/api/v1/spools", nil); err != nil || a.status != 200 {
		t.Errorf("GET /api/v1/spools: %d %v", a.status, err)
	}
	conn, err := pgx.Connect(t.Context(), s.postgres.SuperURL())
	check(t, err)
	defer conn.Close(t.Context())
	var wrong int
	check(t, conn.QueryRow(t.Context(), `
		select count(*) from spools s where remaining_weight_grams is distinct from
			(select sum(u.change_grams) from spool_usage u where u.spool_id = s.id)`).Scan(&wrong))
	testkit.Equal(t, wrong, 0, "spools differ from their ledgers")
}

// testSlowClients opens thousands of connections that send a byte a second, half of them in the header and half in
// the body. Other requests must succeed meanwhile, and the service must close the connections that are slow in the
// header.
func testSlowClients(t *testing.T) {
	testkit.Rig(t)
	s := newOverloadTest(t, testkit.Cluster(t, nil))
	n := 5000
	var limit syscall.Rlimit // the Go runtime has raised the soft limit to the hard limit
	check(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	if most := int(limit.Cur) - 1000; most < n {
		t.Logf("opening only %d connections, because the limit of open files is %d", most, limit.Cur)
		n = most
	}
	header := "POST /api/v1/spools HTTP/1.1\r\nHost: farm\r\nAuthorization: Bearer " + s.token +
		"\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
	conns := make([]net.Conn, 0, n)
	var closed atomic.Int64 // closed connections of those that are slow in the header
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	for i := range n {
		conn, err := dialFrom(1+i/1000, s.url)
		check(t, err)
		conns = append(conns, conn)
		if i%2 == 0 { // slow in the body
			_, err = io.WriteString(conn, header)
			check(t, err)
			continue
		}
		go func() {
			io.Copy(io.Discard, conn)
			closed.Add(1)
		}()
	}
	reads := 0
	for begin, second := time.Now(), 0; ; second++ {
		for _, conn := range conns {
			conn.Write([]byte("P"))
		}
		for _, path := range []string{"/api/v1/spools", s.spool} {
			if a, err := s.request("GET", path, nil); err != nil || a.status != 200 {
				t.Errorf("GET %s: %d %v", path, a.status, err)
			}
			reads++
		}
		a, err := s.request("POST", s.spool+"/deduct", map[string]any{"weight_grams": 1})
		if err != nil || a.status != 200 {
			t.Errorf("POST %s/deduct: %d %v", s.spool, a.status, err)
		}
		if int(closed.Load()) == n/2 {
			t.Logf("the service closed %d of %d slow connections within %d seconds, and responded to %d other requests",
				n/2, n, second+1, reads*3/2)
			break
		}
		if time.Since(begin) > waitTimeout {
			t.Fatalf("after %d rounds the service has closed %d slow connections, want %d", second, closed.Load(),
				n/2)
		}
		time.Sleep(time.Second)
	}
	for _, conn := range conns {
		conn.Close()
	}
	s.wantWorking(t)
	s.wantResourcesReleased(t)
}

// testLockedRow locks a row, and sends more writes that wait for it than the service has database connections. They
// get a 503 after the lock timeout.
func testLockedRow(t *testing.T) {
	s := newOverloadTest(t, testkit.Cluster(t, nil))
	other := "/api/v1/spools/" + s.spools[1]
	conn, err := pgx.Connect(t.Context(), s.postgres.SuperURL())
	check(t, err)
	defer conn.Close(t.Context())
	locker, err := pgx.Connect(t.Context(), s.postgres.SuperURL())
	check(t, err)
	defer locker.Close(t.Context())
	tx, err := locker.Begin(t.Context())
	check(t, err)
	_, err = tx.Exec(t.Context(), `select from spools where id = $1 for update`, idOf(s.spool))
	check(t, err)
	var wg sync.WaitGroup
	var blocked, healthy map[int]int
	deduction := map[string]any{"weight_grams": 1}
	wg.Go(func() { blocked = s.atOnce(t, 40, "POST", overloadWrite{s.spool + "/deduct", deduction}) })
	eventually(t, "all database connections wait for the lock", func() bool {
		var n int
		check(t, conn.QueryRow(t.Context(), `
			select count(*) from pg_stat_activity where usename = $1 and wait_event_type = 'Lock'`,
			local.LoginRole).Scan(&n))
		return n == overloadConns-1 // the last is for other tenants
	})
	wg.Go(func() { healthy = s.atOnce(t, 40, "POST", overloadWrite{other + "/deduct", deduction}) })
	if r, err := s.client.Get(s.url + "/healthz"); err != nil || r.StatusCode != 200 {
		t.Errorf("/healthz: %v %v", r, err)
	} else {
		r.Body.Close()
	}
	time.Sleep(6 * time.Second) // longer than the lock timeout
	check(t, tx.Rollback(t.Context()))
	wg.Wait()
	t.Logf("responses for the locked spool: %v; for another spool: %v", blocked, healthy)
	if blocked[503] == 0 {
		t.Error("no request for the locked spool got a 503")
	}
	for spool, ok := range map[string]int{s.spool: blocked[200], other: healthy[200]} {
		answer := s.get(t, s.token, spool)
		if left := fmt.Sprintf("%.0f", answer["remaining_weight_grams"]); left != strconv.Itoa(1_000_000-ok) {
			t.Errorf("after %d deductions of 1 g, %s g are left of 1000000", ok, left)
		}
	}
	s.wantWorking(t)
	s.wantResourcesReleased(t)
}

// signalPostgres sends the signal to the postmaster and all its children.
func signalPostgres(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	check(t, err)
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // the process has exited
		}
		// The parent's process id is the second field after the name, which is in parentheses.
		after := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && (child == pid || after[1] == strconv.Itoa(pid)) {
			syscall.Kill(child, signal)
		}
	}
}

// testHangingPostgres stops all PostgreSQL processes with SIGSTOP, so that connections open but get no response.
func testHangingPostgres(t *testing.T) {
	testkit.Rig(t)
	s := newOverloadTest(t, testkit.Cluster(t, nil))
	pid := s.postgres.PID()
	signalPostgres(t, pid, syscall.SIGSTOP)
	resume := sync.OnceFunc(func() { signalPostgres(t, pid, syscall.SIGCONT) })
	defer resume()
	var wg sync.WaitGroup
	for _, path := range []string{"/healthz", "/openapi.json"} {
		if r, err := s.client.Get(s.url + path); err != nil || r.StatusCode != 200 {
			t.Errorf("%s: %v %v", path, r, err)
		} else {
			r.Body.Close()
		}
	}
	var reads, writes map[int]int
	wg.Go(func() { reads = s.atOnce(t, 20, "GET", overloadWrite{"/api/v1/spools", nil}) })
	wg.Go(func() { writes = s.atOnce(t, 21, "POST", s.writes...) })
	wg.Go(func() {
		time.Sleep(time.Second) // for which an earlier result of a check is used
		if a, err := s.request("GET", "/readyz", nil); err != nil || a.status != 503 {
			t.Errorf("/readyz: %d %v", a.status, err)
		}
	})
	wg.Wait()
	if reads[503] != 20 || writes[503] != 21 {
		t.Errorf("while PostgreSQL hangs, the statuses of reads are %v and of writes %v, want 503", reads, writes)
	}
	resume()
	s.wantWorking(t)
	s.wantResourcesReleased(t)
}

// testFullDisk fills the disk of PostgreSQL. Writes and /readyz get a 503, and succeed when there is space again.
func testFullDisk(t *testing.T) {
	testkit.Rig(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	disk := filepath.Join(tempDir(t), "disk")
	check(t, os.Mkdir(disk, 0o711))
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=160m,mode=0711"); err != nil {
		t.Skipf("cannot mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { check(t, syscall.Unmount(disk, syscall.MNT_DETACH)) })
	settings := map[string]string{"min_wal_size": "32MB", "max_wal_size": "48MB", "synchronous_commit": "on"}
	postgres, err := local.Start(t.Context(),
		local.Options{Dir: filepath.Join(disk, "data"), Throwaway: true, Settings: settings})
	check(t, err)
	t.Cleanup(func() { postgres.Stop(context.Background()) })
	s := newOverloadTest(t, postgres)

	ballast, err := os.Create(filepath.Join(disk, "ballast"))
	check(t, err)
	defer ballast.Close()
	for block := make([]byte, 1<<20); err == nil; {
		_, err = ballast.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	all := map[int]int{}
	spool := rigSpool(strings.Repeat("x", 10_000))
	ready := func() bool {
		a, err := s.request("GET", "/readyz", nil)
		check(t, err)
		return a.status == 200
	}
	eventually(t, "writes and /readyz fail", func() bool {
		for status, n := range s.atOnce(t, 50, "POST", overloadWrite{"/api/v1/spools", spool}) {
			all[status] += n
		}
		return all[503] > 0 && !ready()
	})
	for status, n := range s.atOnce(t, 21, "POST", s.writes...) {
		all[status] += n
	}
	reads := s.atOnce(t, 20, "GET", overloadWrite{"/api/v1/spools", nil})
	t.Logf("while the disk is full, the statuses of writes are %v and of reads %v", all, reads)
	check(t, os.Truncate(ballast.Name(), 0))
	s.wantWorking(t)
	eventually(t, "/readyz succeeds", ready)
	s.wantResourcesReleased(t)
}

// dialFrom connects to the service from one of the loopback addresses, because an address may have a quarter of the
// connections.
func dialFrom(address int, url string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(address))}}
	return d.Dial("tcp", strings.TrimPrefix(url, "http://"))
}

// testFewDescriptors lets the service open 256 files. Clients that open as many WebSockets as they can, or as many
// idle connections, must not keep other clients from the service. They are closed or rejected, counted and logged.
func testFewDescriptors(t *testing.T) {
	p := buildProgram(t)
	url := ownerURL(testkit.MigratedDatabase(t))
	address := freeAddress(t)
	env := append([]string{"DATABASE_URL=" + url, secretEnv, "METRICS_ADDR=" + address}, noLimits...)
	p.addUser(t, env, "loud", "ada@loud.example", "admin")
	p.addUser(t, env, "quiet", "ada@quiet.example", "admin")
	c := p.startAs(t, func(c *exec.Cmd) {
		c.Args = []string{"sh", "-c", `ulimit -n 256 && exec "$0"`, c.Path}
		c.Path = "/bin/sh"
	}, env)
	c.client.Timeout = waitTimeout
	quiet := c.login(t, "ada@quiet.example", testPassword)
	loud := c.login(t, "ada@loud.example", testPassword)
	metric := func(name string) int {
		t.Helper()
		return metric(t, address, name)
	}
	most := metric("http_connections_max")
	if most < 64 || most > 192 {
		t.Errorf("with 256 file descriptors, clients may have %d connections", most)
	}
	// The other tenant's requests and the health checks, each on a new connection.
	wantServed := func(during string) {
		t.Helper()
		for range 25 {
			c.client.CloseIdleConnections()
			if status, _ := c.call(t, quiet, "GET", "/api/v1/spools", nil); status != 200 {
				t.Fatalf("during %s, a request gets %d", during, status)
			}
			c.client.CloseIdleConnections()
			if status, _ := c.call(t, "", "GET", "/healthz", nil); status != 200 {
				t.Fatalf("during %s, /healthz returns %d", during, status)
			}
		}
	}
	wantLogged := func(line string) {
		t.Helper()
		if n := strings.Count(c.stderr.String(), line); n == 0 {
			t.Errorf("the log has no line %q", line)
		}
	}

	statuses := map[int]int{}
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	for key := range 20 {
		created := c.create(t, loud, "/api/v1/api-keys", map[string]any{"name": strconv.Itoa(key), "role": "printer"})
		for range 15 {
			conn, err := dialFrom(1+key, c.url)
			check(t, err)
			conns = append(conns, conn)
			conn.SetDeadline(time.Now().Add(waitTimeout))
			fmt.Fprintf(conn, "GET /spoolman/api/v1/spool HTTP/1.1\r\nHost: farm\r\nConnection: Upgrade\r\n"+
				"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"+
				"X-API-Key: %s\r\n\r\n", created["key"])
			r, err := http.ReadResponse(bufio.NewReader(conn), nil)
			check(t, err)
			statuses[r.StatusCode]++
		}
	}
	wantServed("the attack with WebSockets")
	if statuses[101] != most/4 || statuses[429] != 300-most/4 {
		t.Errorf("the statuses of WebSockets are %v, want %d times 101 and then 429", statuses, most/4)
	}
	testkit.Equal(t, metric(`http_connections_rejected_total{bound="tenant_websockets"}`), statuses[429],
		"WebSockets were counted as rejected")
	wantLogged("a tenant has too many WebSocket connections")

	for i := range 1000 {
		conn, err := dialFrom(1+i/20, c.url)
		check(t, err)
		conns = append(conns, conn)
		if i%2 == 0 { // the others never send a request
			io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: farm\r\n\r\n")
		}
	}
	wantServed("the attack with idle connections")
	wantLogged("clients have too many connections: closing those that are idle")
	eventually(t, "connections are replaced", func() bool { return metric("http_connections_replaced_total") >= 500 })

	for range most { // from one address
		conn, err := dialFrom(200, c.url)
		check(t, err)
		conns = append(conns, conn)
	}
	eventually(t, "connections of the address are rejected", func() bool {
		return metric(`http_connections_rejected_total{bound="address"}`) >= most/2
	})
	wantServed("the attack from one address")
	wantLogged("a client address has too many connections")

	for _, conn := range conns {
		conn.Close()
	}
	eventually(t, "the connections are closed", func() bool {
		return metric(`http_connections{state="websocket"}`) == 0 && metric(`http_connections{state="idle"}`) < 8
	})
}
