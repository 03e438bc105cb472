package auth

import (
	"sync"
	"time"
)

// Count makes the hasher call f with the rounds of each hash before it computes it.
func (h *Hasher) Count(f func(rounds int)) {
	h.key = func(password string, salt []byte, rounds int) ([]byte, error) {
		f(rounds)
		return pbkdf2Key(password, salt, rounds)
	}
}

// FillChanges acquires the semaphore of password changes and sets the wait of the others; free releases it.
func (h *Hasher) FillChanges(wait time.Duration) (free func()) {
	h.wait = wait
	h.changes <- struct{}{}
	return func() { <-h.changes }
}

// Fill acquires all slots and sets the wait of the others; free releases the slots.
func (h *Hasher) Fill(wait time.Duration) (free func()) {
	h.wait = wait
	for range cap(h.slots) {
		h.slots <- struct{}{}
	}
	return func() {
		for range cap(h.slots) {
			<-h.slots
		}
	}
}

// Gate makes each hash wait until open is called, and removes the limit on the wait for a slot.
func (h *Hasher) Gate() (open func()) {
	gate := make(chan struct{})
	h.wait = time.Hour
	h.key = func(password string, salt []byte, rounds int) ([]byte, error) {
		<-gate
		return pbkdf2Key(password, salt, rounds)
	}
	return sync.OnceFunc(func() { close(gate) })
}
