package web

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"unicode"
)

// A number that a visitor types is read by the language in which the page shows numbers:
//
//   - The decimal mark and the mark between groups of three digits are those of the language. Spaces and apostrophes
//     are marks between groups in all languages.
//   - Another mark is accepted if it can be read in only one way, such as 12,5 or 1.234.567 on an English page. A text
//     that can be read in two ways is refused, and the message names both readings.
//   - A unit may follow: that of the field, kg for a weight in grams, and the currency of the farm for an amount. A
//     duration may be written as 1:35 or 1 h 35 min.

// plain writes a number as the text of an input: with the decimal mark of the language, and without groups.
func (l *locale) plain(f float64) string { return strings.Replace(trimFloat(f), ".", l.decimal, 1) }

// text is plain for a number of the API, or "" for null.
func (l *locale) text(n num) string {
	if n == "" {
		return ""
	}
	return l.plain(value(n))
}

// reader reads the numbers of a form.
type reader struct {
	*locale
	currency string // of the farm, or "" if it has none
}

var (
	quantity = regexp.MustCompile(`^([-+−]?)\s*(\p{Sc}|[A-Za-z]{3})?\s*([0-9.,][0-9.,' ]*?)\s*([^0-9.,' ].*)?$`)
	duration = regexp.MustCompile(`^(?:([0-9]+)\s*:\s*([0-5]?[0-9])\s*h?|([0-9]+)\s*h\s*([0-9]+)\s*m(?:in)?)$`)
	digits   = regexp.MustCompile(`^[0-9]+$`)
	grouped  = regexp.MustCompile(`^[1-9][0-9]{0,2}(?:[ '.,][0-9]{3})+$`)
)

// read returns the number that a text means as the value of the field, or else why it means none, if there is more to
// say than that it is not a number.
func (r reader) read(field, text string) (n json.Number, problem string) {
	text = strings.TrimSpace(ascii(text))
	minutes, hours := strings.HasSuffix(field, "_minutes"), strings.HasSuffix(field, "_hours")
	if m := duration.FindStringSubmatch(text); m != nil && (minutes || hours) {
		total, ok := new(big.Rat).SetString(m[1] + m[3])
		rest, ok2 := new(big.Rat).SetString(m[2] + m[4])
		if !ok || !ok2 {
			return "", ""
		}
		total.Add(total.Mul(total, big.NewRat(60, 1)), rest)
		if hours {
			total.Quo(total, big.NewRat(60, 1))
		}
		return json.Number(trimZeros(total.FloatString(6))), ""
	}
	m := quantity.FindStringSubmatch(text)
	if m == nil {
		return "", ""
	}
	number, problem := r.decimalOf(strings.TrimSpace(m[3]))
	if number == "" {
		return "", problem
	}
	factor, ok := r.factor(field, m[2], strings.TrimSpace(m[4]))
	if !ok {
		return "", ""
	}
	if factor != 1 {
		value, ok := new(big.Rat).SetString(number)
		if !ok {
			return "", ""
		}
		number = trimZeros(value.Mul(value, big.NewRat(factor, 1)).FloatString(9))
	}
	if m[1] == "-" || m[1] == "−" {
		number = "-" + number
	}
	return json.Number(number), ""
}

// decimalOf returns the decimal that digits and marks mean, or "" and why they mean none, if two readings are possible.
func (r reader) decimalOf(s string) (number, problem string) {
	last := strings.LastIndexAny(s, ".,")
	if last < 0 {
		return ungroup(s), ""
	}
	mark := s[last : last+1]
	whole, fraction := s[:last], s[last+1:]
	asDecimal := ""
	if !strings.Contains(whole, mark) && (digits.MatchString(fraction) || fraction == "" && whole != "") {
		if whole == "" {
			whole = "0"
		}
		if asDecimal = ungroup(whole); asDecimal != "" && fraction != "" {
			asDecimal = trimZeros(asDecimal + "." + fraction)
		}
	}
	asGroups := ungroup(s)
	switch {
	case asDecimal == "" || asGroups == "":
		return asDecimal + asGroups, ""
	case mark == r.decimal:
		return asDecimal, ""
	case mark == r.group:
		return asGroups, ""
	}
	return "", fmt.Sprintf("%s can be read as %s or as %s; write it without a mark, or as %s%s%s", s, asGroups,
		strings.Replace(asDecimal, ".", r.decimal, 1), s[:last], r.decimal, fraction)
}

// ungroup returns the digits of a whole number, whose groups of three may have one kind of mark between them, or "".
func ungroup(s string) string {
	if digits.MatchString(s) {
		if s = strings.TrimLeft(s, "0"); s == "" {
			s = "0"
		}
		return s
	}
	if !grouped.MatchString(s) {
		return ""
	}
	mark := s[strings.IndexAny(s, " '.,")]
	if rest := strings.ReplaceAll(s, string(mark), ""); digits.MatchString(rest) {
		return rest
	}
	return ""
}

// currencySigns are the signs of currencies that one country or union uses alone, or that mean one in most texts.
var currencySigns = map[string]string{"€": "EUR", "£": "GBP", "₹": "INR", "₩": "KRW", "₺": "TRY", "₽": "RUB", "₴": "UAH",
	"₪": "ILS", "₫": "VND", "₱": "PHP", "฿": "THB", "zł": "PLN", "kč": "CZK", "ft": "HUF", "lei": "RON"}

// factor returns by what a number with the unit is multiplied to be a value of the field. Before is what stands before
// the number: the currency of an amount.
func (r reader) factor(field, before, unit string) (factor int64, ok bool) {
	if before != "" && unit != "" {
		return 0, false
	}
	unit = strings.TrimSuffix(strings.ToLower(before+unit), ".")
	has := func(all ...string) bool {
		for _, u := range all {
			if unit == u {
				return true
			}
		}
		return false
	}
	ends := func(suffix string) bool { return strings.HasSuffix(field, suffix) }
	switch {
	case unit == "":
		return 1, true
	case strings.Contains(field, "price") || strings.Contains(field, "cost"):
		code := strings.ToUpper(unit)
		if known := currencySigns[unit]; known != "" {
			code = known
		}
		shared := unit == "$" && strings.HasSuffix(r.currency, "D") || unit == "¥" && (r.currency == "JPY" ||
			r.currency == "CNY") || unit == "kr" && strings.HasSuffix(r.currency, "K") || unit == "fr" && r.currency == "CHF"
		return 1, code == r.currency || shared
	case before != "":
		return 0, false
	case ends("_grams"):
		if has("kg", "kilo", "kilogram", "kilogramm") {
			return 1000, true
		}
		return 1, has("g", "gr", "gram", "grams", "gramm")
	case ends("_minutes"):
		if has("h", "hour", "hours", "std") {
			return 60, true
		}
		return 1, has("m", "min", "minute", "minutes", "minuten")
	case ends("_hours"):
		return 1, has("h", "hour", "hours", "std")
	case ends("_mm"):
		return 1, has("mm")
	case ends("_percent"):
		return 1, has("%")
	case ends("_c"):
		return 1, has("°c", "c", "°")
	case ends("_watts"):
		return 1, has("w", "watt")
	case ends("_g_cm3"):
		return 1, has("g/cm³", "g/cm3")
	case strings.Contains(field, "quantity"):
		return 1, has("pcs", "pieces", "x", "×")
	}
	return 0, false
}

// ascii replaces decimal digits, marks and spaces of all scripts by those of ASCII.
func ascii(s string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '٫' || c == '．':
			return '.'
		case c == '٬' || c == '’':
			return '\''
		case c == '，':
			return ','
		case unicode.IsSpace(c):
			return ' '
		}
		for _, block := range unicode.Nd.R16 { // each block has digits from 0 to 9
			if c >= rune(block.Lo) && c <= rune(block.Hi) {
				return '0' + (c-rune(block.Lo))%10
			}
		}
		return c
	}, s)
}

// trimZeros removes the zeros at the end of a fraction.
func trimZeros(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
