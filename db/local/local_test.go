package local_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"spoolwright/db/local"
	"spoolwright/tests/testkit"
)

// A test that needs a second process runs this test binary again with these environment variables.
const (
	childMode = "LOCAL_TEST_CHILD"
	childDir  = "LOCAL_TEST_DIR"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		if err := child(mode, os.Getenv(childDir)); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	programs, err := testkit.UsePostgres()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	status := m.Run()
	os.RemoveAll(programs)
	os.Exit(status)
}

// child starts a server in the mode, prints its postmaster's process id, and stops it when standard input ends.
func child(mode, dir string) error {
	ctx := context.Background()
	begin := local.Start
	if mode == "attach" {
		begin = local.Attach
	}
	s, err := begin(ctx, local.Options{Dir: dir, Throwaway: mode == "throwaway"})
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, s.OwnerURL())
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "create table if not exists made_by_child as select 1"); err != nil {
		return err
	}
	conn.Close(ctx)
	fmt.Println("pid", s.PID())
	io.Copy(io.Discard, os.Stdin)
	return s.Stop(ctx)
}

// startChild runs child in a second process and returns that process, its standard input, and the pid of its
// postmaster.
func startChild(t *testing.T, mode, dir string, cred *syscall.Credential) (*exec.Cmd, io.Closer, int) {
	t.Helper()
	bin, err := os.Executable()
	check(t, err)
	if cred != nil { // other accounts cannot enter the folder of the test binary
		// cp copies it, not this process: a child that another test forks meanwhile would inherit the open file and
		// keep it from being executed ("text file busy").
		copied := filepath.Join(folder(t), "test")
		check(t, exec.Command("cp", bin, copied).Run())
		check(t, os.Chmod(copied, 0o755))
		bin = copied
	}
	c := exec.Command(bin)
	c.Dir = "/"
	c.Env = append(os.Environ(), childMode+"="+mode, childDir+"="+dir)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Setsid: true}
	in, err := c.StdinPipe()
	check(t, err)
	out, err := c.StdoutPipe()
	check(t, err)
	check(t, c.Start())
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	check(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "pid ")))
	if err != nil {
		t.Fatalf("the child printed %q", line)
	}
	t.Cleanup(func() {
		if t.Failed() && running(pid) {
			syscall.Kill(pid, syscall.SIGQUIT)
			gone(t, pid)
		}
	})
	return c, in, pid
}

// folder returns a temporary folder that PostgreSQL's account can enter, which t.TempDir's cannot be when root runs
// tests. It is in memory if possible: most of the time of initdb and of a stop is that of writing to a disk.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := testkit.Dir()
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	return dir
}

func check(t *testing.T, err error) {
	t.Helper()
	testkit.Check(t, err)
}

func start(t *testing.T, o local.Options) *local.Server {
	t.Helper()
	begin := time.Now()
	s, err := local.Start(t.Context(), o)
	check(t, err)
	t.Logf("start of %s took %v", o.Dir, time.Since(begin).Round(time.Millisecond))
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *local.Server) {
	t.Helper()
	check(t, s.Stop(context.Background()))
	if running(s.PID()) {
		t.Errorf("postmaster %d still runs", s.PID())
	}
}

func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if runtime.GOOS != "linux" {
		return syscall.Kill(pid, 0) == nil
	}
	return err == nil && !strings.Contains(string(b), ") Z ")
}

func gone(t *testing.T, pid int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("process %d has ended", pid), func() bool { return !running(pid) })
}

func query(ctx context.Context, url, sql string) (string, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	var text *string
	rows, err := conn.Query(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	if rows.Next() {
		err = rows.Scan(&text)
	}
	rows.Close()
	if text == nil {
		return "", errors.Join(err, rows.Err())
	}
	return *text, errors.Join(err, rows.Err())
}

func expect(t *testing.T, url, sql, want string) {
	t.Helper()
	got, err := query(t.Context(), url, sql)
	if err != nil || got != want {
		t.Fatalf("%s: got %q, %v; want %q", sql, got, err, want)
	}
}

func TestStartAndStop(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folder(t), "made", "here")
	s := start(t, local.Options{Dir: dir})
	expect(t, s.OwnerURL(), "create table kept as select 'data' as d", "")

	t.Run("roles", func(t *testing.T) {
		expect(t, s.OwnerURL(), "select current_user::text", local.OwnerRole)
		expect(t, s.AppURL(), "select current_user::text", local.LoginRole)
		expect(t, s.AppURL(), "select set_config('role', 'spoolwright_app', true)", local.AppRole)
		expect(t, s.SuperURL(), `
			select string_agg(concat_ws(' ', rolname, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolcanlogin),
				', ' order by rolname)
			from pg_roles where rolname ~ '^spoolwright'`,
			"spoolwright_app f f f f f, spoolwright_login f f f f t, spoolwright_owner f f f f t")
		expect(t, s.SuperURL(), `
			select count(*)::text from pg_shdepend
			where refobjid = 'spoolwright_login'::regrole and deptype = 'o'`, "0")
		for _, sql := range []string{
			"create table public.x()", "create schema x", "create temp table x()", "select * from kept",
			"create database x",
		} {
			if _, err := query(t.Context(), s.AppURL(), sql); err == nil || !strings.Contains(err.Error(), "42501") {
				t.Errorf("the service's login may %s: %v", sql, err)
			}
		}
	})
	t.Run("settings", func(t *testing.T) {
		for name, want := range map[string]string{
			"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "data_checksums": "on",
			"listen_addresses": "", "unix_socket_permissions": "0700",
			"TimeZone": "UTC", "jit": "off", "server_encoding": "UTF8",
		} {
			expect(t, s.AppURL(), "select current_setting('"+name+"')", want)
		}
		expect(t, s.AppURL(), "select datcollate from pg_database where datname = current_database()", "C")
		expect(t, s.AppURL(), "select string_agg(x, '' order by x) from unnest('{a,B,ä,Z}'::text[]) x", "BZaä")
		expect(t, s.AppURL(), "select ('GRÜN' ilike 'grün')::text", "true")
	})
	t.Run("log contains no values of rows", func(t *testing.T) {
		expect(t, s.OwnerURL(), "create table once (v text primary key)", "")
		for _, url := range []string{s.OwnerURL(), s.SuperURL()} {
			// A violated constraint has a detail that quotes the row.
			_, err := query(t.Context(), url,
				"insert into once select repeat('secret ', n) from (values (2), (2)) v (n)")
			if err == nil || !strings.Contains(err.Error(), "23505") {
				t.Errorf("got %v", err)
			}
		}
		b, err := os.ReadFile(filepath.Join(dir, "postgres.log"))
		check(t, err)
		if !strings.Contains(string(b), "once_pkey") || strings.Contains(string(b), "secret secret") {
			t.Errorf("the log has no line about the error, or a value:\n%s", b)
		}
	})
	t.Run("closed to others", func(t *testing.T) {
		for name, want := range map[string]os.FileMode{
			"postgres": 0o700, "postgres.run": 0o700,
			"postgres.passwords": 0o600, "postgres.log": 0o600, "postgres.lock": 0o600,
		} {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, want)
			}
		}
		config, err := pgx.ParseConfig(s.SuperURL())
		check(t, err)
		for _, password := range []string{"", "wrong"} {
			config.Password = password
			if _, err := pgx.ConnectConfig(t.Context(), config); err == nil {
				t.Errorf("password %q is accepted", password)
			}
		}
		expect(t, s.SuperURL(), "select string_agg(distinct auth_method, ',') from pg_hba_file_rules", "scram-sha-256")
	})
	t.Run("second service", func(t *testing.T) {
		_, err := local.Start(t.Context(), local.Options{Dir: dir})
		if !errors.Is(err, local.ErrInUse) || !strings.Contains(err.Error(), dir) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("attach", func(t *testing.T) {
		a, err := local.Attach(t.Context(), local.Options{Dir: dir})
		check(t, err)
		if a.PID() != s.PID() {
			t.Errorf("attached to %d, not %d", a.PID(), s.PID())
		}
		expect(t, a.OwnerURL(), "select d from kept", "data")
		check(t, a.Stop(t.Context()))
		check(t, a.Stop(t.Context()))
		expect(t, s.OwnerURL(), "select d from kept", "data")
	})

	stop(t, s)
	a, err := local.Attach(t.Context(), local.Options{Dir: dir})
	check(t, err)
	expect(t, a.OwnerURL(), "select d from kept", "data")
	t.Run("service waits for a command", func(t *testing.T) {
		time.AfterFunc(100*time.Millisecond, func() { a.Stop(context.Background()) })
		s = start(t, local.Options{Dir: dir, Settings: map[string]string{"work_mem": "7MB"}})
		expect(t, s.OwnerURL(), "select d || current_setting('work_mem') from kept", "data7MB")
	})
	if _, err := os.Stat(filepath.Join(dir, "postgres.run")); !os.IsNotExist(err) {
		t.Errorf("socket folder: %v", err)
	}
}

func TestStartAdoptsRunningPostgreSQL(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	c, _, pid := startChild(t, "start", dir, nil)
	check(t, c.Process.Kill())
	c.Wait()
	s := start(t, local.Options{Dir: dir})
	if s.PID() != pid {
		t.Errorf("postmaster is %d, not the adopted %d", s.PID(), pid)
	}
	expect(t, s.OwnerURL(), "select count(*)::text from made_by_child", "1")

	check(t, syscall.Kill(pid, syscall.SIGKILL))
	wantBack(t, s, pid, "select count(*)::text from made_by_child", "1")
	stop(t, s)

	// After a crash, postmaster.pid may name a process id that another program has by now.
	check(t, os.WriteFile(filepath.Join(dir, "postgres", "postmaster.pid"),
		fmt.Appendf(nil, "%d\n%s\n1\n5432\n%s\n\n0 0\nready   \n", os.Getpid(), dir, dir), 0o600))
	s = start(t, local.Options{Dir: dir})
	expect(t, s.OwnerURL(), "select count(*)::text from made_by_child", "1")
}

// copyLock returns a copy of the descriptor that locks a data folder, as a child process has it until it calls exec.
func copyLock(t *testing.T, dir string) int {
	t.Helper()
	file, err := os.Stat(filepath.Join(dir, "postgres.lock"))
	check(t, err)
	want := file.Sys().(*syscall.Stat_t)
	for open := range 1000 {
		var got syscall.Stat_t
		if syscall.Fstat(open, &got) == nil && got.Dev == want.Dev && got.Ino == want.Ino {
			copied, err := syscall.Dup(open)
			check(t, err)
			return copied
		}
	}
	t.Fatal("no descriptor locks the data folder")
	return 0
}

// A child process that this process starts at the same time must not keep the data folder locked.
func TestChildDoesNotKeepLock(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	s := start(t, local.Options{Dir: dir})
	child := copyLock(t, dir)
	defer syscall.Close(child)
	stop(t, s)
	start(t, local.Options{Dir: dir})
}

func TestRestart(t *testing.T) {
	t.Parallel()
	s := start(t, local.Options{Dir: folder(t)})
	expect(t, s.OwnerURL(), "create table kept as select 'data' as d", "")
	// A busy backend of the old PostgreSQL does not notice that its postmaster died.
	conn, err := pgx.Connect(t.Context(), s.SuperURL())
	check(t, err)
	defer conn.Close(context.Background())
	busy := make(chan error)
	go func() {
		_, err := conn.Exec(context.Background(),
			"do $$ declare i bigint := 0; begin loop i := i + 1; end loop; end $$")
		busy <- err
	}()
	testkit.Eventually(t, "the backend is busy", func() bool {
		n, err := query(t.Context(), s.SuperURL(), `select count(*)::text from pg_stat_activity
			where state = 'active' and query like 'do $$%'`)
		return err == nil && n == "1"
	})
	pid := s.PID()
	check(t, syscall.Kill(pid, syscall.SIGKILL))
	wantBack(t, s, pid, "select d from kept", "data")
	if err := <-busy; err == nil {
		t.Error("the old backend is still running")
	}
}

func wantBack(t *testing.T, s *local.Server, old int, sql, want string) {
	t.Helper()
	testkit.Eventually(t, "PostgreSQL is back", func() bool {
		got, err := query(t.Context(), s.OwnerURL(), sql)
		if err != nil || s.PID() == old {
			return false
		}
		if got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
		return true
	})
}

func TestThrowaway(t *testing.T) {
	t.Parallel()
	parent := folder(t)
	for _, name := range []string{"plain", strings.Repeat("long/", 25), `sp ace, 'quote' "double" ünï+%\ $HOME`} {
		t.Run(name[:5], func(t *testing.T) {
			dir := filepath.Join(parent, name)
			s := start(t, local.Options{Dir: dir, Throwaway: true})
			expect(t, s.OwnerURL(), "select current_setting('fsync')", "off")
			if psql, err := exec.LookPath("psql"); err == nil {
				if out, err := exec.Command(psql, "-Atc", "select 1",
					s.AppURL()).CombinedOutput(); string(out) != "1\n" {
					t.Errorf("psql: %s %v", out, err)
				}
			}
			config, err := pgx.ParseConfig(s.AppURL())
			check(t, err)
			stop(t, s)
			for _, path := range []string{dir, config.Host} {
				if _, err := os.Stat(path); !os.IsNotExist(err) {
					t.Errorf("%s is left: %v", path, err)
				}
			}
		})
	}
}

func TestThrowawayDiesWithItsOwner(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux's parent death signal")
	}
	dir := folder(t)
	c, _, pid := startChild(t, "throwaway", dir, nil)
	check(t, c.Process.Kill())
	gone(t, pid)
	c.Wait()
	stop(t, start(t, local.Options{Dir: dir, Throwaway: true})) // the files it left do not prevent a new start
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestHalfDoneInitdb(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	check(t, os.MkdirAll(filepath.Join(dir, "throwaway.new", "data", "base"), 0o700))
	half := filepath.Join(dir, "postgres.new", "data")
	check(t, os.MkdirAll(half, 0o700))
	check(t, os.WriteFile(filepath.Join(half, "PG_VERSION"), []byte("15\n"), 0o600))
	check(t, os.WriteFile(filepath.Join(dir, "postgres.passwords"), []byte(`{"superuser":`), 0o600))
	s := start(t, local.Options{Dir: dir})
	// A crash between creating the roles and setting the mark leaves this state.
	expect(t, s.SuperURL(), "comment on database spoolwright is null", "")
	expect(t, s.SuperURL(), "revoke spoolwright_app from spoolwright_login", "")
	stop(t, s)
	s = start(t, local.Options{Dir: dir})
	expect(t, s.AppURL(), "select set_config('role', 'spoolwright_app', true)", local.AppRole)
	if _, err := os.Stat(filepath.Dir(half)); !os.IsNotExist(err) {
		t.Errorf("the staging folder is left: %v", err)
	}
}

// A start goes on while the initdb of a program that was killed still writes.
func TestStartWhileInitdbEnds(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	half := filepath.Join(dir, "postgres.new", "data")
	check(t, os.MkdirAll(half, 0o700))
	c := exec.Command("sh", "-c", "n=0; while [ $n -lt 300000 ] && : > f$n; do n=$((n+1)); done 2>/dev/null")
	c.Dir = half
	check(t, c.Start())
	defer c.Wait()
	stop(t, start(t, local.Options{Dir: dir}))
}

// PATH selects the version that tests and users run.
func TestPathComesFirst(t *testing.T) { // not parallel: it changes PATH
	bin := folder(t)
	for name, script := range map[string]string{
		"postgres": "#!/bin/sh\necho 'postgres (PostgreSQL) 99.1'\n",
		"initdb":   "#!/bin/sh\necho 'found in PATH'\nexit 1\n",
	} {
		check(t, os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755))
		check(t, os.Chmod(filepath.Join(bin, name), 0o755))
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	_, err := local.Start(t.Context(), local.Options{Dir: folder(t), Throwaway: true})
	if err == nil || !strings.Contains(err.Error(), "found in PATH") {
		t.Errorf("got %v", err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	fails := func(t *testing.T, o local.Options, is error, words ...string) {
		t.Helper()
		s, err := local.Start(t.Context(), o)
		if err == nil {
			stop(t, s)
			t.Fatal("started")
		}
		t.Log(err)
		if is != nil && !errors.Is(err, is) {
			t.Errorf("%v does not wrap %v", err, is)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v does not name %q", err, w)
			}
		}
	}
	t.Run("no folder", func(t *testing.T) { fails(t, local.Options{}, nil, "data folder") })
	t.Run("no binaries", func(t *testing.T) {
		fails(t, local.Options{Dir: folder(t), Folders: []string{folder(t)}}, local.ErrNoPostgres,
			"apt install postgresql")
	})
	t.Run("other version", func(t *testing.T) {
		dir := folder(t)
		cluster := filepath.Join(dir, "postgres")
		check(t, os.Mkdir(cluster, 0o700))
		check(t, os.WriteFile(filepath.Join(cluster, "PG_VERSION"), []byte("9\n"), 0o600))
		if u, err := user.Lookup("postgres"); err == nil && os.Geteuid() == 0 {
			uid, _ := strconv.Atoi(u.Uid)
			check(t, os.Chown(cluster, uid, -1))
		}
		fails(t, local.Options{Dir: dir}, local.ErrNoPostgres, "version 9", cluster, "apt install postgresql-9,")
	})
	t.Run("older version", func(t *testing.T) { // as after an upgrade of the operating system
		dir, bin := folder(t), folder(t)
		check(t, os.Chmod(bin, 0o755))
		for _, name := range []string{"postgres", "initdb"} {
			script := "#!/bin/sh\necho 'postgres (PostgreSQL) 17.2'\n"
			check(t, os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755))
			check(t, os.Chmod(filepath.Join(bin, name), 0o755))
		}
		cluster := filepath.Join(dir, "postgres")
		check(t, os.Mkdir(cluster, 0o700))
		check(t, os.WriteFile(filepath.Join(cluster, "PG_VERSION"), []byte("15\n"), 0o600))
		if u, err := user.Lookup("postgres"); err == nil && os.Geteuid() == 0 {
			uid, _ := strconv.Atoi(u.Uid)
			check(t, os.Chown(cluster, uid, -1))
		}
		fails(t, local.Options{Dir: dir, Folders: []string{bin}}, local.ErrNoPostgres, "was created by version 15",
			"only version 17", "spoolwright upgrade-data", "apt install postgresql-15,", "https://apt.postgresql.org",
			"postgresql15-server", "postgresql@15")
	})
	t.Run("wrong setting", func(t *testing.T) {
		settings := map[string]string{"shared_buffers": "many"}
		fails(t, local.Options{Dir: folder(t), Throwaway: true, Settings: settings}, nil, "shared_buffers", "many")
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		dir := folder(t)
		if _, err := local.Start(ctx, local.Options{Dir: dir, Throwaway: true}); err == nil {
			t.Error("started")
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
	})
	if os.Geteuid() != 0 {
		t.Skip("the remaining cases need root")
	}
	t.Run("not enterable", func(t *testing.T) {
		shut := filepath.Join(folder(t), "shut")
		check(t, os.Mkdir(shut, 0o700))
		check(t, os.Mkdir(filepath.Join(shut, "data"), 0o711))
		fails(t, local.Options{Dir: filepath.Join(shut, "data")}, nil, shut+":", "chmod o+x")
	})
	t.Run("other account", func(t *testing.T) {
		dir := folder(t)
		check(t, os.Chown(dir, 65534, -1))
		fails(t, local.Options{Dir: dir}, nil, dir, "nobody")
	})
	t.Run("foreign socket folder", func(t *testing.T) {
		dir := folder(t)
		check(t, os.Symlink(folder(t), filepath.Join(dir, "postgres.run")))
		fails(t, local.Options{Dir: dir}, nil, "postgres.run")
	})
}

func TestUnprivileged(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("without root, the other tests already run unprivileged")
	}
	nobody := &syscall.Credential{Uid: 65534, Gid: 65534}
	dir := folder(t)
	check(t, os.Chmod(dir, 0o700))
	check(t, os.Chown(dir, 65534, 65534))
	for _, mode := range []string{"start", "attach"} {
		c, in, pid := startChild(t, mode, dir, nobody)
		if info, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil &&
			info.Sys().(*syscall.Stat_t).Uid != 65534 {
			t.Error("PostgreSQL does not run as nobody")
		}
		in.Close()
		check(t, c.Wait())
		gone(t, pid)
	}
	_, err := local.Start(t.Context(), local.Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("root accepted the data folder of another account: %v", err)
	}
}

// TestDataFolderOutOfReach checks a data folder that PostgreSQL's account cannot enter: a new cluster is in another
// folder, to which the data folder links, and later starts use it.
func TestDataFolderOutOfReach(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root; otherwise PostgreSQL runs as the same account")
	}
	shut := filepath.Join(folder(t), "shut")
	check(t, os.Mkdir(shut, 0o700))
	var log bytes.Buffer
	o := local.Options{
		Dir:       filepath.Join(shut, "data"),
		Elsewhere: filepath.Join(folder(t), "lib"), // short, for the address of the socket
		Log:       slog.New(slog.NewTextHandler(&log, nil)),
	}
	s := start(t, o)
	expect(t, s.OwnerURL(), "create table kept as select 'data' as d", "")
	target, err := os.Readlink(filepath.Join(o.Dir, "postgres"))
	check(t, err)
	if filepath.Dir(target) != o.Elsewhere || strings.Count(log.String(), target) != 1 || !local.Exists(o.Dir) {
		t.Errorf("the data folder links to %s; the log is\n%s", target, &log)
	}
	// docs/backup.md names the socket in the data folder.
	login, _, _ := strings.Cut(s.OwnerURL(), "host=")
	config, err := pgx.ParseConfig(login + "host=" + url.QueryEscape(filepath.Join(o.Dir, "postgres.run")) +
		"&port=5432")
	check(t, err)
	conn, err := pgx.ConnectConfig(t.Context(), config)
	check(t, err)
	check(t, conn.Close(t.Context()))
	stop(t, s)
	for _, elsewhere := range []string{o.Elsewhere, ""} {
		o.Elsewhere = elsewhere
		a, err := local.Attach(t.Context(), o)
		check(t, err)
		expect(t, a.OwnerURL(), "select d from kept", "data")
		check(t, a.Stop(t.Context()))
	}
	// Another account that can change the folder could replace the cluster.
	check(t, os.Chmod(filepath.Dir(target), 0o777))
	if _, err := local.Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "not a symbolic link") {
		t.Errorf("with a folder that others can change: %v", err)
	}
}
