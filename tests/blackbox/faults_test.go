package blackbox_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	"spoolwright/value"
	"spoolwright/webhooks"
)

var (
	faultWrites = flag.Int("faults.writes", 0, "number of writes that TestFaults sends; 0 chooses it")
	faultKills  = flag.Int("faults.kills", 0,
		"number of processes of PostgreSQL or the service that TestFaults kills; 0 chooses it")
)

const (
	faultClients   = 32
	faultSpools    = 50
	faultInstances = 3
)

// TestFaults kills PostgreSQL (a backend, or the postmaster) and instances of the service while clients write. Each
// client repeats a request with its key until it is acknowledged. In the end the database must contain each
// acknowledged write exactly once, and nothing else. The long form is
//
//	go test ./tests/blackbox -run TestFaults -timeout 0 -faults.writes 1000000 -faults.kills 400
func TestFaults(t *testing.T) {
	t.Parallel()
	writes, kills := 200, 2 // a kill of the postmaster, and one of an instance
	if testkit.Rigs() {
		writes, kills = testkit.InCI(400, 1500), testkit.InCI(4, 8)
	}
	*faultWrites, *faultKills = cmp.Or(*faultWrites, writes), cmp.Or(*faultKills, kills)
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
		t.Fatalf("after %d writes and the kills %v: %v", f.writes.Load(), killed, err)
	}
	t.Logf("%d writes by %d clients in %v; kills: %v; requests without response: %d, with 503: %d, replays: %d; "+
		"after PostgreSQL recovered, the service responded within %v",
		f.writes.Load(), faultClients, took.Round(time.Millisecond), killed,
		f.unanswered.Load(), f.unavailable.Load(), f.replays.Load(), worst.Round(time.Millisecond))
	for what, n := range map[string]int{
		"postmaster": *faultKills / 4, "backend": *faultKills / 4, "instance": *faultKills / 2,
	} {
		if killed[what] < n {
			t.Errorf("kills of a %s: %d, want %d", what, killed[what], n)
		}
	}
	if n := f.writes.Load(); n < int64(*faultWrites) {
		t.Errorf("%d writes, want %d", n, *faultWrites)
	}
	f.verify(t)
}

// faultTest is several instances of the service on one PostgreSQL.
type faultTest struct {
	program  program
	env      []string
	postgres *local.Server
	token    string
	http     *http.Client
	children [faultInstances]*process
	urls     [faultInstances]atomic.Pointer[string] // nil while the instance is down
	spools   [faultSpools]string
	numbers  map[string]int // of the spools
	product  string
	kit      string // two pieces of product
	counted  string // a product whose pieces are only counted
	shop     string // the address to which a shop sends its messages
	secret   []byte // with which the shop signs them
	file     []byte // a sliced file

	writes, unanswered, unavailable, replays atomic.Int64

	ctx  context.Context // ends at the first failure
	fail context.CancelCauseFunc

	mu    sync.Mutex
	acked map[string]ack // by key

	// The quantity of the line of each order of the shop, by reference.
	messages map[string]int

	// Grams of reports without a key, by spool: each was acknowledged once, and may have been applied again by each
	// attempt without an answer.
	reported, uncertain map[string]value.Decimal
}

// ack is an acknowledged write.
type ack struct {
	kind     string // such as deduct, create, run, complete, fail, print, order, pieces; see verify
	id       string // of the created resource, or of the run that has ended; "" of an assembly
	spool    string // of a deduction, its reversal, the end of a run or its correction
	weight   value.Decimal
	path     string // path, body and response are set for some writes, which verify repeats
	body     any
	response []byte
}

const faultNetGrams = "1000000" // initial weight of each spool

// newFaultTest starts PostgreSQL and the instances, and creates a user and spools.
func newFaultTest(t *testing.T) *faultTest {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: faultClients}
	f := &faultTest{acked: map[string]ack{}, numbers: map[string]int{}, messages: map[string]int{},
		reported: map[string]value.Decimal{}, uncertain: map[string]value.Decimal{},
		http: &http.Client{Transport: transport, Timeout: 30 * time.Second}}
	t.Cleanup(f.http.CloseIdleConnections)
	f.ctx, f.fail = context.WithCancelCause(t.Context())
	dir := tempDir(t)
	f.program = buildProgram(t)
	// SIGKILL loses no data that PostgreSQL has passed to the kernel, so fsync may stay off. But commit records must be
	// written before the response, and a killed process may leave a page half written.
	var err error
	f.postgres, err = local.Start(t.Context(), local.Options{
		Dir: filepath.Join(dir, "data"), Throwaway: true,
		Settings: map[string]string{"synchronous_commit": "on", "full_page_writes": "on"},
	})
	check(t, err)
	t.Cleanup(func() { check(t, f.postgres.Stop(context.Background())) })
	f.env = append([]string{
		"DATABASE_URL=" + f.postgres.AppURL(), "MIGRATE_DATABASE_URL=" + f.postgres.OwnerURL(), secretEnv,
		"ACCESS_TOKEN_EXPIRE_MINUTES=10000", loopbackWebhooks,
	}, noLimits...)
	f.program.addUser(t, f.env, "farm", "ada@farm.example", "admin")
	for i := range f.children {
		f.start(t, i)
	}
	f.token = f.children[0].login(t, "ada@farm.example", testPassword)
	for i := range f.spools {
		status, spool := f.children[i%faultInstances].call(t, f.token, "POST", "/api/v1/spools", faultSpool("start"))
		if status != 201 {
			t.Fatalf("POST /api/v1/spools: %d %v", status, spool)
		}
		f.spools[i] = spool["id"].(string)
		f.numbers[f.spools[i]] = int(spool["number"].(float64))
	}
	product := func(body map[string]any) string {
		t.Helper()
		status, product := f.children[0].call(t, f.token, "POST", "/api/v1/products", body)
		if status != 201 {
			t.Fatalf("POST /api/v1/products: %d %v", status, product)
		}
		return product["id"].(string)
	}
	f.product, f.counted = product(map[string]any{"name": "Part", "sku": "PART"}),
		product(map[string]any{"name": "Counted"})
	f.kit = product(map[string]any{"name": "Kit",
		"components": []any{map[string]any{"component_product_id": f.product, "quantity": 2}}})
	status, entry := f.children[0].call(t, f.token, "POST", "/api/v1/products/"+f.product+"/adjust",
		map[string]any{"pieces": 1_000_000, "reason": "start"})
	if status != 200 {
		t.Fatalf("adjust: %d %v", status, entry)
	}
	status, shop := f.children[0].call(t, f.token, "POST", "/api/v1/shops",
		map[string]any{"kind": "generic", "name": faultShop})
	if status != 201 {
		t.Fatalf("POST /api/v1/shops: %d %v", status, shop)
	}
	f.shop, f.secret = shop["address"].(string), shopSecret(t, shop)
	f.file, err = os.ReadFile("catalog/slicer/testdata/prusaslicer.gcode")
	check(t, err)
	return f
}

// faultShop is the name of the shop, which is the source of its orders.
const faultShop = "dragons.example"

func faultSpool(notes string) map[string]any {
	return map[string]any{
		"material_type": "PLA", "color": "Black", "diameter_mm": 1.75,
		"net_weight_grams": json.Number(faultNetGrams), "notes": notes,
	}
}

// start starts an instance, or restarts one that was killed.
func (f *faultTest) start(t *testing.T, i int) {
	t.Helper()
	c := f.program.startAs(t, func(c *exec.Cmd) {
		c.Stderr = &logFilter{to: c.Stderr, onInternalError: func(line []byte) { t.Logf("%s", line) }}
	}, f.env)
	f.children[i] = c
	f.urls[i].Store(&c.url)
}

// logFilter passes log lines on, except those of successful requests, so that a long test does not keep them in
// memory.
type logFilter struct {
	to              io.Writer
	onInternalError func(line []byte) // called instead for internal errors of PostgreSQL
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

// failure returns the first error of a client, or nil.
func (f *faultTest) failure() error { return context.Cause(f.ctx) }

// kill kills processes at random times while the clients write. It returns the longest time from the end of
// PostgreSQL's recovery until the service responded, and the number of kills by kind.
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
	eventually(t, "PostgreSQL has restarted", func() bool { return f.postgres.PID() != pid })
}

// killBackend kills a PostgreSQL backend that serves an instance. PostgreSQL then ends all other backends and
// recovers.
func (f *faultTest) killBackend(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), f.postgres.SuperURL())
	check(t, err)
	defer conn.Close(t.Context())
	var pid int
	const query = `select pid from pg_stat_activity where usename = $1 order by random() limit 1`
	check(t, conn.QueryRow(t.Context(), query, local.LoginRole).Scan(&pid))
	err = syscall.Kill(pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) { // the instance has closed the connection in the meantime
		f.killBackend(t)
		return
	}
	check(t, err)
	eventually(t, "PostgreSQL closes all connections", func() bool {
		_, err := conn.Exec(t.Context(), "select 1")
		return err != nil
	})
}

// waitForRecovery waits until PostgreSQL accepts connections, and returns how much longer it takes until every
// instance responds.
func (f *faultTest) waitForRecovery(t *testing.T) time.Duration {
	t.Helper()
	f.eventually(t, "PostgreSQL accepts connections", func() bool {
		conn, err := pgx.Connect(t.Context(), f.postgres.SuperURL())
		if err == nil {
			err = conn.Ping(t.Context())
			conn.Close(t.Context())
		}
		return err == nil
	})
	since := time.Now()
	for _, c := range f.children {
		f.eventually(t, "the service responds", func() bool {
			r, err := f.request(c.url, "GET", "/api/v1/spools?limit=1", "", nil)
			return err == nil && r.status == 200
		})
	}
	return time.Since(since)
}

// eventually also returns when a client has failed, because requests are cancelled then.
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
	header := http.Header{"Authorization": {"Bearer " + f.token}}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	content, isFile := body.([]byte)
	switch {
	case isFile:
		header.Set("Content-Type", "application/octet-stream")
	case body != nil:
		var err error
		if content, err = json.Marshal(body); err != nil {
			return faultResponse{}, err
		}
		header.Set("Content-Type", "application/json")
	}
	return f.do(method, url+path, header, content)
}

func (f *faultTest) do(method, url string, header http.Header, body []byte) (faultResponse, error) {
	r, err := http.NewRequestWithContext(f.ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return faultResponse{}, err
	}
	r.Header = header
	response, err := f.http.Do(r)
	if err != nil {
		return faultResponse{}, err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	return faultResponse{response.StatusCode, response.Header, b}, err
}

// post sends a request to random instances until it gets a response other than 503.
func (f *faultTest) post(path, key string, body any) (faultResponse, error) {
	return f.send("POST", path, key, body)
}

func (f *faultTest) send(method, path, key string, body any) (faultResponse, error) {
	return f.repeat(func(url string) (faultResponse, error) { return f.request(url, method, path, key, body) })
}

// repeat calls request with the URLs of random instances until there is a response other than 503.
func (f *faultTest) repeat(request func(url string) (faultResponse, error)) (faultResponse, error) {
	for f.ctx.Err() == nil {
		url := f.urls[rand.IntN(faultInstances)].Load()
		if url == nil {
			time.Sleep(time.Millisecond)
			continue
		}
		a, err := request(*url)
		switch {
		case err != nil:
			f.unanswered.Add(1)
		case a.status == 503:
			f.unavailable.Add(1)
			if a.header.Get("Retry-After") == "" || a.header.Get("Idempotency-Replayed") != "" || !json.Valid(a.body) {
				return a, fmt.Errorf("an invalid 503: %v: %s", a.header, a.body)
			}
		default:
			return a, nil
		}
		time.Sleep(rand.N(50 * time.Millisecond)) // less than Retry-After, which causes more conflicts
	}
	return faultResponse{}, f.failure()
}

// write sends a write until it is acknowledged with the status. One in 20 is sent twice, concurrently, with the same
// key.
func (f *faultTest) write(key, path string, body any, status int) (faultResponse, error) {
	f.writes.Add(1)
	var second faultResponse
	var secondErr error
	var wg sync.WaitGroup
	twice := rand.IntN(20) == 0
	if twice {
		wg.Go(func() { second, secondErr = f.post(path, key, body) })
	}
	first, err := f.post(path, key, body)
	wg.Wait()
	isReplay := func(r faultResponse) bool { return r.header.Get("Idempotency-Replayed") != "" }
	switch {
	case err != nil || secondErr != nil:
		return first, errors.Join(err, secondErr)
	case first.status != status:
		return first, fmt.Errorf("POST %s: %d %s", path, first.status, first.body)
	case twice && (second.status != status || !bytes.Equal(second.body, first.body)):
		return first, fmt.Errorf("POST %s, sent twice: %d %s and %d %s",
			path, first.status, first.body, second.status, second.body)
	case twice && !isReplay(first) && !isReplay(second):
		return first, fmt.Errorf("POST %s, sent twice: neither response is a replay", path)
	}
	if isReplay(first) {
		f.replays.Add(1)
	}
	return first, nil
}

// client sends writes until all clients together have sent enough.
func (f *faultTest) client(c int) {
	acked := map[string]ack{}
	for n := 0; f.writes.Load() < int64(*faultWrites) && f.ctx.Err() == nil; n++ {
		if err := f.step(fmt.Sprintf("%d-%d", c, n), acked); err != nil {
			f.fail(fmt.Errorf("client %d: %w", c, err))
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.Copy(f.acked, acked)
}

// step deducts, creates a spool, a product or an order, changes pieces in stock, or creates a run and completes, fails
// or cancels it. It also takes deductions back and corrects runs. It adds the acknowledged writes to acked.
func (f *faultTest) step(key string, acked map[string]ack) error {
	spool := f.spools[rand.IntN(faultSpools)]
	weight := value.Decimal(1 + rand.IntN(500_000))
	repeatLater := rand.IntN(*faultWrites) < 200
	write := func(key, path string, body any, status int, a ack) (ack, error) {
		got, err := f.write(key, path, body, status)
		if err != nil {
			return a, err
		}
		var answer struct {
			ID        string
			ProductID string `json:"product_id"` // in the response to a file
			Deducted  json.Number
			Spools    []struct{ Deducted json.Number } `json:"spools_updated"`
			Remaining json.Number                      `json:"remaining_weight_grams"`
		}
		if err := json.Unmarshal(got.body, &answer); err != nil {
			return a, err
		}
		answer.ID = cmp.Or(answer.ID, answer.ProductID)
		if a.id == "" {
			a.id = answer.ID
		}
		deducted := answer.Deducted
		if len(answer.Spools) == 1 {
			deducted = answer.Spools[0].Deducted
		}
		if a.id != answer.ID || a.weight > 0 && deducted.String() != a.weight.String() {
			return a, fmt.Errorf("POST %s of %v: %s", path, a.weight, got.body)
		}
		if repeatLater {
			a.path, a.body, a.response = path, body, got.body
		}
		acked[key] = a
		return a, nil
	}
	grams := json.Number(weight.String())
	switch n := rand.IntN(11); {
	case n < 1:
		return f.report(spool, weight)
	case n >= 10 && rand.IntN(4) == 0:
		file := slices.Concat(f.file, []byte("\n; "+key+"\n")) // the same file would update the first product
		_, err := write(key, "/api/v1/products/from-file?name="+key, file, 200, ack{kind: "file"})
		return err
	case n >= 10:
		return f.message(key)
	case n < 2: // like a printer
		f.writes.Add(1)
		path := fmt.Sprintf("/spoolman/api/v1/spool/%d/use", f.numbers[spool])
		a, err := f.send("PUT", path, key, map[string]any{"use_weight": grams})
		if err == nil && a.status != 200 {
			err = fmt.Errorf("PUT %s: %d %s", path, a.status, a.body)
		}
		if a.header.Get("Idempotency-Replayed") != "" {
			f.replays.Add(1)
		}
		acked[key] = ack{kind: "print", id: spool, spool: spool, weight: weight}
		return err
	case n < 6:
		deduction := map[string]any{"weight_grams": grams, "reason": key}
		_, err := write(key, "/api/v1/spools/"+spool+"/deduct", deduction, 200,
			ack{kind: "deduct", id: spool, spool: spool, weight: weight})
		if err == nil && rand.IntN(4) == 0 {
			err = f.reverse(key, spool, weight, acked, write)
		}
		return err
	case n < 7:
		_, err := write(key, "/api/v1/spools", faultSpool(key), 201, ack{kind: "create"})
		return err
	case n < 8 && rand.IntN(2) == 0:
		return f.order(key, write)
	case n < 8:
		return f.pieces(key, write)
	}
	body := map[string]any{"notes": key + "-run"}
	run, err := write(key+"-run", "/api/v1/production-runs", body, 201, ack{kind: "run"})
	if err != nil {
		return err
	}
	path := "/api/v1/production-runs/" + run.id
	body = map[string]any{"spool_id": spool, "spool_weight_before_grams": grams, "spool_weight_after_grams": 0}
	if _, err := write(key+"-material", path+"/materials", body, 201, ack{kind: "material"}); err != nil {
		return err
	}
	ends := []string{"complete", "fail", "cancel"}
	bodies := map[string]any{"complete": nil, "fail": map[string]any{"reason": "power_failure"}, "cancel": nil}
	kind := ends[max(0, rand.IntN(4)-1)] // half of them complete
	end := ack{kind: kind, id: run.id, spool: spool, weight: weight}
	if _, err := write(key+"-"+kind, path+"/"+kind, bodies[kind], 200, end); err != nil {
		return err
	}
	if rand.IntN(4) == 0 { // the correction takes back a part of the use
		less := value.Decimal(rand.IntN(int(weight)))
		body := map[string]any{"reason": key, "materials": []any{
			map[string]any{"spool_id": spool, "actual_weight_grams": json.Number((weight - less).String())}}}
		if _, err := write(key+"-correct", path+"/correct", body, 200,
			ack{kind: "correct", id: run.id, spool: spool, weight: -less}); err != nil {
			return err
		}
	}
	if rand.IntN(8) > 0 {
		return nil
	}
	kind = ends[rand.IntN(3)]
	again, err := f.post(path+"/"+kind, key+"-again", bodies[kind])
	if err == nil && again.status != 400 {
		err = fmt.Errorf("%s of a run that has ended: %d %s, want 400", kind, again.status, again.body)
	}
	return err
}

// reverse reverses the deduction with the key, unless others have made a hundred deductions from the spool since.
func (f *faultTest) reverse(key, spool string, weight value.Decimal, acked map[string]ack,
	write func(string, string, any, int, ack) (ack, error),
) error {
	path := "/api/v1/spools/" + spool + "/usage"
	a, err := f.send("GET", path+"?kind=deducted&limit=100", "", nil)
	if err != nil {
		return err
	}
	var list struct {
		Items []struct{ ID, Reason string }
	}
	if err := json.Unmarshal(a.body, &list); err != nil || a.status != 200 {
		return fmt.Errorf("GET %s: %d %s", path, a.status, a.body)
	}
	for _, entry := range list.Items {
		if entry.Reason != key {
			continue
		}
		key += "-reverse"
		_, err := write(key, path+"/"+entry.ID+"/reverse", map[string]any{"reason": key}, 200,
			ack{kind: "reverse", spool: spool, weight: -weight})
		a := acked[key]
		a.id = spool // as that of a deduction
		acked[key] = a
		return err
	}
	return nil
}

// shopSecret returns the secret with which a generic shop signs its messages.
func shopSecret(t *testing.T, shop map[string]any) []byte {
	t.Helper()
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(shop["secret"].(string), "whsec_"))
	check(t, err)
	return secret
}

// shopHeader returns the header of a message that a generic shop signs at this moment.
func shopHeader(secret []byte, id string, body []byte) http.Header {
	now := time.Now().Unix()
	header := http.Header{}
	header.Set("webhook-id", id)
	header.Set("webhook-timestamp", strconv.FormatInt(now, 10))
	header.Set("webhook-signature", webhooks.Signature(secret, id, now, body))
	return header
}

// message sends messages about an order of the shop, each until it is acknowledged: the order, and half of the time
// another quantity.
func (f *faultTest) message(key string) error {
	updated := time.Now()
	for range 1 + rand.IntN(2) {
		updated = updated.Add(time.Minute)
		quantity := 1 + rand.IntN(1000)
		body, err := json.Marshal(map[string]any{"id": key, "reference": key, "updated_at": updated, "lines": []any{
			map[string]any{"id": "1", "title": "Part", "sku": "PART", "quantity": quantity},
			map[string]any{"id": "2", "title": "Unknown", "quantity": 1}}})
		if err != nil {
			return err
		}
		header := shopHeader(f.secret, key, body)
		f.writes.Add(1)
		a, err := f.repeat(func(url string) (faultResponse, error) {
			return f.do("POST", url+f.shop, header.Clone(), body)
		})
		if err == nil && a.status != 200 {
			err = fmt.Errorf("POST %s: %d %s", f.shop, a.status, a.body)
		}
		if err != nil {
			return err
		}
		f.mu.Lock()
		f.messages[key] = quantity
		f.mu.Unlock()
	}
	return nil
}

// order creates an order, adds an item, and prints one of its items in a run, which makes the order in_production.
func (f *faultTest) order(key string, write func(string, string, any, int, ack) (ack, error)) error {
	items := []map[string]any{{"product_id": f.product}, {"product_id": f.product, "quantity": 2}}
	order, err := write(key, "/api/v1/orders", map[string]any{"source": "shop", "reference": key, "items": items}, 201,
		ack{kind: "order"})
	if err != nil {
		return err
	}
	item, err := write(key+"-item", "/api/v1/orders/"+order.id+"/items", map[string]any{"product_id": f.product}, 201,
		ack{kind: "item"})
	if err != nil {
		return err
	}
	_, err = write(key+"-run", "/api/v1/production-runs",
		map[string]any{"notes": key + "-run", "status": "in_progress",
			"items": []map[string]any{{"product_id": f.product, "order_item_id": item.id}}}, 201, ack{kind: "run"})
	return err
}

// pieces counts, adjusts or assembles pieces, or creates an order and delivers it.
func (f *faultTest) pieces(key string, write func(string, string, any, int, ack) (ack, error)) error {
	var err error
	switch rand.IntN(4) {
	case 0:
		_, err = write(key, "/api/v1/products/"+f.counted+"/count",
			map[string]any{"counted": rand.IntN(1000), "reason": key}, 200, ack{kind: "pieces"})
	case 1:
		_, err = write(key, "/api/v1/products/"+f.product+"/adjust",
			map[string]any{"pieces": 1 + rand.IntN(9), "reason": key}, 200, ack{kind: "pieces"})
	case 2:
		_, err = write(key, "/api/v1/products/"+f.kit+"/assemble",
			map[string]any{"quantity": 1, "reason": key}, 200, ack{kind: "assemble"})
	default:
		var order ack
		items := []map[string]any{{"product_id": f.product, "quantity": 2}}
		order, err = write(key, "/api/v1/orders",
			map[string]any{"source": "pieces", "reference": key, "items": items}, 201, ack{kind: "order"})
		if err == nil {
			_, err = write(key+"-deliver", "/api/v1/orders/"+order.id+"/deliver", map[string]any{}, 200,
				ack{kind: "deliver", id: order.id})
		}
	}
	return err
}

// report sends a report as printers do: without a key, to random instances, until it is acknowledged.
func (f *faultTest) report(spool string, weight value.Decimal) error {
	f.writes.Add(1)
	path := fmt.Sprintf("/spoolman/api/v1/spool/%d/use", f.numbers[spool])
	body := map[string]any{"use_weight": json.Number(weight.String())}
	for f.ctx.Err() == nil {
		url := f.urls[rand.IntN(faultInstances)].Load()
		if url == nil {
			time.Sleep(time.Millisecond)
			continue
		}
		a, err := f.request(*url, "PUT", path, "", body)
		f.mu.Lock()
		switch {
		case err != nil || a.status == 503:
			f.uncertain[spool] += weight
		case a.status == 200:
			f.reported[spool] += weight
			f.mu.Unlock()
			return nil
		default:
			f.mu.Unlock()
			return fmt.Errorf("PUT %s: %d %s", path, a.status, a.body)
		}
		f.mu.Unlock()
		time.Sleep(rand.N(50 * time.Millisecond))
	}
	return f.failure()
}

// verify compares the database with the acknowledged writes.
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
	errors := 0
	report := func(format string, args ...any) {
		t.Helper()
		if errors++; errors <= 20 {
			t.Errorf(format, args...)
		}
	}

	// Each row contains the key of its write, except for run_materials. Each acknowledged write must have one row,
	// and each row an acknowledged write.
	left := maps.Clone(f.acked) // writes whose row was not found yet
	byRun := map[string]string{}
	used := map[string]value.Decimal{}
	for key, a := range f.acked {
		used[a.spool] += a.weight
		if endsRun("/" + a.kind) {
			byRun[a.id] = key
		}
	}
	take := func(key, id string) {
		t.Helper()
		a, ok := left[key]
		if !ok {
			if _, known := f.acked[key]; known {
				report("the write %s was applied twice", key)
			} else {
				report("the write %q was applied, but not acknowledged", key)
			}
			return
		}
		if a.id != id {
			report("the write %s: the response has the id %s, the database %s", key, a.id, id)
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
	for key, a := range left { // the ledger of a run has the sum of its end and its correction
		if a.kind == "correct" {
			end := f.acked[byRun[a.id]]
			end.weight += a.weight
			f.acked[byRun[a.id]] = end
			delete(left, key)
		}
	}
	stream(`
		select kind, coalesce(reason, run_id::text), spool_id::text, sum(-spool_usage.change_grams * 1000000)::bigint
		from spool_usage where kind in ('deducted', 'run', 'wasted')
		group by run_id, case when run_id is null then id end, 1, 2, 3`,
		func(kind, key, spool string, weight int64) {
			id := spool
			if kind != "deducted" {
				id = key
				if key = byRun[key]; key == "" {
					report("run %s has ended, but this was not acknowledged", id)
					return
				}
			}
			if a := f.acked[key]; kind == "wasted" != (a.kind == "fail" || a.kind == "cancel") {
				report("the write %s: the ledger has the kind %s, acknowledged was %s", key, kind, a.kind)
			}
			if a := f.acked[key]; a.spool != spool || int64(a.weight) != weight {
				report("the write %s: the ledger has %d millionths of spool %s, acknowledged were %d of %s",
					key, weight, spool, a.weight, a.spool)
			}
			take(key, id)
		})
	stream(`
		select 'spool', notes, id::text, 0 from spools where notes <> 'start'
		union all select 'file', name, id::text, 0 from products where file_sha256 is not null
		union all select 'run', notes, id::text, 0 from production_runs
		union all select 'order', reference, id::text, 0 from orders where source <> '`+faultShop+`'
		union all (select distinct on (o.id) 'item', o.reference || '-item', i.id::text, 0
			from orders o join order_items i on i.order_id = o.id where o.source = 'shop'
			order by o.id, i.created_at desc)
		union all select 'pieces', reason, id::text, 0 from piece_entries
			where kind in ('corrected', 'counted') and reason <> 'start'
		union all select 'assemble', e.reason, '', 0 from piece_entries e join products p on p.id = e.product_id
			where e.kind = 'assembled' and p.name = 'Kit'
		union all select 'deliver', o.reference || '-deliver', o.id::text, 0
			from piece_entries e join orders o on o.id = e.order_id where e.kind = 'delivered'`,
		func(_, key, id string, _ int64) { take(key, id) })
	if n := count(`
		select count(*) from orders o
		where o.source = 'shop' and (status <> 'in_production'
			or (select sum(quantity) from order_items i where i.order_id = o.id) <> 4
			or (select count(*) from order_items i join run_items r on r.order_item_id = i.id where i.order_id = o.id) <> 1)`,
	); n != 0 {
		report("%d orders do not have their items, their run and its status", n)
	}
	if n := count(`
		select count(*) from orders o join order_items i on i.order_id = o.id
		where o.source = 'pieces' and (o.status = 'done') <> (i.delivered = 2)`); n != 0 {
		report("%d orders are done without their pieces, or the reverse", n)
	}
	stream(`select reference, status, (select count(*) from order_lines l where l.order_id = o.id)::text, (select
			sum(quantity) from order_items i where i.order_id = o.id)
		from orders o where source = '`+faultShop+`'`,
		func(reference, status, lines string, quantity int64) {
			if want := f.messages[reference]; int(quantity) != want || status != "received" || lines != "2" {
				report("the order %s of the shop is %s with %d pieces and %s lines, acknowledged were %d", reference, status,
					quantity, lines, want)
			}
			delete(f.messages, reference)
		})
	for reference := range f.messages {
		report("the order %s of the shop was acknowledged, but is lost", reference)
	}
	if n := count(`
		select count(*) from product_pieces s
			join (select product_id, sum(pieces) as pieces from piece_entries group by 1) e on e.product_id = s.product_id
		where s.on_hand <> e.pieces`); n != 0 {
		report("the stock of %d products differs from their ledgers", n)
	}
	if n := count(`
		select count(*) from (
			select sum(pieces) filter (where p.name = 'Kit') as made, -sum(pieces) filter (where p.name = 'Part') as used
			from piece_entries e join products p on p.id = e.product_id
			where e.kind = 'assembled' or e.assembly_id is not null group by e.assembly_id) a
		where used is distinct from 2 * made`); n != 0 {
		report("%d assemblies have not used two parts for each kit", n)
	}
	materials := map[string]bool{}
	stream(`select '', '', id::text, 0 from run_materials`, func(_, _, id string, _ int64) { materials[id] = true })
	acked := 0
	for key, a := range left {
		switch {
		case a.kind == "material" && materials[a.id]:
			acked++
			delete(left, key)
		case a.kind == "print": // an entry of the ledger has several; the remaining weights show each of them
			delete(left, key)
		}
	}
	if acked != len(materials) {
		report("%d materials exist, %d were acknowledged", len(materials), acked)
	}
	for key, a := range left {
		report("the write %s (%s) was acknowledged, but is lost", key, a.kind)
	}
	if n := count(`select count(*) from idempotency_keys where status between 200 and 201`); n != len(f.acked) {
		report("%d keys are stored, %d writes were acknowledged", n, len(f.acked))
	}
	if n := count(`select count(*) from idempotency_keys where status is null or status > 201`); n != 0 {
		report("%d keys are stored without a success", n)
	}

	// Remaining weights agree with the ledgers and with the acknowledged writes.
	if n := count(`
		select count(*) from spools s
			left join (select spool_id, sum(spool_usage.change_grams) as grams from spool_usage group by 1) u
				on u.spool_id = s.id
		where s.remaining_weight_grams is distinct from u.grams`); n != 0 {
		report("%d spools differ from their ledgers", n)
	}
	if n := count(`select count(*) from spool_usage u where not valid_usage(u)`); n != 0 {
		report("%d entries of ledgers are not valid", n)
	}
	const untouched = `select count(*) from spools where notes <> 'start' and remaining_weight_grams <> ` +
		faultNetGrams
	if n := count(untouched); n != 0 {
		report("%d spools without deductions have another weight than at first", n)
	}
	full, _ := value.ParseDecimal(faultNetGrams)
	for i, spool := range f.spools {
		_, answer := f.children[i%faultInstances].call(t, f.token, "GET", "/api/v1/spools/"+spool, nil)
		var remaining string
		const query = `select trim_scale(remaining_weight_grams)::text from spools where id = $1`
		check(t, conn.QueryRow(t.Context(), query, spool).Scan(&remaining))
		want := full - used[spool] - f.reported[spool]
		least := want - f.uncertain[spool]
		left, ok := value.ParseDecimal(remaining)
		if !ok || left > want || left < least {
			report("spool %s has %s g left, want %v to %v after the acknowledged writes", spool, remaining, least,
				want)
			continue
		}
		want = left
		shown, ok := value.ParseDecimal(fmt.Sprintf("%.6f", answer["remaining_weight_grams"]))
		if !ok || shown != want {
			report("GET returns spool %s with %v g, want %v", spool, answer["remaining_weight_grams"], want)
		}
	}

	// Requests that are repeated now get the same response, and have no effect.
	entries, repeated := count(`select count(*) from spool_usage`), 0
	for key, a := range f.acked {
		if a.response == nil {
			continue
		}
		repeated++
		again, err := f.post(a.path, key, a.body)
		check(t, err)
		if again.header.Get("Idempotency-Replayed") != "true" || !bytes.Equal(again.body, a.response) {
			report("%s, repeated: %d %s, want the replay of %s", key, again.status, again.body, a.response)
		}
	}
	if n := count(`select count(*) from spool_usage`); n != entries || repeated == 0 {
		report("%d repeated requests added %d ledger entries, want some requests and 0 entries", repeated, n-entries)
	}
	last, err := f.post("/api/v1/spools", value.NewID(), faultSpool("end"))
	if err != nil || last.status != 201 {
		report("a new write: %d %s %v", last.status, last.body, err)
	}
}
