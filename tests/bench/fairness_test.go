package bench_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spoolwright/auth"
	"spoolwright/db"

	"spoolwright/tests/testkit"
	"spoolwright/value"
)

const (
	fairRounds    = 5
	fairRound     = 3 * time.Second
	fairAttackers = 10 // users of the tenant that attacks
)

// BenchmarkFairness measures the requests of one tenant alone, and while ten users of another tenant send as many
// expensive requests as they can, in alternating rounds. It reports the p99 of the reads and writes in milliseconds,
// the median ratio of the rounds, and how many requests of the attacker succeeded and how many got a 503.
func BenchmarkFairness(b *testing.B) {
	f := newBenchService(b, nil)
	ctx := context.Background()
	spools := f.fairVictim(b)
	attacker := &benchService{addr: f.addr, super: f.super, actor: db.Actor{Tenant: value.NewID()}}
	tokens := f.fairUsers(b, attacker.actor.Tenant, fairAttackers)
	attacker.token = tokens[0]

	// What the attacker has: a chain of a thousand products, as older versions allowed, and a thousand long
	// descriptions.
	tenant := attacker.actor.Tenant
	bottom, material := value.NewID(), value.NewID()
	for sql, args := range map[string][]any{
		`with p as (
				insert into products (tenant_id, id, name, levels)
				select $1::uuid, case when n = 0 then $2::uuid else uuid_v7() end, 'Level ' || n, n
				from generate_series(0, 999) n returning id, levels
			), c as (
				insert into product_components (tenant_id, id, product_id, component_product_id)
				select $1::uuid, uuid_v7(), a.id, b.id from p a join p b on b.levels = a.levels - 1
			)
			insert into product_materials (tenant_id, id, product_id, material_type, color, weight_grams)
			values ($1::uuid, $3::uuid, $2::uuid, 'PLA', 'Black', 1)`: {tenant, bottom, material},
		`insert into products (tenant_id, id, name, description)
			select $1::uuid, uuid_v7(), 'Long ' || n, repeat('a', 10000) from generate_series(1, 1000) n`: {tenant},
	} {
		if _, err := f.super.Exec(ctx, sql, args...); err != nil {
			b.Fatal(err)
		}
	}
	f.vacuum(b, "products", "product_components", "product_materials")
	path := fmt.Sprintf("/api/v1/products/%s/materials/%s", bottom, material)
	search := "/api/v1/products?search=" + url.QueryEscape("b"+strings.Repeat("a", 99))
	for _, attack := range []struct {
		name    string
		clients int
		next    func(n int) (method, path, body string)
	}{
		{"chain", 24, func(n int) (string, string, string) {
			return "PATCH", path, fmt.Sprintf(`{"weight_grams":%d}`, 1+n%1000)
		}},
		{"search", 20, func(int) (string, string, string) { return "GET", search, "" }},
	} {
		b.Run(attack.name, func(b *testing.B) {
			var alone, attacked, ratios [2][]float64 // of reads and writes
			var answered, rejected atomic.Int64      // requests of the attacker
			for range fairRounds {
				a := f.fairRound(b, spools)
				stop := make(chan struct{})
				var group sync.WaitGroup
				clients := attacker.connect(b)
				for client := range attack.clients {
					group.Go(func() {
						for n := client; ; n++ {
							select {
							case <-stop:
								return
							default:
							}
							method, path, body := attack.next(n)
							switch err := clients.do(client,
								rawRequest(method, path, body, tokens[client%fairAttackers])); err {
							case nil:
								answered.Add(1)
							case errBusy:
								rejected.Add(1)
							default:
								b.Error(err)
								return
							}
						}
					})
				}
				time.Sleep(time.Second) // until the load is as it stays
				under := f.fairRound(b, spools)
				close(stop)
				group.Wait()
				for kind := range a {
					alone[kind], attacked[kind] = append(alone[kind], a[kind]), append(attacked[kind], under[kind])
					ratios[kind] = append(ratios[kind], under[kind]/a[kind])
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(answered.Load()), "attacks")
			b.ReportMetric(float64(rejected.Load()), "rejected-attacks")
			for kind, name := range []string{"read", "write"} {
				b.ReportMetric(median(alone[kind]), name+"-alone-p99-ms")
				b.ReportMetric(median(attacked[kind]), name+"-p99-ms")
				b.ReportMetric(median(ratios[kind]), name+"-ratio")
			}
		})
	}
}

// fairVictim makes the service's tenant ready for fairRound, and returns the paths of its spools.
func (f *benchService) fairVictim(b *testing.B) (spools []string) {
	b.Helper()
	testkit.Check(b, loadSpools(context.Background(), f.super, f.actor.Tenant, 1000, 1))
	for _, id := range f.queryStrings(b, `select id::text from spools where in_stock`) {
		spools = append(spools, "/api/v1/spools/"+id)
	}
	return spools
}

// fairUsers creates a tenant with users and returns their tokens.
func (f *benchService) fairUsers(b *testing.B, tenant string, n int) (tokens []string) {
	b.Helper()
	ctx := context.Background()
	if _, err := f.super.Exec(ctx, `insert into tenants (tenant_id, name) values ($1, 'attacker')`,
		tenant); err != nil {
		b.Fatal(err)
	}
	for range n {
		user := value.NewID()
		_, err := f.super.Exec(ctx, `insert into users (tenant_id, id, email, name, role, password_hash)
			values ($1, $2::uuid, $2::uuid::text, 'x', 'operator', 'x')`, tenant, user)
		testkit.Check(b, err)
		token, err := f.tokens.Access(auth.Principal{TenantID: tenant, UserID: user, Role: "operator"})
		testkit.Check(b, err)
		tokens = append(tokens, token)
	}
	return tokens
}

// fairRound sends reads and writes of one client, in turn, and returns the p99 of each in milliseconds.
func (f *benchService) fairRound(b *testing.B, spools []string) (p99 [2]float64) {
	b.Helper()
	clients := f.connect(b)
	any := randomPick(spools)
	var took [2][]time.Duration
	send := func(kind int, method, path, body string) {
		start := time.Now()
		testkit.Check(b, clients.do(0, f.request(method, path, body)))
		took[kind] = append(took[kind], time.Since(start))
	}
	for begin := time.Now(); time.Since(begin) < fairRound; {
		send(0, "GET", any(), "")
		send(0, "GET", "/api/v1/spools", "")
		send(1, "POST", any()+"/deduct", `{"weight_grams":0.01}`)
	}
	for kind := range took {
		slices.Sort(took[kind])
		p99[kind] = percentile(took[kind], 0.99)
	}
	return p99
}
