// Package openapi generates the OpenAPI document from the routes of a server, the Go types of the routes, and tables
// in Markdown that describe the fields of the types.
package openapi

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"

	"spoolwright/server"
)

// Document returns the OpenAPI 3.1 document of the routes and events.
func Document(routes []server.Route, version string, events ...server.Event) []byte {
	return newDocument(routes).write(version, events)
}

func newDocument(routes []server.Route) *document {
	return &document{routes: routes, docs: map[string]*fieldDoc{}, sources: map[string]source{},
		schemas: map[string]object{}}
}

// write returns the text of the document.
func (d *document) write(version string, events []server.Event) []byte {
	routes := d.routes
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
		{"IfNoneMatch", conditional("If-None-Match",
			"The `ETag` of the resource as you know it. If the resource has not "+
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
		{"security", []object{ofUsers, ofKeys}},
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

// paths describes the routes and their tags. Tags with Leads come first; otherwise they are in the order of the
// routes.
func (d *document) paths(routes []server.Route, events []server.Event) (paths object, tags []object) {
	index, leading := map[string]int{}, 0
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
			t := object{{"name", tag.Name}, {"description", tag.Description}}
			if tag.Leads {
				tags = slices.Insert(tags, leading, t)
				leading++
			} else {
				tags = append(tags, t)
			}
		}
		item := paths[at].value.(object)
		tagged := versioned[path] || route.CreatesVersioned(func(path string) bool { return versioned[path] })
		op := d.operation(route, versioned[path] && route.Method() != "GET", tagged)
		if route.Doc.Events {
			op.add("callbacks", d.callbacks(events))
		}
		item.add(strings.ToLower(route.Method()), op)
		paths[at].value = item
	}
	return paths, tags
}

// conditional describes a request header with entity tags.
func conditional(name, description string) object {
	return object{{"name", name}, {"in", "header"}, {"required", false}, {"description", description},
		{"schema", object{{"type", "string"}}}}
}

// The security schemes of users and of API keys.
var (
	ofUsers = object{{"bearerAuth", []string{}}}
	ofKeys  = object{{"apiKeyAuth", []string{}}}
)

const exampleID = "0191d5b4-7c2e-7a10-9f3c-5d1f6f0e2a41"

// responseHeaders returns the descriptions of all response headers.
func responseHeaders() object {
	header := func(kind, description string, example any) object {
		return object{{"description", description}, {"schema", object{{"type", kind}}}, {"example", example}}
	}
	return object{
		{"RateLimit", header("string", "The requests left in the rate limit with the fewest requests left (`r`), and in "+
			"how many seconds one more request passes (`t`), as the IETF draft of the name defines it. The headers of rate "+
			"limits are missing if rate limits are turned off.", `"minute";r=99;t=1`)},
		{"RateLimitPolicy", header("string", "The capacity of that limit in requests (`q`), and in how many seconds an "+
			"empty one is full (`w`).", `"minute";q=100;w=60`)},
		{"RateLimitLimit", header("integer", "Capacity of that limit, in requests.", 100)},
		{"RateLimitRemaining", header("integer", "Requests left in that limit.", 99)},
		{"RateLimitReset", header("integer", "Unix time in seconds at which that limit is full again.", 1705312800)},
		{"RequestId", header("string",
			"The id of the request in the log of the service. It is the X-Request-Id of the "+
				"request, if that consists of at most 128 letters, digits, dots, dashes and underscores.", exampleID)},
		{"RetryAfter", header("integer", "Seconds to wait before the next attempt.", 1)},
		{"Location", header("string", "The path of the new resource.", "/api/v1/spools/"+exampleID)},
		{"IdempotencyReplayed", object{
			{"description",
				"`true` if this is the stored response to an earlier request with the same key; missing otherwise."},
			{"schema", object{{"type", "string"}, {"const", "true"}}}, {"example", "true"},
		}},
		{"ETag", header("string", "The version of the resource: changes when the response does.",
			`"9f86d081884c7d65"`)},
		{"WWWAuthenticate", header("string", "The required authentication scheme.", "Bearer")},
	}
}

type document struct {
	routes  []server.Route
	docs    map[string]*fieldDoc // by type and field, such as "inventory.Spool.color"
	sources map[string]source
	schemas map[string]object
	order   []string
}

// apiDescription is the description in the OpenAPI document that concerns all operations.
//
//go:embed about.md
var apiDescription string

// listFields describes the fields of ListQuery.
//
//go:embed fields.md
var listFields string

const idempotencyDescription = "Makes the request safe to repeat. For 24 hours, the same key with the same body " +
	"returns the first response and changes nothing. The same key with another body or path returns a 409 " +
	"`IDEMPOTENCY_CONFLICT`; with an invalid body, it returns a 400 or 422. " +
	"Keys belong to the user. Only successful responses are stored."
