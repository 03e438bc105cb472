package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/orders"
	"spoolwright/production"
	"spoolwright/server"
	"spoolwright/testkit"
)

type object = map[string]any

// document is the OpenAPI document of the whole service.
type document struct {
	t    *testing.T
	root object
}

func readDocument(t *testing.T, text []byte) document {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var root object
	if err := d.Decode(&root); err != nil {
		t.Fatal(err)
	}
	return document{t, root}
}

// resolve returns the target of a reference such as #/components/schemas/Spool.
func (d document) resolve(ref string) any {
	var at any = d.root
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		next, ok := at.(object)[part]
		if !ok || !strings.HasPrefix(ref, "#/") {
			d.t.Errorf("%s has no target", ref)
			return nil
		}
		at = next
	}
	return at
}

// walk visits every object in the document.
func walk(at string, v any, visit func(at string, o object)) {
	switch v := v.(type) {
	case object:
		visit(at, v)
		for name, value := range v {
			walk(at+"/"+name, value, visit)
		}
	case []any:
		for i, value := range v {
			walk(fmt.Sprint(at, "/", i), value, visit)
		}
	}
}

// match returns the violations of a JSON Schema by a value. It supports the keywords that the document uses.
func (d document) match(schema object, v any, at string) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, at+": "+fmt.Sprintf(format, args...)) }
	number := func(name string) (float64, bool) {
		n, ok := schema[name].(json.Number)
		f, _ := n.Float64()
		return f, ok
	}
	if ref, ok := schema["$ref"].(string); ok {
		return d.match(d.resolve(ref).(object), v, at)
	}
	options, ok := schema["anyOf"].([]any)
	if !ok {
		options, ok = schema["oneOf"].([]any)
	}
	if ok {
		for _, option := range options {
			if problems = d.match(option.(object), v, at); len(problems) == 0 {
				return nil
			}
		}
		return problems
	}
	kind := ""
	switch v := v.(type) {
	case nil:
		kind = "null"
	case bool:
		kind = "boolean"
	case string:
		kind = "string"
		n := float64(utf8.RuneCountInString(v))
		if most, ok := number("maxLength"); ok && n > most {
			bad("%q is too long", v)
		}
		if least, ok := number("minLength"); ok && n < least {
			bad("%q is too short", v)
		}
		if pattern, ok := schema["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(v) {
			bad("%q does not match %s", v, pattern)
		}
		var err error
		switch schema["format"] {
		case "date-time":
			_, err = time.Parse(time.RFC3339, v)
		case "date":
			_, err = time.Parse(time.DateOnly, v)
		case "uuid":
			if _, ok := db.ParseID(v); !ok {
				bad("%q is not a UUID", v)
			}
		case nil, "double":
		default:
			bad("the format %v is not supported by this test", schema["format"])
		}
		if err != nil {
			bad("%v", err)
		}
	case json.Number:
		kind = "number"
		f, _ := v.Float64()
		if f == float64(int64(f)) {
			kind = "integer"
		}
		if least, ok := number("minimum"); ok && f < least {
			bad("%v is below %v", v, least)
		}
		if least, ok := number("exclusiveMinimum"); ok && f <= least {
			bad("%v is not above %v", v, least)
		}
		if most, ok := number("maximum"); ok && f > most {
			bad("%v is above %v", v, most)
		}
	case []any:
		kind = "array"
		for i, item := range v {
			problems = append(problems, d.match(schema["items"].(object), item, fmt.Sprint(at, "/", i))...)
		}
	case object:
		kind = "object"
		properties, _ := schema["properties"].(object)
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				bad("%s is missing", name)
			}
		}
		for name, value := range v {
			property, ok := properties[name].(object)
			if !ok {
				bad("%s is not described", name)
				continue
			}
			problems = append(problems, d.match(property, value, at+"/"+name)...)
		}
	}
	kinds, ok := schema["type"].([]any)
	if !ok {
		kinds = []any{schema["type"]}
	}
	if !slices.Contains(kinds, any(kind)) && !(kind == "integer" && slices.Contains(kinds, any("number"))) {
		bad("%v is %s, not %v", v, kind, schema["type"])
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, v) {
		bad("%v is not one of %v", v, enum)
	}
	if constant, ok := schema["const"]; ok && v != constant {
		bad("%v is not %v", v, constant)
	}
	return problems
}

func TestOpenAPI(t *testing.T) {
	t.Parallel()
	api := testkit.New(t, testkit.Options{}, inventory.Routes, catalog.Routes, production.Routes(orders.Follow))
	served := api.Anonymous().Get(t, "/openapi.json").Want(200)
	d := readDocument(t, served.Body)
	if d.root["openapi"] != "3.1.0" || d.root["info"].(object)["title"] != "Spoolwright" ||
		d.root["info"].(object)["version"] != "test" {
		t.Errorf("%v, %v", d.root["openapi"], d.root["info"])
	}
	if again := server.OpenAPI(api.Routes, "test"); !bytes.Equal(again, served.Body) {
		t.Error("two calls of OpenAPI return different documents")
	}

	refs := 0
	walk("#", d.root, func(at string, o object) {
		if ref, ok := o["$ref"].(string); ok {
			refs++
			d.resolve(ref)
		}
		// Examples of fields, parameters and bodies match their schemas.
		if schema, ok := o["schema"].(object); ok {
			all := map[string]any{}
			if example, ok := o["example"]; ok {
				all["example"] = example
			}
			named, _ := o["examples"].(object)
			for name, example := range named {
				all["examples/"+name] = example.(object)["value"]
			}
			for name, example := range all {
				for _, problem := range d.match(schema, example, at+"/"+name) {
					t.Error(problem)
				}
			}
		}
		if examples, ok := o["examples"].([]any); ok {
			for _, example := range examples {
				for _, problem := range d.match(o, example, at+"/examples") {
					t.Error(problem)
				}
			}
		}
	})
	if refs < 50 {
		t.Errorf("%d references", refs)
	}

	tags := map[string]bool{}
	for _, tag := range d.root["tags"].([]any) {
		tag := tag.(object)
		if tags[tag["name"].(string)] || tag["description"] == "" {
			t.Errorf("tag %v", tag)
		}
		tags[tag["name"].(string)] = true
	}
	ids := map[string]string{}
	operations := 0
	for path, item := range d.root["paths"].(object) {
		for method, op := range item.(object) {
			if method == "parameters" {
				continue
			}
			operations++
			op := op.(object)
			what := strings.ToUpper(method) + " " + path
			id, _ := op["operationId"].(string)
			if !regexp.MustCompile(`^[a-z][A-Za-z]+$`).MatchString(id) || ids[id] != "" {
				t.Errorf("%s has the operationId %q, as has %q", what, id, ids[id])
			}
			ids[id] = what
			if summary, _ := op["summary"].(string); summary == "" || strings.HasSuffix(summary, ".") ||
				strings.Contains(summary, "\n") {
				t.Errorf("%s has the summary %q", what, summary)
			}
			if got, _ := op["tags"].([]any); len(got) != 1 || !tags[got[0].(string)] {
				t.Errorf("%s has the tags %v", what, op["tags"])
			}
			i := slices.IndexFunc(api.Routes, func(r server.Route) bool { return r.Pattern == what })
			if i < 0 {
				t.Errorf("%s is not a route", what)
				continue
			}
			public, security := api.Routes[i].Access == server.Public, any(d.root["security"])
			if own, ok := op["security"]; ok {
				security = own
			}
			bearer, key := object{"bearerAuth": []any{}}, object{"apiKeyAuth": []any{}}
			want := []any{bearer, key}
			switch {
			case public:
				want = []any{}
			case api.Routes[i].UsersOnly:
				want = []any{bearer}
			}
			if !reflect.DeepEqual(security, any(want)) {
				t.Errorf("%s has the security %v, want %v", what, security, want)
			}
			responses := op["responses"].(object)
			for _, status := range []string{"401", "403", "429", "500", "503"} {
				if responses[status] == nil {
					t.Errorf("%s does not describe %s", what, status)
				}
			}
			if (responses["404"] != nil) != strings.Contains(path, "{") {
				t.Errorf("%s describes 404: %v", what, responses["404"] != nil)
			}
			if description, _ := op["description"].(string); description == "" {
				t.Errorf("%s has no description", what)
			}
			for status, response := range responses {
				if ref, ok := response.(object)["$ref"].(string); ok {
					response = d.resolve(ref)
				}
				headers, _ := response.(object)["headers"].(object)
				if headers["X-RateLimit-Remaining"] == nil || headers["X-Request-Id"] == nil ||
					(headers["Location"] != nil) != (status == "201") ||
					(headers["Retry-After"] != nil) != (status == "429" || status == "503") {
					t.Errorf("%s, %s: the headers are %v", what, status, headers)
				}
			}
			// The path parameters are the wildcards of the path.
			var named []string
			if parameters, ok := item.(object)["parameters"].([]any); ok {
				for _, p := range parameters {
					named = append(named, "{"+p.(object)["name"].(string)+"}")
				}
			}
			if got := regexp.MustCompile(`\{[^}]+\}`).FindAllString(path, -1); !slices.Equal(got, named) {
				t.Errorf("%s: the parameters are %v", what, named)
			}
		}
	}
	if operations != len(api.Routes) || operations < 20 {
		t.Errorf("%d operations for %d routes", operations, len(api.Routes))
	}
	for name, schema := range d.root["components"].(object)["schemas"].(object) {
		schema := schema.(object)
		properties, _ := schema["properties"].(object)
		if schema["enum"] == nil && schema["oneOf"] == nil &&
			(schema["type"] != "object" || schema["additionalProperties"] != false || len(properties) == 0) {
			t.Errorf("schema %s: %v", name, schema["type"])
		}
		required, _ := schema["required"].([]any)
		for _, field := range required {
			if properties[field.(string)] == nil {
				t.Errorf("schema %s requires %s, which it does not have", name, field)
			}
		}
		for field, property := range properties {
			if p := property.(object); p["$ref"] == nil && p["description"] == nil {
				t.Errorf("schema %s: %s is not described", name, field)
			}
		}
	}
}

// The tables of field descriptions have no row without a field.
func TestFieldDescriptionsAreUsed(t *testing.T) {
	t.Parallel()
	routes := testkit.New(t, testkit.Options{}, inventory.Routes, catalog.Routes, production.Routes(orders.Follow)).Routes
	texts := map[string]bool{}
	for _, route := range routes {
		texts[route.Doc.Tag.Fields] = true
	}
	events := slices.Concat(inventory.Events, production.Events, orders.Events)
	for text := range texts {
		rows := 0
		for line := range strings.Lines(text) {
			if cells := strings.Split(line, "|"); len(cells) == 5 && cells[1] != " Field " && cells[1] != "---" {
				rows++
				changed := strings.Replace(text, line, "| unknown"+line[1:], 1)
				func() {
					defer func() {
						if recover() == nil {
							t.Errorf("no field has the description %s", line)
						}
					}()
					server.OpenAPI(withFields(routes, text, changed), "test", eventsWithFields(events, text, changed)...)
				}()
			}
		}
		if rows < 10 {
			t.Errorf("%d rows in %.40q", rows, text)
		}
	}
}

// withFields returns the routes with changed in place of text.
func withFields(routes []server.Route, text, changed string) []server.Route {
	routes = slices.Clone(routes)
	for i, route := range routes {
		if route.Doc.Tag.Fields == text {
			doc, tag := *route.Doc, *route.Doc.Tag
			tag.Fields, doc.Tag = changed, &tag
			routes[i].Doc = &doc
		}
	}
	return routes
}

// eventsWithFields returns the events with changed in place of text.
func eventsWithFields(events []server.Event, text, changed string) []server.Event {
	events = slices.Clone(events)
	for i, event := range events {
		if event.Tag.Fields == text {
			tag := *event.Tag
			tag.Fields = changed
			events[i].Tag = &tag
		}
	}
	return events
}

// The decoder accepts the values that match a field's schema, and no others.
func TestOpenAPIAgreesWithDecoder(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	r := send(t, s, "GET", "/openapi.json", "", "Authorization", "")
	d := readDocument(t, []byte(text(t, r)))
	schema := d.resolve("#/components/schemas/ThingUpdate").(object)
	values := []string{
		`null`, `true`, `false`, `""`, `" "`, `"x"`, `"12345678901"`, `"PLA"`, `"pla"`, `"#aabbcc"`, `"#aabbc"`, `0`,
		`-1`, `1`, `1.5`, `1.75`, `7`, `100`, `101`, `1000000`, `1000001`, `10.5`,
		`"2024-01-15"`, `"2024-01-15T10:00:00Z"`, `"2024-13-15"`, `"` + someID + `"`, `"0191d5b4"`,
		`"` + strings.Repeat("x", 201) + `"`,
	}
	tried := 0
	for name, property := range schema["properties"].(object) {
		for _, value := range values {
			var v any
			decoder := json.NewDecoder(strings.NewReader(value))
			decoder.UseNumber()
			if err := decoder.Decode(&v); err != nil {
				t.Fatal(err)
			}
			described := len(d.match(property.(object), v, name)) == 0
			status := send(t, s, "PATCH", thingPath, `{"`+name+`":`+value+`}`).StatusCode
			// A schema cannot express that a text must not be blank, and does not express an enum of numbers.
			if accepted := status == http.StatusOK; accepted != described && value != `" "` && !(name == "size" && accepted) {
				t.Errorf("%s: %s matches the schema: %v; status %d", name, value, described, status)
			}
			tried++
		}
	}
	if tried < 300 {
		t.Errorf("the test tried %d values", tried)
	}
}
