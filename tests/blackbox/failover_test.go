package blackbox_test

import (
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
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
					testkit.Equal(t, a.Status, 200, "%s: %s: %s", what, a.What, a.Body)
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
		testkit.Equal(t, addedRows(r.before, r.countRows(t, conn)), r.want, "%s added", r.op.Pattern)
	}
}

// A standby is promoted while clients write. One instance reaches the primary through a proxy that keeps the sessions
// to the old primary open; the other one knows both hosts. Both serve the new primary without a restart, and it has
// every acknowledged write once: see rig.
func TestFailover(t *testing.T) {
	testkit.Rig(t)
	t.Parallel()
	old := testkit.Cluster(t, testkit.Synchronous)
	at := testkit.Standby(t, old)
	testkit.Exec(t, old, `alter system set synchronous_standby_names = '*'`, `select pg_reload_conf()`)
	proxy := testkit.NewForwarder(t, "127.0.0.1:0", old.SuperURL())
	env := func(url string) []string { return append(databaseEnv(old), "DATABASE_URL="+url) }
	r := newRig(t, &instance{name: "proxy", env: env(proxy.URL(t, old.AppURL()))},
		&instance{name: "two-hosts", env: env(bothHosts(t, old.AppURL(), at(old.AppURL())))})
	end := r.load(4)
	t.Cleanup(end)
	r.awaitAnswers(t, time.Now())
	r.awaitWrites(t, 100)
	ready := func(i int) int { return r.instances[i].process.Load().must(t, "GET", "/readyz", nil, nil).status }

	// The old primary is demoted: it serves its sessions, but only their reads.
	testkit.Exec(t, old, `alter system set default_transaction_read_only = on`, `select pg_reload_conf()`)
	eventually(t, "no instance is ready", func() bool { return ready(0) == 503 && ready(1) == 503 })
	for path, want := range map[string]int{"/api/v1/vendors": 200, "/api/v1/vendors/export": 503} { // no entry, no export
		a := r.instances[0].process.Load().must(t, "GET", path, bearer(r.token), nil)
		if a.status != want || (a.header.Get("Retry-After") != "") != (want == 503) {
			t.Errorf("GET %s of a read-only database: %d %v, want %d", path, a.status, a.header, want)
		}
	}
	testkit.ExecURL(t, at(old.SuperURL()), `select pg_promote()`, `alter system reset synchronous_standby_names`,
		`select pg_reload_conf()`)
	promoted := time.Now()
	proxy.Switch(t, at(old.SuperURL()))
	r.awaitAnswers(t, promoted)
	r.awaitWrites(t, 100)
	for i := range r.instances {
		eventually(t, "the instance is ready", func() bool { return ready(i) == 200 })
	}
	end()
	r.verify(t, at(old.SuperURL()))
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
