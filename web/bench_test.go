package web_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

// benchFarm returns a service whose database counts round trips, and a user of a farm with 50 of everything that a
// list shows, signed in.
func benchFarm(tb testing.TB) (*testkit.API, *browser, *atomic.Int64) {
	tb.Helper()
	d, trips := testkit.CountTrips(tb)
	api := testkit.New(tb, testkit.Options{DB: d}, testkit.Features...)
	c := api.Operator(tb)
	for i := range 50 {
		name := fmt.Sprint(i, " of the things on the shelf at the window")
		filament := c.Post(tb, "/api/v1/filaments", j{"vendor": fmt.Sprint("Vendor ", i), "color": "Galaxy " + name,
			"material_type": "PLA", "color_hex": "#336699", "diameter_mm": 1.75, "net_weight_grams": 1000,
			"price": 24.99}).Want(201).ID()
		spool := c.Post(tb, "/api/v1/spools", j{"filament_id": filament, "location": "Shelf " + name,
			"remaining_weight_grams": 10 + i*20}).Want(201).ID()
		product := c.NewProduct(tb, "Hook "+name, 10)
		c.Post(tb, "/api/v1/orders", j{"customer": "Customer " + name, "reference": fmt.Sprint("2026-", i),
			"due_date": "2030-01-01", "items": []j{{"product_id": product, "quantity": 2}}}).Want(201)
		run := c.Post(tb, "/api/v1/production-runs", j{"printer_name": "Printer " + name,
			"estimated_print_time_hours": 90000, "materials": []j{{"spool_id": spool, "estimated_weight_grams": 1}}})
		c.Post(tb, "/api/v1/production-runs/"+run.Want(201).ID()+"/start", nil).Want(200)
		c.Post(tb, "/api/v1/stock-levels", j{"material_type": "PLA", "color": name, "minimum_grams": 5000}).Want(201)
	}
	return api, signIn(tb, c), trips
}

// benchPages are the pages with the most rows.
var benchPages = []string{"/", "/spools", "/filaments", "/vendors", "/products", "/runs", "/runs/all", "/orders",
	"/stock", "/reports"}

// A page with 50 rows has at most 60 KB, and 12 KB compressed.
func TestPageSizes(t *testing.T) {
	t.Parallel()
	_, b, trips := benchFarm(t)
	b.header.Set("Accept-Encoding", "gzip")
	for _, path := range benchPages {
		trips.Store(0)
		p := b.get(t, path).want(t, 200)
		z, err := gzip.NewReader(strings.NewReader(p.text))
		testkit.Check(t, err)
		text, err := io.ReadAll(z)
		if err != nil || len(text) > 60_000 || len(p.text) > 12_000 {
			t.Errorf("%s: %d bytes, %d compressed, %v", path, len(text), len(p.text), err)
		}
		t.Logf("%s: %d bytes, %d compressed, %d round trips", path, len(text), len(p.text), trips.Load())
	}
}

// BenchmarkPages measures the CPU time of the service for a page with 50 rows, without PostgreSQL: the median and the
// 5th percentile, which other load of the machine disturbs least.
func BenchmarkPages(b *testing.B) {
	api, visitor, _ := benchFarm(b)
	for i := range 2 * len(benchPages) {
		path, name, language := benchPages[i/2], benchPages[i/2], "en"
		if i%2 == 1 {
			name, language = path+" in Japanese", "ja"
		}
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header = visitor.header.Clone()
			r.Header.Set("Accept-Language", language)
			r.Host = strings.TrimPrefix(api.URL, "http://")
			r.RemoteAddr = "127.0.0.1:1"
			for _, c := range visitor.client.Jar.Cookies(visitor.url(b, path)) {
				r.AddCookie(c)
			}
			serve := func() {
				w := httptest.NewRecorder()
				api.Server.ServeHTTP(w, r)
				if w.Code != 200 {
					b.Fatalf("%s: %d %s", path, w.Code, w.Body)
				}
			}
			for range 20 {
				serve()
			}
			var times []time.Duration
			for b.Loop() {
				before := cpuTime(b)
				serve()
				times = append(times, cpuTime(b)-before)
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "cpu-µs")
			b.ReportMetric(float64(times[len(times)/20].Microseconds()), "cpu-µs-p5")
		})
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	testkit.Check(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
