package blackbox_test

import (
	"bufio"
	"bytes"
	"context"
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

	"github.com/jackc/pgx/v5"

	"spoolwright/db/local"
	"spoolwright/server/docs"
	"spoolwright/tests/testkit"
)

// releaseBuild is the command that builds a release. docs/deployment.md, the Dockerfile and .ci/run must use the
// same.
const releaseBuild = `CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags=nopgxregisterdefaulttypes ` +
	`-ldflags='-s -w' -o spoolwright .`

func TestReleaseBuildIsDocumented(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"docs/deployment.md", ".ci/run", "deploy/Dockerfile"} {
		b, err := os.ReadFile(path)
		check(t, err)
		testkit.Contains(t, string(b), strings.Replace(releaseBuild, " -o spoolwright .", "", 1),
			"%s does not build with %s", path, releaseBuild)
	}
}

// buildRelease builds the program with releaseBuild.
func buildRelease(t *testing.T) program {
	t.Helper()
	p := filepath.Join(tempDir(t), "spoolwright")
	c := exec.Command("bash", "-c", strings.Replace(releaseBuild, "-o spoolwright", "-o '"+p+"'", 1))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", releaseBuild, err, out)
	}
	return program(p)
}

// TestRelease builds a release and checks its size, that it contains no path of the build machine, that it runs in an
// empty root directory, and its bill of materials. The build compiles all packages once more.
func TestRelease(t *testing.T) {
	t.Parallel()
	t.Run("BillOfMaterials", func(t *testing.T) { testBillOfMaterials(t, buildProgram(t)) })
	testkit.Rig(t)
	p := buildRelease(t)
	info, err := os.Stat(string(p))
	check(t, err)
	if info.Size() >= 27_000_000 {
		t.Errorf("the release has %d bytes, want less than 27 MB", info.Size())
	}
	b, err := os.ReadFile(string(p))
	check(t, err)
	if dir, err := os.Getwd(); err != nil || bytes.Contains(b, []byte(dir+"/")) {
		t.Errorf("the release contains the path %s, %v", dir, err)
	}
	t.Run("EmptyRoot", func(t *testing.T) { testEmptyRoot(t, p) })
	t.Run("ItsBillOfMaterials", func(t *testing.T) { testBillOfMaterials(t, p) })
}

// testEmptyRoot runs the release, unprivileged, in a root directory that contains no other file, as in a container
// image built from scratch.
func testEmptyRoot(t *testing.T, p program) {
	if os.Getuid() != 0 {
		skipTest(t, "only root can change the root directory of a process")
	}
	root := tempDir(t)
	b, err := os.ReadFile(string(p))
	check(t, err)
	check(t, os.WriteFile(filepath.Join(root, "spoolwright"), b, 0o755))
	url := ownerURL(testkit.NewDatabase(t))
	// The process cannot reach the socket of PostgreSQL, so a proxy forwards a port to it.
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer proxy.Close()
	socket := regexp.MustCompile(`host=([^&]+)`).FindStringSubmatch(url)
	if socket == nil {
		t.Fatalf("%s has no socket directory", url)
	}
	go forwardToSocket(proxy, strings.ReplaceAll(socket[1], "%2F", "/")+"/.s.PGSQL.5432")
	host, port, _ := net.SplitHostPort(proxy.Addr().String())
	url = strings.Replace(strings.Replace(url, socket[0], "host="+host, 1), "port=5432", "port="+port, 1)

	c := program("/spoolwright").startAs(t, func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}, []string{"DATABASE_URL=" + url, secretEnv})
	for _, path := range []string{
		"/docs", "/redoc", "/openapi.json", "/docs/swagger-ui-bundle.js", "/redoc/redoc.standalone.js",
	} {
		r, err := c.client.Get(c.url + path)
		check(t, err)
		r.Body.Close()
		testkit.Equal(t, r.StatusCode, 200, "GET %s", path)
	}
	c.stop(t, syscall.SIGTERM)
	files, err := os.ReadDir(root)
	check(t, err)
	testkit.Equal(t, len(files), 1, "the root directory contains %v, want only the program", files)
}

// forwardToSocket accepts connections until the listener closes, and connects each to the Unix socket.
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

// listSupplyChain lists the modules in the release, and the packages in them that import os/exec, unsafe or plugin,
// or use cgo or assembly.
func listSupplyChain(t *testing.T) []byte {
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
		t.Errorf("the program has %d third-party modules, want at most 10", len(names))
	}
	section("modules", names)
	for _, what := range []string{"os/exec", "unsafe", "plugin", "cgo", "assembly"} {
		section("packages with "+what, packages[what])
	}
	return b.Bytes()
}

func TestSupplyChainGolden(t *testing.T) {
	t.Parallel()
	compareGolden(t, "testdata/supply-chain.golden", listSupplyChain(t))
}

// testBillOfMaterials compares the output of version -sbom with the modules of the build and the JavaScript that the
// service serves.
func testBillOfMaterials(t *testing.T, p program) {
	out := p.succeeds(t, "", nil, "version", "-sbom")
	testkit.Equal(t, p.succeeds(t, "", []string{"LISTEN_ADDR=nonsense"}, "version", "--sbom"), out,
		"the outputs of two calls differ")
	p.fails(t, 2, nil, []string{"version", "-all"}, "-all")
	type component struct {
		Type, Name, Version, PURL string
		Ref                       string `json:"bom-ref"`
		Hashes                    []struct{ Alg, Content string }
		Licenses                  []struct {
			License    struct{ ID string }
			Expression string
		}
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
	if bom.BOMFormat != "CycloneDX" || bom.SpecVersion != "1.6" || bom.Version != 1 {
		t.Errorf("the format is %s %s, version %d", bom.BOMFormat, bom.SpecVersion, bom.Version)
	}
	main := bom.Metadata.Component
	if main.Type != "application" || main.Name != "spoolwright" || main.Version != p.version(t) {
		t.Errorf("the main component is %+v", main)
	}
	hash := regexp.MustCompile(`^[0-9a-f]{64}$`)
	refs := map[string]bool{bom.Metadata.Component.Ref: true}
	var names []string
	for _, c := range bom.Components {
		purl := regexp.MustCompile(`^pkg:(golang|npm)/` + regexp.QuoteMeta(c.Name+"@"+c.Version) + `$`)
		if c.Type != "library" || c.Version == "" || !purl.MatchString(c.PURL) || c.Ref == "" || refs[c.Ref] {
			t.Errorf("component %+v is incomplete or occurs twice", c)
		}
		sha256 := len(c.Hashes) == 1 && c.Hashes[0].Alg == "SHA-256" && hash.MatchString(c.Hashes[0].Content)
		if c.Name != "std" && !sha256 && !strings.HasPrefix(c.PURL, "pkg:npm/") {
			t.Errorf("component %s has the hashes %v, want one SHA-256", c.Name, c.Hashes)
		}
		refs[c.Ref] = true
		names = append(names, c.Name)
	}
	var direct []string
	for _, d := range bom.Dependencies {
		if d.Ref == main.Ref {
			direct = d.DependsOn
		}
		for _, ref := range append(d.DependsOn, d.Ref) {
			if !refs[ref] {
				t.Errorf("the dependencies contain %s, which is not a component", ref)
			}
		}
	}
	// The direct dependencies are the standard library, those of go.mod, and the bundles.
	required, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f",
		"{{if not (or .Main .Indirect)}}pkg:golang/{{.Path}}@{{.Version}}{{end}}", "all").Output()
	check(t, err)
	want := strings.Fields(string(required))
	for _, b := range docs.Bundles {
		want = append(want, "pkg:npm/"+b.Name+"@"+b.Version)
	}
	if len(direct) < 1 || !slices.Equal(direct[1:], want) {
		t.Errorf("the direct dependencies are %v, want std and %v", direct, want)
	}
	// The components are the modules in testdata/supply-chain.golden, the standard library, two JavaScript bundles and
	// the packages inside them.
	want = []string{"std", "swagger-ui-dist", "redoc"}
	bundled := map[string]bool{}
	for _, bundle := range docs.Bundles {
		for _, p := range bundle.Contains {
			if !bundled[p.Name+p.Version] {
				want = append(want, p.Name)
			}
			bundled[p.Name+p.Version] = true
			testkit.Contains(t, string(bundle.Body()), p.Text,
				"%s does not contain %q: which version of %s does it have?", bundle.Name, p.Text, p.Name)
		}
	}
	list := strings.Split(string(listSupplyChain(t)), "\n")
	for _, line := range list[1:slices.Index(list, "packages with os/exec")] {
		want = append(want, strings.TrimSpace(line))
	}
	slices.Sort(names)
	slices.Sort(want)
	testkit.EqualSlices(t, names, want, "the components")

	url := ownerURL(testkit.NewDatabase(t))
	c := p.start(t, []string{"DATABASE_URL=" + url, secretEnv})
	for path, name := range map[string]string{
		"/docs/swagger-ui-bundle.js": "swagger-ui-dist", "/redoc/redoc.standalone.js": "redoc",
	} {
		r, err := c.client.Get(c.url + path)
		check(t, err)
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		check(t, err)
		listed := bom.Components[slices.IndexFunc(bom.Components, func(c component) bool { return c.Name == name })]
		sum := sha256.Sum256(body)
		sameHash := hex.EncodeToString(sum[:]) == listed.Hashes[0].Content
		if !sameHash || !bytes.Contains(body, []byte(listed.Version)) {
			t.Errorf("%s is not %s %s, the listed component", path, name, listed.Version)
		}
	}
	c.stop(t, syscall.SIGTERM)
}

// TestSystemdUnit checks that systemd accepts the units in deploy, and that their exposure level is at most 1.5 of 10.
func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	needTools(t, "systemd-analyze")
	dir := tempDir(t)
	for _, name := range []string{"spoolwright.service", "spoolwright-watch.service"} {
		// The threshold is in tenths of the exposure level, 0 to 100.
		security := []string{"security", "--offline=true", "--threshold=15", "deploy/" + name}
		out, err := exec.Command("systemd-analyze", security...).CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		if !regexp.MustCompile(`(?m)^✓ NoNewPrivileges=`).Match(out) {
			t.Errorf("%s may gain privileges:\n%s", name, out)
		}
		b, err := os.ReadFile("deploy/" + name)
		check(t, err)
		// Otherwise systemd would send SIGTERM also to the private PostgreSQL, which would end the requests in progress.
		if name == "spoolwright.service" && !bytes.Contains(b, []byte("\nKillMode=mixed\n")) {
			t.Error("the unit stops PostgreSQL together with the service")
		}
		unit := filepath.Join(dir, name)
		check(t, os.WriteFile(unit, bytes.ReplaceAll(b, []byte("/usr/local/bin/spoolwright"), []byte("/bin/true")), 0o644))
		out, err = exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
		if err != nil || bytes.Contains(out, []byte(name+":")) {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// TestDockerfile checks that the program in the image runs without privileges, as a numeric user, so that Kubernetes
// can see that it is not root.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("deploy/Dockerfile")
	check(t, err)
	stages := strings.Split(string(b), "\nFROM ")
	if !regexp.MustCompile(`(?m)^USER [1-9]\d*:[1-9]\d*$`).MatchString(stages[len(stages)-1]) {
		t.Error("the image has no USER other than root")
	}
}

// TestContainerRoles checks that the container creates the same roles as docs/database.md, and that no argument of a
// command contains a password.
func TestContainerRoles(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("deploy/roles.sh")
	check(t, err)
	_, script, _ := strings.Cut(string(b), "<<'END'\n")
	script, _, _ = strings.Cut(script, "END\n")
	script = regexp.MustCompile(`(?m)^\\getenv .*\n`).ReplaceAllString(script, "")
	script = strings.NewReplacer(":'owner'", "'owner-password'", ":'service'", "'service-password'").Replace(script)
	if want := block(t, "sql", "CREATE ROLE farm_owner"); script != want {
		t.Errorf("deploy/roles.sh runs\n%s\nand docs/database.md says\n%s", script, want)
	}

	psql := needTools(t, "psql")[0]
	s, err := local.Start(t.Context(), local.Options{Dir: tempDir(t), Throwaway: true})
	check(t, err)
	t.Cleanup(func() { check(t, s.Stop(context.Background())) })
	testkit.ExecURL(t, s.SuperURL(), "drop role spoolwright_app")
	config, err := pgx.ParseConfig(s.SuperURL())
	check(t, err)
	dir := t.TempDir()
	wrapper := "#!/bin/sh\nprintf '%s\\n' \"$@\" >" + dir + "/arguments\nexec " + psql + " \"$@\"\n"
	check(t, os.WriteFile(filepath.Join(dir, "psql"), []byte(wrapper), 0o755))
	c := exec.Command("sh", "deploy/roles.sh")
	c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "PGHOST="+config.Host, "PGPASSWORD="+
		config.Password,
		"OWNER_PASSWORD=the owner's", "SERVICE_PASSWORD=the service's")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	arguments, err := os.ReadFile(filepath.Join(dir, "arguments"))
	if err != nil || bytes.Contains(arguments, []byte("the ")) {
		t.Errorf("the arguments of psql are %q, %v", arguments, err)
	}
	for login, password := range map[string]string{"farm_owner": "the owner's", "farm_service": "the service's"} {
		config.User, config.Password, config.Database = login, password, "farm"
		conn, err := pgx.ConnectConfig(t.Context(), config)
		check(t, err)
		conn.Close(t.Context())
	}
}

// TestComposeFile checks deploy/compose.yaml: confinement, published ports, files, volumes, and that
// docs/deployment.md creates every variable.
func TestComposeFile(t *testing.T) {
	t.Parallel()
	js := filepath.Join(os.Getenv("CLIENT_TOOLS"), "node_modules", "js-yaml")
	nodeTool(t, "js-yaml")
	const yamlToJSON = `
		const text = require("fs").readFileSync("deploy/compose.yaml", "utf8");
		console.log(JSON.stringify(require(process.argv[1]).load(text)))`
	out := runIn(t, ".", nil, "node", "-e", yamlToJSON, js)
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
	if len(file.Services) != 2 || service.DependsOn["db"] == nil || !strings.HasPrefix(database.Image, "postgres:") {
		t.Errorf("the services are %+v, want spoolwright that depends on db, a postgres image", file.Services)
	}
	if !service.ReadOnly || !slices.Contains(service.CapDrop, "ALL") {
		t.Errorf("the service spoolwright is not read-only or keeps capabilities: %+v", service)
	}
	for _, port := range service.Ports {
		if !strings.HasPrefix(port, "127.0.0.1:") {
			t.Errorf("port %s is not bound to 127.0.0.1", port)
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
			t.Errorf("the volume %s is not declared", source)
		}
	}
	// Each variable must be a setting of the program or of the Go runtime, and the commands in docs/deployment.md must
	// create its value unless there is a default.
	settings := buildProgram(t).settings(t)
	variables := regexp.MustCompile(`\$\{([A-Z_]+)(?:\}|:\?)`)
	made := block(t, "sh", "OWNER_PASSWORD SERVICE_PASSWORD")
	// Of the image, whose files are read-only, and which has a database.
	notPassed := []string{"LISTEN_ADDR", "DATA_DIR", "POSTGRES_INSTALL", "TLS_SELF_SIGNED"}
	for _, s := range settings {
		if _, ok := service.Environment[s.name]; ok == slices.Contains(notPassed, s.name) {
			t.Errorf("deploy/compose.yaml passes %s: %v", s.name, ok)
		}
	}
	for name, value := range service.Environment {
		if !strings.Contains(value, "${") && name != "GOMEMLIMIT" {
			t.Errorf("%s does not come from .env", name)
		}
		known := slices.ContainsFunc(settings, func(s setting) bool { return s.name == name })
		if !known && name != "GOMEMLIMIT" {
			t.Errorf("%s is not a setting of the program", name)
		}
		for _, m := range variables.FindAllStringSubmatch(value, -1) {
			if !strings.Contains(made, m[1]) {
				t.Errorf("docs/deployment.md does not create %s", m[1])
			}
		}
	}
}

// newDeployDir returns a directory with the program and a copy of deploy/, in which the commands of
// docs/deployment.md can run.
func newDeployDir(t *testing.T) string {
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

// TestInstallCommands runs the installation commands of docs/deployment.md. Replacements of install and cat redirect
// them to a directory; those of apt-get, systemd-sysusers and systemctl check only their arguments and what was
// installed before.
func TestInstallCommands(t *testing.T) {
	t.Parallel()
	dir := newDeployDir(t)
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
			"enable --now spoolwright")
				mkdir -p "$ROOT/var/lib/spoolwright"
				echo "the first login" >"$ROOT/var/lib/spoolwright/first-login"
				;;
			*) return 1 ;;
			esac
		}
		cat() { command cat "$ROOT$1"; }
	`)
	testkit.Equal(t, out, "the first login\n", "the commands print")
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
	testkit.Contains(t, string(b), "\nStateDirectory=spoolwright\n", "the unit does not create /var/lib/spoolwright")
}

// TestDockerCommands runs the commands of docs/deployment.md for Docker, with a docker that prints its arguments.
func TestDockerCommands(t *testing.T) {
	t.Parallel()
	needTools(t, "openssl")
	dir := newDeployDir(t)
	out := runCommands(t, dir, "docker compose", `docker() { [ -f "$3" ]; printf '%s\n' "${*:4}"; }`+"\n")
	if want := "up --build --detach\nrun --rm spoolwright user add "; !strings.HasPrefix(out, want) {
		t.Errorf("the commands run docker compose with\n%swant\n%s", out, want)
	}
	file := filepath.Join(dir, "deploy", ".env")
	info, err := os.Stat(file)
	check(t, err)
	testkit.Equal(t, info.Mode().Perm(), 0o600, "deploy/.env has the mode %v, want 0600", info.Mode())
	variables, err := os.ReadFile(file)
	check(t, err)
	compose, err := os.ReadFile("deploy/compose.yaml")
	check(t, err)
	required := regexp.MustCompile(`\$\{([A-Z_]+):\?`).FindAllSubmatch(compose, -1)
	if len(required) == 0 {
		t.Error("deploy/compose.yaml requires no variables")
	}
	for _, m := range required {
		if !regexp.MustCompile(`(?m)^` + string(m[1]) + `=[0-9a-f]{64}$`).Match(variables) {
			t.Errorf("deploy/compose.yaml requires %s, but the commands write\n%s", m[1], variables)
		}
	}
}

// testNginx runs nginx with deploy/nginx.conf, with other addresses and paths, in front of two instances. Requests of
// a user must go to one instance, and to the other when that instance has stopped.
func testNginx(t *testing.T, p program) {
	testkit.Rig(t)
	nginx := needTools(t, "nginx")[0]
	url := ownerURL(testkit.NewDatabase(t))
	env := []string{"DATABASE_URL=" + url, secretEnv, "TRUSTED_PROXIES=127.0.0.1"}
	instances := []*process{p.start(t, env), p.start(t, env)}

	dir := tempDir(t)
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	trusted := writeCertificate(t, 1, certFile, keyFile)
	address := freeAddress(t)
	b, err := os.ReadFile("deploy/nginx.conf")
	check(t, err)
	config := string(b)
	for old, new := range map[string]string{
		"listen 443 ssl":            "listen " + address + " ssl",
		"/etc/ssl/farm.example.pem": certFile,
		"/etc/ssl/farm.example.key": keyFile,
		" 127.0.0.1:8000":           " " + strings.TrimPrefix(instances[0].url, "http://"),
		"#server 127.0.0.1:8001":    "server " + strings.TrimPrefix(instances[1].url, "http://"),
	} {
		if n := strings.Count(config, old); n != 1 {
			t.Fatalf("deploy/nginx.conf contains %q %d times, want once", old, n)
		}
		config = strings.Replace(config, old, new, 1)
	}
	global := "daemon off; worker_processes 2; pid " + filepath.Join(dir, "pid") + "; error_log stderr;\nevents {}\n"
	if os.Getuid() == 0 {
		global = "user root;\n" + global
	}
	paths := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		paths += kind + "_temp_path " + filepath.Join(dir, kind) + ";\n"
	}
	main := filepath.Join(dir, "nginx.conf")
	check(t, os.WriteFile(main, []byte(global+"http {\naccess_log off;\n"+paths+config+"}\n"), 0o600))
	proxy := program(nginx).launch(t, func(*exec.Cmd) {}, nil, "-p", dir, "-c", main, "-e", "stderr")
	proxy.url = "https://" + address
	roots := x509.NewCertPool()
	roots.AddCert(trusted)
	proxy.client = &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true},
	}
	eventually(t, "nginx is ready", func() bool {
		select {
		case <-proxy.exited:
			t.Fatalf("nginx exited: %s", &proxy.stderr)
		default:
		}
		r, err := proxy.client.Get(proxy.url + "/readyz")
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == 200
	})

	// served returns how many requests of a user each instance has logged.
	served := func(user string) (counts [2]int) {
		for i, c := range instances {
			for line := range strings.Lines(c.stderr.String()) {
				if strings.Contains(line, `route="GET /api/v1/auth/me"`) && strings.Contains(line, "user="+user) {
					counts[i]++
				}
			}
		}
		return counts
	}
	// Add users until each instance has one.
	seen := [2]bool{}
	var token string // of the last user
	var at int       // the instance of the last user
	for n := 0; !(seen[0] && seen[1]); n++ {
		if n == 40 {
			t.Fatal("one instance serves all of 40 users")
		}
		email := fmt.Sprintf("user%d@farm.example", n)
		p.addUser(t, env, "farm", email, "operator")
		tokens := proxy.tokens(t, email, testPassword)
		var user string
		for range 3 { // each time with another access token
			me := proxy.get(t, tokens["access_token"].(string), "/api/v1/auth/me")
			user = me["id"].(string)
			refresh := map[string]any{"refresh_token": tokens["refresh_token"]}
			tokens = proxy.create(t, "", "/api/v1/auth/refresh", refresh)
		}
		token = tokens["access_token"].(string)
		var counts [2]int
		eventually(t, "the instances have logged the requests", func() bool { // they collect lines for 100 ms
			counts = served(user)
			return counts[0]+counts[1] == 3
		})
		switch counts {
		case [2]int{3, 0}:
			at = 0
		case [2]int{0, 3}:
			at = 1
		default:
			t.Fatalf("the instances served %v of a user's 3 requests, want all by one", counts)
		}
		seen[at] = true
	}

	// Requests with one API key go to one instance, and those with different keys to different instances.
	for name, header := range map[string]func(n int) (name, value string){
		"key":   func(n int) (string, string) { return "X-API-Key", fmt.Sprintf("swk_%036d", n) },
		"basic": func(n int) (string, string) { return "Authorization", fmt.Sprintf("Basic eDpzd2tf%010d+/A=", n) },
	} {
		requestID := func(n int) string { return fmt.Sprintf("%s-%d.", name, n) }
		for n := range 3 * 20 {
			with := http.Header{"X-Request-Id": {requestID(n / 3)}}
			with.Set(header(n / 3))
			proxy.must(t, "GET", "/api/v1/spools", with, nil)
		}
		eventually(t, "all requests are logged", func() bool {
			return strings.Count(instances[0].stderr.String()+instances[1].stderr.String(), "request_id="+name) == 3*20
		})
		var keys [2]int // of each instance
		for n := range 20 {
			for i, c := range instances {
				switch strings.Count(c.stderr.String(), "request_id="+requestID(n)) {
				case 0:
				case 3:
					keys[i]++
				default:
					t.Errorf("%s: instance %d served some of the requests of a key", name, i)
				}
			}
		}
		if keys[0] == 0 || keys[1] == 0 || keys[0]+keys[1] != 20 {
			t.Errorf("%s: the instances served %v of 20 keys", name, keys)
		}
	}

	const requestID = "a-body-that-is-too-large"
	a := proxy.must(t, "POST", "/api/v1/spools", http.Header{
		"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"},
		"X-Forwarded-For": {"192.0.2.1"}, "X-Request-Id": {requestID},
	}, bytes.Repeat([]byte(" "), 3<<19))
	if a.status != 413 || !bytes.Contains(a.body, []byte("PAYLOAD_TOO_LARGE")) {
		t.Errorf("a body of 1.5 MiB: %d %s", a.status, a.body)
	}
	if h := a.header; h.Get("Strict-Transport-Security") == "" || h.Get("X-Request-Id") != requestID {
		t.Errorf("the response has the headers %v, want Strict-Transport-Security and the X-Request-Id of the request",
			h)
	}
	eventually(t, "the request is logged", func() bool {
		return strings.Contains(instances[at].stderr.String(), requestID)
	})
	testkit.Lacks(t, instances[at].stderr.String(), "192.0.2.1",
		"the service uses the X-Forwarded-For of the client, not that of nginx")

	instances[at].stop(t, syscall.SIGTERM)
	if status, _ := proxy.call(t, token, "GET", "/api/v1/auth/me", nil); status != 200 {
		t.Errorf("with one of two instances stopped: %d, want 200", status)
	}
	instances[1-at].stop(t, syscall.SIGTERM)

	// The errors of nginx itself are JSON for the API.
	for path, want := range map[string]bool{"/api/v1/auth/me": true, "/": false} {
		r, err := proxy.client.Get(proxy.url + path)
		check(t, err)
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		check(t, err)
		isJSON := strings.Contains(string(body), `"code": "UNAVAILABLE"`) && json.Valid(body) &&
			r.Header.Get("Content-Type") == "application/json" && r.Header.Get("Strict-Transport-Security") != ""
		if r.StatusCode != 502 || isJSON != want {
			t.Errorf("%s without an instance: %d %v\n%s", path, r.StatusCode, r.Header, body)
		}
	}
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"})
	check(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /api/v1/spools HTTP/1.1\r\nHost: farm.example\r\nContent-Length: 2000000000\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check(t, err)
	body, err := io.ReadAll(response.Body)
	check(t, err)
	if response.StatusCode != 413 || !json.Valid(body) || !strings.Contains(string(body), "PAYLOAD_TOO_LARGE") {
		t.Errorf("a body of 2 GB: %d %s", response.StatusCode, body)
	}
	proxy.stop(t, syscall.SIGQUIT)
}
