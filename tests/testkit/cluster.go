package testkit

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/app"
	"spoolwright/db"
	"spoolwright/db/local"
)

// Synchronous contains the settings of a PostgreSQL whose commits can wait for a standby.
var Synchronous = map[string]string{"synchronous_commit": "on", "wal_level": "replica", "max_wal_senders": "4"}

// Cluster starts and migrates a PostgreSQL for one test.
func Cluster(tb testing.TB, settings map[string]string) *local.Server {
	tb.Helper()
	dir, err := Dir()
	Check(tb, err)
	tb.Cleanup(func() { os.RemoveAll(dir) })
	s, err := local.Start(context.Background(), local.Options{Dir: dir, Throwaway: true, Settings: settings})
	Check(tb, err)
	tb.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	_, err = db.Migrate(context.Background(), s.OwnerURL(), s.AppURL(), app.Definitions)
	Check(tb, err)
	return s
}

// Exec runs statements on s as the superuser.
func Exec(tb testing.TB, s *local.Server, statements ...string) {
	tb.Helper()
	ExecURL(tb, s.SuperURL(), statements...)
}

// ExecURL runs statements in the database of a connection string.
func ExecURL(tb testing.TB, url string, statements ...string) {
	tb.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	Check(tb, err)
	defer conn.Close(context.Background())
	for _, sql := range statements {
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			tb.Fatalf("%s: %v", sql, err)
		}
	}
}

// LoseStandby makes the commits of s wait for a standby that does not exist. FindStandby ends this state.
func LoseStandby(tb testing.TB, s *local.Server) {
	tb.Helper()
	Exec(tb, s, `create table if not exists probe (n int)`,
		`alter system set synchronous_standby_names = 'absent'`, `select pg_reload_conf()`)
	super, err := pgx.Connect(context.Background(), s.SuperURL())
	Check(tb, err)
	defer super.Close(context.Background())
	for waits := false; !waits; { // PostgreSQL does not report when the setting takes effect
		conn, err := pgx.Connect(context.Background(), s.SuperURL())
		Check(tb, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			conn.Exec(context.Background(), `insert into probe values (1)`)
		}()
		Eventually(tb, "a commit waits or has ended", func() bool {
			select {
			case <-ended:
				return true
			default:
			}
			done, err := super.Exec(context.Background(), `select pg_terminate_backend(pid) from pg_stat_activity
				where pid = $1 and wait_event = 'SyncRep'`, conn.PgConn().PID())
			Check(tb, err)
			waits = done.RowsAffected() > 0
			return waits
		})
		<-ended
		conn.Close(context.Background())
	}
}

// FindStandby makes the commits of s wait for no standby. Commits that are already waiting stop waiting.
func FindStandby(tb testing.TB, s *local.Server) {
	tb.Helper()
	Exec(tb, s, `alter system reset synchronous_standby_names`, `select pg_reload_conf()`)
}

// Interrupt calls a function such as pg_cancel_backend for every backend of s that waits for a standby. It repeats
// that until stop is called.
func Interrupt(tb testing.TB, s *local.Server, function string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
				Exec(tb, s, `select `+function+`(pid) from pg_stat_activity where wait_event = 'SyncRep'`)
			}
		}
	}()
	return func() { close(done); <-ended }
}

// Standby starts a hot standby of s. It returns a function that changes a connection string of s so that it leads to
// the standby.
func Standby(tb testing.TB, s *local.Server) (at func(url string) string) {
	tb.Helper()
	conn, err := pgx.Connect(context.Background(), s.SuperURL())
	Check(tb, err)
	defer conn.Close(context.Background())
	var bin, data string
	err = conn.QueryRow(context.Background(),
		`select setting, current_setting('data_directory') from pg_config where name = 'BINDIR'`).Scan(&bin, &data)
	Check(tb, err)
	info, err := os.Stat(data)
	Check(tb, err)
	dir, err := Dir()
	Check(tb, err)
	tb.Cleanup(func() { os.RemoveAll(dir) })
	owner := info.Sys().(*syscall.Stat_t)
	Check(tb, os.Chown(dir, int(owner.Uid), int(owner.Gid)))
	var output bytes.Buffer
	command := func(name string, args ...string) *exec.Cmd {
		c := exec.Command(filepath.Join(bin, name), args...)
		c.Dir, c.Stdout, c.Stderr = dir, &output, &output
		if os.Geteuid() == 0 {
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
		}
		return c
	}
	copied := filepath.Join(dir, "data")
	err = command("pg_basebackup", "--dbname", s.SuperURL(), "--pgdata", copied, "--write-recovery-conf",
		"--checkpoint=fast").Run()
	if err != nil {
		tb.Fatalf("pg_basebackup: %v\n%s", err, &output)
	}
	standby := command("postgres", "-D", copied, "-c", "unix_socket_directories="+dir, "-c", "port=5432",
		"-c", "listen_addresses=", "-c", "fsync=off")
	Check(tb, standby.Start())
	tb.Cleanup(func() {
		standby.Process.Signal(syscall.SIGINT)
		standby.Wait()
		if tb.Failed() {
			tb.Logf("output of the standby:\n%s", &output)
		}
	})
	at = func(direct string) string {
		u, err := url.Parse(direct)
		Check(tb, err)
		u.RawQuery = url.Values{"host": {dir}, "port": {"5432"}, "sslmode": {"disable"}}.Encode()
		return u.String()
	}
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		conn, err := pgx.Connect(context.Background(), at(s.SuperURL()))
		if err == nil {
			conn.Close(context.Background())
			return at
		}
		if time.Since(begin) > WaitTimeout {
			tb.Fatalf("the standby does not start: %v", err)
		}
	}
}
