package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"spoolwright/db/local"
	"spoolwright/tests/testkit"
)

// archived is a cluster whose changes are archived: rows "before" and "after" a restore point.
type archived struct{ dir, archive string }

func newArchived(t *testing.T) archived {
	t.Helper()
	a := archived{folder(t), folder(t)}
	check(t, os.Chmod(a.archive, 0o777)) // PostgreSQL's account writes to it
	settings := map[string]string{"archive_mode": "on", "archive_command": "cp %p " + a.archive + "/%f"}
	s := start(t, local.Options{Dir: a.dir, Settings: settings})
	expect(t, s.OwnerURL(), "create table history as select 'base' as v", "")
	stop(t, s)
	shell(t, "cp -a %s/postgres %s/base", a.dir, a.dir)
	s = start(t, local.Options{Dir: a.dir, Settings: settings})
	for range 3 {
		expect(t, s.OwnerURL(), "insert into history values ('before')", "")
		_, err := query(t.Context(), s.SuperURL(), "select pg_switch_wal()::text")
		check(t, err)
	}
	_, err := query(t.Context(), s.SuperURL(), "select pg_create_restore_point('target')::text")
	check(t, err)
	expect(t, s.OwnerURL(), "insert into history values ('after')", "")
	last, err := query(t.Context(), s.SuperURL(), "select pg_walfile_name(pg_switch_wal())")
	check(t, err)
	testkit.Eventually(t, last+" is archived", func() bool {
		_, err := os.Stat(filepath.Join(a.archive, last))
		return err == nil
	})
	stop(t, s)
	return a
}

// restore makes a data folder that recovers the base backup up to the restore point, slowly. PostgreSQL gets no
// file of the archive while the folder has a file with the name closed.
func (a archived) restore(t *testing.T, action string) (dir string) {
	t.Helper()
	dir = folder(t)
	shell(t, "cp -a %s/base %s/postgres && cp -a %s/postgres.passwords %s", a.dir, dir, a.dir, dir)
	shell(t, "cp -a %s/postgres/pg_wal/0* %s/postgres/pg_wal", a.dir, dir) // what was not archived yet
	for _, line := range []string{
		"restore_command = 'while [ -e " + dir + "/closed ]; do sleep 0.05; done; sleep 0.2; cp " + a.archive + "/%f %p'",
		"recovery_target_name = 'target'",
		"recovery_target_action = '" + action + "'",
	} {
		shell(t, "echo \"%s\" >> %s/postgres/postgresql.auto.conf", line, dir)
	}
	shell(t, "cp -a %s/postgres/PG_VERSION %s/postgres/recovery.signal", dir, dir)
	return dir
}

func shell(t *testing.T, format string, args ...any) {
	t.Helper()
	command := fmt.Sprintf(format, args...)
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}

// atTarget checks that the running cluster has the rows from before the restore point and no others, and can be
// written.
func atTarget(t *testing.T, s *local.Server) {
	t.Helper()
	expect(t, s.OwnerURL(), "select string_agg(v, ' ' order by v desc) from history", "before before before base")
	expect(t, s.OwnerURL(), "insert into history values ('new')", "")
}

// superURL is the superuser's connection string for a PostgreSQL that no Server was returned for.
func superURL(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "postgres.passwords"))
	check(t, err)
	_, password, _ := strings.Cut(string(b), `"superuser": "`)
	password, _, _ = strings.Cut(password, `"`)
	sockets := filepath.Join(dir, "postgres.run")
	return "postgres://postgres:" + password + "@/postgres?port=5432&sslmode=disable&host=" + sockets
}

func TestArchiveRecovery(t *testing.T) {
	t.Parallel()
	a := newArchived(t)
	t.Run("start waits for the end", func(t *testing.T) {
		t.Parallel()
		s := start(t, local.Options{Dir: a.restore(t, "promote")})
		atTarget(t, s)
	})
	for _, after := range []time.Duration{300, 50, 700}[:testkit.InRigs(1, 3)] {
		after *= time.Millisecond
		t.Run(fmt.Sprint("interrupted after ", after), func(t *testing.T) {
			t.Parallel()
			dir := a.restore(t, "promote")
			closed := filepath.Join(dir, "closed")
			check(t, os.WriteFile(closed, nil, 0o600))
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			var log testkit.Log
			done := make(chan error, 1)
			go func() {
				_, err := local.Start(ctx, local.Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
				done <- err
			}()
			defer os.Remove(closed)
			testkit.Eventually(t, "the interrupt", func() bool {
				return strings.Contains(log.String(), "and stops at its end")
			})
			check(t, os.Remove(closed))
			if err := <-done; err == nil || !strings.Contains(err.Error(), "context deadline exceeded") {
				t.Errorf("got %v", err)
			}
			b, err := os.ReadFile(filepath.Join(dir, "postgres.log"))
			check(t, err)
			complete := bytes.Index(b, []byte("archive recovery complete"))
			if stopped := bytes.Index(b, []byte("shutdown request")); complete < 0 || stopped < complete {
				t.Errorf("PostgreSQL was stopped before its recovery had ended:\n%s", b)
			}
			atTarget(t, start(t, local.Options{Dir: dir}))
		})
	}
	t.Run("paused at the target", func(t *testing.T) {
		t.Parallel()
		dir := a.restore(t, "pause")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var log testkit.Log
		done := make(chan error, 1)
		go func() {
			_, err := local.Start(ctx, local.Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
			done <- err
		}()
		testkit.Eventually(t, "the pause", func() bool { return strings.Contains(log.String(), "recovery is paused") })
		if _, err := local.Start(t.Context(), local.Options{Dir: dir}); !errors.Is(err, local.ErrInUse) {
			t.Errorf("a second service: %v", err)
		}
		cancel()
		select {
		case err := <-done:
			t.Fatalf("a paused recovery was ended: %v", err)
		case <-time.After(time.Second):
		}
		expect(t, superURL(t, dir), "select pg_is_in_recovery()::text", "true")
		_, err := query(t.Context(), superURL(t, dir), "select pg_wal_replay_resume()::text")
		check(t, err)
		if err := <-done; err == nil || !strings.Contains(err.Error(), "context canceled") {
			t.Errorf("got %v", err)
		}
		atTarget(t, start(t, local.Options{Dir: dir}))
	})
	t.Run("adopted", func(t *testing.T) {
		testkit.Rig(t)
		t.Parallel()
		dir := a.restore(t, "pause")
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), childMode+"=start", childDir+"="+dir)
		check(t, c.Start())
		waitForPause(t, dir)
		check(t, c.Process.Kill())
		c.Wait()
		time.AfterFunc(500*time.Millisecond, func() {
			query(context.Background(), superURL(t, dir), "select pg_wal_replay_resume()::text")
		})
		atTarget(t, start(t, local.Options{Dir: dir}))
	})
	t.Run("killed at its end", func(t *testing.T) {
		testkit.Rig(t)
		t.Parallel()
		dir := a.restore(t, "pause")
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), childMode+"=start", childDir+"="+dir)
		check(t, c.Start())
		waitForPause(t, dir)
		b, err := os.ReadFile(filepath.Join(dir, "postgres", "postmaster.pid"))
		check(t, err)
		pid, err := strconv.Atoi(strings.Fields(string(b))[0])
		check(t, err)
		check(t, c.Process.Kill())
		check(t, syscall.Kill(pid, syscall.SIGKILL))
		c.Wait()
		gone(t, pid)
		check(t, os.Remove(filepath.Join(dir, "postgres", "recovery.signal"))) // as PostgreSQL does at the end
		var log testkit.Log
		start(t, local.Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if !strings.Contains(log.String(), "level=WARN") ||
			!strings.Contains(log.String(), "restore the backup again") {
			t.Errorf("log: %s", log.String())
		}
	})
}

func waitForPause(t *testing.T, dir string) {
	t.Helper()
	testkit.Eventually(t, "the pause", func() bool {
		state, err := query(t.Context(), superURL(t, dir), "select pg_get_wal_replay_pause_state()")
		return err == nil && state == "paused"
	})
}
