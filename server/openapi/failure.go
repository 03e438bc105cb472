package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"spoolwright/server"
)

// errorSchemas returns the schemas of error bodies.
func errorSchemas() object {
	text := func(description, example string) object {
		return object{{"type", "string"}, {"description", description}, {"examples", []string{example}}}
	}
	detail := text("The error, for people.", server.ErrNotFound.Detail)
	errors := object{{"type", "array"}, {"description", "The fields of the request that the error concerns."},
		{"items", ref("schemas", "FieldError")}}
	return object{
		{"Error", schemaWith([]string{"detail", "code"}, object{
			{"detail", detail},
			{"code", text("The error, for programs.", server.ErrNotFound.Code)},
			{"errors", errors},
		})},
		{"ValidationError", schemaWith([]string{"detail", "code", "errors"}, object{
			{"detail", detail},
			{"code", object{{"type", "string"}, {"description", "Always VALIDATION_ERROR."},
				{"const", "VALIDATION_ERROR"}}},
			{"errors", errors},
		})},
		{"FieldError", schemaWith([]string{"field", "message"}, object{
			{"field", text("The field of the body, the parameter or the header.", "weight_grams")},
			{"message", text("The problem with it.", "must be greater than 0")},
		})},
	}
}

// failure describes all errors of an operation with one status.
type failure struct {
	status int
	shared string // the name of the component in the document, if several operations share the failure
	what   string
	errors []*server.Error
}

// unauthenticated are the errors of a request without valid credentials.
var unauthenticated = []*server.Error{server.ErrInvalidToken, server.ErrTokenExpired, server.ErrInvalidKey}

var sharedFailures = []failure{
	{401, "Unauthorized", "The access token or the API key is missing or not valid",
		unauthenticated},
	{403, "Forbidden",
		"The role of the user or API key does not permit this, or the user must set up a second factor first",
		[]*server.Error{server.ErrForbidden, server.ErrSetUp}},
	{404, "NotFound", "The resource does not exist in this tenant", []*server.Error{server.ErrNotFound}},
	{409, "Conflict", "The Idempotency-Key was used for another request", []*server.Error{server.ErrKeyConflict}},
	{413, "PayloadTooLarge", "The body is larger than 1 MiB", []*server.Error{server.ErrTooLarge}},
	{415, "UnsupportedMediaType", "The body is not sent as JSON", []*server.Error{server.ErrNotJSON}},
	{422, "Invalid", "The request contains invalid values; `errors` names all of them", []*server.Error{
		server.Invalid("weight_grams", "must be greater than 0"),
		server.Invalid("limit", "must be at most 100"),
		server.Invalid("id", "must be a UUID"),
	}},
	{429, "TooManyRequests", "Too many requests", []*server.Error{server.ErrTooMany}},
	{500, "InternalError", "Internal error", []*server.Error{server.ErrInternal}},
	{503, "Unavailable", "The service is temporarily unavailable: its database is, it has too much to do, or another " +
		"request or command held a lock for more than 5 seconds. Unless `detail` says that the outcome is unknown, the " +
		"request has changed nothing",
		[]*server.Error{server.ErrUnavailable}},
}

func failures(route server.Route) []failure {
	e, absent := route.Endpoint, strings.Contains(route.Path(), "{")
	badRequest := failure{status: 400, what: "The request cannot be executed"}
	unauthorized := failure{status: 401, what: "The credentials are not valid"}
	conflict := failure{status: 409, what: "The request contradicts an earlier one"}
	if e.ReadsBody() || route.Idempotent {
		badRequest.errors = append(badRequest.errors, server.ErrMalformed)
	}
	for _, e := range route.Doc.Errors {
		switch e.Status {
		case 401:
			unauthorized.errors = append(unauthorized.errors, e)
		case 404:
			absent = true
		case 409:
			conflict.errors = append(conflict.errors, e)
		default:
			badRequest.errors = append(badRequest.errors, e)
		}
	}
	if len(unauthorized.errors) > 0 && route.Access != server.Public {
		unauthorized.errors = append(unauthorized.errors, unauthenticated...)
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
			applies = route.Access != server.Public && len(unauthorized.errors) == 0
		case 403:
			applies = route.Access != server.Public || route.UsersOnly
		case 404:
			applies = absent
		case 409:
			applies = route.Idempotent
			if len(conflict.errors) > 0 {
				if applies {
					conflict.errors = append(conflict.errors, f.errors...)
				}
				f, applies = conflict, true
			}
		case 413:
			applies = e.ReadsBody() || route.Idempotent || e.Limit > 0
		case 415:
			applies = e.ReadsBody()
			if e.Media != "" {
				f = failure{status: 415, what: "The body is not sent as " + e.Media}
				f.errors, applies = []*server.Error{server.ErrNotMedia(e.Media, e.Others...)}, true
			}
		default:
			applies = true
		}
		if applies {
			all = append(all, f)
		}
	}
	return all
}

// response returns the response object of the failure. Each error is an example in it.
func (f failure) response() object {
	schema, examples, codes := "Error", object{}, []string{}
	for _, e := range f.errors {
		name := e.Code
		if e.Status == 422 {
			schema, name = "ValidationError", e.Fields[0].Field
		}
		if code := "`" + e.Code + "`"; !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
		used := func(m member) bool { return m.name == name }
		for n := 2; slices.ContainsFunc(examples, used); n++ { // errors with different details can share a code
			name = fmt.Sprintf("%s_%d", e.Code, n)
		}
		examples.add(name, object{{"value", json.RawMessage(e.Body(exampleID))}})
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
func errorTable(routes []server.Route) string {
	rows := map[string]bool{}
	add := func(errors ...*server.Error) {
		for _, e := range errors {
			rows[strconv.Itoa(e.Status)+" | `"+e.Code+"`"] = true
		}
	}
	add(server.ErrMethod)
	for _, route := range routes {
		for _, f := range failures(route) {
			add(f.errors...)
		}
	}
	return "| Status | Code |\n|---|---|\n| " + strings.Join(slices.Sorted(maps.Keys(rows)), " |\n| ") + " |\n"
}
