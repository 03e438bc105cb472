package auth

import (
	"context"
	"testing"
	"time"

	"spoolwright/server/limit"
)

// Count makes the hasher call f with the rounds of each hash before it computes it.
func (h *Hasher) Count(f func(rounds int)) {
	h.key = func(password string, salt []byte, rounds int) ([]byte, error) {
		f(rounds)
		return pbkdf2Key(password, salt, rounds)
	}
}

// Fill acquires all slots and sets the wait of the others; free releases the slots.
func (h *Hasher) Fill(wait time.Duration) (free func()) {
	h.wait = wait
	var releases []func()
	for range h.queue.Free() {
		release, err := h.queue.Acquire(context.Background(), 0, 1)
		if err != nil {
			panic(err)
		}
		releases = append(releases, release)
	}
	return func() {
		for _, release := range releases {
			release()
		}
	}
}

// Gate holds each hash until the test lets it proceed.
type Gate struct {
	Started chan string // the passwords, in the order in which the hasher starts them
	proceed chan struct{}
	hasher  *Hasher
}

// Gate makes each hash wait for the gate, sets the number of slots, and removes the limit on the wait for a slot.
func (h *Hasher) Gate(slots int) *Gate {
	h.queue = limit.NewQueue(slots)
	g := &Gate{make(chan string, 1000), make(chan struct{}), h}
	h.wait = time.Hour
	h.key = func(password string, salt []byte, rounds int) ([]byte, error) {
		g.Started <- password
		<-g.proceed
		return pbkdf2Key(password, salt, rounds)
	}
	return g
}

// Pass lets one hash proceed.
func (g *Gate) Pass() { g.proceed <- struct{}{} }

// Open lets all hashes proceed, now and later.
func (g *Gate) Open() { close(g.proceed) }

// WaitFor returns when n callers wait for a slot. It ends the test if that does not happen within 3 minutes. This
// package cannot import testkit, which imports it.
func (g *Gate) WaitFor(t *testing.T, n int) {
	t.Helper()
	waiting := 0
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		waiting = g.hasher.queue.Waiting()
		if waiting == n {
			return
		}
	}
	g.Open()
	t.Fatalf("%d callers wait for the hasher, want %d", waiting, n)
}

// IsKeySecret and KeyHash are isKeySecret and keyHash.
var (
	IsKeySecret = isKeySecret
	KeyHash     = keyHash
)

// NewKeySecret is newKeySecret.
var NewKeySecret = newKeySecret

// MaxKeys is maxKeys.
const MaxKeys = maxKeys
