package bench_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/app"
	"spoolwright/auth"
	"spoolwright/auth/accounts"
	"spoolwright/auth/secrets"
	"spoolwright/db"
	"spoolwright/db/local"
	"spoolwright/production"
	"spoolwright/server"
	"spoolwright/server/metrics"
	"spoolwright/spoolman"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// The benchmarks compare the service with its floor: the same statements, sent by the same number of clients as one
// pipeline per round trip, without HTTP and JSON, to the same PostgreSQL. Rounds of the service and of the floor
// alternate. PostgreSQL writes to disk with fsync. Reported are req/s, p50 and p99 of the service, req/s of the
// floor, and the median ratio of the rounds.

const (
	loginPath = "/api/v1/auth/login"

	benchClients = 32
	benchRounds  = 5
	benchRound   = 700 * time.Millisecond
)

// benchService is a running service with a tenant full of data, and a copy of its database for the floor.
type benchService struct {
	addr                 string
	tokens               *auth.Tokens
	token                string
	actor                db.Actor
	super                *pgx.Conn      // of the service's database
	floorURL, serviceURL string         // databases of the floor and of the service
	recorder             *server.Server // a second instance, which appends the statements of requests to recorded
	recorded             atomic.Pointer[[][]db.Statement]
	db                   *db.DB
	postmaster           int // process id
	stop                 []func()
}

// close calls the stop functions in reverse order.
func (f *benchService) close() {
	for _, stop := range slices.Backward(f.stop) {
		stop()
	}
}

// newBenchService starts a service. If load is not nil, it fills the database as superuser before the floor's copy is
// created.
func newBenchService(b *testing.B, load func(ctx context.Context, f *benchService) error) *benchService {
	b.Helper()
	ctx := context.Background()
	f := &benchService{}
	b.Cleanup(f.close)
	must := func(err error) {
		b.Helper()
		testkit.Check(b, err)
	}
	dir, err := os.MkdirTemp("", "spoolwright-bench-")
	must(err)
	f.stop = append(f.stop, func() { os.RemoveAll(dir) })
	must(os.Chmod(dir, 0o711))
	settings := map[string]string{"max_wal_size": "4GB", "shared_buffers": "512MB"}
	private, err := local.Start(ctx, local.Options{Dir: dir, Settings: settings})
	must(err)
	f.stop = append(f.stop, func() { private.Stop(ctx) })
	f.postmaster = private.PID()
	_, err = db.Migrate(ctx, private.OwnerURL(), private.AppURL(), app.Definitions)
	must(err)
	d, err := db.Open(ctx, db.Config{URL: private.AppURL()})
	must(err)
	f.db = d
	f.stop = append(f.stop, d.Close)
	f.actor, err = accounts.Accounts{DB: d, Hasher: secrets.NewHasher(secrets.Rounds)}.Add(ctx, accounts.NewUser{
		Tenant: "bench", NewTenant: true, Email: "bench@farm.example", Name: "B", Role: "admin",
		Password: "bench-password",
	})
	must(err)
	f.super, err = pgx.Connect(ctx, private.SuperURL())
	must(err)
	if load != nil {
		must(load(ctx, f))
	}
	_, err = f.super.Exec(ctx, `vacuum analyze`)
	must(err)
	f.super.Close(ctx)

	d.Close()
	admin, err := pgx.Connect(ctx, strings.Replace(private.SuperURL(), "/"+local.Database+"?", "/postgres?", 1))
	must(err)
	_, err = admin.Exec(ctx, `create database floor template `+local.Database)
	must(err)
	_, err = admin.Exec(ctx, `checkpoint`)
	must(err)
	admin.Close(ctx)
	f.serviceURL = private.AppURL()
	f.floorURL = strings.Replace(private.AppURL(), "/"+local.Database+"?", "/floor?", 1)

	f.db, err = db.Open(ctx, db.Config{URL: private.AppURL()})
	must(err)
	f.stop = append(f.stop, f.db.Close)
	recording, err := db.Open(ctx, db.Config{URL: private.AppURL(), MaxConns: 1, RoundTrip: func(s []db.Statement) {
		if to := f.recorded.Load(); to != nil {
			*to = append(*to, s)
		}
	}})
	must(err)
	f.stop = append(f.stop, recording.Close)
	f.super, err = pgx.Connect(ctx, private.SuperURL())
	must(err)
	f.stop = append(f.stop, func() { f.super.Close(ctx) })

	configured := []string{rand.Text() + rand.Text()}
	tokens, err := auth.NewTokens(configured, time.Hour, time.Hour, time.Now)
	must(err)
	service := func(d *db.DB) *server.Server { // without rate limits and log
		a := auth.New(d, tokens, secrets.NewHasher(secrets.Rounds), time.Now)
		return server.New(server.Config{
			Routes: testkit.Routes(d, a), Secrets: configured, DB: d, Authenticate: a.Authenticate, Ready: d.Ready,
			Log: slog.New(slog.DiscardHandler), Metrics: metrics.New("bench", d.Stats),
			Surfaces: []server.Surface{spoolman.Surface(d)},
		})
	}
	s := service(f.db)
	f.recorder = service(recording)
	f.tokens = tokens
	f.token, err = tokens.Access(auth.Principal{TenantID: f.actor.Tenant, UserID: f.actor.User, Role: f.actor.Role})
	must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	f.addr = listener.Addr().String()
	serving, stop := context.WithCancel(ctx)
	ended := make(chan bool)
	go func() { s.Serve(serving, listener); close(ended) }()
	f.stop = append(f.stop, func() { stop(); <-ended })
	return f
}

// request returns the bytes of an HTTP request with the tenant's token.
func (f *benchService) request(method, path, body string) []byte {
	return rawRequest(method, path, body, f.token)
}

func rawRequest(method, path, body, token string) []byte {
	return requestWith(method, path, body, "Authorization: Bearer "+token)
}

// requestWith returns the bytes of an HTTP request with a header line.
func requestWith(method, path, body, header string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: bench\r\n%s\r\n", method, path, header)
	if method != "GET" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	return b.Bytes()
}

// record sends a request to the recorder and returns the statements of each round trip, and the response body.
func (f *benchService) record(b *testing.B, method, path, body string) ([][]db.Statement, []byte) {
	b.Helper()
	var trips [][]db.Statement
	f.recorded.Store(&trips)
	defer f.recorded.Store(nil)
	r, err := http.NewRequest(method, path, strings.NewReader(body))
	testkit.Check(b, err)
	r.Header.Set("Authorization", "Bearer "+f.token)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.recorder.ServeHTTP(w, r)
	if w.Code >= 300 {
		b.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body.Bytes())
	}
	return trips, w.Body.Bytes()
}

var (
	errDone      = errors.New("done")      // work returns it to end the client before the deadline
	errBusy      = errors.New("503")       // httpClients.do returns it for the status 503
	errUncounted = errors.New("uncounted") // work returns it for a request that must not be counted
)

// round is roundOf with benchClients clients.
func round(b *testing.B, length time.Duration, work func(client int) error) []time.Duration {
	b.Helper()
	return roundOf(b, benchClients, length, work)
}

// roundOf calls work in a loop, in all clients concurrently, until the time is over. It returns the sorted durations
// of the calls.
func roundOf(b *testing.B, clients int, length time.Duration, work func(client int) error) []time.Duration {
	b.Helper()
	var mu sync.Mutex
	var all []time.Duration
	var group sync.WaitGroup
	deadline := time.Now().Add(length)
	for client := range clients {
		group.Go(func() {
			var mine []time.Duration
			for time.Now().Before(deadline) && !b.Failed() {
				start := time.Now()
				err := work(client)
				if err == errDone {
					break
				}
				if err == errUncounted {
					continue
				}
				if err != nil {
					b.Error(err)
					return
				}
				mine = append(mine, time.Since(start))
			}
			mu.Lock()
			all = append(all, mine...)
			mu.Unlock()
		})
	}
	group.Wait()
	slices.Sort(all)
	return all
}

// percentile returns the value at p, between 0 and 1, in milliseconds.
func percentile(sorted []time.Duration, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return float64(sorted[min(len(sorted)-1, int(float64(len(sorted))*p))]) / 1e6
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// httpClients are connections that send requests and read responses with little overhead.
type httpClients []struct {
	conn   net.Conn
	reader *bufio.Reader
}

func (f *benchService) connect(b *testing.B) httpClients {
	b.Helper()
	clients := connectTo(b, f.addr, benchClients)
	b.Cleanup(clients.close)
	return clients
}

// connectTo opens n connections, which the caller closes.
func connectTo(b *testing.B, addr string, n int) httpClients {
	b.Helper()
	clients := make(httpClients, n)
	for i := range clients {
		conn, err := net.Dial("tcp", addr)
		testkit.Check(b, err)
		clients[i].conn, clients[i].reader = conn, bufio.NewReaderSize(conn, 64<<10)
	}
	return clients
}

func (c httpClients) close() {
	for _, client := range c {
		client.conn.Close()
	}
}

// do sends a request and reads the response. It returns an error unless the status is 2xx.
func (c httpClients) do(client int, request []byte) error {
	if _, err := c[client].conn.Write(request); err != nil {
		return err
	}
	reader := c[client].reader
	status, length := "", 0
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		if status == "" {
			status = string(line[9:12])
		}
		if len(line) <= 2 {
			break
		}
		if name, value, _ := bytes.Cut(line, []byte(": ")); bytes.EqualFold(name, []byte("Content-Length")) {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
		}
	}
	if status[0] != '2' {
		body := make([]byte, length)
		io.ReadFull(reader, body)
		if status == "503" {
			return errBusy
		}
		return fmt.Errorf("status %s: %s", status, body)
	}
	_, err := reader.Discard(length)
	return err
}

// floorClients are database connections that send each round trip as one pipeline.
type floorClients []*pgx.Conn

func (f *benchService) floor(b *testing.B) floorClients {
	b.Helper()
	clients := make(floorClients, benchClients)
	for i := range clients {
		conn, err := pgx.Connect(context.Background(), f.floorURL)
		testkit.Check(b, err)
		b.Cleanup(func() { conn.Close(context.Background()) })
		_, err = conn.Exec(context.Background(), `select set_config('role', 'spoolwright_app', false),
			set_config('search_path', 'public, pg_temp', false), set_config('enable_seqscan', 'off', false),
			set_config('enable_sort', 'off', false)`)
		testkit.Check(b, err)
		clients[i] = conn
	}
	return clients
}

// do sends the recorded round trips, with arguments replaced by swap. The keys of swap are arguments as fmt
// prints them.
func (c floorClients) do(client int, trips [][]db.Statement, swap map[string]any) error {
	for _, trip := range trips {
		var batch pgx.Batch
		for _, statement := range trip {
			args := statement.Args
			for i, arg := range args {
				if other, ok := swap[fmt.Sprint(arg)]; ok {
					args = slices.Clone(args)
					args[i] = other
				}
			}
			batch.Queue(statement.SQL, args...).Query(func(rows pgx.Rows) error {
				for rows.Next() {
					rows.RawValues()
				}
				return rows.Err()
			})
		}
		if err := c[client].SendBatch(context.Background(), &batch).Close(); err != nil {
			return err
		}
	}
	return nil
}

// compare measures a request and its floor. next returns the path and body of a request. trips are the recorded
// statements of such a request, and swap returns replacements for their arguments. A nil swap means none.
func (f *benchService) compare(
	b *testing.B, method string, next func() (path, body string), trips [][]db.Statement, swap func() map[string]any,
) {
	b.Helper()
	if swap == nil {
		swap = func() map[string]any { return nil }
	}
	clients, floor := f.connect(b), f.floor(b)
	var latencies []time.Duration
	var rates, floors, ratios []float64
	service := func(client int) error {
		path, body := next()
		err := clients.do(client, f.request(method, path, body))
		if err == errBusy && path == loginPath { // the number of concurrent logins is limited
			return errUncounted
		}
		return err
	}
	statements := func(client int) error { return floor.do(client, trips, swap()) }
	round(b, benchRound/4, service)
	round(b, benchRound/4, statements)
	b.ResetTimer()
	for range benchRounds {
		took := round(b, benchRound, service)
		floorTook := round(b, benchRound, statements)
		if b.Failed() {
			b.FailNow()
		}
		rate, floorRate := float64(len(took))/benchRound.Seconds(), float64(len(floorTook))/benchRound.Seconds()
		rates, floors = append(rates, rate), append(floors, floorRate)
		ratios = append(ratios, rate/floorRate)
		latencies = append(latencies, took...)
	}
	slices.Sort(latencies)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(rates), "req/s")
	b.ReportMetric(percentile(latencies, 0.5), "p50-ms")
	b.ReportMetric(percentile(latencies, 0.99), "p99-ms")
	b.ReportMetric(median(floors), "floor-req/s")
	b.ReportMetric(median(ratios), "ratio")
}

// randomPick returns a function that returns a random value at each call.
func randomPick(values []string) func() string {
	return func() string { return values[mathrand.IntN(len(values))] }
}

// pickOnce returns a function that returns each value once.
func pickOnce(b *testing.B, values []string) func() string {
	var at atomic.Int64
	return func() string {
		i := int(at.Add(1)) - 1
		if i >= len(values) {
			b.Error("all prepared values are used up")
			return values[0]
		}
		return values[i]
	}
}

// queryStrings returns the only column of a query's result.
func (f *benchService) queryStrings(b *testing.B, sql string, args ...any) []string {
	b.Helper()
	rows, err := f.super.Query(context.Background(), sql, args...)
	testkit.Check(b, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	testkit.Check(b, err)
	return all
}

// loadSpools inserts n spools of a tenant with the given number of ledger entries each. Triggers are off, so it also
// adds n to the tenant's counter.
func loadSpools(ctx context.Context, conn *pgx.Conn, tenant string, n, entries int) error {
	for _, statement := range []string{
		`set session_replication_role = replica`,
		fmt.Sprintf(`
			insert into spools (tenant_id, id, number, material_type, brand, color, diameter_mm, net_weight_grams,
				remaining_weight_grams, purchase_price, created_at)
			select '%[1]s', uuid_v7(), n + last,
				(array['PLA','PETG','ABS','TPU','ASA','Nylon','PC','HIPS','PVA','Custom'])[1 + (n %% 20) / 2],
				'Brand ' || n %% 100, 'Color ' || n %% 50, 1.75, 1000000, case when n %% 2 = 0 then 1000000 else 0 end,
				20 + n %% 17, now() - n * interval '1 second'
			from generate_series(1, %[2]d) n,
				(select coalesce(max(number), 0) as last from spools where tenant_id = '%[1]s') numbered`, tenant, n),
		fmt.Sprintf(`insert into spool_usage (tenant_id, spool_id, kind, before_grams, after_grams)
			select tenant_id, id, 'created', 0, remaining_weight_grams
			from spools, generate_series(1, %d) where tenant_id = '%s'`, entries, tenant),
		fmt.Sprintf(`insert into counters values ('%s', 'spools', %[2]d, %[2]d)
			on conflict (tenant_id, kind) do update set last = counters.last + excluded.last,
				total = counters.total + excluded.total`, tenant, n),
		`set session_replication_role = origin`,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkRequests measures the most frequent requests.
func BenchmarkRequests(b *testing.B) {
	const prepared = 30_000
	f := newBenchService(b, func(ctx context.Context, f *benchService) error {
		if err := loadSpools(ctx, f.super, f.actor.Tenant, 2000, 1); err != nil {
			return err
		}
		_, err := f.super.Exec(ctx, `
			insert into production_runs (tenant_id, id, status, started_at)
			select $1::uuid, uuid_v7(), 'in_progress', now() from generate_series(1, $2)`, f.actor.Tenant, prepared)
		if err != nil {
			return err
		}
		// Each run uses three of 300 spools, so that concurrent runs often use the same spool.
		_, err = f.super.Exec(ctx, `
			insert into run_materials (tenant_id, id, run_id, spool_id, spool_weight_before_grams,
				spool_weight_after_grams, cost_per_gram)
			select r.tenant_id, uuid_v7(), r.id, s.ids[1 + ((r.n * 7 + m * 131) % 300)], 10, 9.99, 0.02
			from (select tenant_id, id, row_number() over () as n from production_runs) r, generate_series(1, 3) m,
				(select array_agg(id) as ids from spools where in_stock) s`)
		return err
	})
	stocked := f.queryStrings(b, `select id::text from spools where in_stock`)
	first := stocked[0]
	get := func(path string) func(b *testing.B) {
		return func(b *testing.B) {
			trips, _ := f.record(b, "GET", path, "")
			f.compare(b, "GET", func() (string, string) { return path, "" }, trips, nil)
		}
	}
	spool := randomPick(stocked)
	swapSpool := func() map[string]any { return map[string]any{first: spool()} }
	b.Run("read", func(b *testing.B) {
		trips, _ := f.record(b, "GET", "/api/v1/spools/"+first, "")
		f.compare(b, "GET", func() (string, string) { return "/api/v1/spools/" + spool(), "" }, trips, swapSpool)
	})
	b.Run("list", get("/api/v1/spools"))
	b.Run("list-filtered", get("/api/v1/spools?material_type=PETG"))
	b.Run("create", func(b *testing.B) {
		const body = `{"material_type":"PLA","brand":"Polymaker","color":"Black","diameter_mm":1.75,` +
			`"net_weight_grams":1000,"purchase_price":24.99}`
		trips, response := f.record(b, "POST", "/api/v1/spools", body)
		var created struct{ ID string }
		json.Unmarshal(response, &created)
		f.compare(b, "POST", func() (string, string) { return "/api/v1/spools", body }, trips,
			func() map[string]any { return map[string]any{created.ID: value.NewID()} })
	})
	b.Run("deduct", func(b *testing.B) {
		const body = `{"weight_grams":0.01,"reason":"bench"}`
		trips, _ := f.record(b, "POST", "/api/v1/spools/"+first+"/deduct", body)
		next := func() (string, string) { return "/api/v1/spools/" + spool() + "/deduct", body }
		f.compare(b, "POST", next, trips, swapSpool)
	})
	b.Run("complete", func(b *testing.B) {
		ids := f.queryStrings(b, `select id::text from production_runs where deducted_at is null`)
		// What the second round trip deducts depends on what the first one reads.
		spools := map[string][]string{}
		rows, err := f.super.Query(context.Background(), `
			select run_id::text, array_agg(spool_id::text order by spool_id) from run_materials group by run_id`)
		testkit.Check(b, err)
		var id string
		var of []string
		if _, err := pgx.ForEachRow(rows, []any{&id, &of},
			func() error { spools[id] = of; of = nil; return nil }); err != nil {
			b.Fatal(err)
		}
		trips, _ := f.record(b, "POST", "/api/v1/production-runs/"+ids[0]+"/complete", "")
		run, floorRun := pickOnce(b, ids[1:]), pickOnce(b, ids[1:])
		f.compare(b, "POST", func() (string, string) { return "/api/v1/production-runs/" + run() + "/complete", "" },
			trips,
			func() map[string]any {
				run := floorRun()
				return map[string]any{ids[0]: run, fmt.Sprint(spools[ids[0]]): spools[run]}
			})
	})
	b.Run("product", func(b *testing.B) {
		product := f.create(b, "/api/v1/products", `{"name":"Lamp"}`)
		for n := range 20 {
			material := fmt.Sprintf(`{"material_type":"PLA","color":"Color %d","weight_grams":12.5}`, n)
			f.create(b, "/api/v1/products/"+product+"/materials", material)
		}
		f.floorURL = f.serviceURL // the floor's copy does not have the product
		get("/api/v1/products/" + product)(b)
	})
	b.Run("recalculate", func(b *testing.B) {
		root := f.newTree(b)
		f.floorURL = f.serviceURL
		path := "/api/v1/products/" + root + "/recalculate"
		trips, _ := f.record(b, "POST", path, "")
		f.compare(b, "POST", func() (string, string) { return path, "" }, trips, nil)
	})
	b.Run("login", func(b *testing.B) {
		const body = `{"email":"bench@farm.example","password":"bench-password"}`
		trips, _ := f.record(b, "POST", loginPath, body)
		session := trips[len(trips)-1][2].Args[0].(string)
		// Several accounts, because the logins of one account are limited.
		var bodies [20]string
		for i := range bodies {
			email := value.NewID() + "@farm.example"
			f.create(b, "/api/v1/users", `{"email":"`+email+
				`","name":"B","role":"viewer","password":"bench-password"}`)
			bodies[i] = `{"email":"` + email + `","password":"bench-password"}`
		}
		var n atomic.Int64
		next := func() (string, string) { return loginPath, bodies[n.Add(1)%int64(len(bodies))] }
		f.compare(b, "POST", next, trips,
			func() map[string]any { return map[string]any{session: value.NewID()} })
	})
}

// create sends a POST and returns the id of the created resource.
func (f *benchService) create(b *testing.B, path, body string) string {
	b.Helper()
	_, response := f.record(b, "POST", path, body)
	var created struct{ ID string }
	testkit.Check(b, json.Unmarshal(response, &created))
	return created.ID
}

// newTree creates a root product with nine assemblies of ten parts each, 100 products, and returns the id of the root.
func (f *benchService) newTree(b *testing.B) string {
	b.Helper()
	root := f.create(b, "/api/v1/products", `{"name":"Root"}`)
	for range 9 {
		assembly := f.create(b, "/api/v1/products", `{"name":"Assembly"}`)
		for n := range 10 {
			part := f.create(b, "/api/v1/products", `{"name":"Part"}`)
			f.create(b, "/api/v1/products/"+part+"/materials",
				fmt.Sprintf(`{"material_type":"PETG","color":"Color %d","weight_grams":5}`, n))
			f.create(b, "/api/v1/products/"+assembly+"/components",
				fmt.Sprintf(`{"component_product_id":"%s","quantity":2}`, part))
		}
		f.create(b, "/api/v1/products/"+root+"/components",
			fmt.Sprintf(`{"component_product_id":"%s","quantity":1}`, assembly))
	}
	return root
}

// BenchmarkAvailability compares the availability of a tree of 100 products with its recalculation, in a tenant with
// 2,000 spools, 100 open orders of that tree and 100 unfinished runs. The statements of both run one after the other
// in transactions that are rolled back, because only recalculate commits. ratio is the time of the former divided by
// the time of the latter; ms is the time of a request.
func BenchmarkAvailability(b *testing.B) {
	f := newBenchService(b, func(ctx context.Context, f *benchService) error {
		return loadSpools(ctx, f.super, f.actor.Tenant, 2000, 1)
	})
	root := f.newTree(b)
	spool := f.queryStrings(b, `select id::text from spools where in_stock limit 1`)[0]
	for range 100 {
		f.create(b, "/api/v1/orders", fmt.Sprintf(`{"items":[{"product_id":"%s","quantity":3}]}`, root))
		f.create(b, "/api/v1/production-runs", fmt.Sprintf(`{"status":"in_progress",
			"materials":[{"spool_id":"%s","estimated_weight_grams":10}]}`, spool))
	}
	available, recalculate := "/api/v1/products/"+root+"/availability?quantity=1000", "/api/v1/products/"+root+
		"/recalculate"
	read, _ := f.record(b, "GET", available, "")
	costs, _ := f.record(b, "POST", recalculate, "")
	f.floorURL = f.serviceURL
	conn := f.floor(b)[0]
	took := func(trips [][]db.Statement) float64 {
		start := time.Now()
		tx, err := conn.Begin(context.Background())
		if err == nil {
			err = floorClients{conn}.do(0, trips, nil)
		}
		if err == nil {
			err = tx.Rollback(context.Background())
		}
		testkit.Check(b, err)
		return float64(time.Since(start)) / 1e6
	}
	var reads, ratios []float64
	b.ResetTimer()
	for range 200 {
		a := took(read)
		reads, ratios = append(reads, a), append(ratios, a/took(costs))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(f.medianTime(b, "GET", func() (string, string) { return available, "" }), "ms")
	b.ReportMetric(median(reads), "statements-ms")
	b.ReportMetric(median(ratios), "ratio")
}

// medianTime sends requests one after the other, and returns the median of their durations in milliseconds.
func (f *benchService) medianTime(b *testing.B, method string, next func() (path, body string)) float64 {
	b.Helper()
	clients := f.connect(b)
	var took []float64
	for start := time.Now(); len(took) < 11 || time.Since(start) < 500*time.Millisecond; {
		path, body := next()
		at := time.Now()
		testkit.Check(b, clients.do(0, f.request(method, path, body)))
		took = append(took, float64(time.Since(at))/1e6)
	}
	return median(took[1:])
}

// BenchmarkGrowth measures requests of a tenant that has up to a million spools, while 100 other tenants have 500
// each. It reports the median of the durations, in milliseconds, of requests one after the other. At the largest size
// the ledger has ten entries per spool.
func BenchmarkGrowth(b *testing.B) {
	f := newBenchService(b, func(ctx context.Context, f *benchService) error {
		for range 100 {
			if err := loadSpools(ctx, f.super, value.NewID(), 500, 1); err != nil {
				return err
			}
		}
		return nil
	})
	ctx := context.Background()
	have := 0
	curves := []curve{}
	for _, name := range []string{"list", "one-in-100", "half", "skip-90%", "after-90%", "sort-brand",
		"sort-remaining",
		"deduct", "complete"} {
		curves = append(curves, curve{name, map[int]float64{}})
	}
	for _, size := range []int{1_000, 10_000, 100_000, 1_000_000} {
		report := func(b *testing.B, name string, ms float64) {
			b.ReportMetric(ms, name+"-ms")
			for _, c := range curves {
				if c.name == name {
					c.ms[size] = ms
				}
			}
		}
		b.Run(fmt.Sprintf("spools-%d", size), func(b *testing.B) {
			entries := 0
			if size == 1_000_000 {
				entries = 10
			}
			testkit.Check(b, loadSpools(ctx, f.super, f.actor.Tenant, size-have, entries))
			have = size
			f.vacuum(b, "spools", "spool_usage")
			const query = `select id::text from spools where tenant_id = $1 and in_stock limit 1000`
			spool := randomPick(f.queryStrings(b, query, f.actor.Tenant))
			_, page := f.record(b, "GET", fmt.Sprintf("/api/v1/spools?limit=1&skip=%d", size*9/10-1), "")
			var before struct{ Next string }
			testkit.Check(b, json.Unmarshal(page, &before))
			b.ResetTimer()
			for name, path := range map[string]string{
				"list": "", "one-in-100": "?brand=brand%207", "half": "?in_stock=true", "after-90%": "?after=" +
					before.Next,
				"skip-90%": fmt.Sprintf("?skip=%d", size*9/10), "sort-brand": "?sort_by=brand",
				"sort-remaining": "?sort_by=remaining_weight_grams",
			} {
				next := func() (string, string) { return "/api/v1/spools" + path, "" }
				report(b, name, f.medianTime(b, "GET", next))
			}
			deduct := func() (string, string) { return "/api/v1/spools/" + spool() + "/deduct", `{"weight_grams":0.01}` }
			report(b, "deduct", f.medianTime(b, "POST", deduct))
			complete := func() (string, string) {
				return "/api/v1/production-runs/" + f.createRun(b, spool) + "/complete", ""
			}
			report(b, "complete", f.medianTime(b, "POST", complete))
			b.ReportMetric(0, "ns/op")
		})
	}
	if !slices.ContainsFunc(curves, func(c curve) bool { return len(c.ms) < 4 }) {
		svg := picture("Median time of a request by number of spools", "spools", curves)
		testkit.Check(b, os.WriteFile("docs/growth.svg", []byte(svg), 0o644))
	}
	b.Run("products-and-runs-100000", func(b *testing.B) {
		for _, statement := range []string{
			`insert into products (tenant_id, id, name, description, category, created_at)
				select $1::uuid, uuid_v7(), 'Product ' || n, 'Text ' || n % 1000, 'Category ' || n % 100,
					now() - n * interval '1 second'
				from generate_series(1, 100000) n`,
			`insert into production_runs (tenant_id, id, status, printer_name, created_at)
				select $1::uuid, uuid_v7(), (array['pending','completed'])[1 + n % 2], 'Printer ' || n % 100,
					now() - n * interval '1 second'
				from generate_series(1, 100000) n`,
		} {
			if _, err := f.super.Exec(ctx, statement, f.actor.Tenant); err != nil {
				b.Fatal(err)
			}
		}
		f.vacuum(b, "products", "production_runs")
		b.ResetTimer()
		for name, path := range map[string]string{
			"products": "/products", "category": "/products?category=category%207",
			"search": "/products?search=text%20777", "skip-90%": "/products?skip=90000",
			"sort-name": "/products?sort_by=name",
			"runs":      "/production-runs", "printer": "/production-runs?printer_name=printer%207",
			"status": "/production-runs?status=completed", "sort-printer": "/production-runs?sort_by=printer_name",
		} {
			next := func() (string, string) { return "/api/v1" + path, "" }
			b.ReportMetric(f.medianTime(b, "GET", next), name+"-ms")
		}
		b.ReportMetric(0, "ns/op")
	})
}

// BenchmarkGrowthOfUsage measures reports of a tenant with 5,000 spools and a million ledger entries in the last year,
// half of them of runs of 100 printers. It reports how long the first summary of the ledger takes, and the median of
// the durations of reports, in milliseconds. They read what was used since the last summarized day from the ledger.
func BenchmarkGrowthOfUsage(b *testing.B) {
	f := newBenchService(b, func(ctx context.Context, f *benchService) error {
		for _, tenant := range []string{value.NewID(), f.actor.Tenant} {
			if err := loadSpools(ctx, f.super, tenant, 5000, 0); err != nil {
				return err
			}
		}
		for _, statement := range []string{
			`set session_replication_role = replica`,
			`insert into production_runs (tenant_id, id, status, printer_name)
				select $1, uuid_v7(), 'completed', 'Printer ' || n from generate_series(1, 100) n`,
			`with spool as (
				select array_agg(id) as ids from spools where tenant_id = $1
			), run as (
				select array_agg(id) as ids from production_runs where tenant_id = $1
			)
			insert into spool_usage (tenant_id, id, spool_id, kind, run_id, before_grams, after_grams, created_at)
				select $1, uuid_v7(), spool.ids[1 + floor(random() * 5000)], 'run',
					case when n % 2 = 0 then run.ids[1 + floor(random() * 100)] end, 1000, 1000 - 50 * random(), at
				from spool, run, generate_series(1, 1000000) n,
					lateral (select now() - (1000000 - n) * interval '31.5 seconds' as at) t`,
			`set session_replication_role = origin`,
		} {
			args := []any{f.actor.Tenant}
			if !strings.Contains(statement, "$1") {
				args = nil
			}
			if _, err := f.super.Exec(ctx, statement, args...); err != nil {
				return err
			}
		}
		return nil
	})
	f.vacuum(b, "spools", "spool_usage", "production_runs")
	year := "&from=" + time.Now().UTC().AddDate(-1, 0, 1).Format(time.DateOnly)
	measure := func(by string) {
		next := func() (string, string) { return "/api/v1/reports/usage?group_by=" + by + year, "" }
		b.ReportMetric(f.medianTime(b, "GET", next), by+"-ms")
	}
	start := time.Now()
	testkit.Check(b, production.SummarizeUsage(context.Background(), f.db))
	b.ReportMetric(time.Since(start).Seconds()*1000, "summarize-ms")
	b.ResetTimer()
	for _, by := range production.UsageGroup("").Enum() {
		measure(by)
	}
	b.ReportMetric(0, "ns/op")
}

// createRun creates a run with three materials that can be completed, and returns its id.
func (f *benchService) createRun(b *testing.B, spool func() string) string {
	b.Helper()
	ctx, id := context.Background(), value.NewID()
	_, err := f.super.Exec(ctx, `
		insert into production_runs (tenant_id, id, status) values ($1, $2, 'pending')`, f.actor.Tenant, id)
	testkit.Check(b, err)
	for range 3 {
		_, err := f.super.Exec(ctx, `
			insert into run_materials (tenant_id, id, run_id, spool_id, spool_weight_before_grams, spool_weight_after_grams)
			values ($1, $2, $3, $4, 10, 9.99)`, f.actor.Tenant, value.NewID(), id, spool())
		testkit.Check(b, err)
	}
	return id
}

// vacuum does what autovacuum would do some time later.
func (f *benchService) vacuum(b *testing.B, tables ...string) {
	b.Helper()
	for _, table := range tables {
		if _, err := f.super.Exec(context.Background(), "vacuum (freeze, analyze) "+table); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := f.super.Exec(context.Background(), "checkpoint"); err != nil {
		b.Fatal(err)
	}
}
