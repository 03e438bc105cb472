// Test runs go test, and finally prints how many tests ran, failed and were skipped, and why. The arguments are
// arguments of go test:
//
//	go run ./tools/test ./...
//
// Go test itself prints neither the number of tests nor the skipped tests of a package that passes. Test prints the
// output of go test, each package when the package ends, and exits with the status of go test. Before the last line,
// it repeats the reason of each failure, because the output of a test may be long.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
)

func main() {
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // go test also gets the signal, and ends
	c := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "test:", err)
		os.Exit(1)
	}
	last := report(os.Stdout, out)
	err = c.Wait()
	fmt.Println(last)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		os.Exit(exit.ExitCode())
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "test:", err)
		os.Exit(1)
	}
}

// event is a line of go test -json. Test is empty in an event of a package.
type event struct{ Action, Package, Test, Output string }

var (
	reason = regexp.MustCompile(`(?m)^\s*\w+\.go:\d+: (.*)$`)
	fault  = regexp.MustCompile(`(?m)^ *(\w+\.go:\d+: |FAIL ).{1,300}`) // "FAIL" is of scripts
)

// report reads the events of go test -json, and writes the results of packages and the output of failed tests. It
// returns the last lines: up to ten messages of each failed test, the numbers of tests and subtests, and the reasons
// of skips.
func report(w io.Writer, events io.Reader) string {
	type key struct{ pkg, test string }
	output := map[key]string{} // of tests without a result
	var order []key            // the keys of output, also of tests with a result
	passed, failed, skipped, packages := 0, 0, 0, 0
	reasons := map[string]int{}
	var faults strings.Builder
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			w.Write(line)
			continue
		}
		k := key{e.Package, e.Test}
		switch {
		case e.Action == "build-output":
			io.WriteString(w, e.Output)
		case e.Action == "output" && strings.HasPrefix(e.Output, "=== "): // the start of a test
		case e.Action == "output":
			if _, known := output[k]; !known {
				order = append(order, k)
			}
			output[k] += e.Output
		case e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
		case e.Test == "": // the package has ended
			if e.Action == "fail" {
				packages++
			}
			for _, one := range order { // tests without a result were interrupted, for example by a panic
				if text := output[one]; one.pkg == e.Package && (one.test != "" || e.Action == "fail") {
					io.WriteString(w, text)
				} else if one == k { // k is the test of the last line
					text = strings.TrimSuffix(text, "\n")
					fmt.Fprintln(w, text[strings.LastIndex(text, "\n")+1:])
				}
			}
			order = slices.DeleteFunc(order, func(one key) bool { return one.pkg == e.Package })
			maps.DeleteFunc(output, func(one key, _ string) bool { return one.pkg == e.Package })
		default:
			switch e.Action {
			case "pass":
				passed++
			case "fail":
				failed++
				io.WriteString(w, output[k])
				for i, message := range fault.FindAllString(output[k], 10) {
					if i == 0 {
						fmt.Fprintln(&faults, "FAILED", k.pkg, k.test)
					}
					fmt.Fprintln(&faults, "   ", strings.TrimSpace(message))
				}
			case "skip":
				skipped++
				why := "no reason"
				if all := reason.FindAllStringSubmatch(output[k], -1); all != nil {
					why = all[len(all)-1][1]
				}
				reasons[why]++
			}
			delete(output, k)
		}
	}
	last := fmt.Sprintf("%d tests ran: %d passed, %d failed; %d skipped", passed+failed, passed, failed, skipped)
	if packages > 0 {
		last = fmt.Sprintf("FAILED packages: %d; ", packages) + last
	}
	for i, why := range slices.Sorted(maps.Keys(reasons)) {
		last += map[bool]string{true: ": ", false: "; "}[i == 0] + fmt.Sprintf("%s (%d)", why, reasons[why])
	}
	return faults.String() + last
}
