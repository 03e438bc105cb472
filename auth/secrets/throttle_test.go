package secrets

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"spoolwright/tests/testkit/seed"
)

type throttleClock struct{ t time.Time }

func newThrottleClock() *throttleClock {
	return &throttleClock{time.Date(2024, 1, 15, 10, 0, 0, 0, time.UTC)}
}

func (c *throttleClock) now() time.Time { return c.t }

func (c *throttleClock) pass(d time.Duration) { c.t = c.t.Add(d) }

// try makes one attempt with the outcome. It ends the test unless Begin returns wantWait as RetryAfter; 0 means that
// Begin must allow the attempt.
func try(t *testing.T, th *Throttle, account, address string, outcome Outcome, wantWait time.Duration) {
	t.Helper()
	done, limit := th.Begin(account, address, Anonymous)
	if limit != nil && (limit.RetryAfter != wantWait || wantWait == 0) || limit == nil && wantWait != 0 {
		t.Fatalf("Begin(%s, %s) = %+v; want RetryAfter %v", account, address, limit, wantWait)
	}
	done(outcome)
}

// The limit of an account does not apply to known addresses, and sessions have their own. The other limits apply to
// all.
func TestThrottleSources(t *testing.T) {
	th := NewThrottle(newThrottleClock().now)
	attempts := func(source Source, address string) (n int) {
		for {
			done, limit := th.Begin("ada", address, source)
			if limit != nil {
				return n
			}
			done(Failed)
			n++
		}
	}
	for i := range 20 {
		attempts(Anonymous, fmt.Sprint("address ", i))
	}
	if _, limit := th.Begin("ada", "192.0.2.1", Anonymous); limit == nil || limit.Window != AccountWindow {
		t.Errorf("anonymous: %+v, want the limit of the account", limit)
	}
	if _, limit := th.Begin("ada", "address 1", Anonymous); limit == nil || limit.Window != PairWindow {
		t.Errorf("anonymous, from an attacker's address: %+v, want the limit of the address", limit)
	}
	for i := range 30 {
		if n := attempts(KnownAddress, fmt.Sprint("known ", i)); n != 5 {
			t.Errorf("%d attempts from a known address, want 5", n)
		}
	}
	total := 0
	for i := range 30 {
		total += attempts(Session, fmt.Sprint("session ", i))
	}
	if total != 100 {
		t.Errorf("%d attempts of sessions, want 100", total)
	}
}

// An account has 300 logins within 15 minutes, from all addresses together; failures and abandoned attempts do not
// count.
func TestThrottleLogins(t *testing.T) {
	clock := newThrottleClock()
	th := NewThrottle(clock.now)
	for i := range 100 {
		if i < 90 {
			try(t, th, "ada", fmt.Sprint("address ", i%20), Failed, 0)
		}
		try(t, th, "ada", "192.0.2.1", Abandoned, 0)
		for range 3 {
			try(t, th, "ada", fmt.Sprint("address ", i%20), Succeeded, 0)
		}
		if i == 0 {
			clock.pass(time.Minute)
		}
	}
	try(t, th, "bob", "192.0.2.1", Succeeded, 0)
	clock.pass(time.Minute)
	for _, source := range []Source{Anonymous, KnownAddress, Session} {
		_, limit := th.Begin("ada", "192.0.2.1", source)
		if limit == nil || limit.RetryAfter != 13*time.Minute || limit.Window != LoginWindow {
			t.Errorf("source %d: Begin = %+v, want the limit of logins", source, limit)
		}
	}
	clock.pass(13 * time.Minute)
	for range 3 {
		try(t, th, "ada", "192.0.2.1", Succeeded, 0)
	}
	try(t, th, "ada", "192.0.2.1", Succeeded, time.Minute)
}

// Of an account, 4 attempts run at a time.
func TestThrottleParallel(t *testing.T) {
	th := NewThrottle(newThrottleClock().now)
	var running []func(Outcome)
	for i := range 4 {
		done, limit := th.Begin("ada", fmt.Sprint("address ", i), Source(i%3))
		if limit != nil {
			t.Fatalf("attempt %d: %+v", i, limit)
		}
		running = append(running, done)
	}
	for _, done := range running {
		_, limit := th.Begin("ada", "192.0.2.1", KnownAddress)
		if limit == nil || limit.Changed == nil {
			t.Fatalf("Begin = %+v, want to wait", limit)
		}
		done(Abandoned)
		<-limit.Changed
		if _, limit = th.Begin("ada", "192.0.2.2", KnownAddress); limit != nil {
			t.Fatalf("Begin = %+v after an attempt ended", limit)
		}
	}
}

// Running attempts fill a limit without a RetryAfter, and Changed is closed when one of them ends. Only the first call
// of done counts.
func TestThrottleRunningAttempts(t *testing.T) {
	clock := newThrottleClock()
	th := NewThrottle(clock.now)
	th.windows[LoginWindow].parallel = 0
	var running []func(Outcome)
	for range 5 {
		done, limit := th.Begin("ada", "192.0.2.1", Anonymous)
		if limit != nil {
			t.Fatal("Begin does not allow the attempt")
		}
		running = append(running, done)
	}
	full := func() <-chan struct{} {
		t.Helper()
		_, limit := th.Begin("ada", "192.0.2.1", Anonymous)
		if limit == nil || limit.RetryAfter != 0 || limit.Changed == nil {
			t.Fatalf("Begin = %+v; want a limit full of running attempts", limit)
		}
		select {
		case <-limit.Changed:
			t.Fatal("Changed is closed before an attempt ends")
		default:
		}
		return limit.Changed
	}
	first, second := full(), full()
	running[0](Abandoned)
	<-first
	<-second
	running[0](Failed)
	try(t, th, "ada", "192.0.2.1", Failed, 0)
	for _, done := range running[1:] {
		changed := full()
		done(Failed)
		done(Succeeded)
		<-changed
	}
	try(t, th, "ada", "192.0.2.1", Failed, 15*time.Minute)

	// An attempt without an outcome expires.
	clock.pass(time.Hour)
	for range 5 {
		th.Begin("ada", "192.0.2.1", Anonymous)
	}
	changed := full()
	clock.pass(15 * time.Minute)
	try(t, th, "bob", "192.0.2.2", Failed, 0)
	<-changed
	try(t, th, "ada", "192.0.2.1", Failed, 0)
}

type modelAttempt struct {
	account, address string
	at               time.Duration
	running          bool
	succeeded        bool
	cleared          bool // removed from the count of the account and address by a success
	done             func(Outcome)
}

// Begin agrees with a model that keeps all attempts in one list and counts them each time, over 20,000 random events.
func TestThrottleAgainstModel(t *testing.T) {
	seed := seed.New(t)
	random := rand.New(rand.NewPCG(seed, 0))
	clock := newThrottleClock()
	th := NewThrottle(clock.now)
	th.windows[LoginWindow].limit, th.windows[LoginWindow].parallel = 8, 6
	var model []*modelAttempt
	var elapsed time.Duration // does not go backwards when the clock does
	var allowed, limited int
	for i := range 20_000 {
		switch n := random.IntN(1000); {
		case n < 500:
			step := time.Duration(random.Int64N(int64(4 * time.Second)))
			clock.pass(step)
			elapsed += step
		case n < 510:
			clock.pass(-time.Duration(random.Int64N(int64(time.Hour))))
			try(t, th, "no account", "no address", Abandoned, 0) // makes the throttle read the clock
		}
		model = slices.DeleteFunc(model, func(a *modelAttempt) bool { return elapsed-a.at >= 15*time.Minute })

		if k := slices.IndexFunc(model,
			func(a *modelAttempt) bool { return a.running && random.IntN(3) == 0 }); k >= 0 {
			a := model[k]
			outcome := Failed
			if random.IntN(10) == 0 {
				outcome = Succeeded + Outcome(random.IntN(2))
			}
			a.done(outcome)
			a.running, a.succeeded = false, outcome == Succeeded
			if outcome == Abandoned {
				model = slices.Delete(model, k, k+1)
			}
			for _, other := range model {
				if outcome == Succeeded && other.account == a.account && other.address == a.address {
					other.cleared = true
				}
			}
		}

		account, address := fmt.Sprint("account ", random.IntN(3)), fmt.Sprint("address ", random.IntN(40))
		if random.IntN(2) == 0 {
			account = fmt.Sprint("account ", random.IntN(30))
		}
		var wantWait time.Duration
		wantLimit := false
		window := func(limit, parallel int, counts func(*modelAttempt) bool) {
			var wait time.Duration
			n, running := 0, 0
			for _, a := range model {
				if !counts(a) {
					continue
				}
				if n++; n == 1 {
					wait = a.at + 15*time.Minute - elapsed
				}
				if a.running {
					running++
				}
			}
			if n < limit && running < parallel {
				return
			}
			wantLimit = true
			if running == 0 {
				wantWait = max(wantWait, wait)
			}
		}
		window(5, 100, func(a *modelAttempt) bool {
			return a.account == account && a.address == address && !a.cleared && !a.succeeded
		})
		window(20, 100, func(a *modelAttempt) bool { return a.address == address && !a.succeeded })
		window(8, 6, func(a *modelAttempt) bool { return a.account == account && (a.running || a.succeeded) })
		window(100, 100, func(a *modelAttempt) bool { return a.account == account && !a.succeeded })

		done, limit := th.Begin(account, address, Anonymous)
		if (limit != nil) != wantLimit ||
			limit != nil && (limit.RetryAfter != wantWait || (limit.Changed != nil) != (wantWait == 0)) {
			t.Fatalf("event %d: Begin = %+v; in the model RetryAfter is %v, %v", i, limit, wantWait, wantLimit)
		}
		if limit == nil {
			allowed++
			model = append(model, &modelAttempt{
				account: account, address: address, at: elapsed, running: true, done: done,
			})
		} else {
			limited++
		}
	}
	t.Logf("%d allowed, %d limited", allowed, limited)
	if allowed < 500 || limited < 500 {
		t.Error("the events do not exercise both results enough")
	}
	clock.pass(time.Hour)
	try(t, th, "ada", "192.0.2.1", Abandoned, 0)
	if n := throttleKeys(th); n != 0 {
		t.Errorf("%d keys remain after an hour", n)
	}
}

func throttleKeys(th *Throttle) int {
	n := 0
	for i := range th.windows {
		n += len(th.windows[i].keys)
		if len(th.windows[i].keys) != th.windows[i].order.Len() {
			n += 1_000_000
		}
	}
	return n
}

func TestThrottleMemory(t *testing.T) {
	clock := newThrottleClock()
	th := NewThrottle(clock.now)
	for i := range th.windows {
		th.windows[i].maxKeys = 1000
	}
	for i := range 20_000 {
		try(t, th, fmt.Sprint("account ", i), fmt.Sprint("address ", i), Failed, 0)
		if i%900 == 0 && i < 4500 {
			try(t, th, "ada", "192.0.2.1", Failed, 0)
		}
		if i == 4500 {
			try(t, th, "ada", "192.0.2.1", Failed, 15*time.Minute) // keys with recent attempts are not evicted
		}
		if n := throttleKeys(th); n > 3000 {
			t.Fatalf("%d keys", n)
		}
	}
	clock.pass(15 * time.Minute)
	try(t, th, "ada", "192.0.2.1", Abandoned, 0)
	if n := throttleKeys(th); n != 0 {
		t.Errorf("%d keys remain after 15 minutes", n)
	}
}
