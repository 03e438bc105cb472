package testkit

import (
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
)

// Forwarder forwards connections to a PostgreSQL, like the proxy of a cluster with failover. Switch does not end
// existing connections to the previous PostgreSQL.
type Forwarder struct {
	addr   string
	target atomic.Pointer[string] // a socket
}

// NewForwarder starts a forwarder to the PostgreSQL of a connection string. It listens on addr, such as 127.0.0.1:0.
func NewForwarder(tb testing.TB, addr, to string) *Forwarder {
	tb.Helper()
	f := new(Forwarder)
	f.Switch(tb, to)
	l, err := net.Listen("tcp", addr)
	Check(tb, err)
	f.addr = l.Addr().String()
	tb.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go f.forward(conn)
		}
	}()
	return f
}

// Switch forwards new connections to the PostgreSQL of a connection string.
func (f *Forwarder) Switch(tb testing.TB, to string) {
	tb.Helper()
	u, err := url.Parse(to)
	Check(tb, err)
	socket := u.Query().Get("host") + "/.s.PGSQL." + u.Query().Get("port")
	f.target.Store(&socket)
}

// URL returns a connection string that leads through the forwarder.
func (f *Forwarder) URL(tb testing.TB, direct string) string {
	tb.Helper()
	u, err := url.Parse(direct)
	Check(tb, err)
	u.Host, u.RawQuery = f.addr, "sslmode=disable"
	return u.String()
}

func (f *Forwarder) forward(client net.Conn) {
	defer client.Close()
	postgres, err := net.Dial("unix", *f.target.Load())
	if err != nil {
		return
	}
	go func() {
		io.Copy(client, postgres)
		client.Close()
	}()
	io.Copy(postgres, client)
	postgres.Close()
}
