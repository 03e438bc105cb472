package bench_test

import (
	"context"
	"testing"
)

// BenchmarkSums measures lists that show sums of the spools in stock, in a tenant with 1,000,000 spools of 1,000
// filaments of 20 vendors, half of them in stock, and three stock levels: of all PLA, of a color, and of a color and
// brand. It reports the median of the durations, in milliseconds, of requests one after the other.
func BenchmarkSums(b *testing.B) {
	f := newBenchService(b, func(ctx context.Context, f *benchService) error {
		for _, sql := range []string{
			`set session_replication_role = replica`,
			`insert into vendors (tenant_id, id, number, name)
				select $1, uuid_v7(), n, 'Vendor ' || n from generate_series(1, 20) n`,
			`insert into filaments (tenant_id, id, number, vendor_id, vendor_name, material_type, color, diameter_mm,
					net_weight_grams)
				select $1, uuid_v7(), n, v.id, v.name, (array['PLA', 'PETG', 'ABS'])[1 + n % 3], 'Color ' || n % 50, 1.75, 1000
				from generate_series(1, 1000) n join vendors v on v.number = 1 + n % 20`,
			`insert into spools (tenant_id, id, number, filament_id, material_type, brand, color, diameter_mm,
					net_weight_grams, remaining_weight_grams, purchase_price)
				select $1, uuid_v7(), n + 1, f.id, f.material_type, f.vendor_name, f.color, 1.75, 1000,
					case when n / 1000 % 2 = 0 then 500 else 0 end, 20
				from generate_series(0, 999999) n join filaments f on f.number = 1 + n % 1000`,
			`insert into counters
				values ($1, 'spools', 1000000, 1000000), ($1, 'filaments', 1000, 1000), ($1, 'vendors', 20, 20)`,
			`insert into stock_levels (tenant_id, id, material_type, color, brand, minimum_grams)
				values ($1, uuid_v7(), 'PLA', null, null, 1000), ($1, uuid_v7(), 'PLA', 'Color 1', null, 1000),
					($1, uuid_v7(), 'ABS', 'Color 2', 'Vendor 3', 1000)`,
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
	b.ResetTimer()
	for name, path := range map[string]string{
		"20-filaments": "/api/v1/filaments?limit=20", "50-filaments": "/api/v1/filaments?limit=50",
		"20-vendors": "/api/v1/vendors?limit=20", "3-levels": "/api/v1/stock-levels",
		"3-levels-by-missing": "/api/v1/stock-levels?sort_by=missing_grams",
	} {
		b.ReportMetric(f.medianTime(b, "GET", func() (string, string) { return path, "" }), name+"-ms")
	}
	b.ReportMetric(0, "ns/op")
}
