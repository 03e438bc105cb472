// Package seed chooses the seeds of random tests. It imports no other package of the program, so that the tests of
// every package can use it.
package seed

import (
	"flag"
	"math/rand/v2"
	"testing"
)

var value = flag.Uint64("seed", 0, "seed of the random tests; 0 chooses a random seed")

// New returns the seed for a random test, and logs the arguments with which go test uses the same seed again.
func New(tb testing.TB) uint64 {
	tb.Helper()
	n := *value
	if n == 0 {
		n = rand.Uint64()
	}
	tb.Logf("repeat with: go test -run '^%s$' -seed %d", tb.Name(), n)
	return n
}
