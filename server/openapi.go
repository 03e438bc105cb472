package server

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// object is a JSON object that keeps its members' order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
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

// OpenAPI returns the OpenAPI 3.1 document of the routes, made from the routes and their Go types alone.
func OpenAPI(routes []Route, version string) []byte {
	d := document{sources: map[string]source{}, schemas: map[string]object{}}
	paths := object{}
	index := map[string]int{}
	var tags []object
	for _, route := range routes {
		path := route.Path()
		at, ok := index[path]
		if !ok {
			at = len(paths)
			index[path] = at
			item := object{}
			if names := wildcards(path); len(names) > 0 {
				var params []object
				for _, name := range names {
					params = append(params, object{{"name", name}, {"in", "path"}, {"required", true}, {"description", "A UUID."},
						{"schema", object{{"type", "string"}, {"format", "uuid"}}}, {"example", exampleID}})
				}
				item.add("parameters", params)
			}
			paths.add(path, item)
		}
		if tag := route.Doc.Tag; !slices.ContainsFunc(tags, func(t object) bool { return t[0].value == tag.Name }) {
			tags = append(tags, object{{"name", tag.Name}, {"description", tag.Description}})
		}
		item := paths[at].value.(object)
		item.add(strings.ToLower(route.Method()), d.operation(route))
		paths[at].value = item
	}
	schemas := object{}
	for _, name := range d.order {
		schemas.add(name, d.schemas[name])
	}
	schemas.add("Error", object{{"type", "object"}, {"required", []string{"detail", "code"}}, {"additionalProperties", false}, {"properties", object{
		{"detail", object{{"type", "string"}, {"description", "What went wrong, for a person."}}},
		{"code", object{{"type", "string"}, {"description", "What went wrong, for a program."}}},
	}}})
	schemas.add("ValidationError", object{{"type", "object"}, {"required", []string{"detail", "code", "errors"}}, {"additionalProperties", false}, {"properties", object{
		{"detail", object{{"type", "string"}, {"description", "What went wrong, for a person."}}},
		{"code", object{{"type", "string"}, {"const", "VALIDATION_ERROR"}}},
		{"errors", object{{"type", "array"}, {"description", "Every problem that was found."}, {"items", object{{"type", "object"}, {"additionalProperties", false}, {"required", []string{"field", "message"}}, {"properties", object{
			{"field", object{{"type", "string"}}}, {"message", object{{"type", "string"}}}}}}}}},
	}}})
	doc := object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", "Spoolwright"}, {"version", version}, {"summary", "Filament inventory, product catalog and production runs of 3D-print farms."},
			{"description", apiDescription}, {"license", object{{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}},
		}},
		{"servers", []object{{{"url", "/"}}}},
		{"tags", tags},
		{"security", []object{{{"bearerAuth", []string{}}}}},
		{"paths", paths},
		{"components", object{
			{"securitySchemes", object{{"bearerAuth", object{{"type", "http"}, {"scheme", "bearer"}, {"bearerFormat", "JWT"},
				{"description", "The access_token of POST /api/v1/auth/login."}}}}},
			{"parameters", object{{"IdempotencyKey", object{{"name", "Idempotency-Key"}, {"in", "header"}, {"required", false},
				{"description", idempotencyDescription}, {"schema", object{{"type", "string"}, {"minLength", 1}, {"maxLength", 255}, {"pattern", "^[ -~]+$"}}}}}}},
			{"headers", object{
				{"RateLimitLimit", header("integer", "Requests that the tighter of the two limits allows.")},
				{"RateLimitRemaining", header("integer", "Requests left in the tighter limit.")},
				{"RateLimitReset", header("integer", "Unix time in seconds at which that limit is full again.")},
				{"RequestId", header("string", "The id under which the service has logged the request.")},
				{"RetryAfter", header("integer", "Seconds to wait before trying again.")},
				{"Location", header("string", "The path of the new resource.")},
				{"IdempotencyReplayed", header("string", "`true` if this is the stored answer to an earlier request with the same key.")},
			}},
			{"schemas", schemas},
		}},
	}
	b, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return b
}

const exampleID = "0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41"

func header(kind, description string) object {
	return object{{"description", description}, {"schema", object{{"type", kind}}}}
}

type document struct {
	sources map[string]source
	schemas map[string]object
	order   []string
}

func (d *document) operation(route Route) object {
	e := route.Endpoint
	op := object{{"operationId", route.Doc.ID}, {"tags", []string{route.Doc.Tag.Name}}, {"summary", route.Doc.Summary}}
	description := route.Doc.Description
	switch route.Access {
	case Write:
		description += "\n\nNeeds the role `operator` or `admin`."
	case Admin:
		description += "\n\nNeeds the role `admin`."
	}
	op.add("description", strings.TrimSpace(description))
	if route.Access == Public {
		op.add("security", []object{})
	}
	status, item, list := e.out.describe()
	var params []object
	if e.readsQuery() {
		for _, f := range schemaOf(e.in).Fields {
			schema := f.schema(false)
			if f.Name == "sort_by" {
				schema = object{{"type", "string"}, {"enum", schemaOf(item).Sortable()}}
			}
			if f.Default != "" {
				schema.add("default", literal(f.Default, f.kind))
			}
			params = append(params, object{{"name", f.Name}, {"in", "query"}, {"required", false}, {"description", f.Doc}, {"schema", schema}})
		}
	}
	if idempotent(route) {
		params = append(params, ref("parameters", "IdempotencyKey"))
	}
	if params != nil {
		op.add("parameters", params)
	}
	change := route.Method() == "PATCH"
	if e.readsBody() {
		name := d.request(e.in, change)
		content := object{{"schema", ref("schemas", name)}}
		switch {
		case route.Doc.Request != "":
			content.add("example", json.RawMessage(route.Doc.Request))
		default:
			content.add("example", exampleOf(e.in, true))
		}
		op.add("requestBody", object{{"required", true}, {"content", object{{"application/json", content}}}})
	}
	success := object{{"description", map[int]string{200: "Done", 201: "Created", 204: "Done; no body"}[status]}}
	headers := rateHeaders()
	if status == 201 {
		headers.add("Location", ref("headers", "Location"))
	}
	if idempotent(route) {
		headers.add("Idempotency-Replayed", ref("headers", "IdempotencyReplayed"))
	}
	success.add("headers", headers)
	if item != nil {
		name := d.response(item)
		schema, example := ref("schemas", name), any(exampleOf(item, false))
		if list {
			schema = object{{"type", "object"}, {"required", []string{"items", "total", "skip", "limit"}}, {"additionalProperties", false}, {"properties", object{
				{"items", object{{"type", "array"}, {"items", schema}}},
				{"total", object{{"type", "integer"}, {"description", "How many items match, on all pages."}}},
				{"skip", object{{"type", "integer"}}}, {"limit", object{{"type", "integer"}}}}}}
			example = object{{"items", []any{example}}, {"total", 1}, {"skip", 0}, {"limit", 20}}
		}
		success.add("content", object{{"application/json", object{{"schema", schema}, {"example", example}}}})
	}
	responses := object{{strconv.Itoa(status), success}}
	for _, failure := range failures(route) {
		responses.add(strconv.Itoa(failure.status), failure.response())
	}
	op.add("responses", responses)
	return op
}

func rateHeaders() object {
	return object{
		{"X-RateLimit-Limit", ref("headers", "RateLimitLimit")},
		{"X-RateLimit-Remaining", ref("headers", "RateLimitRemaining")},
		{"X-RateLimit-Reset", ref("headers", "RateLimitReset")},
		{"X-Request-Id", ref("headers", "RequestId")},
	}
}

// idempotent reports whether the route takes an Idempotency-Key.
func idempotent(route Route) bool {
	return route.Method() == "POST" && !strings.HasPrefix(route.Path(), apiPrefix+"auth/")
}

type failure struct {
	status int
	what   string
	codes  []string
}

func failures(route Route) []failure {
	e := route.Endpoint
	var all []failure
	refusals := slices.Clone(route.Doc.Refusals)
	if e.readsBody() {
		refusals = append([]string{"MALFORMED_JSON"}, refusals...)
	}
	if len(refusals) > 0 {
		all = append(all, failure{400, "The request cannot be done", refusals})
	}
	if route.Access == Public {
		all = append(all, failure{401, "The credentials are wrong", []string{"INVALID_CREDENTIALS", "INVALID_TOKEN", "TOKEN_EXPIRED"}})
	} else {
		all = append(all, failure{401, "No valid access token", []string{"INVALID_TOKEN", "TOKEN_EXPIRED"}})
	}
	if route.Access >= Write {
		all = append(all, failure{403, "The role does not permit this", []string{"FORBIDDEN"}})
	}
	if len(wildcards(route.Path())) > 0 {
		all = append(all, failure{404, "There is no such resource in this tenant", []string{"NOT_FOUND"}})
	}
	if idempotent(route) {
		all = append(all, failure{409, "The Idempotency-Key was used for another request", []string{"IDEMPOTENCY_CONFLICT"}})
	}
	if e.readsBody() {
		all = append(all, failure{413, "The body is larger than 1 MiB", []string{"PAYLOAD_TOO_LARGE"}}, failure{415, "The body is not JSON", []string{"UNSUPPORTED_MEDIA_TYPE"}})
	}
	if e.readsBody() || e.readsQuery() || len(wildcards(route.Path())) > 0 || idempotent(route) {
		all = append(all, failure{422, "Some values are not valid", []string{"VALIDATION_ERROR"}})
	}
	return append(all, failure{429, "Too many requests", []string{"RATE_LIMIT_EXCEEDED"}}, failure{500, "A fault of the service", []string{"INTERNAL_ERROR"}},
		failure{503, "The service cannot answer right now", []string{"UNAVAILABLE"}})
}

func (f failure) response() object {
	name := "Error"
	example := object{{"detail", f.what}, {"code", f.codes[0]}}
	if f.status == 422 {
		name = "ValidationError"
		example.add("errors", []object{{{"field", "id"}, {"message", "must be a UUID"}}})
	}
	headers := rateHeaders()
	if f.status == 429 || f.status == 503 {
		headers.add("Retry-After", ref("headers", "RetryAfter"))
	}
	return object{{"description", f.what + ": `" + strings.Join(f.codes, "`, `") + "`."}, {"headers", headers},
		{"content", object{{"application/json", object{{"schema", ref("schemas", name)}, {"example", example}}}}}}
}

// request registers the schema of a request body and returns its name. Read-only fields are left out: they are taken and
// ignored, so that a resource can be sent back as it came.
func (d *document) request(t reflect.Type, change bool) string {
	s := schemaOf(t)
	name := s.Name
	for _, f := range s.Fields {
		if f.ReadOnly {
			name = s.Name + "Create"
		}
	}
	if change {
		name = s.Name + "Update"
	}
	if !d.begin(name, t, change) {
		return name
	}
	properties, required := object{}, []string{}
	for _, f := range s.Fields {
		if f.ReadOnly {
			continue
		}
		properties.add(f.Name, f.documented(f.schema(!f.Required && !(change && f.NotNull))))
		if f.Required && !change {
			required = append(required, f.Name)
		}
	}
	d.put(name, properties, required)
	return name
}

// response registers the schema of a resource in answers, where every field is present.
func (d *document) response(t reflect.Type) string {
	s := schemaOf(t)
	if !d.begin(s.Name, t, false) {
		return s.Name
	}
	properties, required := object{}, []string{}
	for _, f := range s.Fields {
		if f.WriteOnly {
			continue
		}
		schema := f.schema(!f.NotNull)
		switch {
		case f.list:
			schema = object{{"type", "array"}, {"items", ref("schemas", d.response(f.kind))}}
		case f.nests():
			schema = ref("schemas", d.response(f.kind))
		}
		properties.add(f.Name, f.documented(schema))
		required = append(required, f.Name)
	}
	d.put(s.Name, properties, required)
	return s.Name
}

// source is what a schema was made from.
type source struct {
	kind   reflect.Type
	change bool
}

// begin reports whether the schema has still to be made. Two types that make the same name are a mistake of the program.
func (d *document) begin(name string, t reflect.Type, change bool) bool {
	made, ok := d.sources[name]
	if ok && made != (source{t, change}) {
		panic("server: two types of the API make the schema name " + name)
	}
	d.sources[name] = source{t, change}
	return !ok
}

func (d *document) put(name string, properties object, required []string) {
	schema := object{{"type", "object"}, {"additionalProperties", false}}
	if len(required) > 0 {
		schema.add("required", required)
	}
	schema.add("properties", properties)
	d.schemas[name] = schema
	d.order = append(d.order, name)
}

func (f *Field) nests() bool {
	return f.kind.Kind() == reflect.Struct && f.kind != reflect.TypeFor[Timestamp]()
}

func (f *Field) documented(schema object) object {
	if f.Doc != "" {
		schema.add("description", f.Doc)
	}
	if f.Example != "" {
		schema.add("examples", []json.RawMessage{json.RawMessage(f.Example)})
	}
	return schema
}

// schema is the JSON Schema of a scalar.
func (f *Field) schema(nullable bool) object {
	var o object
	kind := func(name string) {
		if nullable {
			o.add("type", []string{name, "null"})
		} else {
			o.add("type", name)
		}
	}
	switch f.kind {
	case reflect.TypeFor[string]():
		kind("string")
		switch {
		case len(f.Enum) > 0:
			values := []any{}
			for _, v := range f.Enum {
				values = append(values, v)
			}
			if nullable {
				values = append(values, nil)
			}
			o.add("enum", values)
		case f.Hex:
			o.add("pattern", "^#[0-9A-Fa-f]{6}$")
		case !f.ReadOnly:
			if f.Required {
				o.add("minLength", 1)
			}
			o.add("maxLength", f.MaxLength)
		}
	case reflect.TypeFor[Decimal](), reflect.TypeFor[int64]():
		if f.kind == reflect.TypeFor[Decimal]() {
			kind("number")
		} else {
			kind("integer")
		}
		if len(f.Numbers) > 0 {
			values := []any{}
			for _, n := range f.Numbers {
				values = append(values, n)
			}
			if nullable {
				values = append(values, nil)
			}
			o.add("enum", values)
			break
		}
		if f.input && !f.ReadOnly {
			if f.Above {
				o.add("exclusiveMinimum", f.Min)
			} else {
				o.add("minimum", f.Min)
			}
			o.add("maximum", f.Max)
		}
	case reflect.TypeFor[bool]():
		kind("boolean")
	case reflect.TypeFor[Timestamp]():
		kind("string")
		o.add("format", "date-time")
	case reflect.TypeFor[Date]():
		kind("string")
		o.add("format", "date")
	case reflect.TypeFor[UUID]():
		kind("string")
		o.add("format", "uuid")
	}
	return o
}

func literal(s string, t reflect.Type) any {
	if t == reflect.TypeFor[string]() {
		return s
	}
	return json.RawMessage(s)
}

// exampleOf makes an example of a type from the examples of its fields.
func exampleOf(t reflect.Type, request bool) object {
	o := object{}
	for _, f := range schemaOf(t).Fields {
		switch {
		case request && f.ReadOnly, !request && f.WriteOnly:
		case f.list:
			o.add(f.Name, []any{exampleOf(f.kind, request)})
		case f.nests():
			o.add(f.Name, exampleOf(f.kind, request))
		case f.Example != "":
			o.add(f.Name, json.RawMessage(f.Example))
		case !request:
			o.add(f.Name, nil)
		}
	}
	return o
}
