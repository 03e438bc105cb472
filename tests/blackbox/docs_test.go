package blackbox_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"spoolwright/app"
	"spoolwright/cli"
	"spoolwright/server/openapi"
	"spoolwright/tests/testkit"
)

// page returns the text of a Markdown file.
func page(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	check(t, err)
	return string(b)
}

// userPages returns the paths of README.md and docs/*.md, whose shell commands are tested.
func userPages(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("docs/*.md")
	check(t, err)
	return append([]string{"README.md"}, paths...)
}

var fence = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// fencedBlock is a fenced code block of a page.
type fencedBlock struct{ page, language, text string }

// fencedBlocks returns the code blocks of README.md and docs/*.md in the given language.
func fencedBlocks(t *testing.T, language string) (all []fencedBlock) {
	t.Helper()
	for _, path := range userPages(t) {
		for _, m := range fence.FindAllStringSubmatch(page(t, path), -1) {
			if m[1] == language {
				all = append(all, fencedBlock{path, language, m[2]})
			}
		}
	}
	return all
}

// block returns the text of the only code block in the given language that contains has.
func block(t *testing.T, language, has string) string {
	t.Helper()
	var found []string
	for _, b := range fencedBlocks(t, language) {
		if strings.Contains(b.text, has) {
			found = append(found, b.text)
		}
	}
	if len(found) != 1 {
		t.Fatalf("README.md and docs/*.md have %d %s blocks that contain %q, want one", len(found), language, has)
	}
	return found[0]
}

// tourPage has the tour, whose commands TestProgram/Tour runs.
const tourPage = "docs/tour.md"

// TestShellBlocksAreTested fails for a shell block in README.md or docs/*.md that no test runs or compares.
func TestShellBlocksAreTested(t *testing.T) {
	t.Parallel()
	tests := []struct{ page, has, test string }{
		{"README.md", "go test ./...", "TestReadmeStartsWithTheTwoCommands"},
		{"README.md", "key add", "TestProgram/Keys"},
		{"docs/api-keys.md", "key add", "TestProgram/Keys"},
		{"docs/backup.md", "cp -aL data", "TestBackup/Copy"},
		{"docs/backup.md", `pg_dump -d "$SUPER"`, "TestBackup/Private"},
		{"docs/backup.md", `pg_restore -d "$SUPER"`, "TestBackup/Private"},
		{"docs/backup.md", `pg_dump -d "$BACKUP"`, "TestBackup/DatabaseURL"},
		{"docs/backup.md", `pg_restore -d "$ADMIN"`, "TestBackup/DatabaseURL"},
		{"docs/backup.md", `pg_dump -d "$OLD"`, "TestBackup/DatabaseURL"},
		{"docs/recovery.md", "export SUPER=", "TestPointInTimeRecovery/Private"},
		{"docs/recovery.md", "archive_mode", "TestPointInTimeRecovery"},
		{"docs/recovery.md", "pg_basebackup", "TestPointInTimeRecovery"},
		{"docs/recovery.md", "recovery.signal", "TestPointInTimeRecovery"},
		{"docs/recovery.md", "ALTER SYSTEM RESET", "TestPointInTimeRecovery"},
		{"docs/high-availability.md", "switchover", "TestHighAvailability"},
		{"docs/shops.md", "openssl dgst", "TestShopCommands"},
		{"docs/sliced-files.md", "-T hook.gcode", "TestSlicedFileCommands"},
		{"docs/sliced-files.md", "--data-binary @hook.gcode", "TestSlicedFileCommands"},
		{"docs/sliced-files.md", "@hook.jpg", "TestSlicedFileCommands"},
		{"docs/printers.md", "parts/hook.gcode", "TestSlicedFileCommands"},
		{"docs/deployment.md", "CGO_ENABLED=0 go build", "TestReleaseBuildIsDocumented"},
		{"docs/deployment.md", "systemctl enable", "TestInstallCommands"},
		{"docs/deployment.md", "docker compose", "TestDockerCommands"},
	}
	used := make([]bool, len(tests))
	for _, b := range fencedBlocks(t, "sh") {
		covered := b.page == tourPage || b.page == "docs/benchmarks.md" // its blocks are long measurements
		for i, test := range tests {
			if test.page == b.page && strings.Contains(b.text, test.has) {
				covered, used[i] = true, true
			}
		}
		if !covered {
			t.Errorf("%s: no test runs the shell block\n%s", b.page, b.text)
		}
	}
	for i, test := range tests {
		if !used[i] {
			t.Errorf("%s: no shell block contains %q, which %s runs", test.page, test.has, test.test)
		}
	}
}

func TestReadmeStartsWithTheTwoCommands(t *testing.T) {
	t.Parallel()
	m := fence.FindStringSubmatch(page(t, "README.md"))
	if m == nil || !regexp.MustCompile(`(?s)^go run \..*\ngo test \./\.\.\.`).MatchString(m[2]) {
		t.Errorf("the first block of README.md is %q, want the two commands", m)
	}
}

func TestConfigurationPageListsTheSettings(t *testing.T) {
	t.Parallel()
	const path = "docs/configuration.md"
	row := regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| (.*?) \\| (.*) \\|$")
	rows := row.FindAllStringSubmatch(page(t, path), -1)
	settings := buildProgram(t).settings(t)
	if len(rows) != len(settings) {
		t.Fatalf("%s lists %d settings, want %d", path, len(rows), len(settings))
	}
	for i, s := range settings {
		want := ""
		if s.value != "" {
			want = "`" + s.value + "`"
		}
		if rows[i][1] != s.name || rows[i][2] != want {
			t.Errorf("%s: row %d is %s with the default %q, want %s with %q", path, i+1, rows[i][1], rows[i][2],
				s.name, want)
		}
		if letters(rows[i][3]) != letters(s.usage) {
			t.Errorf("%s: %s is described as %q, but -h prints %q", path, s.name, rows[i][3], s.usage)
		}
	}
}

// TestWebhooksPageListsTheEvents compares the table of events in docs/webhooks.md with the events of the program.
func TestWebhooksPageListsTheEvents(t *testing.T) {
	t.Parallel()
	var listed, want []string
	row := regexp.MustCompile("(?m)^\\| (`[a-z_]+\\.[^|]*) \\|")
	for _, m := range row.FindAllStringSubmatch(page(t, "docs/webhooks.md"), -1) {
		listed = append(listed, regexp.MustCompile(`[a-z_]+\.[a-z_]+`).FindAllString(m[1], -1)...)
	}
	for _, e := range app.Events {
		want = append(want, e.Type)
	}
	slices.Sort(listed)
	slices.Sort(want)
	testkit.EqualSlices(t, listed, want, "docs/webhooks.md")
}

// TestCommandsInPagesExist checks that the program knows each command and flag that a text block shows.
func TestCommandsInPagesExist(t *testing.T) {
	t.Parallel()
	p := buildProgram(t)
	command := regexp.MustCompile(`(?m)^spoolwright ([a-z]+) ([a-z-]+)\b(.*(?:\\\n.*)*)$`)
	commandFlag := regexp.MustCompile(` --([a-z-]+)`)
	found := 0
	for _, b := range fencedBlocks(t, "text") {
		for _, m := range command.FindAllStringSubmatch(b.text, -1) {
			found++
			help := p.succeeds(t, "", nil, m[1], m[2], "-h")
			for _, f := range commandFlag.FindAllStringSubmatch(m[3], -1) {
				if !strings.Contains(help, "  -"+f[1]) {
					t.Errorf("%s: %q has the flag --%s, which its help does not list:\n%s", b.page, m[0], f[1], help)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("found %d commands in text blocks, want at least 10", found)
	}
}

// TestNamesInPagesExist checks the names in the pages that users copy: settings, codes of errors, operations and paths
// of the API, events, actions of the audit log, and commands.
func TestNamesInPagesExist(t *testing.T) {
	t.Parallel()
	document := string(openapi.Document(programRoutes(t), "test", app.Events...))
	var routes []*regexp.Regexp
	for _, r := range programRoutes(t) {
		pattern := regexp.MustCompile(`\\\{[^}]*\\\}`).ReplaceAllString(regexp.QuoteMeta(r.Pattern), `[^/ ]+`)
		routes = append(routes, regexp.MustCompile(`^`+pattern+`$`))
	}
	settings := page(t, "docs/configuration.md")
	upper := regexp.MustCompile("^([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?:=.*)?$")
	path := regexp.MustCompile(`^(?:GET|POST|PATCH|PUT|DELETE) /api/v1/[^?]*`)
	operation := regexp.MustCompile(`^[a-z]+[A-Z]\w*$`)
	kinds := map[string]bool{} // what events are about
	for _, e := range app.Events {
		kind, _, _ := strings.Cut(e.Type, ".")
		kinds[regexp.QuoteMeta(kind)] = true
	}
	event := regexp.MustCompile(`^(?:` + strings.Join(slices.Sorted(maps.Keys(kinds)), "|") + `)\.[a-z_]+$`)
	command := regexp.MustCompile(`^spoolwright ([a-z][a-z -]*)`)
	isCommand := func(text string) bool {
		return slices.ContainsFunc(app.Commands, func(c cli.Command) bool {
			return text == c.Name || strings.HasPrefix(text, c.Name+" ")
		})
	}
	// Names of other programs, of functions, and a misspelled setting.
	others := []string{"HTTP_PROXY", "REQUESTS_CA_BUNDLE", "RATE_LIMIT_PER_MIN"}
	codePages := []string{"docs/request.md", "docs/asvs.md", "docs/benchmarks.md"}
	checked := 0
	for _, name := range append(userPages(t), "SECURITY.md", "CHANGELOG.md") {
		for _, code := range inlineCode.FindAllString(page(t, name), -1) {
			code := strings.Trim(code, "`")
			known := true
			if m := upper.FindStringSubmatch(code); m != nil {
				known = strings.Contains(document, m[1]) || strings.Contains(settings, "| `"+m[1]+"` |") ||
					slices.Contains(others, m[1])
			} else if m := path.FindString(code); m != "" {
				known = slices.ContainsFunc(routes, func(r *regexp.Regexp) bool { return r.MatchString(m) })
			} else if operation.MatchString(code) && !slices.Contains(codePages, name) {
				known = strings.Contains(document, `"operationId":"`+code+`"`)
			} else if event.MatchString(code) {
				known = strings.Contains(document, `"`+code+`"`)
			} else if m := command.FindStringSubmatch(code); m != nil {
				known = isCommand(m[1])
			} else {
				continue
			}
			if checked++; !known {
				t.Errorf("%s names %s, which does not exist", name, code)
			}
		}
	}
	if checked < 200 {
		t.Errorf("%d names", checked)
	}
}

var (
	inlineCode   = regexp.MustCompile("`[^`\n]*`")
	link         = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	pathInCode   = regexp.MustCompile("`([a-z0-9_]+/[^`\\s]*)`")
)

// anchors returns the anchors that GitHub generates for a page's headings. A repeated heading is not supported.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		all[strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return all
}

// TestLinksResolve checks the relative links and anchors of all pages, and the paths of the checkout that they name.
func TestLinksResolve(t *testing.T) {
	t.Parallel()
	root, err := filepath.Glob("*.md")
	check(t, err)
	root = append(root, "tests/blackbox/README.md")
	links := 0
	for _, path := range append(root, userPages(t)[1:]...) {
		text := page(t, path)
		for _, m := range pathInCode.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if strings.HasPrefix(m[1], "data/") { // the service's data folder, not part of the checkout
				continue
			}
			if found, err := filepath.Glob(m[1]); err != nil || len(found) == 0 {
				t.Errorf("%s names %s, which does not exist", path, m[1])
			}
		}
		text = inlineCode.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			links++
			target, anchor, _ := strings.Cut(m[1], "#")
			file := path
			if target != "" {
				file = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
			} else if anchor != "" && !anchors(page(t, file))[anchor] {
				t.Errorf("%s links to %s, but %s has no such heading", path, m[1], file)
			}
		}
	}
	if links < 20 {
		t.Errorf("found %d links in all pages, want at least 20", links)
	}
}

// TestReadmeLinksToEveryPage checks that a reader can find each page of docs from the README.
func TestReadmeLinksToEveryPage(t *testing.T) {
	t.Parallel()
	readme := page(t, "README.md")
	for _, path := range userPages(t)[1:] {
		testkit.Contains(t, readme, "("+path+")", "README.md does not link to %s", path)
	}
}

// TestListOfBlackBoxTests compares the table of test files in tests/blackbox/README.md with the folder.
func TestListOfBlackBoxTests(t *testing.T) {
	t.Parallel()
	const list = "tests/blackbox/README.md"
	text := page(t, list)
	files, err := filepath.Glob("tests/blackbox/*_test.go")
	check(t, err)
	for _, path := range files {
		name := filepath.Base(path)
		osSpecific := strings.HasPrefix(name, "terminal_")
		if !osSpecific && !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s does not list %s", list, path)
		}
	}
	for _, m := range regexp.MustCompile("`([a-z_]+_test\\.go)`").FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join("tests/blackbox", m[1])); err != nil {
			t.Errorf("%s lists %s: %v", list, m[1], err)
		}
	}
}

// letters returns the letters and digits of a text, in lower case.
func letters(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			return unicode.ToLower(c)
		}
		return -1
	}, s)
}

// testTour runs the commands of the tour against a demo, and compares the output with the responses that the
// tour shows. curl is configured to connect to the address of the test's demo.
func testTour(t *testing.T, p program) {
	testkit.Rig(t)
	tour := page(t, tourPage)
	needTools(t, "curl", "openssl", "python3")
	dir := tempDir(t)
	check(t, os.Chmod(dir, 0o777))
	c := p.start(t, []string{"TMPDIR=" + dir, "WEBHOOK_ALLOWED_NETWORKS=127.0.0.0/8"}, "demo")
	home := tempDir(t)
	curlrc := "connect-to = 127.0.0.1:8000:" + strings.TrimPrefix(c.url, "http://") + "\n"
	check(t, os.WriteFile(filepath.Join(home, ".curlrc"), []byte(curlrc), 0o600))

	var script strings.Builder
	var shown []string // responses, and lines of responses that grep prints
	for _, m := range fence.FindAllStringSubmatch(tour, -1) {
		switch {
		case m[1] == "json":
			wantJSON(t, m[2])
			shown = append(shown, m[2])
		case m[1] == "text":
			shown = append(shown, m[2])
		case m[1] == "sh" && !strings.Contains(m[2], "go run . demo"):
			script.WriteString(m[2])
		}
	}
	if len(shown) < 3 {
		t.Fatalf("the tour shows %d responses, want at least 3", len(shown))
	}
	bash := exec.Command("bash", "-euo", "pipefail")
	bash.Dir = home
	bash.Env = append(processEnv(nil), "CURL_HOME="+home)
	bash.Stdin = strings.NewReader(script.String())
	var out, complaints bytes.Buffer
	bash.Stdout, bash.Stderr = &out, &complaints
	if err := bash.Run(); err != nil || complaints.Len() > 0 {
		t.Fatalf("the tour: %v\n%s%s", err, &out, &complaints)
	}
	got := comparable(out.String())
	for _, want := range shown {
		_, rest, ok := strings.Cut(got, comparable(want))
		if !ok {
			t.Errorf("the tour shows a response that the commands do not print at that point:\n%s\nremaining output:\n%s",
				want, got)
		}
		got = rest
	}
	c.stop(t, syscall.SIGTERM)
}

// wantJSON fails the test unless the text consists of JSON values.
func wantJSON(t *testing.T, text string) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		if err := d.Decode(new(any)); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("the tour shows a response that is not valid JSON: %v\n%s", err, text)
		}
	}
}

var (
	someID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	someTime = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z`)
	someNext = regexp.MustCompile(`"next": ?"[^"]+"`)
	spaces   = regexp.MustCompile(`\s+`)
)

// comparable returns the text without white space, and with placeholders for ids, times and cursors.
func comparable(s string) string {
	s = someTime.ReplaceAllString(someID.ReplaceAllString(s, "ID"), "TIME")
	s = someNext.ReplaceAllString(s, `"next":"CURSOR"`)
	return spaces.ReplaceAllString(s, "")
}
