package blackbox_test

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"spoolwright/db/local"
	"spoolwright/tests/testkit"
)

// TestPointInTimeRecovery runs the commands of docs/recovery.md: a tenant is removed by mistake, and the database is
// brought back to the moment before.
func TestPointInTimeRecovery(t *testing.T) {
	testkit.Rig(t)
	t.Parallel()
	p := buildProgram(t)
	t.Run("Private", func(t *testing.T) {
		t.Parallel()
		home := tempDir(t)
		env := append([]string{"DATA_DIR=" + home + "/data"}, noLimits...)
		var c *process
		recoverTenant(t, p, env, home, func() *process { c = p.start(t, env); return c },
			func() { c.stop(t, syscall.SIGTERM) }, block(t, "sh", "export SUPER="))
	})
	if testkit.InCI(0, 1) == 0 {
		return
	}
	t.Run("DatabaseURL", func(t *testing.T) {
		t.Parallel()
		home, dir := tempDir(t), tempDir(t)
		var c *process
		var s *local.Server
		start := func() *process {
			var err error
			if s, err = local.Start(t.Context(), local.Options{Dir: dir}); err != nil {
				t.Fatal(err)
			}
			c = p.start(t, append([]string{"DATABASE_URL=" + s.AppURL(), "MIGRATE_DATABASE_URL=" + s.OwnerURL(),
				secretEnv},
				noLimits...))
			return c
		}
		stop := func() {
			c.stop(t, syscall.SIGTERM)
			check(t, s.Stop(context.Background()))
		}
		start()
		env := append([]string{"DATABASE_URL=" + s.AppURL(), "MIGRATE_DATABASE_URL=" + s.OwnerURL(), secretEnv},
			noLimits...)
		variables := "export ARCHIVE=" + home + "/archive CLUSTER=" + dir + "/postgres SUPER='" + s.SuperURL() + "'\n"
		stop()
		recoverTenant(t, p, env, home, start, stop, variables)
	})
}

// recoverTenant removes a tenant and recovers it. The script variables sets the variables of the page.
func recoverTenant(t *testing.T, p program, env []string, home string, start func() *process, stop func(),
	variables string) {
	t.Helper()
	run := func(script string) { t.Helper(); runBackupCommands(t, home, "umask 077\n"+variables+script) }
	c := start()
	token := p.addAdmin(t, c, env, "farm", "ada@farm.example")
	run(block(t, "sh", "archive_mode"))
	stop()
	c = start()
	run(block(t, "sh", "pg_basebackup"))
	createSampleData(t, c, token)
	want := readAll(t, c, token)
	time.Sleep(1100 * time.Millisecond) // so that the moment is clearly between the transactions
	moment := time.Now().UTC().Format("2006-01-02 15:04:05.000-07")
	time.Sleep(1100 * time.Millisecond)
	p.succeeds(t, "", env, "tenant", "remove", "farm", "--yes")
	if status, _ := c.call(t, token, "GET", "/api/v1/spools", nil); status != 401 {
		t.Errorf("after the removal: status %d, want 401", status)
	}
	stop()
	run("export MOMENT='" + moment + "'\n" + block(t, "sh", "recovery.signal"))
	c = start()
	wantSameData(t, want, readAll(t, c, token))
	run(block(t, "sh", "ALTER SYSTEM RESET"))
	c.createSpool(t, token)
	stop()
	c = start() // without the settings of the recovery
	checkConsistency(t, c, token)
	stop()
	if left, _ := os.ReadFile(home + "/data/postgres/postgresql.auto.conf"); strings.Contains(string(left),
		"recovery") {
		t.Errorf("settings of the recovery are left: %s", left)
	}
}
