// Package seed chooses the seeds of random tests. It imports no other package of the program, so that the tests of
// every package can use it.
package seed

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
)

var value = flag.Uint64("seed", 0, "seed of the random tests; 0 chooses 1, or in CI a random seed")

// New returns the seed for a random test, and logs the arguments with which go test uses the same seed again. Outside
// of CI the seed is always the same one, so that the test fails only after a change.
func New(tb testing.TB) uint64 {
	tb.Helper()
	n := *value
	switch {
	case n != 0:
	case os.Getenv("CI_STRICT") == "1":
		n = rand.Uint64()
	default:
		n = 1
	}
	tb.Logf("repeat with: go test -run '^%s$' -seed %d", tb.Name(), n)
	return n
}
