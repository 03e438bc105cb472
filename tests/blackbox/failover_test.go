package blackbox_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/db"
	"spoolwright/tests/testkit"
)

// TestSynchronousStandbyAway stops the synchronous standby. Until it is back, no write is acknowledged, neither by
// its first response nor by a replay, and reads succeed. Then a replay is acknowledged, and the effect is that of one
// request.
func TestSynchronousStandbyAway(t *testing.T) {
	testkit.Rig(t)
	t.Parallel()
	s := testkit.Cluster(t, testkit.Synchronous)
	conn, err := pgx.Connect(t.Context(), s.SuperURL())
	check(t, err)
	defer conn.Close(t.Context())
	d, err := db.Open(t.Context(), db.Config{URL: s.AppURL(), MaxConns: 16})
	check(t, err)
	defer d.Close()
	w := newTestAPI(t, testkit.Options{DB: d})

	type sent struct {
		*fixture
		op     *operation
		path   string
		body   map[string]any
		client *testkit.Client
		before map[string]tableRows
		want   string // what the operation adds
	}
	var all []*sent
	for _, op := range w.operations {
		f, path, body := w.newRequest(t, op)
		if _, selects := body["filter"]; selects { // the filter of the example finds no spool, so that nothing is written
			delete(body, "filter")
			body["ids"] = []any{f.create(t, path, path)}
		}
		r := &sent{fixture: f, op: op, path: path, body: body, client: f.admin}
		if acceptsKey(op) {
			r.client = withKey(f.admin, "key")
			plain, path, body := w.newRequest(t, op)
			rows := plain.countRows(t, conn)
			plain.do(t, plain.admin, op, path, body)
			r.want = addedRows(rows, plain.countRows(t, conn))
			r.before = f.countRows(t, conn)
		}
		all = append(all, r)
	}
	testkit.LoseStandby(t, s)

	// sendAll sends all requests and checks that only those succeed that only read.
	sendAll := func(what string) {
		t.Helper()
		var wg sync.WaitGroup
		for _, r := range all {
			wg.Go(func() {
				switch a := r.do(t, r.client, r.op, r.path, r.body); {
				case r.op.Method() == "GET" || strings.HasSuffix(r.path, "/connection/test"):
					if a.Status != 200 {
						t.Errorf("%s: %s: %d %s", what, a.What, a.Status, a.Body)
					}
				case a.Status != 503 || a.Header.Get("Retry-After") == "" || a.Header.Get("Location") != "" ||
					isReplay(a):
					t.Errorf("%s: %s: %d %v %s", what, a.What, a.Status, a.Header, a.Body)
				}
			})
		}
		wg.Wait()
	}
	for _, r := range all {
		if strings.HasSuffix(r.op.Path(), "/otp/confirm") { // the code of the time when the request was made has expired
			r.body["otp"] = testkit.TOTP(r.secret, time.Now())
		}
	}
	begin := time.Now()
	sendAll("until the deadline")
	if took := time.Since(begin); took < 9*time.Second {
		t.Errorf("the writes were answered within %v", took)
	}
	all = slices.DeleteFunc(all, func(r *sent) bool { return !acceptsKey(r.op) })
	stop := testkit.Interrupt(t, s, "pg_cancel_backend")
	sendAll("with pg_cancel_backend")
	stop()

	testkit.FindStandby(t, s)
	for _, r := range all {
		a := r.do(t, r.client, r.op, r.path, r.body)
		// An import first reserves numbers, which waits for the standby too; the import itself did not begin then.
		replayed := isReplay(a) || strings.HasSuffix(r.path, "/import")
		if a.Status >= 300 || !replayed {
			t.Errorf("with the standby: %s: %d %s", a.What, a.Status, a.Body)
		}
		if got := addedRows(r.before, r.countRows(t, conn)); got != r.want {
			t.Errorf("%s added %s, want %s", r.op.Pattern, got, r.want)
		}
	}
}

// A standby is promoted while clients write. One instance reaches the primary through a proxy that keeps the sessions
// to the old primary open; the other one knows both hosts. Both serve the new primary without a restart, and it has
// every acknowledged write once.
func TestFailover(t *testing.T) {
	testkit.Rig(t)
	t.Parallel()
	p := buildProgram(t)
	old := testkit.Cluster(t, testkit.Synchronous)
	at := testkit.Standby(t, old)
	testkit.Exec(t, old, `alter system set synchronous_standby_names = '*'`, `select pg_reload_conf()`)
	proxy := testkit.NewForwarder(t, "127.0.0.1:0", old.SuperURL())
	owner := "MIGRATE_DATABASE_URL=" + old.OwnerURL()
	env := []string{secretEnv, "RATE_LIMIT_PER_MINUTE=0", "RATE_LIMIT_PER_HOUR=0", "RATE_LIMIT_TENANT_PER_MINUTE=0"}
	p.addUser(t, append(env, "DATABASE_URL="+old.AppURL(), owner), "farm", "ada@farm.example", "admin")
	instances := map[string]*process{
		"proxy":     p.start(t, append(env, owner, "DATABASE_URL="+proxy.URL(t, old.AppURL()))),
		"two hosts": p.start(t, append(env, owner, "DATABASE_URL="+bothHosts(t, old.AppURL(), at(old.AppURL())))),
	}
	token := instances["proxy"].login(t, "ada@farm.example", testPassword)

	// Each client creates spools, each with a key until it succeeds.
	var mu sync.Mutex
	acked := map[string]string{}      // note of the spool -> instance
	lastAck := map[string]time.Time{} // of each instance
	sent, stop := atomic.Int64{}, make(chan struct{})
	var clients sync.WaitGroup
	for name, instance := range instances {
		for range 4 {
			clients.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					note := fmt.Sprint(name, " ", sent.Add(1))
					body := `{"material_type":"PLA","color":"Black","diameter_mm":1.75,"net_weight_grams":1000,"notes":"` +
						note + `"}`
					for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
						r, err := http.NewRequest("POST", instance.url+"/api/v1/spools", strings.NewReader(body))
						check(t, err)
						r.Header.Set("Authorization", "Bearer "+token)
						r.Header.Set("Content-Type", "application/json")
						r.Header.Set("Idempotency-Key", note)
						response, err := instance.client.Do(r)
						if err != nil {
							t.Error(err)
							return
						}
						io.Copy(io.Discard, response.Body)
						response.Body.Close()
						if response.StatusCode == 201 {
							mu.Lock()
							acked[note], lastAck[name] = name, time.Now()
							mu.Unlock()
							break
						}
						if response.StatusCode != 503 || time.Since(begin) > waitTimeout {
							t.Errorf("%s: %d", note, response.StatusCode)
							return
						}
					}
				}
			})
		}
	}
	acks := func(name string, since time.Time) bool {
		mu.Lock()
		defer mu.Unlock()
		return lastAck[name].After(since)
	}
	ready := func(name string) int {
		r, err := instances[name].client.Get(instances[name].url + "/readyz")
		check(t, err)
		r.Body.Close()
		return r.StatusCode
	}
	for name := range instances {
		eventually(t, name+" writes", func() bool { return acks(name, time.Time{}) })
	}

	// The old primary is demoted: it serves its sessions, but only their reads.
	testkit.Exec(t, old, `alter system set default_transaction_read_only = on`, `select pg_reload_conf()`)
	eventually(t, "no instance is ready", func() bool { return ready("proxy") == 503 && ready("two hosts") == 503 })
	for path, want := range map[string]int{"/api/v1/vendors": 200, "/api/v1/vendors/export": 503} { // no entry, no export
		r, err := http.NewRequest("GET", instances["proxy"].url+path, nil)
		check(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		a, err := instances["proxy"].client.Do(r)
		check(t, err)
		a.Body.Close()
		if a.StatusCode != want || (a.Header.Get("Retry-After") != "") != (want == 503) {
			t.Errorf("GET %s of a read-only database: %d %v, want %d", path, a.StatusCode, a.Header, want)
		}
	}
	testkit.ExecURL(t, at(old.SuperURL()), `select pg_promote()`, `alter system reset synchronous_standby_names`,
		`select pg_reload_conf()`)
	promoted := time.Now()
	proxy.Switch(t, at(old.SuperURL()))
	for name := range instances {
		eventually(t, name+" writes to the new primary", func() bool { return acks(name, promoted) })
		eventually(t, name+" is ready", func() bool { return ready(name) == 200 })
	}
	close(stop)
	clients.Wait()

	conn, err := pgx.Connect(t.Context(), at(old.SuperURL()))
	check(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `select notes from spools order by notes`)
	check(t, err)
	stored, err := pgx.CollectRows(rows, pgx.RowTo[string])
	check(t, err)
	if want := slices.Sorted(maps.Keys(acked)); !slices.Equal(stored, want) {
		t.Errorf("the new primary has %d spools, and %d were acknowledged", len(stored), len(want))
	}
	t.Logf("%d spools were acknowledged", len(acked))
}

// bothHosts is a connection string for the primary among two hosts.
func bothHosts(t *testing.T, first, second string) string {
	t.Helper()
	u, err := url.Parse(first)
	check(t, err)
	other, err := url.Parse(second)
	check(t, err)
	a, b := u.Query(), other.Query()
	u.RawQuery = url.Values{
		"host":                 {a.Get("host") + "," + b.Get("host")},
		"port":                 {a.Get("port") + "," + b.Get("port")},
		"sslmode":              {"disable"},
		"target_session_attrs": {"read-write"},
	}.Encode()
	return u.String()
}

// The program can be started before its database: it waits, and serves when the database is there.
func TestStartBeforeDatabase(t *testing.T) {
	t.Parallel()
	p := buildProgram(t)
	s := testkit.Cluster(t, nil)
	addr := freeAddress(t)
	at := func(direct string) string {
		u, err := url.Parse(direct)
		check(t, err)
		u.Host, u.RawQuery = addr, "sslmode=disable"
		return u.String()
	}
	env := []string{secretEnv, "DATABASE_URL=" + at(s.AppURL()), "MIGRATE_DATABASE_URL=" + at(s.OwnerURL())}
	c := p.launch(t, func(*exec.Cmd) {}, env)
	stopped := p.launch(t, func(*exec.Cmd) {}, env)
	for _, c := range []*process{c, stopped} {
		eventually(t, "the program waits", func() bool {
			return strings.Contains(c.stderr.String(), "waiting for the database")
		})
	}
	stopped.stop(t, syscall.SIGTERM)
	testkit.NewForwarder(t, addr, s.SuperURL())
	c.awaitReady(t)

	wrong, err := url.Parse(s.AppURL())
	check(t, err)
	wrong.User = url.UserPassword(wrong.User.Username(), "wrong")
	// One line on stderr: the program does not wait, which it would log.
	p.fails(t, 1, []string{secretEnv, "DATABASE_URL=" + at(wrong.String())}, []string{"migrate"}, "28P01")
}
