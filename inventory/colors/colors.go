// Package colors has the names and codes of colors: which code a name such as "Galaxy Black" or "himmelblau" means, and
// which name a code such as #00AE42 has.
package colors

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// table has the names and codes.
//
//go:embed colors.txt
var table string

// colorWord is what a word of a name means.
type colorWord struct {
	code     string // "#RRGGBB", or "" for a word that makes a color lighter or darker
	families string // the base colors of which this is a shade; "" for a base color
	shade    bool   // whether a base color in the name matters more, unless it is one of the families
	lighter  float64
}

const (
	lighten = 0.4
	darken  = -0.4
)

var (
	colorWords = map[string]colorWord{} // words with their meanings
	colorEnds  []string                 // base colors that can be the end of a compound, such as himmelblau
	named      []namedColor             // the colors of which the nearest names a code
)

// namedColor is a color with its name.
type namedColor struct {
	name  string
	color oklab
}

func init() {
	section := ""
	var w colorWord
	defer func() { // 粉红 is pink, and ends with 红, red
		slices.SortStableFunc(colorEnds, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	}()
	for line := range strings.Lines(table) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || strings.HasPrefix(line, "# "):
		case line[0] == '[':
			section, w = line, colorWord{}
		case section == "[names]":
			name, codes, _ := strings.Cut(line, ": ")
			for code := range strings.FieldsSeq(codes) {
				c, _ := parse(code)
				named = append(named, namedColor{name, c})
			}
		default:
			w = readWords(section, line, w)
		}
	}
}

// readWords reads a line of words. It returns the color of its last word, to which the words of the next line belong if
// that has no code.
func readWords(section, line string, w colorWord) colorWord {
	for word := range strings.FieldsSeq(line) {
		families, isFamilies := strings.CutSuffix(word, ":")
		switch {
		case word[0] == '#':
			w = colorWord{code: word, shade: section == "[shades]"}
		case isFamilies:
			w.families = families
		case section == "[light]":
			colorWords[word] = colorWord{lighter: lighten}
		case section == "[dark]":
			colorWords[word] = colorWord{lighter: darken}
		default:
			colorWords[word] = w
			isHan := word[0] >= 0xE3 // the first byte of a character of Japanese or Chinese
			if !w.shade && (len(word) > 3 || isHan || strings.Contains(" rot wit vit gul blå röd grå ", " "+word+" ")) {
				colorEnds = append(colorEnds, word)
			}
		}
	}
	return w
}

var unaccent = strings.NewReplacer(
	"ä", "a", "á", "a", "à", "a", "â", "a", "ã", "a", "å", "a", "ą", "a", "č", "c", "ć", "c", "ç", "c", "ď", "d",
	"é", "e", "è", "e", "ê", "e", "ë", "e", "ě", "e", "ę", "e", "í", "i", "ì", "i", "î", "i", "ï", "i", "ł", "l",
	"ň", "n", "ń", "n", "ñ", "n", "ö", "o", "ó", "o", "ò", "o", "ô", "o", "õ", "o", "ø", "o", "ř", "r", "š", "s",
	"ś", "s", "ß", "ss", "ť", "t", "ü", "u", "ú", "u", "ù", "u", "û", "u", "ů", "u", "ý", "y", "ž", "z", "ź", "z",
	"ż", "z",
)

// meanings returns what the parts of a word mean: a word of the tables, or a compound such as dunkelblau.
func meanings(word string) []colorWord {
	for _, form := range []string{word, unaccent.Replace(word)} {
		if w, ok := colorWords[form]; ok {
			return []colorWord{w}
		}
		for _, end := range colorEnds {
			rest, ok := strings.CutSuffix(form, end)
			if !ok || len(rest) < 3 {
				continue
			}
			first := colorWords[rest] // the zero value if it is no word of the tables
			if first.code == "" && first.lighter == 0 {
				first = colorWords[unaccent.Replace(rest)]
			}
			return []colorWord{first, colorWords[end]}
		}
	}
	return nil
}

// Guess returns a code for the name of a color, such as "Galaxy Black", or "" if the name has no known word. The
// last base color in the name counts, or a shade of it: "olive green" is olive, and "jade white" is white.
func Guess(name string) string {
	if len(name) > 100 {
		name = name[:100]
	}
	var base, shade colorWord
	var all []colorWord
	lighter := 0.0
	for _, word := range nameWords(name) {
		all = append(all, meanings(word)...)
	}
	for _, w := range all {
		switch {
		case w.lighter != 0:
			lighter = w.lighter
		case w.code != "" && !w.shade:
			base = w
		}
	}
	for _, w := range all {
		if w.shade && (base.code == "" || w.isOf(base)) {
			shade = w
		}
	}
	code := base.code
	if shade.code != "" {
		code = shade.code
	}
	if code == "" || lighter == 0 {
		return code
	}
	return mixed(code, lighter)
}

// isOf reports whether the word is a shade of the base color.
func (w colorWord) isOf(base colorWord) bool {
	for family := range strings.SplitSeq(w.families, ",") {
		if family != "" && colorWords[family].code == base.code {
			return true
		}
	}
	return false
}

// nameWords returns the words of a name in lower case. A capital letter after a small one begins a word.
func nameWords(name string) []string {
	var b strings.Builder
	small := false
	for _, r := range name {
		if small && unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		if small = unicode.IsLower(r); !unicode.IsLetter(r) {
			r = ' '
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(b.String())
}

// mixed returns a color mixed with white, or with black if the share is negative.
func mixed(code string, share float64) string {
	n, err := strconv.ParseUint(code[1:], 16, 32)
	if err != nil {
		return code
	}
	to := 255.0
	if share < 0 {
		to, share = 0, -share
	}
	part := func(shift uint) int {
		c := float64(n >> shift & 0xFF)
		return int(c + (to-c)*share + 0.5)
	}
	return fmt.Sprintf("#%02X%02X%02X", part(16), part(8), part(0))
}

// Name returns the name of the color of a code #RRGGBB, such as "Dark blue", or "" if the text is no such code.
func Name(code string) string {
	c, ok := parse(code)
	if !ok {
		return ""
	}
	best, least := "", math.Inf(1)
	for _, n := range named {
		if d := c.distance(n.color); d < least {
			best, least = n.name, d
		}
	}
	return best
}

// Distance returns how different two codes #RRGGBB look: 0 for equal ones, about 0.1 for similar ones, and 1 for black
// and white. It is infinite if one of them is no code. An alpha is ignored.
func Distance(a, b string) float64 {
	x, ok1 := parse(a)
	y, ok2 := parse(b)
	if !ok1 || !ok2 {
		return math.Inf(1)
	}
	return x.distance(y)
}

// oklab is a color of the space Oklab, in which distances are about those that people see: its lightness, from green to
// red, and from blue to yellow. The lightness is the one for a white background, which tells dark colors apart less.
type oklab struct{ l, a, b float64 }

// distance returns the distance of two colors. A difference in hue counts more than one in lightness, because a name
// is mostly that of a hue.
func (c oklab) distance(d oklab) float64 {
	return math.Sqrt((c.l-d.l)*(c.l-d.l) + 4*(c.a-d.a)*(c.a-d.a) + 4*(c.b-d.b)*(c.b-d.b))
}

// parse returns the color of a code #RRGGBB or #RRGGBBAA.
func parse(code string) (c oklab, ok bool) {
	digits, isCode := strings.CutPrefix(code, "#")
	if !isCode || len(digits) != 6 && len(digits) != 8 {
		return c, false
	}
	n, err := strconv.ParseUint(digits[:6], 16, 32)
	if err != nil {
		return c, false
	}
	linear := func(shift uint) float64 {
		v := float64(n>>shift&0xFF) / 255
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	// The matrices and constants are those of the definition of Oklab.
	red, green, blue := linear(16), linear(8), linear(0)
	l := math.Cbrt(0.4122214708*red + 0.5363325363*green + 0.0514459929*blue)
	m := math.Cbrt(0.2119034982*red + 0.6806995451*green + 0.1073969566*blue)
	s := math.Cbrt(0.0883024619*red + 0.2817188376*green + 0.6299787005*blue)
	const k1, k2, k3 = 0.206, 0.03, (1 + 0.206) / (1 + 0.03)
	light := k3*(0.2104542553*l+0.7936177850*m-0.0040720468*s) - k1
	return oklab{
		l: (light + math.Sqrt(light*light+4*k2*(light+k1))) / 2,
		a: 1.9779984951*l - 2.4285922050*m + 0.4505937099*s,
		b: 0.0259040371*l + 0.7827717662*m - 0.8086757660*s,
	}, true
}
