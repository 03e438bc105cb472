package value_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"spoolwright/server"
	"spoolwright/tests/testkit/seed"
	"spoolwright/value"
)

func TestParseDecimal(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"0":                 "0",
		"-0":                "0",
		"-0.0":              "0",
		"-0e5":              "0",
		"0e999999999999":    "0",
		"0e-999999999999":   "0",
		"0.000e99999999":    "0",
		"1":                 "1",
		"-1":                "-1",
		"1.5":               "1.5",
		"1.50":              "1.5",
		"10":                "10",
		"1e3":               "1000",
		"1E+3":              "1000",
		"1e+03":             "1000",
		"1e-3":              "0.001",
		"1e-003":            "0.001",
		"1.234567e6":        "1234567",
		"0.0000001e7":       "1",
		"123456789012e-6":   "123456.789012",
		"999999999":         "999999999",
		"-999999999":        "-999999999",
		"999999998.999999":  "999999998.999999",
		"0.999999999e9":     "999999999",
		"9999999990e-1":     "999999999",
		"0.000001":          "0.000001",
		"1e-6":              "0.000001",
		"0.0000005":         "0.000001",
		"-0.0000005":        "-0.000001",
		"0.00000049999":     "0",
		"-0.00000049999":    "0",
		"5e-7":              "0.000001",
		"4e-7":              "0",
		"1.0000005":         "1.000001",
		"1.0000015":         "1.000002",
		"1.0000014999999":   "1.000001",
		"0.9999995":         "1",
		"2.5000005":         "2.500001",
		"-2.5000005":        "-2.500001",
		"1e-400":            "0",
		"-1e-400":           "0",
		"1e-99999999999":    "0",
		"999999999.0000004": "999999999",
		"0." + strings.Repeat("0", 1000) + "1e1001": "1",
		"1" + strings.Repeat("0", 1000) + "e-1000":  "1",
		"0.1" + strings.Repeat("9", 1000):           "0.2",

		"1e400":                      "",
		"-1e400":                     "",
		"1e99999999999":              "",
		"1000000000":                 "",
		"999999999.000001":           "",
		"999999999.0000005":          "",
		"-999999999.0000005":         "",
		"1e9":                        "",
		"1000000000e0":               "",
		"0.1e11":                     "",
		strings.Repeat("9", 100_000): "",

		"":         "",
		"-":        "",
		"+1":       "",
		"01":       "",
		"-01":      "",
		"1.":       "",
		".5":       "",
		"-.5":      "",
		"1e":       "",
		"1e+":      "",
		"1e-":      "",
		"1e+-5":    "",
		"1e1.5":    "",
		"1e5e5":    "",
		"--1":      "",
		"1-1":      "",
		"1 ":       "",
		" 1":       "",
		"1_000":    "",
		"1,5":      "",
		"0x10":     "",
		"1f":       "",
		"NaN":      "",
		"Infinity": "",
		"-inf":     "",
		"null":     "",
		"true":     "",
		"\"1\"":    "",
		"١":        "",
		"1\x00":    "",
	} {
		d, ok := value.ParseDecimal(in)
		if ok != (want != "") || ok && d.String() != want {
			t.Errorf("ParseDecimal(%.40q) = %v, %v; want %q", in, d, ok, want)
		}
		if b, err := d.MarshalJSON(); err != nil || string(b) != d.String() {
			t.Errorf("%v as JSON is %s, %v", d, b, err)
		}
	}
}

// exactly computes the result of ParseDecimal with fractions: it rounds half a millionth away from zero.
func exactly(t *testing.T, text string) (string, bool) {
	t.Helper()
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("%q is not a number", text)
	}
	million := big.NewRat(1_000_000, 1)
	scaled := new(big.Rat).Mul(new(big.Rat).Abs(r), million)
	scaled.Add(scaled, big.NewRat(1, 2))
	n := new(big.Int).Quo(scaled.Num(), scaled.Denom())
	if n.Cmp(new(big.Int).Mul(big.NewInt(999_999_999), big.NewInt(1_000_000))) > 0 {
		return "", false
	}
	if r.Sign() < 0 {
		n.Neg(n)
	}
	s := new(big.Rat).SetFrac(n, big.NewInt(1_000_000)).FloatString(6)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), "."), true
}

func TestParseDecimalAgainstFractions(t *testing.T) {
	t.Parallel()
	seed := seed.New(t)
	random := rand.New(rand.NewPCG(seed, 0))
	digits := func(b *strings.Builder, n int, pool string) {
		for range n {
			b.WriteByte(pool[random.IntN(len(pool))])
		}
	}
	good, bad := 0, 0
	for range 100_000 {
		var b strings.Builder
		if random.IntN(3) == 0 {
			b.WriteByte('-')
		}
		if random.IntN(3) == 0 {
			b.WriteByte('0')
		} else {
			digits(&b, 1, "123459")
			digits(&b, random.IntN(11), "0012345999")
		}
		if random.IntN(4) > 0 {
			b.WriteByte('.')
			digits(&b, 1+random.IntN(11), "0004455599")
		}
		if random.IntN(2) == 0 {
			fmt.Fprintf(&b, "%c", "eE"[random.IntN(2)])
			b.WriteString([]string{"", "+", "-"}[random.IntN(3)])
			digits(&b, 1+random.IntN(2), "0000011")
		}
		text := b.String()
		want, wantOK := exactly(t, text)
		got, ok := value.ParseDecimal(text)
		if ok != wantOK || ok && got.String() != want {
			t.Fatalf("ParseDecimal(%s) = %v, %v; want %s, %v", text, got, ok, want, wantOK)
		}
		if ok {
			good++
		} else {
			bad++
		}
	}
	if good < 1000 || bad < 1000 {
		t.Errorf("ParseDecimal accepted %d numbers and rejected %d; the test needs more of both", good, bad)
	}
}

func TestShorten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äöü…"}, {"日本", 0, "…"},
		{"a\xffbcd", 3, "ab…"}, // PostgreSQL and JSON accept only valid text
	} {
		if got := value.Shorten(c.text, c.most); got != c.want {
			t.Errorf("Shorten(%q, %d) = %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

func TestPathOf(t *testing.T) {
	t.Parallel()
	if got := server.PathOf("/api/v1/products/{id}/materials/{material_id}", "a",
		"b/c"); got != "/api/v1/products/a/materials/b%2Fc" {
		t.Error(got)
	}
}
