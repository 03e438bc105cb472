package bench_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/auth"
	"spoolwright/db/local"
	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// The callers of BenchmarkPeers. Each has a connection and an API key of its own.
const (
	peerCallers = 64
	peerFarms   = 16
	peerSpools  = 640 // of each farm, and of Spoolman
)

// peerFarm is a tenant with its API keys, and the ids of its spools in the service and in the one with FastAPI.
type peerFarm struct {
	tenant       string
	keys         []string
	spools, fast []string
}

// BenchmarkPeers compares the built program with services that others have: the spools of the same API with FastAPI
// and asyncpg, and Spoolman on SQLite and on PostgreSQL. They use the same PostgreSQL as the program. 64 callers send
// requests in alternating turns. It reports the requests in a second of each side, the CPU time of a request in the
// side and in PostgreSQL, in microseconds, and the median ratio of the turns. docs/benchmarks.md says how to install
// the peers.
func BenchmarkPeers(b *testing.B) {
	spoolman, dir, fastAPI := os.Getenv("SPOOLMAN_PYTHON"), os.Getenv("SPOOLMAN_DIR"), os.Getenv("FASTAPI_PYTHON")
	if spoolman == "" && fastAPI == "" {
		b.Skip("SPOOLMAN_PYTHON with SPOOLMAN_DIR, and FASTAPI_PYTHON, name the peers: see docs/benchmarks.md")
	}
	f := newBenchService(b, nil)
	ours, farms := f.startFarms(b)
	b.Run("fastapi", func(b *testing.B) {
		if fastAPI == "" {
			b.Skip("FASTAPI_PYTHON is not set")
		}
		f.comparePeers(b, farms, []peerSide{ours, f.startFastAPI(b, fastAPI, farms)},
			[]peerRequest{
				{name: "read", method: "GET", path: "/api/v1/spools/ID"},
				{name: "list", method: "GET", path: "/api/v1/spools?limit=20"},
				{name: "deduct", method: "POST", path: "/api/v1/spools/ID/deduct", body: `{"weight_grams":0.001}`},
				{name: "create", method: "POST", path: "/api/v1/spools", body: `{"material_type":"PLA",` +
					`"brand":"Polymaker","color":"Black","diameter_mm":1.75,"net_weight_grams":1000,` +
					`"purchase_price":25}`},
			})
	})
	b.Run("spoolman", func(b *testing.B) {
		if spoolman == "" || dir == "" {
			b.Skip("SPOOLMAN_PYTHON or SPOOLMAN_DIR is not set")
		}
		f.comparePeers(b, farms, []peerSide{ours, f.startSpoolman(b, spoolman, dir, "sqlite"),
			f.startSpoolman(b, spoolman, dir, "postgres")},
			[]peerRequest{
				{name: "read", method: "GET", path: "/spoolman/api/v1/spool/NUMBER"},
				{name: "list", method: "GET", path: "/spoolman/api/v1/spool?limit=20"},
				{name: "use", method: "PUT", path: "/spoolman/api/v1/spool/NUMBER/use", body: `{"use_weight":0.001}`},
			})
	})
}

// peerSide is one of the services that are compared. The first one is ours.
type peerSide struct {
	name, addr string
	process    int
}

// peerRequest is a request. In its path, ID stands for the id of a spool, and NUMBER for the number that is its id in
// Spoolman's API.
type peerRequest struct{ name, method, path, body string }

// comparePeers measures the requests at all sides, in alternating turns.
func (f *benchService) comparePeers(b *testing.B, farms []*peerFarm, sides []peerSide, requests []peerRequest) {
	const turns, turn, warmUp = 5, 2 * time.Second, time.Second
	f.vacuum(b, "spools", "spool_usage")
	for _, request := range requests {
		b.Run(request.name, func(b *testing.B) {
			perSecond, ratios := make([][]float64, len(sides)), make([][]float64, len(sides))
			cpu, cpuPostgres := make([][]float64, len(sides)), make([][]float64, len(sides))
			sends := make([]func(time.Duration) float64, len(sides))
			for i, side := range sides {
				texts := peerTexts(farms, side.name, request)
				sends[i] = func(length time.Duration) float64 {
					clients := connectTo(b, side.addr, peerCallers) // uvicorn closes those that wait for their turn
					defer clients.close()
					start, of, ofPostgres := time.Now(), cpuOf(b, side.process), cpuOf(b, f.postmaster)
					all := roundOf(b, peerCallers, length, func(n int) error {
						return clients.do(n, texts[n][mathrand.IntN(len(texts[n]))])
					})
					took, n := time.Since(start), float64(len(all))
					of, ofPostgres = cpuOf(b, side.process)-of, cpuOf(b, f.postmaster)-ofPostgres
					cpu[i] = append(cpu[i], float64(of.Microseconds())/n)
					cpuPostgres[i] = append(cpuPostgres[i], float64(ofPostgres.Microseconds())/n)
					return n / took.Seconds()
				}
				sends[i](warmUp)
				cpu[i], cpuPostgres[i] = nil, nil
			}
			b.ResetTimer()
			for range turns {
				for i, send := range sends {
					now := send(turn)
					perSecond[i] = append(perSecond[i], now)
					ratios[i] = append(ratios[i], perSecond[0][len(perSecond[i])-1]/now)
				}
			}
			b.ReportMetric(0, "ns/op")
			for i, side := range sides {
				b.ReportMetric(median(perSecond[i]), side.name+"/s")
				b.ReportMetric(median(cpu[i]), side.name+"-µs")
				b.ReportMetric(median(cpuPostgres[i]), side.name+"-pg-µs")
				if i > 0 {
					b.ReportMetric(median(ratios[i]), side.name+"-ratio")
				}
			}
		})
	}
}

// peerTexts returns the bytes of requests of each caller at a side: one for each spool of the caller's farm. They
// exist before the turn, so that the callers take little of the processors that they share with the services.
func peerTexts(farms []*peerFarm, side string, request peerRequest) (texts [peerCallers][][]byte) {
	for caller := range texts {
		farm := farms[caller%len(farms)]
		ids := farm.spools
		if side == "fastapi" {
			ids = farm.fast
		}
		path := request.path
		if side == "sqlite" || side == "postgres" {
			path = strings.TrimPrefix(path, "/spoolman")
		}
		for n, id := range ids {
			path := strings.NewReplacer("ID", id, "NUMBER", strconv.Itoa(n+1)).Replace(path)
			texts[caller] = append(texts[caller],
				keyRequest(request.method, path, request.body, farm.keys[caller/len(farms)]))
		}
	}
	return texts
}

// keyRequest returns the bytes of an HTTP request with an API key.
func keyRequest(method, path, body, key string) []byte {
	return requestWith(method, path, body, "X-API-Key: "+key)
}

// startFarms starts the built program, and creates farms with API keys and spools through its API.
func (f *benchService) startFarms(b *testing.B) (ours peerSide, farms []*peerFarm) {
	b.Helper()
	secret := rand.Text() + rand.Text()
	tokens, err := auth.NewTokens([]string{secret}, time.Hour, time.Hour, time.Now)
	testkit.Check(b, err)
	addr := freeAddr(b)
	process, _ := startProgram(b, benchProgram(b), addr, "DATABASE_URL="+f.serviceURL, "JWT_SECRET="+secret,
		"RATE_LIMIT_PER_MINUTE=0", "RATE_LIMIT_PER_HOUR=0")
	b.Cleanup(func() { stopProgram(b, process) })
	for n := range peerFarms {
		farm := &peerFarm{tenant: value.NewID()}
		farms = append(farms, farm)
		for _, sql := range []string{`insert into tenants (tenant_id, name) values ($1, $2)`,
			`insert into users (tenant_id, id, email, name, role, password_hash)
				values ($1, $1, $2 || '@farm.example', 'User', 'admin', 'none')`} {
			_, err := f.super.Exec(context.Background(), sql, farm.tenant, fmt.Sprint("farm", n))
			testkit.Check(b, err)
		}
		token, err := tokens.Access(auth.Principal{TenantID: farm.tenant, UserID: farm.tenant, Role: "admin"})
		testkit.Check(b, err)
		for range peerCallers / peerFarms {
			farm.keys = append(farm.keys, newPeerKey(b, addr, token))
		}
	}
	var group sync.WaitGroup
	for _, farm := range farms {
		clients := connectTo(b, addr, 1)
		defer clients.close()
		group.Go(func() {
			if err := fillPeer(clients, "/spoolman/api/v1", farm.keys[0]); err != nil {
				b.Error(err)
			}
		})
	}
	group.Wait()
	for _, farm := range farms {
		const ids = `select id::text from spools where tenant_id = $1 order by number`
		farm.spools = f.queryStrings(b, ids, farm.tenant)
	}
	return peerSide{"spoolwright", addr, process.Process.Pid}, farms
}

// newPeerKey creates an API key and returns its secret.
func newPeerKey(b *testing.B, addr, token string) string {
	b.Helper()
	r, err := http.NewRequest("POST", "http://"+addr+"/api/v1/api-keys", strings.NewReader(`{"name":"bench",`+
		`"role":"operator"}`))
	testkit.Check(b, err)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	testkit.Check(b, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	testkit.Check(b, err)
	var created struct{ Key string }
	if err := json.Unmarshal(text, &created); err != nil || created.Key == "" {
		b.Fatalf("%s: %s", response.Status, text)
	}
	return created.Key
}

// fillPeer creates two vendors, ten filaments and the spools of a farm through Spoolman's API. Their ids count from 1.
func fillPeer(clients httpClients, prefix, key string) error {
	for n := range 2 + 10 + peerSpools {
		path, body := "/spool", fmt.Sprintf(`{"filament_id":%d,"initial_weight":1000,"price":25}`, 1+n%10)
		switch {
		case n < 2:
			path, body = "/vendor", fmt.Sprintf(`{"name":"Vendor %d"}`, n)
		case n < 12:
			path, body = "/filament", fmt.Sprintf(`{"name":"Color %d","vendor_id":%d,"material":"PLA","density":1.24,`+
				`"diameter":1.75,"weight":1000,"color_hex":"11223%d"}`, n%10, 1+n%2, n%10)
		}
		if err := clients.do(0, keyRequest("POST", prefix+path, body, key)); err != nil {
			return fmt.Errorf("POST %s: %w", path, err)
		}
	}
	return nil
}

// startFastAPI starts testdata/peer.py with one worker for each processor, on a database with the same keys, and as
// many spools of the farms.
func (f *benchService) startFastAPI(b *testing.B, python string, farms []*peerFarm) peerSide {
	b.Helper()
	ctx := context.Background()
	url := f.newPeerDatabase(b, "peer")
	conn, err := pgx.Connect(ctx, url)
	testkit.Check(b, err)
	defer conn.Close(ctx)
	tables, err := os.ReadFile("tests/bench/testdata/peer.sql")
	testkit.Check(b, err)
	_, err = conn.Exec(ctx, string(tables))
	testkit.Check(b, err)
	for _, farm := range farms {
		_, err := conn.Exec(ctx, `insert into api_keys (tenant_id, hash)
			select $1, sha256(key::bytea) from unnest($2::text[]) key`, farm.tenant, farm.keys)
		testkit.Check(b, err)
		rows, err := conn.Query(ctx, `insert into spools (tenant_id, material_type, brand, color, diameter_mm,
				net_weight_grams, remaining_weight_grams, purchase_price, created_at)
			select $1, 'PLA', 'Vendor', 'Color', 1.75, 1000, 1000, 25, now() - n * interval '1 second'
			from generate_series(1, $2) n returning id::text`, farm.tenant, peerSpools)
		testkit.Check(b, err)
		farm.fast, err = pgx.CollectRows(rows, pgx.RowTo[string])
		testkit.Check(b, err)
	}
	_, err = conn.Exec(ctx, `vacuum analyze`)
	testkit.Check(b, err)
	return startPeer(b, "fastapi", "/openapi.json", python, "", []string{"DATABASE_URL=" + url},
		"peer:app", "--app-dir", "tests/bench/testdata", "--workers", strconv.Itoa(runtime.GOMAXPROCS(0)),
		"--no-access-log", "--log-level", "warning")
}

// startSpoolman starts Spoolman from the checkout in dir, in the way of its container, and fills it as one farm.
// database is sqlite or postgres.
func (f *benchService) startSpoolman(b *testing.B, python, dir, database string) peerSide {
	b.Helper()
	env := []string{"SPOOLMAN_DIR_DATA=" + b.TempDir(), "EXTERNAL_DB_URL=", "SPOOLMAN_LOGGING_LEVEL=ERROR"}
	if database == "postgres" {
		f.newPeerDatabase(b, "spoolman")
		server := f.super.Config()
		env = append(env, "SPOOLMAN_DB_TYPE=postgres", "SPOOLMAN_DB_HOST="+server.Host,
			fmt.Sprint("SPOOLMAN_DB_PORT=", server.Port), "SPOOLMAN_DB_NAME=spoolman",
			"SPOOLMAN_DB_USERNAME="+server.User, "SPOOLMAN_DB_PASSWORD="+server.Password)
	}
	side := startPeer(b, database, "/api/v1/health", python, dir, env, "spoolman.main:app")
	clients := connectTo(b, side.addr, 1)
	defer clients.close()
	testkit.Check(b, fillPeer(clients, "/api/v1", ""))
	return side
}

// newPeerDatabase creates a database on the service's PostgreSQL and returns its URL.
func (f *benchService) newPeerDatabase(b *testing.B, name string) (url string) {
	b.Helper()
	_, err := f.super.Exec(context.Background(), `create database `+name)
	testkit.Check(b, err)
	return strings.Replace(f.super.Config().ConnString(), "/"+local.Database+"?", "/"+name+"?", 1)
}

// startPeer starts a service with uvicorn in the folder dir, and waits until the path answers.
func startPeer(b *testing.B, name, path, python, dir string, env []string, args ...string) peerSide {
	b.Helper()
	addr := freeAddr(b)
	_, port, err := net.SplitHostPort(addr)
	testkit.Check(b, err)
	args = append([]string{"-m", "uvicorn", "--host", "127.0.0.1", "--port", port}, args...)
	process := exec.Command(python, args...)
	process.Dir = dir
	process.Env = append([]string{"PATH=" + filepath.Dir(python) + ":" + os.Getenv("PATH"), "HOME=" + b.TempDir(),
		"PYTHONDONTWRITEBYTECODE=1"}, env...)
	var log bytes.Buffer
	process.Stderr = &log
	testkit.Check(b, process.Start())
	b.Cleanup(func() {
		process.Process.Signal(syscall.SIGTERM)
		process.Wait() // the error is that of the signal
		if b.Failed() {
			b.Logf("%s", &log)
		}
	})
	testkit.Eventually(b, "the peer answers", func() bool {
		r, err := http.Get("http://" + addr + path)
		if err != nil {
			return false
		}
		defer r.Body.Close()
		return r.StatusCode == 200
	})
	return peerSide{name, addr, process.Process.Pid}
}

// cpuOf returns the CPU time of a process and of all processes that it has started, on Linux.
func cpuOf(b *testing.B, process int) (total time.Duration) {
	b.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	testkit.Check(b, err)
	parents, times := map[int]int{}, map[int]time.Duration{}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		parents[pid], _ = strconv.Atoi(fields[1])
		for _, field := range fields[11:15] { // user and system, and of children that have ended
			ticks, _ := strconv.Atoi(field)
			times[pid] += time.Duration(ticks) * 10 * time.Millisecond // ticks of 1/100 s
		}
	}
	for pid := range times {
		for at := pid; at > 0; at = parents[at] {
			if at == process {
				total += times[pid]
			}
		}
	}
	return total
}
