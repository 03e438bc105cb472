package bench_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

// cpuTime returns the CPU time of this process, with the service and its clients, and of PostgreSQL, on Linux.
func (f *benchService) cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var self syscall.Rusage
	testkit.Check(b, syscall.Getrusage(syscall.RUSAGE_SELF, &self))
	total := time.Duration(self.Utime.Nano() + self.Stime.Nano())
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if parent, _ := strconv.Atoi(fields[1]); parent == f.postmaster {
			user, _ := strconv.Atoi(fields[11])
			system, _ := strconv.Atoi(fields[12])
			total += time.Duration(user+system) * 10 * time.Millisecond // ticks of 1/100 s
		}
	}
	return total
}

// BenchmarkPrinters measures reports of printers: their CPU time beside that of other writes, with one client, and
// their response time while 32 clients read.
func BenchmarkPrinters(b *testing.B) {
	f := newBenchService(b, nil)
	var ids []string
	for range 500 {
		ids = append(ids, f.create(b, "/api/v1/spools", `{"material_type":"PLA","color":"Black","diameter_mm":1.75,`+
			`"net_weight_grams":1000}`))
	}
	spool := func() string { return "/api/v1/spools/" + ids[rand.IntN(len(ids))] }
	use := func(n int) []byte {
		return f.request("PUT", fmt.Sprintf("/spoolman/api/v1/spool/%d/use", n), `{"use_length":12.5}`)
	}
	requests := map[string]func() []byte{
		"read":   func() []byte { return f.request("GET", spool(), "") },
		"deduct": func() []byte { return f.request("POST", spool()+"/deduct", `{"weight_grams":0.01}`) },
		"report": func() []byte { return use(1 + rand.IntN(20)) },
		"create": func() []byte {
			return f.request("POST", "/api/v1/spools", `{"material_type":"PLA","brand":"Polymaker","color":"Black",`+
				`"diameter_mm":1.75,"net_weight_grams":1000,"purchase_price":24.99}`)
		},
	}
	for _, name := range []string{"read", "deduct", "report", "create"} {
		b.Run("cpu/"+name, func(b *testing.B) {
			clients := f.connect(b)
			run := func(n int) float64 {
				before := f.cpuTime(b)
				for range n {
					testkit.Check(b, clients.do(0, requests[name]()))
				}
				return float64(f.cpuTime(b)-before) / float64(n) / 1000
			}
			run(200)
			b.ResetTimer()
			var costs []float64
			for range 9 {
				costs = append(costs, run(300))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(costs), "cpu-µs/req")
		})
	}
	b.Run("farm", func(b *testing.B) {
		const printers, interval, length = 200, 5 * time.Second, 20 * time.Second
		readers := f.connect(b)
		reporters := append(f.connect(b), f.connect(b)...)
		for len(reporters) < printers {
			reporters = append(reporters, f.connect(b)...)
		}
		var mu sync.Mutex
		var took []time.Duration
		var reads atomic.Int64
		var group sync.WaitGroup
		b.ResetTimer()
		end := time.Now().Add(length)
		for n := range printers {
			group.Go(func() {
				for next := time.Now().Add(rand.N(interval)); next.Before(end); next = next.Add(interval) {
					time.Sleep(time.Until(next)) // the pace of a printer
					at := time.Now()
					if err := reporters.do(n, use(1+n)); err != nil {
						b.Error(err)
						return
					}
					mu.Lock()
					took = append(took, time.Since(at))
					mu.Unlock()
				}
			})
		}
		for n := range benchClients {
			group.Go(func() {
				for time.Now().Before(end) {
					if err := readers.do(n, f.request("GET", spool(), "")); err != nil {
						b.Error(err)
						return
					}
					reads.Add(1)
				}
			})
		}
		group.Wait()
		slices.Sort(took)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(len(took)), "reports")
		b.ReportMetric(percentile(took, 0.5), "p50-ms")
		b.ReportMetric(percentile(took, 0.99), "p99-ms")
		b.ReportMetric(float64(reads.Load())/length.Seconds(), "reads/s")
	})
	b.Run("lists", func(b *testing.B) {
		for n := range 45 {
			id := f.create(b, "/api/v1/filaments", fmt.Sprintf(`{"vendor":"Vendor %d","name":"PLA %d",`+
				`"material_type":"PLA","color":"Color %d","diameter_mm":1.75,"net_weight_grams":1000}`, n%5, n, n))
			f.record(b, "POST", "/api/v1/filaments/"+id+"/spools", `{"quantity":100}`)
		}
		clients := f.connect(b)
		page := func(path string) func(int) error { // one of 250, or the whole list
			return func(n int) error {
				path := path
				if strings.HasSuffix(path, "=") {
					path += strconv.Itoa(20 * rand.IntN(250))
				}
				return clients.do(n, f.request("GET", path, ""))
			}
		}
		const surface = "/spoolman/api/v1/"
		lists := []struct {
			name string
			get  func(int) error
		}{
			{"own", page("/api/v1/spools?limit=20&skip=")}, {"spools", page(surface + "spool?limit=20&offset=")},
			{"filaments", page(surface + "filament")}, {"vendors", page(surface + "vendor")},
		}
		counts := map[string][]float64{}
		b.ResetTimer()
		for range 5 {
			for _, list := range lists {
				done := len(round(b, time.Second, list.get))
				counts[list.name] = append(counts[list.name], float64(done))
			}
		}
		b.ReportMetric(0, "ns/op")
		for _, list := range lists {
			b.ReportMetric(median(counts[list.name]), list.name+"/s")
		}
	})
}
