package blackbox_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/db/dbtest"
)

// patience is how long a test waits for something that should come at once. Nothing is measured against it.
const waitTimeout = 3 * time.Minute

// built builds the program for a test.
func buildProgram(t *testing.T) program {
	t.Helper()
	// No test imports package main. Reading its source tells the test cache of `go test` that these tests depend on it.
	source, err := filepath.Glob("*.go")
	check(t, err)
	for _, name := range source {
		_, err := os.ReadFile(name)
		check(t, err)
	}
	p := program(filepath.Join(tempDir(t), "spoolwright"))
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", string(p), ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return p
}

// TestProgram runs the program as its users do.
func TestProgram(t *testing.T) {
	t.Parallel()
	p := buildProgram(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, program)
	}{
		{"Lifecycle", testLifecycle},
		{"Terminal", testTerminal},
		{"Unprivileged", testUnprivileged},
		{"UnreachableDataDir", testUnreachableDataDir},
		{"StoppedEarly", testStoppedEarly},
		{"Usage", testUsage},
		{"Help", testHelp},
		{"ImportExport", testImportExport},
		{"ImportOnTerminal", testImportOnTerminal},
		{"WrongSettings", testWrongSettings},
		{"AddressInUse", testAddressInUse},
		{"DatabaseURL", testDatabaseURL},
		{"SeparateRoles", testSeparateRoles},
		{"Definitions", testDefinitions},
		{"ManyInstances", testManyInstances},
		{"TLS", testTLS},
		{"Metrics", testMetrics},
		{"JSONLog", testJSONLog},
		{"Graceful", testGraceful},
		{"Demo", testDemo},
		{"Tour", testTour},
		{"Browser", testBrowser},
		{"LinkedPackages", testLinkedPackages},
		{"Clients", testClients},
		{"Nginx", testNginx},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, p)
		})
	}
}

// program is the path of the built binary.
type program string

// folder makes a folder that every account may pass through, and removes it when the test ends.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := dbtest.Dir()
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	return dir
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// need skips the test for want of something; under CI_STRICT, where everything is installed, it fails.
func skipTest(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI_STRICT") == "1" {
		t.Fatal(what + ", but CI_STRICT asks for it")
	}
	t.Skip(what)
}

// text collects what a process writes.
type outputBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *outputBuffer) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *outputBuffer) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// environment is all that a child knows of ours.
func processEnv(extra []string) []string {
	env := []string{"LISTEN_ADDR=127.0.0.1:0", "DRAIN_SECONDS=0", "HOME=/"}
	for _, name := range []string{"PATH", "TMPDIR"} {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return append(env, extra...)
}

// run runs a command to its end.
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

// refuses runs a command that must fail with the code and one line on stderr that has all these words.
func (p program) fails(t *testing.T, code int, env []string, args []string, words ...string) string {
	t.Helper()
	stdout, stderr, got := p.run(t, "", env, args...)
	if got != code || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "spoolwright: ") {
		t.Errorf("%v %v: status %d, want %d and one line:\n%s%s", env, args, got, code, stdout, stderr)
	}
	for _, word := range words {
		if !strings.Contains(stderr, word) {
			t.Errorf("%v %v: %q does not say %q", env, args, stderr, word)
		}
	}
	return stderr
}

// succeeds runs a command that must succeed, and returns what it prints.
func (p program) succeeds(t *testing.T, stdin string, env []string, args ...string) string {
	t.Helper()
	stdout, stderr, code := p.run(t, stdin, env, args...)
	if code != 0 {
		t.Fatalf("%v: status %d\n%s%s", args, code, stdout, stderr)
	}
	return stdout
}

// child is a running service.
type process struct {
	cmd            *exec.Cmd
	url            string
	stdout, stderr outputBuffer
	client         *http.Client
	exited         chan struct{}
}

// start runs the service and waits until it is ready. It ends with the test, if not before.
func (p program) start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	return p.startAs(t, func(*exec.Cmd) {}, env, args...)
}

func (p program) startAs(t *testing.T, change func(*exec.Cmd), env []string, args ...string) *process {
	t.Helper()
	c := p.launch(t, change, env, args...)
	c.awaitReady(t)
	return c
}

// launch does not wait.
func (p program) launch(t *testing.T, change func(*exec.Cmd), env []string, args ...string) *process {
	t.Helper()
	transport := &http.Transport{}
	c := &process{cmd: exec.Command(string(p), args...), client: &http.Client{Transport: transport}, exited: make(chan struct{})}
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
			t.Error("the service did not stop")
		}
		transport.CloseIdleConnections()
		if t.Failed() {
			t.Logf("%v wrote:\n%s%s", c.cmd.Args, &c.stdout, &c.stderr)
		}
	})
	return c
}

var servingLine = regexp.MustCompile(`(?:url=|"url":")(https?://[^\s"]+)`)

func (c *process) awaitReady(t *testing.T) {
	t.Helper()
	eventually(t, "the service is ready", func() bool {
		select {
		case <-c.exited:
			t.Fatalf("the service ended: %s", &c.stderr)
		default:
		}
		m := servingLine.FindStringSubmatch(c.stderr.String() + c.stdout.String())
		if m == nil {
			return false
		}
		if c.url = m[1]; strings.HasPrefix(c.url, "https") {
			return true // who calls has to know the certificate
		}
		r, err := c.client.Get(c.url + "/readyz")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == 200
	})
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > waitTimeout {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func (c *process) signal(s syscall.Signal) {
	select {
	case <-c.exited:
	default:
		c.cmd.Process.Signal(s)
	}
}

// stops sends the signal and wants the service to end in peace.
func (c *process) stop(t *testing.T, s syscall.Signal) {
	t.Helper()
	c.signal(s)
	c.waitExit(t)
}

func (c *process) waitExit(t *testing.T) {
	t.Helper()
	select {
	case <-c.exited:
	case <-time.After(waitTimeout):
		t.Fatal("the service did not stop")
	}
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the service ended with status %d: %s", code, &c.stderr)
	}
}

// refusesConnections waits until the service has begun to stop.
func (c *process) waitUntilClosed(t *testing.T) {
	t.Helper()
	eventually(t, "no new connection is taken", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

// call sends a request and returns the status and the answer's fields.
func (c *process) call(t *testing.T, token, method, path string, body any) (int, map[string]any) {
	t.Helper()
	var reader io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		check(t, err)
		reader = bytes.NewReader(b)
	}
	r, err := http.NewRequest(method, c.url+path, reader)
	check(t, err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.client.Do(r)
	check(t, err)
	defer response.Body.Close()
	var answer map[string]any
	if response.StatusCode != 204 {
		check(t, json.NewDecoder(response.Body).Decode(&answer))
	}
	return response.StatusCode, answer
}

func (c *process) login(t *testing.T, email, password string) string {
	t.Helper()
	status, answer := c.call(t, "", "POST", "/api/v1/auth/login", map[string]string{"email": email, "password": password})
	if status != 200 {
		t.Fatalf("login: %d %v", status, answer)
	}
	return answer["access_token"].(string)
}

func (c *process) createSpool(t *testing.T, token string) {
	t.Helper()
	status, answer := c.call(t, token, "POST", "/api/v1/spools", map[string]any{"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1000})
	if status != 201 {
		t.Fatalf("POST /api/v1/spools: %d %v", status, answer)
	}
}

func (c *process) countSpools(t *testing.T, token string) int {
	t.Helper()
	status, answer := c.call(t, token, "GET", "/api/v1/spools", nil)
	if status != 200 {
		t.Fatalf("GET /api/v1/spools: %d %v", status, answer)
	}
	return int(answer["total"].(float64))
}

// postmaster is the process id of PostgreSQL on a data folder.
func postmasterPID(t *testing.T, data string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(data, "postgres", "postmaster.pid"))
	check(t, err)
	line, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(line)
	check(t, err)
	return pid
}

// nothingRuns fails the test if a process that has to do with the folder is there.
func wantNoProcess(t *testing.T, dir string) {
	t.Helper()
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range all {
		cwd, _ := os.Readlink(filepath.Join(path, "cwd"))
		command, _ := os.ReadFile(filepath.Join(path, "cmdline"))
		if strings.HasPrefix(cwd, dir) || bytes.Contains(command, []byte(dir+"/data")) {
			t.Errorf("process %s is left: %s", filepath.Base(path), bytes.ReplaceAll(command, []byte{0}, []byte(" ")))
		}
	}
}

// curl runs a line as somebody who pastes it into a terminal.
func curl(t *testing.T, line string) string {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		skipTest(t, "curl is not installed")
	}
	out, err := exec.Command("bash", "-c", line).Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

var (
	curlLine     = regexp.MustCompile(`(?m)^curl .*$`)
	passwordLine = regexp.MustCompile(`(?m)^password: +(\S+)\s*$`)
)

// The private PostgreSQL from the first start on: through accounts, restarts, and a crash.
func testLifecycle(t *testing.T, p program) {
	dir := tempDir(t)
	data := filepath.Join(dir, "data")
	env := []string{"DATA_DIR=" + data}

	c := p.start(t, env)
	path := filepath.Join(data, "first-login")
	info, err := os.Stat(path)
	check(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("%s has mode %v", path, info.Mode())
	}
	login, err := os.ReadFile(path)
	check(t, err)
	password := passwordLine.FindSubmatch(login)
	if password == nil {
		t.Fatalf("no password in %q", login)
	}
	written := c.stderr.String() + c.stdout.String()
	if !strings.Contains(written, path) || strings.Contains(written, string(password[1])) {
		t.Errorf("the log must name %s and not show the password:\n%s", path, written)
	}
	var tokens struct {
		Access string `json:"access_token"`
	}
	check(t, json.Unmarshal([]byte(curl(t, curlLine.FindString(string(login)))), &tokens))
	c.createSpool(t, tokens.Access)

	for _, secret := range []string{"jwt-secret", "postgres.passwords"} {
		if info, err := os.Stat(filepath.Join(data, secret)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", secret, info, err)
		}
	}

	p.fails(t, 1, env, nil, data, "in use")

	// Account commands beside the running service.
	if out := p.succeeds(t, "", env, "user", "list"); !strings.Contains(out, "admin@farm.example") {
		t.Errorf("user list: %s", out)
	}
	p.succeeds(t, "the operator's password\n", env, "user", "add", "--tenant", "farm", "--email", "op@farm.example", "--name", "Op", "--role", "operator", "--password-stdin")
	operator := c.login(t, "OP@farm.example", "the operator's password")
	c.createSpool(t, operator)
	p.fails(t, 1, env, []string{"user", "add", "--tenant", "other", "--email", "op@farm.example", "--name", "Op"}, "taken")
	p.fails(t, 1, env, []string{"user", "disable", "--email", "nobody@farm.example"}, "nobody@farm.example")
	p.succeeds(t, "", env, "user", "disable", "--email", "op@farm.example")
	if status, answer := c.call(t, operator, "GET", "/api/v1/spools", nil); status != 401 || answer["code"] != "INVALID_TOKEN" {
		t.Errorf("a disabled user: %d %v", status, answer)
	}
	p.succeeds(t, "", env, "user", "enable", "--email", "op@farm.example")
	made := passwordLine.FindStringSubmatch(p.succeeds(t, "", env, "user", "passwd", "--email", "op@farm.example"))
	if made == nil {
		t.Fatal("user passwd shows no password")
	}
	c.login(t, "op@farm.example", made[1])
	p.succeeds(t, "", env, "user", "add", "--tenant", "second farm", "--email", "ada@second.example", "--name", "Ada", "--role", "admin")
	if out := p.succeeds(t, "", env, "tenant", "list"); !strings.Contains(out, "second farm") {
		t.Errorf("tenant list: %s", out)
	}

	c.stop(t, syscall.SIGINT)
	wantNoProcess(t, dir)

	// Account commands when nothing runs.
	var users []map[string]any
	check(t, json.Unmarshal([]byte(p.succeeds(t, "", env, "user", "list", "--json")), &users))
	if len(users) != 3 {
		t.Errorf("user list --json: %v", users)
	}
	wantNoProcess(t, dir)

	c = p.start(t, env)
	if n := c.countSpools(t, tokens.Access); n != 2 { // the token too has outlived the restart
		t.Errorf("after a restart %d spools are there, want 2", n)
	}
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, login) {
		t.Error("the first login was written again")
	}

	pid := postmasterPID(t, data)
	c.cmd.Process.Kill()
	<-c.exited
	c = p.start(t, env)
	if now := postmasterPID(t, data); now != pid {
		t.Errorf("PostgreSQL runs as process %d, want %d, which the crash left", now, pid)
	}
	if n := c.countSpools(t, tokens.Access); n != 2 {
		t.Errorf("after a crash %d spools are there, want 2", n)
	}
	c.signal(syscall.SIGTERM)
	c.waitUntilClosed(t)
	c.stop(t, syscall.SIGTERM) // as timeout(1) does: to the process and to its group
	wantNoProcess(t, dir)
}

// What a terminal is shown, once, and Ctrl-C.
func testTerminal(t *testing.T, p program) {
	dir := tempDir(t)
	data := filepath.Join(dir, "data")
	onTerminal := func() string {
		control, terminal, err := openTerminal()
		if err != nil {
			skipTest(t, "no terminal: "+err.Error())
		}
		defer control.Close()
		c := p.launch(t, func(cmd *exec.Cmd) {
			cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
			cmd.SysProcAttr = onItsTerminal()
		}, []string{"DATA_DIR=" + data})
		terminal.Close()
		go io.Copy(&c.stdout, control)
		c.awaitReady(t)
		_, err = control.Write([]byte{3}) // Ctrl-C
		check(t, err)
		c.waitExit(t)
		wantNoProcess(t, dir)
		return strings.ReplaceAll(c.stdout.String(), "\r\n", "\n")
	}
	first := onTerminal()
	for _, want := range []*regexp.Regexp{regexp.MustCompile(`shown once`), passwordLine, curlLine} {
		if !want.MatchString(first) {
			t.Errorf("the terminal does not show %v:\n%s", want, first)
		}
	}
	if _, err := os.Stat(filepath.Join(data, "first-login")); err == nil {
		t.Error("the password is in a file too")
	}
	if second := onTerminal(); passwordLine.MatchString(second) {
		t.Errorf("the password is shown again:\n%s", second)
	}
}

// Started as root everything else here runs PostgreSQL as another account; this is the service as nobody.
func testUnprivileged(t *testing.T, p program) {
	if os.Geteuid() != 0 {
		t.Skip("the other tests run unprivileged already")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		skipTest(t, "there is no account nobody")
	}
	uid, err1 := strconv.Atoi(nobody.Uid)
	gid, err2 := strconv.Atoi(nobody.Gid)
	check(t, errors.Join(err1, err2))
	dir := tempDir(t)
	home := filepath.Join(dir, "data")
	check(t, os.Mkdir(home, 0o700))
	check(t, os.Chown(home, uid, gid))
	env := []string{"DATA_DIR=" + filepath.Join(home, "spoolwright")}
	start := func() *process {
		return p.startAs(t, func(cmd *exec.Cmd) {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		}, env)
	}
	c := start()
	login, err := os.ReadFile(filepath.Join(home, "spoolwright", "first-login"))
	check(t, err)
	token := c.login(t, "admin@farm.example", string(passwordLine.FindSubmatch(login)[1]))
	c.createSpool(t, token)
	c.stop(t, syscall.SIGTERM)
	wantNoProcess(t, dir)
	c = start()
	if n := c.countSpools(t, token); n != 1 {
		t.Errorf("after a restart %d spools are there, want 1", n)
	}
	c.stop(t, syscall.SIGINT)
	wantNoProcess(t, dir)
}

func testUnreachableDataDir(t *testing.T, p program) {
	if os.Geteuid() != 0 {
		t.Skip("only root runs PostgreSQL as another account")
	}
	closed := filepath.Join(tempDir(t), "closed")
	check(t, os.Mkdir(closed, 0o700))
	p.fails(t, 1, []string{"DATA_DIR=" + filepath.Join(closed, "data")}, nil, closed, "chmod", "DATA_DIR")
}

// A stop that comes while the service starts is no failure.
func testStoppedEarly(t *testing.T, p program) {
	dir := tempDir(t)
	c := p.launch(t, func(*exec.Cmd) {}, []string{"DATA_DIR=" + filepath.Join(dir, "data")})
	eventually(t, "initdb runs", func() bool {
		_, err := os.Stat(filepath.Join(dir, "data", "postgres.new", "data", "PG_VERSION"))
		return err == nil
	})
	c.stop(t, syscall.SIGTERM)
	wantNoProcess(t, dir)
}

func testUsage(t *testing.T, p program) {
	help := p.succeeds(t, "", nil, "-h")
	for _, args := range [][]string{{"-h"}, {"--help"}, {"help"}, {"serve", "-h"}} {
		out := p.succeeds(t, "", nil, args...)
		if out != help {
			t.Errorf("%v shows other help than -h:\n%s", args, out)
		}
		for _, command := range []string{"serve", "demo", "migrate", "version", "user add", "user passwd", "user disable", "user list", "tenant list", "import spools", "import spoolman", "export spools"} {
			if !strings.Contains(out, "\n  "+command) {
				t.Errorf("%v does not list the command %s", args, command)
			}
		}
	}
	if out := p.succeeds(t, "", []string{"LISTEN_ADDR=nonsense"}, "version"); !strings.HasPrefix(out, "spoolwright "+p.version(t)) {
		t.Errorf("version: %q", out)
	}
	p.fails(t, 2, nil, []string{"brew"}, `"brew"`, "-h")
	p.fails(t, 2, nil, []string{"serve", "fast"}, "serve", "no arguments")
	p.fails(t, 2, nil, []string{"demo", "fast"}, "demo", "no arguments")
}

func testWrongSettings(t *testing.T, p program) {
	dir := tempDir(t)
	data := "DATA_DIR=" + filepath.Join(dir, "data")
	wrong := map[string][]string{
		"LISTEN_ADDR":                 {"8000", "localhost", "127.0.0.1:http", "127.0.0.1:70000"},
		"DATABASE_URL":                {"postgres://farm:hidden@host:port/farm", "nonsense"},
		"MIGRATE_DATABASE_URL":        {"postgres://farm:hidden@host:port/farm", "postgres://farm:hidden@host/farm"},
		"DATA_DIR":                    {"/dev/null", "/dev/null/data"},
		"JWT_SECRET":                  {"hidden", strings.Repeat("x", 40) + ",hidden", strings.Repeat("x", 31)},
		"ACCESS_TOKEN_EXPIRE_MINUTES": {"0", "-1", "1.5", "30m"},
		"REFRESH_TOKEN_EXPIRE_DAYS":   {"0", "a week"},
		"RATE_LIMIT_PER_MINUTE":       {"-1", "many"},
		"RATE_LIMIT_PER_HOUR":         {"-1", "1e3"},
		"TRUSTED_PROXIES":             {"proxy.example", "10.0.0.0/33", "10.0.0.1,nonsense"},
		"CORS_ALLOWED_ORIGINS":        {"*", "farm.example", "https://farm.example/", "https://farm.example,nonsense"},
		"TLS_CERT_FILE":               {"/dev/null"},
		"TLS_KEY_FILE":                {"/dev/null"},
		"METRICS_ADDR":                {"9090"},
		"DB_MAX_CONNS":                {"0", "few"},
		"DRAIN_SECONDS":               {"-1", "1s", "601"},
		"LOG_FORMAT":                  {"xml"},
		"LOG_LEVEL":                   {"loud"},
	}
	for _, s := range p.settings(t) {
		if len(wrong[s.name]) == 0 {
			t.Errorf("no wrong value of %s is tried", s.name)
		}
		for _, value := range wrong[s.name] {
			if line := p.fails(t, 2, []string{data, s.name + "=" + value}, nil, s.name); strings.Contains(line, "hidden") {
				t.Errorf("a secret is shown: %s", line)
			}
		}
	}
	p.fails(t, 2, []string{data, "TLS_CERT_FILE=/dev/null", "TLS_KEY_FILE=/dev/null"}, nil, "TLS_CERT_FILE", "TLS_KEY_FILE")
	p.fails(t, 2, []string{data, "DATABASE_URL=postgres://farm@host/farm"}, nil, "DATABASE_URL", "JWT_SECRET")
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "[::]:0", "farm.example:0"} {
		p.fails(t, 2, []string{"LISTEN_ADDR=" + address}, []string{"demo"}, "loopback", "LISTEN_ADDR")
	}
	for _, command := range []string{"user list", "tenant list", "user passwd --email ada@farm.example", "export spools --tenant farm", "import spools x.csv --tenant farm"} {
		p.fails(t, 2, []string{data}, strings.Fields(command), "no farm", "DATA_DIR")
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		t.Error("a start that was refused has made the data folder")
	}
}

func testAddressInUse(t *testing.T, p program) {
	dir := tempDir(t)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer busy.Close()
	for _, name := range []string{"LISTEN_ADDR", "METRICS_ADDR"} {
		p.fails(t, 1, []string{"DATA_DIR=" + filepath.Join(dir, "data"), name + "=" + busy.Addr().String()}, nil, name, busy.Addr().String(), "in use")
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		t.Error("a start that was refused has made the data folder")
	}
}

// database makes an empty database in the PostgreSQL of the tests. The result is the given URL, but for that database.
func newDatabase(t *testing.T, url func() string) (changed, name string) {
	t.Helper()
	name = "test_" + strings.ToLower(rand.Text())
	execSQL(t, dbtest.Private().SuperURL(), "create database "+name+" owner spoolwright_owner")
	t.Cleanup(func() { execSQL(t, dbtest.Private().SuperURL(), "drop database "+name+" with (force)") })
	return withDatabase(url(), name), name
}

func withDatabase(url, name string) string {
	return strings.Replace(url, "@/spoolwright?", "@/"+name+"?", 1)
}

// sql runs statements, each in its own transaction.
func execSQL(t *testing.T, url string, statements ...string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	check(t, err)
	defer conn.Close(ctx)
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

const secretEnv = "JWT_SECRET=a secret for tests of the program that is long enough"

// served is a service on a database of its own, with an admin.
func startWithAdmin(t *testing.T, p program, env ...string) (c *process, token string) {
	t.Helper()
	url, _ := newDatabase(t, dbtest.Private().OwnerURL)
	env = append([]string{"DATABASE_URL=" + url, secretEnv}, env...)
	p.succeeds(t, "a password for tests", env, "user", "add", "--tenant", "farm", "--email", "ada@farm.example", "--name", "Ada", "--role", "admin", "--password-stdin")
	c = p.start(t, env)
	if !strings.HasPrefix(c.url, "https") {
		token = c.login(t, "ada@farm.example", "a password for tests")
	}
	return c, token
}

func testDatabaseURL(t *testing.T, p program) {
	url, _ := newDatabase(t, dbtest.Private().OwnerURL)
	nowhere := strings.Replace(url, "port=5432", "port=1", 1)
	p.fails(t, 1, []string{"DATABASE_URL=" + nowhere, secretEnv}, nil, "database")

	c, token := startWithAdmin(t, p, "DB_MAX_CONNS=3")
	c.createSpool(t, token)
	if n := c.countSpools(t, token); n != 1 {
		t.Errorf("%d spools, want 1", n)
	}
	if !strings.Contains(c.stderr.String(), "level=WARN") {
		t.Error("a login that owns the tables gets no warning")
	}
	if strings.Contains(c.stderr.String()+c.stdout.String(), "password") {
		t.Error("there is no first login with DATABASE_URL")
	}
	c.stop(t, syscall.SIGTERM)
}

// testHardened runs the service with the roles that the SQL in docs/database.md creates.
func testSeparateRoles(t *testing.T, p program) {
	ctx := context.Background()
	super := dbtest.Private().SuperURL()
	var statements []string
	for _, s := range strings.Split(block(t, "sql", "CREATE ROLE farm_owner"), ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			statements = append(statements, s)
		}
	}
	conn, err := pgx.Connect(ctx, super)
	check(t, err)
	defer conn.Close(ctx)
	t.Cleanup(func() {
		execSQL(t, super, "drop database if exists farm with (force)", "drop role if exists farm_service", "drop role if exists farm_owner", "drop role if exists farm_stranger")
	})
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil && !(s == "CREATE ROLE spoolwright_app NOLOGIN" && strings.Contains(err.Error(), "already exists")) {
			t.Fatalf("%s: %v", s, err)
		}
	}
	url := func(login, password string) string {
		_, rest, _ := strings.Cut(super, "@/spoolwright?")
		return "postgres://" + login + ":" + password + "@/farm?" + rest
	}
	env := []string{"DATABASE_URL=" + url("farm_service", "service-password"), "MIGRATE_DATABASE_URL=" + url("farm_owner", "owner-password"), secretEnv}

	p.fails(t, 1, env[:1:1], []string{"migrate"}, "schema") // the service's login alone cannot make tables
	p.succeeds(t, "", env, "migrate")
	p.succeeds(t, "a password for tests", env, "user", "add", "--tenant", "farm", "--email", "ada@farm.example", "--name", "Ada", "--role", "admin", "--password-stdin")
	c := p.start(t, env)
	token := c.login(t, "ada@farm.example", "a password for tests")
	c.createSpool(t, token)
	if log := c.stderr.String(); strings.Contains(log, "level=WARN") {
		t.Errorf("the hardened set-up is warned of:\n%s", log)
	}
	c.stop(t, syscall.SIGTERM)

	p.start(t, append(env[:1:1], secretEnv)).stop(t, syscall.SIGTERM) // migrated: the service's login is enough

	service, err := pgx.Connect(ctx, url("farm_service", "service-password"))
	check(t, err)
	defer service.Close(ctx)
	var seen int
	check(t, service.QueryRow(ctx, "select (select count(*) from spools) + (select count(*) from users)").Scan(&seen))
	if seen != 0 {
		t.Errorf("outside of any tenant the service's login sees %d rows", seen)
	}
	for _, s := range []string{"select * from login_directory", "delete from users", "drop table spools", "create table mine ()"} {
		if _, err := service.Exec(ctx, s); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("the service's login by itself: %s: %v, want a refusal", s, err)
		}
	}

	execSQL(t, super, "create role farm_stranger login password 'pw'")
	p.fails(t, 1, []string{"DATABASE_URL=" + url("farm_stranger", "pw"), "MIGRATE_DATABASE_URL=" + url("farm_owner", "owner-password"), secretEnv}, nil,
		"GRANT spoolwright_app TO", "farm_stranger")
}

// testDefinitions compares the SQL functions that the program installs with those of the databases of tests.
func testDefinitions(t *testing.T, p program) {
	url, _ := newDatabase(t, dbtest.Private().OwnerURL)
	p.succeeds(t, "", []string{"DATABASE_URL=" + url}, "migrate")
	definitions := func(url string) (all []string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), url)
		check(t, err)
		defer conn.Close(t.Context())
		rows, err := conn.Query(t.Context(), `select concat_ws(' ', name, version, sha256) from schema_definitions order by 1`)
		check(t, err)
		all, err = pgx.CollectRows(rows, pgx.RowTo[string])
		check(t, err)
		return all
	}
	got, want := definitions(url), definitions(dbtest.Private().OwnerURL())
	if !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("the program installs %v, and dbtest.Definitions are %v", got, want)
	}
}

func testManyInstances(t *testing.T, p program) {
	url, _ := newDatabase(t, dbtest.Private().OwnerURL)
	env := []string{"DATABASE_URL=" + url, secretEnv, "DB_MAX_CONNS=3"}
	var instances []*process
	for range 3 {
		instances = append(instances, p.launch(t, func(*exec.Cmd) {}, env))
	}
	for _, c := range instances {
		c.awaitReady(t)
	}
	p.succeeds(t, "a password for tests", env, "user", "add", "--tenant", "farm", "--email", "ada@farm.example", "--name", "Ada", "--password-stdin")
	token := instances[0].login(t, "ada@farm.example", "a password for tests")
	for _, c := range instances {
		c.createSpool(t, token)
	}
	for _, c := range instances {
		if n := c.countSpools(t, token); n != 3 {
			t.Errorf("%d spools, want 3", n)
		}
		c.stop(t, syscall.SIGTERM)
	}
}

// certificate writes a new self-signed one for 127.0.0.1.
func writeCertificate(t *testing.T, serial int64, certFile, keyFile string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
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

func testTLS(t *testing.T, p program) {
	dir := tempDir(t)
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	first := writeCertificate(t, 1, certFile, keyFile)
	c, _ := startWithAdmin(t, p, "TLS_CERT_FILE="+certFile, "TLS_KEY_FILE="+keyFile)

	get := func(trusted *x509.Certificate) (*http.Response, error) {
		roots := x509.NewCertPool()
		roots.AddCert(trusted)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, DisableKeepAlives: true}
		defer transport.CloseIdleConnections()
		r, err := (&http.Client{Transport: transport}).Get(c.url + "/readyz")
		if err == nil {
			r.Body.Close()
		}
		return r, err
	}
	r, err := get(first)
	check(t, err)
	if r.StatusCode != 200 || r.ProtoMajor != 2 || r.Header.Get("Strict-Transport-Security") == "" {
		t.Errorf("over TLS: %d %s %v", r.StatusCode, r.Proto, r.Header)
	}
	plain, err := c.client.Get(strings.Replace(c.url, "https", "http", 1) + "/readyz")
	check(t, err)
	plain.Body.Close()
	if plain.StatusCode != 400 {
		t.Errorf("without TLS the answer is %d", plain.StatusCode)
	}

	second := writeCertificate(t, 2, certFile, keyFile)
	eventually(t, "the new certificate is served", func() bool {
		r, err := get(second)
		return err == nil && r.TLS.PeerCertificates[0].SerialNumber.Int64() == 2
	})
	check(t, os.WriteFile(certFile, []byte("half a fi"), 0o600)) // a deployment at work: the pair that is loaded serves on
	time.Sleep(1100 * time.Millisecond)                          // the files are looked at once a second
	if _, err := get(second); err != nil {
		t.Errorf("with a broken file on disk: %v", err)
	}
	if n := strings.Count(c.stderr.String(), "certificate is not taken"); n != 1 {
		t.Errorf("the log names the broken file %d times, want once", n)
	}
	c.stop(t, syscall.SIGTERM)
}

func testMetrics(t *testing.T, p program) {
	// The service does not say which port it took, so one is chosen that was free a moment ago.
	free, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	address := free.Addr().String()
	free.Close()
	c, token := startWithAdmin(t, p, "METRICS_ADDR="+address)
	c.createSpool(t, token)
	get := func(url string) (int, string) {
		r, err := c.client.Get(url)
		check(t, err)
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		check(t, err)
		return r.StatusCode, string(b)
	}
	status, text := get("http://" + address + "/metrics")
	for _, want := range []string{
		`http_requests_total{route="POST /api/v1/spools",method="POST",status="201"} 1`,
		`http_request_duration_seconds_count{route="POST /api/v1/spools",method="POST",status="201"} 1`,
		"db_pool_max_connections ", "go_goroutines ", "spoolwright_build_info{",
	} {
		if status != 200 || !strings.Contains(text, "\n"+want) {
			t.Errorf("/metrics: %d, without %s:\n%s", status, want, text)
		}
	}
	if status, _ := get("http://" + address + "/debug/pprof/goroutine?debug=1"); status != 200 {
		t.Errorf("pprof: %d", status)
	}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/goroutine"} {
		if status, _ := get(c.url + path); status != 404 {
			t.Errorf("the service's own address answers %s with %d", path, status)
		}
	}
	if status, _ := get("http://" + address + "/api/v1/spools"); status != 404 {
		t.Errorf("the metrics' address serves the API: %d", status)
	}
	c.stop(t, syscall.SIGTERM)
}

func testJSONLog(t *testing.T, p program) {
	c, token := startWithAdmin(t, p, "LOG_FORMAT=json", "LOG_LEVEL=debug")
	c.createSpool(t, token)
	c.call(t, token, "GET", "/api/v1/spools?brand=SECRET-QUERY", nil)
	c.call(t, "not-a-token", "GET", "/api/v1/spools", nil)
	c.stop(t, syscall.SIGTERM)
	log := c.stderr.String()
	var created map[string]any
	for line := range strings.Lines(log) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry["msg"] == "" || entry["time"] == "" || entry["level"] == "" {
			t.Fatalf("no log entry: %s", line)
		}
		if entry["route"] == "POST /api/v1/spools" {
			created = entry
		}
	}
	for _, name := range []string{"request_id", "method", "route", "status", "duration", "user", "tenant"} {
		if created[name] == nil || created[name] == "" {
			t.Errorf("the line of a request has no %s: %v", name, created)
		}
	}
	for _, secret := range []string{token, "not-a-token", "a password for tests", "SECRET-QUERY"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %s", secret)
		}
	}
}

// At SIGTERM a load balancer is told to go elsewhere while requests are still answered; then no more are taken, and the one that
// is under way is answered.
func testGraceful(t *testing.T, p program) {
	c, token := startWithAdmin(t, p, "DRAIN_SECONDS=2")
	address := strings.TrimPrefix(c.url, "http://")
	conn, err := net.Dial("tcp", address)
	check(t, err)
	defer conn.Close()
	check(t, conn.SetDeadline(time.Now().Add(waitTimeout)))
	body := `{"material_type":"PLA","color":"Black","diameter_mm":1.75,"net_weight_grams":1000}`
	fmt.Fprintf(conn, "POST /api/v1/spools HTTP/1.1\r\nHost: farm\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", token, len(body))
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	check(t, err)
	if !strings.Contains(line, "100") { // the handler waits for the body
		t.Fatalf("the service answers %q", line)
	}
	_, err = reader.ReadString('\n')
	check(t, err)

	c.signal(syscall.SIGTERM)
	eventually(t, "the service is not ready", func() bool {
		fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := fresh.Get(c.url + "/readyz")
		check(t, err)
		r.Body.Close()
		return r.StatusCode == 503
	})
	if status, answer := c.call(t, token, "GET", "/api/v1/spools", nil); status != 200 {
		t.Errorf("a request before the load balancer noticed gets %d %v", status, answer)
	}
	c.waitUntilClosed(t)
	_, err = io.WriteString(conn, body)
	check(t, err)
	r, err := http.ReadResponse(reader, nil)
	check(t, err)
	r.Body.Close()
	if r.StatusCode != 201 {
		t.Errorf("the request that was under way gets %s", r.Status)
	}
	c.waitExit(t)
}

func testDemo(t *testing.T, p program) {
	temporary := tempDir(t)
	check(t, os.Chmod(temporary, 0o777))
	c := p.start(t, []string{"TMPDIR=" + temporary, "DATABASE_URL=postgres://farm@never.invalid/used", "DATA_DIR=" + filepath.Join(temporary, "unused")}, "demo")
	banner := c.stdout.String()
	for _, want := range []string{"demo@farm.example", "demo-password", c.url + "/docs", "gone when it stops"} {
		if !strings.Contains(banner, want) {
			t.Errorf("the demo does not say %q:\n%s", want, banner)
		}
	}
	if out := curl(t, curlLine.FindString(banner)); !strings.Contains(out, "access_token") {
		t.Errorf("the curl line: %s", out)
	}
	var data struct{ Spools, Products, Runs []any }
	b, err := os.ReadFile("testdata/demo.json")
	check(t, err)
	check(t, json.Unmarshal(b, &data))
	token := c.login(t, "demo@farm.example", "demo-password")
	for path, want := range map[string]int{"spools": len(data.Spools), "products": len(data.Products), "production-runs": len(data.Runs)} {
		if status, answer := c.call(t, token, "GET", "/api/v1/"+path, nil); status != 200 || answer["total"] != float64(want) || want == 0 {
			t.Errorf("GET /api/v1/%s: %d %v, want the %d of the sample data", path, status, answer["total"], want)
		}
	}
	c.stop(t, syscall.SIGINT)
	wantNoProcess(t, temporary)
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("the demo left %v %v", left, err)
	}
}

// What only tests need is in no user's binary.
func testLinkedPackages(t *testing.T, _ program) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	check(t, err)
	for _, name := range strings.Fields(string(out)) {
		if slices.Contains([]string{"testing", "net/http/httptest", "spoolwright/auth/authtest", "spoolwright/db/dbtest"}, name) {
			t.Errorf("the program is built with %s", name)
		}
	}
}
