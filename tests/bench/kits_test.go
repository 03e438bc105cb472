package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/tests/testkit"
)

// BenchmarkKits measures plans of 1,000 open orders for kits of five parts each, in a tenant with 5,000 spools and 50
// printers. The orders have one item of 20 pieces, or 20 items of one piece. In the second case, all parts but some
// are in stock, so that the plan has not too many runs. It reports the runs and the round trips of the plan, and the
// time and the CPU time of a request, also of one for an order.
func BenchmarkKits(b *testing.B) {
	for _, items := range []int{1, 20} {
		b.Run(fmt.Sprintf("items=%d", items), func(b *testing.B) { benchmarkKits(b, items) })
	}
}

func benchmarkKits(b *testing.B, items int) {
	f := newBenchService(b, func(ctx context.Context, f *benchService) error {
		return loadSpools(ctx, f.super, f.actor.Tenant, 5000, 1)
	})
	types := []string{"PLA", "PETG", "ABS", "TPU", "ASA", "Nylon", "PC", "HIPS", "PVA", "Custom"}
	var parts, kits []string
	for n := range 25 {
		parts = append(parts, f.create(b, "/api/v1/products", fmt.Sprintf(`{"name":"Part %d","pieces_per_plate":20,
			"estimated_print_time_minutes":30,"materials":[{"material_type":"%s","color":"Color %d","weight_grams":0.2}]}`,
			n, types[n%10], 2*n%20)))
	}
	for n := range 20 {
		var components []string
		for k := range 5 {
			components = append(components, fmt.Sprintf(`{"component_product_id":"%s"}`, parts[(n+k*5)%25]))
		}
		kits = append(kits, f.create(b, "/api/v1/products",
			fmt.Sprintf(`{"name":"Kit %d","components":[%s]}`, n, strings.Join(components, ","))))
	}
	for n := range 50 {
		f.create(b, "/api/v1/printers", fmt.Sprintf(`{"name":"Printer %d","slots":1}`, n))
	}
	order := ""
	for n := range 1000 {
		var all []string
		for k := range items {
			all = append(all, fmt.Sprintf(`{"product_id":"%s","quantity":%d}`, kits[(n+k)%20], 20/items))
		}
		order = f.create(b, "/api/v1/orders",
			fmt.Sprintf(`{"due_date":"2030-01-%02d","items":[%s]}`, 1+n%28, strings.Join(all, ",")))
	}
	if items > 1 {
		_, err := f.super.Exec(context.Background(), `
			insert into product_pieces (tenant_id, product_id, on_hand)
			select tenant_id, id, 3960 from products where levels = 0`)
		testkit.Check(b, err)
	}
	super, err := pgx.Connect(context.Background(), f.super.Config().ConnString())
	if err == nil {
		_, err = super.Exec(context.Background(), `vacuum analyze`)
		super.Close(context.Background())
	}
	testkit.Check(b, err)
	var plan struct{ Runs, Unplanned []json.RawMessage }
	trips, body := f.record(b, "POST", "/api/v1/plan", "{}")
	if err := json.Unmarshal(body, &plan); err != nil || len(plan.Runs) == 0 || len(plan.Unplanned) > 0 {
		b.Fatalf("%v: %.1000s", err, body)
	}
	clients := f.connect(b)
	send := func(method, path, body string) (ms float64) {
		start := time.Now()
		testkit.Check(b, clients.do(0, f.request(method, path, body)))
		return float64(time.Since(start)) / 1e6
	}
	b.ResetTimer()
	var took, cpu, one, got []float64
	for range 5 {
		before := f.cpuTime(b)
		took = append(took, send("POST", "/api/v1/plan", "{}"))
		cpu = append(cpu, float64(f.cpuTime(b)-before)/1e6)
		one = append(one, send("POST", "/api/v1/orders/"+order+"/plan", "{}"))
		got = append(got, send("GET", "/api/v1/orders/"+order, ""))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(len(plan.Runs)), "runs")
	b.ReportMetric(float64(len(trips)), "trips")
	b.ReportMetric(median(took), "ms")
	b.ReportMetric(median(cpu), "cpu-ms")
	b.ReportMetric(median(one), "order-ms")
	b.ReportMetric(median(got), "get-ms")
}
