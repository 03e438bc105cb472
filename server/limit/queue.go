package limit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrBusy means that a caller of a Queue waited too long for the callers before it.
var ErrBusy = errors.New("too many requests wait for a share")

// Queue divides units of something, such as processors or bytes of memory, fairly among groups of callers. Free units
// go to the waiting caller whose groups were served longest ago, so that a group with many callers delays the others
// by one turn each, not by all its callers. A Queue is safe for concurrent use.
type Queue struct {
	maxUnits []int // see NewQueue

	mu      sync.Mutex
	free    int
	served  uint64            // how often units were granted
	groups  map[string]*group // the groups that have units or wait for units
	waiting []*waiter         // in order of arrival
}

type group struct {
	name    string
	members int    // number of callers that have units or wait
	units   int    // that the group has
	served  uint64 // the value of Queue.served after the group was last served; 0 if it was not
}

type waiter struct {
	units  int
	groups []*group
	ready  chan struct{} // closed when the waiter gets its units
}

// NewQueue returns a queue with the number of units. The first group of each caller has at most maxUnits[0] units at a
// time, the second at most maxUnits[1], and so on. Such limits are for units that callers keep for long: the other
// units stay free for other groups. A group without a limit may have all units while no other group waits.
func NewQueue(units int, maxUnits ...int) *Queue {
	return &Queue{maxUnits: maxUnits, free: units, groups: make(map[string]*group)}
}

// Acquire waits for units as a member of the groups, such as a tenant and a user. The number must not exceed what the
// queue, or one of the groups, can have. The caller must call release once. The error is ErrBusy if not enough units
// became free in time, or the error of ctx, for example because the client has disconnected.
func (q *Queue) Acquire(ctx context.Context, wait time.Duration, units int, groups ...string) (
	release func(), err error,
) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &waiter{units: units, ready: make(chan struct{})}
	q.mu.Lock()
	q.join(w, groups)
	q.waiting = append(q.waiting, w)
	q.grant()
	q.mu.Unlock()

	release = func() { q.leave(w) }
	select {
	case <-w.ready:
		return release, nil
	default:
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	select {
	case <-w.ready:
		return release, nil
	case <-timeout.C:
		err = ErrBusy
	case <-ctx.Done():
		err = ctx.Err()
	}
	release()
	return nil, err
}

// Take takes units at once, for something that exists already, even if fewer are free or a group exceeds its limit.
func (q *Queue) Take(units int, groups ...string) (release func()) {
	w := &waiter{units: units, ready: make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.join(w, groups)
	q.give(w)
	return func() { q.leave(w) }
}

// Free returns the number of free units. It is negative after a Take of more units than were free.
func (q *Queue) Free() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.free
}

// Waiting returns the number of callers that wait.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

func (q *Queue) join(w *waiter, groups []string) {
	for _, name := range groups {
		g := q.groups[name]
		if g == nil {
			g = &group{name: name}
			q.groups[name] = g
		}
		g.members++
		w.groups = append(w.groups, g)
	}
}

// leave removes a waiter from the queue, or frees its units if the waiter has them.
func (q *Queue) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, w)
	for _, g := range w.groups {
		if i < 0 {
			g.units -= w.units
		}
		if g.members--; g.members == 0 {
			delete(q.groups, g.name)
		}
	}
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	} else {
		q.free += w.units
	}
	q.grant()
}

// grant gives the free units to waiters, in the order of arrival among waiters of the same groups. If the next waiter
// needs more units than are free, the free units are kept for it.
func (q *Queue) grant() {
	for {
		var next *waiter
		for _, w := range q.waiting {
			if q.fits(w) && (next == nil || slices.Compare(w.turns(), next.turns()) < 0) {
				next = w
			}
		}
		if next == nil || q.free < next.units {
			return
		}
		q.waiting = slices.DeleteFunc(q.waiting, func(w *waiter) bool { return w == next })
		q.give(next)
	}
}

// fits reports whether the groups of the waiter may have its units.
func (q *Queue) fits(w *waiter) bool {
	for i, g := range w.groups {
		if i < len(q.maxUnits) && g.units+w.units > q.maxUnits[i] {
			return false
		}
	}
	return true
}

func (q *Queue) give(w *waiter) {
	q.free -= w.units
	q.served++
	for _, g := range w.groups {
		g.units, g.served = g.units+w.units, q.served
	}
	close(w.ready)
}

// turns returns when each group of the waiter was served, latest first.
func (w *waiter) turns() []uint64 {
	turns := make([]uint64, len(w.groups))
	for i, g := range w.groups {
		turns[i] = g.served
	}
	slices.SortFunc(turns, func(a, b uint64) int { return cmp.Compare(b, a) })
	return turns
}
