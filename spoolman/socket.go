package spoolman

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"spoolwright/db"
	"spoolwright/server"
)

// Bounds of WebSockets.
const (
	maxMessage = 4 << 10 // the size of a client's message, in bytes
	maxQueued  = 256     // messages that wait for a slow client; one message more closes the socket
	maxPerKey  = 100     // open sockets of a user or API key

	// Messages of more than largeMessage bytes share a limit of largeRate bytes a second over all sockets. Without
	// the limit, requests would wait while the service sends a spool with long texts to thousands of sockets.
	largeMessage = 16 << 10
	largeRate    = 128 << 20
	largeBurst   = 1 << 20

	pingEvery    = 20 * time.Second
	answerWithin = 40 * time.Second // the time that a client has to answer a ping
	writeWithin  = 10 * time.Second
)

const healthy = `{"status": "healthy"}`

func isUpgrade(r *http.Request) bool {
	return strings.Contains(strings.ToLower(r.Header.Get("Upgrade")), "websocket")
}

// socket is an open WebSocket connection.
type socket struct {
	caller db.Actor
	topic  string // the resource, or "setting", whose changes the client gets; "" for all changes
	item   string // the id or key of the item whose changes the client gets; "" for all items of the topic
	conn   *server.WebSocket
	out    chan []byte // messages to send
	gone   chan bool   // closed by end
	once   sync.Once
	code   websocket.StatusCode // the code of the close frame
}

// end makes write send a close frame with the code and close the connection. Only the first call has an effect.
func (s *socket) end(code websocket.StatusCode) {
	s.once.Do(func() {
		s.code = code
		close(s.gone)
	})
}

// send queues a message. It closes the socket if the client reads too slowly.
func (s *socket) send(message []byte) {
	select {
	case s.out <- message:
	default:
		s.end(websocket.StatusPolicyViolation)
	}
}

// ended reports whether end was called.
func (s *socket) ended() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// write sends the queued messages and pings until end is called. Then it closes the connection, without the messages
// that are still queued: the caller is no longer allowed to read.
func (s *socket) write(pace *rate.Limiter) {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		select {
		case message := <-s.out:
			if len(message) > largeMessage {
				s.pause(pace.ReserveN(time.Now(), min(len(message), largeBurst)))
			}
			if s.ended() {
				continue // select chooses at random if there is a message too
			}
			ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
			if s.conn.Write(ctx, websocket.MessageText, message) != nil {
				s.end(websocket.StatusPolicyViolation)
			}
			cancel()
		case <-ping.C:
			go s.ping()
		case <-s.gone:
			s.conn.End(s.code)
			return
		}
	}
}

// pause waits until the limit for large messages allows the next message, or until end is called.
func (s *socket) pause(turn *rate.Reservation) {
	select {
	case <-time.After(turn.Delay()):
	case <-s.gone:
		turn.Cancel()
	}
}

// ping sends a ping. It closes the socket if the client does not answer within answerWithin.
func (s *socket) ping() {
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	if s.conn.Ping(ctx) != nil {
		s.end(websocket.StatusPolicyViolation)
	}
}

// read answers each message of the client until the connection ends.
func (s *socket) read() {
	for {
		if _, _, err := s.conn.Read(context.Background()); err != nil {
			// If the WebSocket library has already sent a close frame, this code is not sent.
			s.end(websocket.StatusProtocolError)
			return
		}
		s.send([]byte(healthy))
	}
}

// choose sets the topic and the item of the socket. It returns an error if the caller's key is no longer valid, or if
// the topic has no item with the id. An empty id means all items.
func (q request) choose(s *socket, topic, id string) error {
	s.topic = topic
	switch {
	case id == "":
		return q.db.CheckActor(q.r.Context())
	case topic == "setting" && settings[id].kind == "":
		return noSetting(id)
	case topic == "setting":
		s.item = id
		return q.db.CheckActor(q.r.Context())
	}
	number, err := parseID(id)
	if err != nil {
		return err
	}
	s.item = strconv.FormatInt(number, 10)
	var text []byte
	item := q.selectItem(topic, number).Into(&text)
	if err := q.db.Read(q.r.Context(), db.FreshPlan(), item); err != nil {
		return err
	}
	if item.Rows() == 0 {
		return notFound(topic, number)
	}
	return nil
}

// upgrade turns the connection into a WebSocket. The client then gets the changes of the item with the id, of all
// items of the topic if id is empty, or of all topics if topic is empty too.
func (q request) upgrade(topic, id string) error {
	h := q.handlers
	s := &socket{caller: q.caller.Actor, out: make(chan []byte, maxQueued), gone: make(chan bool)}
	if err := q.choose(s, topic, id); err != nil {
		return err
	}
	if !h.sockets.add(s) {
		return server.ErrTooManyWebSockets
	}
	// This poll reads the current versions of the items. Later polls send the changes since then.
	if err := h.sockets.poll(q.r.Context(), q.tenant()); err != nil {
		h.sockets.remove(s)
		return err
	}
	conn, err := server.AcceptWebSocket(q.w, q.r)
	if err != nil {
		h.sockets.remove(s)
		return err
	}
	conn.SetReadLimit(maxMessage)
	s.conn = conn
	go s.write(h.sockets.pace)
	go func() {
		s.read()
		h.sockets.remove(s)
	}()
	return nil
}
