package common

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

func TestCommonPasswords(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		"qwertyuiop", "1234567890", "q1w2e3r4t5", "undertaker", "lovelylady", "0123456789",
		"welcomea110460", // the last one of the list
		"QwertyUiop", " qwertyuiop ", "UNDERTAKER\t",
	} {
		if !Contains(p) {
			t.Errorf("%q is not common", p)
		}
	}
	for _, p := range []string{
		"", "qwertyuio", "qwertyuiop1x", "qwerty uiop", "correct horse battery", "a password for tests", "demo-password",
	} {
		if Contains(p) {
			t.Errorf("%q is common", p)
		}
	}
}

// The random passwords are the same in each run, so that the number of errors is, too.
func TestWrongAnswersAreRare(t *testing.T) {
	t.Parallel()
	if n := (len(passwords) - 4*blocks) / width; n != Size {
		t.Fatalf("the set has %d passwords", n)
	}
	random := rand.New(rand.NewPCG(1, 2))
	const tries = 2_000_000
	wrong := 0
	for range tries {
		if Contains(strconv.FormatUint(random.Uint64(), 36) + "-" + strconv.FormatUint(random.Uint64(), 36)) {
			wrong++
		}
	}
	t.Logf("%d of %d random passwords are called common", wrong, tries)
	if wrong == 0 || wrong > tries/100_000 {
		t.Errorf("%d of %d random passwords are called common, want at most 1 of 100,000", wrong, tries)
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, 7, 1000} {
		var all []string
		for i := range n {
			all = append(all, "password "+strconv.Itoa(i))
		}
		set := string(Encode(all))
		for _, p := range all {
			if !contains(set, p) {
				t.Errorf("of %d passwords, %q is missing", n, p)
			}
		}
		for i := range 100 {
			if p := "another " + strconv.Itoa(i); contains(set, p) {
				t.Errorf("%q is among %d passwords", p, n)
			}
		}
	}
}

func BenchmarkContains(b *testing.B) {
	for b.Loop() {
		Contains("qwertyuiop")
		Contains("correct horse battery")
	}
}
