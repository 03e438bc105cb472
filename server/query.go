package server

import (
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"spoolwright/value"
	"spoolwright/value/language"
)

// readQuery returns the parameters in the query of a URL. Names are the parameters that the operation has. Other
// parameters, and parameters that are given more than once, become problems.
func readQuery(raw string, names []string, problems *Problems) url.Values {
	if raw == "" {
		return nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		problems.Add("query", "is not a valid query string")
	}
	unknown := 0
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case slices.Contains(names, name),
			strings.HasPrefix(name, extraPrefix) && slices.Contains(names, extraParameter):
			if len(values[name]) > 1 {
				problems.Add(name, "must be given once")
			}
		case unknown < maxUnknown:
			unknown++
			problems.Add(name, "%s", notAParameter(name, names))
		}
	}
	return values
}

// notAParameter returns the problem with a parameter that is not among names, the parameters of the operation.
func notAParameter(name string, names []string) string {
	if len(names) == 0 {
		return language.Sprintf("is not a parameter: this operation has none")
	}
	all := strings.Join(names, ", ")
	if similar := nearest(name, names); similar != "" {
		return language.Sprintf("is not a parameter of this operation, which has %s; did you mean %s?", all, similar)
	}
	return language.Sprintf("is not a parameter of this operation, which has %s", all)
}

// nearest returns the name that results from the given text with the fewest edits of letters, or "" if every name
// needs edits of more than half of the letters.
func nearest(given string, names []string) string {
	given = strings.ToLower(value.Shorten(given, value.MaxRepeated))
	best, least := "", 0
	for _, name := range names {
		edits := value.Distance(given, name)
		if 2*edits <= max(len(given), len(name)) && (best == "" || edits < least) {
			best, least = name, edits
		}
	}
	return best
}

// decodeQuery decodes the parameters of a query into in, a pointer to a struct with a Schema, and validates them. Item
// is the type of a list's items if the request is for a list, and nil otherwise. The error is a 422 with all problems.
func decodeQuery(values url.Values, in any, item reflect.Type) error {
	v := reflect.ValueOf(in).Elem()
	schema := SchemaOfType(v.Type())
	var problems Problems
	for _, f := range schema.Fields {
		if given := values[f.Name]; len(given) == 1 {
			problem := f.decode(v.FieldByIndex(f.index).Addr().Interface().(settable), f.fromText(given[0]))
			if problem != "" {
				problems.Add(f.Name, "%s", problem)
			}
		}
	}
	checkRanges(schema, v, &problems)
	if schema.extra != nil {
		v.FieldByIndex(schema.extra).Addr().Interface().(*ExtraFilter).set(values, &problems)
	}
	if list, ok := in.(interface {
		resolve(*Schema, *Problems)
	}); ok && item != nil {
		list.resolve(SchemaOfType(item), &problems)
	}
	if schema.filter != nil {
		if c, ok := v.FieldByIndex(schema.filter).Addr().Interface().(checker); ok {
			c.Check(&problems)
		}
	}
	return check(in, problems)
}

// checkRanges adds a problem for each pair of parameters such as due_from and due_to whose range ends before it
// begins: nothing can be in it.
func checkRanges(schema *Schema, v reflect.Value, problems *Problems) {
	for _, f := range schema.Fields {
		begins, ok := strings.CutSuffix(f.Name, "_from")
		to := schema.byName[begins+"_to"]
		if !ok || to == nil {
			continue
		}
		before := false
		switch from := v.FieldByIndex(f.index).Interface().(type) {
		case value.Optional[value.Date]:
			to := v.FieldByIndex(to.index).Interface().(value.Optional[value.Date])
			before = !from.IsNull() && !to.IsNull() && *to.Value < *from.Value
		case value.Optional[value.Moment]:
			to := v.FieldByIndex(to.index).Interface().(value.Optional[value.Moment])
			before = !from.IsNull() && !to.IsNull() && to.Value.Before(*from.Value)
		}
		if before {
			problems.Add(to.Name, "must not be before %s", f.Name)
		}
	}
}

// parameterNames returns the names of the parameters that the endpoint reads from the URL's query.
func (e Endpoint) parameterNames() []string {
	if !e.ReadsQuery() {
		return nil
	}
	schema := SchemaOfType(e.In)
	var names []string
	for _, f := range schema.Fields {
		names = append(names, f.Name)
	}
	if schema.extra != nil {
		names = append(names, extraParameter)
	}
	return names
}

const (
	extraPrefix    = "extra."
	extraParameter = extraPrefix + "KEY" // stands for the names of all parameters with the prefix
)

// ExtraFilter is embedded in the parameters of a list whose items have custom fields. A parameter extra.KEY selects
// the items in which the custom field KEY has the parameter's value, without regard to case. The OpenAPI document
// cannot describe parameters with any name.
type ExtraFilter struct{ values map[string]string }

func (e *ExtraFilter) set(query url.Values, problems *Problems) {
	for name, given := range query {
		key, ok := strings.CutPrefix(name, extraPrefix)
		switch {
		case !ok || len(given) != 1:
		case !value.IsExtraKey(key):
			problems.Add(name, "must name a custom field by its key")
		case len(given[0]) > value.MaxExtra || strings.ContainsRune(given[0], 0) || !utf8.ValidString(given[0]):
			problems.Add(name, "must be valid Unicode text")
		default:
			if e.values == nil {
				e.values = map[string]string{}
			}
			e.values[key] = given[0]
		}
	}
}

// WhereExtra adds the conditions of an ExtraFilter. The conditions have no index.
func (l *List) WhereExtra(filter ExtraFilter) {
	for _, key := range slices.Sorted(maps.Keys(filter.values)) {
		l.Scan("lower(extra ->> (?::text[])[1]) = lower((?::text[])[2])", []string{key, filter.values[key]})
	}
}
