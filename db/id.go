package db

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// NewID returns a new UUIDv7 (RFC 9562) in canonical form. Of two ids that one process makes in different
// milliseconds, the later one sorts after the earlier one.
func NewID() string {
	var b [16]byte
	rand.Read(b[:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(time.Now().UnixMilli()))
	copy(b[:6], ms[2:])
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	return formatID(b)
}

// ParseID returns the canonical form (lower case) of a UUID in the form 8-4-4-4-12, and false if s is not one.
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
	return string(appendID(make([]byte, 0, 36), b[:]))
}

func appendID(to, b []byte) []byte {
	to = hex.AppendEncode(to, b[:4])
	for _, part := range [][]byte{b[4:6], b[6:8], b[8:10], b[10:16]} {
		to = append(to, '-')
		to = hex.AppendEncode(to, part)
	}
	return to
}
