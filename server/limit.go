package server

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
	RetryAfter time.Duration // until both buckets have a token; 0 if a token was taken
	Off        bool          // both limits are turned off; the other fields are zero
}

// Limiter is a rate limiter with two token buckets for each key, one that refills over a minute and one over an hour.
// An event takes a token from both or from neither. A Limiter is safe for concurrent use.
type Limiter struct {
	now     func() time.Time
	limits  [2]limit
	maxKeys int

	mu      sync.Mutex
	entries map[string]*list.Element // of *entry
	order   list.List                // most recently used first
	seen    time.Time                // the last result of now
	clock   time.Time                // advances with now, but never goes backwards
}

type limit struct {
	burst     int
	perSecond float64
}

type entry struct {
	key     string
	buckets [2]*rate.Limiter // nil if the limit is turned off
	full    time.Time        // when both are full, so that the entry can be dropped
}

// tokenSlack is a tolerance for the rounding errors of a bucket's float64, so that a request exactly at refill time
// succeeds.
const tokenSlack = 1e-9

// NewLimiter returns a Limiter that allows perMinute events per minute and perHour events per hour for each key, in
// bursts or spread; 0 turns a limit off. It holds at most maxKeys keys and evicts the least recently used one.
func NewLimiter(perMinute, perHour, maxKeys int, now func() time.Time) *Limiter {
	return &Limiter{
		now:     now,
		limits:  [2]limit{{perMinute, float64(perMinute) / 60}, {perHour, float64(perHour) / 3600}},
		maxKeys: max(maxKeys, 1),
		entries: make(map[string]*list.Element),
		seen:    now(),
		clock:   time.Unix(0, 0),
	}
}

// Take takes one token from both buckets of the key and returns true. If one of them is empty, it takes nothing and
// returns false.
func (l *Limiter) Take(key string) (Rate, bool) {
	if l.limits[0].burst <= 0 && l.limits[1].burst <= 0 {
		return Rate{Off: true}, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()

	wall := l.now()
	if passed := wall.Sub(l.seen); passed > 0 {
		l.clock = l.clock.Add(passed)
	}
	l.seen = wall

	e := l.entry(key)
	var tokens [2]float64
	var wait time.Duration
	for i, b := range e.buckets {
		if b != nil {
			tokens[i] = b.TokensAt(l.clock)
			wait = max(wait, l.limits[i].until(1, tokens[i]))
		}
	}
	r := Rate{RetryAfter: wait}
	left := math.Inf(1)
	var full time.Duration
	for i, b := range e.buckets {
		if b == nil {
			continue
		}
		if wait == 0 {
			b.ReserveN(l.clock, 1)
			tokens[i]--
		}
		reset := l.limits[i].until(float64(l.limits[i].burst), tokens[i])
		full = max(full, reset)
		if tokens[i] < left {
			left = tokens[i]
			r.Limit, r.Remaining, r.Reset = l.limits[i].burst, int(left+tokenSlack), wall.Add(reset)
		}
	}
	e.full = l.clock.Add(full)
	return r, wait == 0
}

// Len returns the number of keys.
func (l *Limiter) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// until returns how long a bucket takes to refill from tokens to wanted.
func (l limit) until(wanted, tokens float64) time.Duration {
	if tokens+tokenSlack >= wanted {
		return 0
	}
	return time.Duration(math.Ceil((wanted - tokens) / l.perSecond * float64(time.Second)))
}

// entry returns the entry of the key, which it creates if necessary, and moves it to the front. Each call drops up to
// two idle entries, so idle entries are dropped faster than new ones are added.
func (l *Limiter) entry(key string) *entry {
	if element := l.entries[key]; element != nil {
		l.order.MoveToFront(element)
		l.dropIdle(2)
		return element.Value.(*entry)
	}
	l.dropIdle(2)
	for len(l.entries) >= l.maxKeys {
		l.drop(l.order.Back())
	}
	e := &entry{key: key}
	for i, limit := range l.limits {
		if limit.burst > 0 {
			e.buckets[i] = rate.NewLimiter(rate.Limit(limit.perSecond), limit.burst)
		}
	}
	l.entries[key] = l.order.PushFront(e)
	return e
}

func (l *Limiter) dropIdle(most int) {
	for ; most > 0; most-- {
		last := l.order.Back()
		// The caller may be using the front entry.
		if last == nil || last == l.order.Front() || last.Value.(*entry).full.After(l.clock) {
			return
		}
		l.drop(last)
	}
}

func (l *Limiter) drop(element *list.Element) {
	l.order.Remove(element)
	delete(l.entries, element.Value.(*entry).key)
}
