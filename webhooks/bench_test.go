package webhooks_test

import (
	"context"
	"crypto/x509"
	"flag"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
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

	"spoolwright/db"
	"spoolwright/orders"
	"spoolwright/production"
	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/value"
	"spoolwright/webhooks"
)

// emitter is a tenant with runs that can be completed.
type emitter struct {
	bound context.Context
	runs  []string
}

// newEmitter creates a tenant with runs of three materials each, and with webhooks for completed runs.
func newEmitter(b *testing.B, d *db.DB, hooks, runs int) *emitter {
	b.Helper()
	e := &emitter{bound: db.As(context.Background(), db.Actor{Tenant: value.NewID()})}
	var ids []string
	err := d.Write(e.bound,
		db.SQL(`insert into tenants (name) values ('bench')`),
		db.SQL(`insert into webhooks (id, url, events, secret)
			select uuid_v7(), 'https://hooks.example', '{production_run.completed}', '\x01'
				from generate_series(1, $1)`, hooks),
		db.SQL(`insert into spools (id, number, material_type, color, diameter_mm, net_weight_grams, remaining_weight_grams)
			select uuid_v7(), n, 'PLA', 'Black', 1.75, 1000000, 1000000 from generate_series(1, 100) n`),
		db.SQL(`insert into production_runs (id, status) select uuid_v7(), 'pending' from generate_series(1, $1)`,
			runs),
		db.FreshPlan(),
		db.SQL(`insert into run_materials (id, run_id, spool_id, sent_actual_grams)
			select uuid_v7(), r.id, s.id, 1 from (select id, row_number() over (order by id) as n from production_runs) r
			join spools s on s.number in (1 + r.n % 100, 1 + (r.n + 33) % 100, 1 + (r.n + 66) % 100)`),
		db.SQL(`select array_agg(id::text) from production_runs`).Into(&ids))
	testkit.Check(b, err)
	e.runs = ids
	return e
}

// BenchmarkComplete compares requests to complete, in turns: of a program without webhooks, of a tenant without one,
// and of a tenant with one. The ratios are those of the processor time of service, client and PostgreSQL, and of the
// elapsed time, which depends on what else the computer does. No dispatcher runs.
func BenchmarkComplete(b *testing.B) {
	const rounds, each, clients = 15, 90, 4
	var users []*testkit.Client
	var all []*emitter
	for n := range 3 {
		d := testkit.Database(b, db.Config{MaxConns: 8}) // of its own: two tenants of one would share its connections
		if n == 0 {
			testkit.ExecURL(b, superURL(b, d), `create or replace function event_webhooks(event text) returns uuid[]
				language sql immutable as 'select null::uuid[]'`)
		}
		e := newEmitter(b, d, max(0, n-1), (rounds+1)*each)
		api := testkit.New(b, testkit.Options{DB: d}, production.Routes(orders.Runs))
		users = append(users, api.TenantOf(db.ActorOf(e.bound).Tenant).User(b, "operator"))
		all = append(all, e)
	}
	turn := func(n int) (cpu, elapsed float64) {
		e, runs := all[n], make(chan string, each)
		for range each {
			runs <- e.runs[0]
			e.runs = e.runs[1:]
		}
		close(runs)
		begin, used := time.Now(), ownCPU()+serverCPU(b)
		testkit.Concurrently(clients, func(int) {
			for run := range runs {
				a, err := users[n].Send("POST", "/api/v1/production-runs/"+run+"/complete", nil)
				if err != nil || a.Status != 200 {
					b.Errorf("%v %+v", err, a)
					return
				}
			}
		})
		elapsed = time.Since(begin).Seconds()
		return (ownCPU() + serverCPU(b) - used).Seconds(), elapsed
	}
	var cpu, elapsed [3][]float64
	for i := range rounds + 1 {
		for k := range 3 {
			n := (i + k) % 3
			used, took := turn(n)
			if i > 0 { // the first round warms up
				cpu[n], elapsed[n] = append(cpu[n], used), append(elapsed[n], took)
			}
		}
	}
	median := func(all []float64) float64 {
		slices.Sort(all)
		return all[len(all)/2]
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(cpu[0])*1e6/each, "plain-µs-cpu")
	b.ReportMetric(median(cpu[0])/median(cpu[1]), "none-ratio")
	b.ReportMetric(median(cpu[1])/median(cpu[2]), "one-ratio")
	b.ReportMetric(median(elapsed[0])/median(elapsed[1]), "none-elapsed-ratio")
	b.ReportMetric(median(elapsed[1])/median(elapsed[2]), "one-elapsed-ratio")
}

// superURL returns the superuser's connection string of a database.
func superURL(tb testing.TB, d *db.DB) string {
	tb.Helper()
	var name string
	stmt := db.SQL(`select current_database()::text`).Into(&name)
	testkit.Check(tb, d.Read(db.As(context.Background(), db.Actor{Tenant: value.NewID()}), stmt))
	return regexp.MustCompile(`@/spoolwright\?`).ReplaceAllString(testkit.Private().SuperURL(), "@/"+name+"?")
}

var dueDeliveries = flag.Int("webhooks.due", 100_000, "number of due deliveries in BenchmarkDrain")

// backlog is a service with 50 tenants that have a webhook each. The receiver of every tenth never answers, and that
// of every tenth refuses connections.
type backlog struct {
	*farm
	tenants   []context.Context
	dead      []bool
	hooks     []string // their ids
	delivered atomic.Int64
	arrived   sync.Map // time of the first request, by webhook-id
	trips     atomic.Int64
	stmts     atomic.Int64
	release   chan struct{} // ends the requests without answer
}

func newBacklog(b *testing.B) *backlog {
	b.Helper()
	f := &backlog{release: make(chan struct{})}
	d := testkit.Database(b, db.Config{MaxConns: 16, RoundTrip: func(all []db.Statement) {
		f.trips.Add(1)
		f.stmts.Add(int64(len(all)))
	}})
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hangs" {
			select {
			case <-f.release:
			case <-r.Context().Done():
			}
			return
		}
		f.arrived.LoadOrStore(r.Header.Get("webhook-id"), time.Now())
		f.delivered.Add(1)
	}))
	receiver.StartTLS()
	b.Cleanup(receiver.Close)
	b.Cleanup(func() { close(f.release) })
	roots := x509.NewCertPool()
	roots.AddCert(certificate())
	c := webhooks.Config{DB: d, Secrets: []string{testkit.Secret}, Roots: roots, Grace: time.Second,
		AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	routes := func(*db.DB) []server.Route { return webhooks.New(c).Routes() }
	f.farm = &farm{config: c, API: testkit.New(b, testkit.Options{DB: d}, routes)}
	for n := range 50 {
		url := receiver.URL + "/answers"
		switch n % 10 {
		case 0:
			url = receiver.URL + "/hangs"
		case 5:
			url = "https://127.0.0.1:1"
		}
		admin := f.Tenant(b).User(b, "admin")
		hook := testkit.JSON{"url": url, "events": []string{"order.received"}}
		f.hooks = append(f.hooks, admin.Post(b, "/api/v1/webhooks", hook).Want(201).ID())
		f.tenants = append(f.tenants, db.As(context.Background(), db.Actor{Tenant: admin.Actor.Tenant}))
		f.dead = append(f.dead, n%5 == 0)
	}
	return f
}

// emit adds events of a tenant and returns the webhook-id of one.
func (f *backlog) emit(b *testing.B, tenant, events int) (id string) {
	err := f.DB.Write(f.tenants[tenant],
		db.SQL(`select count(emit_event(event_webhooks('order.received'), 'order.received', '{}')::text)
			from generate_series(1, $1)`, events),
		db.SQL(`select event_id from webhook_deliveries where webhook_id = $1 order by created_at desc, id desc limit 1`,
			f.hooks[tenant]).Into(&id))
	if err != nil {
		b.Error(err)
	}
	return id
}

// during runs a dispatcher while fn runs.
func (f *backlog) during(fn func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { webhooks.New(f.config).Run(ctx); close(ended) }()
	fn()
	cancel()
	<-ended
}

// took waits until the events arrived and reports percentiles of their times since the given ones.
func (f *backlog) took(b *testing.B, sent map[string]time.Time, prefix string) {
	b.Helper()
	var took []time.Duration
	for id, begin := range sent {
		var at any
		testkit.Eventually(b, "all events arrive", func() (ok bool) {
			at, ok = f.arrived.Load(id)
			return ok
		})
		took = append(took, at.(time.Time).Sub(begin))
	}
	slices.Sort(took)
	for name, i := range map[string]int{"p50-ms": len(took) / 2, "p99-ms": len(took) * 99 / 100,
		"max-ms": len(took) - 1} {
		b.ReportMetric(float64(took[i].Milliseconds()), prefix+name)
	}
	b.Logf("%s%d events", prefix, len(took))
}

// BenchmarkDrain sends 100,000 deliveries of 50 tenants that are all due when the dispatcher starts. A fifth of the
// receivers is dead. The deliveries of the others take as long as the processor needs; the p99 is that of another
// tenant, which has an event every 100 ms, from before its transaction until the request arrives.
func BenchmarkDrain(b *testing.B) {
	f := newBacklog(b)
	each, live := *dueDeliveries/len(f.tenants), 0
	for n := range f.tenants {
		f.emit(b, n, each)
		if !f.dead[n] {
			live += each
		}
	}
	other := f.other(b)
	sent := map[string]time.Time{}
	var drained time.Duration
	f.trips.Store(0)
	f.stmts.Store(0)
	self, servers := ownCPU(), serverCPU(b)
	f.during(func() {
		for begin := time.Now(); f.delivered.Load() < int64(live); time.Sleep(100 * time.Millisecond) { // a pace
			before := time.Now()
			sent[f.emit(b, other, 1)] = before
			drained = time.Since(begin)
		}
		f.took(b, sent, "")
	})
	n := float64(live)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(n/drained.Seconds(), "deliveries/s")
	b.ReportMetric(float64((ownCPU()-self).Microseconds())/n, "µs-go/delivery")
	b.ReportMetric(float64((serverCPU(b)-servers).Microseconds())/n, "µs-postgres/delivery")
	b.ReportMetric(float64(f.trips.Load())/n, "trips/delivery")
	b.ReportMetric(float64(f.stmts.Load())/n, "statements/delivery")
}

// other adds a tenant whose receiver answers.
func (f *backlog) other(b *testing.B) (tenant int) {
	var url string
	check := f.DB.Read(f.tenants[1], db.SQL(`select url from webhooks`).Into(&url))
	if check != nil {
		b.Fatal(check)
	}
	admin := f.Tenant(b).User(b, "admin")
	hook := testkit.JSON{"url": url, "events": []string{"order.received"}}
	f.hooks = append(f.hooks, admin.Post(b, "/api/v1/webhooks", hook).Want(201).ID())
	f.tenants = append(f.tenants, db.As(context.Background(), db.Actor{Tenant: admin.Actor.Tenant}))
	f.dead = append(f.dead, false)
	return len(f.tenants) - 1
}

// BenchmarkBeside measures the time until the first tries of a steady stream of events: 40 a second, of 40 tenants. It
// compares, in turns, a service where ten other tenants have dead receivers and 2,000 due deliveries each with one
// where these have no deliveries.
func BenchmarkBeside(b *testing.B) {
	const rounds, seconds = 3, 10
	with, without := newBacklog(b), newBacklog(b)
	for n := range with.tenants {
		if with.dead[n] {
			with.emit(b, n, *dueDeliveries/len(with.tenants))
		}
	}
	sent := map[*backlog]map[string]time.Time{with: {}, without: {}}
	turn := func(f *backlog) {
		f.during(func() {
			var mu sync.Mutex
			var wait sync.WaitGroup
			for n := range f.tenants {
				if f.dead[n] {
					continue
				}
				wait.Go(func() {
					time.Sleep(time.Duration(n) * time.Second / 50) // not all at once
					for range seconds {
						before := time.Now()
						id := f.emit(b, n, 1)
						mu.Lock()
						sent[f][id] = before
						mu.Unlock()
						time.Sleep(time.Second - time.Since(before)) // one event a second
					}
				})
			}
			wait.Wait()
			time.Sleep(time.Second) // until the events have arrived
		})
	}
	for range rounds {
		turn(with)
		turn(without)
	}
	b.ReportMetric(0, "ns/op")
	with.took(b, sent[with], "beside-")
	without.took(b, sent[without], "alone-")
}

// ownCPU returns the processor time of the test: service and receivers.
func ownCPU() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serverCPU returns the processor time of the processes of PostgreSQL that run, or 0 if the system does not tell.
func serverCPU(b *testing.B) (sum time.Duration) {
	b.Helper()
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	parents, ticks := map[string]string{}, map[string]int64{}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		_, rest, found := strings.Cut(string(text), ") ") // the name of the program can contain spaces
		fields := strings.Fields(rest)
		if err != nil || !found || len(fields) < 15 {
			continue
		}
		pid, _, _ := strings.Cut(string(text), " ")
		parents[pid] = fields[1]
		for _, i := range []int{11, 12} { // user and system time, in hundredths of a second
			n, _ := strconv.ParseInt(fields[i], 10, 64)
			ticks[pid] += n
		}
	}
	self := strconv.Itoa(os.Getpid())
	for pid := range parents {
		for p := parents[pid]; p != ""; p = parents[p] {
			if p == self {
				sum += time.Duration(ticks[pid]) * 10 * time.Millisecond
			}
		}
	}
	return sum
}
