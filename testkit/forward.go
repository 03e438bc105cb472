package testkit

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// Forwarder forwards connections to a PostgreSQL, like the proxy of a cluster that fails over. It does not end the
// connections to the old PostgreSQL when it is given a new one.
type Forwarder struct {
	addr   string
	target atomic.Pointer[string] // a socket; nil while Down

	mu    sync.Mutex
	conns map[net.Conn]bool // of clients
}

// NewForwarder starts a forwarder to the PostgreSQL of a connection string. Addr is where it listens, such as
// 127.0.0.1:0.
func NewForwarder(tb testing.TB, addr, to string) *Forwarder {
	tb.Helper()
	f := &Forwarder{conns: map[net.Conn]bool{}}
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

// Down ends all connections, and all new ones until Switch is called.
func (f *Forwarder) Down() {
	f.target.Store(nil)
	f.mu.Lock()
	defer f.mu.Unlock()
	for client := range f.conns {
		client.Close()
	}
}

func (f *Forwarder) forward(client net.Conn) {
	f.mu.Lock()
	f.conns[client] = true
	f.mu.Unlock()
	defer func() {
		client.Close()
		f.mu.Lock()
		delete(f.conns, client)
		f.mu.Unlock()
	}()
	target := f.target.Load()
	if target == nil {
		return
	}
	postgres, err := net.Dial("unix", *target)
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
