package testkit

import (
	"testing"
	"time"
)

// WaitTimeout limits each wait for a state that is normally reached within milliseconds or seconds. It is long, so
// that it does not depend on the speed of the machine.
const WaitTimeout = 3 * time.Minute

// Eventually waits until condition returns true. It ends the test after WaitTimeout. It calls condition frequently at
// first and then less often, because other tests need the processor.
func Eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	pause := 5 * time.Millisecond
	for begin := time.Now(); !condition(); pause = min(pause*5/4, 100*time.Millisecond) {
		if time.Since(begin) > WaitTimeout {
			tb.Fatalf("timed out waiting until %s", what)
		}
		time.Sleep(pause)
	}
}

// AwayFromMidnight waits if less than two minutes are left until the end of a day in UTC, or until two hours later,
// when summarize_usage closes the day. Tests whose results change at these times call it first.
func AwayFromMidnight(tb testing.TB) {
	tb.Helper()
	now := time.Now().UTC()
	day := now.Truncate(24 * time.Hour)
	for _, at := range []time.Time{day.Add(2 * time.Hour), day.Add(24 * time.Hour)} {
		if left := at.Sub(now); left > 0 && left < 2*time.Minute {
			tb.Logf("waiting for %v", at)
			time.Sleep(left + time.Second)
		}
	}
}
