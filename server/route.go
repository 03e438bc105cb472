package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"spoolwright/db"
	"spoolwright/server/limit"
	"spoolwright/value"
)

// Access is the access level that a route requires or a caller has.
type Access int

// The access levels. Each includes the previous ones.
const (
	Public Access = iota // no token
	Read                 // any role, except API keys of printers and watchers
	Write                // operator and admin
	Admin                // admin
)

// Route is an operation of the API. The mux, the access check, the OpenAPI document and tests of all operations use
// the features' lists of routes.
type Route struct {
	Pattern    string // method and path, such as "GET /api/v1/spools/{id}"; wildcards are UUIDs, and {number} a number
	Access     Access
	Endpoint   Endpoint
	Doc        *Doc
	Idempotent bool // accepts an Idempotency-Key
	UsersOnly  bool // rejects API keys with a 403; by default, operators' and viewers' keys have their access level
	KeysOnly   bool // requires an API key of any role, also of a printer; users get a 403
	Watchers   bool // also accepts API keys of watchers
	Quiet      bool // changes nothing that pages show
	SettingUp  bool // accepts users who must set up a second factor first
	Lock       Lock // on the GET route of a resource with an ETag, the lock of the resource; otherwise nil
}

// Op returns a Route. The route accepts an Idempotency-Key if it is a POST and requires a user or an API key.
func Op(pattern string, access Access, endpoint Endpoint, doc *Doc) Route {
	idempotent := strings.HasPrefix(pattern, "POST ") && access != Public
	return Route{Pattern: pattern, Access: access, Endpoint: endpoint, Doc: doc, Idempotent: idempotent}
}

// ForUsers returns a copy of the route that rejects API keys. Operations on accounts and API keys need ForUsers, so
// that a key cannot create another key.
func (r Route) ForUsers() Route {
	r.UsersOnly = true
	return r
}

// ForKeys returns a copy of the route that requires an API key. The route accepts keys of printers.
func (r Route) ForKeys() Route {
	r.KeysOnly = true
	return r
}

// Silent returns a copy of the route whose requests change nothing that pages show, so that no page is read again.
func (r Route) Silent() Route {
	r.Quiet = true
	return r
}

// ForWatchers returns a copy of the route that also accepts API keys of watchers.
func (r Route) ForWatchers() Route {
	r.Watchers = true
	return r
}

// ForSettingUp returns a copy of the route that accepts users who must set up a second factor first.
func (r Route) ForSettingUp() Route {
	r.SettingUp = true
	return r
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

// IsPartial reports whether the body contains only the fields of a resource that a PATCH changes.
func (r Route) IsPartial() bool {
	return r.Method() == http.MethodPatch && !SchemaOfType(r.Endpoint.In).hasParts()
}

// Doc is the part of a route's documentation that its types do not contain.
type Doc struct {
	ID          string   // operationId
	Tag         *Tag     // the group in which documentation pages show the operation
	Summary     string   // one line without a full stop
	Description string   // Markdown
	Errors      []*Error // the operation's own errors with status 400, 401 and 409; ErrNotFound if the path has no id
	Request     string   // an example of the body, if the examples of its fields do not suffice

	// Events means that the operation registers the request's "url" as a receiver of events. The OpenAPI document then
	// describes the events also as callbacks of the operation, because some generators of clients read only schemas
	// that the paths refer to.
	Events bool
}

// Tag is a group of operations in the OpenAPI document.
type Tag struct {
	Name, Description string

	// Leads puts the tag before the tags without it in the documentation. It is for what most clients look for.
	Leads bool

	// Fields describes the fields of the operations' types, in Markdown: under a heading such as "## inventory.Spool",
	// a table with the columns field, description and example. An example that is a text needs no quotes.
	Fields string
}

// With returns a copy of the tag that describes further fields too.
func (t *Tag) With(fields ...string) *Tag {
	more := *t
	more.Fields += strings.Join(fields, "")
	return &more
}

// Event is a type of events that the service sends to webhooks.
type Event struct {
	Type        string // such as "production_run.completed"
	Tag         *Tag
	Summary     string       // one line without a full stop
	Description string       // Markdown
	Data        reflect.Type // the type of the field data
}

// Request is the decoded and validated request that a handler gets. The context contains the caller's identity.
type Request[In any] struct {
	In In
	request
}

// request is the part of a Request that does not depend on its input.
type request struct {
	Address  string       // the client's address, as in the rate limits
	Limits   limit.Limits // the rate limits of the caller
	ids      pathIDs
	existing bool
}

// Existing sets the status of a CreatedOrExisting to 200: the request has created nothing.
func (r *request) Existing() { r.existing = true }

// ID returns a path parameter, a UUID in canonical form.
func (r *request) ID(name string) string { return r.ids.get(name) }

// Number returns the path parameter number.
func (r *request) Number() int64 {
	n, _ := strconv.ParseInt(r.ids.get(NumberParameter), 10, 64)
	return n
}

func (r *request) shared() *request { return r }

// requester is a *Request of any input. Handle and similar functions have the pointer as their type parameter R, which
// has no constraint: Go compiles such a function once for all pointers, and would compile it for each type of input.
type requester interface{ shared() *request }

// A handler returns one of these results, a JSON text, or nil with an error. The Go type of the result determines the
// status. T is the type of the resource in the OpenAPI document.
type (
	OK[T any]   []byte // 200 with a resource
	Page[T any] []byte // 200 with a list, from ListPage

	// Created is a 201 with a resource. The Location is the request's path followed by the resource's id. If T has no
	// id, because T contains several new resources, the Location is the list of the resources: the request's path
	// without its last segment.
	Created[T any] []byte

	// CreatedOrExisting is a Created, or, after a call of Request.Existing, a 200 with a resource that an equal
	// request created earlier.
	CreatedOrExisting[T any] []byte

	// NoContent is a 204. It is nil, or a list of warnings for the header Warnings.
	NoContent []byte
)

type result interface {
	~[]byte
	outcome() outcome
}

// outcome describes a type of results.
type outcome struct {
	Status   int
	Item     reflect.Type // the type of the resource, or of a list's items; nil without a body
	List     bool
	Existing bool // whether the status may also be 200
}

func (OK[T]) outcome() outcome      { return outcome{Status: 200, Item: reflect.TypeFor[T]()} }
func (Created[T]) outcome() outcome { return outcome{Status: 201, Item: reflect.TypeFor[T]()} }
func (CreatedOrExisting[T]) outcome() outcome {
	return outcome{Status: 201, Item: reflect.TypeFor[T](), Existing: true}
}
func (Page[T]) outcome() outcome {
	return outcome{Status: 200, Item: reflect.TypeFor[T](), List: true}
}
func (NoContent) outcome() outcome { return outcome{Status: 204} }

// One returns the first row of a statement as JSON. Err is the error of running the statement; One returns err if it
// is not nil, and ErrNotFound if the statement returned no row.
func One(s *db.Stmt, err error) ([]byte, error) {
	if err := Found(s, err); err != nil {
		return nil, err
	}
	return s.Object(), nil
}

// Extend returns a JSON object with another field.
func Extend(object []byte, name string, field any) ([]byte, error) {
	encoded, err := json.Marshal(field)
	return fmt.Appendf(nil, `%s,"%s":%s}`, object[:len(object)-1], name, encoded), err
}

// Found returns err, the error of running a statement, if it is not nil, and ErrNotFound if the statement returned no
// row.
func Found(s *db.Stmt, err error) error {
	if err == nil && s.Rows() == 0 {
		return ErrNotFound
	}
	return err
}

// response is a successful response. The service sends it, and stores it for an Idempotency-Key.
type response struct {
	status   int
	location string
	body     []byte
	stored   []byte // body without the secrets, to store for an Idempotency-Key
	replayed bool   // whether it is the stored one
}

// Endpoint is a handler with the types of its request and result. Handle and similar functions return an Endpoint.
type Endpoint struct {
	In       reflect.Type // struct{} if the handler reads neither query nor body
	Out      outcome
	Optional bool                      // whether the body may be missing
	Media    string                    // the media type of the body, if the body is not JSON
	Others   []string                  // other media types that the body may have
	Example  string                    // an example of a body with the type Media
	File     string                    // the media type of the response, if HandleFile made the endpoint
	Limit    int64                     // the maximum size of a body that is read while it arrives; see HandleStream
	export   func(call) (*file, error) // opens the response, if the response is a file

	events func(c call, last string) (Poll, error) // see HandleEvents

	picture func(context.Context, call) (p *Picture, known bool, err error) // see HandlePicture
	prepare func(context.Context, call) (run, error)
	request reflect.Type // Request[In]
}

// IsExport reports whether the response is a file with one of the ExportMedia.
func (e Endpoint) IsExport() bool { return e.export != nil && e.File == "" }

// IsPicture reports whether the response is a picture.
func (e Endpoint) IsPicture() bool { return e.picture != nil }

// OptionalBody returns a copy of the endpoint that also accepts requests without a body. The handler then gets a
// request in which no field is set.
func (e Endpoint) OptionalBody() Endpoint {
	e.Optional = true
	return e
}

// call contains the parts of a request that its endpoint needs.
type call struct {
	ids      pathIDs
	problems Problems // the problems with the path, the names of query parameters, the headers and the body
	address  string   // the client's address, as in the rate limits
	limits   limit.Limits
	query    url.Values
	body     []byte
	stream   io.Reader // the body of an endpoint from HandleStream
	sum      *[]byte   // set by such an endpoint: stands for the body in the fingerprint of the request
	optional bool      // whether the body may be empty
	patch    bool      // whether the body is partial

	key   string     // the Idempotency-Key, or ""
	tags  []string   // those of If-Match
	known *operation // the GET operation that the tags belong to, or nil
	run   run        // the prepared call
}

// run executes a prepared call. If the transaction is retried, run is called again. Existing reports whether the
// handler called Request.Existing.
type run func(context.Context) (body []byte, existing bool, err error)

// Handle returns the endpoint of the handler fn. R is *Request[In], and In determines the input: for a struct with
// `query` tags it is the URL's query, for struct{} there is none, and for any other struct it is the JSON body. Out
// determines the status. If a transaction is retried, fn is called again with an equal Request.
func Handle[R any, Out result](fn func(context.Context, R) (Out, error)) Endpoint {
	var out Out
	return handle(reflect.TypeFor[R](), out.outcome(), nil,
		func(ctx context.Context, r, _ any) ([]byte, error) { return fn(ctx, r.(R)) })
}

// HandleGet returns the endpoint of a resource T. Read returns the statement that reads the resource with the id in
// the path.
func HandleGet[T any](d *db.DB, read func(id string) *db.Stmt) Endpoint {
	return Handle(func(ctx context.Context, r *Request[struct{}]) (OK[T], error) {
		resource := read(r.ID("id"))
		return One(resource, d.Read(ctx, resource))
	})
}

// HandlePrepared is Handle for handlers with long work that needs no transaction, such as hashing a password. It calls
// prepare once, before the transaction of an Idempotency-Key begins, and passes the result to fn.
func HandlePrepared[R, P any, Out result](
	prepare func(context.Context, R) (P, error), fn func(context.Context, R, P) (Out, error),
) Endpoint {
	var out Out
	return handle(reflect.TypeFor[R](), out.outcome(),
		func(ctx context.Context, r any, _ call) (any, error) { return prepare(ctx, r.(R)) },
		func(ctx context.Context, r, prepared any) ([]byte, error) { return fn(ctx, r.(R), prepared.(P)) })
}

// handle is HandlePrepared for handlers without static types. Prepare may be nil.
func handle(request reflect.Type, out outcome, prepare func(context.Context, any, call) (any, error),
	fn func(ctx context.Context, r, prepared any) ([]byte, error)) Endpoint {
	e := endpointOf(request, out)
	decode := e.decoder()
	e.prepare = func(ctx context.Context, c call) (run, error) {
		decoded, err := decode(c)
		if err != nil {
			return nil, err
		}
		var prepared any
		if prepare != nil {
			if prepared, err = prepare(ctx, decoded.Interface(), c); err != nil {
				return nil, err
			}
		}
		return func(ctx context.Context) ([]byte, bool, error) {
			r := reflect.New(request.Elem()) // a copy, because fn may change its fields, except entries of lists
			r.Elem().Set(decoded.Elem())
			body, err := fn(ctx, r.Interface(), prepared)
			return body, r.Interface().(requester).shared().existing, err
		}, nil
	}
	return e
}

func endpointOf(request reflect.Type, out outcome) Endpoint {
	return Endpoint{request: request.Elem(), In: request.Elem().Field(0).Type, Out: out}
}

// decoder returns the function that decodes the requests of the endpoint. It returns a *Request[In].
func (e Endpoint) decoder() func(call) (reflect.Value, error) {
	query, body := e.ReadsQuery(), e.ReadsBody()
	var item reflect.Type
	if e.Out.List {
		item = e.Out.Item
	}
	return func(c call) (reflect.Value, error) {
		r := reflect.New(e.request)
		parts, in := r.Interface().(requester).shared(), r.Elem().Field(0).Addr().Interface()
		parts.Address, parts.Limits, parts.ids = c.address, c.limits, c.ids
		var err error
		switch {
		case query:
			err = decodeQuery(c.query, in, item)
		case body && !(c.optional && len(c.body) == 0):
			err = decodeBody(c.body, in, c.patch)
		}
		return r, c.problems.join(err)
	}
}

// ReadsQuery reports whether the endpoint reads the query of the URL.
func (e Endpoint) ReadsQuery() bool {
	return e.In.NumField() > 0 && SchemaOfType(e.In).Fields[0].Query
}

// ReadsBody reports whether the endpoint reads a JSON body.
func (e Endpoint) ReadsBody() bool { return e.In.NumField() > 0 && !e.ReadsQuery() }

// NumberParameter is the name of the only path parameter that is not a UUID: a number from 1 to MaxNumber.
const (
	NumberParameter = "number"
	MaxNumber       = 999_999_999
)

// pathIDs are the parameters of a path, in its order.
type pathIDs struct{ names, values []string }

// get returns the value of a parameter, or "" if there is none.
func (p pathIDs) get(name string) string {
	if i := slices.Index(p.names, name); i >= 0 {
		return p.values[i]
	}
	return ""
}

// readIDs returns the path parameters in canonical form. A parameter that is not a UUID or, for NumberParameter, not a
// number, becomes one of the problems.
func readIDs(r *http.Request, names []string, problems *Problems) pathIDs {
	p := pathIDs{names, make([]string, len(names))}
	for i, name := range names {
		text, ok := r.PathValue(name), false
		if name == NumberParameter {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || n < 1 || n > MaxNumber || strconv.FormatInt(n, 10) != text {
				problems.Add(name, "must be a whole number from 1 to %d", MaxNumber)
			}
			p.values[i] = text
		} else if p.values[i], ok = value.ParseID(text); !ok {
			problems.Add(name, "must be a UUID")
		}
	}
	return p
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

// PathOf returns the path that results from replacing the wildcards of a pattern, from left to right, by ids.
func PathOf(pattern string, ids ...string) string {
	for _, id := range ids {
		start, end := strings.IndexByte(pattern, '{'), strings.IndexByte(pattern, '}')
		pattern = pattern[:start] + url.PathEscape(id) + pattern[end+1:]
	}
	return pattern
}

// Encode returns v as JSON, for handlers whose result is a Go value and not a row of the database.
func Encode[T any](v T) (OK[T], error) { return json.Marshal(v) }
