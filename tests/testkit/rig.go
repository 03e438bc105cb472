package testkit

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Long is the flag -long of the packages that import testkit.
var Long = flag.Bool("long", false, "run the rigs, and the random tests with many more requests")

// InCI returns ci if CI_STRICT is 1, as in CI, and otherwise quick. Long tests use it to do less work outside of CI.
func InCI(quick, ci int) int {
	if inCI() {
		return ci
	}
	return quick
}

func inCI() bool { return os.Getenv("CI_STRICT") == "1" }

// Rigs reports whether the rigs run: the tests that kill, fail over, fill disks, build programs, or drive browsers and
// other clients for a long time. They run in CI, with RIGS=1 and with -long.
func Rigs() bool { return inCI() || os.Getenv("RIGS") == "1" || *Long }

// InRigs returns rigs if rigs run, and otherwise quick. Random tests use it to do less work in a plain `go test ./...`.
func InRigs(quick, rigs int) int {
	if Rigs() {
		return rigs
	}
	return quick
}

// leftForCI is the reason of skipped rigs.
const leftForCI = "left for CI, RIGS=1 runs it"

// Rig skips the test unless rigs run. Another test must check the same promise in a quick case.
func Rig(t testing.TB) {
	t.Helper()
	if !Rigs() {
		countSkip(leftForCI)
		t.Skip(leftForCI)
	}
}

// Skip skips the test for the reason, which is a missing tool. In CI, which has all tools, it fails the test instead.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if inCI() {
		t.Fatal(reason + ", and CI_STRICT=1 allows no skips")
	}
	countSkip(reason)
	t.Skip(reason)
}

// skips are the reasons of Rig and Skip, with the number of tests that they skipped.
var skips struct {
	mu      sync.Mutex
	reasons map[string]int
}

func countSkip(reason string) {
	skips.mu.Lock()
	defer skips.mu.Unlock()
	if skips.reasons == nil {
		skips.reasons = map[string]int{}
	}
	skips.reasons[reason]++
}

// skipsLine returns one line that says which tests of the package were skipped, or "".
func skipsLine() string {
	skips.mu.Lock()
	defer skips.mu.Unlock()
	if len(skips.reasons) == 0 {
		return ""
	}
	var all []string
	for _, reason := range slices.Sorted(maps.Keys(skips.reasons)) {
		all = append(all, fmt.Sprintf("%s (%d)", reason, skips.reasons[reason]))
	}
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".test")
	return cmp.Or(name, "tests") + ": skipped tests: " + strings.Join(all, "; ") + "\n"
}

// printSkips writes skipsLine to the terminal, because `go test ./...` keeps back what the tests of a package print
// that pass.
func printSkips() {
	if line := skipsLine(); line != "" {
		if tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0); err == nil {
			tty.WriteString(line)
			tty.Close()
		}
	}
}
