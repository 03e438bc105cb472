package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// object is a JSON object with ordered members.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in order. Two members of one name are an error: many parsers reject such a text.
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

// Event is a type of events that the service sends to webhooks.
type Event struct {
	Type        string // such as "production_run.completed"
	Tag         *Tag
	Summary     string       // one line without a full stop
	Description string       // Markdown
	Data        reflect.Type // of the field data
}

// OpenAPI returns the OpenAPI 3.1 document of the routes and events, which it generates from their Go types.
func OpenAPI(routes []Route, version string, events ...Event) []byte {
	d := document{docs: map[string]fieldDoc{}, sources: map[string]source{}, schemas: map[string]object{}}
	d.readFields(listFields)
	for _, route := range routes {
		d.readFields(route.Doc.Tag.Fields)
	}
	for _, event := range events {
		d.readFields(event.Tag.Fields)
	}
	paths, tags := d.paths(routes, events)
	webhooks := object{}
	for _, event := range events {
		webhooks.add(event.Type, object{{"post", d.event(event)}})
	}
	schemas, responses := object{}, object{}
	for _, name := range d.order {
		schemas.add(name, d.schemas[name])
	}
	schemas = append(schemas, errorSchemas()...)
	for _, f := range sharedFailures {
		responses.add(f.shared, f.response())
	}
	schemes := object{
		{"bearerAuth", object{{"type", "http"}, {"scheme", "bearer"}, {"bearerFormat", "JWT"},
			{"description", "The access_token of POST /api/v1/auth/login."}}},
		{"apiKeyAuth", object{{"type", "apiKey"}, {"in", "header"}, {"name", "X-API-Key"},
			{"description", "The key of POST /api/v1/api-keys. Do not send an Authorization header with it."}}},
	}
	keySchema := object{{"type", "string"}, {"minLength", 1}, {"maxLength", 255}, {"pattern", "^[ -~]+$"}}
	key := object{{"name", "Idempotency-Key"}, {"in", "header"}, {"required", false},
		{"description", idempotencyDescription}, {"schema", keySchema}}
	parameters := object{
		{"IdempotencyKey", key},
		{"IfMatch", conditional("If-Match", "The `ETag` of the resource as you know it. If the resource has changed "+
			"since, the response is `412` and nothing changes.")},
		{"IfNoneMatch", conditional("If-None-Match", "The `ETag` of the resource as you know it. If the resource has not "+
			"changed since, the response is `304` without a body.")},
	}
	if len(events) > 0 {
		parameters = append(parameters, eventHeaders...)
	}
	whole := object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", "Spoolwright"}, {"version", version},
			{"summary", "Filament inventory, product catalog and production runs of 3D-print farms."},
			{"description", apiDescription + "\n## Error codes\n\n" + errorTable(routes)},
			{"license", object{{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}},
		}},
		{"servers", []object{{{"url", "."}, {"description", "This service, also behind a path prefix"}}}},
		{"tags", tags},
		{"security", security(false)},
		{"paths", paths},
		{"components", object{
			{"securitySchemes", schemes},
			{"parameters", parameters},
			{"headers", responseHeaders()},
			{"responses", responses},
			{"schemas", schemas},
		}},
	}
	if len(events) > 0 {
		whole.add("webhooks", webhooks)
	}
	b, err := json.Marshal(whole)
	if err != nil {
		panic(err)
	}
	return b
}

// paths describes the routes and their tags.
func (d *document) paths(routes []Route, events []Event) (paths object, tags []object) {
	index := map[string]int{}
	versioned := map[string]bool{} // by path
	for _, route := range routes {
		versioned[route.Path()] = versioned[route.Path()] || route.Lock != nil
	}
	for _, route := range routes {
		path := route.Path()
		at, ok := index[path]
		if !ok {
			at = len(paths)
			index[path] = at
			item := object{}
			if params := pathParameters(path); params != nil {
				item.add("parameters", params)
			}
			paths.add(path, item)
		}
		if tag := route.Doc.Tag; !slices.ContainsFunc(tags, func(t object) bool { return t[0].value == tag.Name }) {
			tags = append(tags, object{{"name", tag.Name}, {"description", tag.Description}})
		}
		item := paths[at].value.(object)
		tagged := versioned[path] || creates(route, func(path string) bool { return versioned[path] })
		op := d.operation(route, versioned[path] && route.Method() != "GET", tagged)
		if route.Doc.Events {
			op.add("callbacks", d.callbacks(events))
		}
		item.add(strings.ToLower(route.Method()), op)
		paths[at].value = item
	}
	return paths, tags
}

// conditional describes a header with entity tags.
func conditional(name, description string) object {
	return object{{"name", name}, {"in", "header"}, {"required", false}, {"description", description},
		{"schema", object{{"type", "string"}}}}
}

// security returns the alternative security schemes of a route.
func security(usersOnly bool) []object {
	all := []object{{{"bearerAuth", []string{}}}}
	if !usersOnly {
		all = append(all, object{{"apiKeyAuth", []string{}}})
	}
	return all
}

const exampleID = "0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41"

// errorSchemas returns the schemas of error bodies.
func errorSchemas() object {
	text := func(description, example string) object {
		return object{{"type", "string"}, {"description", description}, {"examples", []string{example}}}
	}
	detail := text("The error, for people.", ErrNotFound.Detail)
	errors := object{{"type", "array"}, {"description", "All problems."}, {"items", ref("schemas", "FieldError")}}
	return object{
		{"Error", closed([]string{"detail", "code"}, object{
			{"detail", detail},
			{"code", text("The error, for programs.", ErrNotFound.Code)},
		})},
		{"ValidationError", closed([]string{"detail", "code", "errors"}, object{
			{"detail", detail},
			{"code", object{{"type", "string"}, {"description", "Always VALIDATION_ERROR."}, {"const", "VALIDATION_ERROR"}}},
			{"errors", errors},
		})},
		{"FieldError", closed([]string{"field", "message"}, object{
			{"field", text("The field of the body, the parameter or the header.", "weight_grams")},
			{"message", text("The problem with it.", "must be greater than 0")},
		})},
	}
}

// closed returns the schema of an object that has only these properties.
func closed(required []string, properties object) object {
	schema := object{{"type", "object"}, {"additionalProperties", false}}
	if len(required) > 0 {
		schema.add("required", required)
	}
	schema.add("properties", properties)
	return schema
}

// responseHeaders returns the descriptions of all response headers.
func responseHeaders() object {
	header := func(kind, description string, example any) object {
		return object{{"description", description}, {"schema", object{{"type", kind}}}, {"example", example}}
	}
	return object{
		{"RateLimitLimit", header("integer", "Capacity of the tighter of the two rate limits, in requests. "+
			"The X-RateLimit headers are missing if rate limits are turned off.", 100)},
		{"RateLimitRemaining", header("integer", "Requests left in that limit.", 99)},
		{"RateLimitReset", header("integer", "Unix time in seconds at which that limit is full again.", 1705312800)},
		{"RequestId", header("string", "The id of the request in the log of the service. It is the X-Request-Id of the "+
			"request, if that consists of at most 128 letters, digits, dots, dashes and underscores.", exampleID)},
		{"RetryAfter", header("integer", "Seconds to wait before the next attempt.", 1)},
		{"Location", header("string", "The path of the new resource.", apiPrefix+"spools/"+exampleID)},
		{"IdempotencyReplayed", object{
			{"description", "`true` if this is the stored response to an earlier request with the same key; missing otherwise."},
			{"schema", object{{"type", "string"}, {"const", "true"}}}, {"example", "true"},
		}},
		{"ETag", header("string", "The version of the resource: changes when the response does.", `"9f86d081884c7d65"`)},
		{"WWWAuthenticate", header("string", "The required authentication scheme.", "Bearer")},
	}
}

// pathParameters describes the ids in a path. Each belongs to the resource that the path segment before it names.
func pathParameters(path string) []object {
	var params []object
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			noun := strings.TrimSuffix(strings.ReplaceAll(parts[i-1], "-", " "), "s")
			params = append(params, object{{"name", strings.Trim(part, "{}")}, {"in", "path"}, {"required", true},
				{"description", "The id of the " + noun + ", a UUID."},
				{"schema", object{{"type", "string"}, {"format", "uuid"}}}, {"example", exampleID}})
		}
	}
	return params
}

type document struct {
	docs    map[string]fieldDoc // by type and field, such as "inventory.Spool.color"
	sources map[string]source
	schemas map[string]object
	order   []string
}

// operation describes a route. Guarded means that it accepts If-Match, and tagged that its responses have an ETag.
func (d *document) operation(route Route, guarded, tagged bool) object {
	e := route.Endpoint
	op := object{{"operationId", route.Doc.ID}, {"tags", []string{route.Doc.Tag.Name}}, {"summary", route.Doc.Summary}}
	description := route.Doc.Description
	switch route.Access {
	case Write:
		description += "\n\nRequires the role `operator` or `admin`."
	case Admin:
		description += "\n\nRequires the role `admin`."
	}
	op.add("description", strings.TrimSpace(description))
	switch {
	case route.Access == Public:
		op.add("security", []object{})
	case route.UsersOnly:
		op.add("security", security(true))
	}
	if params := d.parameters(route, guarded); params != nil {
		op.add("parameters", params)
	}
	if e.readsBody() {
		name := d.request(e.in, route.Method() == "PATCH")
		content := append(object{{"schema", ref("schemas", name)}}, d.requestExamples(route)...)
		op.add("requestBody", object{{"required", !e.optional}, {"content", object{{"application/json", content}}}})
	}
	if e.media != "" {
		op.add("requestBody", object{{"required", true}, {"content", object{
			{e.media, object{{"schema", object{{"type", "string"}}}, {"example", e.example}}}}}})
	}
	op.add("responses", d.responses(route, guarded, tagged))
	return op
}

// parameters describes the query parameters and headers of a route.
func (d *document) parameters(route Route, guarded bool) (params []object) {
	e := route.Endpoint
	if e.readsQuery() {
		for _, f := range schemaOf(e.in).Fields {
			schema := d.scalar(f, false)
			if f.Name == "sort_by" {
				schema = object{{"type", "string"}, {"enum", schemaOf(e.out.item).Sortable()}}
			}
			if f.Default != "" {
				schema.add("default", literal(f.Default, f.kind))
			}
			doc := d.doc(f)
			param := object{{"name", f.Name}, {"in", "query"}, {"required", false},
				{"description", doc.description}, {"schema", schema}}
			if doc.example != nil {
				param.add("example", doc.example)
			}
			params = append(params, param)
		}
	}
	if route.Idempotent {
		params = append(params, ref("parameters", "IdempotencyKey"))
	}
	if route.Lock != nil {
		params = append(params, ref("parameters", "IfNoneMatch"))
	}
	if guarded {
		params = append(params, ref("parameters", "IfMatch"))
	}
	return params
}

// responses describes the responses of a route.
func (d *document) responses(route Route, guarded, tagged bool) object {
	e := route.Endpoint
	status, item, list := e.out.status, e.out.item, e.out.list
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
		if e.out.either {
			success[0].value = "Created; a list if the request is for several"
			schema = ref("schemas", d.either(name))
		}
		success.add("content", object{{"application/json", object{{"schema", schema}, {"example", example}}}})
	}
	if e.file != nil {
		success[0].value = "The file"
		success.add("content", object{{e.file.media, object{{"schema", object{{"type", "string"}}}}}})
	}
	responses := object{{strconv.Itoa(status), success}}
	if e.out.existing {
		found := slices.Clone(success)
		found[0].value = "An equal request has created it before"
		found[1].value = slices.DeleteFunc(slices.Clone(headers), func(m member) bool { return m.name == "Location" })
		responses = object{{"200", found}, responses[0]}
	}
	if route.Lock != nil {
		responses.add("304", object{{"description", "The resource has not changed; no body"}, {"headers", headers}})
	}
	if guarded {
		responses.add("412", failure{what: "The resource has changed", errors: []*Error{errPrecondition}}.response())
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

// event describes the request that the service sends for an event.
func (d *document) event(e Event) object {
	name := d.eventSchema(e)
	example := object{{"type", e.Type}, {"timestamp", eventTime}, {"data", d.example(e.Data, false)}}
	op := object{
		{"operationId", "on" + strings.ReplaceAll(strings.TrimSuffix(name, "_event"), "_", "")},
		{"tags", []string{e.Tag.Name}}, {"summary", e.Summary}, {"description", e.Description},
	}
	return append(op, receiver(object{{"schema", ref("schemas", name)}, {"example", example}})...)
}

// callbacks describes the requests that the receiver of a new webhook gets.
func (d *document) callbacks(events []Event) object {
	var all []object
	types := object{}
	for _, e := range events {
		all = append(all, ref("schemas", d.eventSchema(e)))
		types.add(e.Type, "#/components/schemas/"+d.eventSchema(e))
	}
	op := append(object{{"summary", "Receive an event"}}, receiver(object{{"schema", object{
		{"oneOf", all}, {"discriminator", object{{"propertyName", "type"}, {"mapping", types}}}}}})...)
	return object{{"event", object{{"{$request.body#/url}", object{{"post", op}}}}}}
}

var eventTime = json.RawMessage(`"2024-01-15T10:00:00.123456Z"`)

// eventSchema returns the name of the schema of an event's body.
func (d *document) eventSchema(e Event) string {
	data := d.response(e.Data)
	name := strings.ReplaceAll(e.Type, ".", "_")
	name = strings.ToUpper(name[:1]) + name[1:] + "_event"
	if d.begin(name, e.Data, "event") {
		d.put(name, object{
			{"type", object{{"type", "string"}, {"description", "The type of the event."}, {"const", e.Type}}},
			{"timestamp", object{{"type", "string"}, {"format", "date-time"}, {"description", "When the event happened."},
				{"examples", []json.RawMessage{eventTime}}}},
			{"data", ref("schemas", data)},
		}, []string{"type", "timestamp", "data"})
	}
	return name
}

// receiver returns the members of an operation whose body has this media type, and that the receiver of a webhook has.
func receiver(body object) object {
	var headers []object
	for _, h := range eventHeaders {
		headers = append(headers, ref("parameters", h.name))
	}
	return object{
		{"security", []object{}},
		{"parameters", headers},
		{"requestBody", object{{"required", true}, {"content", object{{"application/json", body}}}}},
		{"responses", object{
			{"204", object{{"description", "The receiver has the event. Any status from 200 to 299 means that."}}},
			{"410", object{{"description", "The receiver wants no more events: the service disables the webhook."}}},
			{"default", object{{"description", "The service tries again later."}}},
		}},
	}
}

// eventHeaders describes the headers of the requests to receivers, as component parameters.
var eventHeaders = object{
	{"WebhookID", eventHeader("webhook-id", "The id of the event, the same in every try.", "msg_"+exampleID)},
	{"WebhookTimestamp", eventHeader("webhook-timestamp", "When this try was sent, in Unix seconds.", "1705312800")},
	{"WebhookSignature", eventHeader("webhook-signature", "One or two signatures, separated by a space: `v1,` and the "+
		"Base64 of the HMAC-SHA256 of `webhook-id.webhook-timestamp.body`.",
		"v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=")},
}

func eventHeader(name, description, example string) object {
	return object{{"name", name}, {"in", "header"}, {"required", true}, {"description", description},
		{"schema", object{{"type", "string"}}}, {"example", example}}
}

func commonHeaders() object {
	return object{
		{"X-RateLimit-Limit", ref("headers", "RateLimitLimit")},
		{"X-RateLimit-Remaining", ref("headers", "RateLimitRemaining")},
		{"X-RateLimit-Reset", ref("headers", "RateLimitReset")},
		{"X-Request-Id", ref("headers", "RequestId")},
	}
}

// failure describes the errors of an operation that have one status.
type failure struct {
	status int
	shared string // its name in the document, if operations share it
	what   string
	errors []*Error
}

// sharedFailures are the errors that several operations return.
var sharedFailures = []failure{
	{401, "Unauthorized", "The access token or the API key is missing or not valid",
		[]*Error{ErrInvalidToken, ErrTokenExpired, ErrInvalidKey}},
	{403, "Forbidden", "The role of the user or API key does not permit this", []*Error{ErrForbidden}},
	{404, "NotFound", "The resource does not exist in this tenant", []*Error{ErrNotFound}},
	{409, "Conflict", "The Idempotency-Key was used for another request", []*Error{ErrKeyConflict}},
	{413, "PayloadTooLarge", "The body is larger than 1 MiB", []*Error{errTooLarge}},
	{415, "UnsupportedMediaType", "The body is not sent as JSON", []*Error{errNotJSON}},
	{422, "Invalid", "The request contains invalid values; `errors` names all of them", []*Error{
		Invalid("weight_grams", "must be greater than 0"),
		Invalid("limit", "must be at most 100"),
		Invalid("id", "must be a UUID"),
	}},
	{429, "TooManyRequests", "Too many requests", []*Error{errTooMany}},
	{500, "InternalError", "Internal error", []*Error{errInternal}},
	{503, "Unavailable", "The service is temporarily unavailable, for example because its database is",
		[]*Error{ErrUnavailable}},
}

func failures(route Route) []failure {
	e, ids := route.Endpoint, len(wildcards(route.Path())) > 0
	badRequest := failure{status: 400, what: "The request cannot be executed"}
	unauthorized := failure{status: 401, what: "The credentials are not valid"}
	conflict := failure{status: 409, what: "The request contradicts an earlier one"}
	if e.readsBody() || route.Idempotent {
		badRequest.errors = append(badRequest.errors, errMalformed)
	}
	for _, e := range route.Doc.Errors {
		switch e.Status {
		case 401:
			unauthorized.errors = append(unauthorized.errors, e)
		case 409:
			conflict.errors = append(conflict.errors, e)
		default:
			badRequest.errors = append(badRequest.errors, e)
		}
	}
	if len(unauthorized.errors) > 0 && route.Access != Public {
		unauthorized.errors = append(unauthorized.errors, ErrInvalidToken, ErrTokenExpired, ErrInvalidKey)
	}
	var all []failure
	for _, f := range []failure{badRequest, unauthorized} {
		if len(f.errors) > 0 {
			all = append(all, f)
		}
	}
	for _, f := range sharedFailures {
		var applies bool
		switch f.status {
		case 401:
			applies = route.Access != Public && len(unauthorized.errors) == 0
		case 403:
			applies = route.Access != Public || route.UsersOnly
		case 404:
			applies = ids
		case 409:
			applies = route.Idempotent
			if len(conflict.errors) > 0 {
				if applies {
					conflict.errors = append(conflict.errors, f.errors...)
				}
				f, applies = conflict, true
			}
		case 413:
			applies = e.readsBody() || route.Idempotent
		case 415:
			applies = e.readsBody()
			if e.media != "" {
				f = failure{status: 415, what: "The body is not sent as " + e.media, errors: []*Error{errNotMedia(e.media)}}
				applies = true
			}
		case 422:
			applies = e.readsBody() || e.readsQuery() || ids || route.Idempotent
		default:
			applies = true
		}
		if applies {
			all = append(all, f)
		}
	}
	return all
}

// response returns the description of the failure, with each error as an example.
func (f failure) response() object {
	schema, examples, codes := "Error", object{}, []string{}
	for _, e := range f.errors {
		name := e.Code
		if e.Fields != nil {
			schema, name = "ValidationError", e.Fields[0].Field
		}
		if code := "`" + e.Code + "`"; !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
		used := func(m member) bool { return m.name == name }
		for n := 2; slices.ContainsFunc(examples, used); n++ { // errors with different details can share a code
			name = fmt.Sprintf("%s_%d", e.Code, n)
		}
		examples.add(name, object{{"value", json.RawMessage(e.body(exampleID))}})
	}
	headers := commonHeaders()
	switch f.status {
	case 401:
		headers.add("WWW-Authenticate", ref("headers", "WWWAuthenticate"))
	case 429, 503:
		headers.add("Retry-After", ref("headers", "RetryAfter"))
	}
	content := object{{"schema", ref("schemas", schema)}, {"examples", examples}}
	return object{{"description", f.what + ": " + strings.Join(codes, ", ") + "."}, {"headers", headers},
		{"content", object{{"application/json", content}}}}
}

// errorTable returns a Markdown table of all error codes, ordered by status.
func errorTable(routes []Route) string {
	rows := map[string]bool{}
	add := func(errors ...*Error) {
		for _, e := range errors {
			rows[strconv.Itoa(e.Status)+" | `"+e.Code+"`"] = true
		}
	}
	add(errMethod)
	for _, route := range routes {
		for _, f := range failures(route) {
			add(f.errors...)
		}
	}
	return "| Status | Code |\n|---|---|\n| " + strings.Join(slices.Sorted(maps.Keys(rows)), " |\n| ") + " |\n"
}

// request adds the schema of a request body and returns its name. The schema omits read-only fields, which requests may
// contain and the service ignores.
func (d *document) request(t reflect.Type, patch bool) string {
	s := schemaOf(t)
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
		if f.ReadOnly || f.list && patch {
			continue
		}
		var schema object
		if f.list {
			schema = object{{"type", "array"}, {"maxItems", MaxEntries}, {"items", ref("schemas", d.request(f.kind, false))}}
		} else {
			schema = d.scalar(f, !f.Required && !(patch && f.NotNull))
		}
		properties.add(f.Name, d.documented(f, schema))
		if f.Required && !patch {
			required = append(required, f.Name)
		}
	}
	d.put(name, properties, required)
	return name
}

// response adds the schema of a resource in responses, which contain all fields, and returns its name.
func (d *document) response(t reflect.Type) string {
	s := schemaOf(t)
	if !d.begin(s.Name, t, "response") {
		return s.Name
	}
	properties, required := object{}, []string{}
	for _, f := range s.Fields {
		if f.WriteOnly {
			continue
		}
		schema := d.scalar(f.unbounded(), !f.NotNull)
		switch {
		case f.list:
			schema = object{{"type", "array"}, {"items", ref("schemas", d.response(f.kind))}}
		case f.nests():
			schema = ref("schemas", d.response(f.kind))
		}
		properties.add(f.Name, d.documented(f, schema))
		required = append(required, f.Name)
	}
	d.put(s.Name, properties, required)
	return s.Name
}

// page adds the schema of a page of a list and returns its name. Item is the name of the items' schema.
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
			{"items", object{{"type", "array"}, {"description", "The items of this page."}, {"items", ref("schemas", item)}}},
			{"total", whole("Number of matching items on all pages.", 1)},
			{"skip", whole("Number of skipped items.", 0)},
			{"limit", whole("Maximum number of items on a page.", 20)},
			{"next", object{{"type", []string{"string", "null"}},
				{"description", "The value of `after` for the next page; null on the last page, and if the request has " +
					"another order than the default."}, {"examples", []string{exampleCursor}}}},
		}, []string{"items", "total", "skip", "limit", "next"})
	}
	return name
}

// either adds the schema of a resource or a page of a list of them and returns its name. It is not part of the
// response, because some generators make no methods for a nameless union. Item is the name of the resource's schema.
func (d *document) either(item string) string {
	name := item + "OrList"
	if page := d.page(item); d.begin(name, nil, "either "+item) {
		d.schemas[name] = object{{"oneOf", []object{ref("schemas", item), ref("schemas", page)}}}
		d.order = append(d.order, name)
	}
	return name
}

// source is the type of a schema and its use.
type source struct {
	kind reflect.Type
	how  string
}

// begin reports whether the schema is new. It panics if a schema of another source has the name.
func (d *document) begin(name string, t reflect.Type, how string) bool {
	made, ok := d.sources[name]
	if ok && made != (source{t, how}) {
		panic("server: two types of the API have the schema name " + name)
	}
	d.sources[name] = source{t, how}
	return !ok
}

func (d *document) put(name string, properties object, required []string) {
	d.schemas[name] = closed(required, properties)
	d.order = append(d.order, name)
}

func (f *Field) nests() bool {
	return f.kind.Kind() == reflect.Struct && f.kind != reflect.TypeFor[Timestamp]()
}

// fieldDoc is the description of a field. The example is nil if there is none.
type fieldDoc struct {
	description string
	example     json.RawMessage
}

// readFields adds the tables of a Tag's Fields to d.docs.
func (d *document) readFields(text string) {
	owner := ""
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			owner = strings.TrimSpace(name)
		}
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		doc := fieldDoc{description: strings.TrimSpace(cells[2])}
		if example := strings.TrimSpace(cells[3]); json.Valid([]byte(example)) {
			doc.example = json.RawMessage(example)
		} else if example != "" {
			doc.example, _ = json.Marshal(example)
		}
		d.docs[owner+"."+strings.TrimSpace(cells[1])] = doc
	}
}

// doc returns the description of a field. It panics if there is none.
func (d *document) doc(f *Field) fieldDoc {
	doc := d.docs[f.owner.String()+"."+f.Name]
	if doc.description == "" {
		panic(fmt.Sprintf("server: no Tag describes the field %s of %s", f.Name, f.owner))
	}
	return doc
}

func (d *document) documented(f *Field, schema object) object {
	doc := d.doc(f)
	description := doc.description
	if len(f.Numbers) > 0 {
		description += " One of " + joinStrings(f.Numbers) + "."
	}
	schema.add("description", description)
	if doc.example != nil {
		schema.add("examples", []json.RawMessage{doc.example})
	}
	return schema
}

// scalar returns the JSON Schema of a field with one value. The schema of a named enum is a reference, so that
// generated clients have one type for it.
func (d *document) scalar(f *Field, nullable bool) object {
	if f.set {
		values := *f
		values.set = false
		return object{{"type", "array"}, {"minItems", 1}, {"maxItems", len(f.Enum)}, {"uniqueItems", true},
			{"items", d.scalar(&values, false)}}
	}
	if f.Named == "" {
		return f.schema(nullable)
	}
	if d.begin(f.Named, nil, fmt.Sprint(f.Enum)) {
		d.schemas[f.Named] = f.schema(false)
		d.order = append(d.order, f.Named)
	}
	if nullable {
		return object{{"anyOf", []object{ref("schemas", f.Named), {{"type", "null"}}}}}
	}
	return ref("schemas", f.Named)
}

// No text may contain U+0000, and a required one must not be blank.
const (
	textPattern     = `^[^\x00]*$`
	requiredPattern = `^[^\x00]*[^\s\x00][^\x00]*$`
)

// schema returns the JSON Schema of a scalar.
func (f *Field) schema(nullable bool) object {
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
	switch f.kind {
	case reflect.TypeFor[string]():
		kind("string")
		switch {
		case len(f.Enum) > 0:
			values(anys(f.Enum))
		case !f.input || f.ReadOnly:
		case f.Format == "color":
			o.add("pattern", colorPattern)
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
				o.add("pattern", emailPattern)
			case f.Required:
				o.add("pattern", requiredPattern)
			default:
				o.add("pattern", textPattern)
			}
		}
	case reflect.TypeFor[Decimal](), reflect.TypeFor[int64]():
		least := Decimal(1)
		if f.kind == reflect.TypeFor[Decimal]() {
			kind("number")
			o.add("format", "double")
		} else {
			kind("integer")
			least = decimalOne
		}
		// The description lists the numbers of an enum. Client generators have no type for an enum of fractions: their
		// clients lack the schema, round the numbers, or do not compile.
		if f.input && !f.ReadOnly {
			if f.Exclusive {
				o.add("minimum", f.Minimum+least) // the next number, because the service rounds
			} else {
				o.add("minimum", f.Minimum)
			}
			o.add("maximum", f.Maximum)
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

// requestExamples returns the member of a media type object that shows examples of a route's body: one, or, if a POST
// accepts nested lists, one without them and one with them.
func (d *document) requestExamples(route Route) object {
	plain := []byte(route.Doc.Request)
	if len(plain) == 0 {
		var err error
		if plain, err = json.Marshal(d.example(route.Endpoint.in, true)); err != nil {
			panic(err)
		}
	}
	full := bytes.Clone(plain[:len(plain)-1])
	for _, f := range schemaOf(route.Endpoint.in).Fields {
		if !f.list || f.ReadOnly || route.Method() == "PATCH" {
			continue
		}
		entry, err := json.Marshal(d.example(f.kind, true))
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

// example returns an example of a type, which consists of the examples of its fields. That of a request has no lists.
func (d *document) example(t reflect.Type, request bool) object {
	o := object{}
	for _, f := range schemaOf(t).Fields {
		switch doc := d.doc(f); {
		case request && (f.ReadOnly || f.list), !request && f.WriteOnly:
		case f.list:
			o.add(f.Name, []any{d.example(f.kind, request)})
		case f.nests():
			o.add(f.Name, d.example(f.kind, request))
		case doc.example != nil:
			o.add(f.Name, doc.example)
		case !request:
			o.add(f.Name, nil)
		}
	}
	return o
}
