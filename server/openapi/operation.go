package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"spoolwright/server"
	"spoolwright/value"
)

// pathParameters describes the ids and numbers in a path. The path segment before an id names the resource of the id.
// The path segment before by-number names the resource of the number.
func pathParameters(path string) []object {
	var params []object
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if !strings.HasPrefix(part, "{") {
			continue
		}
		name, of := strings.Trim(part, "{}"), parts[i-1]
		if name == server.NumberParameter {
			of = parts[i-2]
		}
		noun := strings.TrimSuffix(strings.ReplaceAll(of, "-", " "), "s")
		param := object{{"name", name}, {"in", "path"}, {"required", true}}
		if name == server.NumberParameter {
			param = append(param, object{{"description", "The number of the " + noun + "."},
				{"schema", object{{"type", "integer"}, {"minimum", 1}, {"maximum", server.MaxNumber}}},
				{"example", 12}}...)
		} else {
			param = append(param, object{{"description", "The id of the " + noun + ", a UUID."},
				{"schema", object{{"type", "string"}, {"format", "uuid"}}}, {"example", exampleID}}...)
		}
		params = append(params, param)
	}
	return params
}

// operation describes a route. Guarded means that the route accepts If-Match. Tagged means that the responses of the
// route have an ETag.
func (d *document) operation(route server.Route, guarded, tagged bool) object {
	e := route.Endpoint
	op := object{{"operationId", route.Doc.ID}, {"tags", []string{route.Doc.Tag.Name}}, {"summary", route.Doc.Summary}}
	description := route.Doc.Description
	switch route.Access {
	case server.Write:
		description += "\n\nRequires the role `operator` or `admin`."
	case server.Admin:
		description += "\n\nRequires the role `admin`."
	}
	op.add("description", strings.TrimSpace(description))
	switch {
	case route.Access == server.Public:
		op.add("security", []object{})
	case route.UsersOnly:
		op.add("security", []object{ofUsers})
	case route.KeysOnly:
		op.add("security", []object{ofKeys})
	}
	if params := d.parameters(route, guarded); params != nil {
		op.add("parameters", params)
	}
	if e.ReadsBody() {
		name := d.request(e.In, route.IsPartial())
		content := append(object{{"schema", ref("schemas", name)}}, d.requestExamples(route)...)
		op.add("requestBody", object{{"required", !e.Optional}, {"content", object{{"application/json", content}}}})
	}
	if e.Limit > 0 {
		op.add("requestBody", object{{"required", true}, {"content", object{
			{e.Media, object{{"schema", object{{"type", "string"}, {"format", "binary"}}}, {"example", e.Example}}}}}})
	} else if e.Media != "" {
		content := object{{e.Media, object{{"schema", object{{"type", "string"}}}, {"example", e.Example}}}}
		for _, media := range e.Others {
			content.add(media, object{{"schema", object{{"type", "string"}, {"format", "binary"}}}})
		}
		op.add("requestBody", object{{"required", true}, {"content", content}})
	}
	op.add("responses", d.responses(route, guarded, tagged))
	return op
}

// parameters describes the query parameters and headers of a route.
func (d *document) parameters(route server.Route, guarded bool) (params []object) {
	e := route.Endpoint
	if e.ReadsQuery() {
		for _, f := range server.SchemaOfType(e.In).Fields {
			schema := d.scalar(f, false)
			if f.Name == "sort_by" {
				schema = object{{"type", "string"}, {"enum", server.SchemaOfType(e.Out.Item).Sortable()}}
			}
			if f.Set {
				schema = slices.DeleteFunc(schema,
					func(m member) bool { return m.name == "maxItems" || m.name == "uniqueItems" })
				if len(f.Enum) == 0 {
					schema.add("maxItems", value.MaxQueried)
				}
			}
			if f.Default != "" {
				schema.add("default", literal(f.Default, f.Kind))
			}
			param := object{{"name", f.Name}, {"in", "query"}, {"required", false},
				{"description", d.filterDescription(f)}, {"schema", schema}}
			if f.Set {
				param.add("style", "form")
				param.add("explode", false)
			}
			params = append(params, param)
		}
	}
	if route.Idempotent {
		params = append(params, ref("parameters", "IdempotencyKey"))
	}
	if route.Lock != nil || e.IsPicture() {
		params = append(params, ref("parameters", "IfNoneMatch"))
	}
	if guarded {
		params = append(params, ref("parameters", "IfMatch"))
	}
	return params
}

// filterDescription returns the description of a query parameter. It contains the example, unless the schema shows such
// values: Swagger UI would send the example of a parameter with the first request, and the page would be empty.
func (d *document) filterDescription(f *server.Field) string {
	doc := d.doc(f)
	if doc.example == nil || len(doc.example) > 40 || f.Default != "" || len(f.Enum) > 0 ||
		f.Kind == reflect.TypeFor[bool]() {
		return doc.description
	}
	return doc.description + " For example `" + strings.Trim(string(doc.example), `"`) + "`."
}

// responses describes the responses of a route.
func (d *document) responses(route server.Route, guarded, tagged bool) object {
	e := route.Endpoint
	status, item, list := e.Out.Status, e.Out.Item, e.Out.List
	success := object{{"description", map[int]string{200: "Done", 201: "Created", 204: "Done; no body"}[status]}}
	headers := commonHeaders()
	if status == 201 {
		headers.add("Location", ref("headers", "Location"))
	}
	if route.Idempotent {
		headers.add("Idempotency-Replayed", ref("headers", "IdempotencyReplayed"))
	}
	if tagged && item != nil {
		headers.add("ETag", ref("headers", "ETag"))
	}
	success.add("headers", headers)
	if item != nil {
		name, example := d.response(item), any(d.example(item, false))
		if list {
			success[0].value = "A page of the list"
			name = d.page(name)
			example = object{{"items", []any{example}}, {"total", 1}, {"skip", 0}, {"limit", 20},
				{"next", nil}}
		}
		schema := ref("schemas", name)
		success.add("content", object{{"application/json", object{{"schema", schema}, {"example", example}}}})
	}
	if e.File != "" {
		success[0].value = "The file"
		var content object
		for media := range strings.FieldsSeq(e.File) {
			schema := object{{"type", "string"}, {"format", "binary"}}
			if media == server.EventMedia {
				success[0].value, schema = "The stream", schema[:1]
			}
			content.add(media, object{{"schema", schema}})
		}
		success.add("content", content)
	}
	if e.IsExport() {
		success[0].value = "The file"
		var content object
		for _, format := range server.ExportFormat("").Enum() {
			content.add(server.ExportMedia[server.ExportFormat(format)],
				object{{"schema", object{{"type", "string"}}}})
		}
		success.add("content", content)
	}
	if links := d.links(route); links != nil {
		success.add("links", links)
	}
	responses := object{{strconv.Itoa(status), success}}
	if e.Out.Existing {
		found := slices.Clone(success)
		found[0].value = "An equal request has created it before"
		found[1].value = slices.DeleteFunc(slices.Clone(headers), func(m member) bool { return m.name == "Location" })
		responses = object{{"200", found}, responses[0]}
	}
	if route.Lock != nil || e.IsPicture() {
		responses.add("304", object{{"description", "The resource has not changed; no body"}, {"headers", headers}})
	}
	if guarded {
		changed := failure{what: "The resource has changed", errors: []*server.Error{server.ErrPrecondition}}
		responses.add("412", changed.response())
	}
	for _, failure := range failures(route) {
		if failure.shared != "" {
			responses.add(strconv.Itoa(failure.status), ref("responses", failure.shared))
		} else {
			responses.add(strconv.Itoa(failure.status), failure.response())
		}
	}
	return responses
}

// links describes the operations on the resource that the route creates. The path of such an operation is the path of
// the route followed by the id of the resource, and perhaps by further segments without parameters.
func (d *document) links(route server.Route) (links object) {
	item := route.Endpoint.Out.Item
	if route.Method() != "POST" || item == nil ||
		!slices.ContainsFunc(server.SchemaOfType(item).Fields, func(f *server.Field) bool { return f.Name == "id" }) {
		return nil
	}
	outer := pathParameters(route.Path())
	for _, other := range d.routes {
		params := pathParameters(other.Path())
		if !strings.HasPrefix(other.Path(), route.Path()+"/{") || len(params) != len(outer)+1 {
			continue
		}
		values := object{}
		for _, p := range outer {
			values.add(p[0].value.(string), "$request.path."+p[0].value.(string))
		}
		values.add(params[len(outer)][0].value.(string), "$response.body#/id")
		links.add(other.Doc.ID, object{{"operationId", other.Doc.ID}, {"parameters", values}})
	}
	return links
}

func commonHeaders() object {
	return object{
		{"RateLimit", ref("headers", "RateLimit")},
		{"RateLimit-Policy", ref("headers", "RateLimitPolicy")},
		{"X-RateLimit-Limit", ref("headers", "RateLimitLimit")},
		{"X-RateLimit-Remaining", ref("headers", "RateLimitRemaining")},
		{"X-RateLimit-Reset", ref("headers", "RateLimitReset")},
		{"X-Request-Id", ref("headers", "RequestId")},
	}
}

// requestExamples returns the member of a media type object that shows examples of a route's body. For a POST that
// accepts nested lists, there is an example without lists and an example with lists; otherwise there is one example.
// An example has no lists that a PATCH may contain: their entries can name what exists already.
func (d *document) requestExamples(route server.Route) object {
	plain := []byte(route.Doc.Request)
	if len(plain) == 0 {
		var err error
		if plain, err = json.Marshal(d.example(route.Endpoint.In, true)); err != nil {
			panic(err)
		}
	}
	full, given := bytes.Clone(plain[:len(plain)-1]), map[string]json.RawMessage{}
	if err := json.Unmarshal(plain, &given); err != nil {
		panic(err)
	}
	for _, f := range server.SchemaOfType(route.Endpoint.In).Fields {
		if !f.List || f.ReadOnly || f.Patched || route.Method() == "PATCH" || given[f.Name] != nil {
			continue
		}
		entry, err := json.Marshal(d.example(f.Kind, true))
		if err != nil {
			panic(err)
		}
		if len(full) > 1 {
			full = append(full, ',')
		}
		full = fmt.Appendf(full, `%q:[%s]`, f.Name, entry)
	}
	if len(full) == len(plain)-1 {
		return object{{"example", json.RawMessage(plain)}}
	}
	named := func(summary string, value []byte) object {
		return object{{"summary", summary}, {"value", json.RawMessage(value)}}
	}
	return object{{"examples", object{
		{"plain", named("Without lists", plain)},
		{"lists", named("With lists", append(full, '}'))},
	}}}
}
