package testkit

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Check ends the test if err is not nil.
func Check(tb testing.TB, err error) {
	if err != nil {
		tb.Helper()
		tb.Fatal(err)
	}
}

// Equal reports an error unless got equals want. The text, in the format of package fmt, describes the value.
func Equal[T comparable](tb testing.TB, got, want T, what string, args ...any) {
	if got != want {
		tb.Helper()
		tb.Errorf("got %v, want %v: %s", got, want, fmt.Sprintf(what, args...))
	}
}

// EqualSlices is Equal for slices.
func EqualSlices[T comparable](tb testing.TB, got, want []T, what string, args ...any) {
	if !slices.Equal(got, want) {
		tb.Helper()
		tb.Errorf("got %v, want %v: %s", got, want, fmt.Sprintf(what, args...))
	}
}

// Contains reports an error unless text contains part.
func Contains(tb testing.TB, text, part, what string, args ...any) {
	if !strings.Contains(text, part) {
		tb.Helper()
		tb.Errorf("got %s, want %q in it: %s", text, part, fmt.Sprintf(what, args...))
	}
}

// Lacks reports an error if text contains part.
func Lacks(tb testing.TB, text, part, what string, args ...any) {
	if strings.Contains(text, part) {
		tb.Helper()
		tb.Errorf("got %s, want no %q in it: %s", text, part, fmt.Sprintf(what, args...))
	}
}

var uuidV7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// TimeOfID returns the Unix time of a UUIDv7 in milliseconds. It ends the test if the id is none.
func TimeOfID(tb testing.TB, id string) int64 {
	tb.Helper()
	if !uuidV7.MatchString(id) {
		tb.Fatalf("%s is not a UUIDv7", id)
	}
	ms, err := strconv.ParseInt(id[:8]+id[9:13], 16, 64)
	Check(tb, err)
	return ms
}
