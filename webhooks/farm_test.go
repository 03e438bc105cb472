package webhooks_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spoolwright/app"
	"spoolwright/catalog"
	"spoolwright/db"
	"spoolwright/inventory"
	"spoolwright/orders"
	"spoolwright/orders/pieces"
	"spoolwright/orders/planning"
	"spoolwright/orders/stock"
	"spoolwright/production"
	"spoolwright/production/printers"
	"spoolwright/server"
	"spoolwright/tests/testkit"
	"spoolwright/webhooks"
)

// TestMain sets a proxy, which the dispatcher must not use. Go never uses one for the addresses of this computer.
func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		os.Setenv(name, "http://127.0.0.1:1")
	}
	testkit.Main(m)
}

// farm is a service with a database of its own, because a dispatcher works for all tenants of a database.
type farm struct {
	*testkit.API
	config webhooks.Config
	cancel func() // makes the dispatcher stop
	stop   func() // likewise, and waits until it has stopped
}

// start starts a service whose dispatcher may reach this computer, trusts the certificate of receivers, and tries
// three times, with short pauses. Change may be nil.
func start(t *testing.T, change func(*webhooks.Config)) *farm {
	t.Helper()
	f := startWithout(t, testkit.Database(t, db.Config{MaxConns: 16}), change)
	f.run(t, f.config)
	return f
}

// startWithout is start without a dispatcher, with a given database.
func startWithout(t *testing.T, d *db.DB, change func(*webhooks.Config)) *farm {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(certificate())
	f := &farm{config: webhooks.Config{
		DB: d, Secrets: []string{testkit.Secret}, Roots: roots,
		AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Schedule:        []time.Duration{100 * time.Millisecond, 200 * time.Millisecond},
		Timeout:         10 * time.Minute, // so that no try fails because the computer is slow
		Poll:            100 * time.Millisecond, Grace: 2 * time.Second,
	}}
	if change != nil {
		change(&f.config)
	}
	hooks := webhooks.New(f.config)
	f.API = testkit.New(t, testkit.Options{DB: d, Change: func(c *server.Config) { c.Events = app.Events }},
		inventory.Routes, printers.Routes, catalog.Routes, production.Routes(orders.Runs), orders.Routes, stock.Routes,
		planning.Routes, pieces.Routes,
		func(*db.DB) []server.Route { return hooks.Routes() })
	return f
}

// run runs a dispatcher until f.cancel or f.stop is called or the test ends.
func (f *farm) run(t *testing.T, c webhooks.Config) {
	t.Helper()
	if c.Log == nil {
		c.Log = slog.New(unrecorded{slog.DiscardHandler})
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { webhooks.New(c).Run(ctx); close(ended) }()
	f.cancel, f.stop = cancel, func() { cancel(); <-ended }
	t.Cleanup(f.stop)
}

// unrecorded is the log of a dispatcher. It keeps the error in broken if the dispatcher cannot record what a receiver
// answered although the database is up: it would try again and again, and tests would wait in vain.
type unrecorded struct{ slog.Handler }

var broken atomic.Pointer[error]

func (unrecorded) Enabled(context.Context, slog.Level) bool { return true }
func (unrecorded) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		if ok && strings.HasPrefix(r.Message, "cannot record") && !errors.Is(err, db.ErrUnavailable) {
			broken.Store(&err)
		}
		return true
	})
	return nil
}

// certificate returns the certificate of all receivers.
var certificate = sync.OnceValue(func() *x509.Certificate {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return s.Certificate()
})

// received is a request that a receiver got.
type received struct {
	at     time.Time
	method string
	header http.Header
	body   []byte
}

func (r received) id() string { return r.header.Get("webhook-id") }

// receiver is an HTTPS server that records requests.
type receiver struct {
	*httptest.Server
	answer func(w http.ResponseWriter, r *http.Request)

	mu  sync.Mutex
	all []received
	got chan received
}

// receive starts a receiver. It answers 204 if answer is nil.
func receive(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	s := &receiver{got: make(chan received, 10_000), answer: answer}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got := received{time.Now(), r.Method, r.Header.Clone(), body}
		s.mu.Lock()
		s.all = append(s.all, got)
		s.mu.Unlock()
		s.got <- got
		if s.answer != nil {
			s.answer(w, r)
		} else {
			w.WriteHeader(204)
		}
	}))
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *receiver) requests() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// wait returns the next request.
func (s *receiver) wait(t *testing.T) received {
	t.Helper()
	select {
	case r := <-s.got:
		return r
	case <-time.After(testkit.WaitTimeout):
		t.Fatal("timed out waiting for a request to the receiver")
		panic("unreachable")
	}
}

// wantNone fails the test if the receiver gets a request within the time.
func (s *receiver) wantNone(t *testing.T, within time.Duration) {
	t.Helper()
	select {
	case r := <-s.got:
		t.Fatalf("the receiver got %s", r.body)
	case <-time.After(within):
	}
}

// verify returns an error unless the request has a valid signature with the secret.
func (r received) verify(secret string) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) != 32 || !strings.HasPrefix(secret, "whsec_") {
		return fmt.Errorf("the secret %q has another form", secret)
	}
	return r.signedWith(key)
}

// signedWith returns an error unless the request has a valid signature with the key.
func (r received) signedWith(key []byte) error {
	sent, err := strconv.ParseInt(r.header.Get("webhook-timestamp"), 10, 64)
	if age := r.at.Sub(time.Unix(sent, 0)); err != nil || age < -2*time.Second || age > testkit.WaitTimeout {
		return fmt.Errorf("the timestamp is %q", r.header.Get("webhook-timestamp"))
	}
	sum := hmac.New(sha256.New, key)
	fmt.Fprintf(sum, "%s.%d.%s", r.id(), sent, r.body)
	want := "v1," + base64.StdEncoding.EncodeToString(sum.Sum(nil))
	if !slices.Contains(strings.Split(r.header.Get("webhook-signature"), " "), want) {
		return fmt.Errorf("the signatures are %q, want one to be %s", r.header.Get("webhook-signature"), want)
	}
	return nil
}

// webhook creates a webhook for all events.
func (f *farm) webhook(t *testing.T, admin *testkit.Client, url string) *testkit.Response {
	t.Helper()
	return admin.Post(t, "/api/v1/webhooks",
		testkit.JSON{"url": url, "events": webhooks.EventType("").Enum()}).Want(201)
}

const hooksPath = "/api/v1/webhooks/"

// eventually waits until the resource at the path shows these values.
func eventually(t *testing.T, c *testkit.Client, path string, want map[string]string) *testkit.Response {
	t.Helper()
	var a *testkit.Response
	testkit.Eventually(t, fmt.Sprintf("%s shows %v", path, want), func() bool {
		if err := broken.Load(); err != nil {
			t.Fatalf("%s cannot show %v: a dispatcher cannot record outcomes: %v", path, want, *err)
		}
		a = c.Get(t, path).Want(200)
		same := true
		for field, text := range want {
			same = same && a.Text(field) == text
		}
		return same
	})
	return a
}

// complete completes a new run, and returns its id.
func complete(t *testing.T, c *testkit.Client) string {
	t.Helper()
	spool := c.Post(t, "/api/v1/spools", testkit.JSON{
		"material_type": "PLA", "color": "Black", "diameter_mm": 1.75, "net_weight_grams": 1000}).Want(201).ID()
	run := c.Post(t, "/api/v1/production-runs", testkit.JSON{
		"printer_name": `Printer "1" 100%s`, "started_at": "2024-01-15T10:00:00Z",
		"completed_at": "2024-01-15T11:30:00Z",
		"materials":    []any{testkit.JSON{"spool_id": spool, "actual_weight_grams": 12.5}}}).Want(201).ID()
	c.Post(t, "/api/v1/production-runs/"+run+"/complete", nil).Want(200)
	return run
}
