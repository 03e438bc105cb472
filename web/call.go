package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"spoolwright/server"
)

// read is a read operation of the API: its path, its query, and where its answer goes.
type read struct {
	path  string
	query url.Values
	into  any
	tag   *string // gets the ETag, if it is not nil
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
		functions[i] = func(ctx context.Context) {
			answers[i] = v.site.server.Call(ctx, v.r, v.caller(), http.MethodGet, target, nil, nil)
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
