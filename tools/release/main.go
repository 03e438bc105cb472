// Release writes all files of a release into a folder: archives with the program, Debian and RPM packages, a container
// image, the client libraries, the software bill of materials, and SHA256SUMS.
//
//	go run ./tools/release [-commit HASH] [-time SECONDS] [-certificates FILE] FOLDER
//
// The folder must not exist. Two runs on the same source with the same tools write the same bytes: all times in the
// files are the time of the commit. Release needs npm, tsc (in CLIENT_TOOLS, see .ci/run, or PATH) and Python with
// flit_core (in PYTHON_CLIENTS or PATH). It needs no network if the Go modules are in the module cache.
package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"spoolwright/cli"
)

// nfpm makes the Debian and RPM packages. go.mod does not require it.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0"

// target is a platform of the program. The field pkg is nfpm's name of the architecture; if it is empty, no packages
// are made.
type target struct{ os, arch, arm, pkg string }

var targets = []target{
	{"linux", "amd64", "", "amd64"}, {"linux", "arm64", "", "arm64"}, {"linux", "arm", "6", "arm6"},
	{"darwin", "arm64", "", ""}, {"freebsd", "amd64", "", ""},
}

func (t target) String() string {
	name := t.os + "-" + t.arch
	if t.arm != "" {
		name += "v" + t.arm
	}
	return name
}

// documents are files and folders of the source that are in archives and packages.
var documents = []string{"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "docs", "deploy"}

type release struct {
	out, work    string
	commit       string
	time         time.Time
	certificates string // file with the certificate authorities of the image
}

func main() {
	r := release{}
	flag.StringVar(&r.commit, "commit", "", "the Git `hash` of the source; by default that of the checkout")
	seconds := flag.String("time", "", "the time of all files, in `seconds` since 1970; by default that of the commit")
	flag.StringVar(&r.certificates, "certificates", "/etc/ssl/certs/ca-certificates.crt",
		"the `file` with the certificate authorities that the image trusts")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: go run ./tools/release [options] FOLDER")
		flag.PrintDefaults()
		os.Exit(2)
	}
	err := r.missing()
	if err == nil {
		err = r.prepare(flag.Arg(0), *seconds)
	}
	if err == nil {
		defer os.RemoveAll(r.work)
		err = r.make()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.RemoveAll(r.work)
		os.Exit(1)
	}
}

// missing returns an error that names what the release needs and this machine lacks, and how to get it. The build takes
// minutes, and the clients come last.
func (r *release) missing() error {
	needs := []struct {
		what, how string
		command   []string
	}{
		{"Python with flit_core", "python3 -m pip install 'flit_core>=3.11,<4', or set PYTHON_CLIENTS to a virtual " +
			"environment that has it", []string{tool("PYTHON_CLIENTS", "bin", "python3"), "-c", "import flit_core"}},
		{"tsc", "npm install -g typescript, or set CLIENT_TOOLS to a folder with the npm package typescript",
			[]string{tool("CLIENT_TOOLS", "node_modules/.bin", "tsc"), "--version"}},
		{"npm", "install Node.js", []string{"npm", "--version"}},
	}
	var errs []error
	for _, n := range needs {
		if exec.Command(n.command[0], n.command[1:]...).Run() != nil {
			errs = append(errs, fmt.Errorf("%s is missing: %s", n.what, n.how))
		}
	}
	if _, err := os.Stat(r.certificates); err != nil {
		errs = append(errs, fmt.Errorf("the certificate authorities are missing: %w; use -certificates", err))
	}
	return errors.Join(errs...)
}

// prepare finds the commit and its time, and creates the folders.
func (r *release) prepare(out, seconds string) (err error) {
	git := func(format string) string {
		b, _ := exec.Command("git", "log", "-1", "--format="+format).Output()
		return strings.TrimSpace(string(b))
	}
	r.commit = cmp.Or(r.commit, git("%H"))
	unix, err := strconv.ParseInt(cmp.Or(seconds, git("%ct")), 10, 64)
	if err != nil || r.commit == "" {
		return fmt.Errorf("this is no checkout of Git: use -commit and -time")
	}
	r.time = time.Unix(unix, 0).UTC()
	if r.out, err = filepath.Abs(out); err != nil {
		return err
	}
	if err := os.Mkdir(r.out, 0o755); err != nil {
		return err
	}
	r.work, err = os.MkdirTemp("", "spoolwright-release-")
	return err
}

// make writes all files.
func (r *release) make() error {
	notices, err := thirdParty()
	if err != nil {
		return err
	}
	docs := []file{{"THIRD-PARTY.txt", notices, 0o644}}
	for _, root := range documents {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() == ".env" {
				return err
			}
			b, err := os.ReadFile(path)
			docs = append(docs, file{path, b, 0o644})
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := r.run(nil, "", "go", "install", nfpm); err != nil {
		return err
	}
	var images []image
	for _, t := range targets {
		program, err := r.build(t)
		if err != nil {
			return err
		}
		name := "spoolwright-" + cli.Version + "-" + t.String()
		files := []file{{name + "/spoolwright", program, 0o755}}
		for _, f := range docs {
			files = append(files, file{name + "/" + f.name, f.body, f.mode})
		}
		if err := r.write(name+".tar.gz", compress(tarball(files, r.time))); err != nil {
			return err
		}
		if t.pkg != "" {
			if err := r.packages(t, program, docs); err != nil {
				return err
			}
			images = append(images, image{t, program})
		}
	}
	certificates, err := os.ReadFile(r.certificates)
	if err != nil {
		return err
	}
	if err := r.write("spoolwright-"+cli.Version+"-oci.tar", layout(images, certificates, r.time)); err != nil {
		return err
	}
	if err := r.bills(); err != nil {
		return err
	}
	if err := r.python(); err != nil {
		return err
	}
	if err := r.npm(); err != nil {
		return err
	}
	return r.sums()
}

func (r *release) write(name string, body []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), body, 0o644)
}

// run runs a command. If the command fails, the error contains its output.
func (r *release) run(env []string, dir string, command ...string) error {
	c := exec.Command(command[0], command[1:]...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOBIN="+r.work, "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.time.Unix(), 10))
	c.Env = append(c.Env, env...)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, out)
	}
	return nil
}

// build builds the program as docs/deployment.md says, with the commit.
func (r *release) build(t target) ([]byte, error) {
	path := r.program(t)
	err := r.run([]string{"CGO_ENABLED=0", "GOFLAGS=", "GOOS=" + t.os, "GOARCH=" + t.arch, "GOARM=" + t.arm}, "",
		"go", "build", "-trimpath", "-buildvcs=false", "-tags=nopgxregisterdefaulttypes",
		"-ldflags=-s -w -X spoolwright/cli.commit="+r.commit, "-o", path, ".")
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func (r *release) program(t target) string { return filepath.Join(r.work, "spoolwright-"+t.String()) }

// packages makes the Debian and the RPM package of a target from deploy/nfpm.yaml.
func (r *release) packages(t target, program []byte, docs []file) error {
	stage := filepath.Join(r.work, "stage-"+t.String())
	files := []file{{"spoolwright", program, 0o755}}
	for _, name := range []string{"spoolwright.service", "spoolwright-watch.service"} {
		unit, err := os.ReadFile("deploy/" + name)
		if err != nil {
			return err
		}
		unit = bytes.ReplaceAll(unit, []byte("/usr/local/bin/"), []byte("/usr/bin/"))
		unit = bytes.Replace(unit, []byte("# /etc/systemd/system/"), []byte("# /usr/lib/systemd/system/"), 1)
		files = append(files, file{name, unit, 0o644})
	}
	for _, f := range docs {
		files = append(files, file{"doc/" + f.name, f.body, f.mode})
	}
	for _, f := range files {
		path := filepath.Join(stage, f.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.body, f.mode); err != nil {
			return err
		}
	}
	for _, format := range []string{"deb", "rpm"} {
		err := r.run([]string{"ARCH=" + t.pkg, "VERSION=" + cli.Version, "STAGE=" + stage}, "",
			filepath.Join(r.work, "nfpm"), "package", "-f", "deploy/nfpm.yaml", "-p", format, "-t", r.out)
		if err != nil {
			return err
		}
	}
	return nil
}

// bills writes the software bill of materials of the first target as CycloneDX and SPDX. The bills of the other
// targets would differ only in the platform.
func (r *release) bills() error {
	info, err := buildinfo.ReadFile(r.program(targets[0]))
	if err != nil {
		return err
	}
	bill := cli.BillOfMaterials(info)
	if err := r.write("spoolwright-"+cli.Version+".cdx.json", bill); err != nil {
		return err
	}
	spdx, err := toSPDX(bill, r.time)
	if err != nil {
		return err
	}
	return r.write("spoolwright-"+cli.Version+".spdx.json", spdx)
}

// thirdParty returns the licenses of Go, of the modules in the program, and of the bundles in the documentation pages.
func thirdParty() ([]byte, error) {
	var out bytes.Buffer
	add := func(name, path string) error {
		b, err := os.ReadFile(path)
		fmt.Fprintf(&out, "%s\n%s\n\n%s\n\n", name, strings.Repeat("=", len(name)), bytes.TrimSpace(b))
		return err
	}
	list, err := exec.Command("go", "list", "-deps", "-f",
		"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}", ".").Output()
	if err != nil {
		return nil, err
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	if err := add("The Go programming language", filepath.Join(strings.TrimSpace(string(root)), "LICENSE")); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		module := strings.Fields(line)
		if len(module) != 3 || seen[module[0]] {
			continue
		}
		seen[module[0]] = true
		licenses, err := filepath.Glob(filepath.Join(module[2], "LICENSE*"))
		if err != nil {
			return nil, err
		}
		if len(licenses) != 1 {
			return nil, fmt.Errorf("%s has the licenses %q, want one", module[0], licenses)
		}
		if err := add(module[0]+" "+module[1], licenses[0]); err != nil {
			return nil, err
		}
	}
	bundles, err := filepath.Glob("server/docs/bundles/*.[LN]*")
	if err != nil {
		return nil, err
	}
	for _, path := range bundles {
		if err := add(filepath.Base(path), path); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// python writes the wheel and the source distribution of sdk/python.
func (r *release) python() error {
	dir, err := r.copySDK("python")
	if err != nil {
		return err
	}
	const build = "import sys; from flit_core import buildapi as b; " +
		"b.build_wheel(sys.argv[1]); b.build_sdist(sys.argv[1])"
	return r.run(nil, dir, tool("PYTHON_CLIENTS", "bin", "python3"), "-c", build, r.out)
}

// npm writes the tarball of sdk/typescript.
func (r *release) npm() error {
	dir, err := r.copySDK("typescript")
	if err != nil {
		return err
	}
	if err := r.run(nil, dir, tool("CLIENT_TOOLS", "node_modules/.bin", "tsc"), "-p", "."); err != nil {
		return err
	}
	return r.run(nil, dir, "npm", "pack", "--silent", "--offline", "--ignore-scripts", "--pack-destination", r.out)
}

// copySDK copies a client library into the working folder. It first checks that the library has the version of the
// release.
func (r *release) copySDK(name string) (dir string, err error) {
	versions := map[string]string{
		"python":     "spoolwright/_api.py",
		"typescript": "package.json",
	}
	b, err := os.ReadFile(filepath.Join("sdk", name, versions[name]))
	if err != nil {
		return "", err
	}
	if !regexp.MustCompile(`(?i)version"?( =|:) "` + regexp.QuoteMeta(cli.Version) + `"`).Match(b) {
		return "", fmt.Errorf("sdk/%s/%s does not have the version %s", name, versions[name], cli.Version)
	}
	dir = filepath.Join(r.work, name)
	return dir, os.CopyFS(dir, os.DirFS("sdk/"+name))
}

// tool returns the path of a program in a folder below the folder in an environment variable. If the variable is not
// set, it returns the name of the program.
func tool(variable, folder, name string) string {
	if dir := os.Getenv(variable); dir != "" {
		return filepath.Join(dir, folder, name)
	}
	return name
}

// sums writes SHA256SUMS, and makes all files readable.
func (r *release) sums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, e := range entries {
		path := filepath.Join(r.out, e.Name())
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.Chmod(path, 0o644) // flit gives the wheel 0600
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(b), e.Name())
	}
	return r.write("SHA256SUMS", out.Bytes())
}

// toSPDX converts the document of cli.BillOfMaterials to SPDX 2.3.
func toSPDX(cyclonedx []byte, created time.Time) ([]byte, error) {
	type component struct {
		Ref     string `json:"bom-ref"`
		Name    string
		Version string
		PURL    string
		Hashes  []struct{ Content string }

		Licenses []struct {
			License    struct{ ID string }
			Expression string
		}
	}
	var bill struct {
		Metadata     struct{ Component component }
		Components   []component
		Dependencies []struct {
			Ref       string
			DependsOn []string
		}
	}
	if err := json.Unmarshal(cyclonedx, &bill); err != nil {
		return nil, err
	}
	type object = map[string]any
	id := func(ref string) string {
		return "SPDXRef-" + regexp.MustCompile(`[^A-Za-z0-9.-]+`).ReplaceAllString(strings.TrimPrefix(ref, "pkg:"), "-")
	}
	main := bill.Metadata.Component
	var packages []object
	for _, c := range append([]component{main}, bill.Components...) {
		license := "NOASSERTION"
		if len(c.Licenses) > 0 {
			license = cmp.Or(c.Licenses[0].Expression, c.Licenses[0].License.ID)
		}
		p := object{
			"SPDXID": id(c.Ref), "name": c.Name, "versionInfo": c.Version, "downloadLocation": "NOASSERTION",
			"filesAnalyzed": false, "licenseConcluded": license, "licenseDeclared": license,
			"copyrightText": "NOASSERTION", "externalRefs": []object{{"referenceCategory": "PACKAGE-MANAGER",
				"referenceType": "purl", "referenceLocator": c.PURL}},
		}
		if len(c.Hashes) > 0 {
			p["checksums"] = []object{{"algorithm": "SHA256", "checksumValue": c.Hashes[0].Content}}
		}
		packages = append(packages, p)
	}
	relations := []object{{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
		"relatedSpdxElement": id(main.Ref)}}
	for _, d := range bill.Dependencies {
		for _, ref := range d.DependsOn {
			relations = append(relations, object{"spdxElementId": id(d.Ref), "relationshipType": "DEPENDS_ON",
				"relatedSpdxElement": id(ref)})
		}
	}
	out, err := json.MarshalIndent(object{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
		"name":              "spoolwright-" + main.Version,
		"documentNamespace": fmt.Sprintf("urn:spoolwright:%x", sha256.Sum256(cyclonedx)),
		"creationInfo": object{"created": created.Format(time.RFC3339),
			"creators": []string{"Tool: spoolwright-" + main.Version}},
		"packages": packages, "relationships": relations,
	}, "", "  ")
	return append(out, '\n'), err
}
