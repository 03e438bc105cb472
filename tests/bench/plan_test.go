package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/tests/testkit"
)

// BenchmarkPlan measures the plan of 1,000 open orders with two items each of 20 products, in a tenant with 5,000
// spools and 50 printers. Each product has two materials, and half of them a component. It reports the runs of the
// plan, the time of a request, also with create, and the CPU time of the service and PostgreSQL, which other work on
// the machine does not change.
func BenchmarkPlan(b *testing.B) {
	f := newBenchService(b, func(ctx context.Context, f *benchService) error {
		return loadSpools(ctx, f.super, f.actor.Tenant, 5000, 1)
	})
	filament := func(n int) string { // one of those that loadSpools leaves in stock
		types := []string{"PLA", "PETG", "ABS", "TPU", "ASA", "Nylon", "PC", "HIPS", "PVA", "Custom"}
		return fmt.Sprintf(`"material_type":"%s","color":"Color %d"`, types[n%10], 2*n%20)
	}
	product := func(n int, components string) string {
		return f.create(b, "/api/v1/products", fmt.Sprintf(`{"name":"Product %d","pieces_per_plate":%d,
			"estimated_print_time_minutes":90,"materials":[{%s,"weight_grams":20.5},{%s,"weight_grams":3}],
			"components":[%s]}`, n, 1+n%4, filament(n), filament(n+1), components))
	}
	var products []string
	for n := range 20 {
		components := ""
		if n >= 10 {
			components = fmt.Sprintf(`{"component_product_id":"%s","quantity":2}`, products[n-10])
		}
		products = append(products, product(n, components))
	}
	for n := range 50 {
		f.create(b, "/api/v1/printers", fmt.Sprintf(`{"name":"Printer %d","slots":4}`, n))
	}
	for n := range 1000 {
		f.create(b, "/api/v1/orders", fmt.Sprintf(`{"due_date":"2030-01-%02d","items":[
			{"product_id":"%s","quantity":%d},{"product_id":"%s","quantity":%d}]}`, 1+n%28,
			products[n%20], 1+n%5, products[(n+7)%20], 1+n%3))
	}
	super, err := pgx.Connect(context.Background(), f.super.Config().ConnString())
	if err == nil {
		_, err = super.Exec(context.Background(), `vacuum analyze`)
		super.Close(context.Background())
	}
	testkit.Check(b, err)
	var plan struct{ Runs, Unplanned []json.RawMessage }
	trips, body := f.record(b, "POST", "/api/v1/plan", "{}")
	if err := json.Unmarshal(body, &plan); err != nil || len(plan.Unplanned) > 0 {
		b.Fatalf("%v; unplanned: %s", err, plan.Unplanned)
	}
	clients := f.connect(b)
	send := func(body string) time.Duration {
		start := time.Now()
		testkit.Check(b, clients.do(0, f.request("POST", "/api/v1/plan", body)))
		return time.Since(start)
	}
	b.ResetTimer()
	var took, cpu []float64
	for range 5 {
		before := f.cpuTime(b)
		took = append(took, float64(send("{}"))/1e6)
		cpu = append(cpu, float64(f.cpuTime(b)-before)/1e6)
	}
	before := f.cpuTime(b)
	created := float64(send(`{"create":true}`)) / 1e6
	b.ReportMetric(float64(f.cpuTime(b)-before)/1e6, "create-cpu-ms")
	b.ReportMetric(created, "create-ms")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(len(plan.Runs)), "runs")
	b.ReportMetric(float64(len(trips)), "trips")
	b.ReportMetric(median(took), "ms")
	b.ReportMetric(median(cpu), "cpu-ms")
}
