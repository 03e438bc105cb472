// Package secrets has what people and programs prove their identity with: passwords, one-time codes, recovery codes and
// the secrets of API keys. It makes, checks and hashes them, and limits guesses. It knows neither HTTP nor SQL.
package secrets

import (
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"spoolwright/auth/common"
	"spoolwright/server/limit"
	"spoolwright/value/language"
)

// Rounds is the number of rounds of PBKDF2 for new passwords.
const Rounds = 600_000

const (
	maxRounds  = 10_000_000 // a stored hash with more rounds is malformed
	saltBytes  = 16
	keyBytes   = 32
	hashScheme = "pbkdf2-sha256"
)

// ErrBusy means that a password was not hashed, because it waited too long for the hashing of other passwords.
var ErrBusy = limit.ErrBusy

var errMalformedHash = errors.New("secrets: malformed password hash")

// Hasher hashes passwords with PBKDF2-HMAC-SHA256, at most one per core at a time. Callers that wait share the cores
// fairly: groups such as an account, an address or a tenant take turns, so that the passwords of one group do not
// delay other groups for long. Its methods are safe for concurrent use; its fields must not change after the first
// call.
type Hasher struct {
	Rounds int           // of new passwords
	Queue  *limit.Queue  // grants the cores
	Wait   time.Duration // for a core, until ErrBusy

	// Key derives the key of a password: PBKDF2.
	Key func(password string, salt []byte, rounds int) ([]byte, error)
}

// NewHasher returns a Hasher that hashes new passwords with the number of rounds: Rounds in the program, fewer in
// tests.
func NewHasher(rounds int) *Hasher {
	return &Hasher{Rounds: rounds, Queue: limit.NewQueue(runtime.GOMAXPROCS(0)), Wait: 2 * time.Second, Key: pbkdf2Key}
}

func pbkdf2Key(password string, salt []byte, rounds int) ([]byte, error) {
	return pbkdf2.Key(sha256.New, password, salt, rounds, keyBytes)
}

// Hash returns a hash of the password with a new salt, as pbkdf2-sha256$rounds$salt$key. It waits for a core as a
// member of the groups. The error is ErrBusy, or the error of ctx if ctx ended before the hashing started.
func (h *Hasher) Hash(ctx context.Context, password string, groups ...string) (string, error) {
	salt := make([]byte, saltBytes)
	rand.Read(salt)
	key, err := h.derive(ctx, password, salt, h.Rounds, groups)
	if err != nil {
		return "", err
	}
	return encodeHash(h.Rounds, salt, key), nil
}

// Verify reports whether encoded is a hash of the password. An empty hash stands for an unknown account: Verify takes
// the same time as for a hash and returns false. The error is an error of Hash, or reports that the hash is malformed.
func (h *Hasher) Verify(ctx context.Context, encoded, password string, groups ...string) (ok bool, err error) {
	rounds, salt, want := h.Rounds, make([]byte, saltBytes), make([]byte, keyBytes)
	if encoded != "" {
		if rounds, salt, want, err = decodeHash(encoded); err != nil {
			return false, err
		}
	}
	key, err := h.derive(ctx, password, salt, rounds, groups)
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(key, want) == 1 && encoded != "", nil
}

// derive computes the key after the queue grants a slot.
func (h *Hasher) derive(
	ctx context.Context, password string, salt []byte, rounds int, groups []string,
) ([]byte, error) {
	release, err := h.Queue.Acquire(ctx, h.Wait, 1, groups...)
	if err != nil {
		return nil, err
	}
	defer release()
	return h.Key(password, salt, rounds)
}

var hashEncoding = base64.RawStdEncoding

func encodeHash(rounds int, salt, key []byte) string {
	return fmt.Sprintf("%s$%d$%s$%s", hashScheme, rounds,
		hashEncoding.EncodeToString(salt), hashEncoding.EncodeToString(key))
}

// decodeHash parses the text that encodeHash returns. For any other text, it returns errMalformedHash.
func decodeHash(encoded string) (rounds int, salt, key []byte, err error) {
	parts := strings.Split(encoded, "$")
	if len(parts) != 4 {
		return 0, nil, nil, errMalformedHash
	}
	rounds, err1 := strconv.Atoi(parts[1])
	salt, err2 := hashEncoding.DecodeString(parts[2])
	key, err3 := hashEncoding.DecodeString(parts[3])
	if errors.Join(err1, err2, err3) != nil || rounds < 1 || rounds > maxRounds || len(salt) != saltBytes ||
		len(key) != keyBytes || encodeHash(rounds, salt, key) != encoded {
		return 0, nil, nil, errMalformedHash
	}
	return rounds, salt, key, nil
}

// MinPassword and maxPassword are the bounds of the number of characters of a new password.
const (
	MinPassword = 10
	maxPassword = 200
)

// CheckPassword returns nil if p is a valid new password, or an error whose text continues the name of a field, such
// as "must have at least 10 characters".
func CheckPassword(p string) error {
	switch n := utf8.RuneCountInString(p); {
	case !utf8.ValidString(p) || strings.ContainsRune(p, 0):
		return language.Error("must be valid UTF-8 text without NUL characters")
	case n < MinPassword:
		return language.Error("must have at least %d characters", MinPassword)
	case n > maxPassword:
		return language.Error("must have at most %d characters", maxPassword)
	case common.Contains(p):
		return language.Error("is one of the most common passwords, which attackers try first: choose another one")
	}
	return nil
}

// RandomPassword returns 26 characters with 130 random bits: capital letters, and digits from 2 to 7, because 0, 1 and
// 8 resemble letters. CheckPassword accepts it: a few of a million random texts count as common passwords.
func RandomPassword() string {
	for {
		if p := rand.Text(); CheckPassword(p) == nil {
			return p
		}
	}
}
