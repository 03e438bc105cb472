package testkit

import "testing"

// Check ends the test if err is not nil.
func Check(tb testing.TB, err error) {
	if err != nil {
		tb.Helper()
		tb.Fatal(err)
	}
}
