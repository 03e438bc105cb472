package local

import "syscall"

// UsualFolders are the folders that Start searches for binaries by default.
func UsualFolders() []string { return usualFolders() }

// CopyLock returns a copy of the descriptor that locks the data folder, as a child process has it until it calls exec.
func CopyLock(s *Server) (int, error) { return syscall.Dup(int(s.lock.Fd())) }
