package value_test

import (
	"strings"
	"testing"
	"time"

	"spoolwright/tests/testkit"
	"spoolwright/value"
)

// The test is not parallel, because the ids of TestNewIDIsMonotonic may run ahead of the clock.
func TestNewID(t *testing.T) {
	seen := map[string]bool{}
	variants, versions := map[byte]bool{}, map[byte]bool{}
	last := int64(0)
	for range 20_000 {
		before := time.Now().UnixMilli()
		id := value.NewID()
		after := time.Now().UnixMilli()
		if canonical, ok := value.ParseID(id); !ok || canonical != id {
			t.Fatalf("ParseID(%s) = %s, %v", id, canonical, ok)
		}
		if seen[id] {
			t.Fatalf("two ids are %s", id)
		}
		seen[id] = true
		if ms := testkit.TimeOfID(t, id); ms < before || ms > after || ms < last {
			t.Fatalf("%s has the time %d, want one from %d to %d, not before %d", id, ms, before, after, last)
		}
		last = testkit.TimeOfID(t, id)
		versions[id[15]], variants[id[19]] = true, true
	}
	if len(versions) < 8 || len(variants) != 4 {
		t.Errorf("the bits next to the version and the variant do not vary: %d and %d values", len(versions),
			len(variants))
	}
}

// Ids sort in the order in which they are made, also those of one millisecond, and of concurrent goroutines.
func TestNewIDIsMonotonic(t *testing.T) {
	t.Parallel()
	last := value.NewID()
	for range 100_000 {
		id := value.NewID()
		if id <= last {
			t.Fatalf("%s was made after %s", id, last)
		}
		last = id
	}
	testkit.Concurrently(4, func(int) {
		last := value.NewID()
		for range 20_000 {
			id := value.NewID()
			if id <= last {
				t.Errorf("%s was made after %s", id, last)
				return
			}
			last = id
		}
	})
}

func TestParseID(t *testing.T) {
	t.Parallel()
	const id = "0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41"
	for in, want := range map[string]string{
		id:                                     id,
		strings.ToUpper(id):                    id,
		"0191D5b4-7c2e-7A10-9f3c-5d1f6f0e2a41": id,
		"00000000-0000-0000-0000-000000000000": "00000000-0000-0000-0000-000000000000",
		"FFFFFFFF-ffff-FFFF-ffff-FFFFFFFFFFFF": "ffffffff-ffff-ffff-ffff-ffffffffffff",
		"":                                     "",
		"0":                                    "",
		id + "0":                               "",
		id[:35]:                                "",
		" " + id[1:]:                           "",
		id[:35] + " ":                          "",
		id[:35] + "\n":                         "",
		id[:35] + "\x00":                       "",
		id[:35] + "g":                          "",
		"{" + id + "}":                         "",
		"{" + id[1:35] + "}":                   "",
		"urn:uuid:" + id:                       "",
		strings.ReplaceAll(id, "-", ""):        "",
		strings.ReplaceAll(id, "-", "_"):       "",
		"0191d5b47-c2e-7a10-9f3c-5d1f6f0e2a41": "",
		"0191d5b4-7c2e-7a10-9f3c5-d1f6f0e2a41": "",
		"0191d5b-47c2e-7a10-9f3c-5d1f6f0e2a41": "",
		"-191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41": "",
		"0191d5b4--c2e-7a10-9f3c-5d1f6f0e2a41": "",
		"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a4\xff": "",
		"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2é1":     "",
		"0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2ä":      "",
		"0x91d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41":    "",
		"+191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41":    "",
	} {
		if got, ok := value.ParseID(in); got != want || ok != (want != "") {
			t.Errorf("ParseID(%q) = %q, %v; want %q", in, got, ok, want)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41")
	f.Add("0191D5B4-7C2E-7A10-9F3C-5D1F6F0E2A41")
	f.Add("0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2ä")
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := value.ParseID(s)
		if !ok && id != "" || ok && id != strings.ToLower(s) {
			t.Errorf("ParseID(%q) = %q, %v", s, id, ok)
		}
		if again, okAgain := value.ParseID(id); ok && (again != id || !okAgain) {
			t.Errorf("ParseID(%q) = %q, %v", id, again, okAgain)
		}
	})
}
