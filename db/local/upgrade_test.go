package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spoolwright/db/local"
	"spoolwright/tests/testkit"
)

// A crash at any point after the new cluster of an upgrade is complete leaves a data folder whose next start uses the
// new cluster. Before that point, the next start uses the old one.
func TestInterruptedUpgrade(t *testing.T) {
	t.Parallel()
	made := folder(t)
	s := start(t, local.Options{Dir: made})
	expect(t, s.OwnerURL(), "create table history as select 'old' as v", "")
	stop(t, s)
	for _, c := range []struct{ name, state, want string }{
		{"copying", "true", "old"},
		{"complete", "echo -n 15 > upgrade/complete", "new"},
		{"old cluster moved", "echo -n 15 > upgrade/complete && mv postgres postgres.15", "new"},
		{"new cluster moved", "echo -n 15 > upgrade/complete && mv postgres postgres.15 && mv upgrade/postgres .",
			"new"},
		{"nothing left to move", "mv postgres postgres.15 && mv upgrade/postgres . && rmdir upgrade", "new"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t)
			shell(t, "cp -a %s/. %s && mkdir -m 711 %s/upgrade && cp -a %s/postgres* %s/upgrade", made, dir, dir, made,
				dir)
			next := start(t, local.Options{Dir: filepath.Join(dir, "upgrade")})
			expect(t, next.OwnerURL(), "update history set v = 'new'", "")
			stop(t, next)
			shell(t, "cd %s && rm -f upgrade/postgres.* && umask 077 && %s", dir, c.state)
			if !local.Exists(dir) {
				t.Error("Exists reports that there is no cluster")
			}
			s := start(t, local.Options{Dir: dir})
			expect(t, s.AppURL(), "select current_user", local.LoginRole) // the passwords are those of the data folder
			expect(t, s.OwnerURL(), "select v from history", c.want)
			stop(t, s)
			if _, err := os.Stat(filepath.Join(dir, "postgres.15")); (err == nil) != (c.want == "new") {
				t.Errorf("the old cluster: %v", err)
			}
			if _, err := os.Stat(filepath.Join(dir, "upgrade")); !errors.Is(err, os.ErrNotExist) && c.want == "new" {
				t.Errorf("the folder of the upgrade is left: %v", err)
			}
		})
	}
}

func TestUpgradeErrors(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	s := start(t, local.Options{Dir: dir})
	move := func(context.Context, *local.Server, *local.Server) error {
		t.Error("the data was moved")
		return nil
	}
	if _, err := local.Upgrade(t.Context(), local.Options{Dir: dir}, move); !errors.Is(err, local.ErrInUse) {
		t.Errorf("while a service runs: %v", err)
	}
	stop(t, s)
	same := local.Options{Dir: dir, Folders: []string{testkit.TruePostgres()}}
	if _, err := local.Upgrade(t.Context(), same, move); err == nil || errors.Is(err, local.ErrInUse) {
		t.Errorf("without a newer version: %v", err)
	}
	stop(t, start(t, local.Options{Dir: dir})) // the data folder is unlocked, and its PostgreSQL is stopped
}

// The error of an upgrade has the cause that only the log of the new PostgreSQL tells.
func TestUpgradeOnFullDisk(t *testing.T) {
	t.Parallel()
	newer := os.Getenv("NEWER_POSTGRES")
	if newer == "" {
		t.Skip("NEWER_POSTGRES names no newer PostgreSQL")
	}
	dir := folder(t)
	older := local.Options{Dir: dir, Folders: []string{testkit.TruePostgres()}}
	stop(t, start(t, older))
	both := local.Options{Dir: dir, Folders: []string{testkit.TruePostgres(), newer}}
	_, err := local.Upgrade(t.Context(), both, func(_ context.Context, _, to *local.Server) error {
		expect(t, to.SuperURL(), `do $$ begin raise warning 'could not write: No space left on device'; end $$`, "")
		return errors.New("use of closed network connection")
	})
	if err == nil || !strings.Contains(err.Error(), "closed network connection (PostgreSQL: ") ||
		!strings.HasSuffix(err.Error(), "could not write: No space left on device)") {
		t.Errorf("the upgrade: %v", err)
	}
	stop(t, start(t, older)) // the old cluster is as it was
}
