//go:build unix && !linux

package local

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// attributes returns the attributes of a process in a new session. These systems cannot end the process when this
// process ends.
func attributes(cred *syscall.Credential, _ bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: cred}
}

// alive reports whether the process exists.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// isPostgres reports whether the process's name is postgres.
func isPostgres(pid int, _ string) bool {
	name, err := exec.Command("ps", "-p", strconv.Itoa(pid), "-o", "comm=").Output()
	return err == nil && filepath.Base(strings.TrimSpace(string(name))) == "postgres"
}

// killOrphans does nothing: on these systems, the program cannot find out the cluster of a process.
func killOrphans(string) {}
