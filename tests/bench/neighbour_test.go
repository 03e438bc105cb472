package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spoolwright/db"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// loadLargeFarm fills a tenant with 100,000 filaments and 300,000 spools. A third of the spools have one of the
// filaments; the others have none, and show 101,000 computed filaments.
func loadLargeFarm(ctx context.Context, f *benchService, tenant string) error {
	for _, sql := range []string{
		`set session_replication_role = replica`,
		`insert into filaments (tenant_id, id, number, material_type, name, color, vendor_name, diameter_mm, created_at)
			select $1, uuid_v7(), n, 'PLA', 'Filament ' || n, 'Color ' || n % 50, 'Brand ' || n % 100, 1.75,
				now() - n * interval '1 second'
			from generate_series(1, 100000) n`,
		`insert into spools (tenant_id, id, number, filament_id, material_type, brand, color, diameter_mm,
				net_weight_grams, remaining_weight_grams, purchase_price, notes)
			select $1, uuid_v7(), n, f.id, case when n % 3 = 0 then 'PLA' else 'PETG' end, 'Brand ' || n % 1000,
				'Color ' || n % 101, 1.75, 1000, 1000, 20, 'Bought for order ' || n
			from generate_series(1, 300000) n
			left join filaments f on n % 3 = 0 and f.tenant_id = $1 and f.number = n / 3`,
		`insert into counters values ($1, 'spools', 300000, 300000), ($1, 'filaments', 100000, 100000)`,
		`set session_replication_role = origin`,
	} {
		var args []any
		if sql[0] == 'i' {
			args = []any{tenant}
		}
		if _, err := f.super.Exec(ctx, sql, args...); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// BenchmarkFilaments measures pages of the filaments that the Spoolman API shows of a large farm, in milliseconds.
func BenchmarkFilaments(b *testing.B) {
	f := newBenchService(b, func(ctx context.Context, f *benchService) error {
		return loadLargeFarm(ctx, f, f.actor.Tenant)
	})
	for name, query := range map[string]string{
		"first": "limit=10", "last": "limit=10&sort=id:desc", "middle": "limit=10&offset=150000",
		"by-name": "limit=10&sort=name:asc", "of-vendor": "limit=10&vendor.name=Brand+7", "all": "", "one": "limit=1",
	} {
		b.Run(name, func(b *testing.B) {
			clients := f.connect(b)
			var took []float64
			for range 7 {
				at := time.Now()
				err := clients.do(0, f.request("GET", "/spoolman/api/v1/filament?"+query, ""))
				if err != nil && !(name == "all" && strings.Contains(err.Error(), "must select fewer items")) {
					b.Fatal(err)
				}
				took = append(took, float64(time.Since(at))/1e6)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(took), "ms")
		})
	}
}

// BenchmarkNeighbor measures the reads and deductions of one tenant alone, and while another tenant with 300,000
// spools floods the service with searches that match nothing, plans of 500 items, lists of filaments and reports, in
// alternating rounds. It reports the median, the p95 and the maximum in milliseconds, and how many requests of the
// other tenant succeeded and how many got a 503 or 429.
func BenchmarkNeighbor(b *testing.B) {
	const clientsOfFlood, rounds = 16, 4
	large := &benchService{actor: db.Actor{Tenant: value.NewID()}}
	var tokens []string
	var items []string
	f := newBenchService(b, nil)
	spools := f.fairVictim(b)
	large.addr, large.super, large.recorder = f.addr, f.super, f.recorder
	tokens = f.fairUsers(b, large.actor.Tenant, clientsOfFlood)
	large.token = tokens[0]
	testkit.Check(b, loadLargeFarm(context.Background(), large, large.actor.Tenant))
	f.vacuum(b, "spools", "filaments")
	for n := range 20 {
		id := large.create(b, "/api/v1/products", fmt.Sprintf(`{"name":"Product %d","pieces_per_plate":1,
			"estimated_print_time_minutes":90,"materials":[{"material_type":"PETG","color":"Color %d",
			"weight_grams":20.5}]}`, n, 1+n))
		items = append(items, fmt.Sprintf(`{"product_id":"%s","quantity":2}`, id))
	}
	for n := range 50 {
		large.create(b, "/api/v1/printers", fmt.Sprintf(`{"name":"Printer %d","slots":4}`, n))
	}
	plan := `{"items":[` + strings.Repeat(strings.Join(items, ",")+",", 24) + strings.Join(items, ",") + `]}`
	f.vacuum(b, "products", "product_materials", "printers")
	attacks := []func() (method, path, body string){
		func() (string, string, string) {
			return "GET", "/api/v1/spools?search=" + url.QueryEscape("%a%b"), ""
		},
		func() (string, string, string) { return "POST", "/api/v1/plan", plan },
		func() (string, string, string) { return "GET", "/spoolman/api/v1/filament?limit=10", "" },
		func() (string, string, string) { return "GET", "/api/v1/spools?sort_by=notes&limit=100", "" },
	}
	var body []byte
	alone := func() float64 { // the time of a plan in milliseconds
		at := time.Now()
		_, body = large.record(b, "POST", "/api/v1/plan", plan)
		return float64(time.Since(at)) / 1e6
	}
	alone()
	before := f.cpuTime(b)
	took := median([]float64{alone(), alone(), alone(), alone(), alone()})
	cpu := float64(f.cpuTime(b)-before) / 5e6
	var made struct{ Runs []json.RawMessage }
	testkit.Check(b, json.Unmarshal(body, &made))

	round := func() (all []time.Duration) {
		clients := f.connect(b)
		any := randomPick(spools)
		send := func(method, path, body string) {
			at := time.Now()
			testkit.Check(b, clients.do(0, f.request(method, path, body)))
			all = append(all, time.Since(at))
		}
		for begin := time.Now(); time.Since(begin) < fairRound; time.Sleep(2 * time.Millisecond) { // as people and printers
			send("GET", any(), "")
			send("GET", "/api/v1/spools", "")
			send("POST", any()+"/deduct", `{"weight_grams":0.01}`)
		}
		return all
	}
	var quiet, beside []time.Duration
	var answered, rejected atomic.Int64
	b.ResetTimer()
	for range rounds {
		quiet = append(quiet, round()...)
		stop := make(chan struct{})
		var group sync.WaitGroup
		clients := large.connect(b)
		for client := range clientsOfFlood {
			group.Go(func() {
				for n := client; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					method, path, body := attacks[n%len(attacks)]()
					switch err := clients.do(client, rawRequest(method, path, body, tokens[client])); {
					case err == nil:
						answered.Add(1)
					case err == errBusy || strings.Contains(err.Error(), "429"):
						rejected.Add(1)
					default:
						b.Error(err)
						return
					}
				}
			})
		}
		time.Sleep(time.Second) // until the load is as it stays
		beside = append(beside, round()...)
		close(stop)
		group.Wait()
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(len(body)), "plan-bytes")
	b.ReportMetric(float64(len(made.Runs)), "plan-runs")
	b.ReportMetric(took, "plan-ms")
	b.ReportMetric(cpu, "plan-cpu-ms")
	b.ReportMetric(float64(answered.Load()), "flood")
	b.ReportMetric(float64(rejected.Load()), "rejected-flood")
	for name, all := range map[string][]time.Duration{"quiet": quiet, "beside": beside} {
		slices.Sort(all)
		b.ReportMetric(percentile(all, 0.5), name+"-p50-ms")
		b.ReportMetric(percentile(all, 0.95), name+"-p95-ms")
		b.ReportMetric(float64(all[len(all)-1])/1e6, name+"-max-ms")
	}
}
