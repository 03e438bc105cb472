package auth

import "time"

// Count makes the hasher tell f the rounds of each hash that it computes.
func (h *Hasher) Count(f func(rounds int)) {
	h.key = func(password string, salt []byte, rounds int) ([]byte, error) {
		f(rounds)
		return pbkdf2Key(password, salt, rounds)
	}
}

// FillChanges takes the place of those who change passwords; the returned function frees it.
func (h *Hasher) FillChanges(wait time.Duration) (free func()) {
	h.wait = wait
	h.changes <- struct{}{}
	return func() { <-h.changes }
}

// Fill takes all places, so that whoever comes has to wait, for so long at most; the returned function frees them.
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
