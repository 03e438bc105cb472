package auth

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// queue is a semaphore that shares its slots fairly among groups of callers. A free slot goes to the waiting caller
// whose groups were served longest ago, so that a group with many callers delays the others by one turn each, not by
// all its callers. One group may hold all slots while no other group waits. It is safe for concurrent use.
type queue struct {
	mu      sync.Mutex
	free    int
	served  uint64            // number of slots granted
	groups  map[string]*group // the groups that hold a slot or wait for a slot
	waiting []*waiter         // in order of arrival
}

type group struct {
	name    string
	members int    // number of slots held and callers waiting
	served  uint64 // the value of queue.served after the last slot of the group was granted; 0 if none was
}

type waiter struct {
	groups []*group
	ready  chan struct{} // closed when the waiter gets a slot
}

func newQueue(slots int) *queue {
	return &queue{free: slots, groups: make(map[string]*group)}
}

// acquire waits for a slot as a member of the groups. The caller must call release. The error is ErrBusy if no slot
// became free in time, or the error of ctx.
func (q *queue) acquire(ctx context.Context, wait time.Duration, groups ...string) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	w := &waiter{ready: make(chan struct{})}
	for _, name := range groups {
		g := q.groups[name]
		if g == nil {
			g = &group{name: name}
			q.groups[name] = g
		}
		g.members++
		w.groups = append(w.groups, g)
	}
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

// leave removes a waiter from the queue, or frees its slot if the waiter has a slot.
func (q *queue) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, g := range w.groups {
		if g.members--; g.members == 0 {
			delete(q.groups, g.name)
		}
	}
	if i := slices.Index(q.waiting, w); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return
	}
	q.free++
	q.grant()
}

// grant gives the free slots to waiters. Among waiters of the same groups, the first to arrive comes first.
func (q *queue) grant() {
	for q.free > 0 && len(q.waiting) > 0 {
		next := slices.MinFunc(q.waiting, func(a, b *waiter) int { return slices.Compare(a.turns(), b.turns()) })
		q.waiting = slices.DeleteFunc(q.waiting, func(w *waiter) bool { return w == next })
		q.free--
		q.served++
		for _, g := range next.groups {
			g.served = q.served
		}
		close(next.ready)
	}
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
