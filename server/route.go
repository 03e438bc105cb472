package server

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"spoolwright/db"
)

// Access says who may call a route.
type Access int

// The levels of access. Each includes those before it.
const (
	Public Access = iota // no token
	Read                 // any role
	Write                // operator and admin
	Admin                // admin
)

// Route is one operation of the API: a line in a feature's list. The mux, the access check, the OpenAPI document and the
// table tests are all made from the joined lists.
type Route struct {
	Pattern  string // of http.ServeMux, such as "GET /api/v1/spools/{id}"
	Access   Access
	Endpoint Endpoint
	Doc      *Doc
}

// Op makes a Route; it lets a feature's list be one line for each operation.
func Op(pattern string, access Access, endpoint Endpoint, doc *Doc) Route {
	return Route{pattern, access, endpoint, doc}
}

// Method returns the pattern's method.
func (r Route) Method() string { method, _, _ := strings.Cut(r.Pattern, " "); return method }

// Path returns the pattern's path.
func (r Route) Path() string { _, path, _ := strings.Cut(r.Pattern, " "); return path }

// Doc is what the OpenAPI document says of a route beyond what its types say.
type Doc struct {
	ID          string   // operationId
	Tag         *Tag     // the group it is shown in
	Summary     string   // a line
	Description string   // Markdown; the decisions that matter to a caller
	Refusals    []string // 400 answers that are this operation's own: "CODE: an example of the detail"
	Denials     []string // the same for 401 answers; needed for a public operation that has any
	Request     string   // a real example of the body, if the fields' examples do not make one
}

// Tag is a group of operations in the OpenAPI document.
type Tag struct{ Name, Description string }

// Request is what a handler gets: decoded, validated, and with the caller's identity in the context.
type Request[In any] struct {
	In      In
	Address string // the client's, as limits see it
	ids     map[string]string
}

// ID returns a path parameter; it is a canonical UUID.
func (r *Request[In]) ID(name string) string { return r.ids[name] }

// Answers of a handler. The type parameter names the resource for the OpenAPI document; the JSON comes as PostgreSQL's
// rows were encoded.
type (
	// OK is a 200 with a resource.
	OK[T any] struct{ JSON []byte }

	// Created is a 201 with a resource and its own path.
	Created[T any] struct {
		JSON     []byte
		Location string
	}

	// Page is a 200 with a list.
	Page[T any] struct {
		Items []byte
		Total int64
		Skip  int64
		Limit int64
	}

	// NoContent is a 204.
	NoContent struct{}
)

// Response is an answer on its way out.
type Response struct {
	Status   int
	Location string
	Body     []byte
}

type answer interface {
	response() Response
	describe() (status int, item reflect.Type, list bool)
}

func (a OK[T]) response() Response { return Response{Status: 200, Body: a.JSON} }
func (a Created[T]) response() Response {
	return Response{Status: 201, Location: a.Location, Body: a.JSON}
}
func (NoContent) response() Response { return Response{Status: 204} }
func (a Page[T]) response() Response {
	b := make([]byte, 0, len(a.Items)+80)
	b = append(b, `{"items":`...)
	b = append(b, a.Items...)
	for _, n := range []struct {
		name  string
		value int64
	}{{"total", a.Total}, {"skip", a.Skip}, {"limit", a.Limit}} {
		b = append(b, `,"`...)
		b = append(b, n.name...)
		b = append(b, `":`...)
		b = appendInt(b, n.value)
	}
	return Response{Status: 200, Body: append(b, '}')}
}

func (OK[T]) describe() (int, reflect.Type, bool)      { return 200, reflect.TypeFor[T](), false }
func (Created[T]) describe() (int, reflect.Type, bool) { return 201, reflect.TypeFor[T](), false }
func (Page[T]) describe() (int, reflect.Type, bool)    { return 200, reflect.TypeFor[T](), true }
func (NoContent) describe() (int, reflect.Type, bool)  { return 204, nil, false }

// Endpoint is a handler with what the toolkit must know of it. Handle makes one.
type Endpoint struct {
	in      reflect.Type // struct{} when nothing is read
	out     answer
	handler func(ctx context.Context, body []byte, query string, address string, ids map[string]string, change bool) (Response, error)
	prepare func(ctx context.Context, body []byte, address string, ids map[string]string, change bool) (func(context.Context) (Response, error), error)
}

// Handle makes an endpoint of fn. In decides what is read: a struct with `query` tags the URL's query, struct{} nothing,
// any other struct the JSON body. Out decides the status.
func Handle[In any, Out answer](fn func(context.Context, *Request[In]) (Out, error)) Endpoint {
	var none Out
	e := Endpoint{in: reflect.TypeFor[In](), out: none}
	query := e.readsQuery()
	body := e.readsBody()
	e.handler = func(ctx context.Context, text []byte, rawQuery, address string, ids map[string]string, change bool) (Response, error) {
		r := &Request[In]{Address: address, ids: ids}
		var err error
		switch {
		case query:
			err = decodeQuery(rawQuery, &r.In)
		case body:
			err = decodeBody(text, &r.In, change)
		}
		if err != nil {
			return Response{}, err
		}
		out, err := fn(ctx, r)
		if err != nil {
			return Response{}, err
		}
		return out.response(), nil
	}
	return e
}

// HandlePrepared is Handle for work that takes long and needs no transaction, such as hashing a password: prepare does it,
// and fn gets its result. A request with an Idempotency-Key is prepared before its transaction begins.
func HandlePrepared[In, P any, Out answer](prepare func(context.Context, *Request[In]) (P, error), fn func(context.Context, *Request[In], P) (Out, error)) Endpoint {
	var none Out
	e := Endpoint{in: reflect.TypeFor[In](), out: none}
	e.prepare = func(ctx context.Context, text []byte, address string, ids map[string]string, change bool) (func(context.Context) (Response, error), error) {
		r := &Request[In]{Address: address, ids: ids}
		if err := decodeBody(text, &r.In, change); err != nil {
			return nil, err
		}
		prepared, err := prepare(ctx, r)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (Response, error) {
			out, err := fn(ctx, r, prepared)
			if err != nil {
				return Response{}, err
			}
			return out.response(), nil
		}, nil
	}
	return e
}

func (e Endpoint) readsQuery() bool {
	return e.in.NumField() > 0 && schemaOf(e.in).Fields[0].Query
}

func (e Endpoint) readsBody() bool { return e.in.NumField() > 0 && !e.readsQuery() }

// pathIDs checks the path parameters: all of them are UUIDs.
func pathIDs(r *http.Request, names []string) (map[string]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	ids := make(map[string]string, len(names))
	var problems Problems
	for _, name := range names {
		id, ok := db.ParseID(r.PathValue(name))
		if !ok {
			problems.Add(name, "must be a UUID")
		}
		ids[name] = id
	}
	if len(problems) > 0 {
		return nil, invalid(problems)
	}
	return ids, nil
}

func wildcards(pattern string) []string {
	var names []string
	for _, part := range strings.Split(pattern, "/") {
		if strings.HasPrefix(part, "{") {
			names = append(names, strings.Trim(part, "{}"))
		}
	}
	return names
}

// PathOf fills ids into a path pattern: the Location of something new.
func PathOf(pattern string, ids ...string) string {
	for _, id := range ids {
		start, end := strings.IndexByte(pattern, '{'), strings.IndexByte(pattern, '}')
		pattern = pattern[:start] + url.PathEscape(id) + pattern[end+1:]
	}
	return pattern
}

// Encode makes an OK of a Go value, for answers that do not come from the database.
func Encode[T any](v T) (OK[T], error) {
	b, err := json.Marshal(v)
	return OK[T]{JSON: b}, err
}
