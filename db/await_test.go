package db_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"spoolwright/app"
	"spoolwright/db"
	"spoolwright/tests/testkit"
)

// A program that starts while the database is away waits for it, and says so every few seconds.
func TestStartWaitsForDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		begin := time.Now()
		err := db.Await(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), time.Minute,
			func(context.Context) error {
				if time.Since(begin) < 12*time.Second {
					return fmt.Errorf("database: %w", &net.OpError{Op: "dial", Err: errors.New("connection refused")})
				}
				return nil
			})
		if took := time.Since(begin); err != nil || took < 12*time.Second || took > 13*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		if n := strings.Count(log.String(), "waiting for the database"); n != 3 ||
			!strings.Contains(log.String(), "connection refused") {
			t.Errorf("the log has %d lines: %s", n, &log)
		}

		begin = time.Now()
		last := errors.New("connection refused")
		err = db.Await(t.Context(), slog.New(slog.DiscardHandler), time.Minute, func(context.Context) error {
			return &net.OpError{Op: "dial", Err: last}
		})
		if took := time.Since(begin); !errors.Is(err, last) || took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("a database that stays away: %v after %v", err, took)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begin = time.Now()
		db.Await(ctx, slog.New(slog.DiscardHandler), time.Minute,
			func(context.Context) error { return io.ErrUnexpectedEOF })
		testkit.Equal(t, time.Since(begin), 5*time.Second, "a program that is stopped waits for")
	})
}

// Await waits for what may pass, and for nothing else.
func TestAwaitErrors(t *testing.T) {
	t.Parallel()
	s := testkit.Cluster(t, nil)
	super := connect(t, s.SuperURL())
	login, err := url.Parse(s.AppURL())
	testkit.Check(t, err)
	change := func(change func(u *url.URL)) string {
		u := *login
		change(&u)
		return u.String()
	}
	query := func(name, value string) string {
		return change(func(u *url.URL) {
			q := u.Query()
			q.Set(name, value)
			u.RawQuery = q.Encode()
		})
	}
	attempts := func(url string) (n int, err error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err = db.Await(ctx, slog.New(slog.DiscardHandler), testkit.WaitTimeout, func(ctx context.Context) error {
			if n++; n == 2 {
				cancel()
			}
			d, err := db.Open(ctx, db.Config{URL: url, MaxConns: 1, Definitions: app.Definitions})
			if err == nil {
				d.Close()
			}
			return err
		})
		return n, err
	}
	for name, url := range map[string]string{
		"right":          s.AppURL(),
		"wrong password": change(func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "wrong") }),
		"unknown login":  change(func(u *url.URL) { u.User = url.UserPassword("nobody", "x") }),
		"no database":    change(func(u *url.URL) { u.Path = "/absent" }),
		"not migrated":   change(func(u *url.URL) { u.Path = "/postgres" }),
		"bad URL":        "postgres://host:port/",
	} {
		if n, err := attempts(url); n != 1 || (err == nil) != (name == "right") {
			t.Errorf("%s: %d attempts, %v", name, n, err)
		}
	}
	exec(t, super, `alter database `+strings.TrimPrefix(login.Path, "/")+` set default_transaction_read_only = on`)
	for name, url := range map[string]string{
		"no socket":      query("host", t.TempDir()),
		"no listener":    "postgres://login:x@127.0.0.1:1/spoolwright",
		"a standby":      s.AppURL(),
		"no primary yet": query("target_session_attrs", "read-write"),
	} {
		if n, err := attempts(url); n != 2 || err == nil {
			t.Errorf("%s: %d attempts, %v", name, n, err)
		}
	}
	for code, waits := range map[string]bool{"57P03": true, "53300": true, "57P01": true, "42501": false,
		"28000": false} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		db.Await(ctx, slog.New(slog.DiscardHandler), testkit.WaitTimeout, func(context.Context) error {
			if n++; n == 2 {
				cancel()
			}
			return fmt.Errorf("database: %w", &pgconn.PgError{Code: code})
		})
		testkit.Equal(t, n > 1, waits, "SQLSTATE %s: %d attempts", code, n)
	}
}
