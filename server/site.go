package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Site contains the pages for people, on paths outside the API. The pages read and write with Server.Call.
type Site struct {
	Pages  []SitePage
	Assets []SitePage // files that are the same for everybody

	// Identify returns the caller that the cookie of a request names, and whether the cookie names a caller. It does
	// not read the database: the page must check that the caller's session exists, and call Server.CountVisit then.
	Identify func(r *http.Request) (Caller, bool)

	// Fail writes the page of an error.
	Fail func(w http.ResponseWriter, r *http.Request, e *Error)
}

// SitePage answers the requests of a pattern such as "GET /spools". If Serve returns an error, Fail of the Site
// answers the request.
type SitePage struct {
	Pattern string
	Picture bool  // whether pages show many of these pictures: they count in the limit of assets
	Public  bool  // whether the page needs no caller: it counts as a request without a caller
	Limit   int64 // the maximum size of the body, if it is not 1 MiB; it is read while it arrives
	Serve   func(w http.ResponseWriter, r *http.Request) error
}

// errorPage sends an error of a request that has no chain of its own. It sends a page if the service has pages, the
// path is outside the API, and the client accepts HTML; otherwise it sends JSON.
func (s *Server) errorPage(w http.ResponseWriter, r *http.Request, e *Error) {
	if s.site != nil && !strings.HasPrefix(r.URL.Path, "/api/") &&
		strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header()["Cache-Control"] = headerNoStore
		s.site.Fail(w, r, e)
		return
	}
	asJSON(w, r, e)
}

// Page sets the headers of the error's response, and returns the status and the text for the page of the error.
func (e *Error) Page(w http.ResponseWriter, r *http.Request) (status int, detail string) {
	c := *e
	c.Status = http.StatusOK // omits WWW-Authenticate, at which a browser would ask for a password
	c.writeHeaders(w)
	if e.Status == http.StatusInternalServerError {
		e = e.detailed(infoOf(r).id)
	}
	return e.Status, e.Detail
}

// Answer is the response of an operation that Call has run.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	cause  error // the error that the service logs, or nil
}

// Err returns the error that the response contains, or nil if the status is below 300.
func (a *Answer) Err() error {
	if a.Status < 300 {
		return nil
	}
	e := &Error{Status: a.Status, err: a.cause}
	var body struct {
		Detail, Code string
		Errors       []FieldError
	}
	if err := json.Unmarshal(a.Body, &body); err != nil {
		return ErrInternal.Because(err)
	}
	e.Detail, e.Code, e.Fields = body.Detail, body.Code, body.Errors
	if n, err := strconv.Atoi(a.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(n) * time.Second
	}
	return e
}

// Call runs an operation of the API on behalf of the caller, in this process. R is the request that needs the
// operation. Target is the path with the query. The Content-Type of a body that is not nil is JSON, unless header has
// another one. The called request counts in no limit; in all other ways the service treats it like a client's request.
func (s *Server) Call(r *http.Request, caller Caller, method, target string, header http.Header, body []byte) *Answer {
	w := &answerWriter{header: http.Header{}}
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body)
	}
	info := s.call(w, r, caller, method, target, header, content, int64(len(body)))
	if caller.Watcher { // of the service itself: no request of a client follows
		s.tellPages(method, w.status, info)
	}
	return &Answer{w.status, w.header, w.body.Bytes(), info.err}
}

// CallStream is Call for an operation that reads its body while it arrives.
func (s *Server) CallStream(r *http.Request, caller Caller, method, target string, header http.Header, body io.Reader,
) *Answer {
	w := &answerWriter{header: http.Header{}}
	info := s.call(w, r, caller, method, target, header, body, -1)
	return &Answer{w.status, w.header, w.body.Bytes(), info.err}
}

// Forward runs a GET operation as Call does, and writes the response to w. It sends a file while reading it.
func (s *Server) Forward(w http.ResponseWriter, r *http.Request, caller Caller, target string) {
	s.call(w, r, caller, http.MethodGet, target, nil, nil, 0)
}

func (s *Server) call(w http.ResponseWriter, r *http.Request, caller Caller, method, target string, header http.Header,
	body io.Reader, size int64,
) *requestInfo {
	outer := infoOf(r)
	info := &requestInfo{id: outer.id, server: s, fail: s.sendError, caller: caller, address: outer.address, called: true}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		panic("server: Call of " + target) // not reached: pages build targets from constants and parsed ids
	}
	called := &http.Request{Method: method, URL: u, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{},
		Body:   http.NoBody, Host: r.Host, RemoteAddr: r.RemoteAddr, RequestURI: target}
	for name, values := range header {
		called.Header[name] = values
	}
	if body != nil {
		if called.Header["Content-Type"] == nil {
			called.Header.Set("Content-Type", jsonMedia)
		}
		called.Body, called.ContentLength = io.NopCloser(body), size
	}
	defer info.end()
	s.mux.ServeHTTP(w, called.WithContext(context.WithValue(r.Context(), infoKey{}, info)))
	return info
}

// answerWriter is a ResponseWriter that keeps the response in memory.
type answerWriter struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *answerWriter) Header() http.Header { return w.header }

func (w *answerWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *answerWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// SendPage sends a page, compressed if the client accepts it.
func SendPage(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	if encoded := compressed(w, r, body); encoded != nil {
		h.Set("Content-Encoding", "gzip")
		body = encoded
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}
