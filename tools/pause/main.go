//go:build linux

// Pause runs a command, and stops its processes for a while, again and again, as a busy machine does:
//
//	go run ./tools/pause [-most 3s] go test -count=1 ./...
//
// A test that fails only under Pause depends on the speed of the machine: it misses a short-lived state, or limits a
// time. The service ends a wait for a lock after 5 seconds and a request after 10 seconds, so that longer pauses make
// requests fail.
//
// Pause does not stop the compiler. It exits with the status of the command.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	most := flag.Duration("most", 3*time.Second, "the longest pause")
	flag.Parse()
	if flag.NArg() == 0 || *most <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	c := exec.Command(flag.Arg(0), flag.Args()[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := c.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "pause:", err)
		os.Exit(1)
	}
	// Pause must not end before the command: stopped processes would stay stopped.
	signals, ended := make(chan os.Signal, 1), make(chan error, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { ended <- c.Wait() }()
	for pauses := 0; ; pauses++ {
		select {
		case err := <-ended:
			fmt.Fprintf(os.Stderr, "pause: %d pauses\n", pauses)
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
				os.Exit(exit.ExitCode())
			} else if err != nil {
				fmt.Fprintln(os.Stderr, "pause:", err)
				os.Exit(1)
			}
			return
		case s := <-signals:
			c.Process.Signal(s)
		case <-time.After(300*time.Millisecond + rand.N(2*time.Second)):
		}
		chosen := choose(descendants(c.Process.Pid))
		send(chosen, syscall.SIGSTOP)
		time.Sleep(rand.N(*most))
		send(chosen, syscall.SIGCONT)
	}
}

// process is a running process. Name is the name in /proc: the first 15 bytes of the name of the program's file.
type process struct {
	pid, parent int
	name        string
}

// toolchain lists the names of processes that Pause does not stop, because no test depends on their speed.
var toolchain = []string{"go", "asm", "cgo", "compile", "cover", "link", "vet"}

// descendants returns the children of a process, their children, and so on, without the toolchain.
func descendants(pid int) (all []process) {
	children := map[int][]process{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		// For example "123 (go) S 1 ...", where the name may contain anything.
		line := string(text)
		begin, end := strings.Index(line, "("), strings.LastIndex(line, ")")
		fields := strings.Fields(line[end+1:])
		p := process{name: line[begin+1 : end]}
		p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(file)))
		p.parent, _ = strconv.Atoi(fields[1])
		children[p.parent] = append(children[p.parent], p)
	}
	for parents := []int{pid}; len(parents) > 0; parents = parents[1:] {
		for _, p := range children[parents[0]] {
			parents = append(parents, p.pid)
			if !slices.Contains(toolchain, p.name) {
				all = append(all, p)
			}
		}
	}
	return all
}

// choose returns the processes to stop at the same time: all processes, the test processes, some PostgreSQL processes,
// or one.
func choose(all []process) []process {
	are := func(is func(name string) bool) (some []process) {
		for _, p := range all {
			if is(p.name) {
				some = append(some, p)
			}
		}
		return some
	}
	switch n := rand.N(20); {
	case n < 3 || len(all) == 0:
		return all
	case n < 10:
		return are(func(name string) bool { return strings.HasSuffix(name, ".test") })
	case n < 15:
		return are(func(name string) bool { return name == "postgres" && rand.N(3) == 0 })
	}
	at := rand.N(len(all))
	return all[at : at+1]
}

// send sends a signal to each process.
func send(all []process, s syscall.Signal) {
	for _, p := range all {
		syscall.Kill(p.pid, s)
	}
}
