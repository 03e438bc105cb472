package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in order. Two members with the same name are an error, because many parsers reject
// such a text.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if slices.ContainsFunc(o[:i], func(earlier member) bool { return earlier.name == m.name }) {
			return nil, fmt.Errorf("two members have the name %q", m.name)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (o *object) add(name string, value any) { *o = append(*o, member{name, value}) }

func ref(kind, name string) object { return object{{"$ref", "#/components/" + kind + "/" + name}} }

// schemaWith returns the schema of an object with these properties. It permits others, because later versions of the
// service may add properties to responses and events.
func schemaWith(required []string, properties object) object {
	schema := object{{"type", "object"}}
	if len(required) > 0 {
		schema.add("required", required)
	}
	schema.add("properties", properties)
	return schema
}
