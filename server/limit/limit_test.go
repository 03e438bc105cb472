package limit

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spoolwright/tests/testkit/seed"
)

// limitClock is a clock for tests.
type limitClock struct{ t time.Time }

func newLimitClock() *limitClock {
	return &limitClock{time.Date(2024, 1, 15, 10, 0, 0, 0, time.UTC)}
}

func (c *limitClock) now() time.Time { return c.t }

// modelBucket is a token bucket with integers: a token is `period` units, and each nanosecond adds `limit` units.
type modelBucket struct {
	limit, period, units int64
}

func newModelBucket(limit int, period time.Duration) *modelBucket {
	return &modelBucket{int64(limit), int64(period), int64(limit) * int64(period)}
}

func (b *modelBucket) pass(d time.Duration) {
	b.units = min(b.units+int64(d)*b.limit, b.limit*b.period)
}

func (b *modelBucket) tokens() float64 { return float64(b.units) / float64(b.period) }

func (b *modelBucket) until(units int64) time.Duration {
	return time.Duration(max(units-b.units, 0) / b.limit)
}

// The limiter computes with float64 and the model with integers. If a bucket is within a millionth of a token of a
// whole number, they may differ, and the model then follows the limiter. 25,000 rounding errors of 1e-13 are far
// below that.
const modelTolerance = 1e-6

func TestAgainstModel(t *testing.T) {
	seed := seed.New(t)
	for _, limits := range [][2]int{{100, 1000}, {3, 10}, {100, 0}, {0, 50}, {7, 100_000}, {60, 3600}} {
		t.Run(fmt.Sprint(limits), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, uint64(limits[0])))
			compareWithModel(t, random, limits[0], limits[1], 25_000)
		})
	}
}

func compareWithModel(t *testing.T, random *rand.Rand, perMinute, perHour, events int) {
	clock := newLimitClock()
	keys := []string{"user:a", "user:b", "user:c", "addr:192.0.2.1", "addr:2001:db8::/64"}
	l := newTestLimiter(perMinute, perHour, len(keys), clock.now)
	model := map[string][]*modelBucket{}
	for _, key := range keys {
		if perMinute > 0 {
			model[key] = append(model[key], newModelBucket(perMinute, time.Minute))
		}
		if perHour > 0 {
			model[key] = append(model[key], newModelBucket(perHour, time.Hour))
		}
	}
	var shorter, longer time.Duration // refill time of a token in the two buckets
	for _, b := range model[keys[0]] {
		shorter, longer = longer, time.Duration(b.period/b.limit)
	}
	if shorter == 0 || shorter > longer {
		shorter, longer = longer, max(shorter, longer)
	}
	var accepted, rejected int
	for i := range events {
		var step time.Duration
		switch n := random.IntN(100); {
		case i%10_000 == 9999:
			step = time.Duration(random.Int64N(int64(3 * time.Hour)))
		case n < 85:
		case n < 90:
			step = time.Duration(random.Int64N(int64(shorter)))
		case n < 94:
			step = shorter
		case n < 96:
			step = longer
		case n < 98:
			step = time.Duration(random.Int64N(int64(longer)))
		default:
			step = -time.Duration(random.Int64N(int64(time.Minute)))
		}
		clock.t = clock.t.Add(step)
		for _, buckets := range model {
			for _, b := range buckets {
				b.pass(max(step, 0))
			}
		}

		key := keys[random.IntN(len(keys))]
		r, ok := l.Take(key)
		buckets := model[key]
		mayPass, mustPass := true, true
		var wait time.Duration
		for _, b := range buckets {
			mayPass = mayPass && b.tokens() >= 1-modelTolerance
			mustPass = mustPass && b.tokens() >= 1+modelTolerance
			wait = max(wait, b.until(b.period))
		}
		if ok && !mayPass || !ok && mustPass {
			t.Fatalf("event %d, %s: accepted is %v, but the model has %v and %v tokens", i, key, ok,
				buckets[0].tokens(),
				buckets[len(buckets)-1].tokens())
		}
		if ok {
			accepted++
			for _, b := range buckets {
				b.units -= b.period
			}
			wait = 0
		} else {
			rejected++
		}
		if d := r.RetryAfter - wait; d.Abs() > 10*time.Microsecond || (r.RetryAfter == 0) != ok {
			t.Fatalf("event %d, %s: RetryAfter is %v, in the model %v", i, key, r.RetryAfter, wait)
		}
		var tighter *modelBucket
		for _, b := range buckets {
			if int(b.limit) == r.Limit {
				tighter = b
			}
		}
		for _, b := range buckets {
			if tighter == nil || tighter.tokens() > b.tokens()+modelTolerance {
				t.Fatalf("event %d, %s: Limit is %d; the model has %v and %v tokens", i, key, r.Limit,
					buckets[0].tokens(),
					buckets[len(buckets)-1].tokens())
			}
		}
		if n := tighter.tokens(); r.Remaining != int(n+modelTolerance) && r.Remaining != int(n-modelTolerance) ||
			r.Remaining < 0 {
			t.Fatalf("event %d, %s: Remaining is %d, in the model %v", i, key, r.Remaining, n)
		}
		if d := r.Reset.Sub(clock.t) - tighter.until(tighter.limit*tighter.period); d.Abs() > 10*time.Microsecond {
			t.Fatalf("event %d, %s: Reset is %v off the model", i, key, d)
		}
	}
	if accepted < events/100 || rejected < events/100 {
		t.Errorf("%d accepted and %d rejected; the test needs both", accepted, rejected)
	}
	t.Logf("%d accepted, %d rejected", accepted, rejected)
}

func TestLimitsOff(t *testing.T) {
	l := newTestLimiter(0, 0, 10, time.Now)
	for range 10_000 {
		if r, ok := l.Take("user:a"); !ok || r != (Rate{Off: true}) {
			t.Fatalf("Take = %+v, %v", r, ok)
		}
	}
	if l.Len() != 0 {
		t.Errorf("the limiter has %d keys", l.Len())
	}
}

// After exactly RetryAfter an event is accepted, and one nanosecond earlier it is not.
func TestRetryAfterIsEnough(t *testing.T) {
	for _, limits := range [][2]int{{100, 1000}, {7, 0}, {0, 7}, {1, 1}, {999, 12_345}} {
		clock := newLimitClock()
		l := newTestLimiter(limits[0], limits[1], 10, clock.now)
		for range 20_000 {
			r, ok := l.Take("user:a")
			if ok {
				continue
			}
			clock.t = clock.t.Add(r.RetryAfter)
			if _, ok := l.Take("user:a"); !ok {
				t.Fatalf("%v: rejected after %v", limits, r.RetryAfter)
			}
		}
	}
}

// Events at exactly the refill rate are always accepted, and Remaining counts whole tokens exactly.
func TestExactPace(t *testing.T) {
	for _, limits := range [][2]int{{100, 0}, {7, 0}, {0, 1000}, {0, 625}, {60, 3600}} {
		clock := newLimitClock()
		l := newTestLimiter(limits[0], limits[1], 10, clock.now)
		for {
			if _, ok := l.Take("user:a"); !ok {
				break
			}
		}
		pace := time.Hour
		for i, period := range []time.Duration{time.Minute, time.Hour} {
			if limits[i] > 0 {
				pace = min(pace, (period+time.Duration(limits[i])-1)/time.Duration(limits[i]))
			}
		}
		for i := range 10_000 {
			clock.t = clock.t.Add(pace)
			if r, ok := l.Take("user:a"); !ok || r.Remaining != 0 {
				t.Fatalf("%v: event %d: Take = %+v, %v", limits, i, r, ok)
			}
		}
		clock.t = clock.t.Add(5 * pace)
		if r, _ := l.Take("user:a"); r.Remaining != 4 {
			t.Errorf("%v: after 5 tokens' time: %+v", limits, r)
		}
	}
}

func TestKeysAreBounded(t *testing.T) {
	const keys = 100_000
	clock := newLimitClock()
	l := newTestLimiter(100, 1000, 1000, clock.now)
	for i := range keys {
		l.Take("user:recent")
		l.Take(fmt.Sprint("addr:", i))
		if l.Len() > 1000 {
			t.Fatalf("the limiter has %d keys", l.Len())
		}
	}
	if r, ok := l.Take("user:recent"); ok || r.Remaining != 0 {
		t.Errorf("the limiter evicted the most recently used key: %+v", r)
	}
	if r, _ := l.Take(fmt.Sprint("addr:", keys-1)); r.Remaining != 98 {
		t.Errorf("the limiter evicted a recently used key: %+v", r)
	}
	if r, _ := l.Take("addr:0"); r.Remaining != 99 {
		t.Errorf("the limiter did not evict the least recently used key: %+v", r)
	}

	clock.t = clock.t.Add(time.Hour)
	for range 1000 {
		l.Take("user:recent")
	}
	if l.Len() != 1 {
		t.Errorf("after an idle hour the limiter has %d keys", l.Len())
	}

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l = newTestLimiter(100, 1000, keys, clock.now)
	for i := range keys {
		l.Take(fmt.Sprintf("user:%036d", i))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	perKey := int(after.HeapAlloc-before.HeapAlloc) / l.Len()
	t.Logf("%d bytes per key", perKey)
	if l.Len() != keys || perKey > 1000 {
		t.Errorf("%d keys take %d bytes each", l.Len(), perKey)
	}
	runtime.KeepAlive(l)
}

func TestConcurrentTakes(t *testing.T) {
	clock := newLimitClock()
	l := newTestLimiter(100, 150, 10, clock.now)
	var accepted [4]atomic.Int64
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			for i := range 200 {
				k := (g + i) % len(accepted)
				if _, ok := l.Take(fmt.Sprint("user:", k)); ok {
					accepted[k].Add(1)
				}
			}
		})
	}
	wg.Wait()
	for k := range accepted {
		if n := accepted[k].Load(); n != 100 {
			t.Errorf("key %d: %d accepted, want 100", k, n)
		}
	}
}

func TestTakeDoesNotAllocate(t *testing.T) {
	l := newTestLimiter(100, 1000, 10, time.Now)
	l.Take("user:a")
	if n := testing.AllocsPerRun(1000, func() { l.Take("user:a") }); n != 0 {
		t.Errorf("Take allocates %v times", n)
	}
}
