package web

import (
	"cmp"
	"encoding/json"
	"math/big"
	"regexp"
	"strings"

	"spoolwright/transfer"
)

// A number that a visitor types is read according to the language in which the page shows numbers:
//
//   - The language determines the decimal mark and the mark between groups of three digits. Spaces and apostrophes are
//     marks between groups in all languages.
//   - Marks of other languages are accepted if the number has only one meaning, such as 12,5 or 1.234.567 on an
//     English page. A number with two meanings is refused, and the message names both.
//   - In a language that the program does not know, a number such as 1.000 has two meanings.
//   - A unit may follow the number: the unit of the field, kg, lb or oz for a weight in grams, or the currency of the
//     farm for an amount. A duration may be written as 1:35 or 1 h 35 min.

type reader struct {
	*locale
	currency string // the currency of the farm, or "" if the farm has none
	visit    *visit // looks up what pickers show
}

var duration = regexp.MustCompile(`^(?:([0-9]+)\s*:\s*([0-5]?[0-9])\s*h?|([0-9]+)\s*h\s*([0-9]+)\s*m(?:in)?)$`)

// read returns the number in a text that was typed into an input of the field. If the text is not a number, n is "",
// and problem is the reason, or "" if there is no specific reason.
func (r reader) read(field, text string) (n json.Number, problem string) {
	text = transfer.ASCII(text)
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
		return json.Number(transfer.TrimZeros(total.FloatString(6))), ""
	}
	written, ok := transfer.ParseNumber(text)
	if !ok {
		return "", ""
	}
	number, problem := r.decide(written)
	if number == "" {
		return "", problem
	}
	number, _ = written.Value(field, number, r.currency)
	return json.Number(number), ""
}

// lakhs matches a number with at least two groups of digits in the style of India.
var lakhs = regexp.MustCompile(`^[1-9][0-9]?(?:,[0-9]{2})+,[0-9]{3}(?:\.[0-9]*)?$`)

// decide returns the value of the digits and marks of n. If these have two meanings, it returns "" and a problem that
// names both.
func (r reader) decide(n transfer.Number) (number, problem string) {
	if r.indian && lakhs.MatchString(n.Text) {
		n.Text = strings.ReplaceAll(n.Text, ",", "")
	}
	point, comma := n.Readings()
	if point == comma || point == "" || comma == "" {
		return cmp.Or(point, comma), ""
	}
	last := strings.LastIndexAny(n.Text, ".,")
	asDecimal, asGroups, more := point, comma, ""
	if n.Text[last] == ',' {
		asDecimal, asGroups = comma, point
	}
	switch mark := n.Text[last : last+1]; {
	case r.unknown && mark == r.decimal:
		more = "0" // so that the number has one meaning
	case mark == r.decimal:
		return asDecimal, ""
	case strings.Contains(r.group, mark):
		return asGroups, ""
	}
	return "", r.visit.t("%s can be read as %s or as %s; write it without a mark, or as %s", n.Text, asGroups,
		strings.Replace(asDecimal, ".", r.decimal, 1), n.Text[:last]+r.decimal+n.Text[last+1:]+more)
}
