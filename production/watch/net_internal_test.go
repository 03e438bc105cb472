package watch

import (
	"context"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// fakeNet is a network in memory, whose connections work with the fake clock of testing/synctest.
type fakeNet struct {
	mu        sync.Mutex
	listeners map[string]*listener
	open      map[net.Conn]string
}

// Listen returns a listener at the address host:port.
func (n *fakeNet) Listen(address string) net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners == nil {
		n.listeners, n.open = map[string]*listener{}, map[net.Conn]string{}
	}
	l := &listener{net: n, address: address, conns: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[address] = l
	return l
}

// Serve serves HTTP at the address, until stop is called.
func (n *fakeNet) Serve(address string, h http.Handler) (stop func()) {
	s := &http.Server{Handler: h}
	l := n.Listen(address)
	go s.Serve(l)
	return func() {
		s.Close()
		n.Cut(address)
	}
}

// Dial is a Dial.
func (n *fakeNet) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}
	}
	client, far := net.Pipe()
	server := &buffered{Conn: far, out: make(chan []byte, 1000), closed: make(chan struct{})}
	select {
	case l.conns <- server:
		go server.send()
		n.mu.Lock()
		n.open[client], n.open[server] = address, address
		n.mu.Unlock()
		return client, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Cut closes the connections to the address.
func (n *fakeNet) Cut(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c, a := range n.open {
		if a == address {
			c.Close()
			delete(n.open, c)
		}
	}
}

type listener struct {
	net     *fakeNet
	address string
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

// buffered is the server's side of a connection, whose writes do not wait for the client.
type buffered struct {
	net.Conn
	out    chan []byte
	closed chan struct{}
	once   sync.Once
}

func (b *buffered) Write(p []byte) (int, error) {
	select {
	case b.out <- append([]byte(nil), p...):
		return len(p), nil
	case <-b.closed:
		return 0, net.ErrClosed
	}
}

func (b *buffered) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

func (b *buffered) send() {
	defer b.Conn.Close()
	for {
		select {
		case p := <-b.out:
			if _, err := b.Conn.Write(p); err != nil {
				b.Close()
				return
			}
		case <-b.closed:
			for { // what was written before
				select {
				case p := <-b.out:
					b.Conn.SetWriteDeadline(time.Now().Add(time.Second))
					if _, err := b.Conn.Write(p); err != nil {
						return
					}
				default:
					return
				}
			}
		}
	}
}
