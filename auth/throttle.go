package auth

import (
	"container/list"
	"crypto/sha256"
	"slices"
	"sync"
	"time"
)

// Outcome is the outcome of a login attempt.
type Outcome int

const (
	Failed    Outcome = iota // the password was wrong
	Succeeded                // the password was right
	Abandoned                // the password was not verified: the service was busy or the database unavailable
)

const (
	throttleWindow  = 15 * time.Minute
	pairFailures    = 5
	addressFailures = 20
	accountFailures = 100

	// A failure takes a core about 0.2 seconds, so 15 minutes have fewer failures than this on any machine.
	maxThrottleKeys = 100_000
	// The wait while running attempts fill a window, since most of them will not become failures.
	undecidedWait = time.Second
)

// Throttle limits failed logins within 15 minutes: 5 for an account from one address, 20 from an address, 100 for an
// account. Its memory is bounded. It is safe for concurrent use.
type Throttle struct {
	now func() time.Time

	mu      sync.Mutex
	seen    time.Time     // the last result of now
	clock   time.Duration // time since NewThrottle; does not go backwards when now does
	windows [3]window     // by account and address, by address, by account
}

// window holds the attempts of each key.
type window struct {
	limit   int
	maxKeys int
	keys    map[[32]byte]*list.Element // of *attempts
	order   list.List                  // sorted by the latest attempt, the newest in front
}

type attempts struct {
	key [32]byte
	all []*attempt // sorted by time, at most the window's limit
}

type attempt struct {
	at      time.Duration
	running bool
}

// NewThrottle returns a Throttle that reads the time from now.
func NewThrottle(now func() time.Time) *Throttle {
	t := &Throttle{now: now, seen: now()}
	for i, limit := range []int{pairFailures, addressFailures, accountFailures} {
		t.windows[i] = window{limit: limit, maxKeys: maxThrottleKeys, keys: make(map[[32]byte]*list.Element)}
	}
	return t
}

// Begin must be called before a password is verified. It counts the attempt as a failure and returns true, or it
// returns false and the time after which the caller may try again. The account is the normalized e-mail, which need not
// exist.
//
// The caller must report the outcome by calling done; only the first call has an effect. Succeeded removes the attempt
// and all failures of this account from this address. Abandoned removes the attempt.
func (t *Throttle) Begin(account, address string) (done func(Outcome), retryAfter time.Duration, ok bool) {
	// Hashes, because e-mails may be long.
	keys := [3][32]byte{
		sha256.Sum256([]byte(account + "\x00" + address)),
		sha256.Sum256([]byte(address)),
		sha256.Sum256([]byte(account)),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	t.clock += max(now.Sub(t.seen), 0)
	t.seen = now

	for i := range t.windows {
		retryAfter = max(retryAfter, t.windows[i].wait(keys[i], t.clock))
	}
	if retryAfter > 0 {
		return func(Outcome) {}, retryAfter, false
	}
	a := &attempt{t.clock, true}
	for i := range t.windows {
		t.windows[i].add(keys[i], a)
	}
	return func(outcome Outcome) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if !a.running {
			return
		}
		a.running = false
		if outcome == Failed {
			return
		}
		for i := range t.windows {
			t.windows[i].remove(keys[i], a)
		}
		if outcome == Succeeded {
			t.windows[0].clear(keys[0])
		}
	}, 0, true
}

// wait evicts expired attempts and returns the time until the key is below its limit, 0 if it already is.
func (w *window) wait(key [32]byte, clock time.Duration) time.Duration {
	for oldest := w.order.Back(); oldest != nil; oldest = w.order.Back() {
		a := oldest.Value.(*attempts)
		if clock-a.all[len(a.all)-1].at < throttleWindow {
			break
		}
		w.clear(a.key)
	}
	element := w.keys[key]
	if element == nil {
		return 0
	}
	a := element.Value.(*attempts)
	a.all = slices.DeleteFunc(a.all, func(a *attempt) bool { return clock-a.at >= throttleWindow })
	if len(a.all) == 0 {
		w.clear(key)
	}
	if len(a.all) < w.limit {
		return 0
	}
	wait := a.all[0].at + throttleWindow - clock
	if slices.ContainsFunc(a.all, func(a *attempt) bool { return a.running }) {
		wait = min(wait, undecidedWait)
	}
	return wait
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

func (w *window) remove(key [32]byte, a *attempt) {
	element := w.keys[key]
	if element == nil {
		return
	}
	all := &element.Value.(*attempts).all
	*all = slices.DeleteFunc(*all, func(other *attempt) bool { return other == a })
	if len(*all) == 0 {
		w.clear(key)
	}
}

func (w *window) clear(key [32]byte) {
	if element := w.keys[key]; element != nil {
		w.order.Remove(element)
		delete(w.keys, key)
	}
}
