package bench_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/auth"
	"spoolwright/testkit"
)

// BenchmarkTenants compares requests of 3,000 random tenants with those of 16, in alternating rounds, in a database with
// 10,000 tenants that have 100 spools each. It reports the requests in a second of both, and the median
// ratio of the rounds.
func BenchmarkTenants(b *testing.B) {
	const tenants, spools, active, few, turns, length = 10_000, 100, 3000, 16, 5, 2 * time.Second
	f := newBenchService(b, func(ctx context.Context, f *benchService) error {
		for _, sql := range []string{
			fmt.Sprint(`insert into tenants (tenant_id, name)
				select uuid_v7(), 'Farm ' || n from generate_series(1, `, tenants, `) n`),
			`insert into users (tenant_id, id, email, name, role, password_hash)
				select tenant_id, tenant_id, tenant_id || '@farm.example', 'User', 'operator', 'none'
				from tenants where name like 'Farm %'`,
			fmt.Sprint(`insert into spools (tenant_id, id, number, material_type, color, brand, diameter_mm,
					net_weight_grams, remaining_weight_grams)
				select tenant_id, uuid_v7(), n, 'PLA', 'Black', 'Brand', 1.75, 1000, 1000
				from tenants cross join generate_series(1, `, spools, `) n where name like 'Farm %'`),
		} {
			if _, err := f.super.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
	type farm struct {
		token  string
		spools []string
	}
	var farms []farm
	rows, err := f.super.Query(context.Background(), `
		select tenant_id::text, array_agg(id::text) from spools group by 1 order by random() limit $1`, active)
	testkit.Check(b, err)
	var tenant string
	var one farm
	_, err = pgx.ForEachRow(rows, []any{&tenant, &one.spools}, func() (err error) {
		one.token, err = f.tokens.Access(auth.Principal{TenantID: tenant, UserID: tenant, Role: "operator"})
		farms = append(farms, one)
		one.spools = nil
		return err
	})
	testkit.Check(b, err)
	anySpool := func(f farm) string { return "/api/v1/spools/" + f.spools[rand.N(spools)] }
	anyPage := func(farm) string { return fmt.Sprint("/api/v1/spools?limit=20&skip=", rand.N(spools-20)) }
	for _, request := range []struct {
		name, method, body string
		path               func(farm) string
	}{
		{"read", "GET", "", anySpool},
		{"pages", "GET", "", anyPage},
		{"deduct", "POST", `{"weight_grams":0.001}`, func(f farm) string { return anySpool(f) + "/deduct" }},
	} {
		b.Run(request.name, func(b *testing.B) {
			clients := f.connect(b)
			perSecond := func(of []farm) float64 {
				all := round(b, length, func(client int) error {
					one := of[rand.N(len(of))]
					return clients.do(client, rawRequest(request.method, request.path(one), request.body, one.token))
				})
				return float64(len(all)) / length.Seconds()
			}
			var many, some, ratios []float64
			for i := range turns {
				some = append(some, perSecond(farms[:few]))
				many = append(many, perSecond(farms))
				ratios = append(ratios, many[i]/some[i])
			}
			b.ReportMetric(median(some), "few-req/s")
			b.ReportMetric(median(many), "many-req/s")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}
