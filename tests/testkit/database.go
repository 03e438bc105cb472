// Package testkit contains what tests share: a private, migrated PostgreSQL that ends with the tests, and the real
// handler. Users of new tenants call the handler over HTTP, and testkit checks the responses against the OpenAPI
// document. The package is not part of the program.
package testkit

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/app"
	"spoolwright/db"
	"spoolwright/db/local"
	"spoolwright/value"
)

var (
	private *local.Server
	folder  string // of private
)

// Main is the TestMain of a package whose tests need a database. If PostgreSQL cannot start, Main prints one line, and
// the tests fail.
func Main(m *testing.M) { os.Exit(Run(m)) }

//go:embed initdb.sh
var initdb string

// UsePostgres puts a folder first in PATH whose initdb is fast, because it copies the first cluster that it created.
// If POSTGRES_BIN is set, the tests use the PostgreSQL and the client programs in that folder. The caller must remove
// the folder that UsePostgres returns.
func UsePostgres() (folder string, err error) {
	if folder := os.Getenv("POSTGRES_BIN"); folder != "" {
		os.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	if folder, err = Dir(); err != nil {
		return "", err
	}
	bin := TruePostgres()
	if bin == "" {
		return folder, nil
	}
	// Other accounts run the scripts, and create their clusters in the folder.
	err = os.Chmod(folder, 0o777|os.ModeSticky)
	for name, script := range map[string]string{
		"initdb":   strings.ReplaceAll(initdb, "$POSTGRES", bin),
		"postgres": "#!/bin/sh\nexec '" + bin + "/postgres' \"$@\"\n",
	} {
		path := filepath.Join(folder, name)
		err = errors.Join(err, os.WriteFile(path, []byte(script), 0o755), os.Chmod(path, 0o755))
	}
	path := folder + string(os.PathListSeparator) + os.Getenv("PATH")
	if slices.Contains(local.FetchedFolders(), bin) { // no folder in PATH has its client programs
		path += string(os.PathListSeparator) + bin
	}
	os.Setenv("PATH", path)
	return folder, err
}

// TruePostgres returns the folder of the PostgreSQL that the tests use, installed or fetched before by
// install-postgres, or "" if there is none.
var TruePostgres = sync.OnceValue(func() string {
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil { // initdb is beside the target of the link
			return filepath.Dir(path)
		}
	}
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	slices.Reverse(folders) // newest version first
	if folders = append(folders, local.FetchedFolders()...); len(folders) == 0 {
		return ""
	}
	return folders[0]
})

// Run is Main, but returns the exit status.
func Run(m *testing.M) int {
	// Tests wait for PostgreSQL, for deadlines and for processes. On two cores, two parallel tests would leave the
	// cores idle.
	flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0)))) // -parallel overrides it
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // a tenth less CPU time, for a few hundred megabytes
	}
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "the tests need PostgreSQL:", err)
		return 1
	}
	programs, err := UsePostgres()
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(programs)
	if folder, err = Dir(); err != nil {
		return fail(err)
	}
	defer os.RemoveAll(folder)
	ctx := context.Background()
	if private, err = local.Start(ctx, local.Options{Dir: folder, Throwaway: true}); err != nil {
		return fail(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		private.Stop(ctx)
	}()
	if _, err := db.Migrate(ctx, private.OwnerURL(), private.AppURL(), app.Definitions); err != nil {
		return fail(err)
	}
	defer printSkips()
	return m.Run()
}

// Dir creates a folder for a private PostgreSQL, in memory if at least 1 GiB is free there. Other accounts may
// traverse the folder. The caller must remove it. Dir also removes the folders of killed test processes.
func Dir() (string, error) {
	base := os.TempDir()
	var free syscall.Statfs_t
	if err := syscall.Statfs("/dev/shm", &free); err == nil && int64(free.Bavail)*int64(free.Bsize) > 1<<30 {
		base = "/dev/shm"
	}
	const prefix = "spoolwright-test-"
	old, _ := filepath.Glob(filepath.Join(base, prefix+"*"))
	for _, path := range old {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), prefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			os.RemoveAll(path)
		}
	}
	dir, err := os.MkdirTemp(base, fmt.Sprintf("%s%d-", prefix, os.Getpid()))
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711)
}

// Private returns the PostgreSQL of this test process.
func Private() *local.Server { return private }

// Folder returns a folder for files that all tests of this process share. The folder is removed when the tests have
// ended.
func Folder() string { return folder }

var shared = sync.OnceValues(func() (*db.DB, error) {
	return db.Open(context.Background(), db.Config{URL: private.AppURL(), MaxConns: 16, Definitions: app.Definitions})
})

// Open returns a pool that all tests of the process share. It uses the login of the service.
func Open(tb testing.TB) *db.DB {
	tb.Helper()
	d, err := shared()
	Check(tb, err)
	return d
}

// Database creates and migrates a database in the private PostgreSQL for one test, and opens it.
func Database(tb testing.TB, c db.Config) *db.DB {
	tb.Helper()
	c.URL, c.Definitions = WithDatabase(private.AppURL(), MigratedDatabase(tb)), app.Definitions
	d, err := db.Open(context.Background(), c)
	Check(tb, err)
	tb.Cleanup(d.Close)
	return d
}

// NewDatabase creates an empty database in the private PostgreSQL for one test, and returns its name.
func NewDatabase(tb testing.TB) (name string) { tb.Helper(); return copyOf(tb, "template1") }

// MigratedDatabase creates a migrated database in the private PostgreSQL for one test, and returns its name.
func MigratedDatabase(tb testing.TB) (name string) {
	tb.Helper()
	name, err := migrated()
	Check(tb, err)
	return copyOf(tb, name)
}

// migrated returns the name of the database that MigratedDatabase copies. A copy takes a fifth of the time of the
// migrations.
var migrated = sync.OnceValues(func() (name string, err error) {
	name = "migrated"
	conn, err := pgx.Connect(context.Background(), private.SuperURL())
	if err != nil {
		return "", err
	}
	defer conn.Close(context.Background())
	if _, err = conn.Exec(context.Background(), "create database "+name+" owner spoolwright_owner"); err != nil {
		return "", err
	}
	_, err = db.Migrate(context.Background(), WithDatabase(private.OwnerURL(), name),
		WithDatabase(private.AppURL(), name), app.Definitions)
	return name, err
})

func copyOf(tb testing.TB, template string) (name string) {
	tb.Helper()
	name = "test_" + strings.ToLower(rand.Text())
	ExecURL(tb, private.SuperURL(), "create database "+name+" template "+template+" owner spoolwright_owner")
	tb.Cleanup(func() { ExecURL(tb, private.SuperURL(), "drop database "+name+" with (force)") })
	return name
}

// WithDatabase changes the database in a connection string of the private PostgreSQL.
func WithDatabase(url, name string) string {
	return strings.Replace(url, "@/spoolwright?", "@/"+name+"?", 1)
}

var allowedText = regexp.MustCompile(`'([^']*)'::text`)

// WantChecked fails the test unless the checks of the column allow exactly these texts, and do not allow null.
func WantChecked(tb testing.TB, table, column string, want []string) {
	tb.Helper()
	wantChecked(tb, table, column, want, true)
}

// WantCheckedOrNull fails the test unless the checks of the column allow exactly these texts and null.
func WantCheckedOrNull(tb testing.TB, table, column string, want []string) {
	tb.Helper()
	wantChecked(tb, table, column, want, false)
}

func wantChecked(tb testing.TB, table, column string, want []string, wantNotNull bool) {
	tb.Helper()
	var checks string
	var notNull bool
	// A check of one column with a list of texts has the form: CHECK ((role = ANY (ARRAY['admin'::text,
	// 'viewer'::text]))). A function valid_… that checks whole rows has a line of the form: u.role in ('admin', 'viewer')
	err := Open(tb).Read(db.As(context.Background(), db.Actor{Tenant: value.NewID()}), db.SQL(`
		select coalesce(string_agg(coalesce(pg_get_constraintdef(c.oid), regexp_replace(
				'CHECK ((' || a.attname || ' = ANY (ARRAY[' || f.list || '])))', '(''[^'']*'')', '\1::text', 'g')), ' and '), ''),
			bool_and(a.attnotnull)
		from pg_attribute a
		left join pg_constraint c on c.conrelid = a.attrelid and c.conkey = array[a.attnum] and c.contype = 'c'
		left join (
			select t.typrelid as conrelid, m[1] as attname, m[2] as list
			from pg_proc p join pg_type t on t.oid = p.proargtypes[0]
			cross join lateral regexp_matches(p.prosrc, '\n\t\t?(?:return|and) \w\.(\w+) in \(([^)]*)\)', 'g') m
			where p.proname like 'valid\_%' and p.pronargs = 1
		) f on f.conrelid = a.attrelid and f.attname = a.attname
		where a.attrelid = $1::text::regclass and a.attname = $2`, table, column).Into(&checks, &notNull))
	Check(tb, err)
	var got []string
	for _, match := range allowedText.FindAllStringSubmatch(checks, -1) {
		got = append(got, match[1])
	}
	form := allowedText.ReplaceAllString(checks, "")
	if !regexp.MustCompile(`^CHECK \(\(`+column+` = ANY \(ARRAY\[[, ]*\]\)\)\)$`).MatchString(form) ||
		notNull != wantNotNull {
		tb.Errorf("%s.%s has not null %v and the checks %s", table, column, notNull, checks)
	}
	slices.Sort(got)
	if want = slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
		tb.Errorf("%s.%s allows %q, and Go %q", table, column, got, want)
	}
}

// CountTrips opens the private database until the test ends, and counts its round trips.
func CountTrips(tb testing.TB) (*db.DB, *atomic.Int64) {
	tb.Helper()
	trips := &atomic.Int64{}
	d, err := db.Open(context.Background(), db.Config{URL: Private().AppURL(), MaxConns: 4,
		RoundTrip: func([]db.Statement) { trips.Add(1) }})
	Check(tb, err)
	tb.Cleanup(d.Close)
	return d, trips
}
