package value

import (
	"encoding/json"
	"reflect"
)

// Optional is a field of a request: absent, null, or a value.
type Optional[T any] struct {
	Set   bool // the request contains the field
	Value *T   // nil for null
}

// IsNull reports whether the field is absent or null.
func (o Optional[T]) IsNull() bool { return o.Value == nil }

// Or returns the value, or otherwise if the field is absent or null.
func (o Optional[T]) Or(otherwise T) T {
	if o.Value == nil {
		return otherwise
	}
	return *o.Value
}

// MarshalJSON encodes the value, or null.
func (o Optional[T]) MarshalJSON() ([]byte, error) { return json.Marshal(o.Value) }

// Some returns an Optional with the value v.
func Some[T any](v T) Optional[T] { return Optional[T]{Set: true, Value: &v} }

// OrNil returns a pointer to v, or nil for a zero value.
func OrNil[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// OrZero returns what p points to, or a zero value for nil.
func OrZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Arg returns the value as an argument of a SQL statement; nil if the field is absent or null.
func (o Optional[T]) Arg() any {
	if o.Value == nil {
		return nil
	}
	switch v := any(*o.Value).(type) {
	case string:
		return v
	case Enum:
		return reflect.ValueOf(v).String()
	case Decimal:
		return v.String()
	case Timestamp:
		return v.Time
	case Moment:
		if v.date != "" {
			return string(v.date)
		}
		return v.Time
	case Date:
		return string(v)
	case UUID:
		return string(v)
	case Several[UUID]:
		ids := make([]string, len(v))
		for i, id := range v {
			ids[i] = string(id)
		}
		return ids
	case interface{ texts() []string }:
		return v.texts()
	case Extra:
		return v.jsonText()
	}
	return *o.Value
}

// Values returns the texts of a list such as a Set, or nil if the field is absent or null.
func (o Optional[T]) Values() []string {
	if set, ok := any(o.Or(*new(T))).(interface{ texts() []string }); ok {
		return set.texts()
	}
	return nil
}

// IsSet reports whether the request contains the field.
func (o Optional[T]) IsSet() bool { return o.Set }

// SQLType returns the SQL type for a cast of the argument, because in some exec modes of pgx, PostgreSQL cannot infer
// it.
func (o Optional[T]) SQLType() string {
	var v T
	switch any(v).(type) {
	case Decimal:
		return "numeric"
	case Timestamp, Moment:
		return "timestamptz"
	case Date:
		return "date"
	case UUID:
		return "uuid"
	case int64:
		return "int"
	case bool:
		return "boolean"
	case Extra:
		return "jsonb"
	case interface{ texts() []string }:
		return "text[]"
	}
	return "text"
}

// Decode stores a decoded scalar: nil, bool, string or number. It returns the problem with the scalar, or "".
func (o *Optional[T]) Decode(rule *Rule, v any) string {
	o.Set, o.Value = true, nil
	if v == nil {
		return ""
	}
	var value T
	var wrong string
	switch to := any(&value).(type) {
	case *string:
		*to, wrong = rule.Text(v)
	case *bool:
		var ok bool
		if *to, ok = v.(bool); !ok {
			wrong = problem("must be true or false")
		}
	case *Decimal:
		*to, wrong = rule.Number(v)
	case *int64:
		if rule.Sequence {
			*to, wrong = sequence(v)
			break
		}
		var d Decimal
		if d, wrong = rule.Number(v); wrong == "" {
			if _, exact, _ := parse(string(v.(Number))); !exact || d%DecimalOne != 0 {
				wrong = problem("must be a whole number")
			}
		}
		*to = int64(d / DecimalOne)
	case *Timestamp:
		*to, wrong = ParseTimestamp(v)
	case *Moment:
		*to, wrong = ParseMoment(v)
	case *Date:
		*to, wrong = ParseDate(v)
	case *UUID:
		s, _ := v.(string)
		id, ok := ParseID(s)
		if !ok {
			wrong = problem("must be a UUID")
		}
		*to = UUID(id)
	case interface{ parse(*Rule, any) string }:
		wrong = to.parse(rule, v)
	case Enum:
		var s string
		s, wrong = rule.Text(v)
		reflect.ValueOf(to).Elem().SetString(s)
	default:
		panic("value: no decoder for the type of field " + rule.Name)
	}
	if wrong == "" {
		o.Value = &value
	}
	return wrong
}
