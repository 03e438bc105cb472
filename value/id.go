package value

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"sync"
	"time"
)

// UUID is an id in its canonical text form.
type UUID string

// lastID contains the time of the last id in milliseconds, and the counter of the last id.
var lastID struct {
	sync.Mutex
	ms      int64
	counter uint16
}

// NewID returns a new UUIDv7 (RFC 9562) in canonical form. The ids of a process sort in the order of their creation,
// also within a millisecond and after the clock was set back.
func NewID() string {
	var b [16]byte
	rand.Read(b[:])
	// The counter has 12 bits. It starts at a random number below half of its range.
	start := binary.BigEndian.Uint16(b[6:]) & 0x07ff
	lastID.Lock()
	if now := time.Now().UnixMilli(); now > lastID.ms {
		lastID.ms, lastID.counter = now, start
	} else if lastID.counter++; lastID.counter > 0x0fff {
		lastID.ms, lastID.counter = lastID.ms+1, start
	}
	ms, counter := lastID.ms, lastID.counter
	lastID.Unlock()
	var time [8]byte
	binary.BigEndian.PutUint64(time[:], uint64(ms))
	copy(b[:6], time[2:])
	binary.BigEndian.PutUint16(b[6:], 0x7000|counter)
	b[8] = b[8]&0x3f | 0x80
	return formatID(b)
}

// ParseID returns the canonical form (lower case) of a UUID in the form 8-4-4-4-12. It returns false if s is not a
// UUID.
func ParseID(s string) (string, bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return "", false
	}
	var b [16]byte
	digits := make([]byte, 0, 32)
	for _, part := range []string{s[:8], s[9:13], s[14:18], s[19:23], s[24:]} {
		digits = append(digits, part...)
	}
	if _, err := hex.Decode(b[:], digits); err != nil {
		return "", false
	}
	return formatID(b), true
}

func formatID(b [16]byte) string {
	return string(AppendID(make([]byte, 0, 36), b[:]))
}

// AppendID appends the canonical form of the 16 bytes of a UUID.
func AppendID(to, b []byte) []byte {
	to = hex.AppendEncode(to, b[:4])
	for _, part := range [][]byte{b[4:6], b[6:8], b[8:10], b[10:16]} {
		to = append(to, '-')
		to = hex.AppendEncode(to, part)
	}
	return to
}
