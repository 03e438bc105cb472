package testkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"spoolwright/server"
	"spoolwright/server/openapi"
	"spoolwright/value"
)

// Document is an OpenAPI document for checks of responses.
type Document struct {
	Text  []byte
	Root  JSON
	mux   *http.ServeMux
	paths map[string]string // paths in the document, by the path in the mux
}

// specs caches the documents by routes and events. Services with the same patterns have the same document.
var specs struct {
	sync.Mutex
	byRoutes map[string]*Document
}

// specOf returns the document for the routes and events. It generates a document only once, because tests start many
// services.
func specOf(tb testing.TB, routes []server.Route, events []server.Event) *Document {
	tb.Helper()
	var key strings.Builder
	for _, r := range routes {
		key.WriteString(r.Pattern + "\n")
	}
	for _, e := range events {
		key.WriteString(e.Type + "\n")
	}
	specs.Lock()
	defer specs.Unlock()
	if specs.byRoutes == nil {
		specs.byRoutes = map[string]*Document{}
	}
	s := specs.byRoutes[key.String()]
	if s == nil {
		s = ReadDocument(tb, openapi.Document(routes, "test", events...))
		specs.byRoutes[key.String()] = s
	}
	return s
}

// ReadDocument reads an OpenAPI document.
func ReadDocument(tb testing.TB, text []byte) *Document {
	tb.Helper()
	d := &Document{Text: text, mux: http.NewServeMux(), paths: map[string]string{}}
	Check(tb, json.Unmarshal(text, &d.Root))
	for path, item := range d.Root["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			if method != "parameters" {
				pattern, _ := server.MuxPath(path)
				d.mux.Handle(strings.ToUpper(method)+" "+pattern, http.NotFoundHandler())
				d.paths[pattern] = path
			}
		}
	}
	return d
}

// check returns an error if the response does not match the document for its route. Responses to unknown paths and
// methods must be errors.
func (d *Document) check(method, target string, a *Response) error {
	if !strings.HasPrefix(target, "/api/v1/") {
		return nil
	}
	responses := map[string]any{}
	if r, err := http.NewRequest(method, "http://test"+target, nil); err == nil {
		if _, pattern := d.mux.Handler(r); pattern != "" {
			m, path, _ := strings.Cut(pattern, " ")
			item := d.Root["paths"].(map[string]any)[d.paths[path]].(map[string]any)
			responses = item[strings.ToLower(m)].(map[string]any)["responses"].(map[string]any)
		}
	}
	schema := map[string]any{"$ref": "#/components/schemas/Error"}
	if described, ok := responses[strconv.Itoa(a.Status)].(map[string]any); ok {
		described = d.Resolve(described)
		for name := range described["headers"].(map[string]any) {
			required := name == "Location" || name == "X-Request-Id" || name == "Retry-After"
			if required && a.Header.Get(name) == "" {
				return fmt.Errorf("the header %s is missing", name)
			}
		}
		content, ok := described["content"].(map[string]any)
		if !ok {
			if len(a.Body) > 0 {
				return fmt.Errorf("the response has a body, the document describes none")
			}
			return nil
		}
		if content["text/csv"] != nil {
			got := a.Header.Get("Content-Type")
			if media, ok := strings.CutSuffix(got, "; charset=utf-8"); !ok || content[media] == nil {
				return fmt.Errorf("the content type is %q", got)
			}
			return nil
		}
		if got := a.Header.Get("Content-Type"); content["application/gzip"] != nil {
			if got != "application/gzip" {
				return fmt.Errorf("the content type is %q", got)
			}
			return nil
		}
		if content["image/png"] != nil {
			if content[a.Header.Get("Content-Type")] == nil {
				return fmt.Errorf("the content type is %q", a.Header.Get("Content-Type"))
			}
			return nil
		}
		schema = content["application/json"].(map[string]any)["schema"].(map[string]any)
	} else if len(responses) > 0 || a.Status != 404 && a.Status != 405 && a.Status != 429 {
		return fmt.Errorf("the document does not describe the status")
	}
	if got := a.Header.Get("Content-Type"); got != "application/json" {
		return fmt.Errorf("the content type is %q", got)
	}
	if method == "HEAD" {
		return nil
	}
	var v any
	if err := json.Unmarshal(a.Body, &v); err != nil {
		return err
	}
	return d.Match(schema, v, "body")
}

// Resolve returns the target of a reference such as #/components/schemas/Spool, or nil if it has no target. It returns
// a schema that is not a reference unchanged.
func (d *Document) Resolve(o JSON) JSON {
	name, ok := o["$ref"].(string)
	if !ok {
		return o
	}
	at := d.Root
	for part := range strings.SplitSeq(strings.TrimPrefix(name, "#/"), "/") {
		at, _ = at[part].(map[string]any)
	}
	return at
}

// codepoints matches what patterns of JSON Schema have in place of \x{202E} in Go.
var codepoints = regexp.MustCompile(`\\u([0-9A-F]{4})`)

// Match returns an error if v does not match the schema. The error contains at, the path of v.
func (d *Document) Match(schema JSON, v any, at string) error {
	schema = d.Resolve(schema)
	if options, ok := schema["anyOf"].([]any); ok {
		var err error
		for _, option := range options {
			if err = d.Match(option.(map[string]any), v, at); err == nil {
				return nil
			}
		}
		return err
	}
	if options, ok := schema["oneOf"].([]any); ok {
		var problems []error
		for _, option := range options {
			if err := d.Match(option.(map[string]any), v, at); err != nil {
				problems = append(problems, err)
			}
		}
		if n := len(options) - len(problems); n != 1 {
			return fmt.Errorf("%s: matches %d alternatives, want 1: %w", at, n, errors.Join(problems...))
		}
		return nil
	}
	bad := func(format string, args ...any) error { return fmt.Errorf(at+": "+format, args...) }
	var kinds []any
	switch t := schema["type"].(type) {
	case string:
		kinds = []any{t}
	case []any:
		kinds = t
	}
	kind := kindOf(v)
	if !slices.Contains(kinds, any(kind)) && !(kind == "integer" && slices.Contains(kinds, any("number"))) {
		return bad("is %s, the document says %v", kind, kinds)
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, v) {
		return bad("%v is not one of %v", v, enum)
	}
	if constant, ok := schema["const"]; ok && constant != v {
		return bad("%v is not %v", v, constant)
	}
	below := func(name string, n float64) bool { bound, ok := schema[name].(float64); return ok && n < bound }
	above := func(name string, n float64) bool { bound, ok := schema[name].(float64); return ok && n > bound }
	switch v := v.(type) {
	case map[string]any:
		return d.matchObject(schema, v, at)
	case []any:
		for i, value := range v {
			if err := d.Match(schema["items"].(map[string]any), value, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case float64:
		if below("minimum", v) || above("maximum", v) {
			return bad("%v is not from %v to %v", v, schema["minimum"], schema["maximum"])
		}
	case string:
		if n := float64(utf8.RuneCountInString(v)); below("minLength", n) || above("maxLength", n) {
			return bad("%q has not %v to %v characters", v, schema["minLength"], schema["maxLength"])
		}
		var err error
		switch schema["format"] {
		case "uuid":
			if _, ok := value.ParseID(v); !ok {
				return bad("%q is not a UUID", v)
			}
		case "date":
			_, err = time.Parse(time.DateOnly, v)
		case "date-time":
			if _, err = time.Parse(time.RFC3339, v); err == nil && !strings.HasSuffix(v, "Z") {
				return bad("%q is not in UTC", v)
			}
		}
		if err != nil {
			return bad("%v", err)
		}
		pattern, ok := schema["pattern"].(string)
		if ok && !regexp.MustCompile(codepoints.ReplaceAllString(pattern, `\x{$1}`)).MatchString(v) {
			return bad("%q does not match %s", v, pattern)
		}
	}
	return nil
}

// kindOf returns the type of a JSON value.
func kindOf(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	}
	return "null"
}

// matchObject is Match for an object.
func (d *Document) matchObject(schema, v JSON, at string) error {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			return fmt.Errorf("%s: %s is missing", at, name)
		}
	}
	for name, value := range v {
		property, ok := properties[name].(map[string]any)
		if !ok {
			if schema["additionalProperties"] == true {
				continue
			}
			return fmt.Errorf("%s: the document does not describe %s", at, name)
		}
		if err := d.Match(property, value, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}
