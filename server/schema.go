package server

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Schema describes the fields of a Go type, as its tags define them. Decoding, validation, sorting and the OpenAPI
// document all read it, so they cannot disagree.
//
// The tag `json` or `query` is the field's name. Its description is in the Fields of a Tag of the OpenAPI document.
// The tag `rule` is a comma-separated list of:
//
//	required             must be present and not null in a POST, and not null in a PATCH
//	unless=filament_id   with required: a POST need not have the field if it has the other one, or another name of it
//	insteadOf=product_id names the same thing as the other field, of which several can be another name: a POST has
//	                     exactly one of them all, and a PATCH at most one
//	optional             with insteadOf: a POST can have none of them
//	readOnly             only in responses; ignored in requests
//	writeOnly            only in requests
//	secret               only in responses, and empty in a response that is repeated for an Idempotency-Key, because
//	                     the service does not store the value; a string without characters that JSON escapes
//	notNull              never null in a response or in a PATCH; implied by required
//	minimum=1            lower bound of a number; the default is 0
//	exclusiveMinimum=0   lower bound of a number that is itself not allowed
//	maximum=9            upper bound of a number; every number in a request needs one
//	trim                 remove the blanks around the text; after maxLength, which turns this off
//	search               the text of List.Search, which has a maximum of words
//	minLength=10         in characters
//	maxLength=500        in characters; the default is 200, for short texts, which lose the blanks around them
//	format=email         an e-mail address
//	format=color         #RRGGBB
//	format=alphaColor    #RRGGBB or #RRGGBBAA
//	format=uri           an absolute URL; the handler checks it
//	enum=A|B             the allowed strings or numbers
//	named=Kind           the name of the enum's schema in the document; without a name, it is part of the field's: Go
//	                     clients of openapi-generator do not compile if two named enums have a value in common
//	empty                a Set that may have no entry
//	unsorted             lists cannot be sorted by the field
//	default=20           of a query parameter, for the document only
type Schema struct {
	Name   string // the Go type, with an upper-case initial
	Fields []*Field
	byName map[string]*Field
	extra  []int // the index of an ExtraFilter, or nil
	filter []int // the index of the field with the tag `query:"*"`, or nil
}

// Field is one field of a Schema.
type Field struct {
	Name, Default, Format, Named                  string
	Query, Required, ReadOnly, WriteOnly, NotNull bool
	Secret                                        bool // ReadOnly, and not stored
	Empty                                         bool // a Set may have no entry
	Unsorted                                      bool // lists cannot be sorted by it
	Optional                                      bool // of the rule insteadOf: a POST can have none of the fields
	Exclusive                                     bool // Minimum itself is not allowed
	Minimum, Maximum                              Decimal
	MinLength, MaxLength                          int
	Enum                                          []string
	Numbers                                       []Decimal // the enum of a number

	Kind  reflect.Type // the type of the value, or of the elements of a list
	Input bool         // an Optional, which requests may contain
	List  bool         // a nested list, which a POST and single responses contain, and a PATCH ignores
	Set   bool         // a Set or a Several; Kind is the type of an entry
	Part  bool         // a pointer to a struct: an object in a request, with the fields of a PATCH or of a query
	Owner reflect.Type // the struct that declares the field

	Unless string // the field that makes a required one optional

	search bool     // the text of List.Search
	short  bool     // a text without maxLength, around which blanks are removed
	others []*Field // those with the rule insteadOf this field
	index  []int
}

// IsNumber reports whether the field's values are numbers.
func (f *Field) IsNumber() bool {
	return f.Kind == reflect.TypeFor[Decimal]() || f.Kind == reflect.TypeFor[int64]()
}

// Allows reports whether a decimal number can be a value of the field.
func (f *Field) Allows(decimal string) bool {
	d, problem := f.number(number(decimal))
	return problem == "" && (f.Kind != reflect.TypeFor[int64]() || d%DecimalOne == 0)
}

// IsBool reports whether the field's values are true and false.
func (f *Field) IsBool() bool { return f.Kind == reflect.TypeFor[bool]() }

// IsDate reports whether the field's values are calendar days.
func (f *Field) IsDate() bool { return f.Kind == reflect.TypeFor[Date]() }

// IsFreeText reports whether the field's values are texts of any form.
func (f *Field) IsFreeText() bool {
	return f.Kind == reflect.TypeFor[string]() && len(f.Enum) == 0 && f.Format == ""
}

// Enum is a string type with a fixed list of values. Fields of the type accept only these, and the OpenAPI document
// has a schema with the type's name. testkit.WantChecked compares the values with the check of the table's column.
type Enum interface{ Enum() []string }

type settable interface {
	set(f *Field, v any) string
	isSet() bool
	Arg() any
	sqlType() string
}

var schemas sync.Map // reflect.Type -> *Schema

// SchemaOf returns the schema of T, which must be a struct.
func SchemaOf[T any]() *Schema { return SchemaOfType(reflect.TypeFor[T]()) }

// SchemaOfType returns the schema of t, which must be a struct.
func SchemaOfType(t reflect.Type) *Schema {
	if s, ok := schemas.Load(t); ok {
		return s.(*Schema)
	}
	initial := min(1, len(t.Name()))
	s := &Schema{Name: strings.ToUpper(t.Name()[:initial]) + t.Name()[initial:], byName: map[string]*Field{}}
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
			Name: name, Query: query, MaxLength: 200, Maximum: -1, Kind: sf.Type, index: sf.Index, Owner: t,
		}
		if last := len(sf.Index) - 1; last > 0 {
			f.Owner = t.FieldByIndex(sf.Index[:last]).Type
		}
		if reflect.PointerTo(sf.Type).Implements(reflect.TypeFor[settable]()) {
			value, _ := sf.Type.FieldByName("Value")
			f.Kind, f.Input = value.Type.Elem(), true
			if set, ok := reflect.Zero(f.Kind).Interface().(interface{ element() reflect.Type }); ok {
				f.Set, f.Kind = true, set.element()
			}
		} else if sf.Type.Kind() == reflect.Slice {
			f.List, f.Kind = true, sf.Type.Elem()
		} else if sf.Type.Kind() == reflect.Pointer {
			f.Kind = sf.Type.Elem()
			f.Part = f.Kind.Kind() == reflect.Struct
		}
		if enum, ok := reflect.Zero(f.Kind).Interface().(Enum); ok {
			f.Enum, f.Named, f.Kind = enum.Enum(), f.Kind.Name(), reflect.TypeFor[string]()
		}
		f.short = true
		if first := f.parse(sf.Tag.Get("rule")); first != "" {
			s.byName[first].others = append(s.byName[first].others, f)
		}
		s.Fields = append(s.Fields, f)
		s.byName[f.Name] = f
	}
	actual, _ := schemas.LoadOrStore(t, s)
	return actual.(*Schema)
}

// visibleFields returns the fields of a struct, with those of embedded structs and of fields with the tag `query:"*"`,
// which are like embedded ones: Go embeds no type parameter.
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

// parse sets what the rules say, and returns the field of the rule insteadOf.
func (f *Field) parse(rules string) (insteadOf string) {
	isNumber := f.IsNumber()
	for rule := range strings.SplitSeq(rules, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(rule), "=")
		var err error
		bound := func() (d Decimal) {
			var ok bool
			if d, ok = ParseDecimal(value); !ok {
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
		case "empty":
			f.Empty = true
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
		case "minLength":
			f.MinLength, err = strconv.Atoi(value)
		case "maxLength":
			f.short = false
			f.MaxLength, err = strconv.Atoi(value)
		case "trim":
			f.short = true
		case "search":
			f.short, f.search, f.MaxLength = true, true, 100
		case "format":
			if f.Format = value; !slices.Contains([]string{"email", "color", "alphaColor", "uri"}, value) {
				err = fmt.Errorf("unknown format")
			}
		case "insteadOf":
			insteadOf = value
		case "optional":
			f.Optional = true
		case "unless":
			f.Unless = value
		case "default":
			f.Default = value
		case "named":
			f.Named = value
		case "enum":
			f.Enum = strings.Split(value, "|")
			if isNumber {
				for _, n := range f.Enum {
					d, _ := ParseDecimal(n)
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
		f.Maximum = maxDecimal
	}
	return insteadOf
}

// HasParts reports whether a field is an object in a request. All required fields of such a request must be present,
// also in a PATCH.
func (s *Schema) HasParts() bool {
	return slices.ContainsFunc(s.Fields, func(f *Field) bool { return f.Part })
}

// Nested returns the schema of the object that the field holds, or of each object in its list. It is nil for a scalar.
func (f *Field) Nested() (schema *Schema, isList bool) {
	if !f.List && (f.Kind.Kind() != reflect.Struct || f.Kind == reflect.TypeFor[Timestamp]()) {
		return nil, false
	}
	return SchemaOfType(f.Kind), f.List
}

// Missing returns the names of the fields that a POST must have and lacks. Given reports whether it has a field.
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

// Assignments returns the list of a SET clause for the fields that the request contains, such as `brand = $2::text,
// notes = $3::text`, and args with the values appended. Column names are field names, which come from the program and
// not from the client. The list is empty if the request contains no field. in is a pointer to the struct.
func Assignments(in any, args []any) (string, []any) {
	var b strings.Builder
	v := reflect.ValueOf(in).Elem()
	for _, f := range SchemaOfType(v.Type()).Fields {
		if f.ReadOnly || f.WriteOnly {
			continue
		}
		o, ok := v.FieldByIndex(f.index).Addr().Interface().(settable)
		if !ok || !o.isSet() {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		args = append(args, o.Arg())
		value := fmt.Sprintf("$%d::%s", len(args), o.sqlType())
		if f.Kind == reflect.TypeFor[Extra]() {
			value = "jsonb_strip_nulls(" + f.Name + " || " + value + ")"
		}
		b.WriteString(f.Name + " = " + value)
	}
	return b.String(), args
}

// Writable returns the names of the fields that requests set, in order, but nested lists: the columns of Row.
func (s *Schema) Writable() []string {
	var names []string
	for _, f := range s.Fields {
		if !f.ReadOnly && !f.WriteOnly && !f.List {
			names = append(names, f.Name)
		}
	}
	return names
}

// Row returns the values of the Writable fields by name, for json_populate_record. Fields that are not set are nil.
func Row(in any) map[string]any {
	row, values := map[string]any{}, Values(in)
	for i, name := range SchemaOfType(reflect.TypeOf(in).Elem()).Writable() {
		row[name] = values[i]
	}
	return row
}

// Values returns the values of the Writable fields of the struct that in points to, in order. Fields that are not set
// are nil.
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

// Unchanged converts the list of Assignments to a condition that holds if every column already has its new value.
func Unchanged(assignments string) string {
	return strings.ReplaceAll(strings.ReplaceAll(assignments, " = $", " is not distinct from $"), ", ", " and ")
}
