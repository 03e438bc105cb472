package blackbox_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"spoolwright/db/local"
	"spoolwright/tests/testkit"
)

// The helpers in this file build the program, run its commands and its service as processes, and call the service
// over HTTP.

const waitTimeout = testkit.WaitTimeout

func check(t *testing.T, err error) {
	t.Helper()
	testkit.Check(t, err)
}

// skipTest skips the test for the reason. If CI_STRICT is 1 it fails the test instead, because CI has all tools.
func skipTest(t *testing.T, reason string) {
	t.Helper()
	testkit.Skip(t, reason)
}

// needTools returns the paths of programs in PATH or /usr/sbin. It skips the test if one is missing.
func needTools(t *testing.T, names ...string) (paths []string) {
	t.Helper()
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			if path, err = exec.LookPath("/usr/sbin/" + name); err != nil {
				skipTest(t, name+" is not installed")
			}
		}
		paths = append(paths, path)
	}
	return paths
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	testkit.Eventually(t, what, condition)
}

// takenPorts are those that freePorts returned in this process.
var takenPorts sync.Map

// freePorts returns ports on which nothing listens. Connections and servers that ask for any port do not get them.
func freePorts(t *testing.T, address string, n int) (ports []string) {
	t.Helper()
	for range n {
		eventually(t, "a port is free", func() bool {
			port := strconv.Itoa(10000 + mathrand.N(20000))
			if _, taken := takenPorts.LoadOrStore(port, true); taken {
				return false
			}
			l, err := net.Listen("tcp", address+":"+port)
			if err != nil {
				return false
			}
			ports = append(ports, port)
			return l.Close() == nil
		})
	}
	return ports
}

// freeAddress returns an address of the loopback interface on which nothing listens; see freePorts.
func freeAddress(t *testing.T) string {
	t.Helper()
	return "127.0.0.1:" + freePorts(t, "127.0.0.1", 1)[0]
}

// tempDir creates a directory that every account may enter. The test's cleanup removes it.
func tempDir(t *testing.T) string {
	t.Helper()
	watch(t)
	dir, err := testkit.Dir()
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	return dir
}

// program is the path of the built program.
type program string

// buildProgram returns the program. The first call builds it.
func buildProgram(t *testing.T) program {
	t.Helper()
	watch(t)
	p, err := built()
	check(t, err)
	return p
}

var built = sync.OnceValues(func() (program, error) {
	// `go test` caches results by the files that a test reads. These tests do not import all packages of the program,
	// so they read its source.
	const format = `{{if .Module}}{{if .Module.Main}}{{$dir := .Dir}}
		{{range .GoFiles}}{{$dir}}/{{.}} {{end}}
		{{range .EmbedFiles}}{{$dir}}/{{.}} {{end}}{{end}}{{end}}`
	source, err := exec.Command("go", "list", "-deps", "-f", format, ".").Output()
	if err != nil {
		return "", err
	}
	for _, name := range strings.Fields(string(source)) {
		if _, err := os.ReadFile(name); err != nil {
			return "", err
		}
	}
	p := filepath.Join(testkit.Folder(), "spoolwright")
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", p, ".")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return program(p), nil
})

// processEnv returns the environment of a process: defaults for tests, PATH and TMPDIR of the test, and extra. It
// lacks all other variables of the test's environment.
func processEnv(extra []string) []string {
	env := []string{"LISTEN_ADDR=127.0.0.1:0", "DRAIN_SECONDS=0", "HOME=/"}
	for _, name := range []string{"PATH", "TMPDIR"} {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return append(env, extra...)
}

// run runs a command until it ends.
func (p program) run(t *testing.T, stdin string, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	c := exec.Command(string(p), args...)
	c.Dir, c.Env, c.Stdin = "/", processEnv(env), strings.NewReader(stdin)
	var out, err bytes.Buffer
	c.Stdout, c.Stderr = &out, &err
	var exit *exec.ExitError
	if e := c.Run(); e != nil && !errors.As(e, &exit) {
		t.Fatal(e)
	}
	return out.String(), err.String(), c.ProcessState.ExitCode()
}

// succeeds runs a command, ends the test unless its exit status is 0, and returns what it prints.
func (p program) succeeds(t *testing.T, stdin string, env []string, args ...string) string {
	t.Helper()
	stdout, stderr, code := p.run(t, stdin, env, args...)
	if code != 0 {
		t.Fatalf("%v: status %d\n%s%s", args, code, stdout, stderr)
	}
	return stdout
}

// fails runs a command that must exit with the status code and print nothing but one line on stderr, which must
// contain all words. It returns the line.
func (p program) fails(t *testing.T, code int, env []string, args []string, words ...string) string {
	t.Helper()
	stdout, stderr, got := p.run(t, "", env, args...)
	oneLine := stdout == "" && strings.Count(stderr, "\n") == 1 && strings.HasPrefix(stderr, "spoolwright: ")
	if got != code || !oneLine {
		t.Errorf("%v %v: status %d, want %d and one line on stderr:\n%s%s", env, args, got, code, stdout, stderr)
	}
	for _, word := range words {
		testkit.Contains(t, stderr, word, "%v %v", env, args)
	}
	return stderr
}

// testPassword is the password of the users that addUser adds.
const testPassword = "a password for tests"

// addUser runs the command user add. It also creates the farm and the tenant if they do not exist.
func (p program) addUser(t *testing.T, env []string, tenant, email, role string) {
	t.Helper()
	p.succeeds(t, testPassword, env, "user", "add", "--tenant", tenant, "--email", email, "--name", "Ada",
		"--role", role, "--password-stdin", "--new-tenant", "--init")
}

// process is a running service, or another server such as nginx.
type process struct {
	cmd            *exec.Cmd
	url            string // base URL, set by awaitReady
	stdout, stderr testkit.Log
	client         *http.Client
	exited         chan struct{} // closed when the process has exited
}

// start starts the service and waits until it is ready. The test's cleanup stops it.
func (p program) start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	return p.startAs(t, func(*exec.Cmd) {}, env, args...)
}

// startAs is start with a command that change may edit.
func (p program) startAs(t *testing.T, change func(*exec.Cmd), env []string, args ...string) *process {
	t.Helper()
	c := p.launch(t, change, env, args...)
	c.awaitReady(t)
	return c
}

// launch is startAs without waiting.
func (p program) launch(t *testing.T, change func(*exec.Cmd), env []string, args ...string) *process {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	c := &process{
		cmd: exec.Command(string(p), args...), client: &http.Client{Transport: transport}, exited: make(chan struct{}),
	}
	c.cmd.Dir, c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = "/", processEnv(env), &c.stdout, &c.stderr
	change(c.cmd)
	check(t, c.cmd.Start())
	go func() { c.cmd.Wait(); close(c.exited) }()
	t.Cleanup(func() {
		c.signal(syscall.SIGTERM)
		select {
		case <-c.exited:
		case <-time.After(waitTimeout):
			c.cmd.Process.Kill()
			<-c.exited
			t.Error("the process did not exit after SIGTERM")
		}
		transport.CloseIdleConnections()
		if t.Failed() {
			t.Logf("output of %v:\n%s%s", c.cmd.Args, &c.stdout, &c.stderr)
		}
	})
	return c
}

var servingLine = regexp.MustCompile(`(?:url=|"url":"|Spoolwright serves .*on )(https?://[^\s"]+)`)

// awaitReady sets the URL from the log and waits until /readyz returns 200. With HTTPS it does not call /readyz,
// because c.client does not trust the certificate.
func (c *process) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, "the service is ready", func() bool {
		select {
		case <-c.exited:
			t.Fatalf("the service exited: %s", &c.stderr)
		default:
		}
		m := servingLine.FindStringSubmatch(c.stderr.String() + c.stdout.String())
		if m == nil {
			return false
		}
		if c.url = m[1]; strings.HasPrefix(c.url, "https") {
			return true
		}
		r, err := c.client.Get(c.url + "/readyz")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == 200
	})
}

// signal sends the signal unless the process has exited.
func (c *process) signal(s syscall.Signal) {
	select {
	case <-c.exited:
	default:
		c.cmd.Process.Signal(s)
	}
}

// stop sends the signal and requires exit status 0.
func (c *process) stop(t *testing.T, s syscall.Signal) {
	t.Helper()
	c.signal(s)
	c.waitExit(t)
}

// waitExit waits until the process exits and requires exit status 0.
func (c *process) waitExit(t *testing.T) {
	t.Helper()
	select {
	case <-c.exited:
	case <-time.After(waitTimeout):
		t.Fatal("the process did not exit")
	}
	testkit.Equal(t, c.cmd.ProcessState.ExitCode(), 0, "exit status: %s", &c.stderr)
}

// waitUntilClosed waits until the service accepts no connections.
func (c *process) waitUntilClosed(t *testing.T) {
	t.Helper()
	eventually(t, "the service accepts no connections", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

// answer is the response to a request, with the whole body.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// send sends a request with a body that is nil, bytes, or marshaled as JSON. The header may name another media type.
// With an error, the status is not 0 if the answer ended early.
func (c *process) send(ctx context.Context, method, path string, header http.Header, body any) (a answer, err error) {
	content, media := []byte(nil), "application/json"
	switch body := body.(type) {
	case nil:
		media = ""
	case []byte:
		content, media = body, "application/octet-stream"
	default:
		if content, err = json.Marshal(body); err != nil {
			return a, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(content))
	if err != nil {
		return a, err
	}
	if media != "" {
		r.Header.Set("Content-Type", media)
	}
	maps.Copy(r.Header, header)
	response, err := c.client.Do(r)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	a.body, err = io.ReadAll(response.Body)
	a.status, a.header = response.StatusCode, response.Header
	return a, err
}

// must is send for a request that must get an answer.
func (c *process) must(t *testing.T, method, path string, header http.Header, body any) answer {
	t.Helper()
	a, err := c.send(t.Context(), method, path, header, body)
	check(t, err)
	return a
}

// bearer is the header of requests with an access token.
func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// call sends a request and returns the status and the fields of the response. The token may be empty.
func (c *process) call(t *testing.T, token, method, path string, body any) (int, map[string]any) {
	t.Helper()
	var header http.Header
	if token != "" {
		header = bearer(token)
	}
	a := c.must(t, method, path, header, body)
	var fields map[string]any
	if a.status != 204 {
		check(t, json.Unmarshal(a.body, &fields))
	}
	return a.status, fields
}

// create sends a POST that must succeed, and returns the fields of the response.
func (c *process) create(t *testing.T, token, path string, body any) map[string]any {
	t.Helper()
	status, fields := c.call(t, token, "POST", path, body)
	if status/100 != 2 {
		t.Fatalf("POST %s: %d %v", path, status, fields)
	}
	return fields
}

// metrics returns what an address serves as metrics.
func metrics(t *testing.T, address string) string {
	t.Helper()
	service := process{url: "http://" + address, client: http.DefaultClient}
	return string(service.must(t, "GET", "/metrics", nil, nil).body)
}

// get returns the fields of a response with the status 200.
func (c *process) get(t *testing.T, token, path string) map[string]any {
	t.Helper()
	status, response := c.call(t, token, "GET", path, nil)
	if status != 200 {
		t.Fatalf("GET %s: %d %v", path, status, response)
	}
	return response
}

// tokens returns the response to a login, with the tokens.
func (c *process) tokens(t *testing.T, email, password string) map[string]any {
	t.Helper()
	return c.create(t, "", "/api/v1/auth/login", map[string]string{"email": email, "password": password})
}

// login returns an access token.
func (c *process) login(t *testing.T, email, password string) string {
	t.Helper()
	return c.tokens(t, email, password)["access_token"].(string)
}

// createSpool creates a spool of 1000 g.
func (c *process) createSpool(t *testing.T, token string) {
	t.Helper()
	c.create(t, token, "/api/v1/spools",
		map[string]any{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1000})
}

// countSpools returns the total of the list of spools.
func (c *process) countSpools(t *testing.T, token string) int {
	t.Helper()
	return int(c.get(t, token, "/api/v1/spools")["total"].(float64))
}

// postmasterPID returns the process id of the PostgreSQL that runs on the service's data directory.
func postmasterPID(t *testing.T, data string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(data, "postgres", "postmaster.pid"))
	check(t, err)
	line, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(line)
	check(t, err)
	return pid
}

// wantNoProcess fails the test if a process works in dir or has dir/data in its command line.
func wantNoProcess(t *testing.T, dir string) {
	t.Helper()
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range all {
		cwd, _ := os.Readlink(filepath.Join(path, "cwd"))
		command, _ := os.ReadFile(filepath.Join(path, "cmdline"))
		if strings.HasPrefix(cwd, dir) || bytes.Contains(command, []byte(dir+"/data")) {
			t.Errorf("process %s is still running: %s", filepath.Base(path),
				bytes.ReplaceAll(command, []byte{0}, []byte(" ")))
		}
	}
}

// curl runs a curl command line in a shell, as a user who copies it, and returns its output.
func curl(t *testing.T, line string) string {
	t.Helper()
	needTools(t, "curl")
	out, err := exec.Command("bash", "-c", line).Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// Lines that the program prints with a new account.
var (
	curlLine     = regexp.MustCompile(`(?m)^curl .*$`)
	passwordLine = regexp.MustCompile(`(?m)^password: +(\S+)\s*$`)
)

// ownerURL returns the URL of the owner of the tables in a database of the tests' PostgreSQL.
func ownerURL(name string) string { return testkit.WithDatabase(testkit.Private().OwnerURL(), name) }

// databaseEnv are the settings of a service on a PostgreSQL of its own.
func databaseEnv(s *local.Server) []string {
	return []string{"DATABASE_URL=" + s.AppURL(), "MIGRATE_DATABASE_URL=" + s.OwnerURL(), secretEnv}
}

const secretEnv = "JWT_SECRET=a secret for tests of the program that is long enough"

// startWithAdmin starts the service on a new database with the admin ada@farm.example. The token is empty with HTTPS.
func startWithAdmin(t *testing.T, p program, env ...string) (c *process, token string) {
	t.Helper()
	env = append([]string{"DATABASE_URL=" + ownerURL(testkit.MigratedDatabase(t)), secretEnv}, env...)
	p.addUser(t, env, "farm", "ada@farm.example", "admin")
	c = p.start(t, env)
	if !strings.HasPrefix(c.url, "https") {
		token = c.login(t, "ada@farm.example", testPassword)
	}
	return c, token
}

// writeCertificate writes a new self-signed certificate for 127.0.0.1 and its key.
func writeCertificate(t *testing.T, serial int64, certFile, keyFile string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	check(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	check(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	parsed, err := x509.ParseCertificate(der)
	check(t, err)
	return parsed
}
