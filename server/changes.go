package server

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"sync"
	"time"

	"spoolwright/db"
)

const (
	streamsPerUser = 50 // the maximum number of open streams of a user

	// Streams of the API read the database each second.
	eventsPerTenant = 10
	eventsPerUser   = 5
	eventsOfAll     = 200

	// eventsLast is how long a stream of the API lasts, so that it ends soon after the token of its request. eventsBeat
	// is the maximum time between two messages, which find out whether the client is still there.
	eventsLast = 15 * time.Minute
	eventsBeat = 20 * time.Second

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
	users   map[string]int // the number of streams of each user or API key
	events  map[string]int // the number of streams of the API of each tenant, user and API key; "" is that of all
}

type stream struct {
	actor   db.Actor
	events  bool      // whether it is a stream of the API
	changed chan bool // holds a value after a change
	gone    chan bool // closed when the service stops
}

func (c *changes) add(actor db.Actor, events bool) (*stream, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.users[actor.ID()] >= streamsPerUser ||
		events && (c.events[actor.ID()] >= eventsPerUser || c.events[actor.Tenant] >= eventsPerTenant ||
			c.events[""] >= eventsOfAll) {
		return nil, false
	}
	if c.tenants == nil {
		c.tenants, c.users, c.events = map[string]map[*stream]bool{}, map[string]int{}, map[string]int{}
	}
	if events {
		c.events[actor.ID()]++
		c.events[actor.Tenant]++
		c.events[""]++
	}
	if c.tenants[actor.Tenant] == nil {
		c.tenants[actor.Tenant] = map[*stream]bool{}
	}
	s := &stream{actor, events, make(chan bool, 1), make(chan bool)}
	c.tenants[actor.Tenant][s] = true
	c.users[actor.ID()]++
	return s, true
}

func (c *changes) remove(s *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	decrement(c.users, s.actor.ID())
	if s.events {
		decrement(c.events, s.actor.ID())
		decrement(c.events, s.actor.Tenant)
		decrement(c.events, "")
	}
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
	stream, send, end, err := s.openStream(w, r, actor, false)
	if err != nil {
		return err
	}
	defer end()
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

// openStream begins a stream of server-sent events. It returns the stream, a function that sends a text, and one that
// the caller must call at the end.
func (s *Server) openStream(w http.ResponseWriter, r *http.Request, actor db.Actor, events bool,
) (*stream, func(text string) error, func(), error) {
	if err := s.connections.addWebSocket(actor.Tenant); err != nil {
		return nil, nil, nil, err
	}
	stream, ok := s.changes.add(actor, events)
	if !ok {
		s.connections.removeWebSocket(actor.Tenant, nil)
		return nil, nil, nil, ErrTooManyWebSockets
	}
	end := func() {
		s.changes.remove(stream)
		s.connections.removeWebSocket(actor.Tenant, nil)
	}
	infoOf(r).streams = true
	h := w.Header()
	h.Set("Content-Type", EventMedia)
	h.Set("X-Accel-Buffering", "no") // for nginx
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		end()
		return nil, nil, nil, err
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
	return stream, send, end, nil
}

// EventMedia is the media type of a stream of server-sent events.
const EventMedia = "text/event-stream"

// Poll returns the next event of a stream, with the id that the client sends as Last-Event-ID when it connects again.
// Without data, there is no event.
type Poll func(ctx context.Context) (id string, data []byte, err error)

// HandleEvents returns an endpoint whose response is a stream of server-sent events. Open returns the function that is
// called at once and then each second, until it returns an error, the client or the service ends the stream, or 15
// minutes are over. Last is the Last-Event-ID, or "".
func HandleEvents[R any](open func(r R, last string) (Poll, error)) Endpoint {
	e := endpointOf(reflect.TypeFor[R](), outcome{Status: 200})
	e.File = EventMedia
	decode := e.decoder()
	e.events = func(c call, last string) (Poll, error) {
		r, err := decode(c)
		if err != nil {
			return nil, err
		}
		return open(r.Interface().(R), last)
	}
	return e
}

// sendEvents answers the request of an endpoint from HandleEvents. An error of the first poll is the response.
func (s *Server) sendEvents(w http.ResponseWriter, r *http.Request, poll Poll) error {
	ctx, cancel := context.WithTimeout(r.Context(), eventsLast)
	defer cancel()
	id, data, err := poll(ctx)
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", EventMedia)
		return nil
	}
	actor := infoOf(r).caller.Actor
	stream, send, end, err := s.openStream(w, r, actor, true)
	if err != nil {
		return err
	}
	defer end()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for sent := time.Now(); err == nil; id, data, err = poll(ctx) {
		text := ""
		switch {
		case data != nil:
			text = "id: " + id + "\ndata: " + string(data) + "\n\n"
		case time.Since(sent) >= eventsBeat:
			text = ":\n\n"
		}
		if text != "" {
			if send(text) != nil {
				return nil
			}
			sent = time.Now()
		}
		select {
		case <-tick.C:
			if actor.User != "" { // whose token expires; poll checks API keys
				if _, err := s.Authenticate(r, false, nil); err != nil {
					return nil
				}
			}
		case <-stream.gone:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}
