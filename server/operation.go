package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"

	"spoolwright/db"
)

// resource is a path of the mux with its handlers by method. GET also handles HEAD.
type resource struct {
	s        *Server
	by       string // see MuxPath
	handlers map[string]http.HandlerFunc
}

// handle registers the handler of a pattern such as "GET /healthz". It panics if the pattern has a handler.
func (s *Server) handle(pattern string, handler http.HandlerFunc) {
	method, path, _ := strings.Cut(pattern, " ")
	p := s.resources[path]
	if p == nil {
		p = &resource{s: s, handlers: map[string]http.HandlerFunc{}}
		s.resources[path] = p
		path, p.by = MuxPath(path)
		s.mux.Handle(path, p)
	}
	if p.handlers[method] != nil {
		panic("server: two routes have the pattern " + pattern)
	}
	p.handlers[method] = func(w http.ResponseWriter, r *http.Request) {
		infoOf(r).pattern = pattern
		handler(w, r)
	}
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
		handler(w, r)
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

var errInFlight = errors.New("too many bytes of large responses are being sent; clients read them too slowly")

// isClean reports whether a path has no empty, "." or ".." elements. ServeMux would redirect other paths.
func isClean(p string) bool {
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean == p && strings.HasPrefix(p, "/")
}

// reject answers a request that no route serves with the error e. A request below /api/v1 counts against the rate
// limits of the API, and any other request against the limit of pages.
func (s *Server) reject(w http.ResponseWriter, r *http.Request, e *Error) {
	info := infoOf(r)
	if strings.HasPrefix(r.URL.Path+"/", apiPrefix) {
		w.Header().Set("Cache-Control", "no-store")
		var err error
		info.caller, err = s.Authenticate(r, false, s.admit(info))
		if limited := s.limit(w, info, err != nil); limited != nil {
			e = limited
		}
	} else if limited := s.limitPage(info); limited != nil {
		e = limited
	}
	s.fail(w, r, e)
}

// operation runs a route of the API.
type operation struct {
	s     *Server
	route Route
	names []string // the names of the path parameters

	parameters []string // the names of the query parameters

	current *operation // the GET operation of the same path, if its responses have an ETag
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

// ServeHTTP answers a request. It checks in this order: token or API key, rate limits, role, path, query, headers,
// body.
func (o *operation) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header()["Cache-Control"] = headerNoStore
	info := infoOf(r)
	var answer Response
	var err error
	if o.route.Endpoint.export != nil {
		err = o.sendFile(w, r, info)
	} else if o.route.Endpoint.picture != nil {
		err = o.sendPicture(w, r, info)
	} else {
		answer, err = o.answer(w, r, info)
	}
	if err != nil {
		e := asError(err)
		info.err = e.err
		e.write(w, info.id)
		if e.Status == http.StatusRequestEntityTooLarge || o.route.Endpoint.Limit > 0 {
			drain(w, r, max(drainBytes, o.route.Endpoint.Limit))
		}
		return
	}
	if o.route.Endpoint.export != nil || o.route.Endpoint.picture != nil {
		return
	}
	if answer.Location != "" {
		w.Header().Set("Location", answer.Location)
	}
	if answer.Status == http.StatusNoContent {
		w.WriteHeader(answer.Status)
		return
	}
	if o.tagged {
		tag := etag(answer.Body)
		w.Header().Set("ETag", tag)
		if o.route.Lock != nil && isKnown(r, tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	var encoded []byte
	// An ETag would be that of two representations. No large response has a secret, whose length would show.
	if o.route.Endpoint.Out.List || !o.tagged && len(answer.Body) > smallBody {
		encoded = compressed(w, r, answer.Body)
	}
	if n := cmp.Or(len(encoded), len(answer.Body)); n > smallBody {
		// The response to a write is always sent, because the effect of the write is already committed.
		if !o.s.inFlight.add(info.caller.Actor.ID(), n, o.route.Method() != http.MethodGet) {
			info.err = errInFlight
			ErrUnavailable.write(w, info.id)
			return
		}
		defer o.s.inFlight.remove(info.caller.Actor.ID(), n)
	}
	if encoded != nil {
		w.Header().Set("Content-Encoding", "gzip")
		send(w, answer.Status, encoded)
		return
	}
	writeJSON(w, answer.Status, answer.Body)
}

// answer authorizes, decodes and runs the request. With an Idempotency-Key, only the run is in the transaction.
// Therefore an invalid body is a 400 or 422 even if the key was used for another request, and needs no connection to
// the database.
func (o *operation) answer(w http.ResponseWriter, r *http.Request, info *requestInfo) (Response, error) {
	ctx, err := o.authorize(w, r, info)
	if err != nil {
		return Response{}, err
	}
	c, key, err := o.read(w, r)
	if err != nil {
		return Response{}, err
	}
	c.address = info.address
	if o.route.Endpoint.Limit > 0 {
		// A small body may be read into the memory as a whole, and a large one is not.
		caller, size := info.caller.Actor.ID(), int(min(o.route.Endpoint.Limit, 8<<20))
		if o.route.Endpoint.Limit > 8<<20 {
			size = 1 << 20
		}
		if !o.s.inFlight.add(caller, size, false) {
			return Response{}, ErrUnavailable.Because(errInFlight)
		}
		defer o.s.inFlight.remove(caller, size)
	}
	run, err := o.route.Endpoint.prepare(ctx, c)
	if err != nil {
		return Response{}, err
	}
	respond := func(ctx context.Context) (Response, error) {
		body, existing, err := run(ctx)
		if err != nil {
			return Response{}, err
		}
		return o.response(c, body, existing)
	}
	if o.current != nil && o.route.Lock == nil {
		if tags := entityTags(r, "If-Match"); len(tags) > 0 {
			return o.ifMatch(ctx, c, tags, respond)
		}
	}
	if key == "" {
		return respond(ctx)
	}
	if c.sum != nil {
		c.body = *c.sum
	}
	target := o.path(c)
	if len(c.query) > 0 {
		target += "?" + c.query.Encode()
	}
	answer, replayed, err := o.s.once(ctx, key, target, c.body, respond)
	if replayed {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	return answer, err
}

// authorize checks the token or API key, the rate limits and the role. It returns the request's context, bound to the
// caller unless the route is public.
func (o *operation) authorize(w http.ResponseWriter, r *http.Request, info *requestInfo) (context.Context, error) {
	public := o.route.Access == Public
	var denied error
	if !public && !info.called {
		info.caller, denied = o.s.Authenticate(r, false, o.s.admit(info))
	}
	if !info.called {
		if e := o.s.limit(w, info, public || denied != nil); e != nil {
			return nil, e
		}
	}
	switch {
	case denied != nil:
		return nil, denied
	case o.route.UsersOnly && (info.caller.Actor.APIKey != "" || public && r.Header["X-Api-Key"] != nil):
		return nil, errOnlyUsers
	case public:
		return r.Context(), nil
	case info.caller.Level < o.route.Access, info.caller.Printer:
		return nil, ErrForbidden
	}
	actor := info.caller.Actor
	actor.SettingUp = o.route.SettingUp
	return db.As(r.Context(), actor), nil
}

// read returns the parts of the request that the operation needs, and the Idempotency-Key. It collects problems with
// the path, the query and the headers in c.problems. The error is that of reading the body.
func (o *operation) read(w http.ResponseWriter, r *http.Request) (c call, key string, err error) {
	c = call{patch: o.route.IsPartial()}
	c.ids = pathIDs(r, o.names, &c.problems)
	c.query = readQuery(r.URL.RawQuery, o.parameters, &c.problems)
	if o.current == nil && (r.Method == http.MethodPatch || r.Method == http.MethodDelete) &&
		r.Header["If-Match"] != nil {
		c.problems.Add("If-Match", "is not supported by this operation")
	}
	if o.route.Idempotent {
		key = IdempotencyKey(r, &c.problems)
	}
	switch {
	case o.route.Endpoint.ReadsBody():
		c.optional = o.route.Endpoint.Optional
		c.body, err = readMedia(w, r, jsonMedia, c.optional)
	case o.route.Endpoint.Limit > 0:
		if err = checkMedia(r, o.route.Endpoint.Media); err == nil {
			c.stream, c.sum = StreamBody(w, r, o.route.Endpoint.Limit), new([]byte)
		}
	case o.route.Endpoint.Media != "":
		c.body, err = readMedia(w, r, o.route.Endpoint.Media, false)
	case r.Body != http.NoBody:
		c.body, err = ReadBody(w, r)
		if text := bytes.Join(bytes.Fields(c.body), nil); len(text) > 0 && string(text) != "{}" {
			c.problems.Add("body", "must be empty, because this operation reads no body")
		}
	}
	if err != nil && err != ErrTooLarge {
		err = c.problems.join(err)
	}
	return c, key, err
}

// response returns the response with the result of a handler. Existing reports whether the handler called
// Request.Existing.
func (o *operation) response(c call, body []byte, existing bool) (Response, error) {
	answer := Response{Status: o.route.Endpoint.Out.Status, Body: body, stored: body}
	if existing {
		answer.Status = http.StatusOK
	}
	for _, secret := range o.secrets {
		answer.stored = secret.ReplaceAll(answer.stored, []byte(`${1}""`))
	}
	if answer.Status != http.StatusCreated {
		return answer, nil
	}
	id, err := idOf(body)
	if id == "" {
		answer.Location = path.Dir(o.path(c))
	} else {
		answer.Location = o.path(c) + "/" + id
	}
	return answer, err
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
func (o *operation) path(c call) string {
	var values []string
	for _, name := range o.names {
		values = append(values, c.ids[name])
	}
	return PathOf(o.route.Path(), values...)
}
