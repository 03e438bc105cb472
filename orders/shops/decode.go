package shops

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"spoolwright/server"
	"spoolwright/value"
	"spoolwright/value/language"
)

// decode decodes a JSON text into a value of a type of messages. It ignores unknown members of objects: unlike clients
// of the API, shops send everything they have. The error is a 422 that names the value in the message, such as
// lines[0].quantity. A null is a missing value.
func decode(text json.RawMessage, to reflect.Value, name string) error {
	if string(text) == "null" {
		return nil
	}
	if u, ok := to.Addr().Interface().(json.Unmarshaler); ok {
		if err := u.UnmarshalJSON(text); err != nil {
			return server.Invalid(name, "%s", err.Error())
		}
		return nil
	}
	problem := ""
	switch to.Kind() {
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		return decode(text, to.Elem(), name)
	case reflect.Struct:
		if string(text) == "[]" { // how PHP writes an object without members
			return nil
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(text, &members) != nil {
			problem = language.Sprintf("must be a JSON object")
			break
		}
		for i := range to.NumField() {
			member := to.Type().Field(i).Tag.Get("json")
			sent, ok := members[member]
			if !ok {
				continue
			}
			if err := decode(sent, to.Field(i), join(name, member)); err != nil {
				return err
			}
		}
	case reflect.Slice:
		var entries []json.RawMessage
		if json.Unmarshal(text, &entries) != nil {
			problem = language.Sprintf("must be a list")
			break
		}
		to.Set(reflect.MakeSlice(to.Type(), len(entries), len(entries)))
		for i, entry := range entries {
			one := fmt.Sprintf("%s[%d]", name, i)
			if string(entry) == "null" {
				return server.Invalid(one, "must be a JSON object")
			}
			if err := decode(entry, to.Index(i), one); err != nil {
				return err
			}
		}
	case reflect.String:
		if json.Unmarshal(text, to.Addr().Interface()) != nil {
			problem = language.Sprintf("must be a text")
		}
	case reflect.Bool:
		if json.Unmarshal(text, to.Addr().Interface()) != nil {
			problem = language.Sprintf("must be true or false")
		}
	default:
		panic("shops: no decoder for " + to.Type().String())
	}
	if problem != "" {
		return server.Invalid(name, "%s", problem)
	}
	return nil
}

func join(name, member string) string {
	if name == "body" {
		return member
	}
	return name + "." + member
}

// decodeMessage decodes the body of a message into to, a pointer to a struct.
func decodeMessage(body []byte, to any) error {
	if !json.Valid(body) {
		return server.Invalid("body", "must be valid JSON")
	}
	var text json.RawMessage
	if err := json.Unmarshal(body, &text); err != nil { // without blanks around it
		return err
	}
	if text[0] != '{' {
		return server.Invalid("body", "must be a JSON object")
	}
	return decode(text, reflect.ValueOf(to).Elem(), "body")
}

// word is a text or a number in JSON, such as an id.
type word string

func (w *word) UnmarshalJSON(b []byte) error {
	var text string
	var number json.Number
	switch {
	case json.Unmarshal(b, &text) == nil:
	case json.Unmarshal(b, &number) == nil:
		text = number.String()
	default:
		return language.Error("must be a text or a number")
	}
	*w = word(text)
	return nil
}

// count is a whole number in JSON; decimals must be zero.
type count int64

var anyNumber = &value.Rule{Minimum: -value.MaxDecimal, Maximum: value.MaxDecimal}

func (c *count) UnmarshalJSON(b []byte) error {
	if b[0] != '-' && (b[0] < '0' || b[0] > '9') {
		return language.Error("must be a whole number")
	}
	var n value.Optional[int64]
	if problem := n.Decode(anyNumber, value.Number(b)); problem != "" {
		return errors.New(problem)
	}
	*c = count(*n.Value)
	return nil
}

// moment is a point in time in JSON. Without an offset, it is in UTC.
type moment struct{ time.Time }

func (m *moment) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		text = ""
	}
	t, problem := value.ParseTimestamp(text)
	if problem == "" && (t.Year() < 1990 || t.Year() > 9000) {
		problem = language.Sprintf("must be in the years 1990 to 9000")
	}
	if problem != "" {
		return errors.New(problem)
	}
	m.Time = t.Time
	return nil
}
