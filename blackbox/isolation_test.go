package blackbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"spoolwright/auth/authtest"
	"spoolwright/db"
	"spoolwright/db/dbtest"
	"spoolwright/server"
)

// Many tenants do random things through every route that there is. Each writes a mark of its own into every text. No answer,
// header or log line may ever carry another tenant's mark or the id of anything that is another tenant's; and what
// belongs to another tenant must look, to the byte, like what does not exist.
func TestIsolation(t *testing.T) {
	t.Parallel()
	operations := 20_000
	if *longFlag {
		operations = 1_000_000
	}
	runIsolation(t, dbtest.Open(t), 50, operations)
}

func runIsolation(t *testing.T, d *db.DB, tenants, operations int) {
	t.Helper()
	seed, begin := randomSeed(t), time.Now()
	marks := &leakChecker{t: t}
	w := newTestAPI(t, authtest.Options{DB: d, PerMinute: 1_000_000_000, PerHour: 1_000_000_000, Change: func(c *server.Config) {
		c.Log = slog.New(slog.NewTextHandler(marks, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}})
	var routes []*operation
	for _, op := range w.operations {
		if isProtected(op) && op.Access <= server.Write && (op.Path() == "/api/v1/auth/me" || !strings.HasPrefix(op.Path(), "/api/v1/auth/")) {
			routes = append(routes, op)
		}
	}
	for i := range tenants {
		tenant := &isolationTenant{testAPI: w, marks: marks, n: i, routes: routes, Rand: rand.New(rand.NewPCG(seed, uint64(i))), own: map[string][]resource{}, counts: map[string]int{}}
		tenant.client = w.api.Tenant(t).User(t, "operator")
		marks.ids.Store(tenant.client.Actor.Tenant, i)
		marks.ids.Store(tenant.client.Actor.User, i)
		marks.tenants = append(marks.tenants, tenant)
	}
	// A worker has some of the tenants and goes round.
	const workers = 10
	var wait sync.WaitGroup
	for worker := range workers {
		wait.Go(func() {
			for i := worker; i < operations && !t.Failed(); i += workers {
				marks.tenants[i%tenants].act()
			}
		})
	}
	wait.Wait()
	did := map[string]int{}
	pairs := 0
	for _, tenant := range marks.tenants {
		pairs += tenant.pairs
		for what, n := range tenant.counts {
			did[what] += n
		}
	}
	for _, op := range routes {
		if operations >= 10_000 && (did[op.Doc.ID+" 200"]+did[op.Doc.ID+" 201"]+did[op.Doc.ID+" 204"] == 0 || hasID(op) && did[op.Doc.ID+" 404"] == 0) {
			t.Errorf("%s never succeeded, or was never refused", op.Doc.ID)
		}
	}
	t.Logf("%d operations of %d tenants in %v, %d pairs of foreign and missing ids compared, %d own marks and %d own ids seen in answers, %d log lines",
		operations, tenants, time.Since(begin).Round(time.Second), pairs, marks.markersSeen.Load(), marks.idsSeen.Load(), marks.logLines.Load())
	if marks.markersSeen.Load() == 0 || marks.idsSeen.Load() == 0 || marks.logLines.Load() == 0 || pairs == 0 {
		t.Error("nothing was looked at")
	}
	for _, what := range slices.Sorted(maps.Keys(did)) {
		t.Logf("%7d %s", did[what], what)
	}
}

// marks knows what belongs to whom, and reads the log.
type leakChecker struct {
	t                              *testing.T
	tenants                        []*isolationTenant
	ids                            sync.Map // id -> number of the tenant
	markersSeen, idsSeen, logLines atomic.Int64
}

const marker = "canary" // followed by the tenant's number in four digits

var uuidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// look complains about everything in text that belongs to another tenant than that one.
func (m *leakChecker) check(what string, tenant int, text []byte) {
	for rest := text; ; {
		at := bytes.Index(rest, []byte(marker))
		if at < 0 {
			break
		}
		rest = rest[at+len(marker):]
		if n, err := strconv.Atoi(string(rest[:min(4, len(rest))])); err != nil || n != tenant {
			m.t.Errorf("tenant %d, %s: shows a mark of another tenant: %s", tenant, what, text)
		}
		m.markersSeen.Add(1)
	}
	for _, id := range uuidPattern.FindAll(text, -1) {
		if owner, ok := m.ids.Load(string(id)); ok {
			if m.idsSeen.Add(1); owner != tenant {
				m.t.Errorf("tenant %d, %s: shows id %s of tenant %v: %s", tenant, what, id, owner, text)
			}
		}
	}
}

var loggedTenant = regexp.MustCompile(` tenant=(\S+)`)

// Write takes a log line. It may name its own tenant, and nothing that a tenant has written.
func (m *leakChecker) Write(line []byte) (int, error) {
	m.logLines.Add(1)
	tenant := -1
	if found := loggedTenant.FindSubmatch(line); found != nil {
		if n, ok := m.ids.Load(string(found[1])); ok {
			tenant = n.(int)
		}
	}
	m.check("log", tenant, line)
	if bytes.Contains(line, []byte(marker)) || tenant < 0 || strings.Contains(string(line), "level=ERROR") {
		m.t.Errorf("the log says too much, not whose it is, or of a failure: %s", line)
	}
	return len(line), nil
}

type resource struct{ path, id string }

// isolated is a tenant, used by one worker.
type isolationTenant struct {
	*testAPI
	*rand.Rand
	marks  *leakChecker
	n      int
	routes []*operation
	client *authtest.Client
	count  int
	pairs  int
	counts map[string]int

	mu  sync.Mutex // others look for strange ids here
	own map[string][]resource
}

// pick finds a resource of the tenant's that the pattern (such as /api/v1/spools/{id}) stands for.
func (i *isolationTenant) pick(pattern string, r *rand.Rand) (resource, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := i.own[pattern]
	if len(all) == 0 {
		return resource{}, false
	}
	return all[r.IntN(len(all))], true
}

// text is a new text with the tenant's mark.
func (i *isolationTenant) text() string {
	i.count++
	return fmt.Sprintf("%s%04d text %d", marker, i.n, i.count)
}

func (i *isolationTenant) act() {
	op := i.routes[i.IntN(len(i.routes))]
	path, pattern, rest := op.Path(), "", ""
	target := resource{path: path}
	if at := strings.LastIndexByte(path, '}') + 1; at > 0 {
		pattern, rest = path[:at], path[at:]
		var ok bool
		if target, ok = i.pick(pattern, i.Rand); !ok {
			// Something has to be made first.
			if op = i.createOperation(pattern[:strings.LastIndexByte(pattern, '/')]); op == nil {
				i.marks.t.Errorf("nothing makes %s", pattern)
				return
			}
			path, pattern, rest = op.Path(), "", ""
			target = resource{path: path}
			if at := strings.LastIndexByte(path, '}') + 1; at > 0 {
				pattern, rest = path[:at], path[at:]
				if target, ok = i.pick(pattern, i.Rand); !ok {
					op = i.createOperation(pattern[:strings.LastIndexByte(pattern, '/')])
					pattern, rest, target = "", "", resource{path: op.Path()}
				}
			}
		}
	}
	body := i.randomBody(op)
	if other := i.marks.tenants[i.IntN(len(i.marks.tenants))]; other != i && i.IntN(4) == 0 {
		if pattern != "" {
			if strange, ok := other.pick(pattern, i.Rand); ok {
				i.compare(op, strange.path+rest, uuidPattern.ReplaceAllStringFunc(strange.path, func(string) string { return db.NewID() })+rest, body, body)
				return
			}
		}
		for _, name := range referenceFields(op) {
			if strange, ok := other.pick(i.collectionOf(i.marks.t, op, name)+"/{id}", i.Rand); ok {
				foreign, missing := maps.Clone(body), maps.Clone(body)
				foreign[name], missing[name] = strange.id, db.NewID()
				i.compare(op, target.path+rest, target.path+rest, foreign, missing)
				return
			}
		}
	}
	path = target.path + rest
	if op.Method() == "GET" && op.Path() != "/api/v1/auth/me" && rest == "" && pattern == "" {
		path += i.query()
	}
	a := i.send(op, path, body)
	switch {
	case a.Code == 201:
		i.recordCreated(op, a)
	case a.Code == 204:
		i.recordDeleted(pattern, target)
	}
}

func (i *isolationTenant) query() string {
	other := i.marks.tenants[i.IntN(len(i.marks.tenants))]
	switch i.IntN(5) {
	case 0:
		return "?limit=100&sort_by=id"
	case 1: // another's mark is found nowhere, and not repeated
		v := url.Values{}
		for _, name := range []string{"search", "category", "brand", "color", "printer_name"} {
			v.Set(name, fmt.Sprintf("%s%04d", marker, other.n))
		}
		return "?" + v.Encode()
	case 2:
		return fmt.Sprintf("?search=%s%04d&limit=100", marker, i.n)
	case 3:
		return fmt.Sprint("?limit=7&skip=", i.IntN(20))
	}
	return ""
}

// randomBody is the example of the document with a mark in every free text and with ids of the tenant's own.
func (i *isolationTenant) randomBody(op *operation) map[string]any {
	body := maps.Clone(op.example)
	for _, name := range slices.Sorted(maps.Keys(body)) {
		f := op.fields[name]
		_, isText := body[name].(string)
		switch {
		case f.Format == "uuid":
			if r, ok := i.pick(i.collectionOf(i.marks.t, op, name)+"/{id}", i.Rand); ok {
				body[name] = r.id
			}
		case isText && f.isFreeText():
			body[name] = i.text()
		case strings.HasSuffix(name, "_grams"):
			body[name] = 1 + i.IntN(1000)
		case name == "status":
			body[name] = []string{"pending", "paused"}[i.IntN(2)]
		}
	}
	if before, ok := body["spool_weight_before_grams"].(int); ok {
		body["spool_weight_after_grams"] = max(before-i.IntN(3), 0)
	}
	return body
}

func (i *isolationTenant) send(op *operation, path string, body map[string]any) *httptest.ResponseRecorder {
	var b any
	if op.example != nil {
		b = body
	}
	c := i.client
	if op.Method() == "POST" && i.IntN(4) == 0 {
		c = c.With("Idempotency-Key", fmt.Sprint("key ", i.IntN(1_000_000))) // those of other tenants are the same
	}
	a := callHandler(c, op.Method(), path, b)
	i.counts[fmt.Sprint(op.Doc.ID, " ", a.Code)]++
	what := op.Method() + " " + path
	if a.Code >= 500 || a.Code == 401 || a.Code == 403 {
		i.marks.t.Errorf("tenant %d: %s: %d %s", i.n, what, a.Code, a.Body)
	}
	i.marks.check(what, i.n, a.Body.Bytes())
	for name, values := range a.Header() {
		for _, v := range values {
			i.marks.check(what+" "+name, i.n, []byte(v))
		}
	}
	return a
}

// compare sends the same request about another tenant's resource and about none.
func (i *isolationTenant) compare(op *operation, foreign, missing string, foreignBody, missingBody map[string]any) {
	i.pairs++
	b := func(body map[string]any) any {
		if op.example == nil {
			return nil
		}
		return body
	}
	got, want := callHandler(i.client, op.Method(), foreign, b(foreignBody)), callHandler(i.client, op.Method(), missing, b(missingBody))
	i.counts[fmt.Sprint(op.Doc.ID, " ", got.Code)]++
	for _, a := range []*httptest.ResponseRecorder{got, want} {
		for _, name := range []string{"X-Request-Id", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			delete(a.Header(), name)
		}
	}
	// A run that is closed, or gone meanwhile, is refused for that first, in both cases.
	if got.Code != want.Code || !bytes.Equal(got.Body.Bytes(), want.Body.Bytes()) || !maps.EqualFunc(got.Header(), want.Header(), slices.Equal) || got.Code < 400 || got.Code >= 500 {
		i.marks.t.Errorf("tenant %d: %s %s: foreign: %d %v %s\nmissing: %d %v %s", i.n, op.Method(), foreign, got.Code, got.Header(), got.Body, want.Code, want.Header(), want.Body)
	}
}

func (i *isolationTenant) recordCreated(op *operation, a *httptest.ResponseRecorder) {
	var made struct{ ID string }
	if err := json.Unmarshal(a.Body.Bytes(), &made); err != nil || made.ID == "" {
		i.marks.t.Errorf("%s: %s", op.Doc.ID, a.Body)
	}
	i.marks.ids.Store(made.ID, i.n)
	i.mu.Lock()
	defer i.mu.Unlock()
	pattern := ""
	for _, other := range i.routes {
		if p := other.Path(); strings.HasPrefix(p, op.Path()+"/{") && strings.HasSuffix(p, "}") && len(pathParts(p)) == len(pathParts(op.Path()))+1 {
			pattern = p
		}
	}
	r, all := resource{a.Header().Get("Location"), made.ID}, i.own[pattern]
	if len(all) < 20 {
		i.own[pattern] = append(all, r)
	} else { // what is forgotten stays in the lists
		all[i.IntN(len(all))] = r
	}
}

func (i *isolationTenant) recordDeleted(pattern string, r resource) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.own[pattern] = slices.DeleteFunc(i.own[pattern], func(o resource) bool { return o == r })
}

// The tables and the model again, with a pooler in between that gives a connection to whoever comes next after each
// transaction.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	bouncer := startPgBouncer(t)
	for _, mode := range []string{"cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			d, err := db.Open(t.Context(), db.Config{URL: bouncer + "&default_query_exec_mode=" + mode, MaxConns: 12})
			check(t, err)
			defer d.Close()
			w := newTestAPI(t, authtest.Options{DB: d, PerMinute: 1_000_000, PerHour: 10_000_000})
			common := w.newFullFixture(t)
			for _, op := range w.operations {
				f := common
				if op.Method() == "DELETE" || strings.HasSuffix(op.Path(), "/complete") || strings.HasSuffix(op.Path(), "/logout") {
					f = w.newFullFixture(t) // after these, some of the others could not work
				}
				if a := f.do(t, f.admin, op, f.path(t, op.Path()), f.body(t, op)); a.Status >= 300 {
					t.Errorf("%s: %d %s", a.What, a.Status, a.Body)
				}
			}
			runModel(t, w, 2, 3, 1, 150)
			runIsolation(t, d, 10, 600)
		})
	}
	// Prepared statements stay on a connection that the next transaction may not get. Should this work one day, with a
	// later PgBouncer, docs/database.md need not require another mode.
	t.Run("cache_statement", func(t *testing.T) {
		if version, err := exec.Command(bouncerBinary, "--version").Output(); err != nil || !strings.Contains(string(version), " 1.18.") {
			t.Skipf("docs/database.md was tested with PgBouncer 1.18, this is %s", version)
		}
		pool, err := pgxpool.New(t.Context(), bouncer+"&default_query_exec_mode=cache_statement&pool_max_conns=12")
		check(t, err)
		defer pool.Close()
		var failed atomic.Int64
		var wait sync.WaitGroup
		for range 12 {
			wait.Go(func() {
				for range 20 {
					var n int
					if err := pool.QueryRow(t.Context(), `select $1::int from pg_sleep(0.001)`, 1).Scan(&n); err != nil {
						failed.Add(1)
					}
				}
			})
		}
		wait.Wait()
		if failed.Load() == 0 {
			t.Error("prepared statements work through PgBouncer, so docs/database.md need not require another mode")
		}
	})
}

const bouncerBinary = "pgbouncer"

// startPgBouncer runs a pooler with three connections before the test's PostgreSQL, and returns the connection string of the service's
// login through it.
func startPgBouncer(t *testing.T) string {
	t.Helper()
	binary, err := exec.LookPath(bouncerBinary)
	if err != nil {
		if binary, err = exec.LookPath("/usr/sbin/" + bouncerBinary); err != nil {
			skipTest(t, "PgBouncer is not installed")
		}
	}
	direct, err := url.Parse(dbtest.Private().AppURL())
	check(t, err)
	dir := tempDir(t)
	login := direct.User.Username()
	password, _ := direct.User.Password()
	check(t, os.WriteFile(filepath.Join(dir, "users"), fmt.Appendf(nil, "%q %q\n", login, password), 0o644))
	check(t, os.WriteFile(filepath.Join(dir, "pgbouncer.ini"), fmt.Appendf(nil, `
[databases]
* = host=%s port=%s
[pgbouncer]
pool_mode = transaction
default_pool_size = 3
unix_socket_dir = %s
listen_port = 6432
auth_type = scram-sha-256
auth_file = %s/users
`, direct.Query().Get("host"), direct.Query().Get("port"), dir, dir), 0o644))
	c := exec.Command(binary, "pgbouncer.ini")
	c.Dir = dir
	var output outputBuffer
	c.Stdout, c.Stderr = &output, &output
	c.SysProcAttr = bouncerAttributes(t, dir)
	check(t, c.Start())
	dead := make(chan struct{})
	go func() { c.Wait(); close(dead) }()
	t.Cleanup(func() {
		c.Process.Signal(syscall.SIGINT)
		select {
		case <-dead:
		case <-time.After(waitTimeout):
			c.Process.Kill()
			<-dead
		}
		if t.Failed() {
			log := output.String()
			t.Logf("PgBouncer wrote: ...%s", log[max(0, len(log)-3000):])
		}
	})
	eventually(t, "PgBouncer listens", func() bool {
		select {
		case <-dead:
			t.Fatalf("PgBouncer ended: %s", &output)
		default:
		}
		_, err := os.Stat(filepath.Join(dir, ".s.PGSQL.6432"))
		return err == nil
	})
	q := url.Values{"host": {dir}, "port": {"6432"}, "sslmode": {"disable"}}
	return fmt.Sprintf("postgres://%s:%s@%s?%s", login, password, direct.Path, q.Encode())
}

// bouncerAttributes make PgBouncer, which refuses to run as root, run as the account that PostgreSQL runs as; nobody else may
// enter the folder of PostgreSQL's socket.
func bouncerAttributes(t *testing.T, dir string) *syscall.SysProcAttr {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(account.Uid)
		gid, _ := strconv.Atoi(account.Gid)
		check(t, os.Chown(dir, uid, gid))
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	t.Fatal("no account to run PgBouncer as")
	return nil
}
