package bench_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"spoolwright/auth"

	"spoolwright/tests/testkit"
)

// benchProgram builds the program the way releases are built and returns its path.
func benchProgram(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "spoolwright")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return path
}

// freeAddr returns an address on which a program can listen.
func freeAddr(b *testing.B) string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Check(b, err)
	defer listener.Close()
	return listener.Addr().String()
}

// startProgram starts the program and waits until it is ready. It returns how long that took.
func startProgram(b *testing.B, path, addr string, env ...string) (process *exec.Cmd, took time.Duration) {
	b.Helper()
	process = exec.Command(path)
	process.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "LISTEN_ADDR=" + addr, "LOG_LEVEL=error", "DRAIN_SECONDS=0",
	}, env...)
	process.Stderr = os.Stderr
	start := time.Now()
	testkit.Check(b, process.Start())
	for time.Since(start) < 30*time.Second {
		if r, err := http.Get("http://" + addr + "/readyz"); err == nil {
			r.Body.Close()
			if r.StatusCode == 200 {
				return process, time.Since(start)
			}
		}
		time.Sleep(time.Millisecond) // measures the time, so it asks more often than testkit.Eventually
	}
	b.Fatal("the program is not ready after 30 seconds")
	return nil, 0
}

func stopProgram(b *testing.B, process *exec.Cmd) {
	b.Helper()
	process.Process.Signal(syscall.SIGTERM)
	if err := process.Wait(); err != nil {
		b.Error(err)
	}
}

// BenchmarkStart measures the time from the start of the process until /readyz returns 200.
func BenchmarkStart(b *testing.B) {
	path := benchProgram(b)
	b.Run("database-url", func(b *testing.B) {
		f := newBenchService(b, nil)
		addr := freeAddr(b)
		var all []float64
		for range 11 {
			process, took := startProgram(b, path, addr, "DATABASE_URL="+f.serviceURL, "JWT_SECRET="+rand.Text()+
				rand.Text())
			stopProgram(b, process)
			all = append(all, float64(took)/1e6)
		}
		b.ReportMetric(median(all), "ms")
		b.ReportMetric(0, "ns/op")
	})
	b.Run("embedded", func(b *testing.B) {
		dir, err := os.MkdirTemp("", "spoolwright-bench-")
		testkit.Check(b, err)
		defer os.RemoveAll(dir)
		os.Chmod(dir, 0o711)
		addr := freeAddr(b)
		var all []float64
		for i := range 8 {
			process, took := startProgram(b, path, addr, "DATA_DIR="+dir)
			stopProgram(b, process)
			if i > 0 { // the first start creates the data directory
				all = append(all, float64(took)/1e6)
			}
		}
		b.ReportMetric(median(all), "ms")
		b.ReportMetric(0, "ns/op")
	})
}

// residentMiB returns the resident memory of a process.
func residentMiB(b *testing.B, process *exec.Cmd) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process.Process.Pid))
	if err != nil {
		b.Skip("needs /proc to read the resident memory")
	}
	_, line, _ := bytes.Cut(status, []byte("VmRSS:"))
	kib, _ := strconv.ParseFloat(strings.Fields(string(line))[0], 64)
	return kib / 1024
}

// BenchmarkMemory sends two equal rounds of 200,000 mixed requests of 10,000 users over 32 connections. It reports
// the memory and the goroutines of the process after each round.
func BenchmarkMemory(b *testing.B) {
	const users, requests = 10_000, 200_000
	secret := rand.Text() + rand.Text()
	path := benchProgram(b)
	f := newBenchService(b, nil)
	ctx := context.Background()
	testkit.Check(b, loadSpools(ctx, f.super, f.actor.Tenant, 2000, 1))
	const insert = `
		insert into users (tenant_id, id, email, name, role, password_hash)
		select $1::uuid, uuid_v7(), 'user' || n, 'User', 'operator', 'none' from generate_series(1, $2) n`
	if _, err := f.super.Exec(ctx, insert, f.actor.Tenant, users); err != nil {
		b.Fatal(err)
	}
	tokens, err := auth.NewTokens([]string{secret}, time.Hour, time.Hour, time.Now)
	testkit.Check(b, err)
	var bearer []string
	const operators = `select id::text from users where tenant_id = $1 and role = 'operator'`
	for _, id := range f.queryStrings(b, operators, f.actor.Tenant) {
		token, err := tokens.Access(auth.Principal{TenantID: f.actor.Tenant, UserID: id, Role: "operator"})
		testkit.Check(b, err)
		bearer = append(bearer, token)
	}
	const stocked = `select id::text from spools where tenant_id = $1 and in_stock`
	spools := randomPick(f.queryStrings(b, stocked, f.actor.Tenant))
	addr, metrics := freeAddr(b), freeAddr(b)
	process, _ := startProgram(b, path, addr, "DATABASE_URL="+f.serviceURL, "JWT_SECRET="+secret,
		"METRICS_ADDR="+metrics, "RATE_LIMIT_PER_MINUTE=1000000", "RATE_LIMIT_PER_HOUR=1000000")
	defer stopProgram(b, process)
	f.addr = addr
	clients := f.connect(b)
	metric := func(name string) float64 {
		r, err := http.Get("http://" + metrics + "/metrics")
		testkit.Check(b, err)
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
		value, _ := strconv.ParseFloat(string(m[1]), 64)
		return value
	}
	b.ResetTimer()
	for i := range 2 {
		var n atomic.Int64
		round(b, 10*time.Minute, func(client int) error {
			at := n.Add(1)
			if at > requests {
				return errDone
			}
			method, path, body := "GET", "/api/v1/spools/"+spools(), ""
			switch at % 10 {
			case 0, 1:
				path = "/api/v1/spools"
			case 2:
				path = "/api/v1/spools?material_type=PETG&sort_by=brand"
			case 3:
				method, path, body = "POST", path+"/deduct", `{"weight_grams":0.01}`
			case 4:
				method, path = "POST", "/api/v1/spools"
				body = `{"material_type":"PLA","color":"Black","diameter_mm":1.75,"net_weight_grams":1000}`
			}
			return clients.do(client, rawRequest(method, path, body, bearer[int(at)%users]))
		})
		time.Sleep(time.Second) // until the requests have ended
		b.ReportMetric(residentMiB(b, process), fmt.Sprintf("resident-MiB-%d", i+1))
		b.ReportMetric(metric("go_goroutines"), fmt.Sprintf("goroutines-%d", i+1))
		b.ReportMetric(metric("go_memstats_heap_alloc_bytes")/(1<<20), fmt.Sprintf("heap-MiB-%d", i+1))
	}
	b.ReportMetric(0, "ns/op")
}
