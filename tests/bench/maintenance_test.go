package bench_test

import (
	"context"
	"testing"
	"time"

	"spoolwright/production"
	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/webhooks"
)

// BenchmarkMaintenance measures what the service does each hour for all tenants, one after the other, with 100,000 of
// them: it removes expired idempotency keys, of which each tenant has one, summarizes the ledgers for the report of
// usage, and removes old deliveries of webhooks. It reports the seconds of each part, and the CPU time of all together
// with that of PostgreSQL.
func BenchmarkMaintenance(b *testing.B) {
	f := newBenchService(b, func(ctx context.Context, f *benchService) error {
		for _, statement := range []string{
			`insert into tenants (tenant_id, name) select uuid_v7(), 'Farm ' || n from generate_series(1, 100000) n`,
			`insert into login_directory (email_key, tenant_id, user_id)
				select tenant_id || '@farm.example', tenant_id, tenant_id from tenants`,
			`insert into idempotency_keys (tenant_id, user_id, key, request, created_at)
				select tenant_id, tenant_id, 'order-1', '', now() - interval '25 hours' from tenants`,
		} {
			if _, err := f.super.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	hooks := webhooks.New(webhooks.Config{DB: f.db, Secrets: []string{testkit.Secret}})
	ctx, before := context.Background(), f.cpuTime(b)
	b.ResetTimer()
	for _, part := range []struct {
		name string
		do   func() error
	}{
		{"keys", func() error { return server.Sweep(ctx, f.db) }},
		{"usage", func() error { return production.SummarizeUsage(ctx, f.db) }},
		{"deliveries", func() error { return hooks.Maintain(ctx) }},
	} {
		start := time.Now()
		testkit.Check(b, part.do())
		b.ReportMetric(time.Since(start).Seconds(), part.name+"-s")
	}
	b.ReportMetric((f.cpuTime(b) - before).Seconds(), "cpu-s")
	b.ReportMetric(0, "ns/op")
}
