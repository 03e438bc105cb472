package server

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"spoolwright/db"
)

// Surface serves all paths below a prefix in the format of another API, for clients that know only the other API. Its
// routes are not part of the OpenAPI document. Unlike other routes, it also accepts API keys of printers, and API keys
// as the password of Basic authentication: clients in printers often support nothing else.
type Surface struct {
	Prefix string // with a slash at the start and the end

	// KeyPrefix, if not empty, is another prefix. It contains {key} in the place of an API key, for clients that can
	// send an API key only as part of an address.
	KeyPrefix string

	// Serve answers a request of the caller by calling Respond. The request's context is bound to the caller. If Serve
	// returns another error than ErrUndelivered, it must not have written anything: the service then sends the error
	// with the body that Fail returns.
	Serve func(w http.ResponseWriter, r *http.Request, caller Caller) error

	// Fail returns the body of the response to an error.
	Fail func(e *Error) []byte

	// Run is called when the service starts, and returns when ctx ends.
	Run func(ctx context.Context)

	// Close ends open connections that no longer belong to the HTTP server, such as WebSockets. It is called when the
	// service stops.
	Close func()
}

// ErrUndelivered is the error of Respond if it has begun to write a response and could not finish.
var ErrUndelivered = errors.New("the response could not be written")

// Respond sends a response of a Surface with status 200. The Content-Type is JSON, unless the header has another one.
// If too many large bodies are being sent, Respond writes nothing and returns ErrUnavailable. It always sends the
// response to a request with another method than GET, because the effect of a write is already committed.
func Respond(w http.ResponseWriter, r *http.Request, body []byte) error {
	info := infoOf(r)
	if n := len(body); n > smallBody && info.inFlight != nil {
		if !info.inFlight.add(info.caller.Actor.ID(), n, r.Method != http.MethodGet) {
			return ErrUnavailable.Because(errInFlight)
		}
		defer info.inFlight.remove(info.caller.Actor.ID(), n)
	}
	if err := send(w, http.StatusOK, body); err != nil {
		return errors.Join(ErrUndelivered, err)
	}
	return nil
}

// keyed returns the handler of paths below KeyPrefix. It moves the API key from the path to the header X-Api-Key, and
// calls surface, the handler of the paths below Prefix.
func (f Surface) keyed(surface http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key := r.PathValue("key")
		rest := strings.TrimPrefix(r.URL.Path, strings.Replace(f.KeyPrefix, "{key}", key, 1))
		r = r.Clone(r.Context())
		r.URL.Path, r.URL.RawPath = f.Prefix+rest, ""
		r.Header["X-Api-Key"] = append(r.Header["X-Api-Key"], key)
		surface(w, r)
	}
}

// surface returns the handler of a Surface.
func (s *Server) surface(f Surface) http.HandlerFunc {
	fail := func(w http.ResponseWriter, r *http.Request, err error) {
		e, info := asError(err), infoOf(r)
		info.err = e.err
		if e.Status == 401 {
			w.Header().Add("WWW-Authenticate", `Basic realm="spoolwright", charset="UTF-8"`)
		}
		e.writeHeaders(w)
		if e.Status == 500 {
			e = e.detailed(info.id)
		}
		send(w, e.Status, f.Fail(e))
	}
	return func(w http.ResponseWriter, r *http.Request) {
		info := infoOf(r)
		info.pattern = "* " + f.Prefix // a pattern for each path of a client would create too many time series
		info.inFlight, info.connections = &s.inFlight, s.connections
		w.Header().Set("Cache-Control", "no-store")
		var denied error
		info.caller, denied = s.Authenticate(r, true, s.admit(info))
		if limited := s.limit(w, info, denied != nil); limited != nil {
			fail(w, r, limited)
			return
		}
		if denied != nil {
			fail(w, r, denied)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if err := f.Serve(w, r.WithContext(db.As(r.Context(), info.caller.Actor)), info.caller); err != nil &&
			!errors.Is(err, ErrUndelivered) {
			fail(w, r, err)
		}
	}
}
