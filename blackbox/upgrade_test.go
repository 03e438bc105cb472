package blackbox_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestUpgradeData moves a data folder to a newer PostgreSQL with `spoolwright upgrade-data`. NEWER_POSTGRES is a folder
// with the binaries of a newer version than the one in PATH or the usual folders.
func TestUpgradeData(t *testing.T) {
	t.Parallel()
	newer := os.Getenv("NEWER_POSTGRES")
	if newer == "" {
		t.Skip("NEWER_POSTGRES names no newer PostgreSQL")
	}
	p := buildProgram(t)
	dir := tempDir(t) + "/data"
	env := append([]string{"DATA_DIR=" + dir}, noLimits...)
	both := append([]string{"PATH=" + newer + ":" + os.Getenv("PATH")}, env...)
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
	for _, point := range []string{"/data/upgrade", "login_directory:", "users:"} {
		u := p.launch(t, func(*exec.Cmd) {}, both, "upgrade-data")
		eventually(t, "upgrade-data reaches "+point, func() bool {
			return strings.Contains(u.stdout.String()+u.stderr.String(), point)
		})
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
