package value

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"spoolwright/value/language"
)

// Enum is a string type with a fixed list of values. Fields of the type accept only these values, and the OpenAPI
// document has a schema with the name of the type. testkit.WantChecked compares the values with the check of a table's
// column.
type Enum interface{ Enum() []string }

// Rule contains the requirements for the value of a field.
type Rule struct {
	Name, Format     string // Format is email, color, alphaColor, link, uri or ""
	Required         bool   // a text must not be blank
	Empty            bool   // a Set may have no entry
	Trim             bool   // blanks around a text are removed
	Exclusive        bool   // Minimum itself is not allowed
	Sequence         bool   // a whole number from 1 to MaxSequence
	Minimum, Maximum Decimal
	MinLength        int // in characters
	MaxLength        int
	Enum             []string
	Numbers          []Decimal // the enum of a number
}

// A decoded JSON value is nil, a bool, a string, or one of these types.
type (
	// Number is the text of a JSON number.
	Number string

	// Array contains the entries, as JSON texts, of a list that is a member of the outermost object.
	Array [][]byte

	// Object is the text of an object that is a member of the outermost object.
	Object []byte

	// Nested is any other list or object.
	Nested struct{}

	// Separated is the text of a list in a query, with commas between the values, or of a list in a cell of a CSV
	// file.
	Separated string
)

// MaxRepeated is the maximum length, in characters, of a client's text that a message repeats.
const MaxRepeated = 100

// Shorten returns the first characters of s, at most as many as the argument most. If it omits some, it adds an
// ellipsis.
func Shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for i := range s {
		if most--; most < 0 {
			return strings.ToValidUTF8(s[:i], "") + "…"
		}
	}
	return s
}

// scalar returns the decoded value of a valid JSON text. It returns lists and objects as Nested.
func scalar(text []byte) any {
	var v any
	switch text[0] {
	case '{', '[':
		return Nested{}
	case '"', 't', 'f', 'n':
		json.Unmarshal(text, &v) // valid
		return v
	}
	return Number(text)
}

// Number returns the value v as a number, or the problem with v.
func (r *Rule) Number(v any) (Decimal, string) {
	text, ok := v.(Number)
	if !ok {
		return 0, problem("must be a number")
	}
	d, ok := ParseDecimal(string(text))
	switch {
	case len(r.Numbers) > 0:
		if !ok || !slices.Contains(r.Numbers, d) {
			return 0, problem("must be one of %s", joinStrings(r.Numbers))
		}
	case !ok:
		return 0, problem("must be a number between %s and %s", r.Minimum, r.Maximum)
	case r.Exclusive && d <= r.Minimum:
		return 0, problem("must be greater than %s", r.Minimum)
	case d < r.Minimum:
		return 0, problem("must be at least %s", r.Minimum)
	case d > r.Maximum:
		return 0, problem("must be at most %s", r.Maximum)
	}
	return d, ""
}

func problem(text language.Text, args ...any) string { return language.Sprintf(text, args...) }

// MaxSequence is the largest number that all clients can represent exactly.
const MaxSequence = 1<<53 - 1

// sequence returns the value v as a number of a sequence, or the problem with v.
func sequence(v any) (int64, string) {
	text, _ := v.(Number)
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 1 || n > MaxSequence {
		return 0, problem("must be a whole number between 1 and %d", int64(MaxSequence))
	}
	return n, ""
}

func joinStrings(numbers []Decimal) string {
	var texts []string
	for _, n := range numbers {
		texts = append(texts, n.String())
	}
	return strings.Join(texts, ", ")
}

// Text returns the value v as a text, or the problem with v.
func (r *Rule) Text(v any) (string, string) {
	s, ok := v.(string)
	if r.Trim && len(r.Enum) == 0 && r.Format == "" {
		s = strings.TrimFunc(s, IsBlank)
	}
	switch {
	case !ok:
		return "", problem("must be a string")
	case len(r.Enum) > 0:
		for _, allowed := range r.Enum {
			if s == allowed {
				return s, ""
			}
		}
		return "", problem("must be one of %s", strings.Join(r.Enum, ", "))
	case strings.ContainsRune(s, 0):
		return "", problem("must not contain the character U+0000")
	case !utf8.ValidString(s) || strings.ContainsRune(s, utf8.RuneError):
		return "", problem("must be valid Unicode text")
	case strings.ContainsFunc(s, IsDirection):
		return "", problem("must not contain marks that change the direction of text, such as U+202E")
	case utf8.RuneCountInString(s) > r.MaxLength:
		return "", problem("must have at most %d characters", r.MaxLength)
	case r.Required && strings.TrimFunc(s, IsBlank) == "":
		return "", problem("must not be blank")
	case utf8.RuneCountInString(s) < r.MinLength:
		return "", problem("must have at least %d characters", r.MinLength)
	case r.Format == "email" && (!emailForm.MatchString(s) || strings.ContainsFunc(s, IsBlank)):
		return "", problem("must be an e-mail address such as ada@farm.example")
	case r.Format == "color" && !colorForm.MatchString(s):
		return "", problem("must have the form #RRGGBB")
	case r.Format == "alphaColor" && !alphaColorForm.MatchString(s):
		return "", problem("must have the form #RRGGBB or #RRGGBBAA")
	case r.Format == "link" && (!linkForm.MatchString(s) || strings.ContainsFunc(s, IsBlank)):
		return "", problem("must be a link such as https://shop.example/pla-black")
	}
	return s, ""
}

// EmailPattern also accepts some invalid addresses: only a delivered message proves that an address exists. No domain
// has an empty label, and the characters around addresses in a list, such as Ada <ada@farm.example>, are in none.
const EmailPattern = `^[^@\s\x00-\x1f\x7f-\x9f<>,;:"]+@` +
	`[^@.\s\x00-\x1f\x7f-\x9f<>,;:"]+(\.[^@.\s\x00-\x1f\x7f-\x9f<>,;:"]+)*$`

var emailForm = regexp.MustCompile(EmailPattern)

// LinkPattern matches the address of a page: an absolute http or https URL without a user name, so that pages can link
// to it.
const LinkPattern = `^https?://[^\s/?#@\\\x00-\x1f\x7f-\x9f]+([/?#][^\s\x00-\x1f\x7f-\x9f]*)?$`

var linkForm = regexp.MustCompile(LinkPattern)

// IsDirection reports whether r changes the direction of the text that follows: it is an embedding, an override, an
// isolate, or the end of one. Such marks can make a text look like another one, so no stored text has them.
func IsDirection(r rune) bool {
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// WithoutDirections returns s without the characters of IsDirection.
func WithoutDirections(s string) string {
	if !strings.ContainsFunc(s, IsDirection) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if IsDirection(r) {
			return -1
		}
		return r
	}, s)
}

// IsBlank reports whether \s in a pattern of the OpenAPI document matches r. The patterns are regular expressions of
// ECMAScript.
func IsBlank(r rune) bool { return unicode.IsSpace(r) && r != '\u0085' || r == '\ufeff' }

// ColorPattern matches a color, #RRGGBB. AlphaColorPattern also matches a color with an alpha value, #RRGGBBAA.
const (
	ColorPattern      = `^#[0-9A-Fa-f]{6}$`
	AlphaColorPattern = `^#([0-9A-Fa-f]{6}|[0-9A-Fa-f]{8})$`
)

var alphaColorForm = regexp.MustCompile(AlphaColorPattern)

var colorForm = regexp.MustCompile(ColorPattern)
