// Package server is the HTTP toolkit: routes as data, decoding and encoding of JSON, errors, lists, rate limits, the
// pages of the OpenAPI document. It depends on no feature, and knows only the actor and the access level of a caller.
package server

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spoolwright/db"
	"spoolwright/server/docs"
	"spoolwright/server/limit"
	"spoolwright/server/metrics"
)

const apiPrefix = "/api/v1/"

// Caller is the authenticated sender of a request: a user or an API key.
type Caller struct {
	Actor   db.Actor
	Level   Access // the highest access level that the caller has
	Printer bool   // whether the caller is an API key of a printer; such a key has Level only on a Surface
	Watcher bool   // whether the caller is an API key of a watcher; such a key has Level only on routes ForWatchers
}

// Config configures a Server. Only Routes, Document, DB, Authenticate and Ready are required.
type Config struct {
	Routes    []Route
	Surfaces  []Surface
	Receivers []Receiver
	Site      func(*Server) *Site         // returns the pages for people; nil means no pages
	Events    []Event                     // the events that webhooks get, for the OpenAPI document
	Secrets   []string                    // the keys of the fingerprints of requests with an Idempotency-Key
	DB        *db.DB                      // stores responses to requests with an Idempotency-Key
	Ready     func(context.Context) error // checks that the database is reachable and migrated
	PerMinute int                         // requests per user, API key or address; 0 turns the limit off
	PerHour   int                         // the same for an hour
	Stopped   func(context.Context) error // if not nil, Serve calls it after the last request, to save state
	// Serve calls Background in a goroutine of its own, if it is not nil. Background must return soon after its
	// context ends. Serve waits until Background returns.
	Background func(context.Context)
	// Document makes the OpenAPI document. It is openapi.Document.
	Document func(routes []Route, version string, events ...Event) []byte
	// Authenticate returns the sender of a request. If basic is set, it accepts an API key as the password of Basic
	// authentication and as a Bearer token. It calls admit before it looks up an API key in the database. An error of
	// admit means that the client's address has sent too many invalid keys; Authenticate returns this error.
	Authenticate func(r *http.Request, basic bool, admit func() error) (Caller, error)
	// TenantPerMinute limits the requests of all users of a tenant together; 0 turns the limit off.
	TenantPerMinute int
	TrustedProxies  []netip.Prefix // proxies whose X-Forwarded-For is trusted
	CORSOrigins     []string       // allowed origins, as browsers send them
	HSTS            bool           // whether clients reach the service over TLS
	Version         string
	Log             *slog.Logger
	Metrics         *metrics.Metrics
	MaxConnections  int              // of all clients together; 0 derives it from the limit of open files
	DrainDelay      time.Duration    // how long the service is "not ready" before it closes the listener
	Now             func() time.Time // for tests
}

// Server is the http.Handler of the service.
type Server struct {
	Config
	handler   http.Handler // the chain of all requests
	mux       *http.ServeMux
	site      *Site
	sendError func(http.ResponseWriter, *http.Request, *Error) // errorPage
	resources map[string]*resource                             // the handlers of the mux, by path
	limiter   *limit.Limiter
	inFlight  *limit.Queue
	heavy     *heavy
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
		c.Metrics = metrics.New(c.Version, nil)
	}
	s := &Server{
		Config: c, mux: http.NewServeMux(), resources: map[string]*resource{}, readiness: readiness{check: c.Ready},
		heavy: newHeavy(), inFlight: limit.NewQueue(maxInFlight, maxInFlightTenant, maxInFlightCaller),
	}
	s.sendError = s.errorPage
	s.limiter = limit.New(maxLimitedKeys, c.Now)
	if c.MaxConnections == 0 {
		database := 0
		if c.DB != nil {
			database = int(c.DB.Stats().Max)
		}
		s.MaxConnections = connectionLimit(database)
	}
	s.connections = newConnections(s.MaxConnections, c.TrustedProxies, c.Log)
	c.Metrics.Add(s.connections.writeMetrics)
	current := map[string]*operation{} // by path
	for _, route := range c.Routes {
		if route.Lock != nil {
			current[route.Path()] = s.operation(route)
		}
	}
	for _, route := range c.Routes {
		o := s.operation(route)
		switch route.Method() {
		case http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete:
			o.current = current[route.Path()]
		}
		if above, _, ok := strings.Cut(route.Path(), "/{id}/"); ok {
			o.whole = current[above+"/{id}"]
		}
		o.tagged = o.current != nil || route.CreatesVersioned(func(path string) bool { return current[path] != nil })
		who := callers{level: route.Access, usersOnly: route.UsersOnly, keysOnly: route.KeysOnly,
			watchers: route.Watchers, settingUp: route.SettingUp}
		if route.Endpoint.export != nil || route.Endpoint.picture != nil || route.Endpoint.events != nil {
			s.handle(route.Pattern, s.files(o, who))
		} else {
			s.handle(route.Pattern, s.api(o, who))
		}
	}
	for _, f := range c.Surfaces {
		surface := s.surface(f, callers{level: Read, printers: true})
		s.mux.Handle(f.Prefix, surface)
		if f.KeyPrefix != "" {
			s.mux.Handle(f.KeyPrefix, f.keyInPath(surface))
		}
	}
	for _, f := range c.Receivers {
		s.handle(f.Pattern, s.receiver(f))
	}
	pages := docs.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { ErrNotFound.write(w, "") }))
	for _, pattern := range []string{"GET /docs", "GET /docs/", "GET /redoc", "GET /redoc/"} {
		s.handle(pattern, s.document(pages))
	}
	openapi := sync.OnceValue(func() http.Handler { // most services never get a request for the document
		return docs.Document(append(c.Document(c.Routes, c.Version, c.Events...), '\n'))
	})
	s.handle("GET /openapi.json", s.document(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		openapi().ServeHTTP(w, r)
	})))
	s.handle("GET /favicon.ico", s.document(docs.Icon()))
	if c.Site != nil {
		s.site = c.Site(s)
		for _, page := range s.site.Pages {
			s.handle(page.Pattern, s.page(page))
		}
		for _, asset := range s.site.Assets {
			s.handle(asset.Pattern, s.asset(asset))
		}
	} else {
		s.handle("GET /{$}", s.document(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "docs") // relative, so that it works behind a path prefix
			w.WriteHeader(http.StatusFound)
		})))
	}
	healthy := []byte(`{"status":"ok","version":"` + c.Version + `"}`)
	s.handle("GET /healthz", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, 200, healthy)
	}))
	s.handle("GET /readyz", http.HandlerFunc(s.ready))
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.reject(w, r, errNoPath) })
	s.handler = s.every()
	return s
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// drainTime is how long running requests may take to finish when the service stops.
const drainTime = 20 * time.Second

// Serve serves requests on the listener until ctx is done. Then /readyz fails at once, and load balancers have
// DrainDelay to notice. After DrainDelay, Serve closes the listener, and running requests have 20 seconds to finish.
// Serve returns nil after such a stop, and the error of http.Server.Serve otherwise.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	h := s.httpServer()
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
