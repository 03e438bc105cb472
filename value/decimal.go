// Package value has the types of the values that clients send and receive: decimal numbers, points in time, days, ids,
// lists of texts, and fields of requests that can be absent or null. It decodes values and checks the rules of their
// fields. It does not depend on HTTP or SQL.
package value

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Decimal is an exact decimal number in millionths, for weights in grams, prices, costs and hours. Go code compares
// and adds Decimals; PostgreSQL does all other arithmetic.
type Decimal int64

const DecimalOne Decimal = 1_000_000

// MaxDecimal is the largest number in requests. A float64 of a client can represent its nine integer and six fraction
// digits.
const MaxDecimal = 999_999_999 * DecimalOne

// ParseDecimal parses a JSON number and rounds it to six decimals, half away from zero. It returns false if s is not a
// JSON number or exceeds 999,999,999 (also as 1e400).
func ParseDecimal(s string) (Decimal, bool) {
	d, _, ok := parse(s)
	return d, ok
}

// parse is ParseDecimal. It also reports whether the number is exact, without rounding.
func parse(s string) (d Decimal, exact, ok bool) {
	// Of all valid JSON texts, only numbers have such a first and last character.
	if s == "" || s[0] != '-' && !isDigit(s[0]) || !isDigit(s[len(s)-1]) || !json.Valid([]byte(s)) {
		return 0, false, false
	}
	mantissa, exponent := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa = s[:i]
		sign, text := 1, strings.TrimPrefix(s[i+1:], "+")
		if strings.HasPrefix(text, "-") {
			sign, text = -1, text[1:]
		}
		text = strings.TrimLeft(text, "0")
		exponent, _ = strconv.Atoi("0" + text[:min(len(text), 9)]) // 9 digits exceed the length of any body
		exponent *= sign
	}
	negative := strings.HasPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	digits := whole + fraction
	point := len(whole) + exponent // digits before the decimal point
	trimmed := strings.TrimLeft(digits, "0")
	point -= len(digits) - len(trimmed)
	if trimmed == "" {
		return 0, true, true
	}
	if point > 9 {
		return 0, false, false
	}
	keep := point + 6 // digits that count in millionths
	if keep < 0 {
		return 0, false, true
	}
	var n Decimal
	for i := range keep {
		n *= 10
		if i < len(trimmed) {
			n += Decimal(trimmed[i] - '0')
		}
	}
	if keep < len(trimmed) && trimmed[keep] >= '5' {
		n++
	}
	if n > MaxDecimal {
		return 0, false, false
	}
	if negative {
		n = -n
	}
	return n, keep >= len(trimmed) || strings.Trim(trimmed[keep:], "0") == "", true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// String returns the shortest exact decimal text.
func (d Decimal) String() string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	s := sign + strconv.FormatInt(int64(d/DecimalOne), 10)
	if rest := d % DecimalOne; rest != 0 {
		s += "." + strings.TrimRight(strconv.FormatInt(int64(rest+DecimalOne), 10)[1:], "0")
	}
	return s
}

// MarshalJSON writes the exact number.
func (d Decimal) MarshalJSON() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalJSON reads a number from the database. It does not round.
func (d *Decimal) UnmarshalJSON(b []byte) error {
	n, exact, ok := parse(string(b))
	if !exact || !ok {
		return fmt.Errorf("%s is not a number with nine integer and six fraction digits", b)
	}
	*d = n
	return nil
}
