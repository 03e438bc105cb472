package limit

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// fillQueue returns a queue with one slot, which the test holds for the group "first".
func fillQueue(t *testing.T) (q *Queue, release func()) {
	t.Helper()
	q = NewQueue(1)
	release, err := q.Acquire(t.Context(), 0, 1, "first")
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
					release, err := q.Acquire(t.Context(), time.Hour, 1, groups...)
					if err != nil {
						t.Error(err)
					}
					served <- name
					release()
				}()
				for q.Waiting() != n+1 {
					time.Sleep(time.Millisecond)
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

// Waiters that give up leave nothing behind, also if they get a slot at the same moment.
func TestQueueGivesUp(t *testing.T) {
	q, release := fillQueue(t)
	if _, err := q.Acquire(t.Context(), time.Millisecond, 1, "a", "b"); err != ErrBusy {
		t.Errorf("Acquire = %v, want ErrBusy", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := q.Acquire(ctx, time.Hour, 1, "a"); err != context.Canceled {
		t.Errorf("Acquire = %v, want the error of the context", err)
	}
	if len(q.waiting) != 0 || len(q.groups) != 1 {
		t.Errorf("the queue is %+v", q)
	}
	release()

	// Waiters give up while the slot becomes free.
	for range 1000 {
		release, err := q.Acquire(t.Context(), time.Hour, 1, "first")
		if err != nil {
			t.Fatal(err)
		}
		go release()
		if release, err := q.Acquire(t.Context(), time.Microsecond, 1, "a"); err == nil {
			release()
		}
	}
	release, err := q.Acquire(t.Context(), time.Hour, 1)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if q.free != 1 || len(q.waiting) != 0 || len(q.groups) != 0 {
		t.Errorf("the queue is %+v", q)
	}
}

// A group has at most its share, however many units are free, and what does not fit into it delays nobody else.
func TestQueueShares(t *testing.T) {
	q := NewQueue(10, 6, 3)
	acquire := func(units int, groups ...string) (func(), error) {
		return q.Acquire(t.Context(), time.Millisecond, units, groups...)
	}
	first, err := acquire(3, "farm", "ann")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acquire(1, "farm", "ann"); err != ErrBusy {
		t.Errorf("Acquire of a user with a whole share = %v, want ErrBusy", err)
	}
	second, err := acquire(3, "farm", "bob")
	if err != nil {
		t.Fatalf("Acquire of another user = %v", err)
	}
	if _, err := acquire(1, "farm", "cid"); err != ErrBusy {
		t.Errorf("Acquire of a farm with a whole share = %v, want ErrBusy", err)
	}
	third, err := acquire(3, "other", "dan")
	if err != nil {
		t.Fatalf("Acquire of another farm = %v", err)
	}
	if _, err := acquire(2, "other", "eve"); err != ErrBusy {
		t.Errorf("Acquire of 2 of 1 free units = %v, want ErrBusy", err)
	}
	taken := q.Take(5, "farm", "ann")
	if q.free != -4 || q.groups["farm"].units != 11 {
		t.Errorf("after Take, the queue is %+v", q)
	}
	for _, release := range []func(){first, second, third, taken} {
		release()
	}
	if q.free != 10 || len(q.groups) != 0 {
		t.Errorf("the queue is %+v", q)
	}
}

// A waiter that needs many units gets them, although others that need few come all the time.
func TestQueueLargeWaiter(t *testing.T) {
	q := NewQueue(2)
	release, _ := q.Acquire(t.Context(), 0, 1, "a")
	large := make(chan func())
	go func() {
		release, err := q.Acquire(t.Context(), time.Hour, 2, "b")
		if err != nil {
			t.Error(err)
		}
		large <- release
	}()
	for q.Waiting() != 1 {
		time.Sleep(time.Millisecond)
	}
	if _, err := q.Acquire(t.Context(), time.Millisecond, 1, "a"); err != ErrBusy {
		t.Errorf("Acquire behind a waiter for all units = %v, want ErrBusy", err)
	}
	release()
	(<-large)()
}
