package web

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"spoolwright/server"
	"spoolwright/value/language"
)

type read struct {
	method string // empty means GET
	path   string // may contain a query; {id} and {part} stand for the values in the path of the page
	query  url.Values
	into   any     // a pointer to the value into which the answer is decoded
	tag    *string // if not nil, points to the variable for the ETag
}

// found contains the first entries of a list of the API, and the number of all its entries.
type found[T any] struct {
	Items []T
	Total int
}

func get(path string, into any) read { return read{path: path, into: into} }

// fetch runs the reads one after the other, until one fails.
func (v *visit) fetch(reads ...read) error {
	for _, read := range reads {
		target := read.path
		if len(read.query) > 0 {
			target += "?" + read.query.Encode()
		}
		var body []byte
		if read.method != "" {
			body = []byte("{}")
		}
		answer := v.call(cmp.Or(read.method, http.MethodGet), target, nil, body)
		if err := answer.Err(); err != nil {
			return err
		}
		if read.tag != nil {
			*read.tag = answer.Header.Get("ETag")
		}
		if err := json.Unmarshal(answer.Body, read.into); err != nil {
			return err
		}
	}
	return nil
}

func (v *visit) caller() server.Caller { return server.Caller{Actor: v.Actor, Level: v.Level} }

// call runs an operation of the API. In the target, {id} and {part} stand for the values in the path of the page.
func (v *visit) call(method, target string, header http.Header, body []byte) *server.Answer {
	target = strings.NewReplacer("{id}", v.r.PathValue("id"), "{part}", v.r.PathValue("part")).Replace(target)
	return v.site.server.Call(v.r, v.caller(), method, target, header, body)
}

// then answers a form after its operation has run with the results ok and err. It redirects to the page with the path,
// calls again to show the form again if ok is false, or returns err if err is not nil.
func (v *visit) then(ok bool, err error, path string, again func() error) error {
	switch {
	case err != nil:
		return err
	case !ok:
		return again()
	}
	return v.redirect(path)
}

// here returns the address of the page whose form was sent: the path of the collection, the id of the thing, and the
// filters of the list from which the visitor came.
func (v *visit) here(path string) string {
	return path + "/" + v.r.PathValue("id") + v.query()
}

// forms are the forms of a page. The API may have refused one of them.
type forms struct {
	Open string // the name of the refused form, or ""
	sent *form  // the refused form, or nil
	read reader
}

// forms returns the forms of a page. If f is not nil, it is a form with the name that the API has refused.
func (v *visit) forms(name string, f *form) forms { return forms{name, f, v.reader()} }

// Form returns the form with the name: the form that the visitor has sent, if it was refused, or else a new form.
func (f forms) Form(name string) *form {
	if f.sent != nil && f.Open == name {
		return f.sent
	}
	return newForm(f.read)
}

// Refused returns the problem with the refused form as a whole, or "". It returns "" also if the form has one of the
// names, because the page shows the problem of such a form at another place.
func (f forms) Refused(names ...string) string {
	if f.sent == nil || slices.Contains(names, f.Open) {
		return ""
	}
	return f.sent.Problem
}

// IsRefused reports whether the API has refused the form with the name for the part of the page's thing with the id.
func (f forms) IsRefused(name, part string) bool {
	return f.Open == name && f.read.visit.r.PathValue("part") == part
}

// Sent returns the refused form, or nil.
func (f forms) Sent() *form { return f.sent }

// resource is a collection of the API whose things have a page with forms.
type resource struct {
	api, path string // the paths of the collection in the API and in the pages

	// page shows a thing. If f is not nil, it is a form with the name that the API has refused.
	page func(v *visit, status int, name string, f *form) error
}

// action returns the handler of the form with the name. The handler runs an operation on the thing of the page, with
// the body that the function body makes from the form, or without a body if the function is nil. If the function has
// found a problem with the form, the operation does not run. After the operation, the page shows the notice from then.
func (r resource) action(name, method, operation string, body func(*form) map[string]any,
	then makeNotice) func(*visit) error {
	return func(v *visit) error {
		f := v.sent()
		var values map[string]any
		if body != nil {
			values = body(f)
		}
		if f.Problem != "" || len(f.Errors) > 0 {
			return r.page(v, 422, name, f)
		}
		var answer json.RawMessage
		ok, err := v.send(f, method, r.api+"/{id}"+operation, values, &answer)
		if ok {
			v.tell(then(v, f, answer))
		}
		return v.then(ok, err, v.here(r.path), func() error { return r.page(v, 422, name, f) })
	}
}

// edit returns the handler of the form with the name, which changes values that the page has shown: see change. The
// function now returns the form as the page shows it at present. It is called with the path of the visit.
func (r resource) edit(name, method, operation string, body func(*form) map[string]any, now func(*visit) (*form, error),
	then makeNotice) func(*visit) error {
	return func(v *visit) error {
		f := v.sent()
		var answer json.RawMessage
		ok, err := v.change(f, editing{method, r.api + "/{id}" + operation, body,
			func() (*form, error) { return now(v) }, &answer})
		if ok {
			v.tell(then(v, f, answer))
		}
		return v.then(ok, err, v.here(r.path), func() error { return r.page(v, 422, name, f) })
	}
}

// deletes returns the handler of a form that runs a DELETE, and leads to the page with the path, which shows the text.
// If the API refuses it, again shows the form.
func deletes(operation, path string, text language.Text, again func(*visit, *form) error) func(*visit) error {
	return func(v *visit) error {
		f := v.sent()
		ok, err := v.send(f, http.MethodDelete, operation, nil, nil)
		v.tell(&notice{Text: v.t(text)})
		return v.then(ok, err, path, func() error { return again(v, f) })
	}
}

// values returns a function that makes the body of an operation from these fields of a form.
func values(fields ...field) func(*form) map[string]any {
	return func(f *form) map[string]any { return f.body(fields...) }
}

// query returns the query of the page's address with its question mark: the filters of the list from which the visitor
// came.
func (v *visit) query() string { return (&url.URL{RawQuery: v.r.URL.RawQuery}).String() }
