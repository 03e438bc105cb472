package spoolman

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"spoolwright/db"
	"spoolwright/server"
)

// The server side of WebSocket (RFC 6455), without extensions.
const (
	maxMessage = 4 << 10 // of a client, in bytes
	maxQueued  = 256     // messages for a client that reads slowly; then the socket is closed
	maxPerKey  = 100     // open sockets of a user or API key

	// largeFrame is the size above which frames for all sockets together are sent at most at largeRate bytes a second.
	// Otherwise requests would wait while a spool with long texts is sent to thousands of sockets.
	largeFrame = 16 << 10
	largeRate  = 128 << 20
	largeBurst = 1 << 20

	pingEvery   = 20 * time.Second
	silentAfter = 3 * pingEvery // a client that has not even answered a ping is gone
	writeWithin = 10 * time.Second
)

const (
	opContinuation = 0
	opText         = 1
	opBinary       = 2
	opClose        = 8
	opPing         = 9
	opPong         = 10
)

const healthy = `{"status": "healthy"}`

// Status codes of a close frame.
const (
	closeGoingAway = 1001
	closeProtocol  = 1002
	closePolicy    = 1008
	closeTooBig    = 1009
	closeTryLater  = 1013
)

func hasToken(values []string, token string) bool {
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

func isUpgrade(r *http.Request) bool {
	return hasToken(r.Header.Values("Connection"), "upgrade") && hasToken(r.Header.Values("Upgrade"), "websocket")
}

// topics are the first parts of the paths of sockets, and what they get the changes of; "" is all.
var topics = []string{"", "spool", "filament", "vendor", "setting"}

// upgrade turns the connection into a socket that gets the changes of a topic, or of the item whose id is given.
func (q request) upgrade(topic string, id []string) error {
	w, r, h := q.w, q.r, q.handlers
	key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-WebSocket-Key"))
	if r.Header.Get("Sec-WebSocket-Version") != "13" || err != nil || len(key) != 16 {
		return &server.Error{Status: 400, Code: "VALIDATION_ERROR", Detail: "The WebSocket handshake is not valid",
			Header: http.Header{"Sec-WebSocket-Version": {"13"}}}
	}
	// Unlike other GETs, this one would return data to a page of another site.
	if origin := r.Header.Get("Origin"); origin != "" && r.Header.Get("Sec-Fetch-Site") != "same-origin" {
		if _, host, _ := strings.Cut(origin, "://"); host != r.Host {
			return server.ErrForbidden
		}
	}
	s := &socket{caller: q.caller.Actor, out: make(chan []byte, maxQueued), gone: make(chan bool)}
	if err := q.choose(s, topic, id); err != nil {
		return err
	}
	if !h.sockets.add(s) {
		return server.ErrTooManyWebSockets
	}
	// Later changes are those since this poll.
	if err := h.sockets.poll(r.Context(), q.tenant()); err != nil {
		h.sockets.remove(s)
		return err
	}
	conn, buffered, err := server.Hijack(w, r)
	if err != nil {
		h.sockets.remove(s)
		return err
	}
	conn.SetDeadline(time.Time{})
	s.conn = conn
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	answer := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
		base64.StdEncoding.EncodeToString(sum[:]) + "\r\n\r\n"
	go s.write(answer, h.sockets.pace)
	go func() {
		s.read(buffered.Reader)
		h.sockets.remove(s)
	}()
	return nil
}

// choose checks the caller, and makes the socket get only the changes of a topic, or of the item with the id.
func (q request) choose(s *socket, topic string, id []string) error {
	s.topic = topic
	switch {
	case len(id) == 0 || id[0] == "":
		return q.db.CheckActor(q.r.Context())
	case topic == "setting" && settings[id[0]].kind != "":
		s.item = id[0]
		return q.db.CheckActor(q.r.Context())
	case topic == "setting" || topic == "":
		return notFound("setting", id[0])
	}
	number, err := parseID(id[0])
	if err != nil {
		return err
	}
	s.item = strconv.FormatInt(number, 10)
	var text []byte
	item := q.selectItem(topic, number).Into(&text)
	if err := q.db.Read(q.r.Context(), db.AllowScans(), item); err != nil {
		return err
	}
	if item.Rows() == 0 {
		return notFound(topic, number)
	}
	return nil
}

// socket is an open WebSocket connection.
type socket struct {
	caller db.Actor
	topic  string // what it gets the changes of; "" for all
	item   string // the id of the only item of the topic, or ""
	conn   net.Conn
	out    chan []byte // frames
	gone   chan bool   // closed when the socket is to be closed
	once   sync.Once
	last   []byte // a frame that is sent before the close
}

// end closes the socket after it sent a close frame with the code, or none if the code is 0.
func (s *socket) end(code int) {
	s.once.Do(func() {
		if code != 0 {
			s.last = frame(opClose, binary.BigEndian.AppendUint16(nil, uint16(code)))
		}
		close(s.gone)
	})
}

// send queues a frame. It closes the socket if the client reads too slowly.
func (s *socket) send(f []byte) {
	select {
	case s.out <- f:
	default:
		s.end(closePolicy)
	}
}

// write writes the frames until the socket ends, then closes the connection.
func (s *socket) write(start string, pace *rate.Limiter) {
	defer s.conn.Close()
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	next := []byte(start)
	for {
		if len(next) > largeFrame {
			s.pause(pace.ReserveN(time.Now(), min(len(next), largeBurst)))
		}
		s.conn.SetWriteDeadline(time.Now().Add(writeWithin))
		if _, err := s.conn.Write(next); err != nil {
			s.end(0)
			return
		}
		select {
		case next = <-s.out:
		case <-ping.C:
			next = frame(opPing, nil)
		case <-s.gone:
			if s.last != nil {
				s.conn.SetWriteDeadline(time.Now().Add(time.Second))
				s.conn.Write(s.last)
			}
			return
		}
	}
}

// pause waits until a large frame may be sent or the socket ends.
func (s *socket) pause(turn *rate.Reservation) {
	select {
	case <-time.After(turn.Delay()):
	case <-s.gone:
		turn.Cancel()
	}
}

// frame returns an unmasked frame with a whole message.
func frame(op byte, payload []byte) []byte {
	f := []byte{0x80 | op}
	switch n := len(payload); {
	case n < 126:
		f = append(f, byte(n))
	case n < 1<<16:
		f = binary.BigEndian.AppendUint16(append(f, 126), uint16(n))
	default:
		f = binary.BigEndian.AppendUint64(append(f, 127), uint64(n))
	}
	return append(f, payload...)
}

// read answers the client's messages until the connection or the socket ends.
func (s *socket) read(r *bufio.Reader) {
	message, inMessage := 0, false
	for {
		s.conn.SetReadDeadline(time.Now().Add(silentAfter))
		op, final, payload, err := readFrame(r, maxMessage-message)
		var e closeError
		switch {
		case errors.As(err, &e):
			s.end(int(e))
			return
		case err != nil:
			s.end(0)
			return
		}
		switch op {
		case opPing:
			s.send(frame(opPong, payload))
		case opPong:
		case opClose:
			s.end(1000)
			return
		case opText, opBinary, opContinuation:
			if inMessage != (op == opContinuation) {
				s.end(closeProtocol)
				return
			}
			message += len(payload)
			if inMessage = !final; final {
				message = 0
				s.send(frame(opText, []byte(healthy)))
			}
		}
	}
}

// closeError is the status code of the close frame for a violation of the protocol.
type closeError int

func (closeError) Error() string { return "spoolman: the client violated the WebSocket protocol" }

// readFrame reads a frame of a client with at most so many bytes.
func readFrame(r *bufio.Reader, most int) (op byte, final bool, payload []byte, err error) {
	var head [2]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return
	}
	op, final = head[0]&15, head[0]&0x80 != 0
	n := uint64(head[1] & 0x7f)
	isControl := op >= opClose
	if head[0]&0x70 != 0 || head[1]&0x80 == 0 || op > opBinary && op < opClose || op > opPong ||
		isControl && (n > 125 || !final) {
		return 0, false, nil, closeError(closeProtocol)
	}
	if n >= 126 {
		size := make([]byte, 2)
		if n == 127 {
			size = make([]byte, 8)
		}
		if _, err = io.ReadFull(r, size); err != nil {
			return
		}
		n = 0
		for _, b := range size {
			n = n<<8 | uint64(b)
		}
	}
	if !isControl && n > uint64(most) {
		return 0, false, nil, closeError(closeTooBig)
	}
	var mask [4]byte
	if _, err = io.ReadFull(r, mask[:]); err != nil {
		return
	}
	payload = make([]byte, n)
	if _, err = io.ReadFull(r, payload); err != nil {
		return
	}
	for i := range payload {
		payload[i] ^= mask[i%4]
	}
	return op, final, payload, nil
}

// hub has the open sockets of this instance.
type hub struct {
	db   *db.DB
	wake chan bool     // an item was changed by this instance
	pace *rate.Limiter // of large frames

	mu      sync.Mutex
	closed  bool
	tenants map[string]*audience
	perKey  map[string]int
	dirty   map[string]bool
}

// audience has the sockets of a tenant.
type audience struct {
	sockets map[*socket]bool
	seen    map[item]state // of the items that changed recently; nil before the first poll
	removed map[item]bool  // told when they were removed
	missed  bool           // too many items changed to tell which
	visited bool           // whether visit runs
	slow    bool           // whether the last visit took long
}

func newHub(d *db.DB) *hub {
	return &hub{db: d, wake: make(chan bool, 1), pace: rate.NewLimiter(largeRate, largeBurst),
		tenants: map[string]*audience{}, perKey: map[string]int{}, dirty: map[string]bool{}}
}

// add adds a socket, unless its key has too many.
func (h *hub) add(s *socket) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := s.caller.ID()
	if h.closed || h.perKey[key] >= maxPerKey {
		return false
	}
	h.perKey[key]++
	a := h.tenants[s.caller.Tenant]
	if a == nil {
		a = &audience{sockets: map[*socket]bool{}, removed: map[item]bool{}}
		h.tenants[s.caller.Tenant] = a
	}
	a.sockets[s] = true
	return true
}

func (h *hub) remove(s *socket) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if key := s.caller.ID(); h.perKey[key] == 1 {
		delete(h.perKey, key)
	} else {
		h.perKey[key]--
	}
	a := h.tenants[s.caller.Tenant]
	if delete(a.sockets, s); len(a.sockets) == 0 {
		delete(h.tenants, s.caller.Tenant)
	}
}

// close closes all sockets, and rejects new ones.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, a := range h.tenants {
		for s := range a.sockets {
			s.end(closeGoingAway)
		}
	}
}

// removed tells the sockets of this instance that an item was deleted, whose JSON is payload.
func (h *hub) removed(tenant, resource string, number int64, payload []byte) {
	it := item{resource, strconv.FormatInt(number, 10)}
	h.mu.Lock()
	if a := h.tenants[tenant]; a != nil {
		a.removed[it] = true // the poll finds it, too, if it is hidden
	}
	h.mu.Unlock()
	h.tell(tenant, it, message("deleted", resource, payload))
}

// changedSetting tells the sockets of this instance that a setting has changed, whose JSON is given.
func (h *hub) changedSetting(tenant, key string, setting []byte) {
	payload := slices.Concat([]byte(`{"key":"`+key+`","setting":`), setting, []byte("}"))
	h.tell(tenant, item{"setting", key}, message("updated", "setting", payload))
}

// changed makes the sockets of the tenant get its changed items after wakeDelay, before the next regular poll.
func (h *hub) changed(tenant string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tenants[tenant] != nil {
		h.notify(tenant)
	}
}

func (h *hub) notify(tenant string) {
	h.dirty[tenant] = true
	select {
	case h.wake <- true:
	default:
	}
}
