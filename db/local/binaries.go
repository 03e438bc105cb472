//go:build unix

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

const (
	oldestMajor = 15
	installHint = "Debian, Ubuntu: apt install postgresql; Fedora, RHEL: dnf install postgresql-server; " +
		"macOS: brew install postgresql"
	// versionHint has the packages of one major version. Those of a distribution have only one or two.
	versionHint = "Debian, Ubuntu: apt install postgresql-%[1]d, with the repository of https://apt.postgresql.org; " +
		"Fedora, RHEL: dnf install postgresql%[1]d-server, with that of https://yum.postgresql.org; " +
		"macOS: brew install postgresql@%[1]d"
)

// tools are the binaries of one PostgreSQL installation.
type tools struct {
	postgres, initdb string
	major            int
}

// findTools returns the first installation that can run the cluster. Its version must be the major version of the
// cluster or, if there is no cluster yet, 15 or newer.
func (s *Server) findTools() (tools, error) {
	want := 0
	version, err := s.readCluster("PG_VERSION")
	if err == nil {
		if want, err = strconv.Atoi(strings.TrimSpace(string(version))); err != nil {
			return tools{}, fmt.Errorf("cluster %s: PG_VERSION: %w", s.cluster, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return tools{}, err
	}
	folders := s.options.Folders
	if folders == nil {
		folders = usualFolders()
	}
	var rejected []string
	newest := 0
	for i, folder := range folders {
		if slices.Contains(folders[:i], folder) {
			continue
		}
		t, err := s.inspect(folder)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			rejected = append(rejected, fmt.Sprintf("%s (%v)", folder, err))
		case want == 0 && t.major >= oldestMajor, want != 0 && t.major == want:
			return t, s.checkEnter(t.postgres)
		default:
			newest = max(newest, t.major)
			rejected = append(rejected, fmt.Sprintf("%s (version %d)", folder, t.major))
		}
	}
	need, hint, found := fmt.Sprintf("%d or newer", oldestMajor), installHint, ""
	if want != 0 {
		need = fmt.Sprintf("%d, which created the cluster %s,", want, s.cluster)
		hint = fmt.Sprintf(versionHint, want)
	}
	if want >= oldestMajor && newest > want {
		return tools{}, fmt.Errorf("%w: the cluster %s was created by version %d, and only version %d is installed: "+
			"install version %[3]d too, and run `spoolwright upgrade-data` to use version %[4]d from now on (%[5]s)",
			ErrNoPostgres, s.cluster, want, newest, hint)
	}
	if len(rejected) > 0 {
		found = "; found only " + strings.Join(rejected, ", ")
	}
	cause := ErrNoPostgres
	if _, ok := ThisPackage(); ok && (want == 0 || want == packageMajor) {
		cause = ErrInstallable
		hint += "; or run `spoolwright install-postgres`"
	}
	return tools{}, fmt.Errorf("%w: install version %s (%s), or set DATABASE_URL%s", cause, need, hint, found)
}

// usualFolders returns the folders that may contain the binaries, in order of preference.
func usualFolders() []string {
	var folders []string
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		p, err := exec.LookPath(filepath.Join(folder, "postgres"))
		if err != nil || !filepath.IsAbs(folder) {
			continue
		}
		if p, err = filepath.EvalSymlinks(p); err == nil { // initdb is beside the target of the link
			folders = append(folders, filepath.Dir(p))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",
		"/usr/bin",
		"/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
		"/opt/homebrew/bin",
		"/usr/local/bin",
	} {
		found, _ := filepath.Glob(pattern)
		slices.Reverse(found) // newest version first
		folders = append(folders, found...)
	}
	return append(folders, FetchedFolders()...)
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// inspect returns the binaries in folder and their version. The error is fs.ErrNotExist if a binary is missing.
func (s *Server) inspect(folder string) (tools, error) {
	t := tools{postgres: filepath.Join(folder, "postgres"), initdb: filepath.Join(folder, "initdb")}
	for _, binary := range []string{t.postgres, t.initdb} {
		if _, err := os.Stat(binary); err != nil {
			return t, err
		}
	}
	out, err := run(s.command(context.Background(), t.postgres, "--version"))
	if err != nil {
		return t, fmt.Errorf("does not run as account %s: %w", s.account.name, err)
	}
	m := versionLine.FindStringSubmatch(out)
	if m == nil {
		return t, fmt.Errorf("unknown version %q", strings.TrimSpace(out))
	}
	t.major, err = strconv.Atoi(m[1])
	return t, err
}

// checkEnter returns an error if PostgreSQL's account cannot enter the folder of the cluster. If Options.Elsewhere is
// set, it places a new cluster there instead. It runs a command in the folder instead of reading permission bits, so
// that access control lists are respected.
func (s *Server) checkEnter(binary string) error {
	if s.account.cred == nil || s.enters(binary, filepath.Dir(s.cluster)) {
		return nil
	}
	if _, err := os.Stat(s.cluster); s.options.Elsewhere != "" && !s.options.Throwaway &&
		errors.Is(err, fs.ErrNotExist) {
		if err := s.relocate(s.options.Elsewhere); err != nil {
			return err
		}
		if s.enters(binary, filepath.Dir(s.cluster)) {
			s.log.Info("PostgreSQL's account cannot enter the data folder, so its files are in another folder",
				"account", s.account.name, "data", s.dir, "postgres", s.cluster)
			return nil
		}
	}
	path := "/"
	for _, name := range strings.Split(strings.TrimPrefix(s.dir, "/"), "/") {
		path = filepath.Join(path, name)
		if !s.enters(binary, path) {
			break
		}
	}
	return fmt.Errorf("PostgreSQL runs as account %s when the service is started as root, and that account "+
		"cannot enter %s: run chmod o+x %q, or set DATA_DIR to another folder", s.account.name, path, path)
}

// enters reports whether PostgreSQL's account can use dir as its working directory.
func (s *Server) enters(binary, dir string) bool {
	c := s.command(context.Background(), binary, "--version")
	c.Dir = dir
	_, err := run(c)
	return !errors.Is(err, fs.ErrPermission)
}

// command returns a command that runs as PostgreSQL's account, in a new session, with a minimal environment.
func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = "/"
	c.Env = []string{"LC_ALL=C", "TZ=UTC"}
	for _, k := range []string{"PATH", "LD_LIBRARY_PATH", "TMPDIR"} {
		if v := os.Getenv(k); v != "" {
			c.Env = append(c.Env, k+"="+v)
		}
	}
	c.SysProcAttr = attributes(s.account.cred, true)
	return c
}

// run runs c and returns its combined output. It keeps the thread that started c alive until c ends, because Linux
// sends the parent-death signal when this thread ends.
func run(c *exec.Cmd) (output string, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := c.CombinedOutput()
	return string(out), err
}
