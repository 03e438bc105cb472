package testkit

import (
	"os"
	"testing"
)

// InCI returns ci if CI_STRICT is 1, as in CI, and otherwise quick. Long tests use it to do less work outside of CI.
func InCI(quick, ci int) int {
	if os.Getenv("CI_STRICT") == "1" {
		return ci
	}
	return quick
}

// Skip skips the test for the reason, which is a missing tool. In CI, which has all tools, it fails the test instead.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if InCI(0, 1) == 1 {
		t.Fatal(reason + ", and CI_STRICT=1 allows no skips")
	}
	t.Skip(reason)
}
