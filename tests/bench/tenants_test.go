package bench_test

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/auth"
	"spoolwright/tests/testkit"
)

var mostTenants = flag.Int("tenants", 10_000, "number of tenants to which BenchmarkTenants lets the database grow")

// tenantSpools is the number of spools that each tenant of BenchmarkTenants has.
const tenantSpools = 100

// BenchmarkTenants lets the database grow from 1 tenant to 100,000 with 100 spools each. In each size it starts the
// built program, and compares requests of up to 3,000 random tenants with those of 16, in alternating rounds. It
// reports the time of the start in ms, the memory of the program after the rounds, the size of the database, and, of
// each request, the requests in a second of both, the median ratio of the rounds, and the median time in ms. If all
// sizes were measured, it writes the picture of these times.
func BenchmarkTenants(b *testing.B) {
	const active, few, turns, length = 3000, 16, 5, 2 * time.Second
	ctx := context.Background()
	f := newBenchService(b, nil)
	path, secret, have := benchProgram(b), rand.Text()+rand.Text(), 0
	tokens, err := auth.NewTokens([]string{secret}, time.Hour, time.Hour, time.Now)
	testkit.Check(b, err)
	curves := []curve{{"read", map[int]float64{}}, {"pages", map[int]float64{}}, {"deduct", map[int]float64{}}}
	sizes := []int{1, 100, 10_000, 100_000}
	for _, size := range sizes {
		if size > *mostTenants {
			continue
		}
		testkit.Check(b, f.addTenants(ctx, have, size))
		have = size
		f.vacuum(b, "tenants", "users", "spools", "spool_usage", "counters")
		b.Run(fmt.Sprintf("tenants-%d", size), func(b *testing.B) {
			farms := f.tenantFarms(b, tokens, active)
			addr := freeAddr(b)
			process, took := startProgram(b, path, addr, "DATABASE_URL="+f.serviceURL, "JWT_SECRET="+secret,
				"RATE_LIMIT_PER_MINUTE=0", "RATE_LIMIT_PER_HOUR=0")
			defer stopProgram(b, process)
			clients := connectTo(b, addr, benchClients)
			defer clients.close()
			b.ResetTimer()
			for i, request := range []struct {
				name, method, body string
				path               func(tenantFarm) string
			}{
				{"read", "GET", "", tenantFarm.anySpool},
				{"pages", "GET", "", func(tenantFarm) string {
					return fmt.Sprint("/api/v1/spools?limit=20&skip=", mathrand.IntN(tenantSpools-20))
				}},
				{"deduct", "POST", `{"weight_grams":0.001}`, func(f tenantFarm) string { return f.anySpool() + "/deduct" }},
			} {
				send := func(of []tenantFarm) []time.Duration {
					return round(b, length, func(client int) error {
						one := of[mathrand.IntN(len(of))]
						return clients.do(client, rawRequest(request.method, request.path(one), request.body, one.token))
					})
				}
				var many, some, ratios, times []float64
				for i := range turns {
					some = append(some, float64(len(send(farms[:min(few, len(farms))])))/length.Seconds())
					all := send(farms)
					many = append(many, float64(len(all))/length.Seconds())
					times = append(times, percentile(all, 0.5))
					ratios = append(ratios, many[i]/some[i])
				}
				b.ReportMetric(median(some), request.name+"-few/s")
				b.ReportMetric(median(many), request.name+"-many/s")
				b.ReportMetric(median(ratios), request.name+"-ratio")
				b.ReportMetric(median(times), request.name+"-ms")
				curves[i].ms[size] = median(times)
			}
			var bytes int64
			testkit.Check(b, f.super.QueryRow(ctx, `select pg_database_size(current_database())`).Scan(&bytes))
			b.ReportMetric(float64(bytes)/1e6, "database-MB")
			b.ReportMetric(residentMiB(b, process), "resident-MiB")
			b.ReportMetric(float64(took)/1e6, "start-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
	if have == sizes[len(sizes)-1] && len(curves[2].ms) == len(sizes) {
		svg := picture("Median time of a request of random tenants, 32 at a time", "tenants", curves)
		testkit.Check(b, os.WriteFile("docs/tenants.svg", []byte(svg), 0o644))
	}
}

// tenantFarm is a tenant with the token of a user and the ids of its spools.
type tenantFarm struct {
	token  string
	spools []string
}

func (f tenantFarm) anySpool() string {
	return "/api/v1/spools/" + f.spools[mathrand.IntN(len(f.spools))]
}

// tenantFarms returns up to n random tenants of those that addTenants has added.
func (f *benchService) tenantFarms(b *testing.B, tokens *auth.Tokens, n int) (farms []tenantFarm) {
	b.Helper()
	rows, err := f.super.Query(context.Background(), `
		select t.tenant_id::text, (select array_agg(s.id::text) from spools s where s.tenant_id = t.tenant_id)
		from (select tenant_id from tenants where name like 'Farm %' order by random() limit $1) t`, n)
	testkit.Check(b, err)
	var tenant string
	var spools []string
	_, err = pgx.ForEachRow(rows, []any{&tenant, &spools}, func() error {
		token, err := tokens.Access(auth.Principal{TenantID: tenant, UserID: tenant, Role: "operator"})
		farms = append(farms, tenantFarm{token, spools})
		spools = nil
		return err
	})
	testkit.Check(b, err)
	return farms
}

// addTenants adds the tenants "Farm <have+1>" to "Farm <want>", which have a user and spools with an entry in the
// ledger. All but the first one are copies of it, without the work of triggers.
func (f *benchService) addTenants(ctx context.Context, have, want int) error {
	if have == 0 {
		have = 1
		for _, sql := range []string{
			`insert into tenants (tenant_id, name) select uuid_v7(), 'Farm 1'`,
			`insert into users (tenant_id, id, email, name, role, password_hash)
				select tenant_id, tenant_id, tenant_id || '@farm.example', 'User', 'operator', 'none'
				from tenants where name = 'Farm 1'`,
			fmt.Sprint(`with added as (
					insert into spools (tenant_id, id, number, material_type, color, brand, diameter_mm, net_weight_grams,
						remaining_weight_grams)
					select tenant_id, uuid_v7(), n, 'PLA', 'Black', 'Brand', 1.75, 1000, 1000
					from tenants cross join generate_series(1, `, tenantSpools, `) n where name = 'Farm 1' returning *)
				insert into spool_usage (tenant_id, spool_id, kind, before_grams, after_grams)
				select tenant_id, id, 'created', 0, 1000 from added`),
			fmt.Sprint(`insert into counters select tenant_id, 'spools', `, tenantSpools, `, `, tenantSpools, `
				from tenants where name = 'Farm 1'`),
		} {
			if _, err := f.super.Exec(ctx, sql); err != nil {
				return err
			}
		}
	}
	var columns string // of spools
	if err := f.super.QueryRow(ctx, `select string_agg(quote_ident(column_name), ', ') from information_schema.columns
		where table_name = 'spools' and is_generated = 'NEVER' and column_name not in ('tenant_id', 'id')`).
		Scan(&columns); err != nil {
		return err
	}
	for ; have < want; have = min(have+1000, want) {
		if _, err := f.super.Exec(ctx, fmt.Sprintf(`
			set session_replication_role = replica; -- no triggers
			create temp table first as select tenant_id as id from tenants where name = 'Farm 1';
			create temp table copies as
				select uuid_v7() as id, 'Farm ' || n as name from generate_series(%d, %d) n;
			insert into tenants (tenant_id, name) select id, name from copies;
			insert into users (tenant_id, id, email, name, role, password_hash)
				select id, id, id || '@farm.example', 'User', 'operator', 'none' from copies;
			insert into counters (tenant_id, kind, last, total)
				select c.id, r.kind, r.last, r.total from copies c cross join first
				join counters r on r.tenant_id = first.id;
			with added as (
				insert into spools (tenant_id, id, %s) select c.id, uuid_v7(), %s
				from copies c cross join first join spools s on s.tenant_id = first.id returning *)
			insert into spool_usage (tenant_id, spool_id, kind, before_grams, after_grams)
				select tenant_id, id, 'created', 0, 1000 from added;
			drop table first, copies;
			reset session_replication_role`, have+1, min(have+1000, want), columns, columns)); err != nil {
			return err
		}
	}
	return nil
}
