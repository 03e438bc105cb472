// Package blackbox_test tests the whole program through its HTTP API and its command line. CONTRIBUTING.md lists what
// each file proves. The tests run in the root of the checkout, so all paths in them are relative to the root.
package blackbox_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"spoolwright/auth"
	"spoolwright/auth/secrets"
	"spoolwright/server"
	"spoolwright/tests/testkit"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	stop := showProgress(openProgress(), progressEvery)
	status := testkit.Run(m)
	stop()
	os.Exit(status)
}

// compareGolden fails the test if the file differs. With -update it rewrites the file.
func compareGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		check(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	check(t, err)
	if !bytes.Equal(got, want) {
		line := 1
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				break
			}
			if got[i] == '\n' {
				line++
			}
		}
		t.Errorf("%s differs from line %d on; if the change is intended, "+
			"run go test ./tests/blackbox -run Golden -update and review the difference", path, line)
	}
}

// programRoutes returns the routes of the whole API, connected to the database of the tests.
func programRoutes(t *testing.T) []server.Route {
	t.Helper()
	d := testkit.Open(t)
	tokens, err := auth.NewTokens([]string{testkit.Secret}, time.Minute, time.Hour, time.Now)
	check(t, err)
	return testkit.Routes(d, auth.New(d, tokens, secrets.NewHasher(1), time.Now))
}

// setting is an environment variable that the program reads, with its default value.
type setting struct{ name, value, usage string }

// settings returns the environment variables that the program lists with -h.
func (p program) settings(t *testing.T) (all []setting) {
	t.Helper()
	_, list, _ := strings.Cut(p.succeeds(t, "", nil, "-h"), "\nEnvironment:\n")
	line := regexp.MustCompile(`(?m)^  ([A-Z_]+) +(.*?)(?: \(default (.*)\))?$`)
	for _, m := range line.FindAllStringSubmatch(list, -1) {
		all = append(all, setting{name: m[1], usage: m[2], value: m[3]})
	}
	if len(all) == 0 || len(all) != strings.Count(list, "\n") {
		t.Fatalf("-h prints %d settings, which is none or not every line:\n%s", len(all), list)
	}
	return all
}

// version returns the version of the release that the command version prints, without the revision of the checkout.
func (p program) version(t *testing.T) string {
	t.Helper()
	out := p.succeeds(t, "", nil, "version")
	m := regexp.MustCompile(`^spoolwright (\d+\.\d+\.\d+)( \([0-9a-f]{12}\))?\n`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("version prints %q", out)
	}
	return m[1]
}
