package server

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"spoolwright/value"
	"spoolwright/value/language"
)

// Schema describes the fields of a Go type, as its tags define them. Decoding, validation, sorting and the OpenAPI
// document all read it, so they cannot disagree.
//
// The tag `json` or `query` is the field's name. Its description is in the Fields of a Tag of the OpenAPI document.
// The tag `rule` is a comma-separated list of:
//
//	required             must be present and not null in a POST, and not null in a PATCH
//	unless=filament_id   with required: a POST may omit the field if it has filament_id, or a field insteadOf it
//	insteadOf=product_id identifies the same thing as product_id; several fields can be insteadOf product_id. Of all
//	                     these fields, a POST has exactly one, and a PATCH at most one
//	optional             with insteadOf: a POST may have none of these fields
//	readOnly             only in responses; ignored in requests
//	fixed                only in responses; a request can repeat the value, and the handler refuses another one
//	writeOnly            only in requests
//	secret               only in responses; empty in the repeated response for an Idempotency-Key, because the service
//	                     does not store the value. The value is a string without characters that JSON escapes
//	notNull              never null in a response or in a PATCH; implied by required
//	minimum=1            lower bound of a number; the default is 0
//	exclusiveMinimum=0   lower bound of a number; the bound itself is not allowed
//	maximum=9            upper bound of a number; every number in a request needs one
//	trim                 remove the blanks around the text; must follow maxLength, which turns trim off
//	search               the text of List.Search, which has a maximum number of words
//	minLength=10         in characters
//	maxLength=500        in characters, with the blanks around the text; without maxLength, a text has at most 200
//	                     characters, and blanks around it are removed
//	format=email         an e-mail address
//	format=color         #RRGGBB
//	format=alphaColor    #RRGGBB or #RRGGBBAA
//	format=link          an http or https URL
//	format=uri           an absolute URL; the handler checks it
//	enum=A|B             the allowed strings or numbers
//	named=Kind           the name of the enum's schema in the document; without a name, the enum is part of the field's
//	                     schema: Go clients of openapi-generator do not compile if two named enums share a value
//	empty                a Set that may be empty
//	maxItems=100         maximum length of a nested list; without it, MaxEntries
//	patched              a nested list that a PATCH may contain: the whole list, whose entries are those of a POST
//	unsorted             lists cannot be sorted by the field
//	default=20           the default of a query parameter, for the document only
type Schema struct {
	Name   string // the Go type, with an upper-case initial
	Fields []*Field
	byName map[string]*Field
	extra  []int // the index of the struct's field of type ExtraFilter, or nil
	filter []int // the index of the struct's field with the tag `query:"*"`, or nil
}

// Field is one field of a Schema.
type Field struct {
	value.Rule

	Default, Named                      string
	Query, ReadOnly, WriteOnly, NotNull bool
	Secret                              bool // ReadOnly, and not stored
	Fixed                               bool // ReadOnly, and in requests
	Unsorted                            bool // lists cannot be sorted by the field
	Optional                            bool // see the rule optional of Schema

	Kind    reflect.Type // the type of the value, or of the elements of a list
	Input   bool         // whether the type is an Optional, which requests may contain
	List    bool         // a nested list: POST requests and single responses contain it, and a PATCH ignores it
	Patched bool         // a List that a PATCH may contain
	Most    int          // the maximum length of a List
	Set     bool         // a Set or a Several; Kind is the type of an entry
	Part    bool         // a pointer to a struct: an object in a request, with the fields of a PATCH or of a query
	Owner   string       // the struct that declares the field, such as catalog.Product

	Unless string // the name of the field with which a POST may omit this required field

	search bool     // whether the field is the text of List.Search
	others []*Field // the fields with the rule insteadOf this field
	index  []int
}

// IsNumber reports whether the field's values are numbers.
func (f *Field) IsNumber() bool {
	return f.Kind == reflect.TypeFor[value.Decimal]() || f.Kind == reflect.TypeFor[int64]()
}

// Allows reports whether a decimal number can be a value of the field.
func (f *Field) Allows(decimal string) bool {
	d, problem := f.Number(value.Number(decimal))
	return problem == "" && (f.Kind != reflect.TypeFor[int64]() || d%value.DecimalOne == 0)
}

// decode decodes v, a value of the field, into to. It returns the problem with v, or "".
func (f *Field) decode(to settable, v any) string {
	problem := to.Decode(&f.Rule, v)
	if text, ok := v.(string); problem == "" && f.search && ok && len(words(text)) > maxWords {
		problem = language.Sprintf("must have at most %d words", maxWords)
	}
	return problem
}

// IsBool reports whether the field's values are true and false.
func (f *Field) IsBool() bool { return f.Kind == reflect.TypeFor[bool]() }

// IsDate reports whether the field's values are calendar days.
func (f *Field) IsDate() bool { return f.Kind == reflect.TypeFor[value.Date]() }

// IsFreeText reports whether the field's values are texts of any form.
func (f *Field) IsFreeText() bool {
	return f.Kind == reflect.TypeFor[string]() && len(f.Enum) == 0 && f.Format == ""
}

type settable interface {
	Decode(rule *value.Rule, v any) string
	IsSet() bool
	Arg() any
	SQLType() string
}

var schemas sync.Map // reflect.Type -> *Schema

// SchemaOf returns the schema of T, which must be a struct.
func SchemaOf[T any]() *Schema { return SchemaOfType(reflect.TypeFor[T]()) }

// SchemaOfType returns the schema of t, which must be a struct.
func SchemaOfType(t reflect.Type) *Schema {
	if s, ok := schemas.Load(t); ok {
		return s.(*Schema)
	}
	_, name, _ := strings.Cut(nameOf(t), ".")
	initial := min(1, len(name))
	s := &Schema{Name: strings.ToUpper(name[:initial]) + name[initial:], byName: map[string]*Field{}}
	for _, sf := range visibleFields(t) {
		if sf.Type == reflect.TypeFor[ExtraFilter]() {
			s.extra = sf.Index
		}
		if sf.Tag.Get("query") == "*" {
			s.filter = sf.Index
			continue
		}
		name, query := sf.Tag.Get("json"), false
		if q := sf.Tag.Get("query"); q != "" {
			name, query = q, true
		}
		if name == "" || name == "-" || sf.Anonymous {
			continue
		}
		f := &Field{
			Rule: value.Rule{Name: name, MaxLength: 200, Maximum: -1, Trim: true}, Query: query, Kind: sf.Type,
			index: sf.Index, Owner: nameOf(t),
		}
		if last := len(sf.Index) - 1; last > 0 {
			f.Owner = nameOf(t.FieldByIndex(sf.Index[:last]).Type)
		}
		if reflect.PointerTo(sf.Type).Implements(reflect.TypeFor[settable]()) {
			holder, _ := sf.Type.FieldByName("Value")
			f.Kind, f.Input = holder.Type.Elem(), true
			if set, ok := reflect.Zero(f.Kind).Interface().(interface{ Element() reflect.Type }); ok {
				f.Set, f.Kind = true, set.Element()
			}
		} else if sf.Type.Kind() == reflect.Slice {
			f.List, f.Kind, f.Most = true, sf.Type.Elem(), MaxEntries
		} else if sf.Type.Kind() == reflect.Pointer {
			f.Kind = sf.Type.Elem()
			f.Part = f.Kind.Kind() == reflect.Struct
		}
		if enum, ok := reflect.Zero(f.Kind).Interface().(value.Enum); ok {
			f.Enum, f.Named, f.Kind = enum.Enum(), f.Kind.Name(), reflect.TypeFor[string]()
		}
		if first := f.parse(sf.Tag.Get("rule")); first != "" {
			s.byName[first].others = append(s.byName[first].others, f)
		}
		s.Fields = append(s.Fields, f)
		s.byName[f.Name] = f
	}
	actual, _ := schemas.LoadOrStore(t, s)
	return actual.(*Schema)
}

// nameOf returns the name of a type with its package, such as catalog.Product. That of Batch[catalog.Product] is
// catalog.ProductBatch.
func nameOf(t reflect.Type) string {
	generic, of, ok := strings.Cut(strings.TrimSuffix(t.Name(), "]"), "[")
	if !ok {
		return t.String()
	}
	return of[strings.LastIndexByte(of, '/')+1:] + generic
}

// visibleFields returns the fields of a struct, of its embedded structs, and of the structs in fields with the tag
// `query:"*"`. The tag stands for embedding, because Go cannot embed a type parameter.
func visibleFields(t reflect.Type) (all []reflect.StructField) {
	for _, sf := range reflect.VisibleFields(t) {
		all = append(all, sf)
		if sf.Tag.Get("query") == "*" {
			for _, inner := range reflect.VisibleFields(sf.Type) {
				inner.Index = slices.Concat(sf.Index, inner.Index)
				all = append(all, inner)
			}
		}
	}
	return all
}

// parse sets the fields of f according to the rules, and returns the name in the rule insteadOf, or "".
func (f *Field) parse(rules string) (insteadOf string) {
	isNumber := f.IsNumber()
	for rule := range strings.SplitSeq(rules, ",") {
		name, text, _ := strings.Cut(strings.TrimSpace(rule), "=")
		var err error
		bound := func() (d value.Decimal) {
			var ok bool
			if d, ok = value.ParseDecimal(text); !ok {
				err = fmt.Errorf("not a number")
			}
			return d
		}
		switch name {
		case "":
		case "required":
			f.Required, f.NotNull = true, true
		case "readOnly":
			f.ReadOnly = true
		case "fixed":
			f.ReadOnly, f.Fixed = true, true
		case "empty":
			f.Empty = true
		case "patched":
			f.Patched = true
		case "maxItems":
			f.Most, err = strconv.Atoi(text)
		case "unsorted":
			f.Unsorted = true
		case "writeOnly":
			f.WriteOnly = true
		case "secret":
			f.ReadOnly, f.Secret, f.NotNull = true, true, true
		case "notNull":
			f.NotNull = true
		case "minimum", "exclusiveMinimum":
			f.Minimum, f.Exclusive = bound(), name == "exclusiveMinimum"
		case "maximum":
			f.Maximum = bound()
		case "sequence":
			f.Sequence, f.Minimum, f.Maximum = true, value.DecimalOne, value.MaxDecimal
		case "minLength":
			f.MinLength, err = strconv.Atoi(text)
		case "maxLength":
			f.Trim = false
			f.MaxLength, err = strconv.Atoi(text)
		case "trim":
			f.Trim = true
		case "search":
			f.Trim, f.search, f.MaxLength = true, true, 100
		case "format":
			if f.Format = text; !slices.Contains([]string{"email", "color", "alphaColor", "link", "uri"}, text) {
				err = fmt.Errorf("unknown format")
			}
		case "insteadOf":
			insteadOf = text
		case "optional":
			f.Optional = true
		case "unless":
			f.Unless = text
		case "default":
			f.Default = text
		case "named":
			f.Named = text
		case "enum":
			f.Enum = strings.Split(text, "|")
			if isNumber {
				for _, n := range f.Enum {
					d, _ := value.ParseDecimal(n)
					f.Numbers = append(f.Numbers, d)
				}
				f.Enum = nil
				f.Minimum, f.Maximum = slices.Min(f.Numbers), slices.Max(f.Numbers)
			}
		default:
			err = fmt.Errorf("unknown rule")
		}
		if err != nil {
			panic(fmt.Sprintf("server: field %s: rule %q: %v", f.Name, rule, err))
		}
	}
	if f.Maximum < 0 {
		if isNumber && f.Input && !f.ReadOnly {
			panic("server: field " + f.Name + " needs a maximum")
		}
		f.Maximum = value.MaxDecimal
	}
	return insteadOf
}

// hasParts reports whether a field of the schema is a Part. A PATCH with such a schema must contain all required
// fields.
func (s *Schema) hasParts() bool {
	return slices.ContainsFunc(s.Fields, func(f *Field) bool { return f.Part })
}

// Nested returns the schema of the object in the field, or of the objects in its list. For a scalar, it returns nil.
func (f *Field) Nested() (schema *Schema, isList bool) {
	if !f.List && (f.Kind.Kind() != reflect.Struct || f.Kind == reflect.TypeFor[value.Timestamp]()) {
		return nil, false
	}
	return SchemaOfType(f.Kind), f.List
}

// Missing returns the names of required fields that a POST lacks. Given reports whether the POST has a field.
func (s *Schema) Missing(given func(name string) bool) (names []string) {
	for _, f := range s.Fields {
		if !f.Required || f.ReadOnly || given(f.Name) {
			continue
		}
		if unless := s.byName[f.Unless]; unless == nil || !given(unless.Name) &&
			!slices.ContainsFunc(unless.others, func(other *Field) bool { return given(other.Name) }) {
			names = append(names, f.Name)
		}
	}
	return names
}

// isSortable reports whether lists can be sorted by the field.
func (f *Field) isSortable() bool { return !f.List && !f.Set && !f.WriteOnly && !f.Unsorted }

// Sortable returns the names of the fields by which lists can be sorted, in order.
func (s *Schema) Sortable() []string {
	var names []string
	for _, f := range s.Fields {
		if f.isSortable() {
			names = append(names, f.Name)
		}
	}
	return names
}

// Assignments returns the list of a SET clause for the fields that a request contains, such as `brand = $2::text,
// notes = $3::text`, and args with the values of these fields appended. In is a pointer to the decoded request. The
// columns have the names of the fields, which come from the program and not from the client. The list is empty if the
// request contains no field.
func Assignments(in any, args []any) (string, []any) {
	var b strings.Builder
	v := reflect.ValueOf(in).Elem()
	for _, f := range SchemaOfType(v.Type()).Fields {
		if f.ReadOnly || f.WriteOnly {
			continue
		}
		o, ok := v.FieldByIndex(f.index).Addr().Interface().(settable)
		if !ok || !o.IsSet() {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		args = append(args, o.Arg())
		assigned := fmt.Sprintf("$%d::%s", len(args), o.SQLType())
		if f.Kind == reflect.TypeFor[value.Extra]() {
			assigned = "jsonb_strip_nulls(" + f.Name + " || " + assigned + ")"
		}
		b.WriteString(f.Name + " = " + assigned)
	}
	return b.String(), args
}

// Writable returns the names of the fields that requests set, in order, except nested lists.
func (s *Schema) Writable() []string {
	var names []string
	for _, f := range s.Fields {
		if !f.ReadOnly && !f.WriteOnly && !f.List {
			names = append(names, f.Name)
		}
	}
	return names
}

// Row returns the values of the Writable fields of the struct that in points to, by name, for json_populate_record.
// The values of fields that are not set are nil.
func Row(in any) map[string]any {
	row, values := map[string]any{}, Values(in)
	for i, name := range SchemaOfType(reflect.TypeOf(in).Elem()).Writable() {
		row[name] = values[i]
	}
	return row
}

// SetFields returns the values of the Writable fields of the struct that in points to, by name, as far as they are set.
func SetFields(in any) map[string]any {
	row, v := map[string]any{}, reflect.ValueOf(in).Elem()
	for _, f := range SchemaOfType(v.Type()).Fields {
		if f.ReadOnly || f.WriteOnly || f.List {
			continue
		}
		if o := v.FieldByIndex(f.index).Addr().Interface().(settable); o.IsSet() {
			row[f.Name] = o.Arg()
		}
	}
	return row
}

// Values returns the values of the Writable fields of the struct that in points to, in order. The values of fields
// that are not set are nil.
func Values(in any) []any {
	var values []any
	v := reflect.ValueOf(in).Elem()
	for _, f := range SchemaOfType(v.Type()).Fields {
		if !f.ReadOnly && !f.WriteOnly && !f.List {
			values = append(values, v.FieldByIndex(f.index).Addr().Interface().(settable).Arg())
		}
	}
	return values
}

// Unchanged converts the list from Assignments to a condition that is true if every column already has its new value.
func Unchanged(assignments string) string {
	return strings.ReplaceAll(strings.ReplaceAll(assignments, " = $", " is not distinct from $"), ", ", " and ")
}
