// Package server is the HTTP toolkit: routes as data, JSON in and out, errors, lists, limits, the OpenAPI document and
// its pages. It knows no feature, and of a caller only whom to bind to and what level of access it has.
package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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
)

const apiPrefix = "/api/v1/"

// Caller is what the server must know of whoever sent a valid token.
type Caller struct {
	Actor db.Actor
	Level Access // the highest level of access
}

// Config is what a Server is made of.
type Config struct {
	Routes         []Route
	Secrets        []string                            // of the tokens; requests with an Idempotency-Key are told apart with them
	DB             *db.DB                              // keeps the answers to requests with an Idempotency-Key
	Authenticate   func(*http.Request) (Caller, error) // from the bearer token; an *Error if there is no valid one
	Ready          func(context.Context) error         // whether the database is reachable and migrated
	PerMinute      int                                 // requests per user or address; 0 turns the limit off
	PerHour        int
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is believed
	CORSOrigins    []string       // origins whose pages may call, exactly as browsers send them
	HSTS           bool           // the service is reached over TLS
	Version        string
	Log            *slog.Logger
	Metrics        *Metrics
	DrainDelay     time.Duration    // between the end of being ready and the end of accepting
	Now            func() time.Time // for tests; nil is the wall clock
}

// Server answers all requests. It is an http.Handler.
type Server struct {
	Config
	mux       *http.ServeMux
	resources map[string]*resource // of the mux, by path
	limiter   *Limiter
	draining  atomic.Bool
	readyMu   sync.Mutex // held during a call of Ready
}

// maxLimitedKeys bounds the memory that users and addresses seen by the limiter can take.
const maxLimitedKeys = 100_000

// New makes a Server. It panics if two routes collide, which is a mistake of the program.
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
	s := &Server{Config: c, mux: http.NewServeMux(), resources: map[string]*resource{}}
	s.limiter = NewLimiter(c.PerMinute, c.PerHour, maxLimitedKeys, c.Now)
	for _, route := range c.Routes {
		o := &operation{s, route, wildcards(route.Pattern)}
		s.handle(route.Pattern, o.ServeHTTP)
	}
	docs := docsHandler()
	for _, pattern := range []string{"GET /docs", "GET /docs/", "GET /redoc", "GET /redoc/"} {
		s.handle(pattern, docs.ServeHTTP)
	}
	openapi := OpenAPI(c.Routes, c.Version)
	s.handle("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		writeJSON(w, 200, openapi)
	})
	s.handle("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, 200, []byte(`{"status":"ok"}`))
	})
	s.handle("GET /readyz", s.ready)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.reject(w, r, errNoPath) })
	return s
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	err := errors.New("draining")
	if !s.draining.Load() {
		// One look at a time, and none that ends with its client: /readyz has no limits and must not become a load.
		s.readyMu.Lock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 2*time.Second)
		err = s.Ready(ctx)
		cancel()
		s.readyMu.Unlock()
		if err == nil {
			writeJSON(w, 200, []byte(`{"status":"ready"}`))
			return
		}
	}
	noteOf(r).err = err
	ErrUnavailable.write(w, noteOf(r).id)
}

// note collects what the log line of a request will say.
type note struct {
	id      string
	pattern string
	caller  Caller
	address string
	err     error
}

type noteKey struct{}

func noteOf(r *http.Request) *note {
	n, _ := r.Context().Value(noteKey{}).(*note)
	if n == nil {
		return &note{}
	}
	return n
}

// recorder remembers what was sent.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = 200
	}
	return r.ResponseWriter.Write(b)
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// ServeHTTP answers one request: it is logged and counted once, and a panic is a 500.
func (s *Server) ServeHTTP(writer http.ResponseWriter, r *http.Request) {
	start := time.Now()
	n := &note{id: requestID(r), address: clientAddr(r.RemoteAddr, strings.Join(r.Header.Values("X-Forwarded-For"), ","), s.TrustedProxies)}
	r = r.WithContext(context.WithValue(r.Context(), noteKey{}, n))
	w := &recorder{ResponseWriter: writer}
	h := w.Header()
	h.Set("X-Request-Id", n.id)
	h.Set("X-Content-Type-Options", "nosniff")
	if s.HSTS {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			n.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			if w.status == 0 {
				asError(n.err).write(w, n.id)
			}
		}
		elapsed := time.Since(start)
		s.Metrics.observe(n.pattern, r.Method, w.status, elapsed)
		s.log(r, n, w.status, elapsed)
	}()
	switch {
	case s.cors(w, r):
	case isClean(r.URL.Path):
		s.mux.ServeHTTP(w, r)
	default:
		s.reject(w, r, errNoPath)
	}
}

func (s *Server) log(r *http.Request, n *note, status int, elapsed time.Duration) {
	level := slog.LevelInfo
	switch {
	case r.Context().Err() != nil: // the client hung up: its own affair, whatever the status
	case status >= 500 && n.pattern != "GET /readyz":
		level = slog.LevelError
	case n.pattern == "GET /healthz" || n.pattern == "GET /readyz":
		level = slog.LevelDebug
	}
	if !s.Log.Enabled(r.Context(), level) {
		return
	}
	attrs := make([]slog.Attr, 0, 10)
	attrs = append(attrs, slog.String("request_id", n.id), slog.String("method", r.Method), slog.String("route", n.pattern),
		slog.Int("status", status), slog.Duration("duration", elapsed), slog.String("address", n.address))
	if n.caller.Actor.User != "" {
		attrs = append(attrs, slog.String("user", n.caller.Actor.User), slog.String("tenant", n.caller.Actor.Tenant))
	}
	if n.err != nil {
		attrs = append(attrs, slog.String("error", n.err.Error()))
	}
	s.Log.LogAttrs(r.Context(), level, "request", attrs...)
}

// requestID takes over the client's or proxy's id if it is harmless, and makes one otherwise.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > 128 || strings.ContainsFunc(id, func(c rune) bool {
		return !(c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '-' || c == '_' || c == '.')
	}) {
		return db.NewID()
	}
	return id
}

// cors answers a preflight request of an allowed origin, and lets its other requests be read. It reports whether the
// request is answered.
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
	h.Set("Access-Control-Expose-Headers", "Location, Retry-After, X-Request-Id, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Idempotency-Replayed")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, X-Request-Id")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// drainTime is how long requests that run when the service stops may take to finish.
const drainTime = 20 * time.Second

// Serve answers on the listener until ctx ends. Then it is not ready any more, goes on for DrainDelay so that load balancers
// notice, stops accepting, lets what runs finish (20 seconds at most), and returns nil.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	h := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,

		DisableGeneralOptionsHandler: true, // which would answer OPTIONS * without the headers of every answer
		ErrorLog:                     slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if err := h.Shutdown(ctx); err != nil {
		s.Log.Warn("requests were still running when the service stopped", "error", err)
		h.Close()
	}
	return nil
}
