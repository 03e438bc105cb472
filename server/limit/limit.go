// Package limit limits the rate of events with token buckets.
package limit

import (
	"container/list"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rate is the state of the bucket with fewer tokens, for the X-RateLimit headers.
type Rate struct {
	Limit      int           // capacity of the bucket
	Remaining  int           // whole tokens in it
	Reset      time.Time     // when it is full
	RetryAfter time.Duration // until all buckets have a token; 0 if a token was taken
	Off        bool          // all limits are turned off; the other fields are zero
}

// Limits are the capacities of a key's two token buckets, one that refills over a minute and one over an hour; 0 turns
// a limit off.
type Limits struct{ PerMinute, PerHour int }

// Claim asks for one token from each bucket of a key. The limits of a key must not change.
type Claim struct {
	Key    string
	Limits Limits
}

// Limiter is a rate limiter with two token buckets for each key. An event takes a token from all buckets of its keys
// or from none. A Limiter is safe for concurrent use.
type Limiter struct {
	now     func() time.Time
	maxKeys int

	mu      sync.Mutex
	entries map[string]*list.Element // of *entry
	order   list.List                // most recently used first
	seen    time.Time                // the last result of now
	clock   time.Time                // advances with now, but never goes backwards
}

type entry struct {
	key     string
	buckets [2]bucket
	full    time.Time // when all buckets are full, so that the entry can be dropped
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

// maxClaims is the number of keys that an event can have: the caller and the caller's tenant.
const maxClaims = 2

// New returns a Limiter that holds at most maxKeys keys and evicts the least recently used one.
func New(maxKeys int, now func() time.Time) *Limiter {
	return &Limiter{
		now:     now,
		maxKeys: max(maxKeys, maxClaims),
		entries: make(map[string]*list.Element),
		seen:    now(),
		clock:   time.Unix(0, 0),
	}
}

// Take takes one token from each bucket of the claims, of which there are at most two, and returns true. If one of the
// buckets is empty, it takes nothing and returns false.
func (l *Limiter) Take(claims ...Claim) (Rate, bool) { return l.take(1, claims) }

// Peek is Take without taking: it reports whether Take would succeed now.
func (l *Limiter) Peek(claims ...Claim) (Rate, bool) { return l.take(0, claims) }

func (l *Limiter) take(n int, claims []Claim) (Rate, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	wall := l.now()
	if passed := wall.Sub(l.seen); passed > 0 {
		l.clock = l.clock.Add(passed)
	}
	l.seen = wall

	// Two idle entries for each that may be new, so that idle entries are dropped faster than new ones are added.
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
				r.Limit, r.Remaining, r.Reset = b.burst, int(left+tokenSlack), wall.Add(reset)
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

// until returns how long a bucket takes to refill from tokens to wanted.
func (b bucket) until(wanted, tokens float64) time.Duration {
	if tokens+tokenSlack >= wanted {
		return 0
	}
	return time.Duration(math.Ceil((wanted - tokens) / b.perSecond * float64(time.Second)))
}

// entry returns the entry of the claim's key, which it creates if necessary, and moves it to the front.
func (l *Limiter) entry(c Claim) *entry {
	if element := l.entries[c.Key]; element != nil {
		l.order.MoveToFront(element)
		return element.Value.(*entry)
	}
	for len(l.entries) >= l.maxKeys {
		l.drop(l.order.Back())
	}
	e := &entry{key: c.Key}
	for i, limit := range []struct{ burst, seconds int }{{c.Limits.PerMinute, 60}, {c.Limits.PerHour, 3600}} {
		if limit.burst > 0 {
			perSecond := float64(limit.burst) / float64(limit.seconds)
			e.buckets[i] = bucket{rate.NewLimiter(rate.Limit(perSecond), limit.burst), limit.burst, perSecond}
		}
	}
	l.entries[c.Key] = l.order.PushFront(e)
	return e
}

// dropIdle drops up to most of the least recently used entries whose buckets are full: they are as good as new.
func (l *Limiter) dropIdle(most int) {
	for ; most > 0; most-- {
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
