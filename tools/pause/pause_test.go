//go:build linux

package main

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"spoolwright/tests/testkit"
)

// A grandchild of this process is stopped, and continues.
func TestPause(t *testing.T) {
	shell := exec.Command("sh", "-c", "sleep 600; true")
	testkit.Check(t, shell.Start())
	defer shell.Wait()
	defer shell.Process.Kill()
	var found []process
	testkit.Eventually(t, "the shell has a child", func() bool {
		found = descendants(os.Getpid())
		found = slices.DeleteFunc(found, func(p process) bool { return p.name != "sleep" || p.parent != shell.Process.Pid })
		return len(found) == 1
	})
	sleep, err := os.FindProcess(found[0].pid)
	testkit.Check(t, err)
	defer sleep.Kill()
	state := func() string {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(sleep.Pid) + "/stat")
		testkit.Check(t, err)
		_, rest, _ := strings.Cut(string(text), ") ")
		return rest[:1]
	}
	send(found, syscall.SIGSTOP)
	testkit.Eventually(t, "the process is stopped", func() bool { return state() == "T" })
	send(found, syscall.SIGCONT)
	testkit.Eventually(t, "the process continues", func() bool { return state() == "S" })
	for range 100 {
		if len(choose(found)) > 1 {
			t.Fatal("more is chosen than there is")
		}
	}
}
