package server

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"spoolwright/db"
	"spoolwright/value"
)

// Each chain is read from the outside in: a request passes its functions from the first to the last, and then reaches
// the handler behind them. Before all of them, httpServer limits the connections and the time of a request.

// every is the chain of all requests. The mux behind it finds the chain of the path.
func (s *Server) every() http.Handler {
	return chain(s.requestID, s.logged, s.recovered, s.securityHeaders, s.cors, s.cleanPath)(s.mux)
}

// api is the chain of an operation of the API. The operation runs in the transactions of its Idempotency-Key and of
// its If-Match.
func (s *Server) api(o *operation, who callers) http.Handler {
	return chain(noStore, errorsAs(o.asJSON), s.authenticate(who), rateLimit(s.byCaller), role(who), tenant(who))(
		o.answer(o.once(o.ifMatch(o.run))))
}

// files is the chain of an operation of the API that sends a file: an export, a picture, the archive of a farm.
func (s *Server) files(o *operation, who callers) http.Handler {
	return chain(noStore, s.authenticate(who), rateLimit(s.byCaller), role(who), tenant(who))(handler(o.sendFile))
}

// surface is the chain of the API of another service, such as Spoolman. All its paths share one name in the metrics,
// because one name for each path of a client would create too many time series.
func (s *Server) surface(f Surface, who callers) http.Handler {
	return chain(named("* "+f.Prefix), noStore, errorsAs(f.asOwn), s.authenticate(who), rateLimit(s.byCaller), role(who),
		tenant(who), limitBody(maxBody))(handler(f.serve))
}

// page is the chain of a page for people. The page itself checks the session, the role and the tenant: it reads the
// session in the round trip of its first data, and then counts the request with CountVisit.
func (s *Server) page(p SitePage) http.Handler {
	return chain(noStore, errorsAs(s.site.Fail), s.identify, rateLimit(s.byVisit(p)), limitBody(p.Limit))(
		handler(p.Serve))
}

// asset is the chain of a file of the pages that is the same for everybody.
func (s *Server) asset(p SitePage) http.Handler {
	return chain(errorsAs(s.site.Fail), rateLimit(s.byAddress))(handler(p.Serve))
}

// receiver is the chain of a Receiver. The signature of the message identifies the tenant.
func (s *Server) receiver(f Receiver) http.Handler {
	return chain(noStore, errorsAs(asJSON), rateLimit(s.byForgeries))(s.receive(f))
}

// document is the chain of the documentation.
func (s *Server) document(h http.Handler) http.Handler {
	return chain(errorsAs(asJSON), rateLimit(s.byAddress))(h)
}

// unknown is the chain of a path or a method that no route serves. Below /api/v1 it counts as a request to the API.
func (s *Server) unknown(e *Error, inAPI bool) http.Handler {
	fails := handler(func(http.ResponseWriter, *http.Request) error { return e })
	if inAPI {
		return chain(noStore, s.authenticate(callers{level: Read}), rateLimit(s.byCaller))(fails)
	}
	return chain(rateLimit(s.byAddress))(fails)
}

// httpServer returns the server of the connections. They are counted and bounded before a request is read.
func (s *Server) httpServer() *http.Server {
	return &http.Server{
		Handler:           s,
		ConnState:         s.connections.changed,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,

		DisableGeneralOptionsHandler: true, // its response to OPTIONS * lacks the common headers
		ErrorLog:                     log.New(&errorLog{log: s.Log}, "", 0),
	}
}

// middleware returns a handler that does its part and calls next.
type middleware = func(next http.Handler) http.Handler

// chain returns the composition of the functions; the first one is the outermost.
func chain(all ...middleware) middleware {
	return func(next http.Handler) http.Handler {
		for _, m := range slices.Backward(all) {
			next = m(next)
		}
		return next
	}
}

// handler answers a request or, if it has not written anything, returns an error.
type handler func(w http.ResponseWriter, r *http.Request) error

// ServeHTTP answers a request. The response to an error is that of errorsAs.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h(w, r); err != nil {
		info, e := infoOf(r), asError(err)
		info.err = e.err
		info.fail(w, r, e)
	}
}

// before returns the middleware that calls check, and the next handler unless check returns an error.
func before(check handler) middleware {
	return func(next http.Handler) http.Handler {
		return handler(func(w http.ResponseWriter, r *http.Request) error {
			if err := check(w, r); err != nil {
				return err
			}
			next.ServeHTTP(w, r)
			return nil
		})
	}
}

// requestID gives the request its id and its requestInfo, which has the client's address.
func (s *Server) requestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forwarded := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
		info := &requestInfo{id: requestIDOf(r), server: s, fail: s.sendError,
			address: value.Shorten(clientAddr(r.RemoteAddr, forwarded, s.TrustedProxies), 64)}
		if forwarded != "" && !isTrustedPeer(r.RemoteAddr, s.TrustedProxies) {
			s.forwarded.Do(func() {
				s.Log.Warn("ignoring X-Forwarded-For: it comes from an address that is not in TRUSTED_PROXIES; if that is "+
					"the reverse proxy, all clients behind it share one address and its rate limits", "address", info.address)
			})
		}
		defer info.end()
		w.Header().Set("X-Request-Id", info.id)
		next.ServeHTTP(w, r.WithContext(db.From(context.WithValue(r.Context(), infoKey{}, info), info.address)))
	})
}

// logged logs and counts the request, and notifies the open pages of the tenant of a change.
func (s *Server) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start, info := time.Now(), infoOf(r)
		info.statusWriter.ResponseWriter = w
		next.ServeHTTP(&info.statusWriter, r)
		elapsed := time.Since(start)
		s.tellPages(r.Method, info.status, info)
		if info.streams {
			elapsed = 0
		}
		s.Metrics.Observe(info.pattern, r.Method, info.status, elapsed)
		s.log(r, info, info.status, elapsed)
	})
}

// tellPages notifies the open pages of the tenant of a change by the request.
func (s *Server) tellPages(method string, status int, info *requestInfo) {
	if method != http.MethodGet && method != http.MethodHead && status < 400 && !info.quiet {
		s.changes.notify(info.caller.Actor.Tenant)
	}
}

// recovered answers a panic with a 500. http.ErrAbortHandler, which breaks the connection, is not logged.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler {
				panic(p)
			}
			info := infoOf(r)
			if info.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack()); info.status == 0 {
				s.sendError(w, r, asError(info.err))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// securityHeaders sets the headers of all responses. It makes the connection of a body in chunks end with the response
// (RFC 9112, section 6.3): the request may also have had a Content-Length, which net/http removes, and could smuggle
// another request past a proxy that reads only the Content-Length.
func (s *Server) securityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["X-Content-Type-Options"] = headerNoSniff
		h["Content-Security-Policy"] = headerNoFrames
		if s.HSTS {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if len(r.TransferEncoding) > 0 {
			h.Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// cors adds the CORS headers to the response if the origin of the request is allowed, and answers preflight requests
// of allowed origins.
func (s *Server) cors(next http.Handler) http.Handler {
	if len(s.CORSOrigins) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Vary", "Origin")
		origin := r.Header.Get("Origin")
		if origin == "" || !slices.Contains(s.CORSOrigins, origin) {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "ETag, Location, Retry-After, X-Request-Id, "+
			"RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, "+
			"Idempotency-Replayed, Warnings")
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, "+
			"If-Match, If-None-Match, X-API-Key, X-Request-Id")
		h.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
	})
}

// cleanPath rejects paths with empty, "." or ".." elements, which a mux would redirect.
func (s *Server) cleanPath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isClean(r.URL.Path) {
			s.reject(w, r, errNoPath)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// named sets the route of the log line and of the metrics.
func named(pattern string) middleware {
	return before(func(_ http.ResponseWriter, r *http.Request) error {
		infoOf(r).pattern = pattern
		return nil
	})
}

var noStore = before(func(w http.ResponseWriter, _ *http.Request) error {
	w.Header()["Cache-Control"] = headerNoStore
	return nil
})

// errorsAs makes write send the errors of the functions and the handler behind it.
func errorsAs(write func(http.ResponseWriter, *http.Request, *Error)) middleware {
	return before(func(_ http.ResponseWriter, r *http.Request) error {
		infoOf(r).fail = write
		return nil
	})
}

// callers are those who may send a request.
type callers struct {
	level     Access // that a caller needs; Public needs no caller
	usersOnly bool   // rejects API keys
	keysOnly  bool   // requires an API key of any role
	watchers  bool   // accepts API keys of watchers
	settingUp bool   // accepts users who must set up a second factor first
	printers  bool   // accepts API keys of printers, and API keys as the password of Basic authentication
}

// authenticate finds the caller by the token or API key. It only records the error of a wrong one: role returns it,
// after the request has counted in the limits. The caller of Server.Call is known.
func (s *Server) authenticate(who callers) middleware {
	return before(func(_ http.ResponseWriter, r *http.Request) error {
		if info := infoOf(r); who.level != Public && !info.called {
			info.caller, info.denied = s.Authenticate(r, who.printers, info.admit)
			info.known = info.denied == nil
		}
		return nil
	})
}

// identify finds the caller by the cookie of a page, without the database.
func (s *Server) identify(next http.Handler) http.Handler {
	return before(func(_ http.ResponseWriter, r *http.Request) error {
		info := infoOf(r)
		info.caller, info.known = s.site.Identify(r)
		return nil
	})(next)
}

// rateLimit counts a request in its limits: take, a function in rate.go, takes a token from each bucket, sets the
// X-RateLimit headers, and returns a 429 if a bucket is empty.
func rateLimit(take func(http.ResponseWriter, *http.Request) error) middleware { return before(take) }

// role rejects a request without a caller, or whose caller lacks the level.
func role(who callers) middleware {
	return before(func(_ http.ResponseWriter, r *http.Request) error {
		info := infoOf(r)
		switch isKey := info.caller.Actor.APIKey != ""; {
		case info.denied != nil:
			return info.denied
		case who.usersOnly && (isKey || who.level == Public && r.Header["X-Api-Key"] != nil):
			return errOnlyUsers
		case who.keysOnly && !isKey:
			return errOnlyKeys
		case who.level != Public && (info.caller.Level < who.level || !who.keysOnly &&
			(info.caller.Printer && !who.printers || info.caller.Watcher && !who.watchers)):
			return ErrForbidden
		}
		return nil
	})
}

// tenant binds all statements of the request to the caller and the caller's tenant.
func tenant(who callers) middleware {
	return func(next http.Handler) http.Handler {
		if who.level == Public {
			return next
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			actor := infoOf(r).caller.Actor
			actor.SettingUp = actor.SettingUp || who.settingUp
			next.ServeHTTP(w, r.WithContext(db.As(r.Context(), actor)))
		})
	}
}

// limitBody makes reading the body fail after maxBytes. A body of more than 1 MiB is read while it arrives.
func limitBody(maxBytes int64) middleware {
	return before(func(w http.ResponseWriter, r *http.Request) error {
		if maxBytes > maxBody {
			r.Body = io.NopCloser(newStreamBody(w, r, maxBytes))
		} else {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			return keepBody(r)
		}
		return nil
	})
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = 200
	}
	return w.ResponseWriter.Write(b)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// maxLoggedError is the maximum length of the error in a log line. It has room for the stack of a panic.
const maxLoggedError = 8 << 10

// log writes the log line of a request. Every field has a maximum length: clients choose the method and parts of
// errors, and could otherwise fill the disk.
func (s *Server) log(r *http.Request, info *requestInfo, status int, elapsed time.Duration) {
	level := slog.LevelInfo
	switch {
	case r.Context().Err() != nil: // the client disconnected: no error of the service
	case status >= 500 && info.pattern != "GET /readyz":
		level = slog.LevelError
	case info.pattern == "GET /healthz" || info.pattern == "GET /readyz":
		level = slog.LevelDebug
	}
	if !s.Log.Enabled(r.Context(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, 10)
	attrs = append(attrs,
		slog.String("request_id", info.id), slog.String("method", value.Shorten(r.Method, 16)),
		slog.String("route", info.pattern),
		slog.Int("status", status), slog.Duration("duration", elapsed), slog.String("address", info.address))
	switch actor := info.caller.Actor; {
	case actor.User != "":
		attrs = append(attrs, slog.String("user", actor.User), slog.String("tenant", actor.Tenant))
	case actor.APIKey != "":
		attrs = append(attrs, slog.String("api_key", actor.APIKey), slog.String("tenant", actor.Tenant))
	}
	if info.err != nil {
		attrs = append(attrs, slog.String("error", value.Shorten(info.err.Error(), maxLoggedError)))
	}
	s.Log.LogAttrs(r.Context(), level, "request", attrs...)
}
