package testkit

import (
	"testing"
	"time"
)

// WaitTimeout bounds each wait for a state that normally comes within milliseconds or seconds. It is long, because it
// must not depend on the speed of the machine.
const WaitTimeout = 3 * time.Minute

// Eventually waits until condition returns true. It ends the test after WaitTimeout.
func Eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	for begin := time.Now(); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > WaitTimeout {
			tb.Fatalf("timed out waiting until %s", what)
		}
	}
}
