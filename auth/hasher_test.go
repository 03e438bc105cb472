package auth_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"spoolwright/auth/secrets"
	"spoolwright/server/limit"
	"spoolwright/tests/testkit"
)

// countHashes makes the hasher call f with the rounds of each hash before it computes it.
func countHashes(h *secrets.Hasher, f func(rounds int)) {
	key := h.Key
	h.Key = func(password string, salt []byte, rounds int) ([]byte, error) {
		f(rounds)
		return key(password, salt, rounds)
	}
}

// fill acquires all slots of the hasher and sets the wait of the others; free releases the slots.
func fill(t *testing.T, h *secrets.Hasher, wait time.Duration) (free func()) {
	t.Helper()
	h.Wait = wait
	var releases []func()
	for range h.Queue.Free() {
		release, err := h.Queue.Acquire(context.Background(), 0, 1)
		testkit.Check(t, err)
		releases = append(releases, release)
	}
	return func() {
		for _, release := range releases {
			release()
		}
	}
}

// gate holds each hash until the test lets it proceed.
type gate struct {
	started chan string // the passwords, in the order in which the hasher starts them
	proceed chan struct{}
	open    func() // lets all hashes proceed, now and later; the end of the test does too
	queue   *limit.Queue
}

// newGate makes each hash wait for the gate, sets the number of slots, and removes the limit on the wait for a slot.
func newGate(t *testing.T, h *secrets.Hasher, slots int) *gate {
	g := &gate{started: make(chan string, 1000), proceed: make(chan struct{}), queue: limit.NewQueue(slots)}
	g.open = sync.OnceFunc(func() { close(g.proceed) })
	t.Cleanup(g.open)
	key := h.Key
	h.Queue, h.Wait = g.queue, time.Hour
	h.Key = func(password string, salt []byte, rounds int) ([]byte, error) {
		g.started <- password
		<-g.proceed
		return key(password, salt, rounds)
	}
	return g
}

// pass lets one hash proceed.
func (g *gate) pass() { g.proceed <- struct{}{} }

// waitFor returns when n callers wait for a slot.
func (g *gate) waitFor(t *testing.T, n int) {
	t.Helper()
	testkit.Eventually(t, "callers wait for the hasher", func() bool { return g.queue.Waiting() == n })
}
