package server

import (
	"context"
	"net/http"

	"spoolwright/db"
)

// Surface serves all paths below a prefix in the format of another API, for clients that know only that one. Its routes
// are not part of the OpenAPI document. It accepts the same credentials as routes for printers.
type Surface struct {
	Prefix string // with a slash at the start and the end

	// Serve answers a request of the caller, to whom the request's context is bound. If it returns an error, it must not
	// have written anything; Fail then answers.
	Serve func(w http.ResponseWriter, r *http.Request, caller Caller) error

	// Fail writes an error. The headers that every error has are set already.
	Fail func(w http.ResponseWriter, e *Error)

	// Run is called when the service starts, and returns when ctx ends.
	Run func(ctx context.Context)

	// Close ends open connections that do not belong to the HTTP server any more. It is called when the service stops.
	Close func()
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
		f.Fail(w, e)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		info := infoOf(r)
		info.pattern = "* " + f.Prefix // paths and methods of clients would make too many time series
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
		if err := f.Serve(w, r.WithContext(db.As(r.Context(), info.caller.Actor)), info.caller); err != nil {
			fail(w, r, err)
		}
		if sw, ok := w.(*statusWriter); ok && sw.status == 0 { // the connection is a WebSocket now
			sw.status = http.StatusSwitchingProtocols
		}
	}
}
