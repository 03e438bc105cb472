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
	Pattern    string // method and path, such as "GET /api/v1/spools/{id}"; the wildcards are UUIDs
	Access     Access
	Endpoint   Endpoint
	Doc        *Doc
	Idempotent bool // accepts an Idempotency-Key
}

// Op makes a Route. It accepts an Idempotency-Key if it is a POST of a user.
func Op(pattern string, access Access, endpoint Endpoint, doc *Doc) Route {
	return Route{pattern, access, endpoint, doc, strings.HasPrefix(pattern, "POST ") && access != Public}
}

// WithoutKey returns the route without support for an Idempotency-Key.
func (r Route) WithoutKey() Route {
	r.Idempotent = false
	return r
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
	Errors      []*Error // the errors with status 400 and 401 that only this operation returns
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

// Answers of a handler are JSON texts; nil goes with an error. The kind decides the status, and T is the type of the
// resource in the OpenAPI document.
type (
	OK[T any]   []byte // 200 with a resource
	Page[T any] []byte // 200 with a list; ListPage makes it

	// Created is a 201 with a resource, whose path (the Location) is the request's path and the resource's id.
	Created[T any] []byte

	// NoContent is a 204; its only value is nil.
	NoContent []byte
)

type answer interface {
	~[]byte
	kind() answerKind
}

// answerKind is what the OpenAPI document and the response line need to know of an answer.
type answerKind struct {
	status int
	item   reflect.Type // of the resource, or of a list's items; nil without a body
	list   bool
}

func (OK[T]) kind() answerKind      { return answerKind{status: 200, item: reflect.TypeFor[T]()} }
func (Created[T]) kind() answerKind { return answerKind{status: 201, item: reflect.TypeFor[T]()} }
func (Page[T]) kind() answerKind {
	return answerKind{status: 200, item: reflect.TypeFor[T](), list: true}
}
func (NoContent) kind() answerKind { return answerKind{status: 204} }

// One returns the first row of a statement that was run, as JSON: the answer about one resource. It returns err if that
// is not nil, and ErrNotFound if the statement returned no row.
func One(s *db.Stmt, err error) ([]byte, error) {
	if err := Found(s, err); err != nil {
		return nil, err
	}
	return s.Object(), nil
}

// Found is One for answers without a body.
func Found(s *db.Stmt, err error) error {
	if err == nil && s.Rows() == 0 {
		return ErrNotFound
	}
	return err
}

// Response is an answer as it is sent, and kept for a repeated Idempotency-Key.
type Response struct {
	Status   int
	Location string
	Body     []byte
}

// Endpoint is a handler with the types of its request and answer. Handle makes one.
type Endpoint struct {
	in      reflect.Type // struct{} if nothing is read
	out     answerKind
	prepare func(context.Context, call) (run, error)
}

// call is a request as its operation has read it.
type call struct {
	ids     map[string]string // the path parameters
	address string            // of the client, as the rate limits see it
	query   string
	body    []byte
	patch   bool // the method is PATCH
}

// run is the part of a handler that may be in a transaction. After a deadlock it is called again.
type run func(context.Context) ([]byte, error)

// Handle makes an endpoint of fn. In decides what is read: a struct with `query` tags the URL's query, struct{} nothing,
// any other struct the JSON body. Out decides the status. After a deadlock fn may run again with an equal Request.
func Handle[In any, Out answer](fn func(context.Context, *Request[In]) (Out, error)) Endpoint {
	nothing := func(context.Context, *Request[In]) (struct{}, error) { return struct{}{}, nil }
	return HandlePrepared(nothing, func(ctx context.Context, r *Request[In], _ struct{}) (Out, error) { return fn(ctx, r) })
}

// HandlePrepared is Handle for work that takes long and needs no transaction, such as hashing a password: prepare does
// it once, before the transaction of an Idempotency-Key begins, and fn gets the result.
func HandlePrepared[In, P any, Out answer](
	prepare func(context.Context, *Request[In]) (P, error),
	fn func(context.Context, *Request[In], P) (Out, error),
) Endpoint {
	var none Out
	e := Endpoint{in: reflect.TypeFor[In](), out: none.kind()}
	query, body := e.readsQuery(), e.readsBody()
	e.prepare = func(ctx context.Context, c call) (run, error) {
		r := Request[In]{Address: c.address, ids: c.ids}
		var err error
		switch {
		case query:
			err = decodeQuery(c.query, &r.In)
		case body:
			err = decodeBody(c.body, &r.In, c.patch)
		}
		if err != nil {
			return nil, err
		}
		prepared, err := prepare(ctx, &r)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) ([]byte, error) {
			again := r // fn may change its Request
			return fn(ctx, &again, prepared)
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

// PathOf fills ids into a path pattern.
func PathOf(pattern string, ids ...string) string {
	for _, id := range ids {
		start, end := strings.IndexByte(pattern, '{'), strings.IndexByte(pattern, '}')
		pattern = pattern[:start] + url.PathEscape(id) + pattern[end+1:]
	}
	return pattern
}

// Encode makes an OK of a Go value, for answers that do not come from the database.
func Encode[T any](v T) (OK[T], error) { return json.Marshal(v) }
