package webhooks_test

import (
	"context"
	"crypto/x509"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spoolwright/auth/authtest"
	"spoolwright/db"
	"spoolwright/db/dbtest"
	"spoolwright/db/local"
	"spoolwright/orders"
	"spoolwright/production"
	"spoolwright/server"
	"spoolwright/webhooks"
)

// emitter completes runs of one tenant.
type emitter struct {
	db    *db.DB
	bound context.Context
	runs  []string
	took  []time.Duration

	process int
}

// newEmitter creates a tenant with runs of three materials each, and with webhooks for completed runs.
func newEmitter(b *testing.B, d *db.DB, hooks, runs int) *emitter {
	b.Helper()
	e := &emitter{db: d, bound: db.As(context.Background(), db.Actor{Tenant: db.NewID()})}
	var ids []string
	err := d.Write(e.bound,
		db.SQL(`insert into tenants (name) values ('bench')`),
		db.SQL(`insert into webhooks (id, url, events, secret)
			select uuid_v7(), 'https://hooks.example', '{production_run.completed}', '\x01' from generate_series(1, $1)`, hooks),
		db.SQL(`insert into spools (id, number, material_type, color, diameter_mm, net_weight_grams, remaining_weight_grams)
			select uuid_v7(), n, 'PLA', 'Black', 1.75, 1000000, 1000000 from generate_series(1, 100) n`),
		db.SQL(`insert into production_runs (id, status) select uuid_v7(), 'pending' from generate_series(1, $1)`, runs),
		db.Scan(),
		db.SQL(`insert into run_materials (id, run_id, spool_id, sent_actual_grams)
			select uuid_v7(), r.id, s.id, 1 from (select id, row_number() over (order by id) as n from production_runs) r
			join spools s on s.number in (1 + r.n % 100, 1 + (r.n + 33) % 100, 1 + (r.n + 66) % 100)`),
		db.SQL(`select array_agg(id::text) from production_runs`).Into(&ids))
	if err != nil {
		b.Fatal(err)
	}
	e.runs = ids
	return e
}

// complete completes the next run and records the time.
func (e *emitter) complete(b *testing.B) {
	var problem *string
	begin := e.cpu(b)
	err := e.db.Write(e.bound, db.SQL(`select problem from complete_run_2($1, '[]', '[]')`, e.runs[0]).Into(&problem))
	e.took = append(e.took, e.cpu(b)-begin)
	e.runs = e.runs[1:]
	if err != nil || problem != nil {
		b.Fatal(err, *problem)
	}
}

// cpu returns the time for which the only connection's server process ran.
func (e *emitter) cpu(b *testing.B) time.Duration {
	if e.process == 0 {
		if err := e.db.Read(e.bound, db.SQL(`select pg_backend_pid()`).Into(&e.process)); err != nil {
			b.Fatal(err)
		}
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", e.process))
	if err != nil {
		b.Skip("the system has no schedstat: ", err)
	}
	var ns int64
	fmt.Sscan(string(text), &ns)
	return time.Duration(ns)
}

func (e *emitter) median() float64 {
	slices.Sort(e.took)
	return float64(e.took[len(e.took)/2].Microseconds())
}

// BenchmarkEmit compares the CPU time of complete in PostgreSQL, in turns: without webhooks in the program
// (the call is removed), without a webhook in the tenant, and with one and ten. A ratio of
// 0.9 means that a tenth of the time is for events.
func BenchmarkEmit(b *testing.B) {
	const runs = 1500
	d, without := dbtest.Database(b, db.Config{MaxConns: 1}), dbtest.Database(b, db.Config{MaxConns: 1})
	var sql string
	for _, definition := range production.Definitions {
		if definition.Name == "production/complete" {
			sql = regexp.MustCompile(`(?s)\thooks := .*?end if;\n`).ReplaceAllString(definition.SQL, "")
			if sql == definition.SQL {
				b.Fatal("complete.sql does not call event_webhooks")
			}
		}
	}
	dbtest.ExecURL(b, superURL(b, without), sql)
	plain, none := newEmitter(b, without, 0, runs), newEmitter(b, d, 0, runs)
	one, ten := newEmitter(b, d, 1, runs), newEmitter(b, d, 10, runs)
	for range 100 {
		for _, e := range []*emitter{plain, none, one, ten} {
			e.complete(b)
			e.took = nil
		}
	}
	order := []*emitter{plain, none, one, ten}
	for i := range runs - 100 {
		for n := range order {
			order[(n+i)%len(order)].complete(b)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(plain.median(), "plain-µs")
	b.ReportMetric(plain.median()/none.median(), "none-ratio")
	b.ReportMetric(none.median()/one.median(), "one-ratio")
	b.ReportMetric(none.median()/ten.median(), "ten-ratio")
}

// BenchmarkComplete compares requests to complete of a tenant with a webhook with those of one without, in turns, to a
// PostgreSQL that writes to disk. No dispatcher runs.
func BenchmarkComplete(b *testing.B) {
	const rounds, each, clients = 12, 160, 4
	dir, err := os.MkdirTemp("", "spoolwright-bench-")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	ctx := context.Background()
	private, err := local.Start(ctx, local.Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { private.Stop(ctx) })
	if _, err = db.Migrate(ctx, private.OwnerURL(), private.AppURL(), dbtest.Definitions); err != nil {
		b.Fatal(err)
	}
	d, err := db.Open(ctx, db.Config{URL: private.AppURL(), MaxConns: 8})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(d.Close)
	api := authtest.New(b, authtest.Options{DB: d}, production.Routes(orders.Follow))
	var users []*authtest.Client
	var all []*emitter
	for hooks := range 2 {
		e := newEmitter(b, d, hooks, (rounds+1)*each)
		users = append(users, api.TenantOf(db.ActorOf(e.bound).Tenant).User(b, "operator"))
		all = append(all, e)
	}
	turn := func(n int) time.Duration {
		e, runs := all[n], make(chan string, each)
		for range each {
			runs <- e.runs[0]
			e.runs = e.runs[1:]
		}
		close(runs)
		begin := time.Now()
		var wait sync.WaitGroup
		for range clients {
			wait.Go(func() {
				for run := range runs {
					a, err := users[n].Send("POST", "/api/v1/production-runs/"+run+"/complete", nil)
					if err != nil || a.Status != 200 {
						b.Errorf("%v %s", err, a.Body)
						return
					}
				}
			})
		}
		wait.Wait()
		return time.Since(begin)
	}
	turn(0)
	turn(1)
	var ratios []float64
	for i := range rounds {
		first := turn(i % 2)
		second := turn(1 - i%2)
		if i%2 == 1 {
			first, second = second, first
		}
		ratios = append(ratios, first.Seconds()/second.Seconds())
	}
	slices.Sort(ratios)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ratios[len(ratios)/2], "one-ratio")
}

// superURL returns the superuser's connection string of a database.
func superURL(tb testing.TB, d *db.DB) string {
	tb.Helper()
	var name string
	stmt := db.SQL(`select current_database()::text`).Into(&name)
	if err := d.Read(db.As(context.Background(), db.Actor{Tenant: db.NewID()}), stmt); err != nil {
		tb.Fatal(err)
	}
	return regexp.MustCompile(`@/spoolwright\?`).ReplaceAllString(dbtest.Private().SuperURL(), "@/"+name+"?")
}

var dueDeliveries = flag.Int("webhooks.due", 100_000, "number of deliveries that BenchmarkDrain sends")

// BenchmarkDrain sends 100,000 due deliveries of 50 tenants. The receiver of every fifth tenant never answers. Another
// tenant has an event every 100 ms: p99-ms is the time until its first try. tail-ms is the longest such time.
func BenchmarkDrain(b *testing.B) {
	const tenants = 50
	each := *dueDeliveries / tenants
	d := dbtest.Database(b, db.Config{MaxConns: 16})
	var delivered atomic.Int64
	release := make(chan struct{})
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/dead":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "/live":
			delivered.Add(1)
		}
	}))
	arrived := make(chan time.Time, 1)
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { arrived <- time.Now() }))
	receiver.StartTLS()
	b.Cleanup(other.Close)
	b.Cleanup(receiver.Close)
	b.Cleanup(func() { close(release) })
	roots := x509.NewCertPool()
	roots.AddCert(certificate())
	c := webhooks.Config{DB: d, Secrets: []string{authtest.Secret}, Roots: roots, Grace: time.Second,
		AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	f := &farm{API: authtest.New(b, authtest.Options{DB: d}, func(*db.DB) []server.Route { return webhooks.New(c).Routes() })}
	live := 0
	for n := range tenants {
		path := "/live"
		if n%5 == 0 {
			path = "/dead"
		} else {
			live += each
		}
		admin := f.Tenant(b).User(b, "admin")
		admin.Post(b, "/api/v1/webhooks", authtest.JSON{"url": receiver.URL + path, "events": []string{"order.received"}}).Want(201)
		bound := db.As(context.Background(), db.Actor{Tenant: admin.Actor.Tenant})
		err := d.Write(bound, db.SQL(`select count(emit_event('order.received', '{}')::text) from generate_series(1, $1)`, each))
		if err != nil {
			b.Fatal(err)
		}
	}
	admin := f.Tenant(b).User(b, "admin")
	hook := admin.Post(b, "/api/v1/webhooks", authtest.JSON{"url": other.URL, "events": []string{"order.received"}}).Want(201)

	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	begin := time.Now()
	running.Go(func() { webhooks.New(c).Run(ctx) })
	var took []time.Duration
	for delivered.Load() < int64(live) {
		sent := time.Now()
		if a, err := admin.Send("POST", hooksPath+hook.ID()+"/test", nil); err != nil || a.Status != 200 {
			b.Fatal(err, a)
		}
		took = append(took, (<-arrived).Sub(sent))
		time.Sleep(100 * time.Millisecond)
	}
	drained := time.Since(begin)
	cancel()
	running.Wait()
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(live)/drained.Seconds(), "deliveries/s")
	b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Milliseconds()), "p99-ms")
	b.ReportMetric(float64(took[len(took)-1].Milliseconds()), "tail-ms")
	b.Logf("%d events of the other tenant in %v", len(took), drained.Round(time.Second))
}
