package webhooks

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzAnswer reads any answer of a receiver. What is stored is text for PostgreSQL of a bounded length, and the pause
// is one that the queue accepts.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("ok"), "120")
	f.Add([]byte("\xff\x00a"), "-1")
	f.Add([]byte(strings.Repeat("ä", maxStored)), "Fri, 31 Dec 9999 23:59:59 GMT")
	f.Add([]byte{}, "99999999999999999999")
	now := time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, body []byte, header string) {
		if text := printable(body); len(text) > maxStored || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			t.Errorf("%q becomes %q", body, text)
		}
		if pause := retryAfter(header, now); pause < 0 || pause > maxRetryAfter {
			t.Errorf("%q is a pause of %v", header, pause)
		}
	})
}
