package value

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"math"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Extra maps the keys of custom fields to values: texts, numbers, bools, and lists of these. In a PATCH, null removes
// a value, and fields without a key keep their values. In SQL, an Extra is jsonb.
type Extra map[string]json.RawMessage

const (
	// ExtraKey is the form of the key of a custom field.
	ExtraKey = `^[a-z0-9_]{1,64}$`

	// MaxExtra is the maximum size of all values in a request, in bytes.
	MaxExtra = 50_000
)

var extraKeyForm = regexp.MustCompile(ExtraKey)

// IsExtraKey reports whether key can be the key of a custom field.
func IsExtraKey(key string) bool { return extraKeyForm.MatchString(key) }

// parse stores the decoded value: a JSON object, or its text from a file. It returns the problem with the value, or
// "".
func (e *Extra) parse(_ *Rule, v any) string {
	text, ok := v.(Object)
	if s, isText := v.(string); isText {
		text, ok = Object(s), json.Valid([]byte(s))
	}
	*e = nil
	if !ok || json.Unmarshal(text, e) != nil || *e == nil {
		return problem("must be an object with the values of custom fields by their keys")
	}
	return e.problem()
}

func (e Extra) problem() string {
	size := 0
	for key, value := range e {
		size += len(key) + len(value)
		if !IsExtraKey(key) {
			return problem("must have keys of 1 to 64 lower-case letters, digits and underscores, and not %q",
				Shorten(key, MaxRepeated))
		}
		if wrong := storable(value); wrong != "" {
			return problem("has an invalid value: %s %s", key, wrong)
		}
	}
	if size > MaxExtra {
		return problem("must have at most %d bytes", MaxExtra)
	}
	return ""
}

// storable returns "" if jsonb can store a JSON text, and the problem otherwise.
func storable(text json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		switch v := token.(type) {
		case nil:
			if err == io.EOF {
				return ""
			}
			if err != nil {
				return problem("must be JSON")
			}
		case string:
			if strings.ContainsRune(v, 0) || strings.ContainsRune(v, utf8.RuneError) || strings.ContainsFunc(v, IsDirection) {
				return problem("must be valid Unicode text without the character U+0000 and marks of direction such as U+202E")
			}
		case json.Number:
			if f, err := v.Float64(); err != nil || len(v) > 40 || f != 0 && math.Abs(f) < 1e-100 {
				return problem("must have at most 40 digits")
			}
		}
	}
}

// SetText sets the value of a key to a JSON text. It returns false if the text is not valid JSON.
func (e Extra) SetText(key, text string) bool {
	if !json.Valid([]byte(text)) {
		return false
	}
	e[key] = json.RawMessage(text)
	return true
}

// Problem is problem for an Extra that was not decoded from a request.
func (e Extra) Problem() string { return e.problem() }

func (e Extra) jsonText() string {
	text, err := json.Marshal(map[string]json.RawMessage(e))
	if err != nil {
		return "{}" // cannot happen for valid values
	}
	return string(text)
}

// Values returns the values other than null as a JSON text, for a new row.
func (e Extra) Values() string {
	values := maps.Clone(e)
	maps.DeleteFunc(values, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	if values == nil {
		return "{}"
	}
	return values.jsonText()
}
