package transfer

import (
	"cmp"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// MaxForm is the maximum length in bytes of a number or a date, with all that people write around it.
const MaxForm = 100

// Number is a number in the form that people write on pages and in files: digits, marks between them, and perhaps a
// unit or a currency.
type Number struct {
	Negative bool
	Before   string // the currency before the digits
	Text     string // the digits with their marks
	Unit     string // or the currency behind them
}

var (
	quantity = regexp.MustCompile(`^([-+−]?)\s*([Rr]?\p{Sc}|[A-Za-z]{3})?\s*([0-9.,][0-9.,' ]*?)\s*([^0-9.,' ].*)?$`)
	digits   = regexp.MustCompile(`^[0-9]+$`)
	grouped  = regexp.MustCompile(`^[1-9][0-9]{0,2}(?:[ '.,][0-9]{3})+$`)
)

// ParseNumber returns the parts of a number, and false if the text is not a number.
func ParseNumber(text string) (n Number, ok bool) {
	if len(text) > MaxForm {
		return n, false
	}
	m := quantity.FindStringSubmatch(ASCII(text))
	if m == nil {
		return n, false
	}
	return Number{m[1] == "-" || m[1] == "−", m[2], strings.TrimSpace(m[3]), strings.TrimSpace(m[4])}, true
}

// Readings returns the decimals that the digits mean with a decimal point and with a decimal comma, without the sign.
// A reading that is impossible is "". Spaces, apostrophes and the other mark separate groups of three digits.
func (n Number) Readings() (point, comma string) {
	whole := ungroup(n.Text)
	last := strings.LastIndexAny(n.Text, ".,")
	if last < 0 {
		return whole, whole
	}
	decimal := ""
	if before, after := n.Text[:last], n.Text[last+1:]; !strings.Contains(before, n.Text[last:last+1]) &&
		(digits.MatchString(after) || after == "" && before != "") {
		before = cmp.Or(before, "0")
		if decimal = ungroup(before); decimal != "" && after != "" {
			decimal = TrimZeros(decimal + "." + after)
		}
	}
	if n.Text[last] == ',' {
		return whole, decimal
	}
	return decimal, whole
}

// Value converts a reading of the number to the value of a field: with the sign, and in the unit of the field. It
// reports whether the number's unit fits the field. A fitting unit is the field's own unit, kilograms, pounds and
// ounces for a weight in grams, hours for minutes, and for an amount of money the currency, or any currency if the
// argument currency is "".
func (n Number) Value(field, reading, currency string) (value string, ok bool) {
	factor, ok := n.factor(field, currency)
	if !ok {
		return "", false
	}
	if factor != one {
		number, ok := new(big.Rat).SetString(reading)
		if !ok {
			return "", false
		}
		places := 9
		if !factor.IsInt() {
			places = 2 // of a weight in grams that was not weighed in grams
		}
		reading = TrimZeros(number.Mul(number, factor).FloatString(places))
	}
	if n.Negative {
		reading = "-" + reading
	}
	return reading, true
}

// IsAmount reports whether the values of a field are amounts of money.
func IsAmount(field string) bool {
	return strings.Contains(field, "price") || strings.Contains(field, "cost") || strings.Contains(field, "amount")
}

// ungroup returns the digits of a whole number. The number may have marks of one kind between groups of three digits.
// If it has another form, ungroup returns "".
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

// currencySigns maps signs to the only currency, or the most frequent currency, that uses the sign.
var currencySigns = map[string]string{"€": "EUR", "£": "GBP", "₹": "INR", "₩": "KRW", "₺": "TRY", "₽": "RUB",
	"₴": "UAH", "₪": "ILS", "₫": "VND", "₱": "PHP", "฿": "THB", "zł": "PLN", "kč": "CZK", "ft": "HUF", "lei": "RON",
	"r$": "BRL"}

// currencyForm matches the codes and the signs of currencies.
var currencyForm = regexp.MustCompile(`^(?:[A-Z]{3}|[Rr]?\p{Sc}|(?i:kr|fr|zł|kč|ft|lei)\.?)$`)

// Currency returns the code of the currency before or behind the number, or its sign if the code is unknown.
func (n Number) Currency() string {
	sign := strings.TrimSuffix(strings.ToLower(n.Before+n.Unit), ".")
	if code := currencySigns[sign]; code != "" {
		return code
	}
	return strings.ToUpper(sign)
}

// The factors that convert a number to the unit of a field.
var (
	one      = big.NewRat(1, 1)
	sixty    = big.NewRat(60, 1)
	kilogram = big.NewRat(1000, 1)
	pound    = big.NewRat(45_359_237, 100_000)
	ounce    = big.NewRat(45_359_237, 1_600_000)
)

// factor returns the factor that converts the number to the unit of the field.
func (n Number) factor(field, currency string) (factor *big.Rat, ok bool) {
	if n.Before != "" && n.Unit != "" {
		return nil, false
	}
	unit := strings.TrimSuffix(strings.ToLower(n.Before+n.Unit), ".")
	has := func(all ...string) bool { return slices.Contains(all, unit) }
	ends := func(suffix string) bool { return strings.HasSuffix(field, suffix) }
	switch {
	case unit == "":
		return one, true
	case IsAmount(field):
		code := n.Currency()
		shared := code == "$" && strings.HasSuffix(currency, "D") || code == "¥" && (currency == "JPY" ||
			currency == "CNY") || code == "KR" && strings.HasSuffix(currency, "K") || code == "FR" && currency == "CHF"
		return one, code == currency || shared || currency == "" && currencyForm.MatchString(n.Before+n.Unit)
	case n.Before != "":
		return nil, false
	case ends("_grams"):
		if has("kg", "kilo", "kilogram", "kilogramm") {
			return kilogram, true
		}
		if has("lb", "lbs", "pound", "pounds") {
			return pound, true
		}
		if has("oz", "ounce", "ounces") {
			return ounce, true
		}
		return one, has("g", "gr", "gram", "grams", "gramm")
	case ends("_minutes"):
		if has("h", "hour", "hours", "std") {
			return sixty, true
		}
		return one, has("m", "min", "minute", "minutes", "minuten")
	case ends("_hours"):
		return one, has("h", "hour", "hours", "std")
	case ends("_mm"):
		return one, has("mm")
	case ends("_percent"):
		return one, has("%")
	case ends("_c"):
		return one, has("°c", "c", "°")
	case ends("_watts"):
		return one, has("w", "watt")
	case ends("_g_cm3"):
		return one, has("g/cm³", "g/cm3")
	case strings.Contains(field, "quantity"):
		return one, has("pcs", "pieces", "x", "×")
	}
	return nil, false
}

// ASCII replaces decimal digits, marks and spaces of all scripts with ASCII characters, and removes the blanks around
// a text.
func ASCII(s string) string {
	return strings.TrimSpace(strings.Map(func(c rune) rune {
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
	}, s))
}

// TrimZeros removes the zeros at the end of a fraction.
func TrimZeros(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
