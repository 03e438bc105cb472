package value

import (
	"encoding/json"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Set is a list of one or more different values of an Enum. In SQL, a Set is an array of texts. In a query, commas
// separate the values, and a value can occur twice.
type Set[E Enum] []string

// Element returns the type of an entry.
func (Set[E]) Element() reflect.Type { return reflect.TypeFor[E]() }
func (s Set[E]) texts() []string     { return s }

// parse stores the decoded value of a JSON list or of a query. It returns the problem with the value, or "".
func (s *Set[E]) parse(f *Rule, v any) string {
	var e E
	allowed := e.Enum()
	if text, ok := v.(Separated); ok {
		for value := range strings.SplitSeq(string(text), ",") {
			if !slices.Contains(allowed, value) {
				return problem("must be one of %s, or several of them, separated by commas", strings.Join(allowed, ", "))
			}
			if !slices.Contains(*s, value) {
				*s = append(*s, value)
			}
		}
		return ""
	}
	entries, ok := v.(Array)
	if !ok {
		return problem("must be a list of strings")
	}
	least := 1
	if f.Empty {
		least, *s = 0, Set[E]{}
	}
	if len(entries) < least || len(entries) > len(allowed) {
		return problem("must have %d to %d entries", least, len(allowed))
	}
	for _, entry := range entries {
		var value string
		if json.Unmarshal(entry, &value) != nil || !slices.Contains(allowed, value) {
			return problem("must have entries of %s", strings.Join(allowed, ", "))
		}
		if slices.Contains(*s, value) {
			return problem("must not have an entry twice")
		}
		*s = append(*s, value)
	}
	return ""
}

// Several is a list of 1 to MaxSeveral values. In SQL, it is an array. In a query, it has at most MaxQueried ids,
// separated by commas.
type Several[T UUID | int64] []T

// MaxSeveral is the maximum length of a Several, and MaxQueried its maximum length in a query.
const (
	MaxSeveral = 1000
	MaxQueried = 100
)

// Element returns the type of an entry.
func (Several[T]) Element() reflect.Type { return reflect.TypeFor[T]() }

// parse stores the decoded value of a JSON list or of a query for the field f. It returns the problem with the value,
// or "".
func (s *Several[T]) parse(f *Rule, v any) string {
	var entries []any
	switch v := v.(type) {
	case Separated:
		texts := strings.Split(string(v), ",")
		if len(texts) > MaxQueried {
			return problem("must have at most %d entries, separated by commas", MaxQueried)
		}
		for _, text := range texts {
			entries = append(entries, text)
		}
	case Array:
		if len(v) <= MaxSeveral {
			for _, entry := range v {
				entries = append(entries, scalar(entry))
			}
		}
	}
	if len(entries) == 0 {
		return problem("must be a list with 1 to %d entries", MaxSeveral)
	}
	one := *f
	for i, entry := range entries {
		var value Optional[T]
		wrong := value.Decode(&one, entry)
		if wrong == "" && value.IsNull() {
			wrong = problem("must not be null")
		}
		if wrong != "" {
			return problem("has an invalid entry: %s[%d] %s", f.Name, i, wrong)
		}
		*s = append(*s, *value.Value)
	}
	return ""
}

// Texts is a list of at most MaxTexts different texts of 1 to 200 characters. In SQL, it is an array of texts.
type Texts []string

// MaxTexts is the maximum length of Texts.
const MaxTexts = 100

// Element returns the type of an entry.
func (Texts) Element() reflect.Type { return reflect.TypeFor[string]() }
func (t Texts) texts() []string     { return t }

// parse stores the decoded value of a JSON list. It returns the problem with the value, or "".
func (t *Texts) parse(_ *Rule, v any) string {
	entries, ok := v.(Array)
	if !ok || len(entries) > MaxTexts {
		return problem("must be a list with at most %d entries", MaxTexts)
	}
	*t = Texts{}
	one := Rule{Required: true, MaxLength: 200}
	for _, entry := range entries {
		text, wrong := one.Text(scalar(entry))
		if wrong == "" && slices.Contains(*t, text) {
			wrong = problem("must not be there twice")
		}
		if wrong != "" {
			return problem("has an invalid entry, which %s", wrong)
		}
		*t = append(*t, text)
	}
	return ""
}

// Colors is a list of at most MaxColors colors in the form #RRGGBB or #RRGGBBAA. In SQL, it is an array of texts.
type Colors []string

// MaxColors is the maximum length of Colors.
const MaxColors = 10

// Element returns the type of an entry.
func (Colors) Element() reflect.Type { return reflect.TypeFor[string]() }
func (c Colors) texts() []string     { return c }

// parse stores the decoded value of a JSON list, or of a cell of a CSV file. It returns the problem with the value, or
// "".
func (c *Colors) parse(f *Rule, v any) string {
	if text, ok := v.(Separated); ok {
		entries := Array{}
		for entry := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return r == ',' || r == ' ' }) {
			entries = append(entries, []byte(strconv.Quote(entry)))
		}
		return c.parse(f, entries)
	}
	entries, ok := v.(Array)
	if !ok || len(entries) > MaxColors {
		return problem("must be a list with at most %d entries", MaxColors)
	}
	*c = Colors{}
	for _, entry := range entries {
		text, _ := scalar(entry).(string)
		if !alphaColorForm.MatchString(text) {
			return problem("must have entries of the form #RRGGBB or #RRGGBBAA")
		}
		*c = append(*c, text)
	}
	return ""
}

// Sort sorts a list by a function that compares two of its items, and keeps the order of items that are equal. It is
// for lists of a few hundred items: slices.SortStableFunc is faster, and takes 6 to 15 kB of the program for each type
// of items.
func Sort[E any](list []E, compare func(a, b E) int) {
	sort.SliceStable(list, func(i, j int) bool { return compare(list[i], list[j]) < 0 })
}
