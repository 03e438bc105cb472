package server

import (
	"bufio"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"spoolwright/value/language"
)

// closeWithin is how long the closing handshake of a WebSocket may take.
const closeWithin = 5 * time.Second

// WebSocket is an open WebSocket connection. It counts in the bounds of connections until it is closed.
type WebSocket struct {
	*websocket.Conn
	net net.Conn
}

// AcceptWebSocket turns the connection of a request to a Surface into a WebSocket. The error is ErrTooManyWebSockets
// if the caller's tenant has too many WebSockets, ErrUnavailable if all tenants together have too many, ErrForbidden
// for another origin, and a 400 for an invalid handshake.
func AcceptWebSocket(w http.ResponseWriter, r *http.Request) (*WebSocket, error) {
	info := infoOf(r)
	u := &upgrade{ResponseWriter: w, connections: info.server.connections, tenant: info.caller.Actor.Tenant}
	if err := u.connections.addWebSocket(u.tenant); err != nil {
		return nil, err
	}
	// Accept compares the host of Origin with the Host header, which a reverse proxy may have changed. The comparison
	// is not needed if the browser itself reports the same origin.
	sameOrigin := r.Header.Get("Sec-Fetch-Site") == "same-origin"
	conn, err := websocket.Accept(u, r, &websocket.AcceptOptions{InsecureSkipVerify: sameOrigin})
	switch {
	case err == nil:
		return &WebSocket{conn, u.conn}, nil
	case u.status == http.StatusForbidden:
		err = ErrForbidden.Because(err)
	default:
		err = &Error{Status: 400, Code: "VALIDATION_ERROR",
			Detail: language.Sprintf("The WebSocket handshake is not valid"),
			Header: http.Header{"Sec-WebSocket-Version": {"13"}}}
	}
	u.connections.removeWebSocket(u.tenant, nil)
	return nil, err
}

// End closes the connection after a close frame with the code.
func (s *WebSocket) End(code websocket.StatusCode) {
	s.net.SetDeadline(time.Now().Add(closeWithin)) // Close may wait for the rest of a message of any length
	s.Close(code, "")
}

// upgrade is the ResponseWriter for the handshake. It drops the response to an invalid handshake, because
// AcceptWebSocket returns an error instead.
type upgrade struct {
	http.ResponseWriter
	connections *connections
	tenant      string
	status      int
	conn        net.Conn
}

func (u *upgrade) WriteHeader(status int) {
	if u.status = status; status == http.StatusSwitchingProtocols {
		u.ResponseWriter.WriteHeader(status)
	}
}

func (u *upgrade) Write(b []byte) (int, error) { return len(b), nil }

func (u *upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err == nil {
		u.conn = &webSocketConn{Conn: conn, release: func() { u.connections.removeWebSocket(u.tenant, conn) }}
	}
	return u.conn, buffered, err
}

// webSocketConn is the network connection of a WebSocket. Close also removes it from the counts of connections.
type webSocketConn struct {
	net.Conn
	once    sync.Once
	release func()
}

func (s *webSocketConn) Close() error {
	err := s.Conn.Close()
	s.once.Do(s.release)
	return err
}
