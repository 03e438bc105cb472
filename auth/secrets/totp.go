package secrets

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"time"
)

// Codes of apps follow RFC 6238, with the options that all apps support: SHA-1, 6 digits, and steps of 30 seconds.
const (
	OTPSecretBytes = 20 // the length of a secret that apps share with the service
	otpStep        = 30 * time.Second
	otpDrift       = 1 // how many steps the clock of a phone may be ahead or behind
)

func totp(secret []byte, step int64) string {
	mac := hmac.New(sha1.New, secret)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(step))) // a hash returns no errors
	sum := mac.Sum(nil)
	n := binary.BigEndian.Uint32(sum[sum[len(sum)-1]&15:]) & (1<<31 - 1)
	return fmt.Sprintf("%06d", n%1_000_000)
}

func stepOf(t time.Time) int64 { return t.Unix() / int64(otpStep/time.Second) }

// FindStep returns the step that has the code, at most otpDrift steps from now, or false.
func FindStep(secret []byte, code string, now time.Time) (step int64, ok bool) {
	for at := stepOf(now) - otpDrift; at <= stepOf(now)+otpDrift; at++ {
		if subtle.ConstantTimeCompare([]byte(code), []byte(totp(secret, at))) == 1 {
			step, ok = at, true
		}
	}
	return step, ok
}

// OTPURI returns the address that apps read from a QR code.
func OTPURI(secret []byte, email string) string {
	const name = "Spoolwright"
	return "otpauth://totp/" + name + ":" + url.PathEscape(email) + "?secret=" + EncodeOTP(secret) + "&issuer=" + name
}

// EncodeOTP returns the secret as people type it into an app.
func EncodeOTP(secret []byte) string {
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)
}

// A recovery code has 20 digits, 66 random bits. It has no letters, so that phones show their keypad of digits for
// both kinds of codes.
const (
	recoveryCodes  = 10
	recoveryDigits = 20
)

// NewRecoveryCodes returns new recovery codes, and their hashes for the second factor with the id.
func NewRecoveryCodes(id string) (codes []string, hashes [][]byte) {
	bound := new(big.Int).Exp(big.NewInt(10), big.NewInt(recoveryDigits), nil)
	for range recoveryCodes {
		n, err := rand.Int(rand.Reader, bound)
		if err != nil {
			panic(err) // the reader returns no errors
		}
		code := fmt.Sprintf("%0*d", recoveryDigits, n)
		hashes = append(hashes, RecoveryHash(id, code))
		var groups []string
		for i := 0; i < recoveryDigits; i += 4 {
			groups = append(groups, code[i:i+4])
		}
		codes = append(codes, strings.Join(groups, "-"))
	}
	return codes, hashes
}

// RecoveryHash returns the hash of the digits of a recovery code. The code has enough random bits that a slow hash, as
// for passwords, would add little.
func RecoveryHash(id, digits string) []byte {
	hash := sha256.Sum256([]byte(id + ":" + digits))
	return hash[:]
}

// CleanCode returns a code without the blanks and dashes that people type.
func CleanCode(code string) string {
	return strings.NewReplacer(" ", "", "-", "", "\u00a0", "", "\t", "").Replace(code)
}

// IsRecoveryCode reports whether a clean code has the form of a recovery code.
func IsRecoveryCode(code string) bool {
	return len(code) == recoveryDigits && strings.Trim(code, "0123456789") == ""
}
