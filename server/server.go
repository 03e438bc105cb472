// Package server is the HTTP toolkit: routes as data, decoding and encoding of JSON, errors, lists, rate limits, the
// pages of the OpenAPI document. It depends on no feature, and knows only the actor and the access level of a caller.
package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spoolwright/db"
	"spoolwright/server/docs"
	"spoolwright/server/limit"
	"spoolwright/value"
)

const apiPrefix = "/api/v1/"

// Caller is the authenticated sender of a request: a user or an API key.
type Caller struct {
	Actor   db.Actor
	Level   Access // the highest access level that the caller has
	Printer bool   // whether the caller is an API key of a printer; such a key has Level only on a Surface
}

// Config configures a Server. Only Routes, Document, DB, Authenticate and Ready are required.
type Config struct {
	Routes       []Route
	Surfaces     []Surface
	Receivers    []Receiver
	Site         func(*Server) *Site         // returns the pages for people; nil means no pages
	Events       []Event                     // the events that webhooks get, for the OpenAPI document
	Document     Document                    // makes the OpenAPI document; package openapi has this function
	Secrets      []string                    // the keys of the fingerprints of requests with an Idempotency-Key
	DB           *db.DB                      // stores responses to requests with an Idempotency-Key
	Authenticate Authenticate                // checks the access token or the API key of a request
	Ready        func(context.Context) error // checks that the database is reachable and migrated
	PerMinute    int                         // requests per user, API key or address; 0 turns the limit off
	PerHour      int                         // the same for an hour
	Stopped      func(context.Context) error // if not nil, Serve calls it after the last request, to save state
	// Serve calls Background in a goroutine of its own, if it is not nil. Background must return soon after its context
	// ends. Serve waits until Background returns.
	Background func(context.Context)
	// TenantPerMinute limits the requests of all users of a tenant together; 0 turns the limit off.
	TenantPerMinute int
	TrustedProxies  []netip.Prefix // proxies whose X-Forwarded-For is trusted
	CORSOrigins     []string       // allowed origins, as browsers send them
	HSTS            bool           // whether clients reach the service over TLS
	Version         string
	Log             *slog.Logger
	Metrics         *Metrics
	MaxConnections  int              // of all clients together; 0 derives it from the limit of open files
	DrainDelay      time.Duration    // how long the service is "not ready" before it closes the listener
	Now             func() time.Time // for tests
}

// Authenticate returns the sender of a request. If basic is set, it accepts an API key as the password of Basic
// authentication and as a Bearer token. It calls admit before it looks up an API key in the database. An error of
// admit means that the client's address has sent too many invalid keys; Authenticate returns this error.
type Authenticate func(r *http.Request, basic bool, admit func() error) (Caller, error)

// Document returns the OpenAPI document of the routes and events.
type Document func(routes []Route, version string, events ...Event) []byte

// Server is the http.Handler of the service.
type Server struct {
	Config
	mux       *http.ServeMux
	site      *Site
	resources map[string]*resource // the handlers of the mux, by path
	limiter   *limit.Limiter
	inFlight  inFlight
	draining  atomic.Bool
	changes   changes
	forwarded sync.Once // logs one warning about X-Forwarded-For from an untrusted address
	readiness readiness

	connections *connections
}

// maxLimitedKeys limits the memory of the rate limiter.
const maxLimitedKeys = 100_000

// New returns a Server. It panics if two routes have the same pattern.
func New(c Config) *Server {
	if c.Now == nil {
		c.Now = time.Now
	}
	if len(c.Secrets) == 0 {
		c.Secrets = []string{rand.Text()}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics(c.Version, nil)
	}
	s := &Server{
		Config: c, mux: http.NewServeMux(), resources: map[string]*resource{}, readiness: readiness{check: c.Ready},
	}
	s.limiter = limit.New(maxLimitedKeys, c.Now)
	if c.MaxConnections == 0 {
		database := 0
		if c.DB != nil {
			database = int(c.DB.Stats().Max)
		}
		s.MaxConnections = connectionLimit(database)
	}
	s.connections = newConnections(s.MaxConnections, c.TrustedProxies, c.Log)
	c.Metrics.more = append(c.Metrics.more, s.connections.writeMetrics)
	current := map[string]*operation{} // by path
	for _, route := range c.Routes {
		if route.Lock != nil {
			current[route.Path()] = s.operation(route)
		}
	}
	for _, route := range c.Routes {
		o := s.operation(route)
		switch route.Method() {
		case http.MethodGet, http.MethodPatch, http.MethodDelete:
			o.current = current[route.Path()]
		}
		o.tagged = o.current != nil || route.CreatesVersioned(func(path string) bool { return current[path] != nil })
		s.handle(route.Pattern, o.ServeHTTP)
	}
	for _, f := range c.Surfaces {
		surface := s.surface(f)
		s.mux.HandleFunc(f.Prefix, surface)
		if f.KeyPrefix != "" {
			s.mux.HandleFunc(f.KeyPrefix, f.keyed(surface))
		}
	}
	for _, f := range c.Receivers {
		s.addReceiver(f)
	}
	pages := docs.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { ErrNotFound.write(w, "") }))
	for _, pattern := range []string{"GET /docs", "GET /docs/", "GET /redoc", "GET /redoc/"} {
		s.handle(pattern, s.page(pages.ServeHTTP))
	}
	openapi := sync.OnceValue(func() http.Handler { // nobody asks most services for the document
		return docs.Document(append(c.Document(c.Routes, c.Version, c.Events...), '\n'))
	})
	s.handle("GET /openapi.json", s.page(func(w http.ResponseWriter, r *http.Request) { openapi().ServeHTTP(w, r) }))
	s.handle("GET /favicon.ico", s.page(docs.Icon().ServeHTTP))
	if c.Site != nil {
		s.addSite()
	} else {
		s.handle("GET /{$}", s.page(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "docs") // relative, so that it works behind a path prefix
			w.WriteHeader(http.StatusFound)
		}))
	}
	healthy := []byte(`{"status":"ok","version":"` + c.Version + `"}`)
	s.handle("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, 200, healthy)
	})
	s.handle("GET /readyz", s.ready)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.reject(w, r, errNoPath) })
	return s
}

// statusWriter is a ResponseWriter that remembers the status.
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

// ServeHTTP answers a request, and logs and counts it. A panic is a 500.
func (s *Server) ServeHTTP(writer http.ResponseWriter, r *http.Request) {
	start := time.Now()
	forwarded := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
	info := &requestInfo{id: requestID(r),
		address: value.Shorten(clientAddr(r.RemoteAddr, forwarded, s.TrustedProxies), 64)}
	if forwarded != "" && !isTrustedPeer(r.RemoteAddr, s.TrustedProxies) {
		s.forwarded.Do(func() {
			s.Log.Warn("ignoring X-Forwarded-For: it comes from an address that is not in TRUSTED_PROXIES; if that is the "+
				"reverse proxy, all clients behind it share one address and its rate limits", "address", info.address)
		})
	}
	r = r.WithContext(db.From(context.WithValue(r.Context(), infoKey{}, info), info.address))
	w := &statusWriter{ResponseWriter: writer}
	h := w.Header()
	h.Set("X-Request-Id", info.id)
	h["X-Content-Type-Options"] = headerNoSniff
	h["Content-Security-Policy"] = headerNoFrames
	if s.HSTS {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			info.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			if w.status == 0 {
				s.fail(w, r, asError(info.err))
			}
		}
		elapsed := time.Since(start)
		if r.Method != http.MethodGet && r.Method != http.MethodHead && w.status < 400 {
			s.changes.notify(info.caller.Actor.Tenant)
		}
		if info.streams {
			elapsed = 0
		}
		s.Metrics.observe(info.pattern, r.Method, w.status, elapsed)
		s.log(r, info, w.status, elapsed)
	}()
	if len(r.TransferEncoding) > 0 {
		// The request may also have had a Content-Length, which net/http removes. Such a request can smuggle another
		// request past a proxy that reads only the Content-Length. Therefore the connection ends with the response (RFC
		// 9112, section 6.3).
		h.Set("Connection", "close")
	}
	switch {
	case s.cors(w, r):
	case isClean(r.URL.Path):
		s.mux.ServeHTTP(w, r)
	default:
		s.reject(w, r, errNoPath)
	}
}

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

// cors adds the CORS headers to the response if the origin of the request is allowed. It answers preflight requests of
// allowed origins, and reports whether it answered the request.
func (s *Server) cors(w http.ResponseWriter, r *http.Request) bool {
	if len(s.CORSOrigins) == 0 {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(s.CORSOrigins, origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "ETag, Location, Retry-After, X-Request-Id, "+
		"X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Idempotency-Replayed")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, "+
		"If-Match, If-None-Match, X-API-Key, X-Request-Id")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// drainTime is how long running requests may take to finish when the service stops.
const drainTime = 20 * time.Second

// Serve serves requests on the listener until ctx is done. Then /readyz fails at once, and load balancers have
// DrainDelay to notice. After DrainDelay, Serve closes the listener, and running requests have 20 seconds to finish.
// Serve returns nil after such a stop, and the error of http.Server.Serve otherwise.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	h := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,

		DisableGeneralOptionsHandler: true, // its response to OPTIONS * lacks the common headers
		ErrorLog:                     log.New(&errorLog{log: s.Log}, "", 0),

		ConnState: s.connections.changed,
	}
	for _, f := range s.Surfaces {
		go f.Run(ctx)
	}
	var background sync.WaitGroup
	defer background.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	if s.Background != nil {
		background.Go(func() { s.Background(ctx) })
	}
	stopped := make(chan error, 1)
	go func() { stopped <- h.Serve(listener) }()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
	}
	s.draining.Store(true)
	time.Sleep(s.DrainDelay)
	s.changes.close()
	for _, f := range s.Surfaces {
		f.Close()
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if err := h.Shutdown(ending); err != nil {
		s.Log.Warn("the service stopped before all requests finished", "error", err)
		h.Close()
	}
	if s.Stopped != nil {
		if err := s.Stopped(ending); err != nil {
			s.Log.Warn("the service could not save the last use of API keys", "error", err)
		}
	}
	return nil
}
