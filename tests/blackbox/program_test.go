package blackbox_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/tests/testkit"
)

// TestProgram runs the built program as its users do. The tests run in parallel and share one build.
func TestProgram(t *testing.T) {
	t.Parallel()
	p := buildProgram(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, program)
	}{
		{"Browser", testBrowser}, // takes the longest
		{"Lifecycle", testLifecycle},
		{"Terminal", testTerminal},
		{"Unprivileged", testUnprivileged},
		{"UnreachableDataDir", testUnreachableDataDir},
		{"UnsafeDataDir", testUnsafeDataDir},
		{"StopDuringStart", testStopDuringStart},
		{"Usage", testUsage},
		{"CommandHelp", testCommandHelp},
		{"ImportExport", testImportExport},
		{"ExportsOfAPI", testExportsOfAPI},
		{"InvalidSettings", testInvalidSettings},
		{"Settings", testSettings},
		{"ExpiredKeys", testExpiredKeys},
		{"AddressInUse", testAddressInUse},
		{"StartErrors", testStartErrors},
		{"DatabaseURL", testDatabaseURL},
		{"SeparateRoles", testSeparateRoles},
		{"SeveralInstances", testSeveralInstances},
		{"TLS", testTLS},
		{"OwnTLS", testOwnTLS},
		{"Metrics", testMetrics},
		{"SmallHeap", testSmallHeap},
		{"JSONLog", testJSONLog},
		{"GracefulShutdown", testGracefulShutdown},
		{"Demo", testDemo},
		{"Tour", testTour},
		{"LinkedPackages", testLinkedPackages},
		{"Clients", testClients},
		{"PrinterClients", testPrinterClients},
		{"ReportAfterCrash", testReportAfterCrash},
		{"SDKs", testSDKs},
		{"Nginx", testNginx},
		{"Keys", testKeys},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, p)
		})
	}
}

// testLifecycle runs the service with its private PostgreSQL: first start and first login, account commands while the
// service runs and while it does not, restart, crash, and stop.
func testLifecycle(t *testing.T, p program) {
	dir := tempDir(t)
	data := filepath.Join(dir, "data")
	env := []string{"DATA_DIR=" + data}

	c := p.start(t, env)
	path := filepath.Join(data, "first-login")
	output := func() string { return c.stderr.String() + c.stdout.String() }
	// The file is named last, after the service has begun to serve.
	eventually(t, "the output names the file of the first login",
		func() bool { return strings.Contains(output(), path) })
	info, err := os.Stat(path)
	check(t, err)
	testkit.Equal(t, info.Mode(), 0o600, "the mode of %s", path)
	login, err := os.ReadFile(path)
	check(t, err)
	password := passwordLine.FindSubmatch(login)
	if password == nil {
		t.Fatalf("no password in %q", login)
	}
	testkit.Lacks(t, output(), string(password[1]), "the output contains the password")
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

	// Account commands while the service runs.
	testkit.Contains(t, p.succeeds(t, "", env, "user", "list"), "admin@farm.example", "user list")
	p.succeeds(t, "the operator's password\n", env, "user", "add", "--email", "op@farm.example",
		"--name", "Op", "--role", "operator", "--password-stdin")
	operator := c.login(t, "OP@farm.example", "the operator's password")
	c.createSpool(t, operator)
	again := []string{"user", "add", "--role", "operator",
		"--tenant", "other", "--new-tenant", "--email", "op@farm.example", "--name", "Op"}
	p.fails(t, 1, env, again, "op@farm.example", "already in use")
	p.fails(t, 1, env, []string{"user", "disable", "--email", "nobody@farm.example"}, "nobody@farm.example")
	p.succeeds(t, "", env, "user", "disable", "--email", "op@farm.example")
	status, response := c.call(t, operator, "GET", "/api/v1/spools", nil)
	if status != 401 || response["code"] != "INVALID_TOKEN" {
		t.Errorf("a request of a disabled user: %d %v", status, response)
	}
	p.succeeds(t, "", env, "user", "enable", "--email", "op@farm.example")
	generated := passwordLine.FindStringSubmatch(p.succeeds(t, "", env, "user", "passwd", "--email",
		"op@farm.example"))
	if generated == nil {
		t.Fatal("user passwd prints no password")
	}
	c.login(t, "op@farm.example", generated[1])
	p.succeeds(t, "", env, "user", "add", "--tenant", "second farm", "--new-tenant",
		"--email", "ada@second.example", "--name", "Ada", "--role", "admin")
	testkit.Contains(t, p.succeeds(t, "", env, "tenant", "list"), "second farm", "tenant list")

	c.stop(t, syscall.SIGINT)
	wantNoProcess(t, dir)

	// Account commands while the service is stopped.
	var users []map[string]any
	check(t, json.Unmarshal([]byte(p.succeeds(t, "", env, "user", "list", "--json")), &users))
	testkit.Equal(t, len(users), 3, "user list --json: %v", users)
	wantNoProcess(t, dir)

	c = p.start(t, env)
	if n := c.countSpools(t, tokens.Access); n != 2 { // with the token from before the restart
		t.Errorf("%d spools after a restart, want 2", n)
	}
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, login) {
		t.Error("the second start changed first-login")
	}

	pid := postmasterPID(t, data)
	c.cmd.Process.Kill()
	<-c.exited
	c = p.startAs(t, func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"nohup"}, cmd.Args...)
		cmd.Path, err = exec.LookPath("nohup")
		check(t, err)
	}, env)
	c.signal(syscall.SIGHUP)
	for range 10 { // after a SIGHUP that nohup ignores
		time.Sleep(50 * time.Millisecond) // the program must not end during this time
		r, err := c.client.Get(c.url + "/healthz")
		check(t, err)
		r.Body.Close()
	}
	testkit.Equal(t, postmasterPID(t, data), pid, "the process of PostgreSQL after a crash of the service")
	testkit.Equal(t, c.countSpools(t, tokens.Access), 2, "spools after a crash")
	begin := time.Now()
	c.signal(syscall.SIGTERM)
	c.waitUntilClosed(t)
	if time.Since(begin) < 1500*time.Millisecond { // after two seconds, a second signal ends the program at once
		c.signal(syscall.SIGTERM) // timeout(1) too sends the signal twice: to the process and to its group
	}
	c.waitExit(t)
	wantNoProcess(t, dir)
}

// testTerminal starts the service in a terminal and stops it with Ctrl-C, then starts it again and closes the
// terminal. Only the first start prints the password.
func testTerminal(t *testing.T, p program) {
	if signal.Ignored(syscall.SIGHUP) { // such as below nohup; a program inherits that, but not a handler
		handled := make(chan os.Signal, 1)
		signal.Notify(handled, syscall.SIGHUP)
		defer signal.Stop(handled)
	}
	dir := tempDir(t)
	data := filepath.Join(dir, "data")
	onTerminal := func(stop func(control *os.File) error) string {
		control, terminal, err := openTerminal()
		if err != nil {
			skipTest(t, "no terminal: "+err.Error())
		}
		defer control.Close()
		c := p.launch(t, func(cmd *exec.Cmd) {
			cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
			cmd.SysProcAttr = controllingTerminal()
		}, []string{"DATA_DIR=" + data})
		terminal.Close()
		copied := make(chan struct{})
		go func() {
			io.Copy(&c.stdout, control)
			close(copied)
		}()
		c.awaitReady(t)
		check(t, stop(control))
		c.waitExit(t)
		<-copied
		wantNoProcess(t, dir)
		return strings.ReplaceAll(c.stdout.String(), "\r\n", "\n")
	}
	first := onTerminal(func(control *os.File) error {
		_, err := control.Write([]byte{3}) // Ctrl-C
		return err
	})
	want := regexp.MustCompile(`^\nSpoolwright serves the new farm on http://127\.0\.0\.1:\d+
e-mail:   admin@farm\.example
password: \w+
sign in:  http://127\.0\.0\.1:\d+/first-login\?key=\w+ \(once, on this machine\)
stop:     Ctrl-C; the password is not shown again

(?:\^C)?$`)
	if !want.MatchString(first) {
		t.Errorf("the first start prints\n%s", first)
	}
	if _, err := os.Stat(filepath.Join(data, "first-login")); err == nil {
		t.Error("first-login exists although the terminal showed the password")
	}
	second := onTerminal((*os.File).Close)
	if !regexp.MustCompile(`^Spoolwright serves on http://127\.0\.0\.1:\d+ \(Ctrl-C stops it\)\n$`).MatchString(second) {
		t.Errorf("the second start prints\n%s", second)
	}
}

// testUnprivileged runs the service as the account nobody. As root, the service would run PostgreSQL as another
// account.
func testUnprivileged(t *testing.T, p program) {
	testkit.Rig(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root; without root the other tests run the service unprivileged")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		skipTest(t, "the account nobody does not exist")
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
	testkit.Equal(t, c.countSpools(t, token), 1, "spools after a restart")
	c.stop(t, syscall.SIGINT)
	wantNoProcess(t, dir)
}

// testUnreachableDataDir starts the service as root with a DATA_DIR that PostgreSQL's account cannot enter.
func testUnreachableDataDir(t *testing.T, p program) {
	if os.Geteuid() != 0 {
		t.Skip("needs root; otherwise PostgreSQL runs as the same account as the service")
	}
	closed := filepath.Join(tempDir(t), "closed")
	check(t, os.Mkdir(closed, 0o700))
	p.fails(t, 1, []string{"DATA_DIR=" + filepath.Join(closed, "data")}, nil, closed, "chmod", "DATA_DIR")
}

// testUnsafeDataDir starts the service where another account could have created the file with the secret for tokens.
func testUnsafeDataDir(t *testing.T, p program) {
	data := filepath.Join(tempDir(t), "data")
	check(t, os.Mkdir(data, 0o711))
	planted := filepath.Join(data, "jwt-secret")
	check(t, os.WriteFile(planted, bytes.Repeat([]byte("x"), 40), 0o644))
	check(t, os.Chmod(planted, 0o644))
	env := []string{"DATA_DIR=" + data, "LOG_LEVEL=error"}

	check(t, os.Chmod(data, 0o777|os.ModeSticky))
	p.fails(t, 1, env, nil, data, "other accounts can change the data folder", "chmod go-w")
	check(t, os.Chmod(data, 0o711))
	p.fails(t, 1, env, nil, planted, "other accounts can read or change", "chmod 600")
	check(t, os.Remove(planted))
	check(t, os.Symlink("/dev/zero", planted))
	p.fails(t, 1, env, nil, planted, "symbolic link")
	wantNoProcess(t, data)
}

// testStopDuringStart stops the service while initdb runs. It must exit with status 0 and leave no process.
func testStopDuringStart(t *testing.T, p program) {
	dir := tempDir(t)
	env := []string{"DATA_DIR=" + filepath.Join(dir, "data"),
		"PATH=" + testkit.TruePostgres() + ":" + os.Getenv("PATH")}
	c := p.launch(t, func(*exec.Cmd) {}, env)
	eventually(t, "initdb runs or has ended", func() bool {
		_, runs := os.Stat(filepath.Join(dir, "data", "postgres.new", "data", "PG_VERSION"))
		_, ended := os.Stat(filepath.Join(dir, "data", "postgres", "PG_VERSION"))
		return runs == nil || ended == nil
	})
	c.stop(t, syscall.SIGTERM)
	wantNoProcess(t, dir)
}

// testUsage checks the program's help, and the error for unknown commands and arguments.
func testUsage(t *testing.T, p program) {
	help := p.succeeds(t, "", nil, "-h")
	for _, args := range [][]string{{"-h"}, {"--help"}, {"help"}} {
		out := p.succeeds(t, "", nil, args...)
		testkit.Equal(t, out, help, "the output of %v differs from that of -h", args)
		for _, command := range []string{
			"serve", "demo", "migrate", "version", "user add", "user passwd", "user disable", "user list",
			"user move", "user remove",
			"tenant list", "tenant rename", "tenant remove", "tenant export", "tenant import", "import spools",
			"import spoolman", "export spools",
		} {
			testkit.Contains(t, out, "\n  "+command, "%v does not list the command %s", args, command)
		}
	}
	out := p.succeeds(t, "", []string{"LISTEN_ADDR=nonsense"}, "version")
	if !strings.HasPrefix(out, "spoolwright "+p.version(t)) || !strings.Contains(out, "\n"+runtime.Version()+" ") ||
		!strings.Contains(out, "\ngithub.com/jackc/pgx/v5 v5.") {
		t.Errorf("version: %q", out)
	}
	p.fails(t, 2, nil, []string{"brew"}, `"brew"`, "-h")
	p.fails(t, 2, nil, []string{"serve", "fast"}, "serve", "no arguments")
	p.fails(t, 2, nil, []string{"demo", "fast"}, "demo", "no arguments")
}

// wantRedirect fails the test unless a browser gets the status and is sent to the location.
func wantRedirect(t *testing.T, url string, status int, location string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Get(url)
	check(t, err)
	response.Body.Close()
	if got := response.Header.Get("Location"); response.StatusCode != status || got != location {
		t.Errorf("GET %s: %d to %q, want %d to %q", url, response.StatusCode, got, status, location)
	}
}

// testInvalidSettings starts the service with invalid values of every setting. It must name the setting, show no
// secret, and create nothing.
func testInvalidSettings(t *testing.T, p program) {
	dir := tempDir(t)
	data := "DATA_DIR=" + filepath.Join(dir, "data")
	invalid := map[string][]string{
		"LISTEN_ADDR":                  {"8000", "localhost", "127.0.0.1:http", "127.0.0.1:70000"},
		"DATABASE_URL":                 {"postgres://farm:hidden@host:port/farm", "nonsense"},
		"MIGRATE_DATABASE_URL":         {"postgres://farm:hidden@host:port/farm", "postgres://farm:hidden@host/farm"},
		"DATA_DIR":                     {"/dev/null", "/dev/null/data"},
		"POSTGRES_INSTALL":             {"on", "ask"},
		"JWT_SECRET":                   {"hidden", strings.Repeat("x", 40) + ",hidden", strings.Repeat("x", 31)},
		"ACCESS_TOKEN_EXPIRE_MINUTES":  {"0", "-1", "1.5", "30m"},
		"REFRESH_TOKEN_EXPIRE_DAYS":    {"0", "a week"},
		"RATE_LIMIT_PER_MINUTE":        {"-1", "many"},
		"RATE_LIMIT_PER_HOUR":          {"-1", "1e3"},
		"RATE_LIMIT_TENANT_PER_MINUTE": {"-1", "0.5"},
		"TRUSTED_PROXIES":              {"proxy.example", "10.0.0.0/33", "10.0.0.1,nonsense"},
		"CORS_ALLOWED_ORIGINS": {"*", "farm.example", "https://farm.example/", "https://farm.example:99999",
			"https://Farm.example", "https://farm.example:443", "http://farm.example:80", "https://farm.example:",
			"https://farm.example,nonsense"},
		"WEB":                      {"yes"},
		"PUBLIC_URL":               {"farm.example", "ftp://farm.example", "https://farm.example/farm", "https://:8000"},
		"SMTP_URL":                 {"smtp.example:25", "http://smtp.example", "smtp://smtp.example:99999"},
		"SMTP_FROM":                {"Farm", "a@b.example\r\nBcc: c@d.example"},
		"SPOOLMAN_KEY_IN_PATH":     {"yes"},
		"FILAMENT_CATALOG_URL":     {"filaments.json", "file:///etc/passwd", "https://", "https://a:b@catalog.example/x"},
		"WEBHOOK_ALLOWED_NETWORKS": {"printer.example", "192.168.1.0/33", "192.168.1.0/24,nonsense"},
		"WATCH":                    {"yes", "on"},
		"WATCH_NETWORKS":           {"printer.example", "192.168.1.0/33"},
		"TLS_CERT_FILE":            {"/dev/null"},
		"TLS_KEY_FILE":             {"/dev/null"},
		"TLS_SELF_SIGNED":          {"maybe"},
		"METRICS_ADDR":             {"9090"},
		"DB_MAX_CONNS":             {"0", "few"},
		"DRAIN_SECONDS":            {"-1", "1s", "601"},
		"LOG_FORMAT":               {"xml"},
		"LOG_LEVEL":                {"loud"},
	}
	for _, s := range p.settings(t) {
		if len(invalid[s.name]) == 0 {
			t.Errorf("the test has no invalid value for %s", s.name)
		}
		for _, value := range invalid[s.name] {
			if line := p.fails(t, 2, []string{data, s.name + "=" + value}, nil, s.name); strings.Contains(line,
				"hidden") {
				t.Errorf("the error message contains a secret: %s", line)
			}
		}
	}
	noPair := []string{data, "TLS_CERT_FILE=/dev/null", "TLS_KEY_FILE=/dev/null"}
	p.fails(t, 2, noPair, nil, "TLS_CERT_FILE", "TLS_KEY_FILE")
	p.fails(t, 2, append(noPair, "TLS_SELF_SIGNED=on"), nil, "TLS_SELF_SIGNED and TLS_CERT_FILE exclude each other")
	p.fails(t, 2, []string{data, "DATABASE_URL=postgres://farm@host/farm"}, nil, "DATABASE_URL", "JWT_SECRET")
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "[::]:0", "farm.example:0"} {
		p.fails(t, 2, []string{"LISTEN_ADDR=" + address}, []string{"demo"}, "loopback", "LISTEN_ADDR")
	}
	for _, command := range []string{
		"user list", "tenant list", "user passwd --email ada@farm.example", "export spools --tenant farm",
		"import spools x.csv --tenant farm",
	} {
		p.fails(t, 2, []string{data}, strings.Fields(command), "no farm", filepath.Join(dir, "data"), "DATA_DIR")
	}
	add := strings.Fields("user add --tenant farm --new-tenant --email ada@farm.example --name Ada --role admin")
	p.fails(t, 2, []string{data}, add, "no farm", filepath.Join(dir, "data"), "DATA_DIR", "--init")
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		t.Error("a start that failed created the data directory")
	}
}

// testSettings checks that the service uses its settings: each has another value than the default, and the responses
// and the log must show it. Other tests check the settings of the database, HTTPS, metrics, shutdown and the format
// of the log.
func testSettings(t *testing.T, p program) {
	const origin = "https://shop.example"
	c, token := startWithAdmin(t, p, "ACCESS_TOKEN_EXPIRE_MINUTES=7", "REFRESH_TOKEN_EXPIRE_DAYS=3",
		"RATE_LIMIT_PER_MINUTE=9", "RATE_LIMIT_PER_HOUR=8", "TRUSTED_PROXIES=127.0.0.1", "CORS_ALLOWED_ORIGINS="+
			origin)
	tokens := c.tokens(t, "ada@farm.example", testPassword)
	for name, want := range map[string]time.Duration{
		"access_token": 7 * time.Minute, "refresh_token": 3 * 24 * time.Hour,
	} {
		var claims struct{ Iat, Exp int64 }
		payload, err := base64.RawURLEncoding.DecodeString(strings.Split(tokens[name].(string), ".")[1])
		check(t, err)
		check(t, json.Unmarshal(payload, &claims))
		testkit.Equal(t, time.Duration(claims.Exp-claims.Iat)*time.Second, want, "%s expires after", name)
	}

	me := c.must(t, "GET", "/api/v1/auth/me", http.Header{
		"Authorization": {"Bearer " + token}, "Origin": {origin}, "X-Forwarded-For": {"198.51.100.7"},
	}, nil)
	for name, want := range map[string]string{"X-RateLimit-Limit": "8", "Access-Control-Allow-Origin": origin} {
		testkit.Equal(t, me.header.Get(name), want, "%s", name)
	}
	eventually(t, "the log has a line with the address in X-Forwarded-For", func() bool {
		return strings.Contains(c.stderr.String(), "address=198.51.100.7")
	})
	wantRedirect(t, c.url+"/", 303, "/sign-in")
	c.stop(t, syscall.SIGTERM)

	c, token = startWithAdmin(t, p, "RATE_LIMIT_PER_MINUTE=2", "RATE_LIMIT_PER_HOUR=0", "WEB=off")
	wantRedirect(t, c.url+"/", 302, "docs")
	wantRedirect(t, c.url+"/spools", 404, "")
	for i, want := range []int{200, 200, 429} {
		if status, _ := c.call(t, token, "GET", "/api/v1/auth/me", nil); status != want {
			t.Errorf("with 2 requests per minute, request %d: %d, want %d", i+1, status, want)
		}
	}
	c.stop(t, syscall.SIGTERM)

	c, token = startWithAdmin(t, p, "RATE_LIMIT_TENANT_PER_MINUTE=2")
	for i, want := range []int{200, 200, 429} {
		if status, _ := c.call(t, token, "GET", "/api/v1/auth/me", nil); status != want {
			t.Errorf("with 2 requests of the tenant per minute, request %d: %d, want %d", i+1, status, want)
		}
	}
	c.stop(t, syscall.SIGTERM)
}

// testExpiredKeys checks that the service deletes expired idempotency keys.
func testExpiredKeys(t *testing.T, p program) {
	testkit.Rig(t)
	name := testkit.NewDatabase(t)
	url := ownerURL(name)
	env := []string{"DATABASE_URL=" + url, secretEnv}
	p.addUser(t, env, "farm", "ada@farm.example", "operator")
	c := p.start(t, env)
	token := c.login(t, "ada@farm.example", testPassword)
	run := c.must(t, "POST", "/api/v1/production-runs",
		http.Header{"Authorization": {"Bearer " + token}, "Idempotency-Key": {"key"}}, map[string]any{})
	if run.status != 201 {
		t.Fatalf("POST /api/v1/production-runs: %d %s", run.status, run.body)
	}
	c.stop(t, syscall.SIGTERM)

	conn, err := pgx.Connect(t.Context(), testkit.WithDatabase(testkit.Private().SuperURL(), name))
	check(t, err)
	defer conn.Close(t.Context())
	tag, err := conn.Exec(t.Context(), `update idempotency_keys set created_at = created_at - interval '25 hours'`)
	check(t, err)
	if tag.RowsAffected() != 1 {
		t.Fatalf("%d keys are stored, want 1", tag.RowsAffected())
	}
	c = p.start(t, env)
	eventually(t, "the service has deleted the expired key", func() bool {
		var n int
		check(t, conn.QueryRow(t.Context(), `select count(*) from idempotency_keys`).Scan(&n))
		return n == 0
	})
	c.stop(t, syscall.SIGTERM)
}

// testStartErrors starts the service on databases that it cannot use. The error must name the setting and say what to
// do, and must not show the password.
func testStartErrors(t *testing.T, p program) {
	name := testkit.NewDatabase(t)
	owner := ownerURL(name)
	service := testkit.WithDatabase(testkit.Private().AppURL(), name)
	password := func(connection, password string) string {
		u, err := url.Parse(connection)
		check(t, err)
		u.User = url.UserPassword(u.User.Username(), password)
		return u.String()
	}
	start := func(code int, env []string, words ...string) {
		t.Helper()
		line := p.fails(t, code, append(env, secretEnv, "DATA_DIR="+filepath.Join(tempDir(t), "data")), nil, words...)
		if strings.Contains(line, "hidden") || strings.Contains(line, "URL: database:") {
			t.Errorf("the error shows a password or repeats a prefix: %s", line)
		}
	}
	start(1, []string{"DATABASE_URL=" + service}, "DATABASE_URL: ",
		"run `spoolwright migrate` with MIGRATE_DATABASE_URL")
	start(1, []string{"DATABASE_URL=" + password(service, "hidden")}, "DATABASE_URL: ", "password", "percent-encode",
		"%40")
	start(1, []string{"DATABASE_URL=" + service, "MIGRATE_DATABASE_URL=" + password(owner, "hidden")},
		"MIGRATE_DATABASE_URL: ", "password", "percent-encode")
	start(1, []string{"DATABASE_URL=" + strings.Replace(owner, name, "no_such_database", 1)},
		"DATABASE_URL: ", "no_such_database", "CREATE DATABASE")
	super := testkit.Private().SuperURL()
	latin := name + "_latin"
	testkit.ExecURL(t, super, "create database "+latin+` owner spoolwright_owner encoding 'LATIN1' template template0
		lc_collate 'C' lc_ctype 'C'`)
	t.Cleanup(func() { testkit.ExecURL(t, super, "drop database "+latin) })
	p.fails(t, 1, []string{"DATABASE_URL=" + ownerURL(latin), secretEnv}, []string{"migrate"}, "DATABASE_URL: ", latin,
		"LATIN1", "CREATE DATABASE farm ENCODING 'UTF8' TEMPLATE template0")
	for _, secret := range []string{"12/hidden", "hidden/x", "hidden%", "x@hidden"} {
		start(2, []string{"DATABASE_URL=postgres://farm:" + secret + "@127.0.0.1:1/farm"}, "DATABASE_URL: ",
			"percent-encode special characters of the password: @ is %40")
	}
}

// testAddressInUse starts the service on an address in use. It must name the setting and create nothing.
func testAddressInUse(t *testing.T, p program) {
	dir := tempDir(t)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer busy.Close()
	for _, name := range []string{"LISTEN_ADDR", "METRICS_ADDR"} {
		address := busy.Addr().String()
		env := []string{"DATA_DIR=" + filepath.Join(dir, "data"), name + "=" + address}
		p.fails(t, 1, env, nil, name, address, "in use")
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		t.Error("a start that failed created the data directory")
	}
}

// testDatabaseURL runs the service on a PostgreSQL that it does not manage.
func testDatabaseURL(t *testing.T, p program) {
	testkit.Rig(t)
	c, token := startWithAdmin(t, p, "DB_MAX_CONNS=3")
	c.createSpool(t, token)
	testkit.Equal(t, c.countSpools(t, token), 1, "spools")
	testkit.Contains(t, c.stderr.String(), "level=WARN", "the log has no warning that the login owns the tables")
	testkit.Lacks(t, c.stderr.String()+c.stdout.String(), "password",
		"the output has a first login, which DATABASE_URL excludes")
	const noUsers = "the database has no users"
	testkit.Lacks(t, c.stderr.String(), noUsers, "the log says that there are no users")
	c.stop(t, syscall.SIGTERM)
	c = p.start(t, []string{"DATABASE_URL=" + ownerURL(testkit.MigratedDatabase(t)), secretEnv})
	eventually(t, "the log says that there are no users", func() bool {
		return strings.Contains(c.stderr.String(), noUsers) && strings.Contains(c.stderr.String(), "spoolwright user add")
	})
	c.stop(t, syscall.SIGTERM)
}

// testSeparateRoles runs the service with the roles that the SQL in docs/database.md creates, and checks what the
// service's login may do by itself.
func testSeparateRoles(t *testing.T, p program) {
	ctx := context.Background()
	super := testkit.Private().SuperURL()
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
		testkit.ExecURL(t, super, "drop database if exists farm with (force)", "drop role if exists farm_service",
			"drop database if exists second with (force)", "drop role if exists second_service",
			"drop role if exists farm_owner", "drop role if exists farm_stranger", "drop role if exists second_owner")
	})
	for _, s := range statements[:len(statements):len(statements)] { // a second installation in the cluster
		statements = append(statements, strings.ReplaceAll(s, "farm", "second"))
	}
	for _, s := range statements {
		_, err := conn.Exec(ctx, s)
		if s == "CREATE ROLE spoolwright_app NOLOGIN" && err != nil &&
			strings.Contains(err.Error(), "already exists") {
			continue // this cluster has the role
		}
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	url := func(login, password string) string {
		_, rest, _ := strings.Cut(super, "@/spoolwright?")
		return "postgres://" + login + ":" + password + "@/farm?" + rest
	}
	owner := "MIGRATE_DATABASE_URL=" + url("farm_owner", "owner-password")
	env := []string{"DATABASE_URL=" + url("farm_service", "service-password"), owner, secretEnv}

	p.fails(t, 1, env[:1:1], []string{"migrate"}, "schema") // the service's login cannot create tables
	p.succeeds(t, "", env, "migrate")
	p.addUser(t, env, "farm", "ada@farm.example", "admin")
	c := p.start(t, env)
	token := c.login(t, "ada@farm.example", testPassword)
	c.createSpool(t, token)
	testkit.Lacks(t, c.stderr.String(), "level=WARN", "the log has a warning")
	c.stop(t, syscall.SIGTERM)

	// After the migration, the service's login suffices.
	p.start(t, append(env[:1:1], secretEnv)).stop(t, syscall.SIGTERM)

	service, err := pgx.Connect(ctx, url("farm_service", "service-password"))
	check(t, err)
	defer service.Close(ctx)
	var seen int
	check(t, service.QueryRow(ctx, "select (select count(*) from spools) + (select count(*) from users)").Scan(&seen))
	testkit.Equal(t, seen, 0, "rows that the service's login sees without a tenant")
	for _, s := range []string{
		"select * from login_directory", "delete from spools", "drop table spools", "create table mine ()",
		"create temporary table mine ()",
	} {
		if _, err := service.Exec(ctx, s); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("the service's login executes %s: %v, want SQLSTATE 42501", s, err)
		}
	}

	// spoolwright_app has privileges in all databases of the cluster, so other installations must not connect.
	for _, login := range []string{"second_service:service-password", "second_owner:owner-password"} {
		name, password, _ := strings.Cut(login, ":")
		if _, err := pgx.Connect(ctx, url(name, password)); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s connects to the database of another installation: %v, want SQLSTATE 42501", name, err)
		}
	}

	// A login that is not a member of spoolwright_app.
	testkit.ExecURL(t, super, "create role farm_stranger login password 'pw'",
		"grant connect on database farm to farm_stranger")
	p.fails(t, 1, []string{"DATABASE_URL=" + url("farm_stranger", "pw"), owner, secretEnv}, nil,
		"GRANT spoolwright_app TO", "farm_stranger")
}

// testSeveralInstances starts three instances at once on an empty database. They must all migrate it or wait, and
// share the data.
func testSeveralInstances(t *testing.T, p program) {
	testkit.Rig(t)
	url := ownerURL(testkit.NewDatabase(t))
	env := []string{"DATABASE_URL=" + url, secretEnv, "DB_MAX_CONNS=3"}
	var instances []*process
	for range 3 {
		instances = append(instances, p.launch(t, func(*exec.Cmd) {}, env))
	}
	for _, c := range instances {
		c.awaitReady(t)
	}
	p.addUser(t, env, "farm", "ada@farm.example", "operator")
	token := instances[0].login(t, "ada@farm.example", testPassword)
	for _, c := range instances {
		c.createSpool(t, token)
	}
	for _, c := range instances {
		testkit.Equal(t, c.countSpools(t, token), 3, "spools")
		c.stop(t, syscall.SIGTERM)
	}
}

// testOwnTLS serves HTTPS with TLS_SELF_SIGNED, and opens the sign-in as a person with a phone does: types the
// address, accepts the warning, installs the authority, and is not warned again.
func testOwnTLS(t *testing.T, p program) {
	c, _ := startWithAdmin(t, p, "TLS_SELF_SIGNED=on", "DATA_DIR="+tempDir(t), "PUBLIC_URL=https://farm.example")
	get := func(config *tls.Config, url string) (*http.Response, string, error) {
		transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
		defer transport.CloseIdleConnections()
		r, err := (&http.Client{Transport: transport}).Get(url)
		if err != nil {
			return nil, "", err
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		return r, string(body), err
	}
	if _, _, err := get(nil, c.url+"/sign-in"); err == nil {
		t.Error("a device without the authority trusts the service")
	}
	warned := &tls.Config{InsecureSkipVerify: true}
	r, body, err := get(warned, strings.Replace(c.url, "https", "http", 1)+"/sign-in")
	check(t, err)
	if r.StatusCode != 200 || r.Request.URL.Scheme != "https" || !strings.Contains(body, `name="password"`) ||
		!strings.Contains(body, `href="/farm-ca.crt"`) {
		t.Errorf("the sign-in: %d at %s\n%s", r.StatusCode, r.Request.URL, body)
	}
	// With HSTS, browsers would not let people accept the warning.
	testkit.Equal(t, r.Header.Get("Strict-Transport-Security"), "", "HSTS")
	r, body, err = get(warned, c.url+"/farm-ca.crt")
	check(t, err)
	testkit.Equal(t, r.Header.Get("Content-Type"), "application/x-x509-ca-cert", "type")
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(body)) || strings.Contains(body, "KEY") {
		t.Fatalf("the authority is %s", body)
	}
	for _, name := range []string{"", "localhost", "farm.example"} {
		r, _, err = get(&tls.Config{RootCAs: roots, ServerName: name}, c.url+"/readyz")
		if err != nil || r.StatusCode != 200 {
			t.Errorf("with the authority, %q: %v", name, err)
		}
	}
	p.succeeds(t, "", []string{"LISTEN_ADDR=" + strings.TrimPrefix(c.url, "https://"), "TLS_SELF_SIGNED=on"}, "health",
		"--ready")
}

// testTLS serves HTTPS, replaces the certificate while the service runs, and then breaks the certificate file.
func testTLS(t *testing.T, p program) {
	testkit.Rig(t)
	dir := tempDir(t)
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	first := writeCertificate(t, 1, certFile, keyFile)
	c, _ := startWithAdmin(t, p, "TLS_CERT_FILE="+certFile, "TLS_KEY_FILE="+keyFile)

	get := func(trusted *x509.Certificate) (*http.Response, error) {
		roots := x509.NewCertPool()
		roots.AddCert(trusted)
		transport := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, DisableKeepAlives: true,
		}
		defer transport.CloseIdleConnections()
		r, err := (&http.Client{Transport: transport}).Get(c.url + "/readyz")
		if err == nil {
			r.Body.Close()
		}
		return r, err
	}
	health := []string{"LISTEN_ADDR=" + strings.TrimPrefix(c.url, "https://"), "TLS_CERT_FILE=" + certFile,
		"TLS_KEY_FILE=" + keyFile}
	p.succeeds(t, "", health, "health")
	p.succeeds(t, "", health, "health", "--ready")
	p.fails(t, 1, health[:1], []string{"health"}, "400") // without TLS
	p.fails(t, 1, []string{"LISTEN_ADDR=127.0.0.1:1"}, []string{"health", "--ready"}, "127.0.0.1:1")

	r, err := get(first)
	check(t, err)
	if r.StatusCode != 200 || r.ProtoMajor != 2 || r.Header.Get("Strict-Transport-Security") == "" {
		t.Errorf("over HTTPS: %d %s %v, want 200, HTTP/2 and Strict-Transport-Security", r.StatusCode, r.Proto,
			r.Header)
	}
	for version, want := range map[uint16]bool{
		tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true,
	} {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(c.url, "https://"), &tls.Config{
			MinVersion: version, MaxVersion: version, InsecureSkipVerify: true,
		})
		if err == nil {
			conn.Close()
		}
		if (err == nil) != want {
			t.Errorf("a handshake with %s: %v, want success: %v", tls.VersionName(version), err, want)
		}
	}
	plain, err := c.client.Get(strings.Replace(c.url, "https", "http", 1) + "/readyz")
	check(t, err)
	plain.Body.Close()
	testkit.Equal(t, plain.StatusCode, 400, "over HTTP")

	second := writeCertificate(t, 2, certFile, keyFile)
	eventually(t, "the new certificate is served", func() bool {
		r, err := get(second)
		return err == nil && r.TLS.PeerCertificates[0].SerialNumber.Int64() == 2
	})
	check(t, os.WriteFile(certFile, []byte("-----BEGIN CERTI"), 0o600)) // as while the file is being written
	eventually(t, "the service reports the invalid file", func() bool { // it checks the files in handshakes
		if _, err := get(second); err != nil {
			t.Errorf("with an invalid certificate file: %v, want the previous certificate", err)
		}
		return strings.Contains(c.stderr.String(), "certificate reload failed")
	})
	testkit.Equal(t, strings.Count(c.stderr.String(), "certificate reload failed"), 1,
		"reports of the invalid certificate file")
	c.stop(t, syscall.SIGTERM)
}

// testMetrics checks that METRICS_ADDR, and no other address, serves metrics and profiles.
func testMetrics(t *testing.T, p program) {
	testkit.Rig(t)
	address := freeAddress(t) // the service does not log the port that it gets for METRICS_ADDR
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
	var status int
	var text string
	eventually(t, "/metrics has the state of the queue", func() bool { // which it omits while PostgreSQL is slow
		status, text = get("http://" + address + "/metrics")
		return strings.Contains(text, "\nwebhook_queue{")
	})
	for _, want := range []string{
		`http_requests_total{route="POST /api/v1/spools",method="POST",status="201"} 1`,
		`http_request_duration_seconds_count{route="POST /api/v1/spools",method="POST",status="201"} 1`,
		"db_pool_max_connections ", "go_goroutines ", "spoolwright_build_info{", `webhook_queue{state="waiting"} 0`,
	} {
		if status != 200 || !strings.Contains(text, "\n"+want) {
			t.Errorf("/metrics: %d, want 200 with %s:\n%s", status, want, text)
		}
	}
	if status, _ := get("http://" + address + "/debug/pprof/goroutine?debug=1"); status != 200 {
		t.Errorf("/debug/pprof/goroutine: %d, want 200", status)
	}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/goroutine"} {
		if status, _ := get(c.url + path); status != 404 {
			t.Errorf("%s at LISTEN_ADDR: %d, want 404", path, status)
		}
	}
	if status, _ := get("http://" + address + "/api/v1/spools"); status != 404 {
		t.Errorf("the API at METRICS_ADDR: %d, want 404", status)
	}
	c.stop(t, syscall.SIGTERM)
}

// testSmallHeap checks to which size the heap, with the ballast, may grow before garbage is collected.
func testSmallHeap(t *testing.T, p program) {
	testkit.Rig(t)
	for _, c := range []struct {
		env         string
		least, most int // MiB
	}{{"GOGC=", 34, 56}, {"GOGC=100", 4, 20}} {
		address := freeAddress(t)
		program := p.start(t, []string{"DATA_DIR=" + tempDir(t) + "/data", "METRICS_ADDR=" + address, c.env})
		eventually(t, fmt.Sprintf("with %s, the goal of the heap is %d to %d MiB", c.env, c.least, c.most), func() bool {
			r, err := program.client.Get("http://" + address + "/debug/pprof/heap?gc=1&debug=1")
			check(t, err)
			defer r.Body.Close()
			text, err := io.ReadAll(r.Body)
			check(t, err)
			m := regexp.MustCompile(`(?m)^# NextGC = (\d+)$`).FindSubmatch(text)
			goal, err := strconv.Atoi(string(m[1]))
			check(t, err)
			return goal >= c.least<<20 && goal <= c.most<<20
		})
		program.stop(t, syscall.SIGTERM)
	}
}

// testJSONLog checks that each log line is a JSON object, what the line of a request contains, and that no line
// contains tokens, passwords or query strings.
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
		err := json.Unmarshal([]byte(line), &entry)
		if err != nil || entry["msg"] == "" || entry["time"] == "" || entry["level"] == "" {
			t.Fatalf("not a log entry: %s", line)
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
	for _, secret := range []string{token, "not-a-token", testPassword, "SECRET-QUERY"} {
		testkit.Lacks(t, log, secret, "the log contains %q", secret)
	}
}

// testGracefulShutdown checks the three phases after SIGTERM. First /readyz returns 503 and requests still succeed,
// so that a load balancer can notice. Then the service accepts no connections. Last, a request in flight gets its
// response.
func testGracefulShutdown(t *testing.T, p program) {
	c, token := startWithAdmin(t, p, "DRAIN_SECONDS=6") // in which two requests must succeed
	address := strings.TrimPrefix(c.url, "http://")
	conn, err := net.Dial("tcp", address)
	check(t, err)
	defer conn.Close()
	check(t, conn.SetDeadline(time.Now().Add(waitTimeout)))
	body := `{"material_type":"PLA","color":"Black","diameter_mm":1.75,"net_weight_grams":1000}`
	fmt.Fprintf(conn, "POST /api/v1/spools HTTP/1.1\r\nHost: farm\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", token, len(body))
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	check(t, err)
	if !strings.Contains(line, "100") { // with 100 Continue the request is in flight: the handler reads the body
		t.Fatalf("the service responds %q, want 100 Continue", line)
	}
	_, err = reader.ReadString('\n')
	check(t, err)

	c.signal(syscall.SIGTERM)
	eventually(t, "the service is not ready", func() bool {
		loadBalancer := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := loadBalancer.Get(c.url + "/readyz")
		check(t, err)
		r.Body.Close()
		return r.StatusCode == 503
	})
	if status, response := c.call(t, token, "GET", "/api/v1/spools", nil); status != 200 {
		t.Errorf("a request during DRAIN_SECONDS: %d %v", status, response)
	}
	c.waitUntilClosed(t)
	_, err = io.WriteString(conn, body)
	check(t, err)
	r, err := http.ReadResponse(reader, nil)
	check(t, err)
	r.Body.Close()
	testkit.Equal(t, r.StatusCode, 201, "the request in flight: %s, want 201", r.Status)
	c.waitExit(t)
}

// testDemo runs the demo, which ignores the settings of a database, creates the sample data, and removes everything
// when it stops.
func testDemo(t *testing.T, p program) {
	testkit.Rig(t)
	temporary := tempDir(t)
	check(t, os.Chmod(temporary, 0o777))
	c := p.start(t, []string{
		"TMPDIR=" + temporary, "DATA_DIR=" + filepath.Join(temporary, "unused"),
		"DATABASE_URL=postgres://farm@never.invalid/used",
	}, "demo")
	eventually(t, "the demo prints its address", func() bool { return strings.Contains(c.stdout.String(), "stop:") })
	banner := c.stdout.String()
	for _, want := range []string{"a demo farm on " + c.url, "demo@farm.example", "demo-password", "everything is gone"} {
		testkit.Contains(t, banner, want, "the demo does not print %q", want)
	}
	link := regexp.MustCompile(`http://\S+/first-login\?key=\w+`).FindString(banner)
	wantRedirect(t, link, 303, "/")
	wantRedirect(t, link, 404, "")
	b, err := os.ReadFile("web/start/farm.json")
	check(t, err)
	var requests []struct{ Path string }
	check(t, json.Unmarshal(b, &requests))
	created := map[string]int{}
	for _, r := range requests {
		created[r.Path]++
	}
	token := c.login(t, "demo@farm.example", "demo-password")
	for _, path := range []string{"/api/v1/spools", "/api/v1/printers", "/api/v1/products", "/api/v1/production-runs",
		"/api/v1/orders"} {
		status, answer := c.call(t, token, "GET", path, nil)
		total, _ := answer["total"].(float64) // with those of the history
		if want := created[path]; status != 200 || total < float64(want) || want == 0 {
			t.Errorf("GET %s: %d %v, want the %d of the sample data", path, status, answer["total"], want)
		}
	}

	eventually(t, "the demo watches its printers", func() bool {
		status, answer := c.call(t, token, "GET", "/api/v1/printer-states?state=printing,attention", nil)
		return status == 200 && answer["total"] == 5.0
	})
	status, answer := c.call(t, token, "GET", "/api/v1/printer-states?question=true", nil)
	if status != 200 || answer["total"] != 0.0 {
		t.Errorf("the demo asks about jobs: %d %v", status, answer)
	}

	// A demo that is killed leaves its folder to the next start. That leaves the folder of a running demo alone.
	folders := func() []string {
		var names []string
		left, err := os.ReadDir(temporary)
		check(t, err)
		for _, entry := range left {
			names = append(names, entry.Name())
		}
		return names
	}
	c.cmd.Process.Kill()
	<-c.exited
	killed := folders()
	testkit.Equal(t, len(killed), 1, "TMPDIR has %v after the demo was killed, want one folder", killed)
	c = p.start(t, []string{"TMPDIR=" + temporary}, "demo")
	running := folders()
	if len(running) != 1 || slices.Equal(running, killed) {
		t.Errorf("TMPDIR has %v after the next start, want one new folder", running)
	}
	check(t, os.Mkdir(filepath.Join(temporary, "spoolwright-demo-killed"), 0o711))
	check(t, os.WriteFile(filepath.Join(temporary, "spoolwright-demo-killed", "throwaway.log"), nil, 0o600))
	address := strings.TrimPrefix(c.url, "http://")
	_, stderr, code := p.run(t, "", []string{"TMPDIR=" + temporary, "LISTEN_ADDR=" + address}, "serve")
	if code != 1 || !strings.Contains(stderr, "address already in use") {
		t.Errorf("serve on the demo's address: status %d, %s", code, stderr)
	}
	if got := folders(); !slices.Equal(got, running) {
		t.Errorf("TMPDIR has %v after another service started, want %v of the running demo", got, running)
	}
	c.login(t, "demo@farm.example", "demo-password")

	c.stop(t, syscall.SIGINT)
	wantNoProcess(t, temporary)
	if left := folders(); len(left) > 0 {
		t.Errorf("the demo left %v in TMPDIR", left)
	}
}

// testLinkedPackages checks that the program does not import packages for tests.
func testLinkedPackages(t *testing.T, _ program) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	check(t, err)
	forTests := []string{"testing", "net/http/httptest", "spoolwright/tests/testkit"}
	for _, name := range strings.Fields(string(out)) {
		if slices.Contains(forTests, name) {
			t.Errorf("the program imports %s", name)
		}
	}
}
