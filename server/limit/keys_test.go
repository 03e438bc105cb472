package limit

import (
	"testing"
	"time"
)

// testLimiter is a Limiter whose keys all have the same limits.
type testLimiter struct {
	*Limiter
	limits Limits
}

func newTestLimiter(perMinute, perHour, maxKeys int, now func() time.Time) testLimiter {
	return testLimiter{New(maxKeys, now), Limits{perMinute, perHour}}
}

func (l testLimiter) Take(key string) (Rate, bool) { return l.Limiter.Take(Claim{key, l.limits}) }

// An event with two keys takes a token from the buckets of both, or from none.
func TestTwoKeys(t *testing.T) {
	clock := newLimitClock()
	l := New(10, clock.now)
	tenant := Claim{"tenant:t", Limits{PerMinute: 5}}
	user := func(id string) Claim { return Claim{"user:" + id, Limits{3, 1000}} }
	take := func(id string, wantOK bool, limit, remaining int) {
		t.Helper()
		r, ok := l.Take(user(id), tenant)
		if ok != wantOK || r.Limit != limit || r.Remaining != remaining {
			t.Fatalf("Take = %+v, %v; want limit %d, remaining %d, %v", r, ok, limit, remaining, wantOK)
		}
	}
	take("a", true, 3, 2)
	take("a", true, 3, 1)
	take("a", true, 3, 0)
	for range 10 { // a rejected event takes nothing from the tenant's bucket
		take("a", false, 3, 0)
	}
	take("b", true, 5, 1)
	take("c", true, 5, 0)
	for range 10 { // nor from the user's
		take("d", false, 5, 0)
	}
	clock.t = clock.t.Add(12 * time.Second) // the tenant's bucket gets one token
	take("d", true, 5, 0)
	if r, _ := l.Take(user("d")); r.Remaining != 1 {
		t.Errorf("d has %d tokens left after 2 events, want 1", r.Remaining)
	}
}

// The entries of an event's own keys are not evicted for each other.
func TestTwoKeysInFullLimiter(t *testing.T) {
	clock := newLimitClock()
	l := New(2, clock.now)
	for i := range 3 {
		r, ok := l.Take(Claim{"user:a", Limits{3, 0}}, Claim{"tenant:t", Limits{100, 0}})
		if !ok || r.Remaining != 2-i {
			t.Fatalf("event %d: Take = %+v, %v", i, r, ok)
		}
	}
}
