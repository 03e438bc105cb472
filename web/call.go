package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"

	"spoolwright/server"
)

// read is a read operation of the API: its path, its query, and where its answer goes.
type read struct {
	method string // GET, if it is empty
	path   string
	query  url.Values
	into   any
	tag    *string // gets the ETag, if it is not nil
}

// fetch runs the reads in one round trip to the database. The error is that of the first read that has one.
func (v *visit) fetch(reads ...read) error {
	answers := make([]*server.Answer, len(reads))
	functions := make([]func(context.Context), len(reads))
	for i, read := range reads {
		target := read.path
		if len(read.query) > 0 {
			target += "?" + read.query.Encode()
		}
		var body []byte
		if read.method != "" {
			body = []byte("{}")
		}
		functions[i] = func(ctx context.Context) {
			answers[i] = v.site.server.Call(ctx, v.r, v.caller(), cmp.Or(read.method, http.MethodGet), target, nil, body)
		}
	}
	v.site.server.Together(v.r.Context(), v.Actor, functions...)
	for i, answer := range answers {
		if err := answer.Err(); err != nil {
			return err
		}
		if reads[i].tag != nil {
			*reads[i].tag = answer.Header.Get("ETag")
		}
		if err := decode(answer.Body, reads[i].into); err != nil {
			return err
		}
	}
	return nil
}

func (v *visit) caller() server.Caller { return server.Caller{Actor: v.Actor, Level: v.Level} }

// apiPath returns a path of the API with the ids of the page's address: {id}, and perhaps {part}.
func (v *visit) apiPath(pattern string) string {
	return strings.NewReplacer("{id}", v.r.PathValue("id"), "{part}", v.r.PathValue("part")).Replace(pattern)
}

// run runs an operation with the fields of the form that the visitor has sent.
func (v *visit) run(method, pattern string, fields ...field) (*form, bool, error) {
	path := v.apiPath(pattern)
	f := v.sent()
	var body map[string]any
	if len(fields) > 0 {
		body = f.body(fields...)
	}
	ok, err := v.send(f, method, path, body, nil)
	return f, ok, err
}

// shower shows the page of a resource. If f is not nil, it is the form with the name, which the API has refused.
type shower func(v *visit, status int, name string, f *form) error

// action returns the handler of a form on the page of a resource: it runs an operation on the resource with the
// fields, and leads to the page of the resource, or shows the page again.
func action(api, path, name, method, operation string, again shower, fields ...field) func(*visit) error {
	return func(v *visit) error {
		f, ok, err := v.run(method, api+"/{id}"+operation, fields...)
		if err != nil {
			return err
		}
		if !ok {
			return again(v, 422, name, f)
		}
		return v.redirect(path + "/" + v.r.PathValue("id") + v.query())
	}
}

// query returns the query of the page's address with its question mark: the filters of the list from which the visitor
// came.
func (v *visit) query() string {
	if v.r.URL.RawQuery == "" {
		return ""
	}
	return "?" + v.r.URL.RawQuery
}
