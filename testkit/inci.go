package testkit

import "os"

// InCI returns ci if CI_STRICT is 1, as in CI, and otherwise quick. Long tests use it to do less work outside of CI.
func InCI(quick, ci int) int {
	if os.Getenv("CI_STRICT") == "1" {
		return ci
	}
	return quick
}
