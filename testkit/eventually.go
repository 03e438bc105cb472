package testkit

import (
	"testing"
	"time"
)

// WaitTimeout bounds each wait for a state that normally comes within milliseconds or seconds. It is long, because it
// must not depend on the speed of the machine.
const WaitTimeout = 3 * time.Minute

// Eventually waits until condition returns true. It ends the test after WaitTimeout. It asks often at first and then
// seldom: other tests need the processor while this one waits.
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

// AwayFromMidnight waits for the end of a day in UTC, and for the time two hours later at which summarise_usage closes
// the day, if less than two minutes are left. Tests call it first if their results differ before and after.
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
