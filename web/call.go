package web

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"spoolwright/server"
)

// read is a read operation of the API: its path, its query, and where its answer goes.
type read struct {
	method string // GET, if it is empty
	path   string // may have a query, and {id} and {part}, which are those of the page's address
	query  url.Values
	into   any
	tag    *string // gets the ETag, if it is not nil
}

// found is a list of the API of which a page shows the first entries.
type found[T any] struct {
	Items []T
	Total int
}

// get returns a read of a path.
func get(path string, into any) read { return read{path: path, into: into} }

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
			answers[i] = v.call(ctx, cmp.Or(read.method, http.MethodGet), target, nil, body)
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
		if err := json.Unmarshal(answer.Body, reads[i].into); err != nil {
			return err
		}
	}
	return nil
}

func (v *visit) caller() server.Caller { return server.Caller{Actor: v.Actor, Level: v.Level} }

// call runs an operation of the API. The target may have {id} and {part}, which are those of the page's address.
func (v *visit) call(ctx context.Context, method, target string, header http.Header, body []byte) *server.Answer {
	target = strings.NewReplacer("{id}", v.r.PathValue("id"), "{part}", v.r.PathValue("part")).Replace(target)
	return v.site.server.Call(ctx, v.r, v.caller(), method, target, header, body)
}

// then ends a form that was sent to an operation: it leads to a page, or shows the form again, if the API has refused
// it.
func (v *visit) then(ok bool, err error, path string, again func() error) error {
	switch {
	case err != nil:
		return err
	case !ok:
		return again()
	}
	return v.redirect(path)
}

// here returns the address of the page of the thing whose form was sent, below a path, beside the list from which the
// visitor came.
func (v *visit) here(path string) string {
	return path + "/" + v.r.PathValue("id") + v.query()
}

// forms are the forms of a page, of which the API may have refused one.
type forms struct {
	Open string // the name of that form, or ""
	sent *form
	read reader
}

// forms returns the forms of a page, of which the API may have refused f, which has the name.
func (v *visit) forms(name string, f *form) forms { return forms{name, f, v.reader()} }

// Form returns the form with the name, as the visitor has sent it or a new one.
func (f forms) Form(name string) *form {
	if f.sent != nil && f.Open == name {
		return f.sent
	}
	return newForm(f.read)
}

// Refused returns what is wrong with a form as a whole that is none of those with the names, which say so themselves.
func (f forms) Refused(names ...string) string {
	if f.sent == nil || slices.Contains(names, f.Open) {
		return ""
	}
	return f.sent.Problem
}

// resource is a collection of the API whose things have a page with forms.
type resource struct {
	api, path string // of the collection, in the API and of the pages

	// page shows a thing. If f is not nil, it is the form with the name, which the API has refused.
	page func(v *visit, status int, name string, f *form) error
}

// action returns the handler of the form with the name: it runs an operation on the thing of the page, with a body made
// of the form, or without one.
func (r resource) action(name, method, operation string, body func(*form) map[string]any) func(*visit) error {
	return func(v *visit) error {
		f := v.sent()
		var values map[string]any
		if body != nil {
			values = body(f)
		}
		ok, err := v.send(f, method, r.api+"/{id}"+operation, values, nil)
		return v.then(ok, err, v.here(r.path), func() error { return r.page(v, 422, name, f) })
	}
}

// values returns the body of an operation that gets the fields of a form.
func values(fields ...field) func(*form) map[string]any {
	return func(f *form) map[string]any { return f.body(fields...) }
}

// query returns the query of the page's address with its question mark: the filters of the list from which the visitor
// came.
func (v *visit) query() string { return (&url.URL{RawQuery: v.r.URL.RawQuery}).String() }
