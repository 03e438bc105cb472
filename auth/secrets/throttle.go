package secrets

import (
	"container/list"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Outcome is the outcome of a login attempt.
type Outcome int

const (
	Failed    Outcome = iota // the password was wrong
	Succeeded                // the password was right
	Abandoned                // the password was not verified
	Passed                   // the password was right, and the second factor is not verified yet
)

const (
	throttleWindow  = 15 * time.Minute
	pairFailures    = 5
	addressFailures = 20
	accountFailures = 100
	accountLogins   = 300
	accountParallel = 4

	maxThrottleKeys = 100_000 // bounds the memory of a window
)

// The windows of a Throttle; see Limit.Window.
const (
	PairWindow = iota
	AddressWindow
	LoginWindow
	AccountWindow
)

// Source determines which failures count together for the limit of an account.
type Source int

const (
	// Anonymous attempts of an account from all addresses count together.
	Anonymous Source = iota

	// KnownAddress is for an address from which the account has logged in before. The limit of the account does not
	// apply, so that other people cannot lock out the owner of the account.
	KnownAddress

	// Session is for attempts of a caller with an access token of the account. These attempts count together, but not
	// with anonymous attempts.
	Session
)

// Throttle limits logins within 15 minutes: 5 failures for an account from one address, 20 failures from an address,
// 100 failures for an account, and 300 successes for an account. It lets 4 attempts of an account run at a time. Its
// memory is bounded. It is safe for concurrent use.
type Throttle struct {
	now func() time.Time

	mu      sync.Mutex
	seen    time.Time     // the last result of now
	clock   time.Duration // time since NewThrottle; does not go backwards when the time of now does
	windows [4]window
}

// window holds the attempts of each key: the running attempts, and the ended attempts with an outcome that the window
// counts.
type window struct {
	counts   []Outcome
	limit    int
	parallel int // the number of attempts of a key that may run at a time; 0 for any number
	maxKeys  int
	keys     map[[32]byte]*list.Element // of *attempts
	order    list.List                  // sorted by the latest attempt, the newest in front
}

type attempts struct {
	key     [32]byte
	all     []*attempt    // sorted by time, at most the window's limit
	changed chan struct{} // closed when a running attempt ends; nil if no caller waits
}

type attempt struct {
	at      time.Duration
	running bool
}

// NewThrottle returns a Throttle that reads the time from now.
func NewThrottle(now func() time.Time) *Throttle {
	t := &Throttle{now: now, seen: now()}
	t.windows = [...]window{
		PairWindow:    {counts: []Outcome{Failed}, limit: pairFailures},
		AddressWindow: {counts: []Outcome{Failed}, limit: addressFailures},
		LoginWindow:   {counts: []Outcome{Succeeded}, limit: accountLogins, parallel: accountParallel},
		AccountWindow: {counts: []Outcome{Failed, Passed}, limit: accountFailures},
	}
	for i := range t.windows {
		t.windows[i].maxKeys, t.windows[i].keys = maxThrottleKeys, make(map[[32]byte]*list.Element)
	}
	return t
}

// Limit describes why an attempt is not allowed.
type Limit struct {
	// RetryAfter is the time until enough of the attempts that fill a limit expire. It is 0 if some of these attempts
	// are still running: the limit then depends on their outcome.
	RetryAfter time.Duration

	// Changed is closed when one of the running attempts ends. It is nil if RetryAfter is not 0.
	Changed <-chan struct{}

	// Window is the index of the limit, such as AccountWindow. If several limits are full, it is a limit with the
	// longest RetryAfter.
	Window int
}

// Begin must be called before a password is verified. If the attempt is allowed, Begin counts it as running and
// returns a nil limit; otherwise, limit describes why not. Running attempts count for all limits, so that concurrent
// guesses are limited too. The account is the normalized e-mail, which need not exist.
//
// The caller must report the outcome by calling done; only the first call has an effect. Failed turns the attempt into
// a failure. Succeeded turns it into a success and removes all failures of this account from this address. Passed
// counts only for the limit of an account, so that a stolen password causes no more work than guesses do. Abandoned
// removes the attempt. An attempt without an outcome counts as running until it expires.
func (t *Throttle) Begin(account, address string, source Source) (done func(Outcome), limit *Limit) {
	// Keys are hashes, because e-mails may be long.
	keys := [][32]byte{
		sha256.Sum256([]byte(account + "\x00" + address)),
		sha256.Sum256([]byte(address)),
		sha256.Sum256([]byte(account)),
	}
	if source != KnownAddress {
		keys = append(keys, sha256.Sum256(fmt.Appendf(nil, "%d %s", source, account)))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	t.clock += max(now.Sub(t.seen), 0)
	t.seen = now

	for i, key := range keys {
		full := t.windows[i].full(key, t.clock)
		if full != nil && (limit == nil || full.RetryAfter > limit.RetryAfter) {
			limit = full
			limit.Window = i
		}
	}
	if limit != nil {
		return func(Outcome) {}, limit
	}
	a := &attempt{t.clock, true}
	for i, key := range keys {
		t.windows[i].add(key, a)
	}
	return func(outcome Outcome) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if !a.running {
			return
		}
		a.running = false
		for i, key := range keys {
			t.windows[i].ended(key, a, outcome)
		}
		if outcome == Succeeded {
			t.windows[PairWindow].clear(keys[PairWindow])
		}
	}, nil
}

// full evicts expired attempts and returns nil if the key is below its limit.
func (w *window) full(key [32]byte, clock time.Duration) *Limit {
	for oldest := w.order.Back(); oldest != nil; oldest = w.order.Back() {
		a := oldest.Value.(*attempts)
		if clock-a.all[len(a.all)-1].at < throttleWindow {
			break
		}
		w.clear(a.key)
	}
	element := w.keys[key]
	if element == nil {
		return nil
	}
	a := element.Value.(*attempts)
	a.all = slices.DeleteFunc(a.all, func(a *attempt) bool { return clock-a.at >= throttleWindow })
	if len(a.all) == 0 {
		w.clear(key)
		return nil
	}
	running := 0
	for _, a := range a.all {
		if a.running {
			running++
		}
	}
	switch {
	case len(a.all) < w.limit && (w.parallel == 0 || running < w.parallel):
		return nil
	case running == 0:
		return &Limit{RetryAfter: a.all[0].at + throttleWindow - clock}
	}
	if a.changed == nil {
		a.changed = make(chan struct{})
	}
	return &Limit{Changed: a.changed}
}

// add adds an attempt to the key. If the window has maxKeys keys, it evicts the key whose latest attempt is oldest.
func (w *window) add(key [32]byte, a *attempt) {
	element := w.keys[key]
	if element == nil {
		if len(w.keys) >= w.maxKeys {
			w.clear(w.order.Back().Value.(*attempts).key)
		}
		element = w.order.PushFront(&attempts{key: key})
		w.keys[key] = element
	}
	w.order.MoveToFront(element)
	all := &element.Value.(*attempts).all
	*all = append(*all, a)
}

// ended notifies the callers that wait for the end of an attempt of the key. It removes the attempt if the window does
// not count the outcome.
func (w *window) ended(key [32]byte, ended *attempt, outcome Outcome) {
	element := w.keys[key]
	if element == nil {
		return
	}
	a := element.Value.(*attempts)
	a.notify()
	if !slices.Contains(w.counts, outcome) {
		a.all = slices.DeleteFunc(a.all, func(other *attempt) bool { return other == ended })
	}
	if len(a.all) == 0 {
		w.clear(key)
	}
}

func (w *window) clear(key [32]byte) {
	if element := w.keys[key]; element != nil {
		element.Value.(*attempts).notify()
		w.order.Remove(element)
		delete(w.keys, key)
	}
}

func (a *attempts) notify() {
	if a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
}
