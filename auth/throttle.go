package auth

import (
	"container/list"
	"crypto/sha256"
	"slices"
	"sync"
	"time"
)

// Outcome is how an attempt to log in ended.
type Outcome int

const (
	Failed    Outcome = iota // the password was wrong
	Succeeded                // it was right
	Abandoned                // nobody knows: the service was busy or the database away
)

const (
	throttleWindow  = 15 * time.Minute
	pairFailures    = 5
	addressFailures = 20
	accountFailures = 100

	// Far more than there can be failures: each costs a hash, and those take a core a sixth of a second or so.
	maxThrottleKeys = 100_000
	// How soon to come back when attempts that are still running fill the window: most of them will be given back.
	undecidedWait = time.Second
)

// Throttle refuses to log in after too many failures within 15 minutes: 5 for an account from one address, 20 from an address, 100
// for an account. It is safe for concurrent use, and its memory is bounded.
type Throttle struct {
	now func() time.Time

	mu      sync.Mutex
	seen    time.Time     // what now said last
	clock   time.Duration // time passed since the start, never going backwards
	windows [3]window     // by account and address, by address, by account
}

// window counts the attempts of each key.
type window struct {
	limit   int
	maxKeys int
	keys    map[[32]byte]*list.Element // of *attempts
	order   list.List                  // the key with the latest attempt is in front
}

type attempts struct {
	key [32]byte
	all []*attempt // in the order of time, at most the window's limit
}

type attempt struct {
	at      time.Duration
	running bool
}

// NewThrottle makes a Throttle.
func NewThrottle(now func() time.Time) *Throttle {
	t := &Throttle{now: now, seen: now()}
	for i, limit := range []int{pairFailures, addressFailures, accountFailures} {
		t.windows[i] = window{limit: limit, maxKeys: maxThrottleKeys, keys: make(map[[32]byte]*list.Element)}
	}
	return t
}

// Begin is called before a password is looked at. It counts the attempt as a failure and returns true, or returns false and how long
// to wait before trying again. The account is the normalised e-mail, whether there is such an account or not.
//
// The caller says with done how the attempt ended; only the first call counts. Success takes this attempt back and clears the
// failures of this account from this address; an abandoned attempt is taken back; one that never ends remains a failure.
func (t *Throttle) Begin(account, address string) (done func(Outcome), retryAfter time.Duration, ok bool) {
	// Hashed, because a caller may make an e-mail as long as it likes.
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

// wait forgets what is too old, and returns how long until the key has room for another attempt.
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
