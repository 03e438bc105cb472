package value

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
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
				return "must be one of " + strings.Join(allowed, ", ") + ", or several of them, separated by commas"
			}
			if !slices.Contains(*s, value) {
				*s = append(*s, value)
			}
		}
		return ""
	}
	entries, ok := v.(Array)
	if !ok {
		return "must be a list of strings"
	}
	least := 1
	if f.Empty {
		least, *s = 0, Set[E]{}
	}
	if len(entries) < least || len(entries) > len(allowed) {
		return fmt.Sprintf("must have %d to %d entries", least, len(allowed))
	}
	for _, entry := range entries {
		var value string
		if json.Unmarshal(entry, &value) != nil || !slices.Contains(allowed, value) {
			return "must have entries of " + strings.Join(allowed, ", ")
		}
		if slices.Contains(*s, value) {
			return "must not have an entry twice"
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
			return "must have at most " + strconv.Itoa(MaxQueried) + " entries, separated by commas"
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
		return "must be a list with 1 to " + strconv.Itoa(MaxSeveral) + " entries"
	}
	one := *f
	for i, entry := range entries {
		var value Optional[T]
		problem := value.Decode(&one, entry)
		if problem == "" && value.IsNull() {
			problem = "must not be null"
		}
		if problem != "" {
			return fmt.Sprintf("has an invalid entry: %s[%d] %s", f.Name, i, problem)
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
		return "must be a list with at most " + strconv.Itoa(MaxTexts) + " entries"
	}
	*t = Texts{}
	one := Rule{Required: true, MaxLength: 200}
	for _, entry := range entries {
		text, problem := one.Text(scalar(entry))
		if problem == "" && slices.Contains(*t, text) {
			problem = "must not be there twice"
		}
		if problem != "" {
			return "has an invalid entry, which " + problem
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
		return "must be a list with at most " + strconv.Itoa(MaxColors) + " entries"
	}
	*c = Colors{}
	for _, entry := range entries {
		text, _ := scalar(entry).(string)
		if !alphaColorForm.MatchString(text) {
			return "must have entries of the form #RRGGBB or #RRGGBBAA"
		}
		*c = append(*c, text)
	}
	return ""
}
