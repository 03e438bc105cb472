package blackbox_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"spoolwright/db/dbtest"
)

// What is said to those who deploy the program is tried here: the release, its parts, and the files in deploy.

// releaseBuild is the command that builds a release. docs/deployment.md, the Dockerfile and .ci/run must use the same.
const releaseBuild = `CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w' -o spoolwright .`

func TestReleaseBuildIsDocumented(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"docs/deployment.md", ".ci/run", "deploy/Dockerfile"} {
		b, err := os.ReadFile(path)
		check(t, err)
		if !strings.Contains(string(b), strings.Replace(releaseBuild, " -o spoolwright .", "", 1)) {
			t.Errorf("%s does not build with %s", path, releaseBuild)
		}
	}
}

// release is the program as users get it.
func buildRelease(t *testing.T) program {
	t.Helper()
	p := filepath.Join(tempDir(t), "spoolwright")
	c := exec.Command("bash", "-c", strings.Replace(releaseBuild, "-o spoolwright", "-o '"+p+"'", 1))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", releaseBuild, err, out)
	}
	return program(p)
}

func TestRelease(t *testing.T) {
	t.Parallel()
	p := buildRelease(t)
	info, err := os.Stat(string(p))
	check(t, err)
	if info.Size() >= 16_000_000 {
		t.Errorf("the release has %d bytes, more than 16 MB", info.Size())
	}
	b, err := os.ReadFile(string(p))
	check(t, err)
	if dir, err := os.Getwd(); err != nil || bytes.Contains(b, []byte(dir+"/")) {
		t.Errorf("the release knows where it was built: %s %v", dir, err)
	}
	t.Run("EmptyRoot", func(t *testing.T) { testEmptyRoot(t, p) })
	t.Run("BillOfMaterials", func(t *testing.T) { testBillOfMaterials(t, p) })
}

// emptyRoot runs the release where there is nothing but it, as nobody: so it runs in a container made from scratch.
func testEmptyRoot(t *testing.T, p program) {
	if os.Getuid() != 0 {
		skipTest(t, "only root can change the root folder of a process")
	}
	root := tempDir(t)
	b, err := os.ReadFile(string(p))
	check(t, err)
	check(t, os.WriteFile(filepath.Join(root, "spoolwright"), b, 0o755))
	url, _ := newDatabase(t, dbtest.Private().OwnerURL)
	// The empty root has no socket, so the database is reached through a port.
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer proxy.Close()
	socket := regexp.MustCompile(`host=([^&]+)`).FindStringSubmatch(url)
	if socket == nil {
		t.Fatalf("no socket in %s", url)
	}
	go forwardToSocket(proxy, strings.ReplaceAll(socket[1], "%2F", "/")+"/.s.PGSQL.5432")
	host, port, _ := net.SplitHostPort(proxy.Addr().String())
	url = strings.Replace(strings.Replace(url, socket[0], "host="+host, 1), "port=5432", "port="+port, 1)

	c := program("/spoolwright").startAs(t, func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}, []string{"DATABASE_URL=" + url, secretEnv})
	for _, path := range []string{"/docs", "/redoc", "/openapi.json", "/docs/swagger-ui-bundle.js", "/redoc/redoc.standalone.js"} {
		r, err := c.client.Get(c.url + path)
		check(t, err)
		r.Body.Close()
		if r.StatusCode != 200 {
			t.Errorf("GET %s: %d", path, r.StatusCode)
		}
	}
	c.stop(t, syscall.SIGTERM)
	left, err := os.ReadDir(root)
	check(t, err)
	if len(left) != 1 {
		t.Errorf("the service has written into its root folder: %v", left)
	}
}

// forward connects whoever calls the listener with a socket.
func forwardToSocket(l net.Listener, socket string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer in.Close()
			out, err := net.Dial("unix", socket)
			if err != nil {
				return
			}
			defer out.Close()
			go func() { io.Copy(out, in); out.(*net.UnixConn).CloseWrite() }()
			io.Copy(in, out)
		}()
	}
}

// supplyChain lists what the release is made of, and who in it may do what is hard to review.
func supplyChain(t *testing.T) []byte {
	t.Helper()
	c := exec.Command("go", "list", "-deps", "-json=ImportPath,Module,Imports,CgoFiles,SFiles", ".")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	out, err := c.Output()
	check(t, err)
	modules, packages := map[string]bool{}, map[string][]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p struct {
			ImportPath       string
			Module           *struct{ Path string }
			Imports          []string
			CgoFiles, SFiles []string
		}
		check(t, d.Decode(&p))
		if p.Module == nil {
			continue // the standard library
		}
		if p.Module.Path != "spoolwright" {
			modules[p.Module.Path] = true
		}
		for _, name := range []string{"os/exec", "unsafe", "plugin"} {
			if slices.Contains(p.Imports, name) {
				packages[name] = append(packages[name], p.ImportPath)
			}
		}
		if len(p.CgoFiles) > 0 || slices.Contains(p.Imports, "C") {
			packages["cgo"] = append(packages["cgo"], p.ImportPath)
		}
		if len(p.SFiles) > 0 {
			packages["assembly"] = append(packages["assembly"], p.ImportPath)
		}
	}
	var b bytes.Buffer
	section := func(title string, names []string) {
		fmt.Fprintf(&b, "%s\n", title)
		slices.Sort(names)
		for _, name := range names {
			fmt.Fprintf(&b, "\t%s\n", name)
		}
	}
	var names []string
	for name := range modules {
		names = append(names, name)
	}
	if len(names) > 10 {
		t.Errorf("the program is built of %d modules of others, more than 10", len(names))
	}
	section("modules", names)
	for _, what := range []string{"os/exec", "unsafe", "plugin", "cgo", "assembly"} {
		section("packages with "+what, packages[what])
	}
	return b.Bytes()
}

func TestSupplyChainGolden(t *testing.T) {
	t.Parallel()
	compareGolden(t, "testdata/supply-chain.golden", supplyChain(t))
}

func testBillOfMaterials(t *testing.T, p program) {
	out := p.succeeds(t, "", nil, "version", "-sbom")
	if again := p.succeeds(t, "", []string{"LISTEN_ADDR=nonsense"}, "version", "--sbom"); again != out {
		t.Error("the document differs from one time to the next")
	}
	p.fails(t, 2, nil, []string{"version", "-all"}, "-all")
	type component struct {
		Type, Name, Version, PURL string
		Ref                       string `json:"bom-ref"`
		Hashes                    []struct{ Alg, Content string }
		Licenses                  []struct{ License struct{ ID string } }
	}
	var bom struct {
		BOMFormat, SpecVersion string
		Version                int
		Metadata               struct{ Component component }
		Components             []component
		Dependencies           []struct {
			Ref       string
			DependsOn []string
		}
	}
	d := json.NewDecoder(strings.NewReader(out))
	check(t, d.Decode(&bom))
	if main := bom.Metadata.Component; bom.BOMFormat != "CycloneDX" || bom.SpecVersion != "1.6" || bom.Version != 1 || main.Type != "application" || main.Name != "spoolwright" || main.Version != p.version(t) {
		t.Errorf("the document begins with %+v", bom.Metadata)
	}
	refs := map[string]bool{bom.Metadata.Component.Ref: true}
	var names []string
	for _, c := range bom.Components {
		if c.Type != "library" || c.Version == "" || !regexp.MustCompile(`^pkg:(golang|npm)/`+regexp.QuoteMeta(c.Name+"@"+c.Version)+`$`).MatchString(c.PURL) || c.Ref == "" || refs[c.Ref] {
			t.Errorf("component %+v", c)
		}
		if c.Name != "std" && (len(c.Hashes) != 1 || c.Hashes[0].Alg != "SHA-256" || !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(c.Hashes[0].Content)) {
			t.Errorf("component %s has the hashes %v", c.Name, c.Hashes)
		}
		refs[c.Ref] = true
		names = append(names, c.Name)
	}
	for _, d := range bom.Dependencies {
		for _, ref := range append(d.DependsOn, d.Ref) {
			if !refs[ref] {
				t.Errorf("%s is no component", ref)
			}
		}
	}
	// The same modules as in the allow-list, the standard library, and the two bundles that the pages load.
	want := []string{"std", "swagger-ui-dist", "redoc"}
	list := strings.Split(string(supplyChain(t)), "\n")
	for _, line := range list[1:slices.Index(list, "packages with os/exec")] {
		want = append(want, strings.TrimSpace(line))
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("the components are\n%v, want\n%v", names, want)
	}

	url, _ := newDatabase(t, dbtest.Private().OwnerURL)
	c := p.start(t, []string{"DATABASE_URL=" + url, secretEnv})
	for path, name := range map[string]string{"/docs/swagger-ui-bundle.js": "swagger-ui-dist", "/redoc/redoc.standalone.js": "redoc"} {
		r, err := c.client.Get(c.url + path)
		check(t, err)
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		check(t, err)
		listed := bom.Components[slices.IndexFunc(bom.Components, func(c component) bool { return c.Name == name })]
		if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != listed.Hashes[0].Content || !bytes.Contains(body, []byte(listed.Version)) {
			t.Errorf("%s is not the %s %s that is listed", path, name, listed.Version)
		}
	}
	c.stop(t, syscall.SIGTERM)
}

// TestUnit wants the unit to keep the service from whatever it does not need.
func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		skipTest(t, "systemd-analyze is not installed")
	}
	// The threshold is in tenths of the exposure level, 0 to 100.
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=15", "deploy/spoolwright.service").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	dir := tempDir(t)
	b, err := os.ReadFile("deploy/spoolwright.service")
	check(t, err)
	unit := filepath.Join(dir, "spoolwright.service")
	check(t, os.WriteFile(unit, bytes.ReplaceAll(b, []byte("/usr/local/bin/spoolwright"), []byte("/bin/true")), 0o644))
	if out, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput(); err != nil || bytes.Contains(out, []byte("spoolwright.service:")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestContainerRoles checks that the container creates the same roles as docs/database.md.
func TestContainerRoles(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("deploy/roles.sh")
	check(t, err)
	_, script, _ := strings.Cut(string(b), "<<'END'\n")
	script, _, _ = strings.Cut(script, "END\n")
	script = strings.NewReplacer(":'owner'", "'owner-password'", ":'service'", "'service-password'").Replace(script)
	if want := block(t, "sql", "CREATE ROLE farm_owner"); script != want {
		t.Errorf("deploy/roles.sh runs\n%s\nand docs/database.md says\n%s", script, want)
	}
}

func TestCompose(t *testing.T) {
	t.Parallel()
	js := filepath.Join(os.Getenv("CLIENT_TOOLS"), "node_modules", "js-yaml")
	nodeTool(t, "js-yaml")
	out := runIn(t, ".", nil, "node", "-e", `console.log(JSON.stringify(require(process.argv[1]).load(require("fs").readFileSync("deploy/compose.yaml", "utf8"))))`, js)
	var file struct {
		Services map[string]struct {
			Image       string
			Build       struct{ Context, Dockerfile string }
			Environment map[string]string
			Volumes     []string
			ReadOnly    bool           `json:"read_only"`
			DependsOn   map[string]any `json:"depends_on"`
			CapDrop     []string       `json:"cap_drop"`
			Ports       []string
		}
		Volumes map[string]any
	}
	check(t, json.Unmarshal(out, &file))
	service, database := file.Services["spoolwright"], file.Services["db"]
	if len(file.Services) != 2 || service.DependsOn["db"] == nil || !service.ReadOnly || !slices.Contains(service.CapDrop, "ALL") || !strings.HasPrefix(database.Image, "postgres:") {
		t.Errorf("%+v", file.Services)
	}
	for _, port := range service.Ports {
		if !strings.HasPrefix(port, "127.0.0.1:") {
			t.Errorf("the port %s is open to everybody", port)
		}
	}
	if _, err := os.Stat(filepath.Join("deploy", service.Build.Context, service.Build.Dockerfile)); err != nil {
		t.Error(err)
	}
	for _, volume := range database.Volumes {
		source, _, _ := strings.Cut(volume, ":")
		if strings.HasPrefix(source, "./") {
			_, err := os.Stat(filepath.Join("deploy", source))
			check(t, err)
		} else if _, ok := file.Volumes[source]; !ok {
			t.Errorf("there is no volume %s", source)
		}
	}
	// Each variable must be a setting of the program, and the commands in docs/deployment.md must create its value.
	settings := buildProgram(t).settings(t)
	variables := regexp.MustCompile(`\$\{([A-Z_]+)`)
	made := block(t, "sh", "OWNER_PASSWORD SERVICE_PASSWORD")
	for name, value := range service.Environment {
		if !slices.ContainsFunc(settings, func(s setting) bool { return s.name == name }) {
			t.Errorf("%s is no setting", name)
		}
		for _, m := range variables.FindAllStringSubmatch(value, -1) {
			if !strings.Contains(made, m[1]) {
				t.Errorf("docs/deployment.md does not create %s", m[1])
			}
		}
	}
}

// deployFolder returns a folder with the program and a copy of deploy/, in which the commands of docs/deployment.md can run.
func deployFolder(t *testing.T) string {
	t.Helper()
	dir := tempDir(t)
	check(t, os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS("deploy")))
	check(t, os.WriteFile(filepath.Join(dir, "spoolwright"), nil, 0o755))
	return dir
}

// runCommands runs the shell block that contains has in dir, after a prelude that replaces commands.
func runCommands(t *testing.T, dir, has, prelude string) (output string) {
	t.Helper()
	bash := exec.Command("bash", "-euo", "pipefail", "-c", prelude+block(t, "sh", has))
	bash.Dir, bash.Env = dir, append(processEnv(nil), "ROOT="+dir+"/root")
	out, err := bash.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// TestInstallCommands runs the installation commands of docs/deployment.md. Replacements of install and cat redirect them to
// a folder; those of apt-get, systemd-sysusers and systemctl check only their arguments and what was installed before.
func TestInstallCommands(t *testing.T) {
	t.Parallel()
	dir := deployFolder(t)
	out := runCommands(t, dir, "systemctl enable", `
		apt-get() { [ "$*" = "install -y postgresql" ]; }
		install() {
			local words=("$@")
			words[-1]=$ROOT${words[-1]}
			[[ ${words[-1]} != */ ]] || mkdir -p "${words[-1]}"
			[[ " $* " == *" -D "* ]] || mkdir -p "$(dirname "${words[-1]}")"
			command install "${words[@]}"
		}
		systemd-sysusers() { grep -q '^u spoolwright ' "$ROOT/etc/sysusers.d/spoolwright.conf"; }
		systemctl() {
			case $* in
			daemon-reload) [ -f "$ROOT/etc/systemd/system/spoolwright.service" ] ;;
			"enable --now spoolwright") mkdir -p "$ROOT/var/lib/spoolwright"; echo "the first login" >"$ROOT/var/lib/spoolwright/first-login" ;;
			*) return 1 ;;
			esac
		}
		cat() { command cat "$ROOT$1"; }
	`)
	if out != "the first login\n" {
		t.Errorf("the commands print %q", out)
	}
	// The unit refers to the installed files.
	b, err := os.ReadFile("deploy/spoolwright.service")
	check(t, err)
	for directive, mode := range map[string]os.FileMode{"ExecStart=": 0o755, "EnvironmentFile=-": 0o600} {
		_, path, ok := strings.Cut(string(b), "\n"+directive)
		path, _, _ = strings.Cut(path, "\n")
		info, err := os.Stat(filepath.Join(dir, "root", path))
		if !ok || err != nil || info.Mode().Perm() != mode {
			t.Errorf("the unit has %s%s, but the commands install %v %v", directive, path, info, err)
		}
	}
	if !strings.Contains(string(b), "\nStateDirectory=spoolwright\n") {
		t.Error("the unit does not create /var/lib/spoolwright")
	}
}

// TestDockerCommands runs the commands of docs/deployment.md for Docker, with a docker that prints its arguments.
func TestDockerCommands(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		skipTest(t, "openssl is not installed")
	}
	dir := deployFolder(t)
	out := runCommands(t, dir, "docker compose", `docker() { [ -f "$3" ]; printf '%s\n' "${*:4}"; }`+"\n")
	if want := "up --build --detach\nrun --rm spoolwright user add "; !strings.HasPrefix(out, want) {
		t.Errorf("the commands run docker compose with\n%swant\n%s", out, want)
	}
	file := filepath.Join(dir, "deploy", ".env")
	info, err := os.Stat(file)
	check(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("deploy/.env has the mode %v, want 0600", info.Mode())
	}
	made, err := os.ReadFile(file)
	check(t, err)
	compose, err := os.ReadFile("deploy/compose.yaml")
	check(t, err)
	required := regexp.MustCompile(`\$\{([A-Z_]+):\?`).FindAllSubmatch(compose, -1)
	if len(required) == 0 {
		t.Error("deploy/compose.yaml requires no variables")
	}
	for _, m := range required {
		if !regexp.MustCompile(`(?m)^` + string(m[1]) + `=[0-9a-f]{64}$`).Match(made) {
			t.Errorf("deploy/compose.yaml requires %s, but the commands write\n%s", m[1], made)
		}
	}
}

// testNginx runs deploy/nginx.conf in front of two instances. Only addresses and paths are other ones.
func testNginx(t *testing.T, p program) {
	nginx := "/usr/sbin/nginx"
	if _, err := os.Stat(nginx); err != nil {
		if nginx, err = exec.LookPath("nginx"); err != nil {
			skipTest(t, "nginx is not installed")
		}
	}
	url, _ := newDatabase(t, dbtest.Private().OwnerURL)
	env := []string{"DATABASE_URL=" + url, secretEnv, "TRUSTED_PROXIES=127.0.0.1"}
	instances := []*process{p.start(t, env), p.start(t, env)}

	dir := tempDir(t)
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	trusted := writeCertificate(t, 1, certFile, keyFile)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	address := free.Addr().String()
	check(t, free.Close())
	b, err := os.ReadFile("deploy/nginx.conf")
	check(t, err)
	config := string(b)
	for old, new := range map[string]string{
		"listen 443 ssl": "listen " + address + " ssl", "/etc/ssl/farm.example.pem": certFile, "/etc/ssl/farm.example.key": keyFile,
		"127.0.0.1:8001": strings.TrimPrefix(instances[0].url, "http://"), "127.0.0.1:8002": strings.TrimPrefix(instances[1].url, "http://"),
	} {
		if strings.Count(config, old) != 1 {
			t.Fatalf("deploy/nginx.conf has %d times %q", strings.Count(config, old), old)
		}
		config = strings.Replace(config, old, new, 1)
	}
	paths := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		paths += kind + "_temp_path " + filepath.Join(dir, kind) + ";\n"
	}
	user := ""
	if os.Getuid() == 0 {
		user = "user root;\n"
	}
	main := filepath.Join(dir, "nginx.conf")
	check(t, os.WriteFile(main, []byte(user+"daemon off; worker_processes 2; pid "+filepath.Join(dir, "pid")+"; error_log stderr;\nevents {}\nhttp {\naccess_log off;\n"+paths+config+"}\n"), 0o600))
	proxy := program(nginx).launch(t, func(*exec.Cmd) {}, nil, "-p", dir, "-c", main, "-e", "stderr")
	proxy.url = "https://" + address
	roots := x509.NewCertPool()
	roots.AddCert(trusted)
	proxy.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	eventually(t, "nginx answers", func() bool {
		select {
		case <-proxy.exited:
			t.Fatalf("nginx ended: %s", &proxy.stderr)
		default:
		}
		r, err := proxy.client.Get(proxy.url + "/readyz")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == 200
	})

	// served says how many requests each instance has answered for a user.
	servedBy := func(user string) (counts [2]int) {
		for i, c := range instances {
			for line := range strings.Lines(c.stderr.String()) {
				if strings.Contains(line, `route="GET /api/v1/auth/me"`) && strings.Contains(line, "user="+user) {
					counts[i]++
				}
			}
		}
		return counts
	}
	seen := [2]bool{}
	var last string // a token
	var at int      // the instance of its user
	for n := 0; !(seen[0] && seen[1]); n++ {
		if n == 40 {
			t.Fatal("one instance serves all of 40 users")
		}
		email := fmt.Sprintf("user%d@farm.example", n)
		p.succeeds(t, "a password for tests", env, "user", "add", "--tenant", "farm", "--email", email, "--name", "Ada", "--password-stdin")
		status, tokens := proxy.call(t, "", "POST", "/api/v1/auth/login", map[string]string{"email": email, "password": "a password for tests"})
		if status != 200 {
			t.Fatalf("login: %d %v", status, tokens)
		}
		var user string
		for range 3 {
			_, me := proxy.call(t, tokens["access_token"].(string), "GET", "/api/v1/auth/me", nil)
			user = me["id"].(string)
			if status, tokens = proxy.call(t, "", "POST", "/api/v1/auth/refresh", map[string]any{"refresh_token": tokens["refresh_token"]}); status != 200 {
				t.Fatalf("refresh: %d %v", status, tokens)
			}
		}
		last = tokens["access_token"].(string)
		counts := servedBy(user)
		switch counts {
		case [2]int{3, 0}:
			at = 0
		case [2]int{0, 3}:
			at = 1
		default:
			t.Fatalf("of 3 requests of a user the instances have served %v", counts)
		}
		seen[at] = true
	}

	r, err := http.NewRequest("POST", proxy.url+"/api/v1/spools", strings.NewReader(strings.Repeat(" ", 3<<19)))
	check(t, err)
	r.Header = http.Header{"Authorization": {"Bearer " + last}, "Content-Type": {"application/json"}, "X-Forwarded-For": {"192.0.2.1"}, "X-Request-Id": {"a-body-that-is-too-large"}}
	answer, err := proxy.client.Do(r)
	check(t, err)
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	check(t, err)
	if answer.StatusCode != 413 || !strings.Contains(string(body), "PAYLOAD_TOO_LARGE") || answer.Header.Get("Strict-Transport-Security") == "" || answer.Header.Get("X-Request-Id") != "a-body-that-is-too-large" {
		t.Errorf("a body of 1.5 MiB: %d %v %s", answer.StatusCode, answer.Header, body)
	}
	if strings.Contains(instances[at].stderr.String(), "192.0.2.1") {
		t.Error("a client may say what its address is")
	}

	instances[at].stop(t, syscall.SIGTERM)
	if status, _ := proxy.call(t, last, "GET", "/api/v1/auth/me", nil); status != 200 {
		t.Errorf("with one of two instances stopped the answer is %d", status)
	}
	proxy.stop(t, syscall.SIGQUIT)
}
