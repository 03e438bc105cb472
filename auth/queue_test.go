package auth

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// fillQueue returns a queue with one slot, which the test holds for the group "first".
func fillQueue(t *testing.T) (q *queue, release func()) {
	t.Helper()
	q = newQueue(1)
	release, err := q.acquire(t.Context(), 0, "first")
	if err != nil {
		t.Fatal(err)
	}
	return q, release
}

// A free slot goes to the waiter whose groups were served longest ago.
func TestQueueOrder(t *testing.T) {
	for _, c := range []struct {
		name          string
		waiting, want string // waiters, each with its groups joined by "+"
	}{
		{"one group, in order of arrival", "a a a", "a a a"},
		{"groups take turns", "a a a a b b c", "a b c a b a a"},
		{"the group that holds the slot comes last", "first first a", "a first first"},
		{"the group served last decides", "first+x y+x first+z", "y+x first+z first+x"},
		{"a new account from a busy address", "a+x a+x a+x b+x", "a+x b+x a+x a+x"},
		{"a busy account from a new address", "a+x a+y a+z b+v", "a+x b+v a+y a+z"},
		{"no group", "a a -", "- a a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, release := fillQueue(t)
			served := make(chan string, 100)
			for n, name := range strings.Fields(c.waiting) {
				var groups []string
				if name != "-" {
					groups = strings.Split(name, "+")
				}
				go func() {
					release, err := q.acquire(t.Context(), time.Hour, groups...)
					if err != nil {
						t.Error(err)
					}
					served <- name
					release()
				}()
				for len(q.waiters()) != n+1 {
					time.Sleep(time.Millisecond) // this package cannot import testkit
				}
			}
			release()
			var got []string
			for range strings.Fields(c.waiting) {
				got = append(got, <-served)
			}
			if !slices.Equal(got, strings.Fields(c.want)) {
				t.Errorf("served %v, want %s", got, c.want)
			}
		})
	}
}

func (q *queue) waiters() []*waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.waiting)
}

// Waiters that give up leave nothing behind, also if they get a slot at the same moment.
func TestQueueGivesUp(t *testing.T) {
	q, release := fillQueue(t)
	if _, err := q.acquire(t.Context(), time.Millisecond, "a", "b"); err != ErrBusy {
		t.Errorf("acquire = %v, want ErrBusy", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := q.acquire(ctx, time.Hour, "a"); err != context.Canceled {
		t.Errorf("acquire = %v, want the error of the context", err)
	}
	if len(q.waiting) != 0 || len(q.groups) != 1 {
		t.Errorf("the queue is %+v", q)
	}
	release()

	// Waiters give up while the slot becomes free.
	for range 1000 {
		release, err := q.acquire(t.Context(), time.Hour, "first")
		if err != nil {
			t.Fatal(err)
		}
		go release()
		if release, err := q.acquire(t.Context(), time.Microsecond, "a"); err == nil {
			release()
		}
	}
	release, err := q.acquire(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if q.free != 1 || len(q.waiting) != 0 || len(q.groups) != 0 {
		t.Errorf("the queue is %+v", q)
	}
}
