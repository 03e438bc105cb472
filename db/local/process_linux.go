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

// attributes let a mortal process end when this one does, however that ends: SIGQUIT makes a postmaster take its
// children along.
func attributes(cred *syscall.Credential, mortal bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true, Credential: cred}
	if mortal {
		a.Pdeathsig = syscall.SIGQUIT
	}
	return a
}

// alive is false for a process that has ended but was not waited for: in a container nobody may do so.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH)
	}
	rest := stat[bytes.LastIndexByte(stat, ')')+1:] // the name before it may contain anything
	return len(rest) < 2 || rest[1] != 'Z' && rest[1] != 'X'
}

// isPostgres reports whether the process is a PostgreSQL on the cluster. Where the system does not let us look at the
// process's folder, its name decides.
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

func namedPostgres(pid int) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && string(bytes.TrimSpace(name)) == "postgres"
}

// killOrphans ends the processes of a postmaster that is no more, which hinder the next one.
func killOrphans(cluster string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range all {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err == nil && namedPostgres(pid) && sameFile(filepath.Join(path, "cwd"), cluster) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
