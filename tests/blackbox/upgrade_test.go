package blackbox_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"spoolwright/cli"
	"spoolwright/tests/testkit"
)

// TestUpgradeData moves a data folder to a newer PostgreSQL with `spoolwright upgrade-data`. NEWER_POSTGRES is a
// folder with the binaries of a newer version than those in the usual folders. The old version is that of
// POSTGRES_BIN, or an installed one if that is not older.
func TestUpgradeData(t *testing.T) {
	testkit.Rig(t)
	t.Parallel()
	newer := os.Getenv("NEWER_POSTGRES")
	if newer == "" {
		t.Skip("NEWER_POSTGRES names no newer PostgreSQL")
	}
	p := buildProgram(t)
	path := os.Getenv("PATH")
	if folder := os.Getenv("POSTGRES_BIN"); folder != "" && postgresVersion(t, folder) == postgresVersion(t, newer) {
		path = strings.TrimPrefix(path, folder+":")
	}
	dir := tempDir(t) + "/data"
	env := append([]string{"DATA_DIR=" + dir, "PATH=" + path}, noLimits...)
	both := append(env, "PATH="+newer+":"+path) // the last one counts
	c := p.start(t, env)
	token := p.addAdmin(t, c, env, "farm", "ada@farm.example")
	createSampleData(t, c, token)
	want := readAll(t, c, token)

	p.fails(t, 1, both, []string{"upgrade-data"}, "stop the service first")
	c.stop(t, syscall.SIGTERM)
	p.fails(t, 1, env, []string{"upgrade-data"}, "no newer version of PostgreSQL is installed")
	p.fails(t, 2, append([]string{"DATABASE_URL=postgres://farm@localhost/farm"}, env...), []string{"upgrade-data"},
		"DATABASE_URL is set")

	// Killed at several points, it leaves the old database; the data folder stays usable.
	check(t, exec.Command("cp", "-a", dir, dir+".old").Run())
	for _, point := range []string{"/data/upgrade", "api_keys:", "login_directory:"} {
		for killed := false; !killed; { // it ends soon after the last point
			u := p.launch(t, func(*exec.Cmd) {}, both, "upgrade-data")
			for ended := false; !ended && !strings.Contains(u.stdout.String()+u.stderr.String(), point); {
				select {
				case <-u.exited:
					ended = true
				case <-time.After(time.Millisecond):
				}
			}
			u.signal(syscall.SIGKILL)
			<-u.exited
			if code := u.cmd.ProcessState.ExitCode(); code > 0 {
				t.Fatalf("upgrade-data fails: %s", u.stderr.String())
			} else if killed = code < 0; !killed {
				check(t, os.RemoveAll(dir))
				check(t, exec.Command("cp", "-a", dir+".old", dir).Run())
			}
		}
		c = p.start(t, both)
		wantSameData(t, want, readAll(t, c, token))
		c.stop(t, syscall.SIGTERM)
	}

	out := p.succeeds(t, "", both, "upgrade-data")
	if !strings.Contains(out, dir+"/postgres.") || !strings.Contains(out, "spools: ") {
		t.Errorf("%s", out)
	}
	c = p.start(t, both)
	wantSameData(t, want, readAll(t, c, token)) // with the token from before
	checkConsistency(t, c, token)
	c.createSpool(t, token)
	c.stop(t, syscall.SIGTERM)
	p.fails(t, 1, both, []string{"upgrade-data"}, "no newer version of PostgreSQL is installed")

	// The other direction: only the older version is installed.
	p.fails(t, 1, env, nil, "no suitable PostgreSQL is installed", dir+"/postgres")
}

// postgresVersion returns the major version of the PostgreSQL in a folder of binaries.
func postgresVersion(t *testing.T, folder string) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(folder, "postgres"), "--version").Output()
	check(t, err)
	version, _, _ := strings.Cut(strings.TrimPrefix(string(out), "postgres (PostgreSQL) "), ".")
	return version
}

// TestLastRelease starts this program on the data of the last release, while the program of that release serves it and
// a client writes. Both must serve on. LAST_RELEASE is the path of that program, and testdata/last-release has a dump
// of its data, see CONTRIBUTING.md. Before the first release, this program takes its part, with a dump that it makes
// here.
func TestLastRelease(t *testing.T) {
	testkit.Rig(t)
	t.Parallel()
	p := buildProgram(t)
	settings := func(url string) []string { return append([]string{"DATABASE_URL=" + url, secretEnv}, noLimits...) }
	super := func(name string) string { return testkit.WithDatabase(testkit.Private().SuperURL(), name) }
	dumps, err := filepath.Glob("testdata/last-release/*.dump")
	check(t, err)
	last := p
	if len(dumps) > 0 && !*update {
		if last = program(os.Getenv("LAST_RELEASE")); last == "" {
			skipTest(t, "LAST_RELEASE is not set")
		}
	} else {
		dumps = []string{filepath.Join(tempDir(t), "this.dump")}
		if *update {
			check(t, os.RemoveAll("testdata/last-release"))
			check(t, os.Mkdir("testdata/last-release", 0o755))
			dumps[0] = "testdata/last-release/v" + cli.Version + ".dump"
		}
		name := testkit.NewDatabase(t)
		url := ownerURL(name)
		c := p.start(t, settings(url))
		p.addUser(t, settings(url), "busy farm", "bob@farm.example", "admin")
		createSampleData(t, c, p.addAdmin(t, c, settings(url), "farm", "ada@farm.example"))
		c.stop(t, syscall.SIGTERM)
		runBackupCommands(t, ".", `pg_dump -d "$SUPER" --format=custom --file="$DUMP"`, "SUPER="+super(name),
			"DUMP="+dumps[0])
	}

	name := testkit.NewDatabase(t)
	url := ownerURL(name)
	runBackupCommands(t, ".", `pg_restore -d "$SUPER" --clean --if-exists --single-transaction "$DUMP"`,
		"SUPER="+super(name), "DUMP="+dumps[0])
	older := last.start(t, settings(url))
	token := older.login(t, "ada@farm.example", testPassword)
	busy := older.login(t, "bob@farm.example", testPassword)
	want := readAll(t, older, token)
	end := writeContinuously(t, older, busy)
	newer := p.start(t, settings(url)) // which migrates
	wantSameData(t, want, readAll(t, older, token))
	for path, answer := range readAll(t, newer, token) {
		var before, after any
		check(t, json.Unmarshal([]byte(strings.TrimPrefix(want[path], "200 ")), &before))
		check(t, json.Unmarshal([]byte(strings.TrimPrefix(answer, "200 ")), &after))
		if !within(before, after) {
			t.Errorf("GET %s:\nlast release: %s\nthis program: %s", path, want[path], answer)
		}
	}
	end()
	for _, c := range []*process{older, newer} {
		c.createSpool(t, busy)
		checkConsistency(t, c, busy)
	}
	if n, m := older.countSpools(t, busy), newer.countSpools(t, busy); n != m {
		t.Errorf("the last release shows %d spools, this program %d", n, m)
	}
	older.stop(t, syscall.SIGTERM)
	end = writeContinuously(t, newer, busy)
	end()
	checkConsistency(t, newer, newer.login(t, "bob@farm.example", testPassword))
	newer.stop(t, syscall.SIGTERM)
	for _, c := range []*process{older, newer} {
		if log := c.stderr.String(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "status=5") {
			t.Errorf("requests failed:\n%s", log)
		}
	}
}

// within reports whether the JSON value b has what a has: objects of b may have more fields.
func within(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		for name := range a {
			ok = ok && within(a[name], b[name])
		}
		return ok
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, within)
	}
	return a == b
}
