package local_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"spoolwright/db/local"
)

func TestReadPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, mode os.FileMode) {
		t.Helper()
		check(t, os.WriteFile(path(name), []byte("content"), 0o600))
		check(t, os.Chmod(path(name), mode))
	}
	write("good", 0o600)
	write("read-only", 0o400)
	write("readable by the group", 0o640)
	write("readable by others", 0o604)
	write("writable by others", 0o602)
	check(t, os.Symlink("good", path("link")))
	check(t, syscall.Mkfifo(path("pipe"), 0o600))
	check(t, os.Mkdir(path("folder"), 0o700))
	bad := map[string]string{
		"readable by the group": "chmod 600", "readable by others": "chmod 600", "writable by others": "chmod 600",
		"link": "symbolic link", "pipe": "must be a file", "folder": "must be a file",
	}
	if os.Geteuid() == 0 {
		write("of another account", 0o600)
		check(t, os.Chown(path("of another account"), 65534, -1))
		bad["of another account"] = "belongs to account nobody"
	}
	for name, want := range bad {
		b, err := local.ReadPrivate(path(name))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path(name)) {
			t.Errorf("%s: %q, %v, want an error with %q", name, b, err, want)
		}
	}
	for _, name := range []string{"good", "read-only"} {
		if b, err := local.ReadPrivate(path(name)); err != nil || string(b) != "content" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if _, err := local.ReadPrivate(path("missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

// A file that another account has created beforehand, and can read, gets none of the content.
func TestWritePrivate(t *testing.T) {
	t.Parallel()
	for _, planted := range []string{"secret", "secret.new"} {
		for _, kind := range []string{"file", "link", "dangling link"} {
			dir := t.TempDir()
			other, target := filepath.Join(dir, planted), filepath.Join(dir, "target")
			switch kind {
			case "file":
				check(t, os.WriteFile(other, []byte("planted"), 0o600))
				check(t, os.Chmod(other, 0o666))
			case "link":
				check(t, os.WriteFile(target, []byte("planted"), 0o600))
				check(t, os.Symlink(target, other))
			default:
				check(t, os.Symlink(target, other))
			}
			opened, err := os.Open(other)
			if err == nil {
				defer opened.Close()
			}
			path := filepath.Join(dir, "secret")
			check(t, local.WritePrivate(path, []byte("content")))
			if b, err := local.ReadPrivate(path); err != nil || string(b) != "content" {
				t.Errorf("%s %s: %q, %v", kind, planted, b, err)
			}
			if opened != nil {
				b := make([]byte, 100)
				if n, _ := opened.ReadAt(b, 0); string(b[:n]) != "planted" {
					t.Errorf("%s %s: the file that was there before has %q", kind, planted, b[:n])
				}
			}
			if b, err := os.ReadFile(target); err == nil && bytes.Contains(b, []byte("content")) {
				t.Errorf("%s %s: the link was followed", kind, planted)
			}
			if _, err := os.Lstat(path + ".new"); err == nil {
				t.Errorf("%s %s: secret.new is left", kind, planted)
			}
		}
	}
}

func TestUnsafeFolder(t *testing.T) {
	t.Parallel()
	for _, mode := range []os.FileMode{0o777 | os.ModeSticky, 0o770, 0o703} {
		dir := folder(t)
		check(t, os.Chmod(dir, mode))
		_, err := local.Start(t.Context(), local.Options{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), "chmod go-w") || !strings.Contains(err.Error(), dir) {
			t.Errorf("mode %v: %v", mode, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("mode %v: the start created %v, %v", mode, left, err)
		}
	}
}

// When the service runs as root, PostgreSQL's account can create links in the cluster, which root must not follow.
func TestRootFollowsNoLinks(t *testing.T) {
	t.Parallel()
	postgres, err := user.Lookup("postgres")
	if os.Geteuid() != 0 || err != nil {
		t.Skip("needs root and the account postgres")
	}
	uid, err := strconv.Atoi(postgres.Uid)
	check(t, err)
	secret := filepath.Join(t.TempDir(), "secret")
	check(t, os.WriteFile(secret, []byte("hidden\n2\n3\n4\n/tmp\n6\n7\nready\n"), 0o600))

	t.Run("cluster", func(t *testing.T) {
		dir := folder(t)
		elsewhere := folder(t)
		check(t, os.Chown(elsewhere, uid, -1))
		check(t, os.Symlink(elsewhere, filepath.Join(dir, "postgres")))
		check(t, os.Lchown(filepath.Join(dir, "postgres"), uid, -1))
		_, err := local.Start(t.Context(), local.Options{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("PG_VERSION", func(t *testing.T) {
		dir := folder(t)
		cluster := filepath.Join(dir, "postgres")
		check(t, os.Mkdir(cluster, 0o700))
		check(t, os.Symlink(secret, filepath.Join(cluster, "PG_VERSION")))
		check(t, os.Chown(cluster, uid, -1))
		_, err := local.Start(t.Context(), local.Options{Dir: dir})
		if err == nil || strings.Contains(err.Error(), "hidden") || !strings.Contains(err.Error(), "escapes") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("socket folder", func(t *testing.T) {
		dir := folder(t)
		elsewhere := folder(t)
		check(t, os.Chown(elsewhere, uid, -1))
		check(t, os.Chmod(elsewhere, 0o755))
		check(t, os.Symlink(elsewhere, filepath.Join(dir, "postgres.run")))
		check(t, os.Lchown(filepath.Join(dir, "postgres.run"), uid, -1))
		_, err := local.Start(t.Context(), local.Options{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), "postgres.run") {
			t.Errorf("got %v", err)
		}
		if info, err := os.Stat(elsewhere); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("the target of the link has mode %v, %v", info.Mode(), err)
		}
	})
}
