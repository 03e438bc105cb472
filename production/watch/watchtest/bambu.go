package watchtest

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"time"
)

// Bambu is a printer of Bambu Lab: a broker of MQTT 3.1.1 in TLS, whose certificate names the serial number.
type Bambu struct {
	Serial, Code string
	Silent       bool // it does not answer pushall
	Endless      bool // it sends messages for ever instead of the acknowledgement of a subscription

	mu       sync.Mutex
	print    Fields // the whole state
	clients  map[net.Conn]bool
	Requests []string // that clients published
}

// Serve serves connections until the listener is closed.
func (b *Bambu) Serve(l net.Listener) {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: b.Serial},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0)}
	der, _ := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go b.serve(tls.Server(conn, config), conn)
	}
}

// Send sends a message with the fields of print, and keeps them for pushall.
func (b *Bambu) Send(fields Fields) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.print == nil {
		b.print = Fields{}
	}
	for name, v := range fields {
		if fields["command"] != "project_file" {
			b.print[name] = v
		}
	}
	b.publish(fields)
}

// Raw sends a text.
func (b *Bambu) Raw(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c, subscribed := range b.clients {
		if subscribed {
			packet(c, 0x30, field("device/"+b.Serial+"/report"), []byte(text))
		}
	}
}

func (b *Bambu) publish(fields Fields) {
	text, _ := json.Marshal(Fields{"print": fields})
	for c, subscribed := range b.clients {
		if subscribed {
			packet(c, 0x30, field("device/"+b.Serial+"/report"), text)
		}
	}
}

func field(s string) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...) }

func packet(w io.Writer, kind byte, parts ...[]byte) {
	var body []byte
	for _, p := range parts {
		body = append(body, p...)
	}
	w.Write(append(binary.AppendUvarint([]byte{kind}, uint64(len(body))), body...))
}

func (b *Bambu) serve(c *tls.Conn, plain net.Conn) {
	defer plain.Close()
	defer func() {
		b.mu.Lock()
		delete(b.clients, c)
		b.mu.Unlock()
	}()
	r := bufio.NewReader(c)
	for {
		kind, err := r.ReadByte()
		if err != nil {
			return
		}
		n, err := binary.ReadUvarint(r)
		if err != nil || n > 1<<20 {
			return
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		b.mu.Lock()
		switch kind & 0xf0 {
		case 0x10:
			code := byte(0)
			if !strings.HasSuffix(string(body), string(field("bblp"))+string(field(b.Code))) {
				code = 5
			}
			packet(c, 0x20, []byte{0, code})
		case 0x80:
			if b.Endless {
				b.mu.Unlock()
				for err == nil {
					_, err = c.Write([]byte{0x30, 4, 0, 1, 'x', '!'})
					time.Sleep(50 * time.Millisecond)
				}
				return
			}
			if b.clients == nil {
				b.clients = map[net.Conn]bool{}
			}
			b.clients[c] = true
			packet(c, 0x90, body[:2], []byte{0})
		case 0x30:
			b.Requests = append(b.Requests, string(body[2+binary.BigEndian.Uint16(body):]))
			if len(b.print) > 0 && !b.Silent {
				b.publish(b.print)
			}
		case 0xc0:
			packet(c, 0xd0)
		}
		b.mu.Unlock()
	}
}
