package blackbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestUpgradeData moves a data folder to a newer PostgreSQL with `spoolwright upgrade-data`. NEWER_POSTGRES is a folder
// with the binaries of a newer version than those in the usual folders. The old version is that of POSTGRES_BIN, or an
// installed one if that is not older.
func TestUpgradeData(t *testing.T) {
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
	for _, point := range []string{"/data/upgrade", "api_keys:", "login_directory:"} {
		u := p.launch(t, func(*exec.Cmd) {}, both, "upgrade-data")
		for !strings.Contains(u.stdout.String()+u.stderr.String(), point) { // it ends soon after the last point
			select {
			case <-u.exited:
				t.Fatalf("upgrade-data has ended before %s", point)
			case <-time.After(time.Millisecond):
			}
		}
		u.signal(syscall.SIGKILL)
		<-u.exited
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
