//go:build unix

package app

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"spoolwright/db/local"
)

const folderPrefix = "spoolwright-demo-"

// makeFolder creates a temporary folder and locks it, so that removeLeftovers of another process does not remove it.
// The function remove removes the folder.
func makeFolder() (dir string, remove func(), err error) {
	for range 10 {
		if dir, err = os.MkdirTemp("", folderPrefix); err != nil {
			return "", nil, err
		}
		var lock *os.File
		if lock, err = lockFolder(dir); err != nil {
			continue // another process mistook it for a leftover
		}
		if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL may run as another account
			return "", nil, errors.Join(err, os.RemoveAll(dir), lock.Close())
		}
		return dir, func() { os.RemoveAll(dir); lock.Close() }, nil
	}
	return "", nil, err
}

// lockFolder locks a folder until the returned file is closed or this process ends. It fails if another process holds
// the lock, or if dir is not a folder of this account.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	locked, err1 := f.Stat()
	named, err2 := os.Lstat(dir)
	err = errors.Join(err, err1, err2)
	if err == nil && (!os.SameFile(locked, named) || locked.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid())) {
		err = os.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// removeLeftovers removes the temporary folders of demos that were killed, if they belong to this account.
func removeLeftovers(log *slog.Logger) {
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*"))
	for _, dir := range folders {
		lock, err := lockFolder(dir)
		if err != nil {
			continue // in use, or of another account
		}
		if err := errors.Join(local.RemoveThrowaway(dir), os.RemoveAll(dir)); err != nil {
			log.Warn("cannot remove the files of a demo that was killed", "dir", dir, "error", err)
		} else {
			log.Debug("removed the files of a demo that was killed", "dir", dir)
		}
		lock.Close()
	}
}
