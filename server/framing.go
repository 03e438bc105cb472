package server

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
)

// A request with both Content-Length and Transfer-Encoding may be an attempt to smuggle another request past a proxy
// that considers only the former (RFC 9112, section 6.3). net/http removes Content-Length before the handler sees the
// request, so framedConn looks for it in what the client sends.
var errTwoLengths = &Error{Status: 400, Code: "BAD_REQUEST",
	Detail: "The request has both Content-Length and Transfer-Encoding"}

// framedListener accepts connections without TLS as *framedConn. With TLS, net/http needs the *tls.Conn.
type framedListener struct{ net.Listener }

func (l framedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		return &framedConn{TCPConn: tcp, inHeader: true}, err
	}
	return conn, err
}

// framedConn is a connection that notices Content-Length in the header of a request. It does not see what net/http
// read together with the previous request, of a client that does not wait for responses. Only the goroutine that reads
// requests uses the fields for that.
type framedConn struct {
	*net.TCPConn
	joins bool   // whether join waits for more to write
	first []byte // what it has until then. Only the handler uses both, within join

	inHeader  bool // whether a header is being read
	begun     bool // whether the header has a line already: net/http ignores line breaks before it
	column    int  // bytes of the current line
	matched   int  // of these, those that begin contentLength
	hasLength bool
}

// bufferedWrite is the size of the buffer in which net/http collects what it writes to a connection.
const bufferedWrite = 4 << 10

// join writes a part of a response that is larger than the buffer of net/http. That writes the full buffer, which has
// the header, and then the rest; join sends both in one system call.
func (c *framedConn) join(w io.Writer, b []byte) (n int, err error) {
	c.joins = true
	defer func() {
		c.joins = false
		if len(c.first) > 0 { // there was no rest
			_, flushErr := c.Write(nil)
			err = cmp.Or(err, flushErr)
		}
	}()
	return w.Write(b)
}

func (c *framedConn) Write(p []byte) (int, error) {
	switch {
	case c.joins && len(p) <= bufferedWrite:
		c.joins, c.first = false, bytes.Clone(p)
		return len(p), nil
	case len(c.first) > 0:
		both := net.Buffers{c.first, p}
		before := len(c.first)
		c.first = nil
		n, err := both.WriteTo(c.TCPConn)
		return max(0, int(n)-before), err
	}
	return c.TCPConn.Write(p)
}

const contentLength = "content-length:"

func (c *framedConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if c.inHeader {
		c.scan(p[:n])
	}
	return n, err
}

func (c *framedConn) scan(b []byte) {
	for _, x := range b {
		switch {
		case x == '\n' && c.column == 0 && c.begun: // the end of the header
			c.inHeader = false
			return
		case x == '\n':
			c.begun = c.column > 0
			c.column, c.matched = 0, 0
		case x != '\r':
			if c.column == c.matched && x|0x20 == contentLength[c.matched] { // |0x20 makes letters lower case
				if c.matched++; c.matched == len(contentLength) {
					c.hasLength, c.inHeader = true, false
					return
				}
			}
			c.column++
		}
	}
}

// changed is called with each new state of the connection. No goroutine reads while the state becomes idle or active,
// but one may while the connection is closed.
func (c *framedConn) changed(state http.ConnState) {
	switch state {
	case http.StateIdle: // the server waits for the next request
		c.inHeader, c.begun, c.column, c.matched, c.hasLength = true, false, 0, 0, false
	case http.StateActive: // it has read the header
		c.inHeader = false
	}
}

type connKey struct{}

// withConn is the ConnContext of the http.Server.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// checkFraming makes the server close the connection of a chunked request after the response, because the request may
// have a Content-Length too. It returns errTwoLengths if it certainly has.
func checkFraming(w http.ResponseWriter, r *http.Request) *Error {
	if len(r.TransferEncoding) == 0 {
		return nil
	}
	w.Header().Set("Connection", "close")
	if conn, ok := r.Context().Value(connKey{}).(*framedConn); ok && conn.hasLength {
		return errTwoLengths
	}
	return nil
}
