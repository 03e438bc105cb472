package fair

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spoolwright/tests/testkit/seed"
)

// shareTest runs a test of shares of 16 connections in a bubble, where time passes only while everything waits.
func shareTest(t *testing.T, test func(*testing.T, *Shares)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(16, 16)
		test(t, s)
		time.Sleep(10 * activeFor)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.inUse+s.service != 0 || s.used != [classes]int{} || len(s.tenants) != 0 || s.active != 0 ||
			s.queue.Len() != 0 || s.sweeping {
			t.Errorf("in the end: %d in use, %v used, %d tenants, %d active, %d queued, sweeping %v",
				s.inUse, s.used, len(s.tenants), s.active, s.queue.Len(), s.sweeping)
		}
	})
}

// request is an acquire in another goroutine.
type request struct {
	share  Share
	err    error
	done   atomic.Bool // set after the other fields
	cancel context.CancelFunc
}

// ask starts n requests and returns when each has its connection or waits.
func (s *Shares) ask(t *testing.T, tenant string, c Class, n int) []*request {
	t.Helper()
	all := make([]*request, n)
	for i := range all {
		ctx, cancel := context.WithCancel(t.Context())
		all[i] = &request{cancel: cancel}
		go func() {
			all[i].share, all[i].err = s.Acquire(t.Context(), ctx, tenant, c)
			all[i].done.Store(true)
		}()
		synctest.Wait()
	}
	return all
}

func granted(all []*request) (n int) {
	synctest.Wait()
	for _, r := range all {
		if r.done.Load() && r.err == nil {
			n++
		}
	}
	return n
}

// releaseAll releases what is granted until nothing waits.
func releaseAll(t *testing.T, all ...[]*request) {
	t.Helper()
	for open := slices.Concat(all...); len(open) > 0; {
		synctest.Wait()
		var done []*request
		open = slices.DeleteFunc(open, func(r *request) bool {
			if r.done.Load() {
				done = append(done, r)
			}
			return r.done.Load()
		})
		for _, r := range done {
			if r.err == nil {
				r.share.Release()
			}
		}
		if len(done) == 0 {
			t.Fatalf("%d requests wait for nothing", len(open))
		}
	}
	synctest.Wait()
}

func want(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d, want %d", what, got, want)
	}
}

func TestOneTenant(t *testing.T) {
	shareTest(t, func(t *testing.T, s *Shares) {
		reads := s.ask(t, "a", Read, 20)
		want(t, "reads alone", granted(reads), 7)
		writes := s.ask(t, "a", Write, 20)
		want(t, "writes beside reads", granted(writes), 7)
		releaseAll(t, reads, writes)
		writes = s.ask(t, "a", Write, 20)
		want(t, "writes alone", granted(writes), 11)
		releaseAll(t, writes)
	})
}

// A tenant that was idle does not wait for the requests of one that has all it can get.
func TestIdleTenantDoesNotWait(t *testing.T) {
	shareTest(t, func(t *testing.T, s *Shares) {
		busy := append(s.ask(t, "a", Read, 20), s.ask(t, "a", Write, 20)...)
		first := s.ask(t, "b", Read, 1)
		want(t, "a read beside a busy tenant", granted(first), 1)
		releaseAll(t, first)
		first = s.ask(t, "b", Write, 1)
		want(t, "a write beside a busy tenant", granted(first), 1)
		releaseAll(t, busy, first)

		writes := s.ask(t, "a", Write, 20)
		first = s.ask(t, "b", Write, 1)
		want(t, "a write beside as many writes as there may be", granted(first), 1)
		releaseAll(t, writes, first)
	})
}

// While another tenant is active, a tenant has a quarter; when the other one has been idle for a while, all again.
func TestBusyTenants(t *testing.T) {
	shareTest(t, func(t *testing.T, s *Shares) {
		reads := s.ask(t, "a", Read, 100)
		other := s.ask(t, "b", Read, 100)
		want(t, "what the newcomer has at first", granted(other), 1)
		for _, r := range reads[:7] {
			r.share.Release()
			synctest.Wait()
		}
		want(t, "reads beside reads", granted(reads)-7, 2)
		want(t, "reads of the newcomer", granted(other), 2)
		writes := s.ask(t, "a", Write, 100)
		want(t, "writes beside reads", granted(writes), 2)
		time.Sleep(activeFor * 9 / 10)
		releaseAll(t, writes, other)

		want(t, "reads just after the other tenant's last", granted(reads)-7, 2)
		time.Sleep(activeFor / 2)
		want(t, "reads soon after the other tenant's last", granted(reads)-7, 2)
		time.Sleep(2 * activeFor)
		want(t, "reads when the other tenant is idle", granted(reads)-7, 7)
		for _, r := range reads[:7] {
			r.err = errors.New("released")
		}
		releaseAll(t, reads)
	})
}

// A read that takes long counts before it ends: while it runs, the tenant gets no further one, even if its other reads
// were fast.
func TestSlowReadThatHasNotEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(16, 2)
		other := s.ask(t, "b", Write, 1)
		for range 10 {
			fast := s.ask(t, "a", Read, 1)
			releaseAll(t, fast)
		}
		slow := s.ask(t, "a", Read, 1)
		beside := s.ask(t, "a", Read, 1)
		want(t, "reads beside one that may be fast", granted(beside), 1)
		releaseAll(t, beside)
		time.Sleep(2 * slowRead)
		beside = s.ask(t, "a", Read, 2)
		want(t, "reads beside a slow one", granted(beside), 0)
		quick := s.ask(t, "a", Quick, 1)
		want(t, "quick reads beside a slow one", granted(quick), 1)
		releaseAll(t, slow)
		want(t, "reads after the slow one", granted(beside), 1)
		releaseAll(t, beside, quick, other)
		time.Sleep(10 * activeFor)
	})
}

// While another tenant is active, the slow reads of a tenant leave a processor to it. They do not delay its own quick
// reads and writes.
func TestSlowReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a bubble, as in shareTest
		s := New(16, 2)
		a, b := [][]*request{}, s.ask(t, "b", Read, 1)
		ask := func(what string, c Class, n, most int) []*request {
			requests := s.ask(t, "a", c, n)
			want(t, what, granted(requests), most)
			a = append(a, requests)
			return requests
		}
		first := ask("reads of which it is not known that they are slow", Read, 2, 2)
		time.Sleep(time.Second)
		for _, r := range first {
			r.share.Release()
			r.err = errors.New("released")
		}
		reads := ask("slow reads", Read, 5, 1)
		ask("quick reads beside a slow one", Quick, 1, 1)
		ask("writes beside a slow read", Write, 5, 2)
		time.Sleep(3 * activeFor)
		releaseAll(t, b)
		time.Sleep(3 * activeFor)
		want(t, "slow reads alone", granted(reads), 5)
		releaseAll(t, a...)

		b = s.ask(t, "b", Read, 1)
		for range 20 { // the reads become fast
			releaseAll(t, s.ask(t, "a", Read, 1))
		}
		releaseAll(t, ask("fast reads", Read, 5, 2), b)
		time.Sleep(10 * activeFor)
	})
}

// Quick reads get a connection for each processor, and those of tenants without a connection get twice as many.
func TestLimitOfQuickReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a bubble, as in shareTest
		s := New(32, 3)
		a := s.ask(t, "a", Quick, 5)
		want(t, "quick reads of one tenant", granted(a), 3)
		others := [][]*request{a}
		most := 0
		for _, tenant := range []string{"b", "c", "d", "e", "f"} {
			one := s.ask(t, tenant, Quick, 2)
			most += granted(one)
			others = append(others, one)
		}
		want(t, "quick reads of five others", most, 3)
		reads := s.ask(t, "g", Read, 2)
		want(t, "reads that are not quick", granted(reads), 2)
		releaseAll(t, append(others, reads)...)
		time.Sleep(10 * activeFor)
	})
}

// However many tenants come, reads have half of the connections at most and writes three quarters.
func TestClassesHaveShares(t *testing.T) {
	shareTest(t, func(t *testing.T, s *Shares) {
		var reads, writes []*request
		for i := range 30 {
			reads = append(reads, s.ask(t, fmt.Sprint(i), Read, 3)...)
		}
		want(t, "reads of all", granted(reads), 8)
		for i := range 30 {
			writes = append(writes, s.ask(t, fmt.Sprint(i), Write, 3)...)
		}
		want(t, "reads and writes of all", granted(reads)+granted(writes), 15)
		releaseAll(t, reads, writes)
		writes = nil
		for i := range 30 {
			writes = append(writes, s.ask(t, fmt.Sprint(i), Write, 3)...)
		}
		want(t, "writes of all", granted(writes), 12)
		releaseAll(t, writes)
	})
}

// Requests of one tenant are served in order, and tenants in turn, however many requests each has.
func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(1, 16)
		var order []string
		busy := s.ask(t, "busy", Write, 1)
		var wg sync.WaitGroup
		for i := range 9 {
			tenant := string("aaaaabbcc"[i])
			wg.Go(func() {
				h, err := s.Acquire(t.Context(), t.Context(), tenant, Class(i%2))
				if err != nil {
					t.Error(err)
				}
				order = append(order, fmt.Sprint(tenant, i))
				h.Release()
			})
			synctest.Wait()
		}
		releaseAll(t, busy)
		wg.Wait()
		if want := []string{"a0", "b5", "c7", "a1", "b6", "c8", "a2", "a3", "a4"}; !slices.Equal(order, want) {
			t.Errorf("the order is %v, want %v", order, want)
		}
	})
}

// A request that waits ends with its client and with its deadline, and is not served afterwards.
func TestCancelledRequestIsNotServed(t *testing.T) {
	shareTest(t, func(t *testing.T, s *Shares) {
		reads := s.ask(t, "a", Read, 10)
		reads[7].cancel()
		synctest.Wait()
		if !reads[7].done.Load() || !errors.Is(reads[7].err, context.Canceled) {
			t.Errorf("a cancelled request: %v %v", reads[7].done.Load(), reads[7].err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Acquire(ctx, t.Context(), "a", Read); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the deadline: %v", err)
		}
		reads[0].share.Release()
		synctest.Wait()
		want(t, "granted after one release", granted(reads), 8)
		if !reads[8].done.Load() || reads[9].done.Load() {
			t.Error("the oldest request that waits is not the first to be served")
		}
		releaseAll(t, reads[1:])
		if got, want := s.Stats(), (Stats{Waits: 4, WaitTime: 3 * time.Second}); got != want {
			t.Errorf("the statistics are %+v, want %+v", got, want)
		}
	})
}

// A request that is cancelled in the moment that it gets its connection gives it back.
func TestCancelledWhenGranted(t *testing.T) {
	t.Parallel()
	for range 20 {
		s := New(1, 16)
		h, _ := s.Acquire(t.Context(), t.Context(), "a", Write)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool)
		go func() {
			if h, err := s.Acquire(t.Context(), ctx, "b", Write); err == nil {
				h.Release()
			}
			close(done)
		}()
		for waits := false; !waits; time.Sleep(time.Millisecond) { // this package cannot import testkit
			s.mu.Lock()
			waits = s.queue.Len() > 0
			s.mu.Unlock()
		}
		s.mu.Lock()
		cancel()
		time.Sleep(time.Millisecond) // the request ends, and waits for the mutex
		s.giveBack(h.tenant, h.class)
		s.mu.Unlock()
		<-done
		if s.inUse != 0 || s.queue.Len() != 0 {
			t.Fatalf("%d in use, %d queued", s.inUse, s.queue.Len())
		}
	}
}

func TestSerialized(t *testing.T) {
	shareTest(t, func(t *testing.T, s *Shares) {
		locked := s.ask(t, "a", Serialized, 20)
		want(t, "Serialized", granted(locked), 2)
		writes := s.ask(t, "a", Write, 20)
		want(t, "writes beside them", granted(writes), 9)
		other := s.ask(t, "b", Serialized, 20)
		want(t, "Serialized of a newcomer", granted(other), 1)
		releaseAll(t, writes)
		want(t, "Serialized of another tenant", granted(other), 2)
		releaseAll(t, locked, other)

		writes = s.ask(t, "c", Write, 3)
		for i, ok := range []bool{true, true, false} {
			if got := writes[i].share.Serialize(); got != ok || writes[0].share.Serialize() != true {
				t.Errorf("write %d can be Serialized: %v", i, got)
			}
		}
		locked = s.ask(t, "c", Serialized, 1)
		want(t, "Serialized beside two", granted(locked), 0)
		releaseAll(t, writes[2:])
		want(t, "Serialized after another write", granted(locked), 0)
		releaseAll(t, writes[:1])
		want(t, "Serialized after one of the two", granted(locked), 1)
		releaseAll(t, writes[1:2], locked)
	})
}

// The service's own reads have a quarter, and take nothing from the only tenant.
func TestServiceReadsHaveQuarter(t *testing.T) {
	shareTest(t, func(t *testing.T, s *Shares) {
		own := s.ask(t, "", Read, 5)
		want(t, "reads of the service", granted(own), 4)
		for _, r := range own[4:] {
			r.cancel()
		}
		reads := s.ask(t, "a", Read, 20)
		want(t, "reads of a tenant beside them", granted(reads), 7)
		writes := s.ask(t, "a", Write, 20)
		want(t, "writes of a tenant beside them", granted(writes), 5)
		releaseAll(t, own)
		want(t, "writes of a tenant after them", granted(writes), 7)
		own = s.ask(t, "", Read, 5)
		want(t, "reads of the service beside a busy tenant", granted(own), 2)
		releaseAll(t, reads, writes, own)
	})
}

// A small pool serves every class, one request at a time if need be.
func TestSmallPools(t *testing.T) {
	t.Parallel()
	for conns, want := range map[int][classes]int{1: {1, 1, 1, 1}, 2: {1, 1, 2, 2}, 3: {1, 1, 3, 2},
		4: {2, 1, 3, 2}, 7: {3, 1, 5, 2}, 8: {3, 2, 5, 2}, 32: {15, 8, 23, 2}} {
		synctest.Test(t, func(t *testing.T) {
			for c := range classes {
				s := New(conns, 16)
				all := s.ask(t, "a", c, 40)
				if got := granted(all); got != want[c] {
					t.Errorf("class %d of %d connections: %d, want %d", c, conns, got, want[c])
				}
				releaseAll(t, all)
				own := s.ask(t, "", c, 1)
				if granted(own) != 1 {
					t.Errorf("class %d of %d connections: nothing for the service", c, conns)
				}
				releaseAll(t, own)
			}
			time.Sleep(10 * activeFor)
		})
	}
}

// Whatever comes in whatever order, no limit is exceeded, nothing waits that could be served, and nothing is left.
func TestRandomOrderKeepsLimits(t *testing.T) {
	seed := seed.New(t)
	r := rand.New(rand.NewPCG(seed, 0))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the seed is %d", seed)
		}
	})
	shareTest(t, func(t *testing.T, s *Shares) {
		var open []*request
		for range 5000 {
			switch n := r.IntN(10); {
			case n < 5 && len(open) < 200:
				open = append(open, s.ask(t, []string{"", "a", "b", "c", "d", "e", "f"}[r.IntN(7)],
					Class(r.IntN(int(classes))), 1)...)
			case n == 5:
				time.Sleep(time.Duration(r.Int64N(int64(activeFor))))
			case len(open) > 0:
				i := r.IntN(len(open))
				switch q := open[i]; {
				case !q.done.Load() && n == 6:
					q.cancel()
				case !q.done.Load() || q.err == nil && n == 7 && q.share.class == Write && q.share.Serialize():
					continue
				case q.err == nil:
					q.share.Release()
				}
				open = slices.Delete(open, i, i+1)
			}
			synctest.Wait()
			s.mu.Lock()
			if s.inUse > s.total || s.inUse+s.service > s.conns || s.used[Read] > s.limit[Read] ||
				s.used[Write] > s.limit[Write] {
				t.Fatalf("%d connections are in use, %v", s.inUse, s.used)
			}
			inUse := 0
			for _, share := range s.tenants {
				inUse += share.held
				if share.used[Serialized] > maxSerialized || share.held < 0 ||
					share.used[Read]+share.used[Write] != share.held && share.id != "" {
					t.Fatalf("%q has %+v", share.id, share)
				}
				for c := range share.waiting {
					if share.waiting[c].Len() > 0 && (s.admits(share, Class(c)) || share.queued == nil) {
						t.Fatalf("%q waits for class %d without need", share.id, c)
					}
				}
			}
			if inUse != s.inUse+s.service {
				t.Fatalf("%d connections are in use, tenants have %d", s.inUse, inUse)
			}
			s.mu.Unlock()
		}
		releaseAll(t, open)
	})
}
