package secrets

import (
	"strings"
	"testing"
	"time"
)

// The test vectors of RFC 6238 for SHA-1, of which apps show the last six digits.
func TestTOTPVectors(t *testing.T) {
	secret := []byte("12345678901234567890")
	for _, v := range []struct {
		unix int64
		code string
	}{
		{59, "94287082"}, {1111111109, "07081804"}, {1111111111, "14050471"}, {1234567890, "89005924"},
		{2000000000, "69279037"}, {20000000000, "65353130"},
	} {
		at := time.Unix(v.unix, 0)
		if got := totp(secret, stepOf(at)); got != v.code[2:] {
			t.Errorf("at %d: %s, want %s", v.unix, got, v.code[2:])
		}
		for steps := int64(-3); steps <= 3; steps++ {
			now := at.Add(time.Duration(steps) * otpStep)
			if now.Unix() < 0 {
				continue
			}
			if step, ok := FindStep(secret, v.code[2:], now); ok != (steps >= -1 && steps <= 1) || ok && step != v.unix/30 {
				t.Errorf("%d steps after %d: step %d, %v", steps, v.unix, step, ok)
			}
		}
	}
}

// A recovery code is read with and without dashes and blanks. Its hash belongs to one second factor.
func TestRecoveryCodes(t *testing.T) {
	codes, hashes := NewRecoveryCodes("a")
	seen := map[string]bool{}
	for i, code := range codes {
		if len(code) != 24 || seen[code] {
			t.Errorf("the code is %s", code)
		}
		seen[code] = true
		for _, typed := range []string{code, strings.ReplaceAll(code, "-", ""), " " + strings.ReplaceAll(code, "-", " ")} {
			if clean := CleanCode(typed); !IsRecoveryCode(clean) || string(RecoveryHash("a", clean)) != string(hashes[i]) {
				t.Errorf("%q is not read", typed)
			}
		}
		if string(RecoveryHash("b", CleanCode(code))) == string(hashes[i]) {
			t.Error("a hash does not depend on the second factor")
		}
	}
	if len(codes) != 10 || len(hashes) != 10 {
		t.Errorf("%d codes", len(codes))
	}
	if got := OTPURI([]byte("12345678901234567890"), "a b@x.example"); got != "otpauth://totp/"+
		"Spoolwright:a%20b@x.example"+
		"?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Spoolwright" {
		t.Error(got)
	}
	for _, code := range []string{"", "123456", "1234567890123456789", "12345678901234567890a", "1234567890123456789a"} {
		if IsRecoveryCode(code) {
			t.Error(code, "is a recovery code")
		}
	}
}
