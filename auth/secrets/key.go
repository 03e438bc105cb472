package secrets

import (
	"crypto/rand"
	"crypto/sha256"
	"hash/crc32"
	"strings"
)

// The secret of an API key consists of a prefix, random characters, and a checksum of both. The prefix lets scanners
// of source code find secrets. With the checksum, the service rejects a mistyped secret without a query.
const (
	KeyPrefix   = "swk_" // begins each secret of an API key
	keyRandom   = 30
	keyChecksum = 6
	keyLength   = len(KeyPrefix) + keyRandom + keyChecksum
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// NewKey returns a new secret of an API key.
func NewKey() string {
	b := make([]byte, 0, keyLength)
	b = append(b, KeyPrefix...)
	var random [keyRandom * 2]byte
	for len(b) < len(KeyPrefix)+keyRandom {
		rand.Read(random[:])
		for _, c := range random {
			// Higher values would make some characters more likely than others.
			if c < 4*62 && len(b) < len(KeyPrefix)+keyRandom {
				b = append(b, base62[c%62])
			}
		}
	}
	return string(append(b, checksum(string(b))...))
}

// checksum returns the CRC-32 of s in base 62.
func checksum(s string) string {
	var b [keyChecksum]byte
	for i, sum := keyChecksum-1, crc32.ChecksumIEEE([]byte(s)); i >= 0; i, sum = i-1, sum/62 {
		b[i] = base62[sum%62]
	}
	return string(b[:])
}

// IsKey reports whether s has the form of a secret and the right checksum.
func IsKey(s string) bool {
	if len(s) != keyLength || !strings.HasPrefix(s, KeyPrefix) {
		return false
	}
	random := s[len(KeyPrefix) : keyLength-keyChecksum]
	return strings.Trim(random, base62) == "" && s[keyLength-keyChecksum:] == checksum(s[:keyLength-keyChecksum])
}

// KeyHash returns the SHA-256 of a secret, as 32 bytes. The secret has 178 random bits, so that a slow hash, as for
// passwords, would add no security.
func KeyHash(secret string) string {
	hash := sha256.Sum256([]byte(secret))
	return string(hash[:])
}

// KeyHint returns the start of a secret, so that people can recognize the key.
func KeyHint(secret string) string { return secret[:len(KeyPrefix)+4] + "…" }
