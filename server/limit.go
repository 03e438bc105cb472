package server

import (
	"container/list"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rate is what X-RateLimit-* says: the state of the tighter bucket, the one with fewer tokens left.
type Rate struct {
	Limit      int           // tokens the bucket holds
	Remaining  int           // whole tokens left in it
	Reset      time.Time     // when it is full again
	RetryAfter time.Duration // how long until both buckets have a token; 0 unless refused
	Off        bool          // both limits are turned off, and the rest says nothing
}

// Limiter gives every key two token buckets, one refilled over a minute and one over an hour. An event takes a token from both
// or from neither. It is safe for concurrent use, and needs no goroutine.
type Limiter struct {
	now     func() time.Time
	limits  [2]limit
	maxKeys int

	mu      sync.Mutex
	entries map[string]*list.Element // of *entry
	order   list.List                // the entry used last is in front
	seen    time.Time                // what now said last
	clock   time.Time                // seen, but never going backwards
}

type limit struct {
	burst     int
	perSecond float64
}

type entry struct {
	key     string
	buckets [2]*rate.Limiter // nil where the limit is turned off
	full    time.Time        // when both are full again, and the entry is as good as none
}

// tokenSlack is far above the rounding error of a bucket's float64, and far below what a client could gain by it: whoever comes
// exactly when a token is due must get it.
const tokenSlack = 1e-9

// NewLimiter makes a Limiter that lets perMinute events of a key pass in a minute and perHour in an hour, each at once or spread;
// 0 turns that limit off. It keeps at most maxKeys keys; beyond that it forgets the one that was used longest ago.
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

// Take takes one token from both buckets of the key and returns true, or returns false and takes nothing.
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

// Len returns how many keys are kept.
func (l *Limiter) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// until returns how long a bucket with so many tokens takes to have as many as wanted.
func (l limit) until(wanted, tokens float64) time.Duration {
	if tokens+tokenSlack >= wanted {
		return 0
	}
	return time.Duration(math.Ceil((wanted - tokens) / l.perSecond * float64(time.Second)))
}

// entry returns the entry of the key, a new one if need be, and puts it in front. Each call drops up to two idle entries, so that
// they go faster than new ones come.
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
		// The front entry may be the one in use.
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
