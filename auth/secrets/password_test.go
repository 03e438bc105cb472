package secrets

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

const testRounds = 1000

func TestHashAndVerify(t *testing.T) {
	h := NewHasher(testRounds)
	ctx := t.Context()
	encoded, err := h.Hash(ctx, "correct horse battery")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(encoded, "pbkdf2-sha256$1000$") {
		t.Errorf("hash is %q", encoded)
	}
	again, _ := h.Hash(ctx, "correct horse battery")
	if again == encoded {
		t.Error("two hashes have the same salt")
	}
	for _, c := range []struct {
		encoded, password string
		want              bool
	}{
		{encoded, "correct horse battery", true},
		{again, "correct horse battery", true},
		{encoded, "correct horse batterY", false},
		{encoded, "correct horse battery ", false},
		{encoded, "", false},
		{"", "correct horse battery", false},
		{"", "", false},
	} {
		if ok, err := h.Verify(ctx, c.encoded, c.password); ok != c.want || err != nil {
			t.Errorf("Verify(%q, %q) = %v, %v", c.encoded, c.password, ok, err)
		}
	}
	// Verify uses the rounds of the hash, not those of the Hasher.
	if ok, err := NewHasher(1).Verify(ctx, encoded, "correct horse battery"); !ok || err != nil {
		t.Errorf("Verify with another Hasher = %v, %v", ok, err)
	}
}

// The vectors are from RFC 7914, section 11, truncated to 32 bytes.
func TestHashKnownVectors(t *testing.T) {
	h := NewHasher(1)
	for _, c := range []struct {
		password, salt string
		rounds         int
		key            string
	}{
		{"passwd", "salt", 1, "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc"},
		{"Password", "NaCl", 80000, "4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56"},
	} {
		key, err := h.derive(t.Context(), c.password, []byte(c.salt), c.rounds, nil)
		if err != nil || hex.EncodeToString(key) != c.key {
			t.Errorf("%s: %x, %v", c.password, key, err)
		}
	}
}

func TestNewHashesHaveManyRounds(t *testing.T) {
	hash, err := NewHasher(Rounds).Hash(t.Context(), "correct horse battery")
	if err != nil || !strings.HasPrefix(hash, "pbkdf2-sha256$600000$") {
		t.Errorf("%s, %v", hash, err)
	}
}

func TestVerifyMalformedHash(t *testing.T) {
	h := NewHasher(testRounds)
	good, _ := h.Hash(t.Context(), "correct horse battery")
	parts := strings.Split(good, "$")
	with := func(i int, part string) string {
		changed := append([]string(nil), parts...)
		changed[i] = part
		return strings.Join(changed, "$")
	}
	short := base64.RawStdEncoding.EncodeToString(make([]byte, 15))
	for _, encoded := range []string{
		"x", "$", "$$$", "$$$$", good + "$", good + "\n", " " + good, good[:len(good)-1],
		with(0, "pbkdf2-sha1"), with(0, "PBKDF2-SHA256"),
		with(1, ""), with(1, "0"), with(1, "-1"), with(1, "+1000"), with(1, "01000"), with(1, "1e3"),
		with(1, "10000001"), with(1, "99999999999999999999"),
		with(2, ""), with(2, short), with(2, parts[2]+"=="), with(2, "\n"+parts[2]), with(2, parts[2][:21]+"B"),
		with(3, ""), with(3, short), with(3, strings.Repeat("!", 43)), with(3, parts[3]+"AAAA"),
	} {
		ok, err := h.Verify(t.Context(), encoded, "correct horse battery")
		if ok || !errors.Is(err, errMalformedHash) {
			t.Errorf("Verify(%q) = %v, %v", encoded, ok, err)
		}
	}
}

func FuzzDecodeHash(f *testing.F) {
	f.Add("pbkdf2-sha256$600000$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Add("pbkdf2-sha256$0$$")
	f.Fuzz(func(t *testing.T, encoded string) {
		rounds, salt, key, err := decodeHash(encoded)
		if err == nil && (rounds < 1 || rounds > maxRounds || encodeHash(rounds, salt, key) != encoded) {
			t.Errorf("decodeHash accepts %q", encoded)
		}
	})
}

// Verify compares with a key of zeros for an unknown account. A password with that key must fail too.
func TestVerifyUnknownAccount(t *testing.T) {
	h := NewHasher(testRounds)
	h.Key = func(string, []byte, int) ([]byte, error) { return make([]byte, keyBytes), nil }
	if ok, err := h.Verify(t.Context(), "", "any password"); ok || err != nil {
		t.Error(ok, err)
	}
}

func TestHasherIsBounded(t *testing.T) {
	h := NewHasher(testRounds)
	if h.Queue.Free() != runtime.GOMAXPROCS(0) {
		t.Errorf("%d slots, want GOMAXPROCS", h.Queue.Free())
	}
	h.Wait = 10 * time.Millisecond
	var slots []func()
	for range h.Queue.Free() {
		release, err := h.Queue.Acquire(t.Context(), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		slots = append(slots, release)
	}
	if _, err := h.Hash(t.Context(), "correct horse battery"); err != ErrBusy {
		t.Errorf("Hash: %v", err)
	}
	if _, err := h.Verify(t.Context(), "", "correct horse battery"); err != ErrBusy {
		t.Errorf("Verify: %v", err)
	}
	h.Wait = time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := h.Hash(ctx, "correct horse battery"); err != context.DeadlineExceeded {
		t.Errorf("Hash with a context that ends: %v", err)
	}

	waiting := make(chan error)
	go func() {
		_, err := h.Hash(t.Context(), "correct horse battery")
		waiting <- err
	}()
	for _, release := range slots {
		release()
	}
	if err := <-waiting; err != nil {
		t.Errorf("Hash after a slot became free: %v", err)
	}
	if h.Queue.Free() != runtime.GOMAXPROCS(0) || h.Queue.Waiting() != 0 {
		t.Errorf("the queue is %+v after all callers left", h.Queue)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Hash(ended, "correct horse battery"); err != context.Canceled {
		t.Errorf("Hash with a context that had ended: %v", err)
	}
}

func TestCheckPassword(t *testing.T) {
	for _, p := range []string{
		"0123456798", strings.Repeat("x", 200), "äöüßéèñçøå", strings.Repeat("漢", 200), "          ",
		"a\tb\nc d e f",
	} {
		if err := CheckPassword(p); err != nil {
			t.Errorf("CheckPassword(%q) = %v", p, err)
		}
	}
	for p, want := range map[string]string{
		"":                       "must have at least 10 characters",
		"012345678":              "must have at least 10 characters",
		"äöüßé":                  "must have at least 10 characters",
		strings.Repeat("x", 201): "must have at most 200 characters",
		"0123456789\x00":         "must be valid UTF-8 text without NUL characters",
		"0123456789\xff":         "must be valid UTF-8 text without NUL characters",
		"Qwerty123456":           "is one of the most common passwords, which attackers try first: choose another one",
	} {
		if err := CheckPassword(p); err == nil || err.Error() != want {
			t.Errorf("CheckPassword(%q) = %v, want %q", p, err, want)
		}
	}
}

// A few random texts count as common passwords, such as this one.
func TestRandomPassword(t *testing.T) {
	if CheckPassword("WUWVR3VRKR2ABSIGHHMVPIBVTQ") == nil {
		t.Error("no random text counts as a common password: RandomPassword need not check it")
	}
	seen := map[string]bool{}
	for range 1000 {
		p := RandomPassword()
		if len(p) < 20 || CheckPassword(p) != nil || strings.Trim(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" ||
			seen[p] {
			t.Fatalf("RandomPassword = %q", p)
		}
		seen[p] = true
	}
}
