package testkit

import "os"

// InCI returns how much a long test does: more in CI, where CI_STRICT is 1, than in the daily go test.
func InCI(quick, ci int) int {
	if os.Getenv("CI_STRICT") == "1" {
		return ci
	}
	return quick
}
