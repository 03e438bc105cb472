package blackbox_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode"
)

func readme(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("README.md")
	check(t, err)
	return string(b)
}

var fence = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// block is the one fenced block of the README in the language that has the text in it.
func block(t *testing.T, language, has string) string {
	t.Helper()
	var found []string
	for _, m := range fence.FindAllStringSubmatch(readme(t), -1) {
		if m[1] == language && strings.Contains(m[2], has) {
			found = append(found, m[2])
		}
	}
	if len(found) != 1 {
		t.Fatalf("the README has %d %s blocks with %q, want one", len(found), language, has)
	}
	return found[0]
}

func TestReadmeStartsWithTheTwoCommands(t *testing.T) {
	t.Parallel()
	m := fence.FindStringSubmatch(readme(t))
	if m == nil || !regexp.MustCompile(`(?s)^go run \..*\ngo test \./\.\.\.`).MatchString(m[2]) {
		t.Errorf("the first block of the README is %q, not the two commands", m)
	}
}

func TestReadmeListsTheSettings(t *testing.T) {
	t.Parallel()
	rows := regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| (.*?) \\| (.*) \\|$").FindAllStringSubmatch(readme(t), -1)
	settings := built(t).settings(t)
	if len(rows) != len(settings) {
		t.Fatalf("the README's table has %d settings, the program %d", len(rows), len(settings))
	}
	for i, s := range settings {
		want := ""
		if s.value != "" {
			want = "`" + s.value + "`"
		}
		if rows[i][1] != s.name || rows[i][2] != want {
			t.Errorf("row %d is %s with the default %q, want %s with %q", i+1, rows[i][1], rows[i][2], s.name, want)
		}
		if letters(rows[i][3]) != letters(s.usage) {
			t.Errorf("the README says of %s: %q, and -h: %q", s.name, rows[i][3], s.usage)
		}
	}
}

// letters is a text without case and punctuation.
func letters(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			return unicode.ToLower(c)
		}
		return -1
	}, s)
}

// testTour runs the README's tour as it stands against a demo, and compares what it shows. Only curl is told that the
// demo of this test listens elsewhere.
func testTour(t *testing.T, p program) {
	_, tour, ok := strings.Cut(readme(t), "\n## A tour in five minutes\n")
	if !ok {
		t.Fatal("the README has no tour")
	}
	tour, _, _ = strings.Cut(tour, "\n## ")
	if _, err := exec.LookPath("curl"); err != nil {
		need(t, "curl is not installed")
	}
	dir := folder(t)
	check(t, os.Chmod(dir, 0o777))
	c := p.start(t, []string{"TMPDIR=" + dir}, "demo")
	home := folder(t)
	check(t, os.WriteFile(filepath.Join(home, ".curlrc"), []byte("connect-to = 127.0.0.1:8000:"+strings.TrimPrefix(c.url, "http://")+"\n"), 0o600))

	var script strings.Builder
	var shown []string
	for _, m := range fence.FindAllStringSubmatch(tour, -1) {
		switch {
		case m[1] == "json":
			shown = append(shown, m[2])
		case m[1] == "sh" && !strings.HasPrefix(m[2], "go run . demo"):
			script.WriteString(m[2])
		}
	}
	if len(shown) < 3 {
		t.Fatalf("the tour shows %d answers", len(shown))
	}
	bash := exec.Command("bash", "-euo", "pipefail")
	bash.Dir = home
	bash.Env = append(environment(nil), "CURL_HOME="+home)
	bash.Stdin = strings.NewReader(script.String())
	var out, complaints bytes.Buffer
	bash.Stdout, bash.Stderr = &out, &complaints
	if err := bash.Run(); err != nil || complaints.Len() > 0 {
		t.Fatalf("the tour: %v\n%s%s", err, &out, &complaints)
	}
	got := comparable(out.String())
	for _, want := range shown {
		if !json.Valid([]byte(want)) {
			t.Errorf("the tour shows what is no JSON: %s", want)
		}
		_, rest, ok := strings.Cut(got, comparable(want))
		if !ok {
			t.Errorf("the tour shows an answer that does not come, or not there:\n%s\nwhat comes then:\n%s", want, got)
		}
		got = rest
	}
	c.stops(t, syscall.SIGTERM)
}

var (
	someID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	someTime = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z`)
	spaces   = regexp.MustCompile(`\s+`)
)

// comparable is a JSON text without what differs from one time to the next.
func comparable(s string) string {
	s = someTime.ReplaceAllString(someID.ReplaceAllString(s, "ID"), "TIME")
	return spaces.ReplaceAllString(s, "")
}
