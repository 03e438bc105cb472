package secrets

import (
	"crypto/sha256"
	"sync"
)

// maxKnown bounds the memory of a Known to about 4 MiB.
const maxKnown = 16_384

// Known remembers the content of verified secrets by their SHA-256. When it is full, Add empties it. The zero value
// knows none. It is safe for concurrent use.
type Known[T any] struct {
	mu  sync.RWMutex
	all map[[sha256.Size]byte]T
}

// Find returns the content of a secret, or false if the secret is not known.
func (k *Known[T]) Find(secret string) (content T, ok bool) {
	hash := sha256.Sum256([]byte(secret))
	k.mu.RLock()
	defer k.mu.RUnlock()
	content, ok = k.all[hash]
	return content, ok
}

// Add remembers the content of a secret that was verified.
func (k *Known[T]) Add(secret string, content T) {
	hash := sha256.Sum256([]byte(secret))
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil || len(k.all) >= maxKnown {
		k.all = map[[sha256.Size]byte]T{}
	}
	k.all[hash] = content
}
