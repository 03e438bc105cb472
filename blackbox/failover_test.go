package blackbox_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/auth/authtest"
	"spoolwright/db"
	"spoolwright/db/dbtest"
)

// While the synchronous standby is away, no write is acknowledged: not by its first response, and not by a replay. What
// reads goes on. When the standby is back, a replay is acknowledged, and the effect happened once.
func TestSynchronousStandbyAway(t *testing.T) {
	t.Parallel()
	s := dbtest.Cluster(t, dbtest.Synchronous)
	conn, err := pgx.Connect(t.Context(), s.SuperURL())
	check(t, err)
	defer conn.Close(t.Context())
	d, err := db.Open(t.Context(), db.Config{URL: s.AppURL(), MaxConns: 16})
	check(t, err)
	defer d.Close()
	w := newTestAPI(t, authtest.Options{DB: d})

	type sent struct {
		*fixture
		op     *operation
		path   string
		body   map[string]any
		client *authtest.Client
		before map[string]int
		want   string // what the operation adds
	}
	var all []*sent
	for _, op := range w.operations {
		f := w.newFullFixture(t).prepareBodies(t)
		r := &sent{fixture: f, op: op, path: f.path(t, op.Path()), body: f.body(t, op), client: f.admin}
		if acceptsKey(op) {
			r.client = withKey(f.admin, "key")
			plain := w.newFullFixture(t).prepareBodies(t)
			rows := plain.countRows(t, conn)
			plain.do(t, plain.admin, op, plain.path(t, op.Path()), plain.body(t, op))
			r.want = addedRows(rows, plain.countRows(t, conn))
			r.before = f.countRows(t, conn)
		}
		all = append(all, r)
	}
	dbtest.LoseStandby(t, s)

	// sendAll sends all requests and checks that only those succeed that only read.
	sendAll := func(what string) {
		t.Helper()
		var wg sync.WaitGroup
		for _, r := range all {
			wg.Go(func() {
				switch a := r.do(t, r.client, r.op, r.path, r.body); {
				case r.op.Method() == "GET":
					if a.Status != 200 {
						t.Errorf("%s: %s: %d %s", what, a.What, a.Status, a.Body)
					}
				case a.Status != 503 || a.Header.Get("Retry-After") == "" || a.Header.Get("Location") != "" || isReplay(a):
					t.Errorf("%s: %s: %d %v %s", what, a.What, a.Status, a.Header, a.Body)
				}
			})
		}
		wg.Wait()
	}
	begin := time.Now()
	sendAll("until the deadline")
	if took := time.Since(begin); took < 9*time.Second {
		t.Errorf("the writes were answered within %v", took)
	}
	all = slices.DeleteFunc(all, func(r *sent) bool { return !acceptsKey(r.op) })
	stop := dbtest.Interrupt(t, s, "pg_cancel_backend")
	sendAll("with pg_cancel_backend")
	stop()

	dbtest.FindStandby(t, s)
	for _, r := range all {
		if a := r.do(t, r.client, r.op, r.path, r.body); a.Status >= 300 || !isReplay(a) {
			t.Errorf("with the standby: %s: %d %s", a.What, a.Status, a.Body)
		}
		if got := addedRows(r.before, r.countRows(t, conn)); got != r.want {
			t.Errorf("%s added %s, want %s", r.op.Pattern, got, r.want)
		}
	}
}
