package local

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// attributes returns the attributes of a process in a new session. If dieWithParent is set, Linux sends the process
// SIGQUIT when this process ends for any reason; a postmaster then ends its children too.
func attributes(cred *syscall.Credential, dieWithParent bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true, Credential: cred}
	if dieWithParent {
		a.Pdeathsig = syscall.SIGQUIT
	}
	return a
}

// alive reports whether the process runs. A zombie is not alive: in a container, there may be no process that reaps
// it.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH)
	}
	rest := stat[bytes.LastIndexByte(stat, ')')+1:] // the name in parentheses may contain any character
	return len(rest) < 2 || rest[1] != 'Z' && rest[1] != 'X'
}

// isPostgres reports whether the process is a PostgreSQL that runs on the cluster. If this account may not read the
// process's working directory, only the process's name is checked.
func isPostgres(pid int, cluster string) bool {
	if !namedPostgres(pid) {
		return false
	}
	cwd := fmt.Sprintf("/proc/%d/cwd", pid)
	if _, err := os.Stat(cwd); errors.Is(err, fs.ErrPermission) {
		return true
	}
	return sameFile(cwd, cluster)
}

// namedPostgres reports whether the process's name is postgres.
func namedPostgres(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && string(bytes.TrimSpace(name)) == "postgres"
}

// killOrphans kills the children of a dead postmaster, which prevent a new postmaster from starting.
func killOrphans(cluster string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range all {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err == nil && namedPostgres(pid) && sameFile(filepath.Join(path, "cwd"), cluster) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
