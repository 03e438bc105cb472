package openapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"spoolwright/server"
	"spoolwright/value"
)

// request adds the schema of a request body and returns the name of the schema. The schema omits read-only fields:
// requests may contain them, but the service ignores them.
func (d *document) request(t reflect.Type, patch bool) string {
	s := server.SchemaOfType(t)
	name := s.Name
	for _, f := range s.Fields {
		if f.ReadOnly {
			name = strings.TrimSuffix(s.Name, "Create") + "Create"
		}
	}
	how := "request"
	if patch {
		name, how = s.Name+"Update", "patch"
	}
	if !d.begin(name, t, how) {
		return name
	}
	properties, required := object{}, []string{}
	for _, f := range s.Fields {
		if f.ReadOnly || f.List && patch && !f.Patched {
			continue
		}
		var schema object
		switch {
		case f.List:
			schema = object{{"type", "array"}, {"maxItems", f.Most},
				{"items", ref("schemas", d.request(f.Kind, false))}}
		case f.Part:
			schema = ref("schemas", d.request(f.Kind, !server.SchemaOfType(f.Kind).Fields[0].Query))
		case f.Query:
			schema = d.scalar(f, false)
		default:
			schema = d.scalar(f, !f.Required && !(patch && f.NotNull))
		}
		properties.add(f.Name, d.documented(f, schema))
		if f.Required && f.Unless == "" && !patch {
			required = append(required, f.Name)
		}
	}
	d.put(name, properties, required)
	d.schemas[name] = append(d.schemas[name], member{"additionalProperties", false}) // the service rejects others
	return name
}

// response adds the schema of a resource in responses and returns the name of the schema. All fields of the schema are
// required, because responses contain all fields.
func (d *document) response(t reflect.Type) string {
	s := server.SchemaOfType(t)
	if !d.begin(s.Name, t, "response") {
		return s.Name
	}
	properties, required := object{}, []string{}
	for _, f := range s.Fields {
		if f.WriteOnly {
			continue
		}
		schema := d.scalar(unbounded(f), !f.NotNull)
		switch {
		case f.List:
			schema = object{{"type", "array"}, {"items", ref("schemas", d.response(f.Kind))}}
		case nests(f):
			if schema = ref("schemas", d.response(f.Kind)); f.Part && !f.NotNull {
				schema = object{{"anyOf", []object{schema, {{"type", "null"}}}}}
			}
		}
		properties.add(f.Name, d.documented(f, schema))
		required = append(required, f.Name)
	}
	d.put(s.Name, properties, required)
	return s.Name
}

// page adds the schema of a page of a list and returns the name of the schema. Item is the name of the items' schema.
func (d *document) page(item string) string {
	name := strings.TrimSuffix(item, "Item")
	if !strings.HasSuffix(name, "List") {
		name += "List"
	}
	whole := func(doc string, example int) object {
		return object{{"type", "integer"}, {"description", doc}, {"examples", []int{example}}}
	}
	if d.begin(name, nil, "list of "+item) {
		d.put(name, object{
			{"items", object{{"type", "array"}, {"description", "The items of this page."},
				{"items", ref("schemas", item)}}},
			{"total", whole("Number of matching items on all pages.", 1)},
			{"skip", whole("Number of skipped items.", 0)},
			{"limit", whole("Maximum number of items on a page.", 20)},
			{"next", object{{"type", []string{"string", "null"}},
				{"description", "The value of `after` for the next page; null on the last page, and if the request has " +
					"an order without an index."}, {"examples", []string{server.ExampleCursor}}}},
		}, []string{"items", "total", "skip", "limit", "next"})
	}
	return name
}

// source identifies a schema: the Go type, and how the schema describes it, such as a request or a response.
type source struct {
	kind reflect.Type
	how  string
}

// begin reports whether the document has no schema with the name yet. It panics if the schema with the name has
// another source.
func (d *document) begin(name string, t reflect.Type, how string) bool {
	made, ok := d.sources[name]
	if ok && made != (source{t, how}) {
		panic("openapi: two types of the API have the schema name " + name)
	}
	d.sources[name] = source{t, how}
	return !ok
}

func (d *document) put(name string, properties object, required []string) {
	d.schemas[name] = schemaWith(required, properties)
	d.order = append(d.order, name)
}

func nests(f *server.Field) bool {
	schema, list := f.Nested()
	return schema != nil && !list
}

// fieldDoc is the description of a field. The example is nil if the field has no example.
type fieldDoc struct {
	description string
	example     json.RawMessage
	used        bool
}

// readFields adds the tables of a Tag's Fields to d.docs.
func (d *document) readFields(text string) {
	owner := ""
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			owner = strings.TrimSpace(name)
		}
		cells := strings.Split(line, "|")
		if len(cells) != 5 || cells[1] == " Field " || strings.HasPrefix(cells[1], "---") {
			continue
		}
		doc := &fieldDoc{description: strings.TrimSpace(cells[2])}
		if example := strings.TrimSpace(cells[3]); json.Valid([]byte(example)) {
			doc.example = json.RawMessage(example)
		} else if example != "" {
			doc.example, _ = json.Marshal(example)
		}
		d.docs[owner+"."+strings.TrimSpace(cells[1])] = doc
	}
}

// doc returns the description of a field. It panics if the field has no description.
func (d *document) doc(f *server.Field) *fieldDoc {
	doc := d.docs[f.Owner+"."+f.Name]
	if doc == nil || doc.description == "" {
		panic(fmt.Sprintf("openapi: no Tag describes the field %s of %s", f.Name, f.Owner))
	}
	doc.used = true
	return doc
}

func (d *document) documented(f *server.Field, schema object) object {
	doc := d.doc(f)
	description := doc.description
	if len(f.Numbers) > 0 {
		description += " One of " + strings.Trim(strings.ReplaceAll(fmt.Sprint(f.Numbers), " ", ", "), "[]") + "."
	}
	schema.add("description", description)
	if doc.example != nil {
		schema.add("examples", []json.RawMessage{doc.example})
	}
	return schema
}

// unbounded returns a copy of the field without bounds and patterns, for the schema of a response. Clients need not
// check responses, and Go clients of openapi-generator fail at a pattern of a text that can be null.
func unbounded(f *server.Field) *server.Field {
	free := *f
	free.Input = false
	return &free
}

// scalar returns the JSON Schema of a field with a scalar or a Set. The schema of a named enum is a reference, so that
// generated clients have one type for the enum.
func (d *document) scalar(f *server.Field, nullable bool) object {
	if f.Set {
		values := *f
		values.Set = false
		if f.Format == "alphaColor" {
			return object{{"type", "array"}, {"maxItems", value.MaxColors}, {"items", schemaOf(&values, false)}}
		}
		if len(f.Enum) == 0 && f.Kind == reflect.TypeFor[string]() {
			return object{{"type", "array"}, {"maxItems", value.MaxTexts}, {"items", schemaOf(&values, false)}}
		}
		if len(f.Enum) == 0 {
			return object{{"type", "array"}, {"minItems", 1}, {"maxItems", value.MaxSeveral},
				{"items", schemaOf(&values, false)}}
		}
		least := 1
		if f.Empty {
			least = 0
		}
		return object{{"type", "array"}, {"minItems", least}, {"maxItems", len(f.Enum)}, {"uniqueItems", true},
			{"items", d.scalar(&values, false)}}
	}
	if f.Named == "" {
		return schemaOf(f, nullable)
	}
	if d.begin(f.Named, nil, fmt.Sprint(f.Enum)) {
		d.schemas[f.Named] = schemaOf(f, false)
		d.order = append(d.order, f.Named)
	}
	if nullable {
		return object{{"anyOf", []object{ref("schemas", f.Named), {{"type", "null"}}}}}
	}
	return ref("schemas", f.Named)
}

// The patterns of texts. No text may contain U+0000 or the characters of value.IsDirection, and a required text must not
// be blank.
const (
	never           = `\x00\u202A-\u202E\u2066-\u2069`
	textPattern     = `^[^` + never + `]*$`
	requiredPattern = `^[^` + never + `]*[^\s` + never + `][^` + never + `]*$`
)

// schemaOf returns the JSON Schema of a scalar.
func schemaOf(f *server.Field, nullable bool) object {
	var o object
	kind := func(name string) {
		if nullable {
			o.add("type", []string{name, "null"})
		} else {
			o.add("type", name)
		}
	}
	values := func(all []any) {
		if nullable {
			all = append(all, nil)
		}
		o.add("enum", all)
	}
	switch f.Kind {
	case reflect.TypeFor[string]():
		kind("string")
		switch {
		case len(f.Enum) > 0:
			values(anys(f.Enum))
		case !f.Input || f.ReadOnly:
		case f.Format == "color":
			o.add("pattern", value.ColorPattern)
		case f.Format == "alphaColor":
			o.add("pattern", value.AlphaColorPattern)
		case f.Format == "link":
			o.add("pattern", value.LinkPattern)
			o.add("maxLength", f.MaxLength)
		case f.Format == "uri":
			o.add("format", "uri")
			o.add("minLength", 1)
			o.add("maxLength", f.MaxLength)
		default:
			if f.Required {
				o.add("minLength", max(1, f.MinLength))
			}
			o.add("maxLength", f.MaxLength)
			switch {
			case f.Format == "email":
				o.add("pattern", value.EmailPattern)
			case f.Required:
				o.add("pattern", requiredPattern)
			default:
				o.add("pattern", textPattern)
			}
		}
	case reflect.TypeFor[value.Decimal](), reflect.TypeFor[int64]():
		least := value.Decimal(1)
		if f.Kind == reflect.TypeFor[value.Decimal]() {
			kind("number")
			o.add("format", "double")
		} else {
			kind("integer")
			least = value.DecimalOne
		}
		// The description lists the numbers of an enum. Client generators have no type for an enum of fractions: their
		// clients lack the schema, round the numbers, or do not compile.
		if f.Sequence {
			o.add("minimum", 1)
			o.add("maximum", int64(value.MaxSequence))
		} else if f.Input && !f.ReadOnly {
			if f.Exclusive {
				o.add("minimum", f.Minimum+least) // the next number, because the service rounds
			} else {
				o.add("minimum", f.Minimum)
			}
			o.add("maximum", f.Maximum)
		}
	case reflect.TypeFor[bool]():
		kind("boolean")
	case reflect.TypeFor[value.Extra]():
		kind("object")
		o.add("additionalProperties", true)
	case reflect.TypeFor[value.Timestamp](), reflect.TypeFor[value.Moment]():
		kind("string")
		o.add("format", "date-time")
	case reflect.TypeFor[value.Date]():
		kind("string")
		o.add("format", "date")
	case reflect.TypeFor[value.UUID]():
		kind("string")
		o.add("format", "uuid")
	}
	return o
}

func anys[T any](values []T) []any {
	var all []any
	for _, v := range values {
		all = append(all, v)
	}
	return all
}

func literal(s string, t reflect.Type) any {
	if t == reflect.TypeFor[string]() {
		return s
	}
	return json.RawMessage(s)
}

// example returns an example of a type, which consists of the examples of its fields. An example of a request has no
// nested lists.
func (d *document) example(t reflect.Type, request bool) object {
	o := object{}
	for _, f := range server.SchemaOfType(t).Fields {
		switch doc := d.doc(f); {
		case request && (f.ReadOnly || f.List), !request && f.WriteOnly:
		case f.List:
			o.add(f.Name, []any{d.example(f.Kind, request)})
		case nests(f):
			o.add(f.Name, d.example(f.Kind, request))
		case doc.example != nil:
			o.add(f.Name, doc.example)
		case !request:
			o.add(f.Name, nil)
		}
	}
	return o
}
