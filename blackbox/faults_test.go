package blackbox_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/auth/authtest"
	"spoolwright/db"
	"spoolwright/db/dbtest"
	"spoolwright/db/local"
	"spoolwright/server"
)

var (
	faultWrites = flag.Int("faults.writes", 10_000, "how many writes TestFaults does")
	faultKills  = flag.Int("faults.kills", 20, "how often TestFaults kills something: PostgreSQL and an instance of the service in turn")
)

const (
	faultClients   = 32
	faultSpools    = 50
	faultInstances = 3

	// recovery is how soon after PostgreSQL the service has to answer again.
	recovery = 5 * time.Second
)

// TestFaults kills PostgreSQL (one of its backends, or the postmaster) and instances of the service while clients write.
// Every client sends a request again, with its key, until it is acknowledged. In the end everything acknowledged is there
// once, and each spool has what the acknowledged writes left of it. The long form is
//
//	go test ./blackbox -run TestFaults -timeout 0 -faults.writes 1000000 -faults.kills 400
func TestFaults(t *testing.T) {
	t.Parallel()
	f := newFaultTest(t)
	start := time.Now()
	var wg sync.WaitGroup
	for c := range faultClients {
		wg.Go(func() { f.client(c) })
	}
	working := make(chan struct{})
	go func() { wg.Wait(); close(working) }()

	worst, killed := f.kill(t, working)
	<-working
	took := time.Since(start)
	if err := f.failure(); err != nil {
		t.Fatalf("after %d writes and %v killed: %v", f.writes.Load(), killed, err)
	}
	t.Logf("%d writes by %d clients in %v; killed: %v; unanswered %d, answered 503 %d, replayed %d; after PostgreSQL the service answered within %v",
		f.writes.Load(), faultClients, took.Round(time.Millisecond), killed, f.unanswered.Load(), f.unavailable.Load(), f.replays.Load(), worst.Round(time.Millisecond))
	for what, n := range map[string]int{"postmaster": *faultKills / 4, "backend": *faultKills / 4, "instance": *faultKills / 2} {
		if killed[what] < n {
			t.Errorf("%d times a %s was killed, want %d", killed[what], what, n)
		}
	}
	if n := f.writes.Load(); n < int64(*faultWrites) {
		t.Errorf("%d writes, want %d", n, *faultWrites)
	}
	f.verify(t)
}

// faultFarm is several instances of the program on one PostgreSQL.
type faultTest struct {
	program  program
	env      []string
	postgres *local.Server
	token    string
	http     *http.Client
	children [faultInstances]*process
	urls     [faultInstances]atomic.Pointer[string] // nil while the instance is down
	spools   [faultSpools]string

	writes, unanswered, unavailable, replays atomic.Int64

	ctx  context.Context // ends at the first failure
	fail context.CancelCauseFunc

	mu    sync.Mutex
	acked map[string]ack // by key
}

// ack is what a client was told, or follows from it.
type ack struct {
	kind   string // deduct, create, run, material, complete
	id     string // of what was made or completed
	spool  string
	weight server.Decimal
	path   string
	body   any
	answer []byte // kept of some
}

const faultNetGrams = "1000000" // grams on each spool at first

func newFaultTest(t *testing.T) *faultTest {
	t.Helper()
	f := &faultTest{acked: map[string]ack{}, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: faultClients}, Timeout: 30 * time.Second}}
	t.Cleanup(f.http.CloseIdleConnections)
	f.ctx, f.fail = context.WithCancelCause(t.Context())
	dir := tempDir(t)
	f.program = buildProgram(t)
	// A killed process loses nothing that it has written, synced or not; only a commit that was never written is lost. But it may have
	// written half a page.
	var err error
	f.postgres, err = local.Start(t.Context(), local.Options{Dir: filepath.Join(dir, "data"), Throwaway: true, Settings: map[string]string{"synchronous_commit": "on", "full_page_writes": "on"}})
	check(t, err)
	t.Cleanup(func() { check(t, f.postgres.Stop(context.Background())) })
	f.env = []string{"DATABASE_URL=" + f.postgres.AppURL(), "MIGRATE_DATABASE_URL=" + f.postgres.OwnerURL(), secretEnv,
		"RATE_LIMIT_PER_MINUTE=0", "RATE_LIMIT_PER_HOUR=0", "ACCESS_TOKEN_EXPIRE_MINUTES=10000"}
	f.program.succeeds(t, "a password for tests", f.env, "user", "add", "--tenant", "farm", "--email", "ada@farm.example", "--name", "Ada", "--password-stdin")
	for i := range f.children {
		f.start(t, i)
	}
	f.token = f.children[0].login(t, "ada@farm.example", "a password for tests")
	for i := range f.spools {
		status, spool := f.children[i%faultInstances].call(t, f.token, "POST", "/api/v1/spools", faultSpool("start"))
		if status != 201 {
			t.Fatalf("POST /api/v1/spools: %d %v", status, spool)
		}
		f.spools[i] = spool["id"].(string)
	}
	return f
}

func faultSpool(notes string) map[string]any {
	return map[string]any{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": json.Number(faultNetGrams), "notes": notes}
}

// start starts an instance, again if it was killed.
func (f *faultTest) start(t *testing.T, i int) {
	t.Helper()
	c := f.program.startAs(t, func(c *exec.Cmd) {
		c.Stderr = &logFilter{to: c.Stderr, onInternalError: func(line []byte) { t.Logf("%s", line) }}
	}, f.env)
	f.children[i] = c
	f.urls[i].Store(&c.url)
}

// sieve keeps a log in bounds: lines about requests that went well are not passed on.
type logFilter struct {
	to              io.Writer
	onInternalError func(line []byte) // told of PostgreSQL's internal errors
	rest            []byte
}

func (s *logFilter) Write(b []byte) (int, error) {
	s.rest = append(s.rest, b...)
	for {
		end := bytes.IndexByte(s.rest, '\n') + 1
		if end == 0 {
			return len(b), nil
		}
		if line := s.rest[:end]; bytes.Contains(line, []byte("internal error")) {
			s.onInternalError(line)
		} else if !bytes.Contains(line, []byte("level=INFO msg=request")) {
			s.to.Write(line)
		}
		s.rest = s.rest[end:]
	}
}

func (f *faultTest) failure() error { return context.Cause(f.ctx) }

// kill kills while the clients work, and returns how long the service took at worst to answer after PostgreSQL did.
func (f *faultTest) kill(t *testing.T, working <-chan struct{}) (worst time.Duration, killed map[string]int) {
	t.Helper()
	killed = map[string]int{}
	step := float64(*faultWrites) / float64(*faultKills+2)
	for n := range *faultKills {
		at := int64(step * (float64(n) + 1 + rand.Float64()))
		for f.writes.Load() < at && f.failure() == nil {
			select {
			case <-working:
				return worst, killed
			case <-time.After(time.Millisecond):
			}
		}
		if f.failure() != nil {
			return worst, killed
		}
		if n%2 == 1 {
			i := rand.IntN(faultInstances)
			f.urls[i].Store(nil)
			check(t, f.children[i].cmd.Process.Kill())
			<-f.children[i].exited
			f.start(t, i)
			killed["instance"]++
			continue
		}
		if n%4 == 0 {
			f.killPostmaster(t)
			killed["postmaster"]++
		} else {
			f.killBackend(t)
			killed["backend"]++
		}
		worst = max(worst, f.waitForRecovery(t))
	}
	return worst, killed
}

func (f *faultTest) killPostmaster(t *testing.T) {
	t.Helper()
	pid := f.postgres.PID()
	check(t, syscall.Kill(pid, syscall.SIGKILL))
	eventually(t, "PostgreSQL runs again", func() bool { return f.postgres.PID() != pid })
}

// killBackend kills a process that serves an instance, whereupon PostgreSQL ends all others and recovers.
func (f *faultTest) killBackend(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.postgres.SuperURL())
	check(t, err)
	defer conn.Close(t.Context())
	var pid int
	check(t, conn.QueryRow(t.Context(), `select pid from pg_stat_activity where usename = $1 order by random() limit 1`, local.LoginRole).Scan(&pid))
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) { // its instance may have closed it just now
		t.Fatal(err)
	} else if err != nil {
		f.killBackend(t)
		return
	}
	eventually(t, "PostgreSQL notices", func() bool { _, err := conn.Exec(t.Context(), "select 1"); return err != nil })
}

// answersAgain waits for PostgreSQL, and returns how much longer it is until each instance reads from it.
func (f *faultTest) waitForRecovery(t *testing.T) time.Duration {
	t.Helper()
	f.eventually(t, "PostgreSQL answers", func() bool {
		conn, err := pgx.Connect(t.Context(), f.postgres.SuperURL())
		if err == nil {
			err = conn.Ping(t.Context())
			conn.Close(t.Context())
		}
		return err == nil
	})
	since := time.Now()
	for _, c := range f.children {
		f.eventually(t, "the service answers", func() bool {
			r, err := f.request(c.url, "GET", "/api/v1/spools?limit=1", "", nil)
			return err == nil && r.status == 200
		})
	}
	took := time.Since(since)
	if took > recovery {
		t.Errorf("the service answered %v after PostgreSQL, more than %v", took, recovery)
	}
	return took
}

// eventually also ends when a client has failed, for then nothing is answered any more.
func (f *faultTest) eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	eventually(t, what, func() bool { return is() || f.failure() != nil })
}

type faultResponse struct {
	status int
	header http.Header
	body   []byte
}

func (f *faultTest) request(url, method, path, key string, body any) (faultResponse, error) {
	var reader io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return faultResponse{}, err
		}
		reader = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(f.ctx, method, url+path, reader)
	if err != nil {
		return faultResponse{}, err
	}
	r.Header.Set("Authorization", "Bearer "+f.token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	response, err := f.http.Do(r)
	if err != nil {
		return faultResponse{}, err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	return faultResponse{response.StatusCode, response.Header, b}, err
}

// post sends a request to any instance until it gets an answer that says more than to come again.
func (f *faultTest) post(path, key string, body any) (faultResponse, error) {
	for f.ctx.Err() == nil {
		url := f.urls[rand.IntN(faultInstances)].Load()
		if url == nil {
			time.Sleep(time.Millisecond)
			continue
		}
		a, err := f.request(*url, "POST", path, key, body)
		switch {
		case err != nil:
			f.unanswered.Add(1)
		case a.status == 503:
			f.unavailable.Add(1)
			if a.header.Get("Retry-After") == "" || a.header.Get("Idempotency-Replayed") != "" || !json.Valid(a.body) {
				return a, fmt.Errorf("a 503 with the headers %v: %s", a.header, a.body)
			}
		default:
			return a, nil
		}
		time.Sleep(rand.N(50 * time.Millisecond)) // sooner than Retry-After says, which is harder
	}
	return faultResponse{}, f.failure()
}

// write is a write that succeeds in the end. Once in a while a twin with the same key goes along.
func (f *faultTest) write(key, path string, body any, status int) (faultResponse, error) {
	f.writes.Add(1)
	var twin faultResponse
	var twinErr error
	var wg sync.WaitGroup
	twins := rand.IntN(20) == 0
	if twins {
		wg.Go(func() { twin, twinErr = f.post(path, key, body) })
	}
	a, err := f.post(path, key, body)
	wg.Wait()
	switch {
	case err != nil || twinErr != nil:
		return a, errors.Join(err, twinErr)
	case a.status != status:
		return a, fmt.Errorf("POST %s: %d %s", path, a.status, a.body)
	case twins && (twin.status != status || !bytes.Equal(twin.body, a.body)):
		return a, fmt.Errorf("POST %s: its twins got %d %s and %d %s", path, a.status, a.body, twin.status, twin.body)
	case twins && (a.header.Get("Idempotency-Replayed") == "") == (twin.header.Get("Idempotency-Replayed") == "") && a.header.Get("Idempotency-Replayed") == "":
		return a, fmt.Errorf("POST %s: both twins say that they did it", path)
	}
	if a.header.Get("Idempotency-Replayed") != "" {
		f.replays.Add(1)
	}
	return a, nil
}

// client writes until there are enough writes.
func (f *faultTest) client(c int) {
	mine := map[string]ack{}
	for n := 0; f.writes.Load() < int64(*faultWrites) && f.ctx.Err() == nil; n++ {
		if err := f.step(fmt.Sprintf("%d-%d", c, n), mine); err != nil {
			f.fail(fmt.Errorf("client %d: %w", c, err))
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.Copy(f.acked, mine)
}

// step does one thing that a farm does: it deducts, enters a spool, or enters a run and completes it.
func (f *faultTest) step(key string, mine map[string]ack) error {
	spool := f.spools[rand.IntN(faultSpools)]
	weight := server.Decimal(1 + rand.IntN(500_000))
	keep := rand.IntN(*faultWrites) < 200
	done := func(key, path string, body any, status int, a ack) (ack, error) {
		got, err := f.write(key, path, body, status)
		if err != nil {
			return a, err
		}
		var answer struct {
			ID        string
			Deducted  json.Number
			Spools    []struct{ Deducted json.Number } `json:"spools_updated"`
			Remaining json.Number                      `json:"remaining_weight_grams"`
		}
		if err := json.Unmarshal(got.body, &answer); err != nil {
			return a, err
		}
		if a.id == "" {
			a.id = answer.ID
		}
		told := answer.Deducted
		if len(answer.Spools) == 1 {
			told = answer.Spools[0].Deducted
		}
		if a.id != answer.ID || a.weight > 0 && told.String() != a.weight.String() {
			return a, fmt.Errorf("POST %s of %v: %s", path, a.weight, got.body)
		}
		if keep {
			a.path, a.body, a.answer = path, body, got.body
		}
		mine[key] = a
		return a, nil
	}
	switch n := rand.IntN(10); {
	case n < 6:
		_, err := done(key, "/api/v1/spools/"+spool+"/deduct", map[string]any{"weight_grams": json.Number(weight.String()), "reason": key}, 200, ack{kind: "deduct", id: spool, spool: spool, weight: weight})
		return err
	case n < 8:
		_, err := done(key, "/api/v1/spools", faultSpool(key), 201, ack{kind: "create"})
		return err
	}
	run, err := done(key+"-run", "/api/v1/production-runs", map[string]any{"notes": key + "-run"}, 201, ack{kind: "run"})
	if err != nil {
		return err
	}
	path := "/api/v1/production-runs/" + run.id
	material := map[string]any{"spool_id": spool, "spool_weight_before_grams": json.Number(weight.String()), "spool_weight_after_grams": 0}
	if _, err := done(key+"-material", path+"/materials", material, 201, ack{kind: "material"}); err != nil {
		return err
	}
	if _, err := done(key+"-complete", path+"/complete", nil, 200, ack{kind: "complete", id: run.id, spool: spool, weight: weight}); err != nil {
		return err
	}
	if rand.IntN(8) > 0 {
		return nil
	}
	again, err := f.post(path+"/complete", key+"-again", nil)
	if err == nil && again.status != 400 {
		err = fmt.Errorf("a completed run was completed again: %d %s", again.status, again.body)
	}
	return err
}

// verify compares what PostgreSQL has with what was acknowledged.
func (f *faultTest) verify(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.postgres.SuperURL())
	check(t, err)
	defer conn.Close(t.Context())
	count := func(sql string) (n int) {
		t.Helper()
		check(t, conn.QueryRow(t.Context(), sql).Scan(&n))
		return n
	}
	wrong := 0
	report := func(format string, args ...any) {
		t.Helper()
		if wrong++; wrong <= 20 {
			t.Errorf(format, args...)
		}
	}

	// Each kind of row names the key of its write: all of them are there, each once, and nothing else is.
	left := maps.Clone(f.acked)
	byRun := map[string]string{}
	used := map[string]server.Decimal{}
	for key, a := range f.acked {
		used[a.spool] += a.weight
		if a.kind == "complete" {
			byRun[a.id] = key
		}
	}
	take := func(key, id string) {
		t.Helper()
		a, ok := left[key]
		if !ok {
			if _, known := f.acked[key]; known {
				report("%s happened twice", key)
			} else {
				report("%q happened, but nobody was told", key)
			}
			return
		}
		if a.id != id {
			report("%s: a client was told of %s, PostgreSQL has %s", key, a.id, id)
		}
		delete(left, key)
	}
	stream := func(sql string, each func(a, b, c string, n int64)) {
		t.Helper()
		rows, err := conn.Query(t.Context(), sql)
		check(t, err)
		var a, b, c string
		var n int64
		_, err = pgx.ForEachRow(rows, []any{&a, &b, &c, &n}, func() error { each(a, b, c, n); return nil })
		check(t, err)
	}
	stream(`select kind, coalesce(reason, run_id::text), spool_id::text, (-change_grams * 1000000)::bigint from spool_usage where kind in ('deducted', 'run')`,
		func(kind, key, spool string, weight int64) {
			id := spool
			if kind == "run" {
				id = key
				if key = byRun[key]; key == "" {
					report("run %s was completed, but nobody was told", id)
					return
				}
			}
			if a := f.acked[key]; a.spool != spool || int64(a.weight) != weight {
				report("%s: the ledger of %s has %d millionths, acknowledged were %d of %s", key, spool, weight, a.weight, a.spool)
			}
			take(key, id)
		})
	stream(`select 'spool', notes, id::text, 0 from spools where notes <> 'start' union all select 'run', notes, id::text, 0 from production_runs`,
		func(_, key, id string, _ int64) { take(key, id) })
	materials := map[string]bool{}
	stream(`select '', '', id::text, 0 from run_materials`, func(_, _, id string, _ int64) { materials[id] = true })
	acked := 0
	for key, a := range left {
		if a.kind == "material" && materials[a.id] {
			acked++
			delete(left, key)
		}
	}
	if acked != len(materials) {
		report("%d materials were acknowledged, there are %d", acked, len(materials))
	}
	for key, a := range left {
		report("%s (%s) was acknowledged and is lost", key, a.kind)
	}
	if n := count(`select count(*) from idempotency_keys where status between 200 and 201`); n != len(f.acked) {
		report("%d keys are kept, %d writes were acknowledged", n, len(f.acked))
	}
	if n := count(`select count(*) from idempotency_keys where status is null or status > 201`); n != 0 {
		report("%d keys are kept without a success", n)
	}

	// The books balance.
	if n := count(`select count(*) from spools s left join (select spool_id, sum(change_grams) as grams from spool_usage group by 1) u on u.spool_id = s.id
		where s.remaining_weight_grams is distinct from u.grams`); n != 0 {
		report("%d spools differ from their ledgers", n)
	}
	if n := count(`select count(*) from spools where notes <> 'start' and remaining_weight_grams <> ` + faultNetGrams); n != 0 {
		report("%d spools that nothing was taken from have changed", n)
	}
	full, _ := server.ParseDecimal(faultNetGrams)
	for i, spool := range f.spools {
		_, answer := f.children[i%faultInstances].call(t, f.token, "GET", "/api/v1/spools/"+spool, nil)
		var remaining string
		check(t, conn.QueryRow(t.Context(), `select trim_scale(remaining_weight_grams)::text from spools where id = $1`, spool).Scan(&remaining))
		if want := full - used[spool]; remaining != want.String() || fmt.Sprint(json.Number(remaining)) != want.String() {
			report("spool %s has %s g left, acknowledged writes left %v", spool, remaining, want)
		} else if shown, ok := server.ParseDecimal(fmt.Sprintf("%.6f", answer["remaining_weight_grams"])); !ok || shown != want {
			report("spool %s is shown with %v g, want %v", spool, answer["remaining_weight_grams"], want)
		}
	}

	// What was acknowledged is still said, word for word, and stays without effect.
	entries, replayed := count(`select count(*) from spool_usage`), 0
	for key, a := range f.acked {
		if a.answer == nil {
			continue
		}
		replayed++
		again, err := f.post(a.path, key, a.body)
		check(t, err)
		if again.header.Get("Idempotency-Replayed") != "true" || !bytes.Equal(again.body, a.answer) {
			report("%s again: %d %s, want %s", key, again.status, again.body, a.answer)
		}
	}
	if n := count(`select count(*) from spool_usage`); n != entries || replayed == 0 {
		report("%d writes sent again made %d entries", replayed, n-entries)
	}
	other, err := f.post("/api/v1/spools", db.NewID(), faultSpool("end"))
	if err != nil || other.status != 201 {
		report("a write after all that: %d %s %v", other.status, other.body, err)
	}
}

// cutter stands between the service and PostgreSQL and cuts connections where the outcome of a commit becomes unknown.
type faultProxy struct {
	listener net.Listener
	to       string // PostgreSQL's socket

	mu   sync.Mutex
	plan []fault // what is to be cut, in this order
	seen []byte  // what went through
}

// cut is where a connection is cut: 'Q' is COMMIT, 'S' the end of a batch, which without BEGIN is a transaction by itself.
type fault struct {
	at   byte
	when moment
}

type moment int

const (
	before moment = iota // PostgreSQL does not get it
	after                // PostgreSQL does it, and its answer is lost
	never
)

// newCutter returns the address of PostgreSQL through a cutter.
func newFaultProxy(t *testing.T) (*faultProxy, string) {
	t.Helper()
	u, err := url.Parse(dbtest.Private().AppURL())
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

// arm makes it cut the next such messages.
func (c *faultProxy) arm(plan ...fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plan = plan
}

func (c *faultProxy) next(at byte) moment {
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

// record returns what goes through while fn runs.
func (c *faultProxy) record(fn func()) []byte {
	c.mu.Lock()
	c.seen = nil
	c.mu.Unlock()
	fn()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

// message reads one message; the first of a client has no type.
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

func (c *faultProxy) serve(client net.Conn) {
	defer client.Close()
	postgres, err := net.Dial("unix", c.to)
	if err != nil {
		return
	}
	defer postgres.Close()
	var deaf atomic.Bool // the client hears nothing any more
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer client.Close()
		for {
			m, err := readMessage(postgres, true)
			if err != nil || deaf.Load() && m[0] == 'Z' {
				return
			}
			if !deaf.Load() {
				client.Write(m)
			}
		}
	}()
	executed := false
	for typed := false; ; typed = true {
		m, err := readMessage(client, typed)
		if err != nil {
			return
		}
		executed = executed || typed && m[0] == 'E' // else the batch only prepares statements
		if typed && (m[0] == 'S' && executed || m[0] == 'Q' && string(m[5:]) == "commit\x00") {
			executed = false
			switch c.next(m[0]) {
			case before:
				return
			case after:
				deaf.Store(true)
				postgres.Write(m)
				<-done
				return
			}
		}
		postgres.Write(m)
	}
}

// The connection breaks where the outcome of a write becomes unknown. With a key the service finds it out by itself, or the
// client does by sending the request again; without one the client is told that it is unknown.
func TestUnknownCommit(t *testing.T) {
	t.Parallel()
	w := newUnlimitedAPI(t)
	w.forEach(t, acceptsKey, func(t *testing.T, op *operation) {
		t.Parallel()
		conn := connectSuper(t)
		cutter, through := newFaultProxy(t)
		d, err := db.Open(t.Context(), db.Config{URL: through, MaxConns: 1})
		check(t, err)
		defer d.Close()
		behind := newTestAPI(t, authtest.Options{DB: d})
		start := func() (f *fixture, path string, body map[string]any, effect func() string) {
			f = w.newFullFixture(t).prepareBodies(t)
			rows := f.countRows(t, conn)
			return f, f.path(t, op.Path()), f.body(t, op), func() string { return addedRows(rows, f.countRows(t, conn)) }
		}
		client := func(c *authtest.Client) *authtest.Client {
			copied := *c
			copied.API = behind.api
			return &copied
		}
		unknown := func(a *authtest.Response) {
			t.Helper()
			a.WantError(503, "UNAVAILABLE")
			if a.Header.Get("Retry-After") == "" || isReplay(a) {
				t.Errorf("a 503 with the headers %v", a.Header)
			}
		}

		f, path, body, effect := start()
		var plain *authtest.Response
		steps := cutter.record(func() { plain = f.do(t, client(f.admin), op, path, body) })
		if plain.Status >= 300 || len(steps) == 0 {
			t.Fatalf("%s: %d %s", plain.What, plain.Status, plain.Body)
		}
		want := effect()

		// Without a key, what did not happen and what did look the same. The last step is the commit.
		f, path, body, effect = start()
		for _, when := range []moment{before, after} {
			var plan []fault
			for _, step := range steps {
				plan = append(plan, fault{step, never})
			}
			plan[len(plan)-1].when = when
			cutter.arm(plan...)
			unknown(f.do(t, client(f.admin), op, path, body))
			if got := effect(); when == before && got != "" || when == after && got != want {
				t.Errorf("a connection that broke at the commit (%d) left %q, want %q", when, got, want)
			}
		}

		// With a key, no cut is seen from outside, wherever it is.
		f, path, body, effect = start()
		c := withKey(client(f.admin), "key")
		cutter.arm(fault{'S', before}, fault{'S', after}, fault{'Q', before}, fault{'Q', after})
		first := f.do(t, c, op, path, body)
		if first.Status >= 300 {
			t.Errorf("%s: %d %s", first.What, first.Status, first.Body)
		}
		if got := effect(); got != want {
			t.Errorf("one request made %s, want %s", got, want)
		}

		// The service gives up in the end; the client's next try finds out.
		cutter.arm(slices.Repeat([]fault{{'Q', after}}, 100)...)
		unknown(f.do(t, c, op, path, body))
		cutter.arm()
		again := f.do(t, c, op, path, body)
		if !isReplay(again) || !bytes.Equal(again.Body, first.Body) || again.Status != first.Status || again.Header.Get("Location") != first.Header.Get("Location") {
			t.Errorf("at last: %d %v %s, want %s", again.Status, again.Header, again.Body, first.Body)
		}
		if s := d.Stats(); s.InUse != 0 || s.Total > 1 {
			t.Errorf("%+v", s)
		}
	})
}
