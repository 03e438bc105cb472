// Package sdkgen generates the types and methods of the client libraries in sdk/ from the OpenAPI document. The
// program does not import it; `go test ./tests/blackbox -run Golden -update` writes the generated files.
package sdkgen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// document contains the parts of an OpenAPI document that the clients need.
type document struct {
	Info struct {
		Version, Description string
	}
	Tags []struct {
		Name, Description string
	}
	Paths      ordered[pathItem]
	Webhooks   ordered[pathItem]
	Components struct {
		Schemas    ordered[*schema]
		Parameters map[string]parameter
		Responses  map[string]response
	}
}

type pathItem struct {
	Parameters                    []parameter
	Get, Post, Put, Patch, Delete *operation
}

type operation struct {
	OperationID          string `json:"operationId"`
	Summary, Description string
	Tags                 []string
	Parameters           []parameter
	RequestBody          *struct {
		Required bool
		Content  map[string]media
	} `json:"requestBody"`
	Responses map[string]response
}

type parameter struct {
	Ref         string `json:"$ref"`
	Name, In    string
	Description string
	Required    bool
	Schema      *schema
}

type response struct {
	Ref     string `json:"$ref"`
	Headers map[string]json.RawMessage
	Content map[string]media
}

type media struct {
	Schema   *schema
	Examples map[string]struct {
		Value struct {
			Code string
		}
	}
}

type schema struct {
	Ref         string `json:"$ref"`
	Type        types
	Format      string
	Description string
	Enum        []any
	Const       any
	Properties  ordered[*schema]
	Required    []string
	Items       *schema
	AnyOf       []*schema `json:"anyOf"`
	OneOf       []*schema `json:"oneOf"`
}

// types is the value of the keyword type: one name or several names.
type types []string

func (t *types) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		return json.Unmarshal(b, (*[]string)(t))
	}
	*t = types{""}
	return json.Unmarshal(b, &(*t)[0])
}

// ordered is a JSON object that keeps the order of its keys.
type ordered[T any] struct {
	keys []string
	of   map[string]T
}

func (o *ordered[T]) UnmarshalJSON(b []byte) error {
	o.of = map[string]T{}
	d := json.NewDecoder(bytes.NewReader(b))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var v T
		if err := d.Decode(&v); err != nil {
			return err
		}
		o.keys = append(o.keys, key.(string))
		o.of[key.(string)] = v
	}
	return nil
}

// errorCode is a code of an error response.
type errorCode struct {
	code, class string
	statuses    []string
}

// group contains the operations below a path segment.
type group struct {
	path    string // the segment: "production-runs"
	words   []string
	doc     string
	methods []*method
}

// method is an operation as a method of a client.
type method struct {
	group      *group
	id         string // operationId
	verb, path string // path has {name} for each path parameter, and starts after /api/v1
	words      []string
	doc        string
	pathParams []parameter
	query      []parameter
	body       *schema // nil without a JSON body
	bodyName   string  // name of the schema of the body
	optional   bool    // the body may be absent
	text       string  // the format of a file in the body: csv or jsonl
	textResult bool
	result     string // name of the schema of the result; "" if the response has no content
	item       string // name of the schema of the items if the result is a list with ids, or ""
	cursor     bool   // the list has the query parameter after, and the field next
	etag       bool   // the response has an ETag
	keyed      bool   // the operation accepts an Idempotency-Key
	ifMatch    bool   // the operation accepts If-Match
}

// event is an event that webhooks send.
type event struct{ name, schema string } // "order.received", "OrderReceivedEvent"

// api is the model for the clients in both languages.
type api struct {
	version  string
	schemas  ordered[*schema]
	groups   []*group
	codes    []errorCode
	outputs  []string        // object schemas in responses, in the order of the document
	inputs   []string        // object schemas inside request bodies
	tops     []string        // schemas that are request bodies
	enums    []string        // named enums
	etags    map[string]bool // schemas whose responses have an ETag
	decimals []string        // names of fields that are decimals in all schemas
	events   []event         // events that webhooks send
}

// Files returns the generated files by their paths in the checkout.
func Files(openAPI []byte) (map[string][]byte, error) {
	a, err := parse(openAPI)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"sdk/python/spoolwright/_api.py": python(a),
		"sdk/typescript/src/api.ts":      typeScript(a),
	}, nil
}

// leftOperations are not in the clients. A client reads a response as a text, but these responses are large binary
// files, and a stream.
var leftOperations = []string{"getProductPicture", "exportTenant", "getStream"}

// coreOperations are hand-written in the core of each client.
var coreOperations = []string{"login", "refresh", "logout"}

const prefix = "/api/v1/"

func parse(openAPI []byte) (*api, error) {
	var d document
	if err := json.Unmarshal(openAPI, &d); err != nil {
		return nil, fmt.Errorf("the OpenAPI document: %w", err)
	}
	a := &api{version: d.Info.Version, etags: map[string]bool{}}
	a.schemas.of = map[string]*schema{}
	for _, name := range d.Components.Schemas.keys {
		a.schemas.keys = append(a.schemas.keys, typeName(name))
		a.schemas.of[typeName(name)] = d.Components.Schemas.of[name]
	}
	for _, name := range d.Webhooks.keys {
		if op := d.Webhooks.of[name].Post; op != nil && op.RequestBody != nil {
			body := op.RequestBody.Content["application/json"].Schema
			a.events = append(a.events, event{name, refName(body.Ref)})
		}
	}
	groups := map[string]*group{}
	statuses := map[string][]string{}
	for _, m := range codeRow.FindAllStringSubmatch(d.Info.Description, -1) {
		addCode(statuses, m[2], m[1])
	}
	for _, path := range d.Paths.keys {
		rest, ok := strings.CutPrefix(path, prefix)
		if !ok {
			continue
		}
		item := d.Paths.of[path]
		segment, _, _ := strings.Cut(rest, "/")
		g := groups[segment]
		if g == nil {
			g = &group{path: segment, words: strings.Split(segment, "-")}
			groups[segment] = g
			a.groups = append(a.groups, g)
		}
		for _, o := range []struct {
			verb string
			op   *operation
		}{{"GET", item.Get}, {"POST", item.Post}, {"PUT", item.Put}, {"PATCH", item.Patch}, {"DELETE", item.Delete}} {
			if o.op == nil {
				continue
			}
			for status, r := range o.op.Responses {
				for _, m := range d.response(r).Content {
					for _, e := range m.Examples {
						addCode(statuses, e.Value.Code, status)
					}
				}
			}
			if slices.Contains(coreOperations, o.op.OperationID) || slices.Contains(leftOperations, o.op.OperationID) {
				continue
			}
			for _, tag := range d.Tags {
				if g.doc == "" && slices.Contains(o.op.Tags, tag.Name) {
					g.doc = tag.Description
				}
			}
			g.methods = append(g.methods, a.method(&d, g, o.verb, "/"+rest, item, o.op))
		}
	}
	a.groups = slices.DeleteFunc(a.groups, func(g *group) bool { return len(g.methods) == 0 })
	for _, g := range a.groups {
		g.nameMethods()
	}
	for code, all := range statuses {
		slices.Sort(all)
		class := pascal(strings.Split(strings.ToLower(code), "_"))
		a.codes = append(a.codes, errorCode{code, strings.TrimSuffix(class, "Error") + "Error", all})
	}
	slices.SortFunc(a.codes, func(x, y errorCode) int { return strings.Compare(x.code, y.code) })
	a.collect()
	return a, nil
}

// codeRow matches a row of the table of error codes in the description of the API.
var codeRow = regexp.MustCompile("(?m)^\\| (\\d{3}) \\| `([A-Z_]+)` \\|$")

func addCode(statuses map[string][]string, code, status string) {
	if code != "" && !slices.Contains(statuses[code], status) {
		statuses[code] = append(statuses[code], status)
	}
}

func (d *document) response(r response) response {
	if r.Ref != "" {
		return d.Components.Responses[refName(r.Ref)]
	}
	return r
}

func refName(ref string) string { return typeName(ref[strings.LastIndexByte(ref, '/')+1:]) }

// typeName returns the name of the type for a schema.
func typeName(schema string) string { return pascal(strings.Split(schema, "_")) }

func (a *api) method(d *document, g *group, verb, path string, item pathItem, op *operation) *method {
	m := &method{group: g, id: op.OperationID, verb: verb, path: path, doc: op.Summary + "."}
	if op.Description != "" {
		m.doc += "\n\n" + op.Description
	}
	for _, p := range append(slices.Clone(item.Parameters), op.Parameters...) {
		if p.Ref != "" {
			p = d.Components.Parameters[refName(p.Ref)]
		}
		switch {
		case p.In == "path":
			m.pathParams = append(m.pathParams, p)
		case p.In == "query":
			m.query = append(m.query, p)
		case p.Name == "Idempotency-Key":
			m.keyed = true
		case p.Name == "If-Match":
			m.ifMatch = true
		}
	}
	if b := op.RequestBody; b != nil {
		if content, ok := b.Content["application/json"]; ok {
			m.bodyName, m.optional = refName(content.Schema.Ref), !b.Required
			m.body = a.schemas.of[m.bodyName]
		} else {
			for media := range b.Content {
				if _, ok := b.Content["text/csv"]; ok { // imports also take workbooks, whatever the media type says
					media = "text/csv"
				}
				if m.text = media[strings.Index(media, "/")+1:]; m.text == "octet-stream" {
					m.text = "file"
				}
			}
		}
	}
	for status, r := range op.Responses {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		r = d.response(r)
		_, m.etag = r.Headers["ETag"]
		content, ok := r.Content["application/json"]
		if !ok {
			m.textResult = len(r.Content) > 0
			continue
		}
		m.result = refName(content.Schema.Ref)
		if m.result != "" && verb == "GET" {
			m.item, m.cursor = a.listOf(m)
		}
		if m.etag {
			a.etags[m.result] = true
		}
	}
	return m
}

// listOf returns the name of the schema of the items if the method returns pages of a list, and reports whether the
// list has a cursor.
func (a *api) listOf(m *method) (item string, cursor bool) {
	s := a.schemas.of[m.result]
	if s == nil || s.Properties.of["items"] == nil || s.Properties.of["items"].Items == nil || !m.hasQuery("limit") {
		return "", false
	}
	name := refName(s.Properties.of["items"].Items.Ref)
	if i := a.schemas.of[name]; i == nil || i.Properties.of["id"] == nil {
		return "", false
	}
	cursor = s.Properties.of["next"] != nil && m.hasQuery("after")
	if !cursor && !m.hasQuery("skip") {
		return "", false
	}
	return name, cursor
}

func (m *method) hasQuery(name string) bool {
	return slices.ContainsFunc(m.query, func(p parameter) bool { return p.Name == name })
}

// nameMethods sets the names of the methods: the operationId without the noun of the group, or the whole operationId
// if the short name is empty or used. An operation on a single resource takes precedence over an operation on several
// resources.
func (g *group) nameMethods() {
	used := map[string]bool{}
	name := func(m *method) {
		words := withoutNoun(splitWords(m.id), g.words)
		for len(words) > 1 && slices.Contains([]string{"from", "to", "of", "for", "in"}, words[len(words)-1]) {
			words = words[:len(words)-1]
		}
		if m.text != "" && m.text != "file" {
			words = append(words, m.text)
		}
		if len(words) == 0 || used[strings.Join(words, "_")] {
			words = splitWords(m.id)
		}
		used[strings.Join(words, "_")] = true
		m.words = words
	}
	several := func(m *method) bool { return len(m.pathParams) == 0 && (m.verb == "PATCH" || m.verb == "DELETE") }
	for _, m := range g.methods {
		if !several(m) {
			name(m)
		}
	}
	for _, m := range g.methods {
		if several(m) {
			name(m)
		}
	}
}

// withoutNoun returns the words without the first occurrence of the noun, in plural or singular.
func withoutNoun(words, noun []string) []string {
	last := len(noun) - 1
	for i := 0; i+len(noun) <= len(words); i++ {
		w := words[i+last]
		if slices.Equal(words[i:i+last], noun[:last]) && (w == noun[last] || w == singular(noun[last])) {
			return append(slices.Clone(words[:i]), words[i+len(noun):]...)
		}
	}
	return words
}

func singular(s string) string {
	if stem, ok := strings.CutSuffix(s, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(s, "s")
}

// collect lists the schemas that the methods use, and the fields that are decimals.
func (a *api) collect() {
	in, out, top := map[string]bool{}, map[string]bool{}, map[string]bool{}
	enums := map[string]bool{}
	var visit func(s *schema, seen map[string]bool)
	visit = func(s *schema, seen map[string]bool) {
		if s == nil {
			return
		}
		if s.Ref != "" {
			name := refName(s.Ref)
			if target := a.schemas.of[name]; target != nil && len(target.Enum) > 0 {
				enums[name] = true
			} else if target != nil && !seen[name] {
				seen[name] = true
				visit(target, seen)
			}
			return
		}
		for _, key := range s.Properties.keys {
			visit(s.Properties.of[key], seen)
		}
		visit(s.Items, seen)
		for _, other := range append(slices.Clone(s.AnyOf), s.OneOf...) {
			visit(other, seen)
		}
	}
	for _, g := range a.groups {
		for _, m := range g.methods {
			for _, p := range m.query {
				visit(p.Schema, in)
			}
			if m.body != nil {
				top[m.bodyName] = true
				visit(m.body, in)
			}
			if m.result != "" {
				visit(&schema{Ref: m.result}, out)
			}
		}
	}
	for _, e := range a.events {
		visit(&schema{Ref: e.schema}, out)
	}
	decimal, other := map[string]bool{}, map[string]bool{}
	for _, name := range a.schemas.keys {
		switch s := a.schemas.of[name]; {
		case enums[name]:
			a.enums = append(a.enums, name)
		case len(s.Properties.keys) == 0:
			continue
		}
		if out[name] {
			a.outputs = append(a.outputs, name)
		}
		if in[name] {
			a.inputs = append(a.inputs, name)
		}
		if top[name] {
			a.tops = append(a.tops, name)
		}
		if in[name] || out[name] || top[name] {
			for _, key := range a.schemas.of[name].Properties.keys {
				if isDecimal(a.schemas.of[name].Properties.of[key]) {
					decimal[key] = true
				} else {
					other[key] = true
				}
			}
		}
	}
	for name := range decimal {
		if !other[name] {
			a.decimals = append(a.decimals, name)
		}
	}
	slices.Sort(a.decimals)
}

func isDecimal(s *schema) bool { return slices.Contains(s.Type, "number") }

// nullable reports whether null is a value of the schema, and returns the schema without null.
func nullable(s *schema) (*schema, bool) {
	if i := slices.Index(s.Type, "null"); i >= 0 {
		c := *s
		c.Type = slices.Delete(slices.Clone(s.Type), i, i+1)
		return &c, true
	}
	for _, other := range s.AnyOf {
		if len(other.Type) == 1 && other.Type[0] == "null" && len(s.AnyOf) == 2 {
			rest := s.AnyOf[0]
			if rest == other {
				rest = s.AnyOf[1]
			}
			return rest, true
		}
	}
	return s, false
}

// inputName returns the name of the type for a schema in request bodies.
func (a *api) inputName(schema string) string {
	if slices.Contains(a.outputs, schema) {
		return schema + "Input"
	}
	return schema
}

// splitWords returns the words of a camel case name, in lower case.
func splitWords(s string) []string {
	return strings.Fields(strings.ToLower(wordStart.ReplaceAllString(s, " $0")))
}

var wordStart = regexp.MustCompile(`[A-Z]+[a-z0-9]*`)

func pascal(words []string) string {
	var b strings.Builder
	for _, w := range words {
		if w != "" {
			b.WriteString(strings.ToUpper(w[:1]) + w[1:])
		}
	}
	return b.String()
}

func camel(words []string) string { return words[0] + pascal(words[1:]) }

func snake(words []string) string { return strings.Join(words, "_") }

// quote returns the text as a string literal that is valid in both languages.
func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// literals returns those values that are texts, as literals joined by the separator.
func literals(values []any, separator string) string {
	var all []string
	for _, v := range values {
		if s, ok := v.(string); ok {
			all = append(all, quote(s))
		}
	}
	return strings.Join(all, separator)
}

// wrap returns the text in lines of at most width bytes, without trailing spaces. It keeps existing line breaks, such
// as the line breaks of lists and tables.
func wrap(text string, width int) (lines []string) {
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		for len(line) > width {
			i := strings.LastIndexByte(line[:width+1], ' ')
			if i <= 0 {
				break
			}
			lines = append(lines, strings.TrimRight(line[:i], " "))
			line = line[i+1:]
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

// writer collects lines.
type writer struct{ bytes.Buffer }

func (w *writer) f(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
