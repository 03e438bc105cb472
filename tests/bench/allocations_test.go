package bench_test

import (
	"context"
	"testing"

	"spoolwright/tests/testkit"
)

// BenchmarkAllocations measures the allocations of requests of one client, one after the other, with an API key. They
// include those of net/http and pgx, but not those of a log line.
func BenchmarkAllocations(b *testing.B) {
	f := newBenchService(b, func(ctx context.Context, f *benchService) error {
		return loadSpools(ctx, f.super, f.actor.Tenant, 2000, 1)
	})
	key := newPeerKey(b, f.addr, f.token)
	spool := f.queryStrings(b, `select id::text from spools where in_stock limit 1`)[0]
	for _, r := range []struct{ name, method, path, body string }{
		{"read", "GET", "/api/v1/spools/" + spool, ""},
		{"list", "GET", "/api/v1/spools?limit=20", ""},
		{"deduct", "POST", "/api/v1/spools/" + spool + "/deduct", `{"weight_grams":0.001}`},
	} {
		b.Run(r.name, func(b *testing.B) {
			clients := connectTo(b, f.addr, 1)
			defer clients.close()
			request := requestWith(r.method, r.path, r.body, "X-API-Key: "+key)
			testkit.Check(b, clients.do(0, request))
			b.ReportAllocs()
			for b.Loop() {
				testkit.Check(b, clients.do(0, request))
			}
		})
	}
}
