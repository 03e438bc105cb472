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
	streamsPerUser = 50 // open at a time

	// streamPause is the least time between two events of a stream, so that the pages which are read again do not come
	// near the limits of requests.
	streamPause = 10 * time.Second

	// streamBeat is the longest time between two events. It makes pages show what time has changed, and what other
	// instances of the service have.
	streamBeat = time.Minute
)

// changes tells the streams of this instance that a request has changed something of their tenant.
type changes struct {
	mu      sync.Mutex
	closed  bool
	tenants map[string]map[*stream]bool
	users   map[string]int
}

// stream is an open stream of a user.
type stream struct {
	actor   db.Actor
	changed chan bool // has one value after a change
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

// notify tells the streams of a tenant of a change.
func (c *changes) notify(tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.tenants[tenant] {
		select {
		case s.changed <- true:
		default: // it has not yet been told of an earlier one
		}
	}
}

// close ends all streams, and rejects new ones.
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

// StreamChanges answers a request of the user with server-sent events that have no data: one soon after a request has
// changed something of the user's tenant, and one after each minute. The stream ends with the connection or the
// service, and when check, which is called before each event, returns an error. It counts as a WebSocket in the bounds
// of connections, and holds no connection to the database. The error is ErrTooManyWebSockets if the user or the tenant
// has too many.
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
	// wait returns true after a change or the time, and false when the stream has ended.
	wait := func(changed <-chan bool, most time.Duration) bool {
		timer := time.NewTimer(most)
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
