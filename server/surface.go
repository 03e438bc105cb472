package server

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"spoolwright/db"
)

// Surface serves all paths below a prefix in the format of another API, for clients that know only that one. Its
// routes are not part of the OpenAPI document. Unlike other routes, it also accepts API keys of printers, and API keys
// as the password of Basic authentication: clients in printers often support nothing else.
type Surface struct {
	Prefix string // with a slash at the start and the end

	// KeyPrefix, if not empty, is another prefix, with {key} in the place of an API key, for clients that can send one
	// only as part of an address.
	KeyPrefix string

	// Serve answers a request of the caller, to whom the request's context is bound, with Respond. If it returns
	// another error than ErrUndelivered, it must not have written anything; the response is Fail's then.
	Serve func(w http.ResponseWriter, r *http.Request, caller Caller) error

	// Fail returns the body of an error.
	Fail func(e *Error) []byte

	// Run is called when the service starts, and returns when ctx ends.
	Run func(ctx context.Context)

	// Close ends open connections that do not belong to the HTTP server any more. It is called when the service stops.
	Close func()
}

// ErrUndelivered is the error of Respond if a response that was begun could not be written.
var ErrUndelivered = errors.New("the response could not be written")

// Respond sends a response of a Surface, with status 200: JSON, unless the header has another Content-Type. If too
// many large bodies are being sent, it writes nothing and returns ErrUnavailable, except for writes, whose effect is
// committed.
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

// keyed returns the handler of paths with an API key, which calls that of the Surface.
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
		info.pattern = "* " + f.Prefix // metrics with the paths and methods of clients would have too many time series
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
		if sw, ok := w.(*statusWriter); ok && sw.status == 0 { // the connection is a WebSocket now
			sw.status = http.StatusSwitchingProtocols
		}
	}
}
