package dbtest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/db"
	"spoolwright/db/local"
)

// Synchronous are the settings of a PostgreSQL whose commits can wait for a standby.
var Synchronous = map[string]string{"synchronous_commit": "on", "wal_level": "replica", "max_wal_senders": "4"}

// Cluster starts and migrates a PostgreSQL for one test.
func Cluster(tb testing.TB, settings map[string]string) *local.Server {
	tb.Helper()
	dir, err := Dir()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	s, err := local.Start(context.Background(), local.Options{Dir: dir, Throwaway: true, Settings: settings})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	if _, err := db.Migrate(context.Background(), s.OwnerURL(), s.AppURL(), Definitions); err != nil {
		tb.Fatal(err)
	}
	return s
}

// Exec runs statements as the superuser of s.
func Exec(tb testing.TB, s *local.Server, statements ...string) {
	tb.Helper()
	conn, err := pgx.Connect(context.Background(), s.SuperURL())
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, sql := range statements {
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			tb.Fatalf("%s: %v", sql, err)
		}
	}
}

// LoseStandby makes the commits of s wait for a standby that does not exist. FindStandby ends that.
func LoseStandby(tb testing.TB, s *local.Server) {
	tb.Helper()
	Exec(tb, s, `create table if not exists probe (n int)`,
		`alter system set synchronous_standby_names = 'absent'`, `select pg_reload_conf()`)
	for waits := false; !waits; { // PostgreSQL does not say when the setting is in force
		conn, err := pgx.Connect(context.Background(), s.SuperURL())
		if err != nil {
			tb.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		_, err = conn.Exec(ctx, `insert into probe values (1)`)
		waits = err != nil
		cancel()
		conn.Close(context.Background())
	}
}

// FindStandby makes the commits of s wait for no standby, those included that wait already.
func FindStandby(tb testing.TB, s *local.Server) {
	tb.Helper()
	Exec(tb, s, `alter system reset synchronous_standby_names`, `select pg_reload_conf()`)
}

// Interrupt calls a function such as pg_cancel_backend for every backend of s that waits for a standby, until stop is
// called.
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
