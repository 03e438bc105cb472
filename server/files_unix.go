//go:build unix

package server

import "syscall"

// openFiles returns the maximum number of open files of this process.
func openFiles() uint64 {
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil {
		return 256
	}
	return uint64(files.Cur)
}
