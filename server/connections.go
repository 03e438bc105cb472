package server

import (
	"container/list"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"spoolwright/server/metrics"
	"spoolwright/value"
	"spoolwright/value/language"
)

// Bounds of the connections of clients. Without bounds, one client could use up the file descriptors or the memory of
// the process: an idle connection takes about 20 KB.
const (
	maxConnections   = 20_000 // the maximum of all clients together, if the limit of open files permits it
	addressShare     = 4      // a client address has at most 1/addressShare of the connections
	tenantShare      = 4      // the WebSockets of a tenant are at most 1/tenantShare of the connections
	webSocketShare   = 2      // the WebSockets of all tenants are at most 1/webSocketShare of the connections
	spareConnections = 16     // connections above the maximum, for client addresses that have no other connection
)

// connectionLimit returns the maximum number of connections of clients. Database is the number of connections to the
// database, which use open files too. Half of the remaining open files is for clients, and the other half is for
// files, webhooks and metrics. The Go runtime has raised the soft limit of open files to the hard limit.
func connectionLimit(database int) int {
	n := (int(min(openFiles(), 1<<20)) - database) / 2
	return min(max(n, spareConnections), maxConnections)
}

// connections counts and bounds the connections of clients. When there are max connections, a new connection replaces
// the connection that has been without a request for the longest time.
type connections struct {
	max     int
	trusted []netip.Prefix
	log     *slog.Logger

	mu         sync.Mutex
	open       map[net.Conn]*connection
	waiting    list.List      // of *connection: connections without a request, in the order in which they began to wait
	addresses  map[string]int // the number of connections by client address, without connections of trusted proxies
	tenants    map[string]int // the number of WebSockets by tenant
	webSockets int

	perAddress, replaced, rejected, perTenant, allWebSockets bound
}

type connection struct {
	conn    net.Conn
	address string        // empty for a trusted proxy
	waits   *list.Element // the element of connections.waiting; nil during a request or a WebSocket
}

// bound counts how often clients reached a bound.
type bound struct {
	count    int64
	throttle throttle
}

// ErrTooManyWebSockets is the error for a client that has too many open WebSocket connections.
var ErrTooManyWebSockets = &Error{Status: 429, Code: "RATE_LIMIT_EXCEEDED", RetryAfter: 30 * time.Second,
	Detail: language.Sprintf("Too many open WebSocket connections")}

var errWebSockets = errors.New("too many WebSocket connections of all tenants")

func newConnections(most int, trusted []netip.Prefix, log *slog.Logger) *connections {
	return &connections{max: most, trusted: trusted, log: log, open: map[net.Conn]*connection{},
		addresses: map[string]int{}, tenants: map[string]int{}}
}

// reached counts an event at a bound, and logs it at most once a minute.
func (c *connections) reached(b *bound, message string, args ...any) {
	b.count++
	if n := b.throttle.allow(); n > 0 {
		c.log.Warn(message, append(args, "times", n)...)
	}
}

// changed is the ConnState of the http.Server. The http.Server does not report the end of a WebSocket; webSocketConn
// does.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.add(conn)
	case http.StateActive, http.StateIdle:
		if known := c.open[conn]; known != nil {
			c.stopWaiting(known)
			if state == http.StateIdle {
				known.waits = c.waiting.PushBack(known)
			}
		}
	case http.StateClosed:
		c.remove(conn)
	}
}

// add admits a new connection, or closes it if there are too many.
func (c *connections) add(conn net.Conn) {
	added := &connection{conn: conn}
	if remote := conn.RemoteAddr().String(); !isTrustedPeer(remote, c.trusted) {
		added.address = clientAddr(remote, "", nil)
	}
	others := c.addresses[added.address]
	if added.address != "" && others >= max(1, c.max/addressShare) {
		c.reached(&c.perAddress, "a client address has too many connections: closing its new ones; if it is a reverse "+
			"proxy, add it to TRUSTED_PROXIES", "address", added.address, "connections", others)
		closeNow(conn)
		return
	}
	if len(c.open) >= c.max {
		switch longest := c.waiting.Front(); {
		case longest != nil:
			c.reached(&c.replaced, "clients have too many connections: closing those that are idle for the longest time",
				"connections", len(c.open))
			victim := longest.Value.(*connection).conn
			c.remove(victim)
			closeNow(victim)
		case others > 0 || len(c.open) >= c.max+spareConnections:
			c.reached(&c.rejected, "clients have too many connections and none is idle: closing new ones",
				"connections", len(c.open))
			closeNow(conn)
			return
		}
	}
	added.waits = c.waiting.PushBack(added)
	c.open[conn] = added
	if added.address != "" {
		c.addresses[added.address]++
	}
}

func (c *connections) remove(conn net.Conn) {
	known := c.open[conn]
	if known == nil {
		return
	}
	c.stopWaiting(known)
	delete(c.open, conn)
	if known.address != "" {
		decrement(c.addresses, known.address)
	}
}

func (c *connections) stopWaiting(known *connection) {
	if known.waits != nil {
		c.waiting.Remove(known.waits)
		known.waits = nil
	}
}

func decrement(counts map[string]int, key string) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
}

// closeNow closes a connection without the closing message of TLS, because sending it may have to wait for the client.
func closeNow(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	conn.Close()
}

func (c *connections) addWebSocket(tenant string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.tenants[tenant] >= max(1, c.max/tenantShare):
		c.reached(&c.perTenant, "a tenant has too many WebSocket connections: rejecting its new ones",
			"tenant", tenant, "connections", c.tenants[tenant])
		return ErrTooManyWebSockets
	case c.webSockets >= max(1, c.max/webSocketShare):
		c.reached(&c.allWebSockets, "clients have too many WebSocket connections: rejecting new ones",
			"connections", c.webSockets)
		return ErrUnavailable.Because(errWebSockets)
	}
	c.tenants[tenant]++
	c.webSockets++
	return nil
}

func (c *connections) removeWebSocket(tenant string, conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.webSockets--
	decrement(c.tenants, tenant)
	c.remove(conn)
}

func (c *connections) writeMetrics(w metrics.Writer) {
	c.mu.Lock()
	idle, webSockets := c.waiting.Len(), c.webSockets
	active := max(0, len(c.open)-idle-webSockets)
	rejected := []int64{c.perAddress.count, c.rejected.count, c.perTenant.count, c.allWebSockets.count}
	replaced := c.replaced.count
	c.mu.Unlock()
	w.Head("http_connections", "gauge", "Connections of clients by state.")
	w.Value("http_connections", `state="idle"`, idle)
	w.Value("http_connections", `state="active"`, active)
	w.Value("http_connections", `state="websocket"`, webSockets)
	w.Head("http_connections_max", "gauge", "Maximum number of connections of clients.")
	w.Value("http_connections_max", "", c.max)
	w.Head("http_connections_replaced_total", "counter", "Idle connections that were closed in favor of new ones.")
	w.Value("http_connections_replaced_total", "", replaced)
	w.Head("http_connections_rejected_total", "counter", "Connections and WebSockets over a bound.")
	for i, name := range []string{"address", "all", "tenant_websockets", "all_websockets"} {
		w.Value("http_connections_rejected_total", `bound="`+name+`"`, rejected[i])
	}
}

// throttle lets a repeated event pass once a minute. The zero value is ready to use.
type throttle struct {
	mu     sync.Mutex
	passed time.Time
	held   int
}

// allow reports an event. It returns 0 if an earlier event passed less than a minute ago. Otherwise the event passes,
// and allow returns the number of events since the last event that passed.
func (t *throttle) allow() (events int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held++
	if now := time.Now(); t.passed.IsZero() || now.Sub(t.passed) >= time.Minute {
		events, t.held, t.passed = t.held, 0, now
	}
	return events
}

// errorLog logs the http.Server's own errors. Clients cause most of these errors. Therefore at most one a minute is
// logged as a warning.
type errorLog struct {
	log      *slog.Logger
	throttle throttle
}

func (l *errorLog) Write(line []byte) (int, error) {
	text := value.Shorten(strings.TrimSpace(string(line)), maxLoggedError)
	if n := l.throttle.allow(); n > 0 {
		l.log.Warn("HTTP server", "error", text, "times", n)
	} else {
		l.log.Debug("HTTP server", "error", text)
	}
	return len(line), nil
}
