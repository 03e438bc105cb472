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
	"strconv"
	"strings"
	"sync"
	"testing"

	"spoolwright/tests/testkit"
	"time"
)

// testSDKs runs the tests of the client libraries, sdk/*/tests, against the service and a proxy that breaks
// connections. The tests are scripts in the language of the library. It also builds the packages, installs them, and
// runs the examples of their README.md. CLIENT_TOOLS and PYTHON_CLIENTS are those of testClients; CHROMIUM and
// PLAYWRIGHT_CORE are those of testBrowser.
func testSDKs(t *testing.T, p program) {
	testkit.Rig(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *sdkFarm)
	}{
		{"Python", testPythonSDK}, {"PythonPackage", testPythonPackage},
		{"TypeScript", testTypeScriptSDK}, {"TypeScriptPackage", testTypeScriptPackage}, {"Browser", testSDKInBrowser},
		{"Overhead", testSDKOverhead},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, &sdkFarm{program: p}) })
	}
}

// sdkFarm is a service for the tests of a client library.
type sdkFarm struct {
	program program
	*process
	token string
}

// start starts the service without limits. The test's cleanup stops it.
func (f *sdkFarm) start(t *testing.T, env ...string) {
	t.Helper()
	f.process, f.token = startWithAdmin(t, f.program, append(env, "RATE_LIMIT_PER_MINUTE=0", "RATE_LIMIT_PER_HOUR=0",
		"RATE_LIMIT_TENANT_PER_MINUTE=0", "WEBHOOK_ALLOWED_NETWORKS=127.0.0.0/8")...)
}

// scriptEnv starts the service, the proxy and a second service with HTTPS, and returns the environment of the scripts.
func (f *sdkFarm) scriptEnv(t *testing.T) []string {
	t.Helper()
	dir := tempDir(t)
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, 1, cert, key)
	secure := &sdkFarm{program: f.program}
	secure.start(t, "TLS_CERT_FILE="+cert, "TLS_KEY_FILE="+key)
	f.start(t)
	deductions := "400"
	if *testkit.Long {
		deductions = "10000"
	}
	return append(f.clientEnv(), "FARM_PROXY="+newHTTPFaultProxy(t, f.url).url, "FARM_TLS_URL="+secure.url,
		"FARM_CA="+cert, "NODE_EXTRA_CA_CERTS="+cert, "FARM_DEDUCTIONS="+deductions,
		"WEBHOOK_VECTORS="+absolutePath(t, "testdata/webhooks.json"))
}

// examples returns the code blocks of a README.md as one program, with the service's URL and an API key instead of
// the placeholders.
func (f *sdkFarm) examples(t *testing.T, path, language string) string {
	t.Helper()
	var blocks []string
	for _, m := range fence.FindAllStringSubmatch(page(t, path), -1) {
		if m[1] == language {
			blocks = append(blocks, m[2])
		}
	}
	if len(blocks) < 8 {
		t.Fatalf("%s has %d examples, want at least 8", path, len(blocks))
	}
	key := f.create(t, f.token, "/api/v1/api-keys", map[string]any{"name": "readme", "role": "operator"})
	return strings.NewReplacer("https://farm.example", f.url, "swk_...", key["key"].(string)).
		Replace(strings.Join(blocks, "\n"))
}

// testPythonSDK runs sdk/python/tests with the python3 in PATH.
func testPythonSDK(t *testing.T, f *sdkFarm) {
	python := pythonForSDK(t)
	env := append(f.scriptEnv(t), "PYTHONPATH=.", "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=error")
	out := runScripts(t, "sdk/python", env, python, "-m", "unittest", "discover", "-s", "tests", "-v")
	if !strings.Contains(out, "\nOK\n") { // unittest also exits with 0 after skipped tests
		t.Errorf("not all tests ran:\n%s", out)
	}
}

// testPythonPackage checks the types of sdk/python with mypy, builds the wheel, installs it into a new virtual
// environment, and runs the examples there.
func testPythonPackage(t *testing.T, f *sdkFarm) {
	python := python(t)
	for _, module := range []string{"mypy", "flit_core"} {
		if exec.Command(python, "-c", "import "+module).Run() != nil {
			skipTest(t, "PYTHON_CLIENTS lacks "+module)
		}
	}
	f.start(t)
	dir := tempDir(t)
	source, env := filepath.Join(dir, "source"), filepath.Join(dir, "env")
	check(t, os.CopyFS(source, os.DirFS("sdk/python")))
	runScripts(t, source, nil, python, "-m", "mypy", "--strict", "spoolwright")
	runScripts(t, source, nil, python, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps",
		"--no-index", "--no-build-isolation", "--wheel-dir", dir, ".")
	wheels, err := filepath.Glob(filepath.Join(dir, "spoolwright-"+f.program.version(t)+"-py3-none-any.whl"))
	check(t, err)
	if len(wheels) != 1 {
		t.Fatalf("built %q, want one wheel of the service's version", wheels)
	}
	runScripts(t, dir, nil, python, "-m", "venv", env)
	installed := filepath.Join(env, "bin", "python")
	runScripts(t, dir, nil, installed, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index",
		wheels[0])
	script := f.examples(t, "sdk/python/README.md", "python") + "\nassert receive(b'{}', {}) == 400\n" +
		"assert 'Deduct filament' in (farm.spools.deduct.__doc__ or '')\nprint(farm.spools.get(spool.id).location)\n"
	check(t, os.WriteFile(filepath.Join(dir, "readme.py"), []byte(script), 0o600))
	runScripts(t, dir, nil, python, "-m", "mypy", "--strict", "--python-executable", installed, "readme.py")
	out := runScripts(t, dir, nil, installed, "readme.py")
	if !strings.HasPrefix(out, "spool 1 has 954.5 g left\n") || !strings.HasSuffix(out, "\nShelf B1\n") {
		t.Errorf("the examples print\n%s", out)
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
func testTypeScriptSDK(t *testing.T, f *sdkFarm) {
	dir := buildTypeScriptSDK(t)
	tests, err := filepath.Glob(filepath.Join(dir, "tests", "*.test.mjs"))
	check(t, err)
	out := runScripts(t, dir, f.scriptEnv(t), append([]string{"node", "--test", "--test-reporter=tap"}, tests...)...)
	if !strings.Contains(out, "\n# skipped 0\n") || len(tests) == 0 {
		t.Errorf("not all tests ran:\n%s", out)
	}
}

// testTypeScriptPackage builds the package of sdk/typescript, checks it with publint and attw, installs it into a new
// directory, and compiles and runs the examples there.
func testTypeScriptPackage(t *testing.T, f *sdkFarm) {
	publint, attw, compile := nodeTool(t, "publint"), nodeTool(t, "attw"), nodeTool(t, "tsc")
	needTools(t, "npm")
	f.start(t)
	source, dir := buildTypeScriptSDK(t), tempDir(t)
	npm := []string{"HOME=" + dir, "npm_config_update_notifier=false", "npm_config_loglevel=error"}
	runScripts(t, source, npm, "npm", "pack", "--pack-destination", dir)
	file := filepath.Join(dir, "spoolwright-"+f.program.version(t)+".tgz")
	testkit.Contains(t, runScripts(t, dir, nil, append(publint, "--strict", file)...), "All good!", "publint")
	runScripts(t, dir, nil, append(attw, "--profile", "esm-only", file)...) // fails for each problem
	check(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600))
	const install = `npm install --install-links "$SDK"`
	testkit.Contains(t, page(t, "sdk/typescript/README.md"), install, "the README does not contain %s", install)
	environment := append(npm, "SDK="+source, "npm_config_offline=true", "npm_config_audit=false",
		"npm_config_fund=false")
	runScripts(t, dir, environment, "sh", "-c", install)
	script := f.examples(t, "sdk/typescript/README.md", "ts") +
		"\nconst forged = await receive(new Request(\"http://x\", { method: \"POST\", body: \"{}\" }));\n" +
		"console.log(forged.status, (await ada.spools.get(spool.id)).location);\n"
	check(t, os.WriteFile(filepath.Join(dir, "readme.ts"), []byte(script), 0o600))
	runScripts(t, dir, nil, append(compile, strictTypeScript("readme.ts")...)...)
	out := runScripts(t, dir, nil, "node", "readme.js")
	if !strings.HasPrefix(out, "spool 1 has 954.5 g left\n") || !strings.HasSuffix(out, "\n400 Shelf B1\n") {
		t.Errorf("the examples print\n%s", out)
	}
}

// strictTypeScript returns the options of tsc for a program that uses the package.
func strictTypeScript(options ...string) []string {
	return append([]string{"--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes",
		"--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom,dom.iterable"}, options...)
}

// testSDKInBrowser runs sdk/typescript/tests/browser.html in a headless Chromium, as a page of another origin.
func testSDKInBrowser(t *testing.T, f *sdkFarm) {
	needTools(t, browserPath())
	if os.Getenv("PLAYWRIGHT_CORE") == "" {
		skipTest(t, "PLAYWRIGHT_CORE is not set")
	}
	dir := buildTypeScriptSDK(t)
	copyFile(t, "testdata/webhooks.json", filepath.Join(dir, "tests", "webhooks.json"))
	pages := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(pages.Close)
	f.start(t, "CORS_ALLOWED_ORIGINS="+pages.URL)
	out := runScripts(t, dir, append(f.clientEnv(), "CHROMIUM="+browserPath(), "TMPDIR="+tempDir(t)),
		"node", "tests/browser.mjs", pages.URL+"/tests/browser.html")
	if !strings.HasSuffix(out, "ok\n") {
		t.Errorf("the page reports\n%s", out)
	}
}

// testSDKOverhead logs how many calls per second the clients make, and requires at least 0.8 times the rate of the
// platform's HTTP client. It runs with -long.
func testSDKOverhead(t *testing.T, f *sdkFarm) {
	if !*testkit.Long {
		t.Skip("the overhead is measured with -long")
	}
	python, dir := pythonForSDK(t), buildTypeScriptSDK(t)
	f.start(t)
	for _, out := range []string{
		runScripts(t, "sdk/python", append(f.clientEnv(), "PYTHONPATH=.", "PYTHONDONTWRITEBYTECODE=1"),
			python, "tests/bench.py"),
		runScripts(t, dir, f.clientEnv(), "node", "tests/bench.mjs"),
	} {
		t.Log(out)
		_, text, _ := strings.Cut(strings.TrimSpace(out), "ratio ")
		if ratio, err := strconv.ParseFloat(text, 64); err != nil || ratio < 0.8 {
			t.Errorf("%s: want a ratio of at least 0.8", out)
		}
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
	runScripts(t, dir, nil, append(compile, strictTypeScript("--noEmit", "tests/types.ts")...)...)
	return dir
}

// runScripts runs a command in a directory of the checkout, and returns its output.
func runScripts(t *testing.T, dir string, env []string, command ...string) string {
	t.Helper()
	err := filepath.WalkDir("sdk",
		func(path string, d os.DirEntry, err error) error { // so that `go test` sees changes
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
	log   []*httpFaultLog
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
	Closed  bool   `json:"closed"` // the fault has closed the connection
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

// rule returns the rule for the request, and logs the request with its fault.
func (p *httpFaultProxy) rule(r *http.Request) (httpFault, *httpFaultLog) {
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
	entry := &httpFaultLog{r.Method, r.URL.Path, r.Header.Get("Idempotency-Key"), r.UserAgent(), r.URL.Host != "",
		fault, false}
	p.log = append(p.log, entry)
	return found, entry
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
		p.rules, p.log = nil, []*httpFaultLog{}
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
	rule, entry := p.rule(r)
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
	hangUp := func(b []byte) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		conn.Write(b)
		conn.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		entry.Closed = true
	}
	switch entry.Fault {
	case "":
		p.forward.ServeHTTP(w, r)
	case "before":
		hangUp(nil)
	case "after":
		recorded()
		hangUp(nil)
	case "during":
		b := rawResponse(recorded())
		hangUp(b[:len(b)-len(b)/4])
	case "idle":
		hangUp(rawResponse(recorded()))
	case "delay":
		pause()
		p.forward.ServeHTTP(w, r)
	case "slow":
		rec := recorded()
		pause()
		hangUp(rawResponse(rec))
	case "status":
		w.Header().Set("Content-Type", "application/json")
		for name, value := range rule.Headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(rule.Status)
		io.WriteString(w, rule.Body)
	default:
		http.Error(w, "unknown fault "+entry.Fault, 599)
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

// tunnel connects the client with a host until both have closed the connection.
func tunnel(w http.ResponseWriter, host string) {
	server, err := net.Dial("tcp", host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
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
