package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// resource is a path of the mux with its handlers by method. GET also handles HEAD.
type resource struct {
	s        *Server
	by       string // see MuxPath
	handlers map[string]http.Handler
}

// handle registers the handler of a pattern such as "GET /healthz". It panics if the pattern has a handler.
func (s *Server) handle(pattern string, handler http.Handler) {
	method, path, _ := strings.Cut(pattern, " ")
	p := s.resources[path]
	if p == nil {
		p = &resource{s: s, handlers: map[string]http.Handler{}}
		s.resources[path] = p
		path, p.by = MuxPath(path)
		s.mux.Handle(path, p)
	}
	if p.handlers[method] != nil {
		panic("server: two routes have the pattern " + pattern)
	}
	p.handlers[method] = named(pattern)(handler)
}

// MuxPath converts the path of a route to a pattern of a mux. It replaces a segment such as by-number with the
// wildcard {by}, and returns the segment as by. With the literal segment, the mux would reject
// /spools/by-number/{number} and /spools/{id}/usage as conflicting patterns.
func MuxPath(path string) (pattern, by string) {
	start, rest, ok := strings.Cut(path, "/by-")
	if !ok {
		return path, ""
	}
	noun, rest, _ := strings.Cut(rest, "/")
	return start + "/{by}/" + rest, "by-" + noun
}

// ServeHTTP calls the method's handler. For a method without a handler, it answers 405 with the list of the path's
// methods.
func (p *resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("by") != p.by {
		p.s.reject(w, r, errNoPath)
		return
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if handler := p.handlers[method]; handler != nil {
		handler.ServeHTTP(w, r)
		return
	}
	allow := slices.Collect(maps.Keys(p.handlers))
	if p.handlers[http.MethodGet] != nil {
		allow = append(allow, http.MethodHead)
	}
	slices.Sort(allow)
	e := *ErrMethod
	e.Header = http.Header{"Allow": {strings.Join(allow, ", ")}}
	p.s.reject(w, r, &e)
}

// isClean reports whether a path has no empty, "." or ".." elements. ServeMux would redirect other paths.
func isClean(p string) bool {
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean == p && strings.HasPrefix(p, "/")
}

// reject answers a request that no route serves with the error e.
func (s *Server) reject(w http.ResponseWriter, r *http.Request, e *Error) {
	s.unknown(e, strings.HasPrefix(r.URL.Path+"/", apiPrefix)).ServeHTTP(w, r)
}

// operation runs a route of the API.
type operation struct {
	s     *Server
	route Route
	names []string // the names of the path parameters

	parameters []string // the names of the query parameters

	current *operation // the GET operation of the same path, if its responses have an ETag
	whole   *operation // for a path below that of a resource whose responses have an ETag, the resource's GET operation
	tagged  bool       // whether the responses have an ETag

	secrets []*regexp.Regexp // match the secret fields of responses; group 1 is the name and the colon
}

func (s *Server) operation(route Route) *operation {
	o := &operation{s: s, route: route, names: wildcards(route.Pattern), parameters: route.Endpoint.parameterNames()}
	if item := route.Endpoint.Out.Item; item != nil {
		for _, f := range SchemaOfType(item).Fields {
			if f.Secret {
				// The expression cannot match within a JSON string, because quotes are escaped there.
				o.secrets = append(o.secrets, regexp.MustCompile(`("`+f.Name+`": *)"[^"\\]*"`))
			}
		}
	}
	return o
}

// responder runs a call of an operation, also more than once. The context can be that of a transaction.
type responder func(ctx context.Context, c call) (response, error)

// answer returns the handler that decodes a request, lets respond run it, and sends the response. Only respond is in a
// transaction. Therefore an invalid body is a 400 or 422 even if the Idempotency-Key was used for another request, and
// needs no connection to the database. The path, the query, the headers and the body are checked in this order.
func (o *operation) answer(respond responder) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		answer, err := o.respond(w, r, respond)
		if err != nil {
			return err
		}
		return o.send(w, r, answer)
	}
}

func (o *operation) respond(w http.ResponseWriter, r *http.Request, respond responder) (answer response, err error) {
	c, err := o.read(w, r)
	if err != nil {
		return answer, err
	}
	if limit := o.route.Endpoint.Limit; limit > 0 {
		// The whole of a small body may be in memory, but only a part of a large one.
		size := int(min(limit, 8<<20))
		if limit > 8<<20 {
			size = 1 << 20
		}
		if err := infoOf(r).keep(r.Context(), size, 0); err != nil {
			return answer, err
		}
	}
	if o.route.Endpoint.Out.List {
		if n, _ := strconv.Atoi(c.query.Get("limit")); n > 20 { // before anything is read
			if err := infoOf(r).keep(r.Context(), fileInFlight, fileWait); err != nil {
				return answer, err
			}
		}
	}
	decoded := c.body
	if !o.route.Endpoint.ReadsBody() {
		decoded = nil
	}
	c.run, err = DecodesBody(r.Context(), decoded, func() (run, error) { return o.route.Endpoint.prepare(r.Context(), c) })
	if err != nil {
		return answer, err
	}
	return respond(r.Context(), c)
}

// send sends a response, and a 304 for a representation that the client has.
func (o *operation) send(w http.ResponseWriter, r *http.Request, answer response) error {
	if answer.replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	if answer.location != "" {
		w.Header().Set("Location", answer.location)
	}
	if answer.status == http.StatusNoContent {
		if answer.body != nil {
			w.Header().Set("Warnings", ascii(answer.body))
		}
		w.WriteHeader(answer.status)
		return nil
	}
	if o.tagged {
		tag := etag(answer.body)
		w.Header().Set("ETag", tag)
		if o.route.Lock != nil && isKnown(r, tag) {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	var encoded []byte
	// Two representations need two ETags. No large response has a secret, so compression reveals none.
	if o.route.Endpoint.Out.List || !o.tagged && len(answer.body) > smallBody {
		encoded = compressed(w, r, answer.body)
	}
	if err := infoOf(r).keepAnswer(r, cmp.Or(len(encoded), len(answer.body))); err != nil {
		return err
	}
	if encoded != nil {
		w.Header().Set("Content-Encoding", "gzip")
		send(w, answer.status, encoded)
	} else {
		writeJSON(w, answer.status, answer.body)
	}
	return nil
}

// asJSON sends an error. Then it reads the rest of a body that is read while it arrives.
func (o *operation) asJSON(w http.ResponseWriter, r *http.Request, e *Error) {
	asJSON(w, r, e)
	if limit := o.route.Endpoint.Limit; limit > 0 {
		drain(w, r, max(drainBytes, limit))
	}
}

// read returns the parts of the request that the operation needs. It adds problems with the path, the query and the
// headers to c.problems. The error is an error of reading the body.
func (o *operation) read(w http.ResponseWriter, r *http.Request) (c call, err error) {
	info := infoOf(r)
	info.quiet = o.route.Quiet
	c = call{patch: o.route.IsPartial(), address: info.address, limits: o.s.limits(info.caller), known: o.current}
	if info.called { // a page changes a part of what it has shown
		c.known = cmp.Or(o.current, o.whole)
	}
	c.ids = readIDs(r, o.names, &c.problems)
	c.query = readQuery(r.URL.RawQuery, o.parameters, &c.problems)
	if r.Header["If-Match"] != nil {
		c.tags = entityTags(r, "If-Match")
		changes := r.Method == http.MethodPut || r.Method == http.MethodPatch || r.Method == http.MethodDelete
		if o.current == nil && changes && !info.called {
			c.problems.Add("If-Match", "is not supported by this operation")
		}
	}
	if o.route.Idempotent {
		c.key = IdempotencyKey(r, &c.problems)
	}
	switch {
	case o.route.Endpoint.ReadsBody():
		c.optional = o.route.Endpoint.Optional
		c.body, err = readMedia(w, r, c.optional, jsonMedia)
	case o.route.Endpoint.Limit > 0:
		if err = checkMedia(r, o.route.Endpoint.Media); err == nil {
			c.stream, c.sum = newStreamBody(w, r, o.route.Endpoint.Limit), new([]byte)
		}
	case o.route.Endpoint.Media != "":
		c.body, err = readMedia(w, r, false, o.route.Endpoint.Media, o.route.Endpoint.Others...)
	case r.Body != http.NoBody:
		c.body, err = ReadBody(w, r)
		if text := bytes.Join(bytes.Fields(c.body), nil); len(text) > 0 && string(text) != "{}" {
			c.problems.Add("body", "must be empty, because this operation reads no body")
		}
	}
	if err != nil && err != ErrTooLarge {
		err = c.problems.join(err)
	}
	return c, err
}

func (o *operation) run(ctx context.Context, c call) (answer response, err error) {
	body, existing, err := c.run(ctx)
	if err != nil {
		return answer, err
	}
	return o.response(c, body, existing)
}

// response returns the response with the result of a handler. Existing reports whether the handler called
// Request.Existing.
func (o *operation) response(c call, body []byte, existing bool) (response, error) {
	answer := response{status: o.route.Endpoint.Out.Status, body: body, stored: body}
	if existing {
		answer.status = http.StatusOK
	}
	for _, secret := range o.secrets {
		answer.stored = secret.ReplaceAll(answer.stored, []byte(`${1}""`))
	}
	if answer.status != http.StatusCreated {
		return answer, nil
	}
	id, err := idOf(body)
	if id == "" {
		answer.location = path.Dir(o.path(c))
	} else {
		answer.location = o.path(c) + "/" + id
	}
	return answer, err
}

// ascii returns a JSON text with escapes instead of letters that a header cannot have.
func ascii(text []byte) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(string(text))) {
		if unit < 128 {
			b.WriteByte(byte(unit))
		} else {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// idOf returns the id of a resource, or "" if the resource has none. It stops decoding after the id, which is usually
// the first field.
func idOf(resource []byte) (id string, err error) {
	d := json.NewDecoder(bytes.NewReader(resource))
	_, err = d.Token() // the brace
	for err == nil && d.More() {
		var name json.Token
		if name, err = d.Token(); err != nil {
			break
		}
		if name == "id" {
			err = d.Decode(&id)
			break
		}
		var other json.RawMessage
		err = d.Decode(&other)
	}
	return id, err
}

// path returns the path of the call, with ids in canonical form.
func (o *operation) path(c call) string { return PathOf(o.route.Path(), c.ids.values...) }
