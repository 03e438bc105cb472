package server

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"spoolwright/db"
)

const (
	streamsPerUser = 50 // the maximum number of open streams of a user

	// streamPause is the minimum time between two events of a stream. A page is read again after each event; the pause
	// keeps these requests far below the rate limits.
	streamPause = 10 * time.Second

	// streamBeat is the maximum time between two events. It makes pages show changes that depend on the time, and
	// changes by other instances of the service.
	streamBeat = time.Minute
)

// changes contains the open streams of this instance, and notifies them when a request has changed data of their
// tenant.
type changes struct {
	mu      sync.Mutex
	closed  bool
	tenants map[string]map[*stream]bool
	users   map[string]int
}

// stream is an open stream of a user.
type stream struct {
	actor   db.Actor
	changed chan bool // holds a value after a change
	gone    chan bool // closed when the service stops
}

func (c *changes) add(actor db.Actor) (*stream, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.users[actor.User] >= streamsPerUser {
		return nil, false
	}
	if c.tenants == nil {
		c.tenants, c.users = map[string]map[*stream]bool{}, map[string]int{}
	}
	if c.tenants[actor.Tenant] == nil {
		c.tenants[actor.Tenant] = map[*stream]bool{}
	}
	s := &stream{actor, make(chan bool, 1), make(chan bool)}
	c.tenants[actor.Tenant][s] = true
	c.users[actor.User]++
	return s, true
}

func (c *changes) remove(s *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	decrement(c.users, s.actor.User)
	delete(c.tenants[s.actor.Tenant], s)
	if len(c.tenants[s.actor.Tenant]) == 0 {
		delete(c.tenants, s.actor.Tenant)
	}
}

// notify notifies the streams of a tenant of a change.
func (c *changes) notify(tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.tenants[tenant] {
		select {
		case s.changed <- true:
		default: // the stream has not yet received the value of an earlier change
		}
	}
}

// close ends all streams. Afterwards, add rejects new streams.
func (c *changes) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, streams := range c.tenants {
		for s := range streams {
			close(s.gone)
		}
	}
}

// StreamChanges answers a request of the user with a stream of server-sent events without data. It sends an event soon
// after a request has changed data of the user's tenant, and at least one event a minute. Before each event, it calls
// check. The stream ends when check returns an error, when the connection ends, and when the service stops.
//
// A stream counts as a WebSocket in the bounds of connections, and holds no connection to the database. The error is
// ErrTooManyWebSockets if the user or the tenant has too many streams, and ErrUnavailable if all tenants together have
// too many.
func (s *Server) StreamChanges(
	w http.ResponseWriter, r *http.Request, actor db.Actor, check func(context.Context) error,
) error {
	if err := s.connections.addWebSocket(actor.Tenant); err != nil {
		return err
	}
	defer s.connections.removeWebSocket(actor.Tenant, nil)
	stream, ok := s.changes.add(actor)
	if !ok {
		return ErrTooManyWebSockets
	}
	defer s.changes.remove(stream)
	infoOf(r).streams = true
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // for nginx
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	send := func(text string) error {
		if err := control.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return err
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
		return control.Flush()
	}
	// wait returns true after a change or the timeout, and false when the stream has ended.
	wait := func(changed <-chan bool, timeout time.Duration) bool {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		select {
		case <-changed:
		case <-timer.C:
		case <-stream.gone:
			return false
		case <-r.Context().Done():
			return false
		}
		return true
	}
	if send(":\n\n") != nil || !wait(stream.changed, streamBeat) {
		return nil
	}
	for check(r.Context()) == nil && send("data:\n\n") == nil {
		if !wait(nil, streamPause) || !wait(stream.changed, streamBeat-streamPause) {
			break
		}
	}
	return nil
}
