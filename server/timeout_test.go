package server_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipeListener accepts the server's ends of in-memory connections.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { close(l.closed); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// TestTimeouts checks when the server closes the connection of a slow client. The clock of the test is simulated.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	const body = "POST /api/v1/things HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer admin\r\n" +
		"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
	for _, test := range []struct {
		name, request string
		closed        time.Duration // after the start of the request
	}{
		{"no request", "", 10 * time.Second},
		{"incomplete header", "GET /healthz HTTP/1.1\r\n", 10 * time.Second},
		{"no body", body, 30 * time.Second},
		{"incomplete body", body + "{", 30 * time.Second},
		{"no second request", "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n", 2 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := dialInMemory(t)
				begin := time.Now()
				if _, err := io.WriteString(conn, test.request); err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, conn)
				if took := time.Since(begin); took < test.closed || took > test.closed+time.Second {
					t.Errorf("the server closes the connection after %v, want %v", took, test.closed)
				}
			})
		})
	}
	t.Run("response not read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			conn := dialInMemory(t)
			request := "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			time.Sleep(61 * time.Second) // of the bubble
			if b, _ := io.ReadAll(conn); strings.Contains(string(b), "HTTP/1.1 200") {
				t.Errorf("after 61 seconds the server still sends the response, %d bytes", len(b))
			}
		})
	})
}

// dialInMemory starts a server in the current bubble and returns a connection to it.
func dialInMemory(t *testing.T) net.Conn {
	t.Helper()
	client, conn := net.Pipe()
	l := &pipeListener{make(chan net.Conn, 1), make(chan struct{})}
	l.conns <- conn
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- newServer(t).Serve(ctx, l) }()
	t.Cleanup(func() {
		client.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return client
}
