// Package limit limits the rate of events with token buckets, and divides what is scarce with queues.
package limit

import (
	"container/list"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rate is the state of the bucket with the fewest tokens, for the headers of rate limits.
type Rate struct {
	Limit      int           // capacity of the bucket
	Window     time.Duration // how long the bucket takes to refill: a minute or an hour
	Remaining  int           // the number of whole tokens in the bucket
	Next       time.Duration // how long the bucket takes to have one more whole token; 0 if it is full
	Reset      time.Time     // when the bucket is full
	RetryAfter time.Duration // the time until all buckets have a token; 0 if all have one
	Off        bool          // whether all limits are turned off; the other fields are then zero
}

// windows are how long the two buckets of a key take to refill.
var windows = [2]time.Duration{time.Minute, time.Hour}

// Limits are the capacities of a key's two token buckets. One bucket refills over a minute, and the other over an
// hour. A capacity of 0 turns the limit off.
type Limits struct{ PerMinute, PerHour int }

// Claim asks for one token from each bucket of a key. The limits of a key must not change.
type Claim struct {
	Key    string
	Limits Limits
}

// Limiter is a rate limiter with two token buckets for each key. An event takes a token either from all buckets of its
// keys or from no bucket. A Limiter is safe for concurrent use.
type Limiter struct {
	now     func() time.Time
	maxKeys int

	mu      sync.Mutex
	entries map[string]*list.Element // of *entry
	order   list.List                // most recently used first
	seen    time.Time                // the last result of now
	clock   time.Time                // a time that advances with now, but never goes backwards
}

type entry struct {
	key     string
	buckets [2]bucket
	full    time.Time // when all buckets are full; the entry can then be dropped
}

// bucket is a token bucket. If its limit is turned off, tokens is nil.
type bucket struct {
	tokens    *rate.Limiter
	burst     int
	perSecond float64
}

// tokenSlack is a tolerance for the rounding errors of a bucket's float64, so that a request exactly at refill time
// succeeds.
const tokenSlack = 1e-9

// maxClaims is the maximum number of keys of an event: the caller and the caller's tenant.
const maxClaims = 2

// New returns a Limiter that holds at most maxKeys keys. For a new key above this number, it drops the least recently
// used key.
func New(maxKeys int, now func() time.Time) *Limiter {
	return &Limiter{
		now:     now,
		maxKeys: max(maxKeys, maxClaims),
		entries: make(map[string]*list.Element),
		seen:    now(),
		clock:   time.Unix(0, 0),
	}
}

// Take takes one token from each bucket of the claims and returns true. If a bucket is empty, it takes no token and
// returns false. There are at most two claims.
func (l *Limiter) Take(claims ...Claim) (Rate, bool) { return l.take(1, claims) }

// Peek reports whether Take would succeed now. It takes no token.
func (l *Limiter) Peek(claims ...Claim) (Rate, bool) { return l.take(0, claims) }

func (l *Limiter) take(n int, claims []Claim) (Rate, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	wall := l.now()
	if passed := wall.Sub(l.seen); passed > 0 {
		l.clock = l.clock.Add(passed)
	}
	l.seen = wall

	// Each claim may add one entry. Drop two idle entries for each, so that idle entries do not accumulate.
	l.dropIdle(2 * len(claims))
	var entries [maxClaims]*entry
	var tokens [maxClaims][2]float64
	var wait time.Duration
	limited := 0
	for _, c := range claims {
		if c.Limits == (Limits{}) {
			continue
		}
		entries[limited] = l.entry(c)
		for i, b := range entries[limited].buckets {
			if b.tokens != nil {
				tokens[limited][i] = b.tokens.TokensAt(l.clock)
				wait = max(wait, b.until(1, tokens[limited][i]))
			}
		}
		limited++
	}
	r := Rate{RetryAfter: wait, Off: limited == 0}
	left := math.Inf(1)
	for k, e := range entries[:limited] {
		var full time.Duration
		for i, b := range e.buckets {
			if b.tokens == nil {
				continue
			}
			remaining := tokens[k][i]
			if wait == 0 && n > 0 {
				b.tokens.ReserveN(l.clock, n)
				remaining -= float64(n)
			}
			reset := b.until(float64(b.burst), remaining)
			full = max(full, reset)
			if remaining < left {
				left = remaining
				r.Limit, r.Window, r.Remaining, r.Reset = b.burst, windows[i], int(left+tokenSlack), wall.Add(reset)
				r.Next = b.until(float64(min(r.Remaining+1, b.burst)), left)
			}
		}
		e.full = l.clock.Add(full)
	}
	return r, wait == 0
}

// Len returns the number of keys.
func (l *Limiter) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// until returns how long a bucket with this number of tokens takes to refill to the wanted number.
func (b bucket) until(wanted, tokens float64) time.Duration {
	if tokens+tokenSlack >= wanted {
		return 0
	}
	return time.Duration(math.Ceil((wanted - tokens) / b.perSecond * float64(time.Second)))
}

// entry returns the entry of the claim's key, and marks it as most recently used. It creates the entry if necessary.
func (l *Limiter) entry(c Claim) *entry {
	if element := l.entries[c.Key]; element != nil {
		l.order.MoveToFront(element)
		return element.Value.(*entry)
	}
	for len(l.entries) >= l.maxKeys {
		l.drop(l.order.Back())
	}
	e := &entry{key: c.Key}
	for i, burst := range []int{c.Limits.PerMinute, c.Limits.PerHour} {
		if burst > 0 {
			perSecond := float64(burst) / windows[i].Seconds()
			e.buckets[i] = bucket{rate.NewLimiter(rate.Limit(perSecond), burst), burst, perSecond}
		}
	}
	l.entries[c.Key] = l.order.PushFront(e)
	return e
}

// dropIdle drops idle entries, beginning with the least recently used entry. It stops after n entries, or at an
// entry whose buckets are not full. An entry with full buckets is the same as a new entry.
func (l *Limiter) dropIdle(n int) {
	for ; n > 0; n-- {
		last := l.order.Back()
		if last == nil || last.Value.(*entry).full.After(l.clock) {
			return
		}
		l.drop(last)
	}
}

func (l *Limiter) drop(element *list.Element) {
	l.order.Remove(element)
	delete(l.entries, element.Value.(*entry).key)
}
