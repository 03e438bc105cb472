//go:build unix

package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// ReadPrivate returns the contents of a secret file. The file must belong to this account, no other account may have
// any access to it, and it must not be a symbolic link. The error wraps fs.ErrNotExist if the file does not exist.
func ReadPrivate(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s must be a file, not a symbolic link: remove it", path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkFile(path, info); err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("other accounts can read or change %s (%v): if you trust its contents, run chmod 600 %q, "+
			"otherwise remove it", path, info.Mode(), path)
	}
	return io.ReadAll(io.LimitReader(f, 64<<10))
}

// WritePrivate writes a file that only this account may read, atomically and durably. It replaces an existing file.
func WritePrivate(path string, b []byte) error {
	temporary := path + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) { // left by a crash
		return err
	}
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// openOwn opens or creates a file of this account with mode 0600 for reading and writing.
func openOwn(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|flags, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkFile(path, info)
	}
	if err == nil {
		err = f.Chmod(0o600)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func checkFile(path string, info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s must be a file: remove it", path)
	}
	return checkOwner(path, info, os.Geteuid())
}

// checkFolder returns an error if other accounts may change the data folder, because they could replace its files.
func checkFolder(dir string, info os.FileInfo) error {
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("other accounts can change the data folder %s (%v): check its contents and run chmod go-w %q, "+
			"or set DATA_DIR to another folder", dir, info.Mode(), dir)
	}
	return checkOwner(dir, info, os.Geteuid(), 0)
}

// checkCluster returns an error if the cluster exists and is not a folder of PostgreSQL's account. If PostgreSQL runs
// as another account, this account must not be able to replace the cluster by a symbolic link: the program would
// change files elsewhere.
func (f *folder) checkCluster() error {
	info, err := os.Lstat(f.cluster)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if f.account.cred != nil && !info.IsDir() {
		return fmt.Errorf("%s must be a folder, not a symbolic link or file: remove it", f.cluster)
	}
	return checkOwner(f.cluster, info, f.account.uid)
}

// readCluster returns the first 4 kB of a file in the cluster. It does not follow symbolic links out of the cluster,
// because PostgreSQL's account can create links in the cluster.
func (f *folder) readCluster(name string) ([]byte, error) {
	root, err := os.OpenRoot(f.cluster)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, 4<<10))
}
