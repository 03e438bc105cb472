package bench_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"spoolwright/orders/stock"
	"spoolwright/tests/testkit"
)

// BenchmarkLevels measures deductions of a tenant with 300,000 spools, 100,000 of them PLA of 50 colors, and 4,500
// planned runs, in turns without stock levels and with 100. It reports the ratio of the medians, how many requests a
// second 16 clients send, and how long the creation of a level of all PLA takes, in milliseconds.
func BenchmarkLevels(b *testing.B) {
	f := newBenchService(b, func(ctx context.Context, f *benchService) error {
		for _, sql := range []string{
			`set session_replication_role = replica`,
			`insert into spools (tenant_id, id, number, material_type, brand, color, diameter_mm, net_weight_grams,
					remaining_weight_grams, purchase_price)
				select $1, uuid_v7(), n, case when n % 3 = 0 then 'PLA' else 'PETG' end, 'Brand ' || n % 100,
					'Color ' || n / 3 % 50, 1.75, 1000000, 1000000, 20
				from generate_series(1, 300000) n`,
			`insert into counters values ($1, 'spools', 300000, 300000)`,
			`insert into production_runs (tenant_id, id, status)
				select $1, uuid_v7(), 'pending' from generate_series(1, 4500)`,
			`insert into run_materials (tenant_id, id, run_id, spool_id, estimated_weight_grams)
				select $1, uuid_v7(), r.id, s.id, 50
				from (select id, row_number() over () as n from production_runs) r
				join spools s on s.number = r.n * 60`,
			`set session_replication_role = origin`,
		} {
			var args []any
			if sql[0] == 'i' {
				args = []any{f.actor.Tenant}
			}
			if _, err := f.super.Exec(ctx, sql, args...); err != nil {
				return err
			}
		}
		return nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan bool)
	watcher := stock.Watcher{DB: f.db, Log: slog.New(slog.DiscardHandler), Poll: time.Second}
	go func() { watcher.Run(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()

	spools := f.queryStrings(b, `select id::text from spools where material_type = 'PLA' limit 20000`)
	spool := randomPick(spools)
	next := func() (string, string) { return "/api/v1/spools/" + spool() + "/deduct", `{"weight_grams":0.5}` }
	clients := f.connect(b)
	perSecond := func() float64 {
		const seconds = 2
		done := make([]float64, 16)
		end := time.Now().Add(seconds * time.Second)
		testkit.Concurrently(len(done), func(i int) {
			for time.Now().Before(end) {
				path, body := next()
				if err := clients.do(i, f.request("POST", path, body)); err != nil {
					b.Error(err)
					return
				}
				done[i]++
			}
		})
		sum := 0.0
		for _, n := range done {
			sum += n
		}
		return sum / seconds
	}
	set := func(sql string) {
		_, err := f.super.Exec(context.Background(), sql)
		testkit.Check(b, err)
	}
	b.ResetTimer()
	var without, with, rateWithout, rateWith []float64
	for range 5 {
		set(`delete from stock_levels`)
		without = append(without, f.medianTime(b, "POST", next))
		rateWithout = append(rateWithout, perSecond())
		set(fmt.Sprintf(`insert into stock_levels (tenant_id, id, material_type, color, brand, minimum_grams)
			select '%s', uuid_v7(), 'PLA', 'Color ' || n %% 50, case when n >= 50 then 'Brand 1' end, 100
			from generate_series(0, 99) n`, f.actor.Tenant))
		with = append(with, f.medianTime(b, "POST", next))
		rateWith = append(rateWith, perSecond())
	}
	at := time.Now()
	f.create(b, "/api/v1/stock-levels", `{"material_type":"PLA","minimum_grams":1}`)
	b.ReportMetric(float64(time.Since(at))/1e6, "create-ms")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(without), "without-ms")
	b.ReportMetric(median(with), "with-ms")
	b.ReportMetric(median(with)/median(without), "ratio")
	b.ReportMetric(median(rateWithout), "16-clients-without/s")
	b.ReportMetric(median(rateWith), "16-clients-with/s")
}
