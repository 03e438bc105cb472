package blackbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// testSDKs runs the tests of the client libraries, sdk/*/tests, against the service and a proxy that breaks
// connections. The tests are scripts in the language of the library.
func testSDKs(t *testing.T, p program) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, env []string)
	}{{"Python", testPythonSDK}, {"TypeScript", testTypeScriptSDK}} {
		t.Run(test.name, func(t *testing.T) {
			unlimited := []string{"RATE_LIMIT_PER_MINUTE=0", "RATE_LIMIT_PER_HOUR=0",
				"RATE_LIMIT_TENANT_PER_MINUTE=0", "WEBHOOK_ALLOWED_NETWORKS=127.0.0.0/8"}
			c, _ := startWithAdmin(t, p, unlimited...)
			proxy := newHTTPFaultProxy(t, c.url)
			dir := tempDir(t)
			cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
			writeCertificate(t, 1, cert, key)
			secure, _ := startWithAdmin(t, p, append(unlimited, "TLS_CERT_FILE="+cert, "TLS_KEY_FILE="+key)...)
			deductions := "400"
			if *longFlag {
				deductions = "10000"
			}
			test.run(t, append(c.clientEnv(), "FARM_PROXY="+proxy.url, "FARM_TLS_URL="+secure.url, "FARM_CA="+cert,
				"FARM_DEDUCTIONS="+deductions, "WEBHOOK_VECTORS="+absolutePath(t, "testdata/webhooks.json")))
			c.stop(t, syscall.SIGTERM)
		})
	}
}

// testPythonSDK runs sdk/python/tests with the python3 in PATH.
func testPythonSDK(t *testing.T, env []string) {
	python := pythonForSDK(t)
	out := runScripts(t, "sdk/python", append(env, "PYTHONPATH=.", "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=error"),
		python, "-m", "unittest", "discover", "-s", "tests", "-v")
	if !strings.Contains(out, "\nOK\n") { // unittest also exits with 0 after skipped tests
		t.Errorf("not all tests ran:\n%s", out)
	}
}

// pythonForSDK returns the python3 in PATH, if its version is at least 3.10.
func pythonForSDK(t *testing.T) string {
	t.Helper()
	const supported = "import sys; sys.exit(sys.version_info < (3, 10))"
	if err := exec.Command("python3", "-c", supported).Run(); err != nil {
		skipTest(t, "python3 is not installed, or older than 3.10")
	}
	return "python3"
}

// testTypeScriptSDK compiles sdk/typescript, and runs its tests with the node in PATH.
func testTypeScriptSDK(t *testing.T, env []string) {
	dir := buildTypeScriptSDK(t)
	for _, v := range env {
		if path, ok := strings.CutPrefix(v, "FARM_CA="); ok {
			env = append(env, "NODE_EXTRA_CA_CERTS="+path)
		}
	}
	out := runScripts(t, dir, env, "node", "--test", "tests/")
	if !strings.Contains(out, "\n# skipped 0\n") || strings.Contains(out, "\n# pass 0\n") {
		t.Errorf("not all tests ran:\n%s", out)
	}
}

// buildTypeScriptSDK compiles a copy of sdk/typescript and the types in its tests, and returns the directory. The
// tests import the package by its name.
func buildTypeScriptSDK(t *testing.T) string {
	t.Helper()
	compile := nodeTool(t, "tsc")
	dir := filepath.Join(tempDir(t), "typescript")
	check(t, os.CopyFS(dir, os.DirFS("sdk/typescript")))
	runScripts(t, dir, nil, append(compile, "-p", ".")...)
	runScripts(t, dir, nil, append(compile, "--strict", "--noEmit", "--exactOptionalPropertyTypes", "--module", "nodenext",
		"--target", "es2022", "--lib", "es2022,dom,dom.iterable", "tests/types.ts")...)
	return dir
}

// runScripts runs a command in a directory of the checkout, and returns its output.
func runScripts(t *testing.T, dir string, env []string, command ...string) string {
	t.Helper()
	err := filepath.WalkDir("sdk", func(path string, d os.DirEntry, err error) error { // so that `go test` sees changes
		if err == nil && d.Type().IsRegular() {
			_, err = os.ReadFile(path)
		}
		return err
	})
	check(t, err)
	c := exec.Command(command[0], command[1:]...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return string(out)
}

// httpFaultProxy forwards requests to the service, except those that a rule breaks. It also works as a forward proxy.
//
// POST /_faults replaces the rules and clears the log. GET /_faults returns the log.
type httpFaultProxy struct {
	url     string
	target  *url.URL
	forward *httputil.ReverseProxy

	mu    sync.Mutex
	rules []*httpFault
	log   []httpFaultLog
}

// httpFault breaks the requests that match it.
type httpFault struct {
	Method string // "" matches all
	Path   string // prefix of the path
	Token  string // access token; "" matches all
	Times  int    // number of requests that the rule breaks; 0 is no limit
	Every  int    // breaks only each n-th matching request

	// Fault is one of:
	//	before   closes the connection before the service gets the request
	//	during   closes it in the middle of the response
	//	after    closes it after the service executed the request, without a response
	//	cut      these three in turn
	//	idle     closes it after the response, which promised to keep it open
	//	delay    forwards the request after Milliseconds
	//	slow     sends the response after Milliseconds
	//	status   responds with Status, Headers and Body, without the service
	Fault        string
	Milliseconds int
	Status       int
	Headers      map[string]string
	Body         string

	matched, broken int
}

// httpFaultLog is a request that the proxy received.
type httpFaultLog struct {
	Method  string `json:"method"`
	Path    string `json:"path"`
	Key     string `json:"key"`   // Idempotency-Key
	Agent   string `json:"agent"` // User-Agent
	Proxied bool   `json:"proxied"`
	Fault   string `json:"fault"`
}

func newHTTPFaultProxy(t *testing.T, target string) *httpFaultProxy {
	t.Helper()
	u, err := url.Parse(target)
	check(t, err)
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	p := &httpFaultProxy{target: u, forward: httputil.NewSingleHostReverseProxy(u)}
	p.forward.Transport = transport
	server := httptest.NewServer(p)
	p.url = server.URL
	t.Cleanup(func() { server.CloseClientConnections(); server.Close(); transport.CloseIdleConnections() })
	return p
}

// rule returns the rule for the request, with its fault, and logs the request.
func (p *httpFaultProxy) rule(r *http.Request) (httpFault, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found httpFault
	for _, rule := range p.rules {
		if rule.Method != "" && rule.Method != r.Method || !strings.HasPrefix(r.URL.Path, rule.Path) ||
			rule.Token != "" && r.Header.Get("Authorization") != "Bearer "+rule.Token ||
			rule.Times > 0 && rule.broken == rule.Times {
			continue
		}
		if rule.matched++; rule.Every > 0 && rule.matched%rule.Every != 0 {
			continue
		}
		found = *rule
		rule.broken++
		break
	}
	fault := found.Fault
	if fault == "cut" {
		fault = []string{"before", "during", "after"}[found.broken%3]
	}
	p.log = append(p.log, httpFaultLog{r.Method, r.URL.Path, r.Header.Get("Idempotency-Key"), r.UserAgent(),
		r.URL.Host != "", fault})
	return found, fault
}

func (p *httpFaultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == "CONNECT":
		p.rule(r)
		tunnel(w, r.Host)
		return
	case r.URL.Path == "/_faults" && r.Method == "POST":
		p.mu.Lock()
		defer p.mu.Unlock()
		p.rules, p.log = nil, []httpFaultLog{}
		if err := json.NewDecoder(r.Body).Decode(&p.rules); err != nil {
			http.Error(w, err.Error(), 400)
		}
		return
	case r.URL.Path == "/_faults":
		p.mu.Lock()
		defer p.mu.Unlock()
		json.NewEncoder(w).Encode(p.log)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	rule, fault := p.rule(r)
	pause := func() {
		select {
		case <-time.After(time.Duration(rule.Milliseconds) * time.Millisecond):
		case <-r.Context().Done():
		}
	}
	recorded := func() *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		p.forward.ServeHTTP(rec, r)
		return rec
	}
	switch fault {
	case "":
		p.forward.ServeHTTP(w, r)
	case "before":
		hangUp(w, nil)
	case "after":
		recorded()
		hangUp(w, nil)
	case "during":
		b := rawResponse(recorded())
		hangUp(w, b[:len(b)-len(b)/4])
	case "idle":
		hangUp(w, rawResponse(recorded()))
	case "delay":
		pause()
		p.forward.ServeHTTP(w, r)
	case "slow":
		rec := recorded()
		pause()
		hangUp(w, rawResponse(rec))
	case "status":
		w.Header().Set("Content-Type", "application/json")
		for name, value := range rule.Headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(rule.Status)
		io.WriteString(w, rule.Body)
	default:
		http.Error(w, "unknown fault "+fault, 599)
	}
}

// rawResponse returns a response as the bytes of HTTP/1.1.
func rawResponse(rec *httptest.ResponseRecorder) []byte {
	var b bytes.Buffer
	r := rec.Result()
	fmt.Fprintf(&b, "HTTP/1.1 %s\r\n", r.Status)
	if !slices.Contains([]int{204, 304}, r.StatusCode) {
		r.Header.Set("Content-Length", fmt.Sprint(rec.Body.Len()))
	}
	r.Header.Write(&b)
	b.WriteString("\r\n")
	b.Write(rec.Body.Bytes())
	return b.Bytes()
}

// hangUp writes the bytes and closes the connection of a request.
func hangUp(w http.ResponseWriter, b []byte) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	conn.Write(b)
	conn.Close()
}

// tunnel connects the client with a host until both have closed the connection.
func tunnel(w http.ResponseWriter, host string) {
	server, err := net.Dial("tcp", host)
	if err != nil {
		http.Error(w, err.Error(), 502)
		return
	}
	defer server.Close()
	client, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { io.Copy(server, client); server.(*net.TCPConn).CloseWrite() }()
	io.Copy(client, server)
}
