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

	"spoolwright/db"
)

// Site is pages for people, on paths outside of the API. They read and write with Server.Call.
type Site struct {
	Pages []SitePage

	// Identify returns the caller that the cookie of a request names, without a look into the database, and whether
	// there is one. The page itself must check that the caller's session exists.
	Identify func(r *http.Request) (Caller, bool)

	// Fail writes the page of an error.
	Fail func(w http.ResponseWriter, r *http.Request, e *Error)
}

// SitePage answers the requests of a pattern such as "GET /spools". An error that Serve returns is answered by Fail.
type SitePage struct {
	Pattern string
	Asset   bool // a file that is the same for everybody
	Serve   func(w http.ResponseWriter, r *http.Request) error
}

// addSite registers the pages. A request of a caller counts in the limits of that caller, a POST of somebody else,
// such as a login, in those of the address, and any other request in that of addresses for pages.
func (s *Server) addSite() {
	s.site = s.Config.Site(s)
	for _, page := range s.site.Pages {
		s.handle(page.Pattern, func(w http.ResponseWriter, r *http.Request) {
			info := infoOf(r)
			var limited *Error
			known := false
			if !page.Asset {
				w.Header()["Cache-Control"] = headerNoStore
				info.caller, known = s.site.Identify(r)
			}
			if known || r.Method == http.MethodPost {
				limited = s.limit(w, info, !known)
			} else {
				limited = s.limitPage(info)
			}
			if limited != nil {
				s.site.Fail(w, r, limited)
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			if err := page.Serve(w, r); err != nil {
				e := asError(err)
				info.err = e.err
				s.site.Fail(w, r, e)
			}
		})
	}
}

// fail answers a request with an error: with a page, if the service has pages, the path is not one of the API, and the
// client is a browser.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, e *Error) {
	if s.site != nil && !strings.HasPrefix(r.URL.Path, "/api/") &&
		strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header()["Cache-Control"] = headerNoStore
		s.site.Fail(w, r, e)
		return
	}
	e.write(w, infoOf(r).id)
}

// Page sets the headers of the response to the error, and returns what its page says.
func (e *Error) Page(w http.ResponseWriter, r *http.Request) (status int, detail string) {
	c := *e
	c.Status = http.StatusOK // no challenge: a browser would ask for a password
	c.writeHeaders(w)
	if e.Status == http.StatusInternalServerError {
		e = e.detailed(infoOf(r).id)
	}
	return e.Status, e.Detail
}

// AsError returns the response to an error of Call or of the database.
func AsError(err error) *Error { return asError(err) }

// Answer is the response of an operation to Call.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	cause  error // of a status 500 or 503
}

// Err returns the error of the response, or nil if it is a success.
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

// Call runs an operation of the API on behalf of the caller, in this process. Target is the path with the query. A
// body that is not nil is sent as JSON, unless the header has another type. The request counts in no limit; otherwise
// it is like one of a client. R is the request that needs the operation; ctx may be one of db.Together.
func (s *Server) Call(ctx context.Context, r *http.Request, caller Caller, method, target string, header http.Header,
	body []byte,
) *Answer {
	w := &answerWriter{header: http.Header{}}
	info := s.call(ctx, w, r, caller, method, target, header, body)
	return &Answer{w.status, w.header, w.body.Bytes(), info.err}
}

// Forward answers a request with the response of a GET, as Call runs it. It sends files while they are read.
func (s *Server) Forward(w http.ResponseWriter, r *http.Request, caller Caller, target string) {
	s.call(r.Context(), w, r, caller, http.MethodGet, target, nil, nil)
}

func (s *Server) call(ctx context.Context, w http.ResponseWriter, r *http.Request, caller Caller, method, target string,
	header http.Header, body []byte,
) *requestInfo {
	outer := infoOf(r)
	info := &requestInfo{id: outer.id, caller: caller, address: outer.address, called: true}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		panic("server: Call of " + target) // the path of an operation with ids that were parsed
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
		called.Body, called.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	s.mux.ServeHTTP(w, called.WithContext(context.WithValue(ctx, infoKey{}, info)))
	return info
}

// Together runs the functions with db.Together, bound to the actor.
func (s *Server) Together(ctx context.Context, actor db.Actor, functions ...func(ctx context.Context)) {
	s.DB.Together(db.As(ctx, actor), functions...)
}

// answerWriter keeps a response.
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

// Address returns the address of the client that a request counts for.
func Address(r *http.Request) string { return infoOf(r).address }

// IsSecure reports whether the client sent the request over TLS, to the service or to a trusted proxy that says so.
func (s *Server) IsSecure(r *http.Request) bool {
	return r.TLS != nil || isTrustedPeer(r.RemoteAddr, s.TrustedProxies) &&
		strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// IsLoopback reports whether the client runs on the machine of the service, and no proxy is between them.
func IsLoopback(r *http.Request) bool {
	peer, ok := parseAddr(r.RemoteAddr)
	host, _ := parseAddr(r.Host)
	name, _, _ := strings.Cut(r.Host, ":")
	return ok && peer.IsLoopback() && (host.IsLoopback() || name == "localhost") &&
		r.Header["X-Forwarded-For"] == nil && r.Header["Forwarded"] == nil
}

// SendPage sends a page, compressed if the client accepts it.
func SendPage(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", typeHTML)
	if encoded := compressed(w, r, body); encoded != nil {
		h.Set("Content-Encoding", "gzip")
		body = encoded
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}
