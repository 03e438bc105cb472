package auth

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
)

const (
	defaultRounds = 600_000
	maxRounds     = 10_000_000 // a stored hash with more rounds is malformed
	saltBytes     = 16
	keyBytes      = 32
	hashScheme    = "pbkdf2-sha256"
	queueWait     = 2 * time.Second
)

// ErrBusy means that a password was not hashed because it waited 2 seconds for others.
var ErrBusy = errors.New("auth: too many passwords are being checked at once")

var errMalformedHash = errors.New("auth: malformed password hash")

// Hasher hashes passwords with PBKDF2-HMAC-SHA256, at most one per core at a time. Only one of these may be for a new
// password, so that password changes leave room for logins. It is safe for concurrent use.
type Hasher struct {
	rounds  int
	slots   chan struct{}
	changes chan struct{}
	wait    time.Duration
	key     func(password string, salt []byte, rounds int) ([]byte, error) // PBKDF2; replaced by tests
}

// NewHasher returns a Hasher that hashes new passwords with the number of rounds; 0 means the default, 600,000.
func NewHasher(rounds int) *Hasher {
	if rounds <= 0 {
		rounds = defaultRounds
	}
	return &Hasher{
		rounds: rounds, slots: make(chan struct{}, runtime.GOMAXPROCS(0)), changes: make(chan struct{}, 1),
		wait: queueWait, key: pbkdf2Key,
	}
}

func pbkdf2Key(password string, salt []byte, rounds int) ([]byte, error) {
	return pbkdf2.Key(sha256.New, password, salt, rounds, keyBytes)
}

// Hash returns a hash of the password with a new salt, as pbkdf2-sha256$rounds$salt$key. The error is ErrBusy, or the
// error of ctx if it ended before the hashing started.
func (h *Hasher) Hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltBytes)
	rand.Read(salt)
	key, err := h.derive(ctx, password, salt, h.rounds, h.changes, h.slots)
	if err != nil {
		return "", err
	}
	return encodeHash(h.rounds, salt, key), nil
}

// Verify reports whether encoded is a hash of the password. For an empty hash, which stands for an unknown account, it
// takes the same time and returns false. The error is one of Hash, or says that the hash is malformed.
func (h *Hasher) Verify(ctx context.Context, encoded, password string) (ok bool, err error) {
	return h.verify(ctx, encoded, password, h.slots)
}

// Confirm is Verify for the current password of a password change.
func (h *Hasher) Confirm(ctx context.Context, encoded, password string) (ok bool, err error) {
	return h.verify(ctx, encoded, password, h.changes, h.slots)
}

func (h *Hasher) verify(ctx context.Context, encoded, password string, semaphores ...chan struct{}) (ok bool, err error) {
	rounds, salt, want := h.rounds, make([]byte, saltBytes), make([]byte, keyBytes)
	if encoded != "" {
		if rounds, salt, want, err = decodeHash(encoded); err != nil {
			return false, err
		}
	}
	key, err := h.derive(ctx, password, salt, rounds, semaphores...)
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(key, want) == 1 && encoded != "", nil
}

// derive acquires each semaphore in order, under one shared timeout, and computes the key.
func (h *Hasher) derive(ctx context.Context, password string, salt []byte, rounds int, semaphores ...chan struct{}) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	timer := time.NewTimer(h.wait)
	defer timer.Stop()
	for _, semaphore := range semaphores {
		select {
		case semaphore <- struct{}{}:
		default:
			select {
			case semaphore <- struct{}{}:
			case <-timer.C:
				return nil, ErrBusy
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		defer func() { <-semaphore }()
	}
	return h.key(password, salt, rounds)
}

var hashEncoding = base64.RawStdEncoding

func encodeHash(rounds int, salt, key []byte) string {
	return fmt.Sprintf("%s$%d$%s$%s", hashScheme, rounds, hashEncoding.EncodeToString(salt), hashEncoding.EncodeToString(key))
}

// decodeHash accepts only what encodeHash returns; any other text gives errMalformedHash.
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

const (
	minPassword = 10
	maxPassword = 200
)

// CheckPassword returns nil if p is a valid new password, or an error whose text continues the name of a field, such as
// "must have at least 10 characters".
func CheckPassword(p string) error {
	switch n := utf8.RuneCountInString(p); {
	case !utf8.ValidString(p) || strings.ContainsRune(p, 0):
		return errors.New("must be valid UTF-8 text without NUL characters")
	case n < minPassword:
		return fmt.Errorf("must have at least %d characters", minPassword)
	case n > maxPassword:
		return fmt.Errorf("must have at most %d characters", maxPassword)
	}
	return nil
}

// RandomPassword returns 26 characters with 130 random bits: capital letters, and digits from 2 to 7, because 0, 1 and
// 8 resemble letters.
func RandomPassword() string {
	return rand.Text()
}
