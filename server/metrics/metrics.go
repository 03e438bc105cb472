// Package metrics counts requests, and writes what is counted in the Prometheus text format.
package metrics

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spoolwright/db"
)

// Metrics counts requests.
type Metrics struct {
	version     string
	started     time.Time
	pool        func() db.PoolStats
	more        []func(Writer)
	rateLimited atomic.Int64
	series      sync.Map // seriesKey -> *Histogram
}

type seriesKey struct {
	route, method string
	status        int
}

// buckets are the upper bounds of histograms, in seconds.
var buckets = [...]float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

// Histogram counts durations. The zero value is empty. Its methods may be called concurrently.
type Histogram struct {
	counts [len(buckets) + 1]atomic.Int64
	nanos  atomic.Int64
}

// Observe adds a duration.
func (h *Histogram) Observe(elapsed time.Duration) {
	i, _ := slices.BinarySearch(buckets[:], elapsed.Seconds())
	h.counts[i].Add(1)
	h.nanos.Add(int64(elapsed))
}

// New returns Metrics that start at zero. Each scrape calls pool, if it is not nil, for the state of the
// connection pool. It also calls the functions more, which write metrics of features.
func New(version string, pool func() db.PoolStats, more ...func(Writer)) *Metrics {
	return &Metrics{version: version, started: time.Now(), pool: pool, more: more}
}

// Observe counts a request. The route is empty if there is none. The routes must be few.
func (m *Metrics) Observe(route, method string, status int, elapsed time.Duration) {
	route = cmp.Or(route, "none")
	if !slices.Contains([]string{"GET", "POST", "PATCH", "DELETE", "HEAD", "PUT", "OPTIONS"}, method) {
		method = "other" // clients must not be able to create time series
	}
	key := seriesKey{route, method, status}
	v, ok := m.series.Load(key)
	if !ok {
		v, _ = m.series.LoadOrStore(key, &Histogram{})
	}
	v.(*Histogram).Observe(elapsed)
}

// Limited counts a request that exceeded a rate limit.
func (m *Metrics) Limited() { m.rateLimited.Add(1) }

// Add adds a function that each scrape calls.
func (m *Metrics) Add(more func(Writer)) { m.more = append(m.more, more) }

// Handler returns the handler of /metrics, in the Prometheus text format, and of /debug/pprof/. Clients must not reach
// the handler: serve it on a separate address.
func (m *Metrics) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		b := bufio.NewWriter(w)
		m.write(b)
		b.Flush()
	})
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocalName(r) {
			http.Error(w, "the Host header must name this machine", http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isLocalName reports whether the Host header of a request to a loopback address names a loopback address. It returns
// true for a request to any other address. Without the check, a web page whose name an attacker resolves to 127.0.0.1
// (DNS rebinding) could read the responses.
func isLocalName(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !isLoopback(local.String()) {
		return true
	}
	return isLoopback(r.Host)
}

// isLoopback reports whether a host, with or without a port, is localhost or a loopback address.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// Writer writes metrics in the Prometheus text format.
type Writer struct{ w io.Writer }

// Head begins a metric of the kind counter, gauge or histogram.
func (m Writer) Head(name, kind, help string) {
	fmt.Fprintf(m.w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// Value writes a value of the metric. Labels are empty or have the form a="x",b="y". The number of different labels
// must be small, and clients must not be able to create new ones.
func (m Writer) Value(name, labels string, value any) {
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(m.w, "%s%s %v\n", name, labels, value)
}

// Histogram writes the values of a histogram.
func (m Writer) Histogram(name, labels string, h *Histogram) {
	separator := ""
	if labels != "" {
		separator = ","
	}
	var n int64
	for i, bound := range buckets {
		n += h.counts[i].Load()
		m.Value(name+"_bucket", fmt.Sprintf(`%s%sle="%g"`, labels, separator, bound), n)
	}
	n += h.counts[len(buckets)].Load()
	m.Value(name+"_bucket", labels+separator+`le="+Inf"`, n)
	m.Value(name+"_sum", labels, time.Duration(h.nanos.Load()).Seconds())
	m.Value(name+"_count", labels, n)
}

func (m *Metrics) write(out io.Writer) {
	w := Writer{out}
	histograms := map[string]*Histogram{} // by labels
	m.series.Range(func(k, v any) bool {
		key := k.(seriesKey)
		histograms[fmt.Sprintf(`route=%q,method=%q,status="%d"`, key.route, key.method, key.status)] = v.(*Histogram)
		return true
	})
	series := slices.Sorted(maps.Keys(histograms))

	one := func(name, kind, help string, value any) {
		w.Head(name, kind, help)
		w.Value(name, "", value)
	}
	w.Head("http_requests_total", "counter", "Requests by route, method and status.")
	for _, labels := range series {
		var n int64
		for i := range histograms[labels].counts {
			n += histograms[labels].counts[i].Load()
		}
		w.Value("http_requests_total", labels, n)
	}
	w.Head("http_request_duration_seconds", "histogram", "Time to handle a request.")
	for _, labels := range series {
		w.Histogram("http_request_duration_seconds", labels, histograms[labels])
	}
	one("http_requests_rate_limited_total", "counter", "Requests that exceeded the rate limits.", m.rateLimited.Load())
	if m.pool != nil {
		p := m.pool()
		one("db_pool_max_connections", "gauge", "Maximum size of the pool.", p.Max)
		one("db_pool_connections", "gauge", "Connections in the pool.", p.Total)
		one("db_pool_idle_connections", "gauge", "Idle connections.", p.Idle)
		one("db_pool_in_use_connections", "gauge", "Connections in use.", p.InUse)
		one("db_pool_waiting", "gauge", "Reads and writes that wait for a share of the connections.", p.Waiting)
		one("db_pool_acquires_total", "counter", "Acquired connections.", p.Acquires)
		one("db_pool_waits_total", "counter", "Acquisitions that had to wait for a connection.", p.Waits)
		one("db_pool_wait_seconds_total", "counter", "Time spent waiting for a connection.", p.WaitTime.Seconds())
		one("db_pool_shared_reads_total", "counter", "Reads that shared the round trip of another request.", p.Shared)
	}
	for _, more := range m.more {
		more(w)
	}
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/cpu/classes/gc/total:cpu-seconds"},
	}
	metrics.Read(samples)
	one("go_goroutines", "gauge", "Number of goroutines.", runtime.NumGoroutine())
	one("go_memstats_heap_alloc_bytes", "gauge", "Bytes in heap objects.", samples[0].Value.Uint64())
	one("go_memstats_sys_bytes", "gauge", "Bytes obtained from the system.", samples[1].Value.Uint64())
	one("go_gc_cycles_total", "counter", "Completed collections.", samples[2].Value.Uint64())
	one("go_gc_cpu_seconds_total", "counter", "Estimated processor time spent collecting.", samples[3].Value.Float64())
	one("process_start_time_seconds", "gauge", "Start time of the process, in Unix time.", m.started.Unix())
	w.Head("spoolwright_build_info", "gauge", "Version of the service and of Go.")
	w.Value("spoolwright_build_info", fmt.Sprintf("version=%q,goversion=%q", m.version, runtime.Version()), 1)
}
