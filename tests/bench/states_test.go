package bench_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"spoolwright/tests/testkit"
)

// statesProgram is the program, with an admin who is signed in to the API and to the pages.
type statesProgram struct {
	f       *benchService
	process *exec.Cmd
	client  *http.Client
	url     string
	token   string
}

func newStatesProgram(b *testing.B) *statesProgram {
	f := newBenchService(b, nil)
	addr := freeAddr(b)
	p := &statesProgram{f: f, url: "http://" + addr}
	p.process, _ = startProgram(b, benchProgram(b), addr, "DATABASE_URL="+f.serviceURL, "RATE_LIMIT_PER_MINUTE=0",
		"RATE_LIMIT_PER_HOUR=0", "JWT_SECRET="+rand.Text()+rand.Text())
	b.Cleanup(func() { stopProgram(b, p.process) })
	jar, err := cookiejar.New(nil)
	testkit.Check(b, err)
	p.client = &http.Client{Jar: jar}
	r, err := p.client.PostForm(p.url+"/sign-in", url.Values{"email": {"bench@farm.example"}, "password": {"bench-password"}})
	testkit.Check(b, err)
	r.Body.Close()
	var login struct {
		Token string `json:"access_token"`
	}
	testkit.Check(b, json.Unmarshal(p.do(b, "POST", "/api/v1/auth/login",
		map[string]string{"email": "bench@farm.example", "password": "bench-password"}), &login))
	p.token = login.Token
	return p
}

// do sends a request and returns the body of the response.
func (p *statesProgram) do(b *testing.B, method, path string, body any) []byte {
	b.Helper()
	var text []byte
	if body != nil {
		var err error
		text, err = json.Marshal(body)
		testkit.Check(b, err)
	}
	r, err := http.NewRequest(method, p.url+path, bytes.NewReader(text))
	testkit.Check(b, err)
	r.Header.Set("Content-Type", "application/json")
	if p.token != "" && strings.HasPrefix(path, "/api/") {
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	response, err := p.client.Do(r)
	testkit.Check(b, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	testkit.Check(b, err)
	if response.StatusCode >= 300 || response.Request.URL.Path != r.URL.Path {
		b.Fatalf("%s %s: %s at %s %s", method, path, response.Status, response.Request.URL.Path, answer)
	}
	return answer
}

// create sends a POST and returns the id of the created resource.
func (p *statesProgram) create(b *testing.B, path string, body any) string {
	b.Helper()
	var created struct{ ID string }
	testkit.Check(b, json.Unmarshal(p.do(b, "POST", path, body), &created))
	return created.ID
}

// statesCost is what work cost.
type statesCost struct {
	took, service, postgres time.Duration // the latter are CPU times
	wal                     int64         // bytes
	transactions, rows      int64         // committed, and written
}

// cost does the work and returns what it cost.
func (p *statesProgram) cost(b *testing.B, work func()) (c statesCost) {
	b.Helper()
	ctx := context.Background()
	read := func() (at statesCost) {
		testkit.Check(b, p.f.super.QueryRow(ctx, `select pg_current_wal_insert_lsn() - '0/0', xact_commit,
			tup_inserted + tup_updated + tup_deleted from pg_stat_database where datname = current_database()`).
			Scan(&at.wal, &at.transactions, &at.rows))
		return at
	}
	time.Sleep(11 * time.Second) // after 10 seconds, idle processes of PostgreSQL have reported what they counted
	before := read()
	begin, service, postgres := time.Now(), cpuOf(b, p.process.Process.Pid), cpuOf(b, p.f.postmaster)
	work()
	c.took, c.service, c.postgres = time.Since(begin), cpuOf(b, p.process.Process.Pid)-service,
		cpuOf(b, p.f.postmaster)-postgres
	c.wal = read().wal - before.wal
	time.Sleep(11 * time.Second)
	after := read()
	c.transactions, c.rows = after.transactions-before.transactions, after.rows-before.rows
	return c
}

func (c statesCost) report(b *testing.B, name string, n int) {
	b.Helper()
	each := func(v float64, unit string) { b.ReportMetric(v/float64(n), name+"-"+unit) }
	each(c.took.Seconds()*1000, "ms")
	each(c.service.Seconds()*1000, "service-cpu-ms")
	each(c.postgres.Seconds()*1000, "postgres-cpu-ms")
	each(float64(c.wal)/1024, "wal-KiB")
	each(float64(c.transactions), "transactions")
	each(float64(c.rows), "rows")
}

// BenchmarkStates sends the states of the printers of a farm: that each begins a job, then, of 1,000 in each request,
// that nothing has changed, and half a minute later their progress. It reports what a round of all printers costs, the
// memory of the program, and the time of the pages with all printers. Of 1,000 printers, a second round of progress
// comes as a watcher sends it, some printers each second: it reports what one second costs, and beside it a deduction.
func BenchmarkStates(b *testing.B) {
	for _, printers := range []int{1000, 10_000} {
		b.Run(fmt.Sprint("printers=", printers), func(b *testing.B) { benchmarkStates(b, printers) })
	}
}

func benchmarkStates(b *testing.B, count int) {
	p := newStatesProgram(b)
	printers, spools := make([]string, count), make([]string, 1000)
	testkit.Concurrently(8, func(n int) {
		for i := n; i < count; i += 8 {
			printers[i] = p.create(b, "/api/v1/printers", testkit.JSON{"name": fmt.Sprint("P", i)})
		}
		for i := n; i < len(spools); i += 8 {
			spools[i] = p.create(b, "/api/v1/spools", testkit.JSON{"material_type": "PLA", "color": "Black",
				"diameter_mm": 1.75, "net_weight_grams": 1000})
		}
	})
	sequence, progress := 0, 0.1
	send := func(each int) {
		sequence++
		for some := range slices.Chunk(printers, each) {
			var states []testkit.JSON
			for _, id := range some {
				states = append(states, testkit.JSON{"printer_id": id, "sequence": sequence, "state": "printing",
					"job": testkit.JSON{"id": "1", "file": "dragon.gcode", "progress": progress, "seconds_left": 60}})
			}
			p.do(b, "POST", "/api/v1/printer-states", testkit.JSON{"states": states})
		}
	}
	deduct := func() {
		for _, id := range spools {
			p.do(b, "POST", "/api/v1/spools/"+id+"/deduct", testkit.JSON{"weight_grams": 0.01})
		}
	}
	resident := func(name string) { b.ReportMetric(residentMiB(b, p.process), name+"-resident-MiB") }
	resident("before")
	b.ResetTimer()
	p.cost(b, func() { send(100) }).report(b, "starts", 1) // a thousand at once would take long
	resident("starts")
	p.cost(b, func() { send(1000) }).report(b, "unchanged", 1)
	move := func(each int) statesCost {
		time.Sleep(20 * time.Second) // more than 30 with those of cost, because progress is stored after 30
		progress += 0.02
		return p.cost(b, func() { send(each) })
	}
	move(1000) // plans and caches
	move(1000).report(b, "progress", 1)
	if count == 1000 {
		const seconds = 30
		move(count/seconds+1).report(b, "second", seconds)
		deduct()
		p.cost(b, deduct).report(b, "deduction", len(spools))
	}
	resident("progress")
	for name, path := range map[string]string{"today": "/", "printers": "/printers",
		"states": "/api/v1/printer-states?limit=100", "needs": "/api/v1/printer-states?needs_person=true"} {
		var times []float64
		for range 11 {
			begin := time.Now()
			p.do(b, "GET", path, nil)
			times = append(times, time.Since(begin).Seconds()*1000)
		}
		b.ReportMetric(median(times), name+"-ms")
	}
	resident("pages")
	b.ReportMetric(0, "ns/op")
}
