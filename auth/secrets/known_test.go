package secrets

import (
	"fmt"
	"testing"
)

// A Known tells secrets apart, and is bounded.
func TestKnown(t *testing.T) {
	var known Known[int]
	if _, ok := known.Find("a secret"); ok {
		t.Error("an empty Known knows a secret")
	}
	for i := range maxKnown + 10 {
		known.Add(fmt.Sprint("secret ", i), i)
		if got, ok := known.Find(fmt.Sprint("secret ", i)); !ok || got != i {
			t.Fatalf("secret %d: %d, %v", i, got, ok)
		}
		if _, ok := known.Find(fmt.Sprint("secret ", i+1)); ok {
			t.Fatalf("secret %d is known before it is added", i+1)
		}
		if n := len(known.all); n == 0 || n > maxKnown {
			t.Fatalf("%d secrets are known, want 1 to %d", n, maxKnown)
		}
	}
}
