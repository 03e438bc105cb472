package testkit

import (
	"fmt"
	"slices"
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
