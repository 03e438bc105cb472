package auth

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
	Abandoned                // the password was not verified: the service was busy or the database unavailable
)

const (
	throttleWindow  = 15 * time.Minute
	pairFailures    = 5
	addressFailures = 20
	accountFailures = 100
	accountWindow   = 2 // the index in Throttle.windows

	// A failure takes a core about 0.2 seconds, so 15 minutes have fewer failures than this on any machine.
	maxThrottleKeys = 100_000
)

// Source tells which failures count together for the limit of an account.
type Source int

const (
	// Anonymous attempts of an account from all addresses count together.
	Anonymous Source = iota

	// KnownAddress is for an address that has succeeded for the account. The limit of the account does not apply, so that
	// others cannot lock out its owner.
	KnownAddress

	// Session is for attempts of a caller who has an access token of the account. They count together, and not with
	// anonymous attempts.
	Session
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
	key     [32]byte
	all     []*attempt    // sorted by time, at most the window's limit
	changed chan struct{} // closed when a running attempt ends; nil if nothing waits for that
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

// Limit says why an attempt is not allowed.
type Limit struct {
	// RetryAfter is the time until the failures that fill a limit expire. It is 0 if failures and running attempts fill
	// it together: then the outcome of these decides.
	RetryAfter time.Duration

	// Changed is closed when one of the running attempts ends. It is nil if RetryAfter is not 0.
	Changed <-chan struct{}

	// Account means that the limit of the account does not allow the attempt; the other limits do, or only running
	// attempts fill them.
	Account bool
}

// Begin must be called before a password is verified. It counts the attempt as running and returns nil, or it returns
// why the attempt is not allowed. Running attempts count like failures, so that concurrent guesses are limited too. The
// account is the normalized e-mail, which need not exist.
//
// The caller must report the outcome by calling done; only the first call has an effect. Failed turns the attempt into
// a failure. Succeeded removes the attempt and all failures of this account from this address. Abandoned removes the
// attempt. An attempt without an outcome counts as running until it expires.
func (t *Throttle) Begin(account, address string, source Source) (done func(Outcome), limit *Limit) {
	// Hashes, because e-mails may be long.
	keys := [][32]byte{
		sha256.Sum256([]byte(account + "\x00" + address)),
		sha256.Sum256([]byte(address)),
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
		if full == nil {
			continue
		}
		full.Account = i == accountWindow && (limit == nil || limit.RetryAfter == 0)
		if limit == nil || full.RetryAfter > limit.RetryAfter {
			limit = full
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
			t.windows[i].ended(key, a, outcome != Failed)
		}
		if outcome == Succeeded {
			t.windows[0].clear(keys[0])
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
	switch {
	case len(a.all) == 0:
		w.clear(key)
		return nil
	case len(a.all) < w.limit:
		return nil
	case !slices.ContainsFunc(a.all, func(a *attempt) bool { return a.running }):
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

// ended notifies those who wait for an attempt of the key to end, and removes the attempt if remove is set.
func (w *window) ended(key [32]byte, ended *attempt, remove bool) {
	element := w.keys[key]
	if element == nil {
		return
	}
	a := element.Value.(*attempts)
	a.notify()
	if remove {
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
