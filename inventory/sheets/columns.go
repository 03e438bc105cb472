package sheets

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A concept is the meaning of a column in somebody's list. Its name is that of a field of a spool, or one of these,
// which the import converts to fields:
//
//	filament_name       the name of a filament as shops write it, such as "Prusament PLA Galaxy Black"
//	quantity            the number of equal spools
//	remaining_percent   what is left of the net weight, in percent
//	used_weight_grams   what is used of the net weight
//	gross_weight_grams  what is left, with the empty spool
//	full_weight_grams   the net weight, with the empty spool
//	state               a word or a boolean: whether something is left
//	used_up             a boolean: whether nothing is left
//	filler              what fills the material, such as carbon fiber
//	price_per_kg        the price of a kilogram
//	total_price         the price of all spools of the row
//
// Resources have other fields for some of them; see conceptsOf.

// dictionary maps normal forms of titles to the concepts that they can mean, the likeliest first.
type dictionary map[string][]string

// letters maps letters with accents, in lower case, to letters of ASCII.
var letters = map[rune]string{'ß': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'ð': "d", 'þ': "th", 'ł': "l", 'đ': "d",
	'ı': "i", '№': "no", '°': "", 'º': "", 'ª': "", '⌀': "o", 'µ': "u", '³': "3", '²': "2"}

func init() {
	for base, accents := range map[string]string{"a": "áàâãäåāăą", "c": "çćčĉċ", "d": "ď", "e": "éèêëēĕėęě", "g": "ğĝġģ",
		"h": "ĥ", "i": "íìîïĩīĭį", "j": "ĵ", "k": "ķ", "l": "ĺľļ", "n": "ñńňņ", "o": "óòôõöōŏő", "r": "řŕŗ", "s": "šśşŝș",
		"t": "ťţț", "u": "úùûüũūŭůűų", "w": "ŵ", "y": "ýÿŷ", "z": "žźż"} {
		for _, accent := range accents {
			letters[accent] = base
		}
	}
}

// fold returns a text in lower case, without accents.
func fold(text string) string {
	var b strings.Builder
	for _, c := range text {
		if c < 0x80 {
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			b.WriteRune(c)
			continue
		}
		for _, l := range strings.ToLower(string(c)) {
			switch ascii, ok := letters[l]; {
			case ok:
				b.WriteString(ascii)
			case l >= 0x300 && l < 0x370: // an accent that stands alone
			default:
				b.WriteRune(l)
			}
		}
	}
	return b.String()
}

// hump matches the end of a word in a title such as currentWeightG.
var hump = regexp.MustCompile(`([\p{Ll}\d])(\p{Lu})`)

// words splits a title into words: letters and digits, and the signs that are units, each of them a word. A capital
// letter behind a small one begins a word.
func words(title string) (all []string) {
	start := -1
	text := fold(hump.ReplaceAllString(title, "$1 $2"))
	end := func(i int) {
		if start >= 0 {
			all = append(all, text[start:i])
		}
		start = -1
	}
	for i, c := range text {
		switch {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c > 0x7f && !strings.ContainsRune("€£\u00a0‘’“”–—·•", c):
			if start < 0 {
				start = i
			}
		default:
			end(i)
			if strings.ContainsRune("%€$£#", c) {
				all = append(all, string(c))
			}
		}
	}
	end(len(text))
	return all
}

// units maps words for the unit of the numbers of a column to the unit for transfer.Number, or to "".
var units = map[string]string{"g": "g", "gr": "g", "gram": "g", "grams": "g", "gramm": "g", "grammes": "g",
	"gramos": "g", "grammi": "g", "gramas": "g", "kg": "kg", "kgs": "kg", "kilo": "kg", "kilogramm": "kg", "lb": "lb",
	"lbs": "lb", "pounds": "lb", "oz": "oz", "ounces": "oz", "mm": "mm", "cm": "cm",
	"m": "m", "meter": "m", "meters": "m", "metre": "m", "metres": "m", "metros": "m", "metri": "m", "%": "%",
	"percent": "%", "prozent": "%", "procent": "%", "pct": "%", "€": "", "$": "", "£": "", "eur": "", "euro": "",
	"euros": "", "usd": "", "gbp": "", "chf": "", "pln": "", "zl": "", "czk": "", "kc": "", "sek": "", "kr": "",
	"nok": "", "dkk": "", "brl": "", "cad": "", "aud": "", "huf": "", "pcs": "", "stk": "", "szt": "", "ks": "", "c": "",
	"h": "h", "min": "min", "hours": "h", "minutes": "min", "minuten": "min", "stunden": "h", "std": "h", "std.": "h"}

// filler are words without a meaning for the concept of a column.
var filler = map[string]bool{}

func init() {
	for word := range strings.FieldsSeq(`in per pro par por je the a an of de del della di der die das des du la
		le les el da do dos
		of for fur pour para filament filaments filamentu filamento spool spools spule spulen rolle rollen bobine
		bobina spoel
		rol szpula szpuli civka civky spole rulle roll incl inkl inc incluido inclus vat mwst tva iva btw dph moms
		ttc current
		cca ca approx per unit actual your my our mein meine unsere mon ma mi mio mia moj moja optional if known yyyy
		mm dd jjjj
		tt dd mm year date format e g eg z b est estimated`) {
		filler[word] = true
	}
}

// normal returns the normal form of a title: the letters and digits of its words. If the argument plain is set, the
// result is without units, what stands in brackets, and fillers.
func normal(title string, plain bool) string {
	if !plain {
		return strings.Join(words(title), "")
	}
	var kept []string
	for _, word := range words(withoutBrackets(title)) {
		if _, unit := units[word]; !unit && !filler[word] {
			kept = append(kept, word)
		}
	}
	return strings.Join(kept, "")
}

// Key returns the letters and digits of a text in lower case, without accents: texts with the same key have the same
// meaning.
func Key(text string) string { return normal(text, false) }

// withoutBrackets returns a text without the parts in brackets, unless nothing is left.
func withoutBrackets(text string) string {
	var b strings.Builder
	depth := 0
	for _, c := range text {
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth = max(0, depth-1)
			b.WriteByte(' ')
		default:
			if depth == 0 {
				b.WriteRune(c)
			}
		}
	}
	if rest := strings.TrimSpace(b.String()); rest != "" {
		return rest
	}
	return text
}

// unitOf returns the unit in a title, such as kg, and whether there is one.
func unitOf(title string) (unit string, ok bool) {
	all := words(title)
	for i := len(all) - 1; i >= 0; i-- {
		if unit, ok := units[all[i]]; ok && unit != "" && (len(all) > 1 || unit == "kg" || unit == "%") {
			return unit, true
		}
	}
	return "", false
}

// meanings returns the concepts that the title of a column can mean, likeliest first, and the certainty, at most 100.
func (titlesOf dictionary) meanings(title string) (concepts []string, sure int) {
	all := words(withoutBrackets(title))
	trimmed := all
	for len(trimmed) > 1 {
		if _, unit := units[trimmed[len(trimmed)-1]]; !unit {
			break
		}
		trimmed = trimmed[:len(trimmed)-1]
	}
	for i, form := range []string{normal(title, false), strings.Join(all, ""), strings.Join(trimmed, ""),
		normal(title, true)} {
		if found := titlesOf[form]; found != nil {
			return found, 100 - 4*i
		}
	}
	part := func(rest []string, found []string) ([]string, int) {
		switch {
		case found[0] != "location" && slices.ContainsFunc(rest, func(word string) bool { return otherWords[word] }),
			amounts[found[0]] && slices.ContainsFunc(trimmed, isLimit):
			return []string{""}, 60
		}
		return found, partOfTitle
	}
	// Parts of the title: longer ones first, and of these the last, because compound names end with the main word.
	for n := min(len(trimmed)-1, 4); n > 0; n-- {
		for i := len(trimmed) - n; i >= 0; i-- {
			form := strings.Join(trimmed[i:i+n], "")
			if found := titlesOf[form]; found != nil && len(form) > 2 && !(n == 1 && filler[form]) {
				return part(slices.Concat(trimmed[:i], trimmed[i+n:]), found)
			}
		}
	}
	// The end or the beginning of a word, as in Filamentfarbe and Farbbezeichnung.
	best, rest := "", ""
	for _, word := range trimmed {
		for n := len(word) - 1; n >= 4 && n > len(best); n-- {
			if end := word[len(word)-n:]; titlesOf[end] != nil && !filler[end] {
				best, rest = end, word[:len(word)-n]
			} else if n >= 5 && titlesOf[word[:n]] != nil && !filler[word[:n]] {
				best, rest = word[:n], word[n:]
			}
		}
	}
	if found := titlesOf[best]; found != nil {
		if concepts, sure = part(append(slices.Clone(trimmed), rest), found); concepts[0] != "" {
			sure = 45
		}
		return concepts, sure
	}
	return nil, 0
}

// partOfTitle is the maximum certainty of a title of which only a part is known. The values of its column must fit in
// every row.
const partOfTitle = 60

// amounts are concepts for which a list can have a minimum.
var amounts = map[string]bool{"quantity": true, "net_weight_grams": true, "remaining_weight_grams": true,
	"remaining_percent": true}

// limits are the words of titles for a minimum amount.
var limits = map[string]bool{}

func init() {
	for word := range strings.FieldsSeq(`threshold minimum minimal reorder alert warning warn warnung target desired
		safety seuil alerte umbral minimo minima alerta soglia drempel limite prog prah objetivo`) {
		limits[word] = true
	}
}

// isLimit reports whether a word of a title is one of limits, or begins with the German ones.
func isLimit(word string) bool {
	return limits[word] || strings.HasPrefix(word, "mindest") || strings.HasPrefix(word, "melde") ||
		strings.HasPrefix(word, "soll")
}

// dictionaryOf returns the dictionary of the titles in a text of Words, whose sections are concepts. The concept "" is
// for columns that are ignored.
func dictionaryOf(titles string) dictionary {
	titlesOf := dictionary{}
	for concept, title := range Words(titles) {
		key := normal(title, false)
		if key == "" {
			panic("sheets: a title without letters: " + title)
		}
		if known := titlesOf[key]; len(known) == 0 || known[len(known)-1] != concept {
			titlesOf[key] = append(known, concept)
		}
	}
	return titlesOf
}

// ownTitles is the dictionary of titles. It is computed when it is first used, because it needs letters and filler.
var ownTitles = sync.OnceValue(func() dictionary { return dictionaryOf(titles) })
